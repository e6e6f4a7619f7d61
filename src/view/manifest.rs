//! The summary of each file of a source, one line a file: text with tabs, JSON, or what `sha256sum -c` reads.
//!
//! | column | key in JSON | is |
//! |---|---|---|
//! | 1 | `sha256` | the checksum |
//! | 2 | `size` | bytes |
//! | 3 | `mtime` | when it was last written to, UTC, with nanoseconds |
//! | 4 | `kind`, `state` | what it is, a word of [`FileKind::WORDS`]; `.deleted`, `.cleaned` or `.swap` behind it |
//! | 5, 6 | `first_offset`, `last_offset` | of a segment: of its first and last batch |
//! | 7, 8 | `first_timestamp`, `max_timestamp` | of its first record; the largest. UTC in text, milliseconds in JSON |
//! | 9 | `records`, `control_records` | records, and control records: `58+2` |
//! | 10 | `batches`, `magics` | batches; in JSON by magic too |
//! | 11 | `codecs` | batches of each codec: `lz4=3,none=1` |
//! | 12 | `producers`, `producer_ids` | how many producer ids, and the first of them |
//! | 13 | `epochs`, `leader_epochs` | the same of leader epochs |
//! | 14 | `tail`, `damage`, `error` | how it ends, and what is wrong |
//! | 15 | `path` | the path, beginning with the SOURCE |
//!
//! What a file doesn't have is `-`, in JSON null.

use std::fmt::{Display, Write as _};
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;

use crate::format::file_kind::FileKind;
use crate::format::names::FileState;
use crate::log::files::hashing::Sum;
use crate::log::manifest::{Contents, DamageSummary, Depth, Distinct, Entry};
use crate::units::Timestamp;
use crate::view::info::tail_name;
use crate::view::record_json::{Bytes, escape_controls, iso};

/// Producer ids and leader epochs that a line names; their count tells how many there are.
const MAX_NAMED: usize = 16;

/// How a manifest is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Columns with tabs between, and a first line that names them.
    Text,
    /// A JSON object a line.
    Json,
    /// As `sha256sum` prints it.
    Sha256sum,
}

/// The columns of [`Form::Text`].
const COLUMNS: [&str; 15] = [
    "sha256",
    "size",
    "mtime",
    "kind",
    "first_offset",
    "last_offset",
    "first_timestamp",
    "max_timestamp",
    "records",
    "batches",
    "codecs",
    "producers",
    "epochs",
    "state",
    "path",
];

impl Form {
    /// What has to be found out of a file.
    pub const fn depth(self) -> Depth {
        match self {
            Self::Text | Self::Json => Depth::Contents,
            Self::Sha256sum => Depth::Checksum,
        }
    }

    /// What comes before the first file.
    pub fn head(self) -> String {
        match self {
            Self::Text => format!("#{}\n", COLUMNS.join("\t")),
            Self::Json | Self::Sha256sum => String::new(),
        }
    }

    /// Appends the line of one file; `sha256sum` has none for what has no checksum.
    pub fn render(self, entry: &Entry, out: &mut Vec<u8>) {
        match self {
            Self::Text => text(entry, out),
            Self::Json => json(entry, out),
            Self::Sha256sum => sha256sum(entry, out),
        }
    }
}

fn sha256sum(entry: &Entry, out: &mut Vec<u8>) {
    let Some(sum) = &entry.sha256 else { return };
    let path = entry.path.as_os_str().as_bytes();
    // GNU's rule: a backslash before the line says that the name is escaped.
    if path.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r')) {
        out.push(b'\\');
    }
    out.extend_from_slice(hex(sum).as_bytes());
    out.extend_from_slice(b"  ");
    for byte in path {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            _ => out.push(*byte),
        }
    }
    out.push(b'\n');
}

fn text(entry: &Entry, out: &mut Vec<u8>) {
    let Entry { path, kind, contents, .. } = entry;
    let contents = contents.as_ref();
    let time = |time: Option<Timestamp>| time.and_then(|time| iso(time.0));
    let offsets = contents.and_then(|contents| contents.offsets);
    let columns = [
        entry.sha256.as_ref().map(hex),
        size(entry).map(|size| size.to_string()),
        entry.modified.and_then(modified),
        Some(kind_name(kind)),
        offsets.map(|(first, _)| first.to_string()),
        offsets.map(|(_, last)| last.to_string()),
        time(contents.and_then(|contents| contents.first_timestamp)),
        time(contents.and_then(|contents| contents.max_timestamp)),
        contents.map(|contents| match contents.control_records {
            0 => contents.records.to_string(),
            control => format!("{}+{control}", contents.records),
        }),
        contents.map(|contents| contents.batches().to_string()),
        contents.and_then(codecs),
        contents.and_then(|contents| named(&contents.producers, |id| id.0)),
        contents.and_then(|contents| named(&contents.epochs, |epoch| epoch.0)),
        state(entry),
    ];
    for column in columns {
        escape(column.as_deref().unwrap_or("-").as_bytes(), out);
        out.push(b'\t');
    }
    escape(path.as_os_str().as_bytes(), out);
    out.push(b'\n');
}

/// The bytes that were hashed; a link or a device has none.
fn size(entry: &Entry) -> Option<u64> {
    (!matches!(entry.kind.word, "symlink" | "special")).then_some(entry.len)
}

/// How a segment ends and what is wrong with it, or with reading the file.
fn state(entry: &Entry) -> Option<String> {
    if let Some(error) = &entry.error {
        return Some(format!("unreadable: {error}"));
    }
    let contents = entry.contents.as_ref()?;
    let mut state = tail_name(contents.tail.as_ref()?).to_owned();
    if let Some(DamageSummary { first, cause, places, bytes }) = &contents.damage {
        let plural = if *places == 1 { "" } else { "s" };
        let _ = write!(state, "; {bytes} bytes damaged in {places} place{plural}, first at {first}: {cause}");
    }
    Some(state)
}

fn codecs(contents: &Contents) -> Option<String> {
    let codecs: Vec<_> = contents.codecs.iter().map(|(codec, count)| format!("{codec}={count}")).collect();
    (!codecs.is_empty()).then(|| codecs.join(","))
}

/// `3:7,8,9`: how many there are, and the first of them.
fn named<T, N: Display>(distinct: &Distinct<T>, number: impl Fn(&T) -> N) -> Option<String> {
    let count = distinct.values.len();
    let names: Vec<_> =
        distinct.values.iter().take(MAX_NAMED).map(|value| number(value).to_string()).collect();
    let more = if distinct.has_more { "+" } else { "" };
    let dots = if count > MAX_NAMED { ",..." } else { "" };
    (count > 0).then(|| format!("{count}{more}:{}{dots}", names.join(",")))
}

/// The word for what a file is, with its state as in its name.
fn kind_name(kind: &FileKind) -> String {
    format!("{}{}", kind.word, kind.state.suffix())
}

fn hex(sum: &Sum) -> String {
    sum.iter().fold(String::with_capacity(2 * sum.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn modified((seconds, nanoseconds): (i64, u32)) -> Option<String> {
    let time = jiff::Timestamp::new(seconds, i32::try_from(nanoseconds).ok()?).ok()?;
    Some(format!("{time:.9}"))
}

/// Escapes what would break a line, and what isn't text.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\t' => out.extend_from_slice(b"\\t"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\\' => out.extend_from_slice(b"\\\\"),
                control if control.is_control() => {
                    out.extend_from_slice(format!("\\u{{{:x}}}", u32::from(control)).as_bytes());
                }
                other => out.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for byte in chunk.invalid() {
            out.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
        }
    }
}

/// A line of [`Form::Json`].
#[derive(Serialize)]
struct Line<'a> {
    path: Bytes<'a>,
    sha256: Option<String>,
    size: Option<u64>,
    mtime: Option<String>,
    kind: &'static str,
    state: &'static str,
    first_offset: Option<i64>,
    last_offset: Option<i64>,
    first_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    records: Option<u64>,
    control_records: Option<u64>,
    batches: Option<u64>,
    magics: Option<&'a std::collections::BTreeMap<u8, u64>>,
    codecs: Option<&'a std::collections::BTreeMap<&'static str, u64>>,
    producers: Option<usize>,
    producer_ids: Option<Vec<i64>>,
    epochs: Option<usize>,
    leader_epochs: Option<Vec<i32>>,
    tail: Option<&'static str>,
    damage: Option<DamageLine<'a>>,
    error: Option<&'a str>,
}

/// Its `damage`.
#[derive(Serialize)]
struct DamageLine<'a> {
    places: u64,
    bytes: u64,
    first_position: u64,
    cause: &'a str,
}

fn json(entry: &Entry, out: &mut Vec<u8>) {
    let contents = entry.contents.as_ref();
    let offsets = contents.and_then(|contents| contents.offsets);
    let line = Line {
        path: Bytes::new(entry.path.as_os_str().as_bytes()),
        sha256: entry.sha256.as_ref().map(hex),
        size: size(entry),
        mtime: entry.modified.and_then(modified),
        kind: entry.kind.word,
        state: match entry.kind.state {
            FileState::Live => "live",
            other => other.suffix().trim_start_matches('.'),
        },
        first_offset: offsets.map(|(first, _)| first.0),
        last_offset: offsets.map(|(_, last)| last.0),
        first_timestamp: contents.and_then(|c| c.first_timestamp).map(|time| time.0),
        max_timestamp: contents.and_then(|c| c.max_timestamp).map(|time| time.0),
        records: contents.map(|c| c.records),
        control_records: contents.map(|c| c.control_records),
        batches: contents.map(Contents::batches),
        magics: contents.map(|c| &c.magics),
        codecs: contents.map(|c| &c.codecs),
        producers: contents.map(|c| c.producers.values.len()),
        producer_ids: contents.map(|c| c.producers.values.iter().take(MAX_NAMED).map(|id| id.0).collect()),
        epochs: contents.map(|c| c.epochs.values.len()),
        leader_epochs: contents.map(|c| c.epochs.values.iter().take(MAX_NAMED).map(|e| e.0).collect()),
        tail: contents.and_then(|c| c.tail.as_ref()).map(tail_name),
        damage: contents.and_then(|c| c.damage.as_ref()).map(|damage| DamageLine {
            places: damage.places,
            bytes: damage.bytes,
            first_position: damage.first.0,
            cause: &damage.cause,
        }),
        error: entry.error.as_deref(),
    };
    let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
    escape_controls(&mut bytes);
    out.append(&mut bytes);
    out.push(b'\n');
}
