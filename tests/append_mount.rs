//! Append files through a mount, written to by the programs that people use.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output};

use common::exposition::Metrics;
use common::mounted::{Mounted, has, is_root, topicfs, wait_until};
use serde_json::Value;
use tempfile::TempDir;

/// A directory of one's own, mounted for appending, with the topic `t`.
struct Own {
    data: TempDir,
    mount: Mounted,
}

impl Own {
    fn new(options: &str) -> Option<Self> {
        let data = tempfile::tempdir().unwrap();
        Self::over(data, options)
    }

    fn over(data: TempDir, options: &str) -> Option<Self> {
        let mount = Mounted::with(data.path(), &format!("append,{options}"))?;
        if !mount.path("t").exists() {
            fs::create_dir(mount.path("t")).unwrap();
        }
        Some(Self { data, mount })
    }

    fn append(&self, extension: &str) -> File {
        let path = self.mount.path(&format!("t/0/append{extension}"));
        OpenOptions::new().append(true).open(path).unwrap()
    }

    /// All values, one a line.
    fn log(&self) -> String {
        fs::read_to_string(self.mount.path("t/0/log")).unwrap()
    }

    /// The same when it ends as expected: what has no newline is appended a moment after the last close.
    fn wait_for(&self, end: &str) {
        wait_until(&format!("the log ends with {end:?}"), || self.log().ends_with(end));
    }

    fn objects(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.mount.path("t/0/log.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs a shell command in the partition's directory.
    fn sh(&self, command: &str) -> Output {
        let directory = self.mount.path("t/0");
        Command::new("bash").args(["-c", command]).current_dir(directory).output().unwrap()
    }
}

/// A command, and the lines that it appends.
const TOOLS: &[(&str, &str)] = &[
    ("echo one >> append", "one\n"),
    ("echo two > append", "two\n"),
    ("printf 'a\\nb\\n' | cat >> append", "a\nb\n"),
    ("seq 3 | tee -a append", "1\n2\n3\n"),
    ("seq 3 | tee append", "1\n2\n3\n"),
    ("printf 'x\\ny\\n' > /tmp/topicfs-$$; cp /tmp/topicfs-$$ append; rm /tmp/topicfs-$$", "x\ny\n"),
    ("seq 2000 | dd of=append bs=100 status=none", "1999\n2000\n"),
    ("seq 3 | dd of=append bs=4M oflag=append,sync conv=notrunc,fsync status=none", "3\n"),
    ("seq 4 | awk '{print $1 * 2 > \"append\"}'", "6\n8\n"),
    ("perl -e 'open F, \">>append\" or die; print F \"perl\\n\"; close F or die'", "perl\n"),
    ("python3 -c 'open(\"append\", \"a\").write(\"python\\n\")'", "python\n"),
    ("python3 -c 'f = open(\"append\", \"ab\"); f.tell(); f.write(b\"tell\\n\")'", "tell\n"),
    ("python3 -c 'f = open(\"append\", \"r+b\", 0); f.seek(100); f.write(b\"seek\\n\")'", "seek\n"),
    ("busybox sh -c 'echo busybox >> append'", "busybox\n"),
    ("seq 2 | busybox tee -a append", "1\n2\n"),
    ("exec 3>>append; printf par >&3; printf 'tial\\n' >&3; exec 3>&-", "partial\n"),
    ("(printf a; /usr/bin/printf b; echo c) >> append", "abc\n"),
    ("printf 'no newline' >> append", "no newline\n"),
    ("printf 'crlf\\r\\n' >> append", "crlf\r\n"),
    ("touch append && truncate -s 0 append && echo touched >> append", "touched\n"),
    ("echo '{\"value\":\"from jq\"}' | jq -c . >> append.jsonl", "from jq\n"),
];

#[test]
fn programs_append_as_to_any_file() {
    let Some(own) = Own::new("") else { return };
    for (command, end) in TOOLS {
        if !["busybox", "jq"].iter().all(|tool| !command.contains(tool) || has(tool)) {
            continue;
        }
        let before = own.log();
        let output = own.sh(command);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complaint.is_empty(), "{command}: {complaint}");
        own.wait_for(end);
        assert!(own.log().starts_with(&before), "{command}: what was there stays");
    }
    let seen = fs::metadata(own.mount.path("t/0/append")).unwrap();
    assert_eq!((seen.len(), seen.permissions().mode() & 0o777), (0, 0o200));
    assert_eq!(own.sh("cat append").stdout, b"", "there is nothing to read");
}

#[test]
fn what_is_written_can_be_read_when_write_returns() {
    let Some(own) = Own::new("") else { return };
    let mut file = own.append("");
    let mut log = File::open(own.mount.path("t/0/log")).unwrap();
    for number in 0..200 {
        assert_eq!(file.write(format!("line {number}\n").as_bytes()).unwrap(), 6 + number.to_string().len());
        let mut line = String::new();
        std::io::Read::read_to_string(&mut log, &mut line).unwrap();
        assert_eq!(line, format!("line {number}\n"));
    }
}

#[test]
fn the_lines_of_a_write_are_one_batch() {
    let Some(own) = Own::new("") else { return };
    own.append("").write_all(b"a\nb\nc\n").unwrap();
    own.append("").write_all(b"d\n").unwrap();
    let dump = fs::read_to_string(own.mount.path("t/0/dump/00000000000000000000.log.batches")).unwrap();
    let batches: Vec<_> = dump.lines().filter(|line| line.starts_with("baseOffset")).collect();
    assert_eq!(batches.len(), 2, "{dump}");
    assert!(batches[0].contains("lastOffset: 2 count: 3"), "{dump}");
    assert!(batches[0].contains("partitionLeaderEpoch: 0"), "{dump}");
}

#[test]
fn a_line_that_is_refused_has_its_errno_and_those_before_it_are_in() {
    let Some(own) = Own::new("max.message.bytes=1000") else { return };
    let errno = |result: std::io::Result<usize>| result.unwrap_err().raw_os_error();
    let mut file = own.append(".jsonl");
    assert_eq!(
        file.write(b"{\"value\":\"1\"}\n{\"value\":\"2\"}\n{\"valeu\":3}\n{\"value\":\"4\"}\n").unwrap(),
        28
    );
    assert_eq!(errno(file.write(b"{\"valeu\":3}\n{\"value\":\"4\"}\n")), Some(libc::EINVAL));
    assert_eq!(file.write(b"{\"value\":\"4\"}\n").unwrap(), 14, "the handle goes on");
    let mut file = own.append("");
    let long = vec![b'x'; 2000];
    assert_eq!(errno(file.write(&long)), Some(libc::EMSGSIZE), "no line that long has an end");
    assert_eq!(file.write(&[b"5\n", &long[..], b"\n"].concat()).unwrap(), 2);
    assert_eq!(errno(file.write(&[&long[..], b"\n"].concat())), Some(libc::EMSGSIZE));
    let mut file = own.append(".tsv");
    assert_eq!(errno(file.write(b"one column\n")), Some(libc::EINVAL));
    assert_eq!(own.log(), "1\n2\n4\n5\n");
    let problems = fs::read_to_string(own.mount.path(".topicfs/problems")).unwrap();
    assert!(problems.contains("`valeu` is no member of a record"), "{problems}");
    assert!(problems.contains("max.message.bytes = 1000"), "{problems}");
    assert!(own.mount.log().contains("not appended"), "{}", own.mount.log());
}

#[test]
fn what_is_appended_and_who_waits_for_it_is_counted() {
    let Some(own) = Own::new("") else { return };
    let now = || Metrics::of(&own.mount.path(".topicfs/metrics"));
    let records = &[("for", "records")];
    let waiting = |count: f64| {
        wait_until("followers wait", || now().get("topicfs_requests_waiting", records) == count);
    };
    let follow = own.mount.path("t/0/follow");
    let reader = std::thread::spawn(move || {
        let mut line = String::new();
        BufReader::new(File::open(follow).unwrap()).read_line(&mut line).unwrap();
        line
    });
    waiting(1.0);
    let mut file = own.append(".tsv");
    file.write_all(b"a\tfirst\nb\tsecond\n").unwrap();
    assert_eq!(reader.join().unwrap(), "first\n");
    waiting(0.0);
    assert!(file.write(b"one column\n").is_err());
    let before = now().get("topicfs_syncs_total", &[]);
    file.sync_all().unwrap();
    own.append("").write_all(b"no newline").unwrap();
    own.wait_for("no newline\n");

    let metrics = now();
    let count = |name: &str, labels: &[(&str, &str)]| metrics.get(name, labels);
    let topic = &[("topic", "t")];
    assert_eq!(count("topicfs_appended_records_total", topic), 3.0);
    assert_eq!(count("topicfs_appended_bytes_total", topic), 27.0);
    assert_eq!(count("topicfs_append_refusals_total", &[]), 1.0);
    let refused = &[("operation", "write"), ("error", "EINVAL")];
    assert_eq!(count("topicfs_request_errors_total", refused), 1.0);
    assert_eq!(count("topicfs_requests_total", &[("operation", "fsync")]), 1.0);
    assert!(count("topicfs_syncs_total", &[]) > before);
    assert!(count("topicfs_request_waits_total", records) >= 1.0);
    assert!(count("topicfs_request_wait_seconds_total", records) > 0.0);
}

#[test]
fn a_copy_of_a_partition_has_its_keys_values_headers_and_times() {
    let Some(own) = Own::new("") else { return };
    let lines = [
        r#"{"key":"k","value":"v","headers":[["a","1"],["a",null],["b",{"base64":"/w=="}]],"timestamp":5}"#,
        r#"{"key":null,"value":{"base64":"AP8="},"timestamp":6}"#,
        r#"{"key":"","value":null,"timestamp":1700000000000}"#,
        "{\"value\":\"\\u0000\\n\u{e9}\",\"timestamp\":0}",
    ];
    own.append(".jsonl").write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
    fs::create_dir(own.mount.path("copy")).unwrap();
    let output = own.sh("cat log.jsonl >> ../../copy/0/append.jsonl");
    assert!(output.status.success(), "{output:?}");
    let copy = fs::read_to_string(own.mount.path("copy/0/log.jsonl")).unwrap();
    assert_eq!(copy.replace("\"topic\":\"copy\"", "\"topic\":\"t\""), {
        fs::read_to_string(own.mount.path("t/0/log.jsonl")).unwrap()
    });
    assert_eq!(own.objects()[0]["headers"][2][1]["base64"], "/w==");
    let tsv = own.sh("cat log.tsv >> ../../copy/0/append.tsv");
    assert!(tsv.status.success(), "{tsv:?}");
    assert_eq!(
        own.sh("tail -n 4 ../../copy/0/log.tsv | cut -f 2-").stdout,
        own.sh("cut -f 2- log.tsv").stdout
    );
}

#[test]
fn values_may_be_whole_files_or_end_with_nul() {
    let Some(own) = Own::new("") else { return };
    let bytes: Vec<u8> = (0..100_000_u32).map(|number| (number % 251) as u8).collect();
    let mut blob = own.append(".blob");
    for piece in bytes.chunks(30_000) {
        blob.write_all(piece).unwrap();
    }
    drop(blob);
    wait_until("the file is a record", || own.mount.path("t/0/by-offset/0").exists());
    assert_eq!(fs::read(own.mount.path("t/0/by-offset/0")).unwrap(), bytes);
    own.append(".nul").write_all(b"with\nnewlines\0and without\0").unwrap();
    assert_eq!(fs::read(own.mount.path("t/0/by-offset/1")).unwrap(), b"with\nnewlines");
    assert_eq!(fs::read(own.mount.path("t/0/by-offset/2")).unwrap(), b"and without");
}

/// Writes lines of 1 byte to 1 MiB, about a megabyte a second, for so many seconds; then says how many.
const WRITER: &str = "
import os, random, sys, time
writer, seconds = sys.argv[1], float(sys.argv[2])
file = os.open('append', os.O_WRONLY | os.O_APPEND)
end, count = time.monotonic() + seconds, 0
while time.monotonic() < end:
    size = int(2 ** random.uniform(0, 20))
    head = f'{writer} {count} {size} '.encode()
    # What makes a batch larger than max.message.bytes would be refused.
    line = head + b'x' * min(size, (1 << 20) - 200) + b'\\n'
    while line:
        line = line[os.write(file, line):]
    count += 1
    time.sleep(size / 1e6)
print(count)
";

/// Each line whole, each writer's in order, each once. `TOPICFS_WRITERS` and `TOPICFS_WRITERS_SECONDS` make it more than 8 and 3 seconds.
#[test]
fn lines_of_many_writers_are_whole_and_in_their_order() {
    let Some(own) = Own::new("segment.bytes=64MiB") else { return };
    if !has("python3") {
        return;
    }
    let of = |name: &str, default: usize| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (writers, seconds) = (of("TOPICFS_WRITERS", 8), of("TOPICFS_WRITERS_SECONDS", 3));
    let begun: Vec<_> = (0..writers)
        .map(|writer| {
            let mut python = Command::new("python3");
            python.args(["-c", WRITER, &writer.to_string(), &seconds.to_string()]);
            python.current_dir(own.mount.path("t/0")).stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let counts: Vec<usize> = begun
        .into_iter()
        .map(|writer| {
            let output = writer.wait_with_output().unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
        })
        .collect();
    let mut next = vec![0; writers];
    let log = BufReader::with_capacity(1 << 20, File::open(own.mount.path("t/0/log")).unwrap());
    for line in log.lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<usize> = words[..3].iter().map(|word| word.parse().unwrap()).collect();
        let len = numbers[2].min((1 << 20) - 200);
        assert_eq!((numbers[1], words[3].len()), (next[numbers[0]], len), "of writer {}", numbers[0]);
        next[numbers[0]] += 1;
    }
    assert_eq!(next, counts);
    println!("{} lines of {writers} writers", counts.iter().sum::<usize>());
}

#[test]
fn a_full_disk_refuses_a_line_and_goes_on_when_there_is_room() {
    if !is_root() {
        return common::mounted::skip("mounting a small file system takes root");
    }
    let data = tempfile::tempdir().unwrap();
    let disk = data.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let run = |program: &str, words: &[&str]| Command::new(program).args(words).status().unwrap().success();
    assert!(run("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", disk.to_str().unwrap()]));
    let source = disk.join("data");
    fs::create_dir(&source).unwrap();
    let Some(mount) = Mounted::with(&source, "append,segment.bytes=128KiB") else { return };
    fs::create_dir(mount.path("t")).unwrap();
    fs::write(disk.join("filler"), vec![0; 600 << 10]).unwrap();
    let mut file = OpenOptions::new().append(true).open(mount.path("t/0/append")).unwrap();
    let line = |number: usize| format!("{number} {}\n", "x".repeat(1000));
    let mut written = 0;
    let error = loop {
        match file.write(line(written).as_bytes()) {
            Ok(count) => assert_eq!(count, line(written).len()),
            Err(error) => break error,
        }
        written += 1;
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
    assert!((100..500).contains(&written), "{written}");
    fs::remove_file(disk.join("filler")).unwrap();
    for number in written..written + 200 {
        file.write_all(line(number).as_bytes()).unwrap();
    }
    let expected: String = (0..written + 200).map(line).collect();
    assert!(fs::read_to_string(mount.path("t/0/log")).unwrap() == expected);
    drop(file);
    assert!(topicfs().arg("umount").arg(mount.point()).status().unwrap().success());
    let verified = topicfs().arg("verify").arg(&source).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    assert!(source.join(".kafka_cleanshutdown").exists());
    drop(mount);
    assert!(run("umount", &[disk.to_str().unwrap()]));
}

#[test]
fn synced_lines_are_durable_before_the_write_returns() {
    let Some(own) = Own::new("") else { return };
    let path = own.mount.path("t/0/append");
    let mut file = OpenOptions::new().append(true).custom_flags(libc::O_DSYNC).open(&path).unwrap();
    file.write_all(b"one\n").unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"two\nthr").unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    file.write_all(b"ee\n").unwrap();
    assert_eq!(own.log(), "one\ntwo\nthree\n");
}

#[test]
fn directories_are_topics_and_partitions() {
    let Some(own) = Own::new("allow_delete") else { return };
    let kind = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
    let path = |path: &str| own.mount.path(path);
    fs::create_dir(path("a.b")).unwrap();
    fs::create_dir(path("a.b/1")).unwrap();
    assert!(path("a.b/0/append").exists() && path("a.b/1/append").exists());
    assert_eq!(kind(fs::create_dir(path("a.b"))), Some(libc::EEXIST));
    assert_eq!(kind(fs::create_dir(path("a.b/1"))), Some(libc::EEXIST));
    for bad in ["a.b/3", "a.b/x", "a_b", "with space", "\u{e9}"] {
        assert_eq!(kind(fs::create_dir(path(bad))), Some(libc::EINVAL), "{bad}");
    }
    assert_eq!(kind(fs::create_dir(path("a.b/0/x"))), Some(libc::EPERM));
    let id = |number: usize| {
        let metadata = own.data.path().join(format!("a.b-{number}/partition.metadata"));
        fs::read_to_string(metadata).unwrap()
    };
    assert_eq!(id(0), id(1));
    assert!(id(0).starts_with("version: 0\ntopic_id: "));
    let mut held = OpenOptions::new().append(true).open(path("a.b/0/append")).unwrap();
    held.write_all(b"x\n").unwrap();
    assert_eq!(kind(fs::remove_dir(path("a.b/0"))), Some(libc::EPERM), "not before the last one");
    fs::remove_dir(path("a.b/1")).unwrap();
    fs::remove_dir(path("a.b")).unwrap();
    assert!(!path("a.b").exists() && !own.data.path().join("a.b-0").exists());
    assert_eq!(held.write(b"y\n").unwrap_err().raw_os_error(), Some(libc::ESTALE));
    fs::create_dir(path("a.b")).unwrap();
    assert_eq!(fs::read_to_string(path("a.b/0/log")).unwrap(), "");
}

#[test]
fn what_nobody_can_change_is_refused() {
    let Some(own) = Own::new("") else { return };
    for (command, word) in [
        ("rm append", "not permitted"),
        ("mv append x", "not permitted"),
        ("ln -s a b", "not permitted"),
        ("ln append b", "not permitted"),
        ("touch new", "not permitted"),
        ("chmod 666 append", "not permitted"),
        ("truncate -s 10 log", "ermission denied"),
        ("echo x >> log", "ermission denied"),
        ("rmdir ../../t", "not permitted"),
        ("setfattr -n user.x -v y append", "not supported"),
        ("fallocate -l 100 append", "not supported"),
    ] {
        let program = command.split(' ').next().unwrap();
        if !["setfattr", "fallocate"].contains(&program) || has(program) {
            let output = own.sh(&format!("LC_ALL=C {command}"));
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && text.contains(word), "{command}: {text}");
        }
    }
    assert_eq!(own.log(), "");
}

#[test]
fn a_clusters_directory_gets_no_topics_unless_that_is_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let meta = "version=1\ncluster.id=topicfsTopicfsTopicfsQ\nnode.id=1\n";
    fs::write(data.path().join("meta.properties"), meta).unwrap();
    let Some(mount) = Mounted::with(data.path(), "append") else { return };
    assert_eq!(fs::create_dir(mount.path("t")).unwrap_err().raw_os_error(), Some(libc::EPERM));
    assert!(mount.log().contains("allow_cluster_topics"), "{}", mount.log());
    drop(mount);
    let Some(own) = Own::over(data, "allow_cluster_topics") else { return };
    assert!(own.mount.path("t/0/append").exists());
}

#[test]
fn a_mount_that_only_reads_has_no_append_files() {
    let Some(own) = Own::new("") else { return };
    own.append("").write_all(b"x\n").unwrap();
    let Some(reading) = Mounted::new(own.data.path()) else { return };
    assert!(!reading.path("t/0/append").exists());
    assert_eq!(fs::create_dir(reading.path("u")).unwrap_err().raw_os_error(), Some(libc::EROFS));
    assert_eq!(fs::read_to_string(reading.path("t/0/log")).unwrap(), "x\n", "both see the same");
    own.append("").write_all(b"y\n").unwrap();
    assert_eq!(fs::read_to_string(reading.path("t/0/log")).unwrap(), "x\ny\n");
}

#[test]
fn a_partition_or_a_file_can_not_be_mounted_for_appending() {
    let Some(own) = Own::new("") else { return };
    own.append("").write_all(b"x\n").unwrap();
    for source in ["t-0", "t-0/00000000000000000000.log", "nothing"] {
        let mut command = topicfs();
        let source = own.data.path().join(source);
        let output = command.args(["mount", "--rw"]).arg(&source).arg(own.data.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", source.display());
    }
    assert!(!own.data.path().join("t-0/.lock").exists());
}

/// The commands of `docs/append.md` print what it shows.
#[test]
fn the_document_shows_what_happens() {
    let data = tempfile::tempdir().unwrap();
    let Some(mount) = Mounted::with(data.path(), "append") else { return };
    let document = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/append.md")).unwrap();
    let examples = common::console::examples(&document);
    assert!(examples.len() >= 12, "{}", examples.len());
    for (command, shown) in examples {
        let mut bash = Command::new("bash");
        let output =
            bash.arg("-c").arg(&command).current_dir(mount.point()).env("LC_ALL", "C").output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        assert_eq!(String::from_utf8_lossy(&printed), shown, "$ {command}");
    }
}

/// Reads what a command printed, having gone well.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn lines_are_appended_without_a_mount() {
    let data = tempfile::tempdir().unwrap();
    let append = |words: &[&str], input: &[u8]| -> Output {
        let input_file = data.path().parent().unwrap().join(format!("input-{}", std::process::id()));
        fs::write(&input_file, input).unwrap();
        let mut command = topicfs();
        command.arg("append").args(&words[1..]).arg(data.path()).arg(words[0]);
        let output = command.stdin(File::open(&input_file).unwrap()).output().unwrap();
        fs::remove_file(input_file).unwrap();
        output
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let missing = append(&["notes/0"], b"x\n");
    assert_eq!((missing.status.code(), said(&missing).contains("--create makes it")), (Some(2), true));
    let first = append(&["notes/0", "--create"], b"one\ntwo\nthree");
    assert!(first.status.success() && said(&first).contains("appended 3 records"), "{}", said(&first));
    let refused = append(&["notes/0.jsonl"], b"{\"value\":\"four\"}\n{\"x\":1}\n");
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("line 2 is refused: "), "{}", said(&refused));
    let codec = append(&["notes/0.tsv", "-o", "compression.type=zstd"], b"k\tfive\n");
    assert!(codec.status.success(), "{}", said(&codec));
    let cat = printed(topicfs().arg("cat").arg(data.path()).arg("notes/0/log"));
    assert_eq!(cat, "one\ntwo\nthree\nfour\nfive\n");
    assert!(data.path().join(".kafka_cleanshutdown").exists());
    for wrong in ["notes", "notes/0.xml", "__consumer_offsets/0", "notes/2"] {
        assert_eq!(append(&[wrong, "--create"], b"x\n").status.code(), Some(2), "{wrong}");
    }
    assert!(Path::new(data.path()).join("notes-0").is_dir());
}

#[test]
fn behind_an_open_transaction_nothing_is_appended_unless_that_is_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let case = common::fixtures::case("4.4.0", "txn");
    common::fixtures::copy_into(&case.data(), data.path());
    let open = case.partitions().into_iter().find(|partition| {
        let info = printed(
            topicfs()
                .arg("cat")
                .arg(data.path())
                .arg(format!("{}/{}/info", partition.topic, partition.number)),
        );
        info.lines().any(|line| line.starts_with("open transaction "))
    });
    let name =
        open.map(|partition| format!("{}/{}", partition.topic, partition.number)).expect("one is open");
    let append = |options: &[&str]| {
        let mut command = topicfs();
        command.arg("append").args(options).arg(data.path()).arg(&name);
        let mut child =
            command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"behind\n").unwrap();
        child.wait_with_output().unwrap()
    };
    let refused = append(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("has a transaction open since offset"), "{said}");
    assert!(data.path().join(".kafka_cleanshutdown").exists(), "nothing was changed");
    assert!(append(&["-o", "append_to_open_transactions"]).status.success());
    let log = printed(topicfs().arg("cat").arg(data.path()).arg(format!("{name}/log")));
    assert!(log.ends_with("behind\n"), "{log}");
    let committed = printed(topicfs().arg("cat").arg(data.path()).arg(format!("{name}@committed/log")));
    assert!(!committed.contains("behind\n"), "{committed}");
}
