//! Appending beside a real broker: what is written through a mount while the broker is stopped is served when it runs again, and
//! both go on with each other's logs. `docs/append.md` says what is shown here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::fixtures;
use crate::common::kafka::{Broker, Kafka, dump, faults};
use crate::common::mounted::{Mounted, topicfs};
use crate::common::salvaged::files;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

/// How each topic is compressed.
const CODECS: [&str; 5] = ["uncompressed", "gzip", "snappy", "lz4", "zstd"];
/// A topic of a transactional producer.
const TXN: &str = "txn";
/// Of both, as long as segments.
const SEGMENT_BYTES: u64 = 16 * 1024;
const ROUNDS: usize = 3;

/// A record that was appended: its key and value.
type Pair = (Option<String>, Option<String>);

#[test]
fn a_broker_serves_what_is_appended_and_goes_on() {
    let Some(mut kafka) = Kafka::start() else { return };
    let broker = Broker::with(
        &mut kafka,
        "transaction.state.log.num.partitions=1\ntransaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n",
    );
    broker.start(&mut kafka);
    for codec in CODECS {
        kafka.run(&["create", &broker.boot, &topic(codec), "1"]);
    }
    kafka.run(&["create", &broker.boot, TXN, "1"]);
    let mut expected: Vec<Vec<Pair>> = vec![Vec::new(); CODECS.len()];
    for round in 0..ROUNDS {
        for (codec, expected) in CODECS.iter().zip(&mut expected) {
            kafka.run(&["produce", &broker.boot, &topic(codec), "3"]);
            expected.extend((0..3).map(|i| (Some(format!("key {i}")), Some(format!("more {i}")))));
        }
        kafka.run(&["transact", &broker.boot, TXN, "2"]);
        refuses_while_a_broker_runs(&broker.data());
        broker.stop(&mut kafka);
        let Some(mount) = mounted(&broker) else { return };
        for (codec, expected) in CODECS.iter().zip(&mut expected) {
            expected.extend(append(&mount, &topic(codec), round));
        }
        append_line(&mount, &format!("{TXN}/0/append"), format!("after transactions {round}\n"));
        if round == 0 {
            refuses_to_start(&broker);
        }
        let status = topicfs().arg("umount").arg(mount.point()).status().unwrap();
        assert!(status.success());
        for name in CODECS.iter().map(|codec| topic(codec)).chain([TXN.to_owned()]) {
            // In the first round all segments but the first are ours alone: a broker's indexes have an interval of their own.
            let are_ours = round == 0 && name != TXN;
            check_files(&mut kafka, &broker.data().join(format!("{name}-0")), are_ours);
        }
        broker.start(&mut kafka);
        for (codec, expected) in CODECS.iter().zip(&expected) {
            check_served(&mut kafka, &broker, &topic(codec), expected);
        }
        check_transactions(&mut kafka, &broker, round + 1);
    }
    broker.stop(&mut kafka);
}

fn topic(codec: &str) -> String {
    format!("as-{codec}")
}

/// A mount for appending, with a codec for each topic.
fn mounted(broker: &Broker) -> Option<Mounted> {
    let config = broker.data().parent().unwrap().join("topicfs.yaml");
    let rules = CODECS.map(|codec| format!("  {}:\n    compression.type: {codec}\n", topic(codec)));
    let text =
        format!("segment.bytes: {SEGMENT_BYTES}\nindex.interval.bytes: 512\ntopics:\n{}", rules.concat());
    fs::write(&config, text).unwrap();
    Mounted::with(broker.data(), &format!("append,config={}", config.display()))
}

fn append_line(mount: &Mounted, path: &str, text: impl AsRef<[u8]>) {
    let mut options = fs::OpenOptions::new();
    let mut file = options.append(true).open(mount.path(path)).unwrap();
    std::io::Write::write_all(&mut file, text.as_ref()).unwrap();
}

/// Writes to each append file of a topic; the records that come of it.
fn append(mount: &Mounted, topic: &str, round: usize) -> Vec<Pair> {
    let path = |file: &str| format!("{topic}/0/{file}");
    let some = |text: &str| Some(text.to_owned());
    let mut pairs: Vec<Pair> = Vec::new();
    // Small writes, so that there are many batches and several segments.
    for call in 0..40 {
        let lines: Vec<String> =
            (0..10).map(|line| format!("line {round} {call} {line} {}", "x".repeat(line * 20))).collect();
        append_line(mount, &path("append"), lines.join("\n") + "\n");
        pairs.extend(lines.into_iter().map(|line| (None, Some(line))));
    }
    append_line(mount, &path("append.tsv"), "k\tv\\tw\n\\N\tvalue\nkey\t\\N\n");
    pairs.extend([(some("k"), some("v\tw")), (None, some("value")), (some("key"), None)]);
    let object = json!({"key": "j", "value": {"base64": BASE64.encode("b\0c")}, "headers": [["h", null]], "timestamp": 7});
    append_line(mount, &path("append.jsonl"), format!("{object}\n"));
    pairs.push((some("j"), some("b\0c")));
    append_line(mount, &path("append.nul"), "two\nlines\0one\0");
    pairs.extend([(None, some("two\nlines")), (None, some("one"))]);
    let blob = "blob ".repeat(3_000);
    append_line(mount, &path("append.blob"), &blob);
    crate::common::mounted::wait_until("the blob is a record", || {
        fs::read_to_string(mount.path(&path("by-offset/last-1"))).is_ok_and(|last| last == blob)
    });
    pairs.push((None, Some(blob)));
    pairs
}

/// All that a consumer gets of a topic.
fn served(kafka: &mut Kafka, broker: &Broker, topic: &str, isolation: &str) -> Vec<Value> {
    let got = kafka.run(&["records", &broker.boot, topic, isolation]);
    got["records"].as_array().unwrap().clone()
}

fn check_served(kafka: &mut Kafka, broker: &Broker, topic: &str, expected: &[Pair]) {
    let got = served(kafka, broker, topic, "read_committed");
    assert_eq!(got.len(), expected.len(), "{topic}");
    let text =
        |value: &Value| value.as_str().map(|text| String::from_utf8(BASE64.decode(text).unwrap()).unwrap());
    for (number, (record, (key, value))) in got.iter().zip(expected).enumerate() {
        assert_eq!(record[0], number, "{topic}: no offset is left out");
        assert_eq!((&text(&record[2]), &text(&record[3])), (key, value), "{topic} {number}");
    }
    assert!(got.iter().any(|record| record[1] == 7), "a line's own time");
}

/// Committed transactions and what was appended are there, aborted ones are not.
fn check_transactions(kafka: &mut Kafka, broker: &Broker, rounds: usize) {
    let got = served(kafka, broker, TXN, "read_committed");
    let values: Vec<_> = got
        .iter()
        .map(|record| String::from_utf8(BASE64.decode(record[3].as_str().unwrap()).unwrap()).unwrap())
        .collect();
    let expected: Vec<String> = (0..rounds)
        .flat_map(|round| {
            let committed = ["committed 0", "committed 1", "committed again 0", "committed again 1"];
            committed.map(str::to_owned).into_iter().chain([format!("after transactions {round}")])
        })
        .collect();
    assert_eq!(values, expected);
}

/// kafka-dump-log finds no fault, and a loader that believes nothing finds the same batches and makes the same indexes.
fn check_files(kafka: &mut Kafka, partition: &Path, are_ours: bool) {
    let name = partition.display();
    let text = dump(kafka, partition);
    assert_eq!(faults(&text), Vec::<&str>::new(), "{name}");
    let scratch = tempfile::tempdir().unwrap();
    let loaded = |kafka: &mut Kafka, clean: &str| {
        let directory = scratch.path().join(clean).join(partition.file_name().unwrap());
        fs::create_dir(directory.parent().unwrap()).unwrap();
        fixtures::copy_into(partition, &directory);
        (kafka.run(&["load", directory.to_str().unwrap(), "0", clean, "512"]), directory)
    };
    let (clean, _) = loaded(kafka, "true");
    let (unclean, theirs) = loaded(kafka, "false");
    assert_eq!(clean, unclean, "{name}: a check changes nothing");
    if are_ours {
        check_rebuilt(&files(partition), &files(&theirs));
    }
}

/// Indexes of the segments behind the first are byte for byte those that Kafka makes of their logs.
fn check_rebuilt(ours: &BTreeMap<String, PathBuf>, theirs: &BTreeMap<String, PathBuf>) {
    let is_behind = |file: &str| file.ends_with("index") && !file.starts_with(&"0".repeat(20));
    let compared = ours.iter().filter(|(file, _)| is_behind(file)).map(|(file, path)| {
        let (ours, theirs) = (fs::read(path).unwrap(), fs::read(&theirs[file]).unwrap());
        // The active segment's stay preallocated here.
        let rest = theirs.strip_prefix(&ours[..]);
        assert!(rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0)), "{}", path.display());
    });
    assert!(compared.count() >= 2, "{ours:?}");
}

fn refuses_while_a_broker_runs(data: &Path) {
    let mut command = topicfs();
    command.arg("append").arg(data).arg("as-gzip/0").stdin(std::process::Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(".lock: locked by process "), "{text}");
}

/// A broker that is started beside a mount for appending says that the directory is in use.
fn refuses_to_start(broker: &Broker) {
    let Some(other) = Kafka::start() else { return };
    let properties = broker.properties();
    let said = other.last_words(&["start", "refused", properties.to_str().unwrap()]);
    assert!(said.contains("Failed to acquire lock on file .lock"), "{said}");
}
