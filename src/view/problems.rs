//! Damage that was met while reading a partition, each place once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::format::batch::BatchError;
use crate::log::files::is_young;
use crate::log::problem::{Kind, Problem};
use crate::log::segment::Segment;
use crate::log::segment::scan::{Damage, Fault, Start, Tail};
use crate::units::{Offset, Position};

/// Problems kept for one partition; more are counted.
const MAX_KEPT: usize = 10_000;

/// The problems of one partition.
#[derive(Debug, Default)]
pub struct Problems {
    found: Mutex<Found>,
}

/// By file and position.
#[derive(Debug, Default)]
struct Found {
    kept: BTreeMap<(PathBuf, Position), Problem>,
    left_out: u64,
}

impl Problems {
    /// Notes bytes between batches that are no batch.
    pub fn note_damage(&self, segment: &Segment, damage: &Damage) {
        self.note(&Problem::of_damage(&segment.path, damage, Kind::of_fault(&damage.fault)));
    }

    /// Notes how a segment ends, which a scan met at `end`; a clean end, or one that a broker may still be writing, is nothing to note.
    pub fn note_tail(&self, segment: &Segment, end: Start, tail: &Tail) {
        let kind = match tail {
            Tail::Clean => return,
            Tail::Torn(_) => Kind::TornTail,
            Tail::Zero(_) if !end.is_sealed() => Kind::ZeroTail,
            Tail::Zero(_) => Kind::Zeros,
            Tail::Bad(damage) => Kind::of_fault(&damage.fault),
        };
        if !end.is_sealed() && is_young(&segment.path) {
            return;
        }
        if let Some(damage) = tail.damage() {
            self.note(&Problem::of_damage(&segment.path, damage, kind));
        }
    }

    /// Drops what was noted of `segment` from `position` on, before it is looked at again.
    pub fn forget_from(&self, segment: &Segment, position: Position) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.kept.retain(|(path, at), _| *path != segment.path || *at < position);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).kept.is_empty()
    }

    /// Notes a batch whose records can't be read.
    pub fn note_records(
        &self,
        segment: &Segment,
        position: Position,
        len: u64,
        expected: Offset,
        error: BatchError,
    ) {
        let kind = Kind::of_records(&error);
        let damage = Damage { position, len, expected, fault: Fault::Batch(error) };
        self.note(&Problem::of_damage(&segment.path, &damage, kind));
    }

    fn note(&self, problem: &Problem) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (problem.file.clone(), problem.position);
        if found.kept.len() >= MAX_KEPT && !found.kept.contains_key(&key) {
            found.left_out += 1;
            return;
        }
        let known = found.kept.insert(key, problem.clone());
        if known.as_ref() != Some(problem) {
            tracing::warn!(
                file = %problem.file.display(), position = %problem.position, len = problem.len,
                kind = problem.kind.name(), cause = problem.cause, "damage in the source"
            );
        }
    }

    /// Adds up how many of each kind were met so far.
    pub fn count(&self, counts: &mut BTreeMap<Kind, u64>) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        for problem in found.kept.values() {
            *counts.entry(problem.kind).or_default() += 1;
        }
        if found.left_out > 0 {
            *counts.entry(Kind::More).or_default() += found.left_out;
        }
    }

    /// What was met so far, in the order of files and positions.
    pub fn met(&self) -> Vec<Problem> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mut met: Vec<_> = found.kept.values().cloned().collect();
        if found.left_out > 0
            && let Some(last) = met.last()
        {
            let cause = format!("and {} more places", found.left_out);
            met.push(Problem::of_file(&last.file.clone(), Kind::More, cause));
        }
        met
    }
}
