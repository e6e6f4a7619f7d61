//! The table of `docs/performance.md`: what was counted once, and the most that is let pass.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Begins and ends what is written into the document.
const MARKS: [&str; 2] = [
    "<!-- instructions: written by benches/instructions with TOPICFS_BLESS=1 -->\n",
    "<!-- end of instructions -->\n",
];

/// How much more than was counted is let pass: another compiler does as much.
const ROOM: f64 = 1.3;

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The loop.
    pub name: String,
    /// What it is counted for each of.
    pub unit: String,
    /// Instructions for each.
    pub counted: f64,
    /// The most that is let pass.
    pub most: f64,
}

impl Line {
    /// The line for what was counted now.
    pub fn new(name: &str, unit: &str, counted: f64) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), counted, most: counted * ROOM }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let mut cell = || cells.next().map(str::to_owned);
        let (name, unit) = (cell()?, cell()?);
        let mut number = || cell()?.parse().ok();
        Some(Self { name, unit, counted: number()?, most: number()? })
    }
}

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/performance.md"))
}

/// The document before the table, its lines, and what is behind it.
fn parts(document: &str) -> (&str, &str, &str) {
    let (before, rest) = document.split_once(MARKS[0]).expect("where the table begins");
    let (table, after) = rest.split_once(MARKS[1]).expect("where the table ends");
    (before, table, after)
}

/// What it says.
pub fn read() -> Vec<Line> {
    let document = fs::read_to_string(path()).expect("docs/performance.md");
    parts(&document).1.lines().filter_map(Line::parse).collect()
}

/// Makes it say something else.
pub fn write(lines: &[Line]) {
    let document = fs::read_to_string(path()).expect("docs/performance.md");
    let (before, _, after) = parts(&document);
    let mut table = "\n| what | for each | instructions | at most |\n|---|---|---|---|\n".to_owned();
    for Line { name, unit, counted, most } in lines {
        writeln!(table, "| {name} | {unit} | {} | {} |", shown(*counted), shown(*most)).expect("a string");
    }
    let new = [before, MARKS[0], &table, "\n", MARKS[1], after].concat();
    fs::write(path(), new).expect("the document can be written");
}

/// A number with the three digits that count.
pub fn shown(number: f64) -> String {
    let digits = match number {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{number:.digits$}")
}
