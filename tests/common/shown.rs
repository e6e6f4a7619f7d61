//! What topicfs shows, read back into plain values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use topicfs::fs::Fs;
use topicfs::fs::options::Options;
pub use topicfs::fs::walk::ReadError;

use super::fixtures::ExpectedRecord;
use super::model::Numbers;

/// A record as a line of `.jsonl` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownRecord {
    pub offset: i64,
    /// -1 for none.
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl From<&ExpectedRecord> for ShownRecord {
    fn from(expected: &ExpectedRecord) -> Self {
        let ExpectedRecord { offset, timestamp, key, value, headers, .. } = expected.clone();
        Self { offset, timestamp, key, value, headers }
    }
}

/// Reads the lines of a `.jsonl`, each of which must be one JSON object.
pub fn records(jsonl: &[u8]) -> Vec<ShownRecord> {
    let text = std::str::from_utf8(jsonl).expect("jsonl is UTF-8");
    text.lines().map(|line| record(&serde_json::from_str(line).expect("a line is JSON"))).collect()
}

fn record(line: &Value) -> ShownRecord {
    ShownRecord {
        offset: line["offset"].as_i64().expect("an offset"),
        timestamp: line["timestamp"].as_i64().unwrap_or(-1),
        key: bytes(&line["key"]),
        value: bytes(&line["value"]),
        headers: line["headers"]
            .as_array()
            .expect("headers")
            .iter()
            .map(|pair| (bytes(&pair[0]).expect("a name"), bytes(&pair[1])))
            .collect(),
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

/// A source without a cache.
pub fn open(source: &str, options: Options) -> Fs {
    Fs::open(source, options, String::new()).unwrap_or_else(|error| panic!("{source}: {error}"))
}

/// A whole file.
pub fn read(fs: &Fs, path: &str) -> Vec<u8> {
    try_read(fs, path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A whole file, or why it can't be read.
pub fn try_read(fs: &Fs, path: &str) -> Result<Vec<u8>, ReadError> {
    let mut out = Vec::new();
    let node = fs.resolve(path)?;
    fs.read_whole(&node, |piece| {
        out.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(out)
}

/// Reads anywhere of a file whose content is `whole` are slices of it.
pub fn check_slices(fs: &Fs, path: &str, whole: &[u8], numbers: &mut Numbers, rounds: usize) {
    let content = fs.content(0, &fs.resolve(path).expect("a path")).expect("a content");
    for _ in 0..rounds {
        let at = numbers.below(whole.len() + 9);
        let len = [1, 10, 4096, 131_072, whole.len()][numbers.below(5)];
        let mut read = Vec::new();
        fs.read_content(&content, at as u64, len, &mut read).expect("it can be read");
        let expected = &whole[at.min(whole.len())..at.saturating_add(len).min(whole.len())];
        assert!(read == expected, "{path} at {at}, {len}: {} of {}", read.len(), expected.len());
    }
}

/// The offsets that a directory of records lists, those of its parts where there are many.
pub fn listed_offsets(fs: &Fs, path: &str) -> Vec<i64> {
    let mut offsets = Vec::new();
    for name in names(fs, path) {
        let child = format!("{path}/{name}");
        if name.contains("..") {
            offsets.extend(listed_offsets(fs, &child));
        } else {
            assert_eq!(name.len(), 20, "{child}");
            fs.resolve(&child).unwrap_or_else(|error| panic!("{child}: {error}"));
            offsets.push(name.parse().expect("an offset"));
        }
    }
    offsets
}

/// The names in a directory.
pub fn names(fs: &Fs, path: &str) -> Vec<String> {
    let node = fs.resolve(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let entries = fs.list_sorted(&node).unwrap_or_else(|error| panic!("{path}: {error}"));
    entries.into_iter().map(|entry| entry.name.into_string().expect("UTF-8")).collect()
}

/// The partitions in a topic's directory.
pub fn labels(fs: &Fs, topic: &str) -> Vec<String> {
    let mut labels = names(fs, topic);
    labels.retain(|name| name.starts_with(|first: char| first.is_ascii_digit()));
    labels
}
