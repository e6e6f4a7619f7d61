//! The lines of one entry: its batch, then each record.
//!
//! ```text
//! baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 ... isTransactional: false isControl: false
//!     deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 17 size: 84 magic: 2 compresscodec: none crc: 9 isvalid: true
//! | offset: 0 CreateTime: 17 keySize: 1 valueSize: 1 sequence: 0 headerKeys: [a,b] key: k payload: v
//! offset: 7 position: 0 NoTimestampType: -1 size: 28 magic: 0 compresscodec: none crc: 9 isvalid: true
//! | offset: 7 NoTimestampType: -1 keySize: 1 valueSize: 1 isValid: true crc: 9 key: k payload: v
//! ```

use std::collections::BTreeMap;

use crate::format::batch::{BatchError, Codec, Decoder, HEADER_V2_LEN, Limits};
use crate::format::crc32c::crc32c;
use crate::format::record::{Headers, TimestampType};
use crate::format::unchecked::{
    BatchHeader, MessageHeader, UncheckedHeader, UncheckedMessage, UncheckedRecord,
};
use crate::view::dump::control::{self, ControlFault};
use crate::view::dump::java::push_text;
use crate::view::dump::push_integer;

/// How much is shown of each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The batches.
    Batches,
    /// Also the records (`--deep-iteration`).
    Records,
    /// Also their keys and values (`--print-data-log`).
    Contents,
}

/// How a key or value is printed: Kafka's decoder classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Decoding {
    /// As text.
    #[default]
    String,
    /// The first four bytes as a number.
    Integer,
    /// The first eight bytes as a number.
    Long,
    /// All bytes in hexadecimal. Kafka prints the address of a Java object.
    Bytes,
}

/// What is shown of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shown {
    /// How much.
    pub level: Level,
    /// Whether the record's metadata is left out.
    pub skip_record_metadata: bool,
    /// How keys are printed.
    pub keys: Decoding,
    /// How values are printed.
    pub values: Decoding,
}

impl Shown {
    /// Everything at this level, keys and values as text.
    pub const fn all(level: Level) -> Self {
        let (keys, values) = (Decoding::String, Decoding::String);
        Self { level, skip_record_metadata: false, keys, values }
    }
}

/// What stops Kafka's tool in the midst of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// The entry or its records.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// A control record.
    #[error(transparent)]
    Control(#[from] ControlFault),
    /// A field of a message that lies outside it.
    #[error("a message's {part} goes on after its end")]
    Outside {
        /// Which field.
        part: &'static str,
    },
    /// A key or value too short for its decoder.
    #[error("{got} bytes are too few for a number of {expected} bytes")]
    Number {
        /// What the decoder takes.
        expected: usize,
        /// What is there.
        got: usize,
    },
    /// The entry is too large to look into.
    #[error("the batch has {got} bytes, more than max_batch_bytes = {limit}: its records are left out")]
    TooLarge {
        /// Its length.
        got: u64,
        /// The limit.
        limit: usize,
    },
}

/// An entry and where it is.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// Where it begins.
    pub position: u64,
    /// Its length.
    pub len: u64,
    /// The bytes that its header is read from, which may go on after its end.
    pub head: &'a [u8],
    /// Its bytes, `None` when they are too many.
    pub bytes: Option<&'a [u8]>,
    /// The checksum of its bytes.
    pub checksum: u32,
}

impl<'a> Placed<'a> {
    /// An entry that is whole in memory.
    pub fn whole(position: u64, head: &'a [u8], bytes: &'a [u8]) -> Self {
        let checksum = match bytes.get(16) {
            Some(magic) if magic.cast_signed() >= 2 => crc32c(bytes.get(21..).unwrap_or_default()),
            _ => crc32fast::hash(bytes.get(16..).unwrap_or_default()),
        };
        Self { position, len: bytes.len() as u64, head, bytes: Some(bytes), checksum }
    }
}

/// What an entry's lines tell besides.
#[derive(Debug, Default)]
pub struct Observed {
    /// Whether an entry had a wrong checksum.
    pub is_damaged: bool,
    /// Which offsets follow each other.
    pub gaps: Gaps,
}

/// Offsets that don't follow each other.
#[derive(Debug, Default)]
pub struct Gaps {
    /// The offsets before and after a gap.
    pairs: Vec<(i64, i64)>,
    /// How many are not in the list, which would have become too long.
    left_out: u64,
    last: Option<i64>,
}

impl Gaps {
    /// So many are kept.
    const MOST: usize = 100_000;

    #[inline]
    fn meet(&mut self, offset: i64) {
        if let Some(last) = self.last
            && last.wrapping_add(1) != offset
        {
            self.note(last, offset);
        }
        self.last = Some(offset);
    }

    /// The lines that tell of the gaps in the file at `path`, in Kafka's words and order: by the offset before the gap, and of
    /// several gaps behind the same offset the last. Empty when there are none.
    pub fn report(&self, path: &str) -> String {
        let pairs: BTreeMap<i64, i64> = self.pairs.iter().copied().collect();
        if pairs.is_empty() {
            return String::new();
        }
        let mut text = format!("Non-consecutive offsets in {path}\n");
        for (before, after) in pairs {
            text.push_str(&format!("  {before} is followed by {after}\n"));
        }
        if self.left_out > 0 {
            text.push_str(&format!("  and {} more\n", self.left_out));
        }
        text
    }

    fn note(&mut self, last: i64, offset: i64) {
        if self.pairs.len() < Self::MOST {
            self.pairs.push((last, offset));
        } else {
            self.left_out += 1;
        }
    }
}

/// Buffers and bounds that rendering needs.
#[derive(Debug)]
pub struct Tools<'a> {
    /// Decompresses.
    pub decoder: &'a mut Decoder,
    /// How much memory one batch may cost.
    pub limits: &'a Limits,
}

/// Appends the lines of an entry, as far as Kafka prints them.
///
/// # Errors
/// What stops Kafka's tool; the last line may lack its end then.
pub fn push(
    entry: &Placed<'_>,
    shown: &Shown,
    tools: &mut Tools<'_>,
    observed: &mut Observed,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    let short = BatchError::Short { expected: HEADER_V2_LEN, got: entry.head.len() };
    let header = UncheckedHeader::read(entry.head).ok_or(short)?;
    match &header {
        UncheckedHeader::Batch(batch) => push_batch_line(batch, entry, observed, out)?,
        UncheckedHeader::Message(message) => push_message_line(message, entry, observed, out)?,
    }
    if shown.level == Level::Batches {
        return Ok(());
    }
    let too_large = EntryFault::TooLarge { got: entry.len, limit: tools.limits.max_batch_bytes };
    let bytes = entry.bytes.ok_or(too_large)?;
    match &header {
        UncheckedHeader::Batch(batch) => push_records(batch, bytes, shown, tools, &mut observed.gaps, out),
        UncheckedHeader::Message(message) => {
            push_messages(message, bytes, shown, tools, &mut observed.gaps, out)
        }
    }
}

fn push_batch_line(
    batch: &BatchHeader,
    entry: &Placed<'_>,
    observed: &mut Observed,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    let number = |name: &str, number: i64, out: &mut Vec<u8>| {
        out.extend_from_slice(name.as_bytes());
        push_integer(number, out);
    };
    number("baseOffset: ", batch.base_offset, out);
    number(" lastOffset: ", batch.last_offset(), out);
    number(" count: ", batch.record_count.into(), out);
    number(" baseSequence: ", batch.base_sequence.into(), out);
    number(" lastSequence: ", batch.last_sequence().into(), out);
    number(" producerId: ", batch.producer_id, out);
    number(" producerEpoch: ", batch.producer_epoch.into(), out);
    number(" partitionLeaderEpoch: ", batch.leader_epoch.into(), out);
    push_bool(" isTransactional: ", batch.is_transactional(), out);
    push_bool(" isControl: ", batch.is_control(), out);
    match batch.delete_horizon() {
        None => out.extend_from_slice(b" deleteHorizonMs: OptionalLong.empty"),
        Some(horizon) => {
            number(" deleteHorizonMs: OptionalLong[", horizon, out);
            out.push(b']');
        }
    }
    let end = EndOfLine {
        timestamp_type: batch.timestamp_type(),
        max_timestamp: batch.max_timestamp,
        magic: batch.magic,
        codec: batch.codec()?,
        crc: batch.crc,
        is_valid: entry.len >= HEADER_V2_LEN as u64 && batch.crc == entry.checksum,
    };
    end.push(entry, observed, out);
    Ok(())
}

fn push_message_line(
    message: &MessageHeader,
    entry: &Placed<'_>,
    observed: &mut Observed,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    out.extend_from_slice(b"offset: ");
    push_integer(message.offset, out);
    if message.magic < 0 {
        return Err(BatchError::Magic { got: message.magic }.into());
    }
    let end = EndOfLine {
        timestamp_type: message.timestamp_type(),
        max_timestamp: message.timestamp,
        magic: message.magic,
        codec: message.codec()?,
        crc: message.crc,
        is_valid: message.crc == entry.checksum,
    };
    end.push(entry, observed, out);
    Ok(())
}

/// What the lines of batches of all magics end with.
struct EndOfLine {
    timestamp_type: TimestampType,
    max_timestamp: i64,
    magic: i8,
    codec: Codec,
    crc: u32,
    is_valid: bool,
}

impl EndOfLine {
    fn push(&self, entry: &Placed<'_>, observed: &mut Observed, out: &mut Vec<u8>) {
        observed.is_damaged |= !self.is_valid;
        out.extend_from_slice(b" position: ");
        push_integer(entry.position.cast_signed(), out);
        push_timestamp(self.timestamp_type, self.max_timestamp, out);
        out.extend_from_slice(b" size: ");
        push_integer(entry.len.cast_signed(), out);
        out.extend_from_slice(b" magic: ");
        push_integer(self.magic.into(), out);
        out.extend_from_slice(b" compresscodec: ");
        out.extend_from_slice(self.codec.name().as_bytes());
        out.extend_from_slice(b" crc: ");
        push_integer(self.crc.into(), out);
        push_bool(" isvalid: ", self.is_valid, out);
        out.push(b'\n');
    }
}

fn push_bool(name: &str, value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends a number that mostly has few digits: those are written without a call.
#[inline]
fn push_short(number: i64, out: &mut Vec<u8>) {
    let digit = |number: i64| b'0' + (number % 10) as u8;
    match number {
        0..10 => out.push(digit(number)),
        10..100 => out.extend_from_slice(&[digit(number / 10), digit(number)]),
        100..1000 => out.extend_from_slice(&[digit(number / 100), digit(number / 10), digit(number)]),
        1000..10_000 => out.extend_from_slice(&[
            digit(number / 1000),
            digit(number / 100),
            digit(number / 10),
            digit(number),
        ]),
        _ => push_integer(number, out),
    }
}

#[inline]
fn push_timestamp(timestamp_type: TimestampType, timestamp: i64, out: &mut Vec<u8>) {
    let name: &[u8] = match timestamp_type {
        TimestampType::CreateTime => b" CreateTime: ",
        TimestampType::LogAppendTime => b" LogAppendTime: ",
        TimestampType::NoTimestamp => b" NoTimestampType: ",
    };
    out.extend_from_slice(name);
    push_integer(timestamp, out);
}

/// The records of a batch of magic 2. Kafka reads all of a compressed one before it prints the first.
fn push_records(
    batch: &BatchHeader,
    bytes: &[u8],
    shown: &Shown,
    tools: &mut Tools<'_>,
    gaps: &mut Gaps,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    let is_compressed = !matches!(batch.codec(), Ok(Codec::None));
    let before = (out.len(), gaps.pairs.len(), gaps.last);
    let mut records = batch.records(bytes, tools.decoder, tools.limits)?;
    let mut result = Ok(());
    for record in records.by_ref() {
        match record {
            Ok(record) => {
                gaps.meet(record.offset);
                result = push_record(batch, &record, shown, out);
            }
            Err(error) => result = Err(error.into()),
        }
        if result.is_err() {
            break;
        }
    }
    let unreadable = match &result {
        Err(EntryFault::Batch(_)) => true,
        Err(_) => records.any(|record| record.is_err()),
        Ok(()) => false,
    };
    if is_compressed && unreadable {
        out.truncate(before.0);
        gaps.pairs.truncate(before.1);
        gaps.last = before.2;
    }
    result
}

#[inline]
fn push_record(
    batch: &BatchHeader,
    record: &UncheckedRecord<'_>,
    shown: &Shown,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len().cast_signed() as i64);
    if !shown.skip_record_metadata {
        out.extend_from_slice(b"| offset: ");
        push_integer(record.offset, out);
        push_timestamp(batch.timestamp_type(), record.timestamp, out);
        out.extend_from_slice(b" keySize: ");
        push_short(size(record.key), out);
        out.extend_from_slice(b" valueSize: ");
        push_short(size(record.value), out);
        out.extend_from_slice(b" sequence: ");
        push_short(record.sequence.into(), out);
        push_header_keys(&record.headers, out);
        if batch.is_control() {
            control::push(record.key, record.value, out)?;
        }
    }
    if shown.level == Level::Contents && !batch.is_control() {
        push_contents(record.key, record.value, shown, out)?;
    }
    out.push(b'\n');
    Ok(())
}

#[inline]
fn push_header_keys(headers: &Headers<'_>, out: &mut Vec<u8>) {
    if headers.is_empty() {
        out.extend_from_slice(b" headerKeys: []");
        return;
    }
    let mut gap: &[u8] = b" headerKeys: [";
    for header in headers.iter() {
        out.extend_from_slice(gap);
        push_text(header.name, out);
        gap = b",";
    }
    out.push(b']');
}

/// The messages of an entry of magic 0 or 1.
fn push_messages(
    wrapper: &MessageHeader,
    bytes: &[u8],
    shown: &Shown,
    tools: &mut Tools<'_>,
    gaps: &mut Gaps,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    for message in wrapper.messages(bytes, tools.decoder, tools.limits)? {
        let message = message?;
        gaps.meet(message.offset);
        push_message(wrapper, &message, shown, out)?;
    }
    Ok(())
}

fn push_message(
    wrapper: &MessageHeader,
    message: &UncheckedMessage<'_>,
    shown: &Shown,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    let outside = |part| EntryFault::Outside { part };
    if !shown.skip_record_metadata {
        let timestamp = message.timestamp().ok_or(outside("timestamp"))?;
        let key_size = message.key_size().ok_or(outside("key"))?;
        let value_size = message.value_size().ok_or(outside("value"))?;
        out.extend_from_slice(b"| offset: ");
        push_integer(message.offset, out);
        push_timestamp(wrapper.timestamp_type(), timestamp, out);
        out.extend_from_slice(b" keySize: ");
        push_integer(key_size.into(), out);
        out.extend_from_slice(b" valueSize: ");
        push_integer(value_size.into(), out);
        push_bool(" isValid: ", message.is_valid(), out);
        out.extend_from_slice(b" crc: ");
        push_integer(message.crc.into(), out);
    }
    if shown.level == Level::Contents {
        let key = message.key().ok_or(outside("key"))?;
        let value = message.value().ok_or(outside("value"))?;
        push_contents(key, value, shown, out)?;
    }
    out.push(b'\n');
    Ok(())
}

/// Key and value.
#[inline]
fn push_contents(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    shown: &Shown,
    out: &mut Vec<u8>,
) -> Result<(), EntryFault> {
    check(key, shown.keys)?;
    check(value, shown.values)?;
    let mut gap: &[u8] = if shown.skip_record_metadata { b"| " } else { b" " };
    for (name, field, decoding) in [("key: ", key, shown.keys), ("payload: ", value, shown.values)] {
        let Some(bytes) = field else { continue };
        out.extend_from_slice(gap);
        out.extend_from_slice(name.as_bytes());
        push_decoded(bytes, decoding, out);
        gap = b" ";
    }
    Ok(())
}

/// Whether a field has as many bytes as its decoder takes.
#[inline]
fn check(field: Option<&[u8]>, decoding: Decoding) -> Result<(), EntryFault> {
    let expected = match decoding {
        Decoding::String | Decoding::Bytes => return Ok(()),
        Decoding::Integer => 4,
        Decoding::Long => 8,
    };
    match field {
        Some(bytes) if bytes.len() < expected => Err(EntryFault::Number { expected, got: bytes.len() }),
        _ => Ok(()),
    }
}

#[inline]
fn push_decoded(bytes: &[u8], decoding: Decoding, out: &mut Vec<u8>) {
    match decoding {
        Decoding::String => push_text(bytes, out),
        Decoding::Integer => {
            let number = bytes.first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
            push_integer(number.into(), out);
        }
        Decoding::Long => {
            push_integer(bytes.first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes)), out);
        }
        Decoding::Bytes => {
            for byte in bytes {
                out.extend_from_slice(format!("{byte:02x}").as_bytes());
            }
        }
    }
}
