//! Salvages fixtures, and reads what came of it without a line of topicfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use topicfs::format::batch::Limits;
use topicfs::log::salvage::report::Report;
use topicfs::log::salvage::{Options, copy, plan};
use topicfs::log::source::{Source, SourceOptions};

/// Salvages what `patterns` name of `source` to `out`, which is new or empty.
pub fn salvage(source: &Path, patterns: &[&str], out: &Path, options: Options) -> Report {
    let how = SourceOptions { limits: Limits::default(), follow_symlinks: false };
    let source = Source::open(source.to_str().expect("UTF-8"), how).expect("a source");
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    let plan = plan::plan(&source, &patterns, out).expect("a plan");
    plan::check_destination(&source, out).expect("a directory that can be written to");
    plan.create(out).expect("directories can be made");
    let copy = |job| copy::partition(job, &options, &|_| ()).expect("a partition can be copied");
    let partitions = plan.jobs.iter().map(copy).collect();
    plan.finish(partitions, &options).expect("checkpoints can be written")
}

/// Kafka's defaults, but for `index.interval.bytes`.
pub fn with_interval(index_interval_bytes: u64) -> Options {
    Options { index_interval_bytes, ..Options::default() }
}

/// A directory in memory where there is one: each of the many small files is synced.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("temporary directory")
}

/// The files and directories in a directory, by name.
pub fn files(directory: &Path) -> BTreeMap<String, PathBuf> {
    let entries =
        fs::read_dir(directory).expect("directory can be listed").map(|entry| entry.expect("an entry"));
    entries.map(|entry| (entry.file_name().into_string().expect("UTF-8"), entry.path())).collect()
}

/// The entries of a log, one after another, by nothing but their sizes.
pub fn batches(log: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = log;
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let size = i32::from_be_bytes(rest[8..12].try_into().expect("4 bytes"));
        let (batch, after) = rest.split_at(12 + usize::try_from(size).expect("a size"));
        batches.push(batch.to_vec());
        rest = after;
    }
    batches
}

/// All batches of the logs of a partition directory, in order.
pub fn all_batches(partition: &Path) -> Vec<Vec<u8>> {
    let logs = files(partition).into_iter().filter(|(name, _)| {
        name.strip_suffix(".log").is_some_and(|base| base.len() == 20 && base.parse::<u64>().is_ok())
    });
    logs.flat_map(|(_, path)| batches(&fs::read(path).expect("a log can be read"))).collect()
}

/// The base offset of a batch of magic 2.
pub fn base_of(batch: &[u8]) -> i64 {
    i64::from_be_bytes(batch[..8].try_into().expect("8 bytes"))
}
