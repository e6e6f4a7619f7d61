//! What is made before it is asked for, or kept for who goes on reading, and what the kernel reads by itself, are the same bytes.
#![expect(clippy::expect_used, reason = "a test says what is wrong by failing")]

mod common;

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use common::batches::{self, Plan};
use common::mounted::{Mounted, can_mount, is_root, skip, topicfs};
use common::shown::ShownRecord;
use kafka_protocol::records::Compression;
use tempfile::TempDir;

/// A partition of several segments and some megabytes, and its lines.
fn partition(codec: &str) -> (TempDir, Vec<u8>) {
    let lines: Vec<u8> = (0..40_000)
        .flat_map(|number| format!("{number:08} {}\n", "amber brass ".repeat(number % 30)).into_bytes())
        .collect();
    let directory = tempfile::tempdir().expect("temporary directory");
    let options = format!("compression.type={codec},segment.bytes=1500000");
    let mut append = topicfs()
        .args(["append", "--create", "-o", &options])
        .arg(directory.path())
        .arg("t/0")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("topicfs can be started");
    append.stdin.take().expect("its input").write_all(&lines).expect("it reads");
    assert!(append.wait().expect("it ends").success());
    (directory, lines)
}

/// A figure of `.topicfs/metrics`.
fn figure(mounted: &Mounted, name: &str) -> u64 {
    let text = fs::read_to_string(mounted.path(".topicfs/metrics")).expect("metrics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
    line.trim().parse().expect("a number")
}

/// Reads that came to the mount so far.
fn reads(mounted: &Mounted) -> u64 {
    figure(mounted, "topicfs_requests_total{operation=\"read\"}")
}

#[test]
fn what_is_rendered_ahead_of_a_reader_is_what_it_reads() {
    if !can_mount() {
        return;
    }
    for codec in ["uncompressed", "zstd"] {
        let (data, lines) = partition(codec);
        let Some(mounted) = Mounted::new(data.path()) else { return };
        let log = mounted.path("t/0/log");
        thread::scope(|scope| {
            for size in [1000, 33_000, 128 * 1024, 1024 * 1024] {
                let (log, lines) = (&log, &lines);
                scope.spawn(move || {
                    let mut file = File::open(log).expect("a log");
                    let (mut read, mut buffer) = (Vec::new(), vec![0; size]);
                    loop {
                        let len = file.read(&mut buffer).expect("a read");
                        if len == 0 {
                            break;
                        }
                        read.extend_from_slice(&buffer[..len]);
                    }
                    assert!(read == *lines, "{codec}, {size} at once");
                });
            }
        });
        let output =
            topicfs().arg("cat").arg(data.path()).arg("t/0/log").output().expect("topicfs can be started");
        assert!(output.stdout == lines, "{codec}, without a mount");
    }
}

#[test]
fn blocks_are_there_before_they_are_asked_for_and_given_up_when_nobody_comes() {
    if !can_mount() {
        return;
    }
    let (data, lines) = partition("uncompressed");
    let Some(mounted) = Mounted::new(data.path()) else { return };
    let file = File::open(mounted.path("t/0/log")).expect("a log");
    let mut buffer = vec![0; 128 * 1024];
    let mut at = 0;
    let mut go_on = |times: usize, pause: Duration| {
        for _ in 0..times {
            file.read_exact_at(&mut buffer, at as u64).expect("a read");
            assert!(buffer == lines[at..at + buffer.len()], "at {at}");
            at += buffer.len();
            thread::sleep(pause);
        }
    };
    go_on(3, Duration::from_millis(200));
    let hits = figure(&mounted, "topicfs_rendered_block_hits_total");
    go_on(3, Duration::ZERO);
    let more = figure(&mounted, "topicfs_rendered_block_hits_total") - hits;
    assert!(more >= 2, "{more} blocks were there");
    // It goes elsewhere, and comes back.
    at = 4_000_000;
    let mut far = vec![0; 1000];
    file.read_exact_at(&mut far, at as u64).expect("a read");
    assert_eq!(far, lines[at..at + 1000]);
    file.read_exact_at(&mut far, 100).expect("a read");
    assert_eq!(far, lines[100..1100]);
}

/// Batches of 16 MiB, `count` in each of so many partitions; what one reads as.
fn large_batches(partitions: usize, count: usize) -> (TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().expect("temporary directory");
    let value = |number: i64| format!("{number} {}", "amber brass ".repeat(87_000)).into_bytes();
    let record = |offset| ShownRecord {
        offset,
        timestamp: 1_700_000_000_000,
        key: None,
        value: Some(value(offset)),
        headers: Vec::new(),
    };
    let plan = Plan::of((0..16).map(record).collect(), Compression::Lz4);
    let entries = batches::encode(&plan);
    let mut log = Vec::new();
    for number in 0..count {
        // No checksum covers the base offset.
        log.extend(i64::try_from(16 * number).expect("few").to_be_bytes());
        log.extend(&entries[0].bytes[8..]);
    }
    for partition in 0..partitions {
        let path = directory.path().join(format!("t-{partition}"));
        fs::create_dir(&path).expect("a partition");
        fs::write(path.join("00000000000000000000.log"), &log).expect("a segment");
    }
    let lines: Vec<u8> = (0..16).flat_map(|number| [value(number), b"\n".to_vec()].concat()).collect();
    (directory, lines)
}

#[test]
fn each_large_batch_is_decoded_once_however_many_read() {
    const READERS: usize = 12;
    if !can_mount() {
        return;
    }
    let (data, lines) = large_batches(READERS, 2);
    let Some(mounted) = Mounted::new(data.path()) else { return };
    let log = |number: usize| mounted.path(&format!("t/{number}/log"));
    for number in 0..READERS {
        // It is measured then.
        let file = File::open(log(number)).expect("a log");
        assert_eq!(file.metadata().expect("its size").len(), 2 * lines.len() as u64);
    }
    let decoded = || figure(&mounted, "topicfs_decoded_batches_total");
    let before = decoded();
    // Somebody stops in the midst, and holds nothing for ever.
    let stopped = File::open(log(0)).expect("a log");
    stopped.read_exact_at(&mut [0; 1000], 1000).expect("a read");
    let all_come = Barrier::new(READERS);
    thread::scope(|scope| {
        for number in 0..READERS {
            let (log, lines, all_come) = (log(number), &lines, &all_come);
            scope.spawn(move || {
                let file = File::open(log).expect("a log");
                let (mut buffer, mut at) = (vec![0; 128 * 1024], 0);
                all_come.wait();
                while at < 2 * lines.len() {
                    let len = file.read_at(&mut buffer, at as u64).expect("a read");
                    let expected = lines.iter().cycle().skip(at % lines.len()).take(len);
                    assert!(len > 0 && buffer[..len].iter().eq(expected), "{len} bytes at {at}");
                    at += len;
                }
            });
        }
    });
    let decoded = decoded() - before;
    // Without waiting for room each would be decoded up to 128 times.
    assert!(decoded <= 3 * READERS as u64, "{decoded} batches were decoded");
    assert!(figure(&mounted, "topicfs_request_waits_total{for=\"room\"}") > 0, "nobody waited");
    assert_eq!(figure(&mounted, "topicfs_requests_waiting{for=\"room\"}"), 0);
}

/// The files of a partition's segments.
fn logs(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.join("t-0")).expect("a partition");
    let mut logs: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    logs.sort();
    logs
}

fn in_mount(mounted: &Mounted, log: &Path) -> PathBuf {
    mounted.path("t/0/segments").join(log.file_name().expect("a name"))
}

#[test]
fn the_kernel_reads_source_files_by_itself_where_that_is_chosen() {
    if !can_mount() || !is_root() {
        return skip("the kernel takes files from root alone");
    }
    let (data, _) = partition("uncompressed");
    let logs = logs(data.path());
    assert!(logs.len() > 2);

    let Some(mounted) = Mounted::with(data.path(), "passthrough=always") else { return };
    let before = reads(&mounted);
    let held = File::open(in_mount(&mounted, &logs[0])).expect("a segment");
    for log in &logs {
        assert!(fs::read(in_mount(&mounted, log)).expect("a segment") == fs::read(log).expect("its source"));
    }
    let len = held.metadata().expect("metadata").len();
    let mut last = [0; 10];
    held.read_exact_at(&mut last, len - 10).expect("a read");
    assert!(fs::read(&logs[0]).expect("its source").ends_with(&last));
    // What reads the metrics counts, once for each time.
    let came = reads(&mounted) - before;
    assert!(came <= 2, "{came} reads came to the mount");

    // It grows under an open handle, and one that is closed leaves another one of the same file readable.
    let active = logs.last().expect("a segment");
    let (first, second) = (File::open(in_mount(&mounted, active)), File::open(in_mount(&mounted, active)));
    drop(first.expect("a segment"));
    let before = fs::read(active).expect("its source");
    File::options().append(true).open(active).and_then(|mut file| file.write_all(b"more")).expect("it grows");
    let mut grown = Vec::new();
    second.expect("a segment").read_to_end(&mut grown).expect("a read");
    assert!(grown == [&before[..], b"more"].concat());
}

#[test]
fn by_default_the_kernel_reads_those_of_read_only_file_systems_and_no_time_changes() {
    if !can_mount() || !is_root() {
        return skip("the kernel takes files from root alone");
    }
    let (data, _) = partition("uncompressed");
    let logs = logs(data.path());
    let old = SystemTime::now() - Duration::from_secs(100 * 24 * 3600);
    for log in &logs {
        let file = File::options().write(true).open(log).expect("a segment");
        file.set_times(fs::FileTimes::new().set_accessed(old)).expect("its times");
    }
    let atimes =
        || logs.iter().map(|log| fs::metadata(log).expect("metadata").atime_nsec()).collect::<Vec<_>>();
    let read_all = |mounted: &Mounted| {
        let before = reads(mounted);
        for log in &logs {
            assert!(fs::read(in_mount(mounted, log)).expect("a segment").len() > 1000);
        }
        reads(mounted) - before
    };
    let before = atimes();
    let Some(mounted) = Mounted::new(data.path()) else { return };
    assert!(read_all(&mounted) > 2, "a broker may write here");
    drop(mounted);

    let view = tempfile::tempdir().expect("temporary directory");
    let mount = |words: &[&str]| {
        let done = Command::new("mount").args(words).arg(view.path()).status().expect("mount");
        assert!(done.success());
    };
    mount(&["--bind", &data.path().to_string_lossy()]);
    mount(&["-o", "remount,bind,ro"]);
    let Some(mounted) = Mounted::new(view.path()) else { return };
    let came = read_all(&mounted);
    drop(mounted);
    assert!(Command::new("umount").arg(view.path()).status().expect("umount").success());
    assert!(came <= 2, "{came} reads came to the mount");
    assert_eq!(atimes(), before);
}
