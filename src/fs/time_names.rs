//! The grammar of names below `by-time`, and of instants in `offsets`.
//!
//! | name | is |
//! |---|---|
//! | `2026`, `2026-11`, `2026-11-29` | a year, a month, a day |
//! | `2026-11-29T10`, `2026-11-29T10:05`, `2026-11-29T10:05:07`, `2026-11-29T10:05:07.123` | an hour, a minute, a second, a millisecond |
//! | `2026-11-29T10Z`, `2026-11-29T10:05+05:30`, `2026-11-29-08` | the same at an offset from UTC; without one in the configured time zone |
//! | `1795391861`, `1795391861357` | a second since 1970 (10 digits), a millisecond (13) |
//! | `A..B`, `A..`, `..B` | from the start of A to the start of B, which is not in it |
//! | `A..+90s`, `A..+1h30m` | from the start of A for so long |
//! | `last-15m`, `-15m` | an end of a range: so long ago; `w`, `d`, `h`, `m`, `s`, `ms` |
//!
//! A period or a range is a directory, with the extension of a format it is a file. Days and weeks are counted in the calendar of the
//! time zone; an hour that a clock change repeats is both of them, one that it leaves out is empty.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::{Offset as UtcOffset, TimeZone};
use jiff::{Span, ZonedDateTime};

use crate::units::{Period, Timestamp};
use crate::view::format::{Format, Formats};

/// The first millisecond of the year 10000.
const END_OF_CALENDAR_MS: i64 = 253_402_300_800_000;

/// What names are relative to.
#[derive(Debug, Clone)]
pub struct Clock {
    /// The time now, in the time zone of names that have none.
    pub now: ZonedDateTime,
}

impl Clock {
    /// The time now, seen from `zone`.
    pub fn now(zone: TimeZone) -> Self {
        Self { now: jiff::Timestamp::now().to_zoned_datetime(zone) }
    }

    fn zone(&self) -> &TimeZone {
        self.now.time_zone()
    }

    /// The calendar's day at `time`; `None` beyond the years that it has.
    pub fn date(&self, time: Timestamp) -> Option<Date> {
        let time = jiff::Timestamp::from_millisecond(time.0).ok()?;
        Some(time.to_zoned_datetime(self.zone().clone()).date())
    }

    /// The clock's time of day at `time`.
    pub fn time_of_day(&self, time: Timestamp) -> Option<Time> {
        let time = jiff::Timestamp::from_millisecond(time.0).ok()?;
        Some(time.to_zoned_datetime(self.zone().clone()).time())
    }
}

/// How long a name's period is, which says what its directory lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// Years and months: days.
    Days,
    /// A day: hours.
    Hours,
    /// All others: records.
    Records,
}

/// A name in `by-time/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByTime {
    /// The time that it stands for.
    pub period: Period,
    /// What its directory lists.
    pub unit: Unit,
    /// Its offset from UTC in seconds, where the name says one.
    pub utc_offset: Option<i32>,
    /// The format of the file; `None` for the directory.
    pub format: Option<Format>,
}

impl ByTime {
    /// The meaning of a name; `None` for what is no name here, as an impossible date.
    pub fn parse(name: &str, clock: &Clock, formats: &Formats) -> Option<Self> {
        let (stem, format) = match name.rsplit_once('.') {
            Some((stem, extension)) => match formats.of_extension(extension) {
                Some(format) => (stem, Some(format)),
                None => (name, None),
            },
            None => (name, None),
        };
        let Some((from, to)) = stem.split_once("..") else {
            let Named { period, unit, utc_offset } = named(stem, clock)?;
            return Some(Self { period, unit, utc_offset, format });
        };
        if from.is_empty() && to.is_empty() {
            return None;
        }
        let start = if from.is_empty() { Period::ALL.from } else { instant(from, clock)? };
        let end = match (to, to.strip_prefix('+')) {
            ("", _) => Period::ALL.to,
            (_, Some(_)) if from.is_empty() => return None,
            (_, Some(length)) => later(start, length, clock)?,
            (_, None) => instant(to, clock)?,
        };
        let period = Period { from: start, to: end.max(start) };
        Some(Self { period, unit: Unit::Records, utc_offset: None, format })
    }
}

/// A place in time: the start of a period, a number of seconds or milliseconds, or so long ago.
pub fn instant(text: &str, clock: &Clock) -> Option<Timestamp> {
    match text.strip_prefix("last-").or_else(|| text.strip_prefix('-')) {
        Some(ago) => {
            let time = clock.now.checked_sub(duration(ago)?).ok()?;
            Some(Timestamp(time.timestamp().as_millisecond()))
        }
        None => named(text, clock).map(|named| named.period.from),
    }
}

/// The time `length` after `start`.
fn later(start: Timestamp, length: &str, clock: &Clock) -> Option<Timestamp> {
    let start = jiff::Timestamp::from_millisecond(start.0).ok()?.to_zoned_datetime(clock.zone().clone());
    let length = duration(length)?;
    let end = start.checked_add(length).map(|end| end.timestamp().as_millisecond());
    Some(Timestamp(end.unwrap_or(END_OF_CALENDAR_MS)))
}

/// `90s`, `1h30m`: numbers with units, larger units first, each once.
fn duration(text: &str) -> Option<Span> {
    type Set = fn(Span, i64) -> Result<Span, jiff::Error>;
    /// In the order in which they may follow each other.
    const UNITS: [(&str, Set); 6] = [
        ("w", |span, n| span.try_weeks(n)),
        ("d", |span, n| span.try_days(n)),
        ("h", |span, n| span.try_hours(n)),
        ("m", |span, n| span.try_minutes(n)),
        ("s", |span, n| span.try_seconds(n)),
        ("ms", |span, n| span.try_milliseconds(n)),
    ];
    let (mut span, mut rest, mut units) = (Span::new(), text, &UNITS[..]);
    if text.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, after) = after.split_at(letters);
        let index = units.iter().position(|(name, _)| *name == unit)?;
        let (_, set) = units.get(index)?;
        span = set(span, number.parse().ok()?).ok()?;
        (rest, units) = (after, units.get(index + 1..)?);
    }
    Some(span)
}

/// A period that one name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named {
    period: Period,
    unit: Unit,
    utc_offset: Option<i32>,
}

fn named(text: &str, clock: &Clock) -> Option<Named> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() != 4 {
        let number: i64 = text.parse().ok()?;
        let (from, to) = match text.len() {
            10 => (number * 1000, number * 1000 + 1000),
            13 => (number, number + 1),
            _ => return None,
        };
        let period = Period { from: Timestamp(from), to: Timestamp(to) };
        return Some(Named { period, unit: Unit::Records, utc_offset: None });
    }
    let mut reader = Reader { rest: text };
    let prefix = reader.prefix()?;
    let utc_offset = if prefix.may_have_zone { reader.utc_offset()? } else { None };
    if !reader.rest.is_empty() {
        return None;
    }
    let zone = match utc_offset {
        Some(seconds) => UtcOffset::from_seconds(seconds).ok()?.to_time_zone(),
        None => clock.zone().clone(),
    };
    let from = milliseconds(prefix.start, &zone)?;
    let to = match (prefix.length_ms, prefix.start.checked_add(prefix.length)) {
        (Some(length), _) => from + length,
        (None, Err(_)) => END_OF_CALENDAR_MS,
        (None, Ok(end)) => milliseconds(end, &zone).unwrap_or_else(|| {
            let length = end.duration_since(prefix.start).as_millis();
            from.saturating_add(i64::try_from(length).unwrap_or(i64::MAX))
        }),
    };
    let period = Period { from: Timestamp(from), to: Timestamp(to) };
    Some(Named { period, unit: prefix.unit, utc_offset })
}

fn milliseconds(time: DateTime, zone: &TimeZone) -> Option<i64> {
    Some(time.to_zoned_datetime(zone.clone()).ok()?.timestamp().as_millisecond())
}

/// An ISO 8601 prefix: when it begins, and how long that is on the calendar, or on a stopwatch.
struct Prefix {
    start: DateTime,
    length: Span,
    length_ms: Option<i64>,
    unit: Unit,
    may_have_zone: bool,
}

/// What is left of a name.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn prefix(&mut self) -> Option<Prefix> {
        let mut date = (self.number(4)?, 1, 1);
        let calendar = |date: (i16, i16, i16)| {
            Date::new(date.0, i8::try_from(date.1).ok()?, i8::try_from(date.2).ok()?).ok()
        };
        let of = |date: Date, length: Span, unit: Unit| {
            let (start, may_have_zone) = (date.to_datetime(Time::midnight()), unit == Unit::Hours);
            Some(Prefix { start, length, length_ms: None, unit, may_have_zone })
        };
        if !self.skip("-") {
            return of(calendar(date)?, Span::new().years(1), Unit::Days);
        }
        date.1 = self.number(2)?;
        if !self.skip("-") {
            return of(calendar(date)?, Span::new().months(1), Unit::Days);
        }
        date.2 = self.number(2)?;
        let date = calendar(date)?;
        if !self.skip("T") {
            return of(date, Span::new().days(1), Unit::Hours);
        }
        self.time(date)
    }

    fn time(&mut self, date: Date) -> Option<Prefix> {
        let mut parts = [self.number(2)?, 0, 0];
        let (mut length, mut length_ms) = (Span::new().hours(1), None);
        if self.skip(":") {
            parts[1] = self.number(2)?;
            length = Span::new().minutes(1);
            if self.skip(":") {
                parts[2] = self.number(2)?;
                length_ms = Some(1000);
            }
        }
        let mut nanoseconds = 0;
        if length_ms.is_some() && self.skip(".") {
            let digits = self.rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
            let scale = [0, 100, 10, 1].get(digits).copied().filter(|scale| *scale > 0)?;
            nanoseconds = i32::from(self.number(digits)?) * scale * 1_000_000;
            length_ms = Some(i64::from(scale));
        }
        let [hour, minute, second] = parts.map(|part| i8::try_from(part).ok());
        let time = Time::new(hour?, minute?, second?, nanoseconds).ok()?;
        let start = date.to_datetime(time);
        Some(Prefix { start, length, length_ms, unit: Unit::Records, may_have_zone: true })
    }

    /// `Z`, `+05`, `+05:30`, `-0800`, or nothing (`Some(None)`).
    fn utc_offset(&mut self) -> Option<Option<i32>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        if self.skip("Z") {
            return Some(Some(0));
        }
        let sign = if self.skip("+") {
            1
        } else if self.skip("-") {
            -1
        } else {
            return None;
        };
        let hours = i32::from(self.number(2)?);
        let has_minutes = self.skip(":") || !self.rest.is_empty();
        let minutes = if has_minutes { i32::from(self.number(2)?) } else { 0 };
        (hours <= 18 && minutes < 60).then_some(Some(sign * (hours * 3600 + minutes * 60)))
    }

    fn skip(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// A number of so many digits.
    fn number(&mut self, digits: usize) -> Option<i16> {
        let (number, rest) = self.rest.split_at_checked(digits)?;
        let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
        self.rest = rest;
        number.parse().ok().filter(|_| is_plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_in(zone: &str) -> Clock {
        let now: jiff::Timestamp = "2026-11-29T12:30:15.250Z".parse().unwrap();
        Clock { now: now.to_zoned_datetime(TimeZone::get(zone).unwrap()) }
    }

    fn at(iso: &str) -> Timestamp {
        Timestamp(iso.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    fn period_in(zone: &str, name: &str) -> (Timestamp, Timestamp) {
        let parsed =
            ByTime::parse(name, &clock_in(zone), &Formats::default()).unwrap_or_else(|| panic!("{name}"));
        (parsed.period.from, parsed.period.to)
    }

    #[test]
    fn a_prefix_is_its_whole_period() {
        for (name, from, to) in [
            ("2026", "2026-01-01T00:00Z", "2027-01-01T00:00Z"),
            ("2026-11", "2026-11-01T00:00Z", "2026-12-01T00:00Z"),
            ("2024-02", "2024-02-01T00:00Z", "2024-03-01T00:00Z"),
            ("2026-11-29", "2026-11-29T00:00Z", "2026-11-30T00:00Z"),
            ("2026-12-31", "2026-12-31T00:00Z", "2027-01-01T00:00Z"),
            ("2026-11-29T23", "2026-11-29T23:00Z", "2026-11-30T00:00Z"),
            ("2026-11-29T10:05", "2026-11-29T10:05Z", "2026-11-29T10:06Z"),
            ("2026-11-29T10:05:07", "2026-11-29T10:05:07Z", "2026-11-29T10:05:08Z"),
            ("2026-11-29T10:05:07.1", "2026-11-29T10:05:07.1Z", "2026-11-29T10:05:07.2Z"),
            ("2026-11-29T10:05:07.12", "2026-11-29T10:05:07.12Z", "2026-11-29T10:05:07.13Z"),
            ("2026-11-29T10:05:07.123", "2026-11-29T10:05:07.123Z", "2026-11-29T10:05:07.124Z"),
            ("2026-11-29T10Z", "2026-11-29T10:00Z", "2026-11-29T11:00Z"),
            ("2026-11-29T10:05+05:30", "2026-11-29T04:35Z", "2026-11-29T04:36Z"),
            ("2026-11-29T10:05-0800", "2026-11-29T18:05Z", "2026-11-29T18:06Z"),
            ("2026-11-29-08", "2026-11-29T08:00Z", "2026-11-30T08:00Z"),
            ("2026-11-29+01:00", "2026-11-28T23:00Z", "2026-11-29T23:00Z"),
            ("1970", "1970-01-01T00:00Z", "1971-01-01T00:00Z"),
            ("1795391861", "2026-11-22T23:57:41Z", "2026-11-22T23:57:42Z"),
            ("1795391861357", "2026-11-22T23:57:41.357Z", "2026-11-22T23:57:41.358Z"),
        ] {
            assert_eq!(period_in("UTC", name), (at(from), at(to)), "{name}");
        }
    }

    #[test]
    fn ranges_are_half_open_and_relative_ones_are_fixed() {
        for (name, from, to) in [
            ("2026-11-29T10..2026-11-29T11:30", "2026-11-29T10:00Z", "2026-11-29T11:30Z"),
            ("2026-11..2026-12", "2026-11-01T00:00Z", "2026-12-01T00:00Z"),
            ("2026-11-29T10:05..+90s", "2026-11-29T10:05Z", "2026-11-29T10:06:30Z"),
            ("2026-11-29T10:05..+1h30m", "2026-11-29T10:05Z", "2026-11-29T11:35Z"),
            ("last-1h..last-30m", "2026-11-29T11:30:15.25Z", "2026-11-29T12:00:15.25Z"),
            ("-1d..-1h", "2026-11-28T12:30:15.25Z", "2026-11-29T11:30:15.25Z"),
            ("last-1h..+5m", "2026-11-29T11:30:15.25Z", "2026-11-29T11:35:15.25Z"),
            ("1663903326163..1663903326170", "2022-09-23T03:22:06.163Z", "2022-09-23T03:22:06.170Z"),
            ("2026-11-29T11..2026-11-29T10", "2026-11-29T11:00Z", "2026-11-29T11:00Z"),
        ] {
            assert_eq!(period_in("UTC", name), (at(from), at(to)), "{name}");
        }
        assert_eq!(period_in("UTC", "last-15m.."), (at("2026-11-29T12:15:15.25Z"), Period::ALL.to));
        assert_eq!(period_in("UTC", "1663903326163.."), (Timestamp(1_663_903_326_163), Period::ALL.to));
        assert_eq!(period_in("UTC", "..2026"), (Period::ALL.from, at("2026-01-01T00:00Z")));
        // The calendar's last days end, too.
        for name in ["9999", "9999-12"] {
            assert_eq!(period_in("UTC", name).1.0, END_OF_CALENDAR_MS, "{name}");
        }
        assert_eq!(period_in("UTC", "9999-12-30").1.0, END_OF_CALENDAR_MS - 86_400_000);
        assert_eq!(period_in("UTC", "9999-12-30T21").1.0, END_OF_CALENDAR_MS - 86_400_000 - 2 * 3_600_000);
    }

    #[test]
    fn the_extension_is_the_last_dot_of_a_format() {
        for (name, format) in [
            ("2026-11-29T10.jsonl", Some(Format::Jsonl)),
            ("2026-11-29T10:05:07.123.tsv", Some(Format::Tsv)),
            ("last-15m...txt", Some(Format::Text)),
            ("2026..2027.log", Some(Format::Log)),
            ("2026..2027", None),
            ("2026-11-29T10:05:07.123", None),
        ] {
            assert_eq!(
                ByTime::parse(name, &clock_in("UTC"), &Formats::default()).unwrap().format,
                format,
                "{name}"
            );
        }
    }

    #[test]
    fn names_without_a_zone_are_in_the_configured_one() {
        let berlin = |name| period_in("Europe/Berlin", name);
        assert_eq!(berlin("2026-11-29T10"), (at("2026-11-29T09:00Z"), at("2026-11-29T10:00Z")));
        assert_eq!(berlin("2026-07-01"), (at("2026-06-30T22:00Z"), at("2026-07-01T22:00Z")));
        assert_eq!(berlin("2026-11-29T10Z"), (at("2026-11-29T10:00Z"), at("2026-11-29T11:00Z")));
        // The last Sundays of March and October have 23 and 25 hours.
        assert_eq!(berlin("2026-03-29"), (at("2026-03-28T23:00Z"), at("2026-03-29T22:00Z")));
        assert_eq!(berlin("2026-10-25"), (at("2026-10-24T22:00Z"), at("2026-10-25T23:00Z")));
        assert_eq!(berlin("2026-10-25T02"), (at("2026-10-25T00:00Z"), at("2026-10-25T02:00Z")));
        let (from, to) = berlin("2026-03-29T02");
        assert_eq!(from, to);
        // A day before now is the same time of day.
        let clock = Clock { now: "2026-03-29T12:00+02:00[Europe/Berlin]".parse().unwrap() };
        assert_eq!(instant("last-1d", &clock), Some(at("2026-03-28T11:00Z")));
        assert_eq!(instant("last-24h", &clock), Some(at("2026-03-28T10:00Z")));
    }

    #[test]
    fn what_is_no_name() {
        for name in [
            "",
            ".",
            "..",
            "...",
            "...txt",
            "20",
            "202",
            "20261129",
            "12345678901",
            "123456789012",
            "12345678901234",
            "2026-13",
            "2026-00",
            "2026-02-29",
            "2026-11-31",
            "2026-11-29T24",
            "2026-11-29T10:60",
            "2026-11-29T23:59:60",
            "2026-1",
            "2026-11-2",
            "2026-11-29T",
            "2026-11-29T1",
            "2026-11-29 10",
            "2026-11-29t10",
            "2026-11-29T10:05:07.",
            "2026-11-29T10:05:07.1234",
            "2026-11-29T10.5",
            "2026Z",
            "2026-11+01",
            "2026-11-29T10+25",
            "2026-11-29T10+1",
            "last-15m",
            "-15m",
            "+15m",
            "last-..",
            "last-m..",
            "last-15..",
            "last-15x..",
            "last-1m1h..",
            "last-1h1h..",
            "..+90s",
            "2026..+",
            "2026..+90",
            "2026..-",
            "2026..2027..2028",
            "2026..x",
            "x",
            "２０２６",
            "-2026",
            "2026.json",
            "2026-11-29.key",
            "last-99999999999999999999h..",
            "2026-11-29T10:05:07,5",
            "noon",
            "2026-W10",
            "2026-333",
        ] {
            assert_eq!(ByTime::parse(name, &clock_in("UTC"), &Formats::default()), None, "{name}");
        }
    }

    #[test]
    fn what_directories_list() {
        let unit = |name| ByTime::parse(name, &clock_in("UTC"), &Formats::default()).unwrap().unit;
        assert_eq!(
            (unit("2026"), unit("2026-11"), unit("2026-11-29")),
            (Unit::Days, Unit::Days, Unit::Hours)
        );
        assert_eq!((unit("2026-11-29T10"), unit("2026..2027")), (Unit::Records, Unit::Records));
    }
}
