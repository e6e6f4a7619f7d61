//! The tables of all options: those of a mount, and those that each topic can have its own of.
//!
//! A new option is one row here. The sections of the file that are no options, `topics:` and `formats:`, are in `yaml`.

use std::fmt::Write as _;

use super::Config;
use super::kind::Kind;
use crate::fs::options::{
    CleanupPolicy, CompressionType, From, Isolation, Listing, OnDamage, Passthrough, TimestampType, UpTo,
};
use crate::fs::topic_options::{TopicChoices, TopicOptions};
use crate::view::encoding::Encoding;

/// An option that has its place in a `T`: its name, the kind of its value and where that is kept.
pub(super) struct Key<T> {
    /// As in a file and after `-o`.
    pub(super) name: &'static str,
    /// What it does, in one line of help.
    about: &'static str,
    pub(super) kind: Kind<T>,
}

/// A kind of value that is kept at some place of `TopicChoices`.
macro_rules! of_topic {
    ($kind:ident, $place:ident) => {
        Kind::$kind(|choices| choices.$place.clone(), |choices, value| choices.$place = Some(value))
    };
}

/// A [`Kind::Integer`] that is kept at some place of `TopicChoices`.
macro_rules! in_range {
    ($range:expr, $place:ident) => {
        Kind::Integer($range, |choices| choices.$place, |choices, value| choices.$place = Some(value))
    };
}

/// A [`Kind::Choice`] of an enum that is kept at some place of `TopicChoices`.
macro_rules! choice {
    ($type:ident, $place:ident) => {
        Kind::Choice(
            $type::NAMES,
            |choices| choices.$place.map($type::name),
            |choices, name| $type::from_name(name).map(|choice| choices.$place = Some(choice)),
        )
    };
}

/// A kind of value that is kept at some place of `Config`.
macro_rules! of_mount {
    ($kind:ident, $($place:ident).+) => {
        Kind::$kind(|config| Some(config.$($place).+), |config, value| config.$($place).+ = value)
    };
}

/// The same for a value that may be unset.
macro_rules! optional {
    ($kind:ident, $($place:ident).+) => {
        Kind::$kind(|config| config.$($place).+.clone(), |config, value| config.$($place).+ = value)
    };
}

/// The options that each topic can have its own of, in the order of help and of the effective configuration.
pub(super) const TOPIC_KEYS: &[Key<TopicChoices>] = &[
    Key {
        name: "isolation",
        about: "which records of transactions are shown",
        kind: choice!(Isolation, isolation),
    },
    Key { name: "up_to", about: "where a partition ends", kind: choice!(UpTo, up_to) },
    Key {
        name: "from",
        about: "where it starts; first-segment shows deleted records too",
        kind: choice!(From, from),
    },
    Key {
        name: "on_damage",
        about: "skip a damaged batch, or fail there",
        kind: choice!(OnDamage, on_damage),
    },
    Key { name: "tail_records", about: "records in `tail`", kind: of_topic!(Count, tail_records) },
    Key {
        name: "formats_listed",
        about: "formats that `ls` shows; the others work by name",
        kind: of_topic!(Formats, formats_listed),
    },
    Key { name: "listing", about: "full lists directories of records too", kind: choice!(Listing, listing) },
    Key {
        name: "key",
        about: "how keys are written; json: inline in .jsonl, as key_json",
        kind: choice!(Encoding, key),
    },
    Key {
        name: "value",
        about: "how values are written; json: inline in .jsonl, as value_json",
        kind: choice!(Encoding, value),
    },
    Key {
        name: "timezone",
        about: "of names in by-time/, and of times for people, as in .json",
        kind: of_topic!(Zone, timezone),
    },
    Key {
        name: "by_key.listed",
        about: "`ls by-key` lists the keys that have a value",
        kind: of_topic!(Flag, by_key_listed),
    },
    Key {
        name: "compression.type",
        about: "how appended batches are compressed",
        kind: choice!(CompressionType, compression_type),
    },
    Key {
        name: "compression.gzip.level",
        about: "1 to 9, or -1 for its own",
        kind: in_range!(-1..=9, gzip_level),
    },
    Key {
        name: "compression.zstd.level",
        about: "-131072 to 22",
        kind: in_range!(-131_072..=22, zstd_level),
    },
    Key {
        name: "max.message.bytes",
        about: "largest batch that is appended",
        kind: of_topic!(Size, max_message_bytes),
    },
    Key {
        name: "message.timestamp.type",
        about: "which time appended records have",
        kind: choice!(TimestampType, timestamp_type),
    },
    Key { name: "segment.bytes", about: "how large a segment gets", kind: of_topic!(Size, segment_bytes) },
    Key { name: "segment.ms", about: "how old, in milliseconds", kind: of_topic!(Milliseconds, segment_ms) },
    Key {
        name: "segment.jitter.ms",
        about: "up to how much earlier it is rolled",
        kind: of_topic!(Milliseconds, segment_jitter_ms),
    },
    Key {
        name: "segment.index.bytes",
        about: "how large its indexes get",
        kind: of_topic!(Size, segment_index_bytes),
    },
    Key {
        name: "index.interval.bytes",
        about: "bytes of a log between entries of its indexes",
        kind: of_topic!(Size, index_interval_bytes),
    },
    Key {
        name: "flush.messages",
        about: "after how many records a log is synced",
        kind: of_topic!(Count, flush_messages),
    },
    Key { name: "flush.ms", about: "after how many milliseconds", kind: of_topic!(Milliseconds, flush_ms) },
    Key {
        name: "append_to_open_transactions",
        about: "append behind a transaction that is open",
        kind: of_topic!(Flag, append_to_open_transactions),
    },
    Key {
        name: "cleanup.policy",
        about: "what is done to old records; after -o compact:delete",
        kind: Kind::Choice(
            CleanupPolicy::NAMES,
            |choices| choices.cleanup_policy.map(CleanupPolicy::name),
            |choices, list| {
                CleanupPolicy::from_list(list).map(|choice| choices.cleanup_policy = Some(choice))
            },
        ),
    },
    Key {
        name: "retention.ms",
        about: "how old records get; -1: they stay",
        kind: of_topic!(MillisecondsOrNever, retention_ms),
    },
    Key {
        name: "retention.bytes",
        about: "how large a partition gets; -1: no limit",
        kind: of_topic!(SizeOrNone, retention_bytes),
    },
    Key {
        name: "file.delete.delay.ms",
        about: "how long the files of deleted segments are still there",
        kind: of_topic!(Milliseconds, file_delete_delay_ms),
    },
    Key {
        name: "delete.retention.ms",
        about: "how long compaction keeps tombstones",
        kind: of_topic!(Milliseconds, delete_retention_ms),
    },
    Key {
        name: "min.compaction.lag.ms",
        about: "how old a record is before it is compacted",
        kind: of_topic!(Milliseconds, min_compaction_lag_ms),
    },
    Key {
        name: "max.compaction.lag.ms",
        about: "how old at most",
        kind: of_topic!(Milliseconds, max_compaction_lag_ms),
    },
    Key {
        name: "min.cleanable.dirty.ratio",
        about: "how much of a log is new before it is compacted",
        kind: of_topic!(Ratio, min_cleanable_dirty_ratio),
    },
];

/// All other options, in the same order.
pub(super) const KEYS: &[Key<Config>] = &[
    Key {
        name: "measure_wait",
        about: "how long a stat of an open file waits for its size",
        kind: of_mount!(Time, options.measure_wait),
    },
    Key {
        name: "max_batch_bytes",
        about: "largest batch that is read, on disk",
        kind: of_mount!(Memory, options.max_batch_bytes),
    },
    Key {
        name: "max_decoded_bytes",
        about: "largest batch that is read, decompressed",
        kind: of_mount!(Memory, options.max_decoded_bytes),
    },
    Key {
        name: "cache_dir",
        about: "where measurements are kept",
        kind: optional!(Directory, options.cache_dir),
    },
    Key { name: "cache_limit", about: "how large that may grow", kind: of_mount!(Size, options.cache_limit) },
    Key {
        name: "unpack_limit",
        about: "how much of .log.gz and .log.zst may lie unpacked there",
        kind: of_mount!(Size, options.unpack_limit),
    },
    Key {
        name: "page_cache",
        about: "how much of the system's page cache reading may fill",
        kind: of_mount!(Size, options.page_cache),
    },
    Key {
        name: "passthrough",
        about: "source files that the kernel reads by itself, as root",
        kind: Kind::Choice(
            Passthrough::NAMES,
            |config| Some(config.options.passthrough.name()),
            |config, name| Passthrough::from_name(name).map(|choice| config.options.passthrough = choice),
        ),
    },
    Key {
        name: "by_key.max_memory",
        about: "what all indexes by key keep in memory; the rest is in files",
        kind: of_mount!(Size, options.by_key_max_memory),
    },
    Key {
        name: "follow_symlinks",
        about: "read partition directories that are links",
        kind: of_mount!(Flag, options.follow_symlinks),
    },
    Key {
        name: "max_read_rate",
        about: "bytes a second that measuring may read",
        kind: optional!(Rate, options.max_read_rate),
    },
    Key {
        name: "log.retention.check.interval.ms",
        about: "when appending: how often old segments are looked for",
        kind: of_mount!(Milliseconds, options.retention_check_interval_ms),
    },
    Key {
        name: "log.cleaner.backoff.ms",
        about: "when appending: how often logs to compact are",
        kind: of_mount!(Milliseconds, options.cleaner_backoff_ms),
    },
    Key {
        name: "log.cleaner.dedupe.buffer.size",
        about: "how much memory compacting one partition takes for its keys",
        kind: of_mount!(Memory, options.dedupe_buffer_bytes),
    },
    Key {
        name: "append",
        about: "mount for appending, as --rw does; for fstab",
        kind: of_mount!(Flag, mount.append),
    },
    Key {
        name: "allow_delete",
        about: "when appending: `rmdir` removes topics",
        kind: of_mount!(Flag, options.allow_delete),
    },
    Key {
        name: "allow_cluster_topics",
        about: "when appending: topics are made and removed in a cluster's directory too",
        kind: of_mount!(Flag, options.allow_cluster_topics),
    },
    Key {
        name: "noxattr",
        about: "no extended attributes; spares `ls -l` two questions a file",
        kind: of_mount!(Flag, options.noxattr),
    },
    Key {
        name: "allow_other",
        about: "let those in who may read the source",
        kind: of_mount!(Flag, mount.allow_other),
    },
    Key {
        name: "nonempty",
        about: "mount over what the mountpoint holds",
        kind: of_mount!(Flag, mount.nonempty),
    },
];

/// An option of either table.
#[derive(Clone, Copy)]
pub(super) enum AnyKey {
    /// One that each topic can have its own of; set for all of them here.
    Topic(&'static Key<TopicChoices>),
    /// Another one.
    Mount(&'static Key<Config>),
}

impl AnyKey {
    /// The option of that name.
    pub(super) fn find(name: &str) -> Option<Self> {
        let of_topic = TOPIC_KEYS.iter().find(|key| key.name == name).map(Self::Topic);
        of_topic.or_else(|| KEYS.iter().find(|key| key.name == name).map(Self::Mount))
    }

    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Topic(key) => key.name,
            Self::Mount(key) => key.name,
        }
    }

    /// Puts `value` where it belongs.
    ///
    /// # Errors
    /// What was expected instead.
    pub(super) fn assign(self, config: &mut Config, value: &super::value::Value) -> Result<(), String> {
        let formats = config.options.formats.clone();
        match self {
            Self::Mount(key) => key.kind.assign(config, value, &formats),
            Self::Topic(key) => key.kind.assign(&mut config.options.topic, value, &formats),
        }
    }
}

/// The names of all options.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TOPIC_KEYS.iter().map(|key| key.name).chain(KEYS.iter().map(|key| key.name))
}

/// The options as lines of a help text: name, values with the default first, what it does.
pub fn help() -> String {
    let config = Config::default();
    let choices = TopicOptions::default().choices();
    let mut text = String::new();
    TOPIC_KEYS.iter().for_each(|key| key.help(&choices, &mut text));
    KEYS.iter().for_each(|key| key.help(&config, &mut text));
    text
}

impl<T> Key<T> {
    /// Adds its lines of help; `defaults` has what counts where nothing is set.
    fn help(&self, defaults: &T, text: &mut String) {
        let left = format!("{}{}", self.name, self.kind.syntax());
        let shown = self.kind.show(defaults).filter(|_| !self.kind.shows_its_default());
        let default = shown.map(|default| format!(" ({default})")).unwrap_or_default();
        let gap =
            if left.len() > 25 { format!("\n{:28}", "") } else { format!("{:1$}", "", 26 - left.len()) };
        let _ = writeln!(text, "  {left}{gap}{}{default}", self.about);
    }
}
