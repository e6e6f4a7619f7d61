//! The sample data that ships in the binary, unpacked for as long as the demo runs.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// `examples/data.tar.zst`: one directory `data`, as a broker's `log.dirs` has it.
const ARCHIVE: &[u8] = include_bytes!("../../../examples/data.tar.zst");

/// The unpacked sample; dropping it removes it.
pub(super) struct Sample {
    /// A new directory that holds the two below.
    pub(super) directory: PathBuf,
    /// The data directory, `data`.
    pub(super) data: PathBuf,
    /// An empty directory, `mnt`.
    pub(super) mountpoint: PathBuf,
}

impl Sample {
    /// Unpacks it below TMPDIR.
    pub(super) fn unpack() -> anyhow::Result<Self> {
        let directory = create_directory().context("a directory for the sample data")?;
        let sample = Self { data: directory.join("data"), mountpoint: directory.join("mnt"), directory };
        let context = || format!("unpacking the sample data to {}", sample.directory.display());
        let archive = zstd::Decoder::new(ARCHIVE).with_context(context)?;
        tar::Archive::new(archive).unpack(&sample.directory).with_context(context)?;
        fs::create_dir(&sample.mountpoint).with_context(context)?;
        Ok(sample)
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Removes a sample; what can't be removed is left to whoever cleans TMPDIR.
pub(super) fn remove(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}

/// A directory that nobody else can have prepared: its creation fails where a name is taken.
fn create_directory() -> io::Result<PathBuf> {
    let parent = std::env::temp_dir().canonicalize()?;
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for attempt in 0..100 {
        let path = parent.join(format!("topicfs-demo-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(error),
        }
    }
    Err(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_comes_and_goes() {
        let sample = Sample::unpack().unwrap();
        assert!(sample.data.is_dir());
        assert_eq!(fs::read_dir(&sample.mountpoint).unwrap().count(), 0);
        let directory = sample.directory.clone();
        drop(sample);
        assert!(!directory.exists());
    }
}
