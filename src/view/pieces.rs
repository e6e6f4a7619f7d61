//! What a read gives: bytes one after another, which need not be copied from where they are.

use std::ops::Range;
use std::sync::Arc;

use crate::view::buffers::Buffer;

/// What is shorter is copied: naming it costs as much, and a system call takes 1024 pieces.
const SHORT: usize = 4096;

/// Bytes one after another.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: Vec<Piece>,
    /// Bytes of these.
    before: usize,
    /// What comes behind them.
    last: Vec<u8>,
}

#[derive(Debug)]
enum Piece {
    Own(Vec<u8>),
    Shared(Arc<Buffer>, Range<usize>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(buffer, range) => buffer.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl Pieces {
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.before + self.last.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where bytes can be appended.
    pub fn own(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    /// Adds a part of a buffer as it is, or as much of it as there is.
    pub fn share(&mut self, buffer: &Arc<Buffer>, part: Range<usize>) {
        let part = part.start.min(buffer.len())..part.end.min(buffer.len());
        if part.len() < SHORT {
            self.last.extend_from_slice(buffer.get(part).unwrap_or_default());
            return;
        }
        self.before += self.last.len() + part.len();
        if !self.last.is_empty() {
            self.pieces.push(Piece::Own(std::mem::take(&mut self.last)));
        }
        self.pieces.push(Piece::Shared(buffer.clone(), part));
    }

    /// The pieces in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let last = Some(self.last.as_slice()).filter(|last| !last.is_empty());
        self.pieces.iter().map(Piece::bytes).chain(last)
    }
}

impl From<Vec<u8>> for Pieces {
    fn from(last: Vec<u8>) -> Self {
        Self { last, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::buffers::Buffers;

    fn concat(pieces: &Pieces) -> Vec<u8> {
        pieces.iter().collect::<Vec<_>>().concat()
    }

    #[test]
    fn pieces_follow_each_other_and_short_ones_are_copied() {
        let mut buffer = Buffers::default().take();
        buffer.extend((0..3 * SHORT).map(|number| number as u8));
        let buffer = Arc::new(buffer);
        let mut pieces = Pieces::default();
        pieces.own().extend_from_slice(b"own");
        pieces.share(&buffer, 1..2 * SHORT);
        pieces.share(&buffer, 5..7);
        pieces.share(&buffer, 3 * SHORT - 2..4 * SHORT);
        let expected =
            [b"own".as_slice(), &buffer[1..2 * SHORT], &buffer[5..7], &buffer[3 * SHORT - 2..]].concat();
        assert_eq!((concat(&pieces), pieces.len()), (expected.clone(), expected.len()));
        assert_eq!(pieces.iter().map(<[u8]>::len).collect::<Vec<_>>(), [3, 2 * SHORT - 1, 4]);
        assert!(!pieces.is_empty() && Pieces::default().is_empty());
    }
}
