//! ^C, SIGTERM and SIGHUP unmount; the second one ends the process at once.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::session::{Mounted, Unmounted, Unmounter};
use super::sys::SignalSet;
use super::unmount::held_by;

/// How long those who still read from a mount that was told to end may go on.
const GRACE: Duration = Duration::from_secs(5);

/// The signals that end a mount, and the thread that takes them.
pub struct Signals {
    mounted: Arc<Mutex<Option<Unmounter>>>,
}

impl Signals {
    /// Takes the signals from now on. Call it before other threads are started: they would be killed by them.
    ///
    /// The first signal ends the process before the mount, and unmounts after it, which ends serving. Where that is
    /// not enough (a reader stays, the kernel refuses, a second signal comes), the process is ended here, after `last`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take(last: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let signals = SignalSet::block(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP])?;
        let mounted = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&mounted);
        let body = move || {
            let code = run(signals, &shared);
            last();
            std::process::exit(code);
        };
        thread::Builder::new().name("signals".to_owned()).spawn(body)?;
        Ok(Self { mounted })
    }

    /// Mounts; a signal that comes meanwhile is taken afterwards, so that no dead mount is left behind.
    ///
    /// # Errors
    /// Those of `mount`.
    pub fn around<E>(&self, mount: impl FnOnce() -> Result<Mounted, E>) -> Result<Mounted, E> {
        let mut slot = self.mounted.lock().unwrap_or_else(PoisonError::into_inner);
        let mounted = mount()?;
        *slot = Some(mounted.unmounter());
        Ok(mounted)
    }
}

/// Returns the status with which the process has to end.
fn run(signals: SignalSet, mounted: &Mutex<Option<Unmounter>>) -> i32 {
    let Some(signal) = signals.wait(None) else { return 2 };
    let mounted = mounted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(unmounter) = mounted else { return 128 + signal };
    let (limit, code) = unmount(&unmounter);
    match signals.wait(limit) {
        Some(signal) => 128 + signal,
        None => code,
    }
}

/// Unmounts; returns how long to wait for serving to end by itself, and the status to end with when it doesn't.
fn unmount(unmounter: &Unmounter) -> (Option<Duration>, i32) {
    let path = unmounter.path().display();
    tracing::info!("unmounting {path}");
    let holders = held_by(unmounter.path());
    match unmounter.unmount() {
        Ok(Unmounted::Gone) => (None, 0),
        Ok(Unmounted::Detached) => {
            tracing::warn!("{path} is busy{holders}: they have {} s to finish", GRACE.as_secs());
            (Some(GRACE), 0)
        }
        Err(error) => {
            tracing::error!("unmounting {path} failed: {error}; a second signal ends the process");
            (None, 2)
        }
    }
}
