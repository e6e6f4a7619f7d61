//! A file of the source: opened without a trace, and read with respect for what others have in the page cache.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, fstatvfs};

use crate::log::counter::Counter;
use crate::log::files::page_cache::Reading;
use crate::log::files::{ReadAt, open_without_trace, read_full};

/// Bytes that this process has read of sources.
pub static BYTES_READ: Counter = Counter::new();

/// A file of the source.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    is_own: bool,
    reading: Option<Reading>,
}

impl SourceFile {
    /// A file that is ours, of which nobody else is reading.
    pub const fn own(file: File) -> Self {
        Self { file, is_own: true, reading: None }
    }

    /// What the system says of it.
    ///
    /// # Errors
    /// The system's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// Whether it is on a file system that is mounted read-only.
    pub fn is_on_read_only(&self) -> bool {
        fstatvfs(&self.file).is_ok_and(|on| on.f_flag.contains(StatVfsMountFlags::RDONLY))
    }
}

impl AsFd for SourceFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl ReadAt for SourceFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        /// What is less is a look at one place.
        const LOOK: usize = 64 * 1024;
        if let Some(reading) = self.reading.as_ref().filter(|_| buffer.len() >= LOOK) {
            reading.will_read(&self.file, position, buffer.len());
        }
        let read = FileExt::read_at(&self.file, buffer, position)?;
        if !self.is_own {
            BYTES_READ.add(read as u64);
        }
        Ok(read)
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

/// Opens a regular file of the source, see `open_without_trace`.
///
/// # Errors
/// The system's; `InvalidInput` when it is no regular file.
pub fn open(path: &Path) -> io::Result<SourceFile> {
    let (file, metadata) = open_without_trace(path)?;
    let reading = Reading::new(&file, &metadata, path);
    Ok(SourceFile { file, is_own: false, reading })
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
