//! Counting records from an offset, or from the end: those that exist, whatever offsets are missing between them.
//!
//! Segments that are known as a whole are skipped. Blocks have the numbers of their records, so what is measured costs a search and one block,
//! or not even that where no offset is missing. What isn't is measured around the place, backwards in growing strides.

use std::sync::Arc;

use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::units::{Offset, Position};
use crate::view::env::Env;
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};
use crate::view::run::{Goal, Run};
use crate::view::shown;

impl PartitionView {
    /// The offset of the `count`-th record from the end, 1 being the last; `None` when there are fewer.
    ///
    /// # Errors
    /// Those of reading.
    pub fn nth_from_end(&self, committed: bool, count: u64) -> Result<Option<Offset>, LogError> {
        self.nth_before(committed, Offset(i64::MAX), count)
    }

    /// The offset of the `count`-th record before `offset`, 1 being the nearest; `None` when there are fewer.
    ///
    /// # Errors
    /// Those of reading.
    pub fn nth_before(
        &self,
        committed: bool,
        offset: Offset,
        count: u64,
    ) -> Result<Option<Offset>, LogError> {
        if count == 0 {
            return Ok(None);
        }
        let (start, end) = (self.start()?, self.end(committed)?.min(offset));
        self.with_env(committed, |env| {
            let mut left = count;
            for segment in self.partition.segments()?.iter().rev() {
                if segment.lower >= end {
                    continue;
                }
                match self.nth_before_in(env, segment, (start, end), left)? {
                    Ok(found) => return Ok(Some(found)),
                    Err(counted) => left -= counted,
                }
                if segment.lower <= start {
                    break;
                }
            }
            Ok(None)
        })
    }

    /// The same within one segment; `Err` is the number of its records when they are fewer.
    fn nth_before_in(
        &self,
        env: &Env<'_>,
        segment: &Arc<Segment>,
        (start, end): (Offset, Offset),
        count: u64,
    ) -> Result<Result<Offset, u64>, LogError> {
        const FIRST_DISTANCE: u64 = 256 * 1024;
        let below = segment.below();
        let is_all_wanted = start <= segment.lower && below <= end;
        if let Some(records) = shown::known(env, segment).filter(|_| is_all_wanted).map(|shown| shown.count) {
            if records < count {
                return Ok(Err(records));
            }
            // As many as there are offsets: each has its record.
            if i64::try_from(records).is_ok_and(|records| segment.lower.plus(records) == below) {
                return Ok(Ok(below.plus(-i64::try_from(count).unwrap_or(i64::MAX))));
            }
        }
        let whole = self.run(env, segment);
        let goal = if end < segment.below() { Goal::Offset(end) } else { Goal::End };
        let mut distance = FIRST_DISTANCE;
        loop {
            let cheap = whole.cost(env, None, goal) <= CHEAP_BYTES;
            let from = if cheap { segment.start() } else { segment.start_before(end, distance)? };
            let run = match from.position {
                Position(0) => whole.clone(),
                _ => Arc::new(Run::new(segment.clone(), from, env.decided.is_some())),
            };
            run.extend(env, None, goal)?;
            let before_start = run.records_before(env, start)?;
            let before_end = run.records_before(env, end)?;
            let counted = before_end.saturating_sub(before_start);
            if counted >= count {
                let found = run.offset_of_record(env, before_end - count)?;
                return Ok(found.ok_or(counted));
            }
            if run.is_whole() {
                shown::note(env, segment, &run);
                return Ok(Err(counted));
            }
            distance = distance.saturating_mul(8);
        }
    }

    /// The offset of the `count`-th record at or after `from`, 0 being the first; `None` when there are fewer.
    ///
    /// # Errors
    /// Those of reading.
    pub fn nth_at(&self, committed: bool, from: Offset, count: u64) -> Result<Option<Offset>, LogError> {
        let (from, end) = (from.max(self.start()?), self.end(committed)?);
        self.with_env(committed, |env| {
            let segments = self.partition.segments()?;
            let mut left = count;
            for segment in segments.iter().skip(Partition::floor(&segments, from)) {
                if segment.lower >= end {
                    break;
                }
                if let Some(shown) = shown::known(env, segment).filter(|_| from <= segment.lower)
                    && shown.count <= left
                {
                    left -= shown.count;
                    continue;
                }
                let run = self.run_near(env, segment, None, from)?;
                run.extend(env, None, Goal::Offset(from))?;
                let before = run.records_before(env, from)?;
                let target = before.saturating_add(left);
                run.extend(env, None, Goal::Records(target.saturating_add(1)))?;
                if let Some(found) = run.offset_of_record(env, target)? {
                    return Ok(Some(found).filter(|found| *found < end));
                }
                shown::note(env, segment, &run);
                left = left.saturating_sub(run.records().saturating_sub(before));
            }
            Ok(None)
        })
    }
}
