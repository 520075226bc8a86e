//! Waiting for file descriptors: [`AsyncFd`].
//!
//! Sockets and pipes that are ready to use are in [`net`](crate::net).

mod async_fd;

pub use self::async_fd::AsyncFd;
