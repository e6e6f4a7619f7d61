//! Cutting a log: see the table of steps in the module above.

use std::path::Path;

use super::{Cut, Last, Truncation};
use crate::format::checkpoint;
use crate::format::names::{self, FileType};
use crate::format::snapshot;
use crate::log::LogError;
use crate::log::append::active::write_empty;
use crate::log::append::appender::AppendError;
use crate::log::append::kept::{self, Piece};
use crate::log::append::owned::OwnedDirectory;
use crate::log::append::replay::snapshots;
use crate::log::append::written_down::WrittenDown;
use crate::log::files::disk::{self, Disk};
use crate::log::segment::beside::live_path as path;
use crate::units::{Offset, Position};

impl OwnedDirectory {
    /// Cuts a log. What goes is durable in a directory of the partition's name in `keep` before, as segments that can be read.
    ///
    /// # Errors
    /// Whether the lock is lost, or the system's; the directory has to be recovered then.
    pub fn truncate(&self, truncation: &Truncation, keep: Option<&Path>) -> Result<(), AppendError> {
        if truncation.is_empty() {
            return Ok(());
        }
        if !self.lock().is_held() {
            return Err(AppendError::LockLost { path: self.lock().path().to_owned() });
        }
        if let Some(keep) = keep.filter(|_| truncation.gone.batches > 0) {
            truncation.keep(self.disk(), keep)?;
        }
        let was_sound = self.is_sound();
        self.set_sound(false);
        if truncation.cuts() {
            self.write_down(|written| truncation.lower(written))?;
        }
        truncation.apply(self.disk())?;
        self.set_sound(was_sound);
        Ok(())
    }
}

impl Truncation {
    /// Copies what goes, each piece under the name of a segment; producers that are open there have a snapshot in front of it.
    fn keep(&self, disk: &dyn Disk, keep: &Path) -> Result<(), LogError> {
        let whole = self.segments.iter().map(|segment| (segment, segment.base, Position(0)));
        let first = match &self.last {
            Last::Cut(cut) => cut.first_gone.map(|first| (&cut.segment, first, cut.position())),
            Last::Anew => None,
        };
        let mut pieces = Vec::new();
        let first_base = first.map(|(_, base, _)| base).or_else(|| Some(self.segments.first()?.base));
        for (segment, base, position) in first.into_iter().chain(whole) {
            let len = segment.stored_len()?.saturating_sub(position.0);
            let name = names::SegmentFile::live(base, FileType::Log).to_string();
            pieces.push(Piece { path: &segment.path, position, len, name });
        }
        let directory = kept::keep(disk, keep, &self.directory, pieces.into_iter())?;
        let (Some(base), false) = (first_base, self.open.is_empty()) else { return Ok(()) };
        let bytes = snapshot::format(&self.producers.snapshot());
        disk::replace(disk, &path(&directory, base, FileType::Snapshot), &bytes)?;
        disk::sync_directory(disk, &directory)
    }

    /// Takes back what is written down of what goes.
    fn lower(&self, written: &mut WrittenDown) {
        let (name, Self { before, after, .. }) = (&self.name, self);
        written.recovery_points.insert(name.clone(), after.end);
        if let Some(high_watermark) = written.high_watermarks.get_mut(name) {
            *high_watermark = after.end.min(*high_watermark);
        }
        if after.start < before.start {
            written.log_starts.insert(name.clone(), after.start);
        }
        let active = match &self.last {
            Last::Cut(cut) => cut.segment.base,
            Last::Anew => after.end,
        };
        if let Some(cleaned) = written.cleaned.get_mut(name) {
            *cleaned = active.min(*cleaned);
        }
    }

    fn apply(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let directory = &*self.directory;
        if self.cuts() {
            if matches!(self.last, Last::Anew) {
                write_empty(disk, directory, self.after.end)?;
                disk::sync_directory(disk, directory)?;
            }
            for segment in self.segments.iter().rev() {
                disk::remove_if_there(disk, &segment.path)?;
                disk::sync_directory(disk, directory)?;
            }
            if let Last::Cut(cut) = &self.last {
                cut.apply(disk, directory)?;
            }
            self.remove_small(disk)?;
            let bytes = snapshot::format(&self.producers.snapshot());
            disk::replace(disk, &path(directory, self.after.end, FileType::Snapshot), &bytes)?;
        }
        if self.has_fewer_epochs {
            let text = checkpoint::format_epochs(self.epochs.entries());
            disk::replace(disk, &directory.join(names::LEADER_EPOCHS), text.as_bytes())?;
        }
        disk::sync_directory(disk, directory)
    }

    /// Removes the indexes of segments that went, and snapshots behind the end.
    fn remove_small(&self, disk: &dyn Disk) -> Result<(), LogError> {
        let remove =
            |base: Offset, file_type| disk::remove_if_there(disk, &path(&self.directory, base, file_type));
        for segment in &self.segments {
            for file_type in FileType::INDEXES {
                remove(segment.base, file_type)?;
            }
        }
        let stale = snapshots(&self.directory).into_iter().filter(|at| *at > self.after.end);
        { stale }.try_for_each(|at| remove(at, FileType::Snapshot))
    }
}

impl Cut {
    fn apply(&self, disk: &dyn Disk, directory: &Path) -> Result<(), LogError> {
        disk::cut(disk, &self.segment.path, (self.len < self.old_len).then_some(self.len))?;
        let base = self.segment.base;
        if self.txn_index.is_empty() {
            disk::remove_if_there(disk, &path(directory, base, FileType::TxnIndex))?;
        } else {
            disk::replace(disk, &path(directory, base, FileType::TxnIndex), &self.txn_index)?;
        }
        disk::replace(disk, &path(directory, base, FileType::OffsetIndex), &self.indexes.offsets)?;
        disk::replace(disk, &path(directory, base, FileType::TimeIndex), &self.indexes.times)
    }
}
