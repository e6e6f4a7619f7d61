//! A log that is cut at an offset, as a follower does it that has what its leader hasn't.
//!
//! By Kafka's rules: segments that begin above the offset go; the last that is left is cut in front of its first batch that holds
//! the offset or a later one. A batch around the offset goes whole, and the log ends before the offset then: a broker takes the
//! offset for the log's end until it stops, and finds the smaller one at its next start. Where all segments begin above the offset, all go, and an empty
//! one begins there. Indexes, snapshots, epochs and checkpoints have nothing of what went, and epochs that began at the end, without a
//! record, go too.
//!
//! A [`Truncation`] only reads. Carried out, it is in this order, and a crash in between leaves a log that the next start recovers:
//!
//! | step | a crash then leaves |
//! |---|---|
//! | what goes is kept elsewhere | the old log |
//! | checkpoints say no more than the new end | the old log, of which more is read at the next start |
//! | segments go, the last one first, each durable before the next | the old log without its last segments |
//! | the last one that is left is cut | the new log |
//! | indexes, snapshots, epochs | the new log, whose last segment gets new ones at the next start |

mod apply;
mod gone;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use gone::Gone;

use crate::format::index::AbortedTxn;
use crate::log::LogError;
use crate::log::append::owned::{OpenError, OwnedDirectory};
use crate::log::append::recovery::files::{read_epochs, segments_of};
use crate::log::append::recovery::{Known, Plan};
use crate::log::append::replay::{Replay, state_at};
use crate::log::derived::epochs::Epochs;
use crate::log::derived::indexing::{Appended, IndexBuilder, IndexBytes};
use crate::log::derived::producers::Producers;
use crate::log::segment::Segment;
use crate::log::segment::scan::Step;
use crate::units::{Offset, Position, ProducerId, TopicPartition};

/// What is to be cut from a partition.
#[derive(Debug)]
pub struct Truncation {
    /// The partition.
    pub name: TopicPartition,
    /// Its directory.
    pub directory: PathBuf,
    /// The offset that was asked for.
    pub to: Offset,
    /// The log's bounds before.
    pub before: Span,
    /// And after.
    pub after: Span,
    /// What goes.
    pub gone: Gone,
    /// The transactions that are open at the new end, oldest first.
    pub open: Vec<(Offset, ProducerId)>,
    /// Segments that go whole.
    segments: Vec<Arc<Segment>>,
    last: Last,
    producers: Producers,
    epochs: Epochs,
    /// Whether epochs go.
    has_fewer_epochs: bool,
}

/// From the log start offset to the log end offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first offset.
    pub start: Offset,
    /// The offset after the last.
    pub end: Offset,
}

/// The last segment that is left.
#[derive(Debug)]
enum Last {
    /// One that was there.
    Cut(Box<Cut>),
    /// An empty one, which begins at the new end.
    Anew,
}

/// A segment and what of it stays.
#[derive(Debug)]
struct Cut {
    segment: Arc<Segment>,
    len: u64,
    old_len: u64,
    /// The first offset that goes.
    first_gone: Option<Offset>,
    indexes: IndexBytes,
    txn_index: Vec<u8>,
}

impl Truncation {
    /// What would be cut from the partition in `directory`. Only reads, so that a broker may run.
    ///
    /// # Errors
    /// Why the partition has to be recovered first.
    pub fn new(
        directory: &Path,
        name: &TopicPartition,
        to: Offset,
        known: &Known,
    ) -> Result<Self, OpenError> {
        check(directory, name, to, known)?;
        Ok(Self::read(directory, name, to, known)?)
    }

    /// Reads what goes, and the segment that is cut.
    fn read(directory: &Path, name: &TopicPartition, to: Offset, known: &Known) -> Result<Self, LogError> {
        let segments = segments_of(directory, name, known.limits)?;
        let (kept, whole) = segments.split_at(segments.partition_point(|segment| segment.base <= to));
        let none = known.log_start.unwrap_or(Offset(0));
        let first = segments.first().map_or(none, |segment| segment.base);
        let state_at = |end| Ok::<_, LogError>(state_at(directory, &segments, end, known.limits)?.0);
        let mut gone = Gone::default();
        let (last, left_end, producers) = match kept.last() {
            Some(segment) => {
                let (cut, end) = Cut::read(segment, to, state_at(segment.base)?, known, &mut gone)?;
                (Last::Cut(Box::new(cut)), end, state_at(end)?)
            }
            None => (Last::Anew, none, Producers::default()),
        };
        let mut end = gone.end().unwrap_or(left_end);
        for segment in whole {
            end = gone.read_all(segment, known.limits)?;
        }
        let before = Span { start: known.log_start.map_or(first, |start| start.max(first)), end };
        let after = match last {
            Last::Anew if to >= end => before,
            Last::Anew => Span { start: to, end: to },
            Last::Cut(_) => Span { start: before.start.min(left_end), end: left_end },
        };
        let old_epochs = read_epochs(directory);
        let is_anew = matches!(last, Last::Anew) && before != after;
        let mut epochs = if is_anew { Epochs::default() } else { old_epochs.clone() };
        epochs.truncate_from_end(after.end);
        Ok(Self {
            name: name.clone(),
            directory: directory.to_owned(),
            to,
            before,
            after,
            gone,
            open: producers.open().collect(),
            segments: whole.to_vec(),
            last,
            producers,
            has_fewer_epochs: epochs != old_epochs,
            epochs,
        })
    }

    /// Whether there is nothing to cut, epochs without records apart.
    pub fn is_empty(&self) -> bool {
        !self.cuts() && !self.has_fewer_epochs
    }

    /// Whether the log gets another end.
    pub fn cuts(&self) -> bool {
        self.before != self.after || !self.segments.is_empty()
    }

    /// How many segments go whole.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }
}

impl OwnedDirectory {
    /// What is to be cut from a partition at `to`. Torn and zero tails, and indexes that are missing, are repaired first. It must not
    /// be open for appending.
    ///
    /// # Errors
    /// Why it can't be cut.
    pub fn truncation(
        &self,
        name: &TopicPartition,
        directory: &Path,
        to: Offset,
        interval_bytes: u64,
    ) -> Result<Truncation, OpenError> {
        let known = self.known_of(name, interval_bytes);
        self.repair(name, directory, &known)?;
        let plan = check(directory, name, to, &known)?;
        if !plan.cuts.is_empty() {
            plan.apply(self.disk(), None)?;
        }
        Ok(Truncation::read(directory, name, to, &known)?)
    }
}

/// Checks that nothing is damaged from the segment on that is cut at `to`; what recovery would do there.
fn check(directory: &Path, name: &TopicPartition, to: Offset, known: &Known) -> Result<Plan, OpenError> {
    let segments = segments_of(directory, name, known.limits)?;
    let last = segments.iter().rev().find(|segment| segment.base <= to);
    let from = last.map_or(Offset(0), |last| last.base).min(known.recovery_point);
    let plan = Plan::new(directory, name, &Known { recovery_point: from, ..*known })?;
    match plan.cuts.iter().find(|cut| !cut.is_expected()) {
        Some(cut) => Err(OpenError::NeedsRecovery { cut: cut.to_string() }),
        None => Ok(plan),
    }
}

impl Cut {
    /// Reads a segment: what stays, the offset after it, and, into `gone`, what goes.
    fn read(
        segment: &Arc<Segment>,
        to: Offset,
        producers: Producers,
        known: &Known,
        gone: &mut Gone,
    ) -> Result<(Self, Offset), LogError> {
        let builder = IndexBuilder::new(known.index_interval_bytes);
        let (_, old_len) = segment.open()?;
        let mut cut = Self {
            segment: segment.clone(),
            len: 0,
            old_len,
            first_gone: None,
            indexes: IndexBytes::new(segment.base, builder),
            txn_index: Vec::new(),
        };
        let mut replay = Replay::new(producers, Epochs::default(), known.limits);
        let mut end = segment.base;
        let mut scanner = segment.scan(segment.start())?;
        loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { position, batch } => {
                    let (len, header) = (batch.bytes.len() as u64, &batch.header);
                    let (last_offset, max_timestamp) = (header.last_offset, header.max_timestamp);
                    if cut.first_gone.is_some() || last_offset >= to {
                        let first = gone.add(&batch, &mut replay, known.limits);
                        cut.first_gone.get_or_insert(first);
                        continue;
                    }
                    let aborted = replay.append(&batch);
                    cut.txn_index.extend(aborted.into_iter().flat_map(AbortedTxn::encode));
                    cut.indexes.append(&Appended { position, len, last_offset, max_timestamp });
                    (cut.len, end) = (position.0 + len, last_offset.next());
                }
                Step::Damage(_) => {}
                Step::End(_) => break,
            }
        }
        cut.indexes.close();
        gone.go_on(replay);
        gone.bytes += old_len - cut.len;
        Ok((cut, end))
    }

    /// Where it is cut.
    const fn position(&self) -> Position {
        Position(self.len)
    }
}
