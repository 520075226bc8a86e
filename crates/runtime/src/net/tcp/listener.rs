//! Listening for connections.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use socket2::{Domain, SockRef};

use super::{TcpSocket, TcpStream};
use crate::io::{AsyncFd, Interest, Progress, hide_error_if_doomed, hide_poll_error_if_doomed, impl_as_fd};
use crate::net::addr::{self, ToSocketAddrs};
use crate::net::incoming::incoming;
use crate::reactor::Side;
use crate::runtime::Handle;
use crate::sys::socket;

/// How many connections may wait to be accepted, unless somebody says otherwise. The system may have a lower limit.
const BACKLOG: u32 = 1024;

/// Listens for connections over TCP.
///
/// Any number of tasks and threads may accept from one listener: each connection goes to one of them.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let client = TcpStream::connect(listener.local_addr()?).await?;
/// let (server, address) = listener.accept().await?;
/// assert_eq!(address, client.local_addr()?);
/// server.write_all(b"hello").await?;
/// let mut buffer = [0; 5];
/// client.read_exact(&mut buffer).await?;
/// assert_eq!(&buffer, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct TcpListener {
    fd: AsyncFd<net::TcpListener>,
    /// Where it is watched, and what it accepts where the caller is in no runtime.
    handle: Handle,
}

impl TcpListener {
    /// Listens at `addr`, at the first of its addresses where that is possible. Port 0 lets the system choose one:
    /// [`local_addr`](Self::local_addr) tells which.
    ///
    /// A port that was used shortly before may be used again (`SO_REUSEADDR`). Up to 1024 connections wait to be
    /// accepted.
    ///
    /// # Errors
    ///
    /// `addr` can't be looked up, as [`lookup_host`](crate::net::lookup_host); no address can be listened at (the error
    /// of the last); or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
        let listener = addr::first(addr.question(), bind).await?;
        hide_error_if_doomed(TcpListener::from_nonblocking(listener)).await
    }

    /// Listens at `addr` with `count` sockets (`SO_REUSEPORT`): each has a queue of its own, and the system deals
    /// connections out to them by their addresses. Port 0 lets the system choose one for all.
    ///
    /// One socket that many tasks accept from does for most servers. Where the queue itself is in the way, because
    /// connections are many and short, give each last-level cache a listener, and accept from it on a worker behind
    /// that cache: who is watched, a listener and what it accepts, is watched behind the cache of the worker that makes
    /// it, and its events are brought by the workers there.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use quadrille::net::{Served, Server, TcpListener, TcpStream};
    ///
    /// async fn serve(listener: std::net::TcpListener) -> std::io::Result<Served> {
    ///     // Watched again, behind the cache of this worker.
    ///     let server = Server::new(TcpListener::from_std(listener)?);
    ///     server.serve(async |stream: TcpStream, _| stream.write_all(b"hello").await).await
    /// }
    ///
    /// let handle = quadrille::Handle::current();
    /// let mut caches = handle.workers_by_llc();
    /// caches.retain(|workers| !workers.is_empty());
    /// let listeners = TcpListener::bind_several("127.0.0.1:0", caches.len()).await?;
    /// for (listener, workers) in listeners.into_iter().zip(caches) {
    ///     handle.spawn_pinned_on(workers[0], move || serve(listener.into_std()));
    /// }
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// What the system goes by is a hash of the addresses, not the cache whose CPU gets the packets, unless
    /// `set_incoming_cpu` (Linux) says otherwise. A connection stays with the queue that it was dealt to, also while
    /// nobody accepts there, and is lost when that listener is dropped. A task that is pinned waits while its worker is
    /// held up, and so does its queue.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind); somebody else is bound to the address who hasn't said the same.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    ///
    /// # Cancel safety
    ///
    /// Strict.
    pub async fn bind_several<A: ToSocketAddrs>(addr: A, count: usize) -> io::Result<Vec<TcpListener>> {
        let listeners = addr::first(addr.question(), |address| bind_several(address, count)).await?;
        hide_error_if_doomed(listeners.into_iter().map(TcpListener::from_nonblocking).collect()).await
    }

    /// Takes over a socket of `std`, which must listen, and sets it to non-blocking mode. It is watched behind the
    /// cache of the worker that calls this, if it is one.
    ///
    /// # Errors
    ///
    /// The system has no room for the watch; or the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(listener: net::TcpListener) -> io::Result<TcpListener> {
        Ok(TcpListener {
            fd: AsyncFd::reader(listener)?,
            handle: Handle::current(),
        })
    }

    /// The same for what is in non-blocking mode already.
    #[track_caller]
    pub(super) fn from_nonblocking(listener: net::TcpListener) -> io::Result<TcpListener> {
        Ok(TcpListener {
            fd: AsyncFd::from_nonblocking(listener, Interest::READABLE)?,
            handle: Handle::current(),
        })
    }

    /// Gives the socket to `std`, still in non-blocking mode.
    #[must_use]
    pub fn into_std(self) -> net::TcpListener {
        self.fd.into_inner()
    }

    /// Takes the next connection, and tells who made it. One that is given up before it is taken is passed over.
    ///
    /// The connection belongs to the current runtime, or to that of the listener where there is none: any thread may
    /// call [`wait`](crate::Wait::wait) on this.
    ///
    /// # Errors
    ///
    /// The process or the system has no descriptor left (`EMFILE`, `ENFILE`) or no memory; the network has failed in a
    /// way that concerns one connection (see accept(2)); or the runtime shuts down. But for the last the listener stays
    /// as it was, and the next call may succeed. A server that has no descriptor left answers at once with the same
    /// error again, so it should wait a little, or for one of its connections to end, as
    /// [`Server`](crate::net::Server) does.
    ///
    /// # Cancel safety
    ///
    /// Strict: no connection is taken by a call that is dropped, but for one that meets the end of its task's runtime.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, address) = self.fd.transfer(Side::Read, accept).await?;
        let stream = hide_error_if_doomed(TcpStream::accepted(stream, &self.handle)).await?;
        Ok((stream, address))
    }

    /// [`accept`](Self::accept) for implementations of `Future` and `Stream`: of those who poll, only the last is
    /// woken.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let accepted = self.fd.poll_transfer(Side::Read, cx, accept);
        let accepted = accepted.map(|accepted| {
            let (stream, address) = accepted?;
            Ok((TcpStream::accepted(stream, &self.handle)?, address))
        });
        hide_poll_error_if_doomed(accepted, cx)
    }

    /// The address at which it listens.
    ///
    /// # Errors
    ///
    /// Those of `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.fd.get_ref().local_addr()
    }

    /// Whether connections that are made to it begin with small messages leaving at once; see
    /// [`TcpStream::set_nodelay`].
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn nodelay(&self) -> io::Result<bool> {
        SockRef::from(self).tcp_nodelay()
    }

    /// Lets small messages leave at once (`TCP_NODELAY`) over connections that are made to it from now on, which costs
    /// them no system call. Those that wait in its queue already stay as they are. See [`TcpStream::set_nodelay`].
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use quadrille::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0").await?;
    /// listener.set_nodelay(true)?;
    /// let client = TcpStream::connect(listener.local_addr()?).await?;
    /// let (server, _) = listener.accept().await?;
    /// assert!(server.nodelay()? && !client.nodelay()?);
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        SockRef::from(self).set_tcp_nodelay(nodelay)
    }

    /// The time to live (hop limit) of what it sends.
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    pub fn ttl(&self) -> io::Result<u32> {
        socket::ttl(&SockRef::from(self))
    }

    /// Sets the time to live (hop limit) of what it sends; connections that it accepts begin with it.
    ///
    /// # Errors
    ///
    /// Those of `setsockopt(2)`: the system takes 1 to 255.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        socket::set_ttl(&SockRef::from(self), ttl)
    }

    /// Asks for the connections whose packets come in on CPU `cpu`, as the system numbers them (`SO_INCOMING_CPU`,
    /// Linux): of several listeners at one address ([`bind_several`](Self::bind_several)) the system deals such a
    /// connection to one that has asked for it, and all others by their hash.
    ///
    /// It is a wish for one CPU, and so of use with a listener for each worker that is pinned to its own
    /// ([`Pinning`](crate::Pinning)), and where the network card spreads connections over those CPUs, or clients are on
    /// this machine. With a listener a cache it says no more than which of the cache's CPUs is preferred. Kernels
    /// before 6.2 may go by the hash alone. Which listener is asked first says nothing of where the connection is
    /// served: that is up to who accepts.
    ///
    /// ```
    /// # quadrille::Runtime::new().unwrap().block_on(async {
    /// use quadrille::net::TcpListener;
    ///
    /// let listeners = TcpListener::bind_several("127.0.0.1:0", 2).await?;
    /// for (cpu, listener) in listeners.iter().enumerate() {
    ///     listener.set_incoming_cpu(cpu)?;
    ///     assert_eq!(listener.incoming_cpu()?, Some(cpu));
    /// }
    /// # std::io::Result::Ok(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// `cpu` is more than a number of a CPU can be ([`InvalidInput`](io::ErrorKind::InvalidInput)); those of
    /// `setsockopt(2)`. That there is no such CPU is none.
    #[cfg(target_os = "linux")]
    pub fn set_incoming_cpu(&self, cpu: usize) -> io::Result<()> {
        if i32::try_from(cpu).is_err() {
            let message = format!("the number of a CPU is {cpu}, expected 0 to {}", i32::MAX);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        SockRef::from(self).set_cpu_affinity(cpu)
    }

    /// Which CPU's connections it [asks for](Self::set_incoming_cpu), if it does (Linux).
    ///
    /// # Errors
    ///
    /// Those of `getsockopt(2)`.
    #[cfg(target_os = "linux")]
    pub fn incoming_cpu(&self) -> io::Result<Option<usize>> {
        let cpu = SockRef::from(self).cpu_affinity()?;
        // Minus one, as the crate gives it: none.
        Ok(Some(cpu).filter(|cpu| i32::try_from(*cpu).is_ok()))
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

/// Listens at one address.
fn bind(address: SocketAddr) -> io::Result<net::TcpListener> {
    bind_socket(TcpSocket::new(Domain::for_address(address))?, address)
}

/// Listens at one address several times.
fn bind_several(mut address: SocketAddr, count: usize) -> io::Result<Vec<net::TcpListener>> {
    // It grows with the sockets that there are: a count that no process has descriptors for is the system's error.
    let mut listeners = Vec::new();
    for _ in 0..count {
        let socket = TcpSocket::new(Domain::for_address(address))?;
        socket.set_reuseport(true)?;
        let listener = bind_socket(socket, address)?;
        // Port 0 has become another.
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

fn bind_socket(socket: TcpSocket, address: SocketAddr) -> io::Result<net::TcpListener> {
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.into_listening(BACKLOG)
}

/// Takes one connection, which is in non-blocking mode.
fn accept(listener: &net::TcpListener) -> io::Result<Progress<(net::TcpStream, SocketAddr)>> {
    let (stream, address) = socket::accept(listener.as_fd())?;
    Ok(Progress::only((stream.into(), address)))
}

impl_as_fd!(fd: TcpListener);

incoming!(TcpListener, TcpStream);
