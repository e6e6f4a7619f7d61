//! One entry of a `.log` file, of any magic: its header and its checksum.
//!
//! Every entry starts alike; the rest of a magic 2 header (KIP-98) follows. All numbers are big-endian.
//!
//! | at | bytes | magic 2 | magic 0 and 1 |
//! |---|---|---|---|
//! | 0 | 8 | base offset | offset; of a compressed set the last one |
//! | 8 | 4 | size: bytes after this field | the same |
//! | 12 | 4 | leader epoch | CRC-32 of all that follows |
//! | 16 | 1 | magic | magic |
//! | 17 | 4 | CRC-32C of all that follows | see [`message_set`] |
//! | 21 | 2 | attributes: codec, timestamp type (8), transactional (16), control (32), delete horizon (64) | |
//! | 23 | 4 | last offset delta | |
//! | 27 | 8 | base timestamp, or delete horizon (KIP-534) | |
//! | 35 | 8 | max timestamp | |
//! | 43 | 8 | producer id | |
//! | 51 | 2 | producer epoch | |
//! | 53 | 4 | base sequence | |
//! | 57 | 4 | count of records | |
//!
//! In magic 2 the first 21 bytes are outside the checksum: damage there shows only where it contradicts something.

use std::fmt;

use zerocopy::byteorder::big_endian::{I16, I32, I64, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use crate::format::compression::Decoder;
use crate::format::compression::bound;
use crate::format::crc32c::crc32c;
pub use crate::format::error::{BatchError, RecordFault};
use crate::format::message_set;
use crate::format::record::TimestampType;
pub use crate::format::records::Records;
use crate::units::{LeaderEpoch, Offset, ProducerId, Timestamp};

/// Bytes at the start of every entry that mean the same in all magics: offset, size, (CRC or epoch), magic.
pub const PREFIX_LEN: usize = 17;
/// Bytes before the part that `size` counts.
pub const SIZE_OVERHEAD: usize = 12;
/// Bytes of the header of magic 2, the longest of all.
pub const HEADER_V2_LEN: usize = 61;
/// The smallest `size` of any magic.
pub const MIN_SIZE: i32 = 14;
/// The smallest record of magic 2: seven fields of a byte each.
pub(super) const MIN_RECORD_LEN: usize = 7;

/// How much memory one batch may cost; both far above what a broker accepts (1 MiB by default, KIP-1030).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest entry that is read, in bytes.
    pub max_batch_bytes: usize,
    /// The largest size of its records once decompressed, in bytes.
    pub max_decoded_bytes: usize,
}

/// 256 MiB of a file, 512 MiB decompressed.
impl Default for Limits {
    fn default() -> Self {
        Self { max_batch_bytes: 128 << 20, max_decoded_bytes: 256 << 20 }
    }
}

/// The codec of a batch (attribute bits 0 to 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed.
    None,
    /// RFC 1952.
    Gzip,
    /// Xerial's framing, or one raw block.
    Snappy,
    /// An LZ4 frame.
    Lz4,
    /// Zstandard frames (KIP-110).
    Zstd,
}

impl Codec {
    /// The codec in the attributes of a batch of this magic.
    pub(super) fn of(magic: u8, attributes: u8) -> Result<Self, BatchError> {
        match attributes & 0x07 {
            0 => Ok(Self::None),
            1 => Ok(Self::Gzip),
            2 => Ok(Self::Snappy),
            3 => Ok(Self::Lz4),
            4 if magic == 2 => Ok(Self::Zstd),
            got => Err(BatchError::Codec { magic, got }),
        }
    }

    /// Its number in the attributes.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Kafka's name for it, as in `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first 17 bytes of an entry, unchecked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Magic 2: the base offset. Magic 0 and 1: the (last) offset.
    pub offset: Offset,
    /// Bytes after the first 12, as claimed.
    pub size: i32,
    /// The format's version, as claimed.
    pub magic: i8,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPrefix {
    offset: I64,
    size: I32,
    crc_or_epoch: [u8; 4],
    magic: i8,
}

const _: () = assert!(size_of::<RawPrefix>() == PREFIX_LEN);

impl Prefix {
    /// Reads a prefix; `None` when there are fewer than 17 bytes.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawPrefix::ref_from_prefix(bytes).ok()?;
        Some(Self { offset: Offset(raw.offset.get()), size: raw.size.get(), magic: raw.magic })
    }

    /// The whole entry's length in bytes, `None` when the claimed size can't be one (less than 14).
    #[inline]
    pub fn entry_len(&self) -> Option<usize> {
        if self.size < MIN_SIZE {
            return None;
        }
        usize::try_from(self.size).ok()?.checked_add(SIZE_OVERHEAD)
    }
}

/// What a batch says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 0, 1 or 2.
    pub magic: u8,
    /// The first offset; `None` for a compressed message set, whose records must be decoded to know it.
    pub base_offset: Option<Offset>,
    /// The last offset that the batch covers; after compaction no record need have it.
    pub last_offset: Offset,
    /// The leader's epoch; `None` below magic 2, or when it is -1.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The checksum, as stored; in a parsed [`Batch`] also found right.
    pub crc: u32,
    /// The codec.
    pub codec: Codec,
    /// Who set the timestamps.
    pub timestamp_type: TimestampType,
    /// Magic 2: base timestamp, or the delete horizon. Magic 0 and 1: the message's timestamp.
    pub base_timestamp: Timestamp,
    /// The largest timestamp that the batch claims.
    pub max_timestamp: Timestamp,
    /// The producer's id; `None` when it is -1.
    pub producer_id: Option<ProducerId>,
    /// The producer's epoch, -1 when there is none.
    pub producer_epoch: i16,
    /// The first record's sequence number, -1 when there is none.
    pub base_sequence: i32,
    /// Whether it belongs to a transaction (data or marker).
    pub is_transactional: bool,
    /// Whether it holds control records.
    pub is_control: bool,
    /// Whether `base_timestamp` is a delete horizon (KIP-534).
    pub has_delete_horizon: bool,
    /// The number of records as stored; `None` for a compressed message set.
    pub record_count: Option<u32>,
}

/// The header of magic 2 as it is stored.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawHeader {
    pub(super) base_offset: I64,
    pub(super) size: I32,
    pub(super) leader_epoch: I32,
    pub(super) magic: i8,
    pub(super) crc: U32,
    pub(super) attributes_high: u8,
    pub(super) attributes: u8,
    pub(super) last_offset_delta: I32,
    pub(super) base_timestamp: I64,
    pub(super) max_timestamp: I64,
    pub(super) producer_id: I64,
    pub(super) producer_epoch: I16,
    pub(super) base_sequence: I32,
    pub(super) record_count: I32,
}

const _: () = assert!(size_of::<RawHeader>() == HEADER_V2_LEN);

/// The attribute of batches with the time of appending.
pub(super) const LOG_APPEND_TIME: u8 = 0x08;
/// That of batches of transactions.
pub(super) const TRANSACTIONAL: u8 = 0x10;
/// That of batches of control records.
pub(super) const CONTROL: u8 = 0x20;
/// That of batches with a delete horizon.
pub(super) const DELETE_HORIZON: u8 = 0x40;

/// The checksum of an entry of magic 2, which leaves out its first 21 bytes.
pub(super) fn checksum_v2(entry: &[u8]) -> u32 {
    crc32c(entry.get(21..).unwrap_or_default())
}

/// The smallest `size` of an entry of magic 2: a header and no records.
const MIN_SIZE_V2: i32 = 49;

impl Header {
    /// The first offset as far as the header tells: a compressed message set gives its last one, and keeps the first inside.
    pub const fn first_known(&self) -> Offset {
        match self.base_offset {
            Some(base) => base,
            None => self.last_offset,
        }
    }

    /// Reads and checks a header alone; the checksum isn't computed, and only the first [`HEADER_V2_LEN`] bytes of the
    /// entry (all of it when it is shorter) need be there.
    ///
    /// # Errors
    /// What is wrong with the header.
    pub fn peek(bytes: &[u8]) -> Result<Self, BatchError> {
        let prefix =
            Prefix::read(bytes).ok_or(BatchError::Short { expected: PREFIX_LEN, got: bytes.len() })?;
        if prefix.size < MIN_SIZE {
            return Err(BatchError::Size { expected: MIN_SIZE, got: prefix.size });
        }
        match prefix.magic {
            0 | 1 => message_set::peek(prefix, bytes),
            2 => Self::peek_v2(bytes),
            got => Err(BatchError::Magic { got }),
        }
    }

    fn peek_v2(bytes: &[u8]) -> Result<Self, BatchError> {
        let (raw, _) = RawHeader::ref_from_prefix(bytes)
            .map_err(|_| BatchError::Short { expected: HEADER_V2_LEN, got: bytes.len() })?;
        let codec = Codec::of(2, raw.attributes)?;
        let record_count = raw.checked_record_count(codec)?;
        Ok(Self {
            magic: 2,
            base_offset: Some(Offset(raw.base_offset.get())),
            last_offset: raw.checked_last_offset()?,
            leader_epoch: Some(LeaderEpoch(raw.leader_epoch.get())).filter(|epoch| epoch.0 != -1),
            crc: raw.crc.get(),
            codec,
            timestamp_type: match raw.attributes & LOG_APPEND_TIME {
                0 => TimestampType::CreateTime,
                _ => TimestampType::LogAppendTime,
            },
            base_timestamp: Timestamp(raw.base_timestamp.get()),
            max_timestamp: Timestamp(raw.max_timestamp.get()),
            producer_id: Some(ProducerId(raw.producer_id.get())).filter(|id| id.0 != -1),
            producer_epoch: raw.producer_epoch.get(),
            base_sequence: raw.base_sequence.get(),
            is_transactional: raw.attributes & TRANSACTIONAL != 0,
            is_control: raw.attributes & CONTROL != 0,
            has_delete_horizon: raw.attributes & DELETE_HORIZON != 0,
            record_count: Some(record_count),
        })
    }
}

impl RawHeader {
    fn checked_last_offset(&self) -> Result<Offset, BatchError> {
        let (base, delta) = (self.base_offset.get(), self.last_offset_delta.get());
        if base < 0 {
            return Err(BatchError::NegativeOffset { got: base });
        }
        match base.checked_add(i64::from(delta)) {
            Some(last) if delta >= 0 => Ok(Offset(last)),
            _ => Err(BatchError::LastOffsetDelta { base: Offset(base), got: delta }),
        }
    }

    /// The count of records, if so many can be in a batch of this size; a codec's payload must be decoded to tell.
    fn checked_record_count(&self, codec: Codec) -> Result<u32, BatchError> {
        let size = self.size.get();
        if size < MIN_SIZE_V2 {
            return Err(BatchError::Size { expected: MIN_SIZE_V2, got: size });
        }
        let got = self.record_count.get();
        let payload = usize::try_from(size.saturating_sub(MIN_SIZE_V2)).unwrap_or(0);
        match u32::try_from(got) {
            Ok(count) if codec != Codec::None || fits(count, payload) => Ok(count),
            _ => Err(BatchError::RecordCount { got, most: payload / MIN_RECORD_LEN }),
        }
    }
}

/// Whether `count` records can be in so many bytes.
pub(super) fn fits(count: u32, payload_len: usize) -> bool {
    usize::try_from(count).is_ok_and(|count| count <= payload_len / MIN_RECORD_LEN)
}

/// A whole entry whose length, magic and checksum are right.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The entry's bytes, from its offset to its end.
    pub bytes: &'a [u8],
    /// Its header.
    pub header: Header,
}

impl<'a> Batch<'a> {
    /// Checks one entry: length, magic, codec, counts and checksum. Bytes after its end are left alone.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let batch = Self::peek(bytes)?;
        let (expected, got) = (batch.header.crc, batch.checksum());
        if expected == got { Ok(batch) } else { Err(BatchError::Checksum { expected, got }) }
    }

    /// Checks one entry as [`Batch::parse`] does, but for the checksum: nothing that comes from it can be relied on.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn peek(bytes: &'a [u8]) -> Result<Self, BatchError> {
        let header = Header::peek(bytes)?;
        let expected = Prefix::read(bytes).and_then(|prefix| prefix.entry_len()).unwrap_or(usize::MAX);
        let bytes = bytes.get(..expected).ok_or(BatchError::Truncated { expected, got: bytes.len() })?;
        Ok(Self { bytes, header })
    }

    /// The checksum of the bytes, computed: CRC-32C in magic 2, CRC-32 before.
    pub fn checksum(&self) -> u32 {
        match self.header.magic {
            2 => checksum_v2(self.bytes),
            _ => crc32fast::hash(self.bytes.get(16..).unwrap_or_default()),
        }
    }

    /// A copy with another leader epoch, which the checksum leaves out; below magic 2 there is none to change.
    pub fn stamped(&self, epoch: LeaderEpoch) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        if let Some(field) = bytes.get_mut(12..16).filter(|_| self.header.magic == 2) {
            field.copy_from_slice(&epoch.0.to_be_bytes());
        }
        bytes
    }

    /// The first offset, for which a compressed message set is decoded; `None` when it can't be.
    pub fn first_offset(&self, decoder: &mut Decoder, limits: &Limits) -> Option<Offset> {
        if let Some(base) = self.header.base_offset {
            return Some(base);
        }
        let first = self.records(decoder, limits).ok()?.next()?.ok()?;
        Some(first.offset)
    }

    /// How much of a decoder's memory [`Self::records`] may take at most, as far as that is told without decompressing; 0 without a codec.
    pub fn decoded_at_most(&self, limits: &Limits) -> usize {
        /// What people's data come to, and more.
        const OLD_RATIO: usize = 64;
        let most = match self.header.magic {
            2 => {
                bound::decoded_at_most(self.header.codec, self.bytes.get(HEADER_V2_LEN..).unwrap_or_default())
            }
            _ if self.header.codec == Codec::None => 0,
            _ => self.bytes.len().saturating_mul(OLD_RATIO),
        };
        most.min(limits.max_decoded_bytes)
    }

    /// The batch's records, decompressed into `decoder`'s buffer where they are compressed.
    ///
    /// # Errors
    /// The codec's, or that a limit was reached.
    pub fn records<'s>(
        &'s self,
        decoder: &'s mut Decoder,
        limits: &Limits,
    ) -> Result<Records<'s>, BatchError> {
        Records::decode(self, decoder, limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::{hex, owned};

    const TWO_RECORDS: &str = "00000000000000050000004400000003025c40b3f900000000000100000000000003e8\
        00000000000003eaffffffffffffffffffffffffffff0000000210000000026b02760012000402010102026801";
    const COMMIT: &str = "000000000000000a000000420000000002809eb1b300300000000000000000000003e8\
        00000000000003e8000000000000002a0001ffffffff000000012000000008000000010c00000000000700";
    const EMPTY: &str = "0000000000000014000000310000000002802007f0000000000004ffffffffffffffff\
        00000000000003e8000000000000002a00010000000000000000";
    const MAGIC_0: &str = "0000000000000007000000101fecd70a0000000000016b0000000176";
    const MAGIC_1: &str = "00000000000000070000001709b66caa010000000000000003e8ffffffff0000000176";

    #[test]
    fn two_records() {
        let bytes = hex(TWO_RECORDS);
        let batch = Batch::parse(&bytes).unwrap();
        let header = batch.header;
        assert_eq!((header.base_offset, header.last_offset), (Some(Offset(5)), Offset(6)));
        assert_eq!((header.leader_epoch, header.producer_id), (Some(LeaderEpoch(3)), None));
        assert_eq!((header.max_timestamp, header.record_count), (Timestamp(1002), Some(2)));
        let stamped = batch.stamped(LeaderEpoch(9));
        let expected = Header { leader_epoch: Some(LeaderEpoch(9)), ..header };
        assert_eq!(Batch::parse(&stamped).unwrap().header, expected);
        let mut decoder = Decoder::default();
        let records: Vec<_> =
            batch.records(&mut decoder, &Limits::default()).unwrap().map(Result::unwrap).collect();
        assert_eq!(owned(&records[0]), (5, 1000, Some(b"k".to_vec()), Some(b"v".to_vec()), vec![]));
        assert_eq!(owned(&records[1]), (6, 1002, None, None, vec![(b"h".to_vec(), None)]));
        assert_eq!(records.len(), 2);
    }

    #[test]
    fn marker_and_empty_batch() {
        let bytes = hex(COMMIT);
        let batch = Batch::parse(&bytes).unwrap();
        assert!(batch.header.is_control && batch.header.is_transactional);
        assert_eq!((batch.header.producer_id, batch.header.producer_epoch), (Some(ProducerId(42)), 1));
        let mut decoder = Decoder::default();
        let mut records = batch.records(&mut decoder, &Limits::default()).unwrap();
        assert_eq!(records.next().unwrap().unwrap().key, Some(&[0, 0, 0, 1][..]));
        assert!(records.next().is_none());

        let bytes = hex(EMPTY);
        let batch = Batch::parse(&bytes).unwrap();
        assert_eq!((batch.header.last_offset, batch.header.record_count), (Offset(24), Some(0)));
        assert!(batch.records(&mut decoder, &Limits::default()).unwrap().next().is_none());
    }

    #[test]
    fn single_messages() {
        let mut decoder = Decoder::default();
        for (text, key, timestamp) in [(MAGIC_0, Some(b"k".to_vec()), -1), (MAGIC_1, None, 1000)] {
            let bytes = hex(text);
            let batch = Batch::parse(&bytes).unwrap();
            assert_eq!(batch.header.base_offset, Some(Offset(7)));
            let mut records = batch.records(&mut decoder, &Limits::default()).unwrap();
            let record = records.next().unwrap().unwrap();
            assert_eq!(owned(&record), (7, timestamp, key, Some(b"v".to_vec()), vec![]));
            assert_eq!(records.message().unwrap().crc, batch.header.crc);
            assert!(records.next().is_none());
        }
    }

    /// The checksum finds every flipped bit of magic 2 behind the first 21 bytes, and of magic 0 and 1 behind 12.
    #[test]
    fn every_flipped_bit() {
        let mut decoder = Decoder::default();
        for (text, protected) in [(TWO_RECORDS, 21), (COMMIT, 21), (EMPTY, 21), (MAGIC_0, 12), (MAGIC_1, 12)]
        {
            let sound = hex(text);
            for (at, bit) in (0..sound.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                let parsed = Batch::parse(&bytes);
                assert!(at < protected || parsed.is_err(), "byte {at}, bit {bit}");
                if let Ok(batch) = Batch::peek(&bytes)
                    && let Ok(records) = batch.records(&mut decoder, &Limits::default())
                {
                    assert!(records.count() <= 3);
                }
            }
        }
    }

    #[test]
    fn every_cut() {
        for text in [TWO_RECORDS, COMMIT, EMPTY, MAGIC_0, MAGIC_1] {
            let bytes = hex(text);
            for len in 0..bytes.len() {
                let error = Batch::parse(&bytes[..len]).unwrap_err();
                assert!(matches!(error, BatchError::Short { .. } | BatchError::Truncated { .. }), "{error}");
            }
        }
    }

    #[test]
    fn bytes_after_the_entry_are_left_alone() {
        let mut bytes = hex(MAGIC_0);
        let len = bytes.len();
        bytes.extend_from_slice(&[1, 2, 3]);
        assert_eq!(Batch::parse(&bytes).unwrap().bytes.len(), len);
    }

    /// Each field that contradicts the rest has an error of its own, before the checksum is computed.
    #[test]
    fn impossible_headers() {
        let patched = |at: usize, value: &[u8]| {
            let mut bytes = hex(TWO_RECORDS);
            bytes[at..at + value.len()].copy_from_slice(value);
            Header::peek(&bytes).unwrap_err()
        };
        let base = Offset(5);
        assert_eq!(patched(0, &[0xff; 8]), BatchError::NegativeOffset { got: -1 });
        assert_eq!(patched(8, &[0; 4]), BatchError::Size { expected: 14, got: 0 });
        assert_eq!(patched(8, &48_i32.to_be_bytes()), BatchError::Size { expected: 49, got: 48 });
        assert_eq!(patched(16, &[3]), BatchError::Magic { got: 3 });
        assert_eq!(patched(16, &[0xff]), BatchError::Magic { got: -1 });
        assert_eq!(patched(22, &[5]), BatchError::Codec { magic: 2, got: 5 });
        assert_eq!(patched(23, &[0xff; 4]), BatchError::LastOffsetDelta { base, got: -1 });
        assert_eq!(patched(57, &[0xff; 4]), BatchError::RecordCount { got: -1, most: 2 });
        assert_eq!(patched(57, &3_i32.to_be_bytes()), BatchError::RecordCount { got: 3, most: 2 });
        let far = i64::MAX.to_be_bytes();
        assert!(matches!(patched(0, &far), BatchError::LastOffsetDelta { got: 1, .. }));
    }

    #[test]
    fn zstd_is_no_codec_of_magic_1() {
        let mut bytes = hex(MAGIC_1);
        bytes[17] = 4;
        assert_eq!(Header::peek(&bytes).unwrap_err(), BatchError::Codec { magic: 1, got: 4 });
    }
}
