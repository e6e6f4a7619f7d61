//! Salvage: what is sound of a source, written as clean data directories that a broker loads.
//!
//! Whole sound batches are copied byte for byte, in the order of their offsets; everything that can be made from them (indexes,
//! producer snapshots, leader epochs) is made anew, by the rules of Kafka's own recovery, so that a broker that verifies what it
//! loads and one that doesn't come to the same. A batch is sound when the scanner says so, all its records can be decoded, and
//! Kafka's loader takes it where it is. The source is only read.
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | which partitions go where, and which are left out |
//! | [`copy`] | one partition, batch after batch |
//! | `segments` | the segments that are written, with their indexes |
//! | `files` | what is kept of the small files: metadata, checkpoints |
//! | [`report`] | what was kept and what was not |
//!
//! What is written in a data directory, and why:
//!
//! - `log-start-offset-checkpoint` with the log starts that the source knew, so that deleted records stay deleted.
//! - `replication-offset-checkpoint` with its high watermarks, never above the log's end: a broker raises them by itself as soon as
//!   its replicas have the records, and must never see one that promises more.
//! - No `recovery-point-offset-checkpoint` and no `.kafka_cleanshutdown`: a broker that starts on the directory checks all of
//!   it. Where there is a marker, as in another broker's directory that gets one of these partitions, nothing is checked, which
//!   the indexes and snapshots are right for.
//! - No `cleaner-offset-checkpoint`: the cleaner begins at the log start.

pub mod copy;
mod files;
pub mod plan;
pub mod report;
mod segments;

use crate::log::derived::indexing::DEFAULT_INTERVAL_BYTES;

/// Whether anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// All of it.
    Files,
    /// Nothing: the report says what would be.
    Nothing,
}

/// What becomes of the leader epochs in the batches, which no checksum covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaderEpochs {
    /// They stay: batches are copied byte for byte.
    Keep,
    /// All become 0. A topic that was made anew counts its epochs from 0, and its followers don't take batches of higher ones.
    Reset,
}

/// How to salvage.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The topics' `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// What becomes of the leader epochs.
    pub leader_epochs: LeaderEpochs,
    /// Whether anything is written.
    pub writing: Writing,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            index_interval_bytes: DEFAULT_INTERVAL_BYTES,
            leader_epochs: LeaderEpochs::Keep,
            writing: Writing::Files,
        }
    }
}
