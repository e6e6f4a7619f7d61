//! One segment: its log read once, batch by batch and record by record, and its indexes compared with what is there.
//!
//! The indexes are read before the log: a broker writes to the log first, so that what they say must be in it.

use std::sync::Arc;

use crate::format::batch::{Batch, BatchError, Decoder, Limits, PREFIX_LEN};
use crate::format::control::{ControlType, EndTxnMarker};
use crate::format::record::{Record, TimestampType};
use crate::log::LogError;
use crate::log::files::is_young;
use crate::log::files::tolerant::Tolerant;
use crate::log::problem::{Kind, Problem};
use crate::log::segment::Segment;
use crate::log::segment::scan::{Damage, Scanner, Step, Tail};
use crate::log::verify::epochs::{self, EpochRun};
use crate::log::verify::found::Found;
use crate::log::verify::indexes::{Indexes, LogSeen};
use crate::log::verify::offset_index::{BatchOffsets, OffsetIndexCheck};
use crate::log::verify::time_index::{BatchTimes, TimeIndexCheck};
use crate::log::verify::txn_index::{Carried, TxnIndexCheck};
use crate::log::verify::{Counts, Progress};
use crate::units::{Offset, Position, ProducerId, Timestamp};

/// Gaps that are told of one segment; one with more is compacted.
const MAX_GAPS: usize = 16;
/// Progress is told in such steps.
const PROGRESS_STEP: u64 = 1 << 20;

/// What is known of a segment's surroundings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Around {
    /// Whether a broker stopped in order: then all files are as it meant them to be.
    pub(super) is_clean: bool,
    /// Whether some segment of the partition has a time index; before 0.10.1 none has.
    pub(super) has_time_indexes: bool,
}

/// Offsets that are missing before a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) position: Position,
    pub(super) from: Offset,
    pub(super) to: Offset,
}

/// What was found in a segment, and what the checks of the whole partition need.
#[derive(Debug, Default)]
pub(super) struct SegmentReport {
    pub(super) found: Found,
    pub(super) counts: Counts,
    /// The first offset of the first batch.
    pub(super) first: Option<Offset>,
    /// The offset after the last batch, `None` without one.
    pub(super) next: Option<Offset>,
    pub(super) gaps: Vec<Gap>,
    /// Whether batches have lost records, or there are more gaps than a hole makes.
    pub(super) is_compacted: bool,
    /// Whether some bytes could not be read as batches.
    pub(super) has_damage: bool,
    /// Whether that is so in front of the first batch.
    pub(super) begins_damaged: bool,
    /// Whether that is so behind the last batch.
    pub(super) ends_damaged: bool,
    pub(super) epochs: Vec<EpochRun>,
    pub(super) carried: Carried,
}

/// A walk through a log, with all that looks at its batches.
struct Walk<'a> {
    segment: &'a Segment,
    around: Around,
    report: SegmentReport,
    offsets: OffsetIndexCheck<'a>,
    times: TimeIndexCheck<'a>,
    transactions: TxnIndexCheck,
    decoder: Decoder,
    limits: Limits,
    progress: Progress<'a>,
    untold: u64,
    has_timestamps: bool,
    overflows: bool,
}

/// What the records of a batch say.
struct Contents {
    first: Offset,
    /// `None` when they can't all be read.
    count: Option<u64>,
    last_record: Offset,
    largest: Timestamp,
    marker: Option<ControlType>,
}

/// Checks one segment.
pub(super) fn check(segment: &Arc<Segment>, around: Around, progress: Progress<'_>) -> SegmentReport {
    let mut found = Found::default();
    let indexes = Indexes::read(segment, &mut found);
    let mut walk = Walk {
        segment,
        around,
        report: SegmentReport { found, ..SegmentReport::default() },
        offsets: indexes.check_offsets(),
        times: indexes.check_times(),
        transactions: indexes.check_transactions(),
        decoder: Decoder::default(),
        limits: segment.limits(),
        progress,
        untold: 0,
        has_timestamps: false,
        overflows: false,
    };
    match walk.log() {
        Ok((len, tail)) => walk.conclude(&indexes, len, &tail),
        Err(error) => {
            // A broker has deleted or compacted it since it was listed: that is no problem.
            if !matches!(error, LogError::Stale { .. }) {
                let problem = Problem::of_file(&segment.path, Kind::Unreadable, error.to_string());
                walk.report.found.add(problem);
            }
            // What it held is not known.
            walk.transactions.damage();
            let (found, carried) = (walk.report.found, walk.transactions.finish().1);
            let (has_damage, begins_damaged, ends_damaged) = (true, true, true);
            SegmentReport {
                found,
                carried,
                has_damage,
                begins_damaged,
                ends_damaged,
                ..SegmentReport::default()
            }
        }
    }
}

impl Walk<'_> {
    /// Reads the whole log; its length and how it ends.
    fn log(&mut self) -> Result<(u64, Tail), LogError> {
        let (file, len) = self.segment.open()?;
        let file = Arc::new(Tolerant::new(file));
        let mut scanner = Scanner::new(file.clone(), len, self.segment.start(), self.limits);
        let tail = loop {
            match scanner.step().map_err(|error| self.segment.error(error))? {
                Step::Batch { position, batch } => self.batch(position, &batch),
                Step::Damage(damage) => {
                    self.damage(&damage);
                    let kind = Kind::of_fault(&damage.fault);
                    self.report.found.add(Problem::of_damage(&self.segment.path, &damage, kind));
                }
                Step::End(tail) => break tail,
            }
        };
        if let Some(damage) = tail.damage() {
            self.damage(damage);
            self.report.ends_damaged = true;
        }
        for stretch in file.unreadable() {
            let problem = Problem::of_file(&self.segment.path, Kind::Unreadable, stretch.error);
            self.report.found.add(problem.at(Position(stretch.from), stretch.to - stretch.from));
        }
        (self.progress)(self.untold);
        self.report.counts.segments = 1;
        self.report.counts.bytes = len;
        Ok((len, tail))
    }

    fn batch(&mut self, position: Position, batch: &Batch<'_>) {
        let (header, len) = (&batch.header, batch.bytes.len() as u64);
        let contents = match read(batch, &mut self.decoder, &self.limits) {
            Ok(contents) => contents,
            Err((kind, cause)) => {
                let problem = Problem::of_file(&self.segment.path, kind, cause).at(position, len);
                self.report.found.add(problem.about(header.first_known()));
                // A message set that can't be read keeps its first offset to itself: most likely it goes on from the last.
                let unknown = self.report.next.unwrap_or(self.segment.base).min(header.last_offset);
                let (first, last_record) = (header.base_offset.unwrap_or(unknown), header.last_offset);
                self.offsets.damage(position, 0);
                Contents { first, count: None, last_record, largest: header.max_timestamp, marker: None }
            }
        };
        let (first, last) = (contents.first, header.last_offset);
        self.offsets.batch(position, BatchOffsets { first, last_record: contents.last_record, last });
        let (magic, claimed, largest) = (header.magic, header.max_timestamp, contents.largest);
        self.times.batch(&BatchTimes { magic, first, last, claimed, largest });
        self.has_timestamps |= claimed.0 >= 0;
        self.sequence(position, batch, &contents);
        self.transaction(batch, &contents);
        if let Some(epoch) = header.leader_epoch {
            epochs::add(&mut self.report.epochs, EpochRun { epoch, first, last, position, len });
        }
        let is_off = magic == 2 && contents.count > Some(0) && claimed != largest;
        if is_off && header.timestamp_type == TimestampType::CreateTime {
            let cause =
                format!("the batch says that its largest timestamp is {claimed}, its records have {largest}");
            let note = Problem::of_file(&self.segment.path, Kind::MaxTimestamp, cause);
            self.report.found.add(note.at(position, len).about(first));
        }
        self.report.counts.batches += 1;
        self.report.counts.records += contents.count.unwrap_or(0);
        self.untold += len;
        if self.untold >= PROGRESS_STEP {
            (self.progress)(std::mem::take(&mut self.untold));
        }
    }

    /// Gaps in front of and within a batch.
    fn sequence(&mut self, position: Position, batch: &Batch<'_>, contents: &Contents) {
        let (first, last) = (contents.first, batch.header.last_offset);
        let report = &mut self.report;
        if report.first.is_none() {
            report.first = Some(first);
            report.begins_damaged = report.has_damage;
        } else if let Some(from) = report.next.filter(|next| first > *next && !report.ends_damaged) {
            if report.gaps.len() < MAX_GAPS {
                report.gaps.push(Gap { position, from, to: first });
            } else {
                report.is_compacted = true;
            }
        }
        let covered = last.0.saturating_sub(first.0).saturating_add(1);
        report.is_compacted |=
            contents.count.and_then(|count| i64::try_from(count).ok()).is_some_and(|count| count < covered);
        report.next = report.next.max(Some(last.next()));
        report.ends_damaged = false;
        if last.0.saturating_sub(self.segment.base.0) > i64::from(i32::MAX) && !self.overflows {
            self.overflows = true;
            let cause = format!(
                "offset {last} is more than {} above the segment's base {}",
                i32::MAX,
                self.segment.base
            );
            let note = Problem::of_file(&self.segment.path, Kind::Overflow, cause);
            report.found.add(note.at(position, batch.bytes.len() as u64).about(last));
        }
    }

    fn transaction(&mut self, batch: &Batch<'_>, contents: &Contents) {
        let header = &batch.header;
        // As in [`TxnEvent::of`]: markers need no flag.
        let is_of_one = header.is_transactional || header.is_control;
        let Some(producer @ ProducerId(_)) = header.producer_id.filter(|_| is_of_one) else { return };
        match contents.marker {
            Some(ControlType::Abort) => self.transactions.abort(producer, header.last_offset),
            Some(ControlType::Commit) => self.transactions.commit(producer, header.last_offset),
            Some(_) => {}
            None if !header.is_control && contents.count > Some(0) => {
                self.transactions.data(producer, contents.first);
            }
            None => {}
        }
    }

    /// Bytes that are no batch: nothing can be said of what they may have held.
    fn damage(&mut self, damage: &Damage) {
        self.offsets.damage(damage.position, damage.len);
        self.times.damage();
        self.transactions.damage();
        self.report.has_damage = true;
        self.report.ends_damaged = true;
        self.untold += damage.len;
    }

    fn conclude(mut self, indexes: &Indexes, len: u64, tail: &Tail) -> SegmentReport {
        self.tail(tail);
        let log = LogSeen {
            segment: self.segment,
            len,
            next: self.report.next.unwrap_or(self.segment.base),
            ends_clean: *tail == Tail::Clean,
            has_timestamps: self.has_timestamps,
            has_time_indexes: self.around.has_time_indexes,
        };
        let mut found = std::mem::take(&mut self.report.found);
        if indexes.tell_offsets(&log, self.offsets, &mut found) {
            self.times.damage();
        }
        indexes.tell_times(&log, self.times, &mut found);
        if !indexes.are_known() {
            self.transactions.damage();
        }
        let (wrong, carried) = self.transactions.finish();
        indexes.tell_transactions(&log, wrong, &mut found);
        indexes.tell_missing(&log, &mut found);
        SegmentReport { found, carried, ..self.report }
    }

    fn tail(&mut self, tail: &Tail) {
        let is_active = self.segment.is_active();
        let kind = match tail {
            Tail::Clean => return,
            // It is still being written.
            _ if is_active && is_young(&self.segment.path) => return,
            Tail::Torn(_) => Kind::TornTail,
            Tail::Zero(_) if is_active && !self.around.is_clean => Kind::ZeroTail,
            // An offset begins with zeros: what is left of a batch.
            Tail::Zero(damage) if damage.len < PREFIX_LEN as u64 => Kind::TornTail,
            Tail::Zero(_) => Kind::Zeros,
            Tail::Bad(damage) => Kind::of_fault(&damage.fault),
        };
        if let Some(damage) = tail.damage() {
            self.report.found.add(Problem::of_damage(&self.segment.path, damage, kind));
        }
    }
}

/// Reads all records of a batch.
fn read(batch: &Batch<'_>, decoder: &mut Decoder, limits: &Limits) -> Result<Contents, (Kind, String)> {
    let told = |error: BatchError| (Kind::of_records(&error), error.to_string());
    let (mut first, mut count, mut largest, mut marker) =
        (batch.header.first_known(), 0, Timestamp::NONE, None);
    let mut last_record = batch.header.last_offset;
    let keeps_first = batch.header.base_offset.is_some();
    for record in batch.records(decoder, limits).map_err(told)? {
        let record = record.map_err(told)?;
        if count == 0 {
            first = if keeps_first { first } else { record.offset };
            marker = batch.header.is_control.then(|| control_type(&record)).transpose()?;
        }
        count += 1;
        last_record = record.offset;
        largest = largest.max(record.timestamp);
    }
    Ok(Contents { first, count: Some(count), last_record, largest, marker })
}

/// What a control record is; a marker must be readable whole.
fn control_type(record: &Record<'_>) -> Result<ControlType, (Kind, String)> {
    let told = |cause: String| (Kind::BadRecords, cause);
    let key = record.key.ok_or_else(|| told("a control record without a key".to_owned()))?;
    let of = ControlType::parse(key).map_err(|error| told(error.to_string()))?;
    if matches!(of, ControlType::Abort | ControlType::Commit) {
        EndTxnMarker::parse(record.value.unwrap_or_default()).map_err(|error| told(error.to_string()))?;
    }
    Ok(of)
}
