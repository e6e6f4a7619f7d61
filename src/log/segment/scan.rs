//! Batch after batch through one segment, and where reading resumes behind damage.
//!
//! A batch is accepted when its length, magic and checksum are right **and** its offsets fit: above all that came
//! before it, below the next segment's base. The checksum of magic 2 leaves out the base offset (bytes 0 to 21), that
//! of magic 0 and 1 the offset, so the second half of the rule is what finds damage there.
//!
//! Behind a bad entry reading resumes at the entry that its length points to, if that one is sound; otherwise at the
//! first byte from which a sound batch can be read. What ends a segment is one of four things, see [`Tail`].
//!
//! Two neighbours that changed places are both returned, in the order of their offsets: the second one first, then
//! the first, then the second's bytes as damage. That they were swapped is certain only when no offset is missing
//! before, between and after them; otherwise a wrong base offset looks the same, and the first one is left out.

use std::io;
use std::sync::{Arc, PoisonError};

use crate::format::batch::{Batch, BatchError, Decoder, Header, Limits, PREFIX_LEN, Prefix};
use crate::log::files::ReadAt;
use crate::log::files::window::{CHUNK, Window};
use crate::log::segment::ahead::{Ahead, BatchSpan};
use crate::log::segment::seen::{Farthest, Reached};
use crate::units::{Offset, Position};

pub use crate::log::segment::start::{Context, Start};

mod skim;

/// How many times the segment's size a search may spend on checksums of candidates before it gives up, and how many bytes in
/// a small one: only bytes made for it come near.
const SEARCH_FACTOR: u64 = 16;
const SEARCH_BYTES: u64 = 256 * 1024 * 1024;

/// One step through a segment.
#[derive(Debug)]
pub enum Step<'a> {
    /// A sound batch.
    Batch {
        /// Where it begins; less than where the one before began, when the two changed places.
        position: Position,
        /// The batch.
        batch: Batch<'a>,
    },
    /// Bytes that are no sound batch, with sound ones behind them.
    Damage(Damage),
    /// The end of what can be read.
    End(Tail),
}

/// Bytes that belong to no sound batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where they begin.
    pub position: Position,
    /// How many they are.
    pub len: u64,
    /// What is wrong at their beginning.
    pub fault: Fault,
    /// The offset that was expected there.
    pub expected: Offset,
}

/// How a segment ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tail {
    /// With its last batch.
    Clean,
    /// With the beginning of a batch: torn, or still being written.
    Torn(Damage),
    /// With zeros: preallocated, or lost at a power failure.
    Zero(Damage),
    /// With bytes that are none of these.
    Bad(Damage),
}

impl Tail {
    /// The bytes behind the last batch, `None` when there are none.
    pub const fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Clean => None,
            Self::Torn(damage) | Self::Zero(damage) | Self::Bad(damage) => Some(damage),
        }
    }
}

/// Why an entry is not a sound batch in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Fewer bytes than a prefix has, or a size that reaches beyond the end.
    #[error("the entry needs {need} bytes, the file has {left} left")]
    Torn {
        /// What the entry claims.
        need: u64,
        /// What there is.
        left: u64,
    },
    /// A size below the smallest entry's.
    #[error("an entry can't have {size} bytes")]
    Size {
        /// The size as stored.
        size: i32,
    },
    /// Larger than is read at all.
    #[error("the entry has {size} bytes, more than max_batch_bytes = {limit}")]
    TooLarge {
        /// Its length.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Its structure or checksum is wrong.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Its offsets may be right, or the sound batches behind it, but not both.
    #[error("offsets {first} to {last} are out of place: sound batches behind it go on from {expected}")]
    OutOfPlace {
        /// The batch's first offset.
        first: Offset,
        /// Its last.
        last: Offset,
        /// The smallest that fits.
        expected: Offset,
    },
    /// It and the batch in front of it changed places; it was returned already, in the order of the offsets.
    #[error("offsets {first} to {last} changed places with the batch at {front}, and are read before it")]
    Swapped {
        /// The batch's first offset.
        first: Offset,
        /// Its last.
        last: Offset,
        /// Where the other one begins.
        front: Position,
    },
    /// Its offsets were there before, or belong to the next segment.
    #[error(
        "offsets {first} to {last} don't fit here: {expected} or higher, and below {below}, was expected"
    )]
    Order {
        /// The batch's first offset.
        first: Offset,
        /// Its last.
        last: Offset,
        /// The smallest that fits.
        expected: Offset,
        /// The smallest that is too high.
        below: Offset,
    },
}

/// Reads batches from a file whose length was taken once; use a new one to see growth.
#[derive(Debug)]
pub struct Scanner<F> {
    file: F,
    reached: Option<Reached>,
    farthest: Option<Arc<Farthest>>,
    len: u64,
    window: Window,
    at: Start,
    limits: Limits,
    /// Where a batch is that was returned before the one in front of it, and where that begins.
    swapped: Option<(u64, Position)>,
    /// Of what lies ahead behind damage: where batches are that belong here.
    ahead: Ahead,
    decoder: Decoder,
}

/// A sound entry's header and length.
type Sound = (Header, usize);

/// Which offsets a sound entry has.
struct Span {
    first: Offset,
    last: Offset,
    /// How many records it has.
    records: i64,
}

/// What the next step is, without borrowing the window.
enum Next {
    Batch(u64, Sound),
    /// The batch behind the next one, which belongs before it.
    Swapped(u64, Sound),
    Damage(Damage),
    End(Tail),
}

impl<F> Drop for Scanner<F> {
    fn drop(&mut self) {
        let (Some(farthest), Some(reached)) = (&self.farthest, self.reached) else { return };
        let mut known = farthest.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|known| known.end < reached.end) {
            *known = Some(reached);
        }
    }
}

impl<F: ReadAt> Scanner<F> {
    /// A scanner of the first `len` bytes of `file`.
    pub fn new(file: F, len: u64, start: Start, limits: Limits) -> Self {
        Self {
            file,
            reached: None,
            farthest: None,
            len,
            window: Window::default(),
            at: start,
            limits,
            swapped: None,
            ahead: Ahead::default(),
            decoder: Decoder::default(),
        }
    }

    /// The same; when it is dropped it says how far it came.
    #[must_use]
    pub fn telling(mut self, farthest: Arc<Farthest>) -> Self {
        self.farthest = Some(farthest);
        self
    }

    /// Goes on at another place; what is in memory stays there.
    pub fn go_to(&mut self, start: Start) {
        self.at = start;
        self.swapped = None;
        self.ahead = Ahead::default();
    }

    /// Where the next step begins, and what is expected there.
    pub const fn at(&self) -> Start {
        self.at
    }

    /// Reads the next batch, or finds the next damage or the end. After the end it stays there.
    ///
    /// # Errors
    /// The system's.
    pub fn step(&mut self) -> io::Result<Step<'_>> {
        match self.find_next()? {
            Next::Batch(position, sound) => {
                self.at.position = Position(position + sound.1 as u64);
                Ok(self.emit(position, sound))
            }
            Next::Swapped(position, sound) => {
                self.swapped = Some((position, self.at.position));
                Ok(self.emit(position, sound))
            }
            Next::Damage(damage) => {
                self.at.position = damage.position.plus(damage.len);
                self.at.context.is_after_damage = true;
                Ok(Step::Damage(damage))
            }
            Next::End(tail) => Ok(Step::End(tail)),
        }
    }

    /// The sound batch in memory at `position` as the next step.
    fn emit(&mut self, position: u64, (header, len): Sound) -> Step<'_> {
        self.at.pass(&header);
        let bytes = self.window.get(position, len);
        let end = position + len as u64;
        if let Some(head) = bytes.first_chunk().filter(|_| self.reached.is_none_or(|last| last.end < end)) {
            self.reached = Some(Reached { position, end, head: *head });
        }
        Step::Batch { position: Position(position), batch: Batch { bytes, header } }
    }

    fn find_next(&mut self) -> io::Result<Next> {
        let position = self.at.position.0;
        if position >= self.len {
            return Ok(Next::End(Tail::Clean));
        }
        let mut sound = match self.sound_at(position)? {
            Ok(sound) => sound,
            Err(fault) => {
                let fault = self.or_swapped(position, fault);
                return self.resync(position, fault);
            }
        };
        let span = self.span(position, &sound);
        sound.0.last_offset = span.last;
        let (first, last, expected) = (span.first, span.last, self.at.expected);
        if first < expected {
            let fault = self.or_swapped(position, self.order_fault(first, last));
            return self.resync(position, fault);
        }
        let refuting = self.refuting(position, &sound, &span)?;
        if let Some((at, second)) = refuting
            && at == position + sound.1 as u64
            && self.is_swapped(at, &second, &span, &sound.0)?
        {
            self.window.need(&self.file, at, second.1)?;
            return Ok(Next::Swapped(at, second));
        }
        // What was decided behind damage for all that lies ahead is kept to: two ways of judging could leave out both sides.
        let is_unsure = first > expected && self.at.context.is_after_damage;
        let belongs = match is_unsure || self.ahead.covers(position) {
            true => self.belongs_here(position)?,
            false => refuting.is_none(),
        };
        if !belongs {
            return self.resync(position, Fault::OutOfPlace { first, last, expected });
        }
        self.window.need(&self.file, position, sound.1)?;
        Ok(Next::Batch(position, sound))
    }

    /// Why the entry at `position` is not in its place: it was returned already, or for the reason `fault`.
    fn or_swapped(&mut self, position: u64, fault: Fault) -> Fault {
        match (fault, self.swapped.take_if(|(at, _)| *at == position)) {
            (Fault::Order { first, last, .. }, Some((_, front))) => Fault::Swapped { first, last, front },
            (other, _) => other,
        }
    }

    /// Whether the sound batch at `position`, behind damage and a gap in the offsets, belongs there as far as the
    /// batches that follow tell. A page that a disk wrote to a wrong place has batches in it that are sound and too high: taking
    /// them would make all that follow, up to their true place, look as if they went back.
    fn belongs_here(&mut self, position: u64) -> io::Result<bool> {
        if !self.ahead.covers(position) {
            self.ahead = self.look_ahead(position)?;
        }
        Ok(self.ahead.holds(position))
    }

    fn look_ahead(&mut self, position: u64) -> io::Result<Ahead> {
        let until = self.len.min(position.saturating_add(Ahead::BYTES));
        let mut spans = Vec::new();
        let mut at = position;
        let mut in_sets = self.at.context.in_sets;
        while at < until && spans.len() < Ahead::BATCHES {
            match self.sound_at(at)? {
                Ok(sound) => {
                    in_sets = sound.0.base_offset.is_none();
                    let first = self.span(at, &sound).first;
                    spans.push(BatchSpan {
                        position: at,
                        len: sound.1 as u64,
                        first,
                        last: sound.0.last_offset,
                    });
                    at += sound.1 as u64;
                }
                Err(_) => at = self.resumption(at, until, in_sets)?.unwrap_or(until),
            }
        }
        Ok(Ahead::new(position, at, at >= self.len, &spans))
    }

    /// The batch that follows, behind damage perhaps, if it shows that this one's offsets, which no checksum covers,
    /// are wrong, or that it is not in its place: both can't be right, and this one does not begin where it should.
    fn refuting(
        &mut self,
        position: u64,
        (header, len): &Sound,
        span: &Span,
    ) -> io::Result<Option<(u64, Sound)>> {
        let next = position + *len as u64;
        let is_full = header.last_offset.0.saturating_sub(span.first.0).saturating_add(1) == span.records;
        if self.len.saturating_sub(next) < PREFIX_LEN as u64 || span.first == self.at.expected && is_full {
            return Ok(None);
        }
        self.window.need(&self.file, next, PREFIX_LEN)?;
        let Some(prefix) = Prefix::read(self.window.get(next, PREFIX_LEN)) else { return Ok(None) };
        if prefix.magic == 2 && prefix.offset > header.last_offset {
            return Ok(None);
        }
        // What is damaged, or was there before, tells nothing: the first batch after it that may come does.
        let following = match self.sound_at(next)? {
            Ok(sound) => Some((next, sound)),
            Err(_) => match self.search(next, self.len, self.at.context.in_sets)? {
                Some(at) => self.sound_at(at)?.ok().map(|sound| (at, sound)),
                None => None,
            },
        };
        Ok(following.filter(|(at, sound)| self.span(*at, sound).first <= header.last_offset))
    }

    /// Whether the sound entry at `at` and the one before it, with offsets from `before.first` on, changed places:
    /// together they fill the offsets from the expected one on, and what follows does not contradict.
    fn is_swapped(&mut self, at: u64, second: &Sound, before: &Span, first: &Header) -> io::Result<bool> {
        let fills =
            self.span(at, second).first == self.at.expected && second.0.last_offset.next() == before.first;
        let next = at + second.1 as u64;
        Ok(fills
            && match self.sound_at(next)? {
                Ok(sound) => self.span(next, &sound).first > first.last_offset,
                Err(_) => true,
            })
    }

    /// The offsets of the sound entry that is in memory at `position`; a compressed message set must be decoded for them.
    fn span(&mut self, position: u64, (header, len): &Sound) -> Span {
        let last = header.last_offset;
        if let Some(first) = header.base_offset {
            return Span { first, last, records: header.record_count.map_or(0, i64::from) };
        }
        let batch = Batch { bytes: self.window.get(position, *len), header: *header };
        // One that can't be decoded is for readers to tell.
        let unknown = Span { first: last, last, records: 1 };
        let Ok(mut records) = batch.records(&mut self.decoder, &self.limits) else { return unknown };
        let Some(Ok(first)) = records.next() else { return unknown };
        let mut span = Span { first: first.offset, last, records: 1 };
        for record in records.map_while(Result::ok) {
            // A set with offset 0 (librdkafka's) counts its messages from there: it ends where the last of them is.
            span.last = span.last.max(record.offset);
            span.records += 1;
        }
        span
    }

    /// A batch at `position` with everything right that it says of itself, and offsets in the range that fits.
    fn sound_at(&mut self, position: u64) -> io::Result<Result<Sound, Fault>> {
        let left = self.len.saturating_sub(position);
        if left < PREFIX_LEN as u64 {
            return Ok(Err(Fault::Torn { need: PREFIX_LEN as u64, left }));
        }
        self.window.need(&self.file, position, PREFIX_LEN)?;
        let Some(prefix) = Prefix::read(self.window.get(position, PREFIX_LEN)) else {
            return Ok(Err(Fault::Torn { need: PREFIX_LEN as u64, left }));
        };
        let Some(len) = prefix.entry_len() else { return Ok(Err(Fault::Size { size: prefix.size })) };
        if len as u64 > left {
            return Ok(Err(Fault::Torn { need: len as u64, left }));
        }
        if len > self.limits.max_batch_bytes {
            let limit = self.limits.max_batch_bytes as u64;
            return Ok(Err(Fault::TooLarge { size: len as u64, limit }));
        }
        self.window.need(&self.file, position, len + PREFIX_LEN)?;
        let header = match Batch::parse(self.window.get(position, len)) {
            Ok(batch) => batch.header,
            Err(error) => return Ok(Err(error.into())),
        };
        let first = header.first_known();
        if first < self.at.expected || header.last_offset >= self.at.below {
            return Ok(Err(self.order_fault(first, header.last_offset)));
        }
        Ok(Ok((header, len)))
    }

    fn order_fault(&self, first: Offset, last: Offset) -> Fault {
        Fault::Order { first, last, expected: self.at.expected, below: self.at.below }
    }

    /// Finds where reading can go on behind the bad entry at `position`.
    fn resync(&mut self, position: u64, fault: Fault) -> io::Result<Next> {
        let resumes = self.resumption(position, self.len, self.at.context.in_sets)?;
        let end = resumes.unwrap_or(self.len);
        let expected = self.at.expected;
        let damage = Damage { position: Position(position), len: end - position, fault, expected };
        if resumes.is_some() {
            return Ok(Next::Damage(damage));
        }
        Ok(Next::End(self.classify_tail(position, damage)?))
    }

    /// Where a sound batch follows the bad entry at `position`, looked for up to `until`.
    fn resumption(&mut self, position: u64, until: u64, in_sets: bool) -> io::Result<Option<u64>> {
        match self.length_at(position)? {
            Some(next) if next == self.len => Ok(None),
            Some(next) if self.sound_at(next)?.is_ok() => Ok(Some(next)),
            _ => {
                let in_sets = in_sets || self.claims_set(position)?;
                self.search(position + 1, until, in_sets)
            }
        }
    }

    /// Where the entry at `position` says that it ends, if that is inside the file.
    fn length_at(&mut self, position: u64) -> io::Result<Option<u64>> {
        if self.len - position < PREFIX_LEN as u64 {
            return Ok(None);
        }
        self.window.need(&self.file, position, PREFIX_LEN)?;
        let len = Prefix::read(self.window.get(position, PREFIX_LEN)).and_then(|prefix| prefix.entry_len());
        Ok(len.map(|len| position + len as u64).filter(|end| *end <= self.len))
    }

    /// Whether the entry at `position` says that it is a compressed message set.
    fn claims_set(&mut self, position: u64) -> io::Result<bool> {
        self.window.need(&self.file, position, PREFIX_LEN + 1)?;
        let bytes = self.window.get(position, PREFIX_LEN + 1);
        Ok(matches!(bytes, [.., 0 | 1, attributes] if attributes & 0x07 != 0))
    }

    /// The first position from `from` on, and before `until`, where a sound batch begins. Among compressed message sets (`in_sets`) that is no
    /// single message: codecs leave short ones as they are, so it may be one inside a damaged set, whose offsets are
    /// relative.
    fn search(&mut self, from: u64, until: u64, in_sets: bool) -> io::Result<Option<u64>> {
        let mut budget = self.len.saturating_mul(SEARCH_FACTOR).max(SEARCH_BYTES);
        let mut position = from;
        while position < until && self.len.saturating_sub(position) >= PREFIX_LEN as u64 {
            let Some(data) = self.file.next_data(position) else { return Ok(None) };
            // A prefix may begin with zeros that lie in the hole.
            position = position.max(data.saturating_sub(PREFIX_LEN as u64));
            let wanted = CHUNK.min(usize::try_from(self.len.saturating_sub(position)).unwrap_or(CHUNK));
            self.window.need(&self.file, position, wanted)?;
            match self.candidate(position, wanted) {
                Err(skipped) => position += skipped.max(1),
                Ok((at, cost)) => {
                    let is_inner = |header: &Header| header.magic < 2 && header.base_offset.is_some();
                    match self.sound_at(at)? {
                        Ok((header, _)) if !(in_sets && is_inner(&header)) => return Ok(Some(at)),
                        Err(Fault::Batch(BatchError::Checksum { .. })) if budget < cost => return Ok(None),
                        Err(Fault::Batch(BatchError::Checksum { .. })) => budget -= cost,
                        Ok(_) | Err(_) => {}
                    }
                    position = at + 1;
                }
            }
        }
        Ok(None)
    }

    /// The first place in `len` bytes at `position` whose prefix could begin a batch, with that batch's length;
    /// otherwise the number of bytes that hold none.
    fn candidate(&self, position: u64, len: usize) -> Result<(u64, u64), u64> {
        let bytes = self.window.get(position, len);
        let last = bytes.len().saturating_sub(PREFIX_LEN);
        if bytes.iter().all(|byte| *byte == 0) {
            return Err(last as u64);
        }
        let mut at = 0;
        while at <= last {
            if bytes[at + PREFIX_LEN - 1] <= 2
                && let Some(prefix) = Prefix::read(&bytes[at..])
                && let Some(entry) = prefix.entry_len()
                && prefix.offset >= self.at.expected
                && prefix.offset < self.at.below
                && entry as u64 <= self.len - position - at as u64
            {
                return Ok((position + at as u64, entry as u64));
            }
            at += 1;
        }
        Err(at as u64)
    }

    fn classify_tail(&mut self, position: u64, damage: Damage) -> io::Result<Tail> {
        if self.is_zero_from(position)? {
            return Ok(Tail::Zero(damage));
        }
        let left = self.len - position;
        let wanted = PREFIX_LEN.min(usize::try_from(left).unwrap_or(PREFIX_LEN));
        self.window.need(&self.file, position, wanted)?;
        let begins_batch = match Prefix::read(self.window.get(position, wanted)) {
            None => true,
            Some(prefix) => (0..=2).contains(&prefix.magic) && prefix.offset >= self.at.expected,
        };
        if matches!(damage.fault, Fault::Torn { .. }) && begins_batch {
            return Ok(Tail::Torn(damage));
        }
        Ok(Tail::Bad(damage))
    }

    fn is_zero_from(&mut self, from: u64) -> io::Result<bool> {
        let mut position = from;
        while position < self.len {
            match self.file.next_data(position) {
                None => return Ok(true),
                Some(data) if data >= self.len => return Ok(true),
                Some(data) => position = data.max(position),
            }
            let wanted = CHUNK.min(usize::try_from(self.len - position).unwrap_or(CHUNK));
            self.window.need(&self.file, position, wanted)?;
            let bytes = self.window.get(position, wanted);
            if bytes.is_empty() || bytes.iter().any(|byte| *byte != 0) {
                return Ok(bytes.is_empty());
            }
            position += bytes.len() as u64;
        }
        Ok(true)
    }
}
