//! What a name stands for.
//!
//! A node says all that is needed to make its content again, so that nothing has to be kept for the millions of
//! records that somebody may have looked at. Its inode number is a hash of it: names that mean the same have the same
//! number, at each lookup and in each mount.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::fs::names::RecordForm;
use crate::fs::overview::OverviewForm;
use crate::fs::time_names::Unit;
use crate::log::files::FileId;
use crate::units::{LeaderEpoch, Offset, Period, Timestamp};
use crate::view::dump::entry::Level;
use crate::view::format::Format;
use crate::view::lines::LineFormat;
use crate::view::manifest::Form;

/// The root's inode number, as FUSE wants it.
pub const ROOT_INO: u64 = 1;

/// A file or directory of the mount.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// The root.
    Root,
    /// `README.txt` at the root.
    Readme,
    /// `.topicfs`.
    Control,
    /// A file in it.
    ControlFile(ControlFile),
    /// `topics.tsv`.
    Topics,
    /// A topic.
    Topic(Arc<str>),
    /// `info` or `info.json` of a topic.
    TopicInfo(Arc<str>, OverviewForm),
    /// A partition's directory.
    Partition(PartitionKey),
    /// Something of a partition.
    Of(PartitionKey, Item),
    /// `all`: a topic's partitions merged.
    All(AllKey),
    /// Something of them.
    OfAll(AllKey, AllItem),
}

/// A file in `.topicfs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlFile {
    /// `version`.
    Version,
    /// `config.yaml`: the configuration in force.
    Config,
    /// `problems`: all partitions' and the data directories'.
    Problems,
    /// `builds`: the indexes that are being built.
    Builds,
    /// `metrics`: what the mount did and holds, for Prometheus.
    Metrics,
    /// `manifest` and the like: what every file of the source is. Reading it reads the source.
    Manifest(Form),
}

impl ControlFile {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Version,
        Self::Config,
        Self::Problems,
        Self::Builds,
        Self::Metrics,
        Self::Manifest(Form::Text),
        Self::Manifest(Form::Json),
        Self::Manifest(Form::Sha256sum),
    ];

    /// Whether it is listed: a walk must not read all of a source.
    pub const fn is_listed(self) -> bool {
        !matches!(self, Self::Manifest(_))
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Config => "config.yaml",
            Self::Problems => "problems",
            Self::Builds => "builds",
            Self::Metrics => "metrics",
            Self::Manifest(Form::Text) => "manifest",
            Self::Manifest(Form::Json) => "manifest.json",
            Self::Manifest(Form::Sha256sum) => "manifest.sha256",
        }
    }
}

/// A partition as a path names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    /// The topic.
    pub topic: Arc<str>,
    /// The label below it, as in `0` or `0.delete`.
    pub label: Arc<str>,
    /// Whether records of aborted transactions are left out.
    pub committed: bool,
}

/// All partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllKey {
    /// The topic.
    pub topic: Arc<str>,
    /// Whether records of aborted transactions are left out.
    pub committed: bool,
}

/// Something of all partitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AllItem {
    /// `by-time`.
    ByTime,
    /// `by-time/README.txt`.
    ByTimeReadme,
    /// `by-key`.
    ByKey,
    /// `by-key/README.txt`.
    ByKeyReadme,
    /// A directory of a period that lists shorter ones.
    Times {
        /// The period.
        period: Period,
        /// What it lists.
        unit: Unit,
        /// The offset from UTC in seconds that names in it have, where its own name said one.
        utc_offset: Option<i32>,
    },
    /// Merged records in one file.
    Records(AllRecords),
    /// Merged records as they come.
    Follow(Follow),
}

/// Merged records in one file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllRecords {
    /// Which file it is.
    pub kind: AllKind,
    /// The format, one of records.
    pub format: Format,
    /// Each partition's first offset.
    pub starts: Arc<[Offset]>,
    /// Each partition's offset after the last; `None` for a file that grows.
    pub ends: Option<Arc<[Offset]>>,
    /// A number for the partitions that there are, and their generations.
    pub stamp: u64,
}

/// Which file of merged records it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AllKind {
    /// `log`.
    Log,
    /// `tail`.
    Tail,
    /// A period in `by-time`.
    Period(Period),
    /// A key of several partitions in `by-key`.
    Key(Arc<[u8]>),
}

/// Something of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Item {
    /// `by-offset`.
    ByOffset,
    /// `by-offset/README.txt`.
    ByOffsetReadme,
    /// `by-key`.
    ByKey,
    /// `by-key/README.txt`.
    ByKeyReadme,
    /// All records of a key.
    KeyRecords(KeyRecords),
    /// `by-time`.
    ByTime,
    /// `by-time/README.txt`.
    ByTimeReadme,
    /// A directory of a period.
    Times(Times),
    /// The records of a period in one file.
    Timed(Timed),
    /// `offsets`.
    Offsets,
    /// `offsets/README.txt`.
    OffsetsReadme,
    /// A file in it.
    Number(Number),
    /// `by-segment`.
    BySegment,
    /// `segments`.
    Segments,
    /// `info`, or `info.json`.
    Info {
        /// Whether as JSON.
        json: bool,
    },
    /// `problems`.
    Problems,
    /// `suspect.jsonl`.
    Suspects,
    /// A directory of the records of a range.
    Range(RecordRange),
    /// One record, and the partition's generation: after a truncation the offset may have another one.
    Record(Offset, RecordForm, u64),
    /// Rendered records.
    Records(Records),
    /// Records as they come.
    Follow(Follow),
    /// A file whose lines become records.
    Append(LineFormat),
    /// A source file.
    SourceFile(OsString, FileId),
    /// `dump`.
    DumpDir,
    /// A file in it.
    Dump(DumpOf),
}

/// A directory of the records of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordRange {
    /// The first offset.
    pub start: Offset,
    /// The offset after the last, fixed when the name was looked up.
    pub end: Offset,
    /// Whether the name said no end: then the records that come can be followed from its start.
    pub is_open: bool,
}

/// Records as they come, in a file that never ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Follow {
    /// The format.
    pub format: Format,
    /// Where it begins.
    pub since: Since,
}

/// Where following begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Since {
    /// With the records that come after it was opened.
    Now,
    /// At an offset.
    Offset(Offset),
    /// At a time, and with records of later times only.
    Time(Timestamp),
}

/// A directory of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Times {
    /// The period.
    pub period: Period,
    /// What it lists.
    pub unit: Unit,
    /// The offset from UTC in seconds that names in it have, where its own name said one.
    pub utc_offset: Option<i32>,
    /// The first offset.
    pub start: Offset,
    /// The offset after the last, fixed when the name was looked up.
    pub end: Offset,
    /// The partition's generation.
    pub generation: u64,
}

/// The records of a period in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Timed {
    /// The period.
    pub period: Period,
    /// The format.
    pub format: Format,
    /// The first offset.
    pub start: Offset,
    /// The offset after the last, fixed when the name was looked up.
    pub end: Offset,
    /// The partition's generation.
    pub generation: u64,
}

/// A number in `offsets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    /// `earliest`.
    Earliest,
    /// `latest`.
    Latest,
    /// `high-watermark`.
    HighWatermark,
    /// `last-stable`.
    LastStable,
    /// `max-timestamp`.
    MaxTimestamp,
    /// `epoch-7`.
    Epoch(LeaderEpoch),
    /// What a time, `12345~7` and the like stood for when the name was looked up.
    Exactly(Offset),
}

/// The dump of a source file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DumpOf {
    /// The file's name.
    pub name: OsString,
    /// Its identity.
    pub id: FileId,
    /// Whether it is of batches alone (`X.log.batches`), or has records, keys and values.
    pub level: Level,
    /// The state of what it is made from: another one when its bytes differ, and not only grow.
    pub stamp: u64,
}

/// All records of a key in one file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRecords {
    /// The key.
    pub key: Arc<[u8]>,
    /// The format.
    pub format: Format,
    /// The offset of its first record.
    pub start: Offset,
    /// The offset after its latest one.
    pub end: Offset,
    /// The partition's generation.
    pub generation: u64,
}

/// Rendered records in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Records {
    /// Which file it is; two files of the same records are two files.
    pub kind: RecordsKind,
    /// The format.
    pub format: Format,
    /// The first offset.
    pub start: Offset,
    /// The offset after the last; `None` for a file that grows with the log.
    pub end: Option<Offset>,
    /// The partition's generation: another one after a truncation or compaction, since bytes differ then.
    pub generation: u64,
}

/// Which file of rendered records it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordsKind {
    /// `log`.
    Log,
    /// `tail`.
    Tail,
    /// A range in `by-offset`.
    Range,
    /// A file in `by-segment`, whose source file stays readable while it is open.
    Segment,
}

impl Node {
    /// Whether it is a directory.
    pub const fn is_dir(&self) -> bool {
        match self {
            Self::Root | Self::Control | Self::Topic(_) | Self::Partition(_) | Self::All(_) => true,
            Self::Readme | Self::ControlFile(_) | Self::Topics | Self::TopicInfo(..) => false,
            Self::OfAll(_, item) => matches!(item, AllItem::ByTime | AllItem::ByKey | AllItem::Times { .. }),
            Self::Of(_, item) => {
                matches!(
                    item,
                    Item::ByOffset
                        | Item::ByKey
                        | Item::ByTime
                        | Item::Times(_)
                        | Item::Offsets
                        | Item::BySegment
                        | Item::Segments
                        | Item::DumpDir
                        | Item::Range(_)
                )
            }
        }
    }

    /// Its partition, if it is one or belongs to one.
    pub const fn partition(&self) -> Option<&PartitionKey> {
        match self {
            Self::Partition(key) | Self::Of(key, _) => Some(key),
            Self::Root | Self::Readme | Self::Control | Self::ControlFile(_) => None,
            Self::Topics | Self::Topic(_) | Self::TopicInfo(..) | Self::All(_) | Self::OfAll(..) => None,
        }
    }

    /// Its topic, if it is one or belongs to one.
    pub const fn topic(&self) -> Option<&Arc<str>> {
        match self {
            Self::Topic(topic) | Self::TopicInfo(topic, _) => Some(topic),
            Self::All(key) | Self::OfAll(key, _) => Some(&key.topic),
            Self::Partition(key) | Self::Of(key, _) => Some(&key.topic),
            Self::Root | Self::Readme | Self::Control | Self::ControlFile(_) | Self::Topics => None,
        }
    }

    /// Its inode number, `attempt` being counted up where another node has it already.
    pub fn ino(&self, attempt: u64) -> u64 {
        if *self == Self::Root {
            return ROOT_INO;
        }
        let mut hasher = DefaultHasher::new();
        (self, attempt).hash(&mut hasher);
        // Numbers below 16 are left to the root and to FUSE; the top bit to programs that take numbers as signed.
        (hasher.finish() >> 1).max(16)
    }
}
