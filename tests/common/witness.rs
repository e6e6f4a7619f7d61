//! What a real consumer got from a partition: its records as lines of `.jsonl`, which `tests/brokers/Driver.java` writes.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use memchr::{memchr_iter, memmem, memrchr};

/// More than any line is long.
const LONGEST: u64 = 1 << 19;

/// All lines.
#[derive(Debug)]
pub struct Witness {
    bytes: Vec<u8>,
    lines: Vec<Line>,
}

/// A record, and where its line is.
#[derive(Debug, Clone)]
struct Line {
    offset: i64,
    at: Range<usize>,
}

impl Witness {
    /// Takes in what the consumer has written when it had all.
    pub fn read(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "{}", file.display());
        let mut lines = Vec::new();
        let mut start = 0;
        for end in memchr_iter(b'\n', &bytes) {
            let offset = offset(&bytes[start..=end]).expect("an offset");
            assert!(lines.last().is_none_or(|line: &Line| line.offset < offset), "a consumer goes forward");
            lines.push(Line { offset, at: start..end + 1 });
            start = end + 1;
        }
        Self { bytes, lines }
    }

    /// How many records.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The offsets, ascending.
    pub fn offsets(&self) -> impl DoubleEndedIterator<Item = i64> + '_ {
        self.lines.iter().map(|line| line.offset)
    }

    /// Whether `tail` ends as all bytes do, by the last line or what `tail` has of it.
    pub fn is_end(&self, tail: &[u8]) -> bool {
        let last = last_line(&self.bytes);
        tail.ends_with(&last[last.len().saturating_sub(tail.len()).min(last.len())..]) && !tail.is_empty()
    }

    /// The line of a record.
    pub fn line(&self, offset: i64) -> Option<&[u8]> {
        let found = self.lines.binary_search_by_key(&offset, |line| line.offset).ok()?;
        Some(&self.bytes[self.lines[found].at.clone()])
    }

    /// The lines with an offset in `offsets`.
    pub fn between(&self, offsets: Range<i64>) -> &[u8] {
        let [from, to] = [offsets.start, offsets.end].map(|offset| self.position(offset));
        &self.bytes[from..to.max(from)]
    }

    /// Where the line of the first record from `offset` on begins.
    fn position(&self, offset: i64) -> usize {
        let index = self.lines.partition_point(|line| line.offset < offset);
        self.lines.get(index).map_or(self.bytes.len(), |line| line.at.start)
    }

    /// The offsets of the records of `stream`, if these are records without a gap, each once and in order.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn place(&self, stream: &[u8]) -> Result<Range<i64>, String> {
        let Some(first) = stream.split(|byte| *byte == b'\n').next().filter(|line| !line.is_empty()) else {
            return Ok(0..0);
        };
        let first = offset(first).ok_or_else(|| format!("begins with {}", shortened(first)))?;
        let at = self.position(first);
        let expected = &self.bytes[at..];
        if !expected.starts_with(stream) {
            return Err(difference(expected, stream));
        }
        if !stream.ends_with(b"\n") {
            return Err(format!("ends within a line: {}", shortened(last_line(stream))));
        }
        Ok(first..offset(last_line(stream)).expect("a line of ours") + 1)
    }
}

/// The offset that a line of `.jsonl` says.
pub fn offset(line: &[u8]) -> Option<i64> {
    let at = memmem::find(line, b"\"offset\":")? + b"\"offset\":".len();
    let digits = line[at..].split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The last record that a consumer who still goes on has written down.
pub fn last_offset(file: &Path) -> Option<i64> {
    let mut file = File::open(file).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LONGEST))).ok()?;
    let mut bytes = Vec::new();
    file.take(LONGEST).read_to_end(&mut bytes).ok()?;
    bytes.truncate(memrchr(b'\n', &bytes)? + 1);
    offset(last_line(&bytes))
}

/// The last line of `bytes`, with its newline.
fn last_line(bytes: &[u8]) -> &[u8] {
    let whole = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    &bytes[memrchr(b'\n', whole).map_or(0, |at| at + 1)..]
}

/// Where `stream` is not as expected.
fn difference(expected: &[u8], stream: &[u8]) -> String {
    let mut before = "nothing".to_owned();
    let mut lines = expected.split_inclusive(|byte| *byte == b'\n');
    for (number, line) in stream.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let wanted = lines.next().unwrap_or_default();
        if line != wanted {
            let [line, wanted] = [line, wanted].map(shortened);
            return format!("line {number}, after {before}: {line} in place of {wanted}");
        }
        before = shortened(line);
    }
    "no difference".to_owned()
}

/// The beginning and the end of a line.
fn shortened(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    if text.len() < 200 {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(120).collect();
    let tail: Vec<_> = text.chars().rev().take(60).collect();
    format!("{head:?}..{:?} ({} bytes)", tail.iter().rev().collect::<String>(), line.len())
}
