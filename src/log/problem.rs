//! What can be wrong with a source, or odd about it: a closed list of kinds, and one place of one file.
//!
//! `docs/verify.md` says of each kind what a broker does with it and what to do.

use std::path::{Path, PathBuf};

use crate::format::batch::BatchError;
use crate::log::segment::scan::{Damage, Fault};
use crate::units::{Offset, Position};

/// How much a kind matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Records are lost or hidden, or a broker would refuse, repair or misread something.
    Problem,
    /// Worth telling, and nothing is wrong.
    Note,
}

impl Severity {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Note => "note",
        }
    }
}

/// Declares the kinds, each with its word, its severity and what it means.
macro_rules! kinds {
    ($($variant:ident = $name:literal, $severity:ident, $meaning:literal;)+) => {
        /// The kinds of problems and notes.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $meaning] $variant,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// How much it matters.
            pub const fn severity(self) -> Severity {
                match self {
                    $(Self::$variant => Severity::$severity,)+
                }
            }

            /// What it means, in one sentence.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                }
            }
        }
    };
}

kinds! {
    Damaged = "damaged", Problem, "Bytes of a log that are no sound batch.";
    UnknownFormat = "unknown-format", Problem, "A batch of a magic or codec that no release up to 4.4 has.";
    TooLarge = "too-large", Problem, "More than the limits allow to read.";
    Misplaced = "misplaced", Problem, "A batch whose checksum is right and whose offsets don't fit where it is.";
    Overlap = "overlap", Problem, "Batches behind a segment's end that have offsets of the next segment.";
    TornTail = "torn-tail", Problem, "A log ends within a batch.";
    Zeros = "zeros", Problem, "Zeros at the end of a log that is not written to any more.";
    BadRecords = "bad-records", Problem, "A batch with a right checksum whose records can't all be read.";
    LostEnd = "lost-end", Problem, "A log ends before batches that its index knows.";
    Hole = "hole", Problem, "Offsets are missing, and nothing shows that compaction removed them.";
    Name = "name", Problem, "A file's name that a broker stops at or misreads.";
    Index = "index", Problem, "Entries of an offset index that lead a look-up astray.";
    TimeIndex = "time-index", Problem, "Entries of a time index that lead a look-up astray.";
    TxnIndex = "txn-index", Problem, "A transaction index that doesn't say what the log's markers do.";
    Snapshot = "snapshot", Problem, "A producer snapshot that can't be read, or is of another log.";
    Epochs = "epochs", Problem, "Leader epochs that go back, or that checkpoint and batches disagree about.";
    Checkpoint = "checkpoint", Problem, "An offset checkpoint that can't be read or doesn't fit the log.";
    Metadata = "metadata", Problem, "A small file about partition, directory or quorum that can't be read.";
    Packed = "packed", Problem, "A compressed segment that can't be unpacked whole.";
    Unreadable = "unreadable", Problem, "What the operating system can't or won't read.";
    Refused = "refused", Problem, "A line that was written to an append file and is not in the log.";
    More = "more", Problem, "So many of one partition that the rest is only counted.";
    ZeroTail = "zero-tail", Note, "Zeros at the end of an active log: preallocated, or lost at a power failure.";
    MaxTimestamp = "max-timestamp", Note, "A batch whose largest timestamp is not that of its records.";
    Gap = "gap", Note, "Offsets are missing, and whether compaction removed them can't be told.";
    Leftover = "leftover", Note, "A file that a broker removes, or finishes with, when it starts.";
    Copy = "copy", Note, "A segment that is not shown: another copy of it is.";
    Missing = "missing", Note, "A file that a broker makes anew, or does without.";
    Preallocated = "preallocated", Note, "Zeros at the end of a sealed segment's index.";
    Overflow = "overflow", Note, "Offsets too far above the segment's base, which a broker splits.";
    Cluster = "cluster", Note, "Data directories of different clusters.";
    Foreign = "foreign", Note, "What is no part of a data directory, and is not read.";
}

impl Kind {
    /// The kind of what is wrong with an entry of a log.
    pub const fn of_fault(fault: &Fault) -> Self {
        match fault {
            Fault::Batch(BatchError::Magic { got: 3.. } | BatchError::Codec { .. }) => Self::UnknownFormat,
            Fault::TooLarge { .. } => Self::TooLarge,
            // What would come next, and belongs to the next segment.
            Fault::Order { first, expected, below, .. } if first.0 == expected.0 && first.0 >= below.0 => {
                Self::Overlap
            }
            Fault::Order { .. } | Fault::OutOfPlace { .. } | Fault::Swapped { .. } => Self::Misplaced,
            _ => Self::Damaged,
        }
    }

    /// The kind of why a sound batch has no readable records.
    pub const fn of_records(error: &BatchError) -> Self {
        match error {
            BatchError::DecodedLimit { .. } => Self::TooLarge,
            _ => Self::BadRecords,
        }
    }
}

/// One place of one file, and what is wrong or odd there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file or directory.
    pub file: PathBuf,
    /// Where it begins.
    pub position: Position,
    /// How many bytes are affected; 0 where something is missing.
    pub len: u64,
    /// The offset that it is about, or that was expected there.
    pub offset: Option<Offset>,
    /// Which kind.
    pub kind: Kind,
    /// The cause, with expected and found values.
    pub cause: String,
}

impl Problem {
    /// One that concerns a file as a whole.
    pub fn of_file(file: &Path, kind: Kind, cause: impl Into<String>) -> Self {
        let (file, cause) = (file.to_owned(), cause.into());
        Self { file, position: Position(0), len: 0, offset: None, kind, cause }
    }

    /// Bytes of a log.
    pub fn of_damage(file: &Path, damage: &Damage, kind: Kind) -> Self {
        // Of two that changed places, both are where they should not be.
        let position = match damage.fault {
            Fault::Swapped { front, .. } => front,
            _ => damage.position,
        };
        Self {
            file: file.to_owned(),
            position,
            len: damage.position.plus(damage.len).since(position),
            offset: Some(damage.expected),
            kind,
            cause: damage.fault.to_string(),
        }
    }

    /// The same about `len` bytes at `position`.
    pub fn at(self, position: Position, len: u64) -> Self {
        Self { position, len, ..self }
    }

    /// The same about this offset.
    pub fn about(self, offset: Offset) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// One line, with tabs between its fields: `name` for the file, position, length, offset, kind and cause.
    pub fn line(&self, name: &str) -> String {
        let Self { position, len, kind, .. } = self;
        let offset = self.offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
        let (name, cause, kind) = (one_line(name), one_line(&self.cause), kind.name());
        format!("{name}\tposition {position}\tlength {len}\toffset {offset}\t{kind}\t{cause}\n")
    }
}

/// `text` with its control characters escaped: names and values come from the source.
fn one_line(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_different_words() {
        let names: std::collections::HashSet<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn a_line_stays_one_line_whatever_is_in_names() {
        let problem = Problem::of_file(Path::new("x"), Kind::Name, "got \"a\tb\nc\"").about(Offset(7));
        let line = problem.line("two\nlines");
        assert_eq!(line, "two\\nlines\tposition 0\tlength 0\toffset 7\tname\tgot \"a\\tb\\nc\"\n");
    }
}
