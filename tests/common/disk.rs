//! A disk that does what it is told on a real directory, fails once where it shall, and keeps a journal of all of it: from that
//! `crash` makes what a machine finds after it has stopped anywhere.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use topicfs::log::files::ReadAt;
use topicfs::log::files::disk::{Disk, DiskFile, SystemDisk};

/// One thing that was done. Paths are below the disk's root; `file` is the number of the opening.
#[derive(Debug, Clone)]
pub enum Op {
    Open { path: PathBuf, file: usize },
    Write { file: usize, position: u64, bytes: Vec<u8> },
    SetLen { file: usize, len: u64 },
    Sync { file: usize },
    Rename { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
    CreateDirectory { path: PathBuf },
    RemoveDirectory { path: PathBuf },
    SyncDirectory { path: PathBuf },
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`.
    Io,
    /// `ENOSPC`.
    NoSpace,
    /// A write takes half of the bytes; the next one is out of space.
    Short,
}

impl Fault {
    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(if self == Self::Io { libc::EIO } else { libc::ENOSPC })
    }
}

/// Files and directories by their paths; directories have no bytes.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Tree(pub BTreeMap<PathBuf, Option<Vec<u8>>>);

impl Tree {
    /// All that is below a directory.
    pub fn read(root: &Path) -> Self {
        let mut tree = Self::default();
        let mut left = vec![root.to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(&directory).expect("a directory that can be listed") {
                let path = entry.expect("an entry").path();
                let name = path.strip_prefix(root).expect("below the root").to_owned();
                if path.is_dir() {
                    tree.0.insert(name, None);
                    left.push(path);
                } else {
                    tree.0.insert(name, Some(fs::read(&path).expect("a file that can be read")));
                }
            }
        }
        tree
    }

    /// Makes all of it below a directory.
    pub fn write(&self, root: &Path) {
        for (path, bytes) in &self.0 {
            let path = root.join(path);
            match bytes {
                None => fs::create_dir_all(path).expect("a directory can be made"),
                Some(bytes) => fs::write(path, bytes).expect("a file can be written"),
            }
        }
    }

    /// What is below one of its directories.
    pub fn below(&self, directory: impl AsRef<Path>) -> Self {
        let own = |(path, bytes): (&PathBuf, &Option<Vec<u8>>)| {
            Some((path.strip_prefix(&directory).ok()?.to_owned(), bytes.clone()))
        };
        Self(self.0.iter().filter_map(own).collect())
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lens = self.0.iter().map(|(path, bytes)| (path, bytes.as_ref().map(Vec::len)));
        f.debug_map().entries(lens).finish()
    }
}

/// A disk below a directory. Nothing is really synced: the machine that runs the test doesn't stop.
#[derive(Debug, Clone)]
pub struct RecordingDisk {
    root: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    journal: Vec<Op>,
    files: usize,
    calls: usize,
    /// Which of them were writes.
    writes: Vec<usize>,
    /// The call that fails.
    fault: Option<(usize, Fault)>,
    /// What failed, and how many operations were done before.
    failed: Option<(usize, String)>,
}

impl RecordingDisk {
    /// A disk below `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), state: Arc::default() }
    }

    /// One whose call number `at` fails.
    pub fn failing(root: &Path, at: usize, fault: Fault) -> Self {
        let state = State { fault: Some((at, fault)), ..State::default() };
        Self { root: root.to_owned(), state: Arc::new(Mutex::new(state)) }
    }

    /// What was done, in order.
    pub fn journal(&self) -> Vec<Op> {
        self.state().journal.clone()
    }

    /// How many operations were done.
    pub fn done(&self) -> usize {
        self.state().journal.len()
    }

    /// How many were asked for.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Which of them were writes.
    pub fn writes(&self) -> Vec<usize> {
        self.state().writes.clone()
    }

    /// What has failed, and how many operations were done before.
    pub fn failed(&self) -> Option<(usize, String)> {
        self.state().failed.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or_else(|_| panic!("{}: not below", path.display())).to_owned()
    }

    /// Does something unless it is to fail, and puts it into the journal when it was done.
    fn act<T>(
        &self,
        what: impl FnOnce() -> String,
        act: impl FnOnce() -> io::Result<T>,
        op: impl FnOnce(&mut State, &T) -> Op,
    ) -> io::Result<T> {
        let mut state = self.state();
        state.calls += 1;
        if let Some((at, fault)) = state.fault
            && at == state.calls - 1
        {
            state.failed = Some((state.journal.len(), what()));
            return Err(fault.error());
        }
        let done = act()?;
        let op = op(&mut state, &done);
        state.journal.push(op);
        Ok(done)
    }
}

impl Disk for RecordingDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut number = 0;
        let name = self.name(path);
        let inner = self.act(
            || format!("open {}", name.display()),
            || SystemDisk.open(path),
            |state, _| {
                (number, state.files) = (state.files, state.files + 1);
                Op::Open { path: name.clone(), file: number }
            },
        )?;
        Ok(Arc::new(RecordedFile { disk: self.clone(), name, number, inner }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let op = Op::Rename { from: self.name(from), to: self.name(to) };
        self.act(|| format!("{op:?}"), || SystemDisk.rename(from, to), |_, ()| op.clone())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let op = Op::Remove { path: self.name(path) };
        self.act(|| format!("{op:?}"), || SystemDisk.remove(path), |_, ()| op.clone())
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let op = Op::CreateDirectory { path: self.name(path) };
        self.act(|| format!("{op:?}"), || SystemDisk.create_directory(path), |_, ()| op.clone())
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let op = Op::RemoveDirectory { path: self.name(path) };
        self.act(|| format!("{op:?}"), || SystemDisk.remove_directory(path), |_, ()| op.clone())
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let op = Op::SyncDirectory { path: self.name(path) };
        self.act(|| format!("{op:?}"), || Ok(()), |_, ()| op.clone())
    }
}

/// A file that was opened.
#[derive(Debug)]
struct RecordedFile {
    disk: RecordingDisk,
    name: PathBuf,
    number: usize,
    inner: Arc<dyn DiskFile>,
}

impl RecordedFile {
    fn what(&self, action: &str) -> String {
        format!("{action} {}", self.name.display())
    }
}

impl ReadAt for RecordedFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, position)
    }
}

impl DiskFile for RecordedFile {
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<usize> {
        let mut len = bytes.len();
        {
            let mut state = self.disk.state();
            let number = state.calls;
            state.writes.push(number);
            if let Some((at, Fault::Short)) = state.fault
                && at == state.calls
            {
                len = len.div_ceil(2);
                state.fault = Some((at + 1, Fault::Short));
            }
        }
        self.disk.act(
            || self.what("write"),
            || self.inner.write_at(&bytes[..len], position),
            |_, &written| Op::Write { file: self.number, position, bytes: bytes[..written].to_vec() },
        )
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let op = |_: &mut State, (): &()| Op::SetLen { file: self.number, len };
        self.disk.act(|| self.what("set_len"), || self.inner.set_len(len), op)
    }

    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn set_modified(&self, time: topicfs::units::Timestamp) -> io::Result<()> {
        self.inner.set_modified(time)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.act(|| self.what("sync"), || Ok(()), |_, ()| Op::Sync { file: self.number })
    }
}
