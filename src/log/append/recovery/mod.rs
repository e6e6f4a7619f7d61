//! What an unclean stop has left of a partition, and what is done about it, by the rules of Kafka's loader.
//!
//! All segments from the one with the recovery point on are read, batch after batch. Each is cut at its first byte that is no sound
//! batch in its place, and gets new indexes; snapshots and epochs are made anew. Interrupted swaps are finished or
//! undone. Where we differ from Kafka, nothing that is sound is thrown away; `docs/recover.md` has the reasons:
//!
//! | what | Kafka | here |
//! |---|---|---|
//! | more than a torn or zero tail | cut, and gone | cut only into a quarantine directory |
//! | segments behind one that was cut | deleted | kept: offsets are missing in between, as in a compacted log |
//! | offsets that go back | empties the segment, if it notices at all: only index entries are compared | the segment is cut there |
//! | offsets of the next segment; an offset that the batches behind it contradict | kept | the segment is cut there |
//! | an unknown magic or codec, an impossible count | kept | the segment is cut there |
//! | a name above the first offset | refuses the log | renamed; cut where the offset is more than 2^31-1 below |
//! | offsets more than 2^31-1 above the base | splits the segment | no index entries for them |
//! | a damaged `.swap` | takes its place, the old segments are deleted | the old segments are kept, or quarantined |
//! | a `.timeindex` that is missing | an empty one, so that lookups by time miss records | made anew from the log |
//! | a `.txnindex` that can't be read | refuses the log | made anew from the log |
//! | epochs: malformed; at the very end; of one batch alone | refuses; removed; believed | made anew; kept; left out |
//! | `x.log`; a `.log` that is no file | refuses; follows links | ignored; refused |
//!
//! A plan only reads; [`Plan::apply`] does it, each step in an order that a crash at any point leaves to be begun again.

mod apply;
mod cut;
pub(in crate::log) mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use cut::{Cut, CutKind, Lost};

use crate::format::batch::{Decoder, Limits};
use crate::format::index::AbortedTxn;
use crate::format::names::FileType;
use crate::log::LogError;
use crate::log::append::replay::Replay;
use crate::log::derived::epochs::Epochs;
use crate::log::derived::indexing::{Appended, IndexBuilder, IndexBytes};
use crate::log::derived::producers::Producers;
use crate::log::segment::Segment;
use crate::log::segment::beside::live_path as path;
use crate::log::segment::scan::{Scanner, Step, Tail};
use crate::units::{Offset, Position, TopicPartition};
use files::Files;

/// What a partition's recovery needs to know.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The offset below which all was durable; the largest after a clean stop.
    pub recovery_point: Offset,
    /// The log start offset, where one is written down.
    pub log_start: Option<Offset>,
    /// `index.interval.bytes`
    pub index_interval_bytes: u64,
    /// How much memory one batch may cost.
    pub limits: Limits,
}

/// What is to be done to a partition.
#[derive(Debug)]
pub struct Plan {
    /// The partition's directory.
    pub directory: PathBuf,
    /// Where segments are cut.
    pub cuts: Vec<Cut>,
    /// The first offset.
    pub start: Offset,
    /// The offset after the last.
    pub end: Offset,
    files: Files,
    rebuilt: Vec<Rebuilt>,
    producers: Producers,
    epochs: Epochs,
    /// Nothing but an empty log is left, which begins at the log start offset.
    is_below_start: bool,
}

/// A segment that was read, and its indexes as they have to be.
#[derive(Debug)]
struct Rebuilt {
    base: Offset,
    /// Bytes of its log that are sound.
    len: u64,
    is_cut: bool,
    indexes: IndexBytes,
    txn_index: Vec<u8>,
    /// The producers before its first batch.
    producers: Producers,
}

/// A partition that can't be written to.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// Its files can't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It has segments that no broker keeps so.
    #[error("{}: a segment as a backup tool or a tiered store keeps it: nothing can be appended behind it", path.display())]
    Packed {
        /// The segment.
        path: PathBuf,
    },
    /// It has a link or directory where a log should be.
    #[error("{}: is no file; put the log itself there, or take this away", path.display())]
    NoFile {
        /// What is there.
        path: PathBuf,
    },
}

impl Plan {
    /// Reads what has to be read. Changes nothing.
    ///
    /// # Errors
    /// Those of reading.
    pub fn new(directory: &Path, name: &TopicPartition, known: &Known) -> Result<Self, RecoveryError> {
        if let Some(path) = files::odd_log(directory)? {
            return Err(RecoveryError::NoFile { path });
        }
        let segments = files::segments_of(directory, name, known.limits)?;
        let is_foreign = |segment: &&Arc<Segment>| segment.is_packed() || files::name_of(segment).is_none();
        if let Some(packed) = segments.iter().find(is_foreign) {
            return Err(RecoveryError::Packed { path: packed.path.clone() });
        }
        let files = Files::list(directory, &segments)?;
        Reading { directory, known, segments: &segments, files, cuts: Vec::new() }.plan()
    }

    /// Whether it takes away more than a torn or zero tail.
    pub fn needs_quarantine(&self) -> bool {
        !self.cuts.iter().all(Cut::is_expected)
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.rebuilt.is_empty() && self.cuts.is_empty() && self.files.is_tidy()
    }

    /// How many segments were read and get new indexes.
    pub fn segments(&self) -> usize {
        self.rebuilt.len()
    }
}

/// A plan that is being made.
struct Reading<'a> {
    directory: &'a Path,
    known: &'a Known,
    segments: &'a [Arc<Segment>],
    files: Files,
    cuts: Vec<Cut>,
}

impl Reading<'_> {
    fn plan(mut self) -> Result<Plan, RecoveryError> {
        let first = self.first_unsure();
        let (replayed_from, producers) = self.first_to_replay(first);
        let epochs = files::read_epochs(self.directory);
        let mut replay = Replay::new(producers, epochs, self.known.limits);
        let (mut rebuilt, mut end) = (Vec::new(), None);
        for (index, segment) in self.segments.iter().enumerate().skip(replayed_from) {
            let is_unsure = index >= first || self.files.lacks_index(segment.base);
            let is_checked = is_unsure || self.files.is_swapped(segment.base);
            // Compaction may have taken batches that a snapshot knows of.
            if let Some(known) =
                self.files.producers_at(self.directory, segment.base).filter(|_| index <= first)
            {
                replay.producers = known;
            }
            let base = if is_unsure { self.name_right(index, segment) } else { segment.base };
            let (read, next) = self.read(segment, base, is_checked, &mut replay)?;
            rebuilt.extend((is_unsure || read.is_cut).then_some(read));
            end = Some(next);
        }
        let end = match (end, self.segments.last()) {
            (Some(end), _) => end,
            (None, Some(last)) => last.end()?.next_offset,
            (None, None) => self.known.log_start.unwrap_or(Offset(0)),
        };
        let first_base = self.segments.first().map_or(end, |segment| segment.base);
        let first_base = rebuilt.first().map_or(first_base, |first: &Rebuilt| first.base.min(first_base));
        self.keep_replaced()?;
        let start = self.known.log_start.map_or(first_base, |start| start.max(first_base));
        let at_end = self.files.producers_at(self.directory, end).filter(|_| self.is_clean());
        replay.producers = at_end.unwrap_or(replay.producers);
        // Epochs in front of the first segment are those of segments in a tiered store.
        let epochs_start = self.known.log_start.unwrap_or(Offset(0));
        let (producers, epochs) = replay.finish(epochs_start, end.max(start));
        let mut plan = Plan {
            directory: self.directory.to_owned(),
            cuts: self.cuts,
            start,
            end,
            files: self.files,
            rebuilt,
            producers,
            epochs,
            is_below_start: false,
        };
        if end < start {
            plan.give_up_all(self.segments)?;
        }
        Ok(plan)
    }

    /// Keeps what an interrupted compaction has replaced, if what took its place has lost something.
    fn keep_replaced(&mut self) -> Result<(), LogError> {
        let is_lossy = |cut: &Cut| {
            let is_swap = |segment: &&Arc<Segment>| segment.path == cut.path && files::is_swap(segment);
            !cut.is_expected() && self.segments.iter().any(|segment| is_swap(&segment))
        };
        if !self.cuts.iter().any(is_lossy) {
            return Ok(());
        }
        for path in self.files.replaced() {
            let len = std::fs::metadata(path).map_err(|error| LogError::io(path, "stat", error))?.len();
            let (path, position) = (path.clone(), Position(0));
            let (kind, cause, lost) = (CutKind::Replaced, String::new(), Lost::default());
            if len > 0 {
                self.cuts.push(Cut { path, position, len, kind, cause, lost });
            }
        }
        Ok(())
    }

    /// The first segment that has to be read: the one with the recovery point, or one that lacks an index.
    fn first_unsure(&self) -> usize {
        let point = self.known.recovery_point;
        if self.is_clean() {
            return self.segments.len();
        }
        self.segments.partition_point(|segment| segment.base <= point).saturating_sub(1)
    }

    /// Whether the log was stopped in order.
    fn is_clean(&self) -> bool {
        self.known.recovery_point == Offset(i64::MAX)
    }

    /// The segment from which producers have to be followed, and those before it: that of the newest sound snapshot before those
    /// that are read.
    fn first_to_replay(&self, unsure: usize) -> (usize, Producers) {
        let is_lacking = |base| self.files.lacks_index(base) || self.files.is_swapped(base);
        let lacking = self.segments.iter().position(|segment| is_lacking(segment.base));
        let from = lacking.map_or(unsure, |lacking| lacking.min(unsure));
        let at = |index: usize| {
            let base = self.segments.get(index)?.base;
            Some((index, self.files.producers_at(self.directory, base)?))
        };
        // After a clean stop a log without snapshots has no producers, as for Kafka.
        let none = if self.is_clean() && self.files.snapshots.is_empty() { from } else { 0 };
        (0..=from).rev().find_map(at).unwrap_or((none, Producers::default()))
    }

    /// The base of a segment, which gets another name where that is above its first offset: Kafka's recovery fails there.
    fn name_right(&mut self, index: usize, segment: &Segment) -> Offset {
        let (named, lower) = (segment.base, segment.lower);
        let before = index.checked_sub(1).and_then(|before| self.segments.get(before));
        let is_free = before.is_none_or(|before| before.base < lower);
        if lower >= named || is_far(named, lower) || !is_free || files::is_swap(segment) {
            return named;
        }
        let renamed =
            |file_type| (path(self.directory, named, file_type), path(self.directory, lower, file_type));
        self.files.obsolete.extend(FileType::INDEXES.map(|file_type| renamed(file_type).0));
        self.files.renames.push(renamed(FileType::Log));
        lower
    }

    /// Reads a segment to its first fault; what its indexes have to be, and the offset after its last.
    fn read(
        &mut self,
        segment: &Segment,
        base: Offset,
        is_checked: bool,
        replay: &mut Replay,
    ) -> Result<(Rebuilt, Offset), LogError> {
        let builder = IndexBuilder::new(self.known.index_interval_bytes);
        let mut read = Rebuilt::new(base, builder, replay.producers.clone());
        let mut start = segment.start();
        if is_far(base, start.expected) {
            start.expected = base;
        }
        let mut scanner = segment.scan(start)?;
        let mut next = base;
        let tail = loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                // Neighbours that changed places are not in theirs.
                Step::Batch { position, batch } if position.0 == read.len => {
                    let header = &batch.header;
                    let aborted = replay.append(&batch);
                    read.txn_index.extend(aborted.into_iter().flat_map(AbortedTxn::encode));
                    let len = batch.bytes.len() as u64;
                    let (last_offset, max_timestamp) = (header.last_offset, header.max_timestamp);
                    let appended = Appended { position, len, last_offset, max_timestamp };
                    read.indexes.append(&appended);
                    read.len += len;
                    next = last_offset.next();
                }
                Step::End(tail) if is_whole(&tail, read.len) => break tail,
                _ => break Tail::Clean,
            }
        };
        read.indexes.close();
        let (_, len) = segment.open()?;
        if is_checked && len > read.len {
            self.cuts.push(match Cut::of_tail(segment.path.clone(), &tail) {
                Some(cut) => cut,
                None => damaged(segment, Position(read.len), len, next)?,
            });
            read.is_cut = true;
        }
        Ok((read, next))
    }
}

/// Whether a first offset is so far below the name that it is damaged, and not the name wrong: there is no index for both.
fn is_far(named: Offset, first: Offset) -> bool {
    named.0.saturating_sub(first.0) > i64::from(i32::MAX)
}

/// Whether a tail is all that lies behind the first `len` bytes.
fn is_whole(tail: &Tail, len: u64) -> bool {
    tail.damage().is_none_or(|damage| damage.position.0 == len)
}

/// A cut at a fault that sound batches lie behind.
fn damaged(segment: &Segment, position: Position, len: u64, expected: Offset) -> Result<Cut, LogError> {
    let mut start = segment.start();
    (start.position, start.expected) = (position, expected);
    let mut scanner: Scanner<_> = segment.scan(start)?;
    let (mut lost, mut cause) = (Lost::default(), String::new());
    let mut decoder = Decoder::default();
    loop {
        match scanner.step().map_err(|error| segment.error(error))? {
            Step::Batch { batch, .. } => {
                let first = batch.first_offset(&mut decoder, &segment.limits());
                lost.add(first.unwrap_or(batch.header.last_offset), batch.header.last_offset);
            }
            Step::Damage(damage) if cause.is_empty() => cause = damage.fault.to_string(),
            Step::Damage(_) => {}
            Step::End(tail) => {
                if let (Some(damage), true) = (tail.damage(), cause.is_empty()) {
                    cause = damage.fault.to_string();
                }
                let (path, len) = (segment.path.clone(), len.saturating_sub(position.0));
                return Ok(Cut { path, position, len, kind: CutKind::Damaged, cause, lost });
            }
        }
    }
}

impl Plan {
    /// All segments lie below the log start offset: Kafka begins an empty log there.
    fn give_up_all(&mut self, segments: &[Arc<Segment>]) -> Result<(), LogError> {
        self.cuts.clear();
        self.rebuilt.clear();
        for segment in segments {
            let len = segment.stored_len()?;
            if len > 0 {
                let cause = format!("the log ends at {} and starts at {}", self.end, self.start);
                let lost = Lost { batches: 1, offsets: Some((segment.base, self.end)) };
                let (path, kind) = (segment.path.clone(), CutKind::BelowStart);
                self.cuts.push(Cut { path, position: Position(0), len, kind, cause, lost });
            }
        }
        (self.is_below_start, self.end, self.producers) = (true, self.start, Producers::default());
        Ok(())
    }
}

impl Rebuilt {
    const fn new(base: Offset, builder: IndexBuilder, producers: Producers) -> Self {
        Self {
            base,
            len: 0,
            is_cut: false,
            indexes: IndexBytes::new(base, builder),
            txn_index: Vec::new(),
            producers,
        }
    }

    /// The names and bytes of its indexes; the transaction index only where it has entries.
    fn indexes(&self) -> impl Iterator<Item = (FileType, &[u8])> {
        let all = [
            (FileType::OffsetIndex, &*self.indexes.offsets),
            (FileType::TimeIndex, &*self.indexes.times),
            (FileType::TxnIndex, &*self.txn_index),
        ];
        all.into_iter().filter(|(file_type, bytes)| *file_type != FileType::TxnIndex || !bytes.is_empty())
    }
}
