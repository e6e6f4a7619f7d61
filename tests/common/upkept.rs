//! What our own compaction and retention make of the cases that Kafka's are asked about.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use topicfs::format::batch::Limits;
use topicfs::format::{checkpoint, snapshot};
use topicfs::log::derived::epochs::Epochs;
use topicfs::log::files::disk::SystemDisk;
use topicfs::log::upkeep::compaction::range::{Cleanable, Verdict};
use topicfs::log::upkeep::compaction::{Compacted, Compaction, CompactionError, Settings, Watcher};
use topicfs::log::upkeep::policy::Policy;
use topicfs::log::upkeep::retention::Decision;
use topicfs::log::upkeep::survey::{Bounds, Survey};
use topicfs::units::{Offset, Timestamp, TopicPartition};

use super::salvaged::files;

/// Bytes that our map takes for a key.
const SLOT_BYTES: usize = 24;

/// The configuration of a topic, as Kafka names it.
pub type Config = [(String, String)];

fn number<T: std::str::FromStr>(config: &Config, key: &str) -> Option<T> {
    let (_, value) = config.iter().find(|(name, _)| name == key)?;
    value.parse().ok()
}

/// The policy in a configuration.
pub fn policy(config: &Config) -> Policy {
    let cleanup = config.iter().find(|(name, _)| name == "cleanup.policy");
    let has = |word| cleanup.is_some_and(|(_, value)| value.contains(word));
    let none = Policy::NONE;
    let limit = |key, default: Option<u64>| match number::<i64>(config, key) {
        Some(number) => u64::try_from(number).ok(),
        None => default,
    };
    Policy {
        delete: has("delete"),
        compact: has("compact"),
        retention_ms: limit("retention.ms", none.retention_ms),
        retention_bytes: limit("retention.bytes", none.retention_bytes),
        delete_retention_ms: number(config, "delete.retention.ms").unwrap_or(none.delete_retention_ms),
        min_compaction_lag_ms: number(config, "min.compaction.lag.ms").unwrap_or(none.min_compaction_lag_ms),
        max_compaction_lag_ms: number(config, "max.compaction.lag.ms").unwrap_or(none.max_compaction_lag_ms),
        min_cleanable_dirty_ratio: number(config, "min.cleanable.dirty.ratio")
            .unwrap_or(none.min_cleanable_dirty_ratio),
        ..none
    }
}

/// How a log of this configuration is compacted.
pub fn settings(config: &Config, now: i64, map_slots: usize) -> Settings {
    Settings {
        now: Timestamp(now),
        delete_retention_ms: policy(config).delete_retention_ms,
        segment_bytes: number(config, "internal.segment.bytes").unwrap_or(1 << 30),
        segment_index_bytes: number(config, "segment.index.bytes").unwrap_or(10 << 20),
        index_interval_bytes: number(config, "index.interval.bytes").unwrap_or(4096),
        map_bytes: map_slots * SLOT_BYTES,
        producer_expiration_ms: number(config, "producer.id.expiration.ms").unwrap_or(i64::from(i32::MAX)),
        limits: Limits::default(),
    }
}

/// A partition, looked at.
pub fn survey(partition: &Path, log_start: i64, checkpoint: Option<i64>) -> Survey {
    let bounds = Bounds {
        log_start: Some(Offset(log_start)),
        high_watermark: None,
        cleaned: checkpoint.map(Offset),
        open: None,
    };
    Survey::new(partition, &name(), &bounds, Limits::default()).unwrap()
}

fn name() -> TopicPartition {
    TopicPartition { topic: "t".to_owned(), partition: 0 }
}

/// What Kafka's loader does before anything is compacted: snapshots and epochs from below the log start go.
pub fn load(partition: &Path, log_start: i64) {
    for name in files(partition).into_keys() {
        let at = name.strip_suffix(".snapshot").and_then(|at| at.parse::<i64>().ok());
        if at.is_some_and(|at| at <= log_start) {
            fs::remove_file(partition.join(name)).unwrap();
        }
    }
    let path = partition.join("leader-epoch-checkpoint");
    let entries = checkpoint::parse_epochs(&fs::read(&path).unwrap()).unwrap();
    let mut epochs = Epochs::from_entries(&entries);
    epochs.truncate_from_start(Offset(log_start));
    if epochs.entries() != entries {
        fs::write(&path, checkpoint::format_epochs(epochs.entries())).unwrap();
    }
}

/// What may be compacted, and whether it would be.
pub fn cleanable(survey: &Survey, config: &Config, now: i64) -> (Cleanable, Verdict) {
    let policy = policy(config);
    let cleanable = survey.cleanable(&policy, Timestamp(now)).unwrap();
    (cleanable, cleanable.verdict(&policy))
}

/// Compacts a partition in one round; files that are set aside go at once.
pub fn compact(
    partition: &Path,
    survey: &Survey,
    cleanable: Cleanable,
    settings: Settings,
) -> Result<Compacted, CompactionError> {
    let snapshot = partition.join(format!("{:020}.snapshot", survey.end.0));
    let producers = fs::read(snapshot).map(|bytes| snapshot::parse(&bytes).unwrap()).unwrap_or_default();
    let compaction = Compaction {
        disk: &SystemDisk,
        directory: partition,
        name: &name(),
        cleanable,
        segments: &survey.segments,
        producers: &producers,
        high_watermark: survey.high_watermark,
        settings,
    };
    let set_aside = |path| fs::remove_file(path).unwrap();
    compaction.run(&Watcher { stop: &AtomicBool::new(false), read: &|_| {}, set_aside: &set_aside })
}

/// What retention decides.
pub fn retention(survey: &Survey, config: &Config, now: i64) -> Decision {
    survey.retention(&policy(config), Timestamp(now)).unwrap()
}
