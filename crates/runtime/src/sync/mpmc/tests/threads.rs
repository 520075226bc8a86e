//! Several OS threads, each with an executor of its own or none.

use std::sync::Barrier;
use std::thread;

use futures_lite::future::block_on;

use super::super::{bounded, unbounded};

/// `senders` threads send `count` numbered messages each, `receivers` threads take them; each sender's order must hold
/// at each receiver, and every message must arrive once.
fn check(capacity: usize, senders: usize, receivers: usize, count: usize, blocking: bool) {
    let (sender, receiver) = bounded(capacity);
    let mut all: Vec<(usize, usize)> = thread::scope(|scope| {
        for id in 0..senders {
            let sender = sender.clone();
            scope.spawn(move || {
                for n in 0..count {
                    let sent = if blocking {
                        sender.send_blocking((id, n))
                    } else {
                        block_on(sender.send((id, n)))
                    };
                    sent.unwrap();
                }
            });
        }
        drop(sender);
        let takers: Vec<_> = (0..receivers)
            .map(|_| {
                let receiver = receiver.clone();
                scope.spawn(move || {
                    let mut got = Vec::new();
                    let next = || {
                        if blocking {
                            receiver.recv_blocking()
                        } else {
                            block_on(receiver.recv())
                        }
                    };
                    while let Ok(message) = next() {
                        got.push(message);
                    }
                    got
                })
            })
            .collect();
        takers
            .into_iter()
            .flat_map(|taker| {
                let got = taker.join().unwrap();
                for id in 0..senders {
                    assert!(got.iter().filter(|m| m.0 == id).is_sorted(), "sender {id} out of order");
                }
                got
            })
            .collect()
    });
    all.sort_unstable();
    let expected = (0..senders).flat_map(|id| (0..count).map(move |n| (id, n)));
    assert!(all.into_iter().eq(expected));
}

#[test]
fn async_forms_deliver_everything_in_order() {
    check(1, 2, 2, 2_000, false);
    check(3, 4, 1, 2_000, false);
    check(64, 4, 4, 5_000, false);
    check(655, 1, 4, 5_000, false);
}

#[test]
fn blocking_forms_deliver_everything_in_order() {
    check(1, 2, 2, 2_000, true);
    check(64, 3, 3, 5_000, true);
}

#[test]
fn batches_share_the_messages() {
    let (sender, receiver) = unbounded();
    let total: usize = thread::scope(|scope| {
        for _ in 0..2 {
            let sender = sender.clone();
            scope.spawn(move || (0..5_000).for_each(|n| sender.try_send(n).unwrap()));
        }
        drop(sender);
        let takers = [(); 2].map(|()| {
            let receiver = receiver.clone();
            scope.spawn(move || {
                let mut got = Vec::new();
                while block_on(receiver.recv_many(&mut got, 10)).is_ok() {}
                got.len()
            })
        });
        takers.map(|taker| taker.join().unwrap()).iter().sum()
    });
    assert_eq!(total, 10_000);
}

#[test]
fn closing_races_with_sending_and_loses_nothing() {
    for _ in 0..200 {
        let (sender, receiver) = bounded(2);
        let start = Barrier::new(2);
        let (sent, received) = thread::scope(|scope| {
            let sending = scope.spawn(|| {
                start.wait();
                (0..10).take_while(|n| sender.send_blocking(*n).is_ok()).count()
            });
            start.wait();
            let mut received = usize::from(receiver.recv_blocking().is_ok());
            receiver.close();
            received += std::iter::from_fn(|| receiver.recv_blocking().ok()).count();
            (sending.join().unwrap(), received)
        });
        assert_eq!(sent, received);
    }
}
