//! `topicfs cat`

use std::process::ExitCode;

use anyhow::bail;

use super::args::CatArgs;

/// Prints files of the tree, byte for byte as a mount shows them.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(_args: &CatArgs) -> anyhow::Result<ExitCode> {
    bail!("`topicfs cat` is not built yet")
}
