//! A file on a broken disk: what can't be read reads as zeros, and is remembered.

use std::io;
use std::sync::{Mutex, PoisonError};

use crate::log::files::ReadAt;

/// The smallest unit that is given up.
const PAGE: u64 = 4096;
/// Stretches remembered of one file.
const MAX_STRETCHES: usize = 1000;

/// Reads `file`, and goes on behind errors of the disk.
#[derive(Debug)]
pub(in crate::log) struct Tolerant<F> {
    file: F,
    unreadable: Mutex<Vec<Stretch>>,
}

/// Bytes that can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::log) struct Stretch {
    pub(in crate::log) from: u64,
    pub(in crate::log) to: u64,
    pub(in crate::log) error: String,
}

impl<F> Tolerant<F> {
    pub(in crate::log) const fn new(file: F) -> Self {
        Self { file, unreadable: Mutex::new(Vec::new()) }
    }

    /// What could not be read, in order.
    pub(in crate::log) fn unreadable(&self) -> Vec<Stretch> {
        let mut stretches = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stretches.sort_by_key(|stretch| stretch.from);
        stretches.dedup_by(|next, before| {
            let joins = next.from <= before.to;
            before.to = if joins { before.to.max(next.to) } else { before.to };
            joins
        });
        stretches
    }

    fn give_up(&self, from: u64, to: u64, error: &io::Error) {
        let mut stretches = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = stretches.len() >= MAX_STRETCHES;
        match stretches.last_mut() {
            Some(last) if last.from <= from && from <= last.to => last.to = last.to.max(to),
            _ if is_full => {}
            _ => stretches.push(Stretch { from, to, error: error.to_string() }),
        }
    }
}

impl<F: ReadAt> ReadAt for Tolerant<F> {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        match self.file.read_at(buffer, position) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => {}
            read => return read,
        }
        let left = PAGE - position % PAGE;
        let len = usize::try_from(left).unwrap_or(buffer.len()).min(buffer.len());
        let page = &mut buffer[..len];
        match self.file.read_at(page, position) {
            Ok(read) => Ok(read),
            Err(error) => {
                page.fill(0);
                self.give_up(position, position + len as u64, &error);
                Ok(len)
            }
        }
    }

    fn next_data(&self, position: u64) -> Option<u64> {
        self.file.next_data(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::files::read_full;

    /// 20,000 bytes of ones, of which some can't be read.
    struct Disk;

    impl ReadAt for Disk {
        fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
            let len = buffer.len().min(usize::try_from(20_000_u64.saturating_sub(position)).unwrap());
            if position < 12_288 && position + len as u64 > 5000 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            buffer[..len].fill(1);
            Ok(len)
        }
    }

    #[test]
    fn bad_pages_are_zeros_and_all_else_is_read() {
        let file = Tolerant::new(Disk);
        let mut bytes = vec![9; 30_000];
        assert_eq!(read_full(&file, &mut bytes, 0).unwrap(), 20_000);
        assert!(bytes[..4096].iter().all(|byte| *byte == 1));
        assert!(bytes[4096..12_288].iter().all(|byte| *byte == 0));
        assert!(bytes[12_288..20_000].iter().all(|byte| *byte == 1));
        let told = file.unreadable();
        assert_eq!(
            told.iter().map(|stretch| (stretch.from, stretch.to)).collect::<Vec<_>>(),
            [(4096, 12_288)]
        );
    }
}
