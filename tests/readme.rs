//! What the README shows is what happens.

#![allow(clippy::expect_used, reason = "a test that can't go on stops with a panic")]

mod common;

use std::path::Path;
use std::process::Command;

use common::console::examples;
use common::fixtures;
use common::mounted::{self, Mounted};

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
