//! What can go wrong with a source file.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the source's files; damage inside them is not one, see [`crate::log::segment::scan`].
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system refused.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, as in "open".
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file was removed, replaced or cut since it was listed.
    #[error("{}: removed, replaced or truncated since it was opened", path.display())]
    Stale {
        /// The file.
        path: PathBuf,
    },
    /// Under `read_committed`: somebody has read further meanwhile, with transactions that were decided since; to be tried again.
    #[error("{}: more is decided now than when the reading began", path.display())]
    Outrun {
        /// The file.
        path: PathBuf,
    },
    /// The SOURCE can't be one.
    #[error("{}: {reason}", path.display())]
    NotASource {
        /// What was named.
        path: PathBuf,
        /// Why not, and what would work.
        reason: String,
    },
}

impl LogError {
    /// Wraps `source` with the path and the action; a missing file is [`LogError::Stale`].
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound {
            return Self::Stale { path: path.to_owned() };
        }
        Self::Io { path: path.to_owned(), action, source }
    }
}
