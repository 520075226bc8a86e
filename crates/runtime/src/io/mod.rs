//! Waiting for file descriptors: [`AsyncFd`].
//!
//! Sockets and pipes that are ready to use are in [`net`](crate::net).

mod async_fd;
mod interest;
mod transfer;

pub use self::async_fd::AsyncFd;
pub use self::interest::{Interest, Ready};
pub(crate) use self::transfer::Progress;
