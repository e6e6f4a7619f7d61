//! Memory for rendered bytes, used again: what was read just now is still in the processor's cache, and large memory is dear to get.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All that is kept together.
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// A buffer that grew beyond this goes back to the system after use.
pub(super) const LARGEST: usize = 4 * 1024 * 1024;

/// Buffers that nobody uses now.
#[derive(Debug, Clone, Default)]
pub struct Buffers(Arc<Mutex<Spare>>);

#[derive(Debug, Default)]
struct Spare {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// Bytes in a buffer that goes back when they are dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    home: Buffers,
}

impl Buffers {
    /// An empty buffer: the one that came back last.
    pub fn take(&self) -> Buffer {
        let mut bytes = self.pop();
        bytes.clear();
        Buffer { bytes, home: self.clone() }
    }

    /// A buffer of `len` bytes, whatever they are: to be overwritten.
    pub fn take_sized(&self, len: usize) -> Buffer {
        let mut bytes = self.pop();
        bytes.resize(len, 0);
        Buffer { bytes, home: self.clone() }
    }

    /// Gives all of them back to the system.
    pub fn give_up(&self) {
        *self.lock() = Spare::default();
    }

    fn pop(&self) -> Vec<u8> {
        let mut spare = self.lock();
        let bytes = spare.buffers.pop().unwrap_or_default();
        spare.bytes -= bytes.capacity();
        bytes
    }

    fn put(&self, bytes: Vec<u8>) {
        let mut spare = self.lock();
        let all = spare.bytes.saturating_add(bytes.capacity());
        if bytes.capacity() <= LARGEST && all <= KEPT_BYTES {
            spare.bytes = all;
            spare.buffers.push(bytes);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Spare> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.put(std::mem::take(&mut self.bytes));
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_what_is_kept_is_bounded() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.extend_from_slice(b"bytes");
        let place = buffer.as_ptr();
        drop(buffer);
        let buffer = buffers.take();
        assert_eq!((buffer.len(), buffer.as_ptr()), (0, place));

        let mut large = buffers.take();
        large.reserve(LARGEST + 1);
        drop(large);
        assert_eq!(buffers.take().capacity(), 0, "too large to be kept");

        let many: Vec<_> = (0..20).map(|_| buffers.take()).collect();
        for mut one in many {
            one.reserve_exact(1024 * 1024);
        }
        assert_eq!(buffers.lock().bytes, KEPT_BYTES);
    }
}
