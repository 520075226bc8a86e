//! Settings of file descriptors.

use std::fs::OpenOptions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// Most buffers that one call reads or writes, of however many it is given (`IOV_MAX`; no system that is supported has fewer).
pub(crate) const BUFFERS_MAX: usize = 1024;

/// Makes reads and writes of `fd`'s open file return at once when they can't go on.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

/// Blocks the calling thread until a read of `fd` need not wait, whether or not it is non-blocking.
pub(crate) fn wait_readable(fd: BorrowedFd<'_>) -> io::Result<()> {
    wait(fd, PollFlags::IN)
}

/// Blocks the calling thread until a write to `fd` need not wait, whether or not it is non-blocking.
pub(crate) fn wait_writable(fd: BorrowedFd<'_>) -> io::Result<()> {
    wait(fd, PollFlags::OUT)
}

/// Errors and hang-ups of the descriptor end the wait as well: the next operation tells.
fn wait(fd: BorrowedFd<'_>, flags: PollFlags) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::from_borrowed_fd(fd, flags)], None) {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome.map(drop)?),
        }
    }
}

/// Opens a named pipe as `options` say, without waiting for the other side. Anything else is refused.
pub(crate) fn open_fifo(path: &Path, options: &mut OpenOptions) -> io::Result<OwnedFd> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{} is no named pipe", path.display()),
        ));
    }
    Ok(file.into())
}

/// Reads into the beginning of `buffer`; so many bytes are initialised then.
pub(crate) fn read_uninit(fd: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let (read, _) = rustix::io::read(fd, buffer)?;
    Ok(read.len())
}

/// Makes reads and writes of `fd`'s open file wait when they can't go on.
pub(crate) fn set_blocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, false)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn reading_from_an_empty_pipe_returns() {
        let (mut reader, _writer) = io::pipe().unwrap();
        set_nonblocking(reader.as_fd()).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
