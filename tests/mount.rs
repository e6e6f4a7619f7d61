//! The bytes of a real mount: those of the engine without one, and what Kafka's own consumer was given.
#![expect(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by failing")]

mod common;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::fixtures::{self, Case, ExpectedRecord, Partition, Reading};
use common::mounted::{self, Mounted};
use common::shown::{self, ShownRecord};
use topicfs::fs::Fs;
use topicfs::fs::options::Isolation;
use topicfs::fs::topic_options::TopicOptions;

/// Mounts in use at the same time.
const WORKERS: usize = 4;

fn assert_same(what: &Path, expected: &[ExpectedRecord], jsonl: &[u8]) {
    let expected: Vec<_> = expected.iter().map(ShownRecord::from).collect();
    let shown = shown::records(jsonl);
    if let Some((expected, shown)) = expected.iter().zip(&shown).find(|(expected, shown)| expected != shown) {
        panic!("{}: {shown:?} instead of {expected:?}", what.display());
    }
    assert_eq!(expected.len(), shown.len(), "{}", what.display());
}

/// The partitions of a data directory that hold what their consumer read.
fn readable(case: &Case, data: &Path) -> Vec<Partition> {
    let mut partitions = case.partitions();
    partitions.retain(|partition| {
        partition.dir.parent() == Some(data)
            && matches!(partition.reading, Reading::AsOnDisk | Reading::AboveLogStart(_))
    });
    partitions
}

/// Calls `check` with each partition that `wanted` picks, the mount of its data directory and the same without a
/// mount; returns how many there were, `None` where nothing can be mounted.
fn for_each_partition(
    isolation: Isolation,
    wanted: impl Fn(&Partition) -> bool + Sync,
    check: impl Fn(&Mounted, &Fs, &Partition) + Sync,
) -> Option<usize> {
    if !mounted::can_mount() {
        return None;
    }
    let sources: Vec<(PathBuf, Vec<Partition>)> = fixtures::cases()
        .iter()
        .flat_map(|case| case.data_dirs().into_iter().map(move |data| (readable(case, &data), data)))
        .map(|(partitions, data)| (data, partitions.into_iter().filter(|it| wanted(it)).collect()))
        .filter(|(_, partitions): &(_, Vec<_>)| !partitions.is_empty())
        .collect();
    let (next, checked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((data, partitions)) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mounted = Mounted::with(data, &format!("isolation={}", isolation.name()));
                    let mounted = mounted.expect("there is a device");
                    let options = TopicOptions { isolation, ..TopicOptions::default() }.into();
                    let fs = shown::open(data.to_str().expect("UTF-8"), options);
                    for partition in partitions {
                        check(&mounted, &fs, partition);
                        checked.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Some(checked.into_inner())
}

fn path_of(partition: &Partition) -> String {
    format!("{}/{}", partition.topic, partition.number)
}

/// Reads `path` through both and compares; pieces at odd places too.
fn assert_as_without_a_mount(mounted: &Mounted, fs: &Fs, path: &str) -> Vec<u8> {
    let file = mounted.path(path);
    let bytes = mounted::read(&file);
    assert!(bytes == shown::read(fs, path), "{}: other bytes than without a mount", file.display());
    let open = File::open(&file).expect("can be opened");
    for part in 0..4 {
        let from = bytes.len() * part / 4;
        let mut piece = vec![0; 777.min(bytes.len() - from)];
        open.read_exact_at(&mut piece, from as u64).expect("can be read");
        assert!(piece == bytes[from..from + piece.len()], "{} at {from}", file.display());
    }
    bytes
}

fn is_missing(path: &Path) -> bool {
    fs::metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[test]
fn every_record_of_every_broker_reads_right_through_a_mount() {
    let checked = for_each_partition(
        Isolation::ReadUncommitted,
        |_| true,
        |mounted, fs, partition| {
            let path = path_of(partition);
            let (log, jsonl) = (format!("{path}/log"), format!("{path}/log.jsonl"));
            let log = assert_as_without_a_mount(mounted, fs, &log);
            let jsonl = assert_as_without_a_mount(mounted, fs, &jsonl);
            assert_same(&partition.dir, &partition.records(), &jsonl);
            for name in ["tail", "tail.jsonl", "log.tsv", "log.log"] {
                assert_as_without_a_mount(mounted, fs, &format!("{path}/{name}"));
            }
            segments_are_their_files(mounted, partition);
            assert!(
                concatenated(mounted, fs, &path, false) == log,
                "{}: by-segment",
                partition.dir.display()
            );
            assert!(
                concatenated(mounted, fs, &path, true) == jsonl,
                "{}: by-segment",
                partition.dir.display()
            );
            records_are_their_values(mounted, fs, partition);
            let committed = mounted.path(&format!("{path}@committed/log.jsonl"));
            assert_same(&committed, &partition.committed(), &mounted::read(&committed));
        },
    );
    if let Some(checked) = checked {
        assert!(checked > 250, "{checked} partitions");
    }
}

#[test]
fn read_committed_shows_what_a_consumer_was_given_through_a_mount() {
    let differ = |partition: &Partition| partition.committed_differ().is_some();
    let checked = for_each_partition(Isolation::ReadCommitted, differ, |mounted, fs, partition| {
        let path = path_of(partition);
        let committed = partition.committed();
        let jsonl = assert_as_without_a_mount(mounted, fs, &format!("{path}/log.jsonl"));
        assert_same(&partition.dir, &committed, &jsonl);
        let log = assert_as_without_a_mount(mounted, fs, &format!("{path}/log"));
        assert_as_without_a_mount(mounted, fs, &format!("{path}/tail"));
        assert!(concatenated(mounted, fs, &path, false) == log, "{}: by-segment", partition.dir.display());
        for aborted in partition.records().iter().filter(|record| !committed.contains(record)).take(3) {
            let file = mounted.path(&format!("{path}/by-offset/{}", aborted.offset));
            assert!(is_missing(&file), "{}", file.display());
        }
    });
    if let Some(checked) = checked {
        assert!(checked > 10, "{checked} partitions");
    }
}

/// `segments/*` are the source files, all of them, byte for byte.
fn segments_are_their_files(mounted: &Mounted, partition: &Partition) {
    let segments = mounted.path(&format!("{}/segments", path_of(partition)));
    let names = mounted::names(&segments);
    assert_eq!(names, mounted::names(&partition.dir));
    for name in names {
        let source = fs::read(partition.dir.join(&name)).expect("a source file");
        assert!(mounted::read(&segments.join(&name)) == source, "{}: {name}", segments.display());
    }
}

/// The files in `by-segment` one after another, all texts or all `.jsonl`.
fn concatenated(mounted: &Mounted, fs: &Fs, path: &str, jsonl: bool) -> Vec<u8> {
    let names = mounted::names(&mounted.path(&format!("{path}/by-segment")));
    let of_format = names.iter().filter(|name| name.ends_with(".jsonl") == jsonl);
    of_format
        .flat_map(|name| assert_as_without_a_mount(mounted, fs, &format!("{path}/by-segment/{name}")))
        .collect()
}

/// A sample of `by-offset`: values, keys, gaps, ranges, the last record.
fn records_are_their_values(mounted: &Mounted, fs: &Fs, partition: &Partition) {
    let path = format!("{}/by-offset", path_of(partition));
    let by_offset = mounted.path(&path);
    let records = partition.records();
    let Some(last) = records.last() else { return };
    for record in records.iter().step_by(records.len().div_ceil(5)).chain([last]) {
        let (offset, value) = (record.offset, record.value.clone().unwrap_or_default());
        assert!(
            mounted::read(&by_offset.join(offset.to_string())) == value,
            "{}/{offset}",
            by_offset.display()
        );
        assert!(mounted::read(&by_offset.join(format!("{offset:020}"))) == value, "{offset}");
        let key = record.key.clone().unwrap_or_default();
        assert!(mounted::read(&by_offset.join(format!("{offset}.key"))) == key, "{offset}.key");
        let line = mounted::read(&by_offset.join(format!("{offset}.jsonl")));
        assert_eq!(shown::records(&line), [ShownRecord::from(record)]);
        assert_as_without_a_mount(mounted, fs, &format!("{path}/{offset}.json"));
    }
    assert!(mounted::read(&by_offset.join("last-1")) == last.value.clone().unwrap_or_default());
    assert!(is_missing(&by_offset.join((last.offset + 1).to_string())));
    if let Some(pair) = records.windows(2).find(|pair| pair[0].offset + 1 < pair[1].offset) {
        let gap = pair[0].offset + 1;
        assert!(is_missing(&by_offset.join(gap.to_string())), "{}/{gap}", by_offset.display());
    }

    let some = &records[records.len() / 3..records.len() / 3 + 20.min(records.len() - records.len() / 3)];
    let range = format!("{}..{}", some[0].offset, some[some.len() - 1].offset + 1);
    let lines = assert_as_without_a_mount(mounted, fs, &format!("{path}/{range}.jsonl"));
    assert_same(&by_offset.join(&range), some, &lines);
    let names: Vec<_> = some.iter().map(|record| format!("{:020}", record.offset)).collect();
    assert_eq!(mounted::names(&by_offset.join(&range)), names);
}
