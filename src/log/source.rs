//! What a SOURCE names. (Placeholder until the layers are merged.)

use std::path::{Path, PathBuf};

/// Data directories, a partition directory or a segment file.
#[derive(Debug)]
pub struct Source {
    directories: Vec<PathBuf>,
}

/// Why a SOURCE can't be used.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Nothing there, or not to be reached.
    #[error("{path}: {cause}", path = path.display())]
    Missing {
        /// What was named.
        path: PathBuf,
        /// Why it can't be read.
        cause: std::io::Error,
    },
}

impl Source {
    /// Opens what `spec` names.
    ///
    /// # Errors
    /// When it isn't there.
    pub fn open(spec: &str) -> Result<Self, SourceError> {
        let mut directories = Vec::new();
        for path in spec.split(',').map(Path::new) {
            let missing = |cause| SourceError::Missing { path: path.to_owned(), cause };
            directories.push(path.canonicalize().map_err(missing)?);
        }
        Ok(Self { directories })
    }

    /// The files and directories that it reads from.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }
}
