//! What the tests of this layer share.

use crate::format::record::Record;

/// Bytes from hexadecimal digits.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Offset, timestamp, key, value and headers, to compare with.
pub(crate) type Owned = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

pub(crate) fn owned(record: &Record<'_>) -> Owned {
    let vec = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let headers = record.headers.iter().map(|header| (header.name.to_vec(), vec(header.value)));
    (record.offset.0, record.timestamp.0, vec(record.key), vec(record.value), headers.collect())
}
