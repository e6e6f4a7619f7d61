//! The file system without FUSE. (Placeholder until the layers are merged.)

pub mod options;

use std::sync::Arc;

use crate::log::source::{Source, SourceError};
pub use options::Options;

/// The file system over one source.
#[derive(Debug)]
pub struct Fs {
    /// What is shown.
    pub source: Source,
    /// How it is shown.
    pub options: Options,
}

impl Fs {
    /// Opens the file system over `source`.
    ///
    /// # Errors
    /// Whatever keeps it from being shown at all.
    pub fn open(source: Source, options: Options) -> Result<Arc<Self>, SourceError> {
        Ok(Arc::new(Self { source, options }))
    }
}
