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

/// Whether any page of a part of a file, from a multiple of [`page_size`] on, is in the page cache. All are, for who neither owns the
/// file nor may write to it.
///
/// # Errors
/// The system's.
pub fn is_any_cached(file: &File, span: &Range<u64>) -> io::Result<bool> {
    match cachestat(file, span) {
        Ok(cached) => Ok(cached > 0),
        // Older than Linux 6.5.
        Err(_) => is_any_resident(file, span),
    }
}

/// How many pages are in the page cache.
fn cachestat(file: &File, span: &Range<u64>) -> io::Result<u64> {
    // The same number on all architectures (asm-generic/unistd.h); libc doesn't have it for all.
    const SYS_CACHESTAT: libc::c_long = 451;
    // `struct cachestat_range`: position and length; `struct cachestat`: five counts, this one first.
    let range = [span.start, span.end.saturating_sub(span.start)];
    let mut counts = [0_u64; 5];
    // SAFETY: `file` keeps the descriptor open; the call reads and writes the two structs, which are of the sizes that it knows.
    let told =
        unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    if told == 0 { Ok(counts[0]) } else { Err(io::Error::last_os_error()) }
}

/// The same as [`is_any_cached`] by mincore(2), which takes several times as long.
fn is_any_resident(file: &File, span: &Range<u64>) -> io::Result<bool> {
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
    if told == 0 { Ok(pages.iter().any(|page| page & 1 == 1)) } else { Err(error) }
}

/// Bytes of a page of memory.
pub fn page_size() -> u64 {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Asks for large pages for memory that wasn't used yet, and is to be used here and there: of pages of 4 KiB hardly any is in the
/// processor's table when it is needed, and each must be given by the system. Best effort; less memory than such a page has, which may
/// be part of what others use, is left alone.
pub fn prefer_large_pages<T>(memory: &mut [T]) {
    const LARGE_PAGE: usize = 2 * 1024 * 1024;
    let page = usize::try_from(page_size()).unwrap_or(4096);
    let (address, len) = (memory.as_mut_ptr().cast::<u8>(), size_of_val(memory));
    let before = address.align_offset(page);
    if before < len && len >= LARGE_PAGE {
        // SAFETY: the advice changes nothing that is in the pages, which belong to `memory` but for what is left of the last one.
        let _ = unsafe { libc::madvise(address.add(before).cast(), len - before, libc::MADV_HUGEPAGE) };
    }
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    const PIECE: u64 = 256 * 1024;

    /// Whether each piece of a file is cached, as both system calls say.
    fn cached(file: &File) -> [bool; 4] {
        let len = file.metadata().unwrap().len();
        [0, 1, 2, 3].map(|piece| {
            let span = piece * PIECE..len.min((piece + 1) * PIECE);
            let is_any = is_any_cached(file, &span).unwrap();
            assert_eq!(is_any, is_any_resident(file, &span).unwrap(), "piece {piece}");
            is_any
        })
    }

    #[test]
    fn both_ways_to_ask_the_page_cache_say_the_same() {
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        // The last page isn't whole.
        file.write_all(&[7; 4 * PIECE as usize - 5000]).unwrap();
        file.sync_all().unwrap();
        assert_eq!(cached(&file), [true; 4]);
        fadvise(&file, 0, None, Advice::Random).unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let emptied = cached(&file);
        file.read_exact_at(&mut [0; 1], 2 * PIECE + 9999).unwrap();
        // Some file systems keep all in memory.
        let expected = if emptied == [false; 4] { [false, false, true, false] } else { emptied };
        assert_eq!(cached(&file), expected);
    }
}
