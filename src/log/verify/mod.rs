//! Everything checked: each batch and record, each index entry against its log, snapshots, checkpoints, names.
//!
//! What is right is judged by what a look-up needs, not by what one release writes: leaders, followers, the cleaner,
//! recovery and brokers that were killed all leave something else. Segments are read by several threads, each of which
//! holds a piece of a log, its indexes and a batch's records; problems come out partition by partition in order.
//!
//! | module | what is compared |
//! |---|---|
//! | `segment` | a log: batches, records, its end; feeds the three below |
//! | [`offset_index`], [`time_index`], [`txn_index`] | index entries with batches; pure |
//! | [`epochs`] | leader epochs of batches among each other and with the checkpoint; pure |
//! | `order` | entries of an index among each other |
//! | `partition` | segments with each other, with the checkpoints and the directory |
//! | `directory`, `small`, `kraft` | names; text files and producer snapshots; KRaft's snapshots |
//! | `data_directory` | what is at the top of a data directory |
//! | `file` | one file by itself |
//! | `indexes`, `index_file` | the files of indexes: read, and told about |
//! | `text`, `found` | places in text; lines bounded |

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::log::LogError;
use crate::log::problem::{Problem, Severity};
use crate::log::side_by_side::Crew;
use crate::log::source::Source;
use crate::log::verify::data_directory::DataDirectory;
use crate::log::verify::found::Found;
use crate::log::verify::partition::Job;
use crate::log::verify::segment::SegmentReport;

mod data_directory;
mod directory;
pub mod epochs;
mod file;
mod found;
mod index_file;
mod indexes;
mod kraft;
pub mod offset_index;
mod order;
mod partition;
mod segment;
mod small;
mod text;
pub mod time_index;
pub mod txn_index;

pub use file::{is_single_file, single_file};

/// How many segments may be checked behind one that takes longer.
const WAITING: usize = 1024;

/// Called with numbers of bytes that were read, by any thread.
pub type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// How much was checked, and found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Partitions.
    pub partitions: u64,
    /// Segments.
    pub segments: u64,
    /// Sound batches.
    pub batches: u64,
    /// Records, control records too.
    pub records: u64,
    /// Bytes of logs.
    pub bytes: u64,
    /// Problems.
    pub problems: u64,
    /// Notes.
    pub notes: u64,
}

impl Counts {
    /// Adds all of another.
    pub fn add(&mut self, other: &Self) {
        self.partitions += other.partitions;
        self.segments += other.segments;
        self.batches += other.batches;
        self.records += other.records;
        self.bytes += other.bytes;
        self.problems += other.problems;
        self.notes += other.notes;
    }

    /// Problems or notes.
    pub(crate) const fn of(&mut self, severity: Severity) -> &mut u64 {
        match severity {
            Severity::Problem => &mut self.problems,
            Severity::Note => &mut self.notes,
        }
    }
}

/// What was found in a partition, at the top of a data directory, or in one file.
#[derive(Debug, Default)]
pub struct Report {
    /// In the order of files and positions.
    pub problems: Vec<Problem>,
    /// How much was checked.
    pub counts: Counts,
}

impl Report {
    fn of(problems: impl IntoIterator<Item = Problem>) -> Self {
        let (mut found, mut counts) = (Found::default(), Counts::default());
        found.extend(problems);
        Self { problems: found.finish(&mut counts), counts }
    }
}

/// All that is to be checked of a source.
pub struct Plan {
    top: Vec<Problem>,
    jobs: Vec<Job>,
    /// Jobs and segments by number; a partition without segments is there once.
    work: Vec<(usize, Option<usize>)>,
}

impl Plan {
    /// Lists what there is in a source, and reads the checkpoints: before the logs, which only grow.
    pub fn new(source: &Source) -> Self {
        let tree = source.tree();
        let mut top = tree.notes.clone();
        let mut directories: HashMap<PathBuf, Arc<DataDirectory>> = HashMap::new();
        for path in source.data_directories() {
            let (directory, problems) = DataDirectory::read(path);
            top.extend(problems);
            top.extend(bootstrap(path, source));
            directories.insert(path.to_owned(), Arc::new(directory));
        }
        let mut jobs = Vec::new();
        for partition in tree.topics.values().flatten() {
            let parent = partition.origin.path().parent().unwrap_or(Path::new("")).to_owned();
            // A partition that was named by itself may still lie in its data directory.
            let directory =
                directories.entry(parent).or_insert_with_key(|path| Arc::new(DataDirectory::read(path).0));
            jobs.push(Job::new(partition.clone(), directory.clone(), source.limits()));
        }
        let mut work = Vec::new();
        for (number, job) in jobs.iter().enumerate() {
            match job.segments.len() {
                0 => work.push((number, None)),
                count => work.extend((0..count).map(|segment| (number, Some(segment)))),
            }
        }
        Self { top, jobs, work }
    }

    /// Bytes of logs to read.
    ///
    /// # Errors
    /// Those of opening.
    pub fn bytes(&self) -> Result<u64, LogError> {
        let segments = self.jobs.iter().flat_map(|job| job.segments.iter());
        segments.map(|segment| segment.open().map(|(_, len)| len)).sum()
    }

    /// Checks everything with this many threads, and calls `emit` with each partition's report, in order.
    pub fn run(self, threads: usize, progress: Progress<'_>, emit: &mut (dyn FnMut(Report) + Send)) {
        emit(Report::of(self.top.iter().cloned()));
        let slots: Vec<Slot> = self.jobs.iter().map(|job| Slot::new(job.segments.len())).collect();
        let check =
            |&(job, segment): &(usize, Option<usize>)| self.step(job, segment, slots.get(job)?, progress);
        let crew = Crew { threads, waiting: WAITING };
        let Ok(()) = crew.each(&self.work, check, |report| -> Result<(), Infallible> {
            report.into_iter().for_each(&mut *emit);
            Ok(())
        });
    }

    /// Checks one segment; the partition's report if it was the last one.
    fn step(
        &self,
        job: usize,
        segment: Option<usize>,
        slot: &Slot,
        progress: Progress<'_>,
    ) -> Option<Report> {
        let job = &self.jobs[job];
        if let Some(number) = segment {
            let report = segment::check(&job.segments[number], job.around, progress);
            let mut reports = slot.reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports[number] = report;
            drop(reports);
            if slot.left.fetch_sub(1, Ordering::AcqRel) > 1 {
                return None;
            }
        }
        let reports = std::mem::take(&mut *slot.reports.lock().unwrap_or_else(PoisonError::into_inner));
        Some(job.conclude(reports))
    }
}

/// The reports of a partition's segments, as far as they are there.
struct Slot {
    reports: Mutex<Vec<SegmentReport>>,
    left: AtomicUsize,
}

impl Slot {
    fn new(segments: usize) -> Self {
        let reports = std::iter::repeat_with(SegmentReport::default).take(segments).collect();
        Self { reports: Mutex::new(reports), left: AtomicUsize::new(segments) }
    }
}

/// The initial metadata of a KRaft cluster.
fn bootstrap(directory: &Path, source: &Source) -> Vec<Problem> {
    let path = directory.join(crate::format::names::BOOTSTRAP_CHECKPOINT);
    if path.is_file() { kraft::check(&path, source.limits()) } else { Vec::new() }
}

/// Problems of a partition directory that show without reading its logs; no notes, as brokers that run leave leftovers
/// all the time.
pub fn cheap_checks(partition: &Path) -> Vec<Problem> {
    without_notes(partition::cheap(partition))
}

/// Problems of the files at the top of a data directory.
pub fn top_checks(directory: &Path) -> Vec<Problem> {
    without_notes(DataDirectory::read(directory).1)
}

fn without_notes(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.retain(|problem| problem.kind.severity() == Severity::Problem);
    problems
}
