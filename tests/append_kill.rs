//! Processes that are killed while they append: every line whose write returned is there once, in order, whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::model::Numbers;
use common::mounted::{Mounted, topicfs};
use common::story;

/// How often a process is killed.
const KILLS: usize = 12;
/// Segments are so short that some are rolled before each kill.
const OPTIONS: &str = "segment.bytes=65536,index.interval.bytes=512";

fn random_time(numbers: &mut Numbers, most_ms: usize) -> Duration {
    Duration::from_millis(u64::try_from(numbers.below(most_ms)).unwrap())
}

/// The line that has this number, of any length.
fn line(number: usize) -> String {
    let len = Numbers::new(number as u64).below(300);
    format!("{number} {}", "x".repeat(len))
}

/// Recovers a directory, as the next one to append does.
fn recover(data: &Path) {
    let output = topicfs().args(["append", "-o", OPTIONS]).arg(data).arg("notes/0").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn topicfs_append_that_is_killed_leaves_whole_lines_in_order() {
    let root = tempfile::tempdir().unwrap();
    let (data, mut numbers) = (root.path(), Numbers::new(1));
    let mut count = 0;
    for kill in 0..KILLS {
        let mut command = topicfs();
        command.args(["append", "--create", "-o", OPTIONS]).arg(data).arg("notes/0");
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut input = process.stdin.take().unwrap();
        let feeder = std::thread::spawn(move || {
            for number in count.. {
                if input.write_all(format!("{}\n", line(number)).as_bytes()).is_err() {
                    return number;
                }
            }
            count
        });
        std::thread::sleep(Duration::from_millis(50) + random_time(&mut numbers, 250));
        process.kill().unwrap();
        process.wait().unwrap();
        let fed = feeder.join().unwrap();
        if !data.join("notes-0").exists() {
            continue;
        }
        recover(data);
        let values = story::values(&data.join("notes-0"));
        assert!((count..=fed).contains(&values.len()), "kill {kill}: {} of {count}..={fed}", values.len());
        for (number, value) in values.iter().enumerate() {
            assert!(*value == line(number).as_bytes(), "kill {kill}: line {number}");
        }
        count = values.len();
    }
    eprintln!("{KILLS} kills, {count} lines");
    assert!(count > 100);
    assert_eq!(problems(data), [""; 0]);
}

/// What `topicfs verify` finds, but for what a directory without a broker lacks.
fn problems(data: &Path) -> Vec<String> {
    let mut problems = story::verify(data);
    problems.retain(|line| !line.contains("meta.properties"));
    problems
}

/// One who writes lines with its own numbers to a partition.
#[derive(Debug)]
struct Writer {
    name: usize,
    partition: usize,
    /// The number of its next line.
    next: usize,
}

impl Writer {
    fn line(&self, number: usize) -> String {
        format!("writer {} {}\n", self.name, line(number))
    }

    /// Writes until it can't; the first number that may not be there, and the first that can't be.
    fn write(&self, mount: &Mounted) -> (usize, usize) {
        let path = mount.path(&format!("notes/{}/append", self.partition));
        let mut numbers = Numbers::new((self.name + self.next) as u64);
        let mut options = fs::OpenOptions::new();
        let Ok(mut file) = options.append(true).open(path) else { return (self.next, self.next) };
        let mut next = self.next;
        loop {
            let end = next + 1 + numbers.below(4);
            let text: String = (next..end).map(|number| self.line(number)).collect();
            match file.write(text.as_bytes()) {
                Ok(written) => assert_eq!(written, text.len(), "good lines are taken whole"),
                Err(_) => return (next, end),
            }
            next = end;
        }
    }

    /// How many of its lines are in its partition; they are in order, and each is there once.
    fn check(&self, data: &Path) -> usize {
        let values = story::values(&data.join(format!("notes-{}", self.partition)));
        let prefix = format!("writer {} ", self.name);
        let own = values.iter().filter(|value| value.starts_with(prefix.as_bytes()));
        let mut count = 0;
        for (number, value) in own.enumerate() {
            assert!(*value == self.line(number).trim_end_matches('\n').as_bytes(), "{self:?}: line {number}");
            count += 1;
        }
        count
    }
}

#[test]
fn a_mount_that_is_killed_keeps_every_line_whose_write_returned() {
    let root = tempfile::tempdir().unwrap();
    let (data, mut numbers) = (root.path(), Numbers::new(2));
    let mut writers: Vec<Writer> = (0..4).map(|name| Writer { name, partition: name % 2, next: 0 }).collect();
    for kill in 0..KILLS {
        let Some(mount) = Mounted::with(data, &format!("append,{OPTIONS}")) else { return };
        if kill == 0 {
            fs::create_dir(mount.path("notes")).unwrap();
            fs::create_dir(mount.path("notes/1")).unwrap();
        }
        // Mounting has recovered the logs: nothing is there that nobody has written, and nothing is gone.
        for writer in &mut writers {
            assert_eq!(writer.check(data), writer.next, "{writer:?} after kill {kill}");
        }
        let pid = mount.pid().to_string();
        let reached: Vec<(usize, usize)> = std::thread::scope(|scope| {
            let threads: Vec<_> = writers.iter().map(|writer| scope.spawn(|| writer.write(&mount))).collect();
            std::thread::sleep(Duration::from_millis(20) + random_time(&mut numbers, 200));
            assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(mount);
        recover(data);
        for (writer, (fewest, most)) in writers.iter_mut().zip(reached) {
            let count = writer.check(data);
            assert!(
                (fewest..=most).contains(&count),
                "{writer:?} after kill {kill}: {count} of {fewest}..={most}"
            );
            writer.next = count;
        }
    }
    let count: usize = writers.iter().map(|writer| writer.next).sum();
    eprintln!("{KILLS} kills, {count} lines");
    assert!(count > 100);
    assert_eq!(problems(data), [""; 0]);
}
