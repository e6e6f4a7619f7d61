//! The files of whole partitions: `log`, `tail`, `by-segment/`, `info`, `problems`, `segments/`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use topicfs::fs::{Fs, FsError};
use topicfs::view::selection::Effort;

use super::{Sound, TAIL};
use crate::archive::Archive;
use crate::damage::Numbers;
use crate::oracle::{self, Plain};

/// What a partition shows.
#[derive(Debug)]
pub struct Shown {
    pub records: Vec<Plain>,
    /// The lines of `.jsonl`, one for each record, with their newlines.
    pub lines: Vec<Vec<u8>>,
}

impl Shown {
    /// The lines of records for which `holds`.
    pub fn lines_where(&self, holds: impl Fn(i64) -> bool) -> Vec<u8> {
        let both = self.records.iter().zip(&self.lines).filter(|(record, _)| holds(record.offset));
        both.flat_map(|(_, line)| line.iter().copied()).collect()
    }
}

/// A whole file; its size and reads from random places must agree with it.
pub fn read(fs: &Fs, path: &str) -> Vec<u8> {
    let node = fs.resolve(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut out = Vec::new();
    let done = fs.read_whole(&node, |piece| {
        out.extend_from_slice(piece);
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{path}: {error}"));
    let size = fs.attributes(0, &node, Effort::All).unwrap_or_else(|error| panic!("{path}: {error}")).size;
    assert_eq!(size, out.len() as u64, "{path}: its size is not that of its bytes");
    out
}

/// The names in a directory.
pub fn names(fs: &Fs, path: &str) -> Vec<String> {
    let node = fs.resolve(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let entries = fs.list_sorted(&node).unwrap_or_else(|error| panic!("{path}: {error}"));
    entries.into_iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
}

/// Checks the files with all records; `fresh` has measured nothing yet.
pub fn check(fs: &Fs, fresh: &Fs, view: &str, sound: &Sound, numbers: &mut Numbers) -> Shown {
    let jsonl = read(fs, &format!("{view}/log.jsonl"));
    let lines: Vec<Vec<u8>> = jsonl.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let shown = Shown { records: lines.iter().map(|line| record(line)).collect(), lines };
    assert!(shown.records.is_sorted_by(|a, b| a.offset < b.offset), "{view}: offsets don't ascend");
    for record in &shown.records {
        assert!(sound.records.contains(record), "{view}: in no sound batch: {record:?}");
    }
    let whole = ["txt", "jsonl", "tsv", "log"].map(|format| {
        let path = format!("{view}/log.{format}");
        (format, if format == "jsonl" { jsonl.clone() } else { read(fs, &path) })
    });
    assert!(whole[0].1 == text(&shown.records), "{view}/log.txt");
    assert!(whole[2].1 == tsv(&shown.records), "{view}/log.tsv");
    check_batches(&whole[3].1, &shown, sound);
    for (format, bytes) in &whole {
        check_seeks(fresh, &format!("{view}/log.{format}"), bytes, numbers);
        let names = names(fs, &format!("{view}/by-segment"));
        let of_format = names.iter().filter(|name| match *format {
            "txt" => !name.contains('.'),
            _ => name.ends_with(&format!(".{format}")),
        });
        let joined: Vec<u8> =
            of_format.flat_map(|name| read(fs, &format!("{view}/by-segment/{name}"))).collect();
        assert!(joined == *bytes, "{view}: by-segment, joined, is not log.{format}");
    }
    let tail = shown.lines[shown.lines.len().saturating_sub(TAIL)..].concat();
    let told = read(fs, &format!("{view}/tail.jsonl"));
    assert!(told == tail, "{view}/tail.jsonl is\n{}", String::from_utf8_lossy(&told));
    check_info(fs, view, &shown);
    shown
}

/// Reads at random places, before anything is measured, are slices of the whole.
fn check_seeks(fs: &Fs, path: &str, whole: &[u8], numbers: &mut Numbers) {
    let content = fs.resolve(path).and_then(|node| fs.content(0, &node));
    let content = content.unwrap_or_else(|error| panic!("{path}: {error}"));
    for _ in 0..4 {
        let (at, len) = (numbers.below(whole.len() + 2), 1 + numbers.below(whole.len() + 1));
        let mut piece = Vec::new();
        let read = fs.read_content(&content, at as u64, len, &mut piece);
        read.unwrap_or_else(|error| panic!("{path} at {at}: {error}"));
        let expected = whole.get(at..(at + len).min(whole.len())).unwrap_or_default();
        assert!(piece == expected, "{path}: {len} bytes at {at} are not those of the whole");
    }
}

/// A `.log` is whole batches of the source, in order, that hold all records that are shown.
fn check_batches(log: &[u8], shown: &Shown, sound: &Sound) {
    let mut rest = log;
    let mut last = -1;
    while !rest.is_empty() {
        let entry = oracle::sound_entry(rest).expect("log.log is whole batches");
        assert!(sound.entries.contains(entry), "a batch that is not in the source");
        let first = oracle::number(&entry[..8]);
        assert!(first > last, "log.log: {first} behind {last}");
        last = if entry[16] == 2 { first + oracle::number(&entry[23..27]) } else { first };
        rest = &rest[entry.len()..];
    }
    let end = shown.records.last().map_or(-1, |record| record.offset);
    assert!(end <= last, "log.log ends at {last}, the records at {end}");
}

fn check_info(fs: &Fs, view: &str, shown: &Shown) {
    assert!(read(fs, &format!("{view}/info")).is_ascii());
    let info: Value = serde_json::from_slice(&read(fs, &format!("{view}/info.json"))).expect("info is JSON");
    let number = |name: &str| info[name].as_i64().unwrap_or_else(|| panic!("{name} in {info}"));
    assert_eq!(number("records"), shown.records.len() as i64, "{view}: count of records");
    if let (Some(first), Some(last)) = (shown.records.first(), shown.records.last()) {
        assert!(first.offset >= number("log_start_offset") && last.offset < number("log_end_offset"));
        let times = || shown.records.iter().map(|record| record.timestamp);
        let (low, high) = (info["min_timestamp"].as_i64(), info["max_timestamp"].as_i64());
        let (min, max) = (times().filter(|t| *t != -1).min(), times().filter(|t| *t != -1).max());
        // Blocks are counted whole: they may hold records that are not shown.
        assert!(min.is_none_or(|min| low.is_some_and(|low| low <= min)), "{min:?} in {info}");
        assert!(max.is_none_or(|max| high.is_some_and(|high| high >= max)), "{max:?} in {info}");
    }
}

/// `segments/` has the source's files, byte for byte.
pub fn check_files(fs: &Fs, archive: &Archive) {
    let mut expected: Vec<_> = archive.partition().collect();
    expected.sort_unstable();
    let names = names(fs, "t/0/segments");
    assert!(names.iter().eq(expected.iter().map(|(name, _)| name)), "{names:?}");
    for (name, bytes) in expected {
        assert!(read(fs, &format!("t/0/segments/{name}")) == bytes, "segments/{name}");
    }
    for path in ["README.txt", ".topicfs/problems", ".topicfs/config.yaml", ".topicfs/version"] {
        read(fs, path);
    }
}

/// What `problems` says lies within the files that it names.
pub fn check_problems(fs: &Fs, archive: &Archive) {
    let text = String::from_utf8(read(fs, "t/0/problems")).expect("problems is text");
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[name, position, length, offset, kind, cause] = &fields[..] else { panic!("{line}") };
        let number = |field: &str, name: &str| -> u64 {
            let number = field.strip_prefix(name).and_then(|number| number.trim().parse().ok());
            number.unwrap_or_else(|| panic!("{line}"))
        };
        let file = archive.partition().find(|(known, _)| *known == name).expect("problems names a file").1;
        let end = number(position, "position") + number(length, "length");
        assert!(end <= file.len() as u64, "beyond the end of {name}: {line}");
        assert!(!kind.is_empty() && !cause.is_empty() && offset.starts_with("offset "), "{line}");
    }
}

/// With `on_damage: error`, a file is the same up to the damage.
pub fn check_strict(fs: &Fs, shown: &Shown) {
    let whole = shown.lines.concat();
    let content =
        fs.resolve("t/0/log.jsonl").and_then(|node| fs.content(0, &node)).expect("it can be opened");
    let mut read = Vec::new();
    loop {
        let mut piece = Vec::new();
        match fs.read_content(&content, read.len() as u64, 512, &mut piece) {
            Ok(()) if piece.is_empty() => break assert!(read == whole, "strict: not the whole log"),
            Ok(()) => read.extend(piece),
            Err(FsError::View(error)) => {
                assert!(error.to_string().contains("on_damage"), "{error}");
                break;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(whole.starts_with(&read), "strict: not the beginning of the log");
    }
}

fn record(line: &[u8]) -> Plain {
    let line: Value = serde_json::from_slice(line).expect("a line is JSON");
    let headers = line["headers"].as_array().expect("headers");
    Plain {
        offset: line["offset"].as_i64().expect("an offset"),
        timestamp: line["timestamp"].as_i64().unwrap_or(-1),
        key: bytes(&line["key"]),
        value: bytes(&line["value"]),
        headers: headers.iter().map(|pair| (bytes(&pair[0]).expect("a name"), bytes(&pair[1]))).collect(),
    }
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Object(object) => {
            Some(BASE64.decode(object["base64"].as_str().expect("base64")).expect("base64"))
        }
        other => panic!("neither text, base64 nor null: {other}"),
    }
}

/// `.txt`, naively.
fn text(records: &[Plain]) -> Vec<u8> {
    records.iter().flat_map(|record| [record.value.as_deref().unwrap_or_default(), b"\n"].concat()).collect()
}

/// `.tsv`, naively.
fn tsv(records: &[Plain]) -> Vec<u8> {
    let field = |bytes: &Option<Vec<u8>>| match bytes {
        None => b"\\N".to_vec(),
        Some(bytes) => bytes
            .iter()
            .flat_map(|byte| match byte {
                b'\t' => b"\\t".to_vec(),
                b'\n' => b"\\n".to_vec(),
                b'\r' => b"\\r".to_vec(),
                b'\\' => b"\\\\".to_vec(),
                other => vec![*other],
            })
            .collect(),
    };
    let mut out = Vec::new();
    for record in records {
        let time = if record.timestamp == -1 { "\\N".to_owned() } else { record.timestamp.to_string() };
        out.extend(format!("{}\t{time}\t", record.offset).bytes());
        out.extend(field(&record.key));
        out.push(b'\t');
        out.extend(field(&record.value));
        out.push(b'\n');
    }
    out
}
