//! What `stat` says of a node: type, size, time and access.

use std::sync::Arc;
use std::time::SystemTime;

use crate::fs::attributes::{Attributes, Owner, source_time};
use crate::fs::by_time::no_later;
use crate::fs::caching::{Lasting, Reading};
use crate::fs::error::{FsError, again};
use crate::fs::handles::Content;
use crate::fs::measuring::{Measurable, Measurement};
use crate::fs::mounted::Fs;
use crate::fs::node::{AllItem, AllKey, ControlFile, DumpOf, Item, Node, PartitionKey};
use crate::fs::options::{Access, Passthrough};
use crate::log::files::{FileId, SourceFile};
use crate::log::moment::Moment;
use crate::units::Offset;
use crate::view::partition_view::CHEAP_BYTES;
use crate::view::selection::Effort;

/// What `stat` can be told.
#[derive(Debug)]
pub enum Stat {
    /// This.
    Known(Attributes),
    /// This, unless the measurement ends in time; then ask again.
    Measuring(Attributes, Arc<Measurement>),
}

impl Fs {
    /// What `stat` says; a size that takes long is measured only while somebody has the file open.
    ///
    /// # Errors
    /// Those of reading.
    pub fn stat(&self, ino: u64) -> Result<Stat, FsError> {
        let _moment = Moment::begin();
        let node = self.inodes().get(ino)?;
        if self.inodes().opens(ino) == 0 && !self.is_current(&node)? {
            return Err(FsError::UnknownHandle);
        }
        let attributes = match self.attributes(ino, &node, Effort::Bytes(CHEAP_BYTES)) {
            Err(gone) => return self.stat_of_held(ino, &node).map(Stat::Known).ok_or(gone),
            Ok(attributes) => attributes,
        };
        if attributes.is_sized || self.inodes().opens(ino) == 0 {
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
        Ok(Stat::Measuring(attributes, self.measuring().begin(ino, measurable)))
    }

    /// What was too dear to know before an open file was opened, and is known since.
    fn attributes_of_open(&self, attributes: Attributes) -> Attributes {
        match self.handles().len_of_bytes(attributes.ino) {
            Some(size) => Attributes { size, is_sized: true, ..attributes },
            None => attributes,
        }
    }

    /// The attributes of an open file whose name is gone, and whose bytes are promised to those who hold it.
    fn stat_of_held(&self, ino: u64, node: &Node) -> Option<Attributes> {
        let (size, mtime) = match self.handles().content_of(|handle| handle.ino == ino)? {
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
        Some(Attributes {
            ino,
            is_dir: false,
            size,
            is_sized,
            lasting: Lasting::Changing,
            mtime,
            mode,
            uid,
            gid,
        })
    }

    /// The attributes of a node, whose size may cost `effort`; 0 if it costs more.
    ///
    /// # Errors
    /// Those of reading.
    pub fn attributes(&self, ino: u64, node: &Node, effort: Effort) -> Result<Attributes, FsError> {
        again(|| self.attributes_once(ino, node, effort))
    }

    fn attributes_once(&self, ino: u64, node: &Node, effort: Effort) -> Result<Attributes, FsError> {
        let owner = self.owner_of(node);
        let mut attributes = Attributes {
            ino,
            is_dir: node.is_dir(),
            size: 0,
            is_sized: true,
            lasting: if node.is_dir() { Lasting::AsItsName } else { Lasting::Changing },
            mtime: self.started(),
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
                if !grows(node) {
                    attributes.set_final();
                }
                attributes.mtime = self.written_below(key, records.end.unwrap_or(Offset(i64::MAX)))?;
            }
            Node::Of(_, Item::Record(..)) => {
                let content = self.record_content(node)?;
                attributes.size = content.bytes.len() as u64;
                attributes.mtime = content.mtime;
                attributes.set_final();
            }
            Node::Of(key, Item::SourceFile(name, id)) => {
                let path = self.source_path(key, name)?;
                let meta = std::fs::symlink_metadata(&path).map_err(|_| FsError::NotFound)?;
                if FileId::of(&meta) != *id {
                    return Err(FsError::UnknownHandle);
                }
                attributes.size = meta.len();
                attributes.mtime = meta.modified().unwrap_or(self.started());
            }
            Node::Of(key, Item::Timed(timed)) => {
                attributes.set_size(self.filtered(key, node)?.size(effort)?);
                attributes.set_final();
                attributes.mtime = no_later(self.written_below(key, timed.end)?, timed.period);
            }
            Node::OfAll(key, AllItem::Records(records)) => {
                attributes.set_size(self.merged(key, records)?.size(effort)?);
                if !grows(node) {
                    attributes.set_final();
                }
                attributes.mtime = self.all_time(key, records)?;
            }
            Node::Of(key, Item::Number(number)) if !self.is_cheap(key, *number, effort)? => {
                attributes.is_sized = false;
            }
            // Another text each time.
            Node::ControlFile(ControlFile::Manifest(_) | ControlFile::Metrics) => attributes.is_sized = false,
            Node::Of(_, Item::Info { .. }) | Node::ControlFile(ControlFile::Problems)
                if matches!(effort, Effort::Bytes(_)) && !self.cluster().is_near(CHEAP_BYTES) =>
            {
                attributes.is_sized = false;
            }
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
                attributes.set_final();
            }
            Node::Of(key, Item::Dump(dump)) => {
                attributes.set_size(self.dump(key, dump)?.size(effort)?);
                attributes.mtime = source_time(&self.source_path(key, &dump.name)?);
            }
            Node::Of(_, Item::Follow(_)) | Node::OfAll(_, AllItem::Follow(_)) => {}
            // Empty at all times: there is nothing to truncate, and offsets mean nothing.
            Node::Of(_, Item::Append(_)) => attributes.mode = owner.append_mode,
            // Who may append may make directories, too.
            Node::Root | Node::Topic(_) if self.is_writable() => attributes.mode |= owner.append_mode,
            _ if !attributes.is_dir => {
                attributes.size = self.small_file(node)?.len() as u64;
                if is_fixed(node) {
                    attributes.set_final();
                }
            }
            _ => {}
        }
        Ok(attributes)
    }

    /// How the kernel has to read what a node contains.
    pub(super) fn reading(&self, ino: u64, node: &Node, content: &Content) -> Reading {
        match content {
            Content::Follow(_) => Reading::Stream,
            // What grows, or may be short, is not measured to learn that.
            Content::Selection(..) | Content::Filtered(_) | Content::Merged(_) | Content::KeyHistory(_)
                if !grows(node) && !self.fails_on_damage(node) =>
            {
                let attributes = self.attributes(ino, node, Effort::Bytes(CHEAP_BYTES));
                let is_final = attributes.is_ok_and(|attributes| attributes.lasting == Lasting::Final);
                if is_final { Reading::Cached } else { Reading::Direct }
            }
            Content::Bytes(_) if is_fixed(node) => Reading::Cached,
            Content::Source(file) if self.passes_through(file) => Reading::Source,
            _ => Reading::Direct,
        }
    }

    /// Whether the kernel may read a source file by itself.
    fn passes_through(&self, file: &SourceFile) -> bool {
        match self.options().passthrough {
            Passthrough::ReadOnly => file.is_on_read_only(),
            Passthrough::Always => true,
            Passthrough::Never => false,
        }
    }

    /// Whether a read may be short where damage is: the page cache would take that for the end.
    fn fails_on_damage(&self, node: &Node) -> bool {
        let topic = match node {
            Node::Of(key, _) => &key.topic,
            Node::OfAll(key, _) => &key.topic,
            _ => return false,
        };
        self.of_topic(topic).scope().fail_on_damage
    }

    /// When the last record below `end` was written: the time of its segment.
    pub(super) fn written_below(&self, key: &PartitionKey, end: Offset) -> Result<SystemTime, FsError> {
        let segments = self.view(key)?.partition.segments()?;
        let last = segments.iter().rev().find(|segment| segment.lower < end);
        Ok(last.map_or(self.started(), |segment| source_time(&segment.path)))
    }

    fn owner_of(&self, node: &Node) -> Owner {
        if self.options().access == Access::OwnerOnly {
            return self.owner();
        }
        if let Node::All(key) | Node::OfAll(key, _) = node {
            return self.owner_of_all(key);
        }
        let view = node.partition().and_then(|key| self.view(key).ok());
        let path = match &view {
            Some(view) => Some(view.partition.origin.path()),
            None => self.source().paths().first().copied(),
        };
        let meta = path.and_then(|path| std::fs::metadata(path).ok());
        let owner = meta.as_ref().map_or(self.owner(), Owner::of_source);
        let (Some(view), Node::Of(key, item)) = (view, node) else { return owner };
        // A file's rights are those of the segments that it is made from.
        let source = match item {
            Item::SourceFile(name, _) | Item::Dump(DumpOf { name, .. }) => self.source_path(key, name).ok(),
            _ => view.partition.segments().ok().and_then(|s| s.last().map(|segment| segment.path.clone())),
        };
        let file = source.and_then(|path| std::fs::metadata(path).ok());
        file.map_or(owner, |meta| {
            let Owner { file_mode, append_mode, .. } = Owner::of_source(&meta);
            Owner { file_mode, append_mode, ..owner }
        })
    }

    /// Who may read all of some partitions: nobody who may not read each.
    fn owner_of_all(&self, key: &AllKey) -> Owner {
        // Any file that is made from a partition's segments stands for all of them.
        let owners = self
            .partitions_of(&key.topic)
            .into_iter()
            .map(|partition| self.owner_of(&Node::Of(self.partition_key(key, &partition), Item::Problems)));
        owners.reduce(|a, b| a.both(b, self.owner())).unwrap_or(self.owner())
    }
}

/// Whether it is a file of records that grows with the log.
const fn grows(node: &Node) -> bool {
    match node {
        Node::Of(_, Item::Records(records)) => records.end.is_none(),
        Node::OfAll(_, AllItem::Records(records)) => records.ends.is_none(),
        _ => false,
    }
}

/// Whether a small file is a text of ours that is the same at each open.
const fn is_fixed(node: &Node) -> bool {
    match node {
        Node::Readme | Node::ControlFile(ControlFile::Version | ControlFile::Config) => true,
        Node::Of(_, item) => matches!(
            item,
            Item::ByOffsetReadme | Item::ByKeyReadme | Item::ByTimeReadme | Item::OffsetsReadme
        ),
        Node::OfAll(_, item) => matches!(item, AllItem::ByKeyReadme | AllItem::ByTimeReadme),
        _ => false,
    }
}
