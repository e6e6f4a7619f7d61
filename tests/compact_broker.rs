//! Kafka's own log cleaner and retention on random logs: that they do what `docs` of Kafka say, as what ours are held against.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::compacting::{self, Cleaned, CompactCase};
use common::kafka::Kafka;
use common::keyed::logs;
use common::retaining::RetainCase;
use common::salvaged::all_batches;
use common::shown::{self, ShownRecord};
use topicfs::fs::options::Options;

const CASES: u64 = 30;
const ROUNDS: usize = 3;

#[test]
fn kafka_keeps_the_newest_record_of_each_key() {
    let Some(mut kafka) = Kafka::start() else { return };
    let (mut counts, mut faults) = (Counts::default(), Vec::new());
    let cases: Vec<CompactCase> = compacting::cases(&mut kafka, 1..=CASES).collect();
    for mut case in cases {
        for round in 1..=ROUNDS {
            let before = Before::of(&case);
            let cleaned = match case.clean(&mut kafka, &case.partition()) {
                Ok(cleaned) => cleaned,
                Err(thrown) => {
                    faults.push(format!("{}: {thrown}", case.name));
                    break;
                }
            };
            if let Err(fault) = before.check(&case, &cleaned, &mut counts) {
                faults.push(format!("{}: {cleaned:?}: {fault}", case.name));
                break;
            }
            if round < ROUNDS {
                case.next_round(&mut kafka, cleaned.end);
            }
        }
    }
    println!("{counts:?}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(counts.superseded > 100 && counts.late_tombstones > 10 && counts.partly > 3, "{counts:?}");
}

/// What was seen, so that none of it is missed.
#[derive(Debug, Default)]
struct Counts {
    rounds: u64,
    nothing_dirty: u64,
    not_yet: u64,
    reset: u64,
    /// The map was full before all was in it.
    partly: u64,
    kept: u64,
    aborted: u64,
    null_keys: u64,
    superseded: u64,
    tombstones: u64,
    late_tombstones: u64,
    legacy_tombstones: u64,
}

/// A partition before it is cleaned.
struct Before {
    records: Vec<ShownRecord>,
    bases: Vec<i64>,
    /// The batches of magic 2: first and last offset, and when what is deleted in them may go.
    batches: Vec<(i64, i64, Option<i64>)>,
}

fn records(data: &Path) -> Vec<ShownRecord> {
    let fs = shown::open(data.to_str().unwrap(), Options::default());
    shown::records(&shown::read(&fs, "t/0/log.jsonl"))
}

impl Before {
    fn of(case: &CompactCase) -> Self {
        let batches = all_batches(&case.partition()).into_iter().filter(|batch| batch[16] == 2);
        let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
        let batches = batches.map(|batch| {
            let (base, delta) = (number(&batch[..8]), i32::from_be_bytes(batch[23..27].try_into().unwrap()));
            let horizon = (batch[22] & 0x40 != 0).then(|| number(&batch[27..35]));
            (base, base + i64::from(delta), horizon)
        });
        Self {
            records: records(&case.data()),
            bases: logs(&case.partition()).into_iter().map(|(_, base)| base).collect(),
            batches: batches.collect(),
        }
    }

    fn check(&self, case: &CompactCase, cleaned: &Cleaned, counts: &mut Counts) -> Result<(), String> {
        counts.rounds += 1;
        counts.reset += u64::from(cleaned.is_reset);
        counts.not_yet += u64::from(!cleaned.is_cleanable);
        counts.nothing_dirty += u64::from(cleaned.cleanable_bytes == 0);
        let is_whole = cleaned.end == cleaned.first_uncleanable || self.bases.contains(&cleaned.end);
        counts.partly += u64::from(!is_whole);
        let rewritten = if cleaned.cleanable_bytes == 0 { i64::MIN } else { cleaned.end };
        let below = self.bases.iter().find(|base| **base >= rewritten).copied().unwrap_or(i64::MAX);
        let aborted = case.log.aborted();
        let newest = self.newest(cleaned, &aborted);
        let after: BTreeMap<i64, ShownRecord> =
            records(&case.data()).into_iter().map(|record| (record.offset, record)).collect();
        let mut left = after.len();
        for record in &self.records {
            let expected =
                record.offset >= below || self.is_kept(record, case, cleaned, &newest, &aborted, counts);
            let kept = after.get(&record.offset);
            left -= usize::from(kept.is_some());
            let is_legacy_tombstone = record.value.is_none() && self.batch(record.offset).is_none();
            if kept.is_some() != expected && !(expected && is_legacy_tombstone) {
                return Err(format!("{record:?}: expected {expected}"));
            }
            if kept.is_some_and(|kept| kept != record) {
                return Err(format!("{record:?}: is {kept:?}"));
            }
            counts.kept += u64::from(kept.is_some());
        }
        if left == 0 { Ok(()) } else { Err(format!("{left} records are new")) }
    }

    /// The newest offset of each key in the dirty range.
    fn newest(&self, cleaned: &Cleaned, aborted: &BTreeSet<i64>) -> BTreeMap<Vec<u8>, i64> {
        let dirty = self.records.iter().filter(|record| {
            (cleaned.first_dirty..cleaned.end).contains(&record.offset) && !aborted.contains(&record.offset)
        });
        dirty.filter_map(|record| Some((record.key.clone()?, record.offset))).collect()
    }

    /// Whether a record in a segment that is cleaned is kept.
    fn is_kept(
        &self,
        record: &ShownRecord,
        case: &CompactCase,
        cleaned: &Cleaned,
        newest: &BTreeMap<Vec<u8>, i64>,
        aborted: &BTreeSet<i64>,
        counts: &mut Counts,
    ) -> bool {
        if aborted.contains(&record.offset) {
            counts.aborted += 1;
            return false;
        }
        if record.offset >= cleaned.end {
            return true;
        }
        let Some(key) = &record.key else {
            counts.null_keys += 1;
            return false;
        };
        if newest.get(key).is_some_and(|newest| *newest > record.offset) {
            counts.superseded += 1;
            return false;
        }
        if record.value.is_some() {
            return true;
        }
        match self.batch(record.offset) {
            Some(Some(horizon)) if horizon <= case.now => {
                counts.late_tombstones += 1;
                false
            }
            Some(_) => {
                counts.tombstones += 1;
                true
            }
            None => {
                counts.legacy_tombstones += 1;
                true
            }
        }
    }

    /// The delete horizon of the batch of magic 2 that has a record.
    fn batch(&self, offset: i64) -> Option<Option<i64>> {
        let batch = self.batches.iter().find(|(first, last, _)| (*first..=*last).contains(&offset));
        batch.map(|(_, _, horizon)| *horizon)
    }
}

#[test]
fn kafka_removes_the_oldest_segments() {
    let Some(mut kafka) = Kafka::start() else { return };
    let mut deleted = 0;
    for seed in 1..=20 {
        let case = RetainCase::new(&mut kafka, seed);
        let before = logs(&case.partition());
        let retained = case
            .retain(&mut kafka, &case.partition())
            .unwrap_or_else(|thrown| panic!("{}: {thrown}", case.name));
        println!("{}: of {} segments {retained:?}", case.name, before.len());
        let after: Vec<i64> = logs(&case.partition()).into_iter().map(|(_, base)| base).collect();
        let bases: Vec<i64> = retained.segments.iter().map(|(base, _)| *base).collect();
        assert_eq!(after, bases, "{}", case.name);
        assert!(retained.log_start >= case.log_start, "{}", case.name);
        deleted += retained.deleted;
    }
    assert!(deleted > 20);
}
