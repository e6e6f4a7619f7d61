//! The decided and the open transactions of a log at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use crate::log::segment::Segment;
use crate::log::transactions::carried;
use crate::log::transactions::events::{TxnEvent, TxnEventKind};
use crate::units::{Offset, ProducerId, Timestamp};

/// A transaction that was aborted: its first offset and its marker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aborted {
    /// Whose it was.
    pub producer: ProducerId,
    /// The first offset of its data.
    pub first: Offset,
    /// The offset of the ABORT marker.
    pub last: Offset,
}

/// A transaction that has no marker yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenTxn {
    /// Whose it is.
    pub producer: ProducerId,
    /// The producer's epoch.
    pub epoch: i16,
    /// The first offset of its data, which may have been deleted since.
    pub first: Offset,
    /// The time of its first batch; of one whose first segment was deleted, the last time that a snapshot has.
    pub since: Timestamp,
}

/// The decided and the open transactions of a partition at one moment.
#[derive(Debug, Clone, Default)]
pub struct Decided {
    /// Aborted transactions of each producer, in order.
    aborted: HashMap<ProducerId, Vec<(Offset, Offset)>>,
    /// The transaction of each producer that is still open.
    open: HashMap<ProducerId, OpenTxn>,
    /// Where the log begins.
    floor: Offset,
    /// All below this was looked at.
    pub scanned_to: Offset,
}

impl Decided {
    /// The transactions at the beginning of `first`, the log's first segment.
    pub fn before(first: &Segment) -> Self {
        let open = carried::open_before(first).into_iter().map(|txn| (txn.producer, txn)).collect();
        Self { open, floor: first.lower, ..Self::default() }
    }

    /// Only these transactions, open in the log of these segments.
    pub(super) fn with(open: impl Iterator<Item = OpenTxn>, segments: &[Arc<Segment>]) -> Self {
        let floor = segments.first().map_or(Offset(0), |first| first.lower);
        Self { open: open.map(|txn| (txn.producer, txn)).collect(), floor, ..Self::default() }
    }

    /// The last stable offset: the first of the oldest open transaction, otherwise the end of what was scanned.
    pub fn last_stable(&self) -> Offset {
        let first = self.open.values().map(|txn| txn.first).min();
        first.map_or(self.scanned_to, |first| first.max(self.floor))
    }

    /// Whether a transactional batch of `producer` at `offset` belongs to an aborted transaction.
    pub fn is_aborted(&self, producer: ProducerId, offset: Offset) -> bool {
        self.aborted.get(&producer).is_some_and(|ranges| {
            let after = ranges.partition_point(|(first, _)| *first <= offset);
            after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| offset <= *last)
        })
    }

    /// The aborted transactions that touch the offsets `from` to `to`, in a fixed order.
    pub fn aborted_between(&self, from: Offset, to: Offset) -> Vec<Aborted> {
        let all = self.aborted.iter().flat_map(|(producer, ranges)| {
            ranges.iter().map(|(first, last)| Aborted { producer: *producer, first: *first, last: *last })
        });
        let mut touching: Vec<_> = all.filter(|txn| txn.first <= to && txn.last >= from).collect();
        touching.sort_by_key(|txn| (txn.last, txn.producer));
        touching
    }

    /// How many transactions were aborted.
    pub fn aborted_count(&self) -> u64 {
        self.aborted.values().map(|ranges| ranges.len() as u64).sum()
    }

    /// Open transactions, oldest first.
    pub fn open(&self) -> Vec<OpenTxn> {
        let mut open: Vec<_> = self.open.values().copied().collect();
        open.sort_by_key(|txn| (txn.first, txn.producer));
        open
    }

    /// Takes the next event in; those of one producer must come in their order.
    pub fn apply(&mut self, event: &TxnEvent) {
        let TxnEvent { kind, producer, epoch, offset, timestamp } = *event;
        match kind {
            TxnEventKind::Data => {
                let begun = OpenTxn { producer, epoch, first: offset, since: timestamp };
                self.open.entry(producer).or_insert(begun);
            }
            TxnEventKind::Commit => {
                self.open.remove(&producer);
            }
            TxnEventKind::Abort => {
                if let Some(OpenTxn { first, .. }) = self.open.remove(&producer) {
                    self.aborted.entry(producer).or_default().push((first, offset));
                }
            }
        }
    }
}
