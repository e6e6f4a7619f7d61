//! Logs of records with few keys, drawn at random and appended to a partition directory: what compaction and retention are tried on.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use kafka_protocol::records::Compression;

use super::batches::{self, Entry, Plan};
use super::model::Numbers;
use super::salvaged::files;
use super::shown::ShownRecord;

/// No producer of such a time has expired where the driver's `load` takes the system's clock.
pub const FIRST_TIME: i64 = 4_000_000_000_000;

/// What there is in a log.
#[derive(Debug, Clone)]
pub struct Traits {
    /// So many different keys.
    pub keys: usize,
    pub has_null_keys: bool,
    pub has_producers: bool,
    pub has_transactions: bool,
    /// Markers have a producer epoch of their own (KIP-890).
    pub has_bumps: bool,
    /// Whether transactions are left open when a round ends.
    pub stays_open: bool,
    /// So many segments at the beginning are of magic 0 or 1.
    pub legacy: usize,
    pub is_compressed: bool,
    /// Timestamps go up.
    pub is_ordered: bool,
    /// Some segments have timestamps in the future, or none.
    pub has_odd_times: bool,
    /// Segments are said to have been written long before or after their records.
    pub has_odd_files: bool,
    /// Batches that compaction has emptied before, and offsets that it has left out.
    pub has_gaps: bool,
}

impl Traits {
    /// Some of them.
    pub fn draw(numbers: &mut Numbers) -> Self {
        let mut one_of = |count| numbers.below(count) == 0;
        let mut traits = Self {
            keys: 0,
            has_null_keys: one_of(4),
            has_producers: one_of(2),
            has_transactions: one_of(2),
            has_bumps: one_of(2),
            stays_open: one_of(3),
            legacy: 0,
            is_compressed: one_of(2),
            is_ordered: one_of(2),
            has_odd_times: one_of(5),
            has_odd_files: one_of(4),
            has_gaps: one_of(2),
        };
        traits.keys = [3, 8, 8, 20, 60][numbers.below(5)];
        traits.legacy = [0, 0, 0, 1, 2, 3][numbers.below(6)];
        traits
    }
}

/// One that writes with a producer id.
#[derive(Debug, Clone, Default)]
struct Producer {
    epoch: i16,
    /// The next one.
    sequence: i32,
    is_open: bool,
}

/// The timestamps of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Times {
    Usual,
    Future,
    None,
}

/// A log that goes on.
#[derive(Debug, Clone)]
pub struct KeyedLog {
    pub traits: Traits,
    /// All that was ever appended, in order.
    pub entries: Vec<Entry>,
    /// The next offset.
    pub end: i64,
    /// When the last batch was appended, in milliseconds.
    pub time: i64,
    numbers: Numbers,
    leader_epoch: i32,
    producers: BTreeMap<i64, Producer>,
    segments: usize,
    times: Times,
}

impl KeyedLog {
    /// An empty one.
    pub fn new(traits: Traits, mut numbers: Numbers) -> Self {
        let end = if numbers.below(5) == 0 { 5_000_000_000 } else { 0 };
        Self {
            traits,
            entries: Vec::new(),
            end,
            time: FIRST_TIME,
            numbers,
            leader_epoch: 0,
            producers: BTreeMap::new(),
            segments: 0,
            times: Times::Usual,
        }
    }

    /// The offsets of the records of transactions that were aborted, and of the marker of each.
    pub fn aborted(&self) -> BTreeMap<i64, i64> {
        let (mut open, mut aborted) = (BTreeMap::<i64, Vec<i64>>::new(), BTreeMap::new());
        for entry in &self.entries {
            let Some(producer) = entry.transaction else { continue };
            let offsets = entry.records.iter().map(|record| record.offset);
            match entry.marker {
                None => open.entry(producer).or_default().extend(offsets),
                Some(commits) => {
                    let offsets = open.remove(&producer).unwrap_or_default().into_iter();
                    aborted.extend(offsets.filter(|_| !commits).map(|offset| (offset, entry.first)));
                }
            }
        }
        aborted
    }

    /// Appends to the active segment of a directory, and begins so many more; the base offset of the first that was written to.
    pub fn append(&mut self, partition: &Path, segments: usize) -> i64 {
        let active = files(partition).into_keys().rfind(|name| name.ends_with(".log"));
        let first = active.map_or(self.end, |name| name[..20].parse().expect("a base offset"));
        let mut base = first;
        for number in 0..=segments {
            self.draw_segment(partition, base, number == segments);
            let gap = if self.traits.has_gaps { self.numbers.below(6).saturating_sub(2) } else { 0 };
            base = self.end + i64::try_from(gap).expect("a small number");
        }
        first
    }

    /// One segment of a few batches, or one that has just begun.
    fn draw_segment(&mut self, partition: &Path, base: i64, is_last: bool) {
        self.end = self.end.max(base);
        let size = if is_last && self.numbers.below(4) == 0 { 0 } else { 300 + self.numbers.below(3000) };
        if size > 0 && self.numbers.below(4) > 0 {
            // The base offset is a lower bound.
            self.gap();
        }
        self.times = match self.numbers.below(4) {
            0 if self.traits.has_odd_times => Times::Future,
            1 if self.traits.has_odd_times => Times::None,
            _ => Times::Usual,
        };
        let mut bytes = Vec::new();
        while bytes.len() < size {
            for entry in self.draw_entries() {
                bytes.extend(&entry.bytes);
                self.end = entry.last + 1;
                self.entries.push(entry);
            }
        }
        if is_last && !self.traits.stays_open {
            self.end_transactions(&mut bytes);
        }
        self.segments += 1;
        let path = partition.join(format!("{base:020}.log"));
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a segment");
        file.write_all(&bytes).expect("a segment can be written");
    }

    /// Says of each segment from `first` on when it was written; call it when nobody else will write to them.
    pub fn set_times(&mut self, partition: &Path, first: i64) {
        for (path, base) in logs(partition) {
            if base < first {
                continue;
            }
            let next = logs(partition).into_iter().map(|(_, base)| base).find(|next| *next > base);
            let last = self.entries.iter().rfind(|entry| next.is_none_or(|next| entry.first < next));
            let of_records =
                last.and_then(|entry| entry.records.last()).map_or(self.time, |record| record.timestamp);
            let odd = i64::try_from(self.numbers.below(400_000)).expect("a small number") - 200_000;
            let usual = of_records.clamp(FIRST_TIME, self.time);
            set_modified(&path, if self.traits.has_odd_files { self.time + odd } else { usual });
        }
    }

    fn gap(&mut self) {
        if self.traits.has_gaps && self.numbers.below(6) == 0 {
            self.end += 1 + i64::try_from(self.numbers.below(4)).expect("a small number");
        }
    }

    fn draw_entries(&mut self) -> Vec<Entry> {
        self.time += i64::try_from(self.numbers.below(2000)).expect("a small number");
        if self.numbers.below(12) == 0 {
            self.leader_epoch += 1 + i32::from(self.numbers.below(3) == 0);
        }
        self.gap();
        if self.segments < self.traits.legacy {
            return self.draw_legacy();
        }
        if self.traits.has_transactions && self.numbers.below(4) == 0 {
            let open: Vec<i64> = self.open();
            // A marker may also end a transaction that has nothing in this partition.
            let any = i64::try_from(self.numbers.below(4)).expect("a small number");
            let producer = match open.len() {
                0 if self.numbers.below(4) > 0 => return Vec::new(),
                0 => any,
                count => open[self.numbers.below(count)],
            };
            let commits = self.numbers.below(2) == 0;
            return vec![self.marker(producer, commits)];
        }
        vec![self.draw_batch()]
    }

    fn open(&self) -> Vec<i64> {
        self.producers.iter().filter(|(_, producer)| producer.is_open).map(|(id, _)| *id).collect()
    }

    fn draw_legacy(&mut self) -> Vec<Entry> {
        // As after an upgrade: first magic 0, then magic 1.
        let magic = u8::from(self.segments > 0 || self.traits.is_ordered);
        let codecs = [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4];
        let codec = if self.traits.is_compressed { codecs[self.numbers.below(4)] } else { Compression::None };
        let count = 1 + self.numbers.below(6);
        let records = self.draw_records(count);
        let mut plan = Plan::of(records, codec).with_magic(magic);
        if magic == 1 && self.numbers.below(5) == 0 {
            plan.append_time = Some(self.time);
        }
        batches::encode(&plan)
    }

    fn draw_batch(&mut self) -> Entry {
        let codecs =
            [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
        let codec = if self.traits.is_compressed { codecs[self.numbers.below(5)] } else { Compression::None };
        let count =
            1 + if self.numbers.below(3) == 0 { self.numbers.below(20) } else { self.numbers.below(4) };
        let is_empty = self.traits.has_gaps && self.numbers.below(12) == 0;
        let mut plan = if is_empty {
            let mut plan = Plan::of(Vec::new(), Compression::None);
            (plan.base, plan.last) = (self.end, self.end + i64::try_from(count).expect("few") - 1);
            plan
        } else {
            Plan::of(self.draw_records(count), codec)
        };
        if self.numbers.below(6) == 0 && self.times != Times::None {
            plan.append_time = Some(self.time);
        }
        let id = i64::try_from(self.numbers.below(3)).expect("a small number");
        match self.numbers.below(3) {
            0 if self.traits.has_transactions => (plan.producer, plan.is_transactional) = (id, true),
            1 if self.traits.has_producers => plan.producer = 10 + id,
            _ => {}
        }
        let mut entry = batches::encode(&plan).remove(0);
        self.stamp(&mut entry, &plan);
        entry
    }

    fn marker(&mut self, id: i64, commits: bool) -> Entry {
        let plan = Plan::marker(self.end, id, commits);
        let mut entry = batches::encode(&plan).remove(0);
        entry.bytes[27..35].copy_from_slice(&self.time.to_be_bytes());
        entry.bytes[35..43].copy_from_slice(&self.time.to_be_bytes());
        let has_bumps = self.traits.has_bumps;
        let producer = self.producers.entry(id).or_default();
        producer.is_open = false;
        if has_bumps {
            (producer.epoch, producer.sequence) = (producer.epoch + 1, 0);
        }
        self.stamp(&mut entry, &plan);
        entry
    }

    fn end_transactions(&mut self, bytes: &mut Vec<u8>) {
        for id in self.open() {
            let commits = self.numbers.below(2) == 0;
            let entry = self.marker(id, commits);
            bytes.extend(&entry.bytes);
            self.end = entry.last + 1;
            self.entries.push(entry);
        }
    }

    /// Puts the epochs and the sequence number in.
    fn stamp(&mut self, entry: &mut Entry, plan: &Plan) {
        entry.bytes[12..16].copy_from_slice(&self.leader_epoch.to_be_bytes());
        if plan.producer >= 0 {
            let producer = self.producers.entry(plan.producer).or_default();
            let mut sequence = -1;
            if plan.marker.is_none() {
                sequence = producer.sequence;
                producer.sequence += i32::try_from(plan.last - plan.base + 1).expect("few");
                producer.is_open |= plan.is_transactional;
            }
            entry.bytes[51..53].copy_from_slice(&producer.epoch.to_be_bytes());
            entry.bytes[53..57].copy_from_slice(&sequence.to_be_bytes());
        } else {
            entry.bytes[53..57].copy_from_slice(&(-1_i32).to_be_bytes());
        }
        batches::seal(&mut entry.bytes);
    }

    fn draw_records(&mut self, count: usize) -> Vec<ShownRecord> {
        (0..count).map(|number| self.draw_record(self.end + i64::try_from(number).expect("few"))).collect()
    }

    fn draw_record(&mut self, offset: i64) -> ShownRecord {
        let numbers = &mut self.numbers;
        let key = match numbers.below(8) {
            0 if self.traits.has_null_keys => None,
            _ => Some(format!("key-{}", numbers.below(self.traits.keys)).into_bytes()),
        };
        let value = match numbers.below(12) {
            0 | 1 => None,
            2 => Some(Vec::new()),
            _ => {
                let len = numbers.below(60);
                let mut value = format!("{offset} ").into_bytes();
                value.extend(numbers.bytes(len));
                Some(value)
            }
        };
        let noise =
            if self.traits.is_ordered { 0 } else { i64::try_from(numbers.below(20_000)).expect("few") };
        let timestamp = match self.times {
            Times::Usual => self.time - noise,
            Times::Future => self.time + 1_000_000_000,
            Times::None => -1,
        };
        let mut headers = Vec::new();
        if numbers.below(6) == 0 {
            headers.push((b"h".to_vec(), Some(b"v".to_vec())));
            headers.push((b"h".to_vec(), None));
        }
        ShownRecord { offset, timestamp, key, value, headers }
    }
}

/// The logs of a partition directory with their base offsets, in order.
pub fn logs(partition: &Path) -> Vec<(PathBuf, i64)> {
    let logs = files(partition).into_iter().filter_map(|(name, path)| {
        let base = name.strip_suffix(".log")?.parse().ok()?;
        Some((path, base))
    });
    logs.collect()
}

/// Says when a file was written, in milliseconds.
pub fn set_modified(path: &Path, time: i64) {
    let time = UNIX_EPOCH + Duration::from_millis(u64::try_from(time).expect("after 1970"));
    File::options().append(true).open(path).and_then(|file| file.set_modified(time)).expect("a file of ours");
}

/// When a file was written, in milliseconds.
pub fn modified(path: &Path) -> i64 {
    let time = fs::metadata(path).and_then(|metadata| metadata.modified()).expect("a file of ours");
    i64::try_from(time.duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("not so late")
}
