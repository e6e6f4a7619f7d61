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
//! | [`tiered`] | the directories of a tiered store (KIP-405) |
//! | [`unpacked`] | segments that a backup tool has compressed |
//! | `archived` | segments under names that no broker gives its own |
//! | [`partition`] | one replica: its segments, bounds and transactions as they are now |
//! | [`segment`] | one `.log` with its index as a hint |
//! | [`suspects`] | batches that can be decoded, but are not to be trusted |
//! | `swaps` | what an interrupted compaction left, resolved as Kafka's loader does |
//! | [`scan`] | batch after batch, and where reading resumes behind damage |
//! | `ahead` | which of the batches behind damage belong where they are |
//! | [`entries`] | entry after entry as Kafka iterates a file, damaged or not |
//! | [`index_check`] | whether index entries lead look-ups to the right place |
//! | [`beside`] | the files of a segment that are compared with each other |
//! | `tolerant` | files on broken disks |
//! | `window` | the part of a file that such a scan has in memory |
//! | [`problem`] | what can be wrong with a source, and the closed list of its kinds |
//! | [`verify`] | everything checked: each batch, index, snapshot, checkpoint and name |
//! | [`times`], [`time_hint`] | when the records of a segment were written, by the headers of its batches; cheaply, for listings |
//! | [`keys`] | which batches have a key |
//! | [`transactions`] | which records `read_committed` hides, by the log, snapshots and transaction indexes |
//! | [`watch`], [`signal`] | changes of a source, noticed at once |
//! | [`sidecar`] | what was measured of a file, kept outside the source |
//! | [`glance`] | what a partition looks like, at little cost |
//! | [`heads`] | what the first bytes of a file tell of it |
//! | [`manifest`], [`hashing`] | what each file of a source is: checksum, times, and what a segment holds |
//! | [`indexing`], [`producers`], [`epochs`] | what is made from batches: indexes, producer state, leader epochs |
//! | [`durable`] | new files of a directory that is ours |
//! | [`salvage`] | what is sound, written as clean data directories |
//! | [`files`] | descriptors: a bounded pool, identity, `O_NOATIME` |
//! | [`page_cache`] | the system's page cache, of which reading fills no more than a share |

mod ahead;
mod archived;
pub mod beside;
pub mod checkpoints;
pub mod durable;
pub mod entries;
pub mod epochs;
pub mod error;
pub mod files;
pub mod glance;
pub mod hashing;
pub mod heads;
pub mod index_check;
pub mod indexing;
pub mod keys;
pub mod manifest;
pub mod page_cache;
pub mod partition;
pub mod problem;
pub mod producers;
mod roots;
pub mod salvage;
pub mod scan;
pub mod seen;
pub mod segment;
pub mod sidecar;
pub mod signal;
pub mod source;
pub mod suspects;
mod swaps;
pub mod sys;
pub mod tiered;
pub mod time_hint;
pub mod times;
mod tolerant;
pub mod transactions;
pub mod unpacked;
pub mod verify;
pub mod watch;
mod window;

pub use error::LogError;
