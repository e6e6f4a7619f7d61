//! Compaction beside a plain map of keys, over many rounds of appending, tombstones and time that goes by, with little room for keys.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use common::model::Numbers;
use common::salvaged::scratch;
use common::shown::{self, ShownRecord};
use topicfs::format::batch::{Codec, Limits};
use topicfs::format::batch_builder::NewRecord;
use topicfs::format::compression::encoder::Compression;
use topicfs::fs::options::Options;
use topicfs::log::append::config::LogConfig;
use topicfs::log::append::owned::OwnedDirectory;
use topicfs::log::append::topics;
use topicfs::log::files::disk::SystemDisk;
use topicfs::log::upkeep::compaction::{Compacted, CompactionError};
use topicfs::log::upkeep::policy::{Policy, Ratio};
use topicfs::log::upkeep::removal::Due;
use topicfs::log::upkeep::work::{Job, UpkeepError};
use topicfs::units::{Timestamp, TopicPartition};

const CASES: u64 = 60;
const ROUNDS: usize = 5;
const NOW: i64 = 1_700_000_000_000;
/// Of tombstones.
const RETENTION_MS: i64 = 10_000;

const POLICY: Policy = Policy {
    compact: true,
    delete_retention_ms: RETENTION_MS as u64,
    min_cleanable_dirty_ratio: Ratio::from_millionths(0),
    ..Policy::NONE
};

fn name() -> TopicPartition {
    TopicPartition { topic: "t".to_owned(), partition: 0 }
}

fn open(data: &Path) -> OwnedDirectory {
    OwnedDirectory::open(data, Arc::new(SystemDisk), Limits::default()).unwrap()
}

fn compact(
    (owned, directory, config): (&OwnedDirectory, &Path, &LogConfig),
    now: i64,
    map_bytes: usize,
) -> Result<Option<Compacted>, UpkeepError> {
    let now = Timestamp(now);
    Job { owned, name: &name(), directory, config, policy: &POLICY, now }.compact(map_bytes, &|_| {})
}

fn records(data: &Path) -> Vec<ShownRecord> {
    let fs = shown::open(data.to_str().unwrap(), Options::default());
    shown::records(&shown::read(&fs, "t/0/log.jsonl"))
}

/// All records that were appended, and when a compaction has met each tombstone first.
#[derive(Default)]
struct Model {
    all: BTreeMap<i64, (Vec<u8>, Option<Vec<u8>>)>,
    met: HashMap<i64, i64>,
}

impl Model {
    /// What has to be left after a compaction of all below `below` at a time.
    fn compact(&mut self, below: i64, now: i64) -> Vec<i64> {
        let mut last: HashMap<&Vec<u8>, i64> = HashMap::new();
        for (offset, (key, _)) in self.all.range(..below) {
            last.insert(key, *offset);
        }
        let mut left = Vec::new();
        for (offset, (key, value)) in &self.all {
            let is_last = *offset >= below || last[key] == *offset;
            let is_over =
                value.is_none() && self.met.get(offset).is_some_and(|met| met + RETENTION_MS <= now);
            if is_last && !(is_over && *offset < below) {
                left.push(*offset);
                if value.is_none() && *offset < below {
                    self.met.entry(*offset).or_insert(now);
                }
            }
        }
        self.all.retain(|offset, _| left.contains(offset));
        left
    }
}

#[test]
fn of_each_key_the_last_record_stays() {
    let (mut rounds, mut gone) = (0, 0);
    for seed in 1..=CASES {
        let mut numbers = Numbers::new(seed);
        let root = scratch();
        let owned = open(root.path());
        owned.recovered().unwrap();
        let directory = owned.create_partition(&name(), topics::new_topic_id()).unwrap();
        let codec = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd][numbers.below(5)];
        let config = LogConfig {
            compression: Compression { codec, level: None },
            segment_bytes: [300, 1000, 5000][numbers.below(3)],
            index_interval_bytes: 200,
            ..LogConfig::default()
        };
        // Room for a few keys, or for all.
        let map_bytes = 24 * [4, 10, 1000][numbers.below(3)];
        let keys = 3 + numbers.below(20);
        let (mut model, mut now) = (Model::default(), NOW);
        for _ in 0..ROUNDS {
            let appender = owned.appender(&name(), &directory, &config).unwrap();
            for _ in 0..numbers.below(20) {
                let mut appending = appender.begin(Timestamp(now));
                let first = appending.next_offset().0;
                for number in 0..=numbers.below(5) {
                    let key = format!("key {}", numbers.below(keys)).into_bytes();
                    let value = (numbers.below(5) > 0).then(|| numbers.bytes(30));
                    let record = NewRecord {
                        timestamp: Timestamp(now),
                        key: Some(&key),
                        value: value.as_deref(),
                        headers: &[],
                    };
                    appending.push(&record).unwrap();
                    model.all.insert(first + i64::try_from(number).unwrap(), (key, value));
                }
                appending.finish().1.unwrap();
            }
            now += [0, 1000, RETENTION_MS][numbers.below(3)];
            let before = model.all.len();
            let compacted = compact((&owned, &directory, &config), now, map_bytes);
            if let Some(compacted) = compacted.unwrap() {
                owned.remove_set_aside(Due::All).unwrap();
                let left = model.compact(compacted.end.0, now);
                let found: Vec<i64> = records(root.path()).iter().map(|record| record.offset).collect();
                assert_eq!(found, left, "{seed}: {codec}, {config:?}, {map_bytes} bytes, {compacted:?}");
                rounds += 1;
                gone += before - left.len();
            }
        }
        for record in records(root.path()) {
            let (key, value) = &model.all[&record.offset];
            assert_eq!((record.key.as_ref(), &record.value), (Some(key), value), "{seed}");
        }
        owned.close().unwrap();
    }
    assert!(rounds > 100 && gone > 1000, "{rounds} rounds, {gone} records are gone");
}

/// Threads share a segment, each takes some of its batches: also where one batch is larger than what a thread takes at once.
#[test]
fn of_segments_that_threads_share_the_last_record_of_each_key_stays() {
    for codec in [Codec::None, Codec::Lz4] {
        let mut numbers = Numbers::new(7);
        let root = scratch();
        let owned = open(root.path());
        owned.recovered().unwrap();
        let directory = owned.create_partition(&name(), topics::new_topic_id()).unwrap();
        let config = LogConfig {
            compression: Compression { codec, level: None },
            segment_bytes: 4 << 20,
            max_message_bytes: 2 << 20,
            ..LogConfig::default()
        };
        let mut model = Model::default();
        // The keys of a part of the log fit, or all.
        for map_bytes in [24 * 300, 1 << 20] {
            let appender = owned.appender(&name(), &directory, &config).unwrap();
            for batch in 0..160 {
                let mut appending = appender.begin(Timestamp(NOW));
                let first = appending.next_offset().0;
                for number in 0..=numbers.below(20) {
                    let key = format!("key {}", numbers.below(500)).into_bytes();
                    // Bytes that no codec makes shorter.
                    let value = numbers.bytes(if batch % 40 == 39 && number == 0 { 700_000 } else { 5000 });
                    let record = NewRecord {
                        timestamp: Timestamp(NOW),
                        key: Some(&key),
                        value: Some(&value),
                        headers: &[],
                    };
                    appending.push(&record).unwrap();
                    model.all.insert(first + i64::try_from(number).unwrap(), (key, Some(value)));
                }
                appending.finish().1.unwrap();
            }
            drop(appender);
            let compacted = compact((&owned, &directory, &config), NOW, map_bytes).unwrap().unwrap();
            owned.remove_set_aside(Due::All).unwrap();
            let before = model.all.len();
            let left = model.compact(compacted.end.0, NOW);
            assert!(left.len() < before * 2 / 3, "{left:?} of {before}");
            let found = records(root.path());
            assert_eq!(found.iter().map(|record| record.offset).collect::<Vec<_>>(), left, "{codec}");
            for record in &found {
                let (key, value) = &model.all[&record.offset];
                assert_eq!((record.key.as_ref(), &record.value), (Some(key), value), "{codec}");
            }
        }
        owned.close().unwrap();
    }
}

#[test]
fn a_log_with_damage_is_left_as_it_is() {
    let root = scratch();
    let owned = open(root.path());
    owned.recovered().unwrap();
    let directory = owned.create_partition(&name(), topics::new_topic_id()).unwrap();
    let config = LogConfig { segment_bytes: 300, ..LogConfig::default() };
    let appender = owned.appender(&name(), &directory, &config).unwrap();
    for number in 0..50_i64 {
        let mut appending = appender.begin(Timestamp(NOW));
        let (key, value) = ((number % 3).to_be_bytes(), [7; 50]);
        let record =
            NewRecord { timestamp: Timestamp(NOW), key: Some(&key), value: Some(&value), headers: &[] };
        appending.push(&record).unwrap();
        appending.finish().1.unwrap();
    }
    let logs = common::salvaged::files(&directory);
    let (second, path) = logs.iter().filter(|(name, _)| name.ends_with(".log")).nth(1).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    bytes[70] ^= 1;
    std::fs::write(path, bytes).unwrap();
    let before: BTreeMap<_, _> =
        logs.iter().map(|(name, path)| (name, std::fs::read(path).unwrap())).collect();
    let error = compact((&owned, &directory, &config), NOW, 1 << 20).unwrap_err();
    assert!(matches!(error, UpkeepError::Compaction(CompactionError::Damaged { .. })), "{error}");
    assert!(error.to_string().contains(&**second) && error.to_string().contains("checksum"), "{error}");
    for (name, path) in common::salvaged::files(&directory) {
        assert_eq!(Some(&std::fs::read(path).unwrap()), before.get(&name), "{name}");
    }
}
