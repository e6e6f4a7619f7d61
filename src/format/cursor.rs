//! Reads numbers and slices off the front of a byte slice; the variable layouts are parsed with it.
//!
//! Varints are zigzag LEB128, as in Protocol Buffers, but for the lengths and tags of the flexible wire format (KIP-482), which
//! are unsigned. Encodings longer than necessary are accepted, as Kafka does.

use crate::format::error::RecordFault;
use crate::format::uuid::Uuid;

/// What is left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The bytes not read yet.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `len` bytes.
    #[inline]
    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], RecordFault> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(RecordFault::Cut)?;
        self.bytes = rest;
        Ok(taken)
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<[u8; N], RecordFault> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(RecordFault::Cut)?;
        self.bytes = rest;
        Ok(*taken)
    }

    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8, RecordFault> {
        self.chunk().map(u8::from_be_bytes)
    }

    pub(super) fn i16(&mut self) -> Result<i16, RecordFault> {
        self.chunk().map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, RecordFault> {
        self.chunk().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, RecordFault> {
        self.chunk().map(i64::from_be_bytes)
    }

    /// Bytes with an i32 for their length; a negative length is null.
    pub(super) fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        let len = self.i32()?;
        self.nullable(len)
    }

    /// The same with an i16.
    pub(super) fn nullable_short_bytes(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        let len = self.i16()?;
        self.nullable(i32::from(len))
    }

    /// Bytes with a varint for their length; a negative length is null.
    #[inline]
    pub(super) fn nullable_varint_bytes(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        let len = self.varint()?;
        self.nullable(len)
    }

    #[inline]
    fn nullable(&mut self, len: i32) -> Result<Option<&'a [u8]>, RecordFault> {
        match usize::try_from(len) {
            Ok(len) => self.take(len).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// A 32-bit varint.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<i32, RecordFault> {
        match *self.bytes {
            [byte, ref rest @ ..] if byte < 0x80 => {
                self.bytes = rest;
                Ok(unzigzag32(u32::from(byte)))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.bytes = rest;
                Ok(unzigzag32(u32::from(two_bytes(low, high))))
            }
            _ => self.long_varint(),
        }
    }

    /// A 64-bit varint.
    #[inline]
    pub(super) fn varlong(&mut self) -> Result<i64, RecordFault> {
        match *self.bytes {
            [byte, ref rest @ ..] if byte < 0x80 => {
                self.bytes = rest;
                Ok(unzigzag64(u64::from(byte)))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.bytes = rest;
                Ok(unzigzag64(u64::from(two_bytes(low, high))))
            }
            _ => self.long_varlong(),
        }
    }

    /// An unsigned 32-bit varint.
    pub(super) fn unsigned(&mut self) -> Result<u32, RecordFault> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.u8()?;
            value |= u32::from(byte & 0x7f).wrapping_shl(shift);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(RecordFault::Varint)
    }

    /// A length of the flexible wire format, an unsigned varint that is one more; 0 is null.
    fn nullable_compact_len(&mut self) -> Result<Option<usize>, RecordFault> {
        let len = self.unsigned()?.checked_sub(1);
        len.map(|len| usize::try_from(len).map_err(|_| RecordFault::Length)).transpose()
    }

    /// The same of what can't be null.
    pub(super) fn compact_len(&mut self) -> Result<usize, RecordFault> {
        self.nullable_compact_len()?.ok_or(RecordFault::Length)
    }

    /// Bytes or a string of the flexible wire format.
    pub(super) fn compact_bytes(&mut self) -> Result<&'a [u8], RecordFault> {
        let len = self.compact_len()?;
        self.take(len)
    }

    /// The same, or null.
    pub(super) fn nullable_compact_bytes(&mut self) -> Result<Option<&'a [u8]>, RecordFault> {
        let len = self.nullable_compact_len()?;
        len.map(|len| self.take(len)).transpose()
    }

    /// 16 bytes.
    pub(super) fn uuid(&mut self) -> Result<Uuid, RecordFault> {
        self.chunk().map(Uuid)
    }

    /// Passes over the tagged fields that end a struct of the flexible wire format.
    pub(super) fn skip_tags(&mut self) -> Result<(), RecordFault> {
        for _ in 0..self.unsigned()? {
            self.unsigned()?;
            let len = usize::try_from(self.unsigned()?).map_err(|_| RecordFault::Length)?;
            self.take(len)?;
        }
        Ok(())
    }

    fn long_varint(&mut self) -> Result<i32, RecordFault> {
        self.unsigned().map(unzigzag32)
    }

    fn long_varlong(&mut self) -> Result<i64, RecordFault> {
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28, 35, 42, 49, 56, 63] {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte < 0x80 {
                return Ok(unzigzag64(value));
            }
        }
        Err(RecordFault::Varint)
    }
}

/// The value of a varint of two bytes, the most frequent length after one.
#[inline]
fn two_bytes(low: u8, high: u8) -> u16 {
    u16::from(low & 0x7f) | u16::from(high) << 7
}

#[inline]
const fn unzigzag32(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

#[inline]
const fn unzigzag64(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length() {
        for (bytes, expected) in [
            (&[0x00][..], 0),
            (&[0x01], -1),
            (&[0x02], 1),
            (&[0x7f], -64),
            (&[0x80, 0x01], 64),
            (&[0xfe, 0xff, 0xff, 0xff, 0x0f], i32::MAX),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN),
            (&[0x82, 0x80, 0x80, 0x80, 0x00], 1),
        ] {
            let mut cursor = Cursor::new(bytes);
            assert_eq!(cursor.varint(), Ok(expected), "{bytes:x?}");
            assert!(cursor.rest().is_empty());
            assert_eq!(Cursor::new(bytes).varlong(), Ok(i64::from(expected)), "{bytes:x?}");
        }
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Cursor::new(&longest).varlong(), Ok(i64::MIN));
    }

    #[test]
    fn varints_too_long_or_cut() {
        assert_eq!(Cursor::new(&[0x80; 5]).varint(), Err(RecordFault::Varint));
        assert_eq!(Cursor::new(&[0x80; 10]).varlong(), Err(RecordFault::Varint));
        assert_eq!(Cursor::new(&[0x80; 4]).varint(), Err(RecordFault::Cut));
        assert_eq!(Cursor::new(&[0x80; 9]).varlong(), Err(RecordFault::Cut));
        assert_eq!(Cursor::new(&[]).varint(), Err(RecordFault::Cut));
    }

    #[test]
    fn lengths_are_checked() {
        assert_eq!(Cursor::new(&[0xff, 0xff, 0xff, 0xff]).nullable_bytes(), Ok(None));
        assert_eq!(Cursor::new(&[0, 0, 0, 0]).nullable_bytes(), Ok(Some(&[][..])));
        assert_eq!(Cursor::new(&[0, 0, 0, 2, 7]).nullable_bytes(), Err(RecordFault::Cut));
        assert_eq!(Cursor::new(&[4, 7]).nullable_varint_bytes(), Err(RecordFault::Cut));
    }
}
