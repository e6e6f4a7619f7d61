//! Salvage: what it writes of sound directories equals what their brokers wrote, and of damaged ones every sound batch is there.

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
use std::sync::OnceLock;

use common::salvaged::{all_batches, base_of, files, salvage, scratch, with_interval};
use common::{fixtures, mounted, shown};
use topicfs::format::index::{OffsetIndex, TimeIndex};
use topicfs::format::names::{FileState, FileType, Kind, PartitionDir, SegmentFile};
use topicfs::format::{checkpoint, snapshot};
use topicfs::fs::options::From;
use topicfs::fs::topic_options::TopicOptions;
use topicfs::log::salvage::report::PartitionReport;
use topicfs::log::salvage::{LeaderEpochs, Options};

/// `index.interval.bytes` of the topics of 4.4.0, as `tests/data/make` sets it.
fn interval_of(topic: &str) -> u64 {
    match topic {
        "seg-sparse" | "compact-dirty" => 4096,
        _ if topic.starts_with("time-") => 64,
        _ if ["seg-", "rep", "div-", "magic"].iter().any(|start| topic.starts_with(start)) => 128,
        "idem" | "del-middle" | "live-prealloc" | "live-rolled" | "ep" | "un" | "un-prealloc" | "jb" => 256,
        _ if topic.starts_with("txn-") || topic.starts_with("compact-") => 256,
        _ => 4096,
    }
}

/// A partition of a sound fixture, and what salvage made of it.
struct Pair {
    /// As in `segments` or `replicas-1`.
    case: String,
    /// As in `seg-size-0`.
    partition: String,
    theirs: BTreeMap<String, PathBuf>,
    ours: BTreeMap<String, PathBuf>,
    report: PartitionReport,
    _out: tempfile::TempDir,
}

/// How a directory is changed before it is salvaged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Untouched,
    /// Without all that can be made from the batches. The snapshot at the first segment's base stays, if that isn't 0: it
    /// stands for what was deleted before it.
    LogsAlone,
}

/// All partitions in use of Kafka 4.4.0's directories.
fn pairs(source: Source) -> &'static [Pair] {
    static UNTOUCHED: OnceLock<Vec<Pair>> = OnceLock::new();
    static LOGS_ALONE: OnceLock<Vec<Pair>> = OnceLock::new();
    let pairs = match source {
        Source::Untouched => UNTOUCHED.get_or_init(|| make_pairs(source)),
        Source::LogsAlone => LOGS_ALONE.get_or_init(|| make_pairs(source)),
    };
    assert!(pairs.len() > 80, "{}", pairs.len());
    pairs
}

fn make_pairs(source: Source) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for case in fixtures::cases().into_iter().filter(|case| case.version == "4.4.0") {
        for data in case.data_dirs() {
            let side = data.file_name().unwrap().to_str().unwrap().trim_start_matches("data");
            let copy = fixtures::copy(&data);
            for (partition, path) in files(copy.path()).into_iter().filter(|(_, path)| path.is_dir()) {
                let directory = PartitionDir::parse(&partition).unwrap();
                if directory.kind != Kind::Current {
                    continue;
                }
                if source == Source::LogsAlone {
                    strip(&path);
                }
                let out = scratch();
                let topic = &directory.partition.topic;
                let pattern = format!("{topic}/{}", directory.partition.partition);
                let report = salvage(copy.path(), &[&pattern], out.path(), with_interval(interval_of(topic)));
                pairs.push(Pair {
                    case: format!("{}{side}", case.name),
                    theirs: files(&data.join(&partition)),
                    ours: files(&out.path().join(&partition)),
                    report: report.partitions.into_iter().next().unwrap(),
                    partition,
                    _out: out,
                });
            }
        }
    }
    pairs
}

fn strip(partition: &Path) {
    let files = files(partition);
    let first = files.keys().find(|name| name.ends_with(".log")).unwrap().replace(".log", ".snapshot");
    for (name, path) in files {
        let is_made = ["index", ".snapshot", "leader-epoch-checkpoint"].iter().any(|end| name.ends_with(end));
        if is_made && name != first {
            fs::remove_file(path).unwrap();
        }
    }
}

/// A file, and its contents on their side and on ours.
type Sides = (SegmentFile, Option<Vec<u8>>, Option<Vec<u8>>);

impl Pair {
    /// The files of a type that one of the two has.
    fn of(&self, file_type: FileType) -> Vec<Sides> {
        let names: BTreeSet<_> = self.theirs.keys().chain(self.ours.keys()).collect();
        let files = names.into_iter().filter_map(|name| Some((name, SegmentFile::parse(name)?)));
        let files = files.filter(|(_, file)| file.file_type == file_type && file.state == FileState::Live);
        let read =
            |side: &BTreeMap<String, PathBuf>, name: &str| side.get(name).map(|path| fs::read(path).unwrap());
        files.map(|(name, file)| (file, read(&self.theirs, name), read(&self.ours, name))).collect()
    }

    fn is_of(&self, cases: &[&str]) -> bool {
        cases.iter().any(|case| self.case.starts_with(case))
    }

    fn name_of(&self, file: &SegmentFile) -> String {
        format!("{}/{}/{file}", self.case, self.partition)
    }
}

/// Directories whose brokers were restarted in the middle of segments: after a start a broker counts the bytes to the next
/// index entry from 0, so that its indexes have fewer entries than those of a rebuild.
const RESTARTED: &[&str] = &["epochs", "replicas"];

/// Directories of brokers that did not stop in order: no last entry in the time index of the active segment.
const NOT_CLOSED: &[&str] = &["live", "unclean", "kraft", "replicas"];

type OffsetEntries = Vec<(i64, u64)>;

fn offset_entries(file: &SegmentFile, bytes: &[u8]) -> OffsetEntries {
    let entries = OffsetIndex::new(file.base, bytes).entries();
    entries.map(|entry| (entry.offset.0, entry.position.0)).collect()
}

fn time_entries(file: &SegmentFile, bytes: &[u8]) -> Vec<(i64, i64)> {
    let entries = TimeIndex::new(file.base, bytes).entries();
    entries.map(|entry| (entry.timestamp.0, entry.offset.0)).collect()
}

#[test]
fn logs_and_indexes_of_sound_directories_are_what_their_brokers_wrote() {
    let (mut equal, mut restarted, mut unclosed) = (0, 0, 0);
    for pair in pairs(Source::LogsAlone) {
        assert_eq!(pair.report.left, [], "{}", pair.partition);
        for (file, theirs, ours) in pair.of(FileType::Log) {
            let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
            let zeros = theirs.strip_prefix(&ours[..]);
            assert!(zeros.is_some_and(|rest| rest.iter().all(|byte| *byte == 0)), "{}", pair.name_of(&file));
        }
        for (file, theirs, ours) in pair.of(FileType::OffsetIndex) {
            let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
            let (theirs, used) = (offset_entries(&file, &theirs), offset_entries(&file, &ours));
            assert_eq!(ours.len(), used.len() * 8, "{}", pair.name_of(&file));
            if theirs == used {
                equal += 1;
            } else {
                restarted += 1;
                assert!(pair.is_of(RESTARTED), "{}: {theirs:?}, {used:?}", pair.name_of(&file));
            }
        }
        for (file, theirs, ours) in pair.of(FileType::TimeIndex) {
            let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
            let (theirs, used) = (time_entries(&file, &theirs), time_entries(&file, &ours));
            assert_eq!(ours.len(), used.len() * 12, "{}", pair.name_of(&file));
            let but_last = used.split_last().map(|(_, before)| before);
            if theirs == used {
                equal += 1;
            } else if pair.is_of(NOT_CLOSED) && but_last == Some(&theirs[..]) {
                unclosed += 1;
            } else {
                restarted += 1;
                let is_of = pair.is_of(RESTARTED) || pair.is_of(&["kraft"]);
                assert!(is_of, "{}: {theirs:?}, {used:?}", pair.name_of(&file));
            }
        }
    }
    println!("{equal} indexes equal, {restarted} differ by a restart, {unclosed} by the last entry");
    assert!(equal > 300 && restarted < 60 && unclosed < 12);
}

/// Transaction indexes that differ, and why.
const TXN_INDEXES: &[(&str, &str)] = &[(
    "compacted/compact-txn-0/00000000000000000087.txnindex",
    "compaction left nothing of the transaction but its marker: the entry hides no record",
)];

#[test]
fn transaction_indexes_of_sound_directories_are_what_their_brokers_wrote() {
    let mut equal = 0;
    for pair in pairs(Source::LogsAlone) {
        for (file, theirs, ours) in pair.of(FileType::TxnIndex) {
            let name = pair.name_of(&file);
            match TXN_INDEXES.iter().find(|(odd, _)| *odd == name) {
                Some(_) => assert_ne!(theirs, ours, "{name}"),
                None => {
                    assert_eq!(theirs, ours, "{name}");
                    equal += 1;
                }
            }
        }
    }
    println!("{equal} transaction indexes equal");
    assert!(equal > 10, "{equal}");
}

/// Snapshots can't be told from batches where compaction took batches away, and where a broker forgot, at a start, producers that
/// were silent for a day: those of the fixtures wrote in 2023.
const FORGETTING: &[&str] = &["compacted", "epochs", "replicas"];

#[test]
fn producer_snapshots_of_sound_directories_have_the_entries_that_their_brokers_wrote() {
    let entries = |bytes: &[u8]| {
        let mut entries = snapshot::parse(bytes).unwrap();
        entries.sort_by_key(|entry| entry.producer_id.0);
        entries
    };
    let (mut equal, mut differ) = (0, 0);
    for pair in pairs(Source::LogsAlone) {
        for (file, theirs, ours) in pair.of(FileType::Snapshot) {
            let name = pair.name_of(&file);
            match (theirs, ours) {
                (Some(theirs), Some(ours)) if entries(&theirs) == entries(&ours) => equal += 1,
                (Some(_), Some(_)) => {
                    assert!(pair.is_of(FORGETTING), "{name}");
                    differ += 1;
                }
                // Of a stop in the middle of a segment.
                (Some(_), None) => assert!(pair.is_of(RESTARTED) || pair.is_of(&["kraft"]), "{name}"),
                (None, Some(_)) => {
                    assert_eq!(file.base, pair.report.log_end, "{name}");
                    assert!(pair.is_of(NOT_CLOSED), "{name}");
                }
                (None, None) => unreachable!(),
            }
        }
    }
    println!("{equal} snapshots equal, {differ} differ");
    assert!(equal > 120 && differ < 60);
    for pair in pairs(Source::Untouched) {
        for (file, theirs, ours) in pair.of(FileType::Snapshot) {
            if let (Some(theirs), Some(ours)) = (theirs, ours) {
                let name = pair.name_of(&file);
                assert_eq!(entries(&theirs), entries(&ours), "{name}: the source's own is gone on with");
            }
        }
    }
}

#[test]
fn leader_epochs_of_sound_directories_are_what_their_brokers_wrote() {
    let epochs_of = |side: &BTreeMap<String, PathBuf>| {
        let text = side.get("leader-epoch-checkpoint").map(|path| fs::read(path).unwrap());
        let entries = checkpoint::parse_epochs(&text.unwrap_or_default()).unwrap();
        entries.iter().map(|entry| (entry.epoch.0, entry.start_offset.0)).collect::<Vec<_>>()
    };
    for pair in pairs(Source::Untouched) {
        assert_eq!(epochs_of(&pair.theirs), epochs_of(&pair.ours), "{}/{}", pair.case, pair.partition);
        for name in ["partition.metadata", "quorum-state"] {
            let read = |side: &BTreeMap<String, PathBuf>| side.get(name).map(|path| fs::read(path).unwrap());
            assert_eq!(read(&pair.theirs), read(&pair.ours), "{}/{}", pair.case, pair.partition);
        }
        let has_kraft = |side: &BTreeMap<String, PathBuf>| {
            side.keys().filter(|name| name.ends_with(".checkpoint")).cloned().collect::<Vec<_>>()
        };
        assert_eq!(has_kraft(&pair.theirs), has_kraft(&pair.ours));
    }
    // Without a checkpoint: as the batches say, which don't know of an epoch in which nobody wrote.
    let mut silent = 0;
    for pair in pairs(Source::LogsAlone) {
        let (mut theirs, mut ours) = (epochs_of(&pair.theirs), epochs_of(&pair.ours));
        if pair.case == "compacted" {
            // The first records are gone: nothing tells where their epoch began.
            (theirs[0].1, ours[0].1) = (0, 0);
        }
        let ends_silent = theirs.last().is_some_and(|(_, start)| *start == pair.report.log_end.0);
        if ends_silent && theirs != ours {
            theirs.pop();
            silent += 1;
        }
        assert_eq!(theirs, ours, "{}/{}", pair.case, pair.partition);
    }
    println!("{silent} end in a silent epoch");
    assert!(silent > 0);
}

#[test]
fn of_the_hundred_damaged_copies_every_sound_batch_is_kept_byte_for_byte_and_nothing_else() {
    let cases = fixtures::damage_cases();
    let sound = |name: &str| all_batches(&cases.iter().find(|case| case.name == name).unwrap().partition());
    let originals = BTreeMap::from([("seg-size-0", sound("sound")), ("seg-gzip-0", sound("sound-gzip"))]);
    let mut whole = 0;
    for case in &cases {
        let out = scratch();
        let report = salvage(&case.data(), &[], out.path(), with_interval(128));
        let changed: Vec<i64> = case.expect.changed_batches.iter().map(|(base, _)| *base).collect();
        let is_legal = case.expect.readable.as_deref() == Some("all");
        let mut expected = originals[case.expect.topic.as_str()].clone();
        let is_swap = case.name == "leftover-swap";
        // A segment that is there as .swap only is read as Kafka's loader would: nothing is lost.
        expected.retain(|batch| is_swap || !changed.contains(&base_of(batch)));
        let lost = if is_swap { changed.len() } else { 0 };
        assert_eq!(expected.len(), case.expect.sound_batches + lost, "{}", case.name);
        let mut kept = all_batches(&out.path().join(&case.expect.topic));
        if is_legal {
            let at = kept.iter().position(|batch| changed.contains(&base_of(batch))).unwrap();
            kept.remove(at);
        }
        let bases = |batches: &[Vec<u8>]| batches.iter().map(|batch| base_of(batch)).collect::<Vec<_>>();
        assert_eq!(bases(&kept), bases(&expected), "{}", case.name);
        assert_eq!(kept, expected, "{}", case.name);
        whole += usize::from(report.is_whole());
        check_reading(&case.name, out.path(), &case.expect.topic);
    }
    println!("{whole} of {} kept whole", cases.len());
    assert_eq!(cases.len(), 100);
}

/// Reads a salvaged directory with our own engine, and salvages it again: it must be sound.
fn check_reading(case: &str, data: &Path, topic: &str) {
    let (topic, number) = topic.rsplit_once('-').unwrap();
    let fs = shown::open(
        data.to_str().unwrap(),
        TopicOptions { from: From::FirstSegment, ..TopicOptions::default() }.into(),
    );
    shown::read(&fs, &format!("{topic}/{number}/log"));
    assert_eq!(shown::read(&fs, &format!("{topic}/{number}/problems")), b"", "{case}");
    let again = scratch();
    let report = salvage(data, &[], again.path(), with_interval(128));
    assert!(report.is_whole(), "{case}: {report:?}");
    let name = format!("{topic}-{number}");
    let (first, second) = (files(&data.join(&name)), files(&again.path().join(&name)));
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>(), "{case}");
    for (name, path) in first {
        assert_eq!(fs::read(path).unwrap(), fs::read(&second[&name]).unwrap(), "{case}/{name}");
    }
}

/// Runs the command; its exit code, standard output and standard error.
fn run(args: &[&str]) -> (i32, String, String) {
    let output = mounted::topicfs().arg("salvage").args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn damaged(name: &str) -> String {
    let case = fixtures::damage_cases().into_iter().find(|case| case.name == name).unwrap();
    case.data().into_os_string().into_string().unwrap()
}

#[test]
fn the_command_tells_what_it_kept_and_what_it_left() {
    let out = scratch();
    let new = out.path().join("new");
    let (source, new) = (damaged("zeros-middle"), new.to_str().unwrap());
    let (code, dry, error) = run(&["--dry-run", "-o", new, &source]);
    assert_eq!((code, error.as_str()), (1, ""));
    assert!(!Path::new(new).exists(), "a dry run writes nothing");
    let (code, text, error) = run(&["-o", new, &source]);
    assert_eq!((code, error.as_str()), (1, ""));
    assert_eq!(text.replace("kept 1 partitions", "would keep 1 partitions"), dry);
    let expected = "\
        seg-size-0: kept 3 segments, 19 batches, 72 records, 8617 bytes, log start 0, log end 80, \
        8 offsets between are in no batch\n  \
        left 00000000000000000025.log at 1429, 1047 bytes, offsets 36 to 43: \
        checksum is 0xd5c68c82, the batch says 0x9a92e59d\n\
        kept 1 partitions, 3 segments, 19 batches, 72 records, 8617 bytes\nleft 1 pieces, 1047 bytes\n";
    assert_eq!(text, expected);
    // What is written is whole: nothing is left of it.
    let again = out.path().join("again");
    let (code, text, _) = run(&["--format", "json", "-o", again.to_str().unwrap(), new]);
    assert_eq!(code, 0, "{text}");
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["kept"]["bytes"], 8617);
    assert_eq!(report["left"], serde_json::json!({"pieces": 0, "bytes": 0}));
    let partition = &report["partitions"][0];
    let expected =
        [("firstOffset", 0), ("lastOffset", 79), ("absentOffsets", 8), ("logStart", 0), ("logEnd", 80)];
    for (key, value) in expected {
        assert_eq!(partition[key], value, "{key}");
    }
    assert_eq!(
        files(Path::new(new)).keys().collect::<Vec<_>>(),
        ["meta.properties", "replication-offset-checkpoint", "seg-size-0"]
    );
}

#[test]
fn an_end_without_a_trace_is_noted() {
    let out = scratch();
    let (code, text, _) = run(&["--dry-run", "-o", out.path().to_str().unwrap(), &damaged("log-empty-last")]);
    assert_eq!(code, 0);
    assert!(text.contains("the log went on to 80"), "{text}");
}

#[test]
fn sources_and_directories_with_something_in_them_are_not_written_to() {
    let copy = fixtures::copy(Path::new(&damaged("sound")));
    let source = copy.path().to_str().unwrap();
    let before = files(copy.path());
    let refused = |out: &str, words: &[&str], why: &str| {
        let (code, _, error) = run(&[&["-o", out, source], words].concat());
        assert!(code == 2 && error.contains(why), "{code} {error}");
        assert_eq!(files(copy.path()), before);
    };
    refused(&format!("{source}/new"), &[], "must not share a directory");
    refused(source, &[], "must not share a directory");
    let full = tempfile::tempdir().unwrap();
    fs::write(full.path().join("x"), "").unwrap();
    refused(full.path().to_str().unwrap(), &[], "is not empty");
    let new = full.path().join("new");
    refused(new.to_str().unwrap(), &["seg-size/1"], "no partition has this name");
    refused(full.path().join("a/b").to_str().unwrap(), &[], "o such file or directory");
    let partition = format!("{source}/seg-size-0");
    let (code, _, error) = run(&["-o", &format!("{source}/out"), &partition]);
    assert!(code == 2 && error.contains("is a broker's data directory"), "{error}");
    assert!(!new.exists());
}

#[test]
fn leftovers_are_taken_by_name_and_directories_stay_apart() {
    let case = fixtures::case("4.4.0", "jbod");
    let dirs: Vec<_> = case.data_dirs().into_iter().map(|dir| dir.to_str().unwrap().to_owned()).collect();
    let source = dirs.join(",");
    let out = scratch();
    let to = |name: &str| out.path().join(name).into_os_string().into_string().unwrap();
    let (code, text, _) = run(&["-o", &to("all"), &source]);
    assert_eq!(code, 0);
    assert!(text.contains("name jb-unknown/7.stray to take it"), "{text}");
    assert!(out.path().join("all/data-a/meta.properties").exists());
    assert!(out.path().join("all/data-b/meta.properties").exists());
    let (code, text, _) = run(&["-o", &to("stray"), &source, "jb-unknown/7.stray", "jb-gone/*.delete"]);
    assert_eq!(code, 0, "{text}");
    assert!(out.path().join("stray/data-a/jb-unknown-7/00000000000000000000.log").exists());
    assert!(out.path().join("stray/data-b/jb-gone-1").exists());
    // A leftover and the partition itself would have one name.
    let copy = fixtures::copy(Path::new(&dirs[1]));
    let gone = files(copy.path()).into_keys().find(|name| name.starts_with("jb-gone-1.")).unwrap();
    fixtures::copy_into(&copy.path().join(gone), &copy.path().join("jb-gone-1"));
    let both = to("both");
    let (code, _, error) = run(&["-o", &both, copy.path().to_str().unwrap(), "jb-gone/1", "jb-gone/1.*"]);
    assert!(code == 2 && error.contains("would both become"), "{error}");
    assert!(!Path::new(&both).exists());
}

#[test]
fn one_partition_or_one_segment_is_a_source_too() {
    let partition = format!("{}/seg-size-0", damaged("sound"));
    let out = scratch();
    let to = |name: &str| out.path().join(name).into_os_string().into_string().unwrap();
    let (code, text, _) = run(&["-o", &to("partition"), &partition]);
    assert_eq!((code, text.lines().last()), (0, Some("left 0 pieces, 0 bytes")));
    assert_eq!(all_batches(&out.path().join("partition/seg-size-0")), all_batches(Path::new(&partition)));
    let (code, text, _) = run(&["-o", &to("segment"), &format!("{partition}/00000000000000000025.log")]);
    assert_eq!(code, 0, "{text}");
    let names: Vec<_> = files(&out.path().join("segment/seg-size-0")).into_keys().collect();
    let expected = [
        "00000000000000000025.index",
        "00000000000000000025.log",
        "00000000000000000025.snapshot",
        "00000000000000000025.timeindex",
        "00000000000000000049.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ];
    assert_eq!(names, expected);
}

#[test]
fn the_source_is_not_touched() {
    let copy = fixtures::copy(Path::new(&damaged("batch-twice")));
    let state = || {
        let of = |path: &PathBuf| {
            let meta = fs::metadata(path).unwrap();
            (path.clone(), meta.len(), meta.modified().unwrap(), meta.accessed().unwrap())
        };
        files(&copy.path().join("seg-size-0"))
            .values()
            .chain(files(copy.path()).values())
            .map(of)
            .collect::<Vec<_>>()
    };
    let before = state();
    let out = scratch();
    let report = salvage(copy.path(), &[], out.path(), with_interval(128));
    assert_eq!(report.left(), (1, 337));
    assert_eq!(state(), before);
}

#[test]
fn epochs_of_a_new_topic_begin_at_0_and_nothing_else_changes() {
    let source = fixtures::case("4.4.0", "epochs").data();
    let out = scratch();
    let options = Options { leader_epochs: LeaderEpochs::Reset, ..with_interval(256) };
    salvage(&source, &["ep/0"], out.path(), options);
    let (theirs, ours) = (all_batches(&source.join("ep-0")), all_batches(&out.path().join("ep-0")));
    assert_eq!(theirs.len(), ours.len());
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!((&theirs[..12], &theirs[16..]), (&ours[..12], &ours[16..]));
        assert_eq!(ours[12..16], [0; 4]);
    }
    assert_eq!(fs::read_to_string(out.path().join("ep-0/leader-epoch-checkpoint")).unwrap(), "0\n1\n0 0\n");
}

/// Found by fuzzing: a snapshot of a later offset under an earlier name has a right checksum, and is not believed.
#[test]
fn a_snapshot_that_knows_of_later_offsets_is_made_anew() {
    let case = fixtures::case("4.4.0", "idempotent");
    let copied = fixtures::copy(&case.data());
    let partition = fs::read_dir(copied.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir() && snapshots(path).len() > 1 && !path.to_string_lossy().contains("__"));
    let partition = partition.expect("a partition with snapshots");
    let names = snapshots(&partition);
    let (first, last) = (partition.join(&names[0]), partition.join(names.last().unwrap()));
    let right = topicfs::format::snapshot::parse(&fs::read(&first).unwrap()).unwrap();
    fs::copy(&last, &first).unwrap();
    let out = tempfile::tempdir().unwrap();
    let source = partition.to_str().unwrap();
    let target = out.path().join("out");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_topicfs"))
        .args(["salvage", source, "-o", target.to_str().unwrap()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("knows of offsets behind the one in its name"), "{text}");
    let made = target.join(partition.file_name().unwrap()).join(&names[0]);
    let made = topicfs::format::snapshot::parse(&fs::read(made).unwrap()).unwrap();
    let by_producer = |mut entries: Vec<topicfs::format::snapshot::ProducerEntry>| {
        entries.sort_by_key(|entry| entry.producer_id);
        entries
    };
    assert_eq!(by_producer(made), by_producer(right));
}

/// The producer snapshots of a partition, by offset.
fn snapshots(partition: &Path) -> Vec<String> {
    let names = fs::read_dir(partition).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> =
        names.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".snapshot")).collect();
    names.sort();
    names
}
