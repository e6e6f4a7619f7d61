//! One round: the keys of the dirty part are mapped, then the segments are written anew.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::format::batch::{BatchError, Decoder};
use crate::format::batch_rewriter::BatchRewriter;
use crate::log::LogError;
use crate::log::append::recovery::files::partition_of;
use crate::log::files::disk;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::upkeep::compaction::offset_map::{KeyHash, OffsetMap};
use crate::log::upkeep::compaction::progress::Progress;
use crate::log::upkeep::compaction::range::Cleanable;
use crate::log::upkeep::compaction::reading::{self, Made, Met};
use crate::log::upkeep::compaction::replacing::{self, Replacing};
use crate::log::upkeep::compaction::survivors::{LastBatch, Scratch, Seen, Survivors};
use crate::log::upkeep::compaction::writer::{Cleaned, Writer};
use crate::log::upkeep::compaction::{Compacted, Compaction, CompactionError, Settings, Watcher};
use crate::log::upkeep::listing::ListedSegment;
use crate::units::{Offset, Timestamp};

/// A round of compaction.
pub(super) struct Round<'a> {
    compaction: &'a Compaction<'a>,
    segments: Arc<[Arc<Segment>]>,
    progress: Progress,
    watcher: &'a Watcher<'a>,
}

/// The keys of some batches that lie behind one another.
#[derive(Default)]
struct Keys {
    hashes: Vec<(KeyHash, Offset)>,
    /// How many of them there are up to the end of each batch, and its last offset.
    batches: Vec<(usize, Offset)>,
}

/// What is left of some batches that lie behind one another, and what isn't.
#[derive(Default)]
struct Judgements {
    cleaned: Cleaned,
    /// Records that were read.
    records: u64,
    /// Records that went because they had no key.
    without_key: u64,
}

impl<'a> Round<'a> {
    pub(super) fn new(compaction: &'a Compaction<'a>, watcher: &'a Watcher<'a>) -> Result<Self, LogError> {
        let limits = compaction.settings.limits;
        let partition = partition_of(compaction.directory, compaction.name, limits);
        let segments = partition.segments()?;
        Ok(Self { compaction, segments, progress: Progress::new(partition, limits), watcher })
    }

    /// The last offsets of the keys in the dirty part.
    ///
    /// # Errors
    /// Why it can't be read.
    pub(super) fn map(&mut self) -> Result<OffsetMap, CompactionError> {
        let Cleanable { first_dirty: from, first_uncleanable: below, .. } = self.compaction.cleanable;
        let Settings { map_bytes, limits, .. } = self.compaction.settings;
        let offsets = u64::try_from(below.0.saturating_sub(from.0)).unwrap_or(0);
        let mut map = OffsetMap::new(map_bytes, offsets);
        let hasher = map.hasher().clone();
        let dirty = Partition::floor(&self.segments, from)..self.below(below);
        let dirty = self.segments.get(dirty).unwrap_or_default();
        let find_keys = |decoder: &mut Decoder, met: Met<'_>, keys: &mut Keys| {
            let header = &met.batch.header;
            if header.last_offset < from {
                return Ok(());
            }
            if !header.is_control && !met.discard.may_go {
                let unreadable = |error| undecodable(&met, &error);
                for record in met.batch.records(decoder, &limits).map_err(unreadable)? {
                    let record = record.map_err(unreadable)?;
                    let key = record.key.filter(|_| record.offset >= from);
                    keys.hashes.extend(key.map(|key| (hasher.hash(key), record.offset)));
                }
            }
            keys.batches.push((keys.hashes.len(), header.last_offset));
            Ok(())
        };
        let (watcher, directory) = (self.watcher, self.compaction.directory);
        reading::read((dirty, from), &mut self.progress, find_keys, |made: &mut Made<Keys>| {
            watcher.see(made.bytes, directory)?;
            let Keys { hashes, batches } = &mut made.result;
            let mut begin = 0;
            for (end, last) in batches.drain(..) {
                let of_batch = hashes.get(begin..end).unwrap_or_default();
                map.touch(of_batch.iter().map(|(hash, _)| *hash));
                if !of_batch.iter().all(|(hash, offset)| map.put(*hash, *offset)) {
                    return Ok(ControlFlow::Break(()));
                }
                map.set_latest(last);
                begin = end;
            }
            hashes.clear();
            if made.is_last {
                // Offsets may be missing at its end.
                map.set_latest(made.segment.below().min(below).plus(-1));
            }
            Ok(ControlFlow::Continue(()))
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
        let listed = compaction.segments.get(..count).unwrap_or_default();
        let first = listed.first().map_or(end, |first| first.base);
        let sources = self.segments.get(self.below(first)..self.below(end)).unwrap_or_default();
        if !sources.iter().map(|segment| segment.base).eq(listed.iter().map(|listed| listed.base)) {
            return Err(LogError::Stale { path: compaction.directory.to_owned() }.into());
        }
        let survivors = Survivors {
            map,
            now,
            delete_retention_ms,
            high_watermark: compaction.high_watermark,
            producers: LastBatch::of_all(compaction.producers, now, producer_expiration_ms),
            limits,
        };
        let old_horizon = self.old_tombstone_horizon();
        let judge = |(scratch, rewriter): &mut (Scratch, BatchRewriter),
                     met: Met<'_>,
                     judgements: &mut Judgements| {
            let keeps_old_tombstones =
                listed.get(met.number).is_some_and(|listed| listed.modified > old_horizon);
            let seen = Seen { batch: &met.batch, may_go: met.discard.may_go, keeps_old_tombstones };
            let judged = survivors.judge(seen, scratch).map_err(|error| undecodable(&met, &error))?;
            judgements.records += u64::from(met.batch.header.record_count.unwrap_or(0));
            judgements.without_key += judged.without_key;
            let appended = judgements.cleaned.append(&met.batch, judged.left, met.discard.aborted, rewriter);
            appended.map_err(|error| disk::failed(&met.segment.path, "compress", error).into())
        };
        let mut compacted = Compacted { end, ..Compacted::default() };
        let (watcher, progress) = (self.watcher, &mut self.progress);
        let replaced = replacing::replace_each(compaction, watcher.set_aside, |replacing| {
            let mut groups = Groups {
                compaction,
                counts: compaction.groups(listed).into_iter(),
                rest: listed,
                current: None,
            };
            reading::read((sources, Offset(i64::MIN)), progress, judge, |made| {
                watcher.see(made.bytes, compaction.directory)?;
                let Judgements { cleaned, records, without_key } = &mut made.result;
                compacted.records.0 += std::mem::take(records);
                compacted.records.1 += std::mem::take(&mut cleaned.records);
                compacted.without_key += std::mem::take(without_key);
                groups.write(cleaned, made.is_last, replacing)?;
                Ok(ControlFlow::Continue(()))
            })
        })?;
        compacted.bytes = (listed.iter().map(|listed| listed.len).sum(), replaced.bytes);
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
}

/// The groups of segments of each of which one becomes, or more where offsets or bytes don't fit into one.
struct Groups<'a> {
    compaction: &'a Compaction<'a>,
    counts: std::vec::IntoIter<usize>,
    /// Segments of groups that aren't read yet.
    rest: &'a [ListedSegment],
    current: Option<Group<'a>>,
}

/// A group of segments that is read.
struct Group<'a> {
    listed: &'a [ListedSegment],
    /// How many of its segments have been read.
    read: usize,
    writer: Writer<'a>,
}

impl<'a> Groups<'a> {
    /// Writes what is left of some batches, the last ones of a segment perhaps; of the last segment of a group, has the group replaced.
    fn write(
        &mut self,
        cleaned: &mut Cleaned,
        is_last: bool,
        replacing: &mut Replacing<'a>,
    ) -> Result<(), CompactionError> {
        let mut group = match self.current.take() {
            Some(group) => group,
            None => self.next()?,
        };
        group.writer.write(cleaned, replacing)?;
        group.read += usize::from(is_last);
        if group.read == group.listed.len() {
            return replacing.replace(group.listed, group.writer);
        }
        self.current = Some(group);
        Ok(())
    }

    fn next(&mut self) -> Result<Group<'a>, LogError> {
        let count = self.counts.next().unwrap_or(self.rest.len());
        let (listed, behind) = self.rest.split_at_checked(count).unwrap_or((self.rest, &[]));
        self.rest = behind;
        let stale = || LogError::Stale { path: self.compaction.directory.to_owned() };
        let base = listed.first().ok_or_else(stale)?.base;
        Ok(Group { listed, read: 0, writer: Writer::new(self.compaction, base)? })
    }
}

fn undecodable(met: &Met<'_>, error: &BatchError) -> CompactionError {
    let (path, position) = (met.segment.path.clone(), met.position);
    CompactionError::Damaged { path, position, cause: error.to_string() }
}
