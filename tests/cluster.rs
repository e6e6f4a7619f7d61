//! Topics and configs as `__cluster_metadata` has them: against what Kafka's dump tool says of its records, and of metadata that is cut,
//! damaged, elsewhere, or not finished.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::batches::{self, Plan};
use common::shown::{self, ShownRecord};
use common::{fixtures, mounted};
use kafka_protocol::records::Compression;
use serde_json::Value;
use tempfile::TempDir;
use topicfs::config::{Caller, Config};
use topicfs::format::batch::Limits;
use topicfs::fs::options::Options;
use topicfs::fs::topic_configs::TopicConfigs;
use topicfs::log::cluster::{Cluster, Layer, TopicInCluster};
use topicfs::log::source::SourceOptions;
use topicfs::view::selection::Effort;

/// Id and configs by topic.
type Topics = BTreeMap<String, (String, BTreeMap<String, String>)>;

const OPTIONS: SourceOptions = SourceOptions {
    limits: Limits { max_batch_bytes: 128 << 20, max_decoded_bytes: 256 << 20 },
    follow_symlinks: false,
};

fn now(spec: &Path, topic: &str) -> TopicInCluster {
    Cluster::new(spec.to_str().unwrap(), OPTIONS).now().of_topic(topic)
}

/// The topics of these names as we read them, without what brokers set.
fn read(spec: &Path, names: &[&str]) -> Topics {
    let one = |name: &&str| {
        let topic = now(spec, name);
        let own = topic.configs.into_iter().filter(|(_, (_, layer))| *layer == Layer::Topic);
        let own = own.map(|(name, (value, _))| (name, value)).collect();
        Some(((*name).to_owned(), (topic.id?.to_string(), own)))
    };
    names.iter().filter_map(one).collect()
}

/// Every topic that the fixture ever had.
const NAMES: [&str; 3] = ["ep", "ep-quiet", "doomed"];

/// The topics that the records of a dump leave, by their text alone.
fn dumped(text: &str) -> Topics {
    let mut topics = Topics::new();
    for (_, json) in text.lines().filter_map(|line| line.split_once("payload: ")) {
        let record: Value = serde_json::from_str(json).unwrap();
        let data = &record["data"];
        let field = |name: &str| data[name].as_str().unwrap().to_owned();
        match record["type"].as_str().unwrap() {
            "TOPIC_RECORD" => {
                topics.insert(field("name"), (field("topicId"), BTreeMap::new()));
            }
            "REMOVE_TOPIC_RECORD" => topics.retain(|_, (id, _)| *id != field("topicId")),
            "CONFIG_RECORD" if data["resourceType"] == 2 => {
                let (_, configs) = topics.get_mut(&field("resourceName")).unwrap();
                configs.insert(field("name"), field("value"));
            }
            _ => {}
        }
    }
    topics
}

/// A copy of the fixture, its metadata partition, and Kafka's dumps of the files there.
fn kraft() -> (TempDir, PathBuf, PathBuf) {
    let case = fixtures::case("4.4.0", "kraft");
    let copy = fixtures::copy(&case.data_dirs()[0]);
    let metadata = copy.path().join("__cluster_metadata-0");
    (copy, metadata, case.expect().join("__cluster_metadata-0"))
}

/// The snapshots there, the newest last.
fn snapshots(metadata: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(metadata).unwrap().map(|entry| entry.unwrap().path());
    let mut snapshots: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "checkpoint")).collect();
    snapshots.sort();
    snapshots
}

fn dump_of(expect: &Path, file: &Path) -> String {
    let name = file.file_name().unwrap().to_str().unwrap();
    fs::read_to_string(expect.join(format!("{name}.dump"))).unwrap()
}

#[test]
fn topics_and_configs_are_those_of_kafkas_dump() {
    let (copy, metadata, expect) = kraft();
    let log = metadata.join("00000000000000000000.log");
    let expected = dumped(&dump_of(&expect, &log));
    assert_eq!(expected.keys().collect::<Vec<_>>(), ["ep", "ep-quiet"]);
    assert_eq!(expected["ep"].1.len(), 3);
    assert_eq!(read(copy.path(), &NAMES), expected);
    // A partition, and a segment, know the directory around them.
    assert_eq!(read(&metadata, &NAMES), expected);
    assert_eq!(read(&log, &NAMES), expected);

    let snapshots = snapshots(&metadata);
    assert!(snapshots.len() > 5);
    snapshots.iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_eq!(read(copy.path(), &NAMES), expected, "from the log alone");
}

#[test]
fn no_file_of_the_metadata_stays_open() {
    let (copy, metadata, _) = kraft();
    let cluster = Cluster::new(copy.path().to_str().unwrap(), OPTIONS);
    assert!(cluster.now().of_topic("ep").id.is_some());
    let open =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    assert_eq!(open.filter(|path| path.starts_with(&metadata)).count(), 0);
}

#[test]
fn each_snapshot_is_what_kafkas_dump_says() {
    let (copy, metadata, expect) = kraft();
    fs::remove_file(metadata.join("00000000000000000000.log")).unwrap();
    // From the newest to the oldest.
    for snapshot in snapshots(&metadata).iter().rev() {
        assert_eq!(read(copy.path(), &NAMES), dumped(&dump_of(&expect, snapshot)), "{}", snapshot.display());
        fs::remove_file(snapshot).unwrap();
    }
    assert_eq!(read(copy.path(), &NAMES), Topics::new());
}

#[test]
fn a_snapshot_without_its_footer_does_not_count() {
    let (copy, metadata, _) = kraft();
    let expected = read(copy.path(), &NAMES);
    let newest = snapshots(&metadata).pop().unwrap();
    let bytes = fs::read(&newest).unwrap();
    fs::remove_file(&newest).unwrap();
    for len in (0..bytes.len()).step_by(13) {
        fs::write(&newest, &bytes[..len]).unwrap();
        let cluster = Cluster::new(copy.path().to_str().unwrap(), OPTIONS);
        assert_eq!(read(copy.path(), &NAMES), expected, "{len} bytes");
        let problems = cluster.now().problems.clone();
        assert_eq!(problems.len(), 1, "{len} bytes: {problems:?}");
        assert_eq!(problems[0].file, newest);
    }
}

#[test]
fn damage_takes_no_more_than_what_it_hits() {
    let (copy, metadata, _) = kraft();
    let expected = read(copy.path(), &NAMES);
    let log = metadata.join("00000000000000000000.log");
    let sound = fs::read(&log).unwrap();
    // With its snapshots the log has nothing more to say of topics.
    for at in (0..sound.len()).step_by(31) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x55;
        fs::write(&log, bytes).unwrap();
        assert_eq!(read(copy.path(), &NAMES), expected, "byte {at}");
    }
    // Without them, what is left says what it can, and that some is missing.
    snapshots(&metadata).iter().for_each(|path| fs::remove_file(path).unwrap());
    for at in (0..sound.len()).step_by(31) {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x55;
        fs::write(&log, bytes).unwrap();
        let cluster = Cluster::new(copy.path().to_str().unwrap(), OPTIONS);
        let told = cluster.now().problems.len();
        assert!(told > 0 || read(copy.path(), &NAMES) == expected, "byte {at}");
    }
    fs::write(&log, []).unwrap();
    assert_eq!(read(copy.path(), &NAMES), Topics::new());
}

#[test]
fn metadata_of_2_8_is_read_too() {
    let case = fixtures::case("2.8.2", "kraft");
    let data = &case.data_dirs()[0];
    let topics = read(data, &["ka", "kb"]);
    assert_eq!(topics["ka"].1, BTreeMap::from([("segment.bytes".to_owned(), "700".to_owned())]));
    assert!(topics["kb"].1.is_empty());
}

/// A metadata partition that is written here.
struct Made {
    directory: TempDir,
    next: i64,
}

const SET: Option<&str> = Some("1");
const NAME: &str = "retention.ms";

impl Made {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("__cluster_metadata-0")).unwrap();
        let meta = "version=1\nnode.id=7\ncluster.id=AAAAAAAAAAAAAAAAAAAAfw\n";
        fs::write(directory.path().join("meta.properties"), meta).unwrap();
        Self { directory, next: 0 }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Appends a batch of records.
    fn append(&mut self, values: &[Vec<u8>]) {
        let record = |(offset, value): (i64, &Vec<u8>)| ShownRecord {
            offset,
            timestamp: 1,
            key: None,
            value: Some(value.clone()),
            headers: Vec::new(),
        };
        let records: Vec<_> = (self.next..).zip(values).map(record).collect();
        self.next += i64::try_from(values.len()).unwrap();
        let log = self.path().join("__cluster_metadata-0/00000000000000000000.log");
        let mut bytes = fs::read(&log).unwrap_or_default();
        for entry in batches::encode(&Plan::of(records, Compression::None)) {
            bytes.extend(entry.bytes);
        }
        fs::write(&log, bytes).unwrap();
    }

    fn retention(&self, topic: &str) -> Option<(String, Layer)> {
        now(self.path(), topic).configs.remove(NAME)
    }
}

fn compact(text: &str) -> Vec<u8> {
    [&[u8::try_from(text.len() + 1).unwrap()][..], text.as_bytes()].concat()
}

fn topic(name: &str, id: u8) -> Vec<u8> {
    [&[1, 2, 0][..], &compact(name), &[id; 16], &[0]].concat()
}

fn config(kind: u8, resource: &str, name: &str, value: Option<&str>) -> Vec<u8> {
    let value = value.map_or_else(|| vec![0], compact);
    [&[1, 4, 0, kind][..], &compact(resource), &compact(name), &value, &[0]].concat()
}

fn marker(kind: u8) -> Vec<u8> {
    vec![1, kind, 0, 0]
}

#[test]
fn records_of_transactions_count_when_they_end() {
    let mut made = Made::new();
    made.append(&[topic("a", 1), vec![1, 99, 0, 1, 2, 3], marker(23), config(2, "a", NAME, SET)]);
    assert_eq!(made.retention("a"), None);
    made.append(&[marker(24)]);
    assert_eq!(made.retention("a"), Some(("1".to_owned(), Layer::Topic)));
    made.append(&[marker(23), config(2, "a", NAME, None), marker(25)]);
    assert_eq!(made.retention("a"), Some(("1".to_owned(), Layer::Topic)));
    made.append(&[config(2, "a", NAME, None)]);
    assert_eq!(made.retention("a"), None);
}

#[test]
fn a_topics_own_config_counts_most_then_its_brokers_then_all_brokers() {
    let mut made = Made::new();
    let file = made.path().join("server.properties");
    let elsewhere = tempfile::tempdir().unwrap();
    fs::create_dir(elsewhere.path().join("t-0")).unwrap();
    fs::write(elsewhere.path().join("t-0/00000000000000000000.log"), []).unwrap();
    let (metadata, data) = (made.path().display(), elsewhere.path().display());
    let text = format!(
        "metadata.log.dir={metadata}\nlog.dirs={data}\nlog.retention.minutes=2\nlog.retention.hours=9\n"
    );
    fs::write(&file, text).unwrap();
    let broker = "log.retention.ms";
    made.append(&[topic("t", 1)]);
    for (record, value, layer) in [
        (marker(20), "120000", Layer::ServerProperties),
        (config(4, "8", broker, Some("8")), "120000", Layer::ServerProperties),
        (config(4, "", broker, Some("3")), "3", Layer::AllBrokers),
        (config(4, "7", broker, Some("4")), "4", Layer::Broker),
        (config(2, "t", NAME, Some("5")), "5", Layer::Topic),
        (config(2, "t", NAME, None), "4", Layer::Broker),
        (config(4, "7", broker, None), "3", Layer::AllBrokers),
    ] {
        made.append(&[record]);
        assert_eq!(now(&file, "t").configs.remove(NAME), Some((value.to_owned(), layer)));
    }
    // A topic that the cluster doesn't know has the defaults of its brokers.
    assert_eq!(now(&file, "other").id, None);
    assert_eq!(now(&file, "other").configs[NAME].1, Layer::AllBrokers);
}

fn chosen(words: &str, yaml: &str, cluster: &Path, topic: &str) -> TopicConfigs {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c.yaml");
    fs::write(&file, yaml).unwrap();
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let options = Config::load(Some(&file), &words, Caller::Person).unwrap().options;
    let cluster = Cluster::new(cluster.to_str().unwrap(), OPTIONS);
    TopicConfigs::new(&options, &cluster, topic)
}

#[test]
fn the_mounts_own_configuration_counts_more_than_the_cluster() {
    let mut made = Made::new();
    let own = |name, value| config(2, "a", name, Some(value));
    made.append(&[
        topic("a", 1),
        own(NAME, "10"),
        own("cleanup.policy", "compact, delete"),
        own("segment.bytes", "a lot"),
        own("compression.type", "lz4"),
        own("min.insync.replicas", "2"),
        topic("b", 2),
    ]);
    let value = |configs: &TopicConfigs, name: &str| {
        let row = &configs.rows()[name];
        (row.value.clone(), row.source.name())
    };
    let of_topic = "__cluster_metadata: topic";
    let by_mount = "mount configuration";
    let plain = chosen("", "", made.path(), "a");
    assert_eq!(value(&plain, NAME), ("10".to_owned(), of_topic));
    assert_eq!(value(&plain, "cleanup.policy"), ("compact, delete".to_owned(), of_topic));
    assert_eq!(value(&plain, "min.insync.replicas"), ("2".to_owned(), of_topic));
    assert_eq!(value(&plain, "segment.bytes"), ("1073741824".to_owned(), "default"));
    assert_eq!(plain.refused, ["segment.bytes can't be \"a lot\" (__cluster_metadata: topic): ignored"]);
    let policy = plain.brokers_policy();
    assert_eq!((policy.delete, policy.compact, policy.retention_ms), (true, true, Some(10)));
    // A mount deletes nothing that its own configuration doesn't name a policy for.
    assert!(!plain.policy().delete && !plain.policy().compact);
    assert_eq!(plain.log_config().compression.codec, topicfs::format::batch::Codec::Lz4);

    let for_all = chosen(
        "cleanup.policy=delete",
        "retention.ms: 20\ntopics: {b: {retention.ms: 30}}\n",
        made.path(),
        "a",
    );
    assert_eq!(value(&for_all, NAME), ("20".to_owned(), by_mount));
    assert_eq!(value(&for_all, "cleanup.policy"), ("delete".to_owned(), by_mount));
    assert!(for_all.policy().delete && !for_all.policy().compact);
    let by_rule = chosen("retention.ms=20", "topics: {a: {retention.ms: 30}}\n", made.path(), "a");
    assert_eq!(value(&by_rule, NAME), ("30".to_owned(), by_mount));
    assert_eq!(value(&by_rule, "compression.type"), ("lz4".to_owned(), of_topic));
}

#[test]
fn a_topic_that_the_cluster_knows_is_deleted_from_by_default() {
    let mut made = Made::new();
    made.append(&[topic("b", 2)]);
    let known = chosen("", "", made.path(), "b");
    assert!(known.brokers_policy().delete && !known.policy().delete);
    assert_eq!(known.rows()["cleanup.policy"].value, "delete");
    made.append(&[config(4, "", "log.cleanup.policy", Some("compact"))]);
    assert!(chosen("", "", made.path(), "b").brokers_policy().compact);
    let unknown = chosen("", "", made.path(), "c");
    assert!(!unknown.brokers_policy().delete && !unknown.brokers_policy().compact);
    assert_eq!(unknown.rows()["cleanup.policy"].value, "none");
}

#[test]
fn a_mount_sees_configs_change() {
    let mut made = Made::new();
    fs::create_dir(made.path().join("a-0")).unwrap();
    fs::write(made.path().join("a-0/00000000000000000000.log"), []).unwrap();
    made.append(&[topic("a", 1)]);
    let fs = shown::open(made.path().to_str().unwrap(), Options::default());
    let lines = || {
        let text = String::from_utf8(shown::read(&fs, "a/0/info")).unwrap();
        text.lines().filter(|line| line.starts_with("config ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(), [""; 0]);
    made.append(&[config(2, "a", NAME, SET)]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(lines(), ["config                  retention.ms=1 (__cluster_metadata: topic)"]);
}

#[test]
fn a_partition_of_a_topic_that_was_made_again_has_both_ids() {
    let mut made = Made::new();
    made.append(&[topic("a", 1)]);
    let partition = made.path().join("a-0");
    fs::create_dir(&partition).unwrap();
    fs::write(partition.join("00000000000000000000.log"), []).unwrap();
    let ids = || {
        let fs = shown::open(made.path().to_str().unwrap(), Options::default());
        let info: Value = serde_json::from_slice(&shown::read(&fs, "a/0/info.json")).unwrap();
        let of_both = ["a/0/info", "a/info"].map(|path| String::from_utf8(shown::read(&fs, path)).unwrap());
        (info["topic_id"].clone(), of_both.map(|text| text.contains("in the cluster")))
    };
    let (ours, before) = ("AQEBAQEBAQEBAQEBAQEBAQ", "k6DiXPXGQLmYwMCNt-_cyg");
    assert_eq!(ids(), (ours.into(), [false; 2]), "as the cluster says");
    for (id, is_other) in [(ours, false), (before, true)] {
        fs::write(partition.join("partition.metadata"), format!("version: 0\ntopic_id: {id}")).unwrap();
        assert_eq!(ids(), (id.into(), [is_other; 2]));
    }
}

#[test]
fn values_that_cannot_be_are_told_with_the_topic() {
    let mut made = Made::new();
    made.append(&[topic("a", 1), config(2, "a", NAME, Some("soon"))]);
    fs::create_dir(made.path().join("a-0")).unwrap();
    fs::write(made.path().join("a-0/00000000000000000000.log"), []).unwrap();
    let fs = shown::open(made.path().to_str().unwrap(), Options::default());
    let problems = String::from_utf8(shown::read(&fs, ".topicfs/problems")).unwrap();
    assert!(problems.contains("a: retention.ms can't be \"soon\""), "{problems}");
}

#[test]
fn of_ten_thousand_topics_only_what_is_new_is_read() {
    let mut made = Made::new();
    for batch in 0..100_u32 {
        let names: Vec<String> = (0..100).map(|number| format!("topic-{batch}-{number}")).collect();
        let records = names.iter().flat_map(|name| [topic(name, 1), config(2, name, NAME, SET)]);
        made.append(&records.collect::<Vec<_>>());
    }
    let cluster = Cluster::new(made.path().to_str().unwrap(), OPTIONS);
    let began = std::time::Instant::now();
    assert_eq!(cluster.now().of_topic("topic-99-99").configs.len(), 1);
    let whole = began.elapsed();
    made.append(&[config(2, "topic-99-99", "segment.ms", SET)]);
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let began = std::time::Instant::now();
    assert_eq!(cluster.now().of_topic("topic-99-99").configs.len(), 2);
    let grown = began.elapsed();
    assert!(grown < std::time::Duration::from_millis(500), "{grown:?}, and {whole:?} for all");
}

#[test]
fn what_is_appended_follows_the_cluster() {
    let mut made = Made::new();
    made.append(&[topic("a", 1), config(2, "a", "compression.type", Some("zstd"))]);
    for (number, options, codec) in [("0", "timezone=UTC", 4), ("1", "compression.type=gzip", 1)] {
        let mut append = mounted::topicfs();
        append.args(["append", "--create", "-o", &format!("allow_cluster_topics,{options}")]);
        append.arg(made.path()).arg(format!("a/{number}"));
        let mut child = append.stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"one\ntwo\n").unwrap();
        assert!(child.wait().unwrap().success());
        let log = fs::read(made.path().join(format!("a-{number}/00000000000000000000.log"))).unwrap();
        assert_eq!(log[22] & 7, codec, "{options}");
    }
}

#[test]
fn a_stat_reads_no_large_metadata() {
    let mut made = Made::new();
    fs::create_dir(made.path().join("a-0")).unwrap();
    fs::write(made.path().join("a-0/00000000000000000000.log"), []).unwrap();
    let many: Vec<_> = (0..60_000).map(|_| config(4, "", NAME, SET)).collect();
    made.append(&[topic("a", 1)]);
    made.append(&many);
    let fs = shown::open(made.path().to_str().unwrap(), Options::default());
    for path in ["a/info", "a/0/info.json", ".topicfs/problems"] {
        let node = fs.resolve(path).unwrap();
        let size = |effort| fs.attributes(1, &node, effort).unwrap().size;
        assert_eq!(size(Effort::Bytes(0)), 0, "{path}");
    }
    let whole = shown::read(&fs, "a/info").len() as u64;
    assert_eq!(fs.attributes(1, &fs.resolve("a/info").unwrap(), Effort::Bytes(0)).unwrap().size, whole);
}
