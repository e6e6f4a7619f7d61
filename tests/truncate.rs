//! `topicfs truncate`: what it cuts, keeps, says and refuses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs;
use std::path::Path;
use std::process::Output;

use common::crashes;
use common::fixtures;
use common::mounted::topicfs;
use common::recovering::{hashes, logs};
use common::salvaged::scratch;
use common::truncating::{checkpoint, data_of, truncate};

fn run(words: &[&str]) -> Output {
    topicfs().args(words).output().unwrap()
}

fn printed(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(words: &[&str]) -> String {
    let output = run(words);
    assert_eq!(output.status.code(), Some(2), "{words:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A random log in a data directory of its own, and an offset in the middle of it.
fn random(root: &Path, seed: u64) -> (std::path::PathBuf, i64) {
    let made = scratch();
    crashes::sound(seed, &made.path().join("t-0"));
    let partition = data_of(root, &made.path().join("t-0"), 0);
    let bases: Vec<i64> = logs(&partition).keys().map(|name| name[..20].parse().unwrap()).collect();
    let to = bases[bases.len() / 2] + 7;
    (partition, to)
}

#[test]
fn what_is_cut_can_be_read_where_it_is_kept() {
    for seed in 1..=5 {
        let root = scratch();
        let (partition, to) = random(root.path(), seed);
        let (data, keep) = (partition.parent().unwrap(), root.path().join("keep"));
        let before = printed(&["cat", text(data), "t/0/log.jsonl"]);
        let words = ["truncate", "--yes", text(data), "t/0", "--to", &to.to_string(), "--keep", text(&keep)];
        let said = printed(&words);
        let after = printed(&["cat", text(data), "t/0/log.jsonl"]);
        let kept = printed(&["cat", text(&keep), "t/0/log.jsonl"]);
        assert!(before == after.clone() + &kept, "{seed}: {said}");
        assert!(said.contains(&format!("cut: {} records", kept.lines().count())), "{said}");
        let problems = String::from_utf8(run(&["verify", "-q", text(&keep)]).stdout).unwrap();
        assert!(!problems.contains(".log"), "{problems}");
        assert_eq!(
            printed(&words[..6].iter().copied().chain(["--discard"]).collect::<Vec<_>>()).lines().count(),
            1
        );
    }
}

#[test]
fn a_dry_run_and_a_question_that_nobody_answers_change_nothing() {
    let root = scratch();
    let (partition, to) = random(root.path(), 3);
    let (data, to) = (partition.parent().unwrap(), to.to_string());
    let before = hashes(data);
    let said = printed(&["truncate", "--dry-run", text(data), "t/0", "--to", &to]);
    assert!(said.starts_with("t/0: would be cut at "), "{said}");
    assert_eq!(hashes(data), before);
    let said = refused(&["truncate", "--discard", text(data), "t/0", "--to", &to]);
    assert!(said.contains("--yes"), "{said}");
    let keep = root.path().join("keep");
    fs::create_dir(&keep).unwrap();
    fs::write(keep.join("notes.txt"), "mine").unwrap();
    let said = refused(&["truncate", "--yes", "--keep", text(&keep), text(data), "t/0", "--to", &to]);
    assert!(said.contains("is not empty"), "{said}");
    assert!(refused(&["truncate", "--yes", text(data), "t/0", "--to", &to]).contains("--keep"));
    let said = refused(&["truncate", "--yes", "--discard", text(data), "t/1", "--to", &to]);
    assert!(said.contains("t/1: there is no such partition"), "{said}");
    let changed = hashes(data).into_iter().filter(|(path, state)| before.get(path) != Some(state));
    assert_eq!(changed.map(|(path, _)| path).collect::<Vec<_>>(), [data.join(".kafka_cleanshutdown")]);
}

/// In a directory of its own the copy that `kafka-reassign-partitions` fills bears the partition's name too.
#[test]
fn a_copy_on_its_way_to_another_disk_is_not_taken_for_the_partition() {
    let root = scratch();
    let (partition, to) = random(root.path(), 3);
    let (data, to) = (partition.parent().unwrap(), to.to_string());
    fs::rename(&partition, data.join("t-0.3f0c1fa6e8a14f0d9d4b1a2c3d4e5f60-future")).unwrap();
    let before = logs(&data.join("t-0.3f0c1fa6e8a14f0d9d4b1a2c3d4e5f60-future"));
    for words in [
        &["truncate", "--dry-run", text(data), "t/0", "--to", &to][..],
        &["truncate", "--yes", "--discard", text(data), "t/0", "--to", &to],
        &["append", text(data), "t/0"],
    ] {
        let said = refused(words);
        assert!(said.contains("t/0: there is no such partition"), "{said}");
    }
    assert_eq!(logs(&data.join("t-0.3f0c1fa6e8a14f0d9d4b1a2c3d4e5f60-future")), before);
}

#[test]
fn what_is_damaged_is_recovered_first() {
    let root = scratch();
    let (partition, to) = random(root.path(), 2);
    let last = logs(&partition).into_keys().next_back().unwrap();
    let mut bytes = fs::read(partition.join(&last)).unwrap();
    let at = bytes.len() / 2;
    bytes[at..at + 8].fill(0xa5);
    fs::write(partition.join(&last), &bytes).unwrap();
    let before = logs(&partition);
    for how in ["--dry-run", "--discard"] {
        let data = partition.parent().unwrap();
        let said = refused(&["truncate", "--yes", how, text(data), "t/0", "--to", &to.to_string()]);
        assert!(said.contains(&last) && said.contains("topicfs recover --quarantine DIR"), "{said}");
    }
    assert!(logs(&partition) == before);
}

#[test]
fn a_torn_tail_goes_by_itself() {
    let root = scratch();
    let (partition, _) = random(root.path(), 2);
    let sound = logs(&partition);
    let (last, bytes) = sound.last_key_value().unwrap();
    let to = last[..20].parse::<i64>().unwrap() + 5;
    for to in [i64::MAX, to] {
        fs::write(partition.join(last), &bytes[..bytes.len() - 10]).unwrap();
        let truncation = truncate(&partition, to, 256, None).unwrap();
        let left = &logs(&partition)[last];
        assert!(truncation.after.end.0 <= to && left.len() < bytes.len() - 10 && bytes.starts_with(left));
    }
}

#[test]
fn a_log_start_beyond_the_new_end_does_not_stay() {
    let root = scratch();
    let made = scratch();
    crashes::sound(1, &made.path().join("t-0"));
    let bases: Vec<i64> =
        logs(&made.path().join("t-0")).keys().map(|name| name[..20].parse().unwrap()).collect();
    let start = bases[1] + 5;
    let partition = data_of(root.path(), &made.path().join("t-0"), start);
    let truncation = truncate(&partition, bases[1], 4096, None).unwrap();
    assert_eq!((truncation.before.start.0, truncation.after.start), (start, truncation.after.end));
    assert_eq!(checkpoint(&partition, "log-start-offset-checkpoint"), Some(bases[1]));
    assert_eq!(checkpoint(&partition, "cleaner-offset-checkpoint"), Some(bases[1]));
    assert_eq!(logs(&partition).len(), 2);
}

#[test]
fn the_old_leader_is_cut_as_its_broker_cut_it() {
    let (before, after) = (fixtures::case("4.4.0", "replicas"), fixtures::case("4.4.0", "replicas-after"));
    let parsed: serde_json::Value =
        serde_json::from_slice(&fs::read(before.expect().join("divergence.json")).unwrap()).unwrap();
    for (name, told) in parsed.as_object().unwrap() {
        let root = scratch();
        let to = told["oldLeader"]["truncatedTo"].as_i64().unwrap();
        let partition = data_of(root.path(), &before.dir.join("data-1").join(name), 0);
        let truncation = truncate(&partition, to, 4096, None).unwrap();
        assert_eq!(truncation.after.end.0, to, "{name}");
        let now = concatenated(&partition);
        let later = concatenated(&after.dir.join("data-1").join(name));
        assert!(later.starts_with(&now), "{name}: {} bytes, later {}", now.len(), later.len());
    }
}

fn concatenated(partition: &Path) -> Vec<u8> {
    logs(partition).into_values().flatten().collect()
}
