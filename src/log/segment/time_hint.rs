//! Times at which a segment may hold records, told cheaply: by its first batch, its time index and its newest batches.
//!
//! For listings alone: an index may lie, and then a listing does.

use crate::format::batch::{HEADER_V2_LEN, Header};
use crate::format::index::{StoredTimeEntry, TIME_ENTRY_LEN};
use crate::format::names::FileType;
use crate::log::files::{self, ReadAt};
use crate::log::segment::Segment;
use crate::log::segment::times::LONGEST_BATCH_MS;
use crate::units::Timestamp;
use zerocopy::FromBytes;

/// The first time at or after `time` at which `segment` may hold records. Between two entries of its time index any time counts,
/// unless they are so far apart that a clock was wrong.
pub fn next_time(segment: &Segment, time: Timestamp) -> Option<Timestamp> {
    let is_far = |from: Timestamp, to: Timestamp| to.0.saturating_sub(from.0) > LONGEST_BATCH_MS;
    let mut before = first_time(segment)?;
    if time <= before {
        return Some(before);
    }
    let mut next = None;
    if let Ok(index) = files::open(&segment.beside(FileType::TimeIndex)) {
        let entries = index.metadata().map_or(0, |meta| meta.len() / TIME_ENTRY_LEN as u64);
        let (mut low, mut high) = (0, entries);
        while low < high {
            let middle = low + (high - low) / 2;
            match entry(&index, middle).map(|entry| entry.timestamp()) {
                Some(timestamp) if timestamp < time => {
                    before = before.max(timestamp);
                    low = middle + 1;
                }
                found => {
                    next = found;
                    high = middle;
                }
            }
        }
    }
    let next = next.or_else(|| segment.end().ok()?.last_timestamp.filter(|last| *last >= time))?;
    Some(if is_far(before, next) { next } else { time })
}

/// An entry of a time index; `None` for what is unused, as the end of a preallocated index is.
pub(in crate::log) fn entry(index: &impl ReadAt, number: u64) -> Option<StoredTimeEntry> {
    let mut bytes = [0; TIME_ENTRY_LEN];
    if files::read_full(index, &mut bytes, number * TIME_ENTRY_LEN as u64).ok()? < bytes.len() {
        return None;
    }
    let stored = StoredTimeEntry::read_from_bytes(&bytes).ok()?;
    (stored.timestamp().0 != 0 || stored.relative_offset() != 0).then_some(stored)
}

/// A time of the first batch.
fn first_time(segment: &Segment) -> Option<Timestamp> {
    let (file, _) = segment.open().ok()?;
    let mut bytes = [0; HEADER_V2_LEN];
    let read = files::read_full(&*file, &mut bytes, 0).ok()?;
    let header = Header::peek(bytes.get(..read)?).ok()?;
    let first = if header.has_delete_horizon { header.max_timestamp } else { header.base_timestamp };
    (first.0 >= 0).then_some(first)
}
