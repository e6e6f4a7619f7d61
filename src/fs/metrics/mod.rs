//! `.topicfs/metrics`: what the mount did and holds, in Prometheus' text format.
//!
//! | module | what |
//! |---|---|
//! | [`requests`], [`topics`] | what is counted of requests; of topics |
//! | `process` | what the system says of our process |
//! | `exposition` | the text format |
//!
//! Whoever counts adds to a number, and nobody reads it before somebody opens the file. What can be asked then is not counted. The text is
//! written by hand: `prometheus-client` writes OpenMetrics, whose counters are of no type for those who read Prometheus' format, and looks
//! labels up under a lock at each count.
//!
//! Names don't begin with `process_`: a node exporter that shows this file has metrics of itself under these names.

pub(super) mod exposition;
mod process;
pub mod requests;
pub mod topics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::fs::appending::Writing;
use crate::fs::mounted::Fs;
use crate::log::counter::Counter;
use crate::log::files::{self, disk, page_cache::PageCache};
use crate::log::problem::Kind;
use crate::log::upkeep::compaction::Compacted;
use crate::log::upkeep::work::Retained;
use exposition::{Exposition, Family};
use process::Status;
use requests::Requests;
use topics::TopicCounts;

/// What was taken from logs in a mount for appending.
#[derive(Debug, Default)]
pub struct Removed {
    /// Segments that retention took.
    pub retention_segments: Counter,
    /// Bytes of their logs.
    pub retention_bytes: Counter,
    /// Compactions.
    pub compactions: Counter,
    /// Records that they took.
    pub compaction_records: Counter,
    /// Bytes by which logs became shorter.
    pub compaction_bytes: Counter,
}

impl Removed {
    /// Counts what retention took of one partition.
    pub(super) fn retained(&self, retained: &Retained) {
        self.retention_segments.add(retained.segments);
        self.retention_bytes.add(retained.bytes);
    }

    /// Counts what compaction took of one partition.
    pub(super) fn compacted(&self, compacted: &Compacted) {
        let taken = |(before, after): (u64, u64)| before.saturating_sub(after);
        self.compactions.add(1);
        self.compaction_records.add(taken(compacted.records));
        self.compaction_bytes.add(taken(compacted.bytes));
    }
}

/// The text of the file as of now.
pub(super) fn text(fs: &Fs) -> Vec<u8> {
    let mut text = Exposition::default();
    add_identity(fs, &mut text);
    add_requests(Requests::of_process(), &mut text);
    add_topics(fs, &mut text);
    add_reading(fs, &mut text);
    add_state(fs, &mut text);
    add_process(&mut text);
    add_appending(fs, &mut text);
    add_problems(fs, &mut text);
    text.into_bytes()
}

fn add_identity(fs: &Fs, text: &mut Exposition) {
    let mode = if fs.is_writable() { "append" } else { "read" };
    text.gauge("topicfs_build_info", "The version that runs, always 1.")
        .add(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.gauge("topicfs_mount_info", "The source, and what it is mounted for, always 1.")
        .add(&[("source", &fs.source().spec), ("mode", mode)], 1);
    let started = fs.started().duration_since(UNIX_EPOCH).unwrap_or_default();
    text.gauge("topicfs_start_time_seconds", "When the mount began, since 1970.").one(started.as_secs_f64());
}

fn add_requests(requests: &Requests, text: &mut Exposition) {
    text.counter("topicfs_requests_total", "Requests of the kernel.").each("operation", requests.asked_for());
    let mut errors =
        text.counter("topicfs_request_errors_total", "Requests that the file system refused or failed at.");
    for (operation, error, count) in requests.errors() {
        errors.add(&[("operation", operation), ("error", error)], count);
    }
    let waits: Vec<_> = requests.waited_for().collect();
    text.counter("topicfs_request_waits_total", "Requests that had to wait, by what for.")
        .each("for", waits.iter().map(|(name, begun, ..)| (name, begun)));
    text.counter(
        "topicfs_request_wait_seconds_total",
        "How long those requests waited that are not waiting any more.",
    )
    .each("for", waits.iter().map(|(name, _, seconds, _)| (name, seconds)));
    text.gauge(
        "topicfs_requests_waiting",
        "Requests that wait now; those for records are readers of follow.",
    )
    .each("for", waits.iter().map(|(name, .., now)| (name, now)));
    text.counter("topicfs_panics_total", "Panics that were caught: each is a bug.").one(requests.panics());
}

fn add_topics(fs: &Fs, text: &mut Exposition) {
    let topics = fs.topic_counts().all();
    let written = if fs.is_writable() { topics.as_slice() } else { &[] };
    let add = |family: Family<'_>, topics: &[(Arc<str>, Arc<TopicCounts>)], of: fn(&TopicCounts) -> u64| {
        family.each("topic", topics.iter().map(|(topic, counts)| (topic, of(counts))));
    };
    let family = text.counter("topicfs_read_bytes_total", "Bytes given to readers.");
    add(family, &topics, |counts| counts.read_bytes.get());
    let family = text.counter("topicfs_appended_records_total", "Records appended.");
    add(family, written, |counts| counts.appended_records.get());
    let family = text.counter("topicfs_appended_bytes_total", "Bytes taken from writers of append files.");
    add(family, written, |counts| counts.appended_bytes.get());
}

fn add_reading(fs: &Fs, text: &mut Exposition) {
    let shared = fs.shared();
    let counts = &shared.counts;
    for (name, help, counter) in [
        ("topicfs_source_read_bytes_total", "Bytes read from files of the source.", &files::BYTES_READ),
        ("topicfs_decoded_batches_total", "How often a batch was decoded.", &counts.decoded_batches),
        (
            "topicfs_decoded_bytes_total",
            "Bytes of the records in decoded batches, decompressed.",
            &counts.decoded_bytes,
        ),
        ("topicfs_rendered_blocks_total", "Blocks of records that were rendered.", &counts.rendered_blocks),
        (
            "topicfs_rendered_block_hits_total",
            "Blocks that were there when they were wanted: rendered ahead of their reader, or for another read.",
            &counts.rendered_hits,
        ),
        ("topicfs_rendered_bytes_total", "Bytes that records were rendered to.", &counts.rendered_bytes),
        ("topicfs_measured_bytes_total", "Bytes of the source that were measured.", &counts.measured_bytes),
        (
            "topicfs_measurements_loaded_total",
            "Segments whose measurement was found in the cache.",
            &counts.measurements_loaded,
        ),
        (
            "topicfs_measurements_saved_total",
            "Measurements of segments that were saved in the cache.",
            &counts.measurements_saved,
        ),
        ("topicfs_key_scanned_bytes_total", "Bytes of the source scanned for by-key.", &counts.indexed_bytes),
    ] {
        text.counter(name, help).one(counter.get());
    }
    text.counter("topicfs_measuring_seconds_total", "How long measuring took, in all threads together.")
        .one(counts.measured_ns.get() as f64 / 1e9);
}

fn add_state(fs: &Fs, text: &mut Exposition) {
    text.gauge("topicfs_open_handles", "Files and directories that are open.")
        .each("kind", fs.handles().count());
    text.gauge("topicfs_known_inodes", "Files and directories that the kernel knows.")
        .one(fs.inodes().count());
    let tree = fs.source().tree();
    text.gauge("topicfs_topics", "Topics of the source.").one(tree.topics.len());
    text.gauge("topicfs_partitions", "Partitions of the source, a broker's leftovers too.")
        .one(tree.topics.values().map(Vec::len).sum::<usize>());
    let views = fs.known_views();
    text.gauge("topicfs_known_partitions", "Partitions that were looked at.").one(views.len());
    text.gauge("topicfs_key_index_builds", "Indexes for by-key that are being built.")
        .one(views.iter().filter(|(_, view)| view.key_progress().is_some()).count());
    text.gauge("topicfs_watched_directories", "Directories of the source that are watched.")
        .one(fs.watch().count());
    let (held, limit) = PageCache::of_process().held_and_limit();
    text.gauge("topicfs_page_cache_bytes", "What the mount has brought into the system's page cache.")
        .one(held);
    text.gauge(
        "topicfs_page_cache_limit_bytes",
        "How much of the page cache the mount may fill: the option page_cache.",
    )
    .one(limit);
}

fn add_process(text: &mut Exposition) {
    let status = Status::now();
    for (name, help, value) in [
        ("topicfs_resident_memory_bytes", "Memory that the mount has resident.", status.resident_bytes),
        (
            "topicfs_peak_resident_memory_bytes",
            "The most memory that the mount has had resident.",
            status.peak_resident_bytes,
        ),
        (
            "topicfs_anonymous_memory_bytes",
            "Resident memory that is the mount's own, of no mapped file.",
            status.anonymous_bytes,
        ),
        ("topicfs_threads", "Threads of the mount.", status.threads),
        ("topicfs_open_fds", "Descriptors that the mount has open.", process::open_descriptors()),
    ] {
        text.gauge(name, help).maybe(value);
    }
    text.counter("topicfs_cpu_seconds_total", "The processor's time that the mount has taken.")
        .one(process::cpu_seconds());
}

fn add_appending(fs: &Fs, text: &mut Exposition) {
    let none = Removed::default();
    let removed = fs.writing().map_or(&none, Writing::removed);
    let refused = &fs.refusals;
    for (name, help, counter) in [
        ("topicfs_append_refusals_total", "Lines written to append files that were refused.", refused),
        ("topicfs_syncs_total", "Files and directories of the source that were made durable.", &disk::SYNCS),
        ("topicfs_retention_segments_total", "Segments that retention took.", &removed.retention_segments),
        (
            "topicfs_retention_bytes_total",
            "Bytes of the logs of segments that retention took.",
            &removed.retention_bytes,
        ),
        ("topicfs_compactions_total", "Compactions of logs.", &removed.compactions),
        ("topicfs_compaction_records_total", "Records that compactions took.", &removed.compaction_records),
        (
            "topicfs_compaction_bytes_total",
            "Bytes by which compactions made logs shorter.",
            &removed.compaction_bytes,
        ),
    ] {
        text.counter(name, help).one(counter.get());
    }
}

fn add_problems(fs: &Fs, text: &mut Exposition) {
    // Lines that were refused say nothing of the source, and are counted apart.
    let kinds = Kind::ALL.iter().filter(|kind| **kind != Kind::Refused);
    let mut counts: BTreeMap<Kind, u64> = kinds.map(|kind| (*kind, 0)).collect();
    for problem in &fs.source().tree().notes {
        *counts.entry(problem.kind).or_default() += 1;
    }
    for (_, view) in fs.known_views() {
        view.problems.count(&mut counts);
    }
    let mut problems = text.gauge("topicfs_problems", "Places of damage and oddities that reading has met.");
    for (kind, count) in counts {
        problems.add(&[("kind", kind.name()), ("severity", kind.severity().name())], count);
    }
}
