//! Type, size, times and access of a node.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fs::caching::Lasting;
use crate::units::Timestamp;

/// What `stat` says of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The inode number.
    pub ino: u64,
    /// Whether it is a directory; otherwise it is a regular file.
    pub is_dir: bool,
    /// Bytes; exact, or 0 while it isn't known.
    pub size: u64,
    /// Whether it is.
    pub is_sized: bool,
    /// How long this stays true.
    pub lasting: Lasting,
    /// The time of the last change.
    pub mtime: SystemTime,
    /// Permission bits.
    pub mode: u16,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Attributes {
    /// Takes a size that is known, or isn't.
    pub fn set_size(&mut self, size: Option<u64>) {
        self.size = size.unwrap_or(0);
        self.is_sized = size.is_some();
    }

    /// Says that it can't change, once the size is known.
    pub fn set_final(&mut self) {
        self.lasting = if self.is_sized { Lasting::Final } else { Lasting::Changing };
    }
}

/// Owner, group and mode of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The mode of files.
    pub file_mode: u16,
    /// The mode of directories.
    pub dir_mode: u16,
    /// The mode of append files.
    pub append_mode: u16,
}

impl Owner {
    /// The user who mounted, and nobody else.
    pub fn only(uid: u32, gid: u32) -> Self {
        Self { uid, gid, file_mode: 0o400, dir_mode: 0o500, append_mode: 0o200 }
    }

    /// Those who may read the source: its owner, group and mode, without write bits but for append files, and without execute bits
    /// on files.
    pub fn of_source(metadata: &Metadata) -> Self {
        let mode = metadata.mode();
        let read = mode & 0o444;
        // Who may read a file's text may also enter the directories that we make up from it.
        let enter = if metadata.is_dir() { mode & 0o555 } else { read | read >> 2 };
        let bits = |mode: u32| u16::try_from(mode & 0o777).unwrap_or(0);
        let (file_mode, dir_mode, append_mode) = (bits(read), bits(enter), bits(mode & 0o222));
        Self { uid: metadata.uid(), gid: metadata.gid(), file_mode, dir_mode, append_mode }
    }
}

impl Owner {
    /// Who is both, `only` that user where the two have different owners.
    pub fn both(self, other: Self, only: Self) -> Self {
        if (self.uid, self.gid) != (other.uid, other.gid) {
            return only;
        }
        Self {
            file_mode: self.file_mode & other.file_mode,
            dir_mode: self.dir_mode & other.dir_mode,
            append_mode: self.append_mode & other.append_mode,
            ..self
        }
    }
}

/// The time of a record as a file's time; a record without one has the epoch's.
pub fn record_time(timestamp: Timestamp) -> SystemTime {
    match u64::try_from(timestamp.0) {
        Ok(ms) => UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(UNIX_EPOCH),
        Err(_) if timestamp.is_none() => UNIX_EPOCH,
        Err(_) => {
            UNIX_EPOCH.checked_sub(Duration::from_millis(timestamp.0.unsigned_abs())).unwrap_or(UNIX_EPOCH)
        }
    }
}

/// When a source file was last written to.
pub fn source_time(path: &Path) -> SystemTime {
    std::fs::metadata(path).and_then(|meta| meta.modified()).unwrap_or(UNIX_EPOCH)
}
