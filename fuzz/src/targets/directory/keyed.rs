//! `by-key/`: for each key the latest of the records that are shown, and all of them.

use std::collections::{BTreeMap, BTreeSet};

use topicfs::fs::{Fs, FsError, key_names};
use topicfs::view::format::Formats;

use super::shown::{Shown, names, read};
use crate::oracle::Plain;

/// Keys whose files are looked at.
const MOST: usize = 64;

/// Checks the files of keys against the records of `log.jsonl`.
pub fn check(fs: &Fs, view: &str, shown: &Shown) {
    let mut of_keys: BTreeMap<&[u8], Vec<usize>> = BTreeMap::new();
    for (number, record) in shown.records.iter().enumerate() {
        if let Some(key) = &record.key {
            of_keys.entry(key).or_default().push(number);
        }
    }
    let latest = |numbers: &[usize]| -> &Plain { &shown.records[*numbers.last().expect("a record")] };
    for (key, numbers) in of_keys.iter().take(MOST) {
        let path = format!("{view}/by-key/{}", key_names::build(key, &Formats::default()));
        match &latest(numbers).value {
            Some(value) => assert!(read(fs, &path) == *value, "{path}"),
            None => assert!(matches!(fs.resolve(&path), Err(FsError::NotFound)), "{path} is there"),
        }
        let lines: Vec<u8> = numbers.iter().flat_map(|number| shown.lines[*number].clone()).collect();
        assert!(read(fs, &format!("{path}.jsonl")) == lines, "{path}.jsonl");
    }
    let live = of_keys.iter().filter(|(_, numbers)| latest(numbers).value.is_some());
    let mut expected: BTreeSet<String> =
        live.map(|(key, _)| key_names::build(key, &Formats::default())).collect();
    expected.insert("README.txt".to_owned());
    assert!(names(fs, &format!("{view}/by-key")).into_iter().eq(expected), "{view}/by-key");
}
