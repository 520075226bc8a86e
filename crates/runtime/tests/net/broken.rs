//! Connections that end otherwise than agreed.

use std::io::{ErrorKind, Read, Write};
use std::net::{self, Shutdown};
use std::thread;
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::Runtime;
use quadrille::net::{TcpSocket, TcpStream, UnixStream};
use quadrille::time::timeout;

use crate::tcp::{connection, listen};
use crate::watched::{on_runtimes, watched};

/// Long enough to say that it would be for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// Closes a connection so that the other end sees a reset.
pub(crate) fn reset(socket: net::TcpStream) {
    socket2::SockRef::from(&socket)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(socket);
}

/// More bytes than all buffers between two ends have room for, whenever the one acknowledges what it has got.
fn much() -> Vec<u8> {
    vec![0; 256 << 20]
}

#[test]
fn a_reset_ends_a_read_that_waits() {
    on_runtimes(|| async {
        let (ours, theirs) = connection().await;
        let mut buffer = [0; 16];
        let mut read = Box::pin(ours.read(&mut buffer));
        assert!(poll_once(&mut read).await.is_none());
        reset(theirs);
        assert_eq!(read.await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        // The error was told once; what is left is the end.
        assert_eq!(ours.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(ours.write(b"a").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(ours.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    });
}

#[test]
fn a_reset_ends_a_write_that_waits() {
    on_runtimes(|| async {
        let (ours, theirs) = connection().await;
        let much = much();
        let mut write = Box::pin(ours.write_all(&much));
        assert!(poll_once(&mut write).await.is_none());
        reset(theirs);
        let kind = write.await.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
            "{kind:?}"
        );
    });
}

#[test]
fn a_half_closed_connection_is_read_to_its_end_however_often() {
    on_runtimes(|| async {
        for length in [0, 1, 63, 64, 65, 1000] {
            let (ours, mut theirs) = connection().await;
            theirs.write_all(&vec![9; length]).unwrap();
            theirs.shutdown(Shutdown::Write).unwrap();
            let mut buffer = [0; 64];
            let mut received = 0;
            loop {
                match ours.read(&mut buffer).await.unwrap() {
                    0 => break,
                    count => received += count,
                }
            }
            assert_eq!(received, length);
            for _ in 0..3 {
                assert_eq!(ours.read(&mut buffer).await.unwrap(), 0);
            }
            // The other direction is none the worse.
            ours.write_all(b"still").await.unwrap();
            theirs.read_exact(&mut [0; 5]).unwrap();
        }
    });
}

/// A read stops before urgent data, with more behind it: that must not look like the end of what is there.
#[test]
fn urgent_data_hides_nothing() {
    on_runtimes(|| async {
        for _ in 0..20 {
            let (listener, address) = listen().await;
            let mut theirs = net::TcpStream::connect(address).unwrap();
            theirs.write_all(b"before").unwrap();
            socket2::SockRef::from(&theirs).send_out_of_band(b"!").unwrap();
            theirs.write_all(b"after").unwrap();
            // One event for all that is there.
            let (ours, _) = listener.accept().await.unwrap();
            ours.readable().await.unwrap();
            let mut buffer = [0; 64];
            let mut all = Vec::new();
            while all.len() < 11 {
                let count = ours.read(&mut buffer).await.unwrap();
                all.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(all, b"beforeafter");
        }
    });
}

#[test]
fn ending_our_own_reading_ends_a_read_that_waits() {
    on_runtimes(|| async {
        let (ours, _theirs) = connection().await;
        let mut buffer = [0; 4];
        let mut read = Box::pin(ours.read(&mut buffer));
        assert!(poll_once(&mut read).await.is_none());
        ours.shutdown(Shutdown::Read).unwrap();
        assert_eq!(read.await.unwrap(), 0);
    });
}

/// Also where the system has no event for it: the other end has not read, so there is no room.
#[test]
fn ending_our_own_writing_ends_writes_that_wait() {
    on_runtimes(|| async {
        let (ours, _theirs) = connection().await;
        let much = much();
        let mut write = Box::pin(ours.write_all(&much));
        assert!(poll_once(&mut write).await.is_none());
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(write.await.unwrap_err().kind(), ErrorKind::BrokenPipe);

        let (ours, theirs) = UnixStream::pair().unwrap();
        while ours.try_write(&[1; 65536]).is_ok() {}
        let mut write = Box::pin(ours.write_all(b"no room"));
        let mut second = Box::pin(ours.writable());
        assert!(poll_once(&mut write).await.is_none());
        assert!(poll_once(&mut second).await.is_none());
        ours.shutdown(Shutdown::Write).unwrap();
        let error = timeout(LIMIT, write).await.expect("it is told of the end").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        timeout(LIMIT, second)
            .await
            .expect("so is who waits beside it")
            .unwrap();
        // Nothing else has ended.
        theirs.write_all(b"back").await.unwrap();
        assert_eq!(ours.read(&mut [0; 8]).await.unwrap(), 4);
    });
}

#[test]
fn writing_to_who_is_gone_is_an_error() {
    on_runtimes(|| async {
        let (left, right) = UnixStream::pair().unwrap();
        drop(right);
        assert_eq!(left.write(b"a").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(left.read(&mut [0]).await.unwrap(), 0);
    });
}

/// Clients that are gone before they are accepted harm nobody else.
#[test]
fn a_listener_goes_on_after_clients_that_gave_up() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        for _ in 0..20 {
            reset(net::TcpStream::connect(address).unwrap());
        }
        let client = thread::spawn(move || {
            let mut client = net::TcpStream::connect(address).unwrap();
            client.write_all(b"here").unwrap();
            client
        });
        // The system may hand out those who are gone; they answer with an error or their end.
        let mut accepted = 0;
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            accepted += 1;
            if matches!(stream.read(&mut [0; 4]).await, Ok(4)) {
                break;
            }
            assert!(accepted <= 20);
        }
        drop(client.join().unwrap());
    });
}

#[test]
fn a_refused_connection_can_be_tried_again() {
    on_runtimes(|| async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = socket.local_addr().unwrap();
        for _ in 0..20 {
            let error = TcpStream::connect(address).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        }
        let listener = socket.listen(16).unwrap();
        TcpStream::connect(address).await.unwrap();
        listener.accept().await.unwrap();
    });
}

/// The system may choose the very port as that of the new socket if nobody is bound to it: two ends that connect to
/// each other at the same time have a connection, and here the two are one. A client that tries again until its server
/// is there comes to that soon.
#[test]
fn nobody_connects_to_itself() {
    // Linux goes through the ports of a kind in small steps, and has 14,116 of them unless told otherwise: two or three
    // times in so many it comes to this one.
    const ATTEMPTS: usize = 30_000;
    watched(|| {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let attempts = runtime.spawn(async {
            let (listener, address) = listen().await;
            // Of the kind that connections begin at: Linux gives even ports to these, and odd ones to those who bind.
            let mut address = TcpStream::connect(address).await.unwrap().local_addr().unwrap();
            address.set_port(address.port() ^ 2);
            drop(listener);
            let is_refused = |outcome: std::io::Result<TcpStream>| {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
            };
            for _ in 0..ATTEMPTS {
                is_refused(TcpStream::connect(address).await);
            }
            for _ in 0..ATTEMPTS {
                is_refused(TcpSocket::new_v4().unwrap().connect(address).await);
            }
            address.port()
        });
        let port = runtime.block_on(attempts).unwrap();
        if cfg!(all(target_os = "linux", target_endian = "little")) {
            // Nothing lingers there, and keeps the server away.
            let itself = format!("0100007F:{port:04X} 0100007F:{port:04X}");
            let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
            assert!(!sockets.contains(&itself), "{sockets}");
        }
    });
}
