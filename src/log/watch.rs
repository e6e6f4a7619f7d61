//! Changes of directories of a source, noticed at once: inotify, one instance and one thread for all of them.
//!
//! A change is no more than a hint to look again: what is told is that something has changed, not what. inotify says nothing of
//! what other machines write (NFS, SMB), nor reliably of what comes in below an overlay: there, and where a watch can't be had, a
//! directory counts as changed every [`LOOK`]. Elsewhere it does so every [`LOOK_ANYWAY`], should a hint get lost. Directories that nobody
//! watches cost nothing.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::log::signal::Signal;

/// How often a directory counts as changed where inotify can't be relied on.
const LOOK: Duration = Duration::from_millis(200);
/// And where it can.
const LOOK_ANYWAY: Duration = Duration::from_secs(5);
/// How long events are left to gather while they keep coming: equal ones become one.
const GATHER: Duration = Duration::from_millis(1);
/// Bytes of events read at once.
const BUFFER: usize = 16 * 1024;

/// Watches directories.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
}

/// A directory that is watched as long as this is kept.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    changes: AtomicU64,
    /// Whether it was moved or removed: then what is at its path is another one.
    is_gone: AtomicBool,
    /// inotify's number for it; `None` where it is only looked at now and then.
    number: Option<i32>,
    shared: Weak<Shared>,
}

#[derive(Debug)]
struct Shared {
    signal: Arc<Signal>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kernel: Option<Arc<Kernel>>,
    has_thread: bool,
    closed: bool,
    /// With inotify's numbers.
    by_path: HashMap<PathBuf, (Weak<Watched>, Option<i32>)>,
    /// One directory may be watched under several names.
    by_number: HashMap<i32, Vec<Weak<Watched>>>,
    has_said_why: bool,
}

/// inotify's descriptor, and one that ends waiting for it.
#[derive(Debug)]
struct Kernel {
    inotify: Option<OwnedFd>,
    wake: OwnedFd,
}

impl Watched {
    /// How often it has changed. Taken before looking, so that nothing is missed between looking and waiting.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// How often some directories have changed, all together.
    pub fn changes_of(all: &[Arc<Self>]) -> u64 {
        all.iter().fold(0, |sum, watched| sum.wrapping_add(watched.changes()))
    }

    fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut state = shared.lock();
        // A new one may have taken its place already.
        if state.by_path.get(&self.path).is_some_and(|(watched, _)| watched.strong_count() == 0) {
            state.by_path.remove(&self.path);
        }
        let Some(number) = self.number else { return };
        let Some(same) = state.by_number.get_mut(&number) else { return };
        same.retain(|watched| watched.strong_count() > 0);
        if same.is_empty() {
            state.by_number.remove(&number);
            if let Some(inotify) = state.kernel.as_ref().and_then(|kernel| kernel.inotify.as_ref()) {
                let _ = inotify::remove_watch(inotify, number);
            }
        }
    }
}

impl Watch {
    /// Raises `signal` at each change. Opens nothing before the first directory is watched.
    pub fn new(signal: Arc<Signal>) -> Self {
        Self { shared: Arc::new(Shared { signal, state: Mutex::default() }) }
    }

    /// Watches a directory, or a file.
    pub fn watch(&self, path: &Path) -> Arc<Watched> {
        let shared = &self.shared;
        // Declared before the lock, which dropping the last of it takes.
        let known;
        let mut state = shared.lock();
        known = state.by_path.get(path).and_then(|(watched, _)| watched.upgrade());
        if let Some(known) = known.as_ref().filter(|known| !known.is_gone.load(Ordering::Acquire)) {
            return known.clone();
        }
        state.begin(shared);
        let number = state.add(path);
        let watched = Arc::new(Watched {
            path: path.to_owned(),
            changes: AtomicU64::new(0),
            is_gone: AtomicBool::new(false),
            number,
            shared: Arc::downgrade(shared),
        });
        state.by_path.insert(path.to_owned(), (Arc::downgrade(&watched), number));
        if let Some(number) = number {
            state.by_number.entry(number).or_default().push(Arc::downgrade(&watched));
        }
        state.wake();
        watched
    }

    /// How many directories and files are watched.
    pub fn count(&self) -> usize {
        self.shared.lock().by_path.len()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.wake();
    }
}

impl State {
    /// Opens what is needed and begins the thread, once.
    fn begin(&mut self, shared: &Arc<Shared>) {
        if self.has_thread {
            return;
        }
        let Ok(wake) = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) else { return };
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK);
        if let Err(error) = &inotify {
            tracing::warn!(%error, "no inotify: growth is looked for every {} ms", LOOK.as_millis());
        }
        let kernel = Arc::new(Kernel { inotify: inotify.ok(), wake });
        self.kernel = Some(kernel.clone());
        let shared = shared.clone();
        let spawned = std::thread::Builder::new().name("watch".into()).spawn(move || shared.run(&kernel));
        self.has_thread = spawned.is_ok();
    }

    /// inotify's number for what is at `path`, `None` where it is no help.
    fn add(&mut self, path: &Path) -> Option<i32> {
        let inotify = self.kernel.as_ref()?.inotify.as_ref()?;
        if !tells_of_changes(path) {
            return None;
        }
        let flags = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CREATE
            | WatchFlags::MOVE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        match inotify::add_watch(inotify, path, flags) {
            Ok(number) => Some(number),
            Err(error) => {
                if !self.has_said_why {
                    self.has_said_why = true;
                    let hint =
                        if error == rustix::io::Errno::NOSPC { " (fs.inotify.max_user_watches)" } else { "" };
                    tracing::info!(path = %path.display(), %error, "no inotify watch{hint}: looked at now and then");
                }
                None
            }
        }
    }

    fn wake(&self) {
        if let Some(kernel) = &self.kernel {
            #[expect(clippy::host_endian_bytes, reason = "eventfd counts in the machine's order")]
            let _ = rustix::io::write(&kernel.wake, &1u64.to_ne_bytes());
        }
    }

    /// All of them. Not to be dropped under the lock, which dropping the last of one takes.
    fn all(&self) -> Vec<Arc<Watched>> {
        self.by_path.values().filter_map(|(watched, _)| watched.upgrade()).collect()
    }
}

impl Shared {
    fn run(&self, kernel: &Kernel) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let (mut looked, mut looked_anyway) = (Instant::now(), Instant::now());
        while let Some(limit) = self.limit(looked, looked_anyway) {
            let had_events = kernel.wait(limit);
            if had_events {
                // The first is told at once; those that follow in a burst may gather.
                if self.take_events(kernel, &mut buffer) {
                    self.signal.raise();
                }
                std::thread::sleep(GATHER);
            }
            let unreliable = looked.elapsed() >= LOOK;
            let everything = looked_anyway.elapsed() >= LOOK_ANYWAY;
            if unreliable && self.look(|watched| watched.number.is_none() || everything) {
                self.signal.raise();
            }
            looked = if unreliable { Instant::now() } else { looked };
            looked_anyway = if everything { Instant::now() } else { looked_anyway };
        }
    }

    /// How long the kernel is waited for; for ever while nothing is watched, `None` at the end.
    fn limit(&self, looked: Instant, looked_anyway: Instant) -> Option<Option<Duration>> {
        let state = self.lock();
        if state.closed {
            return None;
        }
        let unreliable = state.by_path.values().any(|(_, number)| number.is_none());
        let any = !state.by_path.is_empty();
        let left = |every: Duration, last: Instant| every.saturating_sub(last.elapsed());
        Some(match (unreliable, any) {
            (true, _) => Some(left(LOOK, looked)),
            (false, true) => Some(left(LOOK_ANYWAY, looked_anyway)),
            (false, false) => None,
        })
    }

    /// Counts some directories as changed; whether there are any.
    fn look(&self, which: impl Fn(&Watched) -> bool) -> bool {
        let all = self.lock().all();
        let mut any = false;
        for watched in all.iter().filter(|watched| which(watched)) {
            watched.changed();
            any = true;
        }
        any
    }

    /// Takes what the kernel has to tell; whether any of it is about something watched.
    fn take_events(&self, kernel: &Kernel, buffer: &mut [MaybeUninit<u8>]) -> bool {
        let Some(inotify) = &kernel.inotify else { return false };
        let mut reader = inotify::Reader::new(inotify, buffer);
        let mut any = false;
        // At most one buffer, so that others get their turn.
        while let Ok(event) = reader.next() {
            any |= self.take_event(event.wd(), event.events());
            if reader.is_buffer_empty() {
                break;
            }
        }
        any
    }

    fn take_event(&self, number: i32, events: ReadFlags) -> bool {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.look(|_| true);
        }
        let ends = ReadFlags::IGNORED | ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::UNMOUNT;
        let mut state = self.lock();
        let watched: Vec<_> =
            state.by_number.get(&number).into_iter().flatten().filter_map(Weak::upgrade).collect();
        if events.contains(ReadFlags::IGNORED) {
            state.by_number.remove(&number);
        }
        drop(state);
        for watched in &watched {
            if events.intersects(ends) {
                watched.is_gone.store(true, Ordering::Release);
            }
            watched.changed();
        }
        !watched.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel {
    /// Waits for events, or for being woken; whether there are events.
    fn wait(&self, limit: Option<Duration>) -> bool {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let wake = PollFd::new(&self.wake, PollFlags::IN);
        let Some(inotify) = &self.inotify else {
            let _ = poll(&mut [wake], limit.as_ref());
            self.rest();
            return false;
        };
        let mut both = [wake, PollFd::new(inotify, PollFlags::IN)];
        if poll(&mut both, limit.as_ref()).is_err() {
            return false;
        }
        let has_events = both.get(1).is_some_and(|inotify| inotify.revents().contains(PollFlags::IN));
        self.rest();
        has_events
    }

    /// Takes back that it was woken.
    fn rest(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
    }
}

/// Whether the file system of `path` tells of all that is written to it: those of other machines and of other file systems' files
/// don't.
pub(in crate::log) fn tells_of_changes(path: &Path) -> bool {
    /// NFS, SMB (two numbers), CIFS, 9P, FUSE, overlay, Ceph, AFS, Lustre, vboxsf: the numbers in `linux/magic.h` and in their sources.
    const UNRELIABLE: [i64; 11] = [
        0x6969,
        0x517b,
        0xfe53_4d42,
        0xff53_4d42,
        0x0102_1997,
        0x6573_5546,
        0x794c_7630,
        0x00c3_6400,
        0x5346_414f,
        0x0bd0_0bd0,
        0x786f_4256,
    ];
    #[allow(clippy::unnecessary_cast, reason = "its type is another one on other machines")]
    rustix::fs::statfs(path).is_ok_and(|fs| !UNRELIABLE.contains(&(fs.f_type as i64)))
}
