//! What people who read Kafka's files ran into elsewhere, case by case. The number is that of the project's list of cases;
//! each test says whose report it comes from.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs::OpenOptions;
use std::time::{Duration, SystemTime};

use common::batches::{self, Entry, Plan};
use common::fixtures::{self, Case, Partition};
use common::model::{Directory, Numbers};
use common::shown::{self, ShownRecord};
use kafka_protocol::records::Compression;
use serde_json::Value;
use topicfs::fs::options::{OnDamage, Options};
use topicfs::fs::topic_options::TopicOptions;
use topicfs::fs::{Fs, FsError};
use topicfs::view::format::Formats;
use topicfs::view::selection::Effort;
use topicfs::view::template::Template;

fn record(offset: i64, value: &[u8]) -> ShownRecord {
    ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: Some(format!("k{offset}").into_bytes()),
        value: Some(value.to_vec()),
        headers: Vec::new(),
    }
}

/// A batch of the offsets `first` to `last`, each with its number as value.
fn batch(first: i64, last: i64) -> Entry {
    let records = (first..=last).map(|offset| record(offset, format!("v{offset}").as_bytes())).collect();
    batches::encode(&Plan::of(records, Compression::None)).remove(0)
}

fn concat(entries: &[Entry]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.bytes.clone()).collect()
}

fn lines(range: std::ops::RangeInclusive<i64>) -> Vec<u8> {
    range.flat_map(|offset| format!("v{offset}\n").into_bytes()).collect()
}

fn open(directory: &Directory) -> Fs {
    shown::open(directory.spec(), Options::default())
}

fn problems(fs: &Fs) -> String {
    String::from_utf8(shown::read(fs, "t/0/problems")).unwrap()
}

fn info(fs: &Fs, partition: &str) -> Value {
    serde_json::from_slice(&shown::read(fs, &format!("{partition}/info.json"))).unwrap()
}

/// Makes a file look as if nobody had written to it for an hour.
fn age(directory: &Directory, base: i64) {
    let file = OpenOptions::new().append(true).open(directory.file(base, "log")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
}

fn set_len(directory: &Directory, base: i64, extension: &str, len: u64) {
    let path = directory.file(base, extension);
    OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap().set_len(len).unwrap();
}

/// Calls `check` with what is shown of each topic of a case whose name passes `is_wanted`, and what Kafka's consumer read.
fn for_fixture(case: &Case, is_wanted: impl Fn(&str) -> bool, mut check: impl FnMut(&Fs, &Partition, &str)) {
    let fs = shown::open(case.data().to_str().unwrap(), Options::default());
    let mut checked = 0;
    for partition in case.partitions().iter().filter(|partition| is_wanted(&partition.topic)) {
        check(&fs, partition, &format!("{}/{}", partition.topic, partition.number));
        checked += 1;
    }
    assert!(checked > 0, "{}", case.name);
}

fn assert_as_consumed(fs: &Fs, partition: &Partition, path: &str) {
    let shown = shown::records(&shown::read(fs, &format!("{path}/log.jsonl")));
    let consumed = partition.records();
    assert_eq!(shown.len(), consumed.len(), "{path}");
    for (shown, consumed) in shown.iter().zip(&consumed) {
        assert_eq!((shown.offset, shown.timestamp), (consumed.offset, consumed.timestamp), "{path}");
        assert!(shown.value == consumed.value, "{path}: offset {}", shown.offset);
    }
}

/// apache/kafka#4396: payloads of compressed topics were left out without a second option.
#[test]
fn case_05_records_of_compressed_batches_are_shown_without_an_option() {
    for (version, name) in [("4.4.0", "codecs"), ("0.8.2.2", "codecs")] {
        for_fixture(
            &fixtures::case(version, name),
            |topic| topic.contains("gzip"),
            |fs, partition, path| {
                assert_as_consumed(fs, partition, path);
                let last = partition.records().pop().unwrap();
                assert_eq!(shown::read(fs, &format!("{path}/by-offset/last-1")), last.value.unwrap());
            },
        );
    }
}

/// aio-libs/aiokafka#321: a consumer stays for ever at a batch with a wrong checksum.
#[test]
fn case_10_the_log_goes_on_behind_a_batch_with_a_wrong_checksum() {
    let entries = [batch(0, 2), batch(3, 5), batch(6, 8)];
    let (first, second) = (entries[0].bytes.len(), entries[1].bytes.len());
    let mut bytes = concat(&entries);
    bytes[first + 80] ^= 1;
    let directory = Directory::default();
    directory.write_segment(0, &bytes);
    let fs = open(&directory);
    assert_eq!(shown::read(&fs, "t/0/log"), [lines(0..=2), lines(6..=8)].concat());
    assert!(matches!(fs.resolve("t/0/by-offset/4"), Err(FsError::NotFound)));
    let told = problems(&fs);
    for words in
        ["00000000000000000000.log\t", &format!("position {first}\tlength {second}\toffset 3\tdamaged\t")]
    {
        assert!(told.contains(words), "{told}");
    }
    let strict = shown::open(
        directory.spec(),
        TopicOptions { on_damage: OnDamage::Error, ..TopicOptions::default() }.into(),
    );
    assert!(shown::try_read(&strict, "t/0/log").is_err());
}

/// Graylog2/graylog2-server#9305: a cut in a segment was taken for the end, good segments after it were never read.
#[test]
fn case_13_the_log_goes_on_behind_a_cut_segment_and_grows() {
    let directory = Directory::default();
    let first = concat(&[batch(0, 2), batch(3, 5)]);
    directory.write_segment(0, &first[..first.len() - 7]);
    directory.write_segment(6, &batch(6, 8).bytes);
    directory.write_segment(9, &batch(9, 9).bytes);
    let fs = open(&directory);
    assert_eq!(shown::read(&fs, "t/0/log"), [lines(0..=2), lines(6..=9)].concat());
    let position = batch(0, 2).bytes.len();
    let told = problems(&fs);
    assert!(told.contains(&format!("00000000000000000000.log\tposition {position}\t")), "{told}");
    assert!(told.contains("\toffset 3\ttorn-tail\t"), "{told}");
    let tail = fs.content(0, &fs.resolve("t/0/tail").unwrap()).unwrap();
    directory.append(9, &batch(10, 10).bytes);
    let mut read = Vec::new();
    fs.read_content(&tail, 0, 1 << 20, &mut read).unwrap();
    assert!(read.ends_with(b"v9\nv10\n"));
}

/// bitnami-docker-kafka#33: a killed broker leaves 10 MiB of index, of which only zeros are used.
#[test]
fn case_16_a_preallocated_index_of_zeros_is_no_entry() {
    check_preallocated("index", 10_485_760);
}

/// The same for the time index.
#[test]
fn case_17_a_preallocated_time_index_of_zeros_is_no_entry() {
    check_preallocated("timeindex", 10_485_756);
}

fn check_preallocated(extension: &str, len: u64) {
    let directory = Directory::default();
    directory.write_segment(0, &concat(&[batch(0, 2), batch(3, 5), batch(6, 6)]));
    set_len(&directory, 0, extension, len);
    let fs = open(&directory);
    assert_eq!(shown::read(&fs, "t/0/log"), lines(0..=6));
    assert_eq!(shown::read(&fs, "t/0/by-offset/5"), b"v5");
    assert_eq!(shown::read(&fs, "t/0/by-offset/last-2...txt"), lines(5..=6));
    assert_eq!(info(&fs, "t/0")["log_end_offset"], 7);
    assert_eq!(problems(&fs), "");
}

/// KAFKA-7076, KAFKA-13603: an index whose last entry is the base offset; an empty active segment without an index.
#[test]
fn case_20_an_index_of_the_base_offset_and_an_empty_segment_are_no_problems() {
    let directory = Directory::default();
    directory.write_segment(0, &concat(&[batch(0, 0), batch(1, 4)]));
    std::fs::write(directory.file(0, "index"), [0; 8]).unwrap();
    directory.write_segment(5, b"");
    let fs = open(&directory);
    assert_eq!(shown::read(&fs, "t/0/log"), lines(0..=4));
    assert_eq!((problems(&fs), info(&fs, "t/0")["log_end_offset"].clone()), (String::new(), 5.into()));
    let alone = Directory::default();
    alone.write_segment(5, b"");
    let fs = open(&alone);
    assert_eq!(shown::read(&fs, "t/0/log"), b"");
    assert_eq!(info(&fs, "t/0")["log_start_offset"], 5);
    assert_eq!((problems(&fs), info(&fs, "t/0")["log_end_offset"].clone()), (String::new(), 5.into()));
}

/// KAFKA-6834, KAFKA-5316: batches above max.message.bytes, or above a tool's own limit of 5 MiB.
#[test]
fn case_22_a_record_of_20_mib_is_read_without_an_option() {
    let value = Numbers::new(22).bytes(20 << 20);
    let large = Plan::of(vec![record(1, &value)], Compression::None);
    let directory = Directory::default();
    directory.write_segment(0, &concat(&[batch(0, 0), batches::encode(&large).remove(0), batch(2, 2)]));
    let fs = open(&directory);
    assert!(shown::read(&fs, "t/0/by-offset/1") == value);
    assert!(shown::read(&fs, "t/0/log") == [b"v0\n", &value[..], b"\nv2\n"].concat());
    assert_eq!(problems(&fs), "");
}

/// KAFKA-17076: compaction removed the last batch, and the log end went back.
#[test]
fn case_24_the_log_end_is_never_below_the_newest_segments_base() {
    let directory = Directory::default();
    directory.write_segment(0, &batch(0, 4).bytes);
    directory.write_segment(862, b"");
    let fs = open(&directory);
    assert_eq!(info(&fs, "t/0")["log_end_offset"], 862);
    assert_eq!(shown::read(&fs, "t/0/by-offset/last-1"), b"v4");
    assert_eq!(shown::read(&fs, "t/0/by-offset/5...txt"), b"");
}

/// redpanda-data/kminion#56: end minus start is no count of records in compacted or transactional topics.
#[test]
fn case_25_info_counts_the_records_that_the_log_shows() {
    for name in ["compacted", "txn", "deleted-records"] {
        for_fixture(
            &fixtures::case("4.4.0", name),
            |_| true,
            |fs, _, path| {
                let shown = shown::records(&shown::read(fs, &format!("{path}/log.jsonl"))).len();
                assert_eq!(info(fs, path)["records"], shown, "{path}");
                let committed = format!("{path}@committed");
                let shown = shown::records(&shown::read(fs, &format!("{committed}/log.jsonl"))).len();
                assert_eq!(info(fs, &committed)["records"], shown, "{committed}");
            },
        );
    }
}

/// twmb/kcl#10: a consumer with `read_committed` that stands still does not say at whose transaction.
#[test]
fn case_61_info_names_the_open_transaction() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let since = i64::try_from(now.as_millis()).unwrap() - 3_600_000;
    let mut begun = Plan::of(vec![ShownRecord { timestamp: since, ..record(144, b"x") }], Compression::None);
    (begun.producer, begun.is_transactional) = (2000, true);
    let mut other = Plan::of(vec![record(145, b"y")], Compression::None);
    (other.producer, other.is_transactional) = (2001, true);
    let directory = Directory::default();
    let batches = [batch(0, 143), batches::encode(&begun).remove(0), batches::encode(&other).remove(0)];
    let marker = batches::encode(&Plan::marker(146, 2001, true)).remove(0);
    directory.write_segment(0, &concat(&[&batches[..], &[marker, batch(147, 150)]].concat()));
    for partition in ["t/0", "t/0@committed"] {
        let fs = open(&directory);
        let info = info(&fs, partition);
        assert_eq!(info["last_stable_offset"], 144, "{partition}");
        let [open] = info["open_transactions"].as_array().unwrap().as_slice() else { panic!("{info}") };
        let said = ["producer_id", "producer_epoch", "first_offset", "since"].map(|name| open[name].as_i64());
        assert_eq!(said, [Some(2000), Some(0), Some(144), Some(since)]);
        assert_eq!(open["age"], "60 min");
        let text = String::from_utf8(shown::read(&fs, &format!("{partition}/info"))).unwrap();
        assert!(text.contains("producer 2000, epoch 0, from offset 144, since "), "{text}");
        assert!(text.contains(", for 60 min\n"), "{text}");
    }
}

/// edenhill/kcat#219: the last ten of a topic that holds three.
#[test]
fn case_26_the_last_ten_of_three_are_three() {
    let directory = Directory::default();
    directory.write_segment(0, &batch(0, 2).bytes);
    let fs = open(&directory);
    for name in ["-10...jsonl", "last-10...jsonl"] {
        assert_eq!(shown::records(&shown::read(&fs, &format!("t/0/by-offset/{name}"))).len(), 3);
    }
    assert_eq!(shown::read(&fs, "t/0/by-offset/-3"), b"v0");
    for name in ["-4", "last-4", "last-4.jsonl", "3"] {
        assert!(matches!(fs.resolve(&format!("t/0/by-offset/{name}")), Err(FsError::NotFound)), "{name}");
    }
}

/// zendesk/ruby-kafka#706: of LogAppendTime topics base plus delta was shown.
#[test]
fn case_33_log_append_time_is_the_time_of_the_whole_batch() {
    for_fixture(&fixtures::case("4.4.0", "times"), |topic| topic.contains("append"), assert_as_consumed);
    for (magic, codec) in [(2, Compression::Gzip), (2, Compression::None), (1, Compression::Gzip)] {
        let mut plan = Plan::of((0..3).map(|offset| record(offset, b"x")).collect(), codec).with_magic(magic);
        plan.append_time = Some(1_800_000_000_000);
        let directory = Directory::default();
        directory.write_segment(0, &concat(&batches::encode(&plan)));
        let fs = open(&directory);
        let times = shown::records(&shown::read(&fs, "t/0/log.jsonl"));
        assert!(times.iter().all(|record| record.timestamp == 1_800_000_000_000), "{times:?}");
        let json = String::from_utf8(shown::read(&fs, "t/0/by-offset/1.json")).unwrap();
        assert!(json.contains("LogAppendTime"), "{json}");
    }
}

/// kafka-protocol-rs#79, #148: sniffing for the Java framing ate the first bytes of the raw one.
#[test]
fn case_38_raw_and_framed_snappy_in_one_segment() {
    let mut entries = Vec::new();
    for len in [0, 1, 5, 15, 16, 40, 70_000] {
        for is_raw in [false, true] {
            let offset = entries.len() as i64;
            let value = Numbers::new(len as u64).bytes(len);
            let framed = Plan::of(vec![record(offset, &value)], Compression::Snappy);
            let mut entry = batches::encode(&framed).remove(0);
            if is_raw {
                let plain = Plan { codec: Compression::None, ..framed };
                entry.bytes = batches::encode(&plain).remove(0).bytes;
                let raw = snap::raw::Encoder::new().compress_vec(&entry.bytes[61..]).unwrap();
                entry.bytes.truncate(61);
                entry.bytes.extend(raw);
                entry.bytes[22] |= Compression::Snappy as u8;
                batches::seal(&mut entry.bytes);
            }
            entries.push(entry);
        }
    }
    let directory = Directory::default();
    directory.write_segment(0, &concat(&entries));
    let fs = open(&directory);
    let expected: Vec<_> = entries.iter().flat_map(|entry| entry.records.clone()).collect();
    assert!(shown::records(&shown::read(&fs, "t/0/log.jsonl")) == expected, "{}", problems(&fs));
}

/// kafkaex/kafka_ex#38: of snappy sets over 32 KiB only the first chunk was decoded.
#[test]
fn case_40_all_chunks_of_large_snappy_sets() {
    for (version, name) in [("0.8.2.2", "codecs"), ("4.4.0", "codecs")] {
        for_fixture(&fixtures::case(version, name), |topic| topic.contains("snappy"), assert_as_consumed);
    }
    for magic in [0, 1, 2] {
        let records: Vec<_> =
            (0..50).map(|offset| record(offset, &Numbers::new(offset as u64).bytes(4000))).collect();
        let entries = batches::encode(&Plan::of(records, Compression::Snappy).with_magic(magic));
        let directory = Directory::default();
        directory.write_segment(0, &concat(&entries));
        let shown = shown::records(&shown::read(&open(&directory), "t/0/log.jsonl"));
        assert!(shown == entries[0].records, "magic {magic}");
    }
}

/// kafka4beam/brod#628: Java producers write zstd frames without the size of their content.
#[test]
fn case_41_zstd_frames_without_a_content_size() {
    for_fixture(&fixtures::case("4.4.0", "codecs"), |topic| topic.contains("zstd"), assert_as_consumed);
    for_fixture(&fixtures::case("4.4.0", "big-batch"), |_| true, assert_as_consumed);
}

/// edenhill/kcat#29: null and empty looked the same.
#[test]
fn case_46_null_is_not_empty() {
    let of = |offset: i64, field: Option<&[u8]>| ShownRecord {
        key: field.map(<[u8]>::to_vec),
        value: field.map(<[u8]>::to_vec),
        headers: vec![(b"h".to_vec(), field.map(<[u8]>::to_vec))],
        timestamp: 5,
        ..record(offset, b"")
    };
    let records = vec![of(0, None), of(1, Some(b"")), of(2, Some(b"null")), of(3, Some(b"\\N"))];
    let entry = batches::encode(&Plan::of(records.clone(), Compression::None)).remove(0);
    let directory = Directory::default();
    directory.write_segment(0, &entry.bytes);
    let fs = open(&directory);
    assert_eq!(shown::records(&shown::read(&fs, "t/0/log.jsonl")), records);
    assert_eq!(
        shown::read(&fs, "t/0/log.tsv"),
        b"0\t5\t\\N\t\\N\n1\t5\t\t\n2\t5\tnull\tnull\n3\t5\t\\\\N\t\\\\N\n"
    );
    let json = String::from_utf8(shown::read(&fs, "t/0/log.jsonl")).unwrap();
    assert!(json.contains(r#""key":null,"value":null,"headers":[["h",null]]"#), "{json}");
    assert!(json.contains(r#""key":"","value":"","headers":[["h",""]]"#), "{json}");
    assert_eq!(shown::read(&fs, "t/0/by-offset/1"), b"");
    // kcat's format strings have lengths for it.
    let mut formats = Formats::default();
    formats.add("lengths", Template::parse(r"%o %K=%k %S=%s %h\n").unwrap()).unwrap();
    let fs = shown::open(directory.spec(), Options { formats: formats.into(), ..Options::default() });
    assert_eq!(
        shown::read(&fs, "t/0/log.lengths").escape_ascii().to_string(),
        r"0 -1= -1= h=NULL\n1 0= 0= h=\n2 4=null 4=null h=null\n3 2=\\N 2=\\N h=\\N\n"
    );
    for_fixture(&fixtures::case("4.4.0", "shapes"), |_| true, assert_as_consumed);
}

/// apache/pinot#17899: binary keys and values were replaced, cut, or made JSON that jq refuses.
#[test]
fn case_47_binary_keys_values_and_headers_are_exact_and_json_is_valid() {
    let odd: &[&[u8]] =
        &[b"\0\0\0\x01\x02", b"\xc3\x28", b"\x1b[31m\x07", "\u{85}\u{9b}31m é \u{2028}".as_bytes(), b"\"\\/"];
    let records: Vec<_> = (0_i64..)
        .zip(odd)
        .map(|(offset, bytes)| ShownRecord {
            key: Some(bytes.to_vec()),
            headers: vec![(bytes.to_vec(), Some(bytes.to_vec())), (bytes.to_vec(), None)],
            ..record(offset, bytes)
        })
        .collect();
    let directory = Directory::default();
    directory.write_segment(0, &concat(&batches::encode(&Plan::of(records.clone(), Compression::None))));
    let fs = open(&directory);
    let json = shown::read(&fs, "t/0/log.jsonl");
    assert_eq!(shown::records(&json), records);
    let text = String::from_utf8(json).unwrap();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.contains(r#"{"base64":"wyg="}"#), "{text}");
    for (offset, bytes) in odd.iter().enumerate() {
        assert_eq!(&shown::read(&fs, &format!("t/0/by-offset/{offset}")), bytes);
        assert_eq!(&shown::read(&fs, &format!("t/0/by-offset/{offset}.key")), bytes);
        let _: Value =
            serde_json::from_slice(&shown::read(&fs, &format!("t/0/by-offset/{offset}.json"))).unwrap();
    }
}

/// baidu/braft#436: after a power failure the file ends in zeros.
#[test]
fn case_51_a_tail_of_zeros_is_one_note_and_no_damage() {
    let directory = Directory::default();
    directory.write_segment(0, &concat(&[batch(0, 2), batch(3, 3)]));
    directory.append(0, &[0; 4096]);
    age(&directory, 0);
    let fs = open(&directory);
    assert_eq!(shown::read(&fs, "t/0/log"), lines(0..=3));
    let told = problems(&fs);
    assert!(told.lines().count() == 1 && told.contains("\toffset 4\tzero-tail\t"), "{told}");
    let info = info(&fs, "t/0");
    assert_eq!((&info["log_end_offset"], &info["tail"]), (&4.into(), &"zeros".into()));
    // It hinders nobody, whatever is asked for.
    let strict = shown::open(
        directory.spec(),
        TopicOptions { on_damage: OnDamage::Error, ..TopicOptions::default() }.into(),
    );
    assert_eq!(shown::read(&strict, "t/0/log"), lines(0..=3));
}

/// SOHU-Co/kafka-node#96: an entry cut at the end.
#[test]
fn case_52_a_torn_tail_is_no_damage_while_it_may_be_written_and_appears_when_it_is_whole() {
    let directory = Directory::default();
    directory.write_segment(0, &batch(0, 2).bytes);
    let fs = open(&directory);
    let log = fs.content(0, &fs.resolve("t/0/log").unwrap()).unwrap();
    let read = || {
        let mut out = Vec::new();
        fs.read_content(&log, 0, 1 << 20, &mut out).unwrap();
        out
    };
    let next = batch(3, 4).bytes;
    directory.append(0, &next[..40]);
    assert_eq!((read(), problems(&fs)), (lines(0..=2), String::new()));
    directory.append(0, &next[40..]);
    assert_eq!((read(), problems(&fs)), (lines(0..=4), String::new()));
    // What is an hour old is not being written any more.
    directory.append(0, &batch(5, 6).bytes[..40]);
    age(&directory, 0);
    let fs = open(&directory);
    assert_eq!(shown::read(&fs, "t/0/log"), lines(0..=4));
    assert!(problems(&fs).contains("\ttorn-tail\t"), "{}", problems(&fs));
}

/// KAFKA-5232: the name of a deleted topic with a dot was parsed wrongly.
#[test]
fn case_55_deleted_topics_with_dots() {
    let directory = Directory::default();
    let deleted = directory.path().join("my.topic-3.0123456789abcdef0123456789abcdef-delete");
    std::fs::create_dir(&deleted).unwrap();
    std::fs::write(deleted.join("00000000000000000000.log"), batch(0, 1).bytes).unwrap();
    let fs = open(&directory);
    assert_eq!(shown::labels(&fs, "my.topic"), ["3.delete"]);
    assert_eq!(shown::read(&fs, "my.topic/3.delete/log"), lines(0..=1));
}

/// strimzi-kafka-operator#1307: `lost+found`, and whatever else lies in a data directory.
#[test]
fn case_57_foreign_directories_are_notes() {
    let directory = Directory::default();
    directory.write_segment(0, &batch(0, 0).bytes);
    std::fs::create_dir(directory.path().join("lost+found")).unwrap();
    std::fs::create_dir(directory.path().join("backup of monday")).unwrap();
    let fs = open(&directory);
    assert_eq!(shown::names(&fs, ""), [".topicfs", "README.txt", "t", "topics.tsv"]);
    let notes = String::from_utf8(shown::read(&fs, ".topicfs/problems")).unwrap();
    assert_eq!(notes.lines().count(), 2, "{notes}");
    assert!(
        notes.contains("lost+found\tposition 0\tlength 0\toffset -\tforeign\tnot a partition"),
        "{notes}"
    );
}

/// KAFKA-16814, KAFKA-12835: `partition.metadata` missing or empty.
#[test]
fn case_58_partition_metadata_missing_or_empty() {
    let directory = Directory::default();
    directory.write_segment(0, &batch(0, 1).bytes);
    for content in [None, Some(""), Some("version: 0\n"), Some("version: 7\ntopic_id: x\n")] {
        if let Some(content) = content {
            std::fs::write(directory.path().join("t-0/partition.metadata"), content).unwrap();
        }
        let fs = open(&directory);
        assert_eq!(shown::read(&fs, "t/0/log"), lines(0..=1));
        assert_eq!(info(&fs, "t/0")["topic_id"], Value::Null);
        let text = String::from_utf8(shown::read(&fs, "t/0/info")).unwrap();
        assert!(text.contains("topic id                unknown\n"), "{text}");
    }
}

/// MaterializeInc/materialize#5456: a copied directory has another cluster's id.
#[test]
fn case_59_cluster_ids_never_hinder_and_two_are_a_warning() {
    let meta = |id: &str| format!("version=1\nnode.id=1\ncluster.id={id}\n");
    let (one, two) = (Directory::default(), Directory::default());
    one.write_segment(0, &batch(0, 1).bytes);
    two.write_segment(0, &batch(0, 2).bytes);
    let write = |directory: &Directory, text: &str| {
        std::fs::write(directory.path().join("meta.properties"), text).unwrap();
    };
    let both = format!("{},{}", one.spec(), two.spec());
    let notes = || {
        let fs = shown::open(&both, Options::default());
        assert_eq!(shown::read(&fs, "t/0/log"), lines(0..=1));
        assert_eq!(shown::read(&fs, "t/0.source-2/log"), lines(0..=2));
        String::from_utf8(shown::read(&fs, ".topicfs/problems")).unwrap()
    };
    write(&one, &meta("abc"));
    assert_eq!(notes(), "");
    write(&two, &meta("abc"));
    assert_eq!(notes(), "");
    write(&two, &meta("xyz"));
    let told = notes();
    assert!(told.lines().count() == 1 && told.contains("abc") && told.contains("xyz"), "{told}");
    for broken in ["", "garbage\u{0}", "version=9\n", "cluster.id=\n"] {
        write(&two, broken);
        notes();
    }
}

/// ggreer/the_silver_searcher#446, uutils/coreutils#2935: sizes of 0, or none that fit.
#[test]
fn case_63_the_size_of_a_file_is_what_reading_it_gives() {
    let case = fixtures::case("4.4.0", "codecs");
    let fs = shown::open(case.data().to_str().unwrap(), Options::default());
    let mut checked = 0;
    for partition in case.partitions() {
        let path = format!("{}/{}", partition.topic, partition.number);
        for directory in ["", "/by-segment", "/by-offset/last-9..", "/segments", "/by-offset"] {
            for name in shown::names(&fs, &format!("{path}{directory}")) {
                let file = format!("{path}{directory}/{name}");
                let node = fs.resolve(&file).unwrap();
                if !node.is_dir() {
                    let size = fs.attributes(0, &node, Effort::All).unwrap().size;
                    assert_eq!(size, shown::read(&fs, &file).len() as u64, "{file}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// libfuse/python-fuse#64: with made-up sizes `cat` never ends, or shows 100 MiB of nothing.
#[test]
fn case_64_a_read_at_or_behind_the_end_gives_nothing() {
    let directory = Directory::default();
    directory.write_segment(0, &concat(&[batch(0, 2), batch(3, 3)]));
    let names = [
        "log",
        "log.jsonl",
        "tail.tsv",
        "by-offset/1",
        "by-offset/..2.txt",
        "by-offset/2..2.log",
        "info",
        "problems",
    ];
    for name in names.iter().chain(&["by-segment/00000000000000000000", "segments/00000000000000000000.log"])
    {
        let fs = open(&directory);
        let node = fs.resolve(&format!("t/0/{name}")).unwrap();
        let before = fs.attributes(0, &node, Effort::Bytes(0)).unwrap().size;
        let content = fs.content(0, &node).unwrap();
        let read = |at: u64| {
            let mut out = Vec::new();
            fs.read_content(&content, at, 4096, &mut out).unwrap();
            out.len() as u64
        };
        let len = read(0);
        assert!(before == 0 || before == len, "{name}: {before} of {len}");
        for at in [len, len + 1, len + 4096, 1 << 40, 1 << 62] {
            assert_eq!(read(at), 0, "{name} at {at}");
        }
        assert_eq!(fs.attributes(0, &node, Effort::All).unwrap().size, len, "{name}");
    }
}

/// A newcomer with a hex dump could not match bytes and documentation: the file says where all of them are.
#[test]
fn case_75_where_a_record_and_its_batch_lie_is_told() {
    let mut compared = 0;
    for (version, name) in [("0.8.2.2", "codecs"), ("0.10.2.2", "codecs"), ("4.4.0", "codecs")] {
        let is_wanted = |topic: &str| !topic.starts_with("__") && topic != "big" && !topic.contains("dots");
        for_fixture(&fixtures::case(version, name), is_wanted, |fs, partition, path| {
            for segment in segments_of(partition) {
                let bytes = std::fs::read(partition.dir.join(format!("{segment}.log"))).unwrap();
                let dump =
                    std::fs::read(partition.expect.join(format!("{segment}.log.dump"))).unwrap_or_default();
                for line in String::from_utf8_lossy(&dump).lines() {
                    compared += usize::from(assert_placed(fs, path, line, &bytes));
                }
            }
        });
    }
    println!("{compared} records looked up by what Kafka's tool says of their batches");
    assert!(compared > 250, "{compared}");
}

/// The base offsets of a partition's segments, as their names have them.
fn segments_of(partition: &Partition) -> Vec<String> {
    let names = std::fs::read_dir(&partition.dir).unwrap().map(|entry| entry.unwrap().file_name());
    let logs = names.filter_map(|name| Some(name.to_str()?.strip_suffix(".log")?.to_owned()));
    logs.collect()
}

/// Holds the last record of the batch in a line of a dump against its `.json`; whether it is such a line.
fn assert_placed(fs: &Fs, path: &str, line: &str, bytes: &[u8]) -> bool {
    let field = |name: &str| {
        let rest = line.split_once(&format!("{name}: "))?.1;
        rest.split(' ').next().map(str::to_owned)
    };
    let number = |name: &str| field(name).unwrap().parse::<u64>().unwrap();
    let last = match (line.starts_with("offset: "), line.starts_with("baseOffset: ")) {
        (true, _) => number("offset"),
        (_, true) if field("isControl").as_deref() == Some("false") => number("lastOffset"),
        _ => return false,
    };
    let json: Value =
        serde_json::from_slice(&shown::read(fs, &format!("{path}/by-offset/{last}.json"))).unwrap();
    let batch = &json["batch"];
    for name in ["position", "size", "magic", "crc"] {
        assert_eq!(batch[name].as_u64(), Some(number(name)), "{path}, {last}: {name}");
    }
    let (codec, position) = (field("compresscodec").unwrap(), number("position") as usize);
    assert_eq!(batch["codec"], *codec, "{path}, {last}");
    let attributes = if number("magic") == 2 { bytes[position + 22] } else { bytes[position + 17] };
    assert_eq!(batch["attributes"].as_u64(), Some(attributes.into()), "{path}, {last}");
    for part in ["key", "value"] {
        let at = json[format!("{part}_position")].as_u64();
        let Some(text) = json[part].as_str() else { continue };
        assert_eq!(at.is_some(), codec == "none", "{path}, {last}");
        if let Some(at) = at {
            let there = &bytes[at as usize..][..text.len()];
            assert_eq!(there, text.as_bytes(), "{path}, {last}: {part} at {at}");
        }
    }
    true
}
