//! Connections.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{self, Shutdown, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

use super::TcpKeepalive;
use super::split::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use crate::coop;
use crate::io::{AsyncFd, Interest, Progress, Ready, hide_error_if_doomed, impl_as_fd};
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::connection::connection_methods;
use crate::net::stream::{self, Sink, Source, impl_read, impl_write, read_methods, ready_methods, write_methods};
use crate::reactor::Side;
use crate::runtime::Handle;
use crate::sys::socket;

/// A connection over TCP.
///
/// All methods take `&self`: one task may read while another writes. A message that is small and complete should leave
/// at once: see [`set_nodelay`](Self::set_nodelay).
///
/// ```no_run
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::net::TcpStream;
///
/// let stream = TcpStream::connect("example.org:80").await?;
/// stream.write_all(b"HEAD / HTTP/1.0\r\n\r\n").await?;
/// let mut buffer = [0; 4096];
/// let count = stream.read(&mut buffer).await?;
/// println!("{}", String::from_utf8_lossy(&buffer[..count]));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// The same from a user-level thread:
///
/// ```no_run
/// # quadrille::Runtime::new().unwrap().spawn_thread(|| {
/// use quadrille::Wait as _;
/// use quadrille::net::TcpStream;
///
/// let stream = TcpStream::connect("example.org:80").wait()?;
/// stream.write_all(b"HEAD / HTTP/1.0\r\n\r\n").wait()?;
/// # std::io::Result::Ok(())
/// # }).join().unwrap().unwrap();
/// ```
#[derive(Debug)]
pub struct TcpStream {
    fd: AsyncFd<net::TcpStream>,
}

impl TcpStream {
    /// Connects to `addr`: tries its addresses one after the other.
    ///
    /// Where nobody listens at a port of this machine, the system may choose that port for the new socket, which is
    /// then connected with itself. That counts as refused.
    ///
    /// # Errors
    ///
    /// `addr` can't be looked up, as [`lookup_host`](crate::net::lookup_host); no address can be connected to (the
    /// error of the last): [`ConnectionRefused`](io::ErrorKind::ConnectionRefused),
    /// [`TimedOut`](io::ErrorKind::TimedOut) after the system's time, which is minutes, and others of `connect(2)`; or
    /// the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict: a connection that was begun is closed.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<TcpStream> {
        let question = addr.question();
        let mut last = None;
        for address in addr::resolve(question).await? {
            match Self::connect_to(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(error),
            }
        }
        Err(last.expect("a name has at least one address"))
    }

    async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
        let socket = socket::new(Domain::for_address(address), Type::STREAM)?;
        Self::connect_unbound(socket, address).await
    }

    /// Connects a socket that doesn't block, and whose port the system chooses: to another than itself.
    pub(super) async fn connect_unbound(socket: Socket, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = Self::connect_socket(socket, address).await?;
        if stream.is_itself(address) {
            // Nobody can listen there while this lasts; closed in the usual way it would last for a minute. Refused it
            // is either way.
            _ = stream.set_zero_linger();
            return Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("nobody listens at {address}: the connection was one of the socket with itself"),
            ));
        }
        Ok(stream)
    }

    /// Whether both ends of what was connected to `address` are the same. Of a connection that is broken already the
    /// first read tells.
    fn is_itself(&self, address: SocketAddr) -> bool {
        // The other end need not be at `address`: `0.0.0.0` stands for this machine. Mostly it isn't asked for.
        self.local_addr()
            .is_ok_and(|local| local.port() == address.port() && self.peer_addr().is_ok_and(|peer| peer == local))
    }

    /// Connects a socket that doesn't block.
    pub(super) async fn connect_socket(socket: Socket, address: SocketAddr) -> io::Result<TcpStream> {
        // Paid for whatever comes: who never has to wait gives way all the same.
        coop::consume_budget().await;
        socket::connect(&socket, &address.into())?;
        let stream = Self {
            fd: hide_error_if_doomed(AsyncFd::connecting(socket.into())).await?,
        };
        if !is_connected(stream.fd.get_ref())? {
            stream.fd.writable().await?;
            // It is decided. Neither made nor refused is what connects with the first write (`TCP_FASTOPEN_CONNECT`),
            // for which there is room.
            is_connected(stream.fd.get_ref())?;
        }
        Ok(stream)
    }

    connection_methods!(TcpStream);

    /// The address of the other end.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](io::ErrorKind::NotConnected) once the connection is broken; others of `getpeername(2)`.
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
}

/// Options.
impl TcpStream {
    /// Whether small messages leave at once (`TCP_NODELAY`). Off when a connection is made.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.fd.get_ref().nodelay()
    }

    /// Lets small messages leave at once (`TCP_NODELAY`), rather than wait until what was sent before is acknowledged.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.fd.get_ref().set_nodelay(nodelay)
    }

    /// Whether what comes is acknowledged at once (`TCP_QUICKACK`, Linux), for the moment.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn quickack(&self) -> io::Result<bool> {
        self.socket().tcp_quickack()
    }

    /// Lets what comes be acknowledged at once (`TCP_QUICKACK`, Linux), rather than with what is sent next. It doesn't
    /// last: the system goes by its own judgement again after a while, so who wants it sets it again, mostly after each
    /// read.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn set_quickack(&self, quickack: bool) -> io::Result<()> {
        self.socket().set_tcp_quickack(quickack)
    }

    /// Whether TCP asks for a sign of life after a long silence. Off when a connection is made.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn keepalive(&self) -> io::Result<bool> {
        self.socket().keepalive()
    }

    /// Lets TCP ask for a sign of life after a long silence, or not.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_keepalive(&self, keepalive: bool) -> io::Result<()> {
        self.socket().set_keepalive(keepalive)
    }

    /// Lets TCP ask for a sign of life, when and as often as `keepalive` says.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`: a time is zero or too long.
    pub fn set_tcp_keepalive(&self, keepalive: &TcpKeepalive) -> io::Result<()> {
        self.socket().set_tcp_keepalive(keepalive.as_socket2())
    }

    /// What [`set_linger`](Self::set_linger) has set.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        self.socket().linger()
    }

    /// What happens to unsent data when the socket is closed. `None`, as a connection begins: the system goes on to
    /// send it. Zero: it is thrown away, and the other end sees a reset. Any other duration, rounded up to whole
    /// seconds: closing, and so dropping the stream, **blocks** until it is sent or the time has passed, and with it a
    /// worker.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        socket::set_linger(&self.socket(), linger)
    }

    /// Throws away what isn't sent when the socket is closed, and resets the connection:
    /// [`set_linger`](Self::set_linger) with zero.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// The time to live (hop limit) of what it sends.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn ttl(&self) -> io::Result<u32> {
        socket::ttl(&self.socket())
    }

    /// Sets the time to live (hop limit) of what it sends.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`: the system takes 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        socket::set_ttl(&self.socket(), ttl)
    }

    fn socket(&self) -> SockRef<'_> {
        SockRef::from(self.fd.get_ref())
    }
}

/// Whether the connection is made; an error if it is refused.
fn is_connected(socket: &net::TcpStream) -> io::Result<bool> {
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        // If it is decided only now, that makes an event, which the caller waits for.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => socket.take_error()?.map_or(Ok(false), Err),
        Err(error) => Err(error),
    }
}

impl Source for net::TcpStream {
    fn read(&self, buffer: &mut [u8]) -> io::Result<Progress<usize>> {
        let wanted = buffer.len();
        socket::recv(self, buffer).map(|count| Progress::of(count, wanted))
    }

    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Progress<usize>> {
        stream::read_vectored(self, buffers)
    }

    fn read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Progress<usize>> {
        let wanted = buffer.len();
        socket::recv_uninit(self, buffer).map(|count| Progress::of(count, wanted))
    }
}

impl Sink for net::TcpStream {
    fn write(&self, buffer: &[u8]) -> io::Result<Progress<usize>> {
        socket::send(self, buffer).map(|count| Progress::of(count, buffer.len()))
    }

    fn write_several(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_vectored(self, buffers)
    }
}

impl_read!(TcpStream, &TcpStream);
impl_write!(TcpStream, &TcpStream);

impl_as_fd!(fd: TcpStream);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Runtime;
    use crate::net::{TcpListener, TcpSocket};

    #[test]
    fn who_is_connected_to_itself_is_told_from_others() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = socket.local_addr().unwrap();
            let itself = socket.connect(address).await.unwrap();
            assert!(itself.is_itself(address));
            let anywhere = SocketAddr::from(([0, 0, 0, 0], address.port()));
            assert!(itself.is_itself(anywhere));
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let other = TcpStream::connect(address).await.unwrap();
            assert!(!other.is_itself(address));
            assert!(!other.is_itself(other.local_addr().unwrap()));
        });
    }

    /// Of a socket that was bound the system's choice of a port is sure.
    #[test]
    fn who_is_connected_to_itself_is_refused_and_keeps_nobody_away() {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        runtime.block_on(async {
            let bound = |address: SocketAddr| {
                let socket = socket::new(Domain::IPV4, Type::STREAM).unwrap();
                socket.bind(&address.into()).map(|()| socket)
            };
            let socket = bound("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = socket.local_addr().unwrap().as_socket().unwrap();
            let error = TcpStream::connect_unbound(socket, address).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            bound(address).unwrap();
        });
    }
}
