//! The records of a partition that pass a filter, and a walk over the blocks that may hold some.
//!
//! What can't pass is skipped: segments by what measuring, or the headers of their batches, tell of their times, blocks by what was measured
//! of them.

use std::ops::Range;
use std::sync::Arc;

use crate::format::record::Record;
use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::units::{Offset, Period};
use crate::view::env::Env;
use crate::view::layout::Block;
use crate::view::partition_view::PartitionView;
use crate::view::run::{Goal, Run};

/// Which records are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All of them.
    Everything,
    /// Those whose timestamp lies in a period.
    Period(Period),
    /// Those with a key.
    Key(Arc<[u8]>),
}

impl Filter {
    /// Whether it is wanted.
    pub(super) fn passes(&self, record: &Record<'_>) -> bool {
        match self {
            Self::Everything => true,
            Self::Period(period) => period.contains(record.timestamp),
            Self::Key(key) => record.key == Some(&**key),
        }
    }

    /// Whether some, and whether all records of a block pass, as far as its measurement tells.
    fn judge(&self, block: &Block) -> (bool, bool) {
        match (self, block.timestamps()) {
            (_, None) => (false, false),
            (Self::Everything, Some(_)) => (true, true),
            (Self::Period(period), Some((smallest, largest))) => {
                let all = smallest.0 >= 0 && period.from <= smallest && largest < period.to;
                (period.touches(smallest, largest), all)
            }
            (Self::Key(_), Some(_)) => (true, false),
        }
    }
}

/// The records of a range of offsets that pass a filter.
#[derive(Debug)]
pub struct Passing {
    /// Where they are.
    pub view: Arc<PartitionView>,
    /// Whether records of aborted transactions are left out.
    pub committed: bool,
    /// Which of them.
    pub filter: Filter,
    /// Their offsets.
    pub range: Range<Offset>,
}

impl Passing {
    /// Whether a record is one of them, looking from an offset on.
    pub(super) fn wants(&self, record: &Record<'_>, from: Offset) -> bool {
        from <= record.offset && record.offset < self.range.end && self.filter.passes(record)
    }

    /// The offset after the last one that may pass now.
    ///
    /// # Errors
    /// Those of reading.
    pub fn end(&self) -> Result<Offset, LogError> {
        Ok(self.view.end(self.committed)?.min(self.range.end))
    }

    /// Walks a little further, if that costs no more than is `left`.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn step(&self, env: &Env<'_>, walk: &mut Walk, left: &mut u64) -> Result<Step, LogError> {
        match walk.run.clone() {
            None => self.next_segment(env, walk, left),
            Some((run, stop)) => self.next_block(env, walk, left, &run, stop),
        }
    }

    /// Finds the next segment that may hold records that pass, and the run to look at, or a part of the way to it.
    fn next_segment(&self, env: &Env<'_>, walk: &mut Walk, left: &mut u64) -> Result<Step, LogError> {
        let end = self.range.end.min(self.view.limit());
        let from = walk.looked_to;
        if from >= end {
            return Ok(Step::Done);
        }
        let segments = self.view.partition.segments()?;
        let before = *left;
        for segment in segments.iter().skip(Partition::holder(&segments, from)) {
            // Those that cost nothing are skipped together; else one at a time, so that readers get their turn.
            if segment.lower >= end {
                break;
            }
            if *left != before {
                return Ok(Step::On);
            }
            let offsets = match self.filter {
                Filter::Period(period) => self.view.offsets_of(env, segment, period, left)?,
                Filter::Everything | Filter::Key(_) => Some((segment.lower, segment.below())),
            };
            let Some((first, stop)) = offsets else {
                return Ok(if walk.looked_to > from { Step::On } else { Step::TooDear });
            };
            let (first, stop) = (first.max(walk.looked_to), stop.min(end).min(segment.below()));
            if first < stop {
                let run = self.run_from(env, segment, first)?;
                walk.run = Some((run, stop));
                walk.looked_to = first;
                return Ok(Step::On);
            }
            walk.looked_to = segment.below();
        }
        // The last one may have been sealed meanwhile: then another follows, which is not listed here.
        Ok(if walk.looked_to > from { Step::On } else { Step::Done })
    }

    /// The run of a segment to look at from an offset on.
    fn run_from(&self, env: &Env<'_>, segment: &Arc<Segment>, first: Offset) -> Result<Arc<Run>, LogError> {
        // A period's records may be anywhere behind `first`, so that all of a sealed segment is read: then it is measured for good.
        let is_for_good = matches!(self.filter, Filter::Period(_)) && !segment.is_active();
        match is_for_good {
            true => Ok(self.view.run(env, segment)),
            false => self.view.run_near(env, segment, None, first),
        }
    }

    /// Looks at the next block of a run of which some may pass.
    fn next_block(
        &self,
        env: &Env<'_>,
        walk: &mut Walk,
        left: &mut u64,
        run: &Arc<Run>,
        stop: Offset,
    ) -> Result<Step, LogError> {
        let next = walk.looked_to;
        // Asked before reading: a segment that is sealed while it is read has more than what was read.
        let stop = stop.min(run.segment.below());
        if next >= stop {
            self.leave_run(walk, stop);
            return Ok(Step::On);
        }
        let cost = run.cost(env, None, Goal::Offset(next));
        if cost > *left {
            return Ok(Step::TooDear);
        }
        *left -= cost;
        run.extend(env, None, Goal::Offset(next))?;
        let is_judged =
            |block: &Block| block.base() >= stop || block.is_after_damage() || self.filter.judge(block).0;
        let (next, block) = run.first_block(next, is_judged);
        let block = block.filter(|block| block.base() < stop);
        let gap_end = block.map_or(stop, |block| block.base());
        let is_damaged = match &block {
            Some(block) => block.is_after_damage(),
            None => run.ends_damaged(),
        };
        if self.view.scope.fail_on_damage && is_damaged && gap_end > next {
            return Ok(Step::Damage(run.clone(), gap_end));
        }
        let Some(block) = block else {
            // The active segment has no end yet: the walk may go on in it.
            if stop == Offset(i64::MAX) {
                return Ok(Step::Done);
            }
            self.leave_run(walk, stop);
            return Ok(Step::On);
        };
        walk.looked_to = block.last().next();
        let (some, all) = self.filter.judge(&block);
        Ok(if some { Step::Block(Met { run: run.clone(), block, from: next, all }) } else { Step::On })
    }

    /// Goes on behind a run: in the next segment, or in the same one where what is shown of it grows.
    fn leave_run(&self, walk: &mut Walk, stop: Offset) {
        let Some((run, _)) = walk.run.take() else { return };
        walk.looked_to = walk.looked_to.max(stop);
        // Of a period, nothing of a sealed segment passes behind `stop`.
        if matches!(self.filter, Filter::Period(_)) && !run.segment.is_active() {
            walk.looked_to = walk.looked_to.max(run.segment.below());
        }
    }
}

/// A place among the blocks of a partition that may hold records that pass.
#[derive(Debug, Clone)]
pub(super) struct Walk {
    /// All below this was looked at.
    looked_to: Offset,
    /// The run that is being looked at, and where it stops to matter.
    run: Option<(Arc<Run>, Offset)>,
}

impl Walk {
    /// A walk that begins at an offset.
    pub(super) const fn from(offset: Offset) -> Self {
        Self { looked_to: offset, run: None }
    }

    /// All below this offset was looked at.
    pub(super) const fn looked_to(&self) -> Offset {
        self.looked_to
    }
}

/// What a step met.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing yet.
    On,
    /// A block that may hold records that pass.
    Block(Met),
    /// The damage before an offset, where the mount asks for an error there.
    Damage(Arc<Run>, Offset),
    /// The end.
    Done,
    /// Going on would cost more than was allowed.
    TooDear,
}

/// A block that may hold records that pass.
#[derive(Debug, Clone)]
pub(super) struct Met {
    pub(super) run: Arc<Run>,
    pub(super) block: Block,
    /// Where looking begins in it: its front may have been looked at before it grew.
    pub(super) from: Offset,
    /// Whether all of its records pass.
    pub(super) all: bool,
}
