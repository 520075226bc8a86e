//! Sockets of the Unix domain: [`UnixListener`] and [`UnixStream`] for streams, [`UnixDatagram`] for datagrams.

mod credentials;
mod datagram;
mod listener;
mod split;
mod stream;

use std::io;

pub use self::credentials::UCred;
pub use self::datagram::UnixDatagram;
pub use self::listener::{Incoming, IntoIncoming, UnixListener};
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use self::stream::UnixStream;

/// What comes of `operation`, or `end` if nothing is there and nothing comes any more: Linux doesn't say so to a socket
/// that doesn't block.
fn until_end<R>(
    mut operation: impl FnMut() -> io::Result<R>,
    has_ended: impl FnOnce() -> bool,
    end: impl FnOnce() -> io::Result<R>,
) -> io::Result<R> {
    let finds_nothing =
        |outcome: &io::Result<R>| matches!(outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
    let outcome = operation();
    if !finds_nothing(&outcome) || !has_ended() {
        return outcome;
    }
    // What came between that answer and the end is there.
    let outcome = operation();
    if finds_nothing(&outcome) { end() } else { outcome }
}
