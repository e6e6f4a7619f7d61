//! Disks that fail once: what was told to be in the log is there once, and appending goes on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::crash::{Machine, after_each};
use common::disk::{Fault, RecordingDisk, Tree};
use common::model::Numbers;
use common::recovered::{Case, Crash, check};
use common::salvaged::scratch;
use common::story::{self, Shape, Story};
use topicfs::format::batch::Codec;
use topicfs::format::batch_builder::NewRecord;
use topicfs::log::append::config::LogConfig;
use topicfs::log::append::topics;
use topicfs::units::{Offset, Timestamp, TopicPartition};
use topicfs::view::lines::LineFormat;
use topicfs::view::lines::writer::LineWriter;

/// How many stories are told at once: opening a directory sleeps now and then.
const WORKERS: usize = 4;
const SHAPE: Shape =
    Shape { codec: Codec::None, rounds: 3, steps: 6, segment_bytes: 1000, value_len: 300, seed: 11 };

/// Operations of the disk after a fault, before the power fails.
const POWER_FAILS_WITHIN: usize = 16;

/// The tree that a story begins with.
fn before() -> Tree {
    Tree([("data".into(), None), ("quarantine".into(), None)].into())
}

/// Tells the story with one call after the other failing; how many made anything fail, and how many did not.
fn fail_each(fault: Fault) -> (usize, usize) {
    let root = scratch();
    let disk = RecordingDisk::new(root.path());
    Story::tell(SHAPE, root.path(), &disk);
    let calls: Vec<usize> = if fault == Fault::Short { disk.writes() } else { (0..disk.calls()).collect() };
    let (next, counts) = (AtomicUsize::new(0), Mutex::new((0, 0)));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(at) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Ok(is_told) = catch_unwind(|| fail_at(*at, fault)) {
                        let mut counts = counts.lock().unwrap();
                        *(if is_told { &mut counts.0 } else { &mut counts.1 }) += 1;
                    }
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    assert_eq!(counts.0 + counts.1, calls.len(), "each of these calls, see above, must be borne");
    eprintln!("{fault:?}: {} calls, of which {} were told and {} made good", calls.len(), counts.0, counts.1);
    counts
}

/// Lets one call fail; whether anybody was told.
fn fail_at(at: usize, fault: Fault) -> bool {
    let root = scratch();
    let disk = RecordingDisk::failing(root.path(), at, fault);
    let story = Story::tell(SHAPE, root.path(), &disk);
    let (done, failed) = disk.failed().unwrap();
    // Nobody knows what a disk has that could not be synced: then nothing goes on until the directory is opened again.
    if failed.to_lowercase().starts_with("sync") {
        let first = story.errors.first().map(|(round, _)| *round);
        assert!(story.errors.iter().all(|(round, _)| Some(*round) == first), "{failed}: {:?}", story.errors);
    } else {
        assert!(story.errors.len() <= 1, "{failed}: {:?}", story.errors);
    }
    let journal = disk.journal();
    let mut numbers = Numbers::new(at as u64);
    // What is durable soon after the fault, and all in the end.
    let cut = (done + numbers.below(POWER_FAILS_WITHIN)).min(journal.len());
    after_each(&before(), &journal, |count, machine| {
        if count == cut {
            let tree = machine.unplugged(&mut numbers);
            check(&Case { crash: Crash::PowerFailure, count, tree }, &story, &SHAPE);
        }
        if count == journal.len() {
            check(&Case { crash: Crash::Kill, count, tree: machine.killed() }, &story, &SHAPE);
        }
    });
    !story.errors.is_empty()
}

#[test]
fn an_input_output_error_loses_and_doubles_nothing() {
    let (told, _) = fail_each(Fault::Io);
    assert!(told > 50);
}

#[test]
fn a_full_disk_loses_and_doubles_nothing_and_appending_goes_on_when_there_is_room() {
    let (told, _) = fail_each(Fault::NoSpace);
    assert!(told > 50);
}

#[test]
fn a_write_that_ends_half_way_loses_and_doubles_nothing() {
    let (told, _) = fail_each(Fault::Short);
    assert!(told > 50);
}

#[test]
fn what_is_flushed_behind_a_fault_is_durable() {
    let calls = flush_behind_fault(usize::MAX).0;
    let durable: usize = (0..calls).map(|at| flush_behind_fault(at).1).sum();
    eprintln!("{calls} calls failed, {durable} power failures lost nothing");
    assert!(durable > calls);
}

/// Makes a partition and appends to it, while one call fails, then flushes; how many calls that took, and how many power failures
/// left all of it.
fn flush_behind_fault(at: usize) -> (usize, usize) {
    const POWER_FAILURES: u64 = 6;
    let root = scratch();
    before().write(root.path());
    let disk = RecordingDisk::failing(root.path(), at, Fault::Io);
    let Ok(owned) = story::open(root.path(), &disk) else { return (disk.calls(), 0) };
    let name = TopicPartition { topic: "notes".to_owned(), partition: 0 };
    let directory = owned.path().join("notes-0");
    let made = owned.create_partition(&name, topics::new_topic_id());
    if made.is_err() && !directory.exists() {
        return (disk.calls(), 0);
    }
    let Ok(appender) = owned.appender(&name, &directory, &SHAPE.config()) else { return (disk.calls(), 0) };
    let mut values = Vec::new();
    for number in 0..8 {
        let value = format!("{number:0300}").into_bytes();
        let mut appending = appender.begin(Timestamp(0));
        let record = NewRecord { timestamp: Timestamp(0), key: None, value: Some(&value), headers: &[] };
        appending.push(&record).unwrap();
        if appending.finish().1.is_ok() {
            values.push(value);
        }
    }
    if appender.flush().is_err() {
        return (disk.calls(), 0);
    }
    let mut machine = Machine::new(&before());
    disk.journal().iter().for_each(|op| machine.apply(op));
    for seed in 0..POWER_FAILURES {
        let root = scratch();
        machine.unplugged(&mut Numbers::new(seed)).write(root.path());
        let owned = story::open(root.path(), &RecordingDisk::new(root.path())).unwrap();
        assert_eq!(story::recover(&owned, root.path()), Ok(0), "{:?}", disk.failed());
        let directory = owned.path().join("notes-0");
        assert!(directory.exists() && story::values(&directory) == values, "{:?}", disk.failed());
    }
    (disk.calls(), usize::try_from(POWER_FAILURES).unwrap())
}

#[test]
fn a_record_that_is_too_large_leaves_those_before_it_in_the_log_and_counted() {
    let root = scratch();
    before().write(root.path());
    let owned = story::open(root.path(), &RecordingDisk::new(root.path())).unwrap();
    let name = TopicPartition { topic: "notes".to_owned(), partition: 0 };
    let directory = owned.create_partition(&name, topics::new_topic_id()).unwrap();
    let config = LogConfig { max_message_bytes: 1000, ..SHAPE.config() };
    let appender = owned.appender(&name, &directory, &config).unwrap();
    let mut writer = LineWriter::new(LineFormat::Tsv, appender.clone());
    let (good, bad) = ("key\tone\nkey\ttwo\n", format!("key\t{}\n", "x".repeat(2000)));
    let written = writer.write(format!("{good}{bad}").as_bytes(), Timestamp(0));
    assert!(written.refused.unwrap().to_string().contains("max.message.bytes"));
    assert_eq!((written.bytes, writer.records(), appender.end()), (good.len(), 2, Offset(2)));
    let again = writer.write(bad.as_bytes(), Timestamp(0));
    assert_eq!((again.bytes, appender.end()), (0, Offset(2)));
    let again = writer.write(good.as_bytes(), Timestamp(0));
    assert_eq!((again.bytes, appender.end()), (good.len(), Offset(4)));
}
