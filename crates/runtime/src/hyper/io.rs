//! Between the traits of hyper and those of `futures-io`, in both directions.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use futures_io::{AsyncRead, AsyncWrite};
use pin_project_lite::pin_project;

use crate::io::reader::{READ_MAX, poll_checked};

pin_project! {
    /// Lends what has the traits of `futures-io` those of hyper, and the other way round.
    ///
    /// - Around a stream of TLS, or anything else with `AsyncRead` and `AsyncWrite`: a connection for hyper. Reads are
    ///   of at most 16 KiB, because the memory for them has to be zeroed first.
    /// - Around what hyper gives back (`hyper::upgrade::Upgraded`): a stream with `AsyncRead` and `AsyncWrite`, for a
    ///   WebSocket for example.
    ///
    /// The streams of [`net`](crate::net) need neither, and do better without: they have both kinds of traits.
    ///
    /// ```
    /// use http_body_util::Empty;
    /// use hyper::body::Bytes;
    /// use quadrille::hyper::Io;
    ///
    /// # async fn example<T>(tls: T) -> hyper::Result<()>
    /// # where
    /// #     T: futures_lite::AsyncRead + futures_lite::AsyncWrite + Unpin + Send + 'static,
    /// # {
    /// let (client, connection) = hyper::client::conn::http1::handshake::<_, Empty<Bytes>>(Io::new(tls)).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Debug)]
    pub struct Io<T> {
        #[pin]
        inner: T,
        vectored: bool,
    }
}

impl<T> Io<T> {
    /// An adapter around `inner`. hyper puts headers and body together before it writes them.
    pub fn new(inner: T) -> Self {
        Io { inner, vectored: false }
    }

    /// The same around what writes several buffers at once as well as one: hyper copies less then. Around what takes
    /// only the first of several (the default of `AsyncWrite`) it would write many small pieces.
    pub fn vectored(inner: T) -> Self {
        Io { inner, vectored: true }
    }

    /// What is inside.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// What is inside.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// What was inside; the adapter has kept nothing back.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl<T: AsyncRead> Read for Io<T> {
    /// # Panics
    ///
    /// If what is inside says that it has read more than there was room for.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let wanted = buffer.remaining().min(READ_MAX);
        let unfilled = buffer.initialize_unfilled_to(wanted);
        let count = ready!(poll_checked(self.project().inner, cx, unfilled))?;
        // SAFETY: `initialize_unfilled_to` has initialised `wanted` bytes from where the cursor stands; those are no
        // fewer.
        unsafe { buffer.advance(count) };
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite> Write for Io<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write(cx, buffer)
    }

    fn is_write_vectored(&self) -> bool {
        self.vectored
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write_vectored(cx, buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_close(cx)
    }
}

impl<T: Read> AsyncRead for Io<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(self.project().inner.poll_read(cx, buffer.unfilled()))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl<T: Write> AsyncWrite for Io<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().inner.poll_write_vectored(cx, buffers)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_flush(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().inner.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use futures_lite::future::block_on;
    use futures_lite::io::{AsyncReadExt, AsyncWriteExt, Cursor};

    use super::*;

    /// One read through hyper's trait into a buffer of `LENGTH` bytes that isn't initialised.
    fn read<T: Read + Unpin, const LENGTH: usize>(from: &mut T) -> Vec<u8> {
        let mut memory = [MaybeUninit::uninit(); LENGTH];
        let mut buffer = ReadBuf::uninit(&mut memory);
        let outcome = block_on(std::future::poll_fn(|cx| {
            Pin::new(&mut *from).poll_read(cx, buffer.unfilled())
        }));
        outcome.unwrap();
        buffer.filled().to_vec()
    }

    #[test]
    fn hyper_reads_from_futures_io_as_much_as_there_is() {
        let mut io = Io::new(Cursor::new(b"abcde"));
        assert_eq!(read::<_, 3>(&mut io), b"abc");
        assert_eq!(read::<_, 3>(&mut io), b"de");
        assert!(read::<_, 3>(&mut io).is_empty());
    }

    #[test]
    fn a_read_is_of_a_bounded_size() {
        let mut io = Io::new(Cursor::new(vec![7; READ_MAX + 1]));
        assert_eq!(read::<_, { 2 * READ_MAX }>(&mut io).len(), READ_MAX);
        assert_eq!(read::<_, { 2 * READ_MAX }>(&mut io).len(), 1);
    }

    #[test]
    #[should_panic(expected = "says that it has read 4 bytes into a buffer of 3")]
    fn a_reader_that_lies_is_found_out() {
        struct Liar;
        impl AsyncRead for Liar {
            fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
                Poll::Ready(Ok(buffer.len() + 1))
            }
        }
        read::<_, 3>(&mut Io::new(Liar));
    }

    #[test]
    fn both_ways_around_nothing_is_changed() {
        let mut io = Io::new(Io::new(Cursor::new(Vec::new())));
        block_on(async {
            io.write_all(b"abc").await.unwrap();
            io.write_all(b"def").await.unwrap();
            io.close().await.unwrap();
            io.get_mut().get_mut().set_position(1);
            let mut rest = Vec::new();
            io.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"bcdef");
        });
        assert_eq!(io.get_ref().get_ref().get_ref(), b"abcdef");
        assert_eq!(io.into_inner().into_inner().into_inner(), b"abcdef");
    }

    #[test]
    fn several_buffers_are_taken_by_those_who_say_so() {
        assert!(!Write::is_write_vectored(&Io::new(Vec::new())));
        let mut io = Io::new(Io::vectored(Vec::new()));
        assert!(Write::is_write_vectored(io.get_ref()));
        let buffers = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
        let count = block_on(std::future::poll_fn(|cx| {
            AsyncWrite::poll_write_vectored(Pin::new(&mut io), cx, &buffers)
        }));
        assert_eq!(count.unwrap(), 3);
        assert_eq!(io.into_inner().into_inner(), b"abc");
    }
}
