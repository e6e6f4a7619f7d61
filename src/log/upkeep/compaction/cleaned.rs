//! The segments that a compaction writes: under `.cleaned` names, which every loader throws away, until they are whole and durable.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::index::{AbortedTxn, relative};
use crate::format::names::{FileState, FileType, SegmentFile};
use crate::log::LogError;
use crate::log::derived::indexing::{Appended, IndexBuilder, IndexBytes, MAX_SEGMENT_BYTES};
use crate::log::files::disk::{self, Disk, DiskFile};
use crate::units::{Offset, Position, Timestamp};

/// Bytes that the system is told to write out, so that the sync at the end has less to do.
const SYNC_PIECE: u64 = 2 * 1024 * 1024;

/// The files of a segment, the log last: the others have their names when it gets its own.
pub(super) const FILE_TYPES: [FileType; 4] =
    [FileType::OffsetIndex, FileType::TimeIndex, FileType::TxnIndex, FileType::Log];

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct CleanedSegment {
    pub(super) base: Offset,
    directory: PathBuf,
    log: Arc<dyn DiskFile>,
    /// Bytes of its batches.
    len: u64,
    indexes: IndexBytes,
    txn_index: Vec<u8>,
}

/// A batch as it is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct CleanedBatch {
    pub(super) len: u64,
    pub(super) first_offset: Offset,
    pub(super) last_offset: Offset,
    pub(super) max_timestamp: Timestamp,
    /// Where it is the marker of an aborted transaction: what the transaction index says of that.
    pub(super) aborted: Option<AbortedTxn>,
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
            len: 0,
            indexes: IndexBytes::new(base, IndexBuilder::new(interval_bytes)),
            txn_index: Vec::new(),
        })
    }

    /// Bytes of its log.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Whether a batch can be in it: offsets and positions have 31 bits.
    pub(super) fn has_room(&self, batch: &CleanedBatch) -> bool {
        self.len == 0
            || relative(batch.last_offset, self.base).is_some() && self.len + batch.len <= MAX_SEGMENT_BYTES
    }

    /// Takes a batch in that follows; its bytes are written by [`Bytes`].
    pub(super) fn note(&mut self, batch: &CleanedBatch) {
        let CleanedBatch { len, last_offset, max_timestamp, aborted, .. } = *batch;
        self.indexes.append(&Appended { position: Position(self.len), len, last_offset, max_timestamp });
        self.txn_index.extend(aborted.into_iter().flat_map(AbortedTxn::encode));
        self.len += len;
    }

    /// What is to be written, so that it ends with the last batch.
    pub(super) fn bytes(&self, bytes: Vec<u8>) -> Bytes {
        let path = path(&self.directory, self.base, FileType::Log, FileState::Cleaned);
        let position = self.len - bytes.len() as u64;
        Bytes { file: self.log.clone(), path, position, bytes }
    }

    /// Makes all of it durable; `modified` is the time that its log is to have.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn finish(&mut self, disk: &dyn Disk, modified: Timestamp) -> Result<(), LogError> {
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
