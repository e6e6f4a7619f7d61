//! What reading came to since the mount began, counted where it happens.

use std::time::Duration;

use crate::log::counter::Counter;

/// What all partitions of a mount count.
#[derive(Debug, Default)]
pub struct Counts {
    /// How often a batch was decoded.
    pub decoded_batches: Counter,
    /// The bytes of the records in these, without a codec.
    pub decoded_bytes: Counter,
    /// Blocks that were rendered.
    pub rendered_blocks: Counter,
    /// How often a block that was asked for was kept, or being rendered by another thread.
    pub rendered_hits: Counter,
    /// Bytes that records were rendered to.
    pub rendered_bytes: Counter,
    /// Source bytes of the blocks that were measured.
    pub measured_bytes: Counter,
    /// How long that took, in nanoseconds.
    pub measured_ns: Counter,
    /// Segments whose measurement was found in the cache.
    pub measurements_loaded: Counter,
    /// How often a measurement was saved there.
    pub measurements_saved: Counter,
    /// Source bytes scanned for indexes by key.
    pub indexed_bytes: Counter,
}

impl Counts {
    /// Counts what a decoder says that it has decoded.
    pub fn decoded(&self, (batches, bytes): (u64, u64)) {
        self.decoded_batches.add(batches);
        self.decoded_bytes.add(bytes);
    }

    /// Counts a block that was rendered to so many bytes.
    pub fn rendered(&self, bytes: usize) {
        self.rendered_blocks.add(1);
        self.rendered_bytes.add(bytes as u64);
    }

    /// Counts so many source bytes that were measured, and the time that it took.
    pub fn measured(&self, bytes: u64, took: Duration) {
        self.measured_bytes.add(bytes);
        self.measured_ns.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}
