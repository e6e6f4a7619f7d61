//! Tools that look at directories, and walks over everything.

use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::fixtures;
use crate::common::mounted::{self, Mounted, has};
use crate::common::shown;
use crate::document;
use crate::matrix::{self, Column};
use crate::reading::{assert_untouched, source, state};
use crate::script::{is_there, run, said};

/// A directory of records, which can only be named.
const RECORDS: &str = "0/by-offset/0..40";

/// The same directory as plain files, with the times of the records.
fn plain_records(mounted: &Mounted) -> tempfile::TempDir {
    let copy = tempfile::tempdir().expect("temporary directory");
    let topic = mounted.path("t");
    let times: Vec<_> = shown::records(&mounted::read(&topic.join("0/log.jsonl")))
        .iter()
        .map(|record| record.timestamp)
        .collect();
    let (from, to) = (topic.join(RECORDS), copy.path());
    for name in mounted::names(&from) {
        let offset: usize = name.parse().expect("an offset");
        fs::copy(from.join(&name), to.join(&name)).expect("a record can be copied");
        let time = UNIX_EPOCH + Duration::from_millis(times[offset].try_into().expect("a time"));
        let file = fs::File::options().write(true).open(to.join(&name));
        file.and_then(|file| file.set_modified(time)).expect("time can be set");
    }
    copy
}

/// Copies all that is listed.
fn copy_tree(from: &Path, to: &Path) {
    for name in mounted::names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            fs::create_dir(&to).expect("directory can be made");
            copy_tree(&from, &to);
        } else {
            fs::write(to, mounted::read(&from)).expect("file can be written");
        }
    }
}

#[test]
fn a_topics_directory_is_a_directory_for_every_tool() {
    let growing = source(50_000);
    let before = state(growing.data());
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let (plain, plain_records) = (tempfile::tempdir().expect("temporary directory"), plain_records(&mounted));
    copy_tree(&mounted.path("t"), plain.path());
    let records = shown::records(&mounted::read(&mounted.path("t/0/log.jsonl")));
    let time = records[20].timestamp / 1000;
    let mut seen = document::Seen::new(matrix::WALKING);
    for tool in matrix::WALKING.iter().flat_map(|group| group.1).filter(|tool| is_there(tool.1)) {
        let script = |records: &str| format!("t={time}.5; r={records}; {}", tool.2);
        let listed = plain_records.path().to_str().expect("UTF-8");
        let expected = run(&script(listed), plain.path(), ".", plain.path());
        assert!(expected.status.success() && !expected.stdout.is_empty(), "{}: {}", tool.0, said(&expected));
        let shown = run(&script(RECORDS), &mounted.path("t"), ".", plain.path());
        let is_same = expected.status == shown.status && expected.stdout == shown.stdout;
        let how = || format!("{}\ninstead of\n{}", said(&shown), said(&expected));
        seen.add(tool.0, Column::Growing, if is_same { Ok(()) } else { Err(how()) });
    }
    seen.check();
    assert_untouched(&before, growing.data());
}

/// Walks over everything. `$w` is an empty directory; a copy that is made there is compared with the mount, but for `.topicfs/metrics`, which
/// says something else at each look.
const WALKS: &[(&str, &str)] = &[
    ("ls", "ls -lR . | wc -l"),
    ("ls", "ls -laR . > /dev/null"),
    ("find", "find . | wc -l"),
    ("find", "find . -type f -newermt 2000-01-01 -ls > /dev/null"),
    ("grep", "grep -ra e . | wc -c"),
    ("grep", "grep -rc nothing-of-the-kind . > /dev/null || test $? = 1"),
    ("rg", "rg --no-config --hidden -c e . > /dev/null"),
    ("du", "du -a . | wc -l"),
    ("du", "du -sb ."),
    ("tar", r#"tar cf - . | (cd "$w" && tar xf -) && diff -r -x metrics . "$w""#),
    ("rsync", r#"rsync -a ./ "$w" && diff -r -x metrics . "$w""#),
    ("cp", r#"cp -r . "$w" && diff -r -x metrics . "$w""#),
    ("cp", r#"cp -a . "$w" && diff -r -x metrics . "$w""#),
    (
        "python3",
        "python3 -c 'import os; print(sum(len(open(os.path.join(d, f), \"rb\").read()) for d, _, fs in os.walk(\".\") for f in fs))'",
    ),
    ("busybox", "busybox ls -lR . | wc -l"),
    ("busybox", "busybox find . | wc -l"),
    ("busybox", "busybox grep -r e . | wc -c"),
    ("busybox", "busybox du -a . | wc -l"),
    ("busybox", r#"busybox tar cf - . | (cd "$w" && busybox tar xf -) && diff -r -x metrics . "$w""#),
    ("busybox", r#"busybox cp -r . "$w" && diff -r -x metrics . "$w""#),
];

#[test]
fn walks_over_a_whole_mount_end_and_leave_the_source_as_it_was() {
    if !mounted::can_mount() {
        return;
    }
    for (version, name) in [
        ("4.4.0", "shapes"),
        ("4.4.0", "txn"),
        ("4.4.0", "compacted"),
        ("4.4.0", "times"),
        ("0.8.2.2", "codecs"),
    ] {
        let source = fixtures::copy(&fixtures::case(version, name).data());
        let before = state(source.path());
        let mounted = Mounted::new(source.path()).expect("there is a device");
        for (_, script) in WALKS.iter().filter(|walk| has(walk.0)) {
            let output = run(script, mounted.point(), ".", mounted.point());
            assert!(
                output.status.success() && output.stderr.is_empty(),
                "{version} {name}: {script}: {}",
                said(&output)
            );
        }
        drop(mounted);
        assert_untouched(&before, source.path());
    }
}

#[test]
fn everything_that_brokers_ever_wrote_in_one_mount_is_listed_in_bounded_memory() {
    let sources: Vec<_> = fixtures::cases().iter().flat_map(fixtures::Case::data_dirs).collect();
    let spec: Vec<_> = sources.iter().map(|path| path.to_str().expect("UTF-8")).collect();
    let Some(mounted) = Mounted::new(spec.join(",")) else { return };
    let output = run("ls -lR . | grep -c '^[-d]'", mounted.point(), ".", mounted.point());
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let files: usize = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
    println!("{} data directories, {files} names", sources.len());
    assert!(sources.len() > 40 && files > 10_000, "{files} names of {} directories", sources.len());
    let peak = mounted.peak_memory_kib();
    assert!(peak < 256 * 1024, "{peak} KiB");
}
