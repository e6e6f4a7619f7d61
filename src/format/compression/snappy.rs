//! Snappy: xerial's stream, which the Java client writes, or one raw block, as other clients do.
//!
//! The stream is a header of 16 bytes (8 of magic, two versions), then chunks: i32 length, big-endian, and a raw block.
//! A fresh header may stand where a chunk's length is expected. Chunks have 32 KiB of data, or 1 KiB (KAFKA-5236).

use crate::format::compression::Stop;
use crate::format::compression::output::Output;

pub(super) const XERIAL_MAGIC: &[u8; 8] = b"\x82SNAPPY\0";

pub(super) fn decode(data: &[u8], output: &mut Output) -> Result<(), Stop> {
    let Some(mut rest) = after_header(data) else {
        return block(data, output);
    };
    while !rest.is_empty() {
        if let Some(after) = after_header(rest) {
            rest = after;
            continue;
        }
        let (len, after) = rest.split_first_chunk().ok_or(Stop::Bad("a chunk's length is cut short"))?;
        let len = usize::try_from(i32::from_be_bytes(*len))
            .map_err(|_| Stop::Bad("a chunk's length is negative"))?;
        let (chunk, after) = after.split_at_checked(len).ok_or(Stop::Bad("a chunk is cut short"))?;
        block(chunk, output)?;
        rest = after;
    }
    Ok(())
}

/// What `data` decompresses to, by its chunks' own lengths.
pub(super) fn decoded_len(data: &[u8]) -> usize {
    let len_of = |block: &[u8]| {
        snap::raw::decompress_len(block).unwrap_or(0).min(block.len().saturating_mul(MAX_RATIO))
    };
    let Some(mut rest) = after_header(data) else { return len_of(data) };
    let mut total: usize = 0;
    while let Some((len, after)) = rest.split_first_chunk() {
        if let Some(after) = after_header(rest) {
            rest = after;
            continue;
        }
        let len = usize::try_from(i32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let Some((chunk, after)) = after.split_at_checked(len) else { break };
        total = total.saturating_add(len_of(chunk));
        rest = after;
    }
    total
}

fn after_header(data: &[u8]) -> Option<&[u8]> {
    let (header, rest) = data.split_first_chunk::<16>()?;
    header.starts_with(XERIAL_MAGIC).then_some(rest)
}

/// Decompresses one raw block, whose own claim of its length decides how much memory it gets.
fn block(data: &[u8], output: &mut Output) -> Result<(), Stop> {
    let bad = |_| Stop::Bad("a block of it is damaged");
    let len = snap::raw::decompress_len(data).map_err(bad)?;
    if len > data.len().saturating_mul(MAX_RATIO) {
        return Err(Stop::Bad("a block of it claims to be larger than it can be"));
    }
    let spare = output.spare(len)?.get_mut(..len).ok_or(Stop::Full)?;
    let written = snap::raw::Decoder::new().decompress(data, spare).map_err(bad)?;
    output.advance(written)
}

/// A copy of at most 64 bytes takes at least 2 bytes of a block.
const MAX_RATIO: usize = 64;
