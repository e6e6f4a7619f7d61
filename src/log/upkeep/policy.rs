//! What is to be done to the logs of a topic as they grow old, by Kafka's names of topic configurations.

use std::fmt;
use std::str::FromStr;

use crate::log::append::config::NEVER;

/// The policy of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// `cleanup.policy` has `delete`: old segments go.
    pub delete: bool,
    /// `cleanup.policy` has `compact`: of each key the last record stays.
    pub compact: bool,
    /// `retention.ms`: how old records get, unless they stay for ever.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`: how large a log gets, if that is limited.
    pub retention_bytes: Option<u64>,
    /// `file.delete.delay.ms`: how long the files of a segment that goes are there under another name.
    pub file_delete_delay_ms: u64,
    /// `delete.retention.ms`: how long tombstones and markers can be read after compaction met them first.
    pub delete_retention_ms: u64,
    /// `min.compaction.lag.ms`: how long a record is there before compaction may take it.
    pub min_compaction_lag_ms: u64,
    /// `max.compaction.lag.ms`: how long a record is there until compaction has to look at it.
    pub max_compaction_lag_ms: u64,
    /// `min.cleanable.dirty.ratio`: how much of a log was never compacted before compaction begins.
    pub min_cleanable_dirty_ratio: Ratio,
}

impl Policy {
    /// Kafka's defaults, but that nothing is deleted or compacted.
    pub const NONE: Self = Self {
        delete: false,
        compact: false,
        retention_ms: Some(7 * 24 * 60 * 60 * 1000),
        retention_bytes: None,
        file_delete_delay_ms: 60_000,
        delete_retention_ms: 24 * 60 * 60 * 1000,
        min_compaction_lag_ms: 0,
        max_compaction_lag_ms: NEVER,
        min_cleanable_dirty_ratio: Ratio::from_millionths(500_000),
    };
}

/// A part of a whole, exact to a millionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u32);

/// All of it.
const WHOLE: u32 = 1_000_000;

impl Ratio {
    /// That many millionths; more than all of it is all of it.
    pub const fn from_millionths(millionths: u32) -> Self {
        Self(if millionths > WHOLE { WHOLE } else { millionths })
    }

    /// Whether `part` is more than this of `whole`.
    pub fn is_below(self, part: u64, whole: u64) -> bool {
        u128::from(part) * u128::from(WHOLE) > u128::from(whole) * u128::from(self.0)
    }
}

impl FromStr for Ratio {
    type Err = ();

    /// A decimal number from 0 to 1.
    fn from_str(text: &str) -> Result<Self, ()> {
        let number: f64 = text.parse().map_err(|_| ())?;
        // What is in range fits.
        (0.0..=1.0).contains(&number).then(|| Self((number * f64::from(WHOLE)).round() as u32)).ok_or(())
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / f64::from(WHOLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_decimal_numbers_from_0_to_1() {
        for text in ["0", "0.5", "0.01", "1", "0.000001"] {
            assert_eq!(text.parse::<Ratio>().unwrap().to_string(), text);
        }
        for text in ["", "1.1", "-0.1", "NaN", "inf", "half"] {
            assert_eq!(text.parse::<Ratio>(), Err(()), "{text}");
        }
    }

    #[test]
    fn a_log_is_dirty_when_more_than_the_ratio_of_it_is() {
        let half: Ratio = "0.5".parse().unwrap();
        assert!(!half.is_below(50, 100));
        assert!(half.is_below(51, 100));
        assert!(!"1".parse::<Ratio>().unwrap().is_below(100, 100));
        assert!("0".parse::<Ratio>().unwrap().is_below(1, u64::MAX));
    }
}
