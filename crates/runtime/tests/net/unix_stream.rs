//! Streams of the Unix domain.

use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use futures_lite::future::poll_once;
use futures_lite::{AsyncRead, AsyncReadExt, StreamExt};
use quadrille::net::{UnixListener, UnixStream};
use quadrille::{JoinSet, Runtime};

use crate::temporary::Folder;
use crate::watched::{on_runtimes, watched};

#[test]
fn a_server_answers_clients_of_std() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(path.as_path()));
        let clients: Vec<_> = (0..8_u8)
            .map(|client| {
                let path = path.clone();
                thread::spawn(move || {
                    let mut stream = net::UnixStream::connect(path).unwrap();
                    for round in 0..100 {
                        let sent = [client ^ round; 3000];
                        stream.write_all(&sent).unwrap();
                        let mut received = [0; 3000];
                        stream.read_exact(&mut received).unwrap();
                        assert_eq!(sent, received);
                    }
                })
            })
            .collect();
        let mut served = JoinSet::new();
        for _ in &clients {
            let (stream, address) = listener.accept().await.unwrap();
            assert!(address.is_unnamed());
            served.spawn(async move {
                // Once with a buffer for which the system is asked whether there is more, once without.
                let mut buffer = vec![0; if served_much(&stream) { 4096 } else { 500 }];
                loop {
                    match stream.read(&mut buffer).await.unwrap() {
                        0 => break,
                        count => stream.write_all(&buffer[..count]).await.unwrap(),
                    }
                }
            });
        }
        served.join_all().await;
        for client in clients {
            client.join().unwrap();
        }
    });
}

/// Half of the connections, by their descriptor.
fn served_much(stream: &UnixStream) -> bool {
    use std::os::fd::AsRawFd;
    stream.as_raw_fd() % 2 == 0
}

#[test]
fn connecting_says_what_is_wrong() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("socket");
        let kind = |error: io::Error| error.kind();
        assert_eq!(
            UnixStream::connect(&path).await.map_err(kind).unwrap_err(),
            ErrorKind::NotFound
        );
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(
            UnixStream::connect(&path).await.map_err(kind).unwrap_err(),
            ErrorKind::ConnectionRefused
        );
        assert_eq!(
            UnixListener::bind(&path).map_err(kind).unwrap_err(),
            ErrorKind::AddrInUse
        );
        let long = folder.join(&"x".repeat(200));
        assert_eq!(
            UnixStream::connect(long).await.map_err(kind).unwrap_err(),
            ErrorKind::InvalidInput
        );
    });
}

/// A listener at `path` whose queue has room for very few.
fn listener_of_few(path: &Path) -> socket2::Socket {
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    socket.bind(&socket2::SockAddr::unix(path).unwrap()).unwrap();
    socket.listen(1).unwrap();
    socket
}

/// Those for whom the queue has no room are told nothing when there is some again.
#[test]
fn connecting_waits_while_the_queue_is_full() {
    on_runtimes(|| async {
        const CLIENTS: usize = 12;
        let folder = Folder::new();
        let path = folder.join("socket");
        let socket = listener_of_few(&path);
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            let path = path.clone();
            clients.spawn(async move {
                let stream = UnixStream::connect(path).await.unwrap();
                stream.read_exact(&mut [0]).await.unwrap();
            });
        }
        let listener = UnixListener::from_std(socket.into()).unwrap();
        for _ in 0..CLIENTS {
            let (stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"x").await.unwrap();
        }
        assert_eq!(clients.join_all().await.len(), CLIENTS);
    });
}

/// Of a thread that nobody drops with the runtime. Nobody accepts, so that nothing else ends it.
#[test]
fn connecting_to_a_full_queue_ends_with_the_runtime() {
    watched(|| {
        let runtime = Runtime::builder().worker_threads(1).build().unwrap();
        let folder = Folder::new();
        let path = folder.join("socket");
        let _listener = listener_of_few(&path);
        let handle = runtime.handle().clone();
        let (begins, begun) = channel();
        let connects = thread::spawn(move || {
            handle.block_on(async {
                let mut connected = Vec::new();
                loop {
                    let mut connecting = Box::pin(UnixStream::connect(&path));
                    match poll_once(&mut connecting).await {
                        Some(stream) => connected.push(stream.unwrap()),
                        None => {
                            begins.send(()).unwrap();
                            return connecting.await.unwrap_err();
                        }
                    }
                }
            })
        });
        begun.recv().unwrap();
        drop(runtime);
        assert_eq!(connects.join().unwrap().to_string(), "the runtime is shutting down");
    });
}

#[test]
fn names_without_a_file() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let name = folder.path().to_str().unwrap().to_owned() + "-abstract";
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let client = UnixStream::connect_addr(&address).await.unwrap();
        assert_eq!(client.peer_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
        let (server, from) = listener.accept().await.unwrap();
        assert!(from.is_unnamed() && server.peer_addr().unwrap().is_unnamed());

        // One whose client has a name, too.
        let own = SocketAddr::from_abstract_name(name + "-client").unwrap();
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        let raw = |address: &SocketAddr| {
            let name = [&[0], address.as_abstract_name().unwrap()].concat();
            socket2::SockAddr::unix(String::from_utf8(name).unwrap()).unwrap()
        };
        socket.bind(&raw(&own)).unwrap();
        socket.connect(&raw(&address)).unwrap();
        let (_, from) = listener.accept().await.unwrap();
        assert_eq!(from.as_abstract_name(), own.as_abstract_name());
        let unnamed = net::UnixStream::pair().unwrap().0.local_addr().unwrap();
        assert_eq!(
            UnixStream::connect_addr(&unnamed).await.unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}

#[test]
fn a_path_that_begins_with_a_zero_byte_names_no_file() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let name = folder.path().to_str().unwrap().to_owned() + "-zero";
        let path = format!("\0{name}");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_abstract_name(), Some(name.as_bytes()));
        let client = UnixStream::connect(&path).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        server.write_all(b"a").await.unwrap();
        assert_eq!(client.read(&mut [0; 2]).await.unwrap(), 1);
        assert_eq!(UnixListener::bind(&path).unwrap_err().kind(), ErrorKind::AddrInUse);
    });
}

#[test]
fn credentials_are_those_of_this_process() {
    on_runtimes(|| async {
        let (left, _right) = UnixStream::pair().unwrap();
        let credentials = left.peer_cred().unwrap();
        assert_eq!(credentials.pid(), Some(std::process::id().cast_signed()));
        let folder = Folder::new();
        let metadata = std::fs::metadata(folder.path()).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((credentials.uid(), credentials.gid()), (metadata.uid(), metadata.gid()));
    });
}

#[test]
fn halves_of_both_kinds() {
    on_runtimes(|| async {
        let (mut left, right) = UnixStream::pair().unwrap();
        {
            let (reader, writer) = left.split();
            writer.write_all(b"ab").await.unwrap();
            assert_eq!(right.peek(&mut [0; 8]).await.unwrap(), 2);
            right.write_all(b"c").await.unwrap();
            assert_eq!(reader.read(&mut [0; 8]).await.unwrap(), 1);
        }
        let (reader, writer) = left.into_split();
        let left = reader.reunite(writer).unwrap();
        let (reader, writer) = left.into_split();
        drop(writer);
        let mut all = String::new();
        let mut right_end = &right;
        AsyncReadExt::read_to_string(&mut right_end, &mut all).await.unwrap();
        assert_eq!(all, "ab");
        right.write_all(b"still open").await.unwrap();
        right.shutdown(Shutdown::Write).unwrap();
        let mut buffer = [0; 32];
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 10);
        assert_eq!(reader.read(&mut buffer).await.unwrap(), 0);
    });
}

/// A read stops at a descriptor that goes with the bytes, with more bytes behind it: that must not look like the end of
/// what is there.
#[test]
fn a_descriptor_in_the_way_hides_nothing() {
    on_runtimes(|| async {
        for _ in 0..20 {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let theirs = theirs.into_std();
            send_with_descriptor(&theirs, b"first");
            (&theirs).write_all(b"second").unwrap();
            let mut buffer = [0; 4096];
            let mut all = Vec::new();
            while all.len() < 11 {
                let count = ours.read(&mut buffer).await.unwrap();
                all.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(all, b"firstsecond");
        }
    });
}

/// Sends `bytes`, and standard input with them.
fn send_with_descriptor(socket: &net::UnixStream, bytes: &[u8]) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let input = io::stdin();
    let fds = [input.as_fd()];
    let mut space = [MaybeUninit::uninit(); 64];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::empty()).unwrap();
    assert_eq!(sent, bytes.len());
}

#[test]
fn several_buffers() {
    on_runtimes(|| async {
        let (left, right) = UnixStream::pair().unwrap();
        let parts = [IoSlice::new(b"abc"), IoSlice::new(b"de")];
        assert_eq!(left.write_vectored(&parts).await.unwrap(), 5);
        let (mut first, mut second) = ([0; 1], [0; 9]);
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(right.read_vectored(&mut parts).await.unwrap(), 5);
        assert_eq!((&first, &second[..4]), (b"a", &b"bcde"[..]));
    });
}

#[test]
fn connections_as_a_stream() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let listener = UnixListener::bind(folder.join("socket")).unwrap();
        let path = folder.join("socket");
        let clients = thread::spawn(move || {
            for byte in 0..5 {
                let mut stream = net::UnixStream::connect(&path).unwrap();
                stream.write_all(&[byte]).unwrap();
            }
        });
        let mut incoming = listener.incoming();
        for expected in 0..5 {
            let stream = incoming.next().await.expect("it has no end").unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, [expected]);
        }
        clients.join().unwrap();
    });
}

#[test]
fn nothing_is_read_into_no_place() {
    async fn timeout(read: impl Future<Output = io::Result<usize>>) -> usize {
        let read = quadrille::time::timeout(Duration::from_secs(10), read).await;
        read.expect("it does not wait").unwrap()
    }
    on_runtimes(|| async {
        let (mut near, far) = UnixStream::pair().unwrap();
        assert_eq!(near.read(&mut []).await.unwrap(), 0, "although nothing is there");
        assert_eq!(AsyncReadExt::read(&mut near, &mut []).await.unwrap(), 0);
        assert_eq!(timeout(near.peek(&mut [])).await, 0);
        assert_eq!(timeout(poll_fn(|cx| near.poll_peek(cx, &mut []))).await, 0);
        assert_eq!(timeout(poll_fn(|cx| near.poll_read(cx, &mut []))).await, 0);
        assert_eq!(timeout(poll_fn(|cx| near.poll_read_uninit(cx, &mut []))).await, 0);
        for mut buffers in [Vec::new(), vec![IoSliceMut::new(&mut []), IoSliceMut::new(&mut [])]] {
            let buffers = &mut buffers[..];
            assert_eq!(timeout(near.read_vectored(buffers)).await, 0);
            assert_eq!(timeout(poll_fn(|cx| near.poll_read_vectored(cx, buffers))).await, 0);
            let by_trait = poll_fn(|cx| AsyncRead::poll_read_vectored(Pin::new(&mut near), cx, buffers));
            assert_eq!(timeout(by_trait).await, 0);
            assert_eq!(near.try_read_vectored(buffers).unwrap(), 0);
        }
        assert_eq!(near.try_read(&mut []).unwrap(), 0);
        far.write_all(b"a").await.unwrap();
        assert_eq!(near.read(&mut []).await.unwrap(), 0);
        assert_eq!(near.read(&mut [0; 2]).await.unwrap(), 1);
    });
}

/// What is behind the zero would be cut off by the system, and another name be meant.
#[test]
fn a_path_with_a_zero_byte_inside_is_refused() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let cut = format!("{}\0elsewhere", path.display());
        assert_eq!(UnixListener::bind(&cut).unwrap_err().kind(), ErrorKind::InvalidInput);
        let error = UnixStream::connect(&cut).await.map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

/// By a descriptor that is not watched, to whose user the system says so.
#[test]
fn a_listener_that_is_shut_down_ends_accepts_that_wait() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let path = folder.join("socket");
        let listener = net::UnixListener::bind(&path).unwrap();
        let clone = listener.try_clone().unwrap();
        let listener = UnixListener::from_std(listener).unwrap();
        let mut accept = Box::pin(listener.accept());
        assert!(poll_once(&mut accept).await.is_none());
        // What is queued is accepted first.
        let _client = net::UnixStream::connect(&path).unwrap();
        socket2::SockRef::from(&clone).shutdown(Shutdown::Both).unwrap();
        let limit = Duration::from_secs(10);
        let accepted = quadrille::time::timeout(limit, accept).await;
        assert!(accepted.expect("it is told").is_ok());
        for _ in 0..2 {
            let accepted = quadrille::time::timeout(limit, listener.accept()).await;
            assert_eq!(
                accepted.expect("it is told").unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
        }
        let accepted = quadrille::time::timeout(limit, poll_fn(|cx| listener.poll_accept(cx))).await;
        assert_eq!(
            accepted.expect("it is told").unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            listener.incoming().next().await.unwrap().unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    });
}
