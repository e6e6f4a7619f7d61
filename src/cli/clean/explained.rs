//! What is due, in words: which segments go and why, and why others stay.

use std::time::Duration;

use indicatif::HumanBytes;

use crate::fs::topic_configs::{CLEANUP_POLICY, TopicConfigs};
use crate::log::LogError;
use crate::log::upkeep::compaction::Compacted;
use crate::log::upkeep::compaction::range::{Cleanable, Limit, Verdict};
use crate::log::upkeep::listing::{Largest, ListedSegment, TimeSource};
use crate::log::upkeep::policy::Policy;
use crate::log::upkeep::retention::{Decision, Reason, Stay};
use crate::log::upkeep::survey::Survey;
use crate::log::upkeep::work::Retained;
use crate::units::Timestamp;
use crate::view::configs::ConfigSource;

/// A log and its policy, on one line, and who has named it.
pub(super) fn log(survey: &Survey, configs: &TopicConfigs, policy: &Policy) -> String {
    let sourced = |name: &str, value: &str| match configs.source(name) {
        ConfigSource::Default => format!("{name}={value}"),
        source => format!("{name}={value} ({})", source.name()),
    };
    let mut text = match (policy.delete, policy.compact) {
        (false, false) => "no cleanup.policy is named".to_owned(),
        (true, false) => sourced(CLEANUP_POLICY, "delete"),
        (false, true) => sourced(CLEANUP_POLICY, "compact"),
        (true, true) => sourced(CLEANUP_POLICY, "compact,delete"),
    };
    if policy.delete {
        let ms = policy.retention_ms.map_or_else(|| "-1".to_owned(), span);
        let bytes = policy.retention_bytes.map_or_else(|| "-1".to_owned(), |limit| limit.to_string());
        text = [text, sourced("retention.ms", &ms), sourced("retention.bytes", &bytes)].join(", ");
    }
    let count = counted(survey.segments.len(), "segment");
    format!("{text}; {count}, {}, offsets {} to {}", HumanBytes(survey.bytes()), survey.start, survey.end)
}

/// What retention does, a line for all segments with the same reason.
///
/// # Errors
/// Those of reading times.
pub(super) fn retention(survey: &Survey, policy: &Policy, now: Timestamp) -> Result<Vec<String>, LogError> {
    let decision = survey.retention(policy, now)?;
    let Decision { gone, stays } = &decision;
    let mut lines = Vec::new();
    let mut from = 0;
    for same in gone.chunk_by(|a, b| std::mem::discriminant(a) == std::mem::discriminant(b)) {
        let segments = survey.segments.get(from..from + same.len()).unwrap_or_default();
        if let Some(last) = same.last() {
            lines.push(format!("goes   {}: {}", range(segments), reason(last, policy, now)));
        }
        from += same.len();
    }
    let left = survey.segments.get(from..).filter(|left| policy.delete && !left.is_empty());
    let (Some(stays), Some(left)) = (stays, left) else { return Ok(lines) };
    let (first, behind) = left.split_at_checked(1).unwrap_or_default();
    lines.push(format!("stays  {}: {}", range(first), stay(*stays, survey, from, policy, now)?));
    if !behind.is_empty() {
        lines.push(format!("stays  {}: segments go from the oldest on", range(behind)));
    }
    Ok(lines)
}

fn reason(reason: &Reason, policy: &Policy, now: Timestamp) -> String {
    match *reason {
        Reason::BelowStart { start } => format!("below the log start offset {start}"),
        Reason::TooLarge { .. } => {
            format!("the log is larger than retention.bytes={}", policy.retention_bytes.unwrap_or(0))
        }
        Reason::TooOld { largest, age_ms } => {
            format!("newest record {}, older than retention.ms={}", at(largest, now), span(age_ms))
        }
    }
}

fn stay(
    stay: Stay,
    survey: &Survey,
    number: usize,
    policy: &Policy,
    now: Timestamp,
) -> Result<String, LogError> {
    let is_active = number + 1 == survey.segments.len();
    let active = if is_active { " of the active segment" } else { "" };
    Ok(match stay {
        Stay::NoPolicy => "nothing is deleted".to_owned(),
        Stay::Empty => "the active segment, and empty".to_owned(),
        Stay::AboveHighWatermark => {
            format!("it has offsets that are not below the high watermark {}", survey.high_watermark)
        }
        Stay::Unlimited => "retention.ms=-1".to_owned(),
        Stay::Young { largest } => {
            let left = policy.retention_ms.unwrap_or(0).saturating_sub(age(largest, now).unsigned_abs());
            format!("newest record{active} {}; it goes in {} at the earliest", at(largest, now), rough(left))
        }
        Stay::Future { largest } => {
            let kept = oldest_behind(survey, number, policy, now)?;
            format!("newest record{active} {}, which is yet to come: it keeps {kept}", at(largest, now))
        }
    })
}

/// How many of the segments behind one would go without it.
fn oldest_behind(
    survey: &Survey,
    number: usize,
    policy: &Policy,
    now: Timestamp,
) -> Result<String, LogError> {
    let mut old = 0;
    for behind in number + 1..survey.segments.len() {
        let age = age(survey.largest(behind)?, now);
        old += usize::from(u64::try_from(age).is_ok_and(|age| Some(age) > policy.retention_ms));
    }
    Ok(match old {
        0 => "itself and what comes behind it".to_owned(),
        old => format!("{} behind it that would go", counted(old, "segment")),
    })
}

/// What compaction does.
///
/// # Errors
/// Those of reading times.
pub(super) fn compaction(survey: &Survey, policy: &Policy, now: Timestamp) -> Result<String, LogError> {
    let cleanable = survey.cleanable(policy, now)?;
    let Cleanable { first_dirty, first_uncleanable, dirty_bytes, .. } = cleanable;
    let dirty = format!(
        "{:.0} % dirty ({} from offset {first_dirty} on)",
        100.0 * cleanable.dirty_ratio(),
        HumanBytes(dirty_bytes)
    );
    let limit = match cleanable.limit {
        Limit::Active => format!("the active segment, from {first_uncleanable} on, is never compacted"),
        Limit::LastStable(at) if at < survey.high_watermark => {
            format!(
                "a transaction is open since offset {at}, and nothing from {first_uncleanable} on is compacted"
            )
        }
        Limit::LastStable(at) => {
            format!("nothing from {first_uncleanable} on is compacted, since the high watermark is {at}")
        }
        Limit::Young(largest) => format!(
            "from {first_uncleanable} on records are younger than min.compaction.lag.ms={}: {}",
            span(policy.min_compaction_lag_ms),
            at(largest, now)
        ),
    };
    let ratio = policy.min_cleanable_dirty_ratio;
    Ok(match cleanable.verdict(policy) {
        Verdict::Nothing => format!("not compacted: nothing is dirty; {limit}"),
        Verdict::TooClean => {
            format!("not compacted: {dirty}, not more than min.cleanable.dirty.ratio={ratio}; {limit}")
        }
        Verdict::Dirty => format!("compacted: {dirty}, more than min.cleanable.dirty.ratio={ratio}; {limit}"),
        Verdict::Overdue => format!(
            "compacted: {dirty}, and records are {} older than max.compaction.lag.ms={}; {limit}",
            rough(cleanable.delay_ms),
            span(policy.max_compaction_lag_ms)
        ),
    })
}

/// What retention has done.
pub(super) fn retained(retained: &Retained) -> String {
    let count = usize::try_from(retained.segments).unwrap_or(usize::MAX);
    format!("deleted {}, {}", counted(count, "segment"), HumanBytes(retained.bytes))
}

/// What compaction has done.
pub(super) fn compacted(compacted: &Compacted, took: Duration) -> String {
    let Compacted { end, records, bytes, segments, without_key, .. } = compacted;
    let mut text = format!(
        "compacted up to offset {end} in {:.2} s: {} of {} records, {} of {} and {} of {} segments are left",
        took.as_secs_f64(),
        records.1,
        records.0,
        HumanBytes(bytes.1),
        HumanBytes(bytes.0),
        segments.1,
        segments.0
    );
    if *without_key > 0 {
        text += &format!("; {without_key} of the others had no key");
    }
    text
}

/// The offsets of some segments, how many they are, and their bytes.
fn range(segments: &[ListedSegment]) -> String {
    let bytes = segments.iter().map(|segment| segment.len).sum();
    match segments {
        [one] => format!("segment {}, {}", one.base, HumanBytes(bytes)),
        [first, .., last] => {
            format!("segments {} to {} ({}), {}", first.base, last.base, segments.len(), HumanBytes(bytes))
        }
        [] => String::new(),
    }
}

/// A time, and what says so where that isn't the time index.
fn at(largest: Largest, now: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(largest.timestamp.0);
    let time = time.map_or_else(|_| largest.timestamp.to_string(), |time| format!("{time:.0}"));
    let from = match largest.from {
        TimeSource::TimeIndex => "",
        TimeSource::Log => ", as the log says",
        TimeSource::File => ", as the file's time says: its records have none",
    };
    let age = age(largest, now);
    let ago = match u64::try_from(age) {
        Ok(age) => format!("{} ago", rough(age)),
        Err(_) => format!("in {}", rough(age.unsigned_abs())),
    };
    format!("{time} ({ago}{from})")
}

const fn age(largest: Largest, now: Timestamp) -> i64 {
    now.0.saturating_sub(largest.timestamp.0)
}

/// A time span exactly, in the largest unit that it is a multiple of.
fn span(ms: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    match units.into_iter().find(|(unit, _)| ms > 0 && ms.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", ms / unit),
        None => format!("{ms}ms"),
    }
}

/// A time span roughly.
fn rough(ms: u64) -> String {
    let units = [(86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1000, "seconds")];
    match units.into_iter().find(|(unit, _)| ms >= 2 * unit) {
        Some((unit, name)) => format!("{} {name}", ms / unit),
        None => format!("{ms} ms"),
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact_and_ages_rough() {
        assert_eq!(span(7 * 86_400_000), "7d");
        assert_eq!(span(36 * 3_600_000), "36h");
        assert_eq!([span(1500), span(0)], ["1500ms", "0ms"]);
        assert_eq!([rough(90_000_000), rough(200_000_000), rough(1999)], ["25 hours", "2 days", "1999 ms"]);
    }
}
