//! Segments from dead brokers, backups and downloads: renamed, compressed, damaged, below the log start.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use common::fixtures::{self, DamageCase, Reading};
use common::mounted::{self, Mounted, topicfs};
use common::shown;
use topicfs::fs::Fs;
use topicfs::fs::options::{From, OnDamage, Options};
use topicfs::fs::topic_options::TopicOptions;

const FIRST: &str = "00000000000000000000.log";
const SECOND: &str = "00000000000000000025.log";

fn open(source: &Path) -> Fs {
    shown::open(source.to_str().unwrap(), Options::default())
}

/// A copy of a partition with segments 0, 25, 49 in 80 records, in a directory of its name.
fn seg_size() -> (tempfile::TempDir, PathBuf) {
    let case = fixtures::damage_cases().into_iter().find(|case| case.name == "sound").unwrap();
    let copy = fixtures::copy(&case.data());
    let partition = copy.path().join(&case.expect.topic);
    (copy, partition)
}

fn offsets(fs: &Fs, path: &str) -> Vec<i64> {
    shown::records(&shown::read(fs, path)).iter().map(|record| record.offset).collect()
}

fn text(fs: &Fs, path: &str) -> String {
    String::from_utf8(shown::read(fs, path)).unwrap()
}

#[test]
fn a_segment_under_any_name_is_a_source() {
    let (copy, partition) = seg_size();
    let second = fs::read(partition.join(SECOND)).unwrap();
    let log = shown::read(&open(&partition.join(SECOND)), "seg-size/0/log.jsonl");
    let elsewhere = copy.path().join("evidence 7");
    fs::create_dir(&elsewhere).unwrap();
    // The name, the base offset that is right for it, whether the index lies where it is looked for.
    let names = [
        ("copy of 00000000000000000025.log", 25),
        ("00000000000000000025 (1).log", 25),
        ("00000000000000000025.log (1)", 25),
        ("00000000000000000025.log.bak", 25),
        ("00000000000000000025.log.deleted", 25),
        ("00000000000000000025.log.swap", 25),
        ("00000000000000000025.log.cleaned", 25),
        ("segment.log", 25),
        ("25.log", 25),
        ("log", 25),
        ("recovered chunk 0815", 25),
        // Names of segments, and not of this one.
        ("00000000000000000042.log", 42),
        ("00000000000000000000.log", 0),
    ];
    for (directory, topic) in [(partition.as_path(), "seg-size"), (elsewhere.as_path(), "evidence_7")] {
        for (name, base) in names {
            let path = directory.join(name);
            if path.exists() {
                continue;
            }
            fs::write(&path, &second).unwrap();
            let fs = open(&path);
            let shown = shown::read(&fs, &format!("{topic}/0/log.jsonl"));
            let expected = String::from_utf8(log.clone()).unwrap().replace("seg-size", topic);
            assert!(shown == expected.as_bytes(), "{name}");
            assert_eq!(
                shown::read(&fs, &format!("{topic}/0/by-offset/30..33.jsonl"))
                    .iter()
                    .filter(|b| **b == b'\n')
                    .count(),
                3
            );
            assert_eq!(
                shown::names(&fs, &format!("{topic}/0/by-segment"))[0],
                format!("{base:020}"),
                "{name}"
            );
            let segments = shown::names(&fs, &format!("{topic}/0/segments"));
            assert!(segments.iter().any(|listed| listed == name), "{name}: {segments:?}");
            assert!(shown::read(&fs, &format!("{topic}/0/segments/{name}")) == second);
            assert_eq!(text(&fs, &format!("{topic}/0/problems")), "", "{name}");
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_renamed_segment_is_read_by_all_commands_and_mounts() {
    let (_copy, partition) = seg_size();
    let path = partition.join("copy of 00000000000000000025.log");
    fs::copy(partition.join(SECOND), &path).unwrap();
    let source = path.to_str().unwrap();
    let run = |words: &[&str]| {
        let output = topicfs().args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let log = run(&["cat", source, "seg-size/0/log"]);
    assert!(log == shown::read(&open(&partition.join(SECOND)), "seg-size/0/log"));
    assert_eq!(run(&["ls", source]), b"README.txt\nseg-size\ntopics.tsv\n");
    assert!(log.ends_with(&run(&["tail", "-n", "3", source, "seg-size/0/log"])));
    let Some(mount) = Mounted::new(&path) else { return };
    assert!(mounted::read(&mount.path("seg-size/0/log")) == log);
}

#[test]
fn a_renamed_segment_of_the_old_formats_has_the_offset_that_is_inside() {
    // In magic 0 and 1 a compressed set is named by its last offset.
    for (version, case, topic) in [("0.10.0.1", "format-up", "gzip"), ("0.8.2.2", "codecs", "gzip")] {
        let case = fixtures::case(version, case);
        let partition = case.partitions().into_iter().find(|p| p.topic.contains(topic)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000999.log");
        fs::copy(partition.dir.join(FIRST), &path).unwrap();
        let renamed = dir.path().join("renamed.log");
        fs::copy(partition.dir.join(FIRST), &renamed).unwrap();
        for path in [path, renamed] {
            let fs = open(&path);
            let topic = shown::names(&fs, "")
                .into_iter()
                .find(|name| !name.contains("topic") && name != "README.txt")
                .unwrap();
            let shown = offsets(&fs, &format!("{topic}/0/log.jsonl"));
            let first: Vec<i64> =
                partition.records().iter().map(|record| record.offset).take(shown.len()).collect();
            assert!(!shown.is_empty() && shown == first, "{version}: {shown:?}");
            assert_eq!(text(&fs, &format!("{topic}/0/problems")), "");
        }
    }
}

#[test]
fn what_is_no_segment_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tar = b"0123456789abcd\0\0\0".repeat(40);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&tar).unwrap();
    let files: [(&str, Vec<u8>); 5] = [
        ("backup.tar.gz", gz.finish().unwrap()),
        ("backup.tar", tar),
        ("catalogue.logo", vec![0; 100]),
        ("random", (0..200_u8).rev().collect()),
        ("empty", Vec::new()),
    ];
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        let refused =
            Fs::open(path.to_str().unwrap(), Options::default(), String::new()).unwrap_err().to_string();
        assert!(refused.contains("nor begins with a record batch") && refused.contains(name), "{refused}");
    }
    let text = dir.path().join("app.log.gz");
    let mut gz = flate2::write::GzEncoder::new(File::create(&text).unwrap(), flate2::Compression::fast());
    gz.write_all(b"2026-11-29 10:00:00 INFO started\n").unwrap();
    gz.finish().unwrap();
    let refused =
        Fs::open(text.to_str().unwrap(), Options::default(), String::new()).unwrap_err().to_string();
    assert!(refused.contains("text"), "{refused}");
}

/// Compresses a file as a backup tool does: the new one in the place of the old one.
fn pack(path: &Path, extension: &str) -> PathBuf {
    let bytes = fs::read(path).unwrap();
    let packed = match extension {
        "gz" => {
            let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            to.write_all(&bytes).unwrap();
            to.finish().unwrap()
        }
        _ => zstd::encode_all(&bytes[..], 3).unwrap(),
    };
    let to = path.with_extension(format!("log.{extension}"));
    fs::write(&to, packed).unwrap();
    fs::remove_file(path).unwrap();
    to
}

/// Everything that a partition shows of its records.
fn everything(fs: &Fs) -> Vec<(String, Vec<u8>)> {
    let mut names: Vec<String> = [
        "log",
        "log.jsonl",
        "log.tsv",
        "log.log",
        "tail",
        "by-offset/last-1",
        "by-offset/30.json",
        "by-offset/20..60.jsonl",
    ]
    .map(str::to_owned)
    .into();
    names.extend(
        shown::names(fs, "seg-size/0/by-segment").into_iter().map(|name| format!("by-segment/{name}")),
    );
    let strip = |bytes: Vec<u8>| {
        String::from_utf8_lossy(&bytes).replace(".log.gz", ".log").replace(".log.zst", ".log")
    };
    names
        .into_iter()
        .map(|name| (name.clone(), strip(shown::read(fs, &format!("seg-size/0/{name}"))).into_bytes()))
        .collect()
}

#[test]
fn compressed_segments_read_as_what_is_in_them() {
    let (_copy, partition) = seg_size();
    let data = partition.parent().unwrap();
    let expected = everything(&open(data));
    let logs: Vec<PathBuf> = ["0", "25", "49"].map(|base| partition.join(format!("{base:0>20}.log"))).into();
    for (extension, packed) in [("gz", vec![1]), ("zst", vec![0, 2]), ("gz", vec![0, 1, 2])] {
        let (copy, _) = (fixtures::copy(data), ());
        let here = copy.path().join("seg-size-0");
        let packed: Vec<_> =
            packed.into_iter().map(|n| pack(&here.join(logs[n].file_name().unwrap()), extension)).collect();
        for source in [copy.path(), &here] {
            let fs = open(source);
            assert!(everything(&fs) == expected, "{packed:?}");
            assert_eq!(text(&fs, "seg-size/0/problems"), "");
            for packed in &packed {
                let name = packed.file_name().unwrap().to_str().unwrap();
                assert!(
                    shown::read(&fs, &format!("seg-size/0/segments/{name}")) == fs::read(packed).unwrap()
                );
            }
        }
        let fs = open(&packed[0]);
        let name = packed[0].file_name().unwrap().to_str().unwrap();
        let part = format!("by-segment/{}", name.split('.').next().unwrap());
        let (_, part) = expected.iter().find(|(name, _)| *name == part).unwrap();
        assert!(shown::read(&fs, "seg-size/0/log") == *part);
        // Also under another name.
        let renamed = copy.path().join("from the backup");
        fs::copy(&packed[0], &renamed).unwrap();
        let fs = open(&renamed);
        let topic = shown::names(&fs, "")
            .into_iter()
            .find(|name| !name.contains("opic") && name != "README.txt")
            .unwrap();
        assert!(shown::read(&fs, &format!("{topic}/0/log")) == *part);
    }
}

#[test]
fn a_plain_segment_wins_over_a_compressed_one() {
    let (_copy, partition) = seg_size();
    let plain = fs::read(partition.join(SECOND)).unwrap();
    let packed = pack(&partition.join(SECOND), "gz");
    fs::write(partition.join(SECOND), &plain).unwrap();
    // Would be shown if it were read.
    fs::write(&packed, b"\x1f\x8b\x08 damaged").unwrap();
    let fs = open(&partition);
    assert_eq!(offsets(&fs, "seg-size/0/log.jsonl"), (0..80).collect::<Vec<_>>());
    assert_eq!(
        text(&fs, "seg-size/0/problems"),
        "00000000000000000025.log.gz\tposition 0\tlength 11\toffset -\tcopy\tnot shown: the segment is here uncompressed\n"
    );
    let all = text(&fs, ".topicfs/problems");
    assert!(all.contains(&format!("{}\tposition 0\tlength 11\t", packed.display())), "{all}");
}

#[test]
fn of_a_damaged_compressed_segment_what_could_be_unpacked_is_shown() {
    for extension in ["gz", "zst"] {
        let (_copy, partition) = seg_size();
        let packed = pack(&partition.join(SECOND), extension);
        let bytes = fs::read(&packed).unwrap();
        fs::write(&packed, &bytes[..bytes.len() / 2]).unwrap();
        let fs = open(&partition);
        let shown = offsets(&fs, "seg-size/0/log.jsonl");
        let others = shown.iter().filter(|offset| !(25..49).contains(*offset)).count();
        assert_eq!(others, 80 - 24, "{extension}");
        let name = packed.file_name().unwrap().to_str().unwrap();
        let problems = text(&fs, "seg-size/0/problems");
        let line = problems.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.contains("bytes could be unpacked, then: "), "{line}");
        let manifest = topicfs().args(["manifest", "--format", "json"]).arg(&packed).output().unwrap();
        assert_eq!(manifest.status.code(), Some(1));
        let line: serde_json::Value = serde_json::from_slice(&manifest.stdout).unwrap();
        assert!(line["damage"]["cause"].is_string() && line["sha256"].is_string(), "{line}");
        assert_eq!(line["records"].as_u64().unwrap(), shown.len() as u64 - 56);
    }
}

#[test]
fn unpacking_is_bounded_and_a_listing_unpacks_nothing_but_the_last_segment() {
    let (_copy, partition) = seg_size();
    for base in ["0", "25", "49"] {
        pack(&partition.join(format!("{base:0>20}.log")), "gz");
    }
    // A segment that nobody could ever unpack: 100 MiB of zeros are 100 KiB of gzip.
    let bomb = partition.join("00000000000000000025.log.gz");
    let mut to = flate2::write::GzEncoder::new(File::create(&bomb).unwrap(), flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..100 {
        to.write_all(&zeros).unwrap();
    }
    to.finish().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let options =
        Options { cache_dir: Some(cache.path().join("cache")), unpack_limit: 16 << 20, ..Options::default() };
    let fs = shown::open(partition.to_str().unwrap(), options);
    let listed = shown::names(&fs, "seg-size/0");
    assert!(["log.jsonl", "tail"].iter().all(|name| listed.iter().any(|listed| listed == name)));
    shown::read(&fs, "seg-size/0/info");
    assert_eq!(offsets(&fs, "seg-size/0/by-segment/00000000000000000000.jsonl").len(), 25);
    let error = shown::try_read(&fs, "seg-size/0/log").unwrap_err().to_string();
    assert!(error.contains(bomb.to_str().unwrap()) && error.contains("unpack_limit = 16777216"), "{error}");
    assert_eq!(offsets(&fs, "seg-size/0/by-segment/00000000000000000049.jsonl").len(), 31);
    assert_eq!(fs::read_dir(cache.path().join("cache")).unwrap().count(), 0);
}

#[test]
fn a_mount_of_compressed_segments() {
    let (_copy, partition) = seg_size();
    let log = shown::read(&open(&partition), "seg-size/0/log.jsonl");
    for base in ["0", "25", "49"] {
        pack(&partition.join(format!("{base:0>20}.log")), "zst");
    }
    let Some(mount) = Mounted::new(partition.parent().unwrap()) else { return };
    let path = mount.path("seg-size/0/log.jsonl");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "a stat unpacks nothing");
    assert!(mounted::read(&path) == log);
    assert_eq!(fs::metadata(&path).unwrap().len(), log.len() as u64);
    // It stays readable to those who hold it.
    let by_segment = mount.path("seg-size/0/by-segment/00000000000000000025.jsonl");
    let mut held = File::open(&by_segment).unwrap();
    fs::remove_file(partition.join("00000000000000000025.log.zst")).unwrap();
    mounted::wait_until("gone", || !by_segment.exists());
    let mut read = Vec::new();
    std::io::Read::read_to_end(&mut held, &mut read).unwrap();
    assert_eq!(shown::records(&read).len(), 24);
}

/// Cases with damage between sound batches of a log, and the offsets that it took.
fn damaged_in_the_middle() -> Vec<(DamageCase, i64, i64)> {
    let mut cases = Vec::new();
    for case in fixtures::damage_cases() {
        let is_log = case.expect.file.as_deref().is_some_and(|file| file.ends_with(".log"));
        let (Some(batch), None) = (case.expect.batch, &case.expect.readable) else { continue };
        if is_log && !case.expect.sound_after.is_empty() {
            let lost = (batch.base_offset, batch.last_offset);
            cases.push((case, lost.0, lost.1));
        }
    }
    cases
}

#[test]
fn on_damage_error_fails_at_the_damage_everywhere() {
    let mut checked = 0;
    for (case, first, last) in damaged_in_the_middle() {
        let source = case.data().to_str().unwrap().to_owned();
        let skipping = shown::open(&source, Options::default());
        let failing = shown::open(
            &source,
            TopicOptions { on_damage: OnDamage::Error, ..TopicOptions::default() }.into(),
        );
        let topic = format!("{}/0", case.expect.topic.strip_suffix("-0").unwrap());
        let shown: Vec<i64> = offsets(&skipping, &format!("{topic}/log.jsonl"));
        if shown.contains(&first) || text(&skipping, &format!("{topic}/problems")).is_empty() {
            println!("{}: the records are there all the same, or a gap like compaction's", case.name);
            continue;
        }
        let segment =
            ["00000000000000000049", "00000000000000000026", "00000000000000000025", "00000000000000000000"]
                .into_iter()
                .find(|base| case.expect.file.as_deref().unwrap().contains(base))
                .unwrap();
        let (before, behind) = (first - 1, shown.iter().copied().find(|offset| *offset > last).unwrap());
        let range = |from: i64, to: i64, format: &str| format!("{topic}/by-offset/{from}..{to}{format}");
        let failing_paths = [
            format!("{topic}/log"),
            format!("{topic}/log.txt"),
            format!("{topic}/log.jsonl"),
            format!("{topic}/log.tsv"),
            format!("{topic}/log.log"),
            format!("{topic}/tail"),
            format!("{topic}/tail.jsonl"),
            format!("{topic}/by-segment/{segment}"),
            format!("{topic}/by-segment/{segment}.tsv"),
            range(0, 80, ".jsonl"),
            range(before, behind + 1, ".txt"),
            range(first, behind + 1, ".log"),
            format!("{topic}/by-offset/{before}...jsonl"),
            format!("{topic}/by-offset/..80.tsv"),
            format!("{topic}/by-offset/{before}..+3.jsonl"),
            format!("{topic}/by-offset/{first}"),
            format!("{topic}/by-offset/{last}.json"),
            format!("{topic}/by-offset/{first}.log"),
        ];
        for path in &failing_paths {
            let error = shown::try_read(&failing, path)
                .err()
                .unwrap_or_else(|| panic!("{}: {path} is read", case.name));
            assert!(error.to_string().contains("on_damage is error"), "{}: {path}: {error}", case.name);
        }
        for range in [range(0, 80, ""), range(before, behind + 1, "")] {
            let node = failing.resolve(&range).unwrap();
            let error = failing.list_sorted(&node).unwrap_err().to_string();
            assert!(error.contains("on_damage is error"), "{}: {range}: {error}", case.name);
        }
        // What does not touch it is read.
        for path in [
            range(0, first, ".jsonl"),
            range(behind, 80, ".jsonl"),
            format!("{topic}/by-offset/{before}"),
            format!("{topic}/by-offset/{behind}.json"),
            format!("{topic}/by-offset/last-1"),
            format!("{topic}/segments/{segment}.log"),
        ] {
            assert!(shown::read(&failing, &path) == shown::read(&skipping, &path), "{}: {path}", case.name);
        }
        // All before it comes before the error.
        let mut read = Vec::new();
        let node = failing.resolve(&format!("{topic}/log.jsonl")).unwrap();
        let result = failing.read_whole(&node, |piece| {
            read.extend_from_slice(piece);
            Ok(())
        });
        assert!(result.is_err());
        let read: Vec<i64> = shown::records(&read).iter().map(|record| record.offset).collect();
        assert_eq!(read, (0..first).collect::<Vec<_>>(), "{}", case.name);
        checked += 1;
    }
    println!("{checked} cases");
    assert!(checked > 20, "{checked}");
}

#[test]
fn on_damage_error_is_an_io_error_of_commands_and_of_the_mount() {
    let (case, first, _) =
        damaged_in_the_middle().into_iter().find(|(case, ..)| case.name == "bit-in-value").unwrap();
    let run = |words: &[&str]| {
        let output = topicfs().args(words).arg("-o").arg("on_damage=error").output().unwrap();
        (output.status.code(), output.stdout, String::from_utf8(output.stderr).unwrap())
    };
    let data = case.data();
    let source = data.to_str().unwrap();
    let (code, printed, said) = run(&["cat", source, "seg-size/0/log.jsonl"]);
    assert_eq!((code, shown::records(&printed).len()), (Some(1), usize::try_from(first).unwrap()));
    assert!(
        said.contains("topicfs: seg-size/0/log.jsonl: ") && said.contains("on_damage is error"),
        "{said}"
    );
    let (code, _, said) = run(&["tail", "-n", "70", source, "seg-size/0/log"]);
    assert!(code == Some(1) && said.contains("on_damage is error"), "{said}");
    let (code, printed, said) = run(&["ls", "-l", source, "seg-size/0"]);
    assert!(code == Some(0) && !said.contains("topicfs:") && !printed.is_empty(), "{said}");
    let (code, _, said) = run(&["ls", source, "seg-size/0/by-offset/0..80"]);
    assert!(code == Some(1) && said.contains("on_damage is error"), "{said}");

    let Some(mount) = Mounted::with(&data, "on_damage=error") else { return };
    for path in [
        "log",
        "tail",
        "log.jsonl",
        "by-offset/0..80.tsv",
        &format!("by-offset/{first}"),
        "by-segment/00000000000000000025",
    ] {
        let error = fs::read(mount.path(&format!("seg-size/0/{path}"))).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO), "{path}: {error}");
    }
    let error = fs::read_dir(mount.path("seg-size/0/by-offset/0..80"))
        .and_then(Iterator::collect::<Result<Vec<_>, _>>);
    assert_eq!(error.unwrap_err().raw_os_error(), Some(libc::EIO));
    assert!(mount.path("seg-size/0/by-offset/3").exists());
}

#[test]
fn from_first_segment_shows_deleted_records_everywhere() {
    let mut checked = 0;
    for case in fixtures::cases() {
        for partition in case.partitions() {
            let Reading::AboveLogStart(log_start) = partition.reading else { continue };
            let data = partition.dir.parent().unwrap().to_str().unwrap();
            let of_consumer = shown::open(data, Options::default());
            let all = shown::open(
                data,
                TopicOptions { from: From::FirstSegment, ..TopicOptions::default() }.into(),
            );
            let at = |path: &str| format!("{}/{}/{path}", partition.topic, partition.number);
            let committed = |path: &str| format!("{}/{}@committed/{path}", partition.topic, partition.number);
            let (few, many) = (offsets(&of_consumer, &at("log.jsonl")), offsets(&all, &at("log.jsonl")));
            let Some(deleted) = many.iter().copied().filter(|offset| *offset < log_start).max() else {
                continue;
            };
            assert!(few.iter().all(|offset| *offset >= log_start) && many.ends_with(&few));
            assert_eq!(offsets(&all, &at("tail.jsonl")), many);
            assert_eq!(
                offsets(&all, &at(&format!("by-offset/..{log_start}.jsonl"))),
                many[..many.len() - few.len()]
            );
            assert_eq!(
                offsets(&of_consumer, &at(&format!("by-offset/..{log_start}.jsonl"))),
                Vec::<i64>::new()
            );
            assert_eq!(offsets(&all, &at(&format!("by-offset/{deleted}...jsonl"))).first(), Some(&deleted));
            assert_eq!(offsets(&of_consumer, &at(&format!("by-offset/{deleted}...jsonl"))), few);
            let record = at(&format!("by-offset/{deleted}.json"));
            assert!(all.resolve(&record).is_ok() && of_consumer.resolve(&record).is_err());
            let last = at(&format!("by-offset/last-{}", few.len() + 1));
            assert!(all.resolve(&last).is_ok() && of_consumer.resolve(&last).is_err());
            let names = |fs: &Fs| shown::names(fs, &at(&format!("by-offset/0..{log_start}"))).len();
            assert_eq!((names(&all), names(&of_consumer)), (many.len() - few.len(), 0));
            for (fs, offsets_expected) in [(&all, &many), (&of_consumer, &few)] {
                let segments = shown::names(fs, &at("by-segment"));
                let parts = segments.iter().filter(|name| name.ends_with(".jsonl"));
                let joined: Vec<i64> =
                    parts.flat_map(|name| offsets(fs, &at(&format!("by-segment/{name}")))).collect();
                assert_eq!(&joined, offsets_expected);
                assert!(!offsets(fs, &committed("log.jsonl")).is_empty() || offsets_expected.is_empty());
                let info: serde_json::Value =
                    serde_json::from_slice(&shown::read(fs, &at("info.json"))).unwrap();
                assert_eq!(info["records"].as_u64(), Some(offsets_expected.len() as u64));
            }
            let cat =
                topicfs().args(["cat", "-o", "from=first-segment", data, &at("log.jsonl")]).output().unwrap();
            assert_eq!(shown::records(&cat.stdout).len(), many.len());
            let tail = topicfs()
                .args(["tail", "-n", "100000", "-o", "from=first-segment", data, &at("log.jsonl")])
                .output()
                .unwrap();
            assert_eq!(shown::records(&tail.stdout).len(), many.len());
            checked += 1;
        }
    }
    assert!(checked >= 3, "{checked}");
}
