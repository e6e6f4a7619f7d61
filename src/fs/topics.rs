//! Topics and partitions that are made and removed as directories, in mounts for appending.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::format::names;
use crate::format::properties::MetaProperties;
use crate::fs::appending::Writing;
use crate::fs::error::FsError;
use crate::fs::mounted::Fs;
use crate::fs::node::Node;
use crate::log::append::owned::OwnedDirectory;
use crate::log::append::topics;
use crate::log::files;
use crate::log::partition::{Origin, Partition};
use crate::units::TopicPartition;

/// The largest `meta.properties` that is read.
const MAX_PROPERTIES_BYTES: u64 = 64 * 1024;

/// The cluster that a data directory belongs to, if it says one.
pub fn cluster_of(directory: &OwnedDirectory) -> Option<String> {
    let bytes =
        files::read_small(&directory.path().join(names::META_PROPERTIES), MAX_PROPERTIES_BYTES).ok()?;
    MetaProperties::parse(&bytes).ok()?.cluster_id
}

impl Fs {
    /// Makes a topic with one partition, in the root, or a topic's next partition, in the topic.
    ///
    /// # Errors
    /// [`FsError::Refused`] where it can't be made, [`FsError::Topic`] for a bad name.
    pub fn create_directory(&self, parent: u64, name: &OsStr) -> Result<(), FsError> {
        let writing = self.writing().ok_or(FsError::ReadOnly)?;
        let parent = self.inodes().get(parent)?;
        let text = name.to_str().unwrap_or_default();
        match &*parent {
            Node::Root => self.create_topic(writing, text),
            Node::Topic(topic) => self.create_next(writing, topic, text),
            _ => Err(FsError::Refused {
                reason: "directories can be made here: topics, and partitions in them".to_owned(),
            }),
        }
    }

    /// Removes a topic, or the last of its partitions.
    ///
    /// # Errors
    /// [`FsError::Refused`] where it can't be removed.
    pub fn remove_directory(&self, parent: u64, name: &OsStr) -> Result<(), FsError> {
        let writing = self.writing().ok_or(FsError::ReadOnly)?;
        let parent = self.inodes().get(parent)?;
        let text = name.to_str().ok_or(FsError::NotFound)?;
        let topic = match &*parent {
            Node::Root => text,
            Node::Topic(topic) => topic,
            _ => return Err(refused("only topics and partitions can be removed")),
        };
        let partitions = self.current(topic);
        if !self.options().allow_delete {
            return Err(refused("topics are removed with allow_delete=true only"));
        }
        self.check_cluster(writing)?;
        let gone: Vec<_> = match &*parent {
            Node::Root => partitions,
            _ => {
                let last = partitions.last().filter(|last| last.label == text);
                vec![last.cloned().ok_or_else(|| refused("only a topic's last partition can be removed"))?]
            }
        };
        if gone.is_empty() {
            return Err(FsError::NotFound);
        }
        for partition in gone.iter().rev() {
            let Origin::Directory(path) = &partition.origin else { continue };
            let owned = writing.directory_of(path).ok_or(FsError::ReadOnly)?;
            owned.delete_partition(&partition.name)?;
        }
        Ok(())
    }

    fn create_topic(&self, writing: &Writing, topic: &str) -> Result<(), FsError> {
        let tree = self.source().tree();
        if tree.topics.contains_key(topic) {
            return Err(FsError::Exists);
        }
        topics::check_name(topic, tree.topics.keys().map(String::as_str))?;
        self.check_cluster(writing)?;
        let name = TopicPartition { topic: topic.to_owned(), partition: 0 };
        emptiest(writing, &self.directories_in_use())?.create_partition(&name, topics::new_topic_id())?;
        Ok(())
    }

    fn create_next(&self, writing: &Writing, topic: &str, label: &str) -> Result<(), FsError> {
        let partitions = self.current(topic);
        let next = partitions.last().map_or(0, |last| last.name.partition.saturating_add(1));
        if partitions.iter().any(|partition| partition.label == label) {
            return Err(FsError::Exists);
        }
        if label != next.to_string() {
            return Err(FsError::BadPartition { next });
        }
        self.check_cluster(writing)?;
        let id = partitions.iter().find_map(|partition| topics::topic_id(partition.origin.path()));
        let name = TopicPartition { topic: topic.to_owned(), partition: next };
        let directory = emptiest(writing, &self.directories_in_use())?;
        directory.create_partition(&name, id.unwrap_or_else(topics::new_topic_id))?;
        Ok(())
    }

    /// A topic's partitions but for leftovers, by number.
    fn current(&self, topic: &str) -> Vec<Arc<Partition>> {
        let is_current =
            |partition: &&Arc<Partition>| partition.label == partition.name.partition.to_string();
        let tree = self.source().tree();
        tree.topics.get(topic).into_iter().flatten().filter(is_current).cloned().collect()
    }

    /// The directories of all partitions.
    fn directories_in_use(&self) -> Vec<Arc<Partition>> {
        self.source().tree().topics.values().flatten().cloned().collect()
    }

    /// The metadata of a cluster says which topics there are: a KRaft broker sets others aside.
    fn check_cluster(&self, writing: &Writing) -> Result<(), FsError> {
        let cluster = writing.directories().iter().find_map(|directory| cluster_of(directory));
        match cluster {
            Some(id) if !self.options().allow_cluster_topics => Err(FsError::Refused {
                reason: format!(
                    "the directory belongs to cluster {id}, whose metadata says which topics there are: a broker sets others aside as \
                     -stray; allow_cluster_topics=true makes and removes them all the same"
                ),
            }),
            _ => Ok(()),
        }
    }
}

/// The directory with the fewest partitions, where Kafka puts new ones.
fn emptiest<'a>(
    writing: &'a Writing,
    partitions: &[Arc<Partition>],
) -> Result<&'a Arc<OwnedDirectory>, FsError> {
    let count = |directory: &&Arc<OwnedDirectory>| {
        let is_in = |partition: &&Arc<Partition>| partition.origin.path().parent() == Some(directory.path());
        partitions.iter().filter(is_in).count()
    };
    writing.directories().iter().min_by_key(count).ok_or(FsError::ReadOnly)
}

fn refused(reason: &str) -> FsError {
    FsError::Refused { reason: reason.to_owned() }
}
