//! Random partitions against a plain list of their records: every file, every range, every seek, and growth.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeSet;

use common::batches::{self, Plan};
use common::logs::{BatchPlan, batch, config, data, large_log, small_log};
use common::model::{self, Directory, Isolation, Model, Numbers, Segment};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use proptest::prelude::*;
use topicfs::fs::options::Options;
use topicfs::fs::topic_options::TopicOptions;
use topicfs::fs::{Fs, FsError};
use topicfs::view::format::Formats;
use topicfs::view::selection::Effort;
use topicfs::view::template::Template;

const FORMATS: [&str; 5] = ["txt", "jsonl", "tsv", "log", "own"];

/// A model, and the partition's path in what is to show it.
struct Checked<'a> {
    model: &'a Model,
    isolation: Isolation,
    path: &'static str,
    records: Vec<ShownRecord>,
}

impl<'a> Checked<'a> {
    fn new(model: &'a Model, isolation: Isolation) -> Self {
        let path = if isolation == Isolation::Committed { "t/0@committed" } else { "t/0" };
        Self { model, isolation, path, records: model.records(isolation) }
    }

    fn start(&self) -> i64 {
        self.model.start()
    }

    fn end(&self) -> i64 {
        self.model.end(self.isolation)
    }

    fn between(&self, from: i64, to: i64) -> Vec<ShownRecord> {
        self.records.iter().filter(|record| record.offset >= from && record.offset < to).cloned().collect()
    }

    /// The offset of the `count`-th record from the end, the log's start when there are fewer.
    fn nth_from_end(&self, count: usize) -> i64 {
        self.records.len().checked_sub(count).map_or(self.start(), |at| self.records[at].offset)
    }

    fn end_of_count(&self, from: i64, count: usize) -> i64 {
        let after: Vec<_> = self.records.iter().filter(|record| record.offset >= from).collect();
        after.get(count).map_or(self.end(), |record| record.offset)
    }

    /// Every format of `stem` shows the records from `from` to `to`.
    fn check_formats(&self, fs: &Fs, stem: &str, from: i64, to: i64) {
        let records = self.between(from, to);
        for format in FORMATS {
            let path = format!("{}/{stem}.{format}", self.path);
            let read = shown::read(fs, &path);
            let size = fs.attributes(0, &fs.resolve(&path).unwrap(), Effort::All).unwrap().size;
            assert_eq!(size, read.len() as u64, "size of {path}");
            match format {
                "txt" => {
                    assert!(read == model::text(&records), "{path}: {:?}", String::from_utf8_lossy(&read));
                }
                "tsv" => {
                    assert!(read == model::tsv(&records), "{path}: {:?}", String::from_utf8_lossy(&read));
                }
                "own" => {
                    assert!(
                        read == model::template(&records),
                        "{path}: {:?}",
                        String::from_utf8_lossy(&read)
                    );
                }
                "jsonl" => assert_same(&path, &records, &shown::records(&read)),
                _ => self.check_log(&path, &read, from, to),
            }
        }
    }

    /// `.log` is the whole entries that hold a range.
    fn check_log(&self, path: &str, read: &[u8], from: i64, to: i64) {
        let is_held = |entry: &&batches::Entry| from < to && entry.last >= from && entry.first < to;
        let expected: Vec<u8> =
            self.model.entries().filter(is_held).flat_map(|entry| entry.bytes.clone()).collect();
        assert!(read == expected, "{path}: {} bytes, not {}", read.len(), expected.len());
    }

    fn check_all(&self, fs: &Fs, numbers: &mut Numbers) {
        self.check_formats(fs, "log", self.start(), self.end());
        let tail = fs.options().of_topic("x").tail_records;
        self.check_formats(fs, "tail", self.nth_from_end(usize::try_from(tail).unwrap()), self.end());
        self.check_segments(fs);
        self.check_source_files(fs);
        self.check_counts_from_end(fs);
        self.check_records(fs, numbers);
        for _ in 0..8 {
            self.check_range(fs, numbers);
        }
    }

    fn check_segments(&self, fs: &Fs) {
        let names = shown::names(fs, &format!("{}/by-segment", self.path));
        for format in FORMATS {
            let mut all = Vec::new();
            for name in names.iter().filter(|name| !name.contains('.')) {
                all.extend(shown::read(fs, &format!("{}/by-segment/{name}.{format}", self.path)));
            }
            let log = shown::read(fs, &format!("{}/log.{format}", self.path));
            assert!(all == log, "by-segment/*.{format}: {} bytes, log has {}", all.len(), log.len());
        }
    }

    fn check_source_files(&self, fs: &Fs) {
        for segment in &self.model.segments {
            let path = format!("{}/segments/{:020}.log", self.path, segment.base);
            assert!(shown::read(fs, &path) == segment.bytes(), "{path}");
        }
    }

    fn check_counts_from_end(&self, fs: &Fs) {
        for count in 1..=self.records.len().min(40) {
            let record = &self.records[self.records.len() - count];
            for name in [format!("last-{count}"), format!("-{count}")] {
                let value = shown::read(fs, &format!("{}/by-offset/{name}", self.path));
                assert!(value == record.value.clone().unwrap_or_default(), "{name}");
            }
        }
        let beyond = format!("{}/by-offset/last-{}", self.path, self.records.len() + 1);
        assert!(matches!(fs.resolve(&beyond), Err(FsError::NotFound)), "{beyond}");
    }

    fn check_records(&self, fs: &Fs, numbers: &mut Numbers) {
        let span = usize::try_from(self.end() - self.start()).unwrap_or(0);
        let by_chance = |_| self.start() - 2 + i64::try_from(numbers.below(span + 4)).unwrap();
        let mut offsets: BTreeSet<i64> = (0..40).map(by_chance).filter(|offset| *offset >= 0).collect();
        offsets.extend(self.records.iter().take(20).map(|record| record.offset));
        for offset in offsets {
            let path = format!("{}/by-offset/{offset}", self.path);
            let Some(record) = self.records.iter().find(|record| record.offset == offset) else {
                assert!(matches!(fs.resolve(&path), Err(FsError::NotFound)), "{path} is there");
                continue;
            };
            assert!(shown::read(fs, &path) == record.value.clone().unwrap_or_default(), "{path}");
            assert!(
                shown::read(fs, &format!("{path}.key")) == record.key.clone().unwrap_or_default(),
                "{path}"
            );
            let line = shown::records(&shown::read(fs, &format!("{path}.jsonl")));
            assert_same(&path, std::slice::from_ref(record), &line);
            let entry =
                self.model.entries().find(|entry| (entry.first..=entry.last).contains(&offset)).unwrap();
            assert!(shown::read(fs, &format!("{path}.log")) == entry.bytes, "{path}.log");
        }
    }

    fn check_range(&self, fs: &Fs, numbers: &mut Numbers) {
        let span = usize::try_from(self.end() - self.start()).unwrap_or(0);
        let mut offset = || (self.start() - 3 + i64::try_from(numbers.below(span + 8)).unwrap()).max(0);
        let (a, b) = (offset(), offset());
        let count = 1 + numbers.below(self.records.len() + 2);
        let fewer = 1 + numbers.below(count);
        let from = |offset: i64| offset.max(self.start());
        let to = |offset: i64| offset.max(self.start()).min(self.end());
        let last = |count| self.nth_from_end(count);
        let ranges = [
            (format!("{a}..{b}"), from(a), to(b)),
            (format!("{a}.."), from(a), self.end()),
            (format!("..{b}"), self.start(), to(b)),
            (format!("last-{count}.."), last(count), self.end()),
            (format!("..-{count}"), self.start(), to(last(count))),
            (format!("last-{count}..last-{fewer}"), last(count), to(last(fewer))),
            (format!("{a}..+{fewer}"), from(a), self.end_of_count(from(a), fewer)),
            (format!("-{count}..+{fewer}"), last(count), self.end_of_count(last(count), fewer)),
        ];
        for (name, from, to) in ranges {
            self.check_formats(fs, &format!("by-offset/{name}"), from, to);
            let names = shown::listed_offsets(fs, &format!("{}/by-offset/{name}", self.path));
            let offsets: Vec<i64> = self.between(from, to).iter().map(|record| record.offset).collect();
            assert_eq!(names, offsets, "{name}");
        }
    }

    /// Reads anywhere are slices of the whole, whatever was read or measured before.
    fn check_seeks(&self, open: impl Fn() -> Fs, numbers: &mut Numbers) {
        let range = format!("by-offset/last-{}..", 1 + self.records.len() / 2);
        let names = [
            ("log", ""),
            ("log", ".jsonl"),
            ("log", ".tsv"),
            ("log", ".log"),
            (&range, ".own"),
            ("tail", ""),
        ];
        for (stem, extension) in names {
            let path = format!("{}/{stem}{extension}", self.path);
            let whole = shown::read(&open(), &path);
            for is_measured in [false, true] {
                let fs = open();
                let node = fs.resolve(&path).unwrap();
                if is_measured {
                    fs.attributes(0, &node, Effort::All).unwrap();
                }
                shown::check_slices(&fs, &path, &whole, numbers, 8);
            }
        }
    }
}

fn assert_same(what: &str, expected: &[ShownRecord], shown: &[ShownRecord]) {
    let offsets = |records: &[ShownRecord]| records.iter().map(|record| record.offset).collect::<Vec<_>>();
    assert_eq!(offsets(expected), offsets(shown), "{what}");
    for (expected, shown) in expected.iter().zip(shown) {
        assert!(expected == shown, "{what}: offset {} differs", expected.offset);
    }
}

fn options() -> Options {
    let mut formats = Formats::default();
    formats.add("own", Template::parse(model::TEMPLATE).unwrap()).unwrap();
    let topic = TopicOptions { tail_records: 5, ..TopicOptions::default() };
    Options { topic: topic.choices(), formats: formats.into(), ..Options::default() }
}

fn check_everything(directory: &Directory, model: &Model, seed: u64) {
    let mut numbers = Numbers::new(seed);
    for isolation in [Isolation::Uncommitted, Isolation::Committed] {
        let checked = Checked::new(model, isolation);
        checked.check_all(&shown::open(directory.spec(), options()), &mut numbers);
        checked.check_seeks(|| shown::open(directory.spec(), options()), &mut numbers);
    }
}

proptest! {
    #![proptest_config(config(96, 1))]

    #[test]
    fn small_logs_read_as_their_records(plan in small_log()) {
        let model = plan.model();
        check_everything(&plan.write(&model), &model, plan.seed);
    }
}

proptest! {
    #![proptest_config(config(3, 2))]

    #[test]
    fn large_logs_read_as_their_records(plan in large_log()) {
        let model = plan.model();
        check_everything(&plan.write(&model), &model, plan.seed);
    }

    #[test]
    fn what_a_cache_says_is_what_measuring_says(plan in large_log()) {
        let model = plan.model();
        let directory = plan.write(&model);
        let cache = tempfile::tempdir().unwrap();
        let options = || Options { cache_dir: Some(cache.path().to_owned()), ..options() };
        let open = || shown::open(directory.spec(), options());
        for isolation in [Isolation::Uncommitted, Isolation::Committed] {
            let checked = Checked::new(&model, isolation);
            for _ in 0..2 {
                checked.check_formats(&open(), "log", checked.start(), checked.end());
            }
            let mut numbers = Numbers::new(plan.seed);
            checked.check_seeks(open, &mut numbers);
            checked.check_all(&open(), &mut numbers);
        }
        let is_large = model.segments.iter().any(|segment| segment.bytes().len() > 1 << 20);
        let is_empty = std::fs::read_dir(cache.path()).unwrap().next().is_none();
        prop_assert!(!is_large || !is_empty, "nothing was saved");
    }
}

proptest! {
    #![proptest_config(config(32, 3))]

    #[test]
    fn ranges_as_log_are_segments_that_show_the_same(plan in small_log()) {
        let model = plan.model();
        let directory = plan.write(&model);
        let fs = shown::open(directory.spec(), options());
        let mut numbers = Numbers::new(plan.seed);
        let span = usize::try_from(model.log_end() - model.start()).unwrap_or(0);
        for _ in 0..4 {
            let from = model.start() + i64::try_from(numbers.below(span)).unwrap();
            let to = from + i64::try_from(numbers.below(span)).unwrap();
            let cut = shown::read(&fs, &format!("t/0/by-offset/{from}..{to}.log"));
            let copy = tempfile::tempdir().unwrap();
            let file = copy.path().join("cut.log");
            std::fs::write(&file, cut).unwrap();
            let other = shown::open(file.to_str().unwrap(), options());
            let names = shown::names(&other, "");
            let topic = names.iter().find(|name| !["README.txt", ".topicfs", "topics.tsv"].contains(&name.as_str())).unwrap();
            let mut records = shown::records(&shown::read(&other, &format!("{topic}/0/log.jsonl")));
            let range = from.max(model.start())..to.min(model.log_end());
            records.retain(|record| range.contains(&record.offset));
            let checked = Checked::new(&model, Isolation::Uncommitted);
            assert_same("cut.log", &checked.between(range.start, range.end), &records);
        }
    }
}

/// What a broker may do to a partition while it is mounted.
#[derive(Debug, Clone)]
enum Event {
    Append(Vec<BatchPlan>),
    /// The same, met by readers when only half of it is written.
    AppendInTwo(BatchPlan),
    Roll,
    /// Moves the log's start to so many thousandths of what is there.
    MoveStart(u16),
    /// Deletes the first segment, if it is not the only one.
    Retain,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => prop::collection::vec(batch(1, 0..5), 1..4).prop_map(Event::Append),
        2 => data(1, 1..5).prop_map(Event::AppendInTwo),
        2 => Just(Event::Roll),
        1 => (0_u16..1000).prop_map(Event::MoveStart),
        1 => Just(Event::Retain),
    ]
}

/// A grown log under the same `Fs`.
struct Growing<'a> {
    model: Model,
    directory: Directory,
    fs: &'a Fs,
}

impl Growing<'_> {
    fn happen(&mut self, event: &Event) {
        let base = self.model.segments.last().unwrap().base;
        match event {
            Event::Append(batches) => {
                for batch in batches {
                    for entry in batch.entries(self.model.log_end()) {
                        self.directory.append(base, &entry.bytes);
                        self.model.segments.last_mut().unwrap().entries.push(entry);
                    }
                }
            }
            Event::AppendInTwo(batch) => {
                for entry in batch.entries(self.model.log_end()) {
                    let (half, rest) = entry.bytes.split_at(entry.bytes.len() / 2);
                    self.directory.append(base, half);
                    self.check();
                    self.directory.append(base, rest);
                    self.model.segments.last_mut().unwrap().entries.push(entry);
                }
            }
            Event::Roll => {
                let next = self.model.log_end();
                if next > base {
                    self.directory.write_segment(next, b"");
                    self.model.segments.push(Segment { base: next, entries: Vec::new() });
                }
            }
            Event::MoveStart(part) => {
                let (start, end) = (self.model.start(), self.model.log_end());
                let to = start + (end - start) * i64::from(*part) / 1000;
                self.directory.set_log_start(to);
                self.model.checkpoint = Some(to);
            }
            Event::Retain if self.model.segments.len() > 1 => {
                let first = self.model.segments.remove(0);
                std::fs::remove_file(self.directory.file(first.base, "log")).unwrap();
                self.model.deleted.extend(first.entries);
            }
            Event::Retain => {}
        }
        // Directory times have a grain; a listing that is younger than it is made again.
        std::thread::sleep(std::time::Duration::from_millis(25));
    }

    fn check(&self) {
        for isolation in [Isolation::Uncommitted, Isolation::Committed] {
            let checked = Checked::new(&self.model, isolation);
            checked.check_formats(self.fs, "log", checked.start(), checked.end());
            checked.check_segments(self.fs);
            checked.check_counts_from_end(self.fs);
            checked.check_range(self.fs, &mut Numbers::new(7));
        }
    }
}

proptest! {
    #![proptest_config(config(32, 4))]

    #[test]
    fn logs_grow_roll_and_lose_their_front_under_an_open_mount(
        plan in small_log(),
        events in prop::collection::vec(event(), 1..6),
    ) {
        let model = plan.model();
        let directory = plan.write(&model);
        let fs = shown::open(directory.spec(), options());
        let mut growing = Growing { model, directory, fs: &fs };
        growing.check();
        let start = growing.model.start();
        let held: Vec<_> = ["log", "log.jsonl", "tail.tsv"]
            .iter()
            .map(|name| {
                let node = fs.resolve(&format!("t/0/{name}")).unwrap();
                let content = fs.content(0, &node).unwrap();
                let before = shown::read(&fs, &format!("t/0/{name}"));
                (*name, content, before)
            })
            .collect();
        let mut is_cut = false;
        for event in &events {
            let first = growing.model.segments[0].base;
            growing.happen(event);
            is_cut |= growing.model.segments[0].base > first;
            growing.check();
        }
        // Bytes are stable: who has a file open sees the same, and more at its end.
        let of_holder = Model { checkpoint: Some(start), ..growing.model.clone() };
        for (name, content, before) in held.iter().filter(|_| !is_cut) {
            let mut read = Vec::new();
            fs.read_content(content, 0, 1 << 26, &mut read).unwrap();
            prop_assert!(read.starts_with(before), "{name} changed");
            let is_whole = read == model::text(&of_holder.records(Isolation::Uncommitted));
            prop_assert!(*name != "log" || is_whole, "{name} did not grow with the log: {} bytes", read.len());
        }
    }
}

fn plain(offset: i64) -> ShownRecord {
    let value = Some(format!("v{offset}").into_bytes());
    ShownRecord { offset, timestamp: 5, key: None, value, headers: Vec::new() }
}

fn plan(first: i64, last: i64, codec: Compression) -> Plan {
    Plan::of((first..=last).map(plain).collect(), codec)
}

#[test]
fn an_empty_range_in_the_midst_of_a_batch_has_no_bytes_as_log() {
    let directory = Directory::default();
    directory.write_segment(0, &batches::encode(&plan(0, 5, Compression::None))[0].bytes);
    let fs = shown::open(directory.spec(), options());
    for name in ["2..2.log", "4..1.log", "last-2..last-2.log", "2..+0.log"] {
        assert_eq!(shown::read(&fs, &format!("t/0/by-offset/{name}")), b"", "{name}");
    }
}

#[test]
fn ranges_begin_and_end_within_compressed_sets_of_old_magics() {
    for magic in [0, 1] {
        let directory = Directory::default();
        directory
            .write_segment(0, &batches::encode(&plan(0, 5, Compression::Gzip).with_magic(magic))[0].bytes);
        let fs = shown::open(directory.spec(), options());
        assert_eq!(shown::read(&fs, "t/0/by-offset/0..2.txt"), b"v0\nv1\n");
        assert_eq!(shown::read(&fs, "t/0/by-offset/2..4.txt"), b"v2\nv3\n");
        assert_eq!(shown::read(&fs, "t/0/by-offset/..last-3.txt"), b"v0\nv1\nv2\n");
    }
}

#[test]
fn a_half_written_compressed_set_is_not_read_as_the_messages_in_it() {
    for magic in [0, 1] {
        let set = |first, last| {
            batches::encode(&plan(first, last, Compression::Snappy).with_magic(magic)).remove(0).bytes
        };
        let directory = Directory::default();
        directory.write_segment(0, &set(0, 1));
        let fs = shown::open(directory.spec(), options());
        let next = set(2, 6);
        directory.append(0, &next[..next.len() - 20]);
        assert_eq!(shown::read(&fs, "t/0/log"), b"v0\nv1\n", "magic {magic}");
        directory.append(0, &next[next.len() - 20..]);
        assert_eq!(shown::read(&fs, "t/0/log"), b"v0\nv1\nv2\nv3\nv4\nv5\nv6\n", "magic {magic}");
    }
}

#[test]
fn an_open_committed_log_goes_on_when_a_transaction_in_a_sealed_segment_is_decided() {
    let mut transaction = plan(0, 1, Compression::None);
    (transaction.producer, transaction.is_transactional) = (7, true);
    let directory = Directory::default();
    directory.write_segment(0, &batches::encode(&transaction)[0].bytes);
    directory.write_segment(2, &batches::encode(&plan(2, 3, Compression::None))[0].bytes);
    let fs = shown::open(directory.spec(), options());
    let content = fs.content(0, &fs.resolve("t/0@committed/log").unwrap()).unwrap();
    let read = || {
        let mut out = Vec::new();
        fs.read_content(&content, 0, 1 << 20, &mut out).unwrap();
        out
    };
    assert_eq!(read(), b"");
    directory.append(2, &batches::encode(&Plan::marker(4, 7, true))[0].bytes);
    assert_eq!(read(), b"v0\nv1\nv2\nv3\n");
}
