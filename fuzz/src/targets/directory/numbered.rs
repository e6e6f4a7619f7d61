//! `by-offset/`: single records and ranges, against the lines of the whole log.

use topicfs::fs::Fs;

use super::shown::{Shown, names, read};
use crate::damage::Numbers;
use crate::oracle;

/// Checks some names in `by-offset/`, chosen by `numbers`.
pub fn check(fs: &Fs, view: &str, shown: &Shown, numbers: &mut Numbers) {
    let end = shown.records.last().map_or(0, |record| record.offset.saturating_add(1));
    for _ in 0..3 {
        let near = shown.records.get(numbers.below(shown.records.len())).map_or(0, |record| record.offset);
        check_record(fs, view, shown, near.saturating_add(numbers.below(2) as i64));
    }
    for from_end in 1..=2 {
        let expected = shown.records.iter().rev().nth(from_end - 1);
        let path = format!("{view}/by-offset/last-{from_end}");
        match expected {
            Some(record) => assert!(read(fs, &path) == record.value.as_deref().unwrap_or_default(), "{path}"),
            None => assert!(fs.resolve(&path).is_err(), "{path}"),
        }
    }
    let first = shown.records.get(numbers.below(shown.records.len())).map_or(0, |record| record.offset);
    let last = shown.records.get(numbers.below(shown.records.len())).map_or(end, |record| record.offset);
    let count = numbers.below(5);
    let nth = shown.records.iter().filter(|record| record.offset >= first).nth(count);
    let after_count = nth.map_or(i64::MAX, |record| record.offset);
    let path = |name: String| format!("{view}/by-offset/{name}.jsonl");
    let is_within = |from: i64, to: i64| shown.lines_where(|offset| offset >= from && offset < to);
    assert!(read(fs, &path(format!("{first}..{last}"))) == is_within(first, last), "{first}..{last}");
    assert!(read(fs, &path(format!("{first}.."))) == is_within(first, i64::MAX), "{first}..");
    assert!(read(fs, &path(format!("..{last}"))) == is_within(0, last), "..{last}");
    assert!(
        read(fs, &path(format!("{first}..+{count}"))) == is_within(first, after_count),
        "{first}..+{count}"
    );
    if last.saturating_sub(first) < 5000 {
        let listed = names(fs, &format!("{view}/by-offset/{first}..{last}"));
        let within = shown.records.iter().map(|r| r.offset).filter(|offset| (first..last).contains(offset));
        assert!(within.map(|offset| format!("{offset:020}")).eq(listed), "the names in {first}..{last}");
    }
}

/// One record in each form, or the lack of it.
fn check_record(fs: &Fs, view: &str, shown: &Shown, offset: i64) {
    let path = format!("{view}/by-offset/{offset}");
    let Some(at) = shown.records.iter().position(|record| record.offset == offset) else {
        assert!(fs.resolve(&path).is_err(), "{path} is not in the log");
        return;
    };
    let record = &shown.records[at];
    assert!(read(fs, &path) == record.value.as_deref().unwrap_or_default(), "{path}");
    assert!(read(fs, &format!("{path}.key")) == record.key.as_deref().unwrap_or_default(), "{path}.key");
    assert!(read(fs, &format!("{path}.jsonl")) == shown.lines[at], "{path}.jsonl");
    let batch = read(fs, &format!("{path}.log"));
    assert_eq!(oracle::sound_entry(&batch), Some(&batch[..]), "{path}.log");
    let pretty: serde_json::Value =
        serde_json::from_slice(&read(fs, &format!("{path}.json"))).expect("a document");
    assert_eq!(pretty["offset"].as_i64(), Some(offset));
    assert_eq!(pretty["batch"]["size"].as_u64(), Some(batch.len() as u64));
}
