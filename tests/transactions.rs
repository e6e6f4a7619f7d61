//! `@committed` where the log alone does not tell: segments that retention has deleted, markers in damage, and what the cache
//! keeps. What a consumer with `read_committed` got is in the fixtures.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs;
use std::path::Path;

use common::batches::{self, Entry, Plan};
use common::fixtures::{self, Partition};
use common::model::Directory;
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::fs::Fs;
use topicfs::fs::options::Options;
use topicfs::log::problem::Kind as ProblemKind;
use topicfs::log::sidecar::Sidecars;
use topicfs::log::source::Source;
use topicfs::log::verify::Plan as VerifyPlan;

fn offsets(fs: &Fs, path: &str) -> Vec<i64> {
    shown::records(&shown::read(fs, path)).iter().map(|record| record.offset).collect()
}

fn last_stable(fs: &Fs, partition: &str) -> i64 {
    let info: serde_json::Value =
        serde_json::from_slice(&shown::read(fs, &format!("{partition}/info.json"))).unwrap();
    info["last_stable_offset"].as_i64().unwrap()
}

/// The base offsets of a directory's segments.
fn bases(directory: &Path) -> Vec<i64> {
    let mut bases: Vec<i64> = numbers(directory, ".log");
    bases.sort_unstable();
    bases
}

fn numbers(directory: &Path, suffix: &str) -> Vec<i64> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names
        .filter_map(|name| name.to_str().unwrap().strip_suffix(suffix).map(|base| base.parse().unwrap()))
        .collect()
}

/// Deletes the files of all segments below `base`, as retention does.
fn delete_below(directory: &Path, base: i64) {
    for suffix in [".log", ".index", ".timeindex", ".txnindex", ".snapshot"] {
        for number in numbers(directory, suffix).into_iter().filter(|number| *number < base) {
            fs::remove_file(directory.join(format!("{number:020}{suffix}"))).unwrap();
        }
    }
}

/// What is left for a consumer of `partition` once its log begins at `base`: records, and the last stable offset.
fn left(partition: &Partition, base: i64) -> (Vec<i64>, i64) {
    let committed = partition.committed().into_iter().map(|record| record.offset);
    let stable = partition.offsets().unwrap().committed_end.unwrap();
    (committed.filter(|offset| *offset >= base).collect(), stable.max(base))
}

#[test]
fn what_retention_leaves_is_read_as_a_consumer_would_read_it() {
    let (mut checked, mut held_back) = (0, 0);
    for (version, name) in [("4.4.0", "txn"), ("4.4.0", "txn-v1"), ("3.9.1", "txn"), ("4.4.0", "unclean")] {
        let case = fixtures::case(version, name);
        let partitions = case.partitions();
        for partition in partitions.iter().filter(|partition| partition.committed_differ().is_some()) {
            let copy = fixtures::copy(&case.data());
            let directory = copy.path().join(partition.dir.file_name().unwrap());
            for base in bases(&directory).split_off(1) {
                delete_below(&directory, base);
                let fs = shown::open(copy.path().to_str().unwrap(), Options::default());
                let path = format!("{}/{}@committed", partition.topic, partition.number);
                let what = format!("{version} {name} {path} from {base}");
                let (records, stable) = left(partition, base);
                assert_eq!(offsets(&fs, &format!("{path}/log.jsonl")), records, "{what}");
                assert_eq!(last_stable(&fs, &path), stable, "{what}");
                checked += 1;
                held_back += usize::from(partition.offsets().unwrap().committed_end.unwrap() < base);
            }
        }
    }
    assert!(checked > 20 && held_back > 3, "{checked} {held_back}");
}

/// The snapshots of the txn fixture's partition `txn-a-0`, its log beginning at its last segment, which an open transaction precedes.
fn begun_before() -> (tempfile::TempDir, Partition, i64) {
    let case = fixtures::case("4.4.0", "txn");
    let found = case.partitions().into_iter().find_map(|partition| {
        let stable = partition.offsets()?.committed_end?;
        let all = bases(&partition.dir);
        let base = all.iter().copied().rev().nth(1).filter(|base| *base > stable)?;
        Some((partition, base))
    });
    let (partition, base) =
        found.expect("a partition with two segments behind the start of an open transaction");
    let copy = fixtures::copy(&case.data());
    delete_below(&copy.path().join(partition.dir.file_name().unwrap()), base);
    (copy, partition, base)
}

#[test]
fn a_later_snapshot_serves_where_the_first_one_is_torn_or_gone() {
    let (copy, partition, base) = begun_before();
    let directory = copy.path().join(partition.dir.file_name().unwrap());
    let path = format!("{}/{}@committed", partition.topic, partition.number);
    let first = directory.join(format!("{base:020}.snapshot"));
    let bytes = fs::read(&first).unwrap();
    let shown = || {
        let fs = shown::open(copy.path().to_str().unwrap(), Options::default());
        (offsets(&fs, &format!("{path}/log.jsonl")), last_stable(&fs, &path))
    };
    assert_eq!(shown(), (Vec::new(), base));
    fs::write(&first, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(shown(), (Vec::new(), base), "torn");
    fs::remove_file(&first).unwrap();
    assert_eq!(shown(), (Vec::new(), base), "gone");
    // Without any, nothing is known but what the log says.
    for number in numbers(&directory, ".snapshot") {
        fs::remove_file(directory.join(format!("{number:020}.snapshot"))).unwrap();
    }
    assert!(shown().1 > base);
    // One below the log's start says what was open then, and not whether it was when the log begins.
    fs::write(directory.join(format!("{:020}.snapshot", base - 1)), &bytes).unwrap();
    assert!(shown().1 > base);
}

fn data(first: i64, last: i64, producer: i64) -> Entry {
    let record = |offset: i64| ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: None,
        value: Some(vec![b'v'; 100]),
        headers: Vec::new(),
    };
    let mut plan = Plan::of((first..=last).map(record).collect(), Compression::None);
    (plan.producer, plan.is_transactional) = (producer, producer >= 0);
    batches::encode(&plan).remove(0)
}

fn marker(offset: i64, producer: i64, commits: bool) -> Entry {
    batches::encode(&Plan::marker(offset, producer, commits)).remove(0)
}

/// A transaction index: producer, first offset, marker.
fn txn_index(entries: &[(i64, i64, i64)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (producer, first, last) in entries {
        out.extend([0, 0]);
        for number in [*producer, *first, *last, *last + 1] {
            out.extend(number.to_be_bytes());
        }
    }
    out
}

/// A log of these batches, those at `damaged` with a wrong checksum, and a transaction index where there is one.
fn damaged(entries: &[Entry], damaged: &[usize], index: Option<&[(i64, i64, i64)]>) -> (Directory, Fs) {
    let mut bytes = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        bytes.extend(&entry.bytes);
        if damaged.contains(&number) {
            *bytes.last_mut().unwrap() ^= 1;
        }
    }
    let directory = Directory::default();
    directory.write_segment(0, &bytes);
    if let Some(index) = index {
        fs::write(directory.file(0, "txnindex"), txn_index(index)).unwrap();
    }
    let fs = shown::open(directory.spec(), Options::default());
    (directory, fs)
}

#[test]
fn an_abort_marker_in_damage_is_known_by_its_index_entry() {
    let entries = [
        data(0, 1, 7),
        data(2, 2, -1),
        marker(3, 7, false),
        data(4, 5, 7),
        marker(6, 7, true),
        data(7, 7, -1),
    ];
    let committed = "t/0@committed/log.jsonl";
    let (_kept, fs) = damaged(&entries, &[2], Some(&[(7, 0, 3)]));
    assert_eq!(offsets(&fs, committed), [2, 4, 5, 7]);
    // Entries that say anything else are not about this transaction.
    for index in [vec![(7, 1, 3)], vec![(8, 0, 3)], vec![(7, 0, 2)], vec![(7, 0, 6)], vec![]] {
        let (_kept, fs) = damaged(&entries, &[2], Some(&index));
        assert_eq!(offsets(&fs, committed), [0, 1, 2, 4, 5, 7], "{index:?}");
    }
}

#[test]
fn a_commit_marker_in_damage_does_not_hide_what_it_committed() {
    let entries = [data(0, 1, 7), marker(2, 7, true), data(3, 4, 7), marker(5, 7, false), data(6, 6, -1)];
    let committed = "t/0@committed/log.jsonl";
    let (_kept, fs) = damaged(&entries, &[1], Some(&[(7, 3, 5)]));
    assert_eq!(offsets(&fs, committed), [0, 1, 6]);
    let (_kept, fs) = damaged(&entries, &[1], None);
    assert_eq!(offsets(&fs, committed), [6], "nothing tells where the aborted transaction began");
}

/// Broker (`ProducerAppendInfo.append`) and consumer (`containsAbortMarker`) ask no more of a marker than that it is a control batch.
#[test]
fn a_marker_ends_its_transaction_also_without_the_transactional_flag() {
    let plain_marker = |offset, producer, commits| {
        let mut entry = marker(offset, producer, commits);
        entry.bytes[22] &= !0x10;
        batches::seal(&mut entry.bytes);
        entry
    };
    let entries =
        [data(0, 1, 7), plain_marker(2, 7, true), data(3, 4, 7), plain_marker(5, 7, false), data(6, 6, -1)];
    let (directory, fs) = damaged(&entries, &[], Some(&[(7, 3, 5)]));
    assert_eq!(offsets(&fs, "t/0@committed/log.jsonl"), [0, 1, 6]);
    let source = Source::open(directory.spec(), Options::default().of_source()).unwrap();
    let mut problems = Vec::new();
    VerifyPlan::new(&source).run(1, &|_| (), &mut |report| problems.extend(report.problems));
    problems.retain(|problem| problem.kind == ProblemKind::TxnIndex);
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn an_index_that_lacks_a_transaction_or_invents_one_changes_nothing() {
    let entries = [data(0, 1, 7), marker(2, 7, false), data(3, 4, 7), marker(5, 7, true), data(6, 6, -1)];
    for index in [None, Some(vec![]), Some(vec![(7, 0, 2), (7, 3, 5)]), Some(vec![(7, 3, 4), (9, 6, 6)])] {
        let (_kept, fs) = damaged(&entries, &[], index.as_deref());
        assert_eq!(offsets(&fs, "t/0@committed/log.jsonl"), [3, 4, 6], "{index:?}");
    }
}

/// A sealed segment of more than 1 MiB with an aborted and a committed transaction, one that goes on, and the next segment.
fn large() -> Directory {
    let filler: Vec<Entry> = (0..12_000).map(|n| data(n, n, -1)).collect();
    let mut first: Vec<u8> = filler.iter().flat_map(|entry| entry.bytes.clone()).collect();
    for entry in [
        data(12_000, 12_000, 1),
        data(12_001, 12_001, 2),
        marker(12_002, 1, false),
        marker(12_003, 2, true),
        data(12_004, 12_004, 3),
        data(12_005, 12_005, 4),
    ] {
        first.extend(entry.bytes);
    }
    let directory = Directory::default();
    directory.write_segment(0, &first);
    let second = [marker(12_006, 3, false), data(12_007, 12_007, -1), data(12_008, 12_008, 5)];
    directory.write_segment(12_006, &second.iter().flat_map(|entry| entry.bytes.clone()).collect::<Vec<_>>());
    directory
}

#[test]
fn sealed_segments_are_scanned_once_and_what_was_found_is_kept() {
    let (directory, cache) = (large(), tempfile::tempdir().unwrap());
    let options = || Options { cache_dir: Some(cache.path().join("c")), ..Options::default() };
    let committed = "t/0@committed/by-offset/12000...jsonl";
    let shown = || {
        let fs = shown::open(directory.spec(), options());
        (offsets(&fs, committed), last_stable(&fs, "t/0@committed"))
    };
    // Producer 4's transaction is open, so that all behind its beginning is held back.
    let expected = (vec![12_001], 12_005);
    assert_eq!(shown(), expected);
    let kept = fs::read_dir(cache.path().join("c")).unwrap();
    let names: Vec<_> = kept.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().filter(|name| name.ends_with("-transactions")).count(), 1, "{names:?}");
    assert_eq!(shown(), expected, "as the cache has it");

    // The proof that it is not scanned again: what the cache says of this very file is believed.
    let sidecars = Sidecars::open(&cache.path().join("c"), 1 << 20).unwrap();
    let file = topicfs::log::files::open(&directory.file(0, "log")).unwrap();
    let saved = sidecars.load(&file, "transactions").unwrap().bytes().to_vec();
    sidecars.save(&file, "transactions", &saved[..48]).unwrap();
    assert_eq!(shown().0, [12_000, 12_001, 12_004, 12_005, 12_007], "no events");
    // And what is of another state of the segment is not.
    for (at, what) in
        [(3, "version"), (15, "length"), (23, "smallest offset"), (31, "next segment"), (74, "event")]
    {
        let mut wrong = saved.clone();
        wrong[at] ^= 0x40;
        sidecars.save(&file, "transactions", &wrong).unwrap();
        assert_eq!(shown(), expected, "{what}");
    }
    directory.append(12_006, &marker(12_009, 4, true).bytes);
    assert_eq!(shown(), (vec![12_001, 12_005, 12_007], 12_008));
}
