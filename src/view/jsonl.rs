//! `.jsonl`: one JSON object a line.
//!
//! ```json
//! {"topic":"orders","partition":0,"offset":1,"timestamp":1700000000000,"key":"k","value":"v","headers":[["h","x"]]}
//! ```
//! Keys always in this order. The timestamp is in milliseconds, null if the record has none. What is not UTF-8 is
//! `{"base64":"..."}`; the topic's options may ask for another encoding (see [`crate::view::encoding`]). Control characters (U+0000 to U+001F, U+007F to U+009F) are escaped, so that a terminal obeys none of them.

use crate::format::record::Record;
use crate::units::{Timestamp, TopicPartition};
use crate::view::encoding::{Encoding, Encodings};
use crate::view::format::Renderer;

/// What every line of a partition begins with.
pub(crate) fn prefix(name: &TopicPartition) -> Vec<u8> {
    let mut out = b"{\"topic\":".to_vec();
    push_bytes(name.topic.as_bytes(), &mut out);
    out.extend_from_slice(b",\"partition\":");
    push_integer(i64::from(name.partition), &mut out);
    out.extend_from_slice(b",\"offset\":");
    out
}

/// Appends `record` to `out`.
pub fn render(renderer: &Renderer, record: &Record<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&renderer.json_prefix);
    push_integer(record.offset.0, out);
    out.extend_from_slice(b",\"timestamp\":");
    push_timestamp(record.timestamp, b"null", out);
    push_payload("key", record.key, renderer.encodings.key, out);
    push_payload("value", record.value, renderer.encodings.value, out);
    push_headers(record, out);
    out.extend_from_slice(b"}\n");
}

/// The number of bytes that [`render`] appends; `None` where only rendering tells, as with inlined JSON.
pub fn len(renderer: &Renderer, record: &Record<'_>) -> Option<u64> {
    /// What is the same in every line: names, quotes, brackets, newline.
    const FRAME: usize = r#","timestamp":,"key":,"value":,"headers":[]}"#.len() + 1;
    let Encodings { key, value } = renderer.encodings;
    let timestamp = if record.timestamp.is_none() { 4 } else { integer_len(record.timestamp.0) };
    let fixed = renderer.json_prefix.len() + integer_len(record.offset.0) + timestamp + FRAME;
    let headers: usize = record.headers.iter().map(|h| bytes_len(h.name) + optional_len(h.value) + 3).sum();
    let commas = record.headers.len().saturating_sub(1);
    let payloads = payload_len(key, record.key)? + payload_len(value, record.value)?;
    Some((fixed + payloads + headers + commas) as u64)
}

fn payload_len(encoding: Encoding, bytes: Option<&[u8]>) -> Option<usize> {
    let Some(bytes) = bytes else { return Some(optional_len(None)) };
    match encoding {
        Encoding::Text => Some(bytes_len(bytes)),
        Encoding::Json => None,
        Encoding::Base64 | Encoding::Hex => {
            let frame = r#"{"":""}"#.len() + encoding.name().len();
            Some(encoding.len(bytes) + frame)
        }
    }
}

fn optional_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(4, bytes_len)
}

fn bytes_len(bytes: &[u8]) -> usize {
    if std::str::from_utf8(bytes).is_err() {
        return bytes.len().div_ceil(3) * 4 + r#"{"base64":""}"#.len();
    }
    let escapes: usize = bytes.iter().map(|byte| usize::from(EXTRA[usize::from(*byte)])).sum();
    // U+0080 to U+009F take two bytes as they are and six escaped.
    let c1 =
        memchr::memchr_iter(0xc2, bytes).filter(|at| matches!(bytes.get(at + 1), Some(0x80..=0x9f))).count();
    bytes.len() + 2 + escapes + c1 * 4
}

/// How many bytes longer the escape of an ASCII byte is.
const EXTRA: [u8; 256] = {
    let mut extra = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        extra[byte] = 5;
        byte += 1;
    }
    extra[0x7f] = 5;
    extra[b'"' as usize] = 1;
    extra[b'\\' as usize] = 1;
    extra[b'\n' as usize] = 1;
    extra[b'\r' as usize] = 1;
    extra[b'\t' as usize] = 1;
    extra
};

/// The number of bytes that [`push_integer`] appends.
pub(crate) fn integer_len(number: i64) -> usize {
    itoa::Buffer::new().format(number).len()
}

/// Appends the headers as an array of pairs.
pub(crate) fn push_headers(record: &Record<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"headers\":[");
    for (index, header) in record.headers.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"[" } else { b",[" });
        push_bytes(header.name, out);
        out.push(b',');
        push_optional(header.value, out);
        out.push(b']');
    }
    out.push(b']');
}

/// Appends `,"NAME":` and the bytes, or `,"NAME_json":` and the JSON in them where that is asked for and they are JSON.
fn push_payload(name: &str, bytes: Option<&[u8]>, encoding: Encoding, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    if let Some(json) = bytes.filter(|_| encoding == Encoding::Json).and_then(as_json) {
        out.extend_from_slice(b"_json\":");
        push_minified(json, out);
        return;
    }
    out.extend_from_slice(b"\":");
    match bytes {
        Some(bytes) if encoding.is_plain() => push_object(encoding, bytes, out),
        _ => push_optional(bytes, out),
    }
}

/// Appends an object with the encoded bytes under the encoding's name.
fn push_object(encoding: Encoding, bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(encoding.name().as_bytes());
    out.extend_from_slice(b"\":\"");
    encoding.push(bytes, out);
    out.extend_from_slice(b"\"}");
}

/// Appends a string, a base64 object, or null.
pub(crate) fn push_optional(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => push_bytes(bytes, out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a string, or a base64 object when `bytes` aren't UTF-8.
pub(crate) fn push_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        push_object(Encoding::Base64, bytes, out);
        return;
    };
    out.push(b'"');
    push_escaped(text.as_bytes(), out);
    out.push(b'"');
}

/// Whether a byte may have to be written otherwise: quotes, backslashes, control characters, and the first byte of
/// U+0080 to U+009F.
#[inline]
const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\' || byte == 0x7f || byte == 0xc2
}

fn push_escaped(mut text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len());
    while let Some(at) = find_special(text) {
        let (plain, special) = text.split_at(at);
        out.extend_from_slice(plain);
        let used = push_escape(special, out);
        text = special.get(used..).unwrap_or_default();
    }
    out.extend_from_slice(text);
}

/// The index of the first special byte.
#[inline]
fn find_special(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let found = special_in(u64::from_be_bytes(*word));
        if found != 0 {
            let index = usize::try_from(found.leading_zeros() / 8).unwrap_or(0);
            return Some(text.len() - rest.len() + index);
        }
        rest = after;
    }
    rest.iter().position(|byte| is_special(*byte)).map(|at| text.len() - rest.len() + at)
}

/// The top bit of each byte of `word` that [`is_special`]. Eight bytes at once, without carries between them.
#[inline]
const fn special_in(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const fn zero_bytes(word: u64) -> u64 {
        !(((word & LOW) + LOW) | word | LOW)
    }
    const fn repeated(byte: u8) -> u64 {
        byte as u64 * 0x0101_0101_0101_0101
    }
    zero_bytes(word & repeated(0xe0))
        | zero_bytes(word ^ repeated(b'"'))
        | zero_bytes(word ^ repeated(b'\\'))
        | zero_bytes(word ^ repeated(0x7f))
        | zero_bytes(word ^ repeated(0xc2))
}

/// Appends the first character of `special`, escaped where it must be; the number of bytes used.
fn push_escape(special: &[u8], out: &mut Vec<u8>) -> usize {
    match special {
        [b'"', ..] => out.extend_from_slice(b"\\\""),
        [b'\\', ..] => out.extend_from_slice(b"\\\\"),
        [b'\n', ..] => out.extend_from_slice(b"\\n"),
        [b'\r', ..] => out.extend_from_slice(b"\\r"),
        [b'\t', ..] => out.extend_from_slice(b"\\t"),
        [0xc2, second @ 0x80..=0x9f, ..] => {
            push_unicode_escape(*second, out);
            return 2;
        }
        [0xc2, ..] => out.push(0xc2),
        [control, ..] => push_unicode_escape(*control, out),
        [] => return 0,
    }
    1
}

fn push_unicode_escape(code: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| HEX.get(usize::from(nibble & 0xf)).copied().unwrap_or(b'0');
    out.extend_from_slice(b"\\u00");
    out.push(digit(code >> 4));
    out.push(digit(code));
}

/// Appends milliseconds, or `none` for no timestamp.
pub(crate) fn push_timestamp(timestamp: Timestamp, none: &[u8], out: &mut Vec<u8>) {
    if timestamp.is_none() {
        out.extend_from_slice(none);
    } else {
        push_integer(timestamp.0, out);
    }
}

/// Appends a decimal number.
#[inline]
pub(crate) fn push_integer(number: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The bytes as JSON text, if they are that.
pub(crate) fn as_json(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    Some(text)
}

/// Appends valid JSON without the white space between its tokens, so that it stays on its line.
pub(crate) fn push_minified(json: &str, out: &mut Vec<u8>) {
    let mut in_string = false;
    let mut escaped = false;
    let mut bytes = json.as_bytes();
    while let Some((byte, rest)) = bytes.split_first() {
        if in_string && !escaped && (*byte == 0x7f || *byte == 0xc2) {
            let used = push_escape(bytes, out);
            bytes = bytes.get(used..).unwrap_or_default();
            continue;
        }
        if in_string || !byte.is_ascii_whitespace() {
            out.push(*byte);
        }
        match byte {
            b'"' if !escaped => in_string = !in_string,
            b'\\' if in_string => {
                escaped = !escaped;
                bytes = rest;
                continue;
            }
            _ => {}
        }
        escaped = false;
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Headers;
    use crate::units::Offset;
    use crate::view::format::Rendering;

    fn escaped(text: &[u8]) -> String {
        let mut out = Vec::new();
        push_bytes(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn renderer(name: &TopicPartition, encodings: Encodings) -> Renderer {
        Renderer::new(name, Rendering { encodings, ..Rendering::default() })
    }

    fn rendered(encodings: Encodings, key: Option<&[u8]>, value: Option<&[u8]>) -> String {
        let name = TopicPartition { topic: "t".into(), partition: 3 };
        let record =
            Record { offset: Offset(5), timestamp: Timestamp(-1), key, value, headers: Headers::default() };
        let mut out = Vec::new();
        render(&renderer(&name, encodings), &record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_character_survives_a_json_parser_and_no_control_character_is_left() {
        let all: String = (0..0x2_0000).filter_map(char::from_u32).collect();
        let json = escaped(all.as_bytes());
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), all);
        assert!(!json.chars().any(char::is_control));
        let one_by_one = |c: char| match c {
            '"' | '\\' => format!("\\{c}"),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        };
        let expected: String = all.chars().map(one_by_one).collect();
        assert!(json == format!("\"{expected}\""), "another escape than the shortest");
    }

    #[test]
    fn special_bytes_are_found_at_every_place_of_a_vector() {
        for len in 0..100 {
            for at in 0..len {
                for special in ['"', '\\', '\n', '\u{1b}', '\u{7f}', '\u{9b}', '\u{a0}'] {
                    let text: String = (0..len).map(|i| if i == at { special } else { 'x' }).collect();
                    assert_eq!(serde_json::from_str::<String>(&escaped(text.as_bytes())).unwrap(), text);
                }
            }
        }
    }

    #[test]
    fn eight_bytes_at_once_say_what_one_by_one_says() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let word = u64::from_be_bytes([first, second, b'x', first, second, second, first, b'"']);
                let bytes = word.to_be_bytes();
                for (index, byte) in bytes.into_iter().enumerate() {
                    let bit = special_in(word) >> (63 - index * 8) & 1;
                    assert_eq!(bit == 1, is_special(byte), "{bytes:x?} at {index}");
                }
                assert_eq!(find_special(&bytes), bytes.iter().position(|byte| is_special(*byte)));
            }
        }
    }

    #[test]
    fn the_length_is_that_of_the_rendering() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        let texts: [&[u8]; 8] =
            [b"", b"a", b"\xff", b"\xff\xfe", b"\0\xff\xfe", all.as_bytes(), b"\"\\", b"\x7f\t"];
        let name = TopicPartition { topic: "t\u{9b}".into(), partition: -3 };
        let [text, base64, hex] = [Encoding::Text, Encoding::Base64, Encoding::Hex];
        for (key, value) in [(text, text), (base64, hex), (hex, base64)] {
            lengths_are_right(&renderer(&name, Encodings { key, value }), &texts);
        }
    }

    fn lengths_are_right(renderer: &Renderer, texts: &[&[u8]]) {
        for key in texts {
            for value in texts {
                for (key, value) in [(Some(*key), Some(*value)), (None, Some(*value)), (Some(*key), None)] {
                    for timestamp in [-1, 0, i64::MIN, i64::MAX] {
                        let (offset, timestamp) = (Offset(timestamp.max(0)), Timestamp(timestamp));
                        let record = Record { offset, timestamp, key, value, headers: Headers::default() };
                        let mut out = Vec::new();
                        render(renderer, &record, &mut out);
                        assert_eq!(len(renderer, &record), Some(out.len() as u64), "{out:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_base64() {
        assert_eq!(escaped(b"\xc3\x28"), r#"{"base64":"wyg="}"#);
        assert_eq!(escaped(b"\x00\x00"), r#""\u0000\u0000""#);
    }

    #[test]
    fn null_and_empty_differ_and_keys_keep_their_order() {
        let line = rendered(Encodings::default(), None, Some(b""));
        let expected = "{\"topic\":\"t\",\"partition\":3,\"offset\":5,\"timestamp\":null,\"key\":null,\"value\":\"\",\"headers\":[]}\n";
        assert_eq!(line, expected);
    }

    #[test]
    fn json_is_inlined_on_one_line_only_when_asked_for_and_valid() {
        let inline = Encodings { key: Encoding::Text, value: Encoding::Json };
        let value = b"{ \"a\" :\n [1, \"x y\\\" \\\\\"] }";
        assert!(
            rendered(inline, None, Some(value)).contains(r#""value_json":{"a":[1,"x y\" \\"]},"headers""#)
        );
        assert!(rendered(inline, None, Some(b"{oops")).contains(r#""value":"{oops""#));
        assert!(rendered(Encodings::default(), None, Some(b"1")).contains(r#""value":"1""#));
        assert!(
            rendered(inline, None, Some("\"a\u{9b}b\"".as_bytes())).contains(r#""value_json":"a\u009bb""#)
        );
    }
}
