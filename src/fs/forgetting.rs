//! What the kernel keeps of a mount and is better without: pages beyond their share, and names of what is gone, which would hold
//! our nodes for as long as it has memory to spare.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::mpsc::{Receiver, channel};

use crate::fs::lookup::COMMITTED;
use crate::fs::mounted::{Fs, PartitionName};
use crate::fs::node::{Node, ROOT_INO};
use crate::log::files::page_cache::PageCache;
use crate::log::source::Tree;

/// Something that the kernel is to forget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forget {
    /// Bytes of an inode in its page cache.
    Pages(u64, Range<u64>),
    /// A name in a directory, and all below it.
    Name(u64, OsString),
}

impl Fs {
    /// What the kernel is to forget from now on, for one who can tell it.
    pub fn forgetting(&self) -> Receiver<Forget> {
        let (sender, receiver) = channel();
        let pages = sender.clone();
        PageCache::of_process().tell(move |ino, span| {
            let _ = pages.send(Forget::Pages(ino, span));
        });
        let _ = self.names_to_forget().set(sender);
        receiver
    }

    /// Partitions are gone that the kernel may know: so their names are, and those of topics without any.
    pub(super) fn forget_names(&self, gone: &[PartitionName], tree: &Tree) {
        let Some(sender) = self.names_to_forget().get() else { return };
        let mut names = BTreeSet::new();
        for (topic, label) in gone {
            if !tree.topics.contains_key(&**topic) {
                names.insert((ROOT_INO, OsString::from(&**topic)));
            } else if tree.partition(topic, label).is_none() {
                let parent = self.inodes().number(&Node::Topic(topic.clone()));
                names.insert((parent, OsString::from(&**label)));
                names.insert((parent, OsString::from(format!("{label}{COMMITTED}"))));
            }
        }
        for (parent, name) in names {
            let _ = sender.send(Forget::Name(parent, name));
        }
    }
}
