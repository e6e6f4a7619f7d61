//! Text as Java prints it: `new String(bytes, UTF_8)`, written as UTF-8 again.
//!
//! Each malformed sequence becomes U+FFFD. Which bytes are one sequence is as Unicode recommends, but for surrogates (`ED A0
//! 80`), which Java takes for one sequence of three bytes.

const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Appends `bytes` as Java prints them.
#[inline]
pub fn push_text(bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(_) => out.extend_from_slice(bytes),
        Err(_) => push_malformed(bytes, out),
    }
}

#[cold]
fn push_malformed(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, bad) = rest.split_at(error.valid_up_to());
        out.extend_from_slice(valid);
        out.extend_from_slice(REPLACEMENT);
        rest = bad.get(malformed_len(bad)..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

/// How many bytes at the start of `bad`, which is no UTF-8, are one malformed sequence.
fn malformed_len(bad: &[u8]) -> usize {
    let is_continuation = |byte: u8| byte & 0xc0 == 0x80;
    let fits_second = |first: u8, second: u8| match first {
        0xe0 => second & 0xe0 != 0x80 && is_continuation(second),
        0xf0 => (0x90..=0xbf).contains(&second),
        0xf4 => second & 0xf0 == 0x80,
        _ => is_continuation(second),
    };
    match *bad {
        [0xe0..=0xef, second, third, ..] if fits_second(bad[0], second) && is_continuation(third) => 3,
        [0xe0..=0xf4, second, ..] if !fits_second(bad[0], second) => 1,
        [0xe0..=0xef, _, ..] => 2,
        [0xf0..=0xf4, _, third, ..] if is_continuation(third) => 3,
        [0xf0..=0xf4, _, ..] => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        push_text(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// What Java 17 made of these.
    #[test]
    fn malformed_sequences_become_as_many_replacements_as_in_java() {
        for (bytes, expected) in [
            (&b"plain"[..], "plain"),
            (b"a\xc3\xa4", "aä"),
            (b"\xed\xa0\x80", "\u{fffd}"),
            (b"\xed\xa0A", "\u{fffd}A"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xe2\x82", "\u{fffd}"),
            (b"\xe2\x82A", "\u{fffd}A"),
            (b"\xf0\x9f\x92A", "\u{fffd}A"),
            (b"\xf0\x9fA", "\u{fffd}A"),
            (b"\xf0\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf5\x80", "\u{fffd}\u{fffd}"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xff\x00\xfe", "\u{fffd}\0\u{fffd}"),
        ] {
            assert_eq!(text(bytes), expected, "{bytes:x?}");
        }
    }
}
