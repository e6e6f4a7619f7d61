//! `topicfs demo`: the first thing that a newcomer types.

#![allow(clippy::expect_used, reason = "a test that can't go on stops with a panic")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::mounted::{self, topicfs};

/// Words that the tour's output must have, one of each command.
const SHOWN: [&str; 6] =
    ["app-logs", "by-offset", "4259", "payment-failed", "\"timestamp_type\": \"CreateTime\"", ".txnindex"];

fn assert_tour(output: &std::process::Output) {
    let printed = String::from_utf8_lossy(&output.stdout);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{said}");
    for words in SHOWN {
        assert!(printed.contains(words), "no {words} in\n{printed}\n{said}");
    }
    assert_eq!(said, "");
}

#[test]
fn the_tour_runs_through_a_mount_and_leaves_nothing_behind() {
    if !mounted::can_mount() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let output = topicfs().args(["demo", "--tour"]).env("TMPDIR", directory.path()).output();
    let output = output.expect("topicfs runs");
    assert_tour(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("$ tail -n 3 orders/0/log"));
    assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 0);
}

#[test]
fn without_fuse_it_says_so_and_tours_without_a_mount() {
    if !mounted::is_root() || !mounted::has("unshare") {
        return;
    }
    let script = "mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 && exec \"$0\" demo --tour";
    let output =
        Command::new("unshare").args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_topicfs")]).output();
    let output = output.expect("unshare runs");
    assert_tour(&output);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("No mount here") && printed.contains("/dev/fuse"), "{printed}");
    assert!(printed.contains("$ topicfs tail -n 3 data orders/0/log"), "{printed}");
}

#[test]
fn it_stays_until_interrupted_and_removes_everything() {
    if !mounted::can_mount() {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut demo = topicfs();
    let mut demo =
        demo.arg("demo").env("TMPDIR", directory.path()).stdout(Stdio::piped()).spawn().expect("runs");
    let lines = BufReader::new(demo.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let mut mountpoint = None;
    for line in lines {
        mountpoint = mountpoint.or_else(|| line.trim().strip_prefix("cd ").map(str::to_owned));
        if line.starts_with("^C") {
            break;
        }
    }
    let mountpoint = mountpoint.expect("a directory to go to");
    assert!(Path::new(&mountpoint).join("orders/0/log").is_file());
    let kill = Command::new("kill").args(["-INT", &demo.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
    assert!(demo.wait().expect("it ends").success());
    assert_eq!(std::fs::read_dir(directory.path()).expect("listed").count(), 0);
}
