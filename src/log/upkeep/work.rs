//! Doing what is due in a directory that is ours.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::log::LogError;
use crate::log::append::appender::AppendError;
use crate::log::append::config::LogConfig;
use crate::log::append::owned::{OpenError, OwnedDirectory};
use crate::log::files::disk;
use crate::log::upkeep::compaction::range::Verdict;
use crate::log::upkeep::compaction::{
    Compacted, Compaction, CompactionError, PRODUCER_EXPIRATION_MS, Settings, Watcher,
};
use crate::log::upkeep::policy::Policy;
use crate::log::upkeep::removal;
use crate::log::upkeep::retention::Decision;
use crate::log::upkeep::survey::Survey;
use crate::units::{Timestamp, TopicPartition};

/// A partition of a directory that is ours, and what is to be done to it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The data directory.
    pub owned: &'a OwnedDirectory,
    /// The partition.
    pub name: &'a TopicPartition,
    /// Its directory.
    pub directory: &'a Path,
    /// How it is written.
    pub config: &'a LogConfig,
    /// What is done to old records.
    pub policy: &'a Policy,
    /// The time it is.
    pub now: Timestamp,
}

/// What retention has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    /// Segments that went.
    pub segments: u64,
    /// Bytes of their logs.
    pub bytes: u64,
}

/// Why nothing could be done.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// It can't be opened for writing.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It takes nothing more.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// A compaction has stopped half-way.
    #[error("{}: segments were replaced half-way; unmount, and mount again: that recovers the log", path.display())]
    HalfDone {
        /// The partition's directory.
        path: PathBuf,
    },
    /// It can't be compacted.
    #[error(transparent)]
    Compaction(#[from] CompactionError),
    /// Its files can't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl UpkeepError {
    /// Whether it is no fault: somebody wanted it to stop, or the partition is gone.
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Compaction(CompactionError::Stopped { .. })
                | Self::Append(AppendError::Gone { .. } | AppendError::Closed { .. })
                | Self::Log(LogError::Stale { .. })
        )
    }
}

impl Job<'_> {
    /// The log as it is.
    ///
    /// # Errors
    /// Those of listing and reading, and that it has to be recovered first.
    pub fn survey(&self) -> Result<Survey, UpkeepError> {
        if self.owned.is_half_done(self.name) {
            return Err(UpkeepError::HalfDone { path: self.directory.to_owned() });
        }
        let bounds = self.owned.bounds(self.name);
        Ok(Survey::new(self.directory, self.name, &bounds, self.owned.limits())?)
    }

    fn set_aside(&self, path: PathBuf) {
        self.owned.set_aside(path, Duration::from_millis(self.policy.file_delete_delay_ms));
    }

    /// Sets the segments aside that go by retention.
    ///
    /// # Errors
    /// What failed; segments that are gone already were the oldest.
    pub fn retain(&self) -> Result<Retained, UpkeepError> {
        let _one_at_a_time = self.owned.upkeep();
        let survey = self.survey()?;
        // What a process that was killed has left, or one that couldn't go on.
        let first = survey.segments.first().map_or(survey.start, |first| first.base);
        removal::left_over(self.directory, first)?.into_iter().for_each(|path| self.set_aside(path));
        if survey.retention(self.policy, self.now)?.gone.is_empty() {
            return Ok(Retained::default());
        }
        let Decision { gone, .. } = survey.confirmed_retention(self.policy, self.now)?;
        let appender = self.owned.appender(self.name, self.directory, self.config)?;
        let mut count = gone.len();
        // A log has at least one segment; what was appended since is young.
        if count == survey.segments.len() && !appender.roll_at(survey.end)? {
            count -= 1;
        }
        let (disk, mut retained) = (self.owned.disk(), Retained::default());
        let (gone, stays) = survey.segments.split_at_checked(count).unwrap_or_default();
        if gone.is_empty() {
            return Ok(retained);
        }
        let start = stays.first().map_or(survey.end, |first| first.base).max(survey.start);
        // Names may become durable in another order than they are given: before that nobody reads the segments any more.
        self.owned.write_down(|written| {
            written.log_starts.insert(self.name.clone(), start);
        })?;
        appender.begin_epochs_at(start)?;
        let tell = |path| self.set_aside(path);
        for segment in gone {
            removal::set_aside(disk, self.directory, segment.base, &tell)?;
            removal::set_snapshot_aside(disk, self.directory, segment.base, &tell)?;
            retained.segments += 1;
            retained.bytes += segment.len;
        }
        disk::sync_directory(disk, self.directory)?;
        Ok(retained)
    }

    /// Compacts the log if that is worth it, in as many rounds as the map of keys takes; `None` when there was nothing to do.
    /// `read` is told of bytes that were read.
    ///
    /// # Errors
    /// What failed; each group of segments is as before, or compacted.
    pub fn compact(
        &self,
        map_bytes: usize,
        read: &(dyn Fn(u64) + Sync),
    ) -> Result<Option<Compacted>, UpkeepError> {
        if !self.policy.compact {
            return Ok(None);
        }
        let _one_at_a_time = self.owned.upkeep();
        let mut all: Option<Compacted> = None;
        loop {
            let survey = self.survey()?;
            let cleanable = survey.cleanable(self.policy, self.now)?;
            let is_worth_it = match cleanable.verdict(self.policy) {
                Verdict::Nothing => false,
                Verdict::TooClean => all.is_some(),
                Verdict::Dirty | Verdict::Overdue => true,
            };
            if !is_worth_it || cleanable.first_dirty >= cleanable.first_uncleanable {
                return Ok(all);
            }
            let appender = self.owned.appender(self.name, self.directory, self.config)?;
            let compaction = Compaction {
                disk: self.owned.disk(),
                directory: self.directory,
                name: self.name,
                cleanable,
                segments: &survey.segments,
                producers: &appender.producers(),
                high_watermark: survey.high_watermark,
                settings: Settings {
                    now: self.now,
                    delete_retention_ms: self.policy.delete_retention_ms,
                    segment_bytes: self.config.segment_bytes,
                    segment_index_bytes: self.config.segment_index_bytes,
                    index_interval_bytes: self.config.index_interval_bytes,
                    map_bytes,
                    producer_expiration_ms: PRODUCER_EXPIRATION_MS,
                    limits: self.owned.limits(),
                },
            };
            let set_aside = |path| self.set_aside(path);
            let watcher = Watcher { stop: self.owned.upkeep_stop(), read, set_aside: &set_aside };
            let compacted = compaction.run(&watcher);
            if let Err(CompactionError::HalfDone { .. }) = compacted {
                self.owned.set_half_done(self.name);
            }
            let compacted = compacted?;
            self.owned.write_down(|written| {
                written.cleaned.insert(self.name.clone(), compacted.end);
            })?;
            all = Some(match all {
                None => compacted,
                Some(before) => before.and(compacted),
            });
        }
    }
}
