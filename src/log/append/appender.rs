//! Appending to one partition as its leader does: offsets, epochs, batches, indexes, and segments that are rolled.
//!
//! When `append` returns, the records that it counts are in the log and can be read; [`Appender::flush`] makes them durable. A sealed
//! segment is durable before the next one begins, so that a power failure never leaves a gap between two segments.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::format::batch_builder::{BatchBuilder, NewRecord};
use crate::format::checkpoint::{self, EpochEntry};
use crate::format::index::relative;
use crate::format::names::{self, FileType};
use crate::format::snapshot::{self, ProducerEntry};
use crate::log::LogError;
use crate::log::append::active::{ActiveSegment, WriteError};
use crate::log::append::config::{LogConfig, NEVER};
use crate::log::append::lock::DirectoryLock;
use crate::log::derived::epochs::Epochs;
use crate::log::derived::indexing::{IndexBuilder, MAX_SEGMENT_BYTES};
use crate::log::derived::producers::Producers;
use crate::log::files::disk::{self, Disk};
use crate::log::segment::beside::live_path as path;
use crate::log::upkeep::survey::OpenLog;
use crate::units::{LeaderEpoch, Offset, ProducerId, Timestamp};

/// A partition that is open for appending.
#[derive(Debug)]
pub struct Appender {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    lock: Arc<DirectoryLock>,
    config: LogConfig,
    state: Mutex<State>,
}

/// What a partition is opened with.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) active: ActiveSegment,
    pub(super) end: Offset,
    pub(super) producers: Producers,
    pub(super) epochs: Epochs,
}

#[derive(Debug)]
struct State {
    active: ActiveSegment,
    end: Offset,
    producers: Producers,
    epochs: Epochs,
    builder: BatchBuilder,
    /// How much earlier than `segment.ms` the active segment is rolled.
    jitter_ms: u64,
    opened: Instant,
    /// The offset below which all is durable.
    flushed: Offset,
    /// When the oldest record that is not was appended.
    unflushed_since: Option<Instant>,
    /// Whether names in the directory are to be made durable.
    has_new_names: bool,
    /// Whether it takes more.
    health: Health,
}

/// Whether a log takes more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Sound,
    /// A write failed half-way, or a sync did: nobody knows what the disk has.
    Broken,
    /// The partition was removed.
    Gone,
    /// It was closed in order.
    Closed,
}

/// Records that are being appended.
#[derive(Debug)]
pub struct Appending<'a> {
    appender: &'a Appender,
    state: MutexGuard<'a, State>,
    /// The most bytes of a batch.
    limit: usize,
    appended: u64,
}

/// Why a record can't be appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// It makes a batch that is too large.
    #[error("the record makes a batch of more than max.message.bytes = {limit}")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The directory isn't ours any more.
    #[error("{}: removed by somebody, so that a broker may use the directory; unmount, and mount again", path.display())]
    LockLost {
        /// The lock file.
        path: PathBuf,
    },
    /// Something failed before, and what is on the disk has to be read again.
    #[error("{}: writing failed before; unmount, and mount again: that recovers the log", path.display())]
    Broken {
        /// The partition's directory.
        path: PathBuf,
    },
    /// What is appended behind an open transaction is not stable until that ends.
    #[error(
        "producer {} has a transaction open since offset {since}: consumers with read_committed see nothing behind it until it ends; \
         append_to_open_transactions=true appends all the same", producer.0
    )]
    OpenTransaction {
        /// Whose it is.
        producer: ProducerId,
        /// The first offset of the transaction.
        since: Offset,
    },
    /// Of a compacted log only the last record of each key stays.
    #[error("the record has no key, which each needs in a topic with cleanup.policy=compact")]
    NoKey,
    /// The partition was removed.
    #[error("{}: the partition was removed", path.display())]
    Gone {
        /// The partition's directory.
        path: PathBuf,
    },
    /// The log was closed, as at unmounting.
    #[error("{}: the log was closed", path.display())]
    Closed {
        /// The partition's directory.
        path: PathBuf,
    },
    /// The system's error.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Appender {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        directory: &Path,
        lock: Arc<DirectoryLock>,
        config: LogConfig,
        opened: Opened,
    ) -> Self {
        let Opened { active, end, producers, epochs } = opened;
        let state = State {
            active,
            end,
            producers,
            epochs,
            builder: BatchBuilder::new(config.compression),
            jitter_ms: jitter(&config),
            opened: Instant::now(),
            flushed: end,
            unflushed_since: None,
            has_new_names: true,
            health: Health::Sound,
        };
        Self { disk, directory: directory.to_owned(), lock, config, state: Mutex::new(state) }
    }

    /// The configuration.
    pub const fn config(&self) -> &LogConfig {
        &self.config
    }

    /// The partition's directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The offset of the next record.
    pub fn end(&self) -> Offset {
        self.state().end
    }

    /// The offset below which all is durable.
    pub fn flushed(&self) -> Offset {
        self.state().flushed
    }

    /// Begins to append records in as few batches as their sizes allow; others wait until they are in. `now` is the time of those that
    /// have the time of appending.
    pub fn begin(&self, now: Timestamp) -> Appending<'_> {
        let mut state = self.state();
        state.builder.clear();
        if self.config.append_time {
            state.builder.set_append_time(now);
        }
        Appending { appender: self, state, limit: self.config.max_batch_bytes(), appended: 0 }
    }

    /// Makes all that was appended durable. Others may append meanwhile.
    ///
    /// # Errors
    /// The system's; nothing can be appended after it, since the kernel may have dropped what it couldn't write.
    pub fn flush(&self) -> Result<(), AppendError> {
        let (unsynced, end, has_new_names) = {
            let state = self.state();
            self.check(&state)?;
            if state.flushed == state.end && !state.has_new_names {
                return Ok(());
            }
            (state.active.unsynced(), state.end, state.has_new_names)
        };
        let synced = unsynced.sync().and_then(|()| if has_new_names { self.sync_names() } else { Ok(()) });
        let mut state = self.state();
        if let Err(error) = synced {
            state.health = Health::Broken;
            return Err(error.into());
        }
        state.active.set_synced(&unsynced);
        state.flushed = state.flushed.max(end);
        state.has_new_names &= !has_new_names;
        if state.flushed == state.end {
            state.unflushed_since = None;
        }
        Ok(())
    }

    /// Has the log written out from the half of a segment on: the sync at its end, which whoever appends waits for, has less left. What
    /// is shorter is left to the system, which knows better when the disk has time. For who holds up nobody with it: it takes the system
    /// a while to ask the disk for that much.
    pub fn begin_sync(&self) {
        let begun = self.state().active.next_to_sync(self.config.segment_bytes / 2);
        if let Some((file, position, len)) = begun {
            file.begin_sync(position, len);
        }
    }

    /// Flushes if that is due by `flush.ms`.
    ///
    /// # Errors
    /// Those of [`Self::flush`].
    pub fn flush_if_due(&self) -> Result<(), AppendError> {
        if self.config.flush_ms >= NEVER {
            return Ok(());
        }
        let since = self.state().unflushed_since;
        let age = since.map_or(0, |since| u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX));
        if since.is_some() && age >= self.config.flush_ms { self.flush() } else { Ok(()) }
    }

    /// Closes the log as a broker that stops does: all durable, indexes complete, a producer snapshot at its end.
    ///
    /// # Errors
    /// The system's.
    pub fn close(&self) -> Result<(), AppendError> {
        {
            let mut state = self.state();
            self.check(&state)?;
            state.active.close()?;
            state.has_new_names = true;
            self.write_snapshot(&state)?;
        }
        self.flush()?;
        self.state().health = Health::Closed;
        Ok(())
    }

    /// Appends the records of the builder as one batch.
    fn append_batch(&self, state: &mut State) -> Result<(), AppendError> {
        self.check(state)?;
        self.check_transactions(state)?;
        self.begin_epoch(state)?;
        let epoch = state.epochs.latest().unwrap_or(LeaderEpoch(0));
        let max_timestamp = state.builder.max_timestamp();
        let last = state.end.plus(i64::from(state.builder.len()) - 1);
        let finished = state.builder.finish(state.end, epoch);
        let len = finished.map_err(|error| disk::failed(&self.directory, "compress", error))?.len();
        if self.must_roll(state, len, last, max_timestamp) {
            self.roll(state)?;
        }
        let State { active, builder, .. } = state;
        let batch = builder.batch();
        if let Err(WriteError { error, is_undone }) = active.append(batch, last, max_timestamp) {
            if !is_undone {
                state.health = Health::Broken;
            }
            return Err(error.into());
        }
        state.end = last.next();
        state.unflushed_since.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// How many bytes a batch may have before it is compressed: what can't be compressed gets a little larger.
    const fn most_uncompressed(&self, limit: usize) -> usize {
        match self.config.compression.codec {
            crate::format::batch::Codec::None => limit,
            _ => limit.saturating_sub(limit / 64 + 128),
        }
    }

    /// The producers at the log's end.
    pub(in crate::log) fn producers(&self) -> Vec<ProducerEntry> {
        self.state().producers.snapshot()
    }

    /// What is known of the log while it is open, and in no file yet.
    pub(in crate::log) fn open_log(&self) -> OpenLog {
        let state = self.state();
        let first_open = state.producers.open().next().map(|(first, _)| first);
        OpenLog {
            end: state.end,
            last_stable: first_open.unwrap_or(state.end),
            largest: state.active.largest(),
        }
    }

    /// Seals the active segment, if the log still ends at `end` and that segment isn't empty; whether it did.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::log) fn roll_at(&self, end: Offset) -> Result<bool, AppendError> {
        let mut state = self.state();
        self.check(&state)?;
        if state.end != end || state.active.len() == 0 {
            return Ok(false);
        }
        self.roll(&mut state)?;
        Ok(true)
    }

    /// Forgets the leader epochs that were over before `start`, where the log begins now.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::log) fn begin_epochs_at(&self, start: Offset) -> Result<(), LogError> {
        let mut state = self.state();
        let mut epochs = state.epochs.clone();
        epochs.truncate_from_start(start);
        self.write_epochs(&mut state, epochs)
    }

    fn write_epochs(&self, state: &mut State, epochs: Epochs) -> Result<(), LogError> {
        if epochs != state.epochs {
            let text = checkpoint::format_epochs(epochs.entries());
            disk::replace(&*self.disk, &self.directory.join(names::LEADER_EPOCHS), text.as_bytes())?;
            (state.epochs, state.has_new_names) = (epochs, true);
        }
        Ok(())
    }

    /// Takes nothing more: the partition is to be removed.
    pub(super) fn retire(&self) {
        self.state().health = Health::Gone;
    }

    /// Whether the log may be written to.
    fn check(&self, state: &State) -> Result<(), AppendError> {
        let path = || self.directory.clone();
        match state.health {
            Health::Sound => {}
            Health::Broken => return Err(AppendError::Broken { path: path() }),
            Health::Gone => return Err(AppendError::Gone { path: path() }),
            Health::Closed => return Err(AppendError::Closed { path: path() }),
        }
        if !self.lock.is_held() {
            return Err(AppendError::LockLost { path: self.lock.path().to_owned() });
        }
        Ok(())
    }

    /// Whether what is appended is stable at once.
    fn check_transactions(&self, state: &State) -> Result<(), AppendError> {
        match state.producers.open().next() {
            Some((since, producer)) if !self.config.into_open_transactions => {
                Err(AppendError::OpenTransaction { producer, since })
            }
            _ => Ok(()),
        }
    }

    /// The first leader of a log that had none begins epoch 0.
    fn begin_epoch(&self, state: &mut State) -> Result<(), LogError> {
        if state.epochs.latest().is_some() {
            return Ok(());
        }
        let mut epochs = state.epochs.clone();
        epochs.assign(EpochEntry { epoch: LeaderEpoch(0), start_offset: state.end });
        self.write_epochs(state, epochs)
    }

    /// Whether the active segment ends before the next batch.
    fn must_roll(&self, state: &State, len: usize, last: Offset, max_timestamp: Timestamp) -> bool {
        let (active, config) = (&state.active, &self.config);
        if active.len() == 0 {
            return relative(last, active.base).is_none();
        }
        let waited_ms = match active.first_timestamp {
            // Younger than the first batch is no wait at all.
            Some(first) if first.0 >= 0 => {
                u64::try_from(max_timestamp.0.saturating_sub(first.0)).unwrap_or(0)
            }
            _ => u64::try_from(state.opened.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        active.len() + len as u64 > config.segment_bytes.min(MAX_SEGMENT_BYTES)
            || waited_ms > config.segment_ms - state.jitter_ms
            || active.is_index_full(config.segment_index_bytes)
            || relative(last, active.base).is_none()
    }

    /// Seals the active segment and begins the next.
    fn roll(&self, state: &mut State) -> Result<(), LogError> {
        state.active.close()?;
        if let Err(error) = state.active.unsynced().sync() {
            state.health = Health::Broken;
            return Err(error);
        }
        self.write_snapshot(state)?;
        let builder = IndexBuilder::new(self.config.index_interval_bytes);
        state.active = ActiveSegment::create(&*self.disk, &self.directory, state.end, builder)?;
        // What is appended to a segment without a durable name is lost with it.
        if let Err(error) = self.sync_names() {
            state.health = Health::Broken;
            return Err(error);
        }
        (state.flushed, state.unflushed_since, state.has_new_names) = (state.end, None, false);
        (state.jitter_ms, state.opened) = (jitter(&self.config), Instant::now());
        Ok(())
    }

    fn write_snapshot(&self, state: &State) -> Result<(), LogError> {
        let bytes = snapshot::format(&state.producers.snapshot());
        disk::replace(&*self.disk, &path(&self.directory, state.end, FileType::Snapshot), &bytes)
    }

    fn sync_names(&self) -> Result<(), LogError> {
        disk::sync_directory(&*self.disk, &self.directory)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Appending<'_> {
    /// Adds a record. When the batch has no room for it, the records before it are appended first.
    ///
    /// # Errors
    /// Why it can't be added, or why those before it, since the last batch, can't be appended.
    pub fn push(&mut self, record: &NewRecord<'_>) -> Result<(), AppendError> {
        if self.appender.config.needs_keys && record.key.is_none() {
            // What came before it is good.
            self.append()?;
            return Err(AppendError::NoKey);
        }
        let most = self.appender.most_uncompressed(self.limit);
        if self.state.builder.push(record, most) {
            return Ok(());
        }
        self.append()?;
        if self.state.builder.push(record, most) {
            return Ok(());
        }
        Err(AppendError::TooLarge { limit: self.limit })
    }

    /// The offset of the first record that wasn't appended yet.
    pub fn next_offset(&self) -> Offset {
        self.state.end
    }

    /// How many of the records are in the log: also when adding one failed, those before it may be.
    pub const fn appended(&self) -> u64 {
        self.appended
    }

    /// Appends the rest, and flushes if that is due by `flush.messages`. How many records are in the log, and what failed.
    pub fn finish(mut self) -> (u64, Result<(), AppendError>) {
        let result = self.append();
        let State { end, flushed, .. } = *self.state;
        let unflushed = u64::try_from(end.0.saturating_sub(flushed.0)).unwrap_or(0);
        let Self { appender, state, appended, .. } = self;
        drop(state);
        let is_due = unflushed >= appender.config.flush_messages;
        (appended, if is_due { result.and(appender.flush()) } else { result })
    }

    /// Appends what was added since the last batch; what can't be appended is forgotten.
    fn append(&mut self) -> Result<(), AppendError> {
        let count = self.state.builder.len();
        if count == 0 {
            return Ok(());
        }
        let appended = self.appender.append_batch(&mut self.state);
        self.state.builder.clear();
        appended?;
        self.appended += u64::try_from(count).unwrap_or(0);
        Ok(())
    }
}

/// A random part of `segment.jitter.ms`.
fn jitter(config: &LogConfig) -> u64 {
    let most = config.segment_jitter_ms.min(config.segment_ms);
    RandomState::new().hash_one(()).checked_rem(most).unwrap_or(0)
}
