//! Which kind of file a name means.
//!
//! Kafka's tool goes by what follows the last dot. `.deleted`, `.swap`, `.cleaned` and `.part` behind that are passed over
//! here, where Kafka ignores the file; and the text files of data directories, which have no dot, have a dump too.

use crate::format::names::{self, KraftSnapshot};
use crate::format::uuid::Uuid;

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

/// The base offset that a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// A number is all that is before the first dot, as Kafka wants it.
    Plain(i64),
    /// A number and a segment's id, as in tiered storage (`BASE-ID`) and in the cache of its indexes (`BASE_ID`).
    Tiered(i64),
    /// None.
    Unknown,
}

impl Base {
    /// The base offset in `name`.
    pub fn of(name: &str) -> Self {
        let stem = stem(name);
        if let Ok(base) = stem.parse() {
            return Self::Plain(base);
        }
        let Some((base, id)) = stem.split_once(['-', '_']) else { return Self::Unknown };
        match base.parse() {
            Ok(base) if id.parse::<Uuid>().is_ok() => Self::Tiered(base),
            _ => Self::Unknown,
        }
    }

    /// The number, and what is to be told of a name that Kafka's tool stops at.
    pub fn resolve(self, name: &str) -> (Option<i64>, Option<String>) {
        match self {
            Self::Plain(base) => (Some(base), None),
            Self::Tiered(base) => (
                Some(base),
                Some(format!("{:?} is no offset to kafka-dump-log; {base} is meant", stem(name))),
            ),
            Self::Unknown => (None, Some(format!("{name:?} begins with no offset"))),
        }
    }
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
        _ => {
            let (base, note) = Base::of(name).resolve(name);
            if let Some(note) = note {
                super::push_mark(note, out);
            }
            let Some(base) = base else { return };
            format!("Log starting offset: {base}")
        }
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
    #[test]
    fn bases() {
        for (name, base) in [
            ("00000000000000000042.log", Base::Plain(42)),
            ("42.index", Base::Plain(42)),
            ("00000000000000000042-_HR0nMFLTU6SXKbbxrmaew.index", Base::Tiered(42)),
            ("42__HR0nMFLTU6SXKbbxrmaew.index", Base::Tiered(42)),
            ("00000000000000000042-0000000007.checkpoint", Base::Unknown),
            ("copy of 42.log", Base::Unknown),
            (".log", Base::Unknown),
        ] {
            assert_eq!(Base::of(name), base, "{name}");
        }
    }
}
