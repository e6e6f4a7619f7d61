//! The names that brokers have for their defaults of topics' configs: Kafka's `ServerTopicConfigSynonyms`.
//!
//! Where there are several, those that come first count more.

use crate::log::cluster::metadata::Configs;

/// Configs of topics, and what a broker calls them.
const SYNONYMS: &[(&str, &[&str])] = &[
    ("cleanup.policy", &["log.cleanup.policy"]),
    ("compression.gzip.level", &["compression.gzip.level"]),
    ("compression.lz4.level", &["compression.lz4.level"]),
    ("compression.type", &["compression.type"]),
    ("compression.zstd.level", &["compression.zstd.level"]),
    ("delete.retention.ms", &["log.cleaner.delete.retention.ms"]),
    ("file.delete.delay.ms", &["log.segment.delete.delay.ms"]),
    ("flush.messages", &["log.flush.interval.messages"]),
    ("flush.ms", &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"]),
    ("index.interval.bytes", &["log.index.interval.bytes"]),
    ("local.retention.bytes", &["log.local.retention.bytes"]),
    ("local.retention.ms", &["log.local.retention.ms"]),
    ("max.compaction.lag.ms", &["log.cleaner.max.compaction.lag.ms"]),
    ("max.message.bytes", &["message.max.bytes"]),
    ("message.timestamp.after.max.ms", &["log.message.timestamp.after.max.ms"]),
    ("message.timestamp.before.max.ms", &["log.message.timestamp.before.max.ms"]),
    ("message.timestamp.type", &["log.message.timestamp.type"]),
    ("min.cleanable.dirty.ratio", &["log.cleaner.min.cleanable.ratio"]),
    ("min.compaction.lag.ms", &["log.cleaner.min.compaction.lag.ms"]),
    ("min.insync.replicas", &["min.insync.replicas"]),
    ("preallocate", &["log.preallocate"]),
    ("retention.bytes", &["log.retention.bytes"]),
    ("retention.ms", &["log.retention.ms", "log.retention.minutes", "log.retention.hours"]),
    ("segment.bytes", &["log.segment.bytes"]),
    ("segment.index.bytes", &["log.index.size.max.bytes"]),
    ("segment.jitter.ms", &["log.roll.jitter.ms", "log.roll.jitter.hours"]),
    ("segment.ms", &["log.roll.ms", "log.roll.hours"]),
    ("unclean.leader.election.enable", &["unclean.leader.election.enable"]),
];

/// Whether a broker's config is a default for topics.
pub fn is_default_of_topics(name: &str) -> bool {
    SYNONYMS.iter().any(|(_, synonyms)| synonyms.contains(&name))
}

/// The configs of topics that a broker's configs are the defaults of.
pub fn topic_configs(broker: &Configs) -> impl Iterator<Item = (&'static str, String)> {
    SYNONYMS.iter().filter_map(|(name, synonyms)| {
        let set = |synonym: &&str| Some(in_milliseconds(synonym, broker.get(*synonym)?.trim()));
        synonyms.iter().find_map(set).map(|value| (*name, value))
    })
}

/// A value in Kafka's unit for topics; below 0 is -1. What is no number stays, for who reads it to tell.
fn in_milliseconds(name: &str, value: &str) -> String {
    let unit = match name.rsplit('.').next() {
        Some("minutes") => 60_000,
        Some("hours") => 3_600_000,
        _ => return value.to_owned(),
    };
    let number = value.parse::<i64>();
    number.map_or_else(|_| value.to_owned(), |number| number.saturating_mul(unit).max(-1).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(lines: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let configs = lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        topic_configs(&configs.collect()).collect()
    }

    #[test]
    fn milliseconds_beat_minutes_and_minutes_hours() {
        let hours = ("log.retention.hours", "168");
        let minutes = ("log.retention.minutes", "10");
        let ms = ("log.retention.ms", "5");
        let retention = |value: &str| vec![("retention.ms", value.to_owned())];
        assert_eq!(defaults(&[hours]), retention("604800000"));
        assert_eq!(defaults(&[hours, minutes]), retention("600000"));
        assert_eq!(defaults(&[hours, minutes, ms]), retention("5"));
        assert_eq!(defaults(&[("log.retention.hours", " -1")]), retention("-1"));
        assert_eq!(defaults(&[("log.retention.hours", "a week")]), retention("a week"));
        assert_eq!(defaults(&[("log.roll.hours", "1")]), [("segment.ms", "3600000".to_owned())]);
    }

    #[test]
    fn other_configs_of_brokers_are_none_of_topics() {
        assert_eq!(defaults(&[("log.dirs", "/a"), ("num.io.threads", "8")]), []);
        assert!(is_default_of_topics("message.max.bytes"));
        assert!(!is_default_of_topics("ssl.key.password"));
    }
}
