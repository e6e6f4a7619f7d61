//! One record of magic 2 as it is written; see [`record`](crate::format::record) for its layout.

use crate::format::record::{Header, Headers};

/// A record, relative to its batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenRecord<'a> {
    pub(super) time_delta: i64,
    pub(super) offset_delta: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: WrittenHeaders<'a>,
}

/// Its headers.
#[derive(Debug, Clone, Copy)]
pub(super) enum WrittenHeaders<'a> {
    /// One by one.
    List(&'a [Header<'a>]),
    /// Those of another record.
    Stored(Headers<'a>),
}

impl WrittenRecord<'_> {
    /// How many bytes it takes.
    pub(super) fn len(&self) -> usize {
        let len = self.body_len();
        varlong_len(signed(len)).saturating_add(len)
    }

    fn body_len(&self) -> usize {
        [
            1,
            varlong_len(self.time_delta),
            varlong_len(self.offset_delta),
            field_len(self.key),
            field_len(self.value),
            self.headers.len(),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }

    /// Appends it.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put_varlong(out, signed(self.body_len()));
        out.push(0);
        put_varlong(out, self.time_delta);
        put_varlong(out, self.offset_delta);
        put_bytes(out, self.key);
        put_bytes(out, self.value);
        self.headers.put(out);
    }
}

/// The longest value of a record that takes no more than `most` bytes and is the first of its batch, without key and headers.
pub(super) fn longest_value(most: usize) -> usize {
    /// Attributes, both deltas, no key, no headers: a byte each.
    const OTHERS: usize = 5;
    let len = |value: usize| {
        let body = varlong_len(signed(value)).saturating_add(value).saturating_add(OTHERS);
        varlong_len(signed(body)).saturating_add(body)
    };
    let mut value = most;
    while value > 0 && len(value) > most {
        value = value.saturating_sub(len(value).saturating_sub(most));
    }
    // Its length took a byte more while it was longer.
    while len(value.saturating_add(1)) <= most {
        value = value.saturating_add(1);
    }
    value
}

impl WrittenHeaders<'_> {
    fn count(&self) -> usize {
        match self {
            Self::List(headers) => headers.len(),
            Self::Stored(headers) => headers.len(),
        }
    }

    fn len(&self) -> usize {
        let fields = match self {
            Self::List(headers) => headers
                .iter()
                .map(|header| field_len(Some(header.name)).saturating_add(field_len(header.value)))
                .fold(0, usize::saturating_add),
            Self::Stored(headers) => headers.bytes().len(),
        };
        varlong_len(signed(self.count())).saturating_add(fields)
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_varlong(out, signed(self.count()));
        match self {
            Self::List(headers) => {
                for header in *headers {
                    put_bytes(out, Some(header.name));
                    put_bytes(out, header.value);
                }
            }
            Self::Stored(headers) => out.extend_from_slice(headers.bytes()),
        }
    }
}

/// No length is that large in memory.
fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// Bytes of a zigzag varint.
fn varlong_len(value: i64) -> usize {
    let zigzag = (value << 1 ^ value >> 63).cast_unsigned();
    let bits = u64::BITS.saturating_sub((zigzag | 1).leading_zeros());
    usize::try_from(bits.div_ceil(7)).unwrap_or(usize::MAX)
}

/// Bytes of a length and what it counts.
fn field_len(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varlong_len(signed(bytes.len())).saturating_add(bytes.len()))
}

/// A zigzag varint, 1 to 10 bytes; one of 32 bits has the same bytes.
fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut rest = (value << 1 ^ value >> 63).cast_unsigned();
    while rest >= 0x80 {
        let [low, ..] = rest.to_le_bytes();
        out.push(low | 0x80);
        rest >>= 7;
    }
    let [low, ..] = rest.to_le_bytes();
    out.push(low);
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varlong(out, -1),
        Some(bytes) => {
            put_varlong(out, signed(bytes.len()));
            out.extend_from_slice(bytes);
        }
    }
}
