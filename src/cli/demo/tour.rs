//! The tour: shell commands on the sample data, each for the mount and for a machine without one.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

use super::{say, working_directory};
use crate::cli::FOUND_WRONG;

/// Where the tour runs.
pub(super) enum Place<'a> {
    /// In a mount.
    Mount(&'a Path),
    /// In a directory with the source `data`, without a mount.
    Source(&'a Path),
}

/// One command of the tour.
pub(super) struct Step {
    /// What it shows.
    pub(super) about: &'static str,
    /// The command in the mount.
    pub(super) mounted: &'static str,
    /// The same without a mount.
    unmounted: &'static str,
}

pub(super) const STEPS: &[Step] = &[
    Step { about: "every topic is a directory", mounted: "ls", unmounted: "topicfs ls data" },
    Step {
        about: "every partition too",
        mounted: "ls orders orders/0",
        unmounted: "topicfs ls data orders orders/0",
    },
    Step {
        about: "the last records of a partition",
        mounted: "tail -n 3 orders/0/log",
        unmounted: "topicfs tail -n 3 data orders/0/log",
    },
    Step {
        about: "counted over all partitions",
        mounted: "wc -l orders/[0-9]/log",
        unmounted: "topicfs cat data 'orders/[0-9]/log' | wc -l",
    },
    Step {
        about: "searched",
        mounted: "grep -h payment-failed orders/[0-9]/log | head -n 3",
        unmounted: "topicfs cat data 'orders/[0-9]/log' | grep payment-failed | head -n 3",
    },
    Step {
        about: "with keys, headers and times, for jq",
        mounted: "tail -n 2 customers/0/log.jsonl",
        unmounted: "topicfs tail -n 2 data customers/0/log.jsonl",
    },
    Step {
        about: "as columns: which service logs most",
        mounted: "cut -f 3 app-logs/[0-9]/log.tsv | sort | uniq -c",
        unmounted: "topicfs cat data 'app-logs/[0-9]/log.tsv' | cut -f 3 | sort | uniq -c",
    },
    Step {
        about: "the last three records",
        mounted: "cat orders/0/by-offset/last-3...txt",
        unmounted: "topicfs cat data orders/0/by-offset/last-3...txt",
    },
    Step {
        about: "an hour of all partitions, by time",
        mounted: "head -n 3 app-logs/all/by-time/2026-11-28/10.txt",
        unmounted: "topicfs cat data app-logs/all/by-time/2026-11-28/10.txt | head -n 3",
    },
    Step {
        about: "the first offset at or after a time",
        mounted: "cat orders/0/offsets/2026-11-28T10",
        unmounted: "topicfs cat data orders/0/offsets/2026-11-28T10",
    },
    Step {
        about: "all about one record",
        mounted: "cat orders/0/by-offset/last-1.json",
        unmounted: "topicfs cat data orders/0/by-offset/last-1.json",
    },
    Step {
        about: "the broker's own files",
        mounted: "ls -l payments/0/segments",
        unmounted: "topicfs ls -l data payments/0/segments",
    },
];

/// Runs all commands, each printed before its output. One that fails makes the exit code 1 and ends nothing; ^C ends
/// the tour.
pub(super) fn run(place: &Place<'_>) -> anyhow::Result<ExitCode> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut code = ExitCode::SUCCESS;
    for step in STEPS {
        let command = match place {
            Place::Mount(_) => step.mounted,
            Place::Source(_) => step.unmounted,
        };
        say(&format!("\n# {}\n$ {command}\n", step.about))?;
        let script = format!("topicfs() {{ \"$TOPICFS\" \"$@\"; }}\n{command}\n");
        let mut shell = Command::new("sh");
        let shell =
            shell.arg("-c").arg(script).env("TOPICFS", &program).current_dir(working_directory(place));
        let status = shell.status().context("running sh")?;
        if status.signal() == Some(libc::SIGINT) || status.code() == Some(128 + libc::SIGINT) {
            return Ok(ExitCode::from(FOUND_WRONG));
        }
        if !status.success() {
            say(&format!("({status})\n"))?;
            code = ExitCode::from(FOUND_WRONG);
        }
    }
    Ok(code)
}
