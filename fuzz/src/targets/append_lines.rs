//! Lines of append files: what is taken for a record is that record in a batch, and reads as the same when it is rendered; the pieces
//! that it is written in change nothing.

use topicfs::format::batch::{Batch, Codec, Decoder};
use topicfs::format::batch_builder::BatchBuilder;
use topicfs::format::compression::encoder::Compression;
use topicfs::units::{LeaderEpoch, Offset, Timestamp, TopicPartition};
use topicfs::view::format::{Format, Renderer, Rendering};
use topicfs::view::lines::assembler::{LineAssembler, LineEnd};
use topicfs::view::lines::{LineFormat, parse};

use crate::LIMITS;

/// A format, where the first write ends, and what is written.
pub fn check(data: &[u8]) {
    let [format, cut, written @ ..] = data else { return };
    let format = LineFormat::ALL[usize::from(*format) % LineFormat::ALL.len()];
    let (first, second) = written.split_at(usize::from(*cut).min(written.len()));
    let whole = lines(format, &[written]);
    assert_eq!(lines(format, &[first, second]), whole, "pieces change the lines");
    for line in &whole {
        check_line(format, line);
    }
}

/// The lines of some writes, and what is left.
fn lines(format: LineFormat, writes: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut assembler = LineAssembler::new(format, 1 << 20);
    let mut lines = Vec::new();
    for bytes in writes {
        let pending = assembler.begin(bytes);
        let mut done = LineEnd::NONE;
        for line in pending.lines() {
            lines.push(line.bytes.to_vec());
            done = line.end;
        }
        assert_eq!(pending.commit(done).expect("it is short"), bytes.len());
    }
    lines.push(assembler.take_rest());
    lines
}

fn check_line(format: LineFormat, line: &[u8]) {
    let record = match parse(format, line) {
        Ok(record) => record,
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() < 400 && !message.contains(char::is_control), "{message:?}");
            return;
        }
    };
    let built = batch(&record.as_new(&record.headers(), Timestamp(5)));
    let name = TopicPartition { topic: "tea".into(), partition: 7 };
    let renderer = Renderer::new(&name, Rendering::default());
    let rendered = rendered(&renderer, Format::Jsonl, &built);
    assert_eq!(reread(LineFormat::Jsonl, &rendered), built, ".jsonl reads as another record");
    if record.headers.is_empty() {
        let rendered = self::rendered(&renderer, Format::Tsv, &built);
        assert_eq!(reread(LineFormat::Tsv, &rendered), built, ".tsv reads as another record");
    }
}

fn batch(record: &topicfs::format::batch_builder::NewRecord<'_>) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression { codec: Codec::None, level: None });
    assert!(builder.push(record, usize::MAX));
    builder.finish(Offset(3), LeaderEpoch(0)).expect("there is no codec").to_vec()
}

fn rendered(renderer: &Renderer, format: Format, batch: &[u8]) -> Vec<u8> {
    let batch = Batch::parse(batch).expect("it is sound");
    let mut decoder = Decoder::default();
    let mut out = Vec::new();
    for record in batch.records(&mut decoder, &LIMITS).expect("it is sound") {
        renderer.render(format, &record.expect("it is sound"), &mut out);
    }
    assert_eq!(out.pop(), Some(b'\n'));
    out
}

fn reread(format: LineFormat, line: &[u8]) -> Vec<u8> {
    let record = parse(format, line).expect("it was rendered");
    batch(&record.as_new(&record.headers(), Timestamp(5)))
}
