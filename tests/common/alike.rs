//! Whether two partition directories hold the same, where what is compressed may be so in other bytes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kafka_protocol::records::RecordBatchDecoder;
use topicfs::format::snapshot;

use super::keyed::modified;
use super::salvaged::{batches, files};

/// What a broker could tell two directories apart by, a line each: the files' names, the batches of logs, indexes (where the logs
/// are the same byte for byte), the producers of snapshots, leader epochs, and when logs were written.
pub fn differences(ours: &Path, theirs: &Path) -> Vec<String> {
    let (mine, kafkas) = (files(ours), files(theirs));
    let names: BTreeSet<&String> = mine.keys().chain(kafkas.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (Some(a), Some(b)) = (mine.get(name), kafkas.get(name)) else {
            let (path, whose) =
                mine.get(name).map_or_else(|| (&kafkas[name], "Kafka's"), |path| (path, "ours"));
            // An empty transaction index is none.
            if !name.ends_with(".txnindex") || fs::metadata(path).expect("a file").len() > 0 {
                found.push(format!("{name}: only {whose}"));
            }
            continue;
        };
        let is_same_log = || {
            let log = format!("{}.log", name.split('.').next().unwrap_or_default());
            match (mine.get(&log), kafkas.get(&log)) {
                (Some(a), Some(b)) => fs::read(a).expect("a log") == fs::read(b).expect("a log"),
                _ => false,
            }
        };
        let (one, other) = (fs::read(a).expect("a file"), fs::read(b).expect("a file"));
        if name.ends_with(".log") {
            found.extend(logs(&one, &other).into_iter().map(|line| format!("{name}: {line}")));
            if modified(a) != modified(b) {
                found.push(format!("{name}: written at {}, Kafka's at {}", modified(a), modified(b)));
            }
        } else if name.ends_with(".snapshot") {
            if producers(&one) != producers(&other) {
                found.push(format!("{name}: {:?}, Kafka's {:?}", producers(&one), producers(&other)));
            }
        } else if one != other && (!name.ends_with("index") || name.ends_with(".txnindex") || is_same_log()) {
            found.push(format!("{name}: {one:?}, Kafka's {other:?}"));
        }
    }
    found
}

fn logs(ours: &[u8], theirs: &[u8]) -> Vec<String> {
    let (ours, theirs) = (batches(ours), batches(theirs));
    let mut found = Vec::new();
    if ours.len() != theirs.len() {
        found.push(format!("{} batches, Kafka's {}", ours.len(), theirs.len()));
    }
    let pairs = ours.iter().zip(&theirs).filter(|(one, other)| one != other);
    found.extend(
        pairs
            .filter(|(one, other)| !is_same(one, other))
            .map(|(one, other)| format!("a batch is\n    {}, Kafka's\n    {}", shown(one), shown(other))),
    );
    found
}

/// Whether all but size, checksum and compressed bytes is the same.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let is_compressed = |batch: &[u8]| batch[16] == 2 && batch[22] & 7 > 0;
    is_compressed(one)
        && is_compressed(other)
        && (one[..8] == other[..8] && one[12..17] == other[12..17] && one[21..61] == other[21..61])
        && decoded(one) == decoded(other)
}

fn decoded(batch: &[u8]) -> Vec<String> {
    if i32::from_be_bytes(batch[57..61].try_into().expect("4 bytes")) == 0 {
        return Vec::new();
    }
    match RecordBatchDecoder::decode(&mut &batch[..]) {
        Ok(set) => set.records.iter().map(|record| format!("{record:?}")).collect(),
        Err(error) => vec![format!("{error}: {batch:?}")],
    }
}

/// A batch as one line: its header, then its records.
pub fn shown(batch: &[u8]) -> String {
    let long = |at: usize| i64::from_be_bytes(batch[at..at + 8].try_into().expect("8 bytes"));
    let int = |at: usize| i32::from_be_bytes(batch[at..at + 4].try_into().expect("4 bytes"));
    if batch[16] < 2 {
        return format!("magic {} at {}, {} bytes", batch[16], long(0), batch.len());
    }
    format!(
        "{}+{} of {} bytes, leader epoch {}, attributes {:#04x}, base time {}, largest {}, producer {}, epoch {}, sequence {}, {} \
         records {:?}",
        long(0),
        int(23),
        batch.len(),
        int(12),
        batch[22],
        long(27),
        long(35),
        long(43),
        i16::from_be_bytes([batch[51], batch[52]]),
        int(53),
        int(57),
        decoded(batch)
    )
}

fn producers(bytes: &[u8]) -> Option<Vec<String>> {
    let mut shown: Vec<_> = snapshot::parse(bytes).ok()?.iter().map(|entry| format!("{entry:?}")).collect();
    shown.sort();
    Some(shown)
}
