//! The segments that a compaction writes: under `.cleaned` names, which every loader throws away, until they are whole and durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::index::{AbortedTxn, relative};
use crate::format::names::{FileState, FileType, SegmentFile};
use crate::log::LogError;
use crate::log::derived::indexing::{Appended, IndexBuilder, IndexBytes, MAX_SEGMENT_BYTES};
use crate::log::files::disk::{self, Disk, DiskFile};
use crate::units::{Offset, Position, Timestamp};

/// Bytes that are written at once.
const PIECE: usize = 1024 * 1024;
/// Bytes that the system is told to write out, so that the sync at the end has less to do.
const SYNC_PIECE: u64 = 8 * 1024 * 1024;

/// The files of a segment, the log last: the others have their names when it gets its own.
pub(super) const FILE_TYPES: [FileType; 4] =
    [FileType::OffsetIndex, FileType::TimeIndex, FileType::TxnIndex, FileType::Log];

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct CleanedSegment {
    pub(super) base: Offset,
    directory: PathBuf,
    log: Arc<dyn DiskFile>,
    /// What wasn't handed over to be written yet, and how much was.
    buffer: Vec<u8>,
    handed_over: u64,
    indexes: IndexBytes,
    txn_index: Vec<u8>,
}

/// A batch that is appended.
#[derive(Debug, Clone, Copy)]
pub(super) struct CleanedBatch<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) last_offset: Offset,
    pub(super) max_timestamp: Timestamp,
}

impl CleanedSegment {
    /// Begins a segment; what an earlier compaction has left of it is overwritten.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create(
        disk: &dyn Disk,
        directory: &Path,
        base: Offset,
        interval_bytes: u64,
    ) -> Result<Self, LogError> {
        let path = path(directory, base, FileType::Log, FileState::Cleaned);
        let open = || {
            let log = disk.open(&path)?;
            log.set_len(0)?;
            Ok(log)
        };
        let log = open().map_err(|error| disk::failed(&path, "open", error))?;
        Ok(Self {
            base,
            directory: directory.to_owned(),
            log,
            buffer: Vec::new(),
            handed_over: 0,
            indexes: IndexBytes::new(base, IndexBuilder::new(interval_bytes)),
            txn_index: Vec::new(),
        })
    }

    /// Bytes of its log.
    pub(super) const fn len(&self) -> u64 {
        self.handed_over + self.buffer.len() as u64
    }

    /// Whether a batch can be in it: offsets and positions have 31 bits.
    pub(super) fn has_room(&self, batch: &CleanedBatch<'_>) -> bool {
        relative(batch.last_offset, self.base).is_some()
            && self.len() + batch.bytes.len() as u64 <= MAX_SEGMENT_BYTES
    }

    /// Appends a batch; the bytes that are to be written now, if there are enough of them.
    pub(super) fn append(&mut self, batch: &CleanedBatch<'_>) -> Option<Bytes> {
        let CleanedBatch { bytes, last_offset, max_timestamp } = *batch;
        let (position, len) = (Position(self.len()), bytes.len() as u64);
        self.indexes.append(&Appended { position, len, last_offset, max_timestamp });
        self.buffer.extend_from_slice(bytes);
        (self.buffer.len() >= PIECE).then(|| self.hand_over())
    }

    fn hand_over(&mut self) -> Bytes {
        let bytes = std::mem::take(&mut self.buffer);
        let position = self.handed_over;
        self.handed_over += bytes.len() as u64;
        let path = path(&self.directory, self.base, FileType::Log, FileState::Cleaned);
        Bytes { file: self.log.clone(), path, position, bytes }
    }

    /// Gives it memory that it can use.
    pub(super) fn reuse(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        self.buffer = bytes;
    }

    /// Adds an aborted transaction whose marker is in it.
    pub(super) fn add_aborted(&mut self, aborted: AbortedTxn) {
        self.txn_index.extend(aborted.encode());
    }

    /// Makes all of it durable; `modified` is the time that its log is to have.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn finish(&mut self, disk: &dyn Disk, modified: Timestamp) -> Result<(), LogError> {
        self.hand_over().write()?;
        self.indexes.close();
        let path = |file_type| path(&self.directory, self.base, file_type, FileState::Cleaned);
        let indexes = [
            (FileType::OffsetIndex, &self.indexes.offsets),
            (FileType::TimeIndex, &self.indexes.times),
            (FileType::TxnIndex, &self.txn_index),
        ];
        for (file_type, bytes) in indexes {
            let path = path(file_type);
            if file_type == FileType::TxnIndex && bytes.is_empty() {
                disk::remove_if_there(disk, &path)?;
                continue;
            }
            disk::write_whole(disk, &path, bytes)?;
        }
        let make_durable = || {
            // Retention of magic 0 goes by it.
            self.log.set_modified(modified)?;
            self.log.sync()
        };
        make_durable().map_err(|error| disk::failed(&path(FileType::Log), "sync", error))
    }
}

/// Bytes of a log that are to be written.
#[derive(Debug)]
pub(super) struct Bytes {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    position: u64,
    pub(super) bytes: Vec<u8>,
}

impl Bytes {
    /// Writes them, and has the system write them out: the sync at the end has less to do then.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&self) -> Result<(), LogError> {
        let written = disk::write_all(&*self.file, &self.bytes, self.position);
        written.map_err(|error| disk::failed(&self.path, "write", error))?;
        let (before, now) =
            (self.position / SYNC_PIECE, (self.position + self.bytes.len() as u64) / SYNC_PIECE);
        if now > before {
            self.file.begin_sync(before * SYNC_PIECE, (now - before) * SYNC_PIECE);
        }
        Ok(())
    }
}

/// The path of a file of a segment.
pub(super) fn path(directory: &Path, base: Offset, file_type: FileType, state: FileState) -> PathBuf {
    directory.join(SegmentFile { base, file_type, state }.to_string())
}
