//! The leader epochs of a partition (KIP-101): at which offset each began, as Kafka's epoch cache keeps it and
//! `leader-epoch-checkpoint` stores it. Epochs and offsets both grow from entry to entry.

use crate::format::checkpoint::EpochEntry;
use crate::units::{LeaderEpoch, Offset};

/// Epochs with their first offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Epochs {
    entries: Vec<EpochEntry>,
}

impl Epochs {
    /// The entries of a checkpoint, read as Kafka does: one that contradicts those before it takes their place.
    pub fn from_entries(entries: &[EpochEntry]) -> Self {
        let mut epochs = Self::default();
        for entry in entries.iter().filter(|entry| entry.epoch.0 >= 0 && entry.start_offset.0 >= 0) {
            epochs.assign(*entry);
        }
        epochs
    }

    /// The entries in order.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The latest epoch.
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.entries.last().map(|entry| entry.epoch)
    }

    /// The epoch that `offset` was written in.
    pub fn at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        self.entries.get(after.checked_sub(1)?).map(|entry| entry.epoch)
    }

    /// The last epoch up to `epoch` and where it ended, in a log that ends at `log_end`, as a broker answers
    /// OffsetForLeaderEpoch (KIP-101, KIP-279); `None` for an epoch that is yet to come.
    pub fn end_of(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<(LeaderEpoch, Offset)> {
        if self.latest() == Some(epoch) {
            return Some((epoch, log_end));
        }
        let after = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end = self.entries.get(after)?.start_offset;
        let floor = after.checked_sub(1).and_then(|at| self.entries.get(at));
        Some((floor.map_or(epoch, |floor| floor.epoch), end))
    }

    /// Begins an epoch; entries that it contradicts go. The latest one, told again, stays as it is.
    pub fn assign(&mut self, new: EpochEntry) {
        let is_news = self
            .entries
            .last()
            .is_none_or(|last| new.epoch != last.epoch || new.start_offset < last.start_offset);
        if is_news {
            let conflicts =
                |entry: &EpochEntry| entry.epoch >= new.epoch || entry.start_offset >= new.start_offset;
            while self.entries.last().is_some_and(conflicts) {
                self.entries.pop();
            }
            self.entries.push(new);
        }
    }

    /// Removes the epochs that begin at `end` or later.
    pub fn truncate_from_end(&mut self, end: Offset) {
        self.entries.retain(|entry| entry.start_offset < end);
    }

    /// Removes the epochs that are over before `start`; the one that `start` lies in begins there now.
    pub fn truncate_from_start(&mut self, start: Offset) {
        let after = self.entries.partition_point(|entry| entry.start_offset <= start);
        if let Some(last) = after.checked_sub(1) {
            self.entries.drain(..last);
            if let Some(entry) = self.entries.first_mut() {
                entry.start_offset = start;
            }
        }
    }
}

/// The epochs of a log whose batches are all read again, beside a checkpoint that may be stale, or of another log.
///
/// No checksum covers the epoch of a batch, so that one that is higher than a later one counts for nothing.
#[derive(Debug, Clone)]
pub struct EpochRecovery {
    stored: Epochs,
    /// How many entries come from the checkpoint.
    kept: usize,
    seen: Epochs,
    /// Batches that the checkpoint is right about, less those that it isn't.
    agreement: i64,
}

impl EpochRecovery {
    /// Begins with what the checkpoint says.
    pub const fn new(stored: Epochs) -> Self {
        let kept = stored.entries.len();
        Self { stored, kept, seen: Epochs { entries: Vec::new() }, agreement: 0 }
    }

    /// Takes a batch in.
    pub fn append(&mut self, epoch: LeaderEpoch, first_offset: Offset) {
        let entry = EpochEntry { epoch, start_offset: first_offset };
        follow(&mut self.stored.entries, self.kept, entry);
        follow(&mut self.seen.entries, 0, entry);
        self.agreement += if self.stored.at(first_offset) == Some(epoch) { 1 } else { -1 };
    }

    /// The epochs of the log from `start` to `end`: the checkpoint's with those that came later, as Kafka recovers them,
    /// unless most batches say otherwise. An epoch that begins at the very end stays: its leader wrote nothing yet.
    pub fn finish(self, start: Offset, end: Offset) -> Epochs {
        let mut epochs = if self.agreement >= 0 { self.stored } else { self.seen };
        epochs.truncate_from_end(end.next());
        epochs.truncate_from_start(start);
        epochs
    }
}

/// Goes on with the epoch of a batch; never below the first `kept` entries.
fn follow(entries: &mut Vec<EpochEntry>, kept: usize, new: EpochEntry) {
    while entries.len() > kept && entries.last().is_some_and(|last| last.epoch > new.epoch) {
        entries.pop();
    }
    if entries.last().is_none_or(|last| last.epoch < new.epoch && last.start_offset < new.start_offset) {
        entries.push(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry((epoch, start): (i32, i64)) -> EpochEntry {
        EpochEntry { epoch: LeaderEpoch(epoch), start_offset: Offset(start) }
    }

    fn epochs(entries: &[(i32, i64)]) -> Epochs {
        Epochs::from_entries(&entries.iter().copied().map(entry).collect::<Vec<_>>())
    }

    fn plain(epochs: &Epochs) -> Vec<(i32, i64)> {
        epochs.entries().iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
    }

    #[test]
    fn assigning_removes_what_contradicts() {
        let mut cache = epochs(&[(0, 0), (2, 10), (4, 20)]);
        cache.assign(entry((4, 25)));
        assert_eq!(plain(&cache), [(0, 0), (2, 10), (4, 20)], "the latest stays where it began");
        cache.assign(entry((5, 20)));
        assert_eq!(plain(&cache), [(0, 0), (2, 10), (5, 20)], "nothing was written in 4");
        cache.assign(entry((2, 15)));
        assert_eq!(plain(&cache), [(0, 0), (2, 15)]);
        assert_eq!(cache.at(Offset(14)), Some(LeaderEpoch(0)));
        assert_eq!(cache.at(Offset(15)), Some(LeaderEpoch(2)));
    }

    #[test]
    fn truncating_keeps_the_epoch_of_the_start() {
        let mut cache = epochs(&[(0, 0), (2, 10), (4, 20)]);
        cache.truncate_from_start(Offset(15));
        assert_eq!(plain(&cache), [(2, 15), (4, 20)]);
        cache.truncate_from_end(Offset(20));
        assert_eq!(plain(&cache), [(2, 15)]);
        cache.truncate_from_start(Offset(5));
        assert_eq!(plain(&cache), [(2, 15)]);
    }

    fn recovered(stored: &[(i32, i64)], batches: &[(i32, i64)]) -> Vec<(i32, i64)> {
        let mut recovery = EpochRecovery::new(epochs(stored));
        for (epoch, first) in batches {
            recovery.append(LeaderEpoch(*epoch), Offset(*first));
        }
        plain(&recovery.finish(Offset(0), Offset(100)))
    }

    #[test]
    fn recovery_goes_on_with_the_checkpoint() {
        let batches = [(0, 0), (0, 5), (3, 12), (3, 20), (4, 30)];
        assert_eq!(recovered(&[], &batches), [(0, 0), (3, 12), (4, 30)]);
        assert_eq!(
            recovered(&[(0, 0), (3, 10)], &batches),
            [(0, 0), (3, 10), (4, 30)],
            "compacted: 3 began before"
        );
        assert_eq!(
            recovered(&[(0, 0), (3, 12), (4, 30), (5, 100)], &batches).len(),
            4,
            "5 wrote nothing yet"
        );
        assert_eq!(recovered(&[(0, 0), (5, 101)], &batches).last(), Some(&(4, 30)), "5 is behind the end");
        assert_eq!(recovered(&[(9, 0)], &batches), [(0, 0), (3, 12), (4, 30)], "another log's");
    }

    #[test]
    fn a_flipped_bit_in_one_batch_changes_nothing() {
        let batches = [(0, 0), (64, 5), (0, 10), (3, 12), (3, 20)];
        assert_eq!(recovered(&[], &batches), [(0, 0), (3, 12)]);
        assert_eq!(recovered(&[(0, 0), (3, 12)], &batches), [(0, 0), (3, 12)]);
        assert_eq!(recovered(&[(0, 0), (3, 12)], &[(0, 0), (3, 12), (1, 20), (3, 30)]), [(0, 0), (3, 12)]);
    }
}
