//! The keys whose latest record is no tombstone, in an order that stays.
//!
//! That order is the one of the keys' numbers, so that a listing can stop anywhere and go on there, needs no memory for what it has told,
//! and tells each key once however the log grows meanwhile: it is made from the index as it was when the listing began. Two
//! keys with the same number, one of a million times a million pairs, count as one here: the later one is listed.

use std::collections::HashMap;

use crate::format::batch::Records;
use crate::log::keys::hash::hash;
use crate::log::keys::{self, Entries, Entry};
use crate::units::Offset;
use crate::view::env::Env;
use crate::view::keys::{Bounds, Failure, Wanted};
use crate::view::partition_view::{PartitionView, ViewError};

/// A partition's keys at one moment.
#[derive(Debug, Clone)]
pub struct KeysAt {
    entries: Entries,
    bounds: Bounds,
    committed: bool,
}

/// A key with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveKey {
    /// Its number.
    pub hash: u64,
    /// The offset of its latest record.
    pub offset: Offset,
    /// The key.
    pub key: Vec<u8>,
}

/// Keys in the order of their numbers, and from which number on there are more.
#[derive(Debug, Clone, Default)]
pub struct KeyPage {
    /// The keys.
    pub keys: Vec<LiveKey>,
    /// Where the next page begins.
    pub next: Option<u64>,
}

impl PartitionView {
    /// The keys as they are now.
    ///
    /// # Errors
    /// Those of reading and of building the index.
    pub fn keys_at(&self, committed: bool) -> Result<KeysAt, ViewError> {
        self.with_keys(|entries| {
            self.with_env(committed, |env| {
                let bounds = self.bounds(env)?;
                let end = bounds.end.min(self.partition.log_end()?);
                Ok(KeysAt { entries: entries.clone(), bounds: Bounds { end, ..bounds }, committed })
            })
        })
    }

    /// About `count` keys from number `from` on; pages end between numbers that differ in their upper bits, those that
    /// `place` gives.
    ///
    /// # Errors
    /// Those of reading.
    pub fn live_keys(
        &self,
        at: &KeysAt,
        from: u64,
        count: usize,
        place: fn(u64) -> u64,
    ) -> Result<KeyPage, ViewError> {
        let index_error = |error| ViewError::Log(keys::index_error(&self.partition, error));
        let (mut latest, mut next): (Vec<Entry>, _) = (Vec::new(), None);
        for entry in at.entries.in_order(from).map_err(index_error)? {
            let entry = entry.map_err(index_error)?;
            let is_enough = latest.len() >= count;
            match latest.last_mut() {
                Some(last) if last.hash() == entry.hash() => *last = entry,
                Some(last) if is_enough && place(last.hash()) != place(entry.hash()) => {
                    next = Some(entry.hash());
                    break;
                }
                _ => latest.push(entry),
            }
        }
        latest.sort_by_key(Entry::offset);
        let mut keys =
            self.with_env(at.committed, |env| self.of_entries(env, at, &latest)).map_err(|failure| {
                match failure {
                    Failure::Index(error) => index_error(error),
                    Failure::View(error) => error,
                }
            })?;
        keys.sort_by_key(|key| key.hash);
        Ok(KeyPage { keys, next })
    }

    /// The keys of entries in the order of their offsets: each batch is read once.
    fn of_entries(&self, env: &Env<'_>, at: &KeysAt, latest: &[Entry]) -> Result<Vec<LiveKey>, Failure> {
        let (mut keys, mut rest) = (Vec::new(), latest);
        while let Some(first) = rest.first() {
            let found = keys::batch(&self.partition, first)?;
            let last = found.as_ref().map_or(first.offset(), |found| found.header.last_offset);
            let count = rest.partition_point(|entry| entry.offset() <= last).max(1);
            let (of_batch, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = behind;
            let mut last_records: HashMap<u64, Option<LiveKey>> = match &found {
                Some(found) => {
                    self.with_records(env, found, |records, _| last_records(records, at.bounds, of_batch))?
                }
                None => None,
            }
            .unwrap_or_default();
            for entry in of_batch {
                match last_records.remove(&entry.hash()) {
                    Some(known) => keys.extend(known),
                    None => keys.extend(self.older(env, at, entry.hash())?),
                }
            }
        }
        Ok(keys)
    }

    /// The key with a number whose latest entry is of no record that is shown.
    fn older(&self, env: &Env<'_>, at: &KeysAt, number: u64) -> Result<Option<LiveKey>, Failure> {
        let is_it = |key: &[u8]| hash(key) == number;
        let found =
            self.latest(env, &at.entries, at.bounds, Wanted::new(number, &is_it), &mut |record, _| {
                let key = record.key.filter(|_| record.value.is_some());
                key.map(|key| LiveKey { hash: number, offset: record.offset, key: key.to_vec() })
            })?;
        Ok(found.flatten())
    }
}

/// Of each number that is wanted the key of its last record, if that has a value.
fn last_records(records: Records<'_>, bounds: Bounds, wanted: &[Entry]) -> HashMap<u64, Option<LiveKey>> {
    let wanted: std::collections::HashSet<u64> = wanted.iter().map(Entry::hash).collect();
    let mut last = HashMap::new();
    for record in records {
        let Ok(record) = record else { return HashMap::new() };
        let Some(key) = record.key.filter(|_| bounds.hold(record.offset)) else { continue };
        let number = hash(key);
        if wanted.contains(&number) {
            let live = || LiveKey { hash: number, offset: record.offset, key: key.to_vec() };
            last.insert(number, record.value.map(|_| live()));
        }
    }
    last
}
