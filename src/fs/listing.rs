//! What directories list: enough to find one's way, never a name for each record unless it was asked for.

use std::ffi::OsString;
use std::sync::Arc;

use crate::fs::error::FsError;
use crate::fs::handles::{Content, Entry};
use crate::fs::lookup::belongs;
use crate::fs::mounted::Fs;
use crate::fs::names;
use crate::fs::node::{
    AllItem, AllKey, ControlFile, Item, Node, PartitionKey, ROOT_INO, RecordRange, Records, RecordsKind,
};
use crate::fs::options::Listing;
use crate::fs::overview::OverviewForm;
use crate::log::partition::{Origin, Partition};
use crate::units::Offset;
use crate::view::run::Goal;

/// The most names in the directory of a range; a longer range lists parts of itself instead.
pub(super) const MAX_NAMES: i64 = 10_000;

impl Fs {
    /// The entries of a directory with inode number `ino`, `.` and `..` first.
    ///
    /// # Errors
    /// [`FsError::NotADirectory`], or those of reading.
    pub fn list(&self, ino: u64, node: &Node) -> Result<Vec<Entry>, FsError> {
        let dot = |name: &str, ino| Entry { ino, name: name.into(), is_dir: true };
        let mut entries = vec![dot(".", ino), dot("..", ROOT_INO)];
        for (name, child) in self.names(node)? {
            entries.push(Entry { ino: self.inodes().number(&child), is_dir: child.is_dir(), name });
        }
        Ok(entries)
    }

    /// Calls `add` with the entries of an open directory that come after `cookie`, and the cookie of each, until it says that it
    /// has enough. The directory is as it was when it was opened.
    ///
    /// # Errors
    /// [`FsError::NotADirectory`], or those of reading.
    pub fn read_directory(
        &self,
        handle: u64,
        cookie: u64,
        mut add: impl FnMut(u64, &Entry) -> bool,
    ) -> Result<(), FsError> {
        match &self.handles().get(handle)?.content {
            Content::Directory(entries) => {
                let skip = usize::try_from(cookie).unwrap_or(usize::MAX);
                let mut entries = entries.iter().enumerate().skip(skip);
                entries.any(|(index, entry)| add(index as u64 + 1, entry));
                Ok(())
            }
            Content::Keys(listing) => listing.read(self.inodes(), cookie, &mut add),
            _ => Err(FsError::NotADirectory),
        }
    }

    /// The names in a directory, and their nodes as far as needed to tell what they are.
    fn names(&self, node: &Node) -> Result<Vec<(OsString, Node)>, FsError> {
        match node {
            Node::Root => Ok(self.root_names()),
            Node::Control => Ok(ControlFile::ALL
                .into_iter()
                .filter(|file| file.is_listed())
                .map(|file| (file.name().into(), Node::ControlFile(file)))
                .collect()),
            Node::Topic(topic) => self.topic_names(topic),
            Node::Partition(key) => self.partition_names(key),
            Node::Of(key, Item::ByOffset) => self.by_offset_names(key),
            Node::Of(key, Item::Range(range)) => self.range_names(key, range.start, range.end),
            Node::Of(key, Item::ByKey) => self.by_key_names(key),
            Node::Of(key, Item::ByTime) => self.by_time_names(key),
            Node::Of(key, Item::Times(times)) => self.times_names(key, times),
            Node::Of(key, Item::Offsets) => self.offsets_names(key),
            Node::Of(key, Item::BySegment) => self.by_segment_names(key),
            Node::Of(key, Item::Segments) => self.segment_names(key),
            Node::Of(key, Item::DumpDir) => self.dump_names(key),
            Node::All(key) => self.all_names(key),
            Node::OfAll(key, AllItem::ByTime) => self.all_by_time_names(key),
            Node::OfAll(key, AllItem::ByKey) => {
                Ok(vec![("README.txt".into(), Node::OfAll(key.clone(), AllItem::ByKeyReadme))])
            }
            Node::OfAll(key, AllItem::Times { period, unit, utc_offset }) => {
                self.all_times_names(key, (*period, *unit, *utc_offset))
            }
            Node::Of(..) | Node::OfAll(..) | Node::Readme | Node::ControlFile(_) => {
                Err(FsError::NotADirectory)
            }
            Node::Topics | Node::TopicInfo(..) => Err(FsError::NotADirectory),
        }
    }

    fn root_names(&self) -> Vec<(OsString, Node)> {
        let tree = self.source().tree();
        let mut names = Vec::with_capacity(tree.topics.len() + 3);
        for (name, node) in
            [(".topicfs", Node::Control), ("README.txt", Node::Readme), ("topics.tsv", Node::Topics)]
        {
            if !tree.topics.contains_key(name) {
                names.push((name.into(), node));
            }
        }
        names.extend(tree.topics.keys().map(|topic| (topic.into(), Node::Topic(topic.as_str().into()))));
        names
    }

    fn topic_names(&self, topic: &Arc<str>) -> Result<Vec<(OsString, Node)>, FsError> {
        let tree = self.source().tree();
        let partitions = tree.topics.get(&**topic).ok_or(FsError::NotFound)?;
        let committed = self.is_committed(topic);
        let partition = |label: &str| {
            let key = PartitionKey { topic: topic.clone(), label: label.into(), committed };
            (OsString::from(label), Node::Partition(key))
        };
        let mut names: Vec<_> = partitions.iter().map(|one| partition(&one.label)).collect();
        if !self.partitions_of(topic).is_empty() {
            names.push(("all".into(), Node::All(AllKey { topic: topic.clone(), committed })));
        }
        for (name, form) in [("info", OverviewForm::Text), ("info.json", OverviewForm::Json)] {
            names.push((name.into(), Node::TopicInfo(topic.clone(), form)));
        }
        Ok(names)
    }

    fn partition_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let of = |item| Node::Of(key.clone(), item);
        let mut names: Vec<(OsString, Node)> = vec![
            ("by-offset".into(), of(Item::ByOffset)),
            ("by-key".into(), of(Item::ByKey)),
            ("by-time".into(), of(Item::ByTime)),
            ("offsets".into(), of(Item::Offsets)),
            ("by-segment".into(), of(Item::BySegment)),
            ("segments".into(), of(Item::Segments)),
            ("dump".into(), of(Item::DumpDir)),
            ("info".into(), of(Item::Info { json: false })),
            ("info.json".into(), of(Item::Info { json: true })),
            ("problems".into(), of(Item::Problems)),
        ];
        let segments = self.view(key)?.partition.segments()?;
        let is_at_hand = segments.last().is_none_or(|active| active.is_at_hand());
        let of_topic = self.of_topic(&key.topic);
        for (stem, kind) in [("log", RecordsKind::Log), ("tail", RecordsKind::Tail)] {
            for format in &of_topic.formats_listed {
                let name = names::listed_name(stem, *format, self.formats());
                // Where `tail` begins is not worth unpacking segments, and what can't be read has its name still.
                let found = match kind {
                    RecordsKind::Tail if !is_at_hand => None,
                    _ => self.child(&Node::Partition(key.clone()), name.as_ref()).ok(),
                };
                let (start, end, generation) = (Offset(0), None, 0);
                let unknown = Records { kind, format: *format, start, end, generation };
                names.push((name.into(), found.unwrap_or_else(|| of(Item::Records(unknown)))));
            }
        }
        names.extend(self.append_names(key));
        Ok(names)
    }

    fn by_offset_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let mut names = vec![("README.txt".into(), Node::Of(key.clone(), Item::ByOffsetReadme))];
        if self.of_topic(&key.topic).options.listing == Listing::Full {
            let view = self.view(key)?;
            let (start, end) = (view.start()?, view.end(key.committed)?);
            names.extend(parts_of_range(key, start, end));
        }
        Ok(names)
    }

    fn range_names(
        &self,
        key: &PartitionKey,
        start: Offset,
        end: Offset,
    ) -> Result<Vec<(OsString, Node)>, FsError> {
        if end.0.saturating_sub(start.0) > MAX_NAMES {
            return Ok(parts_of_range(key, start, end));
        }
        let view = self.view(key)?;
        let generation = view.generation()?;
        let mut names = Vec::new();
        view.with_env(key.committed, |env| {
            view.fail_at_damage(env, start, end)?;
            let segments = view.partition.segments()?;
            for segment in segments.iter().skip(Partition::floor(&segments, start)) {
                if segment.lower >= end {
                    break;
                }
                let run = view.run_near(env, segment, None, start)?;
                run.extend(env, None, Goal::Offset(end))?;
                for block in run.blocks().iter().filter(|block| block.last() >= start && block.base() < end) {
                    run.for_each_record(env, block, |record, _| {
                        if record.offset >= start && record.offset < end {
                            let item = Item::Record(record.offset, names::RecordForm::Value, generation);
                            names.push((names::padded(record.offset).into(), Node::Of(key.clone(), item)));
                        }
                        record.offset < end
                    })?;
                }
            }
            Ok::<_, FsError>(())
        })?;
        Ok(names)
    }

    fn by_segment_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let view = self.view(key)?;
        let log_start = view.start()?;
        let (directory, of_topic) = (Node::Of(key.clone(), Item::BySegment), self.of_topic(&key.topic));
        let mut names = Vec::new();
        for segment in view.partition.segments()?.iter().filter(|segment| segment.below() > log_start) {
            for format in &of_topic.formats_listed {
                let name = names::listed_name(&names::padded(segment.base), *format, self.formats());
                let child = self.child(&directory, name.as_ref())?;
                names.push((name.into(), child));
            }
        }
        Ok(names)
    }

    fn segment_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let node = Node::Of(key.clone(), Item::Segments);
        let files = self.files_of(key)?.into_iter();
        Ok(files.filter_map(|name| Some((name.clone(), self.child(&node, &name).ok()?))).collect())
    }

    /// The names of a partition's files, in order.
    pub(super) fn files_of(&self, key: &PartitionKey) -> Result<Vec<OsString>, FsError> {
        let view = self.view(key)?;
        let directory = match &view.partition.origin {
            Origin::Directory(path) => path.as_path(),
            Origin::File(path) => path.parent().unwrap_or(path),
        };
        let entries = std::fs::read_dir(directory)
            .map_err(|source| FsError::Source { path: directory.display().to_string(), source })?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<_> = names.filter(|name| belongs(&view.partition.origin, name)).collect();
        names.sort();
        Ok(names)
    }
}

/// The directories that a range is listed as when it is too long for names of records.
fn parts_of_range(key: &PartitionKey, start: Offset, end: Offset) -> Vec<(OsString, Node)> {
    let range = |(start, end)| RecordRange { start, end, is_open: false };
    let node = |part| Node::Of(key.clone(), Item::Range(range(part)));
    parts(start, end).map(|part| (name_of_part(part).into(), node(part))).collect()
}

/// The name of a part.
pub(super) fn name_of_part((first, last): (Offset, Offset)) -> String {
    format!("{}..{}", names::padded(first), names::padded(last))
}

/// The parts of a long range: aligned, at most 10,000.
pub(super) fn parts(start: Offset, end: Offset) -> impl Iterator<Item = (Offset, Offset)> {
    let length = end.0.saturating_sub(start.0);
    let mut width = MAX_NAMES;
    while length / width >= MAX_NAMES {
        width = width.saturating_mul(10);
    }
    let mut from = start.0;
    std::iter::from_fn(move || {
        let first = Some(from).filter(|first| *first < end.0)?;
        from = (first / width).saturating_add(1).saturating_mul(width).min(end.0);
        Some((Offset(first), Offset(from)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(start: i64, end: i64) -> Vec<String> {
        let key = PartitionKey { topic: "t".into(), label: "0".into(), committed: false };
        let parts = parts_of_range(&key, Offset(start), Offset(end));
        parts.into_iter().map(|(name, _)| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_long_range_is_listed_as_aligned_parts_that_cover_it() {
        let names = parts(5, 25_000);
        assert_eq!(
            names,
            [
                "00000000000000000005..00000000000000010000",
                "00000000000000010000..00000000000000020000",
                "00000000000000020000..00000000000000025000",
            ]
        );
        assert!(parts(0, i64::MAX).len() <= 10_001);
        assert!(parts(7, 7).is_empty());
    }
}
