//! A strict reader of Prometheus' text format 0.0.4: what a lax one would let pass is wrong in our file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A file's families, in their order.
#[derive(Debug)]
pub struct Metrics {
    pub families: Vec<Family>,
}

/// The samples of one name.
#[derive(Debug)]
pub struct Family {
    pub name: String,
    pub help: String,
    /// `counter` or `gauge`.
    pub kind: String,
    pub samples: BTreeMap<Labels, f64>,
}

/// The labels of a sample, by name.
pub type Labels = BTreeMap<String, String>;

impl Metrics {
    /// What a file says.
    pub fn of(path: &Path) -> Self {
        Self::parse(&fs::read_to_string(path).expect("metrics can be read"))
    }

    /// Panics where the text isn't as it must be.
    pub fn parse(text: &str) -> Self {
        assert!(text.ends_with('\n') && !text.contains("\n\n") && !text.contains('\r'));
        let mut families: Vec<Family> = Vec::new();
        let mut lines = text.lines();
        let mut next = lines.next();
        while let Some(line) = next {
            let begin = line.strip_prefix("# HELP ").unwrap_or_else(|| panic!("no family: {line}"));
            let (name, help) = begin.split_once(' ').expect("a name and what it means");
            let kind_line = lines.next().expect("a type");
            let kind = kind_line.strip_prefix(&format!("# TYPE {name} ")).expect("the type of the same");
            assert!(["counter", "gauge"].contains(&kind), "{kind_line}");
            assert!(is_name(name) && families.iter().all(|family| family.name != name), "{name}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            let help = unescaped(help, "\\n");
            let mut family = Family { name: name.into(), help, kind: kind.into(), samples: BTreeMap::new() };
            next = lines.next();
            while let Some(line) = next.filter(|line| !line.starts_with('#')) {
                let (labels, value) = sample(line.strip_prefix(name).expect("a sample of the family"));
                assert!(kind == "gauge" || value >= 0.0, "{line}");
                assert!(family.samples.insert(labels, value).is_none(), "twice: {line}");
                next = lines.next();
            }
            families.push(family);
        }
        Self { families }
    }

    /// The family of a name.
    pub fn family(&self, name: &str) -> &Family {
        self.families.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    /// The sample with these labels; 0 where there is none.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.family(name).samples.get(&labels).copied().unwrap_or(0.0)
    }
}

/// What is behind the name: labels, if there are any, and the value.
fn sample(rest: &str) -> (Labels, f64) {
    let mut labels = Labels::new();
    let value = match rest.strip_prefix('{') {
        None => rest,
        Some(mut rest) => loop {
            let (name, text) = rest.split_once("=\"").expect("a label and its value");
            assert!(is_name(name) && !name.contains(':'), "{rest}");
            let end = end_of_value(text);
            assert!(labels.insert(name.into(), unescaped(&text[..end], "\\\"n")).is_none(), "twice: {rest}");
            rest = &text[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break rest.strip_prefix('}').expect("the end of the labels"),
            }
        },
    };
    let value = value.strip_prefix(' ').expect("a value");
    assert!(value.starts_with(|c: char| c.is_ascii_digit()), "{value}");
    (labels, value.parse().expect("a number"))
}

/// Where the quote is that ends a label's value.
fn end_of_value(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => return at,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    panic!("no end: {text}");
}

/// The text that was meant; `allowed` may follow a backslash.
fn unescaped(text: &str, allowed: &str) -> String {
    let mut chars = text.chars();
    let mut meant = String::new();
    while let Some(c) = chars.next() {
        if c != '\\' {
            meant.push(c);
            continue;
        }
        let escaped = chars.next().filter(|c| allowed.contains(*c)).expect("an escape that there is");
        meant.push(if escaped == 'n' { '\n' } else { escaped });
    }
    meant
}

fn is_name(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(is_letter) && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}
