//! Streams as std's traits have them, for code in blocking style.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};

use super::Wait as _;
use super::suspend::Frame;
use super::wait::{suspends, wait_in_place};
use crate::reactor::poll_as_thread;

/// A stream with std's [`Read`] and [`Write`], each call of which waits as [`.wait()`](super::Wait::wait) does: on a
/// user-level thread, which is suspended, the worker runs others meanwhile.
///
/// So whatever reads or writes in blocking style runs on user-level threads unchanged:
/// [`BufReader`](std::io::BufReader) and its lines, [`writeln!`], [`std::io::copy`], parsers, codecs, and protocols
/// over TLS. Inside is whatever has the traits of futures-io: sockets, pipes, files, and what others put on top.
/// `&TcpStream` and `&UnixStream` have them, too, so that threads may share a socket: one reads, another writes, or
/// several do as it comes. An `Arc<TcpStream>` has not, since neither is ours: around the reference to what is inside,
/// in each of the two threads.
///
/// A library that must wait for something else as well, say for a message, is given a type of one's own, whose `read`
/// waits for either by [`select!`](crate::select!) and [`.wait()`](super::Wait::wait), and says `WouldBlock`: the
/// example `websocket_chat`. One that is to stop when a server ends reads an end then:
///
/// ```
/// use std::io::{self, Read};
/// use std::time::Duration;
/// use quadrille::Wait as _;
/// use quadrille::net::TcpStream;
/// use quadrille::sync::CancellationToken;
///
/// /// Ends when the client does, or when it is told to stop; fails when nothing comes for a minute.
/// struct Input<'a> {
///     stream: &'a TcpStream,
///     stop: &'a CancellationToken,
/// }
///
/// impl Read for Input<'_> {
///     fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
///         let read = self.stop.run_until_cancelled(self.stream.read(buffer));
///         read.wait_timeout(Duration::from_secs(60))?.unwrap_or(Ok(0))
///     }
/// }
/// ```
///
/// Nothing is buffered: `writeln!` of two pieces is two writes, the second of which a TCP socket keeps until the first
/// is acknowledged, 40 ms later mostly, unless it has [`set_nodelay`](crate::net::TcpStream::set_nodelay). Write one
/// piece, or through a [`BufWriter`](std::io::BufWriter). [`set_read_timeout`](Self::set_read_timeout) and
/// [`set_write_timeout`](Self::set_write_timeout) are as those of std's sockets.
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
///             let answer = line?.to_uppercase() + "\n";
///             BlockingIo::new(&far).write_all(answer.as_bytes())?;
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
/// A destructor of a thread that panics, is aborted, or ends with its runtime, can't be suspended. What it reads or
/// writes then is waited for in place for about a second, or as long as its limit says if that is less, and fails then,
/// where [`.wait()`](super::Wait::wait) would end the process: a [`BufWriter`](std::io::BufWriter), which writes what
/// it has when it is dropped, gives that up where there is no room for so long, and its worker is blocked. One that is
/// suspended in a destructor already, at the end of its closure, is unwound instead of failing. Flush before.
///
/// # Panics
/// Each call as [`Wait::wait`](super::Wait::wait), but for what is said above: in a task, above all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BlockingIo<T> {
    stream: T,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
}

impl<T> BlockingIo<T> {
    /// Nothing happens to the stream. Each call waits as long as it takes.
    pub const fn new(stream: T) -> Self {
        Self {
            stream,
            read_timeout: None,
            write_timeout: None,
        }
    }

    /// How long a call that reads waits at most; by default, and with `None`, as long as it takes. One for which the
    /// time has passed has read nothing, and fails with [`WouldBlock`](io::ErrorKind::WouldBlock), around an
    /// [`Elapsed`](crate::time::Elapsed): the kind that std's sockets have on Unix, by which libraries know that they
    /// may go on later. (`wait_timeout` by `?` is [`TimedOut`](io::ErrorKind::TimedOut).)
    ///
    /// As with std's it is a limit of each call, and not of all that a message or `read_exact` takes: who sends a byte
    /// now and then is never too late. It is this value's, and that of copies made later; the stream knows nothing of
    /// it.
    ///
    /// ```
    /// use std::io::{ErrorKind, Read as _};
    /// use quadrille::net::UnixStream;
    /// use quadrille::thread::BlockingIo;
    /// use quadrille::time::Duration;
    ///
    /// let runtime = quadrille::Runtime::new()?;
    /// let silence = runtime.spawn_thread(|| {
    ///     let (near, _far) = UnixStream::pair()?;
    ///     let mut near = BlockingIo::new(near);
    ///     near.set_read_timeout(Some(Duration::from_millis(1)))?;
    ///     near.read(&mut [0; 16])
    /// });
    /// assert_eq!(silence.join().unwrap().unwrap_err().kind(), ErrorKind::WouldBlock);
    /// # Ok::<(), quadrille::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a limit of zero, as std's.
    pub fn set_read_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.read_timeout = not_zero(limit)?;
        Ok(())
    }

    /// How long a call that writes or flushes waits at most, as [`set_read_timeout`](Self::set_read_timeout) says. One
    /// for which the time has passed has written nothing; how much `write_all` had written before isn't known.
    ///
    /// # Errors
    /// As there.
    pub fn set_write_timeout(&mut self, limit: Option<Duration>) -> io::Result<()> {
        self.write_timeout = not_zero(limit)?;
        Ok(())
    }

    /// How long a call that reads waits at most.
    #[must_use]
    pub const fn read_timeout(&self) -> Option<Duration> {
        self.read_timeout
    }

    /// How long a call that writes or flushes waits at most.
    #[must_use]
    pub const fn write_timeout(&self) -> Option<Duration> {
        self.write_timeout
    }

    /// The stream.
    pub const fn get_ref(&self) -> &T {
        &self.stream
    }

    /// The stream.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.stream
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> T {
        self.stream
    }
}

impl<T: AsyncRead + Unpin> Read for BlockingIo<T> {
    #[track_caller]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        wait(self.read_timeout, |cx| Pin::new(&mut self.stream).poll_read(cx, buffer))
    }

    #[track_caller]
    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        wait(self.read_timeout, |cx| {
            Pin::new(&mut self.stream).poll_read_vectored(cx, buffers)
        })
    }
}

impl<T: AsyncWrite + Unpin> Write for BlockingIo<T> {
    #[track_caller]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        wait(self.write_timeout, |cx| {
            Pin::new(&mut self.stream).poll_write(cx, bytes)
        })
    }

    #[track_caller]
    fn write_vectored(&mut self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        wait(self.write_timeout, |cx| {
            Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
        })
    }

    #[track_caller]
    fn flush(&mut self) -> io::Result<()> {
        wait(self.write_timeout, |cx| Pin::new(&mut self.stream).poll_flush(cx))
    }
}

impl<T: AsyncSeek + Unpin> Seek for BlockingIo<T> {
    #[track_caller]
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        wait(None, |cx| Pin::new(&mut self.stream).poll_seek(cx, position))
    }
}

/// A limit that is one. What can be done at once isn't known without a wait: the runtime hears of events when it polls
/// for them.
fn not_zero(limit: Option<Duration>) -> io::Result<Option<Duration>> {
    if limit == Some(Duration::ZERO) {
        let message = "a timeout must not be zero: `None` is for none";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(limit)
}

/// For how long an operation may block a worker whose thread can't be suspended, about: as a wait without a limit.
const IN_PLACE_MAX: Duration = Duration::from_secs(1);

/// Waits for an operation, at most for `limit`.
#[track_caller]
fn wait<T>(
    limit: Option<Duration>,
    mut operation: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<T> {
    let is_ordinary = !suspends();
    let operation = poll_fn(|cx| {
        // Other threads may wait for the same stream.
        if is_ordinary {
            poll_as_thread(|| operation(cx))
        } else {
            operation(cx)
        }
    });
    let is_in_place = !is_ordinary && Frame::waits_in_place();
    match limit {
        Some(limit) if !is_in_place || limit <= IN_PLACE_MAX => match operation.wait_timeout(limit) {
            Ok(result) => result,
            Err(elapsed) => Err(io::Error::new(io::ErrorKind::WouldBlock, elapsed)),
        },
        _ if is_in_place => fail_in_place(operation),
        _ => operation.wait(),
    }
}

/// The same where the thread can't be suspended: for about a second, and then it fails. std's own destructors write,
/// and ignore an error, where a panic would end the process.
fn fail_in_place<T>(operation: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    wait_in_place(operation, None).unwrap_or_else(|| {
        let message = "a user-level thread can't wait for long while it is unwound";
        Err(io::Error::other(message))
    })
}
