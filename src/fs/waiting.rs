//! What requests had better wait for, without holding a thread that serves: indexes, and reading a great deal of the source.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::fs::by_key::README;
use crate::fs::error::{FsError, again};
use crate::fs::handles::Content;
use crate::fs::key_names;
use crate::fs::measuring::{Measurable, Measurement};
use crate::fs::mounted::Fs;
use crate::fs::node::{AllItem, Item, Node, PartitionKey};
use crate::fs::time_names::instant;
use crate::log::moment::Moment;

/// Source bytes that a request may read before it is answered.
const NEAR_BYTES: u64 = 16 * 1024 * 1024;

impl Fs {
    /// What looking `name` up in the directory `parent` had better wait for: the building of an index, or the finding of a time.
    ///
    /// # Errors
    /// Those of listing.
    pub fn before_lookup(&self, parent: u64, name: &OsStr) -> Result<Option<Arc<Measurement>>, FsError> {
        let _moment = Moment::begin();
        let parent = self.inodes().get(parent)?;
        match &*parent {
            Node::Of(key, Item::ByKey)
                if name != README && key_names::parse(name.as_encoded_bytes(), self.formats()).is_some() =>
            {
                self.building(key)
            }
            Node::OfAll(key, AllItem::ByKey) if name != README => {
                // They are built one after another, so that the last one is what there is to wait for.
                let mut last = None;
                for label in self.partitions_of(&key.topic) {
                    last = self.building(&self.partition_key(key, &label))?.or(last);
                }
                Ok(last)
            }
            Node::Of(key, Item::Offsets) => self.finding_time(key, name.to_str().unwrap_or_default()),
            _ => Ok(None),
        }
    }

    /// The same for opening the directory `ino`.
    ///
    /// # Errors
    /// Those of listing.
    pub fn before_opendir(&self, ino: u64) -> Result<Option<Arc<Measurement>>, FsError> {
        let node = self.inodes().get(ino)?;
        match &*node {
            Node::Of(key, Item::ByKey) if self.lists_keys(key) => self.building(key),
            _ => Ok(None),
        }
    }

    /// The same for a read at `at`: what lies far behind all that was read so far is found first.
    ///
    /// # Errors
    /// Those of reading.
    pub fn before_read(&self, handle: u64, at: u64) -> Result<Option<Arc<Measurement>>, FsError> {
        let handle = self.handles().get(handle)?;
        let reaching = match &handle.content {
            Content::Selection(selection, _) if !selection.is_near(at, NEAR_BYTES) => {
                Measurable::Selection(selection.clone())
            }
            Content::Filtered(filtered) if !again(|| Ok(filtered.is_near(at, NEAR_BYTES)?))? => {
                Measurable::Filtered(filtered.clone())
            }
            Content::Merged(merged) if !merged.is_near(at, NEAR_BYTES) => Measurable::Merged(merged.clone()),
            _ => return Ok(None),
        };
        Ok(Some(self.measuring().begin(number(&(handle.ino, at)), Measurable::Reach(Box::new(reaching), at))))
    }

    fn building(&self, key: &PartitionKey) -> Result<Option<Arc<Measurement>>, FsError> {
        let view = self.view(key)?;
        if !view.is_key_index_far()? {
            return Ok(None);
        }
        // One for the partition, however it is looked at.
        let directory = Node::Of(PartitionKey { committed: false, ..key.clone() }, Item::ByKey);
        Ok(Some(self.measuring().begin(self.inodes().number(&directory), Measurable::Keys(view))))
    }

    fn finding_time(&self, key: &PartitionKey, name: &str) -> Result<Option<Arc<Measurement>>, FsError> {
        let Some(time) = instant(name, &self.clock(&key.topic, None)) else { return Ok(None) };
        let view = self.view(key)?;
        if view.first_at_cost(key.committed, time)? <= NEAR_BYTES {
            return Ok(None);
        }
        // Relative times are another one each time: whoever asks for one waits for all that began with it.
        let begun = number(&(key, name));
        Ok(Some(self.measuring().begin(begun, Measurable::Time(view, key.committed, time))))
    }
}

/// A number for what is measured.
fn number(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
