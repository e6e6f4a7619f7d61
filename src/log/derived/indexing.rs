//! Which entries an offset index and a time index get while batches are appended to a segment.
//!
//! Kafka 4's rule, the same for leader, follower, cleaner and recovery: when more than `index.interval.bytes` were appended
//! since the last entry, the next batch gets one, before it is counted itself. So the first batch of a segment never has one, and
//! position 0 is in no index. The time index gets an entry at the same moment, for the largest timestamp so far, and one more
//! when the segment is closed; only growing timestamps enter it. Pure: whoever appends writes the entries where they belong.

use crate::format::index::{OffsetEntry, TimeEntry};
use crate::units::{Offset, Position, Timestamp};

/// Kafka's default of `index.interval.bytes`.
pub const DEFAULT_INTERVAL_BYTES: u64 = 4096;

/// The largest segment that Kafka opens, and the largest position in an index.
pub const MAX_SEGMENT_BYTES: u64 = i32::MAX as u64;

/// What the indexes are told of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Where it begins in the segment.
    pub position: Position,
    /// Its length in bytes.
    pub len: u64,
    /// Its last offset.
    pub last_offset: Offset,
    /// The largest timestamp in it, as its header says.
    pub max_timestamp: Timestamp,
}

/// The entries that fall due with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// For the offset index.
    pub offset: OffsetEntry,
    /// For the time index, unless the largest timestamp is there already.
    pub time: Option<TimeEntry>,
}

/// The state of one segment's indexes.
#[derive(Debug, Clone)]
pub struct IndexBuilder {
    interval_bytes: u64,
    since_entry: u64,
    largest: TimeEntry,
    /// The timestamp in the last entry of the time index.
    written: Timestamp,
}

impl IndexBuilder {
    /// The indexes of an empty segment.
    pub const fn new(interval_bytes: u64) -> Self {
        let none = TimeEntry { timestamp: Timestamp::NONE, offset: Offset(-1) };
        Self { interval_bytes, since_entry: 0, largest: none, written: Timestamp::NONE }
    }

    /// The indexes of a segment that was closed, `last` being the last entry of its time index; the batches from that of the last
    /// entry of its offset index on are [counted](Self::count) next.
    pub const fn resume(interval_bytes: u64, last: TimeEntry) -> Self {
        Self { interval_bytes, since_entry: 0, largest: last, written: last.timestamp }
    }

    /// Takes a batch in; the entries that are due with it, if any.
    pub fn append(&mut self, batch: &Appended) -> Option<Due> {
        let is_due = self.since_entry > self.interval_bytes;
        if is_due {
            self.since_entry = 0;
        }
        self.count(batch);
        is_due.then(|| Due {
            offset: OffsetEntry { offset: batch.last_offset, position: batch.position },
            time: self.due_time(),
        })
    }

    /// Takes a batch in that has its entries already, or needs none.
    pub fn count(&mut self, batch: &Appended) {
        if batch.max_timestamp > self.largest.timestamp {
            self.largest = TimeEntry { timestamp: batch.max_timestamp, offset: batch.last_offset };
        }
        self.since_entry = self.since_entry.saturating_add(batch.len);
    }

    /// The largest timestamp so far.
    pub const fn largest(&self) -> Timestamp {
        self.largest.timestamp
    }

    /// The last entry of the time index, which a segment gets when it is rolled or closed.
    pub fn close(&mut self) -> Option<TimeEntry> {
        self.due_time()
    }

    fn due_time(&mut self) -> Option<TimeEntry> {
        let is_due = self.largest.timestamp > self.written;
        self.written = self.written.max(self.largest.timestamp);
        is_due.then_some(self.largest)
    }
}

/// The state of one segment's indexes, and their entries as they are stored.
#[derive(Debug, Clone)]
pub struct IndexBytes {
    base: Offset,
    builder: IndexBuilder,
    /// Of the offset index.
    pub offsets: Vec<u8>,
    /// Of the time index.
    pub times: Vec<u8>,
}

impl IndexBytes {
    /// The indexes of the segment with this base offset; no entries yet.
    pub const fn new(base: Offset, builder: IndexBuilder) -> Self {
        Self { base, builder, offsets: Vec::new(), times: Vec::new() }
    }

    /// Takes a batch in, and adds the entries that are due with it. An entry whose numbers don't fit is left out.
    pub fn append(&mut self, batch: &Appended) {
        let Some(due) = self.builder.append(batch) else { return };
        self.offsets.extend(due.offset.encode(self.base).into_iter().flatten());
        self.push_time(due.time);
    }

    /// The largest timestamp so far.
    pub const fn largest(&self) -> Timestamp {
        self.builder.largest()
    }

    /// Adds the last entry of the time index.
    pub fn close(&mut self) {
        let last = self.builder.close();
        self.push_time(last);
    }

    fn push_time(&mut self, entry: Option<TimeEntry>) {
        let bytes = entry.and_then(|entry| entry.encode(self.base));
        self.times.extend(bytes.into_iter().flatten());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(position: u64, len: u64, last_offset: i64, time: i64) -> Appended {
        let (last_offset, max_timestamp) = (Offset(last_offset), Timestamp(time));
        Appended { position: Position(position), len, last_offset, max_timestamp }
    }

    fn due(offset: i64, position: u64, time: Option<(i64, i64)>) -> Option<Due> {
        let time =
            time.map(|(time, offset)| TimeEntry { timestamp: Timestamp(time), offset: Offset(offset) });
        Some(Due { offset: OffsetEntry { offset: Offset(offset), position: Position(position) }, time })
    }

    #[test]
    fn an_entry_is_due_when_more_than_the_interval_was_appended() {
        let mut index = IndexBuilder::new(100);
        assert_eq!(index.append(&batch(0, 100, 3, 50)), None, "the first batch never has one");
        assert_eq!(index.append(&batch(100, 1, 4, 40)), None, "100 is not more than 100");
        assert_eq!(index.append(&batch(101, 200, 9, 40)), due(9, 101, Some((50, 3))));
        assert_eq!(index.append(&batch(301, 10, 10, 50)), due(10, 301, None), "no larger timestamp has come");
        assert_eq!(index.append(&batch(311, 10, 11, 60)), None);
        let last = TimeEntry { timestamp: Timestamp(60), offset: Offset(11) };
        assert_eq!(index.close(), Some(last));
        assert_eq!(index.close(), None);
    }

    #[test]
    fn batches_without_timestamps_leave_the_time_index_empty() {
        let mut index = IndexBuilder::new(10);
        index.append(&batch(0, 100, 0, -1));
        assert_eq!(index.append(&batch(100, 100, 1, -1)), due(1, 100, None));
        assert_eq!(index.close(), None);
    }
}
