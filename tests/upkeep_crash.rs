//! What is found after a process was killed, or a machine lost its power, or a disk failed, at each step of retention and compaction: the
//! old segments or the new ones, never neither, both or a mix; and the work goes on from there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::crash::{after_each, beginning};
use common::disk::{Fault, Op, RecordingDisk, Tree};
use common::model::Numbers;
use common::salvaged::{base_of, files, scratch};
use common::shown::{self, ShownRecord};
use common::story;
use topicfs::format::batch_builder::NewRecord;
use topicfs::fs::options::Options;
use topicfs::log::append::config::LogConfig;
use topicfs::log::append::owned::OwnedDirectory;
use topicfs::log::append::topics;
use topicfs::log::files::disk::SystemDisk;
use topicfs::log::upkeep::policy::{Policy, Ratio};
use topicfs::log::upkeep::removal::Due;
use topicfs::log::upkeep::work::{Job, UpkeepError};
use topicfs::units::{Timestamp, TopicPartition};

const NOW: i64 = 1_700_000_000_000;
const MAP_BYTES: usize = 1 << 16;
/// So few keys fit that a compaction takes several rounds.
const SMALL_MAP_BYTES: usize = 24 * 8;
const POWER_FAILURES: usize = 2;

/// What is done to the partition `t-0`.
#[derive(Debug, Clone, Copy)]
struct Work {
    policy: Policy,
    map_bytes: usize,
    /// How many records it has, and of how many keys.
    records: usize,
    keys: usize,
    seed: u64,
}

const COMPACT: Policy =
    Policy { compact: true, min_cleanable_dirty_ratio: Ratio::from_millionths(0), ..Policy::NONE };
const DELETE: Policy = Policy { delete: true, retention_bytes: Some(1500), ..Policy::NONE };
const DELETE_ALL: Policy = Policy { delete: true, retention_ms: Some(1000), ..Policy::NONE };

const WORKS: [Work; 5] = [
    Work { policy: COMPACT, map_bytes: MAP_BYTES, records: 60, keys: 10, seed: 1 },
    Work { policy: COMPACT, map_bytes: SMALL_MAP_BYTES, records: 40, keys: 12, seed: 2 },
    Work { policy: COMPACT, map_bytes: MAP_BYTES, records: 30, keys: 25, seed: 3 },
    Work { policy: DELETE, map_bytes: MAP_BYTES, records: 60, keys: 30, seed: 4 },
    Work { policy: DELETE_ALL, map_bytes: MAP_BYTES, records: 30, keys: 30, seed: 5 },
];

fn name() -> TopicPartition {
    TopicPartition { topic: "t".to_owned(), partition: 0 }
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 700, index_interval_bytes: 150, ..LogConfig::default() }
}

/// A closed directory with keyed records.
fn begin(work: &Work, root: &Path) {
    fs::create_dir_all(story::data(root)).unwrap();
    let owned = open(root, Arc::new(SystemDisk));
    owned.recovered().unwrap();
    let directory = owned.create_partition(&name(), topics::new_topic_id()).unwrap();
    let appender = owned.appender(&name(), &directory, &config()).unwrap();
    let mut numbers = Numbers::new(work.seed);
    let mut written = 0;
    while written < work.records {
        let mut appending = appender.begin(Timestamp(NOW));
        for _ in 0..=numbers.below(4) {
            let key = format!("key {}", numbers.below(work.keys));
            let value = format!("{written} {}", "x".repeat(numbers.below(60)));
            let value = (numbers.below(12) > 0).then_some(value.as_bytes());
            let timestamp = Timestamp(NOW + i64::try_from(written).unwrap());
            let record = NewRecord { timestamp, key: Some(key.as_bytes()), value, headers: &[] };
            appending.push(&record).unwrap();
            written += 1;
        }
        appending.finish().1.unwrap();
    }
    owned.close().unwrap();
}

fn open(root: &Path, disk: Arc<dyn topicfs::log::files::disk::Disk>) -> OwnedDirectory {
    OwnedDirectory::open(&story::data(root), disk, topicfs::format::batch::Limits::default()).unwrap()
}

/// Does the work in a directory that is recovered; what failed.
fn upkeep(work: &Work, owned: &OwnedDirectory) -> Result<(), UpkeepError> {
    let directory = owned.path().join("t-0");
    let job = Job {
        owned,
        name: &name(),
        directory: &directory,
        config: &config(),
        policy: &work.policy,
        now: Timestamp(NOW + 3_600_000),
    };
    job.retain()?;
    job.compact(work.map_bytes, &|_| {})?;
    Ok(owned.remove_set_aside(Due::All)?)
}

/// The records that can be read, and where segments begin.
fn state(root: &Path) -> (Vec<ShownRecord>, BTreeSet<i64>) {
    let data = story::data(root);
    let fs = shown::open(data.to_str().unwrap(), Options::default());
    let records = shown::records(&shown::read(&fs, "t/0/log.jsonl"));
    let names = files(&data.join("t-0")).into_keys();
    let bases = names.filter_map(|name| name.strip_suffix(".log")?.parse().ok());
    (records, bases.collect())
}

/// What may be found.
struct Expected {
    /// All states that are whole: some groups of segments done from the first on, the others not.
    states: Vec<Vec<ShownRecord>>,
    last: Vec<ShownRecord>,
}

impl Expected {
    /// From the records before, after each round, and where segments begin after it.
    fn new(work: &Work, root: &Path) -> Self {
        let before = state(root);
        let mut states = vec![before.0.clone()];
        let owned = open(root, Arc::new(SystemDisk));
        upkeep(work, &owned).unwrap();
        owned.close().unwrap();
        let after = state(root);
        if work.policy.compact && work.map_bytes == MAP_BYTES {
            for base in after.1.iter().skip(1).copied().chain([i64::MAX]) {
                let new = after.0.iter().filter(|record| record.offset < base);
                let old = before.0.iter().filter(|record| record.offset >= base);
                states.push(new.chain(old).cloned().collect());
            }
        }
        states.push(after.0.clone());
        Self { states, last: after.0 }
    }

    /// Whether records are in one of the states; of several rounds, whether each key has its last record, and no offset is there twice.
    fn check(&self, work: &Work, found: &[ShownRecord]) {
        if work.map_bytes == SMALL_MAP_BYTES {
            let all = &self.states[0];
            assert!(found.iter().all(|record| all.contains(record)));
            assert!(found.is_sorted_by(|a, b| a.offset < b.offset));
            assert!(self.last.iter().all(|record| found.contains(record)), "lost");
        } else {
            let offsets: Vec<i64> = found.iter().map(|record| record.offset).collect();
            assert!(self.states.iter().any(|state| state == found), "a mix: {offsets:?}");
        }
    }
}

/// Opens a tree again, looks, and does the work to its end.
fn check(work: &Work, expected: &Expected, tree: &Tree, is_verified: bool) {
    let root = scratch();
    let root = root.path();
    tree.write(root);
    fs::create_dir_all(story::quarantine(root)).unwrap();
    // A reader that comes before anybody has recovered it sees no mix either.
    expected.check(work, &state(root).0);
    let disk = RecordingDisk::new(root);
    let owned = story::open(root, &disk).unwrap();
    if !owned.is_sound() {
        assert_eq!(story::recover(&owned, root).unwrap(), 0, "something was cut");
    }
    expected.check(work, &state(root).0);
    upkeep(work, &owned).unwrap();
    owned.close().unwrap();
    let (records, _) = state(root);
    assert_eq!(records, expected.last, "at the end");
    let left: Vec<_> = files(&story::data(root).join("t-0"))
        .into_keys()
        .filter(|name| [".deleted", ".swap", ".cleaned", ".tmp"].iter().any(|state| name.ends_with(state)))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    if is_verified {
        let mut problems = story::verify(&story::data(root));
        problems.retain(|line| !line.contains("meta.properties"));
        assert_eq!(problems, [""; 0]);
    }
}

/// The work's journal on a copy of a tree.
fn journal(work: &Work, before: &Tree) -> Vec<Op> {
    let root = scratch();
    before.write(root.path());
    let disk = RecordingDisk::new(root.path());
    let owned = story::open(root.path(), &disk).unwrap();
    upkeep(work, &owned).unwrap();
    owned.close().unwrap();
    disk.journal()
}

fn tree(work: &Work) -> (Tree, Expected) {
    let root = scratch();
    begin(work, root.path());
    let mut before = Tree::read(root.path());
    before.0.retain(|path, _| path.file_name().is_none_or(|name| name != ".lock"));
    (before, Expected::new(work, root.path()))
}

#[test]
fn a_crash_leaves_the_old_segments_or_the_new_ones() {
    for work in &WORKS {
        let (before, expected) = tree(work);
        let journal = journal(work, &before);
        let renames = journal.iter().filter(|op| matches!(op, Op::Rename { .. })).count();
        assert!(renames > 10, "{renames} renames");
        let mut numbers = Numbers::new(work.seed);
        let mut cases = 0;
        after_each(&before, &journal, |count, machine| {
            let is_verified = count % 5 == 0;
            check(work, &expected, &machine.killed(), is_verified);
            for _ in 0..POWER_FAILURES {
                check(work, &expected, &machine.unplugged(&mut numbers), is_verified);
            }
            cases += 1 + POWER_FAILURES;
        });
        // The beginning of a write is a journal of its own.
        for (count, op) in journal.iter().enumerate() {
            let Some(op) = beginning(op, &mut numbers) else { continue };
            let cut: Vec<Op> = journal[..count].iter().cloned().chain([op]).collect();
            after_each(&before, &cut, |done, machine| {
                if done == cut.len() {
                    check(work, &expected, &machine.killed(), false);
                    cases += 1;
                }
            });
        }
        println!("{work:?}: {} operations, {cases} crashes", journal.len());
    }
}

#[test]
fn a_disk_that_fails_once_loses_nothing() {
    for work in &WORKS {
        let (before, expected) = tree(work);
        let calls = {
            let root = scratch();
            before.write(root.path());
            let disk = RecordingDisk::new(root.path());
            let owned = story::open(root.path(), &disk).unwrap();
            upkeep(work, &owned).unwrap();
            owned.close().unwrap();
            disk.calls()
        };
        let mut failed = 0;
        for at in 0..calls {
            for fault in [Fault::Io, Fault::NoSpace] {
                let root = scratch();
                before.write(root.path());
                let disk = RecordingDisk::failing(root.path(), at, fault);
                let Ok(owned) = story::open(root.path(), &disk) else { continue };
                failed += usize::from(upkeep(work, &owned).is_err());
                // It goes on in the same process, as a mount does.
                expected.check(work, &state(root.path()).0);
                let again = upkeep(work, &owned);
                let _ = owned.close();
                drop(owned);
                assert!(again.is_ok() || disk.failed().is_some());
                check(work, &expected, &Tree::read(root.path()), at % 7 == 0);
            }
        }
        assert!(failed > 20, "{failed}");
    }
}

/// What Kafka's brokers have as well: a base that is that of the first batch.
#[test]
fn offsets_and_bases_stay() {
    let (before, _) = tree(&WORKS[0]);
    let root = scratch();
    before.write(root.path());
    let owned = open(root.path(), Arc::new(SystemDisk));
    upkeep(&WORKS[0], &owned).unwrap();
    owned.close().unwrap();
    for (name, path) in files(&story::data(root.path()).join("t-0")) {
        let Some(base) = name.strip_suffix(".log") else { continue };
        let bytes = fs::read(path).unwrap();
        if !bytes.is_empty() {
            assert!(base_of(&bytes) >= base.parse().unwrap(), "{name}");
        }
    }
}
