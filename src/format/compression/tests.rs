//! Each codec in each framing that is known, whole, damaged and as a bomb.

use std::io::Write;

use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder};
use twox_hash::XxHash32;

use super::*;

const LIMITS: Limits = Limits { max_batch_bytes: 1 << 20, max_decoded_bytes: 1 << 20 };

fn decode(codec: Codec, data: &[u8]) -> Result<Vec<u8>, BatchError> {
    Decoder::default().decode(codec, 2, data, &LIMITS).map(<[u8]>::to_vec)
}

fn cause(codec: Codec, data: &[u8]) -> &'static str {
    match decode(codec, data) {
        Err(BatchError::Decompress { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

/// Text that compresses, and needs more than one block of most codecs.
fn plain() -> Vec<u8> {
    (0..20_000_u32).flat_map(|number| format!("{} ", number.wrapping_mul(7919) % 1000).into_bytes()).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

const XERIAL: &[u8; 16] = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

fn snappy_block(data: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(data).unwrap()
}

fn snappy_chunk(data: &[u8]) -> Vec<u8> {
    let block = snappy_block(data);
    [&u32::try_from(block.len()).unwrap().to_be_bytes()[..], &block].concat()
}

fn xerial(data: &[u8]) -> Vec<u8> {
    [XERIAL.to_vec(), data.chunks(1000).flat_map(snappy_chunk).collect()].concat()
}

fn lz4_header(flags: u8, block_size: u8, rest: &[u8]) -> Vec<u8> {
    let descriptor = [&[flags, block_size][..], rest].concat();
    let [_, _, checksum, _] = XxHash32::oneshot(0, &descriptor).to_be_bytes();
    [&[0x04, 0x22, 0x4d, 0x18][..], &descriptor, &[checksum]].concat()
}

fn lz4_blocks(data: &[u8]) -> Vec<u8> {
    data.chunks(64 << 10).flat_map(|chunk| lz4_block(&lz4_flex::block::compress(chunk), 0)).collect()
}

fn lz4_block(block: &[u8], flag: u32) -> Vec<u8> {
    [&(u32::try_from(block.len()).unwrap() | flag).to_le_bytes()[..], block].concat()
}

fn lz4(data: &[u8]) -> Vec<u8> {
    [lz4_header(0x60, 0x40, &[]), lz4_blocks(data), vec![0; 4]].concat()
}

/// As Java writes it: a stream, without its size.
fn zstd_stream(data: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 3).unwrap();
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd_with_size(data: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(data, 3).unwrap()
}

type Encode = fn(&[u8]) -> Vec<u8>;
const ENCODERS: [(Codec, Encode); 6] = [
    (Codec::Gzip, gzip),
    (Codec::Snappy, xerial),
    (Codec::Snappy, snappy_block),
    (Codec::Lz4, lz4),
    (Codec::Zstd, zstd_stream),
    (Codec::Zstd, zstd_with_size),
];

#[test]
fn data_comes_back() {
    for data in [plain(), Vec::new(), vec![7], vec![0; 300_000]] {
        for (codec, encode) in ENCODERS {
            assert!(decode(codec, &encode(&data)).unwrap() == data, "{codec}, {} bytes", data.len());
        }
    }
}

#[test]
fn one_decoder_serves_all_codecs() {
    let mut decoder = Decoder::default();
    for data in [plain(), vec![7], plain()] {
        for (codec, encode) in ENCODERS {
            assert!(decoder.decode(codec, 2, &encode(&data), &LIMITS).unwrap() == data, "{codec}");
            assert!(decoder.decode(codec, 2, b"\x1f\x8bnonsense", &LIMITS).is_err());
        }
    }
}

/// A limit of exactly the data's size is enough; one byte less names the limit.
#[test]
fn limits_are_exact() {
    for data in [plain(), vec![0; 300_000], vec![7; 2]] {
        for (codec, encode) in ENCODERS {
            let limits = |max_decoded_bytes| Limits { max_decoded_bytes, ..LIMITS };
            let encoded = encode(&data);
            let mut decoder = Decoder::default();
            assert!(decoder.decode(codec, 2, &encoded, &limits(data.len())).is_ok(), "{codec}");
            let limit = data.len() - 1;
            let error = decoder.decode(codec, 2, &encoded, &limits(limit)).unwrap_err();
            assert_eq!(error, BatchError::DecodedLimit { limit }, "{codec}");
        }
    }
}

#[test]
fn bombs_stop_at_the_limit() {
    let bomb = vec![0; 64 << 20];
    for (codec, encode) in ENCODERS {
        let mut decoder = Decoder::default();
        let error = decoder.decode(codec, 2, &encode(&bomb), &LIMITS).unwrap_err();
        assert_eq!(error, BatchError::DecodedLimit { limit: 1 << 20 }, "{codec}");
        assert!(decoder.output.capacity() <= (1 << 20) + 1, "{codec}");
    }
}

#[test]
fn memory_can_be_given_back() {
    let mut decoder = Decoder::default();
    let limits = Limits { max_decoded_bytes: 16 << 20, ..LIMITS };
    decoder.decode(Codec::Gzip, 2, &gzip(&vec![0; 8 << 20]), &limits).unwrap();
    assert!(decoder.output.capacity() >= 8 << 20);
    decoder.shrink();
    assert_eq!(decoder.output.capacity(), 0);
    decoder.decode(Codec::Gzip, 2, &gzip(&plain()), &limits).unwrap();
    decoder.shrink();
    assert_ne!(decoder.output.capacity(), 0);
}

/// No cut of a stream gives other data: an error, or (at a boundary that the codec can't know) its beginning.
#[test]
fn every_cut() {
    let data = plain().into_iter().take(3000).collect::<Vec<_>>();
    for (codec, encode) in ENCODERS {
        let encoded = encode(&data);
        for len in 0..encoded.len() {
            if let Ok(decoded) = decode(codec, &encoded[..len]) {
                assert!(data.starts_with(&decoded), "{codec}, {len} bytes");
                assert!(len == 0 || matches!(codec, Codec::Snappy | Codec::Lz4), "{codec}, {len} bytes");
            }
        }
    }
}

#[test]
fn no_flipped_bit_panics() {
    let data = plain().into_iter().take(2000).collect::<Vec<_>>();
    for (codec, encode) in ENCODERS {
        let mut decoder = Decoder::default();
        let mut encoded = encode(&data);
        for (at, bit) in (0..encoded.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            encoded[at] ^= 1 << bit;
            let result = decoder.decode(codec, 2, &encoded, &LIMITS);
            // gzip has checksums of its own; some bits of a member have no meaning.
            assert!(codec != Codec::Gzip || result.is_err() || result == Ok(&data), "byte {at}, bit {bit}");
            encoded[at] ^= 1 << bit;
        }
    }
}

#[test]
fn gzip_members_and_header_fields() {
    let two = [gzip(b"one "), gzip(b"two")].concat();
    assert_eq!(decode(Codec::Gzip, &two).unwrap(), b"one two");
    let builder = GzBuilder::new().filename("name").comment("comment").extra(vec![1, 2, 3]);
    let mut encoder = builder.write(Vec::new(), Compression::fast());
    encoder.write_all(b"data").unwrap();
    let mut member = encoder.finish().unwrap();
    assert_eq!(decode(Codec::Gzip, &member).unwrap(), b"data");
    member.extend_from_slice(b"garbage after the last member");
    assert_eq!(decode(Codec::Gzip, &member).unwrap(), b"data");
    let mut with_checksum = gzip(b"data");
    with_checksum[3] |= 0x02;
    with_checksum.splice(10..10, [0, 0]);
    assert_eq!(decode(Codec::Gzip, &with_checksum).unwrap(), b"data");
}

#[test]
fn gzip_trailers_are_checked() {
    let sound = gzip(b"data");
    for (from_end, expected) in [(1, "its length is wrong"), (5, "its checksum is wrong")] {
        let mut member = sound.clone();
        let at = member.len() - from_end;
        member[at] ^= 1;
        assert_eq!(cause(Codec::Gzip, &member), expected);
    }
    assert_eq!(cause(Codec::Gzip, b"text"), "it has no gzip header");
}

#[test]
fn snappy_raw_blocks_of_any_length() {
    for len in 1..40 {
        let data: Vec<u8> = (0..len).collect();
        assert_eq!(decode(Codec::Snappy, &snappy_block(&data)).unwrap(), data);
    }
}

#[test]
fn snappy_chunks_and_fresh_headers() {
    let stream = [XERIAL, &snappy_chunk(b"one ")[..], XERIAL, XERIAL, &snappy_chunk(b"two")].concat();
    assert_eq!(decode(Codec::Snappy, &stream).unwrap(), b"one two");
    assert_eq!(decode(Codec::Snappy, XERIAL).unwrap(), b"");
    let negative = [&XERIAL[..], &[0xff; 4]].concat();
    assert_eq!(cause(Codec::Snappy, &negative), "a chunk's length is negative");
    let cut = [&XERIAL[..], &[0, 0, 0, 9, 1]].concat();
    assert_eq!(cause(Codec::Snappy, &cut), "a chunk is cut short");
}

/// A claim alone takes no memory.
#[test]
fn huge_claims() {
    let mut decoder = Decoder::default();
    let limits = Limits { max_decoded_bytes: usize::MAX, ..LIMITS };
    // 4 GiB - 1 as the length of a snappy block, and as the content size of a zstd frame.
    decoder.decode(Codec::Snappy, 2, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0], &limits).unwrap_err();
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0];
    decoder.decode(Codec::Zstd, 2, &frame, &limits).unwrap_err();
    assert!(decoder.output.capacity() <= 1 << 20);
}

#[test]
fn lz4_frames_as_kafka_reads_them() {
    let blocks = lz4_blocks(b"data");
    let end = vec![0; 4];
    let frame = |header: Vec<u8>, parts: &[&[u8]]| [&header[..], &parts.concat()].concat();
    let with_checksum = [&blocks[..], &XxHash32::oneshot(0, &blocks[4..]).to_le_bytes()].concat();
    let plain_header = || lz4_header(0x60, 0x40, &[]);
    for sound in [
        frame(plain_header(), &[&blocks, &end]),
        frame(plain_header(), &[&blocks]),
        frame(plain_header(), &[&blocks, &end, b"after the end"]),
        frame(plain_header(), &[&lz4_block(b"data", 1 << 31), &end]),
        frame(lz4_header(0x64, 0x70, &[]), &[&blocks, &end, &[1, 2, 3, 4]]),
        frame(lz4_header(0x70, 0x50, &[]), &[&with_checksum, &end]),
        frame(lz4_header(0x68, 0x60, &[9; 8]), &[&blocks, &end]),
    ] {
        assert_eq!(decode(Codec::Lz4, &sound).unwrap(), b"data", "{sound:x?}");
    }
    let mut wrong_checksum = with_checksum.clone();
    *wrong_checksum.last_mut().unwrap() ^= 1;
    for (damaged, expected) in [
        (frame(lz4_header(0x40, 0x40, &[]), &[&blocks, &end]), "its blocks depend on each other"),
        (frame(lz4_header(0xa0, 0x40, &[]), &[&blocks, &end]), "its version isn't 1"),
        (frame(lz4_header(0x61, 0x40, &[9; 4]), &[&blocks]), "it has a dictionary, or reserved bits are set"),
        (frame(lz4_header(0x60, 0x41, &[]), &[&blocks]), "it has a dictionary, or reserved bits are set"),
        (frame(lz4_header(0x60, 0x30, &[]), &[&blocks]), "its block size is unknown"),
        (frame(lz4_header(0x70, 0x40, &[]), &[&wrong_checksum, &end]), "a block's checksum is wrong"),
        (
            frame(plain_header(), &[&lz4_block(&[0; 65537], 1 << 31)]),
            "a block is larger than the frame allows",
        ),
        (
            frame(plain_header(), &[&lz4_block(&lz4_flex::block::compress(&[0; 65537]), 0)]),
            "a block is larger than the frame allows",
        ),
        (frame(plain_header(), &[&lz4_block(&[0xf0, 0xff], 0)]), "a block is damaged"),
        (frame(plain_header(), &[&blocks, &[0, 0]]), "it is cut short"),
        (b"text".to_vec(), "it has no lz4 frame header"),
    ] {
        assert_eq!(cause(Codec::Lz4, &damaged), expected, "{damaged:x?}");
    }
}

/// Magic 0 has a header checksum computed from the frame's magic on (KAFKA-3160); later ones must be right.
#[test]
fn lz4_header_checksums() {
    let mut frame = lz4(b"data");
    assert_eq!(frame[6], 0x82);
    frame[6] = 0x1a;
    assert_eq!(Decoder::default().decode(Codec::Lz4, 0, &frame, &LIMITS), Ok(&b"data"[..]));
    for magic in [1, 2] {
        let error = Decoder::default().decode(Codec::Lz4, magic, &frame, &LIMITS).unwrap_err();
        let expected = "its header checksum is wrong";
        assert_eq!(error, BatchError::Decompress { codec: Codec::Lz4, cause: expected });
    }
}

#[test]
fn zstd_frames_one_after_the_other() {
    let frames = [zstd_stream(b"one "), zstd_with_size(b"two "), zstd_stream(b"three")].concat();
    assert_eq!(decode(Codec::Zstd, &frames).unwrap(), b"one two three");
}

/// A permit for decoding is taken by this.
#[test]
fn what_data_decompresses_to_at_most_is_told_by_the_heads_of_its_blocks() {
    for data in [Vec::new(), b"data".to_vec(), plain(), vec![0; 1 << 20], plain().repeat(8)] {
        let stored = lz4_block(&data[..data.len().min(9)], lz4::STORED);
        let several =
            [zstd_stream(&data), b"\x50\x2a\x4d\x18\x03\0\0\0xyz".to_vec(), zstd_with_size(&data)].concat();
        let cases = [
            (Codec::Gzip, gzip(&data), data.len(), 0),
            (Codec::Snappy, snappy_block(&data), data.len(), 0),
            (Codec::Snappy, xerial(&data), data.len(), 0),
            (Codec::Lz4, lz4(&data), data.len(), 64 << 10),
            (Codec::Lz4, [lz4_header(0x60, 0x40, &[]), stored, vec![0; 4]].concat(), data.len().min(9), 0),
            (Codec::Zstd, zstd_stream(&data), data.len(), 128 << 10),
            (Codec::Zstd, several, 2 * data.len(), 256 << 10),
            (Codec::None, data.clone(), 0, 0),
        ];
        for (codec, compressed, len, more) in cases {
            let most = bound::decoded_at_most(codec, &compressed);
            assert!((len..=len + more).contains(&most), "{codec:?}: {most} for {len}");
            // Whatever is cut or damaged ends the count.
            for cut in (0..compressed.len()).step_by(1 + compressed.len() / 50) {
                bound::decoded_at_most(codec, &compressed[..cut]);
            }
        }
    }
}
