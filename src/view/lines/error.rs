//! Why a line is no record.
//!
//! Messages are for whoever wrote the line: they say what is wrong and where, and quote little of it, with control characters
//! escaped, since they go to logs and terminals.

use std::fmt::{self, Write as _};

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// It is longer than a record may be.
    #[error("a record of {len} bytes or more; the most are {most}")]
    TooLong {
        /// Bytes that are there so far.
        len: usize,
        /// The most that are possible.
        most: usize,
    },
    /// A line of `.tsv` has as many columns as none has.
    #[error("{got} {}: there are two, key and value, or four, offset, timestamp, key and value; a tab within one is `\\t`", if *got == 1 { "column" } else { "columns" })]
    ColumnCount {
        /// How many it has.
        got: usize,
    },
    /// A column of `.tsv` ends within an escape.
    #[error("{column}: a backslash at its end begins nothing; `\\\\` is a backslash")]
    CutEscape {
        /// The column.
        column: Column,
    },
    /// The offset or the timestamp in `.tsv` is none.
    #[error("{column}: `{got}` is no whole number, and not `\\N`")]
    Number {
        /// The column.
        column: Column,
        /// What stands there.
        got: String,
    },
    /// JSON is UTF-8.
    #[error("byte {at} is not UTF-8; other bytes are {{\"base64\":\"..\"}}")]
    NotUtf8 {
        /// Its place in the line, from 1.
        at: usize,
    },
    /// It is other JSON, or none at all.
    #[error("`{got}` is no JSON object")]
    NotAnObject {
        /// How it begins.
        got: String,
    },
    /// It begins as a JSON object and isn't one.
    #[error("byte {at}: {cause}")]
    Syntax {
        /// The place in the line, from 1.
        at: usize,
        /// The parser's words.
        cause: String,
    },
    /// Nothing in a record has that name.
    #[error("`{name}` is no member of a record: there are {}", super::jsonl::NAMES.join(", "))]
    UnknownMember {
        /// The name.
        name: String,
    },
    /// A member is there twice.
    #[error("`{name}` is there twice")]
    RepeatedMember {
        /// The name.
        name: &'static str,
    },
    /// A key or value is there both as text and as JSON.
    #[error("both `{name}` and `{name}_json`: one of them is possible")]
    BothForms {
        /// `key` or `value`.
        name: &'static str,
    },
    /// The timestamp in `.jsonl` is none.
    #[error("timestamp: `{got}` is no whole number of milliseconds, and not null")]
    Timestamp {
        /// What stands there.
        got: String,
    },
    /// A key, a value, a header's name or value is other JSON than those are.
    #[error("{place}: `{got}` is not a string, null, {{\"base64\":\"..\"}} or {{\"hex\":\"..\"}}{}", place.hint())]
    Payload {
        /// Where.
        place: Place,
        /// What stands there.
        got: String,
    },
    /// A string's escapes stand for no text.
    #[error("{place}: {cause}")]
    Text {
        /// Where.
        place: Place,
        /// The parser's words.
        cause: String,
    },
    /// What is said to be encoded isn't.
    #[error("{place}: `{got}` is not {encoding}")]
    Encoded {
        /// Where.
        place: Place,
        /// The encoding's name.
        encoding: &'static str,
        /// What stands there.
        got: String,
    },
    /// Headers are a list.
    #[error("headers: `{got}` is not [[name, value], ..]")]
    Headers {
        /// What stands there.
        got: String,
    },
    /// A header is a pair.
    #[error("header {count}: `{got}` is not [name, value]")]
    Header {
        /// Which one, from 1.
        count: usize,
        /// What stands there.
        got: String,
    },
    /// A header's name is null.
    #[error("header {count}: its name is null; only its value can be")]
    HeaderName {
        /// Which one, from 1.
        count: usize,
    },
}

/// A column of a line of `.tsv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Which one, from 1.
    pub count: usize,
    /// How many the line has.
    pub of: usize,
    /// What it is.
    pub name: &'static str,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, of, name } = self;
        write!(f, "column {count} of {of} ({name})")
    }
}

/// Where in a line of `.jsonl` bytes stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The key.
    Key,
    /// The value.
    Value,
    /// The name of a header, counted from 1.
    HeaderName(usize),
    /// The value of a header, counted from 1.
    HeaderValue(usize),
}

impl Place {
    /// Where other JSON can stand.
    const fn hint(self) -> &'static str {
        match self {
            Self::Key => "; any JSON can be `key_json`",
            Self::Value => "; any JSON can be `value_json`",
            Self::HeaderName(_) | Self::HeaderValue(_) => "",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::Value => f.write_str("value"),
            Self::HeaderName(count) => write!(f, "header {count}, name"),
            Self::HeaderValue(count) => write!(f, "header {count}, value"),
        }
    }
}

/// The beginning of `data` as messages quote it: printable, at most [`MOST_QUOTED`] characters and an ellipsis.
pub(super) fn quote(data: &[u8]) -> String {
    // No character takes more than four bytes, so that the cut is never seen.
    let data = data.get(..4 * (MOST_QUOTED + 1)).unwrap_or(data);
    let (mut quoted, mut count, mut piece) = (String::new(), 0, String::new());
    let characters = data
        .utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().map(Ok).chain(chunk.invalid().iter().map(|byte| Err(*byte))));
    for character in characters {
        piece.clear();
        match character {
            Ok(plain @ ('"' | '\'' | '\\')) => piece.push(plain),
            Ok(other) => piece.extend(other.escape_debug()),
            Err(byte) => write!(piece, "\\x{byte:02x}").unwrap_or_default(),
        }
        count += piece.chars().count();
        if count > MOST_QUOTED {
            quoted.push('…');
            break;
        }
        quoted.push_str(&piece);
    }
    quoted
}

/// The most characters of a line that a message has.
const MOST_QUOTED: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_short_and_printable() {
        assert_eq!(quote(b"a \"b\" \\N"), "a \"b\" \\N");
        assert_eq!(quote("é\t\x1b[2J\u{9b}\u{202e}".as_bytes()), "é\\t\\u{1b}[2J\\u{9b}\\u{202e}");
        assert_eq!(quote(b"\xc3\xff-"), "\\xc3\\xff-");
        assert_eq!(quote(&[b'a'; 60]), "a".repeat(60));
        assert_eq!(quote(&[b'a'; 61]), "a".repeat(60) + "…");
        for long in [vec![0xff; 1000], "😀".repeat(500).into_bytes(), vec![0x1b; 500]] {
            let quoted = quote(&long);
            assert!(quoted.ends_with('…') && quoted.chars().count() <= 61 && quoted.chars().count() > 50);
            assert!(!quoted.chars().any(char::is_control));
        }
    }
}
