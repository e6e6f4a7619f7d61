//! The lock on a data directory that a broker takes, and respects.
//!
//! It is a write lock of fcntl(2) on all of `.lock`. Ours belongs to the open file (`F_OFD_SETLK`), so that no other descriptor
//! that is closed in this process drops it; it excludes Java's `FileChannel.tryLock` and is excluded by it. A broker that stops
//! unlocks the file and then unlinks it: who locked it in between has a lock on a file without a name, which keeps nobody out.
//! So the name is looked at after locking, and again before each batch ([`DirectoryLock::is_held`]). We never unlink it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::format::names;
use crate::log::files::{disk, sys};

/// How often a lock is tried again on a file that has just lost its name.
const TRIES: u32 = 100;
/// A broker that stops unlinks the file right after unlocking it.
const UNLINK_TIME: Duration = Duration::from_millis(2);

/// A lock that is held as long as this lives, if nobody takes the file's name away.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    path: PathBuf,
}

/// Why a data directory can't be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A process that runs has it.
    #[error(
        "{}: locked by {}: a broker, or another mount with --rw, uses this directory; stop it first", path.display(), holder(*.pid)
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, where the kernel knows.
        pid: Option<i32>,
    },
    /// Its file system knows no locks, as NFS without a lock daemon.
    #[error("{}: this file system can't lock files ({source}), so nothing keeps a broker from writing at the same time", path.display())]
    NoLocks {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file can't be opened.
    #[error("{}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn holder(pid: Option<i32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl DirectoryLock {
    /// Locks a data directory.
    ///
    /// # Errors
    /// Who has it, or why it can't be locked.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join(names::LOCK);
        for _ in 0..TRIES {
            let lock = Self { file: lock_file(&path)?, path: path.clone() };
            if lock.has_its_name() {
                std::thread::sleep(UNLINK_TIME);
            }
            if lock.has_its_name() {
                return Ok(lock);
            }
        }
        Err(LockError::Held { path, pid: None })
    }

    /// Whether somebody has a directory's lock now.
    pub fn is_taken(directory: &Path) -> bool {
        File::open(directory.join(names::LOCK)).is_ok_and(|file| sys::lock_on(&file).is_some())
    }

    /// Whether the lock still keeps others out. One question to the system.
    pub fn is_held(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn has_its_name(&self) -> bool {
        let (Ok(own), Ok(named)) = (self.file.metadata(), std::fs::symlink_metadata(&self.path)) else {
            return false;
        };
        (own.dev(), own.ino()) == (named.dev(), named.ino())
    }
}

/// Opens the file, makes it where it is missing, and locks it.
fn lock_file(path: &Path) -> Result<File, LockError> {
    let opened = |source| LockError::Io { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path).map_err(opened)?;
    disk::give_to_owner(path);
    match sys::try_lock(&file) {
        Ok(true) => Ok(file),
        Ok(false) => {
            Err(LockError::Held { path: path.to_owned(), pid: sys::lock_on(&file).filter(|pid| *pid > 0) })
        }
        Err(source) => Err(LockError::NoLocks { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lock_at_a_time_and_a_stale_file_is_none() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(".lock"), "").unwrap();
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        let error = DirectoryLock::acquire(directory.path()).unwrap_err().to_string();
        assert!(error.contains(".lock: locked by another process"), "{error}");
        drop(lock);
        assert!(DirectoryLock::acquire(directory.path()).unwrap().is_held());
    }

    #[test]
    fn a_lock_on_a_file_that_lost_its_name_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        assert!(lock.is_held());
        std::fs::remove_file(lock.path()).unwrap();
        assert!(!lock.is_held());
        let next = DirectoryLock::acquire(directory.path()).unwrap();
        assert!(next.is_held() && !lock.is_held());
    }
}
