//! Bytes that are taken from a log, kept in a directory that its owner has named: they are durable there before the log changes.

use std::path::{Path, PathBuf};

use crate::log::LogError;
use crate::log::files;
use crate::log::files::disk::{self, Disk};
use crate::units::Position;

/// Bytes that are copied at once.
const PIECE: usize = 1024 * 1024;

/// Bytes of a log, and the name that they get.
#[derive(Debug)]
pub(in crate::log) struct Piece<'a> {
    /// The log.
    pub(in crate::log) path: &'a Path,
    /// Where they begin.
    pub(in crate::log) position: Position,
    /// How many they are.
    pub(in crate::log) len: u64,
    /// Their name.
    pub(in crate::log) name: String,
}

/// Copies pieces of a partition's logs into a directory of its name in `to`, which is returned.
///
/// # Errors
/// The system's.
pub(in crate::log) fn keep<'a>(
    disk: &dyn Disk,
    to: &Path,
    partition: &Path,
    pieces: impl Iterator<Item = Piece<'a>>,
) -> Result<PathBuf, LogError> {
    let directory = to.join(partition.file_name().unwrap_or_default());
    match disk.create_directory(&directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(disk::failed(&directory, "create", error));
        }
        _ => {}
    }
    for piece in pieces {
        piece.copy(disk, &directory)?;
    }
    for directory in [&*directory, to] {
        disk::sync_directory(disk, directory)?;
    }
    Ok(directory)
}

impl Piece<'_> {
    /// Copies the bytes. What lies there already stays.
    fn copy(&self, disk: &dyn Disk, directory: &Path) -> Result<(), LogError> {
        let more = (2..).map(|number| format!("{}.{number}", self.name));
        let free = std::iter::once(self.name.clone()).chain(more).find(|name| !directory.join(name).exists());
        let to = directory.join(free.as_ref().unwrap_or(&self.name));
        let temporary = disk::temporary(&to);
        let unreadable = |error| LogError::io(self.path, "read", error);
        let unwritable = |error| disk::failed(&temporary, "write", error);
        let from = files::open(self.path).map_err(unreadable)?;
        let copy = disk.open(&temporary).map_err(unwritable)?;
        copy.set_len(0).map_err(unwritable)?;
        let (mut piece, mut done) = (vec![0; PIECE], 0);
        while done < self.len {
            let most = usize::try_from(self.len - done).map_or(PIECE, |left| left.min(PIECE));
            let read =
                files::read_full(&from, &mut piece[..most], self.position.0 + done).map_err(unreadable)?;
            // Preallocated logs end in very many zeros.
            if piece[..read].iter().any(|byte| *byte != 0) {
                disk::write_all(&*copy, &piece[..read], done).map_err(unwritable)?;
            }
            done += read as u64;
            if read < most {
                break;
            }
        }
        copy.set_len(done).map_err(unwritable)?;
        copy.sync().map_err(unwritable)?;
        disk.rename(&temporary, &to).map_err(|error| disk::failed(&to, "rename", error))
    }
}
