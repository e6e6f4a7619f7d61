//! Which neighbouring segments become one: as many as fit into a segment, by Kafka's rules.

use crate::log::upkeep::listing::ListedSegment;
use crate::units::Offset;

/// A segment and its indexes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) offset_index: u64,
    pub(super) time_index: u64,
}

/// The largest that a segment gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// `segment.bytes`
    pub(super) bytes: u64,
    /// `segment.index.bytes`
    pub(super) index_bytes: u64,
}

/// How many segments each group has. `below` is the first offset that isn't compacted; `sizes` tells the indexes of a segment.
pub(super) fn groups(
    segments: &[ListedSegment],
    below: Offset,
    most: Most,
    sizes: impl Fn(&ListedSegment) -> Sizes,
) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut rest = segments;
    while let Some((first, behind)) = rest.split_first() {
        let Sizes { mut offset_index, mut time_index } = sizes(first);
        let mut len = first.len;
        let mut count = 1;
        for (number, segment) in behind.iter().enumerate() {
            // The next one's base, since to know the last offset would take a look into the log.
            let last = behind.get(number + 1).map_or(below, |next| next.base).plus(-1);
            let added = sizes(segment);
            len += segment.len;
            offset_index += added.offset_index;
            time_index += added.time_index;
            let is_near = segment.len == 0 || last.0.saturating_sub(first.base.0) <= i64::from(i32::MAX);
            if len > most.bytes
                || offset_index > most.index_bytes
                || time_index > most.index_bytes
                || !is_near
            {
                break;
            }
            count += 1;
        }
        counts.push(count);
        rest = rest.get(count..).unwrap_or_default();
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Timestamp;

    fn counts(all: &[(i64, u64)], below: i64, index: u64) -> Vec<usize> {
        let modified = Timestamp(0);
        let segments: Vec<_> = all
            .iter()
            .map(|(base, len)| ListedSegment { base: Offset(*base), len: *len, modified })
            .collect();
        let most = Most { bytes: 100, index_bytes: 50 };
        groups(&segments, Offset(below), most, |_| Sizes { offset_index: index, time_index: 1 })
    }

    #[test]
    fn neighbours_are_joined_up_to_the_size_of_a_segment() {
        assert_eq!(counts(&[(0, 40), (10, 60), (20, 1), (30, 99), (40, 1)], 50, 1), [2, 2, 1]);
        assert_eq!(counts(&[(0, 300), (10, 1)], 50, 1), [1, 1], "one that is too large alone stays alone");
        assert_eq!(counts(&[(0, 1), (10, 1), (20, 1)], 50, 20), [2, 1], "their indexes must fit too");
    }

    #[test]
    fn offsets_must_fit_behind_the_first_base() {
        let far = i64::from(i32::MAX);
        assert_eq!(counts(&[(0, 1), (10, 1)], far + 1, 1), [2]);
        assert_eq!(counts(&[(0, 1), (10, 1)], far + 2, 1), [1, 1]);
        assert_eq!(counts(&[(0, 1), (10, 1), (far + 2, 1)], far + 3, 1), [1, 2]);
        assert_eq!(counts(&[(0, 1), (10, 0)], far + 2, 1), [2], "an empty one is in nobody's way");
    }
}
