//! A worker that is held up, with operations queued that it has not handed over.

use std::io::Read;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use futures_lite::future::poll_once;

use crate::watched::watched;
use crate::{connection, runtime};

/// Begins to write, and goes on when the other end has heard it, by way of `wait`, which ends when its argument answers
/// true.
fn writes_and_waits(wait: impl Fn(&dyn Fn() -> bool) + Send + Sync + 'static) {
    watched(move || {
        let wait = Arc::new(wait);
        for by_ring in [true, false] {
            let runtime = runtime(2, by_ring);
            for _ in 0..20 {
                let wait = Arc::clone(&wait);
                let task = runtime.spawn(async move {
                    let (ours, mut theirs) = connection().await;
                    let heard = Arc::new(AtomicBool::new(false));
                    let hears = Arc::clone(&heard);
                    let reader = thread::spawn(move || {
                        theirs.read_exact(&mut [0]).unwrap();
                        hears.store(true, Ordering::Release);
                    });
                    let mut write = pin!(ours.write("!"));
                    if poll_once(&mut write).await.is_none() {
                        wait(&|| heard.load(Ordering::Acquire));
                        assert_eq!(write.await.0.unwrap(), 1);
                    }
                    reader.join().unwrap();
                });
                runtime.block_on(task).unwrap();
            }
        }
    });
}

/// Somebody else hands over what a worker has queued whose task does not give way.
#[test]
fn a_busy_worker_is_relieved() {
    writes_and_waits(|is_done| {
        while !is_done() {
            std::hint::spin_loop();
        }
    });
}

#[test]
fn a_worker_hands_over_before_it_blocks_in_place() {
    writes_and_waits(|is_done| {
        quadrille::task::block_in_place(|| {
            while !is_done() {
                thread::yield_now();
            }
        });
    });
}
