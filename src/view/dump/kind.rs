//! Which kind of file a name means.
//!
//! Kafka's tool goes by what follows the last dot. `.deleted`, `.swap`, `.cleaned` and `.part` behind that are passed over
//! here, where Kafka ignores the file; and the text files of data directories, which have no dot, have a dump too.

use crate::format::names::{self, KraftSnapshot};

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `.log`.
    Log,
    /// `.checkpoint`: a snapshot of KRaft's metadata.
    Checkpoint,
    /// `.index`.
    OffsetIndex,
    /// `.timeindex`.
    TimeIndex,
    /// `.txnindex`.
    TxnIndex,
    /// `.snapshot`.
    Snapshot,
    /// `leader-epoch-checkpoint`; in a tiered store `.leader_epoch_checkpoint`.
    LeaderEpochs,
    /// `*-offset-checkpoint`.
    Offsets,
    /// `partition.metadata`.
    PartitionMetadata,
    /// `quorum-state`.
    QuorumState,
    /// `meta.properties`.
    MetaProperties,
}

impl Kind {
    /// The kind of the file with this name, without directories; `None` when it has no dump.
    pub fn of(name: &str) -> Option<Self> {
        let name = [".deleted", ".swap", ".cleaned", ".part"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(name);
        match name {
            names::LEADER_EPOCHS => return Some(Self::LeaderEpochs),
            names::PARTITION_METADATA => return Some(Self::PartitionMetadata),
            names::QUORUM_STATE => return Some(Self::QuorumState),
            names::META_PROPERTIES => return Some(Self::MetaProperties),
            _ if name.ends_with("-offset-checkpoint") => return Some(Self::Offsets),
            _ => {}
        }
        let (_, extension) = name.rsplit_once('.')?;
        Some(match extension {
            "log" => Self::Log,
            "checkpoint" => Self::Checkpoint,
            "index" => Self::OffsetIndex,
            "timeindex" => Self::TimeIndex,
            "txnindex" => Self::TxnIndex,
            "snapshot" => Self::Snapshot,
            "leader_epoch_checkpoint" => Self::LeaderEpochs,
            _ => return None,
        })
    }

    /// Whether its dump is made of batches, and so as long as a log.
    pub const fn is_log(self) -> bool {
        matches!(self, Self::Log | Self::Checkpoint)
    }
}

/// What a name says before its first dot, as a number; Kafka takes nothing else for a base offset.
pub fn base_offset(name: &str) -> Option<i64> {
    stem(name).parse().ok()
}

/// What a name has before its first dot.
pub fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Appends what is told of a log or KRaft snapshot before its batches.
pub fn push_heading(name: &str, kind: Kind, out: &mut Vec<u8>) {
    let line = match kind {
        Kind::Checkpoint if name == names::BOOTSTRAP_CHECKPOINT => "KRaft bootstrap snapshot".to_owned(),
        Kind::Checkpoint => match KraftSnapshot::parse(name) {
            Some(snapshot) => {
                format!("Snapshot end offset: {}, epoch: {}", snapshot.end_offset, snapshot.epoch.0)
            }
            None => return super::push_mark(format_args!("{name:?} has no end offset and epoch"), out),
        },
        _ => match base_offset(name) {
            Some(base) => format!("Log starting offset: {base}"),
            None => return super::push_mark(format_args!("{name:?} begins with no offset"), out),
        },
    };
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, kind) in [
            ("00000000000000000000.log", Some(Kind::Log)),
            ("00000000000000000000.log.deleted", Some(Kind::Log)),
            ("copy of 000.log", Some(Kind::Log)),
            ("00000000000000000000.index.swap", Some(Kind::OffsetIndex)),
            ("00000000000000000042-0000000007.checkpoint", Some(Kind::Checkpoint)),
            ("00000000000000000042-0000000007-12.checkpoint.part", Some(Kind::Checkpoint)),
            ("leader-epoch-checkpoint", Some(Kind::LeaderEpochs)),
            ("replication-offset-checkpoint", Some(Kind::Offsets)),
            ("segment", None),
            ("", None),
            (".", None),
            ("00000000000000000000.bak", None),
            ("00000000000000000000.log.gz", None),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }
}
