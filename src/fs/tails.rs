//! The window of each `tail`.
//!
//! Its first record is fixed while anybody has it open. When nobody has, it moves up as soon as more than twice the wanted
//! number of records are in it; that is another file then, with another inode.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::fs::error::FsError;
use crate::fs::node::PartitionKey;
use crate::units::Offset;
use crate::view::partition_view::PartitionView;

/// The windows by partition.
#[derive(Debug, Default)]
pub struct Tails {
    windows: Mutex<HashMap<PartitionKey, Window>>,
}

/// Where a tail begins, and how many have it open.
#[derive(Debug, Clone, Copy)]
struct Window {
    start: Offset,
    generation: u64,
    opens: u64,
}

impl Tails {
    /// The first offset of the partition's tail of `count` records.
    ///
    /// # Errors
    /// Those of reading.
    pub fn start(&self, key: &PartitionKey, view: &PartitionView, count: u64) -> Result<Offset, FsError> {
        let log_start = view.start()?;
        let generation = view.partition.generation();
        let known = self.lock().get(key).copied();
        if let Some(window) = known.filter(|w| w.generation == generation && w.start >= log_start) {
            if window.opens > 0 {
                return Ok(window.start);
            }
            let twice = view.nth_from_end(key.committed, count.saturating_mul(2).saturating_add(1))?;
            if twice.is_none_or(|start| start < window.start) {
                return Ok(window.start);
            }
        }
        let start = view.nth_from_end(key.committed, count)?.unwrap_or(log_start);
        let mut windows = self.lock();
        let window = windows.entry(key.clone()).or_insert(Window { start, generation, opens: 0 });
        if window.opens == 0 {
            *window = Window { start, generation, opens: 0 };
        }
        Ok(window.start)
    }

    /// Fixes the window that begins at `start`.
    pub fn opened(&self, key: &PartitionKey, start: Offset) {
        if let Some(window) = self.lock().get_mut(key).filter(|window| window.start == start) {
            window.opens += 1;
        }
    }

    /// Takes [`Self::opened`] back.
    pub fn released(&self, key: &PartitionKey, start: Offset) {
        if let Some(window) = self.lock().get_mut(key).filter(|window| window.start == start) {
            window.opens = window.opens.saturating_sub(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PartitionKey, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
