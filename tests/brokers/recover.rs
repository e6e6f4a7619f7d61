//! Recovery beside Kafka's own: the same bytes are given to its log loader and to ours, and then what ours made of them to it.
//! `docs/recover.md` has the table of what is done otherwise here.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::crashes::{self, Crash, INTERVAL};
use crate::common::fixtures;
use crate::common::kafka::{Kafka, is_taken};
use crate::common::recovering::{logs, make_unclean, recover_all};
use crate::common::salvaged::{files, scratch};
use topicfs::format::{checkpoint, snapshot};

const CASES: u64 = 1000;

/// Fixtures that Kafka's loader refuses also when they were recovered, for something that recovery doesn't touch.
const REFUSED: [&str; 3] = ["name-odd", "partition-metadata-bad", "partition-metadata-zero"];

#[test]
fn kafka_keeps_no_more_and_takes_all_that_is_recovered() {
    let Some(mut kafka) = Kafka::start() else { return };
    fixtures_are_taken(&mut kafka);
    crashes_are_recovered_as_kafka_does(&mut kafka);
}

fn fixtures_are_taken(kafka: &mut Kafka) {
    let mut faults = Vec::new();
    for case in fixtures::damage_cases() {
        let scratch = scratch();
        let data = scratch.path().join("data");
        fixtures::copy_into(&case.data(), &data);
        make_unclean(&data);
        let quarantine = scratch.path().join("quarantine");
        fs::create_dir(&quarantine).unwrap();
        let plans = recover_all(&data, &quarantine);
        let start = plans[0].start.0;
        let is_refused = REFUSED.contains(&&*case.name);
        let taken = is_taken(kafka, &data.join(&case.expect.topic), start, plans[0].end.0, 4096);
        if taken.is_err() != is_refused {
            faults.push(format!("{}: {taken:?}", case.name));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn base_of(name: &str) -> i64 {
    name[..20].parse().unwrap()
}

#[derive(Debug, Default)]
struct Counts {
    refused: u64,
    equal: u64,
    longer: u64,
    out_of_order: u64,
}

fn crashes_are_recovered_as_kafka_does(kafka: &mut Kafka) {
    let (mut counts, mut faults) = (Counts::default(), Vec::new());
    for seed in 1..=CASES {
        let crash = Crash::new(seed);
        if let Err(fault) = compare(kafka, &crash, &mut counts) {
            faults.push(format!("{seed}: {:?}, point {}: {fault}", crash.done, crash.recovery_point));
        }
    }
    println!("{CASES} cases: {counts:?}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(
        counts.equal > CASES / 4 && counts.longer > CASES / 20 && counts.refused < CASES / 4,
        "{counts:?}"
    );
}

fn compare(kafka: &mut Kafka, crash: &Crash, counts: &mut Counts) -> Result<(), String> {
    let scratch = scratch();
    let theirs = scratch.path().join("t-0");
    fixtures::copy_into(&crash.partition(), &theirs);
    let ours = crash.partition();
    let names = files(&ours);
    let plan = crashes::recover(&ours, &crash.quarantine(), crash.recovery_point);
    let our_logs = logs(&ours);
    if our_logs.iter().any(|(name, log)| has_far_offsets(base_of(name), log)) {
        // Kafka splits it.
        counts.out_of_order += 1;
        return Ok(());
    }
    is_taken(kafka, &ours, plan.start.0, plan.end.0, INTERVAL)
        .map_err(|fault| format!("not taken: {fault}"))?;
    let point = crash.recovery_point.to_string();
    let answer =
        kafka.try_run(&["load", theirs.to_str().unwrap(), "0", "false", &INTERVAL.to_string(), &point]);
    if answer.get("thrown").is_some() {
        counts.refused += 1;
        let is_known = answer["thrown"].as_str().unwrap().contains("in transaction index");
        return if crash.is_sound_but_tail && !is_known { Err(format!("Kafka: {answer}")) } else { Ok(()) };
    }
    let their_logs = logs(&theirs);
    if their_logs.keys().any(|name| !names.contains_key(name) && !names.contains_key(&format!("{name}.swap")))
    {
        // Kafka has split one.
        counts.out_of_order += 1;
        return Ok(());
    }
    let mut is_in_order = true;
    for (name, kept) in &their_logs {
        let mine = our_logs.get(name).map_or(&[][..], Vec::as_slice);
        if mine.len() < kept.len() {
            is_in_order &= goes_up(&their_logs);
        }
        let (short, long) = if mine.len() < kept.len() { (mine, &**kept) } else { (&**kept, mine) };
        if !long.starts_with(short) || mine.len() < kept.len() && is_in_order {
            return Err(format!("{name}: {} bytes, Kafka keeps {}", mine.len(), kept.len()));
        }
    }
    if !is_in_order || !goes_up(&their_logs) {
        counts.out_of_order += 1;
        return Ok(());
    }
    if plan.end.0 < answer["logEnd"].as_i64().unwrap() {
        return Err(format!("end {}, Kafka's {}", plan.end, answer["logEnd"]));
    }
    if our_logs != their_logs {
        counts.longer += 1;
        return if crash.is_sound_but_tail { Err("other logs".to_owned()) } else { Ok(()) };
    }
    counts.equal += 1;
    if crash.is_sound_but_tail { is_equal(crash, &ours, &theirs, plan.end.0) } else { Ok(()) }
}

/// Whether the offsets of all entries grow, and stay below the next segment, in a format that there is: no checksum covers offsets
/// and magic of magic 2.
fn goes_up(logs: &BTreeMap<String, Vec<u8>>) -> bool {
    let mut next = i64::MIN;
    let mut bases = logs.keys().map(|name| base_of(name)).skip(1);
    logs.iter().all(|(name, log)| {
        let below = bases.next().unwrap_or(i64::MAX);
        next = next.max(base_of(name));
        crate::common::salvaged::batches(log).iter().all(|batch| {
            let (first, last) = offsets(batch);
            let fits = first >= next && last < below && batch[16] <= 2;
            next = last.saturating_add(1);
            fits
        })
    })
}

/// Whether there are offsets that no index of the segment has room for.
fn has_far_offsets(base: i64, log: &[u8]) -> bool {
    crate::common::salvaged::batches(log).iter().any(|batch| offsets(batch).1 - base > i64::from(i32::MAX))
}

fn offsets(batch: &[u8]) -> (i64, i64) {
    let base = crate::common::salvaged::base_of(batch);
    if batch[16] < 2 {
        return (base, base);
    }
    let delta = i32::from_be_bytes(batch[23..27].try_into().unwrap());
    (base, base.saturating_add(delta.into()))
}

/// Indexes, producers and epochs are what Kafka's recovery makes of the same logs.
fn is_equal(crash: &Crash, ours: &Path, theirs: &Path, end: i64) -> Result<(), String> {
    let (mine, kafkas) = (files(ours), files(theirs));
    // That of an interrupted compaction, which Kafka believes, may be another's.
    let is_unsure = |name: &str| name.ends_with(".txnindex") && crash.is_swapped && crash.recovery_point > 0;
    for (name, path) in mine.iter().filter(|(name, _)| name.ends_with("index") && !is_unsure(name)) {
        let Some(their) = kafkas.get(name) else { return Err(format!("{name}: Kafka has none")) };
        let (a, b) = (fs::read(path).unwrap(), fs::read(their).unwrap());
        // The active segment's stay preallocated there.
        if !b.strip_prefix(&a[..]).is_some_and(|rest| rest.iter().all(|byte| *byte == 0)) {
            return Err(format!("{name}: {} bytes, Kafka's {}", a.len(), b.len()));
        }
    }
    let last = format!("{end:020}.snapshot");
    for (name, path) in mine.iter().filter(|(name, _)| name.ends_with(".snapshot")) {
        let Some(their) = kafkas.get(name) else {
            if *name == last {
                return Err(format!("{name}: Kafka has none"));
            }
            continue;
        };
        let (a, b) = (producers(path), producers(their));
        // One that is torn, and in front of all that was read, stays on both sides.
        if a != b && (b.is_some() || *name == last) {
            return Err(format!("{name}: {a:?}, Kafka's {b:?}"));
        }
    }
    let epochs = |directory: &Path| -> Vec<(i32, i64)> {
        let bytes =
            fs::read(directory.join("leader-epoch-checkpoint")).unwrap_or_else(|_| b"0\n0\n".to_vec());
        let entries = checkpoint::parse_epochs(&bytes).unwrap();
        let entries = entries.iter().map(|entry| (entry.epoch.0, entry.start_offset.0));
        // An epoch without records stays here.
        entries.filter(|(_, start)| *start < end).collect()
    };
    let (a, b) = (epochs(ours), epochs(theirs));
    // A segment that lacks its index Kafka reads before those in front of it, whose epochs then don't count any more.
    if a != b && (crash.has_epochs || crash.recovery_point == 0 && !crash.has_bad_index) {
        return Err(format!("epochs {a:?}, Kafka's {b:?}"));
    }
    Ok(())
}

/// What a sound snapshot holds.
fn producers(path: &PathBuf) -> Option<Vec<String>> {
    let entries = snapshot::parse(&fs::read(path).unwrap()).ok()?;
    let mut shown: Vec<_> = entries.iter().map(|entry| format!("{entry:?}")).collect();
    shown.sort();
    Some(shown)
}
