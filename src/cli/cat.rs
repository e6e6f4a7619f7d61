//! `topicfs cat`

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use super::args::CatArgs;
use super::complain;
use super::mount::open;
use crate::config::Caller;
use crate::fs::walk::ReadError;

/// Prints files of the tree, byte for byte as a mount shows them. A path that can't be read is named, the others go on.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &CatArgs) -> anyhow::Result<ExitCode> {
    let fs = open(&args.source, &args.options.load(Caller::Person)?)?;
    // Nothing is buffered: what is read comes in large pieces, and those of one line are for somebody who waits.
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut code = ExitCode::SUCCESS;
    for pattern in &args.paths {
        let found = match fs.expand(pattern) {
            Ok(found) => found,
            Err(error) => {
                code = complain(pattern, &error);
                continue;
            }
        };
        for file in found {
            match fs.read_whole(&file.node, |piece| out.write_all(piece)) {
                Ok(()) => {}
                Err(ReadError::Fs(error)) => code = complain(&file.path, &error),
                Err(ReadError::Write(error)) => {
                    return Err(anyhow::Error::new(error).context("standard output"));
                }
            }
        }
    }
    Ok(code)
}
