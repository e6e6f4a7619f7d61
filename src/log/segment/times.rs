//! When the records of a segment were written, by the headers of its batches: nothing is decompressed, but for a batch that spans more
//! than a month.
//!
//! A segment is cut into stretches of about 1 MiB, and of each the largest timestamp is kept, and the smallest where headers
//! tell it: a batch whose timestamps are the broker's has one for all of its records, a batch of a producer only says the
//! largest. So readers skip what can't hold a time, and ListOffsets finds the one batch to look into. The time index is not
//! asked: whatever it says, no record is missed for it. Headers also tell where leader epochs begin.
//!
//! As saved (see [`crate::log::sidecar`]), all integers big-endian:
//!
//! ```text
//! 0   4   version of this layout    4   4  number of stretches    8  4  number of spans   12  4  number of epochs
//! 16  8   source bytes looked at    24  stretches of 48 bytes, then spans of 8, then epochs of 12
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

const VERSION: u32 = 1;

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
    /// [`IN_SETS`], [`AFTER_DAMAGE`].
    flags: U32,
    /// Unused, 0.
    reserved: U32,
}
const _: () = assert!(size_of::<Stretch>() == 48);

const IN_SETS: u32 = 1;
const AFTER_DAMAGE: u32 = 2;

impl Stretch {
    fn new(at: Start) -> Self {
        let Context { in_sets, is_after_damage } = at.context;
        let flags = if in_sets { IN_SETS } else { 0 } | if is_after_damage { AFTER_DAMAGE } else { 0 };
        Self {
            position: at.position.0.into(),
            expected: at.expected.0.into(),
            last: at.expected.0.into(),
            smallest: i64::MAX.into(),
            largest: i64::MIN.into(),
            flags: flags.into(),
            reserved: 0.into(),
        }
    }

    fn start(&self, below: Offset) -> Start {
        let flag = |flag| self.flags.get() & flag != 0;
        let context = Context { in_sets: flag(IN_SETS), is_after_damage: flag(AFTER_DAMAGE) };
        let (position, expected) = (Position(self.position.get()), Offset(self.expected.get()));
        Start { position, expected, below, context }
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
                Step::Damage(_) => {}
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
            self.stretches.push(Stretch::new(at));
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
        for stretch in self.stretches.iter().filter(|stretch| stretch.largest.get() >= time.0) {
            if stretch.last.get() < log_start.0 {
                continue;
            }
            let fits = |timed: &Timed| timed.timestamp >= time && timed.offset >= log_start;
            let found = look_into(segment, stretch, |header| header.max_timestamp >= time, fits)?;
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
        let Some(stretch) = self.stretches.iter().find(|stretch| stretch.largest.get() == largest.0) else {
            return Ok(None);
        };
        let has_it = |header: &Header| header.max_timestamp == largest;
        look_into(segment, stretch, has_it, |timed| timed.timestamp == largest)
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
        for word in
            [VERSION, count(self.stretches.len())?, count(self.spans.len())?, count(self.epochs.len())?]
        {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(self.stretches.as_bytes());
        out.extend_from_slice(self.spans.as_bytes());
        out.extend_from_slice(self.epochs.as_bytes());
        Some(out)
    }

    /// What [`Self::encode`] made of a file of `len` bytes; `None` for anything else.
    pub fn decode(bytes: &[u8], len: u64) -> Option<Self> {
        let (words, rest) = <[U32; 4]>::ref_from_prefix(bytes).ok()?;
        let [version, stretches, spans, epochs] = words.map(U32::get);
        let (source_len, rest) = U64::ref_from_prefix(rest).ok()?;
        if version != VERSION || source_len.get() != len {
            return None;
        }
        let stretches = usize::try_from(stretches).ok()?;
        let (stretches, rest) = <[Stretch]>::ref_from_prefix_with_elems(rest, stretches).ok()?;
        let spans = usize::try_from(spans).ok()?;
        let (spans, rest) = <[Span]>::ref_from_prefix_with_elems(rest, spans).ok()?;
        let epochs = usize::try_from(epochs).ok()?;
        let (epochs, rest) = <[EpochBegin]>::ref_from_prefix_with_elems(rest, epochs).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let largest = stretches.iter().map(|stretch| Timestamp(stretch.largest.get())).max();
        let (stretches, spans, epochs) = (stretches.to_vec(), spans.to_vec(), epochs.to_vec());
        Some(Self { stretches, spans, epochs, largest, at: None, ended: Some(len), unreadable: None })
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

/// The first record of a stretch that `fits`, looking into batches that are `worth` it.
fn look_into(
    segment: &Segment,
    stretch: &Stretch,
    worth: impl Fn(&Header) -> bool,
    fits: impl Fn(&Timed) -> bool,
) -> Result<Option<Timed>, LogError> {
    let mut scanner = segment.scan(stretch.start(segment.below()))?;
    let mut decoder = Decoder::default();
    loop {
        match scanner.step().map_err(|error| segment.error(error))? {
            Step::Batch { batch, .. } => {
                let is_last = batch.header.last_offset.0 >= stretch.last.get();
                let found =
                    if worth(&batch.header) { first_in(&batch, &mut decoder, segment, &fits) } else { None };
                if found.is_some() || is_last {
                    return Ok(found);
                }
            }
            Step::Damage(_) => {}
            Step::End(_) => return Ok(None),
        }
    }
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
    use super::*;

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
