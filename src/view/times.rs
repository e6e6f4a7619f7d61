//! The times of a partition's segments, kept in memory and in the cache, and records found by their time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::log::LogError;
use crate::log::bounded;
use crate::log::segment::time_hint;
use crate::log::segment::times::{Timed, Times};
use crate::log::segment::{Segment, SegmentUid};
use crate::log::sidecar::WORTH_SAVING;
use crate::units::{Offset, Period, Timestamp};
use crate::view::env::Env;
use crate::view::layout::Block;
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};

/// Segments whose times are kept; a segment of 1 GiB takes 50 KB.
const KEPT_SEGMENTS: usize = 1024;
/// Measured segments whose smallest and largest timestamps are kept.
const MEASURED_SEGMENTS: usize = 64 * 1024;
/// The name of what is saved of a segment.
const KIND: &str = "times";

/// The smallest and the largest timestamp of a segment's visible records; `None` when it has none.
type Bounds = Option<(Timestamp, Timestamp)>;

/// What is known of each segment.
#[derive(Debug)]
pub struct KnownTimes {
    segments: Mutex<LruCache<SegmentUid, Arc<Mutex<Arc<Times>>>>>,
    /// Of sealed segments that were measured, with or without the records of aborted transactions.
    measured: Mutex<LruCache<(SegmentUid, bool), Bounds>>,
}

impl Default for KnownTimes {
    fn default() -> Self {
        let (segments, measured) = (bounded::lru(KEPT_SEGMENTS), bounded::lru(MEASURED_SEGMENTS));
        Self { segments: Mutex::new(segments), measured: Mutex::new(measured) }
    }
}

impl KnownTimes {
    fn of(&self, env: &Env<'_>, segment: &Segment) -> Arc<Mutex<Arc<Times>>> {
        if let Some(known) = lock(&self.segments).get(&segment.uid) {
            return known.clone();
        }
        let loaded = Arc::new(Mutex::new(Arc::new(load(env, segment).unwrap_or_default())));
        lock(&self.segments).get_or_insert(segment.uid, || loaded).clone()
    }
}

impl PartitionView {
    /// Source bytes that [`Self::times`] would read; more than any number of them where a segment must be unpacked.
    pub fn times_cost(&self, env: &Env<'_>, segment: &Segment) -> u64 {
        if segment.is_looked_through() {
            return 0;
        }
        if !segment.is_at_hand() {
            return u64::MAX;
        }
        let Ok((file, len)) = segment.open() else { return 0 };
        lock(&self.known_times.of(env, segment)).unread(segment, &file, len)
    }

    /// The times of a segment as it is now, from its start to its end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn times(&self, env: &Env<'_>, segment: &Segment) -> Result<Arc<Times>, LogError> {
        let known = self.known_times.of(env, segment);
        let mut has_worked = false;
        loop {
            let mut times = lock(&known);
            // Asked first: it may be written to and sealed meanwhile.
            let is_sealed = !segment.is_active();
            let (file, len) = segment.open()?;
            if times.unread(segment, &file, len) == 0 {
                if is_sealed && times.is_all() {
                    let _ = segment.facts.largest.set(times.largest());
                }
                if has_worked {
                    save(env, segment, &times);
                }
                return Ok(times.clone());
            }
            let read = Arc::make_mut(&mut times).extend(segment)?;
            drop(times);
            has_worked = true;
            if env.paced {
                env.shared.pace(read);
            }
        }
    }

    /// The offsets of a segment between which all its records of a period are; `None` when telling costs more than is `left`.
    ///
    /// # Errors
    /// Those of reading.
    pub(super) fn offsets_of(
        &self,
        env: &Env<'_>,
        segment: &Arc<Segment>,
        period: Period,
        left: &mut u64,
    ) -> Result<Option<(Offset, Offset)>, LogError> {
        let none = (segment.below(), segment.below());
        if let Some(bounds) = self.measured_times(env, segment) {
            let touches = bounds.is_some_and(|(smallest, largest)| period.touches(smallest, largest));
            return Ok(Some(if touches { (segment.lower, segment.below()) } else { none }));
        }
        let cost = self.times_cost(env, segment);
        if cost > *left {
            return Ok(None);
        }
        *left -= cost;
        Ok(Some(self.times(env, segment)?.offsets_of(period).unwrap_or(none)))
    }

    /// What measuring told of a segment's records, which is more than headers do; `None` if it isn't measured to its end.
    fn measured_times(&self, env: &Env<'_>, segment: &Arc<Segment>) -> Option<Bounds> {
        let key = (segment.uid, env.decided.is_some());
        if let Some(bounds) = lock(&self.known_times.measured).get(&key) {
            return Some(*bounds);
        }
        if !segment.is_at_hand() {
            return None;
        }
        // Of what lies behind an open transaction nothing is known yet. Asked first: it may be written to and sealed meanwhile.
        let is_final = !segment.is_active() && segment.below() <= env.bound();
        let run = self.run(env, segment);
        if !run.is_complete(env, None) {
            return None;
        }
        let blocks = run.blocks();
        let times = blocks.iter().filter_map(Block::timestamps);
        let bounds = times.reduce(|(low, high), (min, max)| (low.min(min), high.max(max)));
        if is_final {
            lock(&self.known_times.measured).push(key, bounds);
        }
        Some(bounds)
    }

    /// The first record at or after `time`, markers and records of aborted transactions among them, as a broker answers
    /// ListOffsets; `None` when there is none before the view's end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn first_at(&self, committed: bool, time: Timestamp) -> Result<Option<Offset>, LogError> {
        let start = self.start()?;
        let found = self.with_env(committed, |env| {
            for segment in self.partition.segments()?.iter().filter(|segment| segment.below() > start) {
                let is_older = |largest: &Option<Timestamp>| largest.is_none_or(|largest| largest < time);
                if segment.facts.largest.get().is_some_and(is_older) {
                    continue;
                }
                let times = self.times(env, segment)?;
                if times.largest().is_some_and(|largest| largest >= time)
                    && let Some(found) = times.first_at(segment, time, start)?
                {
                    return Ok(Some(found.offset));
                }
            }
            Ok::<_, LogError>(None)
        })?;
        // The end is asked for afterwards: what came meanwhile is a record like others.
        let end = self.end(committed)?;
        Ok(found.filter(|offset| *offset < end))
    }

    /// The first record that has the largest timestamp, found among the same (KIP-734); it may lie below the log start, as a
    /// broker's answer may.
    ///
    /// # Errors
    /// Those of reading.
    pub fn first_largest(&self, committed: bool) -> Result<Option<Offset>, LogError> {
        let found = self.with_env(committed, |env| {
            let mut best: Option<(Timed, Arc<Segment>)> = None;
            for segment in self.partition.segments()?.iter() {
                let times = self.times(env, segment)?;
                let Some(largest) = times.largest() else { continue };
                if best.as_ref().is_some_and(|(best, _)| best.timestamp >= largest) {
                    continue;
                }
                if let Some(found) = times.first_largest(segment)? {
                    best = Some((found, segment.clone()));
                }
            }
            Ok::<_, LogError>(best.map(|(found, _)| found.offset))
        })?;
        // As above.
        let end = self.end(committed)?;
        Ok(found.filter(|offset| *offset < end))
    }

    /// The first time at or after `time` at which there may be records. Cheap, so perhaps not the truth: of a large segment that was not
    /// looked at, every time between its first batch and the last entry of its time index counts.
    ///
    /// # Errors
    /// Those of listing.
    pub fn next_time(&self, committed: bool, time: Timestamp) -> Result<Option<Timestamp>, LogError> {
        let start = self.start()?;
        self.with_env(committed, |env| {
            let mut next: Option<Timestamp> = None;
            for segment in self.partition.segments()?.iter().filter(|segment| segment.below() > start) {
                let found = if self.times_cost(env, segment) <= CHEAP_BYTES {
                    self.times(env, segment)?.next_time(time)
                } else {
                    time_hint::next_time(segment, time)
                };
                next = [next, found].into_iter().flatten().min();
            }
            Ok(next)
        })
    }
}

fn load(env: &Env<'_>, segment: &Segment) -> Option<Times> {
    let sidecars = env.shared.sidecars.as_ref().filter(|_| !segment.is_packed())?;
    let (file, len) = segment.open().ok()?;
    Times::decode(sidecars.load(&file, KIND)?.bytes(), len)
}

/// Saves what is known of a sealed segment that is worth it.
fn save(env: &Env<'_>, segment: &Segment, times: &Times) {
    let Some(sidecars) = env.shared.sidecars.as_ref().filter(|_| !segment.is_packed()) else { return };
    let Ok((file, len)) = segment.open() else { return };
    let Some(payload) = times.encode().filter(|_| len >= WORTH_SAVING && !segment.is_active()) else {
        return;
    };
    if let Err(error) = sidecars.save(&file, KIND, &payload) {
        tracing::debug!(file = %segment.path.display(), %error, "times could not be saved");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
