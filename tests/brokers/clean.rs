//! `topicfs clean` beside a real broker: what it leaves the broker serves, compacts further, and recovers without a fault; the policies are
//! those that the broker's own cluster has.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::kafka::{Broker, Kafka, dump, faults};
use crate::common::mounted::{topicfs, wait_until};
use crate::common::salvaged::files;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

const KEYED: &str = "keyed";
const OLD: &str = "old";
const TXN: &str = "txn";
const ROUNDS: usize = 3;

#[test]
fn a_broker_serves_and_compacts_what_clean_has_left() {
    let Some(mut kafka) = Kafka::start() else { return };
    // Its own cleaner and retention wait, but for the last round.
    let quiet = "log.cleaner.backoff.ms=3600000\nlog.retention.check.interval.ms=3600000\n\
                 transaction.state.log.num.partitions=1\ntransaction.state.log.replication.factor=1\n\
                 transaction.state.log.min.isr=1\n";
    let broker = Broker::with(&mut kafka, quiet);
    broker.start(&mut kafka);
    let compact = ["cleanup.policy=compact", "min.cleanable.dirty.ratio=0.01", "internal.segment.bytes=4096"];
    kafka.run(&[&["create", &broker.boot, KEYED, "1"], &compact[..]].concat());
    kafka.run(&[&["create", &broker.boot, TXN, "1"], &compact[..]].concat());
    kafka.run(&["create", &broker.boot, OLD, "1", "retention.bytes=10000", "internal.segment.bytes=4096"]);
    let mut before = 0;
    for round in 0..ROUNDS {
        kafka.run(&["fill", &broker.boot, KEYED, "300", &format!("r{round}"), "7"]);
        kafka.run(&["fill", &broker.boot, OLD, "300", &format!("r{round}"), "300"]);
        kafka.run(&["transact", &broker.boot, TXN, "40", "5"]);
        let served: Vec<_> =
            [KEYED, TXN, OLD].map(|topic| last_of_each_key(&mut kafka, &broker, topic)).into();
        broker.stop(&mut kafka);
        let told = clean(&broker);
        assert!(told.contains("keyed-0: compacted up to offset"), "{told}");
        assert!(told.contains("old-0: deleted "), "{told}");
        for topic in [KEYED, TXN, OLD] {
            check_files(&mut kafka, &broker.data().join(format!("{topic}-0")));
        }
        let size = bytes_of(&broker.data().join("old-0"));
        assert!((10_000..20_000).contains(&size), "{size} bytes are left");
        if round + 1 == ROUNDS {
            // Not stopped in order: the broker checks all of it.
            std::fs::remove_file(broker.data().join(".kafka_cleanshutdown")).unwrap();
        }
        before = bytes_of(&broker.data().join("keyed-0"));
        broker.start(&mut kafka);
        for (topic, served) in [KEYED, TXN].into_iter().zip(&served) {
            assert_eq!(last_of_each_key(&mut kafka, &broker, topic), *served, "{topic}");
        }
        assert!(last_of_each_key(&mut kafka, &broker, OLD).len() < served[2].len());
    }
    let is_the_same = bytes_of(&broker.data().join("keyed-0")) == before;
    assert!(is_the_same, "its recovery has nothing to cut");
    kafka.run(&["configure-broker", &broker.boot, "all", "log.cleaner.backoff.ms=200"]);
    kafka.run(&["fill", &broker.boot, KEYED, "300", "last", "7"]);
    let served = last_of_each_key(&mut kafka, &broker, KEYED);
    wait_until("the broker has compacted further", || records_on_disk(&broker.data()) < 60);
    assert_eq!(last_of_each_key(&mut kafka, &broker, KEYED), served);
    broker.stop(&mut kafka);
    check_files(&mut kafka, &broker.data().join("keyed-0"));
}

/// Runs the command by the policies of the cluster; what it says. What nobody has set in the cluster the broker's own file may set: nothing is
/// deleted by Kafka's default before that is known.
fn clean(broker: &Broker) -> String {
    let dry_run = |source: &Path| {
        let output = topicfs().args(["clean", "--dry-run"]).arg(source).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let dry = dry_run(&broker.data());
    assert!(dry.contains("keyed-0: cleanup.policy=compact (__cluster_metadata: topic)"), "{dry}");
    assert!(dry.contains("its broker may have other defaults"), "{dry}");
    assert!(!dry.contains("goes"), "{dry}");
    let dry = dry_run(&broker.properties());
    assert!(dry.contains("retention.bytes=10000 (__cluster_metadata: topic)"), "{dry}");
    assert!(!dry.contains("its broker may have other defaults"), "{dry}");
    let output = topicfs().arg("clean").arg(broker.properties()).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// The values that a consumer gets last for each key.
fn last_of_each_key(kafka: &mut Kafka, broker: &Broker, topic: &str) -> BTreeMap<String, String> {
    let got = kafka.run(&["records", &broker.boot, topic, "read_committed"]);
    let text = |value: &serde_json::Value| {
        value
            .as_str()
            .map(|text| String::from_utf8(BASE64.decode(text).unwrap()).unwrap())
            .unwrap_or_default()
    };
    got["records"].as_array().unwrap().iter().map(|record| (text(&record[2]), text(&record[3]))).collect()
}

/// kafka-dump-log and our own `verify` find nothing wrong.
fn check_files(kafka: &mut Kafka, partition: &Path) {
    let dump = dump(kafka, partition);
    assert_eq!(faults(&dump), [""; 0], "{}", partition.display());
    let output = topicfs().args(["verify", "-q"]).arg(partition).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn bytes_of(partition: &Path) -> u64 {
    let logs = files(partition).into_iter().filter(|(name, _)| name.ends_with(".log"));
    logs.map(|(_, path)| path.metadata().unwrap().len()).sum()
}

fn records_on_disk(data: &Path) -> usize {
    let output = topicfs().args(["cat"]).arg(data).arg("keyed/0/log").output().unwrap();
    output.stdout.iter().filter(|byte| **byte == b'\n').count()
}
