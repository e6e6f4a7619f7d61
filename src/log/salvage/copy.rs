//! Copies one partition, batch after batch.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::format::batch::{Batch, Decoder, Limits};
use crate::format::names::METADATA_TOPIC;
use crate::log::LogError;
use crate::log::derived::epochs::{EpochRecovery, Epochs};
use crate::log::derived::indexing::IndexBuilder;
use crate::log::derived::producers::{Contents, Producers};
use crate::log::files::ReadAt;
use crate::log::files::durable;
use crate::log::files::tolerant::{Stretch, Tolerant};
use crate::log::partition::Partition;
use crate::log::salvage::files::Small;
use crate::log::salvage::plan::Job;
use crate::log::salvage::report::{Kept, Left, Offsets, PartitionReport};
use crate::log::salvage::segments::{NewSegment, Whole, takes_offset, write_snapshot};
use crate::log::salvage::{LeaderEpochs, Options, Writing};
use crate::log::segment::Segment;
use crate::log::segment::scan::{Damage, Fault, Scanner, Start, Step, Tail};
use crate::units::{LeaderEpoch, Offset, Position};

/// Pieces that are listed of one partition; more are counted.
const MAX_LISTED: usize = 10_000;

/// Copies what is sound of one partition; `progress` is told how many more bytes of the source were read.
///
/// # Errors
/// Those of reading the source, and of writing.
pub fn partition(job: &Job, options: &Options, progress: &dyn Fn(u64)) -> Result<PartitionReport, LogError> {
    let directory = (options.writing == Writing::Files).then(|| job.directory.clone());
    if let Some(directory) = &directory {
        durable::create_directory(directory)?;
    }
    let segments = job.partition.segments()?;
    let mut copier = Copier::new(job, *options, directory);
    for segment in segments.iter() {
        copier.segment(segment, progress)?;
    }
    copier.finish(segments.last())
}

/// A segment that is read.
struct ReadSegment {
    name: String,
    base: Offset,
    modified: Option<SystemTime>,
    limits: Limits,
}

/// Where in the source a batch is.
struct Place<'a> {
    source: &'a ReadSegment,
    position: Position,
}

/// Which side failed.
#[derive(Debug)]
enum Failed {
    Read(std::io::Error),
    Write(LogError),
}

impl From<LogError> for Failed {
    fn from(error: LogError) -> Self {
        Self::Write(error)
    }
}

/// The state of one partition's copy.
struct Copier<'a> {
    job: &'a Job,
    options: Options,
    directory: Option<PathBuf>,
    small: Small,
    producers: Producers,
    epochs: EpochRecovery,
    current: Option<NewSegment>,
    /// The bases of the first and of the last segment that was begun.
    bases: Option<(Offset, Offset)>,
    /// The offset of the last snapshot.
    snapshot_at: Option<Offset>,
    /// The offset after the last batch that was kept.
    end: Offset,
    /// Which of `left` goes on to the next batch, wherever that begins.
    unbounded: Option<usize>,
    /// Whether a log that may have no gap has come to one.
    ended: bool,
    kept: Kept,
    left: Vec<Left>,
    more_left: (u64, u64),
    notes: Vec<String>,
    decoder: Decoder,
}

impl<'a> Copier<'a> {
    fn new(job: &'a Job, options: Options, directory: Option<PathBuf>) -> Self {
        let mut small = Small::read(&job.partition);
        Self {
            job,
            options,
            directory,
            epochs: EpochRecovery::new(match options.leader_epochs {
                LeaderEpochs::Keep => small.epochs(),
                LeaderEpochs::Reset => Epochs::default(),
            }),
            snapshot_at: None,
            producers: Producers::default(),
            current: None,
            bases: None,
            end: Offset(0),
            unbounded: None,
            ended: false,
            kept: Kept::default(),
            left: std::mem::take(&mut small.left),
            more_left: (0, 0),
            notes: notes(&job.partition, &mut small),
            small,
            decoder: Decoder::default(),
        }
    }

    fn segment(&mut self, segment: &Arc<Segment>, progress: &dyn Fn(u64)) -> Result<(), LogError> {
        let (file, len) = segment.open()?;
        let source = ReadSegment {
            name: segment.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            base: segment.base,
            modified: modified(segment),
            limits: segment.limits(),
        };
        self.read(&source, file, len, segment.start(), progress).map_err(|error| match error {
            Failed::Read(error) => segment.error(error),
            Failed::Write(error) => error,
        })
    }

    /// Copies the batches of one file; pages that the disk refuses are damage.
    fn read(
        &mut self,
        source: &ReadSegment,
        file: impl ReadAt,
        len: u64,
        start: Start,
        progress: &dyn Fn(u64),
    ) -> Result<(), Failed> {
        let file = Arc::new(Tolerant::new(file));
        let mut scanner = Scanner::new(Arc::clone(&file), len, start, source.limits);
        let mut read = 0;
        loop {
            match scanner.step().map_err(Failed::Read)? {
                Step::Batch { position, batch } => {
                    self.batch(&Place { source, position }, &batch)?;
                    read += batch.bytes.len() as u64;
                    progress(batch.bytes.len() as u64);
                }
                Step::Damage(damage) => self.damage(&source.name, &damage, &file.unreadable()),
                Step::End(tail) => {
                    self.tail(&source.name, &tail, &file.unreadable());
                    break;
                }
            }
        }
        if start.is_sealed() {
            self.bound(start.below);
        }
        progress(len.saturating_sub(read));
        Ok(self.close()?)
    }

    fn batch(&mut self, place: &Place<'_>, batch: &Batch<'_>) -> Result<(), LogError> {
        let contents = match Contents::of(batch, &mut self.decoder, &place.source.limits) {
            Ok(contents) => contents,
            Err(error) => {
                // A compressed message set keeps its first offset inside: it may be any that was to come.
                let unknown = self.end.max(place.source.base).min(batch.header.last_offset);
                self.leave(place, batch, batch.header.base_offset.unwrap_or(unknown), &error);
                return Ok(());
            }
        };
        let first = contents.first_offset;
        if self.ended {
            self.leave(place, batch, first, &"the metadata log may have no gap, and there is one before it");
        } else if first < self.end {
            let cause = format!("offsets below {} are kept already", self.end);
            self.leave(place, batch, first, &cause);
        } else if let Err(fault) = self.producers.check(&batch.header, &contents) {
            self.leave(place, batch, first, &fault);
        } else {
            self.keep(place, batch, &contents)?;
        }
        Ok(())
    }

    /// Appends a batch to the current segment, or to a new one.
    fn keep(&mut self, place: &Place<'_>, batch: &Batch<'_>, contents: &Contents) -> Result<(), LogError> {
        let header = &batch.header;
        let (first, last) = (contents.first_offset, header.last_offset);
        let epoch =
            header.leader_epoch.filter(|epoch| epoch.0 >= 0).map(|epoch| match self.options.leader_epochs {
                LeaderEpochs::Keep => epoch,
                LeaderEpochs::Reset => LeaderEpoch(0),
            });
        let stamped =
            epoch.filter(|epoch| header.leader_epoch != Some(*epoch)).map(|epoch| batch.stamped(epoch));
        let bytes = stamped.as_deref().unwrap_or(batch.bytes);
        let whole = Whole { bytes, first, last, max_timestamp: header.max_timestamp };
        self.bound(first);
        let mut segment = match self.current.take() {
            Some(segment) if segment.takes(&whole) => segment,
            Some(full) => {
                full.close()?;
                self.begin(first, place.source.modified)?
            }
            // A name above its first record (renamed by people) or too far below can't be kept.
            None if takes_offset(place.source.base, &whole) => {
                self.begin(place.source.base, place.source.modified)?
            }
            None => self.begin(first, place.source.modified)?,
        };
        segment.append(&whole)?;
        if let Ok(Some(aborted)) = self.producers.append(header, contents) {
            segment.abort(aborted);
        }
        self.current = Some(segment);
        if let Some(epoch) = epoch {
            self.epochs.append(epoch, first);
        }
        self.count(&whole, contents.records);
        Ok(())
    }

    fn count(&mut self, whole: &Whole<'_>, records: u64) {
        let kept = &mut self.kept;
        kept.batches += 1;
        kept.records += records;
        kept.bytes += whole.bytes.len() as u64;
        if kept.offsets.is_some() {
            kept.absent += u64::try_from(whole.first.0 - self.end.0).unwrap_or(0);
        }
        kept.offsets = Some((kept.offsets.map_or(whole.first, |(first, _)| first), whole.last));
        self.end = whole.last.next();
    }

    /// A new segment, and the snapshot that a roll leaves at its base; the first one has it from segments that are gone.
    fn begin(&mut self, base: Offset, modified: Option<SystemTime>) -> Result<NewSegment, LogError> {
        let is_known = self.recall(base);
        if is_known || self.bases.is_some() {
            self.snapshot(base)?;
        }
        self.bases = Some((self.bases.map_or(base, |(first, _)| first), base));
        self.kept.segments += 1;
        let builder = IndexBuilder::new(self.options.index_interval_bytes);
        NewSegment::create(self.directory.clone(), base, modified, builder)
    }

    /// Goes on with the source's own snapshot at `at`, if there is one, as Kafka's recovery does: it knows of batches and
    /// markers that compaction took away, or that are lost.
    fn recall(&mut self, at: Offset) -> bool {
        match self.small.snapshot_at(at) {
            Some(Ok(producers)) => {
                self.producers = producers;
                true
            }
            Some(Err(text)) => {
                self.notes.push(text);
                false
            }
            None => false,
        }
    }

    fn snapshot(&mut self, at: Offset) -> Result<(), LogError> {
        if at > self.snapshot_at.unwrap_or(Offset(0)) {
            if let Some(directory) = &self.directory {
                write_snapshot(directory, at, &self.producers)?;
            }
            self.snapshot_at = Some(at);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.current.take().map_or(Ok(()), NewSegment::close)
    }

    /// Leaves a batch out that is one, at its own offsets.
    fn leave(&mut self, place: &Place<'_>, batch: &Batch<'_>, first: Offset, cause: &dyn Display) {
        self.bound(first);
        let last = batch.header.last_offset;
        self.add_left(Left {
            file: place.source.name.clone(),
            position: place.position.0,
            bytes: batch.bytes.len() as u64,
            // What was kept before is not lost.
            offsets: (last >= self.end).then_some(Offsets { first: first.max(self.end), last: Some(last) }),
            cause: cause.to_string(),
        });
        self.ended |= self.may_have_no_gap();
    }

    fn damage(&mut self, file: &str, damage: &Damage, unreadable: &[Stretch]) {
        if let Fault::Swapped { .. } = damage.fault {
            // The batch itself is kept.
            self.notes.push(format!("{file} at {}: {}", damage.position, damage.fault));
            return;
        }
        self.bound(damage.expected);
        self.add_left(Left {
            file: file.to_owned(),
            position: damage.position.0,
            bytes: damage.len,
            offsets: Some(Offsets { first: damage.expected.max(self.end), last: None }),
            cause: error_in(damage, unreadable).unwrap_or_else(|| damage.fault.to_string()),
        });
        self.unbounded = self.left.len().checked_sub(1).filter(|_| self.more_left.0 == 0);
        self.ended |= self.may_have_no_gap();
    }

    fn tail(&mut self, file: &str, tail: &Tail, unreadable: &[Stretch]) {
        match tail {
            Tail::Clean => {}
            Tail::Zero(zeros) if error_in(zeros, unreadable).is_none() => self.notes.push(format!(
                "{file}: the last {} bytes, from {} on, are zeros: preallocated, or lost at a power failure",
                zeros.len, zeros.position
            )),
            Tail::Zero(damage) | Tail::Torn(damage) | Tail::Bad(damage) => {
                self.damage(file, damage, unreadable);
            }
        }
    }

    fn add_left(&mut self, left: Left) {
        if self.left.len() < MAX_LISTED {
            self.left.push(left);
        } else {
            self.more_left = (self.more_left.0 + 1, self.more_left.1 + left.bytes);
        }
    }

    /// Ends what was left before `next`, which is there.
    fn bound(&mut self, next: Offset) {
        let Some(left) = self.unbounded.take().and_then(|at| self.left.get_mut(at)) else { return };
        if let Some(offsets) = left.offsets {
            let last = next.plus(-1);
            left.offsets = (last >= offsets.first).then_some(Offsets { last: Some(last), ..offsets });
        }
    }

    /// Whether this is the log of a KRaft cluster's metadata, where each record builds on all those before it.
    fn may_have_no_gap(&self) -> bool {
        self.job.partition.name.topic == METADATA_TOPIC
    }

    fn finish(mut self, last: Option<&Arc<Segment>>) -> Result<PartitionReport, LogError> {
        self.carry_end(last)?;
        let (first_base, last_base) = self.bases.unwrap_or_default();
        let log_end = self.end.max(last_base);
        if self.snapshot_at != Some(log_end) {
            self.recall(log_end);
            self.snapshot(log_end)?;
        }
        self.note_lost_end(log_end);
        let known_start = self.job.partition.log_start()?;
        let log_start = self.checked_start(known_start, first_base, log_end);
        let epochs = self.epochs.finish(log_start, log_end);
        if let Some(directory) = &self.directory {
            self.small.write(directory, &epochs)?;
            durable::sync_directory(directory)?;
        }
        Ok(PartitionReport {
            partition: self.job.partition.name.clone(),
            source: self.job.partition.origin.path().to_owned(),
            directory: self.job.directory.clone(),
            kept: self.kept,
            log_start,
            log_end,
            high_watermark: self.job.partition.high_watermark().map(|mark| mark.min(log_end)),
            has_checkpoint: log_start > first_base,
            left: self.left,
            more_left: self.more_left,
            open: self.producers.open().collect(),
            notes: self.notes,
        })
    }

    /// An empty segment where the last one of the source has nothing that can be kept: its base is the log's end.
    fn carry_end(&mut self, last: Option<&Arc<Segment>>) -> Result<(), LogError> {
        let Some(last) = last else { return Ok(()) };
        let base = last.base.max(self.end);
        let is_there = self.bases.is_some_and(|(_, begun)| begun >= last.base);
        let is_behind_gap = self.ended && self.bases.is_some();
        if is_there || is_behind_gap {
            return Ok(());
        }
        self.begin(base, modified(last))?.close()
    }

    /// Notes that the log once went on: nothing that could be left is there of it.
    fn note_lost_end(&mut self, log_end: Offset) {
        let known = self.job.partition.high_watermark().max(self.small.last_snapshot());
        if let Some(known) = known.filter(|known| *known > log_end && self.unbounded.is_none()) {
            let text = format!(
                "the log went on to {known}, as its high watermark or a snapshot says: that end is lost"
            );
            self.notes.push(text);
        }
    }

    /// The log start, unless it is behind the end: a broker would delete all of such a log.
    fn checked_start(&mut self, start: Offset, first_base: Offset, log_end: Offset) -> Offset {
        if start > log_end {
            let text = format!(
                "log start {start} is behind the log end {log_end}: left out, a broker would delete all"
            );
            self.notes.push(text);
            return first_base;
        }
        start.max(first_base)
    }
}

/// The disk's error in the bytes of a damage, if it had one there.
fn error_in(damage: &Damage, unreadable: &[Stretch]) -> Option<String> {
    let (from, to) = (damage.position.0, damage.position.plus(damage.len).0);
    let stretch = unreadable.iter().find(|stretch| stretch.from < to && stretch.to > from)?;
    Some(format!("bytes {} to {} can't be read: {}", stretch.from, stretch.to, stretch.error))
}

/// What the partition and its small files have to tell beforehand.
fn notes(partition: &Partition, small: &mut Small) -> Vec<String> {
    let of_files = partition.notes().into_iter().map(|note| {
        let file = note.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{file}: {}", note.cause)
    });
    of_files.chain(std::mem::take(&mut small.notes)).collect()
}

/// The time of a segment's file, as it is stored.
fn modified(segment: &Segment) -> Option<SystemTime> {
    std::fs::symlink_metadata(&segment.path).and_then(|metadata| metadata.modified()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::hex;
    use crate::log::files::FilePool;
    use crate::log::partition::{Bounds, Origin};
    use crate::units::TopicPartition;

    /// A batch of two records, with this first offset, which its checksum leaves out.
    fn batch(first: i64) -> Vec<u8> {
        let mut bytes = hex("00000000000000050000004400000003025c40b3f900000000000100000000000003e8\
             00000000000003eaffffffffffffffffffffffffffff0000000210000000026b02760012000402010102026801");
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        bytes
    }

    /// A file of which a page can't be read.
    struct Disk {
        bytes: Vec<u8>,
        bad: std::ops::Range<u64>,
    }

    impl ReadAt for Disk {
        fn read_at(&self, buffer: &mut [u8], position: u64) -> std::io::Result<usize> {
            let from = usize::try_from(position).unwrap().min(self.bytes.len());
            let len = buffer.len().min(self.bytes.len() - from);
            if position < self.bad.end && position + len as u64 > self.bad.start {
                return Err(std::io::Error::from_raw_os_error(libc::EIO));
            }
            buffer[..len].copy_from_slice(&self.bytes[from..from + len]);
            Ok(len)
        }
    }

    /// The first offsets of what is kept of 200 batches of 80 bytes, and what is left.
    fn salvaged(bad: std::ops::Range<u64>) -> (Vec<i64>, Vec<Left>) {
        let directory = tempfile::tempdir().unwrap();
        let name = TopicPartition { topic: "t".to_owned(), partition: 0 };
        let origin = Origin::Directory(directory.path().to_owned());
        let pool = Arc::new(FilePool::new(std::num::NonZeroUsize::MIN));
        let limits = Limits::default();
        let partition = Partition::new(name, "0".to_owned(), origin, Bounds::default(), pool, limits);
        let out = directory.path().join("out");
        std::fs::create_dir(&out).unwrap();
        let job = Job { partition: Arc::new(partition), data_directory: 0, directory: out.clone() };
        let mut copier = Copier::new(&job, Options::default(), Some(out.clone()));
        let bytes: Vec<u8> = (0..200).flat_map(|number| batch(number * 2)).collect();
        let len = bytes.len() as u64;
        let base = Offset(0);
        let source = ReadSegment { name: "x.log".to_owned(), base, modified: None, limits };
        let start = Start::new(Position(0), base, Offset(i64::MAX));
        copier.read(&source, Disk { bytes, bad }, len, start, &|_| ()).unwrap();
        let log = std::fs::read(out.join("00000000000000000000.log")).unwrap();
        let first = |batch: &[u8]| i64::from_be_bytes(batch[..8].try_into().unwrap());
        (log.chunks(80).map(first).collect(), copier.left)
    }

    #[test]
    fn pages_that_cant_be_read_are_left_and_all_else_is_kept() {
        let (kept, left) = salvaged(4096..8192);
        // Batches 51 (at 4080) to 102 (to 8240) are in them, in part or whole.
        let expected: Vec<i64> = (0..51).chain(103..200).map(|number| number * 2).collect();
        assert_eq!(kept, expected);
        let offsets = Some(Offsets { first: Offset(102), last: Some(Offset(205)) });
        let [left] = &left[..] else { panic!("{left:?}") };
        assert_eq!((left.position, left.bytes, left.offsets), (4080, 8240 - 4080, offsets));
        assert!(left.cause.starts_with("bytes 4096 to 8192 can't be read: "), "{}", left.cause);
    }

    #[test]
    fn an_end_that_cant_be_read_is_no_preallocated_space() {
        let (kept, left) = salvaged(12_288..16_384);
        assert_eq!(kept.len(), 12_288 / 80);
        let offsets = left.iter().map(|left| left.offsets).collect::<Vec<_>>();
        assert_eq!(offsets, [Some(Offsets { first: Offset(306), last: None })]);
    }
}
