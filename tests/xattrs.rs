//! Extended attributes of record files: what they say is what Kafka's consumer and dump tool said; through a mount, what
//! the usual tools make of them.
#![expect(clippy::expect_used, reason = "a test says what is wrong by failing")]

mod common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use common::batches::{self, Plan};
use common::fixtures::{self, ExpectedRecord, TimestampType};
use common::model::Directory;
use common::mounted::{Mounted, has};
use common::shown::{self, ShownRecord};
use common::{batch_lines, mounted};
use kafka_protocol::records::Compression;
use topicfs::fs::options::Options;
use topicfs::fs::{Fs, FsError};

/// The inode number of a path, looked up as the kernel does.
fn ino(fs: &Fs, path: &str) -> u64 {
    path.split('/').fold(1, |parent, name| fs.lookup(parent, OsStr::new(name)).expect(path).0.ino)
}

fn attributes(fs: &Fs, path: &str) -> BTreeMap<String, Vec<u8>> {
    let ino = ino(fs, path);
    let names = String::from_utf8(fs.xattr_names(ino).expect(path)).expect("UTF-8");
    let get = |name: &str| fs.xattr(ino, OsStr::new(name)).expect("a listed attribute is there");
    let short = |name: &str| name.strip_prefix("user.kafka.").expect("our prefix").to_owned();
    names.split_terminator('\0').map(|name| (short(name), get(name))).collect()
}

fn expected(record: &ExpectedRecord, codec: &str, producer: i64) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::from([
        ("offset".to_owned(), record.offset.to_string().into_bytes()),
        ("compression".to_owned(), codec.as_bytes().to_vec()),
    ]);
    let mut put = |name: &str, value: Vec<u8>| {
        all.entry(name.to_owned()).or_insert(value);
    };
    if record.timestamp_type != TimestampType::NoTimestampType {
        put("timestamp", record.timestamp.to_string().into_bytes());
        put("timestamp_type", format!("{:?}", record.timestamp_type).into_bytes());
    }
    if let Some(key) = &record.key {
        put("key", key[..key.len().min(65_535)].to_vec());
    }
    if let Some(epoch) = record.leader_epoch.filter(|epoch| *epoch >= 0) {
        put("leader_epoch", epoch.to_string().into_bytes());
    }
    if producer >= 0 {
        put("producer_id", producer.to_string().into_bytes());
    }
    if record.value.is_none() {
        put("tombstone", b"true".to_vec());
    }
    let mut names = Vec::new();
    for (name, value) in &record.headers {
        let is_first = !names.contains(name);
        names.push(name.clone());
        let plain = name.iter().all(|byte| byte.is_ascii_graphic() && !b"%/".contains(byte));
        let text = String::from_utf8_lossy(name);
        let shown = if plain { text.into_owned() } else { percent(name) };
        if let Some(value) = value.clone().filter(|_| is_first && shown.len() <= 255 - 19) {
            put(&format!("headers.{shown}"), value);
        }
    }
    all
}

fn percent(name: &[u8]) -> String {
    let shown = |byte: &u8| match byte {
        b'%' => "%25".to_owned(),
        b'/' => "%2F".to_owned(),
        0x20..=0x7e => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    name.iter().map(shown).collect()
}

#[test]
fn attributes_say_what_the_consumer_and_the_dump_tool_said() {
    let (mut checked, mut headers, mut tombstones) = (0, 0, 0);
    for name in ["shapes", "txn", "compacted", "codecs", "magic", "times"] {
        let case = fixtures::case("4.4.0", name);
        let fs = shown::open(case.data().to_str().expect("a path"), Options::default());
        for partition in case.partitions() {
            let batches = batch_lines::of(&case, &partition);
            let records = partition.records();
            let step = records.len().div_ceil(40).max(1);
            let is_taken = |number: usize, record: &ExpectedRecord| {
                number.is_multiple_of(step) || !record.headers.is_empty() || record.value.is_none()
            };
            for (_, record) in records.iter().enumerate().filter(|(number, record)| is_taken(*number, record))
            {
                let batch = batches.iter().find(|batch| batch.number("lastOffset") >= record.offset);
                let batch = batch.unwrap_or_else(|| panic!("{} {}", partition.topic, record.offset));
                let (codec, producer) = (batch.word("compresscodec"), batch.number("producerId"));
                let path = format!("{}/{}/by-offset/{}", partition.topic, partition.number, record.offset);
                let expected = expected(record, codec, producer);
                assert_eq!(attributes(&fs, &path), expected, "{path}");
                assert_eq!(attributes(&fs, &format!("{path}.jsonl")), expected, "{path}.jsonl");
                checked += 1;
                headers += usize::from(!record.headers.is_empty());
                tombstones += usize::from(record.value.is_none());
            }
        }
    }
    assert!(checked > 300 && headers > 10 && tombstones > 5, "{checked} {headers} {tombstones}");
}

fn record(offset: i64, key: &[u8], headers: &[(&[u8], Option<&[u8]>)]) -> ShownRecord {
    let headers = headers.iter().map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)));
    ShownRecord {
        offset,
        timestamp: 1_700_000_000_000 + offset,
        key: Some(key.to_vec()),
        value: Some(b"v".to_vec()),
        headers: headers.collect(),
    }
}

/// A partition `t/0` of records with attributes that are hard.
fn awkward() -> Directory {
    let fits = [b'n'; 255 - "user.kafka.headers.".len()];
    let many: Vec<Vec<u8>> = (0..1000).map(|n| format!("{n:0200}").into_bytes()).collect();
    let many: Vec<(&[u8], Option<&[u8]>)> = many.iter().map(|name| (name.as_slice(), None)).collect();
    let many: Vec<_> = many.iter().map(|(name, _)| (*name, Some(b"x".as_slice()))).collect();
    let records = vec![
        record(0, b"\0\xff\n", &[(b"a", Some(b"1")), (b"a", Some(b"2")), (b"b", None), (b"b", Some(b"3"))]),
        record(1, b"", &[(b"", Some(b"")), (&fits, Some(b"fits")), (&[b'm'; 237], Some(b"too long"))]),
        record(2, &[b'k'; 100_000], &[(b"big", Some(&[b'h'; 70_000]))]),
        record(3, b"k", &many),
    ];
    let directory = Directory::default();
    directory.write_segment(0, &batches::encode(&Plan::of(records, Compression::None))[0].bytes);
    directory
}

#[test]
fn what_linux_cannot_hold_is_cut_or_left_out() {
    let directory = awkward();
    let fs = shown::open(directory.spec(), Options::default());
    let first = attributes(&fs, "t/0/by-offset/0");
    assert_eq!((first["key"].as_slice(), first["headers.a"].as_slice()), (&b"\0\xff\n"[..], &b"1"[..]));
    assert!(!first.contains_key("headers.b"), "the first one's value is null");
    assert!(!first.contains_key("producer_id") && !first.contains_key("tombstone"));
    let second = attributes(&fs, "t/0/by-offset/1");
    let names: Vec<_> = second.keys().filter(|name| name.starts_with("headers.")).map(String::len).collect();
    assert_eq!(names, [8, 255 - "user.kafka.".len()]);
    assert_eq!((second["key"].len(), second["headers."].len()), (0, 0));
    let third = attributes(&fs, "t/0/by-offset/2.json");
    assert_eq!((third["key"].len(), third["headers.big"].len()), (65_535, 65_535));
    let fourth = ino(&fs, "t/0/by-offset/3");
    let listed = fs.xattr_names(fourth).expect("names").len();
    assert!(listed < 65_536 && listed > 65_536 - 400, "{listed}");
}

#[test]
fn other_files_and_names_have_none() {
    let directory = awkward();
    let fs = shown::open(directory.spec(), Options::default());
    for path in ["t", "t/0", "t/0/log", "t/0/by-offset", "t/0/by-offset/0..2", "t/0/by-offset/0..2.jsonl"] {
        let ino = ino(&fs, path);
        assert_eq!(fs.xattr_names(ino).expect("a list"), b"", "{path}");
        let got = fs.xattr(ino, OsStr::new("user.kafka.offset"));
        assert!(matches!(got, Err(FsError::NoAttribute)), "{path}: {got:?}");
    }
    let record = ino(&fs, "t/0/by-offset/0");
    for name in
        ["user.kafka.tombstone", "user.kafka.", "user.kafka.headers", "user.kafka.headers.A", "user.x"]
    {
        assert!(matches!(fs.xattr(record, OsStr::new(name)), Err(FsError::NoAttribute)), "{name}");
    }
    // Nobody looks for the file of these: there is none with this number.
    for name in ["security.selinux", "system.posix_acl_access", "trusted.x", ""] {
        assert!(matches!(fs.xattr(4711, OsStr::new(name)), Err(FsError::NoAttribute)), "{name}");
    }
    assert_eq!(FsError::NoAttribute.errno(), libc::ENODATA);
    let off = shown::open(directory.spec(), Options { noxattr: true, ..Options::default() });
    for error in [off.xattr(1, OsStr::new("user.kafka.key")), off.xattr_names(1)] {
        assert_eq!(error.expect_err("turned off").errno(), libc::ENOSYS);
    }
}

fn sh(script: &str, directory: &Path) -> Output {
    let mut command = Command::new("bash");
    command.args(["-euc", script]).current_dir(directory).env("LC_ALL", "C.UTF-8");
    command.output().expect("bash")
}

fn ok(script: &str, directory: &Path) -> String {
    let output = sh(script, directory);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// `$c` is a directory that can have extended attributes; without one there is nothing to copy to.
fn keeps_attributes(directory: &Path) -> bool {
    let keeps = sh("touch x && setfattr -n user.a -v b x", directory).status.success();
    if !keeps {
        mounted::skip("the directory for temporary files has no extended attributes");
    }
    keeps
}

#[test]
fn tools_read_and_copy_the_attributes_of_a_mount() {
    let directory = awkward();
    let Some(mount) = Mounted::new(directory.spec()) else { return };
    let at = mount.path("t/0/by-offset");
    if has("python3") {
        let script = r#"python3 -c '
import os
print(os.getxattr("0", "user.kafka.key"), os.getxattr("1", b"user.kafka.key"), os.listxattr("0"))
print(len(os.getxattr("2", "user.kafka.key")), len(os.listxattr("3")), os.listxattr("../log"))
for name in ("user.kafka.tombstone", "security.selinux", "system.posix_acl_access"):
    try: os.getxattr("0", name)
    except OSError as e: print(e.errno)
for change in (lambda: os.setxattr("0", "user.kafka.key", b""), lambda: os.removexattr("0", "user.kafka.key")):
    try: change()
    except OSError as e: print(e.strerror)
'"#;
        let names = "['user.kafka.offset', 'user.kafka.timestamp', 'user.kafka.timestamp_type', 'user.kafka.key', \
                     'user.kafka.leader_epoch', 'user.kafka.compression', 'user.kafka.headers.a']";
        let told = ok(script, &at);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines[0], format!(r"b'\x00\xff\n' b'' {names}"));
        assert!(lines[1].starts_with("65535 ") && lines[1].ends_with(" []"), "{told}");
        assert_eq!(lines[2..5], ["61"; 3]);
        assert_eq!(lines[5..], ["Read-only file system"; 2]);
    }
    if has("getfattr") {
        let told = ok("getfattr -d 1.txt; getfattr -n user.kafka.offset --only-values last-1", &at);
        assert!(told.contains("user.kafka.offset=\"1\"\n") && told.ends_with('3'), "{told}");
        assert!(told.contains("user.kafka.timestamp=\"1700000000001\"\n"), "{told}");
    }
    let copies = tempfile::tempdir().expect("a directory");
    if !has("setfattr") || !keeps_attributes(copies.path()) {
        return;
    }
    let from = at.display();
    let script = format!(
        "cp --preserve=xattr,timestamps {from}/0 c && getfattr --only-values -n user.kafka.headers.a c; stat -c %Y c"
    );
    assert_eq!(ok(&script, copies.path()), "11700000000\n");
    if has("rsync") {
        let script = format!("rsync -aX {from}/0 r && getfattr --only-values -n user.kafka.headers.a r");
        assert_eq!(ok(&script, copies.path()), "1");
    }
    if has("tar") {
        let script = format!(
            "tar --xattrs -cf x.tar -C {from} 0 && mkdir t && tar --xattrs --xattrs-include='*' -xf x.tar -C t && getfattr --only-values -n user.kafka.headers.a t/0"
        );
        assert_eq!(ok(&script, copies.path()), "1");
    }
}

#[test]
fn a_mount_without_attributes_says_so() {
    let directory = awkward();
    let Some(mount) = Mounted::with(directory.spec(), "noxattr") else { return };
    if !has("python3") {
        return;
    }
    let script = r#"python3 -c '
import os
for name in ("user.kafka.key", "security.selinux"):
    try: os.getxattr("0", name)
    except OSError as e: print(e.errno)
'"#;
    assert_eq!(
        ok(script, &mount.path("t/0/by-offset")),
        "95\n95\n",
        "EOPNOTSUPP is the kernel's word for it"
    );
    assert!(ok("ls -l 0 && cat 0", &mount.path("t/0/by-offset")).ends_with('v'));
}

/// A record's file has the record's time, so that `find` and `ls` sort and choose by it.
#[test]
fn find_and_ls_go_by_the_time_of_records() {
    let hour = 3_600_000;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time");
    let now = i64::try_from(now.as_millis()).expect("a time");
    let at = |offset: i64, timestamp: i64| ShownRecord { timestamp, ..record(offset, b"k", &[]) };
    let records =
        vec![at(0, now - 3 * hour), at(1, now - hour / 10), at(2, now - 2 * hour), at(3, now - hour / 60)];
    let directory = Directory::default();
    directory.write_segment(0, &batches::encode(&Plan::of(records, Compression::None))[0].bytes);
    let Some(mount) = Mounted::new(directory.spec()) else { return };
    let newer = "find by-offset/last-1000.. -type f -newermt '10 min ago' | sort";
    let name = |offset: i64| format!("by-offset/last-1000../{offset:020}\n");
    assert_eq!(ok(newer, &mount.path("t/0")), name(1) + &name(3));
    let order = "cd by-offset/last-1000.. && ls -t";
    assert_eq!(ok(order, &mount.path("t/0")), [3, 1, 2, 0].map(|n| format!("{n:020}\n")).concat());
}
