//! The new segments that some old ones become.

use crate::format::batch::{Batch, Header};
use crate::format::batch_rewriter::{self, BatchRewriter};
use crate::format::index::AbortedTxn;
use crate::log::LogError;
use crate::log::files::disk::Disk;
use crate::log::upkeep::compaction::cleaned::{CleanedBatch, CleanedSegment};
use crate::log::upkeep::compaction::replacing::Replacing;
use crate::log::upkeep::compaction::survivors::Left;
use crate::log::upkeep::compaction::{Compaction, CompactionError};
use crate::units::{Offset, Timestamp};

/// What is left of some batches that lie behind one another.
#[derive(Debug, Default)]
pub(super) struct Cleaned {
    bytes: Vec<u8>,
    batches: Vec<CleanedBatch>,
    /// Records that are left.
    pub(super) records: u64,
}

impl Cleaned {
    /// Appends what is left of a batch, which may be the marker of an aborted transaction.
    ///
    /// # Errors
    /// The codec's.
    pub(super) fn append(
        &mut self,
        batch: &Batch<'_>,
        left: Left<'_>,
        aborted: Option<AbortedTxn>,
        rewriter: &mut BatchRewriter,
    ) -> std::io::Result<()> {
        let (header, begin) = (&batch.header, self.bytes.len());
        let records = match left {
            Left::Nothing => return Ok(()),
            Left::Whole { records } => {
                self.bytes.extend_from_slice(batch.bytes);
                records
            }
            Left::Some(records, horizon) => {
                rewriter.rewrite(header, &records, horizon, &mut self.bytes)?;
                records.len()
            }
            Left::Empty => {
                batch_rewriter::empty(header, &mut self.bytes)?;
                0
            }
        };
        let bytes = self.bytes.get(begin..).unwrap_or_default();
        let written = Header::peek(bytes).map_err(std::io::Error::other)?;
        self.records += records as u64;
        self.batches.push(CleanedBatch {
            len: bytes.len() as u64,
            first_offset: written.first_known(),
            last_offset: written.last_offset,
            max_timestamp: written.max_timestamp,
            aborted,
        });
        Ok(())
    }
}

/// The new segments of a group.
pub(super) struct Writer<'a> {
    compaction: &'a Compaction<'a>,
    current: CleanedSegment,
    done: Vec<CleanedSegment>,
    pub(super) bases: Vec<Offset>,
    /// Of all that are finished.
    pub(super) bytes: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(compaction: &'a Compaction<'a>, base: Offset) -> Result<Self, LogError> {
        let current = Self::segment(compaction, base)?;
        Ok(Self { compaction, current, done: Vec::new(), bases: vec![base], bytes: 0 })
    }

    fn segment(compaction: &Compaction<'_>, base: Offset) -> Result<CleanedSegment, LogError> {
        let interval = compaction.settings.index_interval_bytes;
        CleanedSegment::create(compaction.disk, compaction.directory, base, interval)
    }

    /// Writes batches; nothing is left of them but memory that can be used again.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(
        &mut self,
        cleaned: &mut Cleaned,
        replacing: &mut Replacing<'_>,
    ) -> Result<(), CompactionError> {
        let mut bytes = std::mem::take(&mut cleaned.bytes);
        let mut noted = 0;
        for batch in cleaned.batches.drain(..) {
            if !self.current.has_room(&batch) {
                let others = bytes.split_off(noted);
                replacing.write(self.current.bytes(std::mem::replace(&mut bytes, others)))?;
                noted = 0;
                let next = Self::segment(self.compaction, batch.first_offset)?;
                self.done.push(std::mem::replace(&mut self.current, next));
                self.bases.push(batch.first_offset);
            }
            self.current.note(&batch);
            noted += batch.len as usize;
        }
        cleaned.bytes = replacing.write(self.current.bytes(bytes))?;
        Ok(())
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
