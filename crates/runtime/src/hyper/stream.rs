//! hyper's traits for our own streams: they read into memory that isn't initialised, and write several buffers at once.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::hyper::rt::{Read, ReadBufCursor, Write};

use crate::net::{TcpStream, UnixStream};

/// `Read` and `Write` for streams with the methods of `net::stream`. Paths name the inherent methods: the traits' have
/// the same names, and a method call would find those.
macro_rules! impl_hyper {
    ($($stream:ty),+) => {$(
        impl Read for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                mut buffer: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                // SAFETY: it goes to `poll_read_uninit`, which writes bytes that it has read and nothing else, so that
                // none that was initialised ceases to be.
                let unfilled = unsafe { buffer.as_mut() };
                let count = ready!(<$stream>::poll_read_uninit(&self, cx, unfilled))?;
                // SAFETY: `poll_read_uninit` has initialised that many bytes from the beginning of `unfilled`, which is
                // where the cursor stands.
                unsafe { buffer.advance(count) };
                Poll::Ready(Ok(()))
            }
        }

        impl Write for $stream {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
                <$stream>::poll_write(&self, cx, buffer)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                <$stream>::poll_write_vectored(&self, cx, buffers)
            }

            /// Nothing is kept back.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                futures_io::AsyncWrite::poll_close(self, cx)
            }
        }
    )+};
}

impl_hyper!(TcpStream, UnixStream);
