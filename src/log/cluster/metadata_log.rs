//! The metadata partition: its newest whole snapshot (KIP-630), and the log behind it.
//!
//! A snapshot is a file of batches from offset 0 on, the last of which is a control batch with a SNAPSHOT_FOOTER; without one it was
//! never finished. The log is read on from where it was read to; where it was cut, or has lost its beginning, all is read again.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::format::batch::{Batch, Decoder, Limits};
use crate::format::control::ControlType;
use crate::format::metadata_record::MetadataRecord;
use crate::format::names::{FileState, KraftSnapshot, METADATA_TOPIC};
use crate::log::LogError;
use crate::log::cluster::metadata::{Metadata, Replay};
use crate::log::files::{self, FilePool};
use crate::log::partition::{Bounds, Origin, Partition};
use crate::log::problem::{Kind, Problem};
use crate::log::segment::Segment;
use crate::log::segment::scan::{Scanner, Start, Step, Tail};
use crate::units::{Offset, Position, TopicPartition};

/// Descriptors open at once.
const OPEN_FILES: NonZeroUsize = NonZeroUsize::MIN;
/// Places that are told of.
const MAX_PROBLEMS: usize = 16;

/// A metadata partition, and what was read of it.
#[derive(Debug)]
pub struct MetadataLog {
    directory: PathBuf,
    partition: Partition,
    pool: Arc<FilePool>,
    limits: Limits,
    /// As what it was read.
    seen: Option<State>,
    read: Read,
}

/// What of a log changes when something is in it that wasn't: how often it was cut, and where its last segment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    generation: u64,
    active: Option<(Offset, u64)>,
}

#[derive(Debug, Default)]
struct Read {
    replay: Replay,
    /// The offset behind the last record that was read.
    next: Offset,
    problems: Vec<Problem>,
}

impl MetadataLog {
    /// The partition in `directory`; nothing is read yet.
    pub fn new(directory: PathBuf, limits: Limits) -> Self {
        let name = TopicPartition { topic: METADATA_TOPIC.to_owned(), partition: 0 };
        let pool = Arc::new(FilePool::new(OPEN_FILES));
        let origin = Origin::Directory(directory.clone());
        let partition = Partition::new(name, "0".to_owned(), origin, Bounds::default(), pool.clone(), limits);
        Self { directory, partition, pool, limits, seen: None, read: Read::default() }
    }

    /// What was read says of topics.
    pub fn metadata(&self) -> Arc<Metadata> {
        self.read.replay.metadata().clone()
    }

    /// The offset behind the last record that was read.
    pub const fn end(&self) -> Offset {
        self.read.next
    }

    /// What can't be read.
    pub fn problems(&self) -> &[Problem] {
        &self.read.problems
    }

    /// Reads what is new; whether there was anything. No file stays open: a broker may delete it.
    pub fn look(&mut self) -> bool {
        let has_changed = self.look_at_files();
        self.pool.expire(Duration::ZERO);
        has_changed
    }

    fn look_at_files(&mut self) -> bool {
        match self.state() {
            Ok(state) if self.seen == Some(state) => false,
            Ok(state) => {
                let is_same = self.seen.is_some_and(|seen| seen.generation == state.generation);
                if let Err(error) = self.read(is_same) {
                    self.read.tell(Problem::of_file(&self.directory, Kind::Unreadable, error.to_string()));
                }
                self.seen = Some(state);
                true
            }
            Err(error) => {
                let problem = Problem::of_file(&self.directory, Kind::Unreadable, error.to_string());
                self.seen.take();
                let is_new = !self.read.problems.contains(&problem);
                self.read.tell(problem);
                is_new
            }
        }
    }

    fn state(&self) -> Result<State, LogError> {
        let segments = self.partition.segments()?;
        let active = segments
            .last()
            .map(|active| Ok::<_, LogError>((active.base, active.stored_len()?)))
            .transpose()?;
        Ok(State { generation: self.partition.generation(), active })
    }

    fn read(&mut self, is_same: bool) -> Result<(), LogError> {
        let first = self.partition.first_on_disk()?;
        if !is_same || self.read.next < first {
            self.read = self.newest_snapshot();
            if self.read.next < first {
                let cause = format!(
                    "what the cluster says of topics is not known from offset {} to {first}, where the log begins",
                    self.read.next
                );
                self.read.tell(Problem::of_file(&self.directory, Kind::Metadata, cause));
            }
        }
        let segments = self.partition.segments()?;
        for segment in segments.iter().skip(Partition::floor(&segments, self.read.next)) {
            self.read.segment(segment)?;
        }
        Ok(())
    }

    /// The newest snapshot that is whole; nothing at offset 0 where there is none.
    fn newest_snapshot(&self) -> Read {
        let names = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| KraftSnapshot::parse(entry.file_name().to_str()?));
        let mut snapshots: Vec<_> = names.filter(|name| name.state == FileState::Live).collect();
        snapshots.sort_by_key(|name| std::cmp::Reverse((name.end_offset, name.epoch)));
        let mut problems = Vec::new();
        for name in snapshots {
            let path = self.directory.join(name.to_string());
            match snapshot(&path, self.limits) {
                Ok(replay) => return Read { replay, next: name.end_offset, problems },
                Err(cause) => problems.push(Problem::of_file(&path, Kind::Metadata, cause)),
            }
        }
        problems.truncate(MAX_PROBLEMS);
        Read { problems, ..Read::default() }
    }
}

/// How many bytes reading a metadata partition costs: those of its log and of its largest snapshot.
pub(super) fn size(directory: &Path) -> u64 {
    let (mut log, mut snapshot) = (0_u64, 0);
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let len = std::fs::symlink_metadata(&path).map_or(0, |meta| meta.len());
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("log") => log = log.saturating_add(len),
            Some("checkpoint") => snapshot = len.max(snapshot),
            _ => {}
        }
    }
    log.saturating_add(snapshot)
}

impl Read {
    fn tell(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS && !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Reads a segment from where the log was read to.
    fn segment(&mut self, segment: &Segment) -> Result<(), LogError> {
        let (mut scanner, mut decoder) = (segment.scan_near(self.next)?, Decoder::default());
        loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { batch, .. } if batch.header.last_offset < self.next => {}
                Step::Batch { position, batch } => {
                    if let Err(cause) =
                        apply(&batch, self.next, &mut decoder, segment.limits(), &mut self.replay)
                    {
                        let problem = Problem::of_file(&segment.path, Kind::BadRecords, cause);
                        self.tell(problem.at(position, batch.bytes.len() as u64));
                    }
                    self.next = batch.header.last_offset.next();
                }
                Step::Damage(damage) => {
                    let kind = Kind::of_fault(&damage.fault);
                    self.tell(Problem::of_damage(&segment.path, &damage, kind));
                }
                // What is torn or zero may be a batch on its way.
                Step::End(Tail::Bad(damage)) => {
                    let kind = Kind::of_fault(&damage.fault);
                    self.tell(Problem::of_damage(&segment.path, &damage, kind));
                    return Ok(());
                }
                Step::End(_) => return Ok(()),
            }
        }
    }
}

/// The metadata of a snapshot.
///
/// # Errors
/// Why it doesn't count.
fn snapshot(path: &Path, limits: Limits) -> Result<Replay, String> {
    let file = files::open(path).map_err(|error| error.to_string())?;
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    let start = Start::new(Position(0), Offset(0), Offset(i64::MAX));
    let mut scanner = Scanner::new(file, len, start, limits);
    let (mut replay, mut decoder, mut last) = (Replay::default(), Decoder::default(), None);
    loop {
        match scanner.step().map_err(|error| error.to_string())? {
            Step::Batch { batch, .. } => last = apply(&batch, Offset(0), &mut decoder, limits, &mut replay)?,
            Step::Damage(damage) => return Err(format!("at {}: {}", damage.position, damage.fault)),
            Step::End(Tail::Clean) if last == Some(ControlType::SnapshotFooter) => return Ok(replay),
            Step::End(_) => return Err("the snapshot ends without its SNAPSHOT_FOOTER record".to_owned()),
        }
    }
}

/// Takes in the records of a batch from offset `from` on; the type of the last one if they are control records.
///
/// # Errors
/// Why they can't all be read; those before count.
fn apply(
    batch: &Batch<'_>,
    from: Offset,
    decoder: &mut Decoder,
    limits: Limits,
    replay: &mut Replay,
) -> Result<Option<ControlType>, String> {
    let mut last = None;
    for record in batch.records(decoder, &limits).map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        if batch.header.is_control {
            last = ControlType::parse(record.key.unwrap_or_default()).ok();
        } else if record.offset >= from {
            let parsed = MetadataRecord::parse(record.value.unwrap_or_default());
            replay.apply(&parsed.map_err(|error| format!("offset {}: {error}", record.offset))?);
        }
    }
    Ok(last)
}
