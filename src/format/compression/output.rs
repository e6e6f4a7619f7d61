//! The buffer that all codecs write to: reused, grown as needed, and never above the limit.

use crate::format::compression::Stop;

/// What grows first; most batches need no more.
const FIRST_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(super) struct Output {
    /// All of it is initialised, so that codecs can write to slices of it.
    bytes: Vec<u8>,
    /// How many bytes are decompressed data.
    len: usize,
    /// How many there may be.
    limit: usize,
}

impl Output {
    /// Forgets the data, keeps the memory.
    pub(super) fn restart(&mut self, limit: usize) {
        self.len = 0;
        self.limit = limit;
    }

    pub(super) fn filled(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The rest of the buffer, of at least `wanted` bytes unless the limit is nearer, and never empty.
    ///
    /// It ends one byte above the limit: a codec that fills it has too much, and one that stays below is done.
    pub(super) fn spare(&mut self, wanted: usize) -> Result<&mut [u8], Stop> {
        let most = self.limit.saturating_add(1);
        let needed = self.len.saturating_add(wanted.max(1)).min(most);
        if needed > self.bytes.len() {
            self.grow(needed.max(self.bytes.len().saturating_mul(2)).max(FIRST_BYTES).min(most))?;
        }
        let end = self.bytes.len().min(most);
        self.bytes.get_mut(self.len..end).ok_or(Stop::Full)
    }

    fn grow(&mut self, new_len: usize) -> Result<(), Stop> {
        if self.len == 0 {
            // Nothing in it is worth to be copied.
            self.bytes = Vec::new();
        }
        let more = new_len.saturating_sub(self.bytes.len());
        self.bytes.try_reserve_exact(more).map_err(|_| Stop::Full)?;
        self.bytes.resize(new_len, 0);
        Ok(())
    }

    /// Whether the buffer can't grow any more.
    pub(super) fn is_at_limit(&self) -> bool {
        self.bytes.len() > self.limit
    }

    /// Counts `written` bytes at the start of [`Output::spare`] as data.
    pub(super) fn advance(&mut self, written: usize) -> Result<(), Stop> {
        let len = self.len.saturating_add(written);
        if len > self.limit {
            return Err(Stop::Full);
        }
        self.len = len;
        Ok(())
    }

    /// Adds bytes that are not compressed.
    pub(super) fn append(&mut self, data: &[u8]) -> Result<(), Stop> {
        let spare = self.spare(data.len())?.get_mut(..data.len()).ok_or(Stop::Full)?;
        spare.copy_from_slice(data);
        self.advance(data.len())
    }
}
