//! `.index`, `.timeindex`, `.txnindex`: the usable part and look-ups, by a loop over the entries.

use topicfs::format::index::{
    IndexEnd, OFFSET_ENTRY_LEN, OffsetIndex, TIME_ENTRY_LEN, TXN_ENTRY_LEN, TimeIndex, TxnIndex,
};
use topicfs::units::{Offset, Timestamp};

use crate::oracle::number;

/// Splits an input into a number to begin with, a number to look for, and the file.
fn split(data: &[u8]) -> Option<(i64, i64, &[u8])> {
    let (head, file) = data.split_first_chunk::<6>()?;
    // Bases near the end of the range too: relative offsets must not overflow.
    let base = if head[0] == 0xff { i64::MAX - i64::from(head[1]) } else { number(&head[..3]) };
    Some((base, number(&head[3..]), file))
}

/// How a usable part of `used` entries ends, by the file's bytes.
fn end(file: &[u8], entry_len: usize, used: usize) -> IndexEnd {
    let whole = &file[..file.len() / entry_len * entry_len];
    let rest = &whole[used * entry_len..];
    match rest {
        [] => IndexEnd::Clean,
        _ if rest.iter().all(|byte| *byte == 0) => IndexEnd::Zeros,
        _ => IndexEnd::Damaged { index: used },
    }
}

/// An offset index.
pub fn offset_index(data: &[u8]) {
    let Some((base, target, file)) = split(data) else { return };
    let index = OffsetIndex::new(Offset(base), file);
    let stored: Vec<_> =
        file.chunks_exact(OFFSET_ENTRY_LEN).map(|e| (number(&e[..4]), number(&e[4..]))).collect();
    let seen = index.stored().iter().map(|e| (i64::from(e.relative_offset()), i64::from(e.position())));
    assert!(seen.eq(stored.iter().copied()));
    let mut used: Vec<(i64, i64)> = Vec::new();
    for entry in &stored {
        let before = used.last().copied().unwrap_or((-1, -1));
        if *entry == (0, 0) || entry.0 <= before.0 || entry.1 <= before.1 {
            break;
        }
        used.push(*entry);
    }
    let plain = |entry: topicfs::format::index::OffsetEntry| (entry.offset.0, entry.position.0 as i64);
    let resolved: Vec<_> = used.iter().map(|(offset, at)| (base.saturating_add(*offset), *at)).collect();
    assert!(index.entries().map(plain).eq(resolved.iter().copied()));
    assert_eq!(index.last().map(plain), resolved.last().copied());
    for target in [target, base, i64::MAX, i64::MIN, base.saturating_add(target)] {
        let floor = resolved.iter().rev().find(|(offset, _)| *offset <= target);
        assert_eq!(index.floor(Offset(target)).map(plain), floor.copied());
    }
    assert_eq!(index.end(), end(file, OFFSET_ENTRY_LEN, used.len()));
}

/// A time index.
pub fn time_index(data: &[u8]) {
    let Some((base, target, file)) = split(data) else { return };
    let index = TimeIndex::new(Offset(base), file);
    let stored: Vec<_> =
        file.chunks_exact(TIME_ENTRY_LEN).map(|e| (number(&e[..8]), number(&e[8..]))).collect();
    let seen = index.stored().iter().map(|e| (e.timestamp().0, i64::from(e.relative_offset())));
    assert!(seen.eq(stored.iter().copied()));
    let mut used: Vec<(i64, i64)> = Vec::new();
    for entry in &stored {
        let before = used.last().copied().unwrap_or((-1, 0));
        if *entry == (0, 0) || entry.0 <= before.0 || entry.1 < before.1 {
            break;
        }
        used.push(*entry);
    }
    let plain = |entry: topicfs::format::index::TimeEntry| (entry.timestamp.0, entry.offset.0);
    let resolved: Vec<_> = used.iter().map(|(time, offset)| (*time, base.saturating_add(*offset))).collect();
    assert!(index.entries().map(plain).eq(resolved.iter().copied()));
    assert_eq!(index.last().map(plain), resolved.last().copied());
    let seen = stored.first().map_or(0, |entry| entry.0);
    for target in [target, seen, seen.saturating_sub(1), i64::MAX, i64::MIN] {
        let floor = resolved.iter().rev().find(|(time, _)| *time <= target);
        assert_eq!(index.floor(Timestamp(target)).map(plain), floor.copied());
    }
    assert_eq!(index.end(), end(file, TIME_ENTRY_LEN, used.len()));
}

/// A transaction index.
pub fn txn_index(data: &[u8]) {
    let entries: Vec<_> = TxnIndex::new(data).entries().collect();
    assert_eq!(entries.len(), data.len() / TXN_ENTRY_LEN);
    let mut written = Vec::new();
    for entry in entries {
        written.extend(entry.version.to_be_bytes());
        for number in
            [entry.producer_id.0, entry.first_offset.0, entry.last_offset.0, entry.last_stable_offset.0]
        {
            written.extend(number.to_be_bytes());
        }
    }
    assert!(data.starts_with(&written), "written anew, the entries are other bytes");
}
