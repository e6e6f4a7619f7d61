//! Control records: transaction markers (KIP-98) and what KRaft writes to its metadata log (KIP-595, KIP-630, KIP-853).
//!
//! A key is an i16 version and an i16 type. A marker's value is an i16 version and the i32 coordinator epoch. The values of
//! KRaft's own are not read here. In 2.8's early-access KRaft, type 3 was the leader change, in another layout.

use std::fmt;

use crate::format::cursor::Cursor;

/// What a control record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ControlType {
    /// Ends a transaction whose records don't count.
    Abort,
    /// Ends a transaction whose records count.
    Commit,
    /// A new leader of the metadata quorum.
    LeaderChange,
    /// Begins a KRaft snapshot.
    SnapshotHeader,
    /// Ends a KRaft snapshot.
    SnapshotFooter,
    /// The `kraft.version` feature.
    KraftVersion,
    /// The voters of the metadata quorum.
    KraftVoters,
    /// A type of a later release; readers pass over it.
    Unknown(i16),
}

/// Why a control record can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Too few bytes.
    #[error("{got} bytes are too few for a control record's {part}, which takes {expected}")]
    Short {
        /// Key or value.
        part: &'static str,
        /// What it takes.
        expected: usize,
        /// What is there.
        got: usize,
    },
    /// Versions count from 0.
    #[error("version {got} of a control record's {part} is negative")]
    Version {
        /// Key or value.
        part: &'static str,
        /// As stored.
        got: i16,
    },
}

impl ControlType {
    /// Reads the key of a control record; later versions are read as version 0, as Kafka does.
    ///
    /// # Errors
    /// That it is too short, or its version is negative.
    pub fn parse(key: &[u8]) -> Result<Self, ControlError> {
        let mut rest = versioned("key", 4, key)?;
        let short = ControlError::Short { part: "key", expected: 4, got: key.len() };
        rest.i16().map(Self::of).map_err(|_| short)
    }

    const fn of(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KraftVersion,
            6 => Self::KraftVoters,
            other => Self::Unknown(other),
        }
    }

    /// The number of the type on disk.
    pub const fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KraftVersion => 5,
            Self::KraftVoters => 6,
            Self::Unknown(id) => id,
        }
    }
}

impl fmt::Display for ControlType {
    /// Kafka's name for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Abort => "ABORT",
            Self::Commit => "COMMIT",
            Self::LeaderChange => "LEADER_CHANGE",
            Self::SnapshotHeader => "SNAPSHOT_HEADER",
            Self::SnapshotFooter => "SNAPSHOT_FOOTER",
            Self::KraftVersion => "KRAFT_VERSION",
            Self::KraftVoters => "KRAFT_VOTERS",
            Self::Unknown(_) => "UNKNOWN",
        })
    }
}

/// The value of an ABORT or COMMIT record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTxnMarker {
    /// The epoch of the transaction coordinator that wrote it.
    pub coordinator_epoch: i32,
}

impl EndTxnMarker {
    /// Reads a marker's value; bytes that later versions add are ignored.
    ///
    /// # Errors
    /// That it is too short, or its version is negative.
    pub fn parse(value: &[u8]) -> Result<Self, ControlError> {
        let mut rest = versioned("value", 6, value)?;
        let short = ControlError::Short { part: "value", expected: 6, got: value.len() };
        rest.i32().map(|coordinator_epoch| Self { coordinator_epoch }).map_err(|_| short)
    }
}

/// Checks the version at the start and returns what follows.
fn versioned<'a>(part: &'static str, expected: usize, bytes: &'a [u8]) -> Result<Cursor<'a>, ControlError> {
    let mut rest = Cursor::new(bytes);
    match rest.i16() {
        Ok(got) if got < 0 => Err(ControlError::Version { part, got }),
        Ok(_) => Ok(rest),
        Err(_) => Err(ControlError::Short { part, expected, got: bytes.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        for id in -1..8 {
            let key = [[0, 0], id_bytes(id)].concat();
            assert_eq!(ControlType::parse(&key).unwrap().id(), id);
        }
        assert_eq!(ControlType::parse(&[0, 9, 0, 1]), Ok(ControlType::Commit));
        assert_eq!(ControlType::parse(&[0, 0, 0, 9]), Ok(ControlType::Unknown(9)));
    }

    fn id_bytes(id: i16) -> [u8; 2] {
        id.to_be_bytes()
    }

    #[test]
    fn markers() {
        assert_eq!(EndTxnMarker::parse(&[0, 0, 0, 0, 0, 7, 9]), Ok(EndTxnMarker { coordinator_epoch: 7 }));
        let part = "value";
        assert_eq!(EndTxnMarker::parse(&[0; 5]), Err(ControlError::Short { part, expected: 6, got: 5 }));
        assert_eq!(EndTxnMarker::parse(&[0xff; 6]), Err(ControlError::Version { part, got: -1 }));
        assert_eq!(ControlType::parse(&[]), Err(ControlError::Short { part: "key", expected: 4, got: 0 }));
    }
}
