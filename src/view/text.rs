//! `.txt`, and no extension: the value, then a newline; a null value is an empty line.

use crate::format::record::Record;

/// Appends `record` to `out`.
#[inline]
pub fn render(record: &Record<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(record.value.unwrap_or_default());
    out.push(b'\n');
}

/// The number of bytes that [`render`] appends.
#[inline]
pub fn len(record: &Record<'_>) -> u64 {
    record.value.map_or(0, |value| value.len() as u64) + 1
}
