//! `topicfs append`

use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow};

use super::args::AppendArgs;
use super::own::Configs;
use super::{own, progress};
use crate::config::{Caller, Config};
use crate::format::names::{self, PartitionDir};
use crate::log::append::appender::Appender;
use crate::log::append::owned::OwnedDirectory;
use crate::log::append::{now, topics, written_down};
use crate::units::TopicPartition;
use crate::view::lines::LineFormat;
use crate::view::lines::writer::LineWriter;

/// Bytes that are read at once.
const PIECE: usize = 1024 * 1024;

/// Appends the lines of standard input to a partition.
///
/// # Errors
/// When it could not run, or at the first line that is refused: those before it are appended.
pub fn run(args: &AppendArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.load(Caller::Person)?;
    let (name, format) = target(&args.partition)?;
    let owned = own::own(&args.source, &config)?;
    owned.iter().for_each(own::tell_of_cluster);
    let appender = open(&args.source, &owned, &name, args.create, &config)?;
    let appended = append_all(LineWriter::new(format, appender));
    // What is in the log is closed in order, whatever happened.
    let closed = owned.iter().try_for_each(OwnedDirectory::close);
    let text = appended?;
    closed?;
    eprintln!("{text}");
    Ok(ExitCode::SUCCESS)
}

/// The partition and format that `TOPIC/PARTITION[.FORMAT]` names.
fn target(text: &str) -> anyhow::Result<(TopicPartition, LineFormat)> {
    let expected =
        || anyhow!("{text:?}: expected TOPIC/PARTITION, or that with .jsonl, .tsv, .nul or .blob behind it");
    let (topic, rest) = text.split_once('/').ok_or_else(expected)?;
    let (number, format) = match rest.split_once('.') {
        Some((number, extension)) => (number, LineFormat::from_extension(extension).ok_or_else(expected)?),
        None => (rest, LineFormat::Text),
    };
    let dir = PartitionDir::parse(&format!("{topic}-{number}")).ok_or_else(expected)?;
    if names::INTERNAL_TOPICS.contains(&topic) {
        return Err(anyhow!("{topic}: an internal topic, whose records are Kafka's own"));
    }
    Ok((dir.partition, format))
}

/// Opens a partition where it is, or makes it.
fn open(
    source: &str,
    owned: &[OwnedDirectory],
    name: &TopicPartition,
    create: bool,
    config: &Config,
) -> anyhow::Result<Arc<Appender>> {
    let log_config = Configs::new(source, config).of(name).log_config();
    let mut siblings = Vec::new();
    for directory in owned {
        for (found, path) in written_down::current_partitions(directory.path())? {
            if found == *name {
                return Ok(directory.appender(name, &path, &log_config)?);
            }
            siblings.push((found, path));
        }
    }
    let (Some(directory), true) = (owned.first(), create) else {
        return Err(anyhow!(
            "{}/{}: there is no such partition; --create makes it",
            name.topic,
            name.partition
        ));
    };
    if crate::fs::topics::cluster_of(directory).is_some() && !config.options.allow_cluster_topics {
        return Err(anyhow!(
            "a cluster's directory, whose metadata wouldn't know a new partition; -o allow_cluster_topics makes it"
        ));
    }
    topics::check_name(&name.topic, siblings.iter().map(|(found, _)| &*found.topic))?;
    let same = siblings.iter().filter(|(found, _)| found.topic == name.topic);
    let next = same.clone().map(|(found, _)| found.partition + 1).max().unwrap_or(0);
    if name.partition != next {
        return Err(anyhow!(
            "{}: a topic's partitions have all numbers from 0: the next one is {next}",
            name.topic
        ));
    }
    let id = same.map(|(_, path)| path).find_map(|path| topics::topic_id(path));
    let path = directory.create_partition(name, id.unwrap_or_else(topics::new_topic_id))?;
    Ok(directory.appender(name, &path, &log_config)?)
}

/// Appends all of standard input; what was done, in words.
fn append_all(mut writer: LineWriter) -> anyhow::Result<String> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        eprintln!("topicfs: lines from the terminal; ^D ends them");
    }
    let len = std::fs::metadata("/dev/stdin").map_or(0, |meta| if meta.is_file() { meta.len() } else { 0 });
    let (bar, begun) = (progress::bar(len), Instant::now());
    let (mut piece, mut bytes) = (vec![0; PIECE], 0_u64);
    loop {
        let read = input.read(&mut piece).context("standard input")?;
        if read == 0 {
            break;
        }
        let mut rest = piece.get(..read).unwrap_or_default();
        while !rest.is_empty() {
            let written = writer.write(rest, now());
            bytes += written.bytes as u64;
            rest = rest.get(written.bytes..).unwrap_or_default();
            if let Some(error) = written.refused {
                return Err(refused(&writer, &error));
            }
        }
        writer.appender().begin_sync();
        bar.set_position(bytes);
    }
    writer.finish(now()).map_err(|error| refused(&writer, &error))?;
    writer.appender().flush()?;
    bar.finish_and_clear();
    let (records, seconds) = (writer.records(), begun.elapsed().as_secs_f64());
    Ok(format!(
        "appended {records} records, {bytes} bytes in {seconds:.1} s ({:.0} MB/s), the next offset is {}",
        bytes as f64 / 1e6 / seconds.max(1e-9),
        writer.appender().end()
    ))
}

fn refused(writer: &LineWriter, error: &dyn std::fmt::Display) -> anyhow::Error {
    let records = writer.records();
    anyhow!("line {} is refused: {error}; the {records} before it are appended", records + 1)
}
