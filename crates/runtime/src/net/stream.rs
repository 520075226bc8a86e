//! Reading and writing, for everything that moves bytes in order.
//!
//! Functions do it; macros give the methods, with their documentation, to each type: `read_methods` and `write_methods`
//! to what has a method `fd`, `impl_read` and `impl_write` the traits of `futures_io` to what has those methods.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use crate::coop;
use crate::io::{AsyncFd, Progress};
use crate::sys::fd::{self, BUFFERS_MAX};

/// A descriptor that bytes come out of.
pub(crate) trait Source: AsFd {
    fn read(&self, buffer: &mut [u8]) -> io::Result<Progress<usize>>;
    fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Progress<usize>>;
    /// Initialises as many bytes as it says.
    fn read_uninit(&self, buffer: &mut [MaybeUninit<u8>]) -> io::Result<Progress<usize>>;
}

/// A descriptor that bytes go into. Less than was wanted is all there was room for.
pub(crate) trait Sink: AsFd {
    fn write(&self, buffer: &[u8]) -> io::Result<Progress<usize>>;

    /// The system's call for several buffers, at most [`BUFFERS_MAX`].
    fn write_several(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize>;

    fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<Progress<usize>> {
        // Without the empty ones before it, which might be all that the system looks at. Where there is nothing to
        // write, that is for the system to answer.
        let first = buffers.iter().position(|buffer| !buffer.is_empty()).unwrap_or(0);
        let buffers = &buffers[first..buffers.len().min(first + BUFFERS_MAX)];
        if let [buffer] = buffers {
            return self.write(buffer);
        }
        let wanted = buffers
            .iter()
            .fold(0_usize, |sum, buffer| sum.saturating_add(buffer.len()));
        if wanted <= GATHERED_MAX {
            let mut gathered = [0; GATHERED_MAX];
            gather(buffers, &mut gathered);
            return self.write(&gathered[..wanted]);
        }
        self.write_several(buffers).map(|count| Progress::of(count, wanted))
    }
}

/// Up to so many bytes from several buffers are made one buffer first, bytes: to copy them takes 20 ns, and the system
/// 60 to 70 less for one buffer than for two (Linux 6.18, 90 and 13 bytes to a socket).
const GATHERED_MAX: usize = 1024;

/// Copies `buffers`, one after the other, to the beginning of `gathered`, which is at least as long as they are
/// together.
fn gather(buffers: &[IoSlice<'_>], mut gathered: &mut [u8]) {
    for buffer in buffers {
        let (place, rest) = std::mem::take(&mut gathered).split_at_mut(buffer.len());
        place.copy_from_slice(buffer);
        gathered = rest;
    }
}

/// Reads into several buffers; less than was wanted is all there was.
pub(crate) fn read_vectored(fd: impl AsFd, buffers: &mut [IoSliceMut<'_>]) -> io::Result<Progress<usize>> {
    let wanted = buffers.iter().take(BUFFERS_MAX).map(|buffer| buffer.len()).sum();
    fd::read_vectored(fd, buffers).map(|count| Progress::of(count, wanted))
}

/// What is to be read into: `buffers` from the first on that has a place for a byte. Without the empty ones before it,
/// which might be all that the system looks at ([`BUFFERS_MAX`]): it would answer zero then, which means the end.
/// Nothing if no buffer has a place: the system might wait for a byte all the same.
pub(crate) fn places<'a, 'b>(buffers: &'a mut [IoSliceMut<'b>]) -> &'a mut [IoSliceMut<'b>] {
    let empty = buffers.iter().take_while(|buffer| buffer.is_empty()).count();
    &mut buffers[empty..]
}

/// Whether there is nothing to write.
pub(crate) fn are_empty(buffers: &[IoSlice<'_>]) -> bool {
    buffers.iter().all(|buffer| buffer.is_empty())
}

/// Writes nothing: that needs no room, so that nobody waits for some. What the system says of the other end stays.
pub(crate) fn poll_write_nothing(fd: &AsyncFd<impl Sink>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    ready!(coop::poll_spend(cx));
    Poll::Ready(match fd.get_ref().write(&[]) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        outcome => outcome.map(|progress| progress.result),
    })
}

/// Reads nothing, without a wait, and is paid for all the same.
pub(crate) fn poll_nothing(cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    coop::poll_spend(cx).map(|()| Ok(0))
}

/// The stream ended before the buffer was full.
pub(crate) fn unexpected_end() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the stream ended before the buffer was full",
    )
}

/// The stream takes nothing.
pub(crate) fn write_zero() -> io::Error {
    io::Error::new(io::ErrorKind::WriteZero, "the stream takes no more bytes")
}

/// Methods that read, for what has `fn fd(&self) -> &AsyncFd<impl Source>`.
macro_rules! read_methods {
    () => {
        /// Reads what is there, at least one byte, into `buffer`; returns how many. Zero means that the other end is
        /// closed, or that `buffer` is empty.
        ///
        /// # Errors
        ///
        /// Those of `read(2)`; the runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: a read that was dropped has read nothing.
        pub fn read(&self, buffer: &mut [u8]) -> impl Future<Output = io::Result<usize>> {
            let mut wait = None;
            std::future::poll_fn(move |cx| {
                if buffer.is_empty() {
                    // The system would wait for a byte that has no place.
                    return crate::net::stream::poll_nothing(cx);
                }
                self.fd()
                    .poll_with(&mut wait, Side::Read, cx, |io| Source::read(io, buffer))
            })
        }

        /// Fills `buffer`.
        ///
        /// # Errors
        ///
        /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the other end is closed before; those of
        /// [`read`](Self::read).
        ///
        /// # Cancel safety
        ///
        /// Loses what was read so far: it is in `buffer`, but how much isn't known. [`read`](Self::read) in a loop
        /// keeps count.
        pub fn read_exact(&self, mut buffer: &mut [u8]) -> impl Future<Output = io::Result<()>> {
            let mut wait = None;
            std::future::poll_fn(move |cx| {
                if buffer.is_empty() {
                    return crate::coop::poll_spend(cx).map(Ok);
                }
                loop {
                    let read = self
                        .fd()
                        .poll_with(&mut wait, Side::Read, cx, |io| Source::read(io, buffer));
                    match std::task::ready!(read)? {
                        0 => return Poll::Ready(Err(crate::net::stream::unexpected_end())),
                        count => buffer = &mut std::mem::take(&mut buffer)[count..],
                    }
                    if buffer.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
            })
        }

        /// Reads what is there, at least one byte, into `buffers`, one after the other; returns how many. Zero as
        /// [`read`](Self::read).
        ///
        /// # Errors
        ///
        /// Those of `readv(2)`; the runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: a read that was dropped has read nothing.
        pub async fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let buffers = crate::net::stream::places(buffers);
            if buffers.is_empty() {
                return std::future::poll_fn(crate::net::stream::poll_nothing).await;
            }
            self.fd()
                .transfer(Side::Read, |io| Source::read_vectored(io, buffers))
                .await
        }

        /// Reads what is there into `buffer`, without a wait; returns how many bytes, zero as [`read`](Self::read).
        ///
        /// # Errors
        ///
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing: [`readable`](Self::readable) waits for the
        /// next event then. Others of `read(2)`.
        pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
            if buffer.is_empty() {
                return Ok(0);
            }
            self.fd().try_transfer(Side::Read, |io| Source::read(io, buffer))
        }

        /// Reads what is there into `buffers`, without a wait; see [`try_read`](Self::try_read).
        ///
        /// # Errors
        ///
        /// As [`try_read`](Self::try_read).
        pub fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
            let buffers = crate::net::stream::places(buffers);
            if buffers.is_empty() {
                return Ok(0);
            }
            self.fd()
                .try_transfer(Side::Read, |io| Source::read_vectored(io, buffers))
        }

        /// Waits until there may be something to read, or the other end is closed.
        ///
        /// Ready again at once until a read has found less than it had room for; of a pipe, and of a Unix stream with
        /// room for fewer than 1,024 bytes or into memory that need not be initialised, until one has found nothing.
        ///
        /// # Errors
        ///
        /// The runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: nothing is consumed.
        pub async fn readable(&self) -> io::Result<()> {
            self.fd().readable().await
        }

        /// [`read`](Self::read) for implementations of `Future` and `AsyncRead`: of those who poll, only the last is
        /// woken.
        ///
        /// # Errors
        ///
        /// As [`read`](Self::read).
        pub fn poll_read(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            if buffer.is_empty() {
                return crate::net::stream::poll_nothing(cx);
            }
            self.fd()
                .poll_transfer(Side::Read, cx, |io| Source::read(io, buffer))
        }

        /// [`read_vectored`](Self::read_vectored) for implementations of `Future` and `AsyncRead`; see
        /// [`poll_read`](Self::poll_read).
        ///
        /// # Errors
        ///
        /// As [`read_vectored`](Self::read_vectored).
        pub fn poll_read_vectored(
            &self,
            cx: &mut Context<'_>,
            buffers: &mut [IoSliceMut<'_>],
        ) -> Poll<io::Result<usize>> {
            let buffers = crate::net::stream::places(buffers);
            if buffers.is_empty() {
                return crate::net::stream::poll_nothing(cx);
            }
            self.fd()
                .poll_transfer(Side::Read, cx, |io| Source::read_vectored(io, buffers))
        }

        /// [`poll_read`](Self::poll_read) into memory that need not be initialised; as many bytes as it returns are
        /// then, from the beginning of `buffer`.
        ///
        /// # Errors
        ///
        /// As [`read`](Self::read).
        pub fn poll_read_uninit(
            &self,
            cx: &mut Context<'_>,
            buffer: &mut [MaybeUninit<u8>],
        ) -> Poll<io::Result<usize>> {
            if buffer.is_empty() {
                return crate::net::stream::poll_nothing(cx);
            }
            self.fd()
                .poll_transfer(Side::Read, cx, |io| Source::read_uninit(io, buffer))
        }

        /// [`readable`](Self::readable) for implementations of `Future`: of those who poll, only the last is woken.
        ///
        /// # Errors
        ///
        /// The runtime shuts down.
        pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.fd().poll_readable(cx)
        }

        #[cfg(feature = "bytes")]
        crate::net::buf::read_buf_methods!();
    };
}
pub(crate) use read_methods;

/// Methods that write, for what has `fn fd(&self) -> &AsyncFd<impl Sink>`; or another method that leads there, with
/// what is to follow it: `write_methods!(open()?)`.
macro_rules! write_methods {
    () => {
        write_methods!(fd());
    };
    ($($fd:tt)+) => {
        /// Writes what fits, at least one byte, of `buffer`; returns how many. Zero if `buffer` is empty, for which it
        /// never waits.
        ///
        /// # Errors
        ///
        /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the other end is closed; others of `write(2)`; the runtime
        /// shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: a write that was dropped has written nothing.
        pub fn write(&self, buffer: &[u8]) -> impl Future<Output = io::Result<usize>> {
            let mut wait = None;
            std::future::poll_fn(move |cx| {
                if buffer.is_empty() {
                    return crate::net::stream::poll_write_nothing(self.$($fd)+, cx);
                }
                self.$($fd)+
                    .poll_with(&mut wait, Side::Write, cx, |io| crate::net::stream::Sink::write(io, buffer))
            })
        }

        /// Writes all of `buffer`.
        ///
        /// # Errors
        ///
        /// Those of [`write`](Self::write).
        ///
        /// # Cancel safety
        ///
        /// Loses the count: a part may have been written. [`write`](Self::write) in a loop keeps it.
        pub fn write_all(&self, mut buffer: &[u8]) -> impl Future<Output = io::Result<()>> {
            let mut wait = None;
            std::future::poll_fn(move |cx| {
                if buffer.is_empty() {
                    return crate::coop::poll_spend(cx).map(Ok);
                }
                loop {
                    let written = self
                        .$($fd)+
                        .poll_with(&mut wait, Side::Write, cx, |io| crate::net::stream::Sink::write(io, buffer));
                    match std::task::ready!(written)? {
                        0 => return Poll::Ready(Err(crate::net::stream::write_zero())),
                        count => buffer = &buffer[count..],
                    }
                    if buffer.is_empty() {
                        return Poll::Ready(Ok(()));
                    }
                }
            })
        }

        /// Writes what fits, at least one byte, of `buffers`, one after the other; returns how many. Zero if all are
        /// empty, as [`write`](Self::write).
        ///
        /// # Errors
        ///
        /// Those of [`write`](Self::write).
        ///
        /// # Cancel safety
        ///
        /// Strict: a write that was dropped has written nothing.
        pub async fn write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
            if crate::net::stream::are_empty(buffers) {
                return std::future::poll_fn(|cx| {
                    crate::net::stream::poll_write_nothing(self.$($fd)+, cx)
                })
                .await;
            }
            self.$($fd)+
                .transfer(Side::Write, |io| crate::net::stream::Sink::write_vectored(io, buffers))
                .await
        }

        /// Writes what fits of `buffer`, without a wait; returns how many bytes.
        ///
        /// # Errors
        ///
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room: [`writable`](Self::writable) waits for the
        /// next event then. Others of [`write`](Self::write).
        pub fn try_write(&self, buffer: &[u8]) -> io::Result<usize> {
            self.$($fd)+.try_transfer(Side::Write, |io| crate::net::stream::Sink::write(io, buffer))
        }

        /// Writes what fits of `buffers`, without a wait; see [`try_write`](Self::try_write).
        ///
        /// # Errors
        ///
        /// As [`try_write`](Self::try_write).
        pub fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
            self.$($fd)+
                .try_transfer(Side::Write, |io| crate::net::stream::Sink::write_vectored(io, buffers))
        }

        /// Waits until there may be room to write, or the other end is closed.
        ///
        /// Ready again at once until a write has found less room than it needed.
        ///
        /// # Errors
        ///
        /// The runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: nothing is consumed.
        pub async fn writable(&self) -> io::Result<()> {
            self.$($fd)+.writable().await
        }

        /// [`write`](Self::write) for implementations of `Future` and `AsyncWrite`: of those who poll, only the last is
        /// woken.
        ///
        /// # Errors
        ///
        /// As [`write`](Self::write).
        pub fn poll_write(&self, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
            if buffer.is_empty() {
                return crate::net::stream::poll_write_nothing(self.$($fd)+, cx);
            }
            self.$($fd)+
                .poll_transfer(Side::Write, cx, |io| crate::net::stream::Sink::write(io, buffer))
        }

        /// [`write_vectored`](Self::write_vectored) for implementations of `Future` and `AsyncWrite`; see
        /// [`poll_write`](Self::poll_write).
        ///
        /// # Errors
        ///
        /// As [`write_vectored`](Self::write_vectored).
        pub fn poll_write_vectored(&self, cx: &mut Context<'_>, buffers: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
            if crate::net::stream::are_empty(buffers) {
                return crate::net::stream::poll_write_nothing(self.$($fd)+, cx);
            }
            self.$($fd)+
                .poll_transfer(Side::Write, cx, |io| crate::net::stream::Sink::write_vectored(io, buffers))
        }

        /// [`writable`](Self::writable) for implementations of `Future`: of those who poll, only the last is woken.
        ///
        /// # Errors
        ///
        /// The runtime shuts down.
        pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.$($fd)+.poll_writable(cx)
        }

        #[cfg(feature = "bytes")]
        crate::net::buf::write_buf_methods!($($fd)+);
    };
}
pub(crate) use write_methods;

/// Waiting for either side, and operations that aren't here.
macro_rules! ready_methods {
    () => {
        /// Waits until one of the sides that `interest` names may be ready, and says which are, as far as the system
        /// has told: room to write may be missing from the first answer that could have it, because the system is asked
        /// to tell of it by that call.
        ///
        /// # Errors
        ///
        /// The runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: nothing is consumed.
        pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
            self.fd().ready(interest).await
        }

        /// Calls `operation`, which reads or writes this by its descriptor, until it answers something other than
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) (or [`Interrupted`](io::ErrorKind::Interrupted)), and waits in
        /// between for those of the sides that `interest` names which aren't ready, or, if all are, for the next event
        /// of any.
        ///
        /// # Errors
        ///
        /// Those of `operation`; the runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict, if `operation` changes nothing when it answers `WouldBlock`: it is dropped only between two calls.
        pub async fn async_io<R>(&self, interest: Interest, operation: impl FnMut() -> io::Result<R>) -> io::Result<R> {
            self.fd().async_io(interest, operation).await
        }

        /// Calls `operation` once, which reads or writes this by its descriptor. If it answers
        /// [`WouldBlock`](io::ErrorKind::WouldBlock), [`ready`](Self::ready) waits for the next event of the sides that
        /// `interest` names; so do `readable` and `writable`, also of a side that was ready. Reading and writing try
        /// it.
        ///
        /// # Errors
        ///
        /// Those of `operation`.
        pub fn try_io<R>(&self, interest: Interest, operation: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
            self.fd().try_io(interest, operation)
        }
    };
}
pub(crate) use ready_methods;

/// `AsyncRead` for types with `read_methods`.
macro_rules! impl_read {
    ($($type:ty),+) => {$(
        impl futures_io::AsyncRead for $type {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
                if buffer.is_empty() {
                    return crate::net::stream::poll_nothing(cx);
                }
                self.fd().poll_transfer(Side::Read, cx, |io| Source::read(io, buffer))
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffers: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                let buffers = crate::net::stream::places(buffers);
                if buffers.is_empty() {
                    return crate::net::stream::poll_nothing(cx);
                }
                self.fd().poll_transfer(Side::Read, cx, |io| Source::read_vectored(io, buffers))
            }
        }
    )+};
}
pub(crate) use impl_read;

/// `AsyncWrite` for types with `write_methods`, and a method `end` that says that nothing more will be written.
macro_rules! impl_write {
    ($($type:ty),+) => {$(
        impl futures_io::AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
                if buffer.is_empty() {
                    return crate::net::stream::poll_write_nothing(self.fd(), cx);
                }
                self.fd().poll_transfer(Side::Write, cx, |io| crate::net::stream::Sink::write(io, buffer))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                if crate::net::stream::are_empty(buffers) {
                    return crate::net::stream::poll_write_nothing(self.fd(), cx);
                }
                self.fd().poll_transfer(Side::Write, cx, |io| crate::net::stream::Sink::write_vectored(io, buffers))
            }

            /// Nothing is kept back.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.end())
            }
        }
    )+};
}
pub(crate) use impl_write;
