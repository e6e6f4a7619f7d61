//! What each part of SOURCE is, and why some are none.
//!
//! | SOURCE | is |
//! |---|---|
//! | `DIR` | a data directory, one entry of `log.dirs` |
//! | `DIR,DIR,..` | several of them (JBOD) |
//! | `FILE.properties` | a broker's configuration, whose `log.dirs` (or `log.dir`) is used |
//! | a directory of a tiered store | the partitions in it, see [`tiered`] |
//! | `TOPIC-N/` | one partition directory |
//! | `TOPIC-N/00000000000000000000.log` | one segment, also under another name and compressed |

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::format::names::{self, Kind, PartitionDir, RemoteIndexFile, SegmentFile};
use crate::format::properties::Properties;
use crate::log::LogError;
use crate::log::files::unpacked;
use crate::log::files::{self, FileId, FilePool};
use crate::log::partition::{Bounds, Origin, Partition};
use crate::log::segment::base_of_name;
use crate::log::segment::heads::{self, head_of, looks_like_text};
use crate::log::source::SourceOptions;
use crate::log::source::archived::ArchivedName;
use crate::log::source::checkpoints::CheckpointFile;
use crate::log::source::tiered;
use crate::units::TopicPartition;

/// The largest properties file that is read.
pub(in crate::log) const MAX_PROPERTIES_BYTES: u64 = 1024 * 1024;

/// One thing that SOURCE named.
#[derive(Debug)]
pub(in crate::log) enum Root {
    DataDirectory { path: PathBuf, bounds: Bounds },
    Single(Arc<Partition>),
}

impl Root {
    pub(in crate::log) fn open(
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
        let store = path.join(names::TIERED_STORE);
        if listing.partitions == 0 && listing.segments == 0 && store.is_dir() {
            return Self::open(store, several, pool, options);
        }
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

    pub(in crate::log) fn path(&self) -> &Path {
        match self {
            Self::DataDirectory { path, .. } => path,
            Self::Single(partition) => partition.origin.path(),
        }
    }
}

/// The data directories that `spec` names, for those who want to write to them. One that is empty is one, too.
///
/// # Errors
/// Why one of them is none.
pub fn data_directories(spec: &str) -> Result<Vec<PathBuf>, LogError> {
    let mut paths = Vec::new();
    split_spec(spec).iter().try_for_each(|part| expand(part, &mut paths))?;
    for path in &paths {
        let listing = Listing::of(path)?;
        if listing.segments > 0 && listing.partitions == 0 {
            let reason = "is a partition; only a whole data directory can be written to, since its lock and checkpoints are its own";
            return Err(not_a_source(path, reason));
        }
        if !listing.is_empty() {
            listing.check_data_directory(path)?;
        }
    }
    Ok(paths)
}

/// What of a directory changes when something in it comes or goes, and when its rights change.
pub(in crate::log) fn state_of(path: &Path) -> Option<(FileId, SystemTime)> {
    let meta = std::fs::metadata(path).ok()?;
    let time = if meta.is_dir() { files::changed(&meta) } else { SystemTime::UNIX_EPOCH };
    Some((FileId::of(&meta), time))
}

/// What is in a directory, counted to tell what it is.
#[derive(Debug, Default)]
struct Listing {
    segments: u64,
    partitions: u64,
    logs: u64,
    broker_files: u64,
    cached_indexes: u64,
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
            if base_of_name(&file).is_some() || ArchivedName::parse(&name).is_some() {
                listing.segments += 1;
                listing.first_segment = listing.first_segment.filter(|first| *first < file).or(Some(file));
            } else if listing.partitions > 0 && PartitionDir::parse(&name).is_some() {
                // One that is known for one is enough: a broker has thousands, and to look into them takes long from a cold disk.
                listing.partitions += 1;
            } else if PartitionDir::parse(&name).is_some() && holds_log(&file)
                || tiered::partitions(&file).is_some_and(|found| !found.is_empty())
            {
                listing.partitions += 1;
            } else if RemoteIndexFile::parse(&name).is_some() {
                listing.cached_indexes += 1;
            } else if name.ends_with(".log") {
                listing.logs += 1;
            } else if is_broker_file(&name) {
                listing.broker_files += 1;
            } else {
                listing.others += 1;
            }
        }
        if tiered::partitions(&real(path))
            .is_some_and(|found| found.iter().any(|found| found.path != real(path)))
        {
            listing.partitions += 1;
        }
        Ok(listing)
    }

    const fn is_empty(&self) -> bool {
        let Self { segments, partitions, logs, broker_files, cached_indexes, others, .. } = self;
        *segments + *partitions + *logs + *broker_files + *cached_indexes + *others == 0
    }

    fn check_data_directory(&self, path: &Path) -> Result<(), LogError> {
        if self.partitions > 0 || self.broker_files > 0 {
            return Ok(());
        }
        let reason = if self.cached_indexes > 0 {
            "holds a broker's copies of the indexes of tiered segments: name the store that has the segments"
        } else if self.logs > 0 {
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

/// A path without links, as far as there is one.
fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A partition or segment that was named by itself: what it is called is guessed from its names.
fn single(origin: Origin, directory: &Path, pool: &Arc<FilePool>, options: SourceOptions) -> Partition {
    let real = real(directory);
    let dir_name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let tiered = tiered::of_directory(&real).map(|tiered| tiered.partition);
    let is_tiered = tiered.is_some();
    let dir = PartitionDir::parse(&dir_name).unwrap_or_else(|| PartitionDir {
        partition: tiered.unwrap_or_else(|| TopicPartition { topic: safe_topic(&dir_name), partition: 0 }),
        kind: Kind::Current,
    });
    let mut bounds = Bounds::default();
    if let (Kind::Current, Some(parent), false) = (&dir.kind, real.parent(), is_tiered) {
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
    let openable = |error| not_openable(&path, &error);
    let head = head_of(&path).map_err(openable)?;
    let head = match heads::packing_of(&head) {
        Some(packing) => unpacked::head(&path, packing, heads::HEAD_LEN as u64).map_err(openable)?,
        None => head,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !is_called_log(&name) && !heads::looks_like_batch(&head, options.limits) {
        let reason = "a file as SOURCE is a segment (.log) or a server.properties, and this one neither has such a name \
                      nor begins with a record batch";
        return Err(not_a_source(&path, reason));
    }
    if looks_like_text(&head) {
        return Err(not_a_source(&path, "this is a text file, no Kafka segment"));
    }
    let directory = path.parent().unwrap_or(Path::new(".")).to_owned();
    let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
    Ok(Root::Single(Arc::new(single(Origin::File(path), &directory, pool, options))))
}

/// Whether `.log` is in a name, also where people and tools have put something behind it: `X.log.bak`, `X.log (1)`.
fn is_called_log(name: &str) -> bool {
    let mut rests = name.match_indices(".log").filter_map(|(at, found)| name.get(at + found.len()..));
    rests.any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
}

/// Refuses a directory whose first segment is a text file.
fn check_not_text(path: &Path, listing: &Listing) -> Result<(), LogError> {
    let Some(first) = &listing.first_segment else { return Ok(()) };
    let head = head_of(first).unwrap_or_default();
    if heads::packing_of(&head).is_none() && looks_like_text(&head) {
        return Err(not_a_source(path, "its .log files are text, no Kafka segments"));
    }
    Ok(())
}

/// Whether a directory has something of a partition in it; other directories too may have a name like `dbus-1`.
fn holds_log(directory: &Path) -> bool {
    let is_kafkas = |name: &str| {
        SegmentFile::parse(name).is_some()
            || ArchivedName::parse(name).is_some()
            || [names::LEADER_EPOCHS, names::PARTITION_METADATA].contains(&name)
    };
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_str().is_some_and(is_kafkas))
}

/// Whether a name is that of a file that brokers keep beside their partitions.
fn is_broker_file(name: &str) -> bool {
    [
        names::LOCK,
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

/// The parts of SOURCE between its commas; a path that exists as written is one part.
pub(in crate::log) fn split_spec(spec: &str) -> Vec<String> {
    if Path::new(spec).exists() {
        return vec![spec.to_owned()];
    }
    spec.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The broker's configuration that `part` is, if it is one.
pub(in crate::log) fn properties_of(part: &str) -> Option<Result<Properties, LogError>> {
    let path = Path::new(part);
    if !(path.extension().is_some_and(|extension| extension == "properties") && path.is_file()) {
        return None;
    }
    let bytes = files::read_small(path, MAX_PROPERTIES_BYTES).map_err(|source| not_openable(path, &source));
    let parse =
        |bytes: Vec<u8>| Properties::parse(&bytes).map_err(|error| not_a_source(path, &error.to_string()));
    Some(bytes.and_then(parse))
}

/// The `log.dirs` of a broker's configuration.
pub(in crate::log) fn data_directories_of(properties: &Properties) -> impl Iterator<Item = PathBuf> {
    let dirs = properties.get("log.dirs").or_else(|| properties.get("log.dir")).unwrap_or_default();
    dirs.split(',').map(str::trim).filter(|dir| !dir.is_empty()).map(PathBuf::from)
}

/// Adds what `part` stands for: itself, or the `log.dirs` of a properties file.
pub(in crate::log) fn expand(part: &str, paths: &mut Vec<PathBuf>) -> Result<(), LogError> {
    let path = Path::new(part);
    let Some(properties) = properties_of(part).transpose()? else {
        paths.push(path.to_owned());
        return Ok(());
    };
    if properties.get("log.dirs").or_else(|| properties.get("log.dir")).is_none() {
        return Err(not_a_source(path, "names neither log.dirs nor log.dir"));
    }
    paths.extend(data_directories_of(&properties));
    Ok(())
}

fn safe_topic(name: &str) -> String {
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' }).collect();
    if safe.is_empty() || safe == "." || safe == ".." { "segment".to_owned() } else { safe }
}

pub(in crate::log) fn not_a_source(path: &Path, reason: &str) -> LogError {
    LogError::NotASource { path: path.to_owned(), reason: reason.to_owned() }
}

pub(in crate::log) fn not_openable(path: &Path, source: &std::io::Error) -> LogError {
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

pub(in crate::log) fn label_of(dir: &PartitionDir) -> String {
    let number = dir.partition.partition;
    match &dir.kind {
        Kind::Current => number.to_string(),
        Kind::Delete { .. } => format!("{number}.delete"),
        Kind::Future { .. } => format!("{number}.future"),
        Kind::Stray { .. } => format!("{number}.stray"),
    }
}
