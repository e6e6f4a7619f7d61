//! Work by several threads on things that are taken one after the other, with the results in that order.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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
    pub fn each<T: Sync, R: Send, E: Send>(
        self,
        items: &[T],
        make: impl Fn(&T) -> R + Sync,
        give: impl FnMut(R) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let (crew, mut items) = (Self { threads: self.threads.min(items.len()), ..self }, items.iter());
        crew.in_order(|| (), |()| items.next(), |(), item| make(item), give)
    }

    /// The same with things that `take` gives until there are no more, by one thread at a time, and something that each thread has
    /// for itself, made by `new`. The calling thread is one of them. Whoever has a result gives it, and those behind it that wait, if
    /// its turn has come: no thread is woken for that.
    ///
    /// # Errors
    /// The first one of `give`, which ends it.
    ///
    /// # Panics
    /// When one of these does.
    pub fn in_order<W, T, R: Send, E: Send>(
        self,
        new: impl Fn() -> W + Sync,
        take: impl FnMut(&mut W) -> Option<T> + Send,
        make: impl Fn(&mut W, T) -> R + Sync,
        give: impl FnMut(R) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let state = State { next: 0, due: 0, early: BTreeMap::new(), give: Some(give), ended: None };
        let line = Line { state: Mutex::new(state), moved: Condvar::new(), most: self.waiting.max(1) };
        let take = Mutex::new(take);
        let work = || {
            let _end_on_panic = EndOnPanic(&line);
            let mut own = new();
            let take_next = |own: &mut W| {
                let mut take = take.lock().unwrap_or_else(PoisonError::into_inner);
                let number = line.wait_for_room()?;
                Some((number, take(own)?))
            };
            while let Some((number, thing)) = take_next(&mut own) {
                line.add(number, make(&mut own, thing));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads {
                // Those that can't be started have their work done by others.
                let _ = std::thread::Builder::new().name("side by side".to_owned()).spawn_scoped(scope, work);
            }
            work();
        });
        let state = line.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.ended.unwrap_or(Ok(()))
    }
}

/// Results that wait for their turn.
struct Line<R, G, E> {
    state: Mutex<State<R, G, E>>,
    /// There is room, or it has ended.
    moved: Condvar,
    /// Things that may be taken before the first one's result is given.
    most: usize,
}

struct State<R, G, E> {
    /// The number of the next thing.
    next: usize,
    /// The one whose result is given next.
    due: usize,
    early: BTreeMap<usize, R>,
    /// Not there while somebody is giving.
    give: Option<G>,
    /// No more is taken.
    ended: Option<Result<(), E>>,
}

impl<R, G: FnMut(R) -> Result<(), E>, E> Line<R, G, E> {
    /// The number of a thing that may be taken now; `None` when there are to be no more.
    fn wait_for_room(&self) -> Option<usize> {
        let is_full =
            |state: &mut State<R, G, E>| state.ended.is_none() && state.next - state.due >= self.most;
        let state = self.moved.wait_while(self.lock(), is_full);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.ended.is_some() {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    /// Gives a result, or leaves it for the one who gives those before it.
    fn add(&self, number: usize, result: R) {
        let mut state = self.lock();
        state.early.insert(number, result);
        let Some(mut give) = state.give.take() else { return };
        while let Some(result) = state.next_due() {
            drop(state);
            let given = give(result);
            state = self.lock();
            state.due += 1;
            if given.is_err() {
                state.ended = Some(given);
            }
            self.moved.notify_one();
        }
        state.give = Some(give);
    }
}

impl<R, G, E> Line<R, G, E> {
    fn lock(&self) -> MutexGuard<'_, State<R, G, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R, G, E> State<R, G, E> {
    fn next_due(&mut self) -> Option<R> {
        if self.ended.is_some() { None } else { self.early.remove(&self.due) }
    }
}

/// After a panic nobody waits for what won't come: it goes on when all have ended.
struct EndOnPanic<'a, R, G, E>(&'a Line<R, G, E>);

impl<R, G, E> Drop for EndOnPanic<'_, R, G, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().ended.get_or_insert(Ok(()));
            self.0.moved.notify_all();
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
        let items: Vec<usize> = (0..1000).collect();
        let on_purpose = |number: usize| assert_ne!(number, 5, "on purpose");
        let of_make = || CREW.each(&items, |number| on_purpose(*number), |()| Ok::<_, Infallible>(()));
        assert!(std::panic::catch_unwind(of_make).is_err());
        let give = |number: usize| {
            on_purpose(number);
            Ok::<_, Infallible>(())
        };
        assert!(std::panic::catch_unwind(|| CREW.each(&items, |number| *number, give)).is_err());
    }
}
