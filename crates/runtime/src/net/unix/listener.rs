//! Listening for connections.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::{UnixStream, until_end};
use crate::io::{AsyncFd, Progress, hide_error_if_doomed, hide_poll_error_if_doomed, impl_as_fd};
use crate::net::incoming::incoming;
use crate::reactor::Side;
use crate::runtime::Handle;
use crate::sys::socket;

/// Listens for connections of the Unix domain.
///
/// Any number of tasks and threads may accept from one listener: each connection goes to one of them. The name stays in
/// the file system when the listener is dropped, and can't be listened at again until it is removed.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::net::{UnixListener, UnixStream};
///
/// let path = std::env::temp_dir().join(format!("quadrille-doc-{}.sock", std::process::id()));
/// let listener = UnixListener::bind(&path)?;
/// let client = UnixStream::connect(&path).await?;
/// let (server, _) = listener.accept().await?;
/// std::fs::remove_file(&path)?;
/// server.write_all(b"hello").await?;
/// let mut buffer = [0; 5];
/// client.read_exact(&mut buffer).await?;
/// assert_eq!(&buffer, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct UnixListener {
    fd: AsyncFd<net::UnixListener>,
    /// Where it is watched, and what it accepts where the caller is in no runtime.
    handle: Handle,
}

impl UnixListener {
    /// Listens at `path`, which is made. As many connections wait to be accepted as std lets wait (128 or the system's
    /// most).
    ///
    /// On Linux a `path` that begins with a zero byte names no file: it is abstract.
    ///
    /// # Errors
    ///
    /// `path` exists ([`AddrInUse`](io::ErrorKind::AddrInUse)); it is longer than such names can be (107 bytes on
    /// Linux); others of `bind(2)`; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixListener> {
        Self::bind_addr(&socket::unix_named(path.as_ref())?)
    }

    /// Listens at `address`, which may be an abstract one on Linux.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixListener> {
        Self::from_std(net::UnixListener::bind_addr(address)?)
    }

    /// Takes over a socket of `std`, which must listen, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system has no room for the watch; or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(listener: net::UnixListener) -> io::Result<UnixListener> {
        Ok(UnixListener {
            fd: AsyncFd::reader(listener)?,
            handle: Handle::current(),
        })
    }

    /// Gives the socket to `std`, still in non-blocking mode.
    #[must_use]
    pub fn into_std(self) -> net::UnixListener {
        self.fd.into_inner()
    }

    /// Takes the next connection, and tells the address of who made it, which mostly has none. It belongs to the
    /// current runtime, or to that of the listener where there is none.
    ///
    /// # Errors
    ///
    /// As [`TcpListener::accept`](crate::net::TcpListener::accept): the listener stays as it was.
    ///
    /// # Cancel safety
    ///
    /// Strict: no connection is taken by a call that is dropped, but for one that meets the end of its task's runtime.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, address) = self.fd.transfer(Side::Read, |listener| self.take(listener)).await?;
        let stream = hide_error_if_doomed(UnixStream::accepted(stream, &self.handle)).await?;
        Ok((stream, address))
    }

    /// [`accept`](Self::accept) for implementations of `Future` and `Stream`: of those who poll, only the last is
    /// woken.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        let accepted = self.fd.poll_transfer(Side::Read, cx, |listener| self.take(listener));
        let accepted = accepted.map(|accepted| {
            let (stream, address) = accepted?;
            Ok((UnixStream::accepted(stream, &self.handle)?, address))
        });
        hide_poll_error_if_doomed(accepted, cx)
    }

    /// Takes one connection. That listening was shut down, by whoever has the socket, the system doesn't say to one
    /// that doesn't block.
    fn take(&self, listener: &net::UnixListener) -> io::Result<Progress<(net::UnixStream, SocketAddr)>> {
        let refused = || Err(io::ErrorKind::InvalidInput.into());
        until_end(|| accept(listener), || self.fd.has_read_ended(), refused)
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// The error that is pending on the socket, which takes it away.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.fd.get_ref().take_error()
    }
}

/// Takes one connection, which is in non-blocking mode.
fn accept(listener: &net::UnixListener) -> io::Result<Progress<(net::UnixStream, SocketAddr)>> {
    let (stream, address) = socket::accept_unix(listener.as_fd())?;
    Ok(Progress::only((stream.into(), address)))
}

impl_as_fd!(fd: UnixListener);

incoming!(UnixListener, UnixStream);
