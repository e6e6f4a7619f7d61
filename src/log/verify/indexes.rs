//! The indexes of one segment: read before its log, told about after it.

use std::path::Path;

use crate::format::index::AbortedTxn;
use crate::format::names::FileType;
use crate::log::problem::{Kind, Problem};
use crate::log::segment::Segment;
use crate::log::verify::found::Found;
use crate::log::verify::index_file::{IndexFile, are_joined, beside, wrong_txn};
use crate::log::verify::offset_index::OffsetIndexCheck;
use crate::log::verify::time_index::TimeIndexCheck;
use crate::log::verify::txn_index::{self, TxnIndexCheck, WrongTxn};
use crate::units::{Offset, Position, Timestamp};

/// The indexes that a segment has.
pub(super) struct Indexes {
    /// The base offset that their entries are relative to; unknown where people have renamed the log.
    base: Option<Offset>,
    offsets: Option<IndexFile>,
    times: Option<IndexFile>,
    transactions: Option<IndexFile>,
    /// Whether they are in one file of a tiered store, which is not read.
    are_joined: bool,
}

/// A log after it was read.
pub(super) struct LogSeen<'a> {
    pub(super) segment: &'a Segment,
    pub(super) len: u64,
    /// The offset after its last batch.
    pub(super) next: Offset,
    pub(super) ends_clean: bool,
    pub(super) has_timestamps: bool,
    /// Whether segments of the partition have time indexes at all.
    pub(super) has_time_indexes: bool,
}

impl LogSeen<'_> {
    fn is_sealed(&self) -> bool {
        !self.segment.is_active()
    }
}

impl Indexes {
    pub(super) fn read(segment: &Segment, found: &mut Found) -> Self {
        let base = base_of(&segment.path);
        let mut read = |file_type| {
            base?;
            IndexFile::read(&beside(&segment.path, file_type), file_type).unwrap_or_else(|problem| {
                found.add(problem);
                None
            })
        };
        Self {
            base,
            offsets: read(FileType::OffsetIndex),
            times: read(FileType::TimeIndex),
            transactions: read(FileType::TxnIndex),
            are_joined: are_joined(&segment.path),
        }
    }

    /// Whether it is known what their entries are relative to.
    pub(super) const fn are_known(&self) -> bool {
        self.base.is_some()
    }

    /// The check of the offset index.
    pub(super) fn check_offsets(&self) -> OffsetIndexCheck<'_> {
        let base = self.base.unwrap_or_default();
        OffsetIndexCheck::new(base, self.offsets.as_ref().map_or(&[], |index| index.offsets(base)))
    }

    /// The check of the time index.
    pub(super) fn check_times(&self) -> TimeIndexCheck<'_> {
        let base = self.base.unwrap_or_default();
        TimeIndexCheck::new(base, self.times.as_ref().map_or(&[], |index| index.times(base)))
    }

    /// The check of the transaction index.
    pub(super) fn check_transactions(&self) -> TxnIndexCheck {
        TxnIndexCheck::new(self.aborted())
    }

    fn aborted(&self) -> Vec<AbortedTxn> {
        self.transactions.iter().flat_map(|index| index.transactions().entries()).collect()
    }

    /// Tells about the offset index; whether it shows that the log was longer once.
    pub(super) fn tell_offsets(
        &self,
        log: &LogSeen<'_>,
        check: OffsetIndexCheck<'_>,
        found: &mut Found,
    ) -> bool {
        let Some(index) = &self.offsets else { return false };
        found.extend(index.part_of_entry(Kind::Index));
        let (used, unused) = (index.used(), index.unused());
        if log.is_sealed() && used == 0 && unused > 1 {
            let cause =
                format!("all {unused} entries are zeros: each look-up reads the segment from its start");
            found.add(index.entries(Kind::Index, 0, unused - 1, cause));
        } else if log.is_sealed() && used > 0 && unused > 0 {
            let cause = format!("{unused} unused entries; a broker cuts them off when it seals a segment");
            found.add(index.entries(Kind::Preallocated, used, used + unused - 1, cause));
        }
        let verdict = check.finish(log.len, log.next);
        found.extend(index.wrong(Kind::Index, verdict.wrong));
        let Some((position, offset)) = verdict.beyond else { return false };
        if log.ends_clean {
            let next = log.next;
            let cause = format!(
                "the log ends before offset {next}, its index knows of {offset} at position {position}"
            );
            let problem = Problem::of_file(&log.segment.path, Kind::LostEnd, cause);
            found.add(problem.at(Position(log.len), 0).about(next));
        }
        true
    }

    /// Tells about the time index.
    pub(super) fn tell_times(&self, log: &LogSeen<'_>, check: TimeIndexCheck<'_>, found: &mut Found) {
        let Some(index) = &self.times else { return };
        found.extend(index.part_of_entry(Kind::TimeIndex));
        let (used, unused) = (index.used(), index.unused());
        // Zeros are also the entry of the time 0 at the first offset, if there was no later one.
        let is_first_of_all = (used, unused, check.largest()) == (0, 1, Timestamp(0));
        if log.is_sealed() && unused > 0 && !is_first_of_all {
            let cause = format!(
                "{unused} entries are zeros: the last one stands for the segment's largest timestamp, \
                 so look-ups by time pass over it and retention takes it for old"
            );
            found.add(index.entries(Kind::TimeIndex, used, used + unused - 1, cause));
        } else if log.is_sealed()
            && let Some((last, largest)) = check.falls_short()
        {
            let cause = format!(
                "its last timestamp is {last}, the segment's largest is {largest}: \
                 look-ups between the two pass over it"
            );
            found.add(index.entries(Kind::TimeIndex, used - 1, used - 1, cause));
        }
        found.extend(index.wrong(Kind::TimeIndex, check.finish()));
    }

    /// Tells about the transaction index, and what is missing in it; it need not be there.
    pub(super) fn tell_transactions(&self, log: &LogSeen<'_>, wrong: Vec<WrongTxn>, found: &mut Found) {
        if self.are_joined {
            return;
        }
        let Some(index) = &self.transactions else {
            let path = beside(&log.segment.path, FileType::TxnIndex);
            found.extend(wrong.into_iter().map(|wrong| wrong_txn(&path, 0, wrong)));
            return;
        };
        found.extend(index.part_of_entry(Kind::TxnIndex));
        if index.unused() > 0 {
            let (used, unused) = (index.used(), index.unused());
            let cause = format!("{unused} entries are zeros");
            found.add(index.entries(Kind::TxnIndex, used, used + unused - 1, cause));
        }
        found
            .extend(index.wrong_txns(txn_index::judge_alone(self.base.unwrap_or_default(), &self.aborted())));
        found.extend(index.wrong_txns(wrong));
    }

    /// Tells about indexes that are not there, or have nothing in them.
    pub(super) fn tell_missing(&self, log: &LogSeen<'_>, found: &mut Found) {
        if self.are_joined || !self.are_known() {
            return;
        }
        let mut tell = |file_type, cause| {
            found.add(Problem::of_file(&beside(&log.segment.path, file_type), Kind::Missing, cause));
        };
        // Both get their entries at the same time, but for one that the time index gets at the end and at each restart.
        let has_times = self.times.as_ref().is_some_and(|times| times.used() > 3);
        match &self.offsets {
            None if log.len > 0 => {
                let cause = "there is no such file; a broker that starts makes it from the log";
                tell(FileType::OffsetIndex, cause);
            }
            Some(index) if index.is_empty() && has_times && log.is_sealed() => {
                let cause = "it is empty, the time index has many entries: each look-up reads the segment from its start";
                tell(FileType::OffsetIndex, cause);
            }
            _ => {}
        }
        match &self.times {
            None if log.has_timestamps && log.has_time_indexes => {
                tell(FileType::TimeIndex, "there is no such file; a broker that starts makes an empty one");
            }
            Some(index) if index.is_empty() && log.has_timestamps && log.is_sealed() => {
                let cause = "it is empty: a broker takes the time of the file for that of its last record";
                tell(FileType::TimeIndex, cause);
            }
            _ => {}
        }
    }
}

/// The base offset that a log's name begins with; tiered storage adds an id behind it.
fn base_of(log: &Path) -> Option<Offset> {
    let name = log.file_name()?.to_str()?;
    let digits = name.get(..20).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    digits.parse().ok().map(Offset)
}
