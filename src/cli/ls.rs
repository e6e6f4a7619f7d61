//! `topicfs ls`

use std::process::ExitCode;

use anyhow::bail;

use super::args::LsArgs;

/// Lists directories of the tree as `ls` would through a mount.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(_args: &LsArgs) -> anyhow::Result<ExitCode> {
    bail!("`topicfs ls` is not built yet")
}
