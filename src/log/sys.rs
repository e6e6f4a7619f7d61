//! The system calls that `std` lacks; the only unsafe code of this layer.

use std::fs::File;
use std::io;
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

/// The effective user's id.
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid has no arguments, touches no memory and can't fail.
    unsafe { libc::geteuid() }
}
