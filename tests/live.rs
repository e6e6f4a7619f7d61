//! A source that changes under a mount, as a running broker changes it.
#![expect(clippy::expect_used, clippy::panic, reason = "a test says what is wrong by failing")]

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use common::events::Log;
use common::growing::Growing;
use common::mounted::{self, Mounted, has, wait_until};
use common::reader::Reader;
use common::shown;
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};
use topicfs::fs::options::Options;

/// A partition with segments of so many batches, and its mount.
fn mounted(batches: &[usize], options: &str) -> Option<(Growing, Mounted)> {
    let mut growing = Growing::new();
    for (index, count) in batches.iter().enumerate() {
        if index > 0 {
            growing.roll();
        }
        growing.append(*count);
    }
    let mounted = Mounted::with(growing.data(), options)?;
    Some((growing, mounted))
}

/// What is there for somebody who comes new to it.
fn afresh(growing: &Growing, path: &str) -> Vec<u8> {
    shown::read(&shown::open(growing.data().to_str().expect("UTF-8"), Options::default()), path)
}

fn offsets(jsonl: &[u8]) -> Vec<i64> {
    shown::records(jsonl).iter().map(|record| record.offset).collect()
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).ino()
}

fn read_at(file: &File, at: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at as u64).expect("can be read");
    bytes
}

/// The bytes are gone, and that is said; or they are the same still.
fn assert_stale_or(file: &File, at: usize, bytes: &[u8]) {
    let mut read = vec![0; bytes.len()];
    match file.read_exact_at(&mut read, at as u64) {
        Ok(()) => assert!(read == bytes, "other bytes at {at} than before"),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}"),
    }
}

fn assert_stale(file: &File) {
    let error = file.read_at(&mut [0; 100], 0).expect_err("the bytes are gone");
    assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}");
}

#[test]
fn a_batch_appears_when_it_is_whole_and_never_before() {
    let Some((mut growing, mounted)) = mounted(&[3], "") else { return };
    let log = mounted.path("t/0/log.jsonl");
    let shown = || offsets(&mounted::read(&log));
    let all = |end| (0..end).collect::<Vec<i64>>();
    assert_eq!(shown(), all(growing.end()));
    let number = inode(&log);

    growing.append(2);
    assert_eq!(shown(), all(growing.end()));

    let (before, end) = (mounted::read(&log), growing.end());
    let batch = growing.next_batch();
    let mut written = 0;
    for cut in [5, batch.len() / 2, batch.len() - 1] {
        growing.write(&batch[written..cut]);
        written = cut;
        assert!(mounted::read(&log) == before, "a part of a batch is shown");
        assert_eq!(mounted::read(&mounted.path("t/0/problems")), b"", "{cut}");
        assert!(!mounted.path(&format!("t/0/by-offset/{end}")).exists());
    }
    growing.write(&batch[written..]);
    assert_eq!(shown(), all(growing.end()));
    assert_eq!(mounted::read(&mounted.path("t/0/problems")), b"");
    assert_eq!(inode(&log), number, "growth is no other file");
    assert!(mounted::read(&mounted.path("t/0/log")) == afresh(&growing, "t/0/log"));
}

#[test]
fn a_roll_goes_on_in_the_same_file() {
    let Some((mut growing, mounted)) = mounted(&[3], "") else { return };
    let log = mounted.path("t/0/log.jsonl");
    let number = inode(&log);
    let mut held = File::open(&log).expect("can be opened");
    let mut read = Vec::new();
    held.read_to_end(&mut read).expect("can be read");
    for _ in 0..3 {
        growing.roll();
        held.read_to_end(&mut read).expect("an empty segment is no end");
        growing.append(2);
        held.read_to_end(&mut read).expect("can be read");
        assert_eq!(offsets(&read), (0..growing.end()).collect::<Vec<_>>());
        assert_eq!(held.metadata().expect("stat").len(), read.len() as u64);
    }
    assert!(mounted::read(&log) == read);
    assert_eq!(inode(&log), number);
    let names = mounted::names(&mounted.path("t/0/by-segment"));
    assert_eq!(names.len(), 8, "{names:?}");
    let first = mounted::read(&mounted.path("t/0/by-segment/00000000000000000000.jsonl"));
    assert!(read.starts_with(&first) && first.len() < read.len());
}

#[test]
fn retention_makes_a_new_log_and_leaves_the_old_one_to_those_who_hold_it() {
    let Some((mut growing, mounted)) = mounted(&[3, 3, 2], "") else { return };
    let path = mounted.path("t/0/log");
    let whole = mounted::read(&path);
    let number = inode(&path);
    let held = File::open(&path).expect("can be opened");
    let first = read_at(&held, 0, 100);
    let by_segment = mounted.path("t/0/by-segment/00000000000000000000");
    let source = mounted.path("t/0/segments/00000000000000000000.log");
    let (rendered, bytes) = (mounted::read(&by_segment), fs::read(growing.segment(0)).expect("a segment"));
    let mut by_segment_held = File::open(&by_segment).expect("can be opened");
    let mut source_held = File::open(&source).expect("can be opened");

    // As a broker does it: another name first, the end of it later.
    let deleted = growing.segment(0).with_extension("log.deleted");
    fs::rename(growing.segment(0), &deleted).expect("segment can be renamed");
    wait_until("another log", || inode(&path) != number);
    let rest = mounted::read(&path);
    assert!(whole == [rendered.clone(), rest.clone()].concat(), "the log begins with the next segment now");
    assert!(mounted.path("t/0/segments/00000000000000000000.log.deleted").exists());
    fs::remove_file(&deleted).expect("segment can be removed");

    for file in [&by_segment, &source, &mounted.path("t/0/by-offset/0")] {
        wait_until("gone", || !file.exists());
    }
    assert_stale_or(&held, 0, &first);
    assert!(read_at(&held, rendered.len(), rest.len()) == rest, "a holder goes on");
    growing.append(1);
    let grown = mounted::read(&path);
    assert!(grown.len() > rest.len() && grown.starts_with(&rest));
    assert!(read_at(&held, rendered.len(), grown.len()) == grown, "a holder sees it grow");
    assert_eq!(held.metadata().expect("stat").len(), (rendered.len() + grown.len()) as u64);

    let mut read = Vec::new();
    by_segment_held.read_to_end(&mut read).expect("a file in by-segment stays readable");
    assert!(read == rendered);
    read.clear();
    source_held.read_to_end(&mut read).expect("a file in segments stays readable");
    assert!(read == bytes);
}

#[test]
fn the_log_start_moves_with_its_checkpoint() {
    let Some((growing, mounted)) = mounted(&[3, 3], "") else { return };
    let path = mounted.path("t/0/log.jsonl");
    let whole = mounted::read(&path);
    let held = File::open(&path).expect("can be opened");
    for start in [2, growing.base() + 1, growing.end()] {
        let number = inode(&path);
        growing.set_log_start(start);
        wait_until("another log", || inode(&path) != number);
        assert_eq!(offsets(&mounted::read(&path)), (start..growing.end()).collect::<Vec<_>>());
        assert!(!mounted.path(&format!("t/0/by-offset/{}", start - 1)).exists());
    }
    assert!(read_at(&held, 0, whole.len()) == whole, "the bytes are on disk still");
}

#[test]
fn topics_come_and_go() {
    let Some((growing, mounted)) = mounted(&[2], "") else { return };
    let held = File::open(mounted.path("t/0/log")).expect("can be opened");
    let topics = || {
        let mut names = mounted::names(mounted.point());
        names.retain(|name| !["README.txt", ".topicfs", "topics.tsv"].contains(&name.as_str()));
        names
    };
    assert_eq!(topics(), ["t"]);
    fixtures_copy(&growing, "u-0");
    wait_until("u", || topics() == ["t", "u"]);
    assert!(mounted::read(&mounted.path("u/0/log.jsonl")).len() > 100);

    let deleted = growing.data().join("t-0.0123456789abcdef0123456789abcdef-delete");
    fs::rename(growing.partition(), &deleted).expect("partition can be renamed");
    wait_until("deleted", || mounted::names(&mounted.path("t")).contains(&"0.delete".to_owned()));
    assert!(!mounted::names(&mounted.path("t")).contains(&"0".to_owned()));
    assert!(!mounted::read(&mounted.path("t/0.delete/log")).is_empty());
    // The kernel may believe the name for a tenth of a second.
    wait_until("gone", || fs::metadata(mounted.path("t/0")).is_err());
    assert_eq!(fs::metadata(mounted.path("t/0")).expect_err("gone").raw_os_error(), Some(libc::ENOENT));

    fs::remove_dir_all(&deleted).expect("partition can be removed");
    wait_until("no t", || topics() == ["u"]);
    wait_until("no path", || !mounted.path("t").exists());
    assert_stale(&held);
}

#[test]
fn segments_of_a_deleted_topic_stay_readable_to_their_holders() {
    let Some((growing, mounted)) = mounted(&[3, 2], "") else { return };
    let sealed = "00000000000000000000".to_owned();
    let active = format!("{:020}", growing.base());
    let rendered = |name: &str, format: &str| afresh(&growing, &format!("t/0/by-segment/{name}{format}"));
    let mut expected = Vec::new();
    let mut held = Vec::new();
    for (name, base) in [(&sealed, 0), (&active, growing.base())] {
        expected.push(fs::read(growing.segment(base)).expect("a segment"));
        held.push(File::open(mounted.path(&format!("t/0/segments/{name}.log"))).expect("can be opened"));
        for format in ["", ".jsonl", ".log"] {
            expected.push(rendered(name, format));
            held.push(
                File::open(mounted.path(&format!("t/0/by-segment/{name}{format}"))).expect("can be opened"),
            );
        }
    }
    // One of them is in the midst of reading.
    let begun = read_at(&held[1], 0, 50);
    assert!(expected[1].starts_with(&begun));

    let deleted = growing.data().join("t-0.0123456789abcdef0123456789abcdef-delete");
    fs::rename(growing.partition(), &deleted).expect("partition can be renamed");
    wait_until("renamed", || !mounted.path("t/0").exists());
    fs::remove_dir_all(&deleted).expect("partition can be removed");
    wait_until("gone", || !mounted.path("t").exists());

    for (file, expected) in held.iter_mut().zip(&expected) {
        let mut read = Vec::new();
        file.read_to_end(&mut read).expect("it stays readable to the end");
        assert!(read == *expected, "{} bytes of {}", read.len(), expected.len());
        assert_eq!(file.metadata().expect("stat").len(), expected.len() as u64);
    }
}

fn fixtures_copy(growing: &Growing, name: &str) {
    let hidden = growing.data().join("being-copied");
    common::fixtures::copy_into(&growing.partition(), &hidden);
    fs::rename(&hidden, growing.data().join(name)).expect("can be renamed");
}

#[test]
fn a_truncated_log_is_another_file() {
    let Some((mut growing, mounted)) = mounted(&[2, 2], "") else { return };
    let (len, end) = (fs::metadata(growing.segment(growing.base())).expect("stat").len(), growing.end());
    growing.append(3);
    let path = mounted.path("t/0/log.jsonl");
    assert_eq!(offsets(&mounted::read(&path)), (0..growing.end()).collect::<Vec<_>>());
    let number = inode(&path);
    let held = File::open(&path).expect("can be opened");

    growing.truncate(len, end);
    growing.append(1);
    wait_until("another log", || inode(&path) != number);
    assert_eq!(offsets(&mounted::read(&path)), (0..growing.end()).collect::<Vec<_>>());
    assert!(mounted::read(&path) == afresh(&growing, "t/0/log.jsonl"));
    let error = held.read_exact_at(&mut [0; 1], afresh(&growing, "t/0/log.jsonl").len() as u64 - 1);
    assert_eq!(error.expect_err("other bytes").raw_os_error(), Some(libc::ESTALE));
}

#[test]
fn a_log_that_was_truncated_and_grew_again_while_nobody_looked_is_another_file() {
    let Some((mut growing, mounted)) = mounted(&[2, 2], "") else { return };
    let (len, end) = (fs::metadata(growing.segment(growing.base())).expect("stat").len(), growing.end());
    growing.append(3);
    let path = mounted.path("t/0/log.jsonl");
    let before = mounted::read(&path);
    let number = inode(&path);
    let held = File::open(&path).expect("can be opened");

    growing.truncate(len, end);
    growing.append(6);
    let now = afresh(&growing, "t/0/log.jsonl");
    assert!(now.len() > before.len() && !now.starts_with(&before));
    wait_until("another log", || inode(&path) != number);
    assert!(mounted::read(&path) == now);
    assert_stale_or(&held, 0, &before[..100]);
}

#[test]
fn a_rewritten_segment_is_another_file() {
    let Some((mut growing, mounted)) = mounted(&[2, 3], "") else { return };
    let path = mounted.path("t/0/log.jsonl");
    mounted::read(&path);
    let number = inode(&path);
    // As compaction does it: a new file under the old name.
    let segment = growing.segment(growing.base());
    let swap = segment.with_extension("log.swap");
    let batches = fs::read(&segment).expect("a segment");
    let second = 12 + u32::from_be_bytes(batches[8..12].try_into().expect("four bytes")) as usize;
    fs::write(&swap, &batches[second..]).expect("can be written");
    fs::rename(&swap, &segment).expect("can be renamed");
    wait_until("another log", || inode(&path) != number);
    assert!(mounted::read(&path) == afresh(&growing, "t/0/log.jsonl"));
    growing.append(1);
    assert!(mounted::read(&path) == afresh(&growing, "t/0/log.jsonl"));
}

/// `tail -f` prints all of a file and what comes; GNU's and busybox's.
fn assert_followed(name: &str) {
    let Some((mut growing, mounted)) = mounted(&[3], "tail_records=5") else { return };
    let file = mounted.path(&format!("t/0/{name}"));
    let tails = [&["tail", "-s", "0.1", "-n", "+1", "-f"][..], &["busybox", "tail", "-n", "+1", "-f"]];
    let tails = tails.into_iter().filter(|words| has(words[0]));
    let followers: Vec<_> = tails.map(|words| Reader::start(words, &file)).collect();
    let first = mounted::read(&file);
    wait_until("the first", || followers.iter().all(|follower| follower.has_printed(&first)));
    let number = inode(&file);
    for round in 0..3 {
        if round == 1 {
            growing.roll();
        }
        growing.append(2);
        let all = mounted::read(&file);
        assert!(all.len() > first.len() && all.starts_with(&first));
        wait_until("the next", || followers.iter().all(|follower| follower.has_printed(&all)));
    }
    assert_eq!(inode(&file), number, "{name} is the same as long as it is open");
}

#[test]
fn a_log_is_followed() {
    assert_followed("log");
}

#[test]
fn a_tail_is_followed() {
    assert_followed("tail.jsonl");
}

#[test]
fn a_tail_is_fixed_while_it_is_open_and_moves_up_afterwards() {
    let Some((mut growing, mounted)) = mounted(&[3], "tail_records=5") else { return };
    let path = mounted.path("t/0/tail.jsonl");
    let mut held = File::open(&path).expect("can be opened");
    let (number, first) = (inode(&path), mounted::read(&path));
    let begun = growing.end();
    assert_eq!(offsets(&first), (begun - 5..begun).collect::<Vec<_>>());
    while growing.end() < begun + 30 {
        growing.append(1);
        assert_eq!(inode(&path), number);
        assert!(mounted::read(&path).starts_with(&first));
    }
    let mut all = Vec::new();
    held.seek(SeekFrom::Start(0)).expect("can be sought");
    held.read_to_end(&mut all).expect("can be read");
    assert_eq!(offsets(&all), (begun - 5..growing.end()).collect::<Vec<_>>());
    drop(held);
    wait_until("moved up", || inode(&path) != number);
    let count = offsets(&mounted::read(&path)).len();
    assert!((5..=10).contains(&count), "{count} records");
}

/// A partition of one sealed segment of 64 MiB and a small one, on a disk.
fn large() -> (tempfile::TempDir, std::path::PathBuf) {
    let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("temporary directory");
    let partition = data.path().join("t-0");
    fs::create_dir(&partition).expect("can be made");
    let batch = |offset, len| Log::single_batch(offset, &"a".repeat(len));
    let large: Vec<u8> = (0..64).flat_map(|offset| batch(offset, 1 << 20)).collect();
    let sealed = partition.join("00000000000000000000.log");
    fs::write(&sealed, large).expect("can be written");
    fs::write(partition.join("00000000000000000064.log"), batch(64, 10)).expect("can be written");
    File::open(&sealed).and_then(|file| file.sync_all()).expect("can be synced");
    (data, sealed)
}

/// Bytes of a file that are in the page cache.
fn in_page_cache(path: &Path) -> u64 {
    let output = Command::new("fincore").args(["-b", "-n", "-o", "RES"]).arg(path).output().expect("fincore");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

#[test]
fn a_scan_takes_its_share_of_the_page_cache_and_leaves_what_was_there() {
    const MIB: u64 = 1024 * 1024;
    const SHARE: u64 = 16 * MIB;
    /// What was there, what is read ahead, and the pieces that are partly of the one and of the other.
    const MORE: u64 = (2 + 4 + 1) * MIB;
    if !has("fincore") {
        return;
    }
    let (data, sealed) = large();
    let file = File::open(&sealed).expect("can be opened");
    fadvise(&file, 0, None, Advice::Random).expect("advice");
    let begin = || {
        fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
        // Somebody else is reading here.
        read_at(&file, 30 << 20, 2 << 20);
        in_page_cache(&sealed)
    };
    if begin() > 2 * MIB {
        return mounted::skip("this file system keeps what nobody needs");
    }
    let Some(mounted) = Mounted::with(data.path(), &format!("page_cache={SHARE}")) else { return };
    for name in ["log.txt", "by-segment/00000000000000000000.txt", "segments/00000000000000000000.log"] {
        begin();
        let path = mounted.path(&format!("t/0/{name}"));
        // The kernel keeps pages of a file from when its size is known.
        assert!(fs::read(&path).expect("can be read").len() > 64 << 20);
        begin();
        assert!(fs::read(&path).expect("can be read").len() > 64 << 20);
        let theirs = in_page_cache(&sealed);
        assert!((2 * MIB..SHARE + MORE).contains(&theirs), "{name}: {theirs} bytes of the source");
        wait_until("the mount's pages", || in_page_cache(&sealed) + in_page_cache(&path) < SHARE + MORE);
        for at in (30 << 20..32 << 20).step_by(4096) {
            let mut byte = [0];
            let read = preadv2(&file, &mut [std::io::IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
            assert_eq!(read, Ok(1), "{name}: gone at {at}");
        }
    }
    drop(mounted);
    // Where there is room, what was read stays.
    let Some(mounted) = Mounted::new(data.path()) else { return };
    begin();
    let path = mounted.path("t/0/by-segment/00000000000000000000.txt");
    for _ in 0..2 {
        assert!(fs::read(&path).expect("can be read").len() > 64 << 20);
    }
    for path in [&sealed, &path] {
        let there = in_page_cache(path);
        assert!(there > 64 * MIB, "{there} bytes of {}", path.display());
    }
}
