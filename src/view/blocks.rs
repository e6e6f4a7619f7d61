//! Rendered blocks, until they are read to their end: by a reader of a part of one, or ahead of one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::log::segment::SegmentUid;
use crate::view::buffers::{Buffer, Buffers};
use crate::view::format::Format;
use crate::view::kept::{Kept, Number};
use crate::view::permits::Permits;

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
pub(super) struct Slot {
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
    pub(super) fn begin(&self) -> bool {
        let mut state = self.lock();
        let is_wanted = matches!(*state, State::Wanted);
        if is_wanted {
            *state = State::BeingMade;
        }
        is_wanted
    }

    pub(super) fn is_made(&self) -> bool {
        matches!(*self.lock(), State::Made(_))
    }

    pub(super) fn is_being_made(&self) -> bool {
        matches!(*self.lock(), State::BeingMade)
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

/// Rendered blocks that are kept.
#[derive(Debug)]
pub struct Blocks {
    kept: Arc<Mutex<Kept>>,
    permits: Arc<Permits>,
    buffers: Buffers,
}

/// A turn to have a block made, of somebody who waits for room. It is given up when dropped.
#[derive(Debug)]
pub struct Turn {
    kept: Arc<Mutex<Kept>>,
    permits: Arc<Permits>,
    number: Number,
    key: RenderedKey,
    len: usize,
}

impl Turn {
    /// Whether it has come, as it stays then: there is room for the block, which is to be asked for now.
    pub fn has_come(&self) -> bool {
        let (now, mut kept) = (Instant::now(), lock(&self.kept));
        if self.permits.are_taken() {
            kept.decoding(now);
        }
        kept.has_come(self.number, self.key, self.len, now)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.kept).leave(self.number, Instant::now());
    }
}

impl Blocks {
    /// None yet; they will be rendered into `buffers`, large ones by who has one of `permits`.
    pub fn new(buffers: Buffers, permits: Arc<Permits>) -> Self {
        Self { kept: Arc::new(Mutex::new(Kept::new(Instant::now()))), permits, buffers }
    }

    /// Makes sure that there is room for a block of `len` bytes before it is asked for, if it is large: a turn to wait for
    /// where there is none.
    pub fn claim(&self, key: RenderedKey, len: usize) -> Option<Turn> {
        let number = self.lock().claim(key, len, Instant::now())?;
        Some(Turn { kept: self.kept.clone(), permits: self.permits.clone(), number, key, len })
    }

    /// A rendered block of `len` bytes: one that is kept, or what `render` makes. Who asks for a block that another thread is making
    /// waits for that one, and meanwhile calls `help`, as long as that says that it has done something.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn get<E>(
        &self,
        key: RenderedKey,
        len: usize,
        help: impl Fn() -> bool,
        render: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Arc<Buffer>, E> {
        let slot = self.lock().slot(key, len, Instant::now());
        match slot.block(help) {
            Some(block) => Ok(block),
            None => self.make(&key, &slot, render),
        }
    }

    /// Makes a block that somebody will ask for, unless that is being done, or there is no room.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn make_ahead<E>(
        &self,
        key: RenderedKey,
        len: usize,
        render: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(slot) = self.lock().slot_if_room(key, len, Instant::now()) else { return Ok(()) };
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
                self.lock().made(key, Instant::now());
                Ok(block)
            }
            Err(error) => {
                drop(making);
                self.lock().give_up(key);
                Err(error)
            }
        }
    }

    /// Drops all that are made.
    pub fn give_up_made(&self) {
        self.lock().give_up_made();
    }

    /// Drops a block that was made for somebody who doesn't want it, unless somebody has begun to read it.
    pub fn give_up_unread(&self, key: &RenderedKey) {
        self.lock().give_up_unread(key);
    }

    /// Drops a block that was read to its end.
    pub fn finished(&self, key: &RenderedKey) {
        self.lock().give_up(key);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        lock(&self.kept)
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}
