//! `topicfs verify`: nothing wrong in what any broker left, every one of the hundred damages found where it is, each kind of
//! problem by a case of its own, and the command from outside.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use common::batches::{self, Plan as BatchPlan};
use common::fixtures::{self, DamageCase};
use common::model::{Directory, Numbers};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::format::batch::Limits;
use topicfs::fs::options::Options;
use topicfs::log::problem::{Kind, Problem, Severity};
use topicfs::log::source::{Source, SourceOptions};
use topicfs::log::verify::{self, Counts, Plan};

const OPTIONS: SourceOptions = SourceOptions {
    limits: Limits { max_batch_bytes: 128 << 20, max_decoded_bytes: 256 << 20 },
    follow_symlinks: false,
};

/// All that a check of `source` finds.
fn check_with(source: &str, options: SourceOptions) -> (Vec<Problem>, Counts) {
    let source = Source::open(source, options).unwrap();
    let (mut problems, mut counts) = (Vec::new(), Counts::default());
    Plan::new(&source).run(2, &|_| (), &mut |report| {
        counts.add(&report.counts);
        problems.extend(report.problems);
    });
    (problems, counts)
}

fn check(source: &Path) -> Vec<Problem> {
    check_with(source.to_str().unwrap(), OPTIONS).0
}

/// File name, kind, position, length.
fn short(problems: &[Problem]) -> Vec<(String, Kind, u64, u64)> {
    let name = |problem: &Problem| problem.file.file_name().unwrap().to_str().unwrap().to_owned();
    problems.iter().map(|p| (name(p), p.kind, p.position.0, p.len)).collect()
}

fn kinds(problems: &[Problem]) -> Vec<Kind> {
    problems.iter().map(|problem| problem.kind).collect()
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(|problem| problem.line(&problem.file.to_string_lossy())).collect()
}

// Sound data of real brokers.

/// The only directories of real brokers that were damaged afterwards, with what was done to them.
const DAMAGED: &[(&str, &str, &str, Kind)] = &[
    ("0.10.2.2", "damaged", "cut-0/00000000000000000000.log", Kind::TornTail),
    ("0.10.2.2", "damaged", "innercrc-0/00000000000000000000.log", Kind::BadRecords),
    ("0.10.2.2", "damaged", "wrongcrc-0/00000000000000000000.log", Kind::Damaged),
    ("0.10.2.2", "damaged", "wrongcrc-plain-0/00000000000000000000.log", Kind::Damaged),
    ("0.8.2.2", "torn", "plain-0/00000000000000000000.log", Kind::TornTail),
    ("0.8.2.2", "torn", "segs-0/00000000000000000021.log", Kind::Damaged),
];

#[test]
fn what_real_brokers_left_is_sound() {
    let (mut total, mut notes, mut damaged) = (Counts::default(), BTreeMap::new(), BTreeSet::new());
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let (problems, counts) = check_with(data.to_str().unwrap(), OPTIONS);
            total.add(&counts);
            for problem in problems {
                if problem.kind.severity() == Severity::Note {
                    *notes.entry(problem.kind.name()).or_insert(0) += 1;
                    continue;
                }
                let file = problem.file.strip_prefix(&data).unwrap().to_str().unwrap();
                let known = DAMAGED.iter().find(|(version, name, of, kind)| {
                    (*version, *name) == (&case.version, &case.name) && (*of, *kind) == (file, problem.kind)
                });
                assert!(known.is_some(), "{} {}: {}", case.version, case.name, problem.line(file));
                damaged.insert(known);
            }
        }
    }
    println!("{total:?}");
    println!("notes: {notes:?}");
    assert_eq!(damaged.len(), DAMAGED.len(), "{damaged:?}");
    assert!(total.partitions > 250 && total.segments > 600 && total.records > 10_000, "{total:?}");
    assert!(notes.keys().all(|kind| ["leftover", "zero-tail"].contains(kind)), "{notes:?}");
}

#[test]
fn several_sources_at_once_and_partitions_by_themselves() {
    let jbod = fixtures::case("4.4.0", "jbod").data_dirs();
    let both: Vec<_> = jbod.iter().map(|dir| dir.to_str().unwrap()).collect();
    let (problems, counts) = check_with(&both.join(","), OPTIONS);
    assert!(problems.iter().all(|problem| problem.kind == Kind::Leftover), "{}", lines(&problems));
    assert!(counts.partitions > 3);
    let mut segments = 0;
    for partition in fixtures::case("4.4.0", "segments").partitions() {
        assert_eq!(lines(&check(&partition.dir)), "");
        for entry in std::fs::read_dir(&partition.dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "log") {
                assert_eq!(lines(&check(&path)), "", "{}", path.display());
                segments += 1;
            } else if verify::is_single_file(&path) {
                let report = verify::single_file(&path, OPTIONS);
                assert_eq!(lines(&report.problems), "", "{}", path.display());
            }
        }
    }
    assert!(segments > 10);
}

/// Names that people or tiered storage give to segments: what they hold is judged all the same.
#[test]
fn segments_under_other_names() {
    let mut checked = 0;
    let mut directories = vec![fixtures::dir().join("tiered/local-4.3.1/remote")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "log") {
                let (problems, counts) = check_with(path.to_str().unwrap(), OPTIONS);
                assert_eq!(lines(&problems), "");
                assert!(counts.records > 0);
                checked += 1;
            }
        }
    }
    assert!(checked > 5, "{checked}");
    let directory = Directory::default();
    directory.write_segment(7, &batch(7, 9));
    std::fs::write(directory.file(7, "index"), offsets(&[(1, 5)])).unwrap();
    for extension in ["log", "index"] {
        let renamed = directory.path().join(format!("t-0/copy of 7.{extension}"));
        std::fs::rename(directory.file(7, extension), renamed).unwrap();
    }
    assert_eq!(
        lines(&check(&directory.path().join("t-0/copy of 7.log"))),
        "",
        "what its index is relative to is lost"
    );
}

// The hundred damaged copies.

/// What `verify` must say of each: kind, in the damaged file if the case names one.
const EXPECTED: &[(&str, Kind)] = &[
    ("bad-gzip-good-crc", Kind::BadRecords),
    ("batch-missing", Kind::Hole),
    ("batch-twice", Kind::Misplaced),
    ("batches-swapped", Kind::Misplaced),
    ("bit-in-base-offset", Kind::Misplaced),
    ("bit-in-codec", Kind::Damaged),
    ("bit-in-crc", Kind::Damaged),
    ("bit-in-epoch", Kind::Epochs),
    ("bit-in-gzip-payload", Kind::Damaged),
    ("bit-in-max-timestamp", Kind::Damaged),
    ("bit-in-value", Kind::Damaged),
    ("codec-7", Kind::UnknownFormat),
    ("codec-wrong", Kind::BadRecords),
    ("count-huge", Kind::Damaged),
    ("count-negative", Kind::Damaged),
    ("count-too-big", Kind::BadRecords),
    ("count-too-small", Kind::BadRecords),
    ("cut-gzip-good-crc", Kind::BadRecords),
    ("empty-gzip-good-crc", Kind::BadRecords),
    ("epochs-bad-count", Kind::Epochs),
    ("epochs-bad-line", Kind::Epochs),
    ("epochs-bad-version", Kind::Epochs),
    ("epochs-binary", Kind::Epochs),
    ("epochs-empty", Kind::Epochs),
    ("epochs-not-sorted", Kind::Epochs),
    ("garbage-middle", Kind::Damaged),
    ("garbage-tail", Kind::Damaged),
    ("index-empty", Kind::Missing),
    ("index-inside-batch", Kind::Index),
    // The tool that made the fixtures' dumps has made an empty one.
    ("index-missing", Kind::Missing),
    ("index-negative", Kind::Index),
    ("index-not-sorted", Kind::Index),
    ("index-odd-length", Kind::Index),
    ("index-of-other-segment", Kind::Index),
    ("index-past-end", Kind::Index),
    ("index-repeats", Kind::Index),
    ("index-wrong-batch", Kind::Index),
    ("index-zeros", Kind::Index),
    ("key-length-big", Kind::BadRecords),
    ("key-length-negative", Kind::BadRecords),
    ("last-delta-wrong", Kind::Misplaced),
    ("leftover-cleaned", Kind::Leftover),
    ("leftover-swap", Kind::Leftover),
    ("length-49", Kind::Damaged),
    ("length-big", Kind::Damaged),
    ("length-huge", Kind::Damaged),
    ("length-negative", Kind::Damaged),
    ("length-short", Kind::Damaged),
    ("length-small", Kind::Damaged),
    ("length-zero", Kind::Damaged),
    ("log-empty-last", Kind::LostEnd),
    ("log-empty-middle", Kind::LostEnd),
    ("log-start-past-end", Kind::Checkpoint),
    ("magic-0", Kind::Damaged),
    ("magic-3", Kind::UnknownFormat),
    ("magic-negative", Kind::Damaged),
    ("meta-bad-number", Kind::Metadata),
    ("meta-bad-version", Kind::Metadata),
    ("meta-empty", Kind::Metadata),
    ("meta-missing", Kind::Missing),
    ("meta-no-node", Kind::Metadata),
    ("name-odd", Kind::Name),
    ("name-too-high", Kind::Name),
    ("not-gzip-good-crc", Kind::BadRecords),
    ("partition-metadata-bad", Kind::Metadata),
    ("partition-metadata-missing", Kind::Missing),
    ("partition-metadata-zero", Kind::Metadata),
    ("record-length-big", Kind::BadRecords),
    ("record-length-negative", Kind::BadRecords),
    ("record-length-off-by-one", Kind::BadRecords),
    ("recovery-point-bad", Kind::Checkpoint),
    ("segment-missing", Kind::Hole),
    ("segment-missing-log-only", Kind::Hole),
    ("segments-overlap", Kind::Overlap),
    ("snapshot-bad-crc", Kind::Snapshot),
    ("snapshot-cut", Kind::Snapshot),
    ("timeindex-empty", Kind::Missing),
    ("timeindex-missing", Kind::Missing),
    ("timeindex-not-sorted", Kind::TimeIndex),
    ("timeindex-odd-length", Kind::TimeIndex),
    ("timeindex-wrong-offset", Kind::TimeIndex),
    ("timeindex-wrong-time", Kind::TimeIndex),
    ("timeindex-zeros", Kind::TimeIndex),
    ("torn-at-17", Kind::TornTail),
    ("torn-in-header", Kind::TornTail),
    ("torn-in-prefix", Kind::TornTail),
    ("torn-in-records", Kind::TornTail),
    ("torn-last-byte", Kind::TornTail),
    ("varint-endless", Kind::BadRecords),
    ("varint-overlong", Kind::BadRecords),
    ("zero-tail", Kind::Zeros),
    ("zeros-middle", Kind::Damaged),
];

/// Changes after which everything is as a broker may write it, so that nobody can tell that there was a change.
const LEGAL: &[(&str, &str)] = &[
    ("attribute-bits", "bits that mean nothing"),
    ("high-watermark-low", "a high watermark below the log end is what followers that lag give"),
    ("high-watermark-missing", "a partition that is new has none yet"),
    ("meta-escapes", "another way to write the same"),
    ("meta-no-version", "read as version 0"),
    ("sound", "not changed"),
    ("sound-gzip", "not changed"),
];

/// Whether `problem` is at the byte that was damaged. A file or batch that was cut was damaged at its end.
fn is_there(case: &DamageCase, problem: &Problem) -> bool {
    let Some(file) = &case.expect.file else { return true };
    if problem.file != case.data().join(file) {
        return false;
    }
    let Some(mut at) = case.expect.at else { return true };
    // Two fixtures count from the end of the batch.
    at += case.expect.batch.filter(|batch| at < batch.position).map_or(0, |batch| batch.size);
    let (from, to) = (problem.position.0, problem.position.0 + problem.len);
    let end = std::fs::metadata(&problem.file).map_or(0, |meta| meta.len());
    let is_cut = at == end || case.expect.batch.is_some_and(|batch| problem.len < batch.size);
    (from..to).contains(&at) || at == from && problem.len == 0 || at == to && is_cut
}

#[test]
fn the_hundred_damages_are_found_where_they_are() {
    let (cases, mut failures) = (fixtures::damage_cases(), Vec::new());
    for case in &cases {
        // No tail is young enough to be excused.
        let problems = check(&case.data());
        let expected = EXPECTED.iter().find(|(name, _)| *name == case.name);
        match expected {
            Some((_, kind)) if problems.iter().any(|p| p.kind == *kind && is_there(case, p)) => {}
            Some((_, kind)) => {
                failures.push(format!("{}: no {}\n{}", case.name, kind.name(), lines(&problems)));
            }
            None if case.name == "varint-padded" => {
                // Legal itself; but the batch has grown, and its segment's index is of the shorter one.
                assert_eq!(kinds(&problems), [Kind::Index], "{}", lines(&problems));
            }
            None if problems.is_empty() => {
                assert!(LEGAL.iter().any(|(name, _)| *name == case.name), "{}", case.name);
            }
            None => failures.push(format!("{}:\n{}", case.name, lines(&problems))),
        }
    }
    println!("{} found, {} legal of {}", EXPECTED.len(), LEGAL.len() + 1, cases.len());
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!((EXPECTED.len() + LEGAL.len() + 1, cases.len()), (100, 100));
}

// Every kind by a case of its own.

fn record(offset: i64) -> ShownRecord {
    ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: Some(b"k".to_vec()),
        value: Some(format!("v{offset}").into_bytes()),
        headers: Vec::new(),
    }
}

fn batch(first: i64, last: i64) -> Vec<u8> {
    batch_of(&BatchPlan::of((first..=last).map(record).collect(), Compression::None))
}

fn batch_of(plan: &BatchPlan) -> Vec<u8> {
    batches::encode(plan).into_iter().flat_map(|entry| entry.bytes).collect()
}

/// Makes everything in a directory an hour old: nothing in it is being written.
fn age(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            age(&path);
        } else if let Ok(file) = std::fs::File::options().append(true).open(&path) {
            file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        }
    }
}

/// What is said of topic `t` with these segments, all without indexes but for those that `work` makes; notes about missing
/// indexes are left out.
fn check_made(segments: &[(i64, Vec<u8>)], work: impl FnOnce(&Directory)) -> Vec<Problem> {
    let directory = Directory::default();
    for (base, bytes) in segments {
        directory.write_segment(*base, bytes);
    }
    work(&directory);
    age(directory.path());
    let mut problems = check(directory.path());
    problems.retain(|problem| problem.kind != Kind::Missing);
    problems
}

/// Entries of an offset index.
fn offsets(entries: &[(i32, i32)]) -> Vec<u8> {
    entries.iter().flat_map(|(offset, at)| [offset.to_be_bytes(), at.to_be_bytes()].concat()).collect()
}

/// Entries of a time index.
fn times(entries: &[(i64, i32)]) -> Vec<u8> {
    entries.iter().flat_map(|(time, at)| [&time.to_be_bytes()[..], &at.to_be_bytes()].concat()).collect()
}

/// An entry of a transaction index.
fn aborted(producer: i64, first: i64, last: i64) -> Vec<u8> {
    [&[0; 2][..], &[producer, first, last, last + 1].map(i64::to_be_bytes).concat()].concat()
}

fn len(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap()
}

#[test]
fn the_sound_and_the_unused_parts_of_indexes() {
    let (first, second) = (batch(0, 4), batch(5, 9));
    let log = [first.clone(), second].concat();
    let sealed = [(0, log), (10, batch(10, 12))];
    let write = |extension: &'static str, base: i64, bytes: Vec<u8>| {
        move |directory: &Directory| std::fs::write(directory.file(base, extension), bytes).unwrap()
    };
    let index = offsets(&[(9, len(&first))]);
    assert_eq!(lines(&check_made(&sealed, write("index", 0, index.clone()))), "");
    let mut preallocated = index.clone();
    preallocated.resize(80, 0);
    let told = check_made(&sealed, write("index", 0, preallocated.clone()));
    assert_eq!(short(&told), [("00000000000000000000.index".to_owned(), Kind::Preallocated, 8, 72)]);
    // Of the active segment that is what a broker leaves that runs or was killed.
    assert_eq!(lines(&check_made(&[(0, sealed[0].1.clone())], write("index", 0, preallocated))), "");
    let last = 1_700_000_000_009;
    assert_eq!(lines(&check_made(&sealed, write("timeindex", 0, times(&[(last, 9)])))), "");
    let told = check_made(&sealed, write("timeindex", 0, times(&[(last - 5, 4)])));
    assert_eq!(
        (kinds(&told), told[0].cause.contains("the segment's largest is 1700000000009")),
        (vec![Kind::TimeIndex], true)
    );
    let told = check_made(&sealed, write("timeindex", 0, times(&[(last, 9), (last + 5, 19)])));
    assert_eq!(short(&told), [("00000000000000000000.timeindex".to_owned(), Kind::TimeIndex, 12, 12)]);
}

#[test]
fn the_entry_of_the_time_0_at_the_first_offset_is_zeros_and_sound() {
    let at = |offset: i64, timestamp| ShownRecord { timestamp, ..record(offset) };
    let of = |records: Vec<ShownRecord>| batch_of(&BatchPlan::of(records, Compression::None));
    let told = |first: Vec<ShownRecord>, entries: &[(i64, i32)]| {
        let segments = [(0, of(first)), (1, batch(1, 2))];
        let entries = times(entries);
        check_made(&segments, |directory| std::fs::write(directory.file(0, "timeindex"), entries).unwrap())
    };
    assert_eq!(lines(&told(vec![at(0, 0)], &[(0, 0)])), "");
    // Two of them, or zeros where there was a later time, are none.
    assert_eq!(kinds(&told(vec![at(0, 0)], &[(0, 0), (0, 0)])), [Kind::TimeIndex]);
    assert_eq!(kinds(&told(vec![at(0, 5)], &[(0, 0)])), [Kind::TimeIndex]);
}

#[test]
fn a_log_that_was_cut_between_two_batches() {
    let (first, second) = (batch(0, 4), batch(5, 9));
    let log = [first.clone(), second].concat();
    let position = first.len() as u64;
    let told = check_made(&[(0, first.clone())], |directory| {
        std::fs::write(directory.file(0, "index"), offsets(&[(9, len(&first))])).unwrap();
        std::fs::write(directory.file(0, "timeindex"), times(&[(1_700_000_000_009, 9)])).unwrap();
    });
    assert_eq!(short(&told), [("00000000000000000000.log".to_owned(), Kind::LostEnd, position, 0)]);
    // After an orderly stop the checkpoint proves it too.
    let told = check_made(&[(0, log)], |directory| {
        std::fs::write(directory.path().join(".kafka_cleanshutdown"), "").unwrap();
        std::fs::write(directory.path().join("recovery-point-offset-checkpoint"), "0\n1\nt 0 14\n").unwrap();
    });
    assert_eq!(short(&told), [("recovery-point-offset-checkpoint".to_owned(), Kind::Checkpoint, 4, 6)]);
    assert_eq!(told[0].offset.map(|offset| offset.0), Some(14));
}

#[test]
fn gaps_are_holes_only_where_nothing_was_compacted() {
    let told = |cleaner: Option<&str>, batches: &[Vec<u8>]| {
        let told = check_made(&[(0, batches.concat())], |directory| {
            if let Some(text) = cleaner {
                std::fs::write(directory.path().join("cleaner-offset-checkpoint"), text).unwrap();
            }
        });
        kinds(&told)
    };
    let gap = [batch(0, 4), batch(9, 9)];
    assert_eq!(told(Some("0\n0\n"), &gap), [Kind::Hole]);
    assert_eq!(told(Some(""), &gap), [Kind::Hole]);
    assert_eq!(told(None, &gap), [Kind::Gap]);
    assert_eq!(told(Some("0\n1\nt 0 5\n"), &gap), [], "the cleaner was here");
    let mut thinned = BatchPlan::of([0, 2].map(record).to_vec(), Compression::None);
    thinned.last = 4;
    assert_eq!(told(Some("0\n0\n"), &[batch_of(&thinned), batch(9, 9)]), [], "it was on another replica");
    let many: Vec<_> = (0..40).map(|number| batch(number * 3, number * 3)).collect();
    assert_eq!(told(Some("0\n0\n"), &many), [], "so many are no holes");
}

#[test]
fn transaction_indexes_and_markers_agree() {
    let data = |first: i64, last: i64| {
        let mut plan = BatchPlan::of((first..=last).map(record).collect(), Compression::None);
        (plan.producer, plan.is_transactional) = (7, true);
        batch_of(&plan)
    };
    let marker = |offset, commits| batch_of(&BatchPlan::marker(offset, 7, commits));
    let first = [data(0, 1), marker(2, true), data(3, 4), marker(5, false), data(6, 7)].concat();
    let second = [data(8, 9), marker(10, false)].concat();
    let told = |indexes: &[(i64, Vec<u8>)]| {
        let told = check_made(&[(0, first.clone()), (8, second.clone())], |directory| {
            for (base, bytes) in indexes {
                std::fs::write(directory.file(*base, "txnindex"), bytes).unwrap();
            }
        });
        assert!(told.iter().all(|problem| problem.kind == Kind::TxnIndex), "{}", lines(&told));
        short(&told)
            .into_iter()
            .map(|(name, _, at, len)| (name[19..20].parse().unwrap(), at, len))
            .collect::<Vec<(u32, u64, u64)>>()
    };
    let sound = [(0, aborted(7, 3, 5)), (8, aborted(7, 6, 10))];
    assert_eq!(told(&sound), []);
    assert_eq!(told(&sound[..1]), [(8, 0, 0)], "no index");
    assert_eq!(told(&[(0, Vec::new()), sound[1].clone()]), [(0, 0, 0)], "no entry");
    assert_eq!(
        told(&[sound[0].clone(), (8, aborted(7, 8, 10))]),
        [(8, 34, 0)],
        "it began in the segment before"
    );
    assert_eq!(told(&[(0, [aborted(7, 0, 2), aborted(7, 3, 5)].concat()), sound[1].clone()]), [(0, 0, 34)]);
    assert_eq!(
        told(&[(0, aborted(7, 3, 5)), (8, aborted(7, 6, 10)[..30].to_vec())]),
        [(8, 0, 30), (8, 30, 0)]
    );
    let zeros = [aborted(7, 3, 5), vec![0; 68]].concat();
    assert_eq!(told(&[(0, zeros), sound[1].clone()]), [(0, 34, 68)]);
}

/// C11: Kafka's tool says nothing of a cut transaction index, and exits with 0 after a bad snapshot.
#[test]
fn case_c11_cut_indexes_and_snapshots_of_real_brokers_are_problems() {
    let case = fixtures::case("4.4.0", "txn");
    let copy = fixtures::copy(&case.data());
    let partition = copy.path().join("txn-a-0");
    let with = |suffix: &str| -> PathBuf {
        let mut all: Vec<_> =
            std::fs::read_dir(&partition).unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all.retain(|path| path.to_str().unwrap().ends_with(suffix) && path.metadata().unwrap().len() > 34);
        all.remove(0)
    };
    let (index, snapshot) = (with(".txnindex"), with(".snapshot"));
    for path in [&index, &snapshot] {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 3]).unwrap();
    }
    let told = check(copy.path());
    let of = |path: &Path| kinds(&told.iter().filter(|p| p.file == *path).cloned().collect::<Vec<_>>());
    // The part of an entry, and the marker that has none any more.
    assert_eq!(of(&index), [Kind::TxnIndex, Kind::TxnIndex], "{}", lines(&told));
    assert_eq!(of(&snapshot), [Kind::Snapshot], "{}", lines(&told));
    assert_eq!(told.len(), 3, "{}", lines(&told));
}

/// C1: Kafka's tool says "Non-consecutive offsets" of each segment that does not begin at 0.
#[test]
fn case_c1_a_segment_that_begins_above_0_is_no_problem() {
    assert_eq!(lines(&check_made(&[(5, batch(5, 9)), (10, batch(10, 12))], |_| ())), "");
}

#[test]
fn each_other_kind() {
    let mut off = batch(0, 4);
    off[35..43].copy_from_slice(&1_800_000_000_000_i64.to_be_bytes());
    batches::seal(&mut off);
    assert_eq!(kinds(&check_made(&[(0, off)], |_| ())), [Kind::MaxTimestamp]);
    let far = [batch(0, 4), batch(1 << 32, (1 << 32) + 1)].concat();
    assert_eq!(kinds(&check_made(&[(0, far)], |_| ())), [Kind::Gap, Kind::Overflow]);
    let zeros = [batch(0, 4), vec![0; 500]].concat();
    assert_eq!(kinds(&check_made(&[(0, zeros.clone())], |_| ())), [Kind::ZeroTail]);
    assert_eq!(kinds(&check_made(&[(0, zeros), (5, Vec::new())], |_| ())), [Kind::Zeros]);
    let told = check_made(&[(0, batch(0, 4))], |directory| {
        std::fs::create_dir(directory.file(0, "index")).unwrap();
        std::fs::create_dir(directory.path().join("t-0/old")).unwrap();
        std::fs::create_dir(directory.path().join("lost+found")).unwrap();
    });
    assert_eq!(kinds(&told), [Kind::Foreign, Kind::Unreadable, Kind::Foreign, Kind::Foreign]);
    let small = SourceOptions { limits: Limits { max_batch_bytes: 100, max_decoded_bytes: 100 }, ..OPTIONS };
    let directory = Directory::default();
    directory.write_segment(0, &[batch(0, 0), batch(1, 9), batch(10, 10)].concat());
    let told = check_with(directory.spec(), small).0;
    assert!(kinds(&told).contains(&Kind::TooLarge), "{}", lines(&told));
}

#[test]
fn leader_epochs_of_batches_and_of_the_checkpoint() {
    let with_epoch = |first, last, epoch: i32| {
        let mut bytes = batch(first, last);
        // No checksum covers it.
        bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
        bytes
    };
    let log = [with_epoch(0, 4, 0), with_epoch(5, 9, 2), with_epoch(10, 12, 2)].concat();
    let told = |text: &str, is_clean: bool| {
        let told = check_made(&[(0, log.clone())], |directory| {
            std::fs::write(directory.path().join("t-0/leader-epoch-checkpoint"), text).unwrap();
            if is_clean {
                std::fs::write(directory.path().join(".kafka_cleanshutdown"), "").unwrap();
            }
        });
        assert!(told.iter().all(|problem| problem.kind == Kind::Epochs), "{}", lines(&told));
        told.iter().map(|problem| problem.position.0).collect::<Vec<_>>()
    };
    assert_eq!(told("0\n2\n0 0\n2 5\n", true), [0_u64; 0]);
    assert_eq!(told("0\n1\n2 7\n", true), [0_u64; 0], "the log starts at 7");
    assert_eq!(told("0\n3\n0 0\n2 5\n4 13\n", true), [0_u64; 0], "an epoch that has no records yet");
    assert_eq!(told("0\n2\n0 0\n2 6\n", true), [8], "it begins at 5");
    assert_eq!(told("0\n3\n0 0\n1 3\n2 5\n", true), [8], "no batch has epoch 1 from 3 on");
    assert_eq!(told("0\n1\n0 0\n", true), [4], "the last one is missing");
    assert_eq!(told("0\n1\n0 0\n", false), [0_u64; 0], "as after a crash");
    assert_eq!(told("0\n3\n0 0\n2 5\n4 99\n", true), [12], "behind the end");
    assert_eq!(told("0\n3\n0 0\n2 5\n4 99\n", false), [0_u64; 0]);
}

#[test]
fn damage_to_kraft_metadata_is_found() {
    let case = fixtures::case("4.4.0", "kraft");
    let copy = fixtures::copy(&case.data());
    let partition = copy.path().join("__cluster_metadata-0");
    assert_eq!(lines(&check(copy.path())), "");
    let mut snapshots: Vec<_> =
        std::fs::read_dir(&partition).unwrap().map(|entry| entry.unwrap().path()).collect();
    snapshots.retain(|path| path.extension().is_some_and(|extension| extension == "checkpoint"));
    snapshots.sort();
    let (flipped, cut) = (snapshots[1].clone(), snapshots[2].clone());
    let mut bytes = std::fs::read(&flipped).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&flipped, bytes).unwrap();
    let bytes = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    std::fs::write(partition.join("quorum-state"), r#"{"leaderId":"x"}"#).unwrap();
    let told = check(copy.path());
    assert_eq!(kinds(&told), [Kind::Damaged, Kind::TornTail, Kind::Metadata], "{}", lines(&told));
    assert_eq!((&told[0].file, &told[1].file), (&flipped, &cut));
}

#[test]
fn so_many_problems_that_the_rest_is_only_counted() {
    let mut log = Vec::new();
    for number in 0..12_000 {
        let mut bytes = batch(number, number);
        bytes[30] ^= 1;
        log.extend(bytes);
        log.extend(batch(number, number));
    }
    let directory = Directory::default();
    directory.write_segment(0, &log);
    let (problems, counts) = check_with(directory.spec(), OPTIONS);
    assert_eq!((problems.len(), counts.problems), (10_001, 12_000));
    assert!(problems.last().is_some_and(|last| last.kind == Kind::More && last.cause.contains("2001 more")));
}

#[test]
fn every_kind_is_documented() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify.md")).unwrap();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
    for kind in Kind::ALL {
        let row = format!("| `{}` | {} | ", kind.name(), kind.severity().name());
        assert_eq!(rows.iter().filter(|line| line.starts_with(&row)).count(), 1, "{row}");
    }
    assert_eq!(
        rows.iter().filter(|line| line.contains("| problem |") || line.contains("| note |")).count(),
        Kind::ALL.len()
    );
}

/// Each bit of an offset index, and of the timestamps of a time index, counts. An offset in a time index may be any of its
/// batch's.
#[test]
fn each_bit_of_indexes_counts() {
    let data = damaged("sound").data();
    let copy = fixtures::copy(&data);
    let (mut flips, mut unseen) = (0, Vec::new());
    for (extension, is_checked) in
        [("index", (|_| true) as fn(usize) -> bool), ("timeindex", |at| at % 12 < 8)]
    {
        let path = copy.path().join("seg-size-0/00000000000000000025.log").with_extension(extension);
        let sound = std::fs::read(&path).unwrap();
        for at in (0..sound.len()).filter(|at| is_checked(*at)) {
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                std::fs::write(&path, bytes).unwrap();
                let told = check(copy.path());
                let is_seen = told.iter().any(|problem| {
                    let from = problem.position.0 as usize;
                    problem.file == path && (from..from + problem.len as usize).contains(&at)
                });
                if !is_seen {
                    unseen.push((extension, at, bit));
                }
                flips += 1;
            }
        }
        std::fs::write(&path, sound).unwrap();
    }
    println!("{flips} flips");
    assert_eq!(unseen, []);
}

/// Any bytes of any file may be anything: no panic, and every line is about bytes that are there.
#[test]
fn random_damage_to_any_file_is_told_within_the_file() {
    let mut numbers = Numbers::new(11);
    let (mut rounds, mut told) = (0, 0);
    for (version, name) in [("4.4.0", "txn"), ("4.4.0", "kraft"), ("0.10.2.2", "codecs"), ("1.1.1", "mixed")]
    {
        let copy = fixtures::copy(&fixtures::case(version, name).data());
        let mut files: Vec<PathBuf> = states(copy.path()).into_keys().collect();
        files.retain(|path| path.metadata().unwrap().len() < 1 << 20);
        for _ in 0..60 {
            let path = &files[numbers.below(files.len())];
            let sound = std::fs::read(path).unwrap();
            let mut bytes = sound.clone();
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(bytes.len().max(1));
                match numbers.below(5) {
                    0 if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
                    1 => bytes.truncate(at),
                    2 => {
                        let len = numbers.below(100);
                        bytes.extend(numbers.bytes(len));
                    }
                    3 => drop(bytes.splice(at.min(bytes.len()).., numbers.bytes(40))),
                    _ if !bytes.is_empty() => bytes[at] = 0xff,
                    _ => {}
                }
            }
            std::fs::write(path, &bytes).unwrap();
            for problem in check(copy.path()) {
                let len = problem.file.metadata().map_or(0, |meta| meta.len());
                let end = problem.position.0 + problem.len;
                assert!(end <= len, "{} of {len} bytes", problem.line(&problem.file.to_string_lossy()));
                told += 1;
            }
            std::fs::write(path, &sound).unwrap();
            rounds += 1;
        }
    }
    println!("{rounds} rounds, {told} lines");
    assert!(told > 100, "{told}");
}

// Cases of people's reports, as far as they are about problems.

/// aiokafka#321: file, position, length, and the offsets before and behind.
#[test]
fn case_10_a_wrong_checksum_is_told_with_its_place() {
    let (first, mut second) = (batch(0, 2), batch(3, 5));
    second[70] ^= 1;
    let (position, length) = (first.len() as u64, second.len() as u64);
    let told = check_made(&[(0, [first, second, batch(6, 8)].concat())], |_| ());
    assert_eq!(short(&told), [("00000000000000000000.log".to_owned(), Kind::Damaged, position, length)]);
    assert_eq!(told[0].offset.map(|offset| offset.0), Some(3));
    assert!(told[0].cause.contains("checksum is 0x"), "{}", told[0].cause);
}

/// graylog2-server#9305: a cut in the middle of an entry, with good segments after it.
#[test]
fn case_13_a_cut_segment_is_one_problem() {
    let cut = [batch(0, 2), batch(3, 5)].concat();
    let told = check_made(&[(0, cut[..cut.len() - 7].to_vec()), (6, batch(6, 8)), (9, batch(9, 9))], |_| ());
    assert_eq!(kinds(&told), [Kind::TornTail], "{}", lines(&told));
    assert!(told[0].offset.map(|offset| offset.0) == Some(3) && told[0].len == batch(3, 5).len() as u64 - 7);
}

/// bitnami-docker-kafka#33: 10 MiB of index of which nothing is used.
#[test]
fn case_16_and_17_preallocated_indexes_are_no_problem() {
    let told = check_made(&[(0, [batch(0, 4), batch(5, 9)].concat())], |directory| {
        for (extension, len) in [("index", 10_485_760), ("timeindex", 10_485_756)] {
            std::fs::File::create(directory.file(0, extension)).unwrap().set_len(len).unwrap();
        }
    });
    assert_eq!(lines(&told), "");
}

/// KAFKA-7076, KAFKA-13603: an index whose last entry is the base offset; an empty active segment alone.
#[test]
fn case_20_an_index_of_the_base_offset_and_an_empty_segment_are_no_problem() {
    let told = check_made(&[(0, [batch(0, 0), batch(1, 4)].concat()), (5, Vec::new())], |directory| {
        std::fs::write(directory.file(0, "index"), [0; 8]).unwrap();
    });
    assert_eq!(lines(&told), "");
    assert_eq!(lines(&check_made(&[(5, Vec::new())], |_| ())), "");
}

/// kafka-node#96: an entry that is being written.
#[test]
fn case_52_a_torn_tail_is_no_problem_while_it_may_be_written() {
    let directory = Directory::default();
    directory.write_segment(0, &[&batch(0, 2)[..], &batch(3, 5)[..30]].concat());
    assert_eq!(lines(&check(directory.path())).matches("torn-tail").count(), 0);
    age(directory.path());
    assert_eq!(lines(&check(directory.path())).matches("torn-tail").count(), 1);
}

/// KAFKA-16814, KAFKA-12835: `partition.metadata` missing, or empty.
#[test]
fn case_58_partition_metadata_missing_is_a_note_and_empty_a_problem() {
    let told = |content: Option<&str>| {
        let told = check_made(&[(0, batch(0, 1))], |directory| {
            if let Some(content) = content {
                std::fs::write(directory.path().join("t-0/partition.metadata"), content).unwrap();
            }
            let meta = "version=1\nnode.id=1\ncluster.id=a\ndirectory.id=DD-28RazJcxy0oI47iUAhA\n";
            std::fs::write(directory.path().join("meta.properties"), meta).unwrap();
        });
        kinds(&told)
    };
    assert_eq!(told(None), [], "which `check_made` leaves out");
    assert_eq!(told(Some("")), [Kind::Metadata]);
    assert_eq!(told(Some("version: 0\ntopic_id: MkTRaQKmQZWHJQrKGxOTKA")), []);
}

/// MaterializeInc/materialize#5456: directories of two clusters.
#[test]
fn case_59_two_clusters_are_a_note() {
    let (one, two) = (Directory::default(), Directory::default());
    for (directory, cluster) in [(&one, "abc"), (&two, "xyz")] {
        directory.write_segment(0, b"");
        let meta = format!("version=1\nnode.id=1\ncluster.id={cluster}\n");
        std::fs::write(directory.path().join("meta.properties"), meta).unwrap();
    }
    let told = check_with(&format!("{},{}", one.spec(), two.spec()), OPTIONS).0;
    assert_eq!(kinds(&told), [Kind::Cluster]);
    assert!(told[0].cause.contains("abc") && told[0].cause.contains("xyz"));
}

// A broker that writes meanwhile.

#[test]
fn what_a_broker_appends_meanwhile_is_no_problem() {
    let directory = Directory::default();
    directory.write_segment(0, &batch(0, 0));
    let append = |extension: &str, bytes: &[u8]| {
        use std::io::Write;
        let path = directory.file(0, extension);
        std::fs::File::options().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut position = batch(0, 0).len();
            for offset in 1..1500 {
                let bytes = batch(offset, offset);
                // A write may come in two parts.
                append("log", &bytes[..20]);
                append("log", &bytes[20..]);
                let relative = i32::try_from(offset).unwrap();
                append("index", &offsets(&[(relative, i32::try_from(position).unwrap())]));
                append("timeindex", &times(&[(1_700_000_000_000 + offset, relative)]));
                position += bytes.len();
            }
        });
        let mut checks = 0;
        while !writer.is_finished() || checks == 0 {
            let mut told = check(directory.path());
            told.retain(|problem| problem.kind != Kind::Missing);
            assert_eq!(lines(&told), "");
            checks += 1;
        }
        println!("{checks} checks");
    });
}

// The command, and the mount.

fn topicfs(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topicfs"));
    command.args(args).env_remove("RUST_LOG").stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn damaged(name: &str) -> DamageCase {
    fixtures::damage_cases().into_iter().find(|case| case.name == name).unwrap()
}

#[test]
fn exit_codes_and_summary() {
    let sound = damaged("sound").data();
    let output = topicfs(&["verify", sound.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), String::new()));
    assert_eq!(
        text(&output.stderr),
        "1 partition, 3 segments, 21 batches with 80 records, 9664 bytes: 0 problems, 0 notes\n"
    );
    let bad = damaged("bit-in-value").data();
    let output = topicfs(&["verify", bad.to_str().unwrap(), sound.to_str().unwrap()]);
    let line = text(&output.stdout);
    let file = bad.join("seg-size-0/00000000000000000025.log");
    let expected = format!("{}\tposition 1429\tlength 337\toffset 36\tdamaged\tchecksum is ", file.display());
    assert!(line.starts_with(&expected) && line.lines().count() == 1, "{line}");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("2 partitions, 6 segments, "));
    let output = topicfs(&["verify", sound.to_str().unwrap(), "/nowhere"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
    assert_eq!(text(&output.stderr), "topicfs: /nowhere: no such file or directory\n");
}

#[test]
fn notes_are_no_problem_and_can_be_left_out() {
    let data = damaged("leftover-cleaned").data();
    let output = topicfs(&["verify", data.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("\tleftover\t"));
    let output = topicfs(&["verify", "-q", data.to_str().unwrap()]);
    assert_eq!(
        (output.status.code(), text(&output.stdout), text(&output.stderr)),
        (Some(0), String::new(), String::new())
    );
}

#[test]
fn json_has_the_documented_keys() {
    let mut seen = 0;
    for case in fixtures::damage_cases() {
        let output = topicfs(&["verify", "--format", "json", case.data().to_str().unwrap()]);
        for line in text(&output.stdout).lines() {
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
            let keys: Vec<&str> = object.keys().map(String::as_str).collect();
            let mut expected = ["file", "position", "length", "offset", "kind", "severity", "cause"];
            expected.sort_unstable();
            assert_eq!(keys, expected, "{line}");
            assert!(object["position"].is_u64() && object["length"].is_u64(), "{line}");
            assert!(object["offset"].is_i64() || object["offset"].is_null(), "{line}");
            assert!(Kind::ALL.iter().any(|kind| kind.name() == object["kind"]), "{line}");
            assert!(Path::new(object["file"].as_str().unwrap()).starts_with(case.data()), "{line}");
            seen += 1;
        }
        let summary: serde_json::Value = serde_json::from_str(&text(&output.stderr)).unwrap();
        let problems = summary["problems"].as_u64().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(problems > 0)), "{}", case.name);
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn single_files() {
    let run = |case: &str, file: &str| {
        let path = damaged(case).data().join(file);
        let output = topicfs(&["verify", path.to_str().unwrap()]);
        let kinds: Vec<String> =
            text(&output.stdout).lines().map(|line| line.split('\t').nth(4).unwrap().to_owned()).collect();
        (output.status.code().unwrap(), kinds)
    };
    let told = |kind: &str| (1, vec![kind.to_owned()]);
    let index = "seg-size-0/00000000000000000025.index";
    assert_eq!(run("sound", index), (0, Vec::new()));
    // With its log beside it.
    assert_eq!(run("index-inside-batch", index), told("index"));
    assert_eq!(run("timeindex-wrong-time", "seg-size-0/00000000000000000025.timeindex"), told("time-index"));
    assert_eq!(run("bit-in-value", "seg-size-0/00000000000000000025.log"), told("damaged"));
    assert_eq!(run("snapshot-cut", "seg-size-0/00000000000000000080.snapshot"), told("snapshot"));
    assert_eq!(run("epochs-bad-line", "seg-size-0/leader-epoch-checkpoint"), told("epochs"));
    assert_eq!(run("meta-bad-number", "meta.properties"), told("metadata"));
    assert_eq!(run("recovery-point-bad", "recovery-point-offset-checkpoint"), told("checkpoint"));
    // Without it.
    let alone = tempfile::tempdir().unwrap();
    let copy = |case: &str, name: &str| {
        let to = alone.path().join(name);
        std::fs::copy(damaged(case).data().join("seg-size-0").join(name), &to).unwrap();
        topicfs(&["verify", to.to_str().unwrap()]).status.code()
    };
    assert_eq!(copy("sound", "00000000000000000025.index"), Some(0));
    assert_eq!(copy("index-not-sorted", "00000000000000000025.index"), Some(1));
    assert_eq!(copy("timeindex-not-sorted", "00000000000000000025.timeindex"), Some(1));
}

/// Content, modification and access time of all files.
fn states(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, [i64; 4])> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.metadata().unwrap();
        if meta.is_dir() {
            found.extend(states(&path));
            continue;
        }
        let times = [meta.mtime(), meta.mtime_nsec(), meta.atime(), meta.atime_nsec()];
        let content = std::fs::read(&path).unwrap();
        // Reading it here must not count.
        let file = std::fs::File::options().append(true).open(&path).unwrap();
        let accessed = std::fs::FileTimes::new().set_accessed(meta.accessed().unwrap());
        file.set_times(accessed.set_modified(meta.modified().unwrap())).unwrap();
        found.insert(path, (content, times));
    }
    found
}

#[test]
fn the_source_is_left_as_it_is() {
    for (version, name) in [("4.4.0", "unclean"), ("4.4.0", "kraft"), ("0.8.2.2", "torn")] {
        let copy = fixtures::copy(&fixtures::case(version, name).data());
        let before = states(copy.path());
        topicfs(&["verify", copy.path().to_str().unwrap()]);
        assert_eq!(before, states(copy.path()), "{version} {name}");
    }
}

#[test]
fn problems_in_a_mount_have_what_the_small_files_say() {
    let read = |case: &str, path: &str| {
        let fs = shown::open(damaged(case).data().to_str().unwrap(), Options::default());
        shown::names(&fs, "seg-size/0");
        shown::read(&fs, "seg-size/0/info");
        text(&shown::read(&fs, path))
    };
    let told = read("epochs-not-sorted", "seg-size/0/problems");
    assert_eq!(
        told,
        "leader-epoch-checkpoint\tposition 13\tlength 4\toffset 70\tepochs\tepoch 2 from offset 70 after epoch 4 from 50\n"
    );
    let file = damaged("epochs-not-sorted").data().join("seg-size-0/leader-epoch-checkpoint");
    let all = read("epochs-not-sorted", ".topicfs/problems");
    assert_eq!(
        all,
        told.replace("leader-epoch-checkpoint\tposition", &format!("{}\tposition", file.display()))
    );
    assert!(read("snapshot-cut", "seg-size/0/problems").contains("\tsnapshot\t"));
    assert!(
        read("meta-bad-number", ".topicfs/problems")
            .contains("meta.properties\tposition 10\tlength 11\toffset -\tmetadata\t")
    );
    assert!(read("recovery-point-bad", ".topicfs/problems").contains("\tcheckpoint\t"));
    assert_eq!(read("sound", "seg-size/0/problems") + &read("sound", ".topicfs/problems"), "");
}
