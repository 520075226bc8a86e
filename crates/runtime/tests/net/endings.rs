//! What comes before an end, and who hears of it.

use std::io::ErrorKind;
use std::io::Write;
use std::net::{self, Shutdown};
use std::os::unix::net as unix;
use std::sync::Arc;
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::JoinSet;
use quadrille::io::Interest;
use quadrille::net::{PipeReader, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use quadrille::time::timeout;

use crate::broken::reset;
#[cfg(target_os = "linux")]
use crate::skipped::skipped;
use crate::tcp::connection;
use crate::temporary::Folder;
use crate::watched::on_runtimes;

/// Long enough to say that it would be for ever.
const LIMIT: Duration = Duration::from_secs(10);

/// Whatever room a read has.
#[test]
fn a_reset_comes_after_what_was_received() {
    on_runtimes(|| async {
        for (length, room) in [(4, 64), (4, 4), (4, 2), (3000, 1024)] {
            let (ours, mut theirs) = connection().await;
            theirs.write_all(&vec![1; length]).unwrap();
            ours.readable().await.unwrap();
            reset(theirs);
            let (mut received, mut buffer) = (0, vec![0; room]);
            let error = loop {
                match timeout(LIMIT, ours.read(&mut buffer)).await.expect("there is more") {
                    Ok(count) => received += count,
                    Err(error) => break error,
                }
            };
            assert_eq!((received, error.kind()), (length, ErrorKind::ConnectionReset));
            assert_eq!(ours.peek(&mut buffer).await.unwrap(), 0);
            assert_eq!(ours.read(&mut buffer).await.unwrap(), 0);
        }
    });
}

#[test]
fn an_error_that_was_taken_leaves_the_end() {
    on_runtimes(|| async {
        let (ours, theirs) = connection().await;
        reset(theirs);
        ours.readable().await.unwrap();
        let error = ours.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(ours.take_error().unwrap().is_none());
        assert_eq!(timeout(LIMIT, ours.read(&mut [0; 4])).await.unwrap().unwrap(), 0);
        assert_eq!(ours.write(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(
            ours.shutdown(Shutdown::Write).unwrap_err().kind(),
            ErrorKind::NotConnected
        );
        futures_lite::AsyncWriteExt::close(&mut &ours).await.unwrap();
    });
}

/// In every way to wait, several of each.
#[test]
fn all_who_wait_hear_of_a_reset() {
    on_runtimes(|| async {
        async fn wait(stream: &TcpStream, way: usize) {
            let mut buffer = [0; 4];
            match way {
                0 => drop(stream.read(&mut buffer).await),
                1 => drop(stream.peek(&mut buffer).await),
                2 => drop(stream.write_all(&[0; 100]).await),
                3 => stream.readable().await.unwrap(),
                4 => stream.writable().await.unwrap(),
                _ => drop(stream.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap()),
            }
        }
        let (ours, theirs) = connection().await;
        while ours.try_write(&[0; 65536]).is_ok() {}
        let ours = Arc::new(ours);
        let mut waiting = JoinSet::new();
        for number in 0..12 {
            let ours = Arc::clone(&ours);
            waiting.spawn(async move { wait(&ours, number % 6).await });
        }
        quadrille::task::yield_now().await;
        reset(theirs);
        timeout(LIMIT, waiting.join_all()).await.expect("all hear of it");
    });
}

#[test]
fn an_error_of_a_datagram_is_told_once_and_leaves_the_socket() {
    on_runtimes(|| async {
        // Its port is nobody else's as long as it is there, and it hears only one who is far.
        let deaf = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        deaf.connect("127.0.0.1:9").unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(deaf.local_addr().unwrap()).await.unwrap();
        let mut buffer = [0; 8];
        for _ in 0..5 {
            socket.send(b"is anybody there?").await.unwrap();
            let error = timeout(LIMIT, socket.recv(&mut buffer)).await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
            assert!(poll_once(socket.recv(&mut buffer)).await.is_none());
        }
        // Taken in another way than by receiving.
        socket.send(b"is anybody there?").await.unwrap();
        timeout(LIMIT, socket.readable()).await.unwrap().unwrap();
        let error = socket.take_error().unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        deaf.send_to(b"yes", socket.local_addr().unwrap()).unwrap();
        assert_eq!(timeout(LIMIT, socket.recv(&mut buffer)).await.unwrap().unwrap(), 3);
    });
}

/// It may be of another socket's making that the receiver is full.
#[test]
fn who_sends_to_a_full_receiver_hears_that_it_goes() {
    on_runtimes(|| async {
        let (left, right) = UnixDatagram::pair().unwrap();
        while left.try_send(b"filling").is_ok() {}
        let mut sends = Box::pin(left.send(b"no room"));
        assert!(poll_once(&mut sends).await.is_none());
        drop(right);
        let error = timeout(LIMIT, sends).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);

        let folder = Folder::new();
        let path = folder.join("receiver");
        let receiver = unix::UnixDatagram::bind(&path).unwrap();
        let stranger = UnixDatagram::unbound().unwrap();
        while stranger.try_send_to(b"filling", &path).is_ok() {}
        let connected = UnixDatagram::unbound().unwrap();
        connected.connect(&path).unwrap();
        let mut sends = Box::pin(connected.send(b"no room"));
        let mut others = Box::pin(stranger.send_to(b"no room", &path));
        assert!(poll_once(&mut sends).await.is_none());
        assert!(poll_once(&mut others).await.is_none());
        drop(receiver);
        for error in [timeout(LIMIT, sends).await, timeout(LIMIT, others).await] {
            assert_eq!(error.unwrap().unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
    });
}

/// Each that takes one makes room for one, and the system tells all of them.
#[test]
fn many_who_are_connected_to_one_receiver_get_their_turns() {
    on_runtimes(|| async {
        const SENDERS: usize = 12;
        const DATAGRAMS: usize = 50;
        let folder = Folder::new();
        let path = folder.join("receiver");
        let receiver = UnixDatagram::bind(&path).unwrap();
        let mut senders = JoinSet::new();
        for _ in 0..SENDERS {
            let path = path.clone();
            senders.spawn(async move {
                let sender = UnixDatagram::unbound().unwrap();
                sender.connect(&path).unwrap();
                for _ in 0..DATAGRAMS {
                    sender.send(b"x").await.unwrap();
                }
            });
        }
        for _ in 0..SENDERS * DATAGRAMS {
            let received = timeout(LIMIT, receiver.recv(&mut [0; 4])).await;
            assert_eq!(received.unwrap().unwrap(), 1);
        }
        timeout(LIMIT, senders.join_all()).await.unwrap();
    });
}

/// One reads, and one waits for room.
#[test]
fn who_waits_to_be_accepted_hears_that_the_listener_goes() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("listener");
        let listener = UnixListener::bind(&path).unwrap();
        let reads = UnixStream::connect(&path).await.unwrap();
        let writes = UnixStream::connect(&path).await.unwrap();
        while writes.try_write(&[0; 4096]).is_ok() {}
        let mut buffer = [0; 8];
        let mut read = Box::pin(reads.read(&mut buffer));
        let mut write = Box::pin(writes.write_all(b"no room"));
        assert!(poll_once(&mut read).await.is_none());
        assert!(poll_once(&mut write).await.is_none());
        drop(listener);
        // An error or the end, as the system likes.
        assert_eq!(timeout(LIMIT, read).await.unwrap().unwrap_or(0), 0);
        assert!(timeout(LIMIT, write).await.unwrap().is_err());
    });
}

#[test]
fn a_named_pipe_is_read_on_with_the_next_writer() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.fifo();
        let reader = PipeReader::open(&path).unwrap();
        let mut buffer = [0; 16];
        for _ in 0..5 {
            let mut writer = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            let mut read = Box::pin(reader.read(&mut buffer));
            assert!(poll_once(&mut read).await.is_none());
            writer.write_all(b"abc").unwrap();
            assert_eq!(timeout(LIMIT, read).await.unwrap().unwrap(), 3);
            drop(writer);
            assert_eq!(timeout(LIMIT, reader.read(&mut buffer)).await.unwrap().unwrap(), 0);
        }
    });
}

/// Of the Unix domain, too, a read stops before it, with more behind.
#[cfg(target_os = "linux")]
#[test]
fn urgent_data_of_the_unix_domain_hides_nothing() {
    on_runtimes(|| async {
        for room in [64, 4096] {
            let (ours, mut theirs) = unix::UnixStream::pair().unwrap();
            theirs.write_all(b"before").unwrap();
            match rustix::net::send(&theirs, b"!", rustix::net::SendFlags::OOB) {
                // Linux 5.15 and later know it, if they were built so.
                Err(rustix::io::Errno::OPNOTSUPP) => {
                    return skipped("sockets of the Unix domain have no urgent data here");
                }
                sent => assert_eq!(sent, Ok(1)),
            }
            theirs.write_all(b"after").unwrap();
            let ours = UnixStream::from_std(ours).unwrap();
            ours.readable().await.unwrap();
            let (mut all, mut buffer) = (Vec::new(), vec![0; room]);
            while all.len() < 11 {
                let count = timeout(LIMIT, ours.read(&mut buffer)).await.unwrap().unwrap();
                all.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(all, b"beforeafter");
        }
    });
}
