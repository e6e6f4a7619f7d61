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
use std::process::{Command, Stdio};

use common::batches::{self, Plan};
use common::kafka::{Broker, Kafka};
use common::mounted::has;
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use tempfile::TempDir;
use topicfs::config::{Caller, Config};
use topicfs::fs::Fs;

/// What kcat is asked for, and a mount after it.
const TEMPLATES: [&str; 22] = [
    "%s",
    r"%s\n",
    r"%k:%s\n",
    r"%t,%p,%o\n",
    r"%K %S\n",
    "%R%s",
    r"%T\n",
    r"[%h]\n",
    r"%%s%%%o%%\n",
    r"%o\t%T\t%k\t%s\r\n",
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

fn topics() -> [(&'static str, Vec<u8>); 3] {
    [("odd", segment(&odd())), ("old-0", segment(&old(0))), ("old-1", segment(&old(1)))]
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
    for (topic, _) in topics() {
        for (index, template) in TEMPLATES.iter().enumerate() {
            let ours = shown::read(&fs, &format!("{topic}/0/log.f{index}"));
            let theirs = kcat(&broker, topic, template);
            assert_eq!(
                ours.escape_ascii().to_string(),
                theirs.escape_ascii().to_string(),
                "{topic}: {template}"
            );
        }
    }
    broker.stop(&mut kafka);
}

fn kcat(broker: &Broker, topic: &str, template: &str) -> Vec<u8> {
    let output = Command::new("kcat")
        .args(["-C", "-e", "-q", "-p", "0", "-o", "beginning", "-X", "fetch.wait.max.ms=10"])
        .args(["-b", &broker.boot, "-t", topic, "-f", template])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{template}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
