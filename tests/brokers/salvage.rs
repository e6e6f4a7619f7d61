//! Salvaged directories, given to the real Kafka: its log loader keeps every batch, kafka-dump-log finds no fault, and brokers
//! serve them and go on with them. What `docs/salvage.md` says to do is done here.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::batches::{Plan, encode};
use crate::common::fixtures;
use crate::common::kafka::{Kafka, dump, faults, free_ports};
use crate::common::mounted::wait_until;
use crate::common::salvaged::{files, salvage, scratch, with_interval};
use crate::common::shown::ShownRecord;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kafka_protocol::records::Compression;
use serde_json::{Value, json};
use tempfile::TempDir;
use topicfs::format::batch::Codec;
use topicfs::format::batch_builder::{BatchBuilder, NewRecord};
use topicfs::format::compression::encoder;
use topicfs::format::record::Header;
use topicfs::log::salvage::report::PartitionReport;
use topicfs::log::salvage::{LeaderEpochs, Options};
use topicfs::units::{LeaderEpoch, Offset, Timestamp};

#[test]
fn the_real_kafka_takes_what_is_salvaged() {
    let Some(mut kafka) = Kafka::start() else { return };
    its_dump_tool_would_find_a_fault(&mut kafka);
    it_decompresses_what_is_built(&mut kafka);
    its_loader_keeps_every_batch(&mut kafka);
    its_brokers_serve_and_go_on(&mut kafka);
}

/// A salvaged data directory.
struct Salvaged {
    name: String,
    _out: TempDir,
    interval: u64,
    partitions: Vec<PartitionReport>,
}

impl Salvaged {
    fn of(name: &str, source: &Path, interval: u64) -> Self {
        let out = scratch();
        let report = salvage(source, &[], out.path(), with_interval(interval));
        Self { name: name.to_owned(), _out: out, interval, partitions: report.partitions }
    }
}

/// The damage cases, sound directories of several kinds, and a segment with more offsets than an index has room for.
fn salvaged() -> Vec<Salvaged> {
    let mut all: Vec<_> =
        fixtures::damage_cases().iter().map(|case| Salvaged::of(&case.name, &case.data(), 128)).collect();
    for name in ["txn", "compacted", "deleted-records", "epochs", "magic", "idempotent", "times", "live"] {
        all.push(Salvaged::of(name, &fixtures::case("4.4.0", name).data(), 256));
    }
    for (version, name) in [("0.10.2.2", "codecs"), ("2.8.2", "txn")] {
        if let Some(case) = fixtures::cases().iter().find(|case| case.version == version && case.name == name)
        {
            all.push(Salvaged::of(name, &case.data(), 4096));
        }
    }
    let source = tempfile::tempdir().unwrap();
    fs::create_dir(source.path().join("far-0")).unwrap();
    let record = |offset| ShownRecord {
        offset,
        timestamp: 1_700_000_000_000,
        key: None,
        value: Some(b"far".to_vec()),
        headers: Vec::new(),
    };
    let far = [0, 1, 2_147_483_646, 2_147_483_648, 5_000_000_000, 5_000_000_001];
    let plans = far.map(|offset| Plan::of(vec![record(offset)], Compression::None));
    let bytes: Vec<u8> = plans.iter().flat_map(encode).flat_map(|entry| entry.bytes).collect();
    fs::write(source.path().join("far-0/00000000000000000000.log"), bytes).unwrap();
    let far = Salvaged::of("far", source.path(), 256);
    assert_eq!(far.partitions[0].kept.segments, 3);
    all.push(far);
    all
}

fn its_loader_keeps_every_batch(kafka: &mut Kafka) {
    let (mut partitions, mut batches) = (0, 0);
    for salvaged in salvaged() {
        for partition in &salvaged.partitions {
            let name = format!("{}/{}", salvaged.name, partition.partition);
            check_dump(kafka, &name, &partition.directory);
            let unclean = loaded(kafka, &salvaged, partition, "false");
            let clean = loaded(kafka, &salvaged, partition, "true");
            assert_eq!(clean.answer, unclean.answer, "{name}: a check changes nothing");
            check_answer(&name, partition, &clean.answer);
            check_rebuilt(&name, &partition.directory, &unclean.directory);
            partitions += 1;
            batches += partition.kept.batches;
        }
    }
    println!("{partitions} partitions with {batches} batches loaded");
    assert!(partitions > 130 && batches > 2500);
}

/// A copy of a partition that Kafka's loader has opened and closed.
struct Loaded {
    answer: Value,
    directory: PathBuf,
    _scratch: TempDir,
}

fn loaded(kafka: &mut Kafka, salvaged: &Salvaged, partition: &PartitionReport, clean: &str) -> Loaded {
    let scratch = scratch();
    let directory = scratch.path().join(partition.partition.to_string());
    fixtures::copy_into(&partition.directory, &directory);
    let start = partition.log_start.to_string();
    let interval = salvaged.interval.to_string();
    let answer = kafka.run(&["load", directory.to_str().unwrap(), &start, clean, &interval]);
    Loaded { answer, directory, _scratch: scratch }
}

/// What the loader found against what salvage says that it wrote.
fn check_answer(name: &str, partition: &PartitionReport, answer: &Value) {
    let number = |key: &str| answer[key].as_i64().unwrap();
    assert_eq!(number("logStart"), partition.log_start.0, "{name}");
    assert_eq!(number("logEnd"), partition.log_end.0, "{name}");
    let segments = files(&partition.directory).into_iter().filter_map(|(file, path)| {
        let base: i64 = file.strip_suffix(".log")?.parse().ok()?;
        Some(json!([base, fs::metadata(path).unwrap().len()]))
    });
    assert_eq!(answer["segments"], Value::Array(segments.collect()), "{name}: nothing is cut");
    let batches = answer["batches"].as_array().unwrap();
    let records: u64 = batches.iter().map(|batch| batch[2].as_u64().unwrap()).sum();
    if partition.log_start.0 <= partition.kept.offsets.map_or(0, |(first, _)| first.0) {
        assert_eq!(
            (batches.len() as u64, records),
            (partition.kept.batches, partition.kept.records),
            "{name}"
        );
    }
    let last = batches.last().map(|batch| batch[1].as_i64().unwrap());
    assert!(last.is_none() || last == partition.kept.offsets.map(|(_, last)| last.0), "{name}");
    assert_eq!(number("firstUnstable"), partition.open.first().map_or(-1, |(first, _)| first.0), "{name}");
}

/// The indexes that Kafka's recovery makes of the logs are those that salvage made.
fn check_rebuilt(name: &str, ours: &Path, theirs: &Path) {
    let (ours, theirs) = (files(ours), files(theirs));
    for (file, path) in &ours {
        if file.ends_with("index") {
            let (ours, theirs) = (fs::read(path).unwrap(), fs::read(&theirs[file]).unwrap());
            // The active segment's stay preallocated here.
            let rest = theirs.strip_prefix(&ours[..]);
            assert!(rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0)), "{name}/{file}");
        }
    }
    let txn_indexes = |side: &std::collections::BTreeMap<String, PathBuf>| {
        side.keys().filter(|file| file.ends_with(".txnindex")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(txn_indexes(&ours), txn_indexes(&theirs), "{name}");
}

fn check_dump(kafka: &mut Kafka, name: &str, partition: &Path) {
    let text = dump(kafka, partition);
    assert_eq!(faults(&text), Vec::<&str>::new(), "{name}");
    let logs = files(partition).keys().filter(|file| file.ends_with(".log")).count();
    assert!(text.matches("Dumping ").count() >= logs * 3, "{name}: {text}");
}

/// The check of the dumps can fail.
fn its_dump_tool_would_find_a_fault(kafka: &mut Kafka) {
    for name in ["index-wrong-batch", "timeindex-wrong-time", "snapshot-bad-crc", "bit-in-value"] {
        let case = fixtures::damage_cases().into_iter().find(|case| case.name == name).unwrap();
        let text = dump(kafka, &case.partition());
        assert_ne!(faults(&text), Vec::<&str>::new(), "{name}: {text}");
    }
}

/// The batches that are built for each codec: values of text, and such as no codec makes smaller, across the blocks of each.
fn it_decompresses_what_is_built(kafka: &mut Kafka) {
    let directory = scratch();
    let partition = directory.path().join("built-0");
    fs::create_dir(&partition).unwrap();
    let mut state = 1_u64;
    let mut random = |len: usize| -> String {
        let digit = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            char::from(b'!' + u8::try_from(state >> 58).unwrap())
        };
        (0..len).map(digit).collect()
    };
    let (mut log, mut values) = (Vec::new(), Vec::new());
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        for level in [None, Some(1), Some(9)] {
            let mut builder = BatchBuilder::new(encoder::Compression { codec, level });
            let base = Offset(i64::try_from(values.len()).unwrap());
            for len in [0, 1, 10, 70_000, 32_768, 3, 200_000] {
                let value = if len % 2 == 0 { random(len) } else { format!("{codec} ").repeat(len) };
                let (key, timestamp) = (codec.name().as_bytes(), Timestamp(1_700_000_000_000));
                let header = Header { name: b"h", value: None };
                let record = NewRecord {
                    timestamp,
                    key: Some(key),
                    value: Some(value.as_bytes()),
                    headers: &[header],
                };
                assert!(builder.push(&record, 1 << 30));
                values.push(value);
            }
            log.extend_from_slice(builder.finish(base, LeaderEpoch(0)).unwrap());
        }
    }
    let path = partition.join("00000000000000000000.log");
    fs::write(&path, log).unwrap();
    let text = kafka.run(&["dump", path.to_str().unwrap(), "--print-data-log"])["text"].clone();
    let text = text.as_str().unwrap();
    assert_eq!(faults(text), Vec::<&str>::new());
    let read: Vec<_> =
        text.lines().filter_map(|line| line.split_once(" payload: ")).map(|(_, value)| value).collect();
    assert_eq!(read.len(), values.len());
    for (number, (read, value)) in read.iter().zip(&values).enumerate() {
        assert!(read == value, "record {number}: {} bytes, not {}", read.len(), value.len());
    }
}

/// A topic of a fixture that a cluster gets.
struct Topic {
    name: String,
    number: i32,
    source: PathBuf,
    /// All that a consumer gets: offset, timestamp, key, value.
    records: Vec<Value>,
    committed: Vec<Value>,
}

impl Topic {
    fn of(case: &str, topic: &str) -> Self {
        let case = fixtures::case("4.4.0", case);
        let partition = case.partitions().into_iter().find(|partition| partition.topic == topic).unwrap();
        let plain = |records: Vec<fixtures::ExpectedRecord>| {
            let base64 = |bytes: Option<Vec<u8>>| bytes.map(|bytes| BASE64.encode(bytes));
            let records = records.into_iter();
            records
                .map(|record| {
                    json!([record.offset, record.timestamp, base64(record.key), base64(record.value)])
                })
                .collect()
        };
        Self {
            name: topic.to_owned(),
            number: partition.number,
            source: partition.dir.parent().unwrap().to_owned(),
            committed: plain(partition.committed()),
            records: plain(partition.records()),
        }
    }

    /// The topic of a damage case: the records of its sound batches.
    fn damaged(name: &str) -> Self {
        let case = fixtures::damage_cases().into_iter().find(|case| case.name == name).unwrap();
        let mut topic = Self::of("segments", case.expect.topic.rsplit_once('-').unwrap().0);
        topic.source = case.data();
        topic.records.retain(|record| {
            let offset = record[0].as_i64().unwrap();
            let is_lost =
                case.expect.changed_batches.iter().any(|(first, last)| (*first..=*last).contains(&offset));
            offset < case.expect.end && !is_lost
        });
        topic.committed.clone_from(&topic.records);
        topic
    }
}

/// A cluster of two brokers, the first of which is its controller too.
struct Cluster {
    scratch: TempDir,
    boot: String,
}

const BROKERS: [&str; 2] = ["1", "2"];

impl Cluster {
    fn new(kafka: &mut Kafka) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let [controller, first, second] = free_ports();
        let cluster = Self { scratch, boot: format!("127.0.0.1:{first}") };
        for (name, port) in BROKERS.into_iter().zip([first, second]) {
            let listener = format!("PLAINTEXT://127.0.0.1:{port}");
            let (roles, listeners) = match name {
                "1" => ("broker,controller", format!("{listener},CONTROLLER://127.0.0.1:{controller}")),
                _ => ("broker", listener.clone()),
            };
            let properties = format!(
                "process.roles={roles}\nnode.id={name}\nlisteners={listeners}\nadvertised.listeners={listener}\n\
                 controller.listener.names=CONTROLLER\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
                 log.dirs={}\nauto.create.topics.enable=false\nlog.cleaner.dedupe.buffer.size=4194304\n",
                cluster.data(name).display()
            );
            fs::write(cluster.properties(name), properties).unwrap();
            let formatted =
                kafka.run(&["format", cluster.properties(name).to_str().unwrap(), "topicfsTopicfsTopicfsQ"]);
            assert_eq!(formatted["code"], 0, "{formatted}");
        }
        cluster
    }

    fn data(&self, broker: &str) -> PathBuf {
        self.scratch.path().join(broker)
    }

    fn properties(&self, broker: &str) -> PathBuf {
        self.scratch.path().join(format!("{broker}.properties"))
    }

    fn start(&self, kafka: &mut Kafka) {
        for broker in BROKERS {
            kafka.run(&["start", broker, self.properties(broker).to_str().unwrap()]);
        }
    }

    fn stop(&self, kafka: &mut Kafka) {
        for broker in BROKERS.into_iter().rev() {
            kafka.run(&["stop", broker]);
            assert!(self.data(broker).join(".kafka_cleanshutdown").exists(), "nothing will be checked");
        }
    }

    /// Puts a salvaged partition in place of the empty one that a stopped broker has, with the topic's own id.
    fn put(&self, broker: &str, topic: &Topic, salvaged: &Path) {
        let from = salvaged.join(format!("{}-{}", topic.name, topic.number));
        let to = self.data(broker).join(format!("{}-0", topic.name));
        let is_the_clusters = |name: &str| name == "partition.metadata";
        for (name, path) in files(&to).into_iter().filter(|(name, _)| !is_the_clusters(name)) {
            assert!(!name.ends_with(".log") || fs::metadata(&path).unwrap().len() == 0, "{name}");
            fs::remove_file(path).unwrap();
        }
        for (name, path) in files(&from).into_iter().filter(|(name, _)| !is_the_clusters(name)) {
            fs::copy(path, to.join(name)).unwrap();
        }
        if let Ok(starts) = fs::read_to_string(salvaged.join("log-start-offset-checkpoint")) {
            self.add_start(broker, topic, &starts);
        }
    }

    /// Adds the topic's line of a salvaged `log-start-offset-checkpoint` to the broker's.
    fn add_start(&self, broker: &str, topic: &Topic, salvaged: &str) {
        let begins = format!("{} {} ", topic.name, topic.number);
        let Some(start) = salvaged.lines().find_map(|line| line.strip_prefix(&begins)) else { return };
        let path = self.data(broker).join("log-start-offset-checkpoint");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let mut lines: Vec<String> = text.lines().skip(2).map(str::to_owned).collect();
        lines.push(format!("{} 0 {start}", topic.name));
        fs::write(path, format!("0\n{}\n{}\n", lines.len(), lines.join("\n"))).unwrap();
    }
}

/// Topics with one replica, on the first broker, and those with two, whose files both brokers get.
fn topics() -> [(&'static str, Vec<Topic>); 2] {
    let one = vec![
        Topic::damaged("zeros-middle"),
        Topic::of("txn", "txn-a"),
        Topic::of("compacted", "compact-a"),
        Topic::of("deleted-records", "del-middle"),
        Topic::of("magic", "magic1"),
    ];
    [("1", one), ("1:2", vec![Topic::of("epochs", "ep"), Topic::of("codecs", "codec-zstd-1")])]
}

fn its_brokers_serve_and_go_on(kafka: &mut Kafka) {
    let cluster = Cluster::new(kafka);
    let topics = topics();
    cluster.start(kafka);
    for (replicas, topics) in &topics {
        for topic in topics {
            // The records are old: with the default of 7 days the broker would delete them.
            kafka.run(&["create", &cluster.boot, &topic.name, replicas, "retention.ms=-1"]);
        }
    }
    cluster.stop(kafka);
    for (replicas, topics) in &topics {
        for topic in topics {
            let out = scratch();
            let pattern = format!("{}/{}", topic.name, topic.number);
            let options = Options { leader_epochs: LeaderEpochs::Reset, ..Options::default() };
            salvage(&topic.source, &[&pattern], out.path(), options);
            for broker in replicas.split(':') {
                cluster.put(broker, topic, out.path());
            }
        }
    }
    cluster.start(kafka);
    for (_, topics) in &topics {
        for topic in topics {
            check_serving(kafka, &cluster, topic);
        }
    }
    a_transaction_without_an_end_can_be_ended(kafka, &cluster);
    // A replica that is added takes all of it.
    kafka.run(&["reassign", &cluster.boot, "seg-size", "1:2"]);
    for topic in ["seg-size", "ep", "codec-zstd-1"] {
        // The broker that is asked may not have heard of it yet.
        let mut offsets = kafka.run(&["offsets", &cluster.boot, topic]);
        wait_until(&format!("{topic} is in sync"), || {
            offsets = kafka.run(&["offsets", &cluster.boot, topic]);
            offsets["isr"] == json!([1, 2])
        });
        assert_eq!(offsets["bytes"]["1"], offsets["bytes"]["2"], "{topic}: {offsets}");
    }
    cluster.stop(kafka);
    for (_, topics) in &topics {
        for topic in topics {
            check_dump(kafka, &topic.name, &cluster.data("1").join(format!("{}-0", topic.name)));
        }
    }
    a_salvaged_directory_takes_the_place_of_the_brokers(kafka, &cluster);
}

/// `txn-a` has a transaction that its coordinator, in another cluster, never ended.
fn a_transaction_without_an_end_can_be_ended(kafka: &mut Kafka, cluster: &Cluster) {
    let committed = |kafka: &mut Kafka| {
        let answer = kafka.run(&["records", &cluster.boot, "txn-a", "read_committed"]);
        answer["records"].as_array().unwrap().len()
    };
    let before = committed(kafka);
    assert_eq!(kafka.run(&["abort", &cluster.boot, "txn-a"])["aborted"], 1);
    assert!(committed(kafka) >= before + 3, "what was appended behind it is seen now");
}

/// The controller's directory, with the cluster's metadata, salvaged and put where it was.
fn a_salvaged_directory_takes_the_place_of_the_brokers(kafka: &mut Kafka, cluster: &Cluster) {
    let (data, old) = (cluster.data("1"), cluster.scratch.path().join("broken"));
    fs::rename(&data, &old).unwrap();
    let report = salvage(&old, &[], &data, Options::default());
    assert!(report.is_whole(), "{report:?}");
    assert!(data.join("__cluster_metadata-0/quorum-state").exists());
    cluster.start(kafka);
    for topic in ["seg-size", "txn-a", "compact-a", "ep"] {
        let offsets = kafka.run(&["offsets", &cluster.boot, topic]);
        assert_eq!(offsets["leader"], 1, "{topic}: {offsets}");
        let records = kafka.run(&["records", &cluster.boot, topic, "read_uncommitted"]);
        let last = records["records"].as_array().unwrap().last().unwrap()[0].as_i64().unwrap();
        assert!(last >= offsets["latest"].as_i64().unwrap() - 2, "{topic}: {last} {offsets}");
        kafka.run(&["produce", &cluster.boot, topic, "1"]);
    }
    cluster.stop(kafka);
}

/// Consumes all, appends, and consumes all again.
fn check_serving(kafka: &mut Kafka, cluster: &Cluster, topic: &Topic) {
    let Topic { name, records, committed, .. } = topic;
    let consumed = |kafka: &mut Kafka, isolation: &str| {
        let answer = kafka.run(&["records", &cluster.boot, name, isolation]);
        answer["records"].as_array().unwrap().clone()
    };
    assert!(!records.is_empty(), "{name}");
    assert_eq!(&consumed(kafka, "read_uncommitted"), records, "{name}");
    assert_eq!(&consumed(kafka, "read_committed"), committed, "{name}");
    let before = kafka.run(&["offsets", &cluster.boot, name])["latest"].as_i64().unwrap();
    assert!(before > records.last().unwrap()[0].as_i64().unwrap(), "{name}");
    assert_eq!(kafka.run(&["produce", &cluster.boot, name, "3"])["last"], before + 2, "{name}");
    let after = consumed(kafka, "read_uncommitted");
    let (old, new) = after.split_at(records.len());
    assert_eq!(old, records, "{name}");
    assert_eq!(
        new.iter().map(|record| record[0].as_i64().unwrap()).collect::<Vec<_>>(),
        [before, before + 1, before + 2]
    );
}
