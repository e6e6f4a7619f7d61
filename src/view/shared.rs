//! What all partitions of a mount share: bounded pools and caches.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use crate::format::batch::Decoder;
use crate::log::segment::SegmentUid;
use crate::log::sidecar::Sidecars;
use crate::view::format::{Encodings, Format};

/// Rendered blocks kept, in bytes.
const RENDERED_BYTES: usize = 32 * 1024 * 1024;
/// Workspaces kept for reuse; more may be in use at once.
const IDLE_WORKSPACES: usize = 8;
/// A buffer that grew beyond this is given back to the system after use.
const KEEP_BYTES: usize = 4 * 1024 * 1024;

/// What all partitions share.
#[derive(Debug)]
pub struct Shared {
    /// How keys and values are shown.
    pub encodings: Encodings,
    /// Where measurements are kept; `None` without a cache.
    pub sidecars: Option<Sidecars>,
    rendered: Mutex<Rendered>,
    workspaces: Mutex<Vec<Workspace>>,
}

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

/// Rendered blocks by use, and their bytes.
#[derive(Debug)]
struct Rendered {
    blocks: LruCache<RenderedKey, Arc<Vec<u8>>>,
    bytes: usize,
}

impl Shared {
    /// Pools and caches for one mount.
    pub fn new(encodings: Encodings, sidecars: Option<Sidecars>) -> Self {
        let capacity = NonZeroUsize::new(4096).unwrap_or(NonZeroUsize::MIN);
        Self {
            encodings,
            sidecars,
            rendered: Mutex::new(Rendered { blocks: LruCache::new(capacity), bytes: 0 }),
            workspaces: Mutex::default(),
        }
    }

    /// Runs `work` with buffers from the pool.
    pub fn with_workspace<T>(&self, work: impl FnOnce(&mut Workspace) -> T) -> T {
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

    /// A rendered block, if it is kept.
    pub fn rendered(&self, key: &RenderedKey) -> Option<Arc<Vec<u8>>> {
        self.lock_rendered().blocks.get(key).cloned()
    }

    /// Keeps a rendered block, and drops those that were used longest ago.
    pub fn keep_rendered(&self, key: RenderedKey, block: Arc<Vec<u8>>) {
        let mut rendered = self.lock_rendered();
        rendered.bytes += block.len();
        if let Some((_, old)) = rendered.blocks.push(key, block) {
            rendered.bytes -= old.len();
        }
        while rendered.bytes > RENDERED_BYTES {
            let Some((_, old)) = rendered.blocks.pop_lru() else { break };
            rendered.bytes -= old.len();
        }
    }

    fn lock_rendered(&self) -> std::sync::MutexGuard<'_, Rendered> {
        self.rendered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_workspaces(&self) -> std::sync::MutexGuard<'_, Vec<Workspace>> {
        self.workspaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
