//! gzip members (RFC 1952), one after the other; what follows them and isn't one is ignored, as Java does.

use flate2::{Decompress, FlushDecompress, Status};

use crate::format::compression::Stop;
use crate::format::compression::output::Output;

const CUT: Stop = Stop::Bad("it is cut short");
/// Bytes of a member's trailer: CRC-32 and length, little-endian.
const TRAILER_LEN: usize = 8;

pub(super) fn decode(inflate: &mut Decompress, data: &[u8], output: &mut Output) -> Result<(), Stop> {
    let mut rest = member_body(data).ok_or(Stop::Bad("it has no gzip header"))?;
    loop {
        let start = output.len();
        rest = inflate_body(inflate, rest, output)?;
        let (trailer, after) = rest.split_at_checked(TRAILER_LEN).ok_or(CUT)?;
        check(trailer, output.filled().get(start..).unwrap_or_default())?;
        match member_body(after) {
            Some(body) => rest = body,
            None => return Ok(()),
        }
    }
}

/// What follows a member's header, if that is one.
fn member_body(data: &[u8]) -> Option<&[u8]> {
    let (&[0x1f, 0x8b, 8, flags, ..], mut rest) = data.split_first_chunk::<10>()? else {
        return None;
    };
    if flags & 0x04 != 0 {
        let (len, after) = rest.split_first_chunk()?;
        rest = after.get(usize::from(u16::from_le_bytes(*len))..)?;
    }
    // Name and comment end with a zero byte; a checksum of the header comes last.
    for flag in [0x08, 0x10] {
        if flags & flag != 0 {
            let end = memchr::memchr(0, rest)?;
            rest = rest.get(end.checked_add(1)?..)?;
        }
    }
    if flags & 0x02 != 0 { rest.get(2..) } else { Some(rest) }
}

/// Inflates one deflate stream and returns what follows it.
fn inflate_body<'a>(
    inflate: &mut Decompress,
    mut rest: &'a [u8],
    output: &mut Output,
) -> Result<&'a [u8], Stop> {
    inflate.reset(false);
    loop {
        let spare = output.spare(rest.len().saturating_mul(2))?;
        let (room, in_before, out_before) = (spare.len(), inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(rest, spare, FlushDecompress::Finish)
            .map_err(|_| Stop::Bad("it is no deflate stream"))?;
        let read = usize::try_from(inflate.total_in().saturating_sub(in_before)).map_err(|_| CUT)?;
        let written = usize::try_from(inflate.total_out().saturating_sub(out_before)).map_err(|_| CUT)?;
        rest = rest.get(read..).ok_or(CUT)?;
        output.advance(written)?;
        if status == Status::StreamEnd {
            return Ok(rest);
        }
        if written < room {
            return Err(CUT);
        }
    }
}

fn check(trailer: &[u8], member: &[u8]) -> Result<(), Stop> {
    let crc = trailer.first_chunk().map(|crc| u32::from_le_bytes(*crc));
    if crc != Some(crc32fast::hash(member)) {
        return Err(Stop::Bad("its checksum is wrong"));
    }
    let len = trailer.last_chunk().map(|len| u32::from_le_bytes(*len));
    let expected = u32::try_from(member.len() & 0xffff_ffff).ok();
    if len == expected { Ok(()) } else { Err(Stop::Bad("its length is wrong")) }
}
