//! New files of a directory that is ours: each is written under a temporary name, synced, and only then gets its own, so that
//! what has its name is whole. Never used on a source.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Advice, fadvise};

use crate::log::LogError;
use crate::log::files::disk::{failed, temporary};

/// Bytes that are written at once.
const BUFFER: usize = 1024 * 1024;

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    path: PathBuf,
}

impl NewFile {
    /// Begins the file that `path` will name.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: PathBuf) -> Result<Self, LogError> {
        let temporary = temporary(&path);
        let file = File::create_new(&temporary).map_err(|error| failed(&temporary, "create", error))?;
        Ok(Self { file: BufWriter::with_capacity(BUFFER, file), temporary, path })
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.file.write_all(bytes).map_err(|error| failed(&self.temporary, "write", error))
    }

    /// Makes it durable and gives it its name, which is durable after [`sync_directory`]; with `modified` as its time.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(self, modified: Option<SystemTime>) -> Result<(), LogError> {
        let Self { file, temporary, path } = self;
        let file = file.into_inner().map_err(|error| failed(&temporary, "write", error.into_error()))?;
        if let Some(modified) = modified {
            file.set_modified(modified).map_err(|error| failed(&temporary, "set the time of", error))?;
        }
        file.sync_all().map_err(|error| failed(&temporary, "sync", error))?;
        // Nobody is about to read it: what others have in the page cache stays there.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        std::fs::rename(&temporary, &path).map_err(|error| failed(&path, "rename", error))
    }
}

/// Writes a whole new file.
///
/// # Errors
/// The system's.
pub fn write(path: PathBuf, bytes: &[u8]) -> Result<(), LogError> {
    let mut file = NewFile::create(path)?;
    file.write(bytes)?;
    file.finish(None)
}

/// Makes a new directory, durable.
///
/// # Errors
/// The system's.
pub fn create_directory(path: &Path) -> Result<(), LogError> {
    std::fs::create_dir(path).map_err(|error| failed(path, "create", error))?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

/// Makes the names in a directory durable.
///
/// # Errors
/// The system's.
pub fn sync_directory(path: &Path) -> Result<(), LogError> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(|error| failed(path, "sync", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let mut file = NewFile::create(path.clone()).unwrap();
        file.write(b"abc").unwrap();
        assert!(!path.exists());
        let modified = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        file.finish(Some(modified)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), modified);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.log");
        let _first = NewFile::create(path.clone()).unwrap();
        let error = NewFile::create(path).unwrap_err().to_string();
        assert!(error.contains("a.log.tmp: create"), "{error}");
    }
}
