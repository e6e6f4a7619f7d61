//! One segment: a `.log`, and its `.index` as a hint.
//!
//! | module | what |
//! |---|---|
//! | [`scan`] | batch after batch, and where reading resumes behind damage |
//! | [`start`] | where a scan begins |
//! | `ahead` | which of the batches behind damage belong where they are |
//! | [`seen`] | whether a file is what it was, grown perhaps |
//! | [`entries`] | entry after entry as Kafka iterates a file, damaged or not |
//! | [`heads`] | what the first bytes of a file tell of it |
//! | [`times`], [`time_hint`] | when the records of a segment were written, by the headers of its batches; cheaply, for listings |
//! | [`suspects`] | batches that can be decoded, but are not to be trusted |
//! | [`facts`] | what is so of a segment once no more can come to it |
//! | [`beside`] | the files of a segment that are compared with each other |
//! | [`index_check`] | whether index entries lead look-ups to the right place |

pub(in crate::log) mod ahead;
pub mod beside;
pub mod entries;
pub mod facts;
pub mod heads;
pub mod index_check;
pub mod scan;
pub mod seen;
pub mod start;
pub mod suspects;
pub mod time_hint;
pub mod times;

use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use zerocopy::FromBytes;

use crate::format::batch::{Decoder, Limits};
use crate::format::index::{OFFSET_ENTRY_LEN, StoredOffsetEntry};
use crate::format::names::{self, FileState, FileType, Packing};
use crate::log::LogError;
use crate::log::files::{self, FileId, FilePool, ReadAt, SourceFile};
use crate::log::segment::facts::Facts;
use crate::log::segment::scan::{Scanner, Start, Step, Tail};
use crate::log::segment::seen::{Farthest, Reached, Seen};
use crate::units::{Offset, Position, Timestamp};

/// A number that no two segments of this process share, also when a file is replaced under the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentUid(u64);

impl SegmentUid {
    /// One that no other segment has had.
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

/// One `.log` file as it was when it was listed; a file that was cut or replaced becomes another segment.
#[derive(Debug)]
pub struct Segment {
    /// What tells it from all others.
    pub uid: SegmentUid,
    /// The number in its name: a lower bound of its offsets.
    pub base: Offset,
    /// The smallest offset that may be in it: its base, or less where the name is too high.
    pub lower: Offset,
    /// The file.
    pub path: PathBuf,
    /// The file's identity.
    pub id: FileId,
    packed: Option<Packed>,
    pool: Arc<FilePool>,
    limits: Limits,
    seen: Mutex<Seen>,
    farthest: Arc<Farthest>,
    below: AtomicI64,
    end: Mutex<Option<SegmentEnd>>,
    pinned: Mutex<Weak<SourceFile>>,
    facts: Facts,
    /// Whether it was sealed, and became the last one again.
    was_reopened: AtomicBool,
}

/// How a segment was compressed as a file, and the length of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packed {
    packing: Packing,
    len: u64,
}

/// Where a segment's readable part ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentEnd {
    /// The file's length when this was found.
    pub len: u64,
    /// Where the last sound batch ends.
    pub position: Position,
    /// The offset after it.
    pub next_offset: Offset,
    /// What is behind it.
    pub tail: Tail,
    /// The largest timestamp of the last sound batch, `None` when there is none.
    pub last_timestamp: Option<Timestamp>,
    /// Where a scan goes on when the file has grown.
    at: Start,
}

/// What an offset index says of a place. Its offset is the first or the last one of the batch there, or the last of some
/// that were appended with it; in each case the batch begins above the entry before.
#[derive(Debug, Clone, Copy)]
struct Indexed {
    position: Position,
    /// Relative to the segment's base.
    offset: i64,
    /// The offset of the entry before.
    above: i64,
}

/// Two entries of an offset index, one behind the other. Whether the batch of the second one is in its place, only the one in
/// front of it tells: so a scan begins at the first one's.
type Neighbours = (Indexed, Indexed);

/// What a segment is made from.
#[derive(Debug, Clone)]
pub struct SegmentFile {
    /// The number in the file's name.
    pub base: Offset,
    /// The file.
    pub path: PathBuf,
    /// Its identity.
    pub id: FileId,
    /// Its length in bytes.
    pub len: u64,
    /// When it was changed last, as far as that was asked.
    pub changed: Option<SystemTime>,
    /// How a backup tool has compressed it, if one has.
    pub packing: Option<Packing>,
}

impl Segment {
    /// A segment of `file`, with the offsets `lower` to `below` as those that fit.
    pub fn new(file: SegmentFile, lower: Offset, below: Offset, pool: Arc<FilePool>, limits: Limits) -> Self {
        let SegmentFile { base, path, id, len, packing, .. } = file;
        let packed = packing.map(|packing| Packed { packing, len });
        // What a compressed one unpacks to has a length of its own.
        let len = if packed.is_some() { 0 } else { len };
        Self {
            uid: SegmentUid::next(),
            base,
            lower,
            path,
            id,
            packed,
            pool,
            limits,
            seen: Mutex::new(Seen::new(len)),
            farthest: Arc::default(),
            below: AtomicI64::new(below.0),
            end: Mutex::new(None),
            pinned: Mutex::default(),
            facts: Facts::default(),
            was_reopened: AtomicBool::new(false),
        }
    }

    /// Whether it is the last one, to which a broker may append.
    pub fn is_active(&self) -> bool {
        self.below() == Offset(i64::MAX)
    }

    /// The base of the segment after it, the largest offset while there is none.
    pub fn below(&self) -> Offset {
        Offset(self.below.load(Ordering::Acquire))
    }

    /// Tells it that a segment with base `below` follows now, as after a roll, or none, as after a truncation.
    pub fn set_below(&self, below: Offset) {
        if below == Offset(i64::MAX) && !self.is_active() {
            self.was_reopened.store(true, Ordering::Release);
        }
        self.below.store(below.0, Ordering::Release);
    }

    /// What was found of it since it was sealed; `None` while more may come to it, and for good once it was sealed twice: what was
    /// found before it was the last one again is true no more.
    pub fn facts(&self) -> Option<&Facts> {
        (!self.is_active() && !self.was_reopened.load(Ordering::Acquire)).then_some(&self.facts)
    }

    /// How much memory one of its batches may cost.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Its file, and the length that it has now.
    ///
    /// # Errors
    /// [`LogError::Stale`] when it was removed, replaced or cut.
    pub fn open(&self) -> Result<(Arc<SourceFile>, u64), LogError> {
        let pinned = self.pinned.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        let file = match pinned {
            Some(file) => file,
            None => self.get()?,
        };
        // What is seen is seen under the lock: a length from before somebody saw the file grow would look like a cut.
        let mut seen = self.lock_seen();
        let metadata = file.metadata().map_err(|error| LogError::io(&self.path, "stat", error))?;
        if !self.goes_on(&file, &metadata, &mut seen) {
            return Err(LogError::Stale { path: self.path.clone() });
        }
        Ok((file, metadata.len()))
    }

    /// Whether its file is as it was, or has only grown.
    fn goes_on(&self, file: &SourceFile, metadata: &Metadata, seen: &mut Seen) -> bool {
        let farthest = || *self.farthest.lock().unwrap_or_else(PoisonError::into_inner);
        let was_cut = seen.was_cut();
        let goes_on = seen.goes_on(file, metadata.len(), files::changed(metadata), farthest);
        if !goes_on && !was_cut {
            self.pool.count_cut();
        }
        goes_on
    }

    /// A number that goes up when its file is seen to have changed, also within its length: reserved space is written to so.
    pub fn version(&self) -> u64 {
        self.lock_seen().version()
    }

    /// How many bytes from `from` on a reading of the file, which has `len`, would read: space that a broker has reserved reads
    /// as zeros, and is not read.
    pub fn unread(&self, file: &SourceFile, len: u64, from: u64) -> u64 {
        /// What looks like reserved space may have a little written to it.
        const WRITTEN: u64 = 512 * 1024;
        let reach = from.saturating_add(WRITTEN);
        let is_reserved = len > reach && file.next_data(reach).is_none_or(|data| data >= len);
        if is_reserved { WRITTEN } else { len.saturating_sub(from) }
    }

    /// The largest timestamp of its batches, `None` inside when it has none, if it is sealed and the times of all of them were known once.
    pub fn known_largest(&self) -> Option<Option<Timestamp>> {
        self.facts()?.largest.get().copied()
    }

    /// Whether it was found to be cut or replaced.
    pub(in crate::log) fn was_cut(&self) -> bool {
        self.lock_seen().was_cut()
    }

    /// Looks whether its name is still that of its file, and the file what it was when it was opened last, without opening it
    /// unless something has changed.
    pub(in crate::log) fn is_in_place(&self) -> bool {
        if self.packed.is_some() || !self.lock_seen().is_known() {
            return true;
        }
        let Ok(metadata) = std::fs::symlink_metadata(&self.path) else { return false };
        FileId::of(&metadata) == self.id
            && (self.lock_seen().is_as_it_was(metadata.len(), files::changed(&metadata))
                || self.open().is_ok())
    }

    fn get(&self) -> Result<Arc<SourceFile>, LogError> {
        match self.packed {
            None => self.pool.get(&self.path, self.id),
            Some(Packed { packing, .. }) => {
                let file = self.pool.unpacked.get(&self.path, self.id, packing);
                file.map_err(|error| LogError::io(&self.path, "unpack", error))
            }
        }
    }

    /// Whether it is compressed as a file.
    pub const fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Whether reading it costs no more than the reading: it isn't compressed, or unpacked already.
    pub fn is_at_hand(&self) -> bool {
        self.packed.is_none() || self.pool.unpacked.has(self.id)
    }

    /// Whether its file is what it was, as far as that can be told without unpacking it.
    pub fn is_unchanged(&self) -> bool {
        !self.is_at_hand() || self.open().is_ok()
    }

    /// The bytes that it takes on disk.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn stored_len(&self) -> Result<u64, LogError> {
        match self.packed {
            None => Ok(self.open()?.1),
            Some(Packed { len, .. }) => Ok(len),
        }
    }

    /// Its file, which stays readable as long as the result is kept, also when a broker deletes it.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn pin(&self) -> Result<Arc<SourceFile>, LogError> {
        let (file, _) = self.open()?;
        *self.pinned.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&file);
        Ok(file)
    }

    /// Whether somebody keeps its file readable.
    pub fn is_pinned(&self) -> bool {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner).strong_count() > 0
    }

    /// Whether `file` is this segment still, grown perhaps.
    pub fn is_same(&self, file: &SegmentFile) -> bool {
        if self.id != file.id || self.base != file.base || self.path != file.path {
            return false;
        }
        match self.packed {
            None => self.may_be(file) || self.open().is_ok(),
            Some(Packed { len, .. }) => file.len == len,
        }
    }

    /// Whether nothing has to be looked at to tell that a file is this one still.
    fn may_be(&self, file: &SegmentFile) -> bool {
        let seen = self.lock_seen();
        match file.changed {
            Some(changed) if seen.is_known() => seen.is_as_it_was(file.len, changed),
            _ => seen.may_have_grown_to(file.len),
        }
    }

    /// The start of a scan of the whole segment.
    pub fn start(&self) -> Start {
        Start::new(Position(0), self.lower, self.below())
    }

    /// A scanner of its file as long as it is now.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn scan(&self, start: Start) -> Result<Scanner<Arc<SourceFile>>, LogError> {
        let (file, len) = self.open()?;
        Ok(self.scanner(file, len, start))
    }

    /// A scanner of its file, which was opened before.
    pub fn scanner(&self, file: Arc<SourceFile>, len: u64, start: Start) -> Scanner<Arc<SourceFile>> {
        Scanner::new(file, len, start, self.limits).telling(self.farthest.clone())
    }

    /// Takes it that all was read up to the position `end`, where batches lie from `position` on: what was saved stands for it.
    pub fn take_as_read(&self, position: Position, end: Position) {
        let Ok((file, _)) = self.open() else { return };
        let mut head = [0; Reached::HEAD];
        if !files::read_full(&file, &mut head, position.0).is_ok_and(|read| read == head.len()) {
            return;
        }
        let mut known = self.farthest.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none_or(|known| known.end < end.0) {
            *known = Some(Reached { position: position.0, end: end.0, head });
        }
    }

    /// Turns a read error of its file into one that names it.
    pub fn error(&self, error: std::io::Error) -> LogError {
        LogError::io(&self.path, "read", error)
    }

    /// A place from which a scan finds the batch of `target`, and much nearer than the segment's start when the
    /// offset index is worth something. The index is a hint: what it says is tried, never trusted.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn start_near(&self, target: Offset) -> Result<Start, LogError> {
        Ok(self.scan_near(target)?.at())
    }

    /// A scanner that begins there.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn scan_near(&self, target: Offset) -> Result<Scanner<Arc<SourceFile>>, LogError> {
        Ok(self.scan_behind(self.index_floor(target), |next| next <= target)?.0)
    }

    /// A place at least `distance` bytes before `offset`, or before the end, from which batches can be read.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn start_before(&self, offset: Offset, distance: u64) -> Result<Start, LogError> {
        let fits = |next: Offset| next <= offset;
        let end = match self.index_floor(offset).filter(|_| offset < self.below()) {
            Some(near) => self.scan_behind(Some(near), fits)?.0.at().position,
            None => self.end()?.position,
        };
        let indexed = self.index_floor_position(end.0.saturating_sub(distance));
        Ok(self.scan_behind(indexed, fits)?.0.at())
    }

    /// A scanner that begins behind the batch of the first entry, if the offset after it passes `fits`, and sound batches are where
    /// both entries say; else at the segment's start. With that batch's largest timestamp.
    fn scan_behind(
        &self,
        indexed: Option<Neighbours>,
        fits: impl Fn(Offset) -> bool,
    ) -> Result<(Scanner<Arc<SourceFile>>, Option<Timestamp>), LogError> {
        let mut scanner = self.scan(self.start())?;
        if let Some((first, second)) = indexed {
            let timestamp = self.step_behind(&mut scanner, &first)?;
            let behind = scanner.at();
            let fits = timestamp.is_some() && fits(behind.expected);
            if fits && self.step_behind(&mut scanner, &second)?.is_some() {
                scanner.go_to(behind);
                return Ok((scanner, timestamp));
            }
            scanner.go_to(self.start());
        }
        Ok((scanner, None))
    }

    /// Takes a scanner behind the batch of an index entry; its largest timestamp, if a sound one begins there whose first offset is
    /// above the entry before, and no higher than the entry says.
    fn step_behind(
        &self,
        scanner: &mut Scanner<Arc<SourceFile>>,
        indexed: &Indexed,
    ) -> Result<Option<Timestamp>, LogError> {
        scanner.go_to(Start { position: indexed.position, ..self.start() });
        let is_there = |first: Offset| {
            let relative = first.0.saturating_sub(self.base.0);
            relative > indexed.above && relative <= indexed.offset
        };
        Ok(match scanner.step().map_err(|error| self.error(error))? {
            Step::Batch { position, batch } if position == indexed.position => {
                let first = batch.first_offset(&mut Decoder::default(), &self.limits);
                first.is_some_and(is_there).then_some(batch.header.max_timestamp)
            }
            _ => None,
        })
    }

    /// Where the readable part ends; remembered, and continued when the file has grown.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn end(&self) -> Result<SegmentEnd, LogError> {
        let (file, len) = self.open()?;
        let known = self.lock_end().clone();
        let known = known.filter(|end| end.at.position.0 <= len);
        let (start, mut last_timestamp) = match known {
            Some(end) if end.len == len && end.tail == Tail::Clean => return Ok(end),
            Some(end) => (Start { below: self.below(), ..end.at }, end.last_timestamp),
            None => self.last_indexed()?,
        };
        let mut scanner = self.scanner(file, len, start);
        let tail = loop {
            match scanner.step().map_err(|error| self.error(error))? {
                Step::Batch { batch, .. } => last_timestamp = Some(batch.header.max_timestamp),
                Step::Damage(_) => {}
                Step::End(tail) => break tail,
            }
        };
        let at = scanner.at();
        let next_offset = at.expected.max(self.base);
        let end = SegmentEnd { len, position: at.position, next_offset, tail, last_timestamp, at };
        *self.lock_end() = Some(end.clone());
        Ok(end)
    }

    /// The same if it is known, or costs about `budget` bytes of reading; a large segment without an index costs all of it.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn end_within(&self, budget: u64) -> Result<Option<SegmentEnd>, LogError> {
        let (file, len) = self.open()?;
        let known = self.lock_end().as_ref().map(|end| end.position);
        let from = match known {
            Some(position) => position,
            None => self.last_indexed()?.0.position,
        };
        // Space that a broker has reserved reads as zeros, and is not read.
        let reach = from.0.saturating_add(budget);
        let is_cheap = len <= reach || file.next_data(reach).is_none_or(|data| data >= len);
        if is_cheap { self.end().map(Some) } else { Ok(None) }
    }

    /// Where the end is near, and the largest timestamp of the batch before.
    fn last_indexed(&self) -> Result<(Start, Option<Timestamp>), LogError> {
        let last = self.index_floor(Offset(i64::MAX));
        let (scanner, timestamp) = self.scan_behind(last, |next| next > self.lower)?;
        Ok((scanner.at(), timestamp))
    }

    fn lock_seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_end(&self) -> std::sync::MutexGuard<'_, Option<SegmentEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last index entry whose offset is at most `target`, and the one before it.
    fn index_floor(&self, target: Offset) -> Option<Neighbours> {
        let relative = target.0.saturating_sub(self.base.0);
        self.search_index(|entry_offset, _| entry_offset <= relative)
    }

    /// The index entry with the largest position that is at most `wanted`, and the one before it.
    fn index_floor_position(&self, wanted: u64) -> Option<Neighbours> {
        self.search_index(|_, position| position <= wanted)
    }

    /// The last entry for which `before` holds, and the one before it, as far as the index is sorted; `None` where the segment's
    /// start is as near.
    fn search_index(&self, before: impl Fn(i64, u64) -> bool) -> Option<Neighbours> {
        let index = files::open(&self.beside(FileType::OffsetIndex)).ok()?;
        let entries = index.metadata().ok()?.len() / OFFSET_ENTRY_LEN as u64;
        let mut index = IndexReader { file: &index, first: 0, bytes: Vec::new() };
        let (mut low, mut high) = (0, entries);
        while low < high {
            let middle = low + (high - low) / 2;
            match index.entry(middle) {
                // Unused slots of a preallocated index are zeros.
                Some((offset, position)) if position > 0 && before(offset, position) => low = middle + 1,
                _ => high = middle,
            }
        }
        let mut indexed = |number: u64| {
            let (above, _) = index.entry(number.checked_sub(1)?)?;
            let (offset, position) = index.entry(number)?;
            Some(Indexed { position: Position(position), offset, above })
        };
        Some((indexed(low.checked_sub(2)?)?, indexed(low - 1)?))
    }

    /// The path of its file of another type.
    pub(in crate::log) fn beside(&self, file_type: FileType) -> PathBuf {
        let name = self.path.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| names::SegmentFile::beside_log(name, file_type)) {
            Some(other) => self.path.with_file_name(other.to_string()),
            None => self.path.with_extension(file_type.suffix().trim_start_matches('.')),
        }
    }
}

/// Entries of an index, read some at a time: the last steps of a search ask for neighbours.
struct IndexReader<'a, T> {
    file: &'a T,
    /// The number of the first entry in `bytes`.
    first: u64,
    bytes: Vec<u8>,
}

impl<T: ReadAt> IndexReader<'_, T> {
    /// How many entries are read at once.
    const AROUND: u64 = 64;

    /// Entry number `number`: relative offset and position; `None` for what no entry can be.
    fn entry(&mut self, number: u64) -> Option<(i64, u64)> {
        if self.known(number).is_none() {
            self.first = number.saturating_sub(Self::AROUND / 2);
            self.bytes.resize(Self::AROUND as usize * OFFSET_ENTRY_LEN, 0);
            let from = self.first * OFFSET_ENTRY_LEN as u64;
            let read = files::read_full(self.file, &mut self.bytes, from).unwrap_or(0);
            self.bytes.truncate(read);
        }
        let entry = StoredOffsetEntry::read_from_bytes(self.known(number)?).ok()?;
        Some((i64::from(entry.relative_offset()), u64::try_from(entry.position()).ok()?))
    }

    fn known(&self, number: u64) -> Option<&[u8]> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?.checked_mul(OFFSET_ENTRY_LEN)?;
        self.bytes.get(at..at.checked_add(OFFSET_ENTRY_LEN)?)
    }
}

/// The base offset that the name of a segment's `.log` says.
pub fn base_of_name(path: &Path) -> Option<Offset> {
    let file = names::SegmentFile::parse(path.file_name()?.to_str()?)?;
    (file.file_type == FileType::Log && file.state == FileState::Live).then_some(file.base)
}
