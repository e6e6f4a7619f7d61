//! What a segment shows as a whole: how many records, and of which times. Measuring tells it; of a sealed segment it is kept with the
//! segment, so that whoever looks for one record among thousands of segments loads no measurement of those that it skips.

use std::sync::{Arc, OnceLock};

use crate::log::segment::Segment;
use crate::log::segment::facts::{Facts, Shown};
use crate::view::env::Env;
use crate::view::partition_view::PartitionView;
use crate::view::run::Run;

impl PartitionView {
    /// What a segment shows; `None` if it isn't measured to its end.
    pub(super) fn shown(&self, env: &Env<'_>, segment: &Arc<Segment>) -> Option<Shown> {
        if let Some(shown) = known(env, segment) {
            return Some(shown);
        }
        if !segment.is_at_hand() {
            return None;
        }
        note(env, segment, &self.run(env, segment))
    }
}

/// What a sealed segment shows, if it is known.
pub(super) fn known(env: &Env<'_>, segment: &Segment) -> Option<Shown> {
    segment.facts().and_then(|facts| place(env, facts).get().copied())
}

/// What a segment shows by its measured run, if that is complete; kept with the segment if it is so for good.
pub(super) fn note(env: &Env<'_>, segment: &Segment, run: &Run) -> Option<Shown> {
    // Asked first: it may be written to and sealed meanwhile. Of what lies behind an open transaction nothing is known yet.
    let facts = segment.facts().filter(|_| segment.below() <= env.bound());
    if !run.is_whole() || !run.is_complete(env, None) {
        return None;
    }
    let shown = run.shown();
    if let Some(facts) = facts.filter(|_| !run.ends_damaged()) {
        let _ = place(env, facts).set(shown);
    }
    Some(shown)
}

/// Where it is kept: with the records of aborted transactions, or without.
const fn place<'a>(env: &Env<'_>, facts: &'a Facts) -> &'a OnceLock<Shown> {
    if env.decided.is_some() { &facts.committed } else { &facts.all }
}
