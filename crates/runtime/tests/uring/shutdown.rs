//! A runtime that shuts down while operations are under way.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use futures_lite::future::block_on;
use quadrille::uring::TcpStream;

use crate::watched::watched;
use crate::{connection, runtime};

/// Everything that waits is dropped, and its sockets are closed.
#[test]
fn a_runtime_ends_with_operations_under_way() {
    watched(|| {
        for (workers, by_ring) in [(1, true), (3, true), (3, false)] {
            let alive = Arc::new(());
            let runtime = runtime(workers, by_ring);
            let mut peers = Vec::new();
            for _ in 0..50 {
                let (ours, theirs) = runtime.block_on(connection());
                let alive = Arc::clone(&alive);
                peers.push(theirs);
                drop(runtime.spawn(async move {
                    let _ = ours.read(Vec::with_capacity(64)).await;
                    drop(alive);
                }));
            }
            drop(runtime);
            assert_eq!(Arc::strong_count(&alive), 1);
            for mut peer in peers {
                assert_eq!(peer.read(&mut [0]).unwrap(), 0, "closed");
            }
        }
    });
}

/// Whoever waits elsewhere hears of it, and has the buffer back.
#[test]
fn who_waits_outside_hears_that_the_runtime_ends() {
    watched(|| {
        for by_ring in [true, false] {
            let runtime = runtime(2, by_ring);
            let (ours, theirs) = runtime.block_on(connection());
            let (waits, waiting) = channel();
            let waiter = thread::spawn(move || {
                let mut read = Box::pin(read_once(&ours));
                assert!(block_on(futures_lite::future::poll_once(&mut read)).is_none());
                waits.send(()).unwrap();
                let (kind, capacity) = block_on(read);
                assert_eq!((kind, capacity >= 64), (ErrorKind::Other, true));
                // And nothing is begun any more.
                let (kind, capacity) = block_on(read_once(&ours));
                assert_eq!((kind, capacity >= 64), (ErrorKind::Other, true));
            });
            waiting.recv().unwrap();
            drop(runtime);
            waiter.join().unwrap();
            drop(theirs);
        }
    });
}

/// How a read fails, and the capacity that comes back.
async fn read_once(stream: &TcpStream) -> (ErrorKind, usize) {
    let (count, buffer) = stream.read(Vec::with_capacity(64)).await;
    (count.unwrap_err().kind(), buffer.capacity())
}

/// A task that blocks its worker keeps the runtime from its end, unless it hears of it, too.
#[test]
fn a_worker_that_waits_in_place_hears_that_the_runtime_ends() {
    watched(|| {
        for by_ring in [true, false] {
            let runtime = runtime(2, by_ring);
            let (ours, theirs) = runtime.block_on(connection());
            let (waits, waiting) = channel();
            let task = runtime.spawn(async move {
                quadrille::task::block_in_place(|| {
                    let mut read = Box::pin(read_once(&ours));
                    assert!(block_on(futures_lite::future::poll_once(&mut read)).is_none());
                    waits.send(ErrorKind::WouldBlock).unwrap();
                    waits.send(block_on(read).0).unwrap();
                });
            });
            assert_eq!(waiting.recv(), Ok(ErrorKind::WouldBlock));
            drop(runtime);
            assert_eq!(waiting.recv(), Ok(ErrorKind::Other));
            drop((task, theirs));
        }
    });
}
