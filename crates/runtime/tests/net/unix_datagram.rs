//! Datagrams of the Unix domain.

use std::future::poll_fn;
use std::io::ErrorKind;
use std::net::Shutdown;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use futures_lite::future::poll_once;
use quadrille::io::Interest;
use quadrille::net::UnixDatagram;
use quadrille::time::timeout;
use quadrille::{JoinSet, Runtime};

use crate::temporary::Folder;
use crate::watched::{on_runtimes, watched};

#[test]
fn a_pair_keeps_the_order() {
    on_runtimes(|| async {
        const MESSAGES: u32 = 1000;
        let (left, right) = UnixDatagram::pair().unwrap();
        let sender = quadrille::spawn(async move {
            for message in 0..MESSAGES {
                assert_eq!(left.send(&message.to_le_bytes()).await.unwrap(), 4);
            }
        });
        let mut buffer = [0; 8];
        for message in 0..MESSAGES {
            assert_eq!(right.recv(&mut buffer).await.unwrap(), 4);
            assert_eq!(&buffer[..4], &message.to_le_bytes());
        }
        sender.await.unwrap();
    });
}

/// Neither an empty datagram nor an empty buffer says that there is nothing: each receive takes one.
#[test]
fn what_is_empty_is_received_and_what_does_not_fit_is_lost() {
    on_runtimes(|| async {
        let (left, right) = UnixDatagram::pair().unwrap();
        for sent in [b"".as_slice(), b"ab", b"cdef", b"gh"] {
            assert_eq!(left.send(sent).await.unwrap(), sent.len());
        }
        let mut buffer = [0; 3];
        let (length, from) = right.recv_from(&mut buffer).await.unwrap();
        assert!(length == 0 && from.is_unnamed());
        assert_eq!(right.recv(&mut []).await.unwrap(), 0);
        assert_eq!(right.recv(&mut buffer).await.unwrap(), 3);
        assert_eq!(&buffer, b"cde");
        assert_eq!(right.recv_from(&mut []).await.unwrap().0, 0);
        assert_eq!(right.try_recv(&mut []).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

#[test]
fn names_and_those_who_have_none() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let (path, other) = (folder.join("server"), folder.join("client"));
        let server = UnixDatagram::bind(&path).unwrap();
        let client = UnixDatagram::bind(&other).unwrap();
        let nameless = UnixDatagram::unbound().unwrap();
        let mut buffer = [0; 16];
        client.send_to(b"hello", &path).await.unwrap();
        let (length, from) = server.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, from.as_pathname()), (5, Some(other.as_path())));
        nameless.connect(&path).unwrap();
        assert_eq!(nameless.peer_addr().unwrap().as_pathname(), Some(path.as_path()));
        nameless.send(b"anonymous").await.unwrap();
        let (length, from) = server.recv_from(&mut buffer).await.unwrap();
        assert!(length == 9 && from.is_unnamed());
        assert_eq!(server.local_addr().unwrap().as_pathname(), Some(path.as_path()));
        assert_eq!(
            client.send_to(b"x", folder.join("nobody")).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(UnixDatagram::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_begins_with_a_zero_byte_names_no_file() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = format!("\0{}-datagrams", folder.path().to_str().unwrap());
        let server = UnixDatagram::bind(&path).unwrap();
        let client = UnixDatagram::unbound().unwrap();
        client.send_to(b"a", &path).await.unwrap();
        client.try_send_to(b"ab", &path).unwrap();
        client.connect(&path).unwrap();
        client.send(b"abc").await.unwrap();
        for length in 1..=3 {
            assert_eq!(server.recv(&mut [0; 4]).await.unwrap(), length);
        }
    });
}

/// An address that has no path is one all the same: whoever has sent from it is answered, also by who must wait for its
/// room.
#[cfg(target_os = "linux")]
#[test]
fn a_sender_without_a_path_is_answered() {
    on_runtimes(|| async {
        let unnamed = net::SocketAddr::from_pathname("").unwrap();
        let server = UnixDatagram::bind_addr(&unnamed).unwrap();
        let client = UnixDatagram::bind_addr(&unnamed).unwrap();
        let address = server.local_addr().unwrap();
        assert!(address.as_abstract_name().is_some_and(|name| !name.is_empty()));
        assert_eq!(
            UnixDatagram::bind_addr(&address).unwrap_err().kind(),
            ErrorKind::AddrInUse
        );

        client.connect_addr(&address).unwrap();
        client.send(b"ping").await.unwrap();
        let mut buffer = [0; 8];
        let (length, sender) = server.recv_from(&mut buffer).await.unwrap();
        assert_eq!(length, 4);
        let filled = (0..)
            .take_while(|_| server.try_send_to_addr(b"full", &sender).is_ok())
            .count();
        let answering = quadrille::spawn(async move { server.send_to_addr(b"at last", &sender).await });
        for _ in 0..filled {
            assert_eq!(client.recv(&mut buffer).await.unwrap(), 4);
        }
        assert_eq!(client.recv(&mut buffer).await.unwrap(), 7);
        assert_eq!(answering.await.unwrap().unwrap(), 7);
    });
}

/// Nobody can be at an address without a name.
#[test]
fn nothing_is_sent_to_who_has_no_address() {
    on_runtimes(|| async {
        let unnamed = net::SocketAddr::from_pathname("").unwrap();
        let socket = UnixDatagram::unbound().unwrap();
        let attempts = [
            socket.connect_addr(&unnamed),
            socket.send_to_addr(b"lost", &unnamed).await.map(drop),
            socket.try_send_to_addr(b"lost", &unnamed).map(drop),
        ];
        for attempt in attempts {
            assert_eq!(attempt.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    });
}

/// The receiver's queue is full of what another socket has sent: nothing tells this one when there is room.
#[test]
fn sending_waits_for_a_receiver_that_others_have_filled() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("server");
        let server = net::UnixDatagram::bind(&path).unwrap();
        let filled = fill(&path);
        let mut senders = JoinSet::new();
        for _ in 0..4 {
            let path = path.clone();
            senders.spawn(async move {
                let sender = UnixDatagram::unbound().unwrap();
                sender.send_to(b"at last", &path).await.unwrap();
            });
        }
        let receiver = thread::spawn(move || {
            let mut buffer = [0; 16];
            let lengths = (0..filled + 4).map(|_| server.recv(&mut buffer).unwrap());
            lengths.filter(|length| *length == 7).count()
        });
        assert_eq!(senders.join_all().await.len(), 4);
        assert_eq!(receiver.join().unwrap(), 4);
    });
}

/// Fills the receiver at `path`; how many datagrams that took.
fn fill(path: &Path) -> usize {
    let filler = UnixDatagram::unbound().unwrap();
    (0..).take_while(|_| filler.try_send_to(b"full", path).is_ok()).count()
}

/// An attempt that fails makes an event of the sender's own.
#[test]
fn sending_to_a_full_receiver_backs_off() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("server");
        let _server = net::UnixDatagram::bind(&path).unwrap();
        assert!(fill(&path) > 0);
        let sender = UnixDatagram::unbound().unwrap();
        let polls = || quadrille::Handle::current().metrics().total().polls;
        let before = polls();
        let outcome = timeout(Duration::from_millis(100), sender.send_to(b"one more", &path)).await;
        assert!(outcome.is_err(), "there is no room");
        let polls = polls() - before;
        assert!(polls < 50, "{polls} polls");
    });
}

/// Nobody makes room, so that nothing else ends it.
#[test]
fn sending_to_a_full_receiver_ends_with_the_runtime_of_the_sender() {
    watched(|| {
        let runtime = || Runtime::builder().worker_threads(1).build().unwrap();
        let (first, second) = (runtime(), runtime());
        let folder = Folder::new();
        let path = folder.join("server");
        let _server = net::UnixDatagram::bind(&path).unwrap();
        let sender = first.block_on(async {
            assert!(fill(&path) > 0);
            UnixDatagram::unbound().unwrap()
        });
        let (begins, begun) = channel();
        let sends = second.spawn(async move {
            let mut sending = Box::pin(sender.send_to(b"no room", &path));
            assert!(poll_once(&mut sending).await.is_none());
            begins.send(()).unwrap();
            sending.await
        });
        begun.recv().unwrap();
        drop(first);
        let error = second.block_on(sends).unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the runtime is shutting down");
    });
}

#[test]
fn a_full_receiver_does_not_hold_up_what_is_sent_to_another() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let (peer, full) = (folder.join("peer"), folder.join("full"));
        let receiver = net::UnixDatagram::bind(&peer).unwrap();
        let _full = net::UnixDatagram::bind(&full).unwrap();
        assert!(fill(&full) > 0);
        let sender = UnixDatagram::unbound().unwrap();
        sender.connect(&peer).unwrap();
        sender.writable().await.unwrap();
        let error = sender.try_send_to(b"no room", &full).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let sent = timeout(Duration::from_secs(10), sender.send(b"hello")).await;
        assert_eq!(sent.unwrap().unwrap(), 5);
        assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 5);
    });
}

#[test]
fn trying_and_polling() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let (left, right) = UnixDatagram::pair().unwrap();
        let mut buffer = [0; 4];
        assert_eq!(right.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        while left.try_send(b"a").is_ok() {}
        assert!(right.ready(Interest::READABLE).await.unwrap().is_readable());
        right.readable().await.unwrap();
        assert_eq!(right.try_recv_from(&mut buffer).unwrap().0, 1);
        while right.try_recv(&mut buffer).is_ok() {}
        left.writable().await.unwrap();
        poll_fn(|cx| left.poll_send_ready(cx)).await.unwrap();
        assert!(poll_once(poll_fn(|cx| right.poll_recv_ready(cx))).await.is_none());
        poll_fn(|cx| left.poll_send(cx, b"bc")).await.unwrap();
        poll_fn(|cx| left.poll_send(cx, b"def")).await.unwrap();
        poll_fn(|cx| right.poll_recv_ready(cx)).await.unwrap();
        assert_eq!(poll_fn(|cx| right.poll_recv(cx, &mut buffer)).await.unwrap(), 2);
        assert_eq!(poll_fn(|cx| right.poll_recv_from(cx, &mut buffer)).await.unwrap().0, 3);
        assert!(left.take_error().unwrap().is_none());
        let left = UnixDatagram::try_from(left.into_std()).unwrap();
        left.shutdown(Shutdown::Both).unwrap();
        assert_eq!(left.recv(&mut buffer).await.unwrap(), 0);
        assert_eq!(left.send(b"a").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        drop(folder);
    });
}

/// The socket has been shut down before, or is by another object that leads to it.
#[test]
fn receiving_ends_whoever_has_shut_it_down() {
    const LIMIT: Duration = Duration::from_secs(10);
    on_runtimes(|| async {
        let (left, right) = UnixDatagram::pair().unwrap();
        left.send(b"last").await.unwrap();
        right.shutdown(Shutdown::Read).unwrap();
        let right = UnixDatagram::from_std(right.into_std()).unwrap();
        let mut buffer = [0; 8];
        for length in [4, 0, 0] {
            let received = timeout(LIMIT, right.recv(&mut buffer)).await;
            assert_eq!(received.unwrap().unwrap(), length);
        }
        let (length, from) = timeout(LIMIT, right.recv_from(&mut buffer)).await.unwrap().unwrap();
        assert!(length == 0 && from.is_unnamed());

        let (_left, right) = net::UnixDatagram::pair().unwrap();
        let other = right.try_clone().unwrap();
        let right = UnixDatagram::from_std(right).unwrap();
        let mut receiving = Box::pin(right.recv(&mut buffer));
        assert!(poll_once(&mut receiving).await.is_none());
        other.shutdown(Shutdown::Both).unwrap();
        assert_eq!(timeout(LIMIT, receiving).await.unwrap().unwrap(), 0);
        assert_eq!(right.try_recv(&mut buffer).unwrap(), 0);
    });
}

/// The receiver is full and takes nothing, so that no event tells of the end.
#[test]
fn sending_that_waits_ends_when_it_is_shut_down() {
    const LIMIT: Duration = Duration::from_secs(10);
    on_runtimes(|| async {
        let (left, right) = UnixDatagram::pair().unwrap();
        while left.try_send(b"filling").is_ok() {}
        let mut sending = Box::pin(left.send(b"no room"));
        assert!(poll_once(&mut sending).await.is_none());
        left.shutdown(Shutdown::Write).unwrap();
        let error = timeout(LIMIT, sending).await.expect("it is told").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        right.send(b"back").await.unwrap();
        assert_eq!(left.recv(&mut [0; 8]).await.unwrap(), 4);
    });
}

#[test]
fn who_connects_still_receives_what_a_stranger_sent_before() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let [path, peer, other] = ["one", "two", "stranger"].map(|name| folder.join(name));
        let one = UnixDatagram::bind(&path).unwrap();
        let two = UnixDatagram::bind(&peer).unwrap();
        let stranger = UnixDatagram::bind(&other).unwrap();
        stranger.send_to(b"early", &path).await.unwrap();
        one.connect(&peer).unwrap();
        let error = stranger.send_to(b"late", &path).await.unwrap_err();
        if cfg!(target_os = "linux") {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        }
        let mut buffer = [0; 16];
        let (length, from) = one.recv_from(&mut buffer).await.unwrap();
        assert_eq!((length, from.as_pathname()), (5, Some(other.as_path())));
        if cfg!(target_os = "linux") {
            two.send_to(b"not received", &path).await.unwrap();
            one.connect(&other).unwrap();
            assert_eq!(one.try_recv(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    });
}

/// A sender that never waits, because nobody is there, spends its budget all the same.
#[test]
fn a_sender_to_nobody_lets_others_run() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let nobody = folder.join("nobody");
        let workers = quadrille::Handle::current().worker_count();
        let senders: Vec<_> = (0..workers)
            .map(|_| {
                let (socket, nobody) = (UnixDatagram::unbound().unwrap(), nobody.clone());
                quadrille::spawn(async move {
                    loop {
                        socket.send_to(b"is anybody there?", &nobody).await.unwrap_err();
                    }
                })
            })
            .collect();
        quadrille::spawn(async {}).await.unwrap();
        senders.iter().for_each(quadrille::JoinHandle::abort);
    });
}
