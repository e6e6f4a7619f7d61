//! Recovery after an unclean stop: what Kafka's loader keeps is kept, what is cut lies in the quarantine, and a second time
//! changes nothing. `tests/brokers/recover.rs` has Kafka load what comes of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use common::fixtures::{self, DamageCase};
use common::mounted::topicfs;
use common::recovering::{assert_nothing_is_lost, hashes, logs, make_unclean, own, recover_all, states};
use common::salvaged::{files, scratch};
use tempfile::TempDir;
use topicfs::log::append::written_down;

/// Cases in which Kafka keeps batches that are cut here, and why.
const CUT_HERE_ONLY: [(&str, &str); 6] = [
    ("codec-7", "no release knows it: consumers fail there"),
    ("magic-3", "no release knows it: consumers fail there"),
    ("count-huge", "an impossible header: consumers fail there"),
    ("count-negative", "an impossible header: consumers fail there"),
    (
        "log-start-past-end",
        "Kafka's loader alone doesn't read the log start checkpoint; a broker empties the log",
    ),
    ("segments-overlap", "the batches are in the next segment too"),
];

/// What `verify` finds still, and why; in these cases only, where some are named.
const STAYS: [(&str, &[&str], &str); 6] = [
    ("hole", &[], "what was cut or lost is missing between what is kept"),
    ("bad-records", &[], "the checksum is right: what a producer made so is nothing that a crash does"),
    ("metadata", &[], "of the directory or topic, not of a log"),
    ("name", &["name-odd"], "a file that no broker made"),
    ("epochs", &["bit-in-epoch"], "one batch alone, which no checksum covers; the checkpoint is right"),
    (
        "epochs",
        &["epochs-not-sorted"],
        "the checkpoint is believed as long as most batches agree, as by Kafka",
    ),
];

/// A copy of a damage case that was not stopped in order.
struct Unclean {
    case: DamageCase,
    scratch: TempDir,
}

impl Unclean {
    fn of(case: DamageCase) -> Self {
        let scratch = scratch();
        fixtures::copy_into(&case.data(), &scratch.path().join("data"));
        make_unclean(&scratch.path().join("data"));
        fs::create_dir(scratch.path().join("quarantine")).unwrap();
        Self { case, scratch }
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn partition(&self) -> PathBuf {
        self.data().join(&self.case.expect.topic)
    }

    fn quarantine(&self) -> PathBuf {
        self.scratch.path().join("quarantine")
    }
}

fn damage_cases() -> Vec<Unclean> {
    let cases: Vec<_> = fixtures::damage_cases().into_iter().map(Unclean::of).collect();
    assert_eq!(cases.len(), 100);
    cases
}

#[test]
fn what_kafka_keeps_is_kept_and_what_is_cut_is_in_the_quarantine() {
    let (mut cut, mut faults) = (0, Vec::new());
    for unclean in damage_cases() {
        let name = &unclean.case.name;
        let before = logs(&unclean.partition());
        let plans = recover_all(&unclean.data(), &unclean.quarantine());
        assert_eq!(plans.len(), 1, "{name}");
        assert_nothing_is_lost(name, &before, &unclean.partition(), &unclean.quarantine());
        cut += plans[0].cuts.len();
        faults.extend(keeps_what_kafka_keeps(&unclean, &before));
        assert!(unclean.data().join(".kafka_cleanshutdown").exists(), "{name}");
        let once = hashes(&unclean.data());
        make_unclean(&unclean.data());
        let again = unclean.scratch.path().join("again");
        fs::create_dir(&again).unwrap();
        recover_all(&unclean.data(), &again);
        if once != hashes(&unclean.data()) {
            faults.push(format!("{name}: a second recovery changes something"));
        }
        assert!(files(&again).is_empty(), "{name}: a second recovery cuts nothing");
    }
    println!("{cut} cuts");
    assert_eq!(faults, Vec::<String>::new());
    assert!(cut > 30);
}

/// Kafka's segments are beginnings of what was there: ours are at least as long.
fn keeps_what_kafka_keeps(unclean: &Unclean, before: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let name = &unclean.case.name;
    let kafka = unclean.case.recover.iter().find(|recovery| !recovery.clean_shutdown).unwrap();
    let after = logs(&unclean.partition());
    let mut shorter = Vec::new();
    for (base, len) in &kafka.segments {
        let log = format!("{base:020}.log");
        assert!(before.get(&log).is_none_or(|before| before.len() as u64 >= *len), "{name}: {log}");
        let ours = after.get(&log).map_or(0, Vec::len) as u64;
        if ours < *len {
            shorter.push(format!("{name}: {log}: {ours} bytes, Kafka keeps {len}"));
        }
    }
    match CUT_HERE_ONLY.iter().find(|(known, _)| known == name) {
        None => shorter,
        Some((_, why)) if shorter.is_empty() => vec![format!("{name}: is as long as Kafka's, not {why}")],
        Some(_) => Vec::new(),
    }
}

#[test]
fn verify_finds_no_fault_in_what_was_recovered() {
    let (mut faults, mut seen) = (Vec::new(), BTreeSet::new());
    for unclean in damage_cases() {
        let name = &unclean.case.name;
        recover_all(&unclean.data(), &unclean.quarantine());
        let output = topicfs().args(["verify", "--format", "json"]).arg(unclean.data()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines().filter(|line| line.contains("\"problem\"")) {
            let is_known = |(kind, cases, _): &&(&str, &[&str], &str)| {
                line.contains(&format!("\"kind\":\"{kind}\""))
                    && (cases.is_empty() || cases.contains(&&**name))
            };
            match STAYS.iter().find(is_known) {
                Some((_, _, why)) => seen.insert(*why),
                None => {
                    faults.push(format!("{name}: {line}"));
                    false
                }
            };
        }
    }
    assert_eq!(seen.len(), STAYS.len(), "{seen:?}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn without_a_quarantine_what_needs_one_stays_as_it_is() {
    let (mut refused, mut done) = (0, 0);
    for unclean in damage_cases() {
        let name = &unclean.case.name;
        let before = states(&unclean.data());
        let owned = own(&unclean.data());
        for (partition, path) in written_down::partitions(&unclean.data()).unwrap() {
            let plan = owned.recover(&partition, &path, 4096, None).unwrap().unwrap();
            if plan.needs_quarantine() {
                assert_eq!(states(&unclean.data()), before, "{name}");
                refused += 1;
            } else {
                done += 1;
            }
        }
    }
    println!("{refused} refused, {done} done");
    assert!(refused > 25 && done > 50);
}

#[test]
fn appending_and_mounting_refuse_what_needs_a_quarantine_and_say_what_to_do() {
    let names = ["bit-in-value", "batches-swapped", "log-start-past-end"];
    for unclean in damage_cases().into_iter().filter(|one| names.contains(&&*one.case.name)) {
        let name = &unclean.case.name;
        let before = states(&unclean.data());
        let point = unclean.scratch.path().join("point");
        fs::create_dir(&point).unwrap();
        let data = unclean.data();
        let partition = unclean.case.expect.topic.replace("-0", "/0");
        let mut append = topicfs();
        append.arg("append").arg(&data).arg(partition);
        let mut mount = topicfs();
        mount.args(["mount", "-o", "append"]).arg(&data).arg(&point);
        for mut command in [append, mount] {
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name}: {command:?}: {text}");
            assert!(text.contains("`topicfs recover --quarantine DIR "), "{name}: {text}");
            assert!(text.contains("`topicfs recover --dry-run "), "{name}: {text}");
            assert_eq!(states(&data), before, "{name}: {command:?}");
        }
    }
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_would_be_cut() {
    for unclean in damage_cases() {
        let name = &unclean.case.name;
        let before = states(unclean.scratch.path());
        let dry = recover(&unclean.data(), &["--dry-run"]);
        assert_eq!(states(unclean.scratch.path()), before, "{name}");
        assert!(
            !unclean.data().join(".lock").exists() || unclean.case.data().join(".lock").exists(),
            "{name}"
        );
        let refused = recover(&unclean.data(), &[]);
        assert_eq!(refused.0, dry.0, "{name}: {}", refused.1);
        let quarantine = unclean.quarantine();
        let done = recover(&unclean.data(), &["--quarantine", quarantine.to_str().unwrap()]);
        assert_eq!(done.0, 0, "{name}: {}", done.1);
        if dry.0 == 1 {
            assert_eq!(dry.1.replace("would be ", ""), done.1, "{name}");
        }
    }
}

/// The exit code of `topicfs recover`, and what it prints.
fn recover(data: &Path, options: &[&str]) -> (i32, String) {
    let output = topicfs().arg("recover").args(options).arg(data).output().unwrap();
    assert!(
        output.stderr.is_empty() || output.status.code() != Some(2),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_tiered_topic_keeps_the_epochs_of_what_is_in_the_store() {
    let case = fixtures::cases().into_iter().find(|case| case.name == "tiered").unwrap();
    let (scratch, epochs) = (scratch(), "tier-0/leader-epoch-checkpoint");
    let data = scratch.path().join("data");
    fixtures::copy_into(&case.data(), &data);
    let before = fs::read_to_string(data.join(epochs)).unwrap();
    assert_eq!(before, "0\n2\n0 0\n2 43\n", "both begin before the first segment that is here, 77");
    make_unclean(&data);
    fs::create_dir(scratch.path().join("quarantine")).unwrap();
    recover_all(&data, &scratch.path().join("quarantine"));
    assert_eq!(fs::read_to_string(data.join(epochs)).unwrap(), before);
}
