//! The configuration file: options, and the sections `topics:` and `formats:`.
//!
//! It is read twice: options name formats, which may stand behind them.

mod formats;
mod topics;

use std::fmt;
use std::path::Path;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::keys::{self, AnyKey, KEYS, Key, TOPIC_KEYS};
use super::value::Value;
use super::{Config, ConfigError, suggestion};
use crate::fs::topic_options::{CONFIGS, TopicChoices, TopicOptions};
use crate::view::format::Formats;

/// The section of templates.
const FORMATS: &str = "formats";
/// The section of rules for topics.
const TOPICS: &str = "topics";

/// Puts what `text` says into `config`; `path` is for messages.
pub(super) fn read(config: &mut Config, path: &Path, text: &str) -> Result<(), ConfigError> {
    let mut formats = Formats::default();
    let file = serde_yaml::Deserializer::from_str(text);
    file.deserialize_any(formats::File { formats: &mut formats }).map_err(|error| located(path, &error))?;
    config.options.formats = formats.into();
    let file = serde_yaml::Deserializer::from_str(text);
    file.deserialize_any(File { config }).map_err(|error| located(path, &error))
}

/// `config` as a file that [`read`] takes.
pub(super) fn write(config: &Config) -> String {
    // Where nobody has named one of Kafka's configs, each topic has its own.
    let is_shown = |key: &&Key<TopicChoices>| {
        !CONFIGS.contains(&key.name) || !key.kind.yaml(&config.options.topic).is_null()
    };
    let mut options = TopicOptions::default();
    options.set(&config.options.topic);
    let choices = options.choices();
    let keys = TOPIC_KEYS.iter().filter(is_shown);
    let entries = keys.map(|key| (key.name.into(), key.kind.yaml(&choices)));
    let mut mapping: serde_yaml::Mapping = entries.collect();
    mapping.extend(KEYS.iter().map(|key| (key.name.into(), key.kind.yaml(config))));
    if let Some(formats) = formats::yaml(&config.options.formats) {
        mapping.insert(FORMATS.into(), formats);
    }
    if let Some(topics) = topics::yaml(&config.options.topics) {
        mapping.insert(TOPICS.into(), topics);
    }
    // A mapping of strings to scalars, lists and such mappings always has a text.
    serde_yaml::to_string(&mapping).unwrap_or_default()
}

/// The parser's error with its place in front, as compilers and editors have it.
fn located(path: &Path, error: &serde_yaml::Error) -> ConfigError {
    let mut message = error.to_string();
    let (line, column) = match error.location() {
        Some(location) => (location.line(), location.column()),
        None => (1, 1),
    };
    if let Some(at) = message.find(&format!(" at line {line} column {column}")) {
        message.truncate(at);
    }
    // A format that begins with `%`, or a pattern with `*`, which YAML takes for an alias.
    let unquoted = [
        "found character that cannot start any token",
        "did not find expected alphabetic or numeric character",
    ];
    if unquoted.contains(&message.as_str()) {
        message.push_str("; quotes around it help: '%o' or '*'");
    }
    ConfigError::File { path: path.to_owned(), line, column, message }
}

/// A visitor of whatever there is, for who reads a mapping.
struct Seed<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Seed<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        deserializer.deserialize_any(self.0)
    }
}

/// The whole file: a mapping of options and sections, or nothing.
struct File<'a> {
    config: &'a mut Config,
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lines of `option: value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = Vec::new();
        while let Some(entry) = map.next_key_seed(Seed(EntryName { seen: &seen }))? {
            seen.push(entry.name());
            match entry {
                Entry::Option(key) => map.next_value_seed(Setting { key, config: &mut *self.config })?,
                Entry::Topics => {
                    map.next_value_seed(Seed(topics::Section { options: &mut self.config.options }))?;
                }
                Entry::Formats => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// What a line at the top of the file begins.
#[derive(Clone, Copy)]
enum Entry {
    Option(AnyKey),
    Topics,
    /// Read before.
    Formats,
}

impl Entry {
    const fn name(self) -> &'static str {
        match self {
            Self::Option(key) => key.name(),
            Self::Topics => TOPICS,
            Self::Formats => FORMATS,
        }
    }

    fn find(name: &str) -> Option<Self> {
        match name {
            TOPICS => Some(Self::Topics),
            FORMATS => Some(Self::Formats),
            _ => AnyKey::find(name).map(Self::Option),
        }
    }
}

/// A name at the top that has not been set yet. It is checked here, where the parser still knows its place.
struct EntryName<'a> {
    seen: &'a [&'static str],
}

impl Visitor<'_> for EntryName<'_> {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an option")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        let Some(entry) = Entry::find(name) else {
            let near = suggestion(name, keys::names().chain([TOPICS, FORMATS]));
            return Err(E::custom(format_args!("unknown key `{}`{near}", name.escape_debug())));
        };
        match self.seen.contains(&entry.name()) {
            true => Err(E::custom(format_args!("`{name}` is set twice"))),
            false => Ok(entry),
        }
    }
}

/// The value of an option for the whole mount, checked and assigned where the parser still knows its place.
struct Setting<'a> {
    key: AnyKey,
    config: &'a mut Config,
}

impl<'de> DeserializeSeed<'de> for Setting<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { key, config } = self;
        let assign = |value: &Value| key.assign(config, value);
        deserializer.deserialize_any(AnyValue { name: key.name(), assign })
    }
}

/// The value of an option of one topic.
struct TopicSetting<'a> {
    key: &'static Key<TopicChoices>,
    choices: &'a mut TopicChoices,
    formats: &'a Formats,
}

impl<'de> DeserializeSeed<'de> for TopicSetting<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { key, choices, formats } = self;
        let assign = |value: &Value| key.kind.assign(choices, value, formats);
        deserializer.deserialize_any(AnyValue { name: key.name, assign })
    }
}

/// A value of whatever kind, given to `assign`.
struct AnyValue<F> {
    name: &'static str,
    assign: F,
}

impl<F: FnOnce(&Value) -> Result<(), String>> AnyValue<F> {
    fn assign<E: de::Error>(self, value: &Value) -> Result<(), E> {
        (self.assign)(value).map_err(E::custom)
    }
}

impl<'de, F: FnOnce(&Value) -> Result<(), String>> Visitor<'de> for AnyValue<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value for {}", self.name)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<(), E> {
        self.assign(&Value::Bool(flag))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.assign(&Value::Number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.assign(&Value::Negative(number))
    }

    fn visit_u128<E: de::Error>(self, number: u128) -> Result<(), E> {
        self.assign(&Value::Other(format!("`{number}`")))
    }

    fn visit_i128<E: de::Error>(self, number: i128) -> Result<(), E> {
        self.assign(&Value::Other(format!("`{number}`")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        self.assign(&Value::Other(format!("`{number}`")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.assign(&Value::Text(text.to_owned()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        self.assign(&Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        self.assign(&Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        self.assign(&Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.assign(&Value::Other("a mapping".to_owned()))
    }
}
