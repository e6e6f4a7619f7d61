//! The files of a partition directory: which of them go, and which get another name.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::format::batch::Limits;
use crate::format::checkpoint;
use crate::format::names::{self, FileState, FileType, SegmentFile};
use crate::format::snapshot;
use crate::log::LogError;
use crate::log::derived::epochs::Epochs;
use crate::log::derived::producers::Producers;
use crate::log::files::disk::TEMPORARY;
use crate::log::files::{self, FilePool};
use crate::log::partition::{Bounds, Origin, Partition};
use crate::log::segment::Segment;
use crate::units::{Offset, TopicPartition};

/// The largest small file that is read: a producer snapshot of more than a million producers.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What has to be done to the names in a directory.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// What an interrupted deletion, compaction or split left, indexes without a log, and files that never got their name.
    pub(super) obsolete: Vec<PathBuf>,
    /// Files of complete swaps, and the names that they get; logs behind their indexes.
    pub(super) renames: Vec<(PathBuf, PathBuf)>,
    /// Where producer snapshots are.
    pub(super) snapshots: BTreeSet<Offset>,
    /// Segments whose offset or time index is missing, or whose transaction index may be that of another one.
    lacking: BTreeSet<Offset>,
    /// Segments of complete swaps.
    swapped: BTreeSet<Offset>,
}

impl Files {
    /// Those of a directory whose segments, as a loader resolves swaps, are these.
    pub(super) fn list(directory: &Path, segments: &[Arc<Segment>]) -> Result<Self, LogError> {
        let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
        let all: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        let mut found: Vec<SegmentFile> = all.iter().filter_map(|name| SegmentFile::parse(name)).collect();
        // Behind the others of a base comes its log.
        found.sort_by_key(|file| (file.base, file.file_type == FileType::Log));
        let from_swap: BTreeSet<Offset> =
            segments.iter().filter(|one| is_swap(one)).map(|one| one.base).collect();
        let live: BTreeSet<Offset> = segments.iter().map(|segment| segment.base).collect();
        let mut files = Self::default();
        files
            .obsolete
            .extend(all.iter().filter(|name| is_half_written(name)).map(|name| directory.join(name)));
        for file in &found {
            let path = directory.join(file.to_string());
            match (file.state, file.file_type) {
                (FileState::Live, FileType::Snapshot) => {
                    files.snapshots.insert(file.base);
                }
                (FileState::Swap, _) if from_swap.contains(&file.base) => {
                    let name = SegmentFile { state: FileState::Live, ..*file };
                    files.renames.push((path, directory.join(name.to_string())));
                }
                // A swap takes the place of the segment of its name, and of all that it was made from.
                (FileState::Live, _) if live.contains(&file.base) && !from_swap.contains(&file.base) => {}
                (FileState::Live, file_type)
                    if file_type != FileType::Log && from_swap.contains(&file.base) =>
                {
                    let swapped = SegmentFile { state: FileState::Swap, ..*file };
                    // Renamed already, where there is none to come.
                    if found.contains(&swapped) {
                        files.obsolete.push(path);
                    }
                }
                _ => files.obsolete.push(path),
            }
        }
        let has = |base: Offset, file_type, state| found.contains(&SegmentFile { base, file_type, state });
        let lacks = |base: &Offset| {
            let is_swap = from_swap.contains(base);
            let state = if is_swap { FileState::Swap } else { FileState::Live };
            // Nobody knows whether it is the old segment's, or has got its name already.
            let has_old = is_swap && has(*base, FileType::TxnIndex, FileState::Live);
            !has(*base, FileType::OffsetIndex, state) || !has(*base, FileType::TimeIndex, state) || has_old
        };
        files.lacking = live.iter().copied().filter(lacks).collect();
        files.swapped = from_swap;
        Ok(files)
    }

    /// Whether all names are right.
    pub(super) fn is_tidy(&self) -> bool {
        self.obsolete.is_empty() && self.renames.is_empty()
    }

    /// The logs that go because others take their place.
    pub(super) fn replaced(&self) -> impl Iterator<Item = &PathBuf> {
        self.obsolete.iter().filter(|path| {
            let file = path.file_name().and_then(|name| SegmentFile::parse(name.to_str()?));
            file.is_some_and(|file| file == SegmentFile::live(file.base, FileType::Log))
        })
    }

    pub(super) fn lacks_index(&self, base: Offset) -> bool {
        self.lacking.contains(&base)
    }

    /// Whether it takes the place of others, which go only if it is sound.
    pub(super) fn is_swapped(&self, base: Offset) -> bool {
        self.swapped.contains(&base)
    }

    /// The producers at an offset, if there is a sound snapshot of them.
    pub(super) fn producers_at(&self, directory: &Path, at: Offset) -> Option<Producers> {
        self.snapshots.contains(&at).then(|| read_snapshot(directory, at)).flatten()
    }
}

/// A partition's segments as they are now, whatever is known of the partition elsewhere.
///
/// # Errors
/// Those of listing.
pub(in crate::log) fn segments_of(
    directory: &Path,
    name: &TopicPartition,
    limits: Limits,
) -> Result<Arc<[Arc<Segment>]>, LogError> {
    partition_of(directory, name, limits).segments()
}

/// A partition by its directory alone.
pub(in crate::log) fn partition_of(directory: &Path, name: &TopicPartition, limits: Limits) -> Partition {
    let pool = Arc::new(FilePool::new(NonZeroUsize::MIN));
    let origin = Origin::Directory(directory.to_owned());
    Partition::new(name.clone(), String::new(), origin, Bounds::default(), pool, limits)
}

/// Whether it is what a crash leaves of a file that is made anew.
fn is_half_written(name: &str) -> bool {
    let Some(name) = name.strip_suffix(TEMPORARY) else { return false };
    name == names::LEADER_EPOCHS
        || name == names::PARTITION_METADATA
        || SegmentFile::parse(name).is_some_and(|file| file.state == FileState::Live)
}

/// The first `.log` in a directory that is no file, which a broker may well read: a link to another disk.
pub(in crate::log) fn odd_log(directory: &Path) -> Result<Option<PathBuf>, LogError> {
    let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
    let is_odd = |entry: &std::fs::DirEntry| {
        let file = entry.file_name().to_str().and_then(SegmentFile::parse);
        file.is_some_and(|file| {
            file.file_type == FileType::Log && matches!(file.state, FileState::Live | FileState::Swap)
        }) && !entry.file_type().is_ok_and(|of| of.is_file())
    };
    Ok(entries.flatten().filter(is_odd).map(|entry| entry.path()).min())
}

pub(in crate::log) fn is_swap(segment: &Segment) -> bool {
    name_of(segment).is_some_and(|file| file.state == FileState::Swap)
}

/// The name of a segment's log, `None` where no broker gives it.
pub(in crate::log) fn name_of(segment: &Segment) -> Option<SegmentFile> {
    SegmentFile::parse(segment.path.file_name()?.to_str()?)
}

/// A producer snapshot, `None` when it can't be used.
pub(in crate::log) fn read_snapshot(directory: &Path, at: Offset) -> Option<Producers> {
    let path = super::path(directory, at, FileType::Snapshot);
    let entries = snapshot::parse(&files::read_small(&path, MAX_BYTES).ok()?).ok()?;
    Some(Producers::from_snapshot(&entries))
}

/// The epochs in the checkpoint; none when there is no sound one.
pub(in crate::log) fn read_epochs(directory: &Path) -> Epochs {
    let bytes = files::read_small(&directory.join(names::LEADER_EPOCHS), MAX_BYTES).ok();
    let entries = bytes.and_then(|bytes| checkpoint::parse_epochs(&bytes).ok());
    entries.map(|entries| Epochs::from_entries(&entries)).unwrap_or_default()
}
