//! Memory for decoding, shared by all who decode: what is large waits for its turn, so that many at once don't add up.
//!
//! A batch that decodes to little needs no permit: threads are few, and so are such buffers. A larger one takes as many bytes of the common room
//! as it may need, or all of it where it may need more, before it is decoded. Who waits is served in the order of asking, so that one that wants
//! much isn't passed by for ever. A thread that has a permit is never made to wait for another one.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What decodes to no more needs no permit: as much as a decoder keeps between two batches.
pub const SMALL_BYTES: usize = 4 << 20;
/// What all larger ones together may take.
pub const LARGE_BYTES: usize = 64 << 20;

thread_local! {
    static HAS_ONE: Cell<bool> = const { Cell::new(false) };
}

/// The common room.
#[derive(Debug)]
pub struct Permits {
    room: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// The number of whoever asks next, and of whoever is served next.
    next: u64,
    served: u64,
}

/// Bytes of it, given back when dropped; of one thread.
#[derive(Debug)]
pub struct Permit<'a> {
    of: Option<(&'a Permits, usize)>,
    /// It is given back where it was taken.
    _of_thread: std::marker::PhantomData<*const ()>,
}

impl Permits {
    /// A room of so many bytes.
    pub const fn new(room: usize) -> Self {
        let state = State { taken: 0, next: 0, served: 0 };
        Self { room, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// A permit for `bytes`, waited for unless they are few or this thread has one.
    pub fn take(&self, bytes: usize) -> Permit<'_> {
        let _of_thread = std::marker::PhantomData;
        if bytes <= SMALL_BYTES || HAS_ONE.get() {
            return Permit { of: None, _of_thread };
        }
        let bytes = bytes.min(self.room);
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        while state.served != number || state.taken + bytes > self.room {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.served += 1;
        state.taken += bytes;
        drop(state);
        // The next one may have room, too.
        self.changed.notify_all();
        HAS_ONE.set(true);
        Permit { of: Some((self, bytes)), _of_thread }
    }

    /// Whether something large is being decoded.
    pub fn are_taken(&self) -> bool {
        self.lock().taken > 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some((permits, bytes)) = self.of {
            permits.lock().taken -= bytes;
            HAS_ONE.set(false);
            permits.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_is_taken_at_once_never_exceeds_the_room_and_all_are_served() {
        const MIB: usize = 1 << 20;
        let (permits, taken, served) = (Permits::new(16 * MIB), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (permits, taken, served) = (&permits, &taken, &served);
                scope.spawn(move || {
                    for round in 0..50 {
                        // Some want more than there is.
                        let bytes = (5 + (thread + round) % 20) * MIB;
                        let permit = permits.take(bytes);
                        let counted = bytes.min(16 * MIB);
                        assert!(taken.fetch_add(counted, Ordering::SeqCst) + counted <= 16 * MIB);
                        // Who has one is not made to wait, which would be for ever here.
                        drop(permits.take(16 * MIB));
                        taken.fetch_sub(counted, Ordering::SeqCst);
                        drop(permit);
                        served.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(served.into_inner(), 400);
        assert_eq!(permits.lock().taken, 0);
    }

    #[test]
    fn what_is_small_does_not_wait() {
        let permits = Permits::new(16 << 20);
        let all = permits.take(usize::MAX);
        std::thread::scope(|scope| scope.spawn(|| drop(permits.take(SMALL_BYTES))).join()).unwrap();
        drop(all);
    }
}
