//! Files of a Kafka data directory, read as Kafka's loader and readers read them.
//!
//! All file I/O on the source is here: opening (read-only, `O_NOATIME` where allowed), scanning past damage,
//! looking offsets up, and noticing that a broker has appended, rolled, deleted or cut. Knows nothing of FUSE,
//! inodes, rendering or errno.
//!
//! | module | what |
//! |---|---|
//! | [`source`] | all topics and partitions of what the user named |
//! | `roots` | what each part of SOURCE is: a data directory, a partition, a segment |
//! | [`partition`] | one replica: its segments, bounds and transactions as they are now |
//! | [`segment`] | one `.log` with its index as a hint |
//! | [`scan`] | batch after batch, and where reading resumes behind damage |
//! | `window` | the part of a file that such a scan has in memory |
//! | [`problem`] | what can be wrong with a source, and the closed list of its kinds |
//! | [`verify`] | everything checked: each batch, index, snapshot, checkpoint and name |
//! | [`transactions`] | which records `read_committed` hides |
//! | [`sidecar`] | what was measured of a file, kept outside the source |
//! | [`files`] | descriptors: a bounded pool, identity, `O_NOATIME` |

pub mod checkpoints;
pub mod error;
pub mod files;
pub mod partition;
pub mod problem;
mod roots;
pub mod scan;
pub mod segment;
pub mod sidecar;
pub mod source;
pub mod sys;
pub mod transactions;
pub mod verify;
mod window;

pub use error::LogError;
