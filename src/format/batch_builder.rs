//! Batches of magic 2, as a leader has them after it has assigned offsets.
//!
//! Byte for byte what Kafka's `MemoryRecordsBuilder` makes of the same records without a codec: the base timestamp is the first
//! record's, attributes of records are 0, null keys and values have length -1.

use std::io;

use zerocopy::IntoBytes;

use crate::format::batch::{HEADER_V2_LEN, LOG_APPEND_TIME, RawHeader, SIZE_OVERHEAD, checksum_v2};
use crate::format::compression::encoder::{Compression, Encoder};
use crate::format::record::Header;
use crate::units::{LeaderEpoch, Offset, Timestamp};

/// A record that gets its offset from its place.
#[derive(Debug, Clone, Copy)]
pub struct NewRecord<'a> {
    /// Its time, or that of appending.
    pub timestamp: Timestamp,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; `None` makes the record a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: &'a [Header<'a>],
}

/// A batch whose records come one by one.
#[derive(Debug)]
pub struct BatchBuilder {
    encoder: Encoder,
    /// All records as they are stored.
    records: Vec<u8>,
    /// One record without its length.
    body: Vec<u8>,
    count: i32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
    append_time: Option<Timestamp>,
}

impl BatchBuilder {
    /// An empty batch.
    pub const fn new(compression: Compression) -> Self {
        Self {
            encoder: Encoder::new(compression),
            records: Vec::new(),
            body: Vec::new(),
            count: 0,
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
            append_time: None,
        }
    }

    /// Records have the time of appending, `time`, whatever they say (`message.timestamp.type=LogAppendTime`).
    pub const fn set_append_time(&mut self, time: Timestamp) {
        self.append_time = Some(time);
    }

    /// How many records it has.
    pub const fn len(&self) -> i32 {
        self.count
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The largest timestamp of its records.
    pub const fn max_timestamp(&self) -> Timestamp {
        self.max_timestamp
    }

    /// Adds a record unless the batch would have more than `most` bytes before it is compressed; whether it did. Kafka compares
    /// `max.message.bytes` with the bytes after compressing, which are hardly ever more.
    pub fn push(&mut self, record: &NewRecord<'_>, most: usize) -> bool {
        let base = if self.is_empty() { record.timestamp } else { self.base_timestamp };
        self.body.clear();
        self.body.push(0);
        put_varlong(&mut self.body, record.timestamp.0.wrapping_sub(base.0));
        put_varlong(&mut self.body, i64::from(self.count));
        put_bytes(&mut self.body, record.key);
        put_bytes(&mut self.body, record.value);
        put_len(&mut self.body, record.headers.len());
        for header in record.headers {
            put_bytes(&mut self.body, Some(header.name));
            put_bytes(&mut self.body, header.value);
        }
        let before = self.records.len();
        put_len(&mut self.records, self.body.len());
        let len = HEADER_V2_LEN.saturating_add(self.records.len()).saturating_add(self.body.len());
        let (Some(count), true) = (self.count.checked_add(1), len <= most && i32::try_from(len).is_ok())
        else {
            self.records.truncate(before);
            return false;
        };
        self.records.extend_from_slice(&self.body);
        self.max_timestamp = if self.is_empty() { base } else { self.max_timestamp.max(record.timestamp) };
        (self.count, self.base_timestamp) = (count, base);
        true
    }

    /// Appends the batch to `out`, with offsets from `base` on; then it is empty again.
    ///
    /// # Errors
    /// The codec's; then nothing is appended.
    pub fn finish(&mut self, base: Offset, epoch: LeaderEpoch, out: &mut Vec<u8>) -> io::Result<()> {
        let begun = out.len();
        out.resize(begun.saturating_add(HEADER_V2_LEN), 0);
        let written = self.encoder.encode(&self.records, out).and_then(|()| {
            let entry = out.get_mut(begun..).unwrap_or_default();
            self.put_header(base, epoch, entry)
        });
        if written.is_err() {
            out.truncate(begun);
            return written;
        }
        self.clear();
        Ok(())
    }

    /// Forgets the records.
    pub fn clear(&mut self) {
        self.records.clear();
        (self.count, self.base_timestamp, self.max_timestamp) = (0, Timestamp::NONE, Timestamp::NONE);
    }

    /// Writes the header of `entry`, whose records are there.
    fn put_header(&self, base: Offset, epoch: LeaderEpoch, entry: &mut [u8]) -> io::Result<()> {
        let size = i32::try_from(entry.len().saturating_sub(SIZE_OVERHEAD)).map_err(io::Error::other)?;
        let time_type = self.append_time.map_or(0, |_| LOG_APPEND_TIME);
        let mut header = RawHeader {
            base_offset: base.0.into(),
            size: size.into(),
            leader_epoch: epoch.0.into(),
            magic: 2,
            crc: 0.into(),
            attributes_high: 0,
            attributes: self.encoder.codec().number() | time_type,
            last_offset_delta: self.count.saturating_sub(1).into(),
            base_timestamp: self.base_timestamp.0.into(),
            max_timestamp: self.append_time.unwrap_or(self.max_timestamp).0.into(),
            // No producer.
            producer_id: (-1).into(),
            producer_epoch: (-1).into(),
            base_sequence: (-1).into(),
            record_count: self.count.into(),
        };
        header.write_to_prefix(entry).ok().ok_or(io::ErrorKind::InvalidInput)?;
        header.crc = checksum_v2(entry).into();
        Ok(header.write_to_prefix(entry).ok().ok_or(io::ErrorKind::InvalidInput)?)
    }
}

/// A zigzag varint, 1 to 10 bytes; one of 32 bits has the same bytes.
fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
    while rest >= 0x80 {
        let [low, ..] = rest.to_le_bytes();
        out.push(low | 0x80);
        rest >>= 7;
    }
    let [low, ..] = rest.to_le_bytes();
    out.push(low);
}

/// No length is that large in memory.
fn put_len(out: &mut Vec<u8>, len: usize) {
    put_varlong(out, i64::try_from(len).unwrap_or(i64::MAX));
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varlong(out, -1),
        Some(bytes) => {
            put_len(out, bytes.len());
            out.extend_from_slice(bytes);
        }
    }
}
