//! Passing on what one stream says to another.

use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_lite::io::{AsyncRead, AsyncWrite, BufWriter, Cursor};
use quadrille::io::{copy, copy_bidirectional};
use quadrille::net::UnixStream;
use quadrille::sync::oneshot;
use quadrille::time::timeout;

use crate::watched::on_runtimes;

/// A stream that keeps back what it is given until it is flushed or closed.
struct Kept(UnixStream, Vec<u8>);

impl AsyncRead for Kept {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buffer)
    }
}

impl AsyncWrite for Kept {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.1.extend_from_slice(buffer);
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.1.is_empty() {
            let count = ready!(self.0.poll_write(cx, &self.1))?;
            self.1.drain(..count);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_flush(cx))?;
        Poll::Ready(self.0.shutdown(Shutdown::Write))
    }
}

const LIMIT: Duration = Duration::from_secs(10);

/// Who has heard "ping" is to answer: the source says no more before that.
#[test]
fn what_was_written_is_flushed_while_the_reader_has_no_more() {
    on_runtimes(|| async {
        let (source, from) = UnixStream::pair().unwrap();
        let (to, sink) = UnixStream::pair().unwrap();
        let copying = quadrille::spawn(async move { copy(&from, BufWriter::new(to)).await });
        let mut heard = [0; 4];
        for word in [b"ping", b"more"] {
            source.write_all(word).await.unwrap();
            timeout(LIMIT, sink.read_exact(&mut heard)).await.unwrap().unwrap();
            assert_eq!(&heard, word);
        }
        source.write_all(b"last").await.unwrap();
        drop(source);
        assert_eq!(copying.await.unwrap().unwrap(), 12);
        sink.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"last");
    });
}

/// A head that is followed by no body, and one whose body the other side sends once it has the head.
#[test]
fn what_was_kept_before_is_flushed_though_nothing_is_copied() {
    on_runtimes(|| async {
        let mut heard = [0; 4];
        let (to, sink) = UnixStream::pair().unwrap();
        let mut writer = Kept(to, b"head".to_vec());
        assert_eq!(copy(&b""[..], &mut writer).await.unwrap(), 0);
        timeout(LIMIT, sink.read_exact(&mut heard)).await.unwrap().unwrap();
        assert_eq!(&heard, b"head");

        let (source, from) = UnixStream::pair().unwrap();
        writer.1.extend_from_slice(b"more");
        let copying = quadrille::spawn(async move { copy(&from, writer).await });
        timeout(LIMIT, sink.read_exact(&mut heard)).await.unwrap().unwrap();
        assert_eq!(&heard, b"more");
        drop(source);
        assert_eq!(copying.await.unwrap().unwrap(), 0);
    });
}

#[test]
fn both_directions_are_flushed_and_end_one_after_the_other() {
    on_runtimes(|| async {
        const BYTES: usize = 300_000;
        let (client, from) = UnixStream::pair().unwrap();
        let (to, server) = UnixStream::pair().unwrap();
        let copying = quadrille::spawn(async move {
            let (mut from, mut to) = (Kept(from, Vec::new()), Kept(to, Vec::new()));
            copy_bidirectional(&mut from, &mut to).await
        });
        let mut heard = [0; 4];
        client.write_all(b"ping").await.unwrap();
        timeout(LIMIT, server.read_exact(&mut heard)).await.unwrap().unwrap();
        server.write_all(b"pong").await.unwrap();
        timeout(LIMIT, client.read_exact(&mut heard)).await.unwrap().unwrap();
        assert_eq!(&heard, b"pong");
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(timeout(LIMIT, server.read(&mut heard)).await.unwrap().unwrap(), 0);

        let writer = quadrille::spawn(async move { server.write_all(&vec![1; BYTES]).await });
        let mut all = Vec::new();
        assert_eq!(copy(&client, &mut all).await.unwrap(), BYTES as u64);
        writer.await.unwrap().unwrap();
        assert_eq!(copying.await.unwrap().unwrap(), (4, 4 + BYTES as u64));
    });
}

#[test]
fn copying_ends_with_the_error_of_either_side() {
    on_runtimes(|| async {
        let mut full = [0; 3];
        let error = copy(&b"abcdef"[..], Cursor::new(&mut full[..])).await.unwrap_err();
        assert_eq!((error.kind(), &full), (ErrorKind::WriteZero, b"abc"));
        let (near, far) = UnixStream::pair().unwrap();
        near.shutdown(Shutdown::Both).unwrap();
        assert_eq!(copy(&b"a"[..], &near).await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        assert_eq!(
            copy(&far, &near).await.unwrap(),
            0,
            "nothing was there, and nothing was refused"
        );
    });
}

/// Has something until it hears something.
#[derive(Default)]
struct Talker {
    reads: u32,
    has_heard: bool,
}

impl Talker {
    /// Then it ends in any case.
    const MOST: u32 = 100_000;
}

impl AsyncRead for Talker {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.has_heard || self.reads == Talker::MOST {
            return Poll::Ready(Ok(0));
        }
        self.reads += 1;
        Poll::Ready(Ok(to.len()))
    }
}

impl AsyncWrite for Talker {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.has_heard = true;
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Takes all that it is told, and says a word.
struct Listener(&'static [u8]);

impl AsyncRead for Listener {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl AsyncWrite for Listener {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Whoever talks without end, the other's word is passed on, though each poll has a budget.
#[test]
fn neither_side_of_a_relay_has_to_be_silent_for_the_other_to_be_heard() {
    on_runtimes(|| async {
        let (mut talker, mut listener) = (Talker::default(), Listener(b"stop"));
        copy_bidirectional(&mut talker, &mut listener).await.unwrap();
        assert!(talker.has_heard && talker.reads < 1000, "{} reads", talker.reads);
        let (mut talker, mut listener) = (Talker::default(), Listener(b"stop"));
        copy_bidirectional(&mut listener, &mut talker).await.unwrap();
        assert!(talker.has_heard && talker.reads < 1000, "{} reads", talker.reads);
    });
}

/// Has something for ever, and says when it was first asked.
struct Endless(Option<oneshot::Sender<()>>);

impl AsyncRead for Endless {
    fn poll_read(mut self: Pin<&mut Self>, _cx: &mut Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Some(begins) = self.0.take() {
            begins.send(()).unwrap();
        }
        Poll::Ready(Ok(to.len()))
    }
}

#[test]
fn copying_what_never_waits_gives_way() {
    on_runtimes(|| async {
        let (begins, begun) = oneshot::channel();
        let copying = quadrille::spawn(copy(Endless(Some(begins)), futures_lite::io::sink()));
        begun.await.unwrap();
        copying.abort();
        assert!(timeout(LIMIT, copying).await.unwrap().unwrap_err().is_cancelled());
    });
}

/// Answers what it was told to, call by call; then a reader is at its end, and a writer takes everything.
#[derive(Default)]
struct Script {
    reads: Vec<io::Result<&'static [u8]>>,
    writes: Vec<io::Result<usize>>,
    flushes: Vec<io::Result<()>>,
    closes: Vec<io::Result<()>>,
    written: Vec<u8>,
}

impl Script {
    fn new<const R: usize, const W: usize>(
        reads: [io::Result<&'static [u8]>; R],
        writes: [io::Result<usize>; W],
    ) -> Self {
        Script {
            reads: reads.into_iter().rev().collect(),
            writes: writes.into_iter().rev().collect(),
            flushes: vec![interrupted()],
            closes: vec![interrupted(), interrupted()],
            written: Vec::new(),
        }
    }
}

impl AsyncRead for Script {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let bytes = self.reads.pop().unwrap_or(Ok(&[]))?;
        buffer[..bytes.len()].copy_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let count = self.writes.pop().unwrap_or(Ok(buffer.len()))?;
        self.written.extend_from_slice(&buffer[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.flushes.pop().unwrap_or(Ok(())))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.closes.pop().unwrap_or(Ok(())))
    }
}

fn interrupted<T>() -> io::Result<T> {
    Err(ErrorKind::Interrupted.into())
}

#[test]
fn what_a_signal_has_interrupted_is_tried_again() {
    on_runtimes(|| async {
        let reader = Script::new([interrupted(), Ok(b"ab"), interrupted(), interrupted(), Ok(b"cd")], []);
        let mut writer = Script::new([], [interrupted(), Ok(1), interrupted(), Ok(1)]);
        assert_eq!(copy(reader, &mut writer).await.unwrap(), 4);
        assert_eq!(writer.written, b"abcd");

        let mut left = Script::new([interrupted(), Ok(b"ab")], [interrupted(), Ok(1)]);
        let mut right = Script::new([interrupted(), Ok(b"cde")], [interrupted(), Ok(2)]);
        assert_eq!(copy_bidirectional(&mut left, &mut right).await.unwrap(), (2, 3));
        assert_eq!((&left.written[..], &right.written[..]), (&b"cde"[..], &b"ab"[..]));
        assert!(left.closes.is_empty() && right.closes.is_empty());
    });
}

/// Is interrupted for ever, on one side or in its flush, and says when it was first asked.
struct Interrupted {
    reads: bool,
    writes: bool,
    begins: Option<oneshot::Sender<()>>,
}

impl Interrupted {
    fn answer<T>(&mut self, otherwise: Option<T>) -> Poll<io::Result<T>> {
        otherwise.map_or_else(
            || {
                if let Some(begins) = self.begins.take() {
                    begins.send(()).unwrap();
                }
                Poll::Ready(interrupted())
            },
            |otherwise| Poll::Ready(Ok(otherwise)),
        )
    }
}

impl AsyncRead for Interrupted {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        let otherwise = (!self.reads).then_some(0);
        self.answer(otherwise)
    }
}

impl AsyncWrite for Interrupted {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        let otherwise = (!self.writes).then_some(buffer.len());
        self.answer(otherwise)
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.answer(None)
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn who_is_interrupted_for_ever_gives_way() {
    on_runtimes(|| async {
        for (reads, writes) in [(true, false), (false, true), (false, false)] {
            let (begins, begun) = oneshot::channel();
            let script = Interrupted {
                reads,
                writes,
                begins: Some(begins),
            };
            let copying = if reads {
                quadrille::spawn(copy(script, futures_lite::io::sink()))
            } else {
                quadrille::spawn(copy(&b"abc"[..], script))
            };
            begun.await.unwrap();
            copying.abort();
            assert!(timeout(LIMIT, copying).await.unwrap().unwrap_err().is_cancelled());
        }
    });
}
