//! The leader epochs of a partition: as its checkpoint has them, else as its batches tell.

use crate::format::checkpoint::{self, EpochEntry};
use crate::format::names;
use crate::log::LogError;
use crate::log::derived::epochs::{EpochRecovery, Epochs};
use crate::log::files;
use crate::log::partition::Origin;
use crate::units::{LeaderEpoch, Offset};
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};

/// A larger checkpoint is none: a broker keeps a line for each change of leader.
const MAX_CHECKPOINT_BYTES: u64 = 1024 * 1024;

impl PartitionView {
    /// Where `epoch` ended, or the last one before it, as a broker answers OffsetForLeaderEpoch; `None` for an epoch that is yet
    /// to come, and where nothing tells of epochs (magic 0 and 1).
    ///
    /// # Errors
    /// Those of reading.
    pub fn end_of_epoch(&self, epoch: LeaderEpoch) -> Result<Option<Offset>, LogError> {
        let epochs = match self.stored_epochs() {
            Some(stored) => stored,
            None => self.epochs_of_batches()?,
        };
        Ok(epochs.end_of(epoch, self.partition.log_end()?).map(|(_, end)| end))
    }

    /// The epochs that are known, or cheap to tell.
    ///
    /// # Errors
    /// Those of reading.
    pub fn known_epochs(&self) -> Result<Vec<EpochEntry>, LogError> {
        if let Some(stored) = self.stored_epochs() {
            return Ok(stored.entries().to_vec());
        }
        let cost = self.with_env(false, |env| {
            let segments = self.partition.segments()?;
            let costs = segments.iter().map(|segment| self.times_cost(env, segment));
            Ok::<_, LogError>(costs.fold(0, u64::saturating_add))
        })?;
        if cost > CHEAP_BYTES {
            return Ok(Vec::new());
        }
        Ok(self.epochs_of_batches()?.entries().to_vec())
    }

    /// The entries of `leader-epoch-checkpoint`, if that is there and right.
    pub(super) fn epoch_checkpoint(&self) -> Option<Vec<EpochEntry>> {
        let Origin::Directory(directory) = &self.partition.origin else { return None };
        let bytes = files::read_small(&directory.join(names::LEADER_EPOCHS), MAX_CHECKPOINT_BYTES).ok()?;
        checkpoint::parse_epochs(&bytes).ok()
    }

    /// The same if it says something: brokers empty that of a partition that they delete.
    fn stored_epochs(&self) -> Option<Epochs> {
        let epochs = Epochs::from_entries(&self.epoch_checkpoint()?);
        epochs.latest().is_some().then_some(epochs)
    }

    fn epochs_of_batches(&self) -> Result<Epochs, LogError> {
        let mut recovery = EpochRecovery::new(Epochs::default());
        self.with_env(false, |env| {
            for segment in self.partition.segments()?.iter() {
                for (epoch, offset) in self.times(env, segment)?.epochs() {
                    recovery.append(epoch, offset);
                }
            }
            Ok::<_, LogError>(())
        })?;
        Ok(recovery.finish(self.start()?, self.partition.log_end()?))
    }
}
