//! Sockets and files whose operations own their buffers, through the public API alone, by io_uring and by the
//! fall-back. The other side is std's.
//!
//! Where the kernel refuses io_uring the fall-back alone is tested, and the tests say so.

mod cancelled;
mod files;
mod held_up;
mod many;
mod scratch;
mod shutdown;
mod sockets;
#[expect(dead_code, reason = "the tests of sockets choose their runtimes otherwise")]
#[path = "../net/watched.rs"]
mod watched;

use std::future::Future;
use std::net;

use quadrille::Runtime;
use quadrille::uring::{Backend, TcpListener, TcpStream};

use crate::watched::watched;

/// A runtime; with rings if the kernel has them and `by_ring`.
#[expect(clippy::print_stderr, reason = "a test that tests less says so")]
fn runtime(workers: usize, by_ring: bool) -> Runtime {
    let runtime = Runtime::builder()
        .worker_threads(workers)
        .io_uring(by_ring)
        .build()
        .unwrap();
    match runtime.handle().io_backend() {
        Backend::IoUring => assert!(by_ring),
        Backend::Fallback { why } if by_ring => eprintln!("by the fall-back: {why}"),
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

#[test]
fn the_fall_back_says_why() {
    let runtime = runtime(1, false);
    let Backend::Fallback { why } = runtime.handle().io_backend() else {
        panic!("io_uring was forbidden");
    };
    assert_eq!(why, "the builder says no");
}
