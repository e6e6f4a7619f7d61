//! From a directory and a name to a node.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::fs::appending::append_format;
use crate::fs::error::{BY_OFFSET, FsError};
use crate::fs::mounted::Fs;
use crate::fs::names::{self, ByOffset, Place, RangeEnd, RecordForm};
use crate::fs::node::{
    AllItem, AllKey, ControlFile, Follow, Item, Node, PartitionKey, RecordRange, Records, RecordsKind, Since,
};
use crate::fs::overview::OverviewForm;
use crate::log::files::FileId;
use crate::log::partition::Origin;
use crate::units::Offset;
use crate::view::format::Format;
use crate::view::partition_view::PartitionView;

/// The suffix under which a partition is shown as `read_committed` has it.
pub(super) const COMMITTED: &str = "@committed";

impl Fs {
    /// The node of `name` in the directory `parent`.
    ///
    /// # Errors
    /// [`FsError::NotFound`], or those of reading.
    pub fn child(&self, parent: &Node, name: &OsStr) -> Result<Node, FsError> {
        let text = name.to_str().ok_or(FsError::NotFound);
        match parent {
            Node::Root => self.root_child(text?),
            Node::Control => {
                let text = text?;
                let file = ControlFile::ALL.into_iter().find(|file| file.name() == text);
                file.map(Node::ControlFile).ok_or(FsError::NotFound)
            }
            Node::Topic(topic) => self.topic_child(topic, text?),
            Node::Partition(key) => self.partition_child(key, text?),
            Node::Of(key, Item::ByOffset) => self.by_offset_child(key, text?, None),
            Node::Of(key, Item::Range(range)) => self.by_offset_child(key, text?, Some(*range)),
            Node::Of(key, Item::ByKey) => self.by_key_child(key, name),
            Node::Of(key, Item::ByTime) => self.by_time_child(key, text?),
            Node::Of(key, Item::Times(times)) => self.times_child(key, times, text?),
            Node::Of(key, Item::Offsets) => self.offsets_child(key, text?),
            Node::Of(key, Item::BySegment) => self.by_segment_child(key, text?),
            Node::Of(key, Item::Segments) => self.segments_child(key, name),
            Node::Of(key, Item::DumpDir) => self.dump_child(key, text?),
            Node::All(key) => self.all_child(key, text?),
            Node::OfAll(key, AllItem::ByTime) => self.all_by_time_child(key, text?),
            Node::OfAll(key, AllItem::ByKey) => self.all_by_key_child(key, name),
            Node::OfAll(key, AllItem::Times { period, unit, utc_offset }) => {
                self.all_times_child(key, (*period, *unit, *utc_offset), text?)
            }
            Node::Of(..) | Node::OfAll(..) | Node::Readme | Node::ControlFile(_) => {
                Err(FsError::NotADirectory)
            }
            Node::Topics | Node::TopicInfo(..) => Err(FsError::NotADirectory),
        }
    }

    fn root_child(&self, name: &str) -> Result<Node, FsError> {
        // A topic with the name of a file of ours wins.
        if self.source().tree().topics.contains_key(name) {
            return Ok(Node::Topic(Arc::from(name)));
        }
        match name {
            "README.txt" => Ok(Node::Readme),
            ".topicfs" => Ok(Node::Control),
            "topics.tsv" => Ok(Node::Topics),
            _ => Err(FsError::NotFound),
        }
    }

    fn topic_child(&self, topic: &Arc<str>, name: &str) -> Result<Node, FsError> {
        match name {
            "info" => return Ok(Node::TopicInfo(topic.clone(), OverviewForm::Text)),
            "info.json" => return Ok(Node::TopicInfo(topic.clone(), OverviewForm::Json)),
            _ => {}
        }
        let (label, committed) = match name.strip_suffix(COMMITTED) {
            Some(label) => (label, true),
            None => (name, self.is_committed(topic)),
        };
        if label == "all" && !self.partitions_of(topic).is_empty() {
            return Ok(Node::All(AllKey { topic: topic.clone(), committed }));
        }
        let tree = self.source().tree();
        let partition = tree.partition(topic, label).ok_or(FsError::NotFound)?;
        let label = Arc::from(partition.label.as_str());
        Ok(Node::Partition(PartitionKey { topic: topic.clone(), label, committed }))
    }

    fn partition_child(&self, key: &PartitionKey, name: &str) -> Result<Node, FsError> {
        let item = match name {
            "by-offset" => Item::ByOffset,
            "by-key" => Item::ByKey,
            "by-time" => Item::ByTime,
            "offsets" => Item::Offsets,
            "by-segment" => Item::BySegment,
            "segments" => Item::Segments,
            "dump" => Item::DumpDir,
            "info" => Item::Info { json: false },
            "info.json" => Item::Info { json: true },
            "problems" => Item::Problems,
            "suspect.jsonl" => Item::Suspects,
            _ => match (self.follow_format(name), append_format(name)) {
                (Some(format), _) => Item::Follow(Follow { format, since: Since::Now }),
                (None, Some(format)) if self.is_writable() => Item::Append(format),
                (None, _) => Item::Records(self.growing_file(key, name)?),
            },
        };
        Ok(Node::Of(key.clone(), item))
    }

    /// `log` and `tail` in any format.
    fn growing_file(&self, key: &PartitionKey, name: &str) -> Result<Records, FsError> {
        let stems = [("log", RecordsKind::Log), ("tail", RecordsKind::Tail)];
        let found = stems
            .iter()
            .find_map(|(stem, kind)| Some((*kind, names::format_of(name, stem, self.formats())?)));
        let (kind, format) = found.ok_or(FsError::NotFound)?;
        let view = self.view(key)?;
        let start = match kind {
            RecordsKind::Tail => self.tail(key, &view)?.starts.first().copied().unwrap_or(Offset(0)),
            _ => view.start()?,
        };
        let generation = view.partition.generation();
        Ok(Records { kind, format, start, end: None, generation })
    }

    /// A name in `by-offset`, or in the directory of a range.
    fn by_offset_child(
        &self,
        key: &PartitionKey,
        name: &str,
        within: Option<RecordRange>,
    ) -> Result<Node, FsError> {
        if name == "README.txt" && within.is_none() {
            return Ok(Node::Of(key.clone(), Item::ByOffsetReadme));
        }
        if let Some(RecordRange { start, is_open: true, .. }) = within
            && let Some(format) = self.follow_format(name)
        {
            return Ok(Node::Of(key.clone(), Item::Follow(Follow { format, since: Since::Offset(start) })));
        }
        let view = self.view(key)?;
        let parsed = ByOffset::parse(name, self.formats());
        let item = match parsed.ok_or_else(|| FsError::bad_name(name, BY_OFFSET))? {
            ByOffset::Record(place, form) => self.record(key, &view, place, form)?,
            ByOffset::Range { from, to, format } => range(key, &view, from, to, format)?,
        };
        let (first, last) = match &item {
            Item::Record(offset, ..) => (*offset, offset.next()),
            Item::Range(range) => (range.start, range.end),
            Item::Records(Records { start, end: Some(end), .. }) => (*start, *end),
            _ => return Err(FsError::NotFound),
        };
        if within.is_some_and(|range| first < range.start || last > range.end) {
            return Err(FsError::NotFound);
        }
        Ok(Node::Of(key.clone(), item))
    }

    fn record(
        &self,
        key: &PartitionKey,
        view: &PartitionView,
        place: Place,
        form: RecordForm,
    ) -> Result<Item, FsError> {
        let offset = offset_of(key, view, place)?.ok_or(FsError::NotFound)?;
        let item = Item::Record(offset, form, view.generation()?);
        self.record_content(&Node::Of(key.clone(), item.clone()))?;
        Ok(item)
    }

    fn by_segment_child(&self, key: &PartitionKey, name: &str) -> Result<Node, FsError> {
        let digits = name.split('.').next().unwrap_or_default();
        let format = names::format_of(name, digits, self.formats()).ok_or(FsError::NotFound)?;
        let view = self.view(key)?;
        let log_start = view.start()?;
        let segments = view.partition.segments()?;
        let shown = |segment: &&Arc<crate::log::segment::Segment>| {
            names::padded(segment.base) == digits && segment.below() > log_start
        };
        let segment = segments.iter().find(shown).ok_or(FsError::NotFound)?;
        let end = (!segment.is_active()).then(|| segment.below());
        let start = segment.lower.max(log_start);
        let generation = view.partition.generation();
        let records = Records { kind: RecordsKind::Segment, format, start, end, generation };
        Ok(Node::Of(key.clone(), Item::Records(records)))
    }

    fn segments_child(&self, key: &PartitionKey, name: &OsStr) -> Result<Node, FsError> {
        let (_, meta) = self.source_file(key, name)?;
        Ok(Node::Of(key.clone(), Item::SourceFile(name.to_owned(), FileId::of(&meta))))
    }

    /// A regular file of the partition: its path, and what the system says of it.
    pub(super) fn source_file(
        &self,
        key: &PartitionKey,
        name: &OsStr,
    ) -> Result<(PathBuf, Metadata), FsError> {
        if name.as_bytes().contains(&b'/') {
            return Err(FsError::NotFound);
        }
        let view = self.view(key)?;
        let path = self.source_path(key, name)?;
        if !belongs(&view.partition.origin, name) {
            return Err(FsError::NotFound);
        }
        let meta = std::fs::symlink_metadata(&path).map_err(|_| FsError::NotFound)?;
        if meta.is_file() { Ok((path, meta)) } else { Err(FsError::NotFound) }
    }
}

/// Whether a file is one of the source's: all files of a partition directory; of a single segment, those that share
/// its name before the first dot.
pub(crate) fn belongs(origin: &Origin, name: &OsStr) -> bool {
    let Origin::File(file) = origin else { return true };
    let stem = |name: &OsStr| name.as_bytes().split(|byte| *byte == b'.').next().map(<[u8]>::to_vec);
    file.file_name().is_some_and(|own| stem(own) == stem(name))
}

/// The offset of a place; `None` where fewer records are before or after it.
pub(super) fn offset_of(
    key: &PartitionKey,
    view: &PartitionView,
    place: Place,
) -> Result<Option<Offset>, FsError> {
    Ok(match place {
        Place::At(offset) => Some(offset),
        Place::FromEnd(count) => view.nth_from_end(key.committed, count)?,
        Place::Before(offset, count) => view.nth_before(key.committed, offset, count)?,
        Place::After(offset, count) => view.nth_at(key.committed, offset.next(), count.saturating_sub(1))?,
    })
}

fn range(
    key: &PartitionKey,
    view: &PartitionView,
    from: Option<Place>,
    to: RangeEnd,
    format: Option<Format>,
) -> Result<Item, FsError> {
    let (log_start, log_end) = (view.start()?, view.end(key.committed)?);
    let resolve = |place: Place| -> Result<Offset, FsError> {
        let beyond = if matches!(place, Place::After(..)) { log_end } else { log_start };
        Ok(offset_of(key, view, place)?.unwrap_or(beyond).max(log_start))
    };
    let start = from.map_or(Ok(log_start), &resolve)?;
    let end = match to {
        RangeEnd::Open => log_end,
        RangeEnd::Before(place) => resolve(place)?.min(log_end),
        RangeEnd::Count(count) => view.nth_at(key.committed, start, count)?.unwrap_or(log_end),
    };
    let end = end.max(start);
    Ok(match format {
        None => Item::Range(RecordRange { start, end, is_open: to == RangeEnd::Open }),
        Some(format) => {
            let generation = view.partition.generation();
            Item::Records(Records { kind: RecordsKind::Range, format, start, end: Some(end), generation })
        }
    })
}
