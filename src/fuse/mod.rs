//! The adapter to fuser: each callback is a call and a reply, nothing is decided here.
//!
//! Every call is made under `catch_unwind`, since a panic in a callback would unmount everything (fuser joins its
//! threads); it is answered with EIO. A request that waits, for a measurement or for records to come, is parked, so that no thread waits with it.

mod backing;
pub mod forget;
mod parked;
mod syncs;
pub mod touch;

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyPoll, ReplyWrite, ReplyXattr, Request, RequestId, TimeOrNow, WriteFlags,
};

use crate::fs::attributes::Attributes;
use crate::fs::caching::Reading;
use crate::fs::handles::Entry;
use crate::fs::metrics::requests::{Operation, Requests};
use crate::fs::mounted::Read;
use crate::fs::stat::Stat;
use crate::fs::{Fs, FsError};
use crate::view::pieces::Pieces;
use backing::Backing;
use parked::{Asked, Parked, Place};
use syncs::{Durable, Syncs};

/// The largest request, which is the kernel's limit as long as `fs.fuse.max_pages_limit` is 256.
const MAX_REQUEST_BYTES: u32 = 1024 * 1024;
/// Requests that the kernel may have under way without anybody waiting (read-ahead).
const MAX_BACKGROUND: u16 = 64;

/// Answers the kernel from a file system.
#[derive(Debug)]
pub struct Adapter {
    fs: Arc<Fs>,
    parked: Parked,
    syncs: Syncs,
    backing: Backing,
}

impl Adapter {
    /// An adapter for `fs`.
    pub fn new(fs: Arc<Fs>) -> Self {
        fs.close_idle_files();
        Self {
            parked: Parked::new(fs.clone()),
            syncs: Syncs::new(fs.clone()),
            backing: Backing::default(),
            fs,
        }
    }

    /// Whether a file can be written to.
    fn is_append(&self, ino: u64) -> bool {
        call("open", ino, || Ok(self.fs.is_append(ino))).unwrap_or(false)
    }

    /// What those get who try to change what nobody can.
    fn refusal(&self, operation: Operation) -> Errno {
        refused(operation, if self.fs.is_writable() { Errno::EPERM } else { Errno::EROFS })
    }
}

/// Counts a request.
fn asked(operation: Operation) {
    Requests::of_process().asked(operation);
}

/// Counts a request that gets an error without a call.
fn refused(operation: Operation, errno: Errno) -> Errno {
    Requests::of_process().failed(operation, errno.code());
    errno
}

/// Makes a call: errors are logged at their level and become an errno, a panic becomes EIO.
fn call<T>(name: &'static str, ino: u64, work: impl FnOnce() -> Result<T, FsError>) -> Result<T, Errno> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            match error.level() {
                tracing::Level::WARN => tracing::warn!(ino, %error, "{name} failed"),
                tracing::Level::INFO => tracing::info!(ino, %error, "{name} failed"),
                _ => tracing::debug!(ino, %error, "{name} failed"),
            }
            let errno = error.errno();
            Requests::of_process().failed_by_name(name, errno);
            Err(Errno::from_i32(errno))
        }
        Err(_) => {
            Requests::of_process().panicked();
            Requests::of_process().failed_by_name(name, libc::EIO);
            tracing::error!(ino, "{name} panicked; this is a bug in topicfs, the mount goes on");
            Err(Errno::EIO)
        }
    }
}

/// Looks a name up.
fn look_up(fs: &Fs, parent: u64, name: &OsStr, reply: ReplyEntry) {
    match call("lookup", parent, || fs.lookup(parent, name)) {
        Ok((found, name_ttl)) => {
            reply.entry_with_ttls(&found.lasting.attributes_ttl(), &name_ttl, &attr(&found), Generation(0));
        }
        Err(errno) => reply.error(errno),
    }
}

/// Opens a directory.
fn open_directory(fs: &Fs, ino: u64, reply: ReplyOpen) {
    match call("opendir", ino, || fs.open_node(ino)) {
        Ok((handle, _)) => reply.opened(FileHandle(handle), FopenFlags::empty()),
        Err(errno) => reply.error(errno),
    }
}

/// The attributes in fuser's form. `blocks` is 0 for rendered text, which takes no space; links are 1, "not counted".
fn attr(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.ino),
        size: attributes.size,
        blocks: 0,
        atime: attributes.mtime,
        mtime: attributes.mtime,
        ctime: attributes.mtime,
        crtime: UNIX_EPOCH,
        kind: if attributes.is_dir { FileType::Directory } else { FileType::RegularFile },
        perm: attributes.mode,
        nlink: 1,
        uid: attributes.uid,
        gid: attributes.gid,
        rdev: 0,
        blksize: 128 * 1024,
        flags: 0,
    }
}

/// Answers with bytes from where they are.
fn reply_bytes(reply: ReplyData, bytes: &Pieces) {
    let slices: Vec<_> = bytes.iter().map(IoSlice::new).collect();
    reply.data_slices(&slices);
}

/// Answers with a value or with names: their size to those who ask for 0 bytes, else all of it or nothing.
fn reply_xattr(answer: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    let bytes = match answer {
        Ok(bytes) => bytes,
        Err(errno) => return reply.error(errno),
    };
    match (size, u32::try_from(bytes.len())) {
        (0, Ok(len)) => reply.size(len),
        (room, Ok(len)) if len <= room => reply.data(&bytes),
        _ => reply.error(Errno::ERANGE),
    }
}

/// How the kernel has to read an open file, in its words.
fn open_flags(reading: Reading) -> FopenFlags {
    let own = match reading {
        Reading::Cached => FopenFlags::FOPEN_KEEP_CACHE,
        Reading::Direct | Reading::Source => FopenFlags::FOPEN_DIRECT_IO,
        // Kernels that don't know of streams take the second.
        Reading::Stream => {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_STREAM | FopenFlags::FOPEN_NONSEEKABLE
        }
    };
    own | FopenFlags::FOPEN_NOFLUSH
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each by itself: a kernel that lacks one refuses the whole set.
        for capability in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // `>` is an open like any other, not one and a truncation.
            InitFlags::FUSE_ATOMIC_O_TRUNC,
            // Source files that the kernel reads by itself: they may be on one file system, not on a stack of them.
            InitFlags::FUSE_PASSTHROUGH,
        ] {
            let _ = config.add_capabilities(capability);
        }
        let _ = config.set_max_stack_depth(1);
        let _ = config.set_max_write(MAX_REQUEST_BYTES);
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(MAX_BACKGROUND / 4 * 3);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        asked(Operation::Lookup);
        match call("lookup", parent.0, || self.fs.before_lookup(parent.0, name)) {
            Ok(None) => look_up(&self.fs, parent.0, name, reply),
            Ok(Some(build)) => {
                self.parked.park(request, Asked::Lookup(reply, parent.0, name.to_owned(), build));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        asked(Operation::Forget);
        let _ = call("forget", ino.0, || {
            self.fs.forget(ino.0, count);
            Ok(())
        });
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        asked(Operation::Getattr);
        match call("getattr", ino.0, || self.fs.stat(ino.0)) {
            Ok(Stat::Known(attributes)) => {
                reply.attr(&attributes.lasting.attributes_ttl(), &attr(&attributes));
            }
            Ok(Stat::Measuring(attributes, measurement)) => {
                self.parked.park_stat(request, reply, attributes, measurement);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        asked(Operation::Setattr);
        // Times stay the source's, and an append file has nothing to truncate.
        if mode.is_some() || uid.is_some() || gid.is_some() || size.is_some_and(|_| !self.is_append(ino.0)) {
            return reply.error(self.refusal(Operation::Setattr));
        }
        match call("setattr", ino.0, || self.fs.stat(ino.0)) {
            Ok(Stat::Known(now) | Stat::Measuring(now, _)) => {
                reply.attr(&now.lasting.attributes_ttl(), &attr(&now));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        asked(Operation::Open);
        // Modes keep out everybody but root.
        if flags.0 & (libc::O_WRONLY | libc::O_RDWR | libc::O_TRUNC) != 0 && !self.is_append(ino.0) {
            return reply.error(refused(Operation::Open, Errno::EACCES));
        }
        match call("open", ino.0, || self.fs.open_node(ino.0)) {
            Ok((handle, Reading::Source)) => {
                let file = call("open", ino.0, || Ok(self.fs.open_source_file(handle)));
                let file = file.ok().flatten();
                self.backing.opened(ino, FileHandle(handle), file.as_deref(), reply);
            }
            Ok((handle, reading)) => reply.opened(FileHandle(handle), open_flags(reading)),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        asked(Operation::Read);
        let size = size as usize;
        match call("read", ino.0, || self.fs.before_read(handle.0, offset)) {
            Ok(None) => {}
            Ok(Some(reaching)) => {
                let place = Place { handle, at: offset, len: size };
                return self.parked.park(request, Asked::FarRead(reply, place, reaching));
            }
            Err(errno) => return reply.error(errno),
        }
        match call("read", ino.0, || self.fs.read(handle.0, offset, size)) {
            Ok(Read::Bytes(bytes)) => {
                let len = bytes.len();
                reply_bytes(reply, &bytes);
                // What follows is another thread's while this one goes on.
                drop(bytes);
                let _ = call("read", ino.0, || {
                    self.fs.read_ahead(handle.0, offset, len);
                    Ok(())
                });
                // It may have made room for somebody.
                self.parked.answer_next();
            }
            Ok(Read::InTurn(begun, turn)) => {
                let place = Place { handle, at: offset, len: size };
                self.parked.park(request, Asked::InTurn(reply, place, begun, turn));
            }
            Ok(Read::Waits(..)) if flags.0 & libc::O_NONBLOCK != 0 => reply.error(Errno::EAGAIN),
            Ok(Read::Waits(file, seen)) => {
                self.parked.park(request, Asked::Read(reply, file, seen, size));
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        asked(Operation::Write);
        let is_durable = flags.0 & libc::O_DSYNC != 0;
        match call("write", ino.0, || self.fs.write(handle.0, data)) {
            Ok(written) => {
                let reply = Durable::Write(reply, u32::try_from(written).unwrap_or(u32::MAX));
                if is_durable { self.syncs.sync(ino.0, handle.0, reply) } else { reply.ok() }
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn fsync(&self, _: &Request, ino: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        asked(Operation::Fsync);
        self.syncs.sync(ino.0, handle.0, Durable::Fsync(reply));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        asked(Operation::Mkdir);
        match call("mkdir", parent.0, || self.fs.create_directory(parent.0, name)) {
            Ok(()) => look_up(&self.fs, parent.0, name, reply),
            Err(errno) => reply.error(errno),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        asked(Operation::Rmdir);
        match call("rmdir", parent.0, || self.fs.remove_directory(parent.0, name)) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        asked(Operation::Mknod);
        reply.error(self.refusal(Operation::Mknod));
    }

    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        asked(Operation::Create);
        reply.error(self.refusal(Operation::Create));
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        asked(Operation::Unlink);
        reply.error(self.refusal(Operation::Unlink));
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        asked(Operation::Symlink);
        reply.error(self.refusal(Operation::Symlink));
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        asked(Operation::Link);
        reply.error(self.refusal(Operation::Link));
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        asked(Operation::Rename);
        reply.error(self.refusal(Operation::Rename));
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        asked(Operation::Fallocate);
        reply.error(refused(Operation::Fallocate, Errno::EOPNOTSUPP));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        asked(Operation::Flush);
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        asked(Operation::Release);
        self.parked.forget_poll(handle);
        self.backing.released(handle);
        let _ = call("release", ino.0, || {
            self.fs.release(handle.0);
            Ok(())
        });
        reply.ok();
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        asked(Operation::Opendir);
        match call("opendir", ino.0, || self.fs.before_opendir(ino.0)) {
            Ok(None) => open_directory(&self.fs, ino.0, reply),
            Ok(Some(build)) => self.parked.park(request, Asked::OpenDirectory(reply, ino.0, build)),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        asked(Operation::Readdir);
        let add = |cookie: u64, entry: &Entry| {
            let kind = if entry.is_dir { FileType::Directory } else { FileType::RegularFile };
            reply.add(INodeNo(entry.ino), cookie, kind, &entry.name)
        };
        match call("readdir", ino.0, || self.fs.read_directory(handle.0, offset, add)) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn releasedir(&self, _: &Request, ino: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        asked(Operation::Releasedir);
        let _ = call("releasedir", ino.0, || {
            self.fs.release(handle.0);
            Ok(())
        });
        reply.ok();
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        asked(Operation::Getxattr);
        reply_xattr(call("getxattr", ino.0, || self.fs.xattr(ino.0, name)), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        asked(Operation::Listxattr);
        reply_xattr(call("listxattr", ino.0, || self.fs.xattr_names(ino.0)), size, reply);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        asked(Operation::Setxattr);
        reply.error(refused(Operation::Setxattr, Errno::EOPNOTSUPP));
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        asked(Operation::Removexattr);
        reply.error(refused(Operation::Removexattr, Errno::EOPNOTSUPP));
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        asked(Operation::Lseek);
        // Files have no holes: the kernel answers SEEK_DATA and SEEK_HOLE itself from now on.
        reply.error(Errno::ENOSYS);
    }

    fn poll(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        notifier: PollNotifier,
        events: PollEvents,
        flags: PollFlags,
        reply: ReplyPoll,
    ) {
        asked(Operation::Poll);
        let ready = call("poll", ino.0, || {
            let Some(file) = self.fs.follow_file(handle.0) else { return Ok(true) };
            let seen = file.seen();
            let is_ready = file.is_ready();
            if !is_ready && flags.contains(PollFlags::FUSE_POLL_SCHEDULE_NOTIFY) {
                self.parked.park_poll(handle, file, seen, notifier);
            }
            Ok(is_ready)
        });
        // Files that don't wait are ready for everything, as on any file system.
        let always =
            PollEvents::POLLIN | PollEvents::POLLRDNORM | PollEvents::POLLOUT | PollEvents::POLLWRNORM;
        match ready {
            Ok(true) => reply.poll(events & always),
            Ok(false) => reply.poll(PollEvents::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn interrupt(&self, unique: RequestId) -> Option<Errno> {
        self.parked.interrupt(unique);
        None
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        asked(Operation::Ioctl);
        // Programs ask whether a file is a terminal.
        reply.error(Errno::ENOTTY);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        asked(Operation::Access);
        // The kernel checks modes itself (default_permissions).
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fs::caching::Lasting;

    /// A file system whose lookups panic, made as the adapter makes its calls.
    struct Panics;

    impl Filesystem for Panics {
        fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
            let (mtime, mode) = (UNIX_EPOCH, 0o500);
            let root = Attributes {
                ino: ino.0,
                is_dir: true,
                size: 0,
                is_sized: true,
                lasting: Lasting::Final,
                mtime,
                mode,
                uid: 0,
                gid: 0,
            };
            reply.attr(&Duration::ZERO, &attr(&root));
        }

        fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
            let panics = || -> Result<(), FsError> { panic!("looked for {}", name.display()) };
            if let Err(errno) = call("lookup", parent.0, panics) {
                reply.error(errno);
            }
        }
    }

    #[test]
    fn a_panic_is_an_input_output_error_and_the_mount_goes_on() {
        if std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no /dev/fuse");
            eprintln!("skipped: no /dev/fuse");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let session = fuser::Session::new(Panics, directory.path(), &fuser::Config::default()).unwrap();
        let session = session.spawn().unwrap();
        for number in 0..10 {
            let error = std::fs::metadata(directory.path().join(number.to_string())).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO));
        }
        assert!(std::fs::metadata(directory.path()).unwrap().is_dir());
        session.umount_and_join().unwrap();
    }

    #[test]
    fn every_call_has_the_name_of_an_operation() {
        let (own, _) = include_str!("mod.rs").split_once("#[cfg(test)]").unwrap();
        let text = [own, include_str!("parked.rs"), include_str!("syncs.rs")].concat();
        let calls: Vec<_> = text.split("call(\"").skip(1).collect();
        for call in &calls {
            let (name, _) = call.split_once('"').unwrap();
            assert!(Operation::ALL.iter().any(|operation| operation.name() == name), "{name}");
        }
        assert!(calls.len() > 20, "{}", calls.len());
    }

    #[test]
    fn everything_that_the_adapter_asks_of_the_file_system_is_a_call() {
        let text = include_str!("mod.rs");
        let begin = text.find("impl Filesystem for Adapter").unwrap();
        let lines: Vec<_> = text[begin..text.find("#[cfg(test)]").unwrap()].lines().collect();
        let asking = lines.windows(2).filter(|pair| pair[1].contains("self.fs."));
        let mut count = 0;
        for pair in asking {
            assert!(pair.iter().any(|line| line.contains("call(")), "{}", pair[1]);
            count += 1;
        }
        assert!(count > 8, "{count}");
    }
}
