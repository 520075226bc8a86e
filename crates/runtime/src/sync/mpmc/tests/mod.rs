//! Behaviour of the channel through its public side.

mod exhaustive;
mod forgotten;
mod panics;
mod permits;
mod stress;
mod threads;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_core::Stream;
use futures_lite::StreamExt;
use futures_lite::future::{block_on, poll_once};

use super::state::{Outcome, State};
use super::*;

/// Counts its wake-ups.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that is polled by hand.
struct Hand<F> {
    future: Pin<Box<F>>,
    count: Arc<Count>,
}

impl<F: Future> Hand<F> {
    fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            count: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.count));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls, and expects nothing yet.
    fn pending(mut self) -> Self {
        assert!(self.poll().is_pending());
        self
    }

    fn wakes(&self) -> usize {
        self.count.wakes()
    }
}

#[test]
fn messages_keep_their_order() {
    let (sender, receiver) = bounded(3);
    for round in 0..10 {
        (0..3).for_each(|n| sender.try_send((round, n)).unwrap());
        (0..3).for_each(|n| assert_eq!(receiver.try_recv(), Ok((round, n))));
    }
}

#[test]
fn capacity_is_honoured() {
    for capacity in [1, 2, 63, 64, 65, 655, 3000] {
        let (sender, receiver) = bounded(capacity);
        (0..capacity).for_each(|n| sender.try_send(n).unwrap());
        assert!(sender.is_full() && receiver.is_full());
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
        assert_eq!((sender.len(), sender.capacity()), (capacity, Some(capacity)));
        assert_eq!(receiver.try_recv(), Ok(0));
        assert_eq!(receiver.len(), capacity - 1);
        sender.try_send(1).unwrap();
    }
    assert_eq!(unbounded::<()>().0.capacity(), None);
}

#[test]
#[should_panic(expected = "room for at least one")]
fn no_room_at_all_is_refused() {
    let _ = bounded::<()>(0);
}

#[test]
fn one_place_is_enough_for_a_waiting_sender() {
    let (sender, receiver) = bounded(64);
    (0..64).for_each(|n| sender.try_send(n).unwrap());
    let mut send = Hand::new(sender.send(64)).pending();
    assert_eq!(receiver.try_recv(), Ok(0));
    assert_eq!(send.wakes(), 1);
    assert_eq!(send.poll(), Poll::Ready(Ok(())));
}

#[test]
fn closed_channel_refuses_and_drains() {
    for close_by_receiver in [false, true] {
        let (sender, receiver) = bounded(2);
        sender.try_send(1).unwrap();
        assert!(if close_by_receiver {
            receiver.close()
        } else {
            sender.close()
        });
        assert!(!sender.close() && !receiver.close());
        assert!(sender.is_closed() && receiver.is_closed());
        assert_eq!(sender.try_send(2), Err(TrySendError::Closed(2)));
        assert_eq!(block_on(sender.send(2)), Err(SendError(2)));
        assert_eq!(sender.send_blocking(2), Err(SendError(2)));
        assert_eq!(block_on(receiver.recv()), Ok(1));
        assert_eq!(block_on(receiver.recv()), Err(RecvError));
        assert_eq!(receiver.recv_blocking(), Err(RecvError));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
    }
}

#[test]
fn close_wakes_everyone_in_more_than_one_batch() {
    let (sender, receiver) = bounded::<u8>(1);
    let mut receives: Vec<_> = (0..100).map(|_| Hand::new(receiver.recv()).pending()).collect();
    sender.close();
    assert!(
        receives
            .iter_mut()
            .all(|r| r.wakes() == 1 && r.poll() == Poll::Ready(Err(RecvError)))
    );

    let (sender, receiver) = bounded(1);
    sender.try_send(0).unwrap();
    let mut sends: Vec<_> = (0..100).map(|n| Hand::new(sender.send(n)).pending()).collect();
    receiver.close();
    for (n, send) in sends.iter_mut().enumerate() {
        assert_eq!((send.wakes(), send.poll()), (1, Poll::Ready(Err(SendError(n)))));
    }
    assert_eq!(receiver.try_recv(), Ok(0));
}

#[test]
fn last_handle_closes() {
    let (sender, receiver) = unbounded::<u8>();
    let (second, other) = (sender.clone(), receiver.clone());
    assert_eq!((sender.sender_count(), sender.receiver_count()), (2, 2));
    assert!(sender.same_channel(&second) && receiver.same_channel(&other));
    drop((sender, other));
    assert!(!second.is_closed());
    let mut waiting = Hand::new(receiver.recv()).pending();
    drop(second);
    assert_eq!(waiting.poll(), Poll::Ready(Err(RecvError)));
}

#[test]
fn every_message_is_dropped_once() {
    let probe = Arc::new(());
    let (sender, receiver) = bounded(2);
    sender.try_send(Arc::clone(&probe)).unwrap();
    sender.try_send(Arc::clone(&probe)).unwrap();
    let waiting = Hand::new(sender.send(Arc::clone(&probe))).pending();
    assert_eq!(Arc::strong_count(&probe), 4);
    drop(waiting);
    assert_eq!(Arc::strong_count(&probe), 3);
    drop(receiver.try_recv());
    assert_eq!(Arc::strong_count(&probe), 2);
    drop(receiver);
    assert_eq!(Arc::strong_count(&probe), 1, "the last receiver drops what is inside");
    assert!(sender.try_send(Arc::clone(&probe)).is_err());
    drop(sender);
    assert_eq!(Arc::strong_count(&probe), 1);
}

#[test]
fn cancelled_send_gives_the_message_back() {
    let (sender, receiver) = bounded(1);
    let mut send = pin!(sender.send(1));
    assert_eq!(send.as_mut().cancel(), Some(1), "never polled");
    let mut send = pin!(sender.send(2));
    assert!(block_on(poll_once(send.as_mut())).is_some());
    assert_eq!(send.cancel(), None, "sent");
    let mut send = pin!(sender.send(3));
    assert!(block_on(poll_once(send.as_mut())).is_none());
    assert_eq!(send.cancel(), Some(3), "waiting");
    assert_eq!(receiver.try_recv(), Ok(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn dropped_receive_hands_its_turn_on() {
    let (sender, receiver) = bounded(1);
    let first = Hand::new(receiver.recv()).pending();
    let mut second = Hand::new(receiver.recv()).pending();
    sender.try_send(1).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    drop(first);
    assert_eq!(second.wakes(), 1);
    assert_eq!(second.poll(), Poll::Ready(Ok(1)));
}

#[test]
fn a_burst_wakes_few_and_each_wakes_the_next() {
    let (sender, receiver) = bounded(64);
    let mut receives: Vec<_> = (0..10).map(|_| Hand::new(receiver.recv()).pending()).collect();
    (0..10).for_each(|n| sender.try_send(n).unwrap());
    assert_eq!(receives.iter().map(Hand::wakes).sum::<usize>(), 1);
    for (n, receive) in receives.iter_mut().enumerate() {
        assert_eq!((receive.wakes(), receive.poll()), (1, Poll::Ready(Ok(n))));
    }
}

#[test]
fn overtaken_waiter_is_first_again() {
    let (sender, receiver) = bounded(1);
    let mut first = Hand::new(receiver.recv()).pending();
    let second = Hand::new(receiver.recv()).pending();
    sender.try_send(1).unwrap();
    assert_eq!(receiver.try_recv(), Ok(1));
    let mut first = {
        assert!(first.poll().is_pending(), "somebody else was faster");
        first
    };
    sender.try_send(2).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (2, 0));
    assert_eq!(first.poll(), Poll::Ready(Ok(2)));
}

#[test]
fn renewed_waker_is_the_one_that_is_called() {
    let (sender, receiver) = bounded(1);
    let mut receive = Hand::new(receiver.recv()).pending();
    let old = std::mem::take(&mut receive.count);
    assert!(receive.poll().is_pending());
    assert_eq!(Arc::strong_count(&old), 1, "the old waker is gone");
    sender.try_send(1).unwrap();
    assert_eq!((old.wakes(), receive.wakes()), (0, 1));
    drop(receive);
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn batches_are_bounded_and_complete() {
    let (sender, receiver) = unbounded();
    (0..200).for_each(|n| sender.try_send(n).unwrap());
    let mut got = Vec::new();
    assert_eq!(block_on(receiver.recv_many(&mut got, 0)), Ok(0));
    assert_eq!(block_on(receiver.recv_many(&mut got, 5)), Ok(5));
    while got.len() < 200 {
        let before = got.len();
        let count = block_on(receiver.recv_many(&mut got, usize::MAX)).unwrap();
        assert!((1..=64).contains(&count));
        assert_eq!(got.len(), before + count);
    }
    assert!(got.iter().copied().eq(0..200));
    assert!(block_on(poll_once(receiver.recv_many(&mut got, 1))).is_none());
    drop(sender);
    assert_eq!(block_on(receiver.recv_many(&mut got, 1)), Err(RecvError));
}

#[test]
fn a_batch_that_is_waited_for_takes_memory_when_it_comes() {
    let (sender, receiver) = unbounded();
    let mut got = Vec::new();
    let mut receive = Box::pin(receiver.recv_many(&mut got, 1000));
    assert!(block_on(poll_once(receive.as_mut())).is_none());
    drop(receive);
    assert_eq!(got.capacity(), 0);
    (0..3).for_each(|n| sender.try_send([n; 4096]).unwrap());
    assert_eq!(block_on(receiver.recv_many(&mut got, 1000)), Ok(3));
    assert!(got.capacity() < 64);
}

/// A message comes between the look at how many are inside and the attempt: nothing of that is seen from outside but in
/// the outcome.
#[test]
fn a_batch_without_room_is_not_waited_for() {
    let mut state = State::new(usize::MAX);
    assert_eq!(state.take_many(&mut Vec::new(), 9), (Outcome::NotNow, 0));
    assert_eq!(state.put(&mut Some(1)), Outcome::Done);
    assert_eq!(state.take_many(&mut Vec::new(), 9), (Outcome::Done, 0));
    assert_eq!(state.take_many(&mut Vec::with_capacity(1), 9), (Outcome::Done, 1));
}

#[test]
fn a_batch_makes_room_for_every_waiting_sender() {
    let (sender, receiver) = bounded(2);
    (0..2).for_each(|n| sender.try_send(n).unwrap());
    let mut sends: Vec<_> = (2..4).map(|n| Hand::new(sender.send(n)).pending()).collect();
    assert_eq!(block_on(receiver.recv_many(&mut Vec::new(), 9)), Ok(2));
    assert!(
        sends
            .iter_mut()
            .all(|send| send.wakes() == 1 && send.poll() == Poll::Ready(Ok(())))
    );
}

#[test]
fn a_receiver_is_polled_until_nothing_comes_any_more() {
    let (sender, mut receiver) = bounded(2);
    let count: Arc<Count> = Arc::default();
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    assert!(receiver.poll_recv(&mut cx).is_pending());
    sender.try_send(1).unwrap();
    assert_eq!(count.wakes(), 1);
    assert_eq!(receiver.poll_recv(&mut cx), Poll::Ready(Ok(1)));
    assert!(receiver.poll_recv(&mut cx).is_pending());
    drop(sender);
    assert_eq!(count.wakes(), 2);
    assert_eq!(receiver.poll_recv(&mut cx), Poll::Ready(Err(RecvError)));
}

#[test]
fn receiver_is_a_stream() {
    let (sender, mut receiver) = bounded(2);
    let count: Arc<Count> = Arc::default();
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    assert!(Pin::new(&mut receiver).poll_next(&mut cx).is_pending());
    let mut other = Hand::new({
        let receiver = receiver.clone();
        async move { receiver.recv().await }
    })
    .pending();
    sender.try_send(1).unwrap();
    assert_eq!(count.wakes(), 1);
    drop(receiver);
    assert_eq!(other.poll(), Poll::Ready(Ok(1)), "a dropped stream hands its turn on");

    let (sender, receiver) = bounded(2);
    sender.try_send(1).unwrap();
    sender.try_send(2).unwrap();
    drop(sender);
    assert_eq!(block_on(receiver.collect::<Vec<_>>()), [1, 2]);
}

/// A `next` with a time-out polls the stream once and tells nobody that it has lost interest.
#[test]
fn stream_that_is_left_alone_delays_nobody() {
    let (sender, mut receiver) = bounded(16);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut receiver).poll_next(&mut cx).is_pending());
    let mut first = Hand::new(receiver.recv()).pending();
    let mut second = Hand::new(receiver.recv()).pending();
    sender.try_send(1).unwrap();
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    assert_eq!(first.poll(), Poll::Ready(Ok(1)));
    sender.try_send(2).unwrap();
    assert_eq!(second.wakes(), 1);
    assert_eq!(second.poll(), Poll::Ready(Ok(2)));
}

#[test]
fn messages_of_any_size() {
    let (sender, receiver) = bounded(1000);
    (0..1000).for_each(|_| sender.try_send(()).unwrap());
    assert!(sender.try_send(()).unwrap_err().is_full());
    assert_eq!(block_on(receiver.recv_many(&mut Vec::new(), 1000)), Ok(64));
    assert_eq!(receiver.len(), 936);

    let (sender, receiver) = unbounded();
    (0..10_u8).for_each(|n| sender.try_send([n; 50_000]).unwrap());
    (0..10_u8).for_each(|n| assert!(block_on(receiver.recv()).unwrap() == [n; 50_000]));
}

#[test]
#[should_panic(expected = "after it had ended")]
fn ended_send_is_not_polled_again() {
    let (sender, _receiver) = bounded(1);
    let mut send = Hand::new(sender.send(1));
    assert!(send.poll().is_ready());
    let _ = send.poll();
}

#[test]
fn handles_and_futures_move_between_threads() {
    fn movable<T: std::marker::Send + Sync>(_: &T) {}
    let (sender, receiver) = bounded(1);
    movable(&sender);
    movable(&receiver);
    movable(&sender.send(1));
    movable(&receiver.recv());
    let text = format!("{sender:?} {receiver:?} {:?} {:?}", sender.send(1), receiver.recv());
    assert!(
        text.starts_with("Sender { len: 0, capacity: Some(1) } Receiver"),
        "{text}"
    );
}

#[test]
fn a_future_that_is_kept_after_its_end_holds_no_token() {
    let (sender, receiver) = bounded(8);
    let mut first = Hand::new(receiver.recv()).pending();
    sender.try_send(1).unwrap();
    assert_eq!(first.wakes(), 1, "told, with the token");
    assert_eq!(first.poll(), Poll::Ready(Ok(1)));
    let second = Hand::new(receiver.recv()).pending();
    sender.try_send(2).unwrap();
    assert_eq!(second.wakes(), 1);
    drop(first);
}

#[test]
fn a_waker_of_a_user_is_not_cloned_inside_the_lock() {
    use std::task::{RawWaker, RawWakerVTable};

    /// Its clone uses the channel, as a user's may.
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the pointer is to the sender below, which outlives every waker.
            let sender = unsafe { &*data.cast::<Sender<u32>>() };
            sender.try_send(7).unwrap();
            RawWaker::new(data, &TABLE)
        },
        |_| {},
        |_| {},
        |_| {},
    );
    let (sender, receiver) = bounded(8);
    let data = RawWaker::new((&raw const sender).cast(), &TABLE);
    // SAFETY: the functions are safe to call from anywhere, and the sender outlives the waker.
    let waker = unsafe { Waker::from_raw(data) };
    let mut recv = pin!(receiver.recv());
    let received = recv.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(received, Poll::Ready(Ok(7)), "found by the second attempt");
}

#[test]
fn a_receive_that_moves_to_another_task_wakes_that_one() {
    let runtime = crate::Runtime::builder().worker_threads(1).build().unwrap();
    let (sender, receiver) = bounded::<u32>(1);
    let receiver: &'static Receiver<u32> = Box::leak(Box::new(receiver));
    let mut recv = Box::pin(receiver.recv());
    let received = runtime.block_on(async move {
        let first = crate::spawn(async move {
            assert!(
                poll_once(recv.as_mut()).await.is_none(),
                "waits, with a waker of this task"
            );
            Some(recv)
        });
        let mut recv = first.await.unwrap().unwrap();
        let (waits, waited) = bounded(1);
        let second = crate::spawn(async move {
            assert!(
                poll_once(recv.as_mut()).await.is_none(),
                "waits, with a waker of that one"
            );
            waits.send(()).await.unwrap();
            recv.await
        });
        waited.recv().await.unwrap();
        sender.send(5).await.unwrap();
        second.await.unwrap()
    });
    assert_eq!(received, Ok(5));
}
