//! A second reader of Kafka's format, as naive as it can be: what the engine says is compared with it.
//!
//! It shares no code with topicfs but the codecs' own libraries, and is meant to be read, not to be fast.

use std::sync::LazyLock;

/// Bytes before the part that an entry's size counts.
const SIZE_OVERHEAD: usize = 12;
/// Bytes of the header of magic 2.
const HEADER_V2_LEN: usize = 61;

/// One record as bytes of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Plain {
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// CRC-32C, by its definition.
pub fn crc32c(bytes: &[u8]) -> u32 {
    static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| crc_table(0x82f6_3b78));
    crc(&TABLE, bytes)
}

/// CRC-32 of gzip, by its definition.
pub fn crc32(bytes: &[u8]) -> u32 {
    static TABLE: LazyLock<[u32; 256]> = LazyLock::new(|| crc_table(0xedb8_8320));
    crc(&TABLE, bytes)
}

fn crc_table(polynomial: u32) -> [u32; 256] {
    std::array::from_fn(|index| {
        (0..8).fold(index as u32, |crc, _| if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 })
    })
}

fn crc(table: &[u32; 256], bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| crc >> 8 ^ table[(crc as u8 ^ byte) as usize])
}

/// The big-endian number in these bytes.
pub fn number(bytes: &[u8]) -> i64 {
    let unsigned = bytes.iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
    let unused = 64 - 8 * bytes.len() as u32;
    unsigned << unused >> unused
}

/// The length of the entry at the start of `bytes`, if it is there as a whole.
pub fn entry_len(bytes: &[u8]) -> Option<usize> {
    let size = usize::try_from(number(bytes.get(8..12)?)).ok()?;
    let len = size + SIZE_OVERHEAD;
    (len >= 26 && len <= bytes.len()).then_some(len)
}

/// Whether a whole entry with a right checksum begins here; its bytes.
pub fn sound_entry(bytes: &[u8]) -> Option<&[u8]> {
    let entry = &bytes[..entry_len(bytes)?];
    let (stored, computed) = match entry[16] {
        2 if entry.len() >= HEADER_V2_LEN => (&entry[17..21], crc32c(&entry[21..])),
        0 | 1 => (&entry[12..16], crc32(&entry[16..])),
        _ => return None,
    };
    (stored == computed.to_be_bytes()).then_some(entry)
}

/// Every entry with a right checksum, wherever it begins.
pub fn sound_entries(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..bytes.len()).filter_map(|at| sound_entry(&bytes[at..]))
}

/// Makes the checksums right of all entries from the start on, as far as their sizes lead.
pub fn repair(mut bytes: &mut [u8]) {
    while let Some(len) = entry_len(bytes) {
        let (entry, rest) = bytes.split_at_mut(len);
        repair_entry(entry);
        bytes = rest;
    }
}

/// Makes the size and the checksum right of one entry that takes all of these bytes.
pub fn repair_whole(entry: &mut [u8]) {
    if entry.len() >= 26 {
        let size = (entry.len() - SIZE_OVERHEAD) as u32;
        entry[8..12].copy_from_slice(&size.to_be_bytes());
        repair_entry(entry);
    }
}

fn repair_entry(entry: &mut [u8]) {
    match entry[16] {
        2 if entry.len() >= HEADER_V2_LEN => {
            let crc = crc32c(&entry[21..]);
            entry[17..21].copy_from_slice(&crc.to_be_bytes());
        }
        0 | 1 => {
            let crc = crc32(&entry[16..]);
            entry[12..16].copy_from_slice(&crc.to_be_bytes());
        }
        _ => {}
    }
}

/// A varint (zigzag) of at most `most` bytes.
fn varint(bytes: &mut &[u8], most: usize) -> Option<i64> {
    let mut value = 0_u64;
    for index in 0..most {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            // Java's ints wrap at 32 bits.
            return Some(if most == 5 {
                let value = value as u32;
                i64::from((value >> 1) as i32 ^ -((value & 1) as i32))
            } else {
                (value >> 1) as i64 ^ -((value & 1) as i64)
            });
        }
    }
    None
}

fn take<'a>(bytes: &mut &'a [u8], len: i64) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(len).ok()?)?;
    *bytes = rest;
    Some(taken)
}

fn nullable(bytes: &mut &[u8], len: i64) -> Option<Option<Vec<u8>>> {
    if len < 0 { Some(None) } else { take(bytes, len).map(|bytes| Some(bytes.to_vec())) }
}

/// The records of a whole entry of magic 2 whose payload, decompressed, is `payload`; `None` if one is damaged.
pub fn records_v2(entry: &[u8], mut payload: &[u8]) -> Option<Vec<Plain>> {
    let (base, count) = (number(&entry[..8]), number(&entry[57..61]));
    let last = base.checked_add(number(&entry[23..27]))?;
    let append_time = (entry[22] & 0x08 != 0).then(|| number(&entry[35..43]));
    let base_timestamp = number(&entry[27..35]);
    let mut records: Vec<Plain> = Vec::new();
    for _ in 0..count {
        let len = varint(&mut payload, 5)?;
        let mut body = take(&mut payload, len)?;
        take(&mut body, 1)?;
        let timestamp = base_timestamp.wrapping_add(varint(&mut body, 10)?);
        let offset = base.checked_add(varint(&mut body, 5)?)?;
        let len = varint(&mut body, 5)?;
        let key = nullable(&mut body, len)?;
        let len = varint(&mut body, 5)?;
        let value = nullable(&mut body, len)?;
        let mut headers = Vec::new();
        let header_count = varint(&mut body, 5)?;
        if header_count < 0 {
            return None;
        }
        for _ in 0..header_count {
            let len = varint(&mut body, 5)?;
            let name = take(&mut body, len)?.to_vec();
            let len = varint(&mut body, 5)?;
            headers.push((name, nullable(&mut body, len)?));
        }
        let is_above = records.last().is_none_or(|before| offset > before.offset);
        if !body.is_empty() || offset < base || offset > last || !is_above {
            return None;
        }
        records.push(Plain { offset, timestamp: append_time.unwrap_or(timestamp), key, value, headers });
    }
    (payload.is_empty() || count == 0).then_some(records)
}

/// Key and value of one whole entry of magic 0 or 1, its timestamp and its attributes.
pub struct Message {
    pub magic: u8,
    pub attributes: u8,
    pub offset: i64,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
}

/// Reads one whole entry of magic 0 or 1.
pub fn message(entry: &[u8]) -> Option<Message> {
    let (magic, attributes) = (*entry.get(16)?, *entry.get(17)?);
    let (timestamp, mut rest) = match magic {
        0 => (-1, &entry[18..]),
        1 => (number(entry.get(18..26)?), &entry[26..]),
        _ => return None,
    };
    let mut field = || {
        let len = number(take(&mut rest, 4)?);
        nullable(&mut rest, len)
    };
    let (key, value) = (field()?, field()?);
    let offset = number(&entry[..8]);
    rest.is_empty().then_some(Message { magic, attributes, offset, timestamp, key, value })
}

/// The records of a set of messages in a wrapper; `None` if one is damaged.
pub fn records_of_set(wrapper: &Message, mut set: &[u8]) -> Option<Vec<Plain>> {
    let mut messages = Vec::new();
    while !set.is_empty() {
        let (entry, rest) = set.split_at(entry_len(set)?);
        messages.push(message(sound_entry(entry)?)?);
        set = rest;
    }
    let last_inner = messages.last()?.offset;
    let (base, last) = match (wrapper.magic, wrapper.offset) {
        (0, outer) => (0, outer),
        // librdkafka left 0 here.
        (_, 0) => (0, last_inner),
        (_, outer) => (outer.checked_sub(last_inner)?, outer),
    };
    let mut records: Vec<Plain> = Vec::new();
    for Message { magic, attributes, offset, timestamp, key, value } in messages {
        let offset = base.checked_add(offset)?;
        let is_above = records.last().is_none_or(|before| offset > before.offset);
        if attributes & 0x07 != 0 || base < 0 || offset < base || offset > last || !is_above {
            return None;
        }
        let is_append_time = magic == 1 && wrapper.attributes & 0x08 != 0 && wrapper.magic == 1;
        let timestamp = if is_append_time { wrapper.timestamp } else { timestamp };
        records.push(Plain { offset, timestamp, key, value, headers: Vec::new() });
    }
    Some(records)
}

/// A varint as Kafka writes it.
fn push_varint(number: i64, out: &mut Vec<u8>) {
    let mut value = (number << 1 ^ number >> 63) as u64;
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn push_nullable(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    push_varint(bytes.map_or(-1, |bytes| bytes.len() as i64), out);
    out.extend_from_slice(bytes.unwrap_or_default());
}

/// The payload of a batch of magic 2 with these base values, before compression.
pub fn payload_v2(base: i64, base_timestamp: i64, records: &[Plain]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        let mut body = vec![0];
        push_varint(record.timestamp.wrapping_sub(base_timestamp), &mut body);
        push_varint(record.offset - base, &mut body);
        push_nullable(record.key.as_deref(), &mut body);
        push_nullable(record.value.as_deref(), &mut body);
        push_varint(record.headers.len() as i64, &mut body);
        for (name, value) in &record.headers {
            push_nullable(Some(name), &mut body);
            push_nullable(value.as_deref(), &mut body);
        }
        push_varint(body.len() as i64, &mut out);
        out.extend_from_slice(&body);
    }
    out
}

/// A message of magic 0 or 1 with a right checksum.
pub fn encode_message(magic: u8, attributes: u8, offset: i64, timestamp: i64, value: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 16];
    out[..8].copy_from_slice(&offset.to_be_bytes());
    out.extend([magic, attributes]);
    if magic == 1 {
        out.extend(timestamp.to_be_bytes());
    }
    out.extend((-1_i32).to_be_bytes());
    out.extend((value.len() as i32).to_be_bytes());
    out.extend_from_slice(value);
    repair_whole(&mut out);
    out
}
