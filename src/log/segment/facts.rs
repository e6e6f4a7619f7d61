//! What is so of a segment once no more can come to it: a look for one thing among thousands of segments skips by these.

use std::sync::OnceLock;

use crate::units::Timestamp;

/// What was found of a sealed segment.
#[derive(Debug, Default)]
pub struct Facts {
    /// The largest timestamp of its batches, markers too; `None` inside when it has none.
    pub largest: OnceLock<Option<Timestamp>>,
    /// Its records, those of aborted transactions among them.
    pub all: OnceLock<Shown>,
    /// Its records without those of aborted transactions, once all in it are decided.
    pub committed: OnceLock<Shown>,
}

/// The records of a segment that readers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// How many.
    pub count: u64,
    /// Their smallest and their largest timestamp; `None` when there are no records.
    pub times: Option<(Timestamp, Timestamp)>,
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::Arc;

    use super::*;
    use crate::format::batch::Limits;
    use crate::log::files::{FileId, FilePool};
    use crate::log::segment::{Segment, SegmentFile};
    use crate::units::Offset;

    #[test]
    fn what_was_found_before_a_segment_was_the_last_one_again_is_true_no_more() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (path, id) = (file.path().to_owned(), FileId::of(&file.as_file().metadata().unwrap()));
        let file = SegmentFile { base: Offset(0), path, id, len: 0, changed: None, packing: None };
        let pool = Arc::new(FilePool::new(NonZeroUsize::MIN));
        let last = Offset(i64::MAX);
        let segment = Segment::new(file, Offset(0), last, pool, Limits::default());
        assert!(segment.facts().is_none());
        segment.set_below(last);
        segment.set_below(Offset(7));
        let facts = segment.facts().unwrap();
        facts.all.set(Shown { count: 7, times: None }).unwrap();
        // A truncation at its end, a batch, and a roll.
        segment.set_below(last);
        assert!(segment.facts().is_none());
        segment.set_below(Offset(9));
        assert!(segment.facts().is_none());
    }
}
