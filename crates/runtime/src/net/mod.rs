//! Sockets and pipes.
//!
//! [`TcpListener`] and [`TcpStream`]; [`UdpSocket`]; [`UnixListener`], [`UnixStream`] and [`UnixDatagram`]; [`pipe`];
//! [`lookup_host`] for names. Anything else with a descriptor: [`io::AsyncFd`](crate::io::AsyncFd).
//!
//! All operations take `&self`: one task may read while another writes, and what several tasks read or write at the same
//! time comes in some order. Each tries first and waits only if it must: where data is there it costs one system call. The
//! methods are futures: a task awaits them, a user-level thread or any other thread calls [`wait`](crate::Wait::wait) on
//! them. Streams implement `AsyncRead` and `AsyncWrite` of the crate `futures-io`.

mod addr;
mod connection;
mod from_std;
mod pipe;
mod split;
pub(crate) mod stream;
pub mod tcp;
mod udp;
pub mod unix;

pub use self::addr::{ToSocketAddrs, lookup_host};
pub use self::pipe::{PipeReader, PipeWriter, pipe};
pub use self::tcp::{TcpKeepalive, TcpListener, TcpSocket, TcpStream};
pub use self::udp::UdpSocket;
pub use self::unix::{UnixDatagram, UnixListener, UnixStream};
