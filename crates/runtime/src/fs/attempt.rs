//! Attempts on a thread that may block, one after the other until there is an answer.
//!
//! Whoever gave us the open file may have made it non-blocking, for himself or for others who have it, too. What is asked of a thread that may block waits all
//! the same: [`WouldBlock`](io::ErrorKind::WouldBlock) is an answer for who has a readiness to wait for, and here there is none.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::sys::fd::wait_writable;

/// Tries until nothing interrupts and the file is ready, for which `wait` waits.
pub(crate) fn patiently<F: AsFd, T>(
    file: &mut F,
    wait: fn(BorrowedFd<'_>) -> io::Result<()>,
    mut operation: impl FnMut(&mut F) -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match operation(file) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(file.as_fd())?,
            outcome => return outcome,
        }
    }
}

/// Writes all of `bytes`.
pub(crate) fn write_whole(to: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match patiently(to, wait_writable, |to| to.write(bytes))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            length => bytes = &bytes[length..],
        }
    }
    Ok(())
}
