//! The text checkpoints: offsets by partition at the top of a data directory, leader epochs in each partition.
//!
//! A line with the version (0), a line with the count, then that many lines: topic, partition and offset, or epoch and
//! start offset (KIP-101), between blanks. An empty file has no entries.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::units::{LeaderEpoch, Offset, TopicPartition};

/// One epoch and the offset at which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The first offset that was written in it.
    pub start_offset: Offset,
}

/// Why a checkpoint can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct CheckpointError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub fault: CheckpointFault,
}

/// What is wrong with a line of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointFault {
    /// Bytes that are not UTF-8.
    #[error("it is not text")]
    NotText,
    /// A version that doesn't exist.
    #[error("version is {got}, only 0 is known")]
    Version {
        /// As stored.
        got: String,
    },
    /// The second line isn't a count.
    #[error("count is {got:?}, which is no number")]
    Count {
        /// As stored.
        got: String,
    },
    /// Another number of entries than the second line says.
    #[error("it says {expected} entries, found {got}")]
    Entries {
        /// As the second line says.
        expected: usize,
        /// As found.
        got: usize,
    },
    /// A line with more or fewer fields.
    #[error("it has {got} fields, an entry has {expected}")]
    Fields {
        /// What an entry has.
        expected: usize,
        /// What is there.
        got: usize,
    },
    /// A field that is no number, or too large.
    #[error("{got:?} is not a number that fits")]
    Number {
        /// As stored.
        got: String,
    },
}

/// Reads an offset checkpoint, as `replication-offset-checkpoint`; of lines for one partition the last counts.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse_offsets(bytes: &[u8]) -> Result<BTreeMap<TopicPartition, Offset>, CheckpointError> {
    let entries = parse(bytes, |[topic, partition, offset]| {
        let key = TopicPartition { topic: topic.to_owned(), partition: number(partition)? };
        Ok((key, Offset(number(offset)?)))
    })?;
    Ok(entries.into_iter().collect())
}

/// Reads a `leader-epoch-checkpoint`, in the order of its lines.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse_epochs(bytes: &[u8]) -> Result<Vec<EpochEntry>, CheckpointError> {
    parse(bytes, |[epoch, start]| {
        Ok(EpochEntry { epoch: LeaderEpoch(number(epoch)?), start_offset: Offset(number(start)?) })
    })
}

/// The text of an offset checkpoint.
pub fn format_offsets(offsets: &BTreeMap<TopicPartition, Offset>) -> String {
    let lines = offsets.iter().map(|(key, offset)| format!("{} {} {offset}\n", key.topic, key.partition));
    format!("0\n{}\n{}", offsets.len(), lines.collect::<String>())
}

/// The text of a leader epoch checkpoint.
pub fn format_epochs(epochs: &[EpochEntry]) -> String {
    let lines = epochs.iter().map(|entry| format!("{} {}\n", entry.epoch.0, entry.start_offset));
    format!("0\n{}\n{}", epochs.len(), lines.collect::<String>())
}

/// Reads the two lines at the start and `N` fields from each of the others.
fn parse<T, const N: usize>(
    bytes: &[u8],
    entry: impl Fn([&str; N]) -> Result<T, CheckpointFault>,
) -> Result<Vec<T>, CheckpointError> {
    let at = |line, fault| CheckpointError { line, fault };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let newlines = before.iter().filter(|&&byte| byte == b'\n').count();
        at(newlines.saturating_add(1), CheckpointFault::NotText)
    })?;
    let mut lines = (1..).zip(text.lines());
    let Some((_, version)) = lines.next() else {
        return Ok(Vec::new());
    };
    if number(version) != Ok(0) {
        return Err(at(1, CheckpointFault::Version { got: version.to_owned() }));
    }
    let Some((_, count)) = lines.next() else {
        return Ok(Vec::new());
    };
    let expected = number(count).map_err(|_| at(2, CheckpointFault::Count { got: count.to_owned() }))?;
    let entries: Vec<T> = lines
        .map(|(line, text)| fields(text).and_then(&entry).map_err(|fault| at(line, fault)))
        .collect::<Result<_, _>>()?;
    match entries.len() {
        got if got == expected => Ok(entries),
        got => Err(at(2, CheckpointFault::Entries { expected, got })),
    }
}

fn fields<const N: usize>(line: &str) -> Result<[&str; N], CheckpointFault> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let got = fields.len();
    fields.try_into().map_err(|_| CheckpointFault::Fields { expected: N, got })
}

fn number<T: FromStr>(text: &str) -> Result<T, CheckpointFault> {
    text.trim().parse().map_err(|_| CheckpointFault::Number { got: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &[u8]) -> (usize, CheckpointFault) {
        let error = parse_epochs(text).unwrap_err();
        (error.line, error.fault)
    }

    #[test]
    fn offsets_come_back() {
        let text = "0\n2\na-b 0 7\nc.d 11 9223372036854775807\n";
        let offsets = parse_offsets(text.as_bytes()).unwrap();
        assert_eq!(offsets[&TopicPartition { topic: "a-b".to_owned(), partition: 0 }], Offset(7));
        assert_eq!(format_offsets(&offsets), text);
    }

    #[test]
    fn epochs_come_back() {
        let text = "0\n2\n0 0\n4 17\n";
        let epochs = parse_epochs(text.as_bytes()).unwrap();
        assert_eq!(epochs[1], EpochEntry { epoch: LeaderEpoch(4), start_offset: Offset(17) });
        assert_eq!(format_epochs(&epochs), text);
        assert_eq!(parse_epochs(b"0\r\n1\r\n5  6\r\n").unwrap().len(), 1);
    }

    #[test]
    fn empty_files_are_empty() {
        for text in ["", "0", "0\n", "0\n0\n"] {
            assert_eq!(parse_epochs(text.as_bytes()), Ok(vec![]), "{text:?}");
        }
    }

    #[test]
    fn faults_name_their_line() {
        assert_eq!(fault(b"9\n0\n"), (1, CheckpointFault::Version { got: "9".to_owned() }));
        assert_eq!(fault(b"0\nx\n"), (2, CheckpointFault::Count { got: "x".to_owned() }));
        assert_eq!(fault(b"0\n-1\n"), (2, CheckpointFault::Count { got: "-1".to_owned() }));
        assert_eq!(fault(b"0\n3\n0 0\n"), (2, CheckpointFault::Entries { expected: 3, got: 1 }));
        assert_eq!(fault(b"0\n1\n0 0\n1 5\n"), (2, CheckpointFault::Entries { expected: 1, got: 2 }));
        assert_eq!(fault(b"0\n1\n0 0 0\n"), (3, CheckpointFault::Fields { expected: 2, got: 3 }));
        assert_eq!(fault(b"0\n1\n\n"), (3, CheckpointFault::Fields { expected: 2, got: 0 }));
        assert_eq!(fault(b"0\n1\n0 q\n"), (3, CheckpointFault::Number { got: "q".to_owned() }));
        assert_eq!(fault(b"0\n1\n\xff\n"), (3, CheckpointFault::NotText));
        let error = parse_epochs(b"0\n1\n0 q\n").unwrap_err();
        assert_eq!(error.to_string(), "line 3: \"q\" is not a number that fits");
    }
}
