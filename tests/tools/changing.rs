//! Tools that would change something.

use crate::common::mounted::{self, Mounted};
use crate::matrix;
use crate::reading::{assert_untouched, source, state};
use crate::script::{is_there, run, said};

#[test]
fn whatever_would_change_something_is_refused_and_everything_stays() {
    let growing = source(5_000);
    let before = state(growing.data());
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let topic = mounted.path("t");
    let (names, log) = (mounted::names(&topic.join("0")), mounted::read(&topic.join("0/log")));
    let mut wrong = Vec::new();
    for (name, _, script) in matrix::CHANGING.iter().filter(|tool| is_there(tool.1)) {
        let script = format!("echo new > \"$w/x\"; {script}");
        let output = run(&script, &topic, ".", &topic);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        // It says so on every file system that can only be read.
        let words = if *name == "uutils mv" { "Permission denied" } else { "Read-only file system" };
        if !complaint.contains(words) || output.status.success() {
            wrong.push(format!("{name}: {}", said(&output)));
        }
        assert_eq!(mounted::names(&topic.join("0")), names, "{name}");
        assert!(mounted::read(&topic.join("0/log")) == log, "{name}: other bytes");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_untouched(&before, growing.data());
}
