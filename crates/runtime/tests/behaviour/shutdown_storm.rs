//! Ending a runtime while other threads spawn, wake, abort and join as fast as they can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;

use quadrille::{Handle, Runtime, spawn};

use crate::count::Count;
use crate::shape::for_each_shape;
use crate::wait::eventually;

const THREADS: usize = 3;
const ROUNDS: usize = 6;

/// Futures made and futures dropped.
#[derive(Clone, Debug, Default)]
struct Ledger {
    made: Arc<AtomicUsize>,
    dropped: Count,
}

impl Ledger {
    /// A task that gives its waker away on every poll and is never ready.
    fn restless(&self, wakers: &std::sync::mpsc::Sender<Waker>) -> impl Future<Output = ()> + Send + 'static {
        self.made.fetch_add(1, Ordering::SeqCst);
        let (token, wakers) = (self.dropped.token(), wakers.clone());
        std::future::poll_fn(move |cx| {
            let _token = &token;
            // The receiver goes when the storm is over.
            let _ = wakers.send(cx.waker().clone());
            std::task::Poll::Pending
        })
    }

    /// A task that spawns another one and ends.
    fn fruitful(&self) -> impl Future<Output = ()> + Send + 'static {
        self.made.fetch_add(2, Ordering::SeqCst);
        let (first, second) = (self.dropped.token(), self.dropped.token());
        async move {
            let _first = first;
            drop(spawn(async move { drop(second) }));
        }
    }
}

/// Spawns, wakes and aborts until told to stop, which is after the runtime has gone.
fn storm(handle: &Handle, ledger: &Ledger, stop: &AtomicBool) {
    let (wakers, receiver) = std::sync::mpsc::channel();
    let mut kept = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let task = handle.spawn(ledger.restless(&wakers));
        if kept.len() % 3 == 0 {
            task.abort();
        }
        kept.push(task);
        drop(handle.spawn(ledger.fruitful()));
        receiver.try_iter().for_each(Waker::wake);
        if kept.len() > 50 {
            kept.clear();
        }
    }
    // Wakers that outlive it all.
    drop(wakers);
    receiver.iter().for_each(Waker::wake);
}

fn storm_while(runtime: Runtime, end: impl FnOnce(Runtime)) {
    let ledger = Ledger::default();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (handle, ledger, stop) = (runtime.handle().clone(), ledger.clone(), stop.clone());
            thread::spawn(move || storm(&handle, &ledger, &stop))
        })
        .collect();
    eventually("the storm has begun", || ledger.made.load(Ordering::SeqCst) > 300);
    end(runtime);
    // Some more, on a runtime that is gone.
    let so_far = ledger.made.load(Ordering::SeqCst);
    eventually("the storm goes on", || {
        ledger.made.load(Ordering::SeqCst) > so_far + 300
    });
    stop.store(true, Ordering::SeqCst);
    for thread in threads {
        thread.join().unwrap();
    }
    let made = ledger.made.load(Ordering::SeqCst);
    eventually("all futures are dropped", || ledger.dropped.get() >= made);
    assert_eq!(ledger.dropped.get(), made, "every future is dropped exactly once");
}

#[test]
fn from_outside() {
    for_each_shape(|shape| {
        for _ in 0..ROUNDS {
            storm_while(shape.runtime(), drop);
        }
    });
}

#[test]
fn from_inside() {
    for_each_shape(|shape| {
        for _ in 0..ROUNDS {
            storm_while(shape.runtime(), |runtime| {
                let handle = runtime.handle().clone();
                let ender = handle.spawn(async move { drop(runtime) });
                futures_lite::future::block_on(ender).unwrap();
            });
        }
    });
}

#[test]
fn in_the_background() {
    for_each_shape(|shape| {
        for _ in 0..ROUNDS {
            storm_while(shape.runtime(), Runtime::shutdown_background);
        }
    });
}
