//! Which records `read_committed` hides (KIP-98): those of aborted transactions, and all from the last stable offset on.
//!
//! | module | what |
//! |---|---|
//! | [`events`] | what batches do to transactions |
//! | [`decided`] | the transactions at one moment |
//! | `scanned` | those of one segment, which the cache keeps |
//! | `carried` | those that began before the log's first segment |

mod carried;
pub mod decided;
pub mod events;
mod scanned;

use std::sync::{Arc, Mutex, PoisonError};

pub use carried::open_at_end;
pub use decided::{Aborted, Decided, OpenTxn};

use crate::log::LogError;
use crate::log::partition::Partition;
use crate::log::segment::scan::Start;
use crate::log::segment::{Segment, SegmentUid};
use crate::log::sidecar::Sidecars;
use crate::log::transactions::scanned::Scanned;

/// The transactions of one partition, followed as it grows.
#[derive(Debug, Default)]
pub struct Transactions {
    state: Mutex<State>,
}

/// How far the scan is.
#[derive(Debug, Default)]
struct State {
    decided: Arc<Decided>,
    at: Option<(SegmentUid, Start)>,
}

impl Transactions {
    /// Whether a scan was made, so that the next one is short.
    pub fn is_known(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).at.is_some()
    }

    /// The transactions of `partition` as they are now. A scan is continued where the last one ended; what sealed segments hold
    /// is kept in the cache.
    ///
    /// # Errors
    /// Those of reading.
    pub fn decided(
        &self,
        partition: &Partition,
        sidecars: Option<&Sidecars>,
    ) -> Result<Arc<Decided>, LogError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // An older listing than the one that the state is of would not have its segment.
        let segments = partition.segments()?;
        let resume = state.at.and_then(|(uid, start)| {
            segments.iter().position(|segment| segment.uid == uid).map(|index| (index, start))
        });
        let Some((index, start)) = resume else {
            let mut decided = segments.first().map(|first| Decided::before(first)).unwrap_or_default();
            let at = follow(&mut decided, &segments, sidecars)?;
            *state = State { decided: Arc::new(decided), at };
            return Ok(state.decided.clone());
        };
        let (Some(segment), later) = (segments.get(index), segments.get(index + 1..).unwrap_or_default())
        else {
            return Ok(state.decided.clone());
        };
        let (scanned, _) = scanned::from(segment, Start { below: segment.below(), ..start })?;
        if scanned.at.position != start.position || !later.is_empty() {
            let mut decided = Decided::clone(&state.decided);
            apply(&mut decided, segment, &scanned);
            let at = follow(&mut decided, later, sidecars)?.unwrap_or((segment.uid, scanned.at));
            *state = State { decided: Arc::new(decided), at: Some(at) };
        }
        Ok(state.decided.clone())
    }
}

/// Takes whole segments in; where the last scan ended.
fn follow(
    decided: &mut Decided,
    segments: &[Arc<Segment>],
    sidecars: Option<&Sidecars>,
) -> Result<Option<(SegmentUid, Start)>, LogError> {
    let mut at = None;
    for segment in segments {
        let scanned = scanned::whole(segment, sidecars)?;
        apply(decided, segment, &scanned);
        at = Some((segment.uid, scanned.at));
    }
    Ok(at)
}

fn apply(decided: &mut Decided, segment: &Segment, scanned: &Scanned) {
    scanned.events.iter().for_each(|event| decided.apply(&event));
    decided.scanned_to = scanned.at.expected.max(segment.base);
}
