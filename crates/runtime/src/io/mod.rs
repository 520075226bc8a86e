//! Waiting for file descriptors: [`AsyncFd`]; the process's standard streams: [`stdin`](stdin()), [`stdout`](stdout())
//! and [`stderr`]; passing on what one stream says to another: [`copy`](copy()) and [`copy_bidirectional`]; and a
//! stream in memory: [`duplex`](duplex()).
//!
//! Sockets and pipes that are ready to use are in [`net`](crate::net).
//!
//! The traits [`AsyncRead`], [`AsyncWrite`], [`AsyncBufRead`] and [`AsyncSeek`] are those of the crate `futures-io`,
//! named here for bounds and implementations; what reads lines, or fills a buffer, by way of them is in `futures-lite`
//! and `futures-util`. [`Error`], [`ErrorKind`], [`Result`] and [`SeekFrom`] are std's, so that one `use quadrille::io`
//! does.
//!
//! ```
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! use futures_lite::{AsyncReadExt, AsyncWriteExt};
//! use quadrille::io::{self, AsyncRead, AsyncWrite};
//!
//! async fn ask(mut server: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Vec<u8>> {
//!     server.write_all(b"time?").await?;
//!     let mut answer = vec![0; 5];
//!     server.read_exact(&mut answer).await?;
//!     Ok(answer)
//! }
//!
//! let (server, client) = quadrille::net::UnixStream::pair()?;
//! server.write_all(b"10:15").await?;
//! assert_eq!(ask(client).await?, b"10:15");
//! # io::Result::Ok(())
//! # }).unwrap();
//! ```

mod as_fd;
mod async_fd;
mod copy;
mod duplex;
mod interest;
#[cfg(feature = "bytes")]
mod read_buf;
#[cfg(any(feature = "bytes", feature = "hyper"))]
pub(crate) mod reader;
mod stdin;
mod stdout;
mod transfer;

pub use std::io::{Error, ErrorKind, Result, SeekFrom};

pub use futures_io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite};

pub(crate) use self::as_fd::impl_as_fd;
pub use self::async_fd::AsyncFd;
pub(crate) use self::async_fd::{hide_error_if_doomed, hide_poll_error_if_doomed, stopped_unless_doomed};
pub use self::copy::{copy, copy_bidirectional, copy_bidirectional_with_sizes};
pub use self::duplex::{DuplexStream, duplex};
pub use self::interest::{Interest, Ready};
#[cfg(feature = "bytes")]
pub use self::read_buf::read_buf;
pub use self::stdin::{Stdin, stdin};
pub use self::stdout::{Stderr, Stdout, stderr, stdout};
pub(crate) use self::transfer::Progress;
