//! Sockets and pipes.
//!
//! [`TcpListener`] and [`TcpStream`]; [`UdpSocket`]; [`UnixListener`], [`UnixStream`] and [`UnixDatagram`]; [`pipe`];
//! [`lookup_host`] for names. A [`Server`] has each connection of a listener served by a task or a user-level thread.
//! Anything else with a descriptor: [`io::AsyncFd`](crate::io::AsyncFd).
//!
//! All operations take `&self`: one task may read while another writes, and what several tasks read or write at the
//! same time comes in some order. Each tries first and waits only if it must: where data is there it costs one system
//! call. The methods are futures: a task awaits them, a user-level thread or any other thread calls
//! [`wait`](crate::Wait::wait) on them. Streams implement `AsyncRead` and `AsyncWrite` of the crate `futures-io`.
//!
//! With the feature `bytes` they also read into buffers that grow by what has come, and write from buffers that shrink
//! by what has gone: `read_buf`, `write_all_buf`, and `recv_buf` for datagrams.
//!
#![cfg_attr(feature = "bytes", doc = "```")]
#![cfg_attr(not(feature = "bytes"), doc = "```ignore")]
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! use bytes::{Buf, BytesMut};
//! use quadrille::net::UnixStream;
//!
//! let (client, server) = UnixStream::pair()?;
//! client.write_all_buf(&mut &b"GET one\nGE"[..]).await?;
//! let mut input = BytesMut::with_capacity(4096);
//! while !input.contains(&b'\n') {
//!     assert!(server.read_buf(&mut input).await? > 0, "the end");
//! }
//! let line = input.iter().position(|byte| *byte == b'\n').unwrap();
//! assert_eq!(input.split_to(line), "GET one");
//! input.advance(1);
//! assert_eq!(input, "GE", "of the next one");
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```

mod addr;
#[cfg(feature = "bytes")]
pub(crate) mod buf;
mod connection;
mod from_std;
mod incoming;
mod listener;
mod pipe;
mod server;
mod split;
pub(crate) mod stream;
pub mod tcp;
mod udp;
pub mod unix;

pub use self::addr::{ToSocketAddrs, lookup_host};
pub use self::listener::Listener;
pub use self::pipe::{PipeReader, PipeWriter, pipe};
pub use self::server::{Served, Server};
pub use self::tcp::{TcpKeepalive, TcpListener, TcpSocket, TcpStream};
pub use self::udp::UdpSocket;
pub use self::unix::{UnixDatagram, UnixListener, UnixStream};
