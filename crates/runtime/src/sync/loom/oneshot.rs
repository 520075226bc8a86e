//! The same for one message.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use loom::thread::spawn;

use super::check;
use crate::primitives::UnsafeCell;
use crate::sync::block::block_on;
use crate::sync::oneshot;

#[test]
fn oneshot_delivers() {
    check(4, || {
        let (sender, receiver) = oneshot::channel();
        let thread = spawn(move || sender.send(5).unwrap());
        assert_eq!(block_on(receiver), Ok(5));
        thread.join().unwrap();
    });
}

#[test]
fn oneshot_learns_that_the_other_side_went() {
    check(4, || {
        let (sender, receiver) = oneshot::channel::<()>();
        let thread = spawn(move || drop(sender));
        assert!(block_on(receiver).is_err());
        thread.join().unwrap();

        let (mut sender, receiver) = oneshot::channel::<()>();
        let thread = spawn(move || drop(receiver));
        block_on(sender.closed());
        assert!(sender.send(()).is_err());
        thread.join().unwrap();
    });
}

/// Whoever is told that the other side ended sees what came before that: by a first look, the last of a first wait, or
/// one with another waker.
#[test]
fn oneshot_end_is_ordered_after_what_came_before() {
    check(4, || {
        let (mut sender, receiver) = oneshot::channel::<()>();
        let note = Arc::new(UnsafeCell::new(0));
        let written = Sent(Arc::clone(&note));
        let thread = spawn(move || {
            drop(written);
            drop(receiver);
        });
        let other = Waker::from(Arc::new(Silent));
        for waker in [Waker::noop(), &other] {
            if sender.poll_closed(&mut Context::from_waker(waker)).is_ready() {
                // SAFETY: what the receiver's thread did before comes before its end, by Oneshot.
                assert_eq!(note.with(|n| unsafe { *n }), 1);
                break;
            }
        }
        thread.join().unwrap();
    });
}

/// Both sides wait, the receiver with one waker and then another, and end, by a message or without: nobody keeps a
/// waker, and none is called by both.
#[test]
fn oneshot_keeps_no_waker() {
    check(4, || {
        let wakers = [(); 3].map(|()| Arc::new(Silent));
        let [first, second, third] = wakers.clone().map(Waker::from);
        let (mut sender, mut receiver) = oneshot::channel();
        let thread = spawn(move || {
            let _ = sender.poll_closed(&mut Context::from_waker(&first));
            sender.send(1).is_ok()
        });
        let mut received = false;
        for waker in [second, third] {
            let poll = Pin::new(&mut receiver).poll(&mut Context::from_waker(&waker));
            received |= poll == Poll::Ready(Ok(1));
        }
        receiver.close();
        received |= receiver.try_recv().is_ok();
        assert_eq!(thread.join().unwrap(), received);
        assert!(wakers.iter().all(|waker| Arc::strong_count(waker) == 1));
    });
}

/// The waker of nobody.
struct Silent;

impl Wake for Silent {
    fn wake(self: Arc<Self>) {}
}

/// The last waker is called, not the one before.
#[test]
fn oneshot_wakes_who_waits_last() {
    check(4, || {
        let (sender, mut receiver) = oneshot::channel();
        let thread = spawn(move || sender.send(1).unwrap());
        let early = Pin::new(&mut receiver).poll(&mut Context::from_waker(Waker::noop()));
        if early.is_pending() {
            assert_eq!(block_on(receiver), Ok(1));
        }
        thread.join().unwrap();
    });
}

#[test]
fn oneshot_is_received_without_a_wait() {
    check(4, || {
        let (sender, mut receiver) = oneshot::channel();
        let note = Arc::new(UnsafeCell::new(0));
        let written = Sent(Arc::clone(&note));
        let thread = spawn(move || {
            drop(written);
            sender.send(1).is_ok()
        });
        if !receiver.is_empty() {
            // SAFETY: what the sender's thread did before comes before its message, by Oneshot.
            assert_eq!(note.with(|n| unsafe { *n }), 1);
        }
        let message = receiver.try_recv().ok();
        assert!(message.is_none_or(|message| message == 1));
        drop(receiver);
        assert!(thread.join().unwrap() || message.is_none());
    });
}

/// A wait for the receiver's end that is given up while that ends.
#[test]
fn oneshot_wait_is_given_up() {
    check(4, || {
        let waker = Arc::new(Silent);
        let (mut sender, receiver) = oneshot::channel::<()>();
        let thread = spawn(move || drop(receiver));
        let _ = pin!(sender.closed()).poll(&mut Context::from_waker(&Waker::from(Arc::clone(&waker))));
        drop(sender);
        thread.join().unwrap();
        assert_eq!(Arc::strong_count(&waker), 1);
    });
}

#[test]
fn oneshot_message_is_received_or_given_back() {
    check(4, || {
        let (sender, mut receiver) = oneshot::channel();
        let thread = spawn(move || sender.send(1).is_ok());
        receiver.close();
        let received = receiver.try_recv().is_ok();
        assert_eq!(thread.join().unwrap(), received);
    });
}

/// Dropped by the receiver, or given back: once, and seen as it was sent.
#[test]
fn oneshot_message_is_dropped_with_the_receiver_or_given_back() {
    check(4, || {
        let (sender, receiver) = oneshot::channel();
        let probe = Arc::new(UnsafeCell::new(0));
        let sent = Sent(Arc::clone(&probe));
        let thread = spawn(move || {
            // SAFETY: nobody else has it yet.
            sent.0.with_mut(|n| unsafe { *n += 1 });
            drop(sender.send(sent));
        });
        drop(receiver);
        thread.join().unwrap();
        // SAFETY: whoever had it is gone.
        assert_eq!(probe.with(|n| unsafe { *n }), 2);
    });
}

/// A message that counts its end.
struct Sent(Arc<UnsafeCell<i32>>);

// SAFETY: one thread has it at a time, says the theorem that is tested.
unsafe impl Send for Sent {}

impl Drop for Sent {
    fn drop(&mut self) {
        // SAFETY: as above.
        self.0.with_mut(|n| unsafe { *n += 1 });
    }
}
