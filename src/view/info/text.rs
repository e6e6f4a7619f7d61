//! `info`: the summary as lines of a name and a value, for people.

use crate::view::configs::TopicDetails;
use crate::view::info::{CodecInfo, CountInfo, Epoch, Info, LogInfo, OpenTransaction, Producer};
use crate::view::record_json::iso;

/// Entries of lists that are shown; `info.json` has more.
const MAX_SHOWN: usize = 10;
/// The width of the names.
const WIDTH: usize = 24;

/// The lines of a summary.
pub(super) fn render(info: &Info<'_>, topic: &TopicDetails<'_>) -> String {
    let mut rows = log(&info.log);
    let other_id = topic.other_id(info.log.topic_id.as_deref());
    rows.extend(other_id.map(|id| ("topic id in the cluster", id)));
    rows.extend(topic.lines().map(|line| ("config", line)));
    rows.extend(transactions(&info.log));
    rows.push(("measured to", measured_to(info)));
    rows.extend(measured(&info.counts));
    rows.iter().map(|(name, value)| format!("{name:<WIDTH$}{value}\n")).collect()
}

type Row = (&'static str, String);

fn log(info: &LogInfo) -> Vec<Row> {
    let mut rows = vec![
        ("topic", info.topic.clone()),
        ("partition", info.partition.to_string()),
        ("directory", info.directory.clone()),
        ("topic id", info.topic_id.clone().unwrap_or_else(unknown)),
        ("segments", info.segments.to_string()),
        ("bytes", info.bytes.to_string()),
        ("log start offset", info.log_start_offset.to_string()),
        ("log end offset", info.log_end_offset.to_string()),
        ("high watermark", number(info.high_watermark)),
    ];
    for (name, offset, timestamp) in [
        ("first record", info.first_offset, info.first_timestamp),
        ("last record", info.last_offset, info.last_timestamp),
    ] {
        let text = offset.map(|offset| format!("{offset}, {}", time(timestamp)));
        rows.push((name, text.unwrap_or_else(|| "none".to_owned())));
    }
    rows.extend(info.leader_epochs.as_ref().map(|epochs| ("leader epochs", self::epochs(epochs))));
    rows.push(("tail", info.tail.to_owned()));
    rows.push(("problems", if info.problems { "see problems" } else { "none met so far" }.to_owned()));
    rows
}

fn transactions(info: &LogInfo) -> Vec<Row> {
    let mut rows = vec![("last stable offset", number(info.last_stable_offset))];
    let Some(open) = &info.open_transactions else { return rows };
    rows.push(("open transactions", open.len().to_string()));
    for OpenTransaction { producer_id, producer_epoch, first_offset, since, age } in open {
        let age = age.as_ref().map(|age| format!(", for {age}")).unwrap_or_default();
        let since = since.map(|since| format!(", since {}{age}", time(Some(since)))).unwrap_or_default();
        let text =
            format!("producer {producer_id}, epoch {producer_epoch}, from offset {first_offset}{since}");
        rows.push(("open transaction", text));
    }
    rows
}

fn measured(info: &CountInfo) -> Vec<Row> {
    let count = |count: Option<u64>| count.map_or_else(unknown, |count| count.to_string());
    let mut rows = vec![
        ("records", info.records.to_string()),
        ("null keys", count(info.null_keys)),
        ("null values", count(info.null_values)),
        ("smallest timestamp", time(info.min_timestamp)),
        ("largest timestamp", time(info.max_timestamp)),
        ("timestamps out of order", count(info.timestamps_out_of_order)),
        ("batches", format!("{}, {} of them control batches", info.batches, info.control_batches)),
        ("aborted transactions", info.aborted_transactions.to_string()),
    ];
    rows.extend(info.codecs.iter().map(|codec| ("codec", self::codec(codec))));
    for format in &info.message_formats {
        rows.push(("message format", format!("magic {}: {} batches", format.magic, format.batches)));
    }
    if !info.batch_epochs.is_empty() {
        rows.push(("epochs of batches", epochs(&info.batch_epochs)));
    }
    rows.push(("producers", info.producers.to_string()));
    rows.extend(info.last_producers.iter().take(MAX_SHOWN).map(|last| ("producer", producer(last))));
    rows
}

fn measured_to(info: &Info<'_>) -> String {
    let end = info.log.log_end_offset;
    match info.counts.measured_to {
        to if to >= end => format!("{to}, the log's end"),
        to => format!("{to} of {end}: counts below cover that; topicfs index measures the rest"),
    }
}

fn codec(codec: &CodecInfo) -> String {
    let CodecInfo { codec, batches, bytes, uncompressed_bytes, ratio } = codec;
    let unpacked = match (uncompressed_bytes, ratio) {
        (Some(unpacked), Some(ratio)) if *codec != "none" => format!(" of {unpacked}, {ratio:.3}"),
        _ => String::new(),
    };
    format!("{codec}: {batches} batches, {bytes} bytes{unpacked}")
}

fn producer(last: &Producer) -> String {
    let Producer { producer_id, producer_epoch, last_sequence, last_offset, last_timestamp } = last;
    let sequence = last_sequence.map(|last| format!(", last sequence {last}")).unwrap_or_default();
    let time = time(*last_timestamp);
    format!("{producer_id}, epoch {producer_epoch}{sequence}, last offset {last_offset}, {time}")
}

/// `0 from 0, 2 from 57`: the last ones of many.
fn epochs(epochs: &[Epoch]) -> String {
    let left_out = epochs.len().saturating_sub(MAX_SHOWN);
    let shown =
        epochs.iter().skip(left_out).map(|epoch| format!("{} from {}", epoch.epoch, epoch.start_offset));
    let shown = shown.collect::<Vec<_>>().join(", ");
    if left_out == 0 { shown } else { format!("{left_out} and then {shown}") }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn number(number: Option<i64>) -> String {
    number.map_or_else(unknown, |number| number.to_string())
}

fn time(ms: Option<i64>) -> String {
    match ms {
        Some(ms) => iso(ms).map_or_else(|| format!("{ms} ms"), |iso| format!("{iso} ({ms} ms)")),
        None => "no time".to_owned(),
    }
}

/// `45 s`, `12 min`, `7 h`, `3 d`.
pub(super) fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}
