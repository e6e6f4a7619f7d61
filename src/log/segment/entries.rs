//! Entry after entry of a `.log` as Kafka's `FileRecords` iterates them: by their lengths alone, whatever their checksums
//! say; and where reading goes on behind the place at which Kafka stops.
//!
//! Kafka's rules: it ends without a word where 17 bytes or fewer are left, or where an entry says that it is longer than
//! the file; an entry that says that it has fewer than 14 bytes is an error. Reading goes on where [`scan`](crate::log::segment::scan)
//! finds the next sound batch.

use std::io;

use crate::format::batch::{HEADER_V2_LEN, Limits, MIN_SIZE, PREFIX_LEN, Prefix, SIZE_OVERHEAD};
use crate::format::crc32c::Crc32c;
use crate::log::files::ReadAt;
use crate::log::files::window::{CHUNK, Window};
use crate::log::segment::scan::{Scanner, Start, Step as ScanStep, Tail};
use crate::units::{Offset, Position};

/// One step through a file.
#[derive(Debug)]
pub enum Step<'a> {
    /// An entry.
    Entry(Entry<'a>),
    /// Kafka ends here, without a word but for the count of these bytes: 0 at the end of the file.
    Short {
        /// Where they begin.
        position: Position,
        /// How many bytes are left.
        len: u64,
    },
    /// Kafka throws an error here.
    TooSmall {
        /// Where the entry begins.
        position: Position,
        /// What it says of its size.
        size: i32,
    },
}

/// An entry, right or not.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Where it begins.
    pub position: Position,
    /// Its length in bytes, as it says.
    pub len: u64,
    /// As many bytes as the longest header has, whatever they belong to; fewer where the file ends.
    pub head: &'a [u8],
    /// Its bytes; `None` when it is longer than the limits allow.
    pub bytes: Option<&'a [u8]>,
}

/// Where reading goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// At a sound batch.
    At(Position),
    /// Nowhere: no sound batch follows.
    End(Tail),
}

/// What [`Entries::step`] finds, without borrowing the window.
enum Found {
    Entry(u64),
    Short,
    TooSmall(i32),
}

/// Walks over the first `len` bytes of a file.
#[derive(Debug)]
pub struct Entries<F> {
    file: F,
    len: u64,
    position: Position,
    limits: Limits,
    window: Window,
}

impl<F: ReadAt + Clone> Entries<F> {
    /// A walk over the first `len` bytes of `file` from `position` on, where an entry begins.
    pub fn new(file: F, len: u64, position: Position, limits: Limits) -> Self {
        Self { file, len, position, limits, window: Window::default() }
    }

    /// Where the next step looks.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The length of what is walked over.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is nothing to walk over.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes the next step look at `position`.
    pub const fn seek(&mut self, position: Position) {
        self.position = position;
    }

    /// The next entry. Behind the last one, and where Kafka stops, it stays.
    ///
    /// # Errors
    /// The system's.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        let limit = self.limits.max_batch_bytes as u64;
        self.step_with(|len| len <= limit)
    }

    /// The next entry with its head alone.
    ///
    /// # Errors
    /// The system's.
    pub fn step_over(&mut self) -> io::Result<Step<'_>> {
        self.step_with(|_| false)
    }

    fn step_with(&mut self, with_bytes: impl Fn(u64) -> bool) -> io::Result<Step<'_>> {
        let position = self.position;
        let len = match self.look(position.0)? {
            Found::Short => return Ok(Step::Short { position, len: self.len.saturating_sub(position.0) }),
            Found::TooSmall(size) => return Ok(Step::TooSmall { position, size }),
            Found::Entry(len) => len,
        };
        let whole = if with_bytes(len) { usize::try_from(len).ok() } else { None };
        self.window.need(&self.file, position.0, whole.unwrap_or(0).max(HEADER_V2_LEN))?;
        let bytes = whole.map(|len| self.window.get(position.0, len));
        if bytes.is_some_and(|bytes| (bytes.len() as u64) < len) {
            // The file was cut meanwhile.
            return Ok(Step::Short { position, len: 0 });
        }
        let head = self.window.get(position.0, HEADER_V2_LEN);
        self.position = position.plus(len);
        Ok(Step::Entry(Entry { position, len, head, bytes }))
    }

    fn look(&mut self, position: u64) -> io::Result<Found> {
        let left = self.len.saturating_sub(position);
        if left <= PREFIX_LEN as u64 {
            return Ok(Found::Short);
        }
        self.window.need(&self.file, position, PREFIX_LEN)?;
        let Some(prefix) = Prefix::read(self.window.get(position, PREFIX_LEN)) else {
            return Ok(Found::Short);
        };
        if prefix.size < MIN_SIZE {
            return Ok(Found::TooSmall(prefix.size));
        }
        let len = u64::from(prefix.size.cast_unsigned()) + SIZE_OVERHEAD as u64;
        Ok(if len > left { Found::Short } else { Found::Entry(len) })
    }

    /// Where reading goes on when it can't at `position`: behind the batch there if it is sound but for its records, else at
    /// the next sound batch.
    ///
    /// # Errors
    /// The system's.
    pub fn resume(&mut self, position: Position) -> io::Result<Resume> {
        let start = Start::new(position, Offset(0), Offset(i64::MAX));
        let mut scanner = Scanner::new(self.file.clone(), self.len, start, self.limits);
        let next = match scanner.step()? {
            ScanStep::End(tail) => {
                self.position = Position(self.len);
                return Ok(Resume::End(tail));
            }
            ScanStep::Batch { position: found, batch } if found == position => {
                position.plus(batch.bytes.len() as u64)
            }
            ScanStep::Damage(_) => scanner.at().position,
            // Two sound neighbours have changed places. The scanner puts them in order, Kafka reads the one in front first.
            ScanStep::Batch { position: found, .. } => match self.look(position.0)? {
                Found::Entry(len) => position.plus(len),
                Found::Short | Found::TooSmall(_) => found,
            },
        };
        self.position = next.max(position.plus(1));
        Ok(Resume::At(self.position))
    }

    /// The checksum of an entry that is too large for memory, read piece by piece: CRC-32C from magic 2 on, CRC-32 before.
    ///
    /// # Errors
    /// The system's.
    pub fn checksum(&mut self, position: Position, len: u64, magic: i8) -> io::Result<u32> {
        let end = position.0.saturating_add(len);
        let mut at = position.0.saturating_add(if magic >= 2 { 21 } else { 16 });
        let (mut castagnoli, mut ieee) = (Crc32c::new(), crc32fast::Hasher::new());
        while at < end {
            let wanted = CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK));
            self.window.need(&self.file, at, wanted)?;
            let bytes = self.window.get(at, wanted);
            if bytes.is_empty() {
                break;
            }
            if magic >= 2 {
                castagnoli = castagnoli.and(bytes);
            } else {
                ieee.update(bytes);
            }
            at += bytes.len() as u64;
        }
        Ok(if magic >= 2 { castagnoli.value() } else { ieee.finalize() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: [u8; 78] = {
        let mut bytes = [0; 78];
        bytes[11] = 66;
        bytes[16] = 2;
        bytes
    };

    impl ReadAt for &[u8] {
        fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
            let rest = usize::try_from(position).ok().and_then(|at| self.get(at..)).unwrap_or_default();
            let len = rest.len().min(buffer.len());
            buffer[..len].copy_from_slice(&rest[..len]);
            Ok(len)
        }
    }

    fn walk(bytes: &[u8]) -> (usize, String) {
        let mut entries = Entries::new(bytes, bytes.len() as u64, Position(0), Limits::default());
        let mut count = 0;
        loop {
            match entries.step().unwrap() {
                Step::Entry(entry) => {
                    assert_eq!(entry.bytes.map(<[u8]>::len), Some(78));
                    count += 1;
                }
                Step::Short { len, .. } => return (count, format!("short {len}")),
                Step::TooSmall { size, .. } => return (count, format!("small {size}")),
            }
        }
    }

    #[test]
    fn ends_as_kafka_does() {
        let two = [MARKER, MARKER].concat();
        assert_eq!(walk(&two), (2, "short 0".to_owned()));
        for cut in 1..78 {
            assert_eq!(walk(&two[..156 - cut]), (1, format!("short {}", 78 - cut)), "{cut} bytes cut");
        }
        let zeros = |len: usize| [&two[..], &vec![0; len]].concat();
        assert_eq!(walk(&zeros(17)), (2, "short 17".to_owned()));
        assert_eq!(walk(&zeros(18)), (2, "small 0".to_owned()));
    }

    #[test]
    fn a_size_that_is_negative_or_beyond_the_end() {
        let mut bytes = MARKER.to_vec();
        bytes[8] = 0xff;
        assert_eq!(walk(&bytes), (0, "small -16777150".to_owned()));
        bytes[8] = 0x7f;
        assert_eq!(walk(&bytes), (0, "short 78".to_owned()));
    }
}
