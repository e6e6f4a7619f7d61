//! Dumps are Kafka's own text, byte for byte: every file of the fixtures of which kafka-dump-log 4.4.0 said something.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that can't go on stops with a panic")]

mod common;

use std::collections::BTreeMap;
use std::fs;

use common::dumped::{Ours, dump_file};
use common::fixtures::{self, Dump, DumpKind};
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

fn compare(dump: &Dump) -> (Kafkas, Ours) {
    let kafkas = kafkas(dump);
    let first = kafkas.text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let path = String::from_utf8_lossy(first.strip_prefix(b"Dumping ").expect("Dumping")).into_owned();
    let ours = dump_file(&dump.source, &path, shown(dump, &kafkas.text));
    (kafkas, ours)
}

#[test]
fn probe() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (case, dump) in all_dumps() {
        let (kafkas, ours) = compare(&dump);
        let what = if kafkas.text == ours.text {
            format!("equal, thrown {}", kafkas.thrown.is_some())
        } else if ours.text.starts_with(&kafkas.text) {
            let rest = String::from_utf8_lossy(&ours.text[kafkas.text.len()..]).into_owned();
            if !rest.trim_start_matches('\n').starts_with("topicfs: ") {
                println!(
                    "NOMARK {case} {} {:?} {:?}",
                    dump.text.display(),
                    kafkas.thrown,
                    &rest[..rest.len().min(200)]
                );
            }
            format!(
                "prefix, marked {}, thrown {}",
                rest.trim_start_matches('\n').starts_with("topicfs: "),
                kafkas.thrown.is_some()
            )
        } else {
            let at = kafkas.text.iter().zip(&ours.text).position(|(a, b)| a != b).unwrap_or(0);
            let show = |text: &[u8]| {
                String::from_utf8_lossy(&text[at.saturating_sub(30)..(at + 60).min(text.len())]).into_owned()
            };
            println!(
                "DIFF {case} {} at {at}: {:?} / {:?}",
                dump.text.display(),
                show(&kafkas.text),
                show(&ours.text)
            );
            "differ".to_owned()
        };
        *counts.entry(what).or_default() += 1;
        if kafkas.reports != ours.reports {
            println!(
                "REPORT {case} {} {:?}\n--- kafka\n{}--- ours\n{}",
                dump.source.display(),
                kafkas.thrown,
                kafkas.reports,
                ours.reports
            );
        }
    }
    println!("{counts:#?}");
}
