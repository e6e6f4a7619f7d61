//! One partition: its directory, and what only shows when its segments are seen together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::batch::Limits;
use crate::format::names::{self, FileType, PartitionDir};
use crate::log::partition::{Origin, Partition};
use crate::log::problem::{Kind, Problem};
use crate::log::segment::Segment;
use crate::log::verify::data_directory::{Compaction, DataDirectory};
use crate::log::verify::directory::Listing;
use crate::log::verify::epochs::{self, EpochRun};
use crate::log::verify::found::Found;
use crate::log::verify::index_file::{are_joined, beside, wrong_txn};
use crate::log::verify::segment::{Around, Gap, SegmentReport};
use crate::log::verify::txn_index::OpenTxns;
use crate::log::verify::{Counts, Report, kraft, small};
use crate::units::{Offset, Position};

/// More gaps than a hole makes: the partition is compacted, whatever else is known.
const MAX_GAPS: usize = 16;

/// A partition to check.
pub(super) struct Job {
    pub(super) partition: Arc<Partition>,
    pub(super) segments: Arc<[Arc<Segment>]>,
    pub(super) around: Around,
    data_directory: Arc<DataDirectory>,
    limits: Limits,
    listing: Listing,
    /// Whether the data directory's files speak of it, and not of another replica.
    is_current: bool,
    unlisted: Option<Problem>,
}

impl Job {
    /// Lists what there is to check.
    pub(super) fn new(partition: Arc<Partition>, data_directory: Arc<DataDirectory>, limits: Limits) -> Self {
        let directory = match &partition.origin {
            Origin::Directory(path) => Some(path.as_path()),
            Origin::File(_) => None,
        };
        let listing = directory.map(Listing::of).unwrap_or_default();
        let name = directory.and_then(|path| std::fs::canonicalize(path).ok());
        let dir =
            name.as_deref().and_then(Path::file_name).and_then(|name| PartitionDir::parse(name.to_str()?));
        let is_current = dir.is_some_and(|dir| dir.kind == names::Kind::Current);
        let (segments, unlisted) = match partition.segments() {
            Ok(segments) => (segments, None),
            Err(error) => {
                let problem = Problem::of_file(partition.origin.path(), Kind::Unreadable, error.to_string());
                (Arc::from([]), Some(problem))
            }
        };
        let around = Around {
            is_clean: data_directory.is_clean && is_current,
            has_time_indexes: listing.has_time_indexes,
        };
        Self { partition, segments, around, data_directory, limits, listing, is_current, unlisted }
    }

    /// Puts together what was found in the segments, with what shows only then.
    pub(super) fn conclude(&self, segments: Vec<SegmentReport>) -> Report {
        let mut counts = Counts { partitions: 1, ..Counts::default() };
        let mut found = Found::default();
        found.extend(self.unlisted.clone());
        found.extend(self.listing.problems.iter().cloned());
        found.extend(self.partition.notes());
        self.names(&segments, &mut found);
        self.sequence(&segments, &mut found);
        let end = self.log_end(&segments);
        if self.is_current {
            found.extend(self.data_directory.behind(&self.partition.name, end));
        }
        self.small_files(&mut found);
        self.epochs(&segments, end, &mut found);
        let mut open = OpenTxns::default();
        for (segment, report) in self.segments.iter().zip(segments) {
            let SegmentReport { found: own, counts: of, carried, .. } = report;
            counts.add(&of);
            found.merge(own);
            let path = beside(&segment.path, FileType::TxnIndex);
            let len = std::fs::metadata(&path).map_or(0, |meta| meta.len());
            let wrong = open.pass(carried);
            if !are_joined(&segment.path) {
                found.extend(wrong.into_iter().map(|wrong| wrong_txn(&path, len, wrong)));
            }
        }
        Report { problems: found.finish(&mut counts), counts }
    }

    fn log_end(&self, segments: &[SegmentReport]) -> Offset {
        let base = self.segments.last().map_or(Offset(0), |segment| segment.base);
        segments.iter().filter_map(|segment| segment.next).fold(base, Offset::max)
    }

    /// Names that say more than the log has.
    fn names(&self, segments: &[SegmentReport], found: &mut Found) {
        for (segment, report) in self.segments.iter().zip(segments) {
            if let Some(first) = report.first.filter(|first| *first < segment.base) {
                let cause =
                    format!("the name says that offsets begin at {}, the first is {first}", segment.base);
                found.add(Problem::of_file(&segment.path, Kind::Name, cause).about(first));
            }
        }
    }

    /// Offsets that are missing, within segments and between them.
    fn sequence(&self, segments: &[SegmentReport], found: &mut Found) {
        let gaps = self.gaps(segments);
        let compaction = match self.is_current {
            true => self.data_directory.compaction(&self.partition.name),
            false => Compaction::Unknown,
        };
        let is_compacted = gaps.len() > MAX_GAPS || segments.iter().any(|segment| segment.is_compacted);
        let kind = match compaction {
            Compaction::Done => return,
            _ if is_compacted => return,
            Compaction::Never => Kind::Hole,
            Compaction::Unknown => Kind::Gap,
        };
        for (segment, Gap { position, from, to }) in gaps {
            let cause = format!("offsets {from} to {} are missing", Offset(to.0 - 1));
            found.add(Problem::of_file(&segment.path, kind, cause).at(position, 0).about(from));
        }
    }

    fn gaps(&self, segments: &[SegmentReport]) -> Vec<(&Segment, Gap)> {
        let mut gaps = Vec::new();
        // Where the next offset is known: not after damage.
        let mut next: Option<Offset> = None;
        for (segment, report) in self.segments.iter().zip(segments) {
            // An empty segment begins where the one before it ended.
            let first = report.first.unwrap_or(segment.base);
            if let Some(from) = next.filter(|next| first > *next && !report.begins_damaged) {
                gaps.push((&**segment, Gap { position: Position(0), from, to: first }));
            }
            gaps.extend(report.gaps.iter().map(|gap| (&**segment, *gap)));
            next = if report.ends_damaged { None } else { report.next.or(Some(first)) };
        }
        gaps
    }

    /// The small files beside the segments.
    fn small_files(&self, found: &mut Found) {
        for (path, name) in &self.listing.small {
            if *name != names::LEADER_EPOCHS {
                found.extend(small::by_name(path, name));
            }
        }
        let has_id = self.listing.small.iter().any(|(_, name)| *name == names::PARTITION_METADATA);
        if self.is_current && !has_id && self.data_directory.needs_topic_id(&self.partition.name) {
            let path = self.partition.origin.path().join(names::PARTITION_METADATA);
            let cause = "there is no such file; a broker can't tell of which topic the partition is";
            if matches!(self.partition.origin, Origin::Directory(_)) {
                found.add(Problem::of_file(&path, Kind::Missing, cause));
            }
        }
        for path in &self.listing.snapshots {
            found.extend(small::by_name(path, ""));
        }
        for path in &self.listing.kraft_snapshots {
            found.extend(kraft::check(path, self.limits));
        }
    }

    /// Leader epochs of batches, and what the checkpoint says of them.
    fn epochs(&self, segments: &[SegmentReport], end: Offset, found: &mut Found) {
        let runs: Vec<(&Path, EpochRun)> = self
            .segments
            .iter()
            .zip(segments)
            .flat_map(|(segment, report)| report.epochs.iter().map(|run| (segment.path.as_path(), *run)))
            .collect();
        let plain: Vec<EpochRun> = runs.iter().map(|(_, run)| *run).collect();
        let wrong = epochs::going_back(&plain);
        for (number, cause) in &wrong {
            let (path, run) = &runs[*number];
            let problem = Problem::of_file(path, Kind::Epochs, cause.clone());
            found.add(problem.at(run.position, run.len).about(run.first));
        }
        let Some((path, _)) = self.listing.small.iter().find(|(_, name)| *name == names::LEADER_EPOCHS)
        else {
            return;
        };
        let trusted =
            plain.iter().enumerate().filter(|(number, _)| !wrong.iter().any(|(bad, _)| bad == number));
        match small::read(path) {
            Ok(Some(bytes)) => self.epoch_checkpoint(path, &bytes, trusted.map(|(_, run)| run), end, found),
            Ok(None) => {}
            Err(problem) => found.add(problem),
        }
    }

    fn epoch_checkpoint<'a>(
        &self,
        path: &Path,
        bytes: &[u8],
        mut runs: impl Iterator<Item = &'a EpochRun>,
        end: Offset,
        found: &mut Found,
    ) {
        let (entries, problems) = small::leader_epochs(path, bytes);
        found.extend(problems);
        // Of a deleted partition it was emptied.
        let Some(entries) = entries.filter(|_| self.is_current) else { return };
        if entries.is_empty() {
            // Of batches below the log start there need be none.
            let start = self.partition.log_start().unwrap_or(Offset(0));
            if let Some(run) = runs.find(|run| run.last >= start).filter(|_| self.around.is_clean) {
                let cause =
                    format!("there are no entries, batches from {} on have epoch {}", run.first, run.epoch.0);
                found.add(Problem::of_file(path, Kind::Epochs, cause).about(run.first));
            }
            return;
        }
        let is_clean = self.around.is_clean;
        if let Some((number, last)) =
            (0..).zip(&entries).last().filter(|(_, last)| is_clean && last.start_offset > end)
        {
            let cause =
                format!("epoch {} from offset {} on, the log ends at {end}", last.epoch.0, last.start_offset);
            found.add(small::epoch_entry(path, bytes, &entries, number, cause));
        }
        for run in runs {
            match epochs::contradiction(&entries, run) {
                Some((Some(number), cause)) => {
                    found.add(small::epoch_entry(path, bytes, &entries, number, cause));
                }
                // After a crash the last entries may be missing.
                Some((None, cause)) if is_clean => {
                    found.add(small::epoch_entry(path, bytes, &entries, entries.len() - 1, cause));
                }
                _ => {}
            }
        }
    }
}

/// What the names and small files of a partition directory say, and its newest producer snapshot: cheap enough to look
/// again each time that somebody asks.
pub(super) fn cheap(directory: &Path) -> Vec<Problem> {
    let listing = Listing::of(directory);
    let mut problems = listing.problems;
    for (path, name) in &listing.small {
        problems.extend(small::by_name(path, name));
    }
    let newest: Option<&PathBuf> = listing.snapshots.last();
    problems.extend(newest.into_iter().flat_map(|path| small::by_name(path, "")));
    problems
}
