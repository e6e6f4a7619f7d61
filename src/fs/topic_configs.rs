//! The configs of a topic, by Kafka's names: what the mount's configuration sets, over what the topic's cluster says, over the defaults.
//!
//! | what counts more stands above |
//! |---|
//! | rules of the mount's configuration, the last one that matches first |
//! | what the mount's configuration or `-o` sets for all topics |
//! | the topic's own config in `__cluster_metadata` |
//! | the broker's there, then that of all brokers |
//! | `server.properties` |
//! | Kafka's default |
//!
//! What is done to old records is special: nobody's default deletes anything, but in a cluster that knows the topic, or where `retention.ms` or
//! `retention.bytes` is set.

use std::collections::BTreeMap;

use crate::format::batch::Codec;
use crate::format::compression::encoder::Compression;
use crate::format::uuid::Uuid;
use crate::fs::config_value::NoValue;
use crate::fs::mounted::Fs;
use crate::fs::options::{CleanupPolicy, CompressionType, Options, TimestampType};
use crate::fs::topic_options::{CONFIGS, TopicChoices, TopicOptions};
use crate::log::append::config::LogConfig;
use crate::log::cluster::{Cluster, TopicInCluster};
use crate::log::upkeep::policy::Policy;
use crate::view::configs::{ConfigRow, ConfigSource, TopicDetails};

/// The name of the config that says what is done to old records.
pub const CLEANUP_POLICY: &str = "cleanup.policy";

/// The configs of one topic.
#[derive(Debug)]
pub struct TopicConfigs {
    options: TopicOptions,
    /// The topic's id in its cluster, if that knows it.
    pub id: Option<Uuid>,
    /// By name.
    rows: BTreeMap<String, ConfigRow>,
    /// Values that the cluster says and that can't be: each with its name, in words.
    pub refused: Vec<String>,
}

impl TopicConfigs {
    /// What `options` and the cluster say of `topic`.
    pub fn new(options: &Options, cluster: &Cluster, topic: &str) -> Self {
        Self::of(&options.chosen_for(topic), cluster.now().of_topic(topic))
    }

    fn of(chosen: &TopicChoices, cluster: TopicInCluster) -> Self {
        let TopicInCluster { id, configs } = cluster;
        let (mut said, mut rows, mut refused) = (TopicChoices::default(), BTreeMap::new(), Vec::new());
        // Who says how long records stay wants the others to go, as Kafka's default has it.
        if id.is_some() || chosen.names_policy() {
            said.cleanup_policy = Some(CleanupPolicy::Delete);
        }
        for (name, (value, layer)) in configs {
            // Of a topic that the cluster doesn't know, its own policy is unknown: a broker's default is none.
            if name == CLEANUP_POLICY && id.is_none() {
                continue;
            }
            match said.set_config(&name, &value) {
                Ok(()) => {
                    rows.insert(name, ConfigRow { value, source: ConfigSource::Cluster(layer) });
                }
                Err(NoValue) => {
                    let source = ConfigSource::Cluster(layer).name();
                    refused.push(format!("{name} can't be {value:?} ({source}): ignored"));
                }
            }
        }
        let mut options = TopicOptions::default();
        options.set(&said);
        options.set(chosen);
        let all = options.choices();
        for name in CONFIGS {
            let Some(value) = all.config(name) else { continue };
            if chosen.config(name).is_some() {
                rows.insert((*name).to_owned(), ConfigRow { value, source: ConfigSource::Mount });
            } else {
                let row = ConfigRow { value, source: ConfigSource::Default };
                rows.entry((*name).to_owned()).or_insert(row);
            }
        }
        Self { options, id, rows, refused }
    }

    /// All of them by name, each with its value as Kafka writes it and who has set it; those that mean nothing here, too.
    pub const fn rows(&self) -> &BTreeMap<String, ConfigRow> {
        &self.rows
    }

    /// What `info` shows of them.
    pub const fn details(&self) -> TopicDetails<'_> {
        TopicDetails { id: self.id, configs: &self.rows }
    }

    /// Who has set a config.
    pub fn source(&self, name: &str) -> ConfigSource {
        self.rows.get(name).map_or(ConfigSource::Default, |row| row.source)
    }

    /// Whether the mount's configuration says what is done to old records.
    pub fn names_policy(&self) -> bool {
        let names = [CLEANUP_POLICY, "retention.ms", "retention.bytes"];
        names.into_iter().any(|name| self.source(name) == ConfigSource::Mount)
    }

    /// What a mount does to old records: nothing, unless its own configuration names a policy.
    pub fn policy(&self) -> Policy {
        let policy = self.brokers_policy();
        if self.names_policy() { policy } else { Policy { delete: false, compact: false, ..policy } }
    }

    /// What a broker would do to them. It is nothing where neither the mount's configuration names a policy nor a cluster knows the topic.
    pub fn brokers_policy(&self) -> Policy {
        let options = &self.options;
        Policy {
            delete: options.cleanup_policy.has_delete(),
            compact: options.cleanup_policy.has_compact(),
            // Below 0 is without a limit.
            retention_ms: u64::try_from(options.retention_ms).ok(),
            retention_bytes: u64::try_from(options.retention_bytes).ok(),
            file_delete_delay_ms: options.file_delete_delay_ms,
            delete_retention_ms: options.delete_retention_ms,
            min_compaction_lag_ms: options.min_compaction_lag_ms,
            max_compaction_lag_ms: options.max_compaction_lag_ms,
            min_cleanable_dirty_ratio: options.min_cleanable_dirty_ratio,
        }
    }

    /// How records are appended.
    pub fn log_config(&self) -> LogConfig {
        let options = &self.options;
        LogConfig {
            compression: compression(options),
            max_message_bytes: usize::try_from(options.max_message_bytes).unwrap_or(usize::MAX),
            segment_bytes: options.segment_bytes,
            // A segment can't be compacted before it is rolled.
            segment_ms: match options.cleanup_policy.has_compact() {
                true => options.segment_ms.min(options.max_compaction_lag_ms),
                false => options.segment_ms,
            },
            segment_jitter_ms: options.segment_jitter_ms,
            segment_index_bytes: options.segment_index_bytes,
            index_interval_bytes: options.index_interval_bytes,
            flush_messages: options.flush_messages,
            flush_ms: options.flush_ms,
            append_time: options.timestamp_type == TimestampType::LogAppendTime,
            needs_keys: options.cleanup_policy.has_compact(),
            into_open_transactions: options.append_to_open_transactions,
        }
    }
}

impl Fs {
    /// The configs of a topic as they are now.
    pub fn configs_of(&self, topic: &str) -> TopicConfigs {
        TopicConfigs::new(self.options(), self.cluster(), topic)
    }
}

/// The codec, and its level.
fn compression(options: &TopicOptions) -> Compression {
    let level = |level: i64| i32::try_from(level).ok();
    let (codec, level) = match options.compression_type {
        CompressionType::Producer | CompressionType::Uncompressed => (Codec::None, None),
        CompressionType::Gzip => (Codec::Gzip, level(options.gzip_level).filter(|level| *level >= 0)),
        CompressionType::Snappy => (Codec::Snappy, None),
        CompressionType::Lz4 => (Codec::Lz4, None),
        CompressionType::Zstd => (Codec::Zstd, level(options.zstd_level)),
    };
    Compression { codec, level }
}
