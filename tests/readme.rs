//! What the README shows is what happens.

#![allow(clippy::expect_used, reason = "a test that can't go on stops with a panic")]

mod common;

use std::path::Path;
use std::process::Command;

use common::mounted::{self, Mounted};

/// The commands of the README's `console` blocks, each with the output shown.
fn examples(readme: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match line.strip_prefix("$ ") {
                Some(command) => examples.push((command.to_owned(), String::new())),
                None => {
                    let (_, output) = examples.last_mut().expect("output comes after its command");
                    output.push_str(line);
                    output.push('\n');
                }
            },
            (false, _) => {}
        }
    }
    examples
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
    let data = tempfile::tempdir().expect("a directory");
    let archive = std::fs::File::open(root.join("examples/data.tar.zst")).expect("the sample data");
    let archive = zstd::Decoder::new(archive).expect("zstd");
    tar::Archive::new(archive).unpack(data.path()).expect("unpacked");
    let Some(mount) = Mounted::new(data.path().join("data")) else { return };
    for (command, shown) in examples {
        let output =
            Command::new("sh").arg("-c").arg(&command).current_dir(mount.point()).env("LC_ALL", "C").output();
        let output = output.expect("sh runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, shown, "$ {command}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
