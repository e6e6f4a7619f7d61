//! What may be named as SOURCE, what may not, and what the messages say.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use common::batches::{self, Plan};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use topicfs::fs::Fs;
use topicfs::fs::options::Options;

fn segment(values: &[&str]) -> Vec<u8> {
    let record = |(offset, value): (usize, &&str)| ShownRecord {
        offset: offset as i64,
        timestamp: 1_700_000_000_000,
        key: None,
        value: Some(value.as_bytes().to_vec()),
        headers: Vec::new(),
    };
    let records = values.iter().enumerate().map(record).collect();
    batches::encode(&Plan::of(records, Compression::None)).remove(0).bytes
}

/// Makes the partition directory `name` in `data`, with one record that holds the name.
fn partition(data: &Path, name: &str) {
    let directory = data.join(name);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("00000000000000000000.log"), segment(&[name])).unwrap();
}

fn data(partitions: &[&str]) -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    partitions.iter().for_each(|name| partition(data.path(), name));
    data
}

fn open(source: &Path) -> Fs {
    shown::open(source.to_str().unwrap(), Options::default())
}

fn refusal(source: &Path) -> String {
    refusal_of(source.to_str().unwrap())
}

fn refusal_of(source: &str) -> String {
    match Fs::open(source, Options::default(), String::new()) {
        Ok(_) => panic!("{source} was opened"),
        Err(error) => error.to_string(),
    }
}

fn topics(fs: &Fs) -> Vec<String> {
    let mut names = shown::names(fs, "");
    names.retain(|name| ![".topicfs", "README.txt", "topics.tsv"].contains(&name.as_str()));
    names
}

fn notes(fs: &Fs) -> String {
    String::from_utf8(shown::read(fs, ".topicfs/problems")).unwrap()
}

/// One line that names the thing and the cause.
#[track_caller]
fn assert_says(message: &str, name: &Path, cause: &str) {
    assert!(message.contains(name.to_str().unwrap()), "{message}");
    assert!(message.contains(cause), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn a_missing_source() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nothing");
    assert_says(&refusal(&path), &path, "no such file or directory");
    let both = format!("{},{}", data(&["a-0"]).path().display(), path.display());
    assert_says(&refusal_of(&both), dir.path().parent().unwrap(), "no such file");
    assert!(refusal_of("").contains("SOURCE is empty"));
    assert!(refusal_of(",").contains("SOURCE is empty"));
}

#[test]
fn an_empty_directory() {
    let dir = tempfile::tempdir().unwrap();
    assert_says(&refusal(dir.path()), dir.path(), "is empty");
}

#[test]
fn a_directory_of_something_else() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "x").unwrap();
    std::fs::create_dir(dir.path().join("photos")).unwrap();
    assert_says(&refusal(dir.path()), dir.path(), "no Kafka data directory");
}

#[test]
fn directories_that_only_have_names_like_partitions() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["dbus-1", "polkit-1"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
        std::fs::write(dir.path().join(name).join("system.conf"), "x").unwrap();
    }
    assert_says(&refusal(dir.path()), dir.path(), "no Kafka data directory");
}

#[test]
fn files_of_other_kinds() {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in
        [("a.txt", &b"hello"[..]), ("a.tar.gz", b"\x1f\x8b\x08"), ("00000000000000000000.index", &[0; 8])]
    {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert_says(&refusal(&path), &path, "a segment (.log) or a server.properties");
    }
    let path = dir.path().join("syslog.log");
    std::fs::write(&path, "Nov 29 10:00:00 host kernel: hello\n").unwrap();
    assert_says(&refusal(&path), &path, "text");
}

#[test]
fn a_directory_of_logs_that_are_text() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("server.log"), "[2026-11-29 10:00:00] INFO started\n").unwrap();
    std::fs::write(dir.path().join("controller.log"), "[2026-11-29 10:00:00] INFO started\n").unwrap();
    assert_says(&refusal(dir.path()), dir.path(), "holds .log files, but none");
    std::fs::write(dir.path().join("00000000000000000000.log"), "[2026-11-29 10:00:00] INFO started\n")
        .unwrap();
    assert_says(&refusal(dir.path()), dir.path(), "text");
}

#[test]
fn a_source_without_permission() {
    let dir = data(&["a-0"]);
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o000)).unwrap();
    // Root may read it all the same.
    if std::fs::read_dir(dir.path()).is_err() {
        assert_says(&refusal(dir.path()), dir.path(), "permission denied");
    }
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn a_partition_without_permission_is_a_note_and_the_others_are_there() {
    let dir = data(&["a-0", "a-1"]);
    std::fs::set_permissions(dir.path().join("a-0"), PermissionsExt::from_mode(0o000)).unwrap();
    let fs = open(dir.path());
    if std::fs::read_dir(dir.path().join("a-0")).is_err() {
        assert_eq!(shown::labels(&fs, "a"), ["1"]);
        assert!(notes(&fs).contains("a-0\tcan't be listed"), "{}", notes(&fs));
    }
    assert_eq!(shown::read(&fs, "a/1/log"), b"a-1\n");
    std::fs::set_permissions(dir.path().join("a-0"), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn several_data_directories_and_the_same_partition_in_two() {
    let (one, two) = (data(&["a-0", "b-0"]), data(&["a-0", "a-1"]));
    std::fs::write(two.path().join("a-0/00000000000000000000.log"), segment(&["the other"])).unwrap();
    let fs = shown::open(&format!("{}, {}", one.path().display(), two.path().display()), Options::default());
    assert_eq!(topics(&fs), ["a", "b"]);
    assert_eq!(shown::labels(&fs, "a"), ["0", "0.source-2", "1"]);
    assert_eq!(shown::read(&fs, "a/0/log"), b"a-0\n");
    assert_eq!(shown::read(&fs, "a/0.source-2/log"), b"the other\n");
}

#[test]
fn a_directory_with_a_comma_in_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("data,old");
    partition(&odd, "a-0");
    assert_eq!(topics(&open(&odd)), ["a"]);
}

#[test]
fn a_brokers_properties() {
    let (one, two) = (data(&["a-0"]), data(&["b-0"]));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.properties");
    let write = |text: String| std::fs::write(&file, text).unwrap();
    write(format!(
        "# a broker\nnode.id=1\nlog.dir=/tmp/none\nlog.dirs={},\\\n  {}\n",
        one.path().display(),
        two.path().display()
    ));
    assert_eq!(topics(&open(&file)), ["a", "b"]);
    write(format!("log.dir = {}\n", two.path().display()));
    assert_eq!(topics(&open(&file)), ["b"]);
    write("node.id=1\n".to_owned());
    assert_says(&refusal(&file), &file, "log.dirs");
    write(format!("log.dirs={}\n", dir.path().join("gone").display()));
    assert_says(&refusal(&file), &dir.path().join("gone"), "no such file");
}

#[test]
fn one_partition_directory() {
    let dir = data(&["my.topic-with-dashes-12"]);
    std::fs::write(dir.path().join("log-start-offset-checkpoint"), "0\n1\nmy.topic-with-dashes 12 1\n")
        .unwrap();
    std::fs::write(dir.path().join("my.topic-with-dashes-12/00000000000000000000.log"), segment(&["x", "y"]))
        .unwrap();
    let fs = open(&dir.path().join("my.topic-with-dashes-12"));
    assert_eq!(topics(&fs), ["my.topic-with-dashes"]);
    assert_eq!(shown::labels(&fs, "my.topic-with-dashes"), ["12"]);
    assert_eq!(
        shown::read(&fs, "my.topic-with-dashes/12/log"),
        b"y\n",
        "the log starts where the checkpoint beside it says"
    );
}

#[test]
fn a_partition_directory_under_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("case 4711 (evidence)");
    std::fs::create_dir(&odd).unwrap();
    partition(&odd, ".");
    let fs = open(&odd);
    assert_eq!(topics(&fs), ["case_4711__evidence_"]);
    assert_eq!(shown::read(&fs, "case_4711__evidence_/0/log"), b".\n");
}

#[test]
fn one_segment_file_also_renamed() {
    let dir = data(&["a-3"]);
    let whole = dir.path().join("a-3/00000000000000000000.log");
    let fs = open(&whole);
    assert_eq!(shown::read(&fs, "a/3/log"), b"a-3\n");
    let copies = tempfile::tempdir().unwrap();
    for name in ["copy of 0000.log", "0.log", "00000000000000000000 (1).log", "é.log"] {
        let copy = copies.path().join(name);
        std::fs::copy(&whole, &copy).unwrap();
        let fs = open(&copy);
        let topic = topics(&fs).remove(0);
        assert_eq!(shown::read(&fs, &format!("{topic}/0/log")), b"a-3\n", "{name}");
        assert_eq!(shown::read(&fs, &format!("{topic}/0/by-offset/0")), b"a-3", "{name}");
        let names = shown::names(&fs, &format!("{topic}/0/segments"));
        assert!(names.iter().any(|listed| listed == name), "{name}: {names:?}");
        assert_eq!(shown::names(&fs, &format!("{topic}/0/by-segment")).len(), 2, "{name}");
    }
}

#[test]
fn topic_names_with_dots_dashes_and_digits() {
    let names = ["a.b-0", "a-b-0", "a_b-0", "-0", "a--0", "2024-11-29-7", "x-delete-0", ".hidden-0", "...-0"];
    let dir = data(&names);
    let fs = open(dir.path());
    for (topic, number) in [("a.b", 0), ("a-b", 0), ("a_b", 0), ("a-", 0), ("2024-11-29", 7), ("x-delete", 0)]
    {
        let expected = format!("{topic}-{number}\n");
        assert_eq!(shown::read(&fs, &format!("{topic}/{number}/log")), expected.as_bytes(), "{topic}");
    }
    assert!(!topics(&fs).contains(&String::new()));
}

#[test]
fn leftovers_of_a_broker_and_their_labels() {
    let id = |last: char| format!("1a2b3c4d5e6f708192a3b4c5d6e7f80{last}");
    let names = [
        "my.topic-3".to_owned(),
        format!("my.topic-3.{}-delete", id('1')),
        format!("my.topic-3.{}-future", id('2')),
        format!("my.topic-3.{}-stray", id('3')),
        format!("my.topic-4.{}-delete", id('4')),
        format!("my.topic-4.9{}-delete", &id('5')[1..]),
    ];
    let dir = data(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let fs = open(dir.path());
    assert_eq!(topics(&fs), ["my.topic"]);
    let labels = shown::labels(&fs, "my.topic");
    assert_eq!(labels, ["3", "3.delete", "3.future", "3.stray", "4.delete", "4.delete-9a2b3c4d"]);
    for (label, name) in labels.iter().zip(&names) {
        assert_eq!(shown::read(&fs, &format!("my.topic/{label}/log")), format!("{name}\n").as_bytes());
    }
}

#[test]
fn a_topic_with_the_name_of_a_file_of_ours_wins() {
    let dir = data(&["README.txt-0", ".topicfs-0", "topics.tsv-0"]);
    let fs = open(dir.path());
    assert_eq!(shown::names(&fs, ""), [".topicfs", "README.txt", "topics.tsv"]);
    for topic in ["README.txt", ".topicfs", "topics.tsv"] {
        assert_eq!(shown::read(&fs, &format!("{topic}/0/log")), format!("{topic}-0\n").as_bytes());
    }
}

#[test]
fn ten_thousand_partitions_are_listed_in_bounded_time() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..10_000 {
        let directory = dir.path().join(format!("big-{number}"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("00000000000000000000.log"), b"").unwrap();
    }
    let begun = Instant::now();
    let fs = open(dir.path());
    assert_eq!(shown::labels(&fs, "big").len(), 10_000);
    assert_eq!(shown::read(&fs, "big/9999/log"), b"");
    // Half a second on a quiet machine; what must not be is a scan of the list for each.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn symbolic_links() {
    let real = data(&["a-0", "b-0"]);
    let dir = data(&["c-0"]);
    symlink(real.path().join("a-0"), dir.path().join("a-0")).unwrap();
    symlink("/nowhere", dir.path().join("d-0")).unwrap();
    symlink(
        real.path().join("b-0/00000000000000000000.log"),
        dir.path().join("c-0/00000000000000000005.log"),
    )
    .unwrap();
    let fs = open(dir.path());
    assert_eq!(topics(&fs), ["c"]);
    assert!(
        notes(&fs).contains("a-0\tposition 0\tlength 0\toffset -\tforeign\ta symbolic link"),
        "{}",
        notes(&fs)
    );
    assert!(notes(&fs).contains("d-0\t"), "{}", notes(&fs));
    assert_eq!(shown::read(&fs, "c/0/log"), b"c-0\n", "a segment that is a link is no segment");
    assert_eq!(shown::names(&fs, "c/0/segments"), ["00000000000000000000.log"]);
    let following =
        shown::open(dir.path().to_str().unwrap(), Options { follow_symlinks: true, ..Options::default() });
    assert_eq!(shown::read(&following, "a/0/log"), b"a-0\n");
    // A SOURCE that is a link is followed always.
    let link = dir.path().join("link");
    symlink(real.path(), &link).unwrap();
    assert_eq!(topics(&open(&link)), ["a", "b"]);
}

#[test]
fn directories_that_appear_and_go_while_it_is_open() {
    let dir = data(&["a-0"]);
    let fs = open(dir.path());
    assert_eq!(topics(&fs), ["a"]);
    partition(dir.path(), "b-0");
    std::fs::rename(dir.path().join("a-0"), dir.path().join("a-0.1a2b3c4d5e6f708192a3b4c5d6e7f809-delete"))
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(
        (topics(&fs), shown::labels(&fs, "a")),
        (vec!["a".to_owned(), "b".to_owned()], vec!["0.delete".to_owned()])
    );
    std::fs::remove_dir_all(dir.path().join("b-0")).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(topics(&fs), ["a"]);
}

/// One batch that covers the offsets `first` to `last` and holds those in `kept`.
fn batch(first: i64, last: i64, kept: &[i64]) -> Vec<u8> {
    let record = |offset: &i64| ShownRecord {
        offset: *offset,
        timestamp: 1_700_000_000_000,
        key: Some(b"k".to_vec()),
        value: Some(offset.to_string().into_bytes()),
        headers: Vec::new(),
    };
    let records = kept.iter().map(record).collect();
    batches::encode(&Plan { base: first, last, ..Plan::of(records, Compression::None) }).remove(0).bytes
}

#[test]
fn an_interrupted_swap_is_read_as_kafkas_loader_resolves_it() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().join("t-0");
    std::fs::create_dir(&directory).unwrap();
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(directory.join(format!("{name:0>24}")), bytes).unwrap();
    let all = |from: i64| (from..from + 5).collect::<Vec<_>>();
    for base in [0, 5, 10, 15] {
        write(&format!("{base}.log"), &batch(base, base + 4, &all(base)));
    }
    let compacted = batch(0, 9, &[1, 8]);
    let swap = directory.join("00000000000000000000.log.swap");
    let read = || String::from_utf8(shown::read(&open(data.path()), "t/0/log")).unwrap();
    let before = read();
    // While its files are .cleaned, nothing has happened.
    let cleaned = directory.join("00000000000000000000.log.cleaned");
    std::fs::write(&cleaned, &compacted).unwrap();
    assert_eq!(read(), before);
    // Once it is .swap, it takes the place of both that it was made from.
    std::fs::rename(&cleaned, &swap).unwrap();
    std::fs::write(directory.join("00000000000000000000.index.swap"), []).unwrap();
    assert_eq!(read(), "1\n8\n10\n11\n12\n13\n14\n15\n16\n17\n18\n19\n");
    let fs = open(data.path());
    assert_eq!(shown::read(&fs, "t/0/by-offset/8"), b"8");
    assert!(fs.resolve("t/0/by-offset/7").is_err());
    // A mount that is read while the swap goes on shows the same before and after.
    std::fs::remove_file(directory.join("00000000000000000005.log")).unwrap();
    std::fs::rename(&swap, directory.join("00000000000000000000.log")).unwrap();
    assert_eq!(shown::read(&fs, "t/0/log"), read().into_bytes());
    assert_eq!(read().lines().count(), 12);
}
