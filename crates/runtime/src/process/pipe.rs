//! The pipes to a child process.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::process::{self, Stdio};
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::io::AsyncFd;
use crate::sys::fd::set_blocking;

/// How much `read_to_end` reads at a time, bytes.
const CHUNK: usize = 16 * 1024;

/// The standard input of a child process. Dropping it closes it, which the child sees as the end.
///
/// As a [`futures_io::AsyncWrite`] it need not be flushed, and closing it closes the pipe; of those who poll it only the last is
/// woken.
#[derive(Debug)]
pub struct ChildStdin {
    /// `None` once closed.
    fd: Option<AsyncFd<io::PipeWriter>>,
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
        let fd = AsyncFd::writer(io::PipeWriter::from(OwnedFd::from(stdin)))?;
        Ok(ChildStdin { fd: Some(fd) })
    }

    /// Writes what fits, at least one byte, of `buffer`; returns how many.
    ///
    /// # Errors
    ///
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if the child has closed it; others of `write(2)`; the runtime shuts down.
    ///
    /// # Cancel safety
    ///
    /// Strict: a write that was dropped has written nothing.
    pub async fn write(&self, buffer: &[u8]) -> io::Result<usize> {
        self.open()?.write_with(|mut pipe| pipe.write(buffer)).await
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
    pub async fn write_all(&self, mut buffer: &[u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            match self.write(buffer).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                length => buffer = &buffer[length..],
            }
        }
        Ok(())
    }

    /// The descriptor, in blocking mode again.
    ///
    /// # Errors
    ///
    /// It was closed, or the mode can't be set.
    pub fn into_owned_fd(mut self) -> io::Result<OwnedFd> {
        self.open()?;
        let fd = self.fd.take().map(AsyncFd::into_inner).ok_or_else(closed)?;
        set_blocking(fd.as_fd())?;
        Ok(fd.into())
    }

    fn open(&self) -> io::Result<&AsyncFd<io::PipeWriter>> {
        self.fd.as_ref().ok_or_else(closed)
    }
}

/// The answer to a write after the close.
fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "the standard input of the child was closed here",
    )
}

impl AsyncWrite for ChildStdin {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.open()?.poll_write_with(cx, |mut pipe| pipe.write(buffer))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        drop(self.fd.take());
        Poll::Ready(Ok(()))
    }
}

impl TryFrom<ChildStdin> for Stdio {
    type Error = io::Error;

    fn try_from(stdin: ChildStdin) -> io::Result<Self> {
        stdin.into_owned_fd().map(Stdio::from)
    }
}

/// Reads what is there, at least one byte; 0 at the end.
async fn read(fd: &AsyncFd<io::PipeReader>, buffer: &mut [u8]) -> io::Result<usize> {
    fd.read_with(|mut pipe| pipe.read(buffer)).await
}

async fn read_exact(fd: &AsyncFd<io::PipeReader>, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        match read(fd, buffer).await? {
            0 => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the child closed the pipe before the buffer was full",
                ));
            }
            length => buffer = &mut buffer[length..],
        }
    }
    Ok(())
}

/// What was read is in `buffer` whenever this waits.
async fn read_to_end(fd: &AsyncFd<io::PipeReader>, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut chunk = vec![0; CHUNK];
    let mut total = 0;
    loop {
        match read(fd, &mut chunk).await? {
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
            fd: AsyncFd<io::PipeReader>,
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
                let fd = AsyncFd::reader(io::PipeReader::from(OwnedFd::from(pipe)))?;
                Ok($name { fd })
            }

            /// Reads what is there, at least one byte, into `buffer`; returns how many. Zero means that the child has closed
            /// it, or that `buffer` is empty.
            ///
            /// # Errors
            ///
            /// Those of `read(2)`; the runtime shuts down.
            ///
            /// # Cancel safety
            ///
            /// Strict: a read that was dropped has read nothing.
            pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                read(&self.fd, buffer).await
            }

            /// Fills `buffer`.
            ///
            /// # Errors
            ///
            /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the child closes it before; those of [`read`](Self::read).
            ///
            /// # Cancel safety
            ///
            /// Loses what was read so far: it is in `buffer`, but how much isn't known. [`read`](Self::read) in a loop keeps count.
            pub async fn read_exact(&self, buffer: &mut [u8]) -> io::Result<()> {
                read_exact(&self.fd, buffer).await
            }

            /// Reads until the child, and whoever else has it, has closed it; appends to `buffer`, returns how many bytes.
            ///
            /// # Errors
            ///
            /// Those of [`read`](Self::read); what was read before is in `buffer`.
            ///
            /// # Cancel safety
            ///
            /// Strict: what was read is in `buffer`.
            pub async fn read_to_end(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
                read_to_end(&self.fd, buffer).await
            }

            /// The descriptor, in blocking mode again.
            ///
            /// # Errors
            ///
            /// The mode can't be set.
            pub fn into_owned_fd(self) -> io::Result<OwnedFd> {
                let fd = self.fd.into_inner();
                set_blocking(fd.as_fd())?;
                Ok(fd.into())
            }
        }

        impl AsyncRead for $name {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
                self.fd.poll_read_with(cx, |mut pipe| pipe.read(buffer))
            }
        }

        impl AsFd for $name {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.fd.as_fd()
            }
        }

        impl AsRawFd for $name {
            fn as_raw_fd(&self) -> RawFd {
                self.fd.as_raw_fd()
            }
        }

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
