//! Extended attributes of the files of single records.
//!
//! | `user.kafka.` | is |
//! |---|---|
//! | `offset`, `leader_epoch`, `producer_id` | decimal numbers |
//! | `timestamp` | milliseconds since 1970, decimal |
//! | `timestamp_type` | `CreateTime` or `LogAppendTime` |
//! | `key` | the key's bytes |
//! | `headers.NAME` | the value of the first header of that name; all of NAME but printable ASCII, and `%` and `/`, is `%XX` |
//! | `compression` | `none`, `gzip`, `snappy`, `lz4`, `zstd` |
//! | `tombstone` | `true`, when the value is null |
//!
//! What a record hasn't got, or has as null, has no attribute. They are made when the record is decoded, and `.json` has all of
//! them too: values of 64 KiB and more are cut here, names above 255 bytes left out, and so are headers beyond 64 KiB of names.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::format::record::{Record, TimestampType};
use crate::fs::error::FsError;
use crate::fs::mounted::Fs;
use crate::fs::names::push_escaped;
use crate::fs::node::{Item, Node};
use crate::view::partition_view::RecordPlace;
use crate::view::record_json::timestamp_type_name;

/// Before every name.
const PREFIX: &str = "user.kafka.";
/// The longest name that Linux has.
const MAX_NAME: usize = 255;
/// The longest value, and the longest list of names: below what Linux has.
const MAX_BYTES: usize = 64 * 1024 - 1;

/// The attributes of one record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Xattrs(Vec<(String, Vec<u8>)>);

impl Xattrs {
    /// Those of `record`, whose batch is at `place`.
    pub(super) fn of(record: &Record<'_>, place: &RecordPlace<'_>) -> Self {
        let header = &place.batch.header;
        let decimal = |number: i64| Some(number.to_string().into_bytes());
        let word = |word: &str| Some(word.as_bytes().to_vec());
        let timestamp = (!record.timestamp.is_none()).then_some(record.timestamp.0);
        let kind = Some(header.timestamp_type).filter(|kind| *kind != TimestampType::NoTimestamp);
        let fixed = [
            ("offset", decimal(record.offset.0)),
            ("timestamp", timestamp.and_then(decimal)),
            ("timestamp_type", kind.and_then(|kind| word(timestamp_type_name(kind)))),
            ("key", record.key.map(cut)),
            ("leader_epoch", header.leader_epoch.and_then(|epoch| decimal(epoch.0.into()))),
            ("producer_id", header.producer_id.and_then(|id| decimal(id.0))),
            ("compression", word(header.codec.name())),
            ("tombstone", record.value.is_none().then(|| b"true".to_vec())),
        ];
        let present = fixed.into_iter().filter_map(|(name, value)| Some((format!("{PREFIX}{name}"), value?)));
        let mut attributes = Self(present.collect());
        attributes.add_headers(record);
        attributes
    }

    fn add_headers(&mut self, record: &Record<'_>) {
        let mut seen = HashSet::new();
        let mut listed = self.names().len();
        for header in record.headers.iter().filter(|header| seen.insert(header.name)) {
            let Some(value) = header.value else { continue };
            let name = format!("{PREFIX}headers.{}", encoded(header.name));
            if name.len() > MAX_NAME {
                continue;
            }
            listed += name.len() + 1;
            if listed > MAX_BYTES {
                return;
            }
            self.0.push((name, cut(value)));
        }
    }

    /// The value of `name`.
    fn get(&self, name: &OsStr) -> Option<&[u8]> {
        let found = self.0.iter().find(|(own, _)| own.as_bytes() == name.as_bytes());
        found.map(|(_, value)| value.as_slice())
    }

    /// The names, each ended by a NUL, as `listxattr` gives them.
    fn names(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(name, _)| name.bytes().chain([0])).collect()
    }

    /// The bytes that it takes.
    pub(super) fn size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }
}

impl Fs {
    /// The value of an extended attribute. Names that are never there are refused without a look at the file: `ls -l` asks
    /// for two of those per file.
    ///
    /// # Errors
    /// [`FsError::NoAttribute`], [`FsError::NoAttributes`] where the mount has none, or those of reading.
    pub fn xattr(&self, ino: u64, name: &OsStr) -> Result<Vec<u8>, FsError> {
        if self.options().noxattr {
            return Err(FsError::NoAttributes);
        }
        if !name.as_bytes().starts_with(PREFIX.as_bytes()) {
            return Err(FsError::NoAttribute);
        }
        let node = self.inodes().get(ino)?;
        if !matches!(&*node, Node::Of(_, Item::Record(..))) {
            return Err(FsError::NoAttribute);
        }
        let content = self.record_content(&node)?;
        content.xattrs.get(name).map(<[u8]>::to_vec).ok_or(FsError::NoAttribute)
    }

    /// The names of a file's extended attributes, each ended by a NUL.
    ///
    /// # Errors
    /// [`FsError::NoAttributes`] where the mount has none, or those of reading.
    pub fn xattr_names(&self, ino: u64) -> Result<Vec<u8>, FsError> {
        if self.options().noxattr {
            return Err(FsError::NoAttributes);
        }
        let node = self.inodes().get(ino)?;
        match &*node {
            Node::Of(_, Item::Record(..)) => Ok(self.record_content(&node)?.xattrs.names()),
            _ => Ok(Vec::new()),
        }
    }
}

fn cut(bytes: &[u8]) -> Vec<u8> {
    bytes.get(..MAX_BYTES).unwrap_or(bytes).to_vec()
}

/// A header's name in a name of ours.
fn encoded(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    name.iter().for_each(|byte| push_escaped(*byte, &mut out));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_headers_are_printable_and_unambiguous() {
        assert_eq!(encoded(b"trace-id"), "trace-id");
        assert_eq!(encoded(b"a b=c.d"), "a b=c.d");
        assert_eq!(encoded(b"50%/\0\n\x7f"), "50%25%2F%00%0A%7F");
        assert_eq!(encoded("ü".as_bytes()), "%C3%BC");
        assert_eq!(encoded(b""), "");
    }
}
