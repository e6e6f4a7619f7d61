//! The configuration file.

use std::fmt;
use std::path::Path;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::keys::{self, KEYS, Key};
use super::value::Value;
use super::{Config, ConfigError, suggestion};

/// Puts what `text` says into `config`; `path` is for messages.
pub(super) fn read(config: &mut Config, path: &Path, text: &str) -> Result<(), ConfigError> {
    let file = serde_yaml::Deserializer::from_str(text);
    file.deserialize_any(File { config }).map_err(|error| located(path, &error))
}

/// `config` as a file that [`read`] takes.
pub(super) fn write(config: &Config) -> String {
    let entries = KEYS.iter().map(|key| (serde_yaml::Value::from(key.name), key.yaml(config)));
    let mapping: serde_yaml::Mapping = entries.collect();
    // A mapping of strings to scalars and lists always has a text.
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
    ConfigError::File { path: path.to_owned(), line, column, message }
}

/// The whole file: a mapping of options, or nothing.
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
        while let Some(key) = map.next_key_seed(Name { seen: &seen })? {
            seen.push(key.name);
            map.next_value_seed(Setting { key, config: &mut *self.config })?;
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

/// The name of an option that has not been set yet. It is checked here, where the parser still knows its place.
struct Name<'a> {
    seen: &'a [&'static str],
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = &'static Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = &'static Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an option")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        let Some(key) = keys::find(name) else {
            let near = suggestion(name, KEYS.iter().map(|key| key.name));
            return Err(E::custom(format_args!("unknown key `{}`{near}", name.escape_debug())));
        };
        match self.seen.contains(&key.name) {
            true => Err(E::custom(format_args!("`{name}` is set twice"))),
            false => Ok(key),
        }
    }
}

/// The value of an option, checked and assigned where the parser still knows its place.
struct Setting<'a> {
    key: &'static Key,
    config: &'a mut Config,
}

impl Setting<'_> {
    fn assign<E: de::Error>(self, value: &Value) -> Result<(), E> {
        self.key.assign(self.config, value).map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Setting<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Setting<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value for {}", self.key.name)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<(), E> {
        self.assign(&Value::Bool(flag))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.assign(&Value::Number(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.assign(&Value::Other(format!("`{number}`")))
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
