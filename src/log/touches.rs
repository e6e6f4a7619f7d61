//! Which logs of a directory were written to since somebody looked at all of them, told by the kernel: a thousand are not looked at for one.
//!
//! inotify queues an event before the system call that it tells of returns, and the queue is read when somebody asks: who asks after
//! a write has ended is told of it. ([`crate::log::watch`] tells those who wait; its thread comes a little later.) Nothing is told of what other
//! machines write, nor of what goes through a mapping or another directory's name of a file: listings are looked through for that now and then.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::format::names::{FileState, FileType, SegmentFile};
use crate::log::watch::tells_of_changes;
use crate::units::Offset;

/// Bytes of events read at once.
const BUFFER: usize = 4096;

/// What was written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touched {
    /// The logs with these numbers in their names, and no others.
    Logs(BTreeSet<Offset>),
    /// Perhaps any.
    Any,
}

/// What was written to in one directory, since that was asked last.
#[derive(Debug)]
pub struct Touches(Mutex<State>);

#[derive(Debug)]
struct State {
    touched: Touched,
    asked: Instant,
    /// Whether nothing more is told: the directory is gone, or nobody asked for a while.
    is_over: bool,
}

impl Touches {
    /// Begins to be told of a directory, of which anything may have been written to so far; `None` where the kernel doesn't tell.
    pub fn of(directory: &Path) -> Option<Arc<Self>> {
        let queue = Queue::of_process().filter(|_| tells_of_changes(directory))?;
        let mut watched = queue.lock();
        let flags = WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let number = inotify::add_watch(&queue.inotify, directory, flags).ok()?;
        let state = State { touched: Touched::Any, asked: Instant::now(), is_over: false };
        let touches = Arc::new(Self(Mutex::new(state)));
        watched.entry(number).or_default().push(Arc::downgrade(&touches));
        Some(touches)
    }

    /// Takes what was written to since this was called last.
    pub fn take(&self) -> Touched {
        if let Some(queue) = Queue::of_process() {
            queue.take();
        }
        let mut state = self.lock();
        state.asked = Instant::now();
        match state.is_over {
            true => Touched::Any,
            false => std::mem::replace(&mut state.touched, Touched::Logs(BTreeSet::new())),
        }
    }

    /// Whether nothing more is told.
    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Gives up those of whom nobody has asked for so long: a broker's writes are not told of for nothing.
    pub fn expire(idle: Duration) {
        let Some(queue) = Queue::of_process() else { return };
        queue.lock().retain(|number, of| {
            of.retain(|touches| touches.upgrade().is_some_and(|touches| touches.is_in_use(idle)));
            if of.is_empty() {
                let _ = inotify::remove_watch(&queue.inotify, *number);
            }
            !of.is_empty()
        });
    }

    fn is_in_use(&self, idle: Duration) -> bool {
        let mut state = self.lock();
        state.is_over |= state.asked.elapsed() >= idle;
        !state.is_over
    }

    fn note(&self, name: Option<&CStr>, events: ReadFlags) {
        let ends = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        let mut state = self.lock();
        state.is_over |= events.intersects(ends);
        let Some(name) = name else { return };
        match (name.to_str().ok().and_then(SegmentFile::parse), &mut state.touched) {
            (Some(SegmentFile { base, file_type: FileType::Log, state: FileState::Live }), touched) => {
                if let Touched::Logs(bases) = touched {
                    bases.insert(base);
                }
            }
            // Of what lies beside a log nothing is asked.
            (Some(_), _) => {}
            // Archives have logs of other names.
            (None, touched) => *touched = Touched::Any,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// inotify's descriptor, and whom it tells of, by its numbers.
struct Queue {
    inotify: OwnedFd,
    watched: Mutex<HashMap<i32, Vec<Weak<Touches>>>>,
}

impl Queue {
    /// That of the process, opened when it is first needed; `None` where there is none.
    fn of_process() -> Option<&'static Self> {
        static OF_PROCESS: OnceLock<Option<Queue>> = OnceLock::new();
        let open = || {
            let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            Some(Self { inotify, watched: Mutex::default() })
        };
        OF_PROCESS.get_or_init(open).as_ref()
    }

    /// Takes all that the kernel has to tell.
    fn take(&self) {
        let watched = self.lock();
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                for touches in watched.values().flatten().filter_map(Weak::upgrade) {
                    touches.lock().touched = Touched::Any;
                }
            }
            for touches in watched.get(&event.wd()).into_iter().flatten().filter_map(Weak::upgrade) {
                touches.note(event.file_name(), event.events());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Vec<Weak<Touches>>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;

    use super::*;

    fn logs(bases: &[i64]) -> Touched {
        Touched::Logs(bases.iter().map(|base| Offset(*base)).collect())
    }

    #[test]
    fn who_asks_after_a_write_is_told_of_it_and_nobody_is_told_twice() {
        let directory = tempfile::tempdir().unwrap();
        let name = |base: u8, suffix: &str| directory.path().join(format!("{base:020}.{suffix}"));
        for base in [1, 2] {
            fs::write(name(base, "log"), "before").unwrap();
        }
        let touches = Touches::of(directory.path()).unwrap();
        assert_eq!(touches.take(), Touched::Any, "nothing is known of what came before");
        assert_eq!(touches.take(), logs(&[]));
        for round in 0..1000 {
            File::options().write(true).open(name(2, "log")).unwrap().write_all_at(b"x", 3).unwrap();
            fs::write(name(2, "index"), "y").unwrap();
            assert_eq!(touches.take(), logs(&[2]), "round {round}");
            assert_eq!(touches.take(), logs(&[]));
        }
        File::options().write(true).open(name(1, "log")).unwrap().set_len(2).unwrap();
        assert_eq!(touches.take(), logs(&[1]));
        fs::write(directory.path().join("00000000000000000001-AbC.log"), "z").unwrap();
        assert_eq!(touches.take(), Touched::Any, "this may be a log, too");
    }

    #[test]
    fn what_is_told_no_more_may_be_anything() {
        let directory = tempfile::tempdir().unwrap();
        let touches = Touches::of(directory.path()).unwrap();
        touches.take();
        touches.is_in_use(Duration::ZERO);
        assert_eq!((touches.take(), touches.is_over()), (Touched::Any, true));
        let touches = Touches::of(directory.path()).unwrap();
        touches.take();
        let (other, path) = (tempfile::tempdir().unwrap(), directory.keep());
        fs::rename(&path, other.path().join("elsewhere")).unwrap();
        assert_eq!((touches.take(), touches.is_over()), (Touched::Any, true));
    }
}
