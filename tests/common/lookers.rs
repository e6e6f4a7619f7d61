//! What comes and goes while a broker is under load: programs that read a file, a record or a tree and end. What each has seen is
//! kept, and held against what consumers got when they have all.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memchr::memmem;
use serde_json::Value;

use super::model::Numbers;
use super::mounted::Mounted;
use super::shown::{self, ShownRecord};
use super::witness::{self, Witness};

/// Where they look.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    /// The mount.
    pub mounted: &'a Mounted,
    /// A file for each partition, in which a consumer writes down what it gets.
    pub witnesses: &'a Path,
    /// Says that it is time to end.
    pub stop: &'a AtomicBool,
}

/// All of them.
pub const ALL: [fn(&Ground<'_>) -> Vec<Seen>; 10] =
    [whole_logs, compacted_log, ranges, single_records, times, keys, find, grep, ls, those_that_come_again];

/// Partitions that keep all records at each offset.
const KEPT: [&str; 7] = ["plain-0", "plain-1", "plain-2", "gzip-0", "snappy-0", "lz4-0", "zstd-0"];

/// Keys that producers use.
const KEYS: usize = 50;

/// Bytes, or what tells others from them.
#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    Digest(usize, u64),
}

impl Content {
    fn of(bytes: Vec<u8>) -> Self {
        if bytes.len() < 1 << 13 { Self::Bytes(bytes) } else { Self::Digest(bytes.len(), digest(&bytes)) }
    }

    fn is(&self, expected: &[u8]) -> bool {
        match self {
            Self::Bytes(bytes) => bytes == expected,
            Self::Digest(len, hash) => *len == expected.len() && *hash == digest(expected),
        }
    }
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// What was seen of a partition.
#[derive(Debug)]
pub struct Seen {
    /// The file.
    path: String,
    /// The partition.
    of: String,
    /// The last offset that the consumer had got before; none is -1.
    known: i64,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Records without a gap, all that were known if they begin with the first and nothing was missing at the end.
    Log { offsets: Range<i64>, content: Content, is_whole: bool },
    /// Records with gaps, where keys have newer ones.
    Compacted { offsets: Vec<i64>, content: Content },
    /// All records in a range.
    Range { offsets: Range<i64>, content: Content },
    /// A record's line.
    Line { offset: i64, content: Content },
    /// A record's value; `None` where there is no such file.
    Value { offset: i64, value: Option<Content> },
    /// A record's document.
    Document { offset: i64, document: Box<Value> },
    /// The records of a period, in milliseconds.
    Period { times: Range<i64>, content: Content },
    /// The records of a key.
    History { key: String, offsets: Vec<i64>, content: Content },
    /// The latest value of a key; `None` where there is no such file.
    Latest { key: String, value: Option<Content> },
    /// How many lines grep found.
    Count(usize),
    /// So many names, and no complaint but those allowed.
    Names(usize),
}

impl Ground<'_> {
    /// Calls `look` until it is time to end, at most half of the time.
    fn until_stopped(&self, mut look: impl FnMut()) {
        while !self.stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            look();
            std::thread::sleep(begun.elapsed().max(Duration::from_millis(200)));
        }
    }

    /// The last record that the consumer of a partition has got.
    fn known(&self, of: &str) -> i64 {
        witness::last_offset(&self.witnesses.join(of)).unwrap_or(-1)
    }

    fn run(&self, words: &[&str], path: &str) -> Output {
        let output = Command::new(words[0]).args(&words[1..]).arg(self.mounted.path(path)).output();
        output.expect("it can be started")
    }

    /// What `cat` prints; `None` where there is no such file.
    fn cat(&self, path: &str) -> Option<Vec<u8>> {
        let output = self.run(&["cat"], path);
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        if complaint.contains("No such file or directory") {
            return None;
        }
        assert!(output.status.success(), "{complaint}");
        Some(output.stdout)
    }

    fn must_cat(&self, path: &str) -> Vec<u8> {
        self.cat(path).unwrap_or_else(|| panic!("{path} is not there"))
    }
}

/// Where a partition is in the mount.
fn directory(of: &str) -> String {
    of.replacen('-', "/", 1)
}

/// `cat` of whole logs.
fn whole_logs(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut before = HashMap::new();
    let mut turns = [&KEPT[..], &["txn-0", "txn-0@committed", "short-0"]].concat().into_iter().cycle();
    ground.until_stopped(|| {
        let of = turns.next().expect("a cycle");
        let path = format!("{}/log.jsonl", directory(of));
        let known = ground.known(of);
        let output = ground.run(&["cat"], &path);
        let (bytes, complaint) = (output.stdout, String::from_utf8_lossy(&output.stderr));
        // The first records may go while they are read.
        let is_cut = of == "short-0" && complaint.contains("Stale file handle");
        assert!(output.status.success() || is_cut, "{complaint}");
        let offsets = first_and_last(&bytes);
        let is_whole = !is_cut;
        if of != "short-0" {
            let before = before.insert(of, bytes.clone()).unwrap_or_default();
            assert!(bytes.starts_with(&before), "{path}: other bytes than before");
        }
        let what = What::Log { offsets, content: Content::of(bytes), is_whole };
        seen.push(Seen { path, of: of.to_owned(), known, what });
    });
    seen
}

/// The offsets of the first and the last line, as a range.
fn first_and_last(bytes: &[u8]) -> Range<i64> {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().and_then(witness::offset);
    let last = lines.next_back().map_or(first, witness::offset);
    first.unwrap_or(0)..last.map_or(0, |last| last + 1)
}

/// The offsets of all lines.
fn offsets_of(bytes: &[u8]) -> Vec<i64> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.map(|line| witness::offset(line).expect("a line with an offset")).collect()
}

/// `cat` of a compacted log.
fn compacted_log(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    ground.until_stopped(|| {
        let path = "compact/0/log.jsonl".to_owned();
        let known = ground.known("compact-0");
        let output = ground.run(&["cat"], &path);
        let complaint = String::from_utf8_lossy(&output.stderr);
        let is_stale = complaint.contains("Stale file handle");
        assert!(output.status.success() || is_stale, "{complaint}");
        if !is_stale {
            let (offsets, content) = (offsets_of(&output.stdout), Content::of(output.stdout));
            seen.push(Seen {
                path,
                of: "compact-0".to_owned(),
                known,
                what: What::Compacted { offsets, content },
            });
        }
    });
    seen
}

/// `by-offset/A..B.jsonl`, and again some of those that were read.
fn ranges(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    let mut numbers = Numbers::new(1);
    ground.until_stopped(|| {
        if let Some(again) = seen.get(numbers.below(seen.len() * 2)) {
            let bytes = ground.must_cat(&again.path);
            let What::Range { content, .. } = &again.what else { panic!("a range") };
            assert!(content.is(&bytes), "{}: other bytes than before", again.path);
        }
        let of = [&KEPT[..], &["txn-0", "txn-0@committed"]].concat()[numbers.below(9)];
        let known = ground.known(of);
        let from = below(&mut numbers, known);
        let to = (from + below(&mut numbers, 300)).min(known + 1);
        let path = format!("{}/by-offset/{from}..{to}.jsonl", directory(of));
        let content = Content::of(ground.must_cat(&path));
        seen.push(Seen { path, of: of.to_owned(), known, what: What::Range { offsets: from..to, content } });
    });
    seen
}

fn below(numbers: &mut Numbers, limit: i64) -> i64 {
    i64::try_from(numbers.below(usize::try_from(limit).unwrap_or(0))).expect("it is below")
}

/// Single records in all forms.
fn single_records(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut numbers = Numbers::new(2);
    ground.until_stopped(|| {
        for _ in 0..5 {
            let of = KEPT[numbers.below(KEPT.len())];
            let known = ground.known(of);
            if known < 0 {
                continue;
            }
            let offset = below(&mut numbers, known + 1);
            let name = format!("{}/by-offset/{offset}", directory(of));
            let (path, what) = match numbers.below(3) {
                0 => {
                    let path = format!("{name}.json");
                    let document = serde_json::from_slice(&ground.must_cat(&path)).expect("a document");
                    (path, What::Document { offset, document: Box::new(document) })
                }
                1 => {
                    let path = format!("{name}.jsonl");
                    let content = Content::of(ground.must_cat(&path));
                    (path, What::Line { offset, content })
                }
                _ => {
                    let value = ground.cat(&name).map(Content::of);
                    (name, What::Value { offset, value })
                }
            };
            seen.push(Seen { path, of: of.to_owned(), known, what });
        }
    });
    seen
}

/// The records of a period that has ended when it is asked for.
fn times(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut numbers = Numbers::new(3);
    let begun = now();
    ground.until_stopped(|| {
        let of = KEPT[numbers.below(KEPT.len())];
        let from = begun + below(&mut numbers, now() - begun);
        let times = from..from + 1 + below(&mut numbers, 3000);
        let known = ground.known(of);
        let path = format!("{}/by-time/{}..{}.jsonl", directory(of), times.start, times.end);
        let content = Content::of(ground.must_cat(&path));
        seen.push(Seen { path, of: of.to_owned(), known, what: What::Period { times, content } });
    });
    seen
}

fn now() -> i64 {
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    i64::try_from(now).expect("before the year 292,278,994")
}

/// Values and histories of keys.
fn keys(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut numbers = Numbers::new(4);
    ground.until_stopped(|| {
        let key = format!("key-{}", numbers.below(KEYS));
        let known = ground.known("gzip-0");
        let path = format!("gzip/0/by-key/{key}.jsonl");
        if let Some(bytes) = ground.cat(&path) {
            let what =
                What::History { key: key.clone(), offsets: offsets_of(&bytes), content: Content::of(bytes) };
            seen.push(Seen { path, of: "gzip-0".to_owned(), known, what });
        }
        for of in ["gzip-0", "compact-0"] {
            let known = ground.known(of);
            let path = format!("{}/by-key/{key}", directory(of));
            let output = ground.run(&["cat"], &path);
            let complaint = String::from_utf8_lossy(&output.stderr);
            // Compaction may have replaced the segment between the look-up and the reading.
            if of == "compact-0" && complaint.contains("Stale file handle") {
                continue;
            }
            let is_absent = complaint.contains("No such file or directory");
            assert!(output.status.success() || is_absent, "{complaint}");
            let value = (!is_absent).then(|| Content::of(output.stdout));
            seen.push(Seen {
                path,
                of: of.to_owned(),
                known,
                what: What::Latest { key: key.clone(), value },
            });
        }
    });
    seen
}

/// `find` over the whole mount.
fn find(ground: &Ground<'_>) -> Vec<Seen> {
    walk(ground, &["find"], "")
}

/// `ls -lR` of the whole mount.
fn ls(ground: &Ground<'_>) -> Vec<Seen> {
    walk(ground, &["ls", "-lR"], "")
}

fn walk(ground: &Ground<'_>, words: &[&str], path: &str) -> Vec<Seen> {
    let mut seen = Vec::new();
    ground.until_stopped(|| {
        let output = ground.run(words, path);
        check_complaints(ground, &output);
        let count = output.stdout.split(|byte| *byte == b'\n').count();
        seen.push(Seen { path: words.join(" "), of: String::new(), known: -1, what: What::Names(count) });
    });
    seen
}

/// What a walk may say: that files are gone that were there, below the topics that lose some.
fn check_complaints(ground: &Ground<'_>, output: &Output) {
    let complaints = String::from_utf8_lossy(&output.stderr);
    let losing = ["short", "compact"].map(|topic| ground.mounted.path(topic).display().to_string());
    for line in complaints.lines() {
        let gone = ["No such file or directory", "Stale file handle"].iter().any(|why| line.ends_with(why));
        assert!(gone && losing.iter().any(|topic| line.contains(topic)), "{complaints}");
    }
}

/// `grep -rc` over partitions, whose lines are counted.
fn grep(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut turns = ["gzip-0", "short-0", "zstd-0"].into_iter().cycle();
    ground.until_stopped(|| {
        let of = turns.next().expect("a cycle");
        let known = ground.known(of);
        let path = directory(of);
        let output = ground.run(&["grep", "-rc", "-a", "\\[\"id\""], &path);
        check_complaints(ground, &output);
        let log = ground.mounted.path(&format!("{path}/log.jsonl:")).display().to_string();
        let counts = String::from_utf8_lossy(&output.stdout).into_owned();
        let count = counts.lines().find_map(|line| line.strip_prefix(&log));
        let count = count.unwrap_or_else(|| panic!("no {log} in {counts}")).parse().expect("a number");
        let of = if of == "short-0" { String::new() } else { of.to_owned() };
        seen.push(Seen { path, of, known, what: What::Count(count) });
    });
    seen
}

/// Reads on in logs that lose records, and begins anew where the file is stale.
fn those_that_come_again(ground: &Ground<'_>) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut open: BTreeMap<&str, (File, Vec<u8>, i64)> = BTreeMap::new();
    ground.until_stopped(|| {
        for of in ["short-0", "compact-0"] {
            let path = ground.mounted.path(&format!("{}/log.jsonl", directory(of)));
            let (file, bytes, _) = open.entry(of).or_insert_with(|| {
                let known = ground.known(of);
                (File::open(&path).expect("it can be opened"), Vec::new(), known)
            });
            if let Err(error) = read_on(file, bytes) {
                assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{of}: {error}");
                let (_, bytes, known) = open.remove(of).expect("it is open");
                seen.push(piece(of, bytes, known, false));
            }
        }
    });
    for (of, (_, bytes, known)) in open {
        seen.push(piece(of, bytes, known, true));
    }
    seen
}

/// Appends what has come to a file.
fn read_on(file: &File, bytes: &mut Vec<u8>) -> std::io::Result<()> {
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read_at(&mut piece, bytes.len() as u64)? {
            0 => return Ok(()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

/// What was read of a log before it was stale, as far as lines are whole.
fn piece(of: &str, mut bytes: Vec<u8>, known: i64, is_whole: bool) -> Seen {
    let path = format!("{}/log.jsonl, read on", directory(of));
    if !is_whole {
        bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1));
    }
    let what = if of == "compact-0" {
        What::Compacted { offsets: offsets_of(&bytes), content: Content::of(bytes) }
    } else {
        What::Log { offsets: first_and_last(&bytes), content: Content::of(bytes), is_whole }
    };
    let known = if is_whole { known } else { -1 };
    Seen { path, of: of.to_owned(), known, what }
}

/// Holds all that was seen against what consumers got.
pub fn check(seen: &[Seen], witnesses: &BTreeMap<String, Witness>) {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut keys = BTreeMap::new();
    for one in seen {
        let witness = witnesses.get(&one.of);
        let (kind, size) = match witness {
            Some(witness) => {
                let keyed = keys.entry(one.of.as_str()).or_insert_with(|| Keyed::new(witness));
                check_one(one, witness, keyed)
            }
            None => match one.what {
                What::Names(count) | What::Count(count) => ("walks", count),
                _ => panic!("{} has no witness", one.path),
            },
        };
        let count = counts.entry(kind).or_default();
        *count = (count.0 + 1, count.1 + size);
    }
    for (kind, (count, size)) in counts {
        eprintln!("{kind}: {count}, {size} lines, names or values in all");
    }
}

/// The offsets of each key, and the times of all records.
struct Keyed {
    keys: HashMap<String, Vec<i64>>,
    times: Vec<(i64, i64)>,
}

impl Keyed {
    fn new(witness: &Witness) -> Self {
        let mut keys: HashMap<_, Vec<_>> = HashMap::new();
        let mut times = Vec::new();
        for offset in witness.offsets() {
            let line = witness.line(offset).expect("a line");
            if let Some(key) = key(line) {
                keys.entry(key).or_default().push(offset);
            }
            times.push((offset, number(line, "timestamp").expect("a time")));
        }
        Self { keys, times }
    }
}

/// The number that a line has for a member before its key.
pub fn number(line: &[u8], member: &str) -> Option<i64> {
    let name = format!("\"{member}\":");
    let at = memmem::find(line, name.as_bytes())? + name.len();
    let digits = line[at..].split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The key of a line.
fn key(line: &[u8]) -> Option<String> {
    let text = line[memmem::find(line, b"\"key\":")? + b"\"key\":".len()..].strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', text)?;
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

/// Panics where what was seen can't be; its kind, and how much it was.
fn check_one(seen: &Seen, witness: &Witness, keyed: &Keyed) -> (&'static str, usize) {
    let Seen { path, known, .. } = seen;
    let joined = |offsets: &[i64]| -> Vec<u8> {
        offsets.iter().flat_map(|offset| witness.line(*offset).expect("a consumer got it")).copied().collect()
    };
    match &seen.what {
        What::Log { offsets, content, is_whole } => {
            assert!(content.is(witness.between(offsets.clone())), "{path}: not the records of {offsets:?}");
            assert!(
                !is_whole || offsets.end > *known,
                "{path}: ends at {}, when {known} was known",
                offsets.end
            );
            let start = witness.offsets().next().unwrap_or(0);
            assert!(
                offsets.start == start || offsets.is_empty() || seen.of == "short-0",
                "{path}: begins at {}",
                offsets.start
            );
            ("whole logs", witness.between(offsets.clone()).iter().filter(|byte| **byte == b'\n').count())
        }
        What::Compacted { offsets, content } => {
            assert!(content.is(&joined(offsets)), "{path}: other bytes");
            check_compacted(path, offsets, *known, keyed);
            ("compacted logs", offsets.len())
        }
        What::Range { offsets, content } => {
            assert!(content.is(witness.between(offsets.clone())), "{path}: not the records");
            ("ranges", witness.offsets().filter(|offset| offsets.contains(offset)).count())
        }
        What::Line { offset, content } => {
            assert!(content.is(witness.line(*offset).expect("a record")), "{path}: {content:?}");
            ("records", 1)
        }
        What::Value { offset, value } => {
            assert!(is_value(value.as_ref(), &record(witness, *offset)), "{path}: {value:?}");
            ("records", 1)
        }
        What::Document { offset, document } => {
            let line: Value = serde_json::from_slice(witness.line(*offset).expect("a record")).expect("JSON");
            for member in ["offset", "timestamp", "key", "value", "headers"] {
                assert_eq!(document[member], line[member], "{path}: {member}");
            }
            ("records", 1)
        }
        What::Period { times, content } => {
            let all = keyed.times.iter().filter(|(_, time)| times.contains(time)).map(|(offset, _)| *offset);
            let all: Vec<i64> = all.collect();
            let least = all.partition_point(|offset| offset <= known);
            let fits = (least..=all.len()).find(|count| content.is(&joined(&all[..*count])));
            (
                "periods",
                fits.unwrap_or_else(|| {
                    panic!("{path}: not the records of this time, of which {known} was the last known")
                }),
            )
        }
        What::History { key, offsets, content } => {
            let all = &keyed.keys[key];
            assert!(all.starts_with(offsets), "{path}: {offsets:?} of {all:?}");
            assert!(
                offsets.len() >= all.partition_point(|offset| offset <= known),
                "{path}: lacks records up to {known}"
            );
            assert!(content.is(&joined(offsets)), "{path}: other bytes");
            ("histories of keys", offsets.len())
        }
        What::Latest { key, value } => {
            let all = keyed.keys.get(key).map_or(&[][..], Vec::as_slice);
            let newest = all.partition_point(|offset| offset <= known).saturating_sub(1);
            let is_one = all[newest.min(all.len())..]
                .iter()
                .any(|offset| is_value(value.as_ref(), &record(witness, *offset)));
            let is_none_yet = value.is_none() && all.first().is_none_or(|first| first > known);
            assert!(is_one || is_none_yet, "{path}: {value:?} at {known}");
            ("values of keys", 1)
        }
        What::Count(count) => {
            let least = witness.offsets().filter(|offset| offset <= known).count();
            assert!(
                (least..=witness.len()).contains(count),
                "{path}: {count} of {}, {least} known",
                witness.len()
            );
            ("counts", *count)
        }
        What::Names(count) => ("walks", *count),
    }
}

fn record(witness: &Witness, offset: i64) -> ShownRecord {
    shown::records(witness.line(offset).expect("a record")).remove(0)
}

fn is_value(value: Option<&Content>, record: &ShownRecord) -> bool {
    match (value, &record.value) {
        (None, None) => true,
        // A record without a value is an empty file in `by-offset`.
        (Some(content), None) => content.is(b""),
        (Some(content), Some(value)) => content.is(value),
        (None, Some(_)) => false,
    }
}

/// Panics where records are missing that compaction must keep: the last of each key, and those without a newer one so far.
fn check_compacted(name: &str, offsets: &[i64], known: i64, keyed: &Keyed) {
    assert!(offsets.is_sorted_by(|one, next| one < next), "{name}: not in order");
    let last = offsets.last().copied().unwrap_or(-1);
    assert!(last >= known, "{name}: ends with {last}, when {known} was known");
    for (key, all) in &keyed.keys {
        let newest = all[..all.partition_point(|offset| *offset <= last)].last();
        let is_kept = newest.is_none_or(|newest| offsets.binary_search(newest).is_ok());
        assert!(is_kept, "{name}: lacks {newest:?}, the newest record of {key} up to {last}");
    }
}

/// The offsets of what a program printed that read on in a compacted log until its file was replaced.
///
/// # Errors
/// What is wrong with it.
pub fn compacted(witness: &Witness, printed: &[u8]) -> Result<Vec<i64>, String> {
    let whole = memchr::memrchr(b'\n', printed).map_or(0, |at| at + 1);
    let offsets = offsets_of(&printed[..whole]);
    let expected: Vec<u8> =
        offsets.iter().flat_map(|offset| witness.line(*offset).unwrap_or_default()).copied().collect();
    if expected != printed[..whole] {
        return Err("other bytes than the consumer got".to_owned());
    }
    check_compacted("what it printed", &offsets, -1, &Keyed::new(witness));
    let rest = &printed[whole..];
    let next = witness.offsets().filter(|offset| offsets.last().is_none_or(|last| offset > last));
    if !rest.is_empty()
        && !next.into_iter().any(|offset| witness.line(offset).is_some_and(|line| line.starts_with(rest)))
    {
        return Err("ends with a part of no line".to_owned());
    }
    Ok(offsets)
}
