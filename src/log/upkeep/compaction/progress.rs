//! What a batch's transaction says of it, by the batches before it: the only thing for which batches must be seen in order.

use std::collections::HashSet;
use std::sync::Arc;

use crate::format::batch::{Batch, Decoder, Header, Limits};
use crate::format::control::ControlType;
use crate::format::index::{AbortedTxn, TxnIndex};
use crate::format::names::FileType;
use crate::log::LogError;
use crate::log::files;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::segment::beside::MAX_INDEX_BYTES;
use crate::log::transactions::{Decided, Transactions};
use crate::units::ProducerId;

/// The transactions that data of was met of, up to where the log was read.
pub(super) struct Progress {
    partition: Partition,
    limits: Limits,
    /// Known from the first batch of a transaction on.
    decided: Option<Arc<Decided>>,
    decoder: Decoder,
    committed: HashSet<ProducerId>,
    aborted: HashSet<ProducerId>,
    /// The transaction index of the segment that is read.
    index: Option<Vec<AbortedTxn>>,
}

/// What its transaction says of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Discard {
    /// Whether its records may go, whatever keys they have.
    pub(super) may_go: bool,
    /// Of the marker of an aborted transaction that there is data of: the entry of the transaction index that stays.
    pub(super) aborted: Option<AbortedTxn>,
}

impl Progress {
    pub(super) fn new(partition: Partition, limits: Limits) -> Self {
        Self {
            partition,
            limits,
            decided: None,
            decoder: Decoder::default(),
            committed: HashSet::new(),
            aborted: HashSet::new(),
            index: None,
        }
    }

    /// The log is read once more.
    pub(super) fn begin_again(&mut self) {
        self.committed.clear();
        self.aborted.clear();
        self.index = None;
    }

    /// Its segment ends.
    pub(super) fn end_segment(&mut self) {
        self.index = None;
    }

    /// Takes a batch in. It may be damaged: what becomes of that doesn't count.
    ///
    /// # Errors
    /// Why the log can't be read.
    pub(super) fn see(&mut self, segment: &Segment, batch: Batch<'_>) -> Result<Discard, LogError> {
        let header = &batch.header;
        let said = |may_go| Ok(Discard { may_go, aborted: None });
        let Some(producer) = header.producer_id else { return said(false) };
        if !header.is_control {
            if header.is_transactional {
                let is_aborted = self.decided()?.is_aborted(producer, header.first_known());
                let with_data = if is_aborted { &mut self.aborted } else { &mut self.committed };
                with_data.insert(producer);
                return said(is_aborted);
            }
            return said(false);
        }
        match self.marker(batch) {
            // All of it was compacted away before.
            None => said(true),
            Some(ControlType::Abort) => {
                let aborted =
                    self.aborted.remove(&producer).then(|| self.aborted_by(segment, header, producer));
                Ok(Discard { may_go: aborted.is_none(), aborted })
            }
            Some(ControlType::Commit) => said(!self.committed.remove(&producer)),
            Some(_) => said(false),
        }
    }

    fn decided(&mut self) -> Result<&Decided, LogError> {
        let decided = match self.decided.take() {
            Some(decided) => decided,
            None => Transactions::default().decided(&self.partition, None)?,
        };
        Ok(self.decided.insert(decided))
    }

    /// What a control batch is, `None` if it has no record.
    fn marker(&mut self, batch: Batch<'_>) -> Option<ControlType> {
        // One that can't be read is no end of a transaction, and stays.
        let unknown = ControlType::Unknown(-1);
        let Ok(mut records) = batch.records(&mut self.decoder, &self.limits) else { return Some(unknown) };
        let key = records.next()?.ok().and_then(|first| first.key);
        Some(key.and_then(|key| ControlType::parse(key).ok()).unwrap_or(unknown))
    }

    /// The entry of the transaction index that a marker has.
    fn aborted_by(&mut self, segment: &Segment, marker: &Header, producer_id: ProducerId) -> AbortedTxn {
        let at = marker.last_offset;
        let index = self.index.get_or_insert_with(|| aborted_in(segment));
        let is_its = |entry: &&AbortedTxn| entry.producer_id == producer_id && entry.last_offset == at;
        if let Some(entry) = index.iter().find(is_its) {
            return *entry;
        }
        let all = self.decided.as_ref().map(|decided| decided.aborted_between(at, at)).unwrap_or_default();
        let txn = all.iter().find(|txn| txn.producer == producer_id && txn.last == at);
        let first_offset = txn.map_or(at, |txn| txn.first);
        AbortedTxn { version: 0, producer_id, first_offset, last_offset: at, last_stable_offset: at.next() }
    }
}

/// The entries of a segment's transaction index.
fn aborted_in(segment: &Segment) -> Vec<AbortedTxn> {
    let bytes = files::read_small(&segment.beside(FileType::TxnIndex), MAX_INDEX_BYTES).unwrap_or_default();
    TxnIndex::new(&bytes).entries().collect()
}
