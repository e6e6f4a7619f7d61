//! Programs that follow a file that grows.

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::growing::Growing;
use crate::common::mounted::{Mounted, is_root};
use crate::common::reader::Reader;
use crate::document::Seen;
use crate::matrix::{self, Column, Group, Tool};
use crate::script;

/// How long what was appended may take to be seen by all. GNU `tail` looks once a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program of the matrix beside the test.
struct Running {
    tool: &'static Tool,
    file: &'static str,
    column: Column,
    /// The end of the partition 1 when it was started.
    begun: i64,
    reader: Reader,
}

/// What is there when programs are started.
struct Beside<'a> {
    mounted: &'a Mounted,
    /// The end of the partition 1.
    end: i64,
    process: Child,
}

impl Running {
    fn start(tool: &'static Tool, file: &'static str, column: Column, beside: &Beside<'_>) -> Self {
        let path = beside.mounted.path(file);
        let mut command = Command::new("sh");
        command.args(["-c", tool.2]).env("f", &path).env("PATH", script::path());
        command.env("pid", beside.process.id().to_string());
        Self { tool, file, column, begun: beside.end, reader: Reader::spawn(&mut command, &path) }
    }

    /// Whether it has shown the records below these ends of the partitions 0 and 1.
    fn has_shown(&self, ends: [i64; 2]) -> bool {
        let printed = self.reader.printed();
        let text = String::from_utf8_lossy(&printed);
        match self.tool.0 {
            "inotifywait -m" => self.reader.watches() && (ends[1] == self.begun || text.contains("MODIFY")),
            // A screen is drawn again and again, and begins with what fits on it.
            "less +F" | "less" => text.contains(&mark(0, ends[0] - 1)),
            "tail -f, several" => shows_all(&text, 0, ends[0]) && shows_all(&text, 1, ends[1]),
            _ => shows_all(&text, 0, ends[0]),
        }
    }

    /// How it has failed, if it has.
    fn result(&mut self, ends: [i64; 2]) -> Result<(), String> {
        if self.has_shown(ends) {
            return Ok(());
        }
        let printed = self.reader.printed();
        let end = String::from_utf8_lossy(&printed[printed.len().saturating_sub(300)..]).into_owned();
        let status = self.reader.ended_within(Duration::from_millis(5));
        Err(format!("{}: {status:?}, {} bytes, at last: {end}", self.file, printed.len()))
    }
}

/// How a line of a record begins, but for the topic's name.
fn mark(partition: i32, offset: i64) -> String {
    format!("\"partition\":{partition},\"offset\":{offset},")
}

/// Whether each record of a partition is there once, in order, and none beyond `end`.
fn shows_all(text: &str, partition: i32, end: i64) -> bool {
    let before = format!("\"partition\":{partition},\"offset\":");
    let offsets =
        text.split(&before).skip(1).map(|rest| rest.split(',').next().unwrap_or_default().parse().ok());
    offsets.eq((0..end).map(Some))
}

/// Starts all tools of a table on these files of a mount and lets the log grow. Answers what the tools showed.
fn follow(groups: &'static [Group], column: Column, files: &[&'static str]) {
    let mut growing = Growing::new();
    let mut second = growing.beside(1);
    growing.append(2);
    second.append(1);
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let can = |tool: &Tool| column != Column::Live || !matrix::TOLD.contains(&tool.0) || is_root();
    let tools = groups.iter().flat_map(|group| group.1).filter(|tool| script::is_there(tool.1) && can(tool));
    let process = Command::new("sleep").arg("600").spawn().expect("sleep can be started");
    let mut beside = Beside { mounted: &mounted, end: second.end(), process };
    let mut running: Vec<_> =
        tools.flat_map(|tool| files.iter().map(|file| Running::start(tool, file, column, &beside))).collect();
    let mut seen = Seen::new(groups);
    wait(&running, [growing.end(), second.end()]);
    for round in 0..3 {
        if round == 1 {
            growing.roll();
        }
        growing.append(1);
        second.append(1);
        wait(&running, [growing.end(), second.end()]);
    }
    for tool in &mut running {
        seen.add(tool.tool.0, column, tool.result([growing.end(), second.end()]));
    }
    ends_with_its_process(&mut running, &mut beside.process);
    seen.check();
}

/// Waits until all that should have shown everything has.
fn wait(running: &[Running], ends: [i64; 2]) {
    let begun = Instant::now();
    let should = |tool: &&Running| matrix::note(tool.tool.0, tool.column).is_none();
    while begun.elapsed() < PATIENCE && !running.iter().filter(should).all(|tool| tool.has_shown(ends)) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `tail --pid` ends with the process that it was given.
fn ends_with_its_process(running: &mut [Running], process: &mut Child) {
    process.kill().and_then(|()| process.wait()).expect("it is ours");
    for tool in running.iter_mut().filter(|tool| tool.tool.0 == "tail -f --pid") {
        let status = tool.reader.ended_within(PATIENCE).expect("tail ends with the process");
        assert!(status.success(), "{status:?}");
    }
}

#[test]
fn programs_that_follow_a_growing_file_show_what_comes() {
    follow(matrix::LIVE, Column::Live, &["t/0/log.jsonl", "t/0/tail.jsonl"]);
}

#[test]
fn programs_that_read_follow_show_what_comes() {
    follow(matrix::FOLLOW, Column::Follow, &["t/0/by-offset/0../follow.jsonl"]);
}
