//! `topics.tsv` and the `info` of topics, against what the broker and its consumer said.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::batch_lines;
use common::batches::{self, Plan};
use common::fixtures::{self, Reading};
use common::model::Directory;
use common::mounted::{self, Mounted};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use serde_json::{Value, json};
use topicfs::fs::Fs;
use topicfs::fs::options::{From, Options};
use topicfs::fs::topic_options::TopicOptions;

/// The lines of `topics.tsv` by topic and label.
fn topics(fs: &Fs) -> BTreeMap<String, Vec<String>> {
    let text = String::from_utf8(shown::read(fs, "topics.tsv")).unwrap();
    let mut lines = BTreeMap::new();
    for line in text.lines() {
        let mut fields: Vec<_> = line.split('\t').map(str::to_owned).collect();
        let rest = fields.split_off(2);
        assert_eq!(rest.len(), 4, "{line}");
        assert!(lines.insert(fields.join("/"), rest).is_none(), "{line}");
    }
    lines
}

fn log_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|p| p.extension().is_some_and(|e| e == "log")).map(|p| fs::metadata(p).unwrap().len()).sum()
}

fn iso(ms: i64) -> String {
    format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap())
}

#[test]
fn each_partition_is_a_line_with_what_the_broker_said() {
    let (mut checked, mut deleted) = (0, 0);
    for name in ["txn", "deleted-records", "segments", "compacted", "codecs", "times", "magic", "epochs"] {
        let case = fixtures::case("4.4.0", name);
        let fs = shown::open(case.data().to_str().unwrap(), Options::default());
        let lines = topics(&fs);
        for partition in case.partitions() {
            let (Some(offsets), Reading::AsOnDisk | Reading::AboveLogStart(_)) =
                (partition.offsets(), partition.reading)
            else {
                continue;
            };
            let path = format!("{}/{}", partition.topic, partition.number);
            let last = batch_lines::of(&case, &partition).pop();
            let time = last.map(|line| {
                let times = ["CreateTime", "LogAppendTime"].into_iter();
                let mut times = times.filter(|name| line.has(name)).map(|name| line.number(name));
                times.next().filter(|time| *time != -1)
            });
            let time = time.flatten().map_or("-".to_owned(), iso);
            let bytes = log_bytes(&partition.dir).to_string();
            let expected = [offsets.earliest.to_string(), offsets.latest.to_string(), bytes, time];
            assert_eq!(lines[&path], expected, "{name} {path}");
            checked += 1;
            deleted += usize::from(offsets.earliest > 0);
        }
    }
    assert!(checked > 40 && deleted >= 5, "{checked} {deleted}");
}

#[test]
fn a_topics_info_has_its_partitions_and_counts_what_is_measured() {
    let case = fixtures::case("4.4.0", "txn");
    let fs = shown::open(case.data().to_str().unwrap(), Options::default());
    let read = || -> Value { serde_json::from_slice(&shown::read(&fs, "txn-b/info.json")).unwrap() };
    let info = read();
    let lines = topics(&fs);
    let partitions = case.partitions();
    let own: Vec<_> = partitions.iter().filter(|partition| partition.topic == "txn-b").collect();
    assert_eq!(info["partitions"].as_array().unwrap().len(), own.len());
    for (row, partition) in info["partitions"].as_array().unwrap().iter().zip(&own) {
        let line = &lines[&format!("txn-b/{}", partition.number)];
        let said = ["start_offset", "end_offset", "bytes"].map(|name| row[name].to_string());
        assert_eq!(said[..], line[..3]);
        assert_eq!(iso(row["last_timestamp"].as_i64().unwrap()), line[3]);
        assert_eq!((&row["partition"], &row["records"]), (&json!(partition.number), &Value::Null));
        shown::read(&fs, &format!("txn-b/{}/log", partition.number));
    }
    let info = read();
    let counts: Vec<u64> = own.iter().map(|partition| partition.records().len() as u64).collect();
    for (row, count) in info["partitions"].as_array().unwrap().iter().zip(&counts) {
        assert_eq!(row["records"], *count);
    }
    assert_eq!(info["records"], counts.iter().sum::<u64>());
    assert_eq!(info["bytes"], own.iter().map(|partition| log_bytes(&partition.dir)).sum::<u64>());
    assert!(info["topic_id"].as_str().unwrap().len() == 22, "{info}");
    let text = String::from_utf8(shown::read(&fs, "txn-b/info")).unwrap();
    assert!(text.starts_with("topic       txn-b\ntopic id    "), "{text}");
    assert_eq!(text.lines().count(), 5 + 2 + own.len(), "{text}");
    assert_eq!(shown::names(&fs, "txn-b").iter().filter(|name| name.starts_with("info")).count(), 2);
}

fn batch(first: i64, last: i64, time: i64) -> Vec<u8> {
    let record = |offset: i64| ShownRecord {
        offset,
        timestamp: time,
        key: None,
        value: Some(vec![b'v'; 50]),
        headers: Vec::new(),
    };
    batches::encode(&Plan::of((first..=last).map(record).collect(), Compression::None)).remove(0).bytes
}

#[test]
fn what_is_not_known_at_a_glance_is_a_dash() {
    let directory = Directory::default();
    // A segment that was rolled and not written to: its predecessor has the last batch.
    directory.write_segment(0, &[batch(0, 4, 1000), batch(5, 5, 86_400_000)].concat());
    directory.write_segment(6, b"");
    directory.set_log_start(3);
    for topic in ["empty-0", "none-0", "large-0", "old-0", "gone-0", "packed-0", "topics.tsv-0"] {
        fs::create_dir(directory.path().join(topic)).unwrap();
    }
    let file = |name: &str| directory.path().join(name).join("00000000000000000000.log");
    fs::write(file("empty-0"), b"").unwrap();
    // Without an index the end of this one is a scan away.
    fs::write(file("large-0"), batch(0, 9, 0).repeat(9000)).unwrap();
    let old = ShownRecord { offset: 0, timestamp: -1, key: None, value: None, headers: Vec::new() };
    let old = Plan::of(vec![old], Compression::None).with_magic(0);
    fs::write(file("old-0"), &batches::encode(&old).remove(0).bytes).unwrap();
    fs::write(file("packed-0").with_extension("log.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    let fs = shown::open(directory.spec(), Options::default());
    let text = shown::read(&fs, "topics.tsv/info");
    assert!(text.starts_with(b"topic       topics.tsv\n"), "a topic of that name wins");
    fs::remove_dir(directory.path().join("topics.tsv-0")).unwrap();
    let (first, large, old) = (
        batch(0, 4, 0).len() + batch(5, 5, 0).len(),
        batch(0, 9, 0).len() * 9000,
        fs::metadata(file("old-0")),
    );
    let fs = shown::open(directory.spec(), Options::default());
    fs::remove_dir(directory.path().join("gone-0")).unwrap();
    let expected = BTreeMap::from(
        [
            ("t/0", ["3", "6", &first.to_string(), "1970-01-02T00:00:00.000Z"]),
            ("empty/0", ["0", "0", "0", "-"]),
            ("none/0", ["0", "0", "0", "-"]),
            ("large/0", ["0", "-", &large.to_string(), "-"]),
            ("old/0", ["0", "1", &old.unwrap().len().to_string(), "-"]),
            ("packed/0", ["0", "-", "4", "-"]),
        ]
        .map(|(path, row)| (path.to_owned(), row.map(str::to_owned).to_vec())),
    );
    let mut lines = topics(&fs);
    lines.remove("gone/0");
    assert_eq!(lines, expected);
    let all: Options = TopicOptions { from: From::FirstSegment, ..TopicOptions::default() }.into();
    assert_eq!(topics(&shown::open(directory.spec(), all))["t/0"][0], "0");
}

/// More partitions than a `stat` may look at: the size is 0 until somebody opens the file.
#[test]
fn an_overview_of_many_partitions_has_its_size_when_it_is_open() {
    let directory = Directory::default();
    for number in 0..70 {
        let partition = directory.path().join(format!("many-{number}"));
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("00000000000000000000.log"), batch(0, number, 1000)).unwrap();
    }
    let Some(mount) = Mounted::new(directory.spec()) else { return };
    for file in ["topics.tsv", "many/info", "many/info.json"] {
        let path = mount.path(file);
        assert_eq!(fs::metadata(&path).unwrap().len(), 0, "{file}");
        let open = fs::File::open(&path).unwrap();
        let size = open.metadata().unwrap().len();
        let mut read = Vec::new();
        std::io::Read::read_to_end(&mut { open }, &mut read).unwrap();
        assert_eq!(size, read.len() as u64, "{file}");
    }
    let script = "awk '{n += $4} END {print NR, n}' topics.tsv; sort -nk4 topics.tsv | tail -n 1 | cut -f 2; cp topics.tsv /dev/stdout | wc -l; ls many | tail -n 2";
    let output =
        std::process::Command::new("sh").args(["-c", script]).current_dir(mount.point()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "71 2485\n69\n71\ninfo\ninfo.json\n");
    mounted::read(&mount.path("t/info"));
}
