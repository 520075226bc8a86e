//! Reading into buffers of the crate `bytes`, and writing from them: with the feature `bytes`.
//!
//! A buffer says where its next bytes go (`BufMut`) or come from (`Buf`), and is told how many those were, in the same
//! step as the system's call: between two polls nothing of it is lent, so whoever is dropped while it waits has changed
//! nothing.
//!
//! The macros give the methods, as those of `stream` do, and are called there.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::bytes::{Buf, BufMut};
use futures_io::AsyncRead;

use super::stream::{Sink, Source};
use crate::io::Progress;
use crate::io::reader::{READ_MAX, poll_checked};
use crate::sys::socket;

/// Most pieces of a buffer that one write takes.
const PIECES: usize = 16;

/// Appends to `buffer` what `read` puts into the place that it is lent: as many bytes as `count` finds in its answer.
///
/// # Safety
/// `read` writes nothing to its place that isn't initialised, and has initialised as many bytes as `count` finds, from
/// the beginning of the place on.
unsafe fn append<R>(
    buffer: &mut (impl BufMut + ?Sized),
    read: impl FnOnce(&mut [MaybeUninit<u8>]) -> R,
    count: impl FnOnce(&R) -> usize,
) -> R {
    // SAFETY: nothing that was initialised ceases to be, says the caller.
    let place = unsafe { buffer.chunk_mut().as_uninit_slice_mut() };
    let answer = read(place);
    // SAFETY: so many bytes are initialised, says the caller, from the beginning of the place, which is no shorter;
    // `chunk_mut` answers with the place that this counts in, says `BufMut`, which is unsafe to implement.
    unsafe { buffer.advance_mut(count(&answer)) };
    answer
}

/// What a call has read, if it has: nothing if it failed.
fn counted<R>(answer: &io::Result<R>, count: impl FnOnce(&R) -> usize) -> usize {
    answer.as_ref().map_or(0, count)
}

/// Reads what is there from a stream; how many bytes.
pub(crate) fn read(source: &impl Source, buffer: &mut (impl BufMut + ?Sized)) -> io::Result<Progress<usize>> {
    let read = |place: &mut _| Source::read_uninit(source, place);
    // SAFETY: `read_uninit` initialises as many bytes as it says, and writes nothing else: each of the three types that
    // have it calls rustix's for that.
    unsafe { append(buffer, read, |read| counted(read, |progress| progress.result)) }
}

/// Receives a datagram; its length.
pub(crate) fn recv(socket: impl AsFd, buffer: &mut (impl BufMut + ?Sized)) -> io::Result<usize> {
    let receive = |place: &mut _| socket::recv_uninit(socket, place);
    // SAFETY: `recv_uninit` initialises as many bytes as it says, and writes nothing else.
    unsafe { append(buffer, receive, |received| counted(received, |count| *count)) }
}

/// Receives a datagram from somebody in the internet; its length, and the sender.
pub(crate) fn recv_from(socket: impl AsFd, buffer: &mut (impl BufMut + ?Sized)) -> io::Result<(usize, SocketAddr)> {
    let receive = |place: &mut _| socket::recv_from_uninit(socket, place);
    // SAFETY: `recv_from_uninit` initialises as many bytes as it says, and writes nothing else.
    unsafe { append(buffer, receive, |received| counted(received, |(count, _)| *count)) }
}

/// The same from somebody in the Unix domain.
pub(crate) fn recv_from_unix(
    socket: impl AsFd,
    buffer: &mut (impl BufMut + ?Sized),
) -> io::Result<(usize, unix::net::SocketAddr)> {
    let receive = |place: &mut _| socket::recv_from_unix_uninit(socket, place);
    // SAFETY: `recv_from_unix_uninit` initialises as many bytes as it says, and writes nothing else.
    unsafe { append(buffer, receive, |received| counted(received, |(count, _)| *count)) }
}

/// Reads what is there, at most [`READ_MAX`] bytes, from what takes no memory but what is initialised: zeros are
/// written before.
pub(crate) fn poll_read(
    reader: Pin<&mut (impl AsyncRead + ?Sized)>,
    cx: &mut Context<'_>,
    buffer: &mut (impl BufMut + ?Sized),
) -> Poll<io::Result<usize>> {
    let read = |place: &mut [MaybeUninit<u8>]| {
        let wanted = place.len().min(READ_MAX);
        let place = &mut place[..wanted];
        place.fill(MaybeUninit::new(0));
        // SAFETY: all of it was initialised just now; a `MaybeUninit<u8>` is laid out as a `u8`.
        let place = unsafe { &mut *(std::ptr::from_mut(place) as *mut [u8]) };
        poll_checked(reader, cx, place)
    };
    let count = |read: &Poll<_>| match read {
        Poll::Ready(read) => counted(read, |count| *count),
        Poll::Pending => 0,
    };
    // SAFETY: zeros are initialised, and what is written over them by way of a `[u8]` is; `poll_checked` says no more
    // than there are.
    unsafe { append(buffer, read, count) }
}

/// Writes what fits of a buffer, and takes that out; how many bytes.
pub(crate) fn write(sink: &impl Sink, buffer: &mut (impl Buf + ?Sized)) -> io::Result<Progress<usize>> {
    let mut pieces = [IoSlice::new(&[]); PIECES];
    let count = buffer.chunks_vectored(&mut pieces);
    // What a buffer says is not believed.
    let progress = Sink::write_vectored(sink, &pieces[..count.min(PIECES)])?;
    buffer.advance(progress.result);
    Ok(progress)
}

/// Methods that read, for what has `read_methods`, which calls this.
macro_rules! read_buf_methods {
    () => {
        /// Appends what is there, at least one byte, to `buffer`; returns how many. Zero means that the other end is
        /// closed, or that `buffer` is full. With the feature `bytes`.
        ///
        /// One call fills at most the piece of `buffer` that comes next: of a `BytesMut` or `Vec` the room that is
        /// there. Where there is none those two grow, by what they think best, 64 bytes at least; `reserve` makes as
        /// much as is wanted.
        ///
        /// # Errors
        ///
        /// Those of `read(2)`; the runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: a read that was dropped has read nothing, and nothing was appended to `buffer`.
        pub fn read_buf<B>(&self, buffer: &mut B) -> impl Future<Output = io::Result<usize>>
        where
            B: ::bytes::BufMut + ?Sized,
        {
            let mut wait = None;
            std::future::poll_fn(move |cx| {
                if !buffer.has_remaining_mut() {
                    return crate::net::stream::poll_nothing(cx);
                }
                self.fd()
                    .poll_with(&mut wait, Side::Read, cx, |io| crate::net::buf::read(io, buffer))
            })
        }

        /// Appends what is there to `buffer`, without a wait; returns how many bytes, zero as
        /// [`read_buf`](Self::read_buf). With the feature `bytes`.
        ///
        /// # Errors
        ///
        /// [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing: [`readable`](Self::readable) waits for the
        /// next event then. Others of `read(2)`.
        pub fn try_read_buf<B>(&self, buffer: &mut B) -> io::Result<usize>
        where
            B: ::bytes::BufMut + ?Sized,
        {
            if !buffer.has_remaining_mut() {
                return Ok(0);
            }
            self.fd()
                .try_transfer(Side::Read, |io| crate::net::buf::read(io, buffer))
        }
    };
}
pub(crate) use read_buf_methods;

/// Methods that write, for what has `write_methods`, which calls this with what leads to the descriptor.
macro_rules! write_buf_methods {
    ($($fd:tt)+) => {
        /// Writes what fits, at least one byte, of `buffer`, and takes that out of it; returns how many bytes. Up to 16
        /// pieces of `buffer` go in one call. Zero if nothing is in it, for which it never waits. With the feature
        /// `bytes`.
        ///
        /// # Errors
        ///
        /// Those of [`write`](Self::write).
        ///
        /// # Panics
        ///
        /// If `buffer` does, as one that can't take out what it has lent may, once that is written.
        ///
        /// # Cancel safety
        ///
        /// Strict: a write that was dropped has written nothing, and nothing was taken out of `buffer`.
        pub fn write_buf<B>(&self, buffer: &mut B) -> impl Future<Output = io::Result<usize>>
        where
            B: ::bytes::Buf + ?Sized,
        {
            let mut wait = None;
            std::future::poll_fn(move |cx| {
                if !buffer.has_remaining() {
                    return crate::net::stream::poll_write_nothing(self.$($fd)+, cx);
                }
                self.$($fd)+
                    .poll_with(&mut wait, Side::Write, cx, |io| crate::net::buf::write(io, buffer))
            })
        }

        /// Writes all of `buffer`, and takes it out. With the feature `bytes`.
        ///
        /// # Errors
        ///
        /// Those of [`write`](Self::write); what was not written is in `buffer`.
        ///
        /// # Panics
        ///
        /// As [`write_buf`](Self::write_buf).
        ///
        /// # Cancel safety
        ///
        /// Strict: what was written is no longer in `buffer`, so that another call goes on where this one was dropped.
        pub fn write_all_buf<B>(&self, buffer: &mut B) -> impl Future<Output = io::Result<()>>
        where
            B: ::bytes::Buf + ?Sized,
        {
            let mut wait = None;
            std::future::poll_fn(move |cx| {
                if !buffer.has_remaining() {
                    return crate::coop::poll_spend(cx).map(Ok);
                }
                while buffer.has_remaining() {
                    let written = self
                        .$($fd)+
                        .poll_with(&mut wait, Side::Write, cx, |io| crate::net::buf::write(io, buffer));
                    if std::task::ready!(written)? == 0 {
                        return Poll::Ready(Err(crate::net::stream::write_zero()));
                    }
                }
                Poll::Ready(Ok(()))
            })
        }
    };
}
pub(crate) use write_buf_methods;

/// Methods that receive datagrams, for what has a field `fd`, and methods `append` and `append_from` that receive one
/// from the socket inside.
macro_rules! recv_buf_methods {
    () => {
        /// [`recv`](Self::recv) that appends to `buffer`. With the feature `bytes`.
        ///
        /// There must be room before (`reserve`): what doesn't fit into the piece of `buffer` that comes next is lost,
        /// and where there is no room at all the whole datagram, for which this answers zero. A `BytesMut` or `Vec`
        /// without room grows by what it thinks best, which may be 64 bytes.
        ///
        /// # Errors
        ///
        /// As [`recv`](Self::recv).
        ///
        /// # Cancel safety
        ///
        /// Strict: a call that was dropped has received nothing, and nothing was appended to `buffer`.
        pub fn recv_buf<B>(&self, buffer: &mut B) -> impl Future<Output = io::Result<usize>>
        where
            B: ::bytes::BufMut + ?Sized,
        {
            self.fd.read_with(move |socket| self.append(socket, buffer))
        }

        /// [`recv_from`](Self::recv_from) that appends to `buffer`, as [`recv_buf`](Self::recv_buf). With the feature
        /// `bytes`.
        ///
        /// A sender of the Unix domain whose path has the greatest length, which std makes no address of, is told as
        /// one without a name.
        ///
        /// # Errors
        ///
        /// As [`recv_from`](Self::recv_from).
        ///
        /// # Cancel safety
        ///
        /// Strict: a call that was dropped has received nothing, and nothing was appended to `buffer`.
        pub fn recv_buf_from<B>(&self, buffer: &mut B) -> impl Future<Output = io::Result<(usize, SocketAddr)>>
        where
            B: ::bytes::BufMut + ?Sized,
        {
            self.fd.read_with(move |socket| self.append_from(socket, buffer))
        }

        /// [`recv_buf`](Self::recv_buf) without a wait. With the feature `bytes`.
        ///
        /// # Errors
        ///
        /// As [`try_recv`](Self::try_recv).
        pub fn try_recv_buf<B>(&self, buffer: &mut B) -> io::Result<usize>
        where
            B: ::bytes::BufMut + ?Sized,
        {
            self.fd.try_read_with(|socket| self.append(socket, buffer))
        }

        /// [`recv_buf_from`](Self::recv_buf_from) without a wait. With the feature `bytes`.
        ///
        /// # Errors
        ///
        /// As [`try_recv_from`](Self::try_recv_from).
        pub fn try_recv_buf_from<B>(&self, buffer: &mut B) -> io::Result<(usize, SocketAddr)>
        where
            B: ::bytes::BufMut + ?Sized,
        {
            self.fd.try_read_with(|socket| self.append_from(socket, buffer))
        }
    };
}
pub(crate) use recv_buf_methods;
