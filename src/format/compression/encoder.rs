//! Compressing in the framings that Kafka's producers write, and its consumers of any version read.
//!
//! | codec | what is written |
//! |---|---|
//! | gzip | one member |
//! | snappy | xerial's header, then blocks of 32 KiB, each behind its length |
//! | lz4 | one frame of independent blocks of 64 KiB, without checksums of content |
//! | zstd | one frame |

use std::fmt;
use std::io::{self, Write};

use flate2::write::GzEncoder;
use lz4_flex::block::{compress_into, get_maximum_output_size};
use twox_hash::XxHash32;
use zstd::zstd_safe::{CCtx, CParameter};

use crate::format::batch::Codec;
use crate::format::compression::lz4;
use crate::format::compression::snappy::XERIAL_MAGIC;

/// Xerial's version, and the oldest compatible one.
const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// snappy-java's.
const SNAPPY_BLOCK: usize = 32 * 1024;
/// The smallest that a frame can have, and Kafka's.
const LZ4_BLOCK: usize = 64 * 1024;
/// Version 1 and independent blocks; blocks of 64 KiB.
const LZ4_DESCRIPTOR: [u8; 2] = [0x60, 0x40];

/// A codec, and how hard it tries: `compression.type`, `compression.gzip.level` and `compression.zstd.level`. lz4 has one level here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// Its level; the codec's own where nobody chose one.
    pub level: Option<i32>,
}

/// Contexts that compressing reuses; one encoder serves one thread.
pub struct Encoder {
    compression: Compression,
    block: Vec<u8>,
    zstd: Option<CCtx<'static>>,
}

impl Encoder {
    /// An encoder for this codec and level.
    pub const fn new(compression: Compression) -> Self {
        Self { compression, block: Vec::new(), zstd: None }
    }

    /// The codec.
    pub const fn codec(&self) -> Codec {
        self.compression.codec
    }

    /// Appends `data`, compressed, to `out`.
    ///
    /// # Errors
    /// The codec's, as for a level that it doesn't have; then `out` may have part of it.
    pub fn encode(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self.compression.codec {
            Codec::None => out.extend_from_slice(data),
            Codec::Gzip => self.gzip(data, out)?,
            Codec::Snappy => self.snappy(data, out)?,
            Codec::Lz4 => self.lz4(data, out)?,
            Codec::Zstd => self.zstd(data, out)?,
        }
        Ok(())
    }

    fn gzip(&self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let level = self.compression.level.and_then(|level| u32::try_from(level).ok());
        let level = level.map_or_else(flate2::Compression::default, flate2::Compression::new);
        let mut to = GzEncoder::new(out, level);
        to.write_all(data)?;
        to.finish().map(|_| ())
    }

    fn snappy(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(XERIAL_MAGIC);
        out.extend_from_slice(&XERIAL_VERSIONS);
        let mut encoder = snap::raw::Encoder::new();
        for piece in data.chunks(SNAPPY_BLOCK) {
            self.block.resize(snap::raw::max_compress_len(piece.len()), 0);
            let len = encoder.compress(piece, &mut self.block)?;
            out.extend_from_slice(&length(len)?.to_be_bytes());
            out.extend_from_slice(self.block.get(..len).unwrap_or_default());
        }
        Ok(())
    }

    fn lz4(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(&lz4::MAGIC);
        out.extend_from_slice(&LZ4_DESCRIPTOR);
        let [_, _, checksum, _] = XxHash32::oneshot(0, &LZ4_DESCRIPTOR).to_be_bytes();
        out.push(checksum);
        for piece in data.chunks(LZ4_BLOCK) {
            self.block.resize(get_maximum_output_size(piece.len()), 0);
            let len = compress_into(piece, &mut self.block).map_err(io::Error::other)?;
            let smaller = self.block.get(..len).filter(|block| block.len() < piece.len());
            let word = smaller.map_or(Ok(length(piece.len())? | lz4::STORED), |block| length(block.len()))?;
            out.extend_from_slice(&word.to_le_bytes());
            out.extend_from_slice(smaller.unwrap_or(piece));
        }
        out.extend_from_slice(&[0; 4]);
        Ok(())
    }

    fn zstd(&mut self, data: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let failed = |code| io::Error::other(zstd::zstd_safe::get_error_name(code));
        let context = self.zstd.get_or_insert_with(CCtx::create);
        let level = self.compression.level.unwrap_or(zstd::DEFAULT_COMPRESSION_LEVEL);
        context.set_parameter(CParameter::CompressionLevel(level)).map_err(failed)?;
        self.block.resize(zstd::zstd_safe::compress_bound(data.len()), 0);
        let len = context.compress2(self.block.as_mut_slice(), data).map_err(failed)?;
        out.extend_from_slice(self.block.get(..len).unwrap_or_default());
        Ok(())
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder").field("compression", &self.compression).finish_non_exhaustive()
    }
}

fn length(len: usize) -> io::Result<u32> {
    u32::try_from(len).map_err(io::Error::other)
}
