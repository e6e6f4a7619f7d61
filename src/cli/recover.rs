//! `topicfs recover`

use std::process::ExitCode;

use super::args::RecoverArgs;
use super::own::Configs;
use super::{FOUND_WRONG, own};
use crate::config::{Caller, Config};
use crate::log::append::owned::survey;
use crate::log::append::recovery::{Plan, RecoveryError};
use crate::log::source;
use crate::units::TopicPartition;

/// Repairs what an unclean stop has left, or says what would be done.
///
/// # Errors
/// When it could not run.
pub fn run(args: &RecoverArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.load(Caller::Person)?;
    let all_done = if args.dry_run { dry_run(args, &config)? } else { recover(args, &config)? };
    Ok(if all_done { ExitCode::SUCCESS } else { ExitCode::from(FOUND_WRONG) })
}

/// Whether nothing needs a quarantine.
fn dry_run(args: &RecoverArgs, config: &Config) -> anyhow::Result<bool> {
    let configs = Configs::new(&args.source, config);
    let limits = config.options.of_source().limits;
    let mut all_done = true;
    for directory in source::data_directories(&args.source)? {
        for partition in survey(&directory, limits, &|name| configs.interval_of(name))? {
            tell(&partition.name, &partition.plan, "would be ");
            all_done &= own::refusal(&partition.name, &partition.plan).is_none();
        }
    }
    Ok(all_done)
}

/// Whether all was done.
fn recover(args: &RecoverArgs, config: &Config) -> anyhow::Result<bool> {
    if let Some(quarantine) = &args.quarantine {
        own::make_empty("quarantine", quarantine)?;
    }
    let configs = Configs::new(&args.source, config);
    let mut all_done = true;
    for directory in own::lock(&args.source, config)? {
        own::recover(&directory, &configs, args.quarantine.as_deref(), |name, plan| {
            let is_refused = own::refusal(name, plan).is_some();
            let is_done = !is_refused || args.quarantine.is_some() && plan.is_ok();
            tell(name, plan, if is_done { "" } else { "would be " });
            all_done &= is_done;
        })?;
        directory.close()?;
    }
    Ok(all_done)
}

/// One line for a partition that is not sound, and one for each cut.
fn tell(name: &TopicPartition, plan: &Result<Plan, RecoveryError>, would_be: &str) {
    match plan {
        Ok(plan) if plan.is_empty() => {}
        Ok(plan) => {
            println!(
                "{name}: offsets {} to {}; indexes {would_be}made anew of {} segments",
                plan.start,
                plan.end,
                plan.segments()
            );
            for cut in &plan.cuts {
                println!("  {would_be}cut: {cut}");
            }
        }
        Err(error) => println!("{name}: {error}"),
    }
}
