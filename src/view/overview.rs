//! `topics.tsv` and a topic's `info`: a line for each partition, from a glance at it.
//!
//! `topics.tsv` has no line of names, so that `awk`, `sort` and `wc -l` need not step over one: topic, partition, start and end offset,
//! bytes, and the last time, which is the largest timestamp of the last batch, in UTC. What is not known is `-`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use crate::log::glance::Glance;
use crate::log::partition::Partition;
use crate::view::configs::{ConfigRow, TopicDetails};
use crate::view::info;
use crate::view::partition_view::{PartitionView, Scope};
use crate::view::record_json::iso;

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionRow {
    /// Its number.
    partition: i32,
    /// Its name below the topic.
    label: String,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
    bytes: Option<u64>,
    /// Records, if all of it is measured.
    records: Option<u64>,
    last_timestamp: Option<i64>,
}

/// A topic.
#[derive(Debug, Serialize)]
struct TopicInfo<'a> {
    topic: &'a str,
    topic_id: Option<String>,
    cluster_topic_id: Option<String>,
    bytes: u64,
    records: Option<u64>,
    partitions: &'a [PartitionRow],
    configs: &'a BTreeMap<String, ConfigRow>,
}

impl PartitionRow {
    /// A glance at `partition`; what can't be read is not known.
    pub fn of(partition: &Partition, scope: Scope) -> Self {
        let glance = Glance::of(partition).ok();
        let start =
            |glance: &Glance| if scope.from_first_segment { glance.first_on_disk } else { glance.log_start };
        let limit = scope.limit(partition);
        Self {
            partition: partition.name.partition,
            label: partition.label.clone(),
            start_offset: glance.as_ref().map(|glance| start(glance).0),
            end_offset: glance.and_then(|glance| glance.log_end).map(|end| end.min(limit).0),
            bytes: glance.map(|glance| glance.bytes),
            records: None,
            last_timestamp: glance.and_then(|glance| glance.last_timestamp).map(|time| time.0),
        }
    }

    /// The same, with the count of records if that is known without measuring.
    pub fn counted(view: &PartitionView) -> Self {
        let records = info::known_records(view).ok().flatten();
        Self { records, ..Self::of(&view.partition, view.scope) }
    }

    /// Appends a line of `topics.tsv`.
    pub fn push_line(&self, topic: &str, out: &mut String) {
        let Self { label, start_offset, end_offset, bytes, last_timestamp, .. } = self;
        let (start, end, bytes) = (shown(*start_offset), shown(*end_offset), shown(*bytes));
        let _ = writeln!(out, "{topic}\t{label}\t{start}\t{end}\t{bytes}\t{}", time(*last_timestamp));
    }
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn time(ms: Option<i64>) -> String {
    ms.and_then(iso).unwrap_or_else(|| "-".to_owned())
}

/// A topic's `info.json`.
pub fn topic_json(
    topic: &str,
    details: &TopicDetails<'_>,
    partitions: &[&Partition],
    rows: &[PartitionRow],
) -> Vec<u8> {
    let cluster_topic_id = details.id.map(|id| id.to_string());
    let topic_id = topic_id(partitions).or_else(|| cluster_topic_id.clone());
    let (bytes, records) = totals(rows);
    let configs = details.configs;
    let info = TopicInfo { topic, topic_id, cluster_topic_id, bytes, records, partitions: rows, configs };
    let mut out = serde_json::to_vec_pretty(&info).unwrap_or_default();
    out.push(b'\n');
    out
}

/// A topic's `info`.
pub fn topic_text(
    topic: &str,
    details: &TopicDetails<'_>,
    partitions: &[&Partition],
    rows: &[PartitionRow],
) -> String {
    let of_partition = topic_id(partitions);
    let other_id = details.other_id(of_partition.as_deref());
    let topic_id = of_partition.or_else(|| details.id.map(|id| id.to_string()));
    let (bytes, records) = totals(rows);
    let mut out = String::new();
    for (name, value) in [
        ("topic", topic.to_owned()),
        ("topic id", topic_id.unwrap_or_else(|| "unknown".to_owned())),
        ("partitions", rows.len().to_string()),
        ("bytes", bytes.to_string()),
        ("records", records.map_or_else(|| "unknown".to_owned(), |records| records.to_string())),
    ] {
        let _ = writeln!(out, "{name:<12}{value}");
    }
    if let Some(id) = other_id {
        let _ = writeln!(out, "{:<12}{id} in the cluster", "");
    }
    for line in details.lines() {
        let _ = writeln!(out, "{:<12}{line}", "config");
    }
    let _ = writeln!(
        out,
        "\n{:<12}{:>12} {:>12} {:>16} {:>12}  last time",
        "partition", "start", "end", "bytes", "records"
    );
    for row in rows {
        let (start, end, bytes) = (shown(row.start_offset), shown(row.end_offset), shown(row.bytes));
        let (records, time) = (shown(row.records), time(row.last_timestamp));
        let _ = writeln!(out, "{:<12}{start:>12} {end:>12} {bytes:>16} {records:>12}  {time}", row.label);
    }
    out
}

/// The id that the first partition which knows it says.
fn topic_id(partitions: &[&Partition]) -> Option<String> {
    partitions.iter().find_map(|partition| info::topic_id(&partition.origin))
}

/// All bytes, and all records if those of each partition are known.
fn totals(rows: &[PartitionRow]) -> (u64, Option<u64>) {
    let bytes = rows.iter().filter_map(|row| row.bytes).sum();
    (bytes, rows.iter().map(|row| row.records).sum())
}
