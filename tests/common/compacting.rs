//! Partitions that compaction makes something of, drawn at random from a seed, and what Kafka's own cleaner makes of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use super::kafka::Kafka;
use super::keyed::{KeyedLog, Traits};
use super::model::Numbers;
use super::salvaged::scratch;

/// A partition before a round of compaction.
#[derive(Debug)]
pub struct CompactCase {
    scratch: TempDir,
    /// Its seed, the round, and what it is like.
    pub name: String,
    pub log_start: i64,
    /// The time of the round, in milliseconds.
    pub now: i64,
    /// Of the topic, as Kafka names it.
    pub config: Vec<(String, String)>,
    /// What cleaner-offset-checkpoint says, -1 for nothing.
    pub checkpoint: i64,
    /// So many keys fit into the map, at a load of 0.9.
    pub map_slots: usize,
    /// All that was ever appended.
    pub log: KeyedLog,
    seed: u64,
    round: usize,
    numbers: Numbers,
}

/// What the driver's `compact` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Cleaned {
    pub first_dirty: i64,
    pub first_uncleanable: i64,
    /// The base offset of the segment of that: whole segments are cleaned.
    pub up_to: i64,
    /// The checkpoint was of no use, and has to be written at once.
    pub is_reset: bool,
    /// Some record has waited for max.compaction.lag.ms.
    pub is_due: bool,
    pub clean_bytes: u64,
    pub cleanable_bytes: u64,
    pub cleanable_ratio: f64,
    /// Whether the cleaner would take it up now.
    pub is_cleanable: bool,
    /// The next checkpoint.
    pub end: i64,
    /// Base offsets and sizes.
    pub segments: Vec<(i64, u64)>,
    pub log_start: i64,
    pub log_end: i64,
}

impl CompactCase {
    /// The first round of the case of this number, closed by Kafka in order.
    pub fn new(kafka: &mut Kafka, seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let traits = Traits::draw(&mut numbers);
        let config = draw_config(&mut numbers);
        let map_slots = [3, 6, 12, 40, 1000, 1000, 1000, 1000][numbers.below(8)];
        let log = KeyedLog::new(traits, numbers.clone());
        let mut case = Self {
            scratch: scratch(),
            name: String::new(),
            log_start: log.end,
            now: 0,
            config,
            checkpoint: -1,
            map_slots,
            log,
            seed,
            round: 0,
            numbers,
        };
        fs::create_dir_all(case.partition()).expect("a directory");
        let segments = 2 + case.numbers.below(6);
        case.append(kafka, segments);
        if case.numbers.below(5) == 0 {
            case.log_start += (case.log.end - case.log_start) / 3;
        }
        if case.numbers.below(6) == 0 {
            // One of somebody else, or before the log was cut.
            case.checkpoint = case.log.end + 100 - i64::try_from(case.numbers.below(300)).expect("few");
            case.checkpoint = case.checkpoint.max(0);
        }
        case.describe();
        case
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// The directory of the partition.
    pub fn partition(&self) -> PathBuf {
        self.data().join("t-0")
    }

    /// A value of its configuration, as a number.
    pub fn number(&self, key: &str) -> Option<i64> {
        let (_, value) = self.config.iter().find(|(name, _)| name == key)?;
        value.parse().ok()
    }

    /// Has Kafka clean a directory, which is this case's or a copy; or what it threw.
    pub fn clean(&self, kafka: &mut Kafka, partition: &Path) -> Result<Cleaned, String> {
        let slots = i64::try_from(self.map_slots).expect("few");
        let numbers = [self.log_start, self.now, self.checkpoint, slots];
        let answer = ask(kafka, "compact", partition, &numbers, &self.config);
        match answer.get("thrown") {
            Some(thrown) => Err(thrown.as_str().unwrap_or_default().to_owned()),
            None => Ok(Cleaned::of(&answer)),
        }
    }

    /// The next round on the directory as it is now: cleaned up to `end`, time has gone by, and there is more to clean.
    pub fn next_round(&mut self, kafka: &mut Kafka, end: i64) {
        self.checkpoint = end;
        self.round += 1;
        self.log.time = self.now + 1000;
        let segments = self.numbers.below(4);
        self.append(kafka, segments);
        self.describe();
    }

    fn append(&mut self, kafka: &mut Kafka, segments: usize) {
        let partition = self.partition();
        let first = self.log.append(&partition, segments);
        let end = rebuild(kafka, &partition, [self.log_start, self.log.time, first], &self.config);
        assert_eq!(end, self.log.end.max(last_base(&partition)), "{}", self.seed);
        self.log.set_times(&partition, first);
        let later = [0, 1000, 30_000, 200_000, 90_000_000][self.numbers.below(5)];
        self.now = self.log.time + later + i64::try_from(self.numbers.below(1000)).expect("few");
    }

    fn describe(&mut self) {
        let Self { seed, round, now, config, log_start, checkpoint, map_slots, .. } = self;
        let config: Vec<String> = config.iter().map(|(key, value)| format!("{key}={value}")).collect();
        self.name = format!(
            "{seed}, round {round}: log start {log_start}, checkpoint {checkpoint}, now {now}, {map_slots} slots, {}, {:?}",
            config.join(" "),
            self.log.traits
        );
    }
}

impl Cleaned {
    fn of(answer: &Value) -> Self {
        let number = |name: &str| answer[name].as_i64().expect("a number");
        let is = |name: &str| answer[name].as_bool().expect("true or false");
        let bytes = |value: &Value| value.as_u64().expect("a size");
        Self {
            first_dirty: number("firstDirty"),
            first_uncleanable: number("firstUncleanable"),
            up_to: number("upTo"),
            is_reset: is("isReset"),
            is_due: is("isDue"),
            clean_bytes: bytes(&answer["cleanBytes"]),
            cleanable_bytes: bytes(&answer["cleanableBytes"]),
            cleanable_ratio: answer["cleanableRatio"].as_f64().expect("a ratio"),
            is_cleanable: is("isCleanable"),
            end: number("end"),
            segments: segments(&answer["segments"]),
            log_start: number("logStart"),
            log_end: number("logEnd"),
        }
    }
}

/// Runs one of the driver's commands on a partition with the configuration of its topic.
pub fn ask(
    kafka: &mut Kafka,
    command: &str,
    partition: &Path,
    numbers: &[i64],
    config: &[(String, String)],
) -> Value {
    let mut words = vec![command.to_owned(), partition.to_str().expect("UTF-8").to_owned()];
    words.extend(numbers.iter().map(ToString::to_string));
    words.extend(config.iter().map(|(key, value)| format!("{key}={value}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    kafka.try_run(&words)
}

/// Has recovery make what logs lack, of a log start, at a time, behind a recovery point; the log end.
pub fn rebuild(kafka: &mut Kafka, partition: &Path, numbers: [i64; 3], config: &[(String, String)]) -> i64 {
    let answer = ask(kafka, "rebuild", partition, &numbers, config);
    answer["logEnd"].as_i64().unwrap_or_else(|| panic!("{numbers:?}, {config:?}: {answer}"))
}

/// Base offsets and sizes as the driver says them.
pub fn segments(list: &Value) -> Vec<(i64, u64)> {
    let list = list.as_array().expect("a list").iter();
    list.map(|pair| (pair[0].as_i64().expect("an offset"), pair[1].as_u64().expect("a size"))).collect()
}

fn last_base(partition: &Path) -> i64 {
    super::keyed::logs(partition).last().map_or(0, |(_, base)| *base)
}

fn draw_config(numbers: &mut Numbers) -> Vec<(String, String)> {
    let mut config = Vec::new();
    let mut set = |key: &str, values: &[&str]| {
        let value = values[numbers.below(values.len())];
        if !value.is_empty() {
            config.push((key.to_owned(), value.to_owned()));
        }
    };
    set("cleanup.policy", &["compact", "compact", "compact,delete"]);
    set("internal.segment.bytes", &["500", "4000", "10000", "1000000"]);
    set("segment.index.bytes", &["2400", "10000", "10485760"]);
    set("index.interval.bytes", &["1", "100", "256", "4096"]);
    set("delete.retention.ms", &["0", "1000", "60000", "60000", "86400000"]);
    set("min.compaction.lag.ms", &["", "", "", "5000", "60000"]);
    set("max.compaction.lag.ms", &["", "", "60000", "1000000"]);
    set("min.cleanable.dirty.ratio", &["", "0", "0.1", "0.9"]);
    set("max.message.bytes", &["", "", "200"]);
    set("producer.id.expiration.ms", &["", "", "", "86400000"]);
    // A directory without it would be emptied by time.
    config.push(("retention.ms".to_owned(), "-1".to_owned()));
    config
}
