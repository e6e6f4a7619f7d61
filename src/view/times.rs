//! The times of segments, kept in memory and in the cache, and records found by their time.

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
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};

/// Memory for times, of all partitions together; a segment of 1 GiB takes 250 KB.
const KEPT_BYTES: usize = 32 * 1024 * 1024;
/// And for how many segments at most.
const KEPT_SEGMENTS: usize = 64 * 1024;
/// The name of what is saved of a segment.
const KIND: &str = "times";

/// The times of one segment, replaced as a whole when more is known.
type Known = Arc<Mutex<Arc<Times>>>;

/// What is known of each segment.
#[derive(Debug)]
pub struct KnownTimes(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    /// With the bytes that each takes.
    segments: LruCache<SegmentUid, (Known, usize)>,
    bytes: usize,
}

impl Default for KnownTimes {
    fn default() -> Self {
        Self(Mutex::new(Kept { segments: bounded::lru(KEPT_SEGMENTS), bytes: 0 }))
    }
}

impl KnownTimes {
    fn of(&self, env: &Env<'_>, segment: &Segment) -> Known {
        if let Some((known, _)) = lock(&self.0).segments.get(&segment.uid) {
            return known.clone();
        }
        let loaded = load(env, segment).unwrap_or_default();
        let bytes = loaded.weight();
        lock(&self.0).keep(segment.uid, Arc::new(Mutex::new(Arc::new(loaded))), bytes)
    }

    /// More is known of a segment than when it was kept.
    fn grew(&self, uid: SegmentUid, known: &Known, times: &Times) {
        let mut kept = lock(&self.0);
        if let Some((_, before)) = kept.segments.pop(&uid) {
            kept.bytes -= before;
        }
        kept.keep(uid, known.clone(), times.weight());
    }
}

impl Kept {
    /// Keeps the times of a segment, unless somebody has done so, and gives up those that were used longest ago: what is kept.
    fn keep(&mut self, uid: SegmentUid, known: Known, bytes: usize) -> Known {
        if let Some((known, _)) = self.segments.get(&uid) {
            return known.clone();
        }
        self.bytes += bytes;
        if let Some((_, (_, gone))) = self.segments.push(uid, (known.clone(), bytes)) {
            self.bytes -= gone;
        }
        while self.bytes > KEPT_BYTES
            && self.segments.len() > 1
            && let Some((_, (_, gone))) = self.segments.pop_lru()
        {
            self.bytes -= gone;
        }
        known
    }
}

impl PartitionView {
    /// Source bytes that [`Self::times`] would read; more than any number of them where a segment must be unpacked.
    pub fn times_cost(&self, env: &Env<'_>, segment: &Segment) -> u64 {
        if segment.known_largest().is_some() {
            return 0;
        }
        if !segment.is_at_hand() {
            return u64::MAX;
        }
        let Ok((file, len)) = segment.open() else { return 0 };
        lock(&env.shared.times.of(env, segment)).unread(segment, &file, len)
    }

    /// The times of a segment as it is now, from its start to its end.
    ///
    /// # Errors
    /// Those of reading.
    pub fn times(&self, env: &Env<'_>, segment: &Segment) -> Result<Arc<Times>, LogError> {
        let known = env.shared.times.of(env, segment);
        let mut has_worked = false;
        loop {
            let mut times = lock(&known);
            // Asked first: it may be written to and sealed meanwhile.
            let facts = segment.facts();
            let (file, len) = segment.open()?;
            if times.unread(segment, &file, len) == 0 {
                if let Some(facts) = facts.filter(|_| times.is_all()) {
                    let _ = facts.largest.set(times.largest());
                }
                let times = times.clone();
                if has_worked {
                    env.shared.times.grew(segment.uid, &known, &times);
                    save(env, segment, &times);
                }
                return Ok(times);
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
        if let Some(shown) = self.shown(env, segment) {
            let touches = shown.times.is_some_and(|(smallest, largest)| period.touches(smallest, largest));
            return Ok(Some(if touches { (segment.lower, segment.below()) } else { none }));
        }
        let cost = self.times_cost(env, segment);
        if cost > *left {
            return Ok(None);
        }
        *left -= cost;
        Ok(Some(self.times(env, segment)?.offsets_of(period).unwrap_or(none)))
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
                let is_older = |largest: Option<Timestamp>| largest.is_none_or(|largest| largest < time);
                if segment.known_largest().is_some_and(is_older) {
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

    /// Source bytes that [`Self::first_at`] reads to learn when the records of segments were written, unless none of the first one that is known to
    /// have one that is new enough can be decoded.
    ///
    /// # Errors
    /// Those of listing.
    pub fn first_at_cost(&self, committed: bool, time: Timestamp) -> Result<u64, LogError> {
        self.with_env(committed, |env| {
            let mut cost: u64 = 0;
            for segment in self.partition.segments()?.iter() {
                match segment.known_largest() {
                    Some(Some(largest)) if largest >= time => break,
                    Some(_) => {}
                    None => cost = cost.saturating_add(self.times_cost(env, segment)),
                }
            }
            Ok(cost)
        })
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
