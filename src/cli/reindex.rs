//! `topicfs reindex`

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::args::ReindexArgs;
use super::own::Configs;
use super::{FOUND_WRONG, named, own, progress};
use crate::config::{Caller, Config};
use crate::log::append::owned::{OwnedDirectory, known_in};
use crate::log::append::written_down;
use crate::log::files::disk::SystemDisk;
use crate::log::source::{self, Source};
use crate::log::upkeep::reindex::{self, ReindexError, Reindexed, Sizes, To};
use crate::units::TopicPartition;

/// Makes indexes, snapshots and epochs anew, or says which would be.
///
/// # Errors
/// When it could not run.
pub fn run(args: &ReindexArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.load(Caller::Person)?;
    let mut told = Told { would_be: if args.dry_run { "would be " } else { "" }, ..Told::default() };
    if let Some(out) = &args.into {
        elsewhere(args, out, &config, &mut told)?;
    } else if args.dry_run {
        dry_run(args, &config, &mut told)?;
    } else {
        in_place(args, &config, &mut told)?;
    }
    told.summary();
    Ok(if told.is_sound { ExitCode::SUCCESS } else { ExitCode::from(FOUND_WRONG) })
}

/// What was told so far.
struct Told {
    would_be: &'static str,
    is_sound: bool,
    partitions: usize,
    made: usize,
    right: usize,
}

impl Default for Told {
    fn default() -> Self {
        Self { would_be: "", is_sound: true, partitions: 0, made: 0, right: 0 }
    }
}

fn elsewhere(args: &ReindexArgs, out: &Path, config: &Config, told: &mut Told) -> anyhow::Result<()> {
    let source = Source::open(&args.source, config.options.of_source())?;
    let partitions = named::partitions(&source, &args.partitions);
    named::check(&args.partitions, &partitions.keys())?;
    own::make_empty("into", out)?;
    let configs = Configs::new(&args.source, config);
    let bar = progress::counter(partitions.len() as u64);
    for (text, partition) in &partitions {
        bar.set_message(text.clone());
        let sizes = sizes(&configs, &partition.name);
        let made = reindex::elsewhere(partition, out, sizes, &SystemDisk, &|_| ());
        let made = made.with_context(|| text.clone())?;
        bar.suspend(|| told.tell(&partition.name, &made));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

fn dry_run(args: &ReindexArgs, config: &Config, told: &mut Told) -> anyhow::Result<()> {
    let (configs, mut found) = (Configs::new(&args.source, config), Vec::new());
    for directory in source::data_directories(&args.source)? {
        for (name, path) in asked(&directory, args)? {
            let sizes = sizes(&configs, &name);
            let known = known_in(&directory, &name, sizes.interval_bytes, config.options.of_source().limits);
            let how = (sizes, known.limits);
            told.tell_or_refuse(
                &name,
                reindex::in_place(&name, &path, known.log_start, how, To::Nowhere, &|_| ()),
            )?;
            found.push(named::text(&name));
        }
    }
    named::check(&args.partitions, &found.iter())
}

fn in_place(args: &ReindexArgs, config: &Config, told: &mut Told) -> anyhow::Result<()> {
    let owned = own::lock(&args.source, config)?;
    let configs = Configs::new(&args.source, config);
    let mut all = Vec::new();
    for directory in &owned {
        all.push((directory, asked(directory.path(), args)?));
    }
    let found: Vec<String> = all.iter().flat_map(|(_, all)| all).map(|(name, _)| named::text(name)).collect();
    let checked = named::check(&args.partitions, &found.iter());
    let bar = progress::bar(bytes_of(all.iter().flat_map(|(_, all)| all).map(|(_, path)| &**path)));
    let made = checked.and_then(|()| {
        all.iter().try_for_each(|(directory, partitions)| in_one(directory, partitions, &configs, &bar, told))
    });
    bar.finish_and_clear();
    owned.iter().try_for_each(OwnedDirectory::close)?;
    made
}

/// Does the partitions of one directory.
fn in_one(
    directory: &OwnedDirectory,
    partitions: &[(TopicPartition, std::path::PathBuf)],
    configs: &Configs<'_>,
    bar: &ProgressBar,
    told: &mut Told,
) -> anyhow::Result<()> {
    for (name, path) in partitions {
        bar.set_message(named::text(name));
        let made = directory.reindex(name, path, sizes(configs, name), &|bytes| bar.inc(bytes));
        bar.suspend(|| told.tell_or_refuse(name, made))?;
    }
    Ok(())
}

/// The partitions of a directory that are asked for.
fn asked(directory: &Path, args: &ReindexArgs) -> anyhow::Result<Vec<(TopicPartition, std::path::PathBuf)>> {
    let mut partitions = written_down::partitions(directory)?;
    partitions.retain(|(name, _)| named::is_asked(&named::text(name), &args.partitions));
    Ok(partitions)
}

fn sizes(configs: &Configs<'_>, name: &TopicPartition) -> Sizes {
    let config = configs.of(name).log_config();
    Sizes { interval_bytes: config.index_interval_bytes, index_bytes: config.segment_index_bytes }
}

/// The bytes of the logs in some directories.
fn bytes_of<'a>(directories: impl Iterator<Item = &'a Path>) -> u64 {
    let entries = directories.filter_map(|path| std::fs::read_dir(path).ok()).flatten().flatten();
    let logs = entries.filter(|entry| entry.path().extension().is_some_and(|of| of == "log"));
    logs.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

impl Told {
    fn tell_or_refuse(
        &mut self,
        name: &TopicPartition,
        made: Result<Reindexed, ReindexError>,
    ) -> anyhow::Result<()> {
        match made {
            Ok(made) => self.tell(name, &made),
            Err(ReindexError::Log(error)) => return Err(error.into()),
            Err(error) => {
                self.is_sound = false;
                println!("{}: {error}", named::text(name));
            }
        }
        Ok(())
    }

    /// A line for each file that is made or goes, and for each damaged place.
    fn tell(&mut self, name: &TopicPartition, made: &Reindexed) {
        self.partitions += 1;
        self.made += made.made.len();
        self.right += made.right;
        self.is_sound &= made.damage.is_empty();
        if made.made.is_empty() && made.removed.is_empty() && made.damage.is_empty() && made.full.is_empty() {
            return;
        }
        let would_be = self.would_be;
        println!("{}: {} segments", named::text(name), made.segments);
        for made in &made.made {
            let was = if made.was_missing { "missing" } else { "other content" };
            println!("  {would_be}made: {} ({was})", made.path.display());
        }
        for path in &made.removed {
            println!("  {would_be}removed: {}", path.display());
        }
        for path in &made.full {
            println!("  full: {}: segment.index.bytes has no room for the rest", path.display());
        }
        for (path, damage) in &made.damage {
            let (position, len) = (damage.position, damage.len);
            println!("  damage: {} at {position}: {len} bytes ({})", path.display(), damage.fault);
        }
    }

    fn summary(&self) {
        let Self { would_be, partitions, made, right, .. } = self;
        eprintln!("{partitions} partitions: {made} files {would_be}made, {right} were right");
    }
}
