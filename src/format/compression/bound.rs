//! How large compressed data is at most once it is decompressed, told without decompressing it: by the heads of its blocks.
//!
//! | codec | by |
//! |---|---|
//! | snappy | each chunk's own length |
//! | lz4 | the number of blocks, and how large the frame says that they are at most |
//! | zstd | each block's head: its size, or 128 KiB where it is compressed (RFC 8878, 3.1.1.2) |
//! | gzip | the length in the last member's trailer: a hint, which is wrong where there are several members |
//!
//! What is damaged ends the count; decompressing it ends there, too.

use crate::format::batch::Codec;
use crate::format::compression::{lz4, snappy};

/// The most that a block of zstd has.
const ZSTD_BLOCK: usize = 128 << 10;
/// zstd's frames, and those that are to be skipped, whose last 4 bits may be anything.
const ZSTD_MAGIC: u32 = 0xfd2f_b528;
const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;

/// An upper bound of what `data` decompresses to.
pub(in crate::format) fn decoded_at_most(codec: Codec, data: &[u8]) -> usize {
    match codec {
        Codec::None => 0,
        Codec::Gzip => data.last_chunk().map_or(0, |len| to_usize(u32::from_le_bytes(*len))),
        Codec::Snappy => snappy::decoded_len(data),
        Codec::Lz4 => lz4::decoded_at_most(data),
        Codec::Zstd => zstd(data),
    }
}

/// The same for zstd.
pub(super) fn zstd(mut data: &[u8]) -> usize {
    let mut total: usize = 0;
    while let Some((magic, rest)) = data.split_first_chunk() {
        let magic = u32::from_le_bytes(*magic);
        let after = if magic & !0xf == ZSTD_SKIPPABLE {
            rest.split_first_chunk().and_then(|(len, rest)| rest.get(to_usize(u32::from_le_bytes(*len))..))
        } else if magic == ZSTD_MAGIC {
            zstd_frame(rest, &mut total)
        } else {
            None
        };
        match after {
            Some(after) => data = after,
            None => break,
        }
    }
    total
}

/// Adds what the blocks of a frame have to `total`; what follows the frame.
fn zstd_frame<'a>(frame: &'a [u8], total: &mut usize) -> Option<&'a [u8]> {
    let (descriptor, rest) = frame.split_first()?;
    let is_single = descriptor & 0x20 != 0;
    let size_len = match (descriptor >> 6, is_single) {
        (0, false) => 0,
        (0, true) => 1,
        (1, _) => 2,
        (2, _) => 4,
        _ => 8,
    };
    let dictionary_len = [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
    let mut rest =
        rest.get(usize::from(!is_single).saturating_add(size_len).saturating_add(*dictionary_len)..)?;
    loop {
        let ([first, second, third], after) = rest.split_first_chunk()?;
        let head = u32::from_le_bytes([*first, *second, *third, 0]);
        let size = to_usize(head >> 3);
        let (stored, decoded) = match head >> 1 & 3 {
            0 => (size, size),
            1 => (1, size.min(ZSTD_BLOCK)),
            _ => (size, ZSTD_BLOCK),
        };
        *total = total.saturating_add(decoded);
        rest = after.get(stored..)?;
        if head & 1 != 0 {
            return rest.get(if descriptor & 4 != 0 { 4 } else { 0 }..);
        }
    }
}

fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
