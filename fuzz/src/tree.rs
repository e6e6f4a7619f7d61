//! A data directory on disk, written anew for each input. `$TMPDIR` should be in memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::archive::Archive;

/// A directory for this process, gone when it ends in order.
pub fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a temporary directory"));
    SCRATCH.path()
}

/// A data directory with the one partition `t-0`.
#[derive(Debug)]
pub struct Tree {
    data: TempDir,
}

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl Tree {
    /// An empty one. With `FUZZ_KEEP=DIR` it is made in that directory and stays there, to look at what an input is.
    pub fn new() -> Self {
        let mut builder = tempfile::Builder::new();
        let data = match std::env::var_os("FUZZ_KEEP") {
            Some(directory) => builder.disable_cleanup(true).tempdir_in(directory),
            None => builder.tempdir_in(scratch()),
        };
        Self { data: data.expect("a temporary directory") }
    }

    /// Its path, as SOURCE.
    pub fn spec(&self) -> String {
        self.data.path().to_str().expect("UTF-8").to_owned()
    }

    /// The partition's directory.
    pub fn partition(&self) -> PathBuf {
        self.data.path().join("t-0")
    }

    /// Where a file of an archive is.
    pub fn file(&self, name: &str) -> PathBuf {
        match name.strip_prefix('^') {
            Some(name) => self.data.path().join(name),
            None => self.partition().join(name),
        }
    }

    /// Replaces everything by the files of `archive`, which look old: as if nobody had written for long.
    pub fn write(&self, archive: &Archive) {
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        for entry in fs::read_dir(self.data.path()).expect("it can be listed").flatten() {
            let path = entry.path();
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            gone.expect("it can be removed");
        }
        fs::create_dir(self.partition()).expect("it can be made");
        for (name, bytes) in &archive.files {
            let path = self.file(name);
            fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            File::open(&path).and_then(|file| file.set_modified(old)).expect("its time can be set");
        }
        for directory in [self.partition(), self.data.path().to_owned()] {
            File::open(directory).and_then(|file| file.set_modified(old)).expect("its time can be set");
        }
    }

    /// Whether every file is as it was written, and there is no other.
    pub fn assert_untouched(&self, archive: &Archive) {
        for (name, bytes) in &archive.files {
            let found = fs::read(self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(found == *bytes, "{name} has changed");
        }
        let count = |path: &Path| fs::read_dir(path).expect("it can be listed").count();
        let expected = archive.files.len() + 1;
        assert_eq!(count(self.data.path()) + count(&self.partition()), expected, "there are other files");
    }
}
