//! A range of a partition's records as the bytes of one file.
//!
//! The file is what the records render to, one after another: part by part, each part a stretch of one segment's run. The
//! first part may skip some of its run, the last may end before it.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::units::Offset;
use crate::view::ahead::{Reader, Wanted};
use crate::view::blocks::Turn;
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::layout::to_index;
use crate::view::partition_view::{PartitionView, ViewError, damaged};
use crate::view::pieces::Pieces;
use crate::view::reading::Edge;
use crate::view::run::{Goal, Placed, Run};

/// The records from one offset on, to another or to the log's end, in one format.
#[derive(Debug)]
pub struct Selection {
    view: Arc<PartitionView>,
    committed: bool,
    format: Format,
    start: Offset,
    end: Option<Offset>,
    extent: Extent,
    parts: Mutex<Vec<Arc<Part>>>,
    ends: Mutex<Ends>,
}

/// Where each of the parts in front that can't change ends in the file: of 100,000 segments none is asked that is not read.
#[derive(Debug, Default)]
struct Ends {
    /// The partition's: a truncation may make a segment the last one again.
    generation: u64,
    ends: Vec<u64>,
}

/// How far a selection goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Through all segments that there are, and that come.
    Log,
    /// To the end of the segment in which it begins.
    Segment,
}

/// A stretch of one run.
#[derive(Debug)]
struct Part {
    run: Arc<Run>,
    /// Bytes of the run's output before the selection's start.
    skip: OnceLock<u64>,
    /// Bytes of the run's output before the selection's end, once known; for a selection that ends.
    cut: OnceLock<u64>,
    /// The part's length, once it can't change.
    sealed_len: OnceLock<u64>,
}

impl Part {
    /// How long it is as far as that is known without reading.
    fn known_len(&self, format: Format) -> u64 {
        let skipped = || self.skip.get().copied().unwrap_or(0);
        self.sealed_len.get().copied().unwrap_or_else(|| self.run.output(format).saturating_sub(skipped()))
    }
}

/// How much may be measured for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// This many source bytes.
    Bytes(u64),
    /// Whatever it takes.
    All,
    /// Whatever it takes, at the rate that measuring is allowed.
    Background,
}

impl Selection {
    /// The records of `view` from `start` to `end` (exclusive), or to the log's end as it grows.
    pub fn new(
        view: Arc<PartitionView>,
        committed: bool,
        format: Format,
        start: Offset,
        end: Option<Offset>,
    ) -> Self {
        Self {
            view,
            committed,
            format,
            start,
            end,
            extent: Extent::Log,
            parts: Mutex::default(),
            ends: Mutex::default(),
        }
    }

    /// The same, ending with the segment in which it begins, also when another one follows that later.
    #[must_use]
    pub fn within_its_segment(self) -> Self {
        Self { extent: Extent::Segment, ..self }
    }

    /// Finds where it begins, so that it stays readable from there on.
    ///
    /// # Errors
    /// Those of listing.
    pub fn begin(&self) -> Result<(), LogError> {
        self.view.with_env(self.committed, |env| self.part(env, 0).map(drop))
    }

    /// The size in bytes; `None` when that costs more than `effort`.
    ///
    /// # Errors
    /// Those of reading.
    pub fn size(&self, effort: Effort) -> Result<Option<u64>, ViewError> {
        self.view.with_env(self.committed, |env| {
            let mut left = match effort {
                Effort::Bytes(bytes) => bytes,
                Effort::All | Effort::Background => u64::MAX,
            };
            let env = &Env { paced: effort == Effort::Background, ..*env };
            let (mut index, mut total) = self.part_before(u64::MAX);
            while let Some(part) = self.part(env, index)? {
                let was_final = Self::is_final(env, &part);
                let Some(len) = self.measured_len(env, &part, &mut left)? else { return Ok(None) };
                if !was_final && self.is_followed(env, &part, index)? {
                    // What came before the roll is measured first.
                    continue;
                }
                total += len;
                if !was_final || self.ends_in(&part) {
                    break;
                }
                self.note_end(&part, index, total);
                index += 1;
            }
            Ok(Some(total))
        })
    }

    /// The number of a part, and where it begins in the file: of those whose ends can't change, or the first behind them, the one that
    /// holds byte `at`.
    fn part_before(&self, at: u64) -> (usize, u64) {
        let Ends { ends, .. } = &*self.ends();
        let index = ends.partition_point(|end| *end <= at);
        (index, index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0))
    }

    /// Keeps where a part ends, if neither it nor those in front of it can change.
    fn note_end(&self, part: &Part, index: usize, end: u64) {
        let mut ends = self.ends();
        if part.sealed_len().is_some() && ends.ends.len() == index {
            ends.ends.push(end);
        }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        let generation = self.view.partition.generation();
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let last = ends.ends.len().checked_sub(1).and_then(|last| self.lock().get(last).cloned());
        if ends.generation != generation || last.is_some_and(|last| last.sealed_len().is_none()) {
            *ends = Ends { generation, ends: Vec::new() };
        }
        ends
    }

    /// The length of a part, measured as far as the selection needs it; `None` when that costs more than is left.
    fn measured_len(&self, env: &Env<'_>, part: &Part, left: &mut u64) -> Result<Option<u64>, LogError> {
        if let Some(len) = part.sealed_len.get() {
            return Ok(Some(*len));
        }
        let goal = self.goal(part);
        let cost = part.run.cost(env, self.format, goal);
        if cost > *left {
            return Ok(None);
        }
        *left -= cost;
        match part.run.extend(env, self.format, goal) {
            Err(LogError::Stale { .. }) if part.run.is_known_to_its_end(self.format) => {}
            extended => extended?,
        }
        self.part_len(env, part).map(Some)
    }

    /// Whether nothing comes to a part's segment any more, and all in it may be shown.
    fn is_final(env: &Env<'_>, part: &Part) -> bool {
        let segment = &part.run.segment;
        !segment.is_active() && segment.below() <= env.bound()
    }

    /// Whether a segment that was the last one is now followed by another, and final.
    fn is_followed(&self, env: &Env<'_>, part: &Part, index: usize) -> Result<bool, LogError> {
        Ok(self.part(env, index + 1)?.is_some() && Self::is_final(env, part))
    }

    /// Whether a byte lies no further than so many bytes behind those that are known.
    pub fn is_near(&self, at: u64, distance: u64) -> bool {
        let from = at.saturating_sub(distance);
        let (index, start) = self.part_before(from);
        let mut left = from - start;
        left == 0
            || self.lock().iter().skip(index).any(|part| {
                left = left.saturating_sub(part.known_len(self.format));
                left == 0
            })
    }

    /// Measures the segments of the selection from its end on, beside somebody who begins at its start.
    ///
    /// # Errors
    /// Those of reading.
    pub fn measure_backward(&self) -> Result<(), ViewError> {
        if self.extent == Extent::Segment {
            return Ok(());
        }
        self.view.with_env(self.committed, |env| {
            let env = &Env { paced: true, ..*env };
            let segments = self.view.partition.segments()?;
            let first = Partition::floor(&segments, self.start);
            let end = self.current_end();
            for segment in segments.iter().skip(first + 1).rev().filter(|segment| segment.lower < end) {
                let run = self.view.run(env, segment);
                if run.is_complete(env, self.format) {
                    break;
                }
                run.extend(env, self.format, Goal::End)?;
            }
            Ok(())
        })
    }

    /// Reads up to `len` bytes at `at` into `out`; fewer only at the end.
    ///
    /// # Errors
    /// Those of reading; [`ViewError::Damaged`] where the mount asks for that.
    pub fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), ViewError> {
        self.read_claiming(at, len, out, |_, _, _| None).map(drop)
    }

    /// The same for one of many readers: where there is no room for the next block, what is in front of it is read, and a turn
    /// says when to come again.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn read_in_turn(&self, at: u64, len: usize, out: &mut Pieces) -> Result<Option<Turn>, ViewError> {
        self.read_claiming(at, len, out, |env, run, placed| run.claim(env, self.format, placed))
    }

    fn read_claiming(
        &self,
        at: u64,
        len: usize,
        out: &mut Pieces,
        claim: impl Fn(&Env<'_>, &Run, &Placed) -> Option<Turn>,
    ) -> Result<Option<Turn>, ViewError> {
        self.view.with_env(self.committed, |env| {
            let begun = out.len();
            let goal = begun.saturating_add(len);
            let (mut index, mut part_start) = self.part_before(at);
            while out.len() < goal {
                let Some(part) = self.part(env, index)? else { break };
                let known = part.sealed_len();
                let next = at + (out.len() + len - goal) as u64;
                let was_final = known.is_some() || Self::is_final(env, &part);
                if known.is_none_or(|known| part_start + known > next) {
                    match self.read_part(env, &part, next - part_start, goal, out, &claim) {
                        // What came before the roll is read first, and nothing behind what is not decided.
                        Ok(PartRead::Ended) if !was_final => {
                            if self.is_followed(env, &part, index)? {
                                continue;
                            }
                            break;
                        }
                        Ok(PartRead::Ended) => {}
                        Ok(PartRead::Full) => break,
                        Ok(PartRead::Waits(turn)) => return Ok(Some(turn)),
                        // What comes before the damage is given first; the next read fails.
                        Err(ViewError::Damaged { .. }) if out.len() > begun => break,
                        Err(error) => return Err(error),
                    }
                }
                part_start += self.part_len(env, &part)?;
                self.note_end(&part, index, part_start);
                index += 1;
            }
            Ok(None)
        })
    }

    /// After a read of `len` bytes at `at`: has made what `reader` will ask for next, if it goes on as before. Of what isn't measured
    /// nothing is made.
    pub fn read_ahead(&self, reader: &Reader, at: u64, len: usize) {
        let Some(wanted) = reader.has_read(at, len) else { return };
        // Who reads it meets what is wrong with it, and is told.
        let made = self.view.with_env(self.committed, |env| self.make(env, reader, wanted));
        if let Err(error) = made {
            tracing::debug!(%error, "nothing is read ahead");
        }
    }

    /// Has the blocks made that hold these bytes.
    fn make(&self, env: &Env<'_>, reader: &Reader, bytes: Range<u64>) -> Result<(), ViewError> {
        let mut at = bytes.start;
        let (mut index, mut part_start) = self.part_before(at);
        while at < bytes.end {
            let Some(part) = self.part(env, index)? else { break };
            let part_end = part_start + self.part_len(env, &part)?;
            let skip = self.skip(env, &part)?;
            while at < bytes.end.min(part_end) {
                let Some(placed) = part.run.at_output(self.format, at - part_start + skip) else {
                    return Ok(());
                };
                let end = (part_start + placed.end).saturating_sub(skip);
                let wanted = Wanted {
                    view: self.view.clone(),
                    run: part.run.clone(),
                    committed: self.committed,
                    format: self.format,
                    placed,
                };
                if !reader.make(&env.shared.ahead, wanted, end) {
                    return Ok(());
                }
                at = end;
            }
            if !Self::is_final(env, &part) {
                break;
            }
            part_start = part_end;
            index += 1;
        }
        Ok(())
    }

    /// Reads from byte `at` of a part until `out` has `goal` bytes or the part ends.
    fn read_part(
        &self,
        env: &Env<'_>,
        part: &Part,
        at: u64,
        goal: usize,
        out: &mut Pieces,
        claim: impl Fn(&Env<'_>, &Run, &Placed) -> Option<Turn>,
    ) -> Result<PartRead, ViewError> {
        let (run, format) = (&part.run, self.format);
        let mut at = at + self.skip(env, part)?;
        while out.len() < goal {
            match run.extend(env, format, Goal::Byte(at)) {
                // Who has read all of a segment goes on behind it, also when it is gone.
                Err(LogError::Stale { .. })
                    if run.is_known_to_its_end(format) && run.output(format) <= at =>
                {
                    return Ok(PartRead::Ended);
                }
                extended => extended?,
            }
            let Some(placed) = run.at_output(format, at) else {
                if self.view.scope.fail_on_damage && run.ends_damaged() && self.goes_on_after(run.reached()) {
                    return Err(damaged(&run.segment, run.segment.below()));
                }
                return Ok(PartRead::Ended);
            };
            if self.fails_before(&placed, at) {
                return Err(damaged(&run.segment, placed.block.base()));
            }
            let end = self.end_in_block(env, part, &placed)?;
            if at >= end {
                return Ok(PartRead::Ended);
            }
            if let Some(turn) = claim(env, run, &placed) {
                return Ok(PartRead::Waits(turn));
            }
            let from = to_index(at - placed.start);
            let to = to_index(end - placed.start).min(from.saturating_add(goal - out.len()));
            run.share(env, format, &placed, from..to, out)?;
            at += (to - from) as u64;
        }
        Ok(PartRead::Full)
    }

    /// Whether a read at `at` must fail because damage lies right before this block, within the selection.
    fn fails_before(&self, placed: &Placed, at: u64) -> bool {
        self.view.scope.fail_on_damage
            && placed.block.is_after_damage()
            && at == placed.start
            && self.start < placed.block.base()
            && self.goes_on_after(placed.before)
    }

    /// Whether offsets behind `last` belong to the selection.
    fn goes_on_after(&self, last: Option<Offset>) -> bool {
        last.is_none_or(|last| last.next() < self.current_end())
    }

    /// Where the selection ends within a block's output, which is the block's end for all blocks but the last.
    fn end_in_block(&self, env: &Env<'_>, part: &Part, placed: &Placed) -> Result<u64, LogError> {
        let end = self.current_end();
        if placed.block.last() < end {
            return Ok(placed.end);
        }
        Ok(self.cut(env, part, end)?.min(placed.end))
    }

    fn cut(&self, env: &Env<'_>, part: &Part, end: Offset) -> Result<u64, LogError> {
        if self.end != Some(end) {
            // The high watermark moves: what lies before it is asked for again each time.
            return part.run.output_before(env, self.format, end, Edge::End);
        }
        if let Some(cut) = part.cut.get() {
            return Ok(*cut);
        }
        let cut = part.run.output_before(env, self.format, end, Edge::End)?;
        Ok(*part.cut.get_or_init(|| cut))
    }

    /// The part's length as far as its run is measured.
    fn part_len(&self, env: &Env<'_>, part: &Part) -> Result<u64, LogError> {
        if let Some(len) = part.sealed_len() {
            return Ok(len);
        }
        let end = self.current_end();
        // This is asked before the length, which grows until then.
        let run = &part.run;
        let is_complete = Self::is_final(env, part)
            && (run.is_complete(env, self.format) || run.is_known_to_its_end(self.format));
        let reaches_end = part.run.at_offset(self.format, end).is_some();
        let output = if reaches_end { self.cut(env, part, end)? } else { part.run.output(self.format) };
        let len = output.saturating_sub(self.skip(env, part)?);
        if is_complete && !reaches_end {
            return Ok(*part.sealed_len.get_or_init(|| len));
        }
        Ok(len)
    }

    fn skip(&self, env: &Env<'_>, part: &Part) -> Result<u64, LogError> {
        if let Some(skip) = part.skip.get() {
            return Ok(*skip);
        }
        part.run.extend(env, self.format, Goal::Offset(self.start))?;
        let skip = part.run.output_before(env, self.format, self.start, Edge::Start)?;
        Ok(*part.skip.get_or_init(|| skip))
    }

    /// Where the selection ends for now.
    fn current_end(&self) -> Offset {
        self.end.unwrap_or(Offset(i64::MAX)).min(self.view.limit())
    }

    fn goal(&self, part: &Part) -> Goal {
        if self.ends_in(part) { Goal::Offset(self.current_end()) } else { Goal::End }
    }

    fn ends_in(&self, part: &Part) -> bool {
        self.current_end() <= part.run.segment.below() && self.current_end() != Offset(i64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Part>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Part number `index`; `None` behind the last one that there is now.
    fn part(&self, env: &Env<'_>, index: usize) -> Result<Option<Arc<Part>>, LogError> {
        let mut parts = self.lock();
        if let Some(part) = parts.get(index) {
            return Ok(Some(part.clone()));
        }
        if self.extent == Extent::Segment && !parts.is_empty() {
            return Ok(None);
        }
        let segments = match self.view.partition.segments() {
            // Of a deleted topic, whoever holds a segment has all of it, and nothing comes after it.
            Err(LogError::Stale { .. }) if parts.last().is_some_and(|last| last.run.segment.is_pinned()) => {
                return Ok(None);
            }
            listed => listed?,
        };
        let next = match parts.last() {
            None => Partition::floor(&segments, self.start),
            Some(last) => segments.partition_point(|segment| segment.base <= last.run.segment.base),
        };
        // Nothing lies between equal ends, also where they are in the midst of a batch.
        let end = self.current_end();
        let stale = || LogError::Stale { path: self.view.partition.origin.path().to_owned() };
        let Some(segment) = segments.get(next).filter(|segment| segment.lower < end && self.start < end)
        else {
            // Nothing will ever come behind a segment that was cut away or replaced.
            let is_cut = parts.last().is_some_and(|last| last.is_cut_from(&segments));
            return if self.end.is_none() && is_cut { Err(stale()) } else { Ok(None) };
        };
        let joins = match parts.last() {
            None => segment.lower <= self.start,
            Some(last) => last.is_followed_by(segment, &segments),
        };
        if !joins {
            return Err(stale());
        }
        let part = if parts.is_empty() {
            let run = self.view.run_near(env, segment, self.format, self.start)?;
            Part { run, skip: OnceLock::new(), cut: OnceLock::new(), sealed_len: OnceLock::new() }
        } else {
            let run = self.view.run(env, segment);
            Part { run, skip: OnceLock::from(0), cut: OnceLock::new(), sealed_len: OnceLock::new() }
        };
        let part = Arc::new(part);
        parts.push(part.clone());
        Ok(Some(part))
    }
}

impl Part {
    /// The part's length, once it can't change. A segment may become the last one again, by a truncation.
    fn sealed_len(&self) -> Option<u64> {
        self.sealed_len.get().copied().filter(|_| !self.run.segment.is_active())
    }

    /// Whether `next`, the first segment of `segments` behind this part's, goes on where that ended. It doesn't where segments
    /// in between were deleted before anybody came to them, or where this one was cut away or replaced: what comes now is not
    /// what came after it.
    fn is_followed_by(&self, next: &Segment, segments: &[Arc<Segment>]) -> bool {
        let own = &self.run.segment;
        let reached = || self.run.reached().map_or(own.lower, Offset::next);
        let below = if own.is_active() { reached() } else { own.below() };
        !self.is_cut_from(segments) && (self.is_in(segments) || next.lower <= below)
    }

    /// Whether the part's segment is none of `segments`, and was not deleted as the oldest either.
    fn is_cut_from(&self, segments: &[Arc<Segment>]) -> bool {
        let own = &self.run.segment;
        !self.is_in(segments) && segments.first().is_some_and(|first| own.base >= first.base)
    }

    fn is_in(&self, segments: &[Arc<Segment>]) -> bool {
        let own = &self.run.segment;
        let at = segments.binary_search_by_key(&own.base, |segment| segment.base).ok();
        at.and_then(|at| segments.get(at)).is_some_and(|listed| listed.uid == own.uid)
    }
}

/// How a part was read.
#[derive(Debug)]
enum PartRead {
    /// As much as was wanted, or all that may be given now.
    Full,
    /// To its end.
    Ended,
    /// Up to a block for which there is no room.
    Waits(Turn),
}
