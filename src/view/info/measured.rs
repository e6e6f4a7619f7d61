//! What measuring tells of the records between the log start and the end that is shown, as far as it is known or cheap.

use std::sync::Arc;

use crate::format::batch::{Batch, Decoder};
use crate::format::record::Record;
use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::units::Offset;
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::layout::Block;
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};
use crate::view::run::{Goal, Run};
use crate::view::summary::{RecordCounts, Summary};

/// A record's offset and timestamp.
type Place = (i64, i64);

/// What is measured.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// What is known of the batches: of whole segments, also where the log start or the end lies within one.
    pub(super) summary: Summary,
    /// Records between the bounds.
    pub(super) records: u64,
    /// Nulls and steps back in time among them; `None` where a bound lies far within a segment.
    pub(super) counts: Option<RecordCounts>,
    /// The smallest and the largest timestamp.
    pub(super) timestamps: Option<(i64, i64)>,
    /// The first record.
    pub(super) first: Option<Place>,
    /// The offset after what is measured.
    pub(super) measured_to: Offset,
    /// The first segment that is measured.
    pub(super) from: Option<Arc<Segment>>,
    /// Whether that goes on to the log's end.
    pub(super) is_whole: bool,
}

/// The offsets that are shown.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    start: Offset,
    end: Offset,
}

impl Bounds {
    fn holds(&self, offset: Offset) -> bool {
        offset >= self.start && offset < self.end
    }

    fn holds_all(&self, block: &Block) -> bool {
        block.base() >= self.start && block.last() < self.end
    }

    fn holds_none(&self, block: &Block) -> bool {
        block.last() < self.start || block.base() >= self.end
    }
}

impl Measured {
    /// Measures from the log start on, as far as that is done already or costs no more than `budget` bytes of
    /// reading.
    pub(super) fn of(view: &PartitionView, env: &Env<'_>, mut budget: u64) -> Result<Self, LogError> {
        let bounds = Bounds { start: view.start()?, end: view.end(env.decided.is_some())? };
        let counts = Some(RecordCounts::default());
        let mut measured = Self { measured_to: bounds.start, counts, ..Self::default() };
        for segment in view.partition.segments()?.iter().filter(|segment| segment.below() > bounds.start) {
            if segment.lower >= bounds.end && !segment.is_active() {
                return Ok(measured);
            }
            let run = view.run(env, segment);
            let cost = run.unknown(env);
            let is_complete = cost <= budget;
            if is_complete && cost > 0 {
                budget -= cost;
                run.extend(env, Format::Text, Goal::End)?;
            }
            let (blocks, summary) = run.summarized();
            measured.from.get_or_insert_with(|| segment.clone());
            measured.add(env, &run, &blocks, &summary, bounds)?;
            if !is_complete {
                let reached = blocks.last().map_or(bounds.start, |block| block.last().next());
                measured.measured_to = measured.measured_to.max(reached.min(bounds.end));
                return Ok(measured);
            }
            measured.measured_to = segment.below().min(bounds.end);
            measured.is_whole = segment.is_active();
        }
        Ok(measured)
    }

    /// Adds what is measured of the next segment.
    fn add(
        &mut self,
        env: &Env<'_>,
        run: &Run,
        blocks: &[Block],
        summary: &Summary,
        bounds: Bounds,
    ) -> Result<(), LogError> {
        self.summary.merge(summary);
        let inside = inside(env, run, blocks, summary, bounds)?;
        self.counts = self.counts.zip(inside).map(|(mut all, more)| {
            all.merge(&more);
            all
        });
        let mut records_before = 0;
        for block in blocks {
            let records = block.records_end() - records_before;
            records_before = block.records_end();
            if records == 0 || bounds.holds_none(block) {
                continue;
            }
            let times = block.timestamps().map(|(min, max)| (min.0, max.0));
            let is_plain = bounds.holds_all(block) && times.is_some_and(|(min, _)| min != -1);
            if is_plain && self.first.is_some() {
                self.records += records;
                self.take_times(times);
                continue;
            }
            run.for_each_record(env, block, |record, _| {
                if bounds.holds(record.offset) {
                    self.records += 1;
                    self.first.get_or_insert((record.offset.0, record.timestamp.0));
                    let time = record.timestamp;
                    self.take_times((!time.is_none()).then_some((time.0, time.0)));
                }
                true
            })?;
        }
        Ok(())
    }

    fn take_times(&mut self, times: Option<(i64, i64)>) {
        let Some((min, max)) = times else { return };
        let (low, high) = self.timestamps.unwrap_or((min, max));
        self.timestamps = Some((low.min(min), high.max(max)));
    }
}

/// The counts of the records between the bounds: those of all blocks, less those of the records outside, if these are few bytes.
fn inside(
    env: &Env<'_>,
    run: &Run,
    blocks: &[Block],
    summary: &Summary,
    bounds: Bounds,
) -> Result<Option<RecordCounts>, LogError> {
    let touches = |index: Option<usize>| {
        index.and_then(|index| blocks.get(index)).is_some_and(|block| !bounds.holds_all(block))
    };
    let mut left = CHEAP_BYTES;
    let mut outside = RecordCounts::default();
    let mut before: Option<(i64, bool)> = None;
    for (index, block) in blocks.iter().enumerate() {
        // A step back in time may lead from one block to the next.
        if !touches(Some(index)) && !touches(index.checked_sub(1)) && !touches(Some(index + 1)) {
            before = None;
            continue;
        }
        let (start, end) = block.span();
        if end - start > left && touches(Some(index)) {
            return Ok(None);
        }
        left = left.saturating_sub(end - start);
        run.for_each_record(env, block, |record, _| {
            count_outside(&mut outside, &mut before, record, !bounds.holds(record.offset));
            true
        })?;
    }
    Ok(Some(summary.records.without(&outside)))
}

fn count_outside(
    outside: &mut RecordCounts,
    before: &mut Option<(i64, bool)>,
    record: &Record<'_>,
    is_outside: bool,
) {
    if is_outside {
        outside.records += 1;
        outside.null_keys += u64::from(record.key.is_none());
        outside.null_values += u64::from(record.value.is_none());
    }
    if record.timestamp.is_none() {
        return;
    }
    let time = record.timestamp.0;
    if before.is_some_and(|(earlier, was_outside)| time < earlier && (is_outside || was_outside)) {
        outside.backward += 1;
    }
    *before = Some((time, is_outside));
}

/// The first record that is shown, looked for in the log itself, in no more than a few batches.
pub(super) fn first_record(view: &PartitionView, env: &Env<'_>) -> Result<Option<Place>, LogError> {
    const MOST_BATCHES: usize = 64;
    let (mut target, end) = (view.start()?, view.end(env.decided.is_some())?);
    let segments = view.partition.segments()?;
    let at_hand = segments.iter().skip(Partition::floor(&segments, target)).take_while(|s| s.is_at_hand());
    if at_hand.count() == 0 {
        return Ok(None);
    }
    for _ in 0..MOST_BATCHES {
        let Some(found) = view.partition.find(target)?.filter(|_| target < end) else { return Ok(None) };
        let batch = Batch { bytes: &found.bytes, header: found.header };
        if env.is_visible(&batch) {
            let mut decoder = Decoder::default();
            let records = batch.records(&mut decoder, &found.segment.limits());
            let records: Result<Vec<_>, _> = records.and_then(Iterator::collect);
            let shown = |record: &&Record<'_>| record.offset >= target && record.offset < end;
            if let Some(record) = records.unwrap_or_default().iter().find(shown) {
                return Ok(Some((record.offset.0, record.timestamp.0)));
            }
        }
        target = found.header.last_offset.next();
    }
    Ok(None)
}

/// The last record that is shown, if it can be read without reading much of a segment before it.
pub(super) fn last_record(view: &PartitionView, env: &Env<'_>) -> Result<Option<Place>, LogError> {
    let segments = view.partition.segments()?;
    let Some(active) = segments.last().filter(|active| active.is_at_hand()) else { return Ok(None) };
    let near = active.start_before(Offset(i64::MAX), CHEAP_BYTES / 4)?.position;
    if active.end()?.position.since(near) > CHEAP_BYTES {
        return Ok(None);
    }
    let Some(offset) = view.nth_from_end(env.decided.is_some(), 1)? else { return Ok(None) };
    let found = view.record_at(env, offset, |record, _| record.timestamp.0)?;
    Ok(found.map(|timestamp| (offset.0, timestamp)))
}
