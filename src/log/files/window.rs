//! A window on a file that is read from front to back, with looks ahead and back.

use std::io;

use crate::log::files::{ReadAt, read_full};

/// Bytes read at once; fits a core's second-level cache, so that checking and rendering read from there.
pub(in crate::log) const CHUNK: usize = 256 * 1024;
/// And at first: many only look at one place.
const FIRST: usize = 32 * 1024;

/// The part of the file that is in memory.
#[derive(Debug, Default)]
pub(in crate::log) struct Window {
    bytes: Vec<u8>,
    start: u64,
    /// How much was wanted the last time.
    wanted: usize,
}

impl Window {
    /// Makes `len` bytes at `position` available, fewer where the file ends.
    pub(in crate::log) fn need(&mut self, file: &impl ReadAt, position: u64, len: usize) -> io::Result<()> {
        let have = self.start + self.bytes.len() as u64;
        if position >= self.start && position + len as u64 <= have {
            return Ok(());
        }
        let keep = if position >= self.start && position < have {
            let from = usize::try_from(position - self.start).unwrap_or(0);
            self.bytes.copy_within(from.., 0);
            self.bytes.len() - from
        } else {
            0
        };
        self.wanted = self.wanted.saturating_mul(2).clamp(FIRST, CHUNK);
        self.bytes.resize(len.max(self.wanted), 0);
        self.start = position;
        let read = read_full(file, &mut self.bytes[keep..], position + keep as u64)?;
        self.bytes.truncate(keep + read);
        Ok(())
    }

    /// Makes `len` bytes at `position` available, too: what is in memory stays there.
    pub(in crate::log) fn need_too(
        &mut self,
        file: &impl ReadAt,
        position: u64,
        len: usize,
    ) -> io::Result<()> {
        let (old, end) = (self.bytes.len(), position + len as u64);
        let have = self.start + old as u64;
        if position < self.start || position > have {
            return self.need(file, position, len);
        }
        if let Some(more) = end.checked_sub(have).and_then(|more| usize::try_from(more).ok()) {
            self.bytes.resize(old + more, 0);
            let read = read_full(file, &mut self.bytes[old..], have)?;
            self.bytes.truncate(old + read);
        }
        Ok(())
    }

    /// The bytes at `position`, as many of `len` as were made available.
    pub(in crate::log) fn get(&self, position: u64, len: usize) -> &[u8] {
        let from = usize::try_from(position.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let from = from.min(self.bytes.len());
        let to = from.saturating_add(len).min(self.bytes.len());
        &self.bytes[from..to]
    }
}
