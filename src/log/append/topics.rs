//! Topics that are made and removed in a directory that is ours.

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

use crate::format::names::{self, FileType, Kind, PartitionDir};
use crate::format::partition_metadata;
use crate::format::uuid::Uuid;
use crate::log::LogError;
use crate::log::append::active::path;
use crate::log::append::owned::OwnedDirectory;
use crate::log::files;
use crate::log::files::disk;
use crate::units::{Offset, TopicPartition};

/// The largest `partition.metadata` that is read.
const MAX_METADATA_BYTES: u64 = 64 * 1024;

/// Why a topic or partition can't be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum TopicError {
    /// Kafka has no such topics.
    #[error("{name:?} is no name of a topic: 1 to 249 letters, digits, dots, underscores and hyphens")]
    Name {
        /// The name.
        name: String,
    },
    /// Kafka's metrics would take both for one.
    #[error("{name:?} collides with {other:?}: Kafka takes dots for underscores in names of metrics")]
    Collision {
        /// The name.
        name: String,
        /// The topic that is there.
        other: String,
    },
    /// The system's.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Checks the name of a new topic beside those that there are.
///
/// # Errors
/// What is wrong with it.
pub fn check_name<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Result<(), TopicError> {
    if !names::is_valid_topic(name) {
        return Err(TopicError::Name { name: name.to_owned() });
    }
    let same = |other: &&str| *other != name && other.replace('.', "_") == name.replace('.', "_");
    match { others }.find(same) {
        Some(other) => Err(TopicError::Collision { name: name.to_owned(), other: other.to_owned() }),
        None => Ok(()),
    }
}

/// The topic's id, as one of its partitions has it.
pub fn topic_id(partition: &std::path::Path) -> Option<Uuid> {
    let bytes = files::read_small(&partition.join(names::PARTITION_METADATA), MAX_METADATA_BYTES).ok()?;
    partition_metadata::parse(&bytes).ok()
}

/// A new topic's id: random, in the form of version 4, and none that begins with a hyphen as text.
pub fn new_topic_id() -> Uuid {
    loop {
        let half = |number: u64| RandomState::new().hash_one(number).to_be_bytes();
        let (high, low) = (half(1), half(2));
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high);
        bytes[8..].copy_from_slice(&low);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let id = Uuid(bytes);
        if !id.to_string().starts_with('-') {
            return id;
        }
    }
}

impl OwnedDirectory {
    /// Makes a partition: its directory with the topic's id and an empty segment, all durable. A crash before the end leaves a
    /// directory under another name, which the next one removes.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` when it is there.
    pub fn create_partition(&self, name: &TopicPartition, topic_id: Uuid) -> Result<PathBuf, LogError> {
        let (disk, to) = (self.disk(), self.path().join(name.to_string()));
        disk.create_directory(&to).map_err(|error| disk::failed(&to, "create", error))?;
        let metadata = partition_metadata::format(topic_id);
        disk::replace(disk, &to.join(names::PARTITION_METADATA), metadata.as_bytes())?;
        for file_type in [FileType::OffsetIndex, FileType::TimeIndex, FileType::Log] {
            disk::replace(disk, &path(&to, Offset(0), file_type), &[])?;
        }
        for directory in [&*to, self.path()] {
            disk.sync_directory(directory).map_err(|error| disk::failed(directory, "sync", error))?;
        }
        Ok(to)
    }

    /// Removes a partition: first it gets the name that a broker gives those that wait for their removal, which is durable before any
    /// of its files goes.
    ///
    /// # Errors
    /// The system's.
    pub fn delete_partition(&self, name: &TopicPartition) -> Result<(), LogError> {
        let disk = self.disk();
        self.forget(name);
        let from = self.path().join(name.to_string());
        let to = self.path().join(deleted_dir(name).to_string());
        disk.rename(&from, &to).map_err(|error| disk::failed(&from, "rename", error))?;
        let parent = self.path();
        disk.sync_directory(parent).map_err(|error| disk::failed(parent, "sync", error))?;
        let entries = std::fs::read_dir(&to).map_err(|error| LogError::io(&to, "list", error))?;
        for entry in entries.flatten() {
            disk::remove_if_there(disk, &entry.path())?;
        }
        disk.remove_directory(&to).map_err(|error| disk::failed(&to, "remove", error))
    }
}

/// The name of a directory that waits for its removal.
fn deleted_dir(name: &TopicPartition) -> PartitionDir {
    let random = RandomState::new();
    let id = format!("{:016x}{:016x}", random.hash_one(1), random.hash_one(2));
    PartitionDir { partition: name.clone(), kind: Kind::Delete { id } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::names::MAX_DIR_LEN;

    #[test]
    fn names_are_kafkas_and_collide_as_kafka_says() {
        let topics = ["a.b", "orders"];
        let check = |name| check_name(name, topics.into_iter()).map_err(|error| error.to_string());
        assert_eq!(check("orders-2"), Ok(()));
        assert!(check("a_b").unwrap_err().contains("collides with \"a.b\""));
        for bad in ["", ".", "..", "a b", "ä", "a/b", &"x".repeat(250)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_deleted_partition_has_a_name_that_kafka_parses() {
        let name = TopicPartition { topic: "x".repeat(249), partition: 11 };
        let text = deleted_dir(&name).to_string();
        assert_eq!(text.len(), MAX_DIR_LEN);
        assert!(matches!(PartitionDir::parse(&text).unwrap().kind, Kind::Delete { .. }));
    }

    #[test]
    fn ids_are_kafkas() {
        let id = new_topic_id().to_string();
        assert_eq!((id.len(), id.parse::<Uuid>().is_ok()), (22, true));
        assert_ne!(new_topic_id(), new_topic_id());
    }
}
