//! Datagrams.

use std::borrow::Borrow;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::task::{Context, Poll};
use std::time::Duration;

use super::until_end;
use crate::coop;
use crate::io::{AsyncFd, Interest, Ready, impl_as_fd, stopped_unless_doomed};
#[cfg(feature = "bytes")]
use crate::net::buf::{self, recv_buf_methods};
use crate::net::stream::ready_methods;
use crate::primitives::{AtomicBool, Ordering};
use crate::sys::socket;
use crate::time::{sleep, timeout};

/// After this time a datagram that found its receiver full is offered again, twice as late each time, up to 64 times
/// that.
const RETRY_MIN: Duration = Duration::from_millis(1);

/// A socket for datagrams of the Unix domain: they arrive, once each and in order.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::net::UnixDatagram;
///
/// let (left, right) = UnixDatagram::pair()?;
/// left.send(b"one").await?;
/// left.send(b"two").await?;
/// let mut buffer = [0; 16];
/// for expected in [b"one", b"two"] {
///     let length = right.recv(&mut buffer).await?;
///     assert_eq!(&buffer[..length], expected);
/// }
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct UnixDatagram {
    fd: AsyncFd<net::UnixDatagram>,
    /// Receiving was shut down by this object. The system doesn't say so to a socket of this kind that doesn't block,
    /// but answers that there is nothing yet. Set before the call that shuts down, whose event makes those who wait
    /// look here.
    ended: AtomicBool,
}

impl UnixDatagram {
    /// A socket that others send to at `path`, which is made, and stays when the socket is dropped.
    ///
    /// On Linux a `path` that begins with a zero byte names no file, here and in the other methods: it is abstract, and
    /// goes with the socket.
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
    pub fn bind<P: AsRef<Path>>(path: P) -> io::Result<UnixDatagram> {
        Self::bind_addr(&socket::unix_named(path.as_ref())?)
    }

    /// A socket that others send to at `address`. One without a name makes the system choose an abstract one (Linux),
    /// for a client that is to be answered and leaves no file behind.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use quadrille::net::UnixDatagram;
    /// use std::os::unix::net::SocketAddr;
    ///
    /// let server = UnixDatagram::bind_addr(&SocketAddr::from_pathname("")?)?;
    /// let client = UnixDatagram::bind_addr(&SocketAddr::from_pathname("")?)?;
    /// client.send_to_addr(b"ping", &server.local_addr()?).await?;
    /// let mut buffer = [0; 16];
    /// let (length, sender) = server.recv_from(&mut buffer).await?;
    /// server.send_to_addr(&buffer[..length], &sender).await?;
    /// assert_eq!(client.recv(&mut buffer).await?, 4);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind), the length apart.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn bind_addr(address: &SocketAddr) -> io::Result<UnixDatagram> {
        Self::from_std(net::UnixDatagram::bind_addr(address)?)
    }

    /// A socket without an address: it sends, and nobody can answer.
    ///
    /// # Errors
    ///
    /// The process has no descriptors left, or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn unbound() -> io::Result<UnixDatagram> {
        Self::from_std(net::UnixDatagram::unbound()?)
    }

    /// Two sockets that are connected with each other.
    ///
    /// # Errors
    ///
    /// As [`unbound`](Self::unbound).
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn pair() -> io::Result<(UnixDatagram, UnixDatagram)> {
        let (left, right) = net::UnixDatagram::pair()?;
        Ok((Self::from_std(left)?, Self::from_std(right)?))
    }

    /// Takes over a socket of `std`, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// As [`unbound`](Self::unbound).
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(socket: net::UnixDatagram) -> io::Result<UnixDatagram> {
        Ok(UnixDatagram {
            fd: AsyncFd::new(socket)?,
            ended: AtomicBool::new(false),
        })
    }

    /// Gives the socket to `std`, still in non-blocking mode.
    #[must_use]
    pub fn into_std(self) -> net::UnixDatagram {
        self.fd.into_inner()
    }

    /// Sets where [`send`](Self::send) sends to, and from where alone datagrams are received.
    ///
    /// What others have sent before is received all the same: [`recv_from`](Self::recv_from) tells it apart. A socket
    /// that was connected to another loses what it has not received (Linux).
    ///
    /// # Errors
    ///
    /// Nobody is there; others of `connect(2)`.
    pub fn connect<P: AsRef<Path>>(&self, path: P) -> io::Result<()> {
        self.connect_addr(&socket::unix_named(path.as_ref())?)
    }

    /// [`connect`](Self::connect) by an address, say that of a sender.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect); `address` has no name ([`InvalidInput`](io::ErrorKind::InvalidInput)).
    pub fn connect_addr(&self, address: &SocketAddr) -> io::Result<()> {
        self.fd.get_ref().connect_addr(address)
    }

    /// Sends a datagram to where the socket is connected to; its length. Waits while the receiver has no room.
    ///
    /// # Errors
    ///
    /// It isn't connected; the receiver is gone ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)); the datagram
    /// is too long; others of `send(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has sent nothing.
    pub fn send(&self, buffer: &[u8]) -> impl Future<Output = io::Result<usize>> {
        self.fd.write_with(move |socket| socket::send(socket, buffer))
    }

    /// Sends a datagram to the socket at `path`; its length. Waits while the receiver has no room.
    ///
    /// No event tells that a receiver to which this socket isn't connected has taken what others have sent. So it looks
    /// again, after 1 ms at first and 64 ms at last.
    ///
    /// # Errors
    ///
    /// Nobody is there; the datagram is too long; others of `sendto(2)`; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, if it has to wait: no timer runs there.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has sent nothing.
    pub async fn send_to<P: AsRef<Path>>(&self, buffer: &[u8], path: P) -> io::Result<usize> {
        self.send_somewhere(buffer, || socket::unix_named(path.as_ref())).await
    }

    /// [`send_to`](Self::send_to) by an address: to the sender of what [`recv_from`](Self::recv_from) has received, who
    /// may have no path.
    ///
    /// # Errors
    ///
    /// As [`send_to`](Self::send_to); `address` has no name ([`InvalidInput`](io::ErrorKind::InvalidInput)), so that
    /// nobody can answer.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, if it has to wait: no timer runs there.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has sent nothing.
    pub async fn send_to_addr(&self, buffer: &[u8], address: &SocketAddr) -> io::Result<usize> {
        self.send_somewhere(buffer, || Ok(address)).await
    }

    async fn send_somewhere<A: Borrow<SocketAddr>>(
        &self,
        buffer: &[u8],
        address: impl FnOnce() -> io::Result<A>,
    ) -> io::Result<usize> {
        // Before anything is sent, so that a call that is dropped here has sent nothing; and before anything is
        // refused.
        coop::consume_budget().await;
        let address = address()?;
        for doublings in 0_u32.. {
            let (outcome, has_room) = self.offer(buffer, address.borrow());
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let retry = RETRY_MIN * (1 << doublings.min(6));
                    if has_room {
                        // The receiver has none. Each attempt makes an event of this socket's own, which says nothing.
                        sleep(retry).await;
                        if self.fd.is_over() {
                            return stopped_unless_doomed().await;
                        }
                    } else if let Ok(outcome) = timeout(retry, self.writable()).await {
                        outcome?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
        unreachable!("it is tried more often than that in no time of the world")
    }

    /// Receives a datagram; its length, or that of `buffer` if that is less. Zero is the length of an empty one, or
    /// says that receiving was shut down.
    ///
    /// # Errors
    ///
    /// Those of `recv(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a call that was dropped has received nothing.
    pub fn recv(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
        self.fd
            .read_with(move |socket| self.receive(|| socket::recv(socket, buffer), || Ok(0)))
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
        self.fd
            .read_with(move |socket| self.receive(|| socket.recv_from(buffer), nothing_from_nobody))
    }

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
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room; [`writable`](Self::writable) doesn't always tell
    /// when there is, [`send_to`](Self::send_to) finds out. Those of [`send_to`](Self::send_to).
    pub fn try_send_to<P: AsRef<Path>>(&self, buffer: &[u8], path: P) -> io::Result<usize> {
        self.try_send_to_addr(buffer, &socket::unix_named(path.as_ref())?)
    }

    /// [`send_to_addr`](Self::send_to_addr) without a wait.
    ///
    /// # Errors
    ///
    /// As [`try_send_to`](Self::try_send_to); those of [`send_to_addr`](Self::send_to_addr).
    pub fn try_send_to_addr(&self, buffer: &[u8], address: &SocketAddr) -> io::Result<usize> {
        self.offer(buffer, address).0
    }

    /// One attempt to send; after `WouldBlock` also whether this socket has room, so that it is the receiver who has
    /// none.
    fn offer(&self, buffer: &[u8], address: &SocketAddr) -> (io::Result<usize>, bool) {
        self.fd
            .try_write_elsewhere(|socket| socket.send_to_addr(buffer, address))
    }

    /// [`recv`](Self::recv) without a wait.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing: [`readable`](Self::readable) waits for some then.
    /// Those of [`recv`](Self::recv).
    pub fn try_recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fd
            .try_read_with(|socket| self.receive(|| socket::recv(socket, buffer), || Ok(0)))
    }

    /// [`recv_from`](Self::recv_from) without a wait.
    ///
    /// # Errors
    ///
    /// As [`try_recv`](Self::try_recv).
    pub fn try_recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.fd
            .try_read_with(|socket| self.receive(|| socket.recv_from(buffer), nothing_from_nobody))
    }

    /// [`send`](Self::send) for implementations of `Future`: of those who poll, only the last is woken.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.fd.poll_write_with(cx, |socket| socket::send(socket, buffer))
    }

    /// [`recv`](Self::recv) for implementations of `Future`: of those who poll, only the last is woken.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.fd
            .poll_read_with(cx, |socket| self.receive(|| socket::recv(socket, buffer), || Ok(0)))
    }

    /// [`recv_from`](Self::recv_from) for implementations of `Future`: of those who poll, only the last is woken.
    ///
    /// # Errors
    ///
    /// As [`recv_from`](Self::recv_from).
    pub fn poll_recv_from(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.fd.poll_read_with(cx, |socket| {
            self.receive(|| socket.recv_from(buffer), nothing_from_nobody)
        })
    }

    /// [`readable`](Self::readable) for implementations of `Future`: of those who poll, only the last is woken.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_readable(cx)
    }

    /// [`writable`](Self::writable) for implementations of `Future`: of those who poll, only the last is woken.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fd.poll_writable(cx)
    }

    /// Waits until there may be a datagram to receive.
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

    /// Waits until there may be room to send, at the receiver too if the socket is connected.
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

    /// Ends receiving, sending, or both, for all who use the socket: what has arrived before can still be received.
    ///
    /// Who waits here is told. Who waits for room by another object that has the same socket may not be: Linux says
    /// nothing of it while the receiver has none.
    ///
    /// # Errors
    ///
    /// Those of `shutdown(2)`.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        if how == Shutdown::Write {
            self.fd.get_ref().shutdown(how)?;
        } else {
            // Ordering: Release (E); whoever sees the event of what comes next sees this.
            let before = self.ended.swap(true, Ordering::Release);
            let outcome = self.fd.get_ref().shutdown(how);
            if outcome.is_err() && !before {
                // Ordering: Relaxed; nothing has ended, and nothing is read on the strength of this.
                self.ended.store(false, Ordering::Relaxed);
            }
            outcome?;
        }
        if how != Shutdown::Read {
            self.fd.tell_write_ended();
        }
        Ok(())
    }

    /// What `receive` answers, or `end` if there is nothing and won't be.
    fn receive<R>(&self, receive: impl FnMut() -> io::Result<R>, end: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        until_end(receive, || self.has_ended(), end)
    }

    /// Receiving was shut down, by this object or, as an event has told, by another that has the same socket.
    fn has_ended(&self) -> bool {
        // Ordering: Acquire; pairs with E.
        self.ended.load(Ordering::Acquire) || self.fd.has_read_ended()
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// The address that it is connected to.
    ///
    /// # Errors
    ///
    /// It isn't connected; others of `getpeername(2)`.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().peer_addr()
    }

    /// The error that is pending on the socket, which takes it away.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.fd.get_ref().take_error()
    }

    fn fd(&self) -> &AsyncFd<net::UnixDatagram> {
        &self.fd
    }
}

/// Into buffers that grow.
#[cfg(feature = "bytes")]
impl UnixDatagram {
    recv_buf_methods!();

    fn append(&self, socket: &net::UnixDatagram, buffer: &mut (impl ::bytes::BufMut + ?Sized)) -> io::Result<usize> {
        self.receive(|| buf::recv(socket, buffer), || Ok(0))
    }

    fn append_from(
        &self,
        socket: &net::UnixDatagram,
        buffer: &mut (impl ::bytes::BufMut + ?Sized),
    ) -> io::Result<(usize, SocketAddr)> {
        self.receive(|| buf::recv_from_unix(socket, buffer), nothing_from_nobody)
    }
}

/// What a blocking socket receives after its end.
fn nothing_from_nobody() -> io::Result<(usize, SocketAddr)> {
    Ok((0, socket::unix_unnamed()?))
}

impl_as_fd!(fd: UnixDatagram);
