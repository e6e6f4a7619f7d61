//! The dumps of the text files of a data directory, in the style of the others: one line an entry, `name: value`. Kafka's tool
//! has none for them.

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;

use crate::format::checkpoint;
use crate::format::partition_metadata;
use crate::format::properties::Properties;
use crate::view::dump::kind::Kind;
use crate::view::dump::{Dumped, push_dumping};

/// Dumps a text file.
pub fn dump(path: &str, kind: Kind, bytes: &[u8]) -> Dumped {
    let mut out = Dumped::default();
    push_dumping(path, &mut out.text);
    let lines = match kind {
        Kind::LeaderEpochs => leader_epochs(bytes),
        Kind::Offsets => offsets(bytes),
        Kind::PartitionMetadata => partition_metadata::parse(bytes)
            .map(|id| format!("topicId: {id}\n"))
            .map_err(|error| error.to_string()),
        Kind::MetaProperties => properties(bytes),
        _ => quorum_state(bytes),
    };
    match lines {
        Ok(lines) => out.text.extend_from_slice(lines.as_bytes()),
        Err(error) => {
            out.fault(format_args!("{error}; the file as it is:"));
            out.text.extend_from_slice(&bytes[..bytes.len().min(MOST_SHOWN)]);
            if out.text.last() != Some(&b'\n') {
                out.text.push(b'\n');
            }
        }
    }
    out
}

/// So much is shown of a file that is not what it should be.
const MOST_SHOWN: usize = 64 * 1024;

fn leader_epochs(bytes: &[u8]) -> Result<String, String> {
    let epochs = checkpoint::parse_epochs(bytes).map_err(|error| error.to_string())?;
    let line = |entry: &checkpoint::EpochEntry| {
        format!("epoch: {} startOffset: {}\n", entry.epoch.0, entry.start_offset)
    };
    Ok(epochs.iter().map(line).collect())
}

fn offsets(bytes: &[u8]) -> Result<String, String> {
    let offsets = checkpoint::parse_offsets(bytes).map_err(|error| error.to_string())?;
    let lines = offsets
        .iter()
        .map(|(key, offset)| format!("topic: {} partition: {} offset: {offset}\n", key.topic, key.partition));
    Ok(lines.collect())
}

fn properties(bytes: &[u8]) -> Result<String, String> {
    let properties = Properties::parse(bytes).map_err(|error| error.to_string())?;
    Ok(properties.iter().map(|(key, value)| format!("{key}: {value}\n")).collect())
}

/// One line with the members of the JSON object.
fn quorum_state(bytes: &[u8]) -> Result<String, String> {
    let Members(members) = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields: Vec<String> =
        members.iter().map(|(name, value)| format!("{name}: {}", text(value))).collect();
    Ok(fields.join(" ") + "\n")
}

/// The members of a JSON object in their order.
struct Members(Vec<(String, Value)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(kind: Kind, bytes: &[u8]) -> String {
        String::from_utf8(dump("p", kind, bytes).text).unwrap()
    }

    #[test]
    fn one_line_an_entry() {
        assert_eq!(
            text(Kind::LeaderEpochs, b"0\n2\n0 0\n4 17\n"),
            "Dumping p\nepoch: 0 startOffset: 0\nepoch: 4 startOffset: 17\n"
        );
        assert_eq!(text(Kind::Offsets, b"0\n1\na-b 3 7\n"), "Dumping p\ntopic: a-b partition: 3 offset: 7\n");
        assert_eq!(
            text(Kind::PartitionMetadata, b"version: 0\ntopic_id: QA1R_zycShK838NrWsZaBA"),
            "Dumping p\ntopicId: QA1R_zycShK838NrWsZaBA\n"
        );
        assert_eq!(
            text(
                Kind::QuorumState,
                br#"{"leaderId":1,"leaderEpoch":4,"currentVoters":[{"voterId":1}],"clusterId":""}"#
            ),
            "Dumping p\nleaderId: 1 leaderEpoch: 4 currentVoters: [{\"voterId\":1}] clusterId: \n"
        );
        assert_eq!(
            text(Kind::MetaProperties, b"#\nversion=1\nnode.id=1\n"),
            "Dumping p\nnode.id: 1\nversion: 1\n"
        );
    }

    #[test]
    fn what_is_wrong_is_told_and_shown() {
        let dumped = dump("p", Kind::LeaderEpochs, b"0\n3\n0 0");
        assert!(dumped.is_damaged);
        let text = String::from_utf8(dumped.text).unwrap();
        assert_eq!(
            text,
            "Dumping p\ntopicfs: line 2: it says 3 entries, found 1; the file as it is:\n0\n3\n0 0\n"
        );
    }
}
