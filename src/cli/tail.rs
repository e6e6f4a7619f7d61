//! `topicfs tail`

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use super::args::TailArgs;
use super::complain;
use super::mount::open;
use crate::config::Caller;
use crate::fs::handles::Content;
use crate::fs::walk::{Found, ReadError};
use crate::fs::{Fs, FsError};
use crate::view::selection::Effort;

/// Bytes read at once.
const PIECE: usize = 128 * 1024;
/// How often files are looked at for growth of which nobody tells, and how often all the same.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_ANYWAY: Duration = Duration::from_secs(1);

/// Prints the last lines of files of the tree, and with `-f` those that come.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &TailArgs) -> anyhow::Result<ExitCode> {
    let fs = open(&args.source, &args.options.load(Caller::Person)?)?;
    let mut out = io::stdout().lock();
    let mut code = ExitCode::SUCCESS;
    let mut files = Vec::new();
    for pattern in &args.paths {
        match fs.expand(pattern) {
            Ok(found) => files.extend(found),
            Err(error) => code = complain(pattern, &error),
        }
    }
    let mut followed = Vec::new();
    let titled = files.len() > 1;
    for (index, file) in files.iter().enumerate() {
        if titled {
            writeln!(out, "{}==> {} <==", if index > 0 { "\n" } else { "" }, file.path)?;
        }
        match last_lines(&fs, file, args.lines) {
            Ok((content, start)) => match copy(&fs, &content, start, &mut out) {
                Ok(end) => followed.push((file, content, end)),
                Err(ReadError::Fs(error)) => code = complain(&file.path, &error),
                Err(ReadError::Write(error)) => return Err(error.into()),
            },
            Err(error) => code = complain(&file.path, &error),
        }
    }
    out.flush()?;
    if args.follow {
        follow(&fs, &mut followed, titled, &mut out)?;
    }
    Ok(code)
}

/// Prints what files grow by, for as long as this process lives or they can be read.
fn follow(
    fs: &Fs,
    files: &mut [(&Found, Content, u64)],
    titled: bool,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let mut last = files.len().saturating_sub(1);
    let views = files.iter().filter_map(|(file, ..)| fs.view(file.node.partition()?).ok());
    let watched: Vec<_> = views.map(|view| fs.watch().watch(view.partition.origin.path())).collect();
    let limit = if watched.len() == files.len() { LOOK_ANYWAY } else { LOOK };
    loop {
        let count = fs.signal().count();
        for (index, (file, content, end)) in files.iter_mut().enumerate() {
            let mut piece = Vec::new();
            fs.read_content(content, *end, PIECE, &mut piece)?;
            if piece.is_empty() {
                continue;
            }
            if titled && index != last {
                writeln!(out, "\n==> {} <==", file.path)?;
            }
            last = index;
            out.write_all(&piece)?;
            *end = copy(fs, content, *end + piece.len() as u64, out)?;
            out.flush()?;
        }
        fs.signal().wait_beyond(count, Some(limit));
    }
}

/// The content of a file and where its last `lines` lines begin.
fn last_lines(fs: &Fs, file: &Found, lines: u64) -> Result<(Content, u64), FsError> {
    let content = fs.content(0, &file.node)?;
    let size = match &content {
        Content::Directory(_) => return Err(FsError::IsADirectory),
        _ => fs.attributes(0, &file.node, Effort::All)?.size,
    };
    // The newline that ends the last line begins no other.
    let (mut end, mut left) = (size, lines.saturating_add(1));
    let mut piece = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE as u64);
        piece.clear();
        fs.read_content(&content, start, usize::try_from(end - start).unwrap_or(PIECE), &mut piece)?;
        if end == size && piece.last() != Some(&b'\n') {
            left = left.saturating_sub(1);
        }
        for at in memchr::memrchr_iter(b'\n', &piece) {
            left = left.saturating_sub(1);
            if left == 0 {
                return Ok((content, start + at as u64 + 1));
            }
        }
        end = start;
    }
    Ok((content, if lines == 0 { size } else { 0 }))
}

/// Prints content from `at` on; where it ended.
fn copy(fs: &Fs, content: &Content, mut at: u64, out: &mut impl Write) -> Result<u64, ReadError> {
    let mut piece = Vec::new();
    loop {
        piece.clear();
        fs.read_content(content, at, PIECE, &mut piece)?;
        if piece.is_empty() {
            return Ok(at);
        }
        out.write_all(&piece).map_err(ReadError::Write)?;
        at += piece.len() as u64;
    }
}
