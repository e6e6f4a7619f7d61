//! The configs of topics in `info.json` against what a real broker says of them: values, and who has set each.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::kafka::{Broker, Kafka};
use crate::common::shown;
use serde_json::Value;
use topicfs::fs::Fs;
use topicfs::fs::options::Options;
use topicfs::fs::topic_options::CONFIGS;

/// What the broker's own file says, and how often it makes a snapshot.
const PROPERTIES: &str = "metadata.log.max.record.bytes.between.snapshots=3000\nlog.retention.hours=100\n\
                          log.cleaner.delete.retention.ms=1234567\nlog.roll.hours=5\nlog.roll.jitter.hours=1\n\
                          log.segment.delete.delay.ms=4321\nmin.insync.replicas=1\n";

/// Configs that stand there in hours. Of these the broker has the value, but says that nobody has set it.
const IN_HOURS: [&str; 3] = ["retention.ms", "segment.ms", "segment.jitter.ms"];

/// Longer than what was read of the metadata is believed.
const WHILE: Duration = Duration::from_millis(1_100);

#[test]
fn configs_are_those_that_the_broker_says() {
    let Some(mut kafka) = Kafka::start() else { return };
    let broker = Broker::with(&mut kafka, PROPERTIES);
    broker.start(&mut kafka);
    let boot = broker.boot.clone();
    kafka.run(&[
        "create",
        &boot,
        "many",
        "1",
        "cleanup.policy=compact,delete",
        "retention.ms=-1",
        "retention.bytes=1000000",
        "compression.type=zstd",
        "compression.zstd.level=5",
        "min.cleanable.dirty.ratio=0.01",
        "segment.bytes=2097152",
        "max.message.bytes=3000000",
        "message.timestamp.type=LogAppendTime",
        "min.compaction.lag.ms=5",
        "max.compaction.lag.ms=500000000",
        "flush.messages=9223372036854775807",
        "preallocate=true",
        "message.timestamp.after.max.ms=77",
    ]);
    kafka.run(&["create", &boot, "plain", "1"]);
    let source = Source::of(&broker);
    source.check(&mut kafka, &boot);

    kafka.run(&[
        "configure",
        &boot,
        "many",
        "retention.ms=60000",
        "retention.bytes=",
        "compression.type=",
        "flush.ms=9",
    ]);
    kafka.run(&["configure", &boot, "plain", "cleanup.policy=compact", "index.interval.bytes=512"]);
    kafka.run(&["configure-broker", &boot, "all", "log.retention.ms=7777777", "message.max.bytes=2222222"]);
    kafka.run(&[
        "configure-broker",
        &boot,
        "1",
        "log.cleaner.min.compaction.lag.ms=9",
        "message.max.bytes=2222221",
    ]);
    source.check(&mut kafka, &boot);

    kafka.run(&["configure-broker", &boot, "1", "message.max.bytes="]);
    for number in 0..60 {
        kafka.run(&["configure", &boot, "plain", &format!("segment.ms={}", 100_000 + number)]);
    }
    source.check(&mut kafka, &boot);
    assert!(snapshots(&broker) > 1, "{}", snapshots(&broker));

    kafka.run(&["delete-topic", &boot, "many"]);
    let id = loop {
        // The name is free a moment later.
        match kafka.try_run(&["create", &boot, "many", "1", "segment.jitter.ms=3"]) {
            answer if answer.get("thrown").is_none() => break answer["id"].clone(),
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    source.check(&mut kafka, &boot);
    assert_eq!(source.info("many")["cluster_topic_id"], id);
    assert_eq!(source.info("many")["topic_id"], id);

    let expected = kafka.run(&["configs", &boot, "plain"]);
    broker.stop(&mut kafka);
    source.compare("plain", &expected);
    // From the newest snapshot on, and as it was read from the beginning.
    Source::of(&broker).compare("plain", &expected);
    // Without the broker's own file its defaults are Kafka's.
    let alone = shown::open(broker.data().to_str().unwrap(), Options::default());
    let info: Value = serde_json::from_slice(&shown::read(&alone, "plain/info.json")).unwrap();
    assert_eq!(info["configs"]["file.delete.delay.ms"]["source"], "default");
    assert_eq!(info["configs"]["cleanup.policy"]["value"], "compact");
}

/// The broker's files, as they were opened before anything else happened.
struct Source {
    fs: Fs,
    /// Where the copy of its properties is, whose name says what it is.
    _scratch: tempfile::TempDir,
}

impl Source {
    fn of(broker: &Broker) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("server.properties");
        fs::copy(broker.properties(), &file).unwrap();
        Self { fs: shown::open(file.to_str().unwrap(), Options::default()), _scratch: scratch }
    }

    fn info(&self, topic: &str) -> Value {
        serde_json::from_slice(&shown::read(&self.fs, &format!("{topic}/info.json"))).unwrap()
    }

    fn check(&self, kafka: &mut Kafka, boot: &str) {
        std::thread::sleep(WHILE);
        for topic in ["many", "plain"] {
            let expected = kafka.run(&["configs", boot, topic]);
            self.compare(topic, &expected);
        }
    }

    fn compare(&self, topic: &str, expected: &Value) {
        let info = self.info(topic);
        let configs = info["configs"].as_object().unwrap();
        for name in CONFIGS {
            assert!(configs.contains_key(*name), "{topic}: {name}");
        }
        let mut wrong = Vec::new();
        for (name, row) in configs {
            let ours = (row["value"].as_str(), row["source"].as_str().unwrap());
            let theirs = (expected[name][0].as_str(), word(expected[name][1].as_str().unwrap()));
            let is_in_hours = IN_HOURS.contains(&name.as_str()) && ours.1 == "server.properties";
            let is_same = if is_in_hours { (ours.0, "default") == theirs } else { ours == theirs };
            if !is_same {
                wrong.push((name, ours, theirs));
            }
        }
        assert!(wrong.is_empty(), "{topic}: name, ours, the broker's: {wrong:#?}");
        // What anybody has set is there.
        for (name, said) in expected.as_object().unwrap() {
            assert!(said[1] == "DEFAULT_CONFIG" || configs.contains_key(name), "{topic}: {name} is {said}");
        }
    }
}

/// Our word for what the broker says of who has set a config.
fn word(source: &str) -> &'static str {
    match source {
        "DYNAMIC_TOPIC_CONFIG" => "__cluster_metadata: topic",
        "DYNAMIC_BROKER_CONFIG" => "__cluster_metadata: broker",
        "DYNAMIC_DEFAULT_BROKER_CONFIG" => "__cluster_metadata: all brokers",
        "STATIC_BROKER_CONFIG" => "server.properties",
        "DEFAULT_CONFIG" => "default",
        other => panic!("{other}"),
    }
}

fn snapshots(broker: &Broker) -> usize {
    let metadata: &Path = &broker.data().join("__cluster_metadata-0");
    let names = fs::read_dir(metadata).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().ends_with(".checkpoint")).count()
}
