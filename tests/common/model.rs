//! A partition as a plain list of records, and the directory that holds it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::batches::Entry;
use super::shown::ShownRecord;

/// One segment.
#[derive(Debug, Clone, Default)]
pub struct Segment {
    /// The number in its name.
    pub base: i64,
    /// What is in it.
    pub entries: Vec<Entry>,
}

impl Segment {
    /// The file's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.entries.iter().flat_map(|entry| entry.bytes.iter().copied()).collect()
    }
}

/// A partition.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// Its segments; there is always one.
    pub segments: Vec<Segment>,
    /// Entries of segments that were deleted while the model was read: their transactions are remembered.
    pub deleted: Vec<Entry>,
    /// What the checkpoint says, if it is there.
    pub checkpoint: Option<i64>,
}

/// How a model is read: `None` for everything, the last stable offset under `read_committed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    Uncommitted,
    Committed,
}

impl Model {
    /// The first offset that is shown.
    pub fn start(&self) -> i64 {
        let first = self.segments[0].base;
        self.checkpoint.map_or(first, |start| start.max(first))
    }

    /// The log end offset.
    pub fn log_end(&self) -> i64 {
        let active = self.segments.last().expect("a segment");
        active.entries.last().map_or(active.base, |entry| (entry.last + 1).max(active.base))
    }

    /// The offset after the last one that is shown.
    pub fn end(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::Uncommitted => self.log_end(),
            Isolation::Committed => self.decided().1.min(self.log_end()).max(self.start()),
        }
    }

    /// All entries in order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.segments.iter().flat_map(|segment| &segment.entries)
    }

    /// The records that are shown.
    pub fn records(&self, isolation: Isolation) -> Vec<ShownRecord> {
        let (aborted, _) = self.decided();
        let (start, end) = (self.start(), self.end(isolation));
        self.entries()
            .filter(|entry| {
                isolation == Isolation::Uncommitted
                    || !aborted.iter().any(|(producer, first, last)| {
                        entry.transaction == Some(*producer) && (*first..=*last).contains(&entry.first)
                    })
            })
            .flat_map(|entry| entry.records.iter().cloned())
            .filter(|record| record.offset >= start && record.offset < end)
            .collect()
    }

    /// The aborted transactions (producer, first offset, marker), and the last stable offset (KIP-98).
    fn decided(&self) -> (Vec<(i64, i64, i64)>, i64) {
        let mut open: Vec<(i64, i64)> = Vec::new();
        let mut aborted = Vec::new();
        for entry in self.deleted.iter().chain(self.entries()) {
            let Some(producer) = entry.transaction else { continue };
            let at = open.iter().position(|(id, _)| *id == producer);
            match (entry.marker, at) {
                (None, None) => open.push((producer, entry.first)),
                (Some(commits), Some(at)) => {
                    let (_, first) = open.remove(at);
                    if !commits {
                        aborted.push((producer, first, entry.last));
                    }
                }
                (None, Some(_)) | (Some(_), None) => {}
            }
        }
        (aborted, open.iter().map(|(_, first)| *first).min().unwrap_or(self.log_end()))
    }
}

/// A data directory with one topic, `t`, of one partition.
#[derive(Debug)]
pub struct Directory {
    data: TempDir,
}

impl Default for Directory {
    fn default() -> Self {
        let data = tempfile::tempdir().expect("temporary directory");
        std::fs::create_dir(data.path().join("t-0")).expect("directory can be made");
        Self { data }
    }
}

impl Directory {
    /// A directory with the segments and the checkpoint of `model`, without indexes.
    pub fn of(model: &Model) -> Self {
        let directory = Self::default();
        for segment in &model.segments {
            directory.write_segment(segment.base, &segment.bytes());
        }
        if let Some(start) = model.checkpoint {
            directory.set_log_start(start);
        }
        directory
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.data.path()
    }

    /// The same, as SOURCE.
    pub fn spec(&self) -> &str {
        self.path().to_str().expect("UTF-8")
    }

    /// A file of a segment.
    pub fn file(&self, base: i64, extension: &str) -> PathBuf {
        self.path().join(format!("t-0/{base:020}.{extension}"))
    }

    /// Writes a whole segment.
    pub fn write_segment(&self, base: i64, bytes: &[u8]) {
        std::fs::write(self.file(base, "log"), bytes).expect("segment can be written");
    }

    /// Appends to a segment, as a broker does.
    pub fn append(&self, base: i64, bytes: &[u8]) {
        let file = OpenOptions::new().append(true).open(self.file(base, "log"));
        file.and_then(|mut file| file.write_all(bytes)).expect("segment can be appended to");
    }

    /// Writes the checkpoint as a broker does: beside it, then in its place.
    pub fn set_log_start(&self, offset: i64) {
        let path = self.path().join("log-start-offset-checkpoint");
        let new = path.with_extension("tmp");
        std::fs::write(&new, format!("0\n1\nt 0 {offset}\n")).expect("checkpoint can be written");
        std::fs::rename(new, path).expect("checkpoint can be replaced");
    }
}

/// The bytes of an offset index as Kafka writes it: for every `every`-th entry its last offset and its position.
pub fn offset_index(segment: &Segment, every: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut position = 0_usize;
    for (number, entry) in segment.entries.iter().enumerate() {
        // Kafka never indexes position 0.
        if number > 0 && number % every == 0 {
            out.extend(i32::try_from(entry.last - segment.base).expect("relative").to_be_bytes());
            out.extend(i32::try_from(position).expect("a position").to_be_bytes());
        }
        position += entry.bytes.len();
    }
    out
}

/// `.txt`, naively.
pub fn text(records: &[ShownRecord]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        out.extend(record.value.as_deref().unwrap_or_default());
        out.push(b'\n');
    }
    out
}

/// A format string of kcat with all its fields.
pub const TEMPLATE: &str = r"%t/%p %o %T %K:%k %S:%s%R [%h] \x41%%\n";

/// The same for records of partition 0 of `t`, naively.
pub fn template(records: &[ShownRecord]) -> Vec<u8> {
    let len =
        |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap());
    let mut out = Vec::new();
    for ShownRecord { offset, timestamp, key, value, headers } in records {
        let headers = headers
            .iter()
            .map(|(name, value)| [name, &b"="[..], value.as_deref().unwrap_or(b"NULL")].concat());
        out.extend(format!("t/0 {offset} {timestamp} {}:", len(key)).bytes());
        out.extend(key.iter().flatten());
        out.extend(format!(" {}:", len(value)).bytes());
        out.extend(value.iter().flatten());
        out.extend(len(value).to_be_bytes());
        out.extend(b" [");
        out.extend(headers.collect::<Vec<_>>().join(&b','));
        out.extend(b"] A%\n");
    }
    out
}

/// `.tsv`, naively.
pub fn tsv(records: &[ShownRecord]) -> Vec<u8> {
    let field = |bytes: &Option<Vec<u8>>| match bytes {
        None => b"\\N".to_vec(),
        Some(bytes) => bytes
            .iter()
            .flat_map(|byte| match byte {
                b'\t' => b"\\t".to_vec(),
                b'\n' => b"\\n".to_vec(),
                b'\r' => b"\\r".to_vec(),
                b'\\' => b"\\\\".to_vec(),
                other => vec![*other],
            })
            .collect(),
    };
    let mut out = Vec::new();
    for record in records {
        let time = if record.timestamp == -1 { "\\N".to_owned() } else { record.timestamp.to_string() };
        out.extend(format!("{}\t{time}\t", record.offset).bytes());
        out.extend(field(&record.key));
        out.push(b'\t');
        out.extend(field(&record.value));
        out.push(b'\n');
    }
    out
}

/// A small generator of numbers (xorshift), the same everywhere for the same seed.
#[derive(Debug, Clone)]
pub struct Numbers(u64);

impl Numbers {
    /// A generator that begins with `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number below `limit`, 0 when that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % limit.max(1) as u64).expect("it is below a usize")
    }

    /// The next bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| u8::try_from(self.below(256)).expect("a byte")).collect()
    }
}
