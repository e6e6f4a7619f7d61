//! `topicfs manifest`

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::FOUND_WRONG;
use super::args::{ManifestArgs, ManifestFormat};
use super::mount::default_cache_dir;
use super::progress;
use crate::config::Caller;
use crate::log::files::unpacked::UnpackedFiles;
use crate::log::manifest::{self, Entry, Examination, Item, Links};
use crate::log::side_by_side::Crew;
use crate::view::manifest::Form;

/// A file's line.
struct Line {
    bytes: Vec<u8>,
    complaint: Option<String>,
    is_sound: bool,
}

/// Prints what every file of the sources is, in a fixed order, as all processors read them.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &ManifestArgs) -> anyhow::Result<ExitCode> {
    let mut options = args.options.load(Caller::Person)?.options;
    options.cache_dir = options.cache_dir.or_else(default_cache_dir);
    let unpacked = UnpackedFiles::new(options.unpack_room());
    let limits = options.of_source().limits;
    let links = if options.follow_symlinks { Links::Followed } else { Links::Listed };
    let mut items = Vec::new();
    for source in &args.sources {
        items.extend(manifest::paths(source)?.iter().flat_map(|path| manifest::list(path, links)));
    }
    let bar = progress::bar(items.iter().map(|item| item.len).sum());
    let form = form_of(args.format);
    let mut out = io::stdout();
    let mut code = ExitCode::SUCCESS;
    let how = Examination { depth: form.depth(), limits, unpacked: &unpacked };
    let examine = |item: &Item| manifest::examine(item, how, &|bytes| bar.inc(bytes));
    let printed = out.write_all(form.head().as_bytes()).and_then(|()| {
        Crew::of_all_processors().each(
            &items,
            |item| line(form, &examine(item)),
            |line| {
                if let Some(complaint) = &line.complaint {
                    bar.suspend(|| eprintln!("topicfs: {complaint}"));
                }
                if !line.is_sound {
                    code = ExitCode::from(FOUND_WRONG);
                }
                out.write_all(&line.bytes)
            },
        )
    });
    bar.finish_and_clear();
    printed.and_then(|()| out.flush()).context("standard output")?;
    Ok(code)
}

fn line(form: Form, entry: &Entry) -> Line {
    let mut bytes = Vec::new();
    form.render(entry, &mut bytes);
    let complaint = entry.error.as_ref().map(|error| format!("{}: {error}", entry.path.display()));
    Line { bytes, complaint, is_sound: entry.is_sound() }
}

const fn form_of(format: ManifestFormat) -> Form {
    match format {
        ManifestFormat::Text => Form::Text,
        ManifestFormat::Json => Form::Json,
        ManifestFormat::Sha256sum => Form::Sha256sum,
    }
}
