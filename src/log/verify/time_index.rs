//! A time index against its log: can a look-up by time be led astray?
//!
//! An entry says: up to this offset no record is younger than this timestamp, and the batch with the offset has it. A
//! look-up for a time takes the last entry that is not younger, and reads on from its offset. Any offset in the batch is
//! right: leaders up to 3.6 stored that of the record, all others the batch's last.
//!
//! Entries of offset -1, as the cleaner of 0.10.1 wrote, and indexes of segments with magic 0, in which 0.10.2 stored
//! timestamps from before the conversion, say nothing.

use std::fmt;

use crate::format::index::StoredTimeEntry;
use crate::log::verify::offset_index::WrongEntries;
use crate::log::verify::order::{Tangle, tangles};
use crate::units::{Offset, Timestamp};

/// Takes in the batches of a log in the order of their offsets and judges the entries of its time index.
#[derive(Debug)]
pub struct TimeIndexCheck<'a> {
    base: Offset,
    stored: &'a [StoredTimeEntry],
    /// Numbers of entries by their offsets.
    by_offset: Vec<usize>,
    /// How many of those were judged.
    judged: usize,
    wrong: Vec<(usize, Fault)>,
    /// The largest timestamp that batches have claimed so far.
    largest: i64,
    has_magic_0: bool,
    has_damage: bool,
}

/// The offsets and timestamps of a batch.
#[derive(Debug, Clone, Copy)]
pub struct BatchTimes {
    /// Its magic.
    pub magic: u8,
    /// Its first offset.
    pub first: Offset,
    /// Its last offset.
    pub last: Offset,
    /// The largest timestamp that its header claims.
    pub claimed: Timestamp,
    /// The largest one of its records.
    pub largest: Timestamp,
}

impl<'a> TimeIndexCheck<'a> {
    /// A check of the entries `stored`, without the zeros behind the last one, of the segment with base offset `base`.
    pub fn new(base: Offset, stored: &'a [StoredTimeEntry]) -> Self {
        let mut by_offset: Vec<usize> = (0..stored.len()).collect();
        // It usually is: this costs one pass.
        by_offset.sort_by_key(|number| stored[*number].relative_offset());
        let (wrong, largest) = (Vec::new(), Timestamp::NONE.0);
        Self { base, stored, by_offset, judged: 0, wrong, largest, has_magic_0: false, has_damage: false }
    }

    /// The next sound batch.
    pub fn batch(&mut self, batch: &BatchTimes) {
        self.has_magic_0 |= batch.magic == 0;
        while let Some(&number) = self.by_offset.get(self.judged) {
            let entry = &self.stored[number];
            let offset = offset_of(self.base, entry);
            if offset > batch.last {
                break;
            }
            let fault =
                if offset < batch.first { self.judge_between(entry) } else { self.judge_in(entry, batch) };
            self.wrong.extend(fault.map(|fault| (number, fault)));
            self.judged += 1;
        }
        self.largest = self.largest.max(batch.claimed.0);
    }

    /// Bytes that are no batch: what was there can't be told.
    pub const fn damage(&mut self) {
        self.has_damage = true;
    }

    /// An entry with an offset of `batch`.
    fn judge_in(&self, entry: &StoredTimeEntry, batch: &BatchTimes) -> Option<Fault> {
        let timestamp = entry.timestamp();
        if timestamp != batch.claimed && timestamp != batch.largest {
            let offset = offset_of(self.base, entry);
            return Some(Fault::OtherTime { timestamp, offset, found: batch.claimed });
        }
        self.judge_earlier(entry)
    }

    /// An entry whose offset no batch has, as after damage.
    fn judge_between(&self, entry: &StoredTimeEntry) -> Option<Fault> {
        let (timestamp, offset) = (entry.timestamp(), offset_of(self.base, entry));
        if entry.relative_offset() < 0 || self.has_damage {
            return None;
        }
        if timestamp.0 > self.largest {
            return Some(Fault::OtherTime { timestamp, offset, found: Timestamp(self.largest) });
        }
        self.judge_earlier(entry)
    }

    /// Whether records before the entry's offset are younger than it says.
    fn judge_earlier(&self, entry: &StoredTimeEntry) -> Option<Fault> {
        let (timestamp, offset) = (entry.timestamp(), offset_of(self.base, entry));
        let larger = Timestamp(self.largest);
        (larger > timestamp).then_some(Fault::Younger { timestamp, offset, larger })
    }

    /// The entries that are wrong.
    pub fn finish(mut self) -> Vec<WrongEntries> {
        for &number in self.by_offset.iter().skip(self.judged) {
            let entry = &self.stored[number];
            let (timestamp, offset) = (entry.timestamp(), offset_of(self.base, entry));
            if !self.has_damage && entry.relative_offset() >= 0 {
                self.wrong.push((number, Fault::Beyond { timestamp, offset }));
            }
        }
        if self.has_magic_0 {
            self.wrong.clear();
        }
        self.wrong.sort_by_key(|(number, _)| *number);
        let is_wrong = |number: &usize| self.wrong.binary_search_by_key(number, |(wrong, _)| *wrong).is_ok();
        let sound = (0..self.stored.len()).filter(|number| !is_wrong(number));
        let mut found = unsorted(self.base, self.stored, sound, self.has_magic_0);
        for (number, fault) in &self.wrong {
            let offset = offset_of(self.base, &self.stored[*number]);
            match found.last_mut() {
                Some(run) if run.last + 1 == *number => run.last = *number,
                _ => found.push(WrongEntries {
                    first: *number,
                    last: *number,
                    offset,
                    cause: fault.to_string(),
                }),
            }
        }
        found.sort_by_key(|wrong| wrong.first);
        found
    }

    /// The largest timestamp that batches have claimed so far.
    pub const fn largest(&self) -> Timestamp {
        Timestamp(self.largest)
    }

    /// The largest timestamp of the log, if its last entry, which stands for the whole segment, says a smaller one.
    /// Meaningful for a segment that is sealed.
    pub fn falls_short(&self) -> Option<(Timestamp, Timestamp)> {
        let last = self.stored.last()?.timestamp();
        let comparable = !self.has_magic_0 && !self.has_damage && last.0 < self.largest;
        comparable.then_some((last, Timestamp(self.largest)))
    }
}

/// Entries that are out of order, where there is no log to compare them with.
pub fn judge_alone(base: Offset, stored: &[StoredTimeEntry]) -> Vec<WrongEntries> {
    unsorted(base, stored, 0..stored.len(), false)
}

fn unsorted(
    base: Offset,
    stored: &[StoredTimeEntry],
    numbers: impl Iterator<Item = usize>,
    has_magic_0: bool,
) -> Vec<WrongEntries> {
    if has_magic_0 {
        return Vec::new();
    }
    let told = |Tangle { first, last }| WrongEntries {
        first,
        last,
        offset: stored.get(first).map_or(base, |entry| offset_of(base, entry)),
        cause: Fault::Unsorted.to_string(),
    };
    let grow = |before: (i64, i64), after: (i64, i64)| after.0 > before.0 && after.1 >= before.1;
    let entries = numbers.filter_map(|number| {
        let entry = stored.get(number).filter(|entry| entry.relative_offset() >= 0)?;
        Some((number, (entry.timestamp().0, i64::from(entry.relative_offset()))))
    });
    tangles(entries, grow).into_iter().map(told).collect()
}

fn offset_of(base: Offset, entry: &StoredTimeEntry) -> Offset {
    base.plus(i64::from(entry.relative_offset()))
}

/// What is wrong with an entry.
#[derive(Debug)]
enum Fault {
    OtherTime { timestamp: Timestamp, offset: Offset, found: Timestamp },
    Younger { timestamp: Timestamp, offset: Offset, larger: Timestamp },
    Beyond { timestamp: Timestamp, offset: Offset },
    Unsorted,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherTime { timestamp, offset, found } => {
                write!(f, "timestamp {timestamp} at offset {offset}, where the largest is {found}")
            }
            Self::Younger { timestamp, offset, larger } => write!(
                f,
                "timestamp {timestamp} up to offset {offset}, but there is {larger} before it: \
                 a look-up between the two misses that"
            ),
            Self::Beyond { timestamp, offset } => {
                write!(f, "timestamp {timestamp} at offset {offset}, which is behind the log's end")
            }
            Self::Unsorted => f.write_str("those up to the last of it are not in order, or repeated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::index::TimeIndex;

    /// Batches of ten offsets from 1000 on, with these timestamps; wrong runs of `entries`.
    fn judge(magic: u8, times: &[i64], entries: &[(i64, i32)]) -> Vec<(usize, usize)> {
        let bytes: Vec<u8> = entries
            .iter()
            .flat_map(|(time, offset)| [&time.to_be_bytes()[..], &offset.to_be_bytes()[..]].concat())
            .collect();
        let index = TimeIndex::new(Offset(1000), &bytes);
        let mut check = TimeIndexCheck::new(Offset(1000), index.stored());
        for (number, time) in (0..).zip(times) {
            let (first, last) = (Offset(1000 + number * 10), Offset(1009 + number * 10));
            let (claimed, largest) = (Timestamp(*time), Timestamp(*time));
            check.batch(&BatchTimes { magic, first, last, claimed, largest });
        }
        check.finish().iter().map(|wrong| (wrong.first, wrong.last)).collect()
    }

    #[test]
    fn any_offset_of_the_batch_with_the_largest_time_so_far_is_sound() {
        assert_eq!(judge(2, &[5, 7, 6, 9], &[(7, 19), (9, 39)]), []);
        assert_eq!(judge(2, &[5, 7, 6, 9], &[(5, 0), (7, 13), (9, 30)]), []);
        assert_eq!(judge(1, &[5, 7, 6, 9], &[(7, -1), (9, 39)]), [], "0.10.1's cleaner");
        assert_eq!(judge(0, &[-1, -1], &[(1000, 2), (2000, 9)]), [], "0.10.2 before its conversion");
    }

    #[test]
    fn what_leads_astray_is_wrong() {
        assert_eq!(judge(2, &[5, 7, 6, 9], &[(8, 19), (9, 39)]), [(0, 0)], "another time");
        assert_eq!(judge(2, &[5, 7, 6, 9], &[(7, 25), (9, 39)]), [(0, 0)], "another batch");
        assert_eq!(judge(2, &[5, 9, 6, 7], &[(5, 9), (6, 29), (7, 39)]), [(1, 2)], "a younger one before");
        assert_eq!(judge(2, &[5, 7], &[(5, 9), (7, 19), (9, 39)]), [(2, 2)], "behind the end");
        assert_eq!(judge(2, &[1, 2, 3, 4], &[(1, 9), (4, 39), (3, 29), (2, 19)]), [(1, 3)], "order");
    }
}
