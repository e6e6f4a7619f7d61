//! Compaction: of each key the last record stays, by the rules of Kafka's cleaner.
//!
//! The dirty part of a log is read, and the last offset of each key kept in a map of bounded memory. Then all segments up to there are
//! written anew without what has been superseded, and put in the place of the old ones. Where the map is full, the rest waits for
//! another round.
//!
//! | module | what |
//! |---|---|
//! | [`range`] | what may be compacted, and whether it is worth it |
//! | `round` | one round: both passes over the log |
//! | `offset_map` | the last offset of each key |
//! | `reading` | segments that are read by several threads |
//! | `progress` | transactions, for which batches are seen in order |
//! | `survivors` | which records stay |
//! | `groups` | which segments become one |
//! | `writer`, `cleaned` | the segments that are written |
//! | `replacing`, `swap` | the old ones make room for the new ones |
//!
//! Nothing that can't be read is taken away: a log with damage is left as it is.

mod cleaned;
mod groups;
mod offset_map;
mod progress;
pub mod range;
mod reading;
mod replacing;
mod round;
mod survivors;
mod swap;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::format::batch::Limits;
use crate::format::names::FileType;
use crate::format::snapshot::ProducerEntry;
use crate::log::LogError;
use crate::log::files::disk::Disk;
use crate::log::segment::beside::live_path;
use crate::log::upkeep::listing::ListedSegment;
use crate::units::{Offset, Position, Timestamp, TopicPartition};
use groups::{Most, Sizes, groups};
use range::Cleanable;
use round::Round;

/// `log.cleaner.dedupe.buffer.size`
pub const DEFAULT_MAP_BYTES: usize = 128 * 1024 * 1024;
/// `producer.id.expiration.ms`
pub const PRODUCER_EXPIRATION_MS: i64 = 24 * 60 * 60 * 1000;

/// A log that is compacted.
#[derive(Debug)]
pub struct Compaction<'a> {
    /// Where it is written.
    pub disk: &'a dyn Disk,
    /// Its directory.
    pub directory: &'a Path,
    /// Its topic and number.
    pub name: &'a TopicPartition,
    /// What of it may be compacted.
    pub cleanable: Cleanable,
    /// Its segments in order.
    pub segments: &'a [ListedSegment],
    /// Its producers at its end.
    pub producers: &'a [ProducerEntry],
    /// Its high watermark.
    pub high_watermark: Offset,
    /// How it is done.
    pub settings: Settings,
}

/// How a log is compacted.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// The time it is.
    pub now: Timestamp,
    /// `delete.retention.ms`
    pub delete_retention_ms: u64,
    /// `segment.bytes`
    pub segment_bytes: u64,
    /// `segment.index.bytes`
    pub segment_index_bytes: u64,
    /// `index.interval.bytes`
    pub index_interval_bytes: u64,
    /// The most memory that the map of keys takes.
    pub map_bytes: usize,
    /// After what time without a batch a producer is forgotten.
    pub producer_expiration_ms: i64,
    /// How much memory one batch may cost.
    pub limits: Limits,
}

/// What a compaction has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The first offset that was not compacted.
    pub end: Offset,
    /// Records that were read, and that are left.
    pub records: (u64, u64),
    /// Bytes of logs before and after.
    pub bytes: (u64, u64),
    /// Segments before and after.
    pub segments: (u64, u64),
    /// Records that went because they had no key.
    pub without_key: u64,
}

impl Compacted {
    /// What this round and the next have done.
    #[must_use]
    pub(in crate::log) const fn and(self, next: Self) -> Self {
        Self {
            end: next.end,
            records: (self.records.0, next.records.1),
            bytes: (self.bytes.0, next.bytes.1),
            segments: (self.segments.0, next.segments.1),
            without_key: self.without_key + next.without_key,
        }
    }
}

/// Why a log can't be compacted.
#[derive(Debug, thiserror::Error)]
pub enum CompactionError {
    /// Part of it can't be read.
    #[error("{} at {position}: {cause}; a log with damage isn't compacted", path.display())]
    Damaged {
        /// The segment.
        path: PathBuf,
        /// Where.
        position: Position,
        /// What is wrong.
        cause: String,
    },
    /// There is room for no key at all.
    #[error("{}: log.cleaner.dedupe.buffer.size = {bytes} has no room for keys", path.display())]
    MapTooSmall {
        /// The partition's directory.
        path: PathBuf,
        /// The size.
        bytes: usize,
    },
    /// New segments could not be put in the place of the old ones, or only some of them: the next loader finishes it, or undoes it.
    #[error("{source}; it is left half done until the log is recovered, as the next mount does")]
    HalfDone {
        /// What failed.
        source: LogError,
    },
    /// Somebody wanted it to stop; nothing has changed since the last group of segments.
    #[error("{}: stopped", path.display())]
    Stopped {
        /// The partition's directory.
        path: PathBuf,
    },
    /// Its files can't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Whoever waits for a compaction.
#[derive(Clone, Copy)]
pub struct Watcher<'a> {
    /// Set when it is to stop.
    pub stop: &'a AtomicBool,
    /// Told of bytes that were read, piece by piece.
    pub read: &'a (dyn Fn(u64) + Sync),
    /// Told of files that wait for their removal.
    pub set_aside: &'a (dyn Fn(PathBuf) + Sync),
}

impl Watcher<'_> {
    /// Tells of bytes that were read.
    ///
    /// # Errors
    /// That somebody wants the compaction of `directory` to stop.
    fn see(&self, bytes: u64, directory: &Path) -> Result<(), CompactionError> {
        (self.read)(bytes);
        if self.stop.load(Ordering::Relaxed) {
            return Err(CompactionError::Stopped { path: directory.to_owned() });
        }
        Ok(())
    }
}

impl Compaction<'_> {
    /// One round: as much of the dirty part as fits into the map.
    ///
    /// # Errors
    /// Why it can't be compacted. Segments that were replaced before stay replaced.
    pub fn run(&self, watcher: &Watcher<'_>) -> Result<Compacted, CompactionError> {
        let mut round = Round::new(self, watcher)?;
        let map = round.map()?;
        let Some(end) = map.latest().map(Offset::next) else {
            let (path, bytes) = (self.directory.to_owned(), self.settings.map_bytes);
            return Err(CompactionError::MapTooSmall { path, bytes });
        };
        round.clean(&map, end)
    }

    /// The group sizes of the segments below `end`.
    fn groups(&self, below_end: &[ListedSegment]) -> Vec<usize> {
        let Settings { segment_bytes: bytes, segment_index_bytes: index_bytes, .. } = self.settings;
        let len = |segment: &ListedSegment, file_type| {
            let path = live_path(self.directory, segment.base, file_type);
            std::fs::metadata(path).map_or(0, |metadata| metadata.len())
        };
        let sizes = |segment: &ListedSegment| Sizes {
            offset_index: len(segment, FileType::OffsetIndex),
            time_index: len(segment, FileType::TimeIndex),
        };
        groups(below_end, self.cleanable.first_uncleanable, Most { bytes, index_bytes }, sizes)
    }
}
