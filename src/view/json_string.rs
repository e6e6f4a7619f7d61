//! The inside of a JSON string: what is escaped there, and how.
//!
//! | characters | escape |
//! |---|---|
//! | quote, backslash, newline, carriage return, tab | a backslash and a letter |
//! | the other control characters, U+0000 to U+001F and U+007F to U+009F | `\u00` and two digits |
//!
//! All else is as it is (RFC 8259). JSON as a value has a quote in every eight bytes, so that copying what is between two of
//! them costs more than the bytes: with the shuffles of SSSE3 eight bytes and their backslashes are written at once, without
//! a branch.

/// Appends `text`, escaped where it must be.
pub(crate) fn push_escaped(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    out.reserve(rest.len());
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("ssse3") && std::arch::is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has what the function was made for.
        rest = unsafe { vectors::push_escaped(rest, out) };
    }
    push_by_words(rest, out);
}

/// How many bytes longer than `text`, which is UTF-8, it is when escaped.
pub(crate) fn extra_len(text: &[u8]) -> usize {
    /// Of which the sum fits into a byte, so that the compiler adds many at once.
    const CHUNK: usize = 48;
    let extra = |chunk: &[u8]| chunk.iter().fold(0_u8, |sum, byte| sum.wrapping_add(extra_of(*byte)));
    let escapes: usize = text.chunks(CHUNK).map(|chunk| usize::from(extra(chunk))).sum();
    // U+0080 to U+009F take two bytes as they are and six escaped.
    let c1 =
        memchr::memchr_iter(0xc2, text).filter(|at| matches!(text.get(at + 1), Some(0x80..=0x9f))).count();
    escapes + c1 * 4
}

/// How many bytes longer the escape of an ASCII byte is. Without branches.
#[inline]
const fn extra_of(byte: u8) -> u8 {
    let short = (byte == b'"') | (byte == b'\\') | (byte == b'\n') | (byte == b'\r') | (byte == b'\t');
    let control = (byte < 0x20) | (byte == 0x7f);
    short as u8 + (control & !short) as u8 * 5
}

/// Appends the first character of `special`, escaped where it must be; the number of bytes used.
pub(crate) fn push_escape(special: &[u8], out: &mut Vec<u8>) -> usize {
    match special {
        [b'"', ..] => out.extend_from_slice(b"\\\""),
        [b'\\', ..] => out.extend_from_slice(b"\\\\"),
        [b'\n', ..] => out.extend_from_slice(b"\\n"),
        [b'\r', ..] => out.extend_from_slice(b"\\r"),
        [b'\t', ..] => out.extend_from_slice(b"\\t"),
        [0xc2, second @ 0x80..=0x9f, ..] => {
            push_number(*second, out);
            return 2;
        }
        [control @ (..0x20 | 0x7f), ..] => push_number(*control, out),
        [byte, ..] => out.push(*byte),
        [] => return 0,
    }
    1
}

fn push_number(code: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| HEX.get(usize::from(nibble & 0xf)).copied().unwrap_or(b'0');
    out.extend_from_slice(b"\\u00");
    out.push(digit(code >> 4));
    out.push(digit(code));
}

/// Appends `text` with what [`push_escape`] makes of its special bytes.
fn push_by_words(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = find_special(text) {
        let (plain, special) = text.split_at(at);
        out.extend_from_slice(plain);
        let used = push_escape(special, out);
        text = special.get(used..).unwrap_or_default();
    }
    out.extend_from_slice(text);
}

/// Whether a byte may have to be written otherwise: quotes, backslashes, control characters, and the first byte of
/// U+0080 to U+009F.
#[inline]
const fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\' || byte == 0x7f || byte == 0xc2
}

/// The index of the first special byte.
#[inline]
fn find_special(text: &[u8]) -> Option<usize> {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let found = special_in(u64::from_be_bytes(*word));
        if found != 0 {
            let index = usize::try_from(found.leading_zeros() / 8).unwrap_or(0);
            return Some(text.len() - rest.len() + index);
        }
        rest = after;
    }
    rest.iter().position(|byte| is_special(*byte)).map(|at| text.len() - rest.len() + at)
}

/// The top bit of each byte of `word` that [`is_special`]. Eight bytes at once, without carries between them.
#[inline]
const fn special_in(word: u64) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const fn zero_bytes(word: u64) -> u64 {
        !(((word & LOW) + LOW) | word | LOW)
    }
    const fn repeated(byte: u8) -> u64 {
        byte as u64 * 0x0101_0101_0101_0101
    }
    zero_bytes(word & repeated(0xe0))
        | zero_bytes(word ^ repeated(b'"'))
        | zero_bytes(word ^ repeated(b'\\'))
        | zero_bytes(word ^ repeated(0x7f))
        | zero_bytes(word ^ repeated(0xc2))
}

/// Sixteen bytes at once.
#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::{
        __m128i, _mm_and_si128, _mm_andnot_si128, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8,
        _mm_or_si128, _mm_set1_epi8, _mm_shuffle_epi8, _mm_unpackhi_epi64, _mm_unpacklo_epi64, _mm_xor_si128,
    };

    use zerocopy::transmute;

    use super::push_escape;

    const WIDTH: usize = size_of::<__m128i>();

    /// For each set of special bytes among eight: which byte of a vector goes where, when the eight are its lower half and
    /// all of its upper half are backslashes.
    static SPREAD: [[u8; WIDTH]; 256] = spread();

    const fn spread() -> [[u8; WIDTH]; 256] {
        let mut all = [[0; WIDTH]; 256];
        let mut set = 0;
        while set < all.len() {
            let (mut byte, mut at) = (0, 0);
            while byte < 8 {
                if set >> byte & 1 == 1 {
                    all[set][at] = 8;
                    at += 1;
                }
                all[set][at] = byte;
                at += 1;
                byte += 1;
            }
            set += 1;
        }
        all
    }

    /// Appends as many whole vectors of `text` as there are; what is left.
    #[target_feature(enable = "ssse3,popcnt")]
    pub(super) fn push_escaped<'a>(mut text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let backslashes = _mm_set1_epi8(b'\\'.cast_signed());
        while let Some((chunk, rest)) = text.split_first_chunk::<WIDTH>() {
            let Some((letters, special)) = escapes_in(transmute!(*chunk)) else {
                text = push_each(text, out);
                continue;
            };
            text = rest;
            if special == [0, 0] {
                out.extend_from_slice(chunk);
                continue;
            }
            let halves = [_mm_unpacklo_epi64(letters, backslashes), _mm_unpackhi_epi64(letters, backslashes)];
            for (half, special) in halves.into_iter().zip(special) {
                let order = SPREAD[usize::from(special)];
                let spread: [u8; WIDTH] = transmute!(_mm_shuffle_epi8(half, transmute!(order)));
                out.extend_from_slice(&spread);
                out.truncate(out.len() - special.count_zeros() as usize);
            }
        }
        text
    }

    /// What comes behind the backslash of those that have one, and of the others itself; which those are, in the first and the
    /// last eight bytes. `None` where a byte may need a number.
    #[inline]
    #[target_feature(enable = "ssse3,popcnt")]
    fn escapes_in(bytes: __m128i) -> Option<(__m128i, [u8; 2])> {
        let are = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()));
        let letter_of = |letter: u8, byte: u8| {
            let which = are(byte);
            (which, _mm_and_si128(which, _mm_set1_epi8((letter ^ byte).cast_signed())))
        };
        let [(newlines, n), (returns, r), (tabs, t)] =
            [letter_of(b'n', b'\n'), letter_of(b'r', b'\r'), letter_of(b't', b'\t')];
        let white = _mm_or_si128(newlines, _mm_or_si128(returns, tabs));
        let below_space = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let others = _mm_or_si128(are(0x7f), are(0xc2));
        if _mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(white, below_space), others)) != 0 {
            return None;
        }
        let letters = _mm_xor_si128(bytes, _mm_or_si128(n, _mm_or_si128(r, t)));
        let special = _mm_or_si128(white, _mm_or_si128(are(b'"'), are(b'\\')));
        let [first, last, ..] = _mm_movemask_epi8(special).to_le_bytes();
        Some((letters, [first, last]))
    }

    /// A vector's bytes one by one; what is left.
    #[inline(never)]
    fn push_each<'a>(text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
        let mut rest = text;
        while text.len() - rest.len() < WIDTH && !rest.is_empty() {
            let used = push_escape(rest, out);
            rest = rest.get(used..).unwrap_or_default();
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(text: &str) -> String {
        let mut out = b"\"".to_vec();
        push_escaped(text, &mut out);
        out.push(b'"');
        assert_eq!(out.len(), text.len() + extra_len(text.as_bytes()) + 2, "{text:?}");
        String::from_utf8(out).unwrap()
    }

    /// The shortest escape of each character, but for the two that few readers of logs know (`\b`, `\f`).
    fn one_by_one(text: &str) -> String {
        let escape = |c: char| match c {
            '"' | '\\' => format!("\\{c}"),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        };
        format!("\"{}\"", text.chars().map(escape).collect::<String>())
    }

    #[test]
    fn every_character_survives_a_json_parser_and_no_control_character_is_left() {
        let all: String = (0..0x2_0000).filter_map(char::from_u32).collect();
        let json = escaped(&all);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), all);
        assert!(!json.chars().any(char::is_control));
        assert!(json == one_by_one(&all), "another escape than the shortest");
    }

    #[test]
    fn special_characters_are_found_at_every_place_of_a_vector() {
        for len in 0..70 {
            for at in 0..len {
                for special in
                    ['"', '\\', '\n', '\r', '\t', '\u{1b}', '\u{7f}', '\u{9b}', '\u{a0}', 'é', '日']
                {
                    let text: String = (0..len).map(|i| if i == at { special } else { 'x' }).collect();
                    assert_eq!(escaped(&text), one_by_one(&text));
                }
            }
        }
    }

    #[test]
    fn every_set_of_special_characters_among_eight() {
        for set in 0..256 {
            for special in ['"', '\\', '\n'] {
                let eight: String =
                    (0..8).map(|bit| if set >> bit & 1 == 1 { special } else { 'x' }).collect();
                for text in
                    [format!("{eight}yyyyyyyy"), format!("yyyyyyyy{eight}"), format!("y{eight}{eight}z")]
                {
                    assert_eq!(escaped(&text), one_by_one(&text));
                }
            }
        }
    }

    #[test]
    fn a_control_character_that_is_cut_by_the_end_of_a_vector() {
        for before in 0..40 {
            let text = format!("{}\u{85}\"{}", "\"".repeat(before), "é".repeat(20));
            assert_eq!(escaped(&text), one_by_one(&text));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text(text in "([\"\\\\\n\t x]|\\PC|\\pC){0,80}") {
            assert_eq!(escaped(&text), one_by_one(&text));
        }
    }

    #[test]
    fn eight_bytes_at_once_say_what_one_by_one_says() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let word = u64::from_be_bytes([first, second, b'x', first, second, second, first, b'"']);
                let bytes = word.to_be_bytes();
                for (index, byte) in bytes.into_iter().enumerate() {
                    let bit = special_in(word) >> (63 - index * 8) & 1;
                    assert_eq!(bit == 1, is_special(byte), "{bytes:x?} at {index}");
                }
                assert_eq!(find_special(&bytes), bytes.iter().position(|byte| is_special(*byte)));
            }
        }
    }

    #[test]
    fn words_alone_say_the_same_as_vectors() {
        let all: String = (0..0x300).filter_map(char::from_u32).cycle().take(2000).collect();
        let mut out = Vec::new();
        push_by_words(all.as_bytes(), &mut out);
        assert_eq!(format!("\"{}\"", String::from_utf8(out).unwrap()), escaped(&all));
    }
}
