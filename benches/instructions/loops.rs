//! The hot loops, each through the public API of its layer.

use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::sync::Arc;

use topicfs::format::batch::{Batch, Codec, Limits};
use topicfs::format::batch_builder::{BatchBuilder, NewRecord};
use topicfs::format::compression::encoder::Compression;
use topicfs::format::index::{OffsetEntry, OffsetIndex};
use topicfs::format::record::Record;
use topicfs::fs::Fs;
use topicfs::fs::options::Options;
use topicfs::log::append::config::LogConfig;
use topicfs::log::append::owned::OwnedDirectory;
use topicfs::log::append::topics;
use topicfs::log::files::ReadAt;
use topicfs::log::files::disk::SystemDisk;
use topicfs::log::segment::scan::{Scanner, Start, Step};
use topicfs::log::upkeep::policy::{Policy, Ratio};
use topicfs::log::upkeep::work::Job;
use topicfs::units::{LeaderEpoch, Offset, Position, Timestamp, TopicPartition};
use topicfs::view::format::{Format, Renderer, Rendering};
use topicfs::view::lines::assembler::{LineAssembler, LineEnd};
use topicfs::view::lines::{self, LineFormat};

use crate::data::{Log, NOW, Reading, Values};

/// A loop.
pub struct Loop {
    /// Its name in the table.
    pub name: &'static str,
    /// What it is counted for each of.
    pub unit: &'static str,
    /// Makes its data.
    pub prepare: fn() -> Round,
}

/// Runs the loop once; how many units that were.
pub type Round = Box<dyn FnMut() -> u64>;

/// All of them, in the table's order.
pub const LOOPS: [Loop; 20] = [
    Loop { name: "parse batches, 1 KiB values", unit: "record", prepare: || parse(Values::Kib) },
    Loop { name: "parse batches, 100 byte values", unit: "record", prepare: || parse(Values::Small) },
    Loop { name: "decode gzip, JSON values", unit: "byte", prepare: || decode(Codec::Gzip) },
    Loop { name: "decode snappy, JSON values", unit: "byte", prepare: || decode(Codec::Snappy) },
    Loop { name: "decode lz4, JSON values", unit: "byte", prepare: || decode(Codec::Lz4) },
    Loop { name: "decode zstd, JSON values", unit: "byte", prepare: || decode(Codec::Zstd) },
    Loop { name: "render text", unit: "record", prepare: || render(Values::Small, Format::Text) },
    Loop { name: "render tsv", unit: "byte", prepare: || render(Values::Kib, Format::Tsv) },
    Loop { name: "render jsonl, JSON values", unit: "byte", prepare: || render(Values::Json, Format::Jsonl) },
    Loop {
        name: "render jsonl, binary values",
        unit: "byte",
        prepare: || render(Values::Binary, Format::Jsonl),
    },
    Loop { name: "measure text", unit: "record", prepare: || measure(Values::Small, Format::Text) },
    Loop {
        name: "measure jsonl, JSON values",
        unit: "byte",
        prepare: || measure(Values::Json, Format::Jsonl),
    },
    Loop { name: "scan a segment, 1 KiB values", unit: "record", prepare: scan },
    Loop { name: "look offsets up in an index", unit: "look-up", prepare: look_up },
    Loop { name: "read log through Fs, not measured", unit: "record", prepare: || read(false) },
    Loop { name: "read log through Fs, measured", unit: "record", prepare: || read(true) },
    Loop { name: "read lines as records, jsonl", unit: "byte", prepare: || read_lines(LineFormat::Jsonl) },
    Loop { name: "read lines as records, tsv", unit: "byte", prepare: || read_lines(LineFormat::Tsv) },
    Loop { name: "build batches, 100 byte values", unit: "record", prepare: build },
    Loop { name: "compact, 100 byte values", unit: "record", prepare: compact },
];

fn name() -> TopicPartition {
    TopicPartition { topic: "t".to_owned(), partition: 0 }
}

/// Values that are all different have keys that are.
const NO_KEY_TWICE: u64 = u64::MAX;

/// Checksums, headers and records.
fn parse(values: Values) -> Round {
    let (log, mut reading) = (Log::new(values, Codec::None, NO_KEY_TWICE), Reading::default());
    Box::new(move || {
        for bytes in log.batches() {
            let batch = Batch::parse(bytes).expect("a batch");
            for record in batch.records(&mut reading.decoder, &reading.limits).expect("records") {
                black_box(record.expect("a record"));
            }
        }
        log.records
    })
}

/// A codec, with the header around it; no records, and no checksum.
fn decode(codec: Codec) -> Round {
    let (log, mut reading) = (Log::new(Values::Json, codec, NO_KEY_TWICE), Reading::default());
    Box::new(move || {
        for bytes in log.batches() {
            let batch = Batch::peek(bytes).expect("a batch");
            black_box(batch.records(&mut reading.decoder, &reading.limits).expect("records"));
        }
        log.payload
    })
}

/// The records of a log, decoded before they are counted: what is done to them is the loop.
struct Records {
    log: &'static Log,
    all: Vec<Record<'static>>,
    renderer: Renderer,
    out: Vec<u8>,
}

impl Records {
    fn new(values: Values) -> Self {
        // Records borrow from their batches: both stay until the program ends.
        let log: &'static Log = Box::leak(Box::new(Log::new(values, Codec::None, NO_KEY_TWICE)));
        let mut all = Vec::new();
        for bytes in log.batches() {
            let batch: &'static Batch<'static> = Box::leak(Box::new(Batch::peek(bytes).expect("a batch")));
            let reading: &'static mut Reading = Box::leak(Box::default());
            let records = batch.records(&mut reading.decoder, &reading.limits).expect("records");
            all.extend(records.map(|record| record.expect("a record")));
        }
        let renderer = Renderer::new(&name(), Rendering::default());
        Self { log, all, renderer, out: Vec::with_capacity(4096) }
    }

    /// Records of text, whose bytes are only copied; bytes of all else.
    const fn units(&self, format: Format) -> u64 {
        if matches!(format, Format::Text) { self.log.records } else { self.log.payload }
    }
}

fn render(values: Values, format: Format) -> Round {
    let mut records = Records::new(values);
    Box::new(move || {
        for record in &records.all {
            records.out.clear();
            records.renderer.render(format, record, &mut records.out);
            black_box(&records.out);
        }
        records.units(format)
    })
}

fn measure(values: Values, format: Format) -> Round {
    let mut records = Records::new(values);
    Box::new(move || {
        for record in &records.all {
            black_box(records.renderer.measure(format, record, &mut records.out));
        }
        records.units(format)
    })
}

/// A file that is in memory.
struct InMemory(Vec<u8>);

impl ReadAt for InMemory {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let rest = usize::try_from(position).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

fn scan() -> Round {
    let log = Log::new(Values::Kib, Codec::None, NO_KEY_TWICE);
    let (records, file) = (log.records, Arc::new(InMemory(log.bytes)));
    Box::new(move || {
        let start = Start::new(Position(0), Offset(0), Offset(i64::MAX));
        let mut scanner = Scanner::new(file.clone(), file.0.len() as u64, start, Limits::default());
        while let Step::Batch { batch, .. } = scanner.step().expect("memory can be read") {
            black_box(batch.header);
        }
        records
    })
}

/// Look-ups all over an index of a segment of 1 GiB.
fn look_up() -> Round {
    const ENTRIES: i64 = 1 << 18;
    const LOOK_UPS: u64 = 10_000;
    let entry = |number: i64| OffsetEntry {
        offset: Offset(number * 4 + 3),
        position: Position(number.unsigned_abs() * 4096),
    };
    let encoded = |number| entry(number).encode(Offset(0)).expect("near its base");
    let bytes: &'static [u8] = (0..ENTRIES).flat_map(encoded).collect::<Vec<u8>>().leak();
    let index = OffsetIndex::new(Offset(0), bytes);
    Box::new(move || {
        for number in 0..LOOK_UPS {
            let target = Offset((number * 7919 % ENTRIES.unsigned_abs()).cast_signed() * 4);
            black_box(index.floor(target));
        }
        LOOK_UPS
    })
}

/// All of a partition's `log`, as `topicfs cat` reads it.
fn read(is_measured: bool) -> Round {
    let log = Log::new(Values::Small, Codec::None, NO_KEY_TWICE);
    let (records, directory) = (log.records, log.directory());
    let source = directory.path().to_str().expect("UTF-8").to_owned();
    let open = move || Fs::open(&source, Options::default(), String::new()).expect("a source");
    let mut open_before = is_measured.then(&open);
    Box::new(move || {
        let _kept = &directory;
        let fs = open_before.take().unwrap_or_else(&open);
        let node = fs.resolve("t/0/log").expect("a file");
        fs.read_whole(&node, |piece| {
            black_box(piece);
            Ok(())
        })
        .expect("it can be read");
        open_before = is_measured.then_some(fs);
        records
    })
}

/// Cutting into lines, and reading each of them.
fn read_lines(format: LineFormat) -> Round {
    let records = Records::new(Values::Json);
    let (mut text, shown) = match format {
        LineFormat::Jsonl => (Vec::new(), Format::Jsonl),
        _ => (Vec::new(), Format::Tsv),
    };
    for record in &records.all {
        records.renderer.render(shown, record, &mut text);
    }
    Box::new(move || {
        let mut assembler = LineAssembler::new(format, 1 << 20);
        // As many bytes as a write through FUSE has.
        for piece in text.chunks(128 * 1024) {
            let pending = assembler.begin(piece);
            let mut done = LineEnd::NONE;
            for line in pending.lines() {
                black_box(lines::parse(format, line.bytes).expect("a record"));
                done = line.end;
            }
            pending.commit(done).expect("lines are short");
        }
        records.log.payload
    })
}

/// As a leader does it, checksum included.
fn build() -> Round {
    let values = Values::Small.make();
    let mut builder = BatchBuilder::new(Compression { codec: Codec::None, level: None });
    Box::new(move || {
        for values in values.chunks(140) {
            for value in values {
                let record = NewRecord { timestamp: NOW, key: None, value: Some(value), headers: &[] };
                assert!(builder.push(&record, usize::MAX), "it has room");
            }
            black_box(builder.finish(Offset(0), LeaderEpoch(0)).expect("nothing is compressed"));
            builder.clear();
        }
        values.len() as u64
    })
}

/// One round of compaction over a copy of a log in which each key is there five times.
fn compact() -> Round {
    let log = Log::new(Values::Small, Codec::None, 2000);
    let (records, source) = (log.records, log.directory());
    Box::new(move || {
        let copy = tempfile::tempdir().expect("a temporary directory");
        compact_copy(source.path(), copy.path());
        records
    })
}

fn compact_copy(source: &Path, copy: &Path) {
    let owned = OwnedDirectory::open(copy, Arc::new(SystemDisk), Limits::default()).expect("it is ours");
    owned.recovered().expect("there is nothing in it");
    let directory = owned.create_partition(&name(), topics::new_topic_id()).expect("a partition");
    let segment = "00000000000000000000.log";
    fs::copy(source.join("t-0").join(segment), directory.join(segment)).expect("a file can be copied");
    // The next segment is the active one, which isn't compacted.
    fs::write(directory.join("00000000000000010000.log"), []).expect("a file can be made");
    let policy =
        Policy { compact: true, min_cleanable_dirty_ratio: Ratio::from_millionths(0), ..Policy::NONE };
    let job = Job {
        owned: &owned,
        name: &name(),
        directory: &directory,
        config: &LogConfig::default(),
        policy: &policy,
        now: Timestamp(NOW.0 + 1_000_000_000),
    };
    let compacted =
        job.compact(1 << 20, &|_| {}).expect("it can be compacted").expect("there is something to do");
    assert_eq!(compacted.records, (10_000, 2000), "each key's last record stays");
}
