//! The runs of an index while they change: what is stale goes, what is new is scanned, and runs that become many are merged.
//!
//! A run never has entries of the active segment and of sealed ones, so that those of sealed segments can be saved.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use super::entry::{ENTRY_LEN, Entry, sorted};
use super::hash::hash;
use super::run::{Cover, KeySpace, Merged, Run};
use super::saved;
use super::sorted_file::SortedFile;
use crate::format::batch::{Batch, Decoder};
use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::segment::scan::{Start, Step, Tail};
use crate::log::segment::{Segment, SegmentUid};
use crate::log::sidecar::Sidecars;
use crate::units::{Offset, Position};

/// Source bytes between two looks at the clock.
const STEP_BYTES: u64 = 4 * 1024 * 1024;
/// Less than this is indexed at once anyway.
const WORTH_SAVING: u64 = 64 * 1024;
/// Runs in memory that are merged as they come: larger ones once, when all are there.
const SMALL: usize = 1 << 15;
/// So many files are merged before there are more.
const MAX_FILES: usize = 12;

/// The runs, and how far segments are scanned.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// In the order of their segments.
    runs: Vec<Arc<Run>>,
    /// Segments that were scanned; all to the end but for one.
    scanned: HashSet<SegmentUid>,
    /// The one that was active then, and where its scan goes on.
    at: Option<(SegmentUid, Start)>,
    has_loaded: bool,
}

impl Work {
    pub(super) fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Forgets everything, and deletes what was saved.
    pub(super) fn discard(&mut self) {
        for path in self.runs.iter().filter_map(|run| run.saved_as.as_ref()) {
            let _ = std::fs::remove_file(path);
        }
        *self = Self::default();
    }

    /// Drops the runs of segments that were cut or replaced. Those of segments that retention deleted stay: what is below the log's
    /// start is found by nobody.
    pub(super) fn drop_stale(&mut self, segments: &[Arc<Segment>]) {
        let present: HashSet<SegmentUid> = segments.iter().map(|segment| segment.uid).collect();
        let first = segments.first().map_or(Offset(i64::MAX), |segment| segment.base);
        self.runs.retain(|run| run.covers.iter().any(|cover| present.contains(&cover.uid)));
        let covers = self.runs.iter().flat_map(|run| &run.covers);
        let stale = covers.filter(|cover| !present.contains(&cover.uid) && cover.base >= first);
        let stale: HashSet<SegmentUid> = stale.map(|cover| cover.uid).collect();
        self.forget(stale);
        self.scanned.retain(|uid| present.contains(uid));
        self.at = self.at.filter(|(uid, _)| self.scanned.contains(uid));
    }

    /// Drops the runs of these segments, and what they have of others.
    fn forget(&mut self, mut stale: HashSet<SegmentUid>) {
        loop {
            let is_stale = |run: &Arc<Run>| run.covers.iter().any(|cover| stale.contains(&cover.uid));
            let gone: Vec<_> = self.runs.extract_if(.., |run| is_stale(run)).collect();
            if gone.is_empty() {
                break;
            }
            for run in gone {
                stale.extend(run.covers.iter().map(|cover| cover.uid));
                if let Some(path) = &run.saved_as {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
        self.scanned.retain(|uid| !stale.contains(uid));
        self.at = self.at.filter(|(uid, _)| !stale.contains(uid));
    }

    /// Takes over what an earlier mount has saved.
    pub(super) fn load(
        &mut self,
        space: &Arc<KeySpace>,
        partition: &Partition,
        segments: &[Arc<Segment>],
        cache: Option<&Sidecars>,
    ) {
        let Some(cache) = cache.filter(|_| !std::mem::replace(&mut self.has_loaded, true)) else { return };
        for run in saved::load(space, cache, partition, segments) {
            self.scanned.extend(run.covers.iter().map(|cover| cover.uid));
            self.insert(Arc::new(run));
        }
    }

    /// The segments that are not scanned to their end. The active one may always have grown.
    pub(super) fn todo(&self, segments: &[Arc<Segment>]) -> Vec<Arc<Segment>> {
        let is_done = |segment: &Segment| {
            let is_partial = self.at.is_some_and(|(uid, _)| uid == segment.uid);
            self.scanned.contains(&segment.uid) && !is_partial && !segment.is_active()
        };
        segments.iter().filter(|segment| !is_done(segment)).cloned().collect()
    }

    /// The bytes of a segment that are not scanned.
    pub(super) fn unread(&self, segment: &Segment) -> u64 {
        let from = self.at.filter(|(uid, _)| *uid == segment.uid).map_or(0, |(_, start)| start.position.0);
        segment.open().map_or(0, |(_, len)| len.saturating_sub(from))
    }

    /// Scans a segment to its end as it is now; its length, if nothing but growth can change what was read.
    pub(super) fn scan(
        &mut self,
        space: &Arc<KeySpace>,
        segment: &Arc<Segment>,
        read: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<u64>, LogError> {
        let known = self.at.filter(|(uid, _)| *uid == segment.uid).map(|(_, start)| start);
        let start = known.map_or_else(|| segment.start(), |at| Start { below: segment.below(), ..at });
        let is_active = segment.is_active();
        self.scanned.insert(segment.uid);
        if is_active {
            self.at = Some((segment.uid, start));
        }
        match self.scan_from(space, segment, start, read) {
            Ok((at, len, tail)) => {
                self.at = self.at.filter(|(uid, _)| *uid != segment.uid);
                if is_active {
                    self.at = Some((segment.uid, at));
                }
                Ok((tail == Tail::Clean).then_some(len))
            }
            Err(error) => {
                self.forget(HashSet::from([segment.uid]));
                Err(error)
            }
        }
    }

    fn scan_from(
        &mut self,
        space: &Arc<KeySpace>,
        segment: &Arc<Segment>,
        start: Start,
        read: &(dyn Fn(u64) + Sync),
    ) -> Result<(Start, u64, Tail), LogError> {
        let (file, len) = segment.open()?;
        let mut scanner = segment.scanner(file, len, start);
        let mut collected = Collected::default();
        let mut told = start.position;
        let tail = loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { position, batch } => {
                    collected.add(&batch, position, segment);
                    if position.since(told) >= STEP_BYTES {
                        read(position.since(told));
                        told = position;
                    }
                }
                Step::Damage(_) => {}
                Step::End(tail) => break tail,
            }
            if collected.entries.len() >= space.chunk() {
                self.add(space, segment, std::mem::take(&mut collected.entries))?;
            }
        };
        read(scanner.at().position.since(told));
        self.add(space, segment, collected.entries)?;
        Ok((scanner.at(), len, tail))
    }

    /// Adds entries of a segment as a run, merged with those before it that are as small.
    fn add(&mut self, space: &Arc<KeySpace>, segment: &Segment, entries: Vec<Entry>) -> Result<(), LogError> {
        if entries.is_empty() {
            return Ok(());
        }
        let run = Run::in_memory(space, vec![Cover::of(segment)], sorted(&entries));
        drop(entries);
        let mut at = self.insert(Arc::new(run));
        while let Some(before) = at.checked_sub(1) {
            let Some([left, right]) = self.runs.get(before..=at) else { break };
            let (Some(older), Some(newer)) = (left.memory(), right.memory()) else { break };
            if !self.is_alike(left, right) || older.len() > 2 * newer.len() || newer.len() > SMALL {
                break;
            }
            // Stable: it is made for what is sorted in parts.
            let mut both = [older, newer].concat();
            both.sort_by_key(Entry::order);
            let merged = Run::in_memory(space, joined(&[left.clone(), right.clone()]), both);
            self.runs.splice(before..=at, [Arc::new(merged)]);
            at = before;
        }
        if space.is_full() {
            self.spill(space).map_err(|error| LogError::Io {
                path: segment.path.clone(),
                action: "index by key",
                source: error,
            })?;
        }
        Ok(())
    }

    /// Puts a run in its place.
    fn insert(&mut self, run: Arc<Run>) -> usize {
        let base = |run: &Run| run.covers.first().map_or(Offset(0), |cover| cover.base);
        let at = self.runs.partition_point(|before| base(before) <= base(&run));
        self.runs.insert(at, run);
        at
    }

    /// Whether both are of the segment that was active, or neither.
    fn is_alike(&self, left: &Run, right: &Run) -> bool {
        self.is_of_active(left) == self.is_of_active(right)
    }

    fn is_of_active(&self, run: &Run) -> bool {
        self.at.is_some_and(|(uid, _)| run.covers(uid))
    }

    /// Writes what is in memory to files: neighbours to one.
    fn spill(&mut self, space: &Arc<KeySpace>) -> io::Result<()> {
        let mut from = 0;
        while from < self.runs.len() {
            let group = self.runs.get(from..).unwrap_or_default();
            let Some(first) = group.first().filter(|run| run.memory().is_some()) else {
                from += 1;
                continue;
            };
            let fits = |run: &&Arc<Run>| run.memory().is_some() && self.is_alike(first, run);
            let count = group.iter().take_while(fits).count();
            self.merge(space, from, from + count, None)?;
            from += 1;
            self.limit_files(space, from)?;
        }
        Ok(())
    }

    /// Merges the last ones of the files before run number `to`, the smaller ones first, when there are many.
    fn limit_files(&mut self, space: &Arc<KeySpace>, to: usize) -> io::Result<()> {
        let runs = self.runs.get(..to).unwrap_or_default();
        let Some(last) = runs.last() else { return Ok(()) };
        let is_one =
            |run: &&Arc<Run>| run.memory().is_none() && run.saved_as.is_none() && self.is_alike(run, last);
        if runs.iter().rev().take_while(is_one).count() <= MAX_FILES {
            return Ok(());
        }
        let mut entries = 0;
        let is_small = |run: &&Arc<Run>| {
            let fits = entries == 0 || run.len() <= 2 * entries;
            entries += run.len();
            fits
        };
        let count = runs.iter().rev().take_while(is_one).take_while(is_small).count();
        if count > 1 { self.merge(space, to - count, to, None) } else { Ok(()) }
    }

    /// Puts the runs of sealed segments together when they have become many or are worth saving.
    pub(super) fn tidy(
        &mut self,
        space: &Arc<KeySpace>,
        partition: &Partition,
        segments: &[Arc<Segment>],
        cache: Option<&Sidecars>,
    ) -> io::Result<()> {
        let sealed = self.runs.iter().take_while(|run| !self.is_of_active(run)).count();
        let runs = self.runs.get(..sealed).unwrap_or_default();
        let Some(mut from) = runs.iter().position(|run| run.saved_as.is_none()) else { return Ok(()) };
        let unsaved = runs.get(from..).unwrap_or_default();
        let mut entries: u64 = unsaved.iter().map(|run| run.len()).sum();
        let files = unsaved.iter().filter(|run| run.memory().is_none()).count();
        let is_scattered = files > 1 || unsaved.len() > MAX_FILES;
        let cache = cache.filter(|_| entries * ENTRY_LEN as u64 >= WORTH_SAVING);
        if cache.is_none() && !is_scattered {
            return Ok(());
        }
        while let Some(before) = from.checked_sub(1).and_then(|at| runs.get(at)) {
            if before.len() > 2 * entries {
                break;
            }
            entries += before.len();
            from -= 1;
        }
        let place = cache.and_then(|cache| {
            let covers = joined(runs.get(from..).unwrap_or_default());
            saved::Place::of(cache, partition, segments, &covers, entries)
        });
        if place.is_none() && !is_scattered {
            return Ok(());
        }
        self.merge(space, from, sealed, place)
    }

    /// Replaces the runs `from..to` by one in a file.
    fn merge(
        &mut self,
        space: &Arc<KeySpace>,
        from: usize,
        to: usize,
        place: Option<saved::Place<'_>>,
    ) -> io::Result<()> {
        let runs = self.runs.get(from..to).unwrap_or_default();
        let covers = joined(runs);
        let count = runs.iter().map(|run| run.len()).sum();
        let entries = Merged::new(runs, (0, 0))?;
        let (file, saved_as) = match place {
            None => (SortedFile::write(space.nameless()?, &[], count, entries)?, None),
            Some(place) => {
                let (file, path) = place.write(count, entries)?;
                (file, Some(path))
            }
        };
        for path in runs.iter().filter_map(|run| run.saved_as.as_ref()) {
            if Some(path) != saved_as.as_ref() {
                let _ = std::fs::remove_file(path);
            }
        }
        let run = Run::in_file(space, covers, file, saved_as);
        self.runs.splice(from..to, [Arc::new(run)]);
        Ok(())
    }
}

/// The segments of neighbouring runs, each once.
fn joined(runs: &[Arc<Run>]) -> Vec<Cover> {
    let mut covers: Vec<Cover> = runs.iter().flat_map(|run| run.covers.iter().copied()).collect();
    covers.dedup();
    covers
}

/// Entries of batches, and what making them needs.
#[derive(Default)]
struct Collected {
    entries: Vec<Entry>,
    decoder: Decoder,
}

impl Collected {
    /// Adds an entry for each keyed record of a batch. Of a batch whose records can't all be read none is shown.
    fn add(&mut self, batch: &Batch<'_>, position: Position, segment: &Segment) {
        if batch.header.is_control {
            return;
        }
        let begun = self.entries.len();
        let Ok(records) = batch.records(&mut self.decoder, &segment.limits()) else { return };
        for record in records {
            let Ok(record) = record else { return self.entries.truncate(begun) };
            if let Some(key) = record.key {
                self.entries.push(Entry::new(hash(key), record.offset, position));
            }
        }
    }
}
