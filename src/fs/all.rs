//! `all/`: a topic's partitions as one, their records merged by time.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::fs::by_time::{no_later, part_named, parts_of, since};
use crate::fs::error::{BY_TIME, FsError};
use crate::fs::handles::Content;
use crate::fs::key_names;
use crate::fs::mounted::Fs;
use crate::fs::names::{self, RecordForm};
use crate::fs::node::{AllItem, AllKey, AllKind, AllRecords, Follow, Node, PartitionKey, Since};
use crate::fs::tails::{Begin, Known, TailOf};
use crate::fs::time_names::{ByTime, Unit};
use crate::units::{Offset, PartitionId, Period};
use crate::view::filtered::Filtered;
use crate::view::format::Format;
use crate::view::keys::{KeyRange, Wanted};
use crate::view::merged::{Merged, Share};
use crate::view::partition_view::PartitionView;
use crate::view::passing::{Filter, Passing};
use crate::view::selection::Selection;

/// What a directory of a period is: its time, what it lists, and the offset from UTC that its name says.
type Times = (Period, Unit, Option<i32>);

impl Fs {
    /// The numbers of a topic's partitions, those that a broker serves, in order.
    pub(super) fn partitions_of(&self, topic: &str) -> Vec<Arc<str>> {
        let tree = self.source().tree();
        let labels = tree.topics.get(topic).into_iter().flatten().map(|partition| &partition.label);
        let mut numbers: Vec<(PartitionId, Arc<str>)> =
            labels.filter_map(|label| Some((label.parse().ok()?, label.as_str().into()))).collect();
        numbers.sort();
        numbers.into_iter().map(|(_, label)| label).collect()
    }

    /// The key of one of the partitions.
    pub(super) fn partition_key(&self, key: &AllKey, label: &Arc<str>) -> PartitionKey {
        PartitionKey { topic: key.topic.clone(), label: label.clone(), committed: key.committed }
    }

    pub(super) fn views(&self, key: &AllKey) -> Result<Vec<Arc<PartitionView>>, FsError> {
        let labels = self.partitions_of(&key.topic);
        if labels.is_empty() {
            return Err(FsError::NotFound);
        }
        labels.iter().map(|label| self.view(&self.partition_key(key, label))).collect()
    }

    /// A name in `all`.
    pub(super) fn all_child(&self, key: &AllKey, name: &str) -> Result<Node, FsError> {
        match name {
            "by-time" => return Ok(Node::OfAll(key.clone(), AllItem::ByTime)),
            "by-key" => return Ok(Node::OfAll(key.clone(), AllItem::ByKey)),
            _ => {}
        }
        if let Some(format) = self.follow_format(name) {
            return self.all_follow(key, Follow { format, since: Since::Now });
        }
        let stems = [("log", AllKind::Log), ("tail", AllKind::Tail)];
        let found = stems
            .iter()
            .find_map(|(stem, kind)| Some((kind.clone(), names::format_of(name, stem, self.formats())?)));
        let (kind, format) = found.ok_or(FsError::NotFound)?;
        let views = self.views(key)?;
        let stamp = stamp(&views)?;
        let starts = match kind {
            AllKind::Tail => self.all_tail(key, &views, stamp)?.starts,
            _ => views.iter().map(|view| view.start()).collect::<Result<_, _>>()?,
        };
        let records = AllRecords { kind, format, starts, ends: None, stamp };
        self.all_records(key, records)
    }

    /// Whole batches can't be merged.
    fn all_records(&self, key: &AllKey, records: AllRecords) -> Result<Node, FsError> {
        match records.format.is_of_batches() {
            true => Err(FsError::NotFound),
            false => Ok(Node::OfAll(key.clone(), AllItem::Records(records))),
        }
    }

    fn all_follow(&self, key: &AllKey, follow: Follow) -> Result<Node, FsError> {
        match follow.format.is_of_batches() {
            true => Err(FsError::NotFound),
            false => Ok(Node::OfAll(key.clone(), AllItem::Follow(follow))),
        }
    }

    /// The names in `all`.
    pub(super) fn all_names(&self, key: &AllKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let of = |item| Node::OfAll(key.clone(), item);
        let mut names: Vec<(OsString, Node)> =
            vec![("by-time".into(), of(AllItem::ByTime)), ("by-key".into(), of(AllItem::ByKey))];
        let of_topic = self.of_topic(&key.topic);
        for stem in ["log", "tail"] {
            for format in of_topic.formats_listed.iter().filter(|format| !format.is_of_batches()) {
                let name = names::listed_name(stem, *format, self.formats());
                if let Ok(node) = self.all_child(key, &name) {
                    names.push((name.into(), node));
                }
            }
        }
        Ok(names)
    }

    /// A name in `all/by-key`: the latest record that any partition has of a key, or all that they have.
    pub(super) fn all_by_key_child(&self, key: &AllKey, name: &OsStr) -> Result<Node, FsError> {
        if name == "README.txt" {
            return Ok(Node::OfAll(key.clone(), AllItem::ByKeyReadme));
        }
        let parsed = key_names::parse(name.as_bytes(), self.formats());
        let (named, form) = parsed.ok_or(FsError::NotFound)?;
        let is_it = |key: &[u8]| named.is(key);
        let wanted = Wanted::new(named.hash(), &is_it);
        let labels = self.partitions_of(&key.topic);
        let views = self.views(key)?;
        let child = |number: usize| {
            let label = labels.get(number).ok_or(FsError::NotFound)?;
            self.by_key_child(&self.partition_key(key, label), name)
        };
        let RecordForm::Rendered(format) = form else {
            let mut latest = None;
            for (number, view) in views.iter().enumerate() {
                let found =
                    view.latest_of_key(key.committed, wanted, |record, _| (record.timestamp, number))?;
                latest = latest.max(found);
            }
            return child(latest.map(|(_, number)| number).ok_or(FsError::NotFound)?);
        };
        let ranges = views.iter().map(|view| view.range_of_key(key.committed, wanted));
        let ranges: Vec<Option<KeyRange>> = ranges.collect::<Result<_, _>>()?;
        let mut having = ranges.iter().enumerate().filter(|(_, range)| range.is_some());
        match (having.next(), having.next()) {
            (None, _) => Err(FsError::NotFound),
            // Producers send a key to one partition, unless the number of partitions has changed.
            (Some((number, _)), None) => child(number),
            (Some((_, first)), Some(_)) => {
                let of = first.as_ref().map(|range| range.key.clone()).ok_or(FsError::NotFound)?;
                // Of a partition without the key there is nothing, from where it begins on.
                let edge = |edge: fn(&KeyRange) -> Offset| -> Result<Arc<[Offset]>, FsError> {
                    let both = ranges.iter().zip(&views);
                    both.map(|(range, view)| Ok(range.as_ref().map_or(view.start()?, edge))).collect()
                };
                let starts = edge(|range| range.offsets.start)?;
                let ends = Some(edge(|range| range.offsets.end)?);
                let (kind, stamp) = (AllKind::Key(of), stamp(&views)?);
                self.all_records(key, AllRecords { kind, format, starts, ends, stamp })
            }
        }
    }

    /// A name in `all/by-time`.
    pub(super) fn all_by_time_child(&self, key: &AllKey, name: &str) -> Result<Node, FsError> {
        if name == "README.txt" {
            return Ok(Node::OfAll(key.clone(), AllItem::ByTimeReadme));
        }
        let clock = self.clock(&key.topic, None);
        let named =
            ByTime::parse(name, &clock, self.formats()).ok_or_else(|| FsError::bad_name(name, BY_TIME))?;
        self.all_named_time(key, named)
    }

    /// A name in a directory of `all/by-time`.
    pub(super) fn all_times_child(
        &self,
        key: &AllKey,
        (period, unit, utc_offset): Times,
        name: &str,
    ) -> Result<Node, FsError> {
        if let Some(since) = since(period)
            && let Some(format) = self.follow_format(name)
        {
            return self.all_follow(key, Follow { format, since });
        }
        let clock = self.clock(&key.topic, utc_offset);
        let named = part_named(name, period, unit, (&clock, self.formats()))?;
        self.all_named_time(key, ByTime { utc_offset: named.utc_offset.or(utc_offset), ..named })
    }

    /// The file of a period up to the logs' ends as they are now, or the directory of a long one: records have no name of their own here,
    /// since each partition has its own offsets.
    fn all_named_time(&self, key: &AllKey, named: ByTime) -> Result<Node, FsError> {
        let ByTime { period, unit, utc_offset, format } = named;
        let Some(format) = format else {
            return match unit {
                Unit::Records => Err(FsError::NotFound),
                _ => Ok(Node::OfAll(key.clone(), AllItem::Times { period, unit, utc_offset })),
            };
        };
        let views = self.views(key)?;
        let starts = views.iter().map(|view| view.start()).collect::<Result<_, _>>()?;
        let ends = Some(views.iter().map(|view| view.end(key.committed)).collect::<Result<_, _>>()?);
        let (kind, stamp) = (AllKind::Period(period), stamp(&views)?);
        self.all_records(key, AllRecords { kind, format, starts, ends, stamp })
    }

    /// The days on which there may be records.
    pub(super) fn all_by_time_names(&self, key: &AllKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let mut names = vec![("README.txt".into(), Node::OfAll(key.clone(), AllItem::ByTimeReadme))];
        names.extend(self.all_times_names(key, (Period::ALL, Unit::Days, None))?);
        Ok(names)
    }

    /// The days or hours of a period in which there may be records.
    pub(super) fn all_times_names(
        &self,
        key: &AllKey,
        times: Times,
    ) -> Result<Vec<(OsString, Node)>, FsError> {
        let (period, unit, utc_offset) = times;
        let views = self.views(key)?;
        let clock = self.clock(&key.topic, utc_offset);
        let found = parts_of(period, unit, &clock, |time| {
            let times = views.iter().map(|view| view.next_time(key.committed, time));
            Ok(times.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().min())
        })?;
        let of_topic = self.of_topic(&key.topic);
        let formats = of_topic.formats_listed.iter().filter(|format| !format.is_of_batches());
        let extensions: Vec<_> = formats.map(|format| self.formats().extension(*format)).collect();
        let files = |hour: String| extensions.iter().map(move |extension| format!("{hour}.{extension}"));
        let names: Vec<String> = match unit {
            Unit::Hours => found.into_iter().flat_map(files).collect(),
            _ => found,
        };
        let node = |name: String| Ok((name.clone().into(), self.all_times_child(key, times, &name)?));
        names.into_iter().map(node).collect()
    }

    /// The merged records of a file, shared by all that have it open.
    ///
    /// # Errors
    /// [`FsError::UnknownHandle`] when the partitions are others now.
    pub fn merged(&self, key: &AllKey, records: &AllRecords) -> Result<Arc<Merged>, FsError> {
        let cache_key = (key.clone(), records.clone());
        if let Some(merged) = self.kept_merged().get(&cache_key) {
            return Ok(merged.clone());
        }
        // For those who have it open, records keep their order.
        let node = Node::OfAll(key.clone(), AllItem::Records(records.clone()));
        if let Some(Content::Merged(merged)) = self.handles().content_of(|handle| *handle.node == node) {
            self.kept_merged().push(cache_key, merged.clone());
            return Ok(merged);
        }
        let views = self.views(key)?;
        if stamp(&views)? != records.stamp {
            return Err(FsError::UnknownHandle);
        }
        let filter = match &records.kind {
            AllKind::Log | AllKind::Tail => Filter::Everything,
            AllKind::Period(period) => Filter::Period(*period),
            AllKind::Key(key) => Filter::Key(key.clone()),
        };
        let merged = Arc::new(merge(&views, key.committed, records, &filter));
        Ok(self.kept_merged().get_or_insert(cache_key, || merged).clone())
    }

    /// When the last of the records was written; no later than the end of a period.
    pub(super) fn all_time(&self, key: &AllKey, records: &AllRecords) -> Result<SystemTime, FsError> {
        let mut latest = SystemTime::UNIX_EPOCH;
        for label in self.partitions_of(&key.topic) {
            latest = latest.max(self.written_below(&self.partition_key(key, &label), Offset(i64::MAX))?);
        }
        Ok(match records.kind {
            AllKind::Period(period) => no_later(latest, period),
            _ => latest,
        })
    }

    /// Where the tail begins: fixed while anybody has it open, otherwise `tail_records` before the end.
    fn all_tail(&self, key: &AllKey, views: &[Arc<PartitionView>], stamp: u64) -> Result<Begin, FsError> {
        let ends: Arc<[Offset]> =
            views.iter().map(|view| view.end(key.committed)).collect::<Result<_, _>>()?;
        let log_starts: Vec<Offset> = views.iter().map(|view| view.start()).collect::<Result<_, _>>()?;
        let holds = |known: &Known| {
            let is_there = known.begin.starts.iter().zip(&log_starts).all(|(start, log)| start >= log);
            Ok(is_there && (known.is_open || known.ends == ends))
        };
        let find = || {
            let count = self.of_topic(&key.topic).options.tail_records;
            let mut starts = Vec::with_capacity(views.len());
            for (view, log_start) in views.iter().zip(&log_starts) {
                starts.push(view.nth_from_end(key.committed, count)?.unwrap_or(*log_start));
            }
            let (kind, format, starts) = (AllKind::Tail, Format::Text, starts.into());
            let records = AllRecords { kind, format, starts, ends: Some(ends.clone()), stamp };
            let starts = merge(views, key.committed, &records, &Filter::Everything).last(count)?;
            Ok((Begin { stamp, starts }, ends.clone()))
        };
        self.tails().begin(TailOf::All(key.clone()), stamp, holds, find)
    }
}

fn merge(views: &[Arc<PartitionView>], committed: bool, records: &AllRecords, filter: &Filter) -> Merged {
    let AllRecords { format, ref starts, ref ends, .. } = *records;
    let share = |(number, (view, start)): (usize, (&Arc<PartitionView>, &Offset))| {
        let end = ends.as_ref().and_then(|ends| ends.get(number).copied());
        let range = *start..end.unwrap_or(Offset(i64::MAX));
        let growing = || Arc::new(Selection::new(view.clone(), committed, format, *start, None));
        Share {
            records: Filtered::new(
                Passing { view: view.clone(), committed, filter: filter.clone(), range },
                format,
            ),
            growing: ends.is_none().then(growing),
        }
    };
    Merged::new(views.iter().zip(starts.iter()).enumerate().map(share).collect(), starts.clone())
}

/// A number for the partitions, and their generations.
pub(super) fn stamp(views: &[Arc<PartitionView>]) -> Result<u64, FsError> {
    let mut hasher = DefaultHasher::new();
    for view in views {
        view.partition.segments()?;
        (&view.partition.label, view.partition.generation()).hash(&mut hasher);
    }
    Ok(hasher.finish())
}
