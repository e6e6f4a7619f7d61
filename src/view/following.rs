//! Records as they come, as the bytes of a file that never ends: of one partition, or of several, merged by time as far as they are there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::units::Offset;
use crate::view::follower::{Follower, More};
use crate::view::format::Format;
use crate::view::partition_view::{PartitionView, ViewError};
use crate::view::passing::Filter;
use crate::view::rendered::Rendered;

/// The end of a stream that one reader has open.
#[derive(Debug)]
pub struct Following {
    committed: bool,
    format: Format,
    filter: Filter,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    sources: Vec<Source>,
    /// The rest of a record that was too long for a read.
    left: Vec<u8>,
}

/// One partition.
#[derive(Debug)]
struct Source {
    follower: Follower,
    /// Records that were found and not given.
    found: Option<Rendered>,
}

/// What a read found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Bytes.
    Some,
    /// None so far; there may be some further on.
    NotYet,
    /// None; some may come.
    Nothing,
}

impl Following {
    /// The records that pass a filter, of no partition yet.
    pub fn new(committed: bool, format: Format, filter: Filter) -> Self {
        Self { committed, format, filter, state: Mutex::default() }
    }

    /// Adds a partition's records from an offset on.
    pub fn add(&self, view: Arc<PartitionView>, next: Offset) {
        let follower = Follower::new(view, self.committed, self.format, self.filter.clone(), next);
        self.lock().sources.push(Source { follower, found: None });
    }

    /// Appends up to `len` bytes to `out`, whole records as far as they fit.
    ///
    /// # Errors
    /// Those of [`Follower::look`], once all that was found before is given.
    pub fn read(&self, len: usize, out: &mut Vec<u8>) -> Result<Found, ViewError> {
        let mut state = self.lock();
        let goal = out.len().saturating_add(len);
        let begun = out.len();
        let now = state.left.len().min(len);
        let rest = state.left.split_off(now);
        out.append(&mut state.left);
        state.left = rest;
        while state.left.is_empty() && out.len() < goal {
            match state.find() {
                Ok(Found::Some) => {}
                _ if out.len() > begun => break,
                other => return other,
            }
            if !state.give(goal, out, begun) {
                break;
            }
        }
        Ok(Found::Some)
    }

    /// Whether a read would find something, or fail: whether it would not wait.
    pub fn is_ready(&self) -> bool {
        let mut state = self.lock();
        !state.left.is_empty() || !matches!(state.find(), Ok(Found::Nothing))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Looks for records of all partitions that have none at hand.
    fn find(&mut self) -> Result<Found, ViewError> {
        let (mut found, mut failed) = (Found::Nothing, None);
        for source in &mut self.sources {
            if source.found.as_ref().is_some_and(|found| found.head().is_some()) {
                found = Found::Some;
                continue;
            }
            match source.follower.look() {
                Ok(More::Records(records)) => {
                    source.found = Some(records);
                    found = Found::Some;
                }
                Ok(More::NotYet) if found == Found::Nothing => found = Found::NotYet,
                Ok(More::NotYet | More::Nothing) => source.found = None,
                Err(error) => failed = Some(error),
            }
        }
        // What is there is given first.
        match (found, failed) {
            (Found::Some, _) => Ok(Found::Some),
            (_, Some(error)) => Err(error),
            (found, None) => Ok(found),
        }
    }

    /// Gives the earliest of the records at hand, if it fits or is the first; whether it did.
    fn give(&mut self, goal: usize, out: &mut Vec<u8>, begun: usize) -> bool {
        let head =
            |source: &Source| source.found.as_ref().and_then(Rendered::head).map(|head| head.timestamp);
        let heads = self.sources.iter().enumerate();
        let earliest = heads.filter_map(|(number, source)| Some((head(source)?, number))).min();
        let source = earliest.and_then(|(_, number)| self.sources.get_mut(number));
        let Some(found) = source.and_then(|source| source.found.as_mut()) else { return false };
        let room = goal.saturating_sub(out.len());
        if found.head_len() > room && out.len() > begun {
            return false;
        }
        let Some((_, bytes)) = found.take() else { return false };
        let (now, later) = bytes.split_at(bytes.len().min(room));
        out.extend_from_slice(now);
        self.left.extend_from_slice(later);
        true
    }
}
