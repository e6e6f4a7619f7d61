//! How a partition's log is written, by Kafka's names of topic configurations.

use crate::format::batch::Codec;
use crate::format::compression::encoder::Compression;
use crate::log::derived::indexing::DEFAULT_INTERVAL_BYTES;

/// The configuration of one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// `compression.type` and `compression.*.level`.
    pub compression: Compression,
    /// `max.message.bytes`: the largest batch, once compressed.
    pub max_message_bytes: usize,
    /// `segment.bytes`: a segment is rolled before it gets larger.
    pub segment_bytes: u64,
    /// `segment.ms`: a segment is rolled when its first batch is that much older than the next.
    pub segment_ms: u64,
    /// `segment.jitter.ms`: up to so much earlier, so that not all segments are rolled at once.
    pub segment_jitter_ms: u64,
    /// `segment.index.bytes`: a segment is rolled when one of its indexes has that many.
    pub segment_index_bytes: u64,
    /// `index.interval.bytes`: how much of a log lies between two entries of its index.
    pub index_interval_bytes: u64,
    /// `flush.messages`: how many records may be in the system's memory alone.
    pub flush_messages: u64,
    /// `flush.ms`: how long.
    pub flush_ms: u64,
    /// `message.timestamp.type=LogAppendTime`: records have the time of appending.
    pub append_time: bool,
    /// Whether each record must have a key, as those of compacted topics.
    pub needs_keys: bool,
    /// Whether records may be appended behind a transaction that is open.
    pub into_open_transactions: bool,
}

/// Kafka's "never".
pub const NEVER: u64 = i64::MAX as u64;

impl LogConfig {
    /// Kafka's defaults; without a codec, as producers that choose none write.
    pub const KAFKAS: Self = Self {
        compression: Compression { codec: Codec::None, level: None },
        max_message_bytes: 1024 * 1024 + 12,
        segment_bytes: 1 << 30,
        segment_ms: 7 * 24 * 60 * 60 * 1000,
        segment_jitter_ms: 0,
        segment_index_bytes: 10 * 1024 * 1024,
        index_interval_bytes: DEFAULT_INTERVAL_BYTES,
        flush_messages: NEVER,
        flush_ms: NEVER,
        append_time: false,
        needs_keys: false,
        into_open_transactions: false,
    };

    /// The largest batch that is appended: a segment has to have room for it.
    pub fn max_batch_bytes(&self) -> usize {
        self.max_message_bytes.min(usize::try_from(self.segment_bytes).unwrap_or(usize::MAX))
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self::KAFKAS
    }
}
