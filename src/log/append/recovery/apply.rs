//! Doing what a plan says: first what is cut is safe elsewhere, then names, logs, indexes, and what is derived.

use std::path::{Path, PathBuf};

use super::{Cut, Plan, files::Files, path};
use crate::format::checkpoint;
use crate::format::names::{self, FileType, SegmentFile};
use crate::format::snapshot;
use crate::log::LogError;
use crate::log::append::active::write_empty;
use crate::log::append::kept::{self, Piece};
use crate::log::derived::producers::Producers;
use crate::log::files::disk::{self, Disk};
use crate::units::Offset;

impl Plan {
    /// Carries the plan out. What is cut and is more than a torn or zero tail goes to `quarantine`; without one such a plan must
    /// not be carried out.
    ///
    /// # Errors
    /// The system's; another plan begins where this one stopped.
    pub fn apply(&self, disk: &dyn Disk, quarantine: Option<&Path>) -> Result<(), LogError> {
        if self.is_empty() {
            return Ok(());
        }
        if let Some(quarantine) = quarantine.filter(|_| !self.cuts.is_empty()) {
            kept::keep(disk, quarantine, &self.directory, self.cuts.iter().map(Cut::piece))?;
        }
        let directory = &*self.directory;
        self.files.apply(disk, directory)?;
        if self.is_below_start {
            return self.begin_anew(disk);
        }
        for segment in &self.rebuilt {
            let path = path(directory, segment.base, FileType::Log);
            disk::cut(disk, &path, segment.is_cut.then_some(segment.len))?;
        }
        for segment in &self.rebuilt {
            if segment.txn_index.is_empty() {
                disk::remove_if_there(disk, &path(directory, segment.base, FileType::TxnIndex))?;
            }
            for (file_type, bytes) in segment.indexes() {
                disk::replace(disk, &path(directory, segment.base, file_type), bytes)?;
            }
        }
        self.write_derived(disk)?;
        disk::sync_directory(disk, directory)
    }

    /// Snapshots at the segments that were read and at the end, and the epochs.
    fn write_derived(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let directory = &*self.directory;
        let first = self.rebuilt.first().map_or(self.end, |segment| segment.base);
        let written = self.rebuilt.iter().map(|segment| (segment.base, &segment.producers));
        let written: Vec<(Offset, &Producers)> =
            written.skip(1).chain([(self.end, &self.producers)]).collect();
        for stale in self.files.snapshots.range(first..) {
            let is_kept = *stale == first && self.files.producers_at(directory, first).is_some();
            if !is_kept && !written.iter().any(|(at, _)| at == stale) {
                disk::remove_if_there(disk, &path(directory, *stale, FileType::Snapshot))?;
            }
        }
        for (at, producers) in written {
            let bytes = snapshot::format(&producers.snapshot());
            disk::replace(disk, &path(directory, at, FileType::Snapshot), &bytes)?;
        }
        let path = directory.join(names::LEADER_EPOCHS);
        // One that says something else, or nothing that can be read, must not stay.
        if !self.epochs.entries().is_empty() || path.exists() {
            let text = checkpoint::format_epochs(self.epochs.entries());
            disk::replace(disk, &path, text.as_bytes())?;
        }
        Ok(())
    }

    /// Removes all segments: an empty one begins at the log start offset when somebody appends.
    fn begin_anew(&self, disk: &dyn Disk) -> Result<(), LogError> {
        for name in names_in(&self.directory)? {
            disk::remove_if_there(disk, &self.directory.join(name))?;
        }
        let directory = &*self.directory;
        write_empty(disk, directory, self.start)?;
        self.write_derived(disk)?;
        disk::sync_directory(disk, directory)
    }
}

impl Cut {
    /// Its bytes, under the name of the log and where they were in it.
    fn piece(&self) -> Piece<'_> {
        let log = self.path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{log}.cut-at-{}", self.position);
        Piece { path: &self.path, position: self.position, len: self.len, name }
    }
}

impl Files {
    /// Removes and renames. What is replaced goes before the new one gets its name, so that a crash leaves the swap to be finished.
    fn apply(&self, disk: &dyn Disk, directory: &Path) -> Result<(), LogError> {
        for path in &self.obsolete {
            disk::remove_if_there(disk, path)?;
        }
        for (from, to) in &self.renames {
            disk.rename(from, to).map_err(|error| disk::failed(from, "rename", error))?;
        }
        if self.is_tidy() {
            return Ok(());
        }
        disk::sync_directory(disk, directory)
    }
}

/// The files of segments in a directory.
fn names_in(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
    let names = entries.flatten().map(|entry| PathBuf::from(entry.file_name()));
    Ok(names.filter(|name| name.to_str().and_then(SegmentFile::parse).is_some()).collect())
}
