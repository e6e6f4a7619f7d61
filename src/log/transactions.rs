//! Which records `read_committed` hides (KIP-98): those of aborted transactions, and all from the last stable offset on.
//!
//! The log itself is asked, marker by marker, since the transaction index may be missing or wrong; a scan is
//! continued where the last one ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::format::batch::{Batch, Decoder};
use crate::format::control::ControlType;
use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::scan::{Start, Step};
use crate::log::segment::{Segment, SegmentUid};
use crate::units::{Offset, Position, ProducerId};

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

/// The decided and the open transactions of a partition at one moment.
#[derive(Debug, Clone, Default)]
pub struct Decided {
    /// Aborted transactions of each producer, in order.
    aborted: HashMap<ProducerId, Vec<(Offset, Offset)>>,
    /// The first offset of each transaction that is still open.
    open: HashMap<ProducerId, Offset>,
    /// All below this was looked at.
    pub scanned_to: Offset,
}

impl Decided {
    /// The last stable offset: the first of the oldest open transaction, otherwise the end of what was scanned.
    pub fn last_stable(&self) -> Offset {
        self.open.values().copied().min().unwrap_or(self.scanned_to)
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

    /// Open transactions: producer and first offset, oldest first.
    pub fn open(&self) -> Vec<(ProducerId, Offset)> {
        let mut open: Vec<_> = self.open.iter().map(|(producer, first)| (*producer, *first)).collect();
        open.sort_by_key(|(producer, first)| (*first, *producer));
        open
    }

    fn add(&mut self, batch: &Batch<'_>, marker: Option<ControlType>) {
        let Some(producer) = batch.header.producer_id.filter(|_| batch.header.is_transactional) else {
            return;
        };
        if !batch.header.is_control {
            let first = batch.header.first_known();
            self.open.entry(producer).or_insert(first);
            return;
        }
        match marker {
            Some(ControlType::Abort) => {
                if let Some(first) = self.open.remove(&producer) {
                    let last = batch.header.last_offset;
                    self.aborted.entry(producer).or_default().push((first, last));
                }
            }
            Some(ControlType::Commit) => {
                self.open.remove(&producer);
            }
            _ => {}
        }
    }
}

/// The transactions of one partition, followed as it grows.
#[derive(Debug, Default)]
pub struct Transactions {
    state: Mutex<State>,
}

/// How far the scan is.
#[derive(Debug, Default)]
struct State {
    decided: Arc<Decided>,
    at: Option<(SegmentUid, Start)>,
}

impl Transactions {
    /// Whether a scan has been made.
    pub fn is_known(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).at.is_some()
    }

    /// The transactions of `partition` as they are now.
    ///
    /// # Errors
    /// Those of reading.
    pub fn decided(&self, partition: &Partition) -> Result<Arc<Decided>, LogError> {
        let segments = partition.segments()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let resume = state.at.and_then(|(uid, start)| {
            segments.iter().position(|segment| segment.uid == uid).map(|index| (index, start))
        });
        let (index, mut decided) = match resume {
            Some((index, _)) => (index, Decided::clone(&state.decided)),
            None => (0, Decided::default()),
        };
        let before = (resume.map(|(_, start)| start.position), decided.scanned_to);
        let mut at = None;
        for (offset, segment) in segments.iter().enumerate().skip(index) {
            let start = match resume {
                Some((resumed, start)) if resumed == offset => Start { below: segment.below(), ..start },
                _ => segment.start(),
            };
            at = Some((segment.uid, scan(segment, start, &mut decided)?));
        }
        let after: (Option<Position>, Offset) = (at.map(|(_, start)| start.position), decided.scanned_to);
        if after != before || state.at.is_none() {
            state.decided = Arc::new(decided);
        }
        state.at = at;
        Ok(state.decided.clone())
    }
}

fn scan(segment: &Arc<Segment>, start: Start, decided: &mut Decided) -> Result<Start, LogError> {
    let mut scanner = segment.scan(start)?;
    let mut decoder = Decoder::default();
    loop {
        match scanner.step().map_err(|error| segment.error(error))? {
            Step::Batch { batch, .. } => {
                let marker = marker_of(&batch, &mut decoder, segment);
                decided.add(&batch, marker);
            }
            Step::Damage(_) => {}
            Step::End(_) => break,
        }
    }
    decided.scanned_to = scanner.at().expected.max(segment.base);
    Ok(scanner.at())
}

fn marker_of(batch: &Batch<'_>, decoder: &mut Decoder, segment: &Segment) -> Option<ControlType> {
    if !batch.header.is_control {
        return None;
    }
    let record = batch.records(decoder, &segment.limits()).ok()?.next()?.ok()?;
    ControlType::parse(record.key?).ok()
}
