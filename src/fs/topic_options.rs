//! What a user may choose for each topic: for all of them, and by rules for those whose names match a pattern.
//!
//! Rules are in order, and each sets some options: the last one that matches a topic and sets an option wins, and all of them win
//! over what is chosen for every topic.

use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use jiff::tz::TimeZone;

use crate::fs::options::{From, Isolation, Listing, OnDamage, Options, UpTo};
use crate::view::encoding::{Encoding, Encodings};
use crate::view::format::{Format, Formats, Rendering};
use crate::view::partition_view::Scope;

/// Declares the options of a topic twice: all of them with their defaults, and those that a rule sets.
macro_rules! topic_options {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr,)+) => {
        /// What is chosen for a topic.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct TopicOptions {
            $($(#[$doc])* pub $name: $type,)+
        }

        impl Default for TopicOptions {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        /// The same, as far as somebody set it.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct TopicChoices {
            $($(#[$doc])* pub $name: Option<$type>,)+
        }

        impl TopicOptions {
            /// Takes over what is set in `choices`.
            pub fn set(&mut self, choices: &TopicChoices) {
                $(if let Some(choice) = &choices.$name {
                    self.$name = choice.clone();
                })+
            }

            /// All of them as choices.
            pub fn choices(&self) -> TopicChoices {
                TopicChoices { $($name: Some(self.$name.clone()),)+ }
            }
        }
    };
}

topic_options! {
    /// Which records of transactions are shown.
    isolation: Isolation = Isolation::default(),
    /// Where partitions end.
    up_to: UpTo = UpTo::default(),
    /// Where partitions start.
    from: From = From::default(),
    /// What a reader meets at a damaged batch.
    on_damage: OnDamage = OnDamage::default(),
    /// The number of records in `tail`, at least 1.
    tail_records: u64 = 1000,
    /// The formats that listings show, each the extension of a format, none twice.
    formats_listed: Vec<String> = vec!["txt".to_owned(), "jsonl".to_owned()],
    /// How much a listing shows.
    listing: Listing = Listing::default(),
    /// How keys are written.
    key: Encoding = Encoding::default(),
    /// How values are written.
    value: Encoding = Encoding::default(),
    /// The timezone of times that are for people.
    timezone: TimeZone = TimeZone::UTC,
    /// Whether `by-key` lists the keys.
    by_key_listed: bool = false,
}

/// Some choices for the topics whose names match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicRule {
    /// The pattern.
    pub pattern: TopicPattern,
    /// What it sets.
    pub choices: TopicChoices,
}

/// A pattern for names of topics, as a shell's: `*`, `?`, `[a-z]`, `{a,b}`.
#[derive(Debug, Clone)]
pub struct TopicPattern(GlobMatcher);

impl TopicPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        // What it quotes may be anything.
        let message = |error: globset::Error| error.kind().to_string().replace(char::is_control, " ");
        glob.map(|glob| Self(glob.compile_matcher())).map_err(message)
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        self.0.glob().glob()
    }

    /// Whether it stands for `topic`.
    pub fn matches(&self, topic: &str) -> bool {
        self.0.is_match(topic)
    }
}

impl PartialEq for TopicPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for TopicPattern {}

/// What is chosen for one topic, as the file system needs it.
#[derive(Debug)]
pub struct OfTopic {
    /// The options.
    pub options: TopicOptions,
    /// The formats that listings show.
    pub formats_listed: Vec<Format>,
    formats: Arc<Formats>,
}

impl OfTopic {
    /// What `options` say of `topic`.
    pub fn new(options: &Options, topic: &str) -> Self {
        let (options, formats) = (options.of_topic(topic), options.formats.clone());
        let listed = options.formats_listed.iter();
        let formats_listed = listed.filter_map(|name| formats.of_extension(name)).collect();
        Self { options, formats_listed, formats }
    }

    /// Which of a partition's records are shown.
    pub fn scope(&self) -> Scope {
        Scope {
            up_to_high_watermark: self.options.up_to == UpTo::HighWatermark,
            from_first_segment: self.options.from == From::FirstSegment,
            fail_on_damage: self.options.on_damage == OnDamage::Error,
        }
    }

    /// How they are rendered.
    pub fn rendering(&self) -> Rendering {
        let TopicOptions { key, value, ref timezone, .. } = self.options;
        let encodings = Encodings { key, value };
        Rendering { encodings, timezone: timezone.clone(), formats: self.formats.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str, tail_records: Option<u64>, from: Option<From>) -> TopicRule {
        let choices = TopicChoices { tail_records, from, ..TopicChoices::default() };
        TopicRule { pattern: TopicPattern::parse(pattern).unwrap(), choices }
    }

    #[test]
    fn later_rules_win_over_earlier_ones_and_all_over_the_top_level() {
        let options = Options {
            topic: TopicOptions { tail_records: 7, ..TopicOptions::default() },
            topics: vec![
                rule("*", None, Some(From::FirstSegment)),
                rule("app-*", Some(1), None),
                rule("app-log?", Some(2), Some(From::LogStart)),
            ],
            ..Options::default()
        };
        let of = |topic| {
            let of = options.of_topic(topic);
            (of.tail_records, of.from)
        };
        assert_eq!(of("orders"), (7, From::FirstSegment));
        assert_eq!(of("app-x"), (1, From::FirstSegment));
        assert_eq!(of("app-logs"), (2, From::LogStart));
    }

    #[test]
    fn patterns_match_as_a_shells() {
        for (pattern, topic, expected) in [
            ("orders", "orders", true),
            ("orders", "orders-2", false),
            ("orders*", "orders-2", true),
            ("*", "__consumer_offsets", true),
            ("*", ".hidden", true),
            ("app-?", "app-1", true),
            ("app-?", "app-12", false),
            ("app-[0-4]", "app-5", false),
            ("app-[!0-4]", "app-5", true),
            ("{orders,payments}.v1", "payments.v1", true),
            ("a.b", "aXb", false),
            ("Orders", "orders", false),
        ] {
            assert_eq!(TopicPattern::parse(pattern).unwrap().matches(topic), expected, "{pattern} {topic}");
        }
        assert!(TopicPattern::parse("a[").is_err());
        assert_eq!(TopicPattern::parse("[b-\n]"), Err("invalid range; 'b' > ' '".to_owned()));
    }
}
