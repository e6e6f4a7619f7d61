//! One round: the keys of the dirty part are mapped, then the segments are written anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::format::batch::{Batch, BatchError, Decoder};
use crate::format::index::{AbortedTxn, TxnIndex};
use crate::format::names::FileType;
use crate::log::LogError;
use crate::log::append::recovery::files::partition_of;
use crate::log::files;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::segment::beside::MAX_INDEX_BYTES;
use crate::log::transactions::{Decided, Transactions};
use crate::log::upkeep::compaction::offset_map::{KeyHash, OffsetMap};
use crate::log::upkeep::compaction::range::Cleanable;
use crate::log::upkeep::compaction::reading::{self, Event, Next};
use crate::log::upkeep::compaction::replacing::{self, Replacing};
use crate::log::upkeep::compaction::survivors::{LastBatch, Progress, Seen, Survivors};
use crate::log::upkeep::compaction::writer::Writer;
use crate::log::upkeep::compaction::{Compacted, Compaction, CompactionError, Settings, Watcher};
use crate::log::upkeep::listing::ListedSegment;
use crate::units::{Offset, Position, ProducerId, Timestamp};

/// A round of compaction.
pub(super) struct Round<'a> {
    compaction: &'a Compaction<'a>,
    partition: Partition,
    segments: Arc<[Arc<Segment>]>,
    /// Known from the first batch of a transaction on.
    decided: Option<Arc<Decided>>,
    decoder: Decoder,
    /// Of the keys of one batch, and their offsets.
    hashes: Vec<(KeyHash, Offset)>,
    watcher: &'a Watcher<'a>,
}

impl<'a> Round<'a> {
    pub(super) fn new(compaction: &'a Compaction<'a>, watcher: &'a Watcher<'a>) -> Result<Self, LogError> {
        let partition = partition_of(compaction.directory, compaction.name, compaction.settings.limits);
        let segments = partition.segments()?;
        let (decoder, hashes) = (Decoder::default(), Vec::new());
        Ok(Self { compaction, segments, partition, decided: None, decoder, hashes, watcher })
    }

    /// The last offsets of the keys in the dirty part.
    ///
    /// # Errors
    /// Why it can't be read.
    pub(super) fn map(&mut self) -> Result<OffsetMap, CompactionError> {
        let Cleanable { first_dirty: from, first_uncleanable: below, .. } = self.compaction.cleanable;
        let settings = &self.compaction.settings;
        let offsets = u64::try_from(below.0.saturating_sub(from.0)).unwrap_or(0);
        let mut map = OffsetMap::new(settings.map_bytes, offsets);
        let segments = self.segments.clone();
        let dirty = Partition::floor(&segments, from)..self.below(below);
        reading::read(segments.get(dirty).unwrap_or_default(), from, |segment, event| {
            let Event::Batch(position, batch) = event else {
                // Offsets may be missing at its end.
                map.set_latest(segment.below().min(below).plus(-1));
                return Ok(Next::Go);
            };
            self.watch(&batch)?;
            if batch.header.last_offset < from {
                return Ok(Next::Go);
            }
            if !batch.header.is_control && !self.is_aborted(&batch)? {
                let unreadable = |error| undecodable(segment, position, &error);
                let records = batch.records(&mut self.decoder, &settings.limits).map_err(unreadable)?;
                // All hashes first: the processor waits for memory only once then.
                self.hashes.clear();
                for record in records {
                    let record = record.map_err(unreadable)?;
                    let key = record.key.filter(|_| record.offset >= from);
                    self.hashes.extend(key.map(|key| (map.hash(key), record.offset)));
                }
                if !self.hashes.iter().all(|(hash, offset)| map.put(*hash, *offset)) {
                    return Ok(Next::Stop);
                }
            }
            map.set_latest(batch.header.last_offset);
            Ok(Next::Go)
        })?;
        Ok(map)
    }

    /// How many segments begin below an offset.
    fn below(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base < offset)
    }

    /// Writes the segments below `end` anew.
    ///
    /// # Errors
    /// What can't be read or written.
    pub(super) fn clean(&mut self, map: &OffsetMap, end: Offset) -> Result<Compacted, CompactionError> {
        let compaction = self.compaction;
        let Settings { now, delete_retention_ms, producer_expiration_ms, limits, .. } = compaction.settings;
        let count = compaction.segments.partition_point(|segment| segment.base < end);
        let below_end = compaction.segments.get(..count).unwrap_or_default();
        let mut survivors = Survivors {
            map,
            now,
            delete_retention_ms,
            high_watermark: compaction.high_watermark,
            producers: LastBatch::of_all(compaction.producers, now, producer_expiration_ms),
            progress: Progress::default(),
            limits,
            hashes: Vec::new(),
        };
        let old_horizon = self.old_tombstone_horizon();
        let set_aside = self.watcher.set_aside;
        let mut compacted = Compacted { end, ..Compacted::default() };
        let replaced = replacing::replace_each(compaction, set_aside, |replacing| {
            let mut rest = below_end;
            for count in compaction.groups(below_end) {
                let (group, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
                rest = behind;
                let written =
                    self.clean_group(group, (replacing, old_horizon), &mut survivors, &mut compacted);
                replacing.replace(group, written?)?;
            }
            Ok(())
        })?;
        compacted.bytes.1 = replaced.bytes;
        compacted.segments = replaced.segments;
        Ok(compacted)
    }

    /// Below magic 2 tombstones go that are in a file older than this.
    fn old_tombstone_horizon(&self) -> Timestamp {
        let compaction = self.compaction;
        let first_dirty = compaction.cleanable.first_dirty;
        let clean = compaction.segments.partition_point(|segment| segment.base < first_dirty);
        let last = clean.checked_sub(1).and_then(|last| compaction.segments.get(last));
        let retention = i64::try_from(compaction.settings.delete_retention_ms).unwrap_or(i64::MAX);
        last.map_or(Timestamp(0), |last| Timestamp(last.modified.0.saturating_sub(retention)))
    }

    /// Writes what is left of some segments as one, or more where offsets or bytes don't fit into one.
    fn clean_group(
        &mut self,
        group: &[ListedSegment],
        (replacing, old_horizon): (&Replacing<'_>, Timestamp),
        survivors: &mut Survivors<'_>,
        compacted: &mut Compacted,
    ) -> Result<Writer<'a>, CompactionError> {
        let compaction = self.compaction;
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            return Err(LogError::Stale { path: compaction.directory.to_owned() }.into());
        };
        let mut writer = Writer::new(compaction, first.base)?;
        let segments = self.segments.clone();
        let sources = segments.get(self.below(first.base)..self.below(last.base.next())).unwrap_or_default();
        if !sources.iter().map(|segment| segment.base).eq(group.iter().map(|listed| listed.base)) {
            return Err(LogError::Stale { path: compaction.directory.to_owned() }.into());
        }
        let (mut number, mut index) = (0, None);
        reading::read(sources, Offset(i64::MIN), |segment, event| {
            let Event::Batch(position, batch) = event else {
                (number, index) = (number + 1, None);
                return Ok(Next::Go);
            };
            self.watch(&batch)?;
            let is_aborted = self.is_aborted(&batch)?;
            let keeps_old_tombstones = group.get(number).is_some_and(|listed| listed.modified > old_horizon);
            let seen = Seen { batch: &batch, is_aborted, keeps_old_tombstones };
            let judged = survivors
                .judge(seen, &mut self.decoder)
                .map_err(|error| undecodable(segment, position, &error))?;
            compacted.without_key += judged.without_key;
            compacted.records.0 += u64::from(batch.header.record_count.unwrap_or(0));
            let is_needed_abort = judged.is_needed_abort;
            compacted.records.1 += writer.write(&batch, judged.left, replacing)?;
            if is_needed_abort {
                let index = index.get_or_insert_with(|| aborted_in(segment));
                writer.add_aborted(aborted_by(&batch, index, self.decided.as_deref()));
            }
            Ok(Next::Go)
        })?;
        compacted.bytes.0 += group.iter().map(|listed| listed.len).sum::<u64>();
        Ok(writer)
    }

    /// Whether a batch is data of a transaction that was aborted.
    fn is_aborted(&mut self, batch: &Batch<'_>) -> Result<bool, CompactionError> {
        let header = &batch.header;
        let Some(producer) = header.producer_id.filter(|_| header.is_transactional && !header.is_control)
        else {
            return Ok(false);
        };
        if self.decided.is_none() {
            self.decided = Some(Transactions::default().decided(&self.partition, None)?);
        }
        let decided = self.decided.as_ref();
        Ok(decided.is_some_and(|decided| decided.is_aborted(producer, header.first_known())))
    }

    fn watch(&self, batch: &Batch<'_>) -> Result<(), CompactionError> {
        (self.watcher.read)(batch.bytes.len() as u64);
        if self.watcher.stop.load(Ordering::Relaxed) {
            return Err(CompactionError::Stopped { path: self.compaction.directory.to_owned() });
        }
        Ok(())
    }
}

/// The entries of a segment's transaction index.
fn aborted_in(segment: &Segment) -> Vec<AbortedTxn> {
    let bytes = files::read_small(&segment.beside(FileType::TxnIndex), MAX_INDEX_BYTES).unwrap_or_default();
    TxnIndex::new(&bytes).entries().collect()
}

/// The entry of the transaction index that a marker has.
fn aborted_by(marker: &Batch<'_>, index: &[AbortedTxn], decided: Option<&Decided>) -> AbortedTxn {
    let at = marker.header.last_offset;
    let producer_id = marker.header.producer_id.unwrap_or(ProducerId(-1));
    let is_its = |entry: &&AbortedTxn| entry.producer_id == producer_id && entry.last_offset == at;
    if let Some(entry) = index.iter().find(is_its) {
        return *entry;
    }
    let all = decided.map(|decided| decided.aborted_between(at, at)).unwrap_or_default();
    let txn = all.iter().find(|txn| txn.producer == producer_id && txn.last == at);
    let first_offset = txn.map_or(at, |txn| txn.first);
    AbortedTxn { version: 0, producer_id, first_offset, last_offset: at, last_stable_offset: at.next() }
}

fn undecodable(segment: &Segment, position: Position, error: &BatchError) -> CompactionError {
    CompactionError::Damaged { path: segment.path.clone(), position, cause: error.to_string() }
}
