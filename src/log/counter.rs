//! Numbers that only grow, to which many threads add.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows. Adding to it orders nothing, and waits for nobody.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds to it.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// What it has come to.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
