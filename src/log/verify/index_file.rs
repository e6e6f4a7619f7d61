//! The files beside a segment's `.log`: read, compared with what the log has, and told about.

use std::io;
use std::path::{Path, PathBuf};

use crate::format::index::{
    OFFSET_ENTRY_LEN, OffsetIndex, StoredOffsetEntry, StoredTimeEntry, TIME_ENTRY_LEN, TXN_ENTRY_LEN,
    TimeIndex, TxnIndex,
};
use crate::format::names::{FileState, FileType, SegmentFile, TieredType};
use crate::log::files::{self, ReadAt};
use crate::log::problem::{Kind, Problem};
use crate::log::verify::offset_index::WrongEntries;
use crate::log::verify::txn_index::WrongTxn;
use crate::units::{Offset, Position};

/// The largest index that is read: entries for every batch of 2 GiB that has 64 bytes or more.
const MAX_BYTES: usize = 256 << 20;

/// Bytes read at once.
const PIECE: usize = 64 * 1024;

/// An index as it is on disk, without the zeros at its end, which may be 10 MiB.
#[derive(Debug)]
pub(super) struct IndexFile {
    pub(super) path: PathBuf,
    /// Up to the last entry that isn't zeros.
    bytes: Vec<u8>,
    /// The file's length.
    len: u64,
    entry_len: usize,
}

impl IndexFile {
    /// Reads an index; `None` when there is none.
    pub(super) fn read(path: &Path, file_type: FileType) -> Result<Option<Self>, Problem> {
        let entry_len = entry_len(file_type);
        let told = |error: io::Error| Problem::of_file(path, Kind::Unreadable, error.to_string());
        let file = match files::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(told(error)),
        };
        let len = file.metadata().map_err(told)?.len();
        let mut bytes = read_data(&file, len).map_err(told)?;
        if bytes.len() > MAX_BYTES {
            let cause = format!("{len} bytes, more than the {MAX_BYTES} that are read of an index");
            return Err(Problem::of_file(path, Kind::TooLarge, cause).at(Position(0), len));
        }
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(used.next_multiple_of(entry_len).min(bytes.len()));
        Ok(Some(Self { path: path.to_owned(), bytes, len, entry_len }))
    }

    /// Entries of an offset index, up to the last one that isn't zeros.
    pub(super) fn offsets(&self, base: Offset) -> &[StoredOffsetEntry] {
        OffsetIndex::new(base, &self.bytes).stored()
    }

    /// Entries of a time index, up to the last one that isn't zeros.
    pub(super) fn times(&self, base: Offset) -> &[StoredTimeEntry] {
        TimeIndex::new(base, &self.bytes).stored()
    }

    /// Entries of a transaction index.
    pub(super) fn transactions(&self) -> TxnIndex<'_> {
        TxnIndex::new(&self.bytes)
    }

    /// How many entries the zeros at the end would be.
    pub(super) fn unused(&self) -> u64 {
        self.len / self.entry_len as u64 - self.used()
    }

    /// How many entries there are before them.
    pub(super) fn used(&self) -> u64 {
        (self.bytes.len() / self.entry_len) as u64
    }

    /// Whether the file has no bytes.
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A line about entries `first` to `last`.
    pub(super) fn entries(&self, kind: Kind, first: u64, last: u64, cause: String) -> Problem {
        let entry_len = self.entry_len as u64;
        let position = Position(first * entry_len);
        Problem::of_file(&self.path, kind, cause).at(position, (last + 1 - first) * entry_len)
    }

    /// Lines about wrong entries.
    pub(super) fn wrong(&self, kind: Kind, wrong: Vec<WrongEntries>) -> Vec<Problem> {
        let told = |wrong: WrongEntries| {
            let WrongEntries { first, last, offset, cause } = wrong;
            let cause = match last - first {
                0 => format!("entry {first}: {cause}"),
                more => format!("entry {first}: {cause}; {more} more after it"),
            };
            self.entries(kind, first as u64, last as u64, cause).about(offset)
        };
        wrong.into_iter().map(told).collect()
    }

    /// Lines about wrong transactions.
    pub(super) fn wrong_txns(&self, wrong: Vec<WrongTxn>) -> Vec<Problem> {
        wrong.into_iter().map(|wrong| wrong_txn(&self.path, self.len, wrong)).collect()
    }

    /// A line about bytes at the end that are no whole entry.
    pub(super) fn part_of_entry(&self, kind: Kind) -> Option<Problem> {
        let left = self.len % self.entry_len as u64;
        let cause = format!("the file has {} bytes, an entry has {}", self.len, self.entry_len);
        let at = Position(self.len - left);
        (left > 0).then(|| Problem::of_file(&self.path, kind, cause).at(at, left))
    }
}

/// A line about a wrong transaction in the index at `path`, which has `len` bytes.
pub(super) fn wrong_txn(path: &Path, len: u64, wrong: WrongTxn) -> Problem {
    let entry_len = TXN_ENTRY_LEN as u64;
    let (position, len, cause) = match wrong.entry {
        Some(number) => (number as u64 * entry_len, entry_len, format!("entry {number}: {}", wrong.cause)),
        None => (len, 0, wrong.cause),
    };
    Problem::of_file(path, Kind::TxnIndex, cause).at(Position(position), len).about(wrong.offset)
}

/// The file beside a segment's log; a log that is named otherwise has the same name with another suffix.
pub(super) fn beside(log: &Path, file_type: FileType) -> PathBuf {
    let name = log.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match SegmentFile::beside_log(name, file_type) {
        Some(file) => log.with_file_name(file.to_string()),
        None => log.with_extension(&file_type.suffix()[1..]),
    }
}

/// Whether all indexes of a segment are in one file, as in a tiered store; that is not read.
pub(super) fn are_joined(log: &Path) -> bool {
    log.with_extension(&TieredType::Indexes.suffix()[1..]).is_file()
}

/// The log beside a segment's index.
pub(super) fn log_beside(index: &Path) -> Option<PathBuf> {
    let file = SegmentFile::parse(index.file_name()?.to_str()?)?;
    let log = SegmentFile { file_type: FileType::Log, ..file };
    Some(index.with_file_name(log.to_string())).filter(|log| file.state == FileState::Live && log.is_file())
}

const fn entry_len(file_type: FileType) -> usize {
    match file_type {
        FileType::TimeIndex => TIME_ENTRY_LEN,
        FileType::TxnIndex => TXN_ENTRY_LEN,
        _ => OFFSET_ENTRY_LEN,
    }
}

/// All of a file up to where only a hole is left, a little more than [`MAX_BYTES`] at most.
fn read_data(file: &impl ReadAt, len: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() <= MAX_BYTES && (bytes.len() as u64) < len {
        let at = bytes.len();
        if file.next_data(at as u64).is_none_or(|data| data >= len) {
            break;
        }
        bytes.resize(at + PIECE, 0);
        let read = files::read_full(file, &mut bytes[at..], at as u64)?;
        bytes.truncate(at + read);
        if read == 0 {
            break;
        }
    }
    // A broker may have appended meanwhile.
    bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    Ok(bytes)
}
