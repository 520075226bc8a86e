//! Waiting for file descriptors: [`AsyncFd`]; the process's standard streams: [`stdin`](stdin()), [`stdout`](stdout()) and [`stderr`]; and
//! passing on what one stream says to another: [`copy`](copy()) and [`copy_bidirectional`].
//!
//! Sockets and pipes that are ready to use are in [`net`](crate::net).

mod as_fd;
mod async_fd;
mod copy;
mod interest;
mod stdin;
mod stdout;
mod transfer;

pub(crate) use self::as_fd::impl_as_fd;
pub use self::async_fd::AsyncFd;
pub use self::copy::{copy, copy_bidirectional};
pub use self::interest::{Interest, Ready};
pub use self::stdin::{Stdin, stdin};
pub use self::stdout::{Stderr, Stdout, stderr, stdout};
pub(crate) use self::transfer::Progress;
