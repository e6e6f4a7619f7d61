//! Open files that grow, for those who are told of growth and don't look for it.
//!
//! The kernel tells programs that watch a file (inotify) only of what comes through it. So somebody touches these files through the mount when
//! they have grown.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::fs::mounted::Fs;
use crate::fs::names;
use crate::fs::node::{AllItem, AllKey, AllKind, Item, Node, PartitionKey, RecordsKind};
use crate::log::watch::Watched;

/// A file is touched no more often than this.
const AT_MOST_EVERY: Duration = Duration::from_millis(200);

/// Growing files that somebody has open, by inode number.
#[derive(Debug, Default)]
pub struct Growing {
    files: Mutex<HashMap<u64, Open>>,
}

/// One file.
#[derive(Debug)]
struct Open {
    path: Arc<str>,
    watched: Vec<Arc<Watched>>,
    /// How much had changed when it was touched last.
    seen: u64,
    touched: Option<Instant>,
    opens: u64,
}

impl Open {
    fn changes(&self) -> u64 {
        Watched::changes_of(&self.watched)
    }
}

impl Growing {
    /// The paths of files that may have grown since they were told of last, and how long to wait for those that have been told of just now.
    pub fn take_grown(&self) -> (Vec<Arc<str>>, Option<Duration>) {
        let (mut grown, mut wait) = (Vec::new(), None);
        for open in self.lock().values_mut() {
            let changes = open.changes();
            if changes == open.seen {
                continue;
            }
            let since = open.touched.map_or(AT_MOST_EVERY, |touched| touched.elapsed());
            if since < AT_MOST_EVERY {
                let left = AT_MOST_EVERY - since;
                wait = Some(wait.map_or(left, |wait: Duration| wait.min(left)));
                continue;
            }
            (open.seen, open.touched) = (changes, Some(Instant::now()));
            grown.push(open.path.clone());
        }
        (grown, wait)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fs {
    /// A file was opened: if it grows, it is watched from now on.
    pub(super) fn growing_opened(&self, ino: u64, node: &Node) {
        let Some((path, partitions)) = self.growing_path(node) else { return };
        let mut watched = Vec::new();
        for key in partitions {
            if let Ok(view) = self.view(&key) {
                watched.push(self.watch().watch(view.partition.origin.path()));
            }
        }
        let mut files = self.growing().lock();
        let open = files.entry(ino).or_insert_with(|| {
            let mut open = Open { path: path.into(), watched, seen: 0, touched: None, opens: 0 };
            open.seen = open.changes();
            open
        });
        open.opens += 1;
    }

    /// Takes [`Self::growing_opened`] back.
    pub(super) fn growing_released(&self, ino: u64) {
        let mut files = self.growing().lock();
        let Some(open) = files.get_mut(&ino) else { return };
        open.opens = open.opens.saturating_sub(1);
        let gone = if open.opens == 0 { files.remove(&ino) } else { None };
        // Not under the lock: this ends watches.
        drop(files);
        drop(gone);
    }

    /// The path of a file that grows, and the partitions that it grows with.
    fn growing_path(&self, node: &Node) -> Option<(String, Vec<PartitionKey>)> {
        let committed = |is_committed: bool, topic: &str| {
            if is_committed && !self.is_committed(topic) { "@committed" } else { "" }
        };
        match node {
            Node::Of(key, Item::Records(records)) if records.end.is_none() => {
                let PartitionKey { topic, label, committed: is_committed } = key;
                let stem = match records.kind {
                    RecordsKind::Log => "log".to_owned(),
                    RecordsKind::Tail => "tail".to_owned(),
                    RecordsKind::Segment => format!("by-segment/{}", names::padded(records.start)),
                    RecordsKind::Range => return None,
                };
                let name = names::listed_name(&stem, records.format, self.formats());
                let suffix = committed(*is_committed, topic);
                Some((format!("{topic}/{label}{suffix}/{name}"), vec![key.clone()]))
            }
            Node::OfAll(key, AllItem::Records(records)) if records.ends.is_none() => {
                let AllKey { topic, committed: is_committed } = key;
                let stem = if records.kind == AllKind::Tail { "tail" } else { "log" };
                let name = names::listed_name(stem, records.format, self.formats());
                let partitions = self.partitions_of(topic);
                let keys = partitions.iter().map(|label| self.partition_key(key, label)).collect();
                Some((format!("{topic}/all{}/{name}", committed(*is_committed, topic)), keys))
            }
            _ => None,
        }
    }
}
