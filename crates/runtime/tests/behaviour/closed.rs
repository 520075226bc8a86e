//! Senders that wait for the end of all receivers.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::Context;

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
