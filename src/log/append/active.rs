//! The segment that is appended to: its log and its two indexes.
//!
//! Indexes are written as entries fall due and are never longer than their entries. Kafka preallocates them, since it maps them
//! into memory; a store into a map of a full disk would kill the process, a write says ENOSPC. Entries that can't be
//! written stay in memory until they can: the batch that they point to is appended all the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::index::{OFFSET_ENTRY_LEN, TIME_ENTRY_LEN};
use crate::format::names::FileType;
use crate::log::LogError;
use crate::log::derived::indexing::{Appended, IndexBuilder, IndexBytes};
use crate::log::files::disk::{self, Disk, DiskFile};
use crate::log::segment::beside::live_path as path;
use crate::units::{Offset, Position, Timestamp};

/// Bytes of a log that are written out at once.
const SYNC_PIECE: u64 = 16 * 1024 * 1024;

/// A segment that is open for appending.
#[derive(Debug)]
pub(super) struct ActiveSegment {
    /// Its base offset.
    pub(super) base: Offset,
    log: OwnFile,
    offset_index: OwnFile,
    time_index: OwnFile,
    /// The state of both, and the entries that are in neither yet.
    pending: IndexBytes,
    /// The largest timestamp of its first batch.
    pub(super) first_timestamp: Option<Timestamp>,
    /// Up to here the log is being written out.
    begun_sync: u64,
}

/// A file and how much of it is written.
#[derive(Debug)]
struct OwnFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    len: u64,
    /// How much of it was durable when it was synced last; `None` before that, since others may have left it as it is.
    synced: Option<u64>,
}

/// Where appending goes on in a segment.
#[derive(Debug)]
pub(super) struct Place {
    /// The segment's base offset.
    pub(super) base: Offset,
    /// Bytes of its log.
    pub(super) len: u64,
    /// Bytes of its offset index that are entries.
    pub(super) offset_index_len: u64,
    /// Bytes of its time index that are.
    pub(super) time_index_len: u64,
    /// The state of both.
    pub(super) builder: IndexBuilder,
    /// The largest timestamp of its first batch.
    pub(super) first_timestamp: Option<Timestamp>,
}

/// The files of a segment that are not durable yet, each with its length.
#[derive(Debug, Clone)]
pub(super) struct Unsynced {
    base: Offset,
    /// The log first, then its indexes.
    files: [Option<UnsyncedFile>; 3],
}

/// A file, its path, and how many of its bytes are to be durable.
type UnsyncedFile = (Arc<dyn DiskFile>, PathBuf, u64);

impl Unsynced {
    /// Makes them durable.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn sync(&self) -> Result<(), LogError> {
        self.files
            .iter()
            .flatten()
            .try_for_each(|(file, path, _)| file.sync().map_err(|error| disk::failed(path, "sync", error)))
    }
}

impl ActiveSegment {
    /// Begins an empty segment; files of its names that are there have been given up.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create(
        disk: &dyn Disk,
        directory: &Path,
        base: Offset,
        builder: IndexBuilder,
    ) -> Result<Self, LogError> {
        disk::remove_if_there(disk, &path(directory, base, FileType::TxnIndex))?;
        let place =
            Place { base, len: 0, offset_index_len: 0, time_index_len: 0, builder, first_timestamp: None };
        Self::open(disk, directory, place)
    }

    /// Opens a segment; what its files have beyond their `place` is cut.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open(disk: &dyn Disk, directory: &Path, place: Place) -> Result<Self, LogError> {
        let open = |file_type, len| OwnFile::open(disk, path(directory, place.base, file_type), len);
        // The log comes last: a log without its indexes is no segment that a broker has made.
        let offset_index = open(FileType::OffsetIndex, place.offset_index_len)?;
        let time_index = open(FileType::TimeIndex, place.time_index_len)?;
        Ok(Self {
            base: place.base,
            log: open(FileType::Log, place.len)?,
            offset_index,
            time_index,
            pending: IndexBytes::new(place.base, place.builder),
            first_timestamp: place.first_timestamp,
            begun_sync: place.len,
        })
    }

    /// Bytes of its log.
    pub(super) const fn len(&self) -> u64 {
        self.log.len
    }

    /// The largest timestamp of its batches.
    pub(super) const fn largest(&self) -> Timestamp {
        self.pending.largest()
    }

    /// Whether an index has no room for another entry, one of the time index being kept for the end.
    pub(super) fn is_index_full(&self, max_bytes: u64) -> bool {
        let (offsets, times) = (OFFSET_ENTRY_LEN as u64, TIME_ENTRY_LEN as u64);
        let len = |own: &OwnFile, pending: &[u8]| own.len + pending.len() as u64;
        len(&self.offset_index, &self.pending.offsets) / offsets >= max_bytes / offsets
            || len(&self.time_index, &self.pending.times) / times >= (max_bytes / times).saturating_sub(1)
    }

    /// Appends a batch. All of it is there, or nothing.
    ///
    /// # Errors
    /// The system's, and whether the log is as it was before.
    pub(super) fn append(
        &mut self,
        batch: &[u8],
        last_offset: Offset,
        max_timestamp: Timestamp,
    ) -> Result<(), WriteError> {
        let position = Position(self.log.len);
        self.log.append(batch)?;
        let len = batch.len() as u64;
        self.first_timestamp.get_or_insert(max_timestamp);
        self.pending.append(&Appended { position, len, last_offset, max_timestamp });
        if let Err(error) = self.write_indexes() {
            tracing::debug!(%error, "entries of an index wait");
        }
        Ok(())
    }

    /// Closes its indexes as a broker does: the largest timestamp is at the end of the time index.
    ///
    /// # Errors
    /// The system's; it can be closed again then.
    pub(super) fn close(&mut self) -> Result<(), LogError> {
        self.pending.close();
        self.write_indexes()
    }

    /// Writes the entries that wait, those of the time index also where the others can't be.
    fn write_indexes(&mut self) -> Result<(), LogError> {
        let offsets = self.offset_index.append_waiting(&mut self.pending.offsets);
        self.time_index.append_waiting(&mut self.pending.times).and(offsets)
    }

    /// What has to be synced for it to be durable.
    pub(super) fn unsynced(&self) -> Unsynced {
        let files = [&self.log, &self.offset_index, &self.time_index]
            .map(|own| (own.synced != Some(own.len)).then(|| (own.file.clone(), own.path.clone(), own.len)));
        Unsynced { base: self.base, files }
    }

    /// Takes note of what was synced.
    pub(super) fn set_synced(&mut self, unsynced: &Unsynced) {
        if unsynced.base != self.base {
            return;
        }
        let own = [&mut self.log, &mut self.offset_index, &mut self.time_index];
        for (own, synced) in own.into_iter().zip(&unsynced.files) {
            own.synced = own.synced.max(synced.as_ref().map(|(_, _, len)| *len));
        }
    }

    /// From this length of the log on: what of it is worth writing out by now, as [`DiskFile::begin_sync`] wants it. It is taken for
    /// begun then.
    pub(super) fn next_to_sync(&mut self, from: u64) -> Option<(Arc<dyn DiskFile>, u64, u64)> {
        let begun = self.begun_sync.max(self.log.synced.unwrap_or(0));
        let len = self.log.len.saturating_sub(begun);
        if self.log.len < from || len < SYNC_PIECE {
            return None;
        }
        self.begun_sync = self.log.len;
        Some((self.log.file.clone(), begun, len))
    }
}

/// A write that failed.
#[derive(Debug)]
pub(super) struct WriteError {
    /// The error.
    pub(super) error: LogError,
    /// Whether the part of it that was written could be taken back.
    pub(super) is_undone: bool,
}

impl OwnFile {
    fn open(disk: &dyn Disk, path: PathBuf, len: u64) -> Result<Self, LogError> {
        let failed = |error| disk::failed(&path, "open", error);
        let file = disk.open(&path).map_err(failed)?;
        if file.size().map_err(failed)? != len {
            file.set_len(len).map_err(failed)?;
        }
        Ok(Self { file, path, len, synced: None })
    }

    /// Appends all bytes, or none.
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        if let Err(error) = disk::write_all(&*self.file, bytes, self.len) {
            let is_undone = self.file.set_len(self.len).is_ok();
            return Err(WriteError { error: disk::failed(&self.path, "write", error), is_undone });
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// Appends bytes that wait to be written, if there are any; then none do. Where that fails, the next one begins at the same place.
    fn append_waiting(&mut self, waiting: &mut Vec<u8>) -> Result<(), LogError> {
        if waiting.is_empty() {
            return Ok(());
        }
        let written = disk::write_all(&*self.file, waiting, self.len);
        written.map_err(|error| disk::failed(&self.path, "write", error))?;
        self.len += waiting.len() as u64;
        waiting.clear();
        Ok(())
    }
}

/// Begins a segment of no records: its three files.
///
/// # Errors
/// The system's.
pub(in crate::log) fn write_empty(disk: &dyn Disk, directory: &Path, base: Offset) -> Result<(), LogError> {
    let files = [FileType::OffsetIndex, FileType::TimeIndex, FileType::Log];
    files.into_iter().try_for_each(|file_type| disk::replace(disk, &path(directory, base, file_type), &[]))
}
