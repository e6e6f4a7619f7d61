//! Formats that users write themselves, in `formats:` of the configuration: format strings of kcat (`kcat -C -f`).
//!
//! | field | is |
//! |---|---|
//! | `%t` `%p` `%o` | topic, partition, offset |
//! | `%k` `%s` | key, value: the bytes; nothing for null |
//! | `%K` `%S` | their lengths; -1 for null |
//! | `%R` | the value's length as 32 bits, big-endian; -1 for null |
//! | `%T` | the timestamp in milliseconds; -1 if the record has none |
//! | `%h` | the headers: `name=value,name=value`; null is `NULL` |
//! | `%%` | a percent sign |
//! | `%{T:iso}` | ours: the timestamp as ISO 8601 in the topic's timezone; what no calendar has is as with `%T` |
//!
//! | escape | is |
//! |---|---|
//! | `\n` `\t` `\r` | newline, tab, carriage return |
//! | `\x41` | a byte in hexadecimal digits, as many as there are; the first is one from 0 to 9: `\x0ff` |
//! | `\65` `\012` `\0x41` | a byte in decimal, octal, hexadecimal, as C reads numbers |
//! | `\` and any other character | that character; a backslash before a field or at the end is itself |
//!
//! Each template that is accepted gives the bytes that kcat 1.7 gives, with three exceptions: kcat ends a text and a header's value at a NUL
//! byte, here they go on, and it prints 0 as the time of messages of magic 0, which have none. What kcat takes for something that
//! nobody can mean (`\xff` is `ff` to it, `\300` another byte) is an error.

use crate::format::record::Record;
use crate::view::format::Renderer;
use crate::view::jsonl::{integer_len, push_integer};

/// The longest template, in bytes: it may be rendered for each record, also for the shortest ones.
pub const MAX_LEN: usize = 1024;
/// The most fields in one.
pub const MAX_FIELDS: usize = 32;
/// The most of them that are as long as the record wants, so that what is rendered of a record is no more than so often its size.
pub const MAX_PAYLOADS: usize = 8;

/// The fields as messages list them.
const FIELDS: &str = "%t %p %o %k %s %K %S %R %T %h %% and %{T:iso}";

/// A format string, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    tokens: Vec<Token>,
}

/// What is rendered one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Key,
    Value,
    KeyLen,
    ValueLen,
    ValueLenBinary,
    Timestamp,
    Iso,
    Headers,
}

/// Why a text is no format string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It would render as nothing.
    #[error("it is empty")]
    Empty,
    /// It is longer than [`MAX_LEN`].
    #[error("it has {len} bytes, at most {MAX_LEN} are possible")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// It has more than [`MAX_FIELDS`] fields.
    #[error("it has more than {MAX_FIELDS} fields")]
    TooManyFields,
    /// It has more than [`MAX_PAYLOADS`] fields that may be large.
    #[error("it has more than {MAX_PAYLOADS} of %k, %s and %h")]
    TooManyPayloads,
    /// It ends within a field.
    #[error("a `%` at its end begins nothing; `%%` is a percent sign")]
    CutField,
    /// No field has that name.
    #[error("`%{0}` is no field; there are {FIELDS}")]
    UnknownField(String),
    /// `\x` without a digit from 0 to 9 behind it.
    #[error(
        "after `\\x` comes a digit from 0 to 9, as in `\\x0ff`; kcat would not take it for a byte otherwise"
    )]
    NoDigit,
    /// A number above 255.
    #[error("`\\{0}` is more than a byte, and all digits belong to it")]
    NoByte(String),
}

impl Template {
    /// Reads a format string.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text.is_empty() {
            return Err(TemplateError::Empty);
        }
        if text.len() > MAX_LEN {
            return Err(TemplateError::TooLong { len: text.len() });
        }
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            push_literal(before, &mut tokens)?;
            let (token, after) = field(after)?;
            tokens.push(token);
            rest = after;
        }
        push_literal(rest, &mut tokens)?;
        let fields = tokens.iter().filter(|token| !matches!(token, Token::Literal(_))).count();
        if fields > MAX_FIELDS {
            return Err(TemplateError::TooManyFields);
        }
        let payloads =
            tokens.iter().filter(|token| matches!(token, Token::Key | Token::Value | Token::Headers));
        if payloads.count() > MAX_PAYLOADS {
            return Err(TemplateError::TooManyPayloads);
        }
        Ok(Self { text: text.to_owned(), tokens })
    }

    /// The format string as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends `record` to `out`.
    pub fn render(&self, renderer: &Renderer, record: &Record<'_>, out: &mut Vec<u8>) {
        for token in &self.tokens {
            match token {
                Token::Literal(bytes) => out.extend_from_slice(bytes),
                Token::Topic => out.extend_from_slice(renderer.name.topic.as_bytes()),
                Token::Partition => push_integer(i64::from(renderer.name.partition), out),
                Token::Offset => push_integer(record.offset.0, out),
                Token::Key => out.extend_from_slice(record.key.unwrap_or_default()),
                Token::Value => out.extend_from_slice(record.value.unwrap_or_default()),
                Token::KeyLen => push_integer(length(record.key), out),
                Token::ValueLen => push_integer(length(record.value), out),
                Token::ValueLenBinary => {
                    // Records are shorter than 2 GiB: their own lengths have 32 bits.
                    let len = i32::try_from(length(record.value)).unwrap_or(i32::MAX);
                    out.extend_from_slice(&len.to_be_bytes());
                }
                Token::Timestamp => push_integer(record.timestamp.0, out),
                Token::Iso => match renderer.iso(record.timestamp.0) {
                    Some(iso) => out.extend_from_slice(iso.as_bytes()),
                    None => push_integer(record.timestamp.0, out),
                },
                Token::Headers => push_headers(record, out),
            }
        }
    }

    /// The number of bytes that [`Self::render`] appends.
    pub fn len(&self, renderer: &Renderer, record: &Record<'_>) -> u64 {
        let len = |token: &Token| match token {
            Token::Literal(bytes) => bytes.len(),
            Token::Topic => renderer.name.topic.len(),
            Token::Partition => integer_len(i64::from(renderer.name.partition)),
            Token::Offset => integer_len(record.offset.0),
            Token::Key => record.key.map_or(0, <[u8]>::len),
            Token::Value => record.value.map_or(0, <[u8]>::len),
            Token::KeyLen => integer_len(length(record.key)),
            Token::ValueLen => integer_len(length(record.value)),
            Token::ValueLenBinary => size_of::<i32>(),
            Token::Timestamp => integer_len(record.timestamp.0),
            Token::Iso => {
                renderer.iso(record.timestamp.0).map_or(integer_len(record.timestamp.0), |iso| iso.len())
            }
            Token::Headers => headers_len(record),
        };
        self.tokens.iter().map(|token| len(token) as u64).sum()
    }
}

/// The field that `text` begins with, behind its `%`, and what follows.
fn field(text: &str) -> Result<(Token, &str), TemplateError> {
    let mut chars = text.chars();
    let token = match chars.next().ok_or(TemplateError::CutField)? {
        't' => Token::Topic,
        'p' => Token::Partition,
        'o' => Token::Offset,
        'k' => Token::Key,
        's' => Token::Value,
        'K' => Token::KeyLen,
        'S' => Token::ValueLen,
        'R' => Token::ValueLenBinary,
        'T' => Token::Timestamp,
        'h' => Token::Headers,
        '%' => Token::Literal(b"%".to_vec()),
        '{' => {
            let (name, after) = chars.as_str().split_once('}').ok_or(TemplateError::CutField)?;
            return match name {
                "T:iso" => Ok((Token::Iso, after)),
                _ => Err(TemplateError::UnknownField(format!("{{{}}}", name.escape_debug()))),
            };
        }
        other => return Err(TemplateError::UnknownField(other.escape_debug().to_string())),
    };
    Ok((token, chars.as_str()))
}

/// Adds what stands between two fields, if anything does.
fn push_literal(text: &str, tokens: &mut Vec<Token>) -> Result<(), TemplateError> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'\\', [escaped, behind @ ..]) => unescape(*escaped, after, behind, &mut out)?,
            _ => {
                out.push(*byte);
                after
            }
        };
    }
    if !out.is_empty() {
        tokens.push(Token::Literal(out));
    }
    Ok(())
}

/// Adds what the escape of `first` stands for; what follows it. `text` begins with `first`, `behind` after it.
fn unescape<'a>(
    first: u8,
    text: &'a [u8],
    behind: &'a [u8],
    out: &mut Vec<u8>,
) -> Result<&'a [u8], TemplateError> {
    let (digits, base) = match first {
        b'x' if behind.first().is_some_and(u8::is_ascii_digit) => (behind, Base::Sixteen),
        b'x' => return Err(TemplateError::NoDigit),
        b'0'..=b'9' => (text, Base::AsWritten),
        _ => {
            out.push(match first {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                other => other,
            });
            return Ok(behind);
        }
    };
    let (byte, len) = number(digits, base);
    let written = text.len() - digits.len() + len;
    let written = || String::from_utf8_lossy(text.get(..written).unwrap_or_default()).into_owned();
    out.push(byte.ok_or_else(|| TemplateError::NoByte(written()))?);
    Ok(digits.get(len..).unwrap_or_default())
}

/// How the digits of a number are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// Hexadecimal.
    Sixteen,
    /// Hexadecimal after `0x`, octal after `0`, else decimal.
    AsWritten,
}

/// Reads a number as C's strtoul does: its value if that is a byte, and the number of its digits.
fn number(text: &[u8], base: Base) -> (Option<u8>, usize) {
    let has_prefix = matches!(text, [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit());
    let radix = match base {
        _ if has_prefix => 16,
        Base::Sixteen => 16,
        Base::AsWritten if text.first() == Some(&b'0') => 8,
        Base::AsWritten => 10,
    };
    let prefix = if has_prefix { 2 } else { 0 };
    let mut value: Option<u8> = Some(0);
    let mut len = prefix;
    for byte in text.iter().skip(prefix) {
        let Some(digit) = char::from(*byte).to_digit(radix).and_then(|digit| u8::try_from(digit).ok()) else {
            break;
        };
        let shifted = value.map(|value| u32::from(value) * radix + u32::from(digit));
        value = shifted.and_then(|value| u8::try_from(value).ok());
        len += 1;
    }
    (value, len)
}

fn length(bytes: Option<&[u8]>) -> i64 {
    bytes.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX))
}

fn push_headers(record: &Record<'_>, out: &mut Vec<u8>) {
    for (index, header) in record.headers.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(header.name);
        out.push(b'=');
        out.extend_from_slice(header.value.unwrap_or(b"NULL"));
    }
}

fn headers_len(record: &Record<'_>) -> usize {
    let header = |header: crate::format::record::Header<'_>| {
        header.name.len() + 1 + header.value.map_or(4, <[u8]>::len)
    };
    let commas = record.headers.len().saturating_sub(1);
    record.headers.iter().map(header).sum::<usize>() + commas
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Headers;
    use crate::units::{Offset, Timestamp, TopicPartition};
    use crate::view::format::Rendering;

    fn record<'a>(key: Option<&'a [u8]>, value: Option<&'a [u8]>, timestamp: i64) -> Record<'a> {
        let (offset, timestamp) = (Offset(12), Timestamp(timestamp));
        Record { offset, timestamp, key, value, headers: Headers::default() }
    }

    fn rendered_in(zone: &str, text: &str, record: &Record<'_>) -> Vec<u8> {
        let name = TopicPartition { topic: "tea".into(), partition: 3 };
        let timezone = jiff::tz::TimeZoneDatabase::bundled().get(zone).unwrap();
        let renderer = Renderer::new(&name, Rendering { timezone, ..Rendering::default() });
        let template = Template::parse(text).unwrap();
        let mut out = Vec::new();
        template.render(&renderer, record, &mut out);
        assert_eq!(template.len(&renderer, record), out.len() as u64, "{text}");
        out
    }

    fn rendered(text: &str, record: &Record<'_>) -> String {
        String::from_utf8(rendered_in("UTC", text, record)).unwrap()
    }

    #[test]
    fn every_field_of_a_record_and_of_one_that_has_nothing() {
        let full = record(Some(b"k"), Some(b"value"), 1_700_000_000_123);
        let (empty, null) = (record(Some(b""), Some(b""), 0), record(None, None, -1));
        for (text, of_full, of_empty, of_null) in [
            ("%t", "tea", "tea", "tea"),
            ("%p", "3", "3", "3"),
            ("%o", "12", "12", "12"),
            ("%k|", "k|", "|", "|"),
            ("%s|", "value|", "|", "|"),
            ("%K", "1", "0", "-1"),
            ("%S", "5", "0", "-1"),
            ("%T", "1700000000123", "0", "-1"),
            ("%h|", "|", "|", "|"),
            ("%%", "%", "%", "%"),
            ("%{T:iso}", "2023-11-14T22:13:20.123Z", "1970-01-01T00:00:00.000Z", "-1"),
            ("%%s%s%%", "%svalue%", "%s%", "%s%"),
        ] {
            assert_eq!(rendered(text, &full), of_full, "{text}");
            assert_eq!(rendered(text, &empty), of_empty, "{text}");
            assert_eq!(rendered(text, &null), of_null, "{text}");
        }
        let binary = |record| rendered_in("UTC", "%R", &record);
        assert_eq!((binary(full), binary(empty)), (vec![0, 0, 0, 5], vec![0; 4]));
        assert_eq!(binary(null), [0xff; 4]);
    }

    #[test]
    fn times_are_in_the_timezone_and_those_of_no_calendar_are_numbers() {
        let iso =
            |zone, ms| String::from_utf8(rendered_in(zone, "%{T:iso}", &record(None, None, ms))).unwrap();
        assert_eq!(iso("Europe/Berlin", 1_700_000_000_123), "2023-11-14T23:13:20.123+01:00");
        assert_eq!(iso("Europe/Berlin", 1_690_000_000_000), "2023-07-22T06:26:40.000+02:00");
        assert_eq!(iso("Asia/Kathmandu", 0), "1970-01-01T05:30:00.000+05:30");
        assert_eq!(iso("UTC", -1000), "1969-12-31T23:59:59.000Z");
        for ms in [i64::MIN, -1, i64::MAX] {
            assert_eq!(iso("Europe/Berlin", ms), ms.to_string());
        }
    }

    #[test]
    fn escapes_are_those_of_kcat() {
        for (text, expected) in [
            (r"a\nb\tc\rd", "a\nb\tc\rd"),
            (r"\\n", "\\n"),
            (r"\q\'\ä", "q'ä"),
            (r"\x41", "A"),
            (r"\x0041", "A"),
            (r"\x4", "\x04"),
            (r"\x41,\x42", "A,B"),
            (r"\x0x41", "A"),
            (r"\65\066\0x43", "A6C"),
            (r"\033[m", "\x1b[m"),
            (r"\10", "\n"),
            (r"\0", "\0"),
            (r"a\x00-b", "a\0-b"),
            (r"\x00b", "\x0b"),
            (r"\08", "\u{0}8"),
            (r"a\", "a\\"),
            (r"\%s", "\\v"),
            (r"\%%", "\\%"),
            (r"\x4%%1", "\x04%1"),
            ("\n", "\n"),
        ] {
            assert_eq!(rendered(text, &record(None, Some(b"v"), 0)), expected, "{text}");
        }
        assert_eq!(rendered_in("UTC", r"\x0ff\255", &record(None, None, 0)), [0xff, 0xff]);
    }

    #[test]
    fn what_kcat_refuses_or_takes_for_something_else_is_an_error() {
        use TemplateError::{CutField, Empty, NoByte, NoDigit, UnknownField};
        let field = |name: &str| UnknownField(name.to_owned());
        for (text, expected) in [
            ("", Empty),
            ("%", CutField),
            ("%s%", CutField),
            ("%%%", CutField),
            ("%x", field("x")),
            ("% s", field(" ")),
            ("%ä", field("ä")),
            ("%-5s", field("-")),
            ("%\n", field("\\n")),
            ("%{\r}", field("{\\r}")),
            ("%{T:iso", CutField),
            ("%{T}", field("{T}")),
            ("%{T:iso8601}", field("{T:iso8601}")),
            (r"\x", NoDigit),
            (r"\x%s", NoDigit),
            (r"\xff", NoDigit),
            (r"\xg", NoDigit),
            (r"\x100", NoByte("x100".into())),
            (r"\x41bc", NoByte("x41bc".into())),
            (r"\300", NoByte("300".into())),
            (r"\0777", NoByte("0777".into())),
            (r"\99999999999999999999999", NoByte("99999999999999999999999".into())),
        ] {
            assert_eq!(Template::parse(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn what_is_rendered_of_a_record_is_bounded() {
        assert_eq!(
            Template::parse(&"x".repeat(MAX_LEN + 1)),
            Err(TemplateError::TooLong { len: MAX_LEN + 1 })
        );
        assert_eq!(Template::parse(&"%o".repeat(MAX_FIELDS + 1)), Err(TemplateError::TooManyFields));
        assert_eq!(Template::parse(&"%s".repeat(MAX_PAYLOADS + 1)), Err(TemplateError::TooManyPayloads));
        assert!(Template::parse(&"x".repeat(MAX_LEN)).is_ok());
        assert!(Template::parse(&"%s%h%k%s%o%p%t".repeat(2)).is_ok());
    }
}
