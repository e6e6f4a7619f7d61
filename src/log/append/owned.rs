//! A data directory that is ours to write, as long as we hold its lock: what a broker does when it starts, runs and stops.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::format::batch::Limits;
use crate::format::names;
use crate::log::LogError;
use crate::log::append::active::ActiveSegment;
use crate::log::append::appender::{AppendError, Appender, Opened};
use crate::log::append::config::LogConfig;
use crate::log::append::lock::{DirectoryLock, LockError};
use crate::log::append::recovery::files::{read_epochs, segments_of};
use crate::log::append::recovery::{Known, Plan, RecoveryError};
use crate::log::append::replay::state_at;
use crate::log::append::resume::resume;
use crate::log::append::written_down::{self, WrittenDown};
use crate::log::derived::indexing::IndexBuilder;
use crate::log::derived::producers::Producers;
use crate::log::files::disk::{self, Disk};
use crate::log::upkeep::removal::{Due, SetAside};
use crate::log::upkeep::survey::Bounds;
use crate::units::{Offset, TopicPartition};

/// A data directory whose lock we hold.
#[derive(Debug)]
pub struct OwnedDirectory {
    path: PathBuf,
    disk: Arc<dyn Disk>,
    lock: Arc<DirectoryLock>,
    limits: Limits,
    state: Mutex<State>,
    /// Held while a partition's directory is being made.
    making: Mutex<()>,
    /// Held while old records of a partition are taken away.
    upkeep: Mutex<()>,
    /// Whether whoever does that is to stop.
    stop_upkeep: AtomicBool,
}

#[derive(Debug)]
struct State {
    written: WrittenDown,
    appenders: HashMap<TopicPartition, Arc<Appender>>,
    /// Whether all partitions are as a clean stop leaves them, but for those that are open.
    is_sound: bool,
    /// Those that are to be recovered before old records are taken from them again.
    half_done: HashSet<TopicPartition>,
    /// Files that wait for their removal.
    set_aside: SetAside,
}

/// Why a data directory can't be written to.
#[derive(Debug, thiserror::Error)]
pub enum OwnError {
    /// Somebody else writes to it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Its files can't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Why a partition can't be appended to.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Recovery would take away what may be of use.
    #[error("{cut}; `topicfs recover --quarantine DIR` keeps what it cuts")]
    NeedsRecovery {
        /// The first of its cuts.
        cut: String,
    },
    /// It can't be recovered.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// Its files can't be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A partition and what has to be done to it.
#[derive(Debug)]
pub struct Recovered {
    /// The partition.
    pub name: TopicPartition,
    /// What, or why nothing can be.
    pub plan: Result<Plan, RecoveryError>,
}

impl OwnedDirectory {
    /// Locks a directory and takes its mark of a clean stop away. Nothing else is changed yet: if the mark wasn't there,
    /// [`Self::recover`] comes next.
    ///
    /// # Errors
    /// Who has the lock, or the system's.
    pub fn open(path: &Path, disk: Arc<dyn Disk>, limits: Limits) -> Result<Self, OwnError> {
        let lock = Arc::new(DirectoryLock::acquire(path)?);
        let written = WrittenDown::read(path);
        written_down::mark_unclean(&*disk, path)?;
        let state = State {
            is_sound: written.is_clean,
            written,
            appenders: HashMap::new(),
            half_done: HashSet::new(),
            set_aside: SetAside::default(),
        };
        Ok(Self {
            path: path.to_owned(),
            disk,
            lock,
            limits,
            state: Mutex::new(state),
            making: Mutex::new(()),
            upkeep: Mutex::new(()),
            stop_upkeep: AtomicBool::new(false),
        })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The lock on it.
    pub const fn lock(&self) -> &Arc<DirectoryLock> {
        &self.lock
    }

    pub(in crate::log) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// How much memory one batch may cost.
    pub(in crate::log) const fn limits(&self) -> Limits {
        self.limits
    }

    /// What is known of a partition.
    pub(in crate::log) fn bounds(&self, name: &TopicPartition) -> Bounds {
        let state = self.state();
        let open = state.appenders.get(name).map(|appender| appender.open_log());
        Bounds { open, ..state.written.bounds(name) }
    }

    /// Says that segments of a partition were replaced half-way: the directory is not stopped in order, so that who opens it next
    /// recovers it.
    pub(in crate::log) fn set_half_done(&self, name: &TopicPartition) {
        self.set_sound(false);
        self.state().half_done.insert(name.clone());
    }

    /// Whether [`Self::set_half_done`] was said of it.
    pub(in crate::log) fn is_half_done(&self, name: &TopicPartition) -> bool {
        self.state().half_done.contains(name)
    }

    /// Held by whoever makes a partition's directory.
    pub(super) fn making(&self) -> MutexGuard<'_, ()> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held by whoever takes old records of a partition away.
    pub(in crate::log) fn upkeep(&self) -> MutexGuard<'_, ()> {
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Set when whoever does that is to stop.
    pub const fn upkeep_stop(&self) -> &AtomicBool {
        &self.stop_upkeep
    }

    /// Remembers a file that was set aside and goes after `delay`.
    pub(in crate::log) fn set_aside(&self, path: PathBuf, delay: Duration) {
        self.state().set_aside.add(path, delay);
    }

    /// Removes files that were set aside.
    ///
    /// # Errors
    /// The system's: what is left the next one to open the partition removes.
    pub fn remove_set_aside(&self, due: Due) -> Result<(), LogError> {
        let paths = self.state().set_aside.take(due);
        // All of them, also behind one that can't be.
        let removed: Vec<_> = paths.iter().map(|path| disk::remove_if_there(&*self.disk, path)).collect();
        removed.into_iter().collect()
    }

    /// Waits until nobody takes records away, which is soon: none do until the result is dropped.
    pub(super) fn pause_upkeep(&self) -> MutexGuard<'_, ()> {
        let was_stopped = self.stop_upkeep.swap(true, Ordering::Relaxed);
        let paused = self.upkeep();
        self.stop_upkeep.store(was_stopped, Ordering::Relaxed);
        paused
    }

    /// Whether nothing has to be recovered.
    pub fn is_sound(&self) -> bool {
        self.state().is_sound
    }

    /// Recovers one partition after an unclean stop, if it needs no more than `quarantine` allows; the plan, carried out or not.
    ///
    /// # Errors
    /// The system's.
    pub fn recover(
        &self,
        name: &TopicPartition,
        directory: &Path,
        index_interval_bytes: u64,
        quarantine: Option<&Path>,
    ) -> Result<Result<Plan, RecoveryError>, LogError> {
        let written = self.state().written.clone();
        let plan = Plan::new(directory, name, &known(&written, name, index_interval_bytes, self.limits));
        if let Ok(plan) = &plan
            && (quarantine.is_some() || !plan.needs_quarantine())
        {
            plan.apply(&*self.disk, quarantine)?;
            let written = &mut self.state().written;
            written.recovery_points.insert(name.clone(), plan.end);
            if let Some(high_watermark) = written.high_watermarks.get_mut(name) {
                *high_watermark = plan.end.min(*high_watermark);
            }
        }
        Ok(plan)
    }

    /// Changes what is written down; it is durable then.
    ///
    /// # Errors
    /// The system's.
    pub(in crate::log) fn write_down(&self, change: impl FnOnce(&mut WrittenDown)) -> Result<(), LogError> {
        let written = &mut self.state().written;
        let before = written.clone();
        change(written);
        let done = written.write_changes(&before, &*self.disk, &self.path);
        if done.is_err() {
            // Who tries again writes it again.
            *written = before;
        }
        done
    }

    /// Says whether all partitions are as a clean stop leaves them.
    pub(in crate::log) fn set_sound(&self, is_sound: bool) {
        self.state().is_sound = is_sound;
    }

    /// What recovery has to know of a partition that was stopped in order.
    pub(in crate::log) fn known_of(&self, name: &TopicPartition, index_interval_bytes: u64) -> Known {
        let log_start = self.state().written.log_starts.get(name).copied();
        Known { recovery_point: Offset(i64::MAX), log_start, index_interval_bytes, limits: self.limits }
    }

    /// Says that all partitions were recovered.
    ///
    /// # Errors
    /// The system's.
    pub fn recovered(&self) -> Result<(), LogError> {
        let mut state = self.state();
        state.is_sound = true;
        for name in names::OFFSET_CHECKPOINTS {
            disk::remove_if_there(&*self.disk, &disk::temporary(&self.path.join(name)))?;
        }
        state.written.write(&*self.disk, &self.path)
    }

    /// The partition in one of its directories, open for appending.
    ///
    /// # Errors
    /// Why it can't be appended to.
    pub fn appender(
        &self,
        name: &TopicPartition,
        directory: &Path,
        config: &LogConfig,
    ) -> Result<Arc<Appender>, OpenError> {
        let mut state = self.state();
        if let Some(known) = state.appenders.get(name) {
            return Ok(known.clone());
        }
        let opened = self.open_partition(name, directory, config, &state.written)?;
        let (disk, lock) = (self.disk.clone(), self.lock.clone());
        let appender = Arc::new(Appender::new(disk, directory, lock, *config, opened));
        state.appenders.insert(name.clone(), appender.clone());
        Ok(appender)
    }

    /// The partitions that are open for appending.
    pub fn appenders(&self) -> Vec<Arc<Appender>> {
        self.state().appenders.values().cloned().collect()
    }

    /// Closes a partition that is to be removed.
    pub(super) fn retire(&self, name: &TopicPartition) {
        if let Some(appender) = self.state().appenders.remove(name) {
            appender.retire();
        }
    }

    /// Writes down how far partitions are durable, and their high watermarks, which are their ends: there are no other replicas.
    ///
    /// # Errors
    /// The system's.
    pub fn checkpoint(&self) -> Result<(), LogError> {
        let mut state = self.state();
        let State { written, appenders, .. } = &mut *state;
        for (name, appender) in appenders.iter() {
            written.recovery_points.insert(name.clone(), appender.flushed());
            written.high_watermarks.insert(name.clone(), appender.end());
        }
        if appenders.is_empty() {
            return Ok(());
        }
        written.write(&*self.disk, &self.path)
    }

    /// Closes all partitions; the directory has the mark of a clean stop if all went well and nothing is left to be recovered.
    /// The lock is held until it is dropped.
    ///
    /// # Errors
    /// What failed first.
    pub fn close(&self) -> Result<(), AppendError> {
        let appenders = self.appenders();
        let failed = appenders.iter().filter_map(|appender| appender.close().err()).next();
        if let Some(error) = failed {
            self.checkpoint()?;
            return Err(error);
        }
        self.checkpoint()?;
        if self.is_sound() && self.lock.is_held() {
            written_down::mark_clean(&*self.disk, &self.path)?;
        }
        Ok(())
    }

    /// Finds where a partition's log ends, and repairs what can be without loss.
    fn open_partition(
        &self,
        name: &TopicPartition,
        directory: &Path,
        config: &LogConfig,
        written: &WrittenDown,
    ) -> Result<Opened, OpenError> {
        // Whoever made it may not have got so far, and what is durable in a directory without a name is lost.
        disk::sync_directory(&*self.disk, &self.path)?;
        let log_start = written.log_starts.get(name).copied();
        let mut known = Known {
            recovery_point: Offset(i64::MAX),
            log_start,
            index_interval_bytes: config.index_interval_bytes,
            limits: self.limits,
        };
        self.repair(name, directory, &known)?;
        let segments = segments_of(directory, name, self.limits)?;
        let interval = config.index_interval_bytes;
        let Some(last) = segments.last() else {
            let builder = IndexBuilder::new(interval);
            let base = log_start.unwrap_or(Offset(0));
            let active = ActiveSegment::create(&*self.disk, directory, base, builder)?;
            let epochs = read_epochs(directory);
            return Ok(Opened { active, end: base, producers: Producers::default(), epochs });
        };
        let resumed = match resume(directory, last, interval)? {
            Some(resumed) => Some(resumed),
            None => {
                known.recovery_point = last.base;
                self.repair(name, directory, &known)?;
                let segments = segments_of(directory, name, self.limits)?;
                segments.last().map(|last| resume(directory, last, interval)).transpose()?.flatten()
            }
        };
        let (place, end) = resumed.ok_or_else(|| OpenError::NeedsRecovery {
            cut: format!("{}: its end can't be found", last.path.display()),
        })?;
        let (producers, epochs) = state_at(directory, &segments, end, self.limits)?;
        let active = ActiveSegment::open(&*self.disk, directory, place)?;
        Ok(Opened { active, end, producers, epochs })
    }

    /// Repairs what can be without loss.
    pub(in crate::log) fn repair(
        &self,
        name: &TopicPartition,
        directory: &Path,
        known: &Known,
    ) -> Result<(), OpenError> {
        let plan = Plan::new(directory, name, known)?;
        if let Some(cut) = plan.cuts.iter().find(|cut| !cut.is_expected()) {
            return Err(OpenError::NeedsRecovery { cut: cut.to_string() });
        }
        Ok(plan.apply(&*self.disk, None)?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is to be done to the partitions of a directory that is not locked: only read.
///
/// # Errors
/// Those of listing.
pub fn survey(
    directory: &Path,
    limits: Limits,
    interval_of: &dyn Fn(&TopicPartition) -> u64,
) -> Result<Vec<Recovered>, LogError> {
    let written = WrittenDown::read(directory);
    let partitions = written_down::partitions(directory)?;
    Ok(partitions
        .into_iter()
        .map(|(name, path)| {
            let plan = Plan::new(&path, &name, &known(&written, &name, interval_of(&name), limits));
            Recovered { name, plan }
        })
        .collect())
}

/// What recovery knows of a partition of a directory that is not locked.
pub fn known_in(directory: &Path, name: &TopicPartition, index_interval_bytes: u64, limits: Limits) -> Known {
    known(&WrittenDown::read(directory), name, index_interval_bytes, limits)
}

/// What recovery knows of a partition.
fn known(written: &WrittenDown, name: &TopicPartition, index_interval_bytes: u64, limits: Limits) -> Known {
    let point = written.recovery_points.get(name).copied().unwrap_or(Offset(0));
    Known {
        recovery_point: if written.is_clean { Offset(i64::MAX) } else { point },
        log_start: written.log_starts.get(name).copied(),
        index_interval_bytes,
        limits,
    }
}
