//! One file by itself: an index with its log if that lies beside it, a snapshot, a checkpoint.

use std::path::Path;

use crate::format::names::{self, FileState, FileType, KraftSnapshot, SegmentFile};
use crate::log::problem::{Kind, Problem};
use crate::log::source::{Source, SourceOptions};
use crate::log::verify::index_file::{IndexFile, log_beside};
use crate::log::verify::{Plan, Report, kraft, offset_index, small, time_index, txn_index};

/// What a file is, by its name.
enum What {
    Index(SegmentFile),
    Small,
    Kraft,
}

impl What {
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let small =
            [names::PARTITION_METADATA, names::LEADER_EPOCHS, names::QUORUM_STATE, names::META_PROPERTIES];
        if small.contains(&name) || names::OFFSET_CHECKPOINTS.contains(&name) {
            return Some(Self::Small);
        }
        if name == names::BOOTSTRAP_CHECKPOINT || KraftSnapshot::parse(name).is_some() {
            return Some(Self::Kraft);
        }
        let file = SegmentFile::parse(name)?;
        match file.file_type {
            FileType::Log => None,
            FileType::Snapshot => Some(Self::Small),
            _ => Some(Self::Index(file)),
        }
    }
}

/// Whether `path` is a file that [`single_file`] checks: of a data directory, and no log.
pub fn is_single_file(path: &Path) -> bool {
    path.is_file() && What::of(path).is_some()
}

/// Checks one file. An index is compared with its log, where that lies beside it; otherwise its entries are compared
/// among each other.
pub fn single_file(path: &Path, options: SourceOptions) -> Report {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match What::of(path) {
        None => Report::default(),
        Some(What::Small) => Report::of(small::by_name(path, name)),
        Some(What::Kraft) => Report::of(kraft::check(path, options.limits)),
        Some(What::Index(file)) => match log_beside(path).filter(|_| file.state == FileState::Live) {
            Some(log) => with_log(path, &log, options),
            None => Report::of(alone(path, file)),
        },
    }
}

/// What a check of the whole segment says of the index.
fn with_log(path: &Path, log: &Path, options: SourceOptions) -> Report {
    // A name with a comma is one that exists as written.
    let source = match Source::open(&log.to_string_lossy(), options) {
        Ok(source) => source,
        Err(error) => return Report::of([Problem::of_file(log, Kind::Unreadable, error.to_string())]),
    };
    let mut problems = Vec::new();
    let mut counts = super::Counts::default();
    Plan::new(&source).run(1, &|_| (), &mut |report: Report| {
        counts.add(&report.counts);
        problems.extend(report.problems.into_iter().filter(|problem| problem.file == path));
    });
    let report = Report::of(problems);
    Report {
        counts: super::Counts { problems: report.counts.problems, notes: report.counts.notes, ..counts },
        ..report
    }
}

fn alone(path: &Path, SegmentFile { base, file_type, .. }: SegmentFile) -> Vec<Problem> {
    let index = match IndexFile::read(path, file_type) {
        Ok(Some(index)) => index,
        Ok(None) => return Vec::new(),
        Err(problem) => return vec![problem],
    };
    let (kind, mut problems) = match file_type {
        FileType::TxnIndex => {
            let entries: Vec<_> = index.transactions().entries().collect();
            (Kind::TxnIndex, index.wrong_txns(txn_index::judge_alone(base, &entries)))
        }
        FileType::TimeIndex => {
            let wrong = time_index::judge_alone(base, index.times(base));
            (Kind::TimeIndex, index.wrong(Kind::TimeIndex, wrong))
        }
        _ => {
            let verdict = offset_index::judge_alone(base, index.offsets(base));
            (Kind::Index, index.wrong(Kind::Index, verdict.wrong))
        }
    };
    problems.extend(index.part_of_entry(kind));
    problems
}
