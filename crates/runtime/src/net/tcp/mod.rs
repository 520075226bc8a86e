//! TCP: [`TcpListener`] accepts, [`TcpStream`] connects, reads and writes; [`TcpSocket`] is what both are made of.

mod keepalive;
mod listener;
mod socket;
mod split;
mod stream;

pub use self::keepalive::TcpKeepalive;
pub use self::listener::{Incoming, IntoIncoming, TcpListener};
pub use self::socket::TcpSocket;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use self::stream::TcpStream;
