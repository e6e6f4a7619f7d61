//! What of a log may be compacted, and whether it is worth it, by Kafka's rules: pure.
//!
//! Sealed segments may be, below the last stable offset, whose records are all older than `min.compaction.lag.ms`. What lies above the
//! cleaner's checkpoint is dirty. A log is compacted when more than `min.cleanable.dirty.ratio` of it is dirty, or something dirty
//! is older than `max.compaction.lag.ms`.

use crate::log::LogError;
use crate::log::append::config::NEVER;
use crate::log::upkeep::listing::{Largest, ListedSegment};
use crate::log::upkeep::policy::Policy;
use crate::units::{Offset, Timestamp};

/// A log that may be compacted.
#[derive(Debug, Clone, Copy)]
pub struct Log<'a> {
    /// Its segments in order; the last one is appended to.
    pub segments: &'a [ListedSegment],
    /// The log start offset.
    pub start: Offset,
    /// The offset after its last.
    pub end: Offset,
    /// The last stable offset, which is not above the high watermark.
    pub last_stable: Offset,
    /// Up to where it was compacted, as `cleaner-offset-checkpoint` says.
    pub checkpoint: Option<Offset>,
    /// The time it is.
    pub now: Timestamp,
}

/// What may be compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleanable {
    /// The first offset that is dirty.
    pub first_dirty: Offset,
    /// The base of the first segment that may not be compacted.
    pub first_uncleanable: Offset,
    /// Bytes of the segments below the dirty ones.
    pub clean_bytes: u64,
    /// Bytes of the dirty ones.
    pub dirty_bytes: u64,
    /// What keeps the rest from being compacted.
    pub limit: Limit,
    /// How much older than `max.compaction.lag.ms` something dirty is.
    pub delay_ms: u64,
}

/// What keeps a segment from being compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// It is the active one.
    Active,
    /// The last stable offset: a transaction is open, or the high watermark is there.
    LastStable(Offset),
    /// Records that are younger than `min.compaction.lag.ms`.
    Young(Largest),
}

/// Whether a log is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing of it is dirty and may be compacted.
    Nothing,
    /// Too little of it is dirty.
    TooClean,
    /// Enough of it is.
    Dirty,
    /// Something was dirty for too long.
    Overdue,
}

/// What is asked of segments: of the one with that number.
pub trait Times {
    /// Its largest timestamp.
    ///
    /// # Errors
    /// Those of reading.
    fn largest(&mut self, number: usize) -> Result<Largest, LogError>;

    /// The largest timestamp of its first batch.
    ///
    /// # Errors
    /// Those of reading.
    fn first(&mut self, number: usize) -> Result<Option<Timestamp>, LogError>;
}

impl Cleanable {
    /// Finds it.
    ///
    /// # Errors
    /// Those of reading times.
    pub fn new(log: &Log<'_>, policy: &Policy, times: &mut impl Times) -> Result<Self, LogError> {
        let first_dirty = log.checkpoint.filter(|at| (log.start..=log.end).contains(at)).unwrap_or(log.start);
        let sealed = log.segments.len().saturating_sub(1);
        let active = log.segments.last().map_or(log.end, |active| active.base);
        let mut limit = Limit::Active;
        let mut uncleanable = active;
        let dirty = log.floor(first_dirty)..sealed;
        if log.last_stable < uncleanable {
            (limit, uncleanable) = (Limit::LastStable(log.last_stable), log.last_stable);
        }
        if policy.min_compaction_lag_ms > 0 {
            let lag = i64::try_from(policy.min_compaction_lag_ms).unwrap_or(i64::MAX);
            let youngest = log.now.0.saturating_sub(lag);
            for number in dirty.clone() {
                let Some(segment) = log.segments.get(number).filter(|segment| segment.base < uncleanable)
                else {
                    break;
                };
                let largest = times.largest(number)?;
                if largest.timestamp.0 > youngest {
                    (limit, uncleanable) = (Limit::Young(largest), segment.base);
                    break;
                }
            }
        }
        // Whole segments only.
        let behind = log.floor(uncleanable.max(first_dirty)).min(sealed);
        let first_uncleanable = log.segments.get(behind).map_or(active, |segment| segment.base);
        let bytes = |segments: &[ListedSegment]| segments.iter().map(|segment| segment.len).sum();
        let from = log.floor(first_dirty.min(first_uncleanable));
        Ok(Self {
            first_dirty,
            first_uncleanable,
            clean_bytes: bytes(log.segments.get(..log.below(first_dirty)).unwrap_or_default()),
            dirty_bytes: bytes(log.segments.get(from..behind).unwrap_or_default()),
            limit,
            delay_ms: delay(log, policy, dirty, times)?,
        })
    }

    /// Whether it is worth it.
    pub fn verdict(&self, policy: &Policy) -> Verdict {
        if self.dirty_bytes == 0 {
            return Verdict::Nothing;
        }
        let all = self.clean_bytes.saturating_add(self.dirty_bytes);
        if policy.min_cleanable_dirty_ratio.is_below(self.dirty_bytes, all) {
            return Verdict::Dirty;
        }
        if self.delay_ms > 0 { Verdict::Overdue } else { Verdict::TooClean }
    }

    /// How much of the log is dirty, from 0 to 1.
    pub fn dirty_ratio(&self) -> f64 {
        let all = self.clean_bytes.saturating_add(self.dirty_bytes);
        if all == 0 { 0.0 } else { self.dirty_bytes as f64 / all as f64 }
    }
}

/// How much older than `max.compaction.lag.ms` the oldest first batch of the dirty segments is.
fn delay(
    log: &Log<'_>,
    policy: &Policy,
    dirty: std::ops::Range<usize>,
    times: &mut impl Times,
) -> Result<u64, LogError> {
    if policy.max_compaction_lag_ms >= NEVER {
        return Ok(0);
    }
    let lag = i64::try_from(policy.max_compaction_lag_ms).unwrap_or(i64::MAX);
    let mut oldest = i64::MAX;
    for number in dirty {
        oldest = oldest.min(times.first(number)?.filter(|time| time.0 > 0).map_or(i64::MAX, |time| time.0));
    }
    Ok(u64::try_from(log.now.0.saturating_sub(lag).saturating_sub(oldest)).unwrap_or(0))
}

impl Log<'_> {
    /// The number of the segment that an offset lies in.
    fn floor(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base <= offset).saturating_sub(1)
    }

    /// How many segments begin below an offset.
    fn below(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base < offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::upkeep::listing::TimeSource;

    /// Segments of 100 offsets and 10 bytes each; the last is active.
    fn segments(count: i64) -> Vec<ListedSegment> {
        let modified = Timestamp(0);
        (0..count).map(|number| ListedSegment { base: Offset(number * 100), len: 10, modified }).collect()
    }

    /// Times of segments: their number in seconds.
    struct Seconds;

    impl Times for Seconds {
        fn largest(&mut self, number: usize) -> Result<Largest, LogError> {
            let timestamp = Timestamp(number as i64 * 1000);
            Ok(Largest { timestamp, from: TimeSource::TimeIndex })
        }

        fn first(&mut self, number: usize) -> Result<Option<Timestamp>, LogError> {
            Ok(Some(Timestamp(number as i64 * 1000)))
        }
    }

    fn cleanable(checkpoint: Option<i64>, last_stable: i64, policy: &Policy) -> Cleanable {
        let segments = segments(6);
        let log = Log {
            segments: &segments,
            start: Offset(0),
            end: Offset(600),
            last_stable: Offset(last_stable),
            checkpoint: checkpoint.map(Offset),
            now: Timestamp(10_000),
        };
        Cleanable::new(&log, policy, &mut Seconds).unwrap()
    }

    fn range(cleanable: &Cleanable) -> (i64, i64, u64, u64) {
        let Cleanable { first_dirty, first_uncleanable, clean_bytes, dirty_bytes, .. } = *cleanable;
        (first_dirty.0, first_uncleanable.0, clean_bytes, dirty_bytes)
    }

    const COMPACT: Policy = Policy { compact: true, ..Policy::NONE };

    #[test]
    fn sealed_segments_below_the_last_stable_offset_may_be_compacted() {
        let all = cleanable(None, 600, &COMPACT);
        assert_eq!((range(&all), all.limit), ((0, 500, 0, 50), Limit::Active));
        assert_eq!(all.verdict(&COMPACT), Verdict::Dirty);
        let some = cleanable(Some(300), 250, &COMPACT);
        assert_eq!((range(&some), some.verdict(&COMPACT)), ((300, 300, 30, 0), Verdict::Nothing));
        let some = cleanable(Some(200), 350, &COMPACT);
        assert_eq!(range(&some), (200, 300, 20, 10));
        assert_eq!(some.limit, Limit::LastStable(Offset(350)));
        assert_eq!(some.verdict(&COMPACT), Verdict::TooClean);
    }

    #[test]
    fn a_checkpoint_that_can_not_be_right_counts_for_nothing() {
        assert_eq!(range(&cleanable(Some(601), 600, &COMPACT)), (0, 500, 0, 50));
        assert_eq!(range(&cleanable(Some(600), 600, &COMPACT)), (600, 500, 60, 0));
    }

    #[test]
    fn young_records_wait_and_old_ones_must_not_for_ever() {
        let policy = Policy { min_compaction_lag_ms: 7000, ..COMPACT };
        let young = cleanable(None, 600, &policy);
        assert_eq!(range(&young), (0, 400, 0, 40), "that of 4 s is younger than 7 s");
        let Limit::Young(largest) = young.limit else { panic!("{young:?}") };
        assert_eq!(largest.timestamp, Timestamp(4000));
        let policy = Policy { max_compaction_lag_ms: 5000, ..COMPACT };
        let overdue = cleanable(Some(400), 600, &policy);
        assert_eq!((overdue.delay_ms, overdue.verdict(&policy)), (1000, Verdict::Overdue));
        assert_eq!(cleanable(Some(500), 600, &policy).verdict(&policy), Verdict::Nothing);
    }
}
