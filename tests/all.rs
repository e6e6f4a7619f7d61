//! `all/`: partitions merged by time, against a plain merge of plain lists.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeSet;

use common::batches::{self, Plan};
use common::fixtures;
use common::logs::{LogPlan, config, large_log, small_log};
use common::model::{self, Isolation, Model, Numbers};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use proptest::prelude::*;
use tempfile::TempDir;
use topicfs::fs::options::Options;
use topicfs::fs::topic_options::TopicOptions;
use topicfs::fs::{Fs, FsError, key_names};
use topicfs::view::format::Formats;
use topicfs::view::selection::Effort;

/// A data directory with these partitions of the topic `t`.
fn directory(plans: &[LogPlan], models: &[Model]) -> TempDir {
    let data = tempfile::tempdir().unwrap();
    let mut starts = String::new();
    for (number, (plan, model)) in plans.iter().zip(models).enumerate() {
        let one = plan.write(&Model { checkpoint: None, ..model.clone() });
        fixtures::copy_into(&one.path().join("t-0"), &data.path().join(format!("t-{number}")));
        if let Some(start) = model.checkpoint {
            starts.push_str(&format!("t {number} {start}\n"));
        }
    }
    let text = format!("0\n{}\n{starts}", starts.lines().count());
    std::fs::write(data.path().join("log-start-offset-checkpoint"), text).unwrap();
    data
}

/// Of what is left of each partition, the record with the smallest time comes next.
fn merged(mut partitions: Vec<Vec<ShownRecord>>) -> Vec<(usize, ShownRecord)> {
    partitions.iter_mut().for_each(|records| records.reverse());
    let mut out = Vec::new();
    loop {
        let heads = partitions.iter().enumerate();
        let next = heads.filter_map(|(number, left)| Some((left.last()?.timestamp, number))).min();
        let Some((_, number)) = next else { return out };
        out.push((number, partitions[number].pop().unwrap()));
    }
}

fn check_file(fs: &Fs, stem: &str, expected: &[(usize, ShownRecord)]) {
    let records: Vec<_> = expected.iter().map(|(_, record)| record.clone()).collect();
    for format in ["txt", "tsv", "jsonl"] {
        let path = format!("{stem}.{format}");
        let read = shown::read(fs, &path);
        let size = fs.attributes(0, &fs.resolve(&path).unwrap(), Effort::All).unwrap().size;
        assert_eq!(size, read.len() as u64, "size of {path}");
        match format {
            "txt" => assert!(read == model::text(&records), "{path}"),
            "tsv" => assert!(read == model::tsv(&records), "{path}"),
            _ => {
                assert!(shown::records(&read) == records, "{path}");
                let lines = std::str::from_utf8(&read).unwrap().lines();
                let numbers = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
                let numbers: Vec<_> = numbers.map(|line| line["partition"].as_u64().unwrap()).collect();
                assert_eq!(
                    numbers,
                    expected.iter().map(|(number, _)| *number as u64).collect::<Vec<_>>(),
                    "{path}"
                );
            }
        }
    }
    for format in ["log", "dump"] {
        assert!(matches!(fs.resolve(&format!("{stem}.{format}")), Err(FsError::NotFound)), "{stem}.{format}");
    }
}

fn check_seeks(fs: &Fs, path: &str, numbers: &mut Numbers) {
    let whole = shown::read(fs, path);
    shown::check_slices(fs, path, &whole, numbers, 12);
}

/// The latest record of a key is the one with the largest time of each partition's last; its history is merged.
fn check_keys(fs: &Fs, by_key: &str, partitions: &[Vec<ShownRecord>]) {
    let keys: BTreeSet<&Vec<u8>> =
        partitions.iter().flatten().filter_map(|record| record.key.as_ref()).collect();
    for key in keys.into_iter().take(30) {
        let of_key = |records: &Vec<ShownRecord>| {
            let of_key = records.iter().filter(|record| record.key.as_ref() == Some(key));
            of_key.cloned().collect::<Vec<_>>()
        };
        let having: Vec<_> = partitions.iter().map(of_key).collect();
        let path = format!("{by_key}/{}", key_names::build(key, &Formats::default()));
        let expected = merged(having.clone());
        check_file(fs, &path, &expected);
        let last = having
            .iter()
            .enumerate()
            .filter_map(|(number, records)| Some((records.last()?.timestamp, number)));
        let (_, number) = last.max().unwrap();
        match having[number].last().unwrap().value.clone() {
            Some(value) => assert!(shown::read(fs, &path) == value, "{path}"),
            None => assert!(matches!(fs.resolve(&path), Err(FsError::NotFound)), "{path}"),
        }
    }
    assert!(matches!(fs.resolve(&format!("{by_key}/no-such-key")), Err(FsError::NotFound)));
}

fn check(plans: &[LogPlan]) {
    let models: Vec<Model> = plans.iter().map(LogPlan::model).collect();
    let data = directory(plans, &models);
    let options: Options = TopicOptions { tail_records: 7, ..TopicOptions::default() }.into();
    let fs = shown::open(data.path().to_str().unwrap(), options);
    let mut numbers = Numbers::new(plans[0].seed);
    for (isolation, all) in [(Isolation::Uncommitted, "t/all"), (Isolation::Committed, "t/all@committed")] {
        let records = |pass: &dyn Fn(&ShownRecord) -> bool| {
            let of =
                |model: &Model| model.records(isolation).into_iter().filter(|record| pass(record)).collect();
            models.iter().map(of).collect::<Vec<Vec<ShownRecord>>>()
        };
        check_file(&fs, &format!("{all}/log"), &merged(records(&|_| true)));
        check_seeks(&fs, &format!("{all}/log.jsonl"), &mut numbers);
        let last: Vec<_> = records(&|_| true)
            .into_iter()
            .map(|records| records[records.len().saturating_sub(7)..].to_vec())
            .collect();
        let last = merged(last);
        check_file(&fs, &format!("{all}/tail"), &last[last.len().saturating_sub(7)..]);
        let year = 1_640_995_200_000..1_672_531_200_000;
        check_file(
            &fs,
            &format!("{all}/by-time/2022"),
            &merged(records(&|record| year.contains(&record.timestamp))),
        );
        check_seeks(&fs, &format!("{all}/by-time/2022.tsv"), &mut numbers);
        check_keys(&fs, &format!("{all}/by-key"), &records(&|_| true));
    }
}

proptest! {
    #![proptest_config(config(48, 21))]

    #[test]
    fn partitions_are_merged_by_time(plans in prop::collection::vec(small_log(), 1..5)) {
        check(&plans);
    }
}

proptest! {
    #![proptest_config(config(2, 22))]

    #[test]
    fn large_partitions_are_merged_by_time(plans in prop::collection::vec(large_log(), 2..3)) {
        check(&plans);
    }
}

fn record(offset: i64, timestamp: i64) -> ShownRecord {
    let value = Some(format!("{timestamp}").into_bytes());
    ShownRecord { offset, timestamp, key: None, value, headers: Vec::new() }
}

fn bytes(first: i64, times: &[i64]) -> Vec<u8> {
    let records = (first..).zip(times).map(|(offset, time)| record(offset, *time)).collect();
    batches::encode(&Plan::of(records, Compression::None)).remove(0).bytes
}

fn append(data: &TempDir, number: i32, first: i64, times: &[i64]) {
    append_to(data, number, 0, first, times);
}

fn append_to(data: &TempDir, number: i32, base: i64, first: i64, times: &[i64]) {
    use std::io::Write as _;
    let path = data.path().join(format!("t-{number}/{base:020}.log"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.unwrap().write_all(&bytes(first, times)).unwrap();
}

#[test]
fn what_comes_later_is_added_at_the_end_for_all_who_have_the_file_open() {
    let data = tempfile::tempdir().unwrap();
    append(&data, 0, 0, &[10, 30]);
    append(&data, 1, 0, &[20, 40]);
    let fs = shown::open(data.path().to_str().unwrap(), Options::default());
    let node = fs.resolve("t/all/log").unwrap();
    let (first, second) = (fs.content(0, &node).unwrap(), fs.content(0, &node).unwrap());
    let read = |content| {
        let mut out = Vec::new();
        fs.read_content(content, 0, 1000, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(read(&first), "10\n20\n30\n40\n");
    append(&data, 0, 2, &[15, 60]);
    append(&data, 1, 2, &[50]);
    assert_eq!(read(&first), "10\n20\n30\n40\n15\n50\n60\n");
    append(&data, 1, 3, &[5]);
    assert_eq!(read(&second), "10\n20\n30\n40\n15\n50\n60\n5\n");
    assert_eq!(fs.attributes(0, &node, Effort::All).unwrap().size, 23);
    // Who comes new to it is given all of it in one go.
    assert_eq!(shown::read(&fs, "t/all/tail"), b"10\n20\n30\n15\n40\n50\n5\n60\n");
}

/// Found by a load of thirty minutes: a reader kept its place among the blocks of a segment that was rolled meanwhile, and what came
/// behind the segment was left for another round, which never came when nothing was appended any more.
#[test]
fn what_comes_behind_a_roll_is_merged_with_the_rest_of_its_round() {
    let data = tempfile::tempdir().unwrap();
    let times: Vec<i64> = (0..12_000).collect();
    // More than a block, and the beginning of another one.
    append(&data, 0, 0, &times);
    append(&data, 0, 12_000, &[20_000]);
    append(&data, 1, 0, &[5]);
    let fs = shown::open(data.path().to_str().unwrap(), Options::default());
    let node = fs.resolve("t/all/log").unwrap();
    let content = fs.content(0, &node).unwrap();
    let read = |at: usize, len: usize| {
        let mut out = Vec::new();
        fs.read_content(&content, at as u64, len, &mut out).unwrap();
        out
    };
    let mut all = read(0, 1000);
    append(&data, 0, 12_001, &[20_001]);
    append_to(&data, 0, 12_002, 12_002, &[30_000]);
    all.extend(read(all.len(), 1 << 20));
    let text = String::from_utf8(all).unwrap();
    assert_eq!(text.lines().count(), 12_004);
    assert!(text.ends_with("11999\n20000\n20001\n30000\n"), "{}", &text[text.len() - 60..]);
}

#[test]
fn only_partitions_that_a_broker_serves_are_merged() {
    let data = tempfile::tempdir().unwrap();
    append(&data, 0, 0, &[10]);
    append(&data, 1, 0, &[20]);
    std::fs::rename(data.path().join("t-1"), data.path().join("t-1.0123456789abcdef0123456789abcdef-delete"))
        .unwrap();
    let fs = shown::open(data.path().to_str().unwrap(), Options::default());
    assert_eq!(shown::names(&fs, "t"), ["0", "1.delete", "all", "info", "info.json"]);
    assert_eq!(shown::read(&fs, "t/all/log"), b"10\n");
    assert_eq!(shown::names(&fs, "t/all"), ["by-key", "by-time", "log", "log.jsonl", "tail", "tail.jsonl"]);
    assert_eq!(shown::names(&fs, "t/all/by-time"), ["1970-01-01", "README.txt"]);
    assert_eq!(shown::names(&fs, "t/all/by-time/1970-01-01"), ["00.jsonl", "00.txt"]);
    assert_eq!(shown::read(&fs, "t/all/by-time/1970-01-01/00.txt"), b"10\n");
    assert!(matches!(fs.resolve("t/all/by-time/1970-01-01T00"), Err(FsError::NotFound)));
}

#[test]
fn every_topic_of_every_broker_is_merged_as_its_partitions_say() {
    let mut checked = 0;
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let fs = shown::open(data.to_str().unwrap(), Options::default());
            for topic in shown::names(&fs, "")
                .iter()
                .filter(|name| !["README.txt", ".topicfs", "topics.tsv"].contains(&name.as_str()))
            {
                let numbers: Vec<String> = shown::names(&fs, topic)
                    .into_iter()
                    .filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
                    .collect();
                if numbers.len() < 2 {
                    continue;
                }
                let mut numbers: Vec<u32> = numbers.iter().map(|number| number.parse().unwrap()).collect();
                numbers.sort_unstable();
                let records = numbers
                    .iter()
                    .map(|number| shown::records(&shown::read(&fs, &format!("{topic}/{number}/log.jsonl"))));
                let expected: Vec<_> =
                    merged(records.collect()).into_iter().map(|(_, record)| record).collect();
                assert!(
                    shown::records(&shown::read(&fs, &format!("{topic}/all/log.jsonl"))) == expected,
                    "{}: {topic}",
                    data.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked} topics");
}
