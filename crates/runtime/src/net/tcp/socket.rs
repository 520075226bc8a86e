//! A socket before it listens or connects.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{FromRawFd, IntoRawFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use super::{TcpKeepalive, TcpListener, TcpStream};
use crate::io::impl_as_fd;
use crate::sys::socket;

/// A TCP socket that neither listens nor is connected, for options that must be set before it does:
/// [`TcpListener::bind`] and [`TcpStream::connect`] need none of this.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::net::TcpSocket;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseaddr(true)?;
/// socket.set_recv_buffer_size(1 << 20)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(4096)?;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_nodelay(true)?;
/// let stream = socket.connect(listener.local_addr()?).await?;
/// assert!(stream.nodelay()?);
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// Options that have no method here can be set through the descriptor, for example by `socket2::SockRef`.
#[derive(Debug)]
pub struct TcpSocket {
    socket: Socket,
}

impl TcpSocket {
    /// A socket for IPv4.
    ///
    /// # Errors
    ///
    /// The process has no descriptor left, or the system doesn't know the protocol.
    pub fn new_v4() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV4)
    }

    /// A socket for IPv6, and for IPv4 by mapped addresses if the system has it so; see
    /// [`set_only_v6`](Self::set_only_v6).
    ///
    /// # Errors
    ///
    /// As [`new_v4`](Self::new_v4).
    pub fn new_v6() -> io::Result<TcpSocket> {
        Self::new(Domain::IPV6)
    }

    pub(super) fn new(domain: Domain) -> io::Result<TcpSocket> {
        Ok(TcpSocket {
            socket: socket::new(domain, Type::STREAM)?,
        })
    }

    /// Takes over a socket of `std`, and sets it to non-blocking mode. It may be one that isn't connected, whatever its
    /// type says.
    ///
    /// # Errors
    ///
    /// Those of `ioctl(2)`.
    pub fn from_std_stream(stream: net::TcpStream) -> io::Result<TcpSocket> {
        stream.set_nonblocking(true)?;
        Ok(TcpSocket { socket: stream.into() })
    }

    /// Sets the address of this end. Port 0 lets the system choose one.
    ///
    /// # Errors
    ///
    /// [`AddrInUse`](io::ErrorKind::AddrInUse), [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable),
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) and others of `bind(2)`.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.socket.bind(&addr.into())
    }

    /// Listens at the address that was bound, or at any if none was. Up to `backlog` connections wait to be accepted,
    /// if the system has no lower limit.
    ///
    /// # Errors
    ///
    /// Those of `listen(2)`; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        TcpListener::from_nonblocking(self.into_listening(backlog)?)
    }

    /// Listens, and isn't watched yet.
    pub(super) fn into_listening(self, backlog: u32) -> io::Result<net::TcpListener> {
        self.socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        Ok(self.socket.into())
    }

    /// Connects to `addr`. With the option `TCP_FASTOPEN_CONNECT` the first write does, and tells of errors; nobody
    /// looks then with whom.
    ///
    /// A socket that was bound may be connected with itself, if `addr` leads to its own port.
    ///
    /// # Errors
    ///
    /// As [`TcpStream::connect`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Loses the socket, which is closed.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        if self.local_addr().is_ok_and(|local| local.port() == 0) {
            TcpStream::connect_unbound(self.socket, addr).await
        } else {
            TcpStream::connect_socket(self.socket, addr).await
        }
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = self.socket.local_addr()?;
        address
            .as_socket()
            .ok_or_else(|| io::Error::other("the socket isn't one of the internet"))
    }

    /// The error that is pending on the socket, which takes it away.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.socket.take_error()
    }
}

/// Options. Connections that a listener accepts begin with those that it has.
impl TcpSocket {
    /// Whether an address can be bound that connections of an earlier process still linger on (`SO_REUSEADDR`). Off at
    /// first.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn reuseaddr(&self) -> io::Result<bool> {
        self.socket.reuse_address()
    }

    /// Lets an address be bound that connections of an earlier process still linger on (`SO_REUSEADDR`).
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_reuseaddr(&self, reuseaddr: bool) -> io::Result<()> {
        self.socket.set_reuse_address(reuseaddr)
    }

    /// Whether several sockets may be bound to one address (`SO_REUSEPORT`). Off at first.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn reuseport(&self) -> io::Result<bool> {
        self.socket.reuse_port()
    }

    /// Lets several sockets be bound to one address, if all of them say so (`SO_REUSEPORT`); see
    /// [`TcpListener::bind_several`].
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_reuseport(&self, reuseport: bool) -> io::Result<()> {
        self.socket.set_reuse_port(reuseport)
    }

    /// Whether a socket for IPv6 is for that alone.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn only_v6(&self) -> io::Result<bool> {
        self.socket.only_v6()
    }

    /// Lets a socket for IPv6 be for that alone, or for IPv4 as well.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_only_v6(&self, only: bool) -> io::Result<()> {
        self.socket.set_only_v6(only)
    }

    /// How many bytes the system keeps that aren't sent or acknowledged. Linux says twice what was set, for its
    /// book-keeping.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        self.socket.send_buffer_size().map(saturate)
    }

    /// Sets how many bytes the system keeps that aren't sent or acknowledged, and ends that it adapts that by itself.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`. Too much is no error: the system takes what its limit says.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.socket.set_send_buffer_size(size as usize)
    }

    /// How many bytes the system keeps that aren't read. Linux says twice what was set, for its book-keeping.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        self.socket.recv_buffer_size().map(saturate)
    }

    /// Sets how many bytes the system keeps that aren't read, and ends that it adapts that by itself.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`. Too much is no error: the system takes what its limit says.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.socket.set_recv_buffer_size(size as usize)
    }

    /// Whether small messages leave at once; see [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.socket.tcp_nodelay()
    }

    /// Lets small messages leave at once; see [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.socket.set_tcp_nodelay(nodelay)
    }

    /// Whether TCP asks for a sign of life after a long silence.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn keepalive(&self) -> io::Result<bool> {
        self.socket.keepalive()
    }

    /// Lets TCP ask for a sign of life after a long silence, or not.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.socket.set_keepalive(keepalive)
    }

    /// Lets TCP ask for a sign of life, when and as often as `keepalive` says.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`: a time is zero or too long.
    pub fn set_tcp_keepalive(&self, keepalive: &TcpKeepalive) -> io::Result<()> {
        self.socket.set_tcp_keepalive(keepalive.as_socket2())
    }

    /// What [`set_linger`](Self::set_linger) has set.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.socket.linger()
    }

    /// What happens to unsent data when the socket is closed; see [`TcpStream::set_linger`].
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        socket::set_linger(&self.socket, linger)
    }

    /// Throws away what isn't sent when the socket is closed, and resets the connection:
    /// [`set_linger`](Self::set_linger) with zero.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let socket = quadrille::net::TcpSocket::new_v4()?;
    /// socket.set_zero_linger()?;
    /// assert_eq!(socket.linger()?, Some(std::time::Duration::ZERO));
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// The type of service that packets of IPv4 carry (`IP_TOS`). 0 at first.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd"
    ))]
    pub fn tos_v4(&self) -> io::Result<u32> {
        self.socket.tos_v4()
    }

    /// Sets the type of service that packets of IPv4 carry (`IP_TOS`): six bits for who queues them on the way, and two
    /// for congestion, which are TCP's own.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let socket = quadrille::net::TcpSocket::new_v4()?;
    /// // Class AF21.
    /// socket.set_tos_v4(18 << 2)?;
    /// assert_eq!(socket.tos_v4()?, 18 << 2);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd"
    ))]
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        self.socket.set_tos_v4(tos)
    }

    /// The traffic class that packets of IPv6 carry (`IPV6_TCLASS`). 0 at first.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`: the socket is one for IPv4.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_os = "macos",
        target_os = "freebsd"
    ))]
    pub fn tclass_v6(&self) -> io::Result<u32> {
        self.socket.tclass_v6()
    }

    /// Sets the traffic class that packets of IPv6 carry (`IPV6_TCLASS`); see [`set_tos_v4`](Self::set_tos_v4).
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`: the socket is one for IPv4.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_os = "macos",
        target_os = "freebsd"
    ))]
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        self.socket.set_tclass_v6(tclass)
    }

    /// The name of the interface that [`bind_device`](Self::bind_device) has set. `None`: none.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        self.socket.device()
    }

    /// Restricts the socket to the interface of this name (`SO_BINDTODEVICE`), or lifts the restriction: packets leave
    /// and arrive there alone.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// let socket = quadrille::net::TcpSocket::new_v4()?;
    /// assert_eq!(socket.device()?, None);
    /// assert!(socket.bind_device(Some(b"no-such-device")).is_err());
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`: there is no such interface. [`PermissionDenied`](io::ErrorKind::PermissionDenied):
    /// before Linux 5.7 it takes privileges, and since then only to change what was set.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        self.socket.bind_device(interface)
    }
}

fn saturate(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

impl_as_fd!(socket: TcpSocket);

/// Takes over a socket that is in non-blocking mode; [`from_std_stream`](TcpSocket::from_std_stream) sets that itself.
/// `connect` and what listens hold up a worker with one that isn't.
impl FromRawFd for TcpSocket {
    unsafe fn from_raw_fd(fd: RawFd) -> Self {
        // SAFETY: the caller's promise is std's, passed on.
        let socket = unsafe { Socket::from_raw_fd(fd) };
        TcpSocket { socket }
    }
}

/// The socket stays in non-blocking mode.
impl IntoRawFd for TcpSocket {
    fn into_raw_fd(self) -> RawFd {
        self.socket.into_raw_fd()
    }
}
