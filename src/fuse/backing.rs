//! Source files that the kernel reads by itself (`FUSE_PASSTHROUGH`, Linux 6.9): it is given a descriptor, and asks us nothing while
//! they are open. That takes CAP_SYS_ADMIN; where it is refused files are read from us.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use fuser::{BackingId, FileHandle, FopenFlags, INodeNo, ReplyOpen};

use super::open_flags;
use crate::fs::caching::Reading;
use crate::log::files::SourceFile;

/// The files that are open so.
#[derive(Debug, Default)]
pub(super) struct Backing {
    open: Mutex<Open>,
    /// Once it was refused, nobody is asked again.
    is_refused: AtomicBool,
}

#[derive(Debug, Default)]
struct Open {
    /// All handles of an inode have the same number.
    of_inodes: HashMap<INodeNo, Weak<BackingId>>,
    of_handles: HashMap<FileHandle, Arc<BackingId>>,
}

impl Backing {
    /// Answers that a file is open, and has the kernel read it by itself if that can be.
    pub(super) fn opened(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        file: Option<&SourceFile>,
        reply: ReplyOpen,
    ) {
        let id = file.and_then(|file| self.id(ino, handle, file, &reply));
        match id {
            Some(id) => reply.opened_passthrough(handle, FopenFlags::FOPEN_NOFLUSH, &id),
            None => reply.opened(handle, open_flags(Reading::Direct)),
        }
    }

    /// The kernel's number of the file.
    fn id(
        &self,
        ino: INodeNo,
        handle: FileHandle,
        file: &SourceFile,
        reply: &ReplyOpen,
    ) -> Option<Arc<BackingId>> {
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let mut open = self.lock();
        let id = match open.of_inodes.get(&ino).and_then(Weak::upgrade) {
            Some(id) => id,
            None => match reply.open_backing(file) {
                Ok(id) => Arc::new(id),
                Err(error) => {
                    let may_not = error.kind() == io::ErrorKind::PermissionDenied;
                    self.is_refused.fetch_or(may_not, Ordering::Relaxed);
                    tracing::info!(ino = ino.0, %error, "the kernel doesn't read a source file by itself");
                    return None;
                }
            },
        };
        open.of_inodes.insert(ino, Arc::downgrade(&id));
        open.of_handles.insert(handle, id.clone());
        Some(id)
    }

    /// A handle is closed; the last one of an inode takes the number with it.
    pub(super) fn released(&self, handle: FileHandle) {
        let mut open = self.lock();
        if open.of_handles.remove(&handle).is_some() {
            open.of_inodes.retain(|_, id| id.strong_count() > 0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
