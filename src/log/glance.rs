//! A look at a partition that costs a listing, an index look-up and the last few batches, however large it is.

use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::units::{Offset, Timestamp};

/// Bytes behind the last index entry that are read for the end; a broker indexes every 4 KiB by default.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// Segments that are looked at for a last batch: those that were rolled and not written to have none.
const MAX_SEGMENTS: usize = 4;

/// What a partition looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glance {
    /// The smallest offset that may be on disk.
    pub first_on_disk: Offset,
    /// The log start offset.
    pub log_start: Offset,
    /// The log end offset; `None` where a compressed segment would have to be unpacked for it, or a large one
    /// without an index scanned.
    pub log_end: Option<Offset>,
    /// Bytes of its segments on disk.
    pub bytes: u64,
    /// The largest timestamp of the last batch; `None` also where it has none, as below Kafka 0.10.
    pub last_timestamp: Option<Timestamp>,
}

impl Glance {
    /// Looks at `partition`, and leaves no listing behind where there was none: a source may have very many.
    ///
    /// # Errors
    /// Those of listing and reading.
    pub fn of(partition: &Partition) -> Result<Self, LogError> {
        if partition.is_listed() { look(partition) } else { look(&partition.apart()) }
    }
}

fn look(partition: &Partition) -> Result<Glance, LogError> {
    let segments = partition.segments()?;
    let mut ends = Vec::new();
    for segment in segments.iter().rev().take(MAX_SEGMENTS) {
        let end = if segment.is_at_hand() { segment.end_within(MAX_BYTES)? } else { None };
        let is_last = end.as_ref().is_none_or(|end| end.last_timestamp.is_some());
        ends.push(end);
        if is_last {
            break;
        }
    }
    let active = ends.first().and_then(Option::as_ref);
    let last = ends.last().and_then(Option::as_ref).and_then(|end| end.last_timestamp);
    Ok(Glance {
        first_on_disk: partition.first_on_disk()?,
        log_start: partition.log_start()?,
        log_end: if segments.is_empty() { Some(Offset(0)) } else { active.map(|end| end.next_offset) },
        bytes: segments.iter().map(|segment| len_on_disk(segment)).sum(),
        last_timestamp: last.filter(|timestamp| !timestamp.is_none()),
    })
}

/// The length of a segment's file, which is not opened for it; 0 when it is gone.
fn len_on_disk(segment: &Segment) -> u64 {
    std::fs::symlink_metadata(&segment.path).map_or(0, |metadata| metadata.len())
}
