//! The commands that read a whole source: `dump`, `verify` and `salvage`.

use std::collections::HashSet;
use std::sync::LazyLock;

use tempfile::TempDir;
use topicfs::fs::Fs;
use topicfs::fs::options::{From, Options};
use topicfs::fs::topic_options::TopicOptions;
use topicfs::log::problem::{Kind, Problem, Severity};
use topicfs::log::salvage::{self, copy, plan};
use topicfs::log::source::{Source, SourceOptions};
use topicfs::log::verify::Plan;

use crate::LIMITS;
use crate::archive::Archive;
use crate::tree::{Tree, scratch};

/// Runs each on the tree that was written for an input.
///
/// What must hold: none panics or changes the source; `verify` names only places within the files; `dump` ends, and its
/// text is the same at the second time, as long as its size says; what `salvage` writes is read by topicfs without any
/// problem, and shows only records that were shown of the source.
pub fn check(tree: &Tree, archive: &Archive) {
    let options = Options {
        topic: TopicOptions { from: From::FirstSegment, ..TopicOptions::default() }.choices(),
        max_batch_bytes: LIMITS.max_batch_bytes,
        max_decoded_bytes: LIMITS.max_decoded_bytes,
        ..Options::default()
    };
    let Ok(fs) = Fs::open(&tree.spec(), options.clone(), String::new()) else { return };
    if fs.resolve("t/0").is_err() {
        return;
    }
    for problem in verify(&tree.spec()) {
        let len = std::fs::metadata(&problem.file).map_or(0, |meta| meta.len());
        let end = problem.position.0.saturating_add(problem.len);
        assert!(end <= len || problem.len == 0, "{problem:?} of {len} bytes");
    }
    check_dumps(&fs, archive);
    check_salvage(tree, &fs, &options);
}

fn verify(spec: &str) -> Vec<Problem> {
    let source = Source::open(spec, SourceOptions { limits: LIMITS, follow_symlinks: false });
    let Ok(source) = source else { return Vec::new() };
    let mut problems = Vec::new();
    Plan::new(&source).run(1, &|_| (), &mut |report| problems.extend(report.problems));
    problems
}

fn read(fs: &Fs, path: &str) -> Vec<u8> {
    let node = fs.resolve(path).expect("it is listed");
    let mut whole = Vec::new();
    let read = fs.read_whole(&node, |piece| {
        whole.extend_from_slice(piece);
        Ok(())
    });
    read.unwrap_or_else(|error| panic!("{path}: {error:?}"));
    whole
}

fn check_dumps(fs: &Fs, archive: &Archive) {
    let node = fs.resolve("t/0/dump").expect("it is listed");
    for entry in fs.list(0, &node).expect("it can be listed") {
        let Some(name) = entry.name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let path = format!("t/0/dump/{name}");
        let text = read(fs, &path);
        let node = fs.resolve(&path).expect("it is listed");
        let size =
            fs.attributes(0, &node, topicfs::view::selection::Effort::All).expect("it has a size").size;
        assert_eq!(size, text.len() as u64, "{path} of {} files", archive.files.len());
        assert!(text == read(fs, &path), "{path}: not the same again");
    }
}

fn check_salvage(tree: &Tree, fs: &Fs, options: &Options) {
    static OUT: LazyLock<TempDir> =
        LazyLock::new(|| tempfile::tempdir_in(scratch()).expect("a temporary directory"));
    let out = OUT.path().join("out");
    let _ = std::fs::remove_dir_all(&out);
    let source = Source::open(&tree.spec(), SourceOptions { limits: LIMITS, follow_symlinks: false });
    let Ok(source) = source else { return };
    let Ok(plan) = plan::plan(&source, &[], &out) else { return };
    let wanted = salvage::Options::default();
    plan.create(&out).expect("it can be made");
    let mut reports = Vec::new();
    for job in &plan.jobs {
        reports.push(copy::partition(job, &wanted, &|_| ()).expect("it can be copied"));
    }
    plan.finish(reports, &wanted).expect("it can be finished");
    let spec = out.to_str().expect("UTF-8");
    // Batches are copied byte for byte, with the leader epoch that no checksum covers, and control records whose key or
    // value is none: their checksum is right, and a broker looks into those of producers alone.
    let is_kept = |problem: &Problem| {
        problem.kind == Kind::Epochs
            || problem.kind == Kind::BadRecords && problem.cause.contains("control record")
    };
    let is_wrong = |problem: &Problem| problem.kind.severity() == Severity::Problem && !is_kept(problem);
    let wrong: Vec<_> = verify(spec).into_iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    // A partition without a segment has nothing that could be kept.
    let Ok(copy) = Fs::open(spec, options.clone(), String::new()) else { return };
    if copy.resolve("t/0").is_err() {
        return;
    }
    let lines = |fs: &Fs| read(fs, "t/0/log.jsonl");
    let (shown, kept) = (lines(fs), lines(&copy));
    let shown: HashSet<&[u8]> = shown.split(|byte| *byte == b'\n').collect();
    for line in kept.split(|byte| *byte == b'\n') {
        assert!(shown.contains(line), "{} is not shown of the source", String::from_utf8_lossy(line));
    }
}
