//! Blocks rendered before they are asked for: a reader that goes on where its last read ended finds the next ones made.
//!
//! A few threads do that for all readers. Who serves a reader is busy too: a block that no thread has begun with when its reader comes is
//! rendered by the one who serves it, and while that one waits for a block that another is making it makes the next one. So there is a
//! thread less than there are processors, and none of them takes the place of a reader. What a reader is about to read is bounded, and so
//! is what all of them are.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::view::blocks::RenderedKey;
use crate::view::format::Format;
use crate::view::partition_view::PartitionView;
use crate::view::run::{Placed, Run};

/// A reader is this far ahead at least, and as far as it reads in a few calls.
const WINDOW: u64 = 1024 * 1024;
/// And never farther, unless blocks are that large.
const LARGEST_WINDOW: u64 = 4 * 1024 * 1024;
/// However large they are, so many are ahead: one is being read while another is made.
const FEWEST: usize = 2;
/// Reads, each behind the one before, after which it is believed that others follow.
const BELIEVED: u32 = 2;
/// What is made ahead for all readers together.
const ALL_BYTES: usize = 16 * 1024 * 1024;
/// More threads than this find no work.
const MOST_THREADS: usize = 8;

/// The threads, and what they have to do.
#[derive(Debug)]
pub struct Ahead {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    added: Condvar,
    most_threads: usize,
    /// Of blocks that are made, or will be, and were not read yet.
    bytes: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Task>,
    threads: usize,
    idle: usize,
    closed: bool,
}

/// A block of a file.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) view: Arc<PartitionView>,
    pub(super) run: Arc<Run>,
    pub(super) committed: bool,
    pub(super) format: Format,
    pub(super) placed: Placed,
}

#[derive(Debug)]
struct Task {
    wanted: Wanted,
    is_wanted: Arc<AtomicBool>,
}

/// A block that is made ahead. Dropped when it was read, or its reader went elsewhere; it is given up then.
#[derive(Debug)]
struct Made {
    /// Where it ends in the file.
    end: u64,
    key: RenderedKey,
    len: usize,
    is_wanted: Arc<AtomicBool>,
    view: Arc<PartitionView>,
    queue: Arc<Queue>,
}

/// Somebody who reads a file, and what is made ahead of it.
#[derive(Debug, Default)]
pub struct Reader(Mutex<Place>);

#[derive(Debug, Default)]
struct Place {
    /// Where the next read is expected.
    next: u64,
    /// Reads that were where they were expected.
    streak: u32,
    /// Up to where blocks are made ahead.
    until: u64,
    made: VecDeque<Made>,
    /// When it was read last.
    last: Option<Instant>,
}

impl Default for Ahead {
    /// One thread less than there are processors; they begin when there is something to do.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let most_threads = processors.saturating_sub(1).clamp(1, MOST_THREADS);
        let (state, added, bytes) = (Mutex::default(), Condvar::new(), AtomicUsize::new(0));
        Self { queue: Arc::new(Queue { state, added, most_threads, bytes }) }
    }
}

impl Ahead {
    /// Renders a block that ends at `end` in its file, unless as much as may be is ahead.
    fn make(&self, wanted: Wanted, end: u64) -> Option<Made> {
        let queue = &self.queue;
        let key = wanted.run.rendered_key(wanted.format, &wanted.placed);
        let len = usize::try_from(wanted.placed.end - wanted.placed.start).ok()?;
        let reserve = |bytes: usize| bytes.checked_add(len).filter(|all| *all <= ALL_BYTES);
        queue.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, reserve).ok()?;
        let (is_wanted, view) = (Arc::new(AtomicBool::new(true)), wanted.view.clone());
        let made = Made { end, key, len, is_wanted: is_wanted.clone(), view, queue: queue.clone() };
        queue.add(Task { wanted, is_wanted }).then_some(made)
    }

    /// Does what a thread would do next; whether there was something.
    pub(super) fn help(&self) -> bool {
        let next = self.queue.lock().waiting.pop_front();
        next.map(Task::run).is_some()
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        drop(waiting);
        self.queue.added.notify_all();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::Relaxed);
        self.view.shared().blocks.give_up_unread(&self.key);
        self.queue.bytes.fetch_sub(self.len, Ordering::Relaxed);
    }
}

impl Queue {
    /// Adds a task; whether there is a thread for it.
    fn add(self: &Arc<Self>, task: Task) -> bool {
        let mut state = self.lock();
        state.waiting.push_back(task);
        if state.idle > 0 {
            drop(state);
            self.added.notify_one();
            return true;
        }
        if state.threads < self.most_threads {
            let queue = self.clone();
            let spawned = std::thread::Builder::new().name("ahead".into()).spawn(move || queue.work());
            state.threads += usize::from(spawned.is_ok());
        }
        let has_thread = state.threads > 0;
        if !has_thread {
            state.waiting.pop_back();
        }
        has_thread
    }

    fn work(&self) {
        while let Some(task) = self.next() {
            task.run();
        }
    }

    fn next(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.waiting.pop_front() {
                return Some(next);
            }
            state.idle += 1;
            state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Task {
    /// Does it, if somebody still wants it. A panic is nothing to who helps with it.
    fn run(self) {
        let is_wanted = self.is_wanted.load(Ordering::Relaxed);
        if is_wanted && catch_unwind(AssertUnwindSafe(|| self.wanted.render())).is_err() {
            tracing::error!("rendering ahead panicked; this is a bug in topicfs, readers go on without it");
        }
    }
}

impl Wanted {
    /// Renders it, unless that is done. Who reads it meets what is wrong with it, and is told.
    fn render(&self) {
        let rendered =
            self.view.with_env(self.committed, |env| self.run.render_ahead(env, self.format, &self.placed));
        if let Err(error) = rendered {
            tracing::debug!(%error, "nothing is rendered ahead");
        }
    }
}

impl Reader {
    /// Takes note of a read of `len` bytes at `at`, and says which bytes of the file are to be made ahead now.
    pub(super) fn has_read(&self, at: u64, len: usize) -> Option<Range<u64>> {
        let len = len as u64;
        let window = len.saturating_mul(4).clamp(WINDOW, LARGEST_WINDOW);
        let mut place = self.lock();
        // The kernel may ask for several pieces at once, and hear of them in another order.
        let is_near = at <= place.next.saturating_add(window) && at.saturating_add(window) >= place.next;
        let last = Some(Instant::now());
        if !is_near || len == 0 {
            *place = Place { next: at.saturating_add(len), last, ..Place::default() };
            return None;
        }
        place.last = last;
        place.streak = place.streak.saturating_add(1);
        place.next = place.next.max(at.saturating_add(len));
        let next = place.next;
        while place.made.front().is_some_and(|made| made.end <= next) {
            place.made.pop_front();
        }
        place.until = place.until.max(next);
        let is_short = place.until - next <= window / 2 || place.made.len() < FEWEST;
        let end = next.saturating_add(window).max(place.until.saturating_add(1));
        (place.streak >= BELIEVED && is_short).then_some(place.until..end)
    }

    /// Gives up what is made for somebody who has not come for so long: others may have it.
    pub fn expire(&self, idle: Duration) {
        let mut place = self.lock();
        if !place.made.is_empty() && place.last.is_some_and(|last| last.elapsed() >= idle) {
            *place = Place { next: place.next, last: place.last, ..Place::default() };
        }
    }

    /// Has a block made that ends at `end` in the file; whether it will be.
    pub(super) fn make(&self, ahead: &Ahead, wanted: Wanted, end: u64) -> bool {
        let made = ahead.make(wanted, end);
        let mut place = self.lock();
        let is_made = made.is_some();
        if is_made && place.until < end {
            place.until = end;
            place.made.extend(made);
        }
        is_made
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reader_that_goes_on_is_read_ahead_of() {
        const KIB: usize = 1024;
        let reader = Reader::default();
        assert_eq!(reader.has_read(0, 128 * KIB), None, "it may be `head`");
        assert_eq!(reader.has_read(128 * 1024, 128 * KIB), Some(256 * 1024..256 * 1024 + WINDOW));
        // Nothing was made of it, so that it is asked for again.
        assert_eq!(reader.has_read(256 * 1024, 128 * KIB), Some(384 * 1024..384 * 1024 + WINDOW));
        let (gib, mib) = (1 << 30, 1024 * KIB);
        assert_eq!(reader.has_read(gib, mib), None, "it went elsewhere");
        assert_eq!(reader.has_read(gib + 2 * WINDOW, mib), None, "and may be looking for something");
        let next = gib + 3 * WINDOW;
        assert_eq!(reader.has_read(gib + WINDOW, mib), Some(next..next + LARGEST_WINDOW), "out of order");
        reader.expire(Duration::ZERO);
        assert_eq!(reader.has_read(next, mib), Some(next + WINDOW..next + WINDOW + LARGEST_WINDOW));
    }
}
