//! `info` and `info.json`: the summary of a partition. `docs/info.md` has the table of its fields.
//!
//! Counts cover what has been measured, `measured_to` says how far that is; a partition that is small is measured for it.

mod measured;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::format::checkpoint::EpochEntry;
use crate::format::{names, partition_metadata};
use crate::log::LogError;
use crate::log::files;
use crate::log::partition::{Origin, Partition};
use crate::log::segment::scan::Tail;
use crate::log::source::tiered;
use crate::log::transactions::{Decided, open_at_end};
use crate::view::configs::{ConfigRow, TopicDetails};
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};
use crate::view::summary::{CODECS, Summary};
use measured::Measured;

/// Source bytes that may be read to know which transactions are open.
const OPEN_BYTES: u64 = CHEAP_BYTES / 2;
/// Producers that are listed.
const MAX_PRODUCERS: usize = 100;

/// The summary.
#[derive(Debug, Serialize)]
struct Info<'a> {
    #[serde(flatten)]
    log: LogInfo,
    cluster_topic_id: Option<String>,
    #[serde(flatten)]
    counts: CountInfo,
    configs: &'a BTreeMap<String, ConfigRow>,
}

/// What is known of a log without measuring it.
#[derive(Debug, Serialize)]
struct LogInfo {
    topic: String,
    partition: i32,
    directory: String,
    topic_id: Option<String>,
    segments: usize,
    bytes: u64,
    log_start_offset: i64,
    log_end_offset: i64,
    high_watermark: Option<i64>,
    last_stable_offset: Option<i64>,
    open_transactions: Option<Vec<OpenTransaction>>,
    first_offset: Option<i64>,
    first_timestamp: Option<i64>,
    last_offset: Option<i64>,
    last_timestamp: Option<i64>,
    leader_epochs: Option<Vec<Epoch>>,
    tail: &'static str,
    problems: bool,
}

/// What measuring tells.
#[derive(Debug, Serialize)]
struct CountInfo {
    measured_to: i64,
    records: u64,
    null_keys: Option<u64>,
    null_values: Option<u64>,
    min_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    timestamps_out_of_order: Option<u64>,
    batches: u64,
    control_batches: u64,
    aborted_transactions: u64,
    codecs: Vec<CodecInfo>,
    message_formats: Vec<MessageFormat>,
    batch_epochs: Vec<Epoch>,
    producers: usize,
    last_producers: Vec<Producer>,
}

/// A transaction without a marker yet.
#[derive(Debug, Serialize)]
struct OpenTransaction {
    producer_id: i64,
    producer_epoch: i16,
    first_offset: i64,
    since: Option<i64>,
    /// In words that change seldom: two readers should get the same bytes.
    age: Option<String>,
}

/// A leader epoch and its first offset.
#[derive(Debug, Serialize)]
struct Epoch {
    epoch: i32,
    start_offset: i64,
}

impl Epoch {
    const fn of(entry: &EpochEntry) -> Self {
        Self { epoch: entry.epoch.0, start_offset: entry.start_offset.0 }
    }
}

/// The batches of one codec.
#[derive(Debug, Serialize)]
struct CodecInfo {
    codec: &'static str,
    batches: u64,
    bytes: u64,
    uncompressed_bytes: Option<u64>,
    ratio: Option<f64>,
}

/// The batches of one magic.
#[derive(Debug, Serialize)]
struct MessageFormat {
    magic: usize,
    batches: u64,
}

/// The last batch of a producer.
#[derive(Debug, Serialize)]
struct Producer {
    producer_id: i64,
    producer_epoch: i16,
    last_sequence: Option<i32>,
    last_offset: i64,
    last_timestamp: Option<i64>,
}

/// Renders the summary as text or JSON.
///
/// # Errors
/// Those of reading.
pub fn render(
    view: &PartitionView,
    topic: &TopicDetails<'_>,
    committed: bool,
    json: bool,
) -> Result<Vec<u8>, LogError> {
    let info = collect(view, topic, committed)?;
    if json {
        let mut out = serde_json::to_vec_pretty(&info).unwrap_or_default();
        out.push(b'\n');
        return Ok(out);
    }
    Ok(text::render(&info, topic).into_bytes())
}

fn collect<'a>(
    view: &PartitionView,
    topic: &TopicDetails<'a>,
    committed: bool,
) -> Result<Info<'a>, LogError> {
    let measured = view.with_env(committed, |env| Measured::of(view, env, CHEAP_BYTES))?;
    let mut log = log_info(view, committed, &measured)?;
    let in_cluster = topic.id.map(|id| id.to_string());
    log.topic_id = log.topic_id.or_else(|| in_cluster.clone());
    Ok(Info { log, cluster_topic_id: in_cluster, counts: count_info(&measured), configs: topic.configs })
}

fn log_info(view: &PartitionView, committed: bool, measured: &Measured) -> Result<LogInfo, LogError> {
    let partition = &view.partition;
    let segments = partition.segments()?;
    let mut bytes = 0;
    for segment in segments.iter() {
        bytes += segment.stored_len()?;
    }
    let tail = match segments.last() {
        Some(active) => tail_name(&active.end()?.tail),
        None => "clean",
    };
    let (first, last) = view.with_env(committed, |env| {
        let first = match measured.first {
            Some(first) => Some(first),
            None => measured::first_record(view, env)?,
        };
        Ok::<_, LogError>((first, measured::last_record(view, env)?))
    })?;
    let decided = match view.decided(committed)? {
        Some(decided) => Some(decided),
        None => transactions(partition, measured)?,
    };
    let start = view.start()?;
    Ok(LogInfo {
        topic: partition.name.topic.clone(),
        partition: partition.name.partition,
        directory: partition.origin.path().display().to_string(),
        topic_id: topic_id(&partition.origin),
        segments: segments.len(),
        bytes,
        log_start_offset: start.0,
        log_end_offset: partition.log_end()?.0,
        high_watermark: partition.high_watermark().map(|offset| offset.0),
        last_stable_offset: decided.as_ref().map(|decided| decided.last_stable().max(start).0),
        open_transactions: decided.as_ref().map(|decided| open_transactions(decided)),
        first_offset: first.map(|(offset, _)| offset),
        first_timestamp: first.and_then(|(_, timestamp)| time(timestamp)),
        last_offset: last.map(|(offset, _)| offset),
        last_timestamp: last.and_then(|(_, timestamp)| time(timestamp)),
        leader_epochs: view.epoch_checkpoint().map(|entries| entries.iter().map(Epoch::of).collect()),
        tail,
        problems: !view.problems.is_empty(),
    })
}

fn count_info(measured: &Measured) -> CountInfo {
    let (counts, summary) = (measured.counts, &measured.summary);
    let epoch = |(epoch, first): (&i32, &i64)| Epoch { epoch: *epoch, start_offset: *first };
    CountInfo {
        measured_to: measured.measured_to.0,
        records: measured.records,
        null_keys: counts.map(|counts| counts.null_keys),
        null_values: counts.map(|counts| counts.null_values),
        min_timestamp: measured.timestamps.map(|(min, _)| min),
        max_timestamp: measured.timestamps.map(|(_, max)| max),
        timestamps_out_of_order: counts.map(|counts| counts.backward),
        batches: summary.batches,
        control_batches: summary.control_batches,
        aborted_transactions: replay(measured).aborted_count(),
        codecs: codecs(summary),
        message_formats: message_formats(summary),
        batch_epochs: summary.epochs.iter().map(epoch).collect(),
        producers: summary.producers.len(),
        last_producers: last_producers(summary),
    }
}

/// A timestamp, if it is one.
fn time(ms: i64) -> Option<i64> {
    (ms != -1).then_some(ms)
}

/// The transactions at the log's end: as measured, or else as the newest producer snapshot and what follows it say, if that is
/// cheap.
fn transactions(partition: &Partition, measured: &Measured) -> Result<Option<Arc<Decided>>, LogError> {
    let mut decided =
        if measured.is_whole { Some(replay(measured)) } else { open_at_end(partition, OPEN_BYTES)? };
    if let Some(decided) = decided.as_mut() {
        decided.scanned_to = partition.log_end()?;
    }
    Ok(decided.map(Arc::new))
}

/// The transactions where measuring ended.
fn replay(measured: &Measured) -> Decided {
    let mut decided = measured.from.as_ref().map(|first| Decided::before(first)).unwrap_or_default();
    measured.summary.transactions.iter().for_each(|event| decided.apply(&event));
    decided
}

fn open_transactions(decided: &Decided) -> Vec<OpenTransaction> {
    let now = SystemTime::now();
    let age = |since: i64| {
        let since = UNIX_EPOCH.checked_add(std::time::Duration::from_millis(u64::try_from(since).ok()?))?;
        Some(text::duration(now.duration_since(since).ok()?.as_secs()))
    };
    let open = decided.open().into_iter().map(|txn| OpenTransaction {
        producer_id: txn.producer.0,
        producer_epoch: txn.epoch,
        first_offset: txn.first.0,
        since: time(txn.since.0),
        age: age(txn.since.0),
    });
    open.collect()
}

fn codecs(summary: &Summary) -> Vec<CodecInfo> {
    let seen = CODECS.iter().zip(summary.codecs).filter(|(_, sizes)| sizes.batches > 0);
    seen.map(|(codec, sizes)| {
        let uncompressed = (sizes.undecoded == 0).then_some(sizes.unpacked);
        let ratio = uncompressed.filter(|bytes| *bytes > 0).map(|bytes| sizes.bytes as f64 / bytes as f64);
        CodecInfo {
            codec: codec.name(),
            batches: sizes.batches,
            bytes: sizes.bytes,
            uncompressed_bytes: uncompressed,
            ratio: ratio.map(|ratio| (ratio * 1000.0).round() / 1000.0),
        }
    })
    .collect()
}

fn message_formats(summary: &Summary) -> Vec<MessageFormat> {
    let all =
        summary.magics.iter().enumerate().map(|(magic, batches)| MessageFormat { magic, batches: *batches });
    all.filter(|format| format.batches > 0).collect()
}

/// The producers that wrote last, the latest first.
fn last_producers(summary: &Summary) -> Vec<Producer> {
    let mut all: Vec<_> = summary
        .producers
        .iter()
        .map(|(id, last)| Producer {
            producer_id: *id,
            producer_epoch: last.epoch,
            last_sequence: (last.sequence >= 0).then_some(last.sequence),
            last_offset: last.offset,
            last_timestamp: time(last.timestamp),
        })
        .collect();
    all.sort_by_key(|producer| std::cmp::Reverse(producer.last_offset));
    all.truncate(MAX_PRODUCERS);
    all
}

/// The records that are shown, if they are all counted already.
pub(super) fn known_records(view: &PartitionView) -> Result<Option<u64>, LogError> {
    let measured = view.with_env(false, |env| Measured::of(view, env, 0))?;
    Ok(measured.is_whole.then_some(measured.records))
}

/// The word for how a segment ends.
pub(super) const fn tail_name(tail: &Tail) -> &'static str {
    match tail {
        Tail::Clean => "clean",
        Tail::Torn(_) => "torn",
        Tail::Zero(_) => "zeros",
        Tail::Bad(_) => "damaged",
    }
}

/// The topic's id from the names of a tiered store, or from `partition.metadata` (KIP-516), if that is there and right.
pub(super) fn topic_id(origin: &Origin) -> Option<String> {
    let Origin::Directory(directory) = origin else { return None };
    if let Some(tiered) = tiered::of_directory(directory) {
        return Some(tiered.topic_id.to_string());
    }
    let bytes = files::read_small(&directory.join(names::PARTITION_METADATA), 4096).ok()?;
    partition_metadata::parse(&bytes).ok().map(|id| id.to_string())
}
