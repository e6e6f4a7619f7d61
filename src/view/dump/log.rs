//! The dump of a `.log` or a KRaft snapshot, entry by entry.
//!
//! All that a step depends on is where it begins, so a dump can go on from any place at which a step ended.

use std::io;

use crate::format::batch::{Decoder, Limits};
use crate::log::files::ReadAt;
use crate::log::segment::entries::{Entries, Resume, Step};
use crate::log::segment::scan::Tail;
use crate::units::Position;
use crate::view::dump::entry::{self, Observed, Placed, Shown, Tools};
use crate::view::dump::push_mark;

/// Makes the dump of the first bytes of a file.
#[derive(Debug)]
pub struct LogDump<F> {
    entries: Entries<F>,
    /// The file's name without directories.
    name: String,
    shown: Shown,
    limits: Limits,
    decoder: Decoder,
    says_rest: bool,
    observed: Observed,
    has_ended: bool,
}

impl<F: ReadAt + Clone> LogDump<F> {
    /// The dump of the first `len` bytes of `file` from `position` on, where a step began before.
    pub fn new(file: F, len: u64, position: Position, name: &str, shown: Shown, limits: Limits) -> Self {
        Self {
            entries: Entries::new(file, len, position, limits),
            name: name.to_owned(),
            shown,
            limits,
            decoder: Decoder::default(),
            says_rest: true,
            observed: Observed::default(),
            has_ended: false,
        }
    }

    /// Leaves the bytes behind the last batch unsaid, as Kafka does where not all of the file is read.
    #[must_use]
    pub fn silent_about_rest(mut self) -> Self {
        self.says_rest = false;
        self
    }

    /// Where the next step begins.
    pub const fn position(&self) -> Position {
        self.entries.position()
    }

    /// What was noticed so far.
    pub const fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Appends the lines of the next entry, or of what is in its place; false at the end, which may have lines too.
    ///
    /// # Errors
    /// The system's.
    pub fn step(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        if self.has_ended {
            return Ok(false);
        }
        let (position, cause) = match self.entries.step()? {
            Step::Entry(entry) => {
                let position = entry.position;
                let Self { shown, limits, decoder, observed, .. } = self;
                let tools = &mut Tools { decoder, limits };
                let result = match entry.bytes {
                    Some(bytes) => {
                        let placed = Placed::whole(position.0, entry.head, bytes);
                        entry::push(&placed, shown, tools, observed, out)
                    }
                    None => {
                        let (len, head) = (entry.len, entry.head.to_vec());
                        let magic = head.get(16).map_or(0, |magic| magic.cast_signed());
                        let checksum = self.entries.checksum(position, len, magic)?;
                        let placed = Placed { position: position.0, len, head: &head, bytes: None, checksum };
                        entry::push(&placed, shown, tools, observed, out)
                    }
                };
                match result {
                    Ok(()) => return Ok(true),
                    Err(fault) => (position, fault.to_string()),
                }
            }
            Step::Short { len: 0, .. } => return Ok(self.end()),
            Step::Short { position, len } => return self.rest(position, len, out),
            Step::TooSmall { position, size } => (position, format!("an entry can't have {size} bytes")),
        };
        self.go_on(position, &cause, out)
    }

    /// Kafka stops at `position` with an error.
    fn go_on(&mut self, position: Position, cause: &str, out: &mut Vec<u8>) -> io::Result<bool> {
        match self.entries.resume(position)? {
            Resume::At(next) => {
                let len = next.since(position);
                let text = format!(
                    "position {position}: {cause}; kafka-dump-log ends here, this goes on {len} bytes later, \
                     at position {next}"
                );
                push_mark(text, out);
                self.observed.is_damaged = true;
                Ok(true)
            }
            Resume::End(tail) => {
                let len = self.entries.len().saturating_sub(position.0);
                if let Tail::Zero(_) = tail {
                    push_mark(format_args!("position {position}: {len} bytes of zeros to the end"), out);
                } else {
                    let text =
                        format!("position {position}: {cause}; no batch follows in the last {len} bytes");
                    push_mark(text, out);
                    self.observed.is_damaged = true;
                }
                Ok(self.end())
            }
        }
    }

    /// Kafka ends at `position`, since no whole entry follows by what its length says.
    fn rest(&mut self, position: Position, len: u64, out: &mut Vec<u8>) -> io::Result<bool> {
        if !self.says_rest {
            return Ok(self.end());
        }
        self.observed.is_damaged = true;
        let line = format!("Found {len} invalid bytes at the end of {}\n", self.name);
        out.extend_from_slice(line.as_bytes());
        let Resume::At(next) = self.entries.resume(position)? else { return Ok(self.end()) };
        let text = format!(
            "position {position}: the entry says that it is longer than the file; kafka-dump-log ends here, this goes on {} \
             bytes later, at position {next}",
            next.since(position)
        );
        push_mark(text, out);
        Ok(true)
    }

    fn end(&mut self) -> bool {
        self.has_ended = true;
        false
    }
}
