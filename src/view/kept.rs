//! Which rendered blocks are kept, and who waits until there is room for another.
//!
//! Small blocks are given up by use, and nobody waits for them. To make a large one anew for each read that takes a part of it would cost
//! a hundred times as much as reading, so that what is kept of those is held until it was read to its end. Who finds no room takes a
//! number, and is served in the order of numbers. The block that was used longest ago goes for who is first in the queue
//!
//! * once its reader stays away. All who serve may be busy for long, so that this is told by the others: one who comes again was
//!   answered after that reader was, and requests are taken in the order in which they come;
//! * when nothing happens at all: those who hold blocks stay away together, or one program reads many files in turn;
//! * when the first in the queue has been the first for long, whoever reads what, so that nobody waits for ever.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lru::LruCache;

use crate::view::blocks::{RenderedKey, Slot};

/// A block that has no more is small: as much as a reader asks for at once.
const SMALL: usize = 1024 * 1024;
/// Large blocks kept, in bytes: those that 32 readers of batches of 4 MiB are in the midst of, and more. A larger one is kept alone.
const LARGE_BYTES: usize = 144 * 1024 * 1024;
/// Small blocks kept, and as many more as large ones leave.
const SMALL_BYTES: usize = 16 * 1024 * 1024;
/// And at most this many of them.
const KEPT_BLOCKS: usize = 4096;
/// Others come again, who were answered so much later, until a reader counts as staying away.
const HELD: Duration = Duration::from_millis(300);
/// Nothing has happened if no large block was read or made, and no large batch decoded, for so long.
const QUIET: Duration = Duration::from_millis(50);
/// So long at most somebody is the first in the queue: more than making the largest block takes, and reading it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Blocks by use, and a queue.
#[derive(Debug)]
pub(super) struct Kept {
    blocks: LruCache<RenderedKey, Place>,
    small_bytes: usize,
    large_bytes: usize,
    waiting: VecDeque<Number>,
    next: Number,
    /// Since when the first in the queue is the first.
    first_since: Instant,
    /// All reads that came before have been seen.
    seen: Instant,
    /// When something happened to large blocks last.
    happened: Instant,
}

/// A place in the queue.
pub(super) type Number = u64;

/// Where a block is, or will be.
#[derive(Debug)]
struct Place {
    slot: Arc<Slot>,
    len: usize,
    used: Instant,
    /// When somebody read of it last; of small ones nobody takes note.
    read: Option<Instant>,
}

impl Place {
    /// Whether its reader stays away, if all reads that came before `seen` have been seen.
    fn is_left(&self, seen: Instant) -> bool {
        seen.saturating_duration_since(self.used) >= HELD
    }
}

const fn is_large(len: usize) -> bool {
    len > SMALL
}

impl Kept {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            blocks: LruCache::unbounded(),
            small_bytes: 0,
            large_bytes: 0,
            waiting: VecDeque::new(),
            next: 0,
            first_since: now,
            seen: now,
            happened: now,
        }
    }

    /// A block's slot, or one for a block of `len` bytes, whatever goes for it.
    pub(super) fn slot(&mut self, key: RenderedKey, len: usize, now: Instant) -> Arc<Slot> {
        self.find(&key, now).unwrap_or_else(|| {
            self.make_room(len, |_| true);
            self.add(key, len, now)
        })
    }

    /// The same if nothing that is held goes for it, and nobody waits.
    pub(super) fn slot_if_room(&mut self, key: RenderedKey, len: usize, now: Instant) -> Option<Arc<Slot>> {
        let found = self.find(&key, now);
        if found.is_some() || is_large(len) && !self.waiting.is_empty() {
            return found;
        }
        let seen = self.seen;
        self.make_room(len, |place| place.is_left(seen)).then(|| self.add(key, len, now))
    }

    /// Takes note of a read of a large block; a number in the queue if there is no room for it.
    pub(super) fn claim(&mut self, key: RenderedKey, len: usize, now: Instant) -> Option<Number> {
        if !is_large(len) {
            return None;
        }
        if self.slot_if_room(key, len, now).is_some() {
            self.note_read(&key, now);
            return None;
        }
        if self.waiting.is_empty() {
            self.first_since = now;
        }
        self.next += 1;
        self.waiting.push_back(self.next);
        Some(self.next)
    }

    /// Whether it is the turn of a number, which leaves the queue then: the block is there, or has a slot.
    pub(super) fn has_come(&mut self, number: Number, key: RenderedKey, len: usize, now: Instant) -> bool {
        if !self.waiting.contains(&number) {
            return true;
        }
        let (seen, happened) = (self.seen, self.happened.max(self.first_since));
        let is_quiet = now.saturating_duration_since(happened) >= QUIET;
        let is_over = now.saturating_duration_since(self.first_since) >= PATIENCE;
        let may_go = |place: &Place| is_quiet || is_over || place.is_left(seen);
        let has_come = self.find(&key, now).is_some()
            || self.waiting.front() == Some(&number) && self.make_room(len, may_go) && {
                self.add(key, len, now);
                true
            };
        if has_come {
            self.note_read(&key, now);
            self.leave(number, now);
        }
        has_come
    }

    /// Takes a number out of the queue.
    pub(super) fn leave(&mut self, number: Number, now: Instant) {
        if self.waiting.front() == Some(&number) {
            self.first_since = now;
        }
        self.waiting.retain(|other| *other != number);
    }

    /// Takes note that a block is made: its reader comes now.
    pub(super) fn made(&mut self, key: &RenderedKey, now: Instant) {
        self.find(key, now);
    }

    /// Takes note that a large batch is being decoded.
    pub(super) fn decoding(&mut self, now: Instant) {
        self.happened = now;
    }

    pub(super) fn give_up(&mut self, key: &RenderedKey) {
        if let Some(Place { len, .. }) = self.blocks.pop(key) {
            *self.bytes(len) -= len;
        }
    }

    /// Drops a block that was made for somebody who doesn't want it, unless somebody has begun to read it.
    pub(super) fn give_up_unread(&mut self, key: &RenderedKey) {
        if self.blocks.peek(key).is_some_and(|place| place.read.is_none()) {
            self.give_up(key);
        }
    }

    /// Drops all that are made.
    pub(super) fn give_up_made(&mut self) {
        let made = self.blocks.iter().filter(|(_, place)| place.slot.is_made()).map(|(key, _)| *key);
        made.collect::<Vec<_>>().iter().for_each(|key| self.give_up(key));
    }

    fn note_read(&mut self, key: &RenderedKey, now: Instant) {
        if let Some(before) = self.blocks.peek_mut(key).and_then(|place| place.read.replace(now)) {
            self.seen = self.seen.max(before);
        }
    }

    fn find(&mut self, key: &RenderedKey, now: Instant) -> Option<Arc<Slot>> {
        let place = self.blocks.get_mut(key)?;
        place.used = now;
        if is_large(place.len) {
            self.happened = now;
        }
        Some(place.slot.clone())
    }

    /// Gives up large blocks, those used longest ago first, until there is room for `len` bytes, as long as they may go; whether
    /// there is. One that is being made stays.
    fn make_room(&mut self, len: usize, may_go: impl Fn(&Place) -> bool) -> bool {
        while is_large(len) && self.large_bytes > 0 && self.large_bytes.saturating_add(len) > LARGE_BYTES {
            let Some(oldest) =
                self.oldest(|place| is_large(place.len) && !place.slot.is_being_made(), &may_go)
            else {
                return false;
            };
            self.give_up(&oldest);
        }
        true
    }

    fn add(&mut self, key: RenderedKey, len: usize, now: Instant) -> Arc<Slot> {
        let slot = Arc::<Slot>::default();
        self.blocks.put(key, Place { slot: slot.clone(), len, used: now, read: None });
        *self.bytes(len) += len;
        let most_small = LARGE_BYTES.saturating_sub(self.large_bytes) + SMALL_BYTES;
        while self.small_bytes > most_small || self.blocks.len() > KEPT_BLOCKS {
            let Some(oldest) = self.oldest(|place| !is_large(place.len), |_| true) else { break };
            self.give_up(&oldest);
        }
        slot
    }

    /// Of the blocks that are meant the one that was used longest ago, if it may go.
    fn oldest(
        &self,
        is_meant: impl Fn(&Place) -> bool,
        may_go: impl Fn(&Place) -> bool,
    ) -> Option<RenderedKey> {
        let oldest = self.blocks.iter().rev().find(|(_, place)| is_meant(place));
        oldest.filter(|(_, place)| may_go(place)).map(|(key, _)| *key)
    }

    const fn bytes(&mut self, len: usize) -> &mut usize {
        if is_large(len) { &mut self.large_bytes } else { &mut self.small_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::segment::SegmentUid;
    use crate::view::format::Format;

    const MIB: usize = 1024 * 1024;
    const BLOCK: usize = 16 * MIB;

    fn keys() -> impl FnMut() -> RenderedKey {
        let segment = SegmentUid::next();
        let mut at = 0;
        move || {
            at += 1;
            RenderedKey { segment, span: (at, at + 1), format: Format::Text, committed: false }
        }
    }

    /// As many blocks as there is room for.
    fn full(now: Instant) -> (Kept, Vec<RenderedKey>, impl FnMut() -> RenderedKey) {
        let (mut kept, mut key) = (Kept::new(now), keys());
        let held: Vec<_> = (0..9).map(|_| key()).collect();
        assert!(held.iter().all(|key| kept.claim(*key, BLOCK, now).is_none()));
        (kept, held, key)
    }

    #[test]
    fn what_is_held_stays_until_it_is_read_and_those_who_wait_come_in_order() {
        let now = Instant::now();
        let (mut kept, held, mut key) = full(now);
        let (first, second, late) = (key(), key(), key());
        let numbers = [first, second].map(|key| kept.claim(key, BLOCK, now).expect("there is no room"));
        assert!(!kept.has_come(numbers[0], first, BLOCK, now));
        kept.give_up(&held[4]);
        assert!(!kept.has_come(numbers[1], second, BLOCK, now), "another one is before it");
        assert!(kept.slot_if_room(late, 2 * MIB, now).is_none(), "others wait");
        assert!(kept.claim(held[0], BLOCK, now).is_none(), "it is there");
        assert!(kept.has_come(numbers[0], first, BLOCK, now) && kept.has_come(numbers[0], first, BLOCK, now));
        assert!(!kept.has_come(numbers[1], second, BLOCK, now));
        // Who is interrupted leaves its place to the next one.
        let last = kept.claim(late, 2 * MIB, now).expect("others wait");
        kept.leave(numbers[1], now);
        kept.give_up(&first);
        assert!(kept.has_come(last, late, 2 * MIB, now));
        assert_eq!((kept.large_bytes, kept.blocks.len()), (8 * BLOCK + 2 * MIB, 9));
    }

    #[test]
    fn what_was_made_ahead_in_vain_goes_unless_somebody_reads_it() {
        let now = Instant::now();
        let (mut kept, mut key) = (Kept::new(now), keys());
        let (read, unread, small) = (key(), key(), key());
        for (key, len) in [(read, BLOCK), (unread, BLOCK), (small, MIB)] {
            assert!(kept.slot_if_room(key, len, now).is_some());
        }
        assert!(kept.claim(read, BLOCK, now).is_none());
        [read, unread, small].iter().for_each(|key| kept.give_up_unread(key));
        assert!(kept.blocks.contains(&read) && kept.blocks.len() == 1);
    }

    #[test]
    fn a_reader_that_stays_away_while_others_come_again_holds_nothing() {
        let now = Instant::now();
        let (mut kept, held, mut key) = full(now);
        let wanted = key();
        let number = kept.claim(wanted, BLOCK, now).expect("there is no room");
        let mut later = now;
        // However long it takes to serve them: it may come, too.
        for step in [HELD / 2, 10 * HELD] {
            later += step;
            (kept.first_since, kept.happened) = (later, later);
            assert!(!kept.has_come(number, wanted, BLOCK, later));
            held[1..].iter().for_each(|key| assert!(kept.claim(*key, BLOCK, later).is_none()));
        }
        assert!(!kept.has_come(number, wanted, BLOCK, later));
        held[1..].iter().for_each(|key| assert!(kept.claim(*key, BLOCK, later).is_none()));
        assert!(kept.has_come(number, wanted, BLOCK, later));
        assert!(!kept.blocks.contains(&held[0]) && held[1..].iter().all(|key| kept.blocks.contains(key)));
    }

    #[test]
    fn nobody_waits_when_nothing_happens() {
        let now = Instant::now();
        let (mut kept, held, mut key) = full(now);
        let wanted = key();
        let number = kept.claim(wanted, BLOCK, now).expect("there is no room");
        kept.decoding(now + QUIET);
        assert!(!kept.has_come(number, wanted, BLOCK, now + QUIET));
        assert!(kept.has_come(number, wanted, BLOCK, now + 2 * QUIET));
        assert!(!kept.blocks.contains(&held[0]) && kept.blocks.len() == 9);
    }

    #[test]
    fn who_reads_without_coming_to_an_end_holds_nothing_for_ever() {
        let begun = Instant::now();
        let (mut kept, held, mut key) = full(begun);
        let wanted = key();
        let number = kept.claim(wanted, BLOCK, begun).expect("there is no room");
        let mut now = begun;
        while now < begun + PATIENCE {
            assert!(!kept.has_come(number, wanted, BLOCK, now));
            now += HELD / 5;
            held.iter().for_each(|key| assert!(kept.claim(*key, BLOCK, now).is_none()));
        }
        assert!(kept.has_come(number, wanted, BLOCK, now));
        assert!(!kept.blocks.contains(&held[0]) && kept.blocks.len() == 9);
    }

    #[test]
    fn a_block_that_is_being_made_stays_and_one_larger_than_the_room_is_kept_alone() {
        let now = Instant::now();
        let (mut kept, mut key) = (Kept::new(now), keys());
        let (huge, next) = (key(), key());
        let slot = kept.slot_if_room(huge, 1024 * MIB, now).expect("there is nothing else");
        assert!(slot.begin());
        let number = kept.claim(next, 2 * MIB, now).expect("there is no room");
        assert!(!kept.has_come(number, next, 2 * MIB, now + PATIENCE));
        // Who doesn't wait gets it all the same.
        assert!(kept.slot(key(), 2 * MIB, now).begin());
        assert_eq!(kept.blocks.len(), 2);
    }

    #[test]
    fn small_blocks_take_what_large_ones_leave_and_push_none_of_them_out() {
        let now = Instant::now();
        let (mut kept, held, mut key) = full(now);
        let mut add = |kept: &mut Kept, count: usize, len: usize| {
            (0..count).for_each(|_| drop(kept.slot(key(), len, now)));
        };
        add(&mut kept, 20, MIB);
        assert_eq!(kept.small_bytes, SMALL_BYTES);
        assert!(held.iter().all(|key| kept.blocks.contains(key)));
        kept.give_up(&held[0]);
        add(&mut kept, 20, MIB);
        assert_eq!(kept.small_bytes, SMALL_BYTES + BLOCK);
        add(&mut kept, 2 * KEPT_BLOCKS, 1);
        assert_eq!(kept.blocks.len(), KEPT_BLOCKS);
        assert!(kept.claim(held[0], BLOCK, now).is_none());
        assert!(kept.small_bytes <= SMALL_BYTES);
    }
}
