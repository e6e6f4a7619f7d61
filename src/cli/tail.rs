//! `topicfs tail`

use std::process::ExitCode;

use anyhow::bail;

use super::args::TailArgs;

/// Prints the last lines of files of the tree, and with `-f` those that come.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(_args: &TailArgs) -> anyhow::Result<ExitCode> {
    bail!("`topicfs tail` is not built yet")
}
