//! The small files of a partition: leader epochs, the topic's id, a producer snapshot to begin with, and what only the metadata
//! log has.

use std::path::{Path, PathBuf};

use crate::format::batch::Limits;
use crate::format::checkpoint;
use crate::format::names::{self, FileState, FileType, KraftSnapshot, SegmentFile};
use crate::format::partition_metadata;
use crate::format::snapshot::{self, ProducerEntry};
use crate::log::LogError;
use crate::log::derived::epochs::Epochs;
use crate::log::derived::producers::Producers;
use crate::log::files;
use crate::log::files::durable::{self, NewFile};
use crate::log::partition::{Origin, Partition};
use crate::log::salvage::report::Left;
use crate::log::segment::scan::{Scanner, Start, Step, Tail};
use crate::units::{Offset, Position};

/// The largest small file that is read: a producer snapshot of more than a million producers.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of a KRaft snapshot that are copied at once.
const PIECE: usize = 1024 * 1024;

/// What the small files say.
#[derive(Debug, Default)]
pub(super) struct Small {
    directory: PathBuf,
    epochs: Epochs,
    /// Files that are copied as they are.
    copies: Vec<(String, Vec<u8>)>,
    /// KRaft's snapshots, which may be large.
    kraft_snapshots: Vec<String>,
    /// What of them can't be kept.
    pub(super) left: Vec<Left>,
    /// What is odd about them.
    pub(super) notes: Vec<String>,
}

impl Small {
    /// Reads those of a partition. Those of a segment that was named alone are its neighbours.
    pub(super) fn read(partition: &Partition) -> Self {
        let directory = match &partition.origin {
            Origin::Directory(path) => path.clone(),
            Origin::File(path) => path.parent().unwrap_or(Path::new("")).to_owned(),
        };
        let mut small = Self { directory, ..Self::default() };
        small.read_epochs();
        small.copy_if(names::PARTITION_METADATA, |bytes| {
            partition_metadata::parse(bytes).map(drop).map_err(|error| error.to_string())
        });
        if partition.name.topic == names::METADATA_TOPIC {
            small.read_kraft();
        }
        small
    }

    /// The epochs in the checkpoint; none when there is no sound one.
    pub(super) fn epochs(&self) -> Epochs {
        self.epochs.clone()
    }

    /// The producers in the source's snapshot at an offset, `None` when there is none; an error says why it can't be used.
    pub(super) fn snapshot_at(&self, at: Offset) -> Option<Result<Producers, String>> {
        let name = SegmentFile::live(at, FileType::Snapshot).to_string();
        let parsed = self
            .read_file(&name)?
            .and_then(|bytes| snapshot::parse(&bytes).map_err(|error| error.to_string()));
        let is_later = |entry: &ProducerEntry| entry.last_known().is_some_and(|last| last >= at);
        match parsed {
            Ok(entries) if entries.iter().any(is_later) => Some(Err(format!(
                "{name}: knows of offsets behind the one in its name: made anew from the batches"
            ))),
            Ok(entries) => Some(Ok(Producers::from_snapshot(&entries))),
            Err(error) => Some(Err(format!("{name}: {error}: made anew from the batches"))),
        }
    }

    /// The offset of the source's last producer snapshot.
    pub(super) fn last_snapshot(&self) -> Option<Offset> {
        let files = self.names().into_iter().filter_map(|name| SegmentFile::parse(&name));
        let snapshots = files.filter(|file| *file == SegmentFile::live(file.base, FileType::Snapshot));
        snapshots.map(|file| file.base).max()
    }

    /// The names in the partition's directory.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    /// Writes what is kept, and the epochs; a log without epochs, as of message sets, needs no checkpoint.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&self, directory: &Path, epochs: &Epochs) -> Result<(), LogError> {
        if !epochs.entries().is_empty() {
            let text = checkpoint::format_epochs(epochs.entries());
            durable::write(directory.join(names::LEADER_EPOCHS), text.as_bytes())?;
        }
        for (name, bytes) in &self.copies {
            durable::write(directory.join(name), bytes)?;
        }
        for name in &self.kraft_snapshots {
            copy_file(&self.directory.join(name), directory.join(name))?;
        }
        Ok(())
    }

    /// A file's bytes, `None` when there is no such file.
    fn read_file(&self, name: &str) -> Option<Result<Vec<u8>, String>> {
        match files::read_small(&self.directory.join(name), MAX_BYTES) {
            Ok(bytes) => Some(Ok(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(error.to_string())),
        }
    }

    fn read_epochs(&mut self) {
        let name = names::LEADER_EPOCHS;
        let Some(read) = self.read_file(name) else { return };
        let parsed =
            read.and_then(|bytes| checkpoint::parse_epochs(&bytes).map_err(|error| error.to_string()));
        match parsed {
            Ok(entries) => self.epochs = Epochs::from_entries(&entries),
            Err(error) => self.notes.push(format!("{name}: {error}: made anew from the batches")),
        }
    }

    fn copy_if(&mut self, name: &str, check: impl Fn(&[u8]) -> Result<(), String>) {
        let Some(read) = self.read_file(name) else { return };
        let bytes = read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        match read.and_then(|bytes| check(&bytes).map(|()| bytes)) {
            Ok(bytes) => self.copies.push((name.to_owned(), bytes)),
            Err(cause) => self.leave(name, bytes, cause),
        }
    }

    fn leave(&mut self, name: &str, bytes: u64, cause: String) {
        self.left.push(Left { file: name.to_owned(), position: 0, bytes, offsets: None, cause });
    }

    /// What a KRaft node needs beside its log: its vote, and the snapshots that its log begins after.
    fn read_kraft(&mut self) {
        self.copy_if(names::QUORUM_STATE, |bytes| {
            let parsed: Result<serde_json::Map<String, serde_json::Value>, _> = serde_json::from_slice(bytes);
            parsed.map(drop).map_err(|error| error.to_string())
        });
        let mut found = self.names();
        found.retain(|name| KraftSnapshot::parse(name).is_some_and(|file| file.state == FileState::Live));
        found.sort();
        for name in found {
            match fault_of_batches(&self.directory.join(&name)) {
                Ok(None) => self.kraft_snapshots.push(name),
                Ok(Some((bytes, cause))) => self.leave(&name, bytes, cause),
                Err(error) => self.leave(&name, 0, error.to_string()),
            }
        }
    }
}

/// What is wrong with a file that must be batches from its beginning to its end; its length, and the first fault.
fn fault_of_batches(path: &Path) -> std::io::Result<Option<(u64, String)>> {
    let file = files::open(path)?;
    let len = file.metadata()?.len();
    let start = Start::new(Position(0), Offset(0), Offset(i64::MAX));
    let mut scanner = Scanner::new(file, len, start, Limits::default());
    loop {
        match scanner.step()? {
            Step::Batch { .. } => {}
            Step::End(Tail::Clean) => return Ok(None),
            Step::Damage(damage) | Step::End(Tail::Torn(damage) | Tail::Zero(damage) | Tail::Bad(damage)) => {
                return Ok(Some((len, format!("at {}: {}", damage.position, damage.fault))));
            }
        }
    }
}

fn copy_file(from: &Path, to: PathBuf) -> Result<(), LogError> {
    let file = files::open(from).map_err(|error| LogError::io(from, "open", error))?;
    let mut copy = NewFile::create(to)?;
    let (mut piece, mut position) = (vec![0; PIECE], 0);
    loop {
        let read = files::read_full(&file, &mut piece, position);
        let read = read.map_err(|error| LogError::io(from, "read", error))?;
        copy.write(&piece[..read])?;
        position += read as u64;
        if read < PIECE {
            return copy.finish(None);
        }
    }
}
