//! Encoders and naive decoders of the four codecs' framings.
//!
//! | codec | encoder | decoder |
//! |---|---|---|
//! | gzip | flate2 | flate2's own reader of gzip |
//! | snappy | snap; xerial's chunks by hand | by hand |
//! | lz4 | stored blocks, by hand | by hand |
//! | zstd | zstd | zstd's streaming reader |

use std::cell::RefCell;
use std::io::{Read, Write};

/// The codecs by their number in the attributes.
pub const GZIP: u8 = 1;
pub const SNAPPY: u8 = 2;
pub const LZ4: u8 = 3;
pub const ZSTD: u8 = 4;

/// `data` compressed by the codec of this number, `None` if there is none.
pub fn encode(codec: u8, data: &[u8]) -> Option<Vec<u8>> {
    Some(match codec {
        0 => data.to_vec(),
        GZIP => gzip(data),
        SNAPPY => xerial(data),
        LZ4 => lz4_stored(data),
        ZSTD => zstd(data),
        _ => return None,
    })
}

/// gzip at its fastest.
pub fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).and_then(|()| encoder.finish()).expect("memory takes it")
}

/// What flate2 reads of the first member.
pub fn gunzip_first(data: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let reader = flate2::bufread::GzDecoder::new(data);
    reader.take(limit as u64 + 1).read_to_end(&mut out).ok().filter(|len| *len <= limit)?;
    Some(out)
}

/// Snappy as the Java client frames it, in chunks of 1 KiB.
pub fn xerial(data: &[u8]) -> Vec<u8> {
    let mut out = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for chunk in data.chunks(1024) {
        let block = snappy_raw(chunk);
        out.extend((block.len() as u32).to_be_bytes());
        out.extend(block);
    }
    out
}

/// One raw block.
pub fn snappy_raw(data: &[u8]) -> Vec<u8> {
    thread_local!(static ENCODER: RefCell<snap::raw::Encoder> =
        RefCell::new(snap::raw::Encoder::new()));
    ENCODER.with_borrow_mut(|encoder| encoder.compress_vec(data)).expect("it is small enough")
}

/// Snappy's framings, read by hand.
pub fn unsnappy(data: &[u8]) -> Option<Vec<u8>> {
    const MAGIC: &[u8] = b"\x82SNAPPY\0";
    let is_header = |data: &[u8]| data.len() >= 16 && data.starts_with(MAGIC);
    let mut out = Vec::new();
    if !is_header(data) {
        snappy_block(data, &mut out)?;
        return Some(out);
    }
    let mut rest = data;
    while !rest.is_empty() {
        if is_header(rest) {
            rest = &rest[16..];
            continue;
        }
        let len = u32::from_be_bytes(*rest.first_chunk()?) as usize;
        snappy_block(rest.get(4..4 + len)?, &mut out)?;
        rest = &rest[4 + len..];
    }
    Some(out)
}

fn snappy_block(data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (mut claimed, mut shift, mut at) = (0_u64, 0, 0);
    loop {
        let byte = *data.get(at)?;
        if shift > 28 {
            return None;
        }
        claimed |= u64::from(byte & 0x7f) << shift;
        (at, shift) = (at + 1, shift + 7);
        if byte < 0x80 {
            break;
        }
    }
    let start = out.len();
    let le = |at: usize, len: usize| -> Option<usize> {
        Some(data.get(at..at + len)?.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    };
    while at < data.len() {
        let tag = data[at];
        at += 1;
        let (len, distance) = match tag & 3 {
            0 => {
                let short = usize::from(tag >> 2);
                let extra = short.saturating_sub(59);
                let len = 1 + if extra == 0 { short } else { le(at, extra)? };
                at += extra;
                out.extend_from_slice(data.get(at..at.checked_add(len)?)?);
                at += len;
                continue;
            }
            1 => {
                let distance = usize::from(tag >> 5) << 8 | le(at, 1)?;
                at += 1;
                (4 + usize::from(tag >> 2 & 7), distance)
            }
            2 => (1 + usize::from(tag >> 2), {
                at += 2;
                le(at - 2, 2)?
            }),
            _ => (1 + usize::from(tag >> 2), {
                at += 4;
                le(at - 4, 4)?
            }),
        };
        if distance == 0 || distance > out.len() - start {
            return None;
        }
        for _ in 0..len {
            out.push(out[out.len() - distance]);
        }
    }
    ((out.len() - start) as u64 == claimed).then_some(())
}

/// XXH32 with seed 0.
fn xxh32(data: &[u8]) -> u32 {
    const P: [u32; 5] = [2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393];
    let word = |bytes: &[u8]| u32::from_le_bytes(*bytes.first_chunk().expect("four bytes"));
    let mut hash = P[4];
    let mut rest = data;
    if data.len() >= 16 {
        let mut lanes = [P[0].wrapping_add(P[1]), P[1], 0, 0_u32.wrapping_sub(P[0])];
        while rest.len() >= 16 {
            for (lane, bytes) in lanes.iter_mut().zip(rest.chunks(4)) {
                *lane = lane.wrapping_add(word(bytes).wrapping_mul(P[1])).rotate_left(13).wrapping_mul(P[0]);
            }
            rest = &rest[16..];
        }
        let rotated = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        hash = rotated.fold(0, u32::wrapping_add);
    }
    hash = hash.wrapping_add(data.len() as u32);
    while rest.len() >= 4 {
        hash = hash.wrapping_add(word(rest).wrapping_mul(P[2])).rotate_left(17).wrapping_mul(P[3]);
        rest = &rest[4..];
    }
    for byte in rest {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(P[4])).rotate_left(11).wrapping_mul(P[0]);
    }
    hash = (hash ^ hash >> 15).wrapping_mul(P[1]);
    hash = (hash ^ hash >> 13).wrapping_mul(P[2]);
    hash ^ hash >> 16
}

/// A frame of stored blocks of 64 KiB, with block checksums.
pub fn lz4_stored(data: &[u8]) -> Vec<u8> {
    let descriptor = [0x70, 0x40];
    let mut out = vec![0x04, 0x22, 0x4d, 0x18];
    out.extend(descriptor);
    out.push((xxh32(&descriptor) >> 8) as u8);
    for block in data.chunks(64 << 10) {
        out.extend((1 << 31 | block.len() as u32).to_le_bytes());
        out.extend_from_slice(block);
        out.extend(xxh32(block).to_le_bytes());
    }
    out.extend([0; 4]);
    out
}

/// Makes the header checksum of a frame right.
pub fn repair_lz4(frame: &mut [u8]) {
    let end = match frame.get(4) {
        Some(flags) if flags & 0x08 != 0 => 14,
        _ => 6,
    };
    if frame.len() > end {
        frame[end] = (xxh32(&frame[4..end]) >> 8) as u8;
    }
}

/// What the blocks of a frame hold, without any check of checksums.
pub fn unlz4(data: &[u8], limit: usize) -> Option<Vec<u8>> {
    let flags = *data.get(4)?;
    let mut rest = data.get(if flags & 0x08 == 0 { 7 } else { 15 }..)?;
    let mut out = Vec::new();
    while !rest.is_empty() {
        let word = u32::from_le_bytes(*rest.first_chunk()?);
        let len = (word & 0x7fff_ffff) as usize;
        if word == 0 {
            break;
        }
        let block = rest.get(4..4 + len)?;
        if word >> 31 == 1 {
            out.extend_from_slice(block)
        } else {
            lz4_block(block, &mut out, limit)?
        }
        rest = rest.get(4 + len + if flags & 0x10 == 0 { 0 } else { 4 }..)?;
        if out.len() > limit {
            return None;
        }
    }
    Some(out)
}

fn lz4_block(block: &[u8], out: &mut Vec<u8>, limit: usize) -> Option<()> {
    let start = out.len();
    let mut rest = block.iter().copied();
    let length = |rest: &mut dyn Iterator<Item = u8>, nibble: u8| -> Option<usize> {
        let mut len = usize::from(nibble);
        let mut more = nibble == 15;
        while more {
            let byte = rest.next()?;
            len += usize::from(byte);
            more = byte == 255;
        }
        Some(len)
    };
    loop {
        let token = rest.next()?;
        let literals = length(&mut rest, token >> 4)?;
        if literals > rest.len() {
            return None;
        }
        out.extend(rest.by_ref().take(literals));
        if rest.len() == 0 {
            return Some(());
        }
        let distance = usize::from(rest.next()?) | usize::from(rest.next()?) << 8;
        let len = 4 + length(&mut rest, token & 15)?;
        if distance == 0 || distance > out.len() - start || out.len() + len > limit {
            return None;
        }
        for _ in 0..len {
            out.push(out[out.len() - distance]);
        }
    }
}

/// zstd at its fastest.
pub fn zstd(data: &[u8]) -> Vec<u8> {
    thread_local!(static CONTEXT: RefCell<zstd::bulk::Compressor<'static>> =
        RefCell::new(zstd::bulk::Compressor::new(1).expect("a context")));
    CONTEXT.with_borrow_mut(|context| context.compress(data)).expect("memory takes it")
}

/// What zstd's streaming reader makes of all frames; `None` on an error, or above the limit.
pub fn unzstd(data: &[u8], limit: usize) -> Option<Vec<u8>> {
    use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};
    thread_local!(static DECODER: RefCell<Decoder<'static>> = RefCell::new(Decoder::new().expect("a context")));
    DECODER.with_borrow_mut(|decoder| {
        decoder.reinit().ok()?;
        let mut out = vec![0; limit + 1];
        let (mut input, mut output) = (InBuffer::around(data), OutBuffer::around(&mut out[..]));
        let mut is_between_frames = true;
        while input.pos() < data.len() || !is_between_frames {
            let before = (input.pos(), output.pos());
            is_between_frames = decoder.run(&mut input, &mut output).ok()? == 0;
            if !is_between_frames && before == (input.pos(), output.pos()) {
                return None;
            }
        }
        let len = output.pos();
        out.truncate(len);
        (len <= limit).then_some(out)
    })
}
