//! Kafka's text form of a UUID: 22 characters of URL-safe base64 without padding (KIP-516).

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The id of a topic or of a data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// Kafka's "no id".
    pub const ZERO: Self = Self([0; 16]);
}

/// A text that is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not the base64 of 16 bytes")]
pub struct UuidError;

/// Reads what Java's decoder reads: with padding or without.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let mut bytes = [0; 16];
        // Checked first, as a longer text must not be decoded into 16 bytes.
        match text.len() {
            22 | 24 => {}
            _ => return Err(UuidError),
        }
        match BASE64.decode_slice(text, &mut bytes) {
            Ok(16) => Ok(Self(bytes)),
            _ => Err(UuidError),
        }
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        for text in ["AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ", "k6DiXPXGQLmYwMCNt-_cyg"] {
            assert_eq!(text.parse::<Uuid>().unwrap().to_string(), text);
        }
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAA==".parse(), Ok(Uuid::ZERO));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAAAA"]
        {
            assert_eq!(text.parse::<Uuid>(), Err(UuidError), "{text}");
        }
    }
}
