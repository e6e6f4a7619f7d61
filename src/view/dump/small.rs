//! The dumps of `.txnindex` and `.snapshot`.

use crate::format::index::TxnIndex;
use crate::format::snapshot::{self, ProducerEntry, SnapshotError};
use crate::view::dump::{Dumped, push_dumping};

/// Dumps a transaction index. A partial entry at the end is left out, as Kafka does.
pub fn txn_index(path: &str, bytes: &[u8]) -> Dumped {
    let mut out = Dumped::default();
    push_dumping(path, &mut out.text);
    let unknown = TxnIndex::new(bytes).entries().enumerate().find(|(_, entry)| entry.version != 0);
    if let Some((number, entry)) = unknown {
        out.fault(format_args!("entry {number} has version {}, only 0 is known", entry.version));
    }
    for entry in TxnIndex::new(bytes).entries() {
        let text = format!(
            "version: {} producerId: {} firstOffset: {} lastOffset: {} lastStableOffset: {}\n",
            entry.version,
            entry.producer_id.0,
            entry.first_offset,
            entry.last_offset,
            entry.last_stable_offset
        );
        out.text.extend_from_slice(text.as_bytes());
    }
    out
}

/// Dumps a producer snapshot. Kafka prints none of one that is damaged; here its entries follow a line that says so.
pub fn producer_snapshot(path: &str, bytes: &[u8]) -> Dumped {
    let mut out = Dumped::default();
    push_dumping(path, &mut out.text);
    let entries = match snapshot::parse(bytes) {
        Ok(entries) => entries,
        Err(error) => {
            out.fault(format_args!("{error}; what follows can't be relied on"));
            out.report(match error {
                SnapshotError::Checksum { expected, got } if snapshot::has_counted_length(bytes) => format!(
                    "Snapshot is corrupt (CRC is no longer valid). Stored crc: {expected}. Computed crc: {got}"
                ),
                _ => "Snapshot failed schema validation: null".to_owned(),
            });
            snapshot::parse_unchecked(bytes)
        }
    };
    for entry in &entries {
        push_producer(entry, &mut out.text);
    }
    out
}

fn push_producer(entry: &ProducerEntry, out: &mut Vec<u8>) {
    let txn = match entry.current_txn_first_offset {
        Some(offset) => format!("OptionalLong[{offset}]"),
        None => "OptionalLong.empty".to_owned(),
    };
    let text = format!(
        "producerId: {} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {txn} lastTimestamp: {}",
        entry.producer_id.0, entry.producer_epoch, entry.coordinator_epoch, entry.last_timestamp
    );
    out.extend_from_slice(text.as_bytes());
    if let Some(batch) = &entry.last_batch {
        let text = format!(
            " firstSequence: {} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {}",
            batch.first_sequence(),
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            entry.last_timestamp
        );
        out.extend_from_slice(text.as_bytes());
    }
    out.push(b'\n');
}
