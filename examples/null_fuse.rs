//! A FUSE file system that does nothing: the ceiling for all that goes through FUSE (`benches/append.py`, `benches/fast.py`).
//!
//! `file` takes writes, which go to another file as they are; `framed` takes them too, and puts in front of each as many bytes as a batch
//! of lines of 1 KiB has more than the lines; `constant` has bytes that are the same in each read, asked for each time;
//! `cold` is the same out of memory that no processor's cache holds, as a file's bytes are;
//! `cached` is the same through the kernel's page cache, which outlives the handle; so is each name that is a number, which is
//! looked up each time, and `constant-N`, which are files of their own. Sizes are in bytes.
//!
//! ```sh
//! cargo run --release --example null_fuse -- MOUNTPOINT BACKING [SIZE]    # until it is unmounted
//! ```

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, WriteFlags,
};

/// What the files are made of.
struct Null {
    /// Writes come to the end of this, whatever their offsets.
    backing: File,
    end: AtomicU64,
    /// What each read of the other files gets.
    constant: Vec<u8>,
    /// What each read of `cold` gets, in turn.
    cold: Vec<u8>,
    size: u64,
}

const LARGEST_READ: usize = 1 << 20;
const FILE: u64 = 2;
const CONSTANT: u64 = 3;
const CACHED: u64 = 4;
const FRAMED: u64 = 5;
const COLD: u64 = 6;
/// More than processors' caches hold.
const COLD_SIZE: usize = 256 << 20;
const FIRST_NUMBERED: u64 = 1 << 16;
const FIRST_CONSTANT: u64 = 1 << 32;

/// What a batch, and each record in it, has besides values.
const BATCH_HEADER: usize = 61;
const RECORD_FRAME: usize = 9;

const TTL: Duration = Duration::from_secs(3600);

fn attr(ino: u64, size: u64) -> FileAttr {
    let is_root = ino == 1;
    FileAttr {
        ino: INodeNo(ino),
        size,
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

impl Null {
    fn attr(&self, ino: u64) -> FileAttr {
        attr(ino, if matches!(ino, FILE | FRAMED) { 0 } else { self.size })
    }
}

impl Filesystem for Null {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = match name.to_str() {
            Some("file") => FILE,
            Some("framed") => FRAMED,
            Some("cold") => COLD,
            Some("constant") => CONSTANT,
            Some("cached") => CACHED,
            // Each of them is a file of its own.
            Some(name) => {
                match (name.parse::<u32>(), name.strip_prefix("constant-").map(str::parse::<u32>)) {
                    // As long as a small record; the kernel forgets its name at once.
                    (Ok(number), _) => {
                        let ino = FIRST_NUMBERED + u64::from(number);
                        return reply.entry(&Duration::ZERO, &self.attr(ino), Generation(0));
                    }
                    (_, Some(Ok(number))) => FIRST_CONSTANT + u64::from(number),
                    _ => return reply.error(Errno::ENOENT),
                }
            }
            None => return reply.error(Errno::ENOENT),
        };
        reply.entry(&TTL, &self.attr(ino), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&TTL, &self.attr(ino.0));
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let is_direct = matches!(ino.0, FILE | FRAMED | CONSTANT | COLD | FIRST_CONSTANT..);
        let own = if is_direct { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
        reply.opened(FileHandle(1), own | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = left.min(size as usize).min(LARGEST_READ);
        let (from, at) = if ino.0 == COLD {
            (&self.cold, usize::try_from(offset).unwrap_or(0) % (COLD_SIZE - LARGEST_READ))
        } else {
            (&self.constant, 0)
        };
        reply.data(from.get(at..at + len).unwrap_or_default());
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let frame = if ino.0 == FRAMED { BATCH_HEADER + RECORD_FRAME * data.len().div_ceil(1024) } else { 0 };
        let framed = (frame > 0).then(|| [self.constant.get(..frame).unwrap_or_default(), data].concat());
        let written = framed.as_deref().unwrap_or(data);
        let at = self.end.fetch_add(written.len() as u64, Ordering::Relaxed);
        match self.backing.write_all_at(written, at) {
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
    let (mountpoint, backing, size) = match &words[..] {
        [mountpoint, backing] => (mountpoint, backing, 0),
        [mountpoint, backing, size] => (mountpoint, backing, size.parse().map_err(io::Error::other)?),
        _ => return Err(io::Error::other("usage: null_fuse MOUNTPOINT BACKING [SIZE]")),
    };
    let mut config = Config::default();
    config.n_threads = Some(4);
    config.clone_fd = true;
    let constant = b"nothing\n".repeat(LARGEST_READ / 8);
    let cold = b"nothing\n".repeat(COLD_SIZE / 8);
    let null = Null { backing: File::create(backing)?, end: AtomicU64::new(0), constant, cold, size };
    fuser::mount(null, mountpoint, &config)
}
