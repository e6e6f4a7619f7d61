//! The records of several partitions as the bytes of one file, merged by time.
//!
//! Of the first records that are left of each partition, the one with the smallest timestamp comes next, at equal times that of the lower
//! partition: so each partition's own order is kept, whatever its timestamps. A file that grows is merged in rounds: each goes to where the
//! partitions ended when the one before was through, so that bytes stay what they were also when an older record comes later.
//!
//! Checkpoints, which say how far each partition was read at some place of the file, make seeks cheap; the number of them is bounded, and so
//! is the memory for blocks that wait for their turn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::units::{Offset, Timestamp};
use crate::view::filtered::Filtered;
use crate::view::layout::to_index;
use crate::view::partition_view::ViewError;
use crate::view::passing::Walk;
use crate::view::rendered::Rendered;
use crate::view::selection::{Effort, Selection};

/// Bytes of output between checkpoints, while there are few.
const CHECKPOINT_BYTES: u64 = 256 * 1024;
/// The most checkpoints of a file; beyond that every other one goes, and those to come are twice as far apart.
const MAX_CHECKPOINTS: usize = 2048;
/// The most bytes of rendered blocks that wait for their turn.
const MAX_WAITING_BYTES: usize = 64 * 1024 * 1024;
/// Readers at different places of a file whose state is kept.
const KEPT_READERS: usize = 4;
/// A file has no more rounds than one in so long, but for the first ones.
const ROUND: Duration = Duration::from_secs(1);
const FREE_ROUNDS: usize = 1000;

/// One partition's share of the file.
#[derive(Debug)]
pub struct Share {
    /// Its records.
    pub records: Filtered,
    /// The same where they grow with the log, for their size.
    pub growing: Option<Arc<Selection>>,
}

/// The merged records of some partitions.
#[derive(Debug)]
pub struct Merged {
    shares: Vec<Share>,
    state: Mutex<State>,
}

/// What is known of the file.
#[derive(Debug, Default)]
struct State {
    /// In order, the first at 0.
    checkpoints: Vec<Checkpoint>,
    spacing: u64,
    /// Where the partitions ended when each round began: so far they are merged in one go.
    rounds: Vec<Arc<[Offset]>>,
    last_round: Option<Instant>,
    readers: Vec<Reader>,
}

/// A place of the file: all records below these offsets come before it.
#[derive(Debug, Clone)]
struct Checkpoint {
    at: u64,
    offsets: Arc<[Offset]>,
    round: usize,
}

/// Somebody's place in the file, with what waits there.
#[derive(Debug)]
struct Reader {
    /// Where the next record begins.
    at: u64,
    /// The end of the record before, which was not given yet.
    left: Vec<u8>,
    /// From here on a place is worth a checkpoint.
    note_from: u64,
    round: usize,
    /// Where the partitions end in this round; `None` before it has begun.
    ends: Option<Arc<[Offset]>>,
    cursors: Vec<Cursor>,
    /// Of each partition that has more in this round: the time of its next record, and its number.
    heads: BinaryHeap<Reverse<(Timestamp, usize)>>,
    waiting: usize,
}

/// How far a partition is read.
#[derive(Debug, Clone)]
struct Cursor {
    /// All below was given.
    next: Offset,
    walk: Walk,
    block: Option<Rendered>,
}

impl Merged {
    /// The file of these shares, in the order of their partitions, which begins at `starts`.
    pub fn new(shares: Vec<Share>, starts: Arc<[Offset]>) -> Self {
        let first = Checkpoint { at: 0, offsets: starts, round: 0 };
        let state = State { checkpoints: vec![first], spacing: CHECKPOINT_BYTES, ..State::default() };
        Self { shares, state: Mutex::new(state) }
    }

    /// The size in bytes; `None` when that costs more than `effort`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn size(&self, effort: Effort) -> Result<Option<u64>, ViewError> {
        // What is left of the effort is not told; each partition's share of it is fair.
        let effort = match effort {
            Effort::Bytes(bytes) => Effort::Bytes(bytes / self.shares.len().max(1) as u64),
            all => all,
        };
        let mut size: u64 = 0;
        for share in &self.shares {
            let part = match &share.growing {
                Some(selection) => selection.size(effort)?,
                None => share.records.size(effort)?,
            };
            let Some(part) = part else { return Ok(None) };
            size = size.saturating_add(part);
        }
        Ok(Some(size))
    }

    /// Reads up to `len` bytes at `at` into `out`; fewer only at the end.
    ///
    /// # Errors
    /// Those of reading; [`ViewError::Damaged`] where the mount asks for that.
    pub fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) -> Result<(), ViewError> {
        let begun = out.len();
        let goal = begun.saturating_add(len);
        let mut reader = self.reader_at(at);
        let from = reader.offsets();
        let mut skip = at - reader.position();
        let left = std::mem::take(&mut reader.left);
        reader.left = give(&left, &mut skip, goal, out);
        while out.len() < goal {
            let mut rest = Vec::new();
            match self.next(&mut reader, |bytes| rest = give(bytes, &mut skip, goal, out)) {
                Ok(Some(_)) => reader.left = rest,
                Ok(None) => break,
                // What comes before the damage is given first; the next read fails.
                Err(ViewError::Damaged { .. }) if out.len() > begun => return self.check_from(&from),
                Err(error) => return Err(error),
            }
        }
        if let Err(error) = self.check_from(&from) {
            out.truncate(begun);
            return Err(error);
        }
        self.keep(reader);
        Ok(())
    }

    /// Whether a byte lies no further than so many bytes behind those that were merged.
    pub fn is_near(&self, at: u64, distance: u64) -> bool {
        let state = self.lock();
        let merged = state.checkpoints.last().map_or(0, |last| last.at);
        let read = state.readers.iter().map(|reader| reader.at).max().unwrap_or(0);
        at <= merged.max(read).saturating_add(distance.max(state.spacing))
    }

    /// Fails unless all partitions are from these offsets on what they were: then what was read there is what comes there.
    fn check_from(&self, offsets: &[Offset]) -> Result<(), ViewError> {
        let mut shares = self.shares.iter().zip(offsets);
        Ok(shares.try_for_each(|(share, offset)| share.records.check_from(*offset))?)
    }

    /// How far each partition was read when all but the last `count` records were given.
    ///
    /// # Errors
    /// Those of reading.
    pub fn last(&self, count: u64) -> Result<Arc<[Offset]>, ViewError> {
        let mut reader = self.reader_at(0);
        let mut last = VecDeque::new();
        while let Some(given) = self.next(&mut reader, |_| ())? {
            last.push_back(given);
            if last.len() as u64 > count {
                last.pop_front();
            }
        }
        let mut offsets: Vec<Offset> = reader.cursors.iter().map(|cursor| cursor.next).collect();
        for (number, offset) in last.into_iter().rev() {
            if let Some(first) = offsets.get_mut(number) {
                *first = offset;
            }
        }
        Ok(offsets.into())
    }

    /// Gives the next record to `put`; the number of its partition and its offset, `None` where there is none.
    fn next(
        &self,
        reader: &mut Reader,
        put: impl FnOnce(&[u8]),
    ) -> Result<Option<(usize, Offset)>, ViewError> {
        while reader.heads.is_empty() {
            if !self.begin_round(reader)? {
                return Ok(None);
            }
        }
        let Some(Reverse((_, number))) = reader.heads.peek().copied() else { return Ok(None) };
        self.load(reader, number)?;
        let Some(cursor) = reader.cursors.get_mut(number) else { return Ok(None) };
        let Some((timed, bytes)) = cursor.block.as_mut().and_then(Rendered::take) else { return Ok(None) };
        put(bytes);
        reader.at += bytes.len() as u64;
        cursor.next = timed.offset.next();
        reader.heads.pop();
        let is_through = cursor.block.as_ref().is_none_or(|block| block.head().is_none());
        if is_through {
            let block = cursor.block.take();
            reader.waiting = reader.waiting.saturating_sub(block.map_or(0, |block| block.len()));
        }
        self.push_head(reader, number)?;
        self.note(reader);
        Ok(Some((number, timed.offset)))
    }

    /// Begins the next round of a reader, or the one that it is in; whether there is one.
    fn begin_round(&self, reader: &mut Reader) -> Result<bool, ViewError> {
        let round = if reader.ends.is_some() { reader.round + 1 } else { reader.round };
        let ends = {
            let mut state = self.lock();
            if round >= state.rounds.len() && !self.add_round(&mut state)? {
                return Ok(false);
            }
            state.rounds.get(round).cloned()
        };
        (reader.round, reader.ends) = (round, ends);
        for number in 0..self.shares.len() {
            if let Some(cursor) = reader.cursors.get_mut(number).filter(|cursor| cursor.block.is_none()) {
                cursor.walk = Walk::from(cursor.next);
            }
            self.push_head(reader, number)?;
        }
        Ok(true)
    }

    /// Adds a round to where the partitions end now; whether that is further than the last one.
    fn add_round(&self, state: &mut State) -> Result<bool, ViewError> {
        let too_soon =
            state.rounds.len() > FREE_ROUNDS && state.last_round.is_some_and(|last| last.elapsed() < ROUND);
        if too_soon {
            return Ok(false);
        }
        let ends =
            self.shares.iter().map(|share| share.records.end()).collect::<Result<Arc<[Offset]>, _>>()?;
        if state.rounds.last() == Some(&ends) {
            return Ok(false);
        }
        state.rounds.push(ends);
        state.last_round = Some(Instant::now());
        Ok(true)
    }

    /// Puts a partition's next record of this round among the heads.
    fn push_head(&self, reader: &mut Reader, number: usize) -> Result<(), ViewError> {
        self.load(reader, number)?;
        let end = reader.ends.as_ref().and_then(|ends| ends.get(number).copied());
        let cursor = reader.cursors.get(number);
        let head = cursor.and_then(|cursor| cursor.block.as_ref()).and_then(Rendered::head);
        if let Some(head) = head.filter(|head| end.is_some_and(|end| head.offset < end)) {
            reader.heads.push(Reverse((head.timestamp, number)));
        }
        Ok(())
    }

    /// Renders the block of a partition's next record, if it isn't at hand.
    fn load(&self, reader: &mut Reader, number: usize) -> Result<(), ViewError> {
        let (Some(share), Some(cursor)) = (self.shares.get(number), reader.cursors.get_mut(number)) else {
            return Ok(());
        };
        if cursor.block.is_some() {
            return Ok(());
        }
        let rendered = share.records.next_rendered(&mut cursor.walk)?;
        reader.waiting += rendered.as_ref().map_or(0, Rendered::len);
        cursor.block = rendered;
        if reader.waiting > MAX_WAITING_BYTES {
            reader.forget_others(number);
        }
        Ok(())
    }

    /// Remembers a reader's place if it is far enough from the last one.
    fn note(&self, reader: &mut Reader) {
        if reader.at < reader.note_from {
            return;
        }
        let mut state = self.lock();
        let last = state.checkpoints.last().map_or(0, |last| last.at);
        reader.note_from = last.saturating_add(state.spacing);
        if reader.at < reader.note_from {
            return;
        }
        reader.note_from = reader.at.saturating_add(state.spacing);
        state.checkpoints.push(Checkpoint { at: reader.at, offsets: reader.offsets(), round: reader.round });
        if state.checkpoints.len() > MAX_CHECKPOINTS {
            let mut index = 0;
            state.checkpoints.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            state.spacing = state.spacing.saturating_mul(2);
        }
    }

    /// A reader at or before `at`, as near as there is one.
    fn reader_at(&self, at: u64) -> Reader {
        let mut state = self.lock();
        let index = state.checkpoints.partition_point(|checkpoint| checkpoint.at <= at).saturating_sub(1);
        let checkpoint = state.checkpoints.get(index).cloned();
        let behind = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.at);
        let readers = state.readers.iter().enumerate();
        let near = readers
            .filter(|(_, reader)| (behind..=at).contains(&reader.position()))
            .max_by_key(|(_, reader)| reader.at);
        if let Some((index, _)) = near {
            return state.readers.remove(index);
        }
        let (offsets, round) = checkpoint.map_or_else(
            || (vec![Offset(0); self.shares.len()].into(), 0),
            |checkpoint| (checkpoint.offsets, checkpoint.round),
        );
        let cursor = |next: &Offset| Cursor { next: *next, walk: Walk::from(*next), block: None };
        let cursors = offsets.iter().map(cursor).collect();
        Reader {
            at: behind,
            left: Vec::new(),
            note_from: 0,
            round,
            ends: None,
            cursors,
            heads: BinaryHeap::new(),
            waiting: 0,
        }
    }

    fn keep(&self, reader: Reader) {
        let mut state = self.lock();
        state.readers.push(reader);
        if state.readers.len() > KEPT_READERS {
            state.readers.remove(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Appends what `out` has room for of some bytes, without the first ones that are to be skipped; the rest.
fn give(bytes: &[u8], skip: &mut u64, goal: usize, out: &mut Vec<u8>) -> Vec<u8> {
    let from = to_index(*skip).min(bytes.len());
    *skip -= from as u64;
    let bytes = bytes.get(from..).unwrap_or_default();
    let (now, rest) = bytes.split_at(bytes.len().min(goal.saturating_sub(out.len())));
    out.extend_from_slice(now);
    rest.to_vec()
}

impl Reader {
    /// The place of the next byte.
    fn position(&self) -> u64 {
        self.at - self.left.len() as u64
    }

    fn offsets(&self) -> Arc<[Offset]> {
        self.cursors.iter().map(|cursor| cursor.next).collect()
    }

    /// Drops blocks that wait for their turn; they are rendered again then.
    fn forget_others(&mut self, kept: usize) {
        for (number, cursor) in self.cursors.iter_mut().enumerate() {
            if number != kept && cursor.block.take().is_some() {
                cursor.walk = Walk::from(cursor.next);
            }
        }
        let block = self.cursors.get(kept).and_then(|cursor| cursor.block.as_ref());
        self.waiting = block.map_or(0, Rendered::len);
    }
}
