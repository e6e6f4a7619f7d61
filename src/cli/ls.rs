//! `topicfs ls`

use std::io::{self, Write};
use std::process::ExitCode;

use super::args::LsArgs;
use super::complain;
use super::mount::open;
use crate::config::Caller;
use crate::fs::attributes::Attributes;
use crate::fs::walk::Found;
use crate::fs::{Fs, FsError};
use crate::view::selection::Effort;

/// Lists directories of the tree as `ls -1` would through a mount, hidden names left out.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &LsArgs) -> anyhow::Result<ExitCode> {
    let fs = open(&args.source, &args.options.load(Caller::Person)?)?;
    let mut out = io::stdout().lock();
    let mut code = ExitCode::SUCCESS;
    let root = [String::new()];
    let patterns = if args.paths.is_empty() { &root[..] } else { &args.paths };
    let (mut files, mut directories) = (Vec::new(), Vec::new());
    for pattern in patterns {
        match fs.expand(pattern) {
            Ok(found) => {
                let (dirs, others): (Vec<_>, Vec<_>) =
                    found.into_iter().partition(|found| found.node.is_dir());
                directories.extend(dirs);
                files.extend(others);
            }
            Err(error) => code = complain(pattern, &error),
        }
    }
    for file in &files {
        match line(&fs, &file.path, file, args.long) {
            Ok(line) => out.write_all(line.as_bytes())?,
            Err(error) => code = complain(&file.path, &error),
        }
    }
    let titled = directories.len() > 1 || !files.is_empty();
    for (index, directory) in directories.iter().enumerate() {
        if titled {
            let gap = if index > 0 || !files.is_empty() { "\n" } else { "" };
            writeln!(out, "{gap}{}:", directory.path)?;
        }
        match listing(&fs, directory, args.long) {
            Ok(text) => out.write_all(text.as_bytes())?,
            Err(error) => code = complain(&directory.path, &error),
        }
    }
    Ok(code)
}

fn listing(fs: &Fs, directory: &Found, long: bool) -> Result<String, FsError> {
    let mut text = String::new();
    for entry in fs.list_sorted(&directory.node)? {
        let name = entry.name.to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let node = fs.child(&directory.node, &entry.name)?;
        text.push_str(&line(fs, &name, &Found { path: name.clone(), node }, long)?);
    }
    Ok(text)
}

fn line(fs: &Fs, name: &str, found: &Found, long: bool) -> Result<String, FsError> {
    if !long {
        return Ok(format!("{name}\n"));
    }
    let Attributes { is_dir, mode, size, mtime, .. } = fs.attributes(0, &found.node, Effort::All)?;
    let kind = if is_dir { 'd' } else { '-' };
    let time = jiff::Timestamp::try_from(mtime).map(|time| time.strftime("%Y-%m-%d %H:%M").to_string());
    let time = time.unwrap_or_default();
    Ok(format!("{kind}{} {size:>12} {time} {name}\n", permissions(mode)))
}

/// `r--------` and the like.
fn permissions(mode: u16) -> String {
    let bits = [
        (0o400, 'r'),
        (0o200, 'w'),
        (0o100, 'x'),
        (0o40, 'r'),
        (0o20, 'w'),
        (0o10, 'x'),
        (4, 'r'),
        (2, 'w'),
        (1, 'x'),
    ];
    bits.into_iter().map(|(bit, letter)| if mode & bit != 0 { letter } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_as_in_ls() {
        assert_eq!(permissions(0o400), "r--------");
        assert_eq!(permissions(0o755), "rwxr-xr-x");
    }
}
