//! What a broker does to the files under a mount, and what those see who hold files of it, and those who come then.
//!
//! Each event is the file operations of a broker, made here, so that what is seen between two of them can be looked at;
//! `tests/brokers/events.rs` has real brokers make them. `docs/events.md` says what is seen.
#![expect(clippy::expect_used, reason = "a test says what is wrong by failing")]

mod common;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use common::events::{Held, Log, assert_descriptors_given_back, assert_shown, inode, now};
use common::mounted::{self, Mounted, has, is_root, wait_until};
use tempfile::TempDir;

/// A data directory with a log of one partition, and its mount.
struct Case {
    data: TempDir,
    log: Log,
    mounted: Mounted,
}

impl Case {
    /// With segments of so many records.
    fn new(segments: &[usize]) -> Option<Self> {
        let data = tempfile::tempdir().expect("temporary directory");
        let mut log = Log::new(data.path(), "t-0");
        for (index, count) in segments.iter().enumerate() {
            if index > 0 {
                log.roll();
            }
            log.fill(*count, "record");
        }
        let mounted = Mounted::with(data.path(), "tail_records=4")?;
        Some(Self { data, log, mounted })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.mounted.path(&format!("t/0/{name}"))
    }

    fn hold(&self, name: &str) -> Held {
        Held::open(&self.path(name))
    }

    fn assert_shown(&self, start: i64) {
        assert_shown(&self.mounted, &self.log, start);
    }
}

fn offsets(jsonl: &str) -> Vec<i64> {
    common::shown::records(jsonl.as_bytes()).iter().map(|record| record.offset).collect()
}

/// `tail -f` of a file, and what it has printed and complained of.
struct Follower {
    child: Child,
    printed: Arc<Mutex<Vec<u8>>>,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Follower {
    fn start(words: &[&str], file: &Path) -> Self {
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("tail can be started");
        let printed = collected(child.stdout.take().expect("a pipe"));
        let said = collected(child.stderr.take().expect("a pipe"));
        Self { child, printed, said }
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().expect("no panic")).into_owned()
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().expect("no panic")).into_owned()
    }
}

fn collected(mut from: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let all = Arc::new(Mutex::new(Vec::new()));
    let to = all.clone();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut piece) {
            to.lock().expect("no panic").extend_from_slice(&piece[..count]);
        }
    });
    all
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_roll_ends_a_file_of_by_segment_and_nothing_else() {
    let Some(mut case) = Case::new(&[3, 3]) else { return };
    let (mut log, mut tail) = (case.hold("log"), case.hold("tail"));
    let range = case.hold("by-offset/1..5.txt");
    let mut by_segment = case.hold("by-segment/00000000000000000003");
    let source = case.hold("segments/00000000000000000003.log");
    let numbers = (log.inode(), tail.inode());
    case.log.fill(1, "grown");
    by_segment.assert_goes_on(case.log.text(3).as_bytes());
    let sealed = case.log.text(3);
    for _ in 0..3 {
        case.log.roll();
        case.log.fill(2, "rolled");
        log.assert_goes_on(case.log.text(0).as_bytes());
        tail.assert_goes_on(case.log.text(2).as_bytes());
        case.assert_shown(0);
    }
    assert_eq!(numbers, (inode(&case.path("log")), inode(&case.path("tail"))));
    range.assert_same();
    by_segment.assert_goes_on(sealed.as_bytes());
    assert_eq!(now(&case.path("by-segment/00000000000000000003")), sealed);
    drop(source);
    drop((log, tail, range, by_segment));
    assert_descriptors_given_back(&case.mounted, case.data.path());
}

#[test]
fn retention_says_what_is_gone_and_leaves_no_hole() {
    let Some(mut case) = Case::new(&[3, 3, 3, 3, 2]) else { return };
    let mut whole = case.hold("log");
    let mut tail = case.hold("tail");
    let range = case.hold("by-offset/0..5.txt");
    let unread = Held::unread(&case.path("log.jsonl"));
    let by_segment = case.hold("by-segment/00000000000000000003");
    let by_segment_unread = Held::unread(&case.path("by-segment/00000000000000000003.jsonl"));
    let source = case.hold("segments/00000000000000000003.log");
    // One has read the first segment alone, and the second is gone before it comes to it.
    let all = case.log.text(0);
    let mut slow = File::open(case.path("log.tsv")).expect("can be opened");
    let mut begun = [0; 20];
    slow.read_exact(&mut begun).expect("can be read");
    let number = whole.inode();

    let retired = case.log.retire(2);
    case.assert_shown(6);
    for file in &retired {
        fs::remove_file(file).expect("segment can be removed");
    }
    case.assert_shown(6);
    assert_ne!(inode(&case.path("log")), number);
    whole.assert_same_or_stale();
    range.assert_same_or_stale();
    unread.assert_same_or_stale();
    let mut rest_of_slow = Vec::new();
    match slow.read_to_end(&mut rest_of_slow) {
        Ok(_) => {
            let read = String::from_utf8_lossy(&[&begun[..], &rest_of_slow].concat()).into_owned();
            let found: Vec<_> = read.lines().filter_map(|line| line.split('\t').next()).collect();
            let expected: Vec<_> = (0..case.log.end()).map(|offset| offset.to_string()).collect();
            assert_eq!(found, expected, "a hole that nothing tells of");
        }
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}"),
    }
    case.log.fill(2, "grown");
    whole.assert_grows_to(&format!("{all}{}", case.log.text(14)));
    tail.assert_goes_on(case.log.text(10).as_bytes());
    by_segment.assert_same();
    source.assert_same();
    let jsonl = Held::open_again(&by_segment_unread);
    assert_eq!(offsets(&String::from_utf8_lossy(jsonl.bytes())), [3, 4, 5]);
    whole.assert_same_or_stale();
    case.assert_shown(6);
    drop((whole, tail, range, unread, by_segment, by_segment_unread, jsonl, source, slow));
    assert_descriptors_given_back(&case.mounted, case.data.path());
}

#[test]
fn a_log_that_nobody_looked_at_while_all_of_it_was_deleted_goes_on() {
    let Some(mut case) = Case::new(&[3, 2]) else { return };
    let mut tail = case.hold("tail.jsonl");
    let number = inode(&case.path("log"));
    // All old segments are deleted, and the active one with them: a new one is made first.
    case.log.roll();
    case.log.fill(2, "new");
    case.log.retire(2);
    case.assert_shown(5);
    assert_ne!(inode(&case.path("log")), number);
    tail.assert_same_or_stale();
    tail = case.hold("tail.jsonl");
    assert_eq!(offsets(&String::from_utf8_lossy(tail.bytes())), [5, 6]);
}

#[test]
fn a_truncation_never_mixes_old_and_new() {
    for cut_to in [8, 6, 5, 4, 1] {
        let Some(mut case) = Case::new(&[3, 3, 3]) else { return };
        case.log.fill(1, "record");
        let names = [
            "log",
            "log.jsonl",
            "tail",
            "tail.jsonl",
            "by-offset/0...jsonl",
            "by-segment/00000000000000000006",
        ];
        let held: Vec<_> = names.iter().map(|name| case.hold(name)).collect();
        let all = ["all/log", "all/tail.jsonl"].map(|name| case.mounted.path(&format!("t/{name}")));
        let all_held: Vec<_> = all.iter().map(|path| Held::open(path)).collect();
        let below = case.hold("by-segment/00000000000000000000");
        for offset in 0..10 {
            now(&case.path(&format!("by-offset/{offset}")));
        }

        case.log.truncate(cut_to);
        case.log.epoch += 1;
        case.assert_shown(0);
        case.log.fill(6, "other");
        case.assert_shown(0);
        for path in &all {
            let shown = now(path);
            let is_whole = path.ends_with("log");
            let expected = if is_whole { case.log.text(0) } else { String::new() };
            assert!(!is_whole || shown == expected, "{}: {shown}", path.display());
            assert!(is_whole || offsets(&shown).last() == Some(&(case.log.end() - 1)), "{shown}");
        }
        // Nobody had it open since the cut: it has at most twice the wanted records, once the kernel asks for its name again.
        std::thread::sleep(topicfs::fs::caching::NAME_TTL);
        let (end, tail) = (case.log.end(), offsets(&now(&case.path("tail.jsonl"))));
        assert!((4..=8).contains(&tail.len()), "cut to {cut_to}: {tail:?}");
        assert_eq!(tail.last(), Some(&(end - 1)), "cut to {cut_to}");
        for (held, name) in held.iter().zip(names) {
            let path = case.path(name);
            assert!(!path.exists() || held.inode() != inode(&path), "{name}");
        }
        held.iter().chain(&all_held).for_each(Held::assert_same_or_stale);
        held[..4].iter().chain(&all_held).for_each(Held::assert_ended_by_staleness);
        if cut_to >= 3 {
            below.assert_same();
        }
        drop((held, all_held, below));
        case.assert_shown(0);
        assert_descriptors_given_back(&case.mounted, case.data.path());
    }
}

#[test]
fn a_tail_that_is_held_through_a_truncation_is_left_to_its_holders() {
    let Some(mut case) = Case::new(&[4, 8]) else { return };
    for file in ["t/0/tail.jsonl", "t/all/tail.jsonl"] {
        let path = case.mounted.path(file);
        let old = Held::open(&path);
        let end = case.log.end();
        assert_eq!(
            offsets(&String::from_utf8_lossy(old.bytes())),
            (end - 4..end).collect::<Vec<_>>(),
            "{file}"
        );
        case.log.truncate(end - 7);
        case.log.fill(1, "other");
        let end = case.log.end();
        // While the old one is held, a new one is right, and stays as it is while somebody holds it.
        let mut new = Held::open(&path);
        assert_ne!(new.inode(), old.inode());
        let shown = offsets(&String::from_utf8_lossy(new.bytes()));
        // The mount's own thread may have looked it up between the cut and the record: then it has one more.
        let first = shown[0];
        assert!((end - 5..=end - 4).contains(&first), "{file}: {shown:?}");
        assert_eq!(shown, (first..end).collect::<Vec<_>>(), "{file}");
        drop(old);
        case.log.fill(20, "more");
        new.assert_goes_on(now(&path).as_bytes());
        assert_eq!(offsets(&now(&path)), (first..end + 20).collect::<Vec<_>>(), "{file}");
        let number = new.inode();
        drop(new);
        wait_until("moved up", || inode(&path) != number);
        let shown = offsets(&now(&path));
        assert!((4..=8).contains(&shown.len()), "{file}: {shown:?}");
    }
}

#[test]
fn records_that_differ_at_their_beginning_alone_are_told_apart() {
    // The same length and the same last bytes, as from a producer of constant values.
    let constant = |offset: i64| format!("{offset:04} {}", "x".repeat(300));
    let Some(mut case) = Case::new(&[3]) else { return };
    for offset in 3..6 {
        case.log.append(&[&constant(offset)]);
    }
    case.assert_shown(0);
    let held = case.hold("log");
    let record = case.hold("by-offset/4");
    case.log.truncate(4);
    case.log.epoch += 1;
    for offset in 4..7 {
        case.log.append(&[&constant(offset + 5000)]);
    }
    case.assert_shown(0);
    held.assert_same_or_stale();
    record.assert_same_or_stale();
}

#[test]
fn what_was_never_shown_can_be_cut_away() {
    let Some(mut case) = Case::new(&[3, 3]) else { return };
    let (mut log, mut tail, mut by_segment) =
        (case.hold("log"), case.hold("tail"), case.hold("by-segment/00000000000000000003"));
    let numbers = ["log", "tail"].map(|name| inode(&case.path(name)));
    let follower =
        has("tail").then(|| Follower::start(&["tail", "-s", "0.1", "-n", "+1", "-f"], &case.path("log")));
    // A broker is killed in the midst of a write, and cuts what it finds when it starts again.
    for torn in [1, 30, 70] {
        let len = case.log.len();
        let batch = case.log.next_batch(&["torn"]);
        case.log.write(&batch[..torn]).expect("segment can be written");
        let before = case.log.end() - 1;
        assert_eq!(now(&case.path("offsets/latest")), format!("{before}\n"));
        assert_eq!(offsets(&now(&case.path("log.jsonl"))).len() as i64, before);
        case.log.truncate(before);
        let file = File::options().write(true).open(case.log.segment(case.log.base())).expect("segment");
        file.set_len(len).expect("segment can be cut");
        case.assert_shown(0);
        case.log.fill(1, "recovered");
        case.assert_shown(0);
    }
    // A preallocated segment has zeros at its end until it is rolled, or the broker stops in order.
    let len = case.log.len();
    let file = File::options().write(true).open(case.log.segment(case.log.base())).expect("segment");
    file.set_len(len + 100_000).expect("space can be reserved");
    case.assert_shown(0);
    let batch = case.log.next_batch(&["within"]);
    file.write_all_at(&batch, len).expect("can be written");
    case.assert_shown(0);
    file.set_len(len + batch.len() as u64).expect("segment can be trimmed");
    case.assert_shown(0);
    by_segment.assert_goes_on(case.log.text(3).as_bytes());
    case.log.roll();
    case.log.fill(1, "rolled");
    case.assert_shown(0);

    log.assert_goes_on(case.log.text(0).as_bytes());
    tail.assert_goes_on(case.log.text(2).as_bytes());
    assert_eq!(
        ["log", "tail"].map(|name| inode(&case.path(name))),
        numbers,
        "no byte that was shown has changed"
    );
    if let Some(follower) = follower {
        wait_until("followed", || follower.printed() == case.log.text(0));
        assert_eq!(follower.said(), "");
    }
}

#[test]
fn tail_f_says_that_its_file_is_stale_and_tail_capital_f_goes_on_with_the_new_one() {
    let Some(mut case) = Case::new(&[8]) else { return };
    if !has("tail") {
        return;
    }
    let path = case.path("tail");
    let by_descriptor = Follower::start(&["tail", "-s", "0.1", "-n", "+1", "-f"], &path);
    let by_name = Follower::start(&["tail", "-s", "0.1", "-n", "+1", "-F"], &path);
    let old = case.log.text(4);
    wait_until("the old", || [&by_descriptor, &by_name].iter().all(|follower| follower.printed() == old));
    case.log.truncate(5);
    case.log.epoch += 1;
    case.log.fill(6, "other");
    let end = case.log.end();
    let new = case.log.text(end - 4);
    wait_until("the new", || by_name.printed().len() >= old.len() + new.len());
    let mut printed = old.clone();
    printed.push_str(&case.log.text(7));
    assert_eq!(by_name.printed(), format!("{old}{new}"), "{}", by_name.said());
    wait_until("an error", || by_descriptor.said().contains("tale"));
    assert_eq!(by_descriptor.printed(), old);
}

#[test]
fn at_each_step_of_a_compaction_either_all_old_records_are_there_or_all_new_ones() {
    let Some(mut case) = Case::new(&[4, 4, 3]) else { return };
    let mut tail = case.hold("tail");
    let log = case.hold("log");
    let jsonl = case.hold("log.jsonl");
    let sealed = case.hold("by-segment/00000000000000000004");
    let sealed_unread = Held::unread(&case.path("by-segment/00000000000000000004.jsonl"));
    let source = case.hold("segments/00000000000000000004.log");
    let number = log.inode();
    let old = case.log.text(0);

    // The cleaner merges both sealed segments into one that keeps the records of even offsets.
    let kept = case.log.compact(2, |offset| offset % 2 == 0);
    let new = kept.text.clone() + &case.log.text(8);
    let path = |extension: &str| case.log.segment(0).with_extension(extension);
    fs::write(path("log.cleaned"), &kept.bytes).expect("can be written");
    assert_eq!(now(&case.path("log")), old, "a .cleaned is nothing yet");
    fs::rename(path("log.cleaned"), path("log.swap")).expect("can be renamed");
    assert_eq!(now(&case.path("log")), new, "a .swap counts");
    for base in [0, 4] {
        let segment = case.log.segment(base);
        fs::rename(&segment, segment.with_extension("log.deleted")).expect("can be renamed");
        assert_eq!(now(&case.path("log")), new, "{base} is set aside");
    }
    fs::rename(path("log.swap"), path("log")).expect("can be renamed");
    case.assert_shown(0);
    assert_eq!(now(&case.path("log")), new);
    assert_ne!(inode(&case.path("log")), number);
    for base in [0, 4] {
        fs::remove_file(case.log.segment(base).with_extension("log.deleted")).expect("can be removed");
    }
    case.assert_shown(0);
    assert!(fs::read(case.path("by-offset/1")).is_err());

    sealed.assert_same();
    source.assert_same();
    let unread = Held::open_again(&sealed_unread);
    assert_eq!(offsets(&String::from_utf8_lossy(unread.bytes())), [4, 5, 6, 7]);
    log.assert_stale_at(0);
    jsonl.assert_stale_at(0);
    case.log.fill(2, "grown");
    case.log.roll();
    case.log.fill(2, "rolled");
    // What is behind the cleaned segments is as it was.
    let whole = format!("{}{}", "record 7\n", case.log.text(8));
    tail.assert_grows_to(&whole);
    case.assert_shown(0);
    drop((tail, log, jsonl, sealed, sealed_unread, unread, source));
    assert_descriptors_given_back(&case.mounted, case.data.path());
}

#[test]
fn a_topic_that_was_made_again_is_another_one() {
    for (looks_between, remains) in [(true, false), (true, true), (false, false), (false, true)] {
        let Some(mut case) = Case::new(&[3, 3]) else { return };
        let names = [
            "log",
            "log.jsonl",
            "tail",
            "by-offset/0...jsonl",
            "by-offset/0",
            "by-offset/5.json",
            "info",
            "dump/00000000000000000000.log",
            "by-key/key",
        ];
        let all = ["all/log", "all/tail", "0/by-time/2023.jsonl"]
            .map(|name| case.mounted.path(&format!("t/{name}")));
        let paths: Vec<_> = names.iter().map(|name| case.path(name)).chain(all).collect();
        let before: Vec<_> = paths.iter().map(|path| (inode(path), now(path))).collect();
        let held: Vec<_> = paths.iter().map(|path| Held::open(path)).collect();
        let kept: Vec<_> = ["by-segment/00000000000000000000.jsonl", "segments/00000000000000000000.log"]
            .map(|name| case.hold(name))
            .into();
        let unread = Held::unread(&case.path("log.tsv"));

        let deleted = case.log.delete();
        if looks_between {
            wait_until("gone", || !case.path("log").exists());
        }
        if !remains {
            fs::remove_dir_all(&deleted).expect("partition can be removed");
        }
        case.log = Log::new(case.data.path(), "t-0");
        case.log.fill(3, "second");
        case.log.roll();
        case.log.fill(4, "second");
        if looks_between {
            // What the kernel was told may be a tenth of a second old.
            wait_until("there again", || case.mounted.path("t/0/log").exists());
        }
        case.assert_shown(0);
        for ((path, (number, text)), held) in paths.iter().zip(&before).zip(&held) {
            let is_small = path.ends_with("info");
            assert_ne!(now(path), *text, "{}", path.display());
            assert!(is_small || inode(path) != *number, "{} is the same inode", path.display());
            held.assert_same_or_stale();
        }
        assert_eq!(now(&case.path("by-key/key")), "second 6");
        assert_eq!(now(&case.mounted.path("t/all/log")), case.log.text(0));
        for held in &kept {
            held.assert_same();
        }
        let mut unread = unread;
        unread.assert_stale_or_old(&before[0].1);
        unread = case.hold("log.tsv");
        case.log.fill(1, "grown");
        assert!(now(&case.path("log.tsv")).starts_with(&*String::from_utf8_lossy(unread.bytes())));
        drop((held, kept, unread));
        if !remains {
            assert_descriptors_given_back(&case.mounted, case.data.path());
        }
    }
}

#[test]
fn a_partition_that_is_added_is_there() {
    let Some(mut case) = Case::new(&[3]) else { return };
    let (log, mut own) = (Held::open(&case.mounted.path("t/all/log.jsonl")), case.hold("log"));
    let tail = Held::open(&case.mounted.path("t/all/tail.jsonl"));
    let mut second = Log::new(case.data.path(), "t-1");
    assert_eq!(mounted::names(&case.mounted.path("t")), ["0", "1", "all", "info", "info.json"]);
    second.fill(2, "second");
    assert_shown(&case.mounted, &second, 0);
    case.log.fill(2, "grown");
    case.assert_shown(0);
    own.assert_goes_on(case.log.text(0).as_bytes());
    let all = now(&case.mounted.path("t/all/log.jsonl"));
    assert_eq!(offsets(&all).len(), 7, "{all}");
    assert_ne!(inode(&case.mounted.path("t/all/log.jsonl")), log.inode());
    assert!(offsets(&now(&case.mounted.path("t/all/tail.jsonl"))).len() >= 4);
    log.assert_same_before();
    tail.assert_same_before();
}

#[test]
fn a_restored_file_is_another_one_whether_it_is_written_over_or_renamed_to_its_name() {
    for by_rename in [false, true] {
        let Some(mut case) = Case::new(&[3, 3, 3]) else { return };
        let held: Vec<_> = ["log", "log.jsonl", "by-offset/0...jsonl"].map(|name| case.hold(name)).into();
        let sealed = case.hold("by-segment/00000000000000000003.jsonl");
        let other = tempfile::tempdir().expect("temporary directory");
        let mut restored = Log::new(other.path(), "t-0");
        restored.fill(3, "record");
        restored.roll();
        // As long as it was, and longer.
        restored.fill(3, "backup");
        restored.roll();
        restored.fill(3, "record");
        case.assert_shown(0);
        for base in [0, 3, 6] {
            let (from, to) = (restored.segment(base), case.log.segment(base));
            if by_rename {
                let part = to.with_file_name(".being-restored");
                fs::copy(&from, &part).expect("can be copied");
                fs::rename(&part, &to).expect("can be renamed");
            } else {
                fs::copy(&from, &to).expect("can be copied");
            }
        }
        case.log.replaced_by(&restored);
        case.assert_shown(0);
        for held in &held {
            held.assert_same_or_stale();
            assert_ne!(inode(held.path()), held.inode(), "{}", held.path().display());
        }
        sealed.assert_same_or_stale();
        if by_rename {
            sealed.assert_same();
        }
        case.log.fill(2, "grown");
        case.assert_shown(0);
        drop((held, sealed));
        assert_descriptors_given_back(&case.mounted, case.data.path());
    }
}

#[test]
fn a_data_directory_that_is_replaced_is_read_anew() {
    let Some(mut case) = Case::new(&[3, 3]) else { return };
    let held: Vec<_> = ["log", "by-offset/0...jsonl"].map(|name| case.hold(name)).into();
    let kept = case.hold("segments/00000000000000000000.log");
    let data = case.data.path().to_owned();
    let aside = data.with_extension("aside");
    fs::rename(&data, &aside).expect("can be renamed");
    wait_until("gone", || !case.path("log").exists());
    assert!(fs::read_dir(case.mounted.point()).is_ok(), "the mount stays");
    held.iter().for_each(Held::assert_same_or_stale);
    kept.assert_same();
    // The same comes back.
    fs::rename(&aside, &data).expect("can be renamed");
    wait_until("back", || case.path("log").exists());
    case.assert_shown(0);
    // Another comes in its place.
    fs::rename(&data, &aside).expect("can be renamed");
    case.log = Log::new(&data, "t-0");
    case.log.fill(4, "another");
    wait_until("another", || case.path("log").exists());
    case.assert_shown(0);
    held.iter().for_each(Held::assert_same_or_stale);
    kept.assert_same();
    // A partition's directory is swapped in one go.
    let other = tempfile::tempdir().expect("temporary directory");
    let mut restored = Log::new(other.path(), "t-0");
    restored.fill(5, "restored");
    common::fixtures::copy_into(restored.directory(), &data.join("being-restored"));
    fs::rename(case.log.directory(), data.join("t-0.0123456789abcdef0123456789abcdef-stray"))
        .expect("can be renamed");
    fs::rename(data.join("being-restored"), data.join("t-0")).expect("can be renamed");
    case.log.replaced_by(&restored);
    case.assert_shown(0);
    drop((held, kept));
    fs::remove_dir_all(&aside).expect("can be removed");
    assert_descriptors_given_back(&case.mounted, &data);
}

#[test]
fn what_could_not_be_read_for_a_while_is_there_when_it_can_be() {
    if !(is_root() && has("setpriv")) {
        return;
    }
    let data = tempfile::tempdir().expect("temporary directory");
    let mut log = Log::new(data.path(), "t-0");
    log.fill(3, "record");
    let mut other = Log::new(data.path(), "u-0");
    other.fill(2, "other");
    // Root as others are: rights count for it.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-dac_override,-dac_read_search"]).arg(env!("CARGO_BIN_EXE_topicfs"));
    let Some(mounted) = Mounted::by(command, data.path(), "") else { return };
    assert_shown(&mounted, &log, 0);
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("mode can be set");
    };
    let topics = || {
        let mut names = mounted::names(mounted.point());
        names.retain(|name| ["t", "u"].contains(&name.as_str()));
        names
    };
    for (path, left) in [(log.directory().to_owned(), vec!["u"]), (data.path().to_owned(), vec![])] {
        let path = &path;
        mode(path, 0);
        // Nothing says that a mode has changed; a look after something else has.
        File::create(data.path().join("touched")).expect("a file can be made");
        fs::remove_file(data.path().join("touched")).expect("a file can be removed");
        wait_until("hidden", || topics() == left);
        let problems = mounted::read(&mounted.path(".topicfs/problems"));
        assert!(String::from_utf8_lossy(&problems).contains("ermission denied"), "{problems:?}");
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(topics(), left);
        mode(path, 0o700);
        wait_until("back", || topics() == ["t", "u"]);
        log.fill(1, "grown");
        assert_shown(&mounted, &log, 0);
    }
    let segment = log.segment(0);
    mode(&segment, 0);
    wait_until("closed", || {
        File::open(&segment).is_err() || mounted.descriptors_below(data.path()).is_empty()
    });
    let error = fs::read(mounted.path("t/0/log")).expect_err("it can't be read");
    assert!([Some(libc::EACCES), Some(libc::ESTALE)].contains(&error.raw_os_error()), "{error}");
    mode(&segment, 0o600);
    assert_shown(&mounted, &log, 0);
}

/// A file system that is mounted, gone when dropped.
struct Volume {
    point: PathBuf,
}

impl Volume {
    fn mount(words: &[&str], point: &Path) -> Option<Self> {
        let output = Command::new("mount").args(words).arg(point).output().expect("mount can be started");
        if !output.status.success() {
            mounted::skip(&format!("mount {words:?}: {}", String::from_utf8_lossy(&output.stderr)));
            return None;
        }
        Some(Self { point: point.to_owned() })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.point).output();
    }
}

#[test]
fn half_a_batch_on_a_full_disk_is_not_shown_and_what_is_written_later_is() {
    if !(is_root() && has("mount")) {
        return;
    }
    let data = tempfile::tempdir().expect("temporary directory");
    let Some(_volume) = Volume::mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs"], data.path()) else {
        return;
    };
    let mut log = Log::new(data.path(), "t-0");
    log.fill(3, "record");
    let ballast = data.path().join("ballast");
    fs::write(&ballast, vec![1; 100_000]).expect("can be written");
    let Some(mounted) = Mounted::with(data.path(), "tail_records=4") else { return };
    let mut held = Held::open(&mounted.path("t/0/log"));
    let value = "v".repeat(3000);
    let (len, error) = loop {
        let len = log.len();
        let batch = log.next_batch(&[&value]);
        if let Err(error) = log.write(&batch) {
            break (len, error);
        }
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    assert!(log.len() > len, "a part of the batch was written");
    let end = log.end() - 1;
    assert_eq!(now(&mounted.path("t/0/offsets/latest")), format!("{end}\n"));
    let shown = now(&mounted.path("t/0/log"));
    assert_eq!(shown.lines().count() as i64, end);
    held.assert_goes_on(shown.as_bytes());
    // The broker has stopped; with space again it starts, cuts and goes on.
    fs::remove_file(&ballast).expect("can be removed");
    log.truncate(end);
    File::options().write(true).open(log.segment(0)).and_then(|file| file.set_len(len)).expect("can be cut");
    log.fill(2, "recovered");
    assert_shown(&mounted, &log, 0);
    held.assert_goes_on(log.text(0).as_bytes());
    drop(held);
    assert_descriptors_given_back(&mounted, data.path());
    drop(mounted);
}

#[test]
fn a_source_that_is_unmounted_is_empty_until_it_is_mounted_again() {
    if !(is_root() && has("mount")) {
        return;
    }
    let (disk, point) = (
        tempfile::tempdir().expect("temporary directory"),
        tempfile::tempdir().expect("temporary directory"),
    );
    let mut log = Log::new(disk.path(), "t-0");
    log.fill(3, "record");
    let from = disk.path().to_str().expect("UTF-8").to_owned();
    let Some(volume) = Volume::mount(&["--bind", &from], point.path()) else { return };
    let Some(mounted) = Mounted::with(point.path(), "") else { return };
    let (held, kept) = (
        Held::open(&mounted.path("t/0/log")),
        Held::open(&mounted.path("t/0/segments/00000000000000000000.log")),
    );
    drop(volume);
    wait_until("gone", || !mounted.path("t").exists());
    assert_eq!(fs::read(mounted.path("t/0/log")).expect_err("gone").raw_os_error(), Some(libc::ENOENT));
    assert!(fs::read_dir(mounted.point()).is_ok(), "the mount stays");
    held.assert_same_or_stale();
    kept.assert_same();
    mounted::read(&mounted.path(".topicfs/problems"));
    drop(kept);
    assert_descriptors_given_back(&mounted, point.path());

    log.fill(2, "grown");
    let Some(volume) = Volume::mount(&["--bind", &from], point.path()) else { return };
    wait_until("back", || mounted.path("t").exists());
    assert_shown(&mounted, &log, 0);
    held.assert_same_before();
    // Another disk in its place.
    drop(volume);
    let Some(_volume) = Volume::mount(&["-t", "tmpfs", "tmpfs"], point.path()) else { return };
    let mut other = Log::new(point.path(), "t-0");
    other.fill(4, "another");
    wait_until("another", || mounted.path("t").exists());
    assert_shown(&mounted, &other, 0);
    held.assert_same_or_stale();
    drop(held);
    assert_descriptors_given_back(&mounted, point.path());
    drop(mounted);
}

#[test]
fn memory_and_descriptors_go_back_to_where_they_were() {
    let Some(mut case) = Case::new(&[3]) else { return };
    let round = |case: &mut Case, number: usize| {
        let topic = format!("passing{number}");
        let mut passing = Log::new(case.data.path(), &format!("{topic}-0"));
        for _ in 0..4 {
            passing.fill(5, &"value".repeat(20));
            passing.roll();
        }
        case.log.fill(3, "grown");
        case.log.roll();
        let path = |name: &str| case.mounted.path(&format!("{topic}/0/{name}"));
        for name in [
            "log",
            "log.jsonl",
            "tail",
            "by-key/key",
            "by-time/2023.jsonl",
            "info",
            "dump/00000000000000000000.log",
        ] {
            now(&path(name));
        }
        now(&case.mounted.path(&format!("{topic}/all/log")));
        now(&case.path("log"));
        let held = Held::open(&path("by-segment/00000000000000000000"));
        for path in case.log.retire(case.log.bases().len() - 2) {
            fs::remove_file(path).expect("segment can be removed");
        }
        fs::remove_dir_all(passing.delete()).expect("partition can be removed");
        held.assert_same();
        wait_until("gone", || !case.mounted.path(&topic).exists());
    };
    // Some caches are full only after a while; what is gone is forgotten every 2 s.
    let mut memory = Vec::new();
    for number in 0..200 {
        round(&mut case, number);
        if number % 50 == 49 {
            std::thread::sleep(std::time::Duration::from_secs(4));
            assert_descriptors_given_back(&case.mounted, case.data.path());
            memory.push(case.mounted.memory_kib("VmRSS:"));
        }
    }
    println!("{memory:?} KiB after 50, 100, 150, 200 topics");
    assert!(memory[3] < memory[1] + 1536, "{memory:?} KiB");
    let problems = now(&case.mounted.path(".topicfs/problems"));
    assert!(!problems.contains("passing"), "{problems}");
}

#[test]
fn descriptors_are_bounded_however_many_segments_there_are() {
    let segments = 100_000;
    let data = tempfile::tempdir().expect("temporary directory");
    let log = Log::new(data.path(), "t-0");
    for offset in 0..segments {
        fs::write(log.segment(offset), Log::single_batch(offset, &format!("value {offset}")))
            .expect("can be written");
    }
    let Some(mounted) = Mounted::new(data.path()) else { return };
    let begun = std::time::Instant::now();
    let mut most = 0;
    let mut look = || most = most.max(mounted.descriptors_below(data.path()).len());
    let mut file = File::open(mounted.path("t/0/log")).expect("can be opened");
    println!("open: {:?}", begun.elapsed());
    let mut piece = vec![0; 64 * 1024];
    let mut read = Vec::new();
    while let Ok(count @ 1..) = file.read(&mut piece) {
        read.extend_from_slice(&piece[..count]);
        look();
    }
    println!("read: {:?}", begun.elapsed());
    let expected: String = (0..segments).map(|offset| format!("value {offset}\n")).collect();
    assert!(read == expected.as_bytes());
    assert_eq!(file.seek(SeekFrom::End(0)).expect("can be sought"), expected.len() as u64);
    println!("sized: {:?}", begun.elapsed());
    for number in 0..300 {
        let offset = number * 7919 % segments;
        assert_eq!(
            fs::read_to_string(mounted.path(&format!("t/0/by-offset/{offset}"))).expect("a record"),
            format!("value {offset}")
        );
        look();
    }
    println!(
        "by offset: {:?}; at most {most} descriptors; {} KiB",
        begun.elapsed(),
        mounted.peak_memory_kib()
    );
    assert!(most <= 300, "{most} descriptors");
    drop(file);
    assert_descriptors_given_back(&mounted, data.path());
}

#[test]
fn a_write_that_is_under_way_is_an_event_too() {
    // A handle that was opened in the midst of a batch sees it when it is whole.
    let Some(mut case) = Case::new(&[2]) else { return };
    let batch = case.log.next_batch(&["one", "two"]);
    case.log.write(&batch[..batch.len() - 1]).expect("segment can be written");
    let mut held = case.hold("log");
    assert_eq!(String::from_utf8_lossy(held.bytes()).lines().count(), 2);
    File::options()
        .append(true)
        .open(case.log.segment(0))
        .and_then(|mut file| file.write_all(&batch[batch.len() - 1..]))
        .expect("can be written");
    held.assert_goes_on(case.log.text(0).as_bytes());
    case.assert_shown(0);
}
