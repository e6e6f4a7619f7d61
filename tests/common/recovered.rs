//! What recovery makes of a story that was cut off.

use std::fmt;
use std::path::{Path, PathBuf};

use topicfs::format::batch_builder::NewRecord;
use topicfs::format::names::{Kind, PartitionDir};
use topicfs::units::Timestamp;

use super::disk::{RecordingDisk, Tree};
use super::salvaged::scratch;
use super::story::{self, Shape, Story, Told};

/// One of so many cases is verified: that reads all of it once more.
const VERIFIED: usize = 4;

/// How a story is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Crash {
    /// The process is killed between two operations.
    Kill,
    /// Within a write.
    KillInWrite,
    /// The machine loses its power.
    PowerFailure,
}

/// What is found after one.
pub struct Case {
    pub crash: Crash,
    /// How many operations were done.
    pub count: usize,
    pub tree: Tree,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {} operations: {:?}", self.crash, self.count, self.tree)
    }
}

/// Checks that recovery makes of a tree what the story promises; whether that took a quarantine.
pub fn check(case: &Case, story: &Story, shape: &Shape) -> bool {
    let root = scratch();
    let root = root.path();
    case.tree.write(root);
    let disk = RecordingDisk::new(root);
    let owned = story::open(root, &disk).unwrap();
    let cut = if owned.is_sound() { 0 } else { story::recover(&owned, root).unwrap() };
    let is_power_failure = case.crash == Crash::PowerFailure;
    assert!(is_power_failure || cut == 0, "a process that was killed tears no more than a tail");
    let mut expected = Vec::new();
    for told in &story.partitions {
        let directory = owned.path().join(told.name.to_string());
        let (is_there, fewest, most) = told.at(case.count, is_power_failure);
        assert!(
            is_there.is_none_or(|is_there| is_there == directory.exists()),
            "{}: {is_there:?}",
            told.name
        );
        if !directory.exists() {
            owned.create_partition(&told.name, told.id).unwrap();
        }
        assert_eq!(story::id(&directory), Some(told.id), "{}: its id", told.name);
        let appender = owned.appender(&told.name, &directory, &shape.config()).unwrap();
        let count = usize::try_from(appender.end().0).unwrap();
        assert!(count == 0 || (fewest..=most).contains(&count), "{}: {count}, {fewest}..={most}", told.name);
        assert!(is_there != Some(true) || count >= fewest, "{}: {count} of {fewest}", told.name);
        assert!(told.ends.contains(&count), "{}: {count} is within a batch", told.name);
        let mut appending = appender.begin(Timestamp(0));
        let record = NewRecord { timestamp: Timestamp(0), key: None, value: Some(b"next"), headers: &[] };
        appending.push(&record).unwrap();
        assert_eq!(appending.finish().0, 1);
        expected.push((directory, next(told, count)));
    }
    owned.close().unwrap();
    drop(owned);
    for (directory, values) in &expected {
        assert!(story::values(directory) == *values, "{}: its values", directory.display());
    }
    let closed = Tree::read(&story::data(root));
    let left: Vec<_> = closed.0.keys().filter(|path| is_left(path, &closed)).collect();
    assert!(left.is_empty(), "{left:?} is left");
    let owned = story::open(root, &disk).unwrap();
    assert!(owned.is_sound());
    for (told, (directory, values)) in story.partitions.iter().zip(&expected) {
        let appender = owned.appender(&told.name, directory, &shape.config()).unwrap();
        assert_eq!(usize::try_from(appender.end().0).unwrap(), values.len());
    }
    owned.close().unwrap();
    assert!(Tree::read(&story::data(root)) == closed, "opening and closing changes nothing");
    if case.count.is_multiple_of(VERIFIED) {
        let mut problems = story::verify(&story::data(root));
        problems.retain(|line| !line.contains("meta.properties") && !line.contains("-delete/"));
        assert_eq!(problems, [""; 0]);
    }
    cut > 0
}

/// Whether a file is one that nobody needs, or a directory that waits for its removal and has no record; what is in one that has
/// goes with it.
fn is_left(path: &Path, tree: &Tree) -> bool {
    let is_deleted = |path: &Path| {
        let parsed = path.file_name().and_then(|name| PartitionDir::parse(name.to_str()?));
        parsed.is_some_and(|directory| matches!(directory.kind, Kind::Delete { .. }))
    };
    let is_record = |(name, bytes): (&PathBuf, &Option<Vec<u8>>)| {
        name.extension().is_some_and(|extension| extension == "log")
            && bytes.as_ref().is_some_and(|bytes| !bytes.is_empty())
    };
    let is_temporary = path.extension().is_some_and(|extension| extension == "tmp");
    is_temporary && !path.parent().is_some_and(is_deleted)
        || is_deleted(path) && !tree.below(path).0.iter().any(is_record)
}

/// The first values of a partition, and one more.
fn next(told: &Told, count: usize) -> Vec<Vec<u8>> {
    told.values[..count].iter().cloned().chain([b"next".to_vec()]).collect()
}
