//! What the batches of a log say of its producers and leader epochs, gathered batch after batch.

use crate::format::batch::{Batch, Decoder, Limits};
use crate::format::index::AbortedTxn;
use crate::log::derived::epochs::{EpochRecovery, Epochs};
use crate::log::derived::producers::{Contents, Producers};
use crate::units::Offset;

/// The state of a log at the offset up to which it was read.
#[derive(Debug)]
pub(super) struct Replay {
    /// Its producers.
    pub(super) producers: Producers,
    epochs: EpochRecovery,
    decoder: Decoder,
    limits: Limits,
}

impl Replay {
    /// Begins with the state that was stored.
    pub(super) fn new(producers: Producers, epochs: Epochs, limits: Limits) -> Self {
        Self { producers, epochs: EpochRecovery::new(epochs), decoder: Decoder::default(), limits }
    }

    /// Takes a batch in; the transaction that it aborted, if it did. What no producer can have written changes nothing.
    pub(super) fn append(&mut self, batch: &Batch<'_>) -> Option<AbortedTxn> {
        let header = &batch.header;
        if let Some(epoch) = header.leader_epoch {
            self.epochs.append(epoch, header.first_known());
        }
        header.producer_id?;
        let contents = if header.is_control {
            Contents::of(batch, &mut self.decoder, &self.limits).ok()?
        } else {
            Contents { records: 0, first_offset: header.first_known(), marker: None }
        };
        self.producers.append(header, &contents).ok()?
    }

    /// The producers and the epochs of the log that begins and ends at these offsets.
    pub(super) fn finish(self, start: Offset, end: Offset) -> (Producers, Epochs) {
        (self.producers, self.epochs.finish(start, end))
    }
}
