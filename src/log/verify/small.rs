//! The small files: each by itself, without the log.
//!
//! These checks are cheap; `problems` in a mount has what they say.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::format::checkpoint::{self, CheckpointError, EpochEntry};
use crate::format::names::{self, SegmentFile};
use crate::format::properties::{MetaProperties, PropertiesError};
use crate::format::{partition_metadata, snapshot};
use crate::log::files;
use crate::log::problem::{Kind, Problem};
use crate::log::verify::epochs;
use crate::log::verify::text::place_of_line;
use crate::units::{Offset, Position, TopicPartition};

/// The largest file of these that is read; a checkpoint of 200,000 partitions with the longest names.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a small file; `None` when it is not there.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, Problem> {
    match files::read_small(path, MAX_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            Err(Problem::of_file(path, Kind::TooLarge, error.to_string()))
        }
        Err(error) => Err(Problem::of_file(path, Kind::Unreadable, error.to_string())),
    }
}

/// A file as a whole.
fn whole(path: &Path, kind: Kind, bytes: &[u8], cause: String) -> Problem {
    Problem::of_file(path, kind, cause).at(Position(0), bytes.len() as u64)
}

/// One line of a text file.
fn line(path: &Path, kind: Kind, bytes: &[u8], number: usize, cause: String) -> Problem {
    let (position, len) = place_of_line(bytes, number);
    Problem::of_file(path, kind, cause).at(position, len)
}

fn malformed(path: &Path, kind: Kind, bytes: &[u8], error: &CheckpointError) -> Problem {
    line(path, kind, bytes, error.line, error.to_string())
}

/// An offset checkpoint's entries, in which a partition may not be below 0.
pub(super) fn offsets(
    path: &Path,
    bytes: &[u8],
) -> Result<std::collections::BTreeMap<TopicPartition, Offset>, Problem> {
    checkpoint::parse_offsets(bytes).map_err(|error| malformed(path, Kind::Checkpoint, bytes, &error))
}

/// The place of a partition's line in an offset checkpoint.
pub(super) fn place_of_partition(bytes: &[u8], partition: &TopicPartition) -> (Position, u64) {
    let TopicPartition { topic, partition } = partition;
    let number = partition.to_string();
    let is_it = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        let mut words = text.split_whitespace();
        words.next() == Some(topic) && words.next() == Some(&number)
    };
    let lines = bytes.split(|byte| *byte == b'\n');
    // Of lines for one partition the last counts.
    let number = (1..).zip(lines).filter(|(_, text)| is_it(text)).map(|(number, _)| number).last();
    place_of_line(bytes, number.unwrap_or(1))
}

/// A `leader-epoch-checkpoint`: its entries, if they are in order, and what is wrong.
pub(super) fn leader_epochs(path: &Path, bytes: &[u8]) -> (Option<Vec<EpochEntry>>, Vec<Problem>) {
    match checkpoint::parse_epochs(bytes) {
        Ok(entries) => {
            let wrong = epochs::unsorted(&entries);
            let told = |(number, cause)| epoch_entry(path, bytes, &entries, number, cause);
            let problems: Vec<_> = wrong.into_iter().map(told).collect();
            (problems.is_empty().then_some(entries), problems)
        }
        Err(error) => (None, vec![malformed(path, Kind::Epochs, bytes, &error)]),
    }
}

/// A line of a `leader-epoch-checkpoint`.
pub(super) fn epoch_entry(
    path: &Path,
    bytes: &[u8],
    entries: &[EpochEntry],
    number: usize,
    cause: String,
) -> Problem {
    // The version and the count come first.
    let problem = line(path, Kind::Epochs, bytes, number + 3, cause);
    entries.get(number).map_or(problem.clone(), |entry| problem.about(entry.start_offset))
}

/// `partition.metadata`.
pub(super) fn partition_metadata(path: &Path, bytes: &[u8]) -> Option<Problem> {
    let error = partition_metadata::parse(bytes).err()?;
    Some(whole(path, Kind::Metadata, bytes, error.to_string()))
}

/// `meta.properties`.
pub(super) fn meta_properties(path: &Path, bytes: &[u8]) -> Result<MetaProperties, Problem> {
    let told = |error: PropertiesError| {
        let cause = error.to_string();
        match error {
            PropertiesError::Escape { line: number }
            | PropertiesError::Number { line: number, .. }
            | PropertiesError::Version { line: number, .. }
            | PropertiesError::Uuid { line: number, .. } => line(path, Kind::Metadata, bytes, number, cause),
            _ => whole(path, Kind::Metadata, bytes, cause),
        }
    };
    if bytes.is_empty() {
        return Err(Problem::of_file(path, Kind::Metadata, "the file is empty"));
    }
    MetaProperties::parse(bytes).map_err(told)
}

/// What `quorum-state` must say, in versions 0 and 1.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuorumState {
    leader_epoch: i32,
    #[expect(dead_code, reason = "it must be there, and a number")]
    leader_id: i32,
    #[expect(dead_code, reason = "it must be there, and a number")]
    voted_id: i32,
    #[serde(rename = "data_version")]
    data_version: i16,
}

/// `quorum-state`.
pub(super) fn quorum_state(path: &Path, bytes: &[u8]) -> Option<Problem> {
    let cause = match serde_json::from_slice::<QuorumState>(bytes) {
        Err(error) => error.to_string(),
        Ok(QuorumState { data_version, .. }) if !(0..=1).contains(&data_version) => {
            format!("data_version is {data_version}, known are 0 and 1")
        }
        Ok(QuorumState { leader_epoch, .. }) if leader_epoch < 0 => {
            format!("leaderEpoch is {leader_epoch}, epochs count from 0")
        }
        Ok(_) => return None,
    };
    Some(whole(path, Kind::Metadata, bytes, cause))
}

/// A producer snapshot; what it knows is below the offset in its name.
pub(super) fn producer_snapshot(path: &Path, bytes: &[u8]) -> Vec<Problem> {
    let entries = match snapshot::parse(bytes) {
        Ok(entries) => entries,
        Err(error) => return vec![whole(path, Kind::Snapshot, bytes, error.to_string())],
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let end = SegmentFile::parse(name).map(|file| file.base);
    let mut seen = HashSet::new();
    let mut problems = Vec::new();
    for (number, entry) in (0..).zip(&entries) {
        let id = entry.producer_id;
        let last = entry.last_known();
        let cause = match (last, end) {
            _ if !seen.insert(id) => format!("producer {} is there twice", id.0),
            (Some(last), Some(end)) if last >= end => {
                format!(
                    "producer {} was last seen at offset {last}, the snapshot is of the log before {end}",
                    id.0
                )
            }
            _ => continue,
        };
        let at = Position(snapshot::HEADER_LEN as u64 + number * snapshot::ENTRY_LEN as u64);
        let problem = Problem::of_file(path, Kind::Snapshot, cause).at(at, snapshot::ENTRY_LEN as u64);
        problems.push(last.map_or(problem.clone(), |last| problem.about(last)));
    }
    problems
}

/// Checks `path` if its name is that of a small file.
pub(super) fn by_name(path: &Path, name: &str) -> Vec<Problem> {
    let bytes = match read(path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Vec::new(),
        Err(problem) => return vec![problem],
    };
    match name {
        names::PARTITION_METADATA => partition_metadata(path, &bytes).into_iter().collect(),
        names::LEADER_EPOCHS => leader_epochs(path, &bytes).1,
        names::QUORUM_STATE => quorum_state(path, &bytes).into_iter().collect(),
        names::META_PROPERTIES => meta_properties(path, &bytes).err().into_iter().collect(),
        _ if names::OFFSET_CHECKPOINTS.contains(&name) => offsets(path, &bytes).err().into_iter().collect(),
        _ => producer_snapshot(path, &bytes),
    }
}
