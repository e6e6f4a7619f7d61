//! The batches of a partition, as kafka-dump-log printed them.

use std::collections::{BTreeMap, BTreeSet};

use super::fixtures::{Case, DumpKind, Partition};

/// One line of a dump that describes a batch.
#[derive(Debug, Clone)]
pub struct BatchLine(BTreeMap<String, String>);

impl BatchLine {
    /// A number of the line.
    pub fn number(&self, name: &str) -> i64 {
        self.word(name).parse().unwrap_or_else(|_| panic!("{name} in {:?}", self.0))
    }

    /// A word of the line.
    pub fn word(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("no {name} in {:?}", self.0))
    }

    /// Whether the line has it.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// `true` or `false`.
    pub fn is(&self, name: &str) -> bool {
        self.word(name) == "true"
    }
}

/// The batches of a partition's segments in order.
pub fn of(case: &Case, partition: &Partition) -> Vec<BatchLine> {
    let mut seen = BTreeSet::new();
    let mut lines = Vec::new();
    for dump in case.dumps() {
        let is_log = dump.source.extension().is_some_and(|extension| extension == "log");
        let is_ours = dump.source.parent() == Some(partition.dir.as_path());
        if is_log && is_ours && dump.kind != DumpKind::Undecoded && seen.insert(dump.source.clone()) {
            let text = std::fs::read(&dump.text).expect("a dump");
            let text = String::from_utf8_lossy(&text);
            let is_batch = |line: &&str| line.starts_with("baseOffset:") || line.starts_with("offset:");
            let base = dump.source.file_stem().expect("a name").to_string_lossy().into_owned();
            let with_base = |mut line: BatchLine| {
                line.0.insert("segment".to_owned(), base.clone());
                line
            };
            lines.extend(text.lines().filter(is_batch).map(parse).map(with_base));
        }
    }
    lines.sort_by_key(|line| line.number("lastOffset"));
    lines
}

fn parse(line: &str) -> BatchLine {
    let mut words = line.split_whitespace();
    let mut fields = BTreeMap::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        fields.insert(name.trim_end_matches(':').to_owned(), value.to_owned());
    }
    // A message of magic 0 and 1 has its offset, a set that of its last message.
    if let Some(offset) = fields.get("offset").cloned() {
        fields.insert("baseOffset".to_owned(), offset.clone());
        fields.insert("lastOffset".to_owned(), offset);
        for (name, none) in [
            ("producerId", "-1"),
            ("isControl", "false"),
            ("isTransactional", "false"),
            ("partitionLeaderEpoch", "-1"),
        ] {
            fields.insert(name.to_owned(), none.to_owned());
        }
    }
    BatchLine(fields)
}
