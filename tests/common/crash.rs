//! What a machine finds on its disk after it, or a process on it, has stopped: made from the journal of a `disk`.
//!
//! A sync of a file makes its bytes durable, a sync of a directory the names in it. What came later is there or not: writes whole,
//! torn at sectors, as a hole of zeros or not at all; names made, removed and renamed or not, each rename being one step. The names that are
//! there are the first ones, as a journalling file system has them, or any.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use super::disk::{Op, Tree};
use super::model::Numbers;

/// What a disk writes as one.
const SECTOR: u64 = 512;

/// A machine with a disk.
#[derive(Debug)]
pub struct Machine {
    /// The root is the first.
    nodes: Vec<Node>,
    /// What files were opened as.
    opened: Vec<usize>,
    /// Operations on names so far.
    names: usize,
}

#[derive(Debug)]
enum Node {
    File { now: Vec<u8>, durable: Vec<u8>, since: Vec<Change> },
    Directory { now: Names, durable: Names, since: Vec<(usize, NameChange)> },
}

type Names = BTreeMap<OsString, usize>;

#[derive(Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Debug)]
enum NameChange {
    Made(OsString, usize),
    Gone(OsString),
    Renamed(OsString, OsString, usize),
}

impl Machine {
    /// One whose disk has these files, all durable.
    pub fn new(tree: &Tree) -> Self {
        let mut machine = Self { nodes: vec![Node::directory()], opened: Vec::new(), names: 0 };
        for (path, bytes) in &tree.0 {
            let node = match bytes {
                None => Node::directory(),
                Some(bytes) => Node::File { now: bytes.clone(), durable: bytes.clone(), since: Vec::new() },
            };
            machine.nodes.push(node);
            let number = machine.nodes.len() - 1;
            let Node::Directory { now, durable, .. } = machine.parent(path) else { panic!("{path:?}") };
            now.insert(name(path), number);
            durable.insert(name(path), number);
        }
        machine
    }

    /// Does an operation.
    pub fn apply(&mut self, op: &Op) {
        match op {
            Op::Open { path, .. } => {
                let number = self.find(path).unwrap_or_else(|| {
                    let empty = Node::File { now: Vec::new(), durable: Vec::new(), since: Vec::new() };
                    self.make(path, empty)
                });
                self.opened.push(number);
            }
            Op::Write { file, position, bytes } => {
                self.change(*file, Change::Write(*position, bytes.clone()));
            }
            Op::SetLen { file, len } => self.change(*file, Change::SetLen(*len)),
            Op::Sync { file } => {
                let Node::File { now, durable, since } = &mut self.nodes[self.opened[*file]] else {
                    panic!()
                };
                since.clear();
                durable.clone_from(now);
            }
            Op::Rename { from, to } => {
                assert_eq!(from.parent(), to.parent(), "a rename to another directory");
                let number = self.find(from).expect("a file to rename");
                self.change_names(from, NameChange::Renamed(name(from), name(to), number));
            }
            Op::Remove { path } | Op::RemoveDirectory { path } => {
                self.change_names(path, NameChange::Gone(name(path)));
            }
            Op::CreateDirectory { path } => {
                self.make(path, Node::directory());
            }
            Op::SyncDirectory { path } => {
                let number = self.find(path).expect("a directory to sync");
                let Node::Directory { now, durable, since } = &mut self.nodes[number] else { panic!() };
                since.clear();
                durable.clone_from(now);
            }
        }
    }

    /// What another process finds when this one was killed.
    pub fn killed(&self) -> Tree {
        let mut tree = Tree::default();
        self.collect(0, Path::new(""), &mut tree, &mut |node| match node {
            Node::File { now, .. } => Found::File(now.clone()),
            Node::Directory { now, .. } => Found::Directory(now.clone()),
        });
        tree
    }

    /// What the machine finds when it lost its power.
    pub fn unplugged(&self, numbers: &mut Numbers) -> Tree {
        // Whether names become durable in order, and how many have.
        let first = (numbers.below(2) == 0).then(|| numbers.below(self.names + 1));
        let mut tree = Tree::default();
        self.collect(0, Path::new(""), &mut tree, &mut |node| match node {
            Node::File { durable, since, .. } => Found::File(torn(durable, since, numbers)),
            Node::Directory { durable, since, .. } => {
                let mut names = durable.clone();
                for (number, change) in since {
                    if first.map_or_else(|| numbers.below(2) == 0, |first| *number < first) {
                        change.apply(&mut names);
                    }
                }
                Found::Directory(names)
            }
        });
        tree
    }

    fn collect(&self, number: usize, path: &Path, tree: &mut Tree, found: &mut dyn FnMut(&Node) -> Found) {
        match found(&self.nodes[number]) {
            Found::File(bytes) => {
                tree.0.insert(path.to_owned(), Some(bytes));
            }
            Found::Directory(names) => {
                if number != 0 {
                    tree.0.insert(path.to_owned(), None);
                }
                for (name, number) in names {
                    self.collect(number, &path.join(name), tree, found);
                }
            }
        }
    }

    fn find(&self, path: &Path) -> Option<usize> {
        path.iter().try_fold(0, |number, name| match &self.nodes[number] {
            Node::Directory { now, .. } => now.get(name).copied(),
            Node::File { .. } => None,
        })
    }

    fn parent(&mut self, path: &Path) -> &mut Node {
        let number = self.find(path.parent().expect("a directory around it")).expect("a directory");
        &mut self.nodes[number]
    }

    fn make(&mut self, path: &Path, node: Node) -> usize {
        self.nodes.push(node);
        let number = self.nodes.len() - 1;
        self.change_names(path, NameChange::Made(name(path), number));
        number
    }

    fn change_names(&mut self, path: &Path, change: NameChange) {
        let number = self.names;
        self.names += 1;
        let Node::Directory { now, since, .. } = self.parent(path) else { panic!("{path:?}") };
        change.apply(now);
        since.push((number, change));
    }

    fn change(&mut self, file: usize, change: Change) {
        let Node::File { now, since, .. } = &mut self.nodes[self.opened[file]] else { panic!() };
        match &change {
            Change::Write(position, bytes) => write(now, *position, bytes),
            Change::SetLen(len) => now.resize(index(*len), 0),
        }
        since.push(change);
    }
}

enum Found {
    File(Vec<u8>),
    Directory(Names),
}

impl Node {
    fn directory() -> Self {
        Self::Directory { now: Names::new(), durable: Names::new(), since: Vec::new() }
    }
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Made(name, number) => {
                names.insert(name.clone(), *number);
            }
            Self::Gone(name) => {
                names.remove(name);
            }
            Self::Renamed(from, to, number) => {
                if names.get(from) == Some(number) {
                    names.remove(from);
                }
                names.insert(to.clone(), *number);
            }
        }
    }
}

/// The bytes of a file of which not all that was done was durable.
fn torn(durable: &[u8], since: &[Change], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = durable.to_vec();
    // All of it, nothing, or anything: each is as likely.
    let style = numbers.below(3);
    for change in since {
        let how = [0, 1, numbers.below(4)][style];
        match change {
            Change::SetLen(len) if how.is_multiple_of(2) => bytes.resize(index(*len), 0),
            Change::SetLen(_) => {}
            Change::Write(position, written) => match how {
                0 => write(&mut bytes, *position, written),
                1 => {}
                2 => {
                    let end = index(*position) + written.len();
                    bytes.resize(end.max(bytes.len()), 0);
                }
                _ => write_some(&mut bytes, *position, written, numbers),
            },
        }
    }
    bytes
}

/// Writes some of the sectors.
fn write_some(to: &mut Vec<u8>, position: u64, bytes: &[u8], numbers: &mut Numbers) {
    let end = position + bytes.len() as u64;
    let mut at = position;
    while at < end {
        let next = ((at / SECTOR + 1) * SECTOR).min(end);
        if numbers.below(2) == 0 {
            write(to, at, &bytes[index(at - position)..index(next - position)]);
        }
        at = next;
    }
    if numbers.below(2) == 0 {
        to.resize(index(end).max(to.len()), 0);
    }
}

fn write(to: &mut Vec<u8>, position: u64, bytes: &[u8]) {
    let (from, end) = (index(position), index(position) + bytes.len());
    to.resize(end.max(to.len()), 0);
    to[from..end].copy_from_slice(bytes);
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a small file")
}

fn name(path: &Path) -> OsString {
    path.file_name().expect("a name").to_owned()
}

/// All of `journal` up to each of its operations, and the machine then, beginning with the one that has done nothing.
pub fn after_each(tree: &Tree, journal: &[Op], mut then: impl FnMut(usize, &Machine)) {
    let mut machine = Machine::new(tree);
    then(0, &machine);
    for (number, op) in journal.iter().enumerate() {
        machine.apply(op);
        then(number + 1, &machine);
    }
}

/// The beginning of a write, as a process that is killed within it leaves it; any other operation is done or not.
pub fn beginning(op: &Op, numbers: &mut Numbers) -> Option<Op> {
    let Op::Write { file, position, bytes } = op else { return None };
    let len = 1 + numbers.below(bytes.len().saturating_sub(1));
    Some(Op::Write { file: *file, position: *position, bytes: bytes[..len].to_vec() })
}
