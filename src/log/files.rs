//! Source files: opened read-only without a trace, identified, and pooled.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use lru::LruCache;

use crate::log::page_cache::Reading;
use crate::log::unpacked::UnpackedFiles;
use crate::log::{LogError, sys};

/// A directory whose time is younger than this may have changed since without a change of its time.
pub(crate) const TIME_GRAIN: Duration = Duration::from_millis(20);

/// Positioned reads; files, and faulty files in tests.
pub trait ReadAt {
    /// Reads up to `buffer.len()` bytes at `position`; 0 at the end.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// The first position at or after `position` that may hold anything but zeros, `None` when there is none.
    fn next_data(&self, position: u64) -> Option<u64> {
        Some(position)
    }
}

impl ReadAt for File {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        FileExt::read_at(self, buffer, position)
    }

    fn next_data(&self, position: u64) -> Option<u64> {
        sys::next_data(self, position).unwrap_or(Some(position))
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Arc<T> {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        (**self).read_at(buffer, position)
    }

    fn next_data(&self, position: u64) -> Option<u64> {
        (**self).next_data(position)
    }
}

/// A file of the source: read with respect for what others have in the page cache.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    reading: Option<Reading>,
}

impl SourceFile {
    /// A file that is ours, of which nobody else is reading.
    pub const fn own(file: File) -> Self {
        Self { file, reading: None }
    }

    /// What the system says of it.
    ///
    /// # Errors
    /// The system's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// For what is done with a file but reading it.
    pub const fn as_file(&self) -> &File {
        &self.file
    }
}

impl ReadAt for SourceFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        /// What is less is a look at one place.
        const LOOK: usize = 64 * 1024;
        if let Some(reading) = self.reading.as_ref().filter(|_| buffer.len() >= LOOK) {
            reading.will_read(&self.file, position, buffer.len());
        }
        FileExt::read_at(&self.file, buffer, position)
    }

    fn next_data(&self, position: u64) -> Option<u64> {
        ReadAt::next_data(&self.file, position)
    }
}

/// Reads a file from its beginning to its end.
#[derive(Debug)]
pub struct Sequential<'a> {
    file: &'a SourceFile,
    at: u64,
}

impl<'a> Sequential<'a> {
    /// From the beginning.
    pub const fn new(file: &'a SourceFile) -> Self {
        Self { file, at: 0 }
    }
}

impl io::Read for Sequential<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Which file it is, whatever its name: device and inode, and when it was made, since inodes are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// When it was made, where the file system tells.
    pub born: Option<SystemTime>,
}

impl FileId {
    /// The identity in `metadata`.
    pub fn of(metadata: &Metadata) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino(), born: metadata.created().ok() }
    }
}

/// When the system last saw a change of a file or directory: unlike its time of modification nobody can set it, and
/// a change of rights counts.
pub fn changed(metadata: &Metadata) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(metadata.ctime()).unwrap_or(0));
    let nanoseconds = Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).unwrap_or(0));
    SystemTime::UNIX_EPOCH + seconds + nanoseconds
}

/// Opens a regular file of the source: read-only, without changing its access time where that is allowed, never
/// through a symbolic link, never waiting (a FIFO that is named like a segment must not hang the mount).
///
/// # Errors
/// The system's; `InvalidInput` when it is no regular file.
pub fn open(path: &Path) -> io::Result<SourceFile> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let open = |extra| OpenOptions::new().read(true).custom_flags(flags | extra).open(path);
    let file = open(libc::O_NOATIME)
        .or_else(|error| if error.raw_os_error() == Some(libc::EPERM) { open(0) } else { Err(error) })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let reading = Reading::new(&file, path)?;
    Ok(SourceFile { file, reading })
}

/// Whether a file was written to so recently that its last batch may still be on its way.
pub fn is_young(path: &Path) -> bool {
    const WRITE_TIME: Duration = Duration::from_secs(10);
    let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < WRITE_TIME))
}

/// Reads a small file of the source whole.
///
/// # Errors
/// The system's; `FileTooLarge` above `limit` bytes.
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let len = file.metadata()?.len();
    if len > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{len} bytes, more than {limit}")));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let read = read_full(&file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Reads until `buffer` is full or the file ends; the number of bytes read.
///
/// # Errors
/// The system's.
pub fn read_full(file: &impl ReadAt, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], position + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

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
        let (open, cuts) = (Mutex::new(LruCache::new(capacity)), AtomicU64::new(0));
        Self { open, cuts, unpacked: UnpackedFiles::default() }
    }

    /// How many segments were found to be cut or replaced: when it goes up, listings are looked through for them.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Acquire)
    }

    /// Counts one more.
    pub(super) fn count_cut(&self) {
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
        let file = open(path).map_err(|error| LogError::io(path, "open", error))?;
        let metadata = file.metadata().map_err(|error| LogError::io(path, "stat", error))?;
        if FileId::of(&metadata) != id {
            return Err(LogError::Stale { path: path.to_owned() });
        }
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

#[cfg(test)]
mod tests {
    use super::*;

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
