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
use crate::view::json_string;

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
    bytes.len() + 2 + json_string::extra_len(bytes)
}

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
    json_string::push_escaped(text, out);
    out.push(b'"');
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
            let used = json_string::push_escape(bytes, out);
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
