//! `topicfs clean`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;

use super::args::upkeep::CleanArgs;
use super::own::Configs;
use super::{FOUND_WRONG, named, own, progress};
use crate::config::{Caller, Config};
use crate::fs::topic_configs::{CLEANUP_POLICY, TopicConfigs};
use crate::log::LogError;
use crate::log::append::owned::OwnedDirectory;
use crate::log::append::written_down::{self, WrittenDown};
use crate::log::append::{now, topics};
use crate::log::side_by_side::Crew;
use crate::log::source;
use crate::log::upkeep::policy::Policy;
use crate::log::upkeep::removal;
use crate::log::upkeep::survey::Survey;
use crate::log::upkeep::work::{Job, UpkeepError};
use crate::units::{Timestamp, TopicPartition};
use crate::view::configs::ConfigSource;

mod explained;

/// Threads that look, and mostly wait for the disk.
const THREADS: usize = 8;

/// Deletes and compacts what is due, or says what would be.
///
/// # Errors
/// When it could not run.
pub fn run(args: &CleanArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.load(Caller::Person)?;
    let all_done = if args.dry_run { dry_run(args, &config)? } else { clean(args, &config)? };
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::from(FOUND_WRONG) })
}

/// Whether all could be looked at.
fn dry_run(args: &CleanArgs, config: &Config) -> anyhow::Result<bool> {
    let (configs, mut all) = (Configs::new(&args.source, config), Vec::new());
    for data in source::data_directories(&args.source)? {
        let written = Arc::new(WrittenDown::read(&data));
        let asked = asked(&data, args)?.into_iter();
        all.extend(asked.map(|(name, directory)| (name, directory, written.clone())));
    }
    check(args, all.iter().map(|(name, ..)| name))?;
    let (now, limits) = (now(), config.options.of_source().limits);
    let look_at = |(name, directory, written): &(TopicPartition, PathBuf, Arc<WrittenDown>)| {
        let due = Due::new(&configs, name, directory);
        let survey = Survey::new(directory, name, &written.bounds(name), limits);
        (name.clone(), survey.and_then(|survey| explain(&survey, &due, now)))
    };
    let bar = progress::counter(all.len() as u64);
    let mut all_done = true;
    let printed = Crew::of(THREADS).each(&all, look_at, |(name, told)| {
        all_done &= told.is_ok();
        bar.inc(1);
        let text = told.unwrap_or_else(|error| error.to_string());
        bar.suspend(|| writeln!(io::stdout(), "{name}: {text}"))
    });
    bar.finish_and_clear();
    printed.context("standard output")?;
    Ok(all_done)
}

/// What would become of a partition, and why.
fn explain(survey: &Survey, due: &Due, now: Timestamp) -> Result<String, LogError> {
    let Due { configs, policy, doubt } = due;
    let mut lines = vec![explained::log(survey, configs, policy)];
    lines.extend(doubt.map(str::to_owned));
    lines.extend(explained::retention(survey, policy, now)?);
    if policy.compact {
        lines.push(explained::compaction(survey, policy, now)?);
    }
    Ok(lines.join("\n  "))
}

/// Whether all could be done.
fn clean(args: &CleanArgs, config: &Config) -> anyhow::Result<bool> {
    let owned = own::own(&args.source, config)?;
    let configs = Configs::new(&args.source, config);
    let (mut all_done, mut found, mut without_policy) = (true, Vec::new(), 0);
    for data in &owned {
        for (name, directory) in asked(data.path(), args)? {
            let Due { configs, policy, doubt } = &Due::new(&configs, &name, &directory);
            if let Some(doubt) = doubt {
                println!("{name}: {doubt}");
            }
            without_policy += usize::from(!policy.delete && !policy.compact);
            let (name, directory, log_config) = (&name, &*directory, &configs.log_config());
            let job = Job { owned: data, name, directory, config: log_config, policy, now: now() };
            if let Err(error) = clean_one(&job, config.options.dedupe_buffer_bytes) {
                println!("{name}: {error}");
                all_done = false;
            }
            found.push(name.clone());
        }
    }
    // What was begun is closed in order, whatever was asked for.
    owned.iter().try_for_each(OwnedDirectory::close)?;
    check(args, found.iter())?;
    if without_policy > 0 {
        eprintln!(
            "topicfs: no policy is named for {without_policy} of {} partitions: nothing was done to them",
            found.len()
        );
    }
    Ok(all_done)
}

/// Checks that all that is asked for is there.
fn check<'a>(args: &CleanArgs, found: impl Iterator<Item = &'a TopicPartition>) -> anyhow::Result<()> {
    let found: Vec<String> = found.map(named::text).collect();
    named::check(&args.partitions, &found.iter())
}

fn clean_one(job: &Job<'_>, map_bytes: usize) -> Result<(), UpkeepError> {
    let Job { name, policy, .. } = *job;
    let bar = progress::bar(0);
    bar.set_message(name.to_string());
    let retained = job.retain()?;
    if retained.segments > 0 {
        println!("{name}: {}", explained::retained(&retained));
    }
    if policy.compact {
        if !bar.is_hidden() {
            bar.set_length(job.survey()?.bytes() * 2);
        }
        let begun = Instant::now();
        if let Some(compacted) = job.compact(map_bytes, &|bytes| bar.inc(bytes))? {
            println!("{name}: {}", explained::compacted(&compacted, begun.elapsed()));
        }
    }
    bar.finish_and_clear();
    // Nobody reads through us; who has a file open keeps it.
    Ok(job.owned.remove_set_aside(removal::Due::All)?)
}

/// What is due to a partition.
struct Due {
    configs: TopicConfigs,
    policy: Policy,
    /// Why nothing is, though its cluster may have named a policy.
    doubt: Option<&'static str>,
}

impl Due {
    fn new(all: &Configs<'_>, name: &TopicPartition, directory: &Path) -> Self {
        let configs = all.of(name);
        let policy = configs.brokers_policy();
        let is_another = || topics::topic_id(directory).is_some_and(|id| Some(id) != configs.id);
        let doubt = if configs.names_policy() || configs.id.is_none() {
            None
        } else if is_another() {
            Some(
                "its id is another one than that of the topic in the cluster: nothing is done by that one's policy",
            )
        } else if !all.cluster.now().has_server && is_by_default(&configs, &policy) {
            Some(
                "its broker may have other defaults than Kafka's in its server.properties: name that as SOURCE, or say -o retention.ms=..",
            )
        } else if !all.cluster.now().problems.is_empty() {
            Some(
                "the cluster's metadata is damaged, and may have another policy for it: nothing is done by the one that can be read",
            )
        } else {
            None
        };
        let policy =
            if doubt.is_some() { Policy { delete: false, compact: false, ..policy } } else { policy };
        Self { configs, policy, doubt }
    }
}

/// Whether something would go since nobody has said anything.
fn is_by_default(configs: &TopicConfigs, policy: &Policy) -> bool {
    let is_default = |name| configs.source(name) == ConfigSource::Default;
    policy.delete && (is_default(CLEANUP_POLICY) || is_default("retention.ms"))
}

/// The partitions of a data directory that are asked for, with their own directories.
fn asked(data: &Path, args: &CleanArgs) -> anyhow::Result<Vec<(TopicPartition, PathBuf)>> {
    let mut partitions = written_down::current_partitions(data)?;
    partitions.retain(|(name, _)| named::is_asked(&named::text(name), &args.partitions));
    Ok(partitions)
}
