//! Producer snapshots: what is known of each idempotent or transactional producer at an offset (KIP-98).
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 2 | version: 1, the only one there ever was |
//! | 2 | 4 | CRC-32C of all that follows |
//! | 6 | 4 | count of entries |
//! | 10 | 46 each | producer id, epoch, last sequence, last offset, offset delta, timestamp, coordinator epoch, first offset of the open transaction |
//!
//! The entries are in no order. Files are written in place, so that a cut one is possible.

use zerocopy::byteorder::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::crc32c::crc32c;
use crate::units::{Offset, ProducerId, Timestamp};

/// What a snapshot says of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerEntry {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The epoch of the coordinator that wrote its last marker, -1 when there was none.
    pub coordinator_epoch: i32,
    /// Where its open transaction begins, if there is one.
    pub current_txn_first_offset: Option<Offset>,
    /// The time of its last batch or marker.
    pub last_timestamp: Timestamp,
    /// Its last batch, if it wrote one.
    pub last_batch: Option<LastBatch>,
}

impl ProducerEntry {
    /// The last offset that it knows of, which lies below that of the snapshot.
    pub fn last_known(&self) -> Option<Offset> {
        self.last_batch.map(|batch| batch.last_offset).max(self.current_txn_first_offset)
    }
}

/// The last batch of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastBatch {
    /// The sequence number of its last record.
    pub last_sequence: i32,
    /// The offset of its last record; 0.11 stored the offset of a marker after it.
    pub last_offset: Offset,
    /// Its last offset minus its first.
    pub offset_delta: i32,
}

impl LastBatch {
    /// The sequence number of its first record; they go on at 0 after the largest.
    pub const fn first_sequence(&self) -> i32 {
        // Java's arithmetic, as in DefaultRecordBatch: a difference below 0 has wrapped around.
        if self.last_sequence >= self.offset_delta {
            self.last_sequence.wrapping_sub(self.offset_delta)
        } else {
            i32::MAX.wrapping_sub(self.offset_delta.wrapping_sub(self.last_sequence)).wrapping_add(1)
        }
    }
}

/// Why a producer snapshot can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Too few bytes.
    #[error("{got} bytes are too few for a producer snapshot, which takes {expected} at least")]
    Short {
        /// What it takes without entries.
        expected: usize,
        /// What is there.
        got: usize,
    },
    /// A version that doesn't exist.
    #[error("version is {got}, only 1 is known")]
    Version {
        /// As stored.
        got: i16,
    },
    /// The stored checksum isn't that of the bytes.
    #[error("checksum is {got:#010x}, the snapshot says {expected:#010x}")]
    Checksum {
        /// As stored.
        expected: u32,
        /// As computed.
        got: u32,
    },
    /// The count doesn't fit the length of the file.
    #[error("count of entries is {expected}, there are {got} bytes of them")]
    Count {
        /// As stored.
        expected: i32,
        /// Bytes after the count.
        got: usize,
    },
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    version: I16,
    crc: U32,
    count: I32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    producer_id: I64,
    producer_epoch: I16,
    last_sequence: I32,
    last_offset: I64,
    offset_delta: I32,
    timestamp: I64,
    coordinator_epoch: I32,
    current_txn_first_offset: I64,
}

/// Bytes before the entries.
pub const HEADER_LEN: usize = 10;
/// Bytes of an entry.
pub const ENTRY_LEN: usize = 46;

const _: () = assert!(size_of::<RawHeader>() == HEADER_LEN);
const _: () = assert!(size_of::<RawEntry>() == ENTRY_LEN);

/// Reads a whole producer snapshot.
///
/// # Errors
/// What is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Vec<ProducerEntry>, SnapshotError> {
    let short = SnapshotError::Short { expected: HEADER_LEN, got: bytes.len() };
    let (header, entries) = RawHeader::ref_from_prefix(bytes).map_err(|_| short)?;
    if header.version.get() != 1 {
        return Err(SnapshotError::Version { got: header.version.get() });
    }
    let (expected, got) = (header.crc.get(), crc32c(bytes.get(6..).unwrap_or_default()));
    if expected != got {
        return Err(SnapshotError::Checksum { expected, got });
    }
    let mismatch = SnapshotError::Count { expected: header.count.get(), got: entries.len() };
    let count = usize::try_from(header.count.get()).map_err(|_| mismatch)?;
    let entries = <[RawEntry]>::ref_from_bytes_with_elems(entries, count).map_err(|_| mismatch)?;
    Ok(entries.iter().map(RawEntry::resolve).collect())
}

/// The bytes of a producer snapshot with these entries.
pub fn format(entries: &[ProducerEntry]) -> Vec<u8> {
    let entries: Vec<RawEntry> = entries.iter().map(RawEntry::of).collect();
    let count = i32::try_from(entries.len()).unwrap_or(i32::MAX);
    let counted = [count.to_be_bytes().as_slice(), entries.as_bytes()].concat();
    [1_i16.to_be_bytes().as_slice(), &crc32c(&counted).to_be_bytes(), &counted].concat()
}

/// The entries of a producer snapshot that [`parse`] refuses, as far as they are whole; nothing in them can be relied on.
pub fn parse_unchecked(bytes: &[u8]) -> Vec<ProducerEntry> {
    let entries = bytes.get(HEADER_LEN..).unwrap_or_default();
    let count = entries.len().checked_div(size_of::<RawEntry>()).unwrap_or(0);
    let entries = <[RawEntry]>::ref_from_prefix_with_elems(entries, count);
    entries.map_or_else(|_| Vec::new(), |(entries, _)| entries.iter().map(RawEntry::resolve).collect())
}

/// Whether a producer snapshot has as many entries as it says.
pub fn has_counted_length(bytes: &[u8]) -> bool {
    let Ok((header, entries)) = RawHeader::ref_from_prefix(bytes) else { return false };
    let len =
        usize::try_from(header.count.get()).ok().and_then(|count| count.checked_mul(size_of::<RawEntry>()));
    len == Some(entries.len())
}

impl RawEntry {
    fn of(entry: &ProducerEntry) -> Self {
        // What Kafka stores of a producer of which only markers are known.
        let none = LastBatch { last_sequence: -1, last_offset: Offset(-1), offset_delta: 0 };
        let last = entry.last_batch.unwrap_or(none);
        Self {
            producer_id: entry.producer_id.0.into(),
            producer_epoch: entry.producer_epoch.into(),
            last_sequence: last.last_sequence.into(),
            last_offset: last.last_offset.0.into(),
            offset_delta: last.offset_delta.into(),
            timestamp: entry.last_timestamp.0.into(),
            coordinator_epoch: entry.coordinator_epoch.into(),
            current_txn_first_offset: entry.current_txn_first_offset.map_or(-1, |at| at.0).into(),
        }
    }

    fn resolve(&self) -> ProducerEntry {
        let last_batch = LastBatch {
            last_sequence: self.last_sequence.get(),
            last_offset: Offset(self.last_offset.get()),
            offset_delta: self.offset_delta.get(),
        };
        ProducerEntry {
            producer_id: ProducerId(self.producer_id.get()),
            producer_epoch: self.producer_epoch.get(),
            coordinator_epoch: self.coordinator_epoch.get(),
            current_txn_first_offset: Some(Offset(self.current_txn_first_offset.get()))
                .filter(|at| at.0 >= 0),
            last_timestamp: Timestamp(self.timestamp.get()),
            last_batch: Some(last_batch).filter(|batch| batch.last_offset.0 >= 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::hex;

    const ONE: &str = "0001cfc9fb6100000001000000000000002a00010000000400000000000000180000000400000000000003e8\
        00000007ffffffffffffffff";

    #[test]
    fn one_producer() {
        let entries = parse(&hex(ONE)).unwrap();
        let batch = LastBatch { last_sequence: 4, last_offset: Offset(24), offset_delta: 4 };
        let expected = ProducerEntry {
            producer_id: ProducerId(42),
            producer_epoch: 1,
            coordinator_epoch: 7,
            current_txn_first_offset: None,
            last_timestamp: Timestamp(1000),
            last_batch: Some(batch),
        };
        assert_eq!(entries, [expected]);
        assert_eq!(batch.first_sequence(), 0);
        assert_eq!(format(&entries), hex(ONE));
        assert_eq!(parse(&hex("000148674bc700000000")), Ok(vec![]));
    }

    #[test]
    fn sequences_wrap() {
        let batch = LastBatch { last_sequence: 1, last_offset: Offset(9), offset_delta: 3 };
        assert_eq!(batch.first_sequence(), i32::MAX - 1);
    }

    #[test]
    fn every_flipped_bit_and_every_cut() {
        let sound = hex(ONE);
        for (at, bit) in (0..sound.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            assert!(parse(&bytes).is_err(), "byte {at}, bit {bit}");
        }
        for len in 0..sound.len() {
            assert!(parse(&sound[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn counts_must_fit() {
        let mut bytes = hex(ONE);
        bytes[9] = 2;
        let crc = crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(parse(&bytes), Err(SnapshotError::Count { expected: 2, got: 46 }));
    }
}
