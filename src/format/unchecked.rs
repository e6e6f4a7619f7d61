//! An entry of a `.log` as it says of itself, right or not: what Kafka's tools show of a damaged one.
//!
//! [`batch`](crate::format::batch) refuses what can't be right; here every field has whatever its bytes say, and records
//! are read with just the checks that Kafka's own iterators make. For showing only: nothing that comes from here may be
//! relied on.

use zerocopy::FromBytes;

use crate::format::batch::{
    Codec, HEADER_V2_LEN, LOG_APPEND_TIME, Limits, MIN_RECORD_LEN, MIN_SIZE, Prefix, RawHeader,
};
use crate::format::compression::Decoder;
use crate::format::cursor::Cursor;
use crate::format::error::BatchError;
use crate::format::record::{Headers, StoredRecord, TimestampType};

/// Bytes of an entry up to the end of its size.
const PREFIX_TO_SIZE: usize = 12;
/// Where the attributes of magic 0 and 1 are.
const MESSAGE_ATTRIBUTES_AT: usize = 17;

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncheckedHeader {
    /// Magic 2 and above.
    Batch(BatchHeader),
    /// Magic 1 and below.
    Message(MessageHeader),
}

/// The header of a batch of magic 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The first offset.
    pub base_offset: i64,
    /// Added to the first offset, the last one.
    pub last_offset_delta: i32,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// 2, or a later one.
    pub magic: i8,
    /// The checksum.
    pub crc: u32,
    /// The lower byte of the attributes.
    pub attributes: u8,
    /// The base timestamp, or the delete horizon.
    pub base_timestamp: i64,
    /// The largest timestamp.
    pub max_timestamp: i64,
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch.
    pub producer_epoch: i16,
    /// The first sequence number.
    pub base_sequence: i32,
    /// The count of records.
    pub record_count: i32,
}

/// The header of an entry of magic 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageHeader {
    /// The offset; of a compressed set the last one.
    pub offset: i64,
    /// 0 or 1, or a negative number.
    pub magic: i8,
    /// The checksum.
    pub crc: u32,
    /// The attributes.
    pub attributes: u8,
    /// The timestamp, -1 in magic 0.
    pub timestamp: i64,
}

impl UncheckedHeader {
    /// Reads the header at the start of `bytes`; `None` when they are too few for it.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if Prefix::read(bytes)?.magic >= 2 {
            BatchHeader::read(bytes).map(Self::Batch)
        } else {
            MessageHeader::read(bytes).map(Self::Message)
        }
    }

    /// The last offset that the entry covers.
    pub const fn last_offset(&self) -> i64 {
        match self {
            Self::Batch(batch) => batch.last_offset(),
            Self::Message(message) => message.offset,
        }
    }
}

impl BatchHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawHeader::ref_from_prefix(bytes).ok()?;
        Some(Self {
            base_offset: raw.base_offset.get(),
            last_offset_delta: raw.last_offset_delta.get(),
            leader_epoch: raw.leader_epoch.get(),
            magic: raw.magic,
            crc: raw.crc.get(),
            attributes: raw.attributes,
            base_timestamp: raw.base_timestamp.get(),
            max_timestamp: raw.max_timestamp.get(),
            producer_id: raw.producer_id.get(),
            producer_epoch: raw.producer_epoch.get(),
            base_sequence: raw.base_sequence.get(),
            record_count: raw.record_count.get(),
        })
    }

    /// The last offset.
    pub const fn last_offset(&self) -> i64 {
        // The delta is 32 bits wide.
        #[expect(clippy::as_conversions, reason = "i32 to i64 loses nothing; From isn't const")]
        self.base_offset.wrapping_add(self.last_offset_delta as i64)
    }

    /// The last sequence number, -1 when there is none.
    pub const fn last_sequence(&self) -> i32 {
        match self.base_sequence {
            -1 => -1,
            base => sequence_after(base, self.last_offset_delta),
        }
    }

    /// Who set the timestamps.
    pub const fn timestamp_type(&self) -> TimestampType {
        if self.attributes & LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether it belongs to a transaction.
    pub const fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// Whether it holds control records.
    pub const fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }

    /// When tombstones and markers in it may go (KIP-534).
    pub const fn delete_horizon(&self) -> Option<i64> {
        if self.attributes & 0x40 == 0 { None } else { Some(self.base_timestamp) }
    }

    /// The codec.
    ///
    /// # Errors
    /// That there is none of that number.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        Codec::of(2, self.attributes)
    }

    /// The records of the batch whose bytes are `entry`.
    ///
    /// # Errors
    /// The codec's, or that it can't have so many records.
    pub fn records<'s>(
        &self,
        entry: &'s [u8],
        decoder: &'s mut Decoder,
        limits: &Limits,
    ) -> Result<UncheckedRecords<'s>, BatchError> {
        let Some(payload) = entry.get(HEADER_V2_LEN..) else {
            return Err(BatchError::Short { expected: HEADER_V2_LEN, got: entry.len() });
        };
        let most = payload.len() / MIN_RECORD_LEN;
        let got = self.record_count;
        let count = u32::try_from(got).map_err(|_| BatchError::RecordCount { got, most })?;
        let codec = if count == 0 { Codec::None } else { self.codec()? };
        let payload = match codec {
            Codec::None => payload,
            codec => decoder.decode(codec, 2, payload, limits)?,
        };
        Ok(UncheckedRecords { header: *self, rest: Cursor::new(payload), count, index: 0 })
    }
}

/// The sequence number `increment` after `sequence`, in Kafka's arithmetic: it goes on at 0 after the largest.
const fn sequence_after(sequence: i32, increment: i32) -> i32 {
    if sequence > i32::MAX.wrapping_sub(increment) {
        increment.wrapping_sub(i32::MAX.wrapping_sub(sequence)).wrapping_sub(1)
    } else {
        sequence.wrapping_add(increment)
    }
}

/// One record of a batch of magic 2.
#[derive(Debug, Clone, Copy)]
pub struct UncheckedRecord<'a> {
    /// Its offset.
    pub offset: i64,
    /// Its timestamp.
    pub timestamp: i64,
    /// Its sequence number, -1 when there is none.
    pub sequence: i32,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// The headers.
    pub headers: Headers<'a>,
}

/// The records of a batch of magic 2 in order; after an error it ends.
#[derive(Debug)]
pub struct UncheckedRecords<'s> {
    header: BatchHeader,
    rest: Cursor<'s>,
    count: u32,
    index: u32,
}

impl<'s> Iterator for UncheckedRecords<'s> {
    type Item = Result<UncheckedRecord<'s>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.count {
            return None;
        }
        let record = match StoredRecord::read(&mut self.rest) {
            Ok(stored) => self.resolve(&stored),
            Err(fault) => {
                self.count = 0;
                return Some(Err(BatchError::Record { index: self.index, fault }));
            }
        };
        self.index = self.index.wrapping_add(1);
        let got = self.rest.rest().len();
        // What is left over makes the last record unreadable, as Kafka has it.
        if self.index == self.count && got > 0 {
            return Some(Err(BatchError::LeftOver { got }));
        }
        Some(Ok(record))
    }
}

impl UncheckedRecords<'_> {
    #[inline]
    fn resolve<'a>(&self, stored: &StoredRecord<'a>) -> UncheckedRecord<'a> {
        let header = &self.header;
        let is_append_time = header.attributes & LOG_APPEND_TIME != 0;
        UncheckedRecord {
            offset: header.base_offset.wrapping_add(i64::from(stored.offset_delta)),
            timestamp: if is_append_time {
                header.max_timestamp
            } else {
                header.base_timestamp.wrapping_add(stored.timestamp_delta)
            },
            sequence: match header.base_sequence {
                base if base >= 0 => sequence_after(base, stored.offset_delta),
                _ => -1,
            },
            key: stored.key,
            value: stored.value,
            headers: stored.headers,
        }
    }
}

impl MessageHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let prefix = Prefix::read(bytes)?;
        let mut rest = Cursor::new(bytes.get(PREFIX_TO_SIZE..)?);
        let crc = u32::from_be_bytes(rest.take(4).ok()?.try_into().ok()?);
        rest.u8().ok()?;
        let attributes = rest.u8().ok()?;
        let timestamp = if prefix.magic == 0 { -1 } else { rest.i64().ok()? };
        Some(Self { offset: prefix.offset.0, magic: prefix.magic, crc, attributes, timestamp })
    }

    /// Who set the timestamp.
    pub const fn timestamp_type(&self) -> TimestampType {
        match (self.magic, self.attributes & LOG_APPEND_TIME) {
            (0, _) => TimestampType::NoTimestamp,
            (_, 0) => TimestampType::CreateTime,
            _ => TimestampType::LogAppendTime,
        }
    }

    /// The codec.
    ///
    /// # Errors
    /// That there is none of that number.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        // Kafka knows zstd by its number here too, but reads no set of it.
        Codec::of(2, self.attributes)
    }

    /// The messages of the entry whose bytes are `entry`: itself, or those in it.
    ///
    /// # Errors
    /// The codec's, or that it holds none.
    pub fn messages<'s>(
        &self,
        entry: &'s [u8],
        decoder: &'s mut Decoder,
        limits: &Limits,
    ) -> Result<UncheckedMessages<'s>, BatchError> {
        let codec = self.codec()?;
        if codec == Codec::None {
            return Ok(UncheckedMessages { rest: entry, wrapper: None, base: 0 });
        }
        let magic = u8::try_from(self.magic).map_err(|_| BatchError::Magic { got: self.magic })?;
        if codec == Codec::Zstd {
            return Err(BatchError::Codec { magic, got: 4 });
        }
        let value = UncheckedMessage::read(entry)
            .and_then(|wrapper| wrapper.value())
            .ok_or(BatchError::Short { expected: PREFIX_TO_SIZE, got: entry.len() })?;
        let rest = decoder.decode(codec, magic, value.ok_or(BatchError::EmptySet)?, limits)?;
        let (rest, last) = whole_messages(rest)?;
        let base = match magic {
            0 => 0,
            // librdkafka left 0 here; the messages count from 0 then.
            _ if self.offset == 0 => 0,
            _ if self.offset < last => {
                return Err(BatchError::WrapperOffset { last, got: crate::units::Offset(self.offset) });
            }
            _ => self.offset.wrapping_sub(last),
        };
        Ok(UncheckedMessages { rest, wrapper: Some(*self), base })
    }
}

/// The part of a set that whole messages take, and the offset of the last of them; what is cut off at the end is left out.
fn whole_messages(set: &[u8]) -> Result<(&[u8], i64), BatchError> {
    let (mut rest, mut last) = (set, None);
    while let Some((prefix, _, after)) = split_message(rest)? {
        last = Some(prefix);
        rest = after;
    }
    let whole = set.len().saturating_sub(rest.len());
    Ok((set.get(..whole).unwrap_or_default(), last.ok_or(BatchError::EmptySet)?))
}

/// A message's offset, its bytes, and what follows them.
type Split<'a> = (i64, &'a [u8], &'a [u8]);

fn split_message(set: &[u8]) -> Result<Option<Split<'_>>, BatchError> {
    let mut rest = Cursor::new(set);
    let (Ok(offset), Ok(size)) = (rest.i64(), rest.i32()) else { return Ok(None) };
    if size < MIN_SIZE {
        return Err(BatchError::Size { expected: MIN_SIZE, got: size });
    }
    let len = usize::try_from(size).unwrap_or(usize::MAX).saturating_add(PREFIX_TO_SIZE);
    Ok(set.split_at_checked(len).map(|(message, after)| (offset, message, after)))
}

/// One message of magic 0 or 1; its fields may lie outside it, which shows when they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct UncheckedMessage<'a> {
    /// Its offset.
    pub offset: i64,
    /// The checksum.
    pub crc: u32,
    magic: i8,
    attributes: u8,
    append_time: Option<i64>,
    bytes: &'a [u8],
}

impl<'a> UncheckedMessage<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let prefix = Prefix::read(bytes)?;
        let crc = Cursor::new(bytes.get(PREFIX_TO_SIZE..)?).take(4).ok()?.try_into().ok()?;
        Some(Self {
            offset: prefix.offset.0,
            crc: u32::from_be_bytes(crc),
            magic: prefix.magic,
            attributes: *bytes.get(MESSAGE_ATTRIBUTES_AT)?,
            append_time: None,
            bytes,
        })
    }

    /// Whether its checksum is right.
    pub fn is_valid(&self) -> bool {
        self.crc == crc32fast::hash(self.bytes.get(16..).unwrap_or_default())
    }

    /// Its timestamp, -1 in magic 0; `None` when it lies outside.
    pub fn timestamp(&self) -> Option<i64> {
        match (self.magic, self.append_time) {
            (0, _) => Some(-1),
            (_, Some(timestamp)) => Some(timestamp),
            _ => Cursor::new(self.bytes.get(18..)?).i64().ok(),
        }
    }

    /// Its key's size, negative for null; `None` when that lies outside.
    pub fn key_size(&self) -> Option<i32> {
        Cursor::new(self.bytes.get(self.key_size_at()..)?).i32().ok()
    }

    /// Its value's size, negative for null; `None` when that lies outside.
    pub fn value_size(&self) -> Option<i32> {
        Cursor::new(self.bytes.get(self.value_size_at()?..)?).i32().ok()
    }

    /// Its key, `Some(None)` for null; `None` when it lies outside.
    pub fn key(&self) -> Option<Option<&'a [u8]>> {
        Cursor::new(self.bytes.get(self.key_size_at()..)?).nullable_bytes().ok()
    }

    /// Its value, `Some(None)` for null; `None` when it lies outside.
    pub fn value(&self) -> Option<Option<&'a [u8]>> {
        Cursor::new(self.bytes.get(self.value_size_at()?..)?).nullable_bytes().ok()
    }

    const fn key_size_at(&self) -> usize {
        if self.magic == 0 { 18 } else { 26 }
    }

    fn value_size_at(&self) -> Option<usize> {
        let key = usize::try_from(self.key_size()?).unwrap_or(0);
        self.key_size_at().checked_add(4)?.checked_add(key)
    }
}

/// The messages of an entry of magic 0 or 1; after an error it ends.
#[derive(Debug)]
pub struct UncheckedMessages<'s> {
    rest: &'s [u8],
    wrapper: Option<MessageHeader>,
    /// Added to the offsets in a set.
    base: i64,
}

impl<'s> Iterator for UncheckedMessages<'s> {
    type Item = Result<UncheckedMessage<'s>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(wrapper) = self.wrapper else {
            return UncheckedMessage::read(std::mem::take(&mut self.rest)).map(Ok);
        };
        let (_, bytes, after) = split_message(self.rest).ok().flatten()?;
        self.rest = after;
        let mut message = UncheckedMessage::read(bytes)?;
        message.offset = message.offset.wrapping_add(self.base);
        if message.magic == 1 && wrapper.timestamp_type() == TimestampType::LogAppendTime {
            message.append_time = Some(wrapper.timestamp);
        }
        if message.attributes & 0x07 != 0 {
            self.rest = &[];
            let codec = Codec::of(2, message.attributes);
            return Some(codec.and_then(|codec| Err(BatchError::InnerCodec { codec })));
        }
        Some(Ok(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::hex;

    const TWO_RECORDS: &str = "00000000000000050000004400000003025c40b3f900000000000100000000000003e8\
        00000000000003eaffffffffffffffffffffffffffff0000000210000000026b02760012000402010102026801";

    /// Offset and timestamp, or why there are none.
    type Read = Result<(i64, i64), BatchError>;

    fn records(bytes: &[u8]) -> Result<Vec<Read>, BatchError> {
        let Some(UncheckedHeader::Batch(header)) = UncheckedHeader::read(bytes) else { panic!("no batch") };
        let mut decoder = Decoder::default();
        let records = header.records(bytes, &mut decoder, &Limits::default())?;
        Ok(records.map(|record| record.map(|record| (record.offset, record.timestamp))).collect())
    }

    #[test]
    fn what_is_wrong_is_shown_up_to_there() {
        let sound = hex(TWO_RECORDS);
        assert_eq!(records(&sound), Ok(vec![Ok((5, 1000)), Ok((6, 1002))]));
        let mut fewer = sound.clone();
        fewer[60] = 1;
        assert_eq!(records(&fewer), Ok(vec![Err(BatchError::LeftOver { got: 10 })]));
        let mut more = sound.clone();
        more[60] = 3;
        assert_eq!(records(&more).unwrap().len(), 3);
        assert!(records(&more).unwrap()[2].is_err());
        let mut negative = sound.clone();
        negative[57] = 0xff;
        assert!(matches!(records(&negative), Err(BatchError::RecordCount { .. })));
        let mut codec = sound;
        codec[22] = 7;
        assert_eq!(records(&codec), Err(BatchError::Codec { magic: 2, got: 7 }));
    }

    #[test]
    fn sequences_wrap_as_in_java() {
        assert_eq!(sequence_after(i32::MAX, 1), 0);
        assert_eq!(sequence_after(i32::MAX - 1, 1), i32::MAX);
        assert_eq!(sequence_after(5, 3), 8);
    }

    #[test]
    fn no_input_panics() {
        let sound = hex(TWO_RECORDS);
        for (at, bit) in (0..sound.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            for len in [bytes.len(), 62, 61, 60, 26, 18, 17, 0] {
                let bytes = &bytes[..len];
                match UncheckedHeader::read(bytes) {
                    Some(UncheckedHeader::Batch(_)) => drop(records(bytes)),
                    Some(UncheckedHeader::Message(header)) => {
                        let mut decoder = Decoder::default();
                        if let Ok(messages) = header.messages(bytes, &mut decoder, &Limits::default()) {
                            for message in messages.flatten() {
                                let _ = (message.key(), message.value(), message.timestamp());
                                let _ = (message.key_size(), message.value_size(), message.is_valid());
                            }
                        }
                    }
                    None => {}
                }
            }
        }
    }
}
