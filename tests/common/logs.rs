//! Random partitions: what a test draws before there are offsets and bytes.

use kafka_protocol::records::Compression;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::batches::{self, Plan};
use super::model::{self, Directory, Model, Numbers, Segment};
use super::shown::ShownRecord;

/// A record before it has an offset.
#[derive(Debug, Clone)]
pub struct RecordPlan {
    pub gap: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Value,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[derive(Debug, Clone)]
pub enum Value {
    Null,
    Bytes(Vec<u8>),
    /// So many bytes that compress badly.
    Large(usize, u64),
}

#[derive(Debug, Clone)]
pub enum BatchPlan {
    Data {
        magic: u8,
        codec: Compression,
        gaps: [i64; 3],
        records: Vec<RecordPlan>,
        append_time: Option<i64>,
        producer: Option<(i64, bool)>,
    },
    Marker {
        producer: i64,
        commits: bool,
    },
}

/// What lies beside a segment as its `.index`.
#[derive(Debug, Clone, Copy)]
pub enum Index {
    Right(usize),
    Missing,
    Padded,
    Zeros,
    /// Right positions with offsets that are too small.
    TooLow,
    /// Right positions with offsets that are too large.
    TooHigh,
    Noise(u64),
}

#[derive(Debug, Clone)]
pub struct SegmentPlan {
    pub gap: i64,
    pub batches: Vec<BatchPlan>,
    pub index: Index,
}

#[derive(Debug, Clone)]
pub struct LogPlan {
    pub first: i64,
    pub segments: Vec<SegmentPlan>,
    /// Thousandths of the log that lie before its start.
    pub start: Option<u16>,
    pub seed: u64,
}

impl LogPlan {
    /// Its records and segments.
    pub fn model(&self) -> Model {
        let mut next = self.first;
        let mut model = Model::default();
        for plan in &self.segments {
            next += plan.gap;
            // No two segments have the same name.
            next = model.segments.last().map_or(next, |before| next.max(before.base + 1));
            let mut segment = Segment { base: next, entries: Vec::new() };
            for batch in &plan.batches {
                segment.entries.extend(batch.entries(next));
                next = segment.entries.last().map_or(next, |entry| entry.last + 1);
            }
            model.segments.push(segment);
        }
        let span = model.log_end() - self.first;
        model.checkpoint = self.start.map(|part| self.first + span * i64::from(part) / 1000);
        model
    }

    /// The directory that holds them, with the indexes as planned.
    pub fn write(&self, model: &Model) -> Directory {
        let directory = Directory::of(model);
        for (plan, segment) in self.segments.iter().zip(&model.segments) {
            if let Some(bytes) = plan.index.bytes(segment) {
                std::fs::write(directory.file(segment.base, "index"), bytes).unwrap();
            }
        }
        directory
    }
}

impl BatchPlan {
    /// Its entries from the offset `next` on.
    pub fn entries(&self, next: i64) -> Vec<batches::Entry> {
        match self {
            Self::Marker { producer, commits } => batches::encode(&Plan::marker(next, *producer, *commits)),
            Self::Data { magic, codec, gaps: [before, lead, trail], records, append_time, producer } => {
                let base = next + before;
                let mut at = base + lead;
                let mut shown = Vec::new();
                for record in records {
                    at += record.gap;
                    shown.push(record.at(at));
                    at += 1;
                }
                let mut plan = Plan::of(shown, *codec);
                (plan.base, plan.last) = (base, (at - 1).max(base) + trail);
                plan.append_time = *append_time;
                if let (2, Some((id, is_transactional))) = (*magic, producer) {
                    (plan.producer, plan.is_transactional) = (*id, *is_transactional);
                }
                if *magic == 0 {
                    plan.append_time = None;
                }
                batches::encode(&plan.with_magic(*magic))
            }
        }
    }
}

impl RecordPlan {
    fn at(&self, offset: i64) -> ShownRecord {
        let value = match &self.value {
            Value::Null => None,
            Value::Bytes(bytes) => Some(bytes.clone()),
            Value::Large(len, seed) => Some(Numbers::new(*seed).bytes(*len)),
        };
        let RecordPlan { timestamp, key, headers, .. } = self.clone();
        ShownRecord { offset, timestamp, key, value, headers }
    }
}

impl Index {
    fn bytes(self, segment: &Segment) -> Option<Vec<u8>> {
        let mut bytes = model::offset_index(segment, 2);
        let shift = |bytes: &mut Vec<u8>, by: i32| {
            for entry in bytes.chunks_exact_mut(8) {
                let offset = i32::from_be_bytes(entry[..4].try_into().unwrap());
                entry[..4].copy_from_slice(&(offset + by).max(0).to_be_bytes());
            }
        };
        match self {
            Self::Missing => return None,
            Self::Right(every) => bytes = model::offset_index(segment, every),
            Self::Padded => bytes.resize(bytes.len() + 4096, 0),
            Self::Zeros => bytes = vec![0; 4096],
            Self::TooLow => shift(&mut bytes, -4),
            Self::TooHigh => shift(&mut bytes, 4),
            Self::Noise(seed) => bytes = Numbers::new(seed).bytes(80),
        }
        Some(bytes)
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-z]{0,12}".prop_map(String::into_bytes),
        2 => "[\\PC\\n\\t\\r\"\\\\\\x00\\x7f\\u{85}é]{0,20}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..24),
        1 => Just(Vec::new()),
    ]
}

fn value(large: u32) -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        20 => bytes().prop_map(Value::Bytes),
        3 => (100_usize..3000, any::<u64>()).prop_map(|(len, seed)| Value::Large(len, seed)),
        large => (50_000_usize..300_000, any::<u64>()).prop_map(|(len, seed)| Value::Large(len, seed)),
    ]
}

fn record(large: u32) -> impl Strategy<Value = RecordPlan> {
    let timestamp = prop_oneof![
        6 => 1_600_000_000_000_i64..1_700_000_000_000,
        1 => Just(-1),
        1 => Just(0),
        1 => Just(i64::MAX / 2),
    ];
    let header = (bytes(), prop::option::of(bytes()));
    let headers = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(header, 1..4)];
    let gap = prop_oneof![6 => Just(0_i64), 1 => 1_i64..4];
    (gap, timestamp, prop::option::of(bytes()), value(large), headers)
        .prop_map(|(gap, timestamp, key, value, headers)| RecordPlan { gap, timestamp, key, value, headers })
}

pub fn data(large: u32, records: std::ops::Range<usize>) -> impl Strategy<Value = BatchPlan> {
    let magic = prop_oneof![4 => Just(2_u8), 1 => Just(1), 1 => Just(0)];
    let codec = prop_oneof![
        3 => Just(Compression::None),
        1 => Just(Compression::Gzip),
        1 => Just(Compression::Snappy),
        1 => Just(Compression::Lz4),
        1 => Just(Compression::Zstd),
    ];
    let gap = || prop_oneof![8 => Just(0_i64), 2 => 1_i64..5];
    let gaps =
        (prop_oneof![40 => gap(), 1 => Just(12_000_i64)], gap(), gap()).prop_map(|(a, b, c)| [a, b, c]);
    let append_time = prop_oneof![4 => Just(None), 1 => (0_i64..2_000_000_000_000).prop_map(Some)];
    let producer = prop::option::of((1_i64..4, any::<bool>()));
    let records = prop::collection::vec(record(large), records);
    (magic, codec, gaps, records, append_time, producer).prop_map(
        |(magic, mut codec, gaps, records, append_time, producer)| {
            if magic < 2 && codec == Compression::Zstd {
                codec = Compression::Gzip;
            }
            BatchPlan::Data { magic, codec, gaps, records, append_time, producer }
        },
    )
}

pub fn batch(large: u32, records: std::ops::Range<usize>) -> impl Strategy<Value = BatchPlan> {
    let marker =
        (1_i64..4, any::<bool>()).prop_map(|(producer, commits)| BatchPlan::Marker { producer, commits });
    prop_oneof![5 => data(large, records), 1 => marker]
}

fn index() -> impl Strategy<Value = Index> {
    prop_oneof![
        2 => (1_usize..4).prop_map(Index::Right),
        1 => Just(Index::Missing),
        1 => Just(Index::Padded),
        1 => Just(Index::Zeros),
        1 => Just(Index::TooLow),
        1 => Just(Index::TooHigh),
        1 => any::<u64>().prop_map(Index::Noise),
    ]
}

fn segment(batches: impl Strategy<Value = Vec<BatchPlan>>) -> impl Strategy<Value = SegmentPlan> {
    let gap = prop_oneof![3 => Just(0_i64), 1 => 1_i64..9];
    (gap, batches, index()).prop_map(|(gap, batches, index)| SegmentPlan { gap, batches, index })
}

fn log(segments: impl Strategy<Value = Vec<SegmentPlan>>) -> impl Strategy<Value = LogPlan> {
    let first = prop_oneof![3 => Just(0_i64), 1 => 1_i64..100, 1 => Just(5_000_000_000)];
    let start = prop_oneof![2 => Just(None), 3 => (0_u16..=1000).prop_map(Some)];
    (first, segments, start, any::<u64>()).prop_map(|(first, segments, start, seed)| LogPlan {
        first,
        segments,
        start,
        seed,
    })
}

pub fn small_log() -> impl Strategy<Value = LogPlan> {
    let batches = prop::collection::vec(batch(0, 0..7), 0..7);
    log(prop::collection::vec(segment(batches), 1..5))
}

/// Segments of a few MiB, so that measuring takes more than is cheap, and is saved.
pub fn large_log() -> impl Strategy<Value = LogPlan> {
    let batches = prop::collection::vec(batch(30, 1..5), 10..20);
    log(prop::collection::vec(segment(batches), 1..4))
}

pub fn config(cases: u32, seed: u64) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    }
}
