//! An entry of magic 2 (KIP-98): as it is, with its checksum made right, and with its payload compressed.

use std::cell::RefCell;

use topicfs::format::batch::{Batch, Codec, Decoder, HEADER_V2_LEN, Header, Limits, Prefix};
use topicfs::format::record::{Record, TimestampType};

use crate::memory::bounded;
use crate::oracle::{self, Plain, number};
use crate::{LIMITS, MEMORY, codecs};

thread_local!(pub(crate) static DECODER: RefCell<Decoder> = RefCell::default());

/// Checks one input.
pub fn check(data: &[u8]) {
    let _ = Prefix::read(data).map(|prefix| prefix.entry_len());
    let _ = Header::peek(data);
    check_entry(data);
    if data.len() < HEADER_V2_LEN {
        return;
    }
    let mut entry = data.to_vec();
    entry[16] = 2;
    oracle::repair_whole(&mut entry);
    check_entry(&entry);
    if data.len().is_multiple_of(8)
        && let Some(payload) = codecs::encode(entry[22] & 0x07, &entry[HEADER_V2_LEN..])
    {
        entry.truncate(HEADER_V2_LEN);
        entry.extend(payload);
        oracle::repair_whole(&mut entry);
        check_entry(&entry);
    }
}

fn check_entry(data: &[u8]) {
    let sound = oracle::sound_entry(data);
    let Ok(batch) = Batch::parse(data) else { return };
    assert_eq!(Some(batch.bytes), sound, "accepted, but its length or checksum is wrong");
    if batch.header.magic < 2 {
        return;
    }
    check_header(&batch);
    DECODER.with_borrow_mut(|decoder| {
        let expected = payload(&batch, decoder).and_then(|payload| oracle::records_v2(batch.bytes, &payload));
        let got = bounded(MEMORY, || records(&batch, decoder));
        assert_eq!(got, expected, "other records than the naive reader's");
        if let Some(records) = expected.filter(|records| !records.is_empty()) {
            check_encoded_again(&batch, &records, decoder);
        }
    });
}

/// All records, `None` if one is damaged; those before it keep to the rules too.
pub(crate) fn records(batch: &Batch<'_>, decoder: &mut Decoder) -> Option<Vec<Plain>> {
    let mut plain: Vec<Plain> = Vec::new();
    let (first, last) = (batch.header.base_offset, batch.header.last_offset);
    for record in batch.records(decoder, &LIMITS).ok()? {
        let record = record.ok()?;
        assert!(first.is_none_or(|first| record.offset >= first) && record.offset <= last || last.0 == 0);
        assert!(plain.last().is_none_or(|before| before.offset < record.offset.0), "offsets don't ascend");
        plain.push(owned(&record));
    }
    Some(plain)
}

/// A record with bytes of its own.
pub(crate) fn owned(record: &Record<'_>) -> Plain {
    let headers: Vec<_> =
        record.headers.iter().map(|h| (h.name.to_vec(), h.value.map(<[u8]>::to_vec))).collect();
    assert_eq!(headers.len(), record.headers.len());
    Plain {
        offset: record.offset.0,
        timestamp: record.timestamp.0,
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        headers,
    }
}

/// The payload, decompressed. What the codecs make of it, their own targets check.
fn payload(batch: &Batch<'_>, decoder: &mut Decoder) -> Option<Vec<u8>> {
    let payload = &batch.bytes[HEADER_V2_LEN..];
    match batch.header.codec {
        _ if batch.header.record_count == Some(0) => Some(Vec::new()),
        Codec::None => Some(payload.to_vec()),
        codec => decoder.decode(codec, 2, payload, &LIMITS).ok().map(<[u8]>::to_vec),
    }
}

/// Each field is where the table in the module's documentation says.
fn check_header(batch: &Batch<'_>) {
    let (header, bytes) = (&batch.header, batch.bytes);
    let at = |from: usize, to: usize| number(&bytes[from..to]);
    let known = |number: i64| Some(number).filter(|number| *number != -1);
    assert_eq!(header.base_offset.map(|offset| offset.0), Some(at(0, 8)));
    assert_eq!(header.last_offset.0, at(0, 8) + at(23, 27));
    assert_eq!(header.leader_epoch.map(|epoch| i64::from(epoch.0)), known(at(12, 16)));
    assert_eq!(header.base_timestamp.0, at(27, 35));
    assert_eq!(header.max_timestamp.0, at(35, 43));
    assert_eq!(header.producer_id.map(|id| id.0), known(at(43, 51)));
    assert_eq!(i64::from(header.producer_epoch), at(51, 53));
    assert_eq!(i64::from(header.base_sequence), at(53, 57));
    assert_eq!(header.record_count.map(i64::from), Some(at(57, 61)));
    assert_eq!(header.timestamp_type == TimestampType::LogAppendTime, bytes[22] & 0x08 != 0);
    assert_eq!(header.is_transactional, bytes[22] & 0x10 != 0);
    assert_eq!(header.is_control, bytes[22] & 0x20 != 0);
    assert_eq!(header.has_delete_horizon, bytes[22] & 0x40 != 0);
    assert_eq!(Header::peek(&bytes[..HEADER_V2_LEN]), Ok(*header));
}

/// The same records, written anew without compression, are read as the same records.
fn check_encoded_again(batch: &Batch<'_>, records: &[Plain], decoder: &mut Decoder) {
    let header = &batch.header;
    let base = header.first_known().0;
    let mut entry = batch.bytes[..HEADER_V2_LEN].to_vec();
    entry[22] &= !0x07;
    entry.extend(oracle::payload_v2(base, header.base_timestamp.0, records));
    oracle::repair_whole(&mut entry);
    let again = Batch::parse(&entry).expect("what was written is sound");
    assert_eq!(self::records(&again, decoder).as_deref(), Some(records), "not the same when written anew");
    let limits = Limits { max_decoded_bytes: 0, ..LIMITS };
    assert!(again.records(decoder, &limits).is_ok(), "without a codec nothing is decompressed");
}
