//! What is special about magic 0 and 1: single messages, and compressed ones that hold a message set.
//!
//! | at | bytes | magic 0 (0.8) | magic 1 (KIP-32) |
//! |---|---|---|---|
//! | 17 | 1 | attributes: codec | codec, LogAppendTime (8) |
//! | 18 | 8 | | timestamp |
//! | 18 or 26 | 4 + n | key | key |
//! | after it | 4 + n | value | value |
//!
//! A compressed message is a wrapper: its value decompresses to whole entries, each with its own prefix and checksum,
//! and its offset is that of the last of them. In a wrapper of magic 1 their offsets are relative (KIP-31), and are
//! only known when the last one is; they have gaps after compaction. Messages of the other magic may be inside
//! (KAFKA-4298): offsets follow the wrapper's magic, fields the message's own.

use zerocopy::byteorder::big_endian::{I32, I64, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::format::batch::{Batch, Codec, Header, Limits, MIN_SIZE, PREFIX_LEN, Prefix};
use crate::format::compression::Decoder;
use crate::format::cursor::Cursor;
use crate::format::error::{BatchError, RecordFault};
use crate::format::record::{Headers, Record, TimestampType};
use crate::units::{Offset, Timestamp};

/// The smallest `size` of an entry of magic 1.
const MIN_SIZE_V1: i32 = 22;

/// What one message of magic 0 or 1 says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageInfo {
    /// 0 or 1.
    pub magic: u8,
    /// The checksum, as stored and as found right.
    pub crc: u32,
    /// Who set its timestamp; for a message in a set, the wrapper's word counts.
    pub timestamp_type: TimestampType,
}

/// Reads and checks the header of an entry of magic 0 or 1.
pub(super) fn peek(prefix: Prefix, bytes: &[u8]) -> Result<Header, BatchError> {
    let message = Start::read(prefix, bytes)?;
    if prefix.offset.0 < 0 {
        return Err(BatchError::NegativeOffset { got: prefix.offset.0 });
    }
    let is_single = message.codec == Codec::None;
    Ok(Header {
        magic: message.info.magic,
        base_offset: is_single.then_some(prefix.offset),
        last_offset: prefix.offset,
        leader_epoch: None,
        crc: message.info.crc,
        codec: message.codec,
        timestamp_type: message.info.timestamp_type,
        base_timestamp: message.timestamp,
        max_timestamp: message.timestamp,
        producer_id: None,
        producer_epoch: -1,
        base_sequence: -1,
        is_transactional: false,
        is_control: false,
        has_delete_horizon: false,
        record_count: is_single.then_some(1),
    })
}

/// A message up to its timestamp.
struct Start<'a> {
    info: MessageInfo,
    codec: Codec,
    timestamp: Timestamp,
    /// Key and value.
    rest: Cursor<'a>,
}

#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawMessage {
    offset: I64,
    size: I32,
    crc: U32,
    magic: i8,
    attributes: u8,
}

const RAW_MESSAGE_LEN: usize = 18;
const _: () = assert!(size_of::<RawMessage>() == RAW_MESSAGE_LEN);

impl<'a> Start<'a> {
    fn read(prefix: Prefix, bytes: &'a [u8]) -> Result<Self, BatchError> {
        let magic = match prefix.magic {
            0 => 0,
            1 if prefix.size < MIN_SIZE_V1 => {
                return Err(BatchError::Size { expected: MIN_SIZE_V1, got: prefix.size });
            }
            1 => 1,
            got => return Err(BatchError::InnerMagic { got }),
        };
        let short = |expected| BatchError::Short { expected, got: bytes.len() };
        let (raw, rest) = RawMessage::ref_from_prefix(bytes).map_err(|_| short(RAW_MESSAGE_LEN))?;
        let mut rest = Cursor::new(rest);
        let timestamp = match magic {
            0 => Timestamp::NONE,
            _ => Timestamp(rest.i64().map_err(|_| short(RAW_MESSAGE_LEN.saturating_add(8)))?),
        };
        let timestamp_type = match (magic, raw.attributes & 0x08) {
            (0, _) => TimestampType::NoTimestamp,
            (_, 0) => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        };
        let info = MessageInfo { magic, crc: raw.crc.get(), timestamp_type };
        Ok(Self { info, codec: Codec::of(magic, raw.attributes)?, timestamp, rest })
    }
}

/// A whole message, relative offset and all.
struct Message<'a> {
    start: Start<'a>,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// Reads one entry; its key and value must end where it does.
    fn read(prefix: Prefix, entry: &'a [u8], index: u32) -> Result<Self, BatchError> {
        let start = Start::read(prefix, entry)?;
        let mut rest = start.rest;
        let fail = |fault| BatchError::Record { index, fault };
        let key = rest.nullable_bytes().map_err(fail)?;
        let value = rest.nullable_bytes().map_err(fail)?;
        if rest.rest().is_empty() { Ok(Self { start, key, value }) } else { Err(fail(RecordFault::LeftOver)) }
    }
}

/// The records of an entry of magic 0 or 1: one, or those of the set in a wrapper.
#[derive(Debug)]
pub(super) struct Messages<'s> {
    /// Whole entries.
    rest: &'s [u8],
    /// The wrapper, `None` for a single message.
    wrapper: Option<Wrapper>,
    before: Option<Offset>,
    index: u32,
    last_message: Option<MessageInfo>,
}

#[derive(Debug, Clone, Copy)]
struct Wrapper {
    /// Added to the offsets in the set.
    base: i64,
    /// The largest offset that a message may have.
    last: Offset,
    timestamp: Timestamp,
    timestamp_type: TimestampType,
}

impl<'s> Messages<'s> {
    pub(super) fn decode(
        batch: &Batch<'s>,
        decoder: &'s mut Decoder,
        limits: &Limits,
    ) -> Result<Self, BatchError> {
        let header = &batch.header;
        let single = Self { rest: batch.bytes, wrapper: None, before: None, index: 0, last_message: None };
        if header.codec == Codec::None {
            decoder.note_decoded(batch.bytes.len());
            return Ok(single);
        }
        let (prefix, entry, _) = split_entry(batch.bytes)?;
        let value = Message::read(prefix, entry, 0)?.value.ok_or(BatchError::EmptySet)?;
        let rest = decoder.decode(header.codec, header.magic, value, limits)?;
        let wrapper = Wrapper::new(header, last_offset(rest)?)?;
        Ok(Self { rest, wrapper: Some(wrapper), ..single })
    }

    /// The bytes of the messages that are still to come.
    pub(super) const fn unpacked_len(&self) -> usize {
        self.rest.len()
    }

    pub(super) const fn last_message(&self) -> Option<MessageInfo> {
        self.last_message
    }

    pub(super) fn next(&mut self) -> Option<Result<Record<'s>, BatchError>> {
        if self.rest.is_empty() {
            return None;
        }
        let result = self.read();
        if result.is_err() {
            self.rest = &[];
        }
        self.index = self.index.saturating_add(1);
        Some(result)
    }

    fn read(&mut self) -> Result<Record<'s>, BatchError> {
        let (prefix, entry, rest) = split_entry(self.rest)?;
        let message = Message::read(prefix, entry, self.index)?;
        let mut info = message.start.info;
        let mut record = Record {
            offset: prefix.offset,
            timestamp: message.start.timestamp,
            key: message.key,
            value: message.value,
            headers: Headers::default(),
        };
        if let Some(wrapper) = self.wrapper {
            if message.start.codec != Codec::None {
                return Err(BatchError::InnerCodec { codec: message.start.codec });
            }
            record.offset = self.place(prefix.offset, wrapper)?;
            wrapper.stamp(&mut record, &mut info);
            check_crc(&info, entry, record.offset)?;
        }
        self.before = Some(record.offset);
        self.last_message = Some(info);
        self.rest = rest;
        Ok(record)
    }

    /// The offset of a message in the set.
    fn place(&self, inner: Offset, wrapper: Wrapper) -> Result<Offset, BatchError> {
        let Wrapper { base, last, .. } = wrapper;
        let offset = match base.checked_add(inner.0).map(Offset) {
            Some(offset) if offset.0 >= base && offset <= last => offset,
            _ => {
                let got = base.saturating_add(inner.0);
                return Err(BatchError::OffsetRange { first: Offset(base), last, got });
            }
        };
        match self.before {
            Some(before) if offset <= before => Err(BatchError::OffsetOrder { before, got: offset }),
            _ => Ok(offset),
        }
    }

    pub(super) fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.rest.len() / PREFIX_LEN))
    }
}

impl Wrapper {
    fn new(header: &Header, last_inner: Offset) -> Result<Self, BatchError> {
        let outer = header.last_offset;
        let (base, last) = match outer.0.checked_sub(last_inner.0) {
            _ if header.magic == 0 => (0, outer),
            // librdkafka left 0 here; the messages count from 0 then.
            _ if outer.0 == 0 => (0, last_inner),
            Some(base) if base >= 0 => (base, outer),
            _ => return Err(BatchError::WrapperOffset { last: last_inner.0, got: outer }),
        };
        Ok(Self { base, last, timestamp: header.max_timestamp, timestamp_type: header.timestamp_type })
    }

    /// The wrapper's type of timestamp counts for all messages in it that can have one.
    fn stamp(self, record: &mut Record<'_>, info: &mut MessageInfo) {
        if info.magic == 0 {
            return;
        }
        info.timestamp_type = self.timestamp_type;
        if self.timestamp_type == TimestampType::LogAppendTime {
            record.timestamp = self.timestamp;
        }
    }
}

/// The offset of the last entry in a set; a set with a cut entry is refused before any of it comes out.
fn last_offset(mut set: &[u8]) -> Result<Offset, BatchError> {
    let mut last = None;
    while !set.is_empty() {
        let (prefix, _, rest) = split_entry(set)?;
        last = Some(prefix.offset);
        set = rest;
    }
    last.ok_or(BatchError::EmptySet)
}

/// The first entry of a set, and what comes after it.
fn split_entry(set: &[u8]) -> Result<(Prefix, &[u8], &[u8]), BatchError> {
    let prefix =
        Prefix::read(set).ok_or(BatchError::InnerTruncated { expected: PREFIX_LEN, got: set.len() })?;
    let expected = prefix.entry_len().ok_or(BatchError::Size { expected: MIN_SIZE, got: prefix.size })?;
    let (entry, rest) =
        set.split_at_checked(expected).ok_or(BatchError::InnerTruncated { expected, got: set.len() })?;
    Ok((prefix, entry, rest))
}

fn check_crc(info: &MessageInfo, entry: &[u8], offset: Offset) -> Result<(), BatchError> {
    let got = crc32fast::hash(entry.get(16..).unwrap_or_default());
    if got == info.crc { Ok(()) } else { Err(BatchError::InnerChecksum { offset, expected: info.crc, got }) }
}

#[cfg(test)]
mod tests;
