//! Buffers of the crate `bytes`: what is read is appended, what is written is taken out, and whoever is dropped while
//! it waits has changed nothing.

use std::io::{self, ErrorKind, IoSlice, Write as _};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_lite::AsyncRead;
use futures_lite::future::{poll_once, yield_now};
use quadrille::Handle;
use quadrille::net::{PipeReader, PipeWriter, TcpStream, UdpSocket, UnixDatagram, UnixStream, pipe, tcp, unix};
use quadrille::time::timeout;

use crate::greedy::all_give_way;
use crate::tcp::connection;
use crate::temporary::Folder;
use crate::watched::on_runtimes;

/// The ways to read.
trait Reads: Readable {
    fn read<B: BufMut + ?Sized>(&self, buffer: &mut B) -> impl Future<Output = io::Result<usize>>;
    fn try_read<B: BufMut + ?Sized>(&self, buffer: &mut B) -> io::Result<usize>;
}

/// What tells that there is something to read.
trait Readable {
    async fn readable(&self);
}

/// The ways to write.
trait Writes {
    async fn write<B: Buf + ?Sized>(&self, buffer: &mut B) -> io::Result<usize>;
    async fn write_all<B: Buf + ?Sized>(&self, buffer: &mut B) -> io::Result<()>;
}

macro_rules! readable {
    ($($type:ty),+) => {$(
        impl Readable for $type {
            async fn readable(&self) {
                self.readable().await.unwrap();
            }
        }
    )+};
}
readable!(UdpSocket, UnixDatagram);

macro_rules! reads {
    ($($type:ty),+) => {$(
        impl Reads for $type {
            fn read<B: BufMut + ?Sized>(&self, buffer: &mut B) -> impl Future<Output = io::Result<usize>> {
                self.read_buf(buffer)
            }

            fn try_read<B: BufMut + ?Sized>(&self, buffer: &mut B) -> io::Result<usize> {
                self.try_read_buf(buffer)
            }
        }
        readable!($type);
    )+};
}

reads!(
    TcpStream,
    tcp::ReadHalf<'_>,
    tcp::OwnedReadHalf,
    UnixStream,
    unix::ReadHalf<'_>,
    unix::OwnedReadHalf,
    PipeReader
);

macro_rules! writes {
    ($($type:ty),+) => {$(
        impl Writes for $type {
            async fn write<B: Buf + ?Sized>(&self, buffer: &mut B) -> io::Result<usize> {
                self.write_buf(buffer).await
            }

            async fn write_all<B: Buf + ?Sized>(&self, buffer: &mut B) -> io::Result<()> {
                self.write_all_buf(buffer).await
            }
        }
    )+};
}
writes!(
    TcpStream,
    tcp::WriteHalf<'_>,
    tcp::OwnedWriteHalf,
    UnixStream,
    unix::WriteHalf<'_>,
    unix::OwnedWriteHalf,
    PipeWriter
);

async fn soon<T>(operation: impl Future<Output = T>) -> T {
    let outcome = timeout(Duration::from_secs(10), operation).await;
    outcome.expect("it does not wait for ever")
}

/// What `attempt` answers once there is something.
async fn when_readable<T>(reader: &impl Readable, mut attempt: impl FnMut() -> io::Result<T>) -> T {
    loop {
        soon(reader.readable()).await;
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            answer => return answer.unwrap(),
        }
    }
}

/// Passes words on in every way to write, and in every way to read.
async fn check(writer: impl Writes, reader: impl Reads) {
    let mut heard = appends(&writer, &reader).await;
    fills(&writer, &reader).await;
    drop(writer);
    assert_eq!(soon(reader.read(&mut heard)).await.unwrap(), 0, "the end");
    assert_eq!(heard, "before one two three");
}

/// To a buffer that grows.
async fn appends(writer: &impl Writes, reader: &impl Reads) -> BytesMut {
    let mut heard = BytesMut::from(&b"before "[..]);
    heard.reserve(100);
    assert_eq!(reader.try_read(&mut heard).unwrap_err().kind(), ErrorKind::WouldBlock);
    {
        let mut reading = pin!(reader.read(&mut heard));
        assert!(poll_once(reading.as_mut()).await.is_none());
    }
    assert_eq!(heard, "before ", "who was dropped has appended nothing");

    let mut pieces = Bytes::from("one ").chain(Bytes::from("two ")).chain(&b"three"[..]);
    assert_eq!(
        soon(writer.write(&mut pieces)).await.unwrap(),
        13,
        "all pieces in one call"
    );
    assert_eq!(pieces.remaining(), 0);
    assert_eq!(soon(writer.write(&mut pieces)).await.unwrap(), 0, "nothing is left");
    soon(writer.write_all(&mut pieces)).await.unwrap();

    assert_eq!(soon(reader.read(&mut heard)).await.unwrap(), 13);
    assert_eq!(heard, "before one two three");
    heard
}

/// Places, and no more.
async fn fills(writer: &impl Writes, reader: &impl Reads) {
    let mut words = Bytes::from("four five");
    soon(writer.write_all(&mut words)).await.unwrap();
    assert!(words.is_empty());
    soon(reader.readable()).await;
    let mut first = [0; 5];
    let mut place = &mut first[..];
    assert_eq!(
        reader.try_read(&mut place).unwrap(),
        5,
        "no more than there is room for"
    );
    assert!(place.is_empty());
    assert_eq!(soon(reader.read(&mut place)).await.unwrap(), 0, "there is no room");
    assert_eq!(reader.try_read(&mut place).unwrap(), 0);
    assert_eq!(&first, b"four ");
    // Two pieces, of which a call fills one.
    let (mut a, mut b) = ([0; 2], [0; 8]);
    let mut both = (&mut a[..]).chain_mut(&mut b[..]);
    assert_eq!(soon(reader.read(&mut both)).await.unwrap(), 2);
    assert_eq!(soon(reader.read(&mut both)).await.unwrap(), 2);
    assert_eq!((&a, &b[..2]), (b"fi", &b"ve"[..]));
}

#[test]
fn what_is_read_is_appended_and_what_is_written_is_taken_out() {
    on_runtimes(|| async {
        let tcp_pair = || async {
            let (ours, theirs) = connection().await;
            theirs.set_nonblocking(true).unwrap();
            (ours, TcpStream::from_std(theirs).unwrap())
        };
        let (a, b) = tcp_pair().await;
        check(a, b).await;
        let (a, b) = tcp_pair().await;
        check(a.into_split().1, b.into_split().0).await;
        let (a, b) = UnixStream::pair().unwrap();
        check(a, b).await;
        let (a, b) = UnixStream::pair().unwrap();
        check(a.into_split().1, b.into_split().0).await;
        let (reader, writer) = pipe().unwrap();
        check(writer, reader).await;
    });
}

#[test]
fn halves_that_are_lent_do_the_same() {
    on_runtimes(|| async {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let (reader, _) = b.split();
        let (_, writer) = a.split();
        let mut word = &b"hello"[..];
        soon(Writes::write_all(&writer, &mut word)).await.unwrap();
        let mut heard = Vec::new();
        assert_eq!(soon(Reads::read(&reader, &mut heard)).await.unwrap(), 5);
        assert_eq!(heard, b"hello");
    });
}

#[test]
fn a_write_that_was_dropped_goes_on_where_it_was() {
    on_runtimes(|| async {
        const LENGTH: usize = 4 << 20;
        let all: Vec<u8> = (0..LENGTH)
            .map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1])
            .collect();
        let (near, far) = UnixStream::pair().unwrap();
        let far = far.into_std();
        far.set_nonblocking(false).unwrap();
        let reader = thread::spawn(move || {
            let mut heard = Vec::new();
            io::Read::read_to_end(&mut &far, &mut heard).unwrap();
            heard
        });
        let mut rest = Bytes::from(all.clone());
        let mut dropped = 0_u32;
        while rest.has_remaining() {
            let mut writing = pin!(near.write_all_buf(&mut rest));
            if let Some(outcome) = poll_once(writing.as_mut()).await {
                outcome.unwrap();
            } else {
                dropped += 1;
                yield_now().await;
            }
        }
        assert!(dropped > 0, "it had to wait");
        drop(near);
        assert!(reader.join().unwrap() == all);
    });
}

#[test]
fn where_nobody_reads_what_was_not_written_stays() {
    on_runtimes(|| async {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        let mut word = Bytes::from("hello");
        assert_eq!(
            near.write_buf(&mut word).await.unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
        assert_eq!(
            near.write_all_buf(&mut word).await.unwrap_err().kind(),
            ErrorKind::BrokenPipe
        );
        assert_eq!(word, "hello");
    });
}

#[test]
fn datagrams_are_appended_whole() {
    on_runtimes(|| async {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (to, from) = (server.local_addr().unwrap(), client.local_addr().unwrap());
        let mut heard = BytesMut::with_capacity(200);
        assert_eq!(
            server.try_recv_buf(&mut heard).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        for (number, word) in ["one", "two", "three", "four"].into_iter().enumerate() {
            client.send_to(word.as_bytes(), to).await.unwrap();
            let all = (word.len(), from);
            match number {
                0 => assert_eq!(soon(server.recv_buf(&mut heard)).await.unwrap(), word.len()),
                1 => assert_eq!(soon(server.recv_buf_from(&mut heard)).await.unwrap(), all),
                2 => {
                    let received = when_readable(&server, || server.try_recv_buf(&mut heard)).await;
                    assert_eq!(received, word.len());
                }
                _ => {
                    let received = when_readable(&server, || server.try_recv_buf_from(&mut heard)).await;
                    assert_eq!(received, all);
                }
            }
        }
        assert_eq!(heard, "onetwothreefour");
        client.send_to(b"too long", to).await.unwrap();
        let mut limited = (&mut heard).limit(3);
        assert_eq!(soon(server.recv_buf(&mut limited)).await.unwrap(), 3);
        assert_eq!(heard, "onetwothreefourtoo");
    });
}

#[test]
fn datagrams_of_the_unix_domain_are_appended_whole() {
    on_runtimes(|| async {
        let folder = Folder::new();
        let (at, from) = (folder.join("server"), folder.join("client"));
        let server = UnixDatagram::bind(&at).unwrap();
        let client = UnixDatagram::bind(&from).unwrap();
        let mut heard = BytesMut::with_capacity(200);
        client.send_to(b"one ", &at).await.unwrap();
        assert_eq!(soon(server.recv_buf(&mut heard)).await.unwrap(), 4);
        client.send_to(b"two ", &at).await.unwrap();
        let (length, sender) = soon(server.recv_buf_from(&mut heard)).await.unwrap();
        assert_eq!((length, sender.as_pathname()), (4, Some(&*from)));
        client.send_to(b"three", &at).await.unwrap();
        let (length, sender) = when_readable(&server, || server.try_recv_buf_from(&mut heard)).await;
        assert_eq!((length, sender.as_pathname()), (5, Some(&*from)));
        assert_eq!(
            server.try_recv_buf_from(&mut heard).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        assert_eq!(heard, "one two three");
        server.shutdown(std::net::Shutdown::Read).unwrap();
        assert_eq!(soon(server.recv_buf(&mut heard)).await.unwrap(), 0, "nothing will come");
    });
}

/// As many bytes as there is room for.
const ALL: usize = usize::MAX;

/// Answers in turn.
struct Answers(Vec<Poll<io::Result<usize>>>);

impl AsyncRead for Answers {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        assert!(buffer.iter().all(|byte| *byte == 0), "it has initialised memory");
        let answer = self
            .0
            .remove(0)
            .map_ok(|count| if count == ALL { buffer.len() } else { count });
        match &answer {
            Poll::Ready(Ok(count)) => {
                let count = (*count).min(buffer.len());
                buffer.write_all(&[7; 20_000][..count]).unwrap();
            }
            Poll::Ready(Err(_)) => buffer.fill(9),
            Poll::Pending => {
                buffer.fill(8);
                cx.waker().wake_by_ref();
            }
        }
        answer
    }
}

#[test]
fn any_reader_is_appended_from() {
    on_runtimes(|| async {
        let error = || Poll::Ready(Err(ErrorKind::NotConnected.into()));
        // The last one as much as it may: 16 KiB.
        let mut reader = Answers(vec![Poll::Pending, Poll::Ready(Ok(3)), error(), Poll::Ready(Ok(ALL))]);
        let mut heard = BytesMut::with_capacity(40_000);
        heard.put_u8(1);
        assert_eq!(quadrille::io::read_buf(&mut reader, &mut heard).await.unwrap(), 3);
        assert_eq!(&heard[..], [1, 7, 7, 7]);
        let failed = quadrille::io::read_buf(&mut reader, &mut heard).await.unwrap_err();
        assert_eq!(
            (failed.kind(), &heard[..]),
            (ErrorKind::NotConnected, &[1, 7, 7, 7][..])
        );
        assert_eq!(quadrille::io::read_buf(&mut reader, &mut heard).await.unwrap(), 16_384);
        assert_eq!(heard.len(), 4 + 16_384);
        let mut full = (&mut heard).limit(0);
        assert_eq!(
            quadrille::io::read_buf(&mut reader, &mut full).await.unwrap(),
            0,
            "nobody was asked"
        );
    });
}

#[test]
fn a_reader_that_says_it_has_read_more_than_it_could_is_told_off() {
    on_runtimes(|| async {
        let reading = quadrille::spawn(async {
            let mut heard = BytesMut::with_capacity(100);
            quadrille::io::read_buf(&mut Answers(vec![Poll::Ready(Ok(101))]), &mut heard).await
        });
        let panic = reading.await.unwrap_err().into_panic();
        let message = panic.downcast_ref::<String>().unwrap();
        assert_eq!(message, "a reader says that it has read 101 bytes into a buffer of 100");
    });
}

/// Lends more pieces than fit, and then none although it says that there is something.
struct Liar {
    pieces: usize,
}

impl Buf for Liar {
    fn remaining(&self) -> usize {
        5
    }

    fn chunk(&self) -> &[u8] {
        &[]
    }

    fn chunks_vectored<'a>(&'a self, pieces: &mut [IoSlice<'a>]) -> usize {
        for piece in pieces.iter_mut().take(self.pieces) {
            *piece = IoSlice::new(b"x");
        }
        self.pieces
    }

    fn advance(&mut self, _: usize) {
        self.pieces = 0;
    }
}

#[test]
fn a_buffer_that_lies_neither_hangs_nor_panics() {
    on_runtimes(|| async {
        let (near, far) = UnixStream::pair().unwrap();
        let mut liar = Liar { pieces: 100 };
        assert_eq!(
            soon(near.write_buf(&mut liar)).await.unwrap(),
            16,
            "at most so many pieces"
        );
        let error = soon(near.write_all_buf(&mut liar)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WriteZero);
        let mut heard = Vec::with_capacity(100);
        assert_eq!(soon(far.read_buf(&mut heard)).await.unwrap(), 16);
    });
}

/// Where there is nothing to write nobody waits; it counts as an operation all the same.
#[test]
fn who_writes_nothing_gives_way() {
    on_runtimes(|| async {
        // Not all of the futures are `Send`.
        let task = Handle::current().spawn_pinned(|| async {
            all_give_way! {
                "write_all_buf of nothing": UnixStream::pair().unwrap() => |s| s.0.write_all_buf(&mut &b""[..]).await.unwrap();
                "write_buf of nothing": UnixStream::pair().unwrap() => |s| s.0.write_buf(&mut &b""[..]).await.unwrap();
            }
        });
        task.await.unwrap();
    });
}
