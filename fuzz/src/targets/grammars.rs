//! Names: of files and directories on disk, in `by-offset/` and `by-key/`, and whole paths in a small mount.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::sync::LazyLock;

use topicfs::format::names::{KraftSnapshot, PartitionDir, SegmentFile, is_valid_topic};
use topicfs::fs::handles::Content;
use topicfs::fs::key_names::{self, NamedKey};
use topicfs::fs::names::{ByOffset, Place, RangeEnd, RecordForm};
use topicfs::fs::options::Options;
use topicfs::fs::{Fs, Node};
use topicfs::view::format::Formats;
use topicfs::view::selection::Effort;

use crate::archive::Archive;
use crate::memory::bounded;
use crate::oracle::{self, Plain};
use crate::tree::Tree;

/// Names on disk: what is read as one is written as the same again.
pub fn disk_names(data: &[u8]) {
    let Ok(name) = std::str::from_utf8(data) else { return };
    let _ = is_valid_topic(name);
    if let Some(dir) = PartitionDir::parse(name) {
        assert!(dir.partition.partition >= 0 && !dir.partition.topic.is_empty());
        assert_eq!(dir.to_string(), name);
    }
    if let Some(file) = SegmentFile::parse(name) {
        assert!(file.base.0 >= 0);
        assert_eq!(file.to_string(), name);
    }
    if let Some(snapshot) = KraftSnapshot::parse(name) {
        assert_eq!(snapshot.to_string(), name);
    }
}

/// The grammar of `by-offset/`: a name's meaning, written as the shortest name, means the same.
pub fn by_offset(data: &[u8]) {
    let Ok(name) = std::str::from_utf8(data) else { return };
    let formats = Formats::default();
    let Some(meaning) = ByOffset::parse(name, &formats) else { return };
    assert!(name.is_ascii() && !name.contains('/'));
    let written = shortest(&meaning, &formats);
    assert!(written.len() <= name.len(), "{name:?} is written as {written:?}");
    assert_eq!(ByOffset::parse(&written, &formats), Some(meaning), "{name:?} is written as {written:?}");
}

/// The grammar of `by-key/`: whatever bytes a key has, its name is one, and of that key; what is read as a key is found by its name.
pub fn by_key(data: &[u8]) {
    let formats = Formats::default();
    for key in [data.to_vec(), data.repeat(9)] {
        let name = key_names::build(&key, &formats);
        assert!(name.is_ascii() && !name.contains('/') && (1..=192).contains(&name.len()), "{name:?}");
        let (named, form) = key_names::parse(name.as_bytes(), &formats).expect("a key's name is a name");
        assert!(named.is(&key) && form == RecordForm::Value, "{name:?}");
    }
    if let Some((NamedKey::Whole(key), _)) = key_names::parse(data, &formats) {
        let (named, _) = key_names::parse(key_names::build(&key, &formats).as_bytes(), &formats)
            .expect("a key's name is a name");
        assert!(named.is(&key), "{key:?}");
    }
}

fn shortest(meaning: &ByOffset, formats: &Formats) -> String {
    let place = |place: &Place| match place {
        Place::At(offset) => offset.to_string(),
        Place::FromEnd(count) => format!("-{count}"),
        Place::Before(offset, count) => format!("{offset}~{count}"),
        Place::After(offset, count) => format!("{offset}+{count}"),
    };
    match meaning {
        ByOffset::Record(at, form) => {
            let extension = match form {
                RecordForm::Value => return place(at),
                RecordForm::Key => "key",
                RecordForm::Json => "json",
                RecordForm::Rendered(format) => formats.extension(*format),
            };
            format!("{}.{extension}", place(at))
        }
        ByOffset::Range { from, to, format } => {
            let mut name = from.as_ref().map(place).unwrap_or_default();
            name += "..";
            match to {
                RangeEnd::Before(end) => name += &place(end),
                RangeEnd::Count(count) => write!(name, "+{count}").expect("a string takes it"),
                RangeEnd::Open => {}
            }
            if let Some(format) = format {
                write!(name, ".{}", formats.extension(*format)).expect("a string takes it");
            }
            name
        }
    }
}

/// Where a path begins, by the first byte of an input.
const DIRECTORIES: [&str; 9] = [
    "",
    "t/",
    "t/0/",
    "t/0/by-offset/",
    "t/0@committed/by-offset/",
    "t/0/by-segment/",
    "t/0/segments/",
    ".topicfs/",
    "t/0/by-key/",
];

/// The most bytes that one path may cost, files of the tree and listings together.
const MOST: usize = 16 << 20;

/// Paths and globs in the tree of one small partition.
pub fn paths(data: &[u8]) {
    static TREE: LazyLock<(Tree, Fs)> = LazyLock::new(|| {
        let tree = Tree::new();
        tree.write(&small());
        let fs = Fs::open(&tree.spec(), Options::default(), String::new()).expect("it is a source");
        // Nothing comes, and a `follow` must not wait for it.
        fs.end_follows();
        (tree, fs)
    });
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(rest) = std::str::from_utf8(rest) else { return };
    let path = format!("{}{rest}", DIRECTORIES[usize::from(*first) % DIRECTORIES.len()]);
    let fs = &TREE.1;
    bounded(MOST, || {
        if let Ok(node) = fs.resolve(&path) {
            check_node(fs, &node, &path);
        }
        // Patterns are slow, the more so the more stars they have: not all are tried, and none with many.
        let stars = path.matches(['*', '{', '?', '[']).count();
        if path.len().is_multiple_of(8) && path.len() < 64 && (1..=3).contains(&stars) {
            for found in fs.expand(&path).unwrap_or_default() {
                check_node(fs, &found.node, &found.path);
            }
        }
    });
}

/// Checks what is at a path, the first time that a path leads there: the tree never changes.
fn check_node(fs: &Fs, node: &Node, path: &str) {
    thread_local!(static CHECKED: RefCell<HashSet<Node>> = RefCell::default());
    if CHECKED.with_borrow_mut(|checked| checked.insert(node.clone())) {
        check_new_node(fs, node, path);
    }
}

fn check_new_node(fs: &Fs, node: &Node, path: &str) {
    let attributes = fs.attributes(0, node, Effort::All).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(attributes.is_dir, node.is_dir());
    match fs.content(0, node).unwrap_or_else(|error| panic!("{path}: {error}")) {
        Content::Directory(entries) => {
            for entry in entries.iter().filter(|entry| entry.name != "." && entry.name != "..") {
                let child = fs.child(node, OsStr::new(&entry.name));
                let child = child.unwrap_or_else(|error| panic!("{path}/{:?}: {error}", entry.name));
                assert_eq!(child.is_dir(), entry.is_dir);
            }
        }
        content => {
            let mut bytes = Vec::new();
            fs.read_content(&content, 0, 1 << 20, &mut bytes)
                .unwrap_or_else(|error| panic!("{path}: {error}"));
            let is_live = path.contains("problems");
            assert!(is_live || attributes.size == bytes.len() as u64, "{path}: {} bytes", bytes.len());
        }
    }
}

/// A partition with two segments of single-record batches, of which the second is torn.
fn small() -> Archive {
    let batch = |offset: i64| {
        let mut entry = vec![0; 61];
        entry[..8].copy_from_slice(&offset.to_be_bytes());
        entry[16] = 2;
        entry[43..57].fill(0xff);
        entry[60] = 1;
        let record = Plain {
            offset,
            timestamp: 1000 + offset,
            key: Some(b"key".to_vec()),
            value: Some(format!("value {offset}").into_bytes()),
            headers: Vec::new(),
        };
        entry.extend(oracle::payload_v2(offset, 0, &[record]));
        oracle::repair_whole(&mut entry);
        entry
    };
    let log = |offsets: std::ops::Range<i64>| offsets.flat_map(batch).collect::<Vec<u8>>();
    let mut torn = log(8..12);
    torn.truncate(torn.len() - 5);
    let mut archive = Archive::default();
    archive.add("00000000000000000000.log", log(0..8));
    archive.add("00000000000000000008.log", torn);
    archive.add("00000000000000000000.index", vec![0, 0, 0, 4, 0, 0, 1, 0]);
    archive
}
