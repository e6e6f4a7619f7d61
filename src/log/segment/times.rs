//! When the records of a segment were written, by the headers of its batches: nothing is decompressed, but for a batch that spans more
//! than a month.
//!
//! A segment is cut into stretches of about 1 MiB, and of each the largest timestamp is kept, and the smallest where headers
//! tell it: a batch whose timestamps are the broker's has one for all of its records, a batch of a producer only says the
//! largest. So readers skip what can't hold a time, and ListOffsets finds the one batch to look into: marks within a stretch, about
//! 64 KiB apart, say how new anything in front of them is. The time index is not asked: whatever it says, no record is missed for it.
//! Headers also tell where leader epochs begin.
//!
//! As saved (see [`crate::log::sidecar`]), all integers big-endian:
//!
//! ```text
//! 0   4   version of this layout    4   4  number of stretches    8  4  number of marks
//! 12  4   number of spans           16  4  number of epochs       20  8  source bytes looked at
//! 28      stretches of 56 bytes, then marks of 12, spans of 8 and epochs of 12
//! ```

use zerocopy::byteorder::big_endian::{I32, I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::batch::{Batch, Decoder, Header, Limits};
use crate::format::record::TimestampType;
use crate::log::LogError;
use crate::log::files::SourceFile;
use crate::log::segment::Segment;
use crate::log::segment::scan::{Context, Start, Step, Tail};
use crate::units::{LeaderEpoch, Offset, Period, Position, Timestamp};

/// Source bytes of a stretch, at least; one batch may be more.
const STRETCH_BYTES: u64 = 1024 * 1024;
/// Source bytes from a stretch's start to its first mark, and from mark to mark, at least. Halving it doubles the memory that marks take, and saves
/// a look-up some microseconds.
const MARK_BYTES: u64 = 64 * 1024;
/// Source bytes looked at before others that wait get a turn.
const STEP_BYTES: u64 = 4 * STRETCH_BYTES;
/// The grain of what listings say: time zones differ by multiples of 15 minutes.
const SPAN_MS: i64 = 15 * 60 * 1000;
/// A batch counts as spread over all the time from its first to its largest timestamp, unless that is longer: then a clock was wrong
/// somewhere, and the records are looked at.
pub(in crate::log) const LONGEST_BATCH_MS: i64 = 31 * 24 * 3600 * 1000;
/// The most spans that are kept; beyond that they are days.
const MAX_SPANS: usize = 16 * 1024;
const SPANS_A_DAY: u32 = 96;
/// The most changes of the leader epoch that are kept: brokers' logs have few.
const MAX_EPOCHS: usize = 64 * 1024;

const VERSION: u32 = 2;

/// Consecutive batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Stretch {
    /// Where its first batch begins.
    position: U64,
    /// The smallest offset that may come there.
    expected: I64,
    /// Its last offset.
    last: I64,
    /// No record in it is older; the largest number when none has a time, the smallest when headers don't tell.
    smallest: I64,
    /// No record in it is newer, nor is a marker.
    largest: I64,
    /// The largest timestamp of its first batch: those in marks are relative to it.
    first_largest: I64,
    /// [`IN_SETS`], [`AFTER_DAMAGE`].
    flags: U32,
    /// How many marks the stretches in front of it have.
    marks_before: U32,
}
const _: () = assert!(size_of::<Stretch>() == 56);

const IN_SETS: u32 = 1;
const AFTER_DAMAGE: u32 = 2;

/// A batch within a stretch that may be read from without reading what is in front of it, all numbers relative to the stretch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Mark {
    /// Where it begins.
    position: U32,
    /// The smallest offset that may come there.
    expected: U32,
    /// No batch of the stretch in front of it is newer; [`Self::FAR`] says nothing.
    largest: U32,
}
const _: () = assert!(size_of::<Mark>() == 12);

impl Mark {
    /// Newer by so much that it has no room.
    const FAR: u32 = u32::MAX;

    /// The mark at a place in `stretch`, with all batches in front of it that the stretch knows; `None` where numbers have no room.
    fn new(stretch: &Stretch, at: Start) -> Option<Self> {
        let largest = stretch.largest.get().saturating_sub(stretch.first_largest.get());
        Some(Self {
            position: u32::try_from(at.position.0.checked_sub(stretch.position.get())?).ok()?.into(),
            expected: u32::try_from(at.expected.0.checked_sub(stretch.expected.get())?).ok()?.into(),
            largest: u32::try_from(largest).unwrap_or(Self::FAR).into(),
        })
    }

    /// Whether all that is in front of it in `stretch` is older than `time`.
    fn is_behind_older(&self, stretch: &Stretch, time: Timestamp) -> bool {
        let largest = self.largest.get();
        largest != Self::FAR && stretch.first_largest.get().saturating_add(i64::from(largest)) < time.0
    }
}

impl Stretch {
    fn new(at: Start, first: &Header, marks_before: usize) -> Self {
        let Context { in_sets, is_after_damage } = at.context;
        let flags = if in_sets { IN_SETS } else { 0 } | if is_after_damage { AFTER_DAMAGE } else { 0 };
        Self {
            position: at.position.0.into(),
            expected: at.expected.0.into(),
            last: at.expected.0.into(),
            smallest: i64::MAX.into(),
            largest: i64::MIN.into(),
            first_largest: first.max_timestamp.0.into(),
            flags: flags.into(),
            marks_before: u32::try_from(marks_before).unwrap_or(u32::MAX).into(),
        }
    }

    fn start(&self, below: Offset) -> Start {
        let flag = |flag| self.flags.get() & flag != 0;
        let context = Context { in_sets: flag(IN_SETS), is_after_damage: flag(AFTER_DAMAGE) };
        let (position, expected) = (Position(self.position.get()), Offset(self.expected.get()));
        Start { position, expected, below, context }
    }

    /// Where a scan begins at one of its marks.
    fn start_at(&self, mark: &Mark, below: Offset) -> Start {
        let start = self.start(below);
        Start {
            position: start.position.plus(u64::from(mark.position.get())),
            expected: start.expected.plus(i64::from(mark.expected.get())),
            ..start
        }
    }

    fn add(&mut self, header: &Header) {
        self.last = header.last_offset.0.into();
        self.largest = self.largest.get().max(header.max_timestamp.0).into();
        self.smallest = self.smallest.get().min(smallest(header)).into();
    }
}

/// A lower bound of the timestamps of a batch's records.
fn smallest(header: &Header) -> i64 {
    let max = header.max_timestamp;
    let has_records = !header.is_control && header.record_count != Some(0);
    let is_one = header.record_count == Some(1) || header.timestamp_type == TimestampType::LogAppendTime;
    match (has_records && !max.is_none(), is_one) {
        (false, _) => i64::MAX,
        (true, true) => max.0,
        (true, false) => i64::MIN,
    }
}

/// Some times in a row, in units of [`SPAN_MS`] since 1970: the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Span {
    first: U32,
    last: U32,
}

/// The first of some batches in a row with the same leader epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EpochBegin {
    epoch: I32,
    offset: I64,
}

/// The times of a segment, as far as it was looked at.
#[derive(Debug, Clone, Default)]
pub struct Times {
    stretches: Vec<Stretch>,
    /// Those of all stretches in a row.
    marks: Vec<Mark>,
    /// Whether no mark is to come in the last stretch: behind damage a scan knows more than a mark says.
    is_unmarked: bool,
    spans: Vec<Span>,
    epochs: Vec<EpochBegin>,
    largest: Option<Timestamp>,
    /// Where looking goes on.
    at: Option<Start>,
    /// The file's length when its end was met.
    ended: Option<u64>,
    /// The segment's version then, if there was more behind the last batch, which may become readable in place.
    unreadable: Option<u64>,
}

/// A record, or a marker, that was found by its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
}

impl Times {
    /// Source bytes that [`Self::extend`] would still read of a segment, whose file has `len`.
    pub fn unread(&self, segment: &Segment, file: &SourceFile, len: u64) -> u64 {
        if self.has_ended(segment, len) {
            return 0;
        }
        segment.unread(file, len, self.at.map_or(0, |at| at.position.0))
    }

    fn has_ended(&self, segment: &Segment, len: u64) -> bool {
        self.ended == Some(len) && self.unreadable.is_none_or(|version| version == segment.version())
    }

    /// Whether its end was met, with nothing behind it that may become readable in place.
    pub const fn is_all(&self) -> bool {
        self.ended.is_some() && self.unreadable.is_none()
    }

    /// Looks at the next few MiB of the segment; the source bytes read, 0 at its end as it is now.
    ///
    /// # Errors
    /// Those of reading; damage is none.
    pub fn extend(&mut self, segment: &Segment) -> Result<u64, LogError> {
        let (_, len) = segment.open()?;
        if self.has_ended(segment, len) {
            return Ok(0);
        }
        let version = segment.version();
        let start = self.at.map_or_else(|| segment.start(), |at| Start { below: segment.below(), ..at });
        let mut scanner = segment.scan(start)?;
        let stop = start.position.plus(STEP_BYTES);
        let mut decoder = Decoder::default();
        loop {
            let at = scanner.at();
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { batch, .. } => self.add(at, &batch, &mut decoder, &segment.limits()),
                Step::Damage(_) => self.is_unmarked = true,
                Step::End(tail) => {
                    self.ended = Some(len);
                    self.unreadable = (tail != Tail::Clean).then_some(version);
                    break;
                }
            }
            if scanner.at().position >= stop {
                break;
            }
        }
        self.at = Some(scanner.at());
        Ok(scanner.at().position.since(start.position).max(1))
    }

    fn add(&mut self, at: Start, batch: &Batch<'_>, decoder: &mut Decoder, limits: &Limits) {
        let header = &batch.header;
        let full = |stretch: &Stretch| at.position.0.saturating_sub(stretch.position.get()) >= STRETCH_BYTES;
        // A batch that comes back behind one that it had changed places with belongs to the stretch of that one.
        if self.stretches.last().is_none_or(full) {
            self.stretches.push(Stretch::new(at, header, self.marks.len()));
            self.is_unmarked = at.context.is_after_damage;
        } else {
            self.mark(at);
        }
        if let Some(stretch) = self.stretches.last_mut() {
            stretch.add(header);
        }
        let epoch = header.leader_epoch.filter(|_| self.epochs.len() < MAX_EPOCHS);
        if let Some(epoch) =
            epoch.filter(|new| self.epochs.last().is_none_or(|last| last.epoch.get() != new.0))
        {
            let offset = header.first_known().0.into();
            self.epochs.push(EpochBegin { epoch: epoch.0.into(), offset });
        }
        let max = header.max_timestamp;
        self.largest = Some(self.largest.map_or(max, |largest| largest.max(max)));
        if header.is_control || header.record_count == Some(0) || max.0 < 0 {
            return;
        }
        let base = header.base_timestamp.0;
        let is_spread =
            smallest(header) == i64::MIN && !header.has_delete_horizon && (0..=max.0).contains(&base);
        match is_spread.then(|| max.0 - base) {
            None => self.add_span(max.0, max.0),
            Some(0..=LONGEST_BATCH_MS) => self.add_span(base, max.0),
            Some(_) => {
                for record in batch.records(decoder, limits).into_iter().flatten().map_while(Result::ok) {
                    if record.timestamp.0 >= 0 {
                        self.add_span(record.timestamp.0, record.timestamp.0);
                    }
                }
            }
        }
    }

    /// Marks a batch that is about to be added to the last stretch, if it is far enough behind the mark before.
    fn mark(&mut self, at: Start) {
        let Some(stretch) = self.stretches.last().filter(|_| !self.is_unmarked) else { return };
        let is_alike = at.context == Context { is_after_damage: false, ..stretch.start(at.below).context };
        let before = self.marks_of(self.stretches.len() - 1).last().map_or(0, |mark| mark.position.get());
        let distance = at.position.0.saturating_sub(stretch.position.get()).saturating_sub(u64::from(before));
        if is_alike && distance >= MARK_BYTES {
            self.marks.extend(Mark::new(stretch, at));
        }
    }

    /// The marks of stretch number `index`.
    fn marks_of(&self, index: usize) -> &[Mark] {
        let before = |stretch: &Stretch| usize::try_from(stretch.marks_before.get()).unwrap_or(usize::MAX);
        let from = self.stretches.get(index).map_or(usize::MAX, before);
        let to = self.stretches.get(index + 1).map_or(self.marks.len(), before);
        self.marks.get(from..to).unwrap_or_default()
    }

    /// Bytes of memory that it takes, about.
    pub fn weight(&self) -> usize {
        size_of_val(self)
            + size_of_val(self.stretches.as_slice())
            + size_of_val(self.marks.as_slice())
            + size_of_val(self.spans.as_slice())
            + size_of_val(self.epochs.as_slice())
    }

    fn add_span(&mut self, from_ms: i64, to_ms: i64) {
        let unit = |ms: i64| u32::try_from(ms / SPAN_MS).unwrap_or(u32::MAX);
        merge(&mut self.spans, unit(from_ms), unit(to_ms));
        if self.spans.len() > MAX_SPANS {
            let spans = std::mem::take(&mut self.spans);
            for span in spans {
                let day = |unit: u32| unit / SPANS_A_DAY * SPANS_A_DAY;
                let last = day(span.last.get()).saturating_add(SPANS_A_DAY - 1);
                merge(&mut self.spans, day(span.first.get()), last);
            }
        }
    }

    /// The largest timestamp of all batches, markers too; `None` when there are no batches.
    pub const fn largest(&self) -> Option<Timestamp> {
        self.largest
    }

    /// The first time at or after `time` at which there may be a record, to 15 minutes.
    pub fn next_time(&self, time: Timestamp) -> Option<Timestamp> {
        let unit = u32::try_from(time.0.max(0) / SPAN_MS).ok()?;
        let index = self.spans.partition_point(|span| span.last.get() < unit);
        let first = self.spans.get(index)?.first.get();
        Some(Timestamp((i64::from(first) * SPAN_MS).max(time.0)))
    }

    /// Offsets between which all records of a period are; `None` when there are none.
    pub fn offsets_of(&self, period: Period) -> Option<(Offset, Offset)> {
        let touches = |stretch: &Stretch| {
            period.touches(Timestamp(stretch.smallest.get()), Timestamp(stretch.largest.get()))
        };
        let first = self.stretches.iter().find(|stretch| touches(stretch))?;
        let last = self.stretches.iter().rfind(|stretch| touches(stretch))?;
        Some((Offset(first.expected.get()), Offset(last.last.get()).next()))
    }

    /// The first record or marker at or after `time` with an offset of `log_start` or more, as ListOffsets finds it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn first_at(
        &self,
        segment: &Segment,
        time: Timestamp,
        log_start: Offset,
    ) -> Result<Option<Timed>, LogError> {
        let fits = |timed: &Timed| timed.timestamp >= time && timed.offset >= log_start;
        for (index, stretch) in self.stretches.iter().enumerate() {
            if stretch.largest.get() < time.0 || stretch.last.get() < log_start.0 {
                continue;
            }
            let found = self.look_into(segment, index, time, fits)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The first record or marker that has the largest timestamp (KIP-734).
    ///
    /// # Errors
    /// Those of reading.
    pub fn first_largest(&self, segment: &Segment) -> Result<Option<Timed>, LogError> {
        let Some(largest) = self.largest.filter(|largest| largest.0 >= 0) else { return Ok(None) };
        let has_it = |stretch: &Stretch| stretch.largest.get() == largest.0;
        let Some(index) = self.stretches.iter().position(has_it) else { return Ok(None) };
        self.look_into(segment, index, largest, |timed| timed.timestamp == largest)
    }

    /// The first record of a stretch that `fits`, none of which is older than `time`.
    fn look_into(
        &self,
        segment: &Segment,
        index: usize,
        time: Timestamp,
        fits: impl Fn(&Timed) -> bool,
    ) -> Result<Option<Timed>, LogError> {
        let Some(stretch) = self.stretches.get(index) else { return Ok(None) };
        let mut scanner = segment.scan(self.start_for(index, stretch, time, segment.below()))?;
        let mut decoder = Decoder::default();
        loop {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { batch, .. } => {
                    let is_last = batch.header.last_offset.0 >= stretch.last.get();
                    let is_worth_it = batch.header.max_timestamp >= time;
                    let found =
                        if is_worth_it { first_in(&batch, &mut decoder, segment, &fits) } else { None };
                    if found.is_some() || is_last {
                        return Ok(found);
                    }
                }
                Step::Damage(_) => {}
                Step::End(_) => return Ok(None),
            }
        }
    }

    /// The last place in a stretch in front of which all is older than `time`, as far as marks tell.
    fn start_for(&self, index: usize, stretch: &Stretch, time: Timestamp, below: Offset) -> Start {
        let marks = self.marks_of(index);
        // What is in front of a mark is in front of the next one, too.
        let behind = marks.partition_point(|mark| mark.is_behind_older(stretch, time));
        let mark = behind.checked_sub(1).and_then(|last| marks.get(last));
        mark.map_or_else(|| stretch.start(below), |mark| stretch.start_at(mark, below))
    }

    /// The leader epochs of its batches, each time that they change, and the offset where.
    pub fn epochs(&self) -> impl Iterator<Item = (LeaderEpoch, Offset)> {
        self.epochs.iter().map(|begin| (LeaderEpoch(begin.epoch.get()), Offset(begin.offset.get())))
    }

    /// The bytes to save, once the end was met.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let len = self.ended.filter(|_| self.unreadable.is_none())?;
        let count = |len: usize| u32::try_from(len).ok();
        let mut out = Vec::new();
        let lens = [self.stretches.len(), self.marks.len(), self.spans.len(), self.epochs.len()];
        out.extend_from_slice(&VERSION.to_be_bytes());
        for len in lens {
            out.extend_from_slice(&count(len)?.to_be_bytes());
        }
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(self.stretches.as_bytes());
        out.extend_from_slice(self.marks.as_bytes());
        out.extend_from_slice(self.spans.as_bytes());
        out.extend_from_slice(self.epochs.as_bytes());
        Some(out)
    }

    /// What [`Self::encode`] made of a file of `len` bytes; `None` for anything else.
    pub fn decode(bytes: &[u8], len: u64) -> Option<Self> {
        let (words, rest) = <[U32; 5]>::ref_from_prefix(bytes).ok()?;
        let [version, stretches, marks, spans, epochs] = words.map(U32::get);
        let (source_len, rest) = U64::ref_from_prefix(rest).ok()?;
        if version != VERSION || source_len.get() != len {
            return None;
        }
        let stretches = usize::try_from(stretches).ok()?;
        let (stretches, rest) = <[Stretch]>::ref_from_prefix_with_elems(rest, stretches).ok()?;
        let marks = usize::try_from(marks).ok()?;
        let (marks, rest) = <[Mark]>::ref_from_prefix_with_elems(rest, marks).ok()?;
        let spans = usize::try_from(spans).ok()?;
        let (spans, rest) = <[Span]>::ref_from_prefix_with_elems(rest, spans).ok()?;
        let epochs = usize::try_from(epochs).ok()?;
        let (epochs, rest) = <[EpochBegin]>::ref_from_prefix_with_elems(rest, epochs).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let largest = stretches.iter().map(|stretch| Timestamp(stretch.largest.get())).max();
        Some(Self {
            stretches: stretches.to_vec(),
            marks: marks.to_vec(),
            spans: spans.to_vec(),
            epochs: epochs.to_vec(),
            largest,
            ended: Some(len),
            ..Self::default()
        })
    }
}

/// Adds the units `first` to `last` to spans that are in order and don't touch.
fn merge(spans: &mut Vec<Span>, first: u32, last: u32) {
    let from = spans.partition_point(|span| span.last.get().saturating_add(1) < first);
    let to = spans.partition_point(|span| span.first.get() <= last.saturating_add(1));
    let (mut low, mut high) = (first, last);
    for span in spans.get(from..to.max(from)).unwrap_or_default() {
        (low, high) = (low.min(span.first.get()), high.max(span.last.get()));
    }
    spans.splice(from..to.max(from), [Span { first: low.into(), last: high.into() }]);
}

/// The first record of a batch that `fits`; none of a batch whose records can't all be read.
fn first_in(
    batch: &Batch<'_>,
    decoder: &mut Decoder,
    segment: &Segment,
    fits: impl Fn(&Timed) -> bool,
) -> Option<Timed> {
    let mut found = None;
    for record in batch.records(decoder, &segment.limits()).ok()? {
        let record = record.ok()?;
        let timed = Timed { offset: record.offset, timestamp: record.timestamp };
        if found.is_none() && fits(&timed) {
            found = Some(timed);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::format::batch::Codec;
    use crate::format::batch_builder::{BatchBuilder, NewRecord};
    use crate::format::compression::encoder::Compression;
    use crate::log::files::{FileId, FilePool};
    use crate::log::segment::SegmentFile;

    /// Bytes of the value of each record of [`written`].
    const VALUE: usize = 4000;

    /// A sealed segment of batches of one record each, with these times.
    fn written(path: &Path, times: &[i64]) -> Segment {
        let compression = Compression { codec: Codec::None, level: None };
        let (mut bytes, mut builder) = (Vec::new(), BatchBuilder::new(compression));
        for (offset, time) in times.iter().enumerate() {
            let value = Some([b'v'; VALUE].as_slice());
            let record = NewRecord { timestamp: Timestamp(*time), key: None, value, headers: &[] };
            assert!(builder.push(&record, usize::MAX));
            let base = Offset(i64::try_from(offset).unwrap());
            bytes.extend_from_slice(builder.finish(base, LeaderEpoch(0)).unwrap());
            builder.clear();
        }
        std::fs::write(path, &bytes).unwrap();
        let id = FileId::of(&std::fs::metadata(path).unwrap());
        let len = bytes.len() as u64;
        let file =
            SegmentFile { base: Offset(0), path: path.to_owned(), id, len, changed: None, packing: None };
        let below = Offset(i64::try_from(times.len()).unwrap());
        let pool = Arc::new(FilePool::new(NonZeroUsize::MIN));
        Segment::new(file, Offset(0), below, pool, Limits::default())
    }

    fn looked_through(segment: &Segment) -> Times {
        let mut times = Times::default();
        while times.extend(segment).unwrap() > 0 {}
        times
    }

    #[test]
    fn an_instant_is_found_from_the_mark_before_it_however_times_go_back_and_forth() {
        let now = 1_700_000_000_000;
        let far = i64::from(u32::MAX) + 1;
        let mut all: Vec<i64> = (0..1000).map(|n| now + n * 10 + if n % 3 == 0 { -25 } else { 0 }).collect();
        // None, a clock that was wrong by more than a mark can say, one that went back, and one far in the future.
        (all[100], all[300], all[450], all[700]) = (-1, now + far, 5, i64::MAX / 2);
        let directory = tempfile::tempdir().unwrap();
        let segment = written(&directory.path().join("00000000000000000000.log"), &all);
        let times = looked_through(&segment);
        assert!(times.stretches.len() >= 3 && times.marks.len() > 40, "{} marks", times.marks.len());
        for time in all.iter().flat_map(|time| [time - 1, *time, time + 1]).filter(|time| *time >= 0) {
            let expected = all.iter().position(|at| *at >= time).map(|at| Offset(i64::try_from(at).unwrap()));
            let found = times.first_at(&segment, Timestamp(time), Offset(0)).unwrap();
            assert_eq!(found.map(|found| found.offset), expected, "{time}");
        }
        let end = Offset(i64::try_from(all.len()).unwrap());
        let start_for = |time: i64| {
            let index = times.stretches.iter().position(|stretch| stretch.largest.get() >= time).unwrap();
            times.start_for(index, &times.stretches[index], Timestamp(time), end)
        };
        let entry = segment.open().unwrap().1 / all.len() as u64;
        for (at, time) in all.iter().enumerate().take(300).filter(|(at, _)| at % 3 == 1 && *at != 100) {
            let distance = (at as u64 * entry).checked_sub(start_for(*time).position.0).unwrap();
            assert!(distance < MARK_BYTES + entry, "{distance} bytes for record {at}");
        }
        assert_eq!(times.first_largest(&segment).unwrap().map(|found| found.offset), Some(Offset(700)));
    }

    #[test]
    fn behind_damage_there_is_no_mark_until_the_next_stretch() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("00000000000000000000.log");
        let all: Vec<i64> = (0..1000).map(|n| 1_700_000_000_000 + n * 10).collect();
        let sound = written(&path, &all);
        let entry = sound.open().unwrap().1 / all.len() as u64;
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[usize::try_from(100 * entry + 100).unwrap()] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let damaged = Segment::new(
            SegmentFile {
                base: Offset(0),
                path: path.clone(),
                id: sound.id,
                len: bytes.len() as u64,
                changed: None,
                packing: None,
            },
            Offset(0),
            sound.below(),
            Arc::new(FilePool::new(NonZeroUsize::MIN)),
            Limits::default(),
        );
        let times = looked_through(&damaged);
        let in_first = times.marks_of(0);
        assert!(!in_first.is_empty());
        assert!(in_first.iter().all(|mark| u64::from(mark.position.get()) <= 100 * entry));
        assert!(times.marks_of(1).len() > 10);
        for (at, time) in all.iter().enumerate() {
            let found = times.first_at(&damaged, Timestamp(*time), Offset(0)).unwrap().unwrap();
            assert_eq!(found.offset.0, if at == 100 { 101 } else { i64::try_from(at).unwrap() });
        }
    }

    fn merged(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
        let mut spans = Vec::new();
        for (first, last) in ranges {
            merge(&mut spans, *first, *last);
        }
        spans.iter().map(|span| (span.first.get(), span.last.get())).collect()
    }

    #[test]
    fn spans_stay_in_order_and_apart() {
        assert_eq!(merged(&[(5, 6), (7, 9), (1, 2)]), [(1, 2), (5, 9)]);
        assert_eq!(merged(&[(1, 1), (3, 3), (5, 5), (2, 4)]), [(1, 5)]);
        assert_eq!(merged(&[(10, 20), (12, 13)]), [(10, 20)]);
        assert_eq!(
            merged(&[(u32::MAX, u32::MAX), (0, 0), (u32::MAX, u32::MAX)]),
            [(0, 0), (u32::MAX, u32::MAX)]
        );
    }

    #[test]
    fn times_in_the_next_span_are_found_and_what_is_saved_is_read_back() {
        let mut times = Times { ended: Some(7), ..Times::default() };
        times.add_span(3 * SPAN_MS, 3 * SPAN_MS + 1);
        times.add_span(100 * SPAN_MS, 101 * SPAN_MS);
        for times in [Times::decode(&times.encode().unwrap(), 7).unwrap(), times.clone()] {
            assert_eq!(times.next_time(Timestamp(-5)), Some(Timestamp(3 * SPAN_MS)));
            assert_eq!(times.next_time(Timestamp(3 * SPAN_MS + 9)), Some(Timestamp(3 * SPAN_MS + 9)));
            assert_eq!(times.next_time(Timestamp(4 * SPAN_MS)), Some(Timestamp(100 * SPAN_MS)));
            assert_eq!(times.next_time(Timestamp(102 * SPAN_MS)), None);
        }
        let directory = tempfile::tempdir().unwrap();
        let all: Vec<i64> = (0..600).collect();
        let segment = written(&directory.path().join("00000000000000000000.log"), &all);
        let looked = looked_through(&segment);
        let saved = Times::decode(&looked.encode().unwrap(), looked.ended.unwrap()).unwrap();
        assert_eq!((&saved.stretches, &saved.marks), (&looked.stretches, &looked.marks));
        assert_eq!(saved.marks_of(1), looked.marks_of(1));
        let bytes = times.encode().unwrap();
        assert!(Times::decode(&bytes, 8).is_none());
        assert!((0..bytes.len()).all(|len| Times::decode(&bytes[..len], 7).is_none()));
    }

    #[test]
    fn scattered_times_take_bounded_memory() {
        let mut times = Times::default();
        for n in 0..40_000 {
            times.add_span(n * 2 * SPAN_MS, n * 2 * SPAN_MS);
        }
        assert!(times.spans.len() <= MAX_SPANS, "{}", times.spans.len());
        assert_eq!(times.next_time(Timestamp(0)), Some(Timestamp(0)));
    }
}
