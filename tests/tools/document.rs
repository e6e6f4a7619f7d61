//! What tools were seen to do, held against the matrix, and the matrix as the tables of `docs/tools.md`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::matrix::{self, Column, Group, Note};
use crate::script;

/// Begins and ends what is written into the document.
const MARKS: [&str; 2] =
    ["<!-- tables: written by tests/tools with TOPICFS_BLESS=1 -->\n", "<!-- end of tables -->\n"];

/// What the tools of a table did.
#[derive(Debug)]
pub struct Seen {
    groups: &'static [Group],
    cells: Vec<(&'static str, Column, Result<(), String>)>,
}

impl Seen {
    /// Nothing yet.
    pub const fn new(groups: &'static [Group]) -> Self {
        Self { groups, cells: Vec::new() }
    }

    /// A tool did what it does with plain files, or something else.
    pub fn add(&mut self, tool: &'static str, column: Column, result: Result<(), String>) {
        self.cells.push((tool, column, result));
    }

    /// Prints the table, and holds it against the matrix.
    pub fn check(self) {
        let (mut wrong, mut fine) = (Vec::new(), Vec::new());
        for tool in self.groups.iter().flat_map(|group| group.1) {
            let mut line = format!("{:30}", tool.0);
            for (_, column, result) in self.cells.iter().filter(|cell| cell.0 == tool.0) {
                let note = matrix::note(tool.0, *column);
                let shown = match (result, note) {
                    (Ok(()), _) => cell(None),
                    (Err(_), Some(_)) => cell(note),
                    (Err(_), None) => "--".to_owned(),
                };
                write!(line, "  {column:?}: {shown}").expect("a string");
                match result {
                    Err(how) if note.is_none() => wrong.push(format!("{} {column:?}: {how}", tool.0)),
                    Ok(()) if note.is_some() => {
                        fine.push(format!("{} {column:?} is noted as {note:?}", tool.0));
                    }
                    _ => {}
                }
            }
            println!("{line}");
        }
        // Other versions of a tool may do better.
        if script::insists() {
            wrong.append(&mut fine);
        }
        println!("right, though: {fine:?}");
        assert!(!self.cells.is_empty(), "nothing was seen");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// A cell: `ok`, or the number of a note.
fn cell(note: Option<Note>) -> String {
    note.map_or("ok".to_owned(), |note| {
        let place = matrix::NOTES.iter().position(|known| known.0 == note);
        format!("[{}]", place.expect("every note has a text") + 1)
    })
}

/// A table with a line for each tool.
fn table(title: &str, columns: &[(Column, &str)], groups: &[Group]) -> String {
    let mut text = format!("| {title} |");
    for (_, name) in columns {
        write!(text, " {name} |").expect("a string");
    }
    write!(text, "\n|---|{}\n", "---|".repeat(columns.len())).expect("a string");
    for (group, tools) in groups {
        writeln!(text, "| **{group}** |{}", " |".repeat(columns.len())).expect("a string");
        for tool in *tools {
            write!(text, "| `{}` |", tool.0.replace('|', "\\|")).expect("a string");
            for (column, _) in columns {
                write!(text, " {} |", cell(matrix::note(tool.0, *column))).expect("a string");
            }
            text.push('\n');
        }
    }
    text + "\n"
}

/// All that is written into the document.
fn tables() -> String {
    let mut text = String::from("\n## Reading\n\n");
    let reading = [
        (Column::Growing, "`log`, `tail`, `by-segment/`"),
        (Column::Unmeasured, "the same and periods, never measured, > 1 MiB"),
        (Column::Range, "ranges of `by-offset/`, `by-time/`"),
        (Column::Source, "`segments/`"),
    ];
    text += &table("tool", &reading, matrix::READING);
    text += "## Directories\n\n";
    text += &table("tool", &[(Column::Growing, "a topic's directory")], matrix::WALKING);
    text += "## Following\n\n";
    text += &table("program", &[(Column::Live, "`log`, `tail`")], matrix::LIVE);
    text += &table("program", &[(Column::Follow, "`follow`")], matrix::FOLLOW);
    text += "## Notes\n\n";
    for (note, words) in matrix::NOTES {
        writeln!(text, "* {}: {words}", cell(Some(*note))).expect("a string");
    }
    text += "\n## Changing\n\nRefused with `Read-only file system`, and everything stays as it is: ";
    let names: Vec<_> = matrix::CHANGING.iter().map(|tool| format!("`{}`", tool.0)).collect();
    text + &names.join(", ")
        + ". uutils `mv` says `Permission denied`, as on any file system that can only be read.\n\n"
}

#[test]
fn the_document_has_the_tables_of_the_matrix() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tools.md");
    let document = fs::read_to_string(&path).expect("docs/tools.md");
    let (before, rest) = document.split_once(MARKS[0]).expect("where the tables begin");
    let (shown, after) = rest.split_once(MARKS[1]).expect("where the tables end");
    if env::var_os("TOPICFS_BLESS").is_some() {
        let new = [before, MARKS[0], &tables(), MARKS[1], after].concat();
        fs::write(&path, new).expect("the document can be written");
        return;
    }
    assert!(shown == tables(), "docs/tools.md shows other tables: TOPICFS_BLESS=1 writes them");
}

#[test]
fn notes_are_of_tools_that_there_are_and_names_are_of_one_tool() {
    let tables = [
        (matrix::READING, &[Column::Growing, Column::Unmeasured, Column::Range, Column::Source][..]),
        (matrix::LIVE, &[Column::Live]),
        (matrix::FOLLOW, &[Column::Follow]),
    ];
    for (tool, column, _) in matrix::NOTED {
        let groups = tables.iter().filter(|table| table.1.contains(column)).flat_map(|table| table.0);
        let known = groups.flat_map(|group| group.1).filter(|known| known.0 == *tool).count();
        assert_eq!(known, 1, "{tool} {column:?}");
    }
    for (note, _) in matrix::NOTES {
        assert!(matrix::NOTED.iter().any(|noted| noted.2 == *note), "{note:?} is of no tool");
    }
    for groups in [matrix::READING, matrix::WALKING, matrix::LIVE, matrix::FOLLOW] {
        let mut names: Vec<_> = groups.iter().flat_map(|group| group.1).map(|tool| tool.0).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "a name of two tools");
    }
}
