//! Which entries of an index are out of order among the others.

/// Numbers, from the first to the last, of entries that can't all be where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tangle {
    pub(super) first: usize,
    pub(super) last: usize,
}

/// An entry's number in its file, and the two values that must grow from entry to entry.
pub(super) type Numbered = (usize, (i64, i64));

/// Whether the second of two entries may follow the first.
pub(super) type MayFollow = fn((i64, i64), (i64, i64)) -> bool;

/// The stretches of `entries` in which some entry may not follow one before it, each from the first to the last entry
/// that is involved: of two that have changed places nobody can tell which one is wrong.
pub(super) fn tangles(entries: impl IntoIterator<Item = Numbered>, may_follow: MayFollow) -> Vec<Tangle> {
    let mut found: Vec<Tangle> = Vec::new();
    // Entries in order so far; those of the last tangle are represented by the largest values in it.
    let mut in_order: Vec<Numbered> = Vec::new();
    for (number, entry) in entries {
        let mut first = number;
        let mut largest = entry;
        while let Some(&(before, values)) = in_order.last() {
            if may_follow(values, entry) {
                break;
            }
            first = before;
            largest = (largest.0.max(values.0), largest.1.max(values.1));
            in_order.pop();
        }
        if first < number {
            while found.last().is_some_and(|tangle| tangle.last >= first) {
                first = found.pop().map_or(first, |tangle| tangle.first.min(first));
            }
            found.push(Tangle { first, last: number });
        }
        in_order.push((first, largest));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[i64]) -> Vec<(usize, usize)> {
        let entries = values.iter().enumerate().map(|(number, value)| (number, (*value, *value)));
        tangles(entries, |before, after| after.0 > before.0 && after.1 > before.1)
            .iter()
            .map(|tangle| (tangle.first, tangle.last))
            .collect()
    }

    #[test]
    fn stretches_hold_what_is_out_of_order_and_no_more() {
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[1, 2, 3]), []);
        assert_eq!(of(&[0, 3, 2, 1, 4]), [(1, 3)]);
        assert_eq!(of(&[0, 1, 1, 2]), [(1, 2)]);
        assert_eq!(of(&[5, 1, 6, 9, 8, 10]), [(0, 1), (3, 4)]);
        assert_eq!(of(&[1, 9, 3, 4, 10]), [(1, 3)]);
        assert_eq!(of(&[4, 3, 5, 1]), [(0, 3)]);
    }
}
