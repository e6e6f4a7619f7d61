//! Damaged segments: never a panic, never a wrong record, and every record of the batches that are whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::batches::{self, Entry, Plan};
use common::fixtures::{self, DamageCase};
use common::model::{Directory, Numbers};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::fs::Fs;
use topicfs::fs::options::{From, OnDamage, Options};
use topicfs::fs::topic_options::TopicOptions;

fn record(offset: i64) -> ShownRecord {
    ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: Some(format!("k{offset}").into_bytes()),
        value: Some(format!("value {offset}").into_bytes()),
        headers: vec![(b"h".to_vec(), None)],
    }
}

/// Four batches of 1 to 3 records, without gaps.
fn small_log(magic: u8, codec: Compression) -> Vec<Entry> {
    let bounds = [(0, 2), (3, 3), (4, 6), (7, 8)];
    let plan = |(first, last)| Plan::of((first..=last).map(record).collect(), codec).with_magic(magic);
    bounds.iter().flat_map(|bounds| batches::encode(&plan(*bounds))).collect()
}

fn all_kinds() -> Vec<(u8, Compression)> {
    use Compression::{Gzip, Lz4, None, Snappy, Zstd};
    let old = [0, 1].into_iter().flat_map(|magic| [None, Gzip, Snappy, Lz4].map(|codec| (magic, codec)));
    old.chain([None, Gzip, Snappy, Lz4, Zstd].map(|codec| (2, codec))).collect()
}

/// A batch of magic 2 with these records.
fn batch(offsets: std::ops::RangeInclusive<i64>) -> Vec<u8> {
    batches::encode(&Plan::of(offsets.map(record).collect(), Compression::None)).remove(0).bytes
}

/// A source with a segment and its offset index, which has these numbers.
fn indexed(log: &[u8], index: &[u32]) -> (Directory, Fs) {
    let directory = Directory::default();
    directory.write_segment(0, log);
    let index: Vec<u8> = index.iter().flat_map(|number| number.to_be_bytes()).collect();
    std::fs::write(directory.file(0, "index"), index).unwrap();
    let fs = shown::open(directory.spec(), Options::default());
    (directory, fs)
}

/// Each of these records is found by its offset.
fn assert_found(fs: &Fs, offsets: impl IntoIterator<Item = i64>) {
    for offset in offsets {
        let value = shown::read(fs, &format!("t/0/by-offset/{offset}"));
        assert_eq!(value, format!("value {offset}").into_bytes());
    }
}

/// What `log.jsonl` shows of a segment, written to `directory`.
fn shown_of(directory: &Directory, bytes: &[u8]) -> Vec<ShownRecord> {
    directory.write_segment(0, bytes);
    shown::records(&shown::read(&shown::open(directory.spec(), Options::default()), "t/0/log.jsonl"))
}

/// Why what is shown of something damaged is not right: `originals` are all records by offset.
fn wrong(originals: &BTreeMap<i64, ShownRecord>, shown: &[ShownRecord]) -> Option<String> {
    if let Some(pair) = shown.windows(2).find(|pair| pair[0].offset >= pair[1].offset) {
        return Some(format!("{} is followed by {}", pair[0].offset, pair[1].offset));
    }
    let odd = shown.iter().find(|record| originals.get(&record.offset) != Some(*record));
    odd.map(|record| format!("no record of the log: {record:?}"))
}

/// The offsets in `needed` that are not shown.
fn missing(needed: impl IntoIterator<Item = i64>, shown: &[ShownRecord]) -> Vec<i64> {
    let shown: BTreeSet<i64> = shown.iter().map(|record| record.offset).collect();
    needed.into_iter().filter(|offset| !shown.contains(offset)).collect()
}

fn by_offset<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<i64, ShownRecord> {
    let records = entries.into_iter().flat_map(|entry| entry.records.iter().cloned());
    records.map(|record| (record.offset, record)).collect()
}

#[test]
fn each_byte_flipped_in_segments_of_each_magic() {
    let mut read = 0;
    for (magic, codec) in all_kinds() {
        let (entries, directory) = (small_log(magic, codec), Directory::default());
        let originals = by_offset(&entries);
        let whole: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes.clone()).collect();
        let mut end = 0;
        for (number, entry) in entries.iter().enumerate() {
            let others = || entries.iter().enumerate().filter(move |(other, _)| *other != number);
            for at in end..end + entry.bytes.len() {
                // No checksum covers the offset (nor, in magic 2, the epoch). In the log's last batch nothing that
                // follows can contradict a wrong offset either.
                let is_offset = at - end < 8;
                if is_offset && number == entries.len() - 1 {
                    continue;
                }
                for mask in [0x01, 0x80, 0xff] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= mask;
                    let shown = shown_of(&directory, &bytes);
                    let what = format!(
                        "magic {magic} {codec:?}, byte {at} of entry {number} at {end}, mask {mask:#x}"
                    );
                    assert_eq!(wrong(&originals, &shown), None, "{what}");
                    let needed = by_offset(others().map(|(_, entry)| entry)).into_keys();
                    assert_eq!(missing(needed, &shown), Vec::<i64>::new(), "{what}");
                    read += 1;
                }
            }
            end += entry.bytes.len();
        }
    }
    println!("{read} flips");
}

#[test]
fn each_length_cut_in_segments_of_each_magic() {
    for (magic, codec) in all_kinds() {
        let (entries, directory) = (small_log(magic, codec), Directory::default());
        let whole: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes.clone()).collect();
        for len in 0..=whole.len() {
            let mut end = 0;
            let complete = entries.iter().filter(|entry| {
                end += entry.bytes.len();
                end <= len
            });
            let expected: Vec<_> = by_offset(complete).into_values().collect();
            assert_eq!(
                shown_of(&directory, &whole[..len]),
                expected,
                "magic {magic} {codec:?}, cut at {len}"
            );
        }
    }
}

#[test]
fn neighbours_that_changed_places_are_shown_in_order() {
    for (magic, codec) in all_kinds() {
        let (mut entries, directory) = (small_log(magic, codec), Directory::default());
        let originals: Vec<_> = by_offset(&entries).into_values().collect();
        for first in 0..entries.len() - 1 {
            entries.swap(first, first + 1);
            let what = format!("magic {magic} {codec:?}, entries {first} and {}", first + 1);
            let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes.clone()).collect();
            assert_eq!(shown_of(&directory, &bytes), originals, "{what}");
            let fs = shown::open(directory.spec(), Options::default());
            for record in &originals {
                let value = shown::read(&fs, &format!("t/0/by-offset/{}", record.offset));
                assert_eq!(Some(value), record.value, "{what}");
            }
            let whole = shown::read(&fs, "t/0/log.tsv");
            for at in (0..whole.len()).step_by(7) {
                let content = fs.content(0, &fs.resolve("t/0/log.tsv").unwrap()).unwrap();
                let mut part = Vec::new();
                fs.read_content(&content, at as u64, 11, &mut part).unwrap();
                assert_eq!(part, whole[at..whole.len().min(at + 11)], "{what}");
            }
            // As a segment, they are put right.
            let (set_right, other) = (shown::read(&fs, "t/0/log.log"), Directory::default());
            other.write_segment(0, &set_right);
            let fs = shown::open(other.spec(), Options::default());
            assert_eq!(shown::read(&fs, "t/0/log.tsv"), whole, "{what}");
            assert_eq!(shown::read(&fs, "t/0/problems"), b"", "{what}");
            entries.swap(first, first + 1);
        }
    }
}

/// The records of the undamaged topic: what Kafka's consumer read of it, up to the end of the copy.
fn originals(case: &DamageCase) -> BTreeMap<i64, ShownRecord> {
    let source = fixtures::case("4.4.0", "segments");
    let (topic, number) = case.expect.topic.rsplit_once('-').unwrap();
    let is_it = |p: &fixtures::Partition| p.topic == topic && p.number.to_string() == number;
    let partition = source.partitions().into_iter().find(is_it).unwrap();
    let records = partition.records().into_iter().filter(|record| record.offset < case.expect.end);
    records
        .map(|record| {
            let fixtures::ExpectedRecord { offset, timestamp, key, value, headers, .. } = record;
            (offset, ShownRecord { offset, timestamp, key, value, headers })
        })
        .collect()
}

/// The path of the only partition of a damage case.
fn path_of(case: &DamageCase) -> String {
    case.expect.topic.rsplit_once('-').map(|(topic, number)| format!("{topic}/{number}")).unwrap()
}

fn sound_offsets(case: &DamageCase, originals: &BTreeMap<i64, ShownRecord>) -> Vec<i64> {
    let is_changed =
        |offset: &i64| case.expect.changed_batches.iter().any(|(a, b)| (*a..=*b).contains(offset));
    let sound: Vec<i64> = originals.keys().copied().filter(|offset| !is_changed(offset)).collect();
    assert_eq!(sound.len(), case.expect.sound_records, "{}", case.name);
    sound
}

#[test]
fn the_hundred_damaged_copies_show_every_sound_record_and_nothing_wrong() {
    let cases = fixtures::damage_cases();
    let (mut met, mut failures) = (0, Vec::new());
    for case in &cases {
        let originals = originals(case);
        let fs = shown::open(
            case.data().to_str().unwrap(),
            TopicOptions { from: From::FirstSegment, ..TopicOptions::default() }.into(),
        );
        let shown = shown::records(&shown::read(&fs, &format!("{}/log.jsonl", path_of(case))));
        let sound = sound_offsets(case, &originals);
        let lost = missing(sound, &shown);
        if let Some(what) = wrong(&originals, &shown) {
            failures.push(format!("{}: {what}", case.name));
        } else if !lost.is_empty() {
            failures.push(format!("{}: {lost:?} are left out", case.name));
        } else {
            met += 1;
        }
    }
    println!("{met} of {} met", cases.len());
    assert_eq!(failures, Vec::<String>::new());
    assert_eq!((met, cases.len()), (100, 100));
}

/// Position, length and kind in the line of `problems` about `file`.
fn problems(fs: &Fs, partition: &str, file: &str) -> Vec<(u64, u64, String)> {
    let text = String::from_utf8(shown::read(fs, &format!("{partition}/problems"))).unwrap();
    let lines = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    lines
        .filter(|fields| fields[0] == file)
        .map(|fields| {
            let number = |field: &str, name: &str| field.strip_prefix(name).unwrap().trim().parse().unwrap();
            (number(fields[1], "position"), number(fields[2], "length"), fields[4].to_owned())
        })
        .collect()
}

#[test]
fn problems_names_the_file_and_the_place_of_damage_in_logs() {
    let mut checked = 0;
    for case in fixtures::damage_cases() {
        let (Some(file), Some(at), Some(batch)) = (&case.expect.file, case.expect.at, case.expect.batch)
        else {
            continue;
        };
        let is_legal =
            case.expect.readable.as_deref() == Some("all") || case.expect.changed_batches.is_empty();
        if !file.ends_with(".log") || is_legal || case.name == "batch-missing" {
            continue;
        }
        let copy = fixtures::copy(&case.data());
        let fs = shown::open(copy.path().to_str().unwrap(), Options::default());
        let path = path_of(&case);
        shown::read(&fs, &format!("{path}/log"));
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        let lines = problems(&fs, &path, name);
        let names_it = lines.iter().any(|(position, len, _)| *position <= at && at < position + len.max(&1));
        let at_batch = lines.iter().any(|(position, ..)| *position == batch.position);
        assert!(names_it || at_batch, "{}: damage at {at} in {batch:?}, problems: {lines:?}", case.name);
        checked += 1;
    }
    println!("{checked} damaged logs");
    assert!(checked > 30, "{checked}");
}

#[test]
fn index_and_checkpoint_damage_leaves_no_problem_of_records() {
    for case in fixtures::damage_cases() {
        let is_of_log = case.expect.file.as_deref().is_some_and(|file| file.ends_with(".log"));
        if is_of_log && !case.name.starts_with("sound") || case.name.starts_with("segment") {
            continue;
        }
        let fs = shown::open(case.data().to_str().unwrap(), Options::default());
        let path = path_of(&case);
        shown::read(&fs, &format!("{path}/log"));
        let told = String::from_utf8(shown::read(&fs, &format!("{path}/problems"))).unwrap();
        // What the small files say of themselves is no problem of records.
        let of_records = |line: &&str| {
            let kind = line.split('\t').nth(4).unwrap();
            !["epochs", "metadata", "snapshot", "name"].contains(&kind)
        };
        let lines: Vec<&str> = told.lines().filter(of_records).collect();
        if !matches!(case.name.as_str(), "name-too-high" | "leftover-swap") {
            assert_eq!(lines, [""; 0], "{}", case.name);
        }
    }
}

/// A segment of a real broker, its records, and where its batches lie.
struct Real {
    bytes: Vec<u8>,
    base: i64,
    records: BTreeMap<i64, ShownRecord>,
    /// Position, end, and the offsets of the records in it.
    batches: Vec<(usize, usize, Vec<i64>)>,
}

fn real_segments() -> Vec<Real> {
    let mut found = Vec::new();
    for case in fixtures::cases() {
        for partition in case.partitions() {
            if partition.reading != fixtures::Reading::AsOnDisk {
                continue;
            }
            let all: BTreeMap<i64, ShownRecord> = partition
                .records()
                .into_iter()
                .map(|r| {
                    (
                        r.offset,
                        ShownRecord {
                            offset: r.offset,
                            timestamp: r.timestamp,
                            key: r.key,
                            value: r.value,
                            headers: r.headers,
                        },
                    )
                })
                .collect();
            let mut logs: Vec<_> = std::fs::read_dir(&partition.dir)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
                .collect();
            logs.sort();
            let Some(log) = logs.first() else { continue };
            let base = log.file_stem().unwrap().to_str().unwrap().parse().unwrap();
            let bytes = std::fs::read(log).unwrap();
            let batches = split(&bytes, base, &all);
            let records: BTreeMap<_, _> = batches
                .iter()
                .flat_map(|(.., offsets)| offsets)
                .map(|offset| (*offset, all[offset].clone()))
                .collect();
            if (12_000..400_000).contains(&bytes.len()) && batches.len() > 6 && !records.is_empty() {
                found.push(Real { bytes, base, records, batches });
            }
        }
    }
    found
}

/// Splits a sound segment by the sizes that its entries say. Of a compressed set only the last offset is known outside.
fn split(bytes: &[u8], base: i64, records: &BTreeMap<i64, ShownRecord>) -> Vec<(usize, usize, Vec<i64>)> {
    let (mut batches, mut at, mut next) = (Vec::new(), 0, base);
    while at + 17 <= bytes.len() {
        let offset = i64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        let size = i32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap());
        let Ok(size @ 14..) = usize::try_from(size) else { break };
        let last = match bytes[at + 16] {
            2 => offset + i64::from(i32::from_be_bytes(bytes[at + 23..at + 27].try_into().unwrap())),
            _ => offset,
        };
        batches.push((at, at + 12 + size, records.range(next..=last).map(|(offset, _)| *offset).collect()));
        (at, next) = (at + 12 + size, last + 1);
    }
    batches
}

/// Damages a copy; the ranges of the original's bytes that are not where, or what, they were.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) -> (&'static str, Vec<std::ops::Range<usize>>) {
    let len = bytes.len();
    let unit = |size: usize, numbers: &mut Numbers| {
        let start = numbers.below(len.div_ceil(size)) * size;
        start..(start + size).min(len)
    };
    match numbers.below(6) {
        0 => {
            let places: Vec<_> = (0..=numbers.below(4)).map(|_| numbers.below(len)).collect();
            places.iter().for_each(|at| bytes[*at] ^= 1 << numbers.below(8));
            ("flips", places.into_iter().map(|at| at..at + 1).collect())
        }
        1 => {
            let cut = numbers.below(len);
            bytes.truncate(cut);
            ("cut", std::iter::once(cut..len).collect())
        }
        2 => {
            let sector = unit(512, numbers);
            bytes[sector.clone()].fill(0);
            ("sector zeroed", vec![sector])
        }
        3 => {
            let page = unit(4096, numbers);
            bytes[page.clone()].fill(0);
            ("page zeroed", vec![page])
        }
        4 => {
            let (a, b) = (unit(4096, numbers), unit(4096, numbers));
            if a.len() != b.len() || a == b {
                return ("nothing", Vec::new());
            }
            let (first, second) = (bytes[a.clone()].to_vec(), bytes[b.clone()].to_vec());
            bytes[a.clone()].copy_from_slice(&second);
            bytes[b.clone()].copy_from_slice(&first);
            ("pages swapped", vec![a, b])
        }
        _ => {
            let from = numbers.below(len);
            let range = from..(from + 1 + numbers.below(3000)).min(len);
            let copy = bytes[range.clone()].to_vec();
            let at = range.end;
            bytes.splice(at..at, copy);
            ("range twice", std::iter::once(at..at).collect())
        }
    }
}

#[test]
fn random_damage_to_real_segments() {
    const ROUNDS: usize = 3000;
    let segments = real_segments();
    assert!(segments.len() > 8, "{}", segments.len());
    let (mut compared, mut failures) = (0, Vec::new());
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for round in 0..ROUNDS {
        let real = &segments[round % segments.len()];
        let mut numbers = Numbers::new(round as u64 + 1);
        let mut bytes = real.bytes.clone();
        let (what, ranges) = damage(&mut bytes, &mut numbers);
        let hits_offset = |(start, ..): &(usize, usize, Vec<i64>)| {
            ranges.iter().any(|range| range.start < start + 8 && *start < range.end)
        };
        let directory = Directory::default();
        directory.write_segment(real.base, &bytes);
        let fs = shown::open(directory.spec(), Options::default());
        let shown = shown::records(&shown::read(&fs, "t/0/log.jsonl"));
        let is_touched = |(start, end, _): &&(usize, usize, Vec<i64>)| {
            ranges.iter().any(|range| {
                if range.is_empty() {
                    *start < range.start && range.start < *end
                } else {
                    range.start < *end && *start < range.end
                }
            })
        };
        let (touched, untouched): (Vec<_>, Vec<_>) = real.batches.iter().partition(is_touched);
        let lost = missing(untouched.iter().flat_map(|(.., offsets)| offsets.iter().copied()), &shown);
        let bytes_of = |batches: &[&(usize, usize, Vec<i64>)], offsets: &BTreeSet<i64>| -> usize {
            let is_one =
                |(.., own): &&&(usize, usize, Vec<i64>)| own.iter().any(|offset| offsets.contains(offset));
            batches.iter().filter(is_one).map(|(start, end, _)| end - start).sum()
        };
        let shown_offsets = shown.iter().map(|record| record.offset).collect();
        let moved = bytes_of(&touched, &shown_offsets);
        compared += shown.len();
        // Nothing contradicts a wrong offset in the last batch.
        let is_moved = real.batches.last().is_some_and(hits_offset) && what == "flips";
        let count = counts.entry(what).or_default();
        count.0 += 1;
        if let Some(text) = wrong(&real.records, &shown).filter(|_| !is_moved) {
            failures.push(format!("round {round}, {what} {ranges:?}: {text}"));
        }
        if !lost.is_empty() {
            count.1 += 1;
            // Where whole batches lie in a wrong place and others in theirs contradict them, those that are more
            // bytes are believed.
            let outweighed =
                what == "pages swapped" && bytes_of(&untouched, &lost.iter().copied().collect()) <= moved;
            if !outweighed {
                failures.push(format!(
                    "round {round}, {what} {ranges:?} of {}: {lost:?} left out, {moved} bytes moved",
                    real.bytes.len()
                ));
            }
        }
    }
    println!("{compared} records compared; damage, rounds, rounds with a loss: {counts:?}");
    assert_eq!(failures, Vec::<String>::new());
}

#[test]
fn on_damage_error_gives_the_bytes_before_it_and_then_eio() {
    for codec in [Compression::None, Compression::Lz4] {
        let entries = small_log(2, codec);
        let mut bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes.clone()).collect();
        let broken = entries[0].bytes.len() + 70;
        bytes[broken] ^= 0x40;
        let directory = Directory::default();
        directory.write_segment(0, &bytes);
        let fs = shown::open(
            directory.spec(),
            TopicOptions { on_damage: OnDamage::Error, ..TopicOptions::default() }.into(),
        );
        let content = fs.content(0, &fs.resolve("t/0/log").unwrap()).unwrap();
        let before = b"value 0\nvalue 1\nvalue 2\n";
        let mut read = Vec::new();
        fs.read_content(&content, 0, 1 << 20, &mut read).unwrap();
        assert_eq!(read, before);
        let error = fs.read_content(&content, before.len() as u64, 1 << 20, &mut Vec::new()).unwrap_err();
        assert_eq!(error.errno(), libc::EIO, "{error}");
        // Ranges without the damage are whole.
        assert_eq!(
            shown::read(&fs, "t/0/by-offset/4...txt"),
            b"value 4\nvalue 5\nvalue 6\nvalue 7\nvalue 8\n"
        );
        assert_eq!(shown::read(&fs, "t/0/by-offset/..3.txt"), before);
        assert!(shown::try_read(&fs, "t/0/by-offset/..5.txt").is_err());
    }
}

#[test]
fn from_first_segment_shows_what_lies_below_the_log_start() {
    let entries = small_log(2, Compression::Gzip);
    let directory = Directory::default();
    directory.write_segment(0, &entries.iter().flat_map(|entry| entry.bytes.clone()).collect::<Vec<u8>>());
    directory.set_log_start(5);
    let open = |from| shown::open(directory.spec(), TopicOptions { from, ..TopicOptions::default() }.into());
    let first = |fs: &Fs| shown::records(&shown::read(fs, "t/0/log.jsonl"))[0].offset;
    assert_eq!(first(&open(From::LogStart)), 5);
    assert_eq!(first(&open(From::FirstSegment)), 0);
    assert!(open(From::LogStart).resolve("t/0/by-offset/4").is_err());
    assert_eq!(shown::read(&open(From::FirstSegment), "t/0/by-offset/4"), b"value 4");
}

#[test]
fn a_wrong_offset_is_found_behind_what_was_there_before() {
    let entries =
        [0, 1, 2, 3].map(|n| batches::encode(&Plan::of(vec![record(n)], Compression::None)).remove(0));
    let mut odd = entries[1].bytes.clone();
    odd[2] = 0x2d;
    // The log, then again its second batch with a high offset and its first, and only then what follows.
    let parts =
        [&entries[0].bytes, &entries[1].bytes, &odd, &entries[0].bytes, &entries[2].bytes, &entries[3].bytes];
    let bytes: Vec<u8> = parts.into_iter().flatten().copied().collect();
    let offsets: Vec<_> =
        shown_of(&Directory::default(), &bytes).iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 3]);
}

#[test]
fn a_wrong_offset_of_a_compressed_set_costs_that_set_alone() {
    for magic in [0, 1] {
        let entries = small_log(magic, Compression::Gzip);
        let mut bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes.clone()).collect();
        bytes[0] = 1;
        let offsets: Vec<_> =
            shown_of(&Directory::default(), &bytes).iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [3, 4, 5, 6, 7, 8], "magic {magic}");
    }
}

/// Looking ahead behind damage, what is known of the entry before must follow the batches that are looked at: single messages
/// behind a set are not inside it.
#[test]
fn single_messages_behind_a_damaged_set_and_a_damaged_message_are_shown() {
    let set = |offsets: std::ops::RangeInclusive<i64>| {
        batches::encode(&Plan::of(offsets.map(record).collect(), Compression::Gzip).with_magic(0)).remove(0)
    };
    let single =
        |offset| batches::encode(&Plan::of(vec![record(offset)], Compression::None).with_magic(0)).remove(0);
    let mut entries = [set(0..=3), set(4..=7), single(8), single(9), single(10), single(11)];
    for damaged in [1, 3] {
        *entries[damaged].bytes.last_mut().unwrap() ^= 1;
    }
    let bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.bytes.clone()).collect();
    let offsets: Vec<_> =
        shown_of(&Directory::default(), &bytes).iter().map(|record| record.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 8, 10, 11]);
}

/// A segment whose name is too high begins below it; the one before it ends there too.
#[test]
fn a_name_that_is_too_high_shows_no_record_twice_and_sizes_are_right() {
    let log = |offsets: std::ops::Range<i64>| -> Vec<u8> {
        let plan = |offset| Plan::of(vec![record(offset)], Compression::None);
        offsets.flat_map(|offset| batches::encode(&plan(offset)).remove(0).bytes).collect()
    };
    let directory = Directory::default();
    directory.write_segment(0, &log(0..5));
    directory.write_segment(20, &log(10..15));
    let fs = shown::open(directory.spec(), Options::default());
    let whole = shown::read(&fs, "t/0/log");
    let names = shown::names(&fs, "t/0/by-segment").into_iter().filter(|name| !name.contains('.'));
    let joined: Vec<u8> =
        names.flat_map(|name| shown::read(&fs, &format!("t/0/by-segment/{name}"))).collect();
    assert_eq!(String::from_utf8_lossy(&joined), String::from_utf8_lossy(&whole));
    for range in ["3..12.txt", "3..13.jsonl", "..11.tsv"] {
        let node = fs.resolve(&format!("t/0/by-offset/{range}")).unwrap();
        let size = fs.attributes(0, &node, topicfs::view::selection::Effort::All).unwrap().size;
        let read = shown::read(&fs, &format!("t/0/by-offset/{range}"));
        assert_eq!(size, read.len() as u64, "{range}");
    }
}

/// The log end of a partition as `info` tells it.
fn log_end(fs: &Fs) -> i64 {
    let info: serde_json::Value = serde_json::from_slice(&shown::read(fs, "t/0/info.json")).unwrap();
    info["log_end_offset"].as_i64().unwrap()
}

/// A scan that is taken up again where the last one ended still knows that it is among compressed sets.
#[test]
fn a_message_inside_a_damaged_set_at_the_end_is_never_shown() {
    let set =
        batches::encode(&Plan::of((0..=3).map(record).collect(), Compression::Gzip).with_magic(0)).remove(0);
    let inner = batches::encode(&Plan::of(vec![record(6)], Compression::None).with_magic(0)).remove(0);
    // A set whose codec left its messages as they were, its size lost.
    let bytes = [&set.bytes[..], &[0xff; 30], &inner.bytes].concat();
    let directory = Directory::default();
    directory.write_segment(0, &bytes);
    let fs = shown::open(directory.spec(), Options::default());
    for _ in 0..3 {
        assert_eq!(log_end(&fs), 4);
        for view in ["t/0", "t/0@committed"] {
            assert_eq!(shown::records(&shown::read(&fs, &format!("{view}/log.jsonl"))).len(), 4, "{view}");
        }
    }
}

/// An index entry for a sound batch that went back: the entry before it says that it is not in its place.
#[test]
fn an_index_entry_for_a_batch_that_is_out_of_place_is_not_believed() {
    let entries: Vec<_> = (0..4)
        .map(|n| batches::encode(&Plan::of(vec![record(n)], Compression::None)).remove(0).bytes)
        .collect();
    let mut bytes = entries.concat();
    let again = u32::try_from(bytes.len()).unwrap();
    bytes.extend_from_slice(&entries[0]);
    let second = u32::try_from(entries[0].len()).unwrap();
    let (_directory, fs) = indexed(&bytes, &[1, second, 3, again]);
    assert_eq!(log_end(&fs), 4);
}

/// Of batches that contradict each other behind damage, one side is shown: not neither.
#[test]
fn of_contradicting_batches_behind_damage_one_side_is_shown() {
    let batch = |offset, len| {
        let value = Some(vec![b'v'; len]);
        let plan = Plan::of(vec![ShownRecord { value, ..record(offset) }], Compression::None);
        batches::encode(&plan).remove(0).bytes
    };
    let mut damaged = batch(1, 5);
    *damaged.last_mut().unwrap() ^= 1;
    // The large one in the midst is more bytes than the two behind it, which say that it is too early.
    let bytes = [batch(0, 5), damaged, batch(4, 5), batch(10, 400), batch(8, 5), batch(9, 5)].concat();
    let offsets: Vec<_> =
        shown_of(&Directory::default(), &bytes).iter().map(|record| record.offset).collect();
    assert!([&[0, 4, 10][..], &[0, 4, 8, 9]].contains(&&offsets[..]), "{offsets:?}");
}

/// librdkafka's sets of magic 1 could have offset 0: its messages count from there.
#[test]
fn a_set_with_offset_0_is_found_by_each_offset_in_it() {
    let set = |offsets: std::ops::RangeInclusive<i64>| {
        batches::encode(&Plan::of(offsets.map(record).collect(), Compression::Gzip).with_magic(1)).remove(0)
    };
    let (mut first, second) = (set(0..=3), set(4..=6));
    first.bytes[..8].fill(0);
    let directory = Directory::default();
    directory.write_segment(0, &[first.bytes, second.bytes].concat());
    let fs = shown::open(directory.spec(), Options::default());
    assert_eq!(shown::records(&shown::read(&fs, "t/0/log.jsonl")).len(), 7);
    assert_found(&fs, 0..=6);
}

/// Found by fuzzing: where two batches changed places, the index leads to the wrong one of them.
#[test]
fn the_index_of_two_batches_that_changed_places_is_not_believed() {
    let (first, second) = (batch(0..=1), batch(2..=3));
    assert_eq!(first.len(), second.len());
    let index = [3, u32::try_from(first.len()).unwrap()];
    let (_directory, fs) = indexed(&[second, first].concat(), &index);
    assert_eq!(log_end(&fs), 4);
    assert_found(&fs, 0..4);
}

#[test]
fn a_dump_goes_on_behind_a_bad_batch_that_changed_places_with_its_neighbour() {
    let batch = |offsets: std::ops::RangeInclusive<i64>| {
        batches::encode(&Plan::of(offsets.map(record).collect(), Compression::Gzip)).remove(0).bytes
    };
    let (mut second, first) = (batch(2..=3), batch(0..=1));
    // The checksum is right, what was compressed is not.
    second.truncate(70);
    second.extend([0xff; 40]);
    batches::seal(&mut second);
    let directory = Directory::default();
    directory.write_segment(0, &[second.clone(), first].concat());
    let output = std::process::Command::new("timeout")
        .args([
            "20",
            env!("CARGO_BIN_EXE_topicfs"),
            "cat",
            directory.spec(),
            "t/0/dump/00000000000000000000.log",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text.len());
    assert!(text.contains("position 0: "), "{text}");
    assert!(text.contains(&format!("this goes on {0} bytes later, at position {0}", second.len())), "{text}");
    assert!(text.contains("baseOffset: 0 lastOffset: 1 count: 2"), "{text}");
    assert!(text.contains("payload: value 1"), "{text}");
}

/// Found by fuzzing: a batch that is out of place is what its index entry says, but not above the batch in front of it, which
/// only a scan sees.
#[test]
fn a_batch_behind_one_that_has_its_offsets_is_not_found_by_the_index_either() {
    // The index leads to the damaged batch by its first entry, and by a later one.
    for entries in 1..=3 {
        let mut misplaced = batch(9..=11);
        misplaced[..8].copy_from_slice(&7_i64.to_be_bytes());
        let log = [batch(0..=1), batch(2..=3), batch(4..=5), batch(6..=8), misplaced, batch(12..=12)];
        let place = |number: usize| u32::try_from(log[..number].concat().len()).unwrap();
        let all = [[3, place(1)], [5, place(2)], [9, place(4)]];
        let (_directory, fs) = indexed(&log.concat(), &all[3 - entries..].concat());
        let offsets: Vec<_> =
            shown::records(&shown::read(&fs, "t/0/log.jsonl")).iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7, 8, 12]);
        assert_found(&fs, offsets);
        assert!(shown::try_read(&fs, "t/0/by-offset/9").is_err());
    }
}

/// Found by fuzzing: an entry of an index that goes back makes a search in it stop at a batch behind the one that is wanted.
#[test]
fn an_index_that_goes_back_hides_no_record() {
    let log = [batch(0..=4), batch(5..=9), batch(10..=14), batch(15..=19)];
    let place = |number: usize| u32::try_from(log[..number].concat().len()).unwrap();
    let index = [5, place(1), 10, place(2), 15, place(3), 0, 2560];
    let (_directory, fs) = indexed(&log.concat(), &index);
    assert_eq!(log_end(&fs), 20);
    assert_found(&fs, 0..20);
    for offset in 0..20 {
        let value = shown::read(&fs, &format!("t/0/by-offset/last-{}", 20 - offset));
        assert_eq!(value, format!("value {offset}").into_bytes());
    }
}

/// Found by fuzzing: what an index says of a place in a part of the log that was copied to another one.
#[test]
fn an_index_that_leads_to_a_copy_hides_no_record() {
    // 4 and 5 lie where they belong, behind all that was written before; the end was lost.
    let log =
        [batch(8..=8), batch(9..=9), batch(10..=10), batch(3..=3), batch(4..=4), batch(5..=5), batch(2..=2)];
    let place = |number: usize| u32::try_from(log[..number].concat().len()).unwrap();
    let index = [2, place(2), 4, place(4), 8, place(6) + 20];
    let (_directory, fs) = indexed(&log.concat(), &index);
    let shown = shown::records(&shown::read(&fs, "t/0/log.jsonl"));
    assert_eq!(shown.iter().map(|record| record.offset).collect::<Vec<_>>(), [8, 9, 10]);
    assert_found(&fs, 8..=10);
}
