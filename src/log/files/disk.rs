//! Files and directories that are ours to write: the few operations by which a log is kept, so that tests can stand between them
//! and the system, fail each, and crash after each.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::log::LogError;
use crate::log::counter::Counter;
use crate::log::files::{ReadAt, sys};
use crate::units::Timestamp;

/// What a file's name ends in until it is whole, as Kafka's checkpoints have it.
pub const TEMPORARY: &str = ".tmp";

/// How often this process has had files or names of a data directory made durable.
pub static SYNCS: Counter = Counter::new();

/// Where files are written: the system's, and faulty ones in tests.
pub trait Disk: fmt::Debug + Send + Sync {
    /// Opens a file for reading and writing; makes it when it is not there.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file or directory another name; what had that name is gone.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory.
    ///
    /// # Errors
    /// The system's.
    fn create_directory(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory that is empty.
    ///
    /// # Errors
    /// The system's.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// An open file that is ours.
pub trait DiskFile: ReadAt + fmt::Debug + Send + Sync {
    /// Writes at a position; how many of the bytes, which may be fewer than all.
    ///
    /// # Errors
    /// The system's.
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize>;

    /// Cuts the file, or makes it longer with zeros.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// How many bytes it has.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Makes its bytes and length durable.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Sets the time at which it was written last. After a power failure it may be another one.
    ///
    /// # Errors
    /// The system's.
    fn set_modified(&self, time: Timestamp) -> io::Result<()>;

    /// Has bytes written out that will have to be durable later, so that a sync has less to do then. Promises nothing, and waits for nothing.
    fn begin_sync(&self, position: u64, len: u64) {
        let _ = (position, len);
    }
}

/// The system's. What is made belongs to whom the directory around it belongs to, where we may do that: a broker must be able to
/// write to what root has made.
#[derive(Debug, Clone, Copy)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = options.create_new(true).open(path)?;
                give_to_owner(path);
                file
            }
            other => other?,
        };
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)?;
        give_to_owner(path);
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        SYNCS.add(1);
        File::open(path)?.sync_all()
    }
}

impl DiskFile for File {
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Self::set_len(self, len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn sync(&self) -> io::Result<()> {
        SYNCS.add(1);
        self.sync_data()
    }

    fn set_modified(&self, time: Timestamp) -> io::Result<()> {
        let since = Duration::from_millis(u64::try_from(time.0).unwrap_or(0));
        Self::set_modified(self, SystemTime::UNIX_EPOCH + since)
    }

    fn begin_sync(&self, position: u64, len: u64) {
        sys::begin_writing_out(self, position, len);
    }
}

/// Gives something new to the owner of the directory around it.
pub fn give_to_owner(path: &Path) {
    let Some(Ok(around)) = path.parent().map(std::fs::metadata) else { return };
    let is_his = |own: Metadata| (own.uid(), own.gid()) == (around.uid(), around.gid());
    if !std::fs::symlink_metadata(path).is_ok_and(is_his) {
        // Who isn't root owns what he makes.
        let _ = std::os::unix::fs::lchown(path, Some(around.uid()), Some(around.gid()));
    }
}

/// Writes all bytes at a position.
///
/// # Errors
/// The system's; then some of them may have been written.
pub fn write_all(file: &dyn DiskFile, bytes: &[u8], position: u64) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], position + written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a whole file under a temporary name, makes it durable, and only then gives it its own, which is durable after
/// [`Disk::sync_directory`]. A crash leaves the old file or the new one.
///
/// # Errors
/// The system's.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), LogError> {
    let temporary = temporary(path);
    write_whole(disk, &temporary, bytes)?;
    disk.rename(&temporary, path).map_err(|error| failed(path, "rename", error))
}

/// Writes a whole file over what is there, and makes it durable. A crash may leave a part: for names that no loader takes for whole.
///
/// # Errors
/// The system's.
pub fn write_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), LogError> {
    let write = || {
        let file = disk.open(path)?;
        file.set_len(0)?;
        write_all(&*file, bytes, 0)?;
        file.sync()
    };
    write().map_err(|error| failed(path, "write", error))
}

/// Cuts a file, if a length is told, and makes it durable.
///
/// # Errors
/// The system's.
pub fn cut(disk: &dyn Disk, path: &Path, len: Option<u64>) -> Result<(), LogError> {
    let cut = || {
        let file = disk.open(path)?;
        len.map_or(Ok(()), |len| file.set_len(len))?;
        file.sync()
    };
    cut().map_err(|error| failed(path, "cut or sync", error))
}

/// The name that a file has until it is whole.
pub(in crate::log) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(TEMPORARY);
    PathBuf::from(name)
}

/// Makes the names in a directory durable.
///
/// # Errors
/// The system's.
pub fn sync_directory(disk: &dyn Disk, path: &Path) -> Result<(), LogError> {
    disk.sync_directory(path).map_err(|error| failed(path, "sync", error))
}

/// Removes a file that may be gone already.
///
/// # Errors
/// The system's.
pub fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), LogError> {
    match disk.remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, "remove", error)),
        _ => Ok(()),
    }
}

/// Gives a file another name, if it is there; whether it was.
///
/// # Errors
/// The system's.
pub fn rename_if_there(disk: &dyn Disk, from: &Path, to: &Path) -> Result<bool, LogError> {
    match disk.rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed(from, "rename", error)),
    }
}

/// The error of writing: here a missing file is no stale one.
pub fn failed(path: &Path, action: &'static str, source: io::Error) -> LogError {
    LogError::Io { path: path.to_owned(), action, source }
}
