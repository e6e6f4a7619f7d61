//! Whether a file is what it was when it was looked at last, grown perhaps.
//!
//! What a broker appends leaves all that was there. Anything else that becomes of a log, by a truncation, a restore or a new
//! file in the same place, is told by its length, by the last bytes that were seen, and by the beginning of the last batch that
//! was read: its checksum covers all of it. What no scan has ever returned may go, as when a broker cuts half a batch away after
//! a crash, or trims the space that it had reserved.

use std::sync::Mutex;
use std::time::SystemTime;

use crate::log::files::{self, SourceFile};

/// So many bytes before the end that was seen tell whether a file has only grown since.
const LAST_LEN: usize = 64;

/// The sound batch farthest into a file that any scan has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// Where it begins.
    pub position: u64,
    /// Where it ends.
    pub end: u64,
    /// Its first bytes, with its offset, leader epoch and checksum.
    pub head: [u8; Self::HEAD],
}

impl Reached {
    /// Bytes that tell a batch from another one of the same length in its place.
    pub const HEAD: usize = 22;
}

/// Where scans of one file say what they reached.
pub type Farthest = Mutex<Option<Reached>>;

/// A file as it was seen last. One that was cut and written anew may be as long as before: then its last bytes differ, or
/// the beginning of the last batch that was read.
#[derive(Debug)]
pub(in crate::log) struct Seen {
    len: u64,
    changed: Option<SystemTime>,
    /// How often it was seen to change.
    version: u64,
    last: Option<[u8; LAST_LEN]>,
    /// Once cut, it is another file for ever.
    was_cut: bool,
}

impl Seen {
    /// A file of `len` bytes that nobody has looked into.
    pub(in crate::log) const fn new(len: u64) -> Self {
        Self { len, changed: None, version: 0, last: None, was_cut: false }
    }

    /// A number that goes up when it is seen to have changed.
    pub(in crate::log) const fn version(&self) -> u64 {
        self.version
    }

    /// Whether it is another file now.
    pub(in crate::log) const fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Whether somebody has looked into it.
    pub(in crate::log) const fn is_known(&self) -> bool {
        self.changed.is_some()
    }

    /// Whether its length and time are those that were seen.
    pub(in crate::log) fn is_as_it_was(&self, len: u64, changed: SystemTime) -> bool {
        !self.was_cut && (self.len, self.changed) == (len, Some(changed))
    }

    /// Whether nothing in its length speaks against growth.
    pub(in crate::log) const fn may_have_grown_to(&self, len: u64) -> bool {
        !self.was_cut && len >= self.len
    }

    /// Looks at the file again; whether it is as it was, has only grown, or has lost what was never read. `farthest` is the
    /// last batch that was.
    pub(in crate::log) fn goes_on(
        &mut self,
        file: &SourceFile,
        len: u64,
        changed: SystemTime,
        farthest: impl FnOnce() -> Option<Reached>,
    ) -> bool {
        if self.is_as_it_was(len, changed) {
            return true;
        }
        let farthest = farthest();
        let is_there = |reached: Reached| {
            let mut head = [0; Reached::HEAD];
            let read = files::read_full(file, &mut head, reached.position);
            len >= reached.end && read.is_ok_and(|read| read == head.len()) && head == reached.head
        };
        self.was_cut |= !farthest.is_none_or(is_there);
        // What is behind the last batch that was read may be anything: half a batch, or reserved space.
        let is_shorter = len < self.len && farthest.is_none();
        let is_read = farthest.is_none_or(|reached| reached.end >= self.len);
        let last = self.last.filter(|last| is_read && last.iter().any(|byte| *byte != 0));
        self.was_cut |= is_shorter || last.is_some_and(|last| last_bytes(file, self.len) != Some(last));
        if !self.was_cut {
            let (version, last) = (self.version + 1, last_bytes(file, len));
            *self = Self { len, changed: Some(changed), version, last, was_cut: false };
        }
        !self.was_cut
    }
}

/// The last bytes before `end`, if there are enough.
fn last_bytes(file: &SourceFile, end: u64) -> Option<[u8; LAST_LEN]> {
    let mut bytes = [0; LAST_LEN];
    let from = end.checked_sub(LAST_LEN as u64)?;
    let read = files::read_full(file, &mut bytes, from).ok()?;
    (read == LAST_LEN).then_some(bytes)
}
