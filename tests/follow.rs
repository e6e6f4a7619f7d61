//! `follow`: a reader waits for what comes, gets each record once, and can always be ended.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::batches::{self, Plan};
use common::fixtures;
use common::growing::Growing;
use common::model::Directory;
use common::mounted::{self, Mounted, has, is_root, topicfs, wait_until};
use common::reader::Reader;
use common::shown;
use kafka_protocol::records::Compression;
use topicfs::fs::options::Options;

/// Signals must be answered within 100 ms; a busy machine gets more time to show that it does at all.
const SOON: Duration = Duration::from_secs(2);

fn mounted_with(batches: usize, options: &str) -> Option<(Growing, Mounted)> {
    let mut growing = Growing::new();
    growing.append(batches);
    let mounted = Mounted::with(growing.data(), options)?;
    Some((growing, mounted))
}

/// A file of the source as one who comes new to it reads it.
fn afresh(growing: &Growing, path: &str) -> Vec<u8> {
    shown::read(&shown::open(growing.data().to_str().unwrap(), Options::default()), path)
}

fn waits(reader: &Reader) {
    wait_until("it waits", || reader.is_waiting());
}

fn offsets(jsonl: &[u8]) -> Vec<i64> {
    shown::records(jsonl).iter().map(|record| record.offset).collect()
}

#[test]
fn a_reader_gets_each_record_that_comes_once_in_every_format_and_across_rolls() {
    let Some((mut growing, mounted)) = mounted_with(3, "") else { return };
    let files = ["follow", "follow.txt", "follow.jsonl", "follow.tsv", "follow.log", "follow.dump"];
    let start = |file: &&str| Reader::start(&["cat"], &mounted.path(&format!("t/0/{file}")));
    let readers: Vec<_> = files.iter().map(start).collect();
    let begun: Vec<_> =
        files.iter().map(|file| afresh(&growing, &file.replace("follow", "t/0/log"))).collect();
    readers.iter().for_each(waits);
    for round in 0..6 {
        if round % 2 == 1 {
            growing.roll();
        }
        growing.append(round);
        for ((reader, file), begun) in readers.iter().zip(files).zip(&begun) {
            let all = afresh(&growing, &file.replace("follow", "t/0/log"));
            // A dump names its segment before the entries of each; what a follower prints has only the entries.
            wait_until(file, || reader.has_printed(&all[begun.len()..]));
        }
    }
    readers.iter().for_each(waits);
}

#[test]
fn following_begins_at_an_offset_or_a_time() {
    let Some((mut growing, mounted)) = mounted_with(5, "") else { return };
    let all = shown::records(&afresh(&growing, "t/0/log.jsonl"));
    let time = all.last().unwrap().timestamp;
    let from_time: Vec<_> = all.iter().filter(|record| record.timestamp >= time).map(|r| r.offset).collect();
    let from_time = from_time[0];
    let starts = [
        ("by-offset/0../follow.jsonl".to_owned(), 0),
        ("by-offset/4../follow.jsonl".to_owned(), 4),
        ("by-offset/last-2../follow.jsonl".to_owned(), growing.end() - 2),
        (format!("by-time/{time}../follow.jsonl"), from_time),
        ("by-time/2000../follow.jsonl".to_owned(), 0),
    ];
    let readers: Vec<_> = starts
        .iter()
        .map(|(path, first)| (Reader::start(&["cat"], &mounted.path(&format!("t/0/{path}"))), *first, path))
        .collect();
    for round in 0..3 {
        for (reader, first, path) in &readers {
            let expected: Vec<_> = (*first..growing.end()).collect();
            wait_until(path, || offsets(&reader.printed()) == expected);
        }
        growing.append(1 + round);
    }
    for closed in [
        "by-offset/0..3/follow.jsonl",
        "by-time/2000..2100/follow",
        "by-offset/..3/follow",
        "by-offset/follow",
    ] {
        assert!(!mounted.path(&format!("t/0/{closed}")).exists(), "{closed}");
    }
}

#[test]
fn nothing_lists_follow_and_a_walk_does_not_meet_it() {
    let Some((_growing, mounted)) = mounted_with(2, "listing=full") else { return };
    let find = Command::new("find").arg(mounted.point()).output().unwrap();
    let found = String::from_utf8(find.stdout).unwrap();
    assert!(find.status.success() && found.contains("tail.jsonl") && !found.contains("follow"), "{found}");
    let meta = fs::metadata(mounted.path("t/0/follow.jsonl")).unwrap();
    assert!(meta.is_file() && meta.len() == 0);
}

#[test]
fn partitions_are_followed_as_one() {
    let mut growing = Growing::new();
    let mut second = growing.beside(1);
    growing.append(2);
    second.append(2);
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let reader = Reader::start(&["cat"], &mounted.path("t/all/follow.jsonl"));
    waits(&reader);
    let begun = [growing.end(), second.end()];
    for round in 1..5 {
        growing.append(round);
        second.append(5 - round);
        let expected = [(0, begun[0]..growing.end()), (1, begun[1]..second.end())];
        wait_until("both", || {
            let lines: Vec<serde_json::Value> = reader
                .printed()
                .split(|b| *b == b'\n')
                .filter_map(|line| serde_json::from_slice(line).ok())
                .collect();
            expected.iter().all(|(partition, range)| {
                let of = lines.iter().filter(|line| line["partition"] == *partition);
                of.map(|line| line["offset"].as_i64().unwrap()).eq(range.clone())
            })
        });
    }
    // One that is added is followed from its start.
    let mut third = growing.beside(2);
    third.append(2);
    growing.append(1);
    wait_until("the third", || {
        let lines = reader
            .printed()
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect::<Vec<serde_json::Value>>();
        let of = lines.iter().filter(|line| line["partition"] == 2);
        of.map(|line| line["offset"].as_i64().unwrap()).eq(0..third.end())
    });
    assert!(!mounted.path("t/all/follow.log").exists(), "batches of several partitions are no segment");
}

#[test]
fn a_batch_that_is_being_written_is_never_seen() {
    let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
    let reader = Reader::start(&["cat"], &mounted.path("t/0/follow"));
    waits(&reader);
    for _ in 0..3 {
        let batch = growing.next_batch();
        for piece in batch.chunks(batch.len() / 3 + 1) {
            assert!(reader.is_waiting() || !reader.printed().is_empty());
            growing.write(piece);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let begun = 2;
    let all = shown::records(&afresh(&growing, "t/0/log.jsonl"));
    wait_until("all", || reader.printed().iter().filter(|byte| **byte == b'\n').count() > 0);
    let log = afresh(&growing, "t/0/log");
    wait_until("the same", || log.ends_with(&reader.printed()) && !reader.printed().is_empty());
    assert!(all.len() > begun);
}

#[test]
fn a_preallocated_log_is_followed_inside_its_size() {
    let mut growing = Growing::new();
    growing.append(2);
    let len = fs::metadata(growing.segment(0)).unwrap().len();
    let log = OpenOptions::new().write(true).open(growing.segment(0)).unwrap();
    log.set_len(1 << 20).unwrap();
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    let reader = Reader::start(&["cat"], &mounted.path("t/0/follow.jsonl"));
    waits(&reader);
    let (first, mut at) = (growing.end(), len);
    for _ in 0..4 {
        let batch = growing.next_batch();
        let (front, back) = batch.split_at(batch.len() / 2);
        log.write_all_at(front, at).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        log.write_all_at(back, at + front.len() as u64).unwrap();
        at += batch.len() as u64;
        let expected: Vec<_> = (first..growing.end()).collect();
        wait_until("it", || offsets(&reader.printed()) == expected);
    }
    assert_eq!(fs::metadata(growing.segment(0)).unwrap().len(), 1 << 20);
}

#[test]
fn every_tool_ends_at_once_when_it_is_told_to() {
    let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
    let file = mounted.path("t/0/follow.jsonl");
    let python = "import sys\nfor line in open(sys.argv[1]): print(line, end='', flush=True)";
    let tools: &[&[&str]] = &[
        &["cat"],
        &["grep", "--line-buffered", "offset"],
        &["sed", "-u", "s/a/a/"],
        &["awk", "{print; fflush()}"],
        &["head", "-n", "1000"],
        &["jq", "--unbuffered", "-c", "."],
        &["python3", "-c", python],
        &["perl", "-ne", "$| = 1; print"],
        &["busybox", "head", "-n", "1000"],
        &["rg", "--no-mmap", "--line-buffered", "offset"],
        &["sort"],
        &["md5sum"],
    ];
    let mut slowest = Duration::ZERO;
    for words in tools.iter().filter(|words| has(words[0])) {
        for signal in ["INT", "TERM", "KILL"] {
            let mut reader = Reader::start(words, &file);
            wait_until(&format!("{words:?} waits"), || reader.is_waiting());
            let begun = std::time::Instant::now();
            reader.signal(signal);
            let status = reader.ended_within(SOON);
            slowest = slowest.max(begun.elapsed());
            assert!(status.is_some_and(|status| !status.success()), "{words:?} {signal}: {status:?}");
        }
    }
    eprintln!("the slowest took {slowest:?}");
    // ^Z stops a reader that goes on after EINTR, and it resumes.
    let reader = Reader::start(&["cat"], &file);
    waits(&reader);
    let first = growing.end();
    reader.signal("STOP");
    let state = || fs::read_to_string(format!("/proc/{}/stat", reader.pid())).unwrap_or_default();
    wait_until("it stops", || state().contains(") T "));
    growing.append(1);
    reader.signal("CONT");
    let expected: Vec<_> = (first..growing.end()).collect();
    wait_until("it goes on", || offsets(&reader.printed()) == expected);
}

#[test]
fn timeout_and_a_closed_pipe_end_a_reader() {
    let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
    let file = mounted.path("t/0/follow.jsonl");
    let mut timed = Reader::start(&["timeout", "0.3", "cat"], &file);
    let status = timed.ended_within(Duration::from_secs(5)).expect("it ends");
    assert_eq!(status.code(), Some(124));
    let mut piped = Reader::script(r#"cat "$f" | head -n 1"#, &file);
    wait_until("it waits", || mounted_reads(&file));
    growing.append(3);
    wait_until("one line", || !piped.printed().is_empty());
    growing.append(1);
    assert!(piped.ended_within(Duration::from_secs(5)).expect("it ends").success());
    assert_eq!(piped.printed().iter().filter(|byte| **byte == b'\n').count(), 1);
}

/// Opens a file whose reads fail where they would wait.
fn open_without_waiting(file: &Path) -> fs::File {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file).unwrap()
}

/// Whether some process has a file open.
fn mounted_reads(file: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let descriptors =
        processes.filter_map(|process| fs::read_dir(process.path().join("fd")).ok()).flatten().flatten();
    descriptors.into_iter().any(|descriptor| fs::read_link(descriptor.path()).is_ok_and(|to| to == file))
}

#[test]
fn a_reader_that_does_not_want_to_wait_is_told_so_and_poll_tells_when_to_come() {
    let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
    let file = mounted.path("t/0/follow.jsonl");
    let mut open = open_without_waiting(&file);
    let mut bytes = [0; 1 << 16];
    assert_eq!(open.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(open.read_at(&mut bytes, 0).is_err(), "there are no positions");
    let first = growing.end();
    growing.append(1);
    let mut len = 0;
    wait_until("it comes", || {
        len = open.read(&mut bytes).unwrap_or(0);
        len > 0
    });
    assert_eq!(offsets(&bytes[..len]), (first..growing.end()).collect::<Vec<_>>());
    assert_eq!(open.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    if !has("python3") {
        return;
    }
    for how in ["select", "poll", "epoll"] {
        let mut reader = Reader::start(&["python3", "-u", "-c", PYTHON_POLL, how], &file);
        wait_until("it waits", || reader.printed() == b"nothing yet\n");
        std::thread::sleep(Duration::from_millis(50));
        assert!(reader.ended_within(Duration::ZERO).is_none(), "{how}: nothing has come");
        growing.append(1);
        assert!(reader.ended_within(Duration::from_secs(10)).is_some_and(|status| status.success()), "{how}");
        assert!(offsets(&reader.printed()[b"nothing yet\n".len()..]).contains(&(growing.end() - 1)), "{how}");
    }
}

const PYTHON_POLL: &str = r#"
import os, select, sys
how, path = sys.argv[1:]
fd = os.open(path, os.O_RDONLY)
def wait(limit):
    if how == "select":
        return bool(select.select([fd], [], [], limit)[0])
    p = select.poll() if how == "poll" else select.epoll()
    p.register(fd, select.POLLIN if how == "poll" else select.EPOLLIN)
    return bool(p.poll(limit if how == "epoll" else limit and limit * 1000))
assert not wait(0.05)
print("nothing yet")
assert wait(10)
sys.stdout.buffer.write(os.read(fd, 1 << 20))
assert not wait(0)
"#;

#[test]
fn two_hundred_readers_starve_nobody_and_all_get_everything() {
    let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
    let file = mounted.path("t/0/follow.jsonl");
    let readers: Vec<_> = (0..200).map(|_| Reader::start(&["cat"], &file)).collect();
    readers.iter().for_each(waits);
    let first = growing.end();
    assert!(mounted::names(&mounted.path("t/0")).contains(&"log.jsonl".to_owned()));
    assert_eq!(offsets(&mounted::read(&mounted.path("t/0/log.jsonl"))), (0..first).collect::<Vec<_>>());
    for _ in 0..3 {
        growing.append(2);
        let expected: Vec<_> = (first..growing.end()).collect();
        let has_all = |reader: &Reader| offsets(&reader.printed()) == expected;
        wait_until("all of them", || readers.iter().all(has_all));
    }
    let threads = fs::read_dir(format!("/proc/{}/task", mounted.pid())).unwrap().count();
    assert!(threads < 40, "{threads} threads");
}

#[test]
fn unmounting_ends_followers_with_the_end_of_their_file() {
    for how in ["umount", "umount --lazy", "TERM"] {
        let Some((_growing, mounted)) = mounted_with(2, "") else { return };
        let mut readers: Vec<_> = ["t/0/follow", "t/all/follow.jsonl", "t/0/by-offset/0../follow"]
            .iter()
            .map(|file| Reader::start(&["cat"], &mounted.path(file)))
            .collect();
        readers.iter().for_each(waits);
        match how {
            "TERM" => {
                let sent = Command::new("kill").arg(mounted.pid().to_string()).status().unwrap();
                assert!(sent.success());
            }
            _ => {
                let output = topicfs().args(how.split(' ')).arg(mounted.point()).output().unwrap();
                assert!(output.status.success(), "{how}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
        for reader in &mut readers {
            let status = reader.ended_within(Duration::from_secs(5));
            assert!(status.is_some_and(|status| status.success()), "{how}: {status:?}");
            assert_eq!(reader.complaint(), "");
        }
        wait_until("its process ends", || !mounted.is_served());
    }
}

/// Readers in a process namespace that the mount's process doesn't see: what a container's are to a mount in another one.
#[test]
fn a_reader_in_another_process_namespace_is_ended_too() {
    if !mounted::can_mount() || !is_root() || !has("unshare") {
        return;
    }
    let mut growing = Growing::new();
    growing.append(2);
    let scratch = tempfile::tempdir().unwrap();
    let point = scratch.path().join("mnt");
    fs::create_dir(&point).unwrap();
    let mut server = Command::new("unshare")
        .args(["--pid", "--fork", "--kill-child", env!("CARGO_BIN_EXE_topicfs"), "mount", "--foreground"])
        .args(["-o", &format!("cache_dir={}", scratch.path().join("cache").display())])
        .arg(growing.data())
        .arg(&point)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is mounted", || point.join("t").exists());
    for signal in ["INT", "KILL"] {
        let mut reader = Reader::start(&["cat"], &point.join("t/0/follow.jsonl"));
        waits(&reader);
        reader.signal(signal);
        assert!(reader.ended_within(SOON).is_some(), "{signal}");
    }
    let unmounted = topicfs().arg("umount").arg(&point).status().unwrap();
    assert!(unmounted.success());
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_measurement_at_open_can_be_interrupted() {
    let mut growing = Growing::new();
    while fs::metadata(growing.segment(0)).unwrap().len() < 9 << 20 {
        growing.append(500);
    }
    // At this rate a size takes minutes; the first 4 MiB are read before the rate counts.
    let Some(mounted) = Mounted::with(growing.data(), "max_read_rate=64K,measure_wait=60s") else { return };
    for signal in ["INT", "TERM", "KILL"] {
        let mut reader = Reader::script(r#"exec tail -c 5 "$f""#, &mounted.path("t/0/log.jsonl"));
        waits(&reader);
        reader.signal(signal);
        assert!(reader.ended_within(SOON).is_some(), "{signal}");
    }
}

#[test]
fn records_of_an_open_transaction_come_when_it_is_committed() {
    let case = fixtures::case("4.4.0", "txn");
    let copy = tempfile::tempdir().unwrap();
    let from = case.data();
    let name = fs::read_dir(&from)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap())
        .find(|name| name.starts_with("txn"))
        .expect("a partition");
    let directory = copy.path().join(&name);
    fixtures::copy_into(&from.join(&name), &directory);
    let (topic, number) = name.rsplit_once('-').unwrap();
    let logs: Vec<PathBuf> = {
        let mut logs: Vec<_> =
            fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        logs
    };
    // The log as it was after each batch: what a committed reader is shown comes with the markers.
    let last = logs.last().unwrap();
    let bytes = fs::read(last).unwrap();
    let whole = shown::read(
        &shown::open(copy.path().to_str().unwrap(), Options::default()),
        &format!("{topic}/{number}@committed/log.jsonl"),
    );
    fs::write(last, b"").unwrap();
    let Some(mounted) = Mounted::new(copy.path()) else { return };
    let reader = Reader::start(
        &["cat"],
        &mounted.path(&format!("{topic}/{number}@committed/by-offset/0../follow.jsonl")),
    );
    let file = OpenOptions::new().append(true).open(last).unwrap();
    let mut at = 0;
    while at < bytes.len() {
        let len =
            12 + usize::try_from(i32::from_be_bytes(bytes[at + 8..at + 12].try_into().unwrap())).unwrap();
        io::Write::write_all(&mut &file, &bytes[at..at + len]).unwrap();
        at += len;
    }
    wait_until("all that is decided", || reader.has_printed(&whole));
}

/// What an open transaction holds back may be at the end of a segment that is sealed by then.
#[test]
fn what_is_held_back_is_not_left_out_when_the_segment_is_rolled() {
    let data = |first: i64, producer: i64| {
        let record = |offset| shown::ShownRecord {
            offset,
            timestamp: 1_700_000_000_000 + offset,
            key: None,
            value: Some(format!("value {offset}").into_bytes()),
            headers: Vec::new(),
        };
        let mut plan = Plan::of((first..first + 2).map(record).collect(), Compression::None);
        (plan.producer, plan.is_transactional) = (producer, true);
        batches::encode(&plan).remove(0).bytes
    };
    let marker = |offset, producer| batches::encode(&Plan::marker(offset, producer, true)).remove(0).bytes;
    let directory = Directory::default();
    let write = |base: i64, bytes: &[u8]| {
        let file = OpenOptions::new().create(true).append(true).open(directory.file(base, "log")).unwrap();
        io::Write::write_all(&mut &file, bytes).unwrap();
    };
    write(0, &[data(0, 7), data(2, 8), data(4, 9)].concat());
    let Some(mounted) = Mounted::new(directory.spec()) else { return };
    let reader = Reader::start(&["cat"], &mounted.path("t/0@committed/by-offset/0../follow.jsonl"));
    waits(&reader);
    write(6, &marker(6, 9));
    let shows = |expected: &[i64]| wait_until("it", || offsets(&reader.printed()) == expected);
    write(6, &marker(7, 7));
    shows(&[0, 1]);
    write(8, &data(8, 7));
    write(8, &marker(10, 8));
    shows(&[0, 1, 2, 3, 4, 5]);
    write(8, &marker(11, 7));
    shows(&[0, 1, 2, 3, 4, 5, 8, 9]);
}

/// What is given to a follower never mixes what was cut off with what came in its place.
#[test]
fn a_follower_of_a_truncated_log_fails_and_a_new_one_goes_on() {
    for lag in [false, true] {
        let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
        let mut reader = Reader::start(&["cat"], &mounted.path("t/0/follow.jsonl"));
        waits(&reader);
        let first = growing.end();
        growing.append(1);
        let (len, end) = (fs::metadata(growing.segment(0)).unwrap().len(), growing.end());
        growing.append(3);
        let expected: Vec<_> = (first..growing.end()).collect();
        wait_until("all", || offsets(&reader.printed()) == expected);
        let printed = reader.printed();
        growing.truncate(len, end);
        if lag {
            growing.append(6);
        }
        let status = reader.ended_within(Duration::from_secs(10)).expect("it ends");
        assert!(!status.success());
        assert!(reader.complaint().contains("Stale file handle"));
        assert!(reader.has_printed(&printed));
        let again = Reader::start(&["cat"], &mounted.path(&format!("t/0/by-offset/{end}../follow.jsonl")));
        growing.append(1);
        let expected: Vec<_> = (end..growing.end()).collect();
        wait_until("a new one", || offsets(&again.printed()) == expected);
    }
}

/// Found by thirty minutes of load: retention rolls a segment to which nothing more comes, and removes it at once.
#[test]
fn a_follower_that_has_got_all_goes_on_when_retention_has_taken_all() {
    let Some((mut growing, mounted)) = mounted_with(3, "") else { return };
    let file = mounted.path("t/0/by-offset/0../follow.jsonl");
    let mut open = open_without_waiting(&file);
    let mut bytes = [0; 1 << 16];
    let len = open.read(&mut bytes).unwrap();
    assert_eq!(offsets(&bytes[..len]), (0..growing.end()).collect::<Vec<_>>());
    for _ in 0..2 {
        // Nobody looks meanwhile.
        let first = growing.end();
        growing.roll();
        fs::write(growing.segment(first), "").unwrap();
        for entry in fs::read_dir(growing.partition()).unwrap() {
            let path = entry.unwrap().path();
            if path != growing.segment(first) {
                fs::remove_file(path).unwrap();
            }
        }
        assert_eq!(open.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        growing.append(2);
        let mut come = Vec::new();
        wait_until("it comes", || {
            let len = open.read(&mut bytes).unwrap_or(0);
            come.extend_from_slice(&bytes[..len]);
            offsets(&come) == (first..growing.end()).collect::<Vec<_>>()
        });
    }
}

#[test]
fn retention_behind_a_follower_is_not_seen_and_a_deleted_topic_ends_it() {
    let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
    let mut reader = Reader::start(&["cat"], &mounted.path("t/0/follow.jsonl"));
    waits(&reader);
    let first = growing.end();
    let sealed = growing.segment(growing.base());
    growing.roll();
    growing.append(1);
    let deleted = sealed.with_extension("log.deleted");
    fs::rename(&sealed, &deleted).unwrap();
    fs::remove_file(&deleted).unwrap();
    growing.append(1);
    let expected: Vec<_> = (first..growing.end()).collect();
    wait_until("all", || offsets(&reader.printed()) == expected);
    let gone = growing.data().join("t-0.0123456789abcdef0123456789abcdef-delete");
    fs::rename(growing.partition(), &gone).unwrap();
    let status = reader.ended_within(Duration::from_secs(10)).expect("it ends");
    assert!(!status.success());
    assert!(reader.complaint().contains("Stale file handle"));
}

#[test]
fn without_a_mount_a_stream_is_read_just_so() {
    let mut growing = Growing::new();
    growing.append(2);
    let first = growing.end();
    let mut command = topicfs();
    let mut child = command
        .args(["cat"])
        .arg(growing.data())
        .arg("t/0/by-offset/0../follow.jsonl")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = io::BufRead::lines(io::BufReader::new(child.stdout.take().unwrap()));
    let mut next = |count: i64| (0..count).map(|_| lines.next().unwrap().unwrap() + "\n").collect::<String>();
    assert_eq!(offsets(next(first).as_bytes()), (0..first).collect::<Vec<_>>());
    growing.append(1);
    assert_eq!(offsets(next(growing.end() - first).as_bytes()), (first..growing.end()).collect::<Vec<_>>());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Where inotify tells nothing (here: what is written below an overlay), growth is found by looking.
#[test]
fn growth_below_an_overlay_is_found_without_inotify() {
    if !mounted::can_mount() || !is_root() {
        return;
    }
    let (scratch, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // An overlay can't lie on every file system.
    let tmpfs = Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(scratch.path()).status().unwrap();
    assert!(tmpfs.success());
    let directory = |name: &str| {
        let path = scratch.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let mut growing = Growing::new();
    growing.append(2);
    let (upper, work, merged) = (directory("upper"), directory("work"), directory("merged"));
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        empty.path().display(),
        upper.display(),
        work.display()
    );
    let overlay =
        Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged).output();
    let is_overlay = overlay.unwrap().status.success();
    if is_overlay {
        fixtures::copy_into(&growing.partition(), &merged.join("t-0"));
        let mounted = Mounted::new(&merged).unwrap();
        let reader = Reader::start(&["cat"], &mounted.path("t/0/follow.jsonl"));
        waits(&reader);
        let first = growing.end();
        let below = upper.join("t-0/00000000000000000000.log");
        let mut below = OpenOptions::new().append(true).open(below).unwrap();
        for _ in 0..2 {
            io::Write::write_all(&mut below, &growing.next_batch()).unwrap();
        }
        let expected: Vec<_> = (first..growing.end()).collect();
        wait_until("it", || offsets(&reader.printed()) == expected);
    }
    let umount = |path: &Path| Command::new("umount").arg("-l").arg(path).status().unwrap().success();
    assert!(!is_overlay || umount(&merged));
    assert!(umount(scratch.path()));
    if !is_overlay {
        mounted::skip("no overlay here");
    }
}

#[test]
fn a_file_of_a_range_stays_readable_from_the_kernels_cache() {
    let Some((growing, mounted)) = mounted_with(5, "") else { return };
    let path = mounted.path("t/0/by-offset/0..5.jsonl");
    let whole = mounted::read(&path);
    let held = File::open(&path).unwrap();
    fs::remove_dir_all(growing.partition()).unwrap();
    let mut read = vec![0; whole.len()];
    held.read_exact_at(&mut read, 0).expect("it was read once, and is in the page cache");
    assert!(read == whole);
}

/// What the kernel tells of a file of the mount is what came through the mount: so growing files that are open are touched.
#[test]
fn programs_that_watch_a_growing_file_are_told_of_growth() {
    if !is_root() || !has("inotifywait") {
        return;
    }
    let Some((mut growing, mounted)) = mounted_with(2, "") else { return };
    for name in [
        "t/0/log.jsonl",
        "t/0/tail",
        "t/all/tail.jsonl",
        "t/0@committed/log",
        "t/0/by-segment/00000000000000000000",
    ] {
        let path = mounted.path(name);
        let held = File::open(&path).unwrap();
        let before = (held.metadata().unwrap().len(), held.metadata().unwrap().modified().unwrap());
        let watcher = Reader::script(r#"exec inotifywait -q -m -e modify --format %e "$f""#, &path);
        wait_until("it watches", || watcher.watches());
        growing.append(1);
        wait_until(name, || watcher.printed().starts_with(b"MODIFY\n"));
        wait_until("it is longer", || held.metadata().unwrap().len() > before.0);
        let source = fs::metadata(growing.segment(0)).unwrap().modified().unwrap();
        assert!(held.metadata().unwrap().modified().unwrap() <= source, "its time is the source's");
    }
    // A user may change nothing all the same.
    let file = mounted.path("t/0/log");
    for words in [&["touch"][..], &["truncate", "-s", "0"], &["chmod", "777"]] {
        let refused = Command::new(words[0]).args(&words[1..]).arg(&file).output().unwrap();
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && text.contains("Read-only file system"), "{words:?}: {text}");
    }
}

/// What lies far behind all that was read is found by other threads than those that serve.
#[test]
fn reads_far_ahead_of_what_is_known_are_right() {
    let mut growing = Growing::new();
    while fs::metadata(growing.segment(0)).unwrap().len() < 24 << 20 {
        growing.append(1000);
    }
    let source = shown::open(growing.data().to_str().unwrap(), Options::default());
    let Some(mounted) = Mounted::new(growing.data()) else { return };
    for name in ["log", "by-time/2000..2100.txt", "by-offset/1..2000000.txt", "log.jsonl"] {
        let whole = shown::read(&source, &format!("t/0/{name}"));
        let file = File::open(mounted.path(&format!("t/0/{name}"))).unwrap();
        for at in [whole.len() - 100_000, 1000, whole.len() / 2] {
            let mut read = vec![0; 100_000];
            file.read_exact_at(&mut read, at as u64).unwrap();
            assert!(read == whole[at..at + 100_000], "{name} at {at}");
        }
    }
    let last = shown::records(&shown::read(&source, "t/0/by-offset/last-1...jsonl")).remove(0);
    let first_at = |time: i64| mounted::read(&mounted.path(&format!("t/0/offsets/{time}")));
    let expected = shown::read(&source, &format!("t/0/offsets/{}", last.timestamp));
    assert_eq!(first_at(last.timestamp), expected);
}
