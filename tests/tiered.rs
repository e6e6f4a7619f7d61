//! Stores of tiered segments as SOURCE: the records of real ones, and what is special about them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::fixtures::{self, ExpectedRecord};
use common::shown::{self, ShownRecord};
use topicfs::fs::Fs;
use topicfs::fs::options::Options;

/// The topics of the store, with the offset after the last one in it.
const TOPICS: [(&str, i64); 4] = [("tier", 77), ("tier-both", 34), ("tier-cut", 62), ("tier-twice", 8)];

fn case() -> PathBuf {
    fixtures::case("4.3.1", "tiered").dir
}

/// The same store in the layouts of LocalTieredStorage and of Aiven's plugin.
fn stores() -> [PathBuf; 2] {
    [case().join("remote/kafka-tiered-storage"), case().join("aiven-derived")]
}

fn open(source: &Path) -> Fs {
    shown::open(source.to_str().unwrap(), Options::default())
}

fn topics(fs: &Fs) -> Vec<String> {
    let mut names = shown::names(fs, "");
    names.retain(|name| ![".topicfs", "README.txt", "topics.tsv"].contains(&name.as_str()));
    names
}

/// What consumers got of a topic: the broker's answers, with the store, where there are more.
fn expected(topic: &str, committed: bool) -> Vec<ShownRecord> {
    let files = ["records.committed.jsonl", "records.jsonl"];
    let directories = [format!("expect/broker/{topic}-0"), format!("expect/{topic}-0")];
    let of = |file: &str| {
        let found = directories.iter().map(|directory| case().join(directory).join(file));
        found.into_iter().find(|path| path.exists())
    };
    let file = if committed { of(files[0]).or_else(|| of(files[1])) } else { of(files[1]) };
    let text = fs::read_to_string(file.unwrap()).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<ExpectedRecord>(line).unwrap());
    records.map(|record| ShownRecord::from(&record)).collect()
}

#[test]
fn a_store_shows_the_records_that_consumers_got() {
    for store in stores() {
        let fs = open(&store);
        let shown_topics = topics(&fs);
        for (topic, end) in TOPICS {
            assert!(shown_topics.iter().any(|name| name == topic), "{shown_topics:?}");
            assert_eq!(shown::labels(&fs, topic), ["0"]);
            for committed in [false, true] {
                let path = if committed {
                    format!("{topic}/0@committed/log.jsonl")
                } else {
                    format!("{topic}/0/log.jsonl")
                };
                let shown = shown::records(&shown::read(&fs, &path));
                let expected = expected(topic, committed);
                // What DeleteRecords hid from consumers is in the store still, and no checkpoint is.
                let first = expected[0].offset;
                assert_eq!(shown.iter().any(|record| record.offset < first), topic == "tier-cut");
                let of_both = |records: Vec<ShownRecord>| -> Vec<ShownRecord> {
                    records.into_iter().filter(|record| (first..end).contains(&record.offset)).collect()
                };
                let (shown, mut expected) = (of_both(shown), of_both(expected));
                if committed && topic == "tier" {
                    // The last transaction's marker has not been uploaded: from 70 on nothing is decided.
                    expected.retain(|record| record.offset < 70);
                }
                assert!(shown.len() > 7 && shown == expected, "{}: {path}", store.display());
            }
        }
    }
}

#[test]
fn all_names_work_in_a_store() {
    for store in stores() {
        let fs = open(&store);
        let log = shown::read(&fs, "tier/0/log");
        let segments = shown::names(&fs, "tier/0/by-segment");
        let parts = segments.iter().filter(|name| !name.contains('.'));
        let joined: Vec<u8> =
            parts.flat_map(|name| shown::read(&fs, &format!("tier/0/by-segment/{name}"))).collect();
        assert_eq!((segments.len(), joined), (12, log));
        let last = shown::read(&fs, "tier/0/by-offset/last-1.json");
        let last: serde_json::Value = serde_json::from_slice(&last).unwrap();
        let file = last["batch"]["file"].as_str().unwrap();
        assert!(file.starts_with("00000000000000000058-yPqHYaAHS_OxjFTA6juQ7w.log"), "{file}");

        let names = shown::names(&fs, "tier/0/segments");
        let directory = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
        let mut directory =
            directory.into_iter().find(|path| path.to_str().unwrap().contains("cvoAGWZORPu0")).unwrap();
        if directory.ends_with("tier-cvoAGWZORPu0OBAxRN_ePg") {
            directory.push("0");
        }
        let mut real: Vec<String> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        real.sort();
        assert_eq!(names, real);
        let bytes = shown::read(&fs, "tier/0/segments/00000000000000000012-bJmXGvjpRxC02KFNTN7ZLQ.log");
        assert_eq!(
            bytes,
            fs::read(directory.join("00000000000000000012-bJmXGvjpRxC02KFNTN7ZLQ.log")).unwrap()
        );
        let info: serde_json::Value = serde_json::from_slice(&shown::read(&fs, "tier/0/info.json")).unwrap();
        assert_eq!(
            (info["topic_id"].as_str(), info["segments"].as_u64()),
            (Some("cvoAGWZORPu0OBAxRN_ePg"), Some(6))
        );
        for (topic, _) in TOPICS.into_iter().filter(|(topic, _)| *topic != "tier-twice") {
            shown::read(&fs, &format!("{topic}/0/log"));
            assert_eq!(shown::read(&fs, &format!("{topic}/0/problems")), b"", "{topic}");
        }
        assert_eq!(String::from_utf8(shown::read(&fs, ".topicfs/problems")).unwrap(), "");
    }
}

#[test]
fn of_two_copies_of_a_segment_one_is_read_and_the_other_is_told() {
    for store in stores() {
        let fs = open(&store);
        let offsets: Vec<i64> =
            shown::records(&shown::read(&fs, "tier-twice/0/log.jsonl")).iter().map(|r| r.offset).collect();
        assert_eq!(offsets, (0..8).collect::<Vec<_>>());
        let problems = String::from_utf8(shown::read(&fs, "tier-twice/0/problems")).unwrap();
        assert_eq!(
            problems,
            "00000000000000000000-5Yw49U3sRVOGemWNE2Vmsg.log\tposition 0\tlength 1612\toffset -\tcopy\tnot shown: another copy of the segment, \
             00000000000000000000-2BrlRvPoTduZp3YDK7PnHA.log, is as long, and the first by name\n"
        );
        assert_eq!(shown::names(&fs, "tier-twice/0/by-segment").len(), 2);
    }
    // The longer one is taken: an upload that was cut short is a beginning of it.
    let copy = fixtures::copy(&stores()[0]);
    let directory = copy.path().join("tier-twice-0-kcCoZ1qTQ0i454o5U5kSsQ");
    let first = directory.join("00000000000000000000-2BrlRvPoTduZp3YDK7PnHA.log");
    let len = fs::metadata(&first).unwrap().len();
    fs::File::options().write(true).open(&first).unwrap().set_len(len - 100).unwrap();
    let fs = open(copy.path());
    assert_eq!(shown::records(&shown::read(&fs, "tier-twice/0/log.jsonl")).len(), 8);
    let problems = String::from_utf8(shown::read(&fs, "tier-twice/0/problems")).unwrap();
    assert!(
        problems.starts_with("00000000000000000000-2BrlRvPoTduZp3YDK7PnHA.log\tposition 0\t"),
        "{problems}"
    );
    assert!(problems.contains("5Yw49U3sRVOGemWNE2Vmsg.log, is longer"), "{problems}");
    // A copy that is a source by itself is read.
    assert!(shown::read(&open(&first), "tier-twice/0/log").len() > 100);
}

#[test]
fn a_segment_that_reaches_into_the_next_one_gives_each_record_once() {
    let copy = fixtures::copy(&stores()[0]);
    let directory = copy.path().join("tier-both-0-ar2gkrb8SPyqKGj3XUDOJg");
    // As another leader would have uploaded it, who had rolled later.
    let first = directory.join("00000000000000000000-JhPHoiVBRJGDIRxlxxJDRg.log");
    let second = fs::read(directory.join("00000000000000000015-shkrGmSEQlSsaRYB9G41lA.log")).unwrap();
    let batch = 12 + u32::from_be_bytes(second[8..12].try_into().unwrap()) as usize;
    let joined = [fs::read(&first).unwrap(), second[..batch].to_vec()].concat();
    fs::write(&first, joined).unwrap();
    let shown = shown::records(&shown::read(&open(copy.path()), "tier-both/0/log.jsonl"));
    let expected: Vec<_> =
        expected("tier-both", false).into_iter().filter(|record| record.offset < 34).collect();
    assert!(shown == expected);
}

#[test]
fn what_may_be_named_of_a_store() {
    let [local, aiven] = stores();
    let log = shown::read(&open(&local), "tier-cut/0/log.jsonl");
    let sources = [
        local.parent().unwrap().to_owned(),
        local.join("tier-cut-0-hB28rkcTSNKly-7mcnDsfg"),
        aiven.join("tier-cut-hB28rkcTSNKly-7mcnDsfg"),
        aiven.join("tier-cut-hB28rkcTSNKly-7mcnDsfg/0"),
    ];
    for source in sources {
        assert_eq!(shown::read(&open(&source), "tier-cut/0/log.jsonl"), log, "{}", source.display());
    }
    let one = local.join("tier-cut-0-hB28rkcTSNKly-7mcnDsfg/00000000000000000043-0vTXUHy-SPiW5AOJlWL0XQ.log");
    let fs = open(&one);
    assert!(log.ends_with(&shown::read(&fs, "tier-cut/0/log.jsonl")));
    assert_eq!(shown::names(&fs, "tier-cut/0/by-segment")[0], "00000000000000000043");

    let cache = case().join("data/remote-log-index-cache");
    let refused =
        Fs::open(cache.to_str().unwrap(), Options::default(), String::new()).unwrap_err().to_string();
    assert!(refused.contains("name the store that has the segments"), "{refused}");
}

#[test]
fn a_broker_and_its_store_stand_side_by_side() {
    let [local, _] = stores();
    let both = format!("{},{}", case().join("data").display(), local.display());
    let fs = shown::open(&both, Options::default());
    assert_eq!(shown::labels(&fs, "tier"), ["0", "0-cvoAGWZO"]);
    let offsets = |path: &str| -> Vec<i64> {
        shown::records(&shown::read(&fs, path)).iter().map(|record| record.offset).collect()
    };
    let (remote, here) = (offsets("tier/0-cvoAGWZO/log.jsonl"), offsets("tier/0/log.jsonl"));
    let all: Vec<i64> = expected("tier", false).iter().map(|record| record.offset).collect();
    assert_eq!([remote, here].concat(), all);
}

#[test]
fn a_topic_that_was_made_again_and_partitions_that_come_later() {
    let [local, aiven] = stores();
    let copy = fixtures::copy(&local);
    let again = copy.path().join("tier-0-AAAAAAAAAAAAAAAAAAAAAQ");
    fixtures::copy_into(&copy.path().join("tier-cut-0-hB28rkcTSNKly-7mcnDsfg"), &again);
    assert_eq!(shown::labels(&open(copy.path()), "tier"), ["0", "0-cvoAGWZO"]);

    let copy = fixtures::copy(&aiven);
    let fs = open(copy.path());
    assert_eq!(shown::labels(&fs, "tier"), ["0"]);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(shown::labels(&fs, "tier"), ["0"]);
    let topic = copy.path().join("tier-cvoAGWZORPu0OBAxRN_ePg");
    fixtures::copy_into(&topic.join("0"), &topic.join("1"));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(shown::labels(&fs, "tier"), ["0", "1"]);
}

#[test]
fn verify_finds_a_store_sound() {
    for store in stores() {
        let output = common::mounted::topicfs().args(["verify"]).arg(&store).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), text.lines().count()), (Some(0), 1), "{text}");
        assert!(text.contains("\tcopy\tnot shown: another copy"), "{text}");
    }
}
