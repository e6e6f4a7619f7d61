//! `topicfs reindex`: what is made of logs alone, beside what recovery makes and what Kafka's loader does.

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
use std::sync::Arc;

use common::crash::after_each;
use common::crashes::{self, INTERVAL};
use common::disk::{RecordingDisk, Tree};
use common::fixtures;
use common::kafka::Kafka;
use common::model::Numbers;
use common::mounted::topicfs;
use common::recovering::{hashes, logs};
use common::salvaged::{files, scratch};
use common::story;
use common::truncating::{data_of, name_of, own};
use topicfs::format::batch::Limits;
use topicfs::format::{checkpoint, snapshot};
use topicfs::log::append::written_down;
use topicfs::log::files::disk::SystemDisk;
use topicfs::log::upkeep::reindex::{Reindexed, Sizes, To, in_place};
use topicfs::units::Offset;

/// Random logs.
const CASES: u64 = 60;
const SIZES: Sizes = Sizes { interval_bytes: INTERVAL, index_bytes: 10 << 20 };

/// Epochs of one batch alone count for nothing here, and offsets that are in the next segment too are damage.
const OTHERWISE: [&str; 2] = ["bit-in-epoch", "segments-overlap"];

fn reindex(partition: &Path, sizes: Sizes) -> Reindexed {
    let how = (sizes, Limits::default());
    in_place(&name_of(partition), partition, None, how, To::Disk(&SystemDisk), &|_| ()).unwrap()
}

/// All but the logs.
fn made(partition: &Path) -> BTreeMap<String, Vec<u8>> {
    let all = files(partition).into_iter().filter(|(name, _)| !name.ends_with(".log"));
    all.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

fn random(seed: u64, root: &Path) -> PathBuf {
    let scratch = scratch();
    crashes::sound(seed, &scratch.path().join("t-0"));
    data_of(root, &scratch.path().join("t-0"), 0)
}

#[test]
fn of_logs_alone_it_makes_what_recovery_makes() {
    for seed in 1..=CASES {
        let root = scratch();
        let partition = random(seed, root.path());
        let (all, before) = (logs(&partition), made(&partition));
        assert!(reindex(&partition, SIZES).made.is_empty(), "{seed}: all was right");
        let first = all.keys().next().unwrap()[..20].to_owned() + ".snapshot";
        let mut numbers = Numbers::new(seed);
        let mut gone = BTreeSet::new();
        for (name, path) in files(&partition).iter().filter(|(name, _)| !name.ends_with(".log")) {
            match numbers.below(4) {
                0 => fs::remove_file(path).unwrap(),
                1 => fs::write(path, b"not what it should be").unwrap(),
                _ => continue,
            }
            gone.insert(name.clone());
        }
        fs::write(partition.join("00000000000000000001.timeindex"), "of no log").unwrap();
        let done = reindex(&partition, SIZES);
        assert!(made(&partition) == before && logs(&partition) == all, "{seed}: {gone:?}, {done:?}");
        assert_eq!(done.made.len(), gone.len(), "{seed}: {first}");
        assert_eq!(done.removed.len(), 1, "{seed}");
    }
}

#[test]
fn a_crash_after_each_step_leaves_what_the_next_start_makes_good() {
    let root = scratch();
    let partition = random(7, root.path());
    let expected = made(&partition);
    for (name, path) in files(&partition) {
        if !name.ends_with(".log") {
            fs::write(path, b"damaged").unwrap();
        }
    }
    let (tree, logs_before) = (Tree::read(root.path()), logs(&partition));
    let disk = RecordingDisk::new(root.path());
    let owned = own(partition.parent().unwrap(), Arc::new(disk.clone()));
    owned.reindex(&name_of(&partition), &partition, SIZES, &|_| ()).unwrap();
    owned.close().unwrap();
    drop(owned);
    assert!(made(&partition) == expected);
    let mut numbers = Numbers::new(1);
    after_each(&tree, &disk.journal(), |count, machine| {
        for tree in [machine.killed(), machine.unplugged(&mut numbers)] {
            let root = scratch();
            tree.write(root.path());
            let partition = root.path().join("data/t-0");
            let data = partition.parent().unwrap();
            let owned = own(data, Arc::new(SystemDisk));
            owned.reindex(&name_of(&partition), &partition, SIZES, &|_| ()).unwrap();
            assert!(made(&partition) == expected && logs(&partition) == logs_before, "after {count}");
        }
    });
}

#[test]
fn elsewhere_it_makes_the_same_and_leaves_the_source() {
    let root = scratch();
    let partition = random(3, root.path());
    let (data, out) = (partition.parent().unwrap(), root.path().join("out"));
    let before = hashes(data);
    let run = |words: &[&str]| topicfs().arg("reindex").args(words).output().unwrap();
    let interval = format!("index.interval.bytes={INTERVAL}");
    let words = ["-o", &interval, "--into", out.to_str().unwrap(), data.to_str().unwrap()];
    let output = run(&words);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(hashes(data), before);
    let mut expected = made(&partition);
    expected.remove("partition.metadata");
    assert!(made(&out.join("t-0")) == expected);
    assert_eq!(run(&words).status.code(), Some(2), "it is not empty now");
    assert_eq!(run(&["--dry-run", data.to_str().unwrap(), "u"]).status.code(), Some(2));
    assert_eq!(run(&["--dry-run", "-o", &interval, data.to_str().unwrap(), "t/0"]).status.code(), Some(0));
    assert_eq!(hashes(data), before);
}

#[test]
fn damage_stays_and_what_is_behind_it_is_indexed() {
    let root = scratch();
    let partition = random(5, root.path());
    let (name, mut bytes) = logs(&partition).into_iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let whole = fs::read(partition.join(name.replace(".log", ".index"))).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(partition.join(&name), &bytes).unwrap();
    let interval = format!("index.interval.bytes={INTERVAL}");
    let output =
        topicfs().args(["reindex", "-o", &interval]).arg(partition.parent().unwrap()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("damage: ") && said.contains(&name), "{said}");
    assert!(logs(&partition)[&name] == bytes);
    let index = fs::read(partition.join(name.replace(".log", ".index"))).unwrap();
    assert!(index[index.len() - 8..] == whole[whole.len() - 8..], "its last entry is behind the damage");
    let mut problems = story::verify(partition.parent().unwrap());
    problems.retain(|line| !line.contains(".log\t") && !line.contains("meta.properties"));
    assert_eq!(problems, [""; 0]);
}

#[test]
fn an_index_has_no_more_than_segment_index_bytes() {
    let root = scratch();
    let partition = random(5, root.path());
    let done = reindex(&partition, Sizes { index_bytes: 30, ..SIZES });
    assert!(!done.full.is_empty());
    for (name, bytes) in made(&partition).iter().filter(|(name, _)| name.ends_with("index")) {
        assert!(bytes.len() <= 30 || name.ends_with(".txnindex"), "{name}");
    }
    let mut problems = story::verify(partition.parent().unwrap());
    problems.retain(|line| !line.contains("meta.properties"));
    assert_eq!(problems, [""; 0]);
}

#[test]
fn of_the_fixtures_it_makes_what_kafkas_loader_makes() {
    let Some(mut kafka) = Kafka::start() else { return };
    let mut partitions: Vec<(String, PathBuf)> = Vec::new();
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let found = written_down::partitions(&data).unwrap().into_iter();
            partitions.extend(found.map(|(_, path)| (format!("{} {}", case.version, case.name), path)));
        }
    }
    for case in fixtures::damage_cases().into_iter().filter(|case| !OTHERWISE.contains(&&*case.name)) {
        let path = case.data().join(&case.expect.topic);
        partitions.push((format!("damage {}", case.name), path));
    }
    let (mut counts, mut faults) = ([0; 3], Vec::new());
    for (what, partition) in partitions {
        let compared = compare(&mut kafka, &partition, &mut counts);
        faults.extend(compared.err().map(|fault| format!("{what} {}: {fault}", name_of(&partition))));
    }
    let [equal, cut, refused] = counts;
    println!("{equal} equal, {cut} cut by Kafka, {refused} refused by one of us");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(equal > 200 && cut > 10, "{counts:?}");
}

fn compare(kafka: &mut Kafka, partition: &Path, counts: &mut [usize; 3]) -> Result<(), String> {
    let scratch = scratch();
    let [ours, theirs] =
        ["ours", "theirs"].map(|of| scratch.path().join(of).join(partition.file_name().unwrap()));
    fixtures::copy_into(partition, &ours);
    fixtures::copy_into(partition, &theirs);
    let how = (Sizes { interval_bytes: 4096, index_bytes: 65536 }, Limits::default());
    let start = log_start(partition);
    let done = in_place(&name_of(&ours), &ours, Some(start), how, To::Disk(&SystemDisk), &|_| ());
    let answer = kafka.try_run(&["load", theirs.to_str().unwrap(), &start.to_string(), "false", "4096"]);
    let (Ok(done), true) = (done, answer.get("thrown").is_none()) else {
        counts[2] += 1;
        return Ok(());
    };
    let is_cut = logs(&ours) != logs(&theirs);
    counts[usize::from(is_cut)] += 1;
    let kafkas = made(&theirs);
    for (name, mine) in made(&ours).iter().filter(|(name, _)| name.ends_with("index")) {
        let Some(their) = kafkas.get(name) else {
            if is_cut {
                continue;
            }
            return Err(format!("{name}: Kafka has none"));
        };
        // The active segment's stay preallocated there. Where Kafka has cut the log, it has the beginning; its last time is another.
        let used = their.len() - their.iter().rev().take_while(|byte| **byte == 0).count();
        let cut_at = if is_cut { used.saturating_sub(12) / 24 * 24 } else { used };
        let is_same = if is_cut {
            their.get(..cut_at).is_some_and(|their| mine.starts_with(their))
        } else {
            their.starts_with(mine) && their[mine.len()..].iter().all(|byte| *byte == 0)
        };
        if !is_same {
            return Err(format!("{name}: {} bytes, Kafka's {used}, {:?}", mine.len(), done.damage));
        }
    }
    if is_cut {
        return Ok(());
    }
    same_state(&ours, &kafkas, answer["logEnd"].as_i64().unwrap())
}

/// What the data directory around a partition says.
fn log_start(partition: &Path) -> Offset {
    let file = partition.parent().unwrap().join("log-start-offset-checkpoint");
    let offsets = checkpoint::parse_offsets(&fs::read(file).unwrap_or_default()).unwrap_or_default();
    offsets.get(&name_of(partition)).copied().unwrap_or(Offset(0))
}

/// Epochs and snapshots.
fn same_state(ours: &Path, kafkas: &BTreeMap<String, Vec<u8>>, end: i64) -> Result<(), String> {
    let epochs = |bytes: Option<&Vec<u8>>| -> Vec<(i32, i64)> {
        let entries = checkpoint::parse_epochs(bytes.map_or(&[][..], Vec::as_slice)).unwrap_or_default();
        let entries = entries.iter().map(|entry| (entry.epoch.0, entry.start_offset.0));
        // An epoch without records stays here.
        entries.filter(|(_, start)| *start < end).collect()
    };
    let mine = made(ours);
    let file = "leader-epoch-checkpoint";
    let (a, b) = (epochs(mine.get(file)), epochs(kafkas.get(file)));
    if a != b {
        return Err(format!("epochs {a:?}, Kafka's {b:?}"));
    }
    let producers = |bytes: &[u8]| -> BTreeSet<String> {
        let entries = snapshot::parse(bytes).unwrap_or_default();
        entries.iter().map(|entry| format!("{entry:?}")).collect()
    };
    for (name, bytes) in mine.iter().filter(|(name, _)| name.ends_with(".snapshot")) {
        let Some(their) = kafkas.get(name) else { continue };
        // Kafka forgets those that are older than a producer id lasts.
        let (a, b) = (producers(bytes), producers(their));
        if !b.is_subset(&a) {
            return Err(format!("{name}: {a:?}, Kafka's {b:?}"));
        }
    }
    Ok(())
}
