//! The system calls that `std` lacks; the only unsafe code of this layer.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// The position of the first byte at or after `position` that is not in a hole; `None` when only a hole is left.
///
/// # Errors
/// The system's, as where the file system can't tell.
pub fn next_data(file: &File, position: u64) -> io::Result<Option<u64>> {
    let Ok(start) = libc::off_t::try_from(position) else { return Ok(None) };
    // SAFETY: `file` keeps the descriptor open; lseek touches no memory. All reads of the file are positioned,
    // so that moving the descriptor's own offset disturbs nobody.
    let found = unsafe { libc::lseek(file.as_raw_fd(), start, libc::SEEK_DATA) };
    if found >= 0 {
        return Ok(u64::try_from(found).ok());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) }
}

/// Gives the calling thread idle I/O priority, so that measuring never competes with a broker. Best effort.
pub fn lower_io_priority() {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const IOPRIO_CLASS_IDLE: libc::c_int = 3 << 13;
    // SAFETY: ioprio_set takes three integers and touches no memory; 0 is the calling thread.
    let _ = unsafe { libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE) };
}

/// Which pages of a part of a file, from a multiple of [`page_size`] on, are in the page cache. All are, for who neither owns the
/// file nor may write to it.
///
/// # Errors
/// The system's.
pub fn resident_pages(file: &File, span: Range<u64>) -> io::Result<Vec<bool>> {
    let too_large = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let len = usize::try_from(span.end.saturating_sub(span.start)).map_err(too_large)?;
    let at = libc::off_t::try_from(span.start).map_err(too_large)?;
    let page = usize::try_from(page_size()).map_err(too_large)?;
    let mut pages = vec![0_u8; len.div_ceil(page)];
    // SAFETY: a new mapping, at an address of the kernel's choice, of a descriptor that is open; nobody reads from it.
    let address = unsafe {
        libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), at)
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping is `len` bytes long, and `pages` has one byte for each page of it.
    let told = unsafe { libc::mincore(address, len, pages.as_mut_ptr().cast()) };
    let error = io::Error::last_os_error();
    // SAFETY: the mapping from above, which nobody has a reference into.
    unsafe { libc::munmap(address, len) };
    if told == 0 { Ok(pages.iter().map(|page| page & 1 == 1).collect()) } else { Err(error) }
}

/// Bytes of a page of memory.
pub fn page_size() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Has a part of a file written to the disk, without waiting for it. Best effort.
pub fn begin_writing_out(file: &File, position: u64, len: u64) {
    let (Ok(position), Ok(len)) = (libc::off64_t::try_from(position), libc::off64_t::try_from(len)) else {
        return;
    };
    // SAFETY: `file` keeps the descriptor open; the call takes numbers and touches no memory.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), position, len, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Takes a write lock on a whole file that belongs to the open file, as fcntl's `F_OFD_SETLK` gives it; whether nobody else has one,
/// of this kind or of a process.
///
/// # Errors
/// The system's, as where a file system has no locks.
pub fn try_lock(file: &File) -> io::Result<bool> {
    let lock = whole_file(libc::F_WRLCK);
    // SAFETY: `file` keeps the descriptor open; the call reads the struct, which lives as long as it.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// The process that has a lock on a file which excludes ours, if there is one; -1 for a lock of an open file, which belongs to none.
pub fn lock_on(file: &File) -> Option<i32> {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: `file` keeps the descriptor open; the call reads and writes the struct, which lives as long as it.
    let told = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    (told == 0 && libc::c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock.l_pid)
}

/// A lock of this type on all of a file, however long it gets.
fn whole_file(lock_type: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: libc::c_short::try_from(lock_type).unwrap_or_default(),
        l_whence: 0,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

/// The effective user's id.
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid has no arguments, touches no memory and can't fail.
    unsafe { libc::geteuid() }
}
