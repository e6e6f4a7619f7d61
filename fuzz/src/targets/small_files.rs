//! The small files: producer snapshots, checkpoints, properties, topic ids; control records, and records of the cluster's metadata.

use topicfs::format::control::{ControlError, ControlType, EndTxnMarker};
use topicfs::format::metadata_record::{MetadataRecord, Resource};
use topicfs::format::properties::{MetaProperties, Properties};
use topicfs::format::uuid::Uuid;
use topicfs::format::{checkpoint, partition_metadata, snapshot};

use crate::oracle::{crc32c, number};

/// Bytes of a snapshot before its entries, and of each entry.
const SNAPSHOT_HEADER: usize = 10;
const SNAPSHOT_ENTRY: usize = 46;

/// A producer snapshot: as it is, and with its version, checksum and count made right.
pub fn producer_snapshot(data: &[u8]) {
    let _ = check_snapshot(data);
    if data.len() < SNAPSHOT_HEADER {
        return;
    }
    let mut repaired = data.to_vec();
    let count = (data.len() - SNAPSHOT_HEADER) / SNAPSHOT_ENTRY;
    repaired.truncate(SNAPSHOT_HEADER + count * SNAPSHOT_ENTRY);
    repaired[..2].copy_from_slice(&1_i16.to_be_bytes());
    repaired[6..10].copy_from_slice(&(count as u32).to_be_bytes());
    let crc = crc32c(&repaired[6..]);
    repaired[2..6].copy_from_slice(&crc.to_be_bytes());
    check_snapshot(&repaired).expect("everything is right");
}

fn check_snapshot(data: &[u8]) -> Result<(), snapshot::SnapshotError> {
    let entries = snapshot::parse(data)?;
    assert_eq!(number(&data[..2]), 1);
    assert_eq!(data[2..6], crc32c(&data[6..]).to_be_bytes(), "accepted with a wrong checksum");
    assert_eq!(entries.len() * SNAPSHOT_ENTRY + SNAPSHOT_HEADER, data.len());
    for (entry, bytes) in entries.iter().zip(data[SNAPSHOT_HEADER..].chunks(SNAPSHOT_ENTRY)) {
        let at = |from: usize, to: usize| number(&bytes[from..to]);
        assert_eq!(entry.producer_id.0, at(0, 8));
        assert_eq!(i64::from(entry.producer_epoch), at(8, 10));
        assert_eq!(entry.last_timestamp.0, at(26, 34));
        assert_eq!(i64::from(entry.coordinator_epoch), at(34, 38));
        let open = Some(at(38, 46)).filter(|offset| *offset >= 0);
        assert_eq!(entry.current_txn_first_offset.map(|offset| offset.0), open);
        assert_eq!(entry.last_batch.is_some(), at(14, 22) >= 0);
        if let Some(last) = &entry.last_batch {
            assert_eq!((i64::from(last.last_sequence), last.last_offset.0), (at(10, 14), at(14, 22)));
            assert_eq!(i64::from(last.offset_delta), at(22, 26));
            let difference = at(10, 14) - at(22, 26);
            let expected = if difference >= 0 { difference } else { difference + (1 << 31) };
            let is_sane = last.last_sequence >= 0 && last.offset_delta >= 0;
            assert!(!is_sane || i64::from(last.first_sequence()) == expected);
        }
    }
    Ok(())
}

/// An offset checkpoint, as `replication-offset-checkpoint`.
pub fn offset_checkpoint(data: &[u8]) {
    if let Ok(offsets) = checkpoint::parse_offsets(data) {
        assert!(offsets.len() <= data.len() / 2);
        let text = checkpoint::format_offsets(&offsets);
        assert_eq!(checkpoint::parse_offsets(text.as_bytes()), Ok(offsets), "it doesn't come back");
    }
}

/// A `leader-epoch-checkpoint`.
pub fn leader_epochs(data: &[u8]) {
    if let Ok(epochs) = checkpoint::parse_epochs(data) {
        assert!(epochs.len() <= data.len() / 2);
        let text = checkpoint::format_epochs(&epochs);
        assert_eq!(checkpoint::parse_epochs(text.as_bytes()), Ok(epochs), "it doesn't come back");
    }
}

/// `meta.properties`, `server.properties`: Java's format.
pub fn properties(data: &[u8]) {
    let meta = MetaProperties::parse(data);
    let Ok(properties) = Properties::parse(data) else {
        assert!(meta.is_err());
        return;
    };
    let escape =
        |text: &str| -> String { text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect() };
    let text: String =
        properties.iter().map(|(key, value)| format!("{}={}\n", escape(key), escape(value))).collect();
    assert_eq!(Properties::parse(text.as_bytes()).map(|p| p.iter().map(owned).collect::<Vec<_>>()), {
        Ok(properties.iter().map(owned).collect())
    });
    if let Ok(meta) = meta {
        assert!(matches!(meta.version, 0 | 1));
        assert_eq!(meta.cluster_id.as_deref(), properties.get("cluster.id"));
        let key = if meta.version == 0 { "broker.id" } else { "node.id" };
        assert_eq!(meta.node_id, properties.get(key).and_then(|id| id.trim().parse().ok()));
        assert_eq!(meta.directory_id.is_some(), properties.get("directory.id").is_some());
    }
}

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

/// `partition.metadata`.
pub fn topic_id(data: &[u8]) {
    if let Ok(id) = partition_metadata::parse(data) {
        assert_ne!(id, Uuid::ZERO);
        assert_eq!(partition_metadata::parse(partition_metadata::format(id).as_bytes()), Ok(id));
    }
}

/// Ids in Kafka's base64, which a reader of our own reads too.
pub fn uuid(data: &[u8]) {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    if let Some(id) = data.first_chunk::<16>() {
        let text = Uuid(*id).to_string();
        assert_eq!(text.len(), 22);
        assert_eq!(text.parse(), Ok(Uuid(*id)), "it doesn't come back");
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let digits = text.strip_suffix("==").unwrap_or(text);
    let values: Option<Vec<u128>> =
        digits.bytes().map(|byte| LETTERS.iter().position(|l| *l == byte).map(|at| at as u128)).collect();
    let expected = values.filter(|values| values.len() == 22).map(|values| {
        let (last, others) = values.split_last().expect("22 of them");
        others.iter().fold(0, |id, value| id << 6 | value) << 2 | last >> 4
    });
    assert_eq!(text.parse::<Uuid>().ok(), expected.map(|id| Uuid(id.to_be_bytes())));
}

/// Keys and values of control records.
pub fn control(data: &[u8]) {
    let version = data.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
    match ControlType::parse(data) {
        Ok(kind) => {
            assert_eq!(i64::from(kind.id()), number(&data[2..4]));
            assert!(version >= Some(0) && !kind.to_string().is_empty());
        }
        Err(ControlError::Version { got, .. }) => assert!(Some(got) == version && got < 0),
        Err(_) => assert!(data.len() < 4),
    }
    match EndTxnMarker::parse(data) {
        Ok(marker) => assert_eq!(i64::from(marker.coordinator_epoch), number(&data[2..6])),
        Err(ControlError::Version { got, .. }) => assert!(Some(got) == version && got < 0),
        Err(_) => assert!(data.len() < 6),
    }
}

/// The value of a record of the cluster's metadata: what is read, written again, is read as the same.
pub fn metadata_record(data: &[u8]) {
    let Ok(record) = MetadataRecord::parse(data) else { return };
    let mut again = vec![1];
    match record {
        MetadataRecord::Topic { name, id } => {
            again.extend([2, 0]);
            push_text(Some(name), &mut again);
            again.extend(id.0);
        }
        MetadataRecord::Config { resource, name, value } => {
            let (kind, of) = match resource {
                Resource::Topic(topic) => (2, Some(topic)),
                Resource::Broker(broker) => (4, Some(broker)),
                // Its name is not kept.
                Resource::Other(kind) => (kind as u8, Some("")),
            };
            again.extend([4, 0, kind]);
            push_text(of, &mut again);
            push_text(Some(name), &mut again);
            push_text(value, &mut again);
        }
        MetadataRecord::RemoveTopic { id } => {
            again.extend([9, 0]);
            again.extend(id.0);
        }
        MetadataRecord::BeginTransaction => again.extend([23, 0]),
        MetadataRecord::EndTransaction => again.extend([24, 0]),
        MetadataRecord::AbortTransaction => again.extend([25, 0]),
        MetadataRecord::Other(kind) => {
            push_unsigned(kind, &mut again);
            again.push(0);
        }
    }
    again.push(0);
    assert_eq!(MetadataRecord::parse(&again), Ok(record));
}

fn push_text(text: Option<&str>, out: &mut Vec<u8>) {
    push_unsigned(text.map_or(0, |text| text.len() as u32 + 1), out);
    out.extend_from_slice(text.unwrap_or_default().as_bytes());
}

fn push_unsigned(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
