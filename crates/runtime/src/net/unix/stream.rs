//! Connections.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, SockAddr, Type};

use super::UCred;
use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::coop;
use crate::io::{AsyncFd, Interest, Progress, Ready, hide_error_if_doomed, impl_as_fd, stopped_unless_doomed};
use crate::net::connection::connection_methods;
use crate::net::stream::{Sink, Source, impl_read, impl_write, read_methods, ready_methods, write_methods};
use crate::reactor::Side;
use crate::runtime::{Handle, with_current};
use crate::sys::fd::BUFFERS_MAX;
use crate::sys::socket;
use crate::time::sleep;

/// After this time a listener whose queue was full is asked again, twice as late each time, up to 64 times that.
const RETRY_MIN: Duration = Duration::from_millis(1);

/// For this room and more, a read also asks whether it got all there was: who offers much seldom expects to have it
/// filled, and that spares the read which would find nothing. It costs more than a plain read, so those who know what
/// comes do without.
const ROOMY: usize = 1024;

/// A connected stream socket of the Unix domain.
#[derive(Debug)]
pub struct UnixStream {
    fd: AsyncFd<net::UnixStream>,
}

impl UnixStream {
    /// Connects to the listener at `path`. While the listener's queue is full, which no event ends, it asks again,
    /// after 1 ms at first and 64 ms at last. On Linux a `path` that begins with a zero byte names no file: it is
    /// abstract.
    ///
    /// # Errors
    ///
    /// Nobody listens there ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)); there is nothing of that name
    /// ([`NotFound`](io::ErrorKind::NotFound)); it is longer than such names can be (107 bytes on Linux); others of
    /// `connect(2)`; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict: a connection that was made is closed.
    pub async fn connect<P: AsRef<Path>>(path: P) -> io::Result<UnixStream> {
        Self::connect_to(|| socket::unix_address(&socket::unix_named(path.as_ref())?)).await
    }

    /// Connects to the listener at `address`, which may be an abstract one on Linux; see [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict: a connection that was made is closed.
    pub async fn connect_addr(address: &SocketAddr) -> io::Result<UnixStream> {
        Self::connect_to(|| socket::unix_address(address)).await
    }

    async fn connect_to(address: impl FnOnce() -> io::Result<SockAddr>) -> io::Result<UnixStream> {
        // Paid for whatever comes: who never has to wait gives way all the same.
        coop::consume_budget().await;
        let address = address()?;
        let socket = socket::new(Domain::UNIX, Type::STREAM)?;
        for doublings in 0_u32.. {
            match socket::connect(&socket, &address) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // Nothing is watched yet that would tell of the end.
                    if with_current(|runtime| runtime.sleepers.is_stopping()) {
                        return stopped_unless_doomed().await;
                    }
                    sleep(RETRY_MIN * (1 << doublings.min(6))).await;
                }
                outcome => {
                    outcome?;
                    break;
                }
            }
        }
        Ok(Self {
            fd: hide_error_if_doomed(AsyncFd::from_nonblocking(
                socket.into(),
                Interest::READABLE | Interest::WRITABLE,
            ))
            .await?,
        })
    }

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

    connection_methods!(UnixStream);

    /// The address of the other end, which has none if it is that of a pair or has connected without binding one.
    ///
    /// # Errors
    ///
    /// Those of `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().peer_addr()
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// The process at the other end. On Linux and Android.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::of_peer(self)
    }
}

/// A read that got less than there was room for may have met the credentials or descriptors of a message: the system
/// stops there, with or without more bytes behind it. `recvmsg(2)` tells; a plain read doesn't.
impl Source for net::UnixStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<Progress<usize>> {
        if buffer.len() < ROOMY {
            return socket::recv(self, buffer).map(Progress::only);
        }
        self.read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Progress<usize>> {
        let wanted = buffers.iter().take(BUFFERS_MAX).map(|buffer| buffer.len()).sum();
        let (count, met_more) = socket::recv_vectored(self, buffers)?;
        let progress = Progress::of(count, wanted);
        Ok(if met_more { progress.unknown() } else { progress })
    }

    fn read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Progress<usize>> {
        socket::recv_uninit(self, buffer).map(Progress::only)
    }
}

impl Sink for net::UnixStream {
    fn write(&self, buffer: &[u8]) -> io::Result<Progress<usize>> {
        socket::send(self, buffer).map(|count| Progress::of(count, buffer.len()))
    }

    fn write_several(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_vectored(self, buffers)
    }
}

impl_read!(UnixStream, &UnixStream);
impl_write!(UnixStream, &UnixStream);

impl_as_fd!(fd: UnixStream);

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, zip};

    use super::*;
    use crate::child::{assert_passed, is_child, run_child};
    use crate::runtime::tests::with_runtime;

    #[test]
    fn bytes_go_both_ways_at_the_same_time() {
        with_runtime(|| {
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

    /// Also in a program of C's, where the signal is not ignored as it is in Rust's.
    #[test]
    fn to_write_to_nobody_is_an_error_and_no_signal() {
        if !is_child() {
            let output = run_child(module_path!(), "to_write_to_nobody_is_an_error_and_no_signal");
            return assert_passed(&output);
        }
        // SAFETY: no handler is set; what the signal does from now on ends this child, which nobody else uses.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        with_runtime(|| {
            let (left, right) = UnixStream::pair().unwrap();
            drop(right);
            for length in [2, 1000, 3000] {
                let bytes = vec![0; length];
                let several = [IoSlice::new(&bytes[1..]), IoSlice::new(&bytes[..1])];
                for outcome in [left.try_write(&bytes), left.try_write_vectored(&several)] {
                    assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::BrokenPipe, "{length} bytes");
                }
            }
        });
    }

    #[test]
    fn ping_pong_between_threads() {
        with_runtime(|| {
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
        with_runtime(|| {
            let (left, right) = UnixStream::pair().unwrap();
            let left = UnixStream::from_std(left.into_std()).unwrap();
            block_on(left.write_all(b"a")).unwrap();
            assert_eq!(block_on(right.read(&mut [0; 9])).unwrap(), 1);
        });
    }
}
