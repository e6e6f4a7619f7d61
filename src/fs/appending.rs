//! Append files: what is written to them becomes records. Only in mounts for appending, see [`Fs::write_to`].
//!
//! | file | |
//! |---|---|
//! | `append`, `append.jsonl`, `append.tsv`, `append.nul`, `append.blob` | see [`crate::view::lines`]; size 0, nothing to read, and nothing to truncate: `>` appends as `>>` does |
//!
//! What a handle has written of a line without an end stays with it, and is a record after its last close.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::format::names;
use crate::fs::cleaner::Cleaner;
use crate::fs::error::FsError;
use crate::fs::handles::{Content, Handle};
use crate::fs::metrics::Removed;
use crate::fs::metrics::topics::TopicCounts;
use crate::fs::mounted::Fs;
use crate::fs::node::{Item, Node, PartitionKey};
use crate::fs::options::Options;
use crate::log::append::appender::{AppendError, Appender};
use crate::log::append::now;
use crate::log::append::owned::OwnedDirectory;
use crate::log::cluster::Cluster;
use crate::log::partition::Origin;
use crate::log::problem::{Kind, Problem};
use crate::view::lines::LineFormat;
use crate::view::lines::writer::{LineWriter, WriteError};

/// Refused lines that `.topicfs/problems` tells of.
const KEPT_REFUSALS: usize = 100;
/// How often logs are looked at for `flush.ms` and for what is to be written out.
const LOOK: Duration = Duration::from_millis(100);
/// How often checkpoints are written, as by a broker.
const CHECKPOINT: Duration = Duration::from_secs(60);

/// The data directories that a mount appends to.
#[derive(Debug)]
pub struct Writing {
    directories: Vec<Arc<OwnedDirectory>>,
    refused: Mutex<VecDeque<Problem>>,
    upkeep: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
    cleaner: Cleaner,
}

/// An append file that somebody has open.
#[derive(Debug)]
pub struct AppendFile {
    key: PartitionKey,
    format: LineFormat,
    /// Made by the first write: to open a file must cost nothing, and must not fail for who only looks.
    writer: Mutex<Option<LineWriter>>,
}

impl AppendFile {
    pub(super) const fn new(key: PartitionKey, format: LineFormat) -> Self {
        Self { key, format, writer: Mutex::new(None) }
    }
}

impl Writing {
    /// Writes to these directories from now on; flushes and checkpoints are made by a thread of its own.
    pub(super) fn new(directories: Vec<OwnedDirectory>, options: &Options, cluster: &Arc<Cluster>) -> Self {
        let directories: Vec<_> = directories.into_iter().map(Arc::new).collect();
        let (stop, stopped) = channel();
        let kept = directories.clone();
        let body = move || {
            let mut last = Instant::now();
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                keep_up(&kept, &mut last);
            }
        };
        let thread = std::thread::Builder::new().name("upkeep".to_owned()).spawn(body);
        if let Err(error) = &thread {
            tracing::warn!(%error, "logs are flushed and checkpointed at unmounting only");
        }
        let upkeep = thread.ok().map(|thread| (stop, thread));
        let cleaner = Cleaner::start(directories.clone(), options, cluster);
        Self { directories, refused: Mutex::default(), upkeep: Mutex::new(upkeep), cleaner }
    }

    /// The directories.
    pub(super) fn directories(&self) -> &[Arc<OwnedDirectory>] {
        &self.directories
    }

    /// The directory that a partition's own directory is in.
    pub(super) fn directory_of(&self, partition: &Path) -> Option<&Arc<OwnedDirectory>> {
        let parent = partition.parent()?;
        self.directories.iter().find(|directory| directory.path() == parent)
    }

    /// The lines that were refused lately.
    pub(super) fn refused(&self) -> Vec<Problem> {
        lock(&self.refused).iter().cloned().collect()
    }

    /// What was taken from logs by policies.
    pub(super) fn removed(&self) -> &Removed {
        self.cleaner.removed()
    }

    fn note(&self, partition: &Path, error: &WriteError) {
        let mut refused = lock(&self.refused);
        if refused.len() == KEPT_REFUSALS {
            refused.pop_front();
        }
        refused.push_back(Problem::of_file(partition, Kind::Refused, error.to_string()));
    }

    /// Closes all logs, and marks directories as stopped in order; the first thing that failed.
    fn close(&self) -> Result<(), AppendError> {
        self.cleaner.stop();
        if let Some((stop, thread)) = lock(&self.upkeep).take() {
            drop(stop);
            let _ = thread.join();
        }
        // All of them, also behind one that fails.
        let closed: Vec<_> = self.directories.iter().map(|directory| directory.close()).collect();
        closed.into_iter().collect()
    }
}

/// Flushes what is due, and begins with what will be; writes checkpoints now and then. What fails is told, and met again by who writes.
fn keep_up(directories: &[Arc<OwnedDirectory>], last: &mut Instant) {
    for appender in directories.iter().flat_map(|directory| directory.appenders()) {
        appender.begin_sync();
        if let Err(error) = appender.flush_if_due() {
            tracing::error!(partition = %appender.directory().display(), %error, "a log could not be flushed");
        }
    }
    if last.elapsed() < CHECKPOINT {
        return;
    }
    *last = Instant::now();
    for directory in directories {
        if let Err(error) = directory.checkpoint() {
            tracing::warn!(directory = %directory.path().display(), %error, "no checkpoints");
        }
    }
}

impl Fs {
    /// Appends to these directories, which are the source's, from now on.
    pub fn write_to(&self, directories: Vec<OwnedDirectory>) {
        let _ = self.writing_cell().set(Writing::new(directories, self.options(), self.cluster()));
    }

    /// Whether records can be appended.
    pub fn is_writable(&self) -> bool {
        self.writing().is_some()
    }

    /// Closes what [`Self::write_to`] has opened, for good.
    ///
    /// # Errors
    /// What could not be written: then the next one to write recovers the logs.
    pub fn stop_writing(&self) -> Result<(), AppendError> {
        self.writing().map_or(Ok(()), Writing::close)
    }

    /// Writes to an append file: how many of the bytes are taken, up to the end of a line or all. They are in the log then, but for
    /// what has no end yet.
    ///
    /// # Errors
    /// Why the first line isn't appended.
    pub fn write(&self, handle: u64, bytes: &[u8]) -> Result<usize, FsError> {
        let handle = self.handles().get(handle)?;
        let Handle { content: Content::Append(file), counts, .. } = &*handle else {
            return Err(FsError::ReadOnly);
        };
        let mut writer = lock(&file.writer);
        let writer = match &mut *writer {
            Some(writer) => writer,
            none => none.insert(LineWriter::new(file.format, self.appender(&file.key)?)),
        };
        let before = writer.records();
        let written = writer.write(bytes, now());
        counts.appended_records.add(writer.records() - before);
        counts.appended_bytes.add(written.bytes as u64);
        if let Some(error) = written.refused {
            self.refuse(writer.appender(), &error);
            if written.bytes == 0 {
                return Err(error.into());
            }
        }
        Ok(written.bytes)
    }

    /// Makes what was written through a handle durable, but for a line without an end.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self, handle: u64) -> Result<(), FsError> {
        let handle = self.handles().get(handle)?;
        let Content::Append(file) = &handle.content else { return Ok(()) };
        let appender = lock(&file.writer).as_ref().map(|writer| writer.appender().clone());
        Ok(appender.map_or(Ok(()), |appender| appender.flush()).map_err(WriteError::from)?)
    }

    /// Appends what a handle has left, at its last close, when there is nobody to tell of an error.
    pub(super) fn finish_append(&self, file: &AppendFile, counts: &TopicCounts) {
        let Some(mut writer) = lock(&file.writer).take() else { return };
        let before = writer.records();
        if let Err(error) = writer.finish(now()) {
            self.refuse(writer.appender(), &error);
        }
        counts.appended_records.add(writer.records() - before);
    }

    /// Lines that were refused lately.
    pub(super) fn refused_lines(&self) -> Vec<Problem> {
        self.writing().map(Writing::refused).unwrap_or_default()
    }

    /// Whether an inode is an append file.
    pub fn is_append(&self, ino: u64) -> bool {
        self.inodes().get(ino).is_ok_and(|node| matches!(*node, Node::Of(_, Item::Append(_))))
    }

    /// Whether a partition has append files.
    pub(super) fn is_appendable(&self, key: &PartitionKey) -> bool {
        let is_internal = names::INTERNAL_TOPICS.contains(&&*key.topic);
        self.is_writable() && !is_internal && key.label.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// The append files of a partition, and their names.
    pub(super) fn append_names(&self, key: &PartitionKey) -> Vec<(std::ffi::OsString, Node)> {
        if !self.is_appendable(key) {
            return Vec::new();
        }
        let node = |format| Node::Of(key.clone(), Item::Append(format));
        LineFormat::ALL.into_iter().map(|format| (append_name(format).into(), node(format))).collect()
    }

    /// The partition, open for appending.
    fn appender(&self, key: &PartitionKey) -> Result<Arc<Appender>, FsError> {
        let writing = self.writing().ok_or(FsError::ReadOnly)?;
        if !self.is_appendable(key) {
            return Err(FsError::ReadOnly);
        }
        let partition = self.view(key)?.partition.clone();
        let Origin::Directory(directory) = &partition.origin else { return Err(FsError::ReadOnly) };
        let owned = writing.directory_of(directory).ok_or(FsError::ReadOnly)?;
        let config = self.configs_of(&key.topic).log_config();
        Ok(owned.appender(&partition.name, directory, &config)?)
    }

    fn refuse(&self, appender: &Appender, error: &WriteError) {
        tracing::warn!(partition = %appender.directory().display(), %error, "not appended");
        self.refusals.add(1);
        if let Some(writing) = self.writing() {
            writing.note(appender.directory(), error);
        }
    }
}

/// The name of an append file.
fn append_name(format: LineFormat) -> String {
    format.extension().map_or_else(|| "append".to_owned(), |extension| format!("append.{extension}"))
}

/// The format of the append file of that name.
pub(super) fn append_format(name: &str) -> Option<LineFormat> {
    LineFormat::ALL.into_iter().find(|format| append_name(*format) == name)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
