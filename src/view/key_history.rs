//! All records of a key as the bytes of one file, tombstones too.
//!
//! Its batches are found by the index and read one by one, wherever they lie, so a key of few records costs little in a log
//! of any size. Places every so many bytes of output are kept, so that a read in the middle begins near by.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::LogError;
use crate::log::keys::{self, Entries, Entry};
use crate::units::Offset;
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::keys::{Bounds, Failure, number};
use crate::view::layout::to_index;
use crate::view::partition_view::{PartitionView, ViewError};
use crate::view::selection::Effort;

/// Bytes of output between two places that are kept.
const MARK_BYTES: u64 = 32 * 1024;

/// The records of one key in a range of offsets, in one format.
#[derive(Debug)]
pub struct KeyHistory {
    view: Arc<PartitionView>,
    committed: bool,
    format: Format,
    key: Arc<[u8]>,
    hash: u64,
    bounds: Bounds,
    generation: u64,
    measured: Mutex<Measured>,
    /// What a batch was rendered to last, by its entry's offset.
    rendered: Mutex<Option<(Offset, Arc<Vec<u8>>)>>,
}

/// How far the file is known.
#[derive(Debug)]
struct Measured {
    marks: Vec<Mark>,
    reached: Mark,
    is_done: bool,
}

/// A place between two batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    /// Bytes of output before it.
    output: u64,
    /// The next batch's entry is at this offset or above.
    next: Offset,
}

impl KeyHistory {
    /// The records of `view` with `key` in `range`, the first of which is at its start, as long as the partition has this
    /// generation.
    pub fn new(
        view: Arc<PartitionView>,
        committed: bool,
        format: Format,
        key: Arc<[u8]>,
        range: Range<Offset>,
        generation: u64,
    ) -> Self {
        let reached = Mark { output: 0, next: range.start };
        let measured = Mutex::new(Measured { marks: vec![reached], reached, is_done: false });
        let (hash, bounds) = (number(&key), Bounds { start: range.start, end: range.end });
        Self { view, committed, format, key, hash, bounds, generation, measured, rendered: Mutex::default() }
    }

    /// The size in bytes; `None` when that costs more than `effort`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn size(&self, effort: Effort) -> Result<Option<u64>, ViewError> {
        let limit = match effort {
            Effort::Bytes(bytes) => bytes,
            Effort::All | Effort::Background => u64::MAX,
        };
        self.with_entries(|env, entries| {
            let mut read = 0;
            loop {
                let (at, is_done) = {
                    let measured = self.lock();
                    (measured.reached, measured.is_done)
                };
                if is_done {
                    return Ok(Some(at.output));
                }
                if read > limit {
                    return Ok(None);
                }
                let cost = self.step(env, entries, at)?.map_or(0, |step| step.cost);
                read += cost;
                if effort == Effort::Background {
                    env.shared.pace(cost);
                }
            }
        })
    }

    /// Reads up to `len` bytes at `at` into `out`; fewer only at the end.
    ///
    /// # Errors
    /// Those of reading; [`ViewError::Damaged`] where the mount asks for that.
    pub fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) -> Result<(), ViewError> {
        let (begun, goal) = (out.len(), out.len().saturating_add(len));
        self.with_entries(|env, entries| {
            out.truncate(begun);
            let mut mark = self.lock().floor(at);
            while out.len() < goal {
                let Some(step) = self.step(env, entries, mark)? else { break };
                let next = at + (out.len() - begun) as u64;
                if step.after.output > next {
                    let from = to_index(next - mark.output);
                    let to = step.bytes.len().min(from.saturating_add(goal - out.len()));
                    out.extend_from_slice(step.bytes.get(from..to).unwrap_or_default());
                }
                mark = step.after;
            }
            Ok(())
        })
    }

    /// Runs `work` with the index, as long as the records are those that they were.
    fn with_entries<T>(
        &self,
        mut work: impl FnMut(&Env<'_>, &Entries) -> Result<T, Failure>,
    ) -> Result<T, ViewError> {
        self.view.with_keys(|entries| {
            self.view.with_env(self.committed, |env| {
                let partition = &self.view.partition;
                if partition.generation() != self.generation || self.view.start()? > self.bounds.start {
                    let path = partition.origin.path().to_owned();
                    return Err(LogError::Stale { path }.into());
                }
                self.view.fail_at_damage(env, self.bounds.start, self.bounds.end)?;
                work(env, entries)
            })
        })
    }

    /// The next batch from `mark` on; `None` at the end.
    fn step(&self, env: &Env<'_>, entries: &Entries, mark: Mark) -> Result<Option<Step>, Failure> {
        let is_over = mark.next >= self.bounds.end;
        let entry = if is_over { None } else { entries.first_from(self.hash, mark.next)? };
        let Some(entry) = entry else {
            self.lock().is_done = true;
            return Ok(None);
        };
        let (bytes, cost) = self.rendered(env, &entry)?;
        let after = Mark { output: mark.output + bytes.len() as u64, next: entry.offset().next() };
        self.lock().pass(mark, after);
        Ok(Some(Step { bytes, after, cost }))
    }

    /// What the records of a batch render to, and the source bytes that this took.
    fn rendered(&self, env: &Env<'_>, entry: &Entry) -> Result<(Arc<Vec<u8>>, u64), LogError> {
        let kept = self.lock_rendered().clone();
        if let Some((_, bytes)) = kept.filter(|(offset, _)| *offset == entry.offset()) {
            return Ok((bytes, 0));
        }
        let mut out = Vec::new();
        let found = keys::batch(&self.view.partition, entry)?;
        let cost = found.as_ref().map_or(0, |found| found.bytes.len() as u64);
        if let Some(found) = found {
            self.view.with_records(env, &found, |records, _| {
                let mut is_there = false;
                for record in records {
                    // None is shown of a batch whose records can't all be read.
                    let Ok(record) = record else { return out.clear() };
                    is_there |= record.offset == entry.offset();
                    if self.bounds.hold(record.offset) && record.key == Some(&*self.key) {
                        env.renderer.render(self.format, &record, &mut out);
                    }
                }
                // A batch behind the one that is gone has an entry of its own.
                if !is_there {
                    out.clear();
                }
            })?;
        }
        env.shared.counts.rendered_bytes.add(out.len() as u64);
        let out = Arc::new(out);
        *self.lock_rendered() = Some((entry.offset(), out.clone()));
        Ok((out, cost))
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_rendered(&self) -> MutexGuard<'_, Option<(Offset, Arc<Vec<u8>>)>> {
        self.rendered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch's part of the file.
struct Step {
    bytes: Arc<Vec<u8>>,
    after: Mark,
    /// Source bytes that were read for it.
    cost: u64,
}

impl Measured {
    /// The last place at or before byte `at` that is kept.
    fn floor(&self, at: u64) -> Mark {
        if self.reached.output <= at {
            return self.reached;
        }
        let index = self.marks.partition_point(|mark| mark.output <= at);
        let mark = index.checked_sub(1).and_then(|index| self.marks.get(index));
        mark.or(self.marks.first()).copied().unwrap_or(self.reached)
    }

    /// Notes that the batch between two places is known.
    fn pass(&mut self, from: Mark, to: Mark) {
        if from != self.reached {
            return;
        }
        self.reached = to;
        if self.marks.last().is_none_or(|last| to.output >= last.output + MARK_BYTES) {
            self.marks.push(to);
        }
    }
}
