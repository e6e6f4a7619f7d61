//! Data directories that are written to: locked, and recovered after an unclean stop.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

use super::progress;
use crate::config::Config;
use crate::fs::options::Options;
use crate::fs::topic_configs::TopicConfigs;
use crate::fs::topics::cluster_of;
use crate::log::append::lock::DirectoryLock;
use crate::log::append::owned::OwnedDirectory;
use crate::log::append::recovery::{Plan, RecoveryError};
use crate::log::append::written_down;
use crate::log::cluster::Cluster;
use crate::log::files::disk::SystemDisk;
use crate::log::source;
use crate::units::TopicPartition;

/// The configs of the topics in a SOURCE: what the user chose, over what their cluster says.
pub(super) struct Configs<'a> {
    options: &'a Options,
    pub(super) cluster: Cluster,
}

impl<'a> Configs<'a> {
    pub(super) fn new(source: &str, config: &'a Config) -> Self {
        let options = &config.options;
        Self { options, cluster: Cluster::new(source, options.of_source()) }
    }

    /// Those of a partition's topic.
    pub(super) fn of(&self, name: &TopicPartition) -> TopicConfigs {
        TopicConfigs::new(self.options, &self.cluster, &name.topic)
    }

    /// Its `index.interval.bytes`.
    pub(super) fn interval_of(&self, name: &TopicPartition) -> u64 {
        self.of(name).log_config().index_interval_bytes
    }
}

/// Locks the data directories of a SOURCE, and recovers what an unclean stop has left as far as no more than torn and zero tails goes.
///
/// # Errors
/// Who has a lock, or what would be lost.
pub(super) fn own(source: &str, config: &Config) -> anyhow::Result<Vec<OwnedDirectory>> {
    let owned = lock(source, config)?;
    let configs = Configs::new(source, config);
    for directory in owned.iter().filter(|directory| !directory.is_sound()) {
        let mut refused = Vec::new();
        recover(directory, &configs, None, |name, plan| {
            refused.extend(refusal(name, plan));
        })?;
        if !refused.is_empty() {
            return Err(anyhow!(
                "{}: was not stopped in order, and recovering it takes more away than a torn or zero tail: {}. \
                 `topicfs recover --dry-run {source}` says all of it; `topicfs recover --quarantine DIR {source}` does it, and keeps what \
                 it cuts",
                directory.path().display(),
                refused.join("; "),
            ));
        }
    }
    Ok(owned)
}

/// Locks the data directories of a SOURCE.
///
/// # Errors
/// Who has a lock.
pub(super) fn lock(source: &str, config: &Config) -> anyhow::Result<Vec<OwnedDirectory>> {
    let limits = config.options.of_source().limits;
    let directories = source::data_directories(source)?;
    let open = |path: &std::path::PathBuf| OwnedDirectory::open(path, Arc::new(SystemDisk), limits);
    directories.iter().map(|path| open(path).map_err(Into::into)).collect()
}

/// Waits until the mount of a SOURCE that has been taken away has closed its logs: a broker may start then.
pub(super) fn wait_until_closed(source: &str) {
    /// Longer than a disk takes for what its cache holds.
    const PATIENCE: Duration = Duration::from_secs(60);
    const LOOK: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    for directory in source::data_directories(source).unwrap_or_default() {
        while DirectoryLock::is_taken(&directory) {
            if begun.elapsed() > PATIENCE {
                eprintln!("topicfs: {}: logs are still being closed", directory.display());
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Recovers all partitions of a directory, telling of each; then it is sound, unless a plan needs a quarantine that isn't there.
///
/// # Errors
/// The system's.
pub(super) fn recover(
    directory: &OwnedDirectory,
    configs: &Configs<'_>,
    quarantine: Option<&Path>,
    mut tell: impl FnMut(&TopicPartition, &Result<Plan, RecoveryError>),
) -> anyhow::Result<()> {
    let partitions = written_down::partitions(directory.path())?;
    let bar = progress::counter(partitions.len() as u64);
    let mut all_done = true;
    for (name, path) in &partitions {
        bar.set_message(name.to_string());
        let interval = configs.interval_of(name);
        let plan = directory
            .recover(name, path, interval, quarantine)
            .with_context(|| format!("recovering {name}"))?;
        all_done &= quarantine.is_some() && plan.is_ok() || refusal(name, &plan).is_none();
        if let Ok(plan) = &plan {
            for cut in &plan.cuts {
                tracing::warn!(partition = %name, "recovery cuts {cut}");
            }
        }
        tell(name, &plan);
        bar.inc(1);
    }
    bar.finish_and_clear();
    if all_done {
        directory.recovered()?;
    }
    Ok(())
}

/// Makes a directory for what is taken away, which may be there if it is empty.
///
/// # Errors
/// When it is not.
pub(super) fn make_empty(what: &str, path: &Path) -> anyhow::Result<()> {
    let explain = || format!("{what} {}", path.display());
    std::fs::create_dir_all(path).with_context(explain)?;
    match std::fs::read_dir(path).with_context(explain)?.next() {
        None => Ok(()),
        Some(_) => Err(anyhow!("{what} {}: is not empty; name a new directory", path.display())),
    }
}

/// What of a partition would be lost.
pub(super) fn refusal(name: &TopicPartition, plan: &Result<Plan, RecoveryError>) -> Option<String> {
    match plan {
        Ok(plan) if plan.needs_quarantine() => {
            plan.cuts.iter().find(|cut| !cut.is_expected()).map(ToString::to_string)
        }
        // Nothing can be appended to it, and nothing is changed.
        Err(RecoveryError::Packed { .. }) | Ok(_) => None,
        Err(error) => Some(format!("{name}: {error}")),
    }
}

/// Says what appending to a cluster's directory means.
pub(super) fn tell_of_cluster(directory: &OwnedDirectory) {
    if let Some(cluster) = cluster_of(directory) {
        eprintln!(
            "topicfs: {} belongs to a broker of cluster {cluster}. What is appended here, no other replica has: start this broker \
             before others can become leaders, since a follower truncates what its leader doesn't have. Topics can't be made: the \
             cluster's metadata wouldn't know them.",
            directory.path().display()
        );
    }
}
