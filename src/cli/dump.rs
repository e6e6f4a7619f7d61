//! `topicfs dump`

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};

use super::args::DumpArgs;
use super::{COULD_NOT_RUN, FOUND_WRONG};
use crate::format::batch::Limits;
use crate::log::files;
use crate::log::segment::beside::{self, Beside, MAX_INDEX_BYTES};
use crate::units::Position;
use crate::view::dump::entry::{Decoding, Level, Shown};
use crate::view::dump::index::{IndexFile, Mode};
use crate::view::dump::kind::{self, Kind};
use crate::view::dump::log::LogDump;
use crate::view::dump::{self, push_dumping};

/// Bytes that are written at once.
const PIECE: usize = 256 * 1024;

/// What the options ask for.
struct Wanted {
    shown: Shown,
    mode: Mode,
    max_bytes: Option<u64>,
    limits: Limits,
}

/// What is told on stderr after all files, in Kafka's order, and what the files were like.
#[derive(Default)]
struct Told {
    offset_indexes: Vec<u8>,
    time_indexes: Vec<u8>,
    gaps: Vec<u8>,
    is_damaged: bool,
    has_failed: bool,
}

/// Prints files as kafka-dump-log does. A file that can't be read is named, the others go on.
///
/// # Errors
/// When it could not run; the text says what would work.
pub fn run(args: &DumpArgs) -> anyhow::Result<ExitCode> {
    let wanted = Wanted::of(args)?;
    let mut out = io::stdout().lock();
    let mut told = Told::default();
    for path in args.paths.iter().chain(&args.files) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let result = match Kind::of(&name) {
            None => unknown(path, &mut told, &mut out),
            Some(kind) if kind.is_log() => log(path, &name, kind, &wanted, &mut told, &mut out),
            Some(kind) => small(path, &name, kind, &wanted, &mut told, &mut out),
        };
        match result {
            Ok(()) => {}
            Err(Failure::Read(error)) => {
                told.has_failed = true;
                eprintln!("topicfs: {}: {error}", path.display());
            }
            Err(Failure::Write(error)) => {
                return Err(anyhow::Error::new(error).context("standard output"));
            }
        }
    }
    out.flush().context("standard output")?;
    let mut err = io::stderr().lock();
    for reports in [&told.offset_indexes, &told.time_indexes, &told.gaps] {
        let _ = err.write_all(reports);
    }
    Ok(match (told.has_failed, told.is_damaged) {
        (true, _) => ExitCode::from(COULD_NOT_RUN),
        (false, true) => ExitCode::from(FOUND_WRONG),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Why a file was not dumped to its end.
enum Failure {
    Read(io::Error),
    Write(io::Error),
}

impl Wanted {
    fn of(args: &DumpArgs) -> anyhow::Result<Self> {
        let decoders = &args.decoders;
        for (is_wanted, option) in [
            (decoders.offsets_decoder, "offsets"),
            (decoders.transaction_log_decoder, "transaction-log"),
            (decoders.cluster_metadata_decoder, "cluster-metadata"),
            (decoders.remote_log_metadata_decoder, "remote-log-metadata"),
            (decoders.share_group_state_decoder, "share-group-state"),
        ] {
            if is_wanted {
                bail!("--{option}-decoder is not there yet; --print-data-log shows the records undecoded");
            }
        }
        let prints =
            args.print_data_log || args.key_decoder_class.is_some() || args.value_decoder_class.is_some();
        let level = match (prints, args.deep_iteration) {
            (true, _) => Level::Contents,
            (false, true) => Level::Records,
            (false, false) => Level::Batches,
        };
        let shown = Shown {
            level,
            skip_record_metadata: args.skip_record_metadata,
            keys: decoding(args.key_decoder_class.as_deref())?,
            values: decoding(args.value_decoder_class.as_deref())?,
        };
        let mode = match (args.index_sanity_check, args.verify_index_only) {
            (true, _) => Mode::Sanity,
            (false, true) => Mode::Verify,
            (false, false) => Mode::Print,
        };
        let max_bytes =
            args.max_bytes.filter(|bytes| *bytes != i32::MAX).and_then(|bytes| u64::try_from(bytes).ok());
        Ok(Self { shown, mode, max_bytes, limits: Limits::default() })
    }
}

fn decoding(class: Option<&str>) -> anyhow::Result<Decoding> {
    let Some(class) = class else { return Ok(Decoding::String) };
    Ok(match class.strip_prefix("org.apache.kafka.tools.api.").unwrap_or(class) {
        "StringDecoder" => Decoding::String,
        "IntegerDecoder" => Decoding::Integer,
        "LongDecoder" => Decoding::Long,
        "DefaultDecoder" => Decoding::Bytes,
        _ => bail!(
            "{class} can't be loaded, as there is no JVM: use StringDecoder, IntegerDecoder, LongDecoder or \
             DefaultDecoder of org.apache.kafka.tools.api"
        ),
    })
}

/// A path as Java prints it: without doubled and trailing slashes.
fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut shown = String::with_capacity(text.len());
    for part in text.chars() {
        if part != '/' || !shown.ends_with('/') {
            shown.push(part);
        }
    }
    if shown.len() > 1 && shown.ends_with('/') {
        shown.pop();
    }
    shown
}

fn unknown(path: &Path, told: &mut Told, out: &mut impl Write) -> Result<(), Failure> {
    let mut line = Vec::new();
    push_dumping(&shown_path(path), &mut line);
    out.write_all(&line).map_err(Failure::Write)?;
    std::fs::metadata(path).map_err(Failure::Read)?;
    told.has_failed = true;
    eprintln!("Ignoring unknown file {}", shown_path(path));
    Ok(())
}

fn log(
    path: &Path,
    name: &str,
    kind: Kind,
    wanted: &Wanted,
    told: &mut Told,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let file = Arc::new(files::open(&beside::real(path)).map_err(Failure::Read)?);
    let len = file.metadata().map_err(Failure::Read)?.len();
    let mut piece = Vec::with_capacity(2 * PIECE);
    push_dumping(&shown_path(path), &mut piece);
    kind::push_heading(name, kind, &mut piece);
    let end = wanted.max_bytes.map_or(len, |most| len.min(most));
    let mut dump = LogDump::new(file, end, Position(0), name, wanted.shown, wanted.limits);
    if wanted.max_bytes.is_some() {
        dump = dump.silent_about_rest();
    }
    while dump.step(&mut piece).map_err(Failure::Read)? {
        if piece.len() >= PIECE {
            out.write_all(&piece).map_err(Failure::Write)?;
            piece.clear();
            piece.shrink_to(16 * PIECE);
        }
    }
    out.write_all(&piece).map_err(Failure::Write)?;
    let observed = dump.observed();
    told.is_damaged |= observed.is_damaged;
    told.gaps.extend_from_slice(observed.gaps.report(&shown_path(path)).as_bytes());
    Ok(())
}

fn small(
    path: &Path,
    name: &str,
    kind: Kind,
    wanted: &Wanted,
    told: &mut Told,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let bytes = files::read_small(&beside::real(path), MAX_INDEX_BYTES).map_err(Failure::Read)?;
    let beside = match kind {
        Kind::OffsetIndex | Kind::TimeIndex => Beside::open(path).map_err(Failure::Read)?,
        _ => Beside::default(),
    };
    let shown = shown_path(path);
    let file = IndexFile { path: &shown, name, bytes: &bytes };
    let dumped = dump::whole(kind, &file, &beside, wanted.mode, wanted.limits).map_err(Failure::Read)?;
    out.write_all(&dumped.text).map_err(Failure::Write)?;
    told.is_damaged |= dumped.is_damaged;
    let reports = if kind == Kind::TimeIndex { &mut told.time_indexes } else { &mut told.offset_indexes };
    reports.extend_from_slice(&dumped.reports);
    Ok(())
}
