//! Bytes at the end of a segment that recovery takes away.

use std::fmt;
use std::path::PathBuf;

use crate::log::segment::scan::{Damage, Tail};
use crate::units::{Offset, Position};

/// The end of a segment, from the first byte that is no sound batch in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The log.
    pub path: PathBuf,
    /// Where it is cut.
    pub position: Position,
    /// How many bytes go.
    pub len: u64,
    /// What they are.
    pub kind: CutKind,
    /// What is wrong at their beginning.
    pub cause: String,
    /// The sound batches among them.
    pub lost: Lost,
}

/// Sound batches that go with what is in front of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// How many they are.
    pub batches: u64,
    /// The first offset of the first, and the last of the last.
    pub offsets: Option<(Offset, Offset)>,
}

/// What is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutKind {
    /// The beginning of a batch that a crash kept from being written to its end.
    Torn,
    /// Zeros: never written, or not durable at a power failure.
    Zero,
    /// Anything else: it may be of use to somebody.
    Damaged,
    /// A whole segment that lies below the log start offset.
    BelowStart,
    /// A whole segment that compaction has replaced by one that is damaged.
    Replaced,
}

impl Cut {
    /// Of a tail that is not clean.
    pub(super) fn of_tail(path: PathBuf, tail: &Tail) -> Option<Self> {
        let (kind, damage) = match tail {
            Tail::Clean => return None,
            Tail::Torn(damage) => (CutKind::Torn, damage),
            Tail::Zero(damage) => (CutKind::Zero, damage),
            Tail::Bad(damage) => (CutKind::Damaged, damage),
        };
        let Damage { position, len, ref fault, .. } = *damage;
        Some(Self { path, position, len, kind, cause: fault.to_string(), lost: Lost::default() })
    }

    /// Whether it is no more than a crash leaves, and nobody misses it.
    pub fn is_expected(&self) -> bool {
        matches!(self.kind, CutKind::Torn | CutKind::Zero)
    }
}

impl Lost {
    pub(super) fn add(&mut self, first: Offset, last: Offset) {
        self.batches += 1;
        self.offsets = Some((self.offsets.map_or(first, |(first, _)| first), last));
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            CutKind::Torn => "a torn tail",
            CutKind::Zero => "a zero tail",
            CutKind::Damaged => "damage",
            CutKind::Replaced => "all of a segment in whose place compaction put a damaged one",
            CutKind::BelowStart => "all of a segment below the log start offset",
        };
        write!(f, "{} at {}: {what} of {} bytes", self.path.display(), self.position, self.len)?;
        if !self.cause.is_empty() {
            write!(f, " ({})", self.cause)?;
        }
        if let Some((first, last)) = self.lost.offsets {
            let batches = if self.lost.batches == 1 { "batch" } else { "batches" };
            write!(f, ", with {} sound {batches} behind it, offsets {first} to {last}", self.lost.batches)?;
        }
        Ok(())
    }
}
