//! What connections over TCP and of the Unix domain have in common.

use std::io;
use std::os::fd::AsFd;

use crate::io::Progress;
use crate::sys::socket;

/// How many bytes are left there says nothing, since they stay.
pub(super) fn peek(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Progress<usize>> {
    socket::peek(socket, buffer).map(Progress::only)
}

/// Methods of a stream that has `fd: AsyncFd<net::$stream>`: everything but making one, addresses and options.
macro_rules! connection_methods {
    ($stream:ident) => {
        /// Takes over a socket of `std`, and sets it to non-blocking mode.
        ///
        /// # Errors
        ///
        /// The system has no room for the watch; or the runtime shuts down.
        ///
        /// # Panics
        ///
        /// Outside of a runtime (reported at the caller).
        #[track_caller]
        pub fn from_std(socket: net::$stream) -> io::Result<Self> {
            Ok(Self {
                fd: AsyncFd::new(socket)?,
            })
        }

        /// The same for what a listener in the runtime of `handle` has accepted: if the caller is in none, that is its
        /// runtime as well.
        pub(super) fn accepted(socket: net::$stream, handle: &Handle) -> io::Result<Self> {
            let both = Interest::READABLE | Interest::WRITABLE;
            Ok(Self {
                fd: AsyncFd::from_nonblocking_or(handle, socket, both)?,
            })
        }

        /// Gives the socket to `std`, still in non-blocking mode.
        #[must_use]
        pub fn into_std(self) -> net::$stream {
            self.fd.into_inner()
        }

        /// Splits it in two halves that borrow it: one reads, the other writes.
        pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
            split::split(self)
        }

        /// Splits it in two halves that may go to different tasks: one reads, the other writes, and ends the writing
        /// when it is dropped. [`reunite`](OwnedReadHalf::reunite) undoes it.
        #[must_use]
        pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
            split::into_split(self)
        }

        read_methods!();
        write_methods!();
        ready_methods!();

        /// Copies what is there, at least one byte, to `buffer`, and leaves it to be read; how many bytes. Zero as
        /// [`read`](Self::read).
        ///
        /// # Errors
        ///
        /// Those of `recv(2)`; the runtime shuts down.
        ///
        /// # Cancel safety
        ///
        /// Strict: nothing is consumed.
        pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
            if buffer.is_empty() {
                return std::future::poll_fn(crate::net::stream::poll_nothing).await;
            }
            self.fd
                .transfer(Side::Read, |socket| crate::net::connection::peek(socket, buffer))
                .await
        }

        /// [`peek`](Self::peek) for implementations of `Future`: of those who poll, only the last is woken.
        ///
        /// # Errors
        ///
        /// As [`peek`](Self::peek).
        pub fn poll_peek(&self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
            if buffer.is_empty() {
                return crate::net::stream::poll_nothing(cx);
            }
            self.fd.poll_transfer(Side::Read, cx, |socket| {
                crate::net::connection::peek(socket, buffer)
            })
        }

        /// Ends reading, writing, or both, for all who use the socket. To end writing lets the other end read to the
        /// end.
        ///
        /// Who waits to read or write here is told. Of a socket of the Unix domain that is full Linux says nothing to
        /// others: neither to who waits for room by another object that has the same socket, nor to the other end if
        /// reading is ended.
        ///
        /// # Errors
        ///
        /// Those of `shutdown(2)`.
        pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
            self.fd.get_ref().shutdown(how)?;
            if how != Shutdown::Read {
                self.fd.tell_write_ended();
            }
            Ok(())
        }

        /// The error that is pending on the socket, which takes it away.
        ///
        /// # Errors
        ///
        /// Those of `getsockopt(2)`.
        pub fn take_error(&self) -> io::Result<Option<io::Error>> {
            self.fd.get_ref().take_error()
        }

        pub(super) fn fd(&self) -> &AsyncFd<net::$stream> {
            &self.fd
        }

        /// Nothing more will be written. Where there is no connection any more, that is so already.
        pub(super) fn end(&self) -> io::Result<()> {
            match self.shutdown(Shutdown::Write) {
                Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
                outcome => outcome,
            }
        }
    };
}
pub(super) use connection_methods;
