//! Sockets and files whose operations own their buffers: by io_uring, where the kernel has it (feature `io-uring`,
//! Linux).
//!
//! With io_uring the kernel reads into a buffer, and writes from it, while nobody waits in a system call. So it has to
//! own the buffer until it is done: each operation takes one and gives it back with its result, as in tokio-uring and
//! monoio. That is why these are types of their own beside those of [`net`](crate::net) and [`fs`](crate::fs), which
//! borrow: a socket is served in one of the two ways, and a socket that is also watched for readiness would pay for
//! both.
//!
//! ```
//! # quadrille::Runtime::new().unwrap().block_on(async {
//! use quadrille::uring::{TcpListener, TcpStream};
//!
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let client = TcpStream::connect(listener.local_addr()?).await?;
//! let (server, _) = listener.accept().await?;
//! let (sent, _) = client.write_all("hello").await;
//! sent?;
//! let (received, buffer) = server.read(Vec::with_capacity(16)).await;
//! assert_eq!(&buffer[..received?], b"hello");
//! # std::io::Result::Ok(())
//! # }).unwrap();
//! ```
//!
//! # Which of the two
//!
//! When a runtime is built it tries whether the kernel does what is needed (5.7 or later). Where it doesn't, or
//! somebody has forbidden it (a filter of system calls, `kernel.io_uring_disabled`, a limit of memory or descriptors,
//! [`Builder::io_uring`](crate::Builder::io_uring), `QUADRILLE_IO_URING=off`), the same operations wait for readiness,
//! or run on the threads that may block. Results are the same; [`Handle::io_backend`](crate::Handle::io_backend) says
//! which it is, and why.
//!
//! # When the kernel hears of it
//!
//! A worker hands over what its tasks have begun with one system call for all of it: when it has nothing else to run,
//! between two tasks every 61 tasks or 100 us, and when 64 operations wait. So they cost fewer system calls the more
//! are under way, and none of them is faster alone. If the worker is held up by a task that doesn't give way, another
//! does it, within two sentinel intervals (2 x 500 us) as long as one is free.
//!
//! The kernel goes on with an operation on the thread that has handed it over, which it interrupts for that. A system
//! call in which that thread waits may answer `Interrupted` then, as for a signal.
//!
//! # Cancel safety
//!
//! To drop a future cancels its operation before the drop returns: what comes afterwards is left for others. But the
//! kernel may have been done with it already, and then its result is lost: bytes that were read, a connection that was
//! accepted (it is closed), a write that was done. Each says so. Where the thread that handed the operation over was
//! interrupted to go on with it, and then gets no CPU, it ends only later, and may take what comes until then. Who must
//! not lose anything keeps the future and polls it again. The buffer goes with the future; its memory is freed when the
//! kernel has let go of it.
//!
//! # Shutdown
//!
//! Operations that are under way when a runtime shuts down are cancelled, and whoever still waits for one gets an error
//! of kind [`Other`](std::io::ErrorKind::Other) and the buffer. The shutdown waits until the kernel has let go of
//! everything.

mod buffer;
mod file;
mod operation;
mod tcp;
#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

pub use self::buffer::{BufResult, IoBuf};
pub use self::file::File;
pub use self::tcp::{TcpListener, TcpStream};

use self::operation::Operation;
use crate::reactor::ring::Rings;
use crate::sys::ring::Request;

/// What carries the operations of this module out; see [`Handle::io_backend`](crate::Handle::io_backend).
///
/// ```
/// # let runtime = quadrille::Runtime::new().unwrap();
/// use quadrille::uring::Backend;
///
/// match runtime.handle().io_backend() {
///     Backend::IoUring => println!("by io_uring"),
///     Backend::Fallback { why } => println!("by readiness and threads: {why}"),
///     _ => {}
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// The kernel, by io_uring.
    IoUring,
    /// Readiness for sockets, and for files the threads that may block.
    Fallback {
        /// What has kept it from using io_uring: the call that failed with its error, or who said no.
        why: String,
    },
}

/// A descriptor that rings serve. Shared with the operations under way: the last of them closes it.
#[derive(Clone)]
struct RingFd {
    fd: Arc<OwnedFd>,
    rings: Arc<Rings>,
}

impl RingFd {
    fn new(fd: OwnedFd, rings: &Arc<Rings>) -> Self {
        RingFd {
            fd: Arc::new(fd),
            rings: Arc::clone(rings),
        }
    }

    fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    fn run<R: Request>(&self, request: R) -> Operation<'_, R> {
        Operation::new(&self.rings, request)
    }
}

impl fmt::Debug for RingFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RingFd").field(&self.fd.as_raw_fd()).finish()
    }
}
