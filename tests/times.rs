//! Records by when they were written, and the numbers in `offsets/`: against brokers' answers, and against plain lists of records.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeSet;

use common::batches::{self, Plan};
use common::fixtures::{self, Reading};
use common::logs::{config, large_log, small_log};
use common::model::{self, Directory, Isolation, Model, Numbers};
use common::shown::{self, ShownRecord};
use jiff::tz::TimeZone;
use kafka_protocol::records::Compression;
use proptest::prelude::*;
use topicfs::fs::options::{OnDamage, Options};
use topicfs::fs::topic_options::TopicOptions;
use topicfs::fs::{Fs, FsError};
use topicfs::view::selection::Effort;

/// The largest time that a name can say.
const LAST_NAMED: i64 = 253_402_207_200_000 - 1;
/// When the markers of `common::batches` were written.
const MARKER_TIME: i64 = 1_700_000_000_000;

/// A hundred days later, or the end of the calendar.
fn later(ms: i64) -> i64 {
    let end = jiff::Timestamp::from_millisecond(ms + 100 * 86_400_000);
    end.map_or(LAST_NAMED + 1 + 26 * 3_600_000, jiff::Timestamp::as_millisecond)
}

/// A time as names have it, to the millisecond.
fn iso(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).unwrap().to_zoned_datetime(TimeZone::UTC);
    time.strftime("%Y-%m-%dT%H:%M:%S.%3f").to_string()
}

fn number(fs: &Fs, path: &str) -> Option<i64> {
    match shown::try_read(fs, path) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).unwrap();
            let number = text.strip_suffix('\n').unwrap_or_else(|| panic!("{path}: {text:?}"));
            Some(number.parse().unwrap_or_else(|_| panic!("{path}: {text:?}")))
        }
        Err(shown::ReadError::Fs(FsError::NotFound)) => None,
        Err(error) => panic!("{path}: {error}"),
    }
}

#[test]
fn offsets_are_what_the_broker_answered() {
    let (mut checked, mut times) = (0, 0);
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let fs = shown::open(data.to_str().unwrap(), Options::default());
            for partition in case.partitions().iter().filter(|partition| partition.dir.starts_with(&data)) {
                let Some(expected) = partition.offsets() else { continue };
                if !matches!(partition.reading, Reading::AsOnDisk | Reading::AboveLogStart(_)) {
                    continue;
                }
                let path = format!("{}/{}/offsets", partition.topic, partition.number);
                let what = partition.dir.display();
                assert_eq!(number(&fs, &format!("{path}/earliest")), Some(expected.earliest), "{what}");
                assert_eq!(number(&fs, &format!("{path}/latest")), Some(expected.latest), "{what}");
                if let Some(end) = expected.committed_end {
                    assert_eq!(number(&fs, &format!("{path}/last-stable")), Some(end), "{what}");
                    let committed =
                        format!("{}/{}@committed/offsets/latest", partition.topic, partition.number);
                    assert_eq!(number(&fs, &committed), Some(end), "{what}");
                }
                if let Some(largest) = expected.max_timestamp {
                    let offset = Some(largest.offset).filter(|offset| *offset >= 0);
                    assert_eq!(number(&fs, &format!("{path}/max-timestamp")), offset, "{what}");
                }
                for (time, offset) in &expected.for_times {
                    let name = iso(time.parse().unwrap());
                    assert_eq!(number(&fs, &format!("{path}/{name}")), *offset, "{what}: {name}");
                    if time.len() == 13 {
                        assert_eq!(number(&fs, &format!("{path}/{time}")), *offset, "{what}: {time}");
                    }
                    times += 1;
                }
                checked += 1;
            }
        }
    }
    println!("{checked} partitions, {times} times");
    assert!(checked > 140 && times > 900, "{checked} partitions, {times} times");
}

#[test]
fn epochs_end_where_the_broker_says() {
    let mut checked = 0;
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let fs = shown::open(data.to_str().unwrap(), Options::default());
            for partition in case.partitions().iter().filter(|partition| partition.dir.starts_with(&data)) {
                for epoch in partition.epochs().unwrap_or_default() {
                    let path =
                        format!("{}/{}/offsets/epoch-{}", partition.topic, partition.number, epoch.asked);
                    let expected = Some(epoch.end_offset).filter(|offset| *offset >= 0);
                    assert_eq!(
                        number(&fs, &path),
                        expected,
                        "{}: epoch {}",
                        partition.dir.display(),
                        epoch.asked
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 100, "{checked} epochs");
}

#[test]
fn epochs_are_told_by_batches_where_there_is_no_checkpoint() {
    let case = fixtures::case("4.4.0", "epochs");
    let copy = fixtures::copy(&case.data());
    let fs = || shown::open(copy.path().to_str().unwrap(), Options::default());
    for number in 0..3 {
        let path = format!("ep/{number}/offsets");
        let before = shown::names(&fs(), &path);
        let ends: Vec<_> =
            before.iter().map(|name| shown::try_read(&fs(), &format!("{path}/{name}")).unwrap()).collect();
        std::fs::remove_file(copy.path().join(format!("ep-{number}/leader-epoch-checkpoint"))).unwrap();
        assert_eq!(shown::names(&fs(), &path), before);
        assert!(before.iter().filter(|name| name.starts_with("epoch-")).count() >= 2, "{before:?}");
        for (name, end) in before.iter().zip(ends) {
            assert_eq!(shown::read(&fs(), &format!("{path}/{name}")), end, "{name} of {path}");
        }
    }
}

/// A model as one isolation shows it.
struct Checked<'a> {
    model: &'a Model,
    isolation: Isolation,
    path: &'static str,
    records: Vec<ShownRecord>,
}

impl<'a> Checked<'a> {
    fn new(model: &'a Model, isolation: Isolation) -> Self {
        let path = if isolation == Isolation::Committed { "t/0@committed" } else { "t/0" };
        Self { model, isolation, path, records: model.records(isolation) }
    }

    /// Some times that matter: those of records, beside them, and others.
    fn some_time(&self, numbers: &mut Numbers) -> i64 {
        let record = self.records.get(numbers.below(self.records.len()));
        let time = record.map_or(0, |record| record.timestamp).clamp(0, LAST_NAMED - 1);
        match numbers.below(8) {
            0 => 0,
            1 => MARKER_TIME,
            2 => LAST_NAMED,
            3 => (time - 1).max(0),
            4 => time + 1,
            _ => time,
        }
    }

    fn check_periods(&self, fs: &Fs, numbers: &mut Numbers) {
        for _ in 0..4 {
            let (a, b) = (self.some_time(numbers), self.some_time(numbers));
            let names = [
                (format!("{}..{}", iso(a), iso(b)), a, b),
                (format!("{}..", iso(a)), a, i64::MAX),
                (format!("..{}", iso(b)), i64::MIN, b),
                (iso(a), a, a + 1),
                (iso(a)[..10].to_owned(), a - a % 86_400_000, a - a % 86_400_000 + 86_400_000),
                (iso(a)[..13].to_owned(), a - a % 3_600_000, a - a % 3_600_000 + 3_600_000),
                (format!("{}..+100d", iso(a)), a, later(a)),
            ];
            for (name, from, to) in names {
                self.check_period(fs, &name, from, to);
            }
        }
    }

    fn check_period(&self, fs: &Fs, name: &str, from: i64, to: i64) {
        let is_in = |record: &ShownRecord| {
            record.timestamp != -1 && from <= record.timestamp && record.timestamp < to
        };
        let records: Vec<_> = self.records.iter().filter(|record| is_in(record)).cloned().collect();
        let path = format!("{}/by-time/{name}", self.path);
        for format in ["txt", "tsv", "jsonl", "log"] {
            let path = format!("{path}.{format}");
            let read = shown::read(fs, &path);
            let size = fs.attributes(0, &fs.resolve(&path).unwrap(), Effort::All).unwrap().size;
            assert_eq!(size, read.len() as u64, "size of {path}");
            match format {
                "txt" => {
                    assert!(read == model::text(&records), "{path}: {:?}", String::from_utf8_lossy(&read));
                }
                "tsv" => {
                    assert!(read == model::tsv(&records), "{path}: {:?}", String::from_utf8_lossy(&read));
                }
                "jsonl" => assert!(shown::records(&read) == records, "{path}"),
                _ => {
                    let offsets: BTreeSet<i64> = records.iter().map(|record| record.offset).collect();
                    let holds =
                        |entry: &&batches::Entry| entry.records.iter().any(|r| offsets.contains(&r.offset));
                    let expected: Vec<u8> =
                        self.model.entries().filter(holds).flat_map(|entry| entry.bytes.clone()).collect();
                    assert!(read == expected, "{path}: {} bytes, not {}", read.len(), expected.len());
                }
            }
        }
        // Directories of days and longer list parts of it, and a file for each hour.
        if name.contains('T') || name.contains("..") {
            let offsets = shown::listed_offsets(fs, &path);
            let expected: Vec<i64> = records.iter().map(|record| record.offset).collect();
            assert_eq!(offsets, expected, "{path}");
        }
    }

    /// Every day and hour that has records is listed, and what is listed can be read.
    fn check_listing(&self, fs: &Fs) {
        let by_time = format!("{}/by-time", self.path);
        let days = shown::names(fs, &by_time);
        let mut shown_offsets = BTreeSet::new();
        for day in days.iter().filter(|name| *name != "README.txt") {
            for hour in
                shown::names(fs, &format!("{by_time}/{day}")).iter().filter(|name| name.ends_with(".jsonl"))
            {
                let lines = shown::read(fs, &format!("{by_time}/{day}/{hour}"));
                shown_offsets.extend(shown::records(&lines).iter().map(|record| record.offset));
            }
        }
        let (start, end) = (self.model.start(), self.model.end(self.isolation));
        for entry in self.model.entries() {
            // What is older than its batch's first record, and what lies in a compressed set of magic 1, headers don't tell.
            let first = entry.records.first().map_or(0, |record| record.timestamp);
            if entry.bytes[16] != 2 && entry.records.len() > 1 {
                continue;
            }
            let is_told = |record: &&ShownRecord| {
                let time = record.timestamp;
                first >= 0 && time >= first && time < LAST_NAMED && (start..end).contains(&record.offset)
            };
            for record in entry.records.iter().filter(is_told).filter(|record| self.records.contains(record))
            {
                assert!(shown_offsets.contains(&record.offset), "{} of {days:?}", iso(record.timestamp));
            }
        }
    }

    /// ListOffsets, naively: markers count, and so do aborted records.
    fn check_offsets(&self, fs: &Fs, numbers: &mut Numbers) {
        let end = self.model.end(self.isolation);
        let mut all: Vec<(i64, i64)> = Vec::new();
        for entry in self.model.entries() {
            all.extend(entry.records.iter().map(|record| (record.offset, record.timestamp)));
            all.extend(entry.marker.map(|_| (entry.last, MARKER_TIME)));
        }
        let path = format!("{}/offsets", self.path);
        for _ in 0..8 {
            let time = self.some_time(numbers);
            let found = all.iter().find(|(offset, at)| *offset >= self.model.start() && *at >= time);
            let expected = found.map(|(offset, _)| *offset).filter(|offset| *offset < end);
            assert_eq!(number(fs, &format!("{path}/{}", iso(time))), expected, "{}", iso(time));
        }
        let largest = all.iter().map(|(_, time)| *time).filter(|time| *time >= 0).max();
        let found = all.iter().find(|(_, time)| Some(*time) == largest).map(|(offset, _)| *offset);
        assert_eq!(number(fs, &format!("{path}/max-timestamp")), found.filter(|offset| *offset < end));
        assert_eq!(number(fs, &format!("{path}/latest")), Some(end));
        assert_eq!(number(fs, &format!("{path}/earliest")), Some(self.model.start()));
        assert_eq!(number(fs, &format!("{path}/last-stable")), Some(self.model.end(Isolation::Committed)));
    }

    /// Counting from any offset, both ways.
    fn check_counts(&self, fs: &Fs, numbers: &mut Numbers) {
        let (start, end) = (self.model.start(), self.model.end(self.isolation));
        let span = usize::try_from(end - start).unwrap_or(0);
        for _ in 0..8 {
            let from = (start - 3 + i64::try_from(numbers.below(span + 6)).unwrap()).max(0);
            let count = 1 + numbers.below(self.records.len() + 1);
            let below = self.records.iter().filter(|record| record.offset < from).count();
            let through = self.records.iter().filter(|record| record.offset <= from).count();
            let before = below.checked_sub(count).map(|index| self.records[index].offset);
            let after = self.records.get(through + count - 1).map(|record| record.offset);
            for (name, expected) in [(format!("{from}~{count}"), before), (format!("{from}+{count}"), after)]
            {
                assert_eq!(number(fs, &format!("{}/offsets/{name}", self.path)), expected, "{name}");
                let path = format!("{}/by-offset/{name}", self.path);
                let value = expected.map(|offset| {
                    let record = self.records.iter().find(|record| record.offset == offset).unwrap();
                    record.value.clone().unwrap_or_default()
                });
                match value {
                    Some(value) => assert!(shown::read(fs, &path) == value, "{path}"),
                    None => assert!(matches!(fs.resolve(&path), Err(FsError::NotFound)), "{path}"),
                }
            }
            let first = before.unwrap_or(start);
            let around: Vec<_> = self
                .records
                .iter()
                .filter(|record| record.offset >= first)
                .take(count + 2)
                .cloned()
                .collect();
            let path = format!("{}/by-offset/{from}~{count}..+{}.jsonl", self.path, count + 2);
            assert!(shown::records(&shown::read(fs, &path)) == around, "{path}");
            let until = after.unwrap_or(end);
            let up_to: Vec<_> = self.records.iter().filter(|record| record.offset < until).cloned().collect();
            let path = format!("{}/by-offset/..{from}+{count}.jsonl", self.path);
            assert!(shown::records(&shown::read(fs, &path)) == up_to, "{path}");
        }
    }

    /// Reads anywhere are slices of the whole, whatever was read or measured before.
    fn check_seeks(&self, open: impl Fn() -> Fs, numbers: &mut Numbers) {
        for extension in ["txt", "jsonl", "log"] {
            let path = format!("{}/by-time/{}...{extension}", self.path, iso(self.some_time(numbers)));
            let whole = shown::read(&open(), &path);
            for measured in [None, Some("log"), Some("log.jsonl")] {
                let fs = open();
                if let Some(name) = measured {
                    fs.attributes(0, &fs.resolve(&format!("{}/{name}", self.path)).unwrap(), Effort::All)
                        .unwrap();
                }
                shown::check_slices(&fs, &path, &whole, numbers, 6);
            }
        }
    }
}

fn check_everything(directory: &Directory, model: &Model, seed: u64) {
    let mut numbers = Numbers::new(seed);
    for isolation in [Isolation::Uncommitted, Isolation::Committed] {
        let checked = Checked::new(model, isolation);
        let open = || shown::open(directory.spec(), Options::default());
        let fs = open();
        checked.check_periods(&fs, &mut numbers);
        checked.check_listing(&fs);
        checked.check_offsets(&fs, &mut numbers);
        checked.check_counts(&fs, &mut numbers);
        checked.check_seeks(open, &mut numbers);
    }
}

proptest! {
    #![proptest_config(config(48, 11))]

    #[test]
    fn small_logs_by_time(plan in small_log()) {
        let model = plan.model();
        check_everything(&plan.write(&model), &model, plan.seed);
    }
}

proptest! {
    #![proptest_config(config(2, 12))]

    #[test]
    fn large_logs_by_time(plan in large_log()) {
        let model = plan.model();
        check_everything(&plan.write(&model), &model, plan.seed);
    }

    #[test]
    fn what_a_cache_says_of_times_is_what_batches_say(plan in large_log()) {
        let model = plan.model();
        let directory = plan.write(&model);
        let cache = tempfile::tempdir().unwrap();
        let mut numbers = Numbers::new(plan.seed);
        let checked = Checked::new(&model, Isolation::Uncommitted);
        for _ in 0..2 {
            let options = Options { cache_dir: Some(cache.path().to_owned()), ..Options::default() };
            let fs = shown::open(directory.spec(), options);
            checked.check_offsets(&fs, &mut numbers);
            checked.check_periods(&fs, &mut numbers);
        }
        let names = std::fs::read_dir(cache.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let saved = names.filter(|name| name.to_string_lossy().ends_with("-times")).count();
        let large = model.segments.iter().rev().skip(1).filter(|segment| segment.bytes().len() > 1 << 20).count();
        prop_assert_eq!(saved, large);
    }
}

fn record(offset: i64, timestamp: i64) -> ShownRecord {
    let value = Some(format!("v{offset}").into_bytes());
    ShownRecord { offset, timestamp, key: None, value, headers: Vec::new() }
}

/// A partition of one batch for each list of times, each in a segment of its own.
fn segments(times: &[&[i64]]) -> Directory {
    let directory = Directory::default();
    let mut offset = 0;
    for times in times {
        let records: Vec<_> = (offset..).zip(*times).map(|(offset, time)| record(offset, *time)).collect();
        directory.write_segment(offset, &batches::encode(&Plan::of(records, Compression::Lz4))[0].bytes);
        offset += i64::try_from(times.len()).unwrap();
    }
    directory
}

#[test]
fn a_time_index_that_lies_costs_no_record() {
    let day = 1_700_000_000_000 / 86_400_000 * 86_400_000;
    let directory = segments(&[&[day, day + 5], &[day + 10, day + 2], &[day + 20, day + 1]]);
    for base in [0_i64, 2, 4] {
        for lie in [
            vec![0; 24],
            [i64::MAX.to_be_bytes().to_vec(), vec![0; 4]].concat(),
            [5_i64.to_be_bytes().to_vec(), vec![0, 0, 0, 1]].concat(),
        ] {
            std::fs::write(directory.file(base, "timeindex"), lie).unwrap();
            let fs = shown::open(directory.spec(), Options::default());
            let path = format!("t/0/by-time/{}..{}.txt", iso(day + 1), iso(day + 6));
            assert_eq!(shown::read(&fs, &path), b"v1\nv3\nv5\n");
            assert_eq!(number(&fs, &format!("t/0/offsets/{}", iso(day + 6))), Some(2));
        }
    }
}

/// A truncation at a segment's end makes it the last one again, and what comes then is found.
#[test]
fn what_was_counted_of_a_segment_is_counted_again_after_it_was_the_last_one_again() {
    let directory =
        segments(&[&[10_000_000, 10_000_001], &[20_000_000, 20_000_001], &[30_000_000], &[40_000_000]]);
    let fs = shown::open(directory.spec(), Options::default());
    let number = |name: &str| number(&fs, &format!("t/0/offsets/{name}"));
    let at = |ms: i64| number(&iso(ms));
    assert_eq!(
        (number("last-5"), number("last-1"), at(20_000_001), at(25_000_000)),
        (Some(1), Some(5), Some(3), Some(4))
    );
    assert_eq!(shown::read(&fs, &format!("t/0/by-time/{}...txt", iso(20_000_001))), b"v3\nv4\nv5\n");
    for base in [4, 5] {
        std::fs::remove_file(directory.file(base, "log")).unwrap();
    }
    assert_eq!((number("latest"), number("last-3")), (Some(4), Some(1)));
    let more = vec![record(4, 25_000_000), record(5, 26_000_000), record(6, 27_000_000)];
    directory.append(2, &batches::encode(&Plan::of(more, Compression::Lz4))[0].bytes);
    assert_eq!((number("latest"), number("last-3"), at(26_000_000)), (Some(7), Some(4), Some(5)));
    directory.write_segment(
        7,
        &batches::encode(&Plan::of(vec![record(7, 50_000_000)], Compression::Lz4))[0].bytes,
    );
    assert_eq!((number("last-3"), number("last-6"), number("last-7")), (Some(5), Some(2), Some(1)));
    assert_eq!((at(25_000_001), at(27_000_001)), (Some(5), Some(7)));
    let path = format!("t/0/by-time/{}..{}.txt", iso(25_500_000), iso(28_000_000));
    assert_eq!(shown::read(&fs, &path), b"v5\nv6\n");
}

#[test]
fn case_29_ten_digits_are_seconds_thirteen_milliseconds_and_others_are_no_names() {
    let directory = segments(&[&[1_663_903_326_163, 1_663_903_326_900, 1_663_903_327_000]]);
    let fs = shown::open(directory.spec(), Options::default());
    assert_eq!(shown::read(&fs, "t/0/by-time/1663903326.txt"), b"v0\nv1\n");
    assert_eq!(shown::read(&fs, "t/0/by-time/1663903326900.txt"), b"v1\n");
    assert_eq!(shown::read(&fs, "t/0/by-time/1663903326164...txt"), b"v1\nv2\n");
    assert_eq!(number(&fs, "t/0/offsets/1663903327"), Some(2));
    assert_eq!(number(&fs, "t/0/offsets/1663903326164"), Some(1));
    for digits in ["16639033261", "166390332616", "166390332", "16639033261630"] {
        for directory in ["by-time", "offsets"] {
            let error = fs.resolve(&format!("t/0/{directory}/{digits}")).unwrap_err();
            assert_eq!(error.errno(), libc::ENOENT, "{directory}/{digits}");
        }
    }
}

#[test]
fn case_30_an_hour_a_file_days_back_and_an_end_that_is_fixed() {
    let now = jiff::Timestamp::now().as_millisecond();
    let hour = 3_600_000;
    let directory = segments(&[&[now - 100 * hour, now - 50 * hour], &[now - hour / 6 - 5000, now - 1000]]);
    let fs = shown::open(directory.spec(), Options::default());
    assert_eq!(shown::read(&fs, "t/0/by-time/last-3d...txt"), b"v1\nv2\nv3\n");
    assert_eq!(shown::read(&fs, "t/0/by-time/-3d..-1d.txt"), b"v1\n");
    assert_eq!(number(&fs, "t/0/offsets/last-10m"), Some(3));
    let name = iso(now - 50 * hour);
    let path = format!("t/0/by-time/{}/{}.jsonl", &name[..10], &name[11..13]);
    assert_eq!(shown::records(&shown::read(&fs, &path)).len(), 1);
    // What comes later is not in a file that was looked up before.
    let node = fs.resolve("t/0/by-time/last-3d...txt").unwrap();
    directory.append(2, &batches::encode(&Plan::of(vec![record(4, now)], Compression::None))[0].bytes);
    let mut read = Vec::new();
    fs.read_content(&fs.content(0, &node).unwrap(), 0, 1000, &mut read).unwrap();
    assert_eq!(read, b"v1\nv2\nv3\n");
    assert_eq!(shown::read(&fs, "t/0/by-time/last-3d...txt"), b"v1\nv2\nv3\nv4\n");
}

#[test]
fn case_33_all_records_of_a_batch_with_log_append_time_have_that_time() {
    let time = 1_700_000_000_000;
    let mut plan = Plan::of(vec![record(0, 5), record(1, 7)], Compression::Gzip);
    plan.append_time = Some(time);
    let directory = Directory::default();
    directory.write_segment(0, &batches::encode(&plan)[0].bytes);
    let fs = shown::open(directory.spec(), Options::default());
    assert_eq!(shown::read(&fs, &format!("t/0/by-time/{}.txt", iso(time))), b"v0\nv1\n");
    assert_eq!(shown::read(&fs, "t/0/by-time/1970.txt"), b"");
    assert_eq!(shown::names(&fs, "t/0/by-time"), ["2023-11-14", "README.txt"]);
}

#[test]
fn days_list_hours_as_files_and_hours_list_records() {
    let day = 1_700_000_000_000 / 86_400_000 * 86_400_000;
    let directory = segments(&[&[day, day + 1], &[day + 5 * 3_600_000], &[day + 86_400_000]]);
    let fs = shown::open(directory.spec(), Options::default());
    assert_eq!(shown::names(&fs, "t/0/by-time"), ["2023-11-14", "2023-11-15", "README.txt"]);
    assert_eq!(shown::names(&fs, "t/0/by-time/2023"), ["2023-11-14", "2023-11-15"]);
    assert_eq!(shown::names(&fs, "t/0/by-time/2023-11-14"), ["00.jsonl", "00.txt", "05.jsonl", "05.txt"]);
    assert_eq!(shown::read(&fs, "t/0/by-time/2023-11-14/05.txt"), b"v2\n");
    let zeros = "0".repeat(19);
    assert_eq!(shown::names(&fs, "t/0/by-time/2023-11-14/00"), [format!("{zeros}0"), format!("{zeros}1")]);
    assert_eq!(shown::read(&fs, "t/0/by-time/2023-11-14/00/1"), b"v1");
    for path in [
        "2023-11-14/24",
        "2023-11-14/5",
        "2023-11-14/00/2",
        "2023-11-14/00/last-1",
        "2023/2024-01-01",
        "2023-02-30",
    ] {
        let error = fs.resolve(&format!("t/0/by-time/{path}")).unwrap_err();
        assert_eq!(error.errno(), libc::ENOENT, "{path}");
    }
    // A time without records is a name all the same.
    assert_eq!(shown::read(&fs, "t/0/by-time/2023-11-14/13.jsonl"), b"");
    assert_eq!(shown::names(&fs, "t/0/by-time/2023-11-14T13"), [""; 0]);
    assert_eq!(shown::names(&fs, "t/0/by-time/2023-11-14T00-02:00"), [""; 0]);
    assert_eq!(
        shown::names(&fs, "t/0/by-time/2023-11-14+01:00"),
        ["01.jsonl", "01.txt", "06.jsonl", "06.txt"]
    );
}

#[test]
fn a_period_with_more_than_ten_thousand_records_lists_parts() {
    let directory = Directory::default();
    let records: Vec<_> = (0..25_000).map(|offset| record(offset, 1_700_000_000_000)).collect();
    let bytes: Vec<u8> = records
        .chunks(5000)
        .flat_map(|chunk| batches::encode(&Plan::of(chunk.to_vec(), Compression::Zstd))[0].bytes.clone())
        .collect();
    directory.write_segment(0, &bytes);
    let fs = shown::open(directory.spec(), Options::default());
    let parts = shown::names(&fs, "t/0/by-time/2023-11-14T22");
    assert_eq!(parts.len(), 3, "{parts:?}");
    let offsets = shown::listed_offsets(&fs, "t/0/by-time/2023-11-14T22");
    assert_eq!(offsets, (0..25_000).collect::<Vec<_>>());
    let part = format!("t/0/by-time/2023-11-14T22/{}.txt", parts[2]);
    assert_eq!(shown::read(&fs, &part).iter().filter(|byte| **byte == b'\n').count(), 5000);
}

#[test]
fn damage_in_a_period_is_skipped_or_an_error_as_the_mount_says() {
    let batch = |first: i64| {
        let records = (first..first + 2).map(|offset| record(offset, 1_700_000_000_000 + offset)).collect();
        batches::encode(&Plan::of(records, Compression::None))[0].bytes.clone()
    };
    let mut middle = batch(2);
    let last = middle.len() - 3;
    middle[last] ^= 1;
    let directory = Directory::default();
    directory.write_segment(0, &[batch(0), middle, batch(4)].concat());
    for path in
        ["t/0/by-time/2023.txt", "t/0/by-time/2023-11-14/22.txt", "t/all/log", "t/all/by-time/2023.txt"]
    {
        let skipping = shown::open(directory.spec(), Options::default());
        assert_eq!(shown::read(&skipping, path), b"v0\nv1\nv4\nv5\n", "{path}");
        let topic = TopicOptions { on_damage: OnDamage::Error, ..TopicOptions::default() };
        let failing = shown::open(directory.spec(), topic.into());
        let content = failing.content(0, &failing.resolve(path).unwrap()).unwrap();
        let mut read = Vec::new();
        failing.read_content(&content, 0, 1000, &mut read).unwrap();
        assert_eq!(read, b"v0\nv1\n", "{path}");
        let error = failing.read_content(&content, 6, 1000, &mut read).unwrap_err();
        assert_eq!(error.errno(), libc::EIO, "{path}: {error}");
    }
}

/// Blocks without a record of the period are passed over together, damage among them is not.
#[test]
fn a_period_far_apart_in_a_segment_of_many_blocks_is_found_and_so_is_damage_between() {
    let now = 1_700_000_000_000;
    let wanted = [40, 41, 700, 999];
    let batch = |offset: i64| {
        let timestamp = if wanted.contains(&offset) { now + 10_000_000 + offset } else { now + offset % 7 };
        let key = Some(vec![b'k'; 4000]);
        let plan = Plan::of(vec![ShownRecord { key, ..record(offset, timestamp) }], Compression::None);
        batches::encode(&plan)[0].bytes.clone()
    };
    let mut all: Vec<Vec<u8>> = (0..1000).map(batch).collect();
    let path = format!("t/0/by-time/{}..{}.txt", iso(now + 10_000_000), iso(now + 20_000_000));
    let directory = Directory::default();
    directory.write_segment(0, &all.concat());
    directory.write_segment(1000, &batch(1000));
    let open = |on_damage| {
        let topic = TopicOptions { on_damage, ..TopicOptions::default() };
        shown::open(directory.spec(), topic.into())
    };
    assert_eq!(shown::read(&open(OnDamage::Skip), &path), b"v40\nv41\nv700\nv999\n");
    assert_eq!(shown::read(&open(OnDamage::Error), &path), b"v40\nv41\nv700\nv999\n");
    all[500][2000] ^= 1;
    directory.write_segment(0, &all.concat());
    assert_eq!(shown::read(&open(OnDamage::Skip), &path), b"v40\nv41\nv700\nv999\n");
    let failing = open(OnDamage::Error);
    let content = failing.content(0, &failing.resolve(&path).unwrap()).unwrap();
    let mut read = Vec::new();
    failing.read_content(&content, 0, 1000, &mut read).unwrap();
    assert_eq!(read, b"v40\nv41\n");
    let error = failing.read_content(&content, 8, 1000, &mut read).unwrap_err();
    assert_eq!(error.errno(), libc::EIO, "{error}");
}
