//! The end of what is measured of a segment, while it moves on: batches become blocks, damage is noted.

use crate::format::batch::{Batch, BatchError, Codec};
use crate::log::LogError;
use crate::log::files::ReadAt;
use crate::log::segment::scan::{Scanner, Start, Step, Tail};
use crate::log::transactions::events::TxnEvent;
use crate::units::Position;
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::layout::{BatchTotals, Building};
use crate::view::reading;
use crate::view::run::{Run, STEP_BYTES};
use crate::view::shared::Workspace;
use crate::view::summary::{Counted, RecordCounts, Summary};

/// The end of what is measured, while it moves on.
pub(super) struct Frontier<'a> {
    pub(super) run: &'a Run,
    /// What is measured besides the blocks.
    pub(super) format: Option<Format>,
    /// The blocks that are finished.
    pub(super) full: Vec<Building>,
    /// The block that batches are added to.
    pub(super) building: Option<Building>,
    /// Whether bytes before the next batch were not readable.
    pub(super) after_damage: bool,
    /// What is known of the batches in the blocks that were finished meanwhile.
    pub(super) summary: Summary,
    /// And of those in the block that is being built.
    pub(super) last: Summary,
}

impl<'a> Frontier<'a> {
    /// The end of `run`, before anything is added to it.
    pub(super) fn new(run: &'a Run, format: Option<Format>, after_damage: bool) -> Self {
        let (summary, last) = (Summary::default(), Summary::default());
        Self { run, format, full: Vec::new(), building: None, after_damage, summary, last }
    }

    /// Adds batches until a step's worth was read or the end is met. Where the next one is looked for, and, if the end
    /// was met, whether bytes are there that are not readable.
    pub(super) fn advance<F: ReadAt>(
        mut self,
        env: &Env<'_>,
        mut scanner: Scanner<F>,
        workspace: &mut Workspace,
    ) -> Result<(Self, Start, Option<bool>), LogError> {
        let segment = &self.run.segment;
        let stop = scanner.at().position.plus(STEP_BYTES);
        loop {
            let at = scanner.at();
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { batch, .. } if batch.header.last_offset >= env.bound() => {
                    return Ok((self, at, Some(false)));
                }
                Step::Batch { position, batch } => {
                    let closed = self.add_batch(env, &batch, position, workspace);
                    if closed && position >= stop {
                        return Ok((self, scanner.at(), None));
                    }
                }
                Step::Damage(damage) => {
                    env.problems.note_damage(segment, &damage);
                    self.close_before_damage();
                }
                Step::End(tail) => {
                    env.problems.note_tail(segment, at, &tail);
                    return Ok((self, at, Some(matches!(tail, Tail::Torn(_) | Tail::Bad(_)))));
                }
            }
        }
    }

    /// Adds a batch to the block, or begins another with it; whether it did.
    fn add_batch(
        &mut self,
        env: &Env<'_>,
        batch: &Batch<'_>,
        position: Position,
        workspace: &mut Workspace,
    ) -> bool {
        let len = batch.bytes.len() as u64;
        let first = batch.header.first_known();
        let permit = env.shared.permit(batch, &self.run.segment.limits());
        let totals = self.totals(env, batch, position, workspace);
        workspace.decoder.shrink();
        drop(permit);
        let (totals, counted) = match totals {
            Ok(totals) => totals,
            Err(error) => {
                env.problems.note_records(&self.run.segment, position, len, first, error);
                self.close_before_damage();
                return false;
            }
        };
        let closed = match &mut self.building {
            Some(block) if block.fits(&totals) => {
                block.add(&totals);
                false
            }
            _ => {
                let full = self.building.replace(Building::new(totals, self.after_damage));
                self.after_damage = false;
                self.full.extend(full);
                self.summary.merge(&std::mem::take(&mut self.last));
                full.is_some()
            }
        };
        self.last.add(&batch.header, &counted);
        closed
    }

    fn close_before_damage(&mut self) {
        self.full.extend(self.building.take());
        self.summary.merge(&std::mem::take(&mut self.last));
        self.after_damage = true;
    }

    fn totals(
        &self,
        env: &Env<'_>,
        batch: &Batch<'_>,
        position: Position,
        workspace: &mut Workspace,
    ) -> Result<(BatchTotals, Counted), BatchError> {
        let span = (position, position.plus(batch.bytes.len() as u64));
        let first = batch.header.first_known();
        let mut totals = BatchTotals::new(span, (first, batch.header.last_offset));
        let Workspace { decoder, scratch, .. } = workspace;
        totals.output = self.format.map_or(0, |format| {
            reading::batch_output(format, batch, position, decoder, &self.run.segment, scratch)
        });
        let limits = &self.run.segment.limits();
        let bytes = batch.bytes.len() as u64;
        let mut counted = Counted {
            bytes,
            unpacked: (batch.header.codec == Codec::None).then_some(bytes),
            records: RecordCounts::default(),
            event: TxnEvent::of(batch, decoder, limits),
        };
        if !env.is_visible(batch) {
            totals.add_hidden(batch);
            return Ok((totals, counted));
        }
        let records = batch.records(decoder, limits)?;
        counted.unpacked = Some(records.unpacked_len() as u64);
        for record in records {
            let record = record?;
            // A compressed message set keeps its first offset inside.
            if batch.header.base_offset.is_none() && totals.records == 0 {
                totals.offsets.0 = record.offset;
            }
            totals
                .add(&record, self.format.map_or(0, |format| env.renderer.measure(format, &record, scratch)));
            counted.records.add(&record);
        }
        Ok((totals, counted))
    }
}
