//! Batches that records were taken from, as Kafka's cleaner writes what is left: byte for byte the same without a codec.
//!
//! All become magic 2 (KAFKA-13093). Offsets, times, producer, sequence and leader epoch stay, and so does the codec, at its own
//! level; a batch of magic 2 covers the same offsets as before, one of magic 0 or 1 begins and ends with what is left. With a
//! delete horizon (KIP-534) that takes the place of the base timestamp.

use std::io;

use crate::format::batch::{
    CONTROL, Codec, DELETE_HORIZON, HEADER_V2_LEN, Header, LOG_APPEND_TIME, RawHeader, TRANSACTIONAL,
};
use crate::format::batch_builder::seal;
use crate::format::compression::encoder::{Compression, Encoder};
use crate::format::record::{Record, TimestampType};
use crate::format::written_record::{WrittenHeaders, WrittenRecord};
use crate::units::{LeaderEpoch, Offset, ProducerId, Timestamp};

/// Writes batches anew, one after the other.
#[derive(Debug)]
pub struct BatchRewriter {
    /// One for each codec.
    encoders: [Encoder; 5],
    /// Records before they are compressed.
    records: Vec<u8>,
}

impl Default for BatchRewriter {
    fn default() -> Self {
        let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        Self {
            encoders: codecs.map(|codec| Encoder::new(Compression { codec, level: None })),
            records: Vec::new(),
        }
    }
}

impl BatchRewriter {
    /// Appends the batch with this header to `out`, with only these of its records, at least one, and a delete horizon if it is to have
    /// one.
    ///
    /// # Errors
    /// The codec's, and that offsets are too far apart for one batch; then `out` may have part of it.
    pub fn rewrite(
        &mut self,
        source: &Header,
        records: &[Record<'_>],
        delete_horizon: Option<Timestamp>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return empty(source, out);
        };
        // What is in a set is known by its records alone.
        let (base, end) = match source.magic {
            2 => (source.first_known(), source.last_offset),
            _ => (first.offset, last.offset),
        };
        let base_timestamp = delete_horizon.unwrap_or(first.timestamp);
        let entry = out.len();
        out.resize(entry.saturating_add(HEADER_V2_LEN), 0);
        self.records.clear();
        let to = if source.codec == Codec::None { &mut *out } else { &mut self.records };
        let mut max_timestamp = Timestamp::NONE;
        for record in records {
            let written = WrittenRecord {
                time_delta: record.timestamp.0.wrapping_sub(base_timestamp.0),
                offset_delta: record.offset.0.wrapping_sub(base.0),
                key: record.key,
                value: record.value,
                headers: WrittenHeaders::Stored(record.headers),
            };
            written.put(to);
            max_timestamp = max_timestamp.max(record.timestamp);
        }
        if source.timestamp_type == TimestampType::LogAppendTime {
            max_timestamp = source.max_timestamp;
        }
        let horizon = delete_horizon.map_or(0, |_| DELETE_HORIZON);
        let header = RawHeader {
            attributes: source.codec.number() | attributes(source) | horizon,
            base_timestamp: base_timestamp.0.into(),
            max_timestamp: max_timestamp.0.into(),
            record_count: i32::try_from(records.len()).map_err(io::Error::other)?.into(),
            ..header(source, base, end)?
        };
        let encoder = self.encoders.get_mut(usize::from(source.codec.number()));
        // Without a codec there is nothing in there.
        encoder.ok_or(io::ErrorKind::InvalidInput)?.encode(&self.records, out)?;
        seal(header, out.get_mut(entry..).unwrap_or_default())
    }
}

/// Appends the batch with this header to `out` without its records: it keeps its offsets, and its producer's sequence.
///
/// # Errors
/// That its offsets are too far apart.
pub fn empty(source: &Header, out: &mut Vec<u8>) -> io::Result<()> {
    let entry = out.len();
    out.resize(entry.saturating_add(HEADER_V2_LEN), 0);
    let header = RawHeader {
        attributes: attributes(source),
        base_timestamp: Timestamp::NONE.0.into(),
        max_timestamp: source.max_timestamp.0.into(),
        ..header(source, source.first_known(), source.last_offset)?
    };
    seal(header, out.get_mut(entry..).unwrap_or_default())
}

/// The attributes but for the codec and the delete horizon.
fn attributes(source: &Header) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(source.timestamp_type == TimestampType::LogAppendTime, LOG_APPEND_TIME)
        | flag(source.is_transactional, TRANSACTIONAL)
        | flag(source.is_control, CONTROL)
}

/// What stays of a header.
fn header(source: &Header, base: Offset, last: Offset) -> io::Result<RawHeader> {
    let last_offset_delta = i32::try_from(last.0.wrapping_sub(base.0)).map_err(io::Error::other)?;
    Ok(RawHeader {
        base_offset: base.0.into(),
        size: 0.into(),
        leader_epoch: source.leader_epoch.unwrap_or(LeaderEpoch(-1)).0.into(),
        magic: 2,
        crc: 0.into(),
        attributes_high: 0,
        attributes: 0,
        last_offset_delta: last_offset_delta.into(),
        base_timestamp: 0.into(),
        max_timestamp: 0.into(),
        producer_id: source.producer_id.unwrap_or(ProducerId(-1)).0.into(),
        producer_epoch: source.producer_epoch.into(),
        base_sequence: source.base_sequence.into(),
        record_count: 0.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::batch::{Batch, Decoder, Limits};
    use crate::format::batch_builder::{BatchBuilder, NewRecord};
    use crate::format::record;
    use crate::format::testing::{hex, owned};

    fn built(codec: Codec) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression { codec, level: None });
        let headers = [record::Header { name: b"h", value: None }];
        for (number, key) in [&b"a"[..], b"b", b"c"].into_iter().enumerate() {
            let timestamp = Timestamp(1000 + number as i64);
            let record = NewRecord { timestamp, key: Some(key), value: Some(&[7; 100]), headers: &headers };
            assert!(builder.push(&record, 10_000));
        }
        builder.finish(Offset(40), LeaderEpoch(3)).unwrap().to_vec()
    }

    #[test]
    fn what_is_left_keeps_offsets_times_and_headers_in_every_codec() {
        let mut rewriter = BatchRewriter::default();
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let bytes = built(codec);
            let (batch, mut decoder, limits) =
                (Batch::parse(&bytes).unwrap(), Decoder::default(), Limits::default());
            let all: Vec<_> = batch.records(&mut decoder, &limits).unwrap().map(Result::unwrap).collect();
            // Behind what is there already.
            let mut out = b"before".to_vec();
            rewriter.rewrite(&batch.header, &all, None, &mut out).unwrap();
            let same = out.strip_prefix(b"before").unwrap();
            assert_eq!(Batch::parse(same).unwrap().header, Header { ..batch.header }, "{codec}");
            for horizon in [None, Some(Timestamp(5000))] {
                let mut left = Vec::new();
                rewriter.rewrite(&batch.header, &all[1..2], horizon, &mut left).unwrap();
                let left = Batch::parse(&left).unwrap();
                let expected = Header {
                    crc: left.header.crc,
                    base_timestamp: horizon.unwrap_or(Timestamp(1001)),
                    max_timestamp: Timestamp(1001),
                    has_delete_horizon: horizon.is_some(),
                    record_count: Some(1),
                    ..batch.header
                };
                assert_eq!(left.header, expected);
                let mut decoder = Decoder::default();
                let records: Vec<_> =
                    left.records(&mut decoder, &limits).unwrap().map(Result::unwrap).collect();
                assert_eq!(records.iter().map(owned).collect::<Vec<_>>(), [owned(&all[1])]);
            }
        }
    }

    /// The vector of an empty batch, from the batch that it was.
    #[test]
    fn a_batch_without_records_is_kafkas() {
        let empty = hex("0000000000000014000000310000000002802007f0000000000004ffffffffffffffff\
            00000000000003e8000000000000002a00010000000000000000");
        let source = Batch::parse(&empty).unwrap().header;
        let source = Header { codec: Codec::Zstd, has_delete_horizon: true, record_count: Some(5), ..source };
        let mut out = empty.clone();
        super::empty(&source, &mut out).unwrap();
        assert_eq!(out, empty.repeat(2));
    }
}
