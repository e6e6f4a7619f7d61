//! Old records in a mount for appending: they go by the policies of its configuration alone, and readers meet what a broker's retention
//! and compaction would be.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::exposition::Metrics;
use common::mounted::{Mounted, topicfs, wait_until};
use common::salvaged::{files, scratch};

const CONFIG: &str = "\
log.retention.check.interval.ms: 200
log.cleaner.backoff.ms: 200
allow_delete: true
segment.bytes: 2KiB
topics:
  logs: {cleanup.policy: delete, retention.bytes: 5KiB, file.delete.delay.ms: 1500}
  state: {cleanup.policy: compact, min.cleanable.dirty.ratio: 0.1}
  kept: {max.compaction.lag.ms: 0, delete.retention.ms: 0}
  aged: {retention.bytes: 3KiB}
  a-young: {retention.ms: 1d, segment.bytes: 1MiB}
  a-old: {retention.ms: 1d, segment.bytes: 1MiB}
";

fn mounted(root: &Path) -> Option<Mounted> {
    let (data, config) = (root.join("data"), root.join("topicfs.yaml"));
    fs::create_dir_all(&data).unwrap();
    fs::write(&config, CONFIG).unwrap();
    Mounted::with(data, &format!("append,config={}", config.display()))
}

/// Appends lines, a write each.
fn append(path: &Path, lines: impl Iterator<Item = String>) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    lines.for_each(|line| file.write_all(format!("{line}\n").as_bytes()).unwrap());
}

fn line(number: usize) -> String {
    format!("{number:04} {}", "x".repeat(100))
}

fn names(directory: &Path, end: &str) -> Vec<String> {
    files(directory).into_keys().filter(|name| name.ends_with(end)).collect()
}

#[test]
fn old_segments_go_and_their_readers_keep_them() {
    let root = scratch();
    let Some(mount) = mounted(root.path()) else { return };
    let partition = root.path().join("data/logs-0");
    fs::create_dir(mount.path("logs")).unwrap();
    append(&mount.path("logs/0/append"), (0..15).map(line));
    let first = "00000000000000000000.log";
    let held = fs::File::open(mount.path(&format!("logs/0/segments/{first}"))).unwrap();
    let bytes = fs::read(mount.path(&format!("logs/0/segments/{first}"))).unwrap();
    append(&mount.path("logs/0/append"), (15..200).map(line));
    wait_until("old segments are set aside", || !partition.join(first).exists());
    // Its own delay.
    assert!(!names(&partition, ".deleted").is_empty());
    let metrics = mount.path(".topicfs/metrics");
    wait_until("it is counted", || Metrics::of(&metrics).get("topicfs_retention_segments_total", &[]) > 0.0);
    assert!(Metrics::of(&metrics).get("topicfs_retention_bytes_total", &[]) > 0.0);
    let mut again = vec![0; bytes.len()];
    held.read_exact_at(&mut again, 0).unwrap();
    assert_eq!(again, bytes, "who has it open keeps it");
    assert!(fs::File::open(mount.path(&format!("logs/0/segments/{first}"))).is_err());
    wait_until("deleted files are removed", || names(&partition, ".deleted").is_empty());
    held.read_exact_at(&mut again, 0).unwrap();
    let log = fs::read_to_string(mount.path("logs/0/log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines.len() < 100 && lines.last() == Some(&line(199).as_str()), "{} lines", lines.len());
    let earliest = fs::read_to_string(mount.path("logs/0/offsets/earliest")).unwrap();
    assert_eq!(earliest.trim().parse::<usize>().unwrap(), 200 - lines.len());
    append(&mount.path("logs/0/append"), (200..201).map(line));
    drop(held);
    unmount(&mount);
    check(root.path());
}

#[test]
fn the_last_record_of_each_key_stays_and_each_needs_a_key() {
    let root = scratch();
    let Some(mount) = mounted(root.path()) else { return };
    fs::create_dir(mount.path("state")).unwrap();
    append(&mount.path("state/0/append.tsv"), (0..300).map(|n| format!("key {}\t{}", n % 5, line(n))));
    let count =
        || fs::read_to_string(mount.path("state/0/log")).map_or(usize::MAX, |log| log.lines().count());
    wait_until("superseded records are gone", || count() < 60);
    let metrics = mount.path(".topicfs/metrics");
    wait_until("it is counted", || {
        Metrics::of(&metrics).get("topicfs_compaction_records_total", &[]) > 200.0
    });
    assert!(Metrics::of(&metrics).get("topicfs_compaction_bytes_total", &[]) > 0.0);
    for key in 0..5 {
        let value = fs::read_to_string(mount.path(&format!("state/0/by-key/key {key}"))).unwrap();
        assert_eq!(value, line(295 + key));
    }
    let mut file = OpenOptions::new().append(true).open(mount.path("state/0/append")).unwrap();
    let refused = file.write_all(b"no key\n").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(22), "EINVAL");
    drop(file);
    let mut file = OpenOptions::new().append(true).open(mount.path("state/0/append.tsv")).unwrap();
    let written = file.write(b"key 1\tgood\n\\N\tbad\n").unwrap();
    assert_eq!(written, "key 1\tgood\n".len(), "what comes before it is appended");
    drop(file);
    let problems = fs::read_to_string(mount.path(".topicfs/problems")).unwrap();
    assert!(problems.contains("has no key"), "{problems}");
    unmount(&mount);
    check(root.path());
}

#[test]
fn nothing_goes_without_a_policy_and_topics_can_be_removed_meanwhile() {
    let root = scratch();
    let Some(mount) = mounted(root.path()) else { return };
    for topic in ["kept", "logs", "state", "aged"] {
        fs::create_dir(mount.path(topic)).unwrap();
    }
    append(&mount.path("kept/0/append"), (0..100).map(line));
    append(&mount.path("aged/0/append"), (0..100).map(line));
    for round in 0..5 {
        append(&mount.path("state/0/append.tsv"), (0..200).map(|n| format!("key {}\t{}", n % 9, line(n))));
        append(&mount.path("logs/0/append"), (0..100).map(line));
        for topic in ["state", "logs"] {
            fs::remove_dir(mount.path(topic)).unwrap();
            fs::create_dir(mount.path(topic)).unwrap();
        }
        assert!(mount.path("state/0").is_dir(), "{round}");
    }
    let mut log = String::new();
    fs::File::open(mount.path("kept/0/log")).unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(log.lines().count(), 100);
    let count = || fs::read_to_string(mount.path("aged/0/log")).map_or(100, |log| log.lines().count());
    wait_until("who says how much is kept has named a policy", || count() < 50);
    unmount(&mount);
    check(root.path());
}

fn unmount(mount: &Mounted) {
    assert!(topicfs().arg("umount").arg(mount.point()).status().unwrap().success());
}

/// A young record that isn't in the time index yet keeps the active segment, whose other records are old.
#[test]
fn the_newest_record_keeps_the_active_segment() {
    let root = scratch();
    let Some(mount) = mounted(root.path()) else { return };
    for topic in ["a-young", "a-old", "logs"] {
        fs::create_dir(mount.path(topic)).unwrap();
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let record = |at: u128, n: usize| format!(r#"{{"value":"{}","timestamp":{at}}}"#, line(n));
    let old = now - 2 * 86_400_000;
    let young = (0..100).map(|n| record(old, n)).chain([record(now, 100)]);
    append(&mount.path("a-young/0/append.jsonl"), young);
    append(&mount.path("a-old/0/append.jsonl"), (0..100).map(|n| record(old, n)));
    let count = |topic: &str| {
        fs::read_to_string(mount.path(topic).join("0/log")).map_or(usize::MAX, |log| log.lines().count())
    };
    wait_until("old records are gone", || count("a-old") == 0);
    append(&mount.path("logs/0/append"), (0..200).map(line));
    // All topics are looked at in the order of their names.
    wait_until("it was looked again", || count("logs") < 200);
    assert_eq!(count("a-young"), 101);
    append(&mount.path("a-old/0/append"), (0..1).map(line));
    assert_eq!(fs::read_to_string(mount.path("a-old/0/offsets/earliest")).unwrap().trim(), "100");
    unmount(&mount);
    let data = root.path().join("data");
    let policy = "cleanup.policy=delete,retention.ms=1d";
    let output = topicfs().args(["clean", "-o", policy]).arg(&data).arg("a-young").output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    check(root.path());
}

/// After unmounting nothing is left of what went, and all is sound.
fn check(root: &Path) {
    let data = root.join("data");
    assert!(data.join(".kafka_cleanshutdown").exists());
    for topic in ["logs", "state", "kept", "aged"] {
        let partition = data.join(format!("{topic}-0"));
        let left: Vec<_> = [".deleted", ".swap", ".cleaned", ".tmp"]
            .iter()
            .flat_map(|end| if partition.exists() { names(&partition, end) } else { Vec::new() })
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
    let output = topicfs().args(["verify", "-q"]).arg(&data).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
