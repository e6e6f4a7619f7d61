//! What is counted by topic: of so many topics, and of all others together, since somebody may have a hundred thousand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::log::counter::Counter;

/// Topics that are told apart; those that come later are counted as [`OTHER`].
const MOST: usize = 1000;
/// All topics beyond the first ones. No topic has that name.
const OTHER: &str = "(other)";
/// What belongs to no topic.
const NONE: &str = "(none)";

/// What is counted of one topic.
#[derive(Debug, Default)]
pub struct TopicCounts {
    /// Bytes that readers were given.
    pub read_bytes: Counter,
    /// Records appended.
    pub appended_records: Counter,
    /// Bytes taken from those who write to append files.
    pub appended_bytes: Counter,
}

/// The topics, in the order in which they were first read or written.
#[derive(Debug, Default)]
pub struct Topics {
    by_name: Mutex<BTreeMap<Arc<str>, Arc<TopicCounts>>>,
    other: Arc<TopicCounts>,
    none: Arc<TopicCounts>,
}

impl Topics {
    /// The counts of a topic, or of what belongs to none: asked for when a file is opened, so that a read takes no lock.
    pub fn of(&self, topic: Option<&Arc<str>>) -> Arc<TopicCounts> {
        let Some(topic) = topic else { return self.none.clone() };
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        if by_name.len() >= MOST && !by_name.contains_key(topic) {
            return self.other.clone();
        }
        by_name.entry(topic.clone()).or_default().clone()
    }

    /// All of them in the order of their names, and what they are counted as.
    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<TopicCounts>)> {
        let by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = by_name.iter().map(|(name, counts)| (name.clone(), counts.clone())).collect();
        all.push((NONE.into(), self.none.clone()));
        if by_name.len() >= MOST {
            all.push((OTHER.into(), self.other.clone()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_topics_have_names_and_the_others_are_counted_together() {
        let topics = Topics::default();
        let topic = |number: usize| Arc::<str>::from(format!("t{number:04}"));
        for number in 0..MOST + 5 {
            topics.of(Some(&topic(number))).read_bytes.add(1);
        }
        topics.of(Some(&topic(0))).read_bytes.add(1);
        topics.of(None).read_bytes.add(7);
        let all: Vec<_> =
            topics.all().into_iter().map(|(name, counts)| (name, counts.read_bytes.get())).collect();
        assert_eq!(all.len(), MOST + 2);
        assert_eq!((&*all[0].0, all[0].1, all[MOST - 1].1), ("t0000", 2, 1));
        assert_eq!((&*all[MOST].0, all[MOST].1, &*all[MOST + 1].0, all[MOST + 1].1), (NONE, 7, OTHER, 5));
    }
}
