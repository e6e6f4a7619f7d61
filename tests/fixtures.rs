//! The test data is what its documentation says, and the helper of all other tests reads it right.

#![allow(clippy::expect_used, reason = "a test that can't go on stops with a panic")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::thread;

use common::fixtures::{self, DumpKind, Reading, TimestampType};

const README: &str = include_str!("data/README.md");

/// Cases, partitions and records of each archive in the table of `tests/data/README.md`.
fn documented() -> BTreeMap<String, [usize; 3]> {
    let rows = README.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells[1].trim_matches('`').strip_suffix(".tar.zst").expect("an archive").to_owned();
        (name, [2, 3, 4].map(|i| cells[i].parse().expect("a count")))
    };
    rows.map(row).collect()
}

#[test]
fn archives_are_the_documented_ones() {
    let names = fixtures::archives();
    let names: Vec<_> =
        names.iter().map(|path| path.file_name().expect("a name").to_string_lossy()).collect();
    let mut expected: Vec<_> = documented().into_keys().map(|name| name + ".tar.zst").collect();
    expected.sort();
    assert_eq!(names, expected);
    let sums: Vec<_> = include_str!("data/SHA256SUMS").lines().map(|line| &line[66..]).collect();
    assert_eq!(names, sums);
}

#[test]
fn counts_are_the_documented_ones() {
    let mut counts: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for case in fixtures::cases() {
        let folder = case.dir.parent().and_then(Path::file_name).expect("a folder").to_string_lossy();
        let [cases, partitions, records] = counts.entry(folder.into_owned()).or_default();
        *cases += 1;
        for partition in case.partitions() {
            *partitions += 1;
            *records += partition.records().len();
        }
    }
    counts.insert("damage".to_owned(), [fixtures::damage_cases().len(), 0, 0]);
    assert_eq!(counts, documented());
}

#[test]
fn every_file_is_unpacked() {
    fn count(dir: &Path) -> usize {
        let list = fs::read_dir(dir).expect("directory").map(|entry| entry.expect("entry").path());
        list.map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
    }
    assert_eq!(count(fixtures::dir()), 9812);
}

/// The offsets that kafka-dump-log prints for the logs of a partition, control records left out.
fn dumped_offsets(dumps: &[fixtures::Dump], dir: &Path) -> Vec<i64> {
    let mut offsets = Vec::new();
    for dump in dumps {
        let is_log = dump.source.extension().is_some_and(|extension| extension == "log");
        if !is_log || dump.kind != DumpKind::Full || !dump.source.starts_with(dir) {
            continue;
        }
        let text = fs::read(&dump.text).expect("dump");
        let mut control = false;
        for line in String::from_utf8_lossy(&text).lines() {
            if line.starts_with("baseOffset: ") {
                control = line.contains(" isControl: true");
            } else if let Some(rest) = line.strip_prefix("| offset: ").filter(|_| !control) {
                let offset = rest.split(' ').next().expect("an offset");
                offsets.push(offset.parse().expect("an offset"));
            }
        }
    }
    offsets
}

#[test]
fn readings_are_as_noted() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for case in fixtures::cases() {
        let dumps = case.dumps();
        for partition in case.partitions() {
            let read: Vec<i64> = partition.records().iter().map(|record| record.offset).collect();
            let mut dumped = dumped_offsets(&dumps, &partition.dir);
            // Copies that say the same have their dump with another copy only; there, all is as on disk.
            if dumped.is_empty() && !read.is_empty() && case.name.starts_with("replicas") {
                continue;
            }
            let kind = match partition.reading {
                Reading::AsOnDisk => "as on disk",
                Reading::AboveLogStart(start) => {
                    dumped.retain(|offset| *offset >= start);
                    "above log start"
                }
                Reading::AfterRestart => "after restart",
                Reading::BeforeDeletion => "before deletion",
            };
            assert_eq!(read, dumped, "{}", partition.expect.display());
            *seen.entry(kind).or_default() += 1;
        }
    }
    // cut in two versions, three of deleted-records, tier-cut; killed and torn, three each; three deleted ones.
    assert_eq!(seen["above log start"], 6);
    assert_eq!(seen["after restart"], 6);
    assert_eq!(seen["before deletion"], 3);
}

#[test]
fn committed_records_are_a_part_of_all() {
    let mut differ = 0;
    for partition in fixtures::cases().iter().flat_map(fixtures::Case::partitions) {
        let all = partition.records();
        let Some(committed) = partition.committed_differ() else { continue };
        // In tier-0 the aborted records are in the remote store only.
        let fewer = committed.len() < all.len() || partition.topic == "tier";
        assert!(fewer, "{}", partition.expect.display());
        assert!(committed.iter().all(|record| all.contains(record)), "{}", partition.expect.display());
        differ += 1;
    }
    assert_eq!(differ, 20);
}

#[test]
fn odd_records_come_through() {
    let shapes = fixtures::case("4.4.0", "shapes").partitions();
    let shapes = shapes.iter().find(|partition| partition.topic == "shapes").expect("topic shapes").records();
    assert!(shapes.iter().any(|record| record.key.is_none() && record.value.is_none()));
    assert!(shapes.iter().any(|record| record.key.as_deref() == Some(b"")));
    assert!(shapes.iter().any(|record| record.headers.iter().any(|(_name, value)| value.is_none())));
    assert!(shapes.iter().any(|record| record.headers.len() == 20));
    let old = fixtures::case("0.8.2.2", "codecs").partitions();
    let old = old.iter().find(|partition| partition.topic == "plain").expect("topic plain").records();
    assert_eq!(old[0].timestamp_type, TimestampType::NoTimestampType);
    assert_eq!(old[0].timestamp, -1);
    assert_eq!(old[0].key.as_deref(), Some(&b"key-0"[..]));
}

#[test]
fn damage_is_described() {
    for case in fixtures::damage_cases() {
        assert!(case.data().is_dir() && case.recover.len() == 2, "{}", case.name);
        let in_file = case.expect.sound_before.len() + case.expect.sound_after.len();
        assert!(in_file <= case.expect.sound_batches, "{}", case.name);
    }
}

#[test]
fn preallocated_files_have_holes() {
    let partition = fixtures::case("4.4.0", "live").data().join("live-idle-0");
    let copy = fixtures::copy(&partition);
    for dir in [partition.as_path(), copy.path()] {
        let metadata = fs::metadata(dir.join("00000000000000000000.index")).expect("index");
        assert_eq!(metadata.len(), 10_485_760);
        assert!(metadata.blocks() * 512 < 1_000_000, "{}", dir.display());
        assert_eq!(metadata.mtime(), 1_795_910_400, "{}", dir.display());
    }
}

#[test]
fn several_can_unpack_at_once() {
    let target = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory");
    let to = target.path().join("unpacked");
    let mut archives = fixtures::archives();
    archives.retain(|path| path.ends_with("kafka-1.1.1.tar.zst"));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                assert!(fixtures::unpack_once(&archives, &to).join("kafka-1.1.1/txn/data").is_dir());
            });
        }
    });
    let left: Vec<_> = fs::read_dir(target.path()).expect("directory").collect();
    assert_eq!(left.len(), 1, "what the losers unpacked is gone");
}
