//! What is written to the append files, read as records.
//!
//! | file | ends a record | a record is |
//! |---|---|---|
//! | `append` | newline | its value: the bytes as they are |
//! | `append.nul` | NUL | its value: the bytes as they are |
//! | `append.blob` | the end of all that is written | its value: the bytes as they are |
//! | `append.tsv` | newline | what `.tsv` shows: key and value, or all four columns (see [`tsv`]) |
//! | `append.jsonl` | newline | what `.jsonl` shows (see [`jsonl`]) |
//!
//! What [`crate::view::tsv`] and [`crate::view::jsonl`] render reads as the same record, with two exceptions: `.tsv` doesn't tell text
//! from base64 or hexadecimal digits, and inlined JSON comes as it stands in the line, without the white space that rendering
//! took out. A record borrows from its line; bytes are copied only where an escape or an encoding stands in them. Knows no
//! files and no clock.

#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

pub mod assembler;
pub mod error;
pub mod jsonl;
pub mod tsv;
pub mod writer;

use std::borrow::Cow;

use crate::format::batch_builder::NewRecord;
use crate::format::record::Header;
use crate::units::Timestamp;
use crate::view::lines::error::LineError;

/// How the bytes of an append file are cut into records, and what each of them says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineFormat {
    /// `append`: a line is a value.
    Text,
    /// `append.tsv`: a line has a key and a value, or the four columns of `.tsv`.
    Tsv,
    /// `append.jsonl`: a line is an object of `.jsonl`.
    Jsonl,
    /// `append.nul`: a NUL ends a value.
    Nul,
    /// `append.blob`: all that is written through one handle is one value.
    Blob,
}

impl LineFormat {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Text, Self::Jsonl, Self::Tsv, Self::Nul, Self::Blob];

    /// The extension of its append file, without a dot.
    pub const fn extension(self) -> Option<&'static str> {
        match self {
            Self::Text => None,
            Self::Tsv => Some("tsv"),
            Self::Jsonl => Some("jsonl"),
            Self::Nul => Some("nul"),
            Self::Blob => Some("blob"),
        }
    }

    /// The format of an extension.
    pub fn from_extension(extension: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.extension() == Some(extension))
    }

    /// The byte that ends a record; `None` where only the end of writing does.
    pub const fn terminator(self) -> Option<u8> {
        match self {
            Self::Text | Self::Tsv | Self::Jsonl => Some(b'\n'),
            Self::Nul => Some(0),
            Self::Blob => None,
        }
    }
}

/// A header's name and value.
pub type LineHeader<'a> = (Cow<'a, [u8]>, Option<Cow<'a, [u8]>>);

/// One record as its line says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineRecord<'a> {
    /// Its time; `None` leaves that to whoever appends it.
    pub timestamp: Option<Timestamp>,
    /// The key.
    pub key: Option<Cow<'a, [u8]>>,
    /// The value; `None` makes the record a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    /// The headers, in order.
    pub headers: Vec<LineHeader<'a>>,
}

impl LineRecord<'_> {
    /// The headers as [`Self::as_new`] takes them.
    pub fn headers(&self) -> Vec<Header<'_>> {
        let headers = self.headers.iter();
        headers.map(|(name, value)| Header { name, value: value.as_deref() }).collect()
    }

    /// The record as a batch takes it, with its own [`Self::headers`]; `now` is the time of appending.
    pub fn as_new<'b>(&'b self, headers: &'b [Header<'b>], now: Timestamp) -> NewRecord<'b> {
        NewRecord {
            timestamp: self.timestamp.unwrap_or(now),
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
        }
    }
}

/// Reads one line, which comes without its terminator. Of a value alone nothing is copied, and nothing is allocated.
///
/// # Errors
/// Why the line is no record; never for [`LineFormat::Text`], [`LineFormat::Nul`] and [`LineFormat::Blob`].
pub fn parse(format: LineFormat, line: &[u8]) -> Result<LineRecord<'_>, LineError> {
    match format {
        LineFormat::Text | LineFormat::Nul | LineFormat::Blob => {
            Ok(LineRecord { value: Some(Cow::Borrowed(line)), ..LineRecord::default() })
        }
        LineFormat::Tsv => tsv::parse(line),
        LineFormat::Jsonl => jsonl::parse(line),
    }
}

/// A timestamp as it is written; the one that stands for none is none.
fn some_time(ms: i64) -> Option<Timestamp> {
    Some(Timestamp(ms)).filter(|timestamp| !timestamp.is_none())
}

#[cfg(test)]
mod tests;
