//! Unix sockets.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net;

use super::stream;
use crate::io::AsyncFd;

/// A connected stream socket of the Unix domain.
#[derive(Debug)]
pub struct UnixStream {
    fd: AsyncFd<net::UnixStream>,
}

impl UnixStream {
    /// Makes two sockets that are connected with each other.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use quadrille::net::UnixStream;
    ///
    /// let (left, right) = UnixStream::pair()?;
    /// left.write_all(b"ping").await?;
    /// let mut buffer = [0; 4];
    /// right.read_exact(&mut buffer).await?;
    /// assert_eq!(&buffer, b"ping");
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// The process has no descriptors left, or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn pair() -> io::Result<(Self, Self)> {
        let (left, right) = net::UnixStream::pair()?;
        Ok((Self::from_std(left)?, Self::from_std(right)?))
    }

    /// Takes over a socket of `std`, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// As [`pair`](Self::pair).
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(socket: net::UnixStream) -> io::Result<Self> {
        Ok(UnixStream {
            fd: AsyncFd::new(socket)?,
        })
    }

    /// Gives the socket to `std`, still in non-blocking mode.
    #[must_use]
    pub fn into_std(self) -> net::UnixStream {
        self.fd.into_inner()
    }

    /// Ends reading, writing, or both, for all who use the socket.
    ///
    /// # Errors
    ///
    /// Those of `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.fd.get_ref().shutdown(how)
    }

    /// Reads what is there, at least one byte, into `buffer`; returns how many. Zero means that the other end is closed, or
    /// that `buffer` is empty.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a read that was dropped has read nothing.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        stream::read(&self.fd, buffer).await
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the other end is closed before; those of [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// Loses what was read so far: it is in `buffer`, but how much isn't known. [`read`](Self::read) in a loop keeps count.
    pub async fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
        stream::read_exact(&self.fd, buffer).await
    }

    /// Writes what fits, at least one byte, of `buffer`; returns how many.
    ///
    /// # Errors
    ///
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the other end is closed; others of `write(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a write that was dropped has written nothing.
    pub async fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        stream::write(&self.fd, buffer).await
    }

    /// Writes all of `buffer`.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// Loses the count: a part may have been written. [`write`](Self::write) in a loop keeps it.
    pub async fn write_all(&self, buffer: &[u8]) -> io::Result<()> {
        stream::write_all(&self.fd, buffer).await
    }
}

impl AsFd for UnixStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, zip};

    use super::*;
    use crate::driver::tests::with_driver;

    #[test]
    fn bytes_go_both_ways_at_the_same_time() {
        with_driver(|| {
            let (left, right) = UnixStream::pair().unwrap();
            let sent: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[1]).collect();
            let (mut at_left, mut at_right) = (vec![0; sent.len()], vec![0; sent.len()]);
            let there = zip(left.write_all(&sent), right.read_exact(&mut at_right));
            let back = zip(right.write_all(&sent), left.read_exact(&mut at_left));
            let ((a, b), (c, d)) = block_on(zip(there, back));
            for outcome in [a, b, c, d] {
                outcome.unwrap();
            }
            assert!(at_left == sent && at_right == sent);
        });
    }

    #[test]
    fn ping_pong_between_threads() {
        with_driver(|| {
            let (left, right) = UnixStream::pair().unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    block_on(async {
                        let mut byte = [0];
                        while right.read(&mut byte).await.unwrap() > 0 {
                            right.write_all(&byte).await.unwrap();
                        }
                    });
                });
                for round in 0..=255 {
                    block_on(left.write_all(&[round])).unwrap();
                    let mut byte = [0];
                    block_on(left.read_exact(&mut byte)).unwrap();
                    assert_eq!(byte, [round]);
                }
                left.shutdown(Shutdown::Write).unwrap();
            });
        });
    }

    #[test]
    fn a_socket_can_go_to_std_and_back() {
        with_driver(|| {
            let (left, right) = UnixStream::pair().unwrap();
            let left = UnixStream::from_std(left.into_std()).unwrap();
            block_on(left.write_all(b"a")).unwrap();
            assert_eq!(block_on(right.read(&mut [0; 9])).unwrap(), 1);
        });
    }
}
