//! Several tasks at one socket, and sockets that follow each other under one number.

use std::collections::HashSet;
use std::io::{ErrorKind, Write};
use std::net;
use std::os::fd::AsRawFd;
use std::os::unix;
use std::sync::Arc;
use std::thread;

use futures_lite::future::poll_once;
use quadrille::JoinSet;
use quadrille::net::{TcpStream, UdpSocket, UnixStream};

use crate::tcp::{connection, listen};
use crate::watched::on_runtimes;

#[test]
fn each_connection_goes_to_one_of_those_who_accept() {
    on_runtimes(|| async {
        const ACCEPTORS: usize = 16;
        const CONNECTIONS: usize = 200;
        let (listener, address) = listen().await;
        let listener = Arc::new(listener);
        let (sender, accepted) = quadrille::sync::mpmc::unbounded();
        let mut acceptors = JoinSet::new();
        for _ in 0..ACCEPTORS {
            let (listener, sender) = (Arc::clone(&listener), sender.clone());
            acceptors.spawn(async move {
                loop {
                    let (stream, from) = listener.accept().await.unwrap();
                    drop(stream);
                    let _ = sender.send(from).await;
                }
            });
        }
        let clients = thread::spawn(move || {
            let clients: Vec<_> = (0..CONNECTIONS)
                .map(|_| net::TcpStream::connect(address).unwrap())
                .collect();
            let addresses = clients.iter().map(|client| client.local_addr().unwrap());
            addresses.collect::<HashSet<_>>()
        });
        let mut seen = Vec::new();
        while seen.len() < CONNECTIONS {
            seen.push(accepted.recv().await.unwrap());
        }
        let expected = clients.join().unwrap();
        assert_eq!(seen.into_iter().collect::<HashSet<_>>(), expected);
        acceptors.abort_all();
        while acceptors.join_next().await.is_some() {}
        assert!(accepted.try_recv().is_err(), "no connection was accepted twice");
    });
}

/// Readiness is a hint: all are woken, and those who come too late wait on.
#[test]
fn each_byte_goes_to_one_of_those_who_read() {
    on_runtimes(|| async {
        const READERS: usize = 8;
        const BYTES: usize = 800;
        let (ours, mut theirs) = connection().await;
        let ours = Arc::new(ours);
        let mut readers = JoinSet::new();
        for _ in 0..READERS {
            let ours = Arc::clone(&ours);
            readers.spawn(async move {
                let mut count = 0;
                while ours.read(&mut [0]).await.unwrap() == 1 {
                    count += 1;
                }
                count
            });
        }
        let writer = thread::spawn(move || {
            for _ in 0..BYTES {
                theirs.write_all(b"x").unwrap();
            }
        });
        assert_eq!(readers.join_all().await.into_iter().sum::<usize>(), BYTES);
        writer.join().unwrap();
    });
}

#[test]
fn each_datagram_goes_to_one_of_those_who_receive() {
    on_runtimes(|| async {
        const RECEIVERS: usize = 8;
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let address = socket.local_addr().unwrap();
        let mut receivers = JoinSet::new();
        for _ in 0..RECEIVERS {
            let socket = Arc::clone(&socket);
            receivers.spawn(async move {
                let mut buffer = [0; 4];
                socket.recv_from(&mut buffer).await.unwrap();
                u32::from_le_bytes(buffer)
            });
        }
        let sender = thread::spawn(move || {
            let sender = net::UdpSocket::bind("127.0.0.1:0").unwrap();
            for number in 0..8_u32 {
                sender.send_to(&number.to_le_bytes(), address).unwrap();
            }
        });
        let mut numbers = receivers.join_all().await;
        numbers.sort_unstable();
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        sender.join().unwrap();
    });
}

/// A socket is closed while an event of it is on its way, and another gets its number.
#[test]
fn nobody_gets_the_events_of_an_earlier_socket() {
    on_runtimes(|| async {
        const ROUNDS: usize = 200;
        let (listener, address) = listen().await;
        let mut same_number = 0;
        let mut earlier = None;
        for round in 0..ROUNDS {
            let mut theirs = net::TcpStream::connect(address).unwrap();
            let (ours, _) = listener.accept().await.unwrap();
            if earlier == Some(ours.as_raw_fd()) {
                same_number += 1;
            }
            earlier = Some(ours.as_raw_fd());
            let ours = Arc::new(ours);
            // What an earlier socket has got ready is no event of this one.
            assert!(poll_once(ours.readable()).await.is_none());
            let reader = quadrille::spawn({
                let ours = Arc::clone(&ours);
                async move { ours.read(&mut [0; 8]).await }
            });
            if round % 2 == 0 {
                quadrille::task::yield_now().await;
            }
            theirs.write_all(b"in flight").unwrap();
            reader.abort();
            drop(reader.await);
            drop(theirs);
            drop(ours);
        }
        assert!(same_number > 0, "the system gives the lowest number that is free");
    });
}

/// The same while the new socket is waited for, and must hear its own events.
#[test]
fn a_socket_with_an_old_number_hears_its_own_events() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        for _ in 0..100 {
            let mut old_peer = net::TcpStream::connect(address).unwrap();
            let (old, _) = listener.accept().await.unwrap();
            assert!(poll_once(old.readable()).await.is_none());
            old_peer.write_all(b"for the old one").unwrap();
            drop(old);

            let mut peer = net::TcpStream::connect(address).unwrap();
            let (new, _) = listener.accept().await.unwrap();
            let reader = quadrille::spawn(async move {
                let mut buffer = [0; 32];
                let count = new.read(&mut buffer).await.unwrap();
                buffer[..count].to_vec()
            });
            quadrille::task::yield_now().await;
            peer.write_all(b"for the new one").unwrap();
            assert_eq!(reader.await.unwrap(), b"for the new one");
        }
    });
}

#[test]
fn a_task_waits_for_both_sides_of_one_socket_at_once() {
    on_runtimes(|| async {
        // Of a socket of TCP's buffer some may be free again later, when the other end has acknowledged it.
        let (ours, mut theirs) = unix::net::UnixStream::pair().unwrap();
        let ours = UnixStream::from_std(ours).unwrap();
        while ours.try_write(&[0; 65536]).is_ok() {}
        let mut write = Box::pin(ours.write(b"a"));
        let mut buffer = [0; 4];
        let mut read = Box::pin(ours.read(&mut buffer));
        assert!(poll_once(&mut write).await.is_none());
        assert!(poll_once(&mut read).await.is_none());
        theirs.write_all(b"b").unwrap();
        assert_eq!(read.await.unwrap(), 1);
        assert!(poll_once(&mut write).await.is_none(), "an event of the other side");
        let drain = thread::spawn(move || std::io::copy(&mut theirs, &mut std::io::sink()));
        assert_eq!(write.await.unwrap(), 1);
        drop(ours);
        drain.join().unwrap().unwrap();
    });
}

#[test]
fn a_descriptor_is_watched_by_one_owner_at_a_time() {
    on_runtimes(|| async {
        let (ours, _theirs) = connection().await;
        let duplicate = net::TcpStream::from(std::os::fd::AsFd::as_fd(&ours).try_clone_to_owned().unwrap());
        // A duplicate has a number of its own, so it can be watched beside the first.
        let other = TcpStream::from_std(duplicate).unwrap();
        other.writable().await.unwrap();
        drop(other);
        ours.writable().await.unwrap();
        assert_eq!(ours.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}
