//! Requests that wait, all watched by one thread: a `stat` for a size, a look-up and the opening of a directory for an index, a
//! read for what lies far ahead or for room, a read of `follow` for records.
//!
//! They are answered when what they wait for is there, a `stat` also when `measure_wait` is over (then with size 0, and a warning), or with
//! EINTR when the kernel says that their caller got a signal. A reader of `follow` gets it for every signal, as from a pipe; programs
//! don't expect it from other calls, so that these go on unless the signal is meant to end their caller.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fuser::{
    Errno, FileHandle, PollNotifier, ReplyAttr, ReplyData, ReplyEntry, ReplyOpen, Request, RequestId,
};

use crate::fs::Fs;
use crate::fs::attributes::Attributes;
use crate::fs::follow::{Come, FollowFile, Seen};
use crate::fs::measuring::Measurement;
use crate::fs::metrics::requests::{Operation, Requests, Wait, WaitsFor};
use crate::fs::mounted::Read;
use crate::fs::stat::Stat;
use crate::fuse::{attr, call, look_up, open_directory, refused, reply_bytes};
use crate::view::blocks::Turn;

/// How often the signals are looked at of callers that went on after one: the kernel tells of the first only.
const LOOK_AT_SIGNALS: Duration = Duration::from_millis(30);
/// How often it is looked whether there is room because somebody has not come again; where one comes, who serves it looks.
const LOOK_FOR_ROOM: Duration = Duration::from_millis(20);
/// Interrupts kept of requests that are not parked, or not yet.
const KEPT_INTERRUPTS: usize = 1024;

/// The requests and their thread.
#[derive(Debug)]
pub(super) struct Parked {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fs: Arc<Fs>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: HashMap<RequestId, Waiting>,
    polls: HashMap<FileHandle, (Arc<FollowFile>, Seen, PollNotifier)>,
    /// An interrupt may come before its request is parked; numbers of requests are never used again.
    early: VecDeque<RequestId>,
    has_thread: bool,
    closed: bool,
}

/// One request.
#[derive(Debug)]
struct Waiting {
    asked: Asked,
    wait: Wait,
    thread: u32,
    /// Whether its caller got a signal that was not meant to end it.
    was_interrupted: bool,
}

/// What is asked for, what it waits for, and where the answer goes.
#[derive(Debug)]
pub(super) enum Asked {
    /// Attributes; these if the time is over.
    Stat(ReplyAttr, Attributes, Arc<Measurement>, Instant),
    /// A name in a directory.
    Lookup(ReplyEntry, u64, OsString, Arc<Measurement>),
    /// A directory's handle.
    OpenDirectory(ReplyOpen, u64, Arc<Measurement>),
    /// Bytes of a file, behind much that nobody has read.
    FarRead(ReplyData, Place, Arc<Measurement>),
    /// Bytes of a file, some of which are there, when there is room to make the others.
    InTurn(ReplyData, Place, Vec<u8>, Turn),
    /// So many bytes that come.
    Read(ReplyData, Arc<FollowFile>, Seen, usize),
}

/// What is to be read of an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) handle: FileHandle,
    pub(super) at: u64,
    pub(super) len: usize,
}

impl Asked {
    fn is_ready(&self, now: Instant) -> bool {
        match self {
            Self::Stat(_, _, measurement, deadline) => measurement.is_done() || now >= *deadline,
            Self::Lookup(.., build) | Self::OpenDirectory(.., build) | Self::FarRead(.., build) => {
                build.is_done()
            }
            // One at a time, by whoever is there: see `take_next`.
            Self::InTurn(..) => false,
            Self::Read(_, file, seen, _) => file.has_changed(*seen),
        }
    }

    const fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Stat(.., deadline) => Some(*deadline),
            Self::Lookup(..)
            | Self::OpenDirectory(..)
            | Self::FarRead(..)
            | Self::InTurn(..)
            | Self::Read(..) => None,
        }
    }

    const fn waits_for(&self) -> WaitsFor {
        match self {
            Self::Stat(..) => WaitsFor::Size,
            Self::Lookup(..) => WaitsFor::Name,
            Self::OpenDirectory(..) => WaitsFor::Directory,
            Self::FarRead(..) => WaitsFor::Place,
            Self::InTurn(..) => WaitsFor::Room,
            Self::Read(..) => WaitsFor::Records,
        }
    }

    fn interrupted(self) {
        let errno = |operation| refused(operation, Errno::EINTR);
        match self {
            Self::Stat(reply, ..) => reply.error(errno(Operation::Getattr)),
            Self::Lookup(reply, ..) => reply.error(errno(Operation::Lookup)),
            Self::OpenDirectory(reply, ..) => reply.error(errno(Operation::Opendir)),
            Self::FarRead(reply, ..) | Self::InTurn(reply, ..) | Self::Read(reply, ..) => {
                reply.error(errno(Operation::Read));
            }
        }
    }
}

impl Waiting {
    /// Whether a signal ends it.
    fn is_ended_by_signal(&self) -> bool {
        // Of a caller in a process namespace that we can't see nothing more is known than that it got one.
        matches!(self.asked, Asked::Read(..)) || self.thread == 0 || is_ending(self.thread)
    }
}

impl Parked {
    pub(super) fn new(fs: Arc<Fs>) -> Self {
        Self { shared: Arc::new(Shared { fs, state: Mutex::default() }) }
    }

    /// Answers a request when what it waits for is there.
    pub(super) fn park(&self, request: &Request, asked: Asked) {
        let wait = Requests::of_process().waits(asked.waits_for());
        let waiting = Waiting { asked, wait, thread: request.pid(), was_interrupted: false };
        self.shared.park(request.unique(), waiting);
        self.begin();
    }

    /// Answers a read whose turn has come, if there is one.
    pub(super) fn answer_next(&self) {
        let next = self.shared.lock().take_next();
        if let Some((unique, waiting)) = next {
            self.shared.answer(unique, waiting);
        }
    }

    /// Answers a `stat` when `measurement` has ended, or `measure_wait` is over: then `attributes` are the answer.
    pub(super) fn park_stat(
        &self,
        request: &Request,
        reply: ReplyAttr,
        attributes: Attributes,
        measurement: Arc<Measurement>,
    ) {
        let deadline = Instant::now() + self.shared.fs.options().measure_wait;
        self.park(request, Asked::Stat(reply, attributes, measurement, deadline));
    }

    /// Tells the kernel when a read of a stream would not wait any more.
    pub(super) fn park_poll(
        &self,
        handle: FileHandle,
        file: Arc<FollowFile>,
        seen: Seen,
        notifier: PollNotifier,
    ) {
        self.shared.lock().polls.insert(handle, (file, seen, notifier));
        self.begin();
        self.shared.fs.signal().raise();
    }

    /// Drops what was asked about a handle that is closed.
    pub(super) fn forget_poll(&self, handle: FileHandle) {
        self.shared.lock().polls.remove(&handle);
    }

    /// The caller of a request got a signal.
    pub(super) fn interrupt(&self, unique: RequestId) {
        self.shared.interrupt(unique);
    }

    fn begin(&self) {
        let mut state = self.shared.lock();
        if !state.has_thread {
            let shared = self.shared.clone();
            let spawned = std::thread::Builder::new().name("parked".into()).spawn(move || shared.watch());
            state.has_thread = spawned.is_ok();
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.fs.signal().raise();
    }
}

impl Shared {
    fn park(&self, unique: RequestId, mut waiting: Waiting) {
        let mut state = self.lock();
        let early = state.early.iter().position(|interrupted| *interrupted == unique);
        if let Some(early) = early {
            state.early.remove(early);
            if waiting.is_ended_by_signal() {
                drop(state);
                return waiting.asked.interrupted();
            }
            waiting.was_interrupted = true;
        }
        state.requests.insert(unique, waiting);
        drop(state);
        // What it waits for may have come before it was parked.
        self.fs.signal().raise();
    }

    fn interrupt(&self, unique: RequestId) {
        let mut state = self.lock();
        match state.requests.remove(&unique) {
            Some(waiting) if waiting.is_ended_by_signal() => {
                drop(state);
                waiting.asked.interrupted();
            }
            Some(waiting) => {
                state.requests.insert(unique, Waiting { was_interrupted: true, ..waiting });
                drop(state);
                self.fs.signal().raise();
            }
            None => {
                state.early.push_back(unique);
                if state.early.len() > KEPT_INTERRUPTS {
                    state.early.pop_front();
                }
            }
        }
    }

    fn watch(&self) {
        loop {
            let count = self.fs.signal().count();
            let (ready, polls, limit) = {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                let (mut ready, polls) = state.take_ready(Instant::now());
                ready.extend(state.take_next());
                (ready, polls, state.limit(Instant::now()))
            };
            for (unique, waiting) in ready {
                self.answer(unique, waiting);
            }
            for (handle, (file, _, notifier)) in polls {
                self.answer_poll(handle, file, notifier);
            }
            self.fs.signal().wait_beyond(count, limit);
        }
    }

    fn answer(&self, unique: RequestId, waiting: Waiting) {
        let Waiting { asked, wait, thread, was_interrupted } = waiting;
        let again = |asked| self.park(unique, Waiting { asked, wait, thread, was_interrupted });
        match asked {
            Asked::Stat(reply, attributes, measurement, deadline) if measurement.is_done() => {
                match call("getattr", attributes.ino, || self.fs.stat(attributes.ino)) {
                    Ok(Stat::Known(now)) => reply.attr(&now.lasting.attributes_ttl(), &attr(&now)),
                    // So much has come since that it takes long again.
                    Ok(Stat::Measuring(now, measurement)) => {
                        again(Asked::Stat(reply, now, measurement, deadline));
                    }
                    Err(errno) => reply.error(errno),
                }
            }
            Asked::Stat(reply, attributes, _, deadline) if Instant::now() >= deadline => {
                tracing::warn!(
                    ino = attributes.ino,
                    "measuring takes longer than measure_wait: the size stays 0 for now, and the file streams to its end"
                );
                reply.attr(&Duration::ZERO, &attr(&attributes));
            }
            Asked::Lookup(reply, parent, name, build) if build.is_done() => {
                look_up(&self.fs, parent, &name, reply);
            }
            Asked::OpenDirectory(reply, ino, build) if build.is_done() => {
                open_directory(&self.fs, ino, reply);
            }
            Asked::FarRead(reply, place, reaching) if reaching.is_done() => {
                if let Some(asked) = self.read_on(reply, place, &[]) {
                    again(asked);
                }
            }
            Asked::InTurn(reply, place, begun, turn) if turn.has_come() => {
                if let Some(asked) = self.read_on(reply, place, &begun) {
                    again(asked);
                }
            }
            Asked::Read(reply, file, _, len) => match call("read", 0, || self.fs.read_follow(&file, len)) {
                Ok(Come::Bytes(bytes)) => reply.data(&bytes),
                Ok(Come::Nothing(seen)) => {
                    again(Asked::Read(reply, file.clone(), seen, len));
                }
                Err(errno) => reply.error(errno),
            },
            interrupted => interrupted.interrupted(),
        }
    }

    /// Answers a read of which there are some bytes, unless the others have to wait.
    fn read_on(&self, reply: ReplyData, place: Place, begun: &[u8]) -> Option<Asked> {
        let Place { handle, at, len } = place;
        match call("read", 0, || self.fs.read_on(handle.0, at, len, begun)) {
            Ok(Read::Bytes(bytes)) => reply_bytes(reply, &bytes),
            Ok(Read::InTurn(begun, turn)) => return Some(Asked::InTurn(reply, place, begun, turn)),
            Ok(Read::Waits(..)) => reply.error(Errno::EIO),
            Err(errno) => reply.error(errno),
        }
        None
    }

    fn answer_poll(&self, handle: FileHandle, file: Arc<FollowFile>, notifier: PollNotifier) {
        let seen = file.seen();
        match call("poll", 0, || Ok(file.is_ready())) {
            Ok(false) if self.fs.follow_file(handle.0).is_some() => {
                self.lock().polls.entry(handle).or_insert((file, seen, notifier));
            }
            Ok(false) => {}
            Ok(true) | Err(_) => {
                if let Err(error) = notifier.notify() {
                    tracing::debug!(%error, "a poll could not be answered");
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests, and polls of handles, that can be answered.
type Ready = (Vec<(RequestId, Waiting)>, Vec<(FileHandle, (Arc<FollowFile>, Seen, PollNotifier))>);

impl State {
    /// Takes out what can be answered now.
    fn take_ready(&mut self, now: Instant) -> Ready {
        let is_ready = |_: &RequestId, waiting: &mut Waiting| {
            waiting.asked.is_ready(now) || waiting.was_interrupted && waiting.is_ended_by_signal()
        };
        let requests = self.requests.extract_if(is_ready).collect();
        let polls = self.polls.extract_if(|_, (file, seen, _)| file.has_changed(*seen)).collect();
        (requests, polls)
    }

    /// Takes out a read whose turn has come.
    fn take_next(&mut self) -> Option<(RequestId, Waiting)> {
        let has_come = |_: &RequestId, waiting: &mut Waiting| matches!(&waiting.asked, Asked::InTurn(.., turn) if turn.has_come());
        self.requests.extract_if(has_come).next()
    }

    /// How long nothing has to be looked at, if nothing happens.
    fn limit(&self, now: Instant) -> Option<Duration> {
        let deadline = self.requests.values().filter_map(|waiting| waiting.asked.deadline()).min();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(now));
        let look = self.requests.values().any(|waiting| waiting.was_interrupted).then_some(LOOK_AT_SIGNALS);
        let is_in_turn = |waiting: &Waiting| matches!(waiting.asked, Asked::InTurn(..));
        let room = self.requests.values().any(is_in_turn).then_some(LOOK_FOR_ROOM);
        left.into_iter().chain(look).chain(room).min()
    }
}

/// Whether a thread has a signal pending that is meant to end it: HUP, INT, QUIT, KILL or TERM, not blocked and not
/// ignored. A thread that is gone needs no answer any more.
fn is_ending(thread: u32) -> bool {
    /// Bit N-1 is signal N.
    const ENDING: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 14;
    let Ok(status) = std::fs::read_to_string(format!("/proc/{thread}/status")) else { return true };
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = mask("SigPnd:") | mask("ShdPnd:");
    pending & ENDING & !(mask("SigBlk:") | mask("SigIgn:")) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_without_signals_goes_on_and_one_that_is_gone_has_ended() {
        assert!(!is_ending(std::process::id()));
        assert!(is_ending(u32::MAX));
    }
}
