//! Caches of a bounded number of things, which take no memory before they hold some.
//!
//! `LruCache::new` makes room for as many as it may ever hold: of 10,000 partitions with room for 65,536 numbers each, that was 1.9 GB.

use std::hash::Hash;
use std::num::NonZeroUsize;

use lru::LruCache;

/// A cache of at most `most` things, those that were used longest ago being given up first.
pub fn lru<K: Hash + Eq, V>(most: usize) -> LruCache<K, V> {
    let mut cache = LruCache::unbounded();
    cache.resize(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
    cache
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_is_given_up_and_never_less() {
        let mut cache = lru(1000);
        assert!((0..1000).all(|number| cache.push(number, number).is_none()));
        assert_eq!(cache.push(1000, 1000), Some((0, 0)));
        assert_eq!(cache.len(), 1000);
    }
}
