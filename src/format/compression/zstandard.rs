//! Zstandard frames (KIP-110), one after the other, with or without their size in the header.
//!
//! Each frame is decoded at once into the output buffer, which needs no window of its own; when the buffer is too small,
//! it grows and the batch is decoded again. The buffer is kept, so that this happens to the first batches only.

use zstd::zstd_safe::{DCtx, get_error_name, get_frame_content_size};

use crate::format::compression::Stop;
use crate::format::compression::bound;
use crate::format::compression::output::Output;

/// `ZSTD_error_dstSize_tooSmall`; zstd promises that its numbers stay, and returns them negated.
const OUTPUT_TOO_SMALL: usize = 70_usize.wrapping_neg();
/// A frame's claim of its size is believed up to so many times its own length.
const BELIEVED_RATIO: usize = 64;

pub(super) fn decode(context: &mut DCtx<'static>, data: &[u8], output: &mut Output) -> Result<(), Stop> {
    let mut wanted = first_guess(data);
    loop {
        let spare = output.spare(wanted)?;
        let room = spare.len();
        match context.decompress(spare, data) {
            Ok(written) => return output.advance(written),
            Err(OUTPUT_TOO_SMALL) if output.is_at_limit() => return Err(Stop::Full),
            Err(OUTPUT_TOO_SMALL) => wanted = room.saturating_mul(4),
            Err(code) => return Err(Stop::Bad(get_error_name(code))),
        }
    }
}

fn first_guess(data: &[u8]) -> usize {
    let claimed = get_frame_content_size(data).ok().flatten().and_then(|size| usize::try_from(size).ok());
    let believed = data.len().saturating_mul(BELIEVED_RATIO);
    claimed.unwrap_or_else(|| bound::zstd(data)).min(believed)
}
