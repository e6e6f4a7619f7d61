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

/// A target: its name, its check, and the longest input that is worth its time.
pub type Target = (&'static str, fn(&[u8]), usize);

/// All targets, each also a program in `fuzz_targets/`.
pub const TARGETS: [Target; 26] = [
    ("batch", targets::batch::check, 512),
    ("message_set", targets::message_set::check, 512),
    ("gzip", targets::compressed::gzip, 512),
    ("snappy", targets::compressed::snappy, 512),
    ("lz4", targets::compressed::lz4, 512),
    ("zstd", targets::compressed::zstd, 512),
    ("offset_index", targets::indexes::offset_index, 256),
    ("time_index", targets::indexes::time_index, 256),
    ("txn_index", targets::indexes::txn_index, 256),
    ("snapshot", targets::small_files::producer_snapshot, 512),
    ("offset_checkpoint", targets::small_files::offset_checkpoint, 256),
    ("leader_epochs", targets::small_files::leader_epochs, 128),
    ("properties", targets::small_files::properties, 128),
    ("topic_id", targets::small_files::topic_id, 64),
    ("uuid", targets::small_files::uuid, 64),
    ("control", targets::small_files::control, 64),
    ("metadata_record", targets::small_files::metadata_record, 128),
    ("disk_names", targets::grammars::disk_names, 128),
    ("by_offset", targets::grammars::by_offset, 64),
    ("by_key", targets::grammars::by_key, 256),
    ("paths", targets::grammars::paths, 64),
    ("config_yaml", targets::config::yaml, 256),
    ("config_words", targets::config::words, 64),
    ("template", targets::template::check, 128),
    ("append_lines", targets::append_lines::check, 256),
    ("directory", targets::directory::check, 8192),
];
