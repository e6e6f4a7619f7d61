//! Templates: what is accepted renders as kcat's own code does, which is written again here, line by line; its length is what was measured.

use std::sync::{Arc, LazyLock};

use topicfs::format::batch::{Batch, Decoder};
use topicfs::units::TopicPartition;
use topicfs::view::format::{Formats, Renderer, Rendering};
use topicfs::view::template::{MAX_LEN, MAX_PAYLOADS, Template, TemplateError};

use crate::LIMITS;
use crate::oracle::{self, Plain};

/// The text of a template.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => return refused(text, &error),
    };
    assert_eq!(template.text(), text);
    let mut formats = Formats::default();
    formats.add("own", template).expect("the name is free");
    let format = formats.of_extension("own").expect("it was added");
    let name = TopicPartition { topic: "tea".into(), partition: 7 };
    let renderer = Renderer::new(&name, Rendering { formats: Arc::new(formats), ..Rendering::default() });
    let batch = Batch::parse(&RECORDS.1).expect("it is sound");
    let mut decoder = Decoder::default();
    let records = batch.records(&mut decoder, &LIMITS).expect("it is sound");
    for (record, plain) in records.zip(&RECORDS.0) {
        let record = record.expect("it is sound");
        let mut rendered = Vec::new();
        renderer.render(format, &record, &mut rendered);
        let measured = renderer.measure(format, &record, &mut Vec::new());
        assert_eq!(measured, rendered.len() as u64, "{text:?}: the length is not that of the rendering");
        let payload = oracle::payload_v2(plain.offset, 0, std::slice::from_ref(plain)).len() * 2;
        assert!(
            rendered.len() <= MAX_LEN * 10 + MAX_PAYLOADS * payload,
            "{text:?}: {} bytes",
            rendered.len()
        );
        // Ours, and what no argument of a program can hold.
        if !text.contains("%{") && !text.contains('\0') {
            let theirs = kcat(text.as_bytes(), plain);
            assert_eq!(theirs.ok().as_deref(), Some(&rendered[..]), "{text:?}: kcat prints something else");
        }
    }
}

/// What is refused, kcat refuses too, or takes for something that nobody means; or it is too much.
fn refused(text: &str, error: &TemplateError) {
    let message = error.to_string();
    assert!(!message.contains('\n'), "the message has several lines: {message}");
    let is_too_much = matches!(
        error,
        TemplateError::Empty
            | TemplateError::TooLong { .. }
            | TemplateError::TooManyFields
            | TemplateError::TooManyPayloads
    );
    if !is_too_much && !text.contains("%{") && !text.contains('\0') {
        assert!(kcat(text.as_bytes(), &RECORDS.0[0]).is_err(), "{text:?}: kcat takes it: {message}");
    }
}

/// Records of all kinds, and the batch that they are in.
static RECORDS: LazyLock<(Vec<Plain>, Vec<u8>)> = LazyLock::new(|| {
    let record = |offset: i64, key: Option<&[u8]>, value: Option<&[u8]>, names: &[&str]| Plain {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: key.map(<[u8]>::to_vec),
        value: value.map(<[u8]>::to_vec),
        headers: names.iter().map(|name| (name.as_bytes().to_vec(), value.map(<[u8]>::to_vec))).collect(),
    };
    let records = vec![
        record(0, Some(b"key"), Some(b"value\xff%s\\n"), &["a", "b"]),
        record(1, None, None, &["", "a"]),
        record(2, Some(b""), Some(b""), &["c"]),
        record(3, Some(b"k"), Some(&[b'x'; 300]), &[]),
    ];
    let mut entry = vec![0; 61];
    entry[16] = 2;
    entry[26] = 3;
    entry[43..57].fill(0xff);
    entry[60] = 4;
    entry.extend(oracle::payload_v2(0, 0, &records));
    oracle::repair_whole(&mut entry);
    (records, entry)
});

/// kcat ends, or nobody can mean what it does.
#[derive(Debug)]
struct Refused;

/// `fmt_parse` and `fmt_msg_output_str` of kcat 1.7, without the end of texts at NUL bytes.
fn kcat(format: &[u8], record: &Plain) -> Result<Vec<u8>, Refused> {
    let len = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(-1, |bytes| bytes.len() as i64);
    let mut out = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        out.extend(fmt_add(&rest[..at])?);
        match rest.get(at + 1).ok_or(Refused)? {
            b'o' => out.extend(record.offset.to_string().bytes()),
            b'k' => out.extend(record.key.iter().flatten()),
            b'K' => out.extend(len(&record.key).to_string().bytes()),
            b's' => out.extend(record.value.iter().flatten()),
            b'S' => out.extend(len(&record.value).to_string().bytes()),
            b'R' => out.extend((len(&record.value) as u32).to_be_bytes()),
            b't' => out.extend(b"tea"),
            b'p' => out.push(b'7'),
            b'T' => out.extend(record.timestamp.to_string().bytes()),
            b'h' => {
                for (index, (name, value)) in record.headers.iter().enumerate() {
                    out.extend(if index > 0 { &b","[..] } else { b"" });
                    out.extend(name.iter().chain(b"=").chain(value.as_deref().unwrap_or(b"NULL")));
                }
            }
            b'%' => out.push(b'%'),
            _ => return Err(Refused),
        }
        rest = &rest[at + 2..];
    }
    out.extend(fmt_add(rest)?);
    Ok(out)
}

fn fmt_add(text: &[u8]) -> Result<Vec<u8>, Refused> {
    let at = |index: usize| text.get(index).copied().unwrap_or(0);
    let mut out = Vec::new();
    let mut s = 0;
    while at(s) != 0 {
        if at(s) == b'\\' && at(s + 1) != 0 {
            s += 1;
            match at(s) {
                b't' => out.push(b'\t'),
                b'n' => out.push(b'\n'),
                b'r' => out.push(b'\r'),
                first => {
                    let mut base = 0;
                    if first == b'x' {
                        s += 1;
                        base = 16;
                    }
                    if at(s).is_ascii_digit() {
                        let (number, len) = strtoul(&text[s..], base);
                        out.push(u8::try_from(number).map_err(|_| Refused)?);
                        s += len - 1;
                    } else if base == 16 {
                        return Err(Refused);
                    } else {
                        out.push(at(s));
                    }
                }
            }
        } else {
            out.push(at(s));
        }
        s += 1;
    }
    Ok(out)
}

/// C's, of a text that begins with a digit: the number and how much of the text it is.
fn strtoul(text: &[u8], base: u32) -> (u64, usize) {
    let text = std::str::from_utf8(&text[..text.iter().take_while(|byte| byte.is_ascii()).count()])
        .expect("it is ASCII");
    let lower = text.to_ascii_lowercase();
    let hexadecimal =
        lower.strip_prefix("0x").filter(|rest| rest.starts_with(|c: char| c.is_ascii_hexdigit()));
    let (digits, skipped, base) = match (hexadecimal, base) {
        (Some(rest), _) => (rest, 2, 16),
        (None, 0) if lower.starts_with('0') => (&lower[..], 0, 8),
        (None, 0) => (&lower[..], 0, 10),
        (None, base) => (&lower[..], 0, base),
    };
    let len = digits.chars().take_while(|c| c.is_digit(base)).count();
    (u64::from_str_radix(&digits[..len], base).unwrap_or(u64::MAX), skipped + len)
}
