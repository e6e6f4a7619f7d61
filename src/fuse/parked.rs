//! Requests that wait for a measurement, all watched by one thread: a `stat` for a size, a look-up and the opening of a
//! directory for an index.
//!
//! They are answered when the measurement has ended, a `stat` also when `measure_wait` is over (then with size 0, and a
//! warning), or with EINTR when their caller got a signal that is meant to end it. fuser does not pass the kernel's interrupts
//! on, so the signals are looked up in `/proc`.

use std::ffi::OsString;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fuser::{Errno, ReplyAttr, ReplyEntry, ReplyOpen};

use crate::fs::Fs;
use crate::fs::attributes::Attributes;
use crate::fs::measuring::Measurement;
use crate::fs::mounted::Stat;
use crate::fuse::{attr, attr_ttl, call, look_up, open_directory};

/// How often the parked requests are looked at.
const TICK: Duration = Duration::from_millis(5);
/// How often the signals of their callers are.
const SIGNAL_TICKS: u32 = 6;

/// The requests and their thread.
#[derive(Debug)]
pub(super) struct Parked {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    fs: Arc<Fs>,
    state: Mutex<State>,
    added: Condvar,
}

#[derive(Debug, Default)]
struct State {
    requests: Vec<Request>,
    has_thread: bool,
    closed: bool,
}

/// One request.
#[derive(Debug)]
struct Request {
    asked: Asked,
    measurement: Arc<Measurement>,
    thread: u32,
}

/// What is asked for, and where the answer goes.
#[derive(Debug)]
pub(super) enum Asked {
    /// Attributes; these if the time is over.
    Stat(ReplyAttr, Attributes, Instant),
    /// A name in a directory.
    Lookup(ReplyEntry, u64, OsString),
    /// A directory's handle.
    OpenDirectory(ReplyOpen, u64),
}

impl Asked {
    fn is_over(&self, now: Instant) -> bool {
        matches!(self, Self::Stat(.., deadline) if now >= *deadline)
    }
}

impl Parked {
    pub(super) fn new(fs: Arc<Fs>) -> Self {
        Self { shared: Arc::new(Shared { fs, state: Mutex::default(), added: Condvar::new() }) }
    }

    /// Answers a `stat` when `measurement` has ended. `attributes` are the answer otherwise.
    pub(super) fn park_stat(
        &self,
        reply: ReplyAttr,
        attributes: Attributes,
        measurement: Arc<Measurement>,
        thread: u32,
    ) {
        let deadline = Instant::now() + self.shared.fs.options().measure_wait;
        self.park(Asked::Stat(reply, attributes, deadline), measurement, thread);
    }

    /// Answers when `measurement` has ended.
    pub(super) fn park(&self, asked: Asked, measurement: Arc<Measurement>, thread: u32) {
        let mut state = self.shared.lock();
        state.requests.push(Request { asked, measurement, thread });
        if !state.has_thread {
            let shared = self.shared.clone();
            state.has_thread =
                std::thread::Builder::new().name("parked".into()).spawn(move || shared.watch()).is_ok();
        }
        self.shared.added.notify_one();
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.added.notify_one();
    }
}

impl Shared {
    fn watch(&self) {
        let mut ticks: u32 = 0;
        loop {
            let ready = {
                let mut state = self.lock();
                while state.requests.is_empty() && !state.closed {
                    state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.closed {
                    return;
                }
                ticks = ticks.wrapping_add(1);
                let look_at_signals = ticks.is_multiple_of(SIGNAL_TICKS);
                let now = Instant::now();
                let is_ready = |request: &mut Request| {
                    request.measurement.is_done()
                        || request.asked.is_over(now)
                        || look_at_signals && is_ending(request.thread)
                };
                state.requests.extract_if(.., is_ready).collect::<Vec<_>>()
            };
            for request in ready {
                self.answer(request);
            }
            std::thread::sleep(TICK);
        }
    }

    fn answer(&self, request: Request) {
        let Request { asked, measurement, .. } = request;
        match asked {
            Asked::Stat(reply, attributes, deadline) => {
                self.answer_stat(reply, &attributes, deadline, measurement.is_done());
            }
            Asked::Lookup(reply, parent, name) if measurement.is_done() => {
                look_up(&self.fs, parent, &name, reply);
            }
            Asked::OpenDirectory(reply, ino) if measurement.is_done() => open_directory(&self.fs, ino, reply),
            Asked::Lookup(reply, ..) => reply.error(Errno::EINTR),
            Asked::OpenDirectory(reply, _) => reply.error(Errno::EINTR),
        }
    }

    fn answer_stat(&self, reply: ReplyAttr, attributes: &Attributes, deadline: Instant, is_done: bool) {
        if is_done {
            match call("getattr", attributes.ino, || self.fs.stat(attributes.ino)) {
                Ok(Stat::Known(now) | Stat::Measuring(now, _)) => reply.attr(&attr_ttl(&now), &attr(&now)),
                Err(errno) => reply.error(errno),
            }
        } else if Instant::now() >= deadline {
            tracing::warn!(
                ino = attributes.ino,
                "measuring takes longer than measure_wait: the size stays 0 for now, and the file streams to its end"
            );
            reply.attr(&Duration::ZERO, &attr(attributes));
        } else {
            reply.error(Errno::EINTR);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a thread has a signal pending that is meant to end it: HUP, INT, QUIT, KILL or TERM, not blocked and not
/// ignored. A thread that is gone needs no answer any more; one in a namespace that we can't see is never known to end.
fn is_ending(thread: u32) -> bool {
    /// Bit N-1 is signal N.
    const ENDING: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 8 | 1 << 14;
    if thread == 0 {
        return false;
    }
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
        assert!(!is_ending(0));
        assert!(is_ending(u32::MAX));
    }
}
