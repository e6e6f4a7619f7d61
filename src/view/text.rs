//! `.txt`, and no extension: the value, then a newline; a null value is an empty line.

use crate::format::record::Record;
use crate::view::encoding::Encoding;

/// Appends `record` to `out`.
#[inline]
pub fn render(values: Encoding, record: &Record<'_>, out: &mut Vec<u8>) {
    values.push(record.value.unwrap_or_default(), out);
    out.push(b'\n');
}

/// The number of bytes that [`render`] appends.
#[inline]
pub fn len(values: Encoding, record: &Record<'_>) -> u64 {
    record.value.map_or(0, |value| values.len(value) as u64) + 1
}
