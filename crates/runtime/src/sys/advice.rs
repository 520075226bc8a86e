//! One advice about many ranges of memory in one system call.
//!
//! `madvise` takes one range, the lock of the process's address space and, where pages go, an interrupt to each
//! processor that runs the process. `process_madvise` takes many ranges at once. Linux lets a process advise itself so
//! about anything since 6.13, and the lock and the interrupts are spared in releases after that. Where it does not, or
//! a filter of system calls forbids it, nothing has happened, or some of it, and the caller goes on one by one; so,
//! too, if the ranges have 2 GiB or more in all, of which the kernel takes less.

use std::ffi::c_int;
use std::ops::Range;

/// Most ranges that the kernel takes at once (`UIO_MAXIOV`).
#[cfg(target_os = "linux")]
const AT_ONCE: usize = 1024;

/// Gives the kernel `advice` about all of `ranges`. False: not about all.
///
/// # Safety
///
/// The caller may give this advice about each of the ranges, in any order, and again where the answer is false.
#[cfg(target_os = "linux")]
pub(super) unsafe fn about_all(ranges: &[Range<usize>], advice: c_int) -> bool {
    use std::os::fd::AsRawFd;

    // Opened each time: kept, it would mean the parent in a child that was forked.
    let Ok(process) = super::process::pidfd_open(std::process::id()) else {
        return false;
    };
    let parts: Vec<libc::iovec> = ranges
        .iter()
        .map(|range| libc::iovec {
            iov_base: std::ptr::with_exposed_provenance_mut(range.start),
            iov_len: range.len(),
        })
        .collect();
    parts.chunks(AT_ONCE).all(|parts| {
        let bytes: usize = parts.iter().map(|part| part.iov_len).sum();
        // SAFETY: reads the parts, which outlive the call; what it does to the ranges is the caller's contract.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process.as_raw_fd(),
                parts.as_ptr(),
                parts.len(),
                advice,
                0,
            )
        };
        usize::try_from(done) == Ok(bytes)
    })
}

/// There is no such call on this system: always false.
#[cfg(not(target_os = "linux"))]
pub(super) unsafe fn about_all(_ranges: &[Range<usize>], _advice: c_int) -> bool {
    false
}
