//! What measuring counts besides blocks: batches by codec and message format, epochs, producers, transactions, null keys and values.
//!
//! A run gathers it batch by batch and saves it beside its blocks, so that `info` need not read a log again. As saved it is
//! big-endian numbers of 8 bytes: version, eleven counts, five codecs of four numbers, the count of epochs and two numbers for each,
//! the count of producers and five numbers for each, the count of words of events, and those.

use std::collections::BTreeMap;

use crate::format::batch::{Codec, Header};
use crate::format::record::Record;
use crate::log::derived::producers::last_sequence;
use crate::log::transactions::events::{TxnEvent, TxnEvents};

const VERSION: i64 = 1;

/// The codecs, in the order of their numbers.
pub const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// What is known of some consecutive batches.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Batches, or messages and message sets below magic 2.
    pub batches: u64,
    /// Those that hold control records.
    pub control_batches: u64,
    /// Batches of magic 0, 1 and 2.
    pub magics: [u64; 3],
    /// What is known of visible records.
    pub records: RecordCounts,
    /// The sizes of batches by codec, as in [`CODECS`].
    pub codecs: [CodecSizes; 5],
    /// The leader epochs of batches, with the first offset of each.
    pub epochs: BTreeMap<i32, i64>,
    /// The last batch of each producer.
    pub producers: BTreeMap<i64, LastWrite>,
    /// What batches did to transactions.
    pub transactions: TxnEvents,
}

/// Counts of visible records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// All.
    pub records: u64,
    /// Those with a null key.
    pub null_keys: u64,
    /// Those with a null value.
    pub null_values: u64,
    /// Those whose timestamp is below that of the record before.
    pub backward: u64,
    /// The first and the last timestamp.
    ends: Option<(i64, i64)>,
}

/// The sizes of the batches of one codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodecSizes {
    /// How many.
    pub batches: u64,
    /// What they take in the log.
    pub bytes: u64,
    /// What they would take without a codec, as far as they were decoded.
    pub unpacked: u64,
    /// How many were not.
    pub undecoded: u64,
}

/// The last data batch of a producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastWrite {
    /// The producer's epoch.
    pub epoch: i16,
    /// The last record's sequence number, -1 for none.
    pub sequence: i32,
    /// Its offset.
    pub offset: i64,
    /// The batch's largest timestamp.
    pub timestamp: i64,
}

/// One batch, as it is counted.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// What it takes in the log.
    pub bytes: u64,
    /// What it would take without a codec, if it was decoded.
    pub unpacked: Option<u64>,
    /// Its records, if they are visible.
    pub records: RecordCounts,
    /// What it does to its producer's transaction.
    pub event: Option<TxnEvent>,
}

impl RecordCounts {
    /// Adds a record.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.null_keys += u64::from(record.key.is_none());
        self.null_values += u64::from(record.value.is_none());
        if !record.timestamp.is_none() {
            let time = record.timestamp.0;
            let (first, last) = self.ends.unwrap_or((time, time));
            self.backward += u64::from(time < last);
            self.ends = Some((first, time));
        }
    }

    /// These without `others`, which are at the beginning or at the end of them.
    pub fn without(&self, others: &Self) -> Self {
        let records = self.records.saturating_sub(others.records);
        Self {
            records,
            null_keys: self.null_keys.saturating_sub(others.null_keys),
            null_values: self.null_values.saturating_sub(others.null_values),
            backward: self.backward.saturating_sub(others.backward),
            ends: self.ends.filter(|_| records > 0),
        }
    }

    /// Adds the records that follow.
    pub fn merge(&mut self, later: &Self) {
        self.records += later.records;
        self.null_keys += later.null_keys;
        self.null_values += later.null_values;
        self.backward += later.backward;
        self.ends = match (self.ends, later.ends) {
            (Some((first, last)), Some((next, end))) => {
                self.backward += u64::from(next < last);
                Some((first, end))
            }
            (own, later) => own.or(later),
        };
    }
}

impl Summary {
    /// Adds a batch.
    pub fn add(&mut self, header: &Header, counted: &Counted) {
        self.batches += 1;
        self.control_batches += u64::from(header.is_control);
        if let Some(count) = self.magics.get_mut(usize::from(header.magic)) {
            *count += 1;
        }
        self.records.merge(&counted.records);
        let own = CODECS.iter().zip(&mut self.codecs).find(|(codec, _)| **codec == header.codec);
        if let Some((_, sizes)) = own {
            sizes.batches += 1;
            sizes.bytes += counted.bytes;
            sizes.unpacked += counted.unpacked.unwrap_or(0);
            sizes.undecoded += u64::from(counted.unpacked.is_none());
        }
        let first = header.first_known().0;
        if let Some(epoch) = header.leader_epoch {
            self.epochs.entry(epoch.0).or_insert(first);
        }
        if let Some(producer) = header.producer_id.filter(|_| !header.is_control) {
            let delta = i32::try_from(header.last_offset.0.saturating_sub(first)).unwrap_or(i32::MAX);
            let last = LastWrite {
                epoch: header.producer_epoch,
                sequence: last_sequence(header.base_sequence, delta),
                offset: header.last_offset.0,
                timestamp: header.max_timestamp.0,
            };
            self.producers.insert(producer.0, last);
        }
        if let Some(event) = counted.event {
            self.transactions.add(event);
        }
    }

    /// Adds the batches that follow.
    pub fn merge(&mut self, later: &Self) {
        self.batches += later.batches;
        self.control_batches += later.control_batches;
        for (own, more) in self.magics.iter_mut().zip(later.magics) {
            *own += more;
        }
        self.records.merge(&later.records);
        for (own, more) in self.codecs.iter_mut().zip(later.codecs) {
            own.batches += more.batches;
            own.bytes += more.bytes;
            own.unpacked += more.unpacked;
            own.undecoded += more.undecoded;
        }
        for (epoch, first) in &later.epochs {
            self.epochs.entry(*epoch).or_insert(*first);
        }
        self.producers.extend(&later.producers);
        self.transactions.extend(&later.transactions);
    }

    /// The bytes to save.
    pub fn encode(&self) -> Vec<u8> {
        let count = |number: u64| number.cast_signed();
        let RecordCounts { records, null_keys, null_values, backward, ends } = self.records;
        let (first, last) = ends.unwrap_or((0, 0));
        let mut words = vec![VERSION, count(self.batches), count(self.control_batches)];
        words.extend(self.magics.map(count));
        words.extend([records, null_keys, null_values, backward, u64::from(ends.is_some())].map(count));
        words.extend([first, last]);
        for CodecSizes { batches, bytes, unpacked, undecoded } in self.codecs {
            words.extend([batches, bytes, unpacked, undecoded].map(count));
        }
        words.push(count(self.epochs.len() as u64));
        words.extend(self.epochs.iter().flat_map(|(epoch, first)| [i64::from(*epoch), *first]));
        words.push(count(self.producers.len() as u64));
        words.extend(self.producers.iter().flat_map(|(id, last)| {
            [*id, last.epoch.into(), last.sequence.into(), last.offset, last.timestamp]
        }));
        let events = self.transactions.encode();
        words.push(count(events.len() as u64));
        let mut bytes: Vec<u8> = words.into_iter().flat_map(i64::to_be_bytes).collect();
        bytes.extend_from_slice(&events);
        bytes
    }

    /// What [`Self::encode`] made, and what comes behind it; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let words = &mut Words(bytes);
        if words.next()? != VERSION {
            return None;
        }
        let mut summary =
            Self { batches: words.count()?, control_batches: words.count()?, ..Self::default() };
        for magic in &mut summary.magics {
            *magic = words.count()?;
        }
        summary.records = RecordCounts {
            records: words.count()?,
            null_keys: words.count()?,
            null_values: words.count()?,
            backward: words.count()?,
            ends: None,
        };
        let (has_ends, ends) = (words.next()? == 1, (words.next()?, words.next()?));
        summary.records.ends = has_ends.then_some(ends);
        for sizes in &mut summary.codecs {
            *sizes = CodecSizes {
                batches: words.count()?,
                bytes: words.count()?,
                unpacked: words.count()?,
                undecoded: words.count()?,
            };
        }
        for _ in 0..words.count()? {
            summary.epochs.insert(i32::try_from(words.next()?).ok()?, words.next()?);
        }
        for _ in 0..words.count()? {
            let id = words.next()?;
            let epoch = i16::try_from(words.next()?).ok()?;
            let sequence = i32::try_from(words.next()?).ok()?;
            let last = LastWrite { epoch, sequence, offset: words.next()?, timestamp: words.next()? };
            summary.producers.insert(id, last);
        }
        let len = usize::try_from(words.count()?).ok()?;
        let (events, rest) = words.0.split_at_checked(len)?;
        summary.transactions = TxnEvents::decode(events)?;
        Some((summary, rest))
    }
}

/// Numbers of 8 bytes, one after another.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> Option<i64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i64::from_be_bytes(*word))
    }

    fn count(&mut self) -> Option<u64> {
        u64::try_from(self.next()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::{Headers, TimestampType};
    use crate::units::{LeaderEpoch, Offset, ProducerId, Timestamp};

    fn record(offset: i64, timestamp: i64) -> Record<'static> {
        let (offset, timestamp, headers) = (Offset(offset), Timestamp(timestamp), Headers::default());
        Record { offset, timestamp, key: None, value: Some(b"v"), headers }
    }

    fn header(first: i64, last: i64) -> Header {
        Header {
            magic: 2,
            base_offset: Some(Offset(first)),
            last_offset: Offset(last),
            leader_epoch: Some(LeaderEpoch(3)),
            crc: 0,
            codec: Codec::Gzip,
            timestamp_type: TimestampType::CreateTime,
            base_timestamp: Timestamp(first),
            max_timestamp: Timestamp(last),
            producer_id: Some(ProducerId(7)),
            producer_epoch: 1,
            base_sequence: 10,
            is_transactional: false,
            is_control: false,
            has_delete_horizon: false,
            record_count: Some(1),
        }
    }

    fn summary(times: &[i64]) -> Summary {
        let mut summary = Summary::default();
        for (offset, time) in (0..).zip(times) {
            let mut records = RecordCounts::default();
            records.add(&record(offset, *time));
            let counted = Counted { bytes: 100, unpacked: Some(250), records, event: None };
            summary.add(&header(offset, offset), &counted);
        }
        summary
    }

    #[test]
    fn steps_back_in_time_are_counted_across_batches_and_summaries() {
        let times = [5, 7, 6, 6, -1, 5, 9, 1];
        assert_eq!(summary(&times).records.backward, 3);
        for at in 0..=times.len() {
            let (mut first, second) = (summary(&times[..at]), summary(&times[at..]));
            first.merge(&second);
            assert_eq!(first.records, summary(&times).records, "in two at {at}");
        }
    }

    #[test]
    fn what_is_saved_is_read_back_and_nothing_else_is() {
        let summary = summary(&[5, 7, 6]);
        let mut bytes = summary.encode();
        for len in 0..bytes.len() {
            assert!(Summary::decode(&bytes[..len]).is_none(), "cut at {len}");
        }
        bytes.extend(b"rest");
        let (read, rest) = Summary::decode(&bytes).unwrap();
        assert_eq!((format!("{read:?}"), rest), (format!("{summary:?}"), &b"rest"[..]));
        assert_eq!(read.producers[&7].sequence, 10);
        bytes[7] += 1;
        assert!(Summary::decode(&bytes).is_none(), "another version");
    }
}
