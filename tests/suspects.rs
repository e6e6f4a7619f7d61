//! `suspect.jsonl`: records that can be decoded and are not to be trusted are there, and nowhere else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use common::batches::{self, Entry, Plan};
use common::fixtures;
use common::model::{Directory, Numbers};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use serde_json::Value;
use topicfs::fs::options::{From, Options};
use topicfs::fs::topic_options::TopicOptions;

fn record(offset: i64) -> ShownRecord {
    ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: None,
        value: Some(format!("value {offset}").into_bytes()),
        headers: Vec::new(),
    }
}

fn batch(magic: u8, first: i64, last: i64) -> Entry {
    let records = (first..=last).map(record).collect();
    batches::encode(&Plan::of(records, Compression::None).with_magic(magic)).remove(0)
}

/// Offsets and values in `suspect.jsonl`, and the marks.
fn suspects(directory: &Directory) -> (Vec<ShownRecord>, Vec<Value>) {
    let fs = shown::open(directory.spec(), Options::default());
    let text = shown::read(&fs, "t/0/suspect.jsonl");
    let marks = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let marks = marks.map(|line| serde_json::from_slice::<Value>(line).unwrap()["suspect"].clone()).collect();
    (shown::records(&text), marks)
}

/// Three batches, of which `damage` changes the second; what becomes of its records in `suspect.jsonl`.
fn second_of_three(damage: impl Fn(&mut Vec<u8>)) -> (Vec<ShownRecord>, Vec<Value>) {
    let [first, second, third] = [(0, 2), (3, 5), (6, 8)].map(|(first, last)| batch(2, first, last).bytes);
    let mut changed = second;
    damage(&mut changed);
    let directory = Directory::default();
    directory.write_segment(0, &[first, changed, third].concat());
    let fs = shown::open(directory.spec(), Options::default());
    let offsets: Vec<i64> =
        shown::records(&shown::read(&fs, "t/0/log.jsonl")).iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 6, 7, 8], "the log must leave it out");
    suspects(&directory)
}

fn position(mark: &Value) -> u64 {
    assert_eq!(mark["file"], "00000000000000000000.log");
    mark["position"].as_u64().unwrap()
}

#[test]
fn a_batch_with_a_wrong_checksum_is_offered_apart_as_it_is_now() {
    let value_at = |bytes: &[u8]| bytes.windows(7).position(|window| window == b"value 4").unwrap();
    let (records, marks) = second_of_three(|bytes| {
        let at = value_at(bytes);
        bytes[at] = b'V';
    });
    let mut expected: Vec<_> = (3..=5).map(record).collect();
    expected[1].value = Some(b"Value 4".to_vec());
    assert_eq!(records, expected);
    assert!(marks.iter().all(|mark| position(mark) == batch(2, 0, 2).bytes.len() as u64));
    assert!(marks[0]["cause"].as_str().unwrap().starts_with("checksum is 0x"), "{marks:?}");
}

#[test]
fn a_batch_whose_length_or_magic_is_damaged_is_found_out_by_its_checksum() {
    let expected: Vec<_> = (3..=5).map(record).collect();
    for (at, mask) in [(8, 0x80), (9, 0x01), (10, 0x40), (11, 0x01), (11, 0x20), (16, 0x01), (16, 0x40)] {
        let (records, marks) = second_of_three(|bytes| bytes[at] ^= mask);
        assert_eq!(records, expected, "byte {at}, mask {mask:#x}");
        let cause = marks[0]["cause"].as_str().unwrap();
        assert!(cause.contains("the checksum is right for size") && cause.ends_with("magic 2"), "{cause}");
    }
}

#[test]
fn a_batch_in_a_wrong_place_is_offered_apart() {
    let (records, marks) = second_of_three(|bytes| bytes[5] ^= 0x10);
    assert_eq!(
        records.iter().map(|record| record.offset).collect::<Vec<_>>(),
        [0x0010_0003, 0x0010_0004, 0x0010_0005]
    );
    assert_eq!(marks[0]["cause"], "offsets 1048579 to 1048581 are out of place");
}

#[test]
fn what_is_damaged_beyond_decoding_is_not_there() {
    let (records, _) = second_of_three(|bytes| {
        // The first record's length.
        bytes[61] = 0x7f;
    });
    assert!(records.is_empty(), "{records:?}");
    let (records, _) = second_of_three(|bytes| bytes.iter_mut().for_each(|byte| *byte = 0));
    assert!(records.is_empty(), "{records:?}");
}

#[test]
fn old_magics_too() {
    for magic in [0, 1] {
        let entries: Vec<Vec<u8>> = (0..4).map(|offset| batch(magic, offset, offset).bytes).collect();
        let mut bytes = entries.concat();
        let at = bytes.windows(7).position(|window| window == b"value 2").unwrap();
        bytes[at] = b'V';
        let directory = Directory::default();
        directory.write_segment(0, &bytes);
        let (records, marks) = suspects(&directory);
        assert_eq!(records.len(), 1);
        assert_eq!((records[0].offset, records[0].value.as_deref()), (2, Some(b"Value 2".as_slice())));
        assert_eq!(position(&marks[0]), (entries[0].len() * 2) as u64);
    }
}

#[test]
fn the_size_is_what_is_read_and_any_part_can_be_read_alone() {
    let mut bytes = Vec::new();
    for number in 0..300 {
        let mut batch = batch(2, number * 3, number * 3 + 2).bytes;
        // All but each tenth, so that they are in groups.
        if number % 10 != 0 {
            let last = batch.len() - 2;
            batch[last] ^= 0x01;
        }
        bytes.extend(batch);
    }
    let directory = Directory::default();
    directory.write_segment(0, &bytes);
    let fs = shown::open(directory.spec(), Options::default());
    let node = fs.resolve("t/0/suspect.jsonl").unwrap();
    let whole = shown::read(&fs, "t/0/suspect.jsonl");
    assert_eq!(whole.split(|byte| *byte == b'\n').count() - 1, 270 * 3);
    let size = fs.attributes(0, &node, topicfs::view::selection::Effort::All).unwrap().size;
    assert_eq!(size, whole.len() as u64);
    let content = fs.content(0, &node).unwrap();
    let mut numbers = Numbers::new(7);
    for _ in 0..300 {
        let (at, len) = (numbers.below(whole.len() + 10), numbers.below(3000));
        let mut part = Vec::new();
        fs.read_content(&content, at as u64, len, &mut part).unwrap();
        let from = at.min(whole.len());
        assert_eq!(part, whole[from..whole.len().min(from + len)], "{len} bytes at {at}");
    }
}

#[test]
fn a_sound_log_has_none_and_no_listing_names_the_file() {
    let directory = Directory::default();
    directory.write_segment(0, &[batch(2, 0, 2).bytes, batch(2, 3, 5).bytes].concat());
    assert_eq!(suspects(&directory).0, []);
    let fs = shown::open(directory.spec(), Options::default());
    assert!(!shown::names(&fs, "t/0").iter().any(|name| name.starts_with("suspect")));
    // Zeros behind the last batch are no suspects, nor is half a batch.
    directory.append(0, &vec![0; 4096]);
    assert_eq!(suspects(&directory).0, []);
    let torn = Directory::default();
    torn.write_segment(0, &batch(2, 0, 2).bytes[..80]);
    assert_eq!(suspects(&torn).0, []);
}

#[test]
fn no_suspect_of_the_damaged_copies_is_in_the_log() {
    let (mut cases, mut found) = (0, 0);
    for case in fixtures::damage_cases() {
        let options = TopicOptions { from: From::FirstSegment, ..TopicOptions::default() }.into();
        let fs = shown::open(case.data().to_str().unwrap(), options);
        let (topic, number) = case.expect.topic.rsplit_once('-').unwrap();
        let read = |name: &str| shown::records(&shown::read(&fs, &format!("{topic}/{number}/{name}")));
        let (log, suspects) = (read("log.jsonl"), read("suspect.jsonl"));
        if case.name.starts_with("sound") {
            assert_eq!(suspects, [], "{}", case.name);
        }
        let both = suspects.iter().find(|suspect| log.contains(suspect));
        // Batches that are there twice are suspects the second time.
        if !matches!(case.name.as_str(), "batch-twice" | "segments-overlap") {
            assert_eq!(both, None, "{}", case.name);
        }
        cases += 1;
        found += usize::from(!suspects.is_empty());
    }
    println!("{found} of {cases} damaged copies have suspects");
    assert!(found > 8, "{found}");
}
