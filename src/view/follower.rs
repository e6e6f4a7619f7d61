//! One partition's records as they come, from some offset on, each once.
//!
//! A follower reads batch after batch and keeps its place; it never goes back, needs no measuring, and what it costs is what has come.
//! What happens to the log meanwhile shows when it looks for more: it goes on in the next segment after a roll, in the new file after a
//! compaction. Where what it gave last is in the log no more, or what it would give next is gone, it fails: old and new
//! are never mixed, and nothing is left out in silence.

use std::sync::Arc;

use crate::format::batch::{Batch, BatchError, Header};
use crate::log::LogError;
use crate::log::partition::{Found, Partition};
use crate::log::segment::Segment;
use crate::log::segment::scan::{Start, Step, Tail};
use crate::log::segment::times::Timed;
use crate::units::{LeaderEpoch, Offset, Position};
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::partition_view::{PartitionView, ViewError, damaged};
use crate::view::passing::Filter;
use crate::view::reading::push_batch;
use crate::view::rendered::Rendered;
use crate::view::shared::Workspace;

/// Source bytes that are looked through before others get a turn.
const STEP_BYTES: u64 = 4 * 1024 * 1024;
/// Rendered bytes that are found at once, about.
const FOUND_BYTES: usize = 128 * 1024;

/// A place in a partition, from which its records are read as they come.
#[derive(Debug)]
pub(super) struct Follower {
    view: Arc<PartitionView>,
    committed: bool,
    format: Format,
    filter: Filter,
    /// The smallest offset that was not given yet.
    next: Offset,
    at: Option<Place>,
    last: Option<Last>,
}

/// Where the next batch is looked for.
#[derive(Debug)]
struct Place {
    segment: Arc<Segment>,
    start: Start,
}

/// The last batch that was met: it must be there still when the segment is another one.
#[derive(Debug, Clone, Copy)]
struct Last {
    offset: Offset,
    epoch: Option<LeaderEpoch>,
    crc: u32,
    /// Whether a broker could still cut it off.
    was_active: bool,
}

/// What a look for more found.
#[derive(Debug)]
pub(super) enum More {
    /// The records of some batches.
    Records(Rendered),
    /// None so far; there may be some further on.
    NotYet,
    /// None; some may come.
    Nothing,
}

impl Follower {
    /// The records of `view` from an offset on that pass a filter.
    pub(super) fn new(
        view: Arc<PartitionView>,
        committed: bool,
        format: Format,
        filter: Filter,
        next: Offset,
    ) -> Self {
        Self { view, committed, format, filter, next, at: None, last: None }
    }

    /// Looks for the next records.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the log isn't the one any more whose records were given; [`ViewError::Damaged`] where the mount asks for
    /// that; those of reading.
    pub(super) fn look(&mut self) -> Result<More, ViewError> {
        let view = self.view.clone();
        view.with_env(self.committed, |env| {
            let mut found = Rendered::default();
            loop {
                let reached = self.look_in_segment(env, &mut found);
                match reached {
                    Ok(Reached::NextSegment) => {}
                    // What came before is given first; so nothing is lost by failing later.
                    _ if !found.is_empty() => return Ok(More::Records(found)),
                    Ok(Reached::Enough) => return Ok(More::NotYet),
                    Ok(Reached::End | Reached::Limit) => return Ok(More::Nothing),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    /// Reads on in the segment where the place is.
    fn look_in_segment(&mut self, env: &Env<'_>, found: &mut Rendered) -> Result<Reached, ViewError> {
        // Listed before it is read: what was sealed by then is read to its end.
        let segments = self.view.partition.segments()?;
        let Some(segment) = self.place(&segments)? else { return Ok(Reached::End) };
        // Asked before it is read: it may be written to and sealed while it is.
        let was_sealed = !segment.is_active();
        match self.read(env, &segment, found)? {
            Reached::End if was_sealed => {
                self.next = self.next.max(segment.below());
                self.at = None;
                Ok(Reached::NextSegment)
            }
            reached => Ok(reached),
        }
    }

    /// The segment where to go on; `None` where there is none yet.
    fn place(&mut self, segments: &[Arc<Segment>]) -> Result<Option<Arc<Segment>>, ViewError> {
        let known = self.at.as_ref().map(|place| &place.segment);
        let is_listed = known.is_some_and(|segment| {
            let found = segments.binary_search_by_key(&segment.base, |listed| listed.base);
            found.is_ok_and(|at| segments.get(at).is_some_and(|listed| listed.uid == segment.uid))
        });
        if !is_listed {
            let was_replaced = known.is_some();
            self.at = self.find(segments, was_replaced)?;
        }
        Ok(self.at.as_ref().map(|place| place.segment.clone()))
    }

    /// The place of the next offset.
    fn find(&self, segments: &[Arc<Segment>], was_replaced: bool) -> Result<Option<Place>, ViewError> {
        let Some(first) = segments.first() else { return Ok(None) };
        if first.lower > self.next || was_replaced && !self.goes_on()? {
            return Err(LogError::Stale { path: first.path.clone() }.into());
        }
        let Some(segment) = segments.get(Partition::holder(segments, self.next)) else { return Ok(None) };
        Ok(Some(Place { segment: segment.clone(), start: segment.start_near(self.next)? }))
    }

    /// Whether the log goes on from what was given last.
    fn goes_on(&self) -> Result<bool, LogError> {
        if self.view.partition.log_end()? < self.next {
            return Ok(false);
        }
        let Some(last) = self.last else { return Ok(true) };
        let found = self.view.partition.find(last.offset)?;
        let Some(Found { header, .. }) = found.filter(|found| found.header.first_known() <= last.offset)
        else {
            // Compaction removes whole batches, and only what is sealed is compacted; retention takes all from the front on, and
            // rolls what is active for that.
            return Ok(!last.was_active || self.view.partition.first_on_disk()? > last.offset);
        };
        Ok(header.leader_epoch == last.epoch && (header.crc == last.crc || !last.was_active))
    }

    /// Reads a segment from the place on.
    fn read(
        &mut self,
        env: &Env<'_>,
        segment: &Arc<Segment>,
        found: &mut Rendered,
    ) -> Result<Reached, ViewError> {
        let Some(place) = &mut self.at else { return Ok(Reached::End) };
        // Before the length, as above.
        let start = Start { below: segment.below(), ..place.start };
        let (file, len) = segment.open()?;
        if start.position.0 >= len {
            return Ok(Reached::End);
        }
        let mut scanner = segment.scanner(file, len, start);
        let limit = env.bound().min(self.view.limit());
        loop {
            let at = scanner.at();
            let is_enough = found.len() >= FOUND_BYTES || at.position.since(start.position) >= STEP_BYTES;
            if is_enough {
                return Ok(Reached::Enough);
            }
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { batch, .. } if batch.header.last_offset >= limit => return Ok(Reached::Limit),
                Step::Batch { position, batch } => {
                    self.take(env, segment, &batch, position, found)?;
                    self.go_to(scanner.at());
                }
                Step::Damage(damage) => {
                    env.problems.note_damage(segment, &damage);
                    if self.view.scope.fail_on_damage {
                        return Err(damaged(segment, damage.expected));
                    }
                    self.go_to(scanner.at());
                }
                Step::End(tail) => {
                    env.problems.note_tail(segment, at, &tail);
                    let is_damaged = start.is_sealed() && matches!(tail, Tail::Torn(_) | Tail::Bad(_));
                    if is_damaged && self.view.scope.fail_on_damage {
                        return Err(damaged(segment, segment.below()));
                    }
                    return Ok(Reached::End);
                }
            }
        }
    }

    fn go_to(&mut self, start: Start) {
        if let Some(place) = &mut self.at {
            place.start = start;
        }
    }

    /// Renders what is wanted of a batch, and counts it as found.
    fn take(
        &mut self,
        env: &Env<'_>,
        segment: &Segment,
        batch: &Batch<'_>,
        position: Position,
        found: &mut Rendered,
    ) -> Result<(), ViewError> {
        let Header { last_offset, leader_epoch: epoch, crc, .. } = batch.header;
        self.last = Some(Last { offset: last_offset, epoch, crc, was_active: segment.is_active() });
        if last_offset < self.next {
            return Ok(());
        }
        let _permit = env.shared.permit(batch, &segment.limits());
        let rendered =
            env.shared.with_workspace(|workspace| self.render(env, segment, (batch, position), workspace));
        match rendered {
            Ok(rendered) => {
                env.shared.counts.rendered_bytes.add(rendered.len() as u64);
                found.append(&rendered);
            }
            Err(error) => {
                let (len, first) = (batch.bytes.len() as u64, batch.header.first_known());
                env.problems.note_records(segment, position, len, first, error);
                if self.view.scope.fail_on_damage {
                    return Err(damaged(segment, first));
                }
            }
        }
        self.next = last_offset.next();
        Ok(())
    }

    /// None is shown of a batch whose records can't all be read.
    fn render(
        &self,
        env: &Env<'_>,
        segment: &Segment,
        (batch, position): (&Batch<'_>, Position),
        Workspace { decoder, scratch, .. }: &mut Workspace,
    ) -> Result<Rendered, BatchError> {
        let mut rendered = Rendered::default();
        if self.format.is_of_batches() {
            scratch.clear();
            push_batch(self.format, batch, position, decoder, segment, scratch);
            let Header { last_offset: offset, max_timestamp: timestamp, .. } = batch.header;
            rendered.push(scratch, Timed { offset, timestamp });
            return Ok(rendered);
        }
        if !env.is_visible(batch) {
            return Ok(rendered);
        }
        for record in batch.records(decoder, &segment.limits())? {
            let record = record?;
            if record.offset >= self.next && self.filter.passes(&record) {
                scratch.clear();
                env.renderer.render(self.format, &record, scratch);
                rendered.push(scratch, Timed { offset: record.offset, timestamp: record.timestamp });
            }
        }
        Ok(rendered)
    }
}

/// How far a look came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// There may be more further on.
    Enough,
    /// To what is the end for now.
    End,
    /// To a batch that is shown once it is decided, or replicated.
    Limit,
    /// There is another segment.
    NextSegment,
}
