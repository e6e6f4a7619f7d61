//! What is rendered reads as the same record.

use proptest::prelude::*;

use super::*;
use crate::format::batch::{Batch, Codec, Limits};
use crate::format::batch_builder::BatchBuilder;
use crate::format::compression::Decoder;
use crate::format::compression::encoder::Compression;
use crate::units::{LeaderEpoch, Offset, TopicPartition};
use crate::view::encoding::{Encoding, Encodings};
use crate::view::format::{Format, Renderer, Rendering};
use crate::view::jsonl::{as_json, push_minified};

type Bytes = Option<Vec<u8>>;

/// A record and all that it owns.
#[derive(Debug, Clone)]
struct Plain {
    timestamp: i64,
    key: Bytes,
    value: Bytes,
    headers: Vec<(Vec<u8>, Bytes)>,
}

impl Plain {
    /// As a batch of its own: two records are the same if these are.
    fn batch(&self) -> Vec<u8> {
        let headers = self.headers.iter();
        let headers: Vec<_> = headers.map(|(name, value)| Header { name, value: value.as_deref() }).collect();
        batch(&NewRecord {
            timestamp: Timestamp(self.timestamp),
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: &headers,
        })
    }

    /// As a line, without its newline.
    fn line(&self, format: Format, encodings: Encodings) -> Vec<u8> {
        let name = TopicPartition { topic: "t\"\n".into(), partition: 3 };
        let renderer = Renderer::new(&name, Rendering { encodings, ..Rendering::default() });
        let (batch, mut decoder, mut line) = (self.batch(), Decoder::default(), Vec::new());
        let batch = Batch::parse(&batch).unwrap();
        for record in batch.records(&mut decoder, &Limits::default()).unwrap() {
            renderer.render(format, &record.unwrap(), &mut line);
        }
        assert_eq!(line.pop(), Some(b'\n'));
        assert!(!line.contains(&b'\n'));
        line
    }

    /// What is left of it where its JSON loses the white space.
    fn minified(&self, encodings: Encodings) -> Self {
        let of = |bytes: &Bytes, encoding| match bytes.as_deref().and_then(as_json) {
            Some(json) if encoding == Encoding::Json => {
                let mut out = Vec::new();
                push_minified(json, &mut out);
                Some(out)
            }
            _ => bytes.clone(),
        };
        let (key, value) = (of(&self.key, encodings.key), of(&self.value, encodings.value));
        Self { key, value, ..self.clone() }
    }
}

fn batch(record: &NewRecord<'_>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression { codec: Codec::None, level: None });
    assert!(builder.push(record, usize::MAX));
    builder.finish(Offset(7), LeaderEpoch(0)).unwrap().to_vec()
}

/// The line's record as a batch of its own.
fn read(format: LineFormat, line: &[u8]) -> Result<Vec<u8>, LineError> {
    let record = parse(format, line)?;
    let headers = record.headers();
    Ok(batch(&record.as_new(&headers, Timestamp::NONE)))
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let json = prop::sample::select(vec![
        "null",
        " { \"a\" : [ 1.50, \"x y\\\" \\\\\" ] } ",
        "\"\\ud800\u{7f}\u{9b}\u{a0}\"",
        "[[],{},true]",
        "-0e10",
        "{\"base64\":\"AA==\"}",
        "{\n\"hex\" :\t\"00\"}",
    ]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        any::<String>().prop_map(String::into_bytes),
        "[\\\\Ntrnx0-7\t\r\n\"]{0,8}".prop_map(String::into_bytes),
        json.prop_map(|json| json.as_bytes().to_vec()),
    ]
}

fn record() -> impl Strategy<Value = Plain> {
    let nullable = || prop::option::weighted(0.8, bytes());
    let timestamp = prop_oneof![0..1_i64 << 42, Just(-1), Just(i64::MIN), Just(i64::MAX), -9..9_i64];
    let headers = prop_oneof![Just(Vec::new()), prop::collection::vec((bytes(), nullable()), 0..4)];
    (timestamp, nullable(), nullable(), headers).prop_map(|(timestamp, key, value, headers)| Plain {
        timestamp,
        key,
        value,
        headers,
    })
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

const ENCODINGS: [Encoding; 4] = [Encoding::Text, Encoding::Base64, Encoding::Hex, Encoding::Json];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_jsonl_shows_reads_as_the_same_record(
        record in record(),
        key in prop::sample::select(&ENCODINGS[..]),
        value in prop::sample::select(&ENCODINGS[..]),
    ) {
        let encodings = Encodings { key, value };
        let line = record.line(Format::Jsonl, encodings);
        prop_assert_eq!(read(LineFormat::Jsonl, &line), Ok(record.minified(encodings).batch()));
    }

    #[test]
    fn what_tsv_shows_reads_as_the_same_record(record in record(), encoding in 0..2_usize) {
        let encoding = [Encoding::Text, Encoding::Json][encoding];
        let line = record.line(Format::Tsv, Encodings { key: encoding, value: encoding });
        let record = Plain { headers: Vec::new(), ..record };
        prop_assert_eq!(read(LineFormat::Tsv, &line), Ok(record.batch()));
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error_with_a_short_message(
        line in prop_oneof![
            bytes(),
            (record(), 0..200_usize, any::<u8>()).prop_map(|(record, at, byte)| {
                let mut line = record.line(Format::Jsonl, Encodings::default());
                let at = at % line.len();
                line[at] = byte;
                line
            }),
        ],
    ) {
        for format in LineFormat::ALL {
            if let Err(error) = parse(format, &line) {
                let message = error.to_string();
                prop_assert!(message.chars().count() < 250 && !message.chars().any(char::is_control), "{message}");
            }
        }
    }
}

#[test]
fn a_value_is_its_line() {
    for format in [LineFormat::Text, LineFormat::Nul, LineFormat::Blob] {
        for line in [&b""[..], b"\\N", b"{}\r", b"\n\0\xff"] {
            let record = parse(format, line).unwrap();
            assert!(matches!(record.value, Some(Cow::Borrowed(value)) if value == line));
            assert_eq!(LineRecord { value: None, ..record }, LineRecord::default());
        }
    }
}

#[test]
fn extensions_are_those_of_the_append_files() {
    for format in LineFormat::ALL {
        assert_eq!(
            format.extension().and_then(LineFormat::from_extension),
            format.extension().map(|_| format)
        );
    }
    assert_eq!(LineFormat::from_extension(""), None);
    assert_eq!(LineFormat::from_extension("txt"), None);
}

#[test]
fn a_time_of_its_own_is_kept() {
    let now = Timestamp(5);
    let of = |line: &str| parse(LineFormat::Jsonl, line.as_bytes()).unwrap().as_new(&[], now).timestamp;
    assert_eq!((of(r#"{"timestamp":3}"#), of("{}")), (Timestamp(3), now));
}
