//! Readers of several formats beside each other, of a log that grows and rolls meanwhile: no size goes down, no byte is left out,
//! given twice or changed.
#![expect(clippy::expect_used, reason = "a test says what is wrong by failing")]

mod common;

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use common::batches::{self, Plan};
use common::growing::Growing;
use common::model::Directory;
use common::mounted::{Mounted, wait_until};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::fs::Fs;
use topicfs::fs::follow::Come;
use topicfs::fs::handles::Content;
use topicfs::fs::options::{OnDamage, Options};
use topicfs::fs::topic_options::TopicOptions;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// How many batches are written, and in segments of how many.
const BATCHES: usize = 1500;
const IN_SEGMENT: usize = 20;

/// What is read.
const PATHS: [&str; 5] = ["t/0/log", "t/0/log.jsonl", "t/0/log.tsv", "t/0/tail.jsonl", "t/0/log.log"];

/// Asks for the last record's offset, again and again.
fn ask(fs: &Fs) {
    for _ in 0..1000 {
        for path in ["t/0/offsets/max-timestamp", "t/0/offsets/0000000001", "t/0/by-offset/last-1"] {
            shown::read(fs, path);
        }
    }
}

/// Reads on until all is written and read.
fn read_on(fs: &Fs, path: &str, written: &AtomicBool) -> Vec<u8> {
    let node = fs.resolve(path).expect("a path");
    let content = fs.content(0, &node).expect("a content");
    let mut read = Vec::new();
    loop {
        let is_last = written.load(Ordering::Acquire);
        let before = read.len();
        fs.read_content(&content, before as u64, 100_000, &mut read).expect("it can be read");
        let attributes = fs.attributes(0, &node, topicfs::view::selection::Effort::All).expect("a size");
        assert!(attributes.size >= read.len() as u64, "{path}: {} of {}", attributes.size, read.len());
        if is_last && before == read.len() {
            return read;
        }
    }
}

/// Reads these while `write` goes on, each by two readers.
fn race<'a>(fs: &Fs, paths: &[&'a str], write: impl FnOnce()) -> Vec<(&'a str, Vec<u8>)> {
    let written = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = paths
            .iter()
            .flat_map(|path| [*path, *path])
            .map(|path| (path, scope.spawn(|| read_on(fs, path, &written))))
            .collect();
        write();
        written.store(true, Ordering::Release);
        readers.into_iter().map(|(path, reader)| (path, reader.join().expect("nothing is wrong"))).collect()
    })
}

/// What was read is what somebody reads who comes new to it.
fn check_all(spec: &str, all: Vec<(&str, Vec<u8>)>) {
    let afresh = shown::open(spec, Options::default());
    for (path, read) in all {
        let from = if path.contains("tail") { "t/0/log.jsonl" } else { path };
        let expected = shown::read(&afresh, from);
        let at = read.iter().zip(&expected).position(|(one, other)| one != other);
        let is_right = if path.contains("tail") { expected.ends_with(&read) } else { read == expected };
        let (len, wanted) = (read.len(), expected.len());
        assert!(is_right && !read.is_empty(), "{path}: {len} of {wanted} bytes, other ones at {at:?}");
    }
}

#[test]
fn readers_of_other_formats_and_rolls_hide_nothing() {
    let mut growing = Growing::new();
    growing.append(1);
    let spec = growing.data().to_str().expect("UTF-8").to_owned();
    let fs = shown::open(&spec, Options::default());
    let all = thread::scope(|scope| {
        scope.spawn(|| ask(&fs));
        race(&fs, &PATHS, || {
            for number in 0..BATCHES {
                if number % IN_SEGMENT == 0 {
                    growing.roll();
                }
                growing.append(1);
                thread::sleep(Duration::from_millis(1));
            }
        })
    });
    check_all(&spec, all);
}

/// Transactions of three producers that lie within each other, each fourth aborted, with their markers: a batch's offset and bytes.
fn transactions(count: i64) -> Vec<(i64, Vec<u8>)> {
    let record = |offset: i64| ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: None,
        value: Some(vec![b'v'; 100]),
        headers: Vec::new(),
    };
    let plan = |offset: i64| {
        let number = offset / 2;
        if offset % 2 == 1 {
            // What ends was begun three transactions before.
            return Plan::marker(offset, (number + 1) % 3, number % 4 != 0);
        }
        let mut plan = Plan::of(vec![record(offset)], Compression::None);
        (plan.producer, plan.is_transactional) = (number % 3, true);
        plan
    };
    (0..count).map(|offset| (offset, batches::encode(&plan(offset)).remove(0).bytes)).collect()
}

#[test]
fn transactions_that_are_decided_meanwhile_hide_nothing() {
    let directory = Directory::default();
    let batches = transactions(1500);
    directory.write_segment(0, &[]);
    let paths = ["t/0@committed/log", "t/0@committed/log.jsonl", "t/0@committed/log.tsv", "t/0/log"];
    let fs = shown::open(directory.spec(), Options::default());
    let all = race(&fs, &paths, || {
        let mut base = 0;
        for (offset, bytes) in batches {
            if offset % 40 == 39 {
                base = offset;
                directory.write_segment(base, &[]);
            }
            directory.append(base, &bytes);
            thread::sleep(Duration::from_millis(1));
        }
    });
    check_all(directory.spec(), all);
}

#[test]
fn who_has_read_all_goes_on_when_all_is_removed() {
    let mut growing = Growing::new();
    growing.append(3);
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let mut held = File::open(mounted.path("t/0/log.jsonl")).expect("can be opened");
    let mut read = Vec::new();
    for _ in 0..3 {
        held.read_to_end(&mut read).expect("it goes on");
        assert_eq!(held.metadata().expect("it has a size").len(), read.len() as u64);
        // The active segment is too old: a broker rolls, and removes it at once.
        let old = growing.segment(growing.base());
        growing.roll();
        std::fs::remove_file(old).expect("a segment");
        assert_eq!(held.metadata().expect("it has a size").len(), read.len() as u64);
        growing.append(2);
    }
    held.read_to_end(&mut read).expect("it goes on");
    let mut offsets: Vec<_> = shown::records(&read).into_iter().map(|record| record.offset).collect();
    offsets.dedup();
    assert_eq!(offsets, (0..growing.end()).collect::<Vec<_>>());
}

#[test]
fn an_open_file_is_known_also_when_many_others_were_looked_at() {
    let mut growing = Growing::new();
    for _ in 0..3 {
        growing.append(3);
        growing.roll();
    }
    growing.append(3);
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let mut held = File::open(mounted.path("t/0/log.jsonl")).expect("can be opened");
    let mut read = Vec::new();
    held.read_to_end(&mut read).expect("can be read");
    for offset in 0..1100 {
        let name = format!("t/0/by-offset/{offset}..{}.jsonl", offset + 1);
        let _ = std::fs::metadata(mounted.path(&name));
    }
    std::fs::remove_file(growing.segment(0)).expect("a segment");
    wait_until("gone", || !mounted.path("t/0/by-segment/00000000000000000000").exists());
    growing.append(1);
    assert!(held.metadata().expect("it has a size").len() > read.len() as u64);
    let before = read.len();
    held.read_to_end(&mut read).expect("it goes on");
    assert!(read.len() > before);
    let mut offsets: Vec<_> = shown::records(&read).into_iter().map(|record| record.offset).collect();
    offsets.dedup();
    assert_eq!(offsets, (0..growing.end()).collect::<Vec<_>>());
}

/// A file of a period is made of a run's blocks, and the last of them may grow between being found and being used.
#[test]
fn periods_of_a_log_that_grows_have_each_record_once() {
    let mut growing = Growing::new();
    growing.append(1);
    let spec = growing.data().to_str().expect("UTF-8").to_owned();
    let fs = shown::open(&spec, Options::default());
    let written = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|number| {
                let (fs, written) = (&fs, &written);
                scope.spawn(move || {
                    let path = ["t/0/by-time/2000..2100.jsonl", "t/0/log.jsonl"][number % 2];
                    while !written.load(Ordering::Acquire) {
                        let read = shown::records(&shown::read(fs, path));
                        let offsets: Vec<i64> = read.iter().map(|record| record.offset).collect();
                        let all: Vec<i64> = (0..i64::try_from(offsets.len()).expect("few")).collect();
                        assert_eq!(offsets, all, "{path}");
                    }
                })
            })
            .collect();
        for number in 0..300 {
            if number % 100 == 99 {
                growing.roll();
            }
            growing.append(1);
            thread::sleep(Duration::from_millis(3));
        }
        written.store(true, Ordering::Release);
        readers.into_iter().for_each(|reader| reader.join().expect("nothing is wrong"));
    });
}

/// What is done in the midst of a reading: when the reader first warns of damage. What the scan meets was settled before.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// Does that, and counts the warnings.
#[derive(Clone)]
struct AtWarning {
    todo: Arc<Mutex<Option<Meanwhile>>>,
    warnings: Arc<Mutex<usize>>,
}

impl<S: Subscriber> Layer<S> for AtWarning {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() != tracing::Level::WARN {
            return;
        }
        *self.warnings.lock().expect("no panic") += 1;
        let todo = self.todo.lock().expect("no panic").take();
        if let Some(todo) = todo {
            todo();
        }
    }
}

/// Calls `read`, and does `todo` in its midst; how often it warned.
fn with_meanwhile<T>(todo: Meanwhile, read: impl FnOnce() -> T) -> (T, usize) {
    let layer = AtWarning { todo: Arc::new(Mutex::new(Some(todo))), warnings: Arc::default() };
    let subscriber = tracing_subscriber::registry().with(layer.clone());
    let read = tracing::subscriber::with_default(subscriber, read);
    assert!(layer.todo.lock().expect("no panic").is_none(), "it was not read meanwhile");
    let warnings = *layer.warnings.lock().expect("no panic");
    (read, warnings)
}

/// All that a stream has for now.
fn read_stream(fs: &Fs, path: &str) -> Vec<u8> {
    let content = fs.content(0, &fs.resolve(path).expect("a path")).expect("a content");
    let Content::Follow(file) = content else { return Vec::new() };
    let (mut read, mut has_come) = (Vec::new(), true);
    while has_come {
        // What was written meanwhile is there when it is looked for again.
        has_come = false;
        for _ in 0..2 {
            if let Come::Bytes(bytes) = fs.read_follow(&file, 100_000).expect("it can be read") {
                read.extend_from_slice(&bytes);
                has_come = true;
            }
        }
    }
    read
}

/// How the active segment is when a reader comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Front {
    /// Half a batch is at its end, since long ago.
    Half,
    /// A bad batch is in its midst, and nothing behind the last one.
    Bad,
    /// Both, and it is being written.
    BadAndHalf,
}

/// A log with such a segment, and what makes a sealed one of it: what is missing of the last batch, another one, a new segment
/// with one more, and somebody who lists them.
fn about_to_be_sealed(front: Front, on_damage: OnDamage) -> (Arc<Mutex<Growing>>, Arc<Fs>, Meanwhile) {
    let mut growing = Growing::new();
    growing.append(2);
    if front != Front::Half {
        let mut bad = growing.next_batch();
        *bad.last_mut().expect("a byte") ^= 1;
        growing.write(&bad);
        growing.append(2);
    }
    let mut rest = Vec::new();
    if front != Front::Bad {
        let mut half = growing.next_batch();
        rest = half.split_off(half.len() / 2);
        growing.write(&half);
    }
    if front == Front::Half {
        let old = SystemTime::now() - Duration::from_secs(3600);
        let log = File::options().append(true).open(growing.segment(0)).expect("a segment");
        log.set_modified(old).expect("its time can be set");
    }
    let spec = growing.data().to_str().expect("UTF-8").to_owned();
    let options = TopicOptions { on_damage, ..TopicOptions::default() };
    let fs = Arc::new(shown::open(&spec, options.into()));
    let growing = Arc::new(Mutex::new(growing));
    let (writer, other) = (growing.clone(), fs.clone());
    let seal = move || {
        let mut growing = writer.lock().expect("no panic");
        growing.write(&rest);
        growing.append(1);
        growing.roll();
        growing.append(1);
        wait_until("it is sealed", || {
            shown::names(&other, "t/0/by-segment")
                .iter()
                .any(|name| *name == format!("{:020}", growing.base()))
        });
    };
    (growing, fs, Box::new(seal))
}

/// What somebody reads who comes new to it.
fn read_afresh(growing: &Mutex<Growing>, path: &str) -> Vec<u8> {
    let spec = growing.lock().expect("no panic").data().to_str().expect("UTF-8").to_owned();
    shown::read(&shown::open(&spec, Options::default()), path)
}

/// The offsets of these lines.
fn offsets(lines: &[u8]) -> Vec<i64> {
    shown::records(lines).iter().map(|record| record.offset).collect()
}

/// Found by thirty minutes of load: whether the segment was sealed was asked after it was read to what was its end before.
#[test]
fn batches_written_to_a_segment_that_is_sealed_while_it_is_read_are_followed() {
    for (front, on_damage) in [
        (Front::Half, OnDamage::Skip),
        (Front::Half, OnDamage::Error),
        (Front::Bad, OnDamage::Skip),
        (Front::BadAndHalf, OnDamage::Skip),
    ] {
        for has_read in [false, true] {
            let (growing, fs, seal) = about_to_be_sealed(front, on_damage);
            let before = offsets(&read_afresh(&growing, "t/0/log.jsonl"));
            let from = before.last().filter(|_| has_read).map_or(0, |last| last + 1);
            let stream = format!("t/0/by-offset/{from}../follow.jsonl");
            let (read, _) = with_meanwhile(seal, || read_stream(&fs, &stream));
            let mut expected = offsets(&read_afresh(&growing, "t/0/log.jsonl"));
            expected.retain(|offset| *offset >= from);
            assert_eq!(offsets(&read), expected, "{front:?}, {on_damage:?}, from {from}");
            assert_eq!(expected.last().copied(), Some(growing.lock().expect("no panic").end() - 1));
        }
    }
}

#[test]
fn half_a_batch_of_a_segment_that_is_sealed_while_it_is_read_is_no_damage() {
    for path in ["t/0/by-offset/0../follow.jsonl", "t/0/log.jsonl"] {
        let (growing, fs, seal) = about_to_be_sealed(Front::BadAndHalf, OnDamage::Skip);
        let (read, warnings) = with_meanwhile(seal, || match path.contains("follow") {
            true => read_stream(&fs, path),
            false => shown::read(&fs, path),
        });
        assert!(read == read_afresh(&growing, "t/0/log.jsonl"), "{path}");
        assert_eq!(warnings, 1, "{path}: of the bad batch alone");
        let problems = String::from_utf8(shown::read(&fs, "t/0/problems")).expect("text");
        assert_eq!(problems.lines().count(), 1, "{path}: {problems}");
    }
}

#[test]
fn half_a_batch_that_was_being_written_is_damage_once_another_segment_follows() {
    let mut growing = Growing::new();
    growing.append(2);
    let half = growing.next_batch();
    growing.write(&half[..half.len() / 2]);
    let options = TopicOptions { on_damage: OnDamage::Error, ..TopicOptions::default() };
    let fs = shown::open(growing.data().to_str().expect("UTF-8"), options.into());
    let before = shown::read(&fs, "t/0/log.jsonl");
    growing.roll();
    growing.append(1);
    let error = shown::try_read(&fs, "t/0/log.jsonl").expect_err("damage");
    assert!(error.to_string().contains("on_damage is error"), "{error}");
    assert!(!before.is_empty());
}
