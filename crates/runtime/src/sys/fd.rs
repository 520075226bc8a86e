//! Settings of file descriptors.

use std::io;
use std::os::fd::BorrowedFd;

/// Makes reads and writes of `fd`'s open file return at once when they can't go on.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn reading_from_an_empty_pipe_returns() {
        let (mut reader, _writer) = io::pipe().unwrap();
        set_nonblocking(reader.as_fd()).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
