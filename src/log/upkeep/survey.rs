//! What of a log is due, found without changing anything: for who only asks, and before anything is done.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::batch::{HEADER_V2_LEN, Header, Limits};
use crate::log::LogError;
use crate::log::append::recovery::files::partition_of;
use crate::log::files::{self, FileId, FilePool};
use crate::log::segment::{Segment, SegmentFile};
use crate::log::transactions::open_at_end;
use crate::log::upkeep::compaction::range::{self, Cleanable, Times};
use crate::log::upkeep::listing::{self, Largest, ListedSegment, TimeSource};
use crate::log::upkeep::policy::Policy;
use crate::log::upkeep::retention::{self, Decision};
use crate::units::{Offset, Timestamp, TopicPartition};

/// What a data directory has written down of a partition.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bounds {
    /// The log start offset, if it isn't that of the first segment.
    pub log_start: Option<Offset>,
    /// The high watermark; the log's end where nobody knows one.
    pub high_watermark: Option<Offset>,
    /// Up to where the log was compacted.
    pub cleaned: Option<Offset>,
    /// What whoever appends to it knows.
    pub open: Option<OpenLog>,
}

/// What is known of a log that is appended to, and in no file yet.
#[derive(Debug, Clone, Copy)]
pub struct OpenLog {
    /// The offset after its last, which is its high watermark, too: there are no other replicas.
    pub end: Offset,
    /// Its last stable offset.
    pub last_stable: Offset,
    /// The largest timestamp of its active segment.
    pub largest: Timestamp,
}

/// A log that was looked at.
#[derive(Debug)]
pub struct Survey {
    /// Its directory.
    pub directory: PathBuf,
    /// Its segments in order.
    pub segments: Vec<ListedSegment>,
    /// The log start offset.
    pub start: Offset,
    /// The offset after its last.
    pub end: Offset,
    /// The high watermark.
    pub high_watermark: Offset,
    name: TopicPartition,
    cleaned: Option<Offset>,
    open: Option<OpenLog>,
    limits: Limits,
}

impl Survey {
    /// Lists the segments, and finds the end in the last one.
    ///
    /// # Errors
    /// Those of listing and reading.
    pub fn new(
        directory: &Path,
        name: &TopicPartition,
        bounds: &Bounds,
        limits: Limits,
    ) -> Result<Self, LogError> {
        let segments = listing::segments(directory)?;
        let first = segments.first().map_or(Offset(0), |first| first.base);
        let start = bounds.log_start.map_or(first, |start| start.max(first));
        let end = match (bounds.open, segments.last()) {
            (Some(open), _) => open.end,
            (None, Some(last)) => end_of(directory, last, limits)?,
            (None, None) => start,
        };
        let high_watermark = bounds.high_watermark.filter(|_| bounds.open.is_none());
        Ok(Self {
            directory: directory.to_owned(),
            segments,
            start,
            end,
            high_watermark: high_watermark.map_or(end, |mark| mark.min(end)),
            name: name.clone(),
            cleaned: bounds.cleaned,
            open: bounds.open,
            limits,
        })
    }

    /// Bytes of its logs.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// What goes by retention.
    ///
    /// # Errors
    /// Those of reading times.
    pub fn retention(&self, policy: &Policy, now: Timestamp) -> Result<Decision, LogError> {
        Decision::new(&self.log(now), policy, |number| self.largest(number))
    }

    /// The same for who will do it: a time index is believed only when the log confirms it.
    ///
    /// # Errors
    /// Those of reading times.
    pub(in crate::log) fn confirmed_retention(
        &self,
        policy: &Policy,
        now: Timestamp,
    ) -> Result<Decision, LogError> {
        let confirmed = |number| self.time_of(number, ListedSegment::confirmed);
        Decision::new(&self.log(now), policy, confirmed)
    }

    /// What may be compacted.
    ///
    /// # Errors
    /// Those of reading times, and open transactions.
    pub fn cleanable(&self, policy: &Policy, now: Timestamp) -> Result<Cleanable, LogError> {
        let log = range::Log {
            segments: &self.segments,
            start: self.start,
            end: self.end,
            last_stable: self.last_stable()?,
            checkpoint: self.cleaned,
            now,
        };
        Cleanable::new(&log, policy, &mut ByFiles(self))
    }

    /// The largest timestamp of the segment of that number.
    ///
    /// # Errors
    /// Those of reading.
    pub fn largest(&self, number: usize) -> Result<Largest, LogError> {
        self.time_of(number, ListedSegment::largest)
    }

    fn time_of(
        &self,
        number: usize,
        time: impl Fn(&ListedSegment, &Path, Offset, Limits) -> Result<Largest, LogError>,
    ) -> Result<Largest, LogError> {
        let next = self.segments.get(number + 1);
        let below = next.map_or(Offset(i64::MAX), |next| next.base);
        match (self.segments.get(number), self.open.filter(|_| next.is_none())) {
            (Some(_), Some(OpenLog { largest: timestamp, .. })) if timestamp.0 >= 0 => {
                Ok(Largest { timestamp, from: TimeSource::Log })
            }
            (Some(segment), _) => time(segment, &self.directory, below, self.limits),
            (None, _) => Err(LogError::Stale { path: self.directory.clone() }),
        }
    }

    fn log(&self, now: Timestamp) -> retention::Log<'_> {
        let Self { ref segments, start, end, high_watermark, .. } = *self;
        retention::Log { segments, start, end, high_watermark, now }
    }

    /// The last stable offset: a snapshot tells which transactions are open, and what was written after it.
    fn last_stable(&self) -> Result<Offset, LogError> {
        if let Some(open) = self.open {
            return Ok(open.last_stable);
        }
        let partition = partition_of(&self.directory, &self.name, self.limits);
        let decided = open_at_end(&partition, u64::MAX)?;
        let stable = decided.map_or(self.end, |decided| decided.last_stable());
        Ok(stable.min(self.high_watermark))
    }
}

/// Times as files tell them.
struct ByFiles<'a>(&'a Survey);

impl Times for ByFiles<'_> {
    fn largest(&mut self, number: usize) -> Result<Largest, LogError> {
        self.0.largest(number)
    }

    fn first(&mut self, number: usize) -> Result<Option<Timestamp>, LogError> {
        let Some(segment) = self.0.segments.get(number) else { return Ok(None) };
        let path = segment.path(&self.0.directory);
        let mut bytes = [0; HEADER_V2_LEN];
        let read = files::open(&path).and_then(|file| files::read_full(&file, &mut bytes, 0));
        let read = read.map_err(|error| LogError::io(&path, "read", error))?;
        Ok(Header::peek(bytes.get(..read).unwrap_or_default()).ok().map(|header| header.max_timestamp))
    }
}

/// The offset after the last one of a log's last segment.
fn end_of(directory: &Path, last: &ListedSegment, limits: Limits) -> Result<Offset, LogError> {
    let path = last.path(directory);
    let metadata = std::fs::symlink_metadata(&path).map_err(|error| LogError::io(&path, "stat", error))?;
    let id = FileId::of(&metadata);
    let file = SegmentFile { base: last.base, path, id, len: last.len, changed: None, packing: None };
    let pool = Arc::new(FilePool::new(NonZeroUsize::MIN));
    Ok(Segment::new(file, last.base, Offset(i64::MAX), pool, limits).end()?.next_offset)
}
