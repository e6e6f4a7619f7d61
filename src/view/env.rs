//! What measuring and rendering need besides a segment.

use crate::format::batch::Batch;
use crate::log::transactions::Decided;
use crate::units::Offset;
use crate::view::format::Renderer;
use crate::view::problems::Problems;
use crate::view::shared::Shared;

/// What measuring and rendering need besides the segment.
#[derive(Debug, Clone, Copy)]
pub struct Env<'a> {
    /// Pools and caches.
    pub shared: &'a Shared,
    /// The partition's renderer.
    pub renderer: &'a Renderer,
    /// Where damage is noted.
    pub problems: &'a Problems,
    /// Whether reading keeps to the rate that measuring is allowed.
    pub paced: bool,
    /// Under `read_committed`: the decided transactions.
    pub decided: Option<&'a Decided>,
}

impl Env<'_> {
    /// Whether a batch's records are for readers.
    pub fn is_visible(&self, batch: &Batch<'_>) -> bool {
        let header = &batch.header;
        if header.is_control {
            return false;
        }
        let (Some(decided), Some(producer)) = (self.decided, header.producer_id) else { return true };
        let first = header.first_known();
        !(header.is_transactional && decided.is_aborted(producer, first))
    }

    /// The offset at which the view ends for now.
    pub fn bound(&self) -> Offset {
        self.decided.map_or(Offset(i64::MAX), Decided::last_stable)
    }
}
