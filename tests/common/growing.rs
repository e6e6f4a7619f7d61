//! A partition that changes as a broker changes it: batches that a broker wrote, moved to other offsets.
//!
//! The checksum of a batch doesn't cover its base offset, so a moved batch is a sound one.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::fixtures;

/// A data directory with the partition `t-0`, or another partition in it.
#[derive(Debug)]
pub struct Growing {
    data: Arc<TempDir>,
    number: i32,
    batches: Vec<Vec<u8>>,
    taken: usize,
    base: i64,
    end: i64,
}

impl Growing {
    /// With one empty segment.
    pub fn new() -> Self {
        let written = fixtures::case("4.4.0", "codecs").data().join("codec-none-1/00000000000000000000.log");
        let batches = split(&fs::read(written).expect("a segment"));
        let data = Arc::new(tempfile::tempdir().expect("temporary directory"));
        Self::begin(data, 0, batches)
    }

    /// Another partition of the topic, in the same data directory.
    pub fn beside(&self, number: i32) -> Self {
        Self::begin(self.data.clone(), number, self.batches.clone())
    }

    fn begin(data: Arc<TempDir>, number: i32, batches: Vec<Vec<u8>>) -> Self {
        let growing = Self { data, number, batches, taken: 0, base: 0, end: 0 };
        fs::create_dir(growing.partition()).expect("directory can be made");
        growing.write(&[]);
        growing
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// The partition's directory.
    pub fn partition(&self) -> PathBuf {
        self.data().join(format!("t-{}", self.number))
    }

    /// The file of the segment with base offset `base`.
    pub fn segment(&self, base: i64) -> PathBuf {
        self.partition().join(format!("{base:020}.log"))
    }

    /// The base offset of the active segment.
    pub const fn base(&self) -> i64 {
        self.base
    }

    /// The log end offset.
    pub const fn end(&self) -> i64 {
        self.end
    }

    /// Appends whole batches, one write each.
    pub fn append(&mut self, count: usize) {
        for _ in 0..count {
            let batch = self.next_batch();
            self.write(&batch);
        }
    }

    /// The next batch, for a test that writes it by itself.
    pub fn next_batch(&mut self) -> Vec<u8> {
        let mut batch = self.batches[self.taken % self.batches.len()].clone();
        self.taken += 1;
        batch[..8].copy_from_slice(&self.end.to_be_bytes());
        self.end += i64::from(number(&batch[23..])) + 1;
        batch
    }

    /// Appends bytes to the active segment.
    pub fn write(&self, bytes: &[u8]) {
        let file = OpenOptions::new().create(true).append(true).open(self.segment(self.base));
        file.and_then(|mut file| file.write_all(bytes)).expect("segment can be written");
    }

    /// Begins a new segment.
    pub fn roll(&mut self) {
        self.base = self.end;
        self.write(&[]);
    }

    /// Cuts the active segment at `len` bytes, where the next offset is `end`.
    pub fn truncate(&mut self, len: u64, end: i64) {
        let file = OpenOptions::new().write(true).open(self.segment(self.base)).expect("segment");
        file.set_len(len).expect("segment can be cut");
        self.end = end;
        // Other batches come now than those that were cut.
        self.taken += 1;
    }

    /// Says that the log starts at `offset`, as a broker does: by a new file in place of the old.
    pub fn set_log_start(&self, offset: i64) {
        let file = self.data().join("log-start-offset-checkpoint");
        let new = file.with_extension("tmp");
        fs::write(&new, format!("0\n1\nt 0 {offset}\n")).expect("checkpoint can be written");
        fs::rename(&new, &file).expect("checkpoint can be renamed");
    }
}

/// The batches of a segment of magic 2.
fn split(mut segment: &[u8]) -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    while segment.len() > 12 {
        let len = 12 + usize::try_from(number(&segment[8..])).expect("a length");
        assert_eq!(segment[16], 2, "magic");
        batches.push(segment[..len].to_vec());
        segment = &segment[len..];
    }
    batches
}

fn number(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes[..4].try_into().expect("four bytes"))
}
