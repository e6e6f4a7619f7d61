//! `by-key`: random partitions against a plain list of their records, all partitions of the brokers against what Kafka's consumer
//! was given, and what happens to the index's own files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::batches::{self, Plan};
use common::fixtures::{self, Reading};
use common::model::{self, Directory, Isolation, Model, Numbers, Segment};
use common::mounted::{self, Mounted, topicfs};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::fs::options::Options;
use topicfs::fs::topic_options::TopicOptions;
use topicfs::fs::walk::ReadError;
use topicfs::fs::{Fs, FsError, key_names};
use topicfs::view::format::Formats;
use topicfs::view::selection::Effort;

/// Keys whose names need care, and some that don't.
fn keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = [
        "",
        "a",
        "b",
        ".",
        "..",
        "a/b",
        "/",
        "%",
        "%41",
        "report.json",
        "x.log",
        "README",
        "README.txt",
        ".hidden",
        "é",
        "a b",
    ]
    .iter()
    .map(|key| key.as_bytes().to_vec())
    .collect();
    keys.push(vec![0, 1, 2, 0xff, b'\n']);
    keys.push(b"k".repeat(64));
    keys.push(b"k".repeat(65));
    keys.push(b"l".repeat(300));
    keys.push([b"l".repeat(300), b"2".to_vec()].concat());
    keys.push((0..=255).cycle().take(5000).collect());
    keys
}

/// A random log: gaps, null and odd keys, tombstones, transactions, all magics and codecs, several segments.
struct Random {
    numbers: Numbers,
    keys: Vec<Vec<u8>>,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { numbers: Numbers::new(seed), keys: keys() }
    }

    fn record(&mut self, offset: i64) -> ShownRecord {
        let few = if self.numbers.below(2) == 0 { 3 } else { self.keys.len() };
        let key = match self.numbers.below(8) {
            0 => None,
            _ => Some(self.keys[self.numbers.below(few)].clone()),
        };
        let value = match self.numbers.below(5) {
            0 => None,
            1 => Some(Vec::new()),
            _ => Some(format!("value {offset} {}", "x".repeat(self.numbers.below(40))).into_bytes()),
        };
        ShownRecord { offset, timestamp: 1_700_000_000_000 + offset, key, value, headers: Vec::new() }
    }

    /// The entries of a batch at `next` or a little behind.
    fn batch(&mut self, next: i64) -> Vec<batches::Entry> {
        if self.numbers.below(6) == 0 {
            let producer = i64::try_from(self.numbers.below(3)).unwrap() + 1;
            return batches::encode(&Plan::marker(next, producer, self.numbers.below(2) == 0));
        }
        let base = next + i64::try_from(self.numbers.below(3)).unwrap();
        let mut at = base;
        let mut records = Vec::new();
        for _ in 0..self.numbers.below(6) {
            at += i64::try_from(self.numbers.below(8) / 6).unwrap();
            records.push(self.record(at));
            at += 1;
        }
        let codec = [Compression::None, Compression::None, Compression::Gzip, Compression::Lz4]
            [self.numbers.below(4)];
        let mut plan = Plan::of(records, codec);
        (plan.base, plan.last) = (base, (at - 1).max(base));
        if self.numbers.below(3) == 0 {
            plan.producer = i64::try_from(self.numbers.below(3)).unwrap() + 1;
            plan.is_transactional = true;
        } else if self.numbers.below(4) == 0 {
            plan = plan.with_magic(u8::try_from(self.numbers.below(2)).unwrap());
        }
        batches::encode(&plan)
    }

    fn grow(&mut self, model: &mut Model, batches: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..batches {
            let new = self.batch(model.log_end());
            bytes.extend(new.iter().flat_map(|entry| entry.bytes.clone()));
            model.segments.last_mut().unwrap().entries.extend(new);
        }
        bytes
    }

    fn roll(&mut self, model: &mut Model) {
        let base = model.log_end().max(model.segments.last().map_or(0, |segment| segment.base + 1));
        model.segments.push(Segment { base, entries: Vec::new() });
    }

    fn log(&mut self) -> Model {
        let first = [0, 17, 5_000_000_000][self.numbers.below(3)];
        let mut model =
            Model { segments: vec![Segment { base: first, entries: Vec::new() }], ..Model::default() };
        for number in 0..=self.numbers.below(4) {
            if number > 0 {
                self.roll(&mut model);
            }
            let batches = self.numbers.below(9);
            self.grow(&mut model, batches);
        }
        if self.numbers.below(3) == 0 {
            let span = usize::try_from(model.log_end() - first).unwrap();
            model.checkpoint = Some(first + i64::try_from(self.numbers.below(span + 1)).unwrap());
        }
        model
    }
}

fn is_absent(fs: &Fs, path: &str) -> bool {
    matches!(shown::try_read(fs, path), Err(ReadError::Fs(FsError::NotFound)))
}

/// Everything that `by-key` of the partition at `path` shows is what these records say.
fn check(fs: &Fs, path: &str, records: &[ShownRecord]) {
    let mut of_keys: BTreeMap<Vec<u8>, Vec<ShownRecord>> =
        keys().into_iter().map(|key| (key, Vec::new())).collect();
    for record in records {
        if let Some(key) = &record.key {
            of_keys.entry(key.clone()).or_default().push(record.clone());
        }
    }
    let mut live = BTreeSet::from(["README.txt".to_owned()]);
    for (key, history) in &of_keys {
        let name = key_names::build(key, &Formats::default());
        let file = format!("{path}/by-key/{name}");
        for extension in ["log", "dump", "key.json"] {
            assert!(is_absent(fs, &format!("{file}.{extension}")), "{file}.{extension}");
        }
        let Some(latest) = history.last() else {
            for extension in ["", ".jsonl", ".txt", ".json", ".key"] {
                // `README.txt` is ours.
                let is_ours = name == "README" && extension == ".txt";
                assert!(is_ours || is_absent(fs, &format!("{file}{extension}")), "{file}{extension}");
            }
            continue;
        };
        match &latest.value {
            Some(value) => {
                assert!(shown::read(fs, &file) == *value, "{file}");
                live.insert(name.clone());
            }
            None => assert!(is_absent(fs, &file), "{file}"),
        }
        assert!(shown::read(fs, &format!("{file}.key")) == *key, "{file}.key");
        let pretty: serde_json::Value =
            serde_json::from_slice(&shown::read(fs, &format!("{file}.json"))).unwrap();
        assert_eq!(pretty["offset"], latest.offset, "{file}.json");
        check_history(fs, &file, history);
    }
    if fs.options().topic.by_key_listed == Some(true) {
        let names = shown::names(fs, &format!("{path}/by-key"));
        assert_eq!(names, live.into_iter().collect::<Vec<_>>(), "{path}");
    }
}

fn check_history(fs: &Fs, file: &str, history: &[ShownRecord]) {
    // `README.txt` is ours; another spelling of the key has it.
    let text = if file.ends_with("/README") { file.replace("/README", "/%52EADME") } else { file.to_owned() };
    for (path, expected) in [
        (format!("{text}.txt"), Some(model::text(history))),
        (format!("{file}.tsv"), Some(model::tsv(history))),
        (format!("{file}.jsonl"), None),
    ] {
        let read = shown::read(fs, &path);
        let node = fs.resolve(&path).unwrap();
        let size = fs.attributes(0, &node, Effort::All).unwrap().size;
        assert_eq!(size, read.len() as u64, "{path}");
        match expected {
            Some(expected) => assert!(read == expected, "{path}: {:?}", String::from_utf8_lossy(&read)),
            None => assert_eq!(shown::records(&read), history, "{path}"),
        }
        let content = fs.content(0, &node).unwrap();
        for at in [0, 1, read.len() / 2, read.len(), read.len() + 5] {
            let mut part = Vec::new();
            fs.read_content(&content, at as u64, 50, &mut part).unwrap();
            assert!(part == read[at.min(read.len())..(at + 50).min(read.len())], "{path} at {at}");
        }
    }
}

fn check_both(fs: &Fs, model: &Model) {
    check(fs, "t/0", &model.records(Isolation::Uncommitted));
    check(fs, "t/0@committed", &model.records(Isolation::Committed));
}

fn options(max_memory: u64, cache: Option<&Path>) -> Options {
    Options {
        topic: TopicOptions { by_key_listed: true, ..TopicOptions::default() }.choices(),
        by_key_max_memory: max_memory,
        cache_dir: cache.map(Path::to_owned),
        ..Options::default()
    }
}

#[test]
fn random_logs_are_shown_as_their_records() {
    for seed in 0..60 {
        let model = Random::new(seed).log();
        let directory = Directory::of(&model);
        let fs = shown::open(directory.spec(), options([0, 1 << 20][usize::from(seed % 2 == 0)], None));
        check_both(&fs, &model);
    }
}

#[test]
fn logs_grow_roll_lose_their_front_and_are_compacted_under_an_open_mount() {
    for seed in 100..130 {
        let mut random = Random::new(seed);
        let mut model = random.log();
        model.checkpoint = None;
        let directory = Directory::of(&model);
        let fs = shown::open(directory.spec(), options(u64::from(seed % 3 == 0) << 20, None));
        check_both(&fs, &model);
        for _ in 0..5 {
            match random.numbers.below(4) {
                0 => {
                    random.roll(&mut model);
                    directory.write_segment(model.segments.last().unwrap().base, b"");
                }
                1 => {
                    let span = usize::try_from(model.log_end() - model.start()).unwrap();
                    let start = model.start() + i64::try_from(random.numbers.below(span + 1)).unwrap();
                    model.checkpoint = Some(start);
                    directory.set_log_start(start);
                    while model.segments.len() > 1 && model.segments[1].base <= start {
                        let gone = model.segments.remove(0);
                        std::fs::remove_file(directory.file(gone.base, "log")).unwrap();
                        model.deleted.extend(gone.entries);
                    }
                }
                2 => compact(&mut random, &mut model, &directory),
                _ => {
                    let bytes = random.grow(&mut model, 3);
                    directory.append(model.segments.last().unwrap().base, &bytes);
                }
            }
            // A listing that is younger than this is made again.
            std::thread::sleep(std::time::Duration::from_millis(25));
            check_both(&fs, &model);
        }
    }
}

/// Puts another file in the place of a sealed segment, from which whole batches are missing.
fn compact(random: &mut Random, model: &mut Model, directory: &Directory) {
    let sealed = model.segments.len() - 1;
    let Some(segment) = model.segments[..sealed].get_mut(random.numbers.below(sealed)) else { return };
    segment.entries.retain(|entry| entry.transaction.is_some() || random.numbers.below(2) == 0);
    let path = directory.file(segment.base, "log");
    let cleaned = path.with_extension("log.swap");
    std::fs::write(&cleaned, segment.bytes()).unwrap();
    std::fs::rename(cleaned, path).unwrap();
}

/// Enough records that the index is worth saving: `count` keys in batches of 50, each key several times.
fn large(count: usize, segments: usize) -> Model {
    let mut model = Model::default();
    let mut numbers = Numbers::new(7);
    let mut offset = 0;
    for _ in 0..segments {
        let mut segment = Segment { base: offset, entries: Vec::new() };
        for _ in 0..count / 50 {
            let record = |number: i64| {
                let key = format!("key-{}", numbers.below(count));
                let value = (numbers.below(5) > 0).then(|| format!("v{number}").into_bytes());
                ShownRecord {
                    offset: number,
                    timestamp: number,
                    key: Some(key.into()),
                    value,
                    headers: Vec::new(),
                }
            };
            let records: Vec<_> = (offset..offset + 50).map(record).collect();
            offset += 50;
            segment.entries.extend(batches::encode(&Plan::of(records, Compression::None)));
        }
        model.segments.push(segment);
    }
    model
}

/// The latest value of each key, tombstones too.
fn latest(model: &Model) -> BTreeMap<Vec<u8>, Option<Vec<u8>>> {
    let records = model.records(Isolation::Uncommitted);
    records.into_iter().filter_map(|record| Some((record.key?, record.value))).collect()
}

fn check_latest(fs: &Fs, model: &Model, step: usize) {
    for (key, value) in latest(model).iter().step_by(step) {
        let path = format!("t/0/by-key/{}", key_names::build(key, &Formats::default()));
        match value {
            Some(value) => assert_eq!(&shown::read(fs, &path), value, "{path}"),
            None => assert!(is_absent(fs, &path), "{path}"),
        }
    }
}

fn saved(cache: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.to_string_lossy().contains("-keys-")).collect()
}

#[test]
fn what_is_saved_of_sealed_segments_is_used_again_and_follows_them() {
    let mut model = large(4000, 4);
    let directory = Directory::of(&model);
    let cache = tempfile::tempdir().unwrap();
    let open = || shown::open(directory.spec(), options(0, Some(cache.path())));
    check_latest(&open(), &model, 97);
    let first = saved(cache.path());
    assert_eq!(first.len(), 1, "{first:?}");
    let written = std::fs::metadata(&first[0]).unwrap();
    check_latest(&open(), &model, 97);
    assert_eq!(saved(cache.path()), first);
    // Read, and not written again.
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(&first[0]).unwrap().ino(), written.ino());
    // Retention takes a segment, and a broker appends: the saved one still serves.
    std::fs::remove_file(directory.file(0, "log")).unwrap();
    model.segments.remove(0);
    let mut random = Random::new(3);
    let bytes = random.grow(&mut model, 20);
    directory.append(model.segments.last().unwrap().base, &bytes);
    let fs = open();
    check_latest(&fs, &model, 97);
    assert_eq!(saved(cache.path()), first);
    // Compaction replaces one: what was saved is of no use any more, neither for this mount nor for the next.
    std::thread::sleep(std::time::Duration::from_millis(25));
    compact(&mut random, &mut model, &directory);
    std::thread::sleep(std::time::Duration::from_millis(25));
    check_latest(&fs, &model, 97);
    check_latest(&open(), &model, 97);
    assert!(!saved(cache.path()).iter().any(|path| first.contains(path)), "{:?}", saved(cache.path()));
}

#[test]
fn whatever_happens_to_a_saved_file_no_answer_is_wrong() {
    let model = large(4000, 3);
    let directory = Directory::of(&model);
    let cache = tempfile::tempdir().unwrap();
    let open = || shown::open(directory.spec(), options(0, Some(cache.path())));
    check_latest(&open(), &model, 997);
    let path = saved(cache.path()).remove(0);
    let sound = std::fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = vec![Vec::new(), b"x".to_vec()];
    for at in (0..sound.len()).step_by(sound.len() / 40) {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        damaged.push(bytes);
        damaged.push(sound[..at].to_vec());
    }
    for bytes in damaged {
        for path in saved(cache.path()) {
            std::fs::remove_file(path).unwrap();
        }
        std::fs::write(&path, bytes).unwrap();
        check_latest(&open(), &model, 397);
    }
    // Damaged, cut and deleted while it is in use.
    let fs = open();
    check_latest(&fs, &model, 397);
    let path = saved(cache.path()).remove(0);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5000).unwrap();
    check_latest(&fs, &model, 397);
    let path = saved(cache.path()).remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].iter_mut().for_each(|byte| *byte ^= 0x55);
    std::fs::write(&path, bytes).unwrap();
    check_latest(&fs, &model, 397);
    for path in saved(cache.path()) {
        std::fs::remove_file(path).unwrap();
    }
    check_latest(&fs, &model, 397);
}

#[test]
fn many_threads_share_one_build() {
    let model = large(8000, 2);
    let directory = Directory::of(&model);
    let fs = shown::open(directory.spec(), options(1 << 20, None));
    std::thread::scope(|scope| {
        for step in [301, 401, 501, 601] {
            let (fs, model) = (&fs, &model);
            scope.spawn(move || check_latest(fs, model, step));
        }
    });
}

/// The names in an open directory, read a few at a time as the kernel does; `between` is called now and then.
fn listed(fs: &Fs, path: &str, mut between: impl FnMut(usize)) -> Vec<String> {
    let mut names = Vec::new();
    let ino = path.split('/').fold(1, |ino, name| fs.lookup(ino, name.as_ref()).unwrap().0.ino);
    let (handle, _) = fs.open_node(ino).unwrap();
    let mut cookie = 0;
    loop {
        let (mut count, before) = (0, names.len());
        fs.read_directory(handle, cookie, |next, entry| {
            if count == 70 {
                return true;
            }
            assert!(next > cookie, "{next} after {cookie}");
            (cookie, count) = (next, count + 1);
            names.push(entry.name.to_str().unwrap().to_owned());
            false
        })
        .unwrap();
        if names.len() == before {
            break;
        }
        between(names.len());
    }
    fs.release(handle);
    names
}

#[test]
fn a_listing_tells_each_key_once_while_the_log_grows() {
    let mut model = large(20_000, 3);
    let directory = Directory::of(&model);
    let fs = shown::open(directory.spec(), options(1 << 20, None));
    let live = |model: &Model| -> BTreeSet<String> {
        let keys = latest(model).into_iter().filter(|(_, value)| value.is_some());
        keys.map(|(key, _)| key_names::build(&key, &Formats::default())).collect()
    };
    let before = live(&model);
    let mut random = Random::new(5);
    let base = model.segments.last().unwrap().base;
    let mut names = listed(&fs, "t/0/by-key", |_| {
        directory.append(base, &random.grow(&mut model, 1));
    });
    assert_eq!(names.drain(..3).collect::<Vec<_>>(), [".", "..", "README.txt"]);
    let once: BTreeSet<String> = names.iter().cloned().collect();
    assert_eq!(once.len(), names.len());
    assert!(once == before && once.len() > 10_000, "{} names, not {}", once.len(), before.len());
    let again: BTreeSet<String> = listed(&fs, "t/0/by-key", |_| {}).drain(3..).collect();
    assert!(again == live(&model));
}

#[test]
fn without_the_option_only_the_readme_is_listed_and_nothing_is_built() {
    let model = large(1000, 1);
    let directory = Directory::of(&model);
    let fs = shown::open(directory.spec(), Options::default());
    assert_eq!(shown::names(&fs, "t/0/by-key"), ["README.txt"]);
    assert!(String::from_utf8(shown::read(&fs, "t/0/by-key/README.txt")).unwrap().contains("by_key.listed"));
    for name in [".git", ".hidden", "README.txt"] {
        let _ = fs.resolve(&format!("t/0/by-key/{name}"));
    }
    let path = directory.file(0, "log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.truncate(10);
    std::fs::write(path, bytes).unwrap();
    assert_eq!(
        shown::read(&fs, "t/0/by-key/README.txt").len(),
        shown::read(&fs, "t/0@committed/by-key/README.txt").len()
    );
}

/// Every key of every partition, as Kafka's consumer saw it.
#[test]
fn the_brokers_partitions_are_shown_as_their_consumers_read_them() {
    let (mut partitions, mut seen) = (0, 0);
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let fs = shown::open(data.to_str().unwrap(), options(1 << 20, None));
            for partition in case.partitions().iter().filter(|partition| partition.dir.starts_with(&data)) {
                if !matches!(partition.reading, Reading::AsOnDisk | Reading::AboveLogStart(_)) {
                    continue;
                }
                let path = format!("{}/{}", partition.topic, partition.number);
                let plain = |records: Vec<fixtures::ExpectedRecord>| -> Vec<ShownRecord> {
                    records.iter().map(ShownRecord::from).collect()
                };
                seen += check_consumed(&fs, &path, &plain(partition.records()));
                if let Some(committed) = partition.committed_differ() {
                    check_consumed(&fs, &format!("{path}@committed"), &plain(committed));
                }
                partitions += 1;
            }
        }
    }
    println!("{partitions} partitions, {seen} keys");
    assert!(partitions > 250 && seen > 5000, "{partitions} partitions, {seen} keys");
}

/// Latest values, histories and names of a partition; the number of keys.
fn check_consumed(fs: &Fs, path: &str, records: &[ShownRecord]) -> usize {
    let mut of_keys: BTreeMap<&[u8], Vec<&ShownRecord>> = BTreeMap::new();
    for record in records {
        if let Some(key) = &record.key {
            of_keys.entry(key).or_default().push(record);
        }
    }
    let mut live = BTreeSet::from(["README.txt".to_owned()]);
    for (key, history) in &of_keys {
        let name = key_names::build(key, &Formats::default());
        let file = format!("{path}/by-key/{name}");
        match &history.last().unwrap().value {
            Some(value) => {
                assert!(shown::read(fs, &file) == *value, "{file}");
                live.insert(name);
            }
            None => assert!(is_absent(fs, &file), "{file}"),
        }
        let shown = shown::records(&shown::read(fs, &format!("{file}.jsonl")));
        assert!(shown.iter().eq(history.iter().copied()), "{file}.jsonl");
    }
    let names = shown::names(fs, &format!("{path}/by-key"));
    assert_eq!(names, live.into_iter().collect::<Vec<_>>(), "{path}");
    of_keys.len()
}

fn single(records: &[(Option<&str>, Option<&str>)]) -> (Directory, Fs) {
    let bytes = |text: &Option<&str>| text.map(|text| text.as_bytes().to_vec());
    let record = |(offset, (key, value)): (i64, &(Option<&str>, Option<&str>))| ShownRecord {
        offset,
        timestamp: 1_700_000_000_000,
        key: bytes(key),
        value: bytes(value),
        headers: Vec::new(),
    };
    let records = (0..).zip(records).map(record).collect();
    let directory = Directory::default();
    directory.write_segment(0, &batches::encode(&Plan::of(records, Compression::None))[0].bytes);
    let fs = shown::open(directory.spec(), options(1 << 20, None));
    (directory, fs)
}

#[test]
fn case_46_null_and_empty_keys_and_values_differ() {
    let (_directory, fs) = single(&[
        (None, Some("no key")),
        (Some(""), Some("empty key")),
        (Some("k"), Some("")),
        (Some("t"), None),
    ]);
    assert_eq!(shown::names(&fs, "t/0/by-key"), ["%", "README.txt", "k"]);
    assert_eq!(shown::read(&fs, "t/0/by-key/%"), b"empty key");
    assert_eq!(shown::read(&fs, "t/0/by-key/k"), b"");
    assert!(is_absent(&fs, "t/0/by-key/t"));
    assert_eq!(shown::read(&fs, "t/0/by-key/t.tsv"), b"3\t1700000000000\tt\t\\N\n");
    assert_eq!(shown::read(&fs, "t/0/by-key/k.tsv"), b"2\t1700000000000\tk\t\n");
    assert_eq!(shown::records(&shown::read(&fs, "t/0/by-key/%.jsonl"))[0].key.as_deref(), Some(&b""[..]));
    assert!(is_absent(&fs, "t/0/by-key/null"));
}

#[test]
fn case_68_the_latest_state_of_each_key_and_all_of_its_records() {
    let (directory, fs) = single(&[
        (Some("a"), Some("1")),
        (Some("b"), Some("1")),
        (Some("a"), Some("2")),
        (Some("b"), None),
        (Some("a"), Some("3")),
    ]);
    assert_eq!(shown::names(&fs, "t/0/by-key"), ["README.txt", "a"]);
    assert_eq!(shown::read(&fs, "t/0/by-key/a"), b"3");
    assert_eq!(shown::read(&fs, "t/0/by-key/a.txt"), b"1\n2\n3\n");
    assert!(is_absent(&fs, "t/0/by-key/b"));
    let offsets =
        |path| shown::records(&shown::read(&fs, path)).iter().map(|record| record.offset).collect::<Vec<_>>();
    assert_eq!(offsets("t/0/by-key/b.jsonl"), [1, 3]);
    let same = |a: &str, b: &str| fs.resolve(a).unwrap() == fs.resolve(b).unwrap();
    assert!(same("t/0/by-key/a", "t/0/by-offset/4") && same("t/0/by-key/%61", "t/0/by-key/a"));
    let record = ShownRecord {
        offset: 5,
        timestamp: 5,
        key: Some(b"b".to_vec()),
        value: Some(b"9".to_vec()),
        headers: Vec::new(),
    };
    directory.append(0, &batches::encode(&Plan::of(vec![record], Compression::Zstd))[0].bytes);
    assert_eq!(shown::read(&fs, "t/0/by-key/b"), b"9");
    assert_eq!(offsets("t/0/by-key/b.jsonl"), [1, 3, 5]);
}

#[test]
fn the_history_of_a_key_that_retention_cuts_is_stale_to_its_holder_and_another_file() {
    let mut model = large(1000, 2);
    let record = |offset| ShownRecord {
        offset,
        timestamp: 5,
        key: Some(b"k".to_vec()),
        value: Some(vec![b'x'; 10]),
        headers: Vec::new(),
    };
    for segment in &mut model.segments {
        let end = segment.entries.last().unwrap().last;
        segment.entries.pop();
        segment.entries.extend(batches::encode(&Plan::of(vec![record(end)], Compression::None)));
    }
    let directory = Directory::of(&model);
    let fs = shown::open(directory.spec(), options(0, None));
    let node = fs.resolve("t/0/by-key/k.txt").unwrap();
    let content = fs.content(0, &node).unwrap();
    let mut out = Vec::new();
    fs.read_content(&content, 0, 100, &mut out).unwrap();
    assert_eq!(out, b"xxxxxxxxxx\nxxxxxxxxxx\n");
    directory.set_log_start(model.segments[1].base);
    let error = fs.read_content(&content, 0, 100, &mut out).unwrap_err();
    assert_eq!(error.errno(), 116, "{error}");
    assert_eq!(shown::read(&fs, "t/0/by-key/k.txt"), b"xxxxxxxxxx\n");
}

#[test]
fn a_mount_shows_the_same() {
    let model = large(3000, 2);
    let directory = Directory::of(&model);
    let Some(mount) = Mounted::with(directory.path(), "by_key.listed=true,by_key.max_memory=100KiB") else {
        return;
    };
    let expected = latest(&model);
    let live: Vec<String> = expected
        .iter()
        .filter(|(_, value)| value.is_some())
        .map(|(key, _)| key_names::build(key, &Formats::default()))
        .collect();
    let mut names = mounted::names(&mount.path("t/0/by-key"));
    names.retain(|name| name != "README.txt");
    let mut sorted = live.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    let records = model.records(Isolation::Uncommitted);
    for (key, value) in expected.iter().step_by(61) {
        let path = mount.path("t/0/by-key").join(key_names::build(key, &Formats::default()));
        match value {
            Some(value) => assert_eq!(&mounted::read(&path), value),
            None => assert_eq!(std::fs::read(&path).unwrap_err().kind(), std::io::ErrorKind::NotFound),
        }
        let history: Vec<_> =
            records.iter().filter(|record| record.key.as_ref() == Some(key)).cloned().collect();
        let path = path.with_extension("jsonl");
        assert_eq!(shown::records(&mounted::read(&path)), history, "{}", path.display());
    }
    assert_eq!(std::fs::read(mount.path(".topicfs/builds")).unwrap(), b"");
}

#[test]
fn topicfs_index_builds_beforehand() {
    let model = large(4000, 3);
    let directory = Directory::of(&model);
    let cache = tempfile::tempdir().unwrap();
    let options = format!("cache_dir={}", cache.path().display());
    let output = topicfs().args(["index", "--by-key", "-o", &options, directory.spec()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(saved(cache.path()).len(), 1);
    check_latest(&shown::open(directory.spec(), self::options(0, Some(cache.path()))), &model, 397);
}

/// Segments of so many records of 60 KB, one in a batch.
fn segments(records: &[i64]) -> Model {
    let mut model = Model::default();
    for (base, records) in (0..).step_by(30).zip(records) {
        let record = |number: i64| ShownRecord {
            offset: number,
            timestamp: 5,
            key: Some(b"k".to_vec()),
            value: Some(vec![b'x'; 60_000]),
            headers: Vec::new(),
        };
        let batch = |number| batches::encode(&Plan::of(vec![record(number)], Compression::None));
        let entries = (base..base + records).flat_map(batch).collect();
        model.segments.push(Segment { base, entries });
    }
    model
}

/// Segments are measured at the same time, also those of one partition; what is small with the rest.
#[test]
fn topicfs_index_measures_all_beforehand() {
    let model = segments(&[30, 30, 30, 30, 2]);
    let directory = Directory::of(&model);
    let cache = tempfile::tempdir().unwrap();
    let options = format!("cache_dir={}", cache.path().display());
    let output = topicfs().args(["index", "-o", &options, directory.spec()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes: u64 = model.segments.iter().map(|segment| segment.bytes().len() as u64).sum();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("1 partitions, {bytes} bytes measured\n"));
    let fs = shown::open(directory.spec(), self::options(0, Some(cache.path())));
    for name in ["log", "log.jsonl"] {
        let node = fs.resolve(&format!("t/0/{name}")).unwrap();
        // Of the small one at the end no more is read than that.
        let size = fs.attributes(0, &node, Effort::Bytes(200_000)).unwrap().size;
        assert_eq!(size, shown::read(&fs, &format!("t/0/{name}")).len() as u64, "{name}");
    }
}

#[test]
fn look_ups_that_wait_for_a_build_hold_nobody_up_and_can_be_interrupted() {
    let model = segments(&[30; 3]);
    let directory = Directory::of(&model);
    let Some(mount) = Mounted::with(directory.path(), "max_read_rate=1MiB") else { return };
    let cat = |name: &str| {
        let mut command = std::process::Command::new("cat");
        command
            .arg(mount.path("t/0/by-key").join(name))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let bytes = model.segments.iter().map(|segment| segment.bytes().len()).sum::<usize>().to_string();
    // More than the mount has threads. The kernel lets those wait for each other that look up the same name.
    let mut waiting: Vec<_> = (0..20).map(|number| cat(&format!("no-{number}"))).collect();
    let found = cat("k");
    mounted::wait_until("a build is told of", || {
        let builds = std::fs::read_to_string(mount.path(".topicfs/builds")).unwrap();
        let fields: Vec<_> = builds.trim_end().split('\t').collect();
        fields.len() == 5
            && fields[..2] == ["t/0", "by-key"]
            && fields[3] == bytes
            && fields[4].ends_with('%')
    });
    assert_eq!(std::fs::read(mount.path("t/0/by-offset/0")).unwrap(), vec![b'x'; 60_000]);
    assert!(std::fs::metadata(mount.path("t/0/by-key/.git")).is_err());
    let mut interrupted = waiting.pop().unwrap();
    let begun = std::time::Instant::now();
    let killed = std::process::Command::new("kill").args(["-TERM", &interrupted.id().to_string()]).status();
    assert!(killed.unwrap().success());
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(interrupted.wait().unwrap().signal(), Some(15));
    assert!(begun.elapsed() < std::time::Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(
        !std::fs::read(mount.path(".topicfs/builds")).unwrap().is_empty(),
        "the build was over before that"
    );
    assert_eq!(found.wait_with_output().unwrap().stdout, vec![b'x'; 60_000]);
    for child in waiting {
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(1));
    }
    assert_eq!(std::fs::read(mount.path(".topicfs/builds")).unwrap(), b"");
}
