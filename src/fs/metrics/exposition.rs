//! Prometheus' text format 0.0.4: families of samples, each with what it means and its type.

use std::fmt::{Display, Write};

/// The text, as far as it is written.
#[derive(Debug, Default)]
pub(super) struct Exposition {
    text: String,
}

/// A family, to which samples are added.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Exposition {
    /// Begins a family of numbers that only grow; their names end in `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// Begins a family of numbers that go up and down.
    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        Family { text: &mut self.text, name }
    }

    /// All that was written.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}

impl Family<'_> {
    /// Adds the only sample, which has no label.
    pub(super) fn one(mut self, value: impl Display) {
        self.add(&[], value);
    }

    /// The same, if there is a value.
    pub(super) fn maybe(self, value: Option<impl Display>) {
        if let Some(value) = value {
            self.one(value);
        }
    }

    /// Adds a sample with one label for each pair of its value and the sample's.
    pub(super) fn each<L: AsRef<str>, V: Display>(
        mut self,
        label: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        for (value, sample) in samples {
            self.add(&[(label, value.as_ref())], sample);
        }
    }

    /// Adds a sample with labels.
    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.name);
        for (index, (label, text)) in labels.iter().enumerate() {
            self.text.push_str(if index == 0 { "{" } else { "," });
            self.text.push_str(label);
            self.text.push_str("=\"");
            text.chars().for_each(|c| self.push_escaped(c));
            self.text.push('"');
        }
        // Writing to a string doesn't fail.
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    fn push_escaped(&mut self, c: char) {
        match c {
            '\\' => self.text.push_str("\\\\"),
            '"' => self.text.push_str("\\\""),
            '\n' => self.text.push_str("\\n"),
            c => self.text.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_one_after_another() {
        let mut text = Exposition::default();
        text.counter("a_total", "Things.").one(u64::MAX);
        text.gauge("b_seconds", "Times.").each("of", [("x", 0.25), ("y", 1e-9), ("z", 2e9)]);
        text.gauge("c", "Nothing yet.").each("of", [("", 0); 0]);
        let expected = "\
            # HELP a_total Things.\n# TYPE a_total counter\na_total 18446744073709551615\n\
            # HELP b_seconds Times.\n# TYPE b_seconds gauge\n\
            b_seconds{of=\"x\"} 0.25\nb_seconds{of=\"y\"} 0.000000001\nb_seconds{of=\"z\"} 2000000000\n\
            # HELP c Nothing yet.\n# TYPE c gauge\n";
        assert_eq!(String::from_utf8(text.into_bytes()).unwrap(), expected);
    }

    #[test]
    fn what_would_end_a_label_or_a_line_is_escaped() {
        let mut text = Exposition::default();
        text.gauge("a", "One \"line\",\na \\.").add(&[("b", "\"\\\n\tä{}"), ("c", "")], 1);
        let expected =
            "# HELP a One \"line\",\\na \\\\.\n# TYPE a gauge\na{b=\"\\\"\\\\\\n\tä{}\",c=\"\"} 1\n";
        assert_eq!(String::from_utf8(text.into_bytes()).unwrap(), expected);
    }
}
