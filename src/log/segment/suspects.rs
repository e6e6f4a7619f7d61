//! Batches that the log leaves out although all of their records can be decoded.
//!
//! Something that they say of themselves is wrong: the checksum, or the length or the magic, which no checksum of magic 2 covers
//! and which a right checksum finds out; or their offsets belong elsewhere. None of it may be taken for the log's, but in
//! forensics it may be all that is left. Only entries at the beginning of damage, and those that follow by their
//! lengths, are looked at: what a search would find could be part of a value.

use std::io;
use std::ops::Range;

use crate::format::batch::{Batch, Decoder, Limits, PREFIX_LEN, Prefix, SIZE_OVERHEAD};
use crate::log::files::{ReadAt, read_full};
use crate::units::{Offset, Position};

/// Where an entry's size is.
const SIZE_AT: Range<usize> = 8..SIZE_OVERHEAD;
/// Where its magic is.
const MAGIC_AT: usize = PREFIX_LEN - 1;

/// A batch that may not be what it says.
#[derive(Debug, Clone, Copy)]
pub struct Suspect<'a> {
    /// Where it begins.
    pub position: Position,
    /// Its length in the file.
    pub len: u64,
    /// Its header and bytes, with the length and the magic that its checksum confirms, where it does.
    pub batch: Batch<'a>,
    /// What is wrong with it.
    pub doubt: Doubt,
}

/// What is wrong with a batch that can be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// Some bytes are not what was written.
    #[error("checksum is {got:#010x}, the batch says {expected:#010x}")]
    Checksum {
        /// As stored.
        expected: u32,
        /// As computed.
        got: u32,
    },
    /// Length or magic are damaged; the rest is as it was written, but for what no checksum covers.
    #[error(
        "size is {size} and magic {magic}, the checksum is right for size {right_size} and magic {right_magic}"
    )]
    Frame {
        /// As stored.
        size: i32,
        /// As stored.
        magic: i8,
        /// What the checksum confirms.
        right_size: i32,
        /// What the checksum confirms.
        right_magic: u8,
    },
    /// Its bytes are right, its offsets don't fit where it lies.
    #[error("offsets {first} to {last} are out of place")]
    Place {
        /// Its first offset, as far as its header tells.
        first: Offset,
        /// Its last.
        last: Offset,
    },
}

/// Calls `visit` with each such batch in the bytes `region` of a segment, which belong to no sound batch in its place.
///
/// # Errors
/// The system's.
pub fn for_each<F: ReadAt>(
    file: &F,
    region: Range<u64>,
    limits: &Limits,
    decoder: &mut Decoder,
    mut visit: impl FnMut(&Suspect<'_>, &mut Decoder),
) -> io::Result<()> {
    let (mut bytes, mut at) = (Vec::new(), region.start);
    while region.end.saturating_sub(at) >= PREFIX_LEN as u64 {
        let mut head = [0; PREFIX_LEN];
        read_full(file, &mut head, at)?;
        let Some(stored) = Prefix::read(&head) else { break };
        let rest = usize::try_from(region.end - at).ok().filter(|rest| *rest <= limits.max_batch_bytes);
        let len = stored.entry_len().filter(|len| *len as u64 <= region.end - at);
        let len = len.filter(|len| *len <= limits.max_batch_bytes);
        // Beyond what its length says, it can only be as long as there are bytes.
        let mut found = None;
        for candidate in [len, rest].into_iter().flatten() {
            bytes.resize(candidate, 0);
            if read_full(file, &mut bytes, at)? == candidate {
                found = examine(&mut bytes, stored, limits, decoder);
            }
            if found.is_some() {
                break;
            }
        }
        if let (Some(doubt), Ok(batch)) = (found, Batch::peek(&bytes)) {
            let len = bytes.len() as u64;
            visit(&Suspect { position: Position(at), len, batch, doubt }, decoder);
            at += len;
        } else if let Some(len) = len {
            at += len as u64;
        } else {
            break;
        }
    }
    Ok(())
}

/// What is wrong with the entry in `bytes`, if it can be decoded: as it is, or with another length or magic, which are
/// put in place then.
fn examine(bytes: &mut [u8], stored: Prefix, limits: &Limits, decoder: &mut Decoder) -> Option<Doubt> {
    let size = i32::try_from(bytes.len().checked_sub(SIZE_OVERHEAD)?).ok()?;
    if size == stored.size
        && let Ok(batch) = Batch::peek(bytes)
        && is_decodable(&batch, limits, decoder)
    {
        let (expected, got) = (batch.header.crc, batch.checksum());
        let (first, last) = (batch.header.first_known(), batch.header.last_offset);
        return Some(if expected == got {
            Doubt::Place { first, last }
        } else {
            Doubt::Checksum { expected, got }
        });
    }
    bytes.get_mut(SIZE_AT)?.copy_from_slice(&size.to_be_bytes());
    for magic in [2, 1, 0] {
        *bytes.get_mut(MAGIC_AT)? = magic;
        if let Ok(batch) = Batch::parse(bytes)
            && is_decodable(&batch, limits, decoder)
        {
            let (right_size, right_magic) = (size, magic);
            return Some(Doubt::Frame { size: stored.size, magic: stored.magic, right_size, right_magic });
        }
    }
    None
}

fn is_decodable(batch: &Batch<'_>, limits: &Limits, decoder: &mut Decoder) -> bool {
    batch.records(decoder, limits).is_ok_and(|mut records| records.all(|record| record.is_ok()))
}
