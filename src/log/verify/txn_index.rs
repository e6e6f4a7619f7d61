//! A transaction index against the log's markers.
//!
//! Who reads committed records leaves out those of the transactions that the index names. So each ABORT marker whose
//! transaction has records must have its entry, in the segment of the marker, and each entry must have its marker.
//! Compaction takes the records of aborted transactions away, then entry and marker; what came before the log's start, or
//! in damage, is not known.

use std::collections::HashMap;

use crate::format::index::AbortedTxn;
use crate::units::{Offset, ProducerId};

/// What is known of a producer at some place in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Producer {
    /// Where its open transaction begins in this segment.
    open: Option<Offset>,
    /// The last one of its markers in this segment: its transaction does not begin before that.
    marker: Option<Offset>,
}

/// An ABORT or COMMIT marker whose transaction may have begun in an earlier segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstMarker {
    producer: ProducerId,
    /// Where its records begin in its own segment.
    first: Option<Offset>,
    /// Its offset, if it aborts, and what the index says of it.
    abort: Option<(Offset, Option<AbortedTxn>)>,
}

/// What a segment leaves for the ones after it.
#[derive(Debug, Default)]
pub struct Carried {
    markers: Vec<FirstMarker>,
    open: HashMap<ProducerId, Offset>,
    has_damage: bool,
}

/// Something wrong with an entry (by its number in the file), or with one that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongTxn {
    /// The entry; `None` for one that is missing.
    pub entry: Option<usize>,
    /// The offset of the marker.
    pub offset: Offset,
    /// What is wrong.
    pub cause: String,
}

/// Takes in the transactional batches of a segment in order.
#[derive(Debug)]
pub struct TxnIndexCheck {
    entries: Vec<AbortedTxn>,
    has_marker: Vec<bool>,
    producers: HashMap<ProducerId, Producer>,
    carried: Carried,
    wrong: Vec<WrongTxn>,
}

impl TxnIndexCheck {
    /// A check of these entries.
    pub fn new(entries: Vec<AbortedTxn>) -> Self {
        let has_marker = vec![false; entries.len()];
        let (producers, carried, wrong) = (HashMap::new(), Carried::default(), Vec::new());
        Self { entries, has_marker, producers, carried, wrong }
    }

    /// Records of a transaction.
    pub fn data(&mut self, producer: ProducerId, first: Offset) {
        let state = self.producers.entry(producer).or_insert(Producer { open: None, marker: None });
        state.open.get_or_insert(first);
    }

    /// A COMMIT marker.
    pub fn commit(&mut self, producer: ProducerId, offset: Offset) {
        let ended = self.close(producer, offset);
        if ended.marker.is_none() {
            self.carried.markers.push(FirstMarker { producer, first: ended.open, abort: None });
        }
    }

    /// An ABORT marker.
    pub fn abort(&mut self, producer: ProducerId, offset: Offset) {
        let entry = self.take_entry(producer, offset);
        let ended = self.close(producer, offset);
        if ended.marker.is_some() {
            self.wrong.extend(compare(producer, ended, offset, entry.as_ref()));
        } else {
            let abort = Some((offset, entry));
            self.carried.markers.push(FirstMarker { producer, first: ended.open, abort });
        }
    }

    /// Bytes that are no batch: markers and records may have been there.
    pub fn damage(&mut self) {
        self.carried = Carried { has_damage: true, ..Carried::default() };
        self.producers.clear();
    }

    /// Ends a producer's transaction with the marker at `offset`; what was known of it before.
    fn close(&mut self, producer: ProducerId, offset: Offset) -> Producer {
        let ended = Producer { open: None, marker: Some(offset) };
        self.producers.insert(producer, ended).unwrap_or(Producer { open: None, marker: None })
    }

    /// The entry of a marker.
    fn take_entry(&mut self, producer: ProducerId, offset: Offset) -> Option<AbortedTxn> {
        let from = self.entries.partition_point(|entry| entry.last_offset < offset);
        let same = self.entries[from..].iter().take_while(|entry| entry.last_offset == offset);
        let at = from + same.into_iter().position(|entry| entry.producer_id == producer)?;
        self.has_marker[at] = true;
        self.entries.get(at).copied()
    }

    /// What is wrong within the segment, and what later ones need to know.
    pub fn finish(mut self) -> (Vec<WrongTxn>, Carried) {
        if !self.carried.has_damage {
            for (number, entry) in
                self.entries.iter().enumerate().filter(|(number, _)| !self.has_marker[*number])
            {
                let AbortedTxn { producer_id, last_offset, .. } = entry;
                let cause = format!(
                    "says that producer {} aborted at offset {last_offset}, where it has no ABORT marker",
                    producer_id.0
                );
                self.wrong.push(WrongTxn { entry: Some(number), offset: *last_offset, cause });
            }
        }
        for (producer, state) in &self.producers {
            self.carried.open.extend(state.open.map(|first| (*producer, first)));
        }
        (self.wrong, self.carried)
    }
}

/// The transactions that are open between two segments.
#[derive(Debug, Default)]
pub struct OpenTxns {
    first: HashMap<ProducerId, Offset>,
}

impl OpenTxns {
    /// Goes over one segment: what is wrong with markers whose transactions began before it.
    pub fn pass(&mut self, segment: Carried) -> Vec<WrongTxn> {
        if segment.has_damage {
            self.first.clear();
        }
        let mut wrong = Vec::new();
        for marker in segment.markers {
            let open = self.first.remove(&marker.producer).or(marker.first);
            if let Some((offset, entry)) = marker.abort {
                let state = Producer { open, marker: None };
                wrong.extend(compare(marker.producer, state, offset, entry.as_ref()));
            }
        }
        for (producer, first) in segment.open {
            self.first.entry(producer).or_insert(first);
        }
        wrong
    }
}

/// Whether the entry of the transaction that ended with the ABORT marker at `offset` hides all its records, and none of
/// the transaction before it.
fn compare(
    producer: ProducerId,
    state: Producer,
    offset: Offset,
    entry: Option<&AbortedTxn>,
) -> Option<WrongTxn> {
    let ProducerId(id) = producer;
    let cause = match (entry, state.open, state.marker) {
        (None, Some(first), _) => format!(
            "has no entry for the transaction of producer {id} that was aborted at offset {offset} \
             and has records from {first} on: readers of committed records get them"
        ),
        (Some(entry), Some(first), _) if entry.first_offset > first => format!(
            "says that the transaction of producer {id} that was aborted at offset {offset} begins at {}, \
             it has records from {first} on: readers of committed records get them",
            entry.first_offset
        ),
        (Some(entry), _, Some(marker)) if entry.first_offset <= marker => format!(
            "says that the transaction of producer {id} that was aborted at offset {offset} begins at {}, \
             the one before it ends at {marker}: readers of committed records miss that one",
            entry.first_offset
        ),
        _ => return None,
    };
    Some(WrongTxn { entry: None, offset, cause })
}

/// Entries that are wrong whatever the log says; `base` is the segment's base offset.
pub fn judge_alone(base: Offset, entries: &[AbortedTxn]) -> Vec<WrongTxn> {
    let mut before = Offset(-1);
    let mut wrong = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let AbortedTxn {
            version, first_offset: first, last_offset: last, last_stable_offset: stable, ..
        } = *entry;
        let cause = if version != 0 {
            Some(format!("version is {version}, only 0 is known"))
        } else if last < base {
            Some(format!("the marker's offset {last} is below the segment's base {base}"))
        } else if first > last || first.0 < 0 {
            Some(format!("a transaction from offset {first} to {last}"))
        } else if stable > last.next() {
            Some(format!("last stable offset {stable} after a marker at {last}"))
        } else if last <= before {
            Some(format!("a marker at offset {last} after one at {before}"))
        } else {
            None
        };
        before = before.max(last);
        wrong.extend(cause.map(|cause| WrongTxn { entry: Some(number), offset: last, cause }));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: ProducerId = ProducerId(7);

    fn entry(first: i64, last: i64) -> AbortedTxn {
        let (first_offset, last_offset) = (Offset(first), Offset(last));
        AbortedTxn {
            version: 0,
            producer_id: P,
            first_offset,
            last_offset,
            last_stable_offset: last_offset.next(),
        }
    }

    #[test]
    fn each_aborted_transaction_with_records_has_its_entry() {
        let run = |entries: &[AbortedTxn]| {
            let mut check = TxnIndexCheck::new(entries.to_vec());
            check.data(P, Offset(1));
            check.commit(P, Offset(2));
            check.data(P, Offset(4));
            check.data(P, Offset(6));
            check.abort(P, Offset(9));
            check.abort(P, Offset(10));
            let (mut wrong, carried) = check.finish();
            wrong.extend(OpenTxns::default().pass(carried));
            wrong.len()
        };
        assert_eq!(run(&[entry(4, 9)]), 0);
        assert_eq!(run(&[]), 1, "missing");
        assert_eq!(run(&[entry(5, 9)]), 1, "begins too late");
        assert_eq!(run(&[entry(3, 9)]), 0, "compaction took its first record");
        assert_eq!(run(&[entry(1, 9)]), 1, "hides the one before");
        assert_eq!(run(&[entry(4, 9), entry(11, 12)]), 1, "without a marker");
    }

    #[test]
    fn transactions_that_cross_segments_are_followed() {
        let segment = |entries: &[AbortedTxn], work: &dyn Fn(&mut TxnIndexCheck)| {
            let mut check = TxnIndexCheck::new(entries.to_vec());
            work(&mut check);
            check.finish().1
        };
        let mut open = OpenTxns::default();
        assert_eq!(open.pass(segment(&[], &|check| check.data(P, Offset(3)))), []);
        assert_eq!(open.pass(segment(&[], &|_| {})), []);
        let late = segment(&[entry(21, 25)], &|check| {
            check.data(P, Offset(21));
            check.abort(P, Offset(25));
        });
        assert_eq!(open.pass(late).len(), 1, "it begins at 3");
        // Records from before the log's start are not known.
        assert_eq!(open.pass(segment(&[], &|check| check.abort(P, Offset(30)))), []);
    }

    #[test]
    fn impossible_entries_are_wrong_without_a_log() {
        assert_eq!(judge_alone(Offset(0), &[entry(1, 2), entry(3, 5)]), []);
        for wrong in
            [&[entry(3, 2)][..], &[entry(1, 5), entry(1, 5)], &[AbortedTxn { version: 3, ..entry(1, 2) }]]
        {
            assert_eq!(judge_alone(Offset(0), wrong).len(), 1);
        }
        assert_eq!(judge_alone(Offset(9), &[entry(1, 2)]).len(), 1);
    }
}
