//! Segments that get out of the way, as Kafka removes them: first their files get names that no loader reads, later they go.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::format::names::{FileState, FileType, SegmentFile};
use crate::log::LogError;
use crate::log::files::disk::{self, Disk};
use crate::units::Offset;

/// The files of a segment, the log first: without it the others are nothing.
const FILE_TYPES: [FileType; 4] =
    [FileType::Log, FileType::OffsetIndex, FileType::TimeIndex, FileType::TxnIndex];

/// Files that were set aside, and when they go.
#[derive(Debug, Default)]
pub(in crate::log) struct SetAside {
    files: HashMap<PathBuf, Instant>,
}

impl SetAside {
    /// Adds a file that goes after `delay`, unless it is known.
    pub(in crate::log) fn add(&mut self, path: PathBuf, delay: Duration) {
        let now = Instant::now();
        self.files.entry(path).or_insert_with(|| now.checked_add(delay).unwrap_or(now));
    }

    /// Takes out those that are due now, or all of them.
    pub(in crate::log) fn take(&mut self, due: Due) -> Vec<PathBuf> {
        let now = Instant::now();
        let is_due = |_: &PathBuf, at: &mut Instant| due == Due::All || *at <= now;
        self.files.extract_if(is_due).map(|(path, _)| path).collect()
    }
}

/// Which files that were set aside go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Those whose time has come.
    Now,
    /// All.
    All,
}

/// Gives the files of a segment the names of those that wait for their removal, each told as soon as it has its own. To be made durable
/// by who calls.
///
/// # Errors
/// The system's.
pub(in crate::log) fn set_aside(
    disk: &dyn Disk,
    directory: &Path,
    base: Offset,
    tell: &dyn Fn(PathBuf),
) -> Result<(), LogError> {
    FILE_TYPES.into_iter().try_for_each(|file_type| set_file_aside(disk, directory, base, file_type, tell))
}

/// The same for the producer snapshot at an offset.
///
/// # Errors
/// The system's.
pub(in crate::log) fn set_snapshot_aside(
    disk: &dyn Disk,
    directory: &Path,
    at: Offset,
    tell: &dyn Fn(PathBuf),
) -> Result<(), LogError> {
    set_file_aside(disk, directory, at, FileType::Snapshot, tell)
}

fn set_file_aside(
    disk: &dyn Disk,
    directory: &Path,
    base: Offset,
    file_type: FileType,
    tell: &dyn Fn(PathBuf),
) -> Result<(), LogError> {
    let live = SegmentFile::live(base, file_type);
    let from = directory.join(live.to_string());
    let to = directory.join(SegmentFile { state: FileState::Deleted, ..live }.to_string());
    // Not every segment has all of them.
    if disk::rename_if_there(disk, &from, &to)? {
        tell(to);
    }
    Ok(())
}

/// The files in a partition's directory that somebody has set aside, and indexes of segments below its first one, whose logs are gone.
///
/// # Errors
/// The system's.
pub(in crate::log) fn left_over(directory: &Path, first: Offset) -> Result<Vec<PathBuf>, LogError> {
    let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
    let is_left = |path: &PathBuf| {
        let file = path.file_name().and_then(|name| SegmentFile::parse(name.to_str()?));
        file.is_some_and(|file| match file.state {
            FileState::Deleted => true,
            FileState::Live => file.base < first && FILE_TYPES.contains(&file.file_type),
            FileState::Cleaned | FileState::Swap => false,
        })
    };
    Ok(entries.flatten().map(|entry| entry.path()).filter(is_left).collect())
}
