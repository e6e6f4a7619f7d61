//! The lock on a data directory against processes that take it as a broker does: Java's `FileChannel.tryLock` on `.lock`, and at the
//! end unlocked first and unlinked then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on stops with a panic, also in its helpers"
)]

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::model::Numbers;
use common::mounted::has;
use topicfs::log::append::lock::{DirectoryLock, LockError};

/// How long the race lasts.
const RACE: Duration = Duration::from_secs(3);

/// What a broker does to its lock, as Java does it. `hold` keeps it; `race` starts and stops until it is killed. Its number of starts and
/// stops is in the file `turns`: odd while it owns the directory.
const BROKER: &str = r#"
import fcntl, os, random, sys, time
how, lock, turns, seed = sys.argv[1:]
chance = random.Random(int(seed))
turns = os.open(turns, os.O_RDWR)
turn = 0
def next_turn():
    global turn
    turn += 1
    os.pwrite(turns, turn.to_bytes(8, "big"), 0)
while True:
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        if how == "hold":
            print("refused", flush=True)
            sys.exit(1)
        time.sleep(chance.random() * 0.001)
        continue
    next_turn()
    if how == "hold":
        print("locked", flush=True)
        sys.stdin.read()
    time.sleep(chance.random() * 0.004)
    next_turn()
    fcntl.lockf(file, fcntl.LOCK_UN)
    if chance.random() < 0.5:
        time.sleep(chance.random() * 0.004)
    os.unlink(lock)
    os.close(file)
    if how == "hold":
        sys.exit(0)
    time.sleep(chance.random() * 0.004)
"#;

/// A process that behaves as a broker does.
struct Broker(Child);

impl Broker {
    fn start(directory: &Path, how: &str, turns: &Path) -> Self {
        fs::write(turns, 0_u64.to_be_bytes()).unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", BROKER, how]).arg(directory.join(".lock")).arg(turns).arg("1");
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The first thing that it says.
    fn says(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Stops it in order.
    fn stop(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Our side of the race.
struct Race {
    directory: tempfile::TempDir,
    turns: File,
    /// The locks that we have.
    ours: Mutex<Vec<Arc<DirectoryLock>>>,
    is_over: AtomicBool,
    acquired: AtomicUsize,
    lost: AtomicUsize,
}

impl Race {
    /// How often the broker has started and stopped.
    fn turn(&self) -> u64 {
        let mut bytes = [0; 8];
        self.turns.read_exact_at(&mut bytes, 0).unwrap();
        u64::from_be_bytes(bytes)
    }

    /// Whether what we are told is true while the broker owns the directory, all of the time.
    fn is_beside_broker(&self, is_ours: impl FnOnce() -> bool) -> bool {
        let before = self.turn();
        let is_ours = is_ours();
        is_ours && before % 2 == 1 && self.turn() == before
    }

    /// Takes the lock, and gives it back soon, until the race is over.
    fn run(&self, seed: u64) {
        let mut numbers = Numbers::new(seed);
        while !self.is_over.load(Ordering::Relaxed) {
            let mut acquired = None;
            let is_wrong = self.is_beside_broker(|| {
                acquired = DirectoryLock::acquire(self.directory.path()).ok();
                acquired.is_some()
            });
            assert!(!is_wrong, "a lock beside a broker's");
            let Some(lock) = acquired.map(Arc::new) else { continue };
            self.acquired.fetch_add(1, Ordering::Relaxed);
            self.ours.lock().unwrap().push(lock.clone());
            for _ in 0..numbers.below(200) {
                assert!(!self.is_beside_broker(|| lock.is_held()), "it is held beside a broker's");
            }
            std::thread::sleep(Duration::from_micros(u64::try_from(numbers.below(3000)).unwrap()));
            if !lock.is_held() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
            self.ours.lock().unwrap().retain(|one| !Arc::ptr_eq(one, &lock));
        }
    }

    /// Looks for two locks of ours that are held at once. One that isn't held any more never is again.
    fn watch(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let ours = self.ours.lock().unwrap().clone();
            for (number, first) in ours.iter().enumerate() {
                for second in &ours[number + 1..] {
                    assert!(!(first.is_held() && second.is_held() && first.is_held()), "two are held");
                }
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

#[test]
fn nobody_owns_a_directory_beside_a_broker_that_starts_and_stops() {
    if !has("python3") {
        return;
    }
    let around = tempfile::tempdir().unwrap();
    let turns = around.path().join("turns");
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::start(directory.path(), "race", &turns);
    let race = Race {
        directory,
        turns: File::open(&turns).unwrap(),
        ours: Mutex::default(),
        is_over: AtomicBool::new(false),
        acquired: AtomicUsize::new(0),
        lost: AtomicUsize::new(0),
    };
    std::thread::scope(|scope| {
        let mut threads: Vec<_> = (0..3)
            .map(|seed| {
                scope.spawn({
                    let race = &race;
                    move || race.run(seed)
                })
            })
            .collect();
        threads.push(scope.spawn(|| race.watch()));
        let begun = Instant::now();
        // On a busy machine one of them may not get its turn for long.
        let is_enough = || race.turn() / 2 > 5 && race.acquired.load(Ordering::Relaxed) > 5;
        let lasts = || begun.elapsed() < RACE || !is_enough() && begun.elapsed() < RACE * 20;
        while lasts() && !threads.iter().any(std::thread::ScopedJoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(10));
        }
        race.is_over.store(true, Ordering::Relaxed);
    });
    drop(broker);
    let (starts, acquired) = (race.turn() / 2, race.acquired.into_inner());
    eprintln!(
        "{starts} starts of a broker, {acquired} locks of ours, {} lost their name",
        race.lost.into_inner()
    );
    assert!(starts > 5 && acquired > 5);
}

#[test]
fn a_broker_that_runs_is_named_and_one_that_was_killed_keeps_nobody_out() {
    if !has("python3") {
        return;
    }
    let (directory, around) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let turns = around.path().join("turns");
    let mut broker = Broker::start(directory.path(), "hold", &turns);
    assert_eq!(broker.says(), "locked");
    assert!(DirectoryLock::is_taken(directory.path()));
    let pid = i32::try_from(broker.0.id()).unwrap();
    let error = DirectoryLock::acquire(directory.path()).unwrap_err();
    assert!(matches!(error, LockError::Held { pid: Some(held), .. } if held == pid), "{error}");
    drop(broker);
    assert!(directory.path().join(".lock").exists(), "it was killed");
    assert!(DirectoryLock::acquire(directory.path()).unwrap().is_held());
}

#[test]
fn a_broker_does_not_start_while_the_lock_is_ours_and_starts_when_it_is_not() {
    if !has("python3") {
        return;
    }
    let (directory, around) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let turns = around.path().join("turns");
    let lock = DirectoryLock::acquire(directory.path()).unwrap();
    assert_eq!(Broker::start(directory.path(), "hold", &turns).says(), "refused");
    assert!(lock.is_held(), "its attempt has not taken ours away");
    drop(lock);
    let mut broker = Broker::start(directory.path(), "hold", &turns);
    assert_eq!(broker.says(), "locked");
    broker.stop();
    assert!(!directory.path().join(".lock").exists(), "it has unlinked the file");
    assert!(DirectoryLock::acquire(directory.path()).unwrap().is_held());
}
