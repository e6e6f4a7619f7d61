//! The blocks of one segment from some batch on, measured as far as somebody needed.
//!
//! A run that begins at the segment's start is shared by all that read the segment, and saved when it is complete. One
//! that begins in the middle belongs to a selection that starts there, so that the last lines of a large segment
//! don't cost a reading of all of it.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use crate::format::crc32c::crc32c;
use crate::log::LogError;
use crate::log::files::SourceFile;
use crate::log::segment::Segment;
use crate::log::segment::facts::Shown;
use crate::log::segment::scan::{Context, Start};
use crate::log::sidecar::WORTH_SAVING;
use crate::units::{Offset, Position};
use crate::view::env::Env;
use crate::view::format::Format;
use crate::view::frontier::Frontier;
use crate::view::layout::{Block, Layout, to_index};
use crate::view::summary::Summary;

/// Source bytes measured before others that wait for the run get a turn.
pub(super) const STEP_BYTES: u64 = 4 * 1024 * 1024;

/// How far somebody needs a run to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// So that this byte of the output lies in a measured block.
    Byte(u64),
    /// So that a measured block reaches this offset.
    Offset(Offset),
    /// So that this many records were counted.
    Records(u64),
    /// To the end, as it is now.
    End,
}

/// Measured blocks of one segment.
#[derive(Debug)]
pub struct Run {
    /// The segment.
    pub segment: Arc<Segment>,
    start: Start,
    pub(super) committed: bool,
    measured: RwLock<Measured>,
    work: Mutex<()>,
}

/// How far the run is measured.
#[derive(Debug, Default)]
struct Measured {
    layout: Layout,
    /// Where the next batch is looked for, and what is expected there.
    at: Option<Start>,
    /// Whether the last block may still grow.
    open: bool,
    /// Whether bytes before the next batch were not readable.
    after_damage: bool,
    /// Set when the scan reached what was then the end.
    ended: Option<Ended>,
    /// How many formats were saved, if anything was.
    saved_columns: Option<usize>,
    /// What is known of the batches in all blocks but one that may grow.
    summary: Summary,
    /// And of those in that one.
    last: Summary,
    /// How many blocks both cover: fewer than there are while measuring is under way.
    summarized: usize,
}

/// The end that a scan met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ended {
    /// The file's length then.
    len: u64,
    /// The view's bound then.
    bound: Offset,
    /// Where the scan ended, with the next segment's base as it was known before.
    at: Start,
    /// Whether bytes at the end of the file are not readable: damage, or in an active segment what is being written.
    unreadable: bool,
    /// The segment's version before: what is reserved at the end is written to without growing.
    version: u64,
}

impl Measured {
    /// How many blocks are below `bound`: all, unless somebody else knows more than was known at the beginning.
    fn below(&self, bound: Offset) -> usize {
        self.layout.blocks.partition_point(|block| block.last() < bound)
    }
}

/// A measured block and its place in the output.
#[derive(Debug, Clone, Copy)]
pub struct Placed {
    /// The block.
    pub block: Block,
    /// Where its output begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// The last offset of the block before it in the run.
    pub before: Option<Offset>,
}

impl Placed {
    /// The length of its output.
    pub(super) fn len(&self) -> usize {
        to_index(self.end - self.start)
    }
}

impl Run {
    /// A run of `segment` from `start` on, with or without the records of aborted transactions.
    pub fn new(segment: Arc<Segment>, start: Start, committed: bool) -> Self {
        Self { segment, start, committed, measured: RwLock::default(), work: Mutex::default() }
    }

    /// Whether it begins at the segment's start.
    pub fn is_whole(&self) -> bool {
        self.start.position == Position(0)
    }

    /// Takes over what was saved for this segment, if it fits the file as it is.
    pub fn load(&self, env: &Env<'_>) {
        let Some(sidecars) = env.shared.sidecars.as_ref().filter(|_| !self.segment.is_packed()) else {
            return;
        };
        let Ok((file, len)) = self.segment.open() else { return };
        let Some(payload) = sidecars.load(&file, &self.kind(env)) else { return };
        let fingerprints = env.renderer.fingerprints();
        let Some((layout, source_len)) = Layout::decode(payload.bytes(), &fingerprints) else { return };
        let summaries = sidecars.load(&file, &format!("summary-{}", self.kind(env)));
        let Some((summary, last)) = summaries.and_then(|payload| decode_summaries(payload.bytes(), len))
        else {
            return;
        };
        if source_len != len {
            return;
        }
        env.shared.counts.measurements_loaded.add(1);
        if let Some(last) = layout.blocks.last() {
            let (from, to) = last.span();
            self.segment.take_as_read(Position(from), Position(to));
        }
        let saved_columns = Some(layout.complete_columns());
        let position = layout.blocks.last().map_or(self.start.position, |block| Position(block.span().1));
        let expected = layout.blocks.last().map_or(self.start.expected, |block| block.last().next());
        let start = Start::new(position, expected, self.segment.below());
        let version = self.segment.version();
        let ended = Some(Ended { len, bound: env.bound(), at: start, unreadable: false, version });
        // What came last may grow, unless something unreadable is behind it.
        let open = last.batches > 0;
        let (at, after_damage, summarized) = (Some(start), false, layout.blocks.len());
        *self.write() =
            Measured { layout, at, open, after_damage, ended, saved_columns, summary, last, summarized };
    }

    /// Measures until `goal` is met, or to the end as it is now; without a format, only what all formats share.
    ///
    /// # Errors
    /// Those of reading; damage is none.
    pub fn extend(
        &self,
        env: &Env<'_>,
        format: impl Into<Option<Format>>,
        goal: Goal,
    ) -> Result<(), LogError> {
        let format = format.into();
        let mut has_worked = false;
        loop {
            if self.is_met(env, format, goal, self.segment.open()?.1) {
                break;
            }
            has_worked = true;
            let turn = self.work.lock().unwrap_or_else(PoisonError::into_inner);
            // Asked before the length: it may be written to and sealed meanwhile.
            let below = self.segment.below();
            // Somebody may have measured further than the file was long before.
            let (file, len) = self.segment.open()?;
            if self.is_met(env, format, goal, len) {
                break;
            }
            let begun = Instant::now();
            let read = match format {
                Some(format) if self.read().layout.measured(Some(format)) < self.known(env, len) => {
                    self.measure_known(env, format, len)?
                }
                _ => self.measure_new(env, format, (&file, len), below)?,
            };
            drop(turn);
            env.shared.counts.measured(read, begun.elapsed());
            if env.paced {
                env.shared.pace(read);
            }
        }
        if has_worked {
            self.save(env);
        }
        Ok(())
    }

    /// Whether everything up to the end, as it is now, is measured in `format`.
    pub fn is_complete(&self, env: &Env<'_>, format: impl Into<Option<Format>>) -> bool {
        let format = format.into();
        self.segment.open().is_ok_and(|(_, len)| self.is_met(env, format, Goal::End, len))
    }

    /// Source bytes that measuring to the end would read; unpacking costs more than any number of them.
    pub fn unmeasured(&self, env: &Env<'_>, format: impl Into<Option<Format>>) -> u64 {
        let format = format.into();
        if !self.segment.is_at_hand() {
            return u64::MAX;
        }
        let Ok((file, len)) = self.segment.open() else { return 0 };
        if self.is_met(env, format, Goal::End, len) {
            return 0;
        }
        let measured = self.read();
        let known = measured.layout.measured(format).checked_sub(1);
        let from = known
            .and_then(|last| measured.layout.blocks.get(last))
            .map_or(self.start.position.0, |b| b.span().1);
        self.segment.unread(&file, len, from)
    }

    /// Whether everything up to the segment after this one is measured in `format`, which can be told without the file.
    pub fn is_known_to_its_end(&self, format: Format) -> bool {
        let measured = self.read();
        let (layout, below) = (&measured.layout, self.segment.below());
        let is_at_end = layout.blocks.last().is_some_and(|block| block.last().next() == below);
        is_at_end && layout.measured(Some(format)) == layout.blocks.len()
    }

    /// Bytes of output measured so far.
    pub fn output(&self, format: Format) -> u64 {
        self.read().layout.output(format)
    }

    /// Records counted so far.
    pub fn records(&self) -> u64 {
        self.read().layout.blocks.last().map_or(0, Block::records_end)
    }

    /// The records measured so far.
    pub fn shown(&self) -> Shown {
        let measured = self.read();
        let blocks = &measured.layout.blocks;
        let each = blocks.iter().filter_map(Block::timestamps);
        let times = each.reduce(|(low, high), (min, max)| (low.min(min), high.max(max)));
        Shown { count: blocks.last().map_or(0, Block::records_end), times }
    }

    /// Whether bytes at the end of a sealed segment are not readable, as far as it was measured.
    pub fn ends_damaged(&self) -> bool {
        self.read().ended.is_some_and(|ended| ended.unreadable && ended.at.is_sealed())
    }

    /// The last offset that is measured.
    pub fn reached(&self) -> Option<Offset> {
        self.read().layout.blocks.last().map(Block::last)
    }

    /// The measured block that holds byte `at` of the output.
    pub fn at_output(&self, format: Format, at: u64) -> Option<Placed> {
        let measured = self.read();
        let index = measured.layout.at_output(format, at)?;
        placed(&measured.layout, format, index)
    }

    /// The first measured block that reaches `offset`, with the number of records before it.
    pub fn at_offset(&self, format: Format, offset: Offset) -> Option<(Placed, u64)> {
        let measured = self.read();
        let index = measured.layout.at_offset(offset);
        let placed =
            placed(&measured.layout, format, index).filter(|placed| placed.block.last() >= offset)?;
        Some((placed, measured.layout.records_before(index)))
    }

    /// What [`Self::at_offset`] finds, or how many bytes of output are measured if that is less.
    pub(super) fn at_offset_or_end(&self, format: Format, offset: Offset) -> Result<Placed, u64> {
        let measured = self.read();
        let found = placed(&measured.layout, format, measured.layout.at_offset(offset));
        let output = measured.layout.output(format);
        found.filter(|placed| placed.block.last() >= offset).ok_or(output)
    }

    /// Whether all blocks before this one are measured in `format`.
    pub fn reaches(&self, format: Format, block: &Block) -> bool {
        let measured = self.read();
        let before = measured.layout.at_offset(block.base());
        measured.layout.measured(Some(format)) >= before
    }

    /// The first known block that reaches `offset`, with the number of records before it.
    pub fn block_at(&self, offset: Offset) -> Option<(Block, u64)> {
        let measured = self.read();
        let index = measured.layout.at_offset(offset);
        Some((*measured.layout.blocks.get(index)?, measured.layout.records_before(index)))
    }

    /// The first known block that reaches `offset` and is `wanted`, or the last one that there is, `None` when none is; and the offset
    /// up to which all in front of it was passed over.
    pub fn first_block(
        &self,
        mut offset: Offset,
        wanted: impl Fn(&Block) -> bool,
    ) -> (Offset, Option<Block>) {
        let measured = self.read();
        let mut found = None;
        for block in measured.layout.blocks.iter().skip(measured.layout.at_offset(offset)) {
            offset = found.map_or(offset, |before: Block| before.last().next());
            found = Some(*block);
            if wanted(block) {
                break;
            }
        }
        (offset, found)
    }

    /// The block that holds record number `number` of the run, with the number of records before the block.
    pub fn at_record(&self, number: u64) -> Option<(Block, u64)> {
        let measured = self.read();
        let blocks = &measured.layout.blocks;
        let index = blocks.partition_point(|block| block.records_end() <= number);
        Some((*blocks.get(index)?, measured.layout.records_before(index)))
    }

    /// Source bytes that meeting `goal` would read, at most.
    pub fn cost(&self, env: &Env<'_>, format: impl Into<Option<Format>>, goal: Goal) -> u64 {
        let format = format.into();
        /// An index entry is at most this far from its neighbour, by default and more.
        const INDEX_GRAIN: u64 = 64 * 1024;
        if !self.segment.is_at_hand() {
            return u64::MAX;
        }
        let Ok((_, len)) = self.segment.open() else { return 0 };
        if self.is_met(env, format, goal, len) {
            return 0;
        }
        let all = self.unmeasured(env, format);
        let Goal::Offset(offset) = goal else { return all };
        match self.segment.start_near(offset) {
            Ok(near) if near.position.0 > 0 => {
                let frontier = len.saturating_sub(all);
                near.position.0.saturating_sub(frontier).saturating_add(INDEX_GRAIN).min(all)
            }
            _ => all,
        }
    }

    /// The blocks measured so far.
    pub fn blocks(&self) -> Vec<Block> {
        self.read().layout.blocks.clone()
    }

    /// What is measured so far: blocks, and what is known of the batches in them.
    pub fn summarized(&self) -> (Vec<Block>, Summary) {
        let measured = self.read();
        let mut summary = measured.summary.clone();
        summary.merge(&measured.last);
        (measured.layout.blocks.iter().take(measured.summarized).copied().collect(), summary)
    }

    /// Source bytes that no format's measuring has reached; unpacking costs more than any number of them.
    pub fn unknown(&self, env: &Env<'_>) -> u64 {
        if !self.segment.is_at_hand() {
            return u64::MAX;
        }
        let Ok((file, len)) = self.segment.open() else { return 0 };
        let measured = self.read();
        if self.has_ended(&measured, env, len) {
            return 0;
        }
        let from = measured.layout.blocks.last().map_or(self.start.position.0, |block| block.span().1);
        self.segment.unread(&file, len, from)
    }

    /// Whether nothing came since a scan met the end, or somebody has measured further than may be shown now.
    fn has_ended(&self, measured: &Measured, env: &Env<'_>, len: u64) -> bool {
        let (bound, version) = (env.bound(), self.segment.version());
        measured.ended.is_some_and(|ended| {
            // What was being written is damage once another segment follows, and noted as such.
            let is_judged = !ended.unreadable || ended.at.below == self.segment.below();
            let is_same = ended.len >= len && ended.bound == bound && ended.version >= version;
            ended.bound > bound || is_same && is_judged
        })
    }

    pub(super) fn stale(&self) -> LogError {
        LogError::Stale { path: self.segment.path.clone() }
    }

    fn is_met(&self, env: &Env<'_>, format: Option<Format>, goal: Goal, len: u64) -> bool {
        let measured = self.read();
        let known = measured.layout.measured(format);
        let reached = match goal {
            Goal::Byte(at) => format.is_none_or(|format| measured.layout.output(format) > at),
            Goal::Offset(offset) => {
                let last = known.checked_sub(1).and_then(|last| measured.layout.blocks.get(last));
                last.is_some_and(|block| block.last() >= offset)
            }
            Goal::Records(count) => measured.layout.blocks.last().is_some_and(|b| b.records_end() >= count),
            Goal::End => false,
        };
        reached || self.has_ended(&measured, env, len) && known >= measured.below(env.bound())
    }

    /// The number of blocks that are as they will stay: all when nothing came since the end was met, otherwise all but
    /// the last.
    fn known(&self, env: &Env<'_>, len: u64) -> usize {
        let measured = self.read();
        let at_end = self.has_ended(&measured, env, len);
        let all = measured.layout.blocks.len() - usize::from(measured.open && !at_end);
        all.min(measured.below(env.bound()))
    }

    /// Measures blocks that another format made known; the source bytes read.
    fn measure_known(&self, env: &Env<'_>, format: Format, len: u64) -> Result<u64, LogError> {
        let mut read = 0;
        let known = self.known(env, len);
        let mut scratch = Vec::new();
        while read < STEP_BYTES {
            let next = {
                let measured = self.read();
                let index = measured.layout.measured(Some(format));
                measured.layout.blocks.get(index).copied().filter(|_| index < known)
            };
            let Some(block) = next else { break };
            let (start, end) = block.span();
            let mut output = 0;
            if format.is_of_batches() {
                output = self.measure_batches(env, format, &block)?;
            } else {
                self.for_each_record(env, &block, |record, _| {
                    output += env.renderer.measure(format, record, &mut scratch);
                    true
                })?;
            }
            self.write().layout.push_output(format, output);
            read += end - start;
        }
        Ok(read)
    }

    /// Looks for batches behind the last block that can't grow; the source bytes read.
    fn measure_new(
        &self,
        env: &Env<'_>,
        format: Option<Format>,
        (file, len): (&Arc<SourceFile>, u64),
        below: Offset,
    ) -> Result<u64, LogError> {
        if self.reached().is_some_and(|last| last >= env.bound()) {
            return Err(LogError::Outrun { path: self.segment.path.clone() });
        }
        let version = self.segment.version();
        let Reopened { start, after_damage, index } = self.reopen(below);
        env.problems.forget_from(&self.segment, start.position);
        let scanner = self.segment.scanner(file.clone(), len, start);
        let frontier = Frontier::new(self, format, after_damage);
        let advanced = env.shared.with_workspace(|workspace| frontier.advance(env, scanner, workspace));
        let (frontier, at, ended) = advanced?;
        // All at once: who looks meanwhile sees what was there before, or this.
        let mut measured = self.write();
        measured.open = frontier.building.is_some();
        let blocks: Vec<_> = frontier.full.into_iter().chain(frontier.building).collect();
        measured.layout.replace(index, &blocks, format);
        measured.summary.merge(&frontier.summary);
        measured.last = frontier.last;
        measured.summarized = measured.layout.blocks.len();
        measured.at = Some(at);
        measured.after_damage = frontier.after_damage;
        measured.ended = ended.map(|unreadable| Ended { len, bound: env.bound(), at, unreadable, version });
        Ok(at.position.since(start.position))
    }

    /// Where to look for what came since; the last block is looked at again if it may have grown.
    fn reopen(&self, below: Offset) -> Reopened {
        let mut measured = self.write();
        let start = Start { below, ..measured.at.unwrap_or(self.start) };
        let index = measured.layout.blocks.len();
        let may_grow = |block: &&Block| measured.open && block.span().1 == start.position.0;
        let Some(block) = measured.layout.blocks.last().filter(may_grow).copied() else {
            let last = std::mem::take(&mut measured.last);
            measured.summary.merge(&last);
            measured.open = false;
            return Reopened { start, after_damage: measured.after_damage, index };
        };
        let before = index.checked_sub(2).and_then(|before| measured.layout.blocks.get(before));
        let expected = before.map_or(self.start.expected, |before| before.last().next());
        let after_damage = block.is_after_damage();
        let context = Context { is_after_damage: after_damage, ..start.context };
        let start = Start { position: Position(block.span().0), expected, context, ..start };
        Reopened { start, after_damage, index: index - 1 }
    }

    /// Saves a complete measurement of a segment that is worth it.
    fn save(&self, env: &Env<'_>) {
        let Some(sidecars) = &env.shared.sidecars else { return };
        // What a compressed segment unpacks to is another file each time.
        if !self.is_whole() || self.segment.is_packed() {
            return;
        }
        let Ok((file, len)) = self.segment.open() else { return };
        let (payload, summaries) = {
            let mut measured = self.write();
            let complete = measured.ended.is_some_and(|ended| {
                ended.len == len && !ended.unreadable && ended.bound > self.last(&measured)
            });
            let spotless = !measured.layout.blocks.iter().any(Block::is_after_damage);
            let columns = measured.layout.complete_columns();
            let is_news = measured.saved_columns.is_none_or(|saved| columns > saved);
            if len < WORTH_SAVING || !complete || !spotless || !is_news {
                return;
            }
            measured.saved_columns = Some(columns);
            let summaries = encode_summaries(&measured.summary, &measured.last, len);
            (measured.layout.encode(len, &env.renderer.fingerprints()), summaries)
        };
        let kind = self.kind(env);
        let saved = sidecars
            .save(&file, &format!("summary-{kind}"), &summaries)
            .and_then(|()| sidecars.save(&file, &kind, &payload));
        match saved {
            Ok(()) => env.shared.counts.measurements_saved.add(1),
            Err(error) => {
                tracing::debug!(file = %self.segment.path.display(), %error, "a measurement could not be saved");
            }
        }
    }

    fn last(&self, measured: &Measured) -> Offset {
        measured.layout.blocks.last().map_or(self.start.expected, Block::last)
    }

    /// The name under which it is saved: under `read_committed` it depends on what was aborted.
    fn kind(&self, env: &Env<'_>) -> String {
        match env.decided {
            None => "all".to_owned(),
            Some(decided) => {
                let aborted = decided.aborted_between(self.segment.lower, self.segment.below());
                let mut bytes = env.bound().min(self.segment.below()).0.to_be_bytes().to_vec();
                for txn in aborted {
                    for number in [txn.producer.0, txn.first.0, txn.last.0] {
                        bytes.extend_from_slice(&number.to_be_bytes());
                    }
                }
                format!("committed-{:08x}", crc32c(&bytes))
            }
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Measured> {
        self.measured.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Measured> {
        self.measured.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where measuring goes on.
struct Reopened {
    start: Start,
    /// Whether damage is before that place.
    after_damage: bool,
    /// The number of the block that begins there.
    index: usize,
}

/// The bytes to save: the length of the file, and both summaries.
fn encode_summaries(summary: &Summary, last: &Summary, len: u64) -> Vec<u8> {
    [len.to_be_bytes().as_slice(), &summary.encode(), &last.encode()].concat()
}

/// What [`encode_summaries`] made of a file of this length.
fn decode_summaries(bytes: &[u8], len: u64) -> Option<(Summary, Summary)> {
    let (saved, bytes) = bytes.split_first_chunk()?;
    let (summary, bytes) = Summary::decode(bytes).filter(|_| u64::from_be_bytes(*saved) == len)?;
    let (last, rest) = Summary::decode(bytes)?;
    rest.is_empty().then_some((summary, last))
}

fn placed(layout: &Layout, format: Format, index: usize) -> Option<Placed> {
    let block = layout.measured_block(format, index)?;
    let start = layout.output_before(format, index);
    let before = index.checked_sub(1).and_then(|before| layout.blocks.get(before)).map(Block::last);
    Some(Placed { block, start, end: layout.output_before(format, index + 1), before })
}
