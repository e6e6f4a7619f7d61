//! One entry of a `.log` file, of any magic: its header, its checksum and its records.

use crate::format::record::{Record, TimestampType};
use crate::units::{LeaderEpoch, Offset, ProducerId, Timestamp};

/// Bytes at the start of every entry that mean the same in all magics: offset, size, (CRC or epoch), magic.
pub const PREFIX_LEN: usize = 17;
/// Bytes before the part that `size` counts.
pub const SIZE_OVERHEAD: usize = 12;
/// Bytes of the header of magic 2.
pub const HEADER_V2_LEN: usize = 61;

/// How much memory one batch may cost; both far above what a broker accepts (1 MiB by default, KIP-1030).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest entry that is read, in bytes.
    pub max_batch_bytes: usize,
    /// The largest size of its records once decompressed, in bytes.
    pub max_decoded_bytes: usize,
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

impl Prefix {
    /// Reads a prefix; `None` when there are fewer than 17 bytes.
    pub fn read(_bytes: &[u8]) -> Option<Self> {
        None
    }

    /// The whole entry's length in bytes, `None` when the claimed size can't be one (less than 14).
    pub fn entry_len(&self) -> Option<usize> {
        None
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
    /// The checksum, as stored and as found right.
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

/// A whole entry whose length, magic and checksum are right.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// The entry's bytes, from its offset to its end.
    pub bytes: &'a [u8],
    /// Its header.
    pub header: Header,
}

/// Why bytes are not a batch, or a batch has no readable records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The stored checksum isn't that of the bytes.
    #[error("checksum is {got:#010x}, the batch says {expected:#010x}")]
    Checksum {
        /// As stored.
        expected: u32,
        /// As computed.
        got: u32,
    },
}

/// Buffers and contexts that decoding reuses; one decoder serves one thread.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The records of the last batch, decompressed.
    buffer: Vec<u8>,
}

impl<'a> Batch<'a> {
    /// Checks one entry: length, magic, codec, counts and checksum.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(_bytes: &'a [u8]) -> Result<Self, BatchError> {
        Err(BatchError::Checksum { expected: 0, got: 0 })
    }

    /// The batch's records, decompressed into `decoder`'s buffer where they are compressed.
    ///
    /// # Errors
    /// The codec's, or that a limit was reached.
    pub fn records<'s>(&'s self, decoder: &'s mut Decoder, _limits: &Limits) -> Result<Records<'s>, BatchError> {
        decoder.buffer.clear();
        Ok(Records { _bytes: &decoder.buffer })
    }
}

/// The records of one batch in order; control records too. After an error it ends.
#[derive(Debug)]
pub struct Records<'s> {
    /// What is left.
    _bytes: &'s [u8],
}

impl<'s> Iterator for Records<'s> {
    type Item = Result<Record<'s>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}
