//! What the user named as SOURCE, as a tree of topics and partitions.
//!
//! | SOURCE | is |
//! |---|---|
//! | `DIR` | a data directory, one entry of `log.dirs` |
//! | `DIR,DIR,..` | several of them (JBOD) |
//! | `FILE.properties` | a broker's configuration, whose `log.dirs` (or `log.dir`) is used |
//! | `TOPIC-N/` | one partition directory |
//! | `TOPIC-N/00000000000000000000.log` | one segment |

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crate::format::batch::Limits;
use crate::format::names::{self, Kind, PartitionDir};
use crate::format::properties::Properties;
use crate::log::LogError;
use crate::log::checkpoints::CheckpointFile;
use crate::log::files::{self, FileId, FilePool};
use crate::log::partition::{Bounds, Origin, Partition};
use crate::log::segment::base_of_name;
use crate::units::TopicPartition;

/// Descriptors kept open at most.
const OPEN_FILES: usize = 256;
/// The largest properties file that is read.
const MAX_PROPERTIES_BYTES: u64 = 1024 * 1024;
/// A directory whose time is younger than this may have changed since without a change of its time.
pub(crate) const TIME_GRAIN: Duration = Duration::from_millis(20);

/// A source: data directories, a partition or a segment.
#[derive(Debug)]
pub struct Source {
    /// As the user wrote it.
    pub spec: String,
    roots: Vec<Root>,
    pool: Arc<FilePool>,
    options: SourceOptions,
    listed: RwLock<Option<Listed>>,
}

/// How a source is read.
#[derive(Debug, Clone, Copy)]
pub struct SourceOptions {
    /// How much memory one batch may cost.
    pub limits: Limits,
    /// Whether partition directories may be symbolic links.
    pub follow_symlinks: bool,
}

/// One thing that SOURCE named.
#[derive(Debug)]
enum Root {
    DataDirectory { path: PathBuf, bounds: Bounds },
    Single(Arc<Partition>),
}

/// All topics at one moment.
#[derive(Debug, Default)]
pub struct Tree {
    /// Topics by name, their partitions in the order of their numbers.
    pub topics: BTreeMap<String, Vec<Arc<Partition>>>,
    /// What is odd about the data directories.
    pub notes: Vec<Note>,
}

impl Tree {
    /// The partition of `topic` with `label`.
    pub fn partition(&self, topic: &str, label: &str) -> Option<&Arc<Partition>> {
        self.topics.get(topic)?.iter().find(|partition| partition.label == label)
    }
}

/// Something in a data directory that is worth telling, and hinders nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Which file or directory.
    pub path: PathBuf,
    /// What about it.
    pub text: String,
}

/// A tree, and the states of the directories that it was made from.
#[derive(Debug)]
struct Listed {
    tree: Arc<Tree>,
    states: Vec<Option<(FileId, SystemTime)>>,
    at: Instant,
    settled: bool,
}

/// A partition directory found in a data directory.
struct Candidate {
    dir: PartitionDir,
    path: PathBuf,
    bounds: Bounds,
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
            let reason = "SOURCE is empty: name a data directory, as in log.dirs".to_owned();
            return Err(LogError::NotASource { path: PathBuf::from(spec), reason });
        }
        let several = paths.len() > 1;
        let mut roots = Vec::with_capacity(paths.len());
        for path in paths {
            roots.push(Root::open(path, several, &pool, options)?);
        }
        Ok(Self { spec: spec.to_owned(), roots, pool, options, listed: RwLock::new(None) })
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

    /// The topics and partitions as they are now.
    pub fn tree(&self) -> Arc<Tree> {
        let states: Vec<_> = self.roots.iter().map(Root::state).collect();
        let listed = self.listed.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(listed) = &*listed {
            let fresh = listed.settled || listed.at.elapsed() < TIME_GRAIN;
            if fresh && listed.states == states {
                return listed.tree.clone();
            }
        }
        let old = listed.as_ref().map(|listed| listed.tree.clone());
        drop(listed);
        let settled =
            states.iter().flatten().all(|(_, time)| time.elapsed().is_ok_and(|age| age > TIME_GRAIN));
        let tree = Arc::new(self.list(old.as_deref()));
        retire_gone(old.as_deref(), &tree);
        *self.listed.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Listed { tree: tree.clone(), states, at: Instant::now(), settled });
        tree
    }

    /// Closes descriptors that nobody used for a while.
    pub fn close_idle(&self, idle: Duration) {
        self.pool.expire(idle);
    }

    fn list(&self, old: Option<&Tree>) -> Tree {
        let mut tree = Tree::default();
        let mut known: HashMap<&Path, &Arc<Partition>> = HashMap::new();
        for partition in old.into_iter().flat_map(|tree| tree.topics.values().flatten()) {
            known.insert(partition.origin.path(), partition);
        }
        let mut used: HashSet<(String, String)> = HashSet::new();
        let mut candidates = Vec::new();
        for root in &self.roots {
            match root {
                Root::DataDirectory { path, bounds } => {
                    self.list_directory(path, bounds, &mut candidates, &mut tree.notes);
                }
                Root::Single(partition) => {
                    tree.topics.entry(partition.name.topic.clone()).or_default().push(partition.clone());
                }
            }
        }
        note_cluster_ids(&self.roots, &mut tree.notes);
        for candidate in candidates {
            let label = free_label(&candidate, &mut used);
            let same = known.get(candidate.path.as_path()).filter(|old| old.label == label);
            let partition = match same {
                Some(same) => Arc::clone(same),
                None => Arc::new(Partition::new(
                    candidate.dir.partition.clone(),
                    label,
                    Origin::Directory(candidate.path),
                    candidate.bounds,
                    self.pool.clone(),
                    self.options.limits,
                )),
            };
            tree.topics.entry(candidate.dir.partition.topic).or_default().push(partition);
        }
        for partitions in tree.topics.values_mut() {
            partitions.sort_by(|a, b| (a.name.partition, &a.label).cmp(&(b.name.partition, &b.label)));
        }
        tree
    }

    fn list_directory(
        &self,
        path: &Path,
        bounds: &Bounds,
        found: &mut Vec<Candidate>,
        notes: &mut Vec<Note>,
    ) {
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                notes.push(Note { path: path.to_owned(), text: format!("can't be listed: {error}") });
                return;
            }
        };
        let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names {
            let path = path.join(&name);
            match self.classify(&path) {
                Ok(None) => {}
                Ok(Some(dir)) => {
                    // The checkpoints speak of the partition itself, not of its leftovers.
                    let bounds = if dir.kind == Kind::Current { bounds.clone() } else { Bounds::default() };
                    found.push(Candidate { dir, path, bounds });
                }
                Err(text) => notes.push(Note { path, text }),
            }
        }
        for file in [&bounds.log_start, &bounds.high_watermark].into_iter().flatten() {
            if let Some(text) = file.problem() {
                notes.push(Note { path: file.path.clone(), text });
            }
        }
    }

    /// Whether `path` is a partition directory; `None` for files, which are no business
    /// of ours here; an error text for what is odd.
    fn classify(&self, path: &Path) -> Result<Option<PartitionDir>, String> {
        let meta = std::fs::symlink_metadata(path).map_err(|error| error.to_string())?;
        let is_link = meta.is_symlink();
        let is_dir =
            if is_link { std::fs::metadata(path).is_ok_and(|meta| meta.is_dir()) } else { meta.is_dir() };
        if !is_dir {
            return if meta.is_file() {
                Ok(None)
            } else {
                Err("neither a directory nor a file: ignored".to_owned())
            };
        }
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name == names::REMOTE_INDEX_CACHE {
            return Ok(None);
        }
        let Some(dir) = PartitionDir::parse(name) else {
            return Err(
                "not a partition directory (TOPIC-N): ignored; a broker would refuse to start".to_owned()
            );
        };
        if is_link && !self.options.follow_symlinks {
            return Err("a symbolic link: ignored without follow_symlinks".to_owned());
        }
        if let Err(error) = std::fs::read_dir(path) {
            return Err(format!("can't be listed: {error}"));
        }
        Ok(Some(dir))
    }
}

impl Root {
    fn open(
        path: PathBuf,
        several: bool,
        pool: &Arc<FilePool>,
        options: SourceOptions,
    ) -> Result<Self, LogError> {
        let meta = std::fs::metadata(&path).map_err(|source| not_openable(&path, &source))?;
        if meta.is_file() {
            return open_segment(path, pool, options);
        }
        if !meta.is_dir() {
            return Err(not_a_source(&path, "neither a directory nor a file"));
        }
        let listing = Listing::of(&path)?;
        if listing.segments > 0 && listing.partitions == 0 {
            if several {
                return Err(not_a_source(
                    &path,
                    "a partition directory can't be one of several; name it alone",
                ));
            }
            check_not_text(&path, &listing)?;
            return Ok(Self::Single(Arc::new(single(Origin::Directory(path.clone()), &path, pool, options))));
        }
        listing.check_data_directory(&path)?;
        let checkpoint = |name: &str| Some(Arc::new(CheckpointFile::new(path.join(name))));
        let bounds = Bounds {
            log_start: checkpoint(names::LOG_STARTS),
            high_watermark: checkpoint(names::HIGH_WATERMARKS),
        };
        Ok(Self::DataDirectory { path, bounds })
    }

    fn path(&self) -> &Path {
        match self {
            Self::DataDirectory { path, .. } => path,
            Self::Single(partition) => partition.origin.path(),
        }
    }

    fn state(&self) -> Option<(FileId, SystemTime)> {
        let meta = std::fs::metadata(self.path()).ok()?;
        let time = if meta.is_dir() { meta.modified().ok()? } else { SystemTime::UNIX_EPOCH };
        Some((FileId::of(&meta), time))
    }
}

/// What is in a directory, counted to tell what it is.
#[derive(Debug, Default)]
struct Listing {
    segments: u64,
    partitions: u64,
    logs: u64,
    broker_files: u64,
    others: u64,
    first_segment: Option<PathBuf>,
}

impl Listing {
    fn of(path: &Path) -> Result<Self, LogError> {
        let mut listing = Self::default();
        let entries = std::fs::read_dir(path).map_err(|source| not_openable(path, &source))?;
        for entry in entries.flatten() {
            let file = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if base_of_name(&file).is_some() {
                listing.segments += 1;
                listing.first_segment = listing.first_segment.filter(|first| *first < file).or(Some(file));
            } else if PartitionDir::parse(&name).is_some() && file.is_dir() {
                listing.partitions += 1;
            } else if name.ends_with(".log") {
                listing.logs += 1;
            } else if is_broker_file(&name) {
                listing.broker_files += 1;
            } else {
                listing.others += 1;
            }
        }
        Ok(listing)
    }

    fn check_data_directory(&self, path: &Path) -> Result<(), LogError> {
        if self.partitions > 0 || self.broker_files > 0 {
            return Ok(());
        }
        let reason = if self.logs > 0 {
            "holds .log files, but none with a segment's name (20 digits) and no TOPIC-N directories: \
             this is no Kafka data directory"
        } else if self.others > 0 {
            "holds no TOPIC-N directories and no segments: this is no Kafka data directory"
        } else {
            "is empty: name a Kafka data directory, a TOPIC-N directory, a segment file or a server.properties"
        };
        Err(not_a_source(path, reason))
    }
}

/// A partition or segment that was named by itself: what it is called is guessed from its names.
fn single(origin: Origin, directory: &Path, pool: &Arc<FilePool>, options: SourceOptions) -> Partition {
    let real = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let dir_name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let dir = PartitionDir::parse(&dir_name).unwrap_or_else(|| PartitionDir {
        partition: TopicPartition { topic: safe_topic(&dir_name), partition: 0 },
        kind: Kind::Current,
    });
    let mut bounds = Bounds::default();
    if let (Kind::Current, Some(parent)) = (&dir.kind, real.parent()) {
        // The directory around it may be the data directory that it lives in.
        let start = parent.join(names::LOG_STARTS);
        bounds.log_start = start.is_file().then(|| Arc::new(CheckpointFile::new(start)));
        let mark = parent.join(names::HIGH_WATERMARKS);
        bounds.high_watermark = mark.is_file().then(|| Arc::new(CheckpointFile::new(mark)));
    }
    let label = label_of(&dir);
    Partition::new(dir.partition, label, origin, bounds, pool.clone(), options.limits)
}

fn open_segment(path: PathBuf, pool: &Arc<FilePool>, options: SourceOptions) -> Result<Root, LogError> {
    let head = files::open(&path).and_then(|file| {
        let mut bytes = [0; 64];
        let read = files::read_full(&file, &mut bytes, 0)?;
        Ok(bytes[..read].to_vec())
    });
    let head = head.map_err(|source| not_openable(&path, &source))?;
    if path.extension().is_none_or(|extension| extension != "log") {
        return Err(not_a_source(&path, "a file as SOURCE is a segment (.log) or a server.properties"));
    }
    if looks_like_text(&head) {
        return Err(not_a_source(&path, "this is a text file, no Kafka segment"));
    }
    let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
    let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
    Ok(Root::Single(Arc::new(single(Origin::File(path), &directory, pool, options))))
}

/// Refuses a directory whose first segment is a text file.
fn check_not_text(path: &Path, listing: &Listing) -> Result<(), LogError> {
    let Some(first) = &listing.first_segment else { return Ok(()) };
    let mut head = [0; 64];
    let read = files::open(first).and_then(|file| files::read_full(&file, &mut head, 0)).unwrap_or(0);
    if looks_like_text(&head[..read]) {
        return Err(not_a_source(path, "its .log files are text, no Kafka segments"));
    }
    Ok(())
}

/// Whether a name is that of a file that brokers keep beside their partitions.
fn is_broker_file(name: &str) -> bool {
    [
        names::META_PROPERTIES,
        names::CLEAN_SHUTDOWN,
        names::RECOVERY_POINTS,
        names::HIGH_WATERMARKS,
        names::LOG_STARTS,
        names::CLEANER_OFFSETS,
        names::BOOTSTRAP_CHECKPOINT,
    ]
    .contains(&name)
}

/// Whether these first bytes can't be a segment's: an offset that is printable has eight printable bytes.
fn looks_like_text(head: &[u8]) -> bool {
    head.len() >= 8 && head.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace())
}

/// The parts of SOURCE between its commas; a path that exists as written is one part.
fn split_spec(spec: &str) -> Vec<String> {
    if Path::new(spec).exists() {
        return vec![spec.to_owned()];
    }
    spec.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Adds what `part` stands for: itself, or the `log.dirs` of a properties file.
fn expand(part: &str, paths: &mut Vec<PathBuf>) -> Result<(), LogError> {
    let path = Path::new(part);
    if !(path.extension().is_some_and(|extension| extension == "properties") && path.is_file()) {
        paths.push(path.to_owned());
        return Ok(());
    }
    let bytes =
        files::read_small(path, MAX_PROPERTIES_BYTES).map_err(|source| not_openable(path, &source))?;
    let properties = Properties::parse(&bytes).map_err(|error| not_a_source(path, &error.to_string()))?;
    let Some(dirs) = properties.get("log.dirs").or_else(|| properties.get("log.dir")) else {
        return Err(not_a_source(path, "names neither log.dirs nor log.dir"));
    };
    paths.extend(dirs.split(',').map(str::trim).filter(|dir| !dir.is_empty()).map(PathBuf::from));
    Ok(())
}

/// Clusters that the data directories say they belong to; more than one is worth a warning.
fn note_cluster_ids(roots: &[Root], notes: &mut Vec<Note>) {
    let mut first: Option<(String, PathBuf)> = None;
    for root in roots {
        let Root::DataDirectory { path, .. } = root else { continue };
        let path = path.join(names::META_PROPERTIES);
        let Ok(bytes) = files::read_small(&path, MAX_PROPERTIES_BYTES) else { continue };
        let id = match Properties::parse(&bytes) {
            Ok(properties) => properties.get("cluster.id").map(str::to_owned),
            Err(error) => {
                notes.push(Note { path, text: error.to_string() });
                continue;
            }
        };
        match (&first, id) {
            (None, Some(id)) => first = Some((id, path)),
            (Some((one, at)), Some(id)) if *one != id => {
                let text =
                    format!("cluster.id is {id}, that of {} is {one}: two clusters' data", at.display());
                notes.push(Note { path, text });
            }
            _ => {}
        }
    }
}

fn label_of(dir: &PartitionDir) -> String {
    let number = dir.partition.partition;
    match &dir.kind {
        Kind::Current => number.to_string(),
        Kind::Delete { .. } => format!("{number}.delete"),
        Kind::Future { .. } => format!("{number}.future"),
        Kind::Stray { .. } => format!("{number}.stray"),
    }
}

/// A label that no other partition of the topic has: a second leftover gets its id's first characters, the same
/// partition in another data directory `.source-2`.
fn free_label(candidate: &Candidate, used: &mut HashSet<(String, String)>) -> String {
    let topic = &candidate.dir.partition.topic;
    let plain = label_of(&candidate.dir);
    if used.insert((topic.clone(), plain.clone())) {
        return plain;
    }
    if let Kind::Delete { id } | Kind::Future { id } | Kind::Stray { id } = &candidate.dir.kind {
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

fn safe_topic(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    if safe.is_empty() || safe == "." || safe == ".." { "segment".to_owned() } else { safe }
}

fn not_a_source(path: &Path, reason: &str) -> LogError {
    LogError::NotASource { path: path.to_owned(), reason: reason.to_owned() }
}

fn not_openable(path: &Path, source: &std::io::Error) -> LogError {
    let reason = match source.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => {
            "permission denied: mount as the broker's user or as root, or give this user read access"
                .to_owned()
        }
        _ => source.to_string(),
    };
    LogError::NotASource { path: path.to_owned(), reason }
}
