//! A thread that writes what another has made of segments, makes groups of them durable and puts them in their places, one after the other:
//! the next ones are made meanwhile.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::format::names::FileState;
use crate::log::LogError;
use crate::log::files::disk;
use crate::log::upkeep::compaction::cleaned::{self, Bytes, FILE_TYPES};
use crate::log::upkeep::compaction::swap;
use crate::log::upkeep::compaction::writer::Writer;
use crate::log::upkeep::compaction::{Compaction, CompactionError};
use crate::log::upkeep::listing::ListedSegment;
use crate::units::{Offset, Timestamp};

/// Bytes that may wait to be written, so that those who make them don't wait while a segment is made durable; more where a batch has more.
const AHEAD: usize = 12 * 1024 * 1024;

/// What was replaced.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    /// Bytes of the new logs.
    pub(super) bytes: u64,
    /// Segments before and after.
    pub(super) segments: (u64, u64),
}

/// What is to be done, in this order.
enum Work<'a> {
    Write(Bytes),
    Replace(&'a [ListedSegment], Box<Writer<'a>>),
}

/// Whoever does it.
pub(super) struct Replacing<'a> {
    work: Sender<Work<'a>>,
    /// What was written.
    written: Receiver<Vec<u8>>,
    /// Bytes that weren't.
    waiting: usize,
    directory: &'a Path,
}

impl<'a> Replacing<'a> {
    /// Has bytes written; memory for the next ones.
    ///
    /// # Errors
    /// When something has failed before.
    pub(super) fn write(&mut self, bytes: Bytes) -> Result<Vec<u8>, CompactionError> {
        if bytes.bytes.is_empty() {
            return Ok(bytes.bytes);
        }
        self.waiting += bytes.bytes.len();
        self.send(Work::Write(bytes))?;
        let mut written = self.written.try_recv().unwrap_or_default();
        self.waiting -= written.len();
        while self.waiting > AHEAD {
            // Why nobody writes any more is told by whoever did.
            let Ok(next) = self.written.recv() else { break };
            self.waiting -= next.len();
            written = next;
        }
        written.clear();
        Ok(written)
    }

    /// Has a group replaced.
    ///
    /// # Errors
    /// When something has failed before.
    pub(super) fn replace(
        &self,
        group: &'a [ListedSegment],
        writer: Writer<'a>,
    ) -> Result<(), CompactionError> {
        self.send(Work::Replace(group, Box::new(writer)))
    }

    /// What has failed, whoever waits for the thread is told.
    fn send(&self, work: Work<'a>) -> Result<(), CompactionError> {
        let stopped = |_| CompactionError::Stopped { path: self.directory.to_owned() };
        self.work.send(work).map_err(stopped)
    }
}

/// Calls `write`, which has groups replaced, and waits until they are.
///
/// # Errors
/// What failed first: the groups before it are replaced, those behind it are not.
pub(super) fn replace_each<'a>(
    compaction: &'a Compaction<'a>,
    set_aside: &(dyn Fn(PathBuf) + Sync),
    write: impl FnOnce(&mut Replacing<'a>) -> Result<(), CompactionError>,
) -> Result<Replaced, CompactionError> {
    std::thread::scope(|scope| {
        let (work, to_do) = channel();
        let (give_back, written) = channel();
        let do_all = move || do_all(compaction, set_aside, &to_do, &give_back);
        let thread = std::thread::Builder::new().name("replace".to_owned()).spawn_scoped(scope, do_all);
        let thread = thread.map_err(|source| LogError::Io {
            path: "replace".into(),
            action: "start a thread",
            source,
        })?;
        let all_written =
            write(&mut Replacing { work, written, waiting: 0, directory: compaction.directory });
        // A panic there goes on here.
        let replaced = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let replaced = replaced.and_then(|replaced| all_written.map(|()| replaced));
        // Where a swap is half done the `.cleaned` files say so.
        if replaced.as_ref().is_err_and(|error| !matches!(error, CompactionError::HalfDone { .. })) {
            undo(compaction);
        }
        replaced
    })
}

fn do_all(
    compaction: &Compaction<'_>,
    set_aside: &dyn Fn(PathBuf),
    to_do: &Receiver<Work<'_>>,
    give_back: &Sender<Vec<u8>>,
) -> Result<Replaced, CompactionError> {
    let mut replaced = Replaced::default();
    for work in to_do {
        let (group, mut writer) = match work {
            Work::Write(bytes) => {
                bytes.write()?;
                // Nobody may need it any more.
                let _ = give_back.send(bytes.bytes);
                continue;
            }
            Work::Replace(group, writer) => (group, writer),
        };
        let modified = group.last().map_or(Timestamp(0), |last| last.modified);
        writer.finish(compaction.disk, modified)?;
        let old: Vec<Offset> = group.iter().map(|segment| segment.base).collect();
        swap::replace(compaction.disk, compaction.directory, &writer.bases, &old, set_aside)
            .map_err(|source| CompactionError::HalfDone { source })?;
        replaced.bytes += writer.bytes;
        replaced.segments.0 += old.len() as u64;
        replaced.segments.1 += writer.bases.len() as u64;
    }
    Ok(replaced)
}

/// Removes what was written of new segments: every loader would throw it away.
fn undo(compaction: &Compaction<'_>) {
    for segment in compaction.segments {
        for file_type in FILE_TYPES {
            let path = cleaned::path(compaction.directory, segment.base, file_type, FileState::Cleaned);
            if let Err(error) = disk::remove_if_there(compaction.disk, &path) {
                tracing::debug!(%error, "left where it is");
            }
        }
    }
}
