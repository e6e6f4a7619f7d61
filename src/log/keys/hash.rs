//! The 64 bits by which keys are indexed. They are part of saved files and of names, so they never change.
//!
//! Two keys with the same number cost a look-up one batch more, and nothing else: whoever finds an entry reads the key.

use sha2::{Digest as _, Sha256};

/// Longer keys are hashed by SHA-256, whose first 16 hex digits their names have: anybody can make such a name.
pub const LONG_KEY: usize = 64;

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xa076_1d64_78bd_642f;

/// The number of a key.
pub fn hash(key: &[u8]) -> u64 {
    if key.len() > LONG_KEY { of_long(key) } else { of_short(key) }
}

/// The first eight bytes of a key's SHA-256.
pub fn of_long(key: &[u8]) -> u64 {
    let digest = Sha256::digest(key);
    digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A few multiplications: most keys are short, and there are millions of them.
fn of_short(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let mut state = SEED ^ key.len() as u64;
    for word in words {
        state = fold(state ^ u64::from_be_bytes(*word), FACTOR);
    }
    let last = rest.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    fold(fold(state ^ last, FACTOR) ^ SEED, SEED)
}

/// Both halves of the product, one over the other.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_they_were() {
        assert_eq!(hash(b""), 0x2906_c951_bac9_fa86);
        assert_eq!(hash(b"order-4711"), 0x85d8_86f7_4f0c_3a59);
        // printf 'x%.0s' $(seq 65) | sha256sum
        assert_eq!(hash(&[b'x'; 65]), 0x9537_c5fd_f120_482f);
    }

    #[test]
    fn like_keys_have_unlike_numbers() {
        let keys = (0..200_000_u32).map(|number| format!("order-{number}"));
        let all: std::collections::HashSet<u64> = keys.map(|key| hash(key.as_bytes())).collect();
        assert_eq!(all.len(), 200_000);
        let mut parts = [0_u32; 256];
        all.iter().for_each(|number| parts[(number >> 56) as usize] += 1);
        assert!(parts.iter().all(|count| (500..1100).contains(count)), "{parts:?}");
        assert_ne!(hash(b""), hash(b"\0"));
        assert_ne!(hash(b"\0"), hash(b"\0\0"));
    }
}
