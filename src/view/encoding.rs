//! How keys and values are written: as they are, as text for what is no text, or as the JSON that they are.
//!
//! | encoding | `.txt`, `.tsv` | `.jsonl`, `.json` |
//! |---|---|---|
//! | `text` | the bytes | a string, or `{"base64":".."}` of what is not UTF-8 |
//! | `base64` | base64 | always `{"base64":".."}` |
//! | `hex` | hexadecimal digits | always `{"hex":".."}` |
//! | `json` | the bytes | inlined as `key_json`, `value_json` if it is JSON; else as `text` |
//!
//! A null stays what it is in each format, and an empty one is empty. Exact bytes (a record's file without extension, `.key`, the user's
//! templates) and whole batches have no encoding.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How a key or a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Encoding {
    /// As it is.
    #[default]
    Text,
    /// As base64 (RFC 4648, with padding).
    Base64,
    /// As hexadecimal digits, small ones.
    Hex,
    /// Inlined where the format is JSON and it is JSON too; as it is otherwise.
    Json,
}

impl Encoding {
    /// Every name, the default first.
    pub const NAMES: &'static [&'static str] = &["text", "base64", "hex", "json"];

    /// The name in options and configuration files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Base64 => "base64",
            Self::Hex => "hex",
            Self::Json => "json",
        }
    }

    /// The encoding of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Text, Self::Base64, Self::Hex, Self::Json].into_iter().find(|encoding| encoding.name() == name)
    }

    /// A number that stands for it in what is saved.
    pub const fn number(self) -> u8 {
        match self {
            Self::Text => 0,
            Self::Json => 1,
            Self::Base64 => 2,
            Self::Hex => 3,
        }
    }

    /// Whether what it makes is letters, digits and the few other characters of base64, whatever the bytes are.
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Base64 | Self::Hex)
    }

    /// Appends `bytes`, encoded, to `out`.
    pub fn push(self, bytes: &[u8], out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        match self {
            Self::Text | Self::Json => out.extend_from_slice(bytes),
            Self::Base64 => out.extend_from_slice(STANDARD.encode(bytes).as_bytes()),
            Self::Hex => {
                let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                out.extend(digits.map(|digit| DIGITS[usize::from(digit)]));
            }
        }
    }

    /// The number of bytes that [`Self::push`] appends.
    pub const fn len(self, bytes: &[u8]) -> usize {
        match self {
            Self::Text | Self::Json => bytes.len(),
            Self::Base64 => bytes.len().div_ceil(3) * 4,
            Self::Hex => bytes.len() * 2,
        }
    }
}

/// How the keys and the values of a topic are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Encodings {
    /// Keys.
    pub key: Encoding,
    /// Values.
    pub value: Encoding,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_appended_is_what_was_counted() {
        let cases: [(Encoding, &[u8], &str); 7] = [
            (Encoding::Base64, b"", ""),
            (Encoding::Base64, b"\x00", "AA=="),
            (Encoding::Base64, b"\xfb\xff\xbe", "+/++"),
            (Encoding::Hex, b"", ""),
            (Encoding::Hex, b"\x00\xff\x1a", "00ff1a"),
            (Encoding::Text, b"a", "a"),
            (Encoding::Json, b"{ }", "{ }"),
        ];
        for (encoding, bytes, expected) in cases {
            let mut out = Vec::new();
            encoding.push(bytes, &mut out);
            assert_eq!(out, expected.as_bytes());
            assert_eq!(encoding.len(bytes), expected.len());
        }
    }

    #[test]
    fn names_are_found_again() {
        for name in Encoding::NAMES {
            assert_eq!(Encoding::from_name(name).map(Encoding::name), Some(*name));
        }
        assert_eq!(Encoding::from_name("base32"), None);
        assert_eq!(Encoding::default().name(), Encoding::NAMES[0]);
    }
}
