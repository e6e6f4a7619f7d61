//! The kinds of values that options have: how they are read, and written back.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::suggestion;
use super::value::{Value, show_duration, show_size};
use crate::log::upkeep::policy::Ratio;
use crate::view::format::Formats;

/// Reads a value out of a `T`; `None` where it is not set.
type Get<T, V> = fn(&T) -> Option<V>;
/// Sets it.
type Set<T, V> = fn(&mut T, V);

/// The kind of a value, and its place in a `T`.
pub(super) enum Kind<T> {
    Flag(Get<T, bool>, Set<T, bool>),
    /// At least 1.
    Count(Get<T, u64>, Set<T, u64>),
    /// Within a range.
    Integer(RangeInclusive<i64>, Get<T, i64>, Set<T, i64>),
    /// A time in Kafka's unit.
    Milliseconds(Get<T, u64>, Set<T, u64>),
    /// The same, or -1.
    MillisecondsOrNever(Get<T, i64>, Set<T, i64>),
    /// From 0 to 1.
    Ratio(Get<T, Ratio>, Set<T, Ratio>),
    Size(Get<T, u64>, Set<T, u64>),
    /// The same, or -1.
    SizeOrNone(Get<T, i64>, Set<T, i64>),
    /// A size in memory, at least 1.
    Memory(Get<T, usize>, Set<T, usize>),
    /// Bytes a second, at least 1; unlimited if not set.
    Rate(Get<T, u64>, Set<T, Option<u64>>),
    Time(Get<T, Duration>, Set<T, Duration>),
    /// An absolute path.
    Directory(Get<T, PathBuf>, Set<T, Option<PathBuf>>),
    Formats(Get<T, Vec<String>>, Set<T, Vec<String>>),
    Zone(Get<T, TimeZone>, Set<T, TimeZone>),
    Choice(&'static [&'static str], Get<T, &'static str>, fn(&mut T, &str) -> Option<()>),
}

impl<T> Kind<T> {
    /// What stands behind the name in a help text.
    pub(super) fn syntax(&self) -> String {
        match self {
            Self::Flag(..) => String::new(),
            Self::Count(..) | Self::Integer(..) => "=N".to_owned(),
            Self::Milliseconds(..) | Self::MillisecondsOrNever(..) => "=MS".to_owned(),
            Self::Ratio(..) => "=RATIO".to_owned(),
            Self::Size(..) | Self::SizeOrNone(..) | Self::Memory(..) | Self::Rate(..) => "=SIZE".to_owned(),
            Self::Time(..) => "=TIME".to_owned(),
            Self::Directory(..) => "=DIR".to_owned(),
            Self::Formats(..) => "=F:F..".to_owned(),
            Self::Zone(..) => "=ZONE".to_owned(),
            Self::Choice(names, ..) => format!("={}", names.join("|")),
        }
    }

    /// Whether the syntax says what the default is.
    pub(super) const fn shows_its_default(&self) -> bool {
        matches!(self, Self::Flag(..) | Self::Choice(..))
    }

    /// Puts `value` where it belongs; `formats` are those that there are.
    ///
    /// # Errors
    /// What was expected instead.
    pub(super) fn assign(&self, place: &mut T, value: &Value, formats: &Formats) -> Result<(), String> {
        self.try_assign(place, value, formats).ok_or_else(|| self.expected(value, formats))
    }

    fn try_assign(&self, place: &mut T, value: &Value, formats: &Formats) -> Option<()> {
        match self {
            Self::Flag(_, set) => set(place, value.flag()?),
            Self::Count(_, set) => set(place, value.count().filter(|count| *count > 0)?),
            Self::Integer(range, _, set) => {
                set(place, value.integer().filter(|number| range.contains(number))?);
            }
            Self::Milliseconds(_, set) => set(place, value.milliseconds()?),
            Self::MillisecondsOrNever(_, set) => set(place, or_none(value, Value::milliseconds)?),
            Self::Ratio(_, set) => set(place, value.ratio()?),
            Self::Size(_, set) => set(place, value.size()?),
            Self::SizeOrNone(_, set) => set(place, or_none(value, Value::size)?),
            Self::Memory(_, set) => {
                set(place, usize::try_from(value.size()?).ok().filter(|size| *size > 0)?);
            }
            Self::Rate(_, set) => {
                set(place, optional(value, |value| value.size().filter(|rate| *rate > 0))?);
            }
            Self::Time(_, set) => set(place, value.duration()?),
            Self::Directory(_, set) => set(place, optional(value, absolute)?),
            Self::Formats(_, set) => set(place, listable(value, formats)?),
            Self::Zone(_, set) => set(place, timezone(value.text()?)?),
            Self::Choice(_, _, set) => set(place, value.text()?)?,
        }
        Some(())
    }

    /// What would have been right instead of `value`.
    fn expected(&self, value: &Value, formats: &Formats) -> String {
        let what = match self {
            Self::Flag(..) => "`true` or `false`".to_owned(),
            Self::Count(..) => "a whole number from 1, such as 1000".to_owned(),
            Self::Integer(range, ..) => format!("a whole number from {} to {}", range.start(), range.end()),
            Self::Milliseconds(..) => {
                "milliseconds such as 60000, or a time with its unit such as 1h".to_owned()
            }
            Self::MillisecondsOrNever(..) => {
                "milliseconds such as 60000, a time with its unit such as 7d, or -1".to_owned()
            }
            Self::Ratio(..) => "a number from 0 to 1 such as 0.5".to_owned(),
            Self::Size(..) | Self::Memory(..) => "a size such as 64MiB".to_owned(),
            Self::SizeOrNone(..) => "a size such as 64MiB, or -1".to_owned(),
            Self::Rate(..) => "bytes a second such as 50MiB".to_owned(),
            Self::Time(..) => "a time with its unit, such as 10s or 500ms".to_owned(),
            Self::Directory(..) => "an absolute path such as /var/cache/topicfs".to_owned(),
            Self::Formats(..) => {
                let names: Vec<&str> = formats.extensions().collect();
                format!("a list of formats, each once, of {}", names.join(", "))
            }
            Self::Zone(..) => "a timezone such as UTC or Europe/Berlin".to_owned(),
            Self::Choice(names, ..) => alternatives(names),
        };
        let near = match (self, value.text()) {
            (Self::Choice(names, ..), Some(text)) => suggestion(text, names.iter().copied()),
            _ => String::new(),
        };
        format!("expected {what}, not {value}{near}")
    }

    /// The value in `place` as YAML; null where it is not set.
    pub(super) fn yaml(&self, place: &T) -> serde_yaml::Value {
        let value: Option<serde_yaml::Value> = match self {
            Self::Flag(get, _) => get(place).map(Into::into),
            Self::Count(get, _) | Self::Milliseconds(get, _) => get(place).map(Into::into),
            Self::Integer(_, get, _) | Self::MillisecondsOrNever(get, _) => get(place).map(Into::into),
            Self::Ratio(get, _) => get(place).map(|ratio| ratio.to_string().into()),
            Self::SizeOrNone(get, _) => get(place).map(|size| match u64::try_from(size) {
                Ok(size) => show_size(size).into(),
                Err(_) => size.into(),
            }),
            Self::Size(get, _) | Self::Rate(get, _) => get(place).map(|size| show_size(size).into()),
            Self::Memory(get, _) => get(place).map(|size| show_size(size as u64).into()),
            Self::Time(get, _) => get(place).map(|time| show_duration(time).into()),
            Self::Directory(get, _) => get(place).map(|path| path.display().to_string().into()),
            Self::Formats(get, _) => get(place).map(Into::into),
            Self::Zone(get, _) => get(place).map(|zone| zone.iana_name().unwrap_or("UTC").into()),
            Self::Choice(_, get, _) => get(place).map(Into::into),
        };
        value.unwrap_or_default()
    }

    /// The value in `place` as it would stand after `-o NAME=`, if it is set.
    pub(super) fn show(&self, place: &T) -> Option<String> {
        match self.yaml(place) {
            serde_yaml::Value::Null => None,
            serde_yaml::Value::String(text) => Some(text),
            serde_yaml::Value::Sequence(items) => {
                Some(items.iter().filter_map(serde_yaml::Value::as_str).collect::<Vec<_>>().join(":"))
            }
            other => serde_yaml::to_string(&other).ok().map(|text| text.trim_end().to_owned()),
        }
    }
}

/// -1, or what `read` reads.
fn or_none(value: &Value, read: impl Fn(&Value) -> Option<u64>) -> Option<i64> {
    match value.integer() {
        Some(-1) => Some(-1),
        _ => read(value).and_then(|number| i64::try_from(number).ok()),
    }
}

/// `null` unsets; anything else has to be a `T`.
fn optional<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    match value {
        Value::Null => Some(None),
        _ => read(value).map(Some),
    }
}

fn absolute(value: &Value) -> Option<PathBuf> {
    value.text().map(PathBuf::from).filter(|path| path.is_absolute())
}

fn listable(value: &Value, formats: &Formats) -> Option<Vec<String>> {
    let names = value.list()?;
    let fits = |(index, name): (usize, &String)| {
        formats.of_extension(name).is_some() && !names[..index].contains(name)
    };
    names.iter().enumerate().all(fits).then_some(names)
}

/// The timezone of a name: the system's, or where that has none the one of the library.
fn timezone(name: &str) -> Option<TimeZone> {
    let zone = TimeZone::get(name).or_else(|_| TimeZoneDatabase::bundled().get(name)).ok()?;
    (!zone.is_unknown() && zone.iana_name().is_some()).then_some(zone)
}

/// `a`, `b` or `c`.
fn alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
