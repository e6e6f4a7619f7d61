//! What the batches of a log say of its producers and leader epochs, gathered batch after batch.

use std::path::Path;
use std::sync::Arc;

use crate::format::batch::{Batch, Decoder, Limits};
use crate::format::index::AbortedTxn;
use crate::format::names::{FileType, SegmentFile};
use crate::log::LogError;
use crate::log::append::recovery::files::{read_epochs, read_snapshot};
use crate::log::derived::epochs::{EpochRecovery, Epochs};
use crate::log::derived::producers::{Contents, Producers};
use crate::log::segment::Segment;
use crate::log::segment::scan::Step;
use crate::units::Offset;

/// The state of a log at the offset up to which it was read.
#[derive(Debug)]
pub(in crate::log) struct Replay {
    /// Its producers.
    pub(in crate::log) producers: Producers,
    epochs: EpochRecovery,
    decoder: Decoder,
    limits: Limits,
}

impl Replay {
    /// Begins with the state that was stored.
    pub(in crate::log) fn new(producers: Producers, epochs: Epochs, limits: Limits) -> Self {
        Self { producers, epochs: EpochRecovery::new(epochs), decoder: Decoder::default(), limits }
    }

    /// Takes a batch in; the transaction that it aborted, if it did. What no producer can have written changes nothing.
    pub(in crate::log) fn append(&mut self, batch: &Batch<'_>) -> Option<AbortedTxn> {
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
    pub(in crate::log) fn finish(self, start: Offset, end: Offset) -> (Producers, Epochs) {
        (self.producers, self.epochs.finish(start, end))
    }
}

/// The producers and epochs at an offset of a sound log: those of the newest snapshot, and what came after it. A log without
/// snapshots that was stopped in order has no producers, as for Kafka.
///
/// # Errors
/// Those of reading.
pub(in crate::log) fn state_at(
    directory: &Path,
    segments: &[Arc<Segment>],
    end: Offset,
    limits: Limits,
) -> Result<(Producers, Epochs), LogError> {
    let epochs = read_epochs(directory);
    let snapshots = snapshots(directory);
    if snapshots.is_empty() {
        return Ok((Producers::default(), epochs));
    }
    let newest = snapshots.into_iter().rev().filter(|at| *at <= end);
    let newest = { newest }.find_map(|at| Some((at, read_snapshot(directory, at)?)));
    let (at, producers) = newest.unwrap_or((Offset(i64::MIN), Producers::default()));
    let mut replay = Replay::new(producers, epochs, limits);
    let first = segments.partition_point(|segment| segment.below() <= at);
    let is_needed = |segment: &&Arc<Segment>| at < end && segment.base < end;
    for segment in segments.get(first..).unwrap_or_default().iter().filter(is_needed) {
        let mut scanner = segment.scan(segment.start())?;
        loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { batch, .. } if batch.header.last_offset >= end => break,
                Step::Batch { batch, .. } if batch.header.last_offset >= at => {
                    replay.append(&batch);
                }
                Step::Batch { .. } | Step::Damage(_) => {}
                Step::End(_) => break,
            }
        }
    }
    let start = segments.first().map_or(end, |segment| segment.base);
    Ok(replay.finish(start, end))
}

/// Where the producer snapshots of a directory are, in order.
pub(in crate::log) fn snapshots(directory: &Path) -> Vec<Offset> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<Offset> = entries
        .filter_map(|entry| SegmentFile::parse(entry.file_name().to_str()?))
        .filter(|file| *file == SegmentFile::live(file.base, FileType::Snapshot))
        .map(|file| file.base)
        .collect();
    found.sort_unstable();
    found
}
