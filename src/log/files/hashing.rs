//! A file that is hashed while it is read, so that a failing disk is asked for each byte once.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use crate::log::files::{ReadAt, SourceFile, read_full};

/// Bytes read at once to hash what nobody has read.
const PIECE: usize = 256 * 1024;

/// The SHA-256 of a file.
pub type Sum = [u8; 32];

/// A file whose bytes are hashed as they are first read; reads may skip and repeat.
pub struct HashedFile<'a> {
    file: &'a SourceFile,
    len: u64,
    progress: &'a dyn Fn(u64),
    state: Mutex<State>,
}

/// How far the file is hashed.
struct State {
    sha: Sha256,
    hashed: u64,
}

impl<'a> HashedFile<'a> {
    /// The first `len` bytes of `file`; `progress` is told how many bytes more are hashed.
    pub fn new(file: &'a SourceFile, len: u64, progress: &'a dyn Fn(u64)) -> Self {
        Self { file, len, progress, state: Mutex::new(State { sha: Sha256::new(), hashed: 0 }) }
    }

    /// Reads what nobody has read yet; the checksum of all of it.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` when the file was cut meanwhile.
    pub fn finish(&self) -> io::Result<Sum> {
        let mut state = self.lock();
        self.hash_to(&mut state, self.len)?;
        Ok(state.sha.clone().finalize().into())
    }

    /// Hashes up to `position`.
    fn hash_to(&self, state: &mut State, position: u64) -> io::Result<()> {
        let mut piece = Vec::new();
        while state.hashed < position {
            let left = usize::try_from(position - state.hashed).unwrap_or(PIECE);
            piece.resize(left.min(PIECE), 0);
            let read = read_full(self.file, &mut piece, state.hashed)?;
            if read == 0 {
                let message = format!("it was cut to {} bytes while it was read", state.hashed);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            self.add(state, &piece[..read]);
        }
        Ok(())
    }

    fn add(&self, state: &mut State, bytes: &[u8]) {
        state.sha.update(bytes);
        state.hashed += bytes.len() as u64;
        (self.progress)(bytes.len() as u64);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReadAt for &HashedFile<'_> {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.lock();
        let end = self.len.min(position.saturating_add(buffer.len() as u64));
        self.hash_to(&mut state, position.min(self.len))?;
        let wanted = usize::try_from(end.saturating_sub(position)).unwrap_or(0);
        let read = self.file.read_at(&mut buffer[..wanted], position)?;
        let known = usize::try_from(state.hashed.saturating_sub(position)).unwrap_or(usize::MAX);
        if let Some(new) = buffer[..read].get(known..) {
            self.add(&mut state, new);
        }
        Ok(read)
    }

    fn next_data(&self, position: u64) -> Option<u64> {
        ReadAt::next_data(self.file, position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn the_sum_is_that_of_the_bytes_however_they_were_read() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let file = SourceFile::own(file);
        let expected: Sum = Sha256::digest(&bytes).into();
        let reads: [&[(u64, usize)]; 4] =
            [&[], &[(0, 1_000_000)], &[(500_000, 10), (0, 600_000), (300_000, 400_000)], &[(999_999, 100)]];
        for reads in reads {
            let counted = AtomicU64::new(0);
            let count = |bytes| {
                counted.fetch_add(bytes, Ordering::Relaxed);
            };
            let hashed = HashedFile::new(&file, 1_000_000, &count);
            for (position, len) in reads {
                let mut buffer = vec![0; *len];
                let read = read_full(&&hashed, &mut buffer, *position).unwrap();
                let from = usize::try_from(*position).unwrap();
                assert_eq!(buffer[..read], bytes[from..(from + len).min(bytes.len())]);
            }
            assert_eq!(hashed.finish().unwrap(), expected, "{reads:?}");
            assert_eq!(counted.load(Ordering::Relaxed), 1_000_000);
        }
    }

    #[test]
    fn a_file_that_is_cut_meanwhile_has_no_sum() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10]).unwrap();
        let error = HashedFile::new(&SourceFile::own(file), 11, &|_| ()).finish().unwrap_err();
        assert_eq!(error.to_string(), "it was cut to 10 bytes while it was read");
    }
}
