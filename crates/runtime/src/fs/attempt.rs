//! Attempts on a thread that may block, one after the other until there is an answer.
//!
//! Whoever gave us the open file may have made it non-blocking, for himself or for others who have it, too. What is
//! asked of a thread that may block waits all the same: [`WouldBlock`](io::ErrorKind::WouldBlock) is an answer for who
//! has a readiness to wait for, and here there is none. Where nothing can be waited for, because the descriptor blocks,
//! or the file is a regular one that is ready, the same error is a driver's (a sensor below `/sys` that has no value at
//! the moment) or a time limit of a socket's. It is told as another kind when it comes a second time.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use crate::reactor::Side;
use crate::sys::fd::{blocks, is_regular, poll_now, wait_readable, wait_writable};

/// Between attempts that fail though the system says that the file is ready, at first and at most: a device may say so
/// always.
const NAP_MIN: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_millis(64);

/// Tries until nothing interrupts and `side` of the file is ready, which is waited for if that can be.
pub(crate) fn patiently<F: AsFd, T>(
    file: &mut F,
    side: Side,
    mut operation: impl FnMut(&mut F) -> io::Result<T>,
) -> io::Result<T> {
    // How often in a row there was nothing to wait for.
    let mut vain = 0;
    loop {
        match operation(file) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let fd = file.as_fd();
                if !blocks(fd)? && waits(fd, side)? {
                    vain = 0;
                    continue;
                }
                // Not the first time: others who have the open file may have made it blocking since.
                if vain > 0 {
                    if blocks(fd)? || is_regular(fd)? {
                        return Err(io::Error::other(error));
                    }
                    thread::sleep(NAP_MAX.min(NAP_MIN * (1 << (vain - 1).min(6))));
                }
                vain += 1;
            }
            outcome => return outcome,
        }
    }
}

/// Waits until `side` is ready. False if it was at once.
fn waits(fd: BorrowedFd<'_>, side: Side) -> io::Result<bool> {
    let now = poll_now(fd)?;
    match side {
        Side::Read if !now.readable => wait_readable(fd)?,
        Side::Write if !now.writable => wait_writable(fd)?,
        Side::Read | Side::Write => return Ok(false),
    }
    Ok(true)
}

/// Writes all of `bytes`.
pub(crate) fn write_whole(to: &mut (impl Write + AsFd), mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match patiently(to, Side::Write, |to| to.write(bytes))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            length => bytes = &bytes[length..],
        }
    }
    Ok(())
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::sys::fd::set_nonblocking;

    /// What has no value for `vain` attempts.
    fn attempts(file: &mut impl AsFd, vain: usize) -> io::Result<usize> {
        let tried = Cell::new(0);
        patiently(file, Side::Read, |_| {
            tried.set(tried.get() + 1);
            if tried.get() <= vain {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(tried.get())
        })
    }

    #[test]
    fn what_cannot_be_waited_for_is_told_as_another_kind() {
        let (mut reader, _writer) = io::pipe().unwrap();
        assert_eq!(attempts(&mut reader, 1).unwrap(), 2, "others may have made it blocking");
        assert_eq!(attempts(&mut reader, 2).unwrap_err().kind(), io::ErrorKind::Other);
        // The system says that a regular file is always ready, whatever its descriptor.
        let mut file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(attempts(&mut file, 2).unwrap_err().kind(), io::ErrorKind::Other);
        set_nonblocking(file.as_fd()).unwrap();
        assert_eq!(attempts(&mut file, 2).unwrap_err().kind(), io::ErrorKind::Other);
    }

    #[test]
    fn what_is_ready_and_fails_all_the_same_is_tried_again() {
        let (mut reader, mut writer) = io::pipe().unwrap();
        set_nonblocking(reader.as_fd()).unwrap();
        writer.write_all(b"x").unwrap();
        assert_eq!(attempts(&mut reader, 3).unwrap(), 4);
    }
}
