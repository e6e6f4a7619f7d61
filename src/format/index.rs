//! `.index`, `.timeindex` and `.txnindex`: arrays of entries without header or checksum.
//!
//! | file | an entry is |
//! |---|---|
//! | `.index` | i32 offset relative to the segment's base, i32 position of a batch in the `.log` |
//! | `.timeindex` (KIP-33) | i64 timestamp, i32 relative offset |
//! | `.txnindex` (KIP-98) | i16 version, i64 producer id, i64 first, last and last stable offset of an aborted transaction |
//!
//! An index says where to begin to look, never what is there: files of live and of killed brokers end in zeros, and what
//! the offset of an entry means has changed (first offset of an append up to 1.1, then its last, since 4.0 the batch's
//! last). So only the front part, in which every entry is greater than the one before, is used; each is a hint.

use zerocopy::byteorder::big_endian::{I16, I32, I64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::units::{Offset, Position, ProducerId, Timestamp};

/// One entry of an offset index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetEntry {
    /// An offset in or after the batch there.
    pub offset: Offset,
    /// Where a batch starts.
    pub position: Position,
}

/// One entry of a time index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeEntry {
    /// The largest timestamp up to the batch with the offset.
    pub timestamp: Timestamp,
    /// An offset of the batch that has it.
    pub offset: Offset,
}

/// One aborted transaction; its entry is in the segment that holds the marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTxn {
    /// The entry's version: 0.
    pub version: i16,
    /// Whose transaction it was.
    pub producer_id: ProducerId,
    /// The offset of its first record, which may be in an earlier segment.
    pub first_offset: Offset,
    /// The offset of its ABORT marker.
    pub last_offset: Offset,
    /// The last stable offset when the marker was written.
    pub last_stable_offset: Offset,
}

/// An entry of an offset index as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct StoredOffsetEntry {
    relative_offset: I32,
    position: I32,
}

/// An entry of a time index as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct StoredTimeEntry {
    timestamp: I64,
    relative_offset: I32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StoredTxn {
    version: I16,
    producer_id: I64,
    first_offset: I64,
    last_offset: I64,
    last_stable_offset: I64,
}

/// Bytes of an entry of an offset index.
pub const OFFSET_ENTRY_LEN: usize = 8;
/// Bytes of an entry of a time index.
pub const TIME_ENTRY_LEN: usize = 12;
/// Bytes of an entry of a transaction index.
pub const TXN_ENTRY_LEN: usize = 34;

const _: () = assert!(size_of::<StoredOffsetEntry>() == OFFSET_ENTRY_LEN);
const _: () = assert!(size_of::<StoredTimeEntry>() == TIME_ENTRY_LEN);
const _: () = assert!(size_of::<StoredTxn>() == TXN_ENTRY_LEN);

impl OffsetEntry {
    /// The entry as stored in the index of the segment with this base offset; `None` when its numbers don't fit there.
    pub fn encode(self, base: Offset) -> Option<[u8; OFFSET_ENTRY_LEN]> {
        let [o0, o1, o2, o3] = relative(self.offset, base)?.to_be_bytes();
        let [p0, p1, p2, p3] = i32::try_from(self.position.0).ok()?.to_be_bytes();
        Some([o0, o1, o2, o3, p0, p1, p2, p3])
    }
}

impl TimeEntry {
    /// The entry as stored in the time index of the segment with this base offset; `None` when its offset doesn't fit there.
    pub fn encode(self, base: Offset) -> Option<[u8; TIME_ENTRY_LEN]> {
        let [t0, t1, t2, t3, t4, t5, t6, t7] = self.timestamp.0.to_be_bytes();
        let [o0, o1, o2, o3] = relative(self.offset, base)?.to_be_bytes();
        Some([t0, t1, t2, t3, t4, t5, t6, t7, o0, o1, o2, o3])
    }
}

impl AbortedTxn {
    /// The entry as stored.
    pub fn encode(self) -> [u8; TXN_ENTRY_LEN] {
        let stored = StoredTxn {
            version: self.version.into(),
            producer_id: self.producer_id.0.into(),
            first_offset: self.first_offset.0.into(),
            last_offset: self.last_offset.0.into(),
            last_stable_offset: self.last_stable_offset.0.into(),
        };
        zerocopy::transmute!(stored)
    }
}

/// `offset` relative to `base`, which indexes have 31 bits for.
pub fn relative(offset: Offset, base: Offset) -> Option<i32> {
    i32::try_from(offset.0.checked_sub(base.0)?).ok().filter(|relative| *relative >= 0)
}

impl StoredOffsetEntry {
    /// The offset relative to the segment's base.
    pub const fn relative_offset(&self) -> i32 {
        self.relative_offset.get()
    }

    /// The position, negative only when it is damaged.
    pub const fn position(&self) -> i32 {
        self.position.get()
    }
}

impl StoredTimeEntry {
    /// The timestamp.
    pub const fn timestamp(&self) -> Timestamp {
        Timestamp(self.timestamp.get())
    }

    /// The offset relative to the segment's base.
    pub const fn relative_offset(&self) -> i32 {
        self.relative_offset.get()
    }
}

/// How the usable part of an index ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexEnd {
    /// With the file.
    Clean,
    /// With zeros up to the end of the file, as a broker that runs or was killed leaves them.
    Zeros,
    /// With an entry that isn't greater than the one before it, or can't be one. Not always damage to a disk: the
    /// cleaner of 0.10.1 wrote time index entries of offset -1.
    Damaged {
        /// The entry's number, counted from 0.
        index: usize,
    },
}

/// A view of an offset index.
#[derive(Debug, Clone, Copy)]
pub struct OffsetIndex<'a> {
    base: Offset,
    stored: &'a [StoredOffsetEntry],
    used: &'a [StoredOffsetEntry],
}

impl<'a> OffsetIndex<'a> {
    /// Views the index of the segment with this base offset; bytes of a partial entry at the end are left out.
    pub fn new(base: Offset, bytes: &'a [u8]) -> Self {
        let stored: &[StoredOffsetEntry] = whole_entries(bytes);
        let mut before = (-1, -1);
        let used = stored.iter().take_while(|entry| {
            let (offset, position) = (entry.relative_offset(), entry.position());
            let is_used = offset > before.0 && position > before.1 && (offset, position) != (0, 0);
            before = (offset, position);
            is_used
        });
        let used = stored.get(..used.count()).unwrap_or_default();
        Self { base, stored, used }
    }

    /// The usable entries in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = OffsetEntry> + use<'a> {
        let base = self.base;
        self.used.iter().map(move |entry| entry.resolve(base))
    }

    /// The offset that entries count from.
    pub const fn base(&self) -> Offset {
        self.base
    }

    /// All entries of the file, zeros and damaged ones too.
    pub const fn stored(&self) -> &'a [StoredOffsetEntry] {
        self.stored
    }

    /// The usable entry with the greatest offset that is not above `target`: the place to begin to look for it.
    pub fn floor(&self, target: Offset) -> Option<OffsetEntry> {
        let after = self.used.partition_point(|entry| entry.resolve(self.base).offset <= target);
        Some(self.used.get(after.checked_sub(1)?)?.resolve(self.base))
    }

    /// The last usable entry.
    pub fn last(&self) -> Option<OffsetEntry> {
        self.used.last().map(|entry| entry.resolve(self.base))
    }

    /// How the usable part ends.
    pub fn end(&self) -> IndexEnd {
        end(self.stored, self.used.len(), |entry| (entry.relative_offset(), entry.position()) == (0, 0))
    }
}

impl StoredOffsetEntry {
    fn resolve(self, base: Offset) -> OffsetEntry {
        OffsetEntry {
            offset: base.plus(i64::from(self.relative_offset())),
            position: Position(u64::try_from(self.position()).unwrap_or(0)),
        }
    }
}

/// A view of a time index. Over a magic 0 segment its entries can be wrong (down-converted by 0.10.2).
#[derive(Debug, Clone, Copy)]
pub struct TimeIndex<'a> {
    base: Offset,
    stored: &'a [StoredTimeEntry],
    used: &'a [StoredTimeEntry],
}

impl<'a> TimeIndex<'a> {
    /// Views the time index of the segment with this base offset; bytes of a partial entry at the end are left out.
    pub fn new(base: Offset, bytes: &'a [u8]) -> Self {
        let stored: &[StoredTimeEntry] = whole_entries(bytes);
        let mut before = (-1, 0);
        let used = stored.iter().take_while(|entry| {
            let (timestamp, offset) = (entry.timestamp.get(), entry.relative_offset());
            let is_used = timestamp > before.0 && offset >= before.1 && (timestamp, offset) != (0, 0);
            before = (timestamp, offset);
            is_used
        });
        let used = stored.get(..used.count()).unwrap_or_default();
        Self { base, stored, used }
    }

    /// The usable entries in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = TimeEntry> + use<'a> {
        let base = self.base;
        self.used.iter().map(move |entry| entry.resolve(base))
    }

    /// All entries of the file, zeros and damaged ones too.
    pub const fn stored(&self) -> &'a [StoredTimeEntry] {
        self.stored
    }

    /// The usable entry with the greatest timestamp that is not above `target`: records with larger ones come after it.
    pub fn floor(&self, target: Timestamp) -> Option<TimeEntry> {
        let after = self.used.partition_point(|entry| entry.timestamp() <= target);
        Some(self.used.get(after.checked_sub(1)?)?.resolve(self.base))
    }

    /// The last usable entry; of a sealed segment, its largest timestamp.
    pub fn last(&self) -> Option<TimeEntry> {
        self.used.last().map(|entry| entry.resolve(self.base))
    }

    /// How the usable part ends.
    pub fn end(&self) -> IndexEnd {
        end(self.stored, self.used.len(), |entry| (entry.timestamp.get(), entry.relative_offset()) == (0, 0))
    }
}

impl StoredTimeEntry {
    fn resolve(self, base: Offset) -> TimeEntry {
        TimeEntry { timestamp: self.timestamp(), offset: base.plus(i64::from(self.relative_offset())) }
    }
}

/// A view of a transaction index.
#[derive(Debug, Clone, Copy)]
pub struct TxnIndex<'a> {
    stored: &'a [StoredTxn],
}

impl<'a> TxnIndex<'a> {
    /// Views a transaction index; bytes of a partial entry at the end are left out, as Kafka does.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { stored: whole_entries(bytes) }
    }

    /// The aborted transactions in the order of their markers.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = AbortedTxn> + use<'a> {
        self.stored.iter().map(|entry| AbortedTxn {
            version: entry.version.get(),
            producer_id: ProducerId(entry.producer_id.get()),
            first_offset: Offset(entry.first_offset.get()),
            last_offset: Offset(entry.last_offset.get()),
            last_stable_offset: Offset(entry.last_stable_offset.get()),
        })
    }
}

impl std::fmt::Debug for StoredTxn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StoredTxn").field(&self.producer_id).finish_non_exhaustive()
    }
}

/// As many entries as there are whole ones.
fn whole_entries<T: FromBytes + KnownLayout + Immutable + Unaligned>(bytes: &[u8]) -> &[T] {
    let count = bytes.len().checked_div(size_of::<T>()).unwrap_or(0);
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_or(&[], |(entries, _)| entries)
}

fn end<T>(stored: &[T], used: usize, is_zero: impl Fn(&T) -> bool) -> IndexEnd {
    match stored.get(used..) {
        None | Some([]) => IndexEnd::Clean,
        Some(rest) if rest.iter().all(is_zero) => IndexEnd::Zeros,
        Some(_) => IndexEnd::Damaged { index: used },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::hex;

    fn offsets(entries: &[(i32, i32)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(offset, position)| [offset.to_be_bytes(), position.to_be_bytes()].concat())
            .collect()
    }

    fn times(entries: &[(i64, i32)]) -> Vec<u8> {
        entries
            .iter()
            .flat_map(|(time, offset)| [&time.to_be_bytes()[..], &offset.to_be_bytes()].concat())
            .collect()
    }

    #[test]
    fn floor_is_the_greatest_not_above() {
        let bytes = offsets(&[(3, 100), (7, 200), (9, 300)]);
        let index = OffsetIndex::new(Offset(10), &bytes);
        let floor = |target| index.floor(Offset(target)).map(|entry| (entry.offset.0, entry.position.0));
        assert_eq!(floor(12), None);
        assert_eq!(floor(13), Some((13, 100)));
        assert_eq!(floor(18), Some((17, 200)));
        assert_eq!(floor(i64::MAX), Some((19, 300)));
        assert_eq!(index.end(), IndexEnd::Clean);
        assert_eq!(index.last().map(|entry| entry.offset), Some(Offset(19)));
    }

    /// Zeros, repeats, disorder and negative numbers end the usable part; a partial entry isn't there at all.
    #[test]
    fn usable_part_of_an_offset_index() {
        for (entries, used, end) in [
            (&[][..], 0, IndexEnd::Clean),
            (&[(0, 0), (0, 0)], 0, IndexEnd::Zeros),
            (&[(3, 100), (0, 0), (0, 0)], 1, IndexEnd::Zeros),
            (&[(0, 0), (3, 100)], 0, IndexEnd::Damaged { index: 0 }),
            (&[(3, 100), (3, 200)], 1, IndexEnd::Damaged { index: 1 }),
            (&[(3, 100), (4, 100)], 1, IndexEnd::Damaged { index: 1 }),
            (&[(3, 100), (7, 200), (5, 300), (9, 400)], 2, IndexEnd::Damaged { index: 2 }),
            (&[(3, 100), (4, -1)], 1, IndexEnd::Damaged { index: 1 }),
            (&[(-3, 100)], 0, IndexEnd::Damaged { index: 0 }),
            (&[(0, 100)], 1, IndexEnd::Clean),
        ] {
            let mut bytes = offsets(entries);
            let index = OffsetIndex::new(Offset(0), &bytes);
            assert_eq!((index.entries().len(), index.end()), (used, end), "{entries:?}");
            assert_eq!(index.stored().len(), entries.len());
            bytes.extend_from_slice(&[0, 0, 0, 99, 0, 0, 9]);
            assert_eq!(OffsetIndex::new(Offset(0), &bytes).entries().len(), used, "{entries:?}");
        }
    }

    #[test]
    fn usable_part_of_a_time_index() {
        for (entries, used, end) in [
            (&[(0, 0), (0, 0)][..], 0, IndexEnd::Zeros),
            (&[(1000, 0), (0, 0)], 1, IndexEnd::Zeros),
            (&[(1000, 5), (1001, 5)], 2, IndexEnd::Clean),
            (&[(1000, 5), (1000, 6)], 1, IndexEnd::Damaged { index: 1 }),
            (&[(1000, 5), (1001, 4)], 1, IndexEnd::Damaged { index: 1 }),
            (&[(-1, 5)], 0, IndexEnd::Damaged { index: 0 }),
        ] {
            let bytes = times(entries);
            let index = TimeIndex::new(Offset(0), &bytes);
            assert_eq!((index.entries().len(), index.end()), (used, end), "{entries:?}");
        }
        let bytes = times(&[(1000, 5), (2000, 9)]);
        let index = TimeIndex::new(Offset(10), &bytes);
        assert_eq!(index.floor(Timestamp(999)), None);
        assert_eq!(index.floor(Timestamp(1999)).map(|entry| entry.offset), Some(Offset(15)));
        assert_eq!(index.last().map(|entry| entry.timestamp), Some(Timestamp(2000)));
    }

    #[test]
    fn aborted_transactions() {
        let mut bytes = hex("0000000000000000002a0000000000000005000000000000000a000000000000000b");
        let expected = AbortedTxn {
            version: 0,
            producer_id: ProducerId(42),
            first_offset: Offset(5),
            last_offset: Offset(10),
            last_stable_offset: Offset(11),
        };
        assert_eq!(TxnIndex::new(&bytes).entries().collect::<Vec<_>>(), [expected]);
        assert_eq!(expected.encode(), *bytes);
        bytes.extend_from_slice(&[0; 33]);
        assert_eq!(TxnIndex::new(&bytes).entries().len(), 1);
    }

    #[test]
    fn entries_are_stored_as_they_are_read() {
        let base = Offset(10);
        let entry = OffsetEntry { offset: Offset(13), position: Position(100) };
        assert_eq!(entry.encode(base).unwrap().to_vec(), offsets(&[(3, 100)]));
        let time = TimeEntry { timestamp: Timestamp(1000), offset: Offset(13) };
        assert_eq!(time.encode(base).unwrap().to_vec(), times(&[(1000, 3)]));
        for offset in [9, 10 + (1 << 31)] {
            assert_eq!(OffsetEntry { offset: Offset(offset), ..entry }.encode(base), None);
            assert_eq!(TimeEntry { offset: Offset(offset), ..time }.encode(base), None);
        }
        assert_eq!(OffsetEntry { position: Position(1 << 31), ..entry }.encode(base), None);
    }
}
