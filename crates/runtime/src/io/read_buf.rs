//! Reading into a buffer of the crate `bytes`, from anything.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use ::bytes::BufMut;
use futures_io::AsyncRead;

use crate::coop;
use crate::net::buf::poll_read;
use crate::net::stream::poll_nothing;

/// Appends what is there to be read, at least one byte and at most 16 KiB, to `buffer`; returns how many bytes. Zero
/// means that `reader` has ended, or that `buffer` is full. With the feature `bytes`.
///
/// For what has the trait alone: TLS, files, readers that decompress. It takes initialised memory, so zeros are written
/// first; sockets and pipes have a method of this name that does without. One call fills at most the piece of `buffer`
/// that comes next: of a `BytesMut` or `Vec` the room that is there. Where there is none those two grow, by what they
/// think best, 64 bytes at least.
///
/// ```
/// # quadrille::Runtime::new().unwrap().block_on(async {
/// use bytes::{Buf, BytesMut};
/// use quadrille::io;
///
/// let mut text = &b"one two"[..];
/// let mut buffer = BytesMut::with_capacity(100);
/// assert_eq!(io::read_buf(&mut text, &mut buffer).await?, 7);
/// buffer.advance(4);
/// assert_eq!(&buffer[..], b"two");
/// assert_eq!(io::read_buf(&mut text, &mut buffer).await?, 0, "the end");
/// # io::Result::Ok(())
/// # }).unwrap();
/// ```
///
/// # Errors
///
/// Those of `reader`; an [`Interrupted`](io::ErrorKind::Interrupted) is one.
///
/// # Panics
///
/// If `reader` says that it has read more than it was asked for.
///
/// # Cancel safety
///
/// That of `reader`, of a stream in general strict: nothing was appended to `buffer`.
pub async fn read_buf<R, B>(reader: &mut R, buffer: &mut B) -> io::Result<usize>
where
    R: AsyncRead + Unpin + ?Sized,
    B: BufMut + ?Sized,
{
    if !buffer.has_remaining_mut() {
        return poll_fn(poll_nothing).await;
    }
    // Also where the reader isn't ours: who always has something gives way.
    poll_fn(|cx| coop::poll_paid(cx, |cx| poll_read(Pin::new(&mut *reader), cx, buffer))).await
}
