//! A real broker under load, with readers of all kinds through one mount: what each of them got is what a real consumer got.
//!
//! It takes two minutes; `TOPICFS_LOAD_SECONDS` sets another time. See `docs/live.md`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::kafka::{Broker, Kafka};
use common::lookers::{self, Ground, Seen};
use common::mounted::{self, Mounted, can_mount, has, wait_until};
use common::readers::{self, By, Reader};
use common::witness::Witness;
use serde_json::Value;
use tempfile::TempDir;

/// Whether `follow` is read too.
const FOLLOW: bool = true;

/// What the producers send in a second, all together.
const RATE: u64 = 800;

/// What the mount's process may have more of in the last third than half as much again as in the first.
const MORE_KIB: u64 = 64 << 10;
/// What it may have at all.
const MOST_KIB: u64 = 512 << 10;
/// How many files it may have open: its pools, and what is under way.
const MOST_DESCRIPTORS: usize = 512;

/// Everything that a broker does later is done at once.
const PROPERTIES: &str = "\
log.initial.task.delay.ms=100
log.retention.check.interval.ms=1000
log.segment.delete.delay.ms=1000
log.cleaner.backoff.ms=500
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
";

/// A topic that is written to.
struct Topic {
    name: &'static str,
    partitions: usize,
    /// As the driver's `load-topic` has it.
    how: &'static str,
    /// Its part of all records, in hundredths.
    share: u64,
    configs: &'static [&'static str],
}

const TOPICS: [Topic; 8] = [
    Topic { name: "plain", partitions: 3, how: "none", share: 24, configs: &["segment.ms=2000"] },
    Topic { name: "gzip", partitions: 1, how: "gzip", share: 11, configs: &["segment.ms=2500"] },
    Topic { name: "snappy", partitions: 1, how: "snappy", share: 11, configs: &["segment.ms=3000"] },
    Topic { name: "lz4", partitions: 1, how: "lz4", share: 11, configs: &["internal.segment.bytes=200000"] },
    Topic {
        name: "zstd",
        partitions: 1,
        how: "zstd",
        share: 11,
        configs: &["internal.segment.bytes=200000"],
    },
    Topic { name: "txn", partitions: 1, how: "txn", share: 12, configs: &["segment.ms=2000"] },
    Topic {
        name: "short",
        partitions: 1,
        how: "none",
        share: 10,
        configs: &["segment.ms=1000", "retention.ms=8000", "file.delete.delay.ms=1000"],
    },
    Topic {
        name: "compact",
        partitions: 1,
        how: "keyed",
        share: 10,
        configs: &[
            "cleanup.policy=compact",
            "segment.ms=1500",
            "min.cleanable.dirty.ratio=0.01",
            "file.delete.delay.ms=1000",
        ],
    },
];

/// What a program that reads on must have printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Must {
    /// All records, from the first on.
    All,
    /// All records from one on.
    Rest,
    /// All records of three partitions, those of each in order.
    AllMerged,
    /// What compaction left, to the end or to a segment that was replaced.
    Compacted,
}

/// Programs that read on, begun before the first record.
const EARLY: [(By, &str, Must); 12] = [
    (By::Tail, "plain/0/log.jsonl", Must::All),
    (By::Busybox, "plain/1/log.jsonl", Must::All),
    (By::TailByName, "plain/2/tail.jsonl", Must::All),
    (By::Loop, "plain/all/log.jsonl", Must::AllMerged),
    (By::Loop, "gzip/0/log.jsonl", Must::All),
    (By::Tail, "snappy/0/log.jsonl", Must::All),
    (By::Busybox, "lz4/0/tail.jsonl", Must::All),
    (By::Loop, "zstd/0/log.jsonl", Must::All),
    (By::Tail, "txn/0/log.jsonl", Must::All),
    (By::Loop, "txn/0@committed/log.jsonl", Must::All),
    (By::Tail, "short/0/log.jsonl", Must::All),
    (By::Tail, "compact/0/log.jsonl", Must::Compacted),
];

/// The same, begun in the midst of it.
const LATE: [(By, &str, Must); 3] = [
    (By::Tail, "plain/0/log.jsonl", Must::All),
    (By::TailByName, "snappy/0/tail.jsonl", Must::Rest),
    (By::Loop, "txn/0@committed/tail.jsonl", Must::Rest),
];

/// Those of `follow`: nothing is written before the first of them have it open.
const EARLY_FOLLOW: [(By, &str, Must); 5] = [
    (By::Cat, "plain/0/follow.jsonl", Must::All),
    (By::Cat, "plain/1/by-offset/0../follow.jsonl", Must::All),
    (By::Cat, "plain/all/follow.jsonl", Must::AllMerged),
    (By::Poll, "zstd/0/follow.jsonl", Must::All),
    (By::Cat, "txn/0@committed/follow.jsonl", Must::All),
];
const LATE_FOLLOW: [(By, &str, Must); 3] = [
    (By::Cat, "gzip/0/by-offset/100../follow.jsonl", Must::Rest),
    (By::Poll, "lz4/0/follow.jsonl", Must::Rest),
    (By::Cat, "short/0/follow.jsonl", Must::Rest),
];

#[test]
fn readers_of_all_kinds_get_what_a_consumer_gets() {
    let tools = ["tail", "busybox", "python3", "cat", "find", "grep", "ls", "timeout"];
    if !can_mount() || !tools.into_iter().all(has) {
        return;
    }
    let Some(mut kafka) = Kafka::start() else { return };
    let seconds = seconds();
    let broker = Broker::with(&mut kafka, PROPERTIES);
    broker.start(&mut kafka);
    let scratch = tempfile::tempdir().expect("temporary directory");
    make_topics(&mut kafka, &broker, scratch.path());
    let Some(mounted) = Mounted::new(broker.data()) else { return };
    let mut followers = Followers::new(&mounted);
    followers.start(&EARLY, &EARLY_FOLLOW);
    for topic in &TOPICS {
        let rate = (RATE * topic.share / 100).to_string();
        kafka.run(&["load-topic", &broker.boot, topic.name, topic.how, &rate, &seconds.to_string()]);
    }

    let (seen, process) = look_on(&mounted, scratch.path(), seconds, &mut followers);
    let acknowledged = kafka.run(&["loaded"]);
    kafka.run(&["witnessed"]);
    let witnesses = witnesses(scratch.path());
    check_witnesses(&witnesses, &acknowledged);
    followers.check(&witnesses);
    lookers::check(&seen, &witnesses);
    process.check();
    check_mount(&mounted);
    check_events(&broker.data());
    drop(followers);
    drop(mounted);
    broker.stop(&mut kafka);
}

/// How long there is load.
fn seconds() -> u64 {
    let text = std::env::var("TOPICFS_LOAD_SECONDS").unwrap_or_else(|_| "60".to_owned());
    text.parse().expect("TOPICFS_LOAD_SECONDS is a number")
}

/// Makes the topics, and has a consumer get all of each partition from the first record on.
fn make_topics(kafka: &mut Kafka, broker: &Broker, witnesses: &Path) {
    for topic in &TOPICS {
        let replicas = vec!["1"; topic.partitions].join(",");
        let words = [&["create", &broker.boot, topic.name, &replicas], topic.configs].concat();
        kafka.run(&words);
        for partition in 0..topic.partitions {
            let mut witness = |isolation: &str, suffix: &str| {
                let file = witnesses.join(format!("{}-{partition}{suffix}", topic.name));
                let (partition, file) = (partition.to_string(), file.to_string_lossy().into_owned());
                kafka.run(&["witness", &broker.boot, topic.name, &partition, isolation, &file]);
            };
            witness("read_uncommitted", "");
            if topic.how == "txn" {
                witness("read_committed", "@committed");
            }
        }
    }
}

/// Waits for the load to end while others look at the mount; what they saw, and how the mount's process fared.
fn look_on(
    mounted: &Mounted,
    witnesses: &Path,
    seconds: u64,
    followers: &mut Followers<'_>,
) -> (Vec<Seen>, Process) {
    let stop = AtomicBool::new(false);
    let ground = Ground { mounted, witnesses, stop: &stop };
    thread::scope(|scope| {
        let ground = &ground;
        let lookers: Vec<_> = lookers::ALL.iter().map(|looker| scope.spawn(move || looker(ground))).collect();
        let mut process = Process::default();
        let begun = Instant::now();
        let mut late = false;
        while begun.elapsed() < Duration::from_secs(seconds) {
            process.sample(mounted);
            if !late && begun.elapsed() > Duration::from_secs(seconds / 3) {
                late = true;
                followers.start(&LATE, &LATE_FOLLOW);
            }
            if lookers.iter().any(thread::ScopedJoinHandle::is_finished) {
                break;
            }
            thread::sleep(Duration::from_millis(500));
        }
        stop.store(true, Ordering::Relaxed);
        let seen = lookers.into_iter().flat_map(|looker| looker.join().expect("it has seen nothing wrong"));
        (seen.collect(), process)
    })
}

/// What the mount's process used.
#[derive(Debug, Default)]
struct Process {
    memory_kib: Vec<u64>,
    descriptors: Vec<usize>,
}

impl Process {
    fn sample(&mut self, mounted: &Mounted) {
        self.memory_kib.push(mounted.memory_kib("VmRSS:"));
        let descriptors = mounted.process().join("fd").read_dir().expect("descriptors").count();
        self.descriptors.push(descriptors);
    }

    fn check(&self) {
        // The caches fill in the first third.
        let third = self.memory_kib.len() / 3;
        let most = |samples: &[u64]| samples.iter().max().copied().unwrap_or(0);
        let (then, later) = (most(&self.memory_kib[..third]), most(&self.memory_kib[third * 2..]));
        let descriptors = self.descriptors.iter().max().copied().unwrap_or(0);
        eprintln!(
            "memory {then} KiB in the first third, {later} KiB in the last; at most {descriptors} descriptors"
        );
        assert!(later < then + then / 2 + MORE_KIB, "memory grows: {:?}", self.memory_kib);
        assert!(later < MOST_KIB, "memory: {:?}", self.memory_kib);
        assert!(0 < descriptors && descriptors < MOST_DESCRIPTORS, "descriptors: {:?}", self.descriptors);
    }
}

/// The programs that read on.
struct Followers<'a> {
    mounted: &'a Mounted,
    outputs: TempDir,
    all: Vec<(Reader, &'static str, Must)>,
}

impl<'a> Followers<'a> {
    fn new(mounted: &'a Mounted) -> Self {
        Self { mounted, outputs: tempfile::tempdir().expect("temporary directory"), all: Vec::new() }
    }

    /// Starts these, and waits until they have their files open.
    fn start(&mut self, always: &[(By, &'static str, Must)], follow: &[(By, &'static str, Must)]) {
        let before = self.all.len();
        for (by, path, must) in always.iter().chain(follow.iter().filter(|_| FOLLOW)) {
            let reader = Reader::start(*by, &self.mounted.path(path), self.outputs.path());
            self.all.push((reader, path, *must));
        }
        for (reader, path, _) in &mut self.all[before..] {
            wait_until(&format!("{} has it open", reader.name), || reader.has_open(&self.mounted.path(path)));
        }
    }

    /// Ends all when they have the last record, and checks what they have printed.
    fn check(&mut self, witnesses: &Witnesses) {
        for (index, (reader, path, must)) in self.all.iter_mut().enumerate() {
            let of: Vec<&Witness> = sources(path).iter().map(|source| &witnesses[source]).collect();
            let whole = of.iter().map(|witness| witness.bytes().len() as u64).sum::<u64>();
            let is_there = |reader: &Reader| match must {
                Must::AllMerged => reader.len() >= whole,
                _ => of[0].is_end(&reader.last(64)),
            };
            wait_until(&format!("all is in {}", reader.name), || {
                reader.ended().is_some() || is_there(reader)
            });
            let complaint = reader.complaint();
            // What a shell starts in the background ignores interrupts, and so do its children.
            let is_interrupted = index % 2 == 1 && !readers::ignores_interrupts();
            let signal = if is_interrupted { libc::SIGINT } else { libc::SIGTERM };
            let went_on = reader.end(signal).is_some();
            let printed = reader.output();
            let is_stale = complaint.contains("Stale file handle") && *must == Must::Compacted;
            assert!(went_on && complaint.is_empty() || is_stale, "{}: {complaint}", reader.name);
            let lines = match must {
                Must::Compacted => {
                    let offsets = lookers::compacted(of[0], &printed)
                        .unwrap_or_else(|why| panic!("{}: {why}", reader.name));
                    offsets.len()
                }
                Must::AllMerged => check_merged(&reader.name, &of, &printed),
                Must::All | Must::Rest => {
                    let offsets = of[0]
                        .place(&printed)
                        .unwrap_or_else(|why| panic!("{}: {why}\n{complaint}", reader.name));
                    assert!(of[0].is_end(&printed), "{}: ends with {offsets:?}", reader.name);
                    assert!(
                        *must == Must::Rest || printed.len() as u64 == whole,
                        "{}: begins with {offsets:?}",
                        reader.name
                    );
                    printed.iter().filter(|byte| **byte == b'\n').count()
                }
            };
            eprintln!("{} lines, {} bytes: {}", lines, printed.len(), reader.name);
        }
    }
}

/// The streams of three partitions in one: those of each are whole. How many lines.
fn check_merged(name: &str, of: &[&Witness], printed: &[u8]) -> usize {
    let mut lines = 0;
    let mut parted = vec![Vec::new(); of.len()];
    for line in printed.split_inclusive(|byte| *byte == b'\n') {
        let partition = lookers::number(line, "partition").unwrap_or_else(|| panic!("{name}: no partition"));
        parted[usize::try_from(partition).expect("a partition")].extend_from_slice(line);
        lines += 1;
    }
    for (witness, stream) in of.iter().zip(&parted) {
        witness.place(stream).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(stream.len(), witness.bytes().len(), "{name}");
    }
    lines
}

/// What consumers got, by `topic-partition`.
type Witnesses = BTreeMap<String, Witness>;

fn witnesses(directory: &Path) -> Witnesses {
    let names = mounted::names(directory).into_iter();
    names.map(|name| (name.clone(), Witness::read(&directory.join(name)))).collect()
}

/// The witnesses of a path in the mount.
fn sources(path: &str) -> Vec<String> {
    let mut words = path.split('/');
    let (topic, partition) = (words.next().expect("a topic"), words.next().expect("a partition"));
    match partition {
        "all" => (0..3).map(|partition| format!("{topic}-{partition}")).collect(),
        _ => vec![format!("{topic}-{partition}")],
    }
}

/// The consumers have missed nothing: each record that a producer had acknowledged, and no gap where there can be none.
fn check_witnesses(witnesses: &Witnesses, acknowledged: &Value) {
    let mut records = 0;
    for topic in &TOPICS {
        let count: usize = (0..topic.partitions)
            .map(|partition| {
                let witness = &witnesses[&format!("{}-{partition}", topic.name)];
                let gapless = witness.offsets().eq(0..i64::try_from(witness.len()).expect("a count"));
                assert_eq!(
                    gapless,
                    topic.how != "txn",
                    "{}: control records take offsets, others none",
                    topic.name
                );
                witness.len()
            })
            .sum();
        assert_eq!(acknowledged[topic.name].as_u64(), Some(count as u64), "{}", topic.name);
        assert!(count > 100, "{}: {count} records", topic.name);
        records += count;
    }
    let (all, committed) = (witnesses["txn-0"].len(), witnesses["txn-0@committed"].len());
    assert!(0 < committed && committed < all, "{committed} of {all} committed");
    eprintln!("{records} records in {} partitions, {} of them aborted", witnesses.len() - 1, all - committed);
}

/// What was to happen under the readers has happened: rolls, retention and compaction.
fn check_events(data: &Path) {
    let names = |partition: &str| {
        let mut names = mounted::names(&data.join(partition));
        names.retain(|name| name.ends_with(".log"));
        names
    };
    let (rolled, short, compacted) = (names("plain-0"), names("short-0"), names("compact-0"));
    assert!(rolled.len() > 4, "{rolled:?}");
    assert_ne!(short[0], rolled[0], "retention has removed the first segment");
    let size = |name: &String| data.join("compact-0").join(name).metadata().expect("a segment").len();
    let smallest = compacted.iter().map(size).min().expect("segments");
    eprintln!(
        "{} segments rolled in plain-0, short-0 begins with {}, {} segments of {smallest} bytes and more in compact-0",
        rolled.len(),
        short[0],
        compacted.len()
    );
}

/// Nothing is damaged, and the mount has found nothing wrong.
fn check_mount(mounted: &Mounted) {
    for topic in &TOPICS {
        for partition in 0..topic.partitions {
            let path = format!("{}/{partition}/problems", topic.name);
            assert_eq!(String::from_utf8_lossy(&mounted::read(&mounted.path(&path))), "", "{path}");
        }
    }
    let log = mounted.log();
    let said: Vec<_> =
        log.lines().filter(|line| [" WARN ", "ERROR "].iter().any(|level| line.contains(level))).collect();
    assert!(said.is_empty(), "{said:#?}");
    eprintln!("{} lines in the mount's log, no warning", log.lines().count());
}
