//! Sorted entries of one or more segments, in memory or in a file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::entry::{ENTRY_LEN, Entry, Order, order};
use super::sorted_file::{BLOCK_ENTRIES, Block, SortedFile};
use crate::log::files::unpacked::nameless_in;
use crate::log::segment::{Segment, SegmentUid};
use crate::units::Offset;

/// Memory and places for files that all indexes of a mount share.
#[derive(Debug)]
pub struct KeySpace {
    max_memory: u64,
    used: AtomicU64,
    /// The first of these that can be written to has the files.
    directories: Vec<PathBuf>,
}

impl KeySpace {
    /// At most `max_memory` bytes of entries in memory, the others in files without names in `directories`.
    pub const fn new(max_memory: u64, directories: Vec<PathBuf>) -> Self {
        Self { max_memory, used: AtomicU64::new(0), directories }
    }

    pub(super) fn is_full(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.max_memory
    }

    /// How many entries are collected before they are sorted; they come on top of what is kept.
    pub(super) fn chunk(&self) -> usize {
        let part = usize::try_from(self.max_memory / 8).unwrap_or(usize::MAX) / ENTRY_LEN;
        part.clamp(1 << 12, 1 << 19)
    }

    pub(super) fn nameless(&self) -> io::Result<File> {
        let mut failed =
            io::Error::new(io::ErrorKind::NotFound, "there is no directory for an index of keys");
        for directory in &self.directories {
            match nameless_in(directory) {
                Ok(file) => return Ok(file),
                Err(error) => {
                    failed = io::Error::new(error.kind(), format!("in {}: {error}", directory.display()));
                }
            }
        }
        Err(failed)
    }
}

/// Bytes taken of a space, given back when dropped.
#[derive(Debug)]
struct Share {
    space: Arc<KeySpace>,
    bytes: u64,
}

impl Share {
    fn new(space: &Arc<KeySpace>, bytes: u64) -> Self {
        space.used.fetch_add(bytes, Ordering::Relaxed);
        Self { space: space.clone(), bytes }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.space.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A segment that a run has keys of, all or some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) uid: SegmentUid,
    pub(super) base: Offset,
}

impl Cover {
    pub(super) fn of(segment: &Segment) -> Self {
        Self { uid: segment.uid, base: segment.base }
    }
}

/// Sorted entries of neighbouring segments.
#[derive(Debug)]
pub(super) struct Run {
    /// In order, and at least one.
    pub(super) covers: Vec<Cover>,
    /// The name of its file, if another mount shall find it.
    pub(super) saved_as: Option<PathBuf>,
    store: Store,
    _share: Share,
}

#[derive(Debug)]
enum Store {
    Memory(Vec<Entry>),
    File(SortedFile),
}

impl Run {
    /// A run of `entries`, which are in order.
    pub(super) fn in_memory(space: &Arc<KeySpace>, covers: Vec<Cover>, entries: Vec<Entry>) -> Self {
        let share = Share::new(space, (entries.len() * ENTRY_LEN) as u64);
        Self { covers, saved_as: None, store: Store::Memory(entries), _share: share }
    }

    /// A run in a file.
    pub(super) fn in_file(
        space: &Arc<KeySpace>,
        covers: Vec<Cover>,
        file: SortedFile,
        saved_as: Option<PathBuf>,
    ) -> Self {
        let share = Share::new(space, file.memory());
        Self { covers, saved_as, store: Store::File(file), _share: share }
    }

    /// Its entries, if they are in memory.
    pub(super) fn memory(&self) -> Option<&[Entry]> {
        match &self.store {
            Store::Memory(entries) => Some(entries),
            Store::File(_) => None,
        }
    }

    /// The number of its entries.
    pub(super) fn len(&self) -> u64 {
        match &self.store {
            Store::Memory(entries) => entries.len() as u64,
            Store::File(file) => file.len(),
        }
    }

    pub(super) fn covers(&self, uid: SegmentUid) -> bool {
        self.covers.iter().any(|cover| cover.uid == uid)
    }

    fn lower_bound(&self, order: Order) -> io::Result<u64> {
        match &self.store {
            Store::Memory(entries) => Ok(entries.partition_point(|entry| entry.order() < order) as u64),
            Store::File(file) => file.lower_bound(order),
        }
    }

    /// The last entry of `hash` below `offset`.
    pub(super) fn last_before(&self, hash: u64, offset: Offset) -> io::Result<Option<Entry>> {
        let Some(index) = self.lower_bound(order(hash, offset))?.checked_sub(1) else { return Ok(None) };
        Ok(self.entry(index)?.filter(|entry| entry.hash() == hash))
    }

    /// The first entry of `hash` at or above `offset`.
    pub(super) fn first_from(&self, hash: u64, offset: Offset) -> io::Result<Option<Entry>> {
        let index = self.lower_bound(order(hash, offset))?;
        Ok(self.entry(index)?.filter(|entry| entry.hash() == hash))
    }

    fn entry(&self, index: u64) -> io::Result<Option<Entry>> {
        match &self.store {
            Store::Memory(entries) => Ok(entries.get(to_index(index)).copied()),
            Store::File(file) if index >= file.len() => Ok(None),
            Store::File(file) => {
                let block = file.block(index / BLOCK_ENTRIES as u64)?;
                Ok(block.entries().get(to_index(index) % BLOCK_ENTRIES).copied())
            }
        }
    }
}

fn to_index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// A place in a run, from which it is read in order.
#[derive(Debug)]
struct Cursor {
    run: Arc<Run>,
    next: u64,
    /// The block that it is in, and the next entry's number there.
    block: Option<(Block, usize)>,
}

impl Cursor {
    fn next(&mut self) -> io::Result<Option<Entry>> {
        let file = match &self.run.store {
            Store::Memory(entries) => {
                let entry = entries.get(to_index(self.next)).copied();
                self.next += 1;
                return Ok(entry);
            }
            Store::File(file) => file,
        };
        if let Some((block, within)) = &mut self.block
            && let Some(entry) = block.entries().get(*within)
        {
            *within += 1;
            self.next += 1;
            return Ok(Some(*entry));
        }
        if self.next >= file.len() {
            return Ok(None);
        }
        let block = file.block(self.next / BLOCK_ENTRIES as u64)?;
        let within = to_index(self.next % BLOCK_ENTRIES as u64);
        let entry = block.entries().get(within).copied();
        self.block = Some((block, within + 1));
        self.next += 1;
        Ok(entry)
    }
}

/// The entries of several runs in one order.
#[derive(Debug)]
pub struct Merged {
    cursors: Vec<Cursor>,
    /// The next entry of each run.
    heads: Vec<Option<Entry>>,
    order: BinaryHeap<Reverse<(Order, usize)>>,
}

impl Merged {
    /// The entries of `runs` that do not sort before `from`.
    pub(super) fn new<'a>(runs: impl IntoIterator<Item = &'a Arc<Run>>, from: Order) -> io::Result<Self> {
        let mut merged = Self { cursors: Vec::new(), heads: Vec::new(), order: BinaryHeap::new() };
        for run in runs {
            let mut cursor = Cursor { run: run.clone(), next: run.lower_bound(from)?, block: None };
            let head = cursor.next()?;
            merged.order.extend(head.map(|entry| Reverse((entry.order(), merged.cursors.len()))));
            merged.heads.push(head);
            merged.cursors.push(cursor);
        }
        Ok(merged)
    }

    fn step(&mut self) -> io::Result<Option<Entry>> {
        let Some(mut first) = self.order.peek_mut() else { return Ok(None) };
        let number = first.0.1;
        let (Some(cursor), Some(head)) = (self.cursors.get_mut(number), self.heads.get_mut(number)) else {
            return Ok(None);
        };
        let following = cursor.next()?;
        match following {
            Some(entry) => first.0.0 = entry.order(),
            None => {
                PeekMut::pop(first);
            }
        }
        Ok(std::mem::replace(head, following))
    }
}

impl Iterator for Merged {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
