//! The offset checkpoints of a data directory, read again when they change.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::format::checkpoint;
use crate::log::files;
use crate::log::moment;
use crate::units::{Offset, TopicPartition};

/// The largest checkpoint that is read: 200,000 partitions with the longest names.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Offsets by partition.
pub type Offsets = HashMap<TopicPartition, Offset>;

/// One checkpoint file, such as `log-start-offset-checkpoint`.
#[derive(Debug)]
pub struct CheckpointFile {
    /// Where it is.
    pub path: PathBuf,
    known: Mutex<Known>,
}

/// What was read, and of which state of the file.
#[derive(Debug, Default)]
struct Known {
    /// Inode, length, and modification time in seconds and nanoseconds.
    state: Option<(u64, u64, i64, i64)>,
    offsets: Arc<Offsets>,
}

impl CheckpointFile {
    /// The checkpoint at `path`, which need not exist.
    pub fn new(path: PathBuf) -> Self {
        Self { path, known: Mutex::default() }
    }

    /// Its offsets as they are now. A file that is missing or malformed has none, as Kafka's loader has it.
    pub fn offsets(&self) -> Arc<Offsets> {
        self.refreshed().offsets.clone()
    }

    fn refreshed(&self) -> std::sync::MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if moment::was_looked_at(self) {
            return known;
        }
        moment::look_at(self);
        let state = std::fs::symlink_metadata(&self.path).ok();
        let state = state.map(|meta| (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        if known.state == state {
            return known;
        }
        let offsets = state.map(|_| read(&self.path).into_iter().collect()).unwrap_or_default();
        *known = Known { state, offsets: Arc::new(offsets) };
        known
    }
}

/// The offsets in a checkpoint; none when it is missing or malformed, as Kafka's loader has it.
pub(in crate::log) fn read(path: &Path) -> BTreeMap<TopicPartition, Offset> {
    let bytes = files::read_small(path, MAX_BYTES).unwrap_or_default();
    checkpoint::parse_offsets(&bytes).unwrap_or_default()
}
