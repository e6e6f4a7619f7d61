//! What all partitions of a mount share: bounded pools and caches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::format::batch::{Batch, Decoder, Limits};
use crate::log::bounded;
use crate::log::keys::KeySpace;
use crate::log::segment::SegmentUid;
use crate::log::sidecar::Sidecars;
use crate::view::ahead::Ahead;
use crate::view::blocks::Blocks;
use crate::view::buffers::{Buffers, LARGEST};
use crate::view::counts::Counts;
use crate::view::permits::{LARGE_BYTES, Permit, Permits};
use crate::view::run::Run;
use crate::view::times::KnownTimes;

/// Runs of whole segments kept; those in use by open files don't count. A partition may have a thousand segments, a mount 10,000 partitions.
const KEPT_RUNS: usize = 1024;
/// Workspaces kept for reuse; more may be in use at once.
const IDLE_WORKSPACES: usize = 8;

/// What all partitions share.
#[derive(Debug)]
pub struct Shared {
    /// Where measurements are kept; `None` without a cache.
    pub sidecars: Option<Sidecars>,
    /// Memory and directories for the indexes by key.
    pub key_space: Arc<KeySpace>,
    /// Memory for what is read.
    pub buffers: Buffers,
    /// When the records of segments were written.
    pub times: KnownTimes,
    /// Rendered blocks.
    pub blocks: Blocks,
    /// Threads that render ahead of readers.
    pub ahead: Ahead,
    /// What reading came to.
    pub counts: Counts,
    pace: Option<Pace>,
    workspaces: Mutex<Vec<Workspace>>,
    permits: Arc<Permits>,
    was_used: AtomicBool,
    runs: Mutex<Runs>,
}

/// Runs of whole segments, with or without the records of aborted transactions, by use.
type Runs = LruCache<(SegmentUid, bool), Arc<Run>>;

/// Buffers for reading and decoding, reused.
#[derive(Debug, Default)]
pub struct Workspace {
    /// A block's source bytes.
    pub input: Vec<u8>,
    /// Decoded records and codec contexts.
    pub decoder: Decoder,
    /// One rendered record, when only its length is wanted.
    pub scratch: Vec<u8>,
}

/// A rate that all threads together keep to.
#[derive(Debug)]
struct Pace {
    bytes_per_second: u64,
    /// When what was read so far is paid for.
    paid: Mutex<Option<Instant>>,
}

impl Pace {
    fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: bytes_per_second.max(1), paid: Mutex::default() }
    }

    /// How long to wait at `now` after reading `bytes`.
    fn spend(&self, bytes: u64, now: Instant) -> Duration {
        let cost = Duration::from_micros(bytes.saturating_mul(1_000_000) / self.bytes_per_second);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let until = paid.map_or(now, |paid| paid.max(now)) + cost;
        *paid = Some(until);
        until.saturating_duration_since(now)
    }
}

impl Shared {
    /// Pools and caches for one mount.
    pub fn new(sidecars: Option<Sidecars>, key_space: KeySpace, max_read_rate: Option<u64>) -> Self {
        let (buffers, permits) = (Buffers::default(), Arc::new(Permits::new(LARGE_BYTES)));
        Self {
            sidecars,
            key_space: Arc::new(key_space),
            counts: Counts::default(),
            times: KnownTimes::default(),
            pace: max_read_rate.map(Pace::new),
            blocks: Blocks::new(buffers.clone(), permits.clone()),
            buffers,
            ahead: Ahead::default(),
            workspaces: Mutex::default(),
            permits,
            was_used: AtomicBool::new(false),
            runs: Mutex::new(bounded::lru(KEPT_RUNS)),
        }
    }

    /// The runs that are kept.
    pub(super) fn runs(&self) -> std::sync::MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit for decoding a batch. It is to be held until the decoder has given back what the batch took.
    pub fn permit(&self, batch: &Batch<'_>, limits: &Limits) -> Permit<'_> {
        self.permits.take(batch.decoded_at_most(limits))
    }

    /// Runs `work` with buffers from the pool.
    pub fn with_workspace<T>(&self, work: impl FnOnce(&mut Workspace) -> T) -> T {
        self.was_used.store(true, Ordering::Relaxed);
        let mut workspace = self.lock_workspaces().pop().unwrap_or_default();
        let result = work(&mut workspace);
        workspace.input.shrink_to(LARGEST);
        workspace.scratch.shrink_to(LARGEST);
        workspace.decoder.shrink();
        self.counts.decoded(workspace.decoder.take_decoded());
        let mut idle = self.lock_workspaces();
        if idle.len() < IDLE_WORKSPACES {
            idle.push(workspace);
        }
        result
    }

    /// Gives up rendered blocks and buffers, if nobody has used any since this was called last.
    pub fn give_up_idle(&self) {
        if self.was_used.swap(false, Ordering::Relaxed) {
            return;
        }
        self.blocks.give_up_made();
        self.buffers.give_up();
        self.lock_workspaces().clear();
    }

    /// Waits as long as reading `bytes` takes at the rate that measuring is allowed.
    pub fn pace(&self, bytes: u64) {
        if let Some(pace) = &self.pace {
            std::thread::sleep(pace.spend(bytes, Instant::now()));
        }
    }

    fn lock_workspaces(&self) -> std::sync::MutexGuard<'_, Vec<Workspace>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::view::blocks::RenderedKey;
    use crate::view::format::Format;

    #[test]
    fn what_nobody_uses_is_given_up() {
        let shared = Shared::new(None, KeySpace::new(0, Vec::new()), None);
        let key =
            RenderedKey { segment: SegmentUid::next(), span: (0, 1), format: Format::Text, committed: false };
        let is_kept = || {
            let made = Cell::new(false);
            let render = |buffer: &mut Vec<u8>| -> Result<(), ()> {
                buffer.resize(1 << 20, 1);
                made.set(true);
                Ok(())
            };
            drop(shared.blocks.get(key, 1 << 20, || false, render));
            !made.get()
        };
        shared.with_workspace(|_| ());
        assert!(!is_kept());
        shared.give_up_idle();
        assert!(is_kept(), "it was used a moment ago");
        shared.give_up_idle();
        assert!(!is_kept());
    }

    #[test]
    fn a_rate_is_kept_by_all_that_read_together() {
        let pace = Pace::new(1000);
        let now = Instant::now();
        assert_eq!(pace.spend(500, now), Duration::from_millis(500));
        assert_eq!(pace.spend(500, now), Duration::from_secs(1));
        let later = now + Duration::from_secs(60);
        assert_eq!(pace.spend(1000, later), Duration::from_secs(1));
    }
}
