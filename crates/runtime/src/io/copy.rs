//! Passing on what there is to read, in one direction or in both.
//!
//! A writer may keep back what it was given: a `BufWriter`, TLS. While the reader has nothing, whoever waits for those
//! bytes at the far end may be the one that it waits for itself. So before a wait for the reader, and at the end,
//! everything that was written is flushed, also what was written before.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};

use crate::coop;
use crate::net::stream::write_zero;

/// How much is read at a time at most where the caller doesn't say, bytes.
const CHUNK: usize = 8 * 1024;

/// Passes on to `writer` what there is to read from `reader`, to its end; returns how many bytes. Both may be lent:
/// `&mut` of a reader is one.
///
/// Whenever nothing is there to read, and at the end, `writer` is flushed: what has come is on its way, and doesn't
/// wait in a buffer for what comes next. It is not closed.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::io;
/// use quadrille::net::UnixStream;
///
/// let (near, far) = UnixStream::pair()?;
/// assert_eq!(io::copy(&b"hello"[..], &far).await?, 5);
/// drop(far);
/// let mut heard = Vec::new();
/// assert_eq!(io::copy(&near, &mut heard).await?, 5);
/// assert_eq!(heard, b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// Those of either; [`WriteZero`](io::ErrorKind::WriteZero) if `writer` takes nothing. What answers
/// [`Interrupted`](io::ErrorKind::Interrupted) is tried again.
///
/// # Cancel safety
///
/// Loses what was read and not yet written, up to 8 KiB, and how much was written.
pub async fn copy<R, W>(reader: R, writer: W) -> io::Result<u64>
where
    R: AsyncRead,
    W: AsyncWrite,
{
    let (mut reader, mut writer) = (pin!(reader), pin!(writer));
    let mut copying = Copying::new(CHUNK);
    poll_fn(|cx| copying.poll(cx, reader.as_mut(), writer.as_mut())).await
}

/// Passes on what either says to the other, until both have ended; returns how many bytes went from `a` to `b`, and how
/// many from `b` to `a`.
///
/// Each direction is a [`copy`], after which its writer is closed: of a socket that ends the writing alone, and the
/// other direction goes on.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::io;
/// use quadrille::net::UnixStream;
/// use std::net::Shutdown;
///
/// let (client, mut a) = UnixStream::pair()?;
/// let (mut b, server) = UnixStream::pair()?;
/// client.write_all(b"ping").await?;
/// client.shutdown(Shutdown::Write)?;
/// server.write_all(b"pong!").await?;
/// server.shutdown(Shutdown::Write)?;
/// assert_eq!(io::copy_bidirectional(&mut a, &mut b).await?, (4, 5));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// Those of either, the first in either direction: the other is left as it is then.
/// [`WriteZero`](io::ErrorKind::WriteZero) if a writer takes nothing.
///
/// # Cancel safety
///
/// Loses what was read and not yet written, up to 8 KiB in each direction, and how much was written.
pub async fn copy_bidirectional<A, B>(a: &mut A, b: &mut B) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    copy_bidirectional_with_sizes(a, b, CHUNK, CHUNK).await
}

/// As [`copy_bidirectional`], with at most `a_to_b` bytes on their way from `a` to `b` at a time, and `b_to_a` the
/// other way; there 8 KiB (8192) each. Larger ones cost fewer system calls where much is passed on, and that memory for
/// each pair.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use quadrille::io;
/// use quadrille::net::UnixStream;
///
/// let (client, mut a) = UnixStream::pair()?;
/// let (mut b, server) = UnixStream::pair()?;
/// let proxy = quadrille::spawn(async move { io::copy_bidirectional_with_sizes(&mut a, &mut b, 1024, 65536).await });
/// server.write_all(&[7; 100_000]).await?;
/// drop(server);
/// let mut received = Vec::new();
/// io::copy(&client, &mut received).await?;
/// drop(client);
/// assert_eq!((received.len(), proxy.await?.unwrap()), (100_000, (0, 100_000)));
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// As there.
///
/// # Panics
///
/// If a size is zero.
///
/// # Cancel safety
///
/// As there, with these sizes.
pub async fn copy_bidirectional_with_sizes<A, B>(
    a: &mut A,
    b: &mut B,
    a_to_b: usize,
    b_to_a: usize,
) -> io::Result<(u64, u64)>
where
    A: AsyncRead + AsyncWrite + Unpin + ?Sized,
    B: AsyncRead + AsyncWrite + Unpin + ?Sized,
{
    let (mut there, mut back) = (Passing::new(a_to_b), Passing::new(b_to_a));
    let mut is_back_first = true;
    poll_fn(|cx| {
        // Whoever is first and never has to wait spends the budget of the poll.
        is_back_first = !is_back_first;
        let mut there = |cx: &mut Context<'_>, a: &mut A, b: &mut B| there.poll(cx, Pin::new(a), Pin::new(b));
        let mut back = |cx: &mut Context<'_>, a: &mut A, b: &mut B| back.poll(cx, Pin::new(b), Pin::new(a));
        // Both in any case: each has its own to wait for.
        let answers = if is_back_first {
            let back = back(cx, a, b)?;
            (there(cx, a, b)?, back)
        } else {
            (there(cx, a, b)?, back(cx, a, b)?)
        };
        match answers {
            (Poll::Ready(there), Poll::Ready(back)) => Poll::Ready(Ok((there, back))),
            _ => Poll::Pending,
        }
    })
    .await
}

/// One direction on its way.
struct Copying {
    buffer: Box<[u8]>,
    /// What was read and not written: `start..end` of the buffer.
    start: usize,
    end: usize,
    /// The reader has ended.
    ended: bool,
    /// Something may have been written since the last flush, if only by whoever had the writer before.
    unflushed: bool,
    written: u64,
}

impl Copying {
    fn new(size: usize) -> Self {
        assert!(size > 0, "the size of a copy's buffer is 0, expected 1 at least");
        Copying {
            buffer: vec![0; size].into_boxed_slice(),
            start: 0,
            end: 0,
            ended: false,
            unflushed: true,
            written: 0,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut reader: Pin<&mut (impl AsyncRead + ?Sized)>,
        mut writer: Pin<&mut (impl AsyncWrite + ?Sized)>,
    ) -> Poll<io::Result<u64>> {
        loop {
            while self.start < self.end {
                let left = &self.buffer[self.start..self.end];
                match ready!(poll_uninterrupted(cx, |cx| writer.as_mut().poll_write(cx, left)))? {
                    0 => return Poll::Ready(Err(write_zero())),
                    count => self.start += count,
                }
                self.unflushed = true;
            }
            self.written += self.end as u64;
            (self.start, self.end) = (0, 0);
            if !self.ended {
                // Also where neither is ours: who always has something gives way.
                let read = coop::poll_progress(cx, |cx| reader.as_mut().poll_read(cx, &mut self.buffer));
                match read {
                    Poll::Ready(Ok(0)) => self.ended = true,
                    Poll::Ready(Ok(count)) => {
                        self.end = count;
                        continue;
                    }
                    // It is paid for, too.
                    Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {}
                }
            }
            if self.unflushed {
                ready!(poll_uninterrupted(cx, |cx| writer.as_mut().poll_flush(cx)))?;
                self.unflushed = false;
            }
            return if self.ended {
                Poll::Ready(Ok(self.written))
            } else {
                Poll::Pending
            };
        }
    }
}

/// Polls `operation` until it answers something other than `Interrupted`: a signal is no error of the stream. Each such
/// answer costs a unit, so that who has nothing else to say gives way.
fn poll_uninterrupted<T>(
    cx: &mut Context<'_>,
    mut operation: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> Poll<io::Result<T>> {
    loop {
        match ready!(operation(cx)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => ready!(coop::poll_spend(cx)),
            outcome => return Poll::Ready(outcome),
        }
    }
}

/// One direction, to the end of its writer.
enum Passing {
    Copying(Copying),
    Closing(u64),
    Closed(u64),
}

impl Passing {
    fn new(size: usize) -> Self {
        Passing::Copying(Copying::new(size))
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut reader: Pin<&mut (impl AsyncRead + ?Sized)>,
        mut writer: Pin<&mut (impl AsyncWrite + ?Sized)>,
    ) -> Poll<io::Result<u64>> {
        loop {
            *self = match self {
                Passing::Copying(copying) => {
                    Passing::Closing(ready!(copying.poll(cx, reader.as_mut(), writer.as_mut()))?)
                }
                Passing::Closing(written) => {
                    ready!(poll_uninterrupted(cx, |cx| writer.as_mut().poll_close(cx)))?;
                    Passing::Closed(*written)
                }
                Passing::Closed(written) => return Poll::Ready(Ok(*written)),
            };
        }
    }
}
