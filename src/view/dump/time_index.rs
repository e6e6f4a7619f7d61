//! The dump of a `.timeindex`: its entries, and what of them does not fit the log.
//!
//! Kafka looks for the batch with an entry's offset from where the offset index leads. An offset inside that batch, which
//! leaders of 0.11 to 3.6 note, is no mismatch here; see [`index_check`](crate::log::segment::index_check).

use std::cmp::Ordering;
use std::io;

use crate::format::batch::{Decoder, Limits};
use crate::format::index::{StoredOffsetEntry, StoredTimeEntry, TIME_ENTRY_LEN, TimeIndex};
use crate::format::unchecked::UncheckedHeader;
use crate::log::files::ReadAt;
use crate::log::segment::entries::{Entries, Step};
use crate::log::segment::index_check::{TimeFault, TimedBatch, judge_time};
use crate::units::{Offset, Position, Timestamp};
use crate::view::dump::index::{IndexFile, LogBeside, Mode};
use crate::view::dump::kind::stem;
use crate::view::dump::{Dumped, push_dumping, push_integer};

/// Dumps a time index; `offsets` are the entries of the offset index beside it.
///
/// # Errors
/// The system's.
pub fn dump<F: ReadAt + Clone>(
    file: &IndexFile<'_>,
    offsets: Option<&[StoredOffsetEntry]>,
    log: Option<LogBeside<F>>,
    mode: Mode,
) -> io::Result<Dumped> {
    let mut out = Dumped::default();
    push_dumping(file.path, &mut out.text);
    let base = file.base(&mut out);
    let index = TimeIndex::new(base, file.bytes);
    if mode == Mode::Sanity {
        sanity(file, index.stored(), &mut out);
        return Ok(out);
    }
    if log.is_none() {
        file.no_log(&mut out);
    }
    if offsets.is_none() {
        out.fault(format_args!(
            "there is no {}.index beside it; the log is read from its start",
            stem(file.name)
        ));
    }
    let entries = stored_entries(index.stored());
    let mut check = log.map(|log| Check::new(log, base, offsets.unwrap_or_default()));
    let (mut faults, mut before) = (Faults::default(), Timestamp::NONE);
    for (number, entry) in entries.iter().enumerate() {
        let (timestamp, offset) = (entry.timestamp(), base.plus(entry.relative_offset().into()));
        let is_unused = number == 0 && entries.len() == 1 && (timestamp, offset) == (Timestamp(0), base);
        if let Some(check) = check.as_mut().filter(|_| !is_unused) {
            match check.judge(offset, timestamp)? {
                Ok(Ok(())) => {}
                Ok(Err(fault)) => faults.note(timestamp, offset, fault),
                Err(cause) => out.fault(format_args!("offset {offset}: {cause}")),
            }
        }
        if before >= timestamp && !is_unused {
            faults.disordered.push((timestamp, before));
        }
        if mode == Mode::Print {
            out.text.extend_from_slice(b"timestamp: ");
            push_integer(timestamp.0, &mut out.text);
            out.text.extend_from_slice(b" offset: ");
            push_integer(offset.0, &mut out.text);
            out.text.push(b'\n');
        }
        before = timestamp;
    }
    faults.report(file.path, &mut out);
    Ok(out)
}

/// The entries that Kafka prints: up to the first of the base offset that is not the first of all.
fn stored_entries(stored: &[StoredTimeEntry]) -> &[StoredTimeEntry] {
    let behind_first = stored.get(1..).unwrap_or_default();
    let used = behind_first.iter().take_while(|entry| entry.relative_offset() != 0).count();
    stored.get(..=used).unwrap_or_default()
}

/// What Kafka looks at: that the last entry is not before the first, and the file's length. Unused slots are no entries.
fn sanity(file: &IndexFile<'_>, stored: &[StoredTimeEntry], out: &mut Dumped) {
    let (entries, len) = (stored_entries(stored), file.bytes.len());
    let ends = entries.first().zip(entries.last());
    if ends.is_some_and(|(first, last)| last.timestamp() < first.timestamp()) {
        out.fault("the last entry's timestamp is below the first one's; a broker rebuilds this index");
    } else if ends.is_some_and(|(_, last)| last.relative_offset() < 0) {
        out.fault("the last entry's offset is below the base offset; a broker rebuilds this index");
    } else if !len.is_multiple_of(TIME_ENTRY_LEN) {
        out.fault(format_args!(
            "{len} bytes are no multiple of {TIME_ENTRY_LEN}; a broker rebuilds this index"
        ));
    } else {
        out.text.extend_from_slice(format!("{} passed sanity check.\n", file.path).as_bytes());
    }
}

/// What is wrong, in the order in which Kafka tells it.
#[derive(Default)]
struct Faults {
    mismatches: Vec<(Timestamp, Timestamp)>,
    disordered: Vec<(Timestamp, Timestamp)>,
    not_found: Vec<(Offset, Offset)>,
}

impl Faults {
    fn note(&mut self, timestamp: Timestamp, offset: Offset, fault: TimeFault) {
        match fault {
            TimeFault::NotFound(found) => self.not_found.push((offset, found.unwrap_or(Offset(-1)))),
            TimeFault::Timestamp(in_log) => self.mismatches.push((timestamp, in_log)),
        }
    }

    fn report(&self, path: &str, out: &mut Dumped) {
        if !self.mismatches.is_empty() {
            out.report(format_args!("Found timestamp mismatch in :{path}"));
        }
        for (in_index, in_log) in &self.mismatches {
            out.report(format_args!("  Index timestamp: {in_index}, log timestamp: {in_log}"));
        }
        if !self.disordered.is_empty() {
            out.report(format_args!("Found out of order timestamp in :{path}"));
        }
        for (timestamp, before) in &self.disordered {
            out.report(format_args!(
                "  Index timestamp: {timestamp}, Previously indexed timestamp: {before}"
            ));
        }
        if !self.not_found.is_empty() {
            out.report(format_args!("The following indexed offsets are not found in :{path}"));
        }
        for (offset, found) in &self.not_found {
            out.report(format_args!("Indexed offset: {offset}, found log offset: {found}"));
        }
    }
}

/// Compares entries with the log.
struct Check<'a, F> {
    entries: Entries<F>,
    limits: Limits,
    decoder: Decoder,
    base: Offset,
    offsets: &'a [StoredOffsetEntry],
    /// Where the walk began, the offset that it was for, and where the batch that it came to begins.
    walk: Option<(u64, Offset, u64)>,
}

impl<'a, F: ReadAt + Clone> Check<'a, F> {
    fn new(log: LogBeside<F>, base: Offset, offsets: &'a [StoredOffsetEntry]) -> Self {
        let LogBeside { file, len, limits } = log;
        let entries = Entries::new(file, len, Position(0), limits);
        Self { entries, limits, decoder: Decoder::default(), base, offsets, walk: None }
    }

    /// What the log says of an entry; an error text where Kafka's tool stops.
    fn judge(
        &mut self,
        offset: Offset,
        timestamp: Timestamp,
    ) -> io::Result<Result<Result<(), TimeFault>, String>> {
        let Ok(from) = u64::try_from(self.position_for(offset)) else {
            return Ok(Err("the offset index leads to a negative position".to_owned()));
        };
        let len = self.entries.len();
        if from > len {
            return Ok(Err(format!("the offset index leads to position {from}, the log has {len} bytes")));
        }
        self.seek(from, offset);
        let batch = match self.batch_reaching(offset)? {
            Ok(batch) => batch,
            Err(cause) => return Ok(Err(cause)),
        };
        Ok(Ok(judge_time(self.base, offset, timestamp, batch.as_ref())))
    }

    /// Where the offset index says that a search for `offset` begins, as Kafka's binary search finds it, also in an index that
    /// is in no order: the last 1024 entries, which mostly have it, are searched apart.
    fn position_for(&self, offset: Offset) -> i32 {
        const WARM_ENTRIES: usize = 1024;
        let relative = offset.0.saturating_sub(self.base.0);
        let at = |index: usize| self.offsets.get(index).map_or(0, |entry| i64::from(entry.relative_offset()));
        let Some(last) = self.offsets.len().checked_sub(1) else { return 0 };
        let warm = last.saturating_sub(WARM_ENTRIES);
        let (mut low, mut high) = if at(warm) < relative { (warm, last) } else { (0, warm) };
        if low == 0 && at(warm) >= relative && at(0) > relative {
            return 0;
        }
        while low < high {
            let middle = (low + high).div_ceil(2);
            match at(middle).cmp(&relative) {
                Ordering::Greater => high = middle - 1,
                Ordering::Less => low = middle,
                Ordering::Equal => (low, high) = (middle, middle),
            }
        }
        self.offsets.get(low).map_or(0, StoredOffsetEntry::position)
    }

    /// Goes on from the batch of the entry before when the way from there is the same, else begins anew.
    fn seek(&mut self, from: u64, offset: Offset) {
        let at = match self.walk {
            Some((began, before, at)) if offset >= before && from >= began => at.max(from),
            _ => from,
        };
        let began = self.walk.map_or(from, |(began, ..)| if at == from { from } else { began });
        self.walk = Some((began, offset, at));
        self.entries.seek(Position(at));
    }

    /// The first batch from here on that reaches `offset`, with its largest timestamp.
    fn batch_reaching(&mut self, offset: Offset) -> io::Result<Result<Option<TimedBatch>, String>> {
        let mut before = None;
        loop {
            let at = self.entries.position();
            let header = match self.entries.step_over()? {
                Step::Entry(entry) => UncheckedHeader::read(entry.head),
                Step::Short { .. } => None,
                Step::TooSmall { position, size } => {
                    let text = format!("at position {position} of the log, an entry can't have {size} bytes");
                    return Ok(Err(text));
                }
            };
            let Some(header) = header else { return Ok(Ok(None)) };
            let last = Offset(header.last_offset());
            if last >= offset {
                if let Some(walk) = &mut self.walk {
                    walk.2 = at.0;
                }
                return self.timed(at, &header, before, offset);
            }
            before = Some(last);
        }
    }

    fn timed(
        &mut self,
        at: Position,
        header: &UncheckedHeader,
        before: Option<Offset>,
        offset: Offset,
    ) -> io::Result<Result<Option<TimedBatch>, String>> {
        self.entries.seek(at);
        let Step::Entry(entry) = self.entries.step()? else { return Ok(Ok(None)) };
        let Some(bytes) = entry.bytes else {
            return Ok(Err(format!("the batch with it has {} bytes and is not looked into", entry.len)));
        };
        let (decoder, limits) = (&mut self.decoder, &self.limits);
        let largest = largest_timestamp(header, bytes, decoder, limits);
        let last = Offset(header.last_offset());
        let largest = match largest {
            Ok(largest) => largest,
            // Kafka looks into the batch only when the entry has its last offset.
            Err(cause) if last == offset => return Ok(Err(format!("the batch with it: {cause}"))),
            Err(_) => None,
        };
        let (first, magic, claimed) = match header {
            UncheckedHeader::Batch(batch) => (Offset(batch.base_offset), batch.magic, batch.max_timestamp),
            UncheckedHeader::Message(message) => {
                (before.map_or(offset, Offset::next), message.magic, message.timestamp)
            }
        };
        Ok(Ok(Some(TimedBatch { first, last, magic, claimed: Timestamp(claimed), largest })))
    }
}

fn largest_timestamp(
    header: &UncheckedHeader,
    bytes: &[u8],
    decoder: &mut Decoder,
    limits: &Limits,
) -> Result<Option<Timestamp>, String> {
    let mut largest = None;
    match header {
        UncheckedHeader::Batch(batch) => {
            batch.codec().map_err(|error| error.to_string())?;
            for record in batch.records(bytes, decoder, limits).map_err(|error| error.to_string())? {
                largest = largest.max(Some(record.map_err(|error| error.to_string())?.timestamp));
            }
        }
        UncheckedHeader::Message(message) => {
            for message in message.messages(bytes, decoder, limits).map_err(|error| error.to_string())? {
                largest = largest.max(message.map_err(|error| error.to_string())?.timestamp());
            }
        }
    }
    Ok(largest.map(Timestamp))
}
