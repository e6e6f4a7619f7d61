//! The files of a segment that are compared with each other: those with one name up to the first dot.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::names::{FileType, SegmentFile};
use crate::log::LogError;
use crate::log::files::{self, FileId, SourceFile};
use crate::units::Offset;

/// The largest index that is read; Kafka's are 10 MiB unless told otherwise.
pub const MAX_INDEX_BYTES: u64 = 256 * 1024 * 1024;

/// The path of a segment's file, in the state in which a broker uses it.
pub(in crate::log) fn live_path(directory: &Path, base: Offset, file_type: FileType) -> PathBuf {
    directory.join(SegmentFile::live(base, file_type).to_string())
}

/// A file that is read whole, and which others its dump depends on.
#[derive(Debug, Clone)]
pub struct WholeFile {
    /// The file.
    pub path: PathBuf,
    /// Its identity.
    pub id: FileId,
    /// Whether it is an index, which is compared with what lies beside it.
    pub is_index: bool,
}

impl WholeFile {
    /// Its bytes, and what lies beside it.
    ///
    /// # Errors
    /// [`LogError::Stale`] when another file has its name now, and those of reading.
    pub fn read(&self) -> Result<(Vec<u8>, Beside), LogError> {
        let meta = std::fs::symlink_metadata(&self.path).map_err(|error| self.error(error))?;
        if FileId::of(&meta) != self.id {
            return Err(LogError::Stale { path: self.path.clone() });
        }
        let bytes = files::read_small(&self.path, MAX_INDEX_BYTES).map_err(|error| self.error(error))?;
        let beside = if self.is_index { Beside::open(&self.path) } else { Ok(Beside::default()) };
        Ok((bytes, beside.map_err(|error| self.error(error))?))
    }

    /// Names the file in an error of reading it.
    pub fn error(&self, error: io::Error) -> LogError {
        LogError::io(&self.path, "read", error)
    }

    /// Bytes that reading all of them may take: those that are on the disk, not holes.
    pub fn cost(&self) -> u64 {
        self.all().filter_map(|path| std::fs::metadata(path).ok()).map(|meta| meta.blocks() * 512).sum()
    }

    /// A number that changes when one of them does.
    pub fn stamp(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for path in self.all() {
            let meta = std::fs::metadata(path).ok();
            meta.map(|meta| (meta.len(), meta.mtime(), meta.mtime_nsec())).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn all(&self) -> impl Iterator<Item = PathBuf> {
        let beside = self.is_index.then(|| ["log", "index"].map(|of| sibling(&self.path, of)));
        std::iter::once(self.path.clone()).chain(beside.into_iter().flatten())
    }
}

/// What lies beside an index.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// The log, and its length.
    pub log: Option<(Arc<SourceFile>, u64)>,
    /// The bytes of the offset index.
    pub index: Option<Vec<u8>>,
}

impl Beside {
    /// Opens what lies beside the index at `path`: of a `.index.deleted` the `.log.deleted`, and so on.
    ///
    /// # Errors
    /// The system's; a file that isn't there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        let log = absent_is_none(files::open(&real(&sibling(path, "log"))))?;
        let log = log.map(|file| file.metadata().map(|meta| (Arc::new(file), meta.len()))).transpose()?;
        let index = absent_is_none(files::read_small(&real(&sibling(path, "index")), MAX_INDEX_BYTES))?;
        Ok(Self { log, index })
    }
}

/// The path behind symbolic links, or `path` when there are none.
pub fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The path of the segment's file of another type in the same state.
pub fn sibling(path: &Path, file_type: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split('.').next().unwrap_or_default();
    let state = [".deleted", ".swap", ".cleaned"].into_iter().find(|state| name.ends_with(state));
    path.with_file_name(format!("{stem}.{file_type}{}", state.unwrap_or_default()))
}

fn absent_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_have_the_same_state() {
        let sibling = |name, of| sibling(Path::new(name), of).display().to_string();
        assert_eq!(sibling("a/0001.timeindex", "log"), "a/0001.log");
        assert_eq!(sibling("0001.index.deleted", "log"), "0001.log.deleted");
        assert_eq!(sibling("0001-id.timeindex", "index"), "0001-id.index");
    }
}
