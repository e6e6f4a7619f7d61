//! Segments that are read ahead: one thread reads and checks batches, while another works on those that were read.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use crate::format::batch::{Batch, Header};
use crate::log::LogError;
use crate::log::segment::Segment;
use crate::log::segment::scan::{Step, Tail};
use crate::log::upkeep::compaction::CompactionError;
use crate::units::{Offset, Position};

/// Bytes of batches that are handed over at once; one batch may be more.
const PIECE: usize = 1024 * 1024;
/// How many pieces may wait.
const AHEAD: usize = 4;

/// What is met in a segment.
pub(super) enum Event<'a> {
    /// A sound batch, and where it begins.
    Batch(Position, Batch<'a>),
    /// Its end.
    End,
}

/// Whether more is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Yes.
    Go,
    /// No.
    Stop,
}

/// Some batches of a segment.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    batches: Vec<(Position, Range<usize>, Header)>,
}

/// What the reader hands over: of the segment with that number, `None` at its end.
type Handed = Result<(usize, Option<Piece>), CompactionError>;

/// Reads segments in order, the first one from near the offset `from` on, and gives all that is met to `take`.
///
/// # Errors
/// That of `take`, and why something can't be read.
pub(super) fn read(
    segments: &[Arc<Segment>],
    from: Offset,
    mut take: impl FnMut(&Segment, Event<'_>) -> Result<Next, CompactionError>,
) -> Result<(), CompactionError> {
    std::thread::scope(|scope| {
        let (hand_over, handed) = sync_channel(AHEAD);
        let (give_back, free) = channel();
        let ahead = move || {
            if let Err(error) = (Reader { hand_over: &hand_over, free: &free }).read(segments, from) {
                // Nobody may be there any more.
                let _ = hand_over.send(Err(error));
            }
        };
        let thread = std::thread::Builder::new().name("read-ahead".to_owned()).spawn_scoped(scope, ahead);
        thread.map_err(|source| LogError::Io {
            path: "read-ahead".into(),
            action: "start a thread",
            source,
        })?;
        for handed in handed {
            let (number, piece) = handed?;
            let Some(segment) = segments.get(number) else { break };
            let next = match piece {
                Some(piece) => {
                    let next = piece.give(segment, &mut take)?;
                    let _ = give_back.send(piece);
                    next
                }
                None => take(segment, Event::End)?,
            };
            if next == Next::Stop {
                break;
            }
        }
        Ok(())
    })
}

struct Reader<'a> {
    hand_over: &'a SyncSender<Handed>,
    /// Pieces that can be used again.
    free: &'a Receiver<Piece>,
}

impl Reader<'_> {
    fn read(&self, segments: &[Arc<Segment>], from: Offset) -> Result<(), CompactionError> {
        for (number, segment) in segments.iter().enumerate() {
            let start = if segment.base < from { segment.start_near(from)? } else { segment.start() };
            let mut scanner = segment.scan(start)?;
            let mut piece = self.piece();
            loop {
                match scanner.step().map_err(|error| segment.error(error))? {
                    Step::Batch { position, batch } => {
                        piece.add(position, &batch);
                        if piece.bytes.len() >= PIECE {
                            let full = std::mem::replace(&mut piece, self.piece());
                            if self.hand_over.send(Ok((number, Some(full)))).is_err() {
                                return Ok(());
                            }
                        }
                    }
                    Step::End(Tail::Clean) => break,
                    other => return Err(damaged(segment, &other)),
                }
            }
            for handed in [Some(piece), None] {
                if self.hand_over.send(Ok((number, handed))).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn piece(&self) -> Piece {
        let mut piece = self.free.try_recv().unwrap_or_default();
        piece.bytes.clear();
        piece.batches.clear();
        piece
    }
}

impl Piece {
    fn add(&mut self, position: Position, batch: &Batch<'_>) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(batch.bytes);
        self.batches.push((position, from..self.bytes.len(), batch.header));
    }

    fn give(
        &self,
        segment: &Segment,
        take: &mut impl FnMut(&Segment, Event<'_>) -> Result<Next, CompactionError>,
    ) -> Result<Next, CompactionError> {
        for (position, range, header) in &self.batches {
            let bytes = self.bytes.get(range.clone()).unwrap_or_default();
            if take(segment, Event::Batch(*position, Batch { bytes, header: *header }))? == Next::Stop {
                return Ok(Next::Stop);
            }
        }
        Ok(Next::Go)
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
