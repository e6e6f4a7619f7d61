//! `topicfs verify`

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use indicatif::ProgressBar;
use serde::Serialize;

use super::FOUND_WRONG;
use super::args::{ReportFormat, VerifyArgs};
use super::progress;
use crate::config::Caller;
use crate::log::problem::{Problem, Severity};
use crate::log::side_by_side::Crew;
use crate::log::source::Source;
use crate::log::verify::{self, Counts, Plan, Report};

/// A problem as an object; its keys and their order are documented in `docs/verify.md`.
#[derive(Serialize)]
struct Line<'a> {
    file: &'a str,
    position: u64,
    length: u64,
    offset: Option<i64>,
    kind: &'static str,
    severity: &'static str,
    cause: &'a str,
}

/// The summary as an object.
#[derive(Serialize)]
struct Summary {
    partitions: u64,
    segments: u64,
    batches: u64,
    records: u64,
    bytes: u64,
    problems: u64,
    notes: u64,
}

/// Checks everything of each SOURCE, and prints one line for each problem.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.load(Caller::Person)?;
    let options = config.options.of_source();
    // All are opened before any is read: a wrong name is told at once.
    let mut sources = Vec::new();
    for spec in &args.sources {
        sources.push(if verify::is_single_file(Path::new(spec)) {
            None
        } else {
            Some(Source::open(spec, options)?)
        });
    }
    let mut total = Counts::default();
    let mut out = io::BufWriter::new(io::stdout());
    for (spec, source) in args.sources.iter().zip(&sources) {
        let result = match source {
            Some(source) => check(args, source, &mut out, &mut total),
            None => print(args, &mut out, &verify::single_file(Path::new(spec), options), &mut total),
        };
        result.context("standard output")?;
    }
    out.flush().context("standard output")?;
    if !args.quiet {
        eprintln!("{}", summary(args.format, &total));
    }
    Ok(if total.problems > 0 { ExitCode::from(FOUND_WRONG) } else { ExitCode::SUCCESS })
}

/// Checks one source, with a bar on a terminal.
fn check(
    args: &VerifyArgs,
    source: &Source,
    out: &mut (impl Write + Send),
    total: &mut Counts,
) -> io::Result<()> {
    let plan = Plan::new(source);
    let bar = if args.quiet { ProgressBar::hidden() } else { progress::bar(plan.bytes().unwrap_or(0)) };
    let threads = Crew::of_all_processors().threads;
    let mut result = Ok(());
    plan.run(threads, &|bytes| bar.inc(bytes), &mut |report| {
        if result.is_ok() && !report.problems.is_empty() {
            result =
                bar.suspend(|| print(args, out, &report, &mut Counts::default()).and_then(|()| out.flush()));
        }
        total.add(&report.counts);
    });
    bar.finish_and_clear();
    result
}

/// Prints a report and adds it up.
fn print(args: &VerifyArgs, out: &mut impl Write, report: &Report, total: &mut Counts) -> io::Result<()> {
    total.add(&report.counts);
    for problem in &report.problems {
        if args.quiet && problem.kind.severity() == Severity::Note {
            continue;
        }
        let file = problem.file.to_string_lossy();
        match args.format {
            ReportFormat::Text => out.write_all(problem.line(&file).as_bytes())?,
            ReportFormat::Json => {
                let Problem { position, len, kind, cause, .. } = problem;
                let line = Line {
                    file: &file,
                    position: position.0,
                    length: *len,
                    offset: problem.offset.map(|offset| offset.0),
                    kind: kind.name(),
                    severity: kind.severity().name(),
                    cause,
                };
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}

/// What was checked and found, on one line.
fn summary(format: ReportFormat, counts: &Counts) -> String {
    let Counts { partitions, segments, batches, records, bytes, problems, notes } = *counts;
    if let ReportFormat::Json = format {
        let summary = Summary { partitions, segments, batches, records, bytes, problems, notes };
        return serde_json::to_string(&summary).unwrap_or_default();
    }
    let of = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {}, {} with {}, {}: {}, {}",
        of(partitions, "partition"),
        of(segments, "segment"),
        if batches == 1 { "1 batch".to_owned() } else { format!("{batches} batches") },
        of(records, "record"),
        of(bytes, "byte"),
        of(problems, "problem"),
        of(notes, "note"),
    )
}
