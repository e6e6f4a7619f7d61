//! The segments of a directory as names, sizes and times of files tell them: no log is read, however large it is.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::format::batch::{HEADER_V2_LEN, Header, Limits};
use crate::format::index::{OffsetIndex, TIME_ENTRY_LEN, TimeEntry};
use crate::format::names::{FileType, SegmentFile};
use crate::log::LogError;
use crate::log::files::{self, SourceFile};
use crate::log::segment::beside::{MAX_INDEX_BYTES, live_path};
use crate::log::segment::scan::{Scanner, Start, Step};
use crate::log::segment::time_hint::entry;
use crate::units::{Offset, Position, Timestamp};

/// A segment as its file tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSegment {
    /// The number in its name.
    pub base: Offset,
    /// Bytes of its log.
    pub len: u64,
    /// When its log was written last, in milliseconds.
    pub modified: Timestamp,
}

/// The largest timestamp of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Largest {
    /// The time.
    pub timestamp: Timestamp,
    /// What says so.
    pub from: TimeSource,
}

/// What a segment's largest timestamp is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeSource {
    /// The last entry of its time index.
    TimeIndex,
    /// Its batches: the index is missing, or can't be right.
    Log,
    /// Its file: no record has a time, as below Kafka 0.10.
    File,
}

/// The segments in a partition's directory, by their bases.
///
/// # Errors
/// The system's.
pub fn segments(directory: &Path) -> Result<Vec<ListedSegment>, LogError> {
    let failed = |error| LogError::io(directory, "list", error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file = entry.file_name().to_str().and_then(SegmentFile::parse);
        let Some(file) = file.filter(|file| *file == SegmentFile::live(file.base, FileType::Log)) else {
            continue;
        };
        let Ok(metadata) = entry.metadata() else { continue };
        let modified = Timestamp(metadata.mtime().saturating_mul(1000) + metadata.mtime_nsec() / 1_000_000);
        found.push(ListedSegment { base: file.base, len: metadata.len(), modified });
    }
    found.sort_by_key(|segment| segment.base);
    Ok(found)
}

impl ListedSegment {
    /// The path of its log.
    pub fn path(&self, directory: &Path) -> PathBuf {
        live_path(directory, self.base, FileType::Log)
    }

    /// Its largest timestamp as its time index says, where that can be right; else as its batches say, and where they have none, as
    /// its file does. `below` is the base of the next segment.
    ///
    /// # Errors
    /// Those of reading.
    pub fn largest(&self, directory: &Path, below: Offset, limits: Limits) -> Result<Largest, LogError> {
        let by_file = Largest { timestamp: self.modified, from: TimeSource::File };
        if self.len == 0 {
            return Ok(by_file);
        }
        match self.last_entry(directory, below) {
            // What came after the last entry isn't in the index before the segment is sealed.
            Some(entry) if below == Offset(i64::MAX) => return self.largest_from(directory, entry, limits),
            Some(entry) => {
                return Ok(Largest { timestamp: entry.timestamp, from: TimeSource::TimeIndex });
            }
            None => {}
        }
        if !self.first_has_time(directory) {
            return Ok(by_file);
        }
        self.largest_of_batches(directory, below, limits)
    }

    /// What its time index says, if a batch confirms it: the one with that offset has that time, and so it is this segment's. Otherwise
    /// what its batches say. For who is about to delete it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn confirmed(&self, directory: &Path, below: Offset, limits: Limits) -> Result<Largest, LogError> {
        let largest = self.largest(directory, below, limits)?;
        if largest.from != TimeSource::TimeIndex || self.is_confirmed(directory, below, limits)? {
            return Ok(largest);
        }
        self.largest_of_batches(directory, below, limits)
    }

    /// The largest timestamp from an entry of its time index on.
    fn largest_from(&self, directory: &Path, entry: TimeEntry, limits: Limits) -> Result<Largest, LogError> {
        let below = Offset(i64::MAX);
        let timestamp = self.newest(directory, self.scan_at(directory, entry.offset, below, limits)?)?;
        Ok(if timestamp > entry.timestamp {
            Largest { timestamp, from: TimeSource::Log }
        } else {
            Largest { timestamp: entry.timestamp, from: TimeSource::TimeIndex }
        })
    }

    /// The largest timestamp of the batches that a scan has to come.
    fn newest(&self, directory: &Path, mut scanner: Scanner<SourceFile>) -> Result<Timestamp, LogError> {
        let mut newest = Timestamp::NONE;
        loop {
            match scanner.step().map_err(|error| LogError::io(&self.path(directory), "read", error))? {
                Step::Batch { batch, .. } => newest = newest.max(batch.header.max_timestamp),
                Step::Damage(_) => {}
                Step::End(_) => return Ok(newest),
            }
        }
    }

    /// A scan that begins at or before the batch of an offset.
    fn scan_at(
        &self,
        directory: &Path,
        offset: Offset,
        below: Offset,
        limits: Limits,
    ) -> Result<Scanner<SourceFile>, LogError> {
        let index = live_path(directory, self.base, FileType::OffsetIndex);
        let index = files::read_small(&index, MAX_INDEX_BYTES).unwrap_or_default();
        let position = OffsetIndex::new(self.base, &index).floor(offset.plus(-1));
        let position = position.map_or(Position(0), |floor| floor.position);
        self.scan(directory, position, below, limits)
    }

    fn scan(
        &self,
        directory: &Path,
        position: Position,
        below: Offset,
        limits: Limits,
    ) -> Result<Scanner<SourceFile>, LogError> {
        let path = self.path(directory);
        let file = files::open(&path).map_err(|error| LogError::io(&path, "read", error))?;
        Ok(Scanner::new(file, self.len, Start::new(position, self.base, below), limits))
    }

    fn is_confirmed(&self, directory: &Path, below: Offset, limits: Limits) -> Result<bool, LogError> {
        let Some(entry) = self.last_entry(directory, below) else { return Ok(false) };
        let mut scanner = self.scan_at(directory, entry.offset, below, limits)?;
        let failed = |error| LogError::io(&self.path(directory), "read", error);
        loop {
            match scanner.step().map_err(failed)? {
                Step::Batch { batch, .. } if batch.header.last_offset >= entry.offset => {
                    let header = &batch.header;
                    return Ok(
                        header.first_known() <= entry.offset && header.max_timestamp == entry.timestamp
                    );
                }
                Step::Batch { .. } => {}
                Step::Damage(_) | Step::End(_) => return Ok(false),
            }
        }
    }

    /// Its largest timestamp as its batches say: all of it is read.
    ///
    /// # Errors
    /// Those of reading.
    pub fn largest_of_batches(
        &self,
        directory: &Path,
        below: Offset,
        limits: Limits,
    ) -> Result<Largest, LogError> {
        let timestamp = self.newest(directory, self.scan(directory, Position(0), below, limits)?)?;
        Ok(if timestamp.0 >= 0 {
            Largest { timestamp, from: TimeSource::Log }
        } else {
            Largest { timestamp: self.modified, from: TimeSource::File }
        })
    }

    /// The last entry of the time index; `None` where there is none, or it can't be one of this segment.
    fn last_entry(&self, directory: &Path, below: Offset) -> Option<TimeEntry> {
        let index = files::open(&live_path(directory, self.base, FileType::TimeIndex)).ok()?;
        let len = index.metadata().ok()?.len();
        let count = len / TIME_ENTRY_LEN as u64;
        if !len.is_multiple_of(TIME_ENTRY_LEN as u64) {
            return None;
        }
        // One that is preallocated ends in zeros.
        let (mut low, mut high) = (0, count);
        let last = |number: u64| entry(&index, number.checked_sub(1)?);
        if last(count).is_none() {
            while low < high {
                let middle = low + (high - low) / 2;
                if entry(&index, middle).is_none() { high = middle } else { low = middle + 1 }
            }
        } else {
            low = count;
        }
        let entry = last(low)?;
        let offset = self.base.plus(i64::from(entry.relative_offset()));
        let timestamp = entry.timestamp();
        (timestamp.0 >= 0 && offset >= self.base && offset < below).then_some(TimeEntry { timestamp, offset })
    }

    /// Whether its first batch has a time.
    fn first_has_time(&self, directory: &Path) -> bool {
        let Ok(file) = files::open(&self.path(directory)) else { return true };
        let mut bytes = [0; HEADER_V2_LEN];
        let read = files::read_full(&file, &mut bytes, 0).unwrap_or(0);
        Header::peek(bytes.get(..read).unwrap_or_default()).is_ok_and(|header| header.magic > 0)
    }
}
