//! Partitions of which retention removes the oldest segments, drawn at random from a seed, and what Kafka's own removes.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::compacting::{ask, rebuild, segments};
use super::kafka::Kafka;
use super::keyed::{KeyedLog, Traits, logs};
use super::model::Numbers;
use super::salvaged::scratch;

/// Of indexes; small, so that small segments have entries.
const INTERVAL: &str = "256";

/// A partition before what is too old or too much is removed.
#[derive(Debug)]
pub struct RetainCase {
    scratch: TempDir,
    /// Its seed, and what it is like.
    pub name: String,
    pub log_start: i64,
    pub log_end: i64,
    /// The time, in milliseconds.
    pub now: i64,
    /// Of the topic, as Kafka names it.
    pub config: Vec<(String, String)>,
}

/// What the driver's `retain` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retained {
    /// So many segments were removed.
    pub deleted: u64,
    /// Base offsets and sizes of those that are left.
    pub segments: Vec<(i64, u64)>,
    pub log_start: i64,
    pub log_end: i64,
}

impl RetainCase {
    /// The case of this number, closed by Kafka in order.
    pub fn new(kafka: &mut Kafka, seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let mut traits = Traits::draw(&mut numbers);
        traits.has_odd_times = numbers.below(2) == 0;
        let mut log = KeyedLog::new(traits, numbers.clone());
        let scratch = scratch();
        let partition = scratch.path().join("data/t-0");
        fs::create_dir_all(&partition).expect("a directory");
        let begin = log.end;
        let first = log.append(&partition, 1 + numbers.below(8));
        let interval = [("index.interval.bytes".to_owned(), INTERVAL.to_owned())];
        let log_end = rebuild(kafka, &partition, [begin, log.time, first], &interval);
        log.set_times(&partition, first);
        let bytes: u64 =
            logs(&partition).iter().map(|(path, _)| fs::metadata(path).expect("a log").len()).sum();
        let span = usize::try_from(log.time - super::keyed::FIRST_TIME).expect("time goes on");
        let log_start = match numbers.below(3) {
            0 => {
                begin
                    + i64::try_from(numbers.below(usize::try_from(log.end - begin).expect("few")))
                        .expect("few")
            }
            _ => begin,
        };
        let now = log.time + [0, 1000, 300_000, 2_000_000_000][numbers.below(4)];
        let policy = ["delete", "delete", "compact,delete", "compact"][numbers.below(4)];
        let mut config = vec![("cleanup.policy".to_owned(), policy.to_owned())];
        let times = ["-1".to_owned(), "0".to_owned(), numbers.below(span + 1).to_string()];
        config.push(("retention.ms".to_owned(), times[numbers.below(3)].clone()));
        let sizes = [
            "-1".to_owned(),
            "0".to_owned(),
            numbers.below(usize::try_from(bytes).expect("few")).to_string(),
        ];
        config.push(("retention.bytes".to_owned(), sizes[numbers.below(3)].clone()));
        config.push(("index.interval.bytes".to_owned(), INTERVAL.to_owned()));
        let name = format!("{seed}: log start {log_start}, now {now}, {config:?}, {:?}", log.traits);
        Self { scratch, name, log_start, log_end, now, config }
    }

    /// The directory of the partition.
    pub fn partition(&self) -> PathBuf {
        self.scratch.path().join("data/t-0")
    }

    /// Has Kafka remove the oldest segments of a directory, which is this case's or a copy; or what it threw.
    pub fn retain(&self, kafka: &mut Kafka, partition: &Path) -> Result<Retained, String> {
        let answer = ask(kafka, "retain", partition, &[self.log_start, self.now], &self.config);
        if let Some(thrown) = answer.get("thrown") {
            return Err(thrown.as_str().unwrap_or_default().to_owned());
        }
        Ok(Retained {
            deleted: answer["deleted"].as_u64().expect("a count"),
            segments: segments(&answer["segments"]),
            log_start: answer["logStart"].as_i64().expect("an offset"),
            log_end: answer["logEnd"].as_i64().expect("an offset"),
        })
    }
}
