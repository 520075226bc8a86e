//! Sockets of the Unix domain: [`UnixListener`] and [`UnixStream`] for streams, [`UnixDatagram`] for datagrams.

mod credentials;
mod datagram;
mod listener;
mod split;
mod stream;

pub use self::credentials::UCred;
pub use self::datagram::UnixDatagram;
pub use self::listener::{Incoming, UnixListener};
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use self::stream::UnixStream;
