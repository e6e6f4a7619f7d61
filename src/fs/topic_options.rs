//! What a user may choose for each topic: for all of them, and by rules for those whose names match a pattern.
//!
//! Rules are in order, and each sets some options: the last one that matches a topic and sets an option wins, and all of them win
//! over what is chosen for every topic.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use jiff::tz::TimeZone;

use crate::fs::config_value::{ConfigValue, NoValue};
use crate::fs::options::{
    CleanupPolicy, CompressionType, From, Isolation, Listing, OnDamage, Options, TimestampType, UpTo,
};
use crate::log::append::config::LogConfig;
use crate::log::upkeep::policy::{Policy, Ratio};
use crate::view::encoding::{Encoding, Encodings};
use crate::view::format::{Format, Formats, Rendering};
use crate::view::partition_view::Scope;

/// Kafka's defaults.
const LOG: LogConfig = LogConfig::KAFKAS;
const POLICY: Policy = Policy::NONE;

/// Declares the options of a topic twice: all of them with their defaults, and those that somebody set. Those that Kafka has too
/// have its name behind `as`.
macro_rules! topic_options {
    ($($(#[$doc:meta])* $name:ident $(as $kafkas:literal)?: $type:ty = $default:expr,)+) => {
        /// What is chosen for a topic.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct TopicOptions {
            $($(#[$doc])* pub $name: $type,)+
        }

        impl Default for TopicOptions {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        /// The same, as far as somebody set it.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct TopicChoices {
            $($(#[$doc])* pub $name: Option<$type>,)+
        }

        impl TopicOptions {
            /// Takes over what is set in `choices`.
            pub fn set(&mut self, choices: &TopicChoices) {
                $(if let Some(choice) = &choices.$name {
                    self.$name = choice.clone();
                })+
            }

            /// All of them as choices.
            pub fn choices(&self) -> TopicChoices {
                TopicChoices { $($name: Some(self.$name.clone()),)+ }
            }
        }

        /// The options that are Kafka's configs of topics, by its names.
        pub const CONFIGS: &[&str] = &[$($($kafkas,)?)+];

        impl TopicChoices {
            /// Takes over what is set in `others`.
            pub fn set(&mut self, others: &Self) {
                $(if others.$name.is_some() {
                    self.$name.clone_from(&others.$name);
                })+
            }

            /// Sets one of Kafka's configs to a value as Kafka writes it; one that isn't ours changes nothing.
            ///
            /// # Errors
            /// It can't have that value.
            pub fn set_config(&mut self, name: &str, value: &str) -> Result<(), NoValue> {
                match name {
                    $($($kafkas => self.$name = Some(ConfigValue::parse(value.trim()).ok_or(NoValue)?),)?)+
                    _ => {}
                }
                Ok(())
            }

            /// The value of one of Kafka's configs as Kafka writes it, if it is ours and set.
            pub fn config(&self, name: &str) -> Option<String> {
                match name {
                    $($($kafkas => self.$name.as_ref().map(ConfigValue::text),)?)+
                    _ => None,
                }
            }
        }
    };
}

topic_options! {
    /// Which records of transactions are shown.
    isolation: Isolation = Isolation::default(),
    /// Where partitions end.
    up_to: UpTo = UpTo::default(),
    /// Where partitions start.
    from: From = From::default(),
    /// What a reader meets at a damaged batch.
    on_damage: OnDamage = OnDamage::default(),
    /// The number of records in `tail`, at least 1.
    tail_records: u64 = 1000,
    /// The formats that listings show, each the extension of a format, none twice.
    formats_listed: Vec<String> = vec!["txt".to_owned(), "jsonl".to_owned()],
    /// How much a listing shows.
    listing: Listing = Listing::default(),
    /// How keys are written.
    key: Encoding = Encoding::default(),
    /// How values are written.
    value: Encoding = Encoding::default(),
    /// The timezone of times that are for people.
    timezone: TimeZone = TimeZone::UTC,
    /// Whether `by-key` lists the keys.
    by_key_listed: bool = false,
    /// How appended batches are compressed.
    compression_type as "compression.type": CompressionType = CompressionType::default(),
    /// gzip's level, -1 for its own.
    gzip_level as "compression.gzip.level": i64 = -1,
    /// zstd's level.
    zstd_level as "compression.zstd.level": i64 = 3,
    /// The largest batch that is appended, in bytes once compressed.
    max_message_bytes as "max.message.bytes": u64 = LOG.max_message_bytes as u64,
    /// Which time appended records have.
    timestamp_type as "message.timestamp.type": TimestampType = TimestampType::default(),
    /// How large a segment gets, in bytes.
    segment_bytes as "segment.bytes": u64 = LOG.segment_bytes,
    /// How old, in milliseconds.
    segment_ms as "segment.ms": u64 = LOG.segment_ms,
    /// How much earlier, at most, a segment may be rolled, in milliseconds.
    segment_jitter_ms as "segment.jitter.ms": u64 = LOG.segment_jitter_ms,
    /// How large an index gets, in bytes.
    segment_index_bytes as "segment.index.bytes": u64 = LOG.segment_index_bytes,
    /// How many bytes of a log lie between two entries of its indexes.
    index_interval_bytes as "index.interval.bytes": u64 = LOG.index_interval_bytes,
    /// After how many records a log is synced.
    flush_messages as "flush.messages": u64 = LOG.flush_messages,
    /// After how many milliseconds.
    flush_ms as "flush.ms": u64 = LOG.flush_ms,
    /// Whether records may be appended behind a transaction that is open.
    append_to_open_transactions: bool = false,
    /// What is done to old records.
    cleanup_policy as "cleanup.policy": CleanupPolicy = CleanupPolicy::default(),
    /// How old records get where old ones go, in milliseconds; -1: they stay.
    retention_ms as "retention.ms": i64 = 7 * 24 * 60 * 60 * 1000,
    /// How large a log gets where old records go, in bytes; -1: without a limit.
    retention_bytes as "retention.bytes": i64 = -1,
    /// How long the files of a segment that goes are still there, in milliseconds.
    file_delete_delay_ms as "file.delete.delay.ms": u64 = POLICY.file_delete_delay_ms,
    /// How long tombstones are kept after compaction met them, in milliseconds.
    delete_retention_ms as "delete.retention.ms": u64 = POLICY.delete_retention_ms,
    /// How old records are before they are compacted, in milliseconds.
    min_compaction_lag_ms as "min.compaction.lag.ms": u64 = POLICY.min_compaction_lag_ms,
    /// How old at most.
    max_compaction_lag_ms as "max.compaction.lag.ms": u64 = POLICY.max_compaction_lag_ms,
    /// How much of a log was never compacted before it is.
    min_cleanable_dirty_ratio as "min.cleanable.dirty.ratio": Ratio = POLICY.min_cleanable_dirty_ratio,
}

impl TopicChoices {
    /// Whether it says what is done to old records.
    pub fn names_policy(&self) -> bool {
        self.cleanup_policy.is_some() || self.retention_ms.is_some() || self.retention_bytes.is_some()
    }
}

/// Some choices for the topics whose names match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRule {
    /// The pattern.
    pub pattern: TopicPattern,
    /// What it sets.
    pub choices: TopicChoices,
}

/// A pattern for names of topics, as a shell's: `*`, `?`, `[a-z]`, `{a,b}`.
#[derive(Debug, Clone)]
pub struct TopicPattern(GlobMatcher);

impl TopicPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        // What it quotes may be anything.
        let message = |error: globset::Error| error.kind().to_string().replace(char::is_control, " ");
        glob.map(|glob| Self(glob.compile_matcher())).map_err(message)
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        self.0.glob().glob()
    }

    /// Whether it stands for `topic`.
    pub fn matches(&self, topic: &str) -> bool {
        self.0.is_match(topic)
    }
}

impl PartialEq for TopicPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for TopicPattern {}

/// What is chosen for one topic, as the file system needs it.
#[derive(Debug)]
pub struct OfTopic {
    /// The options.
    pub options: TopicOptions,
    /// The formats that listings show.
    pub formats_listed: Vec<Format>,
    formats: Arc<Formats>,
}

impl OfTopic {
    /// What `options` say of `topic`.
    pub fn new(options: &Options, topic: &str) -> Self {
        let (options, formats) = (options.of_topic(topic), options.formats.clone());
        let listed = options.formats_listed.iter();
        let formats_listed = listed.filter_map(|name| formats.of_extension(name)).collect();
        Self { options, formats_listed, formats }
    }

    /// Which of a partition's records are shown.
    pub fn scope(&self) -> Scope {
        Scope {
            up_to_high_watermark: self.options.up_to == UpTo::HighWatermark,
            from_first_segment: self.options.from == From::FirstSegment,
            fail_on_damage: self.options.on_damage == OnDamage::Error,
        }
    }

    /// How records are rendered.
    pub fn rendering(&self) -> Rendering {
        let TopicOptions { key, value, ref timezone, .. } = self.options;
        let encodings = Encodings { key, value };
        Rendering { encodings, timezone: timezone.clone(), formats: self.formats.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, tail_records: Option<u64>, from: Option<From>) -> TopicRule {
        let choices = TopicChoices { tail_records, from, ..TopicChoices::default() };
        TopicRule { pattern: TopicPattern::parse(pattern).unwrap(), choices }
    }

    #[test]
    fn later_rules_win_over_earlier_ones_and_all_over_the_top_level() {
        let options = Options {
            topic: TopicChoices { tail_records: Some(7), ..TopicChoices::default() },
            topics: vec![
                rule("*", None, Some(From::FirstSegment)),
                rule("app-*", Some(1), None),
                rule("app-log?", Some(2), Some(From::LogStart)),
            ],
            ..Options::default()
        };
        let of = |topic| {
            let of = options.of_topic(topic);
            (of.tail_records, of.from)
        };
        assert_eq!(of("orders"), (7, From::FirstSegment));
        assert_eq!(of("app-x"), (1, From::FirstSegment));
        assert_eq!(of("app-logs"), (2, From::LogStart));
    }

    #[test]
    fn patterns_match_as_a_shells() {
        for (pattern, topic, expected) in [
            ("orders", "orders", true),
            ("orders", "orders-2", false),
            ("orders*", "orders-2", true),
            ("*", "__consumer_offsets", true),
            ("*", ".hidden", true),
            ("app-?", "app-1", true),
            ("app-?", "app-12", false),
            ("app-[0-4]", "app-5", false),
            ("app-[!0-4]", "app-5", true),
            ("{orders,payments}.v1", "payments.v1", true),
            ("a.b", "aXb", false),
            ("Orders", "orders", false),
        ] {
            assert_eq!(TopicPattern::parse(pattern).unwrap().matches(topic), expected, "{pattern} {topic}");
        }
        assert!(TopicPattern::parse("a[").is_err());
        assert_eq!(TopicPattern::parse("[b-\n]"), Err("invalid range; 'b' > ' '".to_owned()));
    }
}
