//! Which partitions are salvaged and where they are written; and the data directories around them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};

use crate::format::checkpoint;
use crate::format::names;
use crate::format::properties::MetaProperties;
use crate::log::LogError;
use crate::log::files;
use crate::log::files::durable;
use crate::log::partition::Partition;
use crate::log::salvage::report::{LeftOut, PartitionReport, Report, Weight};
use crate::log::salvage::{Options, Writing};
use crate::log::source::Source;
use crate::units::{Offset, TopicPartition};

/// The largest `meta.properties` that is copied.
const MAX_META_BYTES: u64 = 1024 * 1024;

/// What is to be done.
#[derive(Debug)]
pub struct Plan {
    /// The data directories to write, one for each that SOURCE names; one for what is in none.
    pub directories: Vec<DataDirectory>,
    /// The partitions to copy.
    pub jobs: Vec<Job>,
    /// What isn't copied.
    pub left_out: Vec<LeftOut>,
}

/// A data directory to write.
#[derive(Debug)]
pub struct DataDirectory {
    /// The one that it is made from; `None` for a partition or a segment that was named alone.
    pub source: Option<PathBuf>,
    /// Where it is written.
    pub path: PathBuf,
}

/// A partition to copy.
#[derive(Debug)]
pub struct Job {
    /// What is read.
    pub partition: Arc<Partition>,
    /// Which of the data directories it goes to.
    pub data_directory: usize,
    /// The directory that it is written to.
    pub directory: PathBuf,
}

/// Why nothing can be done.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A pattern for nothing.
    #[error("{pattern}: no partition has this name; they are named as in `topicfs ls`: orders/0, 'orders/*'")]
    NoMatch {
        /// The pattern.
        pattern: String,
    },
    /// A pattern that is none.
    #[error("{pattern}: {cause}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Two replicas of one partition.
    #[error("{} and {} would both become {}; name one of them", one.display(), other.display(), directory.display())]
    Conflict {
        /// One replica.
        one: PathBuf,
        /// The other.
        other: PathBuf,
        /// Where both would be written.
        directory: PathBuf,
    },
    /// A directory that can't be written to.
    #[error("{}: {reason}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The system refused.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// A partition's name as the tree has it, with globs.
struct Pattern {
    text: String,
    topic: GlobMatcher,
    label: Option<GlobMatcher>,
    /// Whether it speaks of leftovers.
    has_suffix: bool,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, PlanError> {
        let (topic, label) = match text.trim_matches('/').split_once('/') {
            Some((topic, label)) => (topic, Some(label)),
            None => (text.trim_matches('/'), None),
        };
        let matcher = |glob: &str| match GlobBuilder::new(glob).literal_separator(true).build() {
            Ok(glob) => Ok(glob.compile_matcher()),
            Err(error) => Err(PlanError::Pattern { pattern: text.to_owned(), cause: error.to_string() }),
        };
        Ok(Self {
            text: text.to_owned(),
            topic: matcher(topic)?,
            label: label.map(matcher).transpose()?,
            has_suffix: label.is_some_and(|label| label.contains('.')),
        })
    }

    fn takes(&self, partition: &Partition) -> bool {
        self.topic.is_match(&partition.name.topic)
            && self.label.as_ref().is_none_or(|label| label.is_match(&partition.label))
            && (self.has_suffix || !is_leftover(partition))
    }
}

/// Whether it is a broker's leftover, or a second copy: not what readers of the partition are given.
fn is_leftover(partition: &Partition) -> bool {
    partition.label != partition.name.partition.to_string()
}

/// Plans to write what `patterns` name of `source`, all partitions in use if none, to `out`.
///
/// # Errors
/// What keeps the plan from being one; nothing is written yet.
pub fn plan(source: &Source, patterns: &[String], out: &Path) -> Result<Plan, PlanError> {
    let patterns = patterns.iter().map(|text| Pattern::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let tree = source.tree();
    let roots: Vec<PathBuf> = source.paths().into_iter().map(Path::to_owned).collect();
    let partitions: Vec<_> = tree.topics.values().flatten().cloned().collect();
    let directories = directories(&roots, &partitions, out);
    let mut plan = Plan { directories, jobs: Vec::new(), left_out: Vec::new() };
    let mut used = vec![false; patterns.len()];
    for partition in &partitions {
        let path = partition.origin.path();
        let mut taken =
            patterns.is_empty() && (!is_leftover(partition) || roots.iter().any(|root| root == path));
        for (pattern, used) in patterns.iter().zip(&mut used) {
            if pattern.takes(partition) {
                (taken, *used) = (true, true);
            }
        }
        if taken {
            let around = roots.iter().enumerate().filter(|(_, root)| path.starts_with(root));
            let root = around.max_by_key(|(_, root)| root.components().count()).map_or(0, |(root, _)| root);
            let directory = plan.directories[root].path.join(partition.name.to_string());
            plan.jobs.push(Job { partition: Arc::clone(partition), data_directory: root, directory });
        } else if is_leftover(partition) {
            plan.left_out.push(leftover(partition));
        }
    }
    if let Some(at) = used.iter().position(|used| !used) {
        return Err(PlanError::NoMatch { pattern: patterns[at].text.clone() });
    }
    check_conflicts(&plan.jobs)?;
    plan.left_out.extend(tree.notes.iter().map(|note| LeftOut {
        path: note.file.clone(),
        name: None,
        cause: note.cause.clone(),
        weight: Weight::Harmless,
    }));
    Ok(plan)
}

/// The data directories to write: `out` itself for one, directories in it with the names of several.
fn directories(roots: &[PathBuf], partitions: &[Arc<Partition>], out: &Path) -> Vec<DataDirectory> {
    let mut used = HashSet::new();
    let mut free = |root: &Path| {
        let name =
            root.file_name().map_or_else(|| "data".to_owned(), |name| name.to_string_lossy().into_owned());
        let mut candidate = name.clone();
        while !used.insert(candidate.clone()) {
            candidate = format!("{name}-{}", used.len() + 1);
        }
        candidate
    };
    let is_single = |root: &Path| partitions.iter().any(|partition| partition.origin.path() == root);
    let directory = |root: &PathBuf| DataDirectory {
        source: Some(root.clone()).filter(|root| !is_single(root)),
        path: if roots.len() == 1 { out.to_owned() } else { out.join(free(root)) },
    };
    roots.iter().map(directory).collect()
}

fn leftover(partition: &Partition) -> LeftOut {
    let name = format!("{}/{}", partition.name.topic, partition.label);
    LeftOut {
        path: partition.origin.path().to_owned(),
        cause: format!("not the partition in use; name {name} to take it"),
        name: Some(name),
        weight: Weight::Harmless,
    }
}

fn check_conflicts(jobs: &[Job]) -> Result<(), PlanError> {
    let mut known: HashMap<&Path, &Path> = HashMap::new();
    for job in jobs {
        let other = job.partition.origin.path();
        if let Some(one) = known.insert(&job.directory, other) {
            let (one, other) = (one.to_owned(), other.to_owned());
            return Err(PlanError::Conflict { one, other, directory: job.directory.clone() });
        }
    }
    Ok(())
}

/// Checks that `out` can be written to: it is new or empty, and neither in the source nor in another data directory.
///
/// # Errors
/// Why it can't.
pub fn check_destination(source: &Source, out: &Path) -> Result<(), PlanError> {
    let refuse = |reason: String| Err(PlanError::Directory { path: out.to_owned(), reason });
    let real = match real_path(out) {
        Ok(real) => real,
        Err(error) => return refuse(error.to_string()),
    };
    for inside in source.directories() {
        if real.starts_with(&inside) || inside.starts_with(&real) {
            return refuse(format!("the source {} must not share a directory with it", inside.display()));
        }
    }
    let above = real.ancestors().skip(1).find(|above| above.join(names::META_PROPERTIES).exists());
    if let Some(above) = above {
        return refuse(format!(
            "{} is a broker's data directory: choose a place outside of it",
            above.display()
        ));
    }
    match std::fs::read_dir(out).map(|mut entries| entries.next()) {
        Ok(None) => Ok(()),
        Ok(Some(_)) => refuse("is not empty: name a new directory, or an empty one".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => refuse(error.to_string()),
    }
}

/// Where a directory really is, which need not be there yet; the one around it must.
fn real_path(path: &Path) -> std::io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), ..) => Ok(real),
        (Err(_), Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        (Err(error), ..) => Err(error),
    }
}

impl Plan {
    /// Makes the data directories.
    ///
    /// # Errors
    /// The system's.
    pub fn create(&self, out: &Path) -> Result<(), LogError> {
        let below = self.directories.iter().map(|directory| directory.path.as_path());
        for path in std::iter::once(out).chain(below) {
            if !path.is_dir() {
                durable::create_directory(path)?;
            }
        }
        Ok(())
    }

    /// Writes what stands beside the partitions, when these are all there; what a broker goes by comes last.
    ///
    /// # Errors
    /// The system's.
    pub fn finish(self, partitions: Vec<PartitionReport>, options: &Options) -> Result<Report, LogError> {
        let mut report = Report { partitions, left_out: self.left_out };
        for directory in &self.directories {
            let here = |partition: &&PartitionReport| partition.directory.parent() == Some(&directory.path);
            let partitions: Vec<_> = report.partitions.iter().filter(here).collect();
            let meta =
                directory.source.as_deref().map(|source| read_meta(&source.join(names::META_PROPERTIES)));
            let meta = match meta {
                Some(Ok(bytes)) => bytes,
                Some(Err(left)) => {
                    report.left_out.push(left);
                    None
                }
                None => None,
            };
            if options.writing == Writing::Files {
                write_checkpoints(&directory.path, &partitions)?;
                if let Some(bytes) = meta {
                    durable::write(directory.path.join(names::META_PROPERTIES), &bytes)?;
                }
                durable::sync_directory(&directory.path)?;
            }
        }
        Ok(report)
    }
}

fn write_checkpoints(directory: &Path, partitions: &[&PartitionReport]) -> Result<(), LogError> {
    let starts = partitions.iter().filter(|partition| partition.has_checkpoint);
    let starts = starts.map(|partition| (partition.partition.clone(), partition.log_start)).collect();
    let marks = partitions
        .iter()
        .filter_map(|partition| Some((partition.partition.clone(), partition.high_watermark?)));
    write_checkpoint(directory, names::LOG_STARTS, &starts)?;
    write_checkpoint(directory, names::HIGH_WATERMARKS, &marks.collect())
}

fn write_checkpoint(
    directory: &Path,
    name: &str,
    offsets: &BTreeMap<TopicPartition, Offset>,
) -> Result<(), LogError> {
    if offsets.is_empty() {
        return Ok(());
    }
    durable::write(directory.join(name), checkpoint::format_offsets(offsets).as_bytes())
}

/// The bytes of a sound `meta.properties`, `None` when there is none.
fn read_meta(path: &Path) -> Result<Option<Vec<u8>>, LeftOut> {
    let left = |cause| LeftOut { path: path.to_owned(), name: None, cause, weight: Weight::Loss };
    match files::read_small(path, MAX_META_BYTES) {
        Ok(bytes) => match MetaProperties::parse(&bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) => Err(left(error.to_string())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(left(error.to_string())),
    }
}
