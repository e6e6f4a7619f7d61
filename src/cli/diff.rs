//! `topicfs diff`

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::args::{DiffArgs, ReportFormat};
use super::named::{self, Partitions};
use super::{FOUND_WRONG, progress};
use crate::config::Caller;
use crate::log::derived::epochs::Epochs;
use crate::log::diff::exchange::OnPaper;
use crate::log::diff::{Comparison, Copy, Count, Parting};
use crate::log::partition::Partition;
use crate::log::source::Source;
use crate::units::LeaderEpoch;

/// What the copies are called.
const NAMES: [&str; 2] = ["A", "B"];

/// Compares the copies of partitions in two sources.
///
/// # Errors
/// When it could not run.
pub fn run(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let config = args.options.load(Caller::Person)?.options;
    let open = |spec: &str| Source::open(spec, config.of_source()).with_context(|| spec.to_owned());
    let sources = [open(&args.a)?, open(&args.b)?];
    let specs = [&*args.a, &*args.b];
    let [a, b] = sources.each_ref().map(|source| named::partitions(source, &args.partitions));
    named::check(&args.partitions, &a.keys().chain(b.keys()))?;
    let mut all_equal = true;
    let are_alone = sources.iter().all(|source| source.data_directories().next().is_none());
    let pairs = if are_alone { pair(&a, &b) } else { pairs(&a, &b) };
    let bar = progress::counter(pairs.len() as u64);
    for (name, pair) in pairs {
        bar.set_message(name.clone());
        let text = match pair {
            [Some(a), Some(b)] => {
                let compared = Comparison::new(a, b).with_context(|| name.clone())?;
                all_equal &= compared.are_equal();
                match args.format {
                    ReportFormat::Text => text_of(&name, &compared, specs),
                    ReportFormat::Json => format!("{}\n", json_of(&name, &compared)),
                }
            }
            [a, _] => {
                all_equal = false;
                let which = usize::from(a.is_none());
                match args.format {
                    ReportFormat::Text => format!("{name}: only in {}\n", NAMES[which]),
                    ReportFormat::Json => {
                        format!("{}\n", json!({"partition": name, "only_in": NAMES[which]}))
                    }
                }
            }
        };
        bar.suspend(|| io::stdout().write_all(text.as_bytes()))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(if all_equal { ExitCode::SUCCESS } else { ExitCode::from(FOUND_WRONG) })
}

/// A partition, and its copies.
type Pair<'a> = (String, [Option<&'a Partition>; 2]);

/// The copies of each partition.
fn pairs<'a>(a: &'a Partitions, b: &'a Partitions) -> Vec<Pair<'a>> {
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    let of = |name: &String| [a, b].map(|all| all.get(name).map(|partition| &**partition));
    names.into_iter().map(|name| (name.clone(), of(name))).collect()
}

/// Two partitions or segments that were named themselves are a pair, whatever their names are.
fn pair<'a>(a: &'a Partitions, b: &'a Partitions) -> Vec<Pair<'a>> {
    match (a.first_key_value(), b.values().next()) {
        (Some((name, one)), Some(other)) => vec![(name.clone(), [Some(one), Some(other)])],
        _ => pairs(a, b),
    }
}

fn text_of(name: &str, compared: &Comparison, specs: [&str; 2]) -> String {
    let mut text = format!("{name}: {}\n", headline(compared));
    let same = &compared.same;
    if !compared.are_equal() && !same.is_empty() {
        let _ = writeln!(text, "  the same: {}", count(same));
    }
    for (which, copy) in compared.copies.iter().enumerate() {
        let (own, other) = (NAMES[which], NAMES[1 - which]);
        let see = |count: &Count| match count.offsets {
            Some((first, last)) => {
                format!("topicfs cat {} '{name}/by-offset/{first}..{}.jsonl'", specs[which], last.next())
            }
            None => String::new(),
        };
        if !copy.only.is_empty() {
            let _ = writeln!(text, "  only in {own}: {}: {}", count(&copy.only), see(&copy.only));
        }
        if !copy.lacking_in_other.is_empty() {
            let lacking = count(&copy.lacking_in_other);
            let _ = writeln!(text, "  missing in {other}, by compaction, deletion or damage: {lacking}");
        }
        if !copy.in_front_of_other.is_empty() {
            let _ = writeln!(text, "  in front of the start of {other}: {}", count(&copy.in_front_of_other));
        }
        if copy.damaged > 0 {
            let _ = writeln!(
                text,
                "  {own} is damaged in {} places: see topicfs verify {}",
                copy.damaged, specs[which]
            );
        }
    }
    let [a, b] = &compared.copies;
    if a.epochs != b.epochs {
        for (copy, name) in compared.copies.iter().zip(NAMES) {
            let _ = writeln!(text, "  epochs of {name}: {}", epochs(&copy.epochs));
        }
    }
    if compared.parting.is_some() {
        for (which, on_paper) in compared.on_paper.iter().enumerate() {
            let (own, leader) = (NAMES[which], NAMES[1 - which]);
            let cut = cut(own, &compared.copies[which], on_paper);
            let _ = writeln!(text, "  if {leader} leads: {cut}");
            if let Some(offset) = compared.hidden_from(on_paper) {
                let command = format!("topicfs truncate {} {name} --to {offset}", specs[which]);
                let _ = writeln!(text, "    too little, since epochs don't tell that they part: {command}");
            }
        }
    }
    text
}

fn headline(compared: &Comparison) -> String {
    let [a, b] = &compared.copies;
    match &compared.parting {
        Some(Parting { offset, epochs: [Some(one), Some(other)] }) => {
            format!("they part at {offset}: epoch {} in A, {} in B", one.0, other.0)
        }
        Some(Parting { .. }) if b.end <= a.end => format!("B ends at {}, A at {}", b.end, a.end),
        Some(Parting { .. }) => format!("A ends at {}, B at {}", a.end, b.end),
        None if compared.are_equal() => format!("the same: {}", count(&compared.same)),
        None => "they don't part, but records are missing".to_owned(),
    }
}

fn count(count: &Count) -> String {
    let of = |number, what| if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") };
    let mut text = of(count.records, "record");
    if count.control_records > 0 {
        text = format!("{text} and {}", of(count.control_records, "control record"));
    }
    match count.offsets {
        Some((first, last)) if first == last => format!("{text}, offset {first}"),
        Some((first, last)) => format!("{text}, offsets {first} to {last}"),
        None => text,
    }
}

fn epochs(epochs: &Epochs) -> String {
    let entries = epochs.entries().iter();
    let entries: Vec<String> =
        entries.map(|entry| format!("{} from {}", entry.epoch.0, entry.start_offset)).collect();
    if entries.is_empty() { "none".to_owned() } else { entries.join(", ") }
}

/// What a copy would cut, and why.
fn cut(name: &str, copy: &Copy, on_paper: &OnPaper) -> String {
    let mut text = if on_paper.to < copy.end {
        format!("{name} truncates to {}", on_paper.to)
    } else {
        format!("{name} truncates nothing")
    };
    for asked in &on_paper.asked {
        let (epoch, answer) = (asked.epoch.0, asked.answer.0);
        let _ = write!(text, "; asks for epoch {epoch}, the answer is epoch {answer} to {}", asked.end);
    }
    if on_paper.asked.is_empty() {
        text.push_str("; it knows no epochs, so its high watermark decides");
    }
    if let Some(start) = on_paper.begins_at {
        let _ = write!(text, "; then it begins anew at {start}, where the leader's log starts");
    }
    text
}

fn json_of(name: &str, compared: &Comparison) -> Value {
    let count = |count: &Count| {
        json!({
            "records": count.records,
            "control_records": count.control_records,
            "first": count.offsets.map(|(first, _)| first.0),
            "last": count.offsets.map(|(_, last)| last.0),
        })
    };
    let epoch = |epoch: Option<LeaderEpoch>| epoch.map(|epoch| epoch.0);
    let copy = |which: usize| {
        let (copy, on_paper) = (&compared.copies[which], &compared.on_paper[which]);
        let epochs = copy.epochs.entries().iter().map(|entry| json!([entry.epoch.0, entry.start_offset.0]));
        let asked = on_paper.asked.iter().map(|asked| {
            json!({"epoch": asked.epoch.0, "answer": asked.answer.0, "end": asked.end.0, "cut": asked.cut.0})
        });
        json!({
            "start": copy.start.0,
            "end": copy.end.0,
            "high_watermark": copy.high_watermark.map(|offset| offset.0),
            "epochs": epochs.collect::<Vec<_>>(),
            "only": count(&copy.only),
            "missing_in_other": count(&copy.lacking_in_other),
            "in_front_of_other": count(&copy.in_front_of_other),
            "damaged": copy.damaged,
            "truncates_to": on_paper.to.0,
            "should_truncate_to": compared.hidden_from(on_paper).map(|offset| offset.0),
            "begins_at": on_paper.begins_at.map(|offset| offset.0),
            "asked": asked.collect::<Vec<_>>(),
        })
    };
    let parting = compared.parting.map(|Parting { offset, epochs: [a, b] }| {
        json!({"offset": offset.0, "epoch_a": epoch(a), "epoch_b": epoch(b)})
    });
    json!({
        "partition": name,
        "equal": compared.are_equal(),
        "parts": parting,
        "same": count(&compared.same),
        "a": copy(0),
        "b": copy(1),
    })
}
