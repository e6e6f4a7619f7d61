//! Lines of `append.jsonl`: the objects that `.jsonl` shows.
//!
//! | member | is |
//! |---|---|
//! | `topic`, `partition`, `offset` | any JSON, not used: so a line of another partition can be appended as it is |
//! | `timestamp` | a whole number of milliseconds; null, -1 or none of it is the time of appending |
//! | `key`, `value` | bytes; null or none of it is null |
//! | `key_json`, `value_json` | any JSON, in place of `key` or `value`: the bytes are that JSON as it stands in the line |
//! | `headers` | `[[name, value], ..]`: each of them bytes, only the value can be null |
//!
//! Bytes are a string, `{"base64":".."}` (RFC 4648, with padding), or `{"hex":".."}` (digits of either case). Members come in any
//! order. No other member is possible and none twice: a name with a typing error must not lose data.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::units::Timestamp;
use crate::view::encoding::Encoding;
use crate::view::lines::error::{LineError, Place, quote};
use crate::view::lines::{LineHeader, LineRecord, some_time};

/// The members, in the order of [`Members::values`].
pub(super) const NAMES: [&str; 9] =
    ["topic", "partition", "offset", "timestamp", "key", "key_json", "value", "value_json", "headers"];

/// Reads a line.
///
/// # Errors
/// Why it is no record.
pub fn parse(line: &[u8]) -> Result<LineRecord<'_>, LineError> {
    let text =
        std::str::from_utf8(line).map_err(|error| LineError::NotUtf8 { at: error.valid_up_to() + 1 })?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(LineError::NotAnObject { got: quote(line) });
    }
    let members: Members<'_> = serde_json::from_str(text).map_err(|error| syntax(&error))?;
    if let Some(fault) = members.fault {
        return Err(fault);
    }
    let [_, _, _, timestamp, key, key_json, value, value_json, headers] = members.values;
    Ok(LineRecord {
        timestamp: time(timestamp)?,
        key: payload(Place::Key, key, key_json)?,
        value: payload(Place::Value, value, value_json)?,
        headers: headers.map_or(Ok(Vec::new()), self::headers)?,
    })
}

/// The members of an object, each as it stands in the line.
struct Members<'a> {
    values: [Option<&'a RawValue>; NAMES.len()],
    /// What is wrong with their names, which matters only if all of it is JSON.
    fault: Option<LineError>,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members { values: [None; NAMES.len()], fault: None };
        while let Some((name, value)) = map.next_entry::<Name, &RawValue>()? {
            let fault = match name {
                Name::Known(index) => members.set(index, value),
                Name::Unknown(name) => Err(LineError::UnknownMember { name }),
            };
            members.fault = members.fault.or(fault.err());
        }
        Ok(members)
    }
}

impl<'a> Members<'a> {
    fn set(&mut self, index: usize, value: &'a RawValue) -> Result<(), LineError> {
        match self.values.get_mut(index).map(|slot| slot.replace(value)) {
            Some(Some(_)) => {
                Err(LineError::RepeatedMember { name: NAMES.get(index).copied().unwrap_or_default() })
            }
            _ => Ok(()),
        }
    }
}

/// The name of a member.
enum Name {
    /// Its index in [`NAMES`].
    Known(usize),
    /// As messages quote it.
    Unknown(String),
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl Visitor<'_> for NameVisitor {
    type Value = Name;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Name, E> {
        let index = NAMES.iter().position(|known| *known == name);
        Ok(index.map_or_else(|| Name::Unknown(quote(name.as_bytes())), Name::Known))
    }
}

fn time(raw: Option<&RawValue>) -> Result<Option<Timestamp>, LineError> {
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else { return Ok(None) };
    let ms = raw.parse().map_err(|_| LineError::Timestamp { got: quote(raw.as_bytes()) })?;
    Ok(some_time(ms))
}

/// The key or the value, from whichever of its two members is there.
fn payload<'a>(
    place: Place,
    plain: Option<&'a RawValue>,
    json: Option<&'a RawValue>,
) -> Result<Option<Cow<'a, [u8]>>, LineError> {
    match (plain, json) {
        (Some(_), Some(_)) => {
            let name = if place == Place::Key { "key" } else { "value" };
            Err(LineError::BothForms { name })
        }
        (None, Some(json)) => Ok(Some(Cow::Borrowed(json.get().as_bytes()))),
        (Some(plain), None) => bytes(place, plain),
        (None, None) => Ok(None),
    }
}

fn headers(raw: &RawValue) -> Result<Vec<LineHeader<'_>>, LineError> {
    if raw.get() == "[]" {
        return Ok(Vec::new());
    }
    let pairs: Vec<&RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| LineError::Headers { got: quote(raw.get().as_bytes()) })?;
    (1..).zip(pairs).map(|(count, pair)| header(count, pair)).collect()
}

fn header(count: usize, pair: &RawValue) -> Result<LineHeader<'_>, LineError> {
    let [name, value]: [&RawValue; 2] = serde_json::from_str(pair.get())
        .map_err(|_| LineError::Header { count, got: quote(pair.get().as_bytes()) })?;
    let name = bytes(Place::HeaderName(count), name)?.ok_or(LineError::HeaderName { count })?;
    Ok((name, bytes(Place::HeaderValue(count), value)?))
}

/// Bytes of either form; `None` for null.
fn bytes(place: Place, raw: &RawValue) -> Result<Option<Cow<'_, [u8]>>, LineError> {
    let raw = raw.get();
    // What a valid JSON text is, its first byte says.
    match raw.as_bytes() {
        [b'n', ..] => Ok(None),
        [b'"', ..] => string(place, raw).map(|text| Some(into_bytes(text))),
        [b'{', ..] => decoded(place, raw).map(|bytes| Some(Cow::Owned(bytes))),
        other => Err(LineError::Payload { place, got: quote(other) }),
    }
}

fn into_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// The text of a valid JSON string.
fn string(place: Place, raw: &str) -> Result<Cow<'_, str>, LineError> {
    if memchr::memchr(b'\\', raw.as_bytes()).is_none() {
        let text = raw.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
        return Ok(Cow::Borrowed(text.unwrap_or_default()));
    }
    serde_json::from_str(raw)
        .map(Cow::Owned)
        .map_err(|error| LineError::Text { place, cause: without_place(&error) })
}

/// An object with bytes under the name of their encoding.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded<'a> {
    #[serde(borrow)]
    base64: Option<&'a RawValue>,
    #[serde(borrow)]
    hex: Option<&'a RawValue>,
}

fn decoded(place: Place, raw: &str) -> Result<Vec<u8>, LineError> {
    let other = || LineError::Payload { place, got: quote(raw.as_bytes()) };
    let encoded: Encoded<'_> = serde_json::from_str(raw).map_err(|_| other())?;
    let (encoding, inner) = match (encoded.base64, encoded.hex) {
        (Some(base64), None) => (Encoding::Base64, base64.get()),
        (None, Some(hex)) => (Encoding::Hex, hex.get()),
        _ => return Err(other()),
    };
    if !inner.starts_with('"') {
        return Err(other());
    }
    let text = string(place, inner)?;
    let bytes = match encoding {
        Encoding::Base64 => STANDARD.decode(text.as_bytes()).ok(),
        _ => from_hex(text.as_bytes()),
    };
    let got = || quote(text.as_bytes());
    bytes.ok_or_else(|| LineError::Encoded { place, encoding: encoding.name(), got: got() })
}

fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let nibble = |digit: u8| char::from(digit).to_digit(16).and_then(|nibble| u8::try_from(nibble).ok());
    pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
}

fn syntax(error: &serde_json::Error) -> LineError {
    LineError::Syntax { at: error.column(), cause: without_place(error) }
}

/// The parser's words without its place, which is the one within a part of the line.
fn without_place(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    quote(message.strip_suffix(&place).unwrap_or(&message).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(line: &str) -> LineRecord<'_> {
        parse(line.as_bytes()).unwrap()
    }

    fn value(text: &str) -> Option<Vec<u8>> {
        record(&format!("{{\"value\":{text}}}")).value.map(Cow::into_owned)
    }

    fn message(line: &str) -> String {
        parse(line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn all_members_in_any_order() {
        let line = r#" { "headers" : [ ["h","x"] , ["h",null],["",""] ] , "value":"v","key":"k","timestamp":-5,"offset":"any","partition":[{}],"topic":"\ud800" } "#;
        let record = record(line);
        assert_eq!(record.timestamp, Some(Timestamp(-5)));
        assert_eq!((record.key.as_deref(), record.value.as_deref()), (Some(&b"k"[..]), Some(&b"v"[..])));
        let headers: Vec<_> = record
            .headers()
            .iter()
            .map(|header| (header.name.to_vec(), header.value.map(<[u8]>::to_vec)))
            .collect();
        let text = |text: &str| text.as_bytes().to_vec();
        assert_eq!(headers, [(text("h"), Some(text("x"))), (text("h"), None), (text(""), Some(text("")))]);
    }

    #[test]
    fn what_is_absent_is_null_or_the_time_of_appending() {
        assert_eq!(record("{}"), LineRecord::default());
        let nulls = r#"{"timestamp":null,"key":null,"value":null,"headers":[]}"#;
        assert_eq!(record(nulls), LineRecord::default());
        assert_eq!(record(r#"{"timestamp":-1}"#), LineRecord::default());
        assert_eq!(record(r#"{"\u006bey":""}"#).key.as_deref(), Some(&b""[..]));
    }

    #[test]
    fn bytes_have_three_forms() {
        assert_eq!(value(r#""a\n\u00e9\ud83d\ude00\/""#), Some("a\né😀/".as_bytes().to_vec()));
        assert_eq!(value(r#"{"base64":"wyg="}"#), Some(b"\xc3\x28".to_vec()));
        assert_eq!(value(r#"{"base64":"\/\/8="}"#), Some(b"\xff\xff".to_vec()));
        assert_eq!(value(r#" { "hex" : "00fF" } "#), Some(b"\x00\xff".to_vec()));
        assert_eq!(value(r#"{"hex":""}"#), Some(Vec::new()));
    }

    #[test]
    fn json_is_kept_as_it_stands() {
        for json in ["null", "{ \"a\" : [1, 2.50] }", r#""\ud800""#, "1e400", "\"\u{7f}\"", "[]"] {
            let line = format!(r#"{{"key_json": {json} ,"value_json":{json}}}"#);
            let record = record(&line);
            assert_eq!(record.key.as_deref(), Some(json.as_bytes()));
            assert!(matches!(record.value, Some(Cow::Borrowed(bytes)) if bytes == json.as_bytes()));
        }
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let line = format!(r#"{{"value_json":{deep}}}"#);
        assert_eq!(record(&line).value.as_deref(), Some(deep.as_bytes()));
    }

    #[test]
    fn what_has_no_escapes_is_borrowed() {
        let record = record(r#"{"key":"é","value":"v","headers":[["h","x"]]}"#);
        assert!(matches!((record.key, record.value), (Some(Cow::Borrowed(_)), Some(Cow::Borrowed(_)))));
        assert!(matches!(record.headers[..], [(Cow::Borrowed(_), Some(Cow::Borrowed(_)))]));
    }

    #[test]
    fn names_are_exact_and_come_once() {
        let names = "topic, partition, offset, timestamp, key, key_json, value, value_json, headers";
        assert_eq!(
            message(r#"{"valeu":"v"}"#),
            format!("`valeu` is no member of a record: there are {names}")
        );
        assert!(matches!(parse(br#"{"Key":1}"#), Err(LineError::UnknownMember { .. })));
        let long = format!(r#"{{"{}\u001b":1}}"#, "x".repeat(500));
        assert_eq!(
            message(&long),
            format!("`{}…` is no member of a record: there are {names}", "x".repeat(60))
        );
        for name in NAMES {
            let line = format!(r#"{{"{name}":null,"{name}":null}}"#);
            assert_eq!(parse(line.as_bytes()), Err(LineError::RepeatedMember { name }));
        }
        for name in ["key", "value"] {
            let line = format!(r#"{{"{name}":null,"{name}_json":null}}"#);
            assert_eq!(message(&line), format!("both `{name}` and `{name}_json`: one of them is possible"));
        }
    }

    #[test]
    fn what_is_no_object_is_told_from_what_is_cut() {
        assert_eq!(message(""), "`` is no JSON object");
        assert_eq!(message("[1]"), "`[1]` is no JSON object");
        assert_eq!(message("hello\u{1b}"), "`hello\\u{1b}` is no JSON object");
        assert_eq!(message(r#"{"value":"v"} x"#), "byte 15: trailing characters");
        assert_eq!(message(r#"{"value":"v"}{}"#), "byte 14: trailing characters");
        assert_eq!(message(r#"{"value":"v"#), "byte 11: EOF while parsing a string");
        assert_eq!(message(r#"{"valeu":1"#), "byte 10: EOF while parsing an object");
        assert_eq!(message(r#"{value:1}"#), "byte 2: key must be a string");
        assert_eq!(message(r#"{"value":tru}"#), "byte 13: expected ident");
        assert!(matches!(parse(b"{\"value\":\"a\nb\"}"), Err(LineError::Syntax { .. })));
        let not_text = "byte 11 is not UTF-8; other bytes are {\"base64\":\"..\"}";
        assert_eq!(parse(b"{\"value\":\"\xff\"}").unwrap_err().to_string(), not_text);
    }

    #[test]
    fn what_is_wrong_in_a_member_is_said_with_its_name() {
        for wrong in ["1.0", "\"1\"", "1e3", "9223372036854775808", "true", "[]"] {
            let expected = format!("timestamp: `{wrong}` is no whole number of milliseconds, and not null");
            assert_eq!(message(&format!(r#"{{"timestamp":{wrong}}}"#)), expected);
        }
        let forms = r#"is not a string, null, {"base64":".."} or {"hex":".."}"#;
        for wrong in [
            "1",
            "true",
            "[\"a\"]",
            "{}",
            r#"{"base64":null}"#,
            r#"{"base64":1}"#,
            r#"{"hex":"","base64":""}"#,
            r#"{"hex":"","hex":""}"#,
            r#"{"text":""}"#,
        ] {
            let expected = format!("value: `{wrong}` {forms}; any JSON can be `value_json`");
            assert_eq!(message(&format!(r#"{{"value":{wrong}}}"#)), expected);
        }
        assert_eq!(message(r#"{"key":1}"#), format!("key: `1` {forms}; any JSON can be `key_json`"));
        assert_eq!(message(r#"{"key":{"base64":"wyg"}}"#), "key: `wyg` is not base64");
        assert_eq!(message(r#"{"key":{"hex":"0"}}"#), "key: `0` is not hex");
        assert_eq!(message(r#"{"key":{"hex":"0g"}}"#), "key: `0g` is not hex");
        assert_eq!(message(r#"{"key":"\ud800"}"#), "key: unexpected end of hex escape");
        assert_eq!(message(r#"{"value":"\udc00"}"#), "value: lone leading surrogate in hex escape");
    }

    #[test]
    fn what_is_wrong_in_a_header_is_said_with_its_count() {
        let of = |headers: &str| message(&format!(r#"{{"headers":{headers}}}"#));
        assert_eq!(of("null"), "headers: `null` is not [[name, value], ..]");
        assert_eq!(of(r#"{"a":"b"}"#), r#"headers: `{"a":"b"}` is not [[name, value], ..]"#);
        assert_eq!(of(r#"[["a","b"],"c"]"#), r#"header 2: `"c"` is not [name, value]"#);
        assert_eq!(of(r#"[["a"]]"#), r#"header 1: `["a"]` is not [name, value]"#);
        assert_eq!(of(r#"[["a","b","c"]]"#), r#"header 1: `["a","b","c"]` is not [name, value]"#);
        assert_eq!(of(r#"[[null,"b"]]"#), "header 1: its name is null; only its value can be");
        let forms = r#"is not a string, null, {"base64":".."} or {"hex":".."}"#;
        assert_eq!(of(r#"[[1,"b"]]"#), format!("header 1, name: `1` {forms}"));
        assert_eq!(of(r#"[["a",[]]]"#), format!("header 1, value: `[]` {forms}"));
    }
}
