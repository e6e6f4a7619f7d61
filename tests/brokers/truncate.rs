//! Truncation beside Kafka's own: copies of a partition are cut by `UnifiedLog.truncateTo` and by us, and what is left is
//! compared; then Kafka loads ours, after an orderly stop and after another.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::crashes::{self, INTERVAL};
use crate::common::fixtures;
use crate::common::kafka::{Broker, Kafka, is_taken};
use crate::common::model::Numbers;
use crate::common::recovering::{hashes, logs};
use crate::common::salvaged::{files, scratch};
use crate::common::story;
use crate::common::truncating::{data_of, truncate};
use topicfs::format::batch::Limits;
use topicfs::format::{checkpoint, snapshot};
use topicfs::log::append::recovery::{Known, Plan};
use topicfs::log::append::written_down;
use topicfs::units::{Offset, TopicPartition};

/// Random logs, each cut at some offsets.
const CASES: u64 = 150;
/// Of each log.
const OFFSETS: usize = 4;
/// Of each fixture's.
const MOST: usize = 8;

/// Copies that were not stopped in order, and those of a tiered topic, whose epochs begin before the files.
const NOT_STOPPED: [&str; 3] = ["live", "unclean", "tiered"];

#[derive(Debug, Default)]
struct Counts {
    logs: usize,
    cut: usize,
    nothing: usize,
    anew: usize,
    across: usize,
}

#[test]
fn what_is_left_is_what_kafka_leaves_of_the_fixtures() {
    let Some(mut kafka) = Kafka::start() else { return };
    let (mut counts, mut faults) = (Counts::default(), Vec::new());
    let mut numbers = Numbers::new(1);
    for case in fixtures::cases().into_iter().filter(|case| !NOT_STOPPED.contains(&&*case.name)) {
        for data in case.data_dirs() {
            let starts = starts(&data);
            for (name, partition) in written_down::partitions(&data).unwrap() {
                let start = starts.get(&name.to_string()).copied().unwrap_or(0);
                if !is_sound(&partition, &name) {
                    continue;
                }
                counts.logs += 1;
                for to in offsets(&partition, &mut numbers) {
                    let what = format!("{} {} {name} to {to}", case.version, case.name);
                    let compared = compare(&mut kafka, &partition, start, to, 4096, &mut counts);
                    faults.extend(compared.err().map(|fault| format!("{what}: {fault}")));
                }
            }
        }
    }
    println!("{counts:?}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(counts.cut > 500 && counts.across > 50, "{counts:?}");
}

#[test]
fn what_is_left_is_what_kafka_leaves_of_random_logs() {
    let Some(mut kafka) = Kafka::start() else { return };
    let (mut counts, mut faults) = (Counts::default(), Vec::new());
    for seed in 1..=CASES {
        let mut numbers = Numbers::new(seed);
        let root = scratch();
        let partition = root.path().join("t-0");
        crashes::sound(seed, &partition);
        counts.logs += 1;
        let all = offsets(&partition, &mut numbers);
        for _ in 0..OFFSETS {
            let to = all[numbers.below(all.len())];
            let compared = compare(&mut kafka, &partition, 0, to, INTERVAL, &mut counts);
            faults.extend(compared.err().map(|fault| format!("{seed} to {to}: {fault}")));
        }
    }
    println!("{counts:?}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(counts.cut > 300 && counts.anew > 5 && counts.across > 50, "{counts:?}");
}

/// Whether recovery would cut nothing.
fn is_sound(partition: &Path, name: &TopicPartition) -> bool {
    let (log_start, limits) = (None, Limits::default());
    let known = Known { recovery_point: Offset(0), log_start, index_interval_bytes: 4096, limits };
    Plan::new(partition, name, &known).is_ok_and(|plan| plan.cuts.is_empty())
}

fn starts(data: &Path) -> BTreeMap<String, i64> {
    let bytes = fs::read(data.join("log-start-offset-checkpoint")).unwrap_or_default();
    let offsets = checkpoint::parse_offsets(&bytes).unwrap_or_default();
    offsets.into_iter().map(|(name, offset)| (name.to_string(), offset.0)).collect()
}

/// Offsets at and around the bases of segments and batches, in front of the first and behind the last, at most so many.
fn offsets(partition: &Path, numbers: &mut Numbers) -> Vec<i64> {
    let mut found = Vec::new();
    for (name, log) in logs(partition) {
        let base: i64 = name[..20].parse().unwrap();
        found.extend([base - 1, base, base + 1]);
        let mut rest = &log[..];
        // What a broker has preallocated is zeros.
        while let Some((head, _)) = rest.split_first_chunk::<12>().filter(|(head, _)| head[8..] != [0; 4]) {
            let first = i64::from_be_bytes(head[..8].try_into().unwrap());
            found.extend([first, first + 1]);
            let size = u32::from_be_bytes(head[8..].try_into().unwrap());
            rest = rest.get(12 + size as usize..).unwrap_or_default();
        }
    }
    found.push(found.last().map_or(0, |last| last + 100));
    found.retain(|offset| *offset >= 0);
    found.sort_unstable();
    found.dedup();
    while found.len() > MOST {
        found.remove(numbers.below(found.len()));
    }
    found
}

fn compare(
    kafka: &mut Kafka,
    partition: &Path,
    start: i64,
    to: i64,
    interval: u64,
    counts: &mut Counts,
) -> Result<(), String> {
    let root = scratch();
    let ours = data_of(root.path(), partition, start);
    let theirs = root.path().join(partition.file_name().unwrap());
    fixtures::copy_into(partition, &theirs);
    let (start, interval_text) = (start.to_string(), interval.to_string());
    let dir = theirs.to_str().unwrap().to_owned();
    let answer = kafka.try_run(&["truncate", &dir, &start, &interval_text, &to.to_string()]);
    if answer.get("thrown").is_some() {
        return Err(format!("Kafka: {answer}"));
    }
    let truncation = truncate(&ours, to, interval, None).map_err(|error| error.to_string())?;
    let (before, end) = (truncation.before, truncation.after.end.0);
    if before.end.0 != answer["before"] {
        return Err(format!("ends at {}, for Kafka at {}", before.end, answer["before"]));
    }
    if truncation.cuts() != answer["done"] {
        return Err(format!("{truncation:?}, Kafka: {answer}"));
    }
    if truncation.cuts() {
        counts.cut += 1;
        counts.across += usize::from(end < to);
        counts.anew += usize::from(end == to && logs(&ours).values().all(Vec::is_empty));
    } else {
        counts.nothing += 1;
    }
    // Kafka's end is the offset that it was told, until it starts again; a log start beyond the end would empty the log then.
    let their_start = answer["logStart"].as_i64().unwrap().min(end).to_string();
    if truncation.cuts() && truncation.after.start.0.to_string() != their_start {
        return Err(format!("starts at {}, Kafka's at {their_start}", truncation.after.start));
    }
    kafka.run(&["load", &dir, &their_start, "true", &interval_text]);
    if logs(&ours) != logs(&theirs) {
        let lens = |of: &Path| logs(of).into_iter().map(|(name, log)| (name, log.len())).collect::<Vec<_>>();
        return Err(format!("{:?}, Kafka's {:?}", lens(&ours), lens(&theirs)));
    }
    if epochs(&ours) != epochs(&theirs) {
        return Err(format!("epochs {:?}, Kafka's {:?}", epochs(&ours), epochs(&theirs)));
    }
    same_producers(&ours, &theirs, end, truncation.cuts() && end > truncation.after.start.0)?;
    is_taken(kafka, &ours, truncation.after.start.0, end, interval)?;
    if truncation.cuts() {
        let mut problems = story::verify(ours.parent().unwrap());
        problems.retain(|line| !line.contains("meta.properties"));
        let before = {
            let root = scratch();
            data_of(root.path(), partition, start.parse().unwrap());
            story::verify(&root.path().join("data")).len()
        };
        if problems.len() > before {
            return Err(format!("{problems:?}"));
        }
    }
    Ok(())
}

fn epochs(partition: &Path) -> Vec<(i32, i64)> {
    let bytes = fs::read(partition.join("leader-epoch-checkpoint")).unwrap_or_default();
    let entries = checkpoint::parse_epochs(&bytes).unwrap();
    entries.iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect()
}

/// Snapshots of the same producers at the same offsets, and one at the end.
fn same_producers(ours: &Path, theirs: &Path, end: i64, is_cut: bool) -> Result<(), String> {
    let snapshots = |of: &Path| -> BTreeMap<String, PathBuf> {
        files(of).into_iter().filter(|(name, _)| name.ends_with(".snapshot")).collect()
    };
    let (mine, kafkas) = (snapshots(ours), snapshots(theirs));
    let last = format!("{end:020}.snapshot");
    if is_cut && !(mine.contains_key(&last) && kafkas.contains_key(&last)) {
        return Err(format!("{:?}, Kafka's {:?}", mine.keys(), kafkas.keys()));
    }
    for (name, path) in &mine {
        if name.as_str() > last.as_str() && is_cut {
            return Err(format!("{name} is behind the end"));
        }
        let Some(their) = kafkas.get(name) else { continue };
        let (mine, kafkas) = (producers(path).unwrap_or_default(), producers(their).unwrap_or_default());
        // Kafka forgets those that are older than a producer id lasts, and looks for no others then.
        let is_young = |producer: &&String| producer.contains("Timestamp(4");
        if mine.iter().filter(is_young).ne(kafkas.iter().filter(is_young)) {
            return Err(format!("{name}: {:?}, Kafka's {:?}", producers(path), producers(their)));
        }
    }
    Ok(())
}

fn producers(path: &Path) -> Option<Vec<String>> {
    let entries = snapshot::parse(&fs::read(path).unwrap()).ok()?;
    let mut shown: Vec<_> = entries.iter().map(|entry| format!("{entry:?}")).collect();
    shown.sort();
    Some(shown)
}

#[test]
fn a_broker_serves_what_is_left_and_goes_on() {
    let Some(mut kafka) = Kafka::start() else { return };
    let broker = Broker::with(
        &mut kafka,
        "transaction.state.log.num.partitions=1\ntransaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n",
    );
    broker.start(&mut kafka);
    for topic in ["notes", "txn"] {
        kafka.run(&["create", &broker.boot, topic, "1", "segment.bytes=1048576"]);
    }
    kafka.run(&["produce", &broker.boot, "notes", "40"]);
    kafka.run(&["transact", &broker.boot, "txn", "5"]);
    let served = |kafka: &mut Kafka, topic| {
        let answer = kafka.run(&["records", &broker.boot, topic, "read_uncommitted"]);
        answer["records"].as_array().unwrap().clone()
    };
    let before = ["notes", "txn"].map(|topic| served(&mut kafka, topic));
    broker.stop(&mut kafka);
    let cut = [("notes", 25), ("txn", 8)].map(|(topic, to)| {
        let partition = broker.data().join(format!("{topic}-0"));
        truncate(&partition, to, 4096, None).unwrap().after.end.0
    });
    assert!(broker.data().join(".kafka_cleanshutdown").exists());
    let left = ["notes", "txn"].map(|topic| hashes(&broker.data().join(format!("{topic}-0"))));
    broker.start(&mut kafka);
    for ((topic, before), end) in ["notes", "txn"].into_iter().zip(&before).zip(cut) {
        let expected: Vec<_> = before.iter().filter(|record| record[0].as_i64().unwrap() < end).collect();
        // Its transaction is open again, and nobody has ended it: that doesn't keep these readers.
        assert_eq!(served(&mut kafka, topic).iter().collect::<Vec<_>>(), expected, "{topic}");
        let next = kafka.run(&["produce", &broker.boot, topic, "1"])["last"].as_i64().unwrap();
        assert_eq!(next, end, "{topic}");
    }
    for (topic, left) in ["notes", "txn"].into_iter().zip(left) {
        let now = hashes(&broker.data().join(format!("{topic}-0")));
        assert!(
            left.keys().filter(|path| !now.contains_key(*path)).count() <= 1,
            "no more than a snapshot went"
        );
    }
    broker.stop(&mut kafka);
    let problems = story::verify(&broker.data());
    assert!(problems.iter().all(|line| !line.contains("notes-0") && !line.contains("txn-0")), "{problems:?}");
}
