//! `topicfs truncate`

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;

use super::args::TruncateArgs;
use super::own::Configs;
use super::{named, own};
use crate::config::{Caller, Config};
use crate::fs::topics::cluster_of;
use crate::log::append::owned::{OwnedDirectory, known_in};
use crate::log::append::written_down;
use crate::log::source;
use crate::log::upkeep::truncation::{Gone, Truncation};
use crate::units::{Offset, Timestamp, TopicPartition};

/// Cuts a partition at an offset, or says what would go.
///
/// # Errors
/// When it could not run, or nobody said yes.
pub fn run(args: &TruncateArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.load(Caller::Person)?;
    let name = named::parse(&args.partition)?;
    if args.dry_run {
        dry_run(args, &name, &config)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(keep) = &args.keep {
        own::make_empty("keep", keep)?;
    }
    let owned = own::own(&args.source, &config)?;
    let cut = cut(args, &name, &config, &owned);
    let closed = owned.iter().try_for_each(OwnedDirectory::close);
    cut?;
    closed?;
    Ok(ExitCode::SUCCESS)
}

/// Says what would go. A broker may run.
fn dry_run(args: &TruncateArgs, name: &TopicPartition, config: &Config) -> anyhow::Result<()> {
    let interval = Configs::new(&args.source, config).interval_of(name);
    for directory in source::data_directories(&args.source)? {
        if let Some(path) = find(&directory, name)? {
            let known = known_in(&directory, name, interval, config.options.of_source().limits);
            print!("{}", text(&Truncation::new(&path, name, Offset(args.to), &known)?, "would be "));
            return Ok(());
        }
    }
    Err(no_partition(name))
}

fn cut(
    args: &TruncateArgs,
    name: &TopicPartition,
    config: &Config,
    owned: &[OwnedDirectory],
) -> anyhow::Result<()> {
    let interval = Configs::new(&args.source, config).interval_of(name);
    for directory in owned {
        let Some(path) = find(directory.path(), name)? else { continue };
        let truncation = directory.truncation(name, &path, Offset(args.to), interval)?;
        if truncation.is_empty() {
            print!("{}", text(&truncation, ""));
            return Ok(());
        }
        if args.yes {
            print!("{}", text(&truncation, ""));
        } else {
            let warning = warning(directory, args.keep.as_deref());
            let (input, question) = (std::io::stdin(), text(&truncation, "will be ") + &warning);
            confirm(input.is_terminal(), input.lock(), &question)?;
        }
        return Ok(directory.truncate(&truncation, args.keep.as_deref())?);
    }
    Err(no_partition(name))
}

/// The directory of a partition.
fn find(directory: &Path, name: &TopicPartition) -> anyhow::Result<Option<PathBuf>> {
    let found = written_down::current_partitions(directory)?.into_iter().find(|(found, _)| found == name);
    Ok(found.map(|(_, path)| path))
}

fn no_partition(name: &TopicPartition) -> anyhow::Error {
    anyhow!("{}: there is no such partition", named::text(name))
}

/// Lets a person decide.
fn confirm(is_terminal: bool, mut input: impl BufRead, question: &str) -> anyhow::Result<()> {
    if !is_terminal {
        return Err(anyhow!(
            "nobody can be asked, since standard input is no terminal: --dry-run says what goes, --yes cuts"
        ));
    }
    eprint!("{question}Type yes to cut it: ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    if answer.trim() == "yes" { Ok(()) } else { Err(anyhow!("not confirmed: nothing was cut")) }
}

/// What a person has to know who says yes.
fn warning(directory: &OwnedDirectory, keep: Option<&Path>) -> String {
    let mut text = match keep {
        Some(keep) => format!("It is kept in {}.\n", keep.display()),
        None => "It is not kept.\n".to_owned(),
    };
    if let Some(cluster) = cluster_of(directory) {
        let _ = writeln!(
            text,
            "{} belongs to a broker of cluster {cluster}: as a follower it fetches from its leader what is cut here;\n\
             as the leader it makes its followers cut it too.",
            directory.path().display()
        );
    }
    text
}

/// What goes, in words.
fn text(truncation: &Truncation, would_be: &str) -> String {
    let Truncation { name, before, after, gone, to, .. } = truncation;
    let name = named::text(name);
    if truncation.is_empty() {
        return format!("{name}: nothing to cut, the log ends at {}\n", before.end);
    }
    if !truncation.cuts() {
        return format!("{name}: epochs without a record {would_be}cut, the log ends at {}\n", before.end);
    }
    let mut text = format!(
        "{name}: {would_be}cut at {}: offsets {} to {}, before {} to {}\n",
        after.end, after.start, after.end, before.start, before.end
    );
    let reaches_across = gone.offsets.is_some_and(|(first, _)| first < *to);
    if after.end < *to && reaches_across {
        let _ =
            writeln!(text, "  the batch that reaches across {to} goes whole: the log ends at {}", after.end);
    } else if after.end < *to {
        let _ =
            writeln!(text, "  no record is between {} and {to}: the log ends at {}", after.end, after.end);
    }
    text.push_str(&text_of_gone(gone, truncation.segments()));
    for (since, producer) in &truncation.open {
        let _ = writeln!(
            text,
            "  open at the new end: a transaction of producer {} since offset {since}: consumers with read_committed see nothing \
             behind it until it ends",
            producer.0
        );
    }
    text
}

fn text_of_gone(gone: &Gone, segments: usize) -> String {
    let mut text =
        format!("  cut: {} records in {} batches of {} bytes", gone.records, gone.batches, gone.bytes);
    if let Some((first, last)) = gone.offsets {
        let _ = write!(text, ", offsets {first} to {last}");
    }
    if let Some((from, to)) = gone.times {
        let _ = write!(text, ", times {} to {}", time(from), time(to));
    }
    match segments {
        0 => {}
        1 => text.push_str("; a whole segment is among it"),
        _ => {
            let _ = write!(text, "; {segments} whole segments are among it");
        }
    }
    text.push('\n');
    let (commits, aborts) = (gone.markers.commits, gone.markers.aborts);
    if commits + aborts > 0 {
        let _ = writeln!(text, "  cut: the ends of {commits} committed and {aborts} aborted transactions");
    }
    text
}

fn time(time: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(time.0).map_or_else(|_| time.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_on_a_terminal_is_yes() {
        let said = |is_terminal, answer: &str| confirm(is_terminal, answer.as_bytes(), "").is_ok();
        assert!(said(true, "yes\n"));
        assert!(said(true, " yes"));
        for answer in ["", "\n", "y\n", "no\n", "YES\n"] {
            assert!(!said(true, answer), "{answer:?}");
        }
        assert!(!said(false, "yes\n"));
    }
}
