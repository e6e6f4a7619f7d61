//! The segments that are written: their logs, and the indexes and snapshots that belong to them.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::format::index::{AbortedTxn, relative};
use crate::format::names::FileType;
use crate::format::snapshot;
use crate::log::LogError;
use crate::log::derived::indexing::{Appended, IndexBuilder, IndexBytes, MAX_SEGMENT_BYTES};
use crate::log::derived::producers::Producers;
use crate::log::files::durable::{self, NewFile};
use crate::log::segment::beside::live_path as path;
use crate::units::{Offset, Position, Timestamp};

/// A batch that is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole<'a> {
    /// Its bytes.
    pub(super) bytes: &'a [u8],
    /// Its first offset.
    pub(super) first: Offset,
    /// Its last.
    pub(super) last: Offset,
    /// Its largest timestamp.
    pub(super) max_timestamp: Timestamp,
}

/// Where segments are written; `None` when nothing is to be written.
pub(super) type Directory = Option<PathBuf>;

/// A segment that is being written.
#[derive(Debug)]
pub(super) struct NewSegment {
    base: Offset,
    directory: Directory,
    log: Option<NewFile>,
    /// The source's time, which retention goes by where records have none.
    modified: Option<SystemTime>,
    bytes: u64,
    indexes: IndexBytes,
    txn_index: Vec<u8>,
}

impl NewSegment {
    /// Begins an empty segment.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create(
        directory: Directory,
        base: Offset,
        modified: Option<SystemTime>,
        builder: IndexBuilder,
    ) -> Result<Self, LogError> {
        let log = directory.as_deref().map(|directory| NewFile::create(path(directory, base, FileType::Log)));
        Ok(Self {
            base,
            log: log.transpose()?,
            directory,
            modified,
            bytes: 0,
            indexes: IndexBytes::new(base, builder),
            txn_index: Vec::new(),
        })
    }

    /// Whether a batch may be in it: indexes have 31 bits for offsets and positions (KAFKA-6264).
    pub(super) fn takes(&self, batch: &Whole<'_>) -> bool {
        takes_offset(self.base, batch)
            && self.bytes.saturating_add(batch.bytes.len() as u64) <= MAX_SEGMENT_BYTES
    }

    /// Appends a batch that it [takes](Self::takes).
    ///
    /// # Errors
    /// The system's.
    pub(super) fn append(&mut self, batch: &Whole<'_>) -> Result<(), LogError> {
        let len = batch.bytes.len() as u64;
        let (position, last_offset) = (Position(self.bytes), batch.last);
        let appended = Appended { position, len, last_offset, max_timestamp: batch.max_timestamp };
        self.indexes.append(&appended);
        if let Some(log) = &mut self.log {
            log.write(batch.bytes)?;
        }
        self.bytes += len;
        Ok(())
    }

    /// Adds an aborted transaction whose marker is in it.
    pub(super) fn abort(&mut self, aborted: AbortedTxn) {
        self.txn_index.extend(aborted.encode());
    }

    /// Closes the segment as a broker closes one: with the largest timestamp at the end of its time index.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn close(mut self) -> Result<(), LogError> {
        self.indexes.close();
        let (Some(log), Some(directory)) = (self.log, self.directory) else { return Ok(()) };
        durable::write(path(&directory, self.base, FileType::OffsetIndex), &self.indexes.offsets)?;
        durable::write(path(&directory, self.base, FileType::TimeIndex), &self.indexes.times)?;
        if !self.txn_index.is_empty() {
            durable::write(path(&directory, self.base, FileType::TxnIndex), &self.txn_index)?;
        }
        log.finish(self.modified)
    }
}

/// Whether the indexes of a segment with this base have room for the batch's offsets.
pub(super) fn takes_offset(base: Offset, batch: &Whole<'_>) -> bool {
    batch.first >= base && relative(batch.last, base).is_some()
}

/// Writes a producer snapshot.
///
/// # Errors
/// The system's.
pub(super) fn write_snapshot(directory: &Path, at: Offset, producers: &Producers) -> Result<(), LogError> {
    durable::write(path(directory, at, FileType::Snapshot), &snapshot::format(&producers.snapshot()))
}
