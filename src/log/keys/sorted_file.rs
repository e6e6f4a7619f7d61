//! Sorted entries in a file.
//!
//! ```text
//! 0   8   "topkeys" and the version of this layout
//! 8   8   count of entries          16  8  count of segments that they are of
//! 24  4   CRC-32C of the segments   28  4  CRC-32C of the firsts   32  4  of the bytes 0 to 32
//! 36      of each segment its base offset, and what `sidecar` knows a file by; then zeros up to the next 4096 bytes
//! ..      blocks of 4096 bytes: 204 entries in order, zeros behind the last one of all, and the CRC-32C of the block's
//!         number and entries in the last four bytes
//! ..      the firsts: hash and offset of each block's first entry, which are kept in memory
//! ```
//! Each block is checked when it is read, so nothing that happens to a file makes a wrong answer: it makes an error, and the
//! index is built again. Files are read by `pread`, never mapped, since a cut of a mapped file would end the process.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::entry::{ENTRY_LEN, Entry, Order};
use crate::format::crc32c::{Crc32c, crc32c};
use crate::log::files::read_full;
use crate::log::sidecar::FileIdentity;

const MAGIC: [u8; 8] = *b"topkeys\x01";
const BLOCK_LEN: usize = 4096;
/// Entries of a block.
pub(super) const BLOCK_ENTRIES: usize = (BLOCK_LEN - 4) / ENTRY_LEN;
/// More segments than any partition has.
const MAX_COVERS: u64 = 1 << 20;

/// The header, byte for byte as in the module's table.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    entries: U64,
    covers: U64,
    covers_crc: U32,
    firsts_crc: U32,
    header_crc: U32,
}
const HEADER_LEN: usize = 36;
const _: () = assert!(size_of::<Header>() == HEADER_LEN);

/// A segment whose keys a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Covered {
    pub(super) base: U64,
    pub(super) file: FileIdentity,
}

/// The first entry of a block.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct First {
    hash: U64,
    offset: U64,
}

/// Sorted entries in a file.
#[derive(Debug)]
pub(super) struct SortedFile {
    file: File,
    entries: u64,
    blocks_at: u64,
    firsts: Vec<First>,
}

/// The entries of one block.
#[derive(Debug, Clone)]
pub(super) struct Block {
    bytes: Box<[u8; BLOCK_LEN]>,
    len: usize,
}

impl Block {
    pub(super) fn entries(&self) -> &[Entry] {
        let bytes = self.bytes.get(..self.len * ENTRY_LEN).unwrap_or_default();
        <[Entry]>::ref_from_bytes(bytes).unwrap_or_default()
    }
}

impl SortedFile {
    /// Writes `entries`, which come in order and are `count`, to `file`, which is empty.
    pub(super) fn write(
        file: File,
        covers: &[Covered],
        count: u64,
        entries: impl Iterator<Item = io::Result<Entry>>,
    ) -> io::Result<Self> {
        let blocks_at = blocks_at(covers.len() as u64);
        let mut out = BufWriter::with_capacity(64 * BLOCK_LEN, &file);
        let mut front = vec![0; HEADER_LEN];
        front.extend_from_slice(covers.as_bytes());
        front.resize(usize::try_from(blocks_at).unwrap_or(usize::MAX), 0);
        out.write_all(&front)?;
        let mut firsts = Vec::new();
        let mut block = Vec::with_capacity(BLOCK_LEN);
        let mut written = 0;
        for entry in entries {
            let entry = entry?;
            if block.is_empty() {
                let (hash, offset) = entry.order();
                firsts.push(First { hash: hash.into(), offset: offset.into() });
            }
            block.extend_from_slice(entry.as_bytes());
            written += 1;
            if block.len() == BLOCK_ENTRIES * ENTRY_LEN {
                write_block(&mut out, firsts.len() as u64 - 1, &mut block)?;
            }
        }
        if !block.is_empty() {
            write_block(&mut out, firsts.len() as u64 - 1, &mut block)?;
        }
        out.write_all(firsts.as_bytes())?;
        out.flush()?;
        drop(out);
        if written != count {
            return Err(invalid("entries were lost"));
        }
        file.write_all_at(header(covers, count, &firsts).as_bytes(), 0)?;
        Ok(Self { file, entries: count, blocks_at, firsts })
    }

    /// A file that was written before, and the segments that it is of.
    pub(super) fn open(file: File) -> io::Result<(Self, Vec<Covered>)> {
        let mut bytes = [0; HEADER_LEN];
        if read_full(&file, &mut bytes, 0)? < HEADER_LEN {
            return Err(invalid("the header is cut"));
        }
        let header = Header::read_from_bytes(&bytes).map_err(|_| invalid("the header is cut"))?;
        let crc = crc32c(bytes.get(..HEADER_LEN - 4).unwrap_or_default());
        if header.magic != MAGIC || header.header_crc.get() != crc || header.covers.get() > MAX_COVERS {
            return Err(invalid("the header is wrong"));
        }
        let covers = section::<Covered>(&file, HEADER_LEN as u64, header.covers.get(), header.covers_crc)?;
        let blocks = header.entries.get().div_ceil(BLOCK_ENTRIES as u64);
        let blocks_at = blocks_at(header.covers.get());
        let firsts_at = blocks.saturating_mul(BLOCK_LEN as u64).saturating_add(blocks_at);
        if file.metadata()?.len() < firsts_at {
            return Err(invalid("the file is cut"));
        }
        let firsts = section::<First>(&file, firsts_at, blocks, header.firsts_crc)?;
        Ok((Self { file, entries: header.entries.get(), blocks_at, firsts }, covers))
    }

    /// The number of entries.
    pub(super) const fn len(&self) -> u64 {
        self.entries
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> u64 {
        (self.firsts.len() * size_of::<First>()) as u64
    }

    /// The number of the first entry that does not sort before `order`.
    pub(super) fn lower_bound(&self, order: Order) -> io::Result<u64> {
        let number = self.firsts.partition_point(|first| (first.hash.get(), first.offset.get()) < order);
        let Some(before) = number.checked_sub(1) else { return Ok(0) };
        let block = self.block(before as u64)?;
        let within = block.entries().partition_point(|entry| entry.order() < order);
        Ok((before * BLOCK_ENTRIES + within) as u64)
    }

    /// Block number `number`.
    pub(super) fn block(&self, number: u64) -> io::Result<Block> {
        let mut bytes = Box::new([0; BLOCK_LEN]);
        let position = self.blocks_at + number * BLOCK_LEN as u64;
        if read_full(&self.file, &mut bytes[..], position)? < BLOCK_LEN {
            return Err(invalid("a block is cut"));
        }
        let (entries, crc) = bytes.split_at(BLOCK_LEN - 4);
        if crc != block_crc(number, entries).to_be_bytes() {
            return Err(invalid("a block's checksum is wrong"));
        }
        let left = self.entries.saturating_sub(number * BLOCK_ENTRIES as u64);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK_ENTRIES);
        Ok(Block { bytes, len })
    }
}

fn header(covers: &[Covered], entries: u64, firsts: &[First]) -> Header {
    let mut header = Header {
        magic: MAGIC,
        entries: entries.into(),
        covers: (covers.len() as u64).into(),
        covers_crc: crc32c(covers.as_bytes()).into(),
        firsts_crc: crc32c(firsts.as_bytes()).into(),
        header_crc: 0.into(),
    };
    let crc = crc32c(header.as_bytes().get(..HEADER_LEN - 4).unwrap_or_default());
    header.header_crc = crc.into();
    header
}

fn blocks_at(covers: u64) -> u64 {
    let front = covers.saturating_mul(size_of::<Covered>() as u64).saturating_add(HEADER_LEN as u64);
    front.next_multiple_of(BLOCK_LEN as u64)
}

fn write_block(out: &mut impl Write, number: u64, block: &mut Vec<u8>) -> io::Result<()> {
    block.resize(BLOCK_LEN - 4, 0);
    let crc = block_crc(number, block);
    block.extend_from_slice(&crc.to_be_bytes());
    out.write_all(block)?;
    block.clear();
    Ok(())
}

/// The number is part of it, so that a block in another one's place is none.
fn block_crc(number: u64, entries: &[u8]) -> u32 {
    Crc32c::new().and(&number.to_be_bytes()).and(entries).value()
}

fn section<T: FromBytes + IntoBytes + Immutable + Copy>(
    file: &File,
    position: u64,
    count: u64,
    crc: U32,
) -> io::Result<Vec<T>> {
    let len = count.saturating_mul(size_of::<T>() as u64);
    if file.metadata()?.len() < position.saturating_add(len) {
        return Err(invalid("the file is cut"));
    }
    let mut items = vec![T::new_zeroed(); usize::try_from(count).unwrap_or(0)];
    read_full(file, items.as_mut_bytes(), position)?;
    if crc32c(items.as_bytes()) != crc.get() {
        return Err(invalid("a checksum is wrong"));
    }
    Ok(items)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("an index of keys: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Offset, Position};
    use zerocopy::FromZeros as _;

    fn entries(count: u64) -> Vec<Entry> {
        let entry =
            |number: u64| Entry::new(number / 7 * 1000, Offset((number % 7).cast_signed()), Position(number));
        (0..count).map(entry).collect()
    }

    fn written(count: u64) -> (tempfile::TempDir, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let covers = [Covered { base: 7.into(), file: FileIdentity::new_zeroed() }; 3];
        SortedFile::write(file, &covers, count, entries(count).into_iter().map(Ok)).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (dir, bytes)
    }

    fn all(file: &SortedFile) -> io::Result<Vec<Entry>> {
        let blocks = file.len().div_ceil(BLOCK_ENTRIES as u64);
        let mut entries = Vec::new();
        for number in 0..blocks {
            entries.extend_from_slice(file.block(number)?.entries());
        }
        Ok(entries)
    }

    #[test]
    fn what_is_written_is_read_and_found() {
        for count in [0, 1, 203, 204, 205, 1000] {
            let (dir, _) = written(count);
            let (file, covers) = SortedFile::open(File::open(dir.path().join("keys")).unwrap()).unwrap();
            assert_eq!((file.len(), covers.len()), (count, 3));
            let expected = entries(count);
            assert_eq!(all(&file).unwrap(), expected);
            for order in expected.iter().map(Entry::order).chain([(0, 0), (500, 3), (1000, 9), (u64::MAX, 0)])
            {
                let lower = expected.partition_point(|entry| entry.order() < order);
                assert_eq!(file.lower_bound(order).unwrap(), lower as u64, "{count} {order:?}");
            }
        }
    }

    #[test]
    fn a_flipped_byte_or_a_cut_is_an_error_or_changes_nothing() {
        let (dir, sound) = written(450);
        let path = dir.path().join("keys");
        let expected = entries(450);
        let is_read_right = || {
            let file = File::open(&path).unwrap();
            let read = SortedFile::open(file).and_then(|(file, covers)| Ok((all(&file)?, covers)));
            read.is_err() || read.is_ok_and(|(read, covers)| read == expected && covers[0].base.get() == 7)
        };
        let in_place = File::options().write(true).open(&path).unwrap();
        for (at, byte) in sound.iter().enumerate() {
            in_place.write_all_at(&[byte ^ 0x10], at as u64).unwrap();
            assert!(is_read_right(), "byte {at}");
            in_place.write_all_at(&[*byte], at as u64).unwrap();
        }
        let is_harmless = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            is_read_right()
        };
        for len in (0..sound.len()).step_by(13) {
            assert!(is_harmless(&sound[..len]), "cut at {len}");
        }
        let mut swapped = sound.clone();
        swapped[4096..8192].copy_from_slice(&sound[8192..12288]);
        swapped[8192..12288].copy_from_slice(&sound[4096..8192]);
        assert!(is_harmless(&swapped));
    }
}
