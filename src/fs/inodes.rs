//! The nodes that the kernel knows, counted as it counts them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::fs::error::FsError;
use crate::fs::node::{Node, ROOT_INO};

/// Nodes by inode number, with the kernel's lookup counts.
#[derive(Debug)]
pub struct Inodes {
    known: Mutex<HashMap<u64, Known>>,
}

/// A node, how often it was looked up, and how many have it open.
#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    lookups: u64,
    opens: u64,
}

impl Default for Inodes {
    fn default() -> Self {
        let root = Known { node: Arc::new(Node::Root), lookups: 1, opens: 0 };
        Self { known: Mutex::new(HashMap::from([(ROOT_INO, root)])) }
    }
}

impl Inodes {
    /// The number of `node`, looked up once more.
    pub fn look_up(&self, node: Node) -> u64 {
        let mut known = self.lock();
        let ino = number(&known, &node);
        known.entry(ino).or_insert_with(|| Known { node: Arc::new(node), lookups: 0, opens: 0 }).lookups += 1;
        ino
    }

    /// The number that `node` has or would have, for listings.
    pub fn number(&self, node: &Node) -> u64 {
        number(&self.lock(), node)
    }

    /// The node with number `ino`.
    ///
    /// # Errors
    /// [`FsError::UnknownHandle`] when the kernel was never told of it.
    pub fn get(&self, ino: u64) -> Result<Arc<Node>, FsError> {
        self.lock().get(&ino).map(|known| known.node.clone()).ok_or(FsError::UnknownHandle)
    }

    /// How many nodes the kernel knows.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Takes `count` lookups back; a node without any is forgotten.
    pub fn forget(&self, ino: u64, count: u64) {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(&ino) {
            known.lookups = known.lookups.saturating_sub(count);
            if known.lookups == 0 && known.opens == 0 && ino != ROOT_INO {
                all.remove(&ino);
            }
        }
    }

    /// Counts an open; returns how many there are now.
    pub fn opened(&self, ino: u64) -> u64 {
        self.lock().get_mut(&ino).map_or(0, |known| {
            known.opens += 1;
            known.opens
        })
    }

    /// Counts a release; returns how many opens are left.
    pub fn released(&self, ino: u64) -> u64 {
        let mut all = self.lock();
        let Some(known) = all.get_mut(&ino) else { return 0 };
        known.opens = known.opens.saturating_sub(1);
        let (opens, lookups) = (known.opens, known.lookups);
        if opens == 0 && lookups == 0 && ino != ROOT_INO {
            all.remove(&ino);
        }
        opens
    }

    /// How many have `ino` open.
    pub fn opens(&self, ino: u64) -> u64 {
        self.lock().get(&ino).map_or(0, |known| known.opens)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number(known: &HashMap<u64, Known>, node: &Node) -> u64 {
    let mut attempt = 0;
    loop {
        let ino = node.ino(attempt);
        if known.get(&ino).is_none_or(|other| *other.node == *node) {
            return ino;
        }
        attempt += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_number_until_it_is_forgotten_and_the_same_after() {
        let inodes = Inodes::default();
        let first = inodes.look_up(Node::Readme);
        assert_eq!(inodes.look_up(Node::Readme), first);
        assert_ne!(inodes.look_up(Node::Control), first);
        inodes.forget(first, 1);
        assert_eq!(*inodes.get(first).unwrap(), Node::Readme);
        inodes.forget(first, 1);
        assert!(matches!(inodes.get(first), Err(FsError::UnknownHandle)));
        assert_eq!(inodes.look_up(Node::Readme), first);
    }

    #[test]
    fn an_open_node_outlives_its_lookups_and_the_root_outlives_all() {
        let inodes = Inodes::default();
        let ino = inodes.look_up(Node::Readme);
        assert_eq!(inodes.opened(ino), 1);
        inodes.forget(ino, 1);
        assert!(inodes.get(ino).is_ok());
        assert_eq!(inodes.released(ino), 0);
        assert!(inodes.get(ino).is_err());
        inodes.forget(ROOT_INO, u64::MAX);
        assert!(inodes.get(ROOT_INO).is_ok());
    }
}
