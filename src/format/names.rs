//! All names on disk: of data directories' files, of partition directories and of the files in them; parsing and building
//! side by side.
//!
//! ```text
//! orders-3                                            partition 3 of topic `orders`: the last `-` parts them
//! orders-3.0f1e2d3c4b5a69788796a5b4c3d2e1f0-delete    waits for its removal (0.10.2); also -future (KIP-113), -stray (3.6.1)
//! 00000000000000000042.log                            a segment and its base offset; also .index, .timeindex, .txnindex
//! 00000000000000000042.snapshot                       producers, up to that offset
//! 00000000000000000042.log.deleted                    waits for its removal; also .cleaned, .swap while compaction runs
//! 00000000000000000042-0000000007.checkpoint          a KRaft snapshot: end offset and epoch
//! 00000000000000000042.log.gz                         a segment that a backup tool has compressed; also .zst
//! orders-3-k6DiXPXGQLmYwMCNt-_cyg                     partition and topic's id, in the store of KIP-405's LocalTieredStorage
//! orders-k6DiXPXGQLmYwMCNt-_cyg/3                     the same in the store of Aiven's plugin
//! 00000000000000000042-JhPHoiVBRJGDIRxlxxJDRg.log     in both: a segment's file, its base offset and its id
//! 42_JhPHoiVBRJGDIRxlxxJDRg.index                     a broker's copy of an index from such a store
//! ```

use std::fmt;

use crate::format::uuid::Uuid;
use crate::units::{LeaderEpoch, Offset, TopicPartition};

/// What a data directory belongs to.
pub const META_PROPERTIES: &str = "meta.properties";
/// Locked while a broker runs.
pub const LOCK: &str = ".lock";
/// Its existence says that a broker stopped in order.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// First offsets that may not have been flushed.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// High watermarks.
pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// Log start offsets, where they are above the first segment's base.
pub const LOG_STARTS: &str = "log-start-offset-checkpoint";
/// First offsets that are not compacted yet.
pub const CLEANER_OFFSETS: &str = "cleaner-offset-checkpoint";
/// The files with offsets by partition.
pub const OFFSET_CHECKPOINTS: [&str; 4] = [RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS];
/// Initial records of a KRaft cluster's metadata.
pub const BOOTSTRAP_CHECKPOINT: &str = "bootstrap.checkpoint";
/// What LocalTieredStorage calls the directory of its store (KIP-405).
pub const TIERED_STORE: &str = "kafka-tiered-storage";
/// The directory of cached indexes of tiered segments.
pub const REMOTE_INDEX_CACHE: &str = "remote-log-index-cache";

/// In a partition: its leader epochs.
pub const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";
/// In a partition: its topic's id.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// In the metadata partition: the last vote.
pub const QUORUM_STATE: &str = "quorum-state";

/// The topic of KRaft's metadata log, whose only partition is 0.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
/// The same in the early-access KRaft of 2.8; the only name that isn't a legal topic.
pub const METADATA_TOPIC_2_8: &str = "@metadata";

/// Topics whose records are Kafka's own.
pub const INTERNAL_TOPICS: [&str; 6] = [
    METADATA_TOPIC,
    METADATA_TOPIC_2_8,
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__remote_log_metadata",
];

/// The longest name of a topic.
pub const MAX_TOPIC_LEN: usize = 249;
/// The longest name of a directory; Kafka cuts the topic to keep to it.
pub const MAX_DIR_LEN: usize = 255;

/// Whether Kafka accepts this name for a topic.
pub fn is_valid_topic(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_TOPIC_LEN).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(is_legal)
}

/// What a partition directory is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A partition in use.
    Current,
    /// A copy that is being moved here from another data directory; it may lag behind.
    Future {
        /// Sets it apart, 32 hexadecimal digits.
        id: String,
    },
    /// Deleted, waiting for removal. Its topic's name may be cut.
    Delete {
        /// Sets it apart, 32 hexadecimal digits.
        id: String,
    },
    /// Set aside because the cluster's metadata doesn't know it. Its topic's name may be cut.
    Stray {
        /// Sets it apart, 32 hexadecimal digits.
        id: String,
    },
}

/// The name of a partition directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PartitionDir {
    /// Topic and partition; the topic as far as the name has it.
    pub partition: TopicPartition,
    /// What it is.
    pub kind: Kind,
}

impl PartitionDir {
    /// Reads a directory's name; `None` when it can't be a partition's.
    pub fn parse(name: &str) -> Option<Self> {
        if name.len() > MAX_DIR_LEN {
            return None;
        }
        let (rest, kind) = match name.rsplit_once('.').and_then(|(rest, end)| Some((rest, Kind::parse(end)?)))
        {
            Some(parts) => parts,
            None => (name, Kind::Current),
        };
        let (topic, number) = rest.rsplit_once('-')?;
        let partition = canonical_number(number)?;
        let is_topic = is_valid_topic(topic) || topic == METADATA_TOPIC_2_8;
        let partition = TopicPartition { topic: topic.to_owned(), partition };
        is_topic.then_some(Self { partition, kind })
    }
}

impl Kind {
    /// Reads what follows the last dot.
    fn parse(end: &str) -> Option<Self> {
        let (id, suffix) = end.rsplit_once('-')?;
        let id = Some(id).filter(|id| !id.is_empty())?.to_owned();
        match suffix {
            "future" => Some(Self::Future { id }),
            "delete" => Some(Self::Delete { id }),
            "stray" => Some(Self::Stray { id }),
            _ => None,
        }
    }

    /// Id and suffix, `None` for a partition in use.
    const fn end(&self) -> Option<(&str, &'static str)> {
        match self {
            Self::Current => None,
            Self::Future { id } => Some((id.as_str(), "-future")),
            Self::Delete { id } => Some((id.as_str(), "-delete")),
            Self::Stray { id } => Some((id.as_str(), "-stray")),
        }
    }
}

impl fmt::Display for PartitionDir {
    /// The name; a topic too long for it is cut, as Kafka does.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TopicPartition { topic, partition } = &self.partition;
        let Some((id, suffix)) = self.kind.end() else {
            return write!(f, "{topic}-{partition}");
        };
        let end = format!("-{partition}.{id}{suffix}");
        let room = MAX_DIR_LEN.saturating_sub(end.len());
        write!(f, "{}{end}", topic.get(..room).unwrap_or(topic))
    }
}

/// The file types of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileType {
    /// Record batches.
    Log,
    /// The offset index.
    OffsetIndex,
    /// The time index (KIP-33).
    TimeIndex,
    /// The index of aborted transactions (KIP-98).
    TxnIndex,
    /// The producer snapshot (KIP-98), whose number is the offset after those that it covers.
    Snapshot,
}

impl FileType {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TxnIndex, Self::Snapshot];

    /// The indexes of a segment's log.
    pub const INDEXES: [Self; 3] = [Self::OffsetIndex, Self::TimeIndex, Self::TxnIndex];

    /// The suffix of such files, with its dot.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// Whether a file is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileState {
    /// In use.
    Live,
    /// Waiting for removal.
    Deleted,
    /// Being written by compaction; worthless when it is left over.
    Cleaned,
    /// Written by compaction, to take the place of the live one: a broker that starts goes on with that.
    Swap,
}

impl FileState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Live, Self::Deleted, Self::Cleaned, Self::Swap];

    /// The suffix after the type's.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Live => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
        }
    }
}

/// The name of a segment's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentFile {
    /// The segment's base offset.
    pub base: Offset,
    /// What is in it.
    pub file_type: FileType,
    /// Whether it is in use.
    pub state: FileState,
}

impl SegmentFile {
    /// The name of a live file.
    pub const fn live(base: Offset, file_type: FileType) -> Self {
        Self { base, file_type, state: FileState::Live }
    }

    /// Reads a file's name; `None` when it isn't a segment's.
    pub fn parse(name: &str) -> Option<Self> {
        let (digits, suffixes) = name.split_at_checked(OFFSET_DIGITS)?;
        let base = Offset(padded_number(digits)?);
        let (file_type, state) = FileType::ALL.into_iter().find_map(|file_type| {
            let rest = suffixes.strip_prefix(file_type.suffix())?;
            let state = FileState::ALL.into_iter().find(|state| state.suffix() == rest)?;
            Some((file_type, state))
        })?;
        Some(Self { base, file_type, state })
    }
}

impl SegmentFile {
    /// The name of a segment's file of another type, beside a `.log` of this name that may be compressed.
    pub fn beside_log(name: &str, file_type: FileType) -> Option<Self> {
        let packed = PackedSegment::parse(name).map(|packed| Self::live(packed.base, FileType::Log));
        Self::parse(name).or(packed).map(|log| Self { file_type, ..log })
    }
}

impl fmt::Display for SegmentFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (base, width) = (self.base.0, OFFSET_DIGITS);
        write!(f, "{base:0width$}{}{}", self.file_type.suffix(), self.state.suffix())
    }
}

/// The name of a KRaft snapshot, in the directory of the metadata partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KraftSnapshot {
    /// The offset after the last one that it covers.
    pub end_offset: Offset,
    /// The epoch of the last record that it covers.
    pub epoch: LeaderEpoch,
    /// Whether it is in use; [`FileState::Live`] or [`FileState::Deleted`]. Half-written ones (`.part`) are no snapshots.
    pub state: FileState,
}

impl KraftSnapshot {
    /// Reads a file's name; `None` when it isn't a snapshot's.
    pub fn parse(name: &str) -> Option<Self> {
        let (end_offset, rest) = name.split_at_checked(OFFSET_DIGITS)?;
        let (epoch, suffix) = rest.strip_prefix('-')?.split_at_checked(EPOCH_DIGITS)?;
        let state = match suffix {
            ".checkpoint" => FileState::Live,
            ".checkpoint.deleted" => FileState::Deleted,
            _ => return None,
        };
        let epoch = LeaderEpoch(i32::try_from(padded_number(epoch)?).ok()?);
        Some(Self { end_offset: Offset(padded_number(end_offset)?), epoch, state })
    }
}

impl fmt::Display for KraftSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (end, epoch) = (self.end_offset.0, self.epoch.0);
        write!(f, "{end:0OFFSET_DIGITS$}-{epoch:0EPOCH_DIGITS$}.checkpoint{}", self.state.suffix())
    }
}

/// How a backup tool has compressed a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Packing {
    /// By gzip (RFC 1952).
    Gzip,
    /// By zstd (RFC 8878).
    Zstd,
}

impl Packing {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Gzip, Self::Zstd];

    /// The suffix that it adds.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
        }
    }

    /// The first bytes of such a file.
    pub const fn magic(self) -> &'static [u8] {
        match self {
            Self::Gzip => &[0x1f, 0x8b, 8],
            Self::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        }
    }
}

/// The name of a segment's `.log` that was compressed as a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PackedSegment {
    /// The segment's base offset.
    pub base: Offset,
    /// How it was compressed.
    pub packing: Packing,
}

impl PackedSegment {
    /// Reads a file's name; `None` when it isn't that of a compressed segment.
    pub fn parse(name: &str) -> Option<Self> {
        let strip = |packing: Packing| Some((packing, name.strip_suffix(packing.suffix())?));
        let (packing, name) = Packing::ALL.into_iter().find_map(strip)?;
        let file = SegmentFile::parse(name)?;
        let is_log = file.file_type == FileType::Log && file.state == FileState::Live;
        is_log.then_some(Self { base: file.base, packing })
    }
}

impl fmt::Display for PackedSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", SegmentFile::live(self.base, FileType::Log), self.packing.suffix())
    }
}

/// The name of a partition's directory in a store of LocalTieredStorage (KIP-405).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TieredDir {
    /// Topic and partition.
    pub partition: TopicPartition,
    /// The topic's id.
    pub topic_id: Uuid,
}

impl TieredDir {
    /// Reads a directory's name; `None` when it can't be a partition's. No name is that of an ordinary partition too: an
    /// id never ends in a digit.
    pub fn parse(name: &str) -> Option<Self> {
        let TieredTopicDir { topic: rest, topic_id } = TieredTopicDir::parse(name)?;
        let (topic, number) = rest.rsplit_once('-')?;
        let partition = TopicPartition { topic: topic.to_owned(), partition: canonical_number(number)? };
        is_valid_topic(topic).then_some(Self { partition, topic_id })
    }
}

impl fmt::Display for TieredDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.partition, self.topic_id)
    }
}

/// The name of a topic's directory in a store of Aiven's plugin, which holds a directory for each partition, named by
/// its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TieredTopicDir {
    /// The topic.
    pub topic: String,
    /// Its id.
    pub topic_id: Uuid,
}

impl TieredTopicDir {
    /// Reads a directory's name; `None` when it can't be a topic's.
    pub fn parse(name: &str) -> Option<Self> {
        let (rest, id) = name.split_at_checked(name.len().checked_sub(ID_LEN)?)?;
        let topic = rest.strip_suffix('-')?;
        is_valid_topic(topic).then_some(Self { topic: topic.to_owned(), topic_id: canonical_id(id)? })
    }

    /// The partition whose directory in it has this name.
    pub fn partition(&self, name: &str) -> Option<TopicPartition> {
        Some(TopicPartition { topic: self.topic.clone(), partition: canonical_number(name)? })
    }
}

impl fmt::Display for TieredTopicDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.topic_id)
    }
}

/// What a segment's file in a tiered store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TieredType {
    /// One of those that a broker has too.
    File(FileType),
    /// The leader epochs up to the segment's last one.
    LeaderEpochs,
    /// All indexes in one file (Aiven).
    Indexes,
    /// Where they are in it, and how the segment was stored (Aiven).
    RsmManifest,
}

impl TieredType {
    /// The suffix of such files, with its dot.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::File(file_type) => file_type.suffix(),
            Self::LeaderEpochs => ".leader_epoch_checkpoint",
            Self::Indexes => ".indexes",
            Self::RsmManifest => ".rsm-manifest",
        }
    }
}

/// The name of a segment's file in a tiered store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TieredFile {
    /// The segment's base offset.
    pub base: Offset,
    /// The segment's id: an upload that was begun again has another.
    pub segment_id: Uuid,
    /// What is in it.
    pub file_type: TieredType,
}

impl TieredFile {
    /// Reads a file's name; `None` when it isn't that of a tiered segment's file.
    pub fn parse(name: &str) -> Option<Self> {
        let (digits, rest) = name.split_at_checked(OFFSET_DIGITS)?;
        let (id, suffix) = rest.strip_prefix('-')?.split_at_checked(ID_LEN)?;
        let ours = [TieredType::LeaderEpochs, TieredType::Indexes, TieredType::RsmManifest];
        let mut types = FileType::ALL.into_iter().map(TieredType::File).chain(ours);
        let file_type = types.find(|file_type| file_type.suffix() == suffix)?;
        Some(Self { base: Offset(padded_number(digits)?), segment_id: canonical_id(id)?, file_type })
    }
}

impl fmt::Display for TieredFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0OFFSET_DIGITS$}-{}{}", self.base.0, self.segment_id, self.file_type.suffix())
    }
}

/// The name of a file in `remote-log-index-cache`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteIndexFile {
    /// The segment's first offset.
    pub start: Offset,
    /// The segment's id.
    pub segment_id: Uuid,
    /// Which index it is.
    pub file_type: FileType,
}

impl RemoteIndexFile {
    /// Reads a file's name; `None` when it isn't that of a cached index.
    pub fn parse(name: &str) -> Option<Self> {
        let (digits, rest) = name.split_once('_')?;
        let (id, suffix) = rest.split_at_checked(ID_LEN)?;
        let file_type = FileType::INDEXES.into_iter().find(|file_type| file_type.suffix() == suffix)?;
        let start: i64 = digits.parse().ok()?;
        let is_canonical = start >= 0 && start.to_string() == digits;
        is_canonical.then_some(Self { start: Offset(start), segment_id: canonical_id(id)?, file_type })
    }
}

impl fmt::Display for RemoteIndexFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}{}", self.start, self.segment_id, self.file_type.suffix())
    }
}

/// Characters of an id in a name.
const ID_LEN: usize = 22;

/// An id as Kafka prints it.
fn canonical_id(text: &str) -> Option<Uuid> {
    text.parse().ok().filter(|id: &Uuid| id.to_string() == text)
}

const OFFSET_DIGITS: usize = 20;
const EPOCH_DIGITS: usize = 10;

/// A number with leading zeros and no sign.
fn padded_number(digits: &str) -> Option<i64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok())?
}

/// A number as it is printed: no sign, no leading zeros, so that no two names mean one partition.
fn canonical_number(digits: &str) -> Option<i32> {
    let number: i32 = digits.parse().ok()?;
    (number.to_string() == digits && number >= 0).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

    fn dir(topic: &str, partition: i32, kind: Kind) -> PartitionDir {
        PartitionDir { partition: TopicPartition { topic: topic.to_owned(), partition }, kind }
    }

    #[test]
    fn directories_come_back() {
        let id = ID.to_owned();
        let names = [
            ("orders-3".to_owned(), dir("orders", 3, Kind::Current)),
            ("a.b_c-d-0-11".to_owned(), dir("a.b_c-d-0", 11, Kind::Current)),
            ("...-0".to_owned(), dir("...", 0, Kind::Current)),
            ("-x--0".to_owned(), dir("-x-", 0, Kind::Current)),
            ("x-delete-0".to_owned(), dir("x-delete", 0, Kind::Current)),
            ("__cluster_metadata-0".to_owned(), dir(METADATA_TOPIC, 0, Kind::Current)),
            ("@metadata-0".to_owned(), dir(METADATA_TOPIC_2_8, 0, Kind::Current)),
            (format!("my.topic-3.{ID}-delete"), dir("my.topic", 3, Kind::Delete { id: id.clone() })),
            (format!("my.topic-3.{ID}-future"), dir("my.topic", 3, Kind::Future { id: id.clone() })),
            (format!("my.topic-3.{ID}-stray"), dir("my.topic", 3, Kind::Stray { id })),
        ];
        for (name, parsed) in names {
            assert_eq!(PartitionDir::parse(&name).as_ref(), Some(&parsed), "{name}");
            assert_eq!(parsed.to_string(), name);
        }
    }

    #[test]
    fn other_directories_are_not_partitions() {
        let long = format!("{}-0", "x".repeat(250));
        for name in [
            "",
            "-",
            "orders",
            "orders-",
            "-3",
            "orders-03",
            "orders-+3",
            "orders--",
            "orders-2147483648",
            "lost+found",
            "my dir-1",
            "é-1",
            ".-0",
            "..-0",
            "remote-log-index-cache",
            "orders-3.-delete",
            "orders.x-delete",
            &long,
        ] {
            assert_eq!(PartitionDir::parse(name), None, "{name}");
        }
    }

    #[test]
    fn long_topics_are_cut_in_the_names_of_deleted_directories() {
        let topic = "t".repeat(MAX_TOPIC_LEN);
        let name = dir(&topic, 0, Kind::Delete { id: ID.to_owned() }).to_string();
        assert_eq!(name.len(), MAX_DIR_LEN);
        assert_eq!(PartitionDir::parse(&name).map(|dir| dir.partition.topic.len()), Some(213));
    }

    #[test]
    fn files_come_back() {
        for base in [Offset(0), Offset(42), Offset(i64::MAX)] {
            for (file_type, state) in
                FileType::ALL.into_iter().flat_map(|file| FileState::ALL.map(|state| (file, state)))
            {
                let file = SegmentFile { base, file_type, state };
                assert_eq!(SegmentFile::parse(&file.to_string()), Some(file));
            }
        }
        let live = SegmentFile::live(Offset(42), FileType::Log);
        assert_eq!(live.to_string(), "00000000000000000042.log");
    }

    #[test]
    fn other_files_are_not_segments() {
        for name in [
            "30.log",
            "x.log",
            "00000000000000000042",
            "00000000000000000042.log.bak",
            "00000000000000000042.txt",
            "000000000000000000042.log",
            "99999999999999999999.log",
            "-0000000000000000042.log",
            LEADER_EPOCHS,
            "00000000000000000042.log.deleted.swap",
            "+0000000000000000042.log",
            "0000000000000000004é.log",
        ] {
            assert_eq!(SegmentFile::parse(name), None, "{name}");
        }
    }

    #[test]
    fn kraft_snapshots_come_back() {
        for name in [
            "00000000000000000042-0000000007.checkpoint",
            "00000000000000000042-0000000007.checkpoint.deleted",
        ] {
            let snapshot = KraftSnapshot::parse(name).unwrap();
            assert_eq!((snapshot.end_offset, snapshot.epoch), (Offset(42), LeaderEpoch(7)));
            assert_eq!(snapshot.to_string(), name);
        }
        assert_eq!(KraftSnapshot::parse("00000000000000000042-0000000007-12.checkpoint.part"), None);
    }

    #[test]
    fn packed_segments_come_back() {
        for (name, packing) in
            [("00000000000000000042.log.gz", Packing::Gzip), ("00000000000000000042.log.zst", Packing::Zstd)]
        {
            let packed = PackedSegment::parse(name).unwrap();
            assert_eq!(packed, PackedSegment { base: Offset(42), packing });
            assert_eq!(packed.to_string(), name);
            let index = SegmentFile::beside_log(name, FileType::OffsetIndex).unwrap();
            assert_eq!(index.to_string(), "00000000000000000042.index");
        }
        for name in
            ["42.log.gz", "00000000000000000042.index.gz", "00000000000000000042.log.deleted.gz", ".gz"]
        {
            assert_eq!(PackedSegment::parse(name), None, "{name}");
        }
    }

    const SEGMENT_ID: &str = "_HR0nMFLTU6SXKbbxrmaew";

    #[test]
    fn directories_of_tiered_stores_come_back() {
        for (name, topic, partition) in [
            ("tier-0-cvoAGWZORPu0OBAxRN_ePg", "tier", 0),
            ("a-b.c-12-cvoAGWZORPu0OBAxRN-ePg", "a-b.c", 12),
            ("t-0--voAGWZORPu0OBAxRN_ePg", "t", 0),
        ] {
            let dir = TieredDir::parse(name).unwrap();
            assert_eq!(dir.partition, TopicPartition { topic: topic.to_owned(), partition });
            assert_eq!(dir.to_string(), name);
        }
        assert_eq!(PartitionDir::parse("tier-0-cvoAGWZORPu0OBAxRN_ePg"), None);
        let dir = TieredTopicDir::parse("tier-cut-hB28rkcTSNKly-7mcnDsfg").unwrap();
        assert_eq!(
            (dir.topic.as_str(), dir.to_string().as_str()),
            ("tier-cut", "tier-cut-hB28rkcTSNKly-7mcnDsfg")
        );
        assert_eq!(dir.partition("7").unwrap().to_string(), "tier-cut-7");
        assert_eq!((dir.partition("07"), dir.partition("x")), (None, None));
        for name in [
            "tier-0",
            "tier-0-cvoAGWZORPu0OBAxRN_eP",
            "tier-0-cvoAGWZORPu0OBAxRN_ePh",
            "é-0-cvoAGWZORPu0OBAxRN_ePg",
        ] {
            assert_eq!(TieredDir::parse(name), None, "{name}");
        }
    }

    #[test]
    fn files_of_tiered_stores_come_back() {
        for suffix in [
            "log",
            "index",
            "timeindex",
            "txnindex",
            "snapshot",
            "leader_epoch_checkpoint",
            "indexes",
            "rsm-manifest",
        ] {
            let name = format!("00000000000000000042-{SEGMENT_ID}.{suffix}");
            let file = TieredFile::parse(&name).unwrap();
            assert_eq!((file.base, file.segment_id.to_string().as_str()), (Offset(42), SEGMENT_ID));
            assert_eq!(file.to_string(), name);
        }
        for name in [
            "00000000000000000042.log",
            "00000000000000000042-0000000007.checkpoint",
            "42-_HR0nMFLTU6SXKbbxrmaew.log",
        ] {
            assert_eq!(TieredFile::parse(name), None, "{name}");
        }
        let name = format!("42_{SEGMENT_ID}.txnindex");
        let file = RemoteIndexFile::parse(&name).unwrap();
        assert_eq!((file.start, file.file_type, file.to_string()), (Offset(42), FileType::TxnIndex, name));
        for name in [
            format!("042_{SEGMENT_ID}.index"),
            format!("42_{SEGMENT_ID}.log"),
            format!("42-{SEGMENT_ID}.index"),
        ] {
            assert_eq!(RemoteIndexFile::parse(&name), None, "{name}");
        }
    }

    #[test]
    fn topic_names() {
        for name in ["a", "...", "a-b", "A_9.z", &"x".repeat(249)] {
            assert!(is_valid_topic(name), "{name}");
        }
        for name in ["", ".", "..", "a b", "a/b", "@metadata", "é", &"x".repeat(250)] {
            assert!(!is_valid_topic(name), "{name}");
        }
    }
}
