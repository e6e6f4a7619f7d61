//! `formats:`, names and their templates.

use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::{AnyValue, FORMATS, Seed};
use crate::config::value::Value;
use crate::view::format::Formats;
use crate::view::template::Template;

/// The section as [`super::write`] has it; `None` for none.
pub(super) fn yaml(formats: &Formats) -> Option<serde_yaml::Value> {
    let entries = formats.templates().map(|(name, template)| (name.into(), template.text().into()));
    let mapping: serde_yaml::Mapping = entries.collect();
    (!mapping.is_empty()).then_some(mapping.into())
}

/// A whole file, of which this section is read and nothing else. What is no mapping is left to who reads the rest.
pub(super) struct File<'a> {
    pub(super) formats: &'a mut Formats,
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lines of `option: value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<serde_yaml::Value>()? {
            if key == FORMATS {
                map.next_value_seed(Seed(Section { formats: &mut *self.formats }))?;
            } else {
                map.next_value::<IgnoredAny>()?;
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

/// The section: a mapping, or nothing.
struct Section<'a> {
    formats: &'a mut Formats,
}

impl<'de> Visitor<'de> for Section<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lines of `name: 'format string'`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key_seed(Seed(Name { formats: &*self.formats }))? {
            let template = map.next_value_seed(Text)?;
            self.formats.add(&name, template).map_err(de::Error::custom)?;
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

/// A name that a template may have, checked where the parser still knows its place.
struct Name<'a> {
    formats: &'a Formats,
}

impl Visitor<'_> for Name<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a format, which begins with a letter")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        self.formats.check_name(name).map_err(E::custom)?;
        Ok(name.to_owned())
    }
}

/// A template.
struct Text;

impl<'de> DeserializeSeed<'de> for Text {
    type Value = Template;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let mut template = None;
        let assign = |value: &Value| {
            let text = value
                .text()
                .ok_or_else(|| format!("expected a format string such as '%o %s\\n', not {value}"))?;
            template = Some(Template::parse(text).map_err(|error| error.to_string())?);
            Ok(())
        };
        deserializer.deserialize_any(AnyValue { name: "a format", assign })?;
        template.ok_or_else(|| de::Error::custom("expected a format string"))
    }
}
