//! Work on many items by several threads, with the results in the order of the items.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Results that may wait for the one before them, before a thread waits too.
const WAITING: usize = 64;

/// Makes the results of all items side by side, and calls `print` with them in the order of the items, as soon as they are there.
///
/// # Errors
/// That of printing, which ends it.
pub(super) fn in_order<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    make: impl Fn(&T) -> R + Sync,
    mut print: impl FnMut(R) -> io::Result<()>,
) -> io::Result<()> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::sync_channel(WAITING);
        for _ in 0..threads.min(items.len()) {
            let (send, next, make) = (send.clone(), &next, &make);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return };
                    // Nobody receives when printing has failed.
                    if send.send((number, make(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        for (number, result) in receive {
            waiting.insert(number, result);
            while let Some(result) = waiting.remove(&expected) {
                print(result)?;
                expected += 1;
            }
        }
        Ok(())
    })
}
