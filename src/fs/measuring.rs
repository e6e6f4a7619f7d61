//! Sizes that take long, found in the background.
//!
//! One measurement serves all that wait for it. The threads have idle I/O priority: the broker comes first.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::fs::metrics::requests::Requests;
use crate::log::LogError;
use crate::log::signal::Signal;
use crate::units::Timestamp;
use crate::view::dump::file::DumpFile;
use crate::view::filtered::Filtered;
use crate::view::key_history::KeyHistory;
use crate::view::merged::Merged;
use crate::view::partition_view::{PartitionView, ViewError};
use crate::view::pieces::Pieces;
use crate::view::selection::{Effort, Selection};

/// Threads that measure; segments of one partition are measured side by side.
const THREADS: usize = 2;

/// What has a size that may take long.
#[derive(Debug, Clone)]
pub enum Measurable {
    /// Rendered records.
    Selection(Arc<Selection>),
    /// Rendered records that pass a filter.
    Filtered(Arc<Filtered>),
    /// Records of several partitions.
    Merged(Arc<Merged>),
    /// A dump.
    Dump(Arc<DumpFile>),
    /// Records of a partition that are not to be trusted.
    Suspects(Arc<PartitionView>),
    /// All records of a key.
    KeyHistory(Arc<KeyHistory>),
    /// A place in rendered records, so far that those before it must be found first.
    Reach(Box<Measurable>, u64),
    /// The first record at or after a time.
    Time(Arc<PartitionView>, bool, Timestamp),
    /// The index of a partition's keys, which is no size, but takes as long.
    Keys(Arc<PartitionView>),
}

impl Measurable {
    fn measure(&self, direction: Direction) -> Result<(), ViewError> {
        match (self, direction) {
            (Self::Selection(selection), Direction::Backward) => selection.measure_backward(),
            (Self::Selection(selection), Direction::Forward) => {
                selection.size(Effort::Background).map(|_| ())
            }
            // These are found from their start on.
            (
                Self::Filtered(_)
                | Self::Merged(_)
                | Self::Dump(_)
                | Self::Suspects(_)
                | Self::KeyHistory(_)
                | Self::Reach(..)
                | Self::Time(..)
                | Self::Keys(_),
                Direction::Backward,
            ) => Ok(()),
            (Self::Merged(merged), Direction::Forward) => merged.size(Effort::Background).map(|_| ()),
            (Self::Filtered(filtered), Direction::Forward) => filtered.size(Effort::Background).map(|_| ()),
            (Self::Reach(of, at), Direction::Forward) => of.reach(*at),
            (Self::Time(view, committed, time), Direction::Forward) => {
                Ok(view.first_at(*committed, *time).map(|_| ())?)
            }
            (Self::Keys(view), Direction::Forward) => view.index_keys(),
            (Self::KeyHistory(history), Direction::Forward) => history.size(Effort::Background).map(|_| ()),
            (Self::Suspects(view), Direction::Forward) => view.suspects(Effort::Background).map(|_| ()),
            (Self::Dump(dump), Direction::Forward) => Ok(dump.size(Effort::Background).map(|_| ())?),
        }
    }
}

impl Measurable {
    /// Finds all that lies before a place.
    fn reach(&self, at: u64) -> Result<(), ViewError> {
        let mut one = Pieces::default();
        match self {
            Self::Selection(selection) => selection.read(at, 1, &mut one),
            Self::Filtered(filtered) => filtered.read(at, 1, &mut one),
            Self::Merged(merged) => merged.read(at, 1, one.own()),
            other => other.measure(Direction::Forward),
        }
    }
}

/// A size that is being found.
#[derive(Debug)]
pub struct Measurement {
    measurable: Measurable,
    done: AtomicBool,
}

impl Measurement {
    /// Whether it has ended, well or not.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }
}

/// The threads and what they have to do.
#[derive(Debug)]
pub struct Measuring {
    shared: Arc<Queue>,
}

/// What is to be measured, shared with the threads.
#[derive(Debug)]
struct Queue {
    signal: Arc<Signal>,
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(u64, Arc<Measurement>, Direction)>,
    running: HashMap<u64, Arc<Measurement>>,
    threads: usize,
    closed: bool,
}

/// From which end a thread begins; when they meet, all is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl Measuring {
    /// Raises `signal` when a measurement has ended.
    pub fn new(signal: Arc<Signal>) -> Self {
        Self { shared: Arc::new(Queue { signal, state: Mutex::default(), added: Condvar::new() }) }
    }

    /// Begins to measure the content of inode `ino`, unless that is being done already.
    pub fn begin(&self, ino: u64, measurable: Measurable) -> Arc<Measurement> {
        let mut state = self.shared.lock();
        if let Some(running) = state.running.get(&ino) {
            return running.clone();
        }
        let measurement = Arc::new(Measurement { measurable, done: AtomicBool::new(false) });
        state.running.insert(ino, measurement.clone());
        state.waiting.push_back((ino, measurement.clone(), Direction::Forward));
        state.waiting.push_back((ino, measurement.clone(), Direction::Backward));
        while state.threads < THREADS && !state.closed {
            let queue = self.shared.clone();
            let spawned = std::thread::Builder::new().name("measure".into()).spawn(move || queue.work());
            if spawned.is_err() {
                break;
            }
            state.threads += 1;
        }
        self.shared.added.notify_all();
        measurement
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.waiting.clear();
        self.shared.added.notify_all();
    }
}

impl Queue {
    fn work(&self) {
        crate::log::files::sys::lower_io_priority();
        while let Some((ino, measurement, direction)) = self.next() {
            let begun = Instant::now();
            // A panic must not leave those who wait without an answer.
            let measured = catch_unwind(AssertUnwindSafe(|| {
                loop {
                    match measurement.measurable.measure(direction) {
                        Err(ViewError::Log(LogError::Outrun { .. })) => {}
                        done => break done,
                    }
                }
            }));
            match measured {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::info!(%error, "a size could not be measured"),
                Err(_) => {
                    Requests::of_process().panicked();
                    tracing::error!("measuring panicked");
                }
            }
            if direction == Direction::Forward {
                tracing::debug!(ino, elapsed = ?begun.elapsed(), "measured");
                self.lock().running.remove(&ino);
                measurement.finish();
                self.signal.raise();
            }
        }
    }

    fn next(&self) -> Option<(u64, Arc<Measurement>, Direction)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(next) = state.waiting.pop_front() {
                return Some(next);
            }
            state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
