//! What a partition knows of its idempotent and transactional producers (KIP-98), kept as Kafka's recovery does while it
//! reads batches: the last batch of each producer, open transactions, and the aborted ones that a transaction index lists.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::batch::{Batch, BatchError, Decoder, Header, Limits};
use crate::format::control::{ControlType, EndTxnMarker};
use crate::format::index::AbortedTxn;
use crate::format::snapshot::{LastBatch, ProducerEntry};
use crate::units::{Offset, ProducerId, Timestamp};

/// The producers of a partition at one offset.
#[derive(Debug, Clone, Default)]
pub struct Producers {
    entries: BTreeMap<ProducerId, ProducerEntry>,
    /// The open transactions, by their first offset.
    open: BTreeSet<(Offset, ProducerId)>,
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// ABORT, COMMIT, or what is no marker at all.
    pub control: ControlType,
    /// The epoch of the coordinator that wrote it.
    pub coordinator_epoch: i32,
    /// When.
    pub timestamp: Timestamp,
}

/// What a batch holds, as far as a log must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// How many records, control records among them.
    pub records: u64,
    /// Its first offset.
    pub first_offset: Offset,
    /// The marker in a control batch that isn't empty.
    pub marker: Option<Marker>,
}

impl Contents {
    /// Decodes all records of a batch.
    ///
    /// # Errors
    /// Why one can't be.
    pub fn of(batch: &Batch<'_>, decoder: &mut Decoder, limits: &Limits) -> Result<Self, BatchError> {
        let mut contents = Self { records: 0, first_offset: batch.header.first_known(), marker: None };
        for record in batch.records(decoder, limits)? {
            let record = record?;
            if contents.records == 0 {
                contents.first_offset = batch.header.base_offset.unwrap_or(record.offset);
                if batch.header.is_control {
                    contents.marker = Some(Marker::read(record.key, record.value, record.timestamp));
                }
            }
            contents.records += 1;
        }
        Ok(contents)
    }
}

impl Marker {
    const fn is_end(&self) -> bool {
        matches!(self.control, ControlType::Abort | ControlType::Commit)
    }

    fn read(key: Option<&[u8]>, value: Option<&[u8]>, timestamp: Timestamp) -> Self {
        let none = ControlType::Unknown(-1);
        let control = key.and_then(|key| ControlType::parse(key).ok()).unwrap_or(none);
        match value.and_then(|value| EndTxnMarker::parse(value).ok()) {
            Some(EndTxnMarker { coordinator_epoch }) => Self { control, coordinator_epoch, timestamp },
            None => Self { control: none, coordinator_epoch: -1, timestamp },
        }
    }
}

/// Why a batch can't follow what came before it: Kafka's loader gives up a log that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProducerFault {
    /// Data outside of a transaction while one is open.
    #[error(
        "producer {} has a transaction open since offset {since}, and this batch is outside of it", producer.0
    )]
    OutsideTransaction {
        /// Whose it is.
        producer: ProducerId,
        /// The first offset of the transaction.
        since: Offset,
    },
    /// A control batch of a producer that doesn't end a transaction.
    #[error("a control batch of producer {} is no transaction marker", producer.0)]
    NoMarker {
        /// Whose it is.
        producer: ProducerId,
    },
}

impl Producers {
    /// The producers in a snapshot.
    pub fn from_snapshot(entries: &[ProducerEntry]) -> Self {
        let open = |entry: &ProducerEntry| Some((entry.current_txn_first_offset?, entry.producer_id));
        Self {
            entries: entries.iter().map(|entry| (entry.producer_id, *entry)).collect(),
            open: entries.iter().filter_map(open).collect(),
        }
    }

    /// The entries of a snapshot, by producer.
    pub fn snapshot(&self) -> Vec<ProducerEntry> {
        self.entries.values().copied().collect()
    }

    /// The open transactions, oldest first.
    pub fn open(&self) -> impl ExactSizeIterator<Item = (Offset, ProducerId)> {
        self.open.iter().copied()
    }

    /// Whether a batch may come next.
    ///
    /// # Errors
    /// Why a broker would not load a log with it there.
    pub fn check(&self, batch: &Header, contents: &Contents) -> Result<(), ProducerFault> {
        let Some(producer) = batch.producer_id else { return Ok(()) };
        let open = self.entries.get(&producer).and_then(|entry| entry.current_txn_first_offset);
        match (open, contents.marker) {
            (Some(since), _) if !batch.is_control && !batch.is_transactional => {
                Err(ProducerFault::OutsideTransaction { producer, since })
            }
            (_, Some(marker)) if !marker.is_end() => Err(ProducerFault::NoMarker { producer }),
            _ => Ok(()),
        }
    }

    /// Takes a batch in; the transaction that it aborted, if it did.
    ///
    /// # Errors
    /// Those of [`Self::check`]; nothing has changed then.
    pub fn append(
        &mut self,
        batch: &Header,
        contents: &Contents,
    ) -> Result<Option<AbortedTxn>, ProducerFault> {
        self.check(batch, contents)?;
        let Some(producer) = batch.producer_id else { return Ok(None) };
        if !batch.is_control {
            self.append_data(producer, batch, contents.first_offset);
            return Ok(None);
        }
        // In a control batch without records all of the transaction was compacted away.
        Ok(contents.marker.and_then(|marker| self.end(producer, batch, contents.first_offset, marker)))
    }

    fn append_data(&mut self, producer: ProducerId, batch: &Header, first: Offset) {
        let mut entry = self.entry(producer);
        if batch.is_transactional && entry.current_txn_first_offset.is_none() {
            entry.current_txn_first_offset = Some(first);
            self.open.insert((first, producer));
        }
        let delta = i32::try_from(batch.last_offset.0.saturating_sub(first.0)).unwrap_or(i32::MAX);
        entry.producer_epoch = batch.producer_epoch;
        entry.last_timestamp = batch.max_timestamp;
        entry.last_batch = Some(LastBatch {
            last_sequence: last_sequence(batch.base_sequence, delta),
            last_offset: batch.last_offset,
            offset_delta: delta,
        });
        self.entries.insert(producer, entry);
    }

    fn end(
        &mut self,
        producer: ProducerId,
        batch: &Header,
        offset: Offset,
        marker: Marker,
    ) -> Option<AbortedTxn> {
        let mut entry = self.entry(producer);
        if entry.producer_epoch != batch.producer_epoch {
            // Sequences begin anew with each epoch; a marker since KIP-890 has the next one.
            entry.last_batch = None;
        }
        let first = entry.current_txn_first_offset.take();
        entry.producer_epoch = batch.producer_epoch;
        entry.coordinator_epoch = marker.coordinator_epoch;
        entry.last_timestamp = marker.timestamp;
        self.entries.insert(producer, entry);
        let first_offset = first?;
        self.open.remove(&(first_offset, producer));
        (marker.control == ControlType::Abort).then(|| AbortedTxn {
            version: 0,
            producer_id: producer,
            first_offset,
            last_offset: offset,
            last_stable_offset: self.open.first().map_or(offset.next(), |(first, _)| *first),
        })
    }

    fn entry(&self, producer_id: ProducerId) -> ProducerEntry {
        self.entries.get(&producer_id).copied().unwrap_or(ProducerEntry {
            producer_id,
            producer_epoch: -1,
            coordinator_epoch: -1,
            current_txn_first_offset: None,
            last_timestamp: Timestamp::NONE,
            last_batch: None,
        })
    }
}

/// The sequence number of a batch's last record; after the largest they go on at 0.
pub(crate) const fn last_sequence(base: i32, delta: i32) -> i32 {
    if base < 0 {
        return -1;
    }
    match base.checked_add(delta) {
        Some(last) => last,
        None => base.wrapping_add(delta).wrapping_sub(i32::MIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::batch::Codec;
    use crate::format::record::TimestampType;

    fn data(producer: i64, first: i64, last: i64, is_transactional: bool) -> (Header, Contents) {
        let header = Header {
            magic: 2,
            base_offset: Some(Offset(first)),
            last_offset: Offset(last),
            leader_epoch: None,
            crc: 0,
            codec: Codec::None,
            timestamp_type: TimestampType::CreateTime,
            base_timestamp: Timestamp(first),
            max_timestamp: Timestamp(last),
            producer_id: Some(ProducerId(producer)),
            producer_epoch: 1,
            base_sequence: 10,
            is_transactional,
            is_control: false,
            has_delete_horizon: false,
            record_count: Some(1),
        };
        (header, Contents { records: 1, first_offset: Offset(first), marker: None })
    }

    fn marker(producer: i64, at: i64, control: ControlType) -> (Header, Contents) {
        let (header, contents) = data(producer, at, at, true);
        let marker = Marker { control, coordinator_epoch: 5, timestamp: Timestamp(at) };
        (Header { is_control: true, ..header }, Contents { marker: Some(marker), ..contents })
    }

    fn append(producers: &mut Producers, (header, contents): (Header, Contents)) -> Option<AbortedTxn> {
        producers.append(&header, &contents).unwrap()
    }

    #[test]
    fn an_aborted_transaction_has_the_last_stable_offset_of_the_others() {
        let mut producers = Producers::default();
        for batch in [data(1, 0, 4, true), data(2, 5, 6, true), data(1, 7, 7, true)] {
            assert_eq!(append(&mut producers, batch), None);
        }
        let aborted = append(&mut producers, marker(2, 8, ControlType::Abort)).unwrap();
        assert_eq!((aborted.first_offset, aborted.last_offset), (Offset(5), Offset(8)));
        assert_eq!(aborted.last_stable_offset, Offset(0));
        assert_eq!(producers.open().collect::<Vec<_>>(), [(Offset(0), ProducerId(1))]);
        let restored = Producers::from_snapshot(&producers.snapshot());
        let aborted = append(&mut restored.clone(), marker(1, 9, ControlType::Abort)).unwrap();
        assert_eq!((aborted.first_offset, aborted.last_stable_offset), (Offset(0), Offset(10)));
        assert_eq!(append(&mut producers, marker(1, 9, ControlType::Commit)), None);
        assert_eq!(append(&mut producers, marker(1, 10, ControlType::Abort)), None, "there was none open");
        assert_eq!(producers.open().len(), 0);
    }

    #[test]
    fn what_kafka_refuses_is_refused_and_changes_nothing() {
        let mut producers = Producers::default();
        append(&mut producers, data(1, 0, 4, true));
        let before = producers.snapshot();
        let (header, contents) = data(1, 5, 5, false);
        let (producer, since) = (ProducerId(1), Offset(0));
        let refused = producers.append(&header, &contents);
        assert_eq!(refused, Err(ProducerFault::OutsideTransaction { producer, since }));
        let (header, contents) = marker(1, 6, ControlType::LeaderChange);
        assert_eq!(producers.append(&header, &contents), Err(ProducerFault::NoMarker { producer }));
        assert_eq!(producers.snapshot(), before);
    }

    #[test]
    fn sequences_go_on_at_zero() {
        assert_eq!(last_sequence(-1, 3), -1);
        assert_eq!(last_sequence(7, 3), 10);
        assert_eq!(last_sequence(i32::MAX, 0), i32::MAX);
        assert_eq!(last_sequence(i32::MAX, 1), 0);
        assert_eq!(last_sequence(i32::MAX - 1, 3), 1);
    }
}
