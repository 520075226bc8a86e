//! The pipes to a child process: those of `net`, which the child has the other ends of.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::process::{self, Stdio};
use std::task::{Context, Poll};

use futures_io::AsyncWrite;

use crate::io::{AsyncFd, impl_as_fd};
use crate::net::stream::{Source, impl_read, read_methods, write_methods};
use crate::net::{PipeReader, PipeWriter};
use crate::reactor::Side;
use crate::sys::fd::set_blocking;

/// How much `read_to_end` reads at a time, bytes.
const CHUNK: usize = 16 * 1024;

/// The standard input of a child process. Dropping it closes it, which the child sees as the end.
///
/// As a [`futures_io::AsyncWrite`] it need not be flushed, and closing it closes the pipe; of those who poll it only
/// the last is woken. Whatever is written afterwards fails as a [`BrokenPipe`](io::ErrorKind::BrokenPipe); to close it
/// again does nothing.
#[derive(Debug)]
pub struct ChildStdin {
    /// `None` once closed.
    pipe: Option<PipeWriter>,
}

impl ChildStdin {
    /// Takes over a pipe of std's, and sets it to non-blocking mode.
    ///
    /// # Errors
    ///
    /// It can't be watched; the runtime shuts down.
    ///
    /// # Panics
    ///
    /// Outside of a runtime (reported at the caller).
    #[track_caller]
    pub fn from_std(stdin: process::ChildStdin) -> io::Result<Self> {
        let pipe = PipeWriter::from_std(OwnedFd::from(stdin).into())?;
        Ok(ChildStdin { pipe: Some(pipe) })
    }

    write_methods!(open()?);

    /// The descriptor, in blocking mode again.
    ///
    /// # Errors
    ///
    /// It was closed, or the mode can't be set.
    pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
        let pipe = self.pipe.ok_or_else(closed)?;
        in_blocking_mode(pipe.into_std())
    }

    fn open(&self) -> io::Result<&AsyncFd<io::PipeWriter>> {
        self.pipe.as_ref().map(PipeWriter::fd).ok_or_else(closed)
    }
}

/// The answer to a write after the close.
fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "the standard input of the child was closed here",
    )
}

/// For another process, or code that waits by itself.
fn in_blocking_mode(pipe: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    let fd = pipe.into();
    set_blocking(fd.as_fd())?;
    Ok(fd)
}

impl AsyncWrite for ChildStdin {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        ChildStdin::poll_write(&self, cx, buffer)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ChildStdin::poll_write_vectored(&self, cx, buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        drop(self.pipe.take());
        Poll::Ready(Ok(()))
    }
}

impl AsFd for ChildStdin {
    /// # Panics
    ///
    /// If it was closed, as an [`AsyncWrite`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe
            .as_ref()
            .expect("the standard input of the child was closed here")
            .as_fd()
    }
}

impl AsRawFd for ChildStdin {
    /// # Panics
    ///
    /// If it was closed, as an [`AsyncWrite`].
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl TryFrom<ChildStdin> for Stdio {
    type Error = io::Error;

    fn try_from(stdin: ChildStdin) -> io::Result<Self> {
        stdin.into_owned_fd().map(Stdio::from)
    }
}

/// What was read is in `buffer` whenever this waits.
async fn read_to_end(pipe: &PipeReader, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = vec![0; CHUNK];
    let mut total = 0;
    loop {
        match pipe.read(&mut chunk).await? {
            0 => return Ok(total),
            length => {
                buffer.extend_from_slice(&chunk[..length]);
                total += length;
            }
        }
    }
}

/// The two pipes that are read from differ in nothing but their name.
macro_rules! reader {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        ///
        /// As a [`futures_io::AsyncRead`]: of those who poll it only the last is woken.
        #[derive(Debug)]
        pub struct $name {
            pipe: PipeReader,
        }

        impl $name {
            /// Takes over a pipe of std's, and sets it to non-blocking mode.
            ///
            /// # Errors
            ///
            /// It can't be watched; the runtime shuts down.
            ///
            /// # Panics
            ///
            /// Outside of a runtime (reported at the caller).
            #[track_caller]
            pub fn from_std(pipe: process::$name) -> io::Result<Self> {
                let pipe = PipeReader::from_std(OwnedFd::from(pipe).into())?;
                Ok($name { pipe })
            }

            read_methods!();

            /// Reads until the child, and whoever else has it, has closed it; appends to `buffer`, returns how many
            /// bytes.
            ///
            /// # Errors
            ///
            /// Those of [`read`](Self::read); what was read before is in `buffer`.
            ///
            /// # Cancel safety
            ///
            /// Strict: what was read is in `buffer`.
            pub async fn read_to_end(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
                read_to_end(&self.pipe, buffer).await
            }

            /// The descriptor, in blocking mode again.
            ///
            /// # Errors
            ///
            /// The mode can't be set.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                in_blocking_mode(self.pipe.into_std())
            }

            fn fd(&self) -> &AsyncFd<io::PipeReader> {
                self.pipe.fd()
            }
        }

        impl_read!($name, &$name);

        impl_as_fd!(pipe: $name);

        impl TryFrom<$name> for Stdio {
            type Error = io::Error;

            fn try_from(pipe: $name) -> io::Result<Self> {
                pipe.into_owned_fd().map(Stdio::from)
            }
        }
    };
}

reader! {
    /// The standard output of a child process.
    ChildStdout
}

reader! {
    /// The standard error of a child process.
    ChildStderr
}
