//! `.tsv`: offset, timestamp, key and value with tabs between, in PostgreSQL's COPY text format: null is `\N`, and a tab,
//! newline, carriage return or backslash is `\t`, `\n`, `\r`, `\\`. Other bytes are as they are, or encoded as the topic's
//! options say.

use crate::format::record::Record;
use crate::view::encoding::{Encoding, Encodings};
use crate::view::jsonl::{push_integer, push_timestamp};

/// Appends `record` to `out`.
pub fn render(encodings: Encodings, record: &Record<'_>, out: &mut Vec<u8>) {
    push_integer(record.offset.0, out);
    out.push(b'\t');
    push_timestamp(record.timestamp, b"\\N", out);
    out.push(b'\t');
    push_field(encodings.key, record.key, out);
    out.push(b'\t');
    push_field(encodings.value, record.value, out);
    out.push(b'\n');
}

fn push_field(encoding: Encoding, field: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(mut rest) = field else {
        out.extend_from_slice(b"\\N");
        return;
    };
    if encoding.is_plain() {
        encoding.push(rest, out);
        return;
    }
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'\\')) {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((byte, after)) = special.split_first() else { return };
        out.extend_from_slice(match byte {
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            _ => b"\\\\",
        });
        rest = after;
    }
    out.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Headers;
    use crate::units::{Offset, Timestamp};

    fn rendered(timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> String {
        let record = Record {
            offset: Offset(7),
            timestamp: Timestamp(timestamp),
            key,
            value,
            headers: Headers::default(),
        };
        let mut out = Vec::new();
        render(Encodings::default(), &record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn null_differs_from_empty_and_escapes_are_copys() {
        assert_eq!(rendered(5, None, Some(b"")), "7\t5\t\\N\t\n");
        assert_eq!(rendered(-1, Some(b"a\tb"), Some(b"c\\\r\nd")), "7\t\\N\ta\\tb\tc\\\\\\r\\nd\n");
        assert_eq!(rendered(0, Some(b"\\N"), None), "7\t0\t\\\\N\t\\N\n");
    }
}
