//! Transactions that were open where the log begins now, because retention has deleted the segments that they began in.
//!
//! The log itself tells nothing of them until their marker. A producer snapshot does: a transaction that began below the log's
//! first segment and is open at the snapshot's offset was open where that segment begins. One that the snapshot has not, though it
//! was open there, has ended in between, and its marker is in the log. So every sound snapshot at or above the first segment's
//! base will do; the first one is named like that segment, since a broker writes one whenever it rolls. A snapshot below says
//! nothing of the records that are gone, and is not asked.

use std::path::{Path, PathBuf};

use crate::format::names::{self, FileState, FileType};
use crate::format::snapshot::{self, ProducerEntry};
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::transactions::decided::{Decided, OpenTxn};
use crate::log::transactions::scanned;
use crate::log::{LogError, files};
use crate::units::Offset;

/// The largest snapshot that is read: more than a million producers.
const MAX_SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;

/// The transactions that were open where `first` begins.
pub(super) fn open_before(first: &Segment) -> Vec<OpenTxn> {
    let Some(directory) = first.path.parent().filter(|_| first.lower > Offset(0)) else { return Vec::new() };
    let mut snapshots = snapshots(directory);
    snapshots.retain(|(offset, _)| *offset >= first.lower);
    let sound = snapshots.iter().find_map(|(_, path)| read(path)).unwrap_or_default();
    sound.iter().filter_map(open).filter(|txn| txn.first < first.lower).collect()
}

/// The open transactions at the end of the log, as the newest snapshot and what was written since tell; `None` when there is no
/// snapshot, or more than `budget` bytes would have to be read.
///
/// # Errors
/// Those of reading.
pub fn open_at_end(partition: &Partition, budget: u64) -> Result<Option<Decided>, LogError> {
    let segments = partition.segments()?;
    let Some(directory) = segments.last().and_then(|active| active.path.parent()) else { return Ok(None) };
    let end = partition.log_end()?;
    let mut snapshots = snapshots(directory);
    snapshots.retain(|(offset, _)| *offset <= end);
    let newest = snapshots.iter().rev().find_map(|(offset, path)| Some((*offset, read(path)?)));
    let Some((offset, entries)) = newest else { return Ok(None) };
    let mut decided = Decided::with(entries.iter().filter_map(open), &segments);
    decided.scanned_to = end;
    let mut left = budget;
    for segment in segments.iter().skip(Partition::floor(&segments, offset)).filter(|_| offset < end) {
        let (start, len) = (segment.start_near(offset)?, segment.open()?.1);
        let cost = len.saturating_sub(start.position.0);
        if cost > left {
            return Ok(None);
        }
        left -= cost;
        // What comes before the snapshot changes nothing: it decides nothing that isn't decided again behind it.
        let (scanned, _) = scanned::from(segment, start)?;
        scanned.events.iter().for_each(|event| decided.apply(&event));
    }
    Ok(Some(decided))
}

fn open(entry: &ProducerEntry) -> Option<OpenTxn> {
    let ProducerEntry { producer_id, producer_epoch, last_timestamp, .. } = *entry;
    let first = entry.current_txn_first_offset?;
    Some(OpenTxn { producer: producer_id, epoch: producer_epoch, first, since: last_timestamp })
}

fn read(path: &Path) -> Option<Vec<ProducerEntry>> {
    snapshot::parse(&files::read_small(path, MAX_SNAPSHOT_BYTES).ok()?).ok()
}

/// The producer snapshots in a directory by their offsets.
fn snapshots(directory: &Path) -> Vec<(Offset, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let snapshot = |path: PathBuf| {
        let file = names::SegmentFile::parse(path.file_name()?.to_str()?)?;
        let is_snapshot = file.file_type == FileType::Snapshot && file.state == FileState::Live;
        is_snapshot.then_some((file.base, path))
    };
    let mut found: Vec<_> = entries.flatten().filter_map(|entry| snapshot(entry.path())).collect();
    found.sort();
    found
}
