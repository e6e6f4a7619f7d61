//! Wrappers of both magics, as brokers and cleaners write them, and damaged ones.

use super::*;
use crate::format::testing::{Message as Entry, gzip, hex, owned};

const GZIP: u8 = 1;
const LOG_APPEND: u8 = 8;

/// An inner message whose value names its offset.
fn inner(magic: u8, offset: i64, timestamp: i64) -> Vec<u8> {
    let value = offset.to_string().into_bytes();
    Entry { magic, offset, attributes: 0, timestamp, key: None, value: Some(&value) }.encode()
}

fn wrapper(magic: u8, offset: i64, attributes: u8, set: &[u8]) -> Vec<u8> {
    let value = gzip(set);
    Entry { magic, offset, attributes: attributes | GZIP, timestamp: 9000, key: None, value: Some(&value) }
        .encode()
}

/// Offsets, timestamps and values of the records, or the error that ends them.
fn read(entry: &[u8]) -> Result<Vec<(i64, i64, String)>, BatchError> {
    let batch = Batch::parse(entry).unwrap();
    let mut decoder = Decoder::default();
    let records = batch.records(&mut decoder, &Limits::default())?;
    let text = |value: Option<&[u8]>| String::from_utf8(value.unwrap().to_vec()).unwrap();
    records.map(|record| record.map(|r| (r.offset.0, r.timestamp.0, text(r.value)))).collect()
}

fn offsets(entry: &[u8]) -> Result<Vec<i64>, BatchError> {
    read(entry).map(|records| records.iter().map(|record| record.0).collect())
}

fn set(magic: u8, offsets: &[i64]) -> Vec<u8> {
    offsets.iter().flat_map(|&offset| inner(magic, offset, 1000 + offset)).collect()
}

#[test]
fn offsets_in_magic_0_are_absolute() {
    let entry = wrapper(0, 12, 0, &set(0, &[10, 12]));
    let header = Batch::parse(&entry).unwrap().header;
    assert_eq!((header.base_offset, header.last_offset, header.record_count), (None, Offset(12), None));
    let expected = [(10, -1, "10".to_owned()), (12, -1, "12".to_owned())];
    assert_eq!(read(&entry).unwrap(), expected);
}

/// After compaction the set need not start at 0, and has gaps; the last message has the wrapper's offset.
#[test]
fn offsets_in_magic_1_are_relative() {
    assert_eq!(offsets(&wrapper(1, 39, 0, &set(1, &[0, 3]))), Ok(vec![36, 39]));
    assert_eq!(offsets(&wrapper(1, 34, 0, &set(1, &[0]))), Ok(vec![34]));
    assert_eq!(offsets(&wrapper(1, 34, 0, &set(1, &[2, 5]))), Ok(vec![31, 34]));
    assert_eq!(offsets(&wrapper(1, 2, 0, &set(1, &[0, 1, 2]))), Ok(vec![0, 1, 2]));
}

#[test]
fn a_wrapper_of_offset_0_counts_from_0() {
    assert_eq!(offsets(&wrapper(1, 0, 0, &set(1, &[0, 1, 2]))), Ok(vec![0, 1, 2]));
    assert_eq!(offsets(&wrapper(1, 0, 0, &set(1, &[0]))), Ok(vec![0]));
}

#[test]
fn timestamps_are_those_of_the_messages_unless_the_broker_set_them() {
    let times = |attributes| {
        let records = read(&wrapper(1, 1, attributes, &set(1, &[0, 1]))).unwrap();
        records.iter().map(|record| record.1).collect::<Vec<_>>()
    };
    assert_eq!(times(0), [1000, 1001]);
    assert_eq!(times(LOG_APPEND), [9000, 9000]);
}

/// KAFKA-4298: offsets follow the wrapper's magic, timestamps the message's own.
#[test]
fn mixed_magics() {
    let mixed = [inner(0, 0, 0), inner(1, 1, 1001)].concat();
    let expected = vec![(6, -1, "0".to_owned()), (7, 1001, "1".to_owned())];
    assert_eq!(read(&wrapper(1, 7, 0, &mixed)), Ok(expected));
    let expected = vec![(6, -1, "0".to_owned()), (7, 9000, "1".to_owned())];
    assert_eq!(read(&wrapper(1, 7, LOG_APPEND, &mixed)), Ok(expected));
    let absolute = [inner(1, 6, 1006), inner(0, 7, 0)].concat();
    let expected = vec![(6, 1006, "6".to_owned()), (7, -1, "7".to_owned())];
    assert_eq!(read(&wrapper(0, 7, 0, &absolute)), Ok(expected));
}

#[test]
fn each_message_says_what_it_is() {
    let mixed = [inner(0, 0, 0), inner(1, 1, 1001)].concat();
    let entry = wrapper(1, 7, LOG_APPEND, &mixed);
    let batch = Batch::parse(&entry).unwrap();
    let mut decoder = Decoder::default();
    let mut records = batch.records(&mut decoder, &Limits::default()).unwrap();
    assert_eq!(records.message(), None);
    let mut infos = Vec::new();
    while records.next().is_some() {
        let info = records.message().unwrap();
        infos.push((info.magic, info.timestamp_type));
    }
    assert_eq!(infos, [(0, TimestampType::NoTimestamp), (1, TimestampType::LogAppendTime)]);
}

#[test]
fn keys_and_null_values() {
    let single = Entry { magic: 1, offset: 7, attributes: 0, timestamp: 5, key: Some(b"k"), value: None };
    let bytes = single.encode();
    let batch = Batch::parse(&bytes).unwrap();
    let mut decoder = Decoder::default();
    let record = batch.records(&mut decoder, &Limits::default()).unwrap().next().unwrap().unwrap();
    assert_eq!(owned(&record), (7, 5, Some(b"k".to_vec()), None, vec![]));
}

#[test]
fn sets_that_contradict_themselves() {
    let sound = set(1, &[0, 1]);
    let cut = &sound[..sound.len() - 1];
    let len = inner(1, 1, 0).len();
    assert_eq!(
        offsets(&wrapper(1, 9, 0, cut)),
        Err(BatchError::InnerTruncated { expected: len, got: len - 1 })
    );
    let few = &sound[..len + 5];
    let expected = BatchError::InnerTruncated { expected: PREFIX_LEN, got: 5 };
    assert_eq!(offsets(&wrapper(1, 9, 0, few)), Err(expected));
    assert_eq!(offsets(&wrapper(1, 9, 0, &[])), Err(BatchError::EmptySet));
    let null = Entry { magic: 1, offset: 9, attributes: GZIP, timestamp: 0, key: None, value: None };
    assert_eq!(offsets(&null.encode()), Err(BatchError::EmptySet));
    let expected = BatchError::WrapperOffset { last: 5, got: Offset(3) };
    assert_eq!(offsets(&wrapper(1, 3, 0, &set(1, &[0, 5]))), Err(expected));
    let expected = BatchError::OffsetOrder { before: Offset(9), got: Offset(9) };
    assert_eq!(offsets(&wrapper(1, 9, 0, &set(1, &[1, 1]))), Err(expected));
    let expected = BatchError::OffsetRange { first: Offset(0), last: Offset(9), got: 10 };
    assert_eq!(offsets(&wrapper(0, 9, 0, &set(0, &[10]))), Err(expected));
    let nested = wrapper(1, 0, 0, &sound);
    let expected = BatchError::InnerCodec { codec: Codec::Gzip };
    assert_eq!(offsets(&wrapper(1, 9, 0, &nested)), Err(expected));
}

#[test]
fn messages_of_the_wrong_kind_in_a_set() {
    let mut later = inner(1, 0, 0);
    later[16] = 2;
    assert_eq!(offsets(&wrapper(1, 9, 0, &later)), Err(BatchError::InnerMagic { got: 2 }));
    let mut wrong = inner(1, 0, 0);
    *wrong.last_mut().unwrap() ^= 1;
    let error = offsets(&wrapper(1, 9, 0, &wrong)).unwrap_err();
    assert!(matches!(error, BatchError::InnerChecksum { offset: Offset(9), .. }), "{error}");
    let mut small = inner(1, 0, 0);
    small[8..12].copy_from_slice(&13_i32.to_be_bytes());
    assert_eq!(offsets(&wrapper(1, 9, 0, &small)), Err(BatchError::Size { expected: 14, got: 13 }));
}

/// A sound checksum over lengths that don't fit.
#[test]
fn lengths_that_do_not_fit() {
    for (at, byte, fault) in [
        (21, 9, RecordFault::Cut),
        (21, 0, RecordFault::Cut),
        (26, 0, RecordFault::LeftOver),
        (23, 0xff, RecordFault::LeftOver),
    ] {
        let mut bytes = hex("0000000000000007000000101fecd70a0000000000016b0000000176");
        match at {
            23 => bytes[23..27].copy_from_slice(&[byte; 4]),
            _ => bytes[at] = byte,
        }
        let crc = crc32fast::hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(read(&bytes), Err(BatchError::Record { index: 0, fault }), "byte {at}");
    }
}

#[test]
fn every_flipped_bit_of_a_wrapper() {
    for magic in [0, 1] {
        let sound = wrapper(magic, 12, 0, &set(magic, &[10, 12]));
        for (at, bit) in (0..sound.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << bit;
            assert!(at < 12 || Batch::parse(&bytes).is_err(), "byte {at}, bit {bit}");
            if let Ok(batch) = Batch::peek(&bytes)
                && let Ok(records) = batch.records(&mut Decoder::default(), &Limits::default())
            {
                assert!(records.count() <= 2);
            }
        }
    }
}
