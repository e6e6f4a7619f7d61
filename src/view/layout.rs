//! What measuring keeps of a segment: blocks, and where each begins in each rendered form.
//!
//! A block is a few consecutive batches: as many as weigh no more than [`BLOCK_WEIGHT`], or one that weighs more. Its
//! bounds depend on the source alone, so every format shares them.
//!
//! As saved (see [`crate::log::sidecar`] for what is around it), all integers big-endian:
//!
//! ```text
//! 0   4   version of this layout       4   4  number of blocks      8   4  number of columns
//! 12  4   unused                       16  8  source bytes looked at
//! 24      blocks of 64 bytes, then for each column: 8 bytes fingerprint, then 8 bytes for each block
//! ```

use zerocopy::byteorder::big_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::batch::Batch;
use crate::format::record::Record;
use crate::units::{Offset, Position, Timestamp};
use crate::view::format::Format;

/// The most that the batches of a block weigh together. Payload bytes, [`RECORD_WEIGHT`] for each record and [`BATCH_WEIGHT`]
/// for each batch: that keeps a block's output below 256 KiB in every format, unless most of its characters need JSON
/// escapes, or a user's template has long texts or a field several times. Batches without visible records weigh what their bytes are, as some formats show them too.
pub const BLOCK_WEIGHT: u64 = 144 * 1024;
/// What a record weighs besides its payload.
pub const RECORD_WEIGHT: u64 = 96;
/// What a batch weighs besides its records: most of the length of its line in a dump.
pub const BATCH_WEIGHT: u64 = 224;

const VERSION: u32 = 2;

/// One block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Block {
    /// Where its first batch begins.
    position: U64,
    /// Where its last batch ends.
    end: U64,
    /// The first batch's base offset, or a lower bound of it.
    base: I64,
    /// The last batch's last offset.
    last: I64,
    /// Records up to its end, counted from the run's start.
    records_end: U64,
    /// The smallest timestamp of its records.
    min_timestamp: I64,
    /// The largest.
    max_timestamp: I64,
    /// [`Block::AFTER_DAMAGE`].
    flags: U32,
    /// Unused, 0; keeps the size a multiple of 8.
    reserved: U32,
}
const _: () = assert!(size_of::<Block>() == 64);

impl Block {
    /// Set when bytes before it in its segment were not readable.
    pub const AFTER_DAMAGE: u32 = 1;

    /// Where it begins and ends in its segment.
    pub fn span(&self) -> (u64, u64) {
        (self.position.get(), self.end.get())
    }

    /// A lower bound of its offsets.
    pub fn base(&self) -> Offset {
        Offset(self.base.get())
    }

    /// The last offset that it covers.
    pub fn last(&self) -> Offset {
        Offset(self.last.get())
    }

    /// Records up to its end, counted from the run's start.
    pub fn records_end(&self) -> u64 {
        self.records_end.get()
    }

    /// Whether each of its offsets has its record, with `before` records in front of it: then nothing is to be read to count them.
    pub fn is_dense(&self, before: u64) -> bool {
        let offsets = self.last.get().checked_sub(self.base.get()).and_then(|less| u64::try_from(less).ok());
        offsets.is_some_and(|less| self.records_end.get().checked_sub(before) == less.checked_add(1))
    }

    /// The smallest and the largest timestamp of its records; `None` when there are no records.
    pub fn timestamps(&self) -> Option<(Timestamp, Timestamp)> {
        let (min, max) = (self.min_timestamp.get(), self.max_timestamp.get());
        (min <= max).then_some((Timestamp(min), Timestamp(max)))
    }

    /// Whether it is `before` and perhaps more.
    fn begins_with(&self, before: &Self) -> bool {
        let begins = (self.position, self.base, self.flags) == (before.position, before.base, before.flags);
        begins && self.end.get() >= before.end.get() && self.last.get() >= before.last.get()
    }

    /// Whether bytes before it were not readable.
    pub fn is_after_damage(&self) -> bool {
        self.flags.get() & Self::AFTER_DAMAGE != 0
    }
}

/// What one batch adds to its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchTotals {
    /// Where it begins and ends.
    pub span: (Position, Position),
    /// Its first and last offset.
    pub offsets: (Offset, Offset),
    /// Visible records.
    pub records: u64,
    /// What it weighs.
    pub weight: u64,
    /// The smallest and the largest timestamp, the wrong way round when there are no records.
    pub timestamps: (i64, i64),
    /// Bytes of output.
    pub output: u64,
}

impl BatchTotals {
    /// Nothing yet.
    pub const fn new(span: (Position, Position), offsets: (Offset, Offset)) -> Self {
        Self { span, offsets, records: 0, weight: BATCH_WEIGHT, timestamps: (i64::MAX, i64::MIN), output: 0 }
    }

    /// Adds a batch none of whose records are visible.
    pub fn add_hidden(&mut self, batch: &Batch<'_>) {
        let records = u64::from(batch.header.record_count.unwrap_or(1));
        self.weight =
            self.weight.saturating_add(batch.bytes.len() as u64).saturating_add(records * RECORD_WEIGHT);
    }

    /// Adds a visible record that renders as `output` bytes.
    #[inline]
    pub fn add(&mut self, record: &Record<'_>, output: u64) {
        let bytes = record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len);
        self.records += 1;
        self.weight = self.weight.saturating_add(bytes as u64 + RECORD_WEIGHT);
        let timestamp = record.timestamp.0;
        self.timestamps = (self.timestamps.0.min(timestamp), self.timestamps.1.max(timestamp));
        self.output = self.output.saturating_add(output);
    }
}

/// A block that batches are still added to.
#[derive(Debug, Clone, Copy)]
pub struct Building {
    totals: BatchTotals,
    after_damage: bool,
}

impl Building {
    /// A block that begins with `first`.
    pub const fn new(first: BatchTotals, after_damage: bool) -> Self {
        Self { totals: first, after_damage }
    }

    /// Whether `next` still fits.
    pub const fn fits(&self, next: &BatchTotals) -> bool {
        self.totals.weight.saturating_add(next.weight) <= BLOCK_WEIGHT
            && self.totals.span.1.0 == next.span.0.0
    }

    /// Adds `next`.
    pub fn add(&mut self, next: &BatchTotals) {
        let totals = &mut self.totals;
        totals.span.1 = next.span.1;
        totals.offsets.1 = next.offsets.1;
        totals.records += next.records;
        totals.weight = totals.weight.saturating_add(next.weight);
        totals.timestamps.0 = totals.timestamps.0.min(next.timestamps.0);
        totals.timestamps.1 = totals.timestamps.1.max(next.timestamps.1);
        totals.output = totals.output.saturating_add(next.output);
    }

    /// The block and its length of output, with `records_before` records before it.
    pub fn finish(&self, records_before: u64) -> (Block, u64) {
        let totals = &self.totals;
        let block = Block {
            position: totals.span.0.0.into(),
            end: totals.span.1.0.into(),
            base: totals.offsets.0.0.into(),
            last: totals.offsets.1.0.into(),
            records_end: records_before.saturating_add(totals.records).into(),
            min_timestamp: totals.timestamps.0.into(),
            max_timestamp: totals.timestamps.1.into(),
            flags: if self.after_damage { Block::AFTER_DAMAGE } else { 0 }.into(),
            reserved: 0.into(),
        };
        (block, totals.output)
    }
}

/// The blocks of a run and, for each format that was asked for, where each ends in the output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The blocks in order.
    pub blocks: Vec<Block>,
    columns: Vec<Column>,
}

/// The ends of blocks in one format, for as many blocks as were measured in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    format: Format,
    ends: Vec<u64>,
    /// The last of these blocks as it was when it was measured, if it has grown since.
    grown: Option<Block>,
}

impl Column {
    /// How many blocks are measured as they are now.
    fn measured(&self) -> usize {
        self.ends.len() - usize::from(self.grown.is_some())
    }

    /// Forgets the blocks from `index` on.
    fn forget(&mut self, index: usize) {
        if self.ends.len() > index {
            self.ends.truncate(index);
            self.grown = None;
        }
    }
}

impl Layout {
    /// How many blocks were measured in `format`; without one, how many are known.
    pub fn measured(&self, format: Option<Format>) -> usize {
        match format {
            Some(format) => self.column(format).map_or(0, Column::measured),
            None => self.blocks.len(),
        }
    }

    /// Bytes of output that were measured in `format`.
    pub fn output(&self, format: Format) -> u64 {
        self.column(format).and_then(|column| column.ends.last()).copied().unwrap_or(0)
    }

    /// Where block `index` begins in the output.
    pub fn output_before(&self, format: Format, index: usize) -> u64 {
        let ends = self.column(format).map_or(&[][..], |column| &column.ends);
        index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0)
    }

    /// The measured block that holds byte `at` of the output.
    pub fn at_output(&self, format: Format, at: u64) -> Option<usize> {
        let ends = &self.column(format)?.ends;
        let index = ends.partition_point(|end| *end <= at);
        (index < ends.len()).then_some(index)
    }

    /// The first block whose last offset is `offset` or more.
    pub fn at_offset(&self, offset: Offset) -> usize {
        self.blocks.partition_point(|block| block.last() < offset)
    }

    /// Records before block `index`.
    pub fn records_before(&self, index: usize) -> u64 {
        index.checked_sub(1).and_then(|before| self.blocks.get(before)).map_or(0, Block::records_end)
    }

    /// Block `index` as far as it is measured in `format`.
    pub fn measured_block(&self, format: Format, index: usize) -> Option<Block> {
        let column = self.column(format)?;
        match column.grown.filter(|_| index == column.measured()) {
            Some(before) => Some(before),
            None => self.blocks.get(index).copied().filter(|_| index < column.measured()),
        }
    }

    /// Adds the output length of the next block in `format`.
    pub fn push_output(&mut self, format: Format, len: u64) {
        let end = self.output_before(format, self.measured(Some(format))).saturating_add(len);
        match self.columns.iter_mut().find(|column| column.format == format) {
            Some(column) => {
                column.ends.truncate(column.measured());
                column.grown = None;
                column.ends.push(end);
            }
            None => self.columns.push(Column { format, ends: vec![end], grown: None }),
        }
    }

    /// Puts `blocks` in the place of those from `index` on, of which there is one at most: it may have grown. What was known of its
    /// output stays known, so that nobody who looks meanwhile sees less than before.
    pub fn replace(&mut self, index: usize, blocks: &[Building], format: Option<Format>) {
        let old = self.blocks.get(index).copied();
        self.blocks.truncate(index);
        let mut outputs = Vec::with_capacity(blocks.len());
        for building in blocks {
            let (block, output) = building.finish(self.records_before(self.blocks.len()));
            self.blocks.push(block);
            outputs.push(output);
        }
        let new = self.blocks.get(index);
        let grown = old.filter(|old| new.is_some_and(|new| new.begins_with(old)));
        for column in self.columns.iter_mut().filter(|column| column.ends.len() > index) {
            match grown.filter(|_| Some(column.format) != format) {
                Some(old) => column.grown = column.grown.or(Some(old)),
                None => column.forget(index),
            }
        }
        if let Some(format) = format {
            outputs.into_iter().for_each(|output| self.push_output(format, output));
        }
    }

    fn column(&self, format: Format) -> Option<&Column> {
        self.columns.iter().find(|column| column.format == format)
    }

    /// In how many formats all blocks were measured.
    pub fn complete_columns(&self) -> usize {
        self.columns.iter().filter(|column| column.measured() == self.blocks.len()).count()
    }

    /// The bytes to save: complete columns only, of formats that have a fingerprint; `source_len` is how much of the file they cover.
    pub fn encode(&self, source_len: u64, fingerprints: &[(Format, u32)]) -> Vec<u8> {
        let complete: Vec<_> = self.columns.iter().filter(|c| c.measured() == self.blocks.len()).collect();
        let of = |format| fingerprints.iter().find(|(own, _)| *own == format).map(|(_, number)| *number);
        let complete: Vec<_> = complete.into_iter().filter_map(|c| Some((of(c.format)?, c))).collect();
        let (blocks, columns) = (count(self.blocks.len()), count(complete.len()));
        let mut out = Vec::with_capacity(24 + self.blocks.len() * (64 + 8 * complete.len()));
        for word in [VERSION, blocks, columns, 0] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(&source_len.to_be_bytes());
        out.extend_from_slice(self.blocks.as_bytes());
        for (fingerprint, column) in complete {
            out.extend_from_slice(&u64::from(fingerprint).to_be_bytes());
            for end in &column.ends {
                out.extend_from_slice(&end.to_be_bytes());
            }
        }
        out
    }

    /// What [`Self::encode`] made, with the source bytes covered; `None` for anything else. Columns whose fingerprint is none of
    /// today's formats are left out.
    pub fn decode(bytes: &[u8], fingerprints: &[(Format, u32)]) -> Option<(Self, u64)> {
        let (words, rest) = <[U32; 4]>::ref_from_prefix(bytes).ok()?;
        let (source_len, rest) = U64::ref_from_prefix(rest).ok()?;
        let [version, blocks, columns, _] = words.map(U32::get);
        if version != VERSION {
            return None;
        }
        let blocks = usize::try_from(blocks).ok()?;
        let (blocks, mut rest) = <[Block]>::ref_from_prefix_with_elems(rest, blocks).ok()?;
        let mut layout = Self { blocks: blocks.to_vec(), columns: Vec::new() };
        for _ in 0..columns {
            let (key, after) = U64::ref_from_prefix(rest).ok()?;
            let (ends, after) = <[U64]>::ref_from_prefix_with_elems(after, blocks.len()).ok()?;
            if let Some((format, _)) = fingerprints.iter().find(|(_, own)| u64::from(*own) == key.get()) {
                let ends = ends.iter().map(|end| end.get()).collect();
                layout.columns.push(Column { format: *format, ends, grown: None });
            }
            rest = after;
        }
        layout.is_ordered().then_some((layout, source_len.get()))
    }

    fn is_ordered(&self) -> bool {
        let blocks = self.blocks.windows(2).all(|pair| match pair {
            [a, b] => a.end <= b.position && a.last < b.last && a.records_end <= b.records_end,
            _ => true,
        });
        let spans = self.blocks.iter().all(|block| block.position < block.end);
        blocks && spans && self.columns.iter().all(|column| column.ends.is_sorted())
    }
}

/// A number of bytes in memory; one that is too large for that reaches no byte.
pub(super) fn to_index(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(blocks: u64) -> Layout {
        let mut layout = Layout::default();
        for n in 0..blocks {
            let span = (Position(n * 100), Position(n * 100 + 100));
            let base = Offset(i64::try_from(n).unwrap() * 10);
            let mut totals = BatchTotals::new(span, (base, base.plus(9)));
            totals.records = 10;
            totals.output = 7;
            let (block, len) = Building::new(totals, n == 3).finish(n * 10);
            layout.blocks.push(block);
            layout.push_output(Format::Text, len);
        }
        layout
    }

    #[test]
    fn what_is_saved_is_read_back_and_nothing_else_is() {
        let fingerprint = &[(Format::Jsonl, 0), (Format::Text, 1)];
        let layout = layout(5);
        let bytes = layout.encode(500, fingerprint);
        assert_eq!(Layout::decode(&bytes, fingerprint), Some((layout.clone(), 500)));
        for len in 0..bytes.len() {
            assert_eq!(Layout::decode(&bytes[..len], fingerprint), None, "cut at {len}");
        }
        let (without, _) = Layout::decode(&bytes, &[(Format::Text, 77)]).unwrap();
        assert_eq!((without.blocks.len(), without.measured(Some(Format::Text))), (5, 0));
    }

    #[test]
    fn a_block_is_dense_only_if_each_offset_has_its_record() {
        let block = layout(2).blocks[1];
        assert!(block.is_dense(10));
        assert!(!block.is_dense(9) && !block.is_dense(11) && !block.is_dense(21));
        let all = Block { base: i64::MIN.into(), last: i64::MAX.into(), ..block };
        assert!(!all.is_dense(10));
    }

    #[test]
    fn bytes_and_offsets_find_their_blocks() {
        let layout = layout(5);
        assert_eq!(layout.at_output(Format::Text, 0), Some(0));
        assert_eq!(layout.at_output(Format::Text, 6), Some(0));
        assert_eq!(layout.at_output(Format::Text, 7), Some(1));
        assert_eq!(layout.at_output(Format::Text, 35), None);
        assert_eq!(layout.at_output(Format::Jsonl, 0), None);
        assert_eq!(
            (layout.at_offset(Offset(9)), layout.at_offset(Offset(10)), layout.at_offset(Offset(50))),
            (0, 1, 5)
        );
        assert_eq!((layout.records_before(0), layout.records_before(2)), (0, 20));
        assert!(layout.blocks[3].is_after_damage() && !layout.blocks[2].is_after_damage());
    }
}
