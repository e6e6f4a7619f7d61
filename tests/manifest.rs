//! What `topicfs manifest` says of files: compared with sha256sum, find, and what Kafka's own tools said of the segments.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::fixtures::{self, Dump, DumpKind, Reading};
use common::mounted::{self, Mounted, has, topicfs};
use serde_json::Value;

fn manifest(words: &[&str]) -> Output {
    topicfs().arg("manifest").args(words).output().unwrap()
}

/// The lines of `--format json` by path.
fn lines(path: &Path) -> BTreeMap<PathBuf, Value> {
    let output = manifest(&["--format", "json", path.to_str().unwrap()]);
    assert_ne!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (PathBuf::from(line["path"].as_str().unwrap()), line)).collect()
}

fn found(directory: &Path) -> BTreeMap<PathBuf, (u64, String)> {
    let output = Command::new("find")
        .arg(directory)
        .args(["-type", "f", "-printf", r"%p\t%s\t%TY-%Tm-%TdT%TT\n"])
        .env("TZ", "UTC")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let file = |line: &str| {
        let columns: Vec<&str> = line.split('\t').collect();
        // find has ten digits behind the point, the last of them 0.
        let time = format!("{}Z", columns[2].strip_suffix('0').unwrap());
        (PathBuf::from(columns[0]), (columns[1].parse().unwrap(), time))
    };
    text.lines().map(file).collect()
}

#[test]
fn checksums_sizes_and_times_are_those_that_other_tools_print() {
    if !["sha256sum", "find"].into_iter().all(has) {
        return;
    }
    let directory = fixtures::dir().join("kafka-4.4.0");
    let found = found(&directory);
    assert!(found.len() > 1000, "{}", found.len());
    let shown: BTreeMap<_, _> = lines(&directory)
        .into_iter()
        .map(|(path, line)| {
            (path, (line["size"].as_u64().unwrap(), line["mtime"].as_str().unwrap().to_owned()))
        })
        .collect();
    assert_eq!(shown, found);

    let sums = manifest(&["--format", "sha256sum", directory.to_str().unwrap()]);
    assert_eq!(sums.stdout.iter().filter(|byte| **byte == b'\n').count(), found.len());
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), &sums.stdout).unwrap();
    let check =
        Command::new("sha256sum").args(["-c", "--strict", "--quiet"]).arg(file.path()).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
    let broken = String::from_utf8(sums.stdout).unwrap().replacen('0', "1", 1);
    fs::write(file.path(), broken).unwrap();
    let check = Command::new("sha256sum").args(["-c", "--quiet"]).arg(file.path()).output().unwrap();
    assert!(!check.status.success(), "a wrong checksum is found");
}

/// What kafka-dump-log prints of a log's batches.
#[derive(Debug, Default, PartialEq)]
struct Batches {
    offsets: Option<(i64, i64)>,
    batches: u64,
    /// Only magic 2 has counts.
    records: Option<(u64, u64)>,
    codecs: BTreeMap<String, u64>,
    producers: BTreeSet<i64>,
    epochs: BTreeSet<i64>,
}

/// The batch lines of a dump, `None` when there are none that tell the first offset.
fn dumped(dump: &Dump) -> Option<Batches> {
    let text = String::from_utf8_lossy(&fs::read(&dump.text).unwrap()).into_owned();
    let mut all = Batches::default();
    for line in text.lines().filter(|line| line.starts_with("baseOffset: ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let word = |name: &str| words[words.iter().position(|word| *word == name).unwrap() + 1];
        let number = |name: &str| word(name).parse::<i64>().unwrap();
        let first = all.offsets.map_or(number("baseOffset:"), |(first, _)| first);
        all.offsets = Some((first, number("lastOffset:")));
        all.batches += 1;
        *all.codecs.entry(word("compresscodec:").to_owned()).or_default() += 1;
        let count = u64::try_from(number("count:")).unwrap();
        let (records, control) = all.records.get_or_insert((0, 0));
        *if word("isControl:") == "true" { control } else { records } += count;
        all.producers.extend(Some(number("producerId:")).filter(|id| *id != -1));
        all.epochs.extend(Some(number("partitionLeaderEpoch:")).filter(|epoch| *epoch != -1));
    }
    let is_old = text.lines().any(|line| line.starts_with("offset: "));
    (!is_old).then_some(all)
}

fn numbers(value: &Value) -> BTreeSet<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

fn shown(line: &Value) -> Batches {
    let count = |key: &str| line[key].as_u64().unwrap();
    let batches = count("batches");
    let codecs = line["codecs"].as_object().unwrap();
    assert_eq!(
        line["magics"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>(),
        batches
    );
    let (producers, epochs) = (numbers(&line["producer_ids"]), numbers(&line["leader_epochs"]));
    assert_eq!(count("producers"), producers.len() as u64);
    assert_eq!(count("epochs"), epochs.len() as u64);
    Batches {
        offsets: line["first_offset"].as_i64().map(|first| (first, line["last_offset"].as_i64().unwrap())),
        batches,
        records: (batches > 0).then(|| (count("records"), count("control_records"))),
        codecs: codecs.iter().map(|(codec, n)| (codec.clone(), n.as_u64().unwrap())).collect(),
        producers,
        epochs,
    }
}

#[test]
fn segments_hold_what_kafka_says_of_them() {
    let mut compared = 0;
    for case in fixtures::cases() {
        let lines: BTreeMap<_, _> = case.data_dirs().iter().flat_map(|data| lines(data)).collect();
        for dump in case.dumps() {
            let is_log = dump.source.extension().is_some_and(|extension| extension == "log");
            if !is_log || dump.kind != DumpKind::Full {
                continue;
            }
            let Some(expected) = dumped(&dump) else { continue };
            let line = &lines[&dump.source];
            assert_eq!(line["kind"], "segment");
            assert_eq!(shown(line), expected, "{}", dump.source.display());
            compared += 1;
        }
    }
    println!("{compared} segments compared with kafka-dump-log");
    assert!(compared > 200, "{compared}");
}

#[test]
fn counts_and_times_are_those_of_the_records_of_all_versions() {
    let mut versions = BTreeSet::new();
    for case in fixtures::cases() {
        let lines: BTreeMap<_, _> = case.data_dirs().iter().flat_map(|data| lines(data)).collect();
        for partition in case.partitions().iter().filter(|partition| partition.reading == Reading::AsOnDisk) {
            let records = partition.records();
            let mut segments: Vec<_> = lines
                .iter()
                .filter(|(path, line)| {
                    path.parent() == Some(&partition.dir)
                        && line["kind"] == "segment"
                        && line["state"] == "live"
                })
                .map(|(_, line)| line)
                .collect();
            segments.retain(|line| line["records"] != 0);
            let name = partition.dir.display();
            let sum: u64 = segments.iter().map(|line| line["records"].as_u64().unwrap()).sum();
            assert_eq!(sum, records.len() as u64, "{name}");
            let max = segments.iter().filter_map(|line| line["max_timestamp"].as_i64()).max();
            let times: Vec<i64> = records.iter().map(|r| r.timestamp).filter(|time| *time != -1).collect();
            assert_eq!(max, times.iter().max().copied(), "{name}");
            let first = segments.iter().find_map(|line| line["first_timestamp"].as_i64());
            assert_eq!(first, times.first().copied(), "{name}");
            if let (Some(first), Some(line)) = (records.first(), segments.first()) {
                assert!(line["first_offset"].as_i64().unwrap() <= first.offset, "{name}");
            }
            versions.insert(case.version.clone());
        }
    }
    assert!(versions.len() >= 10, "{versions:?}");
}

#[test]
fn damage_is_told_and_makes_the_exit_code_1() {
    let mut told = 0;
    for case in fixtures::damage_cases() {
        let output = manifest(&["--format", "json", case.data().to_str().unwrap()]);
        let lines = lines(&case.data());
        let damaged: Vec<_> = lines.values().filter(|line| !line["damage"].is_null()).collect();
        let code = i32::from(!damaged.is_empty());
        assert_eq!(output.status.code(), Some(code), "{}", case.name);
        let is_log = case.expect.file.as_deref().is_some_and(|file| file.ends_with(".log"));
        let Some(batch) = case.expect.batch.as_ref().filter(|_| is_log && case.expect.readable.is_none())
        else {
            continue;
        };
        let file = case.data().join(case.expect.file.as_deref().unwrap());
        let line = &lines[&file];
        if line["damage"].is_null() {
            // Compaction makes gaps too, and the first seven bytes of a batch are zeros.
            assert!(["batch-missing", "torn-in-prefix"].contains(&case.name.as_str()), "{}", case.name);
            continue;
        }
        let first = line["damage"]["first_position"].as_u64();
        // What was put in, or came twice, begins at the damage itself.
        assert!(first == Some(batch.position) || first == case.expect.at, "{}: {line}", case.name);
        told += 1;
    }
    println!("{told} damaged segments told");
    assert!(told > 35, "{told}");
    for name in ["sound", "sound-gzip"] {
        let case = fixtures::damage_cases().into_iter().find(|case| case.name == name).unwrap();
        assert_eq!(manifest(&[case.data().to_str().unwrap()]).status.code(), Some(0));
    }
}

#[test]
fn a_line_is_one_line_whatever_the_name() {
    if !["sha256sum", "mkfifo"].into_iter().all(has) {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let names =
        [&b"tab\there"[..], b"new\nline", b"back\\slash", b"bell\x07", b"latin-1 \xe4", "ä".as_bytes()];
    for name in names {
        fs::write(data.path().join(std::ffi::OsString::from_vec(name.to_vec())), name).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", data.path().join("link")).unwrap();
    assert!(Command::new("mkfifo").arg(data.path().join("pipe")).status().unwrap().success());

    let path = data.path().to_str().unwrap();
    let text = manifest(&[path]);
    assert_eq!(text.status.code(), Some(0));
    let text = String::from_utf8(text.stdout).unwrap();
    assert_eq!(text.lines().count(), 1 + names.len() + 2);
    assert!(text.lines().all(|line| line.split('\t').count() == 15), "{text}");
    for shown in [r"tab\there", r"new\nline", r"back\\slash", r"bell\u{7}", r"latin-1 \xe4", "ä"] {
        assert!(text.lines().any(|line| line.ends_with(shown)), "{shown}: {text}");
    }
    for kind in ["symlink", "special"] {
        let line = text.lines().find(|line| line.split('\t').nth(3) == Some(kind)).unwrap();
        assert!(line.starts_with("-\t-\t"), "{line}");
    }
    let json = String::from_utf8(manifest(&["--format", "json", path]).stdout).unwrap();
    let json: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json.len(), names.len() + 2);
    assert!(json.iter().any(|line| line["path"]["base64"].is_string()));

    let mut check =
        Command::new("sha256sum").args(["-c", "--strict", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    let sums = manifest(&["--format", "sha256sum", path]).stdout;
    std::io::Write::write_all(&mut check.stdin.take().unwrap(), &sums).unwrap();
    assert!(check.wait().unwrap().success());
}

#[test]
fn the_order_is_fixed_and_sources_come_as_they_are_named() {
    let segments = fixtures::case("4.4.0", "segments").data();
    let txn = fixtures::case("4.4.0", "txn").data();
    let paths = |output: &Output| -> Vec<String> {
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        text.lines().skip(1).map(|line| line.rsplit('\t').next().unwrap().to_owned()).collect()
    };
    let both = manifest(&[txn.to_str().unwrap(), segments.to_str().unwrap()]);
    for _ in 0..3 {
        assert_eq!(manifest(&[txn.to_str().unwrap(), segments.to_str().unwrap()]).stdout, both.stdout);
    }
    let (first, second) = (manifest(&[txn.to_str().unwrap()]), manifest(&[segments.to_str().unwrap()]));
    assert_eq!(paths(&both), [paths(&first), paths(&second)].concat());
    let list = format!("{},{}", txn.display(), segments.display());
    assert_eq!(manifest(&[&list]).stdout, both.stdout);

    let properties = tempfile::NamedTempFile::with_suffix(".properties").unwrap();
    fs::write(properties.path(), format!("log.dirs={list}\n")).unwrap();
    assert_eq!(manifest(&[properties.path().to_str().unwrap()]).stdout, both.stdout);

    let one = segments.join("seg-size-0/00000000000000000000.log");
    assert_eq!(paths(&manifest(&[one.to_str().unwrap()])), [one.to_str().unwrap()]);
}

#[test]
fn what_can_not_be_read_is_told() {
    let missing = manifest(&["/nowhere/data"]);
    assert_eq!((missing.status.code(), missing.stdout.is_empty()), (Some(2), true));
    let said = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(said, "topicfs: /nowhere/data: no such file or directory\n");

    if !(mounted::is_root() && has("setpriv")) {
        return;
    }
    let data = fixtures::copy(&fixtures::case("4.4.0", "segments").data());
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(data.path(), 0o755);
    let (hidden, closed) =
        (data.path().join("seg-size-0/00000000000000000000.log"), data.path().join("seg-gzip-0"));
    mode(&hidden, 0);
    mode(&closed, 0);
    let binary = tempfile::tempdir().unwrap();
    mode(binary.path(), 0o755);
    let copy = binary.path().join("topicfs");
    fs::copy(env!("CARGO_BIN_EXE_topicfs"), &copy).unwrap();
    let output = Command::new("setpriv")
        .args(["--clear-groups", "--reuid", "65534", "--regid", "65534"])
        .arg(&copy)
        .args(["manifest", "-o", "cache_dir=/nowhere"])
        .arg(data.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for path in [&hidden, &closed] {
        let line = text.lines().find(|line| line.ends_with(path.to_str().unwrap())).expect("a line for it");
        assert!(line.starts_with("-\t") && line.contains("unreadable: Permission denied"), "{line}");
        assert!(said.contains(&format!("topicfs: {}: Permission denied", path.display())), "{said}");
    }
    assert!(text.lines().filter(|line| line.contains("\tsegment\t")).count() > 1, "{text}");
}

#[test]
fn a_mount_has_it_by_name_only() {
    let data = fixtures::case("4.4.0", "segments").data();
    let Some(mount) = Mounted::new(&data) else { return };
    let control = mount.path(".topicfs");
    assert_eq!(mounted::names(&control), ["builds", "config.yaml", "metrics", "problems", "version"]);
    for (name, format) in [("manifest", "text"), ("manifest.json", "json"), ("manifest.sha256", "sha256sum")]
    {
        let path = control.join(name);
        assert_eq!(fs::metadata(&path).unwrap().len(), 0, "nothing is read for a size");
        let shown = fs::read(&path).unwrap();
        assert!(!shown.is_empty());
        assert_eq!(shown, manifest(&["--format", format, data.to_str().unwrap()]).stdout, "{name}");
        let cat =
            topicfs().args(["cat", data.to_str().unwrap(), &format!(".topicfs/{name}")]).output().unwrap();
        assert_eq!(shown, cat.stdout, "{name}");
    }
    // In pieces, and in the middle.
    let whole = fs::read(control.join("manifest")).unwrap();
    let file = fs::File::open(control.join("manifest")).unwrap();
    let mut piece = vec![0; 100];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut piece, 1000).unwrap();
    assert_eq!(piece, whole[1000..1100]);
    assert_eq!(std::os::unix::fs::FileExt::read_at(&file, &mut piece, whole.len() as u64).unwrap(), 0);
}
