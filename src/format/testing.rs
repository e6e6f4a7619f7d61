//! What the tests of this layer share.

use crate::format::record::Record;

/// Bytes from hexadecimal digits.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// Offset, timestamp, key, value and headers, to compare with.
pub(crate) type Owned = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(Vec<u8>, Option<Vec<u8>>)>);

pub(crate) fn owned(record: &Record<'_>) -> Owned {
    let vec = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    let headers = record.headers.iter().map(|header| (header.name.to_vec(), vec(header.value)));
    (record.offset.0, record.timestamp.0, vec(record.key), vec(record.value), headers.collect())
}

/// One entry of magic 0 or 1, with the right checksum.
pub(crate) struct Message<'a> {
    pub(crate) magic: u8,
    pub(crate) offset: i64,
    pub(crate) attributes: u8,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

impl Message<'_> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = vec![self.magic, self.attributes];
        if self.magic == 1 {
            body.extend_from_slice(&self.timestamp.to_be_bytes());
        }
        for field in [self.key, self.value] {
            let len = field.map_or(-1, |bytes| i32::try_from(bytes.len()).unwrap());
            body.extend_from_slice(&len.to_be_bytes());
            body.extend_from_slice(field.unwrap_or_default());
        }
        let size = i32::try_from(body.len() + 4).unwrap();
        let crc = crc32fast::hash(&body);
        [&self.offset.to_be_bytes()[..], &size.to_be_bytes(), &crc.to_be_bytes(), &body].concat()
    }
}

/// gzip, as a wrapper's value.
pub(crate) fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, data).unwrap();
    encoder.finish().unwrap()
}
