//! What the line of a control record ends with: the marker's kind, or a KRaft record as JSON.

use crate::format::batch::RecordFault;
use crate::format::control::{ControlError, ControlType, EndTxnMarker};
use crate::format::kraft_control::{KraftVersion, KraftVoters, LeaderChange, SnapshotFooter, SnapshotHeader};
use crate::view::dump::java::push_text;
use crate::view::dump::push_integer;

/// Why a control record can't be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ControlFault {
    /// Key or marker.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A record of KRaft's.
    #[error("the value of a control record: {0}")]
    Value(#[from] RecordFault),
    /// No key, or no value.
    #[error("a control record has no {part}")]
    Null {
        /// Key or value.
        part: &'static str,
    },
}

/// Appends what the control record with this key and value is; nothing when that can't be told.
///
/// # Errors
/// Why it can't.
pub fn push(key: Option<&[u8]>, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), ControlFault> {
    let control = ControlType::parse(key.ok_or(ControlFault::Null { part: "key" })?)?;
    let value = value.ok_or(ControlFault::Null { part: "value" });
    match control {
        ControlType::Abort | ControlType::Commit => {
            let marker = EndTxnMarker::parse(value?)?;
            let text = format!(" endTxnMarker: {control} coordinatorEpoch: {}", marker.coordinator_epoch);
            out.extend_from_slice(text.as_bytes());
        }
        ControlType::LeaderChange => push_leader_change(&LeaderChange::parse(value?)?, out),
        ControlType::SnapshotHeader => {
            let SnapshotHeader { version, last_contained_log_timestamp: time } =
                SnapshotHeader::parse(value?)?;
            let text =
                format!(" SnapshotHeader {{\"version\":{version},\"lastContainedLogTimestamp\":{time}}}");
            out.extend_from_slice(text.as_bytes());
        }
        ControlType::SnapshotFooter => {
            let SnapshotFooter { version } = SnapshotFooter::parse(value?)?;
            out.extend_from_slice(format!(" SnapshotFooter {{\"version\":{version}}}").as_bytes());
        }
        ControlType::KraftVersion => {
            let KraftVersion { version, kraft_version } = KraftVersion::parse(value?)?;
            let text = format!(" KRaftVersion {{\"version\":{version},\"kRaftVersion\":{kraft_version}}}");
            out.extend_from_slice(text.as_bytes());
        }
        ControlType::KraftVoters => push_voters(&KraftVoters::parse(value?)?, out),
        ControlType::Unknown(id) => {
            out.extend_from_slice(format!(" controlType: {control}({id})").as_bytes());
        }
    }
    Ok(())
}

fn push_leader_change(change: &LeaderChange, out: &mut Vec<u8>) {
    let text = format!(" LeaderChange: {{\"version\":{},\"leaderId\":{}", change.version, change.leader_id);
    out.extend_from_slice(text.as_bytes());
    for (name, voters) in [("voters", &change.voters), ("grantingVoters", &change.granting_voters)] {
        out.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        push_list(voters, out, |id, out| {
            out.extend_from_slice(b"{\"voterId\":");
            push_integer(i64::from(*id), out);
            out.push(b'}');
        });
        out.push(b']');
    }
    out.push(b'}');
}

fn push_voters(voters: &KraftVoters<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(format!(" KRaftVoters {{\"version\":{},\"voters\":[", voters.version).as_bytes());
    push_list(&voters.voters, out, |voter, out| {
        let text = format!(
            "{{\"voterId\":{},\"voterDirectoryId\":\"{}\",\"endpoints\":[",
            voter.id, voter.directory_id
        );
        out.extend_from_slice(text.as_bytes());
        push_list(&voter.endpoints, out, |endpoint, out| {
            out.extend_from_slice(b"{\"name\":");
            push_json_string(endpoint.name, out);
            out.extend_from_slice(b",\"host\":");
            push_json_string(endpoint.host, out);
            out.extend_from_slice(format!(",\"port\":{}}}", endpoint.port).as_bytes());
        });
        let (min, max) = voter.feature;
        let text = format!(
            "],\"kRaftVersionFeature\":{{\"minSupportedVersion\":{min},\"maxSupportedVersion\":{max}}}}}"
        );
        out.extend_from_slice(text.as_bytes());
    });
    out.extend_from_slice(b"]}");
}

fn push_list<T>(list: &[T], out: &mut Vec<u8>, mut push: impl FnMut(&T, &mut Vec<u8>)) {
    for (index, element) in list.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push(element, out);
    }
}

/// A string with the escapes of Jackson, which Kafka prints JSON with.
fn push_json_string(bytes: &[u8], out: &mut Vec<u8>) {
    let mut text = Vec::new();
    push_text(bytes, &mut text);
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
