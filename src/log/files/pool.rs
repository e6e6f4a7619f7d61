//! Descriptors of source files that are worth keeping open.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::log::LogError;
use crate::log::bounded;
use crate::log::files::unpacked::UnpackedFiles;
use crate::log::files::{FileId, SourceFile, open};
use crate::log::moment::Moment;

/// Descriptors that are worth keeping open, bounded, and given up when idle so that a broker's deleted segments
/// don't keep their disk space.
#[derive(Debug)]
pub struct FilePool {
    /// Open files with their last use.
    open: Mutex<LruCache<FileId, (Arc<SourceFile>, Instant)>>,
    /// How many segments were found to be cut or replaced.
    cuts: AtomicU64,
    /// What compressed segments unpack to.
    pub unpacked: UnpackedFiles,
}

impl FilePool {
    /// A pool of at most `capacity` descriptors.
    pub fn new(capacity: NonZeroUsize) -> Self {
        let (open, cuts) = (Mutex::new(bounded::lru(capacity.get())), AtomicU64::new(0));
        Self { open, cuts, unpacked: UnpackedFiles::default() }
    }

    /// How many segments were found to be cut or replaced: when it goes up, listings are looked through for them.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Acquire)
    }

    /// Counts one more.
    pub(in crate::log) fn count_cut(&self) {
        Moment::again();
        self.cuts.fetch_add(1, Ordering::Release);
    }

    /// The file at `path`, which must be the one with identity `id`.
    ///
    /// # Errors
    /// [`LogError::Stale`] when `path` is gone or names another file now.
    pub fn get(&self, path: &Path, id: FileId) -> Result<Arc<SourceFile>, LogError> {
        if let Some(entry) = self.lock().get_mut(&id) {
            entry.1 = Instant::now();
            return Ok(entry.0.clone());
        }
        let file = open_same(path, id).inspect_err(|_| Moment::again())?;
        let file = Arc::new(file);
        self.lock().put(id, (file.clone(), Instant::now()));
        Ok(file)
    }

    /// Gives a descriptor up, as when its file was deleted.
    pub fn forget(&self, id: FileId) {
        self.lock().pop(&id);
        self.unpacked.forget(id);
    }

    /// Closes what nobody used for `idle`.
    pub fn expire(&self, idle: Duration) {
        let mut open = self.lock();
        while open.peek_lru().is_some_and(|(_, (_, used))| used.elapsed() >= idle) {
            open.pop_lru();
        }
        drop(open);
        self.unpacked.expire();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<FileId, (Arc<SourceFile>, Instant)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_same(path: &Path, id: FileId) -> Result<SourceFile, LogError> {
    let file = open(path).map_err(|error| LogError::io(path, "open", error))?;
    let metadata = file.metadata().map_err(|error| LogError::io(path, "stat", error))?;
    if FileId::of(&metadata) != id {
        return Err(LogError::Stale { path: path.to_owned() });
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::log::files::read_full;

    #[test]
    fn a_fifo_named_like_a_segment_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000.log");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_replaced_file_is_stale_and_never_read_in_place_of_the_old() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "old").unwrap();
        let id = FileId::of(&std::fs::metadata(&path).unwrap());
        let pool = FilePool::new(NonZeroUsize::new(2).unwrap());
        let held = pool.get(&path, id).unwrap();
        std::fs::write(dir.path().join("b"), "new").unwrap();
        std::fs::rename(dir.path().join("b"), &path).unwrap();
        pool.forget(id);
        assert!(matches!(pool.get(&path, id), Err(LogError::Stale { .. })));
        let mut bytes = [0; 3];
        assert_eq!(read_full(&held, &mut bytes, 0).unwrap(), 3);
        assert_eq!(&bytes, b"old");
    }

    #[test]
    fn idle_descriptors_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "x").unwrap();
        let id = FileId::of(&std::fs::metadata(&path).unwrap());
        let pool = FilePool::new(NonZeroUsize::new(2).unwrap());
        pool.get(&path, id).unwrap();
        pool.expire(Duration::from_secs(60));
        assert_eq!(pool.lock().len(), 1);
        pool.expire(Duration::ZERO);
        assert_eq!(pool.lock().len(), 0);
    }
}
