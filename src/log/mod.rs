//! Files of a Kafka data directory, read as Kafka's loader and readers read them.
//!
//! All file I/O on the source is here: opening (read-only, `O_NOATIME` where allowed), scanning past damage,
//! looking offsets up, and noticing that a broker has appended, rolled, deleted or cut. Knows nothing of FUSE,
//! inodes, rendering or errno.
//!
//! | module | what |
//! |---|---|
//! | [`source`] | all topics and partitions of what the user named |
//! | [`cluster`] | topics' ids and configs, as the cluster's metadata and the broker's own file have them |
//! | [`partition`] | one replica: its segments, bounds and transactions as they are now |
//! | [`segment`] | one `.log` with its index as a hint, and all ways to read it |
//! | [`files`] | source files: opened without a trace, identified, read and pooled |
//! | [`problem`] | what can be wrong with a source, and the closed list of its kinds |
//! | [`verify`] | everything checked: each batch, index, snapshot, checkpoint and name |
//! | [`keys`] | which batches have a key |
//! | [`transactions`] | which records `read_committed` hides, by the log, snapshots and transaction indexes |
//! | [`bounded`] | caches that take no memory before they hold something |
//! | [`watch`], [`signal`] | changes of a source, noticed at once |
//! | [`touches`] | which logs were written to since somebody looked |
//! | [`side_by_side`] | work by several threads, with the results in order |
//! | [`counter`] | what is counted for `.topicfs/metrics` |
//! | [`sidecar`] | what was measured of a file, kept outside the source |
//! | [`glance`] | what a partition looks like, at little cost |
//! | [`moment`] | one look at the source for all of a request |
//! | [`manifest`] | what each file of a source is: checksum, times, and what a segment holds |
//! | [`append`] | writing: a directory that is ours, its partitions, and their recovery |
//! | [`derived`] | what is made from batches: indexes, producer state, leader epochs |
//! | [`diff`] | two copies of a partition, compared |
//! | [`salvage`] | what is sound, written as clean data directories |
//! | [`upkeep`] | logs that grow old: what goes, what stays, and what is cut |

pub mod append;
pub mod bounded;
pub mod cluster;
pub mod counter;
pub mod derived;
pub mod diff;
pub mod error;
pub mod files;
pub mod glance;
pub mod keys;
pub mod manifest;
pub mod moment;
pub mod partition;
pub mod problem;
pub mod salvage;
pub mod segment;
pub mod side_by_side;
pub mod sidecar;
pub mod signal;
pub mod source;
pub mod touches;
pub mod transactions;
pub mod upkeep;
pub mod verify;
pub mod watch;

pub use error::LogError;
