//! Topics that are made and removed in a directory that is ours.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};

use crate::format::names::{self, Kind, PartitionDir};
use crate::format::partition_metadata;
use crate::format::uuid::Uuid;
use crate::log::LogError;
use crate::log::append::active::write_empty;
use crate::log::append::owned::OwnedDirectory;
use crate::log::files;
use crate::log::files::disk::{self, Disk};
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
pub fn topic_id(partition: &Path) -> Option<Uuid> {
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
    /// Makes a partition: its directory with the topic's id and an empty segment, all durable before it gets its name. A crash
    /// before that leaves a directory with the name of one that waits for its removal: a broker removes it, and so does the next
    /// call for the same partition.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` when it is there.
    pub fn create_partition(&self, name: &TopicPartition, topic_id: Uuid) -> Result<PathBuf, LogError> {
        let (disk, parent) = (self.disk(), self.path());
        let _one_at_a_time = self.making();
        self.remove_unfinished(name)?;
        let to = parent.join(name.to_string());
        // Renaming would replace an empty directory.
        if to.symlink_metadata().is_ok() {
            return Err(disk::failed(&to, "create", std::io::Error::from_raw_os_error(libc::EEXIST)));
        }
        let made = parent.join(deleted_dir(name).to_string());
        disk.create_directory(&made).map_err(|error| disk::failed(&made, "create", error))?;
        let metadata = partition_metadata::format(topic_id);
        disk::replace(disk, &made.join(names::PARTITION_METADATA), metadata.as_bytes())?;
        write_empty(disk, &made, Offset(0))?;
        disk::sync_directory(disk, &made)?;
        // Of one that had this name before: a broker would empty a log that ends before its start.
        self.write_down(|written| written.forget(name))?;
        disk.rename(&made, &to).map_err(|error| disk::failed(&to, "create", error))?;
        disk::sync_directory(disk, parent)?;
        Ok(to)
    }

    /// Removes what an interrupted [`Self::create_partition`] has left, or the end of an interrupted removal: directories that wait
    /// for their removal and have no record.
    fn remove_unfinished(&self, name: &TopicPartition) -> Result<(), LogError> {
        let parent = self.path();
        let entries = std::fs::read_dir(parent).map_err(|error| LogError::io(parent, "list", error))?;
        for entry in entries.flatten() {
            let parsed = entry.file_name().to_str().and_then(PartitionDir::parse);
            let is_unfinished = parsed.is_some_and(|directory| {
                directory.partition == *name && matches!(directory.kind, Kind::Delete { .. })
            });
            if is_unfinished && is_empty(&entry.path()) {
                remove_all(self.disk(), &entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes a partition: first it gets the name that a broker gives those that wait for their removal, which is durable before any
    /// of its files goes.
    ///
    /// # Errors
    /// The system's.
    pub fn delete_partition(&self, name: &TopicPartition) -> Result<(), LogError> {
        let disk = self.disk();
        let _paused = self.pause_upkeep();
        self.retire(name);
        let from = self.path().join(name.to_string());
        let to = self.path().join(deleted_dir(name).to_string());
        disk.rename(&from, &to).map_err(|error| disk::failed(&from, "rename", error))?;
        let parent = self.path();
        disk::sync_directory(disk, parent)?;
        self.write_down(|written| written.forget(name))?;
        remove_all(disk, &to)
    }
}

/// Whether a directory is one of a partition without records.
fn is_empty(directory: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(directory) else { return false };
    let has_no_record = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let is_log = entry.path().extension().is_some_and(|extension| extension == "log");
        let metadata = entry.metadata().ok()?;
        Some(metadata.is_file() && !(is_log && metadata.len() > 0))
    };
    entries.all(|entry| has_no_record(entry) == Some(true))
}

/// Removes a partition's directory and its files.
fn remove_all(disk: &dyn Disk, directory: &Path) -> Result<(), LogError> {
    let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
    for entry in entries.flatten() {
        disk::remove_if_there(disk, &entry.path())?;
    }
    disk.remove_directory(directory).map_err(|error| disk::failed(directory, "remove", error))
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
