//! The new segments that some old ones become.

use crate::format::batch::{Batch, Header};
use crate::format::batch_rewriter::BatchRewriter;
use crate::format::index::AbortedTxn;
use crate::log::LogError;
use crate::log::files::disk::{self, Disk};
use crate::log::upkeep::compaction::cleaned::{CleanedBatch, CleanedSegment};
use crate::log::upkeep::compaction::replacing::Replacing;
use crate::log::upkeep::compaction::survivors::Left;
use crate::log::upkeep::compaction::{Compaction, CompactionError};
use crate::units::{Offset, Timestamp};

/// The new segments of a group.
pub(super) struct Writer<'a> {
    compaction: &'a Compaction<'a>,
    rewriter: BatchRewriter,
    current: CleanedSegment,
    done: Vec<CleanedSegment>,
    pub(super) bases: Vec<Offset>,
    /// Of all that are finished.
    pub(super) bytes: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(compaction: &'a Compaction<'a>, base: Offset) -> Result<Self, LogError> {
        let interval = compaction.settings.index_interval_bytes;
        let current = CleanedSegment::create(compaction.disk, compaction.directory, base, interval)?;
        let (rewriter, done, bases) = (BatchRewriter::default(), Vec::new(), vec![base]);
        Ok(Self { compaction, rewriter, current, done, bases, bytes: 0 })
    }

    /// Writes what is left of a batch; how many records that are.
    ///
    /// # Errors
    /// The system's, and the codec's.
    pub(super) fn write(
        &mut self,
        batch: &Batch<'_>,
        left: Left<'_>,
        replacing: &Replacing<'_>,
    ) -> Result<u64, CompactionError> {
        let header = &batch.header;
        let unwritable = |error| disk::failed(self.compaction.directory, "compress", error);
        let (bytes, records) = match left {
            Left::Nothing => return Ok(0),
            Left::Whole { records } => (batch.bytes, records),
            Left::Some(records, horizon) => {
                let bytes = self.rewriter.rewrite(header, &records, horizon).map_err(unwritable)?;
                (bytes, records.len())
            }
            Left::Empty => (self.rewriter.empty(header).map_err(unwritable)?, 0),
        };
        let written = Header::peek(bytes).map_err(|error| unwritable(std::io::Error::other(error)))?;
        let (last_offset, max_timestamp) = (written.last_offset, written.max_timestamp);
        let cleaned = CleanedBatch { bytes, last_offset, max_timestamp };
        if !self.current.has_room(&cleaned) && self.current.len() > 0 {
            let (directory, interval) =
                (self.compaction.directory, self.compaction.settings.index_interval_bytes);
            let base = written.first_known();
            let next = CleanedSegment::create(self.compaction.disk, directory, base, interval)?;
            self.done.push(std::mem::replace(&mut self.current, next));
            self.bases.push(base);
        }
        if let Some(bytes) = self.current.append(&cleaned) {
            self.current.reuse(replacing.write(bytes)?);
        }
        Ok(records as u64)
    }

    /// Adds an aborted transaction whose marker was written last.
    pub(super) fn add_aborted(&mut self, aborted: AbortedTxn) {
        self.current.add_aborted(aborted);
    }

    /// Makes them durable; `modified` is the time that they are to have.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn finish(&mut self, disk: &dyn Disk, modified: Timestamp) -> Result<(), LogError> {
        for segment in self.done.iter_mut().chain([&mut self.current]) {
            segment.finish(disk, modified)?;
            self.bytes += segment.len();
        }
        Ok(())
    }
}
