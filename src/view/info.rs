//! `info` and `info.json`: the summary of a partition.
//!
//! Counts cover what has been measured, `measured_to` says how far that is; a partition that is small is measured for it.

use serde::Serialize;

use crate::format::{names, partition_metadata};
use crate::log::LogError;
use crate::log::files;
use crate::log::partition::Origin;
use crate::log::scan::Tail;
use crate::log::tiered;
use crate::units::Offset;
use crate::view::env::Env;
use crate::view::layout::Block;
use crate::view::partition_view::{CHEAP_BYTES, PartitionView};
use crate::view::record_json::iso;
use crate::view::run::Goal;

/// The summary.
#[derive(Debug, Serialize)]
struct Info {
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
    open_transactions: Vec<OpenTransaction>,
    records: u64,
    measured_to: i64,
    min_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    tail: &'static str,
    problems: bool,
}

/// A transaction without a marker yet.
#[derive(Debug, Serialize)]
struct OpenTransaction {
    producer_id: i64,
    first_offset: i64,
}

/// What measuring tells.
#[derive(Debug, Default)]
struct Counted {
    records: u64,
    measured_to: Offset,
    timestamps: Option<(i64, i64)>,
}

/// Renders the summary as text or JSON.
///
/// # Errors
/// Those of reading.
pub fn render(view: &PartitionView, committed: bool, json: bool) -> Result<Vec<u8>, LogError> {
    let info = collect(view, committed)?;
    if json {
        let mut out = serde_json::to_vec_pretty(&info).unwrap_or_default();
        out.push(b'\n');
        return Ok(out);
    }
    let number =
        |number: Option<i64>| number.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
    let time = |ms: Option<i64>| match ms {
        Some(ms) => iso(ms).map_or_else(|| format!("{ms} ms"), |iso| format!("{iso} ({ms} ms)")),
        None => "none".to_owned(),
    };
    let mut rows = vec![
        ("topic", info.topic),
        ("partition", info.partition.to_string()),
        ("directory", info.directory),
        ("topic id", info.topic_id.unwrap_or_else(|| "unknown".to_owned())),
        ("segments", info.segments.to_string()),
        ("bytes", info.bytes.to_string()),
        ("log start offset", info.log_start_offset.to_string()),
        ("log end offset", info.log_end_offset.to_string()),
        ("high watermark", number(info.high_watermark)),
    ];
    if let Some(stable) = info.last_stable_offset {
        rows.push(("last stable offset", stable.to_string()));
    }
    for open in &info.open_transactions {
        rows.push((
            "open transaction",
            format!("producer {} from offset {}", open.producer_id, open.first_offset),
        ));
    }
    rows.push(("records", format!("{} (measured to offset {})", info.records, info.measured_to)));
    rows.push(("smallest timestamp", time(info.min_timestamp)));
    rows.push(("largest timestamp", time(info.max_timestamp)));
    rows.push(("tail", info.tail.to_owned()));
    rows.push(("problems", if info.problems { "see problems" } else { "none met so far" }.to_owned()));
    let text: String = rows.iter().map(|(name, value)| format!("{name:<20}{value}\n")).collect();
    Ok(text.into_bytes())
}

fn collect(view: &PartitionView, committed: bool) -> Result<Info, LogError> {
    let partition = &view.partition;
    let segments = partition.segments()?;
    let counted = view.with_env(committed, |env| count(view, env))?;
    let mut bytes = 0;
    for segment in segments.iter() {
        bytes += segment.stored_len()?;
    }
    let tail = match segments.last() {
        Some(active) => tail_name(&active.end()?.tail),
        None => "clean",
    };
    let decided = view.decided(committed)?;
    let open = decided.as_ref().map(|decided| decided.open()).unwrap_or_default();
    Ok(Info {
        topic: partition.name.topic.clone(),
        partition: partition.name.partition,
        directory: partition.origin.path().display().to_string(),
        topic_id: topic_id(&partition.origin),
        segments: segments.len(),
        bytes,
        log_start_offset: view.start()?.0,
        log_end_offset: partition.log_end()?.0,
        high_watermark: partition.high_watermark().map(|offset| offset.0),
        last_stable_offset: decided.as_ref().map(|decided| decided.last_stable().0),
        open_transactions: open
            .iter()
            .map(|(producer, first)| OpenTransaction { producer_id: producer.0, first_offset: first.0 })
            .collect(),
        records: counted.records,
        measured_to: counted.measured_to.0,
        min_timestamp: counted.timestamps.map(|(min, _)| min),
        max_timestamp: counted.timestamps.map(|(_, max)| max),
        tail,
        problems: !view.problems.is_empty(),
    })
}

/// Counts records from the start as far as that is measured or cheap.
fn count(view: &PartitionView, env: &Env<'_>) -> Result<Counted, LogError> {
    let (start, end) = (view.start()?, view.end(env.decided.is_some())?);
    let mut counted = Counted { measured_to: start, ..Counted::default() };
    let mut budget = CHEAP_BYTES;
    for segment in view.partition.segments()?.iter().filter(|segment| segment.below() > start) {
        let run = view.run(env, segment);
        let cost = run.unmeasured(env, None);
        if cost > budget {
            break;
        }
        budget -= cost;
        run.extend(env, None, Goal::End)?;
        let before = run.records_before(env, start)?;
        counted.records += run.records_before(env, end)?.saturating_sub(before);
        counted.measured_to = segment.below().min(end);
        for (min, max) in run.blocks().iter().filter_map(Block::timestamps) {
            let (low, high) = counted.timestamps.unwrap_or((min.0, max.0));
            counted.timestamps = Some((low.min(min.0), high.max(max.0)));
        }
    }
    Ok(counted)
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
fn topic_id(origin: &Origin) -> Option<String> {
    let Origin::Directory(directory) = origin else { return None };
    if let Some(tiered) = tiered::of_directory(directory) {
        return Some(tiered.topic_id.to_string());
    }
    let bytes = files::read_small(&directory.join(names::PARTITION_METADATA), 4096).ok()?;
    partition_metadata::parse(&bytes).ok().map(|id| id.to_string())
}
