//! The frames of each codec: what is decoded, the limits, and what encoders write.

use topicfs::format::batch::{BatchError, Codec, Limits};

use super::batch::DECODER;
use crate::memory::bounded;
use crate::{LIMITS, MEMORY, codecs};

/// Members of gzip.
pub fn gzip(data: &[u8]) {
    let ours = decode(Codec::Gzip, 2, data);
    let theirs = codecs::gunzip_first(data, LIMITS.max_decoded_bytes);
    match (&ours, &theirs) {
        (Ok(ours), Some(theirs)) => assert!(ours.starts_with(theirs), "another content than flate2's"),
        // A member behind the first may be damaged, but nothing else can be.
        (Err(error), Some(theirs)) => {
            assert!(
                count_of_magic(data, b"\x1f\x8b\x08") > 1,
                "{error}; flate2 reads {} bytes",
                theirs.len()
            );
        }
        (_, None) => {}
    }
    comes_back(Codec::Gzip, data, codecs::gzip);
}

/// Raw blocks and xerial's stream.
pub fn snappy(data: &[u8]) {
    let ours = decode(Codec::Snappy, 2, data).ok();
    assert_eq!(ours, codecs::unsnappy(data), "another content than the naive reader's");
    comes_back(Codec::Snappy, data, codecs::xerial);
    comes_back(Codec::Snappy, data, codecs::snappy_raw);
}

/// Frames, as they are and with a right checksum of the header.
pub fn lz4(data: &[u8]) {
    let check = |magic, data: &[u8]| {
        if let Ok(ours) = decode(Codec::Lz4, magic, data) {
            let theirs = codecs::unlz4(data, LIMITS.max_decoded_bytes);
            assert_eq!(Some(ours), theirs, "another content than the naive reader's");
        }
    };
    check(0, data);
    check(2, data);
    let mut repaired = data.to_vec();
    codecs::repair_lz4(&mut repaired);
    check(2, &repaired);
    comes_back(Codec::Lz4, data, codecs::lz4_stored);
}

/// Frames of Zstandard.
pub fn zstd(data: &[u8]) {
    let ours = decode(Codec::Zstd, 2, data).ok();
    if let (Some(ours), Some(theirs)) = (ours, codecs::unzstd(data, LIMITS.max_decoded_bytes)) {
        assert!(ours == theirs, "another content than the streaming reader's");
    }
    comes_back(Codec::Zstd, data, codecs::zstd);
}

/// What the engine decodes, within the limits.
fn decode(codec: Codec, magic: u8, data: &[u8]) -> Result<Vec<u8>, BatchError> {
    DECODER.with_borrow_mut(|decoder| {
        let got = bounded(MEMORY, || decoder.decode(codec, magic, data, &LIMITS).map(<[u8]>::to_vec));
        if let Ok(out) = &got {
            assert!(out.len() <= LIMITS.max_decoded_bytes);
            let limited = |max_decoded_bytes| Limits { max_decoded_bytes, ..LIMITS };
            assert_eq!(decoder.decode(codec, magic, data, &limited(out.len())), Ok(&out[..]));
            if let Some(less) = out.len().checked_sub(1) {
                let error = decoder.decode(codec, magic, data, &limited(less)).expect_err("it is too much");
                assert_eq!(error, BatchError::DecodedLimit { limit: less });
            }
        }
        got
    })
}

/// What an encoder writes comes back; not tried with each input, as that is slow.
fn comes_back(codec: Codec, data: &[u8], encode: impl Fn(&[u8]) -> Vec<u8>) {
    if data.len().is_multiple_of(16) {
        assert_eq!(decode(codec, 2, &encode(data)).as_deref(), Ok(data), "it doesn't come back");
    }
}

fn count_of_magic(data: &[u8], magic: &[u8]) -> usize {
    data.windows(magic.len()).filter(|window| *window == magic).count()
}
