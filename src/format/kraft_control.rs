//! The values of the control records that KRaft writes to its metadata log and to snapshots (KIP-595, KIP-630, KIP-853).
//!
//! Each is a struct of Kafka's flexible wire format, of version 0: an i16 `version`, fields, tagged fields. Strings and
//! arrays have an unsigned varint in front, their length plus one. Tagged fields are passed over, and so is what follows.

use crate::format::cursor::Cursor;
use crate::format::error::RecordFault;
use crate::format::uuid::Uuid;

/// The value of a LEADER_CHANGE record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderChange {
    /// The struct's version.
    pub version: i16,
    /// The new leader.
    pub leader_id: i32,
    /// The ids of all voters.
    pub voters: Vec<i32>,
    /// The ids of those who voted for it.
    pub granting_voters: Vec<i32>,
}

/// The value of a SNAPSHOT_HEADER record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The struct's version.
    pub version: i16,
    /// The append time of the last batch that the snapshot covers.
    pub last_contained_log_timestamp: i64,
}

/// The value of a SNAPSHOT_FOOTER record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotFooter {
    /// The struct's version.
    pub version: i16,
}

/// The value of a KRAFT_VERSION record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KraftVersion {
    /// The struct's version.
    pub version: i16,
    /// The level of the `kraft.version` feature.
    pub kraft_version: i16,
}

/// The value of a KRAFT_VOTERS record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KraftVoters<'a> {
    /// The struct's version.
    pub version: i16,
    /// The voters.
    pub voters: Vec<Voter<'a>>,
}

/// A voter of the metadata quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter<'a> {
    /// Its id.
    pub id: i32,
    /// The id of its metadata directory.
    pub directory_id: Uuid,
    /// Where it listens.
    pub endpoints: Vec<Endpoint<'a>>,
    /// The smallest and the largest level of `kraft.version` that it can do.
    pub feature: (i16, i16),
}

/// Where a voter listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint<'a> {
    /// The listener's name.
    pub name: &'a [u8],
    /// The host.
    pub host: &'a [u8],
    /// The port.
    pub port: u16,
}

impl LeaderChange {
    /// Reads the value.
    ///
    /// # Errors
    /// That it is cut short.
    pub fn parse(value: &[u8]) -> Result<Self, RecordFault> {
        let mut rest = Cursor::new(value);
        let voter = |rest: &mut Cursor<'_>| {
            let id = rest.i32()?;
            rest.skip_tags()?;
            Ok(id)
        };
        let (version, leader_id) = (rest.i16()?, rest.i32()?);
        let voters = array(&mut rest, voter)?;
        let granting_voters = array(&mut rest, voter)?;
        rest.skip_tags()?;
        Ok(Self { version, leader_id, voters, granting_voters })
    }
}

impl SnapshotHeader {
    /// Reads the value.
    ///
    /// # Errors
    /// That it is cut short.
    pub fn parse(value: &[u8]) -> Result<Self, RecordFault> {
        let mut rest = Cursor::new(value);
        let header = Self { version: rest.i16()?, last_contained_log_timestamp: rest.i64()? };
        rest.skip_tags()?;
        Ok(header)
    }
}

impl SnapshotFooter {
    /// Reads the value.
    ///
    /// # Errors
    /// That it is cut short.
    pub fn parse(value: &[u8]) -> Result<Self, RecordFault> {
        let mut rest = Cursor::new(value);
        let footer = Self { version: rest.i16()? };
        rest.skip_tags()?;
        Ok(footer)
    }
}

impl KraftVersion {
    /// Reads the value.
    ///
    /// # Errors
    /// That it is cut short.
    pub fn parse(value: &[u8]) -> Result<Self, RecordFault> {
        let mut rest = Cursor::new(value);
        let record = Self { version: rest.i16()?, kraft_version: rest.i16()? };
        rest.skip_tags()?;
        Ok(record)
    }
}

impl<'a> KraftVoters<'a> {
    /// Reads the value.
    ///
    /// # Errors
    /// That it is cut short.
    pub fn parse(value: &'a [u8]) -> Result<Self, RecordFault> {
        let mut rest = Cursor::new(value);
        let version = rest.i16()?;
        let voters = array(&mut rest, Voter::read)?;
        rest.skip_tags()?;
        Ok(Self { version, voters })
    }
}

impl<'a> Voter<'a> {
    fn read(rest: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let id = rest.i32()?;
        let directory_id = rest.uuid()?;
        let endpoints = array(rest, Endpoint::read)?;
        let feature = (rest.i16()?, rest.i16()?);
        rest.skip_tags()?;
        rest.skip_tags()?;
        Ok(Self { id, directory_id, endpoints, feature })
    }
}

impl<'a> Endpoint<'a> {
    fn read(rest: &mut Cursor<'a>) -> Result<Self, RecordFault> {
        let (name, host) = (rest.compact_bytes()?, rest.compact_bytes()?);
        let port = rest.i16()?.cast_unsigned();
        rest.skip_tags()?;
        Ok(Self { name, host, port })
    }
}

fn array<'a, T>(
    rest: &mut Cursor<'a>,
    mut element: impl FnMut(&mut Cursor<'a>) -> Result<T, RecordFault>,
) -> Result<Vec<T>, RecordFault> {
    let len = rest.compact_len()?;
    // Every element takes a byte at least.
    if len > rest.rest().len() {
        return Err(RecordFault::Cut);
    }
    (0..len).map(|_| element(rest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::hex;

    #[test]
    fn leader_change() {
        let bytes = hex("000000000001030000000100000000020002000000020000");
        let expected =
            LeaderChange { version: 0, leader_id: 1, voters: vec![1, 2], granting_voters: vec![2] };
        assert_eq!(LeaderChange::parse(&bytes), Ok(expected));
        for len in 0..bytes.len() {
            assert!(LeaderChange::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn voters() {
        let bytes = hex("00000200000007000102030405060708090a0b0c0d0e0f02024303686973690000000001000000");
        let voters = KraftVoters::parse(&bytes).unwrap().voters;
        let endpoint = Endpoint { name: b"C", host: b"hi", port: 0x7369 };
        assert_eq!((voters[0].id, voters[0].feature), (7, (0, 1)));
        assert_eq!(voters[0].endpoints, [endpoint]);
        for len in 0..bytes.len() {
            assert!(KraftVoters::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn lengths_are_checked_before_anything_is_reserved() {
        assert_eq!(KraftVoters::parse(&hex("0000ffffffff0f")), Err(RecordFault::Cut));
        assert_eq!(SnapshotFooter::parse(&hex("0000020002aabb0100")), Ok(SnapshotFooter { version: 0 }));
        assert!(SnapshotHeader::parse(&hex("00000000000000000001")).is_err());
    }
}
