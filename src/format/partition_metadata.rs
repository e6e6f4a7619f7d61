//! `partition.metadata`: the id of a partition's topic (KIP-516), in two lines, `version: 0` and `topic_id: <uuid>`.
//!
//! Partitions of brokers before 2.8 have none, and those of 2.8 need not have one yet.

use crate::format::uuid::Uuid;

/// Why a `partition.metadata` can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PartitionMetadataError {
    /// Nothing in it.
    #[error("it is empty")]
    Empty,
    /// Bytes that are not UTF-8.
    #[error("it is not text")]
    NotText,
    /// A line that doesn't begin with the name that belongs there.
    #[error("line {line}: {got:?} doesn't begin with \"{expected}: \"")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The name.
        expected: &'static str,
        /// The line's text.
        got: String,
    },
    /// A version below 0, or no number.
    #[error("line 1: version is {got:?}, versions count from 0")]
    Version {
        /// As stored.
        got: String,
    },
    /// A topic id that is none.
    #[error("line 2: topic id is {got:?}, which is not the base64 of 16 bytes")]
    TopicId {
        /// As stored.
        got: String,
    },
    /// The id that means that there is none.
    #[error("line 2: topic id is zero")]
    ZeroTopicId,
}

/// Reads the topic id.
///
/// # Errors
/// The line and what is wrong with it.
pub fn parse(bytes: &[u8]) -> Result<Uuid, PartitionMetadataError> {
    if bytes.is_empty() {
        return Err(PartitionMetadataError::Empty);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| PartitionMetadataError::NotText)?;
    let mut lines = text.lines();
    let version = value(1, "version", lines.next())?;
    // Later versions keep these lines, so that an older broker can be put back.
    if !version.parse::<i32>().is_ok_and(|version| version >= 0) {
        return Err(PartitionMetadataError::Version { got: version.to_owned() });
    }
    let id = value(2, "topic_id", lines.next())?;
    match id.parse() {
        Ok(Uuid::ZERO) => Err(PartitionMetadataError::ZeroTopicId),
        Ok(id) => Ok(id),
        Err(_) => Err(PartitionMetadataError::TopicId { got: id.to_owned() }),
    }
}

/// The file's text, which has no newline at its end.
pub fn format(topic_id: Uuid) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

fn value<'a>(
    line: usize,
    expected: &'static str,
    text: Option<&'a str>,
) -> Result<&'a str, PartitionMetadataError> {
    let text = text.unwrap_or_default();
    text.strip_prefix(expected)
        .and_then(|rest| rest.strip_prefix(':'))
        .filter(|rest| rest.starts_with(char::is_whitespace))
        .map(str::trim)
        .ok_or_else(|| PartitionMetadataError::Line { line, expected, got: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        let text = "version: 0\ntopic_id: k6DiXPXGQLmYwMCNt-_cyg";
        assert_eq!(format(parse(text.as_bytes()).unwrap()), text);
        assert!(parse(format!("{text}\n").as_bytes()).is_ok());
        assert!(parse(b"version: 5\r\ntopic_id:  k6DiXPXGQLmYwMCNt-_cyg\r\n").is_ok());
    }

    #[test]
    fn faults_name_their_line() {
        let fault = |text: &str| parse(text.as_bytes()).unwrap_err();
        let got = String::new;
        assert_eq!(fault(""), PartitionMetadataError::Empty);
        let expected = "topic_id";
        assert_eq!(fault("version: 0"), PartitionMetadataError::Line { line: 2, expected, got: got() });
        let got = "version:0".to_owned();
        let expected = "version";
        assert_eq!(fault("version:0\n"), PartitionMetadataError::Line { line: 1, expected, got });
        assert_eq!(fault("version: -1\n"), PartitionMetadataError::Version { got: "-1".to_owned() });
        let zero = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(fault(zero), PartitionMetadataError::ZeroTopicId);
        assert_eq!(fault("version: 0\ntopic_id: ?"), PartitionMetadataError::TopicId { got: "?".to_owned() });
        assert_eq!(parse(&[0xff]), Err(PartitionMetadataError::NotText));
    }
}
