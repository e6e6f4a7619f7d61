//! `topicfs diff`: where copies part, what each alone has, and what a follower cuts, beside what brokers really did.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use common::crashes;
use common::fixtures;
use common::model::Numbers;
use common::mounted::topicfs;
use common::recovering::{hashes, logs};
use common::salvaged::{batches, scratch};
use common::truncating::{data_of, truncate};
use serde_json::Value;

/// Random pairs.
const CASES: u64 = 40;

/// What is said of each partition, and the exit code.
fn diff(a: &Path, b: &Path, more: &[&str]) -> (Vec<Value>, Option<i32>) {
    let output = topicfs().args(["diff", "--format", "json"]).args([a, b]).args(more).output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output.status.code())
}

fn lines(data: &Path) -> BTreeSet<String> {
    let output = topicfs().arg("cat").arg(data).arg("t/0/log.jsonl").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_old_leader_would_cut_what_its_broker_really_cut() {
    let (before, after) = (fixtures::case("4.4.0", "replicas"), fixtures::case("4.4.0", "replicas-after"));
    let told: Value =
        serde_json::from_slice(&fs::read(before.expect().join("divergence.json")).unwrap()).unwrap();
    let data = |number: u32| before.dir.join(format!("data-{number}"));
    let untouched = hashes(&before.dir);
    let (found, code) = diff(&data(1), &data(2), &[]);
    assert_eq!(code, Some(1));
    assert_eq!(hashes(&before.dir), untouched);
    let mut seen = 0;
    for found in &found {
        let name = found["partition"].as_str().unwrap().replace('/', "-");
        let Some(told) = told.get(&name) else { continue };
        seen += 1;
        let truncated = &told["oldLeader"]["truncatedTo"];
        assert_eq!(found["parts"]["offset"], told["partsAt"], "{name}");
        assert_eq!(found["a"]["truncates_to"], *truncated, "{name}");
        assert_eq!(found["a"]["only"]["records"], told["onlyInA"].as_array().unwrap().len(), "{name}");
        assert_eq!(found["b"]["only"]["records"], told["onlyInB"].as_array().unwrap().len(), "{name}");
        for (side, copy) in [("a", &told["a"]), ("b", &told["b"])] {
            assert_eq!(found[side]["epochs"], copy["epochs"], "{name}");
            assert_eq!(found[side]["end"], copy["logEnd"], "{name}");
        }
        // Said by the broker: `.. due to leader epoch and offset EpochEndOffset(.., leaderEpoch=0, endOffset=17)`.
        let said = told["oldLeader"]["said"][0].as_str().unwrap();
        let asked = &found["a"]["asked"][0];
        assert!(
            said.contains(&format!("leaderEpoch={}, endOffset={})", asked["answer"], asked["end"])),
            "{said}"
        );
        // Cut there, it is the beginning of what it was later.
        let root = scratch();
        let partition = data_of(root.path(), &data(1).join(&name), 0);
        truncate(&partition, truncated.as_i64().unwrap(), 4096, None).unwrap();
        let (found, _) = diff(&partition, &after.dir.join("data-1").join(&name), &[]);
        assert!(found[0]["a"]["only"]["records"] == 0 && found[0]["parts"]["epoch_a"].is_null(), "{found:?}");
    }
    assert_eq!(seen, 6);
    let (found, code) = diff(&after.dir.join("data-1"), &after.dir.join("data-2"), &[]);
    assert!(found.iter().all(|found| found["equal"] == true) && code == Some(0), "{found:?}");
}

#[test]
fn copies_that_part_at_random_are_told_apart_as_their_lines_are() {
    let mut numbers = Numbers::new(1);
    for seed in 1..=CASES {
        let root = scratch();
        let [a, b] = ["a", "b"].map(|copy| {
            let made = scratch();
            crashes::sound(seed, &made.path().join("t-0"));
            fs::create_dir(root.path().join(copy)).unwrap();
            data_of(&root.path().join(copy), &made.path().join("t-0"), 0)
        });
        for copy in [&a, &b] {
            change(copy, &mut numbers);
        }
        let [a, b] = [a, b].map(|partition| partition.parent().unwrap().to_owned());
        let (found, code) = diff(&a, &b, &["t/0"]);
        let (in_a, in_b) = (lines(&a), lines(&b));
        let what = format!("{seed}: {found:?}");
        assert_eq!(code, Some(i32::from(in_a != in_b || found[0]["equal"] == false)), "{what}");
        let count = |side: &str| {
            ["only", "missing_in_other", "in_front_of_other"]
                .map(|which| found[0][side][which]["records"].as_u64().unwrap())
                .iter()
                .sum::<u64>()
        };
        assert_eq!(count("a"), in_a.difference(&in_b).count() as u64, "{what}");
        assert_eq!(count("b"), in_b.difference(&in_a).count() as u64, "{what}");
        assert_eq!(found[0]["same"]["records"], in_a.intersection(&in_b).count(), "{what}");
    }
}

#[test]
fn what_epochs_do_not_tell_is_said() {
    let root = scratch();
    let [a, b] = ["a", "b"].map(|copy| {
        let made = scratch();
        crashes::sound(9, &made.path().join("t-0"));
        fs::create_dir(root.path().join(copy)).unwrap();
        data_of(&root.path().join(copy), &made.path().join("t-0"), 0)
    });
    let base: i64 = logs(&b).keys().next_back().unwrap()[..20].parse().unwrap();
    let parting = truncate(&b, base + 5, 256, None).unwrap().after.end;
    append(&b, "another\n");
    let (found, _) = diff(&a, &b, &[]);
    assert_eq!(found[0]["parts"]["offset"], parting.0, "{found:?}");
    let same_epoch = found[0]["parts"]["epoch_a"] == found[0]["parts"]["epoch_b"];
    assert_eq!(found[0]["a"]["should_truncate_to"] == parting.0, same_epoch, "{found:?}");
    let output = topicfs().arg("diff").args([&a, &b]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let told = said.contains(&format!("t/0 --to {parting}"));
    assert_eq!(told, same_epoch, "{said}");
    assert!(same_epoch, "{said}");
}

fn append(partition: &Path, lines: &str) {
    let mut append = topicfs();
    append.args(["append", "-o", "append_to_open_transactions=true"]).arg(partition.parent().unwrap());
    let mut child = append.arg("t/0").stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

/// Cuts a copy and appends to it, takes batches away in the middle, or leaves it.
fn change(partition: &Path, numbers: &mut Numbers) {
    let all = logs(partition);
    let names: Vec<&String> = all.keys().collect();
    let name = names[numbers.below(names.len())];
    match numbers.below(4) {
        0 => {
            let base: i64 = name[..20].parse().unwrap();
            truncate(partition, base + i64::try_from(numbers.below(15)).unwrap(), 256, None).unwrap();
            let lines = (0..numbers.below(30)).map(|number| format!("{number} {}\n", numbers.below(99)));
            append(partition, &lines.collect::<String>());
        }
        1 => {
            let kept = batches(&all[name]).into_iter().filter(|_| numbers.below(3) > 0);
            fs::write(partition.join(name), kept.flatten().collect::<Vec<u8>>()).unwrap();
        }
        2 => {
            // Two segments as one: they begin elsewhere.
            if let [.., one, two] = &names[..] {
                fs::write(partition.join(one), [&all[*one][..], &all[*two]].concat()).unwrap();
                fs::remove_file(partition.join(two)).unwrap();
            }
        }
        _ => {}
    }
}

#[test]
fn what_only_one_source_has_and_what_neither_has_is_said() {
    let root = scratch();
    let made = scratch();
    crashes::sound(1, &made.path().join("t-0"));
    let a = data_of(root.path(), &made.path().join("t-0"), 0);
    let b = root.path().join("other");
    fixtures::copy_into(&a, &b.join("u-0"));
    let (found, code) = diff(a.parent().unwrap(), &b, &["t", "u"]);
    assert_eq!(
        (found[0]["only_in"].as_str(), found[1]["only_in"].as_str(), code),
        (Some("A"), Some("B"), Some(1))
    );
    let (found, code) = diff(&a, &b.join("u-0"), &[]);
    assert_eq!((&found[0]["equal"], code), (&Value::Bool(true), Some(0)), "each source is one partition");
    assert_eq!(diff(&a, &b, &["v/0"]), (Vec::new(), Some(2)));
}
