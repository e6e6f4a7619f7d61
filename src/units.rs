//! Numbers and names with a meaning of their own, so that an offset can't be taken for a position.
//!
//! Knows nothing of files or of the format.

use std::fmt;

/// A record's number in its partition, counted by Kafka; never a place in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(pub i64);

impl Offset {
    /// The offset after this one; the largest offset stays where it is.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// This offset moved by `delta`, which saturates at the ends of the range.
    pub const fn plus(self, delta: i64) -> Self {
        Self(self.0.saturating_add(delta))
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A byte's place in a source file, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// This position moved forward by `len` bytes.
    pub const fn plus(self, len: u64) -> Self {
        Self(self.0.saturating_add(len))
    }

    /// The number of bytes from `start` to here, 0 when `start` lies behind.
    pub const fn since(self, start: Self) -> u64 {
        self.0.saturating_sub(start.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Milliseconds since 1970-01-01T00:00:00Z; -1 is Kafka's "no timestamp".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// What records of magic 0 have.
    pub const NONE: Self = Self(-1);

    /// Whether this is a time at all.
    pub const fn is_none(self) -> bool {
        self.0 == -1
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Period {
    /// The first millisecond in it.
    pub from: Timestamp,
    /// The first one behind it.
    pub to: Timestamp,
}

impl Period {
    /// All of time.
    pub const ALL: Self = Self { from: Timestamp(i64::MIN), to: Timestamp(i64::MAX) };

    /// Whether a record with this timestamp lies in it; one without a time lies in none.
    pub fn contains(self, timestamp: Timestamp) -> bool {
        !timestamp.is_none() && self.from <= timestamp && timestamp < self.to
    }

    /// Whether it has something of the times from `smallest` to `largest`, both inclusive.
    pub fn touches(self, smallest: Timestamp, largest: Timestamp) -> bool {
        smallest < self.to && self.from <= largest
    }
}

/// The number of a leader's term; batches carry it since magic 2 (KIP-101).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaderEpoch(pub i32);

/// The broker's number for an idempotent or transactional producer (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub i64);

/// The number of a partition in its topic.
pub type PartitionId = i32;

/// A topic and one of its partitions, as in `orders-3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: PartitionId,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}
