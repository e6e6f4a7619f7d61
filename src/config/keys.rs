//! The table of all options.
//!
//! A new option is one row here. Options of one topic, and the templates of `formats:`, will be sections of the file
//! beside these rows; a row that makes sense for one topic has a place in `Options` that can be kept per topic.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::value::{Value, show_duration, show_size};
use super::{Config, suggestion};
use crate::fs::options::{From, Isolation, LISTABLE_FORMATS, Listing, OnDamage, UpTo};

/// An option: its name, the kind of its value and where that is kept.
pub(super) struct Key {
    /// As in a file and after `-o`.
    pub(super) name: &'static str,
    /// What it does, in one line of help.
    about: &'static str,
    kind: Kind,
}

/// The kind of a value, and its place in a [`Config`].
enum Kind {
    Flag(fn(&mut Config) -> &mut bool),
    /// At least 1.
    Count(fn(&mut Config) -> &mut u64),
    Size(fn(&mut Config) -> &mut u64),
    /// A size in memory, at least 1.
    Memory(fn(&mut Config) -> &mut usize),
    /// Bytes a second, at least 1; unlimited if not set.
    Rate(fn(&mut Config) -> &mut Option<u64>),
    Time(fn(&mut Config) -> &mut Duration),
    /// An absolute path.
    Directory(fn(&mut Config) -> &mut Option<PathBuf>),
    Formats(fn(&mut Config) -> &mut Vec<String>),
    Choice(&'static [&'static str], fn(&Config) -> &'static str, fn(&mut Config, &str) -> Option<()>),
}

/// A [`Kind::Choice`] of an enum that is kept at `config.options.$field`.
macro_rules! choice {
    ($type:ident, $field:ident) => {
        Kind::Choice(
            $type::NAMES,
            |config| config.options.$field.name(),
            |config, name| $type::from_name(name).map(|choice| config.options.$field = choice),
        )
    };
}

/// Every option, in the order of help and of the effective configuration.
pub(super) const KEYS: &[Key] = &[
    Key {
        name: "isolation",
        about: "which records of transactions are shown",
        kind: choice!(Isolation, isolation),
    },
    Key { name: "up_to", about: "where a partition ends", kind: choice!(UpTo, up_to) },
    Key {
        name: "from",
        about: "where it starts; first-segment shows deleted records too",
        kind: choice!(From, from),
    },
    Key {
        name: "on_damage",
        about: "skip a damaged batch, or fail there",
        kind: choice!(OnDamage, on_damage),
    },
    Key {
        name: "tail_records",
        about: "records in `tail`",
        kind: Kind::Count(|config| &mut config.options.tail_records),
    },
    Key {
        name: "formats_listed",
        about: "formats that `ls` shows; the others work by name",
        kind: Kind::Formats(|config| &mut config.options.formats_listed),
    },
    Key { name: "listing", about: "full lists directories of records too", kind: choice!(Listing, listing) },
    Key {
        name: "value_json",
        about: "inline JSON values in .jsonl, as value_json",
        kind: Kind::Flag(|config| &mut config.options.value_json),
    },
    Key {
        name: "key_json",
        about: "inline JSON keys in .jsonl, as key_json",
        kind: Kind::Flag(|config| &mut config.options.key_json),
    },
    Key {
        name: "measure_wait",
        about: "how long a stat of an open file waits for its size",
        kind: Kind::Time(|config| &mut config.options.measure_wait),
    },
    Key {
        name: "max_batch_bytes",
        about: "largest batch that is read, on disk",
        kind: Kind::Memory(|config| &mut config.options.max_batch_bytes),
    },
    Key {
        name: "max_decoded_bytes",
        about: "largest batch that is read, decompressed",
        kind: Kind::Memory(|config| &mut config.options.max_decoded_bytes),
    },
    Key {
        name: "cache_dir",
        about: "where measurements are kept",
        kind: Kind::Directory(|config| &mut config.options.cache_dir),
    },
    Key {
        name: "cache_limit",
        about: "how large that may grow",
        kind: Kind::Size(|config| &mut config.options.cache_limit),
    },
    Key {
        name: "unpack_limit",
        about: "how much of .log.gz and .log.zst may lie unpacked there",
        kind: Kind::Size(|config| &mut config.options.unpack_limit),
    },
    Key {
        name: "by_key.listed",
        about: "`ls by-key` lists the keys that have a value",
        kind: Kind::Flag(|config| &mut config.options.by_key_listed),
    },
    Key {
        name: "by_key.max_memory",
        about: "what all indexes by key keep in memory; the rest is in files",
        kind: Kind::Size(|config| &mut config.options.by_key_max_memory),
    },
    Key {
        name: "follow_symlinks",
        about: "read partition directories that are links",
        kind: Kind::Flag(|config| &mut config.options.follow_symlinks),
    },
    Key {
        name: "max_read_rate",
        about: "bytes a second that measuring may read",
        kind: Kind::Rate(|config| &mut config.options.max_read_rate),
    },
    Key {
        name: "noxattr",
        about: "no extended attributes; spares `ls -l` two questions a file",
        kind: Kind::Flag(|config| &mut config.options.noxattr),
    },
    Key {
        name: "allow_other",
        about: "let those in who may read the source",
        kind: Kind::Flag(|config| &mut config.mount.allow_other),
    },
    Key {
        name: "nonempty",
        about: "mount over what the mountpoint holds",
        kind: Kind::Flag(|config| &mut config.mount.nonempty),
    },
];

/// The option of that name.
pub(super) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The options as lines of a help text: name, values with the default first, what it does.
pub fn help() -> String {
    let mut text = String::new();
    for key in KEYS {
        let values = match &key.kind {
            Kind::Flag(_) => String::new(),
            Kind::Count(_) => "=N".to_owned(),
            Kind::Size(_) | Kind::Memory(_) | Kind::Rate(_) => "=SIZE".to_owned(),
            Kind::Time(_) => "=TIME".to_owned(),
            Kind::Directory(_) => "=DIR".to_owned(),
            Kind::Formats(_) => "=F:F..".to_owned(),
            Kind::Choice(names, ..) => format!("={}", names.join("|")),
        };
        let left = format!("{}{values}", key.name);
        let shown = key.show(&Config::default());
        let default = if matches!(key.kind, Kind::Flag(_) | Kind::Choice(..)) { None } else { shown };
        let default = default.map(|default| format!(" ({default})")).unwrap_or_default();
        let gap =
            if left.len() > 26 { format!("\n{:28}", "") } else { format!("{:1$}", "", 26 - left.len()) };
        let _ = writeln!(text, "  {left}{gap}{}{default}", key.about);
    }
    text
}

impl Key {
    /// Puts `value` where it belongs.
    ///
    /// # Errors
    /// What was expected instead.
    pub(super) fn assign(&self, config: &mut Config, value: &Value) -> Result<(), String> {
        self.try_assign(config, value).ok_or_else(|| self.expected(value))
    }

    fn try_assign(&self, config: &mut Config, value: &Value) -> Option<()> {
        match &self.kind {
            Kind::Flag(place) => *place(config) = value.flag()?,
            Kind::Count(place) => *place(config) = value.count().filter(|count| *count > 0)?,
            Kind::Size(place) => *place(config) = value.size()?,
            Kind::Memory(place) => {
                *place(config) = usize::try_from(value.size()?).ok().filter(|size| *size > 0)?;
            }
            Kind::Rate(place) => {
                *place(config) = optional(value, |value| value.size().filter(|rate| *rate > 0))?;
            }
            Kind::Time(place) => *place(config) = value.duration()?,
            Kind::Directory(place) => *place(config) = optional(value, absolute)?,
            Kind::Formats(place) => *place(config) = formats(value)?,
            Kind::Choice(_, _, set) => set(config, value.text()?)?,
        }
        Some(())
    }

    /// What would have been right instead of `value`.
    fn expected(&self, value: &Value) -> String {
        let what = match &self.kind {
            Kind::Flag(_) => "`true` or `false`".to_owned(),
            Kind::Count(_) => "a whole number from 1, such as 1000".to_owned(),
            Kind::Size(_) | Kind::Memory(_) => "a size such as 64MiB".to_owned(),
            Kind::Rate(_) => "bytes a second such as 50MiB".to_owned(),
            Kind::Time(_) => "a time with its unit, such as 10s or 500ms".to_owned(),
            Kind::Directory(_) => "an absolute path such as /var/cache/topicfs".to_owned(),
            Kind::Formats(_) => format!("a list of formats, each once, of {}", LISTABLE_FORMATS.join(", ")),
            Kind::Choice(names, ..) => alternatives(names),
        };
        let near = match (&self.kind, value.text()) {
            (Kind::Choice(names, ..), Some(text)) => suggestion(text, names.iter().copied()),
            _ => String::new(),
        };
        format!("expected {what}, not {value}{near}")
    }

    /// The value in `config` as YAML.
    pub(super) fn yaml(&self, config: &Config) -> serde_yaml::Value {
        let config = &mut config.clone();
        match &self.kind {
            Kind::Flag(place) => (*place(config)).into(),
            Kind::Count(place) => (*place(config)).into(),
            Kind::Size(place) => show_size(*place(config)).into(),
            Kind::Memory(place) => show_size(*place(config) as u64).into(),
            Kind::Rate(place) => place(config).map_or(serde_yaml::Value::Null, |rate| show_size(rate).into()),
            Kind::Time(place) => show_duration(*place(config)).into(),
            Kind::Directory(place) => place(config)
                .as_ref()
                .map_or(serde_yaml::Value::Null, |path| path.display().to_string().into()),
            Kind::Formats(place) => place(config).clone().into(),
            Kind::Choice(_, get, _) => get(config).into(),
        }
    }

    /// The value in `config` as it would stand after `-o NAME=`, if it is set.
    fn show(&self, config: &Config) -> Option<String> {
        match self.yaml(config) {
            serde_yaml::Value::Null => None,
            serde_yaml::Value::String(text) => Some(text),
            serde_yaml::Value::Sequence(items) => {
                Some(items.iter().filter_map(serde_yaml::Value::as_str).collect::<Vec<_>>().join(":"))
            }
            other => serde_yaml::to_string(&other).ok().map(|text| text.trim_end().to_owned()),
        }
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

fn formats(value: &Value) -> Option<Vec<String>> {
    let formats = value.list()?;
    let fits = |(index, format): (usize, &String)| {
        LISTABLE_FORMATS.contains(&format.as_str()) && !formats[..index].contains(format)
    };
    formats.iter().enumerate().all(fits).then_some(formats)
}

/// `a`, `b` or `c`.
fn alternatives(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
