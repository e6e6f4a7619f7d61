//! Records by key: the latest one, and which batches have others.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::format::batch::{Batch, Records};
use crate::format::record::Record;
use crate::log::LogError;
use crate::log::keys::hash::hash;
use crate::log::keys::{self, Entries, Entry, Means};
use crate::log::partition::Found;
use crate::units::Offset;
use crate::view::env::Env;
use crate::view::partition_view::{PartitionView, RecordPlace, ViewError};

/// How often a look-up is begun anew when segments or files of the index go away under it.
const ATTEMPTS: u32 = 4;

/// A key that is looked for.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    hash: u64,
    is_it: &'a dyn Fn(&[u8]) -> bool,
}

impl<'a> Wanted<'a> {
    /// Of the keys with the number `hash`, the one of which `is_it` says so.
    pub const fn new(hash: u64, is_it: &'a dyn Fn(&[u8]) -> bool) -> Self {
        Self { hash, is_it }
    }

    fn is(&self, record: &Record<'_>) -> bool {
        record.key.is_some_and(self.is_it)
    }
}

/// A key that was found, and the offsets from its first record on to behind its latest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// The key.
    pub key: Arc<[u8]>,
    /// Its offsets.
    pub offsets: Range<Offset>,
}

/// Why a look-up failed: its index, or what it reads.
#[derive(Debug)]
pub(super) enum Failure {
    Index(io::Error),
    View(ViewError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Index(error)
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Self::View(error.into())
    }
}

impl From<ViewError> for Failure {
    fn from(error: ViewError) -> Self {
        Self::View(error)
    }
}

/// The offsets whose records count.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The first one.
    pub start: Offset,
    /// The one after the last.
    pub end: Offset,
}

impl Bounds {
    pub(super) fn hold(&self, offset: Offset) -> bool {
        offset >= self.start && offset < self.end
    }
}

impl PartitionView {
    /// The latest record of a key, also a tombstone; `None` when there is none.
    ///
    /// # Errors
    /// Those of reading and of building the index; [`ViewError::Damaged`] where the mount asks for that.
    pub fn latest_of_key<T>(
        &self,
        committed: bool,
        wanted: Wanted<'_>,
        mut visit: impl FnMut(&Record<'_>, &RecordPlace<'_>) -> T,
    ) -> Result<Option<T>, ViewError> {
        self.with_keys(|entries| {
            self.with_env(committed, |env| {
                let bounds = self.bounds(env)?;
                let found = self.latest(env, entries, bounds, wanted, &mut |record, place| {
                    (record.offset, visit(record, place))
                })?;
                // What damage has taken may have been later.
                let from = found.as_ref().map_or(bounds.start, |(offset, _)| *offset);
                self.fail_at_damage(env, from, self.partition.log_end()?.min(bounds.end))?;
                Ok(found.map(|(_, shown)| shown))
            })
        })
    }

    /// Where the records of a key are.
    ///
    /// # Errors
    /// As [`Self::latest_of_key`].
    pub fn range_of_key(&self, committed: bool, wanted: Wanted<'_>) -> Result<Option<KeyRange>, ViewError> {
        let latest = self.latest_of_key(committed, wanted, |record, _| {
            (Arc::<[u8]>::from(record.key.unwrap_or_default()), record.offset.next())
        })?;
        let Some((key, end)) = latest else { return Ok(None) };
        let start = self.with_keys(|entries| {
            self.with_env(committed, |env| {
                let bounds = Bounds { end, ..self.bounds(env)? };
                self.first(env, entries, bounds, &key)
            })
        })?;
        Ok(start.map(|start| KeyRange { key, offsets: start..end }))
    }

    /// Builds the index, or brings it up to date.
    ///
    /// # Errors
    /// Those of reading, and of writing to files.
    pub fn index_keys(&self) -> Result<(), ViewError> {
        self.with_keys(|_| Ok(()))
    }

    /// Whether bringing the index up to date takes long.
    ///
    /// # Errors
    /// Those of listing.
    pub fn is_key_index_far(&self) -> Result<bool, ViewError> {
        Ok(self.keys().is_far(&self.partition)?)
    }

    /// Source bytes read and to be read, while the index is being built.
    pub fn key_progress(&self) -> Option<(u64, u64)> {
        self.keys().progress()
    }

    /// Runs `work` with the index as of now; again where its files turn out to be damaged, or a broker deletes segments meanwhile.
    pub(super) fn with_keys<T>(
        &self,
        mut work: impl FnMut(&Entries) -> Result<T, Failure>,
    ) -> Result<T, ViewError> {
        let shared = self.shared();
        let pace = |bytes| {
            shared.counts.indexed_bytes.add(bytes);
            shared.pace(bytes);
        };
        let means = Means { cache: shared.sidecars.as_ref(), pace: &pace };
        let mut attempt = 1;
        loop {
            let result = self.keys().entries(&self.partition, means).map_err(Failure::from);
            let error = match result.and_then(|entries| work(&entries)) {
                Ok(done) => return Ok(done),
                Err(Failure::Index(error)) => {
                    let partition = &self.partition.name;
                    tracing::warn!(%partition, %error, "the index by key is built again");
                    self.keys().reset();
                    keys::index_error(&self.partition, error).into()
                }
                Err(Failure::View(error @ ViewError::Log(LogError::Stale { .. }))) => error,
                Err(Failure::View(error)) => return Err(error),
            };
            if attempt == ATTEMPTS {
                return Err(error);
            }
            attempt += 1;
        }
    }

    pub(super) fn bounds(&self, env: &Env<'_>) -> Result<Bounds, LogError> {
        Ok(Bounds { start: self.start()?, end: env.bound().min(self.limit()) })
    }

    /// The latest record of a key within `bounds`.
    pub(super) fn latest<T>(
        &self,
        env: &Env<'_>,
        entries: &Entries,
        bounds: Bounds,
        wanted: Wanted<'_>,
        visit: &mut dyn FnMut(&Record<'_>, &RecordPlace<'_>) -> T,
    ) -> Result<Option<T>, Failure> {
        // The entry of a batch that lies across the end is at or above that, and may have earlier records of the key.
        let mut next = match bounds.end {
            Offset(i64::MAX) => None,
            end => entries.first_from(wanted.hash, end)?,
        };
        let mut below = bounds.end;
        loop {
            let entry = match next.take() {
                Some(entry) => entry,
                None => match entries.last_before(wanted.hash, below)? {
                    Some(entry) if entry.offset() >= bounds.start => {
                        below = entry.offset();
                        entry
                    }
                    _ => return Ok(None),
                },
            };
            if let Some(shown) = self.last_in_batch(env, &entry, bounds, wanted, visit)? {
                return Ok(Some(shown));
            }
        }
    }

    /// The offset of the first record of a key within `bounds`.
    fn first(
        &self,
        env: &Env<'_>,
        entries: &Entries,
        bounds: Bounds,
        key: &[u8],
    ) -> Result<Option<Offset>, Failure> {
        let mut from = bounds.start;
        while let Some(entry) = entries.first_from(hash(key), from)? {
            if let Some(found) = keys::batch(&self.partition, &entry)? {
                let first = self.with_records(env, &found, |records, _| {
                    let mut first = None;
                    for record in records {
                        let Ok(record) = record else { return None };
                        if first.is_none() && bounds.hold(record.offset) && record.key == Some(key) {
                            first = Some(record.offset);
                        }
                    }
                    first
                })?;
                if let Some(first) = first.flatten() {
                    return Ok(Some(first));
                }
            }
            if entry.offset() >= bounds.end {
                break;
            }
            from = entry.offset().next();
        }
        Ok(None)
    }

    /// The last record of a key in the batch of `entry`.
    fn last_in_batch<T>(
        &self,
        env: &Env<'_>,
        entry: &Entry,
        bounds: Bounds,
        wanted: Wanted<'_>,
        visit: &mut dyn FnMut(&Record<'_>, &RecordPlace<'_>) -> T,
    ) -> Result<Option<T>, LogError> {
        let Some(found) = keys::batch(&self.partition, entry)? else { return Ok(None) };
        self.with_records(env, &found, |records, place| {
            let mut last = None;
            for record in records {
                // None is shown of a batch whose records can't all be read.
                let Ok(record) = record else { return None };
                if bounds.hold(record.offset) && wanted.is(&record) {
                    last = Some(record);
                }
            }
            last.map(|record| visit(&record, place))
        })
        .map(Option::flatten)
    }

    /// Calls `work` with the records of a batch, if they are for readers.
    pub(super) fn with_records<T>(
        &self,
        env: &Env<'_>,
        found: &Found,
        work: impl FnOnce(Records<'_>, &RecordPlace<'_>) -> T,
    ) -> Result<Option<T>, LogError> {
        let batch = Batch { bytes: &found.bytes, header: found.header };
        if !env.is_visible(&batch) {
            return Ok(None);
        }
        let place = RecordPlace { batch: &batch, position: found.position, segment: &found.segment };
        let _permit = env.shared.permit(&batch, &found.segment.limits());
        env.shared.with_workspace(|workspace| {
            let records = batch.records(&mut workspace.decoder, &found.segment.limits());
            Ok(records.ok().map(|records| work(records, &place)))
        })
    }
}

/// The number of a key, by which it is looked for.
pub fn number(key: &[u8]) -> u64 {
    hash(key)
}
