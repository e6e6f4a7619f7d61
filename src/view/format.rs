//! The formats that a record can be rendered in.

use crate::format::record::Record;
use crate::units::TopicPartition;
use crate::view::{jsonl, text, tsv};

/// How the records of a file are rendered; the file's extension says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// No extension, or `.txt`: the value, then a newline.
    Text,
    /// `.jsonl`: one JSON object a line.
    Jsonl,
    /// `.tsv`: offset, timestamp, key, value with PostgreSQL's COPY escapes.
    Tsv,
    /// `.log`: the whole batches that hold the records, byte for byte: a valid segment.
    Log,
    /// `.dump`: the lines of kafka-dump-log for the whole batches that hold the records.
    Dump,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Text, Self::Jsonl, Self::Tsv, Self::Log, Self::Dump];

    /// The extension, without a dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Text => "txt",
            Self::Jsonl => "jsonl",
            Self::Tsv => "tsv",
            Self::Log => "log",
            Self::Dump => "dump",
        }
    }

    /// Whether it is made of whole batches, those without visible records too.
    pub const fn is_of_batches(self) -> bool {
        matches!(self, Self::Log | Self::Dump)
    }

    /// The format of an extension.
    pub fn of_extension(extension: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.extension() == extension)
    }
}

/// What rendering depends on besides the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Encodings {
    /// A key that is JSON is inlined as `key_json`.
    pub key_json: bool,
    /// A value that is JSON is inlined as `value_json`.
    pub value_json: bool,
}

/// Renders the records of one partition.
#[derive(Debug, Clone)]
pub struct Renderer {
    /// `{"topic":"orders","partition":0,"offset":`
    pub(crate) json_prefix: Vec<u8>,
    pub(crate) encodings: Encodings,
}

impl Renderer {
    /// A renderer of the records of `name`.
    pub fn new(name: &TopicPartition, encodings: Encodings) -> Self {
        Self { json_prefix: jsonl::prefix(name), encodings }
    }

    /// Appends `record` in `format` to `out`. What is made of batches ([`Format::is_of_batches`]) gets nothing from
    /// records.
    pub fn render(&self, format: Format, record: &Record<'_>, out: &mut Vec<u8>) {
        match format {
            Format::Text => text::render(record, out),
            Format::Jsonl => jsonl::render(self, record, out),
            Format::Tsv => tsv::render(record, out),
            Format::Log | Format::Dump => {}
        }
    }

    /// The number of bytes that [`Self::render`] would append; `scratch` is overwritten.
    pub fn measure(&self, format: Format, record: &Record<'_>, scratch: &mut Vec<u8>) -> u64 {
        match format {
            Format::Text => return text::len(record),
            Format::Log | Format::Dump => return 0,
            Format::Jsonl => {
                if let Some(len) = jsonl::len(self, record) {
                    return len;
                }
            }
            Format::Tsv => {}
        }
        scratch.clear();
        self.render(format, record, scratch);
        scratch.len() as u64
    }

    /// What the bytes of `format` depend on: two renderers with the same number render the same.
    pub fn fingerprint(&self, format: Format) -> u32 {
        /// Raised whenever a format's bytes change.
        const VERSION: u8 = 1;
        let mut key = vec![VERSION, u8::from(self.encodings.key_json), u8::from(self.encodings.value_json)];
        key.extend_from_slice(format.extension().as_bytes());
        key.extend_from_slice(&self.json_prefix);
        crc32c::crc32c(&key)
    }
}
