//! Appending without a mount: what is written is what a broker would have written, and goes on after any stop.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use common::mounted::topicfs;
use common::shown;
use tempfile::TempDir;
use topicfs::format::batch::{Codec, Limits};
use topicfs::format::batch_builder::NewRecord;
use topicfs::format::compression::encoder::Compression;
use topicfs::fs::options::Options;
use topicfs::log::append::appender::Appender;
use topicfs::log::append::config::LogConfig;
use topicfs::log::append::owned::OwnedDirectory;
use topicfs::log::append::topics;
use topicfs::log::files::disk::SystemDisk;
use topicfs::units::{Offset, Timestamp, TopicPartition};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// A data directory of one's own.
struct Own {
    directory: TempDir,
}

impl Own {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn open(&self) -> OwnedDirectory {
        OwnedDirectory::open(self.path(), Arc::new(SystemDisk), Limits::default()).unwrap()
    }
}

/// A program that is started has the locks of the other tests until it runs: they take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(topic: &str) -> TopicPartition {
    TopicPartition { topic: topic.to_owned(), partition: 0 }
}

fn appender(owned: &OwnedDirectory, topic: &str, config: &LogConfig) -> Arc<Appender> {
    let name = name(topic);
    let directory = owned.path().join(name.to_string());
    if !directory.exists() {
        owned.create_partition(&name, topics::new_topic_id()).unwrap();
    }
    owned.appender(&name, &directory, config).unwrap()
}

fn record(value: &str) -> NewRecord<'_> {
    NewRecord { timestamp: NOW, key: None, value: Some(value.as_bytes()), headers: &[] }
}

/// Appends values, each call's in batches of its own.
fn append(appender: &Appender, values: &[String]) {
    let mut appending = appender.begin(NOW);
    for value in values {
        appending.push(&record(value)).unwrap();
    }
    appending.finish().1.unwrap();
}

fn values(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| format!("value {number}")).collect()
}

/// The lines of a partition's `log`.
fn lines(path: &Path, topic: &str) -> Vec<String> {
    let fs = shown::open(path.to_str().unwrap(), Options::default());
    let shown = shown::read(&fs, &format!("{topic}/0/log"));
    String::from_utf8(shown).unwrap().lines().map(str::to_owned).collect()
}

/// `topicfs verify` finds nothing, not even anything odd.
fn assert_sound(path: &Path) {
    let output = topicfs().arg("verify").arg(path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && !text.contains("note"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn what_is_appended_is_there_and_goes_on_after_a_close() {
    let _turn = turn();
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let own = Own::new();
        let config = LogConfig {
            compression: Compression { codec, level: None },
            segment_bytes: 2000,
            ..LogConfig::default()
        };
        for round in 0..3 {
            let owned = own.open();
            assert_eq!(owned.is_sound(), round > 0, "an empty directory has nothing to recover");
            owned.recovered().unwrap();
            let notes = appender(&owned, "notes", &config);
            assert_eq!(notes.end(), Offset(round * 100));
            for call in 0..10 {
                let from = usize::try_from(round).unwrap() * 100 + call * 10;
                append(&notes, &values(from..from + 10));
            }
            owned.close().unwrap();
        }
        assert_eq!(lines(own.path(), "notes"), values(0..300), "{codec:?}");
        assert!(fs::metadata(own.path().join(".kafka_cleanshutdown")).is_ok());
        assert_sound(own.path());
    }
}

/// A broker empties a log that ends before the start that is written down for it.
#[test]
fn a_partition_that_is_made_again_has_nothing_of_the_one_before() {
    let _turn = turn();
    let own = Own::new();
    let config = LogConfig::default();
    let written = |file: &str| fs::read_to_string(own.path().join(file)).unwrap_or_default();
    let write = || {
        for file in ["log-start-offset-checkpoint", "cleaner-offset-checkpoint"] {
            fs::write(own.path().join(file), "0\n1\nlogs 0 44\n").unwrap();
        }
    };
    // Written down of one that nobody has, as after a crash in the midst of its removal.
    write();
    let owned = own.open();
    owned.recovered().unwrap();
    append(&appender(&owned, "logs", &config), &values(0..50));
    owned.close().unwrap();
    drop(owned);
    assert_sound(own.path());
    assert_eq!(lines(own.path(), "logs"), values(0..50));

    write();
    let owned = own.open();
    owned.recovered().unwrap();
    owned.delete_partition(&name("logs")).unwrap();
    for file in ["log-start-offset-checkpoint", "cleaner-offset-checkpoint"] {
        assert_eq!(written(file), "0\n0\n", "{file}");
    }
    append(&appender(&owned, "logs", &config), &values(0..5));
    owned.close().unwrap();
    drop(owned);
    assert_sound(own.path());
    assert_eq!(lines(own.path(), "logs"), values(0..5));
}
