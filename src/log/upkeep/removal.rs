//! Segments that get out of the way, as Kafka removes them: first their files get names that no loader reads, later they go.

use std::path::{Path, PathBuf};

use crate::format::names::{FileState, FileType, SegmentFile};
use crate::log::LogError;
use crate::log::files::disk::{self, Disk};
use crate::units::Offset;

/// The files of a segment, the log first: without it the others are nothing.
const FILE_TYPES: [FileType; 4] =
    [FileType::Log, FileType::OffsetIndex, FileType::TimeIndex, FileType::TxnIndex];

/// Gives the files of a segment the names of those that wait for their removal; their paths then. To be made durable by who calls.
///
/// # Errors
/// The system's.
pub(in crate::log) fn set_aside(
    disk: &dyn Disk,
    directory: &Path,
    base: Offset,
) -> Result<Vec<PathBuf>, LogError> {
    let mut paths = Vec::new();
    for file_type in FILE_TYPES {
        paths.extend(set_file_aside(disk, directory, base, file_type)?);
    }
    Ok(paths)
}

/// The same for the producer snapshot at an offset.
///
/// # Errors
/// The system's.
pub(in crate::log) fn set_snapshot_aside(
    disk: &dyn Disk,
    directory: &Path,
    at: Offset,
) -> Result<Option<PathBuf>, LogError> {
    set_file_aside(disk, directory, at, FileType::Snapshot)
}

fn set_file_aside(
    disk: &dyn Disk,
    directory: &Path,
    base: Offset,
    file_type: FileType,
) -> Result<Option<PathBuf>, LogError> {
    let live = SegmentFile::live(base, file_type);
    let from = directory.join(live.to_string());
    let to = directory.join(SegmentFile { state: FileState::Deleted, ..live }.to_string());
    match disk.rename(&from, &to) {
        Ok(()) => Ok(Some(to)),
        // Not every segment has all of them.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(disk::failed(&from, "rename", error)),
    }
}
