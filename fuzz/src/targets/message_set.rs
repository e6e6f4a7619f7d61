//! Entries of magic 0 and 1: single messages, and sets of them in a compressed one.

use topicfs::format::batch::{Batch, Codec, Decoder};

use super::batch::{DECODER, records};
use crate::memory::bounded;
use crate::oracle::{self, Plain};
use crate::{LIMITS, MEMORY, codecs};

/// Bytes that say how the rest is wrapped: codec and type of timestamp, magic, where the offset points.
const WRAPPING: usize = 3;

/// Checks one input: as an entry, and the rest behind three bytes as the set in a wrapper that those describe.
pub fn check(data: &[u8]) {
    check_entry(data);
    let Some((wrapping, set)) = data.split_first_chunk::<WRAPPING>() else { return };
    let mut set = set.to_vec();
    oracle::repair(&mut set);
    check_entry(&set);
    let [attributes, magic, offset] = *wrapping;
    let (codec, magic) = (attributes & 0x03, magic & 1);
    let Some(value) = codecs::encode(codec, &set) else { return };
    let offset = if offset < 4 { 0 } else { last_offset(&set).wrapping_add(i64::from(offset) - 4) };
    check_entry(&oracle::encode_message(magic, attributes & 0x0b, offset, 7, &value));
}

/// The offset of the last whole message.
fn last_offset(mut set: &[u8]) -> i64 {
    let mut last = 0;
    while let Some(len) = oracle::entry_len(set) {
        last = oracle::number(&set[..8]);
        set = &set[len..];
    }
    last
}

fn check_entry(data: &[u8]) {
    let sound = oracle::sound_entry(data);
    let Ok(batch) = Batch::parse(data) else { return };
    assert_eq!(Some(batch.bytes), sound, "accepted, but its length or checksum is wrong");
    if batch.header.magic == 2 {
        return;
    }
    DECODER.with_borrow_mut(|decoder| {
        let expected = expected(&batch, decoder);
        let got = bounded(MEMORY, || records(&batch, decoder));
        assert_eq!(got, expected, "other records than the naive reader's");
        let first = got.as_ref().and_then(|records| records.first()).map(|record| record.offset);
        let told = batch.first_offset(decoder, &LIMITS).map(|offset| offset.0);
        assert!(first.is_none() || told == first, "first offset is {told:?}, not {first:?}");
    });
}

/// The records by the naive reader. What the codecs make of the value, their own targets check.
fn expected(batch: &Batch<'_>, decoder: &mut Decoder) -> Option<Vec<Plain>> {
    let message = oracle::message(batch.bytes)?;
    if batch.header.codec == Codec::None {
        let oracle::Message { offset, timestamp, key, value, .. } = message;
        return Some(vec![Plain { offset, timestamp, key, value, headers: Vec::new() }]);
    }
    let value = message.value.as_deref()?;
    let set = decoder.decode(batch.header.codec, message.magic, value, &LIMITS).ok()?;
    oracle::records_of_set(&message, set)
}
