//! The grammar of names below a partition.
//!
//! | name | is |
//! |---|---|
//! | `12`, `00000000000000000012` | the value of record 12, its exact bytes |
//! | `12.key`, `12.txt`, `12.jsonl`, `12.tsv`, `12.json`, `12.log`, `12.dump` | its key; rendered; pretty with all of its batch; its batch, as bytes and as text |
//! | `last-1`, `-1` | the last record |
//! | `12~7`, `12+7` | the seventh record before, after offset 12: records that exist |
//! | `100..200`, `100..`, `..200`, `100..+50` | a directory of the records of a range; the end is exclusive |
//! | `100..200.jsonl`, `100...txt`, `last-10...tsv`, `..200.log` | the range as one file |
//!
//! The last `.ext` is the format if there is a format of that name, of ours or in the configuration; those begin with a letter
//! and offsets have digits only, so that an end of a range is never taken for one. Ends of ranges may be `last-N`, `-N`, `A~N` or
//! `A+N` too.

use crate::units::Offset;
use crate::view::format::{Format, Formats};

/// What a record is shown as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordForm {
    /// No extension: the value's exact bytes.
    Value,
    /// `.key`: the key's exact bytes.
    Key,
    /// `.json`: everything about the record and its batch.
    Json,
    /// One of the formats that ranges have too.
    Rendered(Format),
}

impl RecordForm {
    /// The form of an extension.
    pub fn of_extension(extension: &str, formats: &Formats) -> Option<Self> {
        match extension {
            "key" => Some(Self::Key),
            "json" => Some(Self::Json),
            _ => formats.of_extension(extension).map(Self::Rendered),
        }
    }
}

/// A place in the log, fixed when it is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An offset.
    At(Offset),
    /// The N-th record from the end, 1 being the last.
    FromEnd(u64),
    /// The N-th record before an offset.
    Before(Offset, u64),
    /// The N-th record after an offset.
    After(Offset, u64),
}

impl Place {
    /// The meaning of `12345`, `last-7`, `12345~7`, `12345+7`.
    pub fn parse(text: &str) -> Option<Self> {
        let offset = |text| i64::try_from(digits(text)?).ok().map(Offset);
        let count = |text| digits(text).filter(|count| *count > 0);
        if let Some(text) = text.strip_prefix("last-").or_else(|| text.strip_prefix('-')) {
            return count(text).map(Self::FromEnd);
        }
        if let Some((from, steps)) = text.split_once('~') {
            return Some(Self::Before(offset(from)?, count(steps)?));
        }
        match text.split_once('+') {
            Some((from, steps)) => Some(Self::After(offset(from)?, count(steps)?)),
            None => offset(text).map(Self::At),
        }
    }
}

/// Where a range ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeEnd {
    /// Before a place.
    Before(Place),
    /// After this many records.
    Count(u64),
    /// At the log's end.
    Open,
}

/// A name in `by-offset/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByOffset {
    /// One record.
    Record(Place, RecordForm),
    /// A range, as a directory (`None`) or a file.
    Range {
        /// The first record; `None` for the log's start.
        from: Option<Place>,
        /// The end.
        to: RangeEnd,
        /// The format of the file.
        format: Option<Format>,
    },
}

impl ByOffset {
    /// The meaning of a name; `None` for what is no name here.
    pub fn parse(name: &str, formats: &Formats) -> Option<Self> {
        let (stem, extension) = match name.rsplit_once('.') {
            Some((stem, extension)) if RecordForm::of_extension(extension, formats).is_some() => {
                (stem, Some(extension))
            }
            _ => (name, None),
        };
        let Some((from, to)) = stem.split_once("..") else {
            let form = match extension {
                Some(extension) => RecordForm::of_extension(extension, formats)?,
                None => RecordForm::Value,
            };
            return Some(Self::Record(Place::parse(stem)?, form));
        };
        let format = match extension {
            Some(extension) => Some(formats.of_extension(extension)?),
            None => None,
        };
        let from = if from.is_empty() { None } else { Some(Place::parse(from)?) };
        let to = match (to, to.strip_prefix('+')) {
            ("", _) => RangeEnd::Open,
            (_, Some(count)) => RangeEnd::Count(digits(count)?),
            (place, None) => RangeEnd::Before(Place::parse(place)?),
        };
        if from.is_none() && to == RangeEnd::Open {
            return None;
        }
        Some(Self::Range { from, to, format })
    }
}

/// A decimal number without a sign, padded with zeros or not.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if plain { text.parse().ok() } else { None }
}

/// Appends a byte as names have it that are made from data: all but printable ASCII, and `%` and `/`, is two hex digits.
pub fn push_escaped(byte: u8, name: &mut String) {
    match byte {
        b'%' | b'/' => push_hex(byte, name),
        b' '..=b'~' => name.push(char::from(byte)),
        _ => push_hex(byte, name),
    }
}

/// Appends a byte as two hex digits, whatever it is.
pub fn push_hex(byte: u8, name: &mut String) {
    name.push_str(&format!("%{byte:02X}"));
}

/// An offset as names and listings have it: 20 digits, so that globs are in order.
pub fn padded(offset: Offset) -> String {
    format!("{:020}", offset.0)
}

/// `log`, `log.jsonl` and the like: the format of `name` if its stem is `stem`.
pub fn format_of(name: &str, stem: &str, formats: &Formats) -> Option<Format> {
    match name.strip_prefix(stem)? {
        "" => Some(Format::Text),
        rest => formats.of_extension(rest.strip_prefix('.')?),
    }
}

/// The names under which a file of `format` is listed: text has the bare name.
pub fn listed_name(stem: &str, format: Format, formats: &Formats) -> String {
    match format {
        Format::Text => stem.to_owned(),
        _ => format!("{stem}.{}", formats.extension(format)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::template::Template;

    /// Our own and one of a user.
    fn formats() -> Formats {
        let mut formats = Formats::default();
        formats.add("csv", Template::parse("%o,%s\\n").unwrap()).unwrap();
        formats
    }

    fn at(offset: i64) -> Place {
        Place::At(Offset(offset))
    }

    fn range(from: Option<Place>, to: RangeEnd, format: Option<Format>) -> ByOffset {
        ByOffset::Range { from, to, format }
    }

    #[test]
    fn the_table_at_the_top() {
        use RangeEnd::{Before, Count, Open};
        let formats = formats();
        let csv = formats.of_extension("csv").unwrap();
        let cases = [
            ("12", ByOffset::Record(at(12), RecordForm::Value)),
            ("00000000000000000012", ByOffset::Record(at(12), RecordForm::Value)),
            ("12.key", ByOffset::Record(at(12), RecordForm::Key)),
            ("12.json", ByOffset::Record(at(12), RecordForm::Json)),
            ("12.txt", ByOffset::Record(at(12), RecordForm::Rendered(Format::Text))),
            ("12.dump", ByOffset::Record(at(12), RecordForm::Rendered(Format::Dump))),
            ("12.log", ByOffset::Record(at(12), RecordForm::Rendered(Format::Log))),
            ("last-1", ByOffset::Record(Place::FromEnd(1), RecordForm::Value)),
            ("-7.jsonl", ByOffset::Record(Place::FromEnd(7), RecordForm::Rendered(Format::Jsonl))),
            ("100..200", range(Some(at(100)), Before(at(200)), None)),
            ("100..200.jsonl", range(Some(at(100)), Before(at(200)), Some(Format::Jsonl))),
            ("100...jsonl", range(Some(at(100)), Open, Some(Format::Jsonl))),
            ("..200.txt", range(None, Before(at(200)), Some(Format::Text))),
            ("last-10...txt", range(Some(Place::FromEnd(10)), Open, Some(Format::Text))),
            ("-10..", range(Some(Place::FromEnd(10)), Open, None)),
            ("100..+50.log", range(Some(at(100)), Count(50), Some(Format::Log))),
            (
                "last-9..last-3.tsv",
                range(Some(Place::FromEnd(9)), Before(Place::FromEnd(3)), Some(Format::Tsv)),
            ),
            ("12.csv", ByOffset::Record(at(12), RecordForm::Rendered(csv))),
            ("1..9.csv", range(Some(at(1)), Before(at(9)), Some(csv))),
            ("last-9...csv", range(Some(Place::FromEnd(9)), Open, Some(csv))),
            ("..-3", range(None, Before(Place::FromEnd(3)), None)),
            ("12345~7", ByOffset::Record(Place::Before(Offset(12345), 7), RecordForm::Value)),
            ("12345+7.json", ByOffset::Record(Place::After(Offset(12345), 7), RecordForm::Json)),
            (
                "12345~3..+7.jsonl",
                range(Some(Place::Before(Offset(12345), 3)), Count(7), Some(Format::Jsonl)),
            ),
            ("5~1..9+2", range(Some(Place::Before(Offset(5), 1)), Before(Place::After(Offset(9), 2)), None)),
            ("5+1...txt", range(Some(Place::After(Offset(5), 1)), Open, Some(Format::Text))),
        ];
        for (name, meaning) in cases {
            assert_eq!(ByOffset::parse(name, &formats), Some(meaning), "{name}");
        }
    }

    #[test]
    fn what_is_no_name() {
        for name in [
            "",
            ".",
            "..",
            "...",
            "....",
            "-",
            "last-",
            "last-0",
            "-0",
            "+5",
            "1.",
            ".1",
            "1.2",
            "x",
            "1.xml",
            "1..2.json",
            "1.CSV",
            "1..2.csv2",
            "1..2.key",
            "0x1",
            "1e3",
            " 1",
            "1 ",
            "9223372036854775808",
            "99999999999999999999",
            "1..+",
            "1..+-2",
            "--1",
            "1..2..3",
            "..",
            "...txt",
            "1.TXT",
            "12~",
            "~7",
            "12~0",
            "12+0",
            "12~7~1",
            "12+7~1",
            "12~-1",
            "last-1~2",
            "last-1+2",
            "12++7",
            "１",
        ] {
            assert_eq!(ByOffset::parse(name, &formats()), None, "{name}");
        }
    }

    #[test]
    fn listed_names_are_found_again() {
        let formats = formats();
        for format in formats.iter() {
            assert_eq!(format_of(&listed_name("log", format, &formats), "log", &formats), Some(format));
        }
        assert_eq!(format_of("log.txt", "log", &formats), Some(Format::Text));
        for name in ["logs", "log.", "lo", "log.CSV", "log.csv.csv"] {
            assert_eq!(format_of(name, "log", &formats), None, "{name}");
        }
    }
}
