//! CRC-32C (Castagnoli's polynomial, as iSCSI has it, RFC 3720): of batches of magic 2, of snapshots, and of what topicfs keeps of files.

use crc_fast::{CrcAlgorithm, Digest};

/// The checksum of bytes.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The checksum of bytes that come one piece after the other.
#[derive(Debug, Clone, Copy)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// That of no bytes.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes the next bytes in.
    #[must_use]
    pub fn and(mut self, bytes: &[u8]) -> Self {
        self.0.update(bytes);
        self
    }

    /// What it is.
    pub fn value(&self) -> u32 {
        // The library has 64 bits for all its checksums.
        u32::try_from(self.0.finalize()).unwrap_or_default()
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of RFC 3720, appendix B.4.
    #[test]
    fn the_vectors_of_the_standard() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, expected) in [
            (&[0; 32][..], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
            (b"123456789", 0xe306_9283),
            (b"", 0),
        ] {
            assert_eq!(crc32c(bytes), expected);
        }
    }

    /// Every length has its own way through the library; the other crate is an older one.
    #[test]
    fn any_length_at_any_place_whole_and_in_pieces() {
        let bytes: Vec<u8> = (0..3000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for len in (0..600).chain([1000, 1023, 1024, 1025, 2047, 2048, 2900]) {
            for begin in [0, 1, 7, 31, 63] {
                let bytes = &bytes[begin..begin + len];
                let expected = ::crc32c::crc32c(bytes);
                assert_eq!(crc32c(bytes), expected, "{len} bytes");
                let (front, back) = bytes.split_at(len / 3);
                assert_eq!(Crc32c::new().and(front).and(back).value(), expected, "{len} bytes in pieces");
            }
        }
    }
}
