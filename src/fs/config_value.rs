//! Values of Kafka's configs as Kafka writes them: numbers without units, lists with commas.

use crate::fs::options::{CleanupPolicy, CompressionType, TimestampType};
use crate::log::upkeep::policy::Ratio;

/// A config can't have such a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoValue;

/// A value of a config.
pub(super) trait ConfigValue: Sized {
    /// Reads it.
    fn parse(text: &str) -> Option<Self>;

    /// As Kafka writes it.
    fn text(&self) -> String;
}

/// Declares how numbers are written: as they are.
macro_rules! numbers {
    ($($type:ty),+) => {
        $(impl ConfigValue for $type {
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }

            fn text(&self) -> String {
                self.to_string()
            }
        })+
    };
}

numbers!(u64, i64, Ratio);

/// The same of words.
macro_rules! words {
    ($($type:ty = $parse:path),+) => {
        $(impl ConfigValue for $type {
            fn parse(text: &str) -> Option<Self> {
                $parse(text)
            }

            fn text(&self) -> String {
                self.name().to_owned()
            }
        })+
    };
}

words!(
    CompressionType = CompressionType::from_name,
    TimestampType = TimestampType::from_name,
    CleanupPolicy = CleanupPolicy::from_list
);
