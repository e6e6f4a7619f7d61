//! An offset index against its log: can a look-up be led astray?
//!
//! What the offset of an entry means has changed: the first offset of an append (up to 1.1), its last one (2.0 to 3.9, so
//! that of a later batch where a follower appended several at once), the batch's last one (since 4.0). The cleaner names
//! the last record that it kept. A look-up for an offset takes the last entry at or below it and reads on from the position
//! there. So an entry is sound when
//!
//! - a batch begins at its position,
//! - no batch in front of that has the entry's offset or a higher one: it would never be found,
//! - its offset is the first one of the batch there, or the last one, of a record too, of some batch from there up to the
//!   next entry's.
//!
//! And the entries must be sorted, since they are searched by halving.

use std::fmt;

use crate::format::index::StoredOffsetEntry;
use crate::log::verify::order::{Tangle, tangles};
use crate::units::{Offset, Position};

/// What is wrong with entries `first` to `last` of an index, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongEntries {
    /// The first.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// The offset that the first one says.
    pub offset: Offset,
    /// What is wrong with the first one.
    pub cause: String,
}

/// What an index says of its log, all in all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The entries that are wrong.
    pub wrong: Vec<WrongEntries>,
    /// The first entry that is behind the log's end in position and offset: the log was longer once.
    pub beyond: Option<(Position, Offset)>,
}

/// Entries that name one position, and what the log has from there to the next position that is named.
#[derive(Debug)]
struct Place {
    position: u64,
    /// The offset that the first of them says.
    wanted: i64,
    /// A sound batch begins here.
    is_batch: bool,
    /// `wanted` is the first offset of the batch here, or the last of one, or of its records, up to the next place.
    is_named: bool,
    /// It lies in bytes that can't be read.
    is_hidden: bool,
    /// Some of what follows can't be read.
    is_cut: bool,
    /// The largest offset of the batches from here to the next place.
    largest: i64,
}

/// The offsets of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOffsets {
    /// The first that it covers.
    pub first: Offset,
    /// Its last record's; compaction may have taken those after it.
    pub last_record: Offset,
    /// The last that it covers.
    pub last: Offset,
}

/// Takes in the batches of a log, in any order, and judges the entries of its index.
#[derive(Debug)]
pub struct OffsetIndexCheck<'a> {
    base: Offset,
    stored: &'a [StoredOffsetEntry],
    /// By position.
    places: Vec<Place>,
    /// The largest offset of the batches before the first place.
    largest_before: i64,
    /// The place of the batch that came last: the next one is likely to be there too.
    at: usize,
}

impl<'a> OffsetIndexCheck<'a> {
    /// A check of the entries `stored`, without the zeros behind the last one, of the segment with base offset `base`.
    pub fn new(base: Offset, stored: &'a [StoredOffsetEntry]) -> Self {
        let mut named: Vec<(u64, i64)> = stored
            .iter()
            .filter_map(|entry| Some((u64::try_from(entry.position()).ok()?, offset_of(base, entry).0)))
            .collect();
        if !named.is_sorted() {
            named.sort_unstable();
        }
        named.dedup_by_key(|(position, _)| *position);
        let place = |(position, wanted)| Place {
            position,
            wanted,
            is_batch: false,
            is_named: false,
            is_hidden: false,
            is_cut: false,
            largest: i64::MIN,
        };
        let places = named.into_iter().map(place).collect();
        Self { base, stored, places, largest_before: i64::MIN, at: 0 }
    }

    /// A sound batch.
    pub fn batch(&mut self, position: Position, offsets: BatchOffsets) {
        let BatchOffsets { first, last_record, last } = offsets;
        let Some(place) = self.place_of(position.0) else {
            self.largest_before = self.largest_before.max(last.0);
            return;
        };
        let begins_here = place.position == position.0;
        place.is_batch |= begins_here;
        place.is_named |= [last.0, last_record.0].contains(&place.wanted);
        place.is_named |= begins_here && first.0 == place.wanted;
        place.largest = place.largest.max(last.0);
    }

    /// Bytes that are no batch: what was there can't be told.
    pub fn damage(&mut self, position: Position, len: u64) {
        let end = position.plus(len);
        if let Some(place) = self.place_of(position.0) {
            place.is_cut = true;
        }
        let from = self.places.partition_point(|place| place.position < position.0);
        for place in self.places[from..].iter_mut().take_while(|place| place.position < end.0) {
            (place.is_hidden, place.is_cut) = (true, true);
        }
    }

    /// The last place at or before `position`.
    fn place_of(&mut self, position: u64) -> Option<&mut Place> {
        let covers = |at: usize| {
            self.places.get(at).is_some_and(|place| place.position <= position)
                && self.places.get(at + 1).is_none_or(|next| position < next.position)
        };
        let at = if covers(self.at) {
            self.at
        } else if covers(self.at + 1) {
            self.at + 1
        } else {
            self.places.partition_point(|place| place.position <= position).checked_sub(1)?
        };
        self.at = at;
        self.places.get_mut(at)
    }

    /// Judges all entries; `len` is the log's length, `next_offset` the one after its last batch.
    pub fn finish(self, len: u64, next_offset: Offset) -> Verdict {
        let mut largest = self.largest_before;
        let mut reached = Vec::with_capacity(self.places.len());
        for place in &self.places {
            reached.push(largest);
            largest = largest.max(place.largest);
        }
        let mut verdict = Verdict::default();
        let mut sound = Vec::new();
        for (number, entry) in self.stored.iter().enumerate() {
            match self.judge(number, entry, &reached, len, next_offset) {
                Judgement::Sound => sound.push((number, values(entry))),
                Judgement::Untold => {}
                Judgement::Beyond => {
                    let position = Position(u64::try_from(entry.position()).unwrap_or(0));
                    verdict.beyond.get_or_insert((position, offset_of(self.base, entry)));
                }
                Judgement::Wrong(fault) => {
                    verdict.add(number, offset_of(self.base, entry), fault.to_string());
                }
            }
        }
        verdict.wrong.extend(unsorted(self.base, self.stored, sound));
        verdict.wrong.sort_by_key(|wrong| wrong.first);
        verdict
    }

    fn judge(
        &self,
        number: usize,
        entry: &StoredOffsetEntry,
        reached: &[i64],
        len: u64,
        next_offset: Offset,
    ) -> Judgement {
        let offset = offset_of(self.base, entry);
        let Some(position) = plausible_position(entry) else {
            return Judgement::Wrong(Fault::Impossible { offset, position: entry.position() });
        };
        if position == 0 && entry.relative_offset() == 0 {
            // The first batch is at the start; a second entry that says so is an unused slot amid used ones.
            let unused = Fault::Unused;
            return if number == 0 { Judgement::Untold } else { Judgement::Wrong(unused) };
        }
        if position >= len {
            let past = Fault::PastEnd { offset, position, len };
            return if offset >= next_offset { Judgement::Beyond } else { Judgement::Wrong(past) };
        }
        let at = self.places.partition_point(|place| place.position < position);
        let Some(place) = self.places.get(at) else { return Judgement::Untold };
        if !place.is_batch {
            let fault = Fault::NoBatch { offset, position };
            return if place.is_hidden { Judgement::Untold } else { Judgement::Wrong(fault) };
        }
        match reached.get(at) {
            Some(largest) if *largest >= offset.0 => {
                Judgement::Wrong(Fault::Skips { offset, position, largest: Offset(*largest) })
            }
            _ if place.is_named && place.wanted == offset.0 || place.is_cut => Judgement::Sound,
            _ => Judgement::Wrong(Fault::OtherOffset { offset, position }),
        }
    }
}

/// Entries that are out of order, where there is no log to compare them with.
pub fn judge_alone(base: Offset, stored: &[StoredOffsetEntry]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut possible = Vec::new();
    for (number, entry) in stored.iter().enumerate() {
        match plausible_position(entry) {
            Some(_) => possible.push((number, values(entry))),
            None => {
                let offset = offset_of(base, entry);
                let fault = Fault::Impossible { offset, position: entry.position() };
                verdict.add(number, offset, fault.to_string());
            }
        }
    }
    verdict.wrong.extend(unsorted(base, stored, possible));
    verdict.wrong.sort_by_key(|wrong| wrong.first);
    verdict
}

impl Verdict {
    /// Adds an entry; neighbours with the same fault are one line of a report.
    fn add(&mut self, number: usize, offset: Offset, cause: String) {
        match self.wrong.last_mut() {
            Some(run) if run.last + 1 == number => run.last = number,
            _ => self.wrong.push(WrongEntries { first: number, last: number, offset, cause }),
        }
    }
}

fn unsorted(
    base: Offset,
    stored: &[StoredOffsetEntry],
    sound: Vec<(usize, (i64, i64))>,
) -> Vec<WrongEntries> {
    let told = |Tangle { first, last }| {
        let offset = stored.get(first).map_or(base, |entry| offset_of(base, entry));
        let cause = Fault::Unsorted.to_string();
        WrongEntries { first, last, offset, cause }
    };
    let grow = |before: (i64, i64), after: (i64, i64)| after.0 > before.0 && after.1 > before.1;
    tangles(sound, grow).into_iter().map(told).collect()
}

fn offset_of(base: Offset, entry: &StoredOffsetEntry) -> Offset {
    base.plus(i64::from(entry.relative_offset()))
}

fn values(entry: &StoredOffsetEntry) -> (i64, i64) {
    (i64::from(entry.relative_offset()), i64::from(entry.position()))
}

/// The position of an entry that can be one at all.
fn plausible_position(entry: &StoredOffsetEntry) -> Option<u64> {
    u64::try_from(entry.position()).ok().filter(|_| entry.relative_offset() >= 0)
}

enum Judgement {
    Sound,
    /// Nothing can be said: what it points to can't be read, or it says nothing.
    Untold,
    /// The log ends before it.
    Beyond,
    Wrong(Fault),
}

/// What is wrong with an entry.
enum Fault {
    Impossible { offset: Offset, position: i32 },
    Unused,
    PastEnd { offset: Offset, position: u64, len: u64 },
    NoBatch { offset: Offset, position: u64 },
    Skips { offset: Offset, position: u64, largest: Offset },
    OtherOffset { offset: Offset, position: u64 },
    Unsorted,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Impossible { offset, position } => {
                write!(f, "offset {offset} at position {position}: neither may be below the segment's start")
            }
            Self::Unused => f.write_str("an unused entry before used ones"),
            Self::PastEnd { offset, position, len } => {
                write!(f, "offset {offset} at position {position}, the log has {len} bytes")
            }
            Self::NoBatch { offset, position } => {
                write!(f, "offset {offset} at position {position}, where no batch begins")
            }
            Self::Skips { offset, position, largest } => write!(
                f,
                "offset {offset} at position {position}, before which there are offsets up to {largest}: \
                 who looks for one from {offset} on misses them"
            ),
            Self::OtherOffset { offset, position } => write!(
                f,
                "offset {offset} at position {position}, which is neither the first one of the batch there \
                 nor the last one of any up to the next entry"
            ),
            Self::Unsorted => f.write_str("those up to the last of it are not in order, or repeated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::index::OffsetIndex;

    fn bytes(entries: &[(i32, i32)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(offset, position)| [offset.to_be_bytes(), position.to_be_bytes()].concat())
            .collect()
    }

    fn offsets(first: i64, last: i64) -> BatchOffsets {
        // Of each batch, compaction took the last record.
        BatchOffsets { first: Offset(first), last_record: Offset(last - 1), last: Offset(last) }
    }

    /// Ten batches of ten offsets and a hundred bytes each, from base offset 1000 on; wrong runs of `entries`.
    fn judge(entries: &[(i32, i32)], hidden: Option<(u64, u64)>) -> Vec<(usize, usize)> {
        let bytes = bytes(entries);
        let index = OffsetIndex::new(Offset(1000), &bytes);
        let mut check = OffsetIndexCheck::new(Offset(1000), index.stored());
        for number in 0..10_u64 {
            let position = number * 100;
            if hidden.is_some_and(|(from, to)| position < to && position + 100 > from) {
                check.damage(Position(position), 100);
                continue;
            }
            let first = 1000 + i64::try_from(number).unwrap() * 10;
            check.batch(Position(position), offsets(first, first + 9));
        }
        let verdict = check.finish(1000, Offset(1100));
        verdict.wrong.iter().map(|wrong| (wrong.first, wrong.last)).collect()
    }

    #[test]
    fn what_each_release_wrote_is_sound() {
        // First offset of the append, of one batch or several.
        assert_eq!(judge(&[(10, 100), (40, 400), (90, 900)], None), []);
        // Last offset of the append.
        assert_eq!(judge(&[(39, 100), (59, 400), (99, 700)], None), []);
        // The last record that the cleaner kept in what it wrote at once.
        assert_eq!(judge(&[(38, 100), (58, 400)], None), []);
        // Last offset of the batch.
        assert_eq!(judge(&[(19, 100), (49, 400), (99, 900)], None), []);
        // The base offset at the start of the log (KAFKA-7076).
        assert_eq!(judge(&[(0, 0)], None), []);
    }

    #[test]
    fn what_leads_astray_is_wrong() {
        assert_eq!(judge(&[(19, 110)], None), [(0, 0)], "inside a batch");
        assert_eq!(judge(&[(19, 100), (29, 400), (59, 500)], None), [(1, 1)], "passes over batches");
        assert_eq!(judge(&[(19, 100), (45, 400)], None), [(1, 1)], "no batch ends there");
        assert_eq!(judge(&[(-1, 100), (19, -1)], None), [(0, 1)], "negative");
        assert_eq!(judge(&[(19, 100), (0, 0), (49, 400)], None), [(1, 1)], "unused");
        assert_eq!(judge(&[(19, 100), (49, 2000)], None), [(1, 1)], "past the end");
        assert_eq!(judge(&[(19, 100), (59, 500), (49, 400), (39, 300), (99, 900)], None), [(1, 3)], "order");
        assert_eq!(judge(&[(19, 100), (19, 100), (49, 400)], None), [(0, 1)], "repeated");
    }

    #[test]
    fn what_points_into_damage_is_not_judged() {
        assert_eq!(judge(&[(19, 100), (49, 400)], Some((400, 500))), []);
        assert_eq!(judge(&[(19, 100), (49, 410)], Some((400, 500))), []);
        assert_eq!(
            judge(&[(39, 100), (49, 400)], Some((300, 400))),
            [],
            "the append's last batch is damaged"
        );
        assert_eq!(
            judge(&[(5, 100)], Some((300, 400))),
            [(0, 0)],
            "offset 1005 is at position 0 all the same"
        );
    }

    #[test]
    fn an_entry_behind_the_end_in_both_tells_of_a_longer_log() {
        let bytes = bytes(&[(19, 100), (149, 1400)]);
        let index = OffsetIndex::new(Offset(0), &bytes);
        let mut check = OffsetIndexCheck::new(Offset(0), index.stored());
        check.batch(Position(0), offsets(0, 9));
        check.batch(Position(100), offsets(10, 19));
        let verdict = check.finish(200, Offset(20));
        assert_eq!((verdict.wrong.len(), verdict.beyond), (0, Some((Position(1400), Offset(149)))));
    }
}
