//! Futures that are dropped before they are ready take nothing with them.

use std::io::{Read, Write};
use std::net;
use std::os::unix;
use std::pin::pin;
use std::thread;

use futures_lite::future::{or, poll_once};
use quadrille::JoinSet;
use quadrille::net::{TcpStream, UdpSocket, UnixStream};

use crate::tcp::{connection, listen};
use crate::watched::on_runtimes;

#[test]
fn reads_that_are_dropped_lose_no_byte() {
    on_runtimes(|| async {
        const BYTES: usize = 2000;
        let (ours, mut theirs) = connection().await;
        let writer = thread::spawn(move || {
            for byte in 0..BYTES {
                theirs.write_all(&byte.to_le_bytes()[..1]).unwrap();
            }
            theirs
        });
        let mut received = Vec::new();
        let mut buffer = [0; 7];
        while received.len() < BYTES {
            // Polled once or twice and dropped, or awaited: what comes first decides.
            let dropped = received.len() % 3 != 0;
            let outcome = if dropped {
                or(async { Some(ours.read(&mut buffer).await) }, async {
                    quadrille::task::yield_now().await;
                    None
                })
                .await
            } else {
                Some(ours.read(&mut buffer).await)
            };
            if let Some(count) = outcome {
                received.extend_from_slice(&buffer[..count.unwrap()]);
            } else {
                ours.readable().await.unwrap();
            }
        }
        let expected: Vec<u8> = (0..BYTES).map(|byte| byte.to_le_bytes()[0]).collect();
        assert!(received == expected);
        drop(writer.join().unwrap());
    });
}

#[test]
fn writes_that_are_dropped_while_they_wait_have_written_nothing() {
    on_runtimes(|| async {
        // Of a socket of TCP's buffer some may be free again later, when the other end has acknowledged it.
        let (ours, mut theirs) = unix::net::UnixStream::pair().unwrap();
        let ours = UnixStream::from_std(ours).unwrap();
        let mut written = 0;
        while let Ok(count) = ours.try_write(&[1; 65536]) {
            written += count;
        }
        for _ in 0..5 {
            let mut write = pin!(ours.write(b"never"));
            assert!(poll_once(&mut write).await.is_none());
        }
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).unwrap();
            all
        });
        ours.write_all(&[2]).await.unwrap();
        drop(ours);
        let all = reader.join().unwrap();
        assert_eq!(all.len(), written + 1);
        assert_eq!(all.iter().filter(|byte| **byte == 2).count(), 1);
    });
}

#[test]
fn accepts_that_are_dropped_take_no_connection() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        for round in 0..20 {
            assert!(poll_once(listener.accept()).await.is_none());
            let mut accept = Box::pin(listener.accept());
            assert!(poll_once(&mut accept).await.is_none());
            let client = net::TcpStream::connect(address).unwrap();
            if round % 2 == 0 {
                // Woken perhaps, and dropped all the same.
                drop(accept);
                accept = Box::pin(listener.accept());
            }
            let (_, from) = accept.await.unwrap();
            assert_eq!(from, client.local_addr().unwrap());
        }
    });
}

#[test]
fn connects_that_are_dropped_leave_nothing_open() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        for _ in 0..20 {
            drop(poll_once(TcpStream::connect(address)).await);
        }
        let last = TcpStream::connect(address).await.unwrap();
        loop {
            let (stream, from) = listener.accept().await.unwrap();
            if from == last.local_addr().unwrap() {
                break;
            }
            assert!(!matches!(stream.read(&mut [0]).await, Ok(1)), "the other end is closed");
        }
    });
}

#[test]
fn tasks_that_are_aborted_while_they_wait() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let ours = std::sync::Arc::new(ours);
        for _ in 0..50 {
            let reader = quadrille::spawn({
                let ours = std::sync::Arc::clone(&ours);
                async move { ours.read(&mut [0]).await }
            });
            quadrille::task::yield_now().await;
            reader.abort();
            assert!(reader.await.unwrap_err().is_cancelled());
        }
        theirs.write_all(b"x").unwrap();
        assert_eq!(ours.read(&mut [0; 4]).await.unwrap(), 1);
    });
}

#[test]
fn a_datagram_is_for_who_is_left() {
    on_runtimes(|| async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut buffers = [[0; 8]; 4];
        let mut waits = Vec::new();
        for buffer in &mut buffers {
            waits.push(Box::pin(socket.recv_from(buffer)));
        }
        for wait in &mut waits {
            assert!(poll_once(wait).await.is_none());
        }
        let last = waits.pop().unwrap();
        drop(waits);
        let sender = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(b"one", socket.local_addr().unwrap()).unwrap();
        assert_eq!(last.await.unwrap().0, 3);
    });
}

/// Many come and go while one stays.
#[test]
fn waiters_that_come_and_go_do_not_hide_the_one_that_stays() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let ours = std::sync::Arc::new(ours);
        let mut set = JoinSet::new();
        set.spawn({
            let ours = std::sync::Arc::clone(&ours);
            async move {
                let mut sum = 0;
                while sum < 500 {
                    ours.readable().await.unwrap();
                    if let Ok(count) = ours.try_read(&mut [0; 3]) {
                        sum += count;
                    }
                }
            }
        });
        for _ in 0..3 {
            let ours = std::sync::Arc::clone(&ours);
            set.spawn(async move {
                for _ in 0..300 {
                    drop(poll_once(ours.readable()).await);
                    quadrille::task::yield_now().await;
                }
            });
        }
        let writer = thread::spawn(move || {
            for _ in 0..500 {
                theirs.write_all(b"x").unwrap();
            }
            theirs
        });
        set.join_all().await;
        drop(writer.join().unwrap());
    });
}
