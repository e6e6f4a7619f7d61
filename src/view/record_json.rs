//! `.json` of a single record: pretty, with all of its batch.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::format::batch::Header;
use crate::format::record::{Record, TimestampType};
use crate::view::encoding::Encoding;
use crate::view::format::Renderer;
use crate::view::jsonl;
use crate::view::partition_view::RecordPlace;

/// Text, or an encoding of what is not UTF-8 or was asked for so.
pub(super) enum Bytes<'a> {
    Text(&'a str),
    Encoded(Encoding, &'a [u8]),
}

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        std::str::from_utf8(bytes).map_or(Self::Encoded(Encoding::Base64, bytes), Self::Text)
    }

    fn encoded(encoding: Encoding, bytes: &'a [u8]) -> Self {
        if encoding.is_plain() { Self::Encoded(encoding, bytes) } else { Self::new(bytes) }
    }
}

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Encoded(encoding, bytes) => {
                let mut text = Vec::with_capacity(encoding.len(bytes));
                encoding.push(bytes, &mut text);
                let mut object = serializer.serialize_map(Some(1))?;
                object.serialize_entry(encoding.name(), &String::from_utf8_lossy(&text))?;
                object.end()
            }
        }
    }
}

/// A key or a value, or the JSON that it is where that is asked for.
struct Payload<'a> {
    bytes: Option<Option<Bytes<'a>>>,
    json: Option<Box<RawValue>>,
}

impl<'a> Payload<'a> {
    fn new(encoding: Encoding, bytes: Option<&'a [u8]>) -> Self {
        let json = bytes.filter(|_| encoding == Encoding::Json).and_then(jsonl::as_json).and_then(|json| {
            let mut minified = Vec::with_capacity(json.len());
            jsonl::push_minified(json, &mut minified);
            RawValue::from_string(String::from_utf8(minified).ok()?).ok()
        });
        let bytes = json.is_none().then(|| bytes.map(|bytes| Bytes::encoded(encoding, bytes)));
        Self { bytes, json }
    }
}

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    timestamp_type: &'static str,
    timestamp_iso: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Option<Bytes<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_json: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Option<Bytes<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_json: Option<Box<RawValue>>,
    headers: Vec<(Bytes<'a>, Option<Bytes<'a>>)>,
    tombstone: bool,
    key_size: Option<usize>,
    key_position: Option<u64>,
    value_size: Option<usize>,
    value_position: Option<u64>,
    sequence: Option<i32>,
    batch: Batch,
}

/// Its `batch`.
#[derive(Serialize)]
struct Batch {
    file: String,
    position: u64,
    size: usize,
    magic: u8,
    attributes: i16,
    crc: u32,
    codec: &'static str,
    base_offset: Option<i64>,
    last_offset: i64,
    records: Option<u32>,
    base_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    delete_horizon: Option<i64>,
    leader_epoch: Option<i32>,
    producer_id: Option<i64>,
    producer_epoch: Option<i16>,
    base_sequence: Option<i32>,
    transactional: bool,
}

/// Renders `record`, which belongs to the batch at `place`.
pub fn render(renderer: &Renderer, record: &Record<'_>, place: &RecordPlace<'_>) -> Vec<u8> {
    let header = &place.batch.header;
    let key = Payload::new(renderer.encodings.key, record.key);
    let value = Payload::new(renderer.encodings.value, record.value);
    let document = Document {
        topic: &renderer.name.topic,
        partition: renderer.name.partition,
        offset: record.offset.0,
        timestamp: (!record.timestamp.is_none()).then_some(record.timestamp.0),
        timestamp_type: timestamp_type_name(header.timestamp_type),
        timestamp_iso: renderer.iso(record.timestamp.0),
        key: key.bytes,
        key_json: key.json,
        value: value.bytes,
        value_json: value.json,
        headers: record.headers.iter().map(|h| (Bytes::new(h.name), h.value.map(Bytes::new))).collect(),
        tombstone: record.value.is_none(),
        key_size: record.key.map(<[u8]>::len),
        key_position: record.key.and_then(|key| position_of(key, place)),
        value_size: record.value.map(<[u8]>::len),
        value_position: record.value.and_then(|value| position_of(value, place)),
        sequence: sequence(header, record),
        batch: batch(header, place),
    };
    let mut out = serde_json::to_vec_pretty(&document).unwrap_or_default();
    escape_controls(&mut out);
    out.push(b'\n');
    out
}

/// Where in the file `bytes` are; `None` when they were compressed there.
fn position_of(bytes: &[u8], place: &RecordPlace<'_>) -> Option<u64> {
    let batch = place.batch.bytes;
    let start = bytes.as_ptr().addr().checked_sub(batch.as_ptr().addr())?;
    (start + bytes.len() <= batch.len()).then(|| place.position.0 + start as u64)
}

/// The attributes as stored: one byte of a message, two of a record batch.
fn attributes(magic: u8, batch: &[u8]) -> i16 {
    match (magic, batch.get(17), batch.get(21..23)) {
        (2, _, Some(&[high, low])) => i16::from_be_bytes([high, low]),
        (_, Some(attributes), _) => i16::from(*attributes),
        _ => 0,
    }
}

fn batch(header: &Header, place: &RecordPlace<'_>) -> Batch {
    let time = |ms: i64| (ms != -1).then_some(ms);
    Batch {
        file: place.segment.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        position: place.position.0,
        size: place.batch.bytes.len(),
        magic: header.magic,
        attributes: attributes(header.magic, place.batch.bytes),
        crc: header.crc,
        codec: header.codec.name(),
        base_offset: header.base_offset.map(|offset| offset.0),
        last_offset: header.last_offset.0,
        records: header.record_count,
        base_timestamp: time(header.base_timestamp.0).filter(|_| !header.has_delete_horizon),
        max_timestamp: time(header.max_timestamp.0),
        delete_horizon: header.has_delete_horizon.then_some(header.base_timestamp.0),
        leader_epoch: header.leader_epoch.map(|epoch| epoch.0),
        producer_id: header.producer_id.map(|id| id.0),
        producer_epoch: (header.producer_epoch >= 0).then_some(header.producer_epoch),
        base_sequence: (header.base_sequence >= 0).then_some(header.base_sequence),
        transactional: header.is_transactional,
    }
}

/// The record's sequence number, which wraps from 2^31-1 to 0 (KAFKA-7692).
fn sequence(header: &Header, record: &Record<'_>) -> Option<i32> {
    let base = header.base_offset?;
    if header.base_sequence < 0 {
        return None;
    }
    let sequence = i64::from(header.base_sequence).checked_add(record.offset.0.checked_sub(base.0)?)?;
    i32::try_from(sequence % (i64::from(i32::MAX) + 1)).ok()
}

/// The name of a timestamp type, as Kafka has it.
pub const fn timestamp_type_name(kind: TimestampType) -> &'static str {
    match kind {
        TimestampType::NoTimestamp => "NoTimestampType",
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

/// A timestamp as ISO 8601 in UTC; `None` for no timestamp, or one beyond what a calendar has.
pub fn iso(ms: i64) -> Option<String> {
    if ms == -1 {
        return None;
    }
    jiff::Timestamp::from_millisecond(ms).ok().map(|time| format!("{time:.3}"))
}

/// Escapes DEL and U+0080 to U+009F, which the JSON library leaves as they are and terminals obey.
pub(super) fn escape_controls(json: &mut Vec<u8>) {
    if !json.iter().any(|byte| matches!(byte, 0x7f | 0xc2)) {
        return;
    }
    let text = String::from_utf8_lossy(json);
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\u{7f}'..='\u{9f}' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => out.push(character),
        }
    }
    *json = out.into_bytes();
}
