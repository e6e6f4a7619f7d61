//! The transactions of one segment, found by scanning it, and kept in the cache once it is sealed.
//!
//! A transaction index is no substitute: what it names can be checked against the markers, but a transaction that it lacks
//! can't be seen without reading the log, and would show records that were aborted. It is asked where the log can't be: an ABORT
//! marker in damaged bytes is known by its entry, and behind damage, in which a COMMIT may have been lost, the entry of a marker
//! says where its transaction began.
//!
//! As saved, big-endian: version (4), zeros (4), length of the file (8), smallest offset (8), the next segment's base (8), where the
//! scan ended (8), the offset expected there (8), then events.

use std::sync::Arc;

use zerocopy::byteorder::big_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::format::batch::Decoder;
use crate::format::index::{AbortedTxn, TxnIndex};
use crate::format::names::{self, FileType};
use crate::log::LogError;
use crate::log::files;
use crate::log::segment::Segment;
use crate::log::segment::scan::{Start, Step, Tail};
use crate::log::sidecar::{Sidecars, WORTH_SAVING};
use crate::log::transactions::events::{TxnEvent, TxnEventKind, TxnEvents};
use crate::units::{Offset, Position};

/// The name of the cache's entries.
const KIND: &str = "transactions";
const VERSION: u32 = 1;
/// The largest transaction index that is read.
const MAX_INDEX_BYTES: u64 = 64 * 1024 * 1024;

/// What a scan from some place to a segment's end found.
#[derive(Debug)]
pub(super) struct Scanned {
    /// What it found.
    pub(super) events: TxnEvents,
    /// Where it ended.
    pub(super) at: Start,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Stored {
    version: U32,
    zeros: U32,
    len: U64,
    lower: I64,
    below: I64,
    position: U64,
    expected: I64,
}

/// The transactions of a whole segment: those that were saved, or what a scan finds.
pub(super) fn whole(segment: &Arc<Segment>, sidecars: Option<&Sidecars>) -> Result<Scanned, LogError> {
    let sidecars = sidecars.filter(|_| !segment.is_active() && !segment.is_packed());
    let (file, len) = segment.open()?;
    let Some(sidecars) = sidecars.filter(|_| len >= WORTH_SAVING) else {
        return from(segment, segment.start()).map(|(scanned, _)| scanned);
    };
    let saved = sidecars.load(&file, KIND);
    if let Some(scanned) = saved.and_then(|payload| load(payload.bytes(), segment, len)) {
        return Ok(scanned);
    }
    let (scanned, is_clean) = from(segment, segment.start())?;
    if is_clean {
        let saved = sidecars.save(&file, KIND, &encode(&scanned, segment, len));
        if let Err(error) = saved {
            tracing::debug!(file = %segment.path.display(), %error, "transactions could not be saved");
        }
    }
    Ok(scanned)
}

/// Scans a segment from `start` to its end; also whether nothing of it was damaged.
pub(super) fn from(segment: &Arc<Segment>, start: Start) -> Result<(Scanned, bool), LogError> {
    let mut scanner = segment.scan(start)?;
    let mut decoder = Decoder::default();
    let mut events = TxnEvents::default();
    let mut index: Option<Vec<AbortedTxn>> = None;
    let mut expected = start.expected;
    let is_clean = loop {
        match scanner.step().map_err(|error| segment.error(error))? {
            Step::Batch { batch, .. } => {
                if let Some(index) = &index {
                    add_lost(index, segment, (expected, batch.header.first_known()), &mut events);
                }
                if let Some(event) = TxnEvent::of(&batch, &mut decoder, &segment.limits()) {
                    begin_as_indexed(index.as_deref().unwrap_or_default(), &event, &mut events);
                    events.add(event);
                }
                expected = batch.header.last_offset.next();
            }
            Step::Damage(_) => {
                index.get_or_insert_with(|| read_index(segment));
            }
            Step::End(tail) => break index.is_none() && tail == Tail::Clean,
        }
    };
    // An active segment's markers may be on their way. One that is sealed meanwhile is looked at again.
    let lost = if is_clean || !start.is_sealed() { Vec::new() } else { read_index(segment) };
    add_lost(&lost, segment, (expected, start.below), &mut events);
    Ok((Scanned { events, at: scanner.at() }, is_clean))
}

/// Adds the ABORT markers whose offsets lie in damage, from the first of `gap` to below the second, as far as what is known of
/// their transactions agrees.
fn add_lost(index: &[AbortedTxn], segment: &Segment, gap: (Offset, Offset), events: &mut TxnEvents) {
    for entry in index.iter().filter(|entry| entry.last_offset >= gap.0 && entry.last_offset < gap.1) {
        let agrees = match events.open_since(entry.producer_id) {
            Some(since) => since == entry.first_offset,
            None => entry.first_offset < segment.lower,
        };
        if agrees {
            events.add(event_of(entry, TxnEventKind::Abort, entry.last_offset));
        }
    }
}

/// Behind damage: ends a transaction whose COMMIT was lost, if the entry of an ABORT marker says that what it aborts began later.
fn begin_as_indexed(index: &[AbortedTxn], event: &TxnEvent, events: &mut TxnEvents) {
    if event.kind != TxnEventKind::Abort {
        return;
    }
    let is_its =
        |entry: &&AbortedTxn| entry.producer_id == event.producer && entry.last_offset == event.offset;
    let Some(entry) = index.iter().find(is_its) else { return };
    if events.open_since(event.producer).is_some_and(|since| since < entry.first_offset) {
        events.add(event_of(entry, TxnEventKind::Commit, entry.first_offset));
        events.add(event_of(entry, TxnEventKind::Data, entry.first_offset));
    }
}

const fn event_of(entry: &AbortedTxn, kind: TxnEventKind, offset: Offset) -> TxnEvent {
    let timestamp = crate::units::Timestamp::NONE;
    TxnEvent { kind, producer: entry.producer_id, epoch: -1, offset, timestamp }
}

/// The entries of a segment's transaction index, none if there is no such file.
fn read_index(segment: &Segment) -> Vec<AbortedTxn> {
    let name = segment.path.file_name().and_then(|name| name.to_str());
    let index = name.and_then(|name| names::SegmentFile::beside_log(name, FileType::TxnIndex));
    let path = index.map(|index| segment.path.with_file_name(index.to_string()));
    let bytes = path.and_then(|path| files::read_small(&path, MAX_INDEX_BYTES).ok()).unwrap_or_default();
    TxnIndex::new(&bytes).entries().collect()
}

fn encode(scanned: &Scanned, segment: &Segment, len: u64) -> Vec<u8> {
    let stored = Stored {
        version: VERSION.into(),
        zeros: 0.into(),
        len: len.into(),
        lower: segment.lower.0.into(),
        below: segment.below().0.into(),
        position: scanned.at.position.0.into(),
        expected: scanned.at.expected.0.into(),
    };
    [stored.as_bytes(), &scanned.events.encode()].concat()
}

/// What was saved, if it is of this segment between the same neighbours.
fn load(bytes: &[u8], segment: &Segment, len: u64) -> Option<Scanned> {
    let (stored, events) = Stored::ref_from_prefix(bytes).ok()?;
    let is_same = stored.version.get() == VERSION
        && stored.len.get() == len
        && stored.lower.get() == segment.lower.0
        && stored.below.get() == segment.below().0;
    let events = TxnEvents::decode(events).filter(|_| is_same)?;
    let (position, expected) = (Position(stored.position.get()), Offset(stored.expected.get()));
    Some(Scanned { events, at: Start::new(position, expected, segment.below()) })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::format::batch::Limits;
    use crate::log::files::{FileId, FilePool};
    use crate::log::segment::SegmentFile;

    #[test]
    fn markers_that_come_to_a_segment_that_is_sealed_while_it_is_scanned_are_not_lost_ones() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("00000000000000000010.log");
        let half = [10_i64.to_be_bytes().as_slice(), &100_i32.to_be_bytes(), &[0, 0, 0, 0, 2]].concat();
        std::fs::write(&path, half).unwrap();
        // Version 0; producer 7; from 3 to the marker at 12; the last stable offset.
        let numbers = [7_i64, 3, 12, 13].map(i64::to_be_bytes).concat();
        std::fs::write(path.with_extension("txnindex"), [&[0, 0], numbers.as_slice()].concat()).unwrap();
        let id = FileId::of(&std::fs::metadata(&path).unwrap());
        let file = SegmentFile { base: Offset(10), path, id, len: 17, changed: None, packing: None };
        let pool = Arc::new(FilePool::new(NonZeroUsize::MIN));
        let segment = Arc::new(Segment::new(file, Offset(10), Offset(i64::MAX), pool, Limits::default()));
        let markers = |start| from(&segment, start).unwrap().0.events.iter().count();
        let start = segment.start();
        segment.set_below(Offset(20));
        assert_eq!(markers(start), 0);
        assert_eq!(markers(segment.start()), 1);
    }
}
