//! Cuts what is written through one handle into lines, whatever the sizes of the writes are.
//!
//! A write is taken in two steps, since its lines may turn out to be no records: [`LineAssembler::begin`] shows its complete lines, and
//! [`Pending::commit`] takes them as far as they were appended. What isn't committed wasn't written: the next write begins there.
//! Only the line that an earlier write began is copied.
//!
//! ```
//! use topicfs::view::lines::LineFormat;
//! use topicfs::view::lines::assembler::{LineAssembler, LineEnd};
//!
//! let mut assembler = LineAssembler::new(LineFormat::Text, 1 << 20);
//! assert_eq!(assembler.begin(b"one\ntw").lines().count(), 1); // looked at, not taken
//! let pending = assembler.begin(b"one\ntw");
//! let mut done = LineEnd::NONE;
//! for line in pending.lines() {
//!     assert_eq!(line.bytes, b"one");
//!     done = line.end;
//! }
//! assert_eq!(pending.commit(done), Ok(6));
//! assert_eq!(assembler.rest(), b"tw");
//! ```

use std::fmt;

use memchr::Memchr;

use crate::view::lines::LineFormat;
use crate::view::lines::error::LineError;

/// The most bytes that an idle handle holds on to for the lines to come.
const ROOM: usize = 64 * 1024;

/// Cuts what is written into lines; keeps the last one until its end is written.
pub struct LineAssembler {
    format: LineFormat,
    /// The most bytes that a line may have before its end is written.
    max_bytes: usize,
    /// The line that has no end yet; behind [`Self::kept`] what a write adds to it that is pending, or was.
    rest: Vec<u8>,
    /// How many bytes of `rest` were taken.
    kept: usize,
}

impl fmt::Debug for LineAssembler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { format, max_bytes, kept, .. } = self;
        write!(f, "LineAssembler({format:?}, {kept} of {max_bytes} bytes)")
    }
}

impl LineAssembler {
    /// An assembler of nothing yet. A line that has no end after `max_bytes` is an error; where bytes may be escaped that is more
    /// than the largest record.
    pub const fn new(format: LineFormat, max_bytes: usize) -> Self {
        Self { format, max_bytes, rest: Vec::new(), kept: 0 }
    }

    /// The format of the lines.
    pub const fn format(&self) -> LineFormat {
        self.format
    }

    /// Looks at a write. Nothing of it is taken before [`Pending::commit`].
    pub fn begin<'a>(&'a mut self, bytes: &'a [u8]) -> Pending<'a> {
        self.rest.truncate(self.kept);
        let end = self.format.terminator().and_then(|terminator| memchr::memchr(terminator, bytes));
        if let Some(beginning) = end.and_then(|end| bytes.get(..end)).filter(|_| self.kept > 0) {
            self.rest.extend_from_slice(beginning);
        }
        let first_end = end.map_or(LineEnd::NONE, |end| LineEnd(end + 1));
        Pending { assembler: self, bytes, first_end }
    }

    /// The line whose end isn't written yet; empty if there is none.
    pub fn rest(&self) -> &[u8] {
        self.rest.get(..self.kept).unwrap_or_default()
    }

    /// Takes that line out, as at the last close.
    pub fn take_rest(&mut self) -> Vec<u8> {
        self.rest.truncate(self.kept);
        self.kept = 0;
        std::mem::take(&mut self.rest)
    }

    /// Drops the line that is done, and the room of a long one.
    fn forget_rest(&mut self) {
        self.kept = 0;
        if self.rest.capacity() > ROOM {
            self.rest = Vec::new();
        }
    }

    /// Takes `bytes`, which are from behind the last line's end, as the beginning of the next line, or as more of it.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), LineError> {
        let len = self.kept.saturating_add(bytes.len());
        if len > self.max_bytes {
            return Err(LineError::TooLong { len, most: self.max_bytes });
        }
        self.rest.truncate(self.kept);
        self.rest.extend_from_slice(bytes);
        self.kept = len;
        Ok(())
    }
}

/// Where a line of a write ends, its terminator included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineEnd(usize);

impl LineEnd {
    /// Before the first line: nothing is done.
    pub const NONE: Self = Self(0);
}

/// A complete line of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The line without its terminator.
    pub bytes: &'a [u8],
    /// What [`Pending::commit`] takes when it and those before it are done.
    pub end: LineEnd,
}

/// A write that isn't taken yet. Dropping it takes nothing.
#[derive(Debug)]
#[must_use = "a write is taken by its commit"]
pub struct Pending<'a> {
    assembler: &'a mut LineAssembler,
    bytes: &'a [u8],
    /// Where its first line ends; `NONE` if no line does.
    first_end: LineEnd,
}

impl Pending<'_> {
    /// The complete lines, in order.
    pub fn lines(&self) -> Lines<'_> {
        let LineAssembler { format, rest, kept, .. } = &*self.assembler;
        Lines {
            joined: Some(rest.as_slice()).filter(|_| *kept > 0),
            bytes: self.bytes,
            ends: format.terminator().map(|terminator| memchr::memchr_iter(terminator, self.bytes)),
            start: 0,
        }
    }

    /// Takes the lines up to `done`; if that is all of them, what is behind them too. The number of bytes of the write that are taken.
    ///
    /// If not even the first line is done, nothing is taken, and what earlier writes began of it stays: whoever writes the same
    /// again gets the same error. If what is behind the lines is too long, the lines alone are taken, and the next write has that
    /// error.
    ///
    /// # Errors
    /// [`LineError::TooLong`] when there are no lines and what is begun is too long; nothing is taken then.
    pub fn commit(self, done: LineEnd) -> Result<usize, LineError> {
        let LineEnd(done) = done;
        let behind = self.bytes.get(done..).unwrap_or_default();
        if done == 0 {
            return match self.first_end {
                LineEnd::NONE => self.assembler.keep(behind).map(|()| self.bytes.len()),
                _ => Ok(0),
            };
        }
        self.assembler.forget_rest();
        let terminator = self.assembler.format.terminator();
        let is_last = terminator.is_none_or(|terminator| memchr::memchr(terminator, behind).is_none());
        if is_last && self.assembler.keep(behind).is_ok() {
            return Ok(self.bytes.len());
        }
        Ok(done.min(self.bytes.len()))
    }
}

/// The complete lines of a write.
#[derive(Debug)]
pub struct Lines<'a> {
    /// The first line, if an earlier write began it.
    joined: Option<&'a [u8]>,
    bytes: &'a [u8],
    ends: Option<Memchr<'a>>,
    /// Where the next line begins.
    start: usize,
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    #[inline]
    fn next(&mut self) -> Option<Line<'a>> {
        let end = self.ends.as_mut()?.next()?;
        let own = self.bytes.get(self.start..end).unwrap_or_default();
        self.start = end + 1;
        Some(Line { bytes: self.joined.take().unwrap_or(own), end: LineEnd(self.start) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MOST: usize = 8;

    /// Lines are appended to `done` as long as they are `good`; what `write` would return.
    fn write(
        assembler: &mut LineAssembler,
        bytes: &[u8],
        done: &mut Vec<Vec<u8>>,
        mut good: impl FnMut(&[u8]) -> bool,
    ) -> Result<usize, LineError> {
        let pending = assembler.begin(bytes);
        let mut end = LineEnd::NONE;
        for line in pending.lines() {
            if !good(line.bytes) {
                break;
            }
            done.push(line.bytes.to_vec());
            end = line.end;
        }
        pending.commit(end)
    }

    fn assembler(format: LineFormat) -> LineAssembler {
        LineAssembler::new(format, MOST)
    }

    #[test]
    fn a_line_is_joined_from_several_writes() {
        let (mut text, mut done) = (assembler(LineFormat::Text), Vec::new());
        for bytes in ["a", "", "b\r", "c\n\nd", "e\n"] {
            assert_eq!(write(&mut text, bytes.as_bytes(), &mut done, |_| true), Ok(bytes.len()));
        }
        assert_eq!(done, [b"ab\rc".to_vec(), b"".to_vec(), b"de".to_vec()]);
        assert_eq!(text.rest(), b"");
    }

    #[test]
    fn a_bad_line_makes_a_short_write_and_then_none() {
        let (mut text, mut done) = (assembler(LineFormat::Text), Vec::new());
        let good = |line: &[u8]| !line.starts_with(b"!");
        assert_eq!(write(&mut text, b"on", &mut done, good), Ok(2));
        assert_eq!(write(&mut text, b"e\ntwo\n!\nfour\nfi", &mut done, good), Ok(6));
        assert_eq!(text.rest(), b"");
        assert_eq!(write(&mut text, b"!\nfour\nfi", &mut done, good), Ok(0));
        assert_eq!(write(&mut text, b"four\nfi", &mut done, good), Ok(7));
        assert_eq!(text.rest(), b"fi");
        assert_eq!(done, [b"one".to_vec(), b"two".to_vec(), b"four".to_vec()]);
    }

    #[test]
    fn what_was_begun_stays_when_its_line_is_bad() {
        let (mut text, mut done) = (assembler(LineFormat::Text), Vec::new());
        let good = |line: &[u8]| !line.starts_with(b"!");
        assert_eq!(write(&mut text, b"!a", &mut done, good), Ok(2));
        for _ in 0..2 {
            assert_eq!(write(&mut text, b"b\nc\n", &mut done, good), Ok(0));
            assert_eq!(text.rest(), b"!a");
        }
        assert_eq!(text.take_rest(), b"!a");
        assert_eq!(write(&mut text, b"b\nc\n", &mut done, good), Ok(4));
        assert_eq!(done, [b"b".to_vec(), b"c".to_vec()]);
    }

    #[test]
    fn a_write_that_is_dropped_took_nothing() {
        let mut text = assembler(LineFormat::Text);
        assert_eq!(text.begin(b"a").commit(LineEnd::NONE), Ok(1));
        drop(text.begin(b"b\nc"));
        assert_eq!(text.rest(), b"a");
        let pending = text.begin(b"x\n");
        let lines: Vec<_> = pending.lines().map(|line| line.bytes.to_vec()).collect();
        assert_eq!(lines, [b"ax".to_vec()]);
        assert_eq!(text.take_rest(), b"a");
        assert_eq!(text.take_rest(), b"");
    }

    #[test]
    fn what_has_no_end_may_not_be_too_long() {
        let (mut text, mut done) = (assembler(LineFormat::Text), Vec::new());
        let too_long = Err(LineError::TooLong { len: 9, most: MOST });
        assert_eq!(write(&mut text, b"123456789", &mut done, |_| true), too_long);
        assert_eq!(write(&mut text, b"a\n123456789", &mut done, |_| true), Ok(2));
        assert_eq!(text.rest(), b"");
        assert_eq!(write(&mut text, b"12345678", &mut done, |_| true), Ok(8));
        assert_eq!(write(&mut text, b"9", &mut done, |_| true), too_long);
        assert_eq!(text.rest(), b"12345678");
        assert_eq!(write(&mut text, b"\n", &mut done, |_| true), Ok(1));
        assert_eq!(done, [b"a".to_vec(), b"12345678".to_vec()]);
    }

    #[test]
    fn a_blob_has_no_lines() {
        let (mut blob, mut done) = (assembler(LineFormat::Blob), Vec::new());
        assert_eq!(write(&mut blob, b"a\n\0", &mut done, |_| true), Ok(3));
        assert_eq!(write(&mut blob, b"b", &mut done, |_| true), Ok(1));
        assert_eq!(
            write(&mut blob, b"12345", &mut done, |_| true),
            Err(LineError::TooLong { len: 9, most: MOST })
        );
        assert!(done.is_empty());
        assert_eq!(blob.take_rest(), b"a\n\0b");
    }

    /// Writes all of `bytes`, in pieces of the sizes that `sizes` says again and again, as a program does that goes on after
    /// short writes; each `refused`th line is refused once.
    fn write_all(
        format: LineFormat,
        bytes: &[u8],
        sizes: &[usize],
        refused: usize,
    ) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut assembler = LineAssembler::new(format, usize::MAX);
        let (mut done, mut rest, mut seen) = (Vec::new(), bytes, 0);
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece = &rest[..*size.min(&rest.len())];
            let written = write(&mut assembler, piece, &mut done, |_| {
                seen += 1;
                seen % refused != 0
            });
            rest = &rest[written.unwrap()..];
        }
        (done, assembler.take_rest())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lines_are_the_same_however_they_are_written(
            bytes in prop::collection::vec(prop::sample::select(vec![0, b'\n', b'\r', b'a', b'b', 0xff]), 0..64),
            sizes in prop::collection::vec(1..12_usize, 1..8),
            refused in 2..9_usize,
        ) {
            for format in LineFormat::ALL {
                let mut expected: Vec<Vec<u8>> =
                    bytes.split(|byte| Some(*byte) == format.terminator()).map(<[u8]>::to_vec).collect();
                let rest = expected.pop().unwrap();
                prop_assert_eq!(write_all(format, &bytes, &sizes, refused), (expected, rest));
            }
        }
    }
}
