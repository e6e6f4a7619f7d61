//! Requests that wait for the disk: fsync(2), and writes to files that were opened with `O_SYNC`. One thread syncs, one log after the
//! other, so that those that serve never wait for the disk, and several that wait for the same log wait for one sync.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

use fuser::{Errno, ReplyEmpty, ReplyWrite};

use super::call;
use crate::fs::Fs;

/// Who waits.
#[derive(Debug)]
pub(super) enum Durable {
    /// An fsync.
    Fsync(ReplyEmpty),
    /// A write of so many bytes.
    Write(ReplyWrite, u32),
}

impl Durable {
    pub(super) fn ok(self) {
        match self {
            Self::Fsync(reply) => reply.ok(),
            Self::Write(reply, written) => reply.written(written),
        }
    }

    fn error(self, errno: Errno) {
        match self {
            Self::Fsync(reply) => reply.error(errno),
            Self::Write(reply, _) => reply.error(errno),
        }
    }
}

/// An inode, a handle, and who waits for what was written through it.
type Wanted = (u64, u64, Durable);

/// The thread, which begins with the first request.
#[derive(Debug)]
pub(super) struct Syncs {
    fs: Arc<Fs>,
    requests: OnceLock<Option<Sender<Wanted>>>,
}

impl Syncs {
    pub(super) const fn new(fs: Arc<Fs>) -> Self {
        Self { fs, requests: OnceLock::new() }
    }

    /// Answers when all that was written through a handle is durable.
    pub(super) fn sync(&self, ino: u64, handle: u64, reply: Durable) {
        let requests = self.requests.get_or_init(|| begin(self.fs.clone()));
        let unsent = match requests {
            Some(requests) => requests.send((ino, handle, reply)).err().map(|unsent| unsent.0),
            None => Some((ino, handle, reply)),
        };
        if let Some(wanted) = unsent {
            answer(&self.fs, wanted);
        }
    }
}

fn begin(fs: Arc<Fs>) -> Option<Sender<Wanted>> {
    let (sender, receiver): (_, Receiver<Wanted>) = channel();
    let body = move || receiver.into_iter().for_each(|wanted| answer(&fs, wanted));
    match std::thread::Builder::new().name("sync".to_owned()).spawn(body) {
        Ok(_) => Some(sender),
        Err(error) => {
            tracing::warn!(%error, "those who serve sync, too");
            None
        }
    }
}

fn answer(fs: &Fs, (ino, handle, reply): Wanted) {
    match call("fsync", ino, || fs.sync(handle)) {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
