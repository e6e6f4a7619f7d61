//! Every record of every broker's data directory, as Kafka's own consumer read it.

mod common;

use common::fixtures::{self, ExpectedRecord, Partition, Reading};
use common::shown::{self, ShownRecord};
use topicfs::fs::Fs;
use topicfs::fs::options::{Isolation, Options};

fn as_shown(expected: &ExpectedRecord) -> ShownRecord {
    ShownRecord {
        offset: expected.offset,
        timestamp: expected.timestamp,
        key: expected.key.clone(),
        value: expected.value.clone(),
        headers: expected.headers.clone(),
    }
}

/// Calls `check` with each partition of each case whose data is what its consumer read, and the source around it.
fn for_each_partition(options: &Options, mut check: impl FnMut(&Fs, &str, &Partition)) -> usize {
    let mut checked = 0;
    for case in fixtures::cases() {
        for data in case.data_dirs() {
            let fs = shown::open(data.to_str().expect("UTF-8"), options.clone());
            for partition in case.partitions().iter().filter(|partition| partition.dir.starts_with(&data)) {
                if !matches!(partition.reading, Reading::AsOnDisk | Reading::AboveLogStart(_)) {
                    continue;
                }
                let path = format!("{}/{}", partition.topic, partition.number);
                check(&fs, &path, partition);
                checked += 1;
            }
        }
    }
    checked
}

fn assert_same(what: &str, expected: &[ExpectedRecord], shown: &[ShownRecord]) {
    for (expected, shown) in expected.iter().zip(shown) {
        assert_eq!(&as_shown(expected), shown, "{what}");
    }
    let offsets = |records: &[ShownRecord]| records.iter().map(|record| record.offset).collect::<Vec<_>>();
    let expected: Vec<_> = expected.iter().map(as_shown).collect();
    assert_eq!(offsets(&expected), offsets(shown), "{what}");
}

#[test]
fn log_jsonl_says_what_a_consumer_was_given() {
    let checked = for_each_partition(&Options::default(), |fs, path, partition| {
        let lines = shown::read(fs, &format!("{path}/log.jsonl"));
        let what = partition.dir.display().to_string();
        assert_same(&what, &partition.records(), &shown::records(&lines));
        assert_eq!(shown::read(fs, &format!("{path}/problems")), b"", "{what}");
    });
    println!("{checked} partitions");
    assert!(checked > 250, "{checked} partitions");
}
