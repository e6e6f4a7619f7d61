//! LZ4 frames as Kafka reads them: blocks that don't depend on each other, one frame, no dictionary.
//!
//! | bytes | what |
//! |---|---|
//! | 4 | magic `04 22 4d 18` |
//! | 1 | version 1 (64), independent blocks (32), block checksums (16), content size (8), content checksum (4) |
//! | 1 | block size: 4 to 7 for 64 KiB, 256 KiB, 1 MiB, 4 MiB (bits 4 to 6) |
//! | 8 | content size, if flagged |
//! | 1 | second byte of the XXH32 of the descriptor (all of the above but the magic) |
//! | 4 + n | blocks: length (top bit: stored as it is), data, XXH32 if flagged |
//! | 4 | 0, the end mark |
//!
//! All numbers are little-endian. Writers of magic 0 computed the header checksum from the magic on (KAFKA-3160), so that
//! it isn't checked there. As in Kafka, content size and content checksum are not looked at, nor is anything after the
//! end mark. A frame that ends with a block and no end mark (KAFKA-4549) is read; the count of records shows what is missing.

use lz4_flex::block::{DecompressError, decompress_into};
use twox_hash::XxHash32;

use crate::format::compression::Stop;
use crate::format::compression::output::Output;

pub(super) const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// The bit of a block that is as it was.
pub(super) const STORED: u32 = 1 << 31;
const CUT: Stop = Stop::Bad("it is cut short");

struct Frame {
    max_block_len: usize,
    has_block_checksums: bool,
}

pub(super) fn decode(magic: u8, data: &[u8], output: &mut Output) -> Result<(), Stop> {
    let (frame, mut rest) = header(magic, data)?;
    while !rest.is_empty() {
        let (word, after) = u32_le(rest)?;
        if word == 0 {
            return Ok(());
        }
        let len = usize::try_from(word & !STORED).map_err(|_| CUT)?;
        if len > frame.max_block_len {
            return Err(Stop::Bad("a block is larger than the frame allows"));
        }
        let (block, after) = after.split_at_checked(len).ok_or(CUT)?;
        rest = if frame.has_block_checksums { checked(block, after)? } else { after };
        if word & STORED == 0 { decompress(block, &frame, output)? } else { output.append(block)? }
    }
    Ok(())
}

/// What `data` decompresses to at most, by the number of its blocks.
pub(super) fn decoded_at_most(data: &[u8]) -> usize {
    let Ok((frame, mut rest)) = header(0, data) else { return 0 };
    let mut total: usize = 0;
    while let Ok((word, after)) = u32_le(rest) {
        let Ok(len) = usize::try_from(word & !STORED) else { break };
        let behind = len.saturating_add(if frame.has_block_checksums { 4 } else { 0 });
        let Some(after) = after.get(behind..).filter(|_| word != 0) else { break };
        total = total.saturating_add(if word & STORED == 0 { frame.max_block_len } else { len });
        rest = after;
    }
    total
}

/// Reads the frame's header and returns what follows it.
fn header(magic: u8, data: &[u8]) -> Result<(Frame, &[u8]), Stop> {
    let descriptor = data.strip_prefix(&MAGIC).ok_or(Stop::Bad("it has no lz4 frame header"))?;
    let &[flags, block_size, ..] = descriptor else {
        return Err(CUT);
    };
    if flags >> 6 != 1 {
        return Err(Stop::Bad("its version isn't 1"));
    }
    if flags & 0x20 == 0 {
        return Err(Stop::Bad("its blocks depend on each other"));
    }
    if flags & 0x03 != 0 || block_size & 0x8f != 0 {
        return Err(Stop::Bad("it has a dictionary, or reserved bits are set"));
    }
    let max_block_len = match block_size >> 4 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return Err(Stop::Bad("its block size is unknown")),
    };
    let len = if flags & 0x08 == 0 { 2 } else { 10 };
    let (descriptor, rest) = descriptor.split_at_checked(len).ok_or(CUT)?;
    let (&checksum, rest) = rest.split_first().ok_or(CUT)?;
    let [_, _, expected, _] = XxHash32::oneshot(0, descriptor).to_be_bytes();
    if magic > 0 && checksum != expected {
        return Err(Stop::Bad("its header checksum is wrong"));
    }
    Ok((Frame { max_block_len, has_block_checksums: flags & 0x10 != 0 }, rest))
}

/// Checks a block against the checksum behind it and returns what follows.
fn checked<'a>(block: &[u8], after: &'a [u8]) -> Result<&'a [u8], Stop> {
    let (checksum, rest) = u32_le(after)?;
    if checksum == XxHash32::oneshot(0, block) {
        Ok(rest)
    } else {
        Err(Stop::Bad("a block's checksum is wrong"))
    }
}

fn decompress(block: &[u8], frame: &Frame, output: &mut Output) -> Result<(), Stop> {
    let spare = output.spare(frame.max_block_len)?;
    let room = spare.len().min(frame.max_block_len);
    let spare = spare.get_mut(..room).unwrap_or_default();
    match decode_block(block, spare) {
        Ok(written) => output.advance(written),
        Err(DecompressError::OutputTooSmall { .. }) if room < frame.max_block_len => Err(Stop::Full),
        Err(DecompressError::OutputTooSmall { .. }) => {
            Err(Stop::Bad("a block is larger than the frame allows"))
        }
        Err(_) => Err(Stop::Bad("a block is damaged")),
    }
}

/// Stays a function of its own: inlined, the decoder's loop comes out at little more than half its speed.
#[inline(never)]
fn decode_block(block: &[u8], spare: &mut [u8]) -> Result<usize, DecompressError> {
    decompress_into(block, spare)
}

fn u32_le(bytes: &[u8]) -> Result<(u32, &[u8]), Stop> {
    let (word, rest) = bytes.split_first_chunk().ok_or(CUT)?;
    Ok((u32::from_le_bytes(*word), rest))
}
