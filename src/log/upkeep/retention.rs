//! Which segments are too old, too many, or below the log start, by Kafka's rules: pure.
//!
//! From the oldest on segments go until the first that has to stay: first those below the log start offset, then as many as the
//! log is larger than `retention.bytes`, then those whose newest record is older than `retention.ms`. A segment stays that has an
//! offset above the high watermark; so does the active one, if it is empty.

use crate::log::LogError;
use crate::log::upkeep::listing::{Largest, ListedSegment};
use crate::log::upkeep::policy::Policy;
use crate::units::{Offset, Timestamp};

/// A log whose old segments are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Log<'a> {
    /// Its segments in order.
    pub segments: &'a [ListedSegment],
    /// The log start offset.
    pub start: Offset,
    /// The offset after its last.
    pub end: Offset,
    /// The high watermark.
    pub high_watermark: Offset,
    /// The time it is.
    pub now: Timestamp,
}

/// Why a segment goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// All of its records are below the log start offset.
    BelowStart {
        /// That.
        start: Offset,
    },
    /// Without it the log is still as large as `retention.bytes`.
    TooLarge {
        /// By how much the log is larger with it.
        excess: u64,
    },
    /// Its newest record is older than `retention.ms`.
    TooOld {
        /// The time of that record.
        largest: Largest,
        /// How long it should have stayed at most.
        age_ms: u64,
    },
}

/// Why one stays, and with it all that are younger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// Nobody has named a policy that deletes.
    NoPolicy,
    /// It is the active one, and empty.
    Empty,
    /// It has offsets at or above the high watermark.
    AboveHighWatermark,
    /// Old records stay: `retention.ms` is -1.
    Unlimited,
    /// Its newest record is younger than `retention.ms`.
    Young {
        /// The time of that record.
        largest: Largest,
    },
    /// Its newest record is of a time that is yet to come (KAFKA-18929).
    Future {
        /// That time.
        largest: Largest,
    },
}

/// What becomes of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// Why the first segments go, one reason each.
    pub gone: Vec<Reason>,
    /// Why the one behind them stays, if there is one.
    pub stays: Option<Stay>,
}

impl Decision {
    /// Decides. `largest` tells the largest timestamp of the segment of that number; it is asked for as few as can be.
    ///
    /// # Errors
    /// Those of `largest`.
    pub fn new(
        log: &Log<'_>,
        policy: &Policy,
        mut largest: impl FnMut(usize) -> Result<Largest, LogError>,
    ) -> Result<Self, LogError> {
        let mut decision = Self::default();
        let is_below_start = |number| log.below(number).is_some_and(|below| below <= log.start);
        while decision.may_go(log).is_ok() && is_below_start(decision.next()) {
            decision.gone.push(Reason::BelowStart { start: log.start });
        }
        if policy.delete {
            decision.by_size(log, policy);
            while let Some(reason) = decision.too_old(log, policy, &mut largest)? {
                decision.gone.push(reason);
            }
        }
        let next = decision.next();
        if let Some(Err(stay)) = (next < log.segments.len()).then(|| decision.may_go(log)) {
            decision.stays = Some(stay);
        } else if next < log.segments.len() {
            decision.stays = Some(match policy {
                Policy { delete: false, .. } => Stay::NoPolicy,
                Policy { retention_ms: None, .. } => Stay::Unlimited,
                _ => young(largest(next)?, log.now),
            });
        }
        Ok(decision)
    }

    /// Kafka's own arithmetic: sizes are of what the segments before have left.
    fn by_size(&mut self, log: &Log<'_>, policy: &Policy) {
        let rest = log.segments.get(self.next()..).unwrap_or_default();
        let size: u64 = rest.iter().map(|segment| segment.len).sum();
        let Some(mut excess) = policy.retention_bytes.and_then(|limit| size.checked_sub(limit)) else {
            return;
        };
        while let Some(segment) = log.segments.get(self.next()).filter(|segment| segment.len <= excess) {
            if self.may_go(log).is_err() {
                break;
            }
            self.gone.push(Reason::TooLarge { excess });
            excess -= segment.len;
        }
    }

    fn too_old(
        &self,
        log: &Log<'_>,
        policy: &Policy,
        largest: &mut impl FnMut(usize) -> Result<Largest, LogError>,
    ) -> Result<Option<Reason>, LogError> {
        let (Some(age_ms), Ok(())) = (policy.retention_ms, self.may_go(log)) else { return Ok(None) };
        let largest = largest(self.next())?;
        let age = log.now.0.saturating_sub(largest.timestamp.0);
        let is_old = u64::try_from(age).is_ok_and(|age| age > age_ms);
        Ok(is_old.then_some(Reason::TooOld { largest, age_ms }))
    }

    /// Whether the next segment may go at all.
    fn may_go(&self, log: &Log<'_>) -> Result<(), Stay> {
        let next = self.next();
        let Some(segment) = log.segments.get(next) else { return Err(Stay::Empty) };
        let below = log.below(next);
        if below.is_none() && segment.len == 0 {
            return Err(Stay::Empty);
        }
        if log.high_watermark < below.unwrap_or(log.end) {
            return Err(Stay::AboveHighWatermark);
        }
        Ok(())
    }

    const fn next(&self) -> usize {
        self.gone.len()
    }
}

impl Log<'_> {
    /// The base of the segment after that number.
    fn below(&self, number: usize) -> Option<Offset> {
        self.segments.get(number + 1).map(|segment| segment.base)
    }
}

fn young(largest: Largest, now: Timestamp) -> Stay {
    if largest.timestamp > now { Stay::Future { largest } } else { Stay::Young { largest } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::upkeep::listing::TimeSource;

    const DAY: i64 = 24 * 60 * 60 * 1000;

    /// Segments of 100 offsets each, of these sizes and times in days.
    fn decide(
        all: &[(u64, i64)],
        policy: &Policy,
        start: i64,
        high_watermark: i64,
    ) -> (Vec<Reason>, Option<Stay>) {
        let segments: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(number, (len, _))| ListedSegment {
                base: Offset(number as i64 * 100),
                len: *len,
                modified: Timestamp(0),
            })
            .collect();
        let end = Offset(all.len() as i64 * 100);
        let (start, high_watermark, now) = (Offset(start), Offset(high_watermark), Timestamp(100 * DAY));
        let log = Log { segments: &segments, start, end, high_watermark, now };
        let decision = Decision::new(&log, policy, |number| Ok(largest(all[number].1))).unwrap();
        (decision.gone, decision.stays)
    }

    fn largest(day: i64) -> Largest {
        Largest { timestamp: Timestamp(day * DAY), from: TimeSource::TimeIndex }
    }

    fn old(day: i64) -> Reason {
        Reason::TooOld { largest: largest(day), age_ms: 7 * DAY as u64 }
    }

    const DELETE: Policy = Policy { delete: true, ..Policy::NONE };
    const ALL: i64 = i64::MAX;

    #[test]
    fn one_young_segment_keeps_all_behind_it() {
        let (gone, stays) = decide(&[(10, 1), (10, 2), (10, 99), (10, 3), (10, 4)], &DELETE, 0, ALL);
        assert_eq!((gone, stays), (vec![old(1), old(2)], Some(Stay::Young { largest: largest(99) })));
        let (gone, stays) = decide(&[(10, 1), (10, 101), (10, 3)], &DELETE, 0, ALL);
        assert_eq!((gone, stays), (vec![old(1)], Some(Stay::Future { largest: largest(101) })));
        assert_eq!(decide(&[(10, 93), (0, 0)], &DELETE, 0, ALL).0, [], "7 days are not more than 7 days");
    }

    #[test]
    fn the_active_segment_goes_too_unless_it_is_empty() {
        assert_eq!(decide(&[(10, 1), (10, 2)], &DELETE, 0, ALL), (vec![old(1), old(2)], None));
        assert_eq!(decide(&[(10, 1), (0, 2)], &DELETE, 0, ALL), (vec![old(1)], Some(Stay::Empty)));
    }

    #[test]
    fn what_consumers_can_not_read_yet_stays() {
        let (gone, stays) = decide(&[(10, 1), (10, 2), (10, 3)], &DELETE, 0, 150);
        assert_eq!((gone, stays), (vec![old(1)], Some(Stay::AboveHighWatermark)));
    }

    #[test]
    fn size_never_falls_below_the_limit() {
        let policy = Policy { retention_ms: None, retention_bytes: Some(100), ..DELETE };
        let (gone, stays) = decide(&[(30, 1), (40, 1), (50, 1), (60, 1)], &policy, 0, ALL);
        let reasons = vec![Reason::TooLarge { excess: 80 }, Reason::TooLarge { excess: 50 }];
        assert_eq!((gone, stays), (reasons, Some(Stay::Unlimited)));
        let exact = Policy { retention_bytes: Some(150), ..policy };
        assert_eq!(decide(&[(30, 1), (40, 1), (50, 1), (60, 1)], &exact, 0, ALL).0.len(), 1);
    }

    #[test]
    fn below_the_log_start_segments_go_without_any_policy() {
        let start = Offset(250);
        let (gone, stays) = decide(&[(10, 99), (10, 99), (10, 99), (10, 99)], &Policy::NONE, 250, ALL);
        assert_eq!((gone, stays), (vec![Reason::BelowStart { start }; 2], Some(Stay::NoPolicy)));
    }
}
