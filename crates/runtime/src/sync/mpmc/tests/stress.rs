//! Senders and receivers on several threads that give up at random.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use futures_lite::future::{block_on, poll_once, yield_now};

use super::super::{Receiver, Sender, bounded};

const SENDERS: usize = 3;
const RECEIVERS: usize = 3;
const COUNT: usize = 3_000;
const SEED: u64 = 0x5eed_0002;

/// Counts how many of its kind are alive.
struct Tracked<'a>(&'a AtomicUsize);

impl<'a> Tracked<'a> {
    fn new(alive: &'a AtomicUsize) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(alive)
    }
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Marsaglia's xorshift64.
struct Rng(u64);

impl Rng {
    fn one_in(&mut self, n: u64) -> bool {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.is_multiple_of(n)
    }
}

/// Sends `COUNT` messages, taking each back and sending it again now and then.
async fn send_all<'a>(sender: Sender<Tracked<'a>>, alive: &'a AtomicUsize, mut rng: Rng) {
    for _ in 0..COUNT {
        let mut message = Some(Tracked::new(alive));
        while let Some(unsent) = message.take() {
            let mut send = pin!(sender.send(unsent));
            if rng.one_in(3) {
                if poll_once(send.as_mut()).await.is_none() {
                    yield_now().await;
                    message = send.cancel();
                }
            } else {
                assert!(send.await.is_ok());
            }
        }
    }
}

/// Receives until the channel is closed and drained, giving up and starting again now and then.
async fn receive_all(receiver: Receiver<Tracked<'_>>, mut rng: Rng) -> usize {
    let mut count = 0;
    loop {
        let mut recv = pin!(receiver.recv());
        let received = if rng.one_in(3) {
            let first = poll_once(recv.as_mut()).await;
            yield_now().await;
            match first {
                Some(received) => received,
                None => continue,
            }
        } else {
            recv.await
        };
        match received {
            Ok(_) => count += 1,
            Err(_) => return count,
        }
    }
}

fn check(capacity: usize) {
    let alive = AtomicUsize::new(0);
    let (sender, receiver) = bounded(capacity);
    let received: usize = thread::scope(|scope| {
        for id in 0..SENDERS {
            let (sender, alive) = (sender.clone(), &alive);
            let rng = Rng(SEED + id as u64);
            scope.spawn(move || block_on(send_all(sender, alive, rng)));
        }
        drop(sender);
        let receivers: Vec<_> = (0..RECEIVERS)
            .map(|id| {
                let receiver = receiver.clone();
                let rng = Rng(SEED * 31 + id as u64);
                scope.spawn(move || block_on(receive_all(receiver, rng)))
            })
            .collect();
        receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum()
    });
    assert_eq!(received, SENDERS * COUNT, "seed {SEED:#x}");
    assert_eq!(alive.load(Ordering::SeqCst), 0, "seed {SEED:#x}");
}

#[test]
fn random_cancels_lose_and_duplicate_nothing() {
    check(1);
    check(2);
    check(64);
}
