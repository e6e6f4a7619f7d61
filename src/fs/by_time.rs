//! `by-time/`: records by when they were written.
//!
//! What a directory lists is cheap to tell and may be too much; what it contains by name is exact.

use std::ffi::OsString;
use std::time::SystemTime;

use jiff::tz::Offset as UtcOffset;

use crate::fs::attributes::record_time;
use crate::fs::error::{BY_TIME, FsError};
use crate::fs::listing::{MAX_NAMES, name_of_part, parts};
use crate::fs::mounted::Fs;
use crate::fs::names::{self, ByOffset, Place, RangeEnd, RecordForm};
use crate::fs::node::{Follow, Item, Node, PartitionKey, Since, Timed, Times};
use crate::fs::options::Listing;
use crate::fs::time_names::{ByTime, Clock, Unit};
use crate::units::{Offset, Period, Timestamp};
use crate::view::format::Formats;

const HOUR_MS: i64 = 3600 * 1000;

impl Fs {
    /// A name in `by-time`.
    pub(super) fn by_time_child(&self, key: &PartitionKey, name: &str) -> Result<Node, FsError> {
        if name == "README.txt" {
            return Ok(Node::Of(key.clone(), Item::ByTimeReadme));
        }
        let named = ByTime::parse(name, &self.clock(&key.topic, None), self.formats())
            .ok_or_else(|| FsError::bad_name(name, BY_TIME))?;
        self.named_time(key, named)
    }

    /// A name in the directory of a period: a part of it, or one of its records.
    pub(super) fn times_child(&self, key: &PartitionKey, times: &Times, name: &str) -> Result<Node, FsError> {
        if let Some(since) = since(times.period)
            && let Some(format) = self.follow_format(name)
        {
            return Ok(Node::Of(key.clone(), Item::Follow(Follow { format, since })));
        }
        if times.unit == Unit::Records {
            return self.record_in(key, times, name);
        }
        let clock = self.clock(&key.topic, times.utc_offset);
        let named = part_named(name, times.period, times.unit, (&clock, self.formats()))?;
        self.named_time(key, ByTime { utc_offset: named.utc_offset.or(times.utc_offset), ..named })
    }

    /// The file or directory of a period, up to the log's end as it is now.
    fn named_time(&self, key: &PartitionKey, named: ByTime) -> Result<Node, FsError> {
        let ByTime { period, unit, utc_offset, format } = named;
        let view = self.view(key)?;
        let (start, end) = (view.start()?, view.end(key.committed)?);
        let generation = view.partition.generation();
        let item = match format {
            Some(format) => Item::Timed(Timed { period, format, start, end, generation }),
            None => Item::Times(Times { period, unit, utc_offset, start, end, generation }),
        };
        Ok(Node::Of(key.clone(), item))
    }

    /// A record of a period by its offset, or a range of offsets.
    fn record_in(&self, key: &PartitionKey, times: &Times, name: &str) -> Result<Node, FsError> {
        let within = |offset: Offset| times.start <= offset && offset <= times.end;
        let period = times.period;
        let item = match ByOffset::parse(name, self.formats()) {
            Some(ByOffset::Record(Place::At(offset), form)) if within(offset) => {
                let view = self.view(key)?;
                let time = view.record(key.committed, offset, |record, _| record.timestamp)?;
                time.filter(|time| period.contains(*time)).ok_or(FsError::NotFound)?;
                Item::Record(offset, form, times.generation)
            }
            Some(ByOffset::Range {
                from: Some(Place::At(from)),
                to: RangeEnd::Before(Place::At(to)),
                format,
            }) if within(from) && within(to) => {
                let (start, end, generation) = (from, to.max(from), times.generation);
                match format {
                    Some(format) => Item::Timed(Timed { period, format, start, end, generation }),
                    None => Item::Times(Times { start, end, ..*times }),
                }
            }
            _ => return Err(FsError::NotFound),
        };
        Ok(Node::Of(key.clone(), item))
    }

    /// The days on which there may be records.
    pub(super) fn by_time_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let mut names = vec![("README.txt".into(), Node::Of(key.clone(), Item::ByTimeReadme))];
        for day in self.parts_of(key, Period::ALL, Unit::Days, &self.clock(&key.topic, None))? {
            let node = self.by_time_child(key, &day)?;
            names.push((day.into(), node));
        }
        Ok(names)
    }

    /// The days or hours of a period, or its records.
    pub(super) fn times_names(
        &self,
        key: &PartitionKey,
        times: &Times,
    ) -> Result<Vec<(OsString, Node)>, FsError> {
        let clock = self.clock(&key.topic, times.utc_offset);
        if times.unit == Unit::Records {
            return self.names_of_records(key, times);
        }
        let found = self.parts_of(key, times.period, times.unit, &clock)?;
        let of_topic = self.of_topic(&key.topic);
        let with_directories = times.unit == Unit::Days || of_topic.options.listing == Listing::Full;
        let directories = found.iter().filter(|_| with_directories).cloned();
        // The directory of an hour has a name for each record, so that walks must not meet it.
        let files = found.iter().filter(|_| times.unit == Unit::Hours);
        let extensions: Vec<_> =
            of_topic.formats_listed.iter().map(|f| self.formats().extension(*f)).collect();
        let files =
            files.flat_map(|hour| extensions.iter().map(move |extension| format!("{hour}.{extension}")));
        let node = |name: String| Ok((name.clone().into(), self.times_child(key, times, &name)?));
        directories.chain(files).map(node).collect()
    }

    fn names_of_records(&self, key: &PartitionKey, times: &Times) -> Result<Vec<(OsString, Node)>, FsError> {
        let most = usize::try_from(MAX_NAMES).unwrap_or(usize::MAX);
        let node = Node::Of(key.clone(), Item::Times(*times));
        let (offsets, last) = self.filtered(key, &node)?.offsets(most + 1)?;
        let (Some(first), Some(last)) = (offsets.first(), last) else { return Ok(Vec::new()) };
        if offsets.len() <= most {
            let item = |offset| Item::Record(offset, RecordForm::Value, times.generation);
            let record = |offset| Node::Of(key.clone(), item(offset));
            return Ok(offsets
                .iter()
                .map(|offset| (names::padded(*offset).into(), record(*offset)))
                .collect());
        }
        let part = |(start, end)| Node::Of(key.clone(), Item::Times(Times { start, end, ..*times }));
        Ok(parts(*first, last.next()).map(|range| (name_of_part(range).into(), part(range))).collect())
    }

    /// The names of the days or hours of a period in which there may be records.
    fn parts_of(
        &self,
        key: &PartitionKey,
        period: Period,
        unit: Unit,
        clock: &Clock,
    ) -> Result<Vec<String>, FsError> {
        let view = self.view(key)?;
        parts_of(period, unit, clock, |time| Ok(view.next_time(key.committed, time)?))
    }

    /// The time now, in the time zone that a topic's names are in.
    pub(super) fn clock(&self, topic: &str, utc_offset: Option<i32>) -> Clock {
        let fixed = utc_offset.and_then(|seconds| UtcOffset::from_seconds(seconds).ok());
        let configured = || self.of_topic(topic).options.timezone.clone();
        Clock::now(fixed.map_or_else(configured, UtcOffset::to_time_zone))
    }
}

/// Where following a period's records begins; nowhere if the period ends.
pub(super) fn since(period: Period) -> Option<Since> {
    (period.to == Period::ALL.to).then_some(Since::Time(period.from))
}

/// The time of a period's file: that of its last segment, or the period's end where that is earlier.
pub(super) fn no_later(written: SystemTime, period: Period) -> SystemTime {
    if period.to == Period::ALL.to { written } else { written.min(record_time(period.to)) }
}

/// The day or hour of a period that a name in its directory stands for.
pub(super) fn part_named(
    name: &str,
    period: Period,
    unit: Unit,
    (clock, formats): (&Clock, &Formats),
) -> Result<ByTime, FsError> {
    let named = if unit == Unit::Hours {
        let date = clock.date(period.from).ok_or(FsError::NotFound)?;
        ByTime::parse(&format!("{date}T{name}"), clock, formats).filter(|_| !name.contains(".."))
    } else {
        ByTime::parse(name, clock, formats)
    };
    let named = named.ok_or_else(|| FsError::bad_name(name, BY_TIME))?;
    let is_within = period.from <= named.period.from && named.period.to <= period.to;
    if is_within { Ok(named) } else { Err(FsError::NotFound) }
}

/// The names of a period's days or hours in which there may be records; `next` says when there may be some, at or after a time.
pub(super) fn parts_of(
    period: Period,
    unit: Unit,
    clock: &Clock,
    mut next: impl FnMut(Timestamp) -> Result<Option<Timestamp>, FsError>,
) -> Result<Vec<String>, FsError> {
    let mut names: Vec<String> = Vec::new();
    let mut at = Timestamp(period.from.0.max(0));
    while let Some(time) = next(at)?.filter(|time| *time < period.to) {
        let part = if unit == Unit::Days { day_at(time, clock) } else { hour_at(time, clock) };
        let Some((name, end)) = part else { break };
        // The hour that a clock change repeats is one name.
        if names.last() != Some(&name) {
            names.push(name);
        }
        at = end;
    }
    Ok(names)
}

/// The day at a time, and its end; `None` behind the calendar's end.
fn day_at(time: Timestamp, clock: &Clock) -> Option<(String, Timestamp)> {
    let day = clock.date(time)?.to_string();
    let end = ByTime::parse(&day, clock, &Formats::default())?.period.to;
    Some((day, end))
}

/// The hour of the day at a time, and its end.
fn hour_at(time: Timestamp, clock: &Clock) -> Option<(String, Timestamp)> {
    let time_of_day = clock.time_of_day(time)?;
    let into_hour = i64::from(time_of_day.minute()) * 60_000
        + i64::from(time_of_day.second()) * 1000
        + i64::from(time_of_day.millisecond());
    Some((format!("{:02}", time_of_day.hour()), Timestamp(time.0 - into_hour + HOUR_MS)))
}
