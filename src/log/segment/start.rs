//! Where a scan of a segment begins, and what is known there.

use crate::format::batch::Header;
use crate::units::{Offset, Position};

/// Where a scan begins and which offsets fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// A batch begins here.
    pub position: Position,
    /// The smallest offset that may come.
    pub expected: Offset,
    /// The smallest offset that belongs to the next segment.
    pub below: Offset,
    /// What was before it.
    pub context: Context,
}

impl Start {
    /// A start of which nothing is known that was before it.
    pub const fn new(position: Position, expected: Offset, below: Offset) -> Self {
        let context = Context { in_sets: false, is_after_damage: false };
        Self { position, expected, below, context }
    }

    /// The entry with this header was there: what is known behind it, but for where it ends.
    pub(super) const fn pass(&mut self, header: &Header) {
        self.expected = header.last_offset.next();
        self.context = Context { in_sets: header.base_offset.is_none(), is_after_damage: false };
    }

    /// Whether another segment follows, so that the end which a scan meets is the last one. That must be known before the file's
    /// length is: a segment that was active when its end was met may have been written to and sealed since.
    pub const fn is_sealed(&self) -> bool {
        self.below.0 != i64::MAX
    }
}

/// What was before a place decides how damage is read there, also by a scan that is taken up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Whether the entry before was a compressed message set.
    pub in_sets: bool,
    /// Whether the bytes before were no sound batch.
    pub is_after_damage: bool,
}
