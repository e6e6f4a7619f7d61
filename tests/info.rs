//! `info.json` against what Kafka's consumer, its dump tool and the broker said, field by field.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use common::batch_lines::{self, BatchLine};
use common::batches::{self, Plan};
use common::exposition::Metrics;
use common::fixtures::{self, Case, ExpectedRecord, Partition, Reading};
use common::model::{self, Directory};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use serde_json::{Value, json};
use topicfs::fs::Fs;
use topicfs::fs::options::Options;
use topicfs::fs::topic_options::TopicOptions;

fn info(fs: &Fs, partition: &str) -> Value {
    serde_json::from_slice(&shown::read(fs, &format!("{partition}/info.json"))).unwrap()
}

/// Cases of every format, whose records are all on disk.
fn cases() -> Vec<Case> {
    let mut cases = fixtures::cases();
    cases.retain(|case| case.data_dirs().len() == 1 && case.name != "tiered");
    cases
}

fn assert_fields(info: &Value, expected: &Value, what: &str) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&info[name], value, "{what}: {name}");
    }
}

/// What the records that a consumer got say.
fn of_records(records: &[ExpectedRecord]) -> Value {
    let times = || records.iter().map(|record| record.timestamp).filter(|time| *time != -1);
    let known = |time: i64| (time != -1).then_some(time);
    let ordered: Vec<_> = times().collect();
    json!({
        "records": records.len(),
        "null_keys": records.iter().filter(|record| record.key.is_none()).count(),
        "null_values": records.iter().filter(|record| record.value.is_none()).count(),
        "min_timestamp": times().min(),
        "max_timestamp": times().max(),
        "timestamps_out_of_order": ordered.windows(2).filter(|pair| pair[1] < pair[0]).count(),
        "first_offset": records.first().map(|record| record.offset),
        "first_timestamp": records.first().and_then(|record| known(record.timestamp)),
        "last_offset": records.last().map(|record| record.offset),
        "last_timestamp": records.last().and_then(|record| known(record.timestamp)),
    })
}

#[test]
fn counts_and_times_are_those_of_the_consumers_records() {
    let (mut checked, mut tombstones, mut disorder, mut cut) = (0, 0, 0, 0);
    for case in cases() {
        let fs = shown::open(case.data().to_str().unwrap(), Options::default());
        for partition in case.partitions() {
            if matches!(partition.reading, Reading::AfterRestart | Reading::BeforeDeletion) {
                continue;
            }
            let path = format!("{}/{}", partition.topic, partition.number);
            for (path, records) in
                [(path.clone(), partition.records()), (format!("{path}@committed"), partition.committed())]
            {
                let what = format!("{} {} {path}", case.version, case.name);
                let info = info(&fs, &path);
                assert_fields(&info, &of_records(&records), &what);
                assert!(info["measured_to"].as_i64() <= info["log_end_offset"].as_i64(), "{what}");
                checked += 1;
                tombstones += info["null_values"].as_u64().unwrap();
                disorder += info["timestamps_out_of_order"].as_u64().unwrap();
                cut += usize::from(matches!(partition.reading, Reading::AboveLogStart(_)));
            }
        }
    }
    assert!(
        checked > 150 && tombstones > 50 && disorder > 20 && cut > 5,
        "{checked} {tombstones} {disorder} {cut}"
    );
}

/// What the dump tool's lines about batches say.
fn of_batches(lines: &[&BatchLine]) -> Value {
    let mut codecs = BTreeMap::<&str, (u64, i64)>::new();
    let (mut magics, mut epochs) = (BTreeMap::<i64, u64>::new(), BTreeMap::new());
    let mut producers = BTreeMap::new();
    for line in lines {
        let codec = codecs.entry(line.word("compresscodec")).or_default();
        *codec = (codec.0 + 1, codec.1 + line.number("size"));
        *magics.entry(line.number("magic")).or_default() += 1;
        let (base, epoch) = (line.number("baseOffset"), line.number("partitionLeaderEpoch"));
        if epoch >= 0 {
            epochs.entry(epoch).or_insert(base);
        }
        if line.number("producerId") >= 0 && !line.is("isControl") {
            producers.insert(line.number("producerId"), *line);
        }
    }
    let mut last: Vec<_> = producers.values().collect();
    last.sort_by_key(|line| -line.number("lastOffset"));
    let of_last = |line: &&&BatchLine| {
        json!([
            line.number("producerId"),
            line.number("producerEpoch"),
            line.number("lastSequence"),
            line.number("lastOffset")
        ])
    };
    json!({
        "batches": lines.len(),
        "control_batches": lines.iter().filter(|line| line.is("isControl")).count(),
        "codecs": codecs.iter().map(|(codec, (batches, bytes))| json!([codec, batches, bytes])).collect::<Vec<_>>(),
        "magics": magics.iter().map(|(magic, batches)| json!([magic, batches])).collect::<Vec<_>>(),
        "epochs": epochs.iter().map(|(epoch, base)| json!([epoch, base])).collect::<Vec<_>>(),
        "producers": last.len(),
        "last": last.iter().take(100).map(of_last).collect::<Vec<_>>(),
    })
}

/// The same of `info.json`.
fn of_info(info: &Value) -> Value {
    let pick = |list: &str, names: &[&str]| -> Vec<Value> {
        let entries = info[list].as_array().unwrap().iter();
        entries.map(|entry| names.iter().map(|name| entry[*name].clone()).collect()).collect()
    };
    let mut codecs = pick("codecs", &["codec", "batches", "bytes"]);
    codecs.sort_by_key(|codec| codec[0].as_str().unwrap().to_owned());
    json!({
        "batches": info["batches"],
        "control_batches": info["control_batches"],
        "codecs": codecs,
        "magics": pick("message_formats", &["magic", "batches"]),
        "epochs": pick("batch_epochs", &["epoch", "start_offset"]),
        "producers": info["producers"],
        "last": pick("last_producers", &["producer_id", "producer_epoch", "last_sequence", "last_offset"]),
    })
}

#[test]
fn batches_codecs_epochs_and_producers_are_those_of_the_dump() {
    let (mut checked, mut producers) = (0, 0);
    for case in cases() {
        let fs = shown::open(case.data().to_str().unwrap(), Options::default());
        for partition in case.partitions() {
            let lines = batch_lines::of(&case, &partition);
            let complete =
                lines.iter().all(|line| line.word("isvalid") == "true") && has_all_dumps(&case, &partition);
            if !complete || partition.reading == Reading::BeforeDeletion {
                continue;
            }
            let path = format!("{}/{}", partition.topic, partition.number);
            let info = info(&fs, &path);
            // Segments that lie below the log start are not shown.
            let start = info["log_start_offset"].as_i64().unwrap();
            let last = lines.iter().map(|line| line.number("segment")).filter(|base| *base <= start).max();
            let shown: Vec<_> = lines.iter().filter(|line| Some(line.number("segment")) >= last).collect();
            assert_eq!(of_info(&info), of_batches(&shown), "{} {} {path}", case.version, case.name);
            checked += 1;
            producers += info["producers"].as_u64().unwrap();
        }
    }
    assert!(checked > 60 && producers > 40, "{checked} {producers}");
}

fn has_all_dumps(case: &Case, partition: &Partition) -> bool {
    let is_log = |path: &std::path::Path| path.extension().is_some_and(|extension| extension == "log");
    let dumped: Vec<_> = case.dumps().into_iter().map(|dump| dump.source).collect();
    let mut files = fs::read_dir(&partition.dir).unwrap().map(|entry| entry.unwrap().path());
    case.version.starts_with(['3', '4']) && files.all(|path| !is_log(&path) || dumped.contains(&path))
}

#[test]
fn bounds_transactions_and_epochs_are_the_brokers() {
    let (mut checked, mut open, mut epochs) = (0, 0, 0);
    for case in cases().iter().filter(|case| case.version.starts_with(['3', '4'])) {
        let fs = shown::open(case.data().to_str().unwrap(), Options::default());
        for partition in case.partitions() {
            let Some(offsets) = partition.offsets() else { continue };
            let path = format!("{}/{}", partition.topic, partition.number);
            let what = format!("{} {} {path}", case.version, case.name);
            let Ok(bytes) = shown::try_read(&fs, &format!("{path}/info.json")) else { continue };
            let info: Value = serde_json::from_slice(&bytes).unwrap();
            let stable = offsets.committed_end.unwrap_or(offsets.latest);
            if info["log_end_offset"] != json!(offsets.latest) {
                continue;
            }
            assert_eq!(info["log_start_offset"], offsets.earliest, "{what}");
            assert_eq!(info["last_stable_offset"], stable, "{what}");
            let listed = info["open_transactions"].as_array().unwrap();
            assert_eq!(listed.is_empty(), stable == offsets.latest, "{what}");
            if let Some(oldest) = listed.first() {
                let lines = batch_lines::of(case, &partition);
                let begun = lines.iter().find(|line| line.number("baseOffset") == stable).unwrap();
                assert_eq!(oldest["first_offset"], stable, "{what}");
                for (name, theirs) in [
                    ("producer_id", "producerId"),
                    ("producer_epoch", "producerEpoch"),
                    ("since", "CreateTime"),
                ] {
                    assert_eq!(oldest[name], begun.number(theirs), "{what}: {name}");
                }
                open += 1;
            }
            if let Ok(text) = fs::read_to_string(partition.dir.join("leader-epoch-checkpoint")) {
                let lines =
                    text.lines().skip(2).map(|line| line.split(' ').map(|n| n.parse::<i64>().unwrap()));
                let theirs: Vec<Vec<i64>> = lines.map(Iterator::collect).collect();
                let ours = info["leader_epochs"].as_array().unwrap().iter();
                let ours: Vec<_> = ours
                    .map(|e| ["epoch", "start_offset"].map(|n| e[n].as_i64().unwrap()).to_vec())
                    .collect();
                assert_eq!(ours, theirs, "{what}");
                epochs += theirs.len();
            }
            checked += 1;
        }
    }
    assert!(checked > 60 && open > 4 && epochs > 60, "{checked} {open} {epochs}");
}

fn record(offset: i64, timestamp: i64, len: usize) -> ShownRecord {
    let text = format!("{offset} ").repeat(len);
    let (key, value) = (Some(b"key".to_vec()), Some(text.into_bytes()));
    ShownRecord { offset, timestamp, key, value, headers: Vec::new() }
}

#[test]
fn what_a_codec_saves_is_measured_against_the_same_batch_without_it() {
    let all = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    for (magic, codecs) in [(0, &all[..3]), (1, &all[..3]), (2, &all[..])] {
        let plan = |codec| Plan::of((0..20).map(|n| record(n, n, 40)).collect(), codec).with_magic(magic);
        let plain: usize =
            batches::encode(&plan(Compression::None)).iter().map(|entry| entry.bytes.len()).sum();
        for codec in codecs {
            let bytes = batches::encode(&plan(*codec)).remove(0).bytes;
            let directory = Directory::default();
            directory.write_segment(0, &bytes);
            let fs = shown::open(directory.spec(), Options::default());
            let said = &info(&fs, "t/0")["codecs"][0];
            assert_eq!(
                (&said["bytes"], &said["uncompressed_bytes"]),
                (&json!(bytes.len()), &json!(plain)),
                "{codec:?}"
            );
            let ratio = bytes.len() as f64 / plain as f64;
            assert!((said["ratio"].as_f64().unwrap() - ratio).abs() <= 0.0005, "{said}");
        }
    }
}

/// Three segments of about 7 MiB each, with nulls and times that go back, and what `info.json` should say of them.
fn large() -> (Directory, Vec<ShownRecord>) {
    let (directory, mut all) = (Directory::default(), Vec::new());
    for segment in 0..3 {
        let (mut bytes, mut entries) = (Vec::new(), Vec::new());
        for batch in 0..700 {
            let first = segment * 7000 + batch * 10;
            let mut records: Vec<_> =
                (first..first + 10).map(|n| record(n, 1_700_000_000_000 + n, 200)).collect();
            records[3].key = None;
            records[5].value = None;
            records[9].timestamp -= 100;
            let plan = Plan::of(records.clone(), Compression::None);
            let entry = batches::encode(&plan).remove(0);
            bytes.extend(&entry.bytes);
            entries.push(entry);
            all.extend(records);
        }
        directory.write_segment(segment * 7000, &bytes);
        let index = model::offset_index(&model::Segment { base: segment * 7000, entries }, 1);
        fs::write(directory.file(segment * 7000, "index"), index).unwrap();
    }
    (directory, all)
}

fn of_shown(records: &[ShownRecord]) -> Value {
    let expected = |record: &ShownRecord| {
        let ShownRecord { offset, timestamp, key, value, .. } = record.clone();
        let timestamp_type = fixtures::TimestampType::CreateTime;
        ExpectedRecord {
            offset,
            timestamp,
            timestamp_type,
            leader_epoch: None,
            key,
            value,
            headers: Vec::new(),
        }
    };
    of_records(&records.iter().map(expected).collect::<Vec<_>>())
}

#[test]
fn a_large_partition_is_counted_as_far_as_it_was_read_and_the_counts_are_kept() {
    let (directory, all) = large();
    let cache = tempfile::tempdir().unwrap();
    let options = || Options { cache_dir: Some(cache.path().join("c")), ..Options::default() };
    let fs = shown::open(directory.spec(), options());
    let before = info(&fs, "t/0");
    assert_fields(
        &before,
        &json!({ "measured_to": 0, "records": 0, "batches": 0, "log_end_offset": 21_000 }),
        "new",
    );
    let ends = of_shown(&all);
    for name in ["first_offset", "first_timestamp", "last_offset", "last_timestamp"] {
        assert_eq!(before[name], ends[name], "{name}");
    }
    // Reading in any format counts: one segment, then all.
    shown::read(&fs, "t/0/by-segment/00000000000000000000.tsv");
    let partly = info(&fs, "t/0");
    assert_eq!((&partly["measured_to"], &partly["batches"]), (&json!(7000), &json!(700)));
    assert_eq!(partly["records"], 7000);
    shown::read(&fs, "t/0/log.jsonl");
    let whole = |fs: &Fs, what: &str| {
        let info = info(fs, "t/0");
        assert_fields(&info, &of_shown(&all), what);
        assert_fields(&info, &json!({ "measured_to": 21_000, "batches": 2100 }), what);
    };
    whole(&fs, "read");
    let again = shown::open(directory.spec(), options());
    whole(&again, "from the cache");
    let count = |fs: &Fs, name: &str| {
        Metrics::parse(&String::from_utf8(shown::read(fs, ".topicfs/metrics")).unwrap()).get(name, &[])
    };
    // The first segment is measured in two formats.
    assert_eq!(count(&fs, "topicfs_measurements_saved_total"), 4.0);
    assert_eq!(count(&again, "topicfs_measurements_loaded_total"), 3.0);
    // What comes later is counted once.
    let more = record(21_000, 1, 1);
    directory.append(14_000, &batches::encode(&Plan::of(vec![more.clone()], Compression::None))[0].bytes);
    let all = [all.as_slice(), &[more]].concat();
    for (fs, what) in [(fs, "grown"), (again, "grown since it was kept")] {
        let info = info(&fs, "t/0");
        assert_fields(&info, &of_shown(&all), what);
        assert_fields(&info, &json!({ "measured_to": 21_001, "batches": 2101 }), what);
    }
    // Damaged entries of the cache are none.
    for entry in fs::read_dir(cache.path().join("c")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("summary") {
            fs::write(&path, b"nonsense").unwrap();
        }
    }
    assert_eq!(info(&shown::open(directory.spec(), options()), "t/0")["measured_to"], 0);
}

#[test]
fn bounds_within_a_segment_are_kept_to() {
    let (directory, all) = large();
    let fs = shown::open(directory.spec(), Options::default());
    shown::read(&fs, "t/0/log");
    for start in [1, 12, 15, 3_333, 6_999, 7_000, 7_004, 20_999] {
        directory.set_log_start(start);
        let expected = of_shown(&all[usize::try_from(start).unwrap()..]);
        let info = info(&fs, "t/0");
        for (name, value) in expected.as_object().unwrap() {
            let is_far = start == 3_333 || start == 6_999 || start == 20_999;
            let is_count = ["null_keys", "null_values", "timestamps_out_of_order"].contains(&name.as_str());
            let value = if is_far && is_count { &Value::Null } else { value };
            assert_eq!(&info[name], value, "{name} from {start}");
        }
    }
    // The high watermark, as a checkpoint beside the log start has it.
    let mark = directory.path().join("replication-offset-checkpoint");
    fs::write(mark, "0\n1\nt 0 20994\n").unwrap();
    directory.set_log_start(15);
    let options: Options =
        TopicOptions { up_to: topicfs::fs::options::UpTo::HighWatermark, ..TopicOptions::default() }.into();
    let fs = shown::open(directory.spec(), options);
    shown::read(&fs, "t/0/log");
    let info = info(&fs, "t/0");
    assert_fields(&info, &of_shown(&all[15..20_994]), "to the high watermark");
    assert_eq!((&info["measured_to"], &info["high_watermark"]), (&json!(20_994), &json!(20_994)));
}

#[test]
fn info_of_a_large_partition_reads_about_a_mebibyte() {
    let (directory, _) = large();
    let cache = tempfile::tempdir().unwrap();
    let script = format!(
        "'{}' cat '{}' t/0/info.json > /dev/null && grep rchar /proc/$$/io",
        env!("CARGO_BIN_EXE_topicfs"),
        directory.spec()
    );
    let output =
        Command::new("sh").args(["-c", &script]).env("XDG_CACHE_HOME", cache.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let read: u64 = text.trim().trim_start_matches("rchar: ").parse().unwrap_or_else(|_| panic!("{text}"));
    assert!(read < 3 << 19, "{read} bytes");
}

/// The newest snapshot tells of transactions at the end of a log that was not measured.
#[test]
fn open_transactions_of_a_large_partition_come_from_its_newest_snapshot() {
    let case = fixtures::case("4.4.0", "txn");
    let (large, _) = large();
    let partition = case.partitions().into_iter().find(|p| p.committed_differ().is_some()).unwrap();
    let stable = partition.offsets().unwrap().committed_end.unwrap();
    let snapshots = fs::read_dir(&partition.dir).unwrap().map(|entry| entry.unwrap().path());
    let newest = snapshots.filter(|path| path.extension().is_some_and(|e| e == "snapshot")).max().unwrap();
    let open = |large: &Directory| info(&shown::open(large.spec(), Options::default()), "t/0");
    assert_eq!(open(&large)["open_transactions"], Value::Null, "nothing tells");
    fs::copy(&newest, large.file(21_000, "snapshot")).unwrap();
    let told = open(&large);
    assert_eq!((&told["last_stable_offset"], &told["measured_to"]), (&json!(stable), &json!(0)));
    // What came after the snapshot is read.
    let producer = told["open_transactions"][0]["producer_id"].as_i64().unwrap();
    large.append(14_000, &batches::encode(&Plan::marker(21_000, producer, true))[0].bytes);
    let told = open(&large);
    assert!(told["last_stable_offset"].as_i64().unwrap() > stable, "{}", told["open_transactions"]);
    // Too far from the end it says nothing of now.
    fs::rename(large.file(21_000, "snapshot"), large.file(100, "snapshot")).unwrap();
    assert_eq!(open(&large)["open_transactions"], Value::Null);
}
