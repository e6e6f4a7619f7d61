//! What the first bytes of a file tell of it, whatever its name says.

use std::io;
use std::path::Path;

use crate::format::batch::{Batch, Decoder, Limits, PREFIX_LEN, Prefix};
use crate::format::names::Packing;
use crate::log::files::{self, ReadAt};
use crate::log::segment::scan::{Scanner, Start, Step};
use crate::units::{Offset, Position};

/// Bytes that tell what a file is.
pub(in crate::log) const HEAD_LEN: usize = 64;

/// The first bytes of a file.
///
/// # Errors
/// The system's.
pub fn head_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = [0; HEAD_LEN];
    let read = files::read_full(&files::open(path)?, &mut bytes, 0)?;
    Ok(bytes[..read].to_vec())
}

/// Whether these first bytes can't be a segment's: an offset that is printable has eight printable bytes.
pub fn looks_like_text(head: &[u8]) -> bool {
    head.len() >= 8 && head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// How a file with these first bytes was compressed, if it was.
pub fn packing_of(head: &[u8]) -> Option<Packing> {
    Packing::ALL.into_iter().find(|packing| head.starts_with(packing.magic()))
}

/// Whether the first entry of a segment has an offset below `base`, that of its name: people have renamed it.
pub fn begins_below(file: &impl ReadAt, base: Offset) -> bool {
    let mut bytes = [0; PREFIX_LEN];
    let read = files::read_full(file, &mut bytes, 0).unwrap_or(0);
    let prefix = Prefix::read(&bytes[..read]).filter(|prefix| prefix.entry_len().is_some());
    prefix.is_some_and(|prefix| (0..base.0).contains(&prefix.offset.0))
}

/// Whether these first bytes could begin a batch that is within the limits.
pub fn looks_like_batch(head: &[u8], limits: Limits) -> bool {
    let prefix = Prefix::read(head).filter(|prefix| (0..=2).contains(&prefix.magic) && prefix.offset.0 >= 0);
    prefix.and_then(|prefix| prefix.entry_len()).is_some_and(|len| len <= limits.max_batch_bytes)
}

/// Whether a sound batch begins `file`.
pub fn begins_with_batch(file: &impl ReadAt, limits: Limits) -> bool {
    let mut bytes = vec![0; PREFIX_LEN];
    let read = |bytes: &mut [u8]| files::read_full(file, bytes, 0).is_ok_and(|read| read == bytes.len());
    if !read(&mut bytes) {
        return false;
    }
    let prefix = Prefix::read(&bytes).filter(|prefix| (0..=2).contains(&prefix.magic));
    let Some(len) = prefix.and_then(|prefix| prefix.entry_len()).filter(|len| *len <= limits.max_batch_bytes)
    else {
        return false;
    };
    bytes.resize(len, 0);
    read(&mut bytes) && Batch::parse(&bytes).is_ok()
}

/// The first offset of the first sound batch in `file`; `None` when there is none.
///
/// # Errors
/// The system's.
pub fn first_offset(file: impl ReadAt, len: u64, limits: Limits) -> io::Result<Option<Offset>> {
    let start = Start::new(Position(0), Offset(0), Offset(i64::MAX));
    let mut scanner = Scanner::new(file, len, start, limits);
    loop {
        match scanner.step()? {
            Step::Batch { batch, .. } => return Ok(batch.first_offset(&mut Decoder::default(), &limits)),
            Step::Damage(_) => {}
            Step::End(_) => return Ok(None),
        }
    }
}
