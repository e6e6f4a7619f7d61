//! An entry of the index: which batch has a key.

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::units::{Offset, Position};

/// That a batch has a key: where the key's last record in that batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Entry {
    hash: U64,
    /// Never negative, so that it sorts as it is.
    offset: U64,
    position: U32,
}

/// Bytes of an entry, in memory and in files.
pub(super) const ENTRY_LEN: usize = 20;
const _: () = assert!(size_of::<Entry>() == ENTRY_LEN);

impl Entry {
    /// That the record at `offset`, in the batch at `position` of its segment, has a key with this number.
    pub fn new(hash: u64, offset: Offset, position: Position) -> Self {
        let offset = u64::try_from(offset.0).unwrap_or(0);
        // No segment is so long; a place that is none costs a search by offset.
        let position = u32::try_from(position.0).unwrap_or(u32::MAX);
        Self { hash: hash.into(), offset: offset.into(), position: position.into() }
    }

    /// The key's number.
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// The record's offset.
    pub fn offset(&self) -> Offset {
        Offset(i64::try_from(self.offset.get()).unwrap_or(i64::MAX))
    }

    /// Where its batch begins in the segment.
    pub fn position(&self) -> Position {
        Position(u64::from(self.position.get()))
    }

    /// What entries are sorted by.
    pub(super) fn order(&self) -> Order {
        (self.hash.get(), self.offset.get())
    }
}

/// A key's number, then an offset.
pub(super) type Order = (u64, u64);

/// The order of an entry of `hash` at `offset`.
pub(super) fn order(hash: u64, offset: Offset) -> Order {
    (hash, u64::try_from(offset.0).unwrap_or(0))
}

/// Entries in the order of a scan, sorted: of those with the same number in the same batch the last one is left.
///
/// Numbers are as good as random, so that one pass by their upper bits leaves little to sort.
pub(super) fn sorted(entries: &[Entry]) -> Vec<Entry> {
    const BITS: u32 = 11;
    let bucket = |entry: &Entry| usize::try_from(entry.hash() >> (u64::BITS - BITS)).unwrap_or(0);
    let mut starts = vec![0; (1 << BITS) + 1];
    for entry in entries {
        starts[bucket(entry) + 1] += 1;
    }
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let mut places = starts.clone();
    let mut sorted = vec![Entry::new(0, Offset(0), Position(0)); entries.len()];
    for entry in entries {
        let place = &mut places[bucket(entry)];
        sorted[*place] = *entry;
        *place += 1;
    }
    for ends in starts.windows(2) {
        sorted[ends[0]..ends[1]].sort_unstable_by_key(Entry::order);
    }
    // The later of two is kept, and takes the earlier one's place.
    sorted.dedup_by(|later, earlier| {
        let is_same = later.hash == earlier.hash && later.position == earlier.position;
        if is_same {
            *earlier = *later;
        }
        is_same
    });
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_leaves_the_last_entry_of_each_number_and_batch() {
        let entry = |number: u64| {
            let hash = (number % 50).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Entry::new(hash, Offset(number.cast_signed()), Position(number / 100))
        };
        let entries: Vec<Entry> = (0..1000).map(entry).collect();
        let mut expected: Vec<Entry> =
            entries.iter().filter(|entry| entry.offset().0 % 100 >= 50).copied().collect();
        expected.sort_by_key(Entry::order);
        assert_eq!(sorted(&entries), expected);
        assert!(sorted(&[]).is_empty());
    }
}
