//! What goes when a log is cut: how much, and which transactions lose their end.

use std::sync::Arc;

use crate::format::batch::{Batch, Decoder, Limits};
use crate::format::control::ControlType;
use crate::log::LogError;
use crate::log::append::replay::Replay;
use crate::log::derived::epochs::Epochs;
use crate::log::derived::producers::{Contents, Producers};
use crate::log::segment::Segment;
use crate::log::segment::scan::Step;
use crate::units::{Offset, Timestamp};

/// What is cut from a log.
#[derive(Debug, Default)]
pub struct Gone {
    /// Bytes of logs.
    pub bytes: u64,
    /// Batches.
    pub batches: u64,
    /// Records, control records not among them.
    pub records: u64,
    /// The first offset of the first batch, and the last of the last.
    pub offsets: Option<(Offset, Offset)>,
    /// The smallest and the largest timestamp of its batches.
    pub times: Option<(Timestamp, Timestamp)>,
    /// How many ends of transactions are among it.
    pub markers: Markers,
    replay: Option<Replay>,
}

/// Ends of transactions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Markers {
    /// Commits.
    pub commits: u64,
    /// Aborts.
    pub aborts: u64,
}

impl Gone {
    /// The offset after the last batch.
    pub(super) fn end(&self) -> Option<Offset> {
        self.offsets.map(|(_, last)| last.next())
    }

    /// Goes on with the producers of what stays.
    pub(super) fn go_on(&mut self, replay: Replay) {
        self.replay = Some(replay);
    }

    /// Takes in all batches of a segment; the offset after the last, which is its base where it has none.
    pub(super) fn read_all(&mut self, segment: &Arc<Segment>, limits: Limits) -> Result<Offset, LogError> {
        let none = || Replay::new(Producers::default(), Epochs::default(), limits);
        let mut replay = self.replay.take().unwrap_or_else(none);
        let mut scanner = segment.scan(segment.start())?;
        let mut end = segment.base;
        loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { batch, .. } => {
                    self.add(&batch, &mut replay, limits);
                    end = batch.header.last_offset.next();
                }
                Step::Damage(_) => {}
                Step::End(_) => break,
            }
        }
        self.replay = Some(replay);
        self.bytes += segment.stored_len()?;
        Ok(end)
    }

    /// Takes in a batch; its first offset.
    pub(super) fn add(&mut self, batch: &Batch<'_>, replay: &mut Replay, limits: Limits) -> Offset {
        let header = &batch.header;
        let mut decoder = Decoder::default();
        let first = batch.first_offset(&mut decoder, &limits).unwrap_or_else(|| header.first_known());
        self.batches += 1;
        self.offsets = Some((self.offsets.map_or(first, |(first, _)| first), header.last_offset));
        let is_time = |time: &Timestamp| time.0 >= 0;
        let base = (!header.has_delete_horizon).then_some(header.base_timestamp).filter(is_time);
        for time in base.into_iter().chain(Some(header.max_timestamp).filter(is_time)) {
            self.times = Some(self.times.map_or((time, time), |(from, to)| (from.min(time), to.max(time))));
        }
        if header.is_control {
            self.end_transaction(batch, replay, &mut decoder, limits);
        } else {
            let decoded =
                || Contents::of(batch, &mut decoder, &limits).map_or(0, |contents| contents.records);
            self.records += header.record_count.map_or_else(decoded, u64::from);
        }
        replay.append(batch);
        first
    }

    fn end_transaction(&mut self, batch: &Batch<'_>, replay: &Replay, decoder: &mut Decoder, limits: Limits) {
        let is_open = replay.producers.open().any(|(_, producer)| Some(producer) == batch.header.producer_id);
        let marker = Contents::of(batch, decoder, &limits).ok().and_then(|contents| contents.marker);
        match marker.filter(|_| is_open).map(|marker| marker.control) {
            Some(ControlType::Commit) => self.markers.commits += 1,
            Some(ControlType::Abort) => self.markers.aborts += 1,
            _ => {}
        }
    }
}
