//! The files at the top of a data directory, and what its checkpoints say of each partition.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::format::names::{self, METADATA_TOPIC, METADATA_TOPIC_2_8};
use crate::log::problem::{Kind, Problem};
use crate::log::verify::small;
use crate::units::{Offset, TopicPartition};

/// Topics that are compacted in every cluster.
const COMPACTED_TOPICS: [&str; 3] = ["__consumer_offsets", "__transaction_state", "__share_group_state"];

/// What a data directory says of its partitions.
#[derive(Debug, Default)]
pub(super) struct DataDirectory {
    /// Whether the broker stopped in order, so that all is as it meant it to be.
    pub(super) is_clean: bool,
    /// Whether a KRaft broker from 3.7 on wrote it: then each partition has its topic's id.
    has_directory_id: bool,
    checkpoints: Vec<OffsetCheckpoint>,
}

/// An offset checkpoint that could be read.
#[derive(Debug)]
struct OffsetCheckpoint {
    name: &'static str,
    path: PathBuf,
    bytes: Vec<u8>,
    offsets: BTreeMap<TopicPartition, Offset>,
}

/// What is known of compaction of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compaction {
    /// It was compacted.
    Done,
    /// The cleaner never came.
    Never,
    /// It can't be told.
    Unknown,
}

impl DataDirectory {
    /// Reads the top of a data directory; with what is wrong there.
    pub(super) fn read(path: &Path) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let is_clean = path.join(names::CLEAN_SHUTDOWN).exists();
        let mut directory = Self { is_clean, ..Self::default() };
        let meta = path.join(names::META_PROPERTIES);
        match small::read(&meta) {
            Ok(Some(bytes)) => match small::meta_properties(&meta, &bytes) {
                Ok(meta) => directory.has_directory_id = meta.directory_id.is_some(),
                Err(problem) => problems.push(problem),
            },
            Ok(None) if has_topic_ids(path) => problems.push(Problem::of_file(
                &meta,
                Kind::Missing,
                "there is no such file; a KRaft broker refuses the directory until it is formatted",
            )),
            Ok(None) => {}
            Err(problem) => problems.push(problem),
        }
        for name in names::OFFSET_CHECKPOINTS {
            match OffsetCheckpoint::read(path, name) {
                Ok(checkpoint) => directory.checkpoints.extend(checkpoint),
                Err(problem) => problems.push(problem),
            }
        }
        problems.extend(half_written(path));
        (directory, problems)
    }

    /// Whether compaction may have made gaps in a partition.
    pub(super) fn compaction(&self, partition: &TopicPartition) -> Compaction {
        if COMPACTED_TOPICS.contains(&partition.topic.as_str()) {
            return Compaction::Done;
        }
        let cleaner = self.checkpoints.iter().find(|checkpoint| checkpoint.name == names::CLEANER_OFFSETS);
        match cleaner {
            Some(cleaner) if cleaner.offsets.contains_key(partition) => Compaction::Done,
            Some(_) => Compaction::Never,
            None => Compaction::Unknown,
        }
    }

    /// Whether a partition's topic must have an id.
    pub(super) fn needs_topic_id(&self, partition: &TopicPartition) -> bool {
        self.has_directory_id && ![METADATA_TOPIC, METADATA_TOPIC_2_8].contains(&partition.topic.as_str())
    }

    /// Offsets in the checkpoints that lie behind the end of a partition's log. Only the log start offset is always up
    /// to date; the others are after an orderly stop.
    pub(super) fn behind(&self, partition: &TopicPartition, end: Offset) -> Vec<Problem> {
        let mut problems = Vec::new();
        for checkpoint in &self.checkpoints {
            let is_told = self.is_clean || checkpoint.name == names::LOG_STARTS;
            let Some(offset) = checkpoint.offsets.get(partition).filter(|offset| is_told && **offset > end)
            else {
                continue;
            };
            let means = match checkpoint.name {
                names::RECOVERY_POINTS => "recovery point: what is below it had been written to the disk",
                names::HIGH_WATERMARKS => "high watermark: what is below it had been replicated",
                names::LOG_STARTS => "log start offset: a broker that starts empties the log",
                _ => "first offset to compact: a broker begins anew",
            };
            let cause = format!("{partition}: {offset}, the log ends at {end}; this is the {means}");
            let (position, len) = small::place_of_partition(&checkpoint.bytes, partition);
            let problem = Problem::of_file(&checkpoint.path, Kind::Checkpoint, cause);
            problems.push(problem.at(position, len).about(*offset));
        }
        problems
    }
}

impl OffsetCheckpoint {
    fn read(directory: &Path, name: &'static str) -> Result<Option<Self>, Problem> {
        let path = directory.join(name);
        let Some(bytes) = small::read(&path)? else { return Ok(None) };
        let offsets = small::offsets(&path, &bytes)?;
        Ok(Some(Self { name, path, bytes, offsets }))
    }
}

/// Whether some partition has its topic's id, as all have in KRaft mode.
fn has_topic_ids(path: &Path) -> bool {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().join(names::PARTITION_METADATA).exists())
}

/// Checkpoints that were being written when a broker was stopped.
fn half_written(path: &Path) -> Vec<Problem> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_half = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let whole = name.to_str().and_then(|name| name.strip_suffix(".tmp")).unwrap_or_default();
        names::OFFSET_CHECKPOINTS.contains(&whole) || whole == names::META_PROPERTIES
    };
    let told = |entry: std::fs::DirEntry| {
        Problem::of_file(&entry.path(), Kind::Leftover, "half written when a broker was stopped")
    };
    entries.filter(is_half).map(told).collect()
}
