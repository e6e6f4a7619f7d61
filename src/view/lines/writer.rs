//! Lines that are written to a partition: each complete line of a write is a record in the log when the write is done.

use std::sync::Arc;

use crate::format::batch_builder::BatchBuilder;
use crate::log::append::appender::{AppendError, Appender, Appending};
use crate::units::Timestamp;
use crate::view::lines::assembler::{LineAssembler, LineEnd};
use crate::view::lines::error::LineError;
use crate::view::lines::{LineFormat, LineRecord, parse};

/// How much longer than the largest batch a line may be: escapes of `.jsonl` are six bytes for one.
const LINE_FACTOR: usize = 8;

/// Writes what comes through one handle to a partition.
#[derive(Debug)]
pub struct LineWriter {
    assembler: LineAssembler,
    appender: Arc<Appender>,
    records: u64,
}

/// What became of a write.
#[derive(Debug)]
pub struct Written {
    /// How many of its bytes are taken: up to the end of the last good line, or all.
    pub bytes: usize,
    /// Why what is behind them isn't.
    pub refused: Option<WriteError>,
}

/// Why a line isn't appended.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// It is no record.
    #[error("{}: {error}", shown(line))]
    Line {
        /// How it begins.
        line: Vec<u8>,
        /// Why not.
        error: LineError,
    },
    /// The log doesn't take it.
    #[error(transparent)]
    Append(#[from] AppendError),
}

impl LineWriter {
    /// A writer of lines in a format.
    pub fn new(format: LineFormat, appender: Arc<Appender>) -> Self {
        let most = appender.config().max_batch_bytes();
        let most = match format {
            LineFormat::Tsv | LineFormat::Jsonl => most.saturating_mul(LINE_FACTOR),
            // What is kept till the last close must fit into a batch then.
            LineFormat::Text | LineFormat::Nul | LineFormat::Blob => BatchBuilder::longest_value(most),
        };
        Self { assembler: LineAssembler::new(format, most), appender, records: 0 }
    }

    /// The partition.
    pub const fn appender(&self) -> &Arc<Appender> {
        &self.appender
    }

    /// How many records it has appended.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Appends the complete lines of a write, and keeps what is behind them. If a line is refused, the lines before it are in the
    /// log, and it begins the next write.
    pub fn write(&mut self, bytes: &[u8], now: Timestamp) -> Written {
        let format = self.assembler.format();
        let pending = self.assembler.begin(bytes);
        let mut lines = pending.lines().peekable();
        if lines.peek().is_none() {
            drop(lines);
            return kept(pending.commit(LineEnd::NONE), bytes);
        }
        let mut appending = self.appender.begin(now);
        let (mut done, mut before, mut refused) = (LineEnd::NONE, LineEnd::NONE, None);
        for line in lines {
            let known = appending.appended();
            let record = parse(format, line.bytes).map_err(|error| WriteError::of_line(line.bytes, error));
            let pushed = record.and_then(|record| push(&record, &mut appending, now));
            // All those before it, then.
            if appending.appended() > known {
                done = before;
            }
            if let Err(error) = pushed {
                refused = Some(error);
                break;
            }
            before = line.end;
        }
        let known = appending.appended();
        let (in_log, finished) = appending.finish();
        if in_log > known {
            done = before;
        }
        refused = finished.err().map(WriteError::from).or(refused);
        self.records += in_log;
        let taken = pending.commit(done);
        let bytes = taken.as_ref().map_or(0, |taken| *taken);
        let too_long = taken.err().map(|error| WriteError::of_line(&[], error));
        Written { bytes, refused: refused.or(too_long) }
    }

    /// Appends the line whose end was never written, if there is one: all of it, with [`LineFormat::Blob`].
    ///
    /// # Errors
    /// Why it can't be; it is lost then.
    pub fn finish(&mut self, now: Timestamp) -> Result<(), WriteError> {
        let rest = self.assembler.take_rest();
        if rest.is_empty() {
            return Ok(());
        }
        let record =
            parse(self.assembler.format(), &rest).map_err(|error| WriteError::of_line(&rest, error))?;
        let mut appending = self.appender.begin(now);
        push(&record, &mut appending, now)?;
        let (in_log, finished) = appending.finish();
        self.records += in_log;
        Ok(finished?)
    }
}

/// Passes a record on as a batch takes it.
fn push(record: &LineRecord<'_>, to: &mut Appending<'_>, now: Timestamp) -> Result<(), WriteError> {
    Ok(to.push(&record.as_new(&record.headers(), now))?)
}

/// What became of a write in which no line ends.
fn kept(taken: Result<usize, LineError>, bytes: &[u8]) -> Written {
    match taken {
        Ok(taken) => Written { bytes: taken, refused: None },
        Err(error) => Written { bytes: 0, refused: Some(WriteError::of_line(bytes, error)) },
    }
}

impl WriteError {
    /// Of a line, whose beginning says which one it is.
    fn of_line(line: &[u8], error: LineError) -> Self {
        /// Bytes that are shown.
        const SHOWN: usize = 40;
        Self::Line { line: line.get(..SHOWN).unwrap_or(line).to_vec(), error }
    }
}

/// The beginning of a line as text.
fn shown(line: &[u8]) -> String {
    format!("\"{}\"", String::from_utf8_lossy(line).escape_debug())
}
