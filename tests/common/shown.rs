//! What topicfs shows, read back into plain values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use topicfs::fs::Fs;
use topicfs::fs::options::Options;
pub use topicfs::fs::walk::ReadError;

use super::fixtures::ExpectedRecord;

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
