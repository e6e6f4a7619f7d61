//! A FUSE file system of one file, `file`, whose writes go to another file as they are: the ceiling for appending through FUSE
//! (`benches/append.py`).
//!
//! ```sh
//! cargo run --release --example null_fuse -- MOUNTPOINT BACKING    # until it is unmounted
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request,
    WriteFlags,
};

/// Writes come to the end of this, whatever their offsets.
struct Null {
    backing: File,
    end: AtomicU64,
}

const TTL: Duration = Duration::from_secs(3600);

fn attr(ino: u64) -> FileAttr {
    let is_root = ino == 1;
    FileAttr {
        ino: INodeNo(ino),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: if is_root { FileType::Directory } else { FileType::RegularFile },
        perm: if is_root { 0o700 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 128 * 1024,
        flags: 0,
    }
}

impl Filesystem for Null {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "file" { reply.entry(&TTL, &attr(2), Generation(0)) } else { reply.error(Errno::ENOENT) }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &attr(ino.0));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(1), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let at = self.end.fetch_add(data.len() as u64, Ordering::Relaxed);
        match self.backing.write_all_at(data, at) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let synced = self.backing.sync_data();
        if synced.is_ok() { reply.ok() } else { reply.error(Errno::EIO) }
    }
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [mountpoint, backing] = &words[..] else {
        return Err(io::Error::other("usage: null_fuse MOUNTPOINT BACKING"));
    };
    let mut config = Config::default();
    config.n_threads = Some(4);
    config.clone_fd = true;
    fuser::mount(Null { backing: File::create(backing)?, end: AtomicU64::new(0) }, mountpoint, &config)
}
