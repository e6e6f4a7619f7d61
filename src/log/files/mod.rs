//! Source files: opened read-only without a trace, identified, read, and pooled.
//!
//! | module | what |
//! |---|---|
//! | `source_file` | a file of the source |
//! | `pool` | descriptors, bounded |
//! | [`page_cache`] | the system's page cache, of which reading fills no more than a share |
//! | `window` | the part of a file that a scan has in memory |
//! | [`hashing`] | a file that is hashed while it is read |
//! | `tolerant` | files on broken disks |
//! | [`unpacked`] | segments that a backup tool has compressed |
//! | [`disk`] | files and directories that are ours to write, through a trait that tests make fail |
//! | [`durable`] | new files of a directory that is ours |
//! | [`sys`] | the system calls that `std` lacks |

pub mod disk;
pub mod durable;
pub mod hashing;
pub mod page_cache;
mod pool;
mod source_file;
pub mod sys;
pub(in crate::log) mod tolerant;
pub mod unpacked;
pub(in crate::log) mod window;

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use pool::FilePool;
pub use source_file::{BYTES_READ, Sequential, SourceFile, open, read_small};

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
/// through a symbolic link, never waiting (a FIFO that is named like a segment must not hang the mount). With what the
/// system says of it.
///
/// # Errors
/// The system's; `InvalidInput` when it is no regular file.
pub(in crate::log) fn open_without_trace(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let open = |extra| OpenOptions::new().read(true).custom_flags(flags | extra).open(path);
    let file = open(libc::O_NOATIME)
        .or_else(|error| if error.raw_os_error() == Some(libc::EPERM) { open(0) } else { Err(error) })?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, metadata))
}

/// Whether a file was written to so recently that its last batch may still be on its way.
pub fn is_young(path: &Path) -> bool {
    const WRITE_TIME: Duration = Duration::from_secs(10);
    let modified = std::fs::metadata(path).and_then(|meta| meta.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age < WRITE_TIME))
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
