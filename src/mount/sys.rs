//! The libc calls of the mount layer, each in a safe function. No other file of it has `unsafe`.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

pub use crate::log::files::sys::effective_uid;

/// Has large buffers given back to the system when they are freed: glibc would learn to keep them, up to 32 MiB each in the arena of
/// each thread. Not those that are made for each request.
pub fn give_large_buffers_back() {
    #[cfg(target_env = "gnu")]
    {
        const LARGE: libc::c_int = 1024 * 1024;
        // SAFETY: mallopt takes two numbers; it is called before there is a second thread.
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
    }
}

/// Asks whoever serves `path` what it is, whatever the kernel believes: of a dead mount it believes for a moment what it was told last.
///
/// # Errors
/// What comes instead of an answer.
pub fn ask(path: &Path) -> io::Result<()> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    Ok(statx(CWD, path, flags, StatxFlags::BASIC_STATS).map(drop)?)
}

/// Which process came back from [`fork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The old one, with the id of the new one.
    Parent(i32),
    /// The new one.
    Child,
}

/// Splits the process in two.
///
/// # Errors
/// When there is a second thread: the child would inherit its locks and not the thread.
pub fn fork() -> io::Result<Fork> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("a process with threads can't go to the background"));
    }
    // SAFETY: this is the only thread, so the child is a full copy in which every lock is free.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Waits for the end of a child.
pub fn wait_for(pid: i32) -> io::Result<ExitStatus> {
    use std::os::unix::process::ExitStatusExt;
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for an int for the whole call.
        match unsafe { libc::waitpid(pid, &raw mut status, 0) } {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok(ExitStatus::from_raw(status)),
        }
    }
}

/// Leaves the session of the terminal, so that ^C and hangups there don't arrive.
pub fn leave_session() -> io::Result<()> {
    // SAFETY: setsid takes no arguments.
    check(unsafe { libc::setsid() })
}

/// Connects stdin, stdout and stderr to nothing.
pub fn drop_stdio() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for standard in 0..=2 {
        // SAFETY: `null` is open; 0, 1 and 2 are nobody's owned descriptors.
        check(unsafe { libc::dup2(null.as_raw_fd(), standard) })?;
    }
    Ok(())
}

/// What a write to a closed pipe does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedPipe {
    /// End the process without a word, as `cat` does.
    Ends,
    /// Fail with an error, as a server needs it.
    Fails,
}

/// Sets what a write to a closed pipe does.
pub fn on_closed_pipe(what: ClosedPipe) {
    let action = match what {
        ClosedPipe::Ends => libc::SIG_DFL,
        ClosedPipe::Fails => libc::SIG_IGN,
    };
    // SAFETY: neither action is a function that could be called; SIGPIPE is a valid signal.
    unsafe { libc::signal(libc::SIGPIPE, action) };
}

/// Takes the mount from `path`, at once, or (`detach`) when nobody uses it any more.
pub fn unmount(path: &Path, detach: bool) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let detach = if detach { libc::MNT_DETACH } else { 0 };
    // SAFETY: `path` is a NUL-terminated string that lives through the call.
    check(unsafe { libc::umount2(path.as_ptr(), detach | libc::UMOUNT_NOFOLLOW) })
}

/// Signals that are taken one by one with [`SignalSet::wait`] and interrupt nothing.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

impl SignalSet {
    /// Blocks `signals` in this thread and all that it starts, except those that were ignored when the process
    /// started (`nohup`, background jobs of scripts), which stay so.
    pub fn block(signals: &[i32]) -> io::Result<Self> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set that it is given.
        unsafe { libc::sigemptyset(set.as_mut_ptr()) };
        // SAFETY: it has just been initialised.
        let mut set = unsafe { set.assume_init() };
        for signal in signals.iter().filter(|signal| !is_ignored(**signal)) {
            // SAFETY: `set` is an initialised signal set.
            unsafe { libc::sigaddset(&raw mut set, *signal) };
        }
        // SAFETY: `set` is initialised; a null old set is allowed.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
            0 => Ok(Self(set)),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Waits for the next of the signals, or for `limit` to pass.
    pub fn wait(&self, limit: Option<Duration>) -> Option<i32> {
        loop {
            let signal = match limit {
                // SAFETY: the set is initialised; a null info is allowed.
                None => unsafe { libc::sigwaitinfo(&raw const self.0, std::ptr::null_mut()) },
                Some(limit) => {
                    let limit = libc::timespec {
                        tv_sec: limit.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                        tv_nsec: limit.subsec_nanos().into(),
                    };
                    // SAFETY: the set and the time are initialised; a null info is allowed.
                    unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const limit) }
                }
            };
            match signal {
                -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                -1 => return None,
                signal => return Some(signal),
            }
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action changes nothing; `action` is a valid place for the old one.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed, and filled by the call where that succeeded; all fields are plain integers.
    asked == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

fn check(result: i32) -> io::Result<()> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_does_not_fork() {
        // The test harness itself has threads.
        let error = fork().unwrap_err();
        assert_eq!(error.to_string(), "a process with threads can't go to the background");
    }

    #[test]
    fn waiting_for_a_signal_ends_when_none_comes() {
        let signals = SignalSet::block(&[libc::SIGUSR2]).unwrap();
        assert_eq!(signals.wait(Some(Duration::from_millis(1))), None);
    }

    #[test]
    fn unmounting_what_is_no_mount_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        assert!(unmount(directory.path(), false).is_err());
        assert!(unmount(directory.path(), true).is_err());
    }
}
