//! Partitions as a crash, a disk or an interrupted compaction leaves them, drawn at random from a seed.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use kafka_protocol::records::Compression;
use tempfile::TempDir;
use topicfs::format::batch::Limits;
use topicfs::log::append::recovery::{Known, Plan};
use topicfs::log::files::disk::SystemDisk;
use topicfs::units::{Offset, TopicPartition};

use super::batches::{self, Entry};
use super::model::{Numbers, Segment};
use super::salvaged::{files, scratch};
use super::shown::ShownRecord;

/// Of indexes; small, so that small segments have entries.
pub const INTERVAL: u64 = 256;
/// No producer of such a time ever expires.
const FIRST_TIME: i64 = 4_000_000_000_000;

/// A partition directory after something happened to it.
#[derive(Debug)]
pub struct Crash {
    scratch: TempDir,
    /// What was done to it, in words.
    pub done: Vec<String>,
    /// Below it all was durable.
    pub recovery_point: i64,
    /// Whether each log is whole but for a torn or zero tail of the last one.
    pub is_sound_but_tail: bool,
    /// The first segment that is not as it should be.
    first_damaged: i64,
    /// Whether an index is missing or damaged.
    pub has_bad_index: bool,
    /// Whether its files of epochs are as they were.
    pub has_epochs: bool,
    /// Whether some logs are replaced by others.
    pub is_swapped: bool,
}

impl Crash {
    /// The case of this number.
    pub fn new(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let crash = Self {
            scratch: scratch(),
            done: Vec::new(),
            recovery_point: 0,
            is_sound_but_tail: true,
            has_bad_index: false,
            first_damaged: i64::MAX,
            has_epochs: true,
            is_swapped: false,
        };
        let segments = draw_log(&mut numbers);
        fs::create_dir(crash.partition()).unwrap();
        for segment in &segments {
            fs::write(crash.file(segment.base, "log"), segment.bytes()).unwrap();
        }
        // With all that belongs to them.
        recover(&crash.partition(), &crash.quarantine(), 0);
        crash.damaged(&segments, &mut numbers)
    }

    /// The directory.
    pub fn partition(&self) -> PathBuf {
        self.scratch.path().join("t-0")
    }

    /// A place for what is cut.
    pub fn quarantine(&self) -> PathBuf {
        self.scratch.path().join("quarantine")
    }

    fn file(&self, base: i64, extension: &str) -> PathBuf {
        self.partition().join(format!("{base:020}.{extension}"))
    }

    fn damaged(mut self, segments: &[Segment], numbers: &mut Numbers) -> Self {
        for _ in 0..=numbers.below(3) {
            match numbers.below(8) {
                0..=2 => self.damage_tail(segments, numbers),
                3 | 4 => self.damage_log(segments, numbers),
                5 => self.damage_index(segments, numbers),
                6 => self.damage_state(segments, numbers),
                _ if !self.is_swapped && segments.len() > 2 => self.interrupt_compaction(segments, numbers),
                _ => {}
            }
        }
        // What is not read again stays, and a broker believes it.
        let below: Vec<_> = segments.iter().filter(|segment| segment.base <= self.first_damaged).collect();
        if numbers.below(2) == 0 {
            let at = below[numbers.below(below.len())];
            self.recovery_point = at.base + i64::try_from(numbers.below(3)).unwrap();
        }
        self
    }

    /// As a crash while the last segment was written.
    fn damage_tail(&mut self, segments: &[Segment], numbers: &mut Numbers) {
        let last = segments.last().unwrap();
        let path = self.file(last.base, "log");
        let (mut bytes, len) = (fs::read(&path).unwrap(), last.bytes().len());
        if bytes.len() != len {
            return;
        }
        match numbers.below(3) {
            0 => {
                let batch = last.entries.last().unwrap().bytes.len();
                bytes.truncate(bytes.len() - 1 - numbers.below(batch - 1));
            }
            1 => bytes.extend(vec![0; 1 + numbers.below(5000)]),
            _ => {
                let next = record(last.entries.last().unwrap().last + 1, numbers);
                let batch = batches::encode(&batches::Plan::of(vec![next], Compression::None));
                let cut = 1 + numbers.below(batch[0].bytes.len() - 1);
                bytes.extend(&batch[0].bytes[..cut]);
            }
        }
        self.done.push(format!("tail of {}: {len} to {} bytes", last.base, bytes.len()));
        fs::write(path, bytes).unwrap();
        // Preallocated as an active segment's.
        for index in ["index", "timeindex"] {
            let file = OpenOptions::new().write(true).open(self.file(last.base, index));
            if let (Ok(file), 0) = (file, numbers.below(2)) {
                file.set_len(4092).unwrap();
            }
        }
    }

    /// What a disk, or somebody, does to a log.
    fn damage_log(&mut self, segments: &[Segment], numbers: &mut Numbers) {
        let segment = &segments[numbers.below(segments.len())];
        let path = self.file(segment.base, "log");
        let Ok(mut bytes) = fs::read(&path) else { return };
        if bytes.is_empty() {
            return;
        }
        let at = numbers.below(bytes.len());
        let batch = numbers.below(segment.entries.len());
        let mut entries: Vec<&[u8]> = segment.entries.iter().map(|entry| &*entry.bytes).collect();
        let what = match numbers.below(9) {
            0 | 1 => {
                bytes[at] ^= 1 << numbers.below(8);
                "bit"
            }
            2 => {
                bytes.truncate(at);
                "cut"
            }
            3 => {
                let end = (at + 1 + numbers.below(3000)).min(bytes.len());
                bytes[at..end].fill(0);
                "zeros"
            }
            4 => {
                entries.swap(batch, (batch + 1) % segment.entries.len());
                bytes = entries.concat();
                "swapped batches"
            }
            5 => {
                entries.insert(batch, entries[batch]);
                bytes = entries.concat();
                "a batch twice"
            }
            6 | 7 => {
                let before: usize = entries[..batch].iter().map(|entry| entry.len()).sum();
                let at = (before + numbers.below(entries[batch].len().min(61))).min(bytes.len() - 1);
                bytes[at] ^= 1 << numbers.below(8);
                "bit of a header"
            }
            _ => {
                entries.remove(batch);
                bytes = entries.concat();
                "a batch missing"
            }
        };
        self.is_sound_but_tail = false;
        self.first_damaged = self.first_damaged.min(segment.base);
        self.done.push(format!("{what} in {} at {at} or batch {batch}", segment.base));
        fs::write(path, bytes).unwrap();
    }

    fn damage_index(&mut self, segments: &[Segment], numbers: &mut Numbers) {
        let segment = &segments[numbers.below(segments.len())];
        let kind = ["index", "timeindex", "txnindex"][numbers.below(3)];
        let path = self.file(segment.base, kind);
        let Ok(mut bytes) = fs::read(&path) else { return };
        let what = numbers.below(4);
        match what {
            0 => fs::remove_file(&path).unwrap(),
            1 => bytes.truncate(numbers.below(bytes.len())),
            2 => bytes = numbers.bytes(100),
            _ => bytes.resize(bytes.len() + 1000, 0),
        }
        if what > 0 {
            fs::write(&path, bytes).unwrap();
        }
        self.done.push(format!("{} {what}", path.file_name().unwrap().to_str().unwrap()));
        self.has_bad_index = true;
        self.first_damaged = self.first_damaged.min(segment.base);
    }

    fn damage_state(&mut self, segments: &[Segment], numbers: &mut Numbers) {
        let snapshots: Vec<_> =
            files(&self.partition()).into_iter().filter(|(name, _)| name.ends_with(".snapshot")).collect();
        let epochs = self.partition().join("leader-epoch-checkpoint");
        let what = numbers.below(6);
        match what {
            0 => snapshots.iter().for_each(|(_, path)| fs::remove_file(path).unwrap()),
            1 if !snapshots.is_empty() => {
                fs::remove_file(&snapshots[numbers.below(snapshots.len())].1).unwrap();
            }
            2 if !snapshots.is_empty() => {
                let (_, path) = &snapshots[numbers.below(snapshots.len())];
                let mut bytes = fs::read(path).unwrap();
                bytes.truncate(numbers.below(bytes.len()));
                fs::write(path, bytes).unwrap();
            }
            3 if !snapshots.is_empty() => {
                fs::copy(&snapshots[0].1, self.file(segments[0].base + 1_000_000, "snapshot")).unwrap();
            }
            4 => {
                fs::write(self.file(segments[0].base + 1, "index"), b"an orphan").unwrap();
                fs::write(self.file(segments[0].base + 1, "log.deleted"), b"gone").unwrap();
                fs::write(self.partition().join("notes.txt"), b"somebody's").unwrap();
            }
            _ => {
                if epochs.exists() {
                    fs::remove_file(epochs).unwrap();
                }
                self.has_epochs = false;
            }
        }
        self.done.push(format!("state {what}"));
    }

    /// Two segments become one without some of their batches, up to one of the steps of Kafka's `replaceSegments`.
    fn interrupt_compaction(&mut self, segments: &[Segment], numbers: &mut Numbers) {
        let first = numbers.below(segments.len() - 2);
        let old = &segments[first..first + 2];
        let base = old[0].base;
        let entries = old.iter().flat_map(|segment| &segment.entries);
        let kept: Vec<&Entry> =
            entries.filter(|entry| entry.transaction.is_some() || numbers.below(3) > 0).collect();
        if kept.is_empty() || old.iter().any(|old| !self.file(old.base, "log").exists()) {
            return;
        }
        let new = self.scratch.path().join("t-1");
        fs::create_dir(&new).unwrap();
        let bytes: Vec<u8> = kept.iter().flat_map(|entry| entry.bytes.iter().copied()).collect();
        fs::write(new.join(format!("{base:020}.log")), bytes).unwrap();
        recover(&new, &self.quarantine(), 0);
        let kinds = ["log", "index", "timeindex", "txnindex"];
        let made: Vec<_> =
            kinds.iter().filter(|kind| new.join(format!("{base:020}.{kind}")).exists()).collect();
        let stage = numbers.below(5);
        let step = numbers.below(made.len() + 1);
        let is_deleted = |number: usize| match stage {
            0 | 1 => false,
            2 => number == 0,
            _ => true,
        };
        for (number, segment) in old.iter().enumerate().filter(|(number, _)| is_deleted(*number)) {
            for kind in kinds {
                let path = self.file(segment.base, kind);
                if path.exists() && (number > 0 || stage > 2 || kind == "log") {
                    fs::rename(&path, self.file(segment.base, &format!("{kind}.deleted"))).unwrap();
                }
            }
        }
        for (number, kind) in made.iter().enumerate() {
            let suffix = match (stage, number < step) {
                (0, false) => ".cleaned",
                (4, true) => "",
                _ => ".swap",
            };
            fs::copy(new.join(format!("{base:020}.{kind}")), self.file(base, &format!("{kind}{suffix}")))
                .unwrap();
        }
        self.is_swapped = true;
        self.done.push(format!("compaction of {base} and {}, stage {stage}, step {step}", old[1].base));
    }
}

/// Recovers a partition whatever it takes; what was done.
pub fn recover(partition: &Path, quarantine: &Path, recovery_point: i64) -> Plan {
    fs::create_dir_all(quarantine).unwrap();
    let known = Known {
        recovery_point: Offset(recovery_point),
        log_start: None,
        index_interval_bytes: INTERVAL,
        limits: Limits::default(),
    };
    let plan = Plan::new(partition, &TopicPartition { topic: "t".to_owned(), partition: 0 }, &known).unwrap();
    plan.apply(&SystemDisk, Some(quarantine)).unwrap();
    plan
}

/// Makes the log of a number, with all that belongs to it.
pub fn sound(seed: u64, partition: &Path) {
    let segments = draw_log(&mut Numbers::new(seed));
    fs::create_dir(partition).unwrap();
    for segment in &segments {
        fs::write(partition.join(format!("{:020}.log", segment.base)), segment.bytes()).unwrap();
    }
    let quarantine = scratch();
    recover(partition, quarantine.path(), 0);
}

/// Segments with transactions, idempotent producers and growing leader epochs; some logs begin in an old format.
fn draw_log(numbers: &mut Numbers) -> Vec<Segment> {
    let mut next = if numbers.below(4) == 0 { 5_000_000_000 } else { 0 };
    let (mut epoch, mut open) = (0, Vec::new());
    let old = if numbers.below(4) == 0 { numbers.below(2) + 1 } else { 0 };
    let has_times = numbers.below(2) == 0;
    let mut segments = Vec::new();
    for number in 0..2 + numbers.below(4) {
        let magic = if number < old { u8::from(number > 0 || has_times) } else { 2 };
        let mut segment = Segment { base: next, entries: Vec::new() };
        for _ in 0..3 + numbers.below(12) {
            if numbers.below(10) == 0 {
                next += 3;
            }
            if numbers.below(10) == 0 {
                epoch += 1;
            }
            for mut entry in draw_batch(next, magic, &mut open, numbers) {
                if magic == 2 {
                    entry.bytes[12..16].copy_from_slice(&i32::to_be_bytes(epoch));
                }
                next = entry.last + 1;
                segment.entries.push(entry);
            }
        }
        segments.push(segment);
    }
    segments
}

fn draw_batch(next: i64, magic: u8, open: &mut Vec<i64>, numbers: &mut Numbers) -> Vec<Entry> {
    let producer = i64::try_from(numbers.below(4)).unwrap();
    if magic == 2 && numbers.below(4) == 0 && open.contains(&producer) {
        open.retain(|one| *one != producer);
        let mut entries = batches::encode(&batches::Plan::marker(next, producer, numbers.below(2) == 0));
        set_time(&mut entries[0].bytes, FIRST_TIME + next % 100_000 * 1000);
        return entries;
    }
    let codecs =
        [Compression::None, Compression::None, Compression::Gzip, Compression::Lz4, Compression::Snappy];
    let count = i64::try_from(1 + numbers.below(5)).unwrap();
    let records = (0..count).map(|number| record(next + number, numbers)).collect();
    let mut plan = batches::Plan::of(records, codecs[numbers.below(codecs.len())]).with_magic(magic);
    match numbers.below(3) {
        _ if magic < 2 => {}
        0 => {
            (plan.producer, plan.is_transactional) = (producer, true);
            if !open.contains(&producer) {
                open.push(producer);
            }
        }
        1 => plan.producer = 10 + producer,
        _ => {}
    }
    batches::encode(&plan)
}

/// Sets both timestamps of a batch of magic 2.
fn set_time(batch: &mut [u8], time: i64) {
    batch[27..35].copy_from_slice(&time.to_be_bytes());
    batch[35..43].copy_from_slice(&time.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

fn record(offset: i64, numbers: &mut Numbers) -> ShownRecord {
    let noise = i64::try_from(numbers.below(5000)).unwrap();
    let timestamp = FIRST_TIME + (offset % 100_000) * 1000 + noise;
    let len = numbers.below(150);
    ShownRecord { offset, timestamp, key: None, value: Some(numbers.bytes(len)), headers: Vec::new() }
}
