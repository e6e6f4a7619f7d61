//! What the user named as SOURCE, as a tree of topics and partitions.
//!
//! | module | what |
//! |---|---|
//! | `roots` | what each part of SOURCE is: a data directory, a partition, a segment |
//! | [`checkpoints`] | offsets of partitions that a broker has written down |
//! | [`tiered`] | the directories of a tiered store (KIP-405) |
//! | `archived` | segments under names that no broker gives its own |
//! | `swaps` | what an interrupted compaction left, resolved as Kafka's loader does |

pub(in crate::log) mod archived;
pub mod checkpoints;
pub(in crate::log) mod roots;
pub(in crate::log) mod swaps;
pub mod tiered;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crate::format::batch::Limits;
use crate::format::names::{self, Kind, PartitionDir};
use crate::format::properties::Properties;
use crate::log::LogError;
use crate::log::files::unpacked::Room;
use crate::log::files::{self, FileId, FilePool, TIME_GRAIN};
use crate::log::moment;
use crate::log::partition::{Bounds, Origin, Partition};
use crate::log::problem::{Kind as ProblemKind, Problem};
pub use crate::log::source::roots::data_directories;
use crate::log::source::roots::{
    MAX_PROPERTIES_BYTES, Root, expand, label_of, not_a_source, split_spec, state_of,
};
use crate::log::source::tiered::TieredPartition;
use crate::log::touches::Touches;
use crate::units::{PartitionId, TopicPartition};

/// Descriptors kept open at most.
const OPEN_FILES: usize = 256;
/// Names in a data directory from which on several threads look at them, and how many: they wait for the disk.
const WORTH_THREADS: usize = 512;
const LISTING_THREADS: usize = 8;

/// A source: data directories, a partition or a segment.
#[derive(Debug)]
pub struct Source {
    /// As the user wrote it.
    pub spec: String,
    roots: Vec<Root>,
    pool: Arc<FilePool>,
    options: SourceOptions,
    listed: RwLock<Option<Listed>>,
    relist: Mutex<()>,
}

/// How a source is read.
#[derive(Debug, Clone, Copy)]
pub struct SourceOptions {
    /// How much memory one batch may cost.
    pub limits: Limits,
    /// Whether partition directories may be symbolic links.
    pub follow_symlinks: bool,
}

/// All topics at one moment.
#[derive(Debug, Default)]
pub struct Tree {
    /// Topics by name, their partitions in the order of their numbers, with which labels begin.
    pub topics: BTreeMap<String, Vec<Arc<Partition>>>,
    /// What is odd about the data directories.
    pub notes: Vec<Problem>,
    /// Directories that could not be listed, and why.
    pub unlisted: Vec<(PathBuf, io::ErrorKind)>,
}

impl Tree {
    /// The partition of `topic` with `label`.
    pub fn partition(&self, topic: &str, label: &str) -> Option<&Arc<Partition>> {
        let partitions = self.topics.get(topic)?;
        let number: PartitionId = label.split(['.', '-']).next()?.parse().ok()?;
        let from = partitions.partition_point(|partition| partition.name.partition < number);
        let same = partitions.get(from..)?.iter().take_while(|partition| partition.name.partition == number);
        same.into_iter().find(|partition| partition.label == label)
    }
}

/// A tree, and the states of the directories that it was made from.
#[derive(Debug)]
struct Listed {
    tree: Arc<Tree>,
    states: Vec<(PathBuf, Option<(FileId, SystemTime)>)>,
    at: Instant,
    settled: bool,
}

/// Whether a partition was found when the source had been listed before: it may be another one of a name that was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IsLater {
    No,
    Yes,
}

/// A partition directory found in a data directory or a tiered store.
struct Candidate {
    partition: TopicPartition,
    label: String,
    /// What sets it apart from another one of its label.
    id: Option<String>,
    path: PathBuf,
    directory: Option<FileId>,
    bounds: Bounds,
}

impl Candidate {
    fn of_broker(dir: PartitionDir, path: &Path, directory: FileId, bounds: &Bounds) -> Self {
        let label = label_of(&dir);
        // The checkpoints speak of the partition itself, not of its leftovers.
        let (id, bounds) = match dir.kind {
            Kind::Current => (None, bounds.clone()),
            Kind::Delete { id } | Kind::Future { id } | Kind::Stray { id } => (Some(id), Bounds::default()),
        };
        Self {
            partition: dir.partition,
            label,
            id,
            path: path.to_owned(),
            directory: Some(directory),
            bounds,
        }
    }

    fn of_store(found: TieredPartition) -> Self {
        let TieredPartition { partition, topic_id, path } = found;
        let (label, id) = (partition.partition.to_string(), Some(topic_id.to_string()));
        Self { partition, label, id, directory: directory_at(&path), path, bounds: Bounds::default() }
    }
}

fn directory_at(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().as_ref().map(FileId::of)
}

/// Why something in a data directory is no partition that can be read.
struct Odd {
    kind: ProblemKind,
    cause: String,
    /// Why it could not be listed, if that is it.
    unlisted: Option<io::ErrorKind>,
}

/// Gives up what is held of partitions that are there no more.
fn retire_gone(old: Option<&Tree>, new: &Tree) {
    let here: HashSet<_> = new.topics.values().flatten().map(Arc::as_ptr).collect();
    for partition in old.into_iter().flat_map(|tree| tree.topics.values().flatten()) {
        if !here.contains(&Arc::as_ptr(partition)) {
            partition.retire();
        }
    }
}

impl Source {
    /// Opens what `spec` names; see the module's table.
    ///
    /// # Errors
    /// [`LogError::NotASource`] with the reason, or the system's error.
    pub fn open(spec: &str, options: SourceOptions) -> Result<Self, LogError> {
        let pool = Arc::new(FilePool::new(NonZeroUsize::new(OPEN_FILES).unwrap_or(NonZeroUsize::MIN)));
        let mut paths = Vec::new();
        for part in split_spec(spec) {
            expand(&part, &mut paths)?;
        }
        if paths.is_empty() {
            return Err(not_a_source(
                Path::new(spec),
                "SOURCE is empty: name a data directory, as in log.dirs",
            ));
        }
        let several = paths.len() > 1;
        let mut roots = Vec::with_capacity(paths.len());
        for path in paths {
            roots.push(Root::open(path, several, &pool, options)?);
        }
        Ok(Self {
            spec: spec.to_owned(),
            roots,
            pool,
            options,
            listed: RwLock::new(None),
            relist: Mutex::new(()),
        })
    }

    /// Its open and unpacked files.
    pub const fn pool(&self) -> &Arc<FilePool> {
        &self.pool
    }

    /// Unpacks compressed segments in this room from now on, not in the system's directory for temporary files.
    pub fn unpack_in(&self, room: Room) {
        self.pool.unpacked.move_to(room);
    }

    /// The directories and files that SOURCE named.
    pub fn paths(&self) -> Vec<&Path> {
        self.roots.iter().map(Root::path).collect()
    }

    /// The same, absolute and without links: where the source really is.
    pub fn directories(&self) -> Vec<PathBuf> {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        self.roots.iter().map(|root| real(root.path())).collect()
    }

    /// Those of them that are data directories.
    pub fn data_directories(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().filter_map(|root| match root {
            Root::DataDirectory { path, .. } => Some(path.as_path()),
            Root::Single(_) => None,
        })
    }

    /// How much memory one batch may cost.
    pub const fn limits(&self) -> Limits {
        self.options.limits
    }

    /// The topics and partitions as they are now.
    pub fn tree(&self) -> Arc<Tree> {
        if moment::was_looked_at(self)
            && let Some(listed) = self.listed.read().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            return listed.tree.clone();
        }
        let tree = self.look();
        moment::look_at(self);
        tree
    }

    fn look(&self) -> Arc<Tree> {
        if let Some(tree) = self.current() {
            return tree;
        }
        // One at a time: a partition that is new must not become two.
        let _one_at_a_time = self.relist.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tree) = self.current() {
            return tree;
        }
        let listed = self.listed.read().unwrap_or_else(PoisonError::into_inner);
        let old = listed.as_ref().map(|listed| listed.tree.clone());
        drop(listed);
        let mut states: Vec<_> =
            self.roots.iter().map(|root| (root.path().to_owned(), state_of(root.path()))).collect();
        let tree = Arc::new(self.list(old.as_deref()));
        // The topics of a tiered store are directories of their own.
        let parents: HashSet<&Path> =
            tree.topics.values().flatten().filter_map(|partition| partition.origin.path().parent()).collect();
        for parent in parents.into_iter().filter(|parent| tiered::partitions(parent).is_some()) {
            states.push((parent.to_owned(), state_of(parent)));
        }
        states.extend(tree.unlisted.iter().map(|(path, _)| (path.clone(), state_of(path))));
        // Of a change of rights the directory tells; other reasons pass without a trace.
        let is_lasting = |kind: &io::ErrorKind| *kind == io::ErrorKind::PermissionDenied;
        let is_settled = |state: &Option<(FileId, SystemTime)>| {
            state.is_none_or(|(_, time)| time.elapsed().is_ok_and(|age| age > TIME_GRAIN))
        };
        let settled = states.iter().all(|(_, state)| is_settled(state))
            && tree.unlisted.iter().all(|(_, kind)| is_lasting(kind));
        retire_gone(old.as_deref(), &tree);
        *self.listed.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Listed { tree: tree.clone(), states, at: Instant::now(), settled });
        tree
    }

    /// The tree, if it is as it was listed last.
    fn current(&self) -> Option<Arc<Tree>> {
        let listed = self.listed.read().unwrap_or_else(PoisonError::into_inner);
        let listed = listed.as_ref()?;
        let is_fresh = listed.settled || listed.at.elapsed() < TIME_GRAIN;
        let is_same = || listed.states.iter().all(|(path, state)| state_of(path) == *state);
        (is_fresh && is_same()).then(|| listed.tree.clone())
    }

    fn partition(&self, candidate: &Candidate, label: String, is_later: IsLater) -> Partition {
        let Candidate { partition, path, bounds, directory, .. } = candidate;
        let origin = Origin::Directory(path.clone());
        let (pool, limits) = (self.pool.clone(), self.options.limits);
        let made = Partition::new(partition.clone(), label, origin, bounds.clone(), pool, limits);
        let made = match directory {
            Some(directory) => made.in_directory(*directory),
            None => made,
        };
        match is_later {
            IsLater::No => made,
            IsLater::Yes => made.made_later(),
        }
    }

    /// Closes descriptors that nobody used for a while, and lets the kernel tell no more of what nobody asks for.
    pub fn close_idle(&self, idle: Duration) {
        self.pool.expire(idle);
        Touches::expire(idle);
    }

    fn list(&self, old: Option<&Tree>) -> Tree {
        let mut tree = Tree::default();
        let mut known: HashMap<&Path, &Arc<Partition>> = HashMap::new();
        for partition in old.into_iter().flat_map(|tree| tree.topics.values().flatten()) {
            known.insert(partition.origin.path(), partition);
        }
        let is_later = if old.is_some() { IsLater::Yes } else { IsLater::No };
        let mut used: HashSet<(String, String)> = HashSet::new();
        let mut candidates = Vec::new();
        for root in &self.roots {
            match root {
                Root::DataDirectory { path, bounds } => {
                    self.list_directory(path, bounds, &mut candidates, &mut tree);
                }
                Root::Single(partition) => {
                    tree.topics.entry(partition.name.topic.clone()).or_default().push(partition.clone());
                }
            }
        }
        note_cluster_ids(&self.roots, &mut tree.notes);
        for candidate in candidates {
            let label = free_label(&candidate, &mut used);
            let is_same = |old: &&&Arc<Partition>| old.label == label && old.is_in(candidate.directory);
            let partition = match known.get(candidate.path.as_path()).filter(is_same) {
                Some(same) => Arc::clone(same),
                None => Arc::new(self.partition(&candidate, label, is_later)),
            };
            tree.topics.entry(candidate.partition.topic).or_default().push(partition);
        }
        for partitions in tree.topics.values_mut() {
            partitions.sort_by(|a, b| (a.name.partition, &a.label).cmp(&(b.name.partition, &b.label)));
        }
        tree
    }

    fn list_directory(&self, path: &Path, bounds: &Bounds, found: &mut Vec<Candidate>, tree: &mut Tree) {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Some(partitions) = tiered::partitions(&real) {
            return found.extend(partitions.into_iter().map(Candidate::of_store));
        }
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                let cause = format!("can't be listed: {error}");
                tree.notes.push(Problem::of_file(path, ProblemKind::Unreadable, cause));
                tree.unlisted.push((path.to_owned(), error.kind()));
                return;
            }
        };
        let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for (name, classified) in names.iter().zip(self.classify_all(path, &names, bounds)) {
            let path = path.join(name);
            match classified {
                Ok(candidates) => found.extend(candidates),
                Err(Odd { kind, cause, unlisted }) => {
                    tree.notes.push(Problem::of_file(&path, kind, cause));
                    tree.unlisted.extend(unlisted.map(|kind| (path, kind)));
                }
            }
        }
    }

    /// What [`Self::classify`] says of each name. From a cold disk many are asked about at once, which takes it half the time.
    fn classify_all(
        &self,
        path: &Path,
        names: &[OsString],
        bounds: &Bounds,
    ) -> Vec<Result<Vec<Candidate>, Odd>> {
        let classify = |names: &[OsString]| -> Vec<_> {
            names.iter().map(|name| self.classify(&path.join(name), bounds)).collect()
        };
        if names.len() < WORTH_THREADS {
            return classify(names);
        }
        let parts: Vec<_> = names.chunks(names.len().div_ceil(LISTING_THREADS)).collect();
        std::thread::scope(|scope| {
            let begin = |part| std::thread::Builder::new().spawn_scoped(scope, move || classify(part)).ok();
            let threads: Vec<_> = parts.iter().map(|part| (*part, begin(part))).collect();
            // Where there is no thread to be had, or one has died, this one does it.
            let end = |(part, thread): (&[OsString], Option<std::thread::ScopedJoinHandle<'_, _>>)| {
                thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| classify(part))
            };
            threads.into_iter().flat_map(end).collect()
        })
    }

    /// The partition that `path` is, or those of a tiered store that it holds; none for files, which are no business
    /// of ours here; what is odd is an error with its kind and a text.
    fn classify(&self, path: &Path, bounds: &Bounds) -> Result<Vec<Candidate>, Odd> {
        let unreadable = |error: &io::Error| Odd {
            kind: ProblemKind::Unreadable,
            cause: format!("can't be listed: {error}"),
            unlisted: Some(error.kind()),
        };
        let foreign =
            |text: &str| Err(Odd { kind: ProblemKind::Foreign, cause: text.to_owned(), unlisted: None });
        let meta = std::fs::symlink_metadata(path).map_err(|error| unreadable(&error))?;
        let is_link = meta.is_symlink();
        let meta = if is_link { std::fs::metadata(path).unwrap_or(meta) } else { meta };
        if !meta.is_dir() {
            return if meta.is_file() {
                Ok(Vec::new())
            } else {
                foreign("neither a directory nor a file: ignored")
            };
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name == names::REMOTE_INDEX_CACHE {
            return Ok(Vec::new());
        }
        let candidates = match PartitionDir::parse(name) {
            Some(dir) => Some(vec![Candidate::of_broker(dir, path, FileId::of(&meta), bounds)]),
            None => tiered::partitions(path)
                .map(|found| found.into_iter().map(Candidate::of_store).collect::<Vec<_>>()),
        };
        let Some(candidates) = candidates else {
            return foreign("not a partition directory (TOPIC-N): ignored; a broker would refuse to start");
        };
        if is_link && !self.options.follow_symlinks {
            return foreign("a symbolic link: ignored without follow_symlinks");
        }
        if !is_surely_listable(&meta)
            && let Err(error) = std::fs::read_dir(path)
        {
            return Err(unreadable(&error));
        }
        Ok(candidates)
    }
}

/// Whether a directory is ours, and lets its owner read it: then nobody need try.
fn is_surely_listable(meta: &Metadata) -> bool {
    const OWNER_MAY_LIST: u32 = 0o500;
    meta.uid() == files::sys::effective_uid() && meta.mode() & OWNER_MAY_LIST == OWNER_MAY_LIST
}

/// Clusters that the data directories say they belong to; more than one is worth a warning.
fn note_cluster_ids(roots: &[Root], notes: &mut Vec<Problem>) {
    let mut first: Option<(String, PathBuf)> = None;
    for root in roots {
        let Root::DataDirectory { path, .. } = root else { continue };
        let path = path.join(names::META_PROPERTIES);
        let Ok(bytes) = files::read_small(&path, MAX_PROPERTIES_BYTES) else { continue };
        // What is wrong with the file itself, `verify` tells.
        let id = Properties::parse(&bytes).ok().and_then(|meta| meta.get("cluster.id").map(str::to_owned));
        match (&first, id) {
            (None, Some(id)) => first = Some((id, path)),
            (Some((one, at)), Some(id)) if *one != id => {
                let cause =
                    format!("cluster.id is {id}, that of {} is {one}: two clusters' data", at.display());
                notes.push(Problem::of_file(&path, ProblemKind::Cluster, cause));
            }
            _ => {}
        }
    }
}

/// A label that no other partition of the topic has: a second leftover gets its id's first characters, the same
/// partition in another data directory `.source-2`.
fn free_label(candidate: &Candidate, used: &mut HashSet<(String, String)>) -> String {
    let topic = &candidate.partition.topic;
    let plain = candidate.label.clone();
    if used.insert((topic.clone(), plain.clone())) {
        return plain;
    }
    if let Some(id) = &candidate.id {
        let label = format!("{plain}-{}", id.chars().take(8).collect::<String>());
        if used.insert((topic.clone(), label.clone())) {
            return label;
        }
    }
    let mut number = 2;
    loop {
        let label = format!("{plain}.source-{number}");
        if used.insert((topic.clone(), label.clone())) {
            return label;
        }
        number += 1;
    }
}
