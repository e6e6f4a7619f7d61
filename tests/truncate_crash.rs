//! What is found after a process was killed, or a machine lost its power, at each step of cutting a log: the old log or the new
//! one, or the old one without its last segments; never one with a gap, and what is missing is kept elsewhere.

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
use std::sync::Arc;

use common::crash::{after_each, beginning};
use common::crashes::{self, INTERVAL};
use common::disk::{Fault, Op, RecordingDisk, Tree};
use common::model::Numbers;
use common::recovering::logs;
use common::salvaged::{files, scratch};
use common::story;
use common::truncating::{checkpoint, data_of, name_of, own, truncate};
use topicfs::log::append::written_down;
use topicfs::units::Offset;

/// Random logs, each cut at one offset in the middle of it, and some in front of it.
const CASES: u64 = 8;
/// Power failures after each operation.
const POWER_FAILURES: usize = 3;

type Logs = BTreeMap<String, Vec<u8>>;

struct Case {
    /// What was there before, below a root.
    tree: Tree,
    journal: Vec<Op>,
    old: Logs,
    new: Logs,
    to: i64,
    end: i64,
    new_epochs: Vec<u8>,
}

impl Case {
    fn new(seed: u64, numbers: &mut Numbers) -> Self {
        let root = scratch();
        let made = scratch();
        let source = made.path().join("t-0");
        crashes::sound(seed, &source);
        let partition = data_of(root.path(), &source, 0);
        fs::create_dir(root.path().join("keep")).unwrap();
        let old = logs(&partition);
        let to = if seed.is_multiple_of(4) {
            base_of(old.keys().next().unwrap()) - 1
        } else {
            somewhere(&old, numbers)
        };
        let tree = Tree::read(root.path());
        let disk = RecordingDisk::new(root.path());
        let owned = own(partition.parent().unwrap(), Arc::new(disk.clone()));
        let truncation = owned.truncation(&name_of(&partition), &partition, Offset(to), INTERVAL).unwrap();
        owned.truncate(&truncation, Some(&root.path().join("keep"))).unwrap();
        owned.close().unwrap();
        let (new, end) = (logs(&partition), truncation.after.end.0);
        assert_eq!(cut_and_kept(&partition, root.path(), &old), Ok(()));
        let new_epochs = fs::read(partition.join("leader-epoch-checkpoint")).unwrap();
        Self { tree, journal: disk.journal(), old, new, to, end, new_epochs }
    }

    /// Checks what is found after a crash.
    fn check(&self, tree: &Tree, what: &str, counts: &mut BTreeMap<&'static str, usize>) {
        let root = scratch();
        tree.write(root.path());
        let data = root.path().join("data");
        let partition = data.join("t-0");
        let left: Vec<_> = logs(&partition).into_iter().collect();
        let owned = own(&data, Arc::new(topicfs::log::files::disk::SystemDisk));
        if !owned.is_sound() {
            for (name, path) in written_down::partitions(&data).unwrap() {
                let plan = owned.recover(&name, &path, INTERVAL, None).unwrap().unwrap();
                assert!(!plan.needs_quarantine(), "{what}: {:?}", plan.cuts);
            }
            owned.recovered().unwrap();
        }
        owned.close().unwrap();
        drop(owned);
        let found = logs(&partition);
        assert_eq!(
            found.keys().collect::<Vec<_>>(),
            left.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "{what}"
        );
        counts.entry(self.judge(&found, what)).and_modify(|count| *count += 1).or_insert(1);
        if found != self.old {
            assert_eq!(cut_and_kept(&partition, root.path(), &self.old), Ok(()), "{what}");
        }
        let problems = problems(&data);
        assert!(problems.is_empty(), "{what}: {problems:?}");
        // Once more, and it is what it would have been without a crash.
        truncate(&partition, self.to, INTERVAL, None).unwrap();
        assert!(logs(&partition) == self.new, "{what}: then cut again");
        let epochs = fs::read(partition.join("leader-epoch-checkpoint")).unwrap();
        assert_eq!(epochs, self.new_epochs, "{what}: epochs when cut again");
        assert!(partition.join(format!("{:020}.snapshot", self.end)).exists(), "{what}: snapshot");
        for file in ["recovery-point-offset-checkpoint", "replication-offset-checkpoint"] {
            assert!(checkpoint(&partition, file).unwrap() <= self.end, "{what}: {file}");
        }
        let active = base_of(self.new.keys().next_back().unwrap());
        assert!(checkpoint(&partition, "cleaner-offset-checkpoint").unwrap() <= active, "{what}: cleaner");
    }

    /// What logs are: the old ones without their last, which have all of the new ones.
    fn judge(&self, found: &Logs, what: &str) -> &'static str {
        if *found == self.old {
            return "old";
        }
        if *found == self.new {
            return "new";
        }
        let is_anew = |name: &String| !self.old.contains_key(name) && self.new.contains_key(name);
        let left: Vec<_> = found.iter().filter(|(name, _)| !is_anew(name)).collect();
        let are_first = self.old.iter().take(left.len()).eq(left.iter().copied());
        let has_new =
            self.new.iter().all(|(name, log)| found.get(name).is_some_and(|found| found.starts_with(log)));
        assert!(are_first && has_new, "{what}: {:?}", lens(found));
        "old without its last"
    }
}

fn lens(logs: &Logs) -> Vec<(&String, usize)> {
    logs.iter().map(|(name, log)| (name, log.len())).collect()
}

fn base_of(name: &str) -> i64 {
    name[..20].parse().unwrap()
}

/// An offset at, in or behind some segment.
fn somewhere(logs: &Logs, numbers: &mut Numbers) -> i64 {
    let bases: Vec<i64> = logs.keys().map(|name| base_of(name)).collect();
    bases[numbers.below(bases.len())] + i64::try_from(numbers.below(20)).unwrap()
}

/// Whether the logs that are left, and the pieces that are kept, are together the old ones.
fn cut_and_kept(partition: &Path, root: &Path, old: &Logs) -> Result<(), String> {
    let mut whole: Logs = logs(partition);
    whole.retain(|name, _| old.contains_key(name));
    let kept = root.join("keep/t-0");
    if kept.exists() {
        for (name, path) in files(&kept) {
            let bytes = fs::read(path).unwrap();
            let (of, log) = old.range(..=name.clone()).next_back().ok_or("a piece of nothing")?;
            let before = whole.entry(of.clone()).or_default();
            // A segment that is there still is kept as well.
            if name.ends_with(".log") && before.len() < log.len() {
                before.extend(bytes);
            }
        }
    }
    if whole == *old { Ok(()) } else { Err(format!("{:?} of {:?}", lens(&whole), lens(old))) }
}

fn problems(data: &Path) -> Vec<String> {
    let mut problems = story::verify(data);
    problems.retain(|line| !line.contains("meta.properties"));
    problems
}

#[test]
fn a_crash_after_each_step_leaves_the_old_log_or_the_new_one() {
    let mut counts = BTreeMap::new();
    for seed in 1..=CASES {
        let mut numbers = Numbers::new(seed);
        // A log that begins above 0, every fourth.
        let case =
            Case::new(if seed.is_multiple_of(4) { above_zero(seed) } else { 4 * seed + 1 }, &mut numbers);
        let mut check = |tree: &Tree, what: String| case.check(tree, &what, &mut counts);
        after_each(&case.tree, &case.journal, |count, machine| {
            let last = count.checked_sub(1).map(|last| name_of_op(&case.journal[last]));
            let what = |how: &str| format!("{seed} to {}: {how} after {count}, {last:?}", case.to);
            check(&machine.killed(), what("killed"));
            for _ in 0..POWER_FAILURES {
                check(&machine.unplugged(&mut numbers), what("unplugged"));
            }
        });
        for (count, op) in case.journal.iter().enumerate() {
            let Some(op) = beginning(op, &mut numbers) else { continue };
            let journal: Vec<Op> = case.journal[..count].iter().cloned().chain([op]).collect();
            after_each(&case.tree, &journal, |done, machine| {
                if done == journal.len() {
                    check(&machine.killed(), format!("{seed}: killed within write {count}"));
                }
            });
        }
    }
    println!("{counts:?}");
    assert!(counts.values().all(|count| *count > 100), "{counts:?}");
}

#[test]
fn an_operation_that_fails_leaves_the_old_log_or_the_new_one() {
    let mut counts = BTreeMap::new();
    let (mut failed, mut numbers) = (0, Numbers::new(1));
    let case = Case::new(9, &mut numbers);
    for fault in [Fault::Io, Fault::NoSpace, Fault::Short] {
        // Opening the directory is two operations.
        for at in 2.. {
            let root = scratch();
            case.tree.write(root.path());
            let partition = root.path().join("data/t-0");
            let disk = RecordingDisk::failing(root.path(), at, fault);
            let owned = own(partition.parent().unwrap(), Arc::new(disk.clone()));
            let truncation =
                owned.truncation(&name_of(&partition), &partition, Offset(case.to), INTERVAL).unwrap();
            let cut = owned.truncate(&truncation, Some(&root.path().join("keep")));
            let closed = owned.close();
            drop(owned);
            let Some((_, what)) = disk.failed() else { break };
            failed += 1;
            let is_clean = root.path().join("data/.kafka_cleanshutdown").exists();
            assert!(cut.is_err() || closed.is_err(), "{what}: nobody was told");
            assert!(
                !is_clean || cut.is_err() && logs(&partition) == case.old || closed.is_err(),
                "{what}: marked as clean"
            );
            let mut tree = Tree::read(root.path());
            tree.0.retain(|path, _| path.file_name().is_none_or(|name| name != ".lock"));
            case.check(&tree, &format!("{fault:?} of {what}"), &mut counts);
        }
    }
    println!("{failed} faults: {counts:?}");
    assert!(failed > 60, "{failed}");
}

fn name_of_op(op: &Op) -> String {
    match op {
        Op::Write { file, position, bytes } => format!("{} bytes to {file} at {position}", bytes.len()),
        other => format!("{other:?}"),
    }
}

/// The number of a log that begins above 0, a multiple of 4.
fn above_zero(from: u64) -> u64 {
    let begins_above = |seed: &u64| {
        let root = scratch();
        let partition: PathBuf = root.path().join("t-0");
        crashes::sound(*seed, &partition);
        logs(&partition).keys().next().is_some_and(|name| base_of(name) > 0)
    };
    (1..).map(|number| 4 * (from * 100 + number)).find(begins_above).unwrap()
}
