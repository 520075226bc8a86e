//! Listening, connecting, reading and writing.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{self, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures_lite::future::poll_once;
use futures_lite::{AsyncReadExt, AsyncWriteExt, StreamExt};
use quadrille::io::Interest;
use quadrille::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use quadrille::time::timeout;
use quadrille::{JoinSet, Wait};

use crate::watched::{on_runtimes, watched};

/// A listener on a port of its own.
pub(crate) async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connection: our end, and one of std's.
pub(crate) async fn connection() -> (TcpStream, net::TcpStream) {
    let (listener, address) = listen().await;
    let theirs = net::TcpStream::connect(address).unwrap();
    let (ours, _) = listener.accept().await.unwrap();
    (ours, theirs)
}

/// Sends back what comes, until nothing does.
async fn echo(stream: TcpStream) -> io::Result<()> {
    // Answers in several parts shall not wait for each other's acknowledgement.
    stream.set_nodelay(true)?;
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count]).await?,
        }
    }
}

/// Sends messages of `length` bytes, and expects each back.
fn converse(stream: &mut net::TcpStream, messages: usize, length: usize) {
    for message in 0..messages {
        let sent: Vec<u8> = (0..length).map(|index| (message + index).to_le_bytes()[0]).collect();
        stream.write_all(&sent).unwrap();
        let mut received = vec![0; length];
        stream.read_exact(&mut received).unwrap();
        assert!(sent == received);
    }
}

#[test]
fn a_server_of_tasks_answers_clients_of_std() {
    on_runtimes(|| async {
        const CLIENTS: usize = 16;
        let (listener, address) = listen().await;
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                thread::spawn(move || {
                    let mut stream = net::TcpStream::connect(address).unwrap();
                    // Some messages are shorter than the server's buffer, one is as long, some are longer.
                    converse(&mut stream, 50, 1 << (client % 14));
                })
            })
            .collect();
        let mut served = JoinSet::new();
        for _ in 0..CLIENTS {
            let (stream, _) = listener.accept().await.unwrap();
            served.spawn(echo(stream));
        }
        for outcome in served.join_all().await {
            outcome.unwrap();
        }
        for client in clients {
            client.join().unwrap();
        }
    });
}

#[test]
fn a_client_talks_to_a_server_of_std() {
    on_runtimes(|| async {
        let listener = net::TcpListener::bind("localhost:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
        });
        let client = TcpStream::connect(("localhost", address.port())).await.unwrap();
        assert_eq!(client.peer_addr().unwrap(), address);
        let sent = vec![7; 3_000_000];
        client.write_all(&sent).await.unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut received = vec![0; sent.len()];
        client.read_exact(&mut received).await.unwrap();
        assert!(sent == received);
        assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
        server.join().unwrap();
    });
}

#[test]
fn threads_use_the_same_sockets() {
    watched(|| {
        let runtime = quadrille::Runtime::new().unwrap();
        let server = runtime.spawn_thread(|| {
            let listener = TcpListener::bind("127.0.0.1:0").wait().unwrap();
            let address = listener.local_addr().unwrap();
            let clients: Vec<_> = (0..8)
                .map(|_| thread::spawn(move || converse(&mut net::TcpStream::connect(address).unwrap(), 50, 100)))
                .collect();
            let threads: Vec<_> = clients
                .iter()
                .map(|_| {
                    let (stream, _) = listener.accept().wait().unwrap();
                    quadrille::thread::spawn(move || {
                        let mut buffer = [0; 64];
                        loop {
                            match stream.read(&mut buffer).wait().unwrap() {
                                0 => break,
                                count => stream.write_all(&buffer[..count]).wait().unwrap(),
                            }
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            clients
        });
        for client in server.join().unwrap() {
            client.join().unwrap();
        }
    });
}

#[test]
fn the_first_address_that_works_is_taken() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        // Its port is nobody else's as long as it is there, and isn't listened at.
        let bound = TcpSocket::new_v4().unwrap();
        bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let nobody = bound.local_addr().unwrap();
        let error = TcpStream::connect(nobody).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let client = TcpStream::connect(&[nobody, address][..]).await.unwrap();
        assert_eq!(client.peer_addr().unwrap(), address);
        let (server, from) = listener.accept().await.unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        assert_eq!(server.peer_addr().unwrap(), from);

        let error = TcpListener::bind(address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let other = TcpListener::bind(&[address, "127.0.0.1:0".parse().unwrap()][..])
            .await
            .unwrap();
        assert_ne!(other.local_addr().unwrap(), address);
    });
}

#[test]
fn a_name_without_a_port_is_an_error_that_says_so() {
    on_runtimes(|| async {
        let error = TcpStream::connect("localhost").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"localhost\""), "{error}");
    });
}

#[test]
fn peeking_takes_nothing() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        theirs.write_all(b"abc").unwrap();
        let mut buffer = [0; 8];
        for _ in 0..3 {
            assert_eq!(ours.peek(&mut buffer).await.unwrap(), 3);
        }
        assert_eq!(ours.read(&mut buffer).await.unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
        drop(theirs);
        assert_eq!(ours.peek(&mut buffer).await.unwrap(), 0);
    });
}

#[test]
fn several_buffers_are_read_and_written_at_once() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        assert_eq!(ours.write_vectored(&parts).await.unwrap(), 5);
        let mut all = [0; 5];
        theirs.read_exact(&mut all).unwrap();
        assert_eq!(&all, b"abcde");

        theirs.write_all(b"fghij").unwrap();
        let (mut first, mut second) = ([0; 2], [0; 9]);
        let count = ours
            .read_vectored(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)])
            .await
            .unwrap();
        assert_eq!((count, &first, &second[..3]), (5, b"fg", &b"hij"[..]));
    });
}

/// The system takes 1024 at a time, which is less than was offered, though there is room or data for more.
#[test]
fn more_buffers_than_the_system_takes() {
    on_runtimes(|| async {
        const BUFFERS: usize = 5000;
        let (ours, mut theirs) = connection().await;
        let (left, right) = UnixStream::pair().unwrap();
        let bytes: Vec<u8> = (0..BUFFERS).map(|index| index.to_le_bytes()[0]).collect();
        let parts: Vec<_> = bytes.chunks(1).map(IoSlice::new).collect();
        for unix in [false, true] {
            let mut written = 0;
            while written < BUFFERS {
                let parts = &parts[written..];
                written += if unix {
                    left.write_vectored(parts).await.unwrap()
                } else {
                    ours.write_vectored(parts).await.unwrap()
                };
            }
        }
        let mut received = vec![0; BUFFERS];
        theirs.read_exact(&mut received).unwrap();
        assert!(received == bytes);

        theirs.write_all(&bytes).unwrap();
        for unix in [false, true] {
            let mut received = vec![0; BUFFERS];
            let mut read = 0;
            while read < BUFFERS {
                let mut parts: Vec<_> = received[read..].chunks_mut(1).map(IoSliceMut::new).collect();
                read += if unix {
                    right.read_vectored(&mut parts).await.unwrap()
                } else {
                    ours.read_vectored(&mut parts).await.unwrap()
                };
            }
            assert!(received == bytes);
        }
    });
}

#[test]
fn operations_of_others_wait_like_ours() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let receive = || rustix::net::recv(&ours, &mut [0; 8][..], rustix::net::RecvFlags::empty());
        let nothing = ours.try_io(Interest::READABLE, || Ok(receive()?.1)).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        let reader = thread::spawn(move || {
            theirs.write_all(b"abc").unwrap();
            theirs
        });
        let both = Interest::READABLE | Interest::WRITABLE;
        let count = ours.async_io(both, || Ok(receive()?.1)).await.unwrap();
        assert_eq!(count, 3);
        let mut theirs = reader.join().unwrap();
        theirs.write_all(b"de").unwrap();
        assert_eq!(ours.async_io(Interest::READABLE, || Ok(receive()?.1)).await.unwrap(), 2);
    });
}

/// What finds nothing to read says nothing of the room to write, which makes no second event.
#[test]
fn an_operation_that_needs_both_sides_keeps_the_one_that_is_ready() {
    const LIMIT: Duration = Duration::from_secs(10);
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let receive = || Ok(rustix::net::recv(&ours, &mut [0; 8][..], rustix::net::RecvFlags::empty())?.1);
        let both = Interest::READABLE | Interest::WRITABLE;
        ours.writable().await.unwrap();
        assert_eq!(ours.try_io(both, receive).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(poll_once(ours.ready(both)).await.is_none(), "a loop around both waits");
        timeout(LIMIT, ours.write_all(b"a")).await.unwrap().unwrap();
        // By the traits of futures-io as well.
        assert_eq!(ours.try_io(both, receive).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut writer = &ours;
        let written = timeout(LIMIT, AsyncWriteExt::write(&mut writer, b"a"));
        assert_eq!(written.await.unwrap().unwrap(), 1);

        let attempts = AtomicUsize::new(0);
        let counted = || {
            // Ordering: Relaxed; one task counts.
            attempts.fetch_add(1, Ordering::Relaxed);
            receive()
        };
        let mut waits = Box::pin(ours.async_io(both, counted));
        assert!(poll_once(&mut waits).await.is_none());
        assert!(poll_once(&mut waits).await.is_none());
        assert_eq!(
            attempts.load(Ordering::Relaxed),
            1,
            "it waits for what is missing alone"
        );
        drop(waits);
        timeout(LIMIT, ours.write_all(b"b")).await.unwrap().unwrap();

        // The other way round: the reading side is ready, whatever else is missing.
        while ours.try_write(&[0; 65536]).is_ok() {}
        theirs.write_all(b"cd").unwrap();
        ours.readable().await.unwrap();
        let nothing = ours.try_io(both, || Err::<(), _>(ErrorKind::WouldBlock.into()));
        assert_eq!(nothing.unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut buffer = [0; 1];
        assert_eq!(timeout(LIMIT, ours.read(&mut buffer)).await.unwrap().unwrap(), 1);
        assert_eq!(ours.async_io(both, receive).await.unwrap(), 1);
    });
}

/// Both sides are ready, and what it waits for is neither: it waits for an event, and holds nobody up.
#[test]
fn an_operation_that_waits_for_something_else_waits_for_the_next_event() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        theirs.write_all(b"a").unwrap();
        ours.readable().await.unwrap();
        ours.writable().await.unwrap();
        let attempts = AtomicUsize::new(0);
        let both = Interest::READABLE | Interest::WRITABLE;
        let mut waits = Box::pin(ours.async_io(both, || {
            // Ordering: Relaxed; one task counts.
            if attempts.fetch_add(1, Ordering::Relaxed) < 2 {
                Err(ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        }));
        assert!(poll_once(&mut waits).await.is_none());
        assert!(poll_once(&mut waits).await.is_none());
        // Ordering: Relaxed; one task counts.
        let so_far = attempts.load(Ordering::Relaxed);
        assert!(so_far <= 2, "an event may have come late: {so_far}");
        while poll_once(&mut waits).await.is_none() {
            theirs.write_all(b"b").unwrap();
            ours.readable().await.unwrap();
        }
    });
}

#[test]
fn trying_does_not_wait() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let mut buffer = [0; 4];
        assert_eq!(ours.try_read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        theirs.write_all(b"abcdef").unwrap();
        ours.readable().await.unwrap();
        assert_eq!(ours.try_read(&mut buffer).unwrap(), 4);
        assert_eq!(ours.try_read(&mut buffer).unwrap(), 2);
        assert_eq!(ours.try_read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);

        // To the last byte that fits, and on when there is room.
        let chunk = [1; 65536];
        let mut written = 0;
        let full = loop {
            match ours.try_write(&chunk) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
        let reader = thread::spawn(move || {
            let mut all = vec![0; written];
            theirs.read_exact(&mut all).unwrap();
            theirs
        });
        ours.writable().await.unwrap();
        assert!(ours.try_write(b"a").unwrap() > 0);
        drop(reader.join().unwrap());
    });
}

#[test]
fn waiting_for_either_side_says_which() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        let ready = ours.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap();
        assert!(ready.is_writable());
        theirs.write_all(b"a").unwrap();
        let ready = ours.ready(Interest::READABLE).await.unwrap();
        assert!(ready.is_readable() && !ready.is_writable());
        ours.read(&mut [0]).await.unwrap();
    });
}

/// Whoever never reads what is there, and asks for both, is told of room all the same.
#[test]
fn who_asks_for_either_side_hears_of_both_in_the_end() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        theirs.write_all(b"a").unwrap();
        ours.readable().await.unwrap();
        loop {
            let ready = ours.ready(Interest::READABLE | Interest::WRITABLE).await.unwrap();
            assert!(ready.is_readable());
            if ready.is_writable() {
                break;
            }
        }
    });
}

#[test]
fn a_peer_that_ends_writing_still_reads() {
    on_runtimes(|| async {
        let (ours, mut theirs) = connection().await;
        theirs.write_all(b"last words").unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        // More room than there are bytes: the end has come together with them, and must not be forgotten.
        let mut buffer = [0; 64];
        assert_eq!(ours.read(&mut buffer).await.unwrap(), 10);
        assert_eq!(ours.read(&mut buffer).await.unwrap(), 0);
        ours.write_all(b"answer").await.unwrap();
        drop(ours);
        let mut answer = String::new();
        theirs.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
    });
}

#[test]
fn the_traits_of_futures_io_work() {
    on_runtimes(|| async {
        let (mut ours, mut theirs) = connection().await;
        let client = thread::spawn(move || {
            theirs.write_all(b"one\ntwo\n").unwrap();
            theirs.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            theirs.read_to_end(&mut answer).unwrap();
            answer
        });
        let mut text = String::new();
        AsyncReadExt::read_to_string(&mut &ours, &mut text).await.unwrap();
        assert_eq!(text, "one\ntwo\n");
        AsyncWriteExt::write_all(&mut ours, &[b'x'; 500_000]).await.unwrap();
        ours.flush().await.unwrap();
        ours.close().await.unwrap();
        ours.close().await.unwrap();
        assert_eq!(client.join().unwrap().len(), 500_000);
    });
}

#[test]
fn a_listener_is_a_stream_of_connections() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        let clients: Vec<_> = (0..3).map(|_| net::TcpStream::connect(address).unwrap()).collect();
        let mut ports = Vec::new();
        let mut incoming = listener.incoming();
        for _ in &clients {
            let stream = incoming.next().await.unwrap().unwrap();
            ports.push(stream.peer_addr().unwrap());
        }
        let expected: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
        assert_eq!(ports, expected);

        // One that has the listener goes to a task, and gives it back.
        let mut incoming = listener.into_incoming();
        assert_eq!(incoming.as_ref().local_addr().unwrap(), address);
        let accepts = quadrille::spawn(async move {
            let stream = incoming.next().await.unwrap().unwrap();
            (stream.peer_addr().unwrap(), incoming.into_inner())
        });
        let client = net::TcpStream::connect(address).unwrap();
        let (peer, listener) = accepts.await.unwrap();
        assert_eq!(
            (peer, listener.local_addr().unwrap()),
            (client.local_addr().unwrap(), address)
        );
    });
}

#[test]
fn sockets_go_to_std_and_come_back() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        let listener = TcpListener::from_std(listener.into_std()).unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let client = TcpStream::from_std(client.into_std()).unwrap();
        client.write_all(b"a").await.unwrap();
        let server = TcpStream::from_std(server.into_std()).unwrap();
        assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 1);

        // By a conversion as well.
        let listener = TcpListener::try_from(listener.into_std()).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);
        let client = TcpStream::try_from(client.into_std()).unwrap();
        client.write_all(b"bc").await.unwrap();
        assert_eq!(server.read(&mut [0; 9]).await.unwrap(), 2);
    });
}

/// Each cache accepts on a worker of its own, and no connection is without an answer.
#[test]
fn every_cache_accepts_from_a_listener_of_its_own() {
    watched(|| {
        let machine = "node:1 llc:3 core:2".parse().unwrap();
        let runtime = quadrille::Runtime::builder().topology(machine).build().unwrap();
        let handle = runtime.handle();
        let caches = handle.workers_by_llc();
        let listeners = runtime.block_on(TcpListener::bind_several("127.0.0.1:0", 3)).unwrap();
        let address = listeners[0].local_addr().unwrap();
        for (listener, workers) in listeners.into_iter().zip(caches) {
            assert_eq!(listener.local_addr().unwrap(), address);
            let (listener, worker) = (listener.into_std(), workers[1]);
            handle.spawn_pinned_on(worker, move || async move {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let name = thread::current().name().map(str::to_owned);
                    assert_eq!(name, Some(format!("quadrille-{worker}")));
                    quadrille::spawn(async move { stream.write_all(&[u8::try_from(worker).unwrap()]).await });
                }
            });
        }
        for _ in 0..50 {
            let mut worker = [0];
            let mut client = net::TcpStream::connect(address).unwrap();
            client.read_exact(&mut worker).unwrap();
            assert!([1, 3, 5].contains(&worker[0]), "{worker:?}");
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_listener_says_which_cpu_it_asks_for() {
    on_runtimes(|| async {
        let (listener, address) = listen().await;
        assert_eq!(listener.incoming_cpu().unwrap(), None);
        listener.set_incoming_cpu(0).unwrap();
        assert_eq!(listener.incoming_cpu().unwrap(), Some(0));
        // A wish: the only one at the address gets all.
        listener.set_incoming_cpu(4095).unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        assert_eq!(listener.accept().await.unwrap().1, client.local_addr().unwrap());
        let error = listener.set_incoming_cpu(1 << 31).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("2147483648"), "{error}");
    });
}
