//! What salvage kept and what it left.

use std::path::PathBuf;

use crate::units::{Offset, ProducerId, TopicPartition};

/// All of a source.
#[derive(Debug, Default)]
pub struct Report {
    /// Partitions in the order of their names.
    pub partitions: Vec<PartitionReport>,
    /// Replicas and files of data directories that were not taken, and why.
    pub left_out: Vec<LeftOut>,
}

/// One partition.
#[derive(Debug, Clone)]
pub struct PartitionReport {
    /// Topic and number.
    pub partition: TopicPartition,
    /// Where it was read.
    pub source: PathBuf,
    /// Where it was written.
    pub directory: PathBuf,
    /// What was kept.
    pub kept: Kept,
    /// The first offset that readers see.
    pub log_start: Offset,
    /// The offset of the next record.
    pub log_end: Offset,
    /// The high watermark that was kept.
    pub high_watermark: Option<Offset>,
    /// Whether the log start must be written down, as it isn't the first segment's base.
    pub has_checkpoint: bool,
    /// What was left, the first pieces of it.
    pub left: Vec<Left>,
    /// How many more pieces were left, and how many bytes they have.
    pub more_left: (u64, u64),
    /// Transactions without an end, oldest first: where they begin and whose they are.
    pub open: Vec<(Offset, ProducerId)>,
    /// What is odd, and lost nothing that can be named.
    pub notes: Vec<String>,
}

/// Counts of what was kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Segments written.
    pub segments: u64,
    /// Batches; of message sets, each wrapper or single message.
    pub batches: u64,
    /// Records, control records among them.
    pub records: u64,
    /// Bytes in `.log` files.
    pub bytes: u64,
    /// The first and the last offset.
    pub offsets: Option<(Offset, Offset)>,
    /// Offsets between the first and the last that no batch covers.
    pub absent: u64,
}

/// Something that was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The file's name.
    pub file: String,
    /// Where in the file, in bytes.
    pub position: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Which offsets may have been in it; `None` when all that could be there are kept.
    pub offsets: Option<Offsets>,
    /// Why.
    pub cause: String,
}

/// A range of offsets, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// The first.
    pub first: Offset,
    /// The last, `None` at the end of a log, where nobody knows.
    pub last: Option<Offset>,
}

/// A replica or a file of a data directory that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Which.
    pub path: PathBuf,
    /// Its name in the tree, as in `orders/0.stray`, for what can be named to be taken.
    pub name: Option<String>,
    /// Why.
    pub cause: String,
    /// Whether something is lost by it.
    pub weight: Weight,
}

/// Whether something that wasn't taken counts as a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// It is there by intent, or holds nothing.
    Harmless,
    /// Something of the source is not in the result.
    Loss,
}

impl Report {
    /// Whether everything that was asked for was kept.
    pub fn is_whole(&self) -> bool {
        self.partitions.iter().all(|partition| partition.left.is_empty())
            && self.left_out.iter().all(|left| left.weight == Weight::Harmless)
    }

    /// The sum of what was kept.
    pub fn kept(&self) -> Kept {
        let mut sum = Kept::default();
        for kept in self.partitions.iter().map(|partition| partition.kept) {
            sum.segments += kept.segments;
            sum.batches += kept.batches;
            sum.records += kept.records;
            sum.bytes += kept.bytes;
            sum.absent += kept.absent;
        }
        sum
    }

    /// How many pieces were left, and how many bytes they have.
    pub fn left(&self) -> (u64, u64) {
        let listed = self.partitions.iter().flat_map(|partition| &partition.left).map(|left| (1, left.bytes));
        let more = self.partitions.iter().map(|partition| partition.more_left);
        listed.chain(more).fold((0, 0), |sum, (pieces, bytes)| (sum.0 + pieces, sum.1 + bytes))
    }
}
