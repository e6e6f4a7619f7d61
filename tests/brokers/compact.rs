//! Compaction and retention of random logs: Kafka's own cleaner does what a plain map of keys says, and ours leaves the same files, byte
//! for byte where nothing is compressed; so with retention.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::common::alike;
use crate::common::compacting::{self, Cleaned, CompactCase};
use crate::common::fixtures;
use crate::common::kafka::Kafka;
use crate::common::keyed::{logs, modified};
use crate::common::retaining::RetainCase;
use crate::common::salvaged::{all_batches, batches, files, scratch};
use crate::common::shown::{self, ShownRecord};
use crate::common::upkept;
use topicfs::fs::options::Options;
use topicfs::log::upkeep::compaction::range::Verdict;

/// `TOPICFS_COMPACTIONS` has more.
const CASES: u64 = 60;
const ROUNDS: usize = 3;
const RETAINED: u64 = 100;
/// Later than all fixtures.
const NOW: i64 = 2_000_000_000_000;

#[test]
fn kafka_keeps_the_newest_record_of_each_key() {
    let Some(mut kafka) = Kafka::start() else { return };
    let (mut counts, mut faults) = (Counts::default(), Vec::new());
    let count = std::env::var("TOPICFS_COMPACTIONS").map_or(CASES, |count| count.parse().unwrap());
    for seed in 1..=count {
        let mut case = CompactCase::new(&mut kafka, seed);
        for round in 1..=ROUNDS {
            let before = Before::of(&case);
            let copies = scratch();
            let copy = copies.path().join("t-0");
            fixtures::copy_into(&case.partition(), &copy);
            let cleaned = match case.clean(&mut kafka, &case.partition()) {
                Ok(cleaned) => cleaned,
                Err(thrown) => {
                    faults.push(format!("{}: {thrown}", case.name));
                    break;
                }
            };
            check_state(&case, &copy, &cleaned);
            let ours = copies.path().join("ours-0");
            fixtures::copy_into(&copy, &ours);
            let is_unsure = before.is_unsure(&case, &cleaned);
            if let Err(fault) = compare(&case, &ours, &cleaned, is_unsure) {
                faults.push(format!("{}: {cleaned:?}: {fault}", case.name));
                break;
            }
            counts.equal += u64::from(cleaned.cleanable_bytes > 0 && !is_unsure);
            if let Err(fault) = before.check(&case, &cleaned, &mut counts) {
                faults.push(format!("{}: {cleaned:?}: {fault}", case.name));
                break;
            }
            assert_eq!(case.clean(&mut kafka, &copy).as_ref(), Ok(&cleaned), "{}", case.name);
            let differences = alike::differences(&copy, &case.partition());
            assert!(differences.is_empty(), "{}: {}", case.name, differences.join("\n"));
            if round < ROUNDS {
                case.next_round(&mut kafka, cleaned.end);
            }
        }
    }
    println!("{counts:?}");
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    assert!(counts.partly > 3 && counts.fates.len() == 8 && counts.equal > count, "{counts:?}");
}

/// Our own makes the same of a copy, or keeps what Kafka took for aborted.
fn compare(case: &CompactCase, ours: &Path, cleaned: &Cleaned, is_unsure: bool) -> Result<(), String> {
    let checkpoint = (case.checkpoint >= 0).then_some(case.checkpoint);
    upkept::load(ours, case.log_start);
    let survey = upkept::survey(ours, case.log_start, checkpoint);
    let (cleanable, verdict) = upkept::cleanable(&survey, &case.config, case.now);
    let got = (
        cleanable.first_dirty.0,
        cleanable.first_uncleanable.0,
        cleanable.dirty_bytes,
        cleanable.clean_bytes,
    );
    let expected = (cleaned.first_dirty, cleaned.up_to, cleaned.cleanable_bytes, cleaned.clean_bytes);
    if got != expected {
        return Err(format!("{cleanable:?}"));
    }
    let is_worth_it = matches!(verdict, Verdict::Dirty | Verdict::Overdue);
    if is_worth_it != cleaned.is_cleanable || (cleanable.delay_ms > 0) != cleaned.is_due {
        return Err(format!("{verdict:?}: {cleanable:?}"));
    }
    if cleanable.dirty_bytes == 0 {
        return Ok(());
    }
    let settings = upkept::settings(&case.config, case.now, case.map_slots);
    let compacted = upkept::compact(ours, &survey, cleanable, settings).map_err(|error| error.to_string())?;
    let differences = alike::differences(ours, &case.partition());
    match differences.is_empty() && compacted.end.0 == cleaned.end || is_unsure {
        true => Ok(()),
        false => Err(format!("ours ends at {}:\n{}", compacted.end, differences.join("\n"))),
    }
}

/// Leader epochs stay, and so do the snapshots of producers that belong to a segment which is still there.
fn check_state(case: &CompactCase, before: &Path, cleaned: &Cleaned) {
    let epochs = |partition: &Path| fs::read_to_string(partition.join("leader-epoch-checkpoint")).unwrap();
    if cleaned.log_start == cleaned.segments[0].0 {
        assert_eq!(epochs(&case.partition()), epochs(before), "{}", case.name);
    }
    let snapshots = |partition: &Path| -> BTreeSet<i64> {
        let names = files(partition).into_keys();
        names.filter_map(|name| name.strip_suffix(".snapshot")?.parse().ok()).collect()
    };
    let bases = cleaned.segments.iter().map(|(base, _)| *base).chain([cleaned.log_end]);
    let expected = bases.filter(|base| *base > cleaned.log_start).collect::<BTreeSet<_>>();
    let expected = expected.intersection(&snapshots(before)).copied().collect::<BTreeSet<_>>();
    assert_eq!(snapshots(&case.partition()), expected, "{}", case.name);
}

/// What was seen, so that none of it is missed.
#[derive(Debug, Default)]
struct Counts {
    rounds: u64,
    /// Ours has left the same files.
    equal: u64,
    nothing_dirty: u64,
    not_yet: u64,
    reset: u64,
    /// The map was full before all was in it.
    partly: u64,
    /// What Kafka took for aborted though it was not.
    unsure: u64,
    fates: BTreeMap<Fate, u64>,
}

/// What becomes of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Kept,
    /// Goes.
    Aborted,
    NullKey,
    Superseded,
    /// Stays until its time has come, which is known from then on.
    Tombstone,
    LateTombstone,
    /// Stays, or goes by the time at which its segment was written.
    LegacyTombstone,
    LateLegacyTombstone,
}

/// A partition before it is cleaned.
struct Before {
    records: Vec<ShownRecord>,
    bases: Vec<i64>,
    /// When each segment was written.
    written: Vec<i64>,
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
            written: logs(&case.partition()).iter().map(|(path, _)| modified(path)).collect(),
            bases: logs(&case.partition()).into_iter().map(|(_, base)| base).collect(),
            batches: batches.collect(),
        }
    }

    fn check(&self, case: &CompactCase, cleaned: &Cleaned, counts: &mut Counts) -> Result<(), String> {
        counts.rounds += 1;
        counts.reset += u64::from(cleaned.is_reset);
        counts.not_yet += u64::from(!cleaned.is_cleanable);
        counts.nothing_dirty += u64::from(cleaned.cleanable_bytes == 0);
        counts.partly += u64::from(cleaned.cleanable_bytes > 0 && cleaned.end < cleaned.up_to);
        let rewritten = if cleaned.cleanable_bytes == 0 { i64::MIN } else { cleaned.end };
        let below = self.bases.iter().find(|base| **base >= rewritten).copied().unwrap_or(i64::MAX);
        let aborted = case.log.aborted();
        let unsure = self.unsure(case, cleaned);
        let newest = self.newest(cleaned, |offset| !aborted.contains_key(&offset));
        let surely =
            self.newest(cleaned, |offset| !aborted.contains_key(&offset) && !unsure.contains(&offset));
        let after: BTreeMap<i64, ShownRecord> =
            records(&case.data()).into_iter().map(|record| (record.offset, record)).collect();
        let mut left = after.len();
        for record in &self.records {
            let kept = after.get(&record.offset);
            left -= usize::from(kept.is_some());
            if kept.is_some_and(|kept| kept != record) {
                return Err(format!("{record:?}: is {kept:?}"));
            }
            let fate = |newest| match aborted.get(&record.offset) {
                _ if record.offset >= below => Fate::Kept,
                // What was aborted below the log start is not looked up any more.
                Some(marker) if *marker >= case.log_start => Fate::Aborted,
                _ => self.fate(record, case, cleaned, newest),
            };
            let (fate, other) = (fate(&newest), fate(&surely));
            let is_expected = |fate| match fate {
                Fate::Kept | Fate::Tombstone | Fate::LegacyTombstone => kept.is_some(),
                _ => kept.is_none(),
            };
            if !is_expected(fate) && !is_expected(other) {
                return Err(format!("{record:?}: {fate:?}, but kept: {}", kept.is_some()));
            }
            counts.unsure += u64::from(!is_expected(fate));
            *counts.fates.entry(fate).or_default() += 1;
        }
        if left == 0 { Ok(()) } else { Err(format!("{left} records are new")) }
    }

    /// The newest offset of each key in the dirty range, of those that count.
    fn newest(&self, cleaned: &Cleaned, counts: impl Fn(i64) -> bool) -> BTreeMap<Vec<u8>, i64> {
        let dirty = self.records.iter().filter(|record| {
            (cleaned.first_dirty..cleaned.end).contains(&record.offset) && counts(record.offset)
        });
        dirty.filter_map(|record| Some((record.key.clone()?, record.offset))).collect()
    }

    /// Whether Kafka may take something for aborted that isn't, or for committed: what was aborted below the log start.
    fn is_unsure(&self, case: &CompactCase, cleaned: &Cleaned) -> bool {
        !self.unsure(case, cleaned).is_empty()
            || case.log.aborted().values().any(|marker| *marker < case.log_start)
    }

    /// What Kafka may take for aborted when it begins within a segment: it knows of all transactions that were aborted in that
    /// segment, but reads no marker in front of where it begins. So their producers' next transactions may be taken for them.
    fn unsure(&self, case: &CompactCase, cleaned: &Cleaned) -> BTreeSet<i64> {
        let mut unsure = BTreeSet::new();
        if self.bases.contains(&cleaned.first_dirty) {
            return unsure;
        }
        let mut marked = BTreeSet::new();
        for entry in case.log.entries.iter().filter(|entry| entry.first >= cleaned.first_dirty) {
            match (entry.transaction, entry.marker) {
                (Some(producer), Some(_)) => drop(marked.insert(producer)),
                (Some(producer), None) if !marked.contains(&producer) => {
                    unsure.extend(entry.records.iter().map(|record| record.offset));
                }
                _ => {}
            }
        }
        unsure
    }

    /// What becomes of a record of a segment that is cleaned, if it was not aborted.
    fn fate(
        &self,
        record: &ShownRecord,
        case: &CompactCase,
        cleaned: &Cleaned,
        newest: &BTreeMap<Vec<u8>, i64>,
    ) -> Fate {
        let (now, end) = (case.now, cleaned.end);
        let Some(key) = record.key.as_ref().filter(|_| record.offset < end) else {
            return if record.offset < end { Fate::NullKey } else { Fate::Kept };
        };
        if newest.get(key).is_some_and(|newest| *newest > record.offset) {
            return Fate::Superseded;
        }
        if record.value.is_some() {
            return Fate::Kept;
        }
        match self.batch(record.offset) {
            Some(Some(horizon)) if horizon <= now => Fate::LateTombstone,
            Some(_) => Fate::Tombstone,
            // The horizon is that of the last segment that has been clean before.
            None => {
                let clean = self.bases.iter().take_while(|base| **base < cleaned.first_dirty).count();
                let retention = case.number("delete.retention.ms").unwrap();
                let horizon = clean.checked_sub(1).map_or(0, |last| self.written[last] - retention);
                let segment = self.bases.iter().take_while(|base| **base <= record.offset).count() - 1;
                if self.written[segment] > horizon {
                    Fate::LegacyTombstone
                } else {
                    Fate::LateLegacyTombstone
                }
            }
        }
    }

    /// The delete horizon of the batch of magic 2 that has a record.
    fn batch(&self, offset: i64) -> Option<Option<i64>> {
        let batch = self.batches.iter().find(|(first, last, _)| (*first..=*last).contains(&offset));
        batch.map(|(_, _, horizon)| *horizon)
    }
}

/// All partitions of all brokers' fixtures that recovery takes, as keyed as they are: two rounds, the second when tombstones may go.
#[test]
fn fixtures_are_compacted_as_by_kafka() {
    let Some(mut kafka) = Kafka::start() else { return };
    let config = [
        ("cleanup.policy", "compact"),
        ("min.cleanable.dirty.ratio", "0"),
        ("index.interval.bytes", "512"),
        ("delete.retention.ms", "1000"),
    ];
    let config = config.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let (mut equal, mut refused) = (0, Vec::new());
    for case in fixtures::cases() {
        for partition in case.partitions() {
            let copies = scratch();
            let theirs = copies.path().join("t-0");
            fixtures::copy_into(&partition.dir, &theirs);
            let first = logs(&theirs).first().map_or(0, |(_, base)| *base);
            let what = format!("{} {} {}", case.version, case.name, partition.dir.display());
            // From now on both have the same indexes and snapshots.
            let rebuilt = compacting::ask(&mut kafka, "rebuild", &theirs, &[first, NOW, 0], &config);
            if rebuilt.get("thrown").is_some() {
                refused.push(what);
                continue;
            }
            let mut checkpoint = -1;
            for now in [NOW, NOW + 5000] {
                let ours = copies.path().join(format!("ours-{now}"));
                fixtures::copy_into(&theirs, &ours);
                let numbers = [first, now, checkpoint, 100_000];
                let answer = compacting::ask(&mut kafka, "compact", &theirs, &numbers, &config);
                if answer.get("thrown").is_some() {
                    refused.push(format!("{what}: {answer}"));
                    break;
                }
                upkept::load(&ours, first);
                let survey = upkept::survey(&ours, first, (checkpoint >= 0).then_some(checkpoint));
                let (cleanable, _) = upkept::cleanable(&survey, &config, now);
                assert_eq!(Some(cleanable.first_uncleanable.0), answer["upTo"].as_i64(), "{what}");
                if cleanable.dirty_bytes > 0 {
                    let settings = upkept::settings(&config, now, 100_000);
                    let compacted = upkept::compact(&ours, &survey, cleanable, settings);
                    let compacted = compacted.unwrap_or_else(|error| panic!("{what}: {error}"));
                    assert_eq!(Some(compacted.end.0), answer["end"].as_i64(), "{what}");
                    equal += 1;
                }
                let mut differences = alike::differences(&ours, &theirs);
                // Loading takes those away that say of no producer.
                differences.retain(|line| !line.contains(".snapshot: only"));
                assert!(differences.is_empty(), "{what}: {}", differences.join("\n"));
                // Once more, all of it.
                checkpoint = first;
            }
        }
    }
    println!("{equal} are compacted alike; Kafka refuses {}: {}", refused.len(), refused.join("\n"));
    assert!(equal > 100 && refused.len() < 30, "{equal}, {refused:?}");
}

#[test]
fn kafka_removes_the_oldest_segments() {
    let Some(mut kafka) = Kafka::start() else { return };
    let mut deleted = 0;
    for seed in 1..=RETAINED {
        let case = RetainCase::new(&mut kafka, seed);
        let (left, log_start) = left(&case);
        let survey = upkept::survey(&case.partition(), case.log_start, None);
        let gone = upkept::retention(&survey, &case.config, case.now).gone.len();
        let ours = survey.segments.get(gone..).unwrap_or_default().iter().map(|segment| segment.base.0);
        let ours = if gone == survey.segments.len() { vec![survey.end.0] } else { ours.collect() };
        assert_eq!(ours, left, "{}", case.name);
        let retained = case.retain(&mut kafka, &case.partition());
        let retained = retained.unwrap_or_else(|thrown| panic!("{}: {thrown}", case.name));
        let what = format!("{}: {retained:?}", case.name);
        let bases: Vec<i64> = logs(&case.partition()).into_iter().map(|(_, base)| base).collect();
        assert_eq!(bases, retained.segments.iter().map(|(base, _)| *base).collect::<Vec<_>>(), "{what}");
        assert_eq!(bases, left, "{what}");
        assert_eq!(retained.log_start, log_start, "{what}");
        deleted += retained.deleted;
    }
    println!("{deleted} segments are deleted");
    assert!(deleted > RETAINED, "{deleted}");
}

/// The base offsets of the segments that are to be left, and where the log starts then.
fn left(case: &RetainCase) -> (Vec<i64>, i64) {
    let segments = logs(&case.partition());
    let bases: Vec<i64> = segments.iter().map(|(_, base)| *base).collect();
    let logs: Vec<Vec<u8>> = segments.iter().map(|(path, _)| fs::read(path).unwrap()).collect();
    let largest = |number: usize| {
        let times = batches(&logs[number]).into_iter().filter(|batch| batch[16] > 0).map(|batch| {
            let at = if batch[16] == 1 { 18 } else { 35 };
            i64::from_be_bytes(batch[at..at + 8].try_into().unwrap())
        });
        times.max().filter(|time| *time >= 0).unwrap_or_else(|| modified(&segments[number].0))
    };
    let value = |key: &str| case.config.iter().find(|(name, _)| name == key).unwrap().1.clone();
    let [max_bytes, max_ms] =
        ["retention.bytes", "retention.ms"].map(|key| value(key).parse::<i64>().unwrap());
    let size = |number: usize| i64::try_from(logs[number].len()).unwrap();
    let end = |number: usize| bases.get(number + 1).copied();
    // A segment that has just begun is never removed.
    let may_go = |number: usize| number < bases.len() && (end(number).is_some() || size(number) > 0);
    let mut first = 0;
    while end(first).is_some_and(|end| end <= case.log_start) {
        first += 1;
    }
    if value("cleanup.policy").contains("delete") {
        let mut excess = (first..bases.len()).map(size).sum::<i64>() - max_bytes;
        while max_bytes >= 0 && may_go(first) && excess - size(first) >= 0 {
            excess -= size(first);
            first += 1;
        }
        while max_ms >= 0 && may_go(first) && case.now - largest(first) > max_ms {
            first += 1;
        }
    }
    let left = if first < bases.len() { bases[first..].to_vec() } else { vec![case.log_end] };
    let log_start = case.log_start.max(left[0]);
    (left, log_start)
}
