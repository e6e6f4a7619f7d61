//! Formats that users write: what they render is compared with kcat, which reads the same segments from a real broker, byte for byte.
//! Sizes, seeks and every place in the tree; encodings and options of single topics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::batches::{self, Plan};
use common::fixtures;
use common::kafka::{Broker, Kafka};
use common::mounted::has;
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use serde_json::{Value, json};
use tempfile::TempDir;
use topicfs::config::{Caller, Config};
use topicfs::fs::Fs;
use topicfs::view::selection::Effort;

/// What kcat is asked for, and a mount after it.
const TEMPLATES: [&str; 21] = [
    "%s",
    r"%s\n",
    r"%k:%s\n",
    r"%t,%p,%o\n",
    r"%K %S\n",
    "%R%s",
    r"[%h]\n",
    r"%%s%%%o%%\n",
    r"%o\t%k\t%s\r\n",
    r"\x41\x0a%o\x0041\n",
    r"%o \x0x41 \65 \066 \0x43 \8\n",
    r"%o\\%s\%s\q\'\n",
    r"%o%s\",
    r"%o\x4%%1\n",
    r"Topic %t [%p] at offset %o: key %k (%K): %s (%S), %h\n",
    r"%s%s%k%k%h%h%s%k",
    r"ä%o→%s\n",
    "%o\n%k\n",
    r"\033[1m%o\033[0m \10",
    r"%o \x0ff\255\128\n",
    r"%%%%%o\n",
];

type Pair = (&'static [u8], Option<&'static [u8]>);

fn record(
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[Pair],
) -> ShownRecord {
    let headers = headers.iter().map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec))).collect();
    ShownRecord { offset, timestamp, key: key.map(<[u8]>::to_vec), value: value.map(<[u8]>::to_vec), headers }
}

/// Nulls, empties, binaries, headers of all kinds, no timestamps, gaps: one segment. Header values without NUL bytes, at which
/// kcat ends them.
fn odd() -> Vec<Plan> {
    let time = 1_700_000_000_000;
    let binary: Vec<u8> = (0..=255).collect();
    let plain = vec![
        record(0, time, Some(b"k"), Some(b"v"), &[(b"h", Some(b"x"))]),
        record(1, time + 1, None, Some(b"no key"), &[]),
        record(
            2,
            time + 2,
            Some(b""),
            Some(b""),
            &[(b"", Some(b"")), (b"empty", Some(b"")), (b"null", None)],
        ),
        record(3, time + 3, Some(b"gone"), None, &[(b"a", Some(b"1")), (b"a", Some(b"2")), (b"a", None)]),
        record(4, time + 4, None, None, &[]),
        record(7, 0, Some(&binary), Some(&binary), &[(b"b", Some(b"\xff\xfe,=%s"))]),
        record(9, time, Some("schlüssel".as_bytes()), Some("{\"a\": [1,\n 2]}".as_bytes()), &[]),
        record(10, -1, Some(b"k"), Some(b"no time"), &[]),
    ];
    let squeezed = (20..60).map(|offset| {
        record(
            offset,
            time + offset,
            Some(b"key"),
            Some(format!("value {offset}").as_bytes()),
            &[(b"n", None)],
        )
    });
    let at = Plan {
        append_time: Some(1_699_999_999_999),
        ..Plan::of(vec![record(70, 5, None, Some(b"at"), &[])], Compression::None)
    };
    vec![
        Plan::of(plain, Compression::None),
        Plan::of(squeezed.clone().take(20).collect(), Compression::Gzip),
        Plan::of(squeezed.skip(20).collect(), Compression::Zstd),
        at,
    ]
}

/// Messages of the old formats: magic 0 has no timestamps, neither has headers.
fn old(magic: u8) -> Vec<Plan> {
    let records = vec![
        record(0, 1_500_000_000_000, None, Some(b"old"), &[]),
        record(1, 1_500_000_000_001, Some(b""), Some(b""), &[]),
        record(2, 1_500_000_000_002, Some(b"k"), None, &[]),
    ];
    vec![Plan::of(records, Compression::None).with_magic(magic)]
}

fn segment(plans: &[Plan]) -> Vec<u8> {
    plans.iter().flat_map(batches::encode).flat_map(|entry| entry.bytes).collect()
}

/// A header with a NUL byte.
fn nul() -> Vec<Plan> {
    vec![Plan::of(vec![record(0, 1, None, None, &[(b"h", Some(b"a\0b"))])], Compression::None)]
}

/// The topics that kcat and topicfs show alike, and one of which they don't.
fn topics() -> [(&'static str, Vec<u8>); 4] {
    [("odd", odd()), ("old-0", old(0)), ("old-1", old(1)), ("nul", nul())]
        .map(|(topic, plans)| (topic, segment(&plans)))
}

/// A data directory with these topics.
fn source() -> TempDir {
    let source = tempfile::tempdir().unwrap();
    for (topic, bytes) in topics() {
        let partition = source.path().join(format!("{topic}-0"));
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("00000000000000000000.log"), bytes).unwrap();
    }
    source
}

/// The source, with a configuration file.
fn open(source: &Path, yaml: &str) -> Fs {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    fs::write(&file, yaml).unwrap();
    let config = Config::load(Some(&file), &[], Caller::Person).unwrap_or_else(|error| panic!("{error}"));
    let text = config.to_yaml();
    Fs::open(source.to_str().unwrap(), config.options, text).unwrap()
}

/// `formats:` with each template as `f0`, `f1` ...
fn yaml(templates: &[&str]) -> String {
    let line =
        |(index, text): (usize, &&str)| format!("  f{index}: {}\n", serde_json::to_string(text).unwrap());
    format!("formats:\n{}", templates.iter().enumerate().map(line).collect::<String>())
}

#[test]
fn templates_render_what_kcat_prints() {
    if !has("kcat") {
        return;
    }
    let Some(mut kafka) = Kafka::start() else { return };
    let broker = Broker::new(&mut kafka);
    broker.start(&mut kafka);
    for (topic, _) in topics() {
        kafka.run(&["create", &broker.boot, topic, "1", "retention.ms=-1"]);
    }
    broker.stop(&mut kafka);
    for (topic, bytes) in topics() {
        let log = broker.data().join(format!("{topic}-0/00000000000000000000.log"));
        assert_eq!(fs::metadata(&log).unwrap().len(), 0);
        fs::write(log, bytes).unwrap();
    }
    broker.start(&mut kafka);
    let fs = open(&broker.data(), &yaml(&TEMPLATES));
    for topic in ["odd", "old-0", "old-1"] {
        for (index, template) in TEMPLATES.iter().enumerate() {
            let ours = shown::read(&fs, &format!("{topic}/0/log.f{index}"));
            let theirs = kcat(&broker, topic, template);
            let (ours, theirs) = (ours.escape_ascii().to_string(), theirs.escape_ascii().to_string());
            assert_eq!(ours, theirs, "{topic}: {template}");
        }
    }
    where_kcat_is_not_followed(&broker);
    broker.stop(&mut kafka);
}

/// What the documentation of templates says of kcat where topicfs does otherwise.
fn where_kcat_is_not_followed(broker: &Broker) {
    // Messages of the first format have no timestamps, and kcat, which says that -1 stands for none, prints 0.
    let fs = open(&broker.data(), &yaml(&[r"%T\n", r"%h\n"]));
    assert_eq!(kcat(broker, "old-0", r"%T\n"), b"0\n0\n0\n");
    assert_eq!(shown::read(&fs, "old-0/0/log.f0"), b"-1\n-1\n-1\n");
    for topic in ["odd", "old-1"] {
        let ours = shown::read(&fs, &format!("{topic}/0/log.f0"));
        assert_eq!(ours.escape_ascii().to_string(), kcat(broker, topic, r"%T\n").escape_ascii().to_string());
    }
    // It ends texts at a NUL byte.
    assert_eq!(kcat(broker, "old-1", r"%o a\x00,b\n"), b"0 a1 a2 a");
    // And headers.
    let first = |bytes: Vec<u8>| bytes.split(|byte| *byte == b'\n').next().unwrap().to_vec();
    assert_eq!(first(kcat(broker, "nul", r"%h\n")), b"h=a");
    assert_eq!(first(shown::read(&fs, "nul/0/log.f1")), b"h=a\0b");
    // What it takes for something that nobody means, and we refuse.
    assert_eq!(kcat(broker, "old-1", r"%o\xff,"), b"0ff,1ff,2ff,");
    assert_eq!(kcat(broker, "old-1", r"\x41bc"), [0xbc; 3]);
    assert_eq!(kcat(broker, "old-1", r"\300"), [44; 3]);
    for template in ["%x", "%s%", "%", "%{T:iso}", "% s"] {
        assert!(!run_kcat(broker, "old-1", template).status.success(), "{template}");
    }
}

fn kcat(broker: &Broker, topic: &str, template: &str) -> Vec<u8> {
    let output = run_kcat(broker, topic, template);
    assert!(output.status.success(), "{template}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn run_kcat(broker: &Broker, topic: &str, template: &str) -> Output {
    Command::new("kcat")
        .args(["-C", "-e", "-q", "-p", "0", "-o", "beginning", "-X", "fetch.wait.max.ms=10"])
        .args(["-b", &broker.boot, "-t", topic, "-f", template])
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

const CSV: &str = "formats:\n  csv: '%o,%T,%k,%s\\n'\n";

/// The lines that `CSV` renders of a `.jsonl`.
fn csv_of(jsonl: &[u8]) -> Vec<u8> {
    let line = |record: ShownRecord| {
        let text = |bytes: Option<Vec<u8>>| bytes.unwrap_or_default();
        let begin = format!("{},{},", record.offset, record.timestamp).into_bytes();
        [begin, text(record.key), b",".to_vec(), text(record.value), b"\n".to_vec()].concat()
    };
    shown::records(jsonl).into_iter().flat_map(line).collect()
}

#[test]
fn a_format_works_wherever_a_file_of_records_is() {
    let source = source();
    let fs = open(source.path(), CSV);
    for stem in [
        "log",
        "tail",
        "by-offset/7",
        "by-offset/last-1",
        "by-offset/1..9",
        "by-offset/25..",
        "by-offset/..3",
        "by-offset/last-10..+3",
        "by-segment/00000000000000000000",
        "by-offset/0..50/00000000000000000025",
        "by-time/2023",
        "by-time/2023-11-14/22",
        "by-time/2023-11-14T22/1",
    ] {
        for partition in ["odd/0", "odd/0@committed"] {
            let (path, jsonl) = (format!("{partition}/{stem}.csv"), format!("{partition}/{stem}.jsonl"));
            let read = shown::read(&fs, &path);
            assert!(!read.is_empty(), "{path}");
            assert_eq!(read, csv_of(&shown::read(&fs, &jsonl)), "{path}");
            let size = fs.attributes(0, &fs.resolve(&path).unwrap(), Effort::All).unwrap().size;
            assert_eq!(size, read.len() as u64, "{path}");
        }
    }
    for path in
        ["odd/0/log.CSV", "odd/0/log.kv", "odd/0/info.csv", "odd/0/by-offset/8.csv", "odd/0/dump/x.csv"]
    {
        assert!(fs.resolve(path).is_err(), "{path}");
    }
    assert!(open(source.path(), "").resolve("odd/0/log.csv").is_err());
}

#[test]
fn listings_show_the_formats_that_a_topic_asks_for() {
    let source = source();
    let rules = "formats_listed: [csv]\ntopics:\n  'old-*':\n    formats_listed: [txt, kv]\n  old-1:\n    listing: full\n  gone: {}\n";
    let fs = open(source.path(), &format!("{CSV}  kv: '%k=%s\\n'\n{rules}"));
    let names = |path: &str| shown::names(&fs, path);
    let has = |path: &str, name: &str| names(path).iter().any(|other| other == name);
    assert!(
        has("odd/0", "log.csv")
            && has("odd/0", "tail.csv")
            && !has("odd/0", "log")
            && !has("odd/0", "log.kv")
    );
    assert!(has("old-0/0", "log") && has("old-0/0", "log.kv") && !has("old-0/0", "log.csv"));
    assert_eq!(names("odd/0/by-segment"), ["00000000000000000000.csv"]);
    assert_eq!(names("old-0/0/by-segment"), ["00000000000000000000", "00000000000000000000.kv"]);
    assert_eq!(names("old-0/0/by-offset"), ["README.txt"]);
    assert_eq!(names("old-1/0/by-offset").len(), 2);
    assert_eq!(shown::read(&fs, "old-0/0/log.kv"), b"=old\n=\nk=\n");
    // What is in force can be used again.
    let again = open(source.path(), &String::from_utf8(shown::read(&fs, ".topicfs/config.yaml")).unwrap());
    assert_eq!(again.config_text(), fs.config_text());
    for topic in ["odd", "old-0", "old-1"] {
        assert_eq!(again.options().of_topic(topic), fs.options().of_topic(topic));
    }
}

#[test]
fn each_topic_has_its_own_options() {
    let case = fixtures::case("4.4.0", "txn");
    let topic =
        case.partitions().into_iter().find(|partition| partition.committed() != partition.records()).unwrap();
    let yaml =
        format!("topics:\n  '*': {{tail_records: 3}}\n  {}: {{isolation: read_committed}}\n", topic.topic);
    let fs = open(&case.data(), &yaml);
    for partition in case.partitions() {
        let path = format!("{}/{}", partition.topic, partition.number);
        let read = shown::records(&shown::read(&fs, &format!("{path}/log.jsonl")));
        let is_committed = partition.topic == topic.topic;
        let expected = if is_committed { partition.committed() } else { partition.records() };
        assert_eq!(read.len(), expected.len(), "{path}");
        let tail = shown::records(&shown::read(&fs, &format!("{path}/tail.jsonl")));
        assert_eq!(tail.len(), expected.len().min(3), "{path}");
    }
    // Damage is skipped in one topic and an error in the other.
    let source = source();
    for topic in ["old-0", "old-1"] {
        let log = source.path().join(format!("{topic}-0/00000000000000000000.log"));
        let mut bytes = fs::read(&log).unwrap();
        // In the checksum of the first message.
        bytes[12] ^= 1;
        fs::write(log, bytes).unwrap();
    }
    let fs = open(source.path(), "topics:\n  old-1: {on_damage: error}\n");
    assert_eq!(shown::read(&fs, "old-0/0/log"), b"\n\n");
    let error = shown::try_read(&fs, "old-1/0/log").unwrap_err().to_string();
    assert!(error.contains("on_damage is error"), "{error}");
}

#[test]
fn keys_and_values_are_encoded_as_the_topic_says() {
    let source = source();
    let read = |options: &str, path: &str| {
        let fs = open(source.path(), &format!("topics: {{odd: {options}}}\nformats: {{raw: '%k:%s'}}\n"));
        String::from_utf8(shown::read(&fs, &format!("odd/0/by-offset/{path}"))).unwrap_or_default()
    };
    let plain = "{key: base64, value: hex}";
    for (options, path, expected) in [
        (plain, "0.txt", "76\n"),
        (plain, "0.tsv", "0\t1700000000000\taw==\t76\n"),
        (plain, "2.tsv", "2\t1700000000002\t\t\n"),
        (plain, "4.tsv", "4\t1700000000004\t\\N\t\\N\n"),
        (plain, "4.txt", "\n"),
        (plain, "0", "v"),
        (plain, "0.key", "k"),
        (plain, "0.raw", "k:v"),
        ("{value: json}", "9.txt", "{\"a\": [1,\n 2]}\n"),
        ("{value: json}", "9", "{\"a\": [1,\n 2]}"),
    ] {
        assert_eq!(read(options, path), expected, "{options} {path}");
    }
    let objects = |options: &str, offset: u64| {
        let fields = |text: String| {
            let object: Value = serde_json::from_str(&text).unwrap();
            let fields = ["key", "key_json", "value", "value_json"];
            fields.map(|field| object.get(field).cloned())
        };
        let lines = fields(read(options, &format!("{offset}.jsonl")));
        assert_eq!(lines, fields(read(options, &format!("{offset}.json"))), "{options} {offset}");
        lines
    };
    let encoded = |name: &str, text: &str| Some(json!({name: text}));
    let text = |text: &str| Some(json!(text));
    let null = Some(Value::Null);
    assert_eq!(objects(plain, 0), [encoded("base64", "aw=="), None, encoded("hex", "76"), None]);
    assert_eq!(objects(plain, 2), [encoded("base64", ""), None, encoded("hex", ""), None]);
    assert_eq!(objects(plain, 4), [null.clone(), None, null.clone(), None]);
    assert_eq!(objects("{}", 0), [text("k"), None, text("v"), None]);
    let inline = "{key: json, value: json}";
    assert_eq!(objects(inline, 9), [text("schlüssel"), None, None, Some(json!({"a": [1, 2]}))]);
    assert_eq!(objects(inline, 2), [text(""), None, text(""), None]);
    assert_eq!(objects(inline, 4), [null.clone(), None, null, None]);
    assert_eq!(objects(inline, 7)[0], objects("{}", 7)[0]);
}

#[test]
fn times_are_in_the_timezone_of_the_topic() {
    let source = source();
    let yaml = "formats: {iso: '%{T:iso}\\n'}\ntopics: {odd: {timezone: Asia/Kathmandu}}\n";
    let fs = open(source.path(), yaml);
    let text = |path: &str| String::from_utf8(shown::read(&fs, path)).unwrap();
    assert_eq!(text("odd/0/by-offset/1.iso"), "2023-11-15T03:58:20.001+05:45\n");
    assert_eq!(text("odd/0/by-offset/10.iso"), "-1\n");
    assert_eq!(text("old-1/0/by-offset/1.iso"), "2017-07-14T02:40:00.001Z\n");
    // The day is that of the calendar there.
    assert!(text("odd/0/by-time/2023-11-15T03.iso").starts_with("2023-11-15T03:58:20.000+05:45\n"));
    assert_eq!(text("odd/0/by-time/2023-11-14T22.iso"), "");
    assert!(text("odd/0/by-offset/1.json").contains(r#""timestamp_iso": "2023-11-15T03:58:20.001+05:45""#));
}

/// Measurements are kept between mounts; those of a template belong to its text and its timezone.
#[test]
fn what_was_measured_of_a_template_is_known_again_and_not_taken_for_another() {
    let source = tempfile::tempdir().unwrap();
    fs::create_dir(source.path().join("t-0")).unwrap();
    let value = [b'v'; 1000];
    let plans: Vec<_> = (0..30)
        .map(|batch| {
            let records = (batch * 100..batch * 100 + 100)
                .map(|offset| record(offset, offset, None, Some(&value), &[]));
            Plan::of(records.collect(), Compression::None)
        })
        .collect();
    fs::write(source.path().join("t-0/00000000000000000000.log"), segment(&plans)).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let size = |effort: Effort, format: &str, zone: &str| {
        let yaml = format!(
            "cache_dir: {}\ntimezone: {zone}\nformats: {{own: '{format}'}}\n",
            cache.path().display()
        );
        let fs = open(source.path(), &yaml);
        let known = fs.attributes(0, &fs.resolve("t/0/log.own").unwrap(), effort).unwrap();
        known.is_sized.then_some(known.size)
    };
    let nothing = Effort::Bytes(0);
    let (short, long) = (r"%o\n", r"%o:%s\n");
    assert_eq!(size(nothing, short, "UTC"), None);
    let sizes = [short, long].map(|format| size(Effort::All, format, "UTC").unwrap());
    assert_eq!(sizes[1] - sizes[0], 3000 * 1001);
    assert_eq!(size(nothing, long, "UTC"), Some(sizes[1]));
    assert_eq!(size(nothing, long, "Asia/Kathmandu"), None);
    assert_eq!(size(nothing, short, "UTC"), None);
    assert_eq!(size(Effort::All, short, "UTC"), Some(sizes[0]));
}
