//! The records of `__cluster_metadata` (KIP-500, KIP-746), as far as they speak of topics and configs.
//!
//! A value is an unsigned varint frame version, one of the type, one of the version, and then a struct of Kafka's flexible wire
//! format. The types that are read have no version but 0. Tagged fields are passed over, and so is what a later version adds. In
//! 2.8's early-access KRaft the frame version was 0, strings had an i16 for their length, and there were no tagged fields.
//!
//! | type | record | fields |
//! |---|---|---|
//! | 2 | Topic | name, uuid |
//! | 4 | Config | i8 type of the resource, its name, name, nullable value |
//! | 9 | RemoveTopic | uuid |
//! | 23, 24, 25 | BeginTransaction, EndTransaction, AbortTransaction (KIP-868) | |

use crate::format::cursor::Cursor;
use crate::format::error::RecordFault;
use crate::format::uuid::Uuid;

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataRecord<'a> {
    /// There is a topic.
    Topic {
        /// Its name.
        name: &'a str,
        /// Its id.
        id: Uuid,
    },
    /// A topic is there no more, nor are its configs.
    RemoveTopic {
        /// Its id.
        id: Uuid,
    },
    /// A config is set, or no longer.
    Config {
        /// Whose it is.
        resource: Resource<'a>,
        /// Its name.
        name: &'a str,
        /// Its value; `None` where it is taken away.
        value: Option<&'a str>,
    },
    /// What follows doesn't count before its end.
    BeginTransaction,
    /// All since the beginning counts.
    EndTransaction,
    /// None of it does.
    AbortTransaction,
    /// A record of another type.
    Other(u32),
}

/// Whose a config is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// A topic's.
    Topic(&'a str),
    /// A broker's, by its id; that of all brokers has no name.
    Broker(&'a str),
    /// A client's, a group's, or one of a type of a later release.
    Other(i8),
}

/// Why a record can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataFault {
    /// A frame of a later release.
    #[error("frame version {got}, known are 0 and 1")]
    Frame {
        /// As stored.
        got: u32,
    },
    /// A field that is no text.
    #[error("a name or value is not UTF-8")]
    Utf8,
    /// Its bytes.
    #[error(transparent)]
    Record(#[from] RecordFault),
}

impl<'a> MetadataRecord<'a> {
    /// Reads the value of a record.
    ///
    /// # Errors
    /// What of it can't be read; a type that isn't known is no error.
    pub fn parse(value: &'a [u8]) -> Result<Self, MetadataFault> {
        let mut rest = Cursor::new(value);
        let mut fields = match rest.unsigned()? {
            0 => Fields { is_flexible: false, rest },
            1 => Fields { is_flexible: true, rest },
            got => return Err(MetadataFault::Frame { got }),
        };
        let (kind, _version) = (fields.rest.unsigned()?, fields.rest.unsigned()?);
        let record = match kind {
            2 => Self::Topic { name: fields.text()?, id: fields.rest.uuid()? },
            4 => {
                let kind = fields.rest.u8()?.cast_signed();
                let resource = Resource::new(kind, fields.text()?);
                Self::Config { resource, name: fields.text()?, value: fields.nullable_text()? }
            }
            9 => Self::RemoveTopic { id: fields.rest.uuid()? },
            23 => Self::BeginTransaction,
            24 => Self::EndTransaction,
            25 => Self::AbortTransaction,
            other => return Ok(Self::Other(other)),
        };
        fields.end()?;
        Ok(record)
    }
}

impl<'a> Resource<'a> {
    const fn new(kind: i8, name: &'a str) -> Self {
        match kind {
            2 => Self::Topic(name),
            4 => Self::Broker(name),
            other => Self::Other(other),
        }
    }
}

/// The fields that are left of a record.
struct Fields<'a> {
    is_flexible: bool,
    rest: Cursor<'a>,
}

impl<'a> Fields<'a> {
    fn nullable_text(&mut self) -> Result<Option<&'a str>, MetadataFault> {
        let bytes = if self.is_flexible {
            self.rest.nullable_compact_bytes()
        } else {
            self.rest.nullable_short_bytes()
        };
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| MetadataFault::Utf8);
        bytes?.map(text).transpose()
    }

    fn text(&mut self) -> Result<&'a str, MetadataFault> {
        self.nullable_text()?.ok_or(MetadataFault::Record(RecordFault::Length))
    }

    fn end(&mut self) -> Result<(), RecordFault> {
        if self.is_flexible { self.rest.skip_tags() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::testing::hex;

    /// `orders`, `segment.bytes` and so on as they stand in a record.
    fn compact(text: &str) -> Vec<u8> {
        let len = u8::try_from(text.len() + 1).unwrap();
        [&[len][..], text.as_bytes()].concat()
    }

    fn config(kind: u8, value: Option<&str>) -> Vec<u8> {
        let value = value.map_or_else(|| vec![0], compact);
        [&[1, 4, 0, kind][..], &compact("ep"), &compact("retention.ms"), &value, &[0]].concat()
    }

    #[test]
    fn topics_come_and_go() {
        let id = "000102030405060708090a0b0c0d0e0f";
        let uuid = Uuid(std::array::from_fn(|index| u8::try_from(index).unwrap()));
        let topic = hex(&format!("010200036570{id}00"));
        assert_eq!(MetadataRecord::parse(&topic), Ok(MetadataRecord::Topic { name: "ep", id: uuid }));
        let of_2_8 = hex(&format!("00020000026570{id}"));
        assert_eq!(MetadataRecord::parse(&of_2_8), MetadataRecord::parse(&topic));
        let removed = hex(&format!("010900{id}00"));
        assert_eq!(MetadataRecord::parse(&removed), Ok(MetadataRecord::RemoveTopic { id: uuid }));
    }

    #[test]
    fn configs_are_set_and_taken_away() {
        for (kind, resource) in
            [(2, Resource::Topic("ep")), (4, Resource::Broker("ep")), (16, Resource::Other(16))]
        {
            for value in [Some("60000"), Some(""), None] {
                let expected = MetadataRecord::Config { resource, name: "retention.ms", value };
                assert_eq!(MetadataRecord::parse(&config(kind, value)), Ok(expected));
            }
        }
        let of_2_8 = hex("00040002000265700001610001ff");
        assert_eq!(MetadataRecord::parse(&of_2_8), Err(MetadataFault::Utf8));
        let null = MetadataRecord::Config { resource: Resource::Topic("ep"), name: "a", value: None };
        assert_eq!(MetadataRecord::parse(&hex("0004000200026570000161ffff")), Ok(null));
        let mut wrong = config(2, Some("a"));
        *wrong.iter_mut().nth_back(1).unwrap() = 0xff;
        assert_eq!(MetadataRecord::parse(&wrong), Err(MetadataFault::Utf8));
    }

    #[test]
    fn tagged_fields_are_passed_over() {
        let begin = [&[1, 23, 0, 1, 0, 3][..], &compact("ab")].concat();
        assert_eq!(MetadataRecord::parse(&begin), Ok(MetadataRecord::BeginTransaction));
        assert_eq!(MetadataRecord::parse(&[1, 24, 0, 0]), Ok(MetadataRecord::EndTransaction));
        assert_eq!(MetadataRecord::parse(&[1, 25, 0, 0]), Ok(MetadataRecord::AbortTransaction));
        assert_eq!(MetadataRecord::parse(&begin[..7]), Err(MetadataFault::Record(RecordFault::Cut)));
    }

    #[test]
    fn other_types_are_left_alone_and_other_frames_refused() {
        assert_eq!(MetadataRecord::parse(&[1, 0x8c, 0x01, 9]), Ok(MetadataRecord::Other(140)));
        assert_eq!(MetadataRecord::parse(&[2, 2, 0]), Err(MetadataFault::Frame { got: 2 }));
        assert_eq!(MetadataRecord::parse(&[]), Err(MetadataFault::Record(RecordFault::Cut)));
    }

    #[test]
    fn a_record_that_is_cut_is_an_error_wherever_it_is() {
        let whole = config(2, Some("60000"));
        for len in 0..whole.len() {
            assert!(MetadataRecord::parse(&whole[..len]).is_err(), "{len} bytes");
        }
    }
}
