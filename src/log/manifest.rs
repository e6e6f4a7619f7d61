//! What each file of a source is: checksum, size, time, and of segments what is in them.
//!
//! [`list`] walks a path and says which files there are, in a fixed order; [`examine`] reads one of them, each byte once.
//! Nothing is left out: what can't be read, and what isn't Kafka's, has its entry too. Links are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::format::batch::{Batch, BatchError, Decoder, Limits};
use crate::format::file_kind::FileKind;
use crate::format::names::{FileState, PackedSegment, Packing};
use crate::log::LogError;
use crate::log::files::hashing::{HashedFile, Sum};
use crate::log::files::unpacked::UnpackedFiles;
use crate::log::files::{self, FileId, ReadAt};
use crate::log::segment::heads;
use crate::log::segment::scan::{Damage, Scanner, Start, Step, Tail};
use crate::log::source::roots;
use crate::units::{LeaderEpoch, Offset, Position, ProducerId, Timestamp};

/// Distinct producer ids and leader epochs counted in one file.
const MAX_DISTINCT: usize = 65_536;

/// A file that is to be examined.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its path, beginning with what was named.
    pub path: PathBuf,
    /// What its name says that it is.
    pub kind: FileKind,
    /// Its size when it was listed.
    pub len: u64,
    /// The base offset of the live segment behind it.
    below: Offset,
    /// Why it can't be examined, as a directory that can't be listed.
    trouble: Option<String>,
}

impl Item {
    fn packing(&self) -> Option<Packing> {
        PackedSegment::parse(name_of(&self.path)).map(|packed| packed.packing)
    }
}

/// What was found out about a file.
#[derive(Debug)]
pub struct Entry {
    /// Its path.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// The bytes that were hashed.
    pub len: u64,
    /// When it was last written to: seconds and nanoseconds since 1970; `None` when that can't be told.
    pub modified: Option<(i64, u32)>,
    /// Its checksum; `None` for links and special files, and for what could not be read.
    pub sha256: Option<Sum>,
    /// What is in it, if it is a segment.
    pub contents: Option<Contents>,
    /// Why it could not be read.
    pub error: Option<String>,
}

impl Entry {
    /// Whether all of it was read and nothing in it is damaged.
    pub fn is_sound(&self) -> bool {
        self.error.is_none() && self.contents.as_ref().is_none_or(|contents| contents.damage.is_none())
    }
}

/// What is in a segment: the batches that are sound, with all of their records.
#[derive(Debug, Default)]
pub struct Contents {
    /// The first offset of the first batch and the last one of the last.
    pub offsets: Option<(Offset, Offset)>,
    /// The timestamp of the first record that has one.
    pub first_timestamp: Option<Timestamp>,
    /// The largest timestamp of all records.
    pub max_timestamp: Option<Timestamp>,
    /// Records, without control records.
    pub records: u64,
    /// Control records: transaction markers, and those of KRaft.
    pub control_records: u64,
    /// Batches by magic.
    pub magics: BTreeMap<u8, u64>,
    /// Batches by codec.
    pub codecs: BTreeMap<&'static str, u64>,
    /// Producer ids.
    pub producers: Distinct<ProducerId>,
    /// Leader epochs.
    pub epochs: Distinct<LeaderEpoch>,
    /// What is not sound, if anything.
    pub damage: Option<DamageSummary>,
    /// How it ends.
    pub tail: Option<Tail>,
}

/// All damage in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamageSummary {
    /// Where the first begins.
    pub first: Position,
    /// What is wrong there.
    pub cause: String,
    /// In how many places there is some.
    pub places: u64,
    /// The bytes of all of them.
    pub bytes: u64,
}

/// Distinct values, so many that memory stays bounded.
#[derive(Debug)]
pub struct Distinct<T> {
    /// The values, in order.
    pub values: BTreeSet<T>,
    /// Whether there are more than were kept.
    pub has_more: bool,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { values: BTreeSet::new(), has_more: false }
    }
}

impl<T: Ord> Distinct<T> {
    fn add(&mut self, value: Option<T>) {
        let Some(value) = value else { return };
        if self.values.len() < MAX_DISTINCT {
            self.values.insert(value);
        } else if !self.values.contains(&value) {
            self.has_more = true;
        }
    }
}

/// The paths that a SOURCE stands for, which may be any file or directory.
///
/// # Errors
/// [`LogError::NotASource`] for one that isn't there, or a properties file without any.
pub fn paths(spec: &str) -> Result<Vec<PathBuf>, LogError> {
    let mut paths = Vec::new();
    for part in roots::split_spec(spec) {
        roots::expand(&part, &mut paths)?;
    }
    for path in &paths {
        std::fs::metadata(path).map_err(|error| roots::not_openable(path, &error))?;
    }
    if paths.is_empty() { Err(roots::not_a_source(Path::new(spec), "SOURCE is empty")) } else { Ok(paths) }
}

/// All files at and below `path`, directory by directory, by name. Partition directories that are links are followed
/// where that is wanted.
pub fn list(path: &Path, links: Links) -> Vec<Item> {
    let mut items = Vec::new();
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => list_directory(path, links, &mut items),
        Ok(meta) => items.push(item(path, meta.len(), FileKind::of_name(name_of(path)))),
        Err(error) => items.push(troubled(path, &error)),
    }
    items
}

/// Whether directories right below a source may be symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// They are entries themselves.
    Listed,
    /// They are read.
    Followed,
}

fn list_directory(directory: &Path, links: Links, items: &mut Vec<Item>) {
    let names = std::fs::read_dir(directory).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<OsString>>>()
    });
    let mut names = match names {
        Ok(names) => names,
        Err(error) => return items.push(troubled(directory, &error)),
    };
    names.sort();
    let begun = items.len();
    for name in names {
        let path = directory.join(name);
        let meta = match std::fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            // Deleted by a broker since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                items.push(troubled(&path, &error));
                continue;
            }
        };
        let is_followed = meta.is_symlink() && links == Links::Followed && path.is_dir();
        if meta.is_dir() || is_followed {
            list_directory(&path, Links::Listed, items);
        } else if meta.is_symlink() {
            items.push(item(&path, 0, FileKind::live("symlink")));
        } else if meta.is_file() {
            items.push(item(&path, meta.len(), FileKind::of_name(name_of(&path))));
        } else {
            items.push(item(&path, 0, FileKind::live("special")));
        }
    }
    set_bounds(directory, items.get_mut(begun..).unwrap_or_default());
}

/// Tells each live segment of a directory which one follows it.
fn set_bounds(directory: &Path, items: &mut [Item]) {
    let is_here = |item: &Item| item.path.parent() == Some(directory);
    let is_live = |item: &Item| item.kind.is_segment() && item.kind.state == FileState::Live && is_here(item);
    let bases: BTreeSet<Offset> =
        items.iter().filter(|item| is_live(item)).filter_map(|item| item.kind.base).collect();
    for item in items.iter_mut().filter(|item| is_live(item)) {
        let next = item.kind.base.and_then(|base| bases.range(base.next()..).next());
        item.below = next.copied().unwrap_or(Offset(i64::MAX));
    }
}

fn item(path: &Path, len: u64, kind: FileKind) -> Item {
    Item { path: path.to_owned(), kind, len, below: Offset(i64::MAX), trouble: None }
}

fn troubled(path: &Path, error: &io::Error) -> Item {
    Item { trouble: Some(error.to_string()), ..item(path, 0, FileKind::live("other")) }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// How much is found out of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Its checksum.
    Checksum,
    /// Also what is in it.
    Contents,
}

/// How files are examined.
#[derive(Debug, Clone, Copy)]
pub struct Examination<'a> {
    /// How much is found out.
    pub depth: Depth,
    /// How much memory one batch may cost.
    pub limits: Limits,
    /// Where compressed segments are unpacked.
    pub unpacked: &'a UnpackedFiles,
}

/// Reads a file; `progress` is told how many bytes more were read.
pub fn examine(item: &Item, how: Examination<'_>, progress: &dyn Fn(u64)) -> Entry {
    let mut entry = Entry {
        path: item.path.clone(),
        kind: item.kind,
        len: item.len,
        modified: modified(&item.path),
        sha256: None,
        contents: None,
        error: item.trouble.clone(),
    };
    if entry.error.is_some() || matches!(item.kind.word, "symlink" | "special") {
        return entry;
    }
    if let Err(error) = read(item, how, progress, &mut entry) {
        entry.error = Some(error.to_string());
    }
    entry
}

fn modified(path: &Path) -> Option<(i64, u32)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.mtime(), u32::try_from(meta.mtime_nsec()).ok()?))
}

fn read(item: &Item, how: Examination<'_>, progress: &dyn Fn(u64), entry: &mut Entry) -> io::Result<()> {
    let Examination { depth, limits, unpacked } = how;
    let file = files::open(&item.path)?;
    let meta = file.metadata()?;
    entry.len = meta.len();
    entry.modified = u32::try_from(meta.mtime_nsec()).ok().map(|nanos| (meta.mtime(), nanos));
    if item.kind.word == "other" && heads::begins_with_batch(&file, limits) {
        entry.kind.word = "renamed-segment";
    }
    let hashed = HashedFile::new(&file, entry.len, progress);
    if depth == Depth::Contents && matches!(entry.kind.word, "segment" | "renamed-segment") {
        entry.contents = Some(contents(&hashed, item, entry.len, limits)?);
    }
    entry.sha256 = Some(hashed.finish()?);
    if let Some(packing) = item.packing().filter(|_| depth == Depth::Contents) {
        entry.contents = Some(packed_contents(item, FileId::of(&meta), packing, limits, unpacked)?);
    }
    Ok(())
}

/// What is in the first `len` bytes of a segment.
fn contents(file: impl ReadAt, item: &Item, len: u64, limits: Limits) -> io::Result<Contents> {
    let expected = match item.kind.base {
        Some(base) if !heads::begins_below(&file, base) => base,
        _ => Offset(0),
    };
    let start = Start::new(Position(0), expected, item.below);
    let mut scanner = Scanner::new(file, len, start, limits);
    let mut decoder = Decoder::default();
    let mut contents = Contents::default();
    let tail = loop {
        match scanner.step()? {
            Step::Batch { position, batch } => contents.add(position, &batch, &mut decoder, limits),
            Step::Damage(damage) => contents.add_damage(damage.position, damage.len, damage.fault),
            Step::End(tail) => break tail,
        }
    };
    let is_active = item.kind.state == FileState::Live && item.below == Offset(i64::MAX);
    contents.end(tail, is_active && files::is_young(&item.path));
    Ok(contents)
}

/// What is in a compressed segment, as far as it can be unpacked.
fn packed_contents(
    item: &Item,
    id: FileId,
    packing: Packing,
    limits: Limits,
    unpacked: &UnpackedFiles,
) -> io::Result<Contents> {
    let file = unpacked.get(&item.path, id, packing)?;
    let len = file.metadata()?.len();
    let mut contents = contents(file, item, len, limits)?;
    if let Some(problem) = unpacked.problem(id) {
        contents.add_damage(Position(len), 0, problem);
    }
    unpacked.forget(id);
    Ok(contents)
}

/// What a batch's records tell.
#[derive(Default)]
struct Records {
    count: u64,
    first_offset: Option<Offset>,
    first_timestamp: Option<Timestamp>,
    max_timestamp: Option<Timestamp>,
}

impl Records {
    fn of(batch: &Batch<'_>, decoder: &mut Decoder, limits: Limits) -> Result<Self, BatchError> {
        let mut found = Self::default();
        for record in batch.records(decoder, &limits)? {
            let record = record?;
            let time = Some(record.timestamp).filter(|time| !time.is_none());
            found.count += 1;
            found.first_offset = found.first_offset.or(Some(record.offset));
            found.first_timestamp = found.first_timestamp.or(time);
            found.max_timestamp = found.max_timestamp.max(time);
        }
        Ok(found)
    }
}

impl Contents {
    /// All batches.
    pub fn batches(&self) -> u64 {
        self.magics.values().sum()
    }

    fn add(&mut self, position: Position, batch: &Batch<'_>, decoder: &mut Decoder, limits: Limits) {
        let header = &batch.header;
        let records = match Records::of(batch, decoder, limits) {
            Ok(records) => records,
            Err(error) => return self.add_damage(position, batch.bytes.len() as u64, error),
        };
        let first = header.base_offset.or(records.first_offset).unwrap_or(header.last_offset);
        let first = self.offsets.map_or(first, |(first, _)| first);
        self.offsets = Some((first, header.last_offset));
        *self.magics.entry(header.magic).or_default() += 1;
        *self.codecs.entry(header.codec.name()).or_default() += 1;
        self.producers.add(header.producer_id);
        self.epochs.add(header.leader_epoch);
        if header.is_control {
            self.control_records += records.count;
        } else {
            self.records += records.count;
            self.first_timestamp = self.first_timestamp.or(records.first_timestamp);
            self.max_timestamp = self.max_timestamp.max(records.max_timestamp);
        }
    }

    fn add_damage(&mut self, position: Position, len: u64, cause: impl fmt::Display) {
        let damage = self.damage.get_or_insert_with(|| DamageSummary {
            first: position,
            cause: cause.to_string(),
            places: 0,
            bytes: 0,
        });
        damage.places += 1;
        damage.bytes += len;
    }

    /// Notes how it ends. Zeros behind the last batch are no damage, nor is what a broker is writing.
    fn end(&mut self, tail: Tail, may_be_written: bool) {
        match &tail {
            Tail::Torn(_) if may_be_written => {}
            Tail::Torn(Damage { position, len, fault, .. })
            | Tail::Bad(Damage { position, len, fault, .. }) => {
                self.add_damage(*position, *len, fault);
            }
            Tail::Clean | Tail::Zero(_) => {}
        }
        self.tail = Some(tail);
    }
}
