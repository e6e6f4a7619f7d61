//! The file system itself: what FUSE asks, answered.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use lru::LruCache;

use crate::fs::appending::Writing;
use crate::fs::attributes::{Attributes, Owner};
use crate::fs::caching::{NAME_TTL, Reading};
use crate::fs::content::RecordContent;
use crate::fs::error::{FsError, again};
use crate::fs::follow::{Come, FollowFile, Seen};
use crate::fs::forgetting::Forget;
use crate::fs::growing::Growing;
use crate::fs::handles::{Content, Handle, Handles};
use crate::fs::inodes::Inodes;
use crate::fs::measuring::Measuring;
use crate::fs::metrics::topics::Topics;
use crate::fs::node::{AllKey, AllRecords, Item, Node, PartitionKey, Records, RecordsKind};
use crate::fs::options::{Isolation, Options};
use crate::fs::tails::Tails;
use crate::fs::topic_options::OfTopic;
use crate::log::LogError;
use crate::log::bounded;
use crate::log::cluster::Cluster;
use crate::log::counter::Counter;
use crate::log::files::page_cache::PageCache;
use crate::log::files::{FilePool, SourceFile};
use crate::log::moment::Moment;
use crate::log::partition::{Origin, Partition};
use crate::log::sidecar::Sidecars;
use crate::log::signal::Signal;
use crate::log::source::Source;
use crate::log::watch::Watch;
use crate::view::ahead::Reader;
use crate::view::blocks::Turn;
use crate::view::buffers::Buffers;
use crate::view::dump::file::DumpFile;
use crate::view::filtered::Filtered;
use crate::view::format::{Format, Formats};
use crate::view::key_history::KeyHistory;
use crate::view::merged::Merged;
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};
use crate::view::passing::{Filter, Passing};
use crate::view::pieces::Pieces;
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

/// A source as a file system.
#[derive(Debug)]
pub struct Fs {
    source: Source,
    cluster: Arc<Cluster>,
    options: Options,
    config_text: String,
    owner: Owner,
    started: SystemTime,
    shared: Arc<Shared>,
    topics: Mutex<HashMap<Arc<str>, Arc<OfTopic>>>,
    views: Mutex<HashMap<PartitionName, Arc<PartitionView>>>,
    inodes: Inodes,
    handles: Handles,
    topic_counts: Topics,
    /// Lines that were refused.
    pub(super) refusals: Counter,
    writing: OnceLock<Writing>,
    tails: Tails,
    measuring: Measuring,
    signal: Arc<Signal>,
    watch: Watch,
    is_ending: Arc<AtomicBool>,
    growing: Growing,
    tells_of_growth: AtomicBool,
    /// Where names are sent that the kernel is to forget, if somebody can tell it.
    names_to_forget: OnceLock<Sender<Forget>>,
    selections: Mutex<LruCache<Node, Arc<Selection>>>,
    filtered: Mutex<LruCache<Node, Arc<Filtered>>>,
    merged: Mutex<LruCache<(AllKey, AllRecords), Arc<Merged>>>,
    dumps: Mutex<LruCache<Node, Arc<DumpFile>>>,
    dump_pool: Arc<FilePool>,
    histories: Mutex<LruCache<Node, Arc<KeyHistory>>>,
    records: Mutex<LruCache<Node, Arc<RecordContent>>>,
}

/// A topic and a label in it.
pub(super) type PartitionName = (Arc<str>, Arc<str>);

/// What a read of an open file came to.
#[derive(Debug)]
pub enum Read {
    /// These bytes.
    Bytes(Pieces),
    /// Records that have not come yet.
    Waits(Arc<FollowFile>, Seen),
    /// These bytes, and the rest when its turn has come.
    InTurn(Vec<u8>, Turn),
}

impl Fs {
    /// Opens `spec` as a source. Begins no thread and opens nothing for writing.
    ///
    /// # Errors
    /// Those of [`Source::open`].
    pub fn open(spec: &str, options: Options, config_text: String) -> Result<Self, LogError> {
        PageCache::of_process().set_limit(options.page_cache);
        let source = Source::open(spec, options.of_source())?;
        source.unpack_in(options.unpack_room());
        let shared =
            Arc::new(Shared::new(open_sidecars(&options), options.key_space(), options.max_read_rate));
        let signal = Arc::new(Signal::default());
        let process = std::fs::metadata("/proc/self").ok();
        let (uid, gid) = process.map_or((0, 0), |meta| (meta.uid(), meta.gid()));
        Ok(Self {
            source,
            cluster: Arc::new(Cluster::new(spec, options.of_source())),
            config_text,
            owner: Owner::only(uid, gid),
            started: SystemTime::now(),
            shared,
            topics: Mutex::default(),
            views: Mutex::default(),
            inodes: Inodes::default(),
            handles: Handles::default(),
            topic_counts: Topics::default(),
            refusals: Counter::new(),
            writing: OnceLock::new(),
            tails: Tails::default(),
            measuring: Measuring::new(signal.clone()),
            watch: Watch::new(signal.clone()),
            signal,
            is_ending: Arc::default(),
            growing: Growing::default(),
            tells_of_growth: AtomicBool::new(false),
            names_to_forget: OnceLock::new(),
            selections: Mutex::new(bounded::lru(KEPT_SELECTIONS)),
            filtered: Mutex::new(bounded::lru(KEPT_FILTERED)),
            merged: Mutex::new(bounded::lru(KEPT_MERGED)),
            dumps: Mutex::new(bounded::lru(KEPT_DUMPS)),
            dump_pool: Arc::new(FilePool::new(
                NonZeroUsize::new(KEPT_DUMP_FILES).unwrap_or(NonZeroUsize::MIN),
            )),
            histories: Mutex::new(bounded::lru(KEPT_HISTORIES)),
            records: Mutex::new(bounded::lru(KEPT_RECORDS)),
            options,
        })
    }

    /// The source.
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// Its cluster, as far as there is one.
    pub const fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
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

    /// When the mount began.
    pub(super) const fn started(&self) -> SystemTime {
        self.started
    }

    /// The user who mounted, and nobody else.
    pub(super) const fn owner(&self) -> Owner {
        self.owner
    }

    pub(super) const fn handles(&self) -> &Handles {
        &self.handles
    }

    /// What is counted by topic.
    pub(super) const fn topic_counts(&self) -> &Topics {
        &self.topic_counts
    }

    /// What is written to, if anything is.
    pub(super) fn writing(&self) -> Option<&Writing> {
        self.writing.get()
    }

    pub(super) const fn writing_cell(&self) -> &OnceLock<Writing> {
        &self.writing
    }

    pub(crate) const fn measuring(&self) -> &Measuring {
        &self.measuring
    }

    /// What is raised when something that somebody may wait for has happened.
    pub const fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Changes of the source.
    pub const fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Growing files that are open.
    pub const fn growing(&self) -> &Growing {
        &self.growing
    }

    /// Watches growing files that are opened from now on: somebody tells the kernel of their growth.
    pub fn tell_of_growth(&self) {
        self.tells_of_growth.store(true, Ordering::Release);
    }

    /// Set when all that has no end has to end.
    pub(super) const fn ending(&self) -> &Arc<AtomicBool> {
        &self.is_ending
    }

    /// Whether the mount is to go, so that nothing may hold it.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
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
        let _moment = Moment::begin();
        let parent = self.inodes.get(parent)?;
        let node = again(|| self.child(&parent, name))?;
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

    /// Opens a file or directory: the number of its handle, and how the kernel has to read it.
    ///
    /// # Errors
    /// Those of reading.
    pub fn open_node(&self, ino: u64) -> Result<(u64, Reading), FsError> {
        let _moment = Moment::begin();
        let node = self.inodes.get(ino)?;
        let content = self.content(ino, &node)?;
        let reading = self.reading(ino, &node, &content);
        self.inodes.opened(ino);
        if self.tells_of_growth.load(Ordering::Acquire) {
            self.growing_opened(ino, &node);
        }
        if let Some((tail, begin)) = Self::tail_that_is(&node) {
            self.tails.opened(&tail, &begin);
        }
        let counts = self.topic_counts.of(node.topic().filter(|_| !node.is_dir()));
        let handle = Handle { ino, node, content, reading, reader: Reader::default(), counts };
        Ok((self.handles.add(handle), reading))
    }

    /// Closes a handle.
    pub fn release(&self, handle: u64) {
        let Some(handle) = self.handles.remove(handle) else { return };
        if let Some((tail, begin)) = Self::tail_that_is(&handle.node) {
            self.tails.released(&tail, &begin);
        }
        if let Content::Append(file) = &handle.content {
            self.finish_append(file, &handle.counts);
        }
        self.growing_released(handle.ino);
        self.inodes.released(handle.ino);
    }

    /// Reads up to `len` bytes at `at`; fewer only at the end of the file.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&self, handle: u64, at: u64, len: usize) -> Result<Read, FsError> {
        self.read_on(handle, at, len, &[])
    }

    /// Goes on with a read of which there are some bytes.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read_on(&self, handle: u64, at: u64, len: usize, begun: &[u8]) -> Result<Read, FsError> {
        let handle = self.handles.get(handle)?;
        if let Content::Follow(file) = &handle.content {
            return Ok(match self.read_follow(file, len)? {
                Come::Bytes(bytes) => Read::Bytes(bytes.into()),
                Come::Nothing(seen) => Read::Waits(file.clone(), seen),
            });
        }
        let (out, turn) = match &handle.content {
            Content::Selection(selection, _) => again(|| {
                let mut out = Pieces::from(begun.to_vec());
                let (at, len) = (at + begun.len() as u64, len.saturating_sub(begun.len()));
                let turn = selection.read_in_turn(at, len, &mut out)?;
                Ok((out, turn))
            })?,
            content => (self.read_pieces(content, at, len)?, None),
        };
        if let Some(turn) = turn {
            // Copied, since a block that is in use takes room.
            return Ok(Read::InTurn(out.iter().collect::<Vec<_>>().concat(), turn));
        }
        handle.counts.read_bytes.add(out.len() as u64);
        if handle.reading == Reading::Cached {
            PageCache::of_process().filled_mount(handle.ino, at..at + out.len() as u64);
        }
        Ok(Read::Bytes(out))
    }

    /// After a read of `len` bytes at `at`: begins with what will be asked for next.
    pub fn read_ahead(&self, handle: u64, at: u64, len: usize) {
        let Ok(handle) = self.handles.get(handle) else { return };
        if let Content::Selection(selection, _) = &handle.content {
            selection.read_ahead(&handle.reader, at, len);
        }
    }

    /// The source file that a handle has open, if it is one.
    pub fn open_source_file(&self, handle: u64) -> Option<Arc<SourceFile>> {
        match &self.handles.get(handle).ok()?.content {
            Content::Source(file) => Some(file.clone()),
            _ => None,
        }
    }

    /// The stream that a handle has open, if it is one.
    pub fn follow_file(&self, handle: u64) -> Option<Arc<FollowFile>> {
        match &self.handles.get(handle).ok()?.content {
            Content::Follow(file) => Some(file.clone()),
            _ => None,
        }
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
        // Those who have it open know segments that are gone.
        if let Some(Content::Selection(selection, _)) = self.handles.content_of(|handle| *handle.node == node)
        {
            lock(&self.selections).push(node, selection.clone());
            return Ok(selection);
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
        Ok(lock(&self.selections).get_or_insert(node, || selection).clone())
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

    /// Where names are sent that the kernel is to forget.
    pub(super) const fn names_to_forget(&self) -> &OnceLock<Sender<Forget>> {
        &self.names_to_forget
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

    /// Memory for what is read.
    pub(super) fn buffers(&self) -> &Buffers {
        &self.shared.buffers
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
