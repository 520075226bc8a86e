//! What connections come from.

use std::io;
use std::net::SocketAddr;
use std::os::unix;
use std::task::{Context, Poll};

use super::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Where connections come from: what a [`Server`](super::Server) serves.
///
/// For listeners of other kinds, and for those that let in only some. A handshake does not belong here, since the next
/// client would wait for it, but at the beginning of what serves the connection.
///
/// ```
/// use std::io;
/// use std::net::SocketAddr;
/// use std::task::{Context, Poll};
///
/// use quadrille::net::{Listener, TcpListener, TcpStream};
///
/// /// Lets in who is on this machine.
/// struct Local(TcpListener);
///
/// impl Listener for Local {
///     type Io = TcpStream;
///     type Addr = SocketAddr;
///
///     fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
///         loop {
///             match self.0.poll_accept(cx) {
///                 Poll::Ready(Ok((_, from))) if !from.ip().is_loopback() => {}
///                 accepted => return accepted,
///             }
///         }
///     }
/// }
/// ```
pub trait Listener {
    /// A connection.
    type Io;
    /// Where it comes from.
    type Addr;

    /// Polls for the next connection. The waker of the last poll is called when there may be one.
    ///
    /// # Errors
    ///
    /// No connection was taken. A [`Server`](super::Server) takes the next one at once if the error is of one
    /// connection, as the system says it or by its kind, `ConnectionAborted`, `ConnectionRefused` or `ConnectionReset`;
    /// tries again a little later if it is another of the system's ([`raw_os_error`](io::Error::raw_os_error)) that may
    /// pass; and ends with any other: let none of those be one that a client can cause.
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(Self::Io, Self::Addr)>>;
}

impl Listener for TcpListener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        TcpListener::poll_accept(self, cx)
    }
}

impl Listener for UnixListener {
    type Io = UnixStream;
    type Addr = unix::net::SocketAddr;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, unix::net::SocketAddr)>> {
        UnixListener::poll_accept(self, cx)
    }
}
