//! What a source's cluster says of its topics: ids and configs, out of `__cluster_metadata` (KIP-500) and `server.properties`.
//!
//! | module | what |
//! |---|---|
//! | [`places`] | where the metadata of a source may lie, and the broker's own file |
//! | [`metadata_log`] | the metadata partition: its newest whole snapshot, and what was appended since |
//! | [`metadata`] | topics and configs, record by record |
//! | [`synonyms`] | the names that a broker has for its defaults of topics' configs |
//!
//! Nothing here fails: what can be read is used, and what can't is told.

pub mod metadata;
pub mod metadata_log;
pub mod places;
pub mod synonyms;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::format::uuid::Uuid;
use crate::log::cluster::metadata::{Configs, Metadata};
use crate::log::cluster::metadata_log::MetadataLog;
use crate::log::cluster::places::Places;
use crate::log::problem::Problem;
use crate::log::source::SourceOptions;

/// Who has set a config, those that count more first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// The topic's own.
    Topic,
    /// The dynamic default of this broker.
    Broker,
    /// The dynamic default of all brokers.
    AllBrokers,
    /// The broker's own file.
    ServerProperties,
}

/// A source's cluster. Nothing is read before somebody asks.
#[derive(Debug)]
pub struct Cluster {
    spec: String,
    options: SourceOptions,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    places: Option<Places>,
    logs: BTreeMap<PathBuf, MetadataLog>,
    looked_at: Option<Instant>,
    known: Arc<ClusterConfigs>,
}

/// What a cluster says at one moment.
#[derive(Debug, Default)]
pub struct ClusterConfigs {
    /// Topics and configs; `None` without a metadata partition.
    metadata: Option<Arc<Metadata>>,
    /// The broker's id, if the data directories agree on it.
    node_id: Option<String>,
    server: Configs,
    /// Whether the broker's own file is known, and so all of its defaults.
    pub has_server: bool,
    /// What can't be read.
    pub problems: Vec<Problem>,
}

/// What a cluster says of a topic.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TopicInCluster {
    /// Its id; `None` for a topic that the metadata doesn't know.
    pub id: Option<Uuid>,
    /// Its configs by Kafka's names, each with its value as Kafka writes it, and who has set it.
    pub configs: BTreeMap<String, (String, Layer)>,
}

impl Cluster {
    /// The cluster of the source that `spec` names.
    pub fn new(spec: &str, options: SourceOptions) -> Self {
        Self { spec: spec.to_owned(), options, state: Mutex::default() }
    }

    /// Whether asking reads no more than `bytes`: it was asked before, or its metadata is so small.
    pub fn is_near(&self, bytes: u64) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked_at.is_some() {
            return true;
        }
        let places = state.places.get_or_insert_with(|| Places::of(&self.spec));
        let partitions = places.metadata_partitions(self.options.follow_symlinks);
        partitions.iter().map(|path| metadata_log::size(path)).fold(0, u64::saturating_add) <= bytes
    }

    /// What it says now. The metadata is looked at once a second at most; of what has grown only the new part is read.
    pub fn now(&self) -> Arc<ClusterConfigs> {
        const LOOK: Duration = Duration::from_secs(1);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked_at.is_none_or(|at| at.elapsed() >= LOOK) {
            state.look(&self.spec, self.options);
            state.looked_at = Some(Instant::now());
        }
        state.known.clone()
    }
}

impl State {
    fn look(&mut self, spec: &str, options: SourceOptions) {
        let places = self.places.get_or_insert_with(|| Places::of(spec));
        let found = places.metadata_partitions(options.follow_symlinks);
        let before = self.logs.len();
        self.logs.retain(|path, _| found.contains(path));
        let mut has_changed = self.looked_at.is_none() || self.logs.len() != before;
        for path in found {
            let log = self.logs.entry(path.clone()).or_insert_with(|| MetadataLog::new(path, options.limits));
            has_changed |= log.look();
        }
        if has_changed {
            let newest = self.logs.values().max_by_key(|log| log.end());
            let problems = newest.iter().flat_map(|log| log.problems());
            self.known = Arc::new(ClusterConfigs {
                metadata: newest.map(MetadataLog::metadata),
                node_id: places.node_id(),
                server: places.server.clone(),
                has_server: places.has_server,
                problems: places.problems.iter().chain(problems).cloned().collect(),
            });
        }
    }
}

impl ClusterConfigs {
    /// What it says of a topic. The defaults of brokers are part of it for topics that it doesn't know, too.
    pub fn of_topic(&self, topic: &str) -> TopicInCluster {
        let mut configs = BTreeMap::new();
        let brokers = |name: &str| self.metadata.as_ref().and_then(|metadata| metadata.broker(name));
        let of_node = self.node_id.as_deref().and_then(brokers);
        for (layer, broker) in [
            (Layer::ServerProperties, Some(&self.server)),
            (Layer::AllBrokers, brokers("")),
            (Layer::Broker, of_node),
        ] {
            let set = broker.into_iter().flat_map(synonyms::topic_configs);
            configs.extend(set.map(|(name, value)| (name.to_owned(), (value, layer))));
        }
        let known = self.metadata.as_ref().and_then(|metadata| metadata.topic(topic));
        let own = known.iter().flat_map(|topic| &topic.configs);
        configs.extend(own.map(|(name, value)| (name.clone(), (value.clone(), Layer::Topic))));
        TopicInCluster { id: known.map(|topic| topic.id), configs }
    }
}
