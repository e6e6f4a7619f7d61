//! Rendered records that are given one after another.

use std::ops::Range;

use crate::log::segment::times::Timed;

/// Some records of a partition, rendered, and how many of them were given.
#[derive(Debug, Clone, Default)]
pub(super) struct Rendered {
    bytes: Vec<u8>,
    /// Each record with where it ends.
    records: Vec<(Timed, usize)>,
    index: usize,
}

impl Rendered {
    /// Adds a record's bytes.
    pub(super) fn push(&mut self, bytes: &[u8], timed: Timed) {
        self.bytes.extend_from_slice(bytes);
        self.records.push((timed, self.bytes.len()));
    }

    /// Adds records that come behind these.
    pub(super) fn append(&mut self, other: &Self) {
        let len = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.records.extend(other.records.iter().map(|(timed, end)| (*timed, len + end)));
    }

    /// Whether it has no records at all.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The bytes of all its records.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The next record that was not given.
    pub(super) fn head(&self) -> Option<Timed> {
        self.records.get(self.index).map(|(timed, _)| *timed)
    }

    /// The bytes that the next record has.
    pub(super) fn head_len(&self) -> usize {
        self.span().map_or(0, |(_, span)| span.len())
    }

    /// The next record's bytes, which count as given then.
    pub(super) fn take(&mut self) -> Option<(Timed, &[u8])> {
        let (timed, span) = self.span()?;
        self.index += 1;
        Some((timed, self.bytes.get(span)?))
    }

    fn span(&self) -> Option<(Timed, Range<usize>)> {
        let before = self.index.checked_sub(1).and_then(|before| self.records.get(before));
        let (timed, end) = *self.records.get(self.index)?;
        Some((timed, before.map_or(0, |(_, end)| *end)..end))
    }
}
