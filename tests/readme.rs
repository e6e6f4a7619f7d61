//! What the README shows is what happens.

#![allow(clippy::expect_used, reason = "a test that can't go on stops with a panic")]

mod common;

use std::path::Path;
use std::process::Command;

use common::console::examples;
use common::exposition::Metrics;
use common::fixtures;
use common::mounted::{self, Mounted, wait_until};

/// The sample data, as `data` in a directory of its own.
fn sample_data() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data.tar.zst");
    let archive = zstd::Decoder::new(std::fs::File::open(archive).expect("the sample data")).expect("zstd");
    tar::Archive::new(archive).unpack(directory.path()).expect("unpacked");
    directory
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    if !["jq", "find"].iter().all(|tool| mounted::has(tool)) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("README.md");
    let examples = examples(&readme);
    assert!(examples.len() >= 8, "{} examples", examples.len());
    let data = sample_data();
    let Some(mount) = Mounted::new(data.path().join("data")) else { return };
    for (command, shown) in examples {
        let output =
            Command::new("sh").arg("-c").arg(&command).current_dir(mount.point()).env("LC_ALL", "C").output();
        let output = output.expect("sh runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, shown, "$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn the_commands_of_the_forensics_document_print_what_it_shows() {
    if ["jq", "gzip", "sha256sum", "dd"].iter().all(|tool| mounted::has(tool)) {
        check_document("docs/forensics.md", 12, sample_data().path());
    }
}

#[test]
fn the_commands_of_the_document_of_recovery_print_what_it_shows() {
    if ["dd", "truncate"].iter().all(|tool| mounted::has(tool)) {
        check_document("docs/recover.md", 14, sample_data().path());
    }
}

#[test]
fn the_commands_of_the_document_of_old_records_print_what_it_shows() {
    check_document("docs/clean.md", 9, sample_data().path());
}

#[test]
fn the_commands_of_the_document_of_copies_print_what_it_shows() {
    check_document("docs/replicas.md", 12, sample_data().path());
}

#[test]
fn the_commands_of_the_document_of_configurations_print_what_it_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("docs/config.md")).expect("docs/config.md");
    let (_, rest) = document.split_once("```yaml\n").expect("an example");
    let (yaml, _) = rest.split_once("```").expect("its end");
    let directory = sample_data();
    std::fs::write(directory.path().join("topicfs.yaml"), yaml).expect("it can be written");
    check_document("docs/config.md", 5, directory.path());
}

#[test]
fn the_commands_of_the_document_of_info_print_what_it_shows() {
    if !mounted::has("jq") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    for (case, name) in [("kraft", "metadata"), ("epochs", "data")] {
        fixtures::copy_into(&fixtures::case("4.4.0", case).data_dirs()[0], &directory.path().join(name));
    }
    check_document("docs/info.md", 2, directory.path());
}

/// The document lists what the file has, its commands print what it shows, and the numbers are those of what was done.
#[test]
fn the_metrics_are_as_their_document_says() {
    let data = sample_data();
    let source = data.path().join("a\"b\\c");
    std::fs::rename(data.path().join("data"), &source).expect("renamed");
    let Some(mount) = Mounted::new(&source) else { return };
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let document = std::fs::read_to_string(document).expect("a document");
    let examples = examples(&document);
    assert!(examples.len() >= 5, "{} examples", examples.len());
    for (command, shown) in examples {
        let mut sh = Command::new("sh");
        let output = sh.arg("-c").arg(&command).current_dir(mount.point()).env("LC_ALL", "C").output();
        let output = output.expect("sh runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), shown, "$ {command}");
    }

    let now = || Metrics::of(&mount.path(".topicfs/metrics"));
    let metrics = now();
    let listed: Vec<_> = metrics
        .families
        .iter()
        .map(|family| {
            let labels = family.samples.keys().next().into_iter().flat_map(|labels| labels.keys());
            (family.name.clone(), family.kind.clone(), labels.cloned().collect(), family.help.clone())
        })
        .collect();
    let mut documented = documented_metrics(&document);
    for ((_, _, labels, _), family) in documented.iter_mut().zip(&metrics.families) {
        if family.samples.is_empty() {
            labels.clear();
        }
    }
    assert_eq!(documented, listed);

    let spec = source.to_str().expect("UTF-8");
    assert_eq!(metrics.get("topicfs_mount_info", &[("source", spec), ("mode", "read")]), 1.0);
    counts_are_those_of_what_was_done(&mount, &source.join("customers-0"), &now);
}

/// Name, type, labels and meaning of each metric in the document's table.
fn documented_metrics(document: &str) -> Vec<(String, String, Vec<String>, String)> {
    let rows = document.lines().filter(|line| line.starts_with("| `topicfs_"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells.try_into().expect("four cells");
        let mut labels: Vec<_> =
            labels.split_whitespace().map(|label| label.trim_matches('`').to_owned()).collect();
        labels.sort();
        (name.trim_matches('`').to_owned(), kind.to_owned(), labels, meaning.to_owned())
    })
    .collect()
}

fn counts_are_those_of_what_was_done(mount: &Mounted, source: &Path, now: &dyn Fn() -> Metrics) {
    const ENOENT: &[(&str, &str)] = &[("operation", "lookup"), ("error", "ENOENT")];
    let len = |path: &Path| std::fs::metadata(path).expect("a file").len() as f64;
    let first_len = len(&source.join("00000000000000000000.log"));
    let logs = mounted::names(source).into_iter().filter(|name| name.ends_with(".log"));
    let source_len: f64 = logs.map(|name| len(&source.join(name))).sum();
    let before = now();
    let jsonl = mount.path("customers/0/log.jsonl");
    let held = std::fs::File::open(&jsonl).expect("opened");
    let rendered = mounted::read(&jsonl).len() as f64;
    let between = now();
    let raw = mounted::read(&mount.path("customers/0/segments/00000000000000000000.log")).len() as f64;
    assert!(std::fs::metadata(mount.path("customers/0/by-offset/99999999")).is_err());
    let after = now();

    let grown = |from: &Metrics, to: &Metrics, name: &str, labels: &[(&str, &str)]| {
        to.get(name, labels) - from.get(name, labels)
    };
    let customers = &[("topic", "customers")];
    assert_eq!(raw, first_len);
    assert_eq!(grown(&before, &between, "topicfs_read_bytes_total", customers), rendered);
    assert_eq!(grown(&between, &after, "topicfs_read_bytes_total", customers), raw);
    assert_eq!(grown(&before, &after, "topicfs_read_bytes_total", &[("topic", "orders")]), 0.0);
    assert_eq!(grown(&before, &between, "topicfs_measured_bytes_total", &[]), source_len);
    assert!(grown(&before, &between, "topicfs_measuring_seconds_total", &[]) > 0.0);
    assert!(grown(&before, &between, "topicfs_rendered_bytes_total", &[]) >= rendered);
    assert!(grown(&before, &between, "topicfs_source_read_bytes_total", &[]) >= source_len);
    assert!(grown(&before, &between, "topicfs_decoded_batches_total", &[]) >= 1.0);
    for name in ["topicfs_decoded_batches_total", "topicfs_rendered_bytes_total"] {
        assert_eq!(grown(&between, &after, name, &[]), 0.0, "source files are given as they are: {name}");
    }
    assert_eq!(grown(&before, &after, "topicfs_request_errors_total", ENOENT), 1.0);
    assert_eq!(grown(&before, &between, "topicfs_requests_total", &[("operation", "open")]), 3.0);
    let one_is_open = || now().get("topicfs_open_handles", &[("kind", "file")]) == 1.0;
    wait_until("only what is held is open", one_is_open);
    drop(held);
    let problems = &after.family("topicfs_problems").samples;
    assert!(problems.len() > 20 && problems.values().all(|count| *count == 0.0), "{problems:?}");
}

/// Runs the commands of a document in a directory, where `data` is the sample data.
fn check_document(document: &str, at_least: usize, directory: &Path) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let examples = examples(&std::fs::read_to_string(path).expect("a document"));
    assert!(examples.len() >= at_least, "{} examples", examples.len());
    let binary = Path::new(env!("CARGO_BIN_EXE_topicfs")).parent().expect("a directory");
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").expect("PATH"));
    for (command, shown) in examples {
        let mut sh = Command::new("sh");
        sh.arg("-c").arg(&command).current_dir(directory).env("LC_ALL", "C").env("PATH", &path);
        let output = sh.env("XDG_CACHE_HOME", directory).output().expect("sh runs");
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some(code @ 1..) = output.status.code() {
            printed.push_str(&format!("[{code}]\n"));
        }
        assert_eq!(printed, shown, "$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
