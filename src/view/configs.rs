//! Kafka's configs of a topic as `info` shows them: names, values, and who has set them.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::format::uuid::Uuid;
use crate::log::cluster::Layer;

/// Who has set a config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// The configuration of the mount.
    Mount,
    /// The topic's cluster, or the broker's own file.
    Cluster(Layer),
    /// Nobody.
    Default,
}

/// A config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigRow {
    /// As Kafka writes it.
    pub value: String,
    /// Who has set it.
    pub source: ConfigSource,
}

/// What is to be shown of a topic besides its partitions.
#[derive(Debug, Clone, Copy)]
pub struct TopicDetails<'a> {
    /// Its id, as its cluster knows it.
    pub id: Option<Uuid>,
    /// Its configs by name.
    pub configs: &'a BTreeMap<String, ConfigRow>,
}

impl ConfigSource {
    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount configuration",
            Self::Cluster(Layer::Topic) => "__cluster_metadata: topic",
            Self::Cluster(Layer::Broker) => "__cluster_metadata: broker",
            Self::Cluster(Layer::AllBrokers) => "__cluster_metadata: all brokers",
            Self::Cluster(Layer::ServerProperties) => "server.properties",
            Self::Default => "default",
        }
    }
}

impl Serialize for ConfigSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl TopicDetails<'_> {
    /// A line for each config that somebody has set: its name, its value and who that was.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        let set = self.configs.iter().filter(|(_, row)| row.source != ConfigSource::Default);
        set.map(|(name, row)| format!("{name}={} ({})", one_line(&row.value), row.source.name()))
    }

    /// Its id in the cluster where a partition says another one: it is one of a topic that was there before.
    pub(super) fn other_id(&self, of_partition: Option<&str>) -> Option<String> {
        let id = self.id.map(|id| id.to_string());
        id.filter(|id| of_partition.is_some_and(|of_partition| of_partition != id))
    }
}

/// A value without control characters.
fn one_line(value: &str) -> String {
    value.escape_debug().to_string()
}
