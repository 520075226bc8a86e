//! Datagrams over UDP.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::{self, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use quadrille::Wait;
use quadrille::io::Interest;
use quadrille::net::UdpSocket;

use crate::watched::{on_runtimes, watched};

async fn socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

#[test]
fn datagrams_arrive_whole_and_say_who_sent_them() {
    on_runtimes(|| async {
        let server = Arc::new(socket().await);
        let address = server.local_addr().unwrap();
        let echo = quadrille::spawn({
            let server = Arc::clone(&server);
            async move {
                let mut buffer = [0; 2048];
                loop {
                    let (length, from) = server.recv_from(&mut buffer).await.unwrap();
                    if length == 0 {
                        break;
                    }
                    assert_eq!(server.send_to(&buffer[..length], from).await.unwrap(), length);
                }
            }
        });
        let client = std::thread::spawn(move || {
            let client = net::UdpSocket::bind("127.0.0.1:0").unwrap();
            for length in [1, 2, 100, 1472] {
                let sent: Vec<u8> = (0..length).map(|index: usize| index.to_le_bytes()[0]).collect();
                client.send_to(&sent, address).unwrap();
                let mut received = [0; 2048];
                let (count, from) = client.recv_from(&mut received).unwrap();
                assert_eq!((&received[..count], from), (&sent[..], address));
            }
            client.send_to(&[], address).unwrap();
        });
        echo.await.unwrap();
        client.join().unwrap();
    });
}

/// Neither an empty datagram nor an empty buffer says that there is nothing: each receive takes one.
#[test]
fn what_is_empty_is_received_and_what_does_not_fit_is_lost() {
    on_runtimes(|| async {
        let one = socket().await;
        let here = one.local_addr().unwrap();
        let mut buffer = [0; 3];
        assert_eq!(one.send_to(b"", here).await.unwrap(), 0);
        assert_eq!(one.recv_from(&mut buffer).await.unwrap(), (0, here));
        for sent in [b"ab".as_slice(), b"cdef", b"gh", b"ij", b"kl"] {
            one.send_to(sent, here).await.unwrap();
        }
        assert_eq!(one.recv_from(&mut []).await.unwrap(), (0, here));
        assert_eq!(one.recv(&mut buffer).await.unwrap(), 3);
        assert_eq!(&buffer, b"cde");
        assert_eq!(one.recv(&mut []).await.unwrap(), 0);
        let cut = loop {
            one.readable().await.unwrap();
            match one.try_recv_from(&mut []) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                received => break received.unwrap(),
            }
        };
        assert_eq!(cut, (0, here));
        assert_eq!(one.recv(&mut buffer).await.unwrap(), 2);
        assert_eq!(&buffer[..2], b"kl");
        assert_eq!(one.try_recv(&mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn a_connected_socket_hears_one_peer_only() {
    on_runtimes(|| async {
        let (one, two, stranger) = (socket().await, socket().await, socket().await);
        one.connect(two.local_addr().unwrap()).await.unwrap();
        two.connect(one.local_addr().unwrap()).await.unwrap();
        assert_eq!(one.peer_addr().unwrap(), two.local_addr().unwrap());
        stranger.send_to(b"ignored", one.local_addr().unwrap()).await.unwrap();
        two.send(b"heard").await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(one.peek(&mut buffer).await.unwrap(), 5);
        assert_eq!(one.recv(&mut buffer).await.unwrap(), 5);
        assert_eq!(&buffer[..5], b"heard");
        assert_eq!(one.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn who_connects_still_receives_what_a_stranger_sent_before() {
    on_runtimes(|| async {
        let (one, two, stranger) = (socket().await, socket().await, socket().await);
        stranger.send_to(b"early", one.local_addr().unwrap()).await.unwrap();
        one.connect(two.local_addr().unwrap()).await.unwrap();
        let (length, from) = one.recv_from(&mut [0; 16]).await.unwrap();
        assert_eq!((length, from), (5, stranger.local_addr().unwrap()));
    });
}

#[test]
fn peeking_and_trying() {
    on_runtimes(|| async {
        let (one, two) = (socket().await, socket().await);
        let (from, to) = (two.local_addr().unwrap(), one.local_addr().unwrap());
        let mut buffer = [0; 4];
        assert_eq!(
            one.try_recv_from(&mut buffer).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        assert_eq!(two.try_send_to(b"abcdef", to).unwrap(), 6);
        let ready = one.ready(Interest::READABLE).await.unwrap();
        assert!(ready.is_readable());
        assert_eq!(one.peek_sender().await.unwrap(), from);
        assert_eq!(one.try_peek_sender().unwrap(), from);
        assert_eq!(poll_fn(|cx| one.poll_peek_sender(cx)).await.unwrap(), from);
        assert_eq!(one.peek_from(&mut buffer).await.unwrap(), (4, from));
        assert_eq!(one.try_peek_from(&mut buffer).unwrap(), (4, from));
        assert_eq!(one.try_peek(&mut buffer).unwrap(), 4);
        assert_eq!(poll_fn(|cx| one.poll_peek(cx, &mut buffer)).await.unwrap(), 4);
        one.readable().await.unwrap();
        assert_eq!(one.try_recv_from(&mut buffer).unwrap(), (4, from), "the rest is lost");
        assert_eq!(one.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(one.try_peek_sender().unwrap_err().kind(), ErrorKind::WouldBlock);
        two.writable().await.unwrap();
    });
}

#[test]
fn the_same_by_polling() {
    on_runtimes(|| async {
        let (one, two) = (socket().await, socket().await);
        let (from, to) = (two.local_addr().unwrap(), one.local_addr().unwrap());
        let mut buffer = [0; 4];
        poll_fn(|cx| two.poll_send_ready(cx)).await.unwrap();
        poll_fn(|cx| two.poll_send_to(cx, b"ab", to)).await.unwrap();
        poll_fn(|cx| one.poll_recv_ready(cx)).await.unwrap();
        assert_eq!(
            poll_fn(|cx| one.poll_peek_from(cx, &mut buffer)).await.unwrap(),
            (2, from)
        );
        assert_eq!(
            poll_fn(|cx| one.poll_recv_from(cx, &mut buffer)).await.unwrap(),
            (2, from)
        );
        two.connect(to).await.unwrap();
        poll_fn(|cx| two.poll_send(cx, b"abc")).await.unwrap();
        assert_eq!(poll_fn(|cx| one.poll_recv(cx, &mut buffer)).await.unwrap(), 3);
    });
}

#[test]
fn what_nobody_hears_is_refused() {
    on_runtimes(|| async {
        // Its port is nobody else's as long as it is there, and it hears only one who is far.
        let deaf = socket().await;
        deaf.connect("127.0.0.1:9").await.unwrap();
        let one = socket().await;
        one.connect(deaf.local_addr().unwrap()).await.unwrap();
        one.send(b"a").await.unwrap();
        assert_eq!(
            one.recv(&mut [0]).await.unwrap_err().kind(),
            ErrorKind::ConnectionRefused
        );
    });
}

#[test]
fn a_thread_receives_by_waiting() {
    watched(|| {
        let runtime = quadrille::Runtime::new().unwrap();
        let thread = runtime.spawn_thread(|| {
            let server = UdpSocket::bind(("127.0.0.1", 0)).wait().unwrap();
            let address = server.local_addr().unwrap();
            let client = std::thread::spawn(move || {
                let client = net::UdpSocket::bind("127.0.0.1:0").unwrap();
                client.send_to(b"hello", address).unwrap()
            });
            let mut buffer = [0; 16];
            let (length, _) = server.recv_from(&mut buffer).wait().unwrap();
            assert_eq!(length, client.join().unwrap());
        });
        thread.join().unwrap();
    });
}

#[test]
fn groups_and_other_options() {
    on_runtimes(|| async {
        let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
        for on in [true, false] {
            socket.set_broadcast(on).unwrap();
            assert_eq!(socket.broadcast().unwrap(), on);
            socket.set_multicast_loop_v4(on).unwrap();
            assert_eq!(socket.multicast_loop_v4().unwrap(), on);
        }
        socket.set_ttl(7).unwrap();
        assert_eq!(socket.ttl().unwrap(), 7);
        socket.set_tos_v4(18 << 2).unwrap();
        assert_eq!(socket.tos_v4().unwrap(), 18 << 2);
        let v6 = UdpSocket::bind("[::]:0").await.unwrap();
        v6.set_tclass_v6(18 << 2).unwrap();
        assert_eq!((v6.tclass_v6().unwrap(), v6.tos_v4().unwrap()), (18 << 2, 0));
        assert!(socket.set_tclass_v6(0).is_err());
        #[cfg(target_os = "linux")]
        {
            assert_eq!(socket.device().unwrap(), None);
            assert!(socket.bind_device(Some(b"no-such-device")).is_err());
            match socket.bind_device(Some(b"lo")) {
                // Kernels before 5.7 ask for privileges.
                Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
                Ok(()) => assert_eq!(socket.device().unwrap().as_deref(), Some(b"lo".as_slice())),
            }
        }
        socket.set_multicast_ttl_v4(3).unwrap();
        assert_eq!(socket.multicast_ttl_v4().unwrap(), 3);
        assert!(socket.take_error().unwrap().is_none());
        assert_eq!(socket.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);

        let group = Ipv4Addr::new(239, 255, 7, 7);
        socket.join_multicast_v4(group, Ipv4Addr::LOCALHOST).unwrap();
        let error = socket.join_multicast_v4(group, Ipv4Addr::LOCALHOST).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "it is a member");
        socket.leave_multicast_v4(group, Ipv4Addr::LOCALHOST).unwrap();
        assert!(socket.leave_multicast_v4(group, Ipv4Addr::LOCALHOST).is_err());
        // Of the other protocol, by which the options are told apart.
        assert!(socket.join_multicast_v6(&Ipv6Addr::LOCALHOST, 0).is_err());
        assert!(socket.leave_multicast_v6(&Ipv6Addr::LOCALHOST, 0).is_err());

        let std = socket.into_std();
        let socket = UdpSocket::from_std(std).unwrap();
        assert_eq!(socket.ttl().unwrap(), 7);
    });
}
