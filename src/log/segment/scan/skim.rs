//! Many entries at once, as far as they go by what they say of themselves: so that several scanners can share a segment.

use std::io;

use super::{Scanner, Start};
use crate::format::batch::{Batch, PREFIX_LEN, Prefix};
use crate::log::files::ReadAt;
use crate::units::Position;

impl<F: ReadAt> Scanner<F> {
    /// Reads `len` bytes at once, goes over the entries that begin in them, and tells `see` of each what it says of itself, which nobody has
    /// checked. Where the last of them ends, as far as that goes: with the file where one can't be an entry at all. This stays where it
    /// is, with all of them in memory, and so another scanner can go over those behind them at the same time.
    ///
    /// # Errors
    /// The system's.
    pub fn skim(&mut self, len: usize, mut see: impl FnMut(Batch<'_>)) -> io::Result<Start> {
        let begin = self.at.position.0;
        // Most segments may be shorter.
        let len = len.min(usize::try_from(self.len.saturating_sub(begin)).unwrap_or(len));
        let until = begin.saturating_add(len as u64);
        self.window.need(&self.file, begin, len)?;
        let mut end = self.at;
        while end.position.0 < until {
            let position = end.position.0;
            let left = usize::try_from(self.len - position).unwrap_or(usize::MAX);
            self.window.need_too(&self.file, position, PREFIX_LEN.min(left))?;
            let prefix = Prefix::read(self.window.get(position, PREFIX_LEN));
            let len = prefix.and_then(|prefix| prefix.entry_len()).unwrap_or(usize::MAX);
            if len <= left.min(self.limits.max_batch_bytes) {
                // The scanner looks at the prefix behind an entry, too.
                self.window.need_too(&self.file, position, left.min(len + PREFIX_LEN))?;
            }
            let Ok(batch) = Batch::peek(self.window.get(position, len)) else {
                return Ok(Start { position: Position(self.len), ..end });
            };
            let mut header = batch.header;
            see(batch);
            if header.base_offset.is_none() {
                header.last_offset = self.span(position, &(header, len)).last;
            }
            end.pass(&header);
            end.position = Position(position + len as u64);
        }
        Ok(end)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Step, Tail};
    use super::*;
    use crate::format::batch::{Codec, Limits};
    use crate::format::batch_builder::{BatchBuilder, NewRecord};
    use crate::format::compression::encoder::Compression;
    use crate::units::{LeaderEpoch, Offset, Timestamp};

    const STRETCH: usize = 1000;

    /// Batches of `len` bytes of value each, with one record.
    fn log(lens: &[usize]) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Compression { codec: Codec::None, level: None });
        let mut bytes = Vec::new();
        for (number, len) in lens.iter().enumerate() {
            let value = vec![7; *len];
            let record = NewRecord { timestamp: Timestamp(1), key: None, value: Some(&value), headers: &[] };
            assert!(builder.push(&record, usize::MAX));
            bytes.extend_from_slice(builder.finish(Offset(2 * number as i64), LeaderEpoch(0)).unwrap());
            builder.clear();
        }
        bytes
    }

    fn scanner(bytes: &[u8]) -> Scanner<&[u8]> {
        let start = Start::new(Position(0), Offset(0), Offset(i64::MAX));
        Scanner::new(bytes, bytes.len() as u64, start, Limits::default())
    }

    /// The stretches of a log, and the offsets that a scan of each finds.
    fn stretches(bytes: &[u8]) -> Vec<(Start, Vec<i64>)> {
        let mut at = scanner(bytes).at();
        let mut found = Vec::new();
        while at.position.0 < bytes.len() as u64 {
            let mut scanner = scanner(bytes);
            scanner.go_to(at);
            let mut seen = Vec::new();
            let end = scanner.skim(STRETCH, |batch| seen.push(batch.header.last_offset.0)).unwrap();
            let mut offsets = Vec::new();
            while scanner.at().position < end.position {
                match scanner.step().unwrap() {
                    Step::Batch { batch, .. } => offsets.push(batch.header.last_offset.0),
                    Step::Damage(_) => offsets.push(-1),
                    Step::End(tail) => {
                        assert_ne!(tail, Tail::Clean);
                        offsets.push(-2);
                        break;
                    }
                }
            }
            if !offsets.iter().any(|offset| *offset < 0) {
                assert_eq!((scanner.at(), &seen), (end, &offsets));
            }
            found.push((end, offsets));
            at = end;
        }
        found
    }

    fn offsets(stretches: &[(Start, Vec<i64>)]) -> Vec<&[i64]> {
        stretches.iter().map(|(_, offsets)| &**offsets).collect()
    }

    #[test]
    fn an_entry_belongs_to_the_stretch_that_it_begins_in() {
        let log = log(&[100, 500, 500, 2000, 5, 5]);
        let found = stretches(&log);
        assert_eq!(offsets(&found), [vec![0, 2, 4], vec![6], vec![8, 10]]);
        assert_eq!(
            found.last().map(|(end, _)| (end.position.0, end.expected)),
            Some((log.len() as u64, Offset(11)))
        );
        assert_eq!(stretches(&[]), []);
    }

    #[test]
    fn what_is_no_entry_reaches_to_the_end_and_is_told_by_the_scan() {
        let mut bytes = log(&[100, 100, 100, 100]);
        let third = bytes.len() / 2;
        // Its size.
        bytes[third + 8..third + 12].copy_from_slice(&[0x7f; 4]);
        let found = stretches(&bytes);
        assert_eq!(offsets(&found), [vec![0, 2, -1, 6]]);
        // A torn end.
        let found = stretches(&bytes[..third / 2 + 40]);
        assert_eq!(offsets(&found), [vec![0, -2]]);
    }

    #[test]
    fn what_is_damaged_behind_a_sound_prefix_is_told_by_the_scan() {
        let mut bytes = log(&[100, 100, 100]);
        let last = bytes.len() - 1;
        bytes[last / 3 * 2] ^= 1;
        assert_eq!(offsets(&stretches(&bytes)), [vec![0, -1, 4]]);
    }
}
