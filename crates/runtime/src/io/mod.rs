//! Waiting for file descriptors: [`AsyncFd`].
//!
//! Sockets and pipes that are ready to use are in [`net`](crate::net).

mod as_fd;
mod async_fd;
mod interest;
mod transfer;

pub(crate) use self::as_fd::impl_as_fd;
pub use self::async_fd::AsyncFd;
pub use self::interest::{Interest, Ready};
pub(crate) use self::transfer::Progress;
