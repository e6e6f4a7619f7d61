//! A thread that deletes and compacts what is due in a mount for appending, by the policies that topics have.
//!
//! It reads and writes at idle I/O priority, one partition at a time. The files of a segment that goes are there for
//! `file.delete.delay.ms` under another name; at unmounting they go at once.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::fs::metrics::Removed;
use crate::fs::metrics::requests::Requests;
use crate::fs::options::Options;
use crate::fs::topic_configs::TopicConfigs;
use crate::log::append::owned::OwnedDirectory;
use crate::log::append::{now, written_down};
use crate::log::cluster::Cluster;
use crate::log::files::sys;
use crate::log::upkeep::removal::Due;
use crate::log::upkeep::work::{Job, UpkeepError};
use crate::units::TopicPartition;

/// How often it is looked whether something is due.
const LOOK: Duration = Duration::from_millis(100);

/// The thread, as long as it runs.
#[derive(Debug)]
pub(super) struct Cleaner {
    directories: Vec<Arc<OwnedDirectory>>,
    removed: Arc<Removed>,
    thread: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl Cleaner {
    /// Begins to look after directories, if a policy is named for any topic.
    pub(super) fn start(
        directories: Vec<Arc<OwnedDirectory>>,
        options: &Options,
        cluster: &Arc<Cluster>,
    ) -> Self {
        let removed = Arc::<Removed>::default();
        if !options.names_policies() {
            return Self { directories, removed, thread: Mutex::new(None) };
        }
        let (stop, stopped) = channel();
        let (options, cluster) = (options.clone(), cluster.clone());
        let failed = HashMap::new();
        let mut work =
            Work { directories: directories.clone(), removed: removed.clone(), options, cluster, failed };
        let thread = std::thread::Builder::new().name("cleaner".to_owned()).spawn(move || work.run(&stopped));
        if let Err(error) = &thread {
            tracing::warn!(%error, "nothing is deleted or compacted");
        }
        let thread = thread.ok().map(|thread| (stop, thread));
        Self { directories, removed, thread: Mutex::new(thread) }
    }

    /// What it has taken.
    pub(super) fn removed(&self) -> &Removed {
        &self.removed
    }

    /// Ends it, also in the midst of a compaction: what it was about is begun again next time.
    pub(super) fn stop(&self) {
        for directory in &self.directories {
            directory.upkeep_stop().store(true, Ordering::Relaxed);
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = thread {
            drop(stop);
            let _ = thread.join();
        }
    }
}

/// What the thread knows.
struct Work {
    directories: Vec<Arc<OwnedDirectory>>,
    removed: Arc<Removed>,
    options: Options,
    cluster: Arc<Cluster>,
    /// What went wrong last with each partition: it is told once.
    failed: HashMap<(Task, TopicPartition), String>,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Task {
    Retention,
    Compaction,
}

impl Work {
    fn run(&mut self, stopped: &Receiver<()>) {
        sys::lower_io_priority();
        let retention = Duration::from_millis(self.options.retention_check_interval_ms);
        let compaction = Duration::from_millis(self.options.cleaner_backoff_ms);
        let mut due =
            [(Task::Retention, retention, Instant::now()), (Task::Compaction, compaction, Instant::now())];
        while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            for (task, interval, last) in &mut due {
                if last.elapsed() >= *interval {
                    self.look(*task, stopped);
                    *last = Instant::now();
                }
            }
            self.remove(Due::Now);
        }
        self.remove(Due::All);
    }

    /// Looks at all partitions.
    fn look(&mut self, task: Task, stopped: &Receiver<()>) {
        for owned in self.directories.clone() {
            let partitions = match written_down::current_partitions(owned.path()) {
                Ok(partitions) => partitions,
                Err(error) => {
                    tracing::warn!(%error, "nothing is deleted or compacted");
                    continue;
                }
            };
            for (name, directory) in partitions {
                if stopped.try_recv() != Err(TryRecvError::Empty) {
                    return;
                }
                self.look_at(task, &owned, &name, &directory);
            }
        }
    }

    fn look_at(&mut self, task: Task, owned: &Arc<OwnedDirectory>, name: &TopicPartition, directory: &Path) {
        let configs = TopicConfigs::new(&self.options, &self.cluster, &name.topic);
        let policy = configs.policy();
        let is_asked_for = match task {
            Task::Retention => policy.delete || policy.compact,
            Task::Compaction => policy.compact,
        };
        if !is_asked_for {
            return;
        }
        let config = configs.log_config();
        let job = Job { owned, name, directory, config: &config, policy: &policy, now: now() };
        let map_bytes = self.options.dedupe_buffer_bytes;
        let done = catch_unwind(AssertUnwindSafe(|| match task {
            Task::Retention => job.retain().map(|retained| {
                self.removed.retained(&retained);
                (retained.segments > 0).then(|| format!("deleted {} segments", retained.segments))
            }),
            Task::Compaction => job.compact(map_bytes, &|_| {}).map(|compacted| {
                let compacted = compacted?;
                self.removed.compacted(&compacted);
                let (before, after) = compacted.records;
                Some(format!("compacted: {after} of {before} records are left"))
            }),
        }));
        match done {
            Ok(Ok(text)) => {
                self.failed.remove(&(task, name.clone()));
                if let Some(text) = text {
                    tracing::info!(partition = %name, "{text}");
                }
            }
            Ok(Err(error)) => self.tell(task, name, &error),
            Err(_) => {
                Requests::of_process().panicked();
                tracing::error!(partition = %name, "a panic while old records were looked for");
            }
        }
    }

    fn tell(&mut self, task: Task, name: &TopicPartition, error: &UpkeepError) {
        if error.is_passing() {
            return;
        }
        let (key, text) = ((task, name.clone()), error.to_string());
        if self.failed.get(&key) != Some(&text) {
            tracing::warn!(partition = %name, error = %text, "nothing is deleted or compacted");
            self.failed.insert(key, text);
        }
    }

    /// Removes files that were set aside.
    fn remove(&self, due: Due) {
        for owned in &self.directories {
            if let Err(error) = owned.remove_set_aside(due) {
                tracing::warn!(%error, "a deleted segment is still there; the next mount removes it");
            }
        }
    }
}
