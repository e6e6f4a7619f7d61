//! Rendered blocks, until they are read to their end: by a reader of a part of one, or ahead of one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::log::segment::SegmentUid;
use crate::view::buffers::{Buffer, Buffers};
use crate::view::format::Format;

/// Rendered blocks kept while they are in use, in bytes: those that 32 readers of batches of 4 MiB are in the midst of. With fewer each read
/// would decode its batch again.
const KEPT_BYTES: usize = 144 * 1024 * 1024;
/// And at most this many of them.
const KEPT_BLOCKS: usize = 4096;

/// Which rendered block it is. The end is part of the key because the last block of an active segment grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RenderedKey {
    /// The segment.
    pub segment: SegmentUid,
    /// Where the block begins and ends in it.
    pub span: (u64, u64),
    /// How it is rendered.
    pub format: Format,
    /// Whether records of aborted transactions are left out.
    pub committed: bool,
}

/// The place of a block.
#[derive(Debug, Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    /// Nobody has begun with it.
    #[default]
    Wanted,
    /// Some thread is at it.
    BeingMade,
    Made(Arc<Buffer>),
    /// The thread that was at it failed, and tells its own caller why.
    Failed,
}

impl Slot {
    /// The block, if it is made; `None` once when the caller is the one to make it, and when it could not be. Who has to wait for another
    /// thread does something useful, as long as `help` finds some.
    fn block(&self, help: impl Fn() -> bool) -> Option<Arc<Buffer>> {
        let mut state = self.lock();
        loop {
            match &*state {
                State::Made(block) => return Some(block.clone()),
                State::Failed => return None,
                State::Wanted => {
                    *state = State::BeingMade;
                    return None;
                }
                State::BeingMade => {
                    drop(state);
                    let has_helped = help();
                    state = self.lock();
                    if !has_helped && matches!(*state, State::BeingMade) {
                        state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            }
        }
    }

    /// Whether the caller is the one to make the block.
    fn begin(&self) -> bool {
        let mut state = self.lock();
        let is_wanted = matches!(*state, State::Wanted);
        if is_wanted {
            *state = State::BeingMade;
        }
        is_wanted
    }

    fn is_made(&self) -> bool {
        matches!(*self.lock(), State::Made(_))
    }

    fn set(&self, state: State) {
        *self.lock() = state;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is being made, until it is told what became of it: a panic is a failure.
struct Making<'a>(&'a Slot);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if matches!(*self.0.lock(), State::BeingMade) {
            self.0.set(State::Failed);
        }
    }
}

/// Rendered blocks by use.
#[derive(Debug)]
pub struct Blocks {
    kept: Mutex<Kept>,
    buffers: Buffers,
}

#[derive(Debug)]
struct Kept {
    /// Each with its bytes, once they are counted.
    blocks: LruCache<RenderedKey, (Arc<Slot>, usize)>,
    bytes: usize,
}

impl Kept {
    /// Counts the bytes of a block, unless it was given up meanwhile, and drops those that were used longest ago.
    fn count(&mut self, key: &RenderedKey, slot: &Arc<Slot>, len: usize) {
        let Some((_, counted)) = self.blocks.peek_mut(key).filter(|(now, _)| Arc::ptr_eq(now, slot)) else {
            return;
        };
        self.bytes += len - std::mem::replace(counted, len);
        while self.bytes > KEPT_BYTES || self.blocks.len() > KEPT_BLOCKS {
            let Some((_, (_, counted))) = self.blocks.pop_lru() else { break };
            self.bytes -= counted;
        }
    }

    fn give_up(&mut self, key: &RenderedKey) {
        if let Some((_, counted)) = self.blocks.pop(key) {
            self.bytes -= counted;
        }
    }
}

impl Blocks {
    /// None yet; they will be rendered into `buffers`.
    pub fn new(buffers: Buffers) -> Self {
        Self { kept: Mutex::new(Kept { blocks: LruCache::unbounded(), bytes: 0 }), buffers }
    }

    /// A rendered block: one that is kept, or what `render` makes. Who asks for a block that another thread is making
    /// waits for that one, and meanwhile calls `help`, as long as that says that it has done something.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn get<E>(
        &self,
        key: RenderedKey,
        help: impl Fn() -> bool,
        render: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Arc<Buffer>, E> {
        let slot = self.slot(key);
        match slot.block(help) {
            Some(block) => Ok(block),
            None => self.make(&key, &slot, render),
        }
    }

    /// Makes a block that somebody will ask for, unless that is being done.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn make_ahead<E>(
        &self,
        key: RenderedKey,
        render: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let slot = self.slot(key);
        if slot.begin() { self.make(&key, &slot, render).map(drop) } else { Ok(()) }
    }

    fn make<E>(
        &self,
        key: &RenderedKey,
        slot: &Arc<Slot>,
        render: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Arc<Buffer>, E> {
        let making = Making(slot);
        let mut buffer = self.buffers.take();
        match render(&mut buffer) {
            Ok(()) => {
                let block = Arc::new(buffer);
                slot.set(State::Made(block.clone()));
                self.lock().count(key, slot, block.len());
                Ok(block)
            }
            Err(error) => {
                drop(making);
                self.lock().give_up(key);
                Err(error)
            }
        }
    }

    fn slot(&self, key: RenderedKey) -> Arc<Slot> {
        self.lock().blocks.get_or_insert(key, <(Arc<Slot>, usize)>::default).0.clone()
    }

    /// Drops all that are made.
    pub fn give_up_made(&self) {
        let mut kept = self.lock();
        let made: Vec<_> =
            kept.blocks.iter().filter(|(_, (slot, _))| slot.is_made()).map(|(key, _)| *key).collect();
        made.iter().for_each(|key| kept.give_up(key));
    }

    /// Drops a block that was read to its end.
    pub fn finished(&self, key: &RenderedKey) {
        self.lock().give_up(key);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
