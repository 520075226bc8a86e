//! Wakers, and destructors of messages, that panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use super::*;
use crate::panics::tests::waker_that_panics;

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// Polls a future, to be woken by a waker that panics.
fn poll_with_bomb<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    let bomb = waker_that_panics();
    future.poll(&mut Context::from_waker(&bomb))
}

/// Streams hold no token: who comes behind them is told by the section after, whatever their wakers do.
#[test]
fn a_stream_whose_waker_panics_delays_nobody() {
    for count in [1, 2, 3] {
        let (sender, receiver) = bounded(4);
        let mut streams = vec![receiver.clone(); count];
        for stream in &mut streams {
            let mut next = stream.next();
            assert!(poll_with_bomb(Pin::new(&mut next)).is_pending());
        }
        let mut receive = Hand::new(receiver.recv()).pending();
        assert!(panics(|| sender.try_send(1).unwrap()));
        assert_eq!((receiver.len(), receive.wakes()), (1, 1));
        assert_eq!(receive.poll(), Poll::Ready(Ok(1)));
    }
}

/// Who receives tells the next receiver and a sender, both of whose wakers panic: the first panic is the one that is
/// seen.
#[test]
fn two_wakers_of_one_section_may_panic() {
    let (sender, receiver) = bounded(2);
    let mut first = Hand::new(receiver.recv()).pending();
    let mut second = Hand::new(receiver.recv()).pending();
    let mut third = Box::pin(receiver.recv());
    assert!(poll_with_bomb(third.as_mut()).is_pending());
    sender.try_send(1).unwrap();
    // Full: the first one is not relied on any more, and the second one is told.
    sender.try_send(2).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 1));
    let mut send = Box::pin(sender.send(3));
    assert!(poll_with_bomb(send.as_mut()).is_pending());
    assert!(panics(|| _ = second.poll()));
    // Both were told, and nothing is stuck.
    assert_eq!(first.poll(), Poll::Ready(Ok(2)));
    assert!(poll_with_bomb(send.as_mut()).is_ready());
    assert_eq!(receiver.try_recv(), Ok(3));
}

#[test]
fn the_last_receiver_drops_the_messages_though_a_waker_panics() {
    let probe = Arc::new(());
    let (sender, receiver) = bounded(1);
    sender.try_send(Arc::clone(&probe)).unwrap();
    let mut send = Box::pin(sender.send(Arc::clone(&probe)));
    assert!(poll_with_bomb(send.as_mut()).is_pending());
    assert!(panics(|| drop(receiver)));
    assert!(sender.is_closed());
    assert_eq!((Arc::strong_count(&probe), sender.len()), (2, 0));
}

/// They are in more than one chunk of the queue.
#[test]
fn the_last_receiver_drops_every_message_though_some_panic() {
    struct Message {
        panics: bool,
        _probe: Arc<()>,
    }
    impl Drop for Message {
        fn drop(&mut self) {
            assert!(!self.panics, "for the test, from a message");
        }
    }
    let probe = Arc::new(());
    let (sender, receiver) = unbounded();
    for number in 0..3000 {
        let message = Message {
            panics: [0, 1, 2000].contains(&number),
            _probe: probe.clone(),
        };
        assert!(sender.try_send(message).is_ok());
    }
    assert!(panics(|| drop(receiver)));
    assert!(sender.is_closed());
    assert_eq!((Arc::strong_count(&probe), sender.len()), (1, 0));
}

/// The waker of a stream drops the stream, before the next who waits was told: that is left to the drop, and its waker
/// panics.
#[test]
fn a_receiver_counts_no_more_though_a_waker_panics() {
    struct Drops(Mutex<Option<Receiver<u32>>>);
    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            let stream = self.0.lock().unwrap().take();
            drop(stream);
        }
    }
    let (sender, mut stream) = bounded(4);
    let other = stream.clone();
    let drops = Arc::new(Drops(Mutex::default()));
    let waker = Waker::from(Arc::clone(&drops));
    assert!(
        Pin::new(&mut stream)
            .poll_next(&mut Context::from_waker(&waker))
            .is_pending()
    );
    *drops.0.lock().unwrap() = Some(stream);
    let mut receive = Box::pin(other.recv());
    assert!(poll_with_bomb(receive.as_mut()).is_pending());
    assert!(panics(|| sender.try_send(1).unwrap()));
    assert_eq!(sender.receiver_count(), 1);
    drop(receive);
    drop(other);
    assert!(sender.is_closed(), "the last one is gone");
}

/// A sender that waits for room, and one that waits for the end, both with wakers that panic: a third is told all the
/// same.
#[test]
fn who_waits_for_the_end_is_told_though_wakers_panic() {
    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let (mut send, mut first) = (Box::pin(sender.send(1)), Box::pin(sender.closed()));
    assert!(poll_with_bomb(send.as_mut()).is_pending() && poll_with_bomb(first.as_mut()).is_pending());
    let second = Hand::new(sender.closed()).pending();
    assert!(panics(|| drop(receiver)));
    assert_eq!(second.wakes(), 1);
    block_on(first);
    // It is ready at once where the channel is closed.
    block_on(sender.closed());
}
