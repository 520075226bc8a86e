//! The budget in sockets and pipes: who never has to wait gives way all the same.

use std::future::poll_fn;
use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::SocketAddr;

use futures_lite::{AsyncReadExt as _, AsyncWriteExt as _};
use quadrille::Handle;
use quadrille::io::{AsyncFd, DuplexStream, Interest, duplex};
use quadrille::net::{
    PipeReader, PipeWriter, TcpListener, TcpSocket, TcpStream, UdpSocket, UnixDatagram, UnixStream, lookup_host, pipe,
};

use crate::greedy::{ROUNDS, all_give_way};
use crate::watched::on_runtimes;

/// Two ends, and a byte a round between them in both directions.
async fn streams() -> (UnixStream, UnixStream) {
    let (left, right) = UnixStream::pair().unwrap();
    left.write_all(&[1; ROUNDS]).await.unwrap();
    right.write_all(&[1; ROUNDS]).await.unwrap();
    (left, right)
}

async fn pipes() -> (PipeReader, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    writer.write_all(&[1; ROUNDS]).await.unwrap();
    (reader, writer)
}

async fn memory() -> (DuplexStream, DuplexStream) {
    let (reader, mut writer) = duplex(2 * ROUNDS);
    writer.write_all(&[1; ROUNDS]).await.unwrap();
    (reader, writer)
}

async fn watched_fds() -> (AsyncFd<std::io::PipeReader>, AsyncFd<std::io::PipeWriter>) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[1; ROUNDS]).unwrap();
    (AsyncFd::new(reader).unwrap(), AsyncFd::new(writer).unwrap())
}

async fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(socket.local_addr().unwrap()).await.unwrap();
    socket
}

/// What is refused at once is often tried again in a loop.
#[test]
fn what_fails_at_once_gives_way() {
    on_runtimes(|| async {
        let task = Handle::current().spawn_pinned(|| async {
            let nowhere: &[SocketAddr] = &[];
            let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let too_long = "a".repeat(1000);
            all_give_way! {
                "UnixStream::connect": () => |_s| UnixStream::connect("/nothing/is/here").await.unwrap_err();
                "UnixStream::connect, too long": too_long.clone() => |s| UnixStream::connect(&*s).await.unwrap_err();
                "UnixDatagram::send_to": UnixDatagram::unbound().unwrap() => |s| s.send_to(b"a", "/nothing/is/here").await.unwrap_err();
                "UnixDatagram::send_to, too long": (UnixDatagram::unbound().unwrap(), too_long) => |s| {
                    s.0.send_to(b"a", &*s.1).await.unwrap_err();
                };
                "TcpStream::connect": () => |_s| TcpStream::connect("255.255.255.255:1").await.unwrap_err();
                "TcpStream::connect, nowhere": nowhere => |s| TcpStream::connect(*s).await.unwrap_err();
                "TcpSocket::connect": () => |_s| {
                    let socket = TcpSocket::new_v4().unwrap();
                    socket.connect("255.255.255.255:1".parse().unwrap()).await.unwrap_err();
                };
                "TcpListener::bind": taken.local_addr().unwrap() => |s| TcpListener::bind(*s).await.unwrap_err();
                "UdpSocket::bind": () => |_s| UdpSocket::bind("203.0.113.1:0").await.unwrap_err();
                "UdpSocket::send_to, nowhere": (udp().await, nowhere) => |s| s.0.send_to(b"a", s.1).await.unwrap_err();
            }
        });
        task.await.unwrap();
    });
}

#[test]
fn what_is_done_at_once_gives_way() {
    on_runtimes(|| async {
        let task = Handle::current().spawn_pinned(|| async {
            let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
            all_give_way! {
                "lookup_host": anywhere => |s| lookup_host(*s).await.map(drop).unwrap();
                "TcpListener::bind": anywhere => |s| TcpListener::bind(*s).await.unwrap();
                "UdpSocket::bind": anywhere => |s| UdpSocket::bind(*s).await.unwrap();
                "UdpSocket::connect": udp().await => |s| s.connect(s.local_addr().unwrap()).await.unwrap();
            }
        });
        task.await.unwrap();
    });
}

#[test]
fn what_a_task_never_waits_for_gives_way() {
    on_runtimes(|| async {
        // Not all of the futures are `Send`.
        let task = Handle::current().spawn_pinned(|| async {
            all_give_way! {
                "read": streams().await => |s| s.0.read(&mut [0]).await.unwrap();
                "read_exact": streams().await => |s| s.0.read_exact(&mut [0]).await.unwrap();
                "read_vectored": streams().await => |s| s.0.read_vectored(&mut [IoSliceMut::new(&mut [0])]).await.unwrap();
                "peek": streams().await => |s| s.0.peek(&mut [0]).await.unwrap();
                "readable": streams().await => |s| s.0.readable().await.unwrap();
                "write": streams().await => |s| s.0.write(&[1]).await.unwrap();
                "write_all": streams().await => |s| s.0.write_all(&[1]).await.unwrap();
                "write_vectored": streams().await => |s| s.0.write_vectored(&[IoSlice::new(&[1])]).await.unwrap();
                "writable": streams().await => |s| s.0.writable().await.unwrap();
                "ready": streams().await => |s| s.0.ready(Interest::READABLE).await.unwrap();
                "AsyncRead": streams().await => |s| (&mut &s.0).read(&mut [0]).await.unwrap();
                "AsyncWrite": streams().await => |s| (&mut &s.0).write(&[1]).await.unwrap();
                "pipe, read": pipes().await => |s| s.0.read(&mut [0]).await.unwrap();
                "pipe, write": pipes().await => |s| s.1.write(&[1]).await.unwrap();
                "read_with": watched_fds().await => |s| s.0.read_with(|mut io| io.read(&mut [0])).await.unwrap();
                "write_with": watched_fds().await => |s| s.1.write_with(|mut io| io.write(&[1])).await.unwrap();
                "send": udp().await => |s| s.send(&[1]).await.unwrap();
                "send and recv": udp().await => |s| {
                    s.send(&[1]).await.unwrap();
                    s.recv(&mut [0]).await.unwrap()
                };
                "read into nothing": streams().await => |s| s.0.read(&mut []).await.unwrap();
                "read_vectored into nothing": streams().await => |s| s.0.read_vectored(&mut []).await.unwrap();
                "peek into nothing": streams().await => |s| s.0.peek(&mut []).await.unwrap();
                "poll_read into nothing": streams().await => |s| poll_fn(|cx| s.0.poll_read(cx, &mut [])).await.unwrap();
                "write of nothing": streams().await => |s| s.0.write(&[]).await.unwrap();
                "read_exact into nothing": streams().await => |s| s.0.read_exact(&mut []).await.unwrap();
                "write_all of nothing": streams().await => |s| s.0.write_all(&[]).await.unwrap();
                "memory, read": memory().await => |s| s.0.read(&mut [0]).await.unwrap();
                "memory, write": memory().await => |s| s.1.write(&[1]).await.unwrap();
                "memory, read into nothing": memory().await => |s| s.0.read(&mut []).await.unwrap();
                "memory, write of nothing": memory().await => |s| s.1.write(&[]).await.unwrap();
                "AsyncRead into nothing": streams().await => |s| (&mut &s.0).read(&mut []).await.unwrap();
            }
        });
        task.await.unwrap();
    });
}

#[cfg(feature = "bytes")]
#[test]
fn who_reads_into_a_buffer_what_never_waits_gives_way() {
    on_runtimes(|| async {
        let task = Handle::current().spawn_pinned(|| async {
            all_give_way! {
                "io::read_buf": futures_lite::io::repeat(1) => |s| {
                    quadrille::io::read_buf(s, &mut bytes::BytesMut::with_capacity(8)).await.unwrap();
                };
            }
        });
        task.await.unwrap();
    });
}
