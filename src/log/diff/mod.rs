//! Two copies of a partition, compared record by record: where they part, which records only one of them has, and what a follower would
//! cut if the other one led.
//!
//! Batches that are the same bytes are not decoded. Segments may begin elsewhere, and one copy may be compacted further: what one
//! of them lacks between its start and its end, in front of the place where they part, is told apart. Only reads; brokers may run.

mod cursor;
pub mod exchange;

use crate::format::names;
use crate::log::LogError;
use crate::log::append::recovery::files::read_epochs;
use crate::log::derived::epochs::Epochs;
use crate::log::partition::{Origin, Partition};
use crate::units::{LeaderEpoch, Offset};
use cursor::{Content, Cursor};
use exchange::{OnPaper, Replica};

/// What two copies have in common, and what not.
#[derive(Debug)]
pub struct Comparison {
    /// The first copy, then the second.
    pub copies: [Copy; 2],
    /// What both have.
    pub same: Count,
    /// Where they part.
    pub parting: Option<Parting>,
    /// What the first would cut if the second led, and the other way round.
    pub on_paper: [OnPaper; 2],
}

/// Where two copies part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parting {
    /// The first offset whose records differ, or where one of them ends.
    pub offset: Offset,
    /// The epochs of the records there; `None` in one that ends there.
    pub epochs: [Option<LeaderEpoch>; 2],
}

/// One of two copies.
#[derive(Debug)]
pub struct Copy {
    /// Its log start offset.
    pub start: Offset,
    /// Its log end offset.
    pub end: Offset,
    /// Its high watermark, where that is checkpointed.
    pub high_watermark: Option<Offset>,
    /// Its leader epochs: those of its checkpoint, else those that its batches have.
    pub epochs: Epochs,
    /// What it alone has from the parting on.
    pub only: Count,
    /// What the other lacks in front of that, though it begins before: compaction or damage took it there.
    pub lacking_in_other: Count,
    /// What the other lacks because it begins later.
    pub in_front_of_other: Count,
    /// Damaged places in it.
    pub damaged: u64,
}

/// Records, and where they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Records, control records not among them.
    pub records: u64,
    /// Control records.
    pub control_records: u64,
    /// The first and the last offset.
    pub offsets: Option<(Offset, Offset)>,
}

impl Count {
    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.records == 0 && self.control_records == 0
    }

    fn add(&mut self, content: &Content) {
        if content.records == 0 {
            return;
        }
        if content.is_control {
            self.control_records += content.records;
        } else {
            self.records += content.records;
        }
        let first = self.offsets.map_or(content.first, |(first, _)| first);
        self.offsets = Some((first, content.last));
    }
}

impl Comparison {
    /// Reads both copies.
    ///
    /// # Errors
    /// Those of reading.
    pub fn new(a: &Partition, b: &Partition) -> Result<Self, LogError> {
        let mut cursors = [Cursor::new(a)?, Cursor::new(b)?];
        let mut comparison = Self {
            copies: [Copy::of(a)?, Copy::of(b)?],
            same: Count::default(),
            parting: None,
            on_paper: [OnPaper::default(), OnPaper::default()],
        };
        comparison.read(&mut cursors)?;
        for (copy, (cursor, partition)) in comparison.copies.iter_mut().zip(cursors.into_iter().zip([a, b])) {
            copy.damaged = cursor.damaged;
            copy.epochs = epochs(partition, cursor, copy.start, copy.end);
        }
        let [one, other] = &comparison.copies;
        comparison.on_paper = [
            exchange::truncation(&one.replica(), &other.replica()),
            exchange::truncation(&other.replica(), &one.replica()),
        ];
        Ok(comparison)
    }

    /// Whether both have the same records.
    pub fn are_equal(&self) -> bool {
        let is_equal = |copy: &Copy| {
            copy.only.is_empty() && copy.lacking_in_other.is_empty() && copy.in_front_of_other.is_empty()
        };
        self.parting.is_none() && self.copies.iter().all(is_equal)
    }

    /// Where they part, if a follower that cuts so keeps records that its leader has others of: both wrote in one epoch, which the
    /// exchange can't tell apart.
    pub fn hidden_from(&self, on_paper: &OnPaper) -> Option<Offset> {
        let parting = self.parting.filter(|parting| !parting.epochs.contains(&None))?;
        (on_paper.to > parting.offset).then_some(parting.offset)
    }

    fn read(&mut self, cursors: &mut [Cursor; 2]) -> Result<(), LogError> {
        loop {
            let [a, b] = &mut *cursors;
            let which = match (a.bounds()?, b.bounds()?) {
                (None, None) => return Ok(()),
                (Some(_), None) => 0,
                (None, Some(_)) => 1,
                (Some(a), Some(b)) if a.1 < b.0 => 0,
                (Some(a), Some(b)) if b.1 < a.0 => 1,
                (Some(_), Some(_)) => {
                    self.read_both(a, b)?;
                    continue;
                }
            };
            let cursor = if which == 0 { a } else { b };
            if let Some(content) = cursor.take() {
                self.only_in(which, &content);
            }
        }
    }

    /// Goes over what lies at the same offsets in both.
    fn read_both(&mut self, a: &mut Cursor, b: &mut Cursor) -> Result<(), LogError> {
        if a.is_same_batch(b) {
            if let (Some(content), Some(_)) = (a.take(), b.take()) {
                self.same.add(&content);
            }
            return Ok(());
        }
        a.decode()?;
        b.decode()?;
        while let (Some(one), Some(other)) = (a.record(), b.record()) {
            if one.first < other.first {
                a.take();
                self.only_in(0, &one);
            } else if other.first < one.first {
                b.take();
                self.only_in(1, &other);
            } else {
                a.take();
                b.take();
                if one.hash == other.hash && one.epoch == other.epoch {
                    self.same.add(&one);
                } else {
                    self.part(one.first, [one.epoch, other.epoch]);
                    self.only_in(0, &one);
                    self.only_in(1, &other);
                }
            }
        }
        Ok(())
    }

    fn part(&mut self, offset: Offset, epochs: [Option<LeaderEpoch>; 2]) {
        self.parting.get_or_insert(Parting { offset, epochs });
    }

    /// Counts what only one of them has.
    fn only_in(&mut self, which: usize, content: &Content) {
        let other = match which {
            0 => &self.copies[1],
            _ => &self.copies[0],
        };
        let (start, end) = (other.start, other.end);
        if content.first >= end && content.records > 0 {
            let epochs = if which == 0 { [content.epoch, None] } else { [None, content.epoch] };
            self.part(end, epochs);
        }
        let has_parted = self.parting.is_some();
        let Some(copy) = self.copies.get_mut(which) else { return };
        match () {
            () if content.last < start => copy.in_front_of_other.add(content),
            () if has_parted => copy.only.add(content),
            () => copy.lacking_in_other.add(content),
        }
    }
}

impl Copy {
    fn of(partition: &Partition) -> Result<Self, LogError> {
        Ok(Self {
            start: partition.log_start()?,
            end: partition.log_end()?,
            high_watermark: partition.high_watermark(),
            epochs: Epochs::default(),
            only: Count::default(),
            lacking_in_other: Count::default(),
            in_front_of_other: Count::default(),
            damaged: 0,
        })
    }

    fn replica(&self) -> Replica<'_> {
        let Self { start, end, high_watermark, ref epochs, .. } = *self;
        Replica { start, end, high_watermark, epochs }
    }
}

/// The epochs of a copy that was read.
fn epochs(partition: &Partition, cursor: Cursor, start: Offset, end: Offset) -> Epochs {
    if let Origin::Directory(directory) = &partition.origin
        && directory.join(names::LEADER_EPOCHS).exists()
    {
        let stored = read_epochs(directory);
        if stored.latest().is_some() {
            return stored;
        }
    }
    cursor.epochs.finish(start, end)
}
