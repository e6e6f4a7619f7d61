//! What the fuzz targets check, without libFuzzer: `fuzz_targets/` has one small program for each function of [`targets`].
//!
//! Each check takes any bytes, returns, or panics where an invariant is broken. See `README.md` for the invariants.

pub mod archive;
pub mod codecs;
pub mod damage;
pub mod memory;
pub mod oracle;
pub mod seeds;
pub mod targets;
pub mod tree;

use topicfs::format::batch::Limits;

/// Small limits, so that inputs of a few kilobytes reach them.
pub const LIMITS: Limits = Limits { max_batch_bytes: 64 << 10, max_decoded_bytes: 256 << 10 };

/// What decoding one batch may take: the buffer and its copy at the limit, and a codec's state.
pub const MEMORY: usize = 1 << 20;
