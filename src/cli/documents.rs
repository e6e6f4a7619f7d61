//! `topicfs completions` and `topicfs man`: made from the grammar, so that they are never behind it.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use super::args::{CompletionsArgs, ManArgs, TopicFs};

/// `topicfs completions`
///
/// # Errors
/// When stdout takes nothing.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut TopicFs::command(), "topicfs", &mut script);
    io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// `topicfs man`
///
/// # Errors
/// When stdout or the directory takes nothing.
pub fn man(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let command = TopicFs::command();
    match &args.out {
        Some(directory) => {
            let context = || format!("writing manual pages to {}", directory.display());
            std::fs::create_dir_all(directory).with_context(context)?;
            clap_mangen::generate_to(command, directory).with_context(context)?;
        }
        None => clap_mangen::Man::new(command).render(&mut io::stdout().lock())?,
    }
    Ok(ExitCode::SUCCESS)
}
