//! Every record of every broker's data directory, as Kafka's own consumer read it.

#![allow(clippy::expect_used, reason = "a test that can't go on stops with a panic")]

mod common;

use common::fixtures::{self, ExpectedRecord, Partition, Reading};
use common::mounted::topicfs;
use common::shown::{self, ShownRecord};
use topicfs::fs::Fs;
use topicfs::fs::options::{Isolation, Options};
use topicfs::fs::topic_options::TopicOptions;

/// Calls `check` with each partition of each case whose data is what its consumer read, and the source around it.
fn for_each_partition(options: &Options, mut check: impl FnMut(&Fs, &str, &Partition)) -> usize {
    let mut checked = 0;
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let fs = shown::open(data.to_str().expect("UTF-8"), options.clone());
            for partition in case.partitions().iter().filter(|partition| partition.dir.starts_with(&data)) {
                if !matches!(partition.reading, Reading::AsOnDisk | Reading::AboveLogStart(_)) {
                    continue;
                }
                let path = format!("{}/{}", partition.topic, partition.number);
                check(&fs, &path, partition);
                checked += 1;
            }
        }
    }
    checked
}

fn assert_same(what: &str, expected: &[ExpectedRecord], shown: &[ShownRecord]) {
    for (expected, shown) in expected.iter().zip(shown) {
        assert_eq!(&ShownRecord::from(expected), shown, "{what}");
    }
    let offsets = |records: &[ShownRecord]| records.iter().map(|record| record.offset).collect::<Vec<_>>();
    let expected: Vec<_> = expected.iter().map(ShownRecord::from).collect();
    assert_eq!(offsets(&expected), offsets(shown), "{what}");
}

/// The lines of a `problems` file that tell of damage; a zero tail, as preallocation leaves it, is none.
fn damage(problems: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(problems);
    text.lines().filter(|line| !line.contains("\tzero-tail\t")).map(str::to_owned).collect()
}

#[test]
fn log_jsonl_says_what_a_consumer_was_given() {
    let checked = for_each_partition(&Options::default(), |fs, path, partition| {
        let lines = shown::read(fs, &format!("{path}/log.jsonl"));
        let what = partition.dir.display().to_string();
        assert_same(&what, &partition.records(), &shown::records(&lines));
        assert_eq!(damage(&shown::read(fs, &format!("{path}/problems"))), [""; 0], "{what}");
    });
    println!("{checked} partitions");
    assert!(checked > 250, "{checked} partitions");
}

#[test]
fn committed_says_what_a_read_committed_consumer_was_given() {
    let options: Options =
        TopicOptions { isolation: Isolation::ReadCommitted, ..TopicOptions::default() }.into();
    let mut differing = 0;
    for_each_partition(&options, |fs, path, partition| {
        let lines = shown::read(fs, &format!("{path}/log.jsonl"));
        let what = partition.dir.display().to_string();
        assert_same(&what, &partition.committed(), &shown::records(&lines));
        differing += usize::from(partition.committed_differ().is_some());
    });
    assert!(differing > 5, "{differing} partitions with transactions");
}

#[test]
fn a_partition_at_committed_is_read_committed_whatever_the_mount_says() {
    for_each_partition(&Options::default(), |fs, path, partition| {
        if let Some(committed) = partition.committed_differ() {
            let lines = shown::read(fs, &format!("{path}@committed/log.jsonl"));
            assert_same(path, &committed, &shown::records(&lines));
        }
    });
}

#[test]
fn a_record_by_offset_is_its_value_byte_for_byte() {
    let mut records = 0;
    for_each_partition(&Options::default(), |fs, path, partition| {
        for record in partition.records() {
            let file = format!("{path}/by-offset/{}", record.offset);
            assert_eq!(shown::read(fs, &file), record.value.clone().unwrap_or_default(), "{file}");
            records += 1;
        }
    });
    println!("{records} records");
    assert!(records > 10_000, "{records}");
}

#[test]
fn segments_are_the_files_and_their_renderings_make_up_the_log() {
    for_each_partition(&Options::default(), |fs, path, partition| {
        for extension in ["", ".jsonl", ".tsv"] {
            let mut joined = Vec::new();
            for name in shown::names(fs, &format!("{path}/by-segment")) {
                if !name.contains('.') {
                    joined.extend(shown::read(fs, &format!("{path}/by-segment/{name}{extension}")));
                }
            }
            assert_eq!(joined, shown::read(fs, &format!("{path}/log{extension}")), "{path}{extension}");
        }
        let mut names: Vec<_> = std::fs::read_dir(&partition.dir)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        assert_eq!(shown::names(fs, &format!("{path}/segments")), names);
        for name in names {
            let file = std::fs::read(partition.dir.join(&name)).expect("a source file");
            assert_eq!(shown::read(fs, &format!("{path}/segments/{name}")), file, "{path}/segments/{name}");
        }
    });
}

#[test]
fn topicfs_cat_prints_what_the_engine_reads() {
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let partitions = case.partitions();
            let here: Vec<_> =
                partitions.iter().filter(|partition| partition.dir.starts_with(&data)).collect();
            let listed = |partition: &&&Partition| {
                matches!(partition.reading, Reading::AsOnDisk | Reading::AboveLogStart(_))
            };
            let paths: Vec<_> =
                here.iter().filter(listed).map(|p| format!("{}/{}/log.jsonl", p.topic, p.number)).collect();
            if paths.is_empty() {
                continue;
            }
            let fs = shown::open(data.to_str().expect("UTF-8"), Options::default());
            let expected: Vec<u8> = paths.iter().flat_map(|path| shown::read(&fs, path)).collect();
            let printed = topicfs().arg("cat").arg(&data).args(&paths).output().expect("topicfs runs");
            assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
            assert!(printed.stdout == expected, "{}", data.display());
        }
    }
}

#[test]
fn a_name_that_is_no_offset_is_told_what_would_be() {
    let data = fixtures::case("4.4.0", "segments").data();
    let run = |path: &str| topicfs().arg("cat").arg(&data).arg(path).output().expect("topicfs runs");
    let wrong = run("seg-size/0/by-offset/12x..");
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in ["seg-size/0/by-offset/12x..", "12345", "last-N", "A..B", ".jsonl"] {
        assert!(said.contains(part), "{said}");
    }
    let absent = run("seg-size/0/by-offset/999999");
    assert_eq!((absent.status.code(), absent.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(run("seg-size/0/by-offset/[R]*.txt").status.success());
}
