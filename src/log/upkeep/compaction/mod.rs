//! Compaction: of each key the last record stays, by the rules of Kafka's cleaner.
//!
//! The dirty part of a log is read, and the last offset of each key kept in a map of bounded memory. Then all segments up to there are
//! written anew without what has been superseded, and put in the place of the old ones. Where the map is full, the rest waits for
//! another round.
//!
//! | module | what |
//! |---|---|
//! | [`range`] | what may be compacted, and whether it is worth it |
//! | `offset_map` | the last offset of each key |
//! | `reading` | segments that are read ahead |
//! | `survivors` | which records stay |
//! | `groups` | which segments become one |
//! | `writer`, `cleaned` | the segments that are written |
//! | `swap` | the old ones make room for the new ones |
//!
//! Nothing that can't be read is taken away: a log with damage is left as it is.

mod cleaned;
mod groups;
mod offset_map;
pub mod range;
mod reading;
mod survivors;
mod swap;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::format::batch::{Batch, BatchError, Decoder, Limits};
use crate::format::index::{AbortedTxn, TxnIndex};
use crate::format::names::{FileState, FileType};
use crate::format::snapshot::ProducerEntry;
use crate::log::LogError;
use crate::log::append::recovery::files::partition_of;
use crate::log::files;
use crate::log::files::disk::{self, Disk};
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::segment::beside::{MAX_INDEX_BYTES, live_path};
use crate::log::transactions::{Decided, Transactions};
use crate::log::upkeep::listing::ListedSegment;
use crate::units::{Offset, Position, ProducerId, Timestamp, TopicPartition};
use cleaned::FILE_TYPES;
use groups::{Most, Sizes, groups};
use offset_map::OffsetMap;
use range::Cleanable;
use reading::{Event, Next};
use survivors::{LastBatch, Progress, Seen, Survivors};
use writer::Writer;

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
    pub read: &'a dyn Fn(u64),
    /// Told of files that wait for their removal.
    pub set_aside: &'a dyn Fn(PathBuf),
}

impl Compaction<'_> {
    /// One round: as much of the dirty part as fits into the map.
    ///
    /// # Errors
    /// Why it can't be compacted. Segments that were replaced before stay replaced.
    pub fn run(&self, watcher: &Watcher<'_>) -> Result<Compacted, CompactionError> {
        let partition = partition_of(self.directory, self.name, self.settings.limits);
        let mut round = Round {
            compaction: self,
            segments: partition.segments()?,
            partition,
            decided: None,
            decoder: Decoder::default(),
            watcher,
        };
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

/// A round of compaction.
struct Round<'a> {
    compaction: &'a Compaction<'a>,
    partition: Partition,
    segments: Arc<[Arc<Segment>]>,
    /// Known from the first batch of a transaction on.
    decided: Option<Arc<Decided>>,
    decoder: Decoder,
    watcher: &'a Watcher<'a>,
}

impl Round<'_> {
    /// The last offsets of the keys in the dirty part.
    fn map(&mut self) -> Result<OffsetMap, CompactionError> {
        let Cleanable { first_dirty: from, first_uncleanable: below, .. } = self.compaction.cleanable;
        let settings = &self.compaction.settings;
        let offsets = u64::try_from(below.0.saturating_sub(from.0)).unwrap_or(0);
        let mut map = OffsetMap::new(settings.map_bytes, offsets);
        let segments = self.segments.clone();
        let dirty = Partition::floor(&segments, from)..self.below(below);
        reading::read(segments.get(dirty).unwrap_or_default(), from, |segment, event| {
            let Event::Batch(position, batch) = event else {
                // Offsets may be missing at its end.
                map.set_latest(segment.below().min(below).plus(-1));
                return Ok(Next::Go);
            };
            self.watch(&batch)?;
            if batch.header.last_offset < from {
                return Ok(Next::Go);
            }
            if !batch.header.is_control && !self.is_aborted(&batch)? {
                let unreadable = |error| undecodable(segment, position, &error);
                let records = batch.records(&mut self.decoder, &settings.limits).map_err(unreadable)?;
                for record in records {
                    let record = record.map_err(unreadable)?;
                    if let Some(key) = record.key.filter(|_| record.offset >= from)
                        && !map.put(key, record.offset)
                    {
                        return Ok(Next::Stop);
                    }
                }
            }
            map.set_latest(batch.header.last_offset);
            Ok(Next::Go)
        })?;
        Ok(map)
    }

    /// How many segments begin below an offset.
    fn below(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base < offset)
    }

    /// Writes the segments below `end` anew.
    fn clean(&mut self, map: &OffsetMap, end: Offset) -> Result<Compacted, CompactionError> {
        let compaction = self.compaction;
        let Settings { now, delete_retention_ms, producer_expiration_ms, limits, .. } = compaction.settings;
        let count = compaction.segments.partition_point(|segment| segment.base < end);
        let below_end = compaction.segments.get(..count).unwrap_or_default();
        let mut survivors = Survivors {
            map,
            now,
            delete_retention_ms,
            high_watermark: compaction.high_watermark,
            producers: LastBatch::of_all(compaction.producers, now, producer_expiration_ms),
            progress: Progress::default(),
            limits,
        };
        let old_horizon = self.old_tombstone_horizon();
        let mut compacted = Compacted { end, ..Compacted::default() };
        let mut rest = below_end;
        for count in compaction.groups(below_end) {
            let (group, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = behind;
            let written = self.clean_group(group, old_horizon, &mut survivors, &mut compacted);
            let new = match written {
                Ok(new) => new,
                Err(error) => {
                    self.undo(group);
                    return Err(error);
                }
            };
            let old: Vec<_> = group.iter().map(|segment| segment.base).collect();
            swap::replace(compaction.disk, compaction.directory, &new, &old, self.watcher.set_aside)
                .map_err(|source| CompactionError::HalfDone { source })?;
            compacted.segments.0 += old.len() as u64;
            compacted.segments.1 += new.len() as u64;
        }
        Ok(compacted)
    }

    /// Below magic 2 tombstones go that are in a file older than this.
    fn old_tombstone_horizon(&self) -> Timestamp {
        let compaction = self.compaction;
        let first_dirty = compaction.cleanable.first_dirty;
        let clean = compaction.segments.partition_point(|segment| segment.base < first_dirty);
        let last = clean.checked_sub(1).and_then(|last| compaction.segments.get(last));
        let retention = i64::try_from(compaction.settings.delete_retention_ms).unwrap_or(i64::MAX);
        last.map_or(Timestamp(0), |last| Timestamp(last.modified.0.saturating_sub(retention)))
    }

    /// Writes what is left of some segments as one, or more where offsets or bytes don't fit into one; the bases of the new ones.
    fn clean_group(
        &mut self,
        group: &[ListedSegment],
        old_horizon: Timestamp,
        survivors: &mut Survivors<'_>,
        compacted: &mut Compacted,
    ) -> Result<Vec<Offset>, CompactionError> {
        let compaction = self.compaction;
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return Ok(Vec::new()) };
        let mut writer = Writer::new(compaction, first.base)?;
        let segments = self.segments.clone();
        let sources = segments.get(self.below(first.base)..self.below(last.base.next())).unwrap_or_default();
        if !sources.iter().map(|segment| segment.base).eq(group.iter().map(|listed| listed.base)) {
            return Err(LogError::Stale { path: compaction.directory.to_owned() }.into());
        }
        let (mut number, mut index) = (0, None);
        reading::read(sources, Offset(i64::MIN), |segment, event| {
            let Event::Batch(position, batch) = event else {
                (number, index) = (number + 1, None);
                return Ok(Next::Go);
            };
            self.watch(&batch)?;
            let is_aborted = self.is_aborted(&batch)?;
            let keeps_old_tombstones = group.get(number).is_some_and(|listed| listed.modified > old_horizon);
            let seen = Seen { batch: &batch, is_aborted, keeps_old_tombstones };
            let judged = survivors
                .judge(seen, &mut self.decoder)
                .map_err(|error| undecodable(segment, position, &error))?;
            compacted.without_key += judged.without_key;
            compacted.records.0 += u64::from(batch.header.record_count.unwrap_or(0));
            let is_needed_abort = judged.is_needed_abort;
            compacted.records.1 += writer.write(compaction.disk, &batch, judged.left)?;
            if is_needed_abort {
                let index = index.get_or_insert_with(|| aborted_in(segment));
                writer.add_aborted(aborted_by(&batch, index, self.decided.as_deref()));
            }
            Ok(Next::Go)
        })?;
        writer.finish(compaction.disk, last.modified)?;
        compacted.bytes.0 += group.iter().map(|listed| listed.len).sum::<u64>();
        compacted.bytes.1 += writer.bytes;
        Ok(writer.bases)
    }

    /// Whether a batch is data of a transaction that was aborted.
    fn is_aborted(&mut self, batch: &Batch<'_>) -> Result<bool, CompactionError> {
        let header = &batch.header;
        let Some(producer) = header.producer_id.filter(|_| header.is_transactional && !header.is_control)
        else {
            return Ok(false);
        };
        if self.decided.is_none() {
            self.decided = Some(Transactions::default().decided(&self.partition, None)?);
        }
        let decided = self.decided.as_ref();
        Ok(decided.is_some_and(|decided| decided.is_aborted(producer, header.first_known())))
    }

    fn watch(&self, batch: &Batch<'_>) -> Result<(), CompactionError> {
        (self.watcher.read)(batch.bytes.len() as u64);
        if self.watcher.stop.load(Ordering::Relaxed) {
            return Err(CompactionError::Stopped { path: self.compaction.directory.to_owned() });
        }
        Ok(())
    }

    /// Removes what was written of new segments.
    fn undo(&self, group: &[ListedSegment]) {
        for segment in group {
            for file_type in FILE_TYPES {
                let path =
                    cleaned::path(self.compaction.directory, segment.base, file_type, FileState::Cleaned);
                // Every loader throws it away.
                if let Err(error) = disk::remove_if_there(self.compaction.disk, &path) {
                    tracing::debug!(%error, "left where it is");
                }
            }
        }
    }
}

/// The entries of a segment's transaction index.
fn aborted_in(segment: &Segment) -> Vec<AbortedTxn> {
    let bytes = files::read_small(&segment.beside(FileType::TxnIndex), MAX_INDEX_BYTES).unwrap_or_default();
    TxnIndex::new(&bytes).entries().collect()
}

/// The entry of the transaction index that a marker has.
fn aborted_by(marker: &Batch<'_>, index: &[AbortedTxn], decided: Option<&Decided>) -> AbortedTxn {
    let at = marker.header.last_offset;
    let producer_id = marker.header.producer_id.unwrap_or(ProducerId(-1));
    let is_its = |entry: &&AbortedTxn| entry.producer_id == producer_id && entry.last_offset == at;
    if let Some(entry) = index.iter().find(is_its) {
        return *entry;
    }
    let all = decided.map(|decided| decided.aborted_between(at, at)).unwrap_or_default();
    let txn = all.iter().find(|txn| txn.producer == producer_id && txn.last == at);
    let first_offset = txn.map_or(at, |txn| txn.first);
    AbortedTxn { version: 0, producer_id, first_offset, last_offset: at, last_stable_offset: at.next() }
}

fn undecodable(segment: &Segment, position: Position, error: &BatchError) -> CompactionError {
    CompactionError::Damaged { path: segment.path.clone(), position, cause: error.to_string() }
}
