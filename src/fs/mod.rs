//! The file system without FUSE: names, inodes, handles, attributes and errors. Everything here can be tested without
//! a mount, and `topicfs ls|cat|tail` use it without one.
//!
//! | module | what |
//! |---|---|
//! | [`names`], [`time_names`] | the grammar of names, in tables |
//! | [`node`] | what a name stands for, and its inode number |
//! | [`inodes`] | the nodes that the kernel knows |
//! | [`lookup`], [`listing`] | from a directory and a name to a node; what directories list |
//! | [`mounted`] | the file system: what FUSE asks, answered |
//! | [`key_names`], [`by_key`] | the grammar of names in `by-key`; what is there |
//! | [`content`], [`files`], [`manifest`], [`overview`], `dumps` | what files contain |
//! | `by_time`, `offsets`, `all` | the directories of these names |
//! | [`appending`], [`topics`] | mounts for appending: files whose lines become records; directories that become topics |
//! | `cleaner` | old records that go, in a mount for appending |
//! | [`attributes`], [`stat`], `xattrs` | type, size, times and access of a node; extended attributes of records |
//! | [`caching`] | how long the kernel may believe what it was told |
//! | [`handles`] | open files and directories |
//! | [`follow`], [`growing`] | files that never end; growing ones, for those who watch them |
//! | [`metrics`] | what the mount did and holds |
//! | [`measuring`], [`waiting`] | sizes that take long, found in the background; which requests wait for what |
//! | `tails` | the window of each `tail` |
//! | `current`, `idle` | whether a file is still what its name stands for; what is given up when nobody uses it |
//! | [`forgetting`] | what the kernel is better without |
//! | [`options`], [`topic_options`] | what a user may choose, for a mount and for each topic |
//! | [`topic_configs`], `config_value` | Kafka's configs of a topic: what a user chose, over what its cluster says |
//! | [`error`] | errors and their errno |

mod all;
pub mod appending;
pub mod attributes;
pub mod by_key;
mod by_time;
pub mod caching;
mod cleaner;
mod config_value;
pub mod content;
mod current;
mod dumps;
pub mod error;
pub mod files;
pub mod follow;
pub mod forgetting;
pub mod growing;
pub mod handles;
mod idle;
pub mod inodes;
pub mod key_names;
pub mod listing;
pub mod lookup;
pub mod manifest;
pub mod measuring;
pub mod metrics;
pub mod mounted;
pub mod names;
pub mod node;
mod offsets;
pub mod options;
pub mod overview;
pub mod stat;
mod tails;
pub mod time_names;
pub mod topic_configs;
pub mod topic_options;
pub mod topics;
pub mod waiting;
pub mod walk;
mod xattrs;

pub use error::FsError;
pub use mounted::Fs;
pub use node::Node;
