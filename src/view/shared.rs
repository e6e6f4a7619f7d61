//! What all partitions of a mount share: bounded pools and caches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::format::batch::{Batch, Decoder, Limits};
use crate::log::bounded;
use crate::log::keys::KeySpace;
use crate::log::segment::SegmentUid;
use crate::log::sidecar::Sidecars;
use crate::view::format::Format;
use crate::view::permits::{LARGE_BYTES, Permit, Permits};
use crate::view::run::Run;

/// Rendered blocks kept while they are in use, in bytes: those that 32 readers of batches of 4 MiB are in the midst of. With fewer each read
/// would decode its batch again.
const RENDERED_BYTES: usize = 144 * 1024 * 1024;
/// And at most this many of them.
const RENDERED_BLOCKS: usize = 4096;
/// Runs of whole segments kept; those in use by open files don't count. A partition may have a thousand segments, a mount 10,000 partitions.
const KEPT_RUNS: usize = 1024;
/// Workspaces kept for reuse; more may be in use at once.
const IDLE_WORKSPACES: usize = 8;
/// Buffers kept for blocks to come.
const SPARE_BUFFERS: usize = 16;
/// A buffer that grew beyond this is given back to the system after use.
const KEEP_BYTES: usize = 4 * 1024 * 1024;

/// What all partitions share.
#[derive(Debug)]
pub struct Shared {
    /// Where measurements are kept; `None` without a cache.
    pub sidecars: Option<Sidecars>,
    /// Memory and directories for the indexes by key.
    pub key_space: Arc<KeySpace>,
    pace: Option<Pace>,
    rendered: Mutex<Rendered>,
    workspaces: Mutex<Vec<Workspace>>,
    permits: Permits,
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

/// Which rendered block it is. The end is part of the key because the last block of an active segment grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RenderedKey {
    /// The segment.
    pub segment: SegmentUid,
    /// Where the block begins and ends in it.
    pub span: (u64, u64),
    /// How it is rendered.
    pub format: Format,
    /// Whether records of aborted transactions are left out.
    pub committed: bool,
}

/// A block that is rendered, is being rendered, or (`None`) could not be.
type Slot = Arc<OnceLock<Option<Arc<Vec<u8>>>>>;

/// Rendered blocks by use, their bytes, and memory for others.
#[derive(Debug)]
struct Rendered {
    blocks: LruCache<RenderedKey, Slot>,
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Rendered {
    /// Counts a block of `len` bytes that was added, and drops those that were used longest ago.
    fn account(&mut self, len: usize) {
        self.bytes += len;
        while self.bytes > RENDERED_BYTES || self.blocks.len() > RENDERED_BLOCKS {
            let Some((_, old)) = self.blocks.pop_lru() else { break };
            self.dropped(old);
        }
    }

    /// Takes the memory of a dropped block back, unless somebody still reads it.
    fn dropped(&mut self, slot: Slot) {
        let len = slot.get().and_then(Option::as_ref).map_or(0, |block| block.len());
        self.bytes = self.bytes.saturating_sub(len);
        let block = Arc::into_inner(slot).and_then(OnceLock::into_inner).flatten().and_then(Arc::into_inner);
        if let Some(mut buffer) = block
            && buffer.capacity() <= KEEP_BYTES
            && self.spare.len() < SPARE_BUFFERS
        {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
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
        Self {
            sidecars,
            key_space: Arc::new(key_space),
            pace: max_read_rate.map(Pace::new),
            rendered: Mutex::new(Rendered { blocks: LruCache::unbounded(), bytes: 0, spare: Vec::new() }),
            workspaces: Mutex::default(),
            permits: Permits::new(LARGE_BYTES),
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
        workspace.input.shrink_to(KEEP_BYTES);
        workspace.scratch.shrink_to(KEEP_BYTES);
        workspace.decoder.shrink();
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
        let mut rendered = self.lock_rendered();
        let is_done = |(_, slot): &(&RenderedKey, &Slot)| slot.get().is_some();
        let done: Vec<_> = rendered.blocks.iter().filter(is_done).map(|(key, _)| *key).collect();
        for key in done {
            if let Some(slot) = rendered.blocks.pop(&key) {
                rendered.dropped(slot);
            }
        }
        rendered.spare.clear();
        drop(rendered);
        self.lock_workspaces().clear();
    }

    /// Waits as long as reading `bytes` takes at the rate that measuring is allowed.
    pub fn pace(&self, bytes: u64) {
        if let Some(pace) = &self.pace {
            std::thread::sleep(pace.spend(bytes, Instant::now()));
        }
    }

    /// A rendered block: one that is kept, or what `render` makes. Who asks for a block that another thread is making
    /// waits for that one.
    ///
    /// # Errors
    /// Those of `render`.
    pub fn rendered<E>(
        &self,
        key: RenderedKey,
        render: impl Fn(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Arc<Vec<u8>>, E> {
        self.was_used.store(true, Ordering::Relaxed);
        let slot = self.lock_rendered().blocks.get_or_insert(key, Slot::default).clone();
        let make = || {
            let mut buffer = self.lock_rendered().spare.pop().unwrap_or_default();
            render(&mut buffer).map(|()| Arc::new(buffer))
        };
        let mut made = None;
        let block = slot.get_or_init(|| made.insert(make()).as_ref().ok().cloned());
        match (made, block) {
            (Some(Ok(block)), _) => {
                self.lock_rendered().account(block.len());
                Ok(block)
            }
            (Some(Err(error)), _) => {
                self.lock_rendered().blocks.pop(&key);
                Err(error)
            }
            (None, Some(block)) => Ok(block.clone()),
            // The thread that was making it failed and tells its own caller why.
            (None, None) => make(),
        }
    }

    /// Whether a block is kept, or being made.
    pub fn is_rendered(&self, key: &RenderedKey) -> bool {
        self.lock_rendered().blocks.contains(key)
    }

    /// Drops a block that was read to its end, and keeps its memory for another.
    pub fn finished(&self, key: &RenderedKey) {
        let mut rendered = self.lock_rendered();
        if let Some(slot) = rendered.blocks.pop(key) {
            rendered.dropped(slot);
        }
    }

    fn lock_rendered(&self) -> std::sync::MutexGuard<'_, Rendered> {
        self.rendered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_workspaces(&self) -> std::sync::MutexGuard<'_, Vec<Workspace>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_uses_is_given_up() {
        let shared = Shared::new(None, KeySpace::new(0, Vec::new()), None);
        let key =
            RenderedKey { segment: SegmentUid::next(), span: (0, 1), format: Format::Text, committed: false };
        let render = |buffer: &mut Vec<u8>| -> Result<(), ()> {
            buffer.resize(1 << 20, 1);
            Ok(())
        };
        drop(shared.rendered(key, render));
        shared.give_up_idle();
        assert!(shared.is_rendered(&key), "it was used a moment ago");
        shared.give_up_idle();
        assert!(!shared.is_rendered(&key));
        let rendered = shared.lock_rendered();
        assert_eq!((rendered.bytes, rendered.spare.len()), (0, 0));
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
