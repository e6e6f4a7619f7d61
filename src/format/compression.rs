//! gzip, snappy, lz4 and zstd, in the framings that Kafka and its clients write, and in the bounds that [`Limits`] set.

use std::fmt;

use flate2::Decompress;
use zstd::zstd_safe::DCtx;

use crate::format::batch::{Codec, Limits};
use crate::format::error::BatchError;

pub(in crate::format) mod bound;
pub mod encoder;
mod gzip;
mod lz4;
mod output;
mod snappy;
#[cfg(test)]
mod tests;
mod zstandard;

use output::Output;

/// Buffers that grew above this are given back by [`Decoder::shrink`].
const KEPT_BYTES: usize = 4 << 20;

/// Buffers and contexts that decoding reuses; one decoder serves one thread.
#[derive(Default)]
pub struct Decoder {
    /// The records of the last batch, decompressed.
    output: Output,
    inflate: Option<Decompress>,
    zstd: Option<DCtx<'static>>,
    /// Batches, and bytes of their records.
    decoded: (u64, u64),
}

impl Decoder {
    /// How many batches it has decoded since this was asked last, and the bytes of their records without a codec.
    pub fn take_decoded(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.decoded)
    }

    /// Takes note of a batch whose records have so many bytes.
    pub(super) fn note_decoded(&mut self, bytes: usize) {
        let (batches, total) = self.decoded;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.decoded = (batches.saturating_add(1), total.saturating_add(bytes));
    }

    /// Gives back memory that an unusually large batch took (more than 4 MiB).
    pub fn shrink(&mut self) {
        if self.output.capacity() > KEPT_BYTES {
            self.output = Output::default();
        }
    }

    /// Decompresses `data`; the magic decides how strict the codec is.
    ///
    /// # Errors
    /// The codec's, or that the limit was reached.
    pub fn decode(
        &mut self,
        codec: Codec,
        magic: u8,
        data: &[u8],
        limits: &Limits,
    ) -> Result<&[u8], BatchError> {
        self.output.restart(limits.max_decoded_bytes);
        let result = match codec {
            Codec::None => self.output.append(data),
            Codec::Gzip => gzip::decode(
                self.inflate.get_or_insert_with(|| Decompress::new(false)),
                data,
                &mut self.output,
            ),
            Codec::Snappy => snappy::decode(data, &mut self.output),
            Codec::Lz4 => lz4::decode(magic, data, &mut self.output),
            Codec::Zstd => {
                zstandard::decode(self.zstd.get_or_insert_with(DCtx::create), data, &mut self.output)
            }
        };
        match result {
            Ok(()) => {
                self.note_decoded(self.output.filled().len());
                Ok(self.output.filled())
            }
            Err(Stop::Full) => Err(BatchError::DecodedLimit { limit: limits.max_decoded_bytes }),
            Err(Stop::Bad(cause)) => Err(BatchError::Decompress { codec, cause }),
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("buffer", &self.output.capacity()).finish_non_exhaustive()
    }
}

/// Why decompressing stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// The limit is reached.
    Full,
    /// The data is not what the codec writes.
    Bad(&'static str),
}
