//! Segments that are read by several threads: each takes the next stretch of a log, checks its batches and works on them, and what it
//! has made of them is given on in the order of the log.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crate::format::batch::Batch;
use crate::log::LogError;
use crate::log::files::SourceFile;
use crate::log::segment::Segment;
use crate::log::segment::scan::{Scanner, Start, Step};
use crate::log::side_by_side::Crew;
use crate::log::upkeep::compaction::CompactionError;
use crate::log::upkeep::compaction::progress::{Discard, Progress};
use crate::units::{Offset, Position};

/// The most threads that read: each has a batch in memory, as it is stored and decoded.
const MOST_THREADS: usize = 4;
/// Bytes of entries that a thread takes at once. Of smaller stretches there are so many that threads spend their time waking each other.
const STRETCH: usize = 512 * 1024;

/// A sound batch.
#[derive(Debug)]
pub(super) struct Met<'a> {
    /// The number of its segment among those that are read.
    pub(super) number: usize,
    pub(super) segment: &'a Segment,
    /// Where it begins.
    pub(super) position: Position,
    pub(super) batch: Batch<'a>,
    /// What its transaction says of it.
    pub(super) discard: Discard,
}

/// What was made of a stretch of a segment.
#[derive(Debug)]
pub(super) struct Made<'a, R> {
    pub(super) segment: &'a Segment,
    /// Bytes of it that were read.
    pub(super) bytes: u64,
    /// Whether the segment ends there.
    pub(super) is_last: bool,
    pub(super) result: R,
}

/// Reads segments, the first one from near the offset `from` on. `work` makes a result of the batches of each stretch, with what each thread
/// has for itself; `take` gets the results in order, and what it leaves of them is used again.
///
/// # Errors
/// That of `take`, and of `work`, and why something can't be read: the first one in the log.
pub(super) fn read<W: Default, R: Default + Send>(
    (segments, from): (&[Arc<Segment>], Offset),
    progress: &mut Progress,
    work: impl Fn(&mut W, Met<'_>, &mut R) -> Result<(), CompactionError> + Sync,
    mut take: impl FnMut(&mut Made<'_, R>) -> Result<ControlFlow<()>, CompactionError> + Send,
) -> Result<(), CompactionError> {
    progress.begin_again();
    let mut cutter = Cutter { segments, from, number: 0, open: None, progress };
    let threads = Crew::of_all_processors().threads.min(MOST_THREADS);
    let crew = Crew { threads, waiting: 2 * threads + 2 };
    let used = Mutex::new(Vec::new());
    let read = crew.in_order(
        || Worker { scanner: None, own: W::default() },
        |worker: &mut Worker<W>| cutter.next(&mut worker.scanner).transpose(),
        |worker, stretch: Result<Stretch<'_>, LogError>| {
            let stretch = stretch?;
            let mut result = used.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            let (segment, is_last) = (stretch.segment, stretch.is_last);
            let bytes = worker.go_through(stretch, &work, &mut result)?;
            Ok(Made { segment, bytes, is_last, result })
        },
        |made: Result<Made<'_, R>, CompactionError>| {
            let mut made = made.map_err(Ended::Failed)?;
            let next = take(&mut made).map_err(Ended::Failed)?;
            used.lock().unwrap_or_else(PoisonError::into_inner).push(made.result);
            if next.is_break() { Err(Ended::Enough) } else { Ok(()) }
        },
    );
    match read {
        Ok(()) | Err(Ended::Enough) => Ok(()),
        Err(Ended::Failed(error)) => Err(error),
    }
}

/// Why no more is read.
enum Ended {
    Enough,
    Failed(CompactionError),
}

/// Whole entries of a segment that lie behind one another.
struct Stretch<'a> {
    number: usize,
    segment: &'a Segment,
    end: Position,
    is_last: bool,
    /// Of each entry.
    discards: Vec<Discard>,
}

/// Cuts segments into stretches, and sees all batches in order.
struct Cutter<'a> {
    segments: &'a [Arc<Segment>],
    from: Offset,
    /// The number of the next stretch's segment.
    number: usize,
    /// That segment, if it is open, its length then, and where the stretch begins.
    open: Option<(Arc<SourceFile>, u64, Start)>,
    progress: &'a mut Progress,
}

impl<'a> Cutter<'a> {
    /// The next stretch; a thread's own scanner stands at its beginning then. Nothing comes behind an error.
    fn next(&mut self, own: &mut Option<OwnScanner>) -> Result<Option<Stretch<'a>>, LogError> {
        let Some(segment) = self.segments.get(self.number) else { return Ok(None) };
        let stretch = self.cut(segment, own);
        match &stretch {
            Ok(stretch) if stretch.is_last => {
                self.progress.end_segment();
                (self.number, self.open) = (self.number + 1, None);
            }
            Ok(_) => {}
            Err(_) => self.number = self.segments.len(),
        }
        stretch.map(Some)
    }

    fn cut(
        &mut self,
        segment: &'a Arc<Segment>,
        own: &mut Option<OwnScanner>,
    ) -> Result<Stretch<'a>, LogError> {
        let (file, len, at) = match self.open.take() {
            Some(open) => open,
            None => {
                let (file, len) = segment.open()?;
                let is_near = segment.base < self.from;
                (file, len, if is_near { segment.start_near(self.from)? } else { segment.start() })
            }
        };
        let number = self.number;
        own.take_if(|own| own.number != number);
        let new = || OwnScanner { number, scanner: segment.scanner(file.clone(), len, at) };
        let scanner = &mut own.get_or_insert_with(new).scanner;
        scanner.go_to(at);
        let mut discards = Vec::new();
        let skimmed = scanner.skim(STRETCH, |batch| discards.push(self.progress.see(segment, batch)));
        let end = skimmed.map_err(|error| segment.error(error))?;
        let discards = discards.into_iter().collect::<Result<_, _>>()?;
        self.open = Some((file, len, end));
        Ok(Stretch { number, segment, end: end.position, is_last: end.position.0 >= len, discards })
    }
}

/// What a thread has for itself.
struct Worker<W> {
    scanner: Option<OwnScanner>,
    own: W,
}

/// Its scanner of the segment with this number.
struct OwnScanner {
    number: usize,
    scanner: Scanner<Arc<SourceFile>>,
}

impl<W> Worker<W> {
    /// How many bytes that were.
    fn go_through<R>(
        &mut self,
        stretch: Stretch<'_>,
        work: impl Fn(&mut W, Met<'_>, &mut R) -> Result<(), CompactionError>,
        result: &mut R,
    ) -> Result<u64, CompactionError> {
        let Stretch { number, segment, end, discards, .. } = stretch;
        let Some(OwnScanner { scanner, .. }) = &mut self.scanner else { return Ok(0) };
        let begin = scanner.at().position;
        let mut discards = discards.into_iter();
        while scanner.at().position < end {
            match scanner.step().map_err(|error| segment.error(error))? {
                Step::Batch { position, batch } => {
                    let changed = || LogError::Stale { path: segment.path.clone() };
                    let discard = discards.next().ok_or_else(changed)?;
                    work(&mut self.own, Met { number, segment, position, batch, discard }, result)?;
                }
                other => return Err(damaged(segment, &other)),
            }
        }
        Ok(end.0.saturating_sub(begin.0))
    }
}

fn damaged(segment: &Segment, step: &Step<'_>) -> CompactionError {
    let damage = match step {
        Step::Damage(damage) => Some(damage),
        Step::End(tail) => tail.damage(),
        Step::Batch { .. } => None,
    };
    CompactionError::Damaged {
        path: segment.path.clone(),
        position: damage.map_or(Position(0), |damage| damage.position),
        cause: damage.map(|damage| damage.fault.to_string()).unwrap_or_default(),
    }
}
