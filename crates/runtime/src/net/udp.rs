//! UDP.

use std::io;
use std::net::{self, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use socket2::{Domain, SockRef, Type};

use super::addr::{self, ToSocketAddrs};
#[cfg(feature = "bytes")]
use super::buf::{self, recv_buf_methods};
use super::stream::ready_methods;
use crate::io::{AsyncFd, Interest, Ready, hide_error_if_doomed, impl_as_fd};
use crate::sys::socket;

/// A socket for datagrams over UDP.
///
/// A datagram is sent as a whole, and received as a whole: what doesn't fit into the buffer is lost. It may get lost on
/// its way, come twice, or be overtaken. All methods take `&self`: tasks share a socket by reference or `Arc`.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::net::UdpSocket;
///
/// let server = UdpSocket::bind("127.0.0.1:0").await?;
/// let client = UdpSocket::bind("127.0.0.1:0").await?;
/// client.send_to(b"ping", server.local_addr()?).await?;
/// let mut buffer = [0; 1500];
/// let (length, from) = server.recv_from(&mut buffer).await?;
/// assert_eq!((&buffer[..length], from), (&b"ping"[..], client.local_addr()?));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// Options that have no method here can be set through the descriptor, for example by `socket2::SockRef`.
#[derive(Debug)]
pub struct UdpSocket {
    fd: AsyncFd<net::UdpSocket>,
}

impl UdpSocket {
    /// A socket at `addr`, at the first of its addresses that is free. Port 0 lets the system choose one.
    ///
    /// # Errors
    ///
    /// `addr` can't be looked up, as [`lookup_host`](super::lookup_host); no address can be bound (the error of the
    /// last); or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<UdpSocket> {
        let socket = addr::first(addr.question(), bind).await?;
        Ok(UdpSocket {
            fd: hide_error_if_doomed(AsyncFd::from_nonblocking(
                socket,
                Interest::READABLE | Interest::WRITABLE,
            ))
            .await?,
        })
    }

    /// Takes over a socket of `std`, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system has no room for the watch; or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(socket: net::UdpSocket) -> io::Result<UdpSocket> {
        Ok(UdpSocket {
            fd: AsyncFd::new(socket)?,
        })
    }

    /// Gives the socket to `std`, still in non-blocking mode.
    #[must_use]
    pub fn into_std(self) -> net::UdpSocket {
        self.fd.into_inner()
    }

    /// Sets the address that [`send`](Self::send) sends to, and from which alone datagrams are received: the first
    /// address of `addr` that works.
    ///
    /// What others have sent before is received all the same: [`recv_from`](Self::recv_from) tells it apart.
    ///
    /// # Errors
    ///
    /// `addr` can't be looked up; those of `connect(2)`.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, if `addr` isn't an address.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        addr::first(addr.question(), |address| self.fd.get_ref().connect(address)).await
    }

    /// Sends a datagram to the address that the socket is connected to; its length.
    ///
    /// # Errors
    ///
    /// It isn't connected; the datagram is too long; an earlier one was refused
    /// ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)); others of `send(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has sent nothing.
    pub fn send(&self, buffer: &[u8]) -> impl Future<Output = io::Result<usize>> {
        self.fd.write_with(move |socket| socket::send(socket, buffer))
    }

    /// Sends a datagram to `target`, to the first of its addresses; its length.
    ///
    /// # Errors
    ///
    /// `target` can't be looked up; the datagram is too long; an earlier one was refused; others of `sendto(2)`; the
    /// runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, if `target` isn't an address.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has sent nothing.
    pub async fn send_to<A: ToSocketAddrs>(&self, buffer: &[u8], target: A) -> io::Result<usize> {
        let question = target.question();
        // What is known is paid for when it is sent.
        let target = match question.first_known() {
            Some(target) => target,
            None => {
                let mut addresses = addr::resolve(question).await?;
                addresses.next().expect("a name has at least one address")
            }
        };
        self.fd
            .write_with(|socket| socket::send_to(socket, buffer, target))
            .await
    }

    /// Receives a datagram from the address that the socket is connected to; its length, or that of `buffer` if that is
    /// less.
    ///
    /// # Errors
    ///
    /// An earlier datagram was refused ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)); others of `recv(2)`;
    /// the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has received nothing.
    pub fn recv(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        self.fd.read_with(move |socket| socket::recv(socket, buffer))
    }

    /// Receives a datagram; its length, or that of `buffer` if that is less, and the sender's address.
    ///
    /// # Errors
    ///
    /// Those of `recvfrom(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has received nothing.
    pub fn recv_from(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> {
        self.fd.read_with(move |socket| socket::recv_from(socket, buffer))
    }

    /// [`recv`](Self::recv), and leaves the datagram to be received again.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub fn peek(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        self.fd.read_with(move |socket| socket::peek(socket, buffer))
    }

    /// [`recv_from`](Self::recv_from), and leaves the datagram to be received again.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](Self::recv_from).
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub fn peek_from(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<(usize, SocketAddr)>> {
        self.fd.read_with(move |socket| socket.peek_from(buffer))
    }

    /// Waits for a datagram, and tells who sent it; leaves it to be received.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](Self::recv_from).
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub fn peek_sender(&self) -> impl Future<Output = io::Result<SocketAddr>> {
        self.fd.read_with(sender)
    }

    /// Waits until there may be a datagram to receive, or an error.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub async fn readable(&self) -> io::Result<()> {
        self.fd.readable().await
    }

    /// Waits until there may be room to send.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub async fn writable(&self) -> io::Result<()> {
        self.fd.writable().await
    }

    ready_methods!();

    fn fd(&self) -> &AsyncFd<net::UdpSocket> {
        &self.fd
    }
}

/// Into buffers that grow.
#[cfg(feature = "bytes")]
impl UdpSocket {
    recv_buf_methods!();

    fn append(&self, socket: &net::UdpSocket, buffer: &mut (impl ::bytes::BufMut + ?Sized)) -> io::Result<usize> {
        buf::recv(socket, buffer)
    }

    fn append_from(
        &self,
        socket: &net::UdpSocket,
        buffer: &mut (impl ::bytes::BufMut + ?Sized),
    ) -> io::Result<(usize, SocketAddr)> {
        buf::recv_from(socket, buffer)
    }
}

/// Without a wait.
impl UdpSocket {
    /// [`send`](Self::send) without a wait.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room: [`writable`](Self::writable) waits for some then.
    /// Those of [`send`](Self::send).
    pub fn try_send(&self, buffer: &[u8]) -> io::Result<usize> {
        self.fd.try_write_with(|socket| socket::send(socket, buffer))
    }

    /// [`send_to`](Self::send_to) without a wait.
    ///
    /// # Errors
    ///
    /// As [`try_send`](Self::try_send) and [`send_to`](Self::send_to).
    pub fn try_send_to(&self, buffer: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.fd.try_write_with(|socket| socket::send_to(socket, buffer, target))
    }

    /// [`recv`](Self::recv) without a wait.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing: [`readable`](Self::readable) waits for some then.
    /// Those of [`recv`](Self::recv).
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd.try_read_with(|socket| socket::recv(socket, buffer))
    }

    /// [`recv_from`](Self::recv_from) without a wait.
    ///
    /// # Errors
    ///
    /// As [`try_recv`](Self::try_recv) and [`recv_from`](Self::recv_from).
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.fd.try_read_with(|socket| socket::recv_from(socket, buffer))
    }

    /// [`peek`](Self::peek) without a wait.
    ///
    /// # Errors
    ///
    /// As [`try_recv`](Self::try_recv).
    pub fn try_peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd.try_read_with(|socket| socket::peek(socket, buffer))
    }

    /// [`peek_from`](Self::peek_from) without a wait.
    ///
    /// # Errors
    ///
    /// As [`try_recv_from`](Self::try_recv_from).
    pub fn try_peek_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.fd.try_read_with(|socket| socket.peek_from(buffer))
    }

    /// [`peek_sender`](Self::peek_sender) without a wait.
    ///
    /// # Errors
    ///
    /// As [`try_recv_from`](Self::try_recv_from).
    pub fn try_peek_sender(&self) -> io::Result<SocketAddr> {
        self.fd.try_read_with(sender)
    }
}

/// For implementations of `Future`: of those who poll one side, only the last is woken.
impl UdpSocket {
    /// [`send`](Self::send) as a poll.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.fd.poll_write_with(cx, |socket| socket::send(socket, buffer))
    }

    /// [`send_to`](Self::send_to) as a poll.
    ///
    /// # Errors
    ///
    /// As [`send_to`](Self::send_to).
    pub fn poll_send_to(&self, cx: &mut Context<'_>, buffer: &[u8], target: SocketAddr) -> Poll<io::Result<usize>> {
        self.fd
            .poll_write_with(cx, |socket| socket::send_to(socket, buffer, target))
    }

    /// [`recv`](Self::recv) as a poll.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.fd.poll_read_with(cx, |socket| socket::recv(socket, buffer))
    }

    /// [`recv_from`](Self::recv_from) as a poll.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](Self::recv_from).
    pub fn poll_recv_from(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.fd.poll_read_with(cx, |socket| socket::recv_from(socket, buffer))
    }

    /// [`peek`](Self::peek) as a poll.
    ///
    /// # Errors
    ///
    /// As [`peek`](Self::peek).
    pub fn poll_peek(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.fd.poll_read_with(cx, |socket| socket::peek(socket, buffer))
    }

    /// [`peek_from`](Self::peek_from) as a poll.
    ///
    /// # Errors
    ///
    /// As [`peek_from`](Self::peek_from).
    pub fn poll_peek_from(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.fd.poll_read_with(cx, |socket| socket.peek_from(buffer))
    }

    /// [`peek_sender`](Self::peek_sender) as a poll.
    ///
    /// # Errors
    ///
    /// As [`peek_sender`](Self::peek_sender).
    pub fn poll_peek_sender(&self, cx: &mut Context<'_>) -> Poll<io::Result<SocketAddr>> {
        self.fd.poll_read_with(cx, sender)
    }

    /// [`readable`](Self::readable) as a poll.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_readable(cx)
    }

    /// [`writable`](Self::writable) as a poll.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_writable(cx)
    }
}

/// Methods that pass on to std's of the same name.
macro_rules! options {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {$(
        $(#[$doc])*
        pub fn $name(&self $(, $argument: $type)*) -> io::Result<$output> {
            self.fd.get_ref().$name($($argument),*)
        }
    )+};
}

/// Addresses and options; the errors are those of `getsockopt(2)` and `setsockopt(2)`.
#[expect(clippy::missing_errors_doc, reason = "it is the same for all")]
impl UdpSocket {
    options! {
        /// The address of this end.
        fn local_addr() -> SocketAddr;
        /// The address that it is connected to; [`NotConnected`](io::ErrorKind::NotConnected) if it isn't.
        fn peer_addr() -> SocketAddr;
        /// The error that is pending on the socket, which takes it away.
        fn take_error() -> Option<io::Error>;
        /// Whether it may send to broadcast addresses. Off at first.
        fn broadcast() -> bool;
        /// Lets it send to broadcast addresses.
        fn set_broadcast(on: bool) -> ();
        /// Whether what it sends to a group of IPv4 comes back to this machine. On at first.
        fn multicast_loop_v4() -> bool;
        /// Lets what it sends to a group of IPv4 come back to this machine.
        fn set_multicast_loop_v4(on: bool) -> ();
        /// The time to live of what it sends to a group of IPv4. 1 at first: it stays on the local network.
        fn multicast_ttl_v4() -> u32;
        /// Sets the time to live of what it sends to a group of IPv4.
        fn set_multicast_ttl_v4(ttl: u32) -> ();
        /// Whether what it sends to a group of IPv6 comes back to this machine. On at first.
        fn multicast_loop_v6() -> bool;
        /// Lets what it sends to a group of IPv6 come back to this machine.
        fn set_multicast_loop_v6(on: bool) -> ();
        /// Receives what is sent to the group, on the interface with that number; 0 lets the system choose one.
        fn join_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
        /// Undoes [`join_multicast_v6`](Self::join_multicast_v6).
        fn leave_multicast_v6(group: &Ipv6Addr, interface: u32) -> ();
    }

    /// The time to live (hop limit) of what it sends, but to groups.
    pub fn ttl(&self) -> io::Result<u32> {
        socket::ttl(&SockRef::from(self))
    }

    /// Sets the time to live (hop limit) of what it sends, but to groups: 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        socket::set_ttl(&SockRef::from(self), ttl)
    }

    /// Receives what is sent to the group, on the interface with that address; `0.0.0.0` lets the system choose one.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.fd.get_ref().join_multicast_v4(&group, &interface)
    }

    /// Undoes [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.fd.get_ref().leave_multicast_v4(&group, &interface)
    }

    /// The type of service that packets of IPv4 carry (`IP_TOS`). 0 at first.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd"
    ))]
    pub fn tos_v4(&self) -> io::Result<u32> {
        SockRef::from(self).tos_v4()
    }

    /// Sets the type of service that packets of IPv4 carry (`IP_TOS`): six bits for who queues them on the way, and two
    /// for congestion.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd"
    ))]
    pub fn set_tos_v4(&self, tos: u32) -> io::Result<()> {
        SockRef::from(self).set_tos_v4(tos)
    }

    /// The traffic class that packets of IPv6 carry (`IPV6_TCLASS`). 0 at first. Of a socket of IPv6 alone.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_os = "macos",
        target_os = "freebsd"
    ))]
    pub fn tclass_v6(&self) -> io::Result<u32> {
        SockRef::from(self).tclass_v6()
    }

    /// Sets the traffic class that packets of IPv6 carry (`IPV6_TCLASS`); see [`set_tos_v4`](Self::set_tos_v4). Of a
    /// socket of IPv6 alone.
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_os = "macos",
        target_os = "freebsd"
    ))]
    pub fn set_tclass_v6(&self, tclass: u32) -> io::Result<()> {
        SockRef::from(self).set_tclass_v6(tclass)
    }

    /// The name of the interface that [`bind_device`](Self::bind_device) has set. `None`: none.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn device(&self) -> io::Result<Option<Vec<u8>>> {
        SockRef::from(self).device()
    }

    /// Restricts the socket to the interface of this name, or lifts that; see
    /// [`TcpSocket::bind_device`](super::TcpSocket::bind_device).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn bind_device(&self, interface: Option<&[u8]>) -> io::Result<()> {
        SockRef::from(self).bind_device(interface)
    }
}

/// Who has sent the next datagram, of which nothing is copied.
fn sender(socket: &net::UdpSocket) -> io::Result<SocketAddr> {
    socket.peek_from(&mut []).map(|(_, from)| from)
}

fn bind(address: SocketAddr) -> io::Result<net::UdpSocket> {
    let socket = socket::new(Domain::for_address(address), Type::DGRAM)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

impl_as_fd!(fd: UdpSocket);
