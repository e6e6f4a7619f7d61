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
