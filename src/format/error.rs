//! Why bytes are not a batch, and why a batch has no readable records.
//!
//! Nothing here owns memory, so that a failed record costs no more than a good one.

use crate::format::batch::Codec;
use crate::units::Offset;

/// Why bytes are not a batch, or a batch has no readable records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// Too few bytes for a header.
    #[error("{got} bytes are too few for a header, which takes {expected}")]
    Short {
        /// What the header takes.
        expected: usize,
        /// What is there.
        got: usize,
    },
    /// The claimed size is below the smallest that the magic allows.
    #[error("size is {got}, the smallest is {expected}")]
    Size {
        /// The smallest size of this magic.
        expected: i32,
        /// As claimed.
        got: i32,
    },
    /// The entry goes on after the end of the bytes.
    #[error("the batch takes {expected} bytes, there are {got}")]
    Truncated {
        /// Bytes of the whole entry, as claimed.
        expected: usize,
        /// What is there.
        got: usize,
    },
    /// A format that doesn't exist.
    #[error("magic is {got}, known are 0, 1 and 2")]
    Magic {
        /// As stored.
        got: i8,
    },
    /// A codec that doesn't exist, or not in this magic.
    #[error("codec {got} is unknown in magic {magic}")]
    Codec {
        /// The batch's magic.
        magic: u8,
        /// As stored.
        got: u8,
    },
    /// Offsets count from 0.
    #[error("offset is {got}, which is negative")]
    NegativeOffset {
        /// As stored.
        got: i64,
    },
    /// The last offset lies before the first, or after the largest number.
    #[error("last offset is base offset {base} plus {got}")]
    LastOffsetDelta {
        /// The base offset.
        base: Offset,
        /// As stored.
        got: i32,
    },
    /// More records than the bytes can hold, or fewer than none.
    #[error("count of records is {got}, at most {most} fit")]
    RecordCount {
        /// As stored.
        got: i32,
        /// How many of the smallest records fit.
        most: usize,
    },
    /// The stored checksum isn't that of the bytes.
    #[error("checksum is {got:#010x}, the batch says {expected:#010x}")]
    Checksum {
        /// As stored.
        expected: u32,
        /// As computed.
        got: u32,
    },
    /// The compressed bytes are not what the codec calls for.
    #[error("{codec} data: {cause}")]
    Decompress {
        /// The batch's codec.
        codec: Codec,
        /// What the codec says.
        cause: &'static str,
    },
    /// The records are larger than the limit that the caller set.
    #[error("the records take more than the limit of {limit} bytes when decompressed")]
    DecodedLimit {
        /// [`Limits::max_decoded_bytes`](crate::format::batch::Limits::max_decoded_bytes).
        limit: usize,
    },
    /// A record that can't be read.
    #[error("record {index} of the batch: {fault}")]
    Record {
        /// Which record, counted from 0.
        index: u32,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// A record outside the offsets that its batch covers.
    #[error("a record has offset {got}, the batch covers {first} to {last}")]
    OffsetRange {
        /// The batch's first offset.
        first: Offset,
        /// The batch's last offset.
        last: Offset,
        /// The record's, before any check.
        got: i64,
    },
    /// A record whose offset isn't above the one before.
    #[error("a record has offset {got}, the one before it has {before}")]
    OffsetOrder {
        /// The offset of the record before.
        before: Offset,
        /// The record's.
        got: Offset,
    },
    /// Bytes after the last record.
    #[error("{got} bytes are left after the last record")]
    LeftOver {
        /// How many.
        got: usize,
    },
    /// A compressed message without messages in it.
    #[error("the compressed message holds no messages")]
    EmptySet,
    /// A message inside a compressed one goes on after the end.
    #[error("a message in the set takes {expected} bytes, there are {got}")]
    InnerTruncated {
        /// Bytes of the message, as claimed.
        expected: usize,
        /// What is there.
        got: usize,
    },
    /// A compressed message inside a compressed one.
    #[error("a message in the set is itself compressed ({codec})")]
    InnerCodec {
        /// The inner codec.
        codec: Codec,
    },
    /// A message of a format that has no place in a message set.
    #[error("a message in the set has magic {got}, possible are 0 and 1")]
    InnerMagic {
        /// As stored.
        got: i8,
    },
    /// A message inside a compressed one has a wrong checksum, though the outer one is right.
    #[error("checksum of the message with offset {offset} is {got:#010x}, it says {expected:#010x}")]
    InnerChecksum {
        /// The message's offset.
        offset: Offset,
        /// As stored.
        expected: u32,
        /// As computed.
        got: u32,
    },
    /// The compressed message's offset is below the relative offsets in it.
    #[error("the compressed message has offset {got}, below the last one in it, {last}")]
    WrapperOffset {
        /// The last relative offset in the set.
        last: i64,
        /// As stored.
        got: Offset,
    },
}

/// What is wrong with one record or message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// Fields or the record go on after the end of the bytes.
    #[error("it is cut short")]
    Cut,
    /// A varint of more than 5 bytes, or 10 for a timestamp.
    #[error("a number in it has too many bytes")]
    Varint,
    /// A negative length of the record.
    #[error("its length is negative")]
    Length,
    /// A header name with a negative length.
    #[error("a header name has a negative length")]
    HeaderName,
    /// A negative count of headers, or more than bytes are left.
    #[error("its count of headers is impossible")]
    HeaderCount,
    /// The fields end before the record does.
    #[error("bytes are left after its last field")]
    LeftOver,
}
