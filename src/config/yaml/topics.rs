//! `topics:`, patterns and the options of the topics whose names match.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};

use super::{Entry, Seed, TopicSetting};
use crate::config::keys::{Key, TOPIC_KEYS};
use crate::config::suggestion;
use crate::fs::options::Options;
use crate::fs::topic_options::{TopicChoices, TopicPattern, TopicRule};
use crate::view::format::Formats;

/// The section as [`super::write`] has it; `None` for none.
pub(super) fn yaml(rules: &[TopicRule]) -> Option<serde_yaml::Value> {
    let options = |rule: &TopicRule| -> serde_yaml::Value {
        let entries = TOPIC_KEYS.iter().map(|key| (key.name.into(), key.kind.yaml(&rule.choices)));
        serde_yaml::Mapping::from_iter(entries.filter(|(_, value): &(_, serde_yaml::Value)| !value.is_null()))
            .into()
    };
    let mapping: serde_yaml::Mapping =
        rules.iter().map(|rule| (rule.pattern.text().into(), options(rule))).collect();
    (!mapping.is_empty()).then_some(mapping.into())
}

/// The section: a mapping, or nothing.
pub(super) struct Section<'a> {
    pub(super) options: &'a mut Options,
}

impl<'de> Visitor<'de> for Section<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("patterns of topics, each with lines of `option: value` below it")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(pattern) = map.next_key_seed(Seed(Pattern { rules: &self.options.topics }))? {
            let choices = map.next_value_seed(Seed(Choices { formats: &self.options.formats }))?;
            self.options.topics.push(TopicRule { pattern, choices });
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

/// A pattern that no rule has yet.
struct Pattern<'a> {
    rules: &'a [TopicRule],
}

impl Visitor<'_> for Pattern<'_> {
    type Value = TopicPattern;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a topic or a pattern of topics, in quotes if it looks like something else")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let shown = text.escape_debug();
        if self.rules.iter().any(|rule| rule.pattern.text() == text) {
            return Err(E::custom(format_args!("`{shown}` is set twice")));
        }
        TopicPattern::parse(text).map_err(|cause| E::custom(format_args!("`{shown}` is no pattern: {cause}")))
    }
}

/// What a rule sets: a mapping, or nothing.
struct Choices<'a> {
    formats: &'a Formats,
}

impl<'de> Visitor<'de> for Choices<'_> {
    type Value = TopicChoices;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("lines of `option: value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TopicChoices, A::Error> {
        let (mut choices, mut seen) = (TopicChoices::default(), Vec::new());
        while let Some(key) = map.next_key_seed(Seed(Name { seen: &seen }))? {
            seen.push(key.name);
            map.next_value_seed(TopicSetting { key, choices: &mut choices, formats: self.formats })?;
        }
        Ok(choices)
    }

    fn visit_unit<E: de::Error>(self) -> Result<TopicChoices, E> {
        Ok(TopicChoices::default())
    }

    fn visit_none<E: de::Error>(self) -> Result<TopicChoices, E> {
        Ok(TopicChoices::default())
    }
}

/// The name of an option that the rule has not set yet.
struct Name<'a> {
    seen: &'a [&'static str],
}

impl Visitor<'_> for Name<'_> {
    type Value = &'static Key<TopicChoices>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an option")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        match TOPIC_KEYS.iter().find(|key| key.name == name) {
            Some(key) if self.seen.contains(&key.name) => {
                Err(E::custom(format_args!("`{name}` is set twice")))
            }
            Some(key) => Ok(key),
            None if Entry::find(name).is_some() => Err(E::custom(format_args!(
                "`{name}` is one for all topics; it belongs at the top of the file"
            ))),
            None => {
                let near = suggestion(name, TOPIC_KEYS.iter().map(|key| key.name));
                Err(E::custom(format_args!("unknown key `{}`{near}", name.escape_debug())))
            }
        }
    }
}
