//! Entries of every magic, written without a line of topicfs: by the `kafka-protocol` crate where it can (whole
//! batches of magic 2, all codecs), by hand where it can't (gaps at a batch's start, equal header names, magic 0 and 1).

use kafka_protocol::compression::{Compressor, Gzip, Lz4, Snappy, Zstd};
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};

use super::shown::ShownRecord;

/// A batch before it is encoded.
#[derive(Debug, Clone)]
pub struct Plan {
    /// 0, 1 or 2.
    pub magic: u8,
    /// The codec; zstd for magic 2 only.
    pub codec: Compression,
    /// The first offset that it covers, at or below its first record's. Magic 2 only.
    pub base: i64,
    /// The last offset that it covers, at or above its last record's. Magic 2 only.
    pub last: i64,
    /// Its records. None: a batch that compaction emptied.
    pub records: Vec<ShownRecord>,
    /// All have this timestamp, set by the broker.
    pub append_time: Option<i64>,
    /// The producer's id, -1 for none.
    pub producer: i64,
    /// Whether it belongs to a transaction.
    pub is_transactional: bool,
    /// A marker that commits (true) or aborts; then there is one record, made here.
    pub marker: Option<bool>,
}

impl Plan {
    /// A batch of magic 2 without a producer that holds just `records`.
    pub fn of(records: Vec<ShownRecord>, codec: Compression) -> Self {
        let base = records.first().map_or(0, |record| record.offset);
        let last = records.last().map_or(0, |record| record.offset);
        Self {
            magic: 2,
            codec,
            base,
            last,
            records,
            append_time: None,
            producer: -1,
            is_transactional: false,
            marker: None,
        }
    }

    /// The same as magic 0 or 1.
    pub fn with_magic(mut self, magic: u8) -> Self {
        self.magic = magic;
        for record in &mut self.records {
            record.headers.clear();
            record.timestamp = if magic == 0 { -1 } else { record.timestamp };
        }
        self
    }

    /// The transaction marker of `producer` at `offset`.
    pub fn marker(offset: i64, producer: i64, commits: bool) -> Self {
        let mut plan = Self::of(Vec::new(), Compression::None);
        (plan.base, plan.last, plan.producer) = (offset, offset, producer);
        (plan.is_transactional, plan.marker) = (true, Some(commits));
        plan
    }
}

/// One entry of a `.log`.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The first offset that it covers.
    pub first: i64,
    /// The last.
    pub last: i64,
    /// Its records, none in a marker.
    pub records: Vec<ShownRecord>,
    /// Its transaction's producer.
    pub transaction: Option<i64>,
    /// Whether a marker commits.
    pub marker: Option<bool>,
}

/// The entries of a batch: one, or below magic 2 without a codec one for each record.
pub fn encode(plan: &Plan) -> Vec<Entry> {
    let entry = |bytes, first, last, records| Entry {
        bytes,
        first,
        last,
        records,
        transaction: plan.is_transactional.then_some(plan.producer),
        marker: plan.marker,
    };
    let mut shown = plan.records.clone();
    if let Some(time) = plan.append_time {
        shown.iter_mut().for_each(|record| record.timestamp = time);
    }
    if plan.magic == 2 {
        let records = if plan.marker.is_some() { Vec::new() } else { shown };
        return vec![entry(batch(plan), plan.base, plan.last, records)];
    }
    if plan.codec == Compression::None {
        let single = |record: ShownRecord| {
            let bytes = message(plan.magic, record.offset, &record, 0, plan.append_time);
            entry(bytes, record.offset, record.offset, vec![record])
        };
        return shown.into_iter().map(single).collect();
    }
    let (Some(first), Some(last)) = (shown.first().cloned(), shown.last().cloned()) else {
        return Vec::new();
    };
    vec![entry(wrapper(plan, first.offset, &last), first.offset, last.offset, shown)]
}

fn batch(plan: &Plan) -> Vec<u8> {
    let mut bytes = match plan.marker {
        Some(commits) => by_hand(plan, &[marker_record(plan.base, commits)]),
        None if is_plain(plan) => by_crate(plan),
        None => by_hand(plan, &plan.records),
    };
    let mut attributes = bytes[22] & 0x07;
    attributes |= if plan.is_transactional { 0x10 } else { 0 };
    attributes |= if plan.marker.is_some() { 0x20 } else { 0 };
    if let Some(time) = plan.append_time {
        attributes |= 0x08;
        bytes[35..43].copy_from_slice(&time.to_be_bytes());
    }
    bytes[22] = attributes;
    let delta = i32::try_from(plan.last - plan.base).expect("a batch covers fewer than 2^31 offsets");
    bytes[23..27].copy_from_slice(&delta.to_be_bytes());
    seal(&mut bytes);
    bytes
}

/// Makes size and checksum of a magic 2 batch right.
pub fn seal(bytes: &mut [u8]) {
    let size = i32::try_from(bytes.len() - 12).expect("a batch is smaller than 2 GiB");
    bytes[8..12].copy_from_slice(&size.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
}

/// Whether the crate can write it.
fn is_plain(plan: &Plan) -> bool {
    let times = plan.records.iter().map(|record| record.timestamp);
    let span = times.clone().max().unwrap_or(0).checked_sub(times.min().unwrap_or(0));
    let headers_fit = plan.records.iter().all(|record| {
        let names: std::collections::HashSet<_> = record.headers.iter().map(|(name, _)| name).collect();
        names.len() == record.headers.len() && names.iter().all(|name| std::str::from_utf8(name).is_ok())
    });
    plan.records.first().is_some_and(|record| record.offset == plan.base)
        && span.is_some_and(|span| span < i64::from(i32::MAX))
        && headers_fit
}

fn by_crate(plan: &Plan) -> Vec<u8> {
    let text = |name: &[u8]| StrBytes::from_string(String::from_utf8(name.to_vec()).expect("checked before"));
    let records: Vec<Record> = plan
        .records
        .iter()
        .map(|record| Record {
            transactional: plan.is_transactional,
            control: false,
            partition_leader_epoch: 3,
            delete_horizon: false,
            producer_id: plan.producer,
            producer_epoch: if plan.producer < 0 { -1 } else { 0 },
            timestamp_type: TimestampType::Creation,
            offset: record.offset,
            // The crate begins another batch where sequence numbers have gaps.
            sequence: i32::try_from(record.offset - plan.base).expect("few offsets"),
            timestamp: record.timestamp,
            key: record.key.clone().map(Into::into),
            value: record.value.clone().map(Into::into),
            headers: record
                .headers
                .iter()
                .map(|(name, value)| (text(name), value.clone().map(Into::into)))
                .collect(),
        })
        .collect();
    let mut bytes = Vec::new();
    let options = RecordEncodeOptions { version: 2, compression: plan.codec };
    RecordBatchEncoder::encode(&mut bytes, &records, &options).expect("a batch can be encoded");
    bytes
}

fn by_hand(plan: &Plan, records: &[ShownRecord]) -> Vec<u8> {
    let times = || records.iter().map(|record| record.timestamp);
    let (first_time, largest) = (times().next().unwrap_or(-1), times().max().unwrap_or(-1));
    let mut out = plan.base.to_be_bytes().to_vec();
    out.extend([0; 4]);
    out.extend(3_i32.to_be_bytes());
    out.push(2);
    out.extend([0; 4]);
    out.extend((plan.codec as i16).to_be_bytes());
    out.extend([0; 4]);
    out.extend(first_time.to_be_bytes());
    out.extend(largest.to_be_bytes());
    out.extend(plan.producer.to_be_bytes());
    out.extend(if plan.producer < 0 { [0xff; 2] } else { [0; 2] });
    out.extend((-1_i32).to_be_bytes());
    out.extend(i32::try_from(records.len()).expect("few records").to_be_bytes());
    let mut payload = Vec::new();
    for record in records {
        push_record(plan.base, first_time, record, &mut payload);
    }
    out.extend(if records.is_empty() { payload } else { compress(plan.codec, &payload) });
    out
}

fn push_record(base: i64, first_time: i64, record: &ShownRecord, out: &mut Vec<u8>) {
    let mut body = vec![0];
    push_varint(record.timestamp.wrapping_sub(first_time), &mut body);
    push_varint(record.offset - base, &mut body);
    push_nullable(record.key.as_deref(), &mut body);
    push_nullable(record.value.as_deref(), &mut body);
    push_varint(count(record.headers.len()), &mut body);
    for (name, value) in &record.headers {
        push_nullable(Some(name), &mut body);
        push_nullable(value.as_deref(), &mut body);
    }
    push_varint(count(body.len()), out);
    out.extend(body);
}

fn marker_record(offset: i64, commits: bool) -> ShownRecord {
    ShownRecord {
        offset,
        timestamp: 1_700_000_000_000,
        key: Some(vec![0, 0, 0, u8::from(commits)]),
        value: Some(vec![0, 0, 0, 0, 0, 1]),
        headers: Vec::new(),
    }
}

fn push_nullable(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    push_varint(bytes.map_or(-1, |bytes| count(bytes.len())), out);
    out.extend(bytes.unwrap_or_default());
}

fn push_varint(number: i64, out: &mut Vec<u8>) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn count(len: usize) -> i64 {
    i64::try_from(len).expect("a length fits")
}

/// An entry of magic 0 or 1.
fn message(magic: u8, offset: i64, record: &ShownRecord, codec: u8, append_time: Option<i64>) -> Vec<u8> {
    let mut body = vec![magic, codec | if magic == 1 && append_time.is_some() { 0x08 } else { 0 }];
    if magic == 1 {
        body.extend(append_time.unwrap_or(record.timestamp).to_be_bytes());
    }
    for field in [&record.key, &record.value] {
        let len = field.as_ref().map_or(-1, |bytes| i32::try_from(bytes.len()).expect("a short field"));
        body.extend(len.to_be_bytes());
        body.extend(field.as_deref().unwrap_or_default());
    }
    let mut out = offset.to_be_bytes().to_vec();
    out.extend(i32::try_from(body.len() + 4).expect("a short message").to_be_bytes());
    out.extend(crc32fast::hash(&body).to_be_bytes());
    out.extend(body);
    out
}

/// A compressed message set; its offset is the last record's, those inside are relative in magic 1 (KIP-31).
fn wrapper(plan: &Plan, first: i64, last: &ShownRecord) -> Vec<u8> {
    let relative = if plan.magic == 1 { first } else { 0 };
    let inner: Vec<u8> = plan
        .records
        .iter()
        .flat_map(|record| message(plan.magic, record.offset - relative, record, 0, None))
        .collect();
    let value = Some(compress(plan.codec, &inner));
    let largest = plan.records.iter().map(|record| record.timestamp).max().unwrap_or(-1);
    let outer =
        ShownRecord { offset: last.offset, timestamp: largest, key: None, value, headers: Vec::new() };
    message(plan.magic, last.offset, &outer, plan.codec as u8, plan.append_time)
}

fn compress(codec: Compression, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let fill = |buffer: &mut <Gzip as Compressor<Vec<u8>>>::BufMut| {
        buffer.extend_from_slice(bytes);
        Ok(())
    };
    let done = match codec {
        Compression::None => return bytes.to_vec(),
        Compression::Gzip => Gzip::compress(&mut out, fill),
        Compression::Snappy => Snappy::compress(&mut out, fill),
        Compression::Lz4 => Lz4::compress(&mut out, fill),
        Compression::Zstd => Zstd::compress(&mut out, fill),
    };
    done.expect("bytes can be compressed");
    out
}
