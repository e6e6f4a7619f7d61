//! The dump of a `.index`: its entries, and what of them does not fit the log.
//!
//! Kafka compares each entry's offset with the last offset of the batch at its position, which only a leader of 4.0 or later
//! notes; here [`index_check`](crate::log::segment::index_check) judges. Unused slots of a preallocated index are no entries.

use std::collections::BTreeMap;
use std::io;

use crate::format::batch::{Decoder, Limits};
use crate::format::index::{OFFSET_ENTRY_LEN, OffsetIndex};
use crate::format::unchecked::{MessageHeader, UncheckedHeader};
use crate::log::files::ReadAt;
use crate::log::segment::entries::{Entries, Entry, Step};
use crate::log::segment::index_check::{Verdict, judge_offset};
use crate::units::{Offset, Position};
use crate::view::dump::kind::{Base, stem};
use crate::view::dump::{Dumped, push_dumping, push_integer, push_mark};

/// An index file.
#[derive(Debug, Clone, Copy)]
pub struct IndexFile<'a> {
    /// Its path as it is printed.
    pub path: &'a str,
    /// Its name without directories.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// The log beside an index.
#[derive(Debug, Clone)]
pub struct LogBeside<F> {
    /// The file.
    pub file: F,
    /// Its length.
    pub len: u64,
    /// How much memory one batch may cost.
    pub limits: Limits,
}

/// What is done with an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Entries are printed and compared with the log.
    Print,
    /// They are compared only (`--verify-index-only`).
    Verify,
    /// Only what Kafka looks at when it decides about rebuilding is looked at (`--index-sanity-check`).
    Sanity,
}

impl IndexFile<'_> {
    /// The segment's base offset; a name that isn't one to Kafka's tool is told.
    pub(super) fn base(&self, out: &mut Dumped) -> Offset {
        let (base, note) = Base::of(self.name).resolve(self.name);
        if let Some(note) = note {
            push_mark(note, &mut out.text);
        }
        if base.is_none() {
            out.fault("offsets are counted from 0");
        }
        Offset(base.unwrap_or(0))
    }

    /// Tells that there is no log to compare with.
    pub(super) fn no_log(&self, out: &mut Dumped) {
        let log = stem(self.name);
        out.fault(format_args!("there is no {log}.log beside it; entries are not compared with their log"));
    }
}

/// Dumps an offset index.
///
/// # Errors
/// The system's.
pub fn dump<F: ReadAt + Clone>(
    file: &IndexFile<'_>,
    log: Option<LogBeside<F>>,
    mode: Mode,
) -> io::Result<Dumped> {
    let mut out = Dumped::default();
    push_dumping(file.path, &mut out.text);
    let base = file.base(&mut out);
    if log.is_none() && mode != Mode::Sanity {
        file.no_log(&mut out);
    }
    let index = OffsetIndex::new(base, file.bytes);
    if index.stored().is_empty() {
        out.text.extend_from_slice(format!("{} is empty.\n", file.path).as_bytes());
        return Ok(out);
    }
    if mode == Mode::Sanity {
        sanity(file, &index, &mut out);
        return Ok(out);
    }
    let entries = stored_entries(&index);
    let mut check = log.map(Check::new);
    let mut mismatches = BTreeMap::new();
    for (number, (offset, position)) in entries.iter().enumerate() {
        let is_unused = number == 0 && entries.len() == 1 && (*offset, *position) == (base, 0);
        if let Some(check) = &mut check {
            let next = entries.get(number + 1).map(|(_, position)| *position);
            match check.judge(*offset, *position, next)? {
                Judged::Right => {}
                Judged::Mismatch(found) if !is_unused => {
                    mismatches.insert(*offset, found);
                }
                Judged::Mismatch(_) => {}
                // Kafka's tool crashes at the unused slots of an index whose log is empty.
                Judged::Nothing(_) if is_unused => break,
                Judged::Nothing(cause) => out.fault(format_args!("position {position}: {cause}")),
            }
        }
        if mode == Mode::Print {
            push_entry(*offset, *position, &mut out.text);
        }
    }
    if !mismatches.is_empty() {
        out.report(format_args!("Mismatches in :{}", file.path));
    }
    for (offset, found) in mismatches.iter().rev() {
        out.report(format_args!("  Index offset: {offset}, log offset: {found}"));
    }
    Ok(out)
}

fn push_entry(offset: Offset, position: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"offset: ");
    push_integer(offset.0, out);
    out.extend_from_slice(b" position: ");
    push_integer(position.into(), out);
    out.push(b'\n');
}

/// The entries that Kafka prints: up to the first of the base offset that is not the first of all.
fn stored_entries(index: &OffsetIndex<'_>) -> Vec<(Offset, i32)> {
    let stored = index.stored().iter().enumerate();
    stored
        .take_while(|(number, entry)| *number == 0 || entry.relative_offset() != 0)
        .map(|(_, entry)| (index.base().plus(entry.relative_offset().into()), entry.position()))
        .collect()
}

/// What Kafka looks at: the last entry's offset, and the file's length.
fn sanity(file: &IndexFile<'_>, index: &OffsetIndex<'_>, out: &mut Dumped) {
    let len = file.bytes.len();
    if index.stored().last().is_some_and(|last| last.relative_offset() < 0) {
        out.fault("the last entry's offset is below the base offset; a broker rebuilds this index");
    } else if !len.is_multiple_of(OFFSET_ENTRY_LEN) {
        out.fault(format_args!(
            "{len} bytes are no multiple of {OFFSET_ENTRY_LEN}; a broker rebuilds this index"
        ));
    } else {
        out.text.extend_from_slice(format!("{} passed sanity check.\n", file.path).as_bytes());
    }
}

/// What the log says of an entry.
enum Judged {
    Right,
    /// The last offset of the batch at its position.
    Mismatch(Offset),
    /// There is no batch at its position, and why.
    Nothing(String),
}

/// Compares entries with the log.
struct Check<F> {
    entries: Entries<F>,
    limits: Limits,
    decoder: Decoder,
}

impl<F: ReadAt + Clone> Check<F> {
    fn new(log: LogBeside<F>) -> Self {
        let LogBeside { file, len, limits } = log;
        let entries = Entries::new(file, len, Position(0), limits);
        Self { entries, limits, decoder: Decoder::default() }
    }

    fn judge(&mut self, offset: Offset, position: i32, next: Option<i32>) -> io::Result<Judged> {
        let Ok(at) = u64::try_from(position) else {
            return Ok(Judged::Nothing("the position is negative".to_owned()));
        };
        let len = self.entries.len();
        if at > len {
            return Ok(Judged::Nothing(format!("the log ends before that, at {len}")));
        }
        // Entries that aren't in order bound nothing.
        let bound = next.and_then(|next| u64::try_from(next).ok()).filter(|next| *next > at).unwrap_or(len);
        self.entries.seek(Position(at));
        let (mut found, mut before) = (None, None);
        while found.is_none() || self.entries.position().0 < bound {
            let position = self.entries.position();
            let header = match self.next_batch()? {
                Ok(header) => header,
                Err(cause) => return Ok(found.map_or(Judged::Nothing(cause), Judged::Mismatch)),
            };
            let last = Offset(header.last_offset());
            let first = match (&header, before) {
                _ if last <= offset => last,
                (UncheckedHeader::Batch(batch), _) => Offset(batch.base_offset),
                (UncheckedHeader::Message(_), Some(before)) => Offset::next(before),
                (UncheckedHeader::Message(message), None) => {
                    self.first_of_set(position, message)?.unwrap_or(last)
                }
            };
            match judge_offset(offset, first, last) {
                Verdict::Right => return Ok(Judged::Right),
                Verdict::Wrong => return Ok(Judged::Mismatch(found.unwrap_or(last))),
                Verdict::Undecided => (found, before) = (found.or(Some(last)), Some(last)),
            }
        }
        Ok(found.map_or(Judged::Right, Judged::Mismatch))
    }

    /// The header of the next batch, or why there is none.
    fn next_batch(&mut self) -> io::Result<Result<UncheckedHeader, String>> {
        Ok(match self.entries.step_over()? {
            Step::Entry(entry) => UncheckedHeader::read(entry.head)
                .ok_or_else(|| "the log ends within the header of a batch".to_owned()),
            Step::Short { .. } => Err("no whole batch is there".to_owned()),
            Step::TooSmall { size, .. } => {
                Err(format!("no batch is there: an entry can't have {size} bytes"))
            }
        })
    }

    /// The first offset in the message set at `position`, which is decoded for it.
    fn first_of_set(&mut self, position: Position, message: &MessageHeader) -> io::Result<Option<Offset>> {
        let after = self.entries.position();
        self.entries.seek(position);
        let Step::Entry(Entry { bytes: Some(bytes), .. }) = self.entries.step()? else { return Ok(None) };
        let messages = message.messages(bytes, &mut self.decoder, &self.limits);
        let first = messages.ok().and_then(|mut messages| messages.next()?.ok());
        let first = first.map(|message| Offset(message.offset));
        self.entries.seek(after);
        Ok(first)
    }
}
