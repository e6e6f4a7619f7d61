//! Touches growing files through the mount, so that the kernel tells those who watch them (inotify): `tail -f` of uutils, log shippers.
//!
//! A change that a FUSE server makes is none to the kernel; a `utimensat` that comes through the mount is one, whatever the server makes
//! of it (we make nothing). It needs a view of the mount that is writable, which nobody but us has.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, utimensat};

use crate::fs::Fs;

/// Begins the thread. It ends, and lets go of `root`, with [`Fs::end_follows`].
pub fn begin(fs: Arc<Fs>, root: OwnedFd) {
    fs.tell_of_growth();
    let body = move || {
        while !fs.is_ending() {
            let count = fs.signal().count();
            let (grown, wait) = fs.growing().take_grown();
            for path in grown {
                touch(&root, &path);
            }
            fs.signal().wait_beyond(count, wait);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("touch".into()).spawn(body) {
        tracing::warn!(%error, "programs that watch files of the mount are not told of growth");
    }
}

/// Says that a file was modified now; only its own time, since the kernel calls both times a change of attributes.
fn touch(root: &OwnedFd, path: &str) {
    let time = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let times = Timestamps { last_access: time(UTIME_OMIT), last_modification: time(UTIME_NOW) };
    if let Err(error) = utimensat(root, path, &times, AtFlags::empty()) {
        tracing::debug!(path, %error, "a growing file could not be touched");
    }
}
