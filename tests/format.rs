//! The format layer through its public API: batches of an independent encoder, and bytes that are none.

#![expect(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::path::Path;

use common::fixtures;
use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{
    Compression, Record as TheirRecord, RecordBatchDecoder, RecordBatchEncoder, RecordEncodeOptions,
    TimestampType as TheirType,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use topicfs::format::batch::{Batch, BatchError, Codec, Decoder, HEADER_V2_LEN, Header, Limits, Prefix};
use topicfs::format::batch_builder::{BatchBuilder, NewRecord};
use topicfs::format::compression::encoder;
use topicfs::format::record::{Header as RecordHeader, TimestampType};
use topicfs::format::{checkpoint, control, index, names, partition_metadata, properties, snapshot};
use topicfs::units::{LeaderEpoch, Offset, ProducerId, Timestamp};

const CODECS: [(Compression, Codec); 5] = [
    (Compression::None, Codec::None),
    (Compression::Gzip, Codec::Gzip),
    (Compression::Snappy, Codec::Snappy),
    (Compression::Lz4, Codec::Lz4),
    (Compression::Zstd, Codec::Zstd),
];

/// One record as the tests compare it.
#[derive(Debug, Clone, PartialEq)]
struct Plain {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

/// What a batch says of its producer.
#[derive(Debug, Clone)]
struct Producer {
    id: i64,
    epoch: i16,
    sequence: i32,
    leader_epoch: i32,
    is_transactional: bool,
}

fn producer() -> impl Strategy<Value = Producer> {
    (-1..i64::MAX, -1..i16::MAX, -1..1000_i32, -1..i32::MAX, any::<bool>()).prop_map(
        |(id, epoch, sequence, leader_epoch, is_transactional)| Producer {
            id,
            epoch,
            sequence,
            leader_epoch,
            is_transactional,
        },
    )
}

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => vec(any::<u8>(), 0..20), 1 => vec(b'a'..b'd', 0..most)]
}

/// Records with gaps between their offsets, and times that go back and forth.
fn records() -> impl Strategy<Value = Vec<Plain>> {
    let headers = vec((".{0,8}", option::of(bytes(50))), 0..4);
    let record = (1..200_i64, -5000..5000_i64, option::of(bytes(50)), option::of(bytes(5000)), headers);
    (0..1_i64 << 50, 0..1_i64 << 42, vec(record, 1..40)).prop_map(|(base, base_time, parts)| {
        let mut next = base;
        let plain = |(step, time, key, value, mut headers): (i64, i64, _, _, Vec<(String, _)>)| {
            headers.sort_by(|a, b| a.0.cmp(&b.0));
            headers.dedup_by(|a, b| a.0 == b.0);
            next += step;
            Plain { offset: next, timestamp: base_time + time, key, value, headers }
        };
        parts.into_iter().map(plain).collect()
    })
}

fn encode(records: &[Plain], producer: &Producer, compression: Compression) -> Vec<u8> {
    let base = records[0].offset;
    let theirs: Vec<TheirRecord> = records
        .iter()
        .map(|record| TheirRecord {
            delete_horizon: false,
            transactional: producer.is_transactional,
            control: false,
            partition_leader_epoch: producer.leader_epoch,
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            timestamp_type: TheirType::Creation,
            offset: record.offset,
            sequence: producer.sequence.wrapping_add(i32::try_from(record.offset - base).unwrap()),
            timestamp: record.timestamp,
            key: record.key.clone().map(Into::into),
            value: record.value.clone().map(Into::into),
            headers: (record.headers.iter())
                .map(|(name, value)| (StrBytes::from_string(name.clone()), value.clone().map(Into::into)))
                .collect(),
        })
        .collect();
    let mut bytes = Vec::new();
    let options = RecordEncodeOptions { version: 2, compression };
    RecordBatchEncoder::encode(&mut bytes, &theirs, &options).unwrap();
    bytes
}

fn decode(batch: &Batch<'_>, decoder: &mut Decoder) -> Result<Vec<Plain>, BatchError> {
    let vec = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
    let records = batch.records(decoder, &Limits::default())?;
    records
        .map(|record| {
            record.map(|record| Plain {
                offset: record.offset.0,
                timestamp: record.timestamp.0,
                key: vec(record.key),
                value: vec(record.value),
                headers: record.headers.iter().map(|header| (text(header.name), vec(header.value))).collect(),
            })
        })
        .collect()
}

/// Adds a record to a batch that has room for all.
fn push(builder: &mut BatchBuilder, record: &Plain) {
    let headers = record.headers.iter();
    let headers: Vec<_> = headers
        .map(|(name, value)| RecordHeader { name: name.as_bytes(), value: value.as_deref() })
        .collect();
    let new = NewRecord {
        timestamp: Timestamp(record.timestamp),
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &headers,
    };
    assert!(builder.push(&new, usize::MAX));
}

fn builder(codec: Codec) -> BatchBuilder {
    BatchBuilder::new(encoder::Compression { codec, level: None })
}

/// A line whose end has not come is refused only if no batch could hold it.
#[test]
fn the_longest_value_of_a_batch_fits_and_a_longer_one_does_not() {
    for most in (0..400).chain(16_000..16_800).chain(2_000_000..2_000_300) {
        let longest = BatchBuilder::longest_value(most);
        let value = vec![b'x'; longest + 1];
        let fits = |len: usize| {
            let new =
                NewRecord { timestamp: Timestamp(7), key: None, value: Some(&value[..len]), headers: &[] };
            builder(Codec::None).push(&new, most)
        };
        assert!(!fits(longest + 1), "{most}");
        assert!(longest == 0 || fits(longest), "{most}");
    }
}

/// Makes the checksum of a batch of magic 2 right again.
fn repair_checksum(bytes: &mut [u8]) {
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batches_of_an_independent_encoder(records in records(), producer in producer()) {
        let mut decoder = Decoder::default();
        for (compression, codec) in CODECS {
            let bytes = encode(&records, &producer, compression);
            let batch = Batch::parse(&bytes).unwrap();
            prop_assert_eq!(batch.bytes.len(), bytes.len());
            prop_assert_eq!(Header::peek(&bytes[..HEADER_V2_LEN]), Ok(batch.header));
            let header = batch.header;
            prop_assert_eq!(header.codec, codec);
            prop_assert_eq!(header.base_offset, Some(Offset(records[0].offset)));
            prop_assert_eq!(header.last_offset, Offset(records[records.len() - 1].offset));
            let times = || records.iter().map(|record| Timestamp(record.timestamp));
            prop_assert_eq!(Some(header.max_timestamp), times().max());
            prop_assert_eq!(Some(header.base_timestamp), times().min());
            prop_assert_eq!(header.record_count, u32::try_from(records.len()).ok());
            prop_assert_eq!(header.timestamp_type, TimestampType::CreateTime);
            prop_assert_eq!(header.producer_id, Some(ProducerId(producer.id)).filter(|id| id.0 != -1));
            prop_assert_eq!(header.producer_epoch, producer.epoch);
            prop_assert_eq!(header.base_sequence, producer.sequence);
            let epoch = Some(LeaderEpoch(producer.leader_epoch)).filter(|epoch| epoch.0 != -1);
            prop_assert_eq!(header.leader_epoch, epoch);
            prop_assert_eq!(header.is_transactional, producer.is_transactional);
            prop_assert!(!header.is_control && !header.has_delete_horizon);
            prop_assert_eq!(&decode(&batch, &mut decoder).unwrap(), &records);
        }
    }

    /// The broker sets one bit and the largest timestamp, and leaves the deltas as they are.
    #[test]
    fn log_append_time(records in records(), producer in producer(), time in 0..i64::MAX) {
        let mut bytes = encode(&records, &producer, Compression::Lz4);
        bytes[22] |= 0x08;
        bytes[35..43].copy_from_slice(&time.to_be_bytes());
        repair_checksum(&mut bytes);
        let batch = Batch::parse(&bytes).unwrap();
        prop_assert_eq!(batch.header.timestamp_type, TimestampType::LogAppendTime);
        let decoded = decode(&batch, &mut Decoder::default()).unwrap();
        prop_assert!(decoded.iter().all(|record| record.timestamp == time));
        prop_assert_eq!(decoded.len(), records.len());
    }

    /// A cleaner moves the base timestamp and the deltas; the sum is as before.
    #[test]
    fn unknown_attributes_and_a_delete_horizon(records in records(), producer in producer()) {
        let mut bytes = encode(&records, &producer, Compression::None);
        bytes[21] = 0xff;
        bytes[22] |= 0xc0;
        repair_checksum(&mut bytes);
        let batch = Batch::parse(&bytes).unwrap();
        prop_assert!(batch.header.has_delete_horizon);
        prop_assert_eq!(decode(&batch, &mut Decoder::default()).unwrap(), records);
    }

    /// What we build, an independent decoder reads, and so do we.
    #[test]
    fn built_batches((records, which, time) in (records(), 0..CODECS.len(), option::of(0..1_i64 << 42)), epoch in -1..9_i32) {
        let base = records[0].offset;
        let mut expected: Vec<Plain> =
            (base..).zip(records).map(|(offset, record)| Plain { offset, ..record }).collect();
        let (_, codec) = CODECS[which];
        let mut building = builder(codec);
        if let Some(time) = time {
            building.set_append_time(Timestamp(time));
        }
        let mut bytes = Vec::new();
        // The builder is used again.
        for _ in 0..2 {
            expected.iter().for_each(|record| push(&mut building, record));
            prop_assert_eq!(building.len(), i32::try_from(expected.len()).unwrap());
            bytes.clear();
            bytes.extend_from_slice(building.finish(Offset(base), LeaderEpoch(epoch)).unwrap());
            building.clear();
            prop_assert!(building.is_empty());
        }
        let batch = Batch::parse(&bytes).unwrap();
        prop_assert_eq!(batch.bytes.len(), bytes.len());
        prop_assert_eq!(batch.header.codec, codec);
        let last = expected.iter().map(|record| record.timestamp).max().unwrap();
        prop_assert_eq!(batch.header.max_timestamp, Timestamp(time.unwrap_or(last)));
        let theirs = RecordBatchDecoder::decode(&mut &bytes[..]).unwrap().records;
        prop_assert_eq!(theirs.len(), expected.len());
        for (theirs, expected) in theirs.iter().zip(&expected) {
            prop_assert_eq!(theirs.offset, expected.offset);
            prop_assert_eq!(theirs.key.as_deref(), expected.key.as_deref());
            prop_assert_eq!(theirs.value.as_deref(), expected.value.as_deref());
            prop_assert_eq!(theirs.headers.len(), expected.headers.len());
            prop_assert_eq!(theirs.partition_leader_epoch, epoch);
            prop_assert_eq!(theirs.producer_id, -1);
        }
        if let Some(time) = time {
            expected.iter_mut().for_each(|record| record.timestamp = time);
        }
        prop_assert_eq!(decode(&batch, &mut Decoder::default()).unwrap(), expected);
    }

    /// Payloads that no encoder wrote, under a right checksum.
    #[test]
    fn any_payload(payload in vec(any::<u8>(), 0..400), count in 0..50_i32, attributes: u8, delta in 0..60_i32) {
        let mut bytes = encode(&[plain(5)], &nobody(), Compression::None);
        bytes.truncate(HEADER_V2_LEN);
        bytes.extend_from_slice(&payload);
        let size = i32::try_from(bytes.len() - 12).unwrap();
        bytes[8..12].copy_from_slice(&size.to_be_bytes());
        bytes[22] = attributes;
        bytes[23..27].copy_from_slice(&delta.to_be_bytes());
        bytes[57..61].copy_from_slice(&count.to_be_bytes());
        repair_checksum(&mut bytes);
        if let Ok(batch) = Batch::parse(&bytes)
            && let Ok(records) = batch.records(&mut Decoder::default(), &Limits::default())
        {
            let offsets: Vec<i64> = records.map_while(Result::ok).map(|record| record.offset.0).collect();
            prop_assert!(offsets.iter().all(|offset| (5..=5 + i64::from(delta)).contains(offset)));
            prop_assert!(offsets.is_sorted_by(|a, b| a < b));
        }
    }

    /// Nothing in this layer panics, whatever it is given.
    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300), text in ".{0,60}", magic in 0..3_u8) {
        let mut entry = bytes.clone();
        if entry.len() > 17 {
            let size = i32::try_from(entry.len() - 12).unwrap();
            entry[8..12].copy_from_slice(&size.to_be_bytes());
            entry[16] = magic;
        }
        for entry in [&bytes, &entry] {
            let _ = Prefix::read(entry).map(|prefix| prefix.entry_len());
            if let Ok(batch) = Batch::peek(entry)
                && let Ok(records) = batch.records(&mut Decoder::default(), &Limits::default())
            {
                prop_assert!(records.count() <= entry.len());
            }
        }
        let _ = index::OffsetIndex::new(Offset(i64::MAX), &bytes).floor(Offset(7));
        let _ = index::TimeIndex::new(Offset(i64::MAX), &bytes).floor(Timestamp(7));
        let _ = index::TxnIndex::new(&bytes).entries().count();
        let _ = snapshot::parse(&bytes).map(|entries| entries.len());
        let _ = control::ControlType::parse(&bytes).map(control::ControlType::id);
        let _ = control::EndTxnMarker::parse(&bytes);
        for input in [&bytes[..], text.as_bytes()] {
            let _ = checkpoint::parse_offsets(input);
            let _ = checkpoint::parse_epochs(input);
            let _ = properties::Properties::parse(input);
            let _ = properties::MetaProperties::parse(input);
            let _ = partition_metadata::parse(input);
        }
        let _ = names::SegmentFile::parse(&text);
        let _ = names::KraftSnapshot::parse(&text);
        let _ = names::PartitionDir::parse(&text);
    }

    /// What parses as a partition's directory is built the same again.
    #[test]
    fn directory_names_come_back(name in "[a-c.@_-]{1,6}-[0-9+]{1,3}(\\.[0-9a-f]{1,4}-(future|delete|stray))?") {
        if let Some(dir) = names::PartitionDir::parse(&name) {
            prop_assert_eq!(dir.to_string(), name);
        }
    }

    #[test]
    fn properties_come_back(pairs in vec(("[ -~\u{e9}]{1,10}", "[ -~\u{20ac}\u{1f600}]{0,10}"), 0..6)) {
        let escape = |text: &str| -> String {
            text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect()
        };
        let text: String = pairs.iter().map(|(key, value)| format!("{}={}\n", escape(key), escape(value))).collect();
        let parsed = properties::Properties::parse(text.as_bytes()).unwrap();
        for (at, (key, value)) in pairs.iter().enumerate() {
            if pairs[at + 1..].iter().all(|(later, _)| later != key) {
                prop_assert_eq!(parsed.get(key), Some(value.as_str()));
            }
        }
    }
}

fn nobody() -> Producer {
    Producer { id: -1, epoch: -1, sequence: -1, leader_epoch: 0, is_transactional: false }
}

fn plain(offset: i64) -> Plain {
    let value = Some(format!("value {offset}").repeat(3).into_bytes());
    let headers = vec![("h".to_owned(), None)];
    Plain { offset, timestamp: 1000 + offset, key: Some(vec![b'k']), value, headers }
}

/// A segment of three batches, and where each begins.
fn segment(compression: Compression) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    let mut starts = Vec::new();
    for offsets in [0..3, 3..4, 4..9] {
        starts.push(bytes.len());
        let records: Vec<Plain> = offsets.map(plain).collect();
        bytes.extend_from_slice(&encode(&records, &nobody(), compression));
    }
    (bytes, starts)
}

/// Offsets of the records up to the first thing that is wrong.
fn walk(mut bytes: &[u8]) -> (Vec<i64>, Option<BatchError>) {
    let mut offsets = Vec::new();
    let mut decoder = Decoder::default();
    while !bytes.is_empty() {
        let decoded =
            Batch::parse(bytes).and_then(|batch| Ok((batch.bytes.len(), decode(&batch, &mut decoder)?)));
        match decoded {
            Ok((len, records)) => {
                offsets.extend(records.iter().map(|record| record.offset));
                bytes = &bytes[len..];
            }
            Err(error) => return (offsets, Some(error)),
        }
    }
    (offsets, None)
}

#[test]
fn a_segment_cut_at_every_length() {
    for (compression, codec) in CODECS {
        let (bytes, starts) = segment(compression);
        let ends = [starts[1], starts[2], bytes.len()];
        for len in 0..bytes.len() {
            let (offsets, error) = walk(&bytes[..len]);
            let whole = ends.iter().filter(|&&end| end <= len).count();
            assert_eq!(offsets.len(), [0, 3, 4, 9][whole], "{codec}, {len} bytes");
            let is_torn = matches!(error, Some(BatchError::Short { .. } | BatchError::Truncated { .. }));
            assert_eq!(is_torn, len > 0 && !ends.contains(&len), "{codec}, {len} bytes: {error:?}");
        }
    }
}

#[test]
fn a_segment_with_every_byte_flipped() {
    for (compression, codec) in CODECS {
        let (sound, starts) = segment(compression);
        for at in 0..sound.len() {
            let mut bytes = sound.clone();
            bytes[at] ^= 0xff;
            let batch = starts.partition_point(|&start| start <= at) - 1;
            let (offsets, error) = walk(&bytes);
            assert!(offsets.starts_with(&[0, 1, 2, 3][..[0, 3, 4][batch]]), "{codec}, byte {at}");
            let is_protected = at - starts[batch] >= 17;
            assert!(!is_protected || error.is_some(), "{codec}, byte {at}");
            assert!(!is_protected || offsets.len() == [0, 3, 4][batch], "{codec}, byte {at}");
        }
    }
}

#[test]
fn limits_reach_through_a_batch() {
    let mut record = plain(0);
    record.value = Some(vec![0; 1 << 20]);
    for (compression, codec) in CODECS.into_iter().skip(1) {
        let bytes = encode(std::slice::from_ref(&record), &nobody(), compression);
        let batch = Batch::parse(&bytes).unwrap();
        let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
        let mut decoder = Decoder::default();
        let error = batch.records(&mut decoder, &limits).err();
        assert_eq!(error, Some(BatchError::DecodedLimit { limit: 1 << 20 }), "{codec}");
        assert!(error.is_some_and(|error| error.to_string().contains("1048576")));
        assert_eq!(decode(&batch, &mut decoder).map(|records| records.len()), Ok(1), "{codec}");
    }
}

/// All files below a directory.
fn logs(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => logs(&path, found),
            Some("log") => found.push(path),
            _ => {}
        }
    }
}

/// Byte for byte what real producers and brokers of 0.11 to 4.4 made of the same records; all but who the producer was, which is
/// nobody here. What compaction has thinned out or marked is not as a leader writes it; with the time of appending, the times that
/// the producer gave are still there, and shown to nobody.
#[test]
fn batches_of_real_producers_are_built_again_byte_for_byte() {
    let (mut paths, mut same) = (Vec::new(), 0);
    for case in fixtures::cases() {
        case.data_dirs().iter().for_each(|data| logs(data, &mut paths));
    }
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let mut rest = &bytes[..];
        while let Some(len) =
            Prefix::read(rest).and_then(|prefix| prefix.entry_len()).filter(|len| *len <= rest.len())
        {
            let (entry, behind) = rest.split_at(len);
            rest = behind;
            let Ok(batch) = Batch::parse(entry) else { continue };
            let header = &batch.header;
            let count = header.record_count.map_or(0, i64::from);
            let (Some(base), 2, false) = (header.base_offset, header.magic, header.is_control) else {
                continue;
            };
            if header.codec != Codec::None
                || header.timestamp_type != TimestampType::CreateTime
                || header.last_offset.0 - base.0 + 1 != count
                || entry[22] & 0x40 != 0
            {
                continue;
            }
            // Bit 4 says that it belongs to a transaction.
            let mut theirs = entry.to_vec();
            theirs[22] &= !0x10;
            theirs[43..57].fill(0xff);
            repair_checksum(&mut theirs);
            let mut building = builder(Codec::None);
            let records = decode(&batch, &mut Decoder::default()).unwrap();
            records.iter().for_each(|record| push(&mut building, record));
            let mut ours = Vec::new();
            let built = building.finish(base, header.leader_epoch.unwrap_or(LeaderEpoch(-1)));
            ours.extend_from_slice(built.unwrap());
            building.clear();
            assert!(ours == theirs, "{} at offset {}: {ours:?} / {theirs:?}", path.display(), base.0);
            same += 1;
        }
    }
    assert!(same > 1000, "{same} batches");
}
