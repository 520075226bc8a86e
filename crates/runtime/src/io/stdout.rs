//! The standard outputs of the process, written by the blocking pool: whether a write blocks is up to who reads, and
//! non-blocking mode would be the open file's, which others have, too.

use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::AsyncWrite;

use crate::coop;
use crate::fs::attempt::{patiently, write_whole};
use crate::fs::job::Job;
use crate::io::impl_as_fd;
use crate::reactor::Side;

/// Most bytes that one operation takes to another thread.
const LENGTH_MAX: usize = 2 * 1024 * 1024;

/// Writes all of it, and leaves nothing in std's buffer.
type Put = fn(&[u8]) -> io::Result<()>;

/// Writes all of `bytes`, and what `to` has kept, also where whoever gave us the open file has made it non-blocking:
/// what std's handles refuse with [`WouldBlock`](io::ErrorKind::WouldBlock) they have neither written nor kept.
fn put(to: &mut (impl Write + AsFd), bytes: &[u8]) -> io::Result<()> {
    write_whole(to, bytes)?;
    patiently(to, Side::Write, |to| to.flush())
}

/// At most one write under way.
#[derive(Debug)]
struct Output {
    put: Put,
    job: Option<Job<io::Result<()>>>,
}

impl Output {
    fn new(put: Put) -> Self {
        Output { put, job: None }
    }

    /// Takes over a copy of the beginning of `from`, and starts to write it, after what was accepted before.
    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(cx))?;
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let bytes = from[..from.len().min(LENGTH_MAX)].to_vec();
        let (put, length) = (self.put, bytes.len());
        self.job = Some(Job::certain(move || put(&bytes))?);
        Poll::Ready(Ok(length))
    }

    /// Waits for what was accepted, and tells of its error.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(job) = &mut self.job else {
            // Paid for all the same; for a job its channel is.
            return coop::poll_spend(cx).map(Ok);
        };
        let outcome = ready!(Pin::new(job).poll(cx));
        self.job = None;
        Poll::Ready(outcome.and_then(|written| written))
    }
}

/// The two differ in nothing but their names.
macro_rules! output {
    ($(#[$attribute:meta])* $make:ident, $name:ident) => {
        #[doc = concat!("A standard output of the process; from [`", stringify!($make), "`].")]
        ///
        /// As a [`futures_io::AsyncWrite`]: closing is flushing.
        #[derive(Debug)]
        pub struct $name(Output, io::$name);

        $(#[$attribute])*
        ///
        /// Each write is a job for the threads that may block
        /// ([`Builder::max_blocking_threads`](crate::Builder::max_blocking_threads)), by std's handle and so whole,
        /// between what `print!`, `eprint!` and their like write: a buffer of many lines costs no more than one line.
        /// What several handles write comes in some order.
        ///
        /// # Shutdown
        /// What was accepted is written also when the handle is dropped or the runtime shuts down, which waits for it:
        /// for as long as nobody reads, or as [`Runtime::shutdown_timeout`](crate::Runtime::shutdown_timeout) says.
        /// What doesn't wait may end the process before: a runtime that is dropped inside of async code,
        /// [`Runtime::shutdown_background`](crate::Runtime::shutdown_background), [`std::process::exit`]. Flush before
        /// these.
        ///
        /// ```
        /// # quadrille::Runtime::new().unwrap().block_on(async {
        #[doc = concat!("let mut output = quadrille::io::", stringify!($make), "();")]
        /// output.write_all(b"hello\n").await?;
        /// output.flush().await?;
        /// # std::io::Result::Ok(())
        /// # }).unwrap();
        /// ```
        #[must_use]
        pub fn $make() -> $name {
            $name(Output::new(|bytes| put(&mut io::$make().lock(), bytes)), io::$make())
        }

        impl_as_fd!(1: $name);

        impl $name {
            /// Takes over a copy of the beginning of `buffer`, at most 2 MiB, to be written; returns how many bytes.
            /// That they are accepted does not say that they are written: [`flush`](Self::flush) does.
            ///
            /// # Errors
            ///
            /// That of an earlier write; the runtime shuts down.
            ///
            /// # Panics
            ///
            /// Outside of a runtime.
            ///
            /// # Cancel safety
            ///
            /// Strict: a write that was dropped has accepted nothing.
            pub async fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                poll_fn(|cx| self.0.poll_write(cx, buffer)).await
            }

            /// Takes over a copy of all of `buffer`, to be written.
            ///
            /// # Errors
            ///
            /// As [`write`](Self::write).
            ///
            /// # Panics
            ///
            /// Outside of a runtime.
            ///
            /// # Cancel safety
            ///
            /// Loses the count: a part may have been accepted. [`write`](Self::write) in a loop keeps it.
            pub async fn write_all(&mut self, mut buffer: &[u8]) -> io::Result<()> {
                if buffer.is_empty() {
                    coop::consume_budget().await;
                }
                while !buffer.is_empty() {
                    let length = self.write(buffer).await?;
                    buffer = &buffer[length..];
                }
                Ok(())
            }

            /// Waits until the system has all that was accepted.
            ///
            /// # Errors
            ///
            /// That of the last write, if nobody was told: [`BrokenPipe`](io::ErrorKind::BrokenPipe) if nobody reads
            /// any more, others of `write(2)`.
            ///
            /// # Cancel safety
            ///
            /// Strict.
            pub async fn flush(&mut self) -> io::Result<()> {
                poll_fn(|cx| self.0.poll_flush(cx)).await
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
                self.0.poll_write(cx, buffer)
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.0.poll_flush(cx)
            }

            fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.poll_flush(cx)
            }
        }
    };
}

output! {
    /// A handle of the process's standard output.
    stdout, Stdout
}

output! {
    /// A handle of the process's standard error.
    stderr, Stderr
}
