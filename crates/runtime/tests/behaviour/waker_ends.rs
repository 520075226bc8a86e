//! What a poll has got is not lost when a waker panics as it is dropped in that poll.
//!
//! A poll that finds nothing clones a waker that is not ours, and looks again; what it has not used of that it drops.
//! So each case gives what is waited for while the waker is cloned, and the clone panics when it is dropped. Where it
//! is the cloning that panics, nothing has changed.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr::null;
use std::sync::Arc;
use std::task::{Context, RawWaker, RawWakerVTable, Waker};

use quadrille::sync::{Mutex, RwLock, Semaphore, broadcast, oneshot};
use quadrille::thread;

use crate::count::Count;

thread_local! {
    static ON_CLONE: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |_| {
        if let Some(gives) = ON_CLONE.take() {
            gives();
        }
        RawWaker::new(null(), &TABLE)
    },
    |_| (),
    |_| (),
    |_| assert!(!PANICS.replace(false), "as asked"),
);

/// By the table above. It isn't dropped, its clones are.
fn waker() -> ManuallyDrop<Waker> {
    // SAFETY: the functions of the table use no data.
    ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(null(), &TABLE)) })
}

/// Polls it, `gives` in the middle of that, and sees it panic.
fn panics_in_the_middle<F: Future>(future: Pin<&mut F>, gives: impl FnOnce() + 'static) {
    ON_CLONE.set(Some(Box::new(gives)));
    let waker = waker();
    PANICS.set(true);
    let polled = catch_unwind(AssertUnwindSafe(|| drop(future.poll(&mut Context::from_waker(&waker)))));
    assert!(polled.is_err() && !PANICS.get());
}

fn is_pending<F: Future + Unpin>(future: &mut F, waker: &Waker) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(waker)).is_pending()
}

#[test]
fn permits_are_given_back() {
    let semaphore = Arc::new(Semaphore::new(1));
    let permit = semaphore.clone().try_acquire_owned().unwrap();
    let mut acquire = Box::pin(semaphore.clone().acquire_owned());
    panics_in_the_middle(acquire.as_mut(), move || drop(permit));
    drop(acquire);
    assert_eq!(semaphore.available_permits(), 1);
}

#[test]
fn locks_are_free_again() {
    let mutex = Arc::new(Mutex::new(()));
    let guard = mutex.clone().try_lock_owned().unwrap();
    let mut lock = Box::pin(mutex.clone().lock_owned());
    panics_in_the_middle(lock.as_mut(), move || drop(guard));
    drop(lock);
    assert!(mutex.try_lock().is_ok());

    let rwlock = Arc::new(RwLock::new(()));
    let guard = rwlock.clone().try_write_owned().unwrap();
    let mut read = Box::pin(rwlock.clone().read_owned());
    panics_in_the_middle(read.as_mut(), move || drop(guard));
    drop(read);
    assert!(rwlock.try_write().is_ok());
}

#[test]
fn locks_of_threads_are_free_again() {
    let mutex: &thread::sync::Mutex<()> = Box::leak(Box::default());
    let guard = mutex.lock().unwrap();
    let mut lock = Box::pin(mutex.lock_async());
    panics_in_the_middle(lock.as_mut(), move || drop(guard));
    drop(lock);
    assert!(mutex.try_lock().is_ok());

    let rwlock: &thread::sync::RwLock<()> = Box::leak(Box::default());
    let guard = rwlock.write().unwrap();
    let mut read = Box::pin(rwlock.read_async());
    panics_in_the_middle(read.as_mut(), move || drop(guard));
    drop(read);
    assert!(rwlock.try_write().is_ok());
}

#[test]
fn a_message_to_all_is_dropped() {
    let (sender, mut receiver) = broadcast::channel(2);
    let probe = Arc::new(());
    let message = probe.clone();
    let mut receive = Box::pin(receiver.recv());
    panics_in_the_middle(receive.as_mut(), move || assert_eq!(sender.send(message), Ok(1)));
    drop(receive);
    assert_eq!((Arc::strong_count(&probe), receiver.len()), (1, 0));
}

#[test]
fn a_message_stays_in_its_oneshot() {
    for has_waited in [false, true] {
        for is_received in [true, false] {
            let (sender, mut receiver) = oneshot::channel();
            if has_waited {
                assert!(is_pending(&mut receiver, Waker::noop()));
            }
            let probe = Arc::new(());
            let message = probe.clone();
            panics_in_the_middle(Pin::new(&mut receiver), move || sender.send(message).unwrap());
            assert_eq!(Arc::strong_count(&probe), 2);
            if is_received {
                assert!(receiver.try_recv().is_ok());
            }
            drop(receiver);
            assert_eq!(Arc::strong_count(&probe), 1, "{has_waited}, {is_received}");
        }
    }
}

#[test]
fn a_oneshot_is_still_closed() {
    let (mut sender, receiver) = oneshot::channel::<()>();
    panics_in_the_middle(pin!(sender.closed()), move || drop(receiver));
    assert!(sender.is_closed());
    assert!(!is_pending(&mut pin!(sender.closed()), Waker::noop()));
}

#[test]
fn a_oneshot_whose_waker_cannot_be_cloned_keeps_the_one_before() {
    for has_waited in [false, true] {
        let (sender, mut receiver) = oneshot::channel();
        let wakes = Count::default();
        if has_waited {
            assert!(is_pending(&mut receiver, &wakes.waker()));
        }
        ON_CLONE.set(Some(Box::new(|| panic!("as asked"))));
        let polled = catch_unwind(AssertUnwindSafe(|| is_pending(&mut receiver, &waker())));
        assert!(polled.is_err());
        sender.send(7).unwrap();
        assert_eq!(wakes.get(), usize::from(has_waited));
        assert_eq!(receiver.try_recv(), Ok(7));
    }
}
