//! The command line: what is typed, dispatched to what does it.
//!
//! Errors are one line on stderr that starts with `topicfs:`. Exit codes: 0 fine, 1 something was found wrong,
//! 2 could not run.
//!
//! | module | what |
//! |---|---|
//! | [`args`] | the grammar, with its help texts |
//! | [`mount`] | `mount`, `umount`, and `mount.topicfs` as mount(8) calls it |
//! | [`demo`] | `demo` |
//! | [`ls`], [`cat`], [`tail`], [`index`] | the same tree without a mount |
//! | [`manifest`] | what each file of a source is |
//! | [`salvage`] | what is sound, written as clean data directories |
//! | [`append`], [`recover`] | lines appended to a partition; what an unclean stop has left, repaired |
//! | [`clean`] | what is due by the policies of topics, done or explained |
//! | [`reindex`] | indexes made anew of logs |
//! | [`diff`] | two copies of partitions, compared |
//! | [`truncate`] | a log cut at an offset |
//! | `own`, `named` | data directories that are written to; partitions that are asked for |
//! | [`dump`] | single files, as kafka-dump-log prints them |
//! | [`verify`] | everything checked |
//! | [`config`] | a configuration file checked |
//! | [`documents`] | `completions` and `man`, made from the grammar |
//! | [`progress`] | the bar of work that takes long |
//! | [`logging`] | where messages go |

pub mod append;
pub mod args;
pub mod cat;
pub mod clean;
pub mod config;
pub mod demo;
pub mod diff;
pub mod documents;
pub mod dump;
pub mod index;
pub mod logging;
pub mod ls;
pub mod manifest;
pub mod mount;
mod named;
mod own;
pub mod progress;
pub mod recover;
pub mod reindex;
pub mod salvage;
pub mod tail;
pub mod truncate;
pub mod verify;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::fs::FsError;
use crate::mount::sys::{self, ClosedPipe};
use args::{Command, HelperArgs, TopicFs};

/// Something was found wrong.
pub const FOUND_WRONG: u8 = 1;
/// The command could not do its work.
pub const COULD_NOT_RUN: u8 = 2;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    sys::give_large_buffers_back();
    sys::on_closed_pipe(ClosedPipe::Ends);
    let words: Vec<OsString> = std::env::args_os().collect();
    let result = match helper_words(&words) {
        Some(words) => HelperArgs::try_parse_from(words).map(|args| mount::help_mount(&args)),
        None => TopicFs::try_parse_from(words).map(|topicfs| dispatch(&topicfs)),
    };
    match result {
        Ok(Ok(code)) => code,
        Ok(Err(error)) => fail(&format!("{error:#}")),
        Err(error) => usage(&error),
    }
}

fn dispatch(topicfs: &TopicFs) -> anyhow::Result<ExitCode> {
    let level = topicfs.log_level;
    match &topicfs.command {
        Command::Mount(args) => mount::run(args, level),
        Command::Umount(args) => mount::unmount(args),
        Command::Demo(args) => demo::run(args, level),
        Command::Ls(args) => quietly(level).and_then(|()| ls::run(args)),
        Command::Cat(args) => quietly(level).and_then(|()| cat::run(args)),
        Command::Tail(args) => quietly(level).and_then(|()| tail::run(args)),
        Command::Index(args) => quietly(level).and_then(|()| index::run(args)),
        Command::Manifest(args) => quietly(level).and_then(|()| manifest::run(args)),
        Command::Salvage(args) => quietly(level).and_then(|()| salvage::run(args)),
        Command::Append(args) => quietly(level).and_then(|()| append::run(args)),
        Command::Recover(args) => quietly(level).and_then(|()| recover::run(args)),
        Command::Clean(args) => quietly(level).and_then(|()| clean::run(args)),
        Command::Reindex(args) => quietly(level).and_then(|()| reindex::run(args)),
        Command::Diff(args) => quietly(level).and_then(|()| diff::run(args)),
        Command::Truncate(args) => quietly(level).and_then(|()| truncate::run(args)),
        Command::Dump(args) => quietly(level).and_then(|()| dump::run(args)),
        Command::Verify(args) => quietly(level).and_then(|()| verify::run(args)),
        Command::Config(args) => quietly(level).and_then(|()| config::run(args)),
        Command::Completions(args) => documents::completions(args),
        Command::Man(args) => documents::man(args),
    }
}

/// Commands that print data say only on stderr what a user must know.
fn quietly(level: Option<logging::Level>) -> anyhow::Result<()> {
    logging::start(logging::To::Stderr, level, logging::Level::Warn)
}

/// The words for `mount.topicfs`, if that is how this process was called: by that name, as mount(8) does, or in the
/// form `topicfs SOURCE /MOUNTPOINT -o OPTIONS` of mount.fuse(8).
fn helper_words(words: &[OsString]) -> Option<Vec<OsString>> {
    let name = words.first().and_then(|word| Path::new(word).file_name())?;
    if name == "mount.topicfs" || name == "mount.fuse.topicfs" {
        return Some(words.to_vec());
    }
    let [_, source, mountpoint, option, _] = words else { return None };
    let is_command = TopicFs::command().find_subcommand(source).is_some();
    let from_mount_fuse = !is_command && option == "-o" && Path::new(mountpoint).is_absolute();
    (from_mount_fuse && !source.as_encoded_bytes().starts_with(b"-")).then(|| words.to_vec())
}

/// Prints an error on one line.
fn fail(text: &str) -> ExitCode {
    let line = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    eprintln!("topicfs: {line}");
    ExitCode::from(COULD_NOT_RUN)
}

/// Says why a path was left out, and goes on; the exit code that the command ends with.
fn complain(path: &str, error: &FsError) -> ExitCode {
    eprintln!("topicfs: {path}: {error}");
    ExitCode::from(if matches!(error, FsError::BadName { .. }) { COULD_NOT_RUN } else { FOUND_WRONG })
}

/// Prints help and versions as clap makes them, and its errors on one line.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{text}");
        return ExitCode::from(COULD_NOT_RUN);
    }
    fail(&one_line_of_clap(&text))
}

/// clap's message without its usage lines: `error: what` and `tip: what` become `what (tip: what)`.
fn one_line_of_clap(text: &str) -> String {
    let (mut line, mut command) = (String::new(), "");
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if let Some(usage) = part.strip_prefix("Usage: ") {
            command =
                usage.split([' ']).nth(1).filter(|word| word.chars().all(char::is_alphabetic)).unwrap_or("");
        } else if let Some(tip) = part.strip_prefix("tip: ") {
            line.push_str(&format!("; {tip}"));
        } else if !part.starts_with("For more information") {
            let gap = if line.is_empty() { "" } else { " " };
            line.push_str(&format!("{gap}{}", part.trim_start_matches("error: ")));
        }
    }
    let command = if command.is_empty() { "topicfs".to_owned() } else { format!("topicfs {command}") };
    format!("{line}; see `{command} --help`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<OsString>> {
        helper_words(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn mount_calls_are_recognised() {
        assert!(words("/sbin/mount.topicfs /data /mnt -o rw").is_some());
        assert!(words("/sbin/mount.fuse.topicfs /data /mnt").is_some());
        assert!(words("topicfs data /mnt -o rw,nosuid").is_some());
    }

    #[test]
    fn commands_are_commands() {
        for line in
            ["topicfs", "topicfs mount /data /mnt -o ro", "topicfs mount /mnt -o ro", "topicfs dta mnt -o ro"]
        {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn the_grammar_is_sound() {
        TopicFs::command().debug_assert();
        HelperArgs::command().debug_assert();
    }

    #[test]
    fn errors_of_usage_become_one_line() {
        let line = |words: &str| {
            let error = TopicFs::try_parse_from(words.split(' ')).unwrap_err();
            one_line_of_clap(&error.render().to_string())
        };
        assert_eq!(
            line("topicfs mount"),
            "the following required arguments were not provided: <SOURCE> <MOUNTPOINT>; see `topicfs mount --help`"
        );
        assert_eq!(
            line("topicfs mount --foregrund a b"),
            "unexpected argument '--foregrund' found; a similar argument exists: '--foreground'; \
             see `topicfs mount --help`"
        );
        assert!(line("topicfs tail -n x data y").ends_with("; see `topicfs --help`"));
    }

    /// Splits an example as a shell would, up to a pipe, a redirection or the remark behind it.
    fn example_words(line: &str) -> Vec<String> {
        let command = line.split(['|', '>', '<']).next().unwrap().split("   ").next().unwrap();
        command.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
    }

    #[test]
    fn every_example_in_a_help_text_is_a_command() {
        let mut command = TopicFs::command();
        let mut helps = vec![command.render_long_help().to_string()];
        for command in command.get_subcommands_mut() {
            helps.push(command.render_long_help().to_string());
            helps.extend(command.get_subcommands_mut().map(|command| command.render_long_help().to_string()));
        }
        let mut seen = 0;
        for line in helps.iter().flat_map(|help| help.lines()).map(str::trim) {
            if line.starts_with("topicfs ") {
                let words = example_words(line);
                assert!(TopicFs::try_parse_from(&words).is_ok(), "{line}");
                seen += 1;
            }
        }
        assert!(seen > 15, "only {seen} examples");
    }

    #[test]
    fn help_texts_fit_a_terminal() {
        let mut command = TopicFs::command();
        for command in command.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            let long = help.lines().find(|line| line.chars().count() > 100);
            assert_eq!(long, None, "{}", command.get_name());
        }
    }
}
