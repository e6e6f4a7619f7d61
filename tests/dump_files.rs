//! `dump/` and the `.dump` extension: sizes, reads at any place, growth; and the cases from people's reports about dumps.

#![allow(clippy::expect_used, clippy::panic, reason = "a test that can't go on stops with a panic")]

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use common::batches::{Plan, encode};
use common::dumped::dump_file;
use common::fixtures;
use common::growing::Growing;
use common::model::Numbers;
use common::mounted::{self, Mounted, topicfs};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::fs::options::Options;
use topicfs::fs::{Fs, Node};
use topicfs::view::dump::entry::{Level, Shown};
use topicfs::view::selection::Effort;

/// Everything of a file: its size as an open file has it, what is read front to back, and at places anywhere.
fn read_everywhere(fs: &Fs, node: &Node, path: &str, random: &mut Numbers) -> Vec<u8> {
    let size = fs.attributes(1, node, Effort::All).unwrap_or_else(|error| panic!("{path}: {error}")).size;
    let mut whole = Vec::new();
    fs.read_whole(node, |piece| {
        whole.extend_from_slice(piece);
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(size, whole.len() as u64, "{path}: size");
    let content = fs.content(1, node).expect("content");
    for _ in 0..4 {
        let at = random.below(whole.len() + 10);
        let len = 1 + random.below(4096);
        let mut part = Vec::new();
        fs.read_content(&content, at as u64, len, &mut part).expect("a read");
        let expected = &whole[at.min(whole.len())..(at + len).min(whole.len())];
        assert!(part == expected, "{path}: {len} bytes at {at}");
    }
    whole
}

fn first_path(text: &[u8]) -> String {
    let line = text.split(|byte| *byte == b'\n').next().expect("a line");
    String::from_utf8_lossy(line.strip_prefix(b"Dumping ").expect("Dumping")).into_owned()
}

/// Partitions of a source: path in the tree, and directory on disk.
fn partitions(fs: &Fs) -> Vec<(String, std::path::PathBuf)> {
    let tree = fs.source().tree();
    let of = |(topic, partitions): (&String, &Vec<std::sync::Arc<topicfs::log::partition::Partition>>)| {
        let paths = partitions
            .iter()
            .map(|partition| (format!("{topic}/{}", partition.label), partition.origin.path().to_owned()));
        paths.collect::<Vec<_>>()
    };
    tree.topics.iter().flat_map(of).collect()
}

#[test]
fn every_dump_in_the_tree_has_its_size_and_is_the_one_of_the_command() {
    let mut random = Numbers::new(7);
    let mut sources: Vec<_> = fixtures::cases().iter().flat_map(fixtures::Case::data_dirs).collect();
    sources.extend(fixtures::damage_cases().iter().map(fixtures::DamageCase::data));
    let mut count = 0;
    for source in sources {
        let fs = shown::open(source.to_str().expect("UTF-8"), Options::default());
        for (partition, directory) in partitions(&fs) {
            for name in shown::names(&fs, &format!("{partition}/dump")) {
                let path = format!("{partition}/dump/{name}");
                let node = fs.resolve(&path).expect("a node");
                let text = read_everywhere(&fs, &node, &path, &mut random);
                let (file, level) = match name.strip_suffix(".batches") {
                    Some(file) => (file, Level::Batches),
                    None => (name.as_str(), Level::Contents),
                };
                let printed = first_path(&text);
                let expected_path = directory.file_name().expect("a name").to_string_lossy() + "/" + file;
                assert_eq!(printed, expected_path, "{path}");
                let ours = dump_file(&directory.join(file), &printed, Shown::all(level));
                // Where the command says gaps of a log on stderr, a file has no place for it.
                let is_log = file.contains(".log") || file.contains(".checkpoint");
                let mut expected = ours.text;
                expected.extend(if is_log { Vec::new() } else { ours.reports.into_bytes() });
                assert!(text == expected, "{}: {path}", source.display());
                count += 1;
            }
        }
    }
    println!("{count} dumps in the tree");
    assert!(count > 4500, "{count}");
}

/// A data directory with the one segment `bytes`.
fn one_segment(bytes: &[u8]) -> tempfile::TempDir {
    let data = tempfile::tempdir().expect("a directory");
    fs::create_dir(data.path().join("t-0")).expect("a directory");
    fs::write(data.path().join("t-0/00000000000000000000.log"), bytes).expect("a segment");
    data
}

/// Batches of `records` records of about `len` bytes.
fn batches(count: i64, records: i64, len: usize, codec: Compression) -> Vec<u8> {
    let record = |offset: i64| ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: Some(format!("key-{offset}").into_bytes()),
        value: Some(vec![b'a' + u8::try_from(offset % 26).expect("small"); len]),
        headers: Vec::new(),
    };
    let plan = |batch: i64| Plan::of((batch * records..(batch + 1) * records).map(record).collect(), codec);
    (0..count).flat_map(|batch| encode(&plan(batch))).flat_map(|entry| entry.bytes).collect()
}

#[test]
fn long_dumps_are_read_from_anywhere_past_damage_too() {
    let mut bytes = batches(400, 5, 900, Compression::None);
    bytes.extend(batches(3, 4000, 50, Compression::Zstd));
    // Garbage within, a batch that has lost its length, and zeros at the end.
    let middle = bytes.len() / 2;
    bytes[middle..middle + 600].fill(0);
    bytes.splice(0..0, [0xee; 100]);
    bytes.extend([0; 5000]);
    let data = one_segment(&bytes);
    let fs = shown::open(data.path().to_str().expect("UTF-8"), Options::default());
    let mut random = Numbers::new(3);
    for (name, level) in [("", Level::Contents), (".batches", Level::Batches)] {
        let path = format!("t/0/dump/00000000000000000000.log{name}");
        let node = fs.resolve(&path).expect("a node");
        let text = read_everywhere(&fs, &node, &path, &mut random);
        for _ in 0..20 {
            read_everywhere(&fs, &node, &path, &mut random);
        }
        let file = data.path().join("t-0/00000000000000000000.log");
        let ours = dump_file(&file, "t-0/00000000000000000000.log", Shown::all(level));
        assert!(text == ours.text, "{path}");
        let marks =
            String::from_utf8_lossy(&text).lines().filter(|line| line.starts_with("topicfs: ")).count();
        assert!(marks >= 2, "{marks}");
        assert!(level == Level::Batches || text.len() > 2_000_000, "{}", text.len());
    }
}

#[test]
fn long_dumps_of_logs_with_random_damage_are_read_from_anywhere() {
    let sound = batches(150, 10, 900, Compression::None);
    for seed in 0..5 {
        let mut random = Numbers::new(seed);
        let mut bytes = sound.clone();
        for _ in 0..40 {
            let at = random.below(bytes.len() - 600);
            match random.below(4) {
                0 => bytes[at] ^= 1 << random.below(8),
                1 => bytes[at..at + 512].fill(0),
                2 => drop(bytes.drain(at..at + random.below(300)).count()),
                _ => {
                    let garbage = random.bytes(50);
                    bytes.splice(at..at, garbage);
                }
            }
        }
        let data = one_segment(&bytes);
        let fs = shown::open(data.path().to_str().expect("UTF-8"), Options::default());
        for (name, level) in [("", Level::Contents), (".batches", Level::Batches)] {
            let path = format!("t/0/dump/00000000000000000000.log{name}");
            let text = read_everywhere(&fs, &fs.resolve(&path).expect("a node"), &path, &mut random);
            let file = data.path().join("t-0/00000000000000000000.log");
            let ours = dump_file(&file, "t-0/00000000000000000000.log", Shown::all(level));
            assert!(text == ours.text && ours.is_damaged, "seed {seed}");
            assert!(text.windows(10).any(|part| part == b"\ntopicfs: "), "seed {seed}");
        }
    }
}

#[test]
fn a_dump_grows_with_its_log_and_is_stale_when_that_is_cut() {
    let mut growing = Growing::new();
    growing.append(40);
    let Some(mounted) = Mounted::with(growing.data(), "") else { return };
    let path = mounted.path("t/0/dump/00000000000000000000.log");
    let expected = |growing: &Growing| {
        dump_file(&growing.segment(0), "t-0/00000000000000000000.log", Shown::all(Level::Contents)).text
    };
    let before = mounted::read(&path);
    assert!(before == expected(&growing));
    let open = File::open(&path).expect("can be opened");
    for _ in 0..30 {
        growing.append(3);
        let now = mounted::read(&path);
        assert!(now == expected(&growing) && now.starts_with(&before), "grows");
        assert_eq!(open.metadata().expect("stat").len(), now.len() as u64, "the open file sees it");
    }
    // The beginning of a batch is told of, until the rest is there.
    let batch = growing.next_batch();
    growing.write(&batch[..50]);
    assert!(
        mounted::read(&path).ends_with(b"Found 50 invalid bytes at the end of 00000000000000000000.log\n")
    );
    growing.write(&batch[50..]);
    assert!(mounted::read(&path) == expected(&growing));

    let inode = fs::metadata(&path).expect("stat").ino();
    growing.truncate(1000, 1);
    let error = open.read_at(&mut [0; 100], 0).expect_err("the bytes are gone");
    assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}");
    mounted::wait_until("another file", || fs::metadata(&path).is_ok_and(|meta| meta.ino() != inode));
    assert!(mounted::read(&path) == expected(&growing));
}

#[test]
fn sizes_of_long_dumps_are_found_while_they_are_open() {
    let data = one_segment(&batches(300, 10, 900, Compression::None));
    let Some(mounted) = Mounted::with(data.path(), "") else { return };
    let path = mounted.path("t/0/dump/00000000000000000000.log");
    assert_eq!(fs::metadata(&path).expect("stat").len(), 0, "nobody has it open");
    let text = mounted::read(&path);
    assert!(text.len() > 2_000_000);
    let file = data.path().join("t-0/00000000000000000000.log");
    assert!(text == dump_file(&file, "t-0/00000000000000000000.log", Shown::all(Level::Contents)).text);
    let open = File::open(&path).expect("can be opened");
    for at in [text.len() - 7, 1_000_000, 0] {
        let mut part = vec![0; 7];
        open.read_exact_at(&mut part, at as u64).expect("a read");
        assert!(part == text[at..at + 7], "7 bytes at {at}");
    }
}

/// The lines of the batches with these base offsets.
fn lines_of(dump: &str, bases: std::ops::RangeInclusive<i64>) -> String {
    let mut is_wanted = false;
    let mut wanted = String::new();
    for line in dump.lines().skip(2) {
        if let Some(base) = line.strip_prefix("baseOffset: ") {
            is_wanted = bases.contains(&base.split(' ').next().expect("a number").parse().expect("a number"));
        }
        if is_wanted {
            wanted.push_str(&format!("{line}\n"));
        }
    }
    wanted
}

#[test]
fn the_extension_shows_the_lines_of_whole_batches() {
    let bytes = batches(20, 5, 30, Compression::Gzip);
    let data = one_segment(&bytes);
    let fs = shown::open(data.path().to_str().expect("UTF-8"), Options::default());
    let file = data.path().join("t-0/00000000000000000000.log");
    let all = dump_file(&file, "x", Shown::all(Level::Contents)).text;
    let all = String::from_utf8(all).expect("text");
    let mut random = Numbers::new(1);
    for (path, bases) in [
        ("log.dump", 0..=95),
        ("tail.dump", 0..=95),
        ("by-segment/00000000000000000000.dump", 0..=95),
        ("by-offset/12..23.dump", 10..=20),
        ("by-offset/10..20.dump", 10..=15),
        ("by-offset/90...dump", 90..=95),
        ("by-offset/last-1.dump", 95..=95),
        ("by-offset/12.dump", 10..=10),
    ] {
        let path = format!("t/0/{path}");
        let node = fs.resolve(&path).expect("a node");
        let text = read_everywhere(&fs, &node, &path, &mut random);
        assert_eq!(String::from_utf8(text).expect("text"), lines_of(&all, bases), "{path}");
    }
}

#[test]
fn the_extension_has_control_batches_and_those_of_aborted_transactions() {
    let case = fixtures::case("4.4.0", "txn");
    let fs = shown::open(case.data().to_str().expect("UTF-8"), Options::default());
    let segment = "00000000000000000009";
    let file = case.data().join(format!("txn-a-0/{segment}.log"));
    let all = dump_file(&file, "x", Shown::all(Level::Contents)).text;
    let all = String::from_utf8(all).expect("text");
    assert!(all.contains("endTxnMarker: ABORT") && all.contains("endTxnMarker: COMMIT"));
    for partition in ["txn-a/0", "txn-a/0@committed"] {
        let text = shown::read(&fs, &format!("{partition}/by-segment/{segment}.dump"));
        let text = String::from_utf8(text).expect("text");
        assert_eq!(text, lines_of(&all, 0..=i64::MAX), "{partition}");
    }
}

/// Runs `topicfs dump` in `directory`: exit code, stdout, stderr.
fn run(directory: &Path, args: &[&str]) -> (i32, String, String) {
    let output = topicfs().arg("dump").args(args).current_dir(directory).output().expect("topicfs runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("an exit code"), text(&output.stdout), text(&output.stderr))
}

#[test]
fn case_1_indexes_that_a_broker_wrote_have_no_mismatch() {
    for (version, name, partition) in [
        ("4.4.0", "segments", "seg-size-0"),
        ("2.8.2", "codecs", "ct-gzip-0"),
        ("0.8.2.2", "codecs", "gzip-0"),
        ("4.4.0", "live", "live-idle-0"),
        ("4.4.0", "unclean", "un-txn-0"),
    ] {
        let directory = fixtures::case(version, name).data();
        let files = fs::read_dir(directory.join(partition)).expect("a directory");
        let names = files.map(|file| file.expect("an entry").file_name().into_string().expect("UTF-8"));
        let indexes: Vec<_> = names.filter(|name| name.ends_with("index")).collect();
        assert!(!indexes.is_empty());
        for name in indexes {
            let (code, text, told) = run(&directory, &[&format!("{partition}/{name}")]);
            assert_eq!((code, told.as_str()), (0, ""), "{partition}/{name}");
            assert!(!text.contains("Mismatches") && !text.contains("topicfs: "), "{text}");
        }
    }
}

#[test]
fn case_4_odd_names_give_text_or_a_message_with_the_path() {
    let case = fixtures::case("4.4.0", "epochs");
    let data = fixtures::copy(&case.data());
    let segment = data.path().join("ep-0/00000000000000000000.log");
    for name in ["segment", "copy of 0.log", "x.index", "x.timeindex", ".log", "a.b", "7-8.checkpoint"] {
        fs::copy(&segment, data.path().join(name)).expect("a copy");
    }
    let (code, text, told) = run(data.path(), &["ep-0/leader-epoch-checkpoint"]);
    assert_eq!((code, told.as_str()), (0, ""));
    assert!(
        text.starts_with("Dumping ep-0/leader-epoch-checkpoint\nepoch: 0 startOffset: 0\nepoch: 2 "),
        "{text}"
    );
    assert_eq!(
        run(data.path(), &["./segment"]),
        (2, "Dumping ./segment\n".to_owned(), "Ignoring unknown file ./segment\n".to_owned())
    );
    assert_eq!(run(data.path(), &["a.b"]).0, 2);
    let (code, text, _) = run(data.path(), &["copy of 0.log"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.starts_with(
        "Dumping copy of 0.log\ntopicfs: \"copy of 0.log\" begins with no offset\nbaseOffset: 0 "
    ));
    for name in ["x.index", "x.timeindex", ".log", "7-8.checkpoint"] {
        let (code, text, told) = run(data.path(), &[name]);
        assert!(
            code < 2 && text.starts_with(&format!("Dumping {name}\ntopicfs: ")),
            "{name}: {code} {text} {told}"
        );
    }
    let (code, _, told) = run(data.path(), &["not-there.log", "not-there.index"]);
    assert!(
        code == 2 && told.contains("topicfs: not-there.log: ") && told.contains("topicfs: not-there.index: ")
    );
}

#[test]
fn case_5_records_of_compressed_batches_are_there_with_one_option() {
    let directory = fixtures::case("4.4.0", "codecs").data();
    let (_, text, _) = run(&directory, &["--print-data-log", "codec-gzip-1-0/00000000000000000000.log"]);
    let counts = text.lines().filter_map(|line| line.strip_prefix("baseOffset: ")).map(|line| {
        line.split(" count: ").nth(1).expect("a count").split(' ').next().expect("a number").parse::<usize>()
    });
    let count: usize = counts.map(|count| count.expect("a number")).sum();
    assert!(count > 20 && text.contains("compresscodec: gzip"), "{count}");
    assert_eq!(
        text.lines().filter(|line| line.starts_with("| offset: ") && line.contains(" payload: ")).count(),
        count
    );
}

#[test]
fn case_6_and_c8_the_version_that_the_text_follows_is_named() {
    let (code, help, _) = run(Path::new("."), &["--help"]);
    assert!(code == 0 && help.contains("kafka-dump-log 4.4.0"), "{help}");
    let directory = fixtures::case("4.4.0", "magic").data();
    let case = fixtures::case("4.4.0", "magic");
    let dump = case.dumps().into_iter().find(|dump| dump.source.extension().is_some_and(|e| e == "log"));
    let dump = dump.expect("a dump");
    let file = dump.source.strip_prefix(&directory).expect("in it").to_str().expect("UTF-8");
    let (_, text, _) = run(&directory, &["--print-data-log", file]);
    assert_eq!(text, String::from_utf8_lossy(&fs::read(&dump.text).expect("a dump")));
    assert!(!text.contains('}'), "no stray brace");
}

#[test]
fn cases_16_and_17_unused_slots_are_no_entries() {
    for case in ["segments", "epochs"] {
        let data = fixtures::copy(&fixtures::case("4.4.0", case).data());
        let partition = if case == "segments" { "seg-size-0" } else { "ep-1" };
        let directory = data.path().join(partition);
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let len = if name.ends_with(".timeindex") { 10_485_756 } else { 10_485_760 };
            if !name.ends_with("index") || name.ends_with(".txnindex") {
                continue;
            }
            let shown = format!("{partition}/{name}");
            let before = run(data.path(), &[&shown]);
            OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(len)).expect("zeros");
            let (code, text, told) = run(data.path(), &[&shown]);
            assert_eq!((code, told.as_str()), (0, ""), "{shown}");
            // Of an index with zeros alone Kafka prints the first slot; that is no mismatch.
            let kept = text.strip_prefix(before.1.as_str());
            let first_slot = |rest: &str| {
                rest.is_empty() || rest.starts_with("offset: ") || rest.starts_with("timestamp: 0 ")
            };
            assert!(kept.is_some_and(first_slot) || before.1.ends_with("is empty.\n"), "{shown}: {text}");
            assert_eq!(run(data.path(), &["--index-sanity-check", &shown]).0, 0, "{shown}");
        }
    }
}

#[test]
fn case_20_an_entry_of_the_base_offset_and_an_empty_segment_are_no_mismatch() {
    let bytes = batches(3, 1, 20, Compression::None);
    let data = one_segment(&bytes);
    let partition = data.path().join("t-0");
    fs::write(partition.join("00000000000000000000.index"), [0; 8]).expect("an index");
    fs::write(partition.join("00000000000000000005.log"), []).expect("a segment");
    let (code, text, told) =
        run(data.path(), &["t-0/00000000000000000000.index", "t-0/00000000000000000005.log"]);
    assert_eq!((code, told.as_str()), (0, ""));
    assert_eq!(
        text,
        "Dumping t-0/00000000000000000000.index\noffset: 0 position: 0\n\
         Dumping t-0/00000000000000000005.log\nLog starting offset: 5\n"
    );
}

#[test]
fn case_c1_the_first_offset_is_no_gap() {
    let directory = fixtures::case("4.4.0", "segments").data();
    let (code, _, told) = run(&directory, &["--deep-iteration", "seg-size-0/00000000000000000025.log"]);
    assert_eq!((code, told.as_str()), (0, ""));
    let directory = fixtures::case("4.4.0", "compacted").data();
    let (code, _, told) = run(&directory, &["--deep-iteration", "compact-a-0/00000000000000000039.log"]);
    assert!(
        code == 0
            && told.starts_with(
                "Non-consecutive offsets in compact-a-0/00000000000000000039.log\n  51 is followed by 55\n"
            ),
        "{told}"
    );
    assert!(!told.contains("-1 is followed"), "{told}");
}

#[test]
fn case_c4_control_bytes_are_as_they_are() {
    let record = ShownRecord {
        offset: 0,
        timestamp: 1,
        key: Some(b"\x00\x1b[31m".to_vec()),
        value: Some(b"a\nb\xff\xed\xa0\x80\x07".to_vec()),
        headers: vec![(b"h\x01".to_vec(), None)],
    };
    let bytes: Vec<u8> = encode(&Plan::of(vec![record], Compression::None)).remove(0).bytes;
    let data = one_segment(&bytes);
    let (_, text, _) = run(data.path(), &["--print-data-log", "t-0/00000000000000000000.log"]);
    let line = text.split_once("| ").expect("a record").1;
    assert!(
        line.ends_with("headerKeys: [h\u{1}] key: \0\u{1b}[31m payload: a\nb\u{fffd}\u{fffd}\u{7}\n"),
        "{line:?}"
    );
}

#[test]
fn case_c7_trailing_bytes_are_counted_by_the_file_name() {
    let mut bytes = batches(2, 1, 20, Compression::None);
    let whole = bytes.len();
    bytes.extend(&bytes.clone()[..40]);
    let data = one_segment(&bytes);
    let (code, text, told) = run(data.path(), &["t-0/00000000000000000000.log"]);
    assert!(
        text.ends_with("isvalid: true\nFound 40 invalid bytes at the end of 00000000000000000000.log\n"),
        "{text}"
    );
    assert_eq!((code, told.as_str()), (1, ""));
    let (code, text, _) =
        run(data.path(), &["--max-bytes", &whole.to_string(), "t-0/00000000000000000000.log"]);
    assert!(code == 0 && text.ends_with("isvalid: true\n"), "{text}");
}

#[test]
fn case_c11_a_damaged_snapshot_is_told_and_its_entries_are_marked() {
    let case =
        fixtures::damage_cases().into_iter().find(|case| case.name == "snapshot-bad-crc").expect("a case");
    let (code, text, told) = run(&case.data(), &["seg-size-0/00000000000000000080.snapshot"]);
    assert_eq!(code, 1);
    assert!(told.starts_with("Snapshot is corrupt (CRC is no longer valid). Stored crc: "), "{told}");
    let mut lines = text.lines().skip(1);
    assert!(lines.next().is_some_and(|line| line.starts_with("topicfs: ")), "{text}");
    assert!(lines.next().is_some_and(|line| line.starts_with("producerId: ")), "{text}");

    let data = fixtures::copy(&fixtures::case("4.4.0", "txn").data());
    let index = data.path().join("txn-a-0/00000000000000000009.txnindex");
    let whole = fs::read(&index).expect("an index");
    fs::write(&index, &whole[..whole.len() - 3]).expect("a cut index");
    let (code, text, told) = run(data.path(), &["txn-a-0/00000000000000000009.txnindex"]);
    assert_eq!((code, told.as_str(), text.lines().count()), (0, "", whole.len() / 34));
}

#[test]
fn case_c12_paths_are_printed_as_they_were_given() {
    let case =
        fixtures::damage_cases().into_iter().find(|case| case.name == "index-wrong-batch").expect("a case");
    for path in ["seg-size-0/00000000000000000025.index", ".//seg-size-0//00000000000000000025.index"] {
        let (code, text, told) = run(&case.data(), &[path]);
        let shown = path.replace("//", "/");
        assert_eq!(code, 1);
        assert!(text.starts_with(&format!("Dumping {shown}\n")), "{text}");
        assert!(told.starts_with(&format!("Mismatches in :{shown}\n  Index offset: ")), "{told}");
    }
}

#[test]
fn options_are_kafkas() {
    let directory = fixtures::case("4.4.0", "times").data();
    let file = "time-create-0/00000000000000000000.log";
    let records = |args: &[&str]| {
        let (code, text, told) = run(&directory, &[args, &[file]].concat());
        assert_eq!((code, told.as_str()), (0, ""), "{args:?}");
        text.lines()
            .filter(|line| !line.starts_with("baseOffset: "))
            .skip(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(records(&[]).is_empty());
    assert!(records(&["--deep-iteration"])[0].ends_with("headerKeys: []"));
    assert!(records(&["--print-data-log"])[0].contains(" headerKeys: [] key: k0 payload: "));
    assert!(records(&["--print-data-log", "--skip-record-metadata"])[0].starts_with("| key: k0 payload: "));
    assert!(records(&["--deep-iteration", "--skip-record-metadata"])[0].is_empty());
    // What Kafka 4.4.0 prints of this record.
    let integer = ["--value-decoder-class", "org.apache.kafka.tools.api.IntegerDecoder"];
    assert!(records(&integer)[0].ends_with(" key: k0 payload: 1953709360"));
    assert!(records(&["--value-decoder-class", "LongDecoder"])[0].ends_with(" payload: 8391117807632999788"));
    assert!(records(&["--key-decoder-class", "DefaultDecoder"])[0].contains(" key: 6b30 payload: "));
    let both = run(&directory, &[file, "--files", file]).1;
    assert_eq!(both.matches("Dumping ").count(), 2);
    for (option, word) in
        [("--offsets-decoder", "not there yet"), ("--value-decoder-class=a.B", "can't be loaded")]
    {
        let (code, text, told) = run(&directory, &[option, file]);
        assert!(code == 2 && text.is_empty() && told.contains(word), "{told}");
    }
    assert_eq!(run(&directory, &[]).0, 2);
    let index = "time-create-0/00000000000000000000.index";
    assert_eq!(run(&directory, &["--verify-index-only", index]).1, format!("Dumping {index}\n"));
    let checked = run(&directory, &["--index-sanity-check", index]).1;
    assert!(checked.ends_with("passed sanity check.\n") || checked.ends_with("is empty.\n"), "{checked}");
}

#[test]
fn a_batch_beyond_the_limit_has_its_line_and_no_records() {
    let mut bytes = batches(1, 1, 20, Compression::None);
    let large = ShownRecord {
        offset: 1,
        timestamp: 5,
        key: None,
        value: Some(vec![b'x'; 300_000]),
        headers: Vec::new(),
    };
    bytes.extend(encode(&Plan::of(vec![large], Compression::None)).remove(0).bytes);
    let data = one_segment(&bytes);
    let options = Options { max_batch_bytes: 100_000, ..Options::default() };
    let fs = shown::open(data.path().to_str().expect("UTF-8"), options);
    let text = String::from_utf8(shown::read(&fs, "t/0/dump/00000000000000000000.log")).expect("text");
    let lines: Vec<_> = text.lines().skip(2).collect();
    assert!(lines[2].starts_with("baseOffset: 1 ") && lines[2].ends_with(" isvalid: true"), "{}", lines[2]);
    assert!(
        lines[3].starts_with("topicfs: position ") && lines[3].contains("max_batch_bytes = 100000"),
        "{}",
        lines[3]
    );
}

#[test]
fn nothing_of_the_source_is_touched_or_made() {
    let data = fixtures::copy(&fixtures::case("4.4.0", "segments").data());
    let partition = data.path().join("seg-size-0");
    fs::remove_file(partition.join("00000000000000000000.index")).expect("removed");
    let list = |partition: &Path| {
        let entries = fs::read_dir(partition).expect("a directory").map(|entry| {
            let entry = entry.expect("an entry");
            let meta = entry.metadata().expect("stat");
            (entry.file_name(), meta.mtime_nsec(), meta.atime(), meta.atime_nsec(), meta.len())
        });
        let mut all: Vec<_> = entries.collect();
        all.sort();
        all
    };
    let before = list(&partition);
    let names: Vec<String> =
        before.iter().map(|entry| format!("seg-size-0/{}", entry.0.to_string_lossy())).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    run(data.path(), &[&["--print-data-log"], names.as_slice()].concat());
    assert_eq!(list(&partition), before);
}

#[test]
fn case_c8_record_lines_of_old_magics_end_without_a_brace_and_help_names_the_version() {
    for magic in [0, 1] {
        let record = |offset| ShownRecord {
            offset,
            timestamp: 1_700_000_000_000,
            key: Some(b"k".to_vec()),
            value: Some(b"v".to_vec()),
            headers: Vec::new(),
        };
        let plan = Plan::of((0..3).map(record).collect(), Compression::None).with_magic(magic);
        let bytes: Vec<u8> = encode(&plan).into_iter().flat_map(|entry| entry.bytes).collect();
        let data = one_segment(&bytes);
        let (_, text, _) = run(data.path(), &["--deep-iteration", "t-0/00000000000000000000.log"]);
        let records: Vec<_> = text.lines().filter(|line| line.starts_with("| offset: ")).collect();
        assert_eq!(records.len(), 3, "{text}");
        let crc = |line: &str| line.rsplit_once("crc: ").unwrap().1.parse::<u32>().is_ok();
        assert!(records.into_iter().all(crc), "{text}");
    }
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_topicfs")).args(["dump", "--help"]).output();
    assert!(String::from_utf8_lossy(&help.unwrap().stdout).contains("kafka-dump-log 4.4.0"));
}
