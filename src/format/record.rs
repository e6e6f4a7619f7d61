//! One record, borrowed from its batch.
//!
//! In magic 2 (KIP-98) a record is: length (varint), attributes (1 byte, unused), timestamp delta (varlong), offset
//! delta (varint), key and value (each a varint length, negative for null, and bytes), count of headers (varint),
//! headers (name like a key but never null, value like a value).

use crate::format::cursor::Cursor;
use crate::format::error::RecordFault;
use crate::units::{Offset, Timestamp};

/// Who set a record's timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Magic 0: records have no timestamp.
    NoTimestamp,
    /// The producer.
    CreateTime,
    /// The broker, when it appended the batch.
    LogAppendTime,
}

/// One record; keys and values that are null (`None`) differ from empty ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The record's offset.
    pub offset: Offset,
    /// Its time, [`Timestamp::NONE`] when it has none.
    pub timestamp: Timestamp,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` makes the record a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: Headers<'a>,
}

/// The headers of one record, already checked; they may repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    /// How many there are.
    count: usize,
    /// Their encoded bytes.
    bytes: &'a [u8],
}

/// One header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// The name, by rule UTF-8; other bytes are possible and kept.
    pub name: &'a [u8],
    /// The value.
    pub value: Option<&'a [u8]>,
}

impl<'a> Headers<'a> {
    /// The number of headers.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their bytes as they are stored, behind the count.
    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The headers in order.
    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        (0..self.count).map_while(move |_| Header::read(&mut cursor).ok())
    }

    /// Reads a count and that many headers.
    #[inline(always)]
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        match cursor.varint()? {
            0 => Ok(Self::default()),
            count => Self::read_some(count, cursor),
        }
    }

    fn read_some(count: i32, cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let bytes = cursor.rest();
        let count = usize::try_from(count).map_err(|_| RecordFault::HeaderCount)?;
        if count > bytes.len() {
            return Err(RecordFault::HeaderCount);
        }
        for _ in 0..count {
            Header::read(cursor)?;
        }
        let len = bytes.len().saturating_sub(cursor.rest().len());
        Ok(Self { count, bytes: bytes.get(..len).unwrap_or_default() })
    }
}

impl<'a> Header<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let name = cursor.nullable_varint_bytes()?.ok_or(RecordFault::HeaderName)?;
        let value = cursor.nullable_varint_bytes()?;
        Ok(Self { name, value })
    }
}

/// A record of magic 2 as it is stored: offset and timestamp are relative to its batch.
pub(super) struct StoredRecord<'a> {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: Headers<'a>,
}

impl<'a> StoredRecord<'a> {
    #[inline(always)]
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let len = usize::try_from(cursor.varint()?).map_err(|_| RecordFault::Length)?;
        let mut body = Cursor::new(cursor.take(len)?);
        body.u8()?;
        let record = Self {
            timestamp_delta: body.varlong()?,
            offset_delta: body.varint()?,
            key: body.nullable_varint_bytes()?,
            value: body.nullable_varint_bytes()?,
            headers: Headers::read(&mut body)?,
        };
        if body.rest().is_empty() { Ok(record) } else { Err(RecordFault::LeftOver) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<StoredRecord<'_>, RecordFault> {
        StoredRecord::read(&mut Cursor::new(bytes))
    }

    #[test]
    fn headers_keep_order_and_repeats() {
        let bytes = [28, 0, 0, 0, 1, 1, 6, 2, b'a', 2, b'1', 2, b'a', 1, 0];
        assert_eq!(read(&bytes).err(), Some(RecordFault::Cut));
        let bytes = [30, 0, 0, 0, 1, 1, 6, 2, b'a', 2, b'1', 2, b'a', 1, 0, 0];
        let record = read(&bytes).unwrap();
        let headers: Vec<_> = record.headers.iter().map(|header| (header.name, header.value)).collect();
        let expected: [(&[u8], Option<&[u8]>); 3] = [(b"a", Some(b"1")), (b"a", None), (b"", Some(b""))];
        assert_eq!(headers, expected);
        assert_eq!(record.headers.len(), 3);
    }

    #[test]
    fn faults_have_names() {
        assert_eq!(read(&[1]).err(), Some(RecordFault::Length));
        assert_eq!(read(&[12, 0, 0, 0, 1, 1, 1]).err(), Some(RecordFault::HeaderCount));
        assert_eq!(read(&[12, 0, 0, 0, 1, 1, 2]).err(), Some(RecordFault::HeaderCount));
        assert_eq!(read(&[16, 0, 0, 0, 1, 1, 2, 1, 0]).err(), Some(RecordFault::HeaderName));
        assert_eq!(read(&[14, 0, 0, 0, 1, 1, 0, 0]).err(), Some(RecordFault::LeftOver));
        assert_eq!(read(&[12, 0, 0, 0, 4, 1, 0]).err(), Some(RecordFault::Cut));
    }
}
