//! Settings of file descriptors, and their bytes.
//!
//! Reading and writing is rustix's, which calls the kernel itself. In glibc each such call is a point at which a thread
//! may be cancelled, and in a process with several threads it says so before and after: 25 ns a call of the 170 that a
//! message of 100 bytes takes through a pipe.

use std::fs::OpenOptions;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

/// Most buffers that one call reads or writes, of however many it is given (`IOV_MAX`; no system that is supported has
/// fewer).
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

/// Whether a read or a write of `fd` waits by itself.
pub(crate) fn blocks(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(!rustix::fs::fcntl_getfl(fd)?.contains(OFlags::NONBLOCK))
}

/// Whether `fd` is of a regular file. Nearly all of them are called ready always, but for some below `/proc` and
/// `/sys`.
pub(crate) fn is_regular(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode).is_file())
}

/// Whether `fd` is of a character device, as terminals are.
pub(crate) fn may_be_terminal(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode).is_char_device())
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

/// What a descriptor is ready for at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Polled {
    /// A read need not wait.
    pub(crate) readable: bool,
    /// A write need not wait.
    pub(crate) writable: bool,
    /// Nothing more will come, where the system says so.
    pub(crate) read_ended: bool,
}

/// Asks the system what `fd` is ready for, without a wait. Errors and hang-ups count for both sides.
pub(crate) fn poll_now(fd: BorrowedFd<'_>) -> io::Result<Polled> {
    let asked = PollFlags::IN | PollFlags::PRI | PollFlags::OUT | READ_ENDED;
    let mut fds = [PollFd::from_borrowed_fd(fd, asked)];
    let found = loop {
        match poll(&mut fds, Some(&Timespec::default())) {
            Err(Errno::INTR) => {}
            outcome => {
                outcome?;
                break fds[0].revents();
            }
        }
    };
    let gone = found.intersects(PollFlags::HUP | PollFlags::ERR);
    Ok(Polled {
        readable: gone || found.intersects(PollFlags::IN | PollFlags::PRI | READ_ENDED),
        writable: gone || found.contains(PollFlags::OUT),
        read_ended: found.intersects(PollFlags::HUP | READ_ENDED),
    })
}

/// Nothing more will come. Other systems say that it is readable then.
#[cfg(any(target_os = "linux", target_os = "android"))]
const READ_ENDED: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const READ_ENDED: PollFlags = PollFlags::empty();

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

/// Reads into `buffer`.
pub(crate) fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::io::read(fd, buffer)?)
}

/// Reads into `buffers`, one after the other.
pub(crate) fn read_vectored(fd: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    Ok(rustix::io::readv(fd, buffers)?)
}

/// Writes of `buffer`. With nobody at the other end, a signal comes as well.
pub(crate) fn write(fd: impl AsFd, buffer: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, buffer)?)
}

/// Writes of `buffers`, one after the other.
pub(crate) fn write_vectored(fd: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, buffers)?)
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
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn asking_what_is_ready_finds_each_side_by_itself() {
        let (left, right) = UnixStream::pair().unwrap();
        let now = || {
            let polled = poll_now(left.as_fd()).unwrap();
            (polled.readable, polled.writable, polled.read_ended)
        };
        assert_eq!(now(), (false, true, false));
        left.set_nonblocking(true).unwrap();
        while io::Write::write(&mut &left, &[0; 4096]).is_ok() {}
        assert_eq!(now(), (false, false, false));
        io::Write::write_all(&mut &right, b"a").unwrap();
        assert_eq!(now(), (true, false, false));
        drop(right);
        assert_eq!(now(), (true, true, true));
    }

    #[test]
    fn reading_from_an_empty_pipe_returns() {
        let (mut reader, _writer) = io::pipe().unwrap();
        set_nonblocking(reader.as_fd()).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
