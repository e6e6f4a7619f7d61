//! One look at the source for all that a short request asks of it.
//!
//! A request sees the source as it is: its data directories, checkpoints and partitions are looked at, and read again when they have changed. What
//! answers a request asks a dozen times for them, and the first look is as good as the last one: within a moment each is taken once. A moment is
//! one thread's, and ends when its guard is dropped. Who meets a segment in it that was cut, replaced or removed begins another one: what
//! comes next is looked for anew.

use std::cell::RefCell;

thread_local! {
    /// What was looked at in this moment, by address; `None` outside of one.
    static LOOKED_AT: RefCell<Option<Vec<usize>>> = const { RefCell::new(None) };
}

/// A moment, until it is dropped.
#[derive(Debug)]
pub struct Moment(());

impl Moment {
    /// Begins one on this thread.
    pub fn begin() -> Self {
        LOOKED_AT.set(Some(Vec::new()));
        Self(())
    }

    /// Forgets what was looked at in the moment that this thread is in.
    pub fn again() {
        LOOKED_AT.with_borrow_mut(|looked_at| {
            if let Some(looked_at) = looked_at {
                looked_at.clear();
            }
        });
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        LOOKED_AT.set(None);
    }
}

/// Whether this was looked at before in the moment that this thread is in.
pub(in crate::log) fn was_looked_at<T>(what: &T) -> bool {
    let address = std::ptr::from_ref(what).addr();
    LOOKED_AT
        .with_borrow(|looked_at| looked_at.as_ref().is_some_and(|looked_at| looked_at.contains(&address)))
}

/// Says that it is looked at now. Requests that look at many things look at each again.
pub(in crate::log) fn look_at<T>(what: &T) {
    /// Going through more would take longer than looking.
    const MOST: usize = 64;
    let address = std::ptr::from_ref(what).addr();
    LOOKED_AT.with_borrow_mut(|looked_at| {
        if let Some(looked_at) = looked_at
            && looked_at.len() < MOST
            && !looked_at.contains(&address)
        {
            looked_at.push(address);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_good_for_the_rest_of_its_moment_and_no_longer() {
        let what = 7;
        look_at(&what);
        assert!(!was_looked_at(&what));
        let moment = Moment::begin();
        assert!(!was_looked_at(&what));
        look_at(&what);
        assert!(was_looked_at(&what));
        std::thread::scope(|scope| scope.spawn(|| assert!(!was_looked_at(&what))).join()).unwrap();
        Moment::again();
        assert!(!was_looked_at(&what));
        look_at(&what);
        drop(moment);
        assert!(!was_looked_at(&what));
    }
}
