//! `topicfs config check`

use std::collections::BTreeSet;
use std::process::ExitCode;

use super::args::{CheckArgs, ConfigArgs, ConfigCommand};
use crate::config::{Caller, Config};
use crate::fs::topic_options::TopicRule;
use crate::log::source::Source;

/// `topicfs config ...`
///
/// # Errors
/// Those of [`check`].
pub fn run(args: &ConfigArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        ConfigCommand::Check(args) => check(args),
    }
}

/// Reads a configuration file as `mount` would, and says which topics of a source its patterns stand for. A pattern without a topic
/// is no fault: the topic may come.
///
/// # Errors
/// The first thing in the file that isn't right, with its place; when there is no such source.
fn check(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let config = Config::load(Some(&args.file), &[], Caller::Person)?;
    let mut lines = vec![format!("{}: fine", args.file.display())];
    if let Some(source) = &args.source {
        let source = Source::open(source, config.options.of_source())?;
        let topics: BTreeSet<String> = source.tree().topics.keys().cloned().collect();
        lines.extend(config.options.topics.iter().map(|rule| matched(rule, &topics)));
    }
    for line in lines {
        println!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A pattern and its topics.
fn matched(rule: &TopicRule, topics: &BTreeSet<String>) -> String {
    let matching: Vec<&str> =
        topics.iter().map(String::as_str).filter(|topic| rule.pattern.matches(topic)).collect();
    let matching = if matching.is_empty() { "no topic".to_owned() } else { matching.join(", ") };
    format!("{}: {matching}", rule.pattern.text())
}
