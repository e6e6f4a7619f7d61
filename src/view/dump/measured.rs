//! The dump of a log as a file with a size, readable at any position.
//!
//! It is measured in blocks, as far as somebody needed: each at most one entry longer than [`BLOCK_BYTES`]. A block is rendered again
//! when it is read, from where it begins in the log. What is told of the end of the log is of the moment at which it was looked
//! at; all before that stays as it is when the log grows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::LogError;
use crate::log::files::SourceFile;
use crate::log::segment::Segment;
use crate::units::Position;
use crate::view::dump::entry::Shown;
use crate::view::dump::kind::{self, Kind};
use crate::view::dump::log::LogDump;
use crate::view::dump::push_dumping;
use crate::view::layout::to_index;

/// A block is closed when it has so much output.
pub const BLOCK_BYTES: usize = 128 * 1024;
/// Source bytes measured before others that wait get a turn.
const STEP_BYTES: u64 = 4 * 1024 * 1024;

/// A log or KRaft snapshot and how far its dump is measured.
#[derive(Debug)]
pub struct MeasuredLog {
    segment: Segment,
    /// As it is printed.
    path: String,
    name: String,
    kind: Kind,
    shown: Shown,
    measured: Mutex<Measured>,
    work: Mutex<()>,
    /// The block that was rendered last, for the next read.
    rendered: Mutex<Option<(Block, Arc<Vec<u8>>)>>,
}

/// A stretch of the dump, and the stretch of the log that it is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    /// Where it begins in the dump, and where it ends.
    output: (u64, u64),
    /// Where it begins in the log.
    source: Position,
    /// How long the log was when it was measured, on which its lines may depend.
    len: u64,
}

#[derive(Debug, Default)]
struct Measured {
    blocks: Vec<Block>,
    /// Where the next block begins in the log.
    next: Position,
    /// Set when the end of the log was met: its length then, and what is told of the end.
    end: Option<Block>,
}

impl Measured {
    /// The length of the dump as far as it is measured, without what is told of the end.
    fn output(&self) -> u64 {
        self.blocks.last().map_or(0, |block| block.output.1)
    }

    fn is_complete(&self, len: u64) -> bool {
        self.end.is_some_and(|end| end.len == len)
    }

    /// The block with byte `at`.
    fn block(&self, at: u64) -> Option<Block> {
        let index = self.blocks.partition_point(|block| block.output.1 <= at);
        let block = self.blocks.get(index).copied().or(self.end)?;
        (block.output.0 <= at && at < block.output.1).then_some(block)
    }

    /// Makes room for what came since the end was met: a short last block is measured again with it.
    fn reopen(&mut self) {
        if self.end.take().is_none() {
            return;
        }
        let is_short = |block: &Block| block.output.1 - block.output.0 < BLOCK_BYTES as u64;
        if let Some(block) = self.blocks.pop_if(|block| is_short(block)) {
            self.next = block.source;
        }
    }
}

impl MeasuredLog {
    /// The dump of `segment`, whose file is printed as `path`.
    pub fn new(segment: Segment, path: String, name: String, kind: Kind, shown: Shown) -> Self {
        let (measured, work, rendered) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { segment, path, name, kind, shown, measured, work, rendered }
    }

    /// Whether the log is still the file that it was, grown perhaps.
    pub fn is_current(&self) -> bool {
        self.segment.open().is_ok()
    }

    /// The size in bytes; `None` when that costs more than `most` source bytes. `pace` is told of what was read.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the log was cut or replaced, and those of reading.
    pub fn size(&self, most: u64, pace: impl Fn(u64)) -> Result<Option<u64>, LogError> {
        loop {
            let (file, len) = self.segment.open()?;
            {
                let measured = self.lock();
                if measured.is_complete(len) {
                    return Ok(measured.end.map(|end| end.output.1));
                }
                if len.saturating_sub(measured.next.0) > most {
                    return Ok(None);
                }
            }
            pace(self.measure(&file, len)?);
        }
    }

    /// Reads up to `len` bytes at `at` into `out`; fewer only at the end.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the log was cut or replaced, and those of reading.
    pub fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) -> Result<(), LogError> {
        let goal = out.len().saturating_add(len);
        let mut at = at;
        while out.len() < goal {
            let (file, source_len) = self.segment.open()?;
            let found = {
                let measured = self.lock();
                let in_blocks = at < measured.output();
                if in_blocks || measured.is_complete(source_len) {
                    measured.block(at).ok_or(true)
                } else {
                    Err(false)
                }
            };
            let block = match found {
                Ok(block) => block,
                Err(true) => return Ok(()),
                Err(false) => {
                    self.measure(&file, source_len)?;
                    continue;
                }
            };
            let bytes = self.render(&file, block)?;
            let from = to_index(at - block.output.0);
            let to = bytes.len().min(from.saturating_add(goal - out.len()));
            out.extend_from_slice(bytes.get(from..to).unwrap_or_default());
            at += (to - from) as u64;
            if at == block.output.1 {
                *self.rendered.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        Ok(())
    }

    /// Measures a step further; the source bytes read.
    fn measure(&self, file: &Arc<SourceFile>, len: u64) -> Result<u64, LogError> {
        let _turn = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, mut output) = {
            let mut measured = self.lock();
            if measured.is_complete(len) {
                return Ok(0);
            }
            measured.reopen();
            (measured.next, measured.output())
        };
        let mut dump = self.dump(file, len, begun);
        let mut source = begun;
        let mut lines = self.heading(begun);
        loop {
            let (position, before_step) = (dump.position(), lines.len());
            let goes_on = dump.step(&mut lines).map_err(|error| self.segment.error(error))?;
            let is_full = lines.len() >= BLOCK_BYTES;
            let closed = if goes_on { lines.len() } else { before_step };
            if (is_full || !goes_on) && closed > 0 {
                let end = if goes_on { dump.position() } else { position };
                let block = Block { output: (output, output + closed as u64), source, len };
                (output, source) = (block.output.1, end);
                let mut measured = self.lock();
                measured.blocks.push(block);
                measured.next = end;
            }
            if !goes_on {
                let told = (lines.len() - before_step) as u64;
                self.lock().end = Some(Block { output: (output, output + told), source, len });
                return Ok(len.saturating_sub(begun.0));
            }
            if is_full {
                lines.clear();
                if source.since(begun) >= STEP_BYTES {
                    return Ok(source.since(begun));
                }
            }
        }
    }

    /// The lines of a block.
    fn render(&self, file: &Arc<SourceFile>, block: Block) -> Result<Arc<Vec<u8>>, LogError> {
        let kept = self.rendered.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, bytes)) = kept.filter(|(of, _)| *of == block) {
            return Ok(bytes);
        }
        let wanted = to_index(block.output.1 - block.output.0);
        let mut lines = if block.output.0 == 0 { self.heading(block.source) } else { Vec::new() };
        let mut dump = self.dump(file, block.len, block.source);
        while lines.len() < wanted && dump.step(&mut lines).map_err(|error| self.segment.error(error))? {}
        if lines.len() != wanted {
            return Err(LogError::Stale { path: self.segment.path.clone() });
        }
        let bytes = Arc::new(lines);
        *self.rendered.lock().unwrap_or_else(PoisonError::into_inner) = Some((block, bytes.clone()));
        Ok(bytes)
    }

    /// What comes before the first entry; nothing elsewhere.
    fn heading(&self, at: Position) -> Vec<u8> {
        let mut lines = Vec::new();
        if at == Position(0) {
            push_dumping(&self.path, &mut lines);
            kind::push_heading(&self.name, self.kind, &mut lines);
        }
        lines
    }

    fn dump(&self, file: &Arc<SourceFile>, len: u64, from: Position) -> LogDump<Arc<SourceFile>> {
        LogDump::new(file.clone(), len, from, &self.name, self.shown, self.segment.limits())
    }

    fn lock(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
