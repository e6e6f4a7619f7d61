//! Whether index entries lead look-ups to the right place.
//!
//! Writers differ in what they note: the first offset of what was appended (up to 1.1), its last (2.0 to 3.9, where one append of
//! a follower has several batches), the last that compaction left of it, the batch's last (4.0, recovery); in time indexes the
//! record's own offset (leaders 0.11 to 3.6) or its batch's last. What one calls a mismatch another's convention calls right,
//! so an entry is judged by what a look-up needs. No files here: the caller brings the batches.

use crate::units::{Offset, Timestamp};

/// What a batch says of an offset index entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A look-up of the entry's offset, or of a later one, passes over nothing.
    Right,
    /// It does, or nobody writes such entries.
    Wrong,
    /// The batch behind this one must tell.
    Undecided,
}

/// Judges the entry of an offset index by one batch: `first` is the batch's first offset, or a lower bound of it.
///
/// The batches are those from the entry's position on, up to the position of the next entry.
pub fn judge_offset(entry: Offset, first: Offset, last: Offset) -> Verdict {
    if last < entry {
        Verdict::Undecided
    } else if first <= entry {
        Verdict::Right
    } else {
        Verdict::Wrong
    }
}

/// The first batch of a log that reaches an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedBatch {
    /// Its first offset, or a lower bound of it.
    pub first: Offset,
    /// Its last offset.
    pub last: Offset,
    /// The format's version.
    pub magic: i8,
    /// The largest timestamp that it claims.
    pub claimed: Timestamp,
    /// The largest timestamp of its records; `None` when there are none.
    pub largest: Option<Timestamp>,
}

/// What is wrong with an entry of a time index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeFault {
    /// The log has no such offset; the last offset of the next batch, if there is one.
    NotFound(Option<Offset>),
    /// The batch with the offset has another largest timestamp, this.
    Timestamp(Timestamp),
}

/// Judges an entry of a time index by the first batch that reaches its offset.
///
/// Below `base` lie the entries of offset -1 that the cleaner of 0.10.1 wrote; over magic 0 brokers of 0.10.2 wrote timestamps
/// that the records lost: neither can be held against the log.
///
/// # Errors
/// What is wrong with the entry.
pub fn judge_time(
    base: Offset,
    offset: Offset,
    timestamp: Timestamp,
    batch: Option<&TimedBatch>,
) -> Result<(), TimeFault> {
    if offset < base {
        return Ok(());
    }
    let batch = batch.ok_or(TimeFault::NotFound(None))?;
    if offset < batch.first {
        return Err(TimeFault::NotFound(Some(batch.last)));
    }
    if batch.magic == 0 || batch.claimed == timestamp || batch.largest == Some(timestamp) {
        return Ok(());
    }
    Err(TimeFault::Timestamp(batch.largest.unwrap_or(Timestamp::NONE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(offset: i64, batches: &[(i64, i64)]) -> Verdict {
        let verdicts =
            batches.iter().map(|(first, last)| judge_offset(Offset(offset), Offset(*first), Offset(*last)));
        verdicts.into_iter().find(|verdict| *verdict != Verdict::Undecided).unwrap_or(Verdict::Undecided)
    }

    #[test]
    fn every_writers_entries_are_right() {
        assert_eq!(judge(7, &[(5, 7)]), Verdict::Right);
        assert_eq!(judge(5, &[(5, 7)]), Verdict::Right);
        assert_eq!(judge(11, &[(5, 7), (8, 11)]), Verdict::Right);
        assert_eq!(judge(6, &[(5, 7)]), Verdict::Right, "compaction took 7");
    }

    #[test]
    fn others_are_wrong() {
        assert_eq!(judge(4, &[(5, 7)]), Verdict::Wrong);
        assert_eq!(judge(8, &[(5, 7), (9, 11)]), Verdict::Wrong);
        assert_eq!(judge(9, &[(5, 7)]), Verdict::Undecided);
    }

    #[test]
    fn times() {
        let batch = TimedBatch {
            first: Offset(5),
            last: Offset(7),
            magic: 2,
            claimed: Timestamp(30),
            largest: Some(Timestamp(30)),
        };
        let judge = |offset, time, batch| judge_time(Offset(5), Offset(offset), Timestamp(time), batch);
        assert_eq!(judge(7, 30, Some(&batch)), Ok(()));
        assert_eq!(judge(6, 30, Some(&batch)), Ok(()));
        assert_eq!(judge(4, 30, None), Ok(()));
        assert_eq!(judge(6, 31, Some(&batch)), Err(TimeFault::Timestamp(Timestamp(30))));
        assert_eq!(judge(9, 30, None), Err(TimeFault::NotFound(None)));
        let later = TimedBatch { first: Offset(8), last: Offset(9), ..batch };
        assert_eq!(judge(7, 30, Some(&later)), Err(TimeFault::NotFound(Some(Offset(9)))));
        assert_eq!(judge(7, 31, Some(&TimedBatch { magic: 0, ..batch })), Ok(()));
    }
}
