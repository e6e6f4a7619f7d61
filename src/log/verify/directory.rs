//! The names in a partition directory, and what a broker makes of them when it starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::format::names::{
    self, FileState, FileType, KraftSnapshot, PackedSegment, SegmentFile, TieredFile,
};
use crate::log::problem::{Kind, Problem};
use crate::units::{Offset, Position};

/// What is in a partition directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// What is odd about names.
    pub(super) problems: Vec<Problem>,
    /// Whether some segment has a time index.
    pub(super) has_time_indexes: bool,
    /// Producer snapshots in the order of their offsets.
    pub(super) snapshots: Vec<PathBuf>,
    /// KRaft snapshots.
    pub(super) kraft_snapshots: Vec<PathBuf>,
    /// `partition.metadata`, `leader-epoch-checkpoint` and `quorum-state`, as far as they are there.
    pub(super) small: Vec<(PathBuf, &'static str)>,
    /// Live files of each segment, by base.
    live: BTreeMap<Offset, Vec<(FileType, PathBuf, u64)>>,
    /// Files of a segment that are in no use, by base and state; the log stands for all.
    unused: BTreeMap<(Offset, &'static str), (PathBuf, u64)>,
}

/// The small files of a partition.
const SMALL: [&str; 3] = [names::PARTITION_METADATA, names::LEADER_EPOCHS, names::QUORUM_STATE];

impl Listing {
    /// Lists a directory.
    pub(super) fn of(directory: &Path) -> Self {
        let mut listing = Self::default();
        let told = |error: std::io::Error| Problem::of_file(directory, Kind::Unreadable, error.to_string());
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => {
                listing.problems.push(told(error));
                return listing;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) => listing.add(&entry),
                Err(error) => listing.problems.push(told(error)),
            }
        }
        listing.snapshots.sort();
        listing.kraft_snapshots.sort();
        listing.conclude();
        listing
    }

    fn add(&mut self, entry: &std::fs::DirEntry) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        // A file that vanishes between the two calls was deleted by a broker: that is no error.
        let Ok(metadata) = std::fs::symlink_metadata(&path) else { return };
        let len = metadata.len();
        if !metadata.is_file() {
            let cause = match (metadata.is_dir(), metadata.is_symlink()) {
                (true, _) => "a directory",
                (_, true) => "a symbolic link",
                _ => "neither a file nor a directory",
            };
            self.problems.push(Problem::of_file(&path, Kind::Foreign, format!("{cause}: not read")));
        } else if let Some(file) = SegmentFile::parse(&name) {
            self.add_segment_file(file, path, len);
        } else if let Some(file) = KraftSnapshot::parse(&name) {
            match file.state {
                FileState::Live => self.kraft_snapshots.push(path),
                _ => self.problems.push(leftover(&path, len, WAITS)),
            }
        } else if let Some(packed) = PackedSegment::parse(&name) {
            self.live.entry(packed.base).or_default().push((FileType::Log, path, len));
        } else if TieredFile::parse(&name).is_some() {
            // Which of them are read, and which are copies, the partition itself tells.
        } else if let Some(small) = SMALL.into_iter().find(|small| **small == *name) {
            self.small.push((path, small));
        } else if name.ends_with(".tmp") || name.ends_with(".checkpoint.part") {
            self.problems.push(leftover(&path, len, "half written when a broker was stopped"));
        } else {
            self.problems.push(odd_name(&path, &name, len));
        }
    }

    fn add_segment_file(&mut self, file: SegmentFile, path: PathBuf, len: u64) {
        self.has_time_indexes |= file.file_type == FileType::TimeIndex && file.state == FileState::Live;
        let why = match file.state {
            FileState::Live if file.file_type == FileType::Snapshot => return self.snapshots.push(path),
            FileState::Live => {
                return self.live.entry(file.base).or_default().push((file.file_type, path, len));
            }
            FileState::Deleted => WAITS,
            FileState::Cleaned => "compaction was cut short while it wrote this: a broker removes it",
            FileState::Swap => "compaction was cut short after it wrote this: a broker puts it in its place",
        };
        let kept = self.unused.entry((file.base, why)).or_insert_with(|| (path.clone(), len));
        if file.file_type == FileType::Log {
            *kept = (path, len);
        }
    }

    fn conclude(&mut self) {
        for ((_, why), (path, len)) in &self.unused {
            self.problems.push(leftover(path, *len, why));
        }
        let is_swapped = |base: &Offset| self.unused.keys().any(|(of, _)| of == base);
        for (base, files) in &self.live {
            let has_log = files.iter().any(|(file_type, ..)| *file_type == FileType::Log);
            if has_log || is_swapped(base) {
                continue;
            }
            for (_, path, len) in files {
                self.problems.push(leftover(path, *len, "an index without its log: a broker removes it"));
            }
        }
    }
}

const WAITS: &str = "waits for its removal: a broker removes it";

fn leftover(path: &Path, len: u64, why: &str) -> Problem {
    Problem::of_file(path, Kind::Leftover, why).at(Position(0), len)
}

/// A file whose name is none of Kafka's. The loader takes the suffix and what is before the first dot for a segment's.
fn odd_name(path: &Path, name: &str, len: u64) -> Problem {
    let suffixes = FileType::ALL.map(FileType::suffix);
    if !suffixes.iter().any(|suffix| name.ends_with(suffix)) {
        return Problem::of_file(path, Kind::Foreign, "no file of a partition: not read")
            .at(Position(0), len);
    }
    let before = name.split('.').next().unwrap_or_default();
    let cause = match before.parse::<i64>() {
        Ok(base) => format!(
            "a segment's name has 20 digits: not read, and a broker takes it for the segment at {base}"
        ),
        Err(_) => format!("{before:?} is no offset: not read, and a broker that starts fails here"),
    };
    Problem::of_file(path, Kind::Name, cause).at(Position(0), len)
}
