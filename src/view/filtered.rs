//! The records that pass a filter as the bytes of one file.
//!
//! The file is found piece by piece, as far as somebody reads or asks for its size. A piece is either a stretch of a run's
//! output, where all of the run's records pass, or one block of which some do.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::format::batch::Header;
use crate::log::LogError;
use crate::log::segment::times::Timed;
use crate::units::Offset;
use crate::view::buffers::Buffer;
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::layout::{Block, to_index};
use crate::view::partition_view::{ViewError, damaged};
use crate::view::passing::{Met, Passing, Step, Walk};
use crate::view::pieces::Pieces;
use crate::view::reading::push_batch;
use crate::view::rendered::Rendered;
use crate::view::run::{Goal, Run};
use crate::view::selection::Effort;

/// What is rendered to learn its length is kept for the read that follows, if it is no more.
const KEPT_BYTES: usize = 16 * 1024;

/// The records of a range of offsets that pass a filter, in one format.
#[derive(Debug)]
pub struct Filtered {
    passing: Passing,
    format: Format,
    generation: u64,
    found: Mutex<Found>,
    rendered: Mutex<Option<(usize, Arc<Buffer>)>>,
}

/// What is known of the file.
#[derive(Debug)]
struct Found {
    pieces: Vec<Piece>,
    walk: Walk,
    is_done: bool,
    /// The damage that ended it, where the mount asks for an error there.
    damage: Option<(Arc<Run>, Offset)>,
}

/// A stretch of the file.
#[derive(Debug, Clone)]
struct Piece {
    run: Arc<Run>,
    what: What,
    /// Where it ends in the file.
    end: u64,
}

/// What a piece is made of.
#[derive(Debug, Clone, Copy)]
enum What {
    /// The run's output from here on.
    Output(u64),
    /// The records of a block that pass, from an offset on: its front may have been looked at before it grew.
    Block(Block, Offset),
}

impl Filtered {
    /// The file of these records in a format.
    pub fn new(passing: Passing, format: Format) -> Self {
        let (pieces, walk) = (Vec::new(), Walk::from(passing.range.start));
        let found = Found { pieces, walk, is_done: false, damage: None };
        let (found, rendered) = (Mutex::new(found), Mutex::default());
        let generation = passing.view.partition.generation();
        Self { passing, format, generation, found, rendered }
    }

    /// Fails unless all from `offset` on is what it was when the file was made.
    ///
    /// # Errors
    /// [`LogError::Stale`], and those of listing.
    pub(super) fn check_from(&self, offset: Offset) -> Result<(), LogError> {
        let partition = &self.passing.view.partition;
        if partition.untouched_since(self.generation)? > offset || partition.first_on_disk()? > offset {
            return Err(LogError::Stale { path: partition.origin.path().to_owned() });
        }
        Ok(())
    }

    /// The offset after the last record that may be in it now.
    ///
    /// # Errors
    /// Those of reading.
    pub fn end(&self) -> Result<Offset, LogError> {
        self.passing.end()
    }

    /// The size in bytes; `None` when that costs more than `effort`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn size(&self, effort: Effort) -> Result<Option<u64>, ViewError> {
        let mut left = match effort {
            Effort::Bytes(bytes) => bytes,
            Effort::All | Effort::Background => u64::MAX,
        };
        self.with_env(|env| {
            let env = &Env { paced: effort == Effort::Background, ..*env };
            loop {
                // One step at a time, so that readers get their turn.
                let mut found = self.lock();
                match self.extend(env, &mut found, &mut left)? {
                    Some(true) => {}
                    Some(false) => return Ok(Some(found.size())),
                    None => return Ok(None),
                }
            }
        })
    }

    /// Whether a byte is known, or found with so many bytes of reading.
    ///
    /// # Errors
    /// Those of reading.
    pub fn is_near(&self, at: u64, distance: u64) -> Result<bool, ViewError> {
        let mut left = distance;
        self.with_env(|env| {
            loop {
                let mut found = self.lock();
                if found.size() > at {
                    return Ok(true);
                }
                match self.extend(env, &mut found, &mut left)? {
                    Some(true) => {}
                    Some(false) => return Ok(true),
                    None => return Ok(false),
                }
            }
        })
    }

    /// Reads up to `len` bytes at `at` into `out`; fewer only at the end.
    ///
    /// # Errors
    /// Those of reading; [`ViewError::Damaged`] where the mount asks for that.
    pub fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), ViewError> {
        self.with_env(|env| {
            let (begun, goal) = (out.len(), out.len().saturating_add(len));
            while out.len() < goal {
                let at = at + (out.len() - begun) as u64;
                let Some((index, start, piece)) = self.piece_at(env, at)? else {
                    let damage = self.lock().damage.clone().filter(|_| out.len() == begun);
                    return damage.map_or(Ok(()), |(run, offset)| Err(damaged(&run.segment, offset)));
                };
                let wanted = (at - start)..(piece.end - start).min(at - start + (goal - out.len()) as u64);
                self.share(env, index, &piece, wanted, out)?;
            }
            Ok(())
        })
    }

    /// The offsets of the first `count` records that pass, and that of the last one at all.
    ///
    /// # Errors
    /// Those of reading.
    pub fn offsets(&self, count: usize) -> Result<(Vec<Offset>, Option<Offset>), ViewError> {
        self.size(Effort::All)?;
        let pieces = self.lock().pieces.clone();
        let (mut first, mut last) = (Vec::new(), None);
        self.with_env(|env| {
            let mut start = 0;
            for (number, piece) in pieces.iter().enumerate() {
                if first.len() < count || number + 1 == pieces.len() {
                    self.for_each_record(env, piece, piece.end - start, |offset| {
                        if first.len() < count {
                            first.push(offset);
                        }
                        last = Some(offset);
                    })?;
                }
                start = piece.end;
            }
            Ok::<_, ViewError>(())
        })?;
        Ok((first, last))
    }

    /// Renders the records that pass of the next block that has some: `None` at the end.
    ///
    /// # Errors
    /// Those of reading; [`ViewError::Damaged`] where the mount asks for that.
    pub(super) fn next_rendered(&self, walk: &mut Walk) -> Result<Option<Rendered>, ViewError> {
        self.with_env(|env| {
            loop {
                match self.passing.step(env, walk, &mut u64::MAX.clone())? {
                    Step::On | Step::TooDear => {}
                    Step::Done => return Ok(None),
                    Step::Damage(run, offset) => return Err(damaged(&run.segment, offset)),
                    Step::Block(met) => {
                        let mut rendered = Rendered::default();
                        self.render(env, &met, |part, timed| rendered.push(part, timed))?;
                        if !rendered.is_empty() {
                            return Ok(Some(rendered));
                        }
                    }
                }
            }
        })
    }

    fn for_each_record(
        &self,
        env: &Env<'_>,
        piece: &Piece,
        len: u64,
        mut visit: impl FnMut(Offset),
    ) -> Result<(), LogError> {
        let mut visit_block = |block: &Block, from: Offset| {
            piece.run.for_each_record(env, block, |record, _| {
                if self.passing.wants(record, from) {
                    visit(record.offset);
                }
                record.offset < self.passing.range.end
            })
        };
        match piece.what {
            What::Block(block, from) => visit_block(&block, from),
            What::Output(from) => {
                let mut at = from;
                while at < from + len {
                    let Some(placed) = piece.run.at_output(self.format, at) else { break };
                    visit_block(&placed.block, self.passing.range.start)?;
                    at = placed.end.max(at + 1);
                }
                Ok(())
            }
        }
    }

    /// The piece that holds byte `at`, its number and where it begins; `None` at the end.
    fn piece_at(&self, env: &Env<'_>, at: u64) -> Result<Option<(usize, u64, Piece)>, ViewError> {
        loop {
            let mut found = self.lock();
            let index = found.pieces.partition_point(|piece| piece.end <= at);
            if let Some(piece) = found.pieces.get(index) {
                let before = index.checked_sub(1).and_then(|before| found.pieces.get(before));
                return Ok(Some((index, before.map_or(0, |before| before.end), piece.clone())));
            }
            if self.extend(env, &mut found, &mut u64::MAX.clone())? == Some(false) {
                return Ok(None);
            }
        }
    }

    /// Adds the bytes `wanted` of a piece, or the first of them.
    fn share(
        &self,
        env: &Env<'_>,
        index: usize,
        piece: &Piece,
        wanted: Range<u64>,
        out: &mut Pieces,
    ) -> Result<(), LogError> {
        match piece.what {
            What::Output(from) => {
                let at = from + wanted.start;
                let placed = piece.run.at_output(self.format, at).ok_or_else(|| piece.run.stale())?;
                let part =
                    to_index(at - placed.start)..to_index((from + wanted.end).min(placed.end) - placed.start);
                piece.run.share(env, self.format, &placed, part, out)
            }
            What::Block(block, from) => {
                let kept = self.lock_rendered().clone().filter(|(number, _)| *number == index);
                let bytes = match kept {
                    Some((_, bytes)) => bytes,
                    None => {
                        let mut bytes = env.shared.buffers.take();
                        let met = Met { run: piece.run.clone(), block, from, all: false };
                        self.render(env, &met, |part, _| bytes.extend_from_slice(part))?;
                        let bytes = Arc::new(bytes);
                        *self.lock_rendered() = Some((index, bytes.clone()));
                        bytes
                    }
                };
                let part = to_index(wanted.start)..to_index(wanted.end);
                if bytes.len() < part.end {
                    return Err(piece.run.stale());
                }
                out.share(&bytes, part);
                Ok(())
            }
        }
    }

    /// Renders the records of a block that pass, one after another with its timestamp; or the batches that hold some.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn render(
        &self,
        env: &Env<'_>,
        met: &Met,
        mut put: impl FnMut(&[u8], Timed),
    ) -> Result<(), LogError> {
        let mut bytes = 0;
        let rendered = self.render_each(env, met, |part, timed| {
            bytes += part.len() as u64;
            put(part, timed);
        });
        env.shared.counts.rendered_bytes.add(bytes);
        rendered
    }

    fn render_each(
        &self,
        env: &Env<'_>,
        Met { run, block, from, .. }: &Met,
        mut put: impl FnMut(&[u8], Timed),
    ) -> Result<(), LogError> {
        let mut scratch = Vec::new();
        if !self.format.is_of_batches() {
            return run.for_each_record(env, block, |record, _| {
                if self.passing.wants(record, *from) {
                    scratch.clear();
                    env.renderer.render(self.format, record, &mut scratch);
                    put(&scratch, Timed { offset: record.offset, timestamp: record.timestamp });
                }
                record.offset < self.passing.range.end
            });
        }
        let limits = run.segment.limits();
        run.for_each_batch(env, block, |batch, position, decoder| {
            let mut holds_some = false;
            if env.is_visible(batch) {
                for record in batch.records(decoder, &limits).map_err(|_| run.stale())? {
                    holds_some |= self.passing.wants(&record.map_err(|_| run.stale())?, *from);
                }
            }
            if holds_some {
                scratch.clear();
                push_batch(self.format, batch, position, decoder, &run.segment, &mut scratch);
                let Header { last_offset: offset, max_timestamp: timestamp, .. } = batch.header;
                put(&scratch, Timed { offset, timestamp });
            }
            Ok(true)
        })
    }

    /// Finds the next piece, or a part of the way to it; whether there may be more, `None` when that costs more than is `left`.
    fn extend(&self, env: &Env<'_>, found: &mut Found, left: &mut u64) -> Result<Option<bool>, ViewError> {
        if found.is_done {
            return Ok(Some(false));
        }
        // A step that is too dear is taken again, from where it began.
        let mut walk = found.walk.clone();
        let step = self.passing.step(env, &mut walk, left)?;
        self.check_from(found.walk.looked_to())?;
        match step {
            Step::TooDear => return Ok(None),
            Step::On => {}
            Step::Done => found.is_done = true,
            Step::Damage(run, offset) => {
                found.damage = Some((run, offset));
                found.is_done = true;
            }
            Step::Block(met) => {
                let cost = self.cost(&met);
                if cost > *left {
                    return Ok(None);
                }
                *left -= cost;
                self.add(env, found, &met)?;
            }
        }
        found.walk = walk;
        Ok(Some(!found.is_done))
    }

    /// Whether all of a block is in the file, so that a run's output can serve.
    fn is_whole(&self, Met { block, from, all, .. }: &Met) -> bool {
        let is_inside = *from <= block.base() && block.last() < self.passing.range.end;
        *all && is_inside && !self.format.is_of_batches()
    }

    /// Source bytes that adding a block reads.
    fn cost(&self, met: &Met) -> u64 {
        let (start, end) = met.block.span();
        let is_known = self.is_whole(met) && met.run.at_offset(self.format, met.block.base()).is_some();
        if is_known { 0 } else { end - start }
    }

    /// Adds what passes of a block.
    fn add(&self, env: &Env<'_>, found: &mut Found, met: &Met) -> Result<(), LogError> {
        let Met { run, block, from, .. } = met;
        // A run whose output was measured up to here goes on cheaply, and needs no memory of ours.
        if self.is_whole(met) {
            let known = run.at_offset(self.format, block.base()).is_some();
            if known || run.reaches(self.format, block) {
                run.extend(env, self.format, Goal::Offset(block.last()))?;
                // It may have grown since it was met: what came then is met next.
                let placed = run.at_offset(self.format, block.last()).map(|(placed, _)| placed);
                if let Some(placed) = placed.filter(|placed| placed.block.last() == block.last()) {
                    found.push_output(run, placed.start, placed.end);
                    return Ok(());
                }
            }
        }
        let mut bytes = env.shared.buffers.take();
        self.render(env, met, |part, _| bytes.extend_from_slice(part))?;
        if bytes.is_empty() {
            return Ok(());
        }
        let end = found.size() + bytes.len() as u64;
        if bytes.len() <= KEPT_BYTES {
            // Its own memory: that of the buffer is for much more.
            let mut kept = Buffer::default();
            kept.extend_from_slice(&bytes);
            *self.lock_rendered() = Some((found.pieces.len(), Arc::new(kept)));
        }
        found.pieces.push(Piece { run: run.clone(), what: What::Block(*block, *from), end });
        Ok(())
    }

    fn with_env<T, E: From<LogError>>(&self, work: impl FnOnce(&Env<'_>) -> Result<T, E>) -> Result<T, E> {
        self.passing.view.with_env(self.passing.committed, work)
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_rendered(&self) -> MutexGuard<'_, Option<(usize, Arc<Buffer>)>> {
        self.rendered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Found {
    fn size(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    /// Adds a stretch of a run's output, to the last piece if that goes on so.
    fn push_output(&mut self, run: &Arc<Run>, from: u64, to: u64) {
        let end = self.size() + (to - from);
        let start = self.pieces.len().checked_sub(2).and_then(|before| self.pieces.get(before));
        let start = start.map_or(0, |before| before.end);
        match self.pieces.last_mut() {
            Some(Piece { run: same, what: What::Output(first), end: last })
                if Arc::ptr_eq(same, run) && *first + (*last - start) == from =>
            {
                *last = end;
            }
            _ if to > from => self.pieces.push(Piece { run: run.clone(), what: What::Output(from), end }),
            _ => {}
        }
    }
}
