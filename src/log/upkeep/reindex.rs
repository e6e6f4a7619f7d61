//! Indexes, producer snapshots and leader epochs made anew of logs, which stay as they are.
//!
//! As recovery makes them that trusts nothing, with one difference: behind damage it goes on, since the log isn't cut there. What a
//! snapshot at the log's first segment knows, and a checkpoint of epochs that most batches agree with, counts. A file that says the
//! same already is left alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::batch::Limits;
use crate::format::checkpoint;
use crate::format::index::{AbortedTxn, OFFSET_ENTRY_LEN, TIME_ENTRY_LEN};
use crate::format::names::{self, FileType, SegmentFile};
use crate::format::snapshot;
use crate::log::LogError;
use crate::log::append::owned::OwnedDirectory;
use crate::log::append::recovery::RecoveryError;
use crate::log::append::recovery::files::{
    is_swap, name_of, odd_log, read_epochs, read_snapshot, segments_of,
};
use crate::log::append::replay::Replay;
use crate::log::derived::epochs::Epochs;
use crate::log::derived::indexing::{Appended, IndexBuilder, IndexBytes};
use crate::log::derived::producers::Producers;
use crate::log::files;
use crate::log::files::disk::{self, Disk};
use crate::log::partition::{Origin, Partition};
use crate::log::segment::Segment;
use crate::log::segment::beside::{MAX_INDEX_BYTES, live_path};
use crate::log::segment::scan::{Damage, Step, Tail};
use crate::units::{Offset, Position, TopicPartition};

/// How large indexes get.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// `index.interval.bytes`
    pub interval_bytes: u64,
    /// `segment.index.bytes`
    pub index_bytes: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Reindexed {
    /// Segments that were read.
    pub segments: usize,
    /// Files that are made anew.
    pub made: Vec<Made>,
    /// Files that go: they belong to no segment, or have nothing to say.
    pub removed: Vec<PathBuf>,
    /// How many files were right.
    pub right: usize,
    /// Damaged places of logs.
    pub damage: Vec<(PathBuf, Damage)>,
    /// Indexes that `segment.index.bytes` has no room for: their last entries are missing.
    pub full: Vec<PathBuf>,
}

/// A file that is made anew.
#[derive(Debug)]
pub struct Made {
    /// The file.
    pub path: PathBuf,
    /// Whether there was none.
    pub was_missing: bool,
}

/// Why a partition can't be reindexed.
#[derive(Debug, thiserror::Error)]
pub enum ReindexError {
    /// It is none that a broker could load.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// A compaction was interrupted.
    #[error("{}: left by an interrupted compaction; `topicfs recover` finishes it", path.display())]
    Swap {
        /// One of its files.
        path: PathBuf,
    },
    /// Its files can't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Where files go.
#[derive(Debug, Clone, Copy)]
pub enum To<'a> {
    /// Nowhere: it is only said which would be made.
    Nowhere,
    /// Beside the logs, or into another directory.
    Disk(&'a dyn Disk),
}

impl OwnedDirectory {
    /// Makes what belongs to a partition's logs anew.
    ///
    /// # Errors
    /// Why that can't be done.
    pub fn reindex(
        &self,
        name: &TopicPartition,
        directory: &Path,
        sizes: Sizes,
        tell: &dyn Fn(u64),
    ) -> Result<Reindexed, ReindexError> {
        let known = self.known_of(name, sizes.interval_bytes);
        let was_sound = self.is_sound();
        self.set_sound(false);
        let to = To::Disk(self.disk());
        let reindexed = in_place(name, directory, known.log_start, (sizes, known.limits), to, tell);
        // What is refused has not changed.
        self.set_sound(was_sound && !matches!(reindexed, Err(ReindexError::Log(_))));
        reindexed
    }
}

/// Makes what belongs to the logs in a directory anew, or says what would be.
///
/// # Errors
/// Why that can't be done.
pub fn in_place(
    name: &TopicPartition,
    directory: &Path,
    log_start: Option<Offset>,
    (sizes, limits): (Sizes, Limits),
    to: To<'_>,
    tell: &dyn Fn(u64),
) -> Result<Reindexed, ReindexError> {
    if let Some(path) = odd_log(directory)? {
        return Err(RecoveryError::NoFile { path }.into());
    }
    let segments = segments_of(directory, name, limits)?;
    if let Some(packed) = segments.iter().find(|one| one.is_packed() || name_of(one).is_none()) {
        return Err(RecoveryError::Packed { path: packed.path.clone() }.into());
    }
    if let Some(swap) = segments.iter().find(|segment| is_swap(segment)) {
        return Err(ReindexError::Swap { path: swap.path.clone() });
    }
    let mut making = Making::new(directory, Some(directory), sizes, to);
    making.make(&segments, log_start, limits, tell)?;
    making.remove_others()?;
    Ok(making.done)
}

/// Makes what belongs to a partition's logs in a directory of its name in `out`; the partition is only read.
///
/// # Errors
/// Those of reading, and the system's.
pub fn elsewhere(
    partition: &Partition,
    out: &Path,
    sizes: Sizes,
    disk: &dyn Disk,
    tell: &dyn Fn(u64),
) -> Result<Reindexed, LogError> {
    let directory = out.join(partition.name.to_string());
    disk.create_directory(&directory).map_err(|error| disk::failed(&directory, "create", error))?;
    let segments = partition.segments()?;
    let limits = segments.first().map_or_else(Limits::default, |segment| segment.limits());
    let source = match &partition.origin {
        Origin::Directory(path) => Some(&**path),
        Origin::File(_) => None,
    };
    let mut making = Making::new(&directory, source, sizes, To::Disk(disk));
    making.make(&segments, Some(partition.log_start()?), limits, tell)?;
    disk::sync_directory(disk, &directory)?;
    disk::sync_directory(disk, out)?;
    Ok(making.done)
}

/// Files that are being made.
struct Making<'a> {
    directory: &'a Path,
    /// Where snapshots and epochs of before are.
    source: Option<&'a Path>,
    sizes: Sizes,
    to: To<'a>,
    names: BTreeSet<String>,
    done: Reindexed,
}

impl<'a> Making<'a> {
    fn new(directory: &'a Path, source: Option<&'a Path>, sizes: Sizes, to: To<'a>) -> Self {
        Self { directory, source, sizes, to, names: BTreeSet::new(), done: Reindexed::default() }
    }

    fn make(
        &mut self,
        segments: &[Arc<Segment>],
        log_start: Option<Offset>,
        limits: Limits,
        tell: &dyn Fn(u64),
    ) -> Result<(), LogError> {
        let first = segments.first().map(|segment| segment.base);
        let known = first.and_then(|first| read_snapshot(self.source?, first));
        if let (Some(producers), Some(first)) = (&known, first) {
            self.snapshot(first, producers)?;
        }
        let stored = self.source.map_or_else(Epochs::default, read_epochs);
        let mut replay = Replay::new(known.unwrap_or_default(), stored, limits);
        let mut end = log_start.unwrap_or(Offset(0));
        for (number, segment) in segments.iter().enumerate() {
            if number > 0 {
                self.snapshot(segment.base, &replay.producers)?;
            }
            end = self.segment(segment, &mut replay)?;
            tell(segment.stored_len()?);
            self.done.segments += 1;
        }
        let start = log_start.max(first).unwrap_or(end);
        // Epochs in front of the first segment are those of segments in a tiered store.
        let (producers, epochs) = replay.finish(log_start.unwrap_or(Offset(0)), end.max(start));
        if first.is_some() {
            self.snapshot(end, &producers)?;
        }
        let is_there = self.directory.join(names::LEADER_EPOCHS).exists();
        if !epochs.entries().is_empty() || is_there {
            let text = checkpoint::format_epochs(epochs.entries());
            self.file(names::LEADER_EPOCHS, text.as_bytes(), |old| {
                checkpoint::parse_epochs(old).is_ok_and(|old| old == epochs.entries())
            })?;
        }
        Ok(())
    }

    /// Makes the indexes of a segment; the offset after its last.
    fn segment(&mut self, segment: &Segment, replay: &mut Replay) -> Result<Offset, LogError> {
        let mut indexes = IndexBytes::new(segment.base, IndexBuilder::new(self.sizes.interval_bytes));
        let (mut txn_index, mut end, mut above) = (Vec::new(), segment.base, Position(0));
        let mut scanner = segment.scan(segment.start())?;
        let tail = loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { position, batch } => {
                    let (len, header) = (batch.bytes.len() as u64, &batch.header);
                    let (last_offset, max_timestamp) = (header.last_offset, header.max_timestamp);
                    txn_index.extend(replay.append(&batch).into_iter().flat_map(AbortedTxn::encode));
                    // One of two that changed places has no place in an index.
                    if position >= above {
                        indexes.append(&Appended { position, len, last_offset, max_timestamp });
                        above = position.plus(len);
                    }
                    end = last_offset.next();
                }
                Step::Damage(damage) => self.done.damage.push((segment.path.clone(), damage)),
                Step::End(tail) => break tail,
            }
        };
        if let Tail::Torn(damage) | Tail::Bad(damage) = tail {
            self.done.damage.push((segment.path.clone(), damage));
        }
        indexes.close();
        self.cut_to_size(segment.base, &mut indexes);
        self.index(segment.base, FileType::OffsetIndex, &indexes.offsets)?;
        self.index(segment.base, FileType::TimeIndex, &indexes.times)?;
        if !txn_index.is_empty() {
            self.index(segment.base, FileType::TxnIndex, &txn_index)?;
        }
        Ok(end)
    }

    /// Leaves out what a broker with this `segment.index.bytes` has no room for; the largest timestamp stays.
    fn cut_to_size(&mut self, base: Offset, indexes: &mut IndexBytes) {
        let most = |entry_len: usize| {
            usize::try_from(self.sizes.index_bytes).unwrap_or(usize::MAX) / entry_len * entry_len
        };
        let (offsets, times) = (most(OFFSET_ENTRY_LEN), most(TIME_ENTRY_LEN));
        let path = |file_type| live_path(self.directory, base, file_type);
        let mut full = Vec::new();
        if indexes.offsets.len() > offsets {
            indexes.offsets.truncate(offsets);
            full.push(path(FileType::OffsetIndex));
        }
        if indexes.times.len() > times {
            let last = indexes.times.split_off(indexes.times.len() - TIME_ENTRY_LEN);
            indexes.times.truncate(times.saturating_sub(TIME_ENTRY_LEN));
            indexes.times.extend(last);
            full.push(path(FileType::TimeIndex));
        }
        self.done.full.extend(full);
    }

    fn index(&mut self, base: Offset, file_type: FileType, bytes: &[u8]) -> Result<(), LogError> {
        // A broker that runs has reserved space behind those of its last segment.
        let may_have_zeros = matches!(self.to, To::Nowhere);
        let is_rest = |rest: &[u8]| rest.is_empty() || may_have_zeros && rest.iter().all(|byte| *byte == 0);
        let is_same = |old: &[u8]| old.strip_prefix(bytes).is_some_and(is_rest);
        self.file(&SegmentFile::live(base, file_type).to_string(), bytes, is_same)
    }

    fn snapshot(&mut self, at: Offset, producers: &Producers) -> Result<(), LogError> {
        let entries = producers.snapshot();
        let is_same = |old: &[u8]| {
            snapshot::parse(old).is_ok_and(|old| Producers::from_snapshot(&old).snapshot() == entries)
        };
        let name = SegmentFile::live(at, FileType::Snapshot).to_string();
        self.file(&name, &snapshot::format(&entries), is_same)
    }

    /// Writes a file unless the one that is there says the same.
    fn file(&mut self, name: &str, bytes: &[u8], is_same: impl Fn(&[u8]) -> bool) -> Result<(), LogError> {
        let path = self.directory.join(name);
        if !self.names.insert(name.to_owned()) {
            return Ok(());
        }
        let was_missing = !path.exists();
        if files::read_small(&path, MAX_INDEX_BYTES).is_ok_and(|old| is_same(&old)) {
            self.done.right += 1;
            return Ok(());
        }
        if let To::Disk(disk) = self.to {
            disk::replace(disk, &path, bytes)?;
        }
        self.done.made.push(Made { path, was_missing });
        Ok(())
    }

    /// Removes the indexes and snapshots that were not made, and that belong to no file that waits for something.
    fn remove_others(&mut self) -> Result<(), LogError> {
        let directory = self.directory;
        let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
        let found = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let is_ours = |name: &String| {
            SegmentFile::parse(name).is_some_and(|file| {
                file.file_type != FileType::Log && file == SegmentFile::live(file.base, file.file_type)
            })
        };
        let mut others: Vec<String> =
            found.filter(|name| is_ours(name) && !self.names.contains(name)).collect();
        others.sort();
        for path in others.iter().map(|name| directory.join(name)) {
            if let To::Disk(disk) = self.to {
                disk::remove_if_there(disk, &path)?;
            }
            self.done.removed.push(path);
        }
        match self.to {
            To::Disk(disk) if !self.done.made.is_empty() || !self.done.removed.is_empty() => {
                disk::sync_directory(disk, directory)
            }
            To::Disk(_) | To::Nowhere => Ok(()),
        }
    }
}
