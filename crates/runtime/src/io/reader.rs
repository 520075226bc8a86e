//! Reading from what has `AsyncRead`, into memory that is zeroed for it and then counted on.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::AsyncRead;

/// How much is read at a time, at most: it is zeroed before. As much as a record of TLS holds.
pub(crate) const READ_MAX: usize = 16 * 1024;

/// What `reader` reads into `place`. How much that is rests on its word, so one that says more than there is room for
/// is found out.
///
/// # Panics
/// Then.
pub(crate) fn poll_checked(
    reader: Pin<&mut (impl AsyncRead + ?Sized)>,
    cx: &mut Context<'_>,
    place: &mut [u8],
) -> Poll<io::Result<usize>> {
    let count = ready!(reader.poll_read(cx, place))?;
    assert!(
        count <= place.len(),
        "a reader says that it has read {count} bytes into a buffer of {}",
        place.len()
    );
    Poll::Ready(Ok(count))
}
