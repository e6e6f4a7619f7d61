//! What is found after a process was killed, or a machine lost its power, at each step of appending: recovery makes a log of it that
//! has what was promised, and goes on. The same when it stops while it recovers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::collections::BTreeMap;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, mpsc};

use common::crash::{after_each, beginning};
use common::disk::{Op, RecordingDisk, Tree};
use common::model::Numbers;
use common::recovered::{Case, Crash, check};
use common::salvaged::scratch;
use common::story::{self, Shape, Story};
use topicfs::format::batch::Codec;

/// How many trees are checked at once: opening one sleeps now and then.
const WORKERS: usize = 4;

/// After so many cases that fail no more are tried.
const FAILURES: usize = 3;

/// Stories of different codecs, with segments of a few batches.
const SHAPES: [Shape; 4] = [
    Shape { codec: Codec::None, rounds: 4, steps: 8, segment_bytes: 1200, value_len: 250, seed: 1 },
    Shape { codec: Codec::Lz4, rounds: 3, steps: 8, segment_bytes: 1000, value_len: 200, seed: 2 },
    Shape { codec: Codec::Zstd, rounds: 3, steps: 8, segment_bytes: 2000, value_len: 700, seed: 5 },
    Shape { codec: Codec::Gzip, rounds: 3, steps: 7, segment_bytes: 4500, value_len: 1400, seed: 4 },
];

/// What was checked.
#[derive(Debug, Default)]
struct Counts {
    crashes: BTreeMap<Crash, usize>,
    /// Of them, those after which a partition needs a quarantine.
    quarantined: usize,
    /// Cases that failed.
    failed: Vec<String>,
}

impl Counts {
    fn add(&mut self, case: &Case, checked: Option<bool>) {
        *self.crashes.entry(case.crash).or_default() += 1;
        match checked {
            Some(needs_quarantine) => self.quarantined += usize::from(needs_quarantine),
            None => self.failed.push(case.to_string()),
        }
    }
}

fn tell(shape: Shape) -> (Story, Vec<Op>) {
    let root = scratch();
    let disk = RecordingDisk::new(root.path());
    let story = Story::tell(shape, root.path(), &disk);
    assert_eq!(story.errors, []);
    let journal = disk.journal();
    let rolled = journal.iter().filter(|op| matches!(op, Op::Open { path, .. } if is_log(path))).count();
    assert!(rolled > 6, "{rolled} segments");
    (story, journal)
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "log")
}

/// The tree that a story begins with.
fn before() -> Tree {
    Tree([("data".into(), None), ("quarantine".into(), None)].into())
}

/// All crashes of a journal, power failures with this many outcomes each.
fn crashes(tree: &Tree, journal: &[Op], power_failures: usize, mut check: impl FnMut(Case)) {
    let mut numbers = Numbers::new(7);
    after_each(tree, journal, |count, machine| {
        // A sync changes nothing that another process sees.
        if !matches!(journal.get(count), Some(Op::Sync { .. } | Op::SyncDirectory { .. })) {
            check(Case { crash: Crash::Kill, count, tree: machine.killed() });
        }
        for _ in 0..power_failures {
            check(Case { crash: Crash::PowerFailure, count, tree: machine.unplugged(&mut numbers) });
        }
    });
    // The beginning of a write is a journal of its own.
    for (count, op) in journal.iter().enumerate() {
        let Some(op) = beginning(op, &mut numbers) else { continue };
        let journal: Vec<Op> = journal[..count].iter().cloned().chain([op]).collect();
        let mut tree_then = None;
        after_each(tree, &journal, |done, machine| {
            if done == journal.len() {
                tree_then = Some(machine.killed());
            }
        });
        check(Case { crash: Crash::KillInWrite, count, tree: tree_then.unwrap() });
    }
}

/// Recovers a tree, but does not close it; the tree then, what was done, and how many partitions needed a quarantine.
fn recover(tree: &Tree) -> (Tree, Vec<Op>, usize) {
    let root = scratch();
    tree.write(root.path());
    let disk = RecordingDisk::new(root.path());
    let owned = story::open(root.path(), &disk).unwrap();
    let cut = if owned.is_sound() { 0 } else { story::recover(&owned, root.path()).unwrap() };
    drop(owned);
    let mut recovered = Tree::read(root.path());
    recovered.0.retain(|path, _| path.file_name().is_none_or(|name| name != ".lock"));
    (recovered, disk.journal(), cut)
}

/// Checks cases on some threads, and what they come to.
fn check_each(
    make: impl FnOnce(&mut dyn FnMut(Case)),
    check: impl Fn(&Case) -> bool + Sync + RefUnwindSafe,
) -> Counts {
    let counts = Mutex::new(Counts::default());
    let (sender, receiver) = mpsc::sync_channel::<Case>(2 * WORKERS);
    let receiver = Mutex::new(receiver);
    let work = || {
        while let Ok(case) = { receiver.lock().unwrap().recv() } {
            if counts.lock().unwrap().failed.len() < FAILURES {
                let checked = catch_unwind(|| check(&case));
                counts.lock().unwrap().add(&case, checked.ok());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(work);
        }
        make(&mut |case| sender.send(case).unwrap());
        drop(sender);
    });
    let counts = counts.into_inner().unwrap();
    assert!(counts.failed.is_empty(), "each of these, see above, failed: {}", counts.failed.join("\n"));
    counts
}

/// Checks all crashes of a story.
fn check_all(shape: &Shape) {
    let (story, journal) = tell(*shape);
    let make = |sink: &mut dyn FnMut(Case)| crashes(&before(), &journal, 2, sink);
    let counts = check_each(make, |case| check(case, &story, shape));
    eprintln!("{:?}: {} operations, {counts:?}", shape.codec, journal.len());
    assert!(counts.crashes.values().all(|count| *count > 50));
}

#[test]
fn a_log_without_a_codec_survives_a_crash_after_each_step() {
    check_all(&SHAPES[0]);
}

#[test]
fn a_log_of_lz4_survives_a_crash_after_each_step() {
    check_all(&SHAPES[1]);
}

#[test]
fn a_log_of_zstd_survives_a_crash_after_each_step() {
    check_all(&SHAPES[2]);
}

#[test]
fn large_batches_of_gzip_survive_a_crash_after_each_step() {
    check_all(&SHAPES[3]);
}

/// Checks that recovering a tree is made good by the next recovery wherever it stops.
fn check_nested(case: &Case, whole: &Tree, journal: &[Op]) {
    let make = |sink: &mut dyn FnMut(Case)| crashes(&case.tree, journal, 1, sink);
    let counts = check_each(make, |nested| {
        let (again, _, _) = recover(&nested.tree);
        assert!(again.below("data") == whole.below("data"), "{case}\nthen\n{again:?}\nnot\n{whole:?}");
        false
    });
    eprintln!("recovering from {:?} after {} operations: {counts:?}", case.crash, case.count);
}

#[test]
fn a_recovery_that_stops_anywhere_is_made_good_by_the_next() {
    const EVERY: usize = 53;
    let (_, journal) = tell(SHAPES[0]);
    let mut cases = Vec::new();
    crashes(&before(), &journal, 1, |case| {
        let is_clean = case.tree.0.contains_key(Path::new("data/.kafka_cleanshutdown"));
        if case.count % EVERY == EVERY - 1 && !is_clean {
            cases.push(case);
        }
    });
    assert!(cases.len() > 15);
    for case in cases {
        let (whole, journal, _) = recover(&case.tree);
        check_nested(&case, &whole, &journal);
    }
}

#[test]
fn a_recovery_with_a_quarantine_that_stops_anywhere_is_made_good_by_the_next() {
    const ENOUGH: usize = 4;
    let (_, journal) = tell(SHAPES[3]);
    let mut tried = 0;
    crashes(&before(), &journal, 2, |case| {
        if tried < ENOUGH && case.crash == Crash::PowerFailure && case.count.is_multiple_of(5) {
            let (whole, journal, cut) = recover(&case.tree);
            if cut > 0 {
                tried += 1;
                check_nested(&case, &whole, &journal);
            }
        }
    });
    assert_eq!(tried, ENOUGH);
}
