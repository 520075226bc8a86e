//! Whose waker a wait keeps: that of the last poll alone, and none once it is dropped.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Context;

use futures_lite::StreamExt as _;
use futures_lite::future::block_on;
use quadrille::sync::{
    Barrier, CancellationToken, Mutex, Notify, OnceCell, RwLock, Semaphore, broadcast, mpmc, oneshot, watch,
};
use quadrille::task::TaskTracker;
use quadrille::thread::sync as thread_sync;

use crate::count::Count;

fn polled<F: Future>(future: Pin<&mut F>, wakes: &Count) -> bool {
    future.poll(&mut Context::from_waker(&wakes.waker())).is_ready()
}

/// Polled by two tasks, one after the other, it keeps the second one's waker, which is called once when `end` has ended
/// the wait.
fn keeps_the_last_waker<F: Future>(what: &str, future: F, end: impl FnOnce()) {
    let (first, second) = (Count::default(), Count::default());
    let mut future = pin!(future);
    assert!(
        !polled(future.as_mut(), &first) && !polled(future.as_mut(), &second),
        "{what}"
    );
    assert!(first.is_alone() && !second.is_alone(), "{what}");
    end();
    assert_eq!((first.get(), second.get()), (0, 1), "{what}");
    assert!(polled(future, &second), "{what}");
    assert!(second.is_alone(), "{what}: it has ended");
}

/// Dropped while it waits it keeps no waker, and nobody is woken.
fn goes_without_a_trace<F: Future>(what: &str, future: F, end: impl FnOnce()) {
    let wakes = Count::default();
    let mut future = Box::pin(future);
    assert!(!polled(future.as_mut(), &wakes), "{what}");
    drop(future);
    assert!(wakes.is_alone(), "{what}");
    end();
    assert_eq!(wakes.get(), 0, "{what}");
}

/// Both of a future that waits until the expression behind it is evaluated, given the statements before.
macro_rules! check {
    ([$($setup:stmt);+], $future:expr, $end:expr) => {
        {
            $($setup)+
            keeps_the_last_waker(stringify!($future), $future, || _ = $end);
        }
        {
            $($setup)+
            goes_without_a_trace(stringify!($future), $future, || _ = $end);
        }
    };
}

#[test]
fn who_waits_at_a_channel() {
    check!([let (to, from) = mpmc::unbounded()], from.recv(), to.try_send(1));
    check!([let (to, from) = mpmc::bounded(1)], async { from.recv_many(&mut Vec::new(), 2).await.unwrap() }, to.try_send(1));
    check!([let (to, from) = mpmc::bounded(1); to.try_send(1).unwrap()], to.send(2), from.try_recv());
    check!([let (to, from) = mpmc::bounded(1); to.try_send(1).unwrap()], to.reserve(), from.try_recv());
    check!([let (to, from) = mpmc::bounded(1); to.try_send(1).unwrap()], to.clone().reserve_owned(), from.try_recv());
    check!([let (to, from) = mpmc::bounded::<()>(1)], to.closed(), drop(from));
    check!([let (to, from) = oneshot::channel()], from, to.send(1));
    check!([let (mut to, from) = oneshot::channel::<()>()], to.closed(), drop(from));
    check!([let (to, mut from) = broadcast::channel(1)], from.recv(), to.send(1));
    check!([let (to, from) = broadcast::channel::<()>(1)], to.closed(), drop(from));
    check!([let (to, mut from) = watch::channel(1)], from.changed(), to.send(2));
    check!([let (to, from) = watch::channel(1)], to.closed(), drop(from));
}

/// A stream's place outlasts the future of `next`.
#[test]
fn who_waits_at_a_stream() {
    let (to, mut from) = mpmc::unbounded();
    keeps_the_last_waker("next", from.next(), || to.try_send(1).unwrap());
    let (to, mut from) = mpmc::unbounded();
    let mut messages = Vec::new();
    let many = std::future::poll_fn(|cx| from.poll_recv_many(cx, &mut messages, 2));
    keeps_the_last_waker("poll_recv_many", many, || to.try_send(1).unwrap());
}

#[test]
fn who_waits_for_a_lock() {
    check!([let lock = Mutex::new(1); let guard = lock.try_lock().unwrap()], lock.lock(), drop(guard));
    check!([let lock = Arc::new(Mutex::new(1)); let guard = lock.try_lock().unwrap()], lock.clone().lock_owned(), drop(guard));
    check!([let lock = RwLock::new(1); let guard = lock.try_write().unwrap()], lock.read(), drop(guard));
    check!([let lock = RwLock::new(1); let guard = lock.try_read().unwrap()], lock.write(), drop(guard));
    check!([let permits = Semaphore::new(1)], permits.acquire_many(2), permits.add_permits(1));
    check!([let permits = Semaphore::new(0)], permits.acquire(), permits.close());
    check!([let lock = thread_sync::Mutex::new(1); let guard = lock.lock().unwrap()], lock.lock_async(), drop(guard));
    check!([let lock = thread_sync::RwLock::new(1); let guard = lock.write().unwrap()], lock.read_async(), drop(guard));
    check!([let lock = thread_sync::RwLock::new(1); let guard = lock.read().unwrap()], lock.write_async(), drop(guard));
}

#[test]
fn who_waits_for_something_to_happen() {
    check!([let told = Notify::new()], told.notified(), told.notify_one());
    check!([let told = Notify::new()], told.notified(), told.notify_waiters());
    check!([let cell = OnceCell::new()], cell.wait(), cell.try_set(1));
    check!([let above = CancellationToken::new(); let token = above.child_token()], token.cancelled(), above.cancel());
    check!([let token = CancellationToken::new()], token.clone().cancelled_owned(), token.cancel());
    check!([let tracker = TaskTracker::new(); let token = tracker.token(); let _ = tracker.close()], tracker.wait(), drop(token));
    // Who has come counts, dropped or not.
    check!([let barrier = Barrier::new(2)], barrier.wait(), block_on(barrier.wait()));
    let barrier = thread_sync::Barrier::new(2);
    keeps_the_last_waker("wait_async", barrier.wait_async(), || {
        _ = block_on(barrier.wait_async())
    });
}
