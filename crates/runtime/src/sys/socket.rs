//! Sockets that never block: made, connected, accepted, read and written (by rustix, as `fd` says why).

use std::ffi::OsStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::linux::net::SocketAddrExt;
use std::os::unix;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny};
#[cfg(feature = "bytes")]
use socket2::SockRef;
use socket2::{Domain, SockAddr, SockAddrStorage, Socket, Type};

use super::fd::BUFFERS_MAX;

/// For who writes to a stream that nobody reads: an error is enough. Apple's systems have an option of the socket for
/// it, which std sets.
#[cfg(not(target_vendor = "apple"))]
const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const NO_SIGNAL: SendFlags = SendFlags::empty();

/// A new socket that doesn't block and is closed on `exec`.
pub(crate) fn new(domain: Domain, kind: Type) -> io::Result<Socket> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    return Socket::new(domain, kind.nonblocking(), None);
    #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
    {
        let socket = Socket::new(domain, kind, None)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}

/// Begins to connect. `Ok` says that it goes on, or is done; the socket will be writable when that is decided.
pub(crate) fn connect(socket: &Socket, address: &SockAddr) -> io::Result<()> {
    match socket.connect(address) {
        // Interrupted: it goes on, and to call again would only answer that it does.
        Err(error) if [Some(Errno::INPROGRESS), Some(Errno::INTR)].contains(&Errno::from_io_error(&error)) => Ok(()),
        outcome => outcome,
    }
}

/// Whether an error of `accept` says that the socket does not listen: no later call will do better.
pub(crate) fn is_no_listener(error: &io::Error) -> bool {
    const NEVER: [Errno; 3] = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK];
    Errno::from_io_error(error).is_some_and(|errno| NEVER.contains(&errno))
}

/// Whether an error of `accept` is of one connection, which has gone from the queue: those of the network that
/// accept(2) says to pass over. Not `ENONET`, which other systems lack, nor `EOPNOTSUPP` and `EPERM`, which may be of
/// the listener, and come again at once.
pub(crate) fn is_of_one_connection(error: &io::Error) -> bool {
    const PASSED_OVER: [Errno; 6] = [
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::NETDOWN,
        Errno::NETUNREACH,
    ];
    Errno::from_io_error(error).is_some_and(|errno| PASSED_OVER.contains(&errno))
}

/// Takes a connection over TCP from the queue of `listener`; it doesn't block, and is closed on `exec`.
pub(crate) fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SocketAddr)> {
    let (socket, address) = accept_any(listener)?;
    let address = address.as_socket().ok_or(Errno::AFNOSUPPORT)?;
    Ok((socket, address))
}

/// The same of the Unix domain.
pub(crate) fn accept_unix(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, unix::net::SocketAddr)> {
    let (socket, address) = accept_any(listener)?;
    let address = unix_from_any(&address).or_else(|_| unix_unnamed())?;
    Ok((socket, address))
}

/// The address in std's form, which takes no path of the greatest length: the system does.
fn unix_from_any(address: &SockAddr) -> io::Result<unix::net::SocketAddr> {
    if let Some(path) = address.as_pathname() {
        return unix::net::SocketAddr::from_pathname(path);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(name) = address.as_abstract_namespace() {
        return unix::net::SocketAddr::from_abstract_name(name);
    }
    unix_unnamed()
}

/// The address of who has none.
pub(crate) fn unix_unnamed() -> io::Result<unix::net::SocketAddr> {
    unix::net::SocketAddr::from_pathname("")
}

/// The address that `path` names. On Linux one that begins with a zero byte names no file, but what is behind that
/// byte.
pub(crate) fn unix_named(path: &Path) -> io::Result<unix::net::SocketAddr> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some((0, name)) = path.as_os_str().as_bytes().split_first() {
        return unix::net::SocketAddr::from_abstract_name(name);
    }
    unix::net::SocketAddr::from_pathname(path)
}

/// The address in the form that sockets take.
pub(crate) fn unix_address(address: &unix::net::SocketAddr) -> io::Result<SockAddr> {
    if let Some(path) = address.as_pathname() {
        return SockAddr::unix(path);
    }
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(name) = address.as_abstract_name() {
        let name = [&[0], name].concat();
        return SockAddr::unix(OsStr::from_bytes(&name));
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "nobody can be at the address without a name",
    ))
}

/// The same for any kind of stream.
fn accept_any(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SockAddr)> {
    accept_by(|| accept_once(listener))
}

/// Calls `accept` until it answers what concerns the caller.
fn accept_by<T>(mut accept: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match accept() {
            Err(error) if is_nobodys(&error) => {}
            outcome => return outcome,
        }
    }
}

/// Whether the next connection is to be taken: a connection that its peer has given up in the queue is nobody's error,
/// nor is a signal.
pub(crate) fn is_nobodys(error: &io::Error) -> bool {
    [Some(Errno::CONNABORTED), Some(Errno::INTR)].contains(&Errno::from_io_error(error))
}

/// Not rustix's, which panics about some addresses that a client may have.
#[cfg(not(target_vendor = "apple"))]
fn accept_once(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SockAddr)> {
    let accept = |address: *mut SockAddrStorage, length| {
        // SAFETY: the kernel writes to `address` as many bytes as `length` says, and to `length`, both of which
        // `try_init` lends for the call.
        let fd = unsafe {
            libc::accept4(
                listener.as_raw_fd(),
                address.cast(),
                length,
                libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
            )
        };
        owned(fd)
    };
    // SAFETY: when it succeeds, the kernel has written an address and its length; the rest of the storage is zero.
    unsafe { SockAddr::try_init(accept) }
}

/// This system can't do it in one step.
#[cfg(target_vendor = "apple")]
fn accept_once(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, SockAddr)> {
    let accept = |address: *mut SockAddrStorage, length| {
        // SAFETY: the kernel writes to `address` as many bytes as `length` says, and to `length`, both of which
        // `try_init` lends for the call.
        let fd = unsafe { libc::accept(listener.as_raw_fd(), address.cast(), length) };
        owned(fd)
    };
    // SAFETY: when it succeeds, the kernel has written an address and its length; the rest of the storage is zero.
    let (socket, address) = unsafe { SockAddr::try_init(accept) }?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok((socket, address))
}

/// What a system call has answered that makes a descriptor.
fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the caller has it from the kernel, which has just made it for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Copies what is there to `buffer`, and leaves it there to be read.
pub(crate) fn peek(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, RecvFlags::PEEK)?;
    Ok(count)
}

/// Reads into `buffer`.
pub(crate) fn recv(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (count, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(count)
}

/// Reads into `buffer`, and tells whom it is from, which must have an address of the internet.
pub(crate) fn recv_from(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
    let (count, _, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::empty())?;
    Ok((count, of_the_internet(sender)?))
}

/// The address of whom something was received from.
fn of_the_internet(sender: Option<SocketAddrAny>) -> io::Result<SocketAddr> {
    let sender = sender.and_then(|sender| SocketAddr::try_from(sender).ok());
    Ok(with_flow_turned(sender.ok_or(Errno::AFNOSUPPORT)?))
}

/// Writes of `buffer`, without a signal if nobody is at the other end.
pub(crate) fn send(socket: impl AsFd, buffer: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, buffer, NO_SIGNAL).map_err(unless_connecting)?)
}

/// A socket that connects with its first write (`TCP_FASTOPEN_CONNECT`) has begun to, and taken nothing. When it can be
/// written to is an event as any.
fn unless_connecting(error: Errno) -> Errno {
    if error == Errno::INPROGRESS {
        Errno::AGAIN
    } else {
        error
    }
}

/// The same of `buffers`, one after the other, at most [`BUFFERS_MAX`].
pub(crate) fn send_vectored(socket: impl AsFd, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
    let mut nothing = SendAncillaryBuffer::default();
    Ok(rustix::net::sendmsg(socket, buffers, &mut nothing, NO_SIGNAL).map_err(unless_connecting)?)
}

/// Sends `buffer` to `target`.
pub(crate) fn send_to(socket: impl AsFd, buffer: &[u8], target: SocketAddr) -> io::Result<usize> {
    Ok(rustix::net::sendto(
        socket,
        buffer,
        NO_SIGNAL,
        &with_flow_turned(target),
    )?)
}

/// Between std, whose addresses have their flow information in the order of the network, and rustix, whose have it in
/// the machine's.
fn with_flow_turned(mut address: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(address) = &mut address {
        address.set_flowinfo(address.flowinfo().to_be());
    }
    address
}

/// Reads into the beginning of `buffer`; so many bytes are initialised then.
pub(crate) fn recv_uninit(socket: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let ((read, _), _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(read.len())
}

/// Reads into the beginning of `buffer`, so many bytes of which are initialised then, and tells whom it is from, as
/// [`recv_from`].
#[cfg(feature = "bytes")]
pub(crate) fn recv_from_uninit(socket: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> io::Result<(usize, SocketAddr)> {
    let ((read, _), _, sender) = rustix::net::recvfrom(socket, buffer, RecvFlags::empty())?;
    Ok((read.len(), of_the_internet(sender)?))
}

/// The same of a socket of the Unix domain. Who has a path of the greatest length is told as who has none, as
/// `accept_unix` does.
#[cfg(feature = "bytes")]
pub(crate) fn recv_from_unix_uninit(
    socket: impl AsFd,
    buffer: &mut [MaybeUninit<u8>],
) -> io::Result<(usize, unix::net::SocketAddr)> {
    let (count, address) = SockRef::from(&socket).recv_from(buffer)?;
    Ok((count, unix_from_any(&address).or_else(|_| unix_unnamed())?))
}

/// Reads into `buffers`. Also tells whether it has met what a plain read doesn't get: descriptors or credentials, which
/// go with some of the bytes, so that the system doesn't read across.
pub(crate) fn recv_vectored(socket: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<(usize, bool)> {
    let count = buffers.len().min(BUFFERS_MAX);
    // Without room for them they are closed, and that is told.
    let received = rustix::net::recvmsg(
        socket,
        &mut buffers[..count],
        &mut RecvAncillaryBuffer::default(),
        RecvFlags::empty(),
    )?;
    Ok((received.bytes, received.flags.contains(ReturnFlags::CTRUNC)))
}

/// Says what happens to unsent data when `socket` is closed. The system counts whole seconds, Linux by an `int`, and
/// throws the data away if there are none: a part of a second is one, and more than fit are as many as do.
pub(crate) fn set_linger(socket: &Socket, linger: Option<Duration>) -> io::Result<()> {
    socket.set_linger(linger.map(|linger| {
        let whole = linger.as_secs().saturating_add(u64::from(linger.subsec_nanos() > 0));
        Duration::from_secs(whole.min(i32::MAX as u64))
    }))
}

/// The time to live of what `socket` sends, which IPv6 calls hop limit and keeps apart.
pub(crate) fn ttl(socket: &Socket) -> io::Result<u32> {
    if socket.local_addr()?.is_ipv6() {
        socket.unicast_hops_v6()
    } else {
        socket.ttl_v4()
    }
}

/// Sets the time to live of what `socket` sends.
pub(crate) fn set_ttl(socket: &Socket, ttl: u32) -> io::Result<()> {
    let is_v6 = socket.local_addr()?.is_ipv6();
    // Here a socket of IPv6 sends to addresses of IPv4, too, with the time of that. It also refuses zero, which IPv6
    // takes.
    if !is_v6 || cfg!(any(target_os = "linux", target_os = "android")) {
        socket.set_ttl_v4(ttl)?;
    }
    if is_v6 {
        socket.set_unicast_hops_v6(ttl)?;
    }
    Ok(())
}

/// User, group and number of the process at the other end of a Unix socket; no number where it has none in this
/// namespace (which rustix's type can't say).
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn peer_credentials(socket: impl AsFd) -> io::Result<(u32, u32, Option<i32>)> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let size = size_of::<libc::ucred>();
    let mut length = libc::socklen_t::try_from(size).expect("it has twelve bytes");
    // SAFETY: the kernel writes at most `length` bytes to `credentials`, which has as many and is plain data, and the
    // length to `length`; both outlive the call, and so does the descriptor, which `socket` lends.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((
        credentials.uid,
        credentials.gid,
        Some(credentials.pid).filter(|pid| *pid != 0),
    ))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, TcpListener};

    use rustix::net::addr::SocketAddrArg as _;

    use super::*;
    #[cfg(target_os = "linux")]
    use crate::child::{assert_passed, is_child, run_child};
    #[cfg(target_os = "linux")]
    use crate::sys::fd::wait_readable;

    #[test]
    fn an_address_has_the_bytes_that_std_gives_it() {
        let flowing = SocketAddrV6::new(Ipv6Addr::new(0xfe80, 1, 2, 3, 4, 5, 6, 7), 80, 0x0123_4567, 3);
        for address in [SocketAddr::from((Ipv4Addr::new(1, 2, 3, 4), 80)), flowing.into()] {
            let stds = SockAddr::from(address);
            // SAFETY: they are read while `stds` lives, which has so many.
            let stds = unsafe { std::slice::from_raw_parts(stds.as_ptr().cast::<u8>(), stds.len() as usize) };
            let bytes = |start: *const rustix::net::addr::SocketAddrOpaque, len: u32| {
                // SAFETY: rustix calls this with an address that lives meanwhile, and its length.
                unsafe { std::slice::from_raw_parts(start.cast::<u8>(), len as usize) }.to_vec()
            };
            // SAFETY: the closure reads no more than that.
            let ours = unsafe { with_flow_turned(address).with_sockaddr(bytes) };
            assert_eq!(ours, stds, "{address}");
            assert_eq!(with_flow_turned(with_flow_turned(address)), address);
        }
    }

    #[test]
    fn what_is_accepted_neither_blocks_nor_is_inherited() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, address) = accept(listener.as_fd()).unwrap();
        assert_eq!(address, client.local_addr().unwrap());
        let flags = rustix::io::fcntl_getfd(&socket).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let mut buffer = [0];
        assert_eq!(
            peek(&socket, &mut buffer).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
    }

    /// What comes of a queue that answers this, and how many answers that took.
    fn accepted(answers: &[Result<u8, Errno>]) -> (Result<u8, Option<i32>>, usize) {
        let mut left = answers.iter();
        let accepted = accept_by(|| left.next().expect("it asks no further").map_err(io::Error::from));
        let taken = answers.len() - left.len();
        (accepted.map_err(|error| error.raw_os_error()), taken)
    }

    #[test]
    fn what_was_given_up_in_the_queue_is_passed_over() {
        assert_eq!(accepted(&[Ok(1), Ok(2)]), (Ok(1), 1));
        assert_eq!(accepted(&[Err(Errno::CONNABORTED), Ok(2)]), (Ok(2), 2));
        assert_eq!(accepted(&[Err(Errno::INTR), Ok(2)]), (Ok(2), 2));
        let many = [
            Err(Errno::CONNABORTED),
            Err(Errno::INTR),
            Err(Errno::CONNABORTED),
            Ok(4),
        ];
        assert_eq!(accepted(&many), (Ok(4), 4));
    }

    /// All others are told at once: that nothing waits, that the queue has none left, that descriptors have run out.
    #[test]
    fn other_errors_of_accepting_are_told() {
        for errno in [
            Errno::AGAIN,
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::PROTO,
            Errno::PERM,
            Errno::INVAL,
        ] {
            assert_eq!(accepted(&[Err(errno), Ok(2)]), (Err(Some(errno.raw_os_error())), 1));
            assert_eq!(
                accepted(&[Err(Errno::CONNABORTED), Err(errno), Ok(3)]),
                (Err(Some(errno.raw_os_error())), 2)
            );
        }
    }

    #[test]
    fn connecting_goes_on_without_the_caller() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let socket = new(Domain::for_address(address), Type::STREAM).unwrap();
        connect(&socket, &address.into()).unwrap();
        assert_eq!(
            listener.accept().unwrap().1,
            socket.local_addr().unwrap().as_socket().unwrap()
        );
    }

    #[cfg(target_os = "linux")]
    extern "C" fn handle(_: std::ffi::c_int) {}

    /// Has a signal handled, after which no call is started again.
    #[cfg(target_os = "linux")]
    fn handle_signal(signal: std::ffi::c_int) {
        // SAFETY: zeros are a valid value.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handle as extern "C" fn(_) as usize;
        // SAFETY: a handler of the signature that is asked for without SA_SIGINFO, which does nothing.
        let outcome = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
        assert_eq!(outcome, 0);
    }

    /// Of a socket that blocks, as those of ours don't: a signal ends the call, and not what it has begun.
    #[cfg(target_os = "linux")]
    #[test]
    fn connecting_goes_on_after_a_signal() {
        if !is_child() {
            // The handler is the whole process's.
            return assert_passed(&run_child(module_path!(), "connecting_goes_on_after_a_signal"));
        }
        handle_signal(libc::SIGUSR1);
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let listener = socket();
        listener
            .bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())
            .unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        // The one that there is room for: whoever comes next waits.
        let (first, second) = (socket(), socket());
        first.connect(&address).unwrap();
        wait_readable(listener.as_fd()).unwrap();

        let (begins, begun) = std::sync::mpsc::channel();
        let outcome = std::thread::scope(|scope| {
            let connecting = scope.spawn(|| {
                begins.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                connect(&second, &address)
            });
            let thread = begun.recv().unwrap();
            while !connecting.is_finished() {
                // SAFETY: the call touches no memory, and the signal has a handler.
                unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, libc::SIGUSR1) };
                std::thread::yield_now();
            }
            connecting.join().unwrap()
        });
        outcome.unwrap();
        let error = second.peer_addr().unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::NOTCONN), "it was too early");
        for socket in [first, second] {
            let (_, from) = listener.accept().unwrap();
            assert_eq!(from.as_socket(), socket.local_addr().unwrap().as_socket());
        }
    }
}
