//! The directories of a tiered store (KIP-405), read as partitions.
//!
//! | layout | of |
//! |---|---|
//! | `TOPIC-PARTITION-TOPICID/BASE-SEGMENTID.log` | Kafka's LocalTieredStorage |
//! | `TOPIC-TOPICID/PARTITION/BASE-SEGMENTID.log` | Aiven's plugin |
//!
//! Such a store knows neither log starts nor high watermarks: all that is in it is shown.

use std::path::{Path, PathBuf};

use crate::format::names::{TieredDir, TieredTopicDir};
use crate::format::uuid::Uuid;
use crate::units::TopicPartition;

/// A partition's directory in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TieredPartition {
    /// Its topic and number.
    pub partition: TopicPartition,
    /// Its topic's id: a topic that was made again has another.
    pub topic_id: Uuid,
    /// Its directory.
    pub path: PathBuf,
}

/// The partitions that a directory is or holds; `None` when its name is not that of a store's directory.
pub fn partitions(path: &Path) -> Option<Vec<TieredPartition>> {
    let topic = TieredTopicDir::parse(name_of(path)?)?;
    let mut found: Vec<TieredPartition> = Vec::new();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let partition = entry.file_name().to_str().and_then(|name| topic.partition(name));
        if let Some(partition) = partition.filter(|_| is_dir) {
            found.push(TieredPartition { partition, topic_id: topic.topic_id, path: entry.path() });
        }
    }
    found.sort_by_key(|found| found.partition.partition);
    if found.is_empty() {
        found.extend(of_directory(path));
    }
    Some(found)
}

/// The partition that a directory is, by its own name or by that of the directory around it.
pub fn of_directory(path: &Path) -> Option<TieredPartition> {
    let name = name_of(path)?;
    let path = path.to_owned();
    if let Some(TieredDir { partition, topic_id }) = TieredDir::parse(name) {
        return Some(TieredPartition { partition, topic_id, path });
    }
    let topic = TieredTopicDir::parse(name_of(path.parent()?)?)?;
    Some(TieredPartition { partition: topic.partition(name)?, topic_id: topic.topic_id, path })
}

fn name_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}
