//! What the loops work on: the same bytes on every machine.

use std::fs;

use tempfile::TempDir;
use topicfs::format::batch::{Codec, Decoder, Limits};
use topicfs::format::batch_builder::{BatchBuilder, NewRecord};
use topicfs::format::compression::encoder::Compression;
use topicfs::units::{LeaderEpoch, Offset, Timestamp};

/// `batch.size` of a producer: as many bytes of records are in a batch.
const BATCH: usize = 16 * 1024;
/// The same where batches are compressed.
const COMPRESSED_BATCH: usize = 64 * 1024;

/// The time of the first record.
pub const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// Values that make about 1 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// 1 KiB of letters and digits each.
    Kib,
    /// 100 bytes of them.
    Small,
    /// JSON objects of 300 to 600 bytes.
    Json,
    /// 1 KiB of random bytes, which are not UTF-8.
    Binary,
}

impl Values {
    /// They themselves.
    pub fn make(self) -> Vec<Vec<u8>> {
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        match self {
            Self::Kib => (0..1000).map(|_| chance.text(1024)).collect(),
            Self::Small => (0..10_000).map(|_| chance.text(100)).collect(),
            Self::Json => (0..2200).map(|number| chance.object(number)).collect(),
            Self::Binary => (0..1000).map(|_| chance.bytes(1024)).collect(),
        }
    }
}

/// Numbers that look random (xorshift).
struct Chance(u64);

impl Chance {
    const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_be_bytes()[3]).collect()
    }

    fn text(&mut self, len: usize) -> Vec<u8> {
        const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
        self.bytes(len).into_iter().map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]).collect()
    }

    fn word(&mut self) -> &'static str {
        const WORDS: [&str; 12] = [
            "order",
            "customer",
            "pending",
            "shipped",
            "street",
            "amount",
            "currency",
            "warehouse",
            "parcel",
            "invoice",
            "refund",
            "priority",
        ];
        WORDS[(self.next() % 12) as usize]
    }

    fn object(&mut self, number: usize) -> Vec<u8> {
        let mut text = format!("{{\"id\":{number},\"account\":\"{:016x}\"", self.next());
        for field in 0..8 + self.next() % 10 {
            text += &format!(",\"{}{field}\":\"{} {}\"", self.word(), self.word(), self.next() % 10_000);
        }
        text += ",\"isOpen\":true}";
        text.into_bytes()
    }
}

/// Batches one behind the other, as in a segment.
pub struct Log {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// Where each begins.
    pub starts: Vec<usize>,
    /// How many records they have.
    pub records: u64,
    /// How many bytes their values have.
    pub payload: u64,
}

impl Log {
    /// One with these values, and keys of eight bytes, each `keys` records the same again.
    pub fn new(values: Values, codec: Codec, keys: u64) -> Self {
        let values = values.make();
        let most = if codec == Codec::None { BATCH } else { COMPRESSED_BATCH };
        let mut log = Self {
            bytes: Vec::new(),
            starts: Vec::new(),
            records: values.len() as u64,
            payload: values.iter().map(|value| value.len() as u64).sum(),
        };
        let mut builder = BatchBuilder::new(Compression { codec, level: None });
        let mut next = 0;
        for (number, value) in (0_i64..).zip(&values) {
            let key = (number as u64 % keys).to_be_bytes();
            let record = NewRecord {
                timestamp: Timestamp(NOW.0 + number),
                key: Some(&key),
                value: Some(value),
                headers: &[],
            };
            if !builder.push(&record, most) {
                log.take(&mut builder, next);
                next = number;
                assert!(builder.push(&record, most), "a record fits into a batch of its own");
            }
        }
        log.take(&mut builder, next);
        log
    }

    fn take(&mut self, builder: &mut BatchBuilder, base: i64) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(builder.finish(Offset(base), LeaderEpoch(0)).expect("it is encoded"));
        builder.clear();
    }

    /// The batches.
    pub fn batches(&self) -> impl Iterator<Item = &[u8]> {
        self.starts.iter().map(|start| &self.bytes[*start..])
    }

    /// A data directory whose only partition, `t-0`, has them as its only segment.
    pub fn directory(&self) -> TempDir {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let partition = directory.path().join("t-0");
        fs::create_dir(&partition).expect("a directory can be made");
        fs::write(partition.join("00000000000000000000.log"), &self.bytes).expect("a file can be written");
        directory
    }
}

/// What reading a batch needs.
#[derive(Default)]
pub struct Reading {
    /// Contexts and room of the codecs.
    pub decoder: Decoder,
    /// How much memory a batch may cost.
    pub limits: Limits,
}
