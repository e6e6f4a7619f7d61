//! The file system itself: what FUSE asks, answered.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use lru::LruCache;

use crate::fs::attributes::{Attributes, Owner, source_time};
use crate::fs::by_time::no_later;
use crate::fs::content::RecordContent;
use crate::fs::error::FsError;
use crate::fs::handles::{Content, Handle, Handles};
use crate::fs::inodes::Inodes;
use crate::fs::measuring::{Measurable, Measurement, Measuring};
use crate::fs::node::{
    AllItem, AllKey, AllRecords, ControlFile, DumpOf, Item, Node, PartitionKey, Records, RecordsKind,
};
use crate::fs::options::{Access, Isolation, Options};
use crate::fs::tails::Tails;
use crate::fs::topic_options::OfTopic;
use crate::log::LogError;
use crate::log::files::{FileId, FilePool};
use crate::log::partition::{Origin, Partition};
use crate::log::sidecar::Sidecars;
use crate::log::source::Source;
use crate::units::Offset;
use crate::view::dump::file::DumpFile;
use crate::view::filtered::Filtered;
use crate::view::format::{Format, Formats};
use crate::view::key_history::KeyHistory;
use crate::view::merged::Merged;
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};
use crate::view::passing::{Filter, Passing};
use crate::view::selection::{Effort, Selection};
use crate::view::shared::Shared;

/// Selections kept while nobody has them open.
const KEPT_SELECTIONS: usize = 1024;
/// Files of records that pass a filter kept while nobody has them open.
const KEPT_FILTERED: usize = 256;
/// Files of merged records kept while nobody has them open.
const KEPT_MERGED: usize = 32;
/// Dumps kept while nobody has them open.
const KEPT_DUMPS: usize = 256;
/// Descriptors of dumped logs kept open at most.
const KEPT_DUMP_FILES: usize = 64;
/// Histories of keys kept while nobody has them open.
const KEPT_HISTORIES: usize = 256;
/// Contents of single records kept between lookup, stat and read.
const KEPT_RECORDS: usize = 512;
/// How long the kernel may believe a name: short, since `last-1` and `tail` move.
const NAME_TTL: Duration = Duration::from_millis(100);

/// A source as a file system.
#[derive(Debug)]
pub struct Fs {
    source: Source,
    options: Options,
    config_text: String,
    owner: Owner,
    started: SystemTime,
    shared: Arc<Shared>,
    topics: Mutex<HashMap<Arc<str>, Arc<OfTopic>>>,
    views: Mutex<HashMap<PartitionName, Arc<PartitionView>>>,
    inodes: Inodes,
    handles: Handles,
    tails: Tails,
    measuring: Measuring,
    selections: Mutex<LruCache<Node, Arc<Selection>>>,
    filtered: Mutex<LruCache<Node, Arc<Filtered>>>,
    merged: Mutex<LruCache<(AllKey, AllRecords), Arc<Merged>>>,
    dumps: Mutex<LruCache<Node, Arc<DumpFile>>>,
    dump_pool: Arc<FilePool>,
    histories: Mutex<LruCache<Node, Arc<KeyHistory>>>,
    records: Mutex<LruCache<Node, Arc<RecordContent>>>,
}

/// A topic and a label in it.
type PartitionName = (Arc<str>, Arc<str>);

/// What `stat` can be told.
#[derive(Debug)]
pub enum Stat {
    /// This.
    Known(Attributes),
    /// This, unless the measurement ends in time; then ask again.
    Measuring(Attributes, Arc<Measurement>),
}

impl Fs {
    /// Opens `spec` as a source. Begins no thread and opens nothing for writing.
    ///
    /// # Errors
    /// Those of [`Source::open`].
    pub fn open(spec: &str, options: Options, config_text: String) -> Result<Self, LogError> {
        let source = Source::open(spec, options.of_source())?;
        source.unpack_in(options.unpack_room());
        let shared =
            Arc::new(Shared::new(open_sidecars(&options), options.key_space(), options.max_read_rate));
        let kept = |count| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        let process = std::fs::metadata("/proc/self").ok();
        let (uid, gid) = process.map_or((0, 0), |meta| (meta.uid(), meta.gid()));
        Ok(Self {
            source,
            config_text,
            owner: Owner::only(uid, gid),
            started: SystemTime::now(),
            shared,
            topics: Mutex::default(),
            views: Mutex::default(),
            inodes: Inodes::default(),
            handles: Handles::default(),
            tails: Tails::default(),
            measuring: Measuring::default(),
            selections: Mutex::new(LruCache::new(kept(KEPT_SELECTIONS))),
            filtered: Mutex::new(LruCache::new(kept(KEPT_FILTERED))),
            merged: Mutex::new(LruCache::new(kept(KEPT_MERGED))),
            dumps: Mutex::new(LruCache::new(kept(KEPT_DUMPS))),
            dump_pool: Arc::new(FilePool::new(kept(KEPT_DUMP_FILES))),
            histories: Mutex::new(LruCache::new(kept(KEPT_HISTORIES))),
            records: Mutex::new(LruCache::new(kept(KEPT_RECORDS))),
            options,
        })
    }

    /// The source.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// What the user chose.
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// The configuration in force, as YAML.
    pub fn config_text(&self) -> &str {
        &self.config_text
    }

    /// The formats, whose extensions names may have.
    pub fn formats(&self) -> &Formats {
        &self.options.formats
    }

    /// What is chosen for a topic: all that is shown of it asks here.
    pub fn of_topic(&self, topic: &str) -> Arc<OfTopic> {
        let mut topics = lock(&self.topics);
        if let Some(known) = topics.get(topic) {
            return known.clone();
        }
        let of_topic = Arc::new(OfTopic::new(&self.options, topic));
        topics.insert(topic.into(), of_topic.clone());
        of_topic
    }

    pub(crate) const fn inodes(&self) -> &Inodes {
        &self.inodes
    }

    pub(super) const fn tails(&self) -> &Tails {
        &self.tails
    }

    pub(super) const fn handles(&self) -> &Handles {
        &self.handles
    }

    pub(crate) const fn measuring(&self) -> &Measuring {
        &self.measuring
    }

    pub(crate) fn is_committed(&self, topic: &str) -> bool {
        self.of_topic(topic).options.isolation == Isolation::ReadCommitted
    }

    /// The partition of a key.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when it is gone.
    pub fn view(&self, key: &PartitionKey) -> Result<Arc<PartitionView>, FsError> {
        let tree = self.source.tree();
        let partition = tree.partition(&key.topic, &key.label).ok_or(FsError::NotFound)?;
        let mut views = lock(&self.views);
        let name = (key.topic.clone(), key.label.clone());
        if let Some(view) = views.get(&name).filter(|view| Arc::ptr_eq(&view.partition, partition)) {
            return Ok(view.clone());
        }
        let of_topic = self.of_topic(&key.topic);
        let (scope, rendering) = (of_topic.scope(), of_topic.rendering());
        let view = Arc::new(PartitionView::new(partition.clone(), scope, rendering, self.shared.clone()));
        views.insert(name, view.clone());
        Ok(view)
    }

    /// The view of a partition, if it was looked at.
    pub(super) fn known_view(
        &self,
        topic: &Arc<str>,
        partition: &Arc<Partition>,
    ) -> Option<Arc<PartitionView>> {
        let name = (topic.clone(), Arc::from(partition.label.as_str()));
        lock(&self.views).get(&name).filter(|view| Arc::ptr_eq(&view.partition, partition)).cloned()
    }

    /// The partitions that were looked at, in order, with the names of their paths.
    pub fn known_views(&self) -> Vec<(String, Arc<PartitionView>)> {
        let views = lock(&self.views);
        let mut known: Vec<_> =
            views.iter().map(|((topic, label), view)| (format!("{topic}/{label}"), view.clone())).collect();
        drop(views);
        known.sort_by(|(a, _), (b, _)| a.cmp(b));
        known
    }

    /// Looks `name` up in a directory: its attributes, and how long its name may be believed.
    ///
    /// # Errors
    /// [`FsError::NotFound`], or those of reading.
    pub fn lookup(&self, parent: u64, name: &OsStr) -> Result<(Attributes, Duration), FsError> {
        let parent = self.inodes.get(parent)?;
        let node = self.child(&parent, name)?;
        let ino = self.inodes.look_up(node.clone());
        match self.attributes(ino, &node, Effort::Bytes(CHEAP_BYTES)) {
            Ok(attributes) => Ok((attributes, NAME_TTL)),
            Err(error) => {
                self.inodes.forget(ino, 1);
                Err(error)
            }
        }
    }

    /// The kernel forgets `count` lookups.
    pub fn forget(&self, ino: u64, count: u64) {
        self.inodes.forget(ino, count);
    }

    /// What `stat` says; a size that takes long is measured only while somebody has the file open.
    ///
    /// # Errors
    /// Those of reading.
    pub fn stat(&self, ino: u64) -> Result<Stat, FsError> {
        let node = self.inodes.get(ino)?;
        if self.inodes.opens(ino) == 0 && !self.is_current(&node)? {
            return Err(FsError::UnknownHandle);
        }
        let attributes = match self.attributes(ino, &node, Effort::Bytes(CHEAP_BYTES)) {
            Err(gone) => return self.stat_of_held(ino, &node).map(Stat::Known).ok_or(gone),
            Ok(attributes) => attributes,
        };
        if attributes.is_sized || self.inodes.opens(ino) == 0 {
            return Ok(Stat::Known(attributes));
        }
        let measurable = match &*node {
            Node::Of(key, Item::Records(records)) => Measurable::Selection(self.selection(key, records)?),
            Node::Of(key, Item::Timed(_)) => Measurable::Filtered(self.filtered(key, &node)?),
            Node::OfAll(key, AllItem::Records(records)) => Measurable::Merged(self.merged(key, records)?),
            Node::Of(key, Item::Dump(dump)) => Measurable::Dump(self.dump(key, dump)?),
            Node::Of(key, Item::Suspects) => Measurable::Suspects(self.view(key)?),
            Node::Of(key, Item::KeyRecords(records)) => {
                Measurable::KeyHistory(self.key_history(key, records)?)
            }
            _ => return Ok(Stat::Known(self.attributes_of_open(attributes))),
        };
        Ok(Stat::Measuring(attributes, self.measuring.begin(ino, measurable)))
    }

    /// What was too dear to know before an open file was opened, and is known since.
    fn attributes_of_open(&self, attributes: Attributes) -> Attributes {
        match self.handles.content_of(attributes.ino) {
            Some(Content::Bytes(bytes)) => {
                Attributes { size: bytes.len() as u64, is_sized: true, ..attributes }
            }
            _ => attributes,
        }
    }

    /// The attributes of an open file whose name is gone, and whose bytes are promised to those who hold it.
    fn stat_of_held(&self, ino: u64, node: &Node) -> Option<Attributes> {
        let (size, mtime) = match self.handles.content_of(ino)? {
            Content::Source(file) => {
                (Some(file.metadata().ok()?.len()), file.metadata().ok()?.modified().ok()?)
            }
            Content::Selection(selection, Some(file)) => {
                (selection.size(Effort::Bytes(CHEAP_BYTES)).ok()?, file.metadata().ok()?.modified().ok()?)
            }
            _ => return None,
        };
        let (owner, is_sized) = (self.owner_of(node), size.is_some());
        let (mode, uid, gid) = (owner.file_mode, owner.uid, owner.gid);
        let size = size.unwrap_or(0);
        Some(Attributes { ino, is_dir: false, size, is_sized, is_final: false, mtime, mode, uid, gid })
    }

    /// The attributes of a node, whose size may cost `effort`; 0 if it costs more.
    ///
    /// # Errors
    /// Those of reading.
    pub fn attributes(&self, ino: u64, node: &Node, effort: Effort) -> Result<Attributes, FsError> {
        let owner = self.owner_of(node);
        let mut attributes = Attributes {
            ino,
            is_dir: node.is_dir(),
            size: 0,
            is_sized: true,
            is_final: false,
            mtime: self.started,
            mode: if node.is_dir() { owner.dir_mode } else { owner.file_mode },
            uid: owner.uid,
            gid: owner.gid,
        };
        if let Some(key) = node.partition() {
            attributes.mtime = source_time(self.view(key)?.partition.origin.path());
        }
        match node {
            Node::Of(key, Item::Records(records)) => {
                attributes.set_size(self.selection(key, records)?.size(effort)?);
                attributes.is_final = attributes.is_sized && records.end.is_some();
                attributes.mtime = self.written_below(key, records.end.unwrap_or(Offset(i64::MAX)))?;
            }
            Node::Of(_, Item::Record(..)) => {
                let content = self.record_content(node)?;
                attributes.size = content.bytes.len() as u64;
                attributes.mtime = content.mtime;
                attributes.is_final = true;
            }
            Node::Of(key, Item::SourceFile(name, id)) => {
                let path = self.source_path(key, name)?;
                let meta = std::fs::symlink_metadata(&path).map_err(|_| FsError::NotFound)?;
                if FileId::of(&meta) != *id {
                    return Err(FsError::UnknownHandle);
                }
                attributes.size = meta.len();
                attributes.mtime = meta.modified().unwrap_or(self.started);
            }
            Node::Of(key, Item::Timed(timed)) => {
                attributes.set_size(self.filtered(key, node)?.size(effort)?);
                attributes.is_final = attributes.is_sized;
                attributes.mtime = no_later(self.written_below(key, timed.end)?, timed.period);
            }
            Node::OfAll(key, AllItem::Records(records)) => {
                attributes.set_size(self.merged(key, records)?.size(effort)?);
                attributes.is_final = attributes.is_sized && records.ends.is_some();
                attributes.mtime = self.all_time(key, records)?;
            }
            Node::Of(key, Item::Number(number)) if !self.is_cheap(key, *number, effort)? => {
                attributes.is_sized = false;
            }
            Node::ControlFile(ControlFile::Manifest(_)) => attributes.is_sized = false,
            Node::Topics | Node::TopicInfo(..) => {
                let made = self.overview_within(node, effort)?;
                attributes.set_size(made.map(|made| made.len() as u64));
            }
            Node::Of(key, Item::Suspects) => {
                let found = self.view(key)?.suspects(effort)?;
                attributes.set_size(found.map(|found| found.size()));
            }
            Node::Of(key, Item::KeyRecords(records)) => {
                attributes.set_size(self.key_history(key, records)?.size(effort)?);
                attributes.is_final = attributes.is_sized;
            }
            Node::Of(key, Item::Dump(dump)) => {
                attributes.set_size(self.dump(key, dump)?.size(effort)?);
                attributes.mtime = source_time(&self.source_path(key, &dump.name)?);
            }
            _ if !attributes.is_dir => attributes.size = self.small_file(node)?.len() as u64,
            _ => {}
        }
        Ok(attributes)
    }

    /// When the last record below `end` was written: the time of its segment.
    pub(super) fn written_below(&self, key: &PartitionKey, end: Offset) -> Result<SystemTime, FsError> {
        let segments = self.view(key)?.partition.segments()?;
        let last = segments.iter().rev().find(|segment| segment.lower < end);
        Ok(last.map_or(self.started, |segment| source_time(&segment.path)))
    }

    fn owner_of(&self, node: &Node) -> Owner {
        if self.options.access == Access::OwnerOnly {
            return self.owner;
        }
        if let Node::All(key) | Node::OfAll(key, _) = node {
            return self.owner_of_all(key);
        }
        let view = node.partition().and_then(|key| self.view(key).ok());
        let path = match &view {
            Some(view) => Some(view.partition.origin.path()),
            None => self.source.paths().first().copied(),
        };
        let meta = path.and_then(|path| std::fs::metadata(path).ok());
        let owner = meta.as_ref().map_or(self.owner, Owner::of_source);
        let (Some(view), Node::Of(key, item)) = (view, node) else { return owner };
        // A file's rights are those of the segments that it is made from.
        let source = match item {
            Item::SourceFile(name, _) | Item::Dump(DumpOf { name, .. }) => self.source_path(key, name).ok(),
            _ => view.partition.segments().ok().and_then(|s| s.last().map(|segment| segment.path.clone())),
        };
        let file = source.and_then(|path| std::fs::metadata(path).ok());
        file.map_or(owner, |meta| Owner { file_mode: Owner::of_source(&meta).file_mode, ..owner })
    }

    /// Opens a file or directory: the number of its handle.
    ///
    /// # Errors
    /// Those of reading.
    pub fn open_node(&self, ino: u64) -> Result<u64, FsError> {
        let node = self.inodes.get(ino)?;
        let content = self.content(ino, &node)?;
        self.inodes.opened(ino);
        if let Some((tail, begin)) = Self::tail_that_is(&node) {
            self.tails.opened(&tail, &begin);
        }
        Ok(self.handles.add(Handle { ino, node, content }))
    }

    /// Closes a handle.
    pub fn release(&self, handle: u64) {
        let Some(handle) = self.handles.remove(handle) else { return };
        if let Some((tail, begin)) = Self::tail_that_is(&handle.node) {
            self.tails.released(&tail, &begin);
        }
        self.inodes.released(handle.ino);
    }

    /// Reads up to `len` bytes at `at`; fewer only at the end of the file.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&self, handle: u64, at: u64, len: usize) -> Result<Vec<u8>, FsError> {
        let handle = self.handles.get(handle)?;
        let mut out = Vec::with_capacity(len);
        self.read_content(&handle.content, at, len, &mut out)?;
        Ok(out)
    }

    /// The records of a file, shared by all that have it open.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when the partition is gone.
    pub fn selection(&self, key: &PartitionKey, records: &Records) -> Result<Arc<Selection>, FsError> {
        let node = Node::Of(key.clone(), Item::Records(*records));
        if let Some(selection) = lock(&self.selections).get(&node) {
            return Ok(selection.clone());
        }
        let view = self.view(key)?;
        if view.generation()? != records.generation {
            return Err(FsError::UnknownHandle);
        }
        let Records { format, start, end, .. } = *records;
        let selection = Selection::new(view, key.committed, format, start, end);
        let selection = Arc::new(match records.kind {
            RecordsKind::Segment => selection.within_its_segment(),
            _ => selection,
        });
        lock(&self.selections).push(node, selection.clone());
        Ok(selection)
    }

    /// The records of a file that pass its filter, shared by all that have it open.
    ///
    /// # Errors
    /// [`FsError::NotFound`] when the partition is gone.
    pub fn filtered(&self, key: &PartitionKey, node: &Node) -> Result<Arc<Filtered>, FsError> {
        if let Some(filtered) = lock(&self.filtered).get(node) {
            return Ok(filtered.clone());
        }
        let (format, filter, range, generation) = match node {
            Node::Of(_, Item::Timed(timed)) => {
                (timed.format, Filter::Period(timed.period), timed.start..timed.end, timed.generation)
            }
            Node::Of(_, Item::Times(times)) => {
                (Format::Text, Filter::Period(times.period), times.start..times.end, times.generation)
            }
            _ => return Err(FsError::NotFound),
        };
        let view = self.view(key)?;
        if view.generation()? != generation {
            return Err(FsError::UnknownHandle);
        }
        let passing = Passing { view, committed: key.committed, filter, range };
        let made = Arc::new(Filtered::new(passing, format));
        lock(&self.filtered).push(node.clone(), made.clone());
        Ok(made)
    }

    /// Who may read all of some partitions: nobody who may not read each.
    fn owner_of_all(&self, key: &AllKey) -> Owner {
        // Any file that is made from a partition's segments stands for all of them.
        let owners = self
            .partitions_of(&key.topic)
            .into_iter()
            .map(|partition| self.owner_of(&Node::Of(self.partition_key(key, &partition), Item::Problems)));
        owners.reduce(|a, b| a.both(b, self.owner)).unwrap_or(self.owner)
    }

    /// Files of merged records that are kept.
    pub(super) fn kept_merged(&self) -> MutexGuard<'_, LruCache<(AllKey, AllRecords), Arc<Merged>>> {
        lock(&self.merged)
    }

    /// Selections that are kept.
    pub(super) fn selections(&self) -> MutexGuard<'_, LruCache<Node, Arc<Selection>>> {
        lock(&self.selections)
    }

    /// Files of records that pass a filter that are kept.
    pub(super) fn filtered_kept(&self) -> MutexGuard<'_, LruCache<Node, Arc<Filtered>>> {
        lock(&self.filtered)
    }

    /// The partitions that were looked at.
    pub(super) fn views_known(&self) -> MutexGuard<'_, HashMap<PartitionName, Arc<PartitionView>>> {
        lock(&self.views)
    }

    /// The topics that were asked about.
    pub(super) fn topics_known(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<OfTopic>>> {
        lock(&self.topics)
    }

    /// Contents of single records that are kept.
    pub(super) fn records(&self) -> MutexGuard<'_, LruCache<Node, Arc<RecordContent>>> {
        lock(&self.records)
    }

    /// Histories of keys that are kept.
    pub(super) fn histories(&self) -> MutexGuard<'_, LruCache<Node, Arc<KeyHistory>>> {
        lock(&self.histories)
    }

    /// Dumps that are kept.
    pub(super) fn dumps(&self) -> MutexGuard<'_, LruCache<Node, Arc<DumpFile>>> {
        lock(&self.dumps)
    }

    /// Descriptors of dumped logs.
    pub(super) fn dump_pool(&self) -> Arc<FilePool> {
        self.dump_pool.clone()
    }

    /// What all partitions share.
    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub(super) fn source_path(&self, key: &PartitionKey, name: &OsStr) -> Result<PathBuf, FsError> {
        Ok(match &self.view(key)?.partition.origin {
            Origin::Directory(directory) => directory.join(name),
            Origin::File(file) => file.with_file_name(name),
        })
    }
}

/// The cache, or none: a cache that can't be used costs time, never an answer.
fn open_sidecars(options: &Options) -> Option<Sidecars> {
    let directory = options.cache_dir.as_deref()?;
    match Sidecars::open(directory, options.cache_limit) {
        Ok(sidecars) => Some(sidecars),
        Err(error) => {
            tracing::warn!(directory = %directory.display(), %error, "no cache: sizes are measured at each mount");
            None
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
