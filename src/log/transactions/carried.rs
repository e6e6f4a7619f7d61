//! Transactions that were open where the log begins now, because retention has deleted the segments that they began in.
//!
//! The log itself tells nothing of them until their marker. A producer snapshot does: a transaction that began below the log's
//! first segment and is open at the snapshot's offset was open where that segment begins. One that the snapshot has not, though it
//! was open there, has ended in between, and its marker is in the log. So every sound snapshot at or above the first segment's
//! base will do; the first one is named like that segment, since a broker writes one whenever it rolls. A snapshot below says
//! nothing of the records that are gone, and is not asked.

use std::ffi::OsString;
use std::path::Path;

use crate::format::names::{self, FileState, FileType};
use crate::format::snapshot::{self, ProducerEntry};
use crate::log::files;
use crate::log::segment::Segment;
use crate::log::transactions::decided::OpenTxn;
use crate::units::Offset;

/// The largest snapshot that is read: more than a million producers.
const MAX_SNAPSHOT_BYTES: u64 = 64 * 1024 * 1024;

/// The transactions that were open where `first` begins.
pub(super) fn open_before(first: &Segment) -> Vec<OpenTxn> {
    let Some(directory) = first.path.parent().filter(|_| first.lower > Offset(0)) else { return Vec::new() };
    let mut snapshots = snapshots(directory);
    snapshots.retain(|(offset, _)| *offset >= first.lower);
    snapshots.sort();
    let sound = snapshots.iter().find_map(|(_, name)| {
        let bytes = files::read_small(&directory.join(name), MAX_SNAPSHOT_BYTES).ok()?;
        snapshot::parse(&bytes).ok()
    });
    sound.unwrap_or_default().iter().filter_map(|entry| open_below(entry, first.lower)).collect()
}

fn open_below(entry: &ProducerEntry, lower: Offset) -> Option<OpenTxn> {
    let first = entry.current_txn_first_offset.filter(|first| *first < lower)?;
    let ProducerEntry { producer_id, producer_epoch, last_timestamp, .. } = *entry;
    Some(OpenTxn { producer: producer_id, epoch: producer_epoch, first, since: last_timestamp })
}

/// The producer snapshots in a directory: their offsets and names.
fn snapshots(directory: &Path) -> Vec<(Offset, OsString)> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    let snapshot = |name: OsString| {
        let file = names::SegmentFile::parse(name.to_str()?)?;
        let is_snapshot = file.file_type == FileType::Snapshot && file.state == FileState::Live;
        is_snapshot.then_some((file.base, name))
    };
    names.filter_map(snapshot).collect()
}
