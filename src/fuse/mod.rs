//! The adapter to fuser. (Placeholder until the layers are merged.)

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileHandle, FileType, Filesystem, INodeNo, LockOwner, OpenFlags, Request};
use fuser::{ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry};

use crate::fs::Fs;

/// Answers the kernel from a file system.
#[derive(Debug)]
pub struct Adapter {
    _fs: Arc<Fs>,
}

impl Adapter {
    /// An adapter for `fs`.
    pub fn new(fs: Arc<Fs>) -> Self {
        Self { _fs: fs }
    }
}

const HELLO: &[u8] = b"hello\n";

fn attr(ino: INodeNo) -> Option<FileAttr> {
    let (kind, perm, size) = match ino.0 {
        1 => (FileType::Directory, 0o500, 0),
        2 => (FileType::RegularFile, 0o400, HELLO.len() as u64),
        _ => return None,
    };
    Some(FileAttr {
        ino,
        size,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: crate::mount::sys::effective_uid(),
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

impl Filesystem for Adapter {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &std::ffi::OsStr, reply: ReplyEntry) {
        match attr(INodeNo(2)) {
            Some(attr) if parent.0 == 1 && name == "hello" => {
                reply.entry(&Duration::ZERO, &attr, fuser::Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attr(ino) {
            Some(attr) => reply.attr(&Duration::ZERO, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        _: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        reply.data(if offset == 0 { HELLO } else { &[] });
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if offset == 0 {
            let _ = reply.add(INodeNo(2), 1, FileType::RegularFile, "hello");
        }
        reply.ok();
    }
}
