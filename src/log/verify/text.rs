//! Places in the small text files.

use crate::units::Position;

/// Where a line begins, counted from 1, and its length without its end; the end of the file for one that is not there.
pub(super) fn place_of_line(bytes: &[u8], line: usize) -> (Position, u64) {
    let mut position = 0;
    for (number, text) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        if number == line {
            let len = text.strip_suffix(b"\n").unwrap_or(text).len();
            return (Position(position), len as u64);
        }
        position += text.len() as u64;
    }
    (Position(position), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_places() {
        let text = b"0\n12\nlast";
        let places: Vec<_> = (1..=4).map(|line| place_of_line(text, line)).collect();
        assert_eq!(places, [(Position(0), 1), (Position(2), 2), (Position(5), 4), (Position(9), 0)]);
    }
}
