//! `offsets/`: one number a file, as a broker answers ListOffsets and OffsetForLeaderEpoch.

use std::ffi::OsString;

use crate::fs::error::{FsError, OFFSETS};
use crate::fs::lookup::offset_of;
use crate::fs::mounted::Fs;
use crate::fs::names::Place;
use crate::fs::node::{Item, Node, Number, PartitionKey};
use crate::fs::time_names::instant;
use crate::units::{LeaderEpoch, Offset};
use crate::view::partition_view::CHEAP_BYTES;
use crate::view::selection::Effort;

/// The names that each partition has, as far as it has the numbers.
const NAMED: [(&str, Number); 5] = [
    ("earliest", Number::Earliest),
    ("latest", Number::Latest),
    ("high-watermark", Number::HighWatermark),
    ("last-stable", Number::LastStable),
    ("max-timestamp", Number::MaxTimestamp),
];

impl Fs {
    /// A name in `offsets`.
    pub(super) fn offsets_child(&self, key: &PartitionKey, name: &str) -> Result<Node, FsError> {
        if name == "README.txt" {
            return Ok(Node::Of(key.clone(), Item::OffsetsReadme));
        }
        let named = NAMED.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        let number = match named.or_else(|| epoch(name)) {
            Some(number) => number,
            None => self.other_number(key, name)?,
        };
        // Whether there is a record with a time at all, a name that is listed need not tell.
        if !matches!(number, Number::LastStable | Number::MaxTimestamp) {
            self.number(key, number)?.ok_or(FsError::NotFound)?;
        }
        Ok(Node::Of(key.clone(), Item::Number(number)))
    }

    /// A time, or a place counted in records.
    fn other_number(&self, key: &PartitionKey, name: &str) -> Result<Number, FsError> {
        let view = self.view(key)?;
        let found = match (instant(name, &self.clock(&key.topic, None)), Place::parse(name)) {
            (Some(time), _) => view.first_at(key.committed, time)?,
            // A number alone is seconds or milliseconds, and this one has too many digits for either, or too few.
            (None, None | Some(Place::At(_))) => return Err(FsError::bad_name(name, OFFSETS)),
            (None, Some(place)) => offset_of(key, &view, place)?,
        };
        found.map(Number::Exactly).ok_or(FsError::NotFound)
    }

    /// The names in `offsets` that need not be asked for.
    pub(super) fn offsets_names(&self, key: &PartitionKey) -> Result<Vec<(OsString, Node)>, FsError> {
        let mut names = vec![("README.txt".into(), Node::Of(key.clone(), Item::OffsetsReadme))];
        let mut add =
            |name: OsString, number| names.push((name, Node::Of(key.clone(), Item::Number(number))));
        for (name, number) in NAMED {
            let is_cheap = self.is_cheap(key, number, Effort::Bytes(CHEAP_BYTES))?;
            if !is_cheap || self.number(key, number)?.is_some() {
                add(name.into(), number);
            }
        }
        // Of an epoch that is known, the end is.
        for entry in self.view(key)?.known_epochs()? {
            add(format!("epoch-{}", entry.epoch.0).into(), Number::Epoch(entry.epoch));
        }
        Ok(names)
    }

    /// The content of a file in `offsets`.
    pub(super) fn number_file(&self, key: &PartitionKey, number: Number) -> Result<Vec<u8>, FsError> {
        let offset = self.number(key, number)?.ok_or(FsError::NotFound)?;
        Ok(format!("{offset}\n").into_bytes())
    }

    /// Whether a number costs no more than `effort`.
    pub(super) fn is_cheap(
        &self,
        key: &PartitionKey,
        number: Number,
        effort: Effort,
    ) -> Result<bool, FsError> {
        let Effort::Bytes(most) = effort else { return Ok(true) };
        let view = self.view(key)?;
        let mut cost: u64 = 0;
        match number {
            Number::LastStable if !view.knows_transactions() => {
                for segment in view.partition.segments()?.iter() {
                    cost = cost.saturating_add(segment.stored_len()?);
                }
            }
            Number::MaxTimestamp => {
                view.with_env(key.committed, |env| {
                    for segment in view.partition.segments()?.iter() {
                        cost = cost.saturating_add(view.times_cost(env, segment));
                    }
                    Ok::<_, FsError>(())
                })?;
            }
            _ => {}
        }
        Ok(cost <= most)
    }

    /// A number as it is now; `None` where there is none.
    fn number(&self, key: &PartitionKey, number: Number) -> Result<Option<Offset>, FsError> {
        let view = self.view(key)?;
        Ok(match number {
            Number::Earliest => Some(view.start()?),
            Number::Latest => Some(view.end(key.committed)?),
            Number::HighWatermark => view.partition.high_watermark(),
            Number::LastStable => Some(view.end(true)?),
            Number::MaxTimestamp => view.first_largest(key.committed)?,
            Number::Epoch(epoch) => view.end_of_epoch(epoch)?,
            Number::Exactly(offset) => Some(offset),
        })
    }
}

/// `epoch-7`.
fn epoch(name: &str) -> Option<Number> {
    let digits = name.strip_prefix("epoch-")?;
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain).map(|epoch| Number::Epoch(LeaderEpoch(epoch)))
}
