//! What the batches of a stretch of log say about transactions, and no more of it than later stretches need.
//!
//! A transaction that began and was committed within the stretch leaves nothing behind, unless it is its producer's first one
//! there: that may have begun before.
//!
//! As saved, big-endian: producer id (8), offset (8), timestamp (8), producer epoch (2), kind (1), zeros (5).

use std::collections::HashMap;

use zerocopy::byteorder::big_endian::{I16, I64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::batch::{Batch, Decoder, Limits};
use crate::format::control::ControlType;
use crate::units::{Offset, ProducerId, Timestamp};

/// What a batch does to its producer's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxnEventKind {
    /// It is data of one, and begins it unless one is open.
    Data,
    /// It commits what is open.
    Commit,
    /// It aborts what is open.
    Abort,
}

/// A batch of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TxnEvent {
    /// What it does.
    pub kind: TxnEventKind,
    /// Whose transaction it is.
    pub producer: ProducerId,
    /// The producer's epoch.
    pub epoch: i16,
    /// The first offset of data, or the marker's.
    pub offset: Offset,
    /// The batch's largest timestamp.
    pub timestamp: Timestamp,
}

impl TxnEvent {
    /// What `batch` does, if it belongs to a transaction.
    pub fn of(batch: &Batch<'_>, decoder: &mut Decoder, limits: &Limits) -> Option<Self> {
        let header = &batch.header;
        // A control batch is a marker whether or not it is flagged as transactional: broker and consumer ask for no more.
        let producer = header.producer_id.filter(|_| header.is_transactional || header.is_control)?;
        let (kind, offset) = if header.is_control {
            let record = batch.records(decoder, limits).ok()?.next()?.ok()?;
            let kind = match ControlType::parse(record.key?).ok()? {
                ControlType::Commit => TxnEventKind::Commit,
                ControlType::Abort => TxnEventKind::Abort,
                _ => return None,
            };
            (kind, header.last_offset)
        } else {
            (TxnEventKind::Data, header.first_known())
        };
        let (epoch, timestamp) = (header.producer_epoch, header.max_timestamp);
        Some(Self { kind, producer, epoch, offset, timestamp })
    }
}

/// The events of a stretch of log, in each producer's order.
#[derive(Debug, Clone, Default)]
pub struct TxnEvents {
    kept: Vec<TxnEvent>,
    producers: HashMap<ProducerId, Seen>,
}

/// What was seen of a producer.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The first data since its last marker.
    open: Option<TxnEvent>,
    has_marker: bool,
}

impl TxnEvents {
    /// Takes the next event in.
    pub fn add(&mut self, event: TxnEvent) {
        let seen = self.producers.entry(event.producer).or_default();
        match event.kind {
            TxnEventKind::Data => {
                seen.open.get_or_insert(event);
            }
            TxnEventKind::Commit | TxnEventKind::Abort => {
                let open = seen.open.take();
                let is_news = event.kind == TxnEventKind::Abort && open.is_some();
                if is_news || !seen.has_marker {
                    self.kept.extend(open);
                    self.kept.push(event);
                }
                seen.has_marker = true;
            }
        }
    }

    /// Takes in the events of the stretch that follows.
    pub fn extend(&mut self, later: &Self) {
        later.iter().for_each(|event| self.add(event));
    }

    /// The events; a producer's own are in order.
    pub fn iter(&self) -> impl Iterator<Item = TxnEvent> {
        let mut open: Vec<_> = self.producers.values().filter_map(|seen| seen.open).collect();
        open.sort_by_key(|event| (event.offset, event.producer));
        self.kept.iter().copied().chain(open)
    }

    /// Where the open transaction of `producer` begins in this stretch, if it does.
    pub fn open_since(&self, producer: ProducerId) -> Option<Offset> {
        self.producers.get(&producer)?.open.map(|event| event.offset)
    }

    /// Whether no batch belonged to a transaction.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// The bytes to save.
    pub fn encode(&self) -> Vec<u8> {
        self.iter().flat_map(|event| StoredEvent::of(&event).as_bytes().to_vec()).collect()
    }

    /// What [`Self::encode`] made; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut events = Self::default();
        for stored in <[StoredEvent]>::ref_from_bytes(bytes).ok()? {
            events.add(stored.resolve()?);
        }
        Some(events)
    }
}

/// An event as it is saved.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredEvent {
    producer: I64,
    offset: I64,
    timestamp: I64,
    epoch: I16,
    kind: u8,
    zeros: [u8; 5],
}

const _: () = assert!(size_of::<StoredEvent>() == 32);

impl StoredEvent {
    fn of(event: &TxnEvent) -> Self {
        Self {
            producer: event.producer.0.into(),
            offset: event.offset.0.into(),
            timestamp: event.timestamp.0.into(),
            epoch: event.epoch.into(),
            kind: match event.kind {
                TxnEventKind::Data => 0,
                TxnEventKind::Commit => 1,
                TxnEventKind::Abort => 2,
            },
            zeros: [0; 5],
        }
    }

    fn resolve(&self) -> Option<TxnEvent> {
        let kind = match self.kind {
            0 => TxnEventKind::Data,
            1 => TxnEventKind::Commit,
            2 => TxnEventKind::Abort,
            _ => return None,
        };
        Some(TxnEvent {
            kind,
            producer: ProducerId(self.producer.get()),
            epoch: self.epoch.get(),
            offset: Offset(self.offset.get()),
            timestamp: Timestamp(self.timestamp.get()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::TxnEventKind::{Abort, Commit, Data};
    use super::*;

    fn events(all: &[(TxnEventKind, i64, i64)]) -> TxnEvents {
        let mut events = TxnEvents::default();
        for (kind, producer, offset) in all.iter().copied() {
            let (producer, offset, timestamp) = (ProducerId(producer), Offset(offset), Timestamp(offset));
            events.add(TxnEvent { kind, producer, epoch: 3, offset, timestamp });
        }
        events
    }

    fn plain(events: &TxnEvents) -> Vec<(TxnEventKind, i64, i64)> {
        events.iter().map(|event| (event.kind, event.producer.0, event.offset.0)).collect()
    }

    #[test]
    fn only_what_later_stretches_need_is_kept() {
        let mut all = vec![(Data, 1, 0), (Data, 1, 1), (Commit, 1, 2)];
        for n in 0..1000 {
            all.extend([(Data, 1, 3 + 2 * n), (Commit, 1, 4 + 2 * n)]);
        }
        all.extend([(Data, 1, 3000), (Abort, 1, 3001), (Abort, 1, 3002), (Data, 1, 3003), (Data, 1, 3004)]);
        let kept = [(Data, 1, 0), (Commit, 1, 2), (Data, 1, 3000), (Abort, 1, 3001), (Data, 1, 3003)];
        assert_eq!(plain(&events(&all)), kept);
        let (first, second) = all.split_at(777);
        let mut joined = events(first);
        joined.extend(&events(second));
        assert_eq!(plain(&joined), kept);
    }

    #[test]
    fn what_is_saved_is_read_back_and_nothing_else_is() {
        let all = [(Commit, 7, 0), (Data, 1, 1), (Abort, 1, 4), (Data, 2, 5)];
        let bytes = events(&all).encode();
        assert_eq!(plain(&TxnEvents::decode(&bytes).unwrap()), all);
        assert!(TxnEvents::decode(&bytes[1..]).is_none());
        let mut wrong = bytes;
        wrong[26] = 3;
        assert!(TxnEvents::decode(&wrong).is_none());
    }
}
