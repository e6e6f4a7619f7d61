//! Real brokers do to their files under a mount what `docs/events.md` lists. What a consumer gets is the measure of what is shown.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::common::events::{Held, assert_descriptors_given_back, inode};
use crate::common::kafka::{Broker, Kafka, free_ports};
use crate::common::mounted::{Mounted, wait_until};
use crate::common::shown::{self, ShownRecord};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use tempfile::TempDir;

/// A broker that does soon what others do after minutes.
const SOON: &str = "log.segment.delete.delay.ms=1000\nlog.retention.check.interval.ms=200\nlog.initial.task.delay.ms=100\n\
                    log.flush.start.offset.checkpoint.interval.ms=200\nlog.cleaner.backoff.ms=100\n\
                    num.io.threads=2\nnum.network.threads=2\n";

/// Segments of a dozen small batches, whose files are removed soon after they were renamed.
const SMALL: [&str; 3] = ["internal.segment.bytes=1200", "file.delete.delay.ms=1000", "retention.ms=-1"];

/// A mount of a running broker's data directory.
struct Live<'a> {
    kafka: &'a mut Kafka,
    boot: String,
    data: PathBuf,
    mounted: Mounted,
}

impl Live<'_> {
    fn run(&mut self, command: &str, words: &[&str]) -> Value {
        let boot = self.boot.clone();
        self.kafka.run(&[&[command, &boot], words].concat())
    }

    fn create(&mut self, topic: &str, more: &[&str]) {
        self.run("create", &[&[topic, "1"], &SMALL[..], more].concat());
    }

    fn path(&self, topic: &str, name: &str) -> PathBuf {
        self.mounted.path(&format!("{topic}/0/{name}"))
    }

    fn hold(&self, topic: &str, name: &str) -> Held {
        Held::open(&self.path(topic, name))
    }

    /// What a consumer gets.
    fn consumed(&mut self, topic: &str) -> Vec<ShownRecord> {
        let answer = self.run("records", &[topic, "read_uncommitted"]);
        let bytes = |value: &Value| value.as_str().map(|text| BASE64.decode(text).expect("base64"));
        let record = |record: &Value| ShownRecord {
            offset: record[0].as_i64().expect("an offset"),
            timestamp: record[1].as_i64().expect("a timestamp"),
            key: bytes(&record[2]),
            value: bytes(&record[3]),
            headers: Vec::new(),
        };
        answer["records"].as_array().expect("records").iter().map(record).collect()
    }

    /// Waits until the broker has done what is asked of it, as a consumer sees it, and the mount shows the same.
    fn settle(
        &mut self,
        topic: &str,
        what: &str,
        is_done: impl Fn(&[ShownRecord]) -> bool,
    ) -> Vec<ShownRecord> {
        let mut consumed = Vec::new();
        let path = self.path(topic, "log.jsonl");
        wait_until(what, || {
            consumed = self.consumed(topic);
            let shown = fs::read(&path).map(|jsonl| shown::records(&jsonl));
            is_done(&consumed) && shown.is_ok_and(|shown| shown == consumed)
        });
        for record in consumed.iter().take(3).chain(consumed.iter().rev().take(3)) {
            let value =
                fs::read(self.path(topic, &format!("by-offset/{}", record.offset))).expect("a record");
            assert_eq!(Some(value), record.value, "{what}: {}", record.offset);
        }
        let tail = shown::records(&fs::read(self.path(topic, "tail.jsonl")).expect("the tail can be read"));
        assert!(consumed.ends_with(&tail), "{what}: tail");
        consumed
    }

    fn segments(&self, topic: &str) -> Vec<String> {
        let directory = self.data.join(format!("{topic}-0"));
        let names = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| Path::new(name).extension().is_some_and(|extension| extension == "log"));
        names.sort();
        names
    }
}

const FIRST: &str = "by-segment/00000000000000000000.jsonl";
const FIRST_SOURCE: &str = "segments/00000000000000000000.log";

#[test]
fn what_a_broker_does_to_its_files() {
    let Some(mut kafka) = Kafka::start() else { return };
    let broker = Broker::with(&mut kafka, SOON);
    broker.start(&mut kafka);
    let (boot, data) = (broker.boot.clone(), broker.data());
    let Some(mounted) = Mounted::with(&data, "tail_records=5") else { return };
    let mut live = Live { kafka: &mut kafka, boot, data: data.clone(), mounted };
    it_rolls(&mut live);
    it_deletes_records(&mut live);
    it_retains_by_size(&mut live);
    it_retains_by_time(&mut live);
    it_compacts(&mut live);
    it_deletes_a_topic_and_makes_it_again(&mut live);
    it_adds_partitions(&mut live);
    assert_descriptors_given_back(&live.mounted, &data);
    broker.stop(live.kafka);
    assert_descriptors_given_back(&live.mounted, &data);
}

fn it_rolls(live: &mut Live<'_>) {
    live.create("roll", &[]);
    live.run("fill", &["roll", "3", "first", "3"]);
    let (mut log, mut tail) = (live.hold("roll", "log.jsonl"), live.hold("roll", "tail.jsonl"));
    live.run("fill", &["roll", "40", "second", "3"]);
    assert!(live.segments("roll").len() > 2);
    let consumed = live.settle("roll", "rolled", |records| records.len() == 43);
    let now = fs::read(live.path("roll", "log.jsonl")).expect("the log can be read");
    log.assert_goes_on(&now);
    tail.assert_goes_on(&now);
    assert_eq!(shown::records(log.bytes()), consumed);
    assert_eq!(log.inode(), inode(&live.path("roll", "log.jsonl")));
}

fn it_deletes_records(live: &mut Live<'_>) {
    let log = live.hold("roll", "log.jsonl");
    live.run("delete-records", &["roll", "5"]);
    live.settle("roll", "the log start moved", |records| records[0].offset == 5);
    assert_ne!(log.inode(), inode(&live.path("roll", "log.jsonl")));
    log.assert_same_or_stale();
    let first = live.hold("roll", FIRST);
    live.run("delete-records", &["roll", "30"]);
    live.settle("roll", "segments are deleted", |records| records[0].offset == 30);
    wait_until("the first segment is gone", || {
        live.segments("roll").first().is_some_and(|name| !name.starts_with("00000000000000000000"))
    });
    first.assert_same();
    log.assert_same_or_stale();
}

fn it_retains_by_size(live: &mut Live<'_>) {
    live.create("size", &[]);
    live.run("fill", &["size", "60", "value", "3"]);
    let before = live.segments("size").len();
    let (log, first, source) =
        (live.hold("size", "log.jsonl"), live.hold("size", FIRST), live.hold("size", FIRST_SOURCE));
    live.run("configure", &["size", "retention.bytes=2500"]);
    wait_until("segments are deleted", || live.segments("size").len() < before - 1);
    live.settle("size", "old segments are deleted", |records| records[0].offset > 0);
    wait_until("their files are gone", || {
        !live.mounted.path(&format!("size/0/{FIRST_SOURCE}.deleted")).exists()
    });
    log.assert_same_or_stale();
    first.assert_same();
    source.assert_same();
    assert_ne!(log.inode(), inode(&live.path("size", "log.jsonl")));
}

fn it_retains_by_time(live: &mut Live<'_>) {
    live.create("time", &["message.timestamp.before.max.ms=9223372036854775807"]);
    live.run("produce", &["time", "40"]);
    let (log, first) = (live.hold("time", "log.jsonl"), live.hold("time", FIRST));
    live.run("configure", &["time", "retention.ms=1000"]);
    // All of them are older: the active segment is rolled and goes too.
    live.settle("time", "all is deleted", <[_]>::is_empty);
    log.assert_same_or_stale();
    first.assert_same();
    live.run("configure", &["time", "retention.ms=-1"]);
    live.run("fill", &["time", "4", "new", "3"]);
    live.settle("time", "it goes on", |records| records.len() == 4 && records[0].offset == 40);
}

fn it_compacts(live: &mut Live<'_>) {
    let eager = ["cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "delete.retention.ms=0"];
    live.create("compact", &[]);
    live.run("fill", &["compact", "60", "old", "7"]);
    let (log, sealed, source) =
        (live.hold("compact", "log.jsonl"), live.hold("compact", FIRST), live.hold("compact", FIRST_SOURCE));
    let by_key = fs::read(live.path("compact", "by-key/key%203")).expect("a key");
    assert_eq!(by_key, b"old 59");
    let mut tail = live.hold("compact", "tail.jsonl");
    live.run("configure", &[&["compact"], &eager[..]].concat());
    let consumed = live.settle("compact", "it is compacted", |records| records.len() < 30);
    assert_eq!(consumed.last().map(|record| record.offset), Some(59));
    assert_ne!(log.inode(), inode(&live.path("compact", "log.jsonl")));
    wait_until("their files are gone", || {
        !live.mounted.path(&format!("compact/0/{FIRST_SOURCE}.deleted")).exists()
    });
    log.assert_same_or_stale();
    sealed.assert_same();
    source.assert_same();
    live.run("fill", &["compact", "3", "new", "7"]);
    let consumed =
        live.settle("compact", "it goes on", |records| records.last().is_some_and(|last| last.offset == 62));
    let new: Vec<_> = consumed.iter().filter(|record| record.offset > 59).collect();
    assert_eq!(new.len(), 3);
    // The tail began in front of what was compacted last, or behind it; it goes on, or says that it can't.
    tail.assert_same_before();
    tail = live.hold("compact", "tail.jsonl");
    assert_eq!(shown::records(tail.bytes()).last(), consumed.last());
    assert_eq!(fs::read(live.path("compact", "by-key/key%201")).expect("a key"), b"new 1");
}

fn it_deletes_a_topic_and_makes_it_again(live: &mut Live<'_>) {
    live.create("again", &[]);
    live.run("fill", &["again", "20", "first", "3"]);
    let names = ["log.jsonl", "tail.jsonl", "by-offset/0...jsonl", "by-offset/0", "by-key/key%201"];
    let held: Vec<_> = names.iter().map(|name| live.hold("again", name)).collect();
    let (first, source) = (live.hold("again", FIRST), live.hold("again", FIRST_SOURCE));
    for round in 0..2 {
        live.run("delete-topic", &["again"]);
        if round == 0 {
            wait_until("renamed", || !live.mounted.path("again/0").exists());
        }
        wait_until("the broker is through", || !live.data.join("again-0").exists());
        live.create("again", &[]);
        live.run("fill", &["again", "15", "second", "3"]);
        live.settle("again", "made again", |records| records.len() == 15);
        assert_eq!(fs::read(live.path("again", "by-key/key%201")).expect("a key"), b"second 13");
        for held in &held {
            assert_ne!(held.inode(), inode(held.path()), "{}", held.path().display());
            held.assert_same_or_stale();
        }
        first.assert_same();
        source.assert_same();
    }
    let is_leftover = |name: &str| name.starts_with("again-0.") || name.contains("-delete");
    let leftovers = || {
        let names = fs::read_dir(&live.data).expect("a directory").flatten();
        names.filter(|entry| is_leftover(&entry.file_name().to_string_lossy())).count()
    };
    wait_until("the old files are removed", || leftovers() == 0);
    first.assert_same();
    source.assert_same();
}

fn it_adds_partitions(live: &mut Live<'_>) {
    live.create("more", &[]);
    live.run("fill", &["more", "4", "value", "2"]);
    let all = live.mounted.path("more/all/log.jsonl");
    let before = Held::open(&all);
    live.run("partitions", &["more", "3"]);
    wait_until("they are there", || live.mounted.path("more/2/log").exists());
    // Names may be a tenth of a second old.
    wait_until("another file", || inode(&all) != before.inode());
    assert_eq!(fs::read(&all).expect("it can be read"), before.bytes());
    before.assert_same_before();
}

#[test]
fn a_broker_that_is_killed_and_recovers() {
    let (Some(mut kafka), Some(mut other)) = (Kafka::start(), Kafka::start()) else { return };
    let broker = Broker::with(&mut kafka, SOON);
    broker.start(&mut other);
    let (boot, data) = (broker.boot.clone(), broker.data());
    let Some(mounted) = Mounted::with(&data, "tail_records=5") else { return };
    let mut live = Live { kafka: &mut kafka, boot, data: data.clone(), mounted };
    live.create("killed", &["preallocate=true"]);
    live.run("fill", &["killed", "20", "before", "3"]);
    let mut held = live.hold("killed", "log.jsonl");
    let mut tail = live.hold("killed", "tail.jsonl");
    assert_eq!(shown::records(held.bytes()).len(), 20);
    other.kill();
    // In the midst of a batch: what is there of it is cut away by the recovery.
    let active = live.segments("killed").pop().expect("a segment");
    let path = data.join("killed-0").join(active);
    let whole = fs::read(&path).expect("a segment");
    let end = whole.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let torn = [&20_i64.to_be_bytes()[..], &[0, 0, 1, 0, 0, 0, 0, 0, 2, 9, 9]].concat();
    // In place: a file that is made anew is empty for a moment, and the mount looks just then.
    let file = fs::OpenOptions::new().write(true).open(&path).expect("a segment");
    file.write_all_at(&torn, end as u64).expect("can be written");
    assert_eq!(
        shown::records(&fs::read(live.path("killed", "log.jsonl")).expect("it can be read")).len(),
        20
    );
    broker.start(live.kafka);
    live.run("leader", &["killed", "1", "1"]);
    live.settle("killed", "recovered", |records| records.len() == 20);
    live.run("fill", &["killed", "20", "after", "3"]);
    live.settle("killed", "it goes on", |records| records.len() == 40);
    let now = fs::read(live.path("killed", "log.jsonl")).expect("it can be read");
    // What was cut away was never shown: nobody's file is another one.
    held.assert_goes_on(&now);
    tail.assert_same_before();
    assert_eq!(held.inode(), inode(held.path()));
    held = live.hold("killed", "log.jsonl");
    tail = live.hold("killed", "tail.jsonl");
    live.run("fill", &["killed", "5", "later", "3"]);
    let later = fs::read(live.path("killed", "log.jsonl")).expect("it can be read");
    assert!(later.starts_with(&now));
    held.assert_goes_on(&later);
    tail.assert_goes_on(&fs::read(live.path("killed", "tail.jsonl")).expect("it can be read"));
    drop((held, tail));
    broker.stop(live.kafka);
    live.mounted.path("killed/0/log").exists().then_some(()).expect("the log stays");
    assert_descriptors_given_back(&live.mounted, &data);
}

/// A controller, and two brokers.
struct Cluster {
    scratch: TempDir,
    boots: [String; 2],
}

impl Cluster {
    fn new(kafka: &mut Kafka) -> Self {
        let scratch = tempfile::tempdir().expect("temporary directory");
        let [controller, first, second] = free_ports();
        let boots = [first, second].map(|port| format!("127.0.0.1:{port}"));
        let cluster = Self { scratch, boots };
        for node in ["100", "1", "2"] {
            let roles = match node {
                "100" => format!("process.roles=controller\nlisteners=CONTROLLER://127.0.0.1:{controller}"),
                _ => {
                    let listener = format!("PLAINTEXT://{}", cluster.boot(node));
                    format!("process.roles=broker\nlisteners={listener}\nadvertised.listeners={listener}")
                }
            };
            let properties = format!(
                "{roles}\nnode.id={node}\ncontroller.listener.names=CONTROLLER\n\
                 controller.quorum.voters=100@127.0.0.1:{controller}\nlog.dirs={}\n\
                 auto.create.topics.enable=false\nlog.cleaner.dedupe.buffer.size=4194304\n\
                 broker.heartbeat.interval.ms=300\nbroker.session.timeout.ms=2000\n\
                 replica.fetch.wait.max.ms=100\n{SOON}",
                cluster.data(node).display()
            );
            fs::write(cluster.properties(node), properties).expect("a file can be written");
            let properties = cluster.properties(node);
            let formatted = kafka.run(&["format", &properties.to_string_lossy(), "topicfsTopicfsTopicfsQ"]);
            assert_eq!(formatted["code"], 0, "{formatted}");
        }
        cluster
    }

    fn boot(&self, node: &str) -> &str {
        &self.boots[usize::from(node == "2")]
    }

    fn data(&self, node: &str) -> PathBuf {
        self.scratch.path().join(node)
    }

    fn properties(&self, node: &str) -> PathBuf {
        self.scratch.path().join(format!("{node}.properties"))
    }

    fn start(&self, kafka: &mut Kafka, node: &str) {
        kafka.run(&["start", node, &self.properties(node).to_string_lossy()]);
    }
}

/// The first broker takes records alone, the second one becomes leader without them, and the first one follows it: it cuts
/// its log and gets other records.
#[test]
fn a_follower_whose_log_is_cut() {
    let Some(mut kafka) = Kafka::start() else { return };
    let cluster = Cluster::new(&mut kafka);
    for node in ["100", "1", "2"] {
        cluster.start(&mut kafka, node);
    }
    let data = cluster.data("1");
    let Some(mounted) = Mounted::with(&data, "tail_records=5") else { return };
    let mut live =
        Live { kafka: &mut kafka, boot: cluster.boot("1").to_owned(), data: data.clone(), mounted };
    let unclean = ["unclean.leader.election.enable=true", "min.insync.replicas=1", "retention.ms=-1"];
    let topics = [("one", "100000"), ("many", "1200")];
    for (topic, segment) in topics {
        let size = format!("internal.segment.bytes={segment}");
        live.run("create", &[&[topic, "1:2", &size], &unclean[..]].concat());
        live.run("leader", &[topic, "1", "1:2"]);
        live.run("fill", &[topic, "20", "both", "3"]);
    }
    live.kafka.run(&["stop", "2"]);
    let mut held = Vec::new();
    for (topic, _) in topics {
        live.run("leader", &[topic, "1", "1"]);
        live.run("fill", &[topic, "30", "alone", "3"]);
        live.settle(topic, "taken alone", |records| records.len() == 50);
        for name in
            ["log.jsonl", "tail", "by-offset/10..40.txt", "by-offset/0...jsonl", "by-time/2000...jsonl"]
        {
            held.push(live.hold(topic, name));
        }
        held.push(Held::open(&live.mounted.path(&format!("{topic}/all/log"))));
    }
    let first = live.hold("many", FIRST);
    live.kafka.run(&["stop", "1"]);
    cluster.start(live.kafka, "2");
    live.boot = cluster.boot("2").to_owned();
    for (topic, _) in topics {
        live.run("leader", &[topic, "2", "2"]);
        // As many and more, of the same length.
        live.run("fill", &[topic, "40", "other", "3"]);
    }
    cluster.start(live.kafka, "1");
    for (topic, _) in topics {
        live.run("leader", &[topic, "2", "1:2"]);
        let consumed = live.settle(topic, "cut and followed", |records| records.len() == 60);
        assert!(
            consumed
                .iter()
                .all(|record| !record.value.as_ref().is_some_and(|value| value.starts_with(b"alone")))
        );
    }
    for held in &held {
        held.assert_same_or_stale();
        assert_ne!(held.inode(), inode(held.path()), "{}", held.path().display());
    }
    first.assert_same();
    let problems = fs::read_to_string(live.mounted.path("many/0/problems")).expect("it can be read");
    assert_eq!(problems, "");
    drop((held, first));
    assert_descriptors_given_back(&live.mounted, &data);
    for node in ["1", "2", "100"] {
        live.kafka.run(&["stop", node]);
    }
}
