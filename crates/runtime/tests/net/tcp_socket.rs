//! Sockets that are set up before they listen or connect.

use std::collections::HashSet;
use std::io::{ErrorKind, Read};
use std::net;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _};
use std::time::Duration;

use quadrille::JoinSet;
use quadrille::net::{TcpListener, TcpSocket};
#[cfg(target_os = "linux")]
use quadrille::time::timeout;

use crate::watched::on_runtimes;

#[test]
fn options_last_beyond_connecting() {
    on_runtimes(|| async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        assert!(socket.reuseaddr().unwrap());
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = socket.listen(16).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);

        let socket = TcpSocket::new_v4().unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_keepalive(true).unwrap();
        socket.set_linger(Some(Duration::ZERO)).unwrap();
        socket.set_send_buffer_size(20_000).unwrap();
        socket.set_recv_buffer_size(30_000).unwrap();
        assert!(socket.send_buffer_size().unwrap() >= 20_000);
        assert!(socket.recv_buffer_size().unwrap() >= 30_000);
        let stream = socket.connect(address).await.unwrap();
        assert!(stream.nodelay().unwrap() && stream.keepalive().unwrap());
        assert_eq!(stream.linger().unwrap(), Some(Duration::ZERO));
        let (accepted, _) = listener.accept().await.unwrap();
        assert!(!accepted.nodelay().unwrap());
    });
}

#[test]
fn classes_of_traffic_are_told_apart() {
    on_runtimes(|| async {
        let (v4, v6) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v6().unwrap());
        assert_eq!((v4.tos_v4().unwrap(), v6.tclass_v6().unwrap()), (0, 0));
        v4.set_tos_v4(0x48).unwrap();
        v6.set_tclass_v6(0x28).unwrap();
        assert_eq!((v4.tos_v4().unwrap(), v6.tclass_v6().unwrap()), (0x48, 0x28));
        assert!(v4.set_tclass_v6(0x28).is_err());
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_may_be_of_one_device_alone() {
    on_runtimes(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        assert_eq!(socket.device().unwrap(), None);
        let error = socket.bind_device(Some(b"no-such-device")).unwrap_err();
        assert!(
            [Some(libc::EPERM), Some(libc::ENODEV), Some(libc::EINVAL)].contains(&error.raw_os_error()),
            "{error}"
        );
        match socket.bind_device(Some(b"lo")) {
            // Kernels before 5.7 ask for privileges.
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
            Ok(()) => {
                assert_eq!(socket.device().unwrap().as_deref(), Some(b"lo".as_slice()));
                let stream = socket.connect(listener.local_addr().unwrap()).await.unwrap();
                assert_eq!(listener.accept().await.unwrap().1, stream.local_addr().unwrap());
            }
        }
    });
}

#[test]
fn a_bound_socket_connects_from_its_address() {
    on_runtimes(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let from = socket.local_addr().unwrap();
        assert!(socket.take_error().unwrap().is_none());
        let stream = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        assert_eq!(stream.local_addr().unwrap(), from);
        assert_eq!(listener.accept().await.unwrap().1, from);
    });
}

#[test]
fn an_address_is_shared_only_by_those_who_say_so() {
    on_runtimes(|| async {
        let listeners = TcpListener::bind_several("127.0.0.1:0", 3).await.unwrap();
        let address = listeners[0].local_addr().unwrap();
        let error = TcpListener::bind(address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let one_more = TcpSocket::new_v4().unwrap();
        assert!(!one_more.reuseport().unwrap());
        one_more.set_reuseport(true).unwrap();
        one_more.bind(address).unwrap();
    });
}

/// However the system deals connections out, each arrives at one listener.
#[test]
fn several_listeners_get_each_connection_once() {
    on_runtimes(|| async {
        const CONNECTIONS: usize = 60;
        let listeners = TcpListener::bind_several("127.0.0.1:0", 3).await.unwrap();
        let address = listeners[0].local_addr().unwrap();
        let (sender, accepted) = quadrille::sync::mpmc::unbounded();
        let mut set = JoinSet::new();
        for listener in listeners {
            let sender = sender.clone();
            set.spawn(async move {
                loop {
                    let (stream, from) = listener.accept().await.unwrap();
                    stream.write_all(b"x").await.unwrap();
                    let _ = sender.send(from).await;
                }
            });
        }
        let clients = std::thread::spawn(move || {
            let clients = (0..CONNECTIONS).map(|_| {
                let mut client = net::TcpStream::connect(address).unwrap();
                client.read_exact(&mut [0]).unwrap();
                client.local_addr().unwrap()
            });
            clients.collect::<HashSet<_>>()
        });
        let mut seen = Vec::new();
        while seen.len() < CONNECTIONS {
            seen.push(accepted.recv().await.unwrap());
        }
        set.abort_all();
        let seen_once: HashSet<_> = seen.iter().copied().collect();
        assert_eq!(seen_once.len(), CONNECTIONS);
        assert_eq!(seen_once, clients.join().unwrap());
    });
}

#[test]
fn ipv6_can_be_alone() {
    on_runtimes(|| async {
        let socket = TcpSocket::new_v6().unwrap();
        for only in [false, true] {
            socket.set_only_v6(only).unwrap();
            assert_eq!(socket.only_v6().unwrap(), only);
        }
    });
}

/// IPv6 calls the time to live hop limit, and has an option of its own for it.
#[cfg(target_os = "linux")]
#[test]
fn packets_of_both_protocols_live_as_long_as_was_set() {
    use quadrille::net::{TcpStream, UdpSocket};

    fn both(socket: &impl std::os::fd::AsFd) -> (u32, u32) {
        let socket = socket2::SockRef::from(socket);
        (socket.unicast_hops_v6().unwrap(), socket.ttl_v4().unwrap())
    }
    on_runtimes(|| async {
        let udp = UdpSocket::bind("[::]:0").await.unwrap();
        udp.set_ttl(5).unwrap();
        assert_eq!((udp.ttl().unwrap(), both(&udp)), (5, (5, 5)));
        assert!(udp.set_ttl(0).is_err() && udp.set_ttl(256).is_err());
        assert_eq!((udp.ttl().unwrap(), both(&udp)), (5, (5, 5)));

        let listener = TcpListener::bind("[::]:0").await.unwrap();
        listener.set_ttl(6).unwrap();
        assert_eq!((listener.ttl().unwrap(), both(&listener)), (6, (6, 6)));

        let address = (
            net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
            listener.local_addr().unwrap().port(),
        );
        let stream = TcpStream::connect(net::SocketAddr::from(address)).await.unwrap();
        stream.set_ttl(7).unwrap();
        assert_eq!((stream.ttl().unwrap(), both(&stream)), (7, (7, 7)));
        let (accepted, _) = listener.accept().await.unwrap();
        assert_eq!(accepted.ttl().unwrap(), 6);
    });
}

#[test]
fn a_socket_of_std_can_be_connected() {
    on_runtimes(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let raw = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let socket = TcpSocket::from_std_stream(raw.into()).unwrap();
        let stream = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    });
}

#[test]
fn a_socket_goes_by_its_number() {
    on_runtimes(|| async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let number = TcpSocket::new_v4().unwrap().into_raw_fd();
        // SAFETY: it is that of a socket which nobody has any more.
        let socket = unsafe { TcpSocket::from_raw_fd(number) };
        assert_eq!(socket.as_raw_fd(), number);
        let stream = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    });
}

/// Such a socket connects with its first write: until then there is neither a connection nor an error.
#[cfg(target_os = "linux")]
#[test]
fn connecting_by_fast_open_waits_for_no_connection() {
    on_runtimes(|| connects_by_fast_open(false));
    on_runtimes(|| connects_by_fast_open(true));
}

#[cfg(target_os = "linux")]
async fn connects_by_fast_open(writes_nothing_first: bool) {
    const LIMIT: Duration = Duration::from_secs(10);
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    for option in [libc::TCP_FASTOPEN_CONNECT, libc::TCP_FASTOPEN_NO_COOKIE] {
        match set_tcp_option(&socket, option) {
            // The system has no such thing, or has switched it off.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)) => return,
            outcome => outcome.unwrap(),
        }
    }
    let stream = timeout(LIMIT, socket.connect(address)).await.unwrap().unwrap();
    if writes_nothing_first {
        let written = timeout(LIMIT, stream.write(&[])).await.unwrap();
        assert_eq!(written.unwrap(), 0, "it connects, and there was nothing to write");
    }
    timeout(LIMIT, stream.write_all(b"first")).await.unwrap().unwrap();
    let server = quadrille::spawn_blocking(move || {
        let (mut accepted, client) = listener.accept().unwrap();
        let mut heard = [0; 5];
        accepted.read_exact(&mut heard).unwrap();
        (heard, client)
    });
    let (heard, client) = timeout(LIMIT, server).await.unwrap().unwrap();
    assert_eq!(&heard, b"first");
    assert_eq!(client, stream.local_addr().unwrap());
}

/// Sets an option that has no method, to 1.
#[cfg(target_os = "linux")]
fn set_tcp_option(socket: &TcpSocket, option: libc::c_int) -> std::io::Result<()> {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).unwrap();
    // SAFETY: the kernel reads `length` bytes of `on`, which has so many, during the call; `socket` holds its
    // descriptor open.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            (&raw const on).cast(),
            length,
        )
    };
    if outcome == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}
