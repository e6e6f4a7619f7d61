//! topicfs: a Kafka data directory as plain files.
//!
//! The layers, each importing only from those to its right (`tests/tidy.rs` checks it):
//!
//! ```text
//! main -> cli -> config, mount -> fuse -> fs -> view -> log -> format -> units
//! ```

pub mod cli;
pub mod config;
pub mod format;
pub mod fs;
pub mod fuse;
pub mod log;
pub mod mount;
pub mod units;
pub mod view;
