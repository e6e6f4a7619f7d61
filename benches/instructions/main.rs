//! How many instructions the hot loops take, counted by valgrind, and held against a table: a guard that no noise fools.
//!
//! `benches/count.sh` builds it and says how it is used. It runs itself under `valgrind --tool=cachegrind`, twice for each loop: once
//! with one round, once with more. The difference is the loop, without what it needs to begin.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program of our own that can't go on stops with a panic"
)]

mod data;
mod loops;
mod table;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use loops::{LOOPS, Loop};
use table::Line;

/// Comes before the name of a loop and a number of rounds.
const COUNTED: &str = "--counted";
/// How many rounds more the second run has.
const ROUNDS: u64 = 3;
/// Less than this of what the table says is worth another table.
const BETTER: f64 = 0.8;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [first, name, rounds] = &words[..]
        && first == COUNTED
    {
        run(name, rounds.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |known: &&Loop| wanted.is_empty() || wanted.iter().any(|word| known.name.contains(*word));
    let lines = count(&LOOPS.iter().filter(is_wanted).collect::<Vec<_>>());
    if env::var_os("TOPICFS_BLESS").is_some() {
        assert!(wanted.is_empty(), "the table is written whole");
        table::write(&lines);
    }
    compare(&lines, &table::read())
}

/// What valgrind looks at: so many rounds of a loop. Prints how many units a round has.
fn run(name: &str, rounds: u64) {
    let known = LOOPS.iter().find(|known| known.name == name).expect("a loop");
    let mut round = (known.prepare)();
    let units = (0..rounds).map(|_| round()).max();
    println!("{}", units.expect("a round"));
}

/// Counts all, as many at once as there are processors.
fn count(wanted: &[&Loop]) -> Vec<Line> {
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(known) = wanted.get(index) else { return };
                    let ((once, units), (more, _)) = (valgrind(known, 1), valgrind(known, 1 + ROUNDS));
                    let counted = (more - once) as f64 / (ROUNDS * units) as f64;
                    let line = Line::new(known.name, known.unit, counted);
                    lines.lock().expect("no panic").push((index, line));
                }
            });
        }
    });
    let mut lines = lines.into_inner().expect("no panic");
    lines.sort_by_key(|(index, _)| *index);
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Instructions of so many rounds, all else of the program included, and the units of each.
fn valgrind(known: &Loop, rounds: u64) -> (u64, u64) {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let counts = scratch.path().join("counts");
    let output = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no", "--branch-sim=no"])
        .arg(format!("--cachegrind-out-file={}", counts.display()))
        .arg(env::current_exe().expect("this program"))
        .args([COUNTED, known.name, &rounds.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("valgrind is installed");
    assert!(output.status.success(), "{}: {}", known.name, String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&counts).expect("what valgrind has counted");
    let summary = text.lines().find_map(|line| line.strip_prefix("summary:")).expect("a sum");
    let units = String::from_utf8(output.stdout).expect("a number");
    (summary.trim().parse().expect("a number"), units.trim().parse().expect("a number"))
}

/// Prints what was counted beside what the table says, and fails where it is more than is let pass.
fn compare(lines: &[Line], known: &[Line]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for Line { name, unit, counted, .. } in lines {
        let is_it = |line: &&Line| line.name == *name && line.unit == *unit;
        let verdict = match known.iter().find(is_it) {
            None => {
                code = ExitCode::FAILURE;
                "not in the table: TOPICFS_BLESS=1 writes it".to_owned()
            }
            Some(Line { counted: before, most, .. }) => {
                let change = format!("{:+.1} %", (counted / before - 1.0) * 100.0);
                if counted > most {
                    code = ExitCode::FAILURE;
                    format!("{change}: TOO MANY, at most {} are let pass", table::shown(*most))
                } else if *counted < before * BETTER {
                    format!("{change}: TOPICFS_BLESS=1 keeps it so")
                } else {
                    change
                }
            }
        };
        println!("{name:34} {:>6} instructions for each {unit:7}  {verdict}", table::shown(*counted));
    }
    code
}
