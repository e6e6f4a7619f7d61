//! Damage that was met while reading a partition, each place once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::format::batch::BatchError;
use crate::log::files;
use crate::log::scan::{Damage, Fault, Tail};
use crate::log::segment::Segment;
use crate::units::{Offset, Position};

/// Problems kept for one partition; more are counted.
const MAX_KEPT: usize = 10_000;

/// Damage at one place of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How many bytes are affected.
    pub len: u64,
    /// The offset that was expected there.
    pub expected: Offset,
    /// What kind of damage it is.
    pub kind: Kind,
    /// The cause, with expected and found values.
    pub cause: String,
}

/// The kinds of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes that are no sound batch.
    Damaged,
    /// A sealed segment ends within a batch.
    TornTail,
    /// Zeros behind the last batch: preallocated, or lost at a power failure. No damage.
    ZeroTail,
    /// The checksum is right, the records are not readable.
    BadRecords,
}

impl Kind {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::TornTail => "torn-tail",
            Self::ZeroTail => "zero-tail",
            Self::BadRecords => "bad-records",
        }
    }
}

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
        self.note(&segment.path, damage, Kind::Damaged);
    }

    /// Notes how a segment ends; a clean end, or one that a broker may still be writing, is nothing to note.
    pub fn note_tail(&self, segment: &Segment, tail: &Tail) {
        let kind = match tail {
            Tail::Clean => return,
            Tail::Torn(_) => Kind::TornTail,
            Tail::Zero(_) => Kind::ZeroTail,
            Tail::Bad(_) => Kind::Damaged,
        };
        if segment.is_active() && files::is_young(&segment.path) {
            return;
        }
        if let Some(damage) = tail.damage() {
            self.note(&segment.path, damage, kind);
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
        let damage = Damage { position, len, expected, fault: Fault::Batch(error) };
        self.note(&segment.path, &damage, Kind::BadRecords);
    }

    fn note(&self, path: &Path, damage: &Damage, kind: Kind) {
        let problem =
            Problem { len: damage.len, expected: damage.expected, kind, cause: damage.fault.to_string() };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (path.to_owned(), damage.position);
        if found.kept.len() >= MAX_KEPT && !found.kept.contains_key(&key) {
            found.left_out += 1;
            return;
        }
        let known = found.kept.insert(key, problem.clone());
        if known.as_ref() != Some(&problem) {
            tracing::warn!(
                file = %path.display(), position = %damage.position, len = damage.len,
                kind = kind.name(), cause = problem.cause, "damage in the source"
            );
        }
    }

    /// One line each: file, position, length, expected offset, kind and cause, with tabs between.
    pub fn render(&self) -> Vec<u8> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = Vec::new();
        for ((path, position), problem) in &found.kept {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let Problem { len, expected, kind, cause } = problem;
            let line = format!(
                "{name}\tposition {position}\tlength {len}\toffset {expected}\t{}\t{cause}\n",
                kind.name()
            );
            out.extend_from_slice(line.as_bytes());
        }
        if found.left_out > 0 {
            out.extend_from_slice(format!("... and {} more\n", found.left_out).as_bytes());
        }
        out
    }
}
