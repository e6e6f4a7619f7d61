//! Batches of magic 2, as a leader has them after it has assigned offsets.
//!
//! Byte for byte what Kafka's `MemoryRecordsBuilder` makes of the same records without a codec: the base timestamp is the first
//! record's, attributes of records are 0, null keys and values have length -1.

use std::io;

use zerocopy::IntoBytes;

use crate::format::batch::{Codec, HEADER_V2_LEN, LOG_APPEND_TIME, RawHeader, SIZE_OVERHEAD, checksum_v2};
use crate::format::compression::encoder::{Compression, Encoder};
use crate::format::record::Header;
use crate::format::written_record::{WrittenHeaders, WrittenRecord, longest_value};
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
    /// Room for the header, then all records as they are stored without a codec.
    entry: Vec<u8>,
    /// The same with one.
    encoded: Vec<u8>,
    count: i32,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
    append_time: Option<Timestamp>,
}

impl BatchBuilder {
    /// An empty batch.
    pub fn new(compression: Compression) -> Self {
        Self {
            encoder: Encoder::new(compression),
            entry: vec![0; HEADER_V2_LEN],
            encoded: Vec::new(),
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

    /// The largest timestamp of its records, as the header has it.
    pub fn max_timestamp(&self) -> Timestamp {
        self.append_time.unwrap_or(self.max_timestamp)
    }

    /// Adds a record unless the batch would have more than `most` bytes before it is compressed; whether it did. Kafka compares
    /// `max.message.bytes` with the bytes after compressing, which are hardly ever more.
    pub fn push(&mut self, record: &NewRecord<'_>, most: usize) -> bool {
        let base = if self.is_empty() { record.timestamp } else { self.base_timestamp };
        let written = WrittenRecord {
            time_delta: record.timestamp.0.wrapping_sub(base.0),
            offset_delta: i64::from(self.count),
            key: record.key,
            value: record.value,
            headers: WrittenHeaders::List(record.headers),
        };
        let whole = self.entry.len().saturating_add(written.len());
        let (Some(count), true) = (self.count.checked_add(1), whole <= most && i32::try_from(whole).is_ok())
        else {
            return false;
        };
        written.put(&mut self.entry);
        self.max_timestamp = if self.is_empty() { base } else { self.max_timestamp.max(record.timestamp) };
        (self.count, self.base_timestamp) = (count, base);
        true
    }

    /// The longest value that a batch of no more than `most` bytes can hold, without key and headers.
    pub fn longest_value(most: usize) -> usize {
        longest_value(most.saturating_sub(HEADER_V2_LEN))
    }

    /// Makes the whole batch, with offsets from `base` on; it stays, as [`Self::batch`], until it is [cleared](Self::clear).
    ///
    /// # Errors
    /// The codec's.
    pub fn finish(&mut self, base: Offset, epoch: LeaderEpoch) -> io::Result<&[u8]> {
        let header = self.header(base, epoch);
        let entry = match self.encoder.codec() {
            Codec::None => &mut self.entry,
            _ => {
                self.encoded.clear();
                self.encoded.resize(HEADER_V2_LEN, 0);
                self.encoder
                    .encode(self.entry.get(HEADER_V2_LEN..).unwrap_or_default(), &mut self.encoded)?;
                &mut self.encoded
            }
        };
        seal(header, entry)?;
        Ok(entry)
    }

    /// The batch that was finished.
    pub fn batch(&self) -> &[u8] {
        if self.encoder.codec() == Codec::None { &self.entry } else { &self.encoded }
    }

    /// Forgets the records.
    pub fn clear(&mut self) {
        self.entry.truncate(HEADER_V2_LEN);
        (self.count, self.base_timestamp, self.max_timestamp) = (0, Timestamp::NONE, Timestamp::NONE);
    }

    /// The header but for the size and the checksum.
    fn header(&self, base: Offset, epoch: LeaderEpoch) -> RawHeader {
        let time_type = self.append_time.map_or(0, |_| LOG_APPEND_TIME);
        RawHeader {
            base_offset: base.0.into(),
            size: 0.into(),
            leader_epoch: epoch.0.into(),
            magic: 2,
            crc: 0.into(),
            attributes_high: 0,
            attributes: self.encoder.codec().number() | time_type,
            last_offset_delta: self.count.saturating_sub(1).into(),
            base_timestamp: self.base_timestamp.0.into(),
            max_timestamp: self.max_timestamp().0.into(),
            // No producer.
            producer_id: (-1).into(),
            producer_epoch: (-1).into(),
            base_sequence: (-1).into(),
            record_count: self.count.into(),
        }
    }
}

/// Makes an entry of its header and what is behind the room for that.
///
/// # Errors
/// That it is too large.
pub(super) fn seal(mut header: RawHeader, entry: &mut [u8]) -> io::Result<()> {
    let size = i32::try_from(entry.len().saturating_sub(SIZE_OVERHEAD)).map_err(io::Error::other)?;
    header.size = size.into();
    header.write_to_prefix(entry).ok().ok_or(io::ErrorKind::InvalidInput)?;
    header.crc = checksum_v2(entry).into();
    header.write_to_prefix(entry).ok().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(())
}
