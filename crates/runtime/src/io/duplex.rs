//! A stream in memory.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};

use crate::coop;
use crate::net::stream::poll_nothing;
use crate::panics::FirstPanic;

/// Two ends of a stream in memory, each of which reads what the other has written. At most `size_max` bytes are on
/// their way in each direction; who writes more waits until some are read.
///
/// For tests of what speaks a protocol over any stream, and between two parts of a program that want one. It needs no
/// runtime, and unlike [`UnixStream::pair`](crate::net::UnixStream::pair) no descriptors; who waits is a task like any
/// other to a clock that is [paused](crate::time::pause).
///
/// ```
/// use futures_lite::{AsyncReadExt, AsyncWriteExt};
/// use quadrille::io::{self, ErrorKind};
///
/// # futures_lite::future::block_on(async {
/// let (mut client, mut server) = io::duplex(64);
/// client.write_all(b"time?").await?;
/// client.close().await?;
/// let mut question = String::new();
/// server.read_to_string(&mut question).await?;
/// assert_eq!(question, "time?");
///
/// drop(client);
/// assert_eq!(server.write(b"10:15").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
/// # io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Panics
///
/// If `size_max` is zero: nothing would ever be written.
#[must_use]
pub fn duplex(size_max: usize) -> (DuplexStream, DuplexStream) {
    assert!(size_max > 0, "a stream in memory of 0 bytes, expected 1 or more");
    let (there, back) = (Arc::new(Pipe::new(size_max)), Arc::new(Pipe::new(size_max)));
    let one = DuplexStream {
        incoming: Arc::clone(&back),
        outgoing: Arc::clone(&there),
    };
    let other = DuplexStream {
        incoming: there,
        outgoing: back,
    };
    (one, other)
}

/// One end of a stream in memory, made by [`duplex`].
///
/// Once the other end has been dropped, or has closed its side, reading yields what is left and then zero bytes. To an
/// end that was dropped, and after `close` of this one, writing is an error of kind
/// [`BrokenPipe`](io::ErrorKind::BrokenPipe). `flush` has nothing to do.
///
/// # Panics
///
/// If the waker of who polls the other end does. Then bytes may have been read or written of which nobody was told.
///
/// # Cancel safety
///
/// Of the impls of [`AsyncRead`] and [`AsyncWrite`]: strict. An operation that was dropped while it was pending has
/// read or written nothing.
pub struct DuplexStream {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
}

/// One direction.
struct Pipe(Mutex<State>);

struct State {
    bytes: VecDeque<u8>,
    size_max: usize,
    /// Nothing is written any more.
    is_closed: bool,
    /// Who waits, by [`Side`]: an end is polled by one task at a time. Never both: there are no bytes, or no room.
    waiting: [Option<Waker>; 2],
}

#[derive(Clone, Copy)]
enum Side {
    Reads,
    Writes,
}

impl Pipe {
    fn new(size_max: usize) -> Self {
        Self(Mutex::new(State {
            bytes: VecDeque::new(),
            size_max,
            is_closed: false,
            waiting: [None, None],
        }))
    }

    /// No code of a user's runs under the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries `attempt`; if there is an outcome wakes the other side, else waits for it.
    fn poll<T>(&self, side: Side, cx: &Context<'_>, mut attempt: impl FnMut(&mut State) -> Option<T>) -> Poll<T> {
        let (own, other) = match side {
            Side::Reads => (0, 1),
            Side::Writes => (1, 0),
        };
        // Cloned and dropped outside of the lock.
        let mut fresh = None;
        loop {
            let mut state = self.state();
            if let Some(outcome) = attempt(&mut state) {
                let waker = state.waiting[other].take();
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
                return Poll::Ready(outcome);
            }
            let place = &mut state.waiting[own];
            if place.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            if fresh.is_some() {
                let _old = mem::replace(place, fresh);
                drop(state);
                return Poll::Pending;
            }
            drop(state);
            fresh = Some(cx.waker().clone());
        }
    }

    /// For who writes: nothing comes any more. What is there is still read.
    fn end(&self) {
        let mut state = self.state();
        state.is_closed = true;
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    /// For who reads, and has gone: what is there, and whatever is written, is for nobody.
    fn abandon(&self) {
        let bytes = mem::take(&mut self.state().bytes);
        drop(bytes);
        self.end();
    }
}

impl State {
    fn read(&mut self, buf: &mut [u8]) -> Option<io::Result<usize>> {
        if self.bytes.is_empty() && !self.is_closed {
            return None;
        }
        Some(self.bytes.read(buf))
    }

    fn write(&mut self, buf: &[u8]) -> Option<io::Result<usize>> {
        if self.is_closed {
            return Some(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let fits = buf.len().min(self.size_max - self.bytes.len());
        self.bytes.extend(&buf[..fits]);
        (fits > 0 || buf.is_empty()).then_some(Ok(fits))
    }
}

impl AsyncRead for DuplexStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return poll_nothing(cx);
        }
        coop::poll_progress(cx, |cx| self.incoming.poll(Side::Reads, cx, |state| state.read(buf)))
    }
}

impl AsyncWrite for DuplexStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        coop::poll_progress(cx, |cx| self.outgoing.poll(Side::Writes, cx, |state| state.write(buf)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outgoing.end();
        Poll::Ready(Ok(()))
    }
}

impl Drop for DuplexStream {
    fn drop(&mut self) {
        // Each calls a waker of whoever polls the other end.
        let mut panic = FirstPanic::default();
        panic.catch(|| self.outgoing.end());
        panic.catch(|| self.incoming.abandon());
        panic.go_on();
    }
}

impl fmt::Debug for DuplexStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuplexStream").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(quadrille_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use futures_lite::future::{block_on, poll_once};
    use futures_lite::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::Runtime;
    use crate::panics::tests::waker_that_panics;
    use crate::sync::wake_all::tests::Wakes;

    #[test]
    fn who_writes_more_than_fits_waits_for_who_reads() {
        block_on(async {
            let (mut one, mut other) = duplex(4);
            assert_eq!(one.write(b"abcdef").await.unwrap(), 4);
            let mut waits = Box::pin(one.write(b"ef"));
            assert!(poll_once(waits.as_mut()).await.is_none());
            let mut buf = [0; 3];
            assert_eq!(other.read(&mut buf).await.unwrap(), 3);
            assert_eq!(&buf, b"abc");
            assert_eq!(waits.await.unwrap(), 2);
            assert_eq!(other.read(&mut buf).await.unwrap(), 3);
            assert_eq!(&buf, b"def");
            assert!(poll_once(other.read(&mut buf)).await.is_none());
            // The other direction is another one.
            assert_eq!(other.write(b"0123").await.unwrap(), 4);
            assert_eq!(
                (other.write(b"").await.unwrap(), one.read(&mut []).await.unwrap()),
                (0, 0)
            );
        });
    }

    #[test]
    fn both_directions_end_though_a_waker_panics() {
        let (one, mut other) = duplex(1);
        block_on(other.write_all(b"x")).unwrap();
        let waker = waker_that_panics();
        let polled = Pin::new(&mut other).poll_read(&mut Context::from_waker(&waker), &mut [0]);
        assert!(polled.is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(one))).is_err());
        let written = block_on(poll_once(other.write(b"y")));
        let error = written.expect("it is told of the end").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_was_written_before_an_end_is_read() {
        for drops in [false, true] {
            block_on(async {
                let (mut one, mut other) = duplex(16);
                one.write_all(b"last").await.unwrap();
                let told = if drops {
                    drop(one);
                    other.write(b"a").await.map_err(|error| error.kind())
                } else {
                    one.close().await.unwrap();
                    for bytes in [&b"a"[..], b""] {
                        assert_eq!(one.write(bytes).await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
                    }
                    assert_eq!(other.write(b"a").await.unwrap(), 1);
                    let mut buf = [0];
                    assert_eq!(one.read(&mut buf).await.unwrap(), 1);
                    Err(io::ErrorKind::BrokenPipe)
                };
                assert_eq!(told, Err(io::ErrorKind::BrokenPipe), "drops: {drops}");
                let mut rest = vec![];
                other.read_to_end(&mut rest).await.unwrap();
                assert_eq!(rest, b"last", "drops: {drops}");
            });
        }
    }

    #[test]
    fn an_end_wakes_who_waits() {
        for reads in [false, true] {
            let wakes = Arc::new(Wakes::default());
            let waker = Waker::from(wakes.clone());
            let mut cx = Context::from_waker(&waker);
            let (mut one, other) = duplex(1);
            let mut waits = Box::pin(async move {
                let done = if reads {
                    one.read(&mut [0]).await
                } else {
                    one.write_all(b"ab").await.map(|()| 2)
                };
                done.map_err(|error| error.kind())
            });
            // A waker that is there already is not stored again.
            for _ in 0..2 {
                assert!(waits.as_mut().poll(&mut cx).is_pending());
            }
            assert_eq!(wakes.count(), 0);
            drop(other);
            assert_eq!(wakes.count(), 1, "reads: {reads}");
            let expected = if reads { Ok(0) } else { Err(io::ErrorKind::BrokenPipe) };
            assert_eq!(waits.as_mut().poll(&mut cx), Poll::Ready(expected), "reads: {reads}");
        }
    }

    #[test]
    fn nothing_is_lost_or_changes_its_place() {
        let runtime = Runtime::builder().worker_threads(2).build().unwrap();
        for size in [1, 7, 4096] {
            let sent: Vec<u8> = (0..=250).cycle().take(50_000).collect();
            let (mut one, mut other) = duplex(size);
            let expected = sent.clone();
            let writer = runtime.spawn(async move { one.write_all(&sent).await });
            let reader = runtime.spawn(async move {
                let mut received = vec![];
                other.read_to_end(&mut received).await.map(|_| received)
            });
            block_on(writer).unwrap().unwrap();
            assert!(block_on(reader).unwrap().unwrap() == expected, "{size} bytes at a time");
        }
    }

    #[test]
    #[should_panic(expected = "of 0 bytes, expected 1 or more")]
    fn one_that_holds_nothing_is_refused() {
        drop(duplex(0));
    }
}
