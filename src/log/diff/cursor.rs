//! A place in a copy that is compared: batch after batch, and record after record where that is needed.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::format::batch::{Batch, Decoder, Header, Limits};
use crate::log::LogError;
use crate::log::derived::epochs::{EpochRecovery, Epochs};
use crate::log::files::SourceFile;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::segment::scan::{Scanner, Step};
use crate::units::{LeaderEpoch, Offset};

/// Some records of one batch, or one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    /// The first offset.
    pub(super) first: Offset,
    /// The last.
    pub(super) last: Offset,
    /// How many records there are.
    pub(super) records: u64,
    /// Whether they are control records.
    pub(super) is_control: bool,
    /// The batch's epoch.
    pub(super) epoch: Option<LeaderEpoch>,
    /// Of a single record: of all that it holds.
    pub(super) hash: u64,
}

/// A place in a copy, in front of a batch or within one that was decoded.
pub(super) struct Cursor {
    /// What the batches so far say of epochs.
    pub(super) epochs: EpochRecovery,
    /// Damaged places so far.
    pub(super) damaged: u64,
    start: Offset,
    segments: Arc<[Arc<Segment>]>,
    /// The number of the segment that comes next.
    next: usize,
    reading: Option<(Arc<Segment>, Scanner<Arc<SourceFile>>)>,
    batch: Option<(Header, Vec<u8>)>,
    /// What is left of the batch, once it is decoded.
    records: VecDeque<Content>,
    decoder: Decoder,
    limits: Limits,
}

impl Cursor {
    /// The first batch of a copy with records that can be seen.
    pub(super) fn new(partition: &Partition) -> Result<Self, LogError> {
        let segments = partition.segments()?;
        let limits = segments.first().map_or_else(Limits::default, |segment| segment.limits());
        let start = partition.log_start()?;
        Ok(Self {
            epochs: EpochRecovery::new(Epochs::default()),
            damaged: 0,
            start,
            next: Partition::floor(&segments, start),
            segments,
            reading: None,
            batch: None,
            records: VecDeque::new(),
            decoder: Decoder::default(),
            limits,
        })
    }

    /// The first and the last offset of what comes next; `None` at the end.
    pub(super) fn bounds(&mut self) -> Result<Option<(Offset, Offset)>, LogError> {
        if let (Some(first), Some(last)) = (self.records.front(), self.records.back()) {
            return Ok(Some((first.first, last.last)));
        }
        while self.batch.is_none() {
            if !self.advance()? {
                return Ok(None);
            }
        }
        let bounds = |header: &Header| (header.first_known().max(self.start), header.last_offset);
        Ok(self.batch.as_ref().map(|(header, _)| bounds(header)))
    }

    /// Reads one batch further, or to the next segment; false at the end.
    fn advance(&mut self) -> Result<bool, LogError> {
        let Some((segment, scanner)) = &mut self.reading else {
            let Some(segment) = self.segments.get(self.next) else { return Ok(false) };
            self.reading = Some((segment.clone(), segment.scan(segment.start())?));
            self.next += 1;
            return Ok(true);
        };
        let step = scanner.step().map_err(|error| segment.error(error))?;
        match step {
            Step::Batch { batch, .. } => {
                let header = batch.header;
                if let Some(epoch) = header.leader_epoch {
                    self.epochs.append(epoch, header.first_known());
                }
                if header.last_offset >= self.start {
                    self.batch = Some((header, batch.bytes.to_vec()));
                }
            }
            Step::Damage(_) => self.damaged += 1,
            Step::End(_) => self.reading = None,
        }
        Ok(true)
    }

    /// Whether both are in front of the same batch.
    pub(super) fn is_same_batch(&self, other: &Self) -> bool {
        match (self.whole(), other.whole()) {
            (Some(own), Some(other)) => own == other,
            _ => false,
        }
    }

    /// The bytes of the batch that comes next, if all of it can be seen.
    fn whole(&self) -> Option<&[u8]> {
        let (header, bytes) = self.batch.as_ref()?;
        (header.first_known() >= self.start).then_some(bytes)
    }

    /// Decodes the batch that comes next. Records that can't be decoded are none.
    pub(super) fn decode(&mut self) -> Result<(), LogError> {
        let Some((header, bytes)) = self.batch.take() else { return Ok(()) };
        let Ok(batch) = Batch::peek(&bytes) else { return Ok(()) };
        let Ok(records) = batch.records(&mut self.decoder, &self.limits) else {
            self.damaged += 1;
            return Ok(());
        };
        for record in records {
            let Ok(record) = record else {
                self.damaged += 1;
                break;
            };
            let mut hasher = DefaultHasher::new();
            (record.timestamp, record.key, record.value, header.is_control).hash(&mut hasher);
            for header in record.headers.iter() {
                (header.name, header.value).hash(&mut hasher);
            }
            let (first, is_control, epoch) = (record.offset, header.is_control, header.leader_epoch);
            let content =
                Content { first, last: first, records: 1, is_control, epoch, hash: hasher.finish() };
            if first >= self.start {
                self.records.push_back(content);
            }
        }
        Ok(())
    }

    /// The record that comes next in a batch that was decoded.
    pub(super) fn record(&self) -> Option<Content> {
        self.records.front().copied()
    }

    /// Takes what comes next: a record of a batch that was decoded, else a batch.
    pub(super) fn take(&mut self) -> Option<Content> {
        if let Some(record) = self.records.pop_front() {
            return Some(record);
        }
        let count = self.whole().and(self.batch.as_ref()).and_then(|(header, _)| header.record_count);
        let Some(count) = count else {
            // A compressed message set has its count inside, and of some batches not all can be seen.
            self.decode().ok()?;
            let (first, last) = (*self.records.front()?, *self.records.back()?);
            let records = self.records.len() as u64;
            self.records.clear();
            return Some(Content { last: last.last, records, ..first });
        };
        let (header, _) = self.batch.take()?;
        Some(Content {
            first: header.first_known(),
            last: header.last_offset,
            records: u64::from(count),
            is_control: header.is_control,
            epoch: header.leader_epoch,
            hash: 0,
        })
    }
}
