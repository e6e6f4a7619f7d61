//! One replica of a partition, as its directory is now.

use std::collections::HashSet;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crate::format::batch::{Batch, Header, Limits};
use crate::format::names::{self, FileState, FileType};
use crate::log::LogError;
use crate::log::files::{self, FileId, FilePool, TIME_GRAIN};
use crate::log::moment::{self, Moment};
use crate::log::problem::Problem;
use crate::log::segment::heads;
use crate::log::segment::scan::{Step, Tail};
use crate::log::segment::{Segment, SegmentFile, SegmentUid};
use crate::log::source::archived::{self, Archived};
use crate::log::source::checkpoints::CheckpointFile;
use crate::log::source::swaps::Swaps;
use crate::log::touches::{Touched, Touches};
use crate::units::{Offset, Position, TopicPartition};

/// Where the bounds of a partition's offsets are kept.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// `log-start-offset-checkpoint`.
    pub log_start: Option<Arc<CheckpointFile>>,
    /// `replication-offset-checkpoint`.
    pub high_watermark: Option<Arc<CheckpointFile>>,
}

/// What a partition's segments come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// All segments of a directory.
    Directory(PathBuf),
    /// One segment file.
    File(PathBuf),
}

impl Origin {
    /// The directory or file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::File(path) => path,
        }
    }
}

/// One replica.
#[derive(Debug)]
pub struct Partition {
    /// Its topic and number.
    pub name: TopicPartition,
    /// Its name below the topic: the number, or `0.delete`, `0.source-2`.
    pub label: String,
    /// Its files.
    pub origin: Origin,
    pool: Arc<FilePool>,
    limits: Limits,
    bounds: Bounds,
    state: RwLock<Option<Listed>>,
    relist: Mutex<()>,
    generation: AtomicU64,
    /// Generations, and the smallest offset that the change before each left as it was; later ones have smaller offsets.
    touched: Mutex<Vec<(u64, Offset)>>,
    /// What is written to in a directory of many segments, from when all of them were looked at.
    told: Mutex<Option<(FileId, Arc<Touches>)>>,
    /// Its directory, if it is another partition when that is another one.
    directory: Option<FileId>,
}

/// A listing and when it was made.
#[derive(Debug, Clone)]
struct Listed {
    segments: Arc<[Arc<Segment>]>,
    directory: (FileId, SystemTime),
    at: Instant,
    settled: bool,
    looked_over: Arc<Mutex<LookedOver>>,
}

/// When all segments of a listing were looked at for changes in place, and how long that took.
#[derive(Debug)]
struct LookedOver {
    /// `None` when one was seen that has changed.
    at: Option<Instant>,
    took: Duration,
    cuts: u64,
}

/// A batch's place.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its segment.
    pub segment: Arc<Segment>,
    /// Where it begins in the segment.
    pub position: Position,
    /// Its whole entry, found sound.
    pub bytes: Vec<u8>,
    /// Its header.
    pub header: Header,
}

impl Partition {
    /// The partition `name` whose files are at `origin`.
    pub fn new(
        name: TopicPartition,
        label: String,
        origin: Origin,
        bounds: Bounds,
        pool: Arc<FilePool>,
        limits: Limits,
    ) -> Self {
        Self {
            name,
            label,
            origin,
            pool,
            limits,
            bounds,
            state: RwLock::new(None),
            relist: Mutex::new(()),
            generation: AtomicU64::new(0),
            touched: Mutex::default(),
            told: Mutex::default(),
            directory: None,
        }
    }

    /// The same in a directory of its own: when that is gone, or another one, the partition is too.
    #[must_use]
    pub fn in_directory(mut self, directory: FileId) -> Self {
        self.directory = Some(directory);
        self
    }

    /// The same with a generation that no other partition has had, as for one that may be the second of its name.
    #[must_use]
    pub fn made_later(self) -> Self {
        static LATER: AtomicU64 = AtomicU64::new(1);
        /// More than a partition's generation ever goes up.
        const APART: u64 = 1 << 32;
        let first = LATER.fetch_add(1, Ordering::Relaxed).wrapping_mul(APART);
        Self { generation: AtomicU64::new(first), ..self }
    }

    /// Whether it is the partition of this directory.
    pub fn is_in(&self, directory: Option<FileId>) -> bool {
        self.directory == directory
    }

    /// The same replica, with a listing of its own.
    pub fn apart(&self) -> Self {
        let Self { name, label, origin, bounds, pool, limits, directory, .. } = self;
        let (name, label, origin) = (name.clone(), label.clone(), origin.clone());
        let apart = Self::new(name, label, origin, bounds.clone(), pool.clone(), *limits);
        Self { directory: *directory, ..apart }
    }

    /// Whether its segments were listed, and are held in memory.
    pub fn is_listed(&self) -> bool {
        self.state.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Its segments in the order of their offsets, as they are now.
    ///
    /// # Errors
    /// [`LogError::Stale`] when the directory is gone.
    pub fn segments(&self) -> Result<Arc<[Arc<Segment>]>, LogError> {
        if moment::was_looked_at(self)
            && let Some(listed) = self.state.read().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            return Ok(listed.segments.clone());
        }
        let segments = self.look()?;
        moment::look_at(self);
        Ok(segments)
    }

    fn look(&self) -> Result<Arc<[Arc<Segment>]>, LogError> {
        let directory = self.directory_state()?;
        if let Some(listed) = self.current(&directory) {
            return Ok(listed);
        }
        let _one_at_a_time = self.relist.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = self.current(&directory) {
            return Ok(listed);
        }
        let (begun, cuts) = (Instant::now(), self.pool.cuts());
        let segments = self.list()?;
        let settled = directory.1.elapsed().is_ok_and(|age| age > TIME_GRAIN);
        let looked_over = Arc::new(Mutex::new(LookedOver { at: Some(begun), took: begun.elapsed(), cuts }));
        let listed = Listed { segments: segments.clone(), directory, at: begun, settled, looked_over };
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Some(listed);
        Ok(segments)
    }

    /// Looks now at the segments with these offsets, where that takes a moment only: a file that is opened shows what a restore
    /// has written in place before. Else such a thing is seen a little later.
    pub fn look_over(&self, offsets: Range<Offset>) {
        /// So many are looked at, rather than have the kernel tell of them.
        const FEW: usize = 32;
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let Some(listed) = state.as_ref() else { return };
        let first = Self::floor(&listed.segments, offsets.start);
        let behind = listed.segments.partition_point(|segment| segment.lower < offsets.end);
        let wanted = listed.segments.get(first..behind).unwrap_or_default();
        let is_in_place = match wanted.len() {
            0..=FEW => wanted.iter().all(|segment| segment.is_in_place()),
            _ if takes_a_moment(listed.segments.len()) => self.is_untouched(listed),
            _ => true,
        };
        if !is_in_place {
            listed.looked_over.lock().unwrap_or_else(PoisonError::into_inner).at = None;
            Moment::again();
        }
    }

    /// Whether all segments are what they were when this was asked last, or were looked at; those alone are looked at that the kernel tells of.
    fn is_untouched(&self, listed: &Listed) -> bool {
        // Kept while they are looked at: who comes meanwhile must not take it that nothing was told.
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of =
            |directory: FileId, touches: &Touches| directory == listed.directory.0 && !touches.is_over();
        if !told.as_ref().is_some_and(|(directory, touches)| is_of(*directory, touches)) {
            let is_directory = matches!(self.origin, Origin::Directory(_));
            let begun = is_directory.then(|| Touches::of(self.origin.path())).flatten();
            *told = begun.map(|touches| (listed.directory.0, touches));
        }
        match told.as_ref().map_or(Touched::Any, |(_, touches)| touches.take()) {
            Touched::Any => listed.segments.iter().all(|segment| segment.is_in_place()),
            Touched::Logs(bases) => bases.iter().all(|base| {
                let found = listed.segments.binary_search_by_key(base, |segment| segment.base).ok();
                found.is_none_or(|at| listed.segments[at].is_in_place())
            }),
        }
    }

    fn current(&self, directory: &(FileId, SystemTime)) -> Option<Arc<[Arc<Segment>]>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let listed = state.as_ref()?;
        let fresh = listed.settled || listed.at.elapsed() < TIME_GRAIN;
        let whole = listed.segments.last().is_none_or(|active| active.is_unchanged());
        let is_current = listed.directory == *directory && fresh && whole && listed.is_in_place(&self.pool);
        is_current.then(|| listed.segments.clone())
    }

    fn directory_state(&self) -> Result<(FileId, SystemTime), LogError> {
        let path = self.origin.path();
        let metadata = std::fs::metadata(path).map_err(|error| LogError::io(path, "stat", error))?;
        let time = match self.origin {
            Origin::Directory(_) => files::changed(&metadata),
            Origin::File(_) => SystemTime::UNIX_EPOCH,
        };
        let id = FileId::of(&metadata);
        if self.directory.is_some_and(|directory| directory != id) {
            return Err(LogError::Stale { path: path.to_owned() });
        }
        Ok((id, time))
    }

    /// Lists the directory; segments that are still the same files stay the same objects.
    fn list(&self) -> Result<Arc<[Arc<Segment>]>, LogError> {
        let mut files = match &self.origin {
            Origin::Directory(path) => self.segment_files(path)?,
            Origin::File(path) => vec![archived::single_file(path, &self.pool, self.limits)?],
        };
        files.sort_by_key(|file| file.base);
        files.dedup_by_key(|file| file.base);
        let old =
            self.state.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(|l| l.segments.clone());
        let old = old.unwrap_or_default();
        let mut segments: Vec<Arc<Segment>> = Vec::with_capacity(files.len());
        for (index, file) in files.iter().enumerate() {
            let below = files.get(index + 1).map_or(Offset(i64::MAX), |next| next.base);
            let known = old.binary_search_by_key(&file.base, |segment| segment.base).ok();
            match known.map(|at| &old[at]).filter(|segment| segment.is_same(file)) {
                Some(same) => {
                    same.set_below(below);
                    segments.push(same.clone());
                }
                None => {
                    let lower = lower_bound(file, segments.last(), self.limits);
                    let pool = self.pool.clone();
                    segments.push(Arc::new(Segment::new(file.clone(), lower, below, pool, self.limits)));
                }
            }
        }
        // Not the base in the next one's name: where that is too high, the next one begins below it.
        for pair in segments.windows(2) {
            pair[0].set_below(pair[1].lower);
        }
        let present: HashSet<FileId> = files.iter().map(|file| file.id).collect();
        let kept: HashSet<SegmentUid> = segments.iter().map(|segment| segment.uid).collect();
        for gone in old.iter().filter(|old| !present.contains(&old.id)) {
            self.pool.forget(gone.id);
            // Retention may roll the active segment and remove it at once: it ends where the next one begins.
            if let Some(next) = segments.iter().find(|segment| segment.base > gone.base) {
                gone.set_below(next.lower);
            }
        }
        let first = segments.first().map_or(Offset(i64::MAX), |segment| segment.base);
        let gone = old.iter().filter(|old| old.base >= first && !kept.contains(&old.uid));
        if let Some(below) = gone.map(|old| old.below()).max() {
            self.touch(below);
        }
        Ok(segments.into())
    }

    /// Begins another generation: what was below an offset is not what it was.
    fn touch(&self, below: Offset) {
        let mut touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        while touched.last().is_some_and(|(_, earlier)| *earlier <= below) {
            touched.pop();
        }
        touched.push((generation, below));
    }

    /// The offset from which on all is as it was in an earlier generation, grown perhaps: compaction leaves what is behind the
    /// segments that it replaces, truncation leaves nothing that can be relied on.
    ///
    /// # Errors
    /// Those of [`Self::segments`].
    pub fn untouched_since(&self, generation: u64) -> Result<Offset, LogError> {
        self.segments()?;
        let touched = self.touched.lock().unwrap_or_else(PoisonError::into_inner);
        let first = touched.iter().find(|(later, _)| *later > generation);
        Ok(first.map_or(Offset(i64::MIN), |(_, below)| *below))
    }

    fn segment_files(&self, directory: &Path) -> Result<Vec<SegmentFile>, LogError> {
        let entries = std::fs::read_dir(directory).map_err(|error| LogError::io(directory, "list", error))?;
        let (mut files, mut swaps, mut archived) = (Vec::new(), Swaps::default(), Archived::default());
        for entry in entries {
            let entry = entry.map_err(|error| LogError::io(directory, "list", error))?;
            let Some(name) = entry.file_name().to_str().and_then(names::SegmentFile::parse) else {
                archived.note(&entry.path());
                continue;
            };
            // Of what lies beside a log nothing is asked here.
            if name.state == FileState::Live && name.file_type != FileType::Log {
                continue;
            }
            // A file that vanishes between the two calls was deleted by a broker: that is no error.
            let path = entry.path();
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            if !metadata.is_file() {
                continue;
            }
            let (base, id, len) = (name.base, FileId::of(&metadata), metadata.size());
            let changed = Some(files::changed(&metadata));
            let file = SegmentFile { base, path, id, len, changed, packing: None };
            swaps.note(name, &file);
            if name == names::SegmentFile::live(name.base, FileType::Log) {
                files.push(file);
            }
        }
        swaps.resolve(&mut files, |file| {
            let all = Offset(i64::MAX);
            let segment = Segment::new(file.clone(), file.base, all, self.pool.clone(), self.limits);
            let end = segment.end().ok()?;
            matches!(end.tail, Tail::Clean | Tail::Zero(_)).then_some(end.next_offset)
        });
        archived.resolve(&mut files);
        Ok(files)
    }

    /// Closes its files, for a partition that is there no more: a deleted topic's disk space must come free.
    pub fn retire(&self) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        for segment in state.iter().flat_map(|listed| listed.segments.iter()) {
            self.pool.forget(segment.id);
        }
    }

    /// Segments of it that are not shown, or not whole, because of what archives and backup tools made of them.
    pub fn notes(&self) -> Vec<Problem> {
        archived::notes(&self.origin, &self.pool)
    }

    /// A number that goes up when segments are cut or replaced, as by truncation or compaction; growth, rolls and
    /// retention leave it.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// The log start offset: the checkpoint's, or the first segment's base.
    ///
    /// # Errors
    /// Those of [`Self::segments`].
    pub fn log_start(&self) -> Result<Offset, LogError> {
        let first = self.first_on_disk()?;
        let checkpoint = self.bounds.log_start.as_ref();
        let start = checkpoint.and_then(|file| file.offsets().get(&self.name).copied());
        Ok(start.map_or(first, |start| start.max(first)))
    }

    /// The smallest offset that may still be on disk.
    ///
    /// # Errors
    /// Those of [`Self::segments`].
    pub fn first_on_disk(&self) -> Result<Offset, LogError> {
        Ok(self.segments()?.first().map_or(Offset(0), |segment| segment.lower))
    }

    /// The log end offset: that after the last sound batch, or the newest segment's base if that is greater.
    ///
    /// # Errors
    /// Those of [`Self::segments`] and of reading.
    pub fn log_end(&self) -> Result<Offset, LogError> {
        let segments = self.segments()?;
        let Some(active) = segments.last() else { return Ok(Offset(0)) };
        Ok(active.end()?.next_offset)
    }

    /// The high watermark as checkpointed; `None` when it isn't.
    pub fn high_watermark(&self) -> Option<Offset> {
        self.bounds.high_watermark.as_ref()?.offsets().get(&self.name).copied()
    }

    /// Where the high watermark is checkpointed, if it is.
    pub fn high_watermark_directory(&self) -> Option<&Path> {
        self.bounds.high_watermark.as_ref()?.path.parent()
    }

    /// The number of the segment where a search for `target` begins: the last with a base at or below it.
    pub fn floor(segments: &[Arc<Segment>], target: Offset) -> usize {
        segments.partition_point(|segment| segment.lower <= target).saturating_sub(1)
    }

    /// The number of the segment that holds `target`, or would; one behind the last where all of them end before it.
    pub fn holder(segments: &[Arc<Segment>], target: Offset) -> usize {
        let floor = Self::floor(segments, target);
        floor + usize::from(segments.get(floor).is_some_and(|segment| segment.below() <= target))
    }

    /// The first sound batch whose last offset is `target` or more.
    ///
    /// # Errors
    /// Those of reading.
    pub fn find(&self, target: Offset) -> Result<Option<Found>, LogError> {
        let segments = self.segments()?;
        for segment in segments.iter().skip(Self::floor(&segments, target)) {
            if let Some(found) = find_in(segment, target)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Listed {
    /// Whether no segment was cut or replaced in place, of which the directory says nothing. That is looked for as often as it
    /// costs little, and when one was found.
    fn is_in_place(&self, pool: &FilePool) -> bool {
        /// Of the time, one part in so many is spent on looking.
        const SHARE: u32 = 100;
        let last = match takes_a_moment(self.segments.len()) {
            true => Ok(self.looked_over.lock().unwrap_or_else(PoisonError::into_inner)),
            false => self.looked_over.try_lock(),
        };
        let Ok(mut last) = last else { return true };
        let cuts = pool.cuts();
        let took = last.took.min(time_of_looking(self.segments.len()));
        let is_due = last.at.is_none_or(|at| at.elapsed() >= took.saturating_mul(SHARE));
        if last.cuts == cuts && !is_due {
            return true;
        }
        let begun = Instant::now();
        let is_same = |segment: &Arc<Segment>| !segment.was_cut() && (!is_due || segment.is_in_place());
        let is_in_place = self.segments.iter().all(is_same);
        if !is_in_place {
            // Whoever looks next, until it is listed again, must find it too.
            last.at = None;
            return false;
        }
        if is_due {
            (last.at, last.took) = (Some(begun), begun.elapsed());
        }
        last.cuts = cuts;
        true
    }
}

/// Looking at a segment takes no more than a few microseconds, unless the machine does something else meanwhile.
fn time_of_looking(segments: usize) -> Duration {
    const LOOK: Duration = Duration::from_micros(3);
    LOOK.saturating_mul(u32::try_from(segments).unwrap_or(u32::MAX))
}

/// Whether so many may be looked at whenever somebody asks.
fn takes_a_moment(segments: usize) -> bool {
    const MOMENT: Duration = Duration::from_millis(5);
    time_of_looking(segments) <= MOMENT
}

fn find_in(segment: &Arc<Segment>, target: Offset) -> Result<Option<Found>, LogError> {
    let mut scanner = segment.scan_near(target)?;
    loop {
        match scanner.step().map_err(|error| segment.error(error))? {
            Step::Batch { position, batch } if batch.header.last_offset >= target => {
                let Batch { bytes, header } = batch;
                return Ok(Some(Found { segment: segment.clone(), position, bytes: bytes.to_vec(), header }));
            }
            Step::Batch { .. } | Step::Damage(_) => {}
            Step::End(_) => return Ok(None),
        }
    }
}

/// The smallest offset that may be in `file`: what its name says, unless its first entry is below that. Then people
/// have renamed it, and all that isn't in the segment before it may be there.
fn lower_bound(file: &SegmentFile, before: Option<&Arc<Segment>>, limits: Limits) -> Offset {
    let Ok(log) = files::open(&file.path) else { return file.base };
    if file.packing.is_some() || !heads::begins_below(&log, file.base) {
        return file.base;
    }
    if let Some(end) = before.and_then(|segment| segment.end().ok()) {
        return end.next_offset;
    }
    let first = heads::first_offset(log, file.len, limits).ok().flatten();
    first.map_or(file.base, |first| first.min(file.base))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::num::NonZeroUsize;

    use super::*;
    use crate::format::testing::hex;

    const TWO_RECORDS: &str = "00000000000000050000004400000003025c40b3f900000000000100000000000003e8\
        00000000000003eaffffffffffffffffffffffffffff0000000210000000026b02760012000402010102026801";

    /// A partition of segments that each have one batch of two offsets, settled and read.
    fn partition(directory: &Path, segments: i64) -> Partition {
        let mut batch = hex(TWO_RECORDS);
        for base in (0..2 * segments).step_by(2) {
            batch[..8].copy_from_slice(&base.to_be_bytes());
            std::fs::write(directory.join(format!("{base:020}.log")), &batch).unwrap();
        }
        let pool = Arc::new(FilePool::new(NonZeroUsize::new(8).unwrap()));
        let topic = TopicPartition { topic: "t".to_owned(), partition: 0 };
        let origin = Origin::Directory(directory.to_owned());
        let partition =
            Partition::new(topic, "0".to_owned(), origin, Bounds::default(), pool, Limits::default());
        // What is young may have changed unseen, and is listed again anyway.
        std::thread::sleep(2 * TIME_GRAIN);
        for segment in partition.segments().unwrap().iter() {
            read(segment);
        }
        partition
    }

    fn read(segment: &Segment) {
        assert!(matches!(segment.scan(segment.start()).unwrap().step().unwrap(), Step::Batch { .. }));
    }

    /// Writes a segment anew in place: as long as it was, with another leader epoch, which the checksum leaves out.
    fn restore(segment: &Segment, epoch: u8) {
        let mut other = std::fs::read(&segment.path).unwrap();
        other[15] = epoch;
        std::fs::write(&segment.path, &other).unwrap();
    }

    /// The listing is asked for twice before it is made anew: by whoever finds it stale, and again when it is their turn.
    #[test]
    fn a_listing_that_was_found_stale_is_not_taken_for_current_by_who_asks_next() {
        let directory = tempfile::tempdir().unwrap();
        let partition = partition(directory.path(), 2);
        let before = partition.segments().unwrap();
        restore(&before[0], 9);
        partition.look_over(Offset(0)..Offset(10));
        let after = partition.segments().unwrap();
        assert_ne!(after[0].uid, before[0].uid);
        assert_eq!(after[1].uid, before[1].uid);
        assert_eq!(partition.generation(), 1);
    }

    #[test]
    fn of_many_segments_the_one_that_was_written_over_is_seen_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let partition = partition(directory.path(), 100);
        let all = Offset(i64::MIN)..Offset(i64::MAX);
        partition.look_over(all.clone());
        for (round, at) in [57, 3, 99, 3, 0].into_iter().enumerate() {
            let before = partition.segments().unwrap();
            partition.look_over(all.clone());
            assert_eq!(partition.segments().unwrap()[at].uid, before[at].uid);
            restore(&before[at], 100 + u8::try_from(round).unwrap());
            partition.look_over(all.clone());
            let after = partition.segments().unwrap();
            let changed = (0..100).filter(|at| after[*at].uid != before[*at].uid);
            assert_eq!(changed.collect::<Vec<_>>(), [at]);
            read(&after[at]);
        }
        let touches = partition.told.lock().unwrap();
        assert_eq!(touches.as_ref().unwrap().1.take(), Touched::Logs(BTreeSet::new()));
    }

    #[test]
    fn a_moment_ends_with_the_segment_that_is_met_changed_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let partition = partition(directory.path(), 2);
        let _moment = Moment::begin();
        let before = partition.segments().unwrap();
        restore(&before[0], 9);
        std::fs::write(directory.path().join(format!("{:020}.log", 9)), "").unwrap();
        assert_eq!(partition.segments().unwrap().len(), 2);
        assert!(before[0].open().is_err());
        let after = partition.segments().unwrap();
        assert_eq!(after.len(), 3);
        assert_ne!(after[0].uid, before[0].uid);
    }
}
