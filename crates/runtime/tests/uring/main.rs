//! Sockets and files whose operations own their buffers, through the public API alone, by io_uring and by the
//! fall-back. The other side is std's.
//!
//! Where the kernel refuses io_uring the fall-back alone is tested, and the tests say so.

mod cancelled;
mod files;
#[path = "../behaviour/greedy.rs"]
mod greedy;
mod held_up;
mod many;
mod scratch;
mod shutdown;
#[path = "../../src/skipped.rs"]
mod skipped;
mod sockets;
#[expect(dead_code, reason = "the tests of sockets choose their runtimes otherwise")]
#[path = "../net/watched.rs"]
mod watched;

use std::future::Future;
use std::net;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use quadrille::Runtime;
use quadrille::uring::{Backend, TcpListener, TcpStream};

use crate::skipped::skipped;
use crate::watched::watched;

/// A runtime; with rings if the kernel has them and `by_ring`.
fn runtime(workers: usize, by_ring: bool) -> Runtime {
    let runtime = Runtime::builder()
        .worker_threads(workers)
        .io_uring(by_ring)
        .build()
        .unwrap();
    match runtime.handle().io_backend() {
        Backend::IoUring => assert!(by_ring),
        Backend::Fallback { why } if by_ring => skipped(&format!("by the fall-back alone: {why}")),
        _ => {}
    }
    runtime
}

/// Runs what `test` makes in a task, by io_uring and by the fall-back, with one worker and with several.
fn on_backends<F>(test: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    watched(move || {
        for (workers, by_ring) in [(1, true), (3, true), (1, false), (3, false)] {
            let runtime = runtime(workers, by_ring);
            runtime.block_on(async { quadrille::spawn(test()).await.unwrap() });
        }
    });
}

/// A listener, and where it listens.
async fn listen() -> (TcpListener, net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connection with a peer of std's.
async fn connection() -> (TcpStream, net::TcpStream) {
    let (listener, address) = listen().await;
    let theirs = net::TcpStream::connect(address).unwrap();
    let (ours, peer) = listener.accept().await.unwrap();
    assert_eq!(peer, theirs.local_addr().unwrap());
    (ours, theirs)
}

/// Whether the kernel gives this process a ring as large as those of workers, with the features that they need, and
/// takes the two other system calls. Asked of the kernel itself: a runtime that never finds a ring passes every other
/// test by its fall-back.
fn kernel_has_rings() -> bool {
    const SETUP_CQSIZE: u32 = 1 << 3;
    const SETUP_CLAMP: u32 = 1 << 4;
    const NODROP_AND_FAST_POLL: u32 = 1 << 1 | 1 << 5;
    const REGISTER_PROBE: u32 = 8;
    // `struct io_uring_params`: after the two sizes come flags, two more and features.
    let mut params = [0_u32; 30];
    (params[1], params[2]) = (4096, SETUP_CQSIZE | SETUP_CLAMP);
    // SAFETY: the kernel reads and writes 120 bytes of parameters, which are so many.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 256_u32, params.as_mut_ptr()) };
    let Ok(fd @ 0..) = i32::try_from(fd) else { return false };
    // SAFETY: the kernel has made it, for nobody else.
    let ring = unsafe { OwnedFd::from_raw_fd(fd) };
    // A head of 16 bytes, and 8 for each of so many operations.
    let mut known = [0_u64; 2 + 256];
    let (number, room) = (ring.as_raw_fd(), known.as_mut_ptr());
    // SAFETY: the kernel writes what there is room for.
    let registers = unsafe { libc::syscall(libc::SYS_io_uring_register, number, REGISTER_PROBE, room, 256_u32) };
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: nothing is handed over and nothing waited for.
    let enters = unsafe { libc::syscall(libc::SYS_io_uring_enter, number, 0_u32, 0_u32, 0_u32, none, 0_usize) };
    params[5] & NODROP_AND_FAST_POLL == NODROP_AND_FAST_POLL && registers == 0 && enters == 0
}

#[test]
fn where_the_kernel_has_rings_they_are_used() {
    if !kernel_has_rings() {
        return skipped("the kernel has no io_uring for this process");
    }
    for workers in [1, 3] {
        let backend = runtime(workers, true).handle().io_backend();
        assert!(matches!(backend, Backend::IoUring), "{backend:?}");
    }
}

#[test]
fn the_fall_back_says_why() {
    let runtime = runtime(1, false);
    let Backend::Fallback { why } = runtime.handle().io_backend() else {
        panic!("io_uring was forbidden");
    };
    assert_eq!(why, "the builder says no");
}
