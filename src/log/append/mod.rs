//! Writing logs, as a broker writes them: locks, batches, segments, and what an unclean stop leaves.
//!
//! | module | what |
//! |---|---|
//! | [`owned`] | a data directory that is ours: opened, checkpointed, closed |
//! | [`lock`] | the lock on it, which a broker respects |
//! | [`written_down`] | its checkpoints and its mark of a clean stop |
//! | [`appender`] | one partition that is appended to |
//! | `active` | the segment that is appended to |
//! | [`config`] | how a log is written, by Kafka's names |
//! | [`recovery`] | what an unclean stop has left, and what is done about it |
//! | [`topics`] | topics that are made and removed |
//! | `resume`, `replay` | where a log goes on; the producers and epochs that its batches tell of |
//! | `kept` | what is taken from a log, kept elsewhere |

pub(in crate::log) mod active;
pub mod appender;
pub mod config;
pub(in crate::log) mod kept;
pub mod lock;
pub mod owned;
pub mod recovery;
pub(in crate::log) mod replay;
mod resume;
pub mod topics;
pub mod written_down;

use std::time::{SystemTime, UNIX_EPOCH};

use crate::units::Timestamp;

/// The time of appending.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
