//! Readers of several formats beside each other, of a log that grows and rolls meanwhile: no size goes down, no byte is left out,
//! given twice or changed.
#![expect(clippy::expect_used, reason = "a test says what is wrong by failing")]

mod common;

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::batches::{self, Plan};
use common::growing::Growing;
use common::model::Directory;
use common::mounted::{Mounted, wait_until};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::fs::Fs;
use topicfs::fs::options::Options;

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
