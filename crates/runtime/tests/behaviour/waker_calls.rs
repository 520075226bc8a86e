//! Wakers, and destructors of messages, may use what they belong to: they are cloned, called and dropped outside of all
//! locks.
//!
//! Under one, a case would hang, or panic.

use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::ptr::without_provenance;
use std::sync::Arc;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use futures_lite::StreamExt as _;
use quadrille::sync::{
    Barrier, CancellationToken, Mutex, Notify, OnceCell, RwLock, Semaphore, broadcast, mpmc, oneshot, watch,
};
use quadrille::task::TaskTracker;
use quadrille::thread::sync as thread_sync;

use crate::wait::watched;

thread_local! {
    static CALL: RefCell<Option<Box<dyn Fn()>>> = const { RefCell::new(None) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// What wakers and messages do. Not in the middle of that.
fn call() {
    if let Some(call) = CALL.take() {
        CALLS.set(CALLS.get() + 1);
        call();
        CALL.set(Some(call));
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |name| {
        call();
        RawWaker::new(name, &TABLE)
    },
    |_| call(),
    |_| call(),
    |_| call(),
);

/// A waker that calls whenever it is used. No other has its name.
fn waker(name: usize) -> Waker {
    // SAFETY: the functions of the table follow no pointer.
    unsafe { Waker::from_raw(RawWaker::new(without_provenance(name), &TABLE)) }
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> bool {
    future.poll(&mut Context::from_waker(waker)).is_ready()
}

/// Waits, and gives up.
fn tries(future: impl Future) {
    poll(pin!(future), Waker::noop());
}

/// Polls a future by two wakers that do what `calls` does, and drops it; before that `end` ends the wait, if there is
/// one.
fn calls_back<F: Future>(what: &str, future: F, calls: impl Fn() + 'static, end: Option<impl FnOnce()>) {
    let before = CALLS.get();
    CALL.set(Some(Box::new(calls)));
    let (one, other) = (waker(1), waker(2));
    let mut future = Box::pin(future);
    // What is called may end the wait.
    if !poll(future.as_mut(), &one)
        && !poll(future.as_mut(), &other)
        && let Some(end) = end
    {
        end();
        poll(future.as_mut(), &other);
    }
    drop(future);
    drop((one, other));
    CALL.set(None);
    assert!(CALLS.get() > before, "{what}");
}

/// For ever, so that futures may borrow it: some bytes a case.
fn left<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// A future with and without its end, given the statements before, and what is called.
macro_rules! check {
    ([$($setup:stmt);+], $future:expr, $calls:expr, $end:expr) => {
        watched(stringify!($future), || {
            for ends in [false, true] {
                $($setup)+
                calls_back(stringify!($future), $future, move || $calls, ends.then_some(|| _ = $end));
            }
        })
    };
}

#[test]
fn by_locks() {
    check!([let lock = left(Mutex::new(())); let guard = lock.try_lock().unwrap()], lock.lock(),
        { drop(lock.try_lock()); tries(lock.lock()) }, drop(guard));
    check!([let lock = left(RwLock::new(())); let guard = lock.try_write().unwrap()], lock.read(),
        { drop((lock.try_read(), lock.try_write())); tries(lock.write()) }, drop(guard));
    check!([let lock = left(RwLock::new(())); let guard = lock.try_read().unwrap()], lock.write(),
        { drop((lock.try_read(), lock.try_write())); tries(lock.read()) }, drop(guard));
    check!([let permits = left(Semaphore::new(0))], permits.acquire_many(2),
        { permits.add_permits(1); permits.forget_permits(1); tries(permits.acquire()) }, permits.add_permits(2));
    check!([let permits = left(Semaphore::new(0))], permits.acquire(), permits.close(), permits.close());
    check!([let lock = left(thread_sync::Mutex::new(())); let guard = lock.lock().unwrap()], lock.lock_async(),
        { drop(lock.try_lock()); tries(lock.lock_async()) }, drop(guard));
    check!([let lock = left(thread_sync::RwLock::new(())); let guard = lock.write().unwrap()], lock.read_async(),
        { drop((lock.try_read(), lock.try_write())); tries(lock.write_async()) }, drop(guard));
    check!([let lock = left(thread_sync::RwLock::new(())); let guard = lock.read().unwrap()], lock.write_async(),
        { drop((lock.try_read(), lock.try_write())); tries(lock.read_async()) }, drop(guard));
}

#[test]
fn by_what_happens() {
    check!([let told = left(Notify::new())], told.notified(),
        { told.notify_last(); told.notify_waiters(); tries(told.notified()) }, told.notify_one());
    check!([let cell = left(OnceCell::new())], cell.wait(), { _ = cell.try_set(1); tries(cell.wait()) }, cell.try_set(2));
    check!([let above = left(CancellationToken::new()); let token = left(above.child_token())], token.cancelled(),
        { drop((above.child_token(), token.child_token())); tries(token.cancelled()) }, above.cancel());
    check!([let above = left(CancellationToken::new()); let token = left(above.child_token())], token.cancelled(),
        above.cancel(), token.cancel());
    check!([let tracker = left(TaskTracker::new()); let token = tracker.token(); let _ = tracker.close()], tracker.wait(),
        { tracker.reopen(); tracker.close(); drop(tracker.token()); tries(tracker.wait()) }, drop(token));
    check!([let barrier = left(Barrier::new(3))], barrier.wait(), tries(barrier.wait()), tries(barrier.wait()));
    check!([let barrier = left(thread_sync::Barrier::new(2))], barrier.wait_async(),
        tries(async { _ = futures_lite::future::poll_once(barrier.wait_async()).await }), tries(barrier.wait_async()));
    check!([let pair = left((thread_sync::Mutex::new(()), thread_sync::Condvar::new()))],
        pair.1.wait_async(pair.0.lock().unwrap()),
        { pair.1.notify_all(); _ = pair.0.try_lock().map(|guard| tries(pair.1.wait_async(guard))) }, pair.1.notify_one());
}

#[test]
fn by_channels() {
    check!([let (to, from) = left(mpmc::bounded(1))], from.recv(),
        { _ = to.try_send(1); _ = from.try_recv(); drop((to.clone(), from.clone())); tries(from.recv()) }, to.try_send(2));
    check!([let (to, from) = left(mpmc::bounded(1)); let mut stream = from.clone()], stream.next(),
        { _ = to.try_send(1); _ = from.try_recv(); tries(from.recv()) }, to.try_send(2));
    check!([let (to, from) = left(mpmc::bounded(1)); to.try_send(1).unwrap()], to.send(2),
        { _ = from.try_recv(); _ = to.try_send(3); tries(to.send(4)) }, from.try_recv());
    check!([let (to, from) = left(mpmc::bounded(1)); to.try_send(1).unwrap()], to.reserve(),
        { _ = from.try_recv(); drop(to.try_reserve()); _ = to.try_send(3) }, from.try_recv());
    check!([let (to, from) = left(mpmc::bounded::<()>(1))], from.recv(), _ = from.close(), to.close());
    check!([let to = left(broadcast::Sender::new(1)); let mut from = to.subscribe()], from.recv(),
        { _ = to.send(1); tries(to.subscribe().recv()) }, to.send(2));
    check!([let to = left(broadcast::Sender::<()>::new(1)); let from = to.subscribe()], to.closed(),
        drop(to.subscribe()), drop(from));
    check!([let to = left(watch::Sender::new(1)); let mut from = to.subscribe()], from.changed(),
        { _ = to.send(3); tries(to.subscribe().changed()) }, to.send(2));
    check!([let to = left(watch::Sender::new(1)); let from = to.subscribe()], to.closed(),
        drop(to.subscribe()), drop(from));
    check!([let (to, from) = oneshot::channel(); let to = Arc::new(std::sync::Mutex::new(Some(to))); let same = to.clone()], from,
        { let to = same.lock().unwrap().take(); _ = to.map(|to: oneshot::Sender<i32>| to.send(1)) },
        to.lock().unwrap().take().map(|to| to.send(2)));
    check!([let (mut to, from) = oneshot::channel::<()>(); let from = Arc::new(std::sync::Mutex::new(Some(from))); let same = from.clone()], to.closed(),
        { let from = same.lock().unwrap().take(); drop(from) }, drop(from.lock().unwrap().take()));
}

/// A message that calls when it is dropped.
#[derive(Clone)]
struct Message;

impl Drop for Message {
    fn drop(&mut self) {
        call();
    }
}

/// What `drops` drops does what `calls` does.
fn messages_call_back(what: &'static str, drops: impl FnOnce(), calls: impl Fn() + 'static) {
    let before = CALLS.get();
    CALL.set(Some(Box::new(calls)));
    drops();
    CALL.set(None);
    assert!(CALLS.get() > before, "{what}");
}

#[test]
fn by_messages() {
    watched("mpmc", || {
        let (to, from) = mpmc::unbounded();
        let weak = to.downgrade();
        (0..3).for_each(|_| to.try_send(Message).unwrap());
        let calls = move || drop(weak.upgrade().map(|to| to.try_send(Message)));
        messages_call_back("mpmc", move || drop((from, to)), calls);
    });
    watched("broadcast", || {
        let to = left(broadcast::Sender::new(2));
        let (mut one, other) = (to.subscribe(), to.subscribe());
        let drops = move || {
            (0..4).for_each(|_| drop(to.send(Message)));
            // It has missed two, takes one, and leaves one.
            (0..2).for_each(|_| drop(one.try_recv()));
            drop((one, other));
        };
        messages_call_back("broadcast", drops, move || {
            let mut late = to.subscribe();
            _ = to.send(Message);
            drop(late.try_recv());
        });
    });
    watched("watch", || {
        let to = left(watch::Sender::new(Message));
        let from = to.subscribe();
        messages_call_back(
            "watch",
            || drop((to.send(Message), from)),
            || drop(to.send_replace(Message)),
        );
    });
    watched("sync_channel", || {
        let (to, from) = thread_sync::mpsc::sync_channel(0);
        let same = to.clone();
        let mut sends = Box::pin(async move { to.send_async(Message).await });
        let drops = move || {
            assert!(!poll(sends.as_mut(), Waker::noop()));
            drop((from, sends));
        };
        messages_call_back("sync_channel", drops, move || drop(same.try_send(Message)));
    });
}
