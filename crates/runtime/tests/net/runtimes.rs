//! Sockets and the runtimes that they belong to: shutdown, and moving from one to another.

use std::future::poll_fn;
use std::io::{Read, Write};
use std::net;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::Poll;

use futures_lite::future::poll_once;
use quadrille::io::Interest;
use quadrille::net::{TcpListener, TcpStream, UdpSocket, UnixDatagram, UnixListener, UnixStream};
use quadrille::{Handle, Runtime, Wait};

use crate::temporary::Folder;
use crate::watched::watched;

fn runtime() -> Runtime {
    Runtime::builder().worker_threads(2).build().unwrap()
}

fn runtime_of_one() -> Runtime {
    Runtime::builder().worker_threads(1).build().unwrap()
}

/// Everything that waits is dropped, and so its sockets are closed.
#[test]
fn a_runtime_ends_with_everything_waiting() {
    watched(|| {
        let alive = Arc::new(());
        let runtime = runtime();
        let (waits, waiting) = channel();
        let address = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let peer = net::TcpStream::connect(address).unwrap();
            let (stream, _) = listener.accept().await.unwrap();
            waits.send(peer).unwrap();
            let keep = || Arc::clone(&alive);
            let (a, b, c, d) = (keep(), keep(), keep(), keep());
            drop(quadrille::spawn(async move {
                let _ = (stream.read(&mut [0]).await, a);
            }));
            drop(quadrille::spawn(async move {
                loop {
                    let _ = (listener.accept().await.unwrap(), &b);
                }
            }));
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            drop(quadrille::spawn(async move {
                let _ = (socket.recv_from(&mut [0]).await, c);
            }));
            let (left, right) = UnixDatagram::pair().unwrap();
            drop(quadrille::spawn(async move {
                let _ = (left.recv(&mut [0]).await, right, d);
            }));
            // All have begun to wait: they were spawned before, and a connection is accepted by one of them.
            let stream = TcpStream::connect(address).await.unwrap();
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
            address
        });
        let thread = runtime.spawn_thread({
            let alive = Arc::clone(&alive);
            move || {
                let (left, right) = UnixStream::pair().unwrap();
                let _ = left.read(&mut [0]).wait();
                drop((right, alive));
            }
        });
        drop(runtime);
        assert!(thread.is_finished());
        drop(thread);
        assert_eq!(Arc::strong_count(&alive), 1);
        let mut peer = waiting.recv().unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0, "its other end is closed");
        assert!(net::TcpStream::connect(address).is_err(), "nobody listens any more");
    });
}

#[test]
fn sockets_that_outlive_their_runtime_answer_with_an_error() {
    watched(|| {
        let runtime = runtime();
        let (left, right) = runtime.block_on(async { UnixStream::pair().unwrap() });
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        drop(runtime);
        let other = self::runtime();
        other.block_on(async {
            assert!(left.read(&mut [0]).await.is_err());
            assert!(left.readable().await.is_err());
            assert!(listener.accept().await.is_err());
            // Without the runtime, as far as that goes.
            assert_eq!(right.try_write(b"a").unwrap(), 1);
            assert_eq!(left.try_read(&mut [0; 2]).unwrap(), 1);
            // And in another runtime as ever.
            let left = UnixStream::from_std(left.into_std()).unwrap();
            right.try_write(b"b").unwrap();
            assert_eq!(left.read(&mut [0; 2]).await.unwrap(), 1);
        });
    });
}

/// A server that logs what its sockets say, and goes on, would tell of an error each time it ends.
#[test]
fn tasks_are_dropped_with_their_runtime_and_not_told() {
    watched(|| {
        let runtime = runtime_of_one();
        let pair = || runtime.block_on(async { UnixStream::pair().unwrap() });
        let ((left, _right), (outside, _other), (waiting, _peer)) = (pair(), pair(), pair());
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        // Of a runtime that goes on, with somebody who asks to be accepted.
        let other = runtime_of_one();
        let pending = other.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = pending.local_addr().unwrap();
        let folder = Folder::new();
        let path = folder.join("socket");
        let unix = other.block_on(async { UnixListener::bind(&path).unwrap() });
        let (_tcp, _unix) = (
            net::TcpStream::connect(address).unwrap(),
            std::os::unix::net::UnixStream::connect(&path).unwrap(),
        );
        let polls = Arc::new(AtomicUsize::new(0));
        let (begins, begun) = channel();
        drop(runtime.spawn({
            let (polls, begins) = (Arc::clone(&polls), begins.clone());
            poll_fn(move |cx| {
                polls.fetch_add(1, Ordering::Relaxed);
                let poll = waiting.poll_read(cx, &mut [0]);
                let _ = begins.send(());
                poll
            })
        }));
        begun.recv().unwrap();
        let (closes, closed) = channel();
        let (answers, answered) = channel();
        drop(runtime.spawn(async move {
            begins.send(()).unwrap();
            // Holds up its worker meanwhile.
            closed.recv().unwrap();
            let _ = answers.send(poll_once(left.read(&mut [0])).await.is_some());
            let _ = answers.send(poll_once(left.readable()).await.is_some());
            let _ = answers.send(poll_once(left.ready(Interest::READABLE)).await.is_some());
            let _ = answers.send(poll_once(poll_fn(|cx| left.poll_read_ready(cx))).await.is_some());
            let _ = answers.send(poll_once(listener.accept()).await.is_some());
            // It is the task's runtime that ends, whichever is the current one.
            let elsewhere = poll_fn(|cx| {
                let _entered = other.enter();
                Poll::Ready(left.poll_read_ready(cx).is_ready())
            });
            let _ = answers.send(elsewhere.await);
            // What would be watched from now on.
            let _ = answers.send(poll_once(pending.accept()).await.is_some());
            let _ = answers.send(poll_once(poll_fn(|cx| unix.poll_accept(cx))).await.is_some());
            let _ = answers.send(poll_once(TcpListener::bind("127.0.0.1:0")).await.is_some());
            let _ = answers.send(poll_once(UdpSocket::bind("127.0.0.1:0")).await.is_some());
            let _ = answers.send(poll_once(TcpStream::connect(address)).await.is_some());
            let _ = answers.send(poll_once(UnixStream::connect(&path)).await.is_some());
            let _ = answers.send(left.read(&mut [0]).await.is_ok());
        }));
        begun.recv().unwrap();
        // A thread that is none of the runtime's hears of the end, and so knows that it has come so far.
        let thread = std::thread::spawn(move || closes.send(outside.readable().wait().is_err()).unwrap());
        drop(runtime);
        thread.join().unwrap();
        assert_eq!(answered.iter().collect::<Vec<_>>(), [false; 12]);
        assert_eq!(polls.load(Ordering::Relaxed), 1, "nor are they woken");
    });
}

#[test]
fn a_connection_moves_from_one_runtime_to_another() {
    watched(|| {
        const ROUNDS: usize = 20;
        let runtimes = [runtime(), runtime()];
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let mut moving = client;
        for round in 0..ROUNDS {
            let runtime = &runtimes[round % 2];
            let task = runtime.spawn(async move {
                let stream = TcpStream::from_std(moving).unwrap();
                stream.write_all(b"ping").await.unwrap();
                let mut buffer = [0; 4];
                stream.read_exact(&mut buffer).await.unwrap();
                assert_eq!(&buffer, b"pong");
                stream.into_std()
            });
            let mut buffer = [0; 4];
            peer.read_exact(&mut buffer).unwrap();
            assert_eq!(&buffer, b"ping");
            peer.write_all(b"pong").unwrap();
            moving = runtime.block_on(task).unwrap();
        }
    });
}

#[test]
fn a_socket_can_be_used_from_the_tasks_of_another_runtime() {
    watched(|| {
        let (one, two) = (runtime(), runtime());
        let (left, right) = one.block_on(async { UnixStream::pair().unwrap() });
        let echo = two.spawn(async move {
            let mut buffer = [0; 16];
            loop {
                match right.read(&mut buffer).await.unwrap() {
                    0 => break,
                    count => right.write_all(&buffer[..count]).await.unwrap(),
                }
            }
        });
        one.block_on(async {
            for round in 0..=255 {
                left.write_all(&[round]).await.unwrap();
                let mut byte = [0];
                left.read_exact(&mut byte).await.unwrap();
                assert_eq!(byte, [round]);
            }
            drop(left);
        });
        two.block_on(echo).unwrap();
    });
}

#[test]
fn threads_of_the_system_wait_too() {
    watched(|| {
        let runtime = runtime();
        let _entered = runtime.enter();
        let listener = TcpListener::bind("127.0.0.1:0").wait().unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn({
            let handle = runtime.handle().clone();
            move || {
                let _entered = handle.enter();
                let stream = TcpStream::connect(address).wait().unwrap();
                stream.write_all(b"hello").wait().unwrap();
                stream.read(&mut [0; 16]).wait().unwrap()
            }
        });
        let (stream, _) = listener.accept().wait().unwrap();
        stream.read_exact(&mut [0; 5]).wait().unwrap();
        stream.write_all(b"bye").wait().unwrap();
        assert_eq!(client.join().unwrap(), 3);
    });
}

/// What such a thread accepts belongs to the runtime of the listener, unless it has entered another.
#[test]
fn a_thread_in_no_runtime_accepts() {
    watched(|| {
        let folder = Folder::new();
        let runtime = runtime();
        let (tcp, unix) = runtime.block_on(async {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            (tcp, UnixListener::bind(folder.join("listener")).unwrap())
        });
        assert!(Handle::try_current().is_none());
        for by_poll in [false, true] {
            let mut peer = net::TcpStream::connect(tcp.local_addr().unwrap()).unwrap();
            let accepted = if by_poll {
                poll_fn(|cx| tcp.poll_accept(cx)).wait()
            } else {
                tcp.accept().wait()
            };
            let (stream, _) = accepted.unwrap();
            peer.write_all(b"ping").unwrap();
            stream.read_exact(&mut [0; 4]).wait().unwrap();
            stream.write_all(b"pong").wait().unwrap();
            peer.read_exact(&mut [0; 4]).unwrap();

            let mut peer = std::os::unix::net::UnixStream::connect(folder.join("listener")).unwrap();
            let accepted = if by_poll {
                poll_fn(|cx| unix.poll_accept(cx)).wait()
            } else {
                unix.accept().wait()
            };
            let (stream, _) = accepted.unwrap();
            peer.write_all(b"ping").unwrap();
            stream.read_exact(&mut [0; 4]).wait().unwrap();
            stream.write_all(b"pong").wait().unwrap();
            peer.read_exact(&mut [0; 4]).unwrap();
        }
    });
}

/// What is accepted in another runtime lives on when that of the listener ends.
#[test]
fn what_is_accepted_belongs_to_the_runtime_that_is_entered() {
    watched(|| {
        let (one, two) = (runtime(), runtime());
        let listener = one.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let mut peer = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = two.block_on(listener.accept()).unwrap();
        drop(one);
        peer.write_all(b"ping").unwrap();
        two.block_on(stream.read_exact(&mut [0; 4])).unwrap();
    });
}

/// A thread that is no worker watches for each cache in turn.
#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_watched_once_for_each_cache() {
    use std::io::ErrorKind;

    use quadrille::io::AsyncFd;

    let machine = "llc:2 core:1".parse().unwrap();
    let runtime = Runtime::builder().topology(machine).build().unwrap();
    let _guard = runtime.enter();
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    let watches: Vec<_> = (0..2).map(|_| AsyncFd::new(&socket).unwrap()).collect();
    for _ in 0..2 {
        assert_eq!(AsyncFd::new(&socket).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    drop(watches);
    AsyncFd::new(&socket).unwrap();
}

/// Also a listener, which knows its runtime.
#[test]
fn sockets_may_be_seen_after_a_panic_and_by_other_threads() {
    fn check<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}
    check::<TcpListener>();
    check::<TcpStream>();
    check::<UdpSocket>();
    check::<UnixListener>();
    check::<UnixStream>();
    check::<UnixDatagram>();
}
