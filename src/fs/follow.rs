//! `follow`: a file that never ends, whose reader waits for the records that come.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fs::error::FsError;
use crate::fs::metrics::topics::TopicCounts;
use crate::fs::mounted::Fs;
use crate::fs::names;
use crate::fs::node::{AllKey, Follow, PartitionKey, Since};
use crate::fs::options::UpTo;
use crate::log::LogError;
use crate::log::watch::Watched;
use crate::units::{Offset, Period};
use crate::view::following::{Following, Found};
use crate::view::format::Format;
use crate::view::partition_view::PartitionView;
use crate::view::passing::Filter;

/// Reads of this length and more are not filled to the last byte: the kernel would ask for the rest of a longer one, and wait for it
/// with what it has.
const NEVER_FILLED: usize = 64 * 1024;

/// Whether a path is that of a file that never ends.
pub fn is_follow(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.strip_prefix("follow").is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A stream that one reader has open.
#[derive(Debug)]
pub struct FollowFile {
    following: Following,
    watched: Mutex<Vec<Arc<Watched>>>,
    /// The topic and those of its partitions that are followed, where partitions that are added are to be too.
    topic: Option<(AllKey, Mutex<HashSet<Arc<str>>>)>,
    is_over: Arc<AtomicBool>,
    counts: Arc<TopicCounts>,
}

/// What a read of it came to.
#[derive(Debug)]
pub enum Come {
    /// These bytes; none when no more will come.
    Bytes(Vec<u8>),
    /// Nothing yet.
    Nothing(Seen),
}

/// How much had changed when a reader looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen(Option<u64>);

impl FollowFile {
    fn read(&self, len: usize) -> Result<Come, FsError> {
        let len = if len >= NEVER_FILLED { len - 1 } else { len };
        let seen = self.seen();
        let mut out = Vec::new();
        if self.is_over() {
            return Ok(Come::Bytes(out));
        }
        Ok(match self.following.read(len, &mut out)? {
            Found::Some => {
                self.counts.read_bytes.add(out.len() as u64);
                Come::Bytes(out)
            }
            Found::NotYet => Come::Nothing(Seen(None)),
            Found::Nothing => Come::Nothing(seen),
        })
    }

    /// How much has changed until now.
    pub fn seen(&self) -> Seen {
        Seen(Some(Watched::changes_of(&self.watched())))
    }

    /// Whether something has changed since, so that it is worth a look.
    pub fn has_changed(&self, since: Seen) -> bool {
        self.is_over() || since != self.seen()
    }

    /// Whether a read would not wait.
    pub fn is_ready(&self) -> bool {
        self.is_over() || self.following.is_ready()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn watched(&self) -> MutexGuard<'_, Vec<Arc<Watched>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fs {
    /// The format of `follow` or `follow.EXTENSION`.
    pub(super) fn follow_format(&self, name: &str) -> Option<Format> {
        names::format_of(name, "follow", self.formats())
    }

    /// The records of a partition as they come.
    pub(super) fn follow(&self, key: &PartitionKey, follow: Follow) -> Result<FollowFile, FsError> {
        let file = self.follow_nothing(key.committed, follow, &key.topic, None);
        self.add_partition(&file, key, follow.since)?;
        Ok(file)
    }

    /// The records of all partitions of a topic as they come.
    pub(super) fn follow_topic(&self, key: &AllKey, follow: Follow) -> Result<FollowFile, FsError> {
        let labels = self.partitions_of(&key.topic);
        let known = Mutex::new(labels.iter().cloned().collect());
        let file = self.follow_nothing(key.committed, follow, &key.topic, Some((key.clone(), known)));
        for directory in self.source().data_directories() {
            file.watched().push(self.watch().watch(directory));
        }
        for label in labels {
            self.add_partition(&file, &self.partition_key(key, &label), follow.since)?;
        }
        Ok(file)
    }

    fn follow_nothing(
        &self,
        committed: bool,
        Follow { format, since }: Follow,
        name: &Arc<str>,
        topic: Option<(AllKey, Mutex<HashSet<Arc<str>>>)>,
    ) -> FollowFile {
        let filter = match since {
            Since::Time(from) => Filter::Period(Period { from, ..Period::ALL }),
            Since::Now | Since::Offset(_) => Filter::Everything,
        };
        let following = Following::new(committed, format, filter);
        let counts = self.topic_counts().of(Some(name));
        FollowFile { following, watched: Mutex::default(), topic, is_over: self.ending().clone(), counts }
    }

    fn add_partition(&self, file: &FollowFile, key: &PartitionKey, since: Since) -> Result<(), FsError> {
        let view = self.view(key)?;
        // Watched before the end is looked up, so that nothing comes unseen in between.
        file.watched().push(self.watch().watch(view.partition.origin.path()));
        if self.of_topic(&key.topic).options.up_to == UpTo::HighWatermark {
            let mark = view.partition.high_watermark_directory();
            file.watched().extend(mark.map(|directory| self.watch().watch(directory)));
        }
        let start = first_offset(&view, key.committed, since)?;
        file.following.add(view, start);
        Ok(())
    }

    /// Reads up to `len` bytes of a stream if there are some.
    ///
    /// # Errors
    /// Those of reading; `ESTALE` where the log was cut, or its front deleted, so that it doesn't go on from what was read.
    pub fn read_follow(&self, file: &FollowFile, len: usize) -> Result<Come, FsError> {
        if let Some((key, known)) = &file.topic {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            for label in self.partitions_of(&key.topic) {
                if known.insert(label.clone()) {
                    self.add_partition(file, &self.partition_key(key, &label), Since::Offset(Offset(0)))?;
                }
            }
        }
        file.read(len)
    }

    /// Reads up to `len` bytes of a stream, waiting for them.
    ///
    /// # Errors
    /// Those of [`Self::read_follow`].
    pub(super) fn wait_for(&self, file: &FollowFile, len: usize) -> Result<Vec<u8>, FsError> {
        loop {
            let count = self.signal().count();
            match self.read_follow(file, len)? {
                Come::Bytes(bytes) => return Ok(bytes),
                Come::Nothing(seen) if file.has_changed(seen) => {}
                Come::Nothing(_) => self.signal().wait_beyond(count, None),
            }
        }
    }

    /// Ends all that is followed: readers come to an end, those who come later too. Nothing else lets go of a mount that is to go.
    pub fn end_follows(&self) {
        self.ending().store(true, Ordering::Release);
        self.signal().raise();
    }
}

fn first_offset(view: &PartitionView, committed: bool, since: Since) -> Result<Offset, LogError> {
    match since {
        Since::Now => view.end(committed),
        Since::Offset(offset) => Ok(offset.max(view.start()?)),
        Since::Time(time) => match view.first_at(committed, time)? {
            Some(offset) => Ok(offset.max(view.start()?)),
            None => view.end(committed),
        },
    }
}
