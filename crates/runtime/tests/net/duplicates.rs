//! One open socket by several descriptors.

use std::collections::HashSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{self, Shutdown};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::net::{TcpListener, TcpSocket, TcpStream, UnixStream, pipe};
use quadrille::time::timeout;
use quadrille::{JoinSet, Runtime};
use socket2::SockRef;

use crate::tcp::connection;
use crate::watched::on_runtimes;

/// Long enough to say that it would be for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// Each connection goes to one of them, in whichever runtime, also after one of them has gone.
#[test]
fn a_listener_has_clones_in_several_runtimes() {
    on_runtimes(|| async {
        const CONNECTIONS: usize = 60;
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let elsewhere = Runtime::builder().worker_threads(1).build().unwrap();
        let (sender, accepted) = quadrille::sync::mpmc::unbounded();
        for number in 0..3 {
            let (clone, sender) = (listener.try_clone().unwrap(), sender.clone());
            let accepts = async move {
                let clone = TcpListener::from_std(clone).unwrap();
                loop {
                    let (stream, from) = clone.accept().await.unwrap();
                    drop(stream);
                    let _ = sender.send(from).await;
                }
            };
            drop(if number == 0 {
                elsewhere.spawn(accepts)
            } else {
                quadrille::spawn(accepts)
            });
        }
        let goes = TcpListener::from_std(listener).unwrap();
        assert!(poll_once(goes.accept()).await.is_none());
        drop(goes);
        let clients = thread::spawn(move || {
            let connect = |_| {
                let mut client = net::TcpStream::connect(address).unwrap();
                assert_eq!(client.read(&mut [0]).unwrap(), 0);
                client.local_addr().unwrap()
            };
            (0..CONNECTIONS).map(connect).collect::<HashSet<_>>()
        });
        let mut seen = HashSet::new();
        for _ in 0..CONNECTIONS {
            seen.insert(timeout(LIMIT, accepted.recv()).await.unwrap().unwrap());
        }
        assert_eq!(seen, clients.join().unwrap());
        elsewhere.shutdown_background();
    });
}

/// By a descriptor that is not watched.
#[test]
fn a_listener_that_is_shut_down_ends_accepts_that_wait() {
    on_runtimes(|| async {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let clone = listener.try_clone().unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let (mut first, mut second) = (Box::pin(listener.accept()), Box::pin(listener.accept()));
        assert!(poll_once(&mut first).await.is_none());
        assert!(poll_once(&mut second).await.is_none());
        SockRef::from(&clone).shutdown(Shutdown::Both).unwrap();
        for accept in [first, second] {
            let error = timeout(LIMIT, accept).await.expect("it is told").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    });
}

#[test]
fn a_stream_is_read_by_two_descriptors() {
    on_runtimes(|| async {
        const MESSAGES: usize = 300;
        let (ours, mut theirs) = connection().await;
        let clone = ours.as_fd().try_clone_to_owned().unwrap();
        let clone = TcpStream::from_std(clone.into()).unwrap();
        let mut readers = JoinSet::new();
        for stream in [ours, clone] {
            readers.spawn(async move {
                let (mut all, mut buffer) = (0, [0; 3]);
                loop {
                    match stream.read(&mut buffer).await.unwrap() {
                        0 => return all,
                        count => all += count,
                    }
                }
            });
        }
        let writer = thread::spawn(move || {
            for _ in 0..MESSAGES {
                theirs.write_all(b"abcdefg").unwrap();
            }
        });
        let read = timeout(LIMIT, readers.join_all()).await.unwrap();
        assert_eq!(read.into_iter().sum::<usize>(), 7 * MESSAGES);
        writer.join().unwrap();
    });
}

/// The open socket lives on, and its events are not those of who gets its number.
#[test]
fn a_descriptor_goes_and_another_of_the_same_socket_stays() {
    on_runtimes(|| async {
        for round in 0..30 {
            let (ours, mut theirs) = connection().await;
            let stays = ours.as_fd().try_clone_to_owned().unwrap();
            assert!(poll_once(ours.readable()).await.is_none());
            if round % 2 == 0 {
                theirs.write_all(b"early ").unwrap();
            }
            drop(ours);
            let (new, peer) = UnixStream::pair().unwrap();
            theirs.write_all(b"for who stays").unwrap();
            quadrille::task::yield_now().await;
            assert!(poll_once(new.readable()).await.is_none());
            let stays = TcpStream::from_std(stays.into()).unwrap();
            assert!(timeout(LIMIT, stays.read(&mut [0; 32])).await.unwrap().unwrap() > 0);
            peer.write_all(b"x").await.unwrap();
            assert_eq!(timeout(LIMIT, new.read(&mut [0; 8])).await.unwrap().unwrap(), 1);
        }
    });
}

/// An end is closed when the last of its descriptors is.
#[test]
fn an_end_of_a_pipe_stays_open_as_long_as_one_descriptor_does() {
    on_runtimes(|| async {
        let (reader, writer) = pipe().unwrap();
        let stays = reader.as_fd().try_clone_to_owned().unwrap();
        while writer.try_write(&[0; 4096]).is_ok() {}
        let mut write = Box::pin(writer.write(b"no room"));
        assert!(poll_once(&mut write).await.is_none());
        drop(reader);
        quadrille::task::yield_now().await;
        assert!(poll_once(&mut write).await.is_none());
        drop(stays);
        let error = timeout(LIMIT, write).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);

        let (reader, writer) = pipe().unwrap();
        let stays = writer.as_fd().try_clone_to_owned().unwrap();
        let mut buffer = [0; 4];
        let mut read = Box::pin(reader.read(&mut buffer));
        assert!(poll_once(&mut read).await.is_none());
        drop(writer);
        quadrille::task::yield_now().await;
        assert!(poll_once(&mut read).await.is_none());
        drop(stays);
        assert_eq!(timeout(LIMIT, read).await.unwrap().unwrap(), 0);
    });
}

/// While it is being connected.
#[test]
fn a_socket_that_others_connect_is_taken_over() {
    on_runtimes(|| async {
        let begin = |address: net::SocketAddr| {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _under_way = socket.connect(&address.into());
            TcpStream::from_std(socket.into()).unwrap()
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = begin(address);
        timeout(LIMIT, stream.writable()).await.unwrap().unwrap();
        assert!(stream.take_error().unwrap().is_none());
        assert_eq!(stream.peer_addr().unwrap(), address);
        stream.write_all(b"hi").await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        assert_eq!(accepted.read(&mut [0; 8]).await.unwrap(), 2);

        // Its port is nobody else's, and nobody listens there.
        let bound = TcpSocket::new_v4().unwrap();
        bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let refused = begin(bound.local_addr().unwrap());
        timeout(LIMIT, refused.writable()).await.unwrap().unwrap();
        let error = refused.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert!(timeout(LIMIT, refused.write(b"x")).await.unwrap().is_err());
    });
}
