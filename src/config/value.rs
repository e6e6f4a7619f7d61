//! Values as users write them.

use std::fmt;
use std::time::Duration;

use crate::log::upkeep::policy::Ratio;

/// A value before it is known what it should be.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// The word of an option without `=`.
    Bare,
    /// What stands after the `=` of an option: anything that is written without spaces.
    Word(String),
    /// YAML's `true` and `false`.
    Bool(bool),
    /// YAML's whole numbers from 0.
    Number(u64),
    /// YAML's whole numbers below 0.
    Negative(i64),
    /// YAML's strings.
    Text(String),
    /// A list of strings in YAML.
    List(Vec<String>),
    /// YAML's `null`, or nothing after the colon.
    Null,
    /// Anything else, in words.
    Other(String),
}

impl Value {
    /// A yes or no.
    pub(super) fn flag(&self) -> Option<bool> {
        match self {
            Self::Bare => Some(true),
            Self::Bool(flag) => Some(*flag),
            Self::Word(word) => word.parse().ok(),
            _ => None,
        }
    }

    /// A number that counts things.
    pub(super) fn count(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Word(word) => word.parse().ok(),
            _ => None,
        }
    }

    /// A whole number.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Negative(number) => Some(*number),
            Self::Word(word) => word.parse().ok(),
            _ => self.count().and_then(|number| i64::try_from(number).ok()),
        }
    }

    /// A number of milliseconds, or a time span; Kafka's names end in the unit.
    pub(super) fn milliseconds(&self) -> Option<u64> {
        let span = || u64::try_from(self.duration()?.as_millis()).ok();
        self.count().or_else(span)
    }

    /// A number of bytes.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Self::Number(bytes) => Some(*bytes),
            Self::Word(text) | Self::Text(text) => parse_size(text),
            _ => None,
        }
    }

    /// A part of a whole; what YAML takes for a number with a point is left as it was written.
    pub(super) fn ratio(&self) -> Option<Ratio> {
        match self {
            Self::Number(number) => number.to_string().parse().ok(),
            Self::Word(text) | Self::Text(text) | Self::Other(text) => text.trim_matches('`').parse().ok(),
            _ => None,
        }
    }

    /// A time span; a bare number is none, since its unit would be a guess.
    pub(super) fn duration(&self) -> Option<Duration> {
        match self {
            Self::Word(text) | Self::Text(text) => parse_duration(text),
            _ => None,
        }
    }

    /// A string.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Word(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Several strings: a YAML list, or a word with colons.
    pub(super) fn list(&self) -> Option<Vec<String>> {
        match self {
            Self::List(items) => Some(items.clone()),
            Self::Word(text) => Some(text.split(':').map(str::to_owned).collect()),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bare | Self::Null => f.write_str("nothing"),
            Self::Bool(flag) => write!(f, "`{flag}`"),
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Negative(number) => write!(f, "`{number}`"),
            Self::Word(text) | Self::Text(text) => write!(f, "`{}`", text.escape_debug()),
            Self::List(items) => write!(f, "the list `{}`", items.join(", ").escape_debug()),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Units of bytes, smallest first; one letter is the binary unit, as in dd and mount options.
const SIZES: &[(&[&str], u64)] = &[
    (&["", "b"], 1),
    (&["kib", "k"], 1 << 10),
    (&["mib", "m"], 1 << 20),
    (&["gib", "g"], 1 << 30),
    (&["tib", "t"], 1 << 40),
    (&["kb"], 1_000),
    (&["mb"], 1_000_000),
    (&["gb"], 1_000_000_000),
    (&["tb"], 1_000_000_000_000),
];

const DURATIONS: &[(&[&str], u64)] =
    &[(&["ms"], 1), (&["s"], 1_000), (&["m", "min"], 60_000), (&["h"], 3_600_000), (&["d"], 86_400_000)];

/// `64MiB`, `64M`, `64MB`, `67108864`.
fn parse_size(text: &str) -> Option<u64> {
    parse_with_unit(text, SIZES)
}

/// `500ms`, `10s`, `2m`, `1h`, `1d`.
fn parse_duration(text: &str) -> Option<Duration> {
    parse_with_unit(text, DURATIONS).map(Duration::from_millis)
}

fn parse_with_unit(text: &str, units: &[(&[&str], u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let (_, factor) = units.iter().find(|(names, _)| names.contains(&unit.as_str()))?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// A size as users write it, exact.
pub(super) fn show_size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |&(shift, _): &(u32, &str)| bytes != 0 && bytes.trailing_zeros() >= shift;
    match units.into_iter().find(whole) {
        Some((shift, unit)) => format!("{}{unit}", bytes >> shift),
        None => format!("{bytes}B"),
    }
}

/// A duration as users write it, exact to the millisecond.
pub(super) fn show_duration(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("64KiB", 64 << 10),
            ("64 MiB", 64 << 20),
            ("64m", 64 << 20),
            ("2G", 2 << 30),
            ("1TiB", 1 << 40),
            ("5MB", 5_000_000),
        ] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5GiB", "10 apples", "18446744073709551615KiB", "0x10"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn durations_need_units() {
        for (text, ms) in
            [("10s", 10_000), ("250ms", 250), ("2m", 120_000), ("2min", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1.5s", "10sec"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for bytes in [0, 1, 1023, 1024, 1 << 20, (1 << 30) + 1, 3 << 40, u64::MAX] {
            assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }
        for ms in [0, 1, 999, 1000, 1001, 86_400_000] {
            let duration = Duration::from_millis(ms);
            assert_eq!(parse_duration(&show_duration(duration)), Some(duration));
        }
    }
}
