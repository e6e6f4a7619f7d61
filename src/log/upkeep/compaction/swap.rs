//! Putting new segments in the place of those that they were made from, in an order that a crash at any point leaves either all of
//! the old ones or all of the new ones (KAFKA-2118, KAFKA-6264).
//!
//! | names become durable | a loader that finds this |
//! |---|---|
//! | `.cleaned` to `.swap`, from the highest base down | throws the new ones away as long as one is still `.cleaned`; then puts them in their place |
//! | the old ones to `.deleted` | puts the new ones in their place |
//! | `.swap` to the final names | does the rest |
//!
//! Each row is durable before the next begins. Kafka syncs the directory only at the end, which a file system that makes
//! names durable in another order than they were given could turn into neither or a mix.

use std::path::{Path, PathBuf};

use crate::format::names::FileState;
use crate::log::LogError;
use crate::log::files::disk::{self, Disk};
use crate::log::upkeep::compaction::cleaned::{FILE_TYPES, path};
use crate::log::upkeep::removal;
use crate::units::Offset;

/// Replaces the segments with the bases `old` by the `.cleaned` ones with the bases `new`; told are the files that wait for their removal.
///
/// # Errors
/// The system's: the next loader finishes it or undoes it.
pub(super) fn replace(
    disk: &dyn Disk,
    directory: &Path,
    new: &[Offset],
    old: &[Offset],
    tell: &dyn Fn(PathBuf),
) -> Result<(), LogError> {
    for base in new.iter().rev() {
        rename_all(disk, directory, *base, FileState::Cleaned, FileState::Swap)?;
    }
    disk::sync_directory(disk, directory)?;
    for base in old {
        removal::set_aside(disk, directory, *base, tell)?;
    }
    // The producers at a base are those of a segment that begins there.
    for base in old.iter().filter(|base| !new.contains(base)) {
        removal::set_snapshot_aside(disk, directory, *base, tell)?;
    }
    disk::sync_directory(disk, directory)?;
    for base in new {
        rename_all(disk, directory, *base, FileState::Swap, FileState::Live)?;
    }
    disk::sync_directory(disk, directory)
}

fn rename_all(
    disk: &dyn Disk,
    directory: &Path,
    base: Offset,
    from: FileState,
    to: FileState,
) -> Result<(), LogError> {
    for file_type in FILE_TYPES {
        let (from, to) = (path(directory, base, file_type, from), path(directory, base, file_type, to));
        disk::rename_if_there(disk, &from, &to)?;
    }
    Ok(())
}
