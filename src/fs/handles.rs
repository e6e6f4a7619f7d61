//! Open files and directories. What a handle holds is small: content is read again, or comes from bounded caches.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::fs::appending::AppendFile;
use crate::fs::by_key::KeyListing;
use crate::fs::caching::Reading;
use crate::fs::error::FsError;
use crate::fs::follow::FollowFile;
use crate::fs::manifest::ManifestText;
use crate::fs::metrics::topics::TopicCounts;
use crate::fs::node::Node;
use crate::log::files::SourceFile;
use crate::view::ahead::Reader;
use crate::view::dump::file::DumpFile;
use crate::view::filtered::Filtered;
use crate::view::key_history::KeyHistory;
use crate::view::merged::Merged;
use crate::view::partition_view::PartitionView;
use crate::view::selection::Selection;

/// What an open file or directory needs.
#[derive(Debug, Clone)]
pub enum Content {
    /// Rendered records; the source file is kept readable where that is promised.
    Selection(Arc<Selection>, Option<Arc<SourceFile>>),
    /// Rendered records that pass a filter.
    Filtered(Arc<Filtered>),
    /// Records of several partitions.
    Merged(Arc<Merged>),
    /// Records as they come.
    Follow(Arc<FollowFile>),
    /// An append file.
    Append(Arc<AppendFile>),
    /// A dump.
    Dump(Arc<DumpFile>),
    /// Records of a partition that are not to be trusted.
    Suspects(Arc<PartitionView>),
    /// All records of a key.
    KeyHistory(Arc<KeyHistory>),
    /// A small file as it was at open.
    Bytes(Arc<Vec<u8>>),
    /// A source file.
    Source(Arc<SourceFile>),
    /// Lines that are made as they are read.
    Manifest(Arc<ManifestText>),
    /// A directory as it was at open.
    Directory(Arc<Vec<Entry>>),
    /// The keys of a partition as they were at open.
    Keys(Arc<KeyListing>),
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The inode number.
    pub ino: u64,
    /// The name.
    pub name: OsString,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// An open file or directory.
#[derive(Debug)]
pub struct Handle {
    /// Its inode number.
    pub ino: u64,
    /// Its node.
    pub node: Arc<Node>,
    /// Its content.
    pub content: Content,
    /// How the kernel reads it.
    pub reading: Reading,
    /// Who reads it.
    pub reader: Reader,
    /// Where what is read of it is counted.
    pub counts: Arc<TopicCounts>,
}

/// All of them by number.
#[derive(Debug, Default)]
pub struct Handles {
    state: Mutex<(u64, HashMap<u64, Arc<Handle>>)>,
}

impl Handles {
    /// Keeps a handle; its number.
    pub fn add(&self, handle: Handle) -> u64 {
        let mut state = self.lock();
        state.0 += 1;
        let number = state.0;
        state.1.insert(number, Arc::new(handle));
        number
    }

    /// The handle with a number.
    ///
    /// # Errors
    /// [`FsError::UnknownHandle`].
    pub fn get(&self, number: u64) -> Result<Arc<Handle>, FsError> {
        self.lock().1.get(&number).cloned().ok_or(FsError::UnknownHandle)
    }

    /// The content of some handle that is wanted.
    pub fn content_of(&self, is_wanted: impl Fn(&Handle) -> bool) -> Option<Content> {
        self.lock().1.values().find(|handle| is_wanted(handle)).map(|handle| handle.content.clone())
    }

    /// How long a small file is for those who have it open, if it is the same for all of them.
    pub fn len_of_bytes(&self, ino: u64) -> Option<u64> {
        let state = self.lock();
        let mut lens =
            state.1.values().filter(|handle| handle.ino == ino).map(|handle| match &handle.content {
                Content::Bytes(bytes) => Some(bytes.len() as u64),
                _ => None,
            });
        let first = lens.next()?;
        if lens.all(|len| len == first) { first } else { None }
    }

    /// How many of each kind are open.
    pub fn count(&self) -> [(&'static str, u64); 4] {
        let (mut directories, mut follows, mut appends, mut files) = (0, 0, 0, 0);
        for handle in self.lock().1.values() {
            *match handle.content {
                Content::Directory(_) | Content::Keys(_) => &mut directories,
                Content::Follow(_) => &mut follows,
                Content::Append(_) => &mut appends,
                _ => &mut files,
            } += 1;
        }
        [("file", files), ("directory", directories), ("follow", follows), ("append", appends)]
    }

    /// Gives up what is made ahead of readers that have not come for so long.
    pub fn expire_readers(&self, idle: Duration) {
        let handles: Vec<_> = self.lock().1.values().cloned().collect();
        handles.iter().for_each(|handle| handle.reader.expire(idle));
    }

    /// Drops a handle and returns it.
    pub fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        self.lock().1.remove(&number)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, HashMap<u64, Arc<Handle>>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
