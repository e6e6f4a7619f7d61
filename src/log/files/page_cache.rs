//! The system's page cache, of which reading fills no more than a share: a scan of cold segments leaves a broker's hot pages there.
//!
//! What was in the cache before we came is left alone. What we bring in is given back when it is more than the share, the oldest
//! first, so that what is read twice soon is read from the disk once. Before anything is read the system is asked what of it is
//! there already (cachestat(2) or mincore(2), which tell those who own a file, or may write to it); its own read-ahead, which brings in what nobody
//! was asked about, is turned off, and ours takes its place. Of rendered files the mount itself holds pages; they count too.

use std::collections::VecDeque;
use std::fs::{File, Metadata};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{Advice, fadvise};

use crate::log::files::sys;
use crate::log::files::{FileId, open_without_trace};

/// The share where nobody chooses one.
pub const DEFAULT_LIMIT: u64 = 512 * 1024 * 1024;
/// What is read ahead, and what several readers are about to read, must have its place.
const SMALLEST_LIMIT: u64 = 16 * 1024 * 1024;
/// All of this is ours, or nothing: where a page of it was there, somebody else may be using it.
const PIECE: u64 = 256 * 1024;
/// A reading that goes on from the one before is read ahead so far.
const AHEAD: u64 = 4 * 1024 * 1024;
/// And so much at once.
const STEP: u64 = 1024 * 1024;
/// Several threads may read one file from its beginning to its end, each a bit of it.
const NEAR: u64 = 2 * 1024 * 1024;
/// Neighbours are given back together up to this.
const LARGEST: u64 = 4 * 1024 * 1024;

static OF_PROCESS: PageCache = PageCache::new(DEFAULT_LIMIT);

/// What this process has brought into the page cache.
pub struct PageCache {
    brought: Mutex<Brought>,
    mount: OnceLock<Box<GiveBack>>,
}

/// Has bytes of a mount's inode taken out of the cache, by a thread that serves no request for them.
type GiveBack = dyn Fn(u64, Range<u64>) + Send + Sync;

#[derive(Debug)]
struct Brought {
    limit: u64,
    bytes: u64,
    /// The oldest in front.
    pages: VecDeque<Pages>,
}

/// Neighbouring pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pages {
    of: Of,
    span: Range<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Of {
    /// A file of the source.
    Source(Arc<Named>),
    /// An inode of the mount.
    Mount(u64),
}

/// Which file it is.
#[derive(Debug, PartialEq, Eq)]
struct Named {
    path: PathBuf,
    id: FileId,
}

impl PageCache {
    const fn new(limit: u64) -> Self {
        let brought = Brought { limit, bytes: 0, pages: VecDeque::new() };
        Self { brought: Mutex::new(brought), mount: OnceLock::new() }
    }

    /// That of the process: the system has one, too.
    pub const fn of_process() -> &'static Self {
        &OF_PROCESS
    }

    /// Fills no more than `bytes` from now on, or the little that reading needs.
    pub fn set_limit(&self, bytes: u64) {
        self.lock().limit = bytes.max(SMALLEST_LIMIT);
    }

    /// `mount` is told which bytes of its inodes are to be given back.
    pub fn tell(&self, mount: impl Fn(u64, Range<u64>) + Send + Sync + 'static) {
        let _ = self.mount.set(Box::new(mount));
    }

    /// The kernel is about to keep bytes of a mount's inode.
    pub fn filled_mount(&self, ino: u64, span: Range<u64>) {
        self.add(Pages { of: Of::Mount(ino), span });
    }

    /// The bytes that it holds for us now, and how many it may.
    pub fn held_and_limit(&self) -> (u64, u64) {
        let brought = self.lock();
        (brought.bytes, brought.limit)
    }

    fn add(&self, pages: Pages) {
        let excess = self.lock().add(pages);
        for Pages { of, span } in excess {
            match of {
                Of::Source(named) => named.give_back(span),
                Of::Mount(ino) => {
                    if let Some(mount) = self.mount.get() {
                        mount(ino, span);
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Brought> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Brought {
    /// Counts pages; those that are too many now.
    fn add(&mut self, new: Pages) -> Vec<Pages> {
        self.bytes += new.span.end - new.span.start;
        match self.pages.back_mut() {
            Some(last)
                if last.of == new.of
                    && last.span.end == new.span.start
                    && new.span.end - last.span.start <= LARGEST =>
            {
                last.span.end = new.span.end;
            }
            _ => self.pages.push_back(new),
        }
        let mut excess = Vec::new();
        while self.bytes > self.limit {
            let Some(oldest) = self.pages.pop_front() else { break };
            self.bytes -= oldest.span.end - oldest.span.start;
            excess.push(oldest);
        }
        excess
    }
}

impl Named {
    /// The descriptor that read it may be closed: descriptors are few, and must not hold what a broker has deleted.
    fn give_back(&self, span: Range<u64>) {
        let Ok((file, metadata)) = open_without_trace(&self.path) else { return };
        if FileId::of(&metadata) == self.id {
            let len = NonZeroU64::new(span.end - span.start);
            let _ = fadvise(&file, span.start, len, Advice::DontNeed);
        }
    }
}

/// How one file is read: what is about to be read is asked about first, and read ahead.
#[derive(Debug)]
pub(in crate::log) struct Reading {
    named: Arc<Named>,
    place: Mutex<Place>,
}

#[derive(Debug)]
struct Place {
    /// Where the last read ended.
    at: u64,
    /// Up to where it is known what was there before.
    known: u64,
}

impl Reading {
    /// Of a file whose pages can be asked about; `None` for those of other people.
    pub(in crate::log) fn new(file: &File, metadata: &Metadata, path: &Path) -> Option<Self> {
        let user = sys::effective_uid();
        let can_tell = user == 0 || user == metadata.uid();
        if !can_tell || fadvise(file, 0, None, Advice::Random).is_err() {
            return None;
        }
        let named = Arc::new(Named { path: path.to_owned(), id: FileId::of(metadata) });
        // Nothing follows the first read yet.
        Some(Self { named, place: Mutex::new(Place { at: u64::MAX, known: 0 }) })
    }

    /// Bytes of `file` are about to be read.
    pub(in crate::log) fn will_read(&self, file: &File, position: u64, len: usize) {
        let end = position.saturating_add(len as u64);
        let Some(wanted) = self.lock().go_on(position..end) else { return };
        let Ok(metadata) = file.metadata() else { return };
        let wanted = wanted.start..wanted.end.min(metadata.len());
        if wanted.is_empty() {
            return;
        }
        for cold in cold_pieces(file, wanted) {
            let ahead = cold.start.max(end)..cold.end;
            if let Some(len) = NonZeroU64::new(ahead.end.saturating_sub(ahead.start)) {
                let _ = fadvise(file, ahead.start, Some(len), Advice::WillNeed);
            }
            PageCache::of_process().add(Pages { of: Of::Source(self.named.clone()), span: cold });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// What is to be asked about before `span` is read, in whole pieces.
    fn go_on(&mut self, span: Range<u64>) -> Option<Range<u64>> {
        let follows = span.start.abs_diff(self.at) <= NEAR;
        self.at = span.end;
        let end = if follows { span.end.saturating_add(AHEAD) } else { span.end };
        let from = if follows { self.known.max(span.start) } else { span.start };
        if follows && end < self.known.saturating_add(STEP) {
            return None;
        }
        let start = from / PIECE * PIECE;
        self.known = end.checked_next_multiple_of(PIECE)?;
        Some(start..self.known)
    }
}

/// The pieces of which nothing is in the page cache, neighbours in one.
fn cold_pieces(file: &File, wanted: Range<u64>) -> Vec<Range<u64>> {
    let mut cold: Vec<Range<u64>> = Vec::new();
    for start in (wanted.start..wanted.end).step_by(PIECE as usize) {
        let piece = start..wanted.end.min(start + PIECE);
        // Where it can't be told it may be somebody else's.
        if sys::is_any_cached(file, &piece).unwrap_or(true) {
            continue;
        }
        match cold.last_mut() {
            Some(last) if last.end == start => last.end = piece.end,
            _ => cold.push(piece),
        }
    }
    cold
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_mount(ino: u64, span: Range<u64>) -> Pages {
        Pages { of: Of::Mount(ino), span }
    }

    #[test]
    fn the_oldest_is_given_back_when_it_is_too_much() {
        let mut brought = Brought { limit: 100, bytes: 0, pages: VecDeque::new() };
        assert!(brought.add(of_mount(1, 0..40)).is_empty());
        assert!(brought.add(of_mount(2, 0..40)).is_empty());
        assert!(brought.add(of_mount(2, 40..60)).is_empty());
        assert_eq!(brought.add(of_mount(3, 7..8)), [of_mount(1, 0..40)]);
        assert_eq!(brought.add(of_mount(3, 100..140)), [of_mount(2, 0..60)]);
        assert_eq!(brought.bytes, 41);
    }

    #[test]
    fn what_goes_on_is_read_ahead_in_steps_and_what_jumps_is_not() {
        let mut place = Place { at: u64::MAX, known: 0 };
        assert_eq!(place.go_on(0..PIECE), Some(0..PIECE));
        assert_eq!(place.go_on(PIECE..2 * PIECE), Some(PIECE..2 * PIECE + AHEAD));
        assert_eq!(place.go_on(2 * PIECE..3 * PIECE), None);
        let far = 100 * AHEAD + 5;
        assert_eq!(place.go_on(far..far + 10), Some(100 * AHEAD..100 * AHEAD + PIECE));
        assert_eq!(place.go_on(far + 10..far + 20), Some(100 * AHEAD + PIECE..100 * AHEAD + PIECE + AHEAD));
    }
}
