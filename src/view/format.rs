//! The formats that a record can be rendered in.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::TimeZone;

use crate::format::crc32c::crc32c;
use crate::format::record::Record;
use crate::units::TopicPartition;
use crate::view::encoding::Encodings;
use crate::view::template::Template;
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
    /// A name from `formats:`: what the user wrote there.
    Template(TemplateId),
}

/// A template's place among [`Formats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId(u8);

/// The formats of our own and their extensions, without a dot.
const BUILT_IN: [(Format, &str); 5] = [
    (Format::Text, "txt"),
    (Format::Jsonl, "jsonl"),
    (Format::Tsv, "tsv"),
    (Format::Log, "log"),
    (Format::Dump, "dump"),
];

/// Other extensions that mean something, or will, so that no template may have their names.
const RESERVED: [&str; 3] = ["json", "key", "follow"];

/// The most templates of one mount: of each segment the places of its blocks are kept in each format that is read.
const MAX_TEMPLATES: usize = 32;
/// The longest name of a template: file names have it at their end.
const MAX_NAME: usize = 32;

impl Format {
    /// Whether it is made of whole batches, those without visible records too.
    pub const fn is_of_batches(self) -> bool {
        matches!(self, Self::Log | Self::Dump)
    }
}

/// The formats of a mount: those of our own, and the user's templates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Formats {
    templates: Vec<(String, Template)>,
}

/// Why a template can't have a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It isn't one.
    #[error("a name of a format is a letter and up to {} letters, digits, `_` and `-`", MAX_NAME - 1)]
    Shape,
    /// It means something else.
    #[error("`{0}` is a format of topicfs itself")]
    Reserved(String),
    /// Another template has it.
    #[error("`{0}` is set twice")]
    Taken(String),
    /// There are too many.
    #[error("more than {MAX_TEMPLATES} formats")]
    TooMany,
}

impl Formats {
    /// Checks that a template may have `name`.
    ///
    /// # Errors
    /// Why not.
    pub fn check_name(&self, name: &str) -> Result<(), NameError> {
        let begins = name.starts_with(|first: char| first.is_ascii_alphabetic());
        let fits = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if !begins || !fits || name.len() > MAX_NAME {
            return Err(NameError::Shape);
        }
        let mut reserved = BUILT_IN.iter().map(|(_, extension)| *extension).chain(RESERVED);
        if reserved.any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            return Err(NameError::Reserved(name.to_owned()));
        }
        if self.templates.iter().any(|(taken, _)| taken == name) {
            return Err(NameError::Taken(name.to_owned()));
        }
        if self.templates.len() >= MAX_TEMPLATES { Err(NameError::TooMany) } else { Ok(()) }
    }

    /// Adds a template under a name.
    ///
    /// # Errors
    /// Those of [`Self::check_name`].
    pub fn add(&mut self, name: &str, template: Template) -> Result<(), NameError> {
        self.check_name(name)?;
        self.templates.push((name.to_owned(), template));
        Ok(())
    }

    /// The user's templates and their names, in the order in which they were added.
    pub fn templates(&self) -> impl Iterator<Item = (&str, &Template)> {
        self.templates.iter().map(|(name, template)| (name.as_str(), template))
    }

    /// All formats.
    pub fn iter(&self) -> impl Iterator<Item = Format> {
        let ids = (0..).map(|id| Format::Template(TemplateId(id)));
        BUILT_IN.iter().map(|(format, _)| *format).chain(ids.take(self.templates.len()))
    }

    /// The extensions, without dots, in the order of [`Self::iter`].
    pub fn extensions(&self) -> impl Iterator<Item = &str> {
        let own = BUILT_IN.iter().map(|(_, extension)| *extension);
        own.chain(self.templates.iter().map(|(name, _)| name.as_str()))
    }

    /// The format of an extension.
    pub fn of_extension(&self, extension: &str) -> Option<Format> {
        self.iter().zip(self.extensions()).find(|(_, own)| *own == extension).map(|(format, _)| format)
    }

    /// The extension of a format, without a dot.
    pub fn extension(&self, format: Format) -> &str {
        self.iter()
            .zip(self.extensions())
            .find(|(own, _)| *own == format)
            .map_or("", |(_, extension)| extension)
    }

    fn template(&self, id: TemplateId) -> Option<&Template> {
        self.templates.get(usize::from(id.0)).map(|(_, template)| template)
    }
}

/// What rendering depends on besides the record and its partition.
#[derive(Debug, Clone)]
pub struct Rendering {
    /// How keys and values are written.
    pub encodings: Encodings,
    /// The timezone of times that are for people.
    pub timezone: TimeZone,
    /// The formats.
    pub formats: Arc<Formats>,
}

impl Default for Rendering {
    fn default() -> Self {
        Self { encodings: Encodings::default(), timezone: TimeZone::UTC, formats: Arc::default() }
    }
}

/// Renders the records of one partition.
#[derive(Debug, Clone)]
pub struct Renderer {
    pub(crate) name: TopicPartition,
    /// `{"topic":"orders","partition":0,"offset":`
    pub(crate) json_prefix: Vec<u8>,
    pub(crate) encodings: Encodings,
    timezone: TimeZone,
    formats: Arc<Formats>,
}

impl Renderer {
    /// A renderer of the records of `name`.
    pub fn new(name: &TopicPartition, rendering: Rendering) -> Self {
        let Rendering { encodings, timezone, formats } = rendering;
        Self { name: name.clone(), json_prefix: jsonl::prefix(name), encodings, timezone, formats }
    }

    /// Appends `record` in `format` to `out`. What is made of batches ([`Format::is_of_batches`]) gets nothing from
    /// records.
    pub fn render(&self, format: Format, record: &Record<'_>, out: &mut Vec<u8>) {
        match format {
            Format::Text => text::render(self.encodings.value, record, out),
            Format::Jsonl => jsonl::render(self, record, out),
            Format::Tsv => tsv::render(self.encodings, record, out),
            Format::Log | Format::Dump => {}
            Format::Template(id) => {
                if let Some(template) = self.formats.template(id) {
                    template.render(self, record, out);
                }
            }
        }
    }

    /// The number of bytes that [`Self::render`] would append; `scratch` is overwritten.
    pub fn measure(&self, format: Format, record: &Record<'_>, scratch: &mut Vec<u8>) -> u64 {
        match format {
            Format::Text => return text::len(self.encodings.value, record),
            Format::Log | Format::Dump => return 0,
            Format::Jsonl => {
                if let Some(len) = jsonl::len(self, record) {
                    return len;
                }
            }
            Format::Template(id) => {
                return self.formats.template(id).map_or(0, |template| template.len(self, record));
            }
            Format::Tsv => {}
        }
        scratch.clear();
        self.render(format, record, scratch);
        scratch.len() as u64
    }

    /// A timestamp as ISO 8601 in the topic's timezone; `None` for no timestamp, or one beyond what a calendar has.
    pub fn iso(&self, ms: i64) -> Option<String> {
        let time = Timestamp::from_millisecond(ms).ok().filter(|_| ms != -1)?;
        if self.timezone == TimeZone::UTC {
            return Some(format!("{time:.3}"));
        }
        let (mut text, offset) = (String::new(), self.timezone.to_offset(time));
        DateTimePrinter::new()
            .precision(Some(3))
            .print_timestamp_with_offset(&time, offset, &mut text)
            .ok()
            .map(|()| text)
    }

    /// Each format with a number for what its bytes depend on: two renderers with the same number render the same.
    pub fn fingerprints(&self) -> Vec<(Format, u32)> {
        self.formats.iter().map(|format| (format, self.fingerprint(format))).collect()
    }

    fn fingerprint(&self, format: Format) -> u32 {
        /// Raised whenever a format's bytes change.
        const VERSION: u8 = 1;
        let template = match format {
            Format::Template(id) => self.formats.template(id),
            _ => None,
        };
        let mut key = Vec::new();
        match template {
            None => {
                let Encodings { key: keys, value: values } = self.encodings;
                key.extend_from_slice(&[VERSION, keys.number(), values.number()]);
                key.extend_from_slice(self.formats.extension(format).as_bytes());
            }
            Some(template) => {
                key.extend_from_slice(&[VERSION, u8::MAX, u8::MAX]);
                for text in [self.timezone.iana_name().unwrap_or_default(), template.text()] {
                    key.extend_from_slice(&(text.len() as u64).to_be_bytes());
                    key.extend_from_slice(text.as_bytes());
                }
            }
        }
        key.extend_from_slice(&self.json_prefix);
        crc32c(&key)
    }
}
