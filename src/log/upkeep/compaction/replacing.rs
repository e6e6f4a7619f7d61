//! Groups of segments that are written are made durable and put in their places by a thread of its own, one after the other, while the
//! next one is written: to wait for the disk is half of the work.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::format::names::FileState;
use crate::log::LogError;
use crate::log::files::disk;
use crate::log::upkeep::compaction::cleaned::{self, FILE_TYPES};
use crate::log::upkeep::compaction::swap;
use crate::log::upkeep::compaction::writer::Writer;
use crate::log::upkeep::compaction::{Compaction, CompactionError};
use crate::log::upkeep::listing::ListedSegment;
use crate::units::{Offset, Timestamp};

/// What was replaced.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    /// Bytes of the new logs.
    pub(super) bytes: u64,
    /// Segments before and after.
    pub(super) segments: (u64, u64),
}

/// Takes groups that are written.
pub(super) struct Replacing<'a> {
    written: SyncSender<(&'a [ListedSegment], Writer<'a>)>,
}

impl<'a> Replacing<'a> {
    /// Has a group replaced; whether there is anybody who still does.
    pub(super) fn replace(&self, group: &'a [ListedSegment], writer: Writer<'a>) -> bool {
        self.written.send((group, writer)).is_ok()
    }
}

/// Calls `write`, which has groups replaced, and waits until they are.
///
/// # Errors
/// What failed first: the groups before it are replaced, those behind it are not.
pub(super) fn replace_each<'a>(
    compaction: &'a Compaction<'a>,
    set_aside: &(dyn Fn(PathBuf) + Sync),
    write: impl FnOnce(&Replacing<'a>) -> Result<(), CompactionError>,
) -> Result<Replaced, CompactionError> {
    std::thread::scope(|scope| {
        let (written, groups) = sync_channel(1);
        let replace = move || replace_all(compaction, set_aside, &groups);
        let thread = std::thread::Builder::new().name("replace".to_owned()).spawn_scoped(scope, replace);
        let thread = thread.map_err(|source| LogError::Io {
            path: "replace".into(),
            action: "start a thread",
            source,
        })?;
        let all_written = write(&Replacing { written });
        // A panic there goes on here.
        let replaced = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let replaced = replaced?;
        all_written.map(|()| replaced)
    })
}

fn replace_all<'a>(
    compaction: &Compaction<'_>,
    set_aside: &dyn Fn(PathBuf),
    groups: &Receiver<(&'a [ListedSegment], Writer<'a>)>,
) -> Result<Replaced, CompactionError> {
    let (mut replaced, mut failed) = (Replaced::default(), None);
    for (group, mut writer) in groups {
        if failed.is_some() {
            undo(compaction, group);
            continue;
        }
        let modified = group.last().map_or(Timestamp(0), |last| last.modified);
        if let Err(error) = writer.finish(compaction.disk, modified) {
            undo(compaction, group);
            failed = Some(error.into());
            continue;
        }
        let old: Vec<Offset> = group.iter().map(|segment| segment.base).collect();
        let swapped = swap::replace(compaction.disk, compaction.directory, &writer.bases, &old, set_aside);
        if let Err(source) = swapped {
            failed = Some(CompactionError::HalfDone { source });
            continue;
        }
        replaced.bytes += writer.bytes;
        replaced.segments.0 += old.len() as u64;
        replaced.segments.1 += writer.bases.len() as u64;
    }
    failed.map_or(Ok(replaced), Err)
}

/// Removes what was written of new segments: every loader would throw it away.
pub(super) fn undo(compaction: &Compaction<'_>, group: &[ListedSegment]) {
    for segment in group {
        for file_type in FILE_TYPES {
            let path = cleaned::path(compaction.directory, segment.base, file_type, FileState::Cleaned);
            if let Err(error) = disk::remove_if_there(compaction.disk, &path) {
                tracing::debug!(%error, "left where it is");
            }
        }
    }
}
