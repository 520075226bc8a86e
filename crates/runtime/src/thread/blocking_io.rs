//! Streams as std's traits have them, for code in blocking style.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread::panicking;

use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::Wait as _;
use super::wait::suspends;
use crate::coop;

/// A stream with std's [`Read`] and [`Write`], each call of which waits as [`.wait()`](super::Wait::wait) does: on a user-level thread, which is
/// suspended, the worker runs others meanwhile.
///
/// So whatever reads or writes in blocking style runs on user-level threads unchanged: [`BufReader`](std::io::BufReader) and its lines,
/// [`writeln!`], [`std::io::copy`], parsers, codecs, and protocols over TLS. Inside is whatever has the traits of futures-io: sockets, pipes, files, and what
/// others put on top. `&TcpStream` and `&UnixStream` have them, too, so that two threads may share one socket: one reads, the other writes.
///
/// Nothing is buffered.
///
/// ```
/// use std::io::{BufRead as _, BufReader, Write as _};
/// use quadrille::net::UnixStream;
/// use quadrille::thread::{self, BlockingIo};
///
/// let runtime = quadrille::Runtime::new()?;
/// let main = runtime.spawn_thread(|| {
///     let (near, far) = UnixStream::pair()?;
///     let shouting = thread::spawn(move || {
///         for line in BufReader::new(BlockingIo::new(&far)).lines() {
///             writeln!(BlockingIo::new(&far), "{}", line?.to_uppercase())?;
///         }
///         std::io::Result::Ok(())
///     });
///     writeln!(BlockingIo::new(&near), "hello")?;
///     let mut answer = String::new();
///     BufReader::new(BlockingIo::new(&near)).read_line(&mut answer)?;
///     assert_eq!(answer, "HELLO\n");
///     drop(near);
///     shouting.join().unwrap()
/// });
/// main.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Unwinding
/// A destructor of a thread that panics, is aborted, or ends with its runtime, can't be suspended. What it reads or writes then is done if that is possible at once, and
/// fails else: a [`BufWriter`](std::io::BufWriter), which writes what it has when it is dropped, gives that up where there is no room. Flush before.
///
/// # Panics
/// Each call as [`Wait::wait`](super::Wait::wait), but for what is said above: in a task, above all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BlockingIo<T>(T);

impl<T> BlockingIo<T> {
    /// Nothing happens to the stream.
    pub const fn new(stream: T) -> Self {
        Self(stream)
    }

    /// The stream.
    pub const fn get_ref(&self) -> &T {
        &self.0
    }

    /// The stream.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T: AsyncRead + Unpin> Read for BlockingIo<T> {
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait(|cx| Pin::new(&mut self.0).poll_read(cx, buffer))
    }

    #[track_caller]
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        wait(|cx| Pin::new(&mut self.0).poll_read_vectored(cx, buffers))
    }
}

impl<T: AsyncWrite + Unpin> Write for BlockingIo<T> {
    #[track_caller]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        wait(|cx| Pin::new(&mut self.0).poll_write(cx, bytes))
    }

    #[track_caller]
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        wait(|cx| Pin::new(&mut self.0).poll_write_vectored(cx, buffers))
    }

    #[track_caller]
    fn flush(&mut self) -> io::Result<()> {
        wait(|cx| Pin::new(&mut self.0).poll_flush(cx))
    }
}

impl<T: AsyncSeek + Unpin> Seek for BlockingIo<T> {
    #[track_caller]
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        wait(|cx| Pin::new(&mut self.0).poll_seek(cx, position))
    }
}

/// Waits for an operation, or fails where the thread can't be suspended: std's own destructors write, and ignore an error, where a panic would end the process.
#[track_caller]
fn wait<T>(mut operation: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>) -> io::Result<T> {
    if !(panicking() && suspends()) {
        return poll_fn(operation).wait();
    }
    let at_once = poll_fn(|cx| match coop::without_limit(|| operation(cx)) {
        Poll::Pending => Poll::Ready(Err(io::Error::other(
            "a user-level thread can't wait while it is unwound",
        ))),
        ready => ready,
    });
    at_once.wait()
}
