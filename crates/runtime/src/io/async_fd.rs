//! A descriptor that doesn't block, with futures for its readiness.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Interest, Progress, Ready};
use crate::current;
use crate::reactor::{Interests, Registration, Side, Tick, stopped};
use crate::runtime::{self, Handle};
use crate::sched::Shared;
use crate::sys;
use crate::task::runtime_of_future;

/// Waits until something with a file descriptor can be read or written: a pipe, a socket, an eventfd.
///
/// It sets the descriptor to non-blocking mode, and watches it until it is dropped. Regular files can't be watched:
/// that is what [`fs::File`](crate::fs::File) is for.
///
/// At the end of its runtime whoever waits has an error, but for futures that the tasks of that runtime poll by their
/// own wakers: those hear nothing, and are dropped where they wait.
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
    /// Of a `PipeReader`: while another reads, a read answers `WouldBlock`, and no event tells when that has ended.
    pub(super) is_terminal: bool,
}

impl<T: AsFd> AsyncFd<T> {
    /// Watches `io` for reading and writing.
    ///
    /// # Errors
    ///
    /// This kind of descriptor can't be watched (a regular file); or the system has no thread or descriptor for the
    /// watch; or the runtime shuts down. `io` is dropped then. A descriptor that this runtime watches already may be
    /// refused, with [`AlreadyExists`](io::ErrorKind::AlreadyExists): it is where both watches are for the same cache.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn new(io: T) -> io::Result<Self> {
        Self::with_interest(io, Interest::READABLE | Interest::WRITABLE)
    }

    /// Watches `io` for what `interest` says; waiting for anything else would take for ever.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn with_interest(io: T, interest: Interest) -> io::Result<Self> {
        sys::fd::set_nonblocking(io.as_fd())?;
        Self::from_nonblocking(io, interest)
    }

    /// The same for what is in non-blocking mode already.
    #[track_caller]
    pub(crate) fn from_nonblocking(io: T, interest: Interest) -> io::Result<Self> {
        runtime::with_current(|shared| Self::register(shared, io, interests_of(interest)))
    }

    /// The same for what is to be written first, so that both sides are watched from the beginning: a socket that is
    /// being connected.
    pub(crate) fn connecting(io: T) -> io::Result<Self> {
        runtime::with_current(|shared| Self::register(shared, io, Interests::Both))
    }

    /// The same in the current runtime, or, outside of any, in that of `handle`.
    pub(crate) fn from_nonblocking_or(handle: &Handle, io: T, interest: Interest) -> io::Result<Self> {
        current::with(|shared| Self::register(shared.unwrap_or(&handle.shared), io, interests_of(interest)))
    }

    fn register(shared: &Arc<Shared>, io: T, interests: Interests) -> io::Result<Self> {
        let registration = shared.register(io.as_fd(), interests)?;
        Ok(AsyncFd {
            io: Some(io),
            registration,
            is_terminal: false,
        })
    }

    /// Watches `io` for reading only.
    #[track_caller]
    pub(crate) fn reader(io: T) -> io::Result<Self> {
        Self::with_interest(io, Interest::READABLE)
    }

    /// Watches `io` for writing only.
    #[track_caller]
    pub(crate) fn writer(io: T) -> io::Result<Self> {
        Self::with_interest(io, Interest::WRITABLE)
    }

    pub(super) fn registration(&self) -> &Registration {
        &self.registration
    }

    /// As [`Registration::ready`], but for tasks of a runtime that ends.
    fn side(&self, side: Side) -> impl Future<Output = io::Result<Tick>> {
        let mut ready = self.registration.ready(self.as_fd(), side, false);
        poll_fn(move |cx| hide_poll_error_if_doomed(Pin::new(&mut ready).poll(cx), cx))
    }

    /// As [`Registration::poll_ready`], but for tasks of a runtime that ends.
    pub(super) fn poll_side(&self, side: Side, eager: bool, cx: &mut Context<'_>) -> Poll<io::Result<Tick>> {
        hide_poll_error_if_doomed(self.registration.poll_ready(self.as_fd(), side, eager, cx), cx)
    }

    /// Whether its runtime has stopped, so that nothing is told any more.
    pub(crate) fn is_over(&self) -> bool {
        self.registration.is_closed()
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

    /// What is watched, for what needs it exclusively. Exchange it for nothing with another descriptor; that has an
    /// `AsyncFd` of its own.
    ///
    /// Exchanged all the same, the new one is not watched, and what was known of the old one passes for what is known
    /// of it: a side that was ready stays so until an operation answers [`WouldBlock`](io::ErrorKind::WouldBlock), and
    /// from then on who waits, as in [`read_with`](Self::read_with), waits for an event of the old one, as long as that
    /// is open somewhere, or for ever. To wait for room may fail. If the new one is watched by another `AsyncFd`, its
    /// events may no longer reach that one, at the latest once this one is dropped; and the old one may be refused to
    /// the next, as in [`new`](Self::new), until it is closed.
    #[expect(
        clippy::missing_panics_doc,
        reason = "there is something inside as long as somebody can ask"
    )]
    pub fn get_mut(&mut self) -> &mut T {
        self.io
            .as_mut()
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
    /// Ready again at once until [`try_read_with`](Self::try_read_with) or [`read_with`](Self::read_with) has found
    /// that there is nothing to read. An event wakes all who wait; who is polled only after another has found that goes
    /// on to wait for the next one.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub async fn readable(&self) -> io::Result<()> {
        self.side(Side::Read).await.map(drop)
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
        self.side(Side::Write).await.map(drop)
    }

    /// Waits until one of the sides that `interest` names may be ready, and says which are, as far as the system has
    /// told: room to write may be missing from the first answer that could have it, because the system is asked to tell
    /// of it by that call. See [`readable`](Self::readable).
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: nothing is consumed.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        let mut read = pin!(self.side(Side::Read));
        let mut write = pin!(self.side(Side::Write));
        poll_fn(|cx| {
            let readable = interest.is_readable() && pass_error(read.as_mut().poll(cx))?;
            let writable = interest.is_writable() && pass_error(write.as_mut().poll(cx))?;
            match Ready::of(readable, writable) {
                Ready::EMPTY => Poll::Pending,
                ready => Poll::Ready(Ok(ready)),
            }
        })
        .await
    }

    /// Is it readable? For implementations of `poll_read`: of those who poll one side, only the last is woken.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_side(Side::Read, false, cx).map_ok(drop)
    }

    /// Is it writable? For implementations of `poll_write`: of those who poll one side, only the last is woken.
    ///
    /// # Errors
    ///
    /// The runtime shuts down.
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_side(Side::Write, false, cx).map_ok(drop)
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
    pub fn read_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> impl Future<Output = io::Result<R>> {
        self.transfer(Side::Read, move |io| operation(io).map(Progress::only))
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
    pub fn write_with<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> impl Future<Output = io::Result<R>> {
        self.transfer(Side::Write, move |io| operation(io).map(Progress::only))
    }

    /// [`read_with`](Self::read_with) for implementations of `poll_read`: of those who poll one side, only the last is
    /// woken.
    ///
    /// # Errors
    ///
    /// Those of `operation`; the runtime shuts down.
    pub fn poll_read_with<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_transfer(Side::Read, cx, |io| operation(io).map(Progress::only))
    }

    /// [`write_with`](Self::write_with) for implementations of `poll_write`: of those who poll one side, only the last
    /// is woken.
    ///
    /// # Errors
    ///
    /// Those of `operation`; the runtime shuts down.
    pub fn poll_write_with<R>(
        &self,
        cx: &mut Context<'_>,
        mut operation: impl FnMut(&T) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_transfer(Side::Write, cx, |io| operation(io).map(Progress::only))
    }

    /// Calls `operation` once. If it answers `WouldBlock`, [`readable`](Self::readable) waits for the next event.
    ///
    /// # Errors
    ///
    /// Those of `operation`.
    pub fn try_read_with<R>(&self, operation: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        self.try_transfer(Side::Read, |io| operation(io).map(Progress::only))
    }

    /// Calls `operation` once. If it answers `WouldBlock`, [`writable`](Self::writable) waits for the next event.
    ///
    /// # Errors
    ///
    /// Those of `operation`.
    pub fn try_write_with<R>(&self, operation: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        self.try_transfer(Side::Write, |io| operation(io).map(Progress::only))
    }

    /// Ends the watch of the descriptor.
    fn deregister(&mut self) {
        if let Some(io) = &self.io {
            // It fails if `io` has exchanged its descriptor: then the kernel has forgotten the old one when it was
            // closed.
            let _ = self.registration.deregister(io.as_fd());
        }
    }
}

/// Who may write hears of room from when that is waited for; most find some.
fn interests_of(interest: Interest) -> Interests {
    match (interest.is_readable(), interest.is_writable()) {
        (true, true) => Interests::ReadFirst,
        (false, true) => Interests::Write,
        (_, false) => Interests::Read,
    }
}

/// What who waits is told. Of an error nothing, if it is *doomed*: a future of a runtime that ends. It is dropped when
/// it has come to a wait, and what it would do with the error, say log it, nobody has asked for. A future that is
/// polled in a loop all the same, by its task's own waker, would never leave it.
#[inline]
pub(crate) fn hide_poll_error_if_doomed<R>(poll: Poll<io::Result<R>>, cx: &Context<'_>) -> Poll<io::Result<R>> {
    match poll {
        Poll::Ready(Err(_)) if is_doomed(cx.waker()) => Poll::Pending,
        poll => poll,
    }
}

/// The same for an outcome that is there. For operations which watch or start something that a runtime which ends
/// refuses.
pub(crate) async fn hide_error_if_doomed<R>(outcome: io::Result<R>) -> io::Result<R> {
    match outcome {
        Ok(result) => Ok(result),
        Err(error) => {
            let mut error = Some(error);
            poll_fn(|cx| {
                if is_doomed(cx.waker()) {
                    return Poll::Pending;
                }
                Poll::Ready(Err(error.take().expect("it is not polled after its end")))
            })
            .await
        }
    }
}

/// For an operation that finds out by itself that its runtime ends: what one that waits for a descriptor is told, which
/// is nothing if it is doomed.
pub(crate) async fn stopped_unless_doomed<R>() -> io::Result<R> {
    hide_error_if_doomed(Err(stopped())).await
}

/// Whether a waker is that of a future that is doomed.
#[cold]
fn is_doomed(waker: &Waker) -> bool {
    runtime_of_future(waker).is_some_and(|shared| shared.sleepers.is_stopping())
}

/// Whether it is ready; an error ends the wait.
fn pass_error(poll: Poll<io::Result<Tick>>) -> io::Result<bool> {
    match poll {
        Poll::Ready(Ok(_)) => Ok(true),
        Poll::Ready(Err(error)) => Err(error),
        Poll::Pending => Ok(false),
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
    use crate::runtime::tests::with_runtime;

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
        with_runtime(|| {
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

    /// What needs the inside exclusively reads from the same that is watched.
    #[test]
    fn the_inside_can_be_borrowed_exclusively() {
        with_runtime(|| {
            let (mut reader, mut writer) = pipe();
            writer.write_all(b"ab").unwrap();
            block_on(reader.readable()).unwrap();
            let mut byte = [0];
            reader.get_mut().read_exact(&mut byte).unwrap();
            assert_eq!((byte, reader.try_read_with(read_byte).unwrap()), (*b"a", b'b'));
            assert!(reader.try_read_with(read_byte).is_err());
        });
    }

    /// What is known is of the one that is watched, whatever is inside.
    #[test]
    fn what_is_exchanged_is_not_watched() {
        with_runtime(|| {
            let ((mut reader, mut old), (other, mut new)) = (pipe(), pipe());
            old.write_all(b"a").unwrap();
            block_on(reader.readable()).unwrap();
            let _open = std::mem::replace(reader.get_mut(), other.into_inner());
            assert!(block_on(poll_once(reader.readable())).is_some(), "as it was");
            assert!(reader.try_read_with(read_byte).is_err());
            new.write_all(b"b").unwrap();
            assert!(
                block_on(poll_once(reader.read_with(read_byte))).is_none(),
                "it doesn't try"
            );
            old.write_all(b"a").unwrap();
            assert_eq!(block_on(reader.read_with(read_byte)).unwrap(), b'b');
        });
    }

    #[test]
    fn polling_is_waiting() {
        with_runtime(|| {
            let (reader, mut writer) = pipe();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(reader.poll_readable(&mut cx).is_pending());
            writer.write_all(b"a").unwrap();
            block_on(poll_fn(|cx| reader.poll_readable(cx))).unwrap();
            let writer = AsyncFd::new(writer).unwrap();
            block_on(poll_fn(|cx| writer.poll_writable(cx))).unwrap();
        });
    }

    #[test]
    fn read_with_takes_what_is_there_without_an_event() {
        with_runtime(|| {
            let (reader, mut writer) = io::pipe().unwrap();
            writer.write_all(b"a").unwrap();
            let reader = AsyncFd::new(reader).unwrap();
            assert_eq!(block_on(poll_once(reader.read_with(read_byte))).unwrap().unwrap(), b'a');
        });
    }

    #[test]
    fn the_end_of_a_pipe_is_an_answer() {
        with_runtime(|| {
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
        with_runtime(|| {
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
        with_runtime(|| {
            let (reader, _writer) = pipe();
            let outcome: io::Result<()> = block_on(reader.read_with(|_| Err(io::ErrorKind::PermissionDenied.into())));
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        });
    }

    #[test]
    fn into_inner_ends_the_watch_so_that_another_can_begin() {
        with_runtime(|| {
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
        with_runtime(|| {
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
        with_runtime(|| {
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
