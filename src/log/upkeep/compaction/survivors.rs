//! Which records survive a compaction, by the rules of Kafka's cleaner.
//!
//! A record survives if it is the last one of its key as far as the map of keys goes; a tombstone, for as long as its batch's delete
//! horizon says (KIP-534), or below magic 2 the time of the segment's file. Records without a key don't (there is nothing that they could be the
//! last one of), nor do those of aborted transactions. The marker of a transaction survives as long as there is data of it, and
//! then until its horizon. A batch without records survives where its producer's last sequence or epoch is known by it.

use std::collections::HashMap;

use crate::format::batch::{Batch, BatchError, Decoder, Header, Limits};
use crate::format::record::Record;
use crate::format::snapshot::ProducerEntry;
use crate::log::upkeep::compaction::offset_map::{KeyHash, OffsetMap};
use crate::units::{Offset, ProducerId, Timestamp};

/// What is left of a batch.
#[derive(Debug)]
pub(super) enum Left<'a> {
    /// Nothing.
    Nothing,
    /// The batch as it is.
    Whole {
        /// How many records it has.
        records: usize,
    },
    /// Only these records, at least one; with a delete horizon, if it has one or gets it.
    Some(Vec<Record<'a>>, Option<Timestamp>),
    /// Its header.
    Empty,
}

/// What a compaction knows.
#[derive(Debug)]
pub(super) struct Survivors<'a> {
    pub(super) map: &'a OffsetMap,
    /// The time it is.
    pub(super) now: Timestamp,
    /// `delete.retention.ms`
    pub(super) delete_retention_ms: u64,
    pub(super) high_watermark: Offset,
    /// The producers that may still write.
    pub(super) producers: HashMap<ProducerId, LastBatch>,
    pub(super) limits: Limits,
}

/// Memory that judging uses again and again.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    decoder: Decoder,
    /// Of the keys of one batch.
    hashes: Vec<Option<KeyHash>>,
}

/// By what a producer's state is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastBatch {
    /// By the data that ends here.
    Data(Offset),
    /// By a marker of this epoch.
    Marker(i16),
}

/// A batch, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) batch: &'a Batch<'a>,
    /// Whether its transaction says that its records may go, whatever keys they have.
    pub(super) may_go: bool,
    /// Whether tombstones of magic 0 and 1 stay, by the time of the file.
    pub(super) keeps_old_tombstones: bool,
}

/// What became of a batch.
#[derive(Debug)]
pub(super) struct Judged<'a> {
    pub(super) left: Left<'a>,
    /// Records that went because they had no key.
    pub(super) without_key: u64,
}

impl Survivors<'_> {
    /// What is left of a batch.
    ///
    /// # Errors
    /// Why its records can't be read.
    pub(super) fn judge<'b>(
        &self,
        seen: Seen<'b>,
        Scratch { decoder, hashes }: &'b mut Scratch,
    ) -> Result<Judged<'b>, BatchError> {
        let Seen { batch, may_go, keeps_old_tombstones } = seen;
        let header = &batch.header;
        let records = batch.records(decoder, &self.limits)?;
        let horizon = header.has_delete_horizon.then_some(header.base_timestamp);
        let is_over = horizon.is_some_and(|horizon| horizon <= self.now);
        let discards = may_go && (!header.is_control || is_over);
        let keeps_empty =
            self.is_last_of_producer(header) || header.last_offset.next() == self.high_watermark;
        let judged = |left, without_key| Judged { left, without_key };
        if discards {
            return Ok(judged(if keeps_empty { Left::Empty } else { Left::Nothing }, 0));
        }
        let mut kept = Vec::new();
        hashes.clear();
        for record in records {
            let record = record?;
            hashes.push(record.key.filter(|_| !header.is_control).map(|key| self.map.hasher().hash(key)));
            kept.push(record);
        }
        self.map.touch(hashes.iter().copied().flatten());
        let (all, mut without_key) = (kept.len(), 0);
        let mut of_each = hashes.iter();
        kept.retain(|record| {
            let hash = of_each.next().copied().flatten();
            let keeps = header.is_control || self.keeps(header, record, hash, keeps_old_tombstones);
            without_key += u64::from(!keeps && record.key.is_none());
            keeps
        });
        if kept.is_empty() {
            return Ok(judged(if keeps_empty { Left::Empty } else { Left::Nothing }, without_key));
        }
        let has_tombstone = kept.iter().any(|record| record.value.is_none());
        let needs_horizon = horizon.is_none() && (has_tombstone || header.is_control && may_go);
        if kept.len() == all && header.magic == 2 && !needs_horizon {
            return Ok(judged(Left::Whole { records: all }, 0));
        }
        let after = i64::try_from(self.delete_retention_ms).unwrap_or(i64::MAX);
        let horizon = if needs_horizon { Some(Timestamp(self.now.0.saturating_add(after))) } else { horizon };
        Ok(judged(Left::Some(kept, horizon), without_key))
    }

    fn keeps(
        &self,
        header: &Header,
        record: &Record<'_>,
        hash: Option<KeyHash>,
        keeps_old_tombstones: bool,
    ) -> bool {
        if self.map.latest().is_none_or(|latest| record.offset > latest) {
            return true;
        }
        let Some(hash) = hash else { return false };
        if self.map.get(hash).is_some_and(|last| record.offset < last) {
            return false;
        }
        let keeps_tombstone = match header.magic {
            2 => !header.has_delete_horizon || self.now < header.base_timestamp,
            _ => keeps_old_tombstones,
        };
        record.value.is_some() || keeps_tombstone
    }

    /// Whether its producer's state is known by this batch.
    fn is_last_of_producer(&self, header: &Header) -> bool {
        let last = header.producer_id.and_then(|producer| self.producers.get(&producer));
        match last {
            Some(LastBatch::Data(last)) => header.last_offset == *last,
            Some(LastBatch::Marker(epoch)) => header.is_control && header.producer_epoch == *epoch,
            None => false,
        }
    }
}

impl LastBatch {
    /// Those of all producers that may still write: the others have written nothing for `expiration_ms`, and have no open transaction.
    pub(super) fn of_all(
        producers: &[ProducerEntry],
        now: Timestamp,
        expiration_ms: i64,
    ) -> HashMap<ProducerId, Self> {
        let is_active = |entry: &&ProducerEntry| {
            entry.current_txn_first_offset.is_some()
                || now.0.saturating_sub(entry.last_timestamp.0) < expiration_ms
        };
        let last = |entry: &ProducerEntry| match entry.last_batch {
            Some(batch) => Self::Data(batch.last_offset),
            None => Self::Marker(entry.producer_epoch),
        };
        producers.iter().filter(is_active).map(|entry| (entry.producer_id, last(entry))).collect()
    }
}
