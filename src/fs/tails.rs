//! The window of each `tail`, of one partition or of all of a topic.
//!
//! Its first records are fixed while anybody has it open. When nobody has, it moves up as soon as it has too many; that is
//! another file then, with another inode. After a truncation or compaction, or when a partition comes, a new look-up gets a
//! window of its own, and whoever holds the old one keeps that.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fs::error::FsError;
use crate::fs::mounted::Fs;
use crate::fs::node::{AllItem, AllKey, AllKind, Item, Node, PartitionKey, RecordsKind};
use crate::units::Offset;
use crate::view::partition_view::PartitionView;

/// Whose tail it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum TailOf {
    /// A partition's.
    Partition(PartitionKey),
    /// That of all partitions of a topic.
    All(AllKey),
}

/// The windows.
#[derive(Debug, Default)]
pub(super) struct Tails {
    windows: Mutex<HashMap<TailOf, Vec<Window>>>,
}

/// Where a tail begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begin {
    /// The generation of the partition, or the stamp of all.
    pub(super) stamp: u64,
    /// The first offset in each partition.
    pub(super) starts: Arc<[Offset]>,
}

/// A window, and how many have it open.
#[derive(Debug)]
struct Window {
    begin: Begin,
    /// Where the partitions ended when it was found.
    ends: Arc<[Offset]>,
    opens: u64,
}

/// A window that a look-up may be given.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// Where it begins.
    pub(super) begin: Begin,
    /// Where the partitions ended when it was found.
    pub(super) ends: Arc<[Offset]>,
    /// Whether somebody has it open.
    pub(super) is_open: bool,
}

impl Fs {
    /// Where a partition's tail begins.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn tail(&self, key: &PartitionKey, view: &PartitionView) -> Result<Begin, FsError> {
        let count = self.of_topic(&key.topic).options.tail_records;
        let (log_start, stamp) = (view.start()?, view.generation()?);
        let holds = |known: &Known| {
            let start = known.begin.starts.first().copied().unwrap_or(log_start);
            if start < log_start || known.is_open {
                return Ok(start >= log_start);
            }
            let twice = view.nth_from_end(key.committed, count.saturating_mul(2).saturating_add(1))?;
            Ok(twice.is_none_or(|twice| twice < start))
        };
        let find = || {
            let start = view.nth_from_end(key.committed, count)?.unwrap_or(log_start);
            Ok((Begin { stamp, starts: [start].into() }, Arc::default()))
        };
        self.tails().begin(TailOf::Partition(key.clone()), stamp, holds, find)
    }

    /// The tail that a node is, if it is one.
    pub(super) fn tail_that_is(node: &Node) -> Option<(TailOf, Begin)> {
        match node {
            Node::Of(key, Item::Records(records)) if records.kind == RecordsKind::Tail => {
                let begin = Begin { stamp: records.generation, starts: [records.start].into() };
                Some((TailOf::Partition(key.clone()), begin))
            }
            Node::OfAll(key, AllItem::Records(records)) if records.kind == AllKind::Tail => {
                let begin = Begin { stamp: records.stamp, starts: records.starts.clone() };
                Some((TailOf::All(key.clone()), begin))
            }
            _ => None,
        }
    }
}

impl Tails {
    /// Where a tail of what has the number `stamp` begins: where it did when `holds` says that this is right still, otherwise
    /// where `find` says, which also tells where the partitions end.
    ///
    /// # Errors
    /// Those of `holds` and `find`.
    pub(super) fn begin(
        &self,
        of: TailOf,
        stamp: u64,
        holds: impl Fn(&Known) -> Result<bool, FsError>,
        find: impl FnOnce() -> Result<(Begin, Arc<[Offset]>), FsError>,
    ) -> Result<Begin, FsError> {
        let known = self.known(&of, stamp);
        for known in &known {
            if holds(known)? {
                return Ok(known.begin.clone());
            }
        }
        let (begin, ends) = find()?;
        let mut all = self.lock();
        let windows = all.entry(of).or_default();
        // Somebody else may have found one meanwhile: one is enough.
        let is_new = |newest: &&Window| known.iter().all(|known| known.begin != newest.begin);
        if let Some(newest) = windows.last().filter(|newest| newest.begin.stamp == stamp).filter(is_new) {
            return Ok(newest.begin.clone());
        }
        windows.retain(|window| window.opens > 0 && window.begin != begin);
        windows.push(Window { begin: begin.clone(), ends, opens: 0 });
        Ok(begin)
    }

    /// The windows of this stamp: first the newest that is open, then the newest.
    fn known(&self, of: &TailOf, stamp: u64) -> Vec<Known> {
        let all = self.lock();
        let windows = || all.get(of).into_iter().flatten().rev().filter(|w| w.begin.stamp == stamp);
        let known = |window: &Window| {
            let (begin, ends) = (window.begin.clone(), window.ends.clone());
            Known { begin, ends, is_open: window.opens > 0 }
        };
        let open = windows().find(|window| window.opens > 0);
        open.into_iter().chain(windows().next().filter(|newest| newest.opens == 0)).map(known).collect()
    }

    /// Fixes a window that was opened.
    pub(super) fn opened(&self, of: &TailOf, begin: &Begin) {
        let mut all = self.lock();
        let windows = all.entry(of.clone()).or_default();
        match windows.iter_mut().rev().find(|window| window.begin == *begin) {
            Some(window) => window.opens += 1,
            // It moved up between the look-up and the opening.
            None => windows.insert(0, Window { begin: begin.clone(), ends: Arc::default(), opens: 1 }),
        }
    }

    /// Takes [`Self::opened`] back.
    pub(super) fn released(&self, of: &TailOf, begin: &Begin) {
        let mut all = self.lock();
        let Some(windows) = all.get_mut(of) else { return };
        if let Some(window) = windows.iter_mut().rev().find(|window| window.begin == *begin) {
            window.opens = window.opens.saturating_sub(1);
        }
        // Of the older ones those are kept that somebody holds.
        let newest = windows.pop();
        windows.retain(|window| window.opens > 0);
        windows.extend(newest);
    }

    /// Forgets the tails of partitions and topics that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str, Option<&str>) -> bool) {
        self.lock().retain(|of, _| match of {
            TailOf::Partition(key) => is_there(&key.topic, Some(&key.label)),
            TailOf::All(key) => is_there(&key.topic, None),
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TailOf, Vec<Window>>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
