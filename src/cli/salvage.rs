//! `topicfs salvage`

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::FOUND_WRONG;
use super::args::{ReportFormat, SalvageArgs};
use super::progress;
use crate::config::{Caller, Config};
use crate::log::LogError;
use crate::log::salvage::plan::{self, Job, Plan};
use crate::log::salvage::report::{Kept, Left, LeftOut, Offsets, PartitionReport, Report};
use crate::log::salvage::{self, LeaderEpochs, Writing, copy};
use crate::log::side_by_side::Crew;
use crate::log::source::Source;

/// Writes what is sound of a source as clean data directories, and says what was kept and what was left.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &SalvageArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(args.config.as_deref(), &args.options, Caller::Person)?.options;
    let source = Source::open(&args.source, config.of_source())?;
    let plan = plan::plan(&source, &args.partitions, &args.out)?;
    plan::check_destination(&source, &args.out)?;
    let writing = if args.dry_run { Writing::Nothing } else { Writing::Files };
    let leader_epochs = if args.reset_epochs { LeaderEpochs::Reset } else { LeaderEpochs::Keep };
    let options = salvage::Options { writing, leader_epochs, ..salvage::Options::default() };
    if writing == Writing::Files {
        plan.create(&args.out)?;
    }
    let partitions = copy_all(&plan, &options)?;
    let report = plan.finish(partitions, &options)?;
    let text = match args.format {
        ReportFormat::Text => text_of(&report, writing),
        ReportFormat::Json => format!("{:#}\n", json_of(&report, writing)),
    };
    io::stdout().write_all(text.as_bytes())?;
    Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(FOUND_WRONG) })
}

/// Copies all partitions, several at once; the first error ends it.
fn copy_all(plan: &Plan, options: &salvage::Options) -> Result<Vec<PartitionReport>, LogError> {
    let bar = progress::bar(bytes_of(plan)?);
    let has_failed = AtomicBool::new(false);
    let copy_one = |job: &Job| {
        // Its turn to be told of may be far off yet.
        if has_failed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        bar.set_message(job.partition.name.to_string());
        let report = copy::partition(job, options, &|bytes| bar.inc(bytes));
        has_failed.fetch_or(report.is_err(), Ordering::Relaxed);
        report.map(Some)
    };
    let mut reports = Vec::new();
    let copied = Crew::of_all_processors().each(&plan.jobs, copy_one, |report| {
        reports.extend(report?);
        Ok(())
    });
    bar.finish_and_clear();
    copied.map(|()| reports)
}

/// Bytes of logs to read.
fn bytes_of(plan: &Plan) -> Result<u64, LogError> {
    let mut bytes = 0;
    for job in &plan.jobs {
        for segment in job.partition.segments()?.iter() {
            bytes += segment.stored_len()?;
        }
    }
    Ok(bytes)
}

fn text_of(report: &Report, writing: Writing) -> String {
    let mut text = String::new();
    for partition in &report.partitions {
        add_partition(&mut text, partition);
    }
    for left in &report.left_out {
        let _ = writeln!(text, "left out: {}: {}", left.path.display(), left.cause);
    }
    let (kept, (pieces, bytes)) = (report.kept(), report.left());
    let verb = if writing == Writing::Files { "kept" } else { "would keep" };
    let partitions = report.partitions.len();
    let _ = writeln!(text, "{verb} {} partitions, {}", partitions, counts(&kept));
    let _ = writeln!(text, "left {pieces} pieces, {bytes} bytes");
    text
}

fn add_partition(text: &mut String, partition: &PartitionReport) {
    let PartitionReport { partition: name, kept, log_start, log_end, .. } = partition;
    let _ = write!(text, "{name}: kept {}, log start {log_start}, log end {log_end}", counts(kept));
    if kept.absent > 0 {
        let _ = write!(text, ", {} offsets between are in no batch", kept.absent);
    }
    text.push('\n');
    for left in &partition.left {
        let Left { file, position, bytes, cause, .. } = left;
        let offsets = left.offsets.map_or_else(|| "no offsets".to_owned(), range);
        let _ = writeln!(text, "  left {file} at {position}, {bytes} bytes, {offsets}: {cause}");
    }
    if let (pieces @ 1.., bytes) = partition.more_left {
        let _ = writeln!(text, "  left {pieces} more pieces, {bytes} bytes");
    }
    for (first, producer) in &partition.open {
        let _ = writeln!(text, "  open transaction of producer {} since offset {first}", producer.0);
    }
    for note in &partition.notes {
        let _ = writeln!(text, "  note: {note}");
    }
}

fn counts(kept: &Kept) -> String {
    let Kept { segments, batches, records, bytes, .. } = kept;
    format!("{segments} segments, {batches} batches, {records} records, {bytes} bytes")
}

fn range(offsets: Offsets) -> String {
    match offsets.last {
        Some(last) => format!("offsets {} to {last}", offsets.first),
        None => format!("offsets from {}", offsets.first),
    }
}

fn json_of(report: &Report, writing: Writing) -> Value {
    let (pieces, bytes) = report.left();
    let left_out =
        |left: &LeftOut| json!({"path": left.path.to_string_lossy(), "name": left.name, "cause": left.cause});
    json!({
        "written": writing == Writing::Files,
        "partitions": report.partitions.iter().map(partition_json).collect::<Vec<_>>(),
        "leftOut": report.left_out.iter().map(left_out).collect::<Vec<_>>(),
        "kept": kept_json(&report.kept()),
        "left": {"pieces": pieces, "bytes": bytes},
    })
}

fn partition_json(partition: &PartitionReport) -> Value {
    let open = |(first, producer): &(_, _)| open_json(*first, *producer);
    json!({
        "topic": partition.partition.topic,
        "partition": partition.partition.partition,
        "source": partition.source.to_string_lossy(),
        "directory": partition.directory.to_string_lossy(),
        "kept": kept_json(&partition.kept),
        "firstOffset": partition.kept.offsets.map(|(first, _)| first.0),
        "lastOffset": partition.kept.offsets.map(|(_, last)| last.0),
        "absentOffsets": partition.kept.absent,
        "logStart": partition.log_start.0,
        "logEnd": partition.log_end.0,
        "highWatermark": partition.high_watermark.map(|mark| mark.0),
        "left": partition.left.iter().map(left_json).collect::<Vec<_>>(),
        "moreLeft": {"pieces": partition.more_left.0, "bytes": partition.more_left.1},
        "openTransactions": partition.open.iter().map(open).collect::<Vec<_>>(),
        "notes": partition.notes,
    })
}

fn open_json(first: crate::units::Offset, producer: crate::units::ProducerId) -> Value {
    json!({"firstOffset": first.0, "producerId": producer.0})
}

fn kept_json(kept: &Kept) -> Value {
    let Kept { segments, batches, records, bytes, .. } = kept;
    json!({"segments": segments, "batches": batches, "records": records, "bytes": bytes})
}

fn left_json(left: &Left) -> Value {
    json!({
        "file": left.file,
        "position": left.position,
        "bytes": left.bytes,
        "firstOffset": left.offsets.map(|offsets| offsets.first.0),
        "lastOffset": left.offsets.and_then(|offsets| offsets.last).map(|last| last.0),
        "cause": left.cause,
    })
}
