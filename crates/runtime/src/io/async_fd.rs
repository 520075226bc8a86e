//! A descriptor that doesn't block, with futures for its readiness.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::task::{Context, Poll};

use crate::driver::{self, Interest, Registration, Side};
use crate::sys;

/// Waits until something with a file descriptor can be read or written: a pipe, a socket, an eventfd.
///
/// It sets the descriptor to non-blocking mode, and watches it until it is dropped. Regular files can't be watched: use
/// `spawn_blocking` for those.
///
/// Readiness is a hint: between the hint and the attempt somebody else may have taken the data. [`read_with`] and
/// [`write_with`] put both together and try again.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use std::io::{Read, Write};
/// use quadrille::io::AsyncFd;
///
/// let (reader, mut writer) = std::io::pipe()?;
/// let reader = AsyncFd::new(reader)?;
/// writer.write_all(b"hello")?;
/// let mut buffer = [0; 16];
/// let length = reader.read_with(|mut pipe| pipe.read(&mut buffer)).await?;
/// assert_eq!(&buffer[..length], b"hello");
/// # std::io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// [`read_with`]: Self::read_with
/// [`write_with`]: Self::write_with
pub struct AsyncFd<T: AsFd> {
    /// `None` only after `into_inner`.
    io: Option<T>,
    registration: Registration,
}

impl<T: AsFd> AsyncFd<T> {
    /// Watches `io` for reading and writing.
    ///
    /// # Errors
    ///
    /// This kind of descriptor can't be watched (a regular file), or not twice by one runtime; or the system has no thread
    /// or descriptor for the watch; or the runtime shuts down. `io` is dropped then.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn new(io: T) -> io::Result<Self> {
        Self::with_interest(
            io,
            Interest {
                readable: true,
                writable: true,
            },
        )
    }

    /// Watches `io` for reading only; waiting for it to be writable would take for ever.
    #[track_caller]
    pub(crate) fn reader(io: T) -> io::Result<Self> {
        Self::with_interest(
            io,
            Interest {
                readable: true,
                writable: false,
            },
        )
    }

    /// Watches `io` for writing only; waiting for it to be readable would take for ever.
    #[track_caller]
    pub(crate) fn writer(io: T) -> io::Result<Self> {
        Self::with_interest(
            io,
            Interest {
                readable: false,
                writable: true,
            },
        )
    }

    #[track_caller]
    fn with_interest(io: T, interest: Interest) -> io::Result<Self> {
        let fd = io.as_fd();
        sys::fd::set_nonblocking(fd)?;
        let registration = driver::with_current(|driver| driver.register(fd, interest))?;
        Ok(AsyncFd {
            io: Some(io),
            registration,
        })
    }

    /// What is watched.
    #[expect(
        clippy::missing_panics_doc,
        reason = "there is something inside as long as somebody can ask"
    )]
    pub fn get_ref(&self) -> &T {
        self.io
            .as_ref()
            .expect("it is taken by into_inner alone, which consumes self")
    }

    /// Ends the watch, and gives back what was watched, still in non-blocking mode.
    #[expect(
        clippy::missing_panics_doc,
        reason = "there is something inside as long as somebody can ask"
    )]
    pub fn into_inner(mut self) -> T {
        self.deregister();
        self.io.take().expect("it is taken here alone")
    }

    /// Waits until it may be readable, or the other end is closed. Any number of tasks may wait.
    ///
    /// Ready again at once until [`try_read_with`](Self::try_read_with) or [`read_with`](Self::read_with) has found that
    /// there is nothing to read.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub async fn readable(&self) -> io::Result<()> {
        self.registration.ready(Side::Read, false).await.map(drop)
    }

    /// Waits until it may be writable, or the other end is closed; see [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub async fn writable(&self) -> io::Result<()> {
        self.registration.ready(Side::Write, false).await.map(drop)
    }

    /// Is it readable? For implementations of `poll_read`: of those who poll one side, only the last is woken.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registration.poll_ready(Side::Read, cx).map_ok(drop)
    }

    /// Is it writable? For implementations of `poll_write`: of those who poll one side, only the last is woken.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.registration.poll_ready(Side::Write, cx).map_ok(drop)
    }

    /// Calls `operation` until it answers something other than [`WouldBlock`](io::ErrorKind::WouldBlock) (or
    /// [`Interrupted`](io::ErrorKind::Interrupted)), and waits for readability in between.
    ///
    /// # Errors
    ///
    /// Those of `operation`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict, if `operation` changes nothing when it answers `WouldBlock`: it is dropped only between two calls.
    pub async fn read_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Side::Read, operation).await
    }

    /// Calls `operation` until it answers something other than [`WouldBlock`](io::ErrorKind::WouldBlock) (or
    /// [`Interrupted`](io::ErrorKind::Interrupted)), and waits for writability in between.
    ///
    /// # Errors
    ///
    /// Those of `operation`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict, if `operation` changes nothing when it answers `WouldBlock`: it is dropped only between two calls.
    pub async fn write_with<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt(Side::Write, operation).await
    }

    /// Calls `operation` once. If it answers `WouldBlock`, [`readable`](Self::readable) waits for the next event.
    ///
    /// # Errors
    ///
    /// Those of `operation`.
    pub fn try_read_with<R>(&self, operation: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt_once(Side::Read, operation)
    }

    /// Calls `operation` once. If it answers `WouldBlock`, [`writable`](Self::writable) waits for the next event.
    ///
    /// # Errors
    ///
    /// Those of `operation`.
    pub fn try_write_with<R>(&self, operation: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        self.attempt_once(Side::Write, operation)
    }

    async fn attempt<R>(&self, side: Side, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        loop {
            let tick = self.registration.ready(side, true).await?;
            match operation(self.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.registration.clear_readiness(side, tick);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    fn attempt_once<R>(&self, side: Side, operation: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        // Before the attempt: an event during it must not be cleared.
        let tick = self.registration.tick(side);
        let outcome = operation(self.get_ref());
        if let Err(error) = &outcome
            && error.kind() == io::ErrorKind::WouldBlock
        {
            self.registration.clear_readiness(side, tick);
        }
        outcome
    }

    /// Ends the watch of the descriptor.
    fn deregister(&mut self) {
        if let Some(io) = &self.io {
            // It fails if `io` has exchanged its descriptor: then the kernel has forgotten the old one when it was closed.
            let _ = self.registration.deregister(io.as_fd());
        }
    }
}

impl<T: AsFd> Drop for AsyncFd<T> {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl<T: AsFd> AsFd for AsyncFd<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<T: AsFd> AsRawFd for AsyncFd<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl<T: AsFd + fmt::Debug> fmt::Debug for AsyncFd<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncFd").field("io", &self.io).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::task::Waker;
    use std::thread;

    use futures_lite::future::{block_on, poll_once};

    use super::*;
    use crate::driver::tests::with_driver;

    /// A watched reader, and the plain writer.
    fn pipe() -> (AsyncFd<PipeReader>, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        (AsyncFd::new(reader).unwrap(), writer)
    }

    /// Reads one byte, without a wait.
    fn read_byte(mut reader: &PipeReader) -> io::Result<u8> {
        let mut byte = [0];
        reader.read_exact(&mut byte).map(|()| byte[0])
    }

    #[test]
    fn readable_waits_for_data_and_stays_until_there_is_none() {
        with_driver(|| {
            let (reader, mut writer) = pipe();
            assert!(block_on(poll_once(reader.readable())).is_none());
            writer.write_all(b"ab").unwrap();
            for byte in *b"ab" {
                block_on(reader.readable()).unwrap();
                assert_eq!(reader.try_read_with(read_byte).unwrap(), byte);
            }
            assert_eq!(
                reader.try_read_with(read_byte).unwrap_err().kind(),
                io::ErrorKind::WouldBlock
            );
            assert!(block_on(poll_once(reader.readable())).is_none());
        });
    }

    #[test]
    fn polling_is_waiting() {
        with_driver(|| {
            let (reader, mut writer) = pipe();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(reader.poll_readable(&mut cx).is_pending());
            writer.write_all(b"a").unwrap();
            block_on(std::future::poll_fn(|cx| reader.poll_readable(cx))).unwrap();
            let writer = AsyncFd::new(writer).unwrap();
            block_on(std::future::poll_fn(|cx| writer.poll_writable(cx))).unwrap();
        });
    }

    #[test]
    fn read_with_takes_what_is_there_without_an_event() {
        with_driver(|| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(b"a").unwrap();
            let reader = AsyncFd::new(reader).unwrap();
            assert_eq!(block_on(poll_once(reader.read_with(read_byte))).unwrap().unwrap(), b'a');
        });
    }

    #[test]
    fn the_end_of_a_pipe_is_an_answer() {
        with_driver(|| {
            let (reader, writer) = pipe();
            thread::scope(|scope| {
                scope.spawn(move || drop(writer));
                let error = block_on(reader.read_with(read_byte)).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
            });
        });
    }

    #[test]
    fn interrupted_operations_are_tried_again() {
        with_driver(|| {
            let (reader, _writer) = pipe();
            let mut attempts = 0;
            let outcome = block_on(reader.read_with(|_| {
                attempts += 1;
                if attempts < 4 {
                    Err(io::ErrorKind::Interrupted.into())
                } else {
                    Ok(attempts)
                }
            }));
            assert_eq!(outcome.unwrap(), 4);
        });
    }

    #[test]
    fn other_errors_are_answers() {
        with_driver(|| {
            let (reader, _writer) = pipe();
            let outcome: io::Result<()> = block_on(reader.read_with(|_| Err(io::ErrorKind::PermissionDenied.into())));
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        });
    }

    #[test]
    fn into_inner_ends_the_watch_so_that_another_can_begin() {
        with_driver(|| {
            let (left, _right) = UnixStream::pair().unwrap();
            let mut watched = AsyncFd::new(left).unwrap();
            for _ in 0..3 {
                watched = AsyncFd::new(watched.into_inner()).unwrap();
            }
            block_on(watched.writable()).unwrap();
        });
    }

    #[test]
    fn a_wait_that_is_dropped_takes_nothing_with_it() {
        with_driver(|| {
            let (reader, mut writer) = pipe();
            for _ in 0..10 {
                assert!(block_on(poll_once(reader.read_with(read_byte))).is_none());
            }
            writer.write_all(b"a").unwrap();
            assert_eq!(block_on(reader.read_with(read_byte)).unwrap(), b'a');
        });
    }

    #[test]
    fn a_regular_file_is_refused() {
        with_driver(|| {
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            assert!(AsyncFd::new(file).is_err());
        });
    }

    #[test]
    #[should_panic(expected = "no quadrille runtime here")]
    fn outside_of_a_runtime_it_panics() {
        let (reader, _writer) = io::pipe().unwrap();
        drop(AsyncFd::new(reader));
    }
}
