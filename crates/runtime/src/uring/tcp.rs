//! Connections over TCP, and listening for them.

use std::future::Future;
use std::io;
use std::net::{self, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use socket2::SockRef;

use super::{BufResult, IoBuf, RingFd};
use crate::coop;
use crate::net as ready;
use crate::net::ToSocketAddrs;
use crate::runtime::with_current;
use crate::sys;
use crate::sys::ring::{Accept, Recv, Send};

/// Listens for connections over TCP; see [`net::TcpListener`](crate::net::TcpListener).
///
/// Any number of tasks and threads may accept from one listener: each connection goes to one of them.
#[derive(Debug)]
pub struct TcpListener(Listens);

#[derive(Debug)]
enum Listens {
    Ring(RingFd),
    Ready(ready::TcpListener),
}

impl TcpListener {
    /// Listens at `addr`; see [`net::TcpListener::bind`](crate::net::TcpListener::bind).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        Self::from_std(ready::TcpListener::bind(addr).await?.into_std())
    }

    /// Takes over a socket of `std`, which must listen, for the current runtime, and sets it to blocking mode or not as
    /// that needs it.
    ///
    /// # Errors
    ///
    /// Those of `ioctl(2)`; without io_uring: the system has no room for the watch; or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(listener: net::TcpListener) -> io::Result<TcpListener> {
        let ring = with_current(|shared| shared.watched_rings().ok().cloned());
        Ok(TcpListener(match ring {
            Some(rings) => {
                sys::fd::set_blocking(listener.as_fd())?;
                Listens::Ring(RingFd::new(listener.into(), &rings))
            }
            None => Listens::Ready(ready::TcpListener::from_std(listener)?),
        }))
    }

    /// Takes the next connection, and tells who made it. One that is given up before it is taken is passed over.
    ///
    /// # Errors
    ///
    /// Those of [`net::TcpListener::accept`](crate::net::TcpListener::accept).
    ///
    /// # Cancel safety
    ///
    /// Loses a connection that was accepted just before: it is closed.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.0 {
            Listens::Ring(ring) => {
                let (fd, address) = accept_by(|| ring.run(Accept::new(ring.fd()))).await?;
                Ok((TcpStream(Connection::Ring(RingFd::new(fd, &ring.rings))), address))
            }
            Listens::Ready(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((TcpStream(Connection::Ready(stream)), address))
            }
        }
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet(SockRef::from(self).local_addr()?)
    }
}

/// A connection over TCP.
///
/// All methods take `&self`: one task may read while another writes. What several read or write at the same time comes
/// in some order.
#[derive(Debug)]
pub struct TcpStream(Connection);

#[derive(Debug)]
enum Connection {
    Ring(RingFd),
    Ready(ready::TcpStream),
}

impl TcpStream {
    /// Connects to `addr`; see [`net::TcpStream::connect`](crate::net::TcpStream::connect).
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict: a connection that was begun is closed.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        Self::from_std(ready::TcpStream::connect(addr).await?.into_std())
    }

    /// Takes over a socket of `std` for the current runtime, and sets it to blocking mode or not as that needs it.
    ///
    /// # Errors
    ///
    /// Those of `ioctl(2)`; without io_uring: the system has no room for the watch; or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(socket: net::TcpStream) -> io::Result<TcpStream> {
        let ring = with_current(|shared| shared.watched_rings().ok().cloned());
        Ok(TcpStream(match ring {
            Some(rings) => {
                sys::fd::set_blocking(socket.as_fd())?;
                Connection::Ring(RingFd::new(socket.into(), &rings))
            }
            None => Connection::Ready(ready::TcpStream::from_std(socket)?),
        }))
    }

    /// Reads what is there, at least one byte, to the beginning of `buffer`, at most up to its capacity; returns how
    /// many, which is its length then. Zero means that the other end is closed, or that `buffer` has no capacity. What
    /// was in it is lost.
    ///
    /// # Errors
    ///
    /// Those of `recv(2)`; the runtime shuts down. `buffer` comes back empty.
    ///
    /// # Cancel safety
    ///
    /// Loses what was read just before. What comes later is left for the next call.
    pub async fn read(&self, mut buffer: Vec<u8>) -> BufResult<usize, Vec<u8>> {
        buffer.clear();
        if buffer.capacity() == 0 {
            coop::consume_budget().await;
            return (Ok(0), buffer);
        }
        match &self.0 {
            Connection::Ring(ring) => ring.run(Recv { fd: ring.fd(), buffer }).await,
            Connection::Ready(stream) => {
                buffer.resize(buffer.capacity(), 0);
                let outcome = stream.read(&mut buffer).await;
                buffer.truncate(*outcome.as_ref().unwrap_or(&0));
                (outcome, buffer)
            }
        }
    }

    /// Writes what fits, at least one byte, of `buffer`; returns how many.
    ///
    /// # Errors
    ///
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the other end is closed; others of `send(2)`; the runtime shuts
    /// down.
    ///
    /// # Cancel safety
    ///
    /// Loses the count: it may have been written.
    pub async fn write<B: IoBuf>(&self, buffer: B) -> BufResult<usize, B> {
        self.write_from(buffer, 0).await
    }

    /// Writes all of `buffer`.
    ///
    /// # Errors
    ///
    /// Those of [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// Loses the count: a part may have been written.
    pub async fn write_all<B: IoBuf>(&self, mut buffer: B) -> BufResult<(), B> {
        let mut from = 0;
        if buffer.bytes().is_empty() {
            coop::consume_budget().await;
        }
        while from < buffer.bytes().len() {
            let (written, again) = self.write_from(buffer, from).await;
            buffer = again;
            match written {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(count) => from += count,
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    async fn write_from<B: IoBuf>(&self, buffer: B, from: usize) -> BufResult<usize, B> {
        match &self.0 {
            Connection::Ring(ring) => {
                let fd = ring.fd();
                ring.run(Send { fd, buffer, from }).await
            }
            Connection::Ready(stream) => (stream.write(&buffer.bytes()[from..]).await, buffer),
        }
    }

    /// Ends reading, writing, or both; see [`net::TcpStream::shutdown`](crate::net::TcpStream::shutdown).
    ///
    /// # Errors
    ///
    /// Those of `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        SockRef::from(self).shutdown(how)
    }

    /// Lets small messages leave at once (`TCP_NODELAY`), rather than wait until what was sent before is acknowledged.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        SockRef::from(self).set_tcp_nodelay(nodelay)
    }

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) once the connection is broken; others of `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        internet(SockRef::from(self).peer_addr()?)
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        internet(SockRef::from(self).local_addr()?)
    }
}

/// Asks for a connection until the answer concerns the caller.
async fn accept_by<F: Future<Output = io::Result<T>>, T>(mut accept: impl FnMut() -> F) -> io::Result<T> {
    loop {
        match accept().await {
            Err(error) if sys::socket::is_nobodys(&error) => {}
            outcome => return outcome,
        }
    }
}

fn internet(address: socket2::SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "the socket is of domain {:?}, expected one of the internet",
                address.domain()
            ),
        )
    })
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Listens::Ring(ring) => ring.fd.as_fd(),
            Listens::Ready(listener) => listener.as_fd(),
        }
    }
}

impl AsRawFd for TcpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Connection::Ring(ring) => ring.fd.as_fd(),
            Connection::Ready(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for TcpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use futures_lite::future::block_on;
    use rustix::io::Errno;

    use super::*;

    /// By a ring, too, whose answers carry the same numbers.
    #[test]
    fn what_was_given_up_in_the_queue_is_passed_over() {
        for (errno, expected) in [
            (Errno::CONNABORTED, Ok(3)),
            (Errno::INTR, Ok(3)),
            (Errno::MFILE, Err(Some(Errno::MFILE.raw_os_error()))),
        ] {
            let mut answers = [Err(Errno::CONNABORTED), Err(errno), Ok(3)].into_iter();
            let mut next = || answers.next().expect("it asks no further").map_err(io::Error::from);
            let accepted = block_on(accept_by(|| ready(next())));
            assert_eq!(accepted.map_err(|error| error.raw_os_error()), expected);
        }
    }
}
