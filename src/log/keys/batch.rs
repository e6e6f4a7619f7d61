//! The batch that an entry of the index tells of.

use crate::format::batch::{Batch, PREFIX_LEN, Prefix};
use crate::log::LogError;
use crate::log::files::read_full;
use crate::log::keys::Entry;
use crate::log::partition::{Found, Partition};

/// Read at once: most batches are no larger.
const FIRST_READ: usize = 16 * 1024;

/// The batch of `entry`; the first one after it where that is gone, `None` at the log's end.
///
/// # Errors
/// Those of reading.
pub fn batch(partition: &Partition, entry: &Entry) -> Result<Option<Found>, LogError> {
    // It was found sound where the entry says by a scan of all that comes before it.
    match at_place(partition, entry)? {
        Some(found) => Ok(Some(found)),
        None => partition.find(entry.offset()),
    }
}

fn at_place(partition: &Partition, entry: &Entry) -> Result<Option<Found>, LogError> {
    let segments = partition.segments()?;
    let Some(segment) = segments.get(Partition::floor(&segments, entry.offset())) else { return Ok(None) };
    let (file, _) = segment.open()?;
    let position = entry.position();
    let mut bytes = vec![0; FIRST_READ];
    let mut read = read_full(&file, &mut bytes, position.0).map_err(|error| segment.error(error))?;
    let len = bytes.get(..read.min(PREFIX_LEN)).and_then(Prefix::read).and_then(|prefix| prefix.entry_len());
    let Some(len) = len.filter(|len| *len <= segment.limits().max_batch_bytes) else { return Ok(None) };
    bytes.resize(len, 0);
    if read < len {
        let rest = bytes.get_mut(read..).unwrap_or_default();
        read += read_full(&file, rest, position.0 + read as u64).map_err(|error| segment.error(error))?;
    }
    let Some(Ok(Batch { header, .. })) = bytes.get(..read.min(len)).map(Batch::parse) else {
        return Ok(None);
    };
    let holds =
        header.last_offset >= entry.offset() && header.base_offset.is_none_or(|base| base <= entry.offset());
    Ok(holds.then(|| Found { segment: segment.clone(), position, bytes, header }))
}
