//! Reading the blocks of a run: rendering them, and walking over their records.

use std::ops::Range;
use std::sync::Arc;

use crate::format::batch::{Batch, Decoder};
use crate::format::record::Record;
use crate::log::LogError;
use crate::log::files;
use crate::log::segment::Segment;
use crate::units::{Offset, Position};
use crate::view::blocks::{RenderedKey, Turn};
use crate::view::buffers::Buffer;
use crate::view::dump::{self, entry::Tools};
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::layout::Block;
use crate::view::pieces::Pieces;
use crate::view::run::{Placed, Run};
use crate::view::shared::Workspace;

/// The most that is reserved at once for a block's output; a larger one grows.
const MAX_RESERVED: usize = 64 * 1024 * 1024;

/// Appends what a batch is in a format of whole batches; nothing in others.
pub(super) fn push_batch(
    format: Format,
    batch: &Batch<'_>,
    position: Position,
    decoder: &mut Decoder,
    segment: &Segment,
    out: &mut Vec<u8>,
) {
    match format {
        Format::Log => out.extend_from_slice(batch.bytes),
        Format::Dump => {
            let limits = &segment.limits();
            dump::push_sound(batch, position, &mut Tools { decoder, limits }, out);
        }
        Format::Text | Format::Jsonl | Format::Tsv | Format::Template(_) => {}
    }
}

/// The number of bytes that [`push_batch`] appends; `scratch` is overwritten.
pub(super) fn batch_output(
    format: Format,
    batch: &Batch<'_>,
    position: Position,
    decoder: &mut Decoder,
    segment: &Segment,
    scratch: &mut Vec<u8>,
) -> u64 {
    if format == Format::Log {
        return batch.bytes.len() as u64;
    }
    scratch.clear();
    push_batch(format, batch, position, decoder, segment, scratch);
    scratch.len() as u64
}

/// Which end of a selection a batch lies across.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The start: it belongs to the selection.
    Start,
    /// The end: it belongs to the selection too.
    End,
}

impl Run {
    /// Adds the bytes `part` of a block's output to `out`. The rest is kept for the next read; a block that was read to its
    /// end is dropped.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the block's bytes are not what they were.
    pub fn share(
        &self,
        env: &Env<'_>,
        format: Format,
        placed: &Placed,
        part: Range<usize>,
        out: &mut Pieces,
    ) -> Result<(), LogError> {
        let is_to_its_end = part.end == placed.len();
        out.share(&self.rendered(env, format, placed)?, part);
        if is_to_its_end {
            env.shared.blocks.finished(&self.rendered_key(format, placed));
        }
        Ok(())
    }

    /// Claims room for a block's output: a turn to wait for where there is none.
    pub(super) fn claim(&self, env: &Env<'_>, format: Format, placed: &Placed) -> Option<Turn> {
        env.shared.blocks.claim(self.rendered_key(format, placed), placed.len())
    }

    /// A block's output, which is kept until somebody has read it to its end.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the block's bytes are not what they were.
    pub(super) fn rendered(
        &self,
        env: &Env<'_>,
        format: Format,
        placed: &Placed,
    ) -> Result<Arc<Buffer>, LogError> {
        let key = self.rendered_key(format, placed);
        let help = || env.shared.ahead.help();
        let mut is_made_here = false;
        let block = env.shared.blocks.get(key, placed.len(), help, |buffer| {
            is_made_here = true;
            self.render(env, format, placed, buffer)
        })?;
        if !is_made_here {
            env.shared.counts.rendered_hits.add(1);
        }
        Ok(block)
    }

    /// Makes a block's output for somebody who will ask for it.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the block's bytes are not what they were.
    pub(super) fn render_ahead(
        &self,
        env: &Env<'_>,
        format: Format,
        placed: &Placed,
    ) -> Result<(), LogError> {
        let key = self.rendered_key(format, placed);
        env.shared.blocks.make_ahead(key, placed.len(), |buffer| self.render(env, format, placed, buffer))
    }

    /// Which block it is in a format.
    pub(super) fn rendered_key(&self, format: Format, placed: &Placed) -> RenderedKey {
        let span = placed.block.span();
        RenderedKey { segment: self.segment.uid, span, format, committed: self.committed }
    }

    /// Appends a block's output to `out`.
    fn render(
        &self,
        env: &Env<'_>,
        format: Format,
        placed: &Placed,
        out: &mut Vec<u8>,
    ) -> Result<(), LogError> {
        let begun = out.len();
        let len = placed.len();
        out.reserve(len.min(MAX_RESERVED));
        if format.is_of_batches() {
            self.for_each_batch(env, &placed.block, |batch, position, decoder| {
                push_batch(format, batch, position, decoder, &self.segment, out);
                Ok(true)
            })?;
        } else {
            self.for_each_record(env, &placed.block, |record, _| {
                env.renderer.render(format, record, out);
                true
            })?;
        }
        if out.len() - begun != len {
            out.truncate(begun);
            return Err(self.stale());
        }
        env.shared.counts.rendered(len);
        Ok(())
    }

    /// The output of a block in a format of whole batches.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the block's bytes are not what they were.
    pub(super) fn measure_batches(
        &self,
        env: &Env<'_>,
        format: Format,
        block: &Block,
    ) -> Result<u64, LogError> {
        let (start, end) = block.span();
        if format == Format::Log {
            return Ok(end - start);
        }
        let (mut output, mut scratch) = (0, Vec::new());
        self.for_each_batch(env, block, |batch, position, decoder| {
            output += batch_output(format, batch, position, decoder, &self.segment, &mut scratch);
            Ok(true)
        })?;
        Ok(output)
    }

    /// Calls `visit` with each visible record of a block, until it says false.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the block's bytes are not what they were.
    pub fn for_each_record(
        &self,
        env: &Env<'_>,
        block: &Block,
        mut visit: impl FnMut(&Record<'_>, &Batch<'_>) -> bool,
    ) -> Result<(), LogError> {
        self.for_each_batch(env, block, |batch, _, decoder| {
            if !env.is_visible(batch) {
                return Ok(true);
            }
            for record in batch.records(decoder, &self.segment.limits()).map_err(|_| self.stale())? {
                if !visit(&record.map_err(|_| self.stale())?, batch) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Calls `visit` with each batch of a block and its place, until it says false.
    pub(super) fn for_each_batch(
        &self,
        env: &Env<'_>,
        block: &Block,
        mut visit: impl FnMut(&Batch<'_>, Position, &mut Decoder) -> Result<bool, LogError>,
    ) -> Result<(), LogError> {
        // Of what is behind the bound nobody can tell here what was aborted.
        if block.last() >= env.bound() {
            return Err(LogError::Outrun { path: self.segment.path.clone() });
        }
        let (file, _) = self.segment.open()?;
        env.shared.with_workspace(|workspace| {
            let Workspace { input, decoder, .. } = workspace;
            let (start, end) = block.span();
            let len = usize::try_from(end.saturating_sub(start)).map_err(|_| self.stale())?;
            input.resize(len, 0);
            let read = files::read_full(&file, input, start).map_err(|error| self.segment.error(error))?;
            // What was cut and written anew while it was read is not what was there before.
            if read < len || self.segment.open().is_err() {
                return Err(self.stale());
            }
            let (mut rest, mut position) = (input.as_slice(), Position(start));
            while !rest.is_empty() {
                let batch = Batch::parse(rest).map_err(|_| self.stale())?;
                rest = rest.get(batch.bytes.len()..).unwrap_or_default();
                let permit = env.shared.permit(&batch, &self.segment.limits());
                let visited = visit(&batch, position, decoder);
                decoder.shrink();
                drop(permit);
                if !visited? {
                    break;
                }
                position = position.plus(batch.bytes.len() as u64);
            }
            Ok(())
        })
    }

    /// Bytes of output before `offset`, once a block that reaches it is measured: those of the records below it. Whole
    /// batches (`.log`, `.dump`) count as `edge` says.
    ///
    /// # Errors
    /// Those of [`Self::for_each_record`].
    pub fn output_before(
        &self,
        env: &Env<'_>,
        format: Format,
        offset: Offset,
        edge: Edge,
    ) -> Result<u64, LogError> {
        let placed = match self.at_offset_or_end(format, offset) {
            Ok(placed) => placed,
            Err(output) => return Ok(output),
        };
        let mut output = placed.start;
        if placed.block.base() >= offset {
            return Ok(output);
        }
        let mut scratch = Vec::new();
        if format.is_of_batches() {
            self.for_each_batch(env, &placed.block, |batch, position, decoder| {
                let before = match edge {
                    Edge::Start => batch.header.last_offset < offset,
                    Edge::End => {
                        let first = batch.first_offset(decoder, &self.segment.limits());
                        first.unwrap_or(batch.header.last_offset) < offset
                    }
                };
                if before {
                    output += batch_output(format, batch, position, decoder, &self.segment, &mut scratch);
                }
                Ok(before)
            })?;
            return Ok(output);
        }
        self.for_each_record(env, &placed.block, |record, _| {
            let before = record.offset < offset;
            output += if before { env.renderer.measure(format, record, &mut scratch) } else { 0 };
            before
        })?;
        Ok(output)
    }

    /// Records before `offset`, once a block that reaches it is known.
    ///
    /// # Errors
    /// Those of [`Self::for_each_record`].
    pub fn records_before(&self, env: &Env<'_>, offset: Offset) -> Result<u64, LogError> {
        let Some((block, mut records)) = self.block_at(offset) else { return Ok(self.records()) };
        if block.is_dense(records) && block.base() < offset {
            return Ok(records.saturating_add(offset.0.abs_diff(block.base().0)));
        }
        if block.base() < offset {
            self.for_each_record(env, &block, |record, _| {
                let before = record.offset < offset;
                records += u64::from(before);
                before
            })?;
        }
        Ok(records)
    }

    /// The offset of record number `number` of the run, counted from 0, once it is measured.
    ///
    /// # Errors
    /// Those of [`Self::for_each_record`].
    pub fn offset_of_record(&self, env: &Env<'_>, number: u64) -> Result<Option<Offset>, LogError> {
        let Some((block, before)) = self.at_record(number) else { return Ok(None) };
        let mut left = number - before;
        if block.is_dense(before) {
            return Ok(i64::try_from(left).ok().map(|left| block.base().plus(left)));
        }
        let mut found = None;
        self.for_each_record(env, &block, |record, _| {
            found = (left == 0).then_some(record.offset);
            left = left.saturating_sub(1);
            found.is_none()
        })?;
        Ok(found)
    }
}
