//! That something has happened, for a thread that looks for itself what it was.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Counts happenings, and wakes those who wait for the next one.
#[derive(Debug, Default)]
pub struct Signal {
    count: Mutex<u64>,
    raised: Condvar,
}

impl Signal {
    /// Something has happened.
    pub fn raise(&self) {
        *self.lock() += 1;
        self.raised.notify_all();
    }

    /// How often something has happened. Taken before looking, so that nothing is missed between looking and waiting.
    pub fn count(&self) -> u64 {
        *self.lock()
    }

    /// Waits until more has happened than `seen`, or for so long.
    pub fn wait_beyond(&self, seen: u64, limit: Option<Duration>) {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let mut count = self.lock();
        while *count == seen {
            count = match deadline {
                None => self.raised.wait(count).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return;
                    }
                    self.raised.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u64> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_happened_before_waiting_is_not_missed() {
        let signal = Arc::new(Signal::default());
        let seen = signal.count();
        signal.raise();
        signal.wait_beyond(seen, None);
        let seen = signal.count();
        let other = signal.clone();
        let thread = std::thread::spawn(move || other.wait_beyond(seen, None));
        signal.raise();
        thread.join().unwrap();
        signal.wait_beyond(signal.count(), Some(Duration::from_millis(1)));
    }
}
