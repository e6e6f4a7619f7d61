//! Recovery of what nobody expects in a partition's directory, and of logs with damage drawn at random.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use common::batches::{self, Plan as Batch};
use common::crashes::{Crash, recover};
use common::mounted::topicfs;
use common::recovering::{assert_nothing_is_lost, hashes, logs, quarantined, states};
use common::salvaged::{files, scratch};
use common::shown::ShownRecord;
use kafka_protocol::records::Compression;
use tempfile::TempDir;
use topicfs::format::batch::Limits;
use topicfs::format::{checkpoint, snapshot};
use topicfs::log::append::recovery::{CutKind, Known, Plan, RecoveryError};
use topicfs::log::files::disk::SystemDisk;
use topicfs::units::{Offset, TopicPartition};

const CASES: u64 = 800;

#[test]
fn nothing_is_lost_and_a_second_time_changes_nothing_whatever_the_damage() {
    let (mut cuts, mut faults) = (0, Vec::new());
    for seed in 1..=CASES {
        let crash = Crash::new(seed);
        let (partition, quarantine) = (crash.partition(), crash.quarantine());
        let before = logs(&partition);
        let what = format!("{seed}: {:?}, point {}", crash.done, crash.recovery_point);
        let plan = recover(&partition, &quarantine, crash.recovery_point);
        cuts += plan.cuts.len();
        if !crash.is_swapped {
            assert_nothing_is_lost(&what, &before, &partition, &quarantine);
        }
        let once = hashes(&partition);
        let again = recover(&partition, &quarantine.join("again"), crash.recovery_point);
        if !again.cuts.is_empty() || hashes(&partition) != once {
            let now = hashes(&partition);
            let changed: Vec<_> =
                now.keys().chain(once.keys()).filter(|path| now.get(*path) != once.get(*path)).collect();
            faults.push(format!("{what}: {changed:?}"));
        }
    }
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    println!("{CASES} cases, {cuts} cuts");
    assert!(cuts > 200, "{cuts}");
}

/// A partition of its own.
struct Own {
    scratch: TempDir,
}

impl Own {
    /// With these logs and what belongs to them.
    fn new(logs: &[(i64, Vec<u8>)]) -> Self {
        let own = Self { scratch: scratch() };
        fs::create_dir(own.partition()).unwrap();
        for (base, bytes) in logs {
            fs::write(own.file(*base, "log"), bytes).unwrap();
        }
        own
    }

    fn partition(&self) -> PathBuf {
        self.scratch.path().join("t-0")
    }

    fn quarantine(&self) -> PathBuf {
        self.scratch.path().join("quarantine")
    }

    fn file(&self, base: i64, extension: &str) -> PathBuf {
        self.partition().join(format!("{base:020}.{extension}"))
    }

    fn recover(&self, point: i64) -> Plan {
        recover(&self.partition(), &self.quarantine(), point)
    }

    fn plan(&self, point: i64, log_start: Option<i64>) -> Result<Plan, RecoveryError> {
        let known = Known {
            recovery_point: Offset(point),
            log_start: log_start.map(Offset),
            index_interval_bytes: common::crashes::INTERVAL,
            limits: Limits::default(),
        };
        Plan::new(&self.partition(), &TopicPartition { topic: "t".to_owned(), partition: 0 }, &known)
    }

    fn names(&self) -> Vec<String> {
        files(&self.partition()).into_keys().collect()
    }

    /// The producers in a snapshot.
    fn producers(&self, at: i64) -> Vec<i64> {
        let entries = snapshot::parse(&fs::read(self.file(at, "snapshot")).unwrap()).unwrap();
        entries.iter().map(|entry| entry.producer_id.0).collect()
    }
}

/// Batches of two records each with offsets from `from` to before `to`, each by another producer.
fn log(from: i64, to: i64) -> Vec<u8> {
    let record = |offset| ShownRecord {
        offset,
        timestamp: 4_000_000_000_000 + offset,
        key: None,
        value: Some(vec![7; 100]),
        headers: Vec::new(),
    };
    let batch = |offset: i64| {
        let mut batch = Batch::of(vec![record(offset), record(offset + 1)], Compression::None);
        batch.producer = offset;
        batches::encode(&batch).remove(0).bytes
    };
    (from..to).step_by(2).flat_map(batch).collect()
}

fn three() -> Own {
    let own = Own::new(&[(0, log(0, 10)), (10, log(10, 20)), (20, log(20, 30))]);
    own.recover(0);
    own
}

#[test]
fn a_snapshot_that_is_torn_is_passed_over_for_an_older_one() {
    let own = three();
    let all: Vec<i64> = (0..30).step_by(2).collect();
    assert_eq!(own.producers(30), all);
    let torn = fs::read(own.file(20, "snapshot")).unwrap();
    fs::write(own.file(20, "snapshot"), &torn[..torn.len() - 1]).unwrap();
    own.recover(20);
    assert_eq!(own.producers(30), all);
    assert!(!own.file(20, "snapshot").exists(), "a broker would stumble over it too");
}

#[test]
fn a_missing_index_costs_no_producers_after_an_orderly_stop() {
    let own = three();
    let before = fs::read(own.file(30, "snapshot")).unwrap();
    for path in [own.file(10, "index"), own.file(10, "snapshot")] {
        fs::remove_file(path).unwrap();
    }
    own.recover(i64::MAX);
    assert_eq!(fs::read(own.file(30, "snapshot")).unwrap(), before);
    assert!(own.file(10, "index").exists());
}

#[test]
fn snapshots_behind_the_end_go() {
    let own = three();
    fs::copy(own.file(30, "snapshot"), own.file(44, "snapshot")).unwrap();
    own.recover(20);
    assert!(!own.file(44, "snapshot").exists());
    assert!(own.file(10, "snapshot").exists(), "one that is not read again stays");
}

#[test]
fn a_log_that_is_a_link_or_a_directory_is_refused_and_nothing_changes() {
    let own = three();
    let aside = own.scratch.path().join("aside");
    fs::rename(own.file(10, "log"), &aside).unwrap();
    std::os::unix::fs::symlink(&aside, own.file(10, "log")).unwrap();
    let before = states(&own.partition());
    let refused = own.plan(0, None).unwrap_err();
    assert!(matches!(&refused, RecoveryError::NoFile { path } if *path == own.file(10, "log")), "{refused}");
    assert_eq!(states(&own.partition()), before);
    fs::remove_file(own.file(10, "log")).unwrap();
    fs::create_dir(own.file(10, "log")).unwrap();
    assert!(matches!(own.plan(0, None), Err(RecoveryError::NoFile { .. })));
}

#[test]
fn a_partition_that_cannot_be_recovered_keeps_the_directory_unclean_also_with_a_quarantine() {
    let own = three();
    let data = own.scratch.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::rename(own.partition(), data.join("t-0")).unwrap();
    std::os::unix::fs::symlink("/nowhere", data.join("t-0/00000000000000000040.log")).unwrap();
    let mut command = topicfs();
    command.arg("recover").arg("--quarantine").arg(own.quarantine().join("new")).arg(&data);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("00000000000000000040.log: is no file"), "{text}");
    assert!(!data.join(".kafka_cleanshutdown").exists());
}

#[test]
fn a_segment_whose_name_is_above_its_first_offset_gets_the_right_one() {
    let own = Own::new(&[(0, log(0, 10)), (13, log(10, 20)), (20, log(20, 30))]);
    let plan = own.recover(0);
    assert!(plan.cuts.is_empty(), "{:?}", plan.cuts);
    let is_right = |name: &String| [0, 10, 20].iter().any(|base| *name == format!("{base:020}.log"));
    assert!(own.names().iter().filter(|name| name.ends_with(".log")).all(is_right), "{:?}", own.names());
    assert_eq!(own.producers(10), [0, 2, 4, 6, 8]);
    assert_eq!(fs::read(own.file(10, "log")).unwrap(), log(10, 20));
    // A damaged offset is no wrong name.
    let far = Own::new(&[(5_000_000_000, log(0, 10))]);
    let plan = far.recover(0);
    assert_eq!((plan.start, plan.end, plan.cuts.len()), (Offset(5_000_000_000), Offset(5_000_000_000), 1));
    let first = Own::new(&[(3, log(0, 10))]);
    assert_eq!(first.recover(0).start, Offset(0));
    assert!(first.file(0, "log").exists() && !first.file(3, "log").exists());
}

#[test]
fn a_swap_that_is_damaged_does_not_cost_what_it_was_made_from() {
    let own = three();
    let mut swap = log(0, 20);
    let middle = swap.len() / 2;
    swap[middle] ^= 1;
    fs::write(own.file(0, "log.swap"), &swap).unwrap();
    let plan = own.plan(25, None).unwrap();
    let kinds: Vec<_> = plan.cuts.iter().map(|cut| cut.kind).collect();
    assert_eq!(kinds, [CutKind::Damaged, CutKind::Replaced, CutKind::Replaced]);
    own.recover(25);
    let pieces = quarantined(&own.quarantine(), "t-0");
    let of = |base: i64| pieces[&format!("{base:020}.log")].clone();
    assert_eq!((of(0), of(10)), (vec![(0, log(0, 10))], vec![(0, log(10, 20))]));
}

#[test]
fn a_swap_that_was_cut_short_between_two_names_has_indexes_after_an_orderly_stop_too() {
    let own = three();
    for kind in ["index", "timeindex"] {
        fs::rename(own.file(10, kind), own.file(10, &format!("{kind}.swap"))).unwrap();
    }
    own.recover(i64::MAX);
    assert!(own.file(10, "index").exists() && own.file(10, "timeindex").exists(), "{:?}", own.names());
    assert!(own.names().iter().all(|name| !name.ends_with(".swap")));
}

#[test]
fn a_log_that_ends_before_it_starts_becomes_an_empty_one_and_stays_it() {
    let own = three();
    let plan = own.plan(0, Some(100)).unwrap();
    assert!(plan.needs_quarantine());
    fs::create_dir_all(own.quarantine()).unwrap();
    plan.apply(&SystemDisk, Some(&own.quarantine())).unwrap();
    assert_eq!((plan.start, plan.end), (Offset(100), Offset(100)));
    let once = hashes(&own.partition());
    assert_eq!(logs(&own.partition()), BTreeMap::from([(format!("{:020}.log", 100), Vec::new())]));
    assert_eq!(quarantined(&own.quarantine(), "t-0").len(), 3);
    let again = own.plan(0, Some(100)).unwrap();
    assert!(again.cuts.is_empty());
    again.apply(&SystemDisk, None).unwrap();
    assert_eq!(hashes(&own.partition()), once);
}

#[test]
fn epochs_that_cannot_be_read_or_are_behind_the_end_do_not_stay() {
    for text in ["0\n1\nzero 0\n", "\0\u{1}\u{2}", "0\n1\n9 900\n"] {
        let own = Own::new(&[(0, Vec::new())]);
        fs::write(own.partition().join("leader-epoch-checkpoint"), text).unwrap();
        own.recover(0);
        let now = fs::read(own.partition().join("leader-epoch-checkpoint")).unwrap();
        assert_eq!(checkpoint::parse_epochs(&now).unwrap(), [], "{text:?}");
    }
}

#[test]
fn a_directory_without_segments_and_one_with_an_empty_one_stay_as_they_are() {
    let own = Own::new(&[]);
    fs::write(own.partition().join("notes.txt"), b"somebody's").unwrap();
    let before = states(&own.partition());
    let plan = own.recover(0);
    assert!(plan.is_empty() && plan.end == Offset(0));
    assert_eq!(states(&own.partition()), before);
    let empty = Own::new(&[(7, Vec::new())]);
    let plan = empty.recover(0);
    assert_eq!((plan.start, plan.end, plan.cuts.len()), (Offset(7), Offset(7), 0));
    assert_eq!(fs::read(empty.file(7, "log")).unwrap(), b"");
}

#[test]
fn what_a_compression_tool_made_is_refused() {
    let own = three();
    fs::write(own.file(40, "log.gz"), [0x1f, 0x8b, 8, 0]).unwrap();
    assert!(matches!(own.plan(0, None), Err(RecoveryError::Packed { .. })));
    let tiered = Own::new(&[]);
    let name = "00000000000000000000-JhPHoiVBRJGDIRxlxxJDRg.log";
    fs::write(tiered.partition().join(name), log(0, 4)).unwrap();
    assert!(matches!(tiered.plan(0, None), Err(RecoveryError::Packed { .. })));
}

#[test]
fn indexes_without_a_log_and_leftovers_go_and_foreign_files_stay() {
    let own = three();
    let names = ["index", "timeindex", "txnindex", "log.deleted", "log.cleaned", "snapshot.deleted"];
    for name in names {
        fs::write(own.file(13, name), b"old").unwrap();
    }
    let foreign = ["x.log", "00000000000000000013.log.bak", "partition.metadata"];
    for name in foreign {
        fs::write(own.partition().join(name), b"somebody's").unwrap();
    }
    own.recover(20);
    for name in names {
        assert!(!own.file(13, name).exists(), "{name}");
    }
    for name in foreign {
        assert!(own.partition().join(name).exists(), "{name}");
    }
}

#[test]
fn a_large_zero_tail_is_a_hole_in_the_quarantine() {
    use std::os::unix::fs::MetadataExt;
    let own = Own::new(&[(0, log(0, 10))]);
    let len = fs::metadata(own.file(0, "log")).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(own.file(0, "log")).unwrap();
    file.set_len(256 << 20).unwrap();
    let plan = own.recover(0);
    assert_eq!(plan.cuts.len(), 1);
    assert_eq!(fs::metadata(own.file(0, "log")).unwrap().len(), len);
    let kept = fs::metadata(own.quarantine().join(format!("t-0/{:020}.log.cut-at-{len}", 0))).unwrap();
    assert_eq!(kept.len(), (256 << 20) - len);
    assert!(kept.blocks() < 100, "{} blocks", kept.blocks());
}
