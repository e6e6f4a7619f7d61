//! Lines of `append.tsv`: what `.tsv` shows, in PostgreSQL's COPY text format.
//!
//! | columns | are |
//! |---|---|
//! | two | key, value |
//! | four | offset (a number or `\N`, and not used), timestamp (milliseconds; `\N` and -1 are the time of appending), key, value |
//!
//! | escape | is |
//! |---|---|
//! | `\N` as a whole column | null |
//! | `\t` `\n` `\r` `\b` `\f` `\v` | tab, newline, carriage return, backspace, form feed, vertical tab |
//! | `\x` and one or two hex digits, `\` and one to three octal ones | that byte; of an octal number its lowest eight bits |
//! | `\` and any other byte | that byte; so a backslash before a tab makes it part of the column |
//!
//! All as COPY reads it, except that a column can't end with a single backslash and that a carriage return is data like other
//! bytes.

use std::borrow::Cow;

use crate::units::Timestamp;
use crate::view::lines::error::{Column, LineError, quote};
use crate::view::lines::{LineRecord, some_time};

/// What stands for null, as a whole column.
const NULL: &[u8] = b"\\N";

/// Reads a line.
///
/// # Errors
/// Why it is no record.
pub fn parse(line: &[u8]) -> Result<LineRecord<'_>, LineError> {
    let mut fields = Fields { rest: Some(line) };
    // One more than there may be, which tells whether there are more.
    let found: [Option<Field<'_>>; 5] = std::array::from_fn(|_| fields.next());
    match found {
        [Some(key), Some(value), None, ..] => {
            let column = |count, name| Column { count, of: 2, name };
            Ok(LineRecord {
                key: key.bytes(column(1, "key"))?,
                value: value.bytes(column(2, "value"))?,
                ..LineRecord::default()
            })
        }
        [Some(offset), Some(timestamp), Some(key), Some(value), None] => {
            let column = |count, name| Column { count, of: 4, name };
            offset.number(column(1, "offset"))?;
            Ok(LineRecord {
                timestamp: timestamp.timestamp(column(2, "timestamp"))?,
                key: key.bytes(column(3, "key"))?,
                value: value.bytes(column(4, "value"))?,
                headers: Vec::new(),
            })
        }
        _ => Err(LineError::ColumnCount { got: Fields { rest: Some(line) }.count() }),
    }
}

/// What stands between tabs.
#[derive(Clone, Copy)]
struct Field<'a> {
    text: &'a [u8],
    /// Whether a backslash is in it.
    has_escapes: bool,
}

/// The fields of a line, in order.
struct Fields<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let text = self.rest.take()?;
        let (mut has_escapes, mut escaped) = (false, None);
        for at in memchr::memchr2_iter(b'\t', b'\\', text) {
            if escaped == Some(at) {
                continue;
            }
            if text.get(at) == Some(&b'\\') {
                (has_escapes, escaped) = (true, Some(at + 1));
                continue;
            }
            let (text, after) = text.split_at(at);
            self.rest = after.get(1..);
            return Some(Field { text, has_escapes });
        }
        Some(Field { text, has_escapes })
    }
}

impl<'a> Field<'a> {
    fn bytes(self, column: Column) -> Result<Option<Cow<'a, [u8]>>, LineError> {
        if !self.has_escapes {
            return Ok(Some(Cow::Borrowed(self.text)));
        }
        if self.text == NULL {
            return Ok(None);
        }
        let bytes = unescape(self.text).ok_or(LineError::CutEscape { column })?;
        Ok(Some(Cow::Owned(bytes)))
    }

    fn number(self, column: Column) -> Result<Option<i64>, LineError> {
        if self.text == NULL {
            return Ok(None);
        }
        let number = std::str::from_utf8(self.text).ok().and_then(|text| text.parse().ok());
        number.map(Some).ok_or_else(|| LineError::Number { column, got: quote(self.text) })
    }

    fn timestamp(self, column: Column) -> Result<Option<Timestamp>, LineError> {
        Ok(self.number(column)?.and_then(some_time))
    }
}

/// The bytes that a field with escapes stands for; `None` if it ends within one.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(at);
        out.extend_from_slice(plain);
        let [_, first, after @ ..] = escape else { return None };
        let (byte, after) = escaped(*first, after);
        out.push(byte);
        rest = after;
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// The byte that an escape stands for, and what follows it; `first` is behind the backslash.
fn escaped(first: u8, after: &[u8]) -> (u8, &[u8]) {
    let byte = match first {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'0'..=b'7' => return number(8, first - b'0', 2, after),
        b'x' if after.first().is_some_and(u8::is_ascii_hexdigit) => return number(16, 0, 2, after),
        other => other,
    };
    (byte, after)
}

/// A number that begins with the digit `first` and goes on for up to `most` more, and what follows it.
fn number(radix: u8, first: u8, most: usize, after: &[u8]) -> (u8, &[u8]) {
    let (mut value, mut rest) = (first, after);
    for _ in 0..most {
        let Some((byte, behind)) = rest.split_first() else { break };
        let digit = char::from(*byte).to_digit(u32::from(radix)).and_then(|digit| u8::try_from(digit).ok());
        let Some(digit) = digit else { break };
        (value, rest) = (value.wrapping_mul(radix).wrapping_add(digit), behind);
    }
    (value, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair = (Option<Vec<u8>>, Option<Vec<u8>>);

    fn pair(line: &[u8]) -> Result<Pair, LineError> {
        let LineRecord { timestamp, key, value, headers } = parse(line)?;
        assert!(timestamp.is_none() && headers.is_empty());
        Ok((key.map(Cow::into_owned), value.map(Cow::into_owned)))
    }

    fn value(field: &[u8]) -> Option<Vec<u8>> {
        pair(&[b"\t", field].concat()).unwrap().1
    }

    fn message(line: &[u8]) -> String {
        parse(line).unwrap_err().to_string()
    }

    #[test]
    fn two_columns_are_key_and_value() {
        assert_eq!(pair(b"k\tv").unwrap(), (Some(b"k".to_vec()), Some(b"v".to_vec())));
        assert_eq!(pair(b"\t").unwrap(), (Some(Vec::new()), Some(Vec::new())));
        assert_eq!(pair(b"\\N\t\\N").unwrap(), (None, None));
        assert_eq!(pair(b"\xff\t a\r").unwrap(), (Some(b"\xff".to_vec()), Some(b" a\r".to_vec())));
    }

    #[test]
    fn four_columns_are_those_that_tsv_shows() {
        let record = parse(b"7\t1700000000000\tk\t\\N").unwrap();
        assert_eq!(record.timestamp, Some(Timestamp(1_700_000_000_000)));
        assert_eq!((record.key.as_deref(), record.value), (Some(&b"k"[..]), None));
        for none in ["\\N", "-1"] {
            assert_eq!(parse(format!("\\N\t{none}\t\t").as_bytes()).unwrap().timestamp, None);
        }
        assert_eq!(parse(b"-1\t-2\t\t").unwrap().timestamp, Some(Timestamp(-2)));
    }

    #[test]
    fn escapes_are_those_of_copy() {
        let cases: [(&[u8], &[u8]); 16] = [
            (b"\\t\\n\\r\\\\", b"\t\n\r\\"),
            (b"\\b\\f\\v", b"\x08\x0c\x0b"),
            (b"\\x41\\x4a\\X", b"AJX"),
            (b"\\x4g", b"\x04g"),
            (b"\\x414", b"A4"),
            (b"\\xg", b"xg"),
            (b"\\x", b"x"),
            (b"\\101\\60\\0", b"A0\0"),
            (b"\\1018", b"A8"),
            (b"\\18", b"\x018"),
            (b"\\400\\777", b"\x00\xff"),
            (b"\\8\\q\\\"", b"8q\""),
            (b"a\\\tb", b"a\tb"),
            (b"\\\\\\N", b"\\N"),
            (b"\\NN", b"NN"),
            (b"a\\N", b"aN"),
        ];
        for (field, expected) in cases {
            assert_eq!(value(field).as_deref(), Some(expected), "{}", field.escape_ascii());
        }
        assert_eq!(pair(b"a\\\\\tb").unwrap(), (Some(b"a\\".to_vec()), Some(b"b".to_vec())));
    }

    #[test]
    fn what_has_no_escapes_is_borrowed() {
        let record = parse(b"1\t2\tkey\tvalue").unwrap();
        assert!(matches!((record.key, record.value), (Some(Cow::Borrowed(_)), Some(Cow::Borrowed(_)))));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_column() {
        let counts = "there are two, key and value, or four, offset, timestamp, key and value; a tab within one is `\\t`";
        assert_eq!(message(b""), format!("1 column: {counts}"));
        assert_eq!(message(b"\\."), format!("1 column: {counts}"));
        assert_eq!(message(b"1\t2\t3"), format!("3 columns: {counts}"));
        assert_eq!(message(b"1\t2\t3\t4\t5\t\t"), format!("7 columns: {counts}"));
        let cut = "a backslash at its end begins nothing; `\\\\` is a backslash";
        assert_eq!(message(b"k\tv\\"), format!("column 2 of 2 (value): {cut}"));
        assert_eq!(message(b"1\t2\tk\tv\\\\\\"), format!("column 4 of 4 (value): {cut}"));
        assert_eq!(message(b"k\tv\tx\ty"), "column 1 of 4 (offset): `k` is no whole number, and not `\\N`");
        for (wrong, shown) in [("", ""), ("1.5", "1.5"), ("9223372036854775808", "9223372036854775808")] {
            let line = format!("\\N\t{wrong}\tk\tv");
            let expected = format!("column 2 of 4 (timestamp): `{shown}` is no whole number, and not `\\N`");
            assert_eq!(message(line.as_bytes()), expected);
        }
    }
}
