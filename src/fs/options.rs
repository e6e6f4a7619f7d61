//! What a user may choose about how a source is shown.
//!
//! Plain values: `config` fills them from a file and from `-o` words, the layers below only read them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::format::batch::Limits;
use crate::fs::topic_options::{TopicChoices, TopicOptions, TopicRule};
use crate::log::files::page_cache;
use crate::log::files::unpacked::Room;
use crate::log::keys::KeySpace;
use crate::log::source::SourceOptions;
use crate::log::upkeep::compaction;
use crate::view::format::Formats;

/// Declares an enum whose variants have a name in options and configuration files.
macro_rules! choice {
    (
        $(#[$doc:meta])*
        $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+ }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every name, the default first.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// The name in options and configuration files.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The choice of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

choice! {
    /// Which records of transactions are shown (KIP-98).
    Isolation {
        /// All of them, also of transactions that are open or were aborted.
        #[default]
        ReadUncommitted = "read_uncommitted",
        /// Those of committed transactions, up to the last stable offset.
        ReadCommitted = "read_committed",
    }
}

choice! {
    /// Where a partition ends.
    UpTo {
        /// At the log end: everything that is on disk.
        #[default]
        LogEnd = "log-end",
        /// At the high watermark: what a consumer would have been given.
        HighWatermark = "high-watermark",
    }
}

choice! {
    /// Where a partition starts.
    From {
        /// At the log start offset, as for a consumer.
        #[default]
        LogStart = "log-start",
        /// At the first segment: also what was deleted and is still on disk.
        FirstSegment = "first-segment",
    }
}

choice! {
    /// What a reader meets at a damaged batch.
    OnDamage {
        /// The next batch whose checksum is right.
        #[default]
        Skip = "skip",
        /// An I/O error.
        Error = "error",
    }
}

choice! {
    /// Which source files the kernel reads by itself, without asking the mount. That changes their time of last access, and fills the page cache
    /// without regard for `page_cache`.
    Passthrough {
        /// Those on file systems that are mounted read-only: no broker writes there, and no time changes.
        #[default]
        ReadOnly = "read-only",
        /// All.
        Always = "always",
        /// None.
        Never = "never",
    }
}

choice! {
    /// How much a listing shows.
    Listing {
        /// Files and directories that are named by their content; records are opened by name.
        #[default]
        Names = "names",
        /// The directories of a partition's records too.
        Full = "full",
    }
}

choice! {
    /// How appended batches are compressed: Kafka's `compression.type`.
    CompressionType {
        /// As the producer chose, and here nobody did.
        #[default]
        Producer = "producer",
        /// Not at all.
        Uncompressed = "uncompressed",
        /// RFC 1952.
        Gzip = "gzip",
        /// In xerial's framing.
        Snappy = "snappy",
        /// An LZ4 frame.
        Lz4 = "lz4",
        /// A Zstandard frame.
        Zstd = "zstd",
    }
}

choice! {
    /// Which time appended records have: Kafka's `message.timestamp.type`.
    TimestampType {
        /// That of the line, or that of appending where the line says none.
        #[default]
        CreateTime = "CreateTime",
        /// That of appending.
        LogAppendTime = "LogAppendTime",
    }
}

choice! {
    /// What is done to old records: Kafka's `cleanup.policy`.
    CleanupPolicy {
        /// Nothing: nobody has said anything.
        #[default]
        None = "none",
        /// Old segments go.
        Delete = "delete",
        /// Of each key the last record stays.
        Compact = "compact",
        /// Both.
        CompactAndDelete = "compact,delete",
    }
}

impl CleanupPolicy {
    /// Whether old segments go.
    pub const fn has_delete(self) -> bool {
        matches!(self, Self::Delete | Self::CompactAndDelete)
    }

    /// Whether of each key the last record stays.
    pub const fn has_compact(self) -> bool {
        matches!(self, Self::Compact | Self::CompactAndDelete)
    }

    /// The choice of a list, in any order, with commas or colons between its words; `-o` has no commas in values.
    pub fn from_list(list: &str) -> Option<Self> {
        let words: Vec<&str> =
            list.split([',', ':']).map(str::trim).filter(|word| !word.is_empty()).collect();
        match *words {
            [] | ["none"] => Some(Self::None),
            ["delete"] => Some(Self::Delete),
            ["compact"] => Some(Self::Compact),
            ["compact", "delete"] | ["delete", "compact"] => Some(Self::CompactAndDelete),
            _ => None,
        }
    }
}

/// Who may read a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Access {
    /// The user who mounted: files are 0400, directories 0500.
    #[default]
    OwnerOnly,
    /// Those who may read the source: owner, group and mode are the source's, without execute bits on files.
    FromSource,
}

/// Everything that can be chosen about how a source is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What is chosen for all topics where no rule says otherwise.
    pub topic: TopicChoices,
    /// Rules for topics, by their names.
    pub topics: Vec<TopicRule>,
    /// The formats: those of our own, and the user's templates.
    pub formats: Arc<Formats>,
    /// How long a stat of an open file waits for its size.
    pub measure_wait: Duration,
    /// The largest batch that is read, in bytes on disk.
    pub max_batch_bytes: usize,
    /// The largest batch that is read, in bytes once decompressed.
    pub max_decoded_bytes: usize,
    /// Where measurements are kept; the user's own cache directory if not set.
    pub cache_dir: Option<PathBuf>,
    /// The most that the cache may hold, in bytes.
    pub cache_limit: u64,
    /// The most that unpacked segments may take in the cache's directory, in bytes.
    pub unpack_limit: u64,
    /// The most of the system's page cache that reading fills, in bytes.
    pub page_cache: u64,
    /// Which files of `segments/` the kernel reads by itself.
    pub passthrough: Passthrough,
    /// The most that the indexes of `by-key` keep in memory together, in bytes.
    pub by_key_max_memory: u64,
    /// Whether partition directories that are symbolic links are followed.
    pub follow_symlinks: bool,
    /// The most that measuring reads from the source, in bytes a second.
    pub max_read_rate: Option<u64>,
    /// How often a mount for appending looks for old segments, in milliseconds.
    pub retention_check_interval_ms: u64,
    /// How often for logs to compact.
    pub cleaner_backoff_ms: u64,
    /// The most memory that compacting a partition takes for its keys, in bytes.
    pub dedupe_buffer_bytes: usize,
    /// Whether topics may be removed.
    pub allow_delete: bool,
    /// Whether topics may be made and removed in a cluster's directory.
    pub allow_cluster_topics: bool,
    /// Whether records have no extended attributes; the kernel stops asking then.
    pub noxattr: bool,
    /// Who may read a mount.
    pub access: Access,
}

impl Options {
    /// What is chosen for `topic`.
    pub fn chosen_for(&self, topic: &str) -> TopicChoices {
        let mut choices = self.topic.clone();
        for rule in self.topics.iter().filter(|rule| rule.pattern.matches(topic)) {
            choices.set(&rule.choices);
        }
        choices
    }

    /// The same over the defaults.
    pub fn of_topic(&self, topic: &str) -> TopicOptions {
        let mut options = TopicOptions::default();
        options.set(&self.chosen_for(topic));
        options
    }

    /// Whether somebody says what is done to old records of any topic.
    pub fn names_policies(&self) -> bool {
        let rules = self.topics.iter().map(|rule| &rule.choices);
        rules.chain([&self.topic]).any(TopicChoices::names_policy)
    }

    /// What the source's files are read with.
    pub const fn of_source(&self) -> SourceOptions {
        let Self { max_batch_bytes, max_decoded_bytes, follow_symlinks, .. } = *self;
        SourceOptions { limits: Limits { max_batch_bytes, max_decoded_bytes }, follow_symlinks }
    }

    /// Where segments may be unpacked: in the cache's directory, else in the system's for temporary files.
    pub fn unpack_room(&self) -> Room {
        Room { directories: self.directories(), limit_bytes: self.unpack_limit }
    }

    /// Where indexes by key may lie, and how much of them in memory.
    pub fn key_space(&self) -> KeySpace {
        KeySpace::new(self.by_key_max_memory, self.directories())
    }

    fn directories(&self) -> Vec<PathBuf> {
        self.cache_dir.iter().cloned().chain([std::env::temp_dir()]).collect()
    }
}

impl std::convert::From<TopicOptions> for Options {
    fn from(topic: TopicOptions) -> Self {
        Self { topic: topic.choices(), ..Self::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            topic: TopicChoices::default(),
            topics: Vec::new(),
            formats: Arc::default(),
            measure_wait: Duration::from_secs(10),
            max_batch_bytes: 128 << 20,
            max_decoded_bytes: 256 << 20,
            cache_dir: None,
            cache_limit: 1 << 30,
            unpack_limit: 8 << 30,
            page_cache: page_cache::DEFAULT_LIMIT,
            passthrough: Passthrough::default(),
            by_key_max_memory: 64 << 20,
            follow_symlinks: false,
            max_read_rate: None,
            retention_check_interval_ms: 300_000,
            cleaner_backoff_ms: 15_000,
            dedupe_buffer_bytes: compaction::DEFAULT_MAP_BYTES,
            allow_delete: false,
            allow_cluster_topics: false,
            noxattr: false,
            access: Access::default(),
        }
    }
}
