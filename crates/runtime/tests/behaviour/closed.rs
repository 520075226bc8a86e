//! Senders that wait for the end of all receivers.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use quadrille::sync::{broadcast, mpmc, watch};

use crate::count::Count;

/// Polls `future` with a waker that counts, and has to wait.
fn waits<F: Future>(future: Pin<&mut F>, wakes: &Count) {
    assert!(future.poll(&mut Context::from_waker(&wakes.waker())).is_pending());
}

#[test]
fn what_is_sent_wakes_nobody_who_waits_for_the_end() {
    let wakes = Count::default();
    let (sender, receiver) = watch::channel(0);
    let mut closed = pin!(sender.closed());
    waits(closed.as_mut(), &wakes);
    sender.send(1).unwrap();
    assert_eq!(wakes.get(), 0, "watch");
    drop(receiver);
    assert_eq!(wakes.get(), 1, "watch");

    let (sender, receiver) = broadcast::channel(4);
    let mut closed = pin!(sender.closed());
    waits(closed.as_mut(), &wakes);
    sender.send(1).unwrap();
    assert_eq!(wakes.get(), 1, "broadcast");
    drop(receiver);
    assert_eq!(wakes.get(), 2, "broadcast");

    let (sender, receiver) = mpmc::bounded(4);
    let mut closed = pin!(sender.closed());
    waits(closed.as_mut(), &wakes);
    sender.try_send(1).unwrap();
    assert_eq!(wakes.get(), 2, "mpmc");
    drop(receiver);
    assert_eq!(wakes.get(), 3, "mpmc");
}

/// Whoever is woken and finds that a receiver has come meanwhile waits for the end of that one.
#[test]
fn the_end_of_one_receiver_is_not_that_of_the_next() {
    let wakes = Count::default();
    let (sender, receiver) = watch::channel(0);
    let mut closed = pin!(sender.closed());
    waits(closed.as_mut(), &wakes);
    drop(receiver);
    let next = sender.subscribe();
    waits(closed.as_mut(), &wakes);
    drop(next);
    assert_eq!(wakes.get(), 2, "watch");

    let (sender, receiver) = broadcast::channel::<u8>(4);
    let mut closed = pin!(sender.closed());
    waits(closed.as_mut(), &wakes);
    drop(receiver);
    let next = sender.subscribe();
    waits(closed.as_mut(), &wakes);
    drop(next);
    assert_eq!(wakes.get(), 4, "broadcast");
}

/// Notes how many messages are inside when it is called.
struct Len(broadcast::Sender<Arc<()>>, AtomicUsize);

impl Wake for Len {
    fn wake(self: Arc<Self>) {
        self.1.store(self.0.len(), Ordering::SeqCst);
    }
}

#[test]
fn who_hears_of_the_end_of_a_broadcast_finds_it_empty() {
    let (sender, receiver) = broadcast::channel(4);
    let message = Arc::new(());
    sender.send(message.clone()).unwrap();
    let len = Arc::new(Len(sender.clone(), AtomicUsize::new(usize::MAX)));
    let mut closed = pin!(sender.closed());
    let waker = Waker::from(len.clone());
    assert!(closed.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(receiver);
    assert_eq!(len.1.load(Ordering::SeqCst), 0);
    assert_eq!(Arc::strong_count(&message), 1);
}

/// Subscribes when it is dropped.
struct Subscribes(
    broadcast::Sender<Arc<Self>>,
    Arc<std::sync::Mutex<Vec<broadcast::Receiver<Arc<Self>>>>>,
);

impl Drop for Subscribes {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.subscribe());
    }
}

#[test]
fn a_broadcast_that_has_a_new_receiver_by_then_has_not_ended() {
    let wakes = Count::default();
    let (sender, receiver) = broadcast::channel(4);
    let later = Arc::default();
    assert!(
        sender
            .send(Arc::new(Subscribes(sender.clone(), Arc::clone(&later))))
            .is_ok()
    );
    let mut closed = pin!(sender.closed());
    waits(closed.as_mut(), &wakes);
    drop(receiver);
    assert_eq!((later.lock().unwrap().len(), wakes.get()), (1, 0));
    let last = later.lock().unwrap().pop();
    drop(last);
    assert_eq!(wakes.get(), 1);
}
