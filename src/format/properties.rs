//! Java's `.properties`: `meta.properties` of a data directory, `server.properties` of a broker.
//!
//! ISO-8859-1 with `\uXXXX`; comments start with `#` or `!`; a key ends at the first `=`, `:` or blank without a backslash
//! before it; a line that ends in a backslash goes on with the next one, whose leading blanks don't count.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::format::uuid::Uuid;

/// Keys and values; of equal keys the last counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties {
    /// By key: the line, counted from 1, and the value.
    entries: BTreeMap<String, (usize, String)>,
}

/// Why a properties file can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PropertiesError {
    /// `\u` without four hexadecimal digits.
    #[error("line {line}: \\u is not followed by four hexadecimal digits")]
    Escape {
        /// The line, counted from 1.
        line: usize,
    },
    /// A key that must be there.
    #[error("there is no {key}")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A value that is no number.
    #[error("line {line}: {key} is {got:?}, which is not a number that fits")]
    Number {
        /// The line, counted from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// As stored.
        got: String,
    },
    /// A version of `meta.properties` that doesn't exist.
    #[error("line {line}: version is {got}, known are 0 and 1")]
    Version {
        /// The line, counted from 1.
        line: usize,
        /// As stored.
        got: i32,
    },
    /// A value that is no UUID.
    #[error("line {line}: {key} is {got:?}, which is not the base64 of 16 bytes")]
    Uuid {
        /// The line, counted from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// As stored.
        got: String,
    },
}

impl Properties {
    /// Reads a file as Java does.
    ///
    /// # Errors
    /// A damaged `\u` and its line; nothing else is an error.
    pub fn parse(bytes: &[u8]) -> Result<Self, PropertiesError> {
        let mut entries = BTreeMap::new();
        for (line, text) in logical_lines(bytes) {
            let (key, value) = split(&text);
            let unescape = |text| unescape(text).ok_or(PropertiesError::Escape { line });
            entries.insert(unescape(key)?, (line, unescape(value)?));
        }
        Ok(Self { entries })
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.get(key).map(|(_, value)| value.as_str())
    }

    /// Keys and values in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(key, (_, value))| (key.as_str(), value.as_str()))
    }

    fn number<T: FromStr>(&self, key: &'static str) -> Result<Option<T>, PropertiesError> {
        let Some((line, text)) = self.entries.get(key) else {
            return Ok(None);
        };
        let fail = |_| PropertiesError::Number { line: *line, key, got: text.clone() };
        text.trim().parse().map(Some).map_err(fail)
    }
}

/// What `meta.properties` says; version 0 by ZooKeeper's brokers, version 1 by KRaft's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaProperties {
    /// 0 or 1; 0 when the file doesn't say.
    pub version: i32,
    /// The cluster, unknown before 0.10.1.
    pub cluster_id: Option<String>,
    /// `node.id`, or `broker.id` in version 0.
    pub node_id: Option<i32>,
    /// This data directory (KIP-858).
    pub directory_id: Option<Uuid>,
}

impl MetaProperties {
    /// Reads the file's bytes.
    ///
    /// # Errors
    /// The line, and what a broker would refuse it for.
    pub fn parse(bytes: &[u8]) -> Result<Self, PropertiesError> {
        let properties = Properties::parse(bytes)?;
        let version = properties.number("version")?.unwrap_or(0);
        let cluster_id = properties.get("cluster.id").map(str::to_owned);
        let node_id = match version {
            0 => properties.number("broker.id")?,
            1 if cluster_id.is_none() => return Err(PropertiesError::Missing { key: "cluster.id" }),
            1 => {
                let id = properties.number("node.id")?.ok_or(PropertiesError::Missing { key: "node.id" })?;
                Some(id)
            }
            got => {
                let line = properties.entries.get("version").map_or(0, |(line, _)| *line);
                return Err(PropertiesError::Version { line, got });
            }
        };
        let key = "directory.id";
        let directory_id = properties.entries.get(key).map(|(line, text)| {
            let fail = |_| PropertiesError::Uuid { line: *line, key, got: text.clone() };
            text.parse().map_err(fail)
        });
        Ok(Self { version, cluster_id, node_id, directory_id: directory_id.transpose()? })
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | 0x0c)
}

fn trim_start(line: &[u8]) -> &[u8] {
    let blanks = line.iter().take_while(|&&byte| is_blank(byte)).count();
    line.get(blanks..).unwrap_or_default()
}

/// Lines with something in them, joined where they go on, each with the number of its first line.
fn logical_lines(bytes: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut lines = Vec::new();
    let mut natural = (1..).zip(natural_lines(bytes));
    while let Some((number, line)) = natural.next() {
        let line = trim_start(line);
        if matches!(line.first(), None | Some(b'#' | b'!')) {
            continue;
        }
        let mut joined = line.to_vec();
        while goes_on(&joined) {
            joined.pop();
            let Some((_, next)) = natural.next() else {
                break;
            };
            joined.extend_from_slice(trim_start(next));
        }
        lines.push((number, joined));
    }
    lines
}

/// Lines that end with `\n`, `\r` or both.
fn natural_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest?;
        let end = memchr::memchr2(b'\n', b'\r', bytes);
        let (line, after) = bytes.split_at_checked(end.unwrap_or(bytes.len()))?;
        rest = end.map(|_| after.strip_prefix(b"\r\n").or(after.get(1..)).unwrap_or_default());
        Some(line)
    })
}

/// Whether the last backslash of a line has no other before it that takes its meaning away.
fn goes_on(line: &[u8]) -> bool {
    let backslashes = line.iter().rev().take_while(|&&byte| byte == b'\\').count();
    backslashes % 2 == 1
}

/// Splits a line into key and value, both still with their escapes.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let mut is_escaped = false;
    let end = line.iter().position(|&byte| {
        let ends = !is_escaped && (is_blank(byte) || matches!(byte, b'=' | b':'));
        is_escaped = !is_escaped && byte == b'\\';
        ends
    });
    let (key, rest) = line.split_at_checked(end.unwrap_or(line.len())).unwrap_or((line, &[]));
    let rest = trim_start(rest);
    match rest.split_first() {
        Some((b'=' | b':', value)) => (key, trim_start(value)),
        _ => (key, rest),
    }
}

/// Takes the escapes out; `None` for a damaged `\u`.
fn unescape(text: &[u8]) -> Option<String> {
    let mut units = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        let unit = match byte {
            b'\\' => match rest.next()? {
                b't' => u16::from(b'\t'),
                b'n' => u16::from(b'\n'),
                b'r' => u16::from(b'\r'),
                b'f' => 0x0c,
                b'u' => hex_unit(&mut rest)?,
                other => u16::from(other),
            },
            other => u16::from(other),
        };
        units.push(unit);
    }
    Some(String::from_utf16_lossy(&units))
}

/// Four hexadecimal digits: one unit of UTF-16.
fn hex_unit(digits: &mut impl Iterator<Item = u8>) -> Option<u16> {
    (0..4).try_fold(0_u16, |unit, _| {
        let digit = char::from(digits.next()?).to_digit(16)?;
        Some(unit.wrapping_shl(4) | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[u8]) -> Vec<(String, String)> {
        let properties = Properties::parse(text).unwrap();
        properties.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn separators_comments_and_continued_lines() {
        for (text, key, value) in [
            ("a=b", "a", "b"),
            ("  a : b ", "a", "b "),
            ("a b", "a", "b"),
            ("a\t\x0c= = b", "a", "= b"),
            ("a", "a", ""),
            ("#x\n! y\\\n\n\r\na=b", "a", "b"),
            ("a=b\\\n   c\\\r\n#d", "a", "bc#d"),
            ("a=b\\\\\n", "a", "b\\"),
            ("a\\=\\:\\ =b", "a=: ", "b"),
            ("a=b\\", "a", "b"),
            ("=b", "", "b"),
            ("a=1\na=2", "a", "2"),
            ("a=\\t\\n\\r\\f\\q", "a", "\t\n\r\u{c}q"),
            ("a=\\u00e9\\ud83d\\ude00", "a", "é😀"),
        ] {
            assert_eq!(pairs(text.as_bytes()), [(key.to_owned(), value.to_owned())], "{text:?}");
        }
        assert_eq!(pairs(b"a=\xe9"), [("a".to_owned(), "é".to_owned())]);
        assert_eq!(pairs(b""), []);
    }

    #[test]
    fn damaged_escapes_name_their_line() {
        let error = Properties::parse(b"#\na=\\u00g0").unwrap_err();
        assert_eq!(error, PropertiesError::Escape { line: 2 });
        assert_eq!(Properties::parse(b"a=\\u00").unwrap_err(), PropertiesError::Escape { line: 1 });
    }

    #[test]
    fn meta_properties_of_both_versions() {
        let text = b"#\n#Sun Nov 29 00:00:00 UTC 2026\nbroker.id=3\nversion=0\ncluster.id=abc\n";
        let expected = MetaProperties {
            version: 0,
            cluster_id: Some("abc".to_owned()),
            node_id: Some(3),
            directory_id: None,
        };
        assert_eq!(MetaProperties::parse(text), Ok(expected));
        let text = b"version=1\nnode.id=1\ncluster.id=abc\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAg\n";
        let meta = MetaProperties::parse(text).unwrap();
        assert_eq!(meta.directory_id.map(|id| id.0[15]), Some(2));
        assert_eq!(MetaProperties::parse(b"").map(|meta| (meta.version, meta.node_id)), Ok((0, None)));
    }

    #[test]
    fn meta_properties_that_a_broker_refuses() {
        let fail = |text: &str| MetaProperties::parse(text.as_bytes()).unwrap_err();
        assert_eq!(fail("\nversion=7"), PropertiesError::Version { line: 2, got: 7 });
        assert_eq!(fail("version=1\nnode.id=1"), PropertiesError::Missing { key: "cluster.id" });
        assert_eq!(fail("version=1\ncluster.id=a"), PropertiesError::Missing { key: "node.id" });
        let got = "x".to_owned();
        assert_eq!(
            fail("broker.id=x"),
            PropertiesError::Number { line: 1, key: "broker.id", got: got.clone() }
        );
        assert_eq!(fail("directory.id=x"), PropertiesError::Uuid { line: 1, key: "directory.id", got });
    }
}
