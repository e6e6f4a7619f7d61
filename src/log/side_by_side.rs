//! Work by several threads on things that are taken one after the other, with the results in that order.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Whoever works.
#[derive(Debug, Clone, Copy)]
pub struct Crew {
    /// How many threads.
    pub threads: usize,
    /// How many things may be worked on, or wait for the result of one before them.
    pub waiting: usize,
}

impl Crew {
    /// So many threads, for things whose results are small.
    pub const fn of(threads: usize) -> Self {
        Self { threads, waiting: 64 }
    }

    /// A thread for each processor.
    pub fn of_all_processors() -> Self {
        Self::of(std::thread::available_parallelism().map_or(2, usize::from))
    }

    /// Calls `make` with each item, and `give` with the results in the order of the items, as soon as they are there.
    ///
    /// # Errors
    /// The first one of `give`, which ends it.
    pub fn each<T: Sync, R: Send, E>(
        self,
        items: &[T],
        make: impl Fn(&T) -> R + Sync,
        give: impl FnMut(R) -> Result<(), E>,
    ) -> Result<(), E> {
        let (crew, mut items) = (Self { threads: self.threads.min(items.len()), ..self }, items.iter());
        crew.in_order(|| (), |()| items.next(), |(), item| make(item), give)
    }

    /// The same with things that `take` gives until there are no more, by one thread at a time, and something that each thread has
    /// for itself, made by `new`.
    ///
    /// # Errors
    /// The first one of `give`, which ends it.
    ///
    /// # Panics
    /// When `take` or `make` does.
    pub fn in_order<W, T, R: Send, E>(
        self,
        new: impl Fn() -> W + Sync,
        take: impl FnMut(&mut W) -> Option<T> + Send,
        make: impl Fn(&mut W, T) -> R + Sync,
        mut give: impl FnMut(R) -> Result<(), E>,
    ) -> Result<(), E> {
        let waiting = self.waiting.max(1);
        let (permit, permits) = sync_channel(waiting);
        for _ in 0..waiting {
            let _ = permit.try_send(());
        }
        let taking = Mutex::new((take, permits, 0));
        // Whoever holds the smallest number has a permit: it goes on, and so all do.
        let take = |own: &mut W| {
            let (take, permits, next) = &mut *taking.lock().unwrap_or_else(PoisonError::into_inner);
            permits.recv().ok()?;
            let thing = take(own)?;
            *next += 1;
            Some((*next - 1, thing))
        };
        let work = |made: Sender<(usize, Option<R>)>| {
            let mut own = new();
            while let Some((number, thing)) = take(&mut own) {
                let turn = Turn { number, made: Some(&made) };
                if !turn.end(make(&mut own, thing)) {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            // Dropped where this ends: nobody waits for one any longer.
            let permit = permit;
            let (send, receive) = channel();
            let (work, mut started) = (&work, 0);
            for _ in 0..self.threads.max(1) {
                let made = send.clone();
                let thread = std::thread::Builder::new().name("side by side".to_owned());
                started += usize::from(thread.spawn_scoped(scope, move || work(made)).is_ok());
            }
            drop(send);
            let mut own = (started == 0).then(&new);
            while let Some((_, thing)) = own.as_mut().and_then(&take) {
                let made = own.as_mut().map(|own| make(own, thing));
                made.map_or(Ok(()), &mut give)?;
                let _ = permit.try_send(());
            }
            let (mut early, mut due) = (BTreeMap::new(), 0);
            for (number, made) in receive {
                early.insert(number, made);
                while let Some(made) = early.remove(&due) {
                    // Without a result there was a panic: it goes on when all have ended.
                    let Some(made) = made else { return Ok(()) };
                    give(made)?;
                    let _ = permit.try_send(());
                    due += 1;
                }
            }
            Ok(())
        })
    }
}

/// The result of a thing is due; if there is none, because of a panic, that is told.
struct Turn<'a, R> {
    number: usize,
    made: Option<&'a Sender<(usize, Option<R>)>>,
}

impl<R> Turn<'_, R> {
    /// Whether somebody still wants it.
    fn end(mut self, result: R) -> bool {
        self.made.take().is_some_and(|made| made.send((self.number, Some(result))).is_ok())
    }
}

impl<R> Drop for Turn<'_, R> {
    fn drop(&mut self) {
        if let Some(made) = self.made {
            let _ = made.send((self.number, None));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    const CREW: Crew = Crew { threads: 3, waiting: 4 };

    #[test]
    fn results_come_in_the_order_of_the_things_however_long_each_takes() {
        let items: Vec<u64> = (0..200).collect();
        let make = |item: &u64| {
            std::thread::sleep(Duration::from_micros(item * 7919 % 500));
            item * 2
        };
        let mut results = Vec::new();
        let give = |result| -> Result<(), Infallible> {
            results.push(result);
            Ok(())
        };
        CREW.each(&items, make, give).unwrap();
        assert_eq!(results, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(CREW.each(&[], |(): &()| (), |()| Err(())), Ok(()));
    }

    #[test]
    fn no_more_are_begun_than_may_wait_behind_a_slow_one() {
        let (begun, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let make = |item: &usize| {
            begun.fetch_add(1, Ordering::SeqCst);
            if *item == 0 {
                std::thread::sleep(Duration::from_millis(50));
                most.store(begun.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        };
        let items: Vec<usize> = (0..100).collect();
        let given: Result<(), Infallible> = CREW.each(&items, make, |()| Ok(()));
        given.unwrap();
        assert!(most.load(Ordering::SeqCst) <= CREW.waiting);
        assert_eq!(begun.load(Ordering::SeqCst), items.len());
    }

    #[test]
    fn an_error_ends_it_before_all_is_taken() {
        let (mut taken, mut given) = (0_u64.., 0);
        let give = |number| {
            given += 1;
            if number == 10 { Err(number) } else { Ok(()) }
        };
        let ended = CREW.in_order(|| (), |()| taken.next(), |(), number| number, give);
        assert_eq!((ended, given), (Err(10), 11));
    }

    #[test]
    fn a_panic_ends_it_too() {
        let make = |number: &usize| assert_ne!(*number, 5, "on purpose");
        let items: Vec<usize> = (0..1000).collect();
        let panicked = std::panic::catch_unwind(|| CREW.each(&items, make, |()| Ok::<_, Infallible>(())));
        assert!(panicked.is_err());
    }
}
