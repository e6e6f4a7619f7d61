//! Files of a partition as text in the words of kafka-dump-log 4.4.0, byte for byte.
//!
//! What Kafka's tool stops at does not stop us: lines that begin with `topicfs: ` say what is wrong, where, and where it
//! goes on. `docs/dump.md` lists what differs from Kafka's tool, and why.
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | which kind of file a name means |
//! | [`log`] | `.log` and `.checkpoint`, step by step |
//! | [`entry`] | the lines of one batch and its records |
//! | [`file`] | a dump as a file with a size; [`measured`]: of a log, which may be long |
//! | [`control`] | what a control record's line ends with |
//! | [`java`] | text as Java prints it |
//! | [`index`], [`time_index`] | `.index` and `.timeindex`, compared with their log |
//! | [`small`] | `.txnindex` and `.snapshot` |
//! | [`text_files`] | checkpoints, `partition.metadata`, `quorum-state`, `meta.properties` |

pub mod control;
pub mod entry;
pub mod file;
pub mod index;
pub mod java;
pub mod kind;
pub mod log;
pub mod measured;
pub mod small;
pub mod text_files;
pub mod time_index;

use std::io;

use crate::format::batch::{Batch, Limits};
use crate::format::index::OffsetIndex;
use crate::log::segment::beside::Beside;
use crate::units::{Offset, Position};
use entry::{Level, Observed, Placed, Shown, Tools};
use index::{IndexFile, LogBeside, Mode};
use kind::Kind;

/// How lines of our own begin.
pub const MARK: &str = "topicfs: ";

/// The text of a small file, and what was found wrong with it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Dumped {
    /// The lines that Kafka prints on standard output, with ours between.
    pub text: Vec<u8>,
    /// What Kafka says on standard error, without its false alarms.
    pub reports: Vec<u8>,
    /// Whether a line of ours tells of a fault, or a report does.
    pub is_damaged: bool,
}

impl Dumped {
    /// Adds a line of ours, on a line of its own, about a fault.
    pub(super) fn fault(&mut self, text: impl std::fmt::Display) {
        push_mark(text, &mut self.text);
        self.is_damaged = true;
    }

    /// Adds a line to the reports.
    pub(super) fn report(&mut self, text: impl std::fmt::Display) {
        self.reports.extend_from_slice(format!("{text}\n").as_bytes());
        self.is_damaged = true;
    }
}

/// Adds a line of ours; what is before it on a line that Kafka did not end becomes a line.
pub(super) fn push_mark(text: impl std::fmt::Display, out: &mut Vec<u8>) {
    if out.last().is_some_and(|byte| *byte != b'\n') {
        out.push(b'\n');
    }
    out.extend_from_slice(format!("{MARK}{text}\n").as_bytes());
}

/// The line that comes before all others.
pub fn push_dumping(path: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Dumping ");
    out.extend_from_slice(path.as_bytes());
    out.push(b'\n');
}

pub(super) use crate::view::jsonl::push_integer;

/// Appends the lines of a batch whose checksum is right, at `position` of its segment.
pub fn push_sound(batch: &Batch<'_>, position: Position, tools: &mut Tools<'_>, out: &mut Vec<u8>) {
    let Batch { bytes, header } = *batch;
    let placed = Placed {
        position: position.0,
        len: bytes.len() as u64,
        head: bytes,
        bytes: Some(bytes),
        checksum: header.crc,
    };
    let shown = Shown::all(Level::Contents);
    if let Err(fault) = entry::push(&placed, &shown, tools, &mut Observed::default(), out) {
        push_mark(format_args!("position {position}: {fault}"), out);
    }
}

/// Dumps a file that is no log.
///
/// # Errors
/// The system's, for the log beside an index.
pub fn whole(
    kind: Kind,
    file: &IndexFile<'_>,
    beside: &Beside,
    mode: Mode,
    limits: Limits,
) -> io::Result<Dumped> {
    let log = beside.log.clone().map(|(file, len)| LogBeside { file, len, limits });
    match kind {
        Kind::OffsetIndex => index::dump(file, log, mode),
        Kind::TimeIndex => {
            let offsets = beside.index.as_deref().map(|bytes| OffsetIndex::new(Offset(0), bytes).stored());
            time_index::dump(file, offsets, log, mode)
        }
        Kind::TxnIndex => Ok(small::txn_index(file.path, file.bytes)),
        Kind::Snapshot => Ok(small::producer_snapshot(file.path, file.bytes)),
        _ => Ok(text_files::dump(file.path, kind, file.bytes)),
    }
}
