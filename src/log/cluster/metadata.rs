//! Topics and configs as the records of `__cluster_metadata` leave them.
//!
//! Records of a transaction (KIP-868) are held back until it ends; those of one that is aborted, or never ends, don't count.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::format::metadata_record::{MetadataRecord, Resource};
use crate::format::uuid::Uuid;
use crate::log::cluster::synonyms;

/// Values by Kafka's names of configs.
pub type Configs = BTreeMap<String, String>;

/// A topic that the metadata knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its id.
    pub id: Uuid,
    /// Its own configs.
    pub configs: Configs,
}

/// The topics, and the configs of brokers that are defaults for them. A copy shares each topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    topics: HashMap<Arc<str>, Arc<Topic>>,
    names: HashMap<Uuid, Arc<str>>,
    /// In 2.8 a topic's configs came before the topic.
    early: HashMap<String, Configs>,
    /// By id; that of all brokers is empty.
    brokers: HashMap<String, Configs>,
}

/// A record that says something of topics or configs.
#[derive(Debug)]
enum Change {
    Topic { name: String, id: Uuid },
    RemoveTopic { id: Uuid },
    TopicConfig { topic: String, name: String, value: Option<String> },
    BrokerConfig { broker: String, name: String, value: Option<String> },
}

/// Metadata as far as its records were read.
#[derive(Debug, Default)]
pub struct Replay {
    metadata: Arc<Metadata>,
    /// What a transaction has changed that hasn't ended.
    held: Option<Vec<Change>>,
}

impl Metadata {
    /// A topic, if there is one of that name.
    pub fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name).map(|topic| &**topic)
    }

    /// The configs of a broker, by its id; the empty one stands for all brokers.
    pub fn broker(&self, id: &str) -> Option<&Configs> {
        self.brokers.get(id)
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Topic { name, id } => {
                let configs = self.early.remove(&name).unwrap_or_default();
                let name: Arc<str> = name.into();
                if let Some(old) = self.topics.insert(name.clone(), Arc::new(Topic { id, configs })) {
                    self.names.remove(&old.id);
                }
                self.names.insert(id, name);
            }
            Change::RemoveTopic { id } => {
                if let Some(name) = self.names.remove(&id) {
                    self.topics.remove(&name);
                }
            }
            Change::TopicConfig { topic, name, value } => {
                let configs = match self.topics.get_mut(&*topic) {
                    Some(known) => &mut Arc::make_mut(known).configs,
                    None => self.early.entry(topic).or_default(),
                };
                set(configs, name, value);
            }
            Change::BrokerConfig { broker, name, value } => {
                set(self.brokers.entry(broker).or_default(), name, value);
            }
        }
    }
}

fn set(configs: &mut Configs, name: String, value: Option<String>) {
    match value {
        Some(value) => configs.insert(name, value),
        None => configs.remove(&name),
    };
}

impl Replay {
    /// What counts of the records so far.
    pub const fn metadata(&self) -> &Arc<Metadata> {
        &self.metadata
    }

    /// Takes the next record in.
    pub fn apply(&mut self, record: &MetadataRecord<'_>) {
        match record {
            MetadataRecord::BeginTransaction => self.held = Some(Vec::new()),
            MetadataRecord::AbortTransaction => self.held = None,
            MetadataRecord::EndTransaction => {
                let metadata = Arc::make_mut(&mut self.metadata);
                self.held.take().into_iter().flatten().for_each(|change| metadata.apply(change));
            }
            _ => {
                let Some(change) = Change::of(record) else { return };
                match &mut self.held {
                    Some(held) => held.push(change),
                    None => Arc::make_mut(&mut self.metadata).apply(change),
                }
            }
        }
    }
}

impl Change {
    /// What a record changes, if that matters here. Of brokers' configs, passwords among them, only the defaults of topics are kept.
    fn of(record: &MetadataRecord<'_>) -> Option<Self> {
        let owned = |value: &Option<&str>| value.map(str::to_owned);
        match record {
            MetadataRecord::Topic { name, id } => Some(Self::Topic { name: (*name).to_owned(), id: *id }),
            MetadataRecord::RemoveTopic { id } => Some(Self::RemoveTopic { id: *id }),
            MetadataRecord::Config { resource: Resource::Topic(topic), name, value } => {
                let (topic, name) = ((*topic).to_owned(), (*name).to_owned());
                Some(Self::TopicConfig { topic, name, value: owned(value) })
            }
            MetadataRecord::Config { resource: Resource::Broker(broker), name, value }
                if synonyms::is_default_of_topics(name) =>
            {
                let (broker, name) = ((*broker).to_owned(), (*name).to_owned());
                Some(Self::BrokerConfig { broker, name, value: owned(value) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Uuid = Uuid([1; 16]);
    const TWO: Uuid = Uuid([2; 16]);

    fn config<'a>(topic: &'a str, value: Option<&'a str>) -> MetadataRecord<'a> {
        MetadataRecord::Config { resource: Resource::Topic(topic), name: "retention.ms", value }
    }

    fn topic(name: &str, id: Uuid) -> MetadataRecord<'_> {
        MetadataRecord::Topic { name, id }
    }

    fn after(records: &[MetadataRecord<'_>]) -> Arc<Metadata> {
        let mut replay = Replay::default();
        records.iter().for_each(|record| replay.apply(record));
        replay.metadata().clone()
    }

    fn retention(metadata: &Metadata, topic: &str) -> Option<String> {
        metadata.topic(topic)?.configs.get("retention.ms").cloned()
    }

    #[test]
    fn configs_go_with_their_topic() {
        let begun = [topic("a", ONE), config("a", Some("1"))];
        assert_eq!(retention(&after(&begun), "a").as_deref(), Some("1"));
        let taken_away = [&begun[..], &[config("a", None)]].concat();
        assert_eq!(retention(&after(&taken_away), "a"), None);
        let removed = [&begun[..], &[MetadataRecord::RemoveTopic { id: ONE }]].concat();
        assert_eq!(after(&removed).topic("a"), None);
        let made_again = [&removed[..], &[topic("a", TWO)]].concat();
        assert_eq!(after(&made_again).topic("a"), Some(&Topic { id: TWO, configs: Configs::new() }));
        // The record that removes it can be lost.
        let lost = [&begun[..], &[topic("a", TWO)]].concat();
        assert_eq!(after(&lost), after(&[topic("a", TWO)]));
    }

    #[test]
    fn configs_may_come_before_their_topic() {
        let metadata = after(&[config("a", Some("1")), topic("a", ONE)]);
        assert_eq!(retention(&metadata, "a").as_deref(), Some("1"));
        assert_eq!(after(&[config("a", Some("1"))]).topic("a"), None);
    }

    #[test]
    fn a_transaction_counts_when_it_has_ended() {
        let begun = [topic("a", ONE), MetadataRecord::BeginTransaction, config("a", Some("1"))];
        let and = |record| [&begun[..], &[record]].concat();
        assert_eq!(retention(&after(&begun), "a"), None);
        assert_eq!(retention(&after(&and(MetadataRecord::EndTransaction)), "a").as_deref(), Some("1"));
        let aborted = [and(MetadataRecord::AbortTransaction), vec![config("a", Some("2"))]].concat();
        assert_eq!(retention(&after(&aborted), "a").as_deref(), Some("2"));
        let begun_again =
            [&and(MetadataRecord::BeginTransaction)[..], &[MetadataRecord::EndTransaction]].concat();
        assert_eq!(retention(&after(&begun_again), "a"), None);
    }

    #[test]
    fn of_brokers_only_the_defaults_of_topics_are_kept() {
        let of = |name| MetadataRecord::Config { resource: Resource::Broker("1"), name, value: Some("x") };
        let metadata = after(&[of("log.retention.ms"), of("ssl.key.password")]);
        assert_eq!(metadata.broker("1").map(Configs::len), Some(1));
    }
}
