//! Partitions that are asked for by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::anyhow;

use crate::format::names::PartitionDir;
use crate::log::partition::Partition;
use crate::log::source::Source;
use crate::units::TopicPartition;

/// Partitions by their names in the tree.
pub(super) type Partitions = BTreeMap<String, Arc<Partition>>;

/// The partition that `TOPIC/PARTITION` names.
///
/// # Errors
/// When it names none.
pub(super) fn parse(text: &str) -> anyhow::Result<TopicPartition> {
    let parsed =
        text.rsplit_once('/').and_then(|(topic, number)| PartitionDir::parse(&format!("{topic}-{number}")));
    Ok(parsed.ok_or_else(|| anyhow!("{text:?}: expected TOPIC/PARTITION"))?.partition)
}

/// Its name in the tree.
pub(super) fn text(name: &TopicPartition) -> String {
    format!("{}/{}", name.topic, name.partition)
}

/// The partitions of a source that are in use and asked for; all if none is.
pub(super) fn partitions(source: &Source, asked: &[String]) -> Partitions {
    let tree = source.tree();
    let all = tree.topics.values().flatten();
    let in_use = all.filter(|partition| partition.label == partition.name.partition.to_string());
    let named = in_use.map(|partition| (text(&partition.name), partition.clone()));
    named.filter(|(name, _)| is_asked(name, asked)).collect()
}

/// Whether a partition is asked for: by its name, by its topic, or since none is.
pub(super) fn is_asked(partition: &str, asked: &[String]) -> bool {
    asked.is_empty() || asked.iter().any(|asked| is_named(partition, asked))
}

/// Checks that all that is asked for is there.
///
/// # Errors
/// The first that isn't.
pub(super) fn check<'a>(
    asked: &[String],
    found: &(impl Iterator<Item = &'a String> + Clone),
) -> anyhow::Result<()> {
    let is_missing = |asked: &&String| !found.clone().any(|found| is_named(found, asked));
    match asked.iter().find(is_missing) {
        Some(missing) => Err(anyhow!("{missing}: there is no such partition")),
        None => Ok(()),
    }
}

/// Whether `asked` is a partition, or its topic.
fn is_named(partition: &str, asked: &str) -> bool {
    let asked = asked.trim_end_matches('/');
    partition.strip_prefix(asked).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
