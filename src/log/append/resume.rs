//! Where appending goes on in a log that was closed, or recovered.

use std::path::Path;
use std::sync::Arc;

use crate::format::index::{OFFSET_ENTRY_LEN, OffsetIndex, TIME_ENTRY_LEN, TimeEntry, TimeIndex};
use crate::format::names::FileType;
use crate::log::LogError;
use crate::log::append::active::Place;
use crate::log::derived::indexing::{Appended, IndexBuilder};
use crate::log::files;
use crate::log::segment::Segment;
use crate::log::segment::beside::{MAX_INDEX_BYTES, live_path as path};
use crate::log::segment::scan::{Start, Step, Tail};
use crate::units::{Offset, Position};

/// The place in the last segment, and the offset that comes next; `None` when its log or index isn't as a clean stop leaves it.
///
/// # Errors
/// Those of reading.
pub(super) fn resume(
    directory: &Path,
    segment: &Arc<Segment>,
    interval_bytes: u64,
) -> Result<Option<(Place, Offset)>, LogError> {
    let base = segment.base;
    let (offsets, times) =
        (read(directory, base, FileType::OffsetIndex), read(directory, base, FileType::TimeIndex));
    let (offset_index, time_index) = (OffsetIndex::new(base, &offsets), TimeIndex::new(base, &times));
    let (from, last_time) = (offset_index.last(), time_index.last());
    let begin = from.map_or(Position(0), |entry| entry.position);
    let none = TimeEntry { timestamp: crate::units::Timestamp::NONE, offset: Offset(-1) };
    let mut builder = IndexBuilder::resume(interval_bytes, last_time.unwrap_or(none));
    let start = Start { position: begin, ..segment.start() };
    let mut scanner = segment.scan(start)?;
    let (mut len, mut next) = (begin.0, base);
    let tail = loop {
        match scanner.step().map_err(|error| segment.error(error))? {
            Step::Batch { position, batch } if position.0 == len => {
                let header = &batch.header;
                let (bytes, last_offset) = (batch.bytes.len() as u64, header.last_offset);
                let max_timestamp = header.max_timestamp;
                builder.count(&Appended { position, len: bytes, last_offset, max_timestamp });
                len += bytes;
                next = last_offset.next();
            }
            Step::Batch { .. } | Step::Damage(_) => return Ok(None),
            Step::End(tail) => break tail,
        }
    };
    if tail != Tail::Clean || from.is_some_and(|entry| entry.position.0 >= len || next <= entry.offset) {
        return Ok(None);
    }
    let first_timestamp = if len == 0 { None } else { first_timestamp(segment)? };
    let place = Place {
        base,
        len,
        offset_index_len: (offset_index.entries().len() * OFFSET_ENTRY_LEN) as u64,
        time_index_len: (time_index.entries().len() * TIME_ENTRY_LEN) as u64,
        builder,
        first_timestamp,
    };
    Ok(Some((place, next)))
}

/// The largest timestamp of a segment's first batch.
fn first_timestamp(segment: &Segment) -> Result<Option<crate::units::Timestamp>, LogError> {
    let mut scanner = segment.scan(segment.start())?;
    Ok(match scanner.step().map_err(|error| segment.error(error))? {
        Step::Batch { batch, .. } => Some(batch.header.max_timestamp),
        Step::Damage(_) | Step::End(_) => None,
    })
}

/// The bytes of an index; none where it can't be read.
fn read(directory: &Path, base: Offset, file_type: FileType) -> Vec<u8> {
    files::read_small(&path(directory, base, file_type), MAX_INDEX_BYTES).unwrap_or_default()
}
