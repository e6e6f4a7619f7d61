//! The next block of a file that is read from front to back, rendered while the kernel copies this one.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::view::selection::Selection;

/// Requests that may wait; more are dropped, since reading ahead is only worth it while threads are free.
const WAITING: usize = 16;
/// Threads that read ahead.
const THREADS: usize = 2;

/// A place that will probably be read next.
type Request = (Arc<Selection>, u64);

/// The threads that read ahead, begun at the first request.
#[derive(Debug, Default)]
pub struct ReadAhead {
    requests: OnceLock<SyncSender<Request>>,
}

impl ReadAhead {
    /// Has the block at byte `at` of `selection` rendered, if a thread is free for it.
    pub fn begin(&self, selection: &Arc<Selection>, at: u64) {
        let requests = self.requests.get_or_init(|| {
            let (sender, receiver) = sync_channel(WAITING);
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..THREADS {
                let receiver = receiver.clone();
                let _ = std::thread::Builder::new().name("read-ahead".into()).spawn(move || work(&receiver));
            }
            sender
        });
        let _ = requests.try_send((selection.clone(), at));
    }
}

/// Ends when the file system, which holds the sender, is gone.
fn work(receiver: &Mutex<Receiver<Request>>) {
    loop {
        let request = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((selection, at)) = request else { return };
        // What goes wrong here goes wrong again for the reader, who is told. A panic must not end the thread.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| selection.prefetch(at)));
    }
}
