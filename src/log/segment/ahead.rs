//! What lies ahead behind damage, and which batches of it belong there.
//!
//! Behind damage, a gap in the offsets has two explanations: batches were lost, or the batch that follows was written to a
//! wrong place. The batches ahead decide: those that go up one after another and hold the most bytes belong there.

use crate::units::Offset;

/// A sound batch ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::log) struct BatchSpan {
    /// Where it begins.
    pub(in crate::log) position: u64,
    /// Its length.
    pub(in crate::log) len: u64,
    /// Its first offset.
    pub(in crate::log) first: Offset,
    /// Its last.
    pub(in crate::log) last: Offset,
}

/// The batches ahead that belong where they are.
#[derive(Debug, Default)]
pub(in crate::log) struct Ahead {
    start: u64,
    end: u64,
    positions: Vec<u64>,
}

impl Ahead {
    /// How far to look: many times a page, and what a disk writes at once.
    pub(in crate::log) const BYTES: u64 = 1024 * 1024;
    /// How many batches to look at; deciding costs their square.
    pub(in crate::log) const BATCHES: usize = 1024;

    /// Decides about the batches that were seen from `start` to `seen`. Unless that is the end of the file, the second
    /// half is decided again when it is reached, since what comes behind it counts too.
    pub(in crate::log) fn new(start: u64, seen: u64, is_all: bool, batches: &[BatchSpan]) -> Self {
        let end = if is_all { seen } else { start + (seen - start) / 2 };
        Self { start, end, positions: heaviest_ascending(batches) }
    }

    /// Whether it says anything about a batch at `position`.
    pub(in crate::log) fn covers(&self, position: u64) -> bool {
        position == self.start && self.end > 0 || (self.start..self.end).contains(&position)
    }

    /// Whether the batch at `position` belongs there.
    pub(in crate::log) fn holds(&self, position: u64) -> bool {
        self.positions.binary_search(&position).is_ok()
    }
}

/// The positions of those batches whose offsets ascend and whose bytes together are the most.
fn heaviest_ascending(batches: &[BatchSpan]) -> Vec<u64> {
    // For each batch, from the last one on: the bytes of the best choice that begins with it, and what comes next in it.
    let mut best: Vec<(u64, Option<usize>)> = vec![(0, None); batches.len()];
    for (index, batch) in batches.iter().enumerate().rev() {
        let rest = (index + 1..batches.len()).filter(|later| batches[*later].first > batch.last);
        let next = rest.max_by_key(|later| (best[*later].0, std::cmp::Reverse(*later)));
        best[index] = (batch.len + next.map_or(0, |next| best[next].0), next);
    }
    let first = (0..batches.len()).max_by_key(|index| (best[*index].0, std::cmp::Reverse(*index)));
    std::iter::successors(first, |index| best[*index].1).map(|index| batches[index].position).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(batches: &[(i64, i64, u64)]) -> Vec<u64> {
        let mut position = 0;
        let spans = batches.iter().map(|(first, last, len)| {
            let span = BatchSpan { position, len: *len, first: Offset(*first), last: Offset(*last) };
            position += len;
            span
        });
        heaviest_ascending(&spans.collect::<Vec<_>>())
    }

    #[test]
    fn all_that_ascend_are_chosen() {
        assert_eq!(chosen(&[(3, 4, 10), (7, 7, 20), (9, 12, 5)]), [0, 10, 30]);
        assert!(chosen(&[]).is_empty());
    }

    #[test]
    fn the_few_that_are_too_high_or_too_low_are_left_out() {
        assert_eq!(chosen(&[(90, 91, 10), (92, 93, 10), (5, 6, 10), (7, 8, 10), (9, 10, 10)]), [20, 30, 40]);
        assert_eq!(chosen(&[(5, 6, 10), (7, 8, 10), (1, 1, 10), (9, 9, 10)]), [0, 10, 30]);
    }
}
