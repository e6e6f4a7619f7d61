//! Leader epochs (KIP-101): of batches among each other, and against `leader-epoch-checkpoint`.
//!
//! No checksum covers a batch's epoch, and a broker truncates by these: a wrong one makes replicas part. Epochs never go
//! back. The checkpoint says where each begins; what is below its first entry is below the log start offset, and an epoch
//! may begin at the log's end. After a crash the last entries may be missing; batches of magic 0 and 1 have no epochs.

use crate::format::checkpoint::EpochEntry;
use crate::units::{LeaderEpoch, Offset, Position};

/// Runs kept for one segment; only damage makes so many.
const MAX_RUNS: usize = 4096;

/// Batches one after another that have the same epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochRun {
    /// Their epoch.
    pub epoch: LeaderEpoch,
    /// The first offset.
    pub first: Offset,
    /// The last offset.
    pub last: Offset,
    /// Where the first batch begins.
    pub position: Position,
    /// Its length.
    pub len: u64,
}

/// Adds a batch to the runs of its segment.
pub fn add(runs: &mut Vec<EpochRun>, run: EpochRun) {
    let is_full = runs.len() >= MAX_RUNS;
    match runs.last_mut() {
        Some(last) if last.epoch == run.epoch => last.last = run.last,
        _ if is_full => {}
        _ => runs.push(run),
    }
}

/// The runs (by their number) whose epoch can't be right among its neighbours', and why.
pub fn going_back(runs: &[EpochRun]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    // The last run that is not in doubt, and the one before it.
    let mut trusted: Vec<usize> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        if let [.., last] = trusted[..]
            && runs[last].epoch > run.epoch
        {
            let before = trusted.len().checked_sub(2).map(|at| runs[trusted[at]].epoch);
            let LeaderEpoch(own) = run.epoch;
            let LeaderEpoch(other) = runs[last].epoch;
            // A single high one between lower ones is wrong itself; otherwise it is the lower one that comes later.
            if before.is_some_and(|before| before <= run.epoch) {
                found.push((last, format!("leader epoch {other}, later batches have {own}")));
                trusted.pop();
            } else {
                found.push((number, format!("leader epoch {own} after {other}")));
                continue;
            }
        }
        trusted.push(number);
    }
    found.sort_unstable();
    found
}

/// Entries (by number) that are not above the one before, with the reason.
pub fn unsorted(entries: &[EpochEntry]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut before: Option<EpochEntry> = None;
    for (number, entry) in entries.iter().enumerate() {
        let (LeaderEpoch(epoch), start) = (entry.epoch, entry.start_offset);
        if epoch < 0 || start.0 < 0 {
            found.push((number, format!("epoch {epoch} from offset {start}: neither can be negative")));
            continue;
        }
        if let Some(last) = before
            && (epoch <= last.epoch.0 || start <= last.start_offset)
        {
            let (LeaderEpoch(other), from) = (last.epoch, last.start_offset);
            found
                .push((number, format!("epoch {epoch} from offset {start} after epoch {other} from {from}")));
            continue;
        }
        before = Some(*entry);
    }
    found
}

/// The first entry (by number) that `run` contradicts, and how; `None` for the number means that an entry is missing at
/// the end. Sorted entries only.
pub fn contradiction(entries: &[EpochEntry], run: &EpochRun) -> Option<(Option<usize>, String)> {
    let after = entries.partition_point(|entry| entry.start_offset <= run.first);
    // Below the first entry is below the log start.
    let at = after.checked_sub(1)?;
    let (entry, LeaderEpoch(own)) = (entries.get(at)?, run.epoch);
    let (LeaderEpoch(said), start) = (entry.epoch, entry.start_offset);
    if let Some(late) = entries.iter().position(|entry| entry.epoch == run.epoch).filter(|late| *late > at) {
        let start = entries.get(late)?.start_offset;
        return Some((
            Some(late),
            format!("says epoch {own} from offset {start} on, batches from {} on have it", run.first),
        ));
    }
    if said != own {
        let is_missing = after == entries.len() && own > said;
        let cause =
            format!("says epoch {said} from offset {start} on, batches from {} on have {own}", run.first);
        return Some(((!is_missing).then_some(at), cause));
    }
    let next = entries.get(after)?;
    let LeaderEpoch(newer) = next.epoch;
    let cause = || {
        format!(
            "says epoch {newer} from offset {} on, batches up to {} have {own}",
            next.start_offset, run.last
        )
    };
    (next.start_offset <= run.last).then(|| (Some(after), cause()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(epoch: i32, first: i64, last: i64) -> EpochRun {
        let (first, last) = (Offset(first), Offset(last));
        EpochRun { epoch: LeaderEpoch(epoch), first, last, position: Position(0), len: 0 }
    }

    fn entry(epoch: i32, start: i64) -> EpochEntry {
        EpochEntry { epoch: LeaderEpoch(epoch), start_offset: Offset(start) }
    }

    #[test]
    fn the_one_that_stands_out_is_wrong() {
        let wrong = |epochs: &[i32]| {
            let runs: Vec<_> = (0..).zip(epochs).map(|(at, epoch)| run(*epoch, at, at)).collect();
            going_back(&runs).into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(wrong(&[0, 2, 4]), [0; 0]);
        assert_eq!(wrong(&[0, 64, 0, 2]), [1]);
        assert_eq!(wrong(&[2, 4, 0, 4, 6]), [2]);
        assert_eq!(wrong(&[64, 0, 2]), [1, 2], "nobody can tell here");
    }

    #[test]
    fn entries_grow_in_both() {
        assert_eq!(unsorted(&[entry(0, 0), entry(4, 50), entry(6, 51)]), []);
        assert_eq!(unsorted(&[entry(0, 0), entry(4, 50), entry(2, 70), entry(6, 90)])[0].0, 2);
        assert_eq!(unsorted(&[entry(0, 5), entry(1, 5)])[0].0, 1);
        assert_eq!(unsorted(&[entry(-1, 5)])[0].0, 0);
    }

    #[test]
    fn entries_and_batches_agree() {
        let entries = [entry(2, 10), entry(4, 50)];
        assert_eq!(contradiction(&entries, &run(0, 0, 9)), None, "below the log start");
        assert_eq!(contradiction(&entries, &run(2, 10, 49)), None);
        assert_eq!(contradiction(&entries, &run(2, 20, 30)), None, "compacted");
        assert_eq!(contradiction(&entries, &run(4, 50, 99)), None);
        let number = |run| contradiction(&entries, &run).map(|(number, _)| number);
        assert_eq!(number(run(2, 10, 50)), Some(Some(1)));
        assert_eq!(number(run(3, 20, 30)), Some(Some(0)));
        assert_eq!(number(run(6, 90, 99)), Some(None), "missing at the end");
    }
}
