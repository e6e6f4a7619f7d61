//! How much memory the code under test takes: an allocator that counts, and a bound.
//!
//! Buffers of C libraries (zstd's contexts) are not counted; `-rss_limit_mb` bounds those.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to the system's allocator as it is; only numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(used, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(used, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work`, which may take at most `most` bytes more than are in use now.
pub fn bounded<T>(most: usize, work: impl FnOnce() -> T) -> T {
    let before = USED.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    let took = PEAK.load(Relaxed).saturating_sub(before);
    assert!(took <= most, "it took {took} bytes of memory, at most {most} were expected");
    result
}
