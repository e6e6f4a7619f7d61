//! How long the kernel may believe what it was told: the one place where that is decided.
//!
//! | what | its name | its attributes | its bytes | why |
//! |---|---|---|---|---|
//! | ranges, periods, sealed segments, keys' histories, our own texts | 100 ms | an hour | in the page cache, shared by all readers | another generation of the log is another inode, so that what this one has can't change |
//! | the same with `on_damage=error` | 100 ms | an hour | not | a read that ends before damage would be taken for the end |
//! | the same while its size isn't known | 100 ms | not at all | not | the kernel reads no further than the size that it knows |
//! | one record | 100 ms | an hour | not | the same; it is read once, mostly |
//! | `log`, `tail`, the active segment, dumps and source files | 100 ms | not at all | not | they grow: `tail -f` looks at the size, and a page that was half full would be read again as zeros |
//! | source files, where `passthrough` allows it | 100 ms | not at all | the kernel reads them by itself | the bytes are the file's |
//! | `follow` | 100 ms | not at all | not, and without positions | what was read is gone |
//! | directories | 100 ms | 100 ms | made at each open | owner, mode and time are those of the source's; the kernel asks for them at each step of a path |
//! | `info`, `problems`, `metrics`, `offsets/` | 100 ms | not at all | made at each open | they change with the log |
//!
//! A name lives 100 ms because relative ones (`last-1`, `tail`) move, and because retention, truncation and a topic that is
//! made again may give it another inode; a name that isn't there is asked for each time.

use std::time::Duration;

/// How long the kernel may believe a name.
pub const NAME_TTL: Duration = Duration::from_millis(100);
/// How long it may believe attributes that can't change.
const FINAL_TTL: Duration = Duration::from_secs(3600);

/// How long what is said of a node stays true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lasting {
    /// For ever.
    Final,
    /// As long as its name.
    AsItsName,
    /// Not at all.
    #[default]
    Changing,
}

impl Lasting {
    /// How long the kernel may believe the attributes.
    pub const fn attributes_ttl(self) -> Duration {
        match self {
            Self::Final => FINAL_TTL,
            Self::AsItsName => NAME_TTL,
            Self::Changing => Duration::ZERO,
        }
    }
}

/// How the kernel reads an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// From its page cache, which outlives the handle.
    Cached,
    /// From us each time.
    Direct,
    /// From the source's file, without us, if the kernel is able to; else as [`Reading::Direct`].
    Source,
    /// From us, one byte after another, as from a pipe.
    Stream,
}
