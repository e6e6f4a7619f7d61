//! The last offset of each key, in bounded memory: Kafka's `SkimpyOffsetMap` with another hash.
//!
//! A slot has 128 bits of the key's hash and an offset. The hash is keyed at random for each map: nobody can make two keys that it
//! takes for one, and by chance that never happens.

use std::hash::{BuildHasher, Hasher, RandomState};

use zerocopy::FromZeros;

use crate::log::files::sys;
use crate::units::Offset;

/// Bytes of a slot.
pub(super) const SLOT_LEN: usize = 24;

/// How full a map gets, in percent (`log.cleaner.io.buffer.load.factor`).
const LOAD: usize = 90;

/// The keys of a stretch of log.
#[derive(Debug)]
pub(super) struct OffsetMap {
    slots: Vec<Slot>,
    len: usize,
    hasher: KeyHasher,
    /// All records up to here are in it; `None` before the first.
    latest: Option<Offset>,
}

/// How keys are hashed in one map.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyHasher([RandomState; 2]);

/// The hash of a key in one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromZeros)]
#[repr(C)]
pub(super) struct KeyHash([u64; 2]);

/// All zeros in one that is free: memory that the system gives has nothing else.
#[derive(Debug, Clone, Copy, FromZeros)]
#[repr(C)]
struct Slot {
    hash: KeyHash,
    /// The offset and 1.
    next: i64,
}

const _: () = assert!(size_of::<Slot>() == SLOT_LEN);

impl OffsetMap {
    /// A map of at most so many bytes, and no more than `keys` need.
    pub(super) fn new(max_bytes: usize, keys: u64) -> Self {
        // Half empty it is twice as fast.
        let needed = usize::try_from(keys).unwrap_or(usize::MAX).saturating_mul(2);
        let count = (max_bytes / SLOT_LEN).min(needed.saturating_add(2));
        // Without memory it has room for nothing, and that is told.
        let mut slots = Slot::new_vec_zeroed(count).unwrap_or_default();
        sys::prefer_large_pages(&mut slots);
        Self { slots, len: 0, hasher: KeyHasher::default(), latest: None }
    }

    /// Whether it takes no more keys.
    pub(super) const fn is_full(&self) -> bool {
        self.len >= self.capacity()
    }

    /// How many keys it takes.
    const fn capacity(&self) -> usize {
        self.slots.len() / 100 * LOAD + self.slots.len() % 100 * LOAD / 100
    }

    /// Says that this is the last record of its key so far. Whether it was taken in: a map that is full takes no record at all, as
    /// Kafka's.
    pub(super) fn put(&mut self, hash: KeyHash, offset: Offset) -> bool {
        if self.is_full() {
            return false;
        }
        let at = self.find(hash);
        let Some(slot) = self.slots.get_mut(at) else { return false };
        self.len += usize::from(slot.next == 0);
        *slot = Slot { hash, next: offset.next().0 };
        self.set_latest(offset);
        true
    }

    /// The offset of the last record of a key.
    pub(super) fn get(&self, hash: KeyHash) -> Option<Offset> {
        let slot = self.slots.get(self.find(hash))?;
        (slot.next > 0).then(|| Offset(slot.next).plus(-1))
    }

    /// The offset up to which all records are in it.
    pub(super) const fn latest(&self) -> Option<Offset> {
        self.latest
    }

    /// Says up to which offset they are.
    pub(super) fn set_latest(&mut self, latest: Offset) {
        self.latest = self.latest.max(Some(latest));
    }

    /// Reads the slots of some hashes, of which more is wanted soon: the processor waits for all of them at once then, and not for each.
    pub(super) fn touch(&self, hashes: impl Iterator<Item = KeyHash>) {
        let slots = hashes.filter_map(|hash| self.slots.get(self.first_slot(hash)));
        // So that the reading isn't left out.
        std::hint::black_box(slots.fold(0, |all, slot| all ^ slot.next));
    }

    /// Where the search for a hash begins. The high half of the product spreads over all slots without a division.
    fn first_slot(&self, hash: KeyHash) -> usize {
        ((u128::from(hash.0[0]) * self.slots.len() as u128) >> 64) as usize
    }

    /// The slot of a hash, or the free one where it would be; one is always free.
    fn find(&self, hash: KeyHash) -> usize {
        let count = self.slots.len();
        let mut at = self.first_slot(hash);
        while let Some(slot) = self.slots.get(at) {
            if slot.next == 0 || slot.hash == hash {
                break;
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
        at
    }

    /// How its keys are hashed.
    pub(super) const fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }
}

impl KeyHasher {
    /// The hash of a key.
    pub(super) fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(self.0.each_ref().map(|hasher| {
            let mut hasher = hasher.build_hasher();
            hasher.write(key);
            hasher.finish()
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn put(map: &mut OffsetMap, key: &[u8], offset: i64) -> bool {
        map.put(map.hasher.hash(key), Offset(offset))
    }

    fn get(map: &OffsetMap, key: &[u8]) -> Option<Offset> {
        map.get(map.hasher.hash(key))
    }

    #[test]
    fn the_last_offset_of_each_key_counts() {
        let mut map = OffsetMap::new(1 << 20, 1000);
        let mut expected = HashMap::new();
        for number in 0..5000_i64 {
            let key = format!("key {}", number * 7919 % 900);
            assert!(put(&mut map, key.as_bytes(), number));
            expected.insert(key, Offset(number));
        }
        for (key, offset) in &expected {
            assert_eq!(get(&map, key.as_bytes()), Some(*offset));
        }
        assert_eq!(get(&map, b"another"), None);
        assert_eq!(map.len, expected.len());
    }

    #[test]
    fn it_is_full_at_nine_tenths_as_kafkas_is() {
        for slots in [10, 50, 100, 333, 1000] {
            let mut map = OffsetMap::new(slots * SLOT_LEN, u64::MAX);
            let taken = (0_u64..).take_while(|key| put(&mut map, &key.to_be_bytes(), 1)).count();
            assert_eq!(taken, slots * 9 / 10, "{slots}");
            assert!(map.is_full() && !put(&mut map, &0_u64.to_be_bytes(), 2));
            assert_eq!(get(&map, &0_u64.to_be_bytes()), Some(Offset(1)));
        }
    }

    #[test]
    fn it_is_no_larger_than_its_keys_need() {
        let map = OffsetMap::new(usize::MAX, 10);
        assert!(map.slots.len() < 30);
        assert!(OffsetMap::new(0, 10).is_full());
        assert_eq!(get(&OffsetMap::new(0, 10), b"key"), None);
    }
}
