//! The channel by tokio's names: what a program that comes from there relies on. Nothing here names this crate but the
//! first `use`, so that the same source may be run with tokio's.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use quadrille::sync::mpsc::error::{SendError, SendTimeoutError, TryRecvError, TrySendError};
use quadrille::sync::mpsc::{
    OwnedPermit, Permit, Receiver, Sender, UnboundedReceiver, UnboundedSender, WeakSender, WeakUnboundedSender,
    channel, unbounded_channel,
};

use futures_lite::future::block_on;

use crate::count::Count;

/// Has no `Debug`, is no `Clone`.
struct Plain(u32);

/// Polls with a waker that counts.
fn poll<F: Future>(future: Pin<&mut F>, wakes: &Count) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&wakes.waker()))
}

/// The output of a future that has it at its first poll.
#[track_caller]
fn at_once<F: Future>(future: F) -> F::Output {
    match poll(pin!(future), &Count::default()) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn messages_come_in_the_order_in_which_they_were_sent_by_whichever_way() {
    let (sender, mut receiver) = channel(8);
    let other = sender.clone();
    at_once(sender.send(0)).unwrap();
    other.try_send(1).unwrap();
    at_once(sender.reserve()).unwrap().send(2);
    let other = at_once(other.reserve_owned()).unwrap().send(3);
    sender.try_reserve().unwrap().send(4);
    let other = other.try_reserve_owned().unwrap().send(5);
    sender.blocking_send(6).unwrap();
    other.downgrade().upgrade().unwrap().try_send(7).unwrap();
    drop((sender, other));
    assert_eq!(at_once(receiver.recv()), Some(0));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.blocking_recv(), Some(2));
    assert_eq!(at_once(poll_fn(|cx| receiver.poll_recv(cx))), Some(3));
    let mut rest = vec![100];
    assert_eq!(at_once(receiver.recv_many(&mut rest, 2)), 2);
    assert_eq!(receiver.blocking_recv_many(&mut rest, 1), 1);
    assert_eq!(at_once(poll_fn(|cx| receiver.poll_recv_many(cx, &mut rest, 9))), 1);
    assert_eq!(rest, [100, 4, 5, 6, 7], "after what was there");
    assert_eq!(at_once(receiver.recv()), None);
    assert_eq!(at_once(receiver.recv()), None, "and again");
    assert_eq!(receiver.blocking_recv(), None);
    assert_eq!(receiver.blocking_recv_many(&mut rest, 1), 0);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn an_unbounded_channel_takes_what_comes_at_once() {
    let (sender, mut receiver) = unbounded_channel();
    (0..10).for_each(|n| sender.send(n).unwrap());
    assert_eq!((receiver.len(), receiver.is_empty()), (10, false));
    sender.downgrade().upgrade().unwrap().send(10).unwrap();
    assert_eq!(at_once(receiver.recv()), Some(0));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.blocking_recv(), Some(2));
    assert_eq!(at_once(poll_fn(|cx| receiver.poll_recv(cx))), Some(3));
    let mut rest = Vec::new();
    assert_eq!(at_once(receiver.recv_many(&mut rest, 2)), 2);
    assert_eq!(receiver.blocking_recv_many(&mut rest, 2), 2);
    assert_eq!(at_once(poll_fn(|cx| receiver.poll_recv_many(cx, &mut rest, 9))), 3);
    assert!(rest.into_iter().eq(4..11));
    assert!(receiver.is_empty());
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert!(!sender.is_closed() && !receiver.is_closed());
    sender.send(11).unwrap();
    receiver.close();
    assert!(sender.is_closed() && receiver.is_closed());
    at_once(sender.closed());
    assert_eq!(sender.send(12), Err(SendError(12)));
    assert_eq!(at_once(receiver.recv()), Some(11), "it was inside");
    assert_eq!(at_once(receiver.recv()), None);
}

#[test]
#[should_panic]
fn a_channel_without_room_is_refused() {
    drop(channel::<u8>(0));
}

#[test]
fn the_capacity_is_what_is_left() {
    let (sender, mut receiver) = channel(3);
    let left = |receiver: &Receiver<u8>| {
        assert_eq!(sender.capacity(), receiver.capacity());
        assert_eq!((sender.max_capacity(), receiver.max_capacity()), (3, 3));
        (receiver.capacity(), receiver.len(), receiver.is_empty())
    };
    assert_eq!(left(&receiver), (3, 0, true));
    sender.try_send(1).unwrap();
    assert_eq!(left(&receiver), (2, 1, false));
    let permit = sender.try_reserve().unwrap();
    let owned = sender.clone().try_reserve_owned().unwrap();
    assert_eq!(left(&receiver), (0, 1, false), "permits count");
    drop(permit);
    assert_eq!(left(&receiver), (1, 1, false));
    drop(owned.send(2));
    assert_eq!(left(&receiver), (1, 2, false));
    drop(sender.clone().try_reserve_owned().unwrap().release());
    drop(sender.clone().try_reserve_owned().unwrap());
    assert_eq!(left(&receiver), (1, 2, false));
    assert_eq!(receiver.try_recv(), Ok(1));
    let mut rest = Vec::new();
    assert_eq!(at_once(receiver.recv_many(&mut rest, 8)), 1);
    assert_eq!(left(&receiver), (3, 0, true));
}

#[test]
fn who_finds_no_room_has_everything_back() {
    let (sender, _receiver) = channel(1);
    sender.try_send(Plain(1)).unwrap();
    assert!(matches!(sender.try_send(Plain(2)), Err(TrySendError::Full(Plain(2)))));
    assert!(matches!(sender.try_reserve(), Err(TrySendError::Full(()))));
    let other = sender.clone().try_reserve_owned().unwrap_err();
    assert!(matches!(&other, TrySendError::Full(_)));
    assert!(other.into_inner().same_channel(&sender));
}

#[test]
fn who_waits_for_room_is_told_in_turn() {
    let (sender, mut receiver) = channel(1);
    sender.try_send(1).unwrap();
    let wakes = Count::default();
    let mut sends = pin!(sender.send(2));
    assert!(poll(sends.as_mut(), &wakes).is_pending());
    let mut reserves = pin!(sender.reserve());
    assert!(poll(reserves.as_mut(), &wakes).is_pending());
    let mut owned = pin!(sender.clone().reserve_owned());
    assert!(poll(owned.as_mut(), &wakes).is_pending());
    assert_eq!((receiver.try_recv(), wakes.get()), (Ok(1), 1));
    assert_eq!(poll(sends, &wakes), Poll::Ready(Ok(())));
    assert_eq!((receiver.try_recv(), wakes.get()), (Ok(2), 2));
    at_once(reserves).unwrap().send(3);
    assert_eq!((receiver.try_recv(), wakes.get()), (Ok(3), 3));
    drop(at_once(owned).unwrap());
    assert_eq!(sender.capacity(), 1, "the last permit is gone");
}

#[test]
fn a_channel_that_is_closed_takes_what_was_promised() {
    let (sender, mut receiver) = channel(4);
    sender.try_send(1).unwrap();
    let (first, second) = (sender.try_reserve().unwrap(), sender.try_reserve().unwrap());
    let owned = sender.clone().try_reserve_owned().unwrap();
    receiver.close();
    receiver.close();
    assert!(receiver.is_closed() && sender.is_closed());
    assert_eq!(sender.try_send(9), Err(TrySendError::Closed(9)));
    assert_eq!(at_once(sender.send(9)), Err(SendError(9)));
    assert_eq!(sender.blocking_send(9), Err(SendError(9)));
    assert!(matches!(sender.try_reserve(), Err(TrySendError::Closed(()))));
    assert!(matches!(at_once(sender.reserve()), Err(SendError(()))));
    assert!(matches!(at_once(sender.clone().reserve_owned()), Err(SendError(()))));
    assert!(matches!(
        sender.clone().try_reserve_owned(),
        Err(TrySendError::Closed(_))
    ));
    assert_eq!(receiver.try_recv(), Ok(1));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "more is to come");

    let wakes = Count::default();
    let mut waits_until = |promised: &mut dyn FnMut()| {
        let mut recv = pin!(receiver.recv());
        assert!(poll(recv.as_mut(), &wakes).is_pending());
        let woken = wakes.get();
        promised();
        assert_eq!(wakes.get(), woken + 1);
        poll(recv, &wakes)
    };
    let (mut owned, mut first, mut second) = (Some(owned), Some(first), Some(second));
    assert_eq!(
        waits_until(&mut || drop(owned.take().unwrap().send(2))),
        Poll::Ready(Some(2))
    );
    assert_eq!(waits_until(&mut || first.take().unwrap().send(3)), Poll::Ready(Some(3)));
    assert_eq!(
        waits_until(&mut || drop(second.take())),
        Poll::Ready(None),
        "it was the last"
    );
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn who_waits_for_room_is_told_of_the_end() {
    let (sender, mut receiver) = channel(1);
    sender.try_send(1).unwrap();
    let wakes = Count::default();
    let mut sends = pin!(sender.send(2));
    let mut reserves = pin!(sender.reserve());
    let mut owned = pin!(sender.clone().reserve_owned());
    let mut closed = pin!(sender.closed());
    assert!(poll(sends.as_mut(), &wakes).is_pending());
    assert!(poll(reserves.as_mut(), &wakes).is_pending());
    assert!(poll(owned.as_mut(), &wakes).is_pending());
    assert!(poll(closed.as_mut(), &wakes).is_pending());
    receiver.close();
    assert_eq!(wakes.get(), 4);
    assert_eq!(poll(sends.as_mut(), &wakes), Poll::Ready(Err(SendError(2))));
    assert!(matches!(
        poll(reserves.as_mut(), &wakes),
        Poll::Ready(Err(SendError(())))
    ));
    assert!(matches!(poll(owned.as_mut(), &wakes), Poll::Ready(Err(SendError(())))));
    assert_eq!(poll(closed.as_mut(), &wakes), Poll::Ready(()));
    assert_eq!(at_once(receiver.recv()), Some(1));
    assert_eq!(at_once(receiver.recv()), None);
}

#[test]
fn the_receiver_drops_what_is_inside() {
    let drops = Count::default();
    let (sender, receiver) = channel(4);
    at_once(sender.send(drops.token())).unwrap();
    let permit = sender.try_reserve().unwrap();
    drop(receiver);
    assert_eq!(drops.get(), 1);
    assert!(sender.is_closed());
    at_once(sender.closed());
    permit.send(drops.token());
    drop(sender.try_send(drops.token()).unwrap_err());
    drop(sender);
    assert_eq!(drops.get(), 3);

    let (sender, receiver) = unbounded_channel();
    sender.send(drops.token()).unwrap();
    let wakes = Count::default();
    let mut closed = pin!(sender.closed());
    assert!(poll(closed.as_mut(), &wakes).is_pending());
    drop(receiver);
    assert_eq!((drops.get(), wakes.get()), (4, 1));
    drop(sender.send(drops.token()).unwrap_err().0);
    assert_eq!(drops.get(), 5);
}

#[test]
fn many_are_received_up_to_the_limit() {
    let (sender, mut receiver) = channel(200);
    let mut got = Vec::new();
    assert_eq!(at_once(receiver.recv_many(&mut got, 0)), 0, "though nothing is there");
    let wakes = Count::default();
    let mut recv = Box::pin(receiver.recv_many(&mut got, 150));
    assert!(poll(recv.as_mut(), &wakes).is_pending());
    (0..200).for_each(|n| sender.try_send(n).unwrap());
    assert_eq!(wakes.get(), 1);
    assert_eq!(poll(recv.as_mut(), &wakes), Poll::Ready(150));
    drop(recv);
    assert_eq!(at_once(receiver.recv_many(&mut got, 0)), 0);
    assert_eq!((receiver.len(), sender.capacity()), (50, 150));
    (200..350).for_each(|n| sender.try_send(n).unwrap());
    assert_eq!(at_once(poll_fn(|cx| receiver.poll_recv_many(cx, &mut got, 192))), 192);
    assert_eq!(receiver.blocking_recv_many(&mut got, usize::MAX), 8);
    drop(sender);
    assert_eq!(at_once(receiver.recv_many(&mut got, 5)), 0, "closed");
    assert_eq!(at_once(receiver.recv_many(&mut got, 0)), 0);
    assert!(got.into_iter().eq(0..350));

    let (sender, mut receiver) = unbounded_channel();
    let mut got = Vec::new();
    assert!(poll(pin!(receiver.recv_many(&mut got, 1000)), &wakes).is_pending());
    (0..1000).for_each(|n| sender.send(n).unwrap());
    assert_eq!(at_once(poll_fn(|cx| receiver.poll_recv_many(cx, &mut got, 300))), 300);
    assert_eq!(at_once(receiver.recv_many(&mut got, usize::MAX)), 700);
    assert!(got.into_iter().eq(0..1000));
}

#[test]
fn of_those_who_poll_the_last_is_woken() {
    let (first, second) = (Count::default(), Count::default());
    let (sender, mut receiver) = channel(2);
    let mut got = Vec::new();
    let poll_with =
        |receiver: &mut Receiver<u8>, wakes: &Count| receiver.poll_recv(&mut Context::from_waker(&wakes.waker()));
    assert!(poll_with(&mut receiver, &first).is_pending());
    assert!(poll_with(&mut receiver, &second).is_pending());
    sender.try_send(1).unwrap();
    assert_eq!((first.get(), second.get()), (0, 1));
    assert_eq!(poll_with(&mut receiver, &first), Poll::Ready(Some(1)));
    let many = receiver.poll_recv_many(&mut Context::from_waker(&first.waker()), &mut got, 2);
    assert!(many.is_pending());
    drop(sender);
    assert_eq!((first.get(), second.get()), (1, 1));
    let many = receiver.poll_recv_many(&mut Context::from_waker(&first.waker()), &mut got, 2);
    assert_eq!(many, Poll::Ready(0));
    assert_eq!(poll_with(&mut receiver, &first), Poll::Ready(None));
}

#[test]
fn weak_senders_keep_nothing_open() {
    let (sender, mut receiver) = channel(2);
    let counts = |receiver: &Receiver<u8>| (receiver.sender_strong_count(), receiver.sender_weak_count());
    assert_eq!(counts(&receiver), (1, 0));
    let weak = sender.downgrade();
    let second = weak.clone();
    let owned = sender.clone().try_reserve_owned().unwrap();
    assert_eq!(counts(&receiver), (2, 2), "a permit counts");
    assert_eq!((sender.strong_count(), sender.weak_count()), (2, 2));
    assert_eq!((weak.strong_count(), weak.weak_count()), (2, 2));
    drop((sender, second));
    assert_eq!(counts(&receiver), (1, 1));
    let sender = weak.upgrade().expect("the permit has one");
    assert!(owned.same_channel_as_sender(&sender));
    drop(owned);
    receiver.close();
    drop(weak.upgrade().expect("there is one, though the channel is closed"));
    drop(sender);
    assert!(weak.upgrade().is_none());
    assert_eq!(at_once(receiver.recv()), None);
    drop(receiver);
    assert_eq!((weak.strong_count(), weak.weak_count()), (0, 1));

    let (sender, mut receiver) = unbounded_channel::<u8>();
    let weak = sender.downgrade();
    let second = weak.upgrade().unwrap();
    assert!(second.same_channel(&sender));
    assert_eq!((sender.strong_count(), sender.weak_count()), (2, 1));
    assert_eq!((weak.strong_count(), weak.clone().weak_count()), (2, 2));
    assert_eq!((receiver.sender_strong_count(), receiver.sender_weak_count()), (2, 1));
    let wakes = Count::default();
    let mut recv = Box::pin(receiver.recv());
    assert!(poll(recv.as_mut(), &wakes).is_pending());
    drop((sender, second));
    assert_eq!(wakes.get(), 1);
    assert_eq!(poll(recv.as_mut(), &wakes), Poll::Ready(None));
    drop(recv);
    assert!(weak.upgrade().is_none() && receiver.is_closed());
}

#[test]
fn handles_know_their_channel() {
    let (sender, _receiver) = channel::<u8>(2);
    let (stranger, _receiver) = channel::<u8>(2);
    assert!(sender.same_channel(&sender.clone()) && !sender.same_channel(&stranger));
    let first = sender.clone().try_reserve_owned().unwrap();
    assert!(first.same_channel_as_sender(&sender) && !first.same_channel_as_sender(&stranger));
    assert!(first.same_channel(&sender.clone().try_reserve_owned().unwrap()));
    assert!(!first.same_channel(&stranger.try_reserve_owned().unwrap()));
    let ((one, _receiver), (other, _other_receiver)) = (unbounded_channel::<u8>(), unbounded_channel());
    assert!(one.same_channel(&one.clone()) && !one.same_channel(&other));
}

#[test]
fn who_is_dropped_while_it_waits_loses_no_place_and_no_message_of_others() {
    let wakes = Count::default();
    let drops = Count::default();
    let (sender, mut receiver) = channel(1);
    assert!(poll(pin!(receiver.recv()), &wakes).is_pending());
    let mut recv = Box::pin(receiver.recv());
    assert!(poll(recv.as_mut(), &wakes).is_pending());
    sender.try_send((1, drops.token())).unwrap();
    drop(recv);
    assert_eq!(at_once(receiver.recv()).unwrap().0, 1);
    assert_eq!(drops.get(), 1);

    sender.try_send((2, drops.token())).unwrap();
    let mut first = Box::pin(sender.send((3, drops.token())));
    assert!(poll(first.as_mut(), &wakes).is_pending());
    let mut second = Box::pin(sender.reserve());
    assert!(poll(second.as_mut(), &wakes).is_pending());
    let third_wakes = Count::default();
    let mut third = Box::pin(sender.send((4, drops.token())));
    assert!(poll(third.as_mut(), &third_wakes).is_pending());
    drop(at_once(receiver.recv()));
    drop(first);
    assert_eq!(drops.get(), 3, "the message went with the future");
    drop(second);
    assert_eq!(third_wakes.get(), 1, "the place was handed on");
    assert!(poll(third.as_mut(), &third_wakes).is_ready());
    assert_eq!(at_once(receiver.recv()).unwrap().0, 4);
}

/// What a `Debug` and a `Display` say of something whose message has neither.
fn texts<E: std::error::Error>(error: &E) -> bool {
    !format!("{error:?}").is_empty() && !error.to_string().is_empty() && error.source().is_none()
}

#[test]
fn errors_say_what_happened_and_have_the_message() {
    assert!(texts(&SendError(Plain(1))));
    for error in [TrySendError::Full(Plain(2)), TrySendError::Closed(Plain(2))] {
        assert!(texts(&error));
        assert_eq!(error.into_inner().0, 2);
    }
    for error in [SendTimeoutError::Timeout(Plain(3)), SendTimeoutError::Closed(Plain(3))] {
        assert!(texts(&error));
        assert_eq!(error.into_inner().0, 3);
    }
    assert!(texts(&TryRecvError::Empty) && texts(&TryRecvError::Disconnected));
    assert_ne!(TrySendError::Full(1).to_string(), TrySendError::Closed(1).to_string());
    assert!(format!("{:?}", TrySendError::Full(1)).contains("Full(..)"));
    assert!(format!("{:?}", SendTimeoutError::Timeout(1)).contains("Timeout(..)"));
    assert_eq!(TrySendError::from(SendError(4)), TrySendError::Closed(4));
    let by_question_mark = || -> Result<(), TrySendError<u8>> { Ok(Err(SendError(5))?) };
    assert_eq!(by_question_mark(), Err(TrySendError::Closed(5)));
}

/// What there is to be had of a handle by whoever knows no more than its type.
/// Sends what finds a place whenever it is woken.
struct Refills(Sender<u32>);

impl Wake for Refills {
    fn wake(self: Arc<Self>) {
        while self.0.try_send(2).is_ok() {}
    }
}

/// Though each message that is taken makes room for another: who receives comes to an end.
#[test]
fn no_more_than_the_capacity_comes_at_once() {
    for capacity in [64, 100] {
        let (sender, mut receiver) = channel(capacity);
        for _ in 0..capacity {
            sender.try_send(0).unwrap();
        }
        let mut waits = pin!(sender.send(1));
        let waker = Waker::from(Arc::new(Refills(sender.clone())));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let mut messages = Vec::new();
        assert_eq!(at_once(receiver.recv_many(&mut messages, usize::MAX)), capacity);
        assert_eq!(messages, vec![0; capacity]);
    }
}

fn has<T: fmt::Debug + Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>(handle: &T) -> bool {
    !format!("{handle:?}").is_empty()
}

fn may_be_sent<T: Send>(value: T) -> T {
    value
}

/// A message that may be sent, and neither shared nor printed.
#[test]
fn handles_and_futures_go_where_their_messages_may() {
    struct Cell(#[expect(dead_code, reason = "for its markers")] std::cell::Cell<u8>);
    let (sender, mut receiver) = channel::<Cell>(2);
    let weak: WeakSender<Cell> = sender.downgrade();
    let permit: Permit<'_, Cell> = sender.try_reserve().unwrap();
    let owned: OwnedPermit<Cell> = sender.clone().try_reserve_owned().unwrap();
    assert!(has::<Sender<Cell>>(&sender) && has::<Receiver<Cell>>(&receiver));
    assert!(has(&weak) && has(&permit) && has(&owned));
    drop((permit, owned));
    drop(may_be_sent(sender.send(Cell(0.into()))));
    drop(may_be_sent(sender.reserve()));
    drop(may_be_sent(sender.clone().reserve_owned()));
    drop(may_be_sent(sender.closed()));
    drop(may_be_sent(receiver.recv()));
    drop(may_be_sent(receiver.recv_many(&mut Vec::new(), 1)));

    let (sender, receiver) = unbounded_channel::<Cell>();
    let weak: WeakUnboundedSender<Cell> = sender.downgrade();
    assert!(has::<UnboundedSender<Cell>>(&sender) && has::<UnboundedReceiver<Cell>>(&receiver) && has(&weak));
}

#[test]
fn ordinary_threads_sleep_while_they_wait() {
    let (sender, mut receiver) = channel(2);
    let threads = [0, 1, 2].map(|id| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            for n in 0..100 {
                match n % 2 {
                    0 => sender.blocking_send((id, n)).unwrap(),
                    _ => block_on(sender.reserve()).unwrap().send((id, n)),
                }
            }
        })
    });
    drop(sender);
    let mut next = [0; 3];
    let mut batch = Vec::new();
    while receiver.blocking_recv_many(&mut batch, 3) > 0 {
        batch.extend(receiver.blocking_recv());
        for (id, n) in batch.drain(..) {
            assert_eq!(n, next[id], "in the order of its sender");
            next[id] += 1;
        }
    }
    assert_eq!(next, [100; 3]);
    for thread in threads {
        thread.join().unwrap();
    }
}
