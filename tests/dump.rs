//! Dumps are Kafka's own text, byte for byte: every file of the fixtures of which kafka-dump-log 4.4.0 said something.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that can't go on stops with a panic")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use common::dumped::{Ours, dump_file};
use common::fixtures::{self, Dump, DumpKind};
use tempfile::TempDir;
use topicfs::view::dump::MARK;
use topicfs::view::dump::entry::{Level, Shown};

/// What Kafka's tool said.
struct Kafkas {
    /// stdout.
    text: Vec<u8>,
    /// stderr, but for what ended the tool.
    reports: String,
    /// The exception that ended it.
    thrown: Option<String>,
}

/// Old fixtures have everything in one file: lines `2> ` and `!! ` behind the text.
fn kafkas(dump: &Dump) -> Kafkas {
    let all = fs::read(&dump.text).expect("a dump");
    let (mut text, mut reports, mut thrown) = (Vec::new(), String::new(), None);
    for line in all.split_inclusive(|byte| *byte == b'\n') {
        if let Some(report) = line.strip_prefix(b"2> ") {
            reports.push_str(&String::from_utf8_lossy(report));
        } else if let Some(what) = line.strip_prefix(b"!! ") {
            thrown = Some(String::from_utf8_lossy(what).trim_end().to_owned());
        } else {
            text.extend_from_slice(line);
        }
    }
    if let Some(path) = &dump.stderr {
        for line in fs::read_to_string(path).expect("stderr").lines() {
            match line.strip_prefix("thrown ") {
                Some(what) => thrown = Some(what.to_owned()),
                None if line.starts_with("caused by") => {}
                None => reports.push_str(&format!("{line}\n")),
            }
        }
    }
    Kafkas { text, reports, thrown }
}

fn shown(dump: &Dump, text: &[u8]) -> Shown {
    let has_contents = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    // Old topics named `big` were dumped without payloads.
    let is_deep_only =
        has_contents(b"\n| offset: ") && !has_contents(b" payload: ") && !has_contents(b" key: ");
    match dump.kind {
        DumpKind::Batches => Shown::all(Level::Batches),
        DumpKind::Full if is_deep_only => Shown::all(Level::Records),
        DumpKind::Full | DumpKind::Undecoded => Shown::all(Level::Contents),
    }
}

fn all_dumps() -> Vec<(String, Dump)> {
    let mut all = Vec::new();
    for case in fixtures::cases() {
        let name = format!("{}/{}", case.version, case.name);
        all.extend(case.dumps().into_iter().map(|dump| (name.clone(), dump)));
    }
    for case in fixtures::damage_cases() {
        let name = format!("damage/{}", case.name);
        all.extend(case.dumps().into_iter().map(|dump| (name.clone(), dump)));
    }
    all
}

/// The files of a tiered store, which Kafka's tool saw under plain names: copies with those names, and what it said.
fn tiered_dumps() -> (TempDir, Vec<(String, Dump)>) {
    let copies = tempfile::tempdir().expect("a directory");
    let case = fixtures::case("4.3.1", "tiered");
    let mut all = Vec::new();
    for partition in list(&case.dir.join("remote/kafka-tiered-storage")) {
        let name = file_name(&partition);
        let plain = copies.path().join(&name[..name.len() - "-".len() - 22]);
        fs::create_dir(&plain).expect("a directory");
        for file in list(&partition) {
            let name = file_name(&file);
            let (stem, extension) = name.split_once('.').expect("a dot");
            fs::copy(&file, plain.join(format!("{}.{extension}", &stem[..20]))).expect("a copy");
        }
        for source in list(&plain) {
            let expect = case.dir.join("expect/remote").join(file_name(&plain));
            let text = expect.join(file_name(&source) + ".dump");
            let stderr = Some(expect.join(file_name(&source) + ".dump.stderr")).filter(|path| path.exists());
            if text.exists() {
                all.push(("tiered".to_owned(), Dump { source, text, kind: DumpKind::Full, stderr }));
            }
        }
    }
    (copies, all)
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = entries.collect();
    paths.sort();
    paths
}

fn file_name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

fn compare(dump: &Dump) -> (Kafkas, Ours) {
    let kafkas = kafkas(dump);
    let first = kafkas.text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let path = String::from_utf8_lossy(first.strip_prefix(b"Dumping ").expect("Dumping")).into_owned();
    let ours = dump_file(&dump.source, &path, shown(dump, &kafkas.text));
    (kafkas, ours)
}

/// The topics whose logs were dumped with a decoder from 3.9.1 on; what that prints belongs to another test.
fn is_decoded(case: &str, dump: &Dump) -> bool {
    let is_internal = dump.source.iter().any(|part| part.to_string_lossy().starts_with("__"));
    let is_log = dump.source.extension().is_some_and(|e| e == "log" || e == "checkpoint");
    let is_new = ["4.4.0/", "4.3.1/", "3.9.1/"].iter().any(|version| case.starts_with(version));
    is_internal && is_log && is_new && dump.kind == DumpKind::Full
}

/// Texts that are not Kafka's, nor Kafka's and then a line of ours: case, end of the file's name, why.
const DIFFERENCES: [(&str, &str, &str); 9] = [
    ("0.10.2.2/damaged", "zeros-0/00000000000000000000.timeindex", ZERO_TAIL),
    ("4.4.0/live", "live-prealloc-0/00000000000000000000.timeindex", ZERO_TAIL),
    ("4.4.0/unclean", "un-prealloc-0/00000000000000000000.timeindex", ZERO_TAIL),
    ("damage/zero-tail", "00000000000000000049.timeindex", ZERO_TAIL),
    ("damage/index-missing", "00000000000000000025.timeindex", NO_INDEX),
    ("damage/length-negative", "00000000000000000025.timeindex", DAMAGE_BEHIND),
    ("damage/length-small", "00000000000000000025.timeindex", DAMAGE_BEHIND),
    ("damage/length-zero", "00000000000000000025.timeindex", DAMAGE_BEHIND),
    ("damage/zeros-middle", "00000000000000000025.timeindex", DAMAGE_BEHIND),
];
const ZERO_TAIL: &str =
    "Kafka stops at the first entry because the log ends in zeros; the time index is right";
const DAMAGE_BEHIND: &str =
    "Kafka stops at the first entry because the log is damaged behind it; the entry is right";
const NO_INDEX: &str = "Kafka's tool made the missing offset index while it stopped; here it is an empty one";

#[test]
fn every_dump_of_the_fixtures_is_kafkas_own() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unused: BTreeSet<_> = DIFFERENCES.iter().map(|(case, file, _)| (*case, *file)).collect();
    let (_copies, tiered) = tiered_dumps();
    for (case, dump) in all_dumps().into_iter().chain(tiered) {
        if is_decoded(&case, &dump) {
            *counts.entry("made with a decoder, not compared").or_default() += 1;
            continue;
        }
        let (kafkas, ours) = compare(&dump);
        let place = format!("{case}: {}", dump.text.display());
        let difference = DIFFERENCES
            .iter()
            .find(|(of, file, _)| *of == case && dump.source.to_string_lossy().ends_with(file));
        let Some(rest) = ours.text.strip_prefix(kafkas.text.as_slice()) else {
            let at = kafkas.text.iter().zip(&ours.text).take_while(|(a, b)| a == b).count();
            let around = |text: &[u8]| {
                String::from_utf8_lossy(&text[at.saturating_sub(60)..(at + 60).min(text.len())]).into_owned()
            };
            panic!("{place}: byte {at}\nKafka {:?}\nours  {:?}", around(&kafkas.text), around(&ours.text));
        };
        let rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        let what = match (rest, difference) {
            (b"", None) => "equal",
            (_, Some((of, file, _))) => {
                assert!(kafkas.thrown.is_some() && !rest.is_empty(), "{place}: no difference");
                unused.remove(&(*of, *file));
                "goes on without a word where Kafka's tool stopped"
            }
            (_, None) => {
                assert!(rest.starts_with(MARK.as_bytes()), "{place}: {}", String::from_utf8_lossy(rest));
                assert!(kafkas.thrown.is_some() || ours.is_damaged, "{place}: says more than Kafka");
                "goes on after a line of ours where Kafka's tool stopped"
            }
        };
        *counts.entry(what).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(unused.is_empty(), "{unused:?}");
    assert_eq!(counts.values().sum::<usize>(), 2849);
    assert!(counts["equal"] > 2600, "{counts:?}");
}

/// Reports of Kafka's tool on damaged logs that are not ours, as what is wrong lies elsewhere: case, end of the file's name, why.
const OTHER_REPORTS: [(&str, &str, &str); 6] = [
    (
        "damage/index-of-other-segment",
        ".timeindex",
        "led astray by the offset index, which has its own reports",
    ),
    ("damage/last-delta-wrong", ".index", "the batch covers too many offsets, the entry's is one of them"),
    (
        "damage/last-delta-wrong",
        ".timeindex",
        "the batch covers too many offsets, the entry's is one of them",
    ),
    ("damage/name-too-high", ".timeindex", "all offsets are off by five: what is found there differs"),
    ("damage/length-huge", ".log", "Kafka ends there; behind the gap the dump goes on"),
    ("damage/length-big", ".log", "Kafka ends there; behind the gap the dump goes on"),
];

/// Without the path, of which old fixtures have only the last part.
fn without_path(report: &str) -> &str {
    let ends =
        [" in :", "Non-consecutive offsets in "].iter().filter_map(|end| Some(report.find(end)? + end.len()));
    ends.min().map_or(report, |end| &report[..end])
}

/// Kafka's reports but for the false alarm about the first offset.
fn without_first_offset(reports: &str) -> Vec<&str> {
    let mut lines: Vec<&str> =
        reports.lines().filter(|line| !line.starts_with("  -1 is followed by ")).collect();
    if matches!(lines.as_slice(), [only] if only.starts_with("Non-consecutive")) {
        lines.clear();
    }
    lines.into_iter().map(without_path).collect()
}

#[test]
fn real_mismatches_are_reported_and_false_alarms_are_not() {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unused: BTreeSet<_> = OTHER_REPORTS.iter().map(|(case, file, _)| (*case, *file)).collect();
    for (case, dump) in all_dumps() {
        let (kafkas, ours) = compare(&dump);
        let place = format!("{case}: {}", dump.source.display());
        let expected = without_first_offset(&kafkas.reports);
        let reports: Vec<&str> = ours.reports.lines().map(without_path).collect();
        if kafkas.reports.contains("  -1 is followed by ") {
            *counts.entry("false alarms about the first offset").or_default() += 1;
        }
        let is_log = reports.iter().chain(&expected).any(|line| line.starts_with("Non-consecutive"));
        let is_sound =
            !case.starts_with("damage/") && !case.ends_with("/damaged") && !case.ends_with("/torn");
        let is_full = dump.kind == DumpKind::Full;
        let other = OTHER_REPORTS
            .iter()
            .find(|(of, end, _)| is_full && *of == case && dump.source.to_string_lossy().ends_with(end));
        let what = if kafkas.thrown.is_some() {
            // Kafka's tool tells nothing once it has thrown.
            if is_sound {
                assert_eq!(ours.reports, "", "{place}");
            }
            "not told, as the tool threw"
        } else if let Some((of, end, _)) = other {
            assert_ne!(reports, expected, "{place}: no difference");
            unused.remove(&(*of, *end));
            "others, for a reason"
        } else if is_sound && !is_log {
            assert_eq!(ours.reports, "", "{place}");
            if expected.is_empty() { "none" } else { "false alarms about indexes" }
        } else if case.ends_with("-zeros") {
            assert_eq!(ours.reports, "", "{place}");
            "false alarms about indexes"
        } else if !is_sound && !is_log && reports.len() < expected.len() && !case.starts_with("damage/") {
            assert!(reports.iter().all(|line| expected.contains(line)), "{place}: {reports:?} {expected:?}");
            "false alarms about indexes"
        } else {
            assert_eq!(reports, expected, "{place}");
            match (expected.is_empty(), is_log) {
                (true, _) => "none",
                (false, true) => "gaps, the same",
                (false, false) => "mismatches, the same",
            }
        };
        *counts.entry(what).or_default() += 1;
    }
    println!("{counts:#?}");
    assert!(unused.is_empty(), "{unused:?}");
    assert!(counts["false alarms about indexes"] > 100, "{counts:?}");
    assert!(counts["mismatches, the same"] > 10 && counts["gaps, the same"] > 10, "{counts:?}");
}
