//! Which batches of a partition have a key: an index that is built by one scan, and goes on where that ended.
//!
//! An entry is 20 bytes: 64 bits of a key's hash, the offset of the key's last record in a batch, and the batch's place.
//! One for each key of a batch, so a topic of many small records costs about a fifth of what a hash map of keys would, a
//! topic of few keys nearly nothing, and no key is kept. Whoever finds an entry reads the batch and compares the key: two
//! keys with the same hash, a batch that compaction has emptied or a transaction that was aborted cost time, never a wrong answer.
//!
//! Entries lie sorted in runs, each of neighbouring segments: new ones in memory, merged as they become more, and in files when all
//! indexes of the mount take more than `by_key.max_memory`. What is known of sealed segments is put together in one file in
//! the cache, where the next mount finds it: bound to each segment by device, inode, size, ctime and checksums of its head and
//! tail. A store such as RocksDB or redb would bring a log, transactions and its own recovery for data that is
//! written once, in order, and can be made again; sorted files need none of that.
//!
//! | module | what |
//! |---|---|
//! | `hash` | the 64 bits |
//! | `entry` | an entry |
//! | `batch` | the batch that an entry tells of |
//! | `run` | sorted entries in memory or in a file, and their merging |
//! | `sorted_file` | the files |
//! | `saved` | the files in the cache |
//! | `work` | the runs while they change |

mod batch;
mod entry;
pub mod hash;
mod run;
mod saved;
mod sorted_file;
mod work;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::log::LogError;
use crate::log::files::sys;
use crate::log::partition::Partition;
use crate::log::segment::Segment;
use crate::log::sidecar::Sidecars;
use crate::units::Offset;

pub use batch::batch;
pub use entry::Entry;
use run::Run;
pub use run::{KeySpace, Merged};
use work::Work;

/// Source bytes that are scanned in the thread that asks.
const AT_ONCE: u64 = 1024 * 1024;
/// How often a scan is begun anew because segments were deleted under it.
const ATTEMPTS: u32 = 5;

/// The index of one partition.
#[derive(Debug)]
pub struct KeyIndex {
    space: Arc<KeySpace>,
    work: Mutex<Work>,
    known: Mutex<Known>,
    done: AtomicU64,
    total: AtomicU64,
}

/// What was found last, and of what.
#[derive(Debug, Default)]
struct Known {
    segments: Option<Arc<[Arc<Segment>]>>,
    /// The active segment's length, if nothing but growth can change what is in it.
    active_len: Option<u64>,
    entries: Entries,
}

/// The entries of a partition at one moment.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    runs: Arc<[Arc<Run>]>,
}

/// What a build is made with.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Where runs of sealed segments are kept for other mounts.
    pub cache: Option<&'a Sidecars>,
    /// Called with the source bytes that were read; may wait.
    pub pace: &'a (dyn Fn(u64) + Sync),
}

impl KeyIndex {
    /// An index of which nothing is built yet.
    pub fn new(space: Arc<KeySpace>) -> Self {
        let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { space, work: Mutex::default(), known: Mutex::default(), done, total }
    }

    /// The entries of `partition` as it is now. Who asks while they are being found waits for that.
    ///
    /// # Errors
    /// Those of reading, and of writing to files.
    pub fn entries(&self, partition: &Partition, means: Means<'_>) -> Result<Entries, LogError> {
        if let Some(entries) = self.current(partition)? {
            return Ok(entries);
        }
        let mut work = lock(&self.work);
        if let Some(entries) = self.current(partition)? {
            return Ok(entries);
        }
        let mut attempt = 1;
        loop {
            match self.catch_up(&mut work, partition, means) {
                // A broker has deleted or replaced a segment meanwhile.
                Err(LogError::Stale { .. }) if attempt < ATTEMPTS => attempt += 1,
                result => {
                    self.total.store(0, Ordering::Relaxed);
                    return result;
                }
            }
        }
    }

    /// Forgets everything, as after an error of its own files.
    pub fn reset(&self) {
        let mut work = lock(&self.work);
        work.discard();
        *lock(&self.known) = Known::default();
    }

    /// Whether more is to be read than is read at once, or is being read.
    ///
    /// # Errors
    /// Those of listing.
    pub fn is_far(&self, partition: &Partition) -> Result<bool, LogError> {
        if self.current(partition)?.is_some() {
            return Ok(false);
        }
        let segments = partition.segments()?;
        let Ok(work) = self.work.try_lock() else { return Ok(true) };
        let unread: u64 = work.todo(&segments).iter().map(|segment| work.unread(segment)).sum();
        Ok(unread > AT_ONCE)
    }

    /// Source bytes read and to be read, while a build is under way.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        (total > 0).then_some((done.min(total), total))
    }

    fn current(&self, partition: &Partition) -> Result<Option<Entries>, LogError> {
        let segments = partition.segments()?;
        let len = match segments.last() {
            Some(active) => active.open()?.1,
            None => 0,
        };
        let known = lock(&self.known);
        let is_same = known.segments.as_ref().is_some_and(|seen| Arc::ptr_eq(seen, &segments));
        Ok((is_same && known.active_len == Some(len)).then(|| known.entries.clone()))
    }

    fn catch_up(
        &self,
        work: &mut Work,
        partition: &Partition,
        means: Means<'_>,
    ) -> Result<Entries, LogError> {
        let segments = partition.segments()?;
        work.drop_stale(&segments);
        work.load(&self.space, partition, &segments, means.cache);
        let todo = work.todo(&segments);
        let bytes = todo.iter().map(|segment| work.unread(segment)).sum();
        self.done.store(0, Ordering::Relaxed);
        self.total.store(bytes, Ordering::Relaxed);
        let read = |bytes| {
            self.done.fetch_add(bytes, Ordering::Relaxed);
            (means.pace)(bytes);
        };
        let active_len = self.scan(work, &todo, bytes, &read)?;
        work.tidy(&self.space, partition, &segments, means.cache)
            .map_err(|error| index_error(partition, error))?;
        let entries = Entries { runs: work.runs().into() };
        *lock(&self.known) = Known { segments: Some(segments), active_len, entries: entries.clone() };
        Ok(entries)
    }

    /// Scans segments; in a thread of its own, at idle I/O priority, when it takes long.
    fn scan(
        &self,
        work: &mut Work,
        todo: &[Arc<Segment>],
        bytes: u64,
        read: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<u64>, LogError> {
        let mut scan = || {
            let mut active_len = Some(0);
            for segment in todo {
                active_len = work.scan(&self.space, segment, read)?;
            }
            Ok(active_len)
        };
        if bytes <= AT_ONCE {
            return scan();
        }
        let in_background = || {
            sys::lower_io_priority();
            scan()
        };
        std::thread::scope(|scope| match scope.spawn(in_background).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }
}

impl Entries {
    /// The entry with the largest offset below `offset` of the keys with this number.
    ///
    /// # Errors
    /// When a file of the index can't be read, or is damaged.
    pub fn last_before(&self, hash: u64, offset: Offset) -> io::Result<Option<Entry>> {
        let mut last: Option<Entry> = None;
        for run in self.runs.iter() {
            let found = run.last_before(hash, offset)?;
            last = match (last, found) {
                (Some(a), Some(b)) => Some(if a.offset() >= b.offset() { a } else { b }),
                (a, b) => a.or(b),
            };
        }
        Ok(last)
    }

    /// The entry with the smallest offset at or above `offset` of the keys with this number.
    ///
    /// # Errors
    /// As [`Self::last_before`].
    pub fn first_from(&self, hash: u64, offset: Offset) -> io::Result<Option<Entry>> {
        let mut first: Option<Entry> = None;
        for run in self.runs.iter() {
            let found = run.first_from(hash, offset)?;
            first = match (first, found) {
                (Some(a), Some(b)) => Some(if a.offset() <= b.offset() { a } else { b }),
                (a, b) => a.or(b),
            };
        }
        Ok(first)
    }

    /// All entries from number `hash` on, in the order of numbers and, for each, of offsets.
    ///
    /// # Errors
    /// As [`Self::last_before`].
    pub fn in_order(&self, hash: u64) -> io::Result<Merged> {
        Merged::new(self.runs.iter(), (hash, 0))
    }
}

/// An error of the index's own files, as one of the partition.
pub fn index_error(partition: &Partition, error: io::Error) -> LogError {
    let path: &Path = partition.origin.path();
    LogError::Io { path: path.to_owned(), action: "index by key", source: error }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
